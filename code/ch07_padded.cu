// Tangled from chapters/07-reuse-scores.md; edit that, then `make tangle`.

// Chapter 7, the control: ch07_reuse_scores with padded rows.
//
//   make chapter7 && build/ch07_padded
//
// The rows of scores and P are 144 bytes apart, so that eight rows begin in
// eight different banks. That takes 512 bytes more.

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
constexpr int ROWS_PER_WARP = BLOCK_M / WARPS;

static_assert(BLOCK_M == BLOCK_N, "load_tile serves Q, K and V alike");
static_assert(BLOCK_N == 32, "softmax gives each lane one key of a row");
static_assert(HEAD_DIM == 64, "accumulate gives each lane two columns");

// ---- Fix the fragment sizes ----
constexpr int FRAG = 16; // m, n and k of a WMMA product

static_assert(BLOCK_M / FRAG * (BLOCK_N / FRAG) == WARPS, "a tile a warp");
static_assert(HEAD_DIM % FRAG == 0, "whole steps along the head dimension");

// ---- Fix the depth of the pipeline ----
constexpr int STAGES = 2;      // one key tile landing, one at work
constexpr int COPY_BYTES = 16; // the most that one cp.async moves

static_assert(HEAD_DIM % COPY_BYTES == 0, "whole copies in a row");

// ---- Fix the pitch of a row of scores ----
constexpr int PITCH = BLOCK_N + 4; // in floats: rows begin 4 banks apart

static_assert(PITCH * sizeof(float) % 16 == 0, "as WMMA wants a stride");
static_assert(FRAG * PITCH * sizeof(float) % 32 == 0, "and its addresses");

// ---- Stage K and V as they lie in global memory ----
struct alignas(128) staging { // K and V as they lie in global memory
    uint8_t k[BLOCK_N][HEAD_DIM];
    uint8_t v[BLOCK_N][HEAD_DIM];
};

// ---- Lay out shared memory, with padded scores ----
struct alignas(128) tiles {
    staging codes[STAGES];
    __half q[BLOCK_M][HEAD_DIM];
    __half k[BLOCK_N][HEAD_DIM];
    __half v[BLOCK_N][HEAD_DIM];
    float scores[BLOCK_M][PITCH];   // later P as half, at each row's start
    float accum[BLOCK_M][HEAD_DIM]; // output, not yet divided by the sum
};

// ---- Keep the rows' maxima and sums in registers ----
struct row_state { // the state of this warp's rows, the same in every lane
    float max[ROWS_PER_WARP];
    float sum[ROWS_PER_WARP];
};

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

// ---- Score one key tile with WMMA ----
__device__ void score(tiles &t, int warp)
{
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> q; // [16 rows][16 d]
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, __half,
                   wmma::col_major> k; // [16 d][16 keys]: K transposed
    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float> s; // [16][16]

    int row = warp / 2 * FRAG;
    int key = warp % 2 * FRAG;
    wmma::fill_fragment(s, 0.0f);
    for (int d = 0; d < HEAD_DIM; d += FRAG) {
        // Multiply 16 columns of Q with 16 of K
        wmma::load_matrix_sync(q, &t.q[row][d], HEAD_DIM);
        wmma::load_matrix_sync(k, &t.k[key][d], HEAD_DIM);
        wmma::mma_sync(s, q, k, s);
    }
    wmma::store_matrix_sync(&t.scores[row][key], s, PITCH,
                            wmma::mem_row_major);
}

// ---- Reduce across a warp ----
__device__ float warp_max(float x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

__device__ float warp_sum(float x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

// ---- Update the online softmax ----
__device__ void softmax(tiles &t, row_state &rows, int warp, int lane,
                        float scale, int keys_left)
{
#pragma unroll // a constant r keeps `rows` in registers
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        int row = warp * ROWS_PER_WARP + r;

        // Scale the score, mask keys past the end
        float s = t.scores[row][lane] * scale;
        if (lane >= keys_left)
            s = -INFINITY;

        float old_max = rows.max[r];
        float new_max = fmaxf(old_max, warp_max(s));
        float p = __expf(s - new_max);
        float rescale = __expf(old_max - new_max); // 0 on the first tile
        rows.max[r] = new_max;
        rows.sum[r] = rows.sum[r] * rescale + warp_sum(p);
        __syncwarp(); // all lanes have read the row that P overwrites
        ((__half *)t.scores[row])[lane] = __float2half(p);

        // Rescale the row's output so far
        t.accum[row][lane] *= rescale;
        t.accum[row][lane + 32] *= rescale;
    }
}

// ---- Accumulate P·V with WMMA ----
__device__ void accumulate(tiles &t, int warp)
{
    // Declare the fragments of P·V
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> p; // [16 rows][16 keys]
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, __half,
                   wmma::row_major> v; // [16 keys][16 d]
    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float> sum; // [16][16]

    int row = warp / 2 * FRAG;
    for (int f = 0; f < HEAD_DIM / 2; f += FRAG) {
        int d = warp % 2 * (HEAD_DIM / 2) + f;

        // Take up the output so far
        wmma::load_matrix_sync(sum, &t.accum[row][d], HEAD_DIM,
                               wmma::mem_row_major);

        for (int key = 0; key < BLOCK_N; key += FRAG) {
            // Multiply 16 columns of P with 16 rows of V
            wmma::load_matrix_sync(p, (__half *)t.scores[row] + key, 2 * PITCH);
            wmma::load_matrix_sync(v, &t.v[key][d], HEAD_DIM);
            wmma::mma_sync(sum, p, v, sum);
        }
        __syncwarp(); // to be safe: WMMA's load and store synchronise the lanes, too
        wmma::store_matrix_sync(&t.accum[row][d], sum, HEAD_DIM,
                                wmma::mem_row_major);
    }
}

// ---- Normalise and store the output ----
__device__ void store(const tiles &t, const row_state &rows, int warp,
                      int lane, __half *out, int rows_left, float v_scale)
{
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        int row = warp * ROWS_PER_WARP + r;
        if (row >= rows_left)
            return;
        float norm = v_scale / rows.sum[r];
        float2 sum = *(const float2 *)&t.accum[row][2 * lane];

        // Store two columns
        *(__half2 *)&out[row * HEAD_DIM + 2 * lane] =
            __floats2half2_rn(sum.x * norm, sum.y * norm);
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
    for (int i = threadIdx.x; i < BLOCK_M * HEAD_DIM; i += THREADS)
        t.accum[i / HEAD_DIM][i % HEAD_DIM] = 0;
    row_state rows;
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        rows.max[r] = -INFINITY;
        rows.sum[r] = 0;
    }

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
        score(t, warp);
        __syncthreads(); // a row's scores come from two warps
        softmax(t, rows, warp, lane, scale, seq_len - key);
        __syncthreads(); // P and the rescaled output come from other warps
        accumulate(t, warp);
    }
    __syncthreads(); // a row of the output comes from two warps
    store(t, rows, warp, lane, out, seq_len - first_row,
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
        .name = "ch07_padded",
        .title = "The score buffer reused, rows padded",
        .chapter = 7,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
