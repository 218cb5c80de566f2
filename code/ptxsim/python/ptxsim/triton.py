"""Runs Triton's kernels on numpy arrays in the simulator, compiled for sm_80 … sm_90 by the wheel `triton`; needs no GPU, no PyTorch.

    import numpy, triton, triton.language as tl, ptxsim.triton

    @triton.jit
    def scale(out, x, factor, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, factor * tl.load(x + i, i < n), i < n)

    x, out = numpy.ones(1000, numpy.float32), numpy.zeros(1000, numpy.float32)
    ptxsim.triton.run(scale, (4,), out, x, 2.5, 1000, BLOCK=256, arch=90)
    ptxsim.triton.simulated(scale, arch=80)[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](out, x, 2.5, 1000, BLOCK=256)

The type of the array gives that of the elements: numpy has float32, int32, float16 and the like; for bfloat16,
float8_e4m3fn and float8_e5m2 take an array of `ml_dtypes`, or `view(array, "bfloat16")` of an array of integers of the
same width. A fault names the line of the Python source. Tried with Triton 3.3.1, 3.7.1 and 3.9.0; in 3.3,
@triton.autotune needs a GPU.
"""
import contextlib
import inspect

from .kernels import Memory, Module, array_of, is_array, tensor_map, unwritten

# Most bytes of shared memory of a CTA, by compute capability (CUDA Programming Guide, compute
# capabilities).
SHARED_MOST = {80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10}


class _DType(str):
    """The name of an element type, such as "bfloat16", with the attributes that Triton expects of torch's types."""
    itemsize = property(lambda self: 1 if self == "bool" else int("".join(c for c in self.split("_")[0] if c.isdigit())) // 8)
    is_floating_point = property(lambda self: "float" in self)


class _Tensor:
    """What Triton's compiler has to know of an array: its type, and how its address is aligned."""

    def __init__(self, array, dtype=None):
        plain = array_of(array)
        self.array = array
        self.dtype = _DType(dtype or plain.dtype.name)
        self.address = 0  # compiled() sets it to the array's address on the device
        self.shape, self.itemsize = plain.shape, plain.itemsize
        self._strides = plain.strides

    def data_ptr(self):
        return self.address

    def stride(self, dim=None):
        strides = tuple(s // self.itemsize for s in self._strides)
        return strides if dim is None else strides[dim]


def view(array, dtype):
    """An argument: an array of integers whose bits are elements of another type of that width: "bfloat16", "float8_e4m3fn"."""
    if not is_array(array):
        raise TypeError(f"view: a numpy array, not {type(array).__name__}")
    if _DType(dtype).itemsize != array.itemsize:
        raise TypeError(f"view: {dtype} has {_DType(dtype).itemsize} bytes, an element of {array.dtype} {array.itemsize}")
    return _Tensor(array, dtype)


def descriptor(array, block_shape, padding="zero"):
    """An argument: Triton's TensorDescriptor of an array (or `view`), with tiles of shape `block_shape`; on sm_90, TMA uses it."""
    from triton.tools.tensor_descriptor import TensorDescriptor
    tensor = array if isinstance(array, _Tensor) else _Tensor(array)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(block_shape), padding)


class _Driver:
    """A driver for Triton that only lets it compile, without launches."""

    def __init__(self, arch):
        from triton.backends.compiler import GPUTarget
        self.target = GPUTarget("cuda", arch, 32)
        # Not the number of a GPU: Triton caches what it compiles by this number.
        self.device = 1000 + arch

    get_current_device = lambda self: self.device
    set_current_device = lambda self, device: None
    get_current_stream = lambda self, device=None: 0
    get_current_target = lambda self: self.target
    get_device_capability = lambda self, device=None: divmod(self.target.arch, 10)
    # Nothing is timed here: triton.autotune takes its first configuration.
    get_benchmarker = lambda self: lambda kernel_call, quantiles=None, **_: [0.0] * len(quantiles or [0])


@contextlib.contextmanager
def _driver(arch):
    from triton.runtime import driver
    # "_active" since Triton 3.4, where .active is made when it is first asked for.
    slot = "_active" if hasattr(driver, "_active") else "active"
    before = vars(driver)[slot]
    driver.set_active(_Driver(arch))
    try:
        yield
    finally:
        setattr(driver, slot, before)


def _wrapped(value):
    if array_of(value) is not None and not isinstance(value, _Tensor):
        return _Tensor(value)
    if isinstance(value, tuple):
        return type(value)(*map(_wrapped, value)) if hasattr(value, "_fields") else tuple(map(_wrapped, value))
    return value


def _tensors(values):
    for value in values:
        if isinstance(value, _Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)
        elif type(value).__name__ == "TensorDescriptor":
            yield value.base


def compiled(kernel, *args, arch=90, **kwargs):
    """Triton's CompiledKernel that `run` would launch for these arguments (`.asm["ptx"]`), and the arguments by name."""
    import triton
    from triton.runtime.jit import JITFunction
    if arch not in SHARED_MOST:
        raise ValueError(f"arch is {arch!r}: one of {', '.join(map(str, SHARED_MOST))}")
    function = kernel
    while not isinstance(function, JITFunction):
        if not hasattr(function, "fn"):
            raise TypeError(f"{kernel!r} is no kernel of Triton: give a function with @triton.jit")
        function = function.fn
    args, kwargs = [_wrapped(a) for a in args], {name: _wrapped(a) for name, a in kwargs.items()}
    tensors = list(_tensors([*args, *kwargs.values()]))
    memory = Memory([t.array for t in tensors])
    for t in tensors:
        t.address = memory.address(array_of(t.array))
    with _driver(arch):
        made = kernel.run(*args, grid=(1,), warmup=True, **kwargs)
    if hasattr(made, "result"):
        made = made.result()
    parameters = inspect.signature(function.fn).parameters
    values = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    values.update(zip(function.arg_names, args))
    values.update((name, value) for name, value in kwargs.items() if name in parameters)
    for path, value in made.src.constants.items():
        path = path if isinstance(path, tuple) else (path,)
        if len(path) == 1:
            name = path[0] if isinstance(path[0], str) else function.arg_names[path[0]]
            values[name] = value.value if isinstance(value, triton.language.constexpr) else value
    return made, values


def _flat(kind, value, meta):
    """Yields the PTX kernel's arguments for one argument of the function, of type `kind`."""
    if kind == "constexpr":
        return
    if isinstance(kind, (tuple, list)):
        for k, v in zip(kind, value):
            yield from _flat(k, v, meta)
    elif kind.startswith("tensordesc"):
        shape, strides = list(value.shape), list(value.strides)
        if meta:
            yield _TensorMap(value, meta.pop(0))
        else:
            yield from [value.base.array, *shape, *strides, value.padding == "nan"]
            if hasattr(value, "round_f32_to_tf32"):
                yield value.round_f32_to_tf32
        yield from shape + strides
    else:
        yield value.array if isinstance(value, _Tensor) else value


class _TensorMap:
    """A TensorDescriptor that becomes a CUtensorMap when its array has an address (kernels.pack)."""
    SWIZZLES = (0, 32, 64, 128)
    # CUtensorMapDataType for each of Triton's numbers of element types.
    KINDS = dict(enumerate(range(16))) | {8: 10, 9: 8, 10: 9}

    def __init__(self, value, meta):
        self.value, self.meta, self.array = value, meta, value.base.array

    def tensor_map(self, where, address):
        shape, strides = list(self.value.shape)[::-1], list(self.value.strides)[::-1]
        return tensor_map(where, self.KINDS[self.meta["elem_type"]], address, shape,
                          [s * self.meta["elem_size"] for s in strides[1:]], list(self.meta["block_size"])[::-1],
                          self.SWIZZLES[self.meta["swizzle"]], self.value.padding == "nan")


_modules = {}  # loaded modules, by PTX text and the arguments of `load`


def run(kernel, grid, *args, arch=90, check=None, faults="raise", schedule=None, threads=None, budget=None, **kwargs):
    """Compiles `kernel`, a function with @triton.jit, for compute capability `arch`, and runs it; returns a ptxsim.Launch.

    grid      up to three integers, or a function that returns them, given the arguments by name
    *args, **kwargs  as in `kernel[grid](*args, **kwargs)`, including num_warps= and num_stages=, with numpy arrays instead
              of tensors: these are copied to the simulated device, and back after the launch. `view`, `descriptor` and
              `ptxsim.unwritten` make arguments of arrays
    arch      80, 86, 87, 89 or 90
    check, faults, schedule, threads, budget  as in ptxsim.load

    @triton.autotune takes its first configuration. Raises what Triton's compiler raises, TypeError and ValueError for
    arguments and settings, ptxsim.Fault."""
    made, values = compiled(kernel, *args, arch=arch, **kwargs)
    if callable(grid):
        grid = grid({name: v.array if isinstance(v, _Tensor) else v for name, v in values.items()})
    meta = made.metadata
    if meta.shared > SHARED_MOST[arch]:
        raise ValueError(f"{meta.name}: {meta.shared} bytes of shared memory, where a CTA of sm_{arch} has {SHARED_MOST[arch]}: "
                         "smaller blocks, or fewer stages (num_stages)")
    key = made.asm["ptx"], check, faults, schedule, threads, budget
    module = _modules.get(key) or _modules.setdefault(key, Module(*key))
    entry = module[meta.name]
    tensordescs = list(getattr(meta, "tensordesc_meta", None) or [])
    flat = [a for name, kind in made.src.signature.items() for a in _flat(kind, values.get(name), tensordescs)]
    ctas = getattr(meta, "num_ctas", 1)
    sides = tuple(grid) + (1,) * (3 - len(grid)) if hasattr(grid, "__len__") else (grid, 1, 1)
    # Parameters that Triton's launcher adds: scratch memory, and the profiler's.
    scratch = [None] * (len(entry.params) - len(flat))
    if scratch and getattr(meta, "global_scratch_size", 0):
        import numpy
        scratch[0] = unwritten(numpy.empty(sides[0] * sides[1] * sides[2] * ctas * meta.global_scratch_size, numpy.uint8))
    return entry.launch((sides[0] * ctas, *sides[1:]), entry.max_threads, meta.shared, [*flat, *scratch],
                        cluster=(ctas, 1, 1) if ctas > 1 else None)


class simulated:
    """`simulated(kernel, arch=90)[grid](*args, **kwargs)`: Triton's own spelling for `run`."""

    def __init__(self, kernel, **settings):
        self.kernel, self.settings = kernel, settings

    def __getitem__(self, grid):
        return lambda *args, **kwargs: run(self.kernel, grid, *args, **{**self.settings, **kwargs})
