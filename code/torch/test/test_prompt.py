"""prompt(): against PyTorch's own attention over the same tokens, against decode(), against PyTorch's checks,
and refusals."""
import dataclasses
import random

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_in_stages import Cache, decode, fill_cache, new_cache, prompt, read_cache
from test_cache import DEVICES, LIMIT, PAGES, QUANTISED, TYPES, copied, dealt, drawn, error

OPERATOR = torch.ops.attention_in_stages.prompt


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def rounded(q):
    """Rows that are E4M3 codes times a power of two, so that quantising does not change them."""
    power = (q.float().abs().amax(-1, keepdim=True) / 448).log2().ceil().exp2().clamp(min=2.0**-32)
    return ((q.float() / power).to(torch.float8_e4m3fn).float() * power).to(q.dtype)


def exact(q, cache, asked, **options):
    """Attention in double precision over what the cache has: zeros past a sequence's tokens."""
    k, v = (x.double() for x in read_cache(cache))
    out = torch.zeros_like(q, dtype=torch.float64)
    for b, (length, tokens) in enumerate(zip(cache.lengths.tolist(), asked)):
        seen = torch.ones(tokens, length, dtype=torch.bool, device=q.device).tril(length - tokens)
        out[b:b + 1, :, :tokens] = scaled_dot_product_attention(
            q[b:b + 1, :, :tokens].double(), k[b:b + 1, :, :length], v[b:b + 1, :, :length], attn_mask=seen,
            enable_gqa=True, **options)
    return out


def case(device, page=32, dtype=torch.float16):
    """A cache with prompts of 40 and 3 tokens, and up to five further tokens: the first sequence has five, the second
    two."""
    cache = dealt(2, 2, 70, page, device)
    fill_cache(cache, drawn(2, 2, 40, 1, dtype, device), drawn(2, 2, 40, 2, dtype, device),
               torch.tensor([40, 3], device=device))
    asked = torch.tensor([5, 2], dtype=torch.int32, device=device)
    cache.lengths += asked
    q = rounded(drawn(2, 6, 5, 3, dtype, device))
    return cache, q, *(drawn(2, 2, 5, seed, dtype, device) for seed in (4, 5)), asked


def raw(q, k, v, cache, asked, scale=0.125):
    """Arguments of the operator itself."""
    return (q, k, v, cache.codes, cache.scales, cache.table, cache.lengths, asked, scale)


def shapes():
    """Cases, drawn ones and corner cases: batch, heads, query heads a head, tokens before, new tokens, page, elements
    of a head."""
    chance = random.Random(3)
    some = [(chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 16), chance.randint(0, 300),
             chance.randint(1, 40), chance.choice(PAGES), 64 << seed % 2) for seed in range(8)]
    return some + [(1, 1, 1, 0, 1, 16, 64), (1, 2, 4, 0, 80, 64, 64), (2, 1, 16, 31, 33, 32, 64),
                   (1, 2, 4, 1500, 8, 16, 64), (1, 1, 1, 0, 1, 16, 128), (1, 2, 4, 0, 80, 64, 128),
                   (1, 2, 4, 1500, 8, 16, 128)]


@pytest.mark.parametrize("shape", shapes())
def test_new_tokens_ask_drawn_caches(shape, device):
    batch, heads, group, before, tokens, page, head_dim = shape
    cache = dealt(batch, heads, before + tokens, page, device, head_dim=head_dim)
    chance = random.Random(7)
    lengths = [before] + [chance.randint(0, before) for _ in range(1, batch)]
    asked = [tokens] + [chance.randint(1, tokens) for _ in range(1, batch)]
    if before:
        fill_cache(cache, *(drawn(batch, heads, before, seed, device=device, head_dim=head_dim) for seed in (1, 2)),
                   torch.tensor(lengths, device=device))
    cache.lengths += torch.tensor(asked, device=device)
    q = rounded(drawn(batch, heads * group, tokens, 3, device=device, head_dim=head_dim))
    k, v = (drawn(batch, heads, tokens, seed, device=device, head_dim=head_dim) for seed in (4, 5))
    out = prompt(q, k, v, cache, asked=torch.tensor(asked, device=device))
    assert out.shape == q.shape and out.dtype == q.dtype and out.device == q.device
    wanted = exact(q, cache, asked)
    for b, here in enumerate(asked):
        assert error(out[b:b + 1, :, :here], wanted[b:b + 1, :, :here]) < LIMIT[device]
        assert not out[b, :, here:].any()
        for x, there in zip((k, v), read_cache(cache)):
            new = there[b, :, lengths[b]:lengths[b] + here]
            assert (new - x[b, :, :here]).abs().max() <= x[b].abs().max() / 16
            assert not there[b, :, lengths[b] + here:].any()


@pytest.mark.parametrize("page", PAGES)
def test_the_cache_is_as_after_one_token_at_a_time(page, device):
    cache, q, k, v, _ = case(device, page)
    cache.lengths.copy_(torch.tensor([45, 8], device=device))
    other = copied(cache)
    out = prompt(q, k, v, cache)
    other.lengths -= 5
    for t in range(5):
        other.lengths += 1
        one = decode(q[:, :, t:t + 1], k[:, :, t:t + 1], v[:, :, t:t + 1], other)
        assert error(out[:, :, t:t + 1], one) < LIMIT[device]
    assert torch.equal(cache.codes, other.codes) and torch.equal(cache.scales, other.scales)


def test_decode_with_heads_of_128(device):
    cache = dealt(2, 2, 41, 16, device, head_dim=128)
    k, v = (drawn(2, 2, 41, seed, device=device, head_dim=128) for seed in (1, 2))
    fill_cache(cache, k[:, :, :40], v[:, :, :40], torch.tensor([40, 7], device=device))
    cache.lengths += 1
    q = rounded(drawn(2, 6, 1, 3, device=device, head_dim=128))
    out = decode(q, k[:, :, 40:], v[:, :, 40:], cache)
    assert error(out, exact(q, cache, [1, 1])) < LIMIT[device]
    with pytest.raises(ValueError, match=r"q is \[2, 6, 1, 64\]: \[2, a multiple of 2, 1, 128\] is wanted"):
        decode(q[..., :64], k[:, :, 40:], v[:, :, 40:], cache)


def test_a_whole_prompt_is_causal_attention(device):
    """The error against attention in half, which is that of E4M3 keys, values and queries; and fill_cache() stores the
    same bytes as prompt()."""
    cache, other = dealt(2, 2, 90, 16, device), dealt(2, 2, 90, 16, device)
    q, k, v = (drawn(2, heads, 90, seed, device=device) for seed, heads in ((1, 4), (2, 2), (3, 2)))
    fill_cache(other, k, v)
    cache.lengths += 90
    out = prompt(q, k, v, cache)
    assert error(out, scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)) < QUANTISED
    for here, there in zip(read_cache(cache), read_cache(other)):
        assert torch.equal(here, there)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_type_of_the_queries_is_the_outputs(dtype, device):
    cache, q, k, v, asked = case(device, dtype=dtype)
    other = copied(cache)
    out = prompt(q, k, v, cache, asked=asked)
    assert out.dtype == dtype
    assert torch.equal(out, prompt(q.half(), k.half(), v.half(), other, asked=asked.long()).to(dtype))
    assert torch.equal(cache.codes, other.codes) and torch.equal(cache.scales, other.scales)


def test_scale_and_strides(device):
    cache, q, k, v, asked = case(device)
    wanted = prompt(q, k, v, copied(cache), asked=asked, scale=0.02)
    assert error(wanted[:1], exact(q, _appended(cache, k, v, asked), [5, 2], scale=0.02)[:1]) < LIMIT[device]
    packed = torch.cat([q, k, v], 1).transpose(1, 2).contiguous().transpose(1, 2)
    got = prompt(packed[:, :6], packed[:, 6:8], packed[:, 8:], copied(cache), asked=asked, scale=0.02)
    assert torch.equal(got, wanted)


def _appended(cache, k, v, asked):
    cache = copied(cache)
    prompt(k, k, v, cache, asked=asked)
    return cache


def test_numbers_that_are_none_stay_inside(device):
    """`asked` is negative for one sequence, and more than q has for another."""
    cache, q, k, v, _ = case(device)
    cache.lengths.copy_(torch.tensor([2, 999], device=device))
    before = copied(cache)
    out = prompt(q, k, v, cache, asked=torch.tensor([9, -4], device=device))
    assert cache.lengths.tolist() == [2, 999]  # the caller's lengths are unchanged
    assert out[0, :, :2].isfinite().all() and not out[0, :, 2:].any() and not out[1, :, 1:].any()
    pages = (cache.codes != before.codes).flatten(1).any(1).nonzero().flatten().tolist()
    assert sorted(pages) == sorted([cache.table[0, 0].item(), cache.table[1, 2].item()])


@pytest.mark.parametrize("page", PAGES)
def test_opcheck(page, device):
    cache, q, k, v, asked = case(device, page)
    torch.library.opcheck(OPERATOR.default, raw(q, k, v, cache, asked))


def test_heads_of_neither_64_nor_128_are_refused(device):
    with pytest.raises(ValueError, match="head_dim is 96: 64 or 128 is wanted"):
        new_cache(1, 1, 16, head_dim=96, device=device)
    cache = new_cache(1, 1, 16, device=device)
    cache.codes = cache.codes[:, :, :-128].contiguous()
    q = torch.zeros(1, 1, 1, 64, dtype=torch.half, device=device)
    with pytest.raises(ValueError, match=r"codes are \[1, 1, 8064\]: \[1, 1, 8192\] or \[1, 1, 16384\] is wanted"):
        prompt(q, q, q, cache)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_without_a_graph_break(backend, device):
    torch._dynamo.reset()

    def step(q, k, v, cache):
        cache.lengths += q.shape[2]
        return prompt(q * 2, k, v, cache) + 1

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    cache, q, k, v, _ = case(device)
    other = copied(cache)
    for seed in range(2):
        q = drawn(2, 6, 5, seed, device=device)
        assert torch.equal(compiled(q, k, v, cache), step(q, k, v, other))
        for here, there in zip(dataclasses.astuple(cache), dataclasses.astuple(other)):
            assert torch.equal(here, there)


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_in_a_graph():
    cache, q, k, v, asked = case("cuda")
    other = copied(cache)
    wanted = prompt(q, k, v, other, asked=asked)
    prompt(q, k, v, copied(cache), asked=asked)  # loads the library beforehand
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = prompt(q, k, v, cache, asked=asked)
    graph.replay()
    assert torch.equal(out, wanted) and torch.equal(cache.codes, other.codes)


def test_fake_tensors_have_the_shape_and_refuse_what_tensors_refuse():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        codes = torch.empty(6, 2, 2 * 16 * 64, dtype=torch.uint8, device="cuda")
        cache = Cache(codes, codes.new_empty(6, 2, 32), *(codes.new_empty(size, dtype=torch.int32) for size in ((2, 3), 2)),
                      codes.new_empty(0))
        q, k = (torch.empty(2, heads, 9, 64, dtype=torch.bfloat16, device="cuda") for heads in (6, 2))
        out = prompt(q, k, k, cache)
        assert out.shape == q.shape and out.dtype == torch.bfloat16 and out.device.type == "cuda"
        with pytest.raises(ValueError, match=r"k is \[2, 6, 9, 64\]"):
            prompt(q, q, q, cache)


def test_no_gradient(device):
    cache, q, k, v, asked = case(device)
    q.requires_grad_()
    with pytest.raises(RuntimeError, match=r"a cache has no gradient: call prompt\(\) under torch.no_grad"):
        prompt(q, k, v, cache, asked=asked)
    with torch.no_grad():
        assert not prompt(q, k, v, cache, asked=asked).requires_grad


@pytest.mark.parametrize("change, line", [
    (lambda c: {"q": c["q"][0]}, r"q is \[6, 5, 64\]: \[batch, query heads, tokens, head_dim\] is wanted"),
    (lambda c: {"q": c["q"][:, :, :0]}, r"q is \[2, 6, 0, 64\]"),
    (lambda c: {"q": c["q"][:, :5]}, r"q is \[2, 5, 5, 64\]: \[2, a multiple of 2, 5, 64\] is wanted, those of the newest"),
    (lambda c: {"q": c["q"].repeat(1, 6, 1, 1)}, r"q has 36 heads and the cache 2: 1 to 16 can share one"),
    (lambda c: {"q": c["q"].int()}, r"q is torch.int32: half, bfloat16 or float is wanted"),
    (lambda c: {"k": c["k"][:, :, :4]}, r"k is \[2, 2, 4, 64\]: \[2, 2, 5, 64\] is wanted, of the same tokens as q"),
    (lambda c: {"asked": c["asked"].to("meta")}, r"asked is on meta and lengths are on cpu"),
    (lambda c: {"table": c["table"].long()}, r"table are torch.int64: torch.int32 is wanted"),
])
def test_refused_in_one_line(change, line):
    cache, q, k, v, asked = case("cpu")
    given = {"q": q, "k": k, "v": v, "asked": asked, **vars(cache)}
    given.update(change(given))
    q, k, v, asked = (given.pop(name) for name in ("q", "k", "v", "asked"))
    with pytest.raises(ValueError, match="attention_in_stages: " + line) as caught:
        prompt(q, k, v, Cache(**given), asked=asked)
    assert "\n" not in str(caught.value)


def test_a_page_that_is_none_is_refused_where_it_can_be_seen():
    cache, q, k, v, asked = case("cpu")
    cache.table[0, 1] = 9
    with pytest.raises(ValueError, match=r"table\[0\] names a page that the pool of 6 has not: \[\d, 9\]"):
        prompt(q, k, v, cache, asked=asked)


def test_the_operator_itself_takes_numbers_of_each_sequence():
    cache, q, k, v, asked = case("cpu")
    for wrong in (asked.long(), asked[:1]):
        with pytest.raises(ValueError, match=r"one int32 for each of 2 sequences is wanted; prompt\(\) makes it so"):
            OPERATOR(*raw(q, k, v, cache, wrong))


def test_new_cache_serves_both(device):
    cache = new_cache(1, 2, 40, page=16, device=device)
    q, k, v = (drawn(1, heads, 9, seed, device=device) for seed, heads in ((1, 4), (2, 2), (3, 2)))
    cache.lengths += 9
    prompt(q, k, v, cache)
    cache.lengths += 1
    out = decode(q[:, :, :1], k[:, :, :1], v[:, :, :1], cache)
    assert error(out, exact(q[:, :, :1], cache, [1])) < LIMIT[device]
