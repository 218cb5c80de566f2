"""FlashAttention-4 of halves, as its package gives it (flash-attn-4, with nvidia-cutlass-dsl).

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). It is written in
CuTe's Python and compiled at the first call; on a Hopper it multiplies by wgmma, both products in half.
"""
import importlib.metadata

from flash_attn.cute import flash_attn_func

TITLE = "FlashAttention-4, half"
INPUTS = "half"


def attention(q, k, v, causal=False):
    """q, k, v: [B][H][S][64] of half; returns the same."""
    out = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=causal)
    if isinstance(out, tuple):  # the output, and the logarithms of the sums
        out = out[0]
    return out.transpose(1, 2)


def note():
    return (f"flash-attn-4 {importlib.metadata.version('flash-attn-4')}, "
            f"nvidia-cutlass-dsl {importlib.metadata.version('nvidia-cutlass-dsl')}")
