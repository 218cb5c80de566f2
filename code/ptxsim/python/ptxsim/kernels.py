"""PTX kernels on arrays of the host: loading, launches, and reports of faults."""
import ctypes
import functools
import json
import os
import pathlib
import re
import struct
import threading
import warnings
from array import array as array_of_python
from dataclasses import dataclass

from .native import folder

CHECKS = ("off", "memory", "all", "mine", "strict")  # numbered as in capi.h
MOST_SHARED = 227 * 1024  # most bytes of dynamic shared memory of a CTA, on an H200


class PTXError(ValueError):
    """PTX cannot be read; the message has its line, and what is wrong there."""


@dataclass(frozen=True)
class Report:
    """One fault. `kind` is "race", "out of bounds", "misaligned", "uninitialised", "deadlock", "endless", "divergent barrier",
    "trap", "assert", "unsupported", "interrupted" or "internal". `file` and `line` are those of the source; None: the PTX has
    no line numbers. For a line inside Triton's own language they are the line that calls it, and `inside` is "FILE:LINE" of
    the inner one. `callers`: the lines at which the function is inlined, innermost first. `block` and `thread` are (x, y, z);
    None: no thread is to blame."""
    kind: str
    kernel: str
    file: "str | None"
    line: "int | None"
    inside: "str | None"
    callers: "tuple[str, ...]"
    block: "tuple[int, int, int] | None"
    thread: "tuple[int, int, int] | None"
    text: str

    def __str__(self):
        where = f"{self.file}:{self.line}: " if self.file else ""
        who = ", ".join([self.kernel, *([f"in {self.inside}"] if self.inside else []), *(f"called at {c}" for c in self.callers)])
        if self.thread:
            who += ", block ({},{},{}), thread ({},{},{})".format(*self.block, *self.thread)
        return f"{where}error: [{self.kind}] {who}: {self.text}"


class _Told:
    """Base of Fault and FaultWarning: has `reports`, a list of Report."""

    def __init__(self, reports):
        self.reports = list(reports)
        super().__init__("\n".join(map(str, self.reports)))


class Fault(_Told, RuntimeError):
    """A launch had faults, listed in `reports`. The arrays contain what the kernel stored until then."""


class FaultWarning(_Told, RuntimeWarning):
    """A launch had faults, as a warning instead of an exception (faults="warn")."""


def _report(kernel, record):
    told = json.loads(record)  # a record that fault_write (ptxsim.h) has written
    places = [f"{told['file']}:{told['line']}", *told["callers"]] if "file" in told else []
    own = next((i for i, place in enumerate(places) if "/triton/language/" not in place), 0)
    file, _, line = places[own].rpartition(":") if places else (None, None, 0)
    block, thread = (tuple(told[which]) if which in told else None for which in ("block", "thread"))
    return Report(told["kind"], told.get("kernel", kernel), file, int(line) or None, places[0] if own else None,
                  tuple(places[own + 1:]), block, thread, told["what"])


# ---- The library --------------------------------------------------------------------------------

_ON_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


class _Order(ctypes.Structure):  # the same as struct ptxsim_launch in C
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("cluster", ctypes.c_uint * 3),
                ("dynamic_shared_bytes", ctypes.c_uint32), ("check", ctypes.c_uint32), ("schedule", ctypes.c_uint32),
                ("threads", ctypes.c_uint32), ("budget", ctypes.c_uint64), ("params", ctypes.c_char_p),
                ("report", _ON_REPORT), ("stop", ctypes.POINTER(ctypes.c_uint8))]


@functools.lru_cache(maxsize=None)
def library():
    """libptxsim.so, with the types of capi.h."""
    path = folder() / "libptxsim.so"
    if not path.exists():
        raise FileNotFoundError(f"{path}: the simulator is not built: make build/ptxsim/libptxsim.so, or pip install the package")
    lib = ctypes.CDLL(str(path))
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
            ("load", pointer, (text, text, size)), ("unload", None, (pointer,)), ("kernel", pointer, (pointer, size)),
            ("kernel_name", text, (pointer,)), ("param_bytes", size, (pointer,)),
            ("param", ctypes.c_bool, (pointer, size, pointer, pointer)), ("max_threads", ctypes.c_int, (pointer,)),
            ("cluster", None, (pointer, pointer)), ("alloc", ctypes.c_uint64, (size, pointer)),
            ("copy", size, (pointer, ctypes.c_uint64, size)), ("free", None, (ctypes.c_uint64,)),
            ("tensor_map", text, (pointer, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint64, pointer, pointer, pointer,
                                  ctypes.c_uint, ctypes.c_bool)),
            ("launch", size, (pointer, ctypes.POINTER(_Order), pointer)), ("counter", text, (size,))):
        function = getattr(lib, "ptxsim_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


@functools.lru_cache(maxsize=None)
def _counters():
    names = []
    while (name := library().ptxsim_counter(len(names))):
        names.append(name.decode())
    return names


# ---- Arguments ----------------------------------------------------------------------------------

class unwritten:
    """An argument whose elements are not copied to the device: there they are memory never written, as after cudaMalloc. A
    kernel that reads an element before it is written is reported; elements that stay unwritten come back as bytes 0xff."""

    def __init__(self, array):
        self.array = array


class _Host:
    """Where an array is in the host's memory. The array: numpy's, array.array, or one with numpy's __array_interface__."""

    def __init__(self, array):
        if isinstance(array, array_of_python):
            self.address, length = array.buffer_info()
            self.shape, self.strides, self.itemsize, self.writeable = (length,), (array.itemsize,), array.itemsize, True
        else:
            self.address, read_only = array.__array_interface__["data"]
            self.shape, self.strides, self.itemsize, self.writeable = array.shape, array.strides, array.itemsize, not read_only
        # The range of all elements: the lowest address, and the highest + 1.
        self.low = self.high = self.address
        for length, stride in zip(self.shape, self.strides):
            self.low, self.high = self.low + min(0, (length - 1) * stride), self.high + max(0, (length - 1) * stride)
        self.high += self.itemsize
        self.empty = 0 in self.shape


def is_array(value):
    """Whether an argument is an array; a number with an array's interface, such as numpy.float32(1), is none."""
    return isinstance(value, array_of_python) or (hasattr(value, "__array_interface__") and hasattr(value, "__setitem__"))


def array_of(argument):
    """The array behind an argument; None if it is not an array."""
    if isinstance(argument, unwritten) or hasattr(argument, "tensor_map"):
        argument = argument.array
    return argument if is_array(argument) else None


class Memory:
    """The arrays of one launch on the device. Each has a copy there; arrays that overlap share one. The copies exist inside a
    `with`; before that, an address is an offset in the allocation to be made."""

    def __init__(self, arguments):
        self.arrays = [(_Host(array_of(a)), array_of(a), isinstance(a, unwritten)) for a in arguments if array_of(a) is not None]
        self.spans = []  # lowest host address, highest + 1, whether writeable, unwritten; device address
        for host, _, is_unwritten in sorted(self.arrays, key=lambda a: a[0].low):
            if host.empty:
                continue
            if self.spans and host.low < self.spans[-1][1]:
                low, high, writeable, all_unwritten, _ = self.spans[-1]
                self.spans[-1] = [low, max(high, host.high), writeable or host.writeable, is_unwritten and all_unwritten, 0]
            else:
                self.spans.append([host.low, host.high, host.writeable, is_unwritten, 0])

    def __enter__(self):
        try:
            for span in self.spans:
                span[4] = library().ptxsim_alloc(span[1] - span[0], None if span[3] else span[0])
                if not span[4]:
                    raise MemoryError(f"no memory for an array of {span[1] - span[0]} bytes on the simulated device")
        except MemoryError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for span in self.spans:
            if span[4]:
                library().ptxsim_free(span[4])

    def address(self, array):
        at = _Host(array).address
        for low, high, _, _, base in self.spans:
            if low <= at < high:
                return base + at - low
        return 0  # an array without elements

    def take_back(self):
        """Copies arrays back to the host, except read-only ones. Stops at a read-only array that the kernel has written to,
        and returns it; None: there is none."""
        for low, high, writeable, _, base in self.spans:
            if writeable:
                library().ptxsim_copy(low, base, high - low)
                continue
            now = ctypes.create_string_buffer(high - low)
            library().ptxsim_copy(now, base, high - low)
            if now.raw != ctypes.string_at(low, high - low):
                return next(array for host, array, _ in self.arrays if low <= host.low < high)
        return None


@dataclass(frozen=True)
class Param:
    """A parameter of a kernel: its PTX type (".u64", ".f32"; for a struct, ".b8[24]"), and its place in the buffer."""
    name: str
    type: str
    offset: int
    bytes: int


def _types(ptx, kernel):
    """The types and names of a kernel's parameters, as its .entry declares them."""
    m = re.search(r"\.entry\s+" + re.escape(kernel) + r"\s*\(([^)]*)\)", ptx)
    types = []
    for one in (m[1].split(",") if m and m[1].strip() else []):
        name, _, length = one.split()[-1].partition("[")
        kind = re.search(r"\.(?:[usbf](?:8|16|32|64)|f16x2|pred)\b", one)
        types.append((name, (kind[0] if kind else "") + (f"[{length}" if length else "")))
    return types


def _described(value):
    array = array_of(value)
    if array is not None:
        return f"an array of {getattr(array, 'dtype', None) or array.typecode}, shape {_Host(array).shape}"
    return f"{type(value).__name__} {value!r:.40}"


def tensor_map(where, kind, address, dims, strides, box, swizzle, fill_nan):
    """The 128 bytes of a CUtensorMap (capi.h); ValueError says what is wrong."""
    made, u64, u32 = ctypes.create_string_buffer(128), ctypes.c_uint64, ctypes.c_uint32
    wrong = library().ptxsim_tensor_map(made, kind, len(dims), address, (u64 * len(dims))(*dims), (u64 * len(dims))(*strides),
                                        (u32 * len(dims))(*box), swizzle, fill_nan)
    if wrong:
        raise ValueError(f"{where}, a tensor descriptor: {wrong.decode()}")
    return made.raw


def pack(where, param, value, memory):
    """The bytes of an argument. If it does not fit, raises TypeError or ValueError, which say what would fit."""
    def wrong(what):
        return TypeError(f"{where} ({param.name}) is {param.type}, {param.bytes} bytes: {what}, not {_described(value)}")

    array, number = array_of(value), value
    if hasattr(value, "tensor_map"):  # a tensor descriptor (triton.py)
        value = value.tensor_map(where, memory.address(array))
    elif array is None and hasattr(value, "item") and hasattr(value, "dtype"):  # a number of numpy
        number = value.item()
    if isinstance(value, (bytes, bytearray, ctypes.Structure, ctypes.Array)):
        if len(bytes(value)) != param.bytes:
            raise wrong(f"give {param.bytes} bytes")
        return bytes(value)
    if param.type.endswith("]"):
        raise wrong("give a struct's bytes (bytes, ctypes.Structure)")
    if array is not None:
        if param.bytes != 8 or param.type[1] == "f":
            raise wrong("give a number")
        return struct.pack("<Q", memory.address(array))
    if value is None and param.bytes == 8 and param.type[1] != "f":
        return bytes(8)  # None: a null pointer
    if not isinstance(number, (int, float)):
        raise wrong("give a number" + (", or an array, for a pointer" if param.bytes == 8 else ""))
    if param.type in (".f32", ".f64"):
        try:
            return struct.pack("<f" if param.bytes == 4 else "<d", number)
        except OverflowError:
            raise ValueError(f"{where} ({param.name}) is {param.type}: {number} does not fit") from None
    if isinstance(number, float):
        if hasattr(value, "tobytes") and value.itemsize == param.bytes and param.type[1] == "b":
            return value.tobytes()
        raise wrong("give an integer")
    bits = 8 * param.bytes
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise ValueError(f"{where} ({param.name}) is {param.type}: {number} does not fit into {bits} bits")
    return (number & (1 << bits) - 1).to_bytes(param.bytes, "little")


# ---- Modules, kernels, launches -----------------------------------------------------------------

@dataclass(frozen=True)
class Launch:
    """The result of a launch. `counts`: for each counter's name (counts.def: "barriers", "global_load_sectors") its sum over
    the launch. `reports`: its faults; empty unless faults="warn"."""
    counts: dict
    reports: list


def _three(what, value):
    sides = (value,) if isinstance(value, int) or not hasattr(value, "__len__") else tuple(value)
    if not 1 <= len(sides) <= 3 or not all(hasattr(s, "__index__") for s in sides):
        raise TypeError(f"{what} is {value!r}: give an integer, or up to three of them")
    sides = tuple(s.__index__() for s in sides) + (1,) * (3 - len(sides))
    if not all(1 <= s < 1 << 31 for s in sides):
        raise ValueError(f"{what} is {value!r}: its sides are 1 to 2147483647")
    return sides


def _interruptibly(work, stop):
    """Runs `work`, which ends soon after `stop` is set, and returns or raises what it does. Python handles signals in the
    main thread only, and not during a call of C: so another thread does the work, and Ctrl-C can end it."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = []

    def run():
        try:
            done.append((work(), None))
        except BaseException as e:
            done.append((None, e))

    thread = threading.Thread(target=run)
    try:
        thread.start()
        thread.join()
    except BaseException:
        stop.value = 1
        if thread.is_alive():
            thread.join()
        raise
    result, error = done[0]
    if error:
        raise error
    return result


class Kernel:
    """An entry of a module. `kernel[grid, block](*arguments)` and `kernel[grid, block, shared](*arguments)` run it to its
    end: grid and block are integers or up to three of them, x first, shared is bytes of dynamic shared memory.

    Arguments, one for each of `params`: for a pointer, an array (numpy's, array.array), which is copied to the device and back
    with its strides (arrays that overlap share a copy), or None for a null pointer; integers and floats, which must fit; bytes
    or a ctypes.Structure for a struct. Raises TypeError, ValueError, and Fault; with faults="warn", warns with FaultWarning."""

    def __init__(self, module, handle):
        lib = library()
        self.module, self._handle = module, handle
        self.name = lib.ptxsim_kernel_name(handle).decode()
        self.max_threads = lib.ptxsim_max_threads(handle)  # most threads of a CTA, as the PTX says
        types, offset, size = _types(module.ptx, self.name), ctypes.c_size_t(), ctypes.c_size_t()
        self.params = []
        while lib.ptxsim_param(handle, len(self.params), ctypes.byref(offset), ctypes.byref(size)):
            name, kind = types[len(self.params)] if len(self.params) < len(types) else ("", f".b{8 * size.value}")
            self.params.append(Param(name, kind, offset.value, size.value))

    def __getitem__(self, configuration):
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 3:
            raise TypeError(f"{self.name}[…]: give [grid, block] or [grid, block, bytes of dynamic shared memory]")
        return lambda *arguments: self.launch(*configuration, arguments=arguments)

    def launch(self, grid, block, shared=0, arguments=(), cluster=None):
        """Runs `kernel[grid, block, shared](*arguments)`. cluster: CTAs of a cluster, for a kernel that does not set them."""
        most = self.max_threads
        grid, block = _three(f"{self.name}: grid", grid), _three(f"{self.name}: block", block)
        if block[0] * block[1] * block[2] > most:
            raise ValueError(f"{self.name}: block {block} has {block[0] * block[1] * block[2]} threads: at most {most}")
        if not hasattr(shared, "__index__") or not 0 <= shared <= MOST_SHARED:
            raise ValueError(f"{self.name}: {shared!r} bytes of dynamic shared memory: 0 to {MOST_SHARED}")
        if len(arguments) != len(self.params):
            raise TypeError(f"{self.name} takes {len(self.params)} arguments "
                            f"({', '.join(f'{p.type} {p.name}' for p in self.params)}), not {len(arguments)}")
        order = _Order(grid, block, self._cluster(cluster, grid), shared, CHECKS.index(self.module.check), self.module.schedule,
                       self.module.threads, self.module.budget)
        stop = ctypes.c_uint8(0)
        order.stop = ctypes.pointer(stop)
        reports, counts, read_only = _interruptibly(lambda: self._run(order, arguments), stop)
        if reports and self.module.faults == "raise":
            raise Fault(reports)
        if reports:
            warnings.warn(FaultWarning(reports), stacklevel=3)
        if read_only is not None:
            raise ValueError(f"{self.name} has written {_described(read_only)} that numpy says is read-only: give a copy")
        return Launch(counts, reports)

    def _run(self, order, arguments):
        """Runs the grid. Returns reports, counts, and a read-only array that was written to, or None."""
        lib, told, counts = library(), [], (ctypes.c_uint64 * len(_counters()))()
        with Memory(arguments) as memory:
            params = bytearray(lib.ptxsim_param_bytes(self._handle))
            for i, (param, argument) in enumerate(zip(self.params, arguments)):
                params[param.offset:param.offset + param.bytes] = pack(f"{self.name}: argument {i}", param, argument, memory)
            order.params = bytes(params)
            order.report = _ON_REPORT(told.append)
            lib.ptxsim_launch(self._handle, ctypes.byref(order), counts)
            read_only = memory.take_back()
        return [_report(self.name, record) for record in told], dict(zip(_counters(), counts)), read_only

    def _cluster(self, cluster, grid):
        own = (ctypes.c_uint * 3)()
        library().ptxsim_cluster(self._handle, own)
        shape = tuple(own) if own[0] else _three(f"{self.name}: cluster", cluster) if cluster else (0, 0, 0)
        if own[0] and cluster and _three(f"{self.name}: cluster", cluster) != shape:
            raise ValueError(f"{self.name}: clusters of {cluster}, where the kernel says {shape}")
        if shape[0] and (shape[0] * shape[1] * shape[2] > 16 or any(g % c for g, c in zip(grid, shape))):
            raise ValueError(f"{self.name}: a grid of {grid} CTAs in clusters of {shape}: at most 16, and none left over")
        return shape


def _setting(name, value, most):
    if value is None:
        value = os.environ.get("PTXSIM_" + name.upper()) or 0
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {value!r}: a whole number up to {most}")
    return number


class Module:
    """Loaded PTX. `module["name"]` is a Kernel: by its mangled name or, if only one has it, by its name in the source."""

    def __init__(self, ptx, check=None, faults="raise", schedule=None, threads=None, budget=None):
        self._handle = None
        self.ptx, self.faults = ptx, faults
        self.check = check or os.environ.get("PTXSIM_CHECK") or "all"
        if self.check not in CHECKS:
            raise ValueError(f"check is {self.check!r}: one of {', '.join(CHECKS)}")
        if faults not in ("raise", "warn"):
            raise ValueError(f'faults is {faults!r}: "raise" or "warn"')
        self.schedule = _setting("schedule", schedule, 2**32 - 1)
        self.threads = _setting("threads", threads, 1024)
        self.budget = _setting("budget", budget, 2**63 - 1)
        why = ctypes.create_string_buffer(512)
        self._handle = library().ptxsim_load(ptx.encode(), why, len(why))
        if not self._handle:
            raise PTXError(why.value.decode(errors="replace"))
        self._kernels = {}
        while (handle := library().ptxsim_kernel(self._handle, len(self._kernels))):
            kernel = Kernel(self, handle)
            self._kernels[kernel.name] = kernel

    def __del__(self):
        if self._handle:
            library().ptxsim_unload(self._handle)

    @property
    def kernels(self):
        """The mangled names."""
        return list(self._kernels)

    def __getitem__(self, name):
        found = [name] if name in self._kernels else [k for k in self._kernels if k.startswith("_Z") and f"{len(name)}{name}" in k]
        if len(found) == 1:
            return self._kernels[found[0]]
        raise KeyError(f"{len(found)} kernels are called {name!r}: the module has {', '.join(self._kernels) or 'none'}")


def load(ptx, check=None, faults="raise", schedule=None, threads=None, budget=None):
    """Loads PTX, a text or the path of a file. Returns a Module: `load(ptx)["name"][grid, block](*arguments)`.

    check     "off": bounds and alignment only; "memory": also reads of memory never written; "all": also races; "mine":
              like "all" without races inside the toolkit's headers; "strict": like "all", and an atomic operation orders
              nothing without a fence. None: $PTXSIM_CHECK, or "all"
    faults    "raise": a launch with faults raises Fault; "warn": it warns with FaultWarning
    schedule  number of an order of the warps' turns, 0: in turn; None: $PTXSIM_SCHEDULE, or 0
    threads   threads of the host, 0: one for each core; None: $PTXSIM_THREADS, or 0
    budget    warp instructions after which a launch is stopped, 0: no limit; None: $PTXSIM_BUDGET, or 0

    Raises PTXError (with the PTX's line), ValueError for an unknown setting, FileNotFoundError."""
    if isinstance(ptx, bytes):
        ptx = ptx.decode()
    if isinstance(ptx, os.PathLike) or ".version" not in ptx:
        ptx = pathlib.Path(ptx).read_text()
    return Module(ptx, check, faults, schedule, threads, budget)
