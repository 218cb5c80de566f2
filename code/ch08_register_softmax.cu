// Tangled from chapters/08-register-softmax.md; edit that, then `make tangle`.

// Chapter 8: scores and output stay in registers.
//
//   make chapter8 && ./lab8
//
// Scores and output live in WMMA accumulators from the first key tile to the
// last. A row lies in four lanes of each of two warps: two shuffles and one
// exchange through shared memory give its maximum. Only P is stored for WMMA.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"
#include <cuda_pipeline_primitives.h>
#include <mma.h>

using namespace nvcuda;

// ---- Fix the tile sizes ----
constexpr int BLOCK_M = 32; // query rows of a CTA
constexpr int BLOCK_N = 32; // keys of a tile
constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;

static_assert(BLOCK_M == BLOCK_N, "load_tile serves Q, K and V alike");

// ---- Divide the tile among the warps ----
constexpr int FRAG = 16;                 // m, n and k of a WMMA product
constexpr int WARPS_M = BLOCK_M / FRAG;  // warps that divide the rows
constexpr int WARPS_N = WARPS / WARPS_M; // warps that share a row
constexpr int KEYS = BLOCK_N / WARPS_N;  // keys of a tile that a warp scores
constexpr int COLS = HEAD_DIM / WARPS_N; // output columns of a warp

static_assert(KEYS == FRAG, "a warp scores one 16 x 16 tile");
static_assert(COLS % FRAG == 0, "whole tiles of output columns");
static_assert(HEAD_DIM % FRAG == 0, "whole steps along the head dimension");

// ---- Fix the depth of the pipeline ----
constexpr int STAGES = 2;      // one key tile landing, one at work
constexpr int COPY_BYTES = 16; // the most that one cp.async moves

static_assert(HEAD_DIM % COPY_BYTES == 0, "whole copies in a row");

// ---- Stage K and V as they lie in global memory ----
struct alignas(128) staging { // K and V as they lie in global memory
    uint8_t k[BLOCK_N][HEAD_DIM];
    uint8_t v[BLOCK_N][HEAD_DIM];
};

// ---- Lay out shared memory ----
struct alignas(128) tiles {
    staging codes[STAGES];
    __half q[BLOCK_M][HEAD_DIM];
    __half k[BLOCK_N][HEAD_DIM];
    __half v[BLOCK_N][HEAD_DIM];
    __half p[BLOCK_M][BLOCK_N];
    float row_max[WARPS_N][BLOCK_M]; // of one key tile, for the other warp
    float row_sum[WARPS_N][BLOCK_M]; // of all tiles, at the end
};

// ---- Say where an accumulator's elements lie ----
using accumulator =
    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float>; // [16][16]

// Where an accumulator's element x[i] lies in its 16 x 16 tile: in row
// lane / 4 + 8 * row_half(i) and column column(i, lane).
__device__ int row_half(int i) { return i / 2 % 2; }
__device__ int column(int i, int lane)
{
    return i / 4 * 8 + lane % 4 * 2 + i % 2;
}

// The barrier of the warps that share rows: here, simply that of the CTA.
__device__ void row_barrier(int) { __syncthreads(); }

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

// ---- Load and convert a tile ----
__device__ void load_tile(__half (*tile)[HEAD_DIM], const uint8_t *codes,
                          int first_row, int seq_len)
{
    constexpr int PER_ROW = HEAD_DIM / 4;
    for (int i = threadIdx.x; i < BLOCK_N * PER_ROW; i += THREADS) {
        int row = i / PER_ROW;
        int d = i % PER_ROW * 4;
        size_t at = (size_t)(first_row + row) * HEAD_DIM + d;
        uint32_t four = 0; // rows past the end are zeros
        if (first_row + row < seq_len)
            four = *(const uint32_t *)(codes + at);

        // Convert four codes to half
        __half2 low = __nv_cvt_fp8x2_to_halfraw2(four & 0xffff, __NV_E4M3);
        __half2 high = __nv_cvt_fp8x2_to_halfraw2(four >> 16, __NV_E4M3);
        *(__half2 *)&tile[row][d] = low;
        *(__half2 *)&tile[row][d + 2] = high;
    }
}

// ---- Copy a tile's rows asynchronously ----
__device__ void copy_rows(uint8_t (*staged)[HEAD_DIM], const uint8_t *codes,
                          int first_row, int seq_len)
{
    constexpr int PER_ROW = HEAD_DIM / COPY_BYTES;
    for (int i = threadIdx.x; i < BLOCK_N * PER_ROW; i += THREADS) {
        int row = i / PER_ROW;
        int d = i % PER_ROW * COPY_BYTES;
        bool inside = first_row + row < seq_len;
        size_t at = inside ? (size_t)(first_row + row) * HEAD_DIM + d : 0;

        // Copy sixteen codes, or zeros
        __pipeline_memcpy_async(&staged[row][d], codes + at, COPY_BYTES,
                                inside ? 0 : COPY_BYTES); // zeros past the end
    }
}

// ---- Start copying a key tile ----
__device__ void copy_tile(tiles &t, int tile, const uint8_t *k,
                          const uint8_t *v, int seq_len)
{
    int key = tile * BLOCK_N;
    if (key < seq_len) {
        staging &s = t.codes[tile % STAGES];
        copy_rows(s.k, k, key, seq_len);
        copy_rows(s.v, v, key, seq_len);
    }
    __pipeline_commit(); // even an empty group: the wait counts groups
}

// ---- Convert a staged tile to half ----
__device__ void convert(__half (*tile)[HEAD_DIM],
                        const uint8_t (*staged)[HEAD_DIM])
{
    constexpr int PER_ROW = HEAD_DIM / 4;
    for (int i = threadIdx.x; i < BLOCK_N * PER_ROW; i += THREADS) {
        int row = i / PER_ROW;
        int d = i % PER_ROW * 4;
        uint32_t four = *(const uint32_t *)&staged[row][d];

        // Convert four codes to half
        __half2 low = __nv_cvt_fp8x2_to_halfraw2(four & 0xffff, __NV_E4M3);
        __half2 high = __nv_cvt_fp8x2_to_halfraw2(four >> 16, __NV_E4M3);
        *(__half2 *)&tile[row][d] = low;
        *(__half2 *)&tile[row][d + 2] = high;
    }
}

// ---- Score one key tile ----
__device__ void score(const tiles &t, accumulator &s, int warp)
{
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> q; // [16 rows][16 d]
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, __half,
                   wmma::col_major> k; // [16 d][16 keys]: K transposed
    int row = warp / WARPS_N * FRAG;
    int key = warp % WARPS_N * KEYS;
    wmma::fill_fragment(s, 0.0f);
    for (int d = 0; d < HEAD_DIM; d += FRAG) {
        // Multiply 16 columns of Q with 16 of K
        wmma::load_matrix_sync(q, &t.q[row][d], HEAD_DIM);
        wmma::load_matrix_sync(k, &t.k[key][d], HEAD_DIM);
        wmma::mma_sync(s, q, k, s);
    }
}

// ---- Update the online softmax ----
__device__ void softmax(tiles &t, row_state &rows, accumulator &s,
                        accumulator (&out)[COLS / FRAG], int warp, int lane,
                        float scale, int keys_left)
{
    int row = warp / WARPS_N * FRAG + lane / 4;
    int key = warp % WARPS_N * KEYS;

    // Scale and mask the scores, find their maximum
    float tile_max[2] = {-INFINITY, -INFINITY};
    #pragma unroll
    for (int i = 0; i < s.num_elements; ++i) {
        bool inside = key + column(i, lane) < keys_left;
        s.x[i] = inside ? s.x[i] * scale : -INFINITY;
        tile_max[row_half(i)] = fmaxf(tile_max[row_half(i)], s.x[i]);
    }

    // Exchange the maximum with the other warp
    for (int h = 0; h < 2; ++h) {
        tile_max[h] = quad_max(tile_max[h]);
        if (lane % 4 == 0)
            t.row_max[warp % WARPS_N][row + 8 * h] = tile_max[h];
    }
    row_barrier(warp); // a row's maximum comes from two warps

    // Find the new maximum, and the factor for the sums so far
    float rescale[2];
    for (int h = 0; h < 2; ++h) {
        float new_max = rows.max[h];

        // Take both warps' maxima
        for (int w = 0; w < WARPS_N; ++w)
            new_max = fmaxf(new_max, t.row_max[w][row + 8 * h]);

        rescale[h] = __expf(rows.max[h] - new_max); // 0 on the first tile
        rows.max[h] = new_max;
        rows.sum[h] *= rescale[h];
    }

    // Turn scores into probabilities
    #pragma unroll
    for (int i = 0; i < s.num_elements; i += 2) {
        int h = row_half(i);
        float p0 = __expf(s.x[i] - rows.max[h]);
        float p1 = __expf(s.x[i + 1] - rows.max[h]);
        rows.sum[h] += p0 + p1;
        *(__half2 *)&t.p[row + 8 * h][key + column(i, lane)] =
            __floats2half2_rn(p0, p1);
    }

    // Rescale the output so far
    #pragma unroll
    for (int f = 0; f < COLS / FRAG; ++f)
        for (int i = 0; i < out[f].num_elements; ++i)
            out[f].x[i] *= rescale[row_half(i)];
}

// ---- Accumulate P·V in registers ----
__device__ void accumulate(const tiles &t, accumulator (&out)[COLS / FRAG],
                           int warp)
{
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> p; // [16 rows][16 keys]
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> v; // [16 keys][16 d]
    int row = warp / WARPS_N * FRAG;
    int d = warp % WARPS_N * COLS;
    for (int key = 0; key < BLOCK_N; key += FRAG) {
        wmma::load_matrix_sync(p, &t.p[row][key], BLOCK_N);
#pragma unroll
        for (int f = 0; f < COLS / FRAG; ++f) {
            wmma::load_matrix_sync(v, &t.v[key][d + f * FRAG], HEAD_DIM);
            wmma::mma_sync(out[f], p, v, out[f]);
        }
    }
}

// ---- Normalise and store the output ----
__device__ void store(tiles &t, const row_state &rows,
                      const accumulator (&out)[COLS / FRAG], int warp,
                      int lane, __half *o, int rows_left, float v_scale)
{
    int row = warp / WARPS_N * FRAG + lane / 4;

    // Exchange the sums with the other warp
    for (int h = 0; h < 2; ++h) {
        float sum = quad_sum(rows.sum[h]);
        if (lane % 4 == 0)
            t.row_sum[warp % WARPS_N][row + 8 * h] = sum;
    }
    row_barrier(warp); // a row's sum comes from two warps

    for (int h = 0; h < 2; ++h) {
        int r = row + 8 * h;
        if (r >= rows_left)
            return;
        float sum = 0;
        for (int w = 0; w < WARPS_N; ++w)
            sum += t.row_sum[w][r];
        float norm = v_scale / sum;
#pragma unroll
        for (int f = 0; f < COLS / FRAG; ++f)
            for (int i = 0; i < out[f].num_elements; i += 2) {
                if (row_half(i) != h)
                    continue;
                int d = warp % WARPS_N * COLS + f * FRAG + column(i, lane);
                *(__half2 *)&o[r * HEAD_DIM + d] = __floats2half2_rn(
                    out[f].x[i] * norm, out[f].x[i + 1] * norm);
            }
    }
}

// ---- Run a CTA over all key tiles ----
__global__ void __launch_bounds__(THREADS)
attention(const __grid_constant__ attention_args args)
{
    __shared__ tiles t;

    // Find this CTA's rows and head
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int seq_len = args.shape.seq_len;
    int first_row = blockIdx.x * BLOCK_M;
    int head = blockIdx.y % args.shape.heads;
    size_t base = (size_t)blockIdx.y * seq_len * HEAD_DIM;
    __half *out = (__half *)args.out + base + (size_t)first_row * HEAD_DIM;
    float scale = args.softmax_scale * args.q_scales[head] * args.k_scales[head];

    load_tile(t.q, args.q + base, first_row, seq_len);

    // Reset the running sums
    row_state rows = {{-INFINITY, -INFINITY}, {0, 0}};
    accumulator sum[COLS / FRAG]; // [16 rows][COLS]
    for (int f = 0; f < COLS / FRAG; ++f)
        wmma::fill_fragment(sum[f], 0.0f);

    // Start the first copies
    const uint8_t *k = args.k + base;
    const uint8_t *v = args.v + base;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    for (int tile = 0; tile < STAGES - 1; ++tile)
        copy_tile(t, tile, k, v, seq_len);

    for (int tile = 0; tile < tiles_n; ++tile) {
        // Start a copy, finish another, convert it
        copy_tile(t, tile + STAGES - 1, k, v, seq_len);
        __pipeline_wait_prior(STAGES - 1); // this thread's part has landed
        __syncthreads(); // everybody's part has landed; K and V may be overwritten
        convert(t.k, t.codes[tile % STAGES].k);
        convert(t.v, t.codes[tile % STAGES].v);
        __syncthreads(); // the tiles are complete
        int key = tile * BLOCK_N;

        // Work on one key tile
        accumulator s; // [16 rows][KEYS]
        score(t, s, warp);
        softmax(t, rows, s, sum, warp, lane, scale, seq_len - key);
        row_barrier(warp); // P comes from two warps
        accumulate(t, sum, warp);
    }
    store(t, rows, sum, warp, lane, out, seq_len - first_row,
          args.v_scales[head]);
}

// ---- Launch one CTA a query tile ----
static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    unsigned tiles_m = (args->shape.seq_len + BLOCK_M - 1) / BLOCK_M;
    unsigned pairs = args->shape.batch * args->shape.heads;
    if (pairs > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "batch x heads is %u, at most 65535", pairs);
    attention<<<dim3(tiles_m, pairs), THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch08_register_softmax",
        .title = "Softmax in registers",
        .chapter = 8,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
