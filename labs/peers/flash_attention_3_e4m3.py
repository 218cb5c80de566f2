"""FlashAttention-3 of E4M3, as vLLM's package carries it: vllm_flash_attn/_vllm_fa3_C.abi3.so.

A contestant of labs/tools/scoreboard (labs/tools/pytorch --help says what one is). Only this library is
loaded, from the path in FLASH_ATTENTION_3, or from vLLM where that is installed. It takes sequences of
any lengths one after the other, [rows][H][64], and a scale for each sequence and head. It chooses whether
its output is bfloat16 or half, and adds up its short sums of E4M3 in float.
"""
import functools
import glob
import os
import sysconfig

import torch

TITLE = "FlashAttention-3, E4M3"
ROUNDS_P = True
HEAD_DIM = 64


def library():
    """The library's path; ImportError says where it was looked for."""
    there = os.path.join(sysconfig.get_path("purelib"), "vllm", "vllm_flash_attn", "_vllm_fa3_C*.so")
    path = os.environ.get("FLASH_ATTENTION_3") or next(iter(glob.glob(there)), None)
    if not path or not os.path.isfile(path):
        raise ImportError(f"no library at {path or there}: FLASH_ATTENTION_3 says where it is")
    return path


torch.ops.load_library(library())
flash3 = torch.ops._vllm_fa3_C


@functools.cache
def sequences(count, seq_len, causal):
    """What the library wants to know of `count` sequences of one head beside their tensors:
    where each starts, its keys, and the plan that is made once for all layers of a model."""
    starts = torch.arange(0, (count + 1) * seq_len, seq_len, dtype=torch.int32, device="cuda")
    keys = torch.full((count,), seq_len, dtype=torch.int32, device="cuda")
    plan = flash3.get_scheduler_metadata(count, seq_len, seq_len, 1, 1, HEAD_DIM, HEAD_DIM, torch.float8_e4m3fn, keys,
                                         starts, None, None, None, None, None, 0, causal, -1, -1, False, 0, None, 0)
    return starts, keys, plan


# The key is the address of the heads' scales and the batch size; the value is a tensor with a scale
# for each sequence, and the heads' scales.
scales_of = {}


def of_sequences(scales, batch):
    key = scales.data_ptr(), batch
    if key not in scales_of:  # the heads' scales are kept, too, so that no other tensor gets their
                              # address
        scales_of[key] = scales.repeat(batch).view(-1, 1), scales
    return scales_of[key][0]


def attention(q, k, v, q_scales, k_scales, v_scales, causal=False):
    """Each head of a batch is passed as a sequence of one head, so that nothing has to be copied."""
    batch, heads, seq_len, _ = q.shape
    starts, keys, plan = sequences(batch * heads, seq_len, causal)
    keys_of = [tensor.view(-1, seq_len, 1, HEAD_DIM) for tensor in (k, v)]
    scales = [of_sequences(each, batch) for each in (q_scales, k_scales, v_scales)]
    out = flash3.fwd(q.view(-1, 1, HEAD_DIM), *keys_of, None, None, None, None, starts, None, None, None, keys, seq_len, seq_len, None, None, None,
                     None, None, None, *scales, HEAD_DIM**-0.5, causal, -1, -1, 0.0, True, plan, 0, None, 0, None, 1, 0,
                     None)[0]
    return out.view(q.shape)


def note():
    return f"vLLM's _vllm_fa3_C of {os.path.getsize(library())} bytes"
