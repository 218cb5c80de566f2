// Tangled from chapters/14-autotune.md; edit that, then `make tangle`.

// Chapter 14, inside every limit: ch14_autotune's kernel with the knobs that
// were found by a search held to an occupancy of half of an L4's warps.
//
//   make chapter14 && ./lab14 code/ch14_all_gates.cu

// ---- Set the knobs, and ask for half of the warps ----
#define KNOBS 64, 64, 2, 1, 4, false, false, true
#define OCCUPANCY 50

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Name the knobs, and set them ----
struct knobs {
    int block_m;     // query rows of a CTA, 16 for each row of warps
    int block_n;     // keys of a tile
    int warps_n;     // warps that share a row of scores
    int stages;      // converted tiles in shared memory
    int producers;   // warps that only load and convert; 0: all warps do
    bool persistent; // whether CTAs take query tiles from a queue
    bool fast_exp;   // whether chapter 11's polynomial replaces ex2.approx
    bool swizzle;    // whether tiles are swizzled as in chapter 10
};

#ifndef KNOBS // the search compiles with a header that defines KNOBS
// Set them to what the search found
#define KNOBS 64, 64, 2, 2, 0, false, false, true

#endif
constexpr knobs KNOB = {KNOBS};

// ---- Derive the sizes from the knobs ----
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16; // of one mma.sync
constexpr int CHUNK = 8;                         // halves in 16 bytes
constexpr int BLOCK_M = KNOB.block_m;
constexpr int BLOCK_N = KNOB.block_n;
constexpr int WARPS_M = BLOCK_M / MMA_M; // warps that divide the rows
constexpr int WARPS_N = KNOB.warps_n;    // warps that share a row
constexpr int WARPS = WARPS_M * WARPS_N; // warps that multiply
constexpr int KEYS = BLOCK_N / WARPS_N;  // keys of a tile that a warp scores
constexpr int COLS = HEAD_DIM / WARPS_N; // output columns of a warp
constexpr int THREADS = 32 * (WARPS + KNOB.producers);
constexpr int STAGES = KNOB.stages;
constexpr bool SPECIALISED = KNOB.producers > 0;
constexpr int PRODUCERS = SPECIALISED ? KNOB.producers : WARPS; // warps loading
constexpr int LOAD_BYTES = 16; // the most that a lane loads at a time

static_assert(BLOCK_M % MMA_M == 0 && WARPS_M <= 8, "a named barrier a row");
static_assert(BLOCK_N % (16 * WARPS_N) == 0, "ldmatrix loads 16 keys");
static_assert(COLS % 16 == 0, "ldmatrix loads 16 columns");
static_assert(BLOCK_N % (8 * PRODUCERS) == 0, "whole loads of a lane");
static_assert(STAGES >= 1, "a tile to work on");

// ---- Lay out shared memory ----
struct alignas(128) half_tiles {
    __half k[BLOCK_N][HEAD_DIM];
    __half v[BLOCK_N][HEAD_DIM];
};

struct alignas(128) tiles {
    half_tiles ring[STAGES];
    __half q[BLOCK_M][HEAD_DIM];
    __half p[BLOCK_M][BLOCK_N];
    float row_max[WARPS_N][BLOCK_M]; // of one key tile, for the other warps
    float row_sum[WARPS_N][BLOCK_M]; // of all tiles, at the end
    uint64_t filled[STAGES]; // producer lanes arrive when their part is there
    uint64_t empty[STAGES];  // consumer lanes arrive when they are done
};

// ---- Swizzle a row's chunks, if the knob says so ----
__device__ int swizzle(int row, int d)
{
    return KNOB.swizzle ? d ^ row % 8 * CHUNK : d;
}

// Rows of P hold BLOCK_N halves; where such a row is shorter than the 32 banks,
// neighbouring rows share a pattern.
__device__ int swizzle_p(int row, int key)
{
    constexpr int CHUNKS = BLOCK_N / CHUNK < 8 ? BLOCK_N / CHUNK : 8;
    return KNOB.swizzle ? key ^ row / (8 / CHUNKS) % CHUNKS * CHUNK : key;
}

// ---- Synchronise with mbarriers ----

// An mbarrier counts arrivals; when all have come, its phase ends, and the
// next begins. Phases alternate between parity 0 and 1.

// Begin with an mbarrier
__device__ void barrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier)),
                   "r"(arrivals)
                 : "memory");
}

// Waits until the phase of this parity has ended. What other lanes stored
// before they arrived is visible then.
__device__ void barrier_wait(uint64_t *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"((uint32_t)__cvta_generic_to_shared(barrier)),
                       "r"(parity)
                     : "memory");
}

// This lane arrives: lanes that wait will see what it has stored so far.
__device__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("{ .reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0]; }"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}

// ---- Meet the warps that share the rows ----
__device__ void row_barrier(int warp)
{
    if constexpr (WARPS_N == 1)
        __syncwarp();
    else
        asm volatile("barrier.cta.sync %0, %1;"
                     :
                     : "r"(1 + warp / WARPS_N), "n"(32 * WARPS_N)
                     : "memory");
}

// D += A B with A [16][16] and B [16][8] half, D [16][8] float.
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                    uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Load matrices with ldmatrix ----

// Four 8 x 8 matrices of half: lane 8 i + r points at row r of matrix i.
__device__ void load_matrices(uint32_t (&m)[4], const __half *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

__device__ void load_matrices_transposed(uint32_t (&m)[4], const __half *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// ---- Keep two rows' maxima and sums in a lane ----
struct row_state { // of rows lane / 4 and lane / 4 + 8 of the warp's sixteen
    float max[2];  // of all keys so far
    float sum[2];  // of the keys that this lane has seen
};

// ---- Reduce across the four lanes of a row ----
__device__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// ---- Compute the exponential one way or the other ----
namespace polynomial {
// e^x for x <= 0 without the special-function unit: 2^(n + f) with n whole and
// |f| <= 1/2. The polynomial errs by 1.1e-4 at most, and is exact at f = 0: a
// maximum that stays must leave the output as it is.
__device__ float exponential(float x)
{
    constexpr float LOG2_E = 1.44269504f;
    constexpr float MAGIC = 12582912; // 1.5 * 2^23: adding it rounds

    // Hold the argument where a float has exponents
    float held = fmaxf(x, -87.0f);

    float shifted = fmaf(held, LOG2_E, MAGIC);     // n, in the low bits
    float f = fmaf(held, LOG2_E, MAGIC - shifted); // the fraction, |f| <= 1/2

    // Evaluate the cubic
    float p = 0.0550089512f;
    p = p * f + 0.24221101f;
    p = p * f + 0.69328293f;
    p = p * f + 1.0f;

    return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
} // namespace polynomial

__device__ float exponential(float x)
{
    if constexpr (KNOB.fast_exp)
        return polynomial::exponential(x);
    else
        return __expf(x);
}

// ---- Load and convert the query tile ----
__device__ void load_q(__half (*tile)[HEAD_DIM], const uint8_t *codes,
                       int first_row, int seq_len)
{
    constexpr int PER_ROW = HEAD_DIM / 4;
    for (int i = threadIdx.x; i < BLOCK_M * PER_ROW; i += THREADS) {
        int row = i / PER_ROW;
        int d = i % PER_ROW * 4;
        size_t at = (size_t)(first_row + row) * HEAD_DIM + d;
        uint32_t four = 0; // rows past the end are zeros
        if (first_row + row < seq_len)
            four = *(const uint32_t *)(codes + at);

        // Convert four codes to half
        __half2 low = __nv_cvt_fp8x2_to_halfraw2(four & 0xffff, __NV_E4M3);
        __half2 high = __nv_cvt_fp8x2_to_halfraw2(four >> 16, __NV_E4M3);
        __half2 *to = (__half2 *)&tile[row][swizzle(row, d)];
        to[0] = low;
        to[1] = high;
    }
}

// ---- Load a piece of a tile into registers ----

// How many loads of LOAD_BYTES a row of a tile takes, and how many of them a
// lane does for a tile of K or V.
constexpr int PER_ROW = HEAD_DIM / LOAD_BYTES;
constexpr int LOADS = BLOCK_N * PER_ROW / (32 * PRODUCERS);

__device__ void fetch(uint4 (&codes)[LOADS], const uint8_t *from,
                      int first_row, int seq_len, int thread)
{
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        int at = thread + i * 32 * PRODUCERS;
        int row = first_row + at / PER_ROW;
        size_t offset = (size_t)row * HEAD_DIM + at % PER_ROW * LOAD_BYTES;
        codes[i] = uint4{}; // rows past the end are zeros
        if (row < seq_len)
            codes[i] = *(const uint4 *)(from + offset);
    }
}

// ---- Convert a piece from registers ----
__device__ void convert(__half (*tile)[HEAD_DIM], const uint4 (&codes)[LOADS],
                        int thread)
{
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        int at = thread + i * 32 * PRODUCERS;
        int row = at / PER_ROW;
        uint32_t four[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
#pragma unroll
        for (int half = 0; half < 2; ++half) { // eight codes, one chunk
            int d = at % PER_ROW * LOAD_BYTES + half * CHUNK;
            __half2 eight[4];
            for (int j = 0; j < 4; ++j)
                eight[j] = __nv_cvt_fp8x2_to_halfraw2(
                    four[2 * half + j / 2] >> 16 * (j % 2) & 0xffff,
                    __NV_E4M3);
            *(uint4 *)&tile[row][swizzle(row, d)] = *(uint4 *)eight;
        }
    }
}

// ---- Score one key tile ----
__device__ void score(const tiles &t, const __half (*k_tile)[HEAD_DIM],
                      float (&s)[KEYS / MMA_N][4], int warp, int lane)
{
    int q_row = warp / WARPS_N * MMA_M + lane % 16;
    int k_row = warp % WARPS_N * KEYS + lane / 16 * 8 + lane % 8;
    for (int n = 0; n < KEYS / MMA_N; ++n)
        for (int i = 0; i < 4; ++i)
            s[n][i] = 0;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
        uint32_t q[4]; // [16 rows][16 d]
        load_matrices(q, &t.q[q_row][swizzle(q_row, d + lane / 16 * CHUNK)]);
#pragma unroll
        for (int n = 0; n < KEYS / MMA_N; n += 2) {
            // Multiply 16 columns of Q with those of 16 keys
            int row = k_row + n * MMA_N;
            uint32_t k[4]; // [16 d][16 keys]: K transposed
            int column = swizzle(row, d + lane / 8 % 2 * CHUNK);
            load_matrices(k, &k_tile[row][column]);
            mma(s[n], q, k[0], k[1]);
            mma(s[n + 1], q, k[2], k[3]);
        }
    }
}

// ---- Update the online softmax ----
__device__ void softmax(tiles &t, row_state &rows,
                        float (&s)[KEYS / MMA_N][4],
                        float (&out)[COLS / MMA_N][4], int warp, int lane,
                        float scale, int keys_left)
{
    int row = warp / WARPS_N * MMA_M + lane / 4;
    int first = warp % WARPS_N * KEYS + lane % 4 * 2;

    // Scale and mask the scores, find their maximum
    float tile_max[2] = {-INFINITY, -INFINITY};
    #pragma unroll
    for (int n = 0; n < KEYS / MMA_N; ++n)
        for (int i = 0; i < 4; ++i) {
            bool inside = first + n * MMA_N + i % 2 < keys_left;
            s[n][i] = inside ? s[n][i] * scale : -INFINITY;
            tile_max[i / 2] = fmaxf(tile_max[i / 2], s[n][i]);
        }

    // Find the maximum of the whole row
    for (int h = 0; h < 2; ++h)
        tile_max[h] = quad_max(tile_max[h]);
    if constexpr (WARPS_N > 1) {
        for (int h = 0; h < 2; ++h)
            if (lane % 4 == 0)
                t.row_max[warp % WARPS_N][row + 8 * h] = tile_max[h];
        row_barrier(warp); // a row's maximum comes from several warps
        for (int h = 0; h < 2; ++h)
            for (int w = 0; w < WARPS_N; ++w)
                tile_max[h] = fmaxf(tile_max[h], t.row_max[w][row + 8 * h]);
    }

    float rescale[2];
    for (int h = 0; h < 2; ++h) {
        float new_max = fmaxf(rows.max[h], tile_max[h]);
        rescale[h] = exponential(rows.max[h] - new_max); // tile 0: 0 or e^-87
        rows.max[h] = new_max;
        rows.sum[h] *= rescale[h];
    }

    // Turn scores into probabilities
    #pragma unroll
    for (int n = 0; n < KEYS / MMA_N; ++n)
        for (int h = 0; h < 2; ++h) {
            float p0 = exponential(s[n][2 * h] - rows.max[h]);
            float p1 = exponential(s[n][2 * h + 1] - rows.max[h]);
            rows.sum[h] += p0 + p1;
            int r = row + 8 * h;
            *(__half2 *)&t.p[r][swizzle_p(r, first + n * MMA_N)] =
                __floats2half2_rn(p0, p1);
        }

    // Rescale the output so far
    #pragma unroll
    for (int n = 0; n < COLS / MMA_N; ++n)
        for (int i = 0; i < 4; ++i)
            out[n][i] *= rescale[i / 2];
}

// ---- Accumulate P·V ----
__device__ void accumulate(const tiles &t, const __half (*v_tile)[HEAD_DIM],
                           float (&out)[COLS / MMA_N][4], int warp, int lane)
{
    int p_row = warp / WARPS_N * MMA_M + lane % 16;
    int first = warp % WARPS_N * COLS + lane / 16 * CHUNK;
#pragma unroll
    for (int key = 0; key < BLOCK_N; key += MMA_K) {
        uint32_t p[4]; // [16 rows][16 keys]
        load_matrices(
            p, &t.p[p_row][swizzle_p(p_row, key + lane / 16 * CHUNK)]);
        int v_row = key + lane % 16;
#pragma unroll
        for (int n = 0; n < COLS / MMA_N; n += 2) {
            // Multiply 16 keys of P with 16 columns of V
            uint32_t v[4]; // [16 keys][16 d]
            int column = swizzle(v_row, first + n * MMA_N);
            load_matrices_transposed(v, &v_tile[v_row][column]);
            mma(out[n], p, v[0], v[1]);
            mma(out[n + 1], p, v[2], v[3]);
        }
    }
}

// ---- Normalise and store the output ----
__device__ void store(tiles &t, const row_state &rows,
                      const float (&out)[COLS / MMA_N][4], int warp, int lane,
                      __half *o, int rows_left, float v_scale)
{
    int row = warp / WARPS_N * MMA_M + lane / 4;
    int first = warp % WARPS_N * COLS + lane % 4 * 2;

    // Exchange the sums with the other warp
    for (int h = 0; h < 2; ++h) {
        float sum = quad_sum(rows.sum[h]);
        if (lane % 4 == 0)
            t.row_sum[warp % WARPS_N][row + 8 * h] = sum;
    }
    row_barrier(warp); // a row's sum comes from two warps

    // Write the warp's rows
    for (int h = 0; h < 2; ++h) {
        int r = row + 8 * h;
        if (r >= rows_left)
            return;
        float sum = 0;
        for (int w = 0; w < WARPS_N; ++w)
            sum += t.row_sum[w][r];
        float norm = v_scale / sum;
    #pragma unroll
        for (int n = 0; n < COLS / MMA_N; ++n)
            *(__half2 *)&o[r * HEAD_DIM + first + n * MMA_N] =
                __floats2half2_rn(out[n][2 * h] * norm,
                                  out[n][2 * h + 1] * norm);
    }
}

// ---- Work on one key tile ----
struct running { // what a warp carries from tile to tile
    row_state rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float out[COLS / MMA_N][4] = {}; // [16 rows][COLS]
};

__device__ void work(tiles &t, const half_tiles &half, running &r, int warp,
                     int lane, float scale, int keys_left)
{
    float s[KEYS / MMA_N][4]; // [16 rows][KEYS]
    score(t, half.k, s, warp, lane);
    softmax(t, r.rows, s, r.out, warp, lane, scale, keys_left);
    row_barrier(warp); // P comes from the warps that share the rows
    accumulate(t, half.v, r.out, warp, lane);
    if constexpr (WARPS_N == 1)
        __syncwarp(); // P has been read; the next tile's may overwrite it
}

// ---- All warps copy, convert and compute ----
__device__ void together(tiles &t, running &r, const uint8_t *k,
                         const uint8_t *v, float scale, int seq_len)
{
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    uint4 k_codes[LOADS], v_codes[LOADS];
    fetch(k_codes, k, 0, seq_len, threadIdx.x);
    fetch(v_codes, v, 0, seq_len, threadIdx.x);
    for (int tile = 0; tile < tiles_n; ++tile) {
        half_tiles &half = t.ring[tile % STAGES];
        int next = (tile + 1) * BLOCK_N; // loaded while all compute
        if constexpr (STAGES == 1)
            __syncthreads(); // all warps are done with the tile before
        convert(half.k, k_codes, threadIdx.x);
        convert(half.v, v_codes, threadIdx.x);
        __syncthreads(); // the tile is complete
        fetch(k_codes, k, next, seq_len, threadIdx.x);
        fetch(v_codes, v, next, seq_len, threadIdx.x);
        work(t, half, r, warp, lane, scale, seq_len - tile * BLOCK_N);
    }
}

// Produces key tiles; `before` tiles, those of earlier query tiles, have gone
// through the ring already.
__device__ void produce(tiles &t, const uint8_t *k, const uint8_t *v,
                        int seq_len, unsigned before)
{
    int thread = threadIdx.x - 32 * WARPS;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    uint4 k_codes[LOADS], v_codes[LOADS];
    fetch(k_codes, k, 0, seq_len, thread);
    fetch(v_codes, v, 0, seq_len, thread);
    for (int tile = 0; tile < tiles_n; ++tile) {
        unsigned stage = (before + tile) % STAGES;
        unsigned round = (before + tile) / STAGES;
        int next = (tile + 1) * BLOCK_N; // loaded while the consumers work
        barrier_wait(&t.empty[stage], (round + 1) % 2);
        convert(t.ring[stage].k, k_codes, thread);
        fetch(k_codes, k, next, seq_len, thread);
        convert(t.ring[stage].v, v_codes, thread);
        fetch(v_codes, v, next, seq_len, thread);
        barrier_arrive(&t.filled[stage]);
    }
}

// ---- Consume key tiles ----
__device__ void consume(tiles &t, running &r, float scale, int seq_len,
                        unsigned before)
{
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    for (int tile = 0; tile < tiles_n; ++tile) {
        unsigned stage = (before + tile) % STAGES;
        barrier_wait(&t.filled[stage], (before + tile) / STAGES % 2);
        work(t, t.ring[stage], r, warp, lane, scale,
             seq_len - tile * BLOCK_N);
        barrier_arrive(&t.empty[stage]);
    }
}

// ---- Attend from one query tile ----
__device__ void query_tile(tiles &t, const attention_args &args,
                           int first_row, int pair, unsigned before)
{
    int seq_len = args.shape.seq_len;
    int head = pair % args.shape.heads;
    size_t base = (size_t)pair * seq_len * HEAD_DIM;
    __half *out = (__half *)args.out + base + (size_t)first_row * HEAD_DIM;
    float scale = args.softmax_scale;
    scale *= args.q_scales[head] * args.k_scales[head];
    const uint8_t *k = args.k + base;
    const uint8_t *v = args.v + base;

    load_q(t.q, args.q + base, first_row, seq_len);
    running r;
    if constexpr (SPECIALISED) {
        __syncthreads(); // Q is complete, and so are the mbarriers
        if (threadIdx.x >= 32 * WARPS) {
            produce(t, k, v, seq_len, before);
            return;
        }
        consume(t, r, scale, seq_len, before);
    } else {
        together(t, r, k, v, scale, seq_len);
    }
    store(t, r.rows, r.out, threadIdx.x / 32, threadIdx.x % 32, out,
          seq_len - first_row, args.v_scales[head]);
}

// ---- Take the next query tile from the queue ----
__device__ unsigned next_item; // 0 before and after each launch

// The next query tile of this CTA; `items` or more when there is none.
__device__ unsigned take_item(unsigned &item, unsigned items)
{
    __syncthreads(); // all threads have read the previous item
    // next_item is 0 again after items + gridDim.x requests.
    if (threadIdx.x == THREADS - 1)
        item = atomicInc(&next_item, items + gridDim.x - 1);
    __syncthreads(); // the number is there; all are done with the previous tile
    return item;
}

// ---- Limit the registers of a thread ----
#ifdef OCCUPANCY // percent of an L4's warps that have to fit
constexpr int WANTED = (48 * OCCUPANCY + 99) / 100 * 32; // threads on an SM
constexpr int CTAS = (WANTED + THREADS - 1) / THREADS;
#define LIMITS __launch_bounds__(THREADS, CTAS)
#else
// Registers that a thread may have so that a CTA fits on an SM. A gate of the
// book allows 120.
constexpr int FITTING = 512 / ((THREADS + 127) / 128) / 8 * 8;
#define LIMITS __maxnreg__(FITTING < 120 ? FITTING : 120)
#endif

// ---- Take one query tile, or many ----
__global__ void LIMITS
attention(const __grid_constant__ attention_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    tiles &t = *(tiles *)memory;
    if (SPECIALISED && threadIdx.x == 0)
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(&t.filled[i], 32 * PRODUCERS);
            barrier_init(&t.empty[i], 32 * WARPS);
        }
    if constexpr (KNOB.persistent) {
        // Take query tiles until there are none
        __shared__ unsigned item;
        unsigned tiles_m = (args.shape.seq_len + BLOCK_M - 1) / BLOCK_M;
        unsigned items = tiles_m * args.shape.batch * args.shape.heads;

        // Count the key tiles that went through the ring
        unsigned tiles_n = (args.shape.seq_len + BLOCK_N - 1) / BLOCK_N;
        for (unsigned n = 0; take_item(item, items) < items; ++n)
            query_tile(t, args, item % tiles_m * BLOCK_M, item / tiles_m,
                       n * tiles_n);
    } else {
        query_tile(t, args, blockIdx.x * BLOCK_M, blockIdx.y, 0);
    }
}

// ---- Find how many CTAs the GPU holds ----
static cudaError_t resident_ctas(size_t *ctas)
{
    int device, sms, per_sm;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount,
                                       device);
    if (!error)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &per_sm, attention, THREADS, sizeof(tiles));
    if (!error)
        *ctas = (size_t)sms * per_sm;
    return error;
}

// ---- Launch one CTA a query tile, or as many as fit ----
static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    size_t tiles_m = (args->shape.seq_len + BLOCK_M - 1) / BLOCK_M;
    size_t pairs = (size_t)args->shape.batch * args->shape.heads;
    if (pairs > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "batch x heads is %zu, at most 65535", pairs);
    cudaError_t error = cudaFuncSetAttribute(
        attention, cudaFuncAttributeMaxDynamicSharedMemorySize,
        sizeof(tiles));
    if (error)
        return error;
    dim3 grid(tiles_m, pairs);
    if (KNOB.persistent) {
        size_t ctas;
        error = resident_ctas(&ctas);
        if (error)
            return error;
        grid = dim3(ctas < tiles_m * pairs ? ctas : tiles_m * pairs);
    }
    attention<<<grid, THREADS, sizeof(tiles), stream>>>(*args);
    return cudaGetLastError();
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch14_all_gates",
        .title = "The winner inside every gate",
        .chapter = 14,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .dynamic_shared_bytes = sizeof(tiles),
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
