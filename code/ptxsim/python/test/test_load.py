"""ptxsim.load: launches of kernels.ptx, refusals, reports. Needs neither numpy nor Triton."""
import ctypes
import os
import signal
import struct
import threading
import unittest
import warnings
from array import array
from pathlib import Path

import ptxsim

PTX = Path(__file__).with_name("kernels.ptx")
CU = PTX.with_suffix(".cu").read_text().splitlines()


def line_of(text):
    return next(i for i, line in enumerate(CU, 1) if text in line)


class Line(ctypes.Structure):
    _fields_ = [("slope", ctypes.c_float), ("shift", ctypes.c_int), ("offset", ctypes.c_double)]


class Strided:
    """A view of some elements of an array, like numpy's."""

    def __init__(self, base, first, shape, strides, read_only=False, typecode="f"):
        self.base, self.shape, self.strides, self.itemsize, self.dtype = base, shape, strides, base.itemsize, typecode
        self.__array_interface__ = {"data": (base.buffer_info()[0] + first * base.itemsize, read_only)}

    __setitem__ = None


class Launches(unittest.TestCase):
    def setUp(self):
        self.module = ptxsim.load(PTX)

    def test_arrays_and_a_struct(self):
        x, out = array("f", range(100)), array("f", [0] * 100)
        launch = self.module["apply"][(4, 1), 32](out, x, Line(2, 0, 1), 100)
        self.assertEqual(list(out), [2 * v + 1 for v in x])
        self.assertEqual(list(x), list(range(100)))
        self.assertEqual((launch.counts["global_load_bytes"], launch.counts["global_store_bytes"], launch.reports), (400, 400, []))
        self.module["apply"][4, 32](out, x, struct.pack("<fid", 3, 0, 0), 100)
        self.assertEqual(list(out), [3 * v for v in x])

    def test_numbers(self):
        out = array("B", [0] * 32)
        self.module["keep"][1, 1](out, True, -2, 2**32 - 1, -2**63, 1.5, -2.5)
        self.assertEqual(struct.unpack("<?xhIqf4xd", bytes(out)), (True, -2, 2**32 - 1, -2**63, 1.5, -2.5))

    def test_dynamic_shared_memory_and_a_plain_name(self):
        x = array("i", range(64))
        self.module["reversed"][1, 64, 256](x, 64)
        self.assertEqual(list(x), list(range(63, -1, -1)))
        self.assertEqual(self.module["reversed"].name, "_Z8reversedIiEvPT_i")
        with self.assertRaises(ptxsim.Fault) as caught:
            self.module["reversed"][1, 64, 128](x, 64)
        self.assertEqual(caught.exception.reports[0].kind, "out of bounds")

    def test_text_and_bytes(self):
        self.assertEqual(ptxsim.load(PTX.read_text()).kernels, ptxsim.load(PTX.read_bytes()).kernels)
        self.assertEqual(sorted(self.module.kernels), ["_Z8reversedIiEvPT_i", "apply", "count_lost", "endless", "keep"])

    def test_arrays_that_overlap_share_memory(self):
        base = array("f", range(40))
        out, x = Strided(base, 0, (10,), (4,)), Strided(base, 5, (10,), (4,))
        self.module["apply"][10, 1](out, x, Line(1, 0, 100), 1)
        self.assertEqual(list(base), [105, *range(1, 40)])
        backwards = Strided(base, 9, (10,), (-4,))  # its first element is at the highest address
        self.module["apply"][1, 1](backwards, backwards, Line(0, 0, 7), 1)
        self.assertEqual((base[9], base[8]), (7, 8))
        # Arrays side by side that do not overlap get separate memory.
        with self.assertRaises(ptxsim.Fault):
            self.module["apply"][1, 1](Strided(base, 0, (10,), (4,)), Strided(base, 10, (10,), (4,)), Line(1, -1, 0), 1)

    def test_read_only_arrays(self):
        base, out = array("f", range(8)), array("f", [0] * 8)
        self.module["apply"][1, 8](out, Strided(base, 0, (8,), (4,), read_only=True), Line(1, 0, 0), 8)
        self.assertEqual(out, base)
        with self.assertRaisesRegex(ValueError, r"apply has written an array of f, shape \(8,\) that numpy says is read-only: give a copy"):
            self.module["apply"][1, 8](Strided(base, 0, (8,), (4,), read_only=True), out, Line(2, 0, 0), 8)
        self.assertEqual(list(base), list(range(8)))

    def test_from_several_threads(self):
        outs = [array("f", [0] * 64) for _ in range(8)]
        x = array("f", range(64))
        threads = [threading.Thread(target=lambda i=i: self.module["apply"][2, 32](outs[i], x, Line(i, 0, 0), 64)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual([o[63] for o in outs], [63 * i for i in range(8)])


class Refused(unittest.TestCase):
    def setUp(self):
        self.module = ptxsim.load(PTX)
        self.apply, self.keep = self.module["apply"], self.module["keep"]
        self.x = array("f", range(8))

    def refuses(self, error, text, call):
        with self.assertRaises(error) as caught:
            call()
        self.assertEqual(str(caught.exception), text)

    def test_arguments(self):
        x, line = self.x, Line(1, 0, 0)
        self.refuses(TypeError, "apply takes 4 arguments (.u64 apply_param_0, .u64 apply_param_1, .b8[16] apply_param_2, "
                                ".u32 apply_param_3), not 3", lambda: self.apply[1, 8](x, x, line))
        self.refuses(TypeError, "apply: argument 3 (apply_param_3) is .u32, 4 bytes: give an integer, not float 8.0",
                     lambda: self.apply[1, 8](x, x, line, 8.0))
        self.refuses(TypeError, "apply: argument 3 (apply_param_3) is .u32, 4 bytes: give a number, not an array of f, shape (8,)",
                     lambda: self.apply[1, 8](x, x, line, x))
        self.refuses(TypeError, "apply: argument 0 (apply_param_0) is .u64, 8 bytes: give a number, or an array, for a pointer, not str 'x'",
                     lambda: self.apply[1, 8]("x", x, line, 8))
        self.refuses(TypeError, "apply: argument 2 (apply_param_2) is .b8[16], 16 bytes: give 16 bytes, not bytes b'12'",
                     lambda: self.apply[1, 8](x, x, b"12", 8))
        self.refuses(TypeError, "apply: argument 2 (apply_param_2) is .b8[16], 16 bytes: give a struct's bytes (bytes, ctypes.Structure), not int 1",
                     lambda: self.apply[1, 8](x, x, 1, 8))
        self.refuses(ValueError, "keep: argument 2 (keep_param_2) is .u16: 70000 does not fit into 16 bits",
                     lambda: self.keep[1, 1](x, True, 70000, 0, 0, 0, 0))
        self.refuses(ValueError, "keep: argument 5 (keep_param_5) is .f32: 1e+40 does not fit",
                     lambda: self.keep[1, 1](x, True, 0, 0, 0, 1e40, 0))

    def test_configurations(self):
        x = self.x
        call = lambda *c: lambda: self.apply[c](x, x, Line(1, 0, 0), 8)
        self.refuses(TypeError, "apply[…]: give [grid, block] or [grid, block, bytes of dynamic shared memory]", call(1))
        self.refuses(TypeError, "apply: grid is '1': give an integer, or up to three of them", call("1", 1))
        self.refuses(ValueError, "apply: grid is (1, 0): its sides are 1 to 2147483647", call((1, 0), 1))
        self.refuses(ValueError, "apply: block (64, 32, 1) has 2048 threads: at most 1024", call(1, (64, 32)))
        self.refuses(ValueError, "apply: 300000 bytes of dynamic shared memory: 0 to 232448", call(1, 1, 300000))

    def test_modules(self):
        self.refuses(KeyError, repr("0 kernels are called 'applies': the module has apply, keep, _Z8reversedIiEvPT_i, count_lost, endless"),
                     lambda: self.module["applies"])
        with self.assertRaisesRegex(ptxsim.PTXError, "PTX line 5: .* was expected"):
            ptxsim.load(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 p\n{ ret; }")
        self.refuses(ValueError, "check is 'none': one of off, memory, all, mine, strict", lambda: ptxsim.load(PTX, check="none"))
        self.refuses(ValueError, """faults is 'print': "raise" or "warn\"""", lambda: ptxsim.load(PTX, faults="print"))
        self.refuses(ValueError, "budget is -1: a whole number up to 9223372036854775807", lambda: ptxsim.load(PTX, budget=-1))
        with self.assertRaises(FileNotFoundError):
            ptxsim.load("nowhere.ptx")

    def test_environment(self):
        os.environ["PTXSIM_CHECK"], os.environ["PTXSIM_BUDGET"] = "off", "99"
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("PTXSIM_CHECK", "PTXSIM_BUDGET")])
        self.assertEqual([ptxsim.load(PTX).check, ptxsim.load(PTX).budget, ptxsim.load(PTX, check="all", budget=0).check], ["off", 99, "all"])
        os.environ["PTXSIM_BUDGET"] = "many"
        self.refuses(ValueError, "budget is 'many': a whole number up to 9223372036854775807", lambda: ptxsim.load(PTX))


class Faults(unittest.TestCase):
    def fault(self, call):
        with self.assertRaises(ptxsim.Fault) as caught:
            call()
        return caught.exception

    def test_out_of_bounds(self):
        x, out = array("f", range(100)), array("f", [0] * 100)
        fault = self.fault(lambda: ptxsim.load(PTX)["apply"][4, 32](out, x, Line(1, 1, 0), 100))
        report, = fault.reports
        self.assertEqual((report.kind, report.kernel, report.file, report.line, report.block, report.thread),
                         ("out of bounds", "apply", "code/ptxsim/python/test/kernels.cu", line_of("out[i] ="), (3, 0, 0), (3, 0, 0)))
        self.assertIn("reads 4 bytes", report.text)
        self.assertRegex(str(fault), r"^code/ptxsim/python/test/kernels.cu:\d+: error: \[out of bounds\] apply, block \(3,0,0\), "
                                     r"thread \(3,0,0\): reads 4 bytes at 0x[0-9a-f]+, 0 bytes past the end of the allocation of 400 bytes$")

    def test_race_is_told_once_and_nothing_of_it_is_left(self):
        count, module = array("i", [5]), ptxsim.load(PTX)
        for _ in range(2):
            fault = self.fault(lambda: module["count_lost"][2, 32](count))
            self.assertEqual({(r.kind, r.line) for r in fault.reports}, {("race", line_of("*count ="))})
        self.assertGreater(count[0], 5)
        launch = ptxsim.load(PTX, check="memory")["count_lost"][2, 32](count)
        self.assertEqual(launch.reports, [])

    def test_null_pointer(self):
        report = self.fault(lambda: ptxsim.load(PTX)["count_lost"][1, 1](None)).reports[0]
        self.assertEqual((report.kind, report.line), ("out of bounds", line_of("*count =")))

    def test_unwritten(self):
        x, out = array("f", range(8)), array("f", [1] * 8)
        module = ptxsim.load(PTX)
        module["apply"][1, 4](ptxsim.unwritten(out), x, Line(1, 0, 0), 4)
        self.assertEqual(list(out)[:4], [0, 1, 2, 3])
        # These elements were never written, so they are NaN.
        self.assertTrue(all(v != v for v in list(out)[4:]))
        report = self.fault(lambda: module["apply"][1, 8](out, ptxsim.unwritten(x), Line(1, 0, 0), 8)).reports[0]
        self.assertEqual((report.kind, report.line), ("uninitialised", line_of("out[i] =")))

    def test_warning_by_choice(self):
        count = array("i", [5])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            launch = ptxsim.load(PTX, faults="warn")["count_lost"][2, 32](count)
        self.assertEqual([w.category for w in caught], [ptxsim.FaultWarning])
        self.assertEqual(Path(caught[0].filename).name, "test_load.py")
        self.assertEqual(launch.reports, caught[0].message.reports)
        self.assertEqual(launch.reports[0].kind, "race")

    def test_budget(self):
        report = self.fault(lambda: ptxsim.load(PTX, budget=100000)["endless"][1, 32](array("i", [1]))).reports[0]
        self.assertEqual((report.kind, report.line), ("endless", line_of("while (")))

    def test_unsupported(self):
        ptx = PTX.read_text().replace("atom.global.add.u32", "atom.global.nand.u32")
        module = ptxsim.load(ptx)
        report = self.fault(lambda: module["endless"][1, 32](array("i", [1]))).reports[0]
        self.assertEqual((report.kind, report.thread), ("unsupported", None))
        out = array("B", [0] * 32)
        # Other kernels of the module can still be launched.
        module["keep"][1, 1](out, True, 0, 0, 0, 0, 0)
        self.assertEqual(out[0], 1)

    def test_interrupt(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with self.assertRaises(KeyboardInterrupt):
            ptxsim.load(PTX)["endless"][1, 32](array("i", [1]))


if __name__ == "__main__":
    unittest.main()
