"""XQA, NVIDIA's decoding from a cache of E4M3 in pages, as FlashInfer's package has it (flashinfer-python).

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). It is compiled at the
first call, by nvcc. On a Hopper both products are of E4M3: it rounds the query and P as well.
"""
import flashinfer
import torch

TITLE = "XQA, E4M3 cache"
ROUNDS_P = ROUNDS_Q = True
PAGE = 64
WORKSPACE = 128 << 20  # in bytes; must be zeros before the first call


def pages_of(codes):
    """[B][H][S][64] as pages [B S / PAGE][H][PAGE][64], in order."""
    batch, heads, seq_len, head_dim = codes.shape
    parts = codes.view(batch, heads, seq_len // PAGE, PAGE, head_dim)
    return parts.transpose(1, 2).contiguous().view(-1, heads, PAGE, head_dim)


def cached(q, k, v, k_scale, v_scale):
    batch, _, seq_len, head_dim = k.shape
    each = seq_len // PAGE
    numbers = torch.arange(batch * each, dtype=torch.int32, device="cuda").view(batch, each)
    lengths = torch.full((batch,), seq_len, dtype=torch.int32, device="cuda")
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")
    queries, cache = q.view(batch, -1, head_dim), (pages_of(k), pages_of(v))
    out = torch.empty_like(queries)

    def run():
        flashinfer.decode.xqa_batch_decode_with_kv_cache(
            queries, cache, workspace, numbers, lengths, seq_len, bmm1_scale=k_scale * head_dim**-0.5,
            bmm2_scale=v_scale, out=out, kv_layout="HND")
        return out.view(q.shape)

    return run


def note():
    return f"FlashInfer {flashinfer.__version__}, pages of {PAGE}"
