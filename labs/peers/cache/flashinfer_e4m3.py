"""FlashInfer's decoding from a cache of E4M3 in pages, as its package gives it (flashinfer-python).

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). It is compiled at the
first call, by nvcc. Its plan, made once a step for all layers of a model, is not timed.
"""
import flashinfer
import torch

TITLE = "FlashInfer, E4M3 cache"
PAGE = 64
WORKSPACE = 128 << 20  # in bytes


def pages_of(codes):
    """[B][H][S][64] as pages [B S / PAGE][H][PAGE][64], in order."""
    batch, heads, seq_len, head_dim = codes.shape
    parts = codes.view(batch, heads, seq_len // PAGE, PAGE, head_dim)
    return parts.transpose(1, 2).contiguous().view(-1, heads, PAGE, head_dim)


def cached(q, k, v, k_scale, v_scale):
    batch, heads, seq_len, head_dim = k.shape
    each = seq_len // PAGE
    starts = torch.arange(0, (batch + 1) * each, each, dtype=torch.int32, device="cuda")
    numbers = torch.arange(batch * each, dtype=torch.int32, device="cuda")
    last = torch.full((batch,), PAGE, dtype=torch.int32, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda"), "HND", use_tensor_cores=True)
    wrapper.plan(starts, numbers, last, q.shape[1], heads, head_dim, PAGE, q_data_type=q.dtype, kv_data_type=k.dtype)
    queries, cache = q.view(batch, -1, head_dim), (pages_of(k), pages_of(v))
    return lambda: wrapper.run(queries, cache, k_scale=k_scale, v_scale=v_scale).view(q.shape)


def note():
    return f"FlashInfer {flashinfer.__version__}, pages of {PAGE}"
