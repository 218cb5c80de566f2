// Tangled from chapters/13-warp-specialisation.md; edit that, then `make tangle`.

// Chapter 13: warp specialisation, one producer warp.
//
//   make chapter13 && ./lab13
//
// ch13_warp_specialised with one producer warp instead of two.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the tile sizes ----
constexpr int BLOCK_M = 32; // query rows of a CTA
constexpr int BLOCK_N = 32; // keys of a tile
constexpr int WARPS = 4;    // consumers: scores, softmax, output

// ---- Let one warp load ----
constexpr int PRODUCERS = 1; // warps that load and convert K and V

// ---- Count the threads ----
constexpr int THREADS = 32 * (WARPS + PRODUCERS);

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

// ---- Fix the depth of the ring ----
constexpr int STAGES = 2;      // one key tile being filled, one at work
constexpr int LOAD_BYTES = 16; // the most that a lane loads at a time

// ---- Lay out shared memory ----
struct alignas(128) tiles {
    struct {
        __half k[BLOCK_N][HEAD_DIM];
        __half v[BLOCK_N][HEAD_DIM];
    } ring[STAGES];
    __half q[BLOCK_M][HEAD_DIM];
    __half p[BLOCK_M][BLOCK_N];
    float row_max[WARPS_N][BLOCK_M]; // of one key tile, for the other warp
    float row_sum[WARPS_N][BLOCK_M]; // of all tiles, at the end
    uint64_t filled[STAGES]; // producer lanes arrive when their part is there
    uint64_t empty[STAGES];  // consumer lanes arrive when they are done
};

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

// The barrier of the warps that share rows; barrier 0 is __syncthreads's.
__device__ void row_barrier(int warp)
{
    asm volatile("barrier.cta.sync %0, %1;"
                 :
                 : "r"(1 + warp / WARPS_N), "n"(32 * WARPS_N)
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

// ---- Produce key tiles ----
__device__ void produce(tiles &t, const uint8_t *k, const uint8_t *v,
                        int seq_len)
{
    int thread = threadIdx.x - 32 * WARPS;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    uint4 k_codes[LOADS], v_codes[LOADS];
    fetch(k_codes, k, 0, seq_len, thread);
    fetch(v_codes, v, 0, seq_len, thread);
    for (int tile = 0; tile < tiles_n; ++tile) {
        int stage = tile % STAGES;
        int next = (tile + 1) * BLOCK_N; // loaded while the consumers work

        // Wait until the stage is empty
        int round = tile / STAGES; // round 0 finds every stage empty
        barrier_wait(&t.empty[stage], (round + 1) % 2);

        convert(t.ring[stage].k, k_codes, thread);
        fetch(k_codes, k, next, seq_len, thread);
        convert(t.ring[stage].v, v_codes, thread);
        fetch(v_codes, v, next, seq_len, thread);

        // Say that the stage is filled
        barrier_arrive(&t.filled[stage]);
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

// ---- Consume key tiles ----
__device__ void consume(tiles &t, const attention_args &args, int first_row,
                        int head, __half *out)
{
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int seq_len = args.shape.seq_len;
    float scale = args.softmax_scale;
    scale *= args.q_scales[head] * args.k_scales[head];
    row_state rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float sum[COLS / MMA_N][4] = {}; // [16 rows][COLS]
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;
    for (int tile = 0; tile < tiles_n; ++tile) {
        int stage = tile % STAGES;

        // Wait until the stage is filled
        barrier_wait(&t.filled[stage], tile / STAGES % 2);

        // Work on one key tile
        float s[KEYS / MMA_N][4]; // [16 rows][KEYS]
        score(t, t.ring[stage].k, s, warp, lane);
        softmax(t, rows, s, sum, warp, lane, scale, seq_len - tile * BLOCK_N);
        row_barrier(warp); // P comes from two warps
        accumulate(t, t.ring[stage].v, sum, warp, lane);

        // Say that the stage is empty
        barrier_arrive(&t.empty[stage]);
    }
    store(t, rows, sum, warp, lane, out, seq_len - first_row,
          args.v_scales[head]);
}

// ---- Give each warp its part ----
__global__ void __launch_bounds__(THREADS)
attention(const __grid_constant__ attention_args args)
{
    __shared__ tiles t;
    int seq_len = args.shape.seq_len;
    int first_row = blockIdx.x * BLOCK_M;
    int head = blockIdx.y % args.shape.heads;
    size_t base = (size_t)blockIdx.y * seq_len * HEAD_DIM;
    __half *out = (__half *)args.out + base + (size_t)first_row * HEAD_DIM;

    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; ++i) {
            // Say how many arrivals end a phase
            barrier_init(&t.filled[i], 32 * PRODUCERS);
            barrier_init(&t.empty[i], 32 * WARPS);
        }
    load_tile(t.q, args.q + base, first_row, seq_len);
    __syncthreads(); // the last barrier that all warps meet at
    if (threadIdx.x >= 32 * WARPS)
        produce(t, args.k + base, args.v + base, seq_len);
    else
        consume(t, args, first_row, head, out);
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
        .name = "ch13_one_producer",
        .title = "Warp specialisation, one producer",
        .chapter = 13,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
