"""Tests Triton's kernels in the simulator: results are compared with numpy's for sm_80 and sm_90, and mistakes must be
reported at their lines."""
import inspect

import ml_dtypes
import numpy
import pytest
import triton

import ptxsim
import ptxsim.triton
import tutorials

random = numpy.random.default_rng(0)


def normal(*shape, dtype=numpy.float32):
    return random.standard_normal(shape, numpy.float32).astype(dtype)


def line_of(kernel, text):
    """The file of a kernel, and the number of its line that contains a text."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return "tutorials.py", first + next(i for i, line in enumerate(lines) if text in line)


def place(report):
    return report.file.rsplit("/", 1)[-1], report.line


@pytest.fixture(params=[80, 90], ids=["sm_80", "sm_90"])
def arch(request):
    return request.param


def test_vector_add(arch):
    x, y, out = normal(1000), normal(1000), numpy.zeros(1000, numpy.float32)
    launch = ptxsim.triton.run(tutorials.add, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), out, x, y, 1000, BLOCK=256, arch=arch)
    assert (out == x + y).all()
    assert launch.reports == []
    assert launch.counts["global_store_bytes"] == 4000 and launch.counts["global_load_bytes"] == 8000


def test_softmax(arch):
    x, out = normal(7, 100), numpy.zeros((7, 100), numpy.float32)
    ptxsim.triton.simulated(tutorials.softmax, arch=arch)[(3,)](out, x, *x.shape, BLOCK=128)
    e = numpy.exp(x - x.max(1, keepdims=True))
    numpy.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_matmul(arch, dtype):
    m, n, k = 100, 72, 80
    kind = getattr(ml_dtypes, dtype, None) or getattr(numpy, dtype)
    a, b, c = normal(m, k, dtype=kind), normal(k, n, dtype=kind), numpy.zeros((m, n), numpy.float32)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)
    launch = ptxsim.triton.run(tutorials.matmul, grid, c, a, b, m, n, k, "leaky", arch=arch)
    wanted = a.astype(float) @ b.astype(float)
    wanted = numpy.where(wanted >= 0, wanted, 0.01 * wanted)
    # float32 is multiplied as tf32, with a significand of 11 bits.
    numpy.testing.assert_allclose(c, wanted, atol=0.05 if dtype == "float32" else 1e-4)
    assert launch.counts["tensor_flops"] >= 2 * m * n * k


def test_matmul_of_eight_bits():
    m, n, k = 64, 64, 64
    a, b = normal(m, k, dtype=ml_dtypes.float8_e4m3fn), normal(k, n, dtype=ml_dtypes.float8_e4m3fn)
    c, again = (numpy.zeros((m, n), numpy.float32) for _ in range(2))
    ptxsim.triton.run(tutorials.matmul.fn, (4,), c, a, b, m, n, k, "", BM=32, BN=32, BK=32, GROUP=1)
    numpy.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=0.01, atol=0.02)
    bits = [ptxsim.triton.view(x.view(numpy.uint8), "float8_e4m3fn") for x in (a, b)]
    ptxsim.triton.run(tutorials.matmul.fn, (4,), again, *bits, m, n, k, "", BM=32, BN=32, BK=32, GROUP=1)
    assert (again == c).all()


def test_matmul_of_descriptors(arch):
    m, n, k = 120, 72, 80
    a, b, c = normal(m, k, dtype=numpy.float16), normal(n, k, dtype=numpy.float16), numpy.zeros((m, n), numpy.float16)
    tiles = [ptxsim.triton.descriptor(x, block) for x, block in ((c, (64, 64)), (a, (64, 32)), (b, (64, 32)))]
    made, _ = ptxsim.triton.compiled(tutorials.matmul_tiles, *tiles, k, BM=64, BN=64, BK=32, arch=arch)
    assert ("cp.async.bulk.tensor" in made.asm["ptx"]) == (arch == 90)
    ptxsim.triton.run(tutorials.matmul_tiles, (2, 2), *tiles, k, BM=64, BN=64, BK=32, arch=arch)
    numpy.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float).T, rtol=0.002, atol=0.01)


def test_layer_norm(arch):
    rows, columns = 6, 90
    x, weight, bias, dout = normal(rows, columns), normal(columns), normal(columns), normal(rows, columns)
    out, dx = numpy.zeros_like(x), numpy.zeros_like(x)
    mean, rstd = numpy.zeros(rows, numpy.float32), numpy.zeros(rows, numpy.float32)
    dweight, dbias, lock = numpy.zeros_like(weight), numpy.zeros_like(bias), numpy.zeros(2, numpy.int32)
    ptxsim.triton.run(tutorials.layer_norm, (rows,), out, mean, rstd, x, weight, bias, columns, 1e-5, BLOCK=128, arch=arch,
                      enable_fp_fusion=False)
    r = 1 / numpy.sqrt(x.var(1, keepdims=True) + 1e-5)
    normed = (x - x.mean(1, keepdims=True)) * r
    numpy.testing.assert_allclose(out, normed * weight + bias, atol=1e-5)
    ptxsim.triton.run(tutorials.layer_norm_backward, (rows,), dx, ptxsim.unwritten(dweight), ptxsim.unwritten(dbias), lock,
                      dout, x, weight, mean, rstd, columns, BLOCK=128, arch=arch, enable_fp_fusion=False)
    wanted = dout * weight
    numpy.testing.assert_allclose(dx, (wanted - normed * (normed * wanted).mean(1, keepdims=True) - wanted.mean(1, keepdims=True)) * r, atol=1e-5)
    numpy.testing.assert_allclose(dweight, (dout * normed).sum(0), atol=1e-5)
    numpy.testing.assert_allclose(dbias, dout.sum(0), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(arch, causal):
    heads, length, size = 2, 150, 64
    q, k, v = (normal(heads, length, size, dtype=numpy.float16) for _ in range(3))
    out = numpy.zeros_like(q)
    ptxsim.triton.run(tutorials.attention, (triton.cdiv(length, 64), heads), out, q, k, v, 0.125, length, CAUSAL=causal, HEAD=size,
                      BM=64, BN=32, arch=arch)
    scores = 0.125 * numpy.einsum("hid,hjd->hij", q.astype(float), k.astype(float))
    if causal:
        scores[:, ~numpy.tri(length, dtype=bool)] = -numpy.inf
    weights = numpy.exp(scores - scores.max(2, keepdims=True))
    wanted = weights / weights.sum(2, keepdims=True) @ v.astype(float)
    assert abs(out - wanted).max() < 2e-3


# ---- Mistakes -----------------------------------------------------------------------------------

def test_store_out_of_bounds(arch):
    x, y, out = normal(1000), normal(1000), numpy.zeros(1000, numpy.float32)
    with pytest.raises(ptxsim.Fault) as caught:
        ptxsim.triton.run(tutorials.add_unmasked_bug, (4,), out, x, y, 1000, BLOCK=256, arch=arch)
    report = caught.value.reports[0]
    assert place(report) == line_of(tutorials.add_unmasked_bug, "BUG")
    assert (report.kind, report.kernel, report.block) == ("out of bounds", "add_unmasked_bug", (3, 0, 0))
    assert "past the end of the allocation of 4000 bytes" in report.text
    assert f"tutorials.py:{report.line}: error: [out of bounds] add_unmasked_bug, block (3,0,0), thread (" in str(caught.value)
    # The fault of the launch before has no effect on this one.
    ptxsim.triton.run(tutorials.add, (4,), out, x, y, 1000, BLOCK=256, arch=arch)
    assert (out == x + y).all()


def test_lost_update(arch):
    x, out = normal(6, 100), numpy.zeros(100, numpy.float32)
    ptxsim.triton.run(tutorials.column_sums, (6,), out, x, 100, BLOCK=128, arch=arch)
    numpy.testing.assert_allclose(out, x.sum(0), atol=1e-5)
    with pytest.raises(ptxsim.Fault) as caught:
        ptxsim.triton.run(tutorials.column_sums_lost_bug, (6,), out, x, 100, BLOCK=128, arch=arch)
    assert {report.kind for report in caught.value.reports} == {"race"}
    bug, before = (line_of(tutorials.column_sums_lost_bug, text) for text in ("BUG", "before ="))
    places = {place(report) for report in caught.value.reports}
    assert bug in places and places <= {bug, before}
    for report in caught.value.reports:
        assert "of block (" in report.text and "with no release and acquire in between" in report.text


def test_fused_squares(arch):
    # Triton 3.9 fuses the squaring in tl.sum(x * x) with the first addition on each side of an
    # exchange: the lanes' sums differ in a last bit, and all lanes store their sums to one address.
    x, out = normal(6, 90), numpy.zeros((6, 90), numpy.float32)
    columns, sums = normal(90), numpy.zeros((2, 6), numpy.float32)
    arguments = [out, *sums, x, columns, columns, 90, 1e-5]
    with pytest.raises(ptxsim.Fault) as caught:
        ptxsim.triton.run(tutorials.layer_norm, (6,), *arguments, BLOCK=128, arch=arch, enable_fp_fusion=True)
    report, = caught.value.reports
    assert report.kind == "race" and place(report) == line_of(tutorials.layer_norm, "centred * centred")
    assert "/triton/language/standard.py:" in report.inside and f", in {report.inside}, block (" in str(report)


def test_unwritten(arch):
    x, out = normal(1000), numpy.zeros(1000, numpy.float32)
    with pytest.warns(ptxsim.FaultWarning) as caught:
        launch = ptxsim.triton.run(tutorials.add, (4,), out, x, ptxsim.unwritten(normal(1000)), 1000, BLOCK=256, arch=arch, faults="warn")
    assert launch.reports == caught[0].message.reports
    assert launch.reports[0].kind == "uninitialised" and place(launch.reports[0]) == line_of(tutorials.add, "tl.store")
    assert ptxsim.triton.run(tutorials.add, (4,), out, x, ptxsim.unwritten(normal(1000)), 1000, BLOCK=256, arch=arch, check="off").reports == []


def test_refused():
    x, out = normal(10), numpy.zeros(10, numpy.float32)
    with pytest.raises(ValueError, match="arch is 70: one of 80, 86, 87, 89, 90"):
        ptxsim.triton.run(tutorials.add, (1,), out, x, x, 10, BLOCK=16, arch=70)
    with pytest.raises(TypeError, match="is no kernel of Triton: give a function with @triton.jit"):
        ptxsim.triton.run(print, (1,), out)
    with pytest.raises(TypeError, match="view: bfloat16 has 2 bytes, an element of float32 4"):
        ptxsim.triton.view(x, "bfloat16")
    big = numpy.zeros((128, 128), numpy.float16)
    with pytest.raises(ValueError, match=r"bytes of shared memory, where a CTA of sm_89 has 101376: smaller blocks"):
        ptxsim.triton.run(tutorials.matmul.fn, (1,), big, big, big, 128, 128, 128, "", BM=32, BN=32, BK=128, GROUP=1, num_stages=8, arch=89)


def test_driver_is_put_back():
    from triton.runtime import driver
    before = dict(vars(driver))
    x, out = normal(10), numpy.zeros(10, numpy.float32)
    with pytest.raises(Exception):
        ptxsim.triton.run(tutorials.add, (1,), out, "x", x, 10, BLOCK=16)
    assert vars(driver) == before
