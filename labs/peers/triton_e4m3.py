"""Attention of E4M3 in Triton: what one writes in an afternoon, with its tiles left to the autotuner.

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). Both products are
of E4M3 codes; P is rounded to E4M3 between them. V is read as it lies, [S][D]; Triton turns it, as a
product of 8-bit codes on a Hopper wants it. One program is one tile of query rows of one head.
"""
import torch
import triton
import triton.language as tl

TITLE = "Triton, E4M3"
ROUNDS_P = True
HEAD_DIM = 64
LOG2_E = 1.4426950408889634
P_SCALE = tl.constexpr(256.0)  # P is at most 1: codes of 256 P have their full precision down to 2^-14

tilings = [triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
           for m, n, warps in ((64, 32, 4), (64, 64, 4), (64, 128, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8))
           for stages in (2, 3)]


@triton.jit
def tile(places, rows, seq_len, WHOLE: tl.constexpr):
    if WHOLE:  # no tile reaches past the last row
        return tl.load(places)
    return tl.load(places, mask=rows[:, None] < seq_len, other=0.0)


@triton.autotune(configs=tilings, key=["seq_len", "heads_all"])
@triton.jit
def attend(q, k, v, q_scales, k_scales, v_scales, out, heads, heads_all, seq_len, softmax_scale,
           HEAD_DIM: tl.constexpr, WHOLE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1)  # of all batches
    base = head.to(tl.int64) * seq_len * HEAD_DIM
    d = tl.arange(0, HEAD_DIM)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q_tile = tile(q + base + rows[:, None] * HEAD_DIM + d[None, :], rows, seq_len, WHOLE)
    of_batch = head % heads
    to_log2 = tl.load(q_scales + of_batch) * tl.load(k_scales + of_batch) * softmax_scale
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    for first in tl.range(0, seq_len, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        places = base + keys[:, None] * HEAD_DIM + d[None, :]
        k_tile = tile(k + places, keys, seq_len, WHOLE)   # [BLOCK_N][HEAD_DIM]
        s = tl.dot(q_tile, tl.trans(k_tile)) * to_log2    # [BLOCK_M][BLOCK_N]
        if not WHOLE:
            s = tl.where(keys[None, :] < seq_len, s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p = tl.exp2(s - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_max = new_max
        row_sum = row_sum * rescale + tl.sum(p, 1)
        v_tile = tile(v + places, keys, seq_len, WHOLE)   # [BLOCK_N][HEAD_DIM]
        acc = tl.dot((p * P_SCALE).to(tl.float8e4nv), v_tile, acc * rescale[:, None])
    acc *= (tl.load(v_scales + of_batch) / P_SCALE / row_sum)[:, None]
    tl.store(out + base + rows[:, None] * HEAD_DIM + d[None, :], acc.to(tl.float16),
             mask=rows[:, None] < seq_len)


def attention(q, k, v, q_scales, k_scales, v_scales):
    batch, heads, seq_len, _ = q.shape
    out = torch.empty(q.shape, dtype=torch.float16, device=q.device)
    attend[lambda tiling: (triton.cdiv(seq_len, tiling["BLOCK_M"]), batch * heads)](
        q, k, v, q_scales, k_scales, v_scales, out, heads, batch * heads, seq_len,
        LOG2_E / HEAD_DIM**0.5, HEAD_DIM=HEAD_DIM, WHOLE=seq_len % 128 == 0)
    return out


def note():
    """The tiles that the autotuner has chosen last, for the record."""
    best = attend.best_config
    return f"{best.kwargs['BLOCK_M']} x {best.kwargs['BLOCK_N']}, {best.num_warps} warps, {best.num_stages} stages"
