// Tangled from chapters/02-scalar-baseline.md; edit that, then `make tangle`.

// Chapter 2: attention with scalar arithmetic and an online softmax.
//
//   make chapter2 && ./lab2
//
// E4M3 in, half out, head dimension 64, forward, no mask. One CTA takes 32
// query rows; scores, probabilities and output all pass through shared memory.
// Correct for every shape, without bank conflicts, and slow: the baseline.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the tile sizes ----
constexpr int BLOCK_M = 32; // query rows of a CTA
constexpr int BLOCK_N = 32; // keys of a tile
constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int ROWS_PER_WARP = BLOCK_M / WARPS;

static_assert(BLOCK_M == BLOCK_N, "load_tile serves Q, K and V alike");
static_assert(BLOCK_N == 32, "softmax gives each lane one key of a row");
static_assert(HEAD_DIM == 64, "accumulate gives each lane two columns");

// ---- Lay out shared memory ----
struct alignas(128) tiles {
    __half q[BLOCK_M][HEAD_DIM];
    __half k[BLOCK_N][HEAD_DIM];
    __half v[BLOCK_N][HEAD_DIM];
    float scores[BLOCK_M][BLOCK_N]; // raw dot products, later P
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

// ---- Score one key tile ----
__device__ void score(tiles &t, int warp, int lane)
{
    int first = warp * ROWS_PER_WARP;
    float dot[ROWS_PER_WARP] = {};
#pragma unroll 4
    for (int step = 0; step < HEAD_DIM; ++step) {
        int d = (step + 2 * lane) % HEAD_DIM; // each lane reads another bank
        float k = __half2float(t.k[lane][d]);
        for (int r = 0; r < ROWS_PER_WARP; ++r)
            dot[r] += __half2float(t.q[first + r][d]) * k;
    }
    for (int r = 0; r < ROWS_PER_WARP; ++r)
        t.scores[first + r][lane] = dot[r];
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
        t.scores[row][lane] = p;

        // Rescale the row's output so far
        t.accum[row][lane] *= rescale;
        t.accum[row][lane + 32] *= rescale;
    }
}

// ---- Accumulate P·V ----
__device__ void accumulate(tiles &t, int warp, int lane)
{
    int first = warp * ROWS_PER_WARP;
    for (int d = lane; d < HEAD_DIM; d += 32) {
        float sum[ROWS_PER_WARP];
        for (int r = 0; r < ROWS_PER_WARP; ++r)
            sum[r] = t.accum[first + r][d];
#pragma unroll 4 // one load brings the probabilities of four keys
        for (int key = 0; key < BLOCK_N; ++key) {
            float v = __half2float(t.v[key][d]);
            for (int r = 0; r < ROWS_PER_WARP; ++r)
                sum[r] += t.scores[first + r][key] * v;
        }
        for (int r = 0; r < ROWS_PER_WARP; ++r)
            t.accum[first + r][d] = sum[r];
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
        for (int d = lane; d < HEAD_DIM; d += 32)
            out[row * HEAD_DIM + d] = __float2half(t.accum[row][d] * norm);
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

    for (int key = 0; key < seq_len; key += BLOCK_N) {
        load_tile(t.k, args.k + base, key, seq_len);
        load_tile(t.v, args.v + base, key, seq_len);
        __syncthreads(); // the tiles are complete

        // Work on one key tile
        score(t, warp, lane);
        __syncwarp();
        softmax(t, rows, warp, lane, scale, seq_len - key);
        __syncwarp();
        accumulate(t, warp, lane);

        __syncthreads(); // all warps are done with K and V
    }
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
        .name = "ch02_scalar",
        .title = "Scalar baseline with online softmax",
        .chapter = 2,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
