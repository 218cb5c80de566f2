// Tangled from chapters/12-persistent.md; edit that, then `make tangle`.

// Chapter 12: persistent CTAs and a work queue.
//
//   make chapter12 && ./lab12
//
// Chapter 10's program, but a CTA does not end with its query tile: no more
// CTAs are launched than the GPU holds at a time, and each takes tiles from a
// queue in global memory until there are none. Launches must not overlap.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"
#include <cuda_pipeline_primitives.h>

// ---- Fix the tile sizes ----
constexpr int BLOCK_M = 32; // query rows of a CTA
constexpr int BLOCK_N = 32; // keys of a tile
constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;

static_assert(BLOCK_M == BLOCK_N, "load_tile serves Q, K and V alike");

// ---- Divide the tile among the warps ----
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16; // of one mma.sync
constexpr int CHUNK = 8;                         // halves in 16 bytes
constexpr int WARPS_M = BLOCK_M / MMA_M; // warps that divide the rows
constexpr int WARPS_N = WARPS / WARPS_M; // warps that share a row
constexpr int KEYS = BLOCK_N / WARPS_N;  // keys of a tile that a warp scores
constexpr int COLS = HEAD_DIM / WARPS_N; // output columns of a warp

static_assert(KEYS % 16 == 0 && COLS % 16 == 0, "ldmatrix loads 16 columns");
static_assert(HEAD_DIM == 8 * CHUNK, "swizzle: a row is eight chunks");
static_assert(BLOCK_N == 4 * CHUNK, "swizzle_p: a row is four chunks");

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

// ---- Swizzle a row's chunks ----

// The place of element d within a row of 64 halves: the row's eight chunks
// change places, differently in each of eight consecutive rows.
__device__ int swizzle(int row, int d) { return d ^ row % 8 * CHUNK; }

// As swizzle(), for rows of 32 halves: two of them fill the 32 banks once.
__device__ int swizzle_p(int row, int key)
{
    return key ^ row / 2 % 4 * CHUNK;
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
        __half2 *to = (__half2 *)&tile[row][swizzle(row, d)];
        to[0] = low;
        to[1] = high;
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
        __half2 *to = (__half2 *)&tile[row][swizzle(row, d)];
        to[0] = low;
        to[1] = high;
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
    for (int n = 0; n < KEYS / MMA_N; ++n)
        for (int h = 0; h < 2; ++h) {
            float p0 = __expf(s[n][2 * h] - rows.max[h]);
            float p1 = __expf(s[n][2 * h + 1] - rows.max[h]);
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

// ---- Attend from one query tile ----
__device__ void query_tile(tiles &t, const attention_args &args, int first_row,
                           int pair)
{
    // Find this query tile's rows and head
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int seq_len = args.shape.seq_len;
    int head = pair % args.shape.heads;
    size_t base = (size_t)pair * seq_len * HEAD_DIM;
    __half *out = (__half *)args.out + base + (size_t)first_row * HEAD_DIM;
    float scale = args.softmax_scale * args.q_scales[head] * args.k_scales[head];

    load_tile(t.q, args.q + base, first_row, seq_len);

    // Reset the running sums
    row_state rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float sum[COLS / MMA_N][4] = {}; // [16 rows][COLS]

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
        float s[KEYS / MMA_N][4]; // [16 rows][KEYS]
        score(t, t.k, s, warp, lane);
        softmax(t, rows, s, sum, warp, lane, scale, seq_len - key);
        row_barrier(warp); // P comes from two warps
        accumulate(t, t.v, sum, warp, lane);
    }
    store(t, rows, sum, warp, lane, out, seq_len - first_row,
          args.v_scales[head]);
}

// ---- Take the next query tile from the queue ----
__device__ unsigned next_item; // 0 before and after each launch

// The next query tile of this CTA; `items` or more when there is none.
__device__ unsigned take_item(unsigned &item, unsigned items)
{
    __syncthreads(); // all threads have read the previous item

    // Ask the queue, one thread for all
    if (threadIdx.x == 0) // next_item is 0 again after items + gridDim.x requests
        item = atomicInc(&next_item, items + gridDim.x - 1);

    __syncthreads(); // the number is there; all are done with the previous tile
    return item;
}

// ---- Take query tiles until there are none ----
__global__ void __launch_bounds__(THREADS)
attention(const __grid_constant__ attention_args args)
{
    __shared__ tiles t;
    __shared__ unsigned item;
    unsigned tiles_m = (args.shape.seq_len + BLOCK_M - 1) / BLOCK_M;
    unsigned items = tiles_m * args.shape.batch * args.shape.heads;
    while (take_item(item, items) < items)
        query_tile(t, args, item % tiles_m * BLOCK_M, item / tiles_m);
}

// ---- Find how many CTAs the GPU holds ----
static cudaError_t resident_ctas(unsigned *ctas)
{
    int device, sms, per_sm;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount,
                                       device);
    if (!error)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &per_sm, attention, THREADS, 0);
    if (!error)
        *ctas = sms * per_sm;
    return error;
}

// ---- Launch no more CTAs than fit ----
static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    size_t tiles_m = (args->shape.seq_len + BLOCK_M - 1) / BLOCK_M;
    size_t items = tiles_m * args->shape.batch * args->shape.heads;
    if (items > INT32_MAX)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%zu query tiles, at most 2^31 - 1", items);
    unsigned ctas;
    cudaError_t error = resident_ctas(&ctas);
    if (error)
        return error;
    attention<<<ctas < items ? ctas : items, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch12_persistent",
        .title = "Persistent CTAs",
        .chapter = 12,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
