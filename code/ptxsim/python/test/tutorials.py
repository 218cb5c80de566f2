"""Small kernels for the subjects of Triton's tutorials: vector add, fused softmax, matrix product, layer norm, attention.

All work on row-major arrays. A kernel `*_bug` has a mistake in the line marked BUG.
"""
import triton
import triton.language as tl


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr):  # out, x, y [n]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def add_unmasked_bug(out, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.load(x + i, i < n) + tl.load(y + i, i < n)
    tl.store(out + i, sums)  # BUG: no mask


@triton.jit
def column_sums(out, x, columns, BLOCK: tl.constexpr):
    # out [columns], 0 before the launch; x [rows][columns], one program for each row
    i = tl.arange(0, BLOCK)
    there = i < columns
    tl.atomic_add(out + i, tl.load(x + tl.program_id(0) * columns + i, there), there)


@triton.jit
def column_sums_lost_bug(out, x, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    there = i < columns
    before = tl.load(out + i, there)
    tl.store(out + i, before + tl.load(x + tl.program_id(0) * columns + i, there), there)  # BUG: no atomic


@triton.jit
def softmax(out, x, rows, columns, BLOCK: tl.constexpr):
    # out, x [rows][columns], columns <= BLOCK; each program computes several rows
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        scores = tl.load(x + row * columns + i, i < columns, -float("inf"))
        weights = tl.exp(scores - tl.max(scores, 0))
        tl.store(out + row * columns + i, weights / tl.sum(weights, 0), i < columns)


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune([triton.Config({"BM": 32, "BN": 64, "BK": 32, "GROUP": 2}, num_warps=4, num_stages=3),
                  triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 4}, num_warps=8, num_stages=2)], key=["m", "n", "k"])
@triton.jit
def matmul(c, a, b, m, n, k, ACTIVATION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           GROUP: tl.constexpr):  # c [m][n] = activation(a [m][k] * b [k][n])
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    # Consecutive programs go down the columns of a group of GROUP rows of tiles, and so share columns of b.
    first = pid // (GROUP * tiles_n) * GROUP
    size = min(tiles_m - first, GROUP)
    tile_m, tile_n = first + pid % (GROUP * tiles_n) % size, pid % (GROUP * tiles_n) // size
    row, column, depth = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, k, BK):
        here = begin + depth
        tile_a = tl.load(a + row[:, None] * k + here[None, :], (row[:, None] < m) & (here[None, :] < k), 0.0)
        tile_b = tl.load(b + here[:, None] * n + column[None, :], (here[:, None] < k) & (column[None, :] < n), 0.0)
        sums = tl.dot(tile_a, tile_b, sums)
    if ACTIVATION == "leaky":
        sums = leaky(sums)
    tl.store(c + row[:, None] * n + column[None, :], sums.to(c.dtype.element_ty),
             (row[:, None] < m) & (column[None, :] < n))


@triton.jit
def matmul_tiles(c, a, b, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # c, a, b: tensor descriptors (TMA on sm_90); b [n][k]
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, k, BK):
        sums = tl.dot(a.load([row, begin]), b.load([column, begin]).T, sums)
    c.store([row, column], sums.to(c.dtype))


@triton.jit
def layer_norm(out, mean, rstd, x, weight, bias, columns, eps, BLOCK: tl.constexpr):  # one program for each row
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    there = i < columns
    values = tl.load(x + row * columns + i, there, 0.0).to(tl.float32)
    average = tl.sum(values, 0) / columns
    centred = tl.where(there, values - average, 0.0)
    r = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, r)
    tl.store(out + row * columns + i, centred * r * tl.load(weight + i, there) + tl.load(bias + i, there), there)


@triton.jit
def layer_norm_backward(dx, dweight, dbias, lock, dout, x, weight, mean, rstd, columns, BLOCK: tl.constexpr):
    # dweight and dbias are summed over all rows under one lock, lock[0]. lock[1] is 0 until the first holder of the
    # lock has stored its part; later holders add their parts.
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    there = i < columns
    r = tl.load(rstd + row)
    normed = tl.where(there, (tl.load(x + row * columns + i, there, 0.0) - tl.load(mean + row)) * r, 0.0)
    given = tl.load(dout + row * columns + i, there, 0.0)
    wanted = given * tl.load(weight + i, there, 0.0)
    along = tl.sum(normed * wanted, 0) / columns
    tl.store(dx + row * columns + i, (wanted - normed * along - tl.sum(wanted, 0) / columns) * r, there)
    part_weight, part_bias = given * normed, given
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(lock + 1) == 0:
        tl.atomic_xchg(lock + 1, 1)
    else:
        part_weight += tl.load(dweight + i, there)
        part_bias += tl.load(dbias + i, there)
    tl.store(dweight + i, part_weight, there)
    tl.store(dbias + i, part_bias, there)
    tl.debug_barrier()  # so that all stores of the program are done before the lock is released
    tl.atomic_xchg(lock, 0)


@triton.jit
def attention(out, q, k, v, scale, length, CAUSAL: tl.constexpr, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    # q, k, v, out [heads][length][HEAD]. A program does BM queries of one head, with an online softmax over tiles of BN
    # keys.
    begin, head = tl.program_id(0) * BM, tl.program_id(1) * length * HEAD
    row, d = begin + tl.arange(0, BM), tl.arange(0, HEAD)
    tile_q = tl.load(q + head + row[:, None] * HEAD + d[None, :], row[:, None] < length, 0.0)
    row_max, row_sum = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, HEAD), tl.float32)
    end = tl.minimum(begin + BM, length) if CAUSAL else length
    for first in range(0, end, BN):
        key = first + tl.arange(0, BN)
        tile_k = tl.load(k + head + key[None, :] * HEAD + d[:, None], key[None, :] < length, 0.0)  # [HEAD][BN]
        scores = tl.dot(tile_q, tile_k) * (scale * 1.44269504)
        seen = key[None, :] < length
        if CAUSAL:
            seen = seen & (key[None, :] <= row[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        row_sum = row_sum * shrink + tl.sum(weights, 1)
        tile_v = tl.load(v + head + key[:, None] * HEAD + d[None, :], key[:, None] < length, 0.0)
        sums = tl.dot(weights.to(tile_v.dtype), tile_v, sums * shrink[:, None])
        row_max = new_max
    tl.store(out + head + row[:, None] * HEAD + d[None, :], (sums / row_sum[:, None]).to(out.dtype.element_ty),
             row[:, None] < length)
