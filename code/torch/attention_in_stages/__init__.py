"""The kernels of the book Attention in Stages as operators of PyTorch: forward, E4M3 inside.

    from attention_in_stages import attention
    out = attention(q, k, v)                   # [batch, heads, seq_len, head_dim], as scaled_dot_product_attention
    out = attention(q, k, v, accuracy="e4m3")  # on a Hopper faster: P is rounded to E4M3, too
    out = attention(q, k, v, stage="causal")   # with a causal mask

stages.py lists the stages. The operators are torch.ops.attention_in_stages.quantise, and one for each stage, such as
.registers or .hopper; attention() calls quantise and then the stage. On the CPU they compute the book's reference.
cache.py has the operators for attention over a cache, decode() and prompt().
"""
import ctypes
import math
from typing import Optional, Tuple

try:
    import torch
except ImportError:
    raise ImportError("attention_in_stages needs PyTorch 2.6 or later: pip install torch") from None
from torch import Tensor

from .cache import Cache, decode, fill_cache, new_cache, prompt, read_cache
from .native import HEAD_DIM, _launched, _library, _listed, _pointer, _program, _require, _stream
from .stages import FASTEST, OLD_NUMBERS, STAGES

__all__ = ["attention", "quantise", "Cache", "decode", "fill_cache", "new_cache", "prompt", "read_cache",
           "STAGES"]

TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}  # the numbers in quantise.cu
MOST_PARTS = 64  # the most parts that quantise.cu cuts a head of a sequence into
CODES = torch.uint8  # not float8_e4m3fn, which opcheck cannot compare; codes may be viewed as that

# ---- What is asked for ----------------------------------------------------------------------------


def _check_tensors(q, k, v):
    for name, x in (("q", q), ("k", k), ("v", v)):
        _require(x.dim() == 4, lambda: f"{name} has {x.dim()} dimensions; 4 are wanted: "
                                       "[batch, heads, seq_len, head_dim]")
        _require(x.shape == q.shape, lambda: f"{name} is {list(x.shape)} and q is {list(q.shape)}: "
                                             "all three have one shape")
        _require(x.dtype in TYPES, lambda: f"{name} is {x.dtype}: half, bfloat16 or float is wanted")
        _require(x.dtype == q.dtype, lambda: f"{name} is {x.dtype} and q is {q.dtype}: all three have one type")
        _require(x.device == q.device, lambda: f"{name} is on {x.device} and q on {q.device}")
        _require(x.stride(3) == 1, lambda: f"{name}.stride(3) is {x.stride(3)}: the elements of a row lie "
                                           "side by side")
    head_dim = q.shape[3]
    _require(head_dim % 8 == 0 and 8 <= head_dim <= HEAD_DIM,  # narrower rows are filled up with zeros
             lambda: f"head_dim is {head_dim}: a multiple of 8, at most {HEAD_DIM}, is wanted")
    _require(min(q.shape) > 0, lambda: f"q is {list(q.shape)}: no dimension may be 0")
    _require(q.shape[0] * q.shape[1] * q.shape[2] <= 2**31 // HEAD_DIM,
             lambda: f"q is {list(q.shape)}: batch * heads * seq_len may be at most 2^31 / {HEAD_DIM}")
    _require(q.shape[0] * q.shape[1] <= 65535,
             lambda: f"q is {list(q.shape)}: batch * heads may be at most 65535")


def _check_codes(codes, scales, lengths, stage):
    _require(codes.dtype == CODES and codes.dim() == 5 and codes.shape[0] == 3 and codes.shape[4] == HEAD_DIM,
             lambda: f"codes are {codes.dtype} {list(codes.shape)}: quantise() makes {CODES} "
                     f"[3, batch, heads, seq_len, {HEAD_DIM}]")
    _require(scales.dtype == torch.float32 and tuple(scales.shape) == (3, codes.shape[2]),
             lambda: f"scales are {scales.dtype} {list(scales.shape)}: float [3, {codes.shape[2]}] is wanted")
    _require(codes.is_contiguous() and scales.is_contiguous(), lambda: "codes and scales are contiguous")
    _require(scales.device == codes.device, lambda: f"scales are on {scales.device} and codes on {codes.device}")
    if lengths is not None:
        _require(STAGES[stage].ragged, lambda: f"stage {stage} takes no lengths: "
                                               f"{_listed(n for n, s in STAGES.items() if s.ragged)} does")
        _require(tuple(lengths.shape) == (codes.shape[1],) and lengths.dtype in (torch.int32, torch.int64),
                 lambda: f"lengths are {lengths.dtype} {list(lengths.shape)}: an integer for each of "
                         f"{codes.shape[1]} sequences is wanted")
        _require(lengths.device == codes.device,
                 lambda: f"lengths are on {lengths.device} and codes on {codes.device}")

# ---- The operators --------------------------------------------------------------------------------


def _empty_codes(q):
    batch, heads, seq_len, _ = q.shape
    codes = q.new_empty((3, batch, heads, seq_len, HEAD_DIM), dtype=CODES)
    return codes, q.new_empty((3, heads), dtype=torch.float32)


@torch.library.custom_op("attention_in_stages::quantise", mutates_args=(), device_types="cuda")
def _quantise(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    _check_tensors(q, k, v)
    batch, heads, seq_len, head_dim = q.shape
    codes, scales = _empty_codes(q)
    # The kernels load 8 elements at a time: a tensor whose rows do not begin at multiples of 8 elements is copied.
    q, k, v = (x if x.data_ptr() % 16 == 0 and all(s % 8 == 0 for s in x.stride()[:3]) else
               x.clone(memory_format=torch.contiguous_format) for x in (q, k, v))
    strides = (ctypes.c_longlong * 9)(*(x.stride(d) for x in (q, k, v) for d in range(3)))
    largest = scales.new_empty((3, heads, batch, MOST_PARTS))
    _launched(_library("quantise").launch_quantise(
        _pointer(q), _pointer(k), _pointer(v), strides, TYPES[q.dtype], batch, heads, seq_len, head_dim,
        _pointer(codes), _pointer(scales), _pointer(largest), *_stream(q)))
    return codes, scales


@_quantise.register_kernel("cpu")
def _(q, k, v):
    _check_tensors(q, k, v)
    batch, heads, seq_len, head_dim = q.shape
    codes, scales = _empty_codes(q)
    for t, x in enumerate((q, k, v)):
        x = x.float().contiguous()
        for head in range(heads):
            _library("cpu").quantise_head(
                _pointer(x[0, head]), ctypes.c_long(batch), ctypes.c_long(heads * seq_len), ctypes.c_long(seq_len),
                head_dim, _pointer(codes[t, 0, head]), _pointer(scales[t, head]))
    return codes, scales


@_quantise.register_fake
def _(q, k, v):
    _check_tensors(q, k, v)
    return _empty_codes(q)


def _refuse_backward(ctx, *gradients):
    raise RuntimeError("attention_in_stages: forward only, there is no gradient: "
                       "call it under torch.no_grad(), or train with "
                       "scaled_dot_product_attention")


_quantise.register_autograd(_refuse_backward)


def _define(name, stage):
    """The operator for a row of STAGES: codes and scales to half."""

    @torch.library.custom_op(f"attention_in_stages::{name}",
                             mutates_args=(), device_types="cuda")
    def operator(codes: Tensor, scales: Tensor, scale: float,
                 lengths: Optional[Tensor] = None) -> Tensor:
        _check_codes(codes, scales, lengths, name)
        _, batch, heads, seq_len, _ = codes.shape
        make = codes.new_empty
        if lengths is not None:  # clamped: on a GPU lengths are not checked
            lengths = lengths.clamp(1, seq_len).to(torch.int32)
            make = codes.new_zeros
        out = make(codes.shape[1:], dtype=torch.float16)
        _launched(_program(name, codes.device).launch_attention(
            _pointer(codes), _pointer(scales), _pointer(lengths),
            _pointer(out), batch, heads, seq_len, ctypes.c_float(scale),
            *_stream(codes)))
        return out

    @operator.register_kernel("cpu")
    def _(codes, scales, scale, lengths=None):
        _check_codes(codes, scales, lengths, name)
        _, batch, heads, seq_len, _ = codes.shape
        out = codes.new_zeros(codes.shape[1:], dtype=torch.float32)
        ends = ([seq_len] * batch if lengths is None
                else lengths.clamp(1, seq_len).tolist())
        for sequence, end in enumerate(ends):
            part = codes[:, sequence, :, :end].contiguous()
            done = out.new_empty(part.shape[1:])
            if not _library("cpu").attend_on_cpu(
                    _pointer(part), _pointer(scales), stage.causal, 1, heads, end,
                    ctypes.c_float(scale), _pointer(done)):
                raise MemoryError("attention_in_stages: no memory left")
            out[sequence, :, :end] = done
        return out.half()

    @operator.register_fake
    def _(codes, scales, scale, lengths=None):
        _check_codes(codes, scales, lengths, name)
        return codes.new_empty(codes.shape[1:], dtype=torch.float16)

    operator.register_autograd(_refuse_backward)
    return operator


_OPERATORS = {name: _define(name, stage) for name, stage in STAGES.items() if not stage.cache}


def quantise(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    """E4M3 codes [3, batch, heads, seq_len, 64] of q, k and v, and their scales [3, heads].

    Each head of each of the three tensors has one scale for all sequences, by which its largest magnitude becomes 448.
    """
    return _quantise(q, k, v)


def _fastest(accuracy, causal, q):
    """The stage that attention() takes of tensors like q when none is named."""
    on_gpu = q.device.type == "cuda" and torch.cuda.is_available()
    gpu = torch.cuda.get_device_properties(q.device) if on_gpu else None
    if not gpu or gpu.major != 9:
        return FASTEST[accuracy, causal][1]
    if not causal and q.shape[2] <= 128 and q.shape[0] * q.shape[1] >= gpu.multi_processor_count:
        accuracy = "half"  # its kernel for one tile of keys is the faster one: plots/runs/h200/sweep.json
    return FASTEST[accuracy, causal][0]


def attention(q: Tensor, k: Tensor, v: Tensor, *, accuracy: Optional[str] = None, causal: bool = False,
              stage: Optional[str] = None, scale: Optional[float] = None, lengths: Optional[Tensor] = None) -> Tensor:
    """softmax(q kᵀ scale) v of tensors [batch, heads, seq_len, head_dim], with Q, K and V in E4M3.

    All three have one shape and one type, half, bfloat16 or float; the result has the same, but is rounded to half.
    head_dim is a multiple of 8, at most 64; scale is 1 / sqrt(head_dim) unless it is given. accuracy is P's:
    "half", the default, or "e4m3" (about 3 % of error). With causal, a query sees no key past its own position. The
    fastest stage that has both on this GPU runs. Or stage names the kernel: registers, short, fp8_mma (P in E4M3),
    hopper_half, hopper (P in E4M3), causal or causal_half; those with hopper and half in their names run on a Hopper
    alone. lengths, of stage causal: how long each sequence of the batch is, from 1 to seq_len, on the tensors' device;
    the output is 0 past a sequence's end.
    """
    _require(accuracy is None or stage is None,
             lambda: f"accuracy is {accuracy} and stage is {stage}: a stage has its accuracy, so name one of the two")
    _require(not causal or stage is None,
             lambda: f"causal is {causal} and stage is {stage}: a stage has its mask, so name one of the two")
    _require(accuracy in (None, "half", "e4m3"), lambda: f"accuracy is {accuracy}: half or e4m3 is wanted")
    if stage is None:
        stage = _fastest(accuracy or "half", bool(causal), q)
    _require(stage not in OLD_NUMBERS,
             lambda: f"stage is {stage}: stages have names, and this one is stage=\"{OLD_NUMBERS[stage]}\"")
    _require(stage in _OPERATORS, lambda: f"stage is {stage}: {_listed(_OPERATORS)} are operators of q, k and v")
    codes, scales = _quantise(q, k, v)
    if scale is None:
        scale = 1 / math.sqrt(q.shape[3])
    out = _OPERATORS[stage](codes, scales, scale, lengths)
    return out[..., :q.shape[3]].to(q.dtype)
