"""Attention over a paged cache of keys and values in E4M3: by one query of each head (chapter 21) or many (22).

    cache = new_cache(batch, heads, max_tokens, device="cuda")
    fill_cache(cache, k, v)         # the keys and values of a prompt
    cache.lengths += 1              # then, for each new token: count it, and
    out = decode(q, k, v, cache)    # attention of its q; its k and v are put into the cache first
    cache.lengths += 100            # or for a hundred tokens at once
    out = prompt(q, k, v, cache)

The operators are torch.ops.attention_in_stages.decode and prompt. Without a GPU they compute the book's reference.
"""
import ctypes
import dataclasses
import math
from typing import Optional, Tuple

import torch
from torch import Tensor

from .native import HEAD_DIM, _launched, _library, _pointer, _program, _require, _stream

PAGES = (16, 32, 64, 128, 256)  # tokens
HEAD_DIMS = (64, 128)
MOST_QUERIES = 16  # query heads that share a head of keys
GRANULE = 16  # tokens whose codes lie together in a page
LEAST_SCALE = 95  # in E8M0: 2^-32, with which the smallest half, 2^-24, becomes 256


@dataclasses.dataclass
class Cache:
    """The keys and values of a batch's tokens: token t of sequence b is in page table[b][t / page], in its
    slot t % page. Pages may lie in any order, and sequences may share them; what a slot without a token
    holds is never read. The table's entries are not checked on a GPU. A Cache of some of the sequences has the same
    codes and scales, and those sequences' rows of table and lengths. A Cache that is used on another stream at the
    same time needs a scratch of its own, zeros_like(scratch)."""
    codes: Tensor  # uint8 [pages, heads, 2 * page * head_dim]: E4M3 of K and V, each where _views() says
    scales: Tensor  # uint8 [pages, heads, 2 * page]: E8M0 scales of each token's K and V
    table: Tensor  # int32 [batch, pages of a sequence]
    lengths: Tensor  # int32 [batch]: tokens of each sequence, those that decode() or prompt() adds included
    scratch: Tensor  # uint8, zeros at first: work memory of decode(), for one stream at a time

    def another_layer(self) -> "Cache":
        """An empty cache for the model's next layer: the same table, the same lengths."""
        return dataclasses.replace(self, codes=torch.zeros_like(self.codes), scales=torch.zeros_like(self.scales))


def new_cache(batch: int, heads: int, max_tokens: int, *, head_dim: int = HEAD_DIM, page: int = 64,
              pool: Optional[int] = None, device="cuda") -> Cache:
    """An empty cache with room for max_tokens tokens of each sequence, and all its pages dealt out.

    heads: of keys and values. head_dim: 64 or 128 elements; a token takes 2 * head_dim + 2 bytes a head. page: 16, 32,
    64, 128 or 256 tokens. pool: the number of pages for all sequences together. With it no page is dealt out: the table
    is all -1, and the caller writes the number of a page into it when a sequence needs one.
    """
    _require(page in PAGES, lambda: f"page is {page}: 16, 32, 64, 128 or 256 tokens are wanted")
    _require(head_dim in HEAD_DIMS, lambda: f"head_dim is {head_dim}: 64 or 128 is wanted")
    for name, number in (("batch", batch), ("heads", heads), ("max_tokens", max_tokens), ("pool", pool)):
        _require(number is None or number >= 1, lambda: f"{name} is {number}: at least 1 is wanted")
    of_one = (max_tokens + page - 1) // page
    pages = batch * of_one if pool is None else pool
    device = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0"
    scratch = 0
    if device.type == "cuda" and head_dim == HEAD_DIM:
        scratch = _program("decode", device).decode_scratch(batch, heads, MOST_QUERIES, page, of_one, device.index)
    codes = torch.zeros((pages, heads, 2 * page * head_dim), dtype=torch.uint8, device=device)
    table = torch.arange(batch * of_one, dtype=torch.int32, device=device).view(batch, of_one)
    return Cache(codes, codes.new_zeros((pages, heads, 2 * page)), table if pool is None else table.fill_(-1),
                 torch.zeros(batch, dtype=torch.int32, device=device), codes.new_zeros(scratch))

# ---- Layout of a page -----------------------------------------------------------------------------


def _head_dim(codes, scales):
    return codes.shape[2] // scales.shape[2]


def _views(codes, scales):
    """Views of K, V and their scales, [page, head, granule, 4, 4, ...]: a granule is 4 times 4 tokens; codes have
    head_dim / 64 times 2 times 4 times 8 columns after that."""
    pages, heads, _ = codes.shape
    head_dim = _head_dim(codes, scales)
    granules = codes.view(pages, heads, -1, 2, GRANULE * head_dim)
    # K has columns 0 to 63 of all tokens and then, in heads of 128, columns 64
    # to 127 of all tokens.
    k = granules[:, :, :, 0].unflatten(3, (head_dim // 64, 4, 4, 2, 4, 8))
    k = k.permute(0, 1, 2, 4, 5, 3, 6, 7, 8)
    # V in the order in which a lane of mma.sync needs it: four tokens of a
    # column are a word, four columns 8 apart are 16 bytes.
    v = granules[:, :, :, 1].unflatten(3, (head_dim // 64, 2, 8, 4, 4, 4))
    v = v.permute(0, 1, 2, 6, 8, 3, 4, 7, 5)
    both = scales.view(pages, heads, -1, 4, 2, 4)
    return k, v, both[:, :, :, :, 0], both[:, :, :, :, 1]


def _quantised(x):
    """Codes of rows, and each row's scale: the smallest power of two with which no value is past 448."""
    x = x.half().float()  # decode() on a GPU rounds a token's values to half first
    # The exponent of a float is E8M0. 448 is 1.75 * 2^8: a mantissa past .75 carries.
    scale = ((x.abs().amax(-1).view(torch.int32) + 0x1fffff) >> 23) - 8
    scale = scale.clamp(min=LEAST_SCALE)
    codes = x * ((254 - scale) << 23).view(torch.float32).unsqueeze(-1)  # exact, since the scale is a power of two
    return codes.to(torch.float8_e4m3fn).view(torch.uint8), scale.to(torch.uint8)


def fill_cache(cache: Cache, k: Tensor, v: Tensor, lengths: Optional[Tensor] = None) -> None:
    """Puts a prompt's keys and values, [batch, heads, tokens, head_dim], into the cache, from the first token on.

    lengths: how many of these tokens each sequence has, [batch]; if it is not given, all of them. Slots past a
    sequence's length are written, too, but never read; so the table must have pages for all of `tokens`. To fill some
    sequences of a batch alone, pass a Cache with their rows of table and lengths.
    """
    _check_cache(cache.codes, cache.scales, cache.table, cache.lengths)
    page = cache.scales.shape[2] // 2
    batch, of_one = cache.table.shape
    heads, head_dim = cache.codes.shape[1], _head_dim(cache.codes, cache.scales)
    for name, x in (("k", k), ("v", v)):
        _require(x.dim() == 4 and x.shape == k.shape and (*x.shape[:2], x.shape[3]) == (batch, heads, head_dim),
                 lambda: f"{name} is {list(x.shape)}: [{batch}, {heads}, tokens, {head_dim}] is wanted, as k and as v")
        _require(1 <= x.shape[2] <= of_one * page,
                 lambda: f"{name} has {x.shape[2]} tokens: from 1 to {of_one * page} fit into a sequence's pages")
        _require(x.device == cache.codes.device, lambda: f"{name} is on {x.device} and codes on {cache.codes.device}")
    tokens = k.shape[2]
    pages = (tokens + page - 1) // page
    # The sequences' pages one after another, to be copied to the pages that the table names.
    written = [x.new_empty((batch * pages, *x.shape[1:])) for x in (cache.codes, cache.scales)]
    views = _views(*written)
    for at, x in enumerate((k, v)):
        codes, scale = _quantised(torch.nn.functional.pad(x.detach(), (0, 0, 0, pages * page - tokens)))
        parts = codes.view(batch, heads, pages, -1, 4, 4, head_dim // 64, 2, 4, 8)
        views[at].copy_(parts.transpose(1, 2).flatten(0, 1))
        views[at + 2].copy_(scale.view(batch, heads, pages, -1, 4, 4).transpose(1, 2).flatten(0, 1))
    index = cache.table[:, :pages].flatten().long()
    cache.codes.index_copy_(0, index, written[0])
    cache.scales.index_copy_(0, index, written[1])
    if lengths is None:
        cache.lengths.fill_(tokens)
    else:
        cache.lengths.copy_(lengths)


def _gathered(codes, scales, table):
    """Codes of K and V, [batch, heads, tokens, head_dim], and float scales, [batch, heads, tokens], in the tokens' order."""
    pages = table.clamp(min=0).long()
    k, v, *both = (view[pages].transpose(1, 2).flatten(2, 5) for view in _views(codes, scales))
    return k.flatten(3), v.flatten(3), *((x.int() << 23).view(torch.float32) for x in both)


def read_cache(cache: Cache) -> Tuple[Tensor, Tensor]:
    """K and V as the cache has them, in float, [batch, heads, max_tokens, head_dim]; zeros past a sequence's length."""
    _check_cache(cache.codes, cache.scales, cache.table, cache.lengths)
    k, v, k_scales, v_scales = _gathered(cache.codes, cache.scales, cache.table)
    there = torch.arange(k.shape[2], device=k.device) < cache.lengths[:, None]
    return tuple(torch.where(there[:, None, :, None], x.view(torch.float8_e4m3fn).float() * scale.unsqueeze(-1), 0)
                 for x, scale in ((k, k_scales), (v, v_scales)))

# ---- The operators --------------------------------------------------------------------------------


def _check_cache(codes, scales, table, lengths):
    _require(scales.dim() == 3 and min(scales.shape) > 0 and scales.shape[2] in [2 * page for page in PAGES],
             lambda: f"scales are {list(scales.shape)}: [pages, heads, 2 * page] is wanted, with a page of 16, 32, "
                     "64, 128 or 256 tokens")
    wanted = [[*scales.shape[:2], scales.shape[2] * head_dim] for head_dim in HEAD_DIMS]
    _require(list(codes.shape) in wanted,
             lambda: f"codes are {list(codes.shape)}: {wanted[0]} or {wanted[1]} is wanted for these scales")
    _require(table.dim() == 2 and min(table.shape) > 0 and table.shape[1] < 2**31 // 256,
             lambda: f"table is {list(table.shape)}: [batch, pages of a sequence] is wanted")
    _require(list(lengths.shape) == [table.shape[0]],
             lambda: f"lengths are {list(lengths.shape)}: one for each of the {table.shape[0]} rows of the table is wanted")
    for name, x, dtype in (("codes", codes, torch.uint8), ("scales", scales, torch.uint8),
                           ("table", table, torch.int32), ("lengths", lengths, torch.int32)):
        _require(x.dtype == dtype, lambda: f"{name} are {x.dtype}: {dtype} is wanted")
        _require(x.is_contiguous(), lambda: f"{name} are not contiguous: the kernel writes and reads them as they lie")
        _require(x.device == codes.device, lambda: f"{name} are on {x.device} and codes on {codes.device}")


def _check_asked(q, k, v, codes, scales, table, lengths, tokens, words, other=()):
    """Checks that q, k and v have this many tokens. words: for messages, what q is, whose k and v are, and the
    function's name; other: further tensors that have to be on the same device, as (name, tensor)."""
    _check_cache(codes, scales, table, lengths)
    batch, heads, head_dim = table.shape[0], codes.shape[1], _head_dim(codes, scales)
    _require(q.dim() == 4 and q.shape[0] == batch and q.shape[1] % heads == 0
             and tuple(q.shape[2:]) == (tokens, head_dim),
             lambda: f"q is {list(q.shape)}: [{batch}, a multiple of {heads}, {tokens}, {head_dim}] is wanted, {words[0]}")
    _require(heads <= q.shape[1] <= heads * MOST_QUERIES,
             lambda: f"q has {q.shape[1]} heads and the cache {heads}: 1 to {MOST_QUERIES} can share one")
    for name, x in (("k", k), ("v", v)):
        _require(tuple(x.shape) == (batch, heads, tokens, head_dim),
                 lambda: f"{name} is {list(x.shape)}: [{batch}, {heads}, {tokens}, {head_dim}] is wanted, {words[1]}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        _require(x.dtype == torch.float16 and x.is_contiguous(),
                 lambda: f"{name} is {x.dtype}: half is wanted, and contiguous; {words[2]}() makes it so")
    for name, x in (("q", q), ("k", k), ("v", v), *other):
        _require(x.device == codes.device, lambda: f"{name} is on {x.device} and codes on {codes.device}")


def _check_decode(q, k, v, codes, scales, table, lengths, scratch):
    _check_asked(q, k, v, codes, scales, table, lengths, 1, ("one query a head", "of the newest token", "decode"),
                 [("scratch", scratch)])
    _require(q.shape[3] == HEAD_DIM, lambda: f"heads have {q.shape[3]} elements: the operator decode takes 64, and "
                                             "decode() calls prompt for 128")


@torch.library.custom_op("attention_in_stages::decode", mutates_args=("codes", "scales", "scratch"),
                         device_types="cuda")
def _decode(q: Tensor, k: Tensor, v: Tensor, codes: Tensor, scales: Tensor, table: Tensor, lengths: Tensor,
            scratch: Tensor, scale: float) -> Tensor:
    _check_decode(q, k, v, codes, scales, table, lengths, scratch)
    _require(all(x.data_ptr() % 16 == 0 for x in (codes, scales, scratch)),
             lambda: "codes, scales and scratch do not all begin at multiples of 16 bytes")
    out = torch.empty_like(q)
    q, k, v = (x if x.data_ptr() % 16 == 0 else x.clone() for x in (q, k, v))
    batch, of_one = table.shape
    heads, page = codes.shape[1], scales.shape[2] // 2
    _launched(_program("decode", codes.device).launch_decode(
        _pointer(q), _pointer(k), _pointer(v), _pointer(codes), _pointer(scales), _pointer(table), _pointer(lengths),
        _pointer(scratch), ctypes.c_size_t(scratch.numel()), _pointer(out), batch, heads, q.shape[1] // heads, page,
        of_one, ctypes.c_float(scale), *_stream(codes)))
    return out


def _append(k, v, codes, scales, table, lengths, asked):
    """Puts the newest tokens of each sequence into the cache, on the CPU; asked: how many tokens."""
    page = scales.shape[2] // 2
    views = _views(codes, scales)
    for sequence, (length, tokens) in enumerate(zip(lengths.tolist(), asked.tolist())):
        pages = table[sequence, :(length - 1) // page + 1]
        _require(0 <= pages.min() and pages.max() < codes.shape[0],
                 lambda: f"table[{sequence}] names a page that the pool of {codes.shape[0]} has not: {pages.tolist()}")
        for i in range(tokens):
            at, slot = divmod(length - tokens + i, page)
            place = pages[at], slice(None), slot // 16, slot % 16 // 4, slot % 4
            for view, x, of_scales in zip(views[:2], (k, v), views[2:]):
                new, new_scale = _quantised(x[sequence, :, i])
                view[place] = new.view(len(new), -1, 2, 4, 8)
                of_scales[place] = new_scale


def _reference(q, codes, scales, table, lengths, asked, scale):
    """The output for the newest tokens, in half, on the CPU; q is float. Rows past a sequence's tokens are zeros."""
    heads, page, head_dim = codes.shape[1], scales.shape[2] // 2, q.shape[3]
    out = torch.zeros(q.shape, dtype=torch.float32)
    for sequence, (length, tokens) in enumerate(zip(lengths.tolist(), asked.tolist())):
        mine = _gathered(codes, scales, table[sequence:sequence + 1, :(length - 1) // page + 1])
        for i in range(tokens):
            seen = length - tokens + i + 1  # how many keys this query sees
            keys = [x[0, :, :seen].contiguous() for x in mine]
            query, answer = q[sequence, :, i].contiguous(), torch.empty(q.shape[1], head_dim)
            if not _library("cpu").decode_on_cpu(
                    _pointer(query), *(_pointer(x) for x in keys), heads, q.shape[1] // heads, seen, head_dim,
                    ctypes.c_float(scale), _pointer(answer)):
                raise MemoryError("attention_in_stages: no memory left")
            out[sequence, :, i] = answer
    return out.half()


@_decode.register_kernel("cpu")
def _(q, k, v, codes, scales, table, lengths, scratch, scale):
    _check_decode(q, k, v, codes, scales, table, lengths, scratch)
    asked = torch.ones_like(lengths)
    _append(k, v, codes, scales, table, lengths, asked)
    return _reference(q.float(), codes, scales, table, lengths, asked, scale)


@_decode.register_fake
def _(q, k, v, codes, scales, table, lengths, scratch, scale):
    _check_decode(q, k, v, codes, scales, table, lengths, scratch)
    return torch.empty_like(q)


def decode(q: Tensor, k: Tensor, v: Tensor, cache: Cache, *, scale: Optional[float] = None) -> Tensor:
    """Puts the newest token's k and v into the cache, and returns softmax(q kᵀ scale) v over all its tokens.

    q: [batch, query heads, 1, head_dim], up to 16 for each head of the cache, in the order of
    scaled_dot_product_attention(enable_gqa=True); k, v: [batch, heads, 1, head_dim]. Half, bfloat16 or float, any
    strides; they become half. With heads of 128 this is prompt() of one token, which rounds the query to E4M3.
    cache.lengths must count the newest token already: raise it once a token, for all layers. It is not checked, since
    it is on the GPU: a length below 1 counts as 1, and with one past the last page the last slot is written again.
    scale: 1 / sqrt(head_dim) if it is not given.
    """
    halves, lengths = _given("decode", q, k, v, cache)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if tuple(q.shape[2:]) == (1, 128):
        out = _prompt(*halves, cache.codes, cache.scales, cache.table, lengths, torch.ones_like(lengths), scale)
    else:
        out = _decode(*halves, cache.codes, cache.scales, cache.table, lengths, cache.scratch, scale)
    return out.to(q.dtype)


def _given(name, q, k, v, cache):
    """q, k and v in half, and lengths clamped to the table."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise RuntimeError(f"attention_in_stages: forward only, a cache has no gradient: call {name}() under "
                           "torch.no_grad()")
    for tensor, x in (("q", q), ("k", k), ("v", v)):
        _require(x.dtype in (torch.float16, torch.bfloat16, torch.float32),
                 lambda: f"{tensor} is {x.dtype}: half, bfloat16 or float is wanted")
    room = cache.table.shape[-1] * (cache.scales.shape[-1] // 2)
    return [x.half().contiguous() for x in (q, k, v)], cache.lengths.clamp(1, room)


def _check_prompt(q, k, v, codes, scales, table, lengths, asked):
    _require(q.dim() == 4 and q.shape[2] >= 1,
             lambda: f"q is {list(q.shape)}: [batch, query heads, tokens, head_dim] is wanted")
    _check_asked(q, k, v, codes, scales, table, lengths, q.shape[2],
                 ("those of the newest tokens", "of the same tokens as q", "prompt"), [("asked", asked)])
    _require(asked.dtype == torch.int32 and asked.shape == lengths.shape and asked.is_contiguous(),
             lambda: f"asked is {asked.dtype} {list(asked.shape)}: one int32 for each of {lengths.shape[0]} sequences is "
                     "wanted; prompt() makes it so")


@torch.library.custom_op("attention_in_stages::prompt", mutates_args=("codes", "scales"), device_types="cuda")
def _prompt(q: Tensor, k: Tensor, v: Tensor, codes: Tensor, scales: Tensor, table: Tensor, lengths: Tensor,
            asked: Tensor, scale: float) -> Tensor:
    _check_prompt(q, k, v, codes, scales, table, lengths, asked)
    _require(all(x.data_ptr() % 16 == 0 for x in (codes, scales)),
             lambda: "codes and scales do not both begin at multiples of 16 bytes")
    out = torch.zeros_like(q)
    q, k, v = (x if x.data_ptr() % 16 == 0 else x.clone() for x in (q, k, v))
    program = _program("prompt", codes.device)
    batch, of_one = table.shape
    heads, page, tokens = codes.shape[1], scales.shape[2] // 2, q.shape[2]
    sizes = batch, heads, q.shape[1] // heads, tokens, page, of_one, q.shape[3]
    scratch = codes.new_zeros(program.prompt_scratch(*sizes, codes.device.index))
    _launched(program.launch_prompt(
        _pointer(q), _pointer(k), _pointer(v), _pointer(codes), _pointer(scales), _pointer(table), _pointer(lengths),
        _pointer(asked), _pointer(scratch), ctypes.c_size_t(scratch.numel()), _pointer(out), *sizes,
        ctypes.c_float(scale), *_stream(codes)))
    return out


@_prompt.register_kernel("cpu")
def _(q, k, v, codes, scales, table, lengths, asked, scale):
    _check_prompt(q, k, v, codes, scales, table, lengths, asked)
    _append(k, v, codes, scales, table, lengths, asked)
    rounded, of_rows = _quantised(q)  # the kernel, too, quantises q to E4M3
    rounded = rounded.view(torch.float8_e4m3fn).float() * (of_rows.int() << 23).view(torch.float32).unsqueeze(-1)
    return _reference(rounded, codes, scales, table, lengths, asked, scale)


@_prompt.register_fake
def _(q, k, v, codes, scales, table, lengths, asked, scale):
    _check_prompt(q, k, v, codes, scales, table, lengths, asked)
    return torch.empty_like(q)


def prompt(q: Tensor, k: Tensor, v: Tensor, cache: Cache, *, asked: Optional[Tensor] = None,
           scale: Optional[float] = None) -> Tensor:
    """Puts the newest tokens' k and v into the cache, and returns each one's attention over all tokens up to itself.

    q: [batch, query heads, tokens, head_dim], up to 16 query heads for each head of the cache; k, v: [batch, heads,
    tokens, head_dim]; types and strides as for decode(). Each query becomes E4M3 with a power of two as its scale, as
    keys do. cache.lengths must count the newest tokens already. asked: how many newest tokens each sequence has,
    [batch], at least one; if it is not given, all of them. Output rows past them are zeros. scale: 1 / sqrt(head_dim)
    if it is not given.
    """
    halves, lengths = _given("prompt", q, k, v, cache)
    tokens = max(1, q.shape[2]) if q.dim() == 4 else 1  # if q has another shape, the operator will report it
    if asked is None:
        asked = torch.full_like(lengths, tokens)
    _require(asked.device == lengths.device, lambda: f"asked is on {asked.device} and lengths are on {lengths.device}")
    asked = torch.minimum(asked.clamp(1, tokens).to(torch.int32), lengths)
    out = _prompt(*halves, cache.codes, cache.scales, cache.table, lengths, asked,
                  1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return out.to(q.dtype)
