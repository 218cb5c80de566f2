"""Tests the fixture `kernels`, on a GPU if there is one, otherwise in the simulator; the same tests pass on both."""
import importlib.metadata

import ml_dtypes
import numpy
import pytest

import ptxsim.pytest_plugin
import ptxsim.triton
import tutorials

pytest_plugins = ["pytester"]
random = numpy.random.default_rng(1)


def test_vector_add(kernels):
    x, y, out = (random.standard_normal(1000, numpy.float32) for _ in range(3))
    kernels.run(tutorials.add, (4,), out, x, y, 1000, BLOCK=256)
    assert (out == x + y).all()


@pytest.mark.parametrize("dtype", [numpy.float16, ml_dtypes.bfloat16])
def test_descriptors(kernels, dtype):
    a, b = (random.standard_normal((64, 64), numpy.float32).astype(dtype) for _ in range(2))
    c = numpy.zeros((64, 64), dtype)
    tiles = [ptxsim.triton.descriptor(x, (32, 32)) for x in (c, a, b)]
    kernels.run(tutorials.matmul_tiles, (2, 2), *tiles, 64, BM=32, BN=32, BK=32)
    numpy.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float).T, rtol=0.01, atol=0.05)


def test_bits(kernels):
    a, b = (random.standard_normal((64, 64), numpy.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = numpy.zeros((64, 64), numpy.float32)
    bits = [ptxsim.triton.view(x.view(numpy.uint16), "bfloat16") for x in (a, b)]
    kernels.run(tutorials.matmul.fn, (4,), c, *bits, 64, 64, 64, "", BM=32, BN=32, BK=32, GROUP=1)
    numpy.testing.assert_allclose(c, a.astype(float) @ b.astype(float), atol=1e-4)


def outcome(pytester, *options):
    # If the package is not installed, pytest does not find the plugin.
    if not importlib.metadata.entry_points(group="pytest11", name="ptxsim"):
        options = "-p", "ptxsim.pytest_plugin", *options
    pytester.makepyfile("def test_it(kernels):\n    print('it is', kernels.name, kernels.simulated)")
    return pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider", *options)


class NoTorch:
    """The parts of PyTorch that the fixture uses, with numpy's arrays as tensors."""
    cuda = type("cuda", (), {"get_device_name": lambda: "none", "synchronize": lambda: None})
    float32, int32, bfloat16 = numpy.dtype("f4"), numpy.dtype("i4"), numpy.dtype(ml_dtypes.bfloat16)

    class Tensor(numpy.ndarray):
        to = lambda self, device: self.copy()
        fill_ = lambda self, value: self.fill(value)
        cpu = lambda self: self
        numpy = lambda self: self.view(numpy.ndarray)

    from_numpy = lambda self, array: array.view(self.Tensor)


def on_gpu(kernel, *args, **kwargs):
    ptxsim.pytest_plugin.GPU(NoTorch()).run({(1,): kernel}, (1,), *args, **kwargs)


def test_arguments_of_a_gpu():
    x, out = numpy.arange(6, dtype=numpy.float32).reshape(2, 3), numpy.zeros((2, 3), numpy.float32, order="F")
    fixed = numpy.ones(2, numpy.int32)
    fixed.flags.writeable = False
    bits = numpy.array([0x3f80, 0x4000], numpy.uint16)

    def kernel(x, out, same, pair, n, fixed, BLOCK):
        assert pair[0].dtype == ml_dtypes.bfloat16 and pair[0].tolist() == [1, 2] and (n, BLOCK) == (5, 8)
        same[...] = 2 * x
        out += 1
        fixed[0] = 7

    on_gpu(kernel, x, out, out, (ptxsim.triton.view(bits, "bfloat16"), 3), 5, fixed, BLOCK=8, arch=80, check="off")
    assert (out == 2 * x + 1).all() and fixed.tolist() == [1, 1]


def test_unwritten_on_a_gpu():
    """Elements that the kernel does not write come back as in the simulator, as bytes 0xff."""
    out = numpy.zeros(4, numpy.float32)

    def kernel(out):
        out[1] = 5

    on_gpu(kernel, ptxsim.unwritten(out))
    assert out.view(numpy.uint32).tolist() == [0xffffffff, 0x40a00000, 0xffffffff, 0xffffffff]


@pytest.mark.parametrize("arrays, told", [
    (lambda x: (x[::2],), "without gaps"),
    (lambda x: (x, x[4:]), r"shapes \(8,\) and \(4,\) that share memory"),
    (lambda x: (x[:4], x.reshape(2, 4)), r"shapes \(4,\) and \(2, 4\) that share memory"),
])
def test_arrays_that_a_gpu_cannot_have(arrays, told):
    with pytest.raises(TypeError, match=told):
        on_gpu(lambda *args: None, *arrays(numpy.zeros(8, numpy.float32)))


def test_options(pytester):
    result = outcome(pytester, "--ptxsim", "simulator", "--ptxsim-arch", "80")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("*it is ptxsim sm_80 True*")
    outcome(pytester, "--ptxsim", "somewhere").stderr.fnmatch_lines("*invalid choice: 'somewhere'*")
    outcome(pytester, "--ptxsim-arch", "70").stderr.fnmatch_lines("*--ptxsim-arch: invalid choice: 70*")


def test_a_gpu_is_asked_for_and_there_is_none(pytester, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = outcome(pytester, "--ptxsim", "gpu")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines_random(["*--ptxsim gpu: PyTorch *"])
    result = outcome(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("*it is ptxsim sm_90 True*")


@pytest.mark.parametrize("torch, told", [
    ("raise OSError('libcudart.so.12: cannot open')", "PyTorch cannot be loaded: libcudart.so.12: cannot open"),
    ("import no_such_part", "PyTorch cannot be loaded: No module named 'no_such_part'"),
    ("class cuda: is_available = lambda: False", "PyTorch finds no GPU"),
])
def test_a_pytorch_without_a_gpu(pytester, torch, told):
    pytester.makepyfile(torch=torch)
    pytester.syspathinsert()
    result = outcome(pytester, "--ptxsim", "gpu")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines_random([f"--ptxsim gpu: {told}"])
    outcome(pytester).assert_outcomes(passed=1)
