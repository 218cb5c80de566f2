"""Triton without a GPU: a row's softmax, compared with numpy; then the same kernel without the mask of its store.

    pip install './code/ptxsim[triton]' && python3 code/ptxsim/example.py
"""
import numpy
import triton
import triton.language as tl

import ptxsim.triton


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr, MASKED: tl.constexpr):  # [rows][columns], one program for each row
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    scores = tl.load(x + row * columns + i, i < columns, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, 0))
    weights /= tl.sum(weights, 0)
    if MASKED:
        tl.store(out + row * columns + i, weights, i < columns)
    else:
        tl.store(out + row * columns + i, weights)


x = numpy.random.default_rng(0).standard_normal((8, 100), numpy.float32)
out = numpy.zeros_like(x)
for arch in 80, 90:
    launch = ptxsim.triton.run(softmax, (8,), out, x, 100, BLOCK=128, MASKED=True, arch=arch)
    wanted = numpy.exp(x.astype(float)) / numpy.exp(x.astype(float)).sum(1, keepdims=True)
    right = "right" if abs(out - wanted).max() < 1e-6 else "wrong"
    print(f"sm_{arch}: {right}, off by at most {abs(out - wanted).max():.1e}; {launch.counts['warp_instructions']} instructions of warps")
try:
    ptxsim.triton.run(softmax, (8,), out, x, 100, BLOCK=128, MASKED=False)
except ptxsim.Fault as fault:
    print(fault)
