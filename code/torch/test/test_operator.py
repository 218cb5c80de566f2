"""The operators against PyTorch's own attention: pytest code/torch/test, once the package is installed.

`make test-torch` does both in a fresh environment. On a machine with a GPU the same tests run there, too.
"""
import itertools
import pathlib
import random
import types

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import attention_in_stages
from attention_in_stages import STAGES, attention, quantise

OPS = torch.ops.attention_in_stages
TYPES = [torch.float16, torch.bfloat16, torch.float32]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
# Besides Q, K, V and the output (to half, 2^-11), P is rounded: to E4M3 in `fp8_mma`, in `hopper` and in the form of
# `causal` for a Hopper, to half in the others. With one key tile, and so without a running maximum, E4M3 makes an
# error of about 3 % of a head (chapter 16).
LIMIT = {"registers": 2e-3, "short": 2e-3, "fp8_mma": 0.1, "hopper_half": 2e-3, "hopper": 0.1, "causal": 0.1,
         "causal_half": 2e-3}


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=[name for name, stage in STAGES.items() if not stage.cache])
def stage(request, device):
    capability = torch.cuda.get_device_capability() if device == "cuda" else (9, 0)
    if STAGES[request.param].hopper == len(STAGES[request.param].programs) and capability[0] != 9:
        pytest.skip("for Hopper alone")
    return request.param


def drawn(shape, dtype=torch.float16, device="cpu", seed=0):
    """Q, K and V: normal, with a mean and a size for each head."""
    generator = torch.Generator().manual_seed(seed)
    heads = shape[1]
    return tuple((torch.randn(shape, generator=generator) * (0.1 + torch.rand(heads, 1, 1, generator=generator))
                  + torch.randn(heads, 1, 1, generator=generator)).to(device, dtype) for _ in range(3))


def dequantised(codes, scales, head_dim):
    """Q, K and V in double, dequantised from their codes."""
    values = codes.view(torch.float8_e4m3fn).double() * scales.double()[:, None, :, None, None]
    return values[..., :head_dim]


def error(out, wanted):
    """The worst head's relative error, as the workbench measures it."""
    difference = (out.double() - wanted.double()).norm(dim=(2, 3))
    return (difference / wanted.double().norm(dim=(2, 3))).max().item()


def shapes():
    """Drawn shapes, and corner cases of the tiles."""
    chance = random.Random(1)
    some = [(chance.randint(1, 3), chance.randint(1, 5), chance.randint(1, 700), chance.choice((8, 32, 48, 64)))
            for _ in range(8)]
    return some + [(1, 1, 1, 64), (1, 2, 64, 64), (2, 1, 128, 32), (1, 3, 129, 64)]

# ---- Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("dtype", TYPES)
def test_codes_are_e4m3s_nearest(shape, dtype, device):
    tensors = drawn(shape, dtype, device)
    codes, scales = quantise(*tensors)
    for x, code, scale in zip(tensors, codes, scales):
        largest = x.float().abs().amax(dim=(0, 2, 3))
        assert torch.equal(scale, largest / torch.full_like(largest, 448))
        wanted = (x.float() / scale[:, None, None]).to(torch.float8_e4m3fn).view(torch.uint8)
        assert torch.equal(code[..., :shape[3]], wanted)
        assert not code[..., shape[3]:].any()


@pytest.mark.parametrize("shape", shapes())
def test_attention_of_drawn_shapes(shape, stage, device):
    tensors = drawn(shape, torch.float16, device, seed=2)
    out = attention(*tensors, stage=stage)
    assert out.shape == tensors[0].shape and out.device == tensors[0].device
    causal = STAGES[stage].causal
    exact = scaled_dot_product_attention(*dequantised(*quantise(*tensors), shape[3]), is_causal=causal)
    assert error(out, exact) < (LIMIT[stage] if device == "cuda" else 6e-4)
    # The error against attention of the unquantised inputs includes what rounding them to E4M3 costs.
    assert error(out, scaled_dot_product_attention(*(x.double() for x in tensors), is_causal=causal)) < 0.2


@pytest.mark.parametrize("dtype", TYPES)
def test_the_type_of_the_inputs_is_the_outputs(dtype, stage, device):
    tensors = drawn((1, 2, 100, 32), dtype, device)
    out = attention(*tensors, stage=stage)
    assert out.dtype == dtype and out.shape == (1, 2, 100, 32)
    half = attention(*(x.float() for x in tensors), stage=stage).half()
    assert torch.equal(out, half.to(dtype))


def test_scale_is_that_of_the_scores(stage, device):
    q, k, v = drawn((1, 2, 65, 64), torch.float32, device)
    assert torch.equal(attention(q, k, v, stage=stage), attention(q, k, v, stage=stage, scale=1 / 8))
    out = attention(q, k, v, stage=stage, scale=0.02)
    exact = scaled_dot_product_attention(*dequantised(*quantise(q, k, v), 64), is_causal=STAGES[stage].causal, scale=0.02)
    assert error(out, exact) < LIMIT[stage]


def test_rows_may_lie_anywhere(stage, device):
    """Inputs that are slices of a model's [batch, seq_len, 3, heads, head_dim]; whose rows are not aligned to 16
    bytes; that are expanded."""
    packed = torch.stack(drawn((2, 3, 90, 64), torch.float16, device)).permute(1, 3, 0, 2, 4).contiguous()
    views = [x.transpose(1, 2) for x in packed.unbind(2)]
    assert not views[0].is_contiguous()
    wanted = attention(*(x.contiguous() for x in views), stage=stage)
    assert torch.equal(attention(*views, stage=stage), wanted)
    wide = torch.zeros(2, 3, 90, 67, dtype=torch.float16, device=device)
    odd = []
    for x in views:
        wide[..., 3:] = x
        odd.append(wide.clone()[..., 3:])
    assert torch.equal(attention(*odd, stage=stage), wanted)
    one = [x[:1].expand(2, -1, -1, -1) for x in views]
    assert torch.equal(attention(*one, stage=stage), attention(*(x.contiguous() for x in one), stage=stage))


def test_the_fastest_stage_that_is_as_accurate(monkeypatch, device):
    tensors = drawn((1, 2, 130, 64), torch.float16, device)
    asked = list(itertools.product(("half", "e4m3"), (False, True)))
    for accuracy, causal in asked:
        stage = attention_in_stages._fastest(accuracy, causal, tensors[0])
        assert STAGES[stage].causal == causal
        assert torch.equal(attention(*tensors, accuracy=accuracy, causal=causal), attention(*tensors, stage=stage))
    assert torch.equal(attention(*tensors), attention(*tensors, accuracy="half"))

    def chosen(shape, device="cuda"):
        q = types.SimpleNamespace(shape=shape, device=torch.device(device))
        return tuple(attention_in_stages._fastest(*of, q) for of in asked)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    elsewhere, hopper = ("short", "causal", "short", "causal"), ("hopper_half", "causal_half", "hopper", "causal")
    for major, stages in ((8, elsewhere), (9, hopper), (10, elsewhere)):
        properties = types.SimpleNamespace(major=major, multi_processor_count=132)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, of=properties: of)
        assert chosen((1, 8, 512, 64)) == stages
        if major == 9:  # with many heads of one key tile P in half is the faster form
            assert chosen((32, 8, 128, 64)) == ("hopper_half", "causal_half", "hopper_half", "causal")
            assert chosen((32, 8, 129, 64)) == chosen((1, 131, 128, 64)) == stages
    assert chosen((1, 8, 512, 64), "cpu") == elsewhere


def test_sequences_of_their_own_lengths(device):
    tensors = drawn((4, 2, 150, 64), torch.float16, device)
    lengths = torch.tensor([150, 1, 77, 128], device=device)
    out = attention(*tensors, stage="causal", lengths=lengths)
    codes, scales = quantise(*tensors)
    for sequence, end in enumerate(lengths.tolist()):
        assert not out[sequence, :, end:].any()
        part = dequantised(codes[:, sequence:sequence + 1, :, :end], scales, 64)
        exact = scaled_dot_product_attention(*part, is_causal=True)
        assert error(out[sequence:sequence + 1, :, :end], exact) < LIMIT["causal"]
    # Keys past all lengths are not read.
    past = attention(*tensors, stage="causal", lengths=torch.tensor([999, 0, 77, 128], device=device))
    assert torch.equal(past, attention(*tensors, stage="causal", lengths=lengths))


def test_heads_of_zeros(device):
    q, k, v = drawn((1, 2, 70, 64), torch.float32, device)
    q[:, 0], v[:, 1] = 0, 0
    out = attention(q, k, v)
    assert error(out[:, :1], v[:, :1].mean(dim=2, keepdim=True).expand(1, 1, 70, 64)) < 0.1  # all keys have the same weight
    assert not out[:, 1].any()

# ---- What PyTorch asks of an operator ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_opcheck_of_quantise(dtype, device):
    for shape in ((1, 2, 33, 64), (2, 1, 5, 32)):
        torch.library.opcheck(OPS.quantise.default, drawn(shape, dtype, device))
    grown = [x.requires_grad_() for x in drawn((1, 1, 9, 64), torch.float32, device)]
    torch.library.opcheck(OPS.quantise.default, grown, test_utils=["test_schema", "test_autograd_registration",
                                                                   "test_faketensor"])


def test_opcheck_of_a_stage(stage, device):
    codes, scales = quantise(*drawn((2, 2, 40, 64), torch.float16, device))
    operator = getattr(OPS, stage).default
    torch.library.opcheck(operator, (codes, scales, 0.125))
    if STAGES[stage].ragged:
        torch.library.opcheck(operator, (codes, scales, 0.125, torch.tensor([40, 7], device=device)))


def test_compiled_without_a_graph_break(stage, device):
    torch._dynamo.reset()

    def layer(q, k, v):
        return attention(q * 2, k, v, stage=stage) + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for seq_len in (40, 129):
        tensors = drawn((1, 2, seq_len, 32), torch.float16, device)
        assert torch.equal(compiled(*tensors), layer(*tensors))


def test_compiled_by_inductor(device):
    torch._dynamo.reset()
    tensors = drawn((1, 2, 50, 64), torch.float32, device)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v) * 2, fullgraph=True)
    assert torch.equal(compiled(*tensors), attention(*tensors) * 2)


def test_fake_tensors_have_the_shape_and_refuse_what_tensors_refuse():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        q = torch.empty(2, 3, 50, 32, dtype=torch.bfloat16, device="cuda")
        out = attention(q, q, q, stage="hopper")
        assert out.shape == q.shape and out.dtype == torch.bfloat16 and out.device.type == "cuda"
        with pytest.raises(ValueError, match="q has 3 dimensions"):
            attention(q[0], q[0], q[0])


def test_no_gradient(stage, device):
    q, k, v = (x.requires_grad_() for x in drawn((1, 1, 9, 64), torch.float32, device))
    out = attention(q, k, v, stage=stage)
    with pytest.raises(RuntimeError, match="forward only, there is no gradient: call it under torch.no_grad"):
        out.sum().backward()
    codes, _ = quantise(q, k, v)
    assert not codes.requires_grad

# ---- What is refused --------------------------------------------------------------------------------

X = torch.zeros(1, 2, 16, 64)
STAGE_NAMES = "registers, short, fp8_mma, hopper_half, hopper, causal, causal_half"


@pytest.mark.parametrize("arguments, options, line", [
    ((X[0], X, X), {}, r"q has 3 dimensions; 4 are wanted: \[batch, heads, seq_len, head_dim\]"),
    ((X, X[:, :1], X), {}, r"k is \[1, 1, 16, 64\] and q is \[1, 2, 16, 64\]: all three have one shape"),
    ((X, X, X.int()), {}, r"v is torch.int32: half, bfloat16 or float is wanted"),
    ((X, X.half(), X), {}, r"k is torch.float16 and q is torch.float32: all three have one type"),
    ((X, X.to("meta"), X), {}, r"k is on meta and q on cpu"),
    ((X.transpose(2, 3),) * 3, {}, r"q.stride\(3\) is 64: the elements of a row lie side by side"),
    ((X[..., :60],) * 3, {}, r"head_dim is 60: a multiple of 8, at most 64, is wanted"),
    ((torch.zeros(1, 2, 16, 128),) * 3, {}, r"head_dim is 128: a multiple of 8, at most 64, is wanted"),
    ((X[:, :, :0],) * 3, {}, r"q is \[1, 2, 0, 64\]: no dimension may be 0"),
    ((X[:, :1, :1].expand(300, 300, 1, 64),) * 3, {},
     r"q is \[300, 300, 1, 64\]: batch \* heads may be at most 65535"),
    ((X[:, :1, :1].expand(1, 2, 2**24 + 1, 64),) * 3, {},
     r"q is \[1, 2, 16777217, 64\]: batch \* heads \* seq_len may be at most 2\^31 / 64"),
    ((X, X, X), {"stage": "wgmma"}, f"stage is wgmma: {STAGE_NAMES} are operators of q, k and v$"),
    ((X, X, X), {"stage": "decode"}, f"stage is decode: {STAGE_NAMES} are operators of q, k and v$"),
    ((X, X, X), {"stage": 20}, f"stage is 20: {STAGE_NAMES} are operators of q, k and v$"),
    ((X, X, X), {"stage": 15}, 'stage is 15: stages have names, and this one is stage="registers"$'),
    ((X, X, X), {"stage": 16}, 'stage is 16: stages have names, and this one is stage="fp8_mma"$'),
    ((X, X, X), {"stage": 17}, 'stage is 17: stages have names, and this one is stage="hopper"$'),
    ((X, X, X), {"stage": 19}, 'stage is 19: stages have names, and this one is stage="causal"$'),
    ((X, X, X), {"accuracy": "float"}, "accuracy is float: half or e4m3 is wanted"),
    ((X, X, X), {"accuracy": "half", "stage": "hopper"},
     "accuracy is half and stage is hopper: a stage has its accuracy, so name one of the two"),
    ((X, X, X), {"causal": True, "stage": "hopper"},
     "causal is True and stage is hopper: a stage has its mask, so name one of the two"),
    ((X, X, X), {"lengths": torch.tensor([3])}, r"stage short takes no lengths: causal does"),
    ((X, X, X), {"stage": "causal", "lengths": torch.tensor([3, 4])},
     r"lengths are torch.int64 \[2\]: an integer for each of 1 sequences is wanted"),
    ((X, X, X), {"stage": "causal", "lengths": torch.tensor([3.0])}, r"lengths are torch.float32 \[1\]"),
])
def test_refused_in_one_line(arguments, options, line):
    with pytest.raises(ValueError, match="attention_in_stages: " + line) as caught:
        attention(*arguments, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change, line", [
    (lambda codes, scales: (codes.float(), scales), r"codes are torch.float32 \[3, 1, 2, 16, 64\]"),
    (lambda codes, scales: (codes[:2], scales), r"codes are torch.uint8 \[2, 1, 2, 16, 64\]"),
    (lambda codes, scales: (codes, scales[:, :1]), r"scales are torch.float32 \[3, 1\]: float \[3, 2\] is wanted"),
    (lambda codes, scales: (codes.transpose(3, 4).contiguous().transpose(3, 4), scales),
     "codes and scales are contiguous"),
])
def test_codes_that_quantise_did_not_make(change, line, stage):
    codes, scales = quantise(X, X, X)
    with pytest.raises(ValueError, match=line):
        getattr(OPS, stage)(*change(codes, scales), 0.125)


def test_a_hoppers_stage_elsewhere_and_a_missing_library(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    with pytest.raises(RuntimeError, match="stage hopper is for Hopper alone, compute capability 9.0, and this GPU "
                                           "has 8.9: stages registers, short, fp8_mma, causal run here"):
        attention_in_stages._program.__wrapped__("hopper", "cuda:0")
    with pytest.raises(RuntimeError, match="there is no ch99_none.so here: it was installed without CUDA's compiler"):
        attention_in_stages._library("ch99_none")

# ---- On a GPU ---------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")


@on_gpu
def test_codes_of_the_gpu_are_those_of_the_cpu():
    tensors = drawn((3, 4, 333, 64), torch.bfloat16)
    for here, there in zip(quantise(*tensors), quantise(*(x.cuda() for x in tensors))):
        assert torch.equal(here, there.cpu())


@on_gpu
def test_the_current_stream_is_used(stage):
    if "cuda" not in DEVICES:
        pytest.skip("no GPU")
    tensors = drawn((2, 8, 512, 64), torch.float16, "cuda")
    wanted = attention(*tensors, stage=stage)
    late = [torch.zeros_like(x) for x in tensors]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # a kernel on another stream that did not wait would see zeros
        for to, x in zip(late, tensors):
            to.copy_(x)
        out = attention(*late, stage=stage)
    stream.synchronize()
    assert torch.equal(out, wanted)


@on_gpu
def test_captured_in_a_graph(stage):
    tensors = drawn((2, 4, 300, 64), torch.float16, "cuda")
    others = drawn((2, 4, 300, 64), torch.float16, "cuda", seed=9)
    attention(*tensors, stage=stage)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(*tensors, stage=stage)
    for x, other in zip(tensors, others):
        x.copy_(other)
    graph.replay()
    assert torch.equal(out, attention(*others, stage=stage))

# ---- The README -------------------------------------------------------------------------------------


def said_by_example(which, capsys):
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[which].split("```")[0]
    exec(compile(example, "README.md", "exec"), {})
    return capsys.readouterr().out.split()


def test_the_example_of_the_readme(capsys):
    said = said_by_example(1, capsys)
    assert said[:2] == ["torch.Size([1,", "8,"] and float(said[-1]) < 0.06


def test_the_readmes_example_of_a_cache(capsys):
    said = said_by_example(2, capsys)
    assert said[:5] == ["torch.Size([2,", "32,", "1,", "64])", "[120,"] and float(said[-1]) < 0.06
