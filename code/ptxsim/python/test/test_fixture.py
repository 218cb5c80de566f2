"""The fixture `kernels`: where there is a GPU it is that, elsewhere the simulator; the same tests pass on both."""
import importlib.metadata

import ml_dtypes
import numpy
import pytest

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
    if not importlib.metadata.entry_points(group="pytest11", name="ptxsim"):  # the package is not installed, but found in the tree
        options = "-p", "ptxsim.pytest_plugin", *options
    pytester.makepyfile("def test_it(kernels):\n    print('it is', kernels.name, kernels.simulated)")
    return pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider", *options)


def test_options(pytester):
    result = outcome(pytester, "--ptxsim", "simulator", "--ptxsim-arch", "80")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("*it is ptxsim sm_80 True*")
    outcome(pytester, "--ptxsim", "somewhere").stderr.fnmatch_lines("*invalid choice: 'somewhere'*")


def test_a_gpu_is_asked_for_and_there_is_none(pytester, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = outcome(pytester, "--ptxsim", "gpu")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines_random(["*--ptxsim gpu: PyTorch *"])
    result = outcome(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("*it is ptxsim sm_90 True*")
