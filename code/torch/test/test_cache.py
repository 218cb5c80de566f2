"""decode(): against PyTorch's own attention over the same tokens, against PyTorch's checks of an operator, and
refusals."""
import ctypes
import dataclasses
import random

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_in_stages import Cache, decode, fill_cache, native, new_cache, read_cache

OPERATOR = torch.ops.attention_in_stages.decode
TYPES = [torch.float16, torch.bfloat16, torch.float32]
PAGES = [16, 32, 64, 128, 256]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
LIMIT = {"cpu": 6e-4, "cuda": 2e-3}  # largest errors: the output is rounded to half; on a GPU, P is, too
# Largest error of a head, since keys and values are rounded to E4M3; of standard normal numbers
# it would be 0.04.
QUANTISED = 0.2


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def drawn(batch, heads, tokens, seed=0, dtype=torch.float16, device="cpu", head_dim=64):
    """Normal numbers, with a mean and a size for each head."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, heads, tokens, head_dim, generator=generator)
    x = x * (0.1 + torch.rand(heads, 1, 1, generator=generator)) + torch.randn(heads, 1, head_dim, generator=generator)
    return x.to(device, dtype)


def dealt(batch, heads, max_tokens, page, device="cpu", seed=0, head_dim=64):
    """A cache whose pages lie in a drawn order, and whose empty slots hold NaN in both formats."""
    cache = new_cache(batch, heads, max_tokens, page=page, device=device, head_dim=head_dim)
    order = torch.randperm(cache.table.numel(), generator=torch.Generator().manual_seed(seed))
    cache.table.copy_(order.view(cache.table.shape))
    cache.codes.fill_(0xff)
    cache.scales.fill_(0xff)
    return cache


def copied(cache):
    return Cache(*(x.clone() for x in dataclasses.astuple(cache)))


def exact(q, cache, **options):
    """Attention in double precision over what the cache has."""
    k, v = (x.double() for x in read_cache(cache))
    there = torch.arange(k.shape[2], device=k.device) < cache.lengths[:, None]
    return scaled_dot_product_attention(q.double(), k, v, attn_mask=there[:, None, None], enable_gqa=True, **options)


def error(out, wanted):
    """The worst head's relative error."""
    difference = (out.double() - wanted.double()).norm(dim=(2, 3))
    return (difference / wanted.double().norm(dim=(2, 3))).max().item()


def case(device, page=32, dtype=torch.float16):
    """A cache with prompts of 40 and 3 tokens, and for each of the two sequences a further token and its query."""
    cache = dealt(2, 2, 70, page, device)
    fill_cache(cache, drawn(2, 2, 40, 1, dtype, device), drawn(2, 2, 40, 2, dtype, device),
               torch.tensor([40, 3], device=device))
    cache.lengths += 1
    return cache, drawn(2, 6, 1, 3, dtype, device), *(drawn(2, 2, 1, seed, dtype, device) for seed in (4, 5))


def raw(q, k, v, cache, scale=0.125):
    """Arguments of the operator itself."""
    return (q, k, v, cache.codes, cache.scales, cache.table, cache.lengths, cache.scratch, scale)

# ---- Values -----------------------------------------------------------------------------------------


def shapes():
    """Cases, drawn ones and corner cases: batch, heads, query heads a head, tokens of the longest prompt, page."""
    chance = random.Random(2)
    some = [(chance.randint(1, 3), chance.randint(1, 4), chance.randint(1, 16), chance.randint(1, 600),
             chance.choice(PAGES)) for _ in range(8)]
    return some + [(1, 1, 1, 1, 16), (1, 1, 16, 15, 16), (2, 1, 8, 16, 16), (1, 2, 9, 255, 256), (1, 2, 4, 1500, 16)]


@pytest.mark.parametrize("shape", shapes())
def test_a_query_of_drawn_caches(shape, device):
    batch, heads, group, tokens, page = shape
    cache = dealt(batch, heads, tokens + 1, page, device)
    lengths = torch.tensor([tokens] + [random.Random(b).randint(0, tokens) for b in range(1, batch)], device=device)
    fill_cache(cache, *(drawn(batch, heads, tokens, seed, device=device) for seed in (1, 2)), lengths)
    q = drawn(batch, heads * group, 1, 3, device=device)
    k, v = (drawn(batch, heads, 1, seed, device=device) for seed in (4, 5))
    cache.lengths += 1
    out = decode(q, k, v, cache)
    assert out.shape == q.shape and out.dtype == q.dtype and out.device == q.device
    assert error(out, exact(q, cache)) < LIMIT[device]
    for x, there in zip((k, v), read_cache(cache)):  # the newest token is the last, and zeros follow it
        for b, length in enumerate(lengths.tolist()):
            assert (there[b, :, length] - x[b, :, 0]).abs().max() <= x[b].abs().max() / 16
            assert not there[b, :, length + 1:].any()


@pytest.mark.parametrize("page", PAGES)
def test_many_tokens_one_after_the_other(page, device):
    """Crosses the end of pages of each size; compared with attention in half over the same tokens, appended by
    cat."""
    cache = dealt(2, 2, 19 + 2 * page, page, device)
    k, v = (drawn(2, 2, 19, seed, device=device) for seed in (1, 2))
    fill_cache(cache, k, v)
    for step in range(page + 16 if device == "cuda" else 20):
        q = drawn(2, 8, 1, 10 * step, device=device)
        newest = [drawn(2, 2, 1, 10 * step + seed, device=device) for seed in (1, 2)]
        k, v = torch.cat([k, newest[0]], 2), torch.cat([v, newest[1]], 2)
        cache.lengths += 1
        out = decode(q, *newest, cache)
        assert error(out, exact(q, cache)) < LIMIT[device]
        assert error(out, scaled_dot_product_attention(q, k, v, enable_gqa=True)) < QUANTISED
    assert cache.lengths.tolist() == [k.shape[2]] * 2
    # The same tokens as one prompt give the same bytes.
    at_once = dealt(2, 2, 19 + 2 * page, page, device)
    fill_cache(at_once, k, v)
    for here, there in zip(read_cache(at_once), read_cache(cache)):
        assert torch.equal(here, there)


def test_a_code_is_the_nearest_and_a_scale_the_least_power_of_two(device):
    cache = dealt(1, 2, 60, 32, device)
    k = drawn(1, 2, 50, 1, device=device) * torch.logspace(-24, 12, 50, base=2, device=device).half()[:, None]
    k[0, 0, 7], k[0, 1, 8], k[0, 0, 9, :] = 0, 448, 1.001 * 448
    fill_cache(cache, k, k)
    for x in read_cache(cache):
        largest = k.float().abs().amax(-1, keepdim=True)
        power = torch.where(largest > 0, (largest / 448).log2().ceil().exp2(), 1).clamp(min=2.0**-32)
        assert torch.equal(x[:, :, :50], (k.float() / power).to(torch.float8_e4m3fn).float() * power)


@pytest.mark.parametrize("program, head_dim", [("ch21_decode", 64), ("ch22_prompt", 64), ("ch22_prompt", 128)])
@pytest.mark.parametrize("page", PAGES)
def test_elements_lie_where_the_program_says(page, program, head_dim):
    try:
        library = native._library(program)
    except (RuntimeError, OSError):
        pytest.skip("no kernels here")
    codes = torch.zeros(1, 1, 2 * page * head_dim, dtype=torch.int32)
    codes.copy_(torch.arange(codes.numel()))
    from attention_in_stages.cache import _views
    for tensor, view in enumerate(_views(codes, torch.zeros(1, 1, 2 * page, dtype=torch.uint8))[:2]):
        wanted = [library.place_of(tensor, slot, d, head_dim) for slot in range(page) for d in range(head_dim)]
        assert view.flatten().tolist() == wanted


def test_tokens_of_very_different_sizes(device):
    cache = dealt(1, 2, 200, 16, device)
    sizes = 2.0 ** torch.randint(-9, 7, (1, 2, 130, 1), generator=torch.Generator().manual_seed(3)).to(device)
    k, v = (drawn(1, 2, 130, seed, torch.float32, device) * sizes for seed in (1, 2))
    v[:, :, 5] = 0
    fill_cache(cache, k.half(), v.half())
    q, zeros = drawn(1, 4, 1, 3, device=device) / 8, torch.zeros(1, 2, 1, 64, dtype=torch.half, device=device)
    cache.lengths += 1
    assert error(decode(q, zeros, zeros, cache), exact(q, cache)) < LIMIT[device]


@pytest.mark.parametrize("dtype", TYPES)
def test_the_type_of_the_query_is_the_outputs(dtype, device):
    cache, q, k, v = case(device, dtype=dtype)
    other = copied(cache)
    out = decode(q, k, v, cache)
    assert out.dtype == dtype
    assert torch.equal(out, decode(q.half(), k.half(), v.half(), other).to(dtype))
    assert torch.equal(cache.codes, other.codes) and torch.equal(cache.scales, other.scales)


def test_scale_is_that_of_the_scores(device):
    cache, q, k, v = case(device)
    assert torch.equal(decode(q, k, v, cache), decode(q, k, v, cache, scale=1 / 8))
    assert error(decode(q, k, v, cache, scale=0.02), exact(q, cache, scale=0.02)) < LIMIT[device]


def test_tensors_may_lie_anywhere(device):
    """Inputs that are slices of one product's output; that are not aligned to 16 bytes; that are expanded; that
    have another stride."""
    cache, q, k, v = case(device)
    wanted = decode(q, k, v, copied(cache))
    packed = torch.cat([q, k, v], 1).transpose(1, 2).contiguous().transpose(1, 2)
    assert not packed[:, :6].is_contiguous()
    assert torch.equal(decode(packed[:, :6], packed[:, 6:8], packed[:, 8:], copied(cache)), wanted)
    odd = [torch.cat([x.new_zeros(3), x.flatten()])[3:].view(x.shape) for x in (q, k, v)]
    assert torch.equal(decode(*odd, copied(cache)), wanted)
    turned = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]
    assert torch.equal(decode(*turned, copied(cache)), wanted)
    same = decode(q[:1, :1].expand(2, 6, 1, 64), k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1), copied(cache))
    assert same.shape == q.shape and same.isfinite().all()


def test_a_length_that_is_none_stays_inside(device):
    """Only the first slot, and the last, are written."""
    cache, q, k, v = case(device, page=16)
    cache.lengths.copy_(torch.tensor([0, 999]))
    before = copied(cache)
    out = decode(q, k, v, cache)
    assert cache.lengths.tolist() == [0, 999]  # the caller's lengths are unchanged
    cache.lengths.copy_(torch.tensor([1, 80]))
    assert torch.equal(out[:1], v[:1].repeat_interleave(3, 1)) or error(out[:1], exact(q, cache)[:1]) < LIMIT[device]
    pages = (cache.codes != before.codes).flatten(1).any(1).nonzero().flatten().tolist()
    assert sorted(pages) == sorted([cache.table[0, 0].item(), cache.table[1, 4].item()])


def test_some_sequences_of_a_batch_and_pages_that_they_share(device):
    """A batch's rows can be used as caches: a new sequence is filled while another goes on; both share their first
    page."""
    cache = dealt(3, 2, 100, 32, device)
    k, v = (drawn(3, 2, 64, seed, device=device) for seed in (1, 2))
    fill_cache(cache, k, v)
    row = dataclasses.replace(cache, table=cache.table[1:2], lengths=cache.lengths[1:2])
    fill_cache(row, k[:1, :, :50], v[:1, :, :50])
    assert cache.lengths.tolist() == [64, 50, 64]
    cache.table[1, 0] = cache.table[0, 0]  # both have the same first page
    row.lengths += 1
    q, newest = drawn(1, 4, 1, 3, device=device), [drawn(1, 2, 1, seed, device=device) for seed in (4, 5)]
    out = decode(q, *newest, row)
    tokens = [torch.cat([x[:1, :, :50], new], 2) for x, new in zip((k, v), newest)]
    assert error(out, scaled_dot_product_attention(q, *tokens, enable_gqa=True)) < QUANTISED
    assert error(out, exact(q, row)) < LIMIT[device]
    for here, x in zip(read_cache(cache), (k, v)):
        assert error(here[[0, 2], :, :64], x[[0, 2]]) < QUANTISED


def test_pages_of_a_pool_as_they_are_needed(device):
    """Two sequences of different lengths, room for 320 tokens each, and five pages of 16."""
    cache = new_cache(2, 2, 320, page=16, pool=5, device=device)
    assert cache.table.tolist() == [[-1] * 20] * 2 and cache.codes.shape[0] == 5 and cache.scales.shape[0] == 5
    free = [3, 0, 4, 1, 2]
    tokens = [[], []]
    for step in range(40):
        # The second sequence gets a new token at every other step only.
        lengths = torch.tensor([step + 1, step // 2 + 1], device=device)
        for b, length in enumerate(lengths.tolist()):
            if cache.table[b, (length - 1) // 16] < 0:
                cache.table[b, (length - 1) // 16] = free.pop()
        cache.lengths.copy_(lengths)
        q, k, v = (drawn(2, heads, 1, 3 * step + seed, device=device) for seed, heads in enumerate((4, 2, 2)))
        out = decode(q, k, v, cache)
        assert error(out, exact(q, cache)) < LIMIT[device]
        tokens[0].append(k[0])
        tokens[1][step // 2:] = [k[1]]
    assert free == []
    for b in range(2):
        wanted = torch.cat(tokens[b], 1)[None]
        assert error(read_cache(cache)[0][b:b + 1, :, :wanted.shape[2]], wanted) < QUANTISED


def test_another_layer_has_the_same_table_and_lengths(device):
    cache, q, k, v = case(device)
    other = cache.another_layer()
    assert other.table is cache.table and other.lengths is cache.lengths
    assert other.codes.shape == cache.codes.shape and not other.codes.any()
    before = cache.codes.clone()
    decode(q, k, v, other)
    assert torch.equal(cache.codes, before) and other.codes.any()


def test_what_a_new_cache_is(device):
    cache = new_cache(3, 4, 130, page=64, device=device)
    assert cache.codes.shape == (9, 4, 2 * 64 * 64) and cache.scales.shape == (9, 4, 2 * 64)
    assert cache.table.flatten().tolist() == list(range(9)) and cache.lengths.tolist() == [0, 0, 0]
    assert {x.device.type for x in dataclasses.astuple(cache)} == {device}
    assert new_cache(1, 1, 64, device=device).table.shape == (1, 1)
    for name, arguments in (("page is 24: 16, 32, 64, 128 or 256 tokens are wanted", {"page": 24}),
                            ("max_tokens is 0: at least 1 is wanted", {"max_tokens": 0}),
                            ("pool is 0: at least 1 is wanted", {"pool": 0}),
                            ("batch is 0: at least 1 is wanted", {"batch": 0})):
        with pytest.raises(ValueError, match="attention_in_stages: " + name):
            new_cache(**{"batch": 1, "heads": 1, "max_tokens": 10, "device": device, **arguments})

# ---- What PyTorch asks of an operator ---------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_opcheck(page, device):
    cache, q, k, v = case(device, page)
    torch.library.opcheck(OPERATOR.default, raw(q, k, v, cache))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_without_a_graph_break(backend, device):
    torch._dynamo.reset()

    def step(q, k, v, cache):
        cache.lengths += 1
        return decode(q * 2, k, v, cache) + 1

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    cache, q, k, v = case(device)
    other = copied(cache)
    for seed in range(3):
        q = drawn(2, 6, 1, seed, device=device)
        assert torch.equal(compiled(q, k, v, cache), step(q, k, v, other))
        for here, there in zip(dataclasses.astuple(cache), dataclasses.astuple(other)):
            assert torch.equal(here, there)
    assert cache.lengths.tolist() == [44, 7]


@pytest.mark.parametrize("page", [16, 128])
def test_a_prompt_by_a_compiled_function(page, device):
    torch._dynamo.reset()
    cache = dealt(2, 3, 200, page, device)
    other = copied(cache)
    k, v = (drawn(2, 3, 150, seed, device=device) for seed in (1, 2))
    torch.compile(fill_cache, fullgraph=True)(cache, k, v)
    fill_cache(other, k, v)
    for here, there in zip(dataclasses.astuple(cache), dataclasses.astuple(other)):
        assert torch.equal(here, there)


def test_fake_tensors_have_the_shape_and_refuse_what_tensors_refuse():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        codes = torch.empty(6, 2, 2 * 16 * 64, dtype=torch.uint8, device="cuda")
        cache = Cache(codes, codes.new_empty(6, 2, 32), *(codes.new_empty(size, dtype=torch.int32) for size in ((2, 3), 2)),
                      codes.new_empty(0))
        q, k = (torch.empty(2, heads, 1, 64, dtype=torch.bfloat16, device="cuda") for heads in (6, 2))
        out = decode(q, k, k, cache)
        assert out.shape == q.shape and out.dtype == torch.bfloat16 and out.device.type == "cuda"
        with pytest.raises(ValueError, match=r"k is \[2, 6, 1, 64\]"):
            decode(q, q, q, cache)


def test_no_gradient(device):
    cache, q, k, v = case(device)
    before = cache.codes.clone()
    q.requires_grad_()
    with pytest.raises(RuntimeError, match=r"forward only, a cache has no gradient: call decode\(\) under torch.no_grad") \
            as caught:
        decode(q, k, v, cache)
    assert "\n" not in str(caught.value) and torch.equal(cache.codes, before)
    with torch.no_grad():
        assert not decode(q, k, v, cache).requires_grad
    v.requires_grad_()  # a prompt's k and v may come from a model that is trained elsewhere
    fill_cache(cache, k.detach(), v)
    assert torch.equal(read_cache(cache)[1][:, :, 1:], torch.zeros_like(read_cache(cache)[1][:, :, 1:]))
    # If the operator itself is called, PyTorch reports the missing gradient.
    with pytest.raises(RuntimeError):
        OPERATOR(*raw(q, k, v.detach(), cache)).sum().backward()

def test_in_inference_mode(device):
    """A cache made outside of the graph is appended to inside of it, and the other way round."""
    outside, q, k, v = case(device)
    other = copied(outside)
    wanted = decode(q, k, v, other)
    with torch.inference_mode():
        assert torch.equal(decode(q, k, v, outside), wanted)
        inside, *_ = case(device)
        assert torch.equal(decode(q, k, v, inside), wanted)
    assert torch.equal(outside.codes, other.codes)
    with torch.no_grad():
        outside.lengths += 1
        other.lengths += 1
        assert torch.equal(decode(q, k, v, outside), decode(q, k, v, other))

# ---- What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("change, line", [
    (lambda c: {"q": c["q"][0]}, r"q is \[6, 1, 64\]: \[2, a multiple of 2, 1, 64\] is wanted, one query a head"),
    (lambda c: {"q": c["q"][:, :5]}, r"q is \[2, 5, 1, 64\]: \[2, a multiple of 2, 1, 64\] is wanted"),
    (lambda c: {"q": c["q"].expand(2, 6, 2, 64)}, r"q is \[2, 6, 2, 64\]: \[2, a multiple of 2, 1, 64\] is wanted"),
    (lambda c: {"q": c["q"][:, :, :, :32]}, r"q is \[2, 6, 1, 32\]"),
    (lambda c: {"q": c["q"].repeat(1, 6, 1, 1)}, r"q has 36 heads and the cache 2: 1 to 16 can share one"),
    (lambda c: {"q": c["q"][:, :0]}, r"q has 0 heads and the cache 2"),
    (lambda c: {"q": c["q"].int()}, r"q is torch.int32: half, bfloat16 or float is wanted"),
    (lambda c: {"q": c["q"].to("meta")}, r"q is on meta and codes on cpu"),
    (lambda c: {"k": c["k"][:, :1]}, r"k is \[2, 1, 1, 64\]: \[2, 2, 1, 64\] is wanted, of the newest token"),
    (lambda c: {"v": c["v"][:, :, 0]}, r"v is \[2, 2, 64\]: \[2, 2, 1, 64\] is wanted, of the newest token"),
    (lambda c: {"codes": c["codes"].view(torch.float8_e4m3fn)}, r"codes are torch.float8_e4m3fn: torch.uint8 is wanted"),
    (lambda c: {"codes": c["codes"][:, :1]}, r"codes are \[6, 1, 4096\]: \[6, 2, 4096\] or \[6, 2, 8192\] is wanted for these scales"),
    (lambda c: {"codes": c["codes"].repeat(1, 1, 2)[:, :, ::2]}, r"codes are not contiguous: the kernel writes and reads"),
    (lambda c: {"scales": c["scales"][:, :, :48]}, r"scales are \[6, 2, 48\]: \[pages, heads, 2 \* page\] is wanted, with a "),
    (lambda c: {"scales": c["scales"][:, :0], "codes": c["codes"][:, :0]}, r"scales are \[6, 0, 64\]"),
    (lambda c: {"scales": c["scales"].int()}, r"scales are torch.int32: torch.uint8 is wanted"),
    (lambda c: {"table": c["table"][0]}, r"table is \[3\]: \[batch, pages of a sequence\] is wanted"),
    (lambda c: {"table": c["table"][:0], "lengths": c["lengths"][:0]}, r"table is \[0, 3\]"),
    (lambda c: {"table": c["table"].long()}, r"table are torch.int64: torch.int32 is wanted"),
    (lambda c: {"table": c["table"][:, :2]}, r"table are not contiguous"),
    (lambda c: {"lengths": c["lengths"][:1]}, r"lengths are \[1\]: one for each of the 2 rows of the table is wanted"),
    (lambda c: {"lengths": c["lengths"].long()}, r"lengths are torch.int64: torch.int32 is wanted"),
    (lambda c: {"scratch": c["scratch"].to("meta")}, r"scratch is on meta and codes on cpu"),
])
def test_refused_in_one_line(change, line):
    cache, q, k, v = case("cpu")
    given = {"q": q, "k": k, "v": v, **vars(cache)}
    given.update(change(given))
    with pytest.raises(ValueError, match="attention_in_stages: " + line) as caught:
        decode(*(given.pop(name) for name in "qkv"), Cache(**given))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("page", [-1, 6])
def test_a_page_that_is_none_is_refused_where_it_can_be_seen(page):
    cache, q, k, v = case("cpu")
    cache.table[0, 2] = page  # no sequence has this page: 41 tokens need two pages of 32
    decode(q, k, v, cache)
    cache.table[0, 1] = page
    with pytest.raises(ValueError, match=rf"table\[0\] names a page that the pool of 6 has not: \[\d, {page}\]"):
        decode(q, k, v, cache)


def test_the_operator_itself_takes_halves_that_are_contiguous():
    cache, q, k, v = case("cpu")
    for wrong in (q.float(), q.transpose(0, 1).contiguous().transpose(0, 1)):
        with pytest.raises(ValueError, match=r"half is wanted, and contiguous; decode\(\) makes it so"):
            OPERATOR(*raw(wrong, k, v, cache))


@pytest.mark.parametrize("k, v, line", [
    ((2, 2, 97, 64), (2, 2, 97, 64), r"k has 97 tokens: from 1 to 96 fit into a sequence's pages"),
    ((2, 2, 0, 64), (2, 2, 0, 64), r"k has 0 tokens: from 1 to 96 fit"),
    ((2, 1, 9, 64), (2, 1, 9, 64), r"k is \[2, 1, 9, 64\]: \[2, 2, tokens, 64\] is wanted, as k and as v"),
    ((2, 2, 9, 64), (2, 2, 8, 64), r"v is \[2, 2, 8, 64\]: \[2, 2, tokens, 64\] is wanted, as k and as v"),
    ((2, 2, 9, 32), (2, 2, 9, 32), r"k is \[2, 2, 9, 32\]: \[2, 2, tokens, 64\] is wanted"),
    ((2, 2, 64), (2, 2, 64), r"k is \[2, 2, 64\]"),
])
def test_a_prompt_that_does_not_fit(k, v, line):
    cache, *_ = case("cpu")
    before = copied(cache)
    with pytest.raises(ValueError, match="attention_in_stages: " + line):
        fill_cache(cache, torch.zeros(k), torch.zeros(v))
    cache.table[0, 1] = -1  # no page
    with pytest.raises((IndexError, RuntimeError)):
        fill_cache(cache, torch.zeros(2, 2, 40, 64), torch.zeros(2, 2, 40, 64))
    assert torch.equal(cache.lengths, before.lengths)

# ---- On a GPU ---------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")


@on_gpu
@pytest.mark.parametrize("page", PAGES)
def test_bytes_of_the_gpu_are_those_of_the_cpu(page):
    here, *tensors = case("cpu", page)
    there, *_ = case("cuda", page)
    out = decode(*tensors, here)
    assert error(decode(*(x.cuda() for x in tensors), there).cpu(), out) < LIMIT["cuda"]
    for x, y in zip(read_cache(here), read_cache(there)):
        assert torch.equal(x, y.cpu())
    assert torch.equal(here.codes != 0xff, (there.codes != 0xff).cpu())  # both wrote the same bytes and no others


@on_gpu
def test_scratch_that_is_too_small_is_refused():
    cache = new_cache(1, 2, 4096, device="cuda")
    assert cache.scratch.numel() > 0
    q, k = (torch.zeros(1, heads, 1, 64, dtype=torch.half, device="cuda") for heads in (2, 2))
    with pytest.raises(RuntimeError, match=f"scratch has 0 bytes, {cache.scratch.numel()} are wanted"):
        decode(q, k, k, dataclasses.replace(cache, scratch=cache.scratch[:0]))


@on_gpu
@pytest.mark.parametrize("name", ["codes", "scales", "scratch"])
def test_what_begins_at_an_odd_byte_is_refused(name):
    cache, q, k, v = case("cuda")
    x = getattr(cache, name)
    odd = torch.cat([x.new_zeros(1), x.flatten(), x.new_zeros(1)])[1:1 + x.numel()].view(x.shape)
    if odd.numel() == 0:
        odd = x.new_zeros(8)[1:]
    with pytest.raises(ValueError, match="codes, scales and scratch do not all begin at multiples of 16 bytes"):
        decode(q, k, v, dataclasses.replace(cache, **{name: odd}))


@on_gpu
def test_the_current_stream_is_used():
    cache, q, k, v = case("cuda")
    late = [torch.zeros_like(x) for x in (q, k, v)]
    other = copied(cache)
    wanted = decode(q, k, v, other)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # a kernel on another stream that did not wait would see zeros
        for to, x in zip(late, (q, k, v)):
            to.copy_(x)
        out = decode(*late, cache)
    stream.synchronize()
    assert torch.equal(out, wanted) and torch.equal(cache.codes, other.codes)


@on_gpu
@pytest.mark.parametrize("room", [4000, 5000])  # on an H200, keys split over 16 CTAs, and over 32
def test_two_streams_at_once(room):
    """The two caches' partial results must not mix: each cache has its own scratch."""
    prompts = [[drawn(1, 2, 3000, 10 * i + seed, device="cuda") for seed in (1, 2)] for i in range(2)]
    q = [drawn(1, 8, 1, i, device="cuda") for i in range(2)]
    newest = [drawn(1, 2, 1, 7 + i, device="cuda") for i in range(2)]
    caches, streams = [], [torch.cuda.Stream() for _ in range(2)]
    for prompt in prompts:
        caches.append(dealt(1, 2, room, 16, "cuda"))
        assert caches[-1].scratch.numel() > 0
        fill_cache(caches[-1], *prompt)
    wanted = []
    for i in range(2):
        other = copied(caches[i])
        outs = []
        for _ in range(200):
            other.lengths += 1
            outs.append(decode(q[i], newest[i], newest[i], other))
        wanted.append(torch.stack(outs))
    torch.cuda.synchronize()
    got = [[], []]
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # both streams wait, while many launches are enqueued
    for _ in range(200):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                caches[i].lengths += 1
                got[i].append(decode(q[i], newest[i], newest[i], caches[i]))
    torch.cuda.synchronize()
    for i in range(2):
        assert torch.equal(torch.stack(got[i]), wanted[i])


@on_gpu
@pytest.mark.parametrize("heads", [2, 200])  # split over CTAs, and unsplit
def test_a_graph_that_appends_is_replayed(heads):
    cache = dealt(2, heads, 500, 32, "cuda")
    fill_cache(cache, *(drawn(2, heads, 290, seed, device="cuda") for seed in (1, 2)))
    other = copied(cache)
    q, k, v = (torch.zeros(2, n, 1, 64, dtype=torch.half, device="cuda") for n in (2 * heads, heads, heads))
    warm = copied(cache)
    warm.lengths += 1
    decode(q, k, v, warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.lengths += 1  # captured in the graph: each replay advances it
        out = decode(q, k, v, cache)
    assert cache.lengths.tolist() == [290] * 2
    for step in range(40):
        q.copy_(drawn(2, 2 * heads, 1, 3 * step, device="cuda"))
        k.copy_(drawn(2, heads, 1, 3 * step + 1, device="cuda"))
        v.copy_(drawn(2, heads, 1, 3 * step + 2, device="cuda"))
        graph.replay()
        other.lengths += 1
        assert torch.equal(out, decode(q, k, v, other))
    for here, there in zip(dataclasses.astuple(cache)[:4], dataclasses.astuple(other)):
        assert torch.equal(here, there)
    assert cache.lengths.tolist() == [330] * 2
