// Tangled from chapters/15-registers.md; edit that, then `make tangle`.

// Chapter 15: everything in registers, and a form for short sequences.
//
//   make chapter15 && build/ch15_short
//
// ch15_registers with a third form of the kernel: four CTAs of 64 rows share
// an SM.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Name the sizes ----
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16; // of one mma.sync
constexpr int CHUNK = 8;          // halves in 16 bytes
constexpr int LOAD_BYTES = 16;    // the most that a lane loads at a time
constexpr int PER_ROW = HEAD_DIM / LOAD_BYTES;
constexpr int RING = 3;           // tiles of K and V
constexpr size_t ENOUGH = 100;    // row tiles that WIDE needs, over all heads
constexpr float LOG2_E = 1.44269504f;
constexpr float NOTHING = 1e30f;  // base before the first key: 2^(s + base)
                                  // is infinite, and 0 for a masked key
constexpr float LARGEST_SUM = 32768; // of a lane's P, so that each fits a half

static_assert(HEAD_DIM == 8 * CHUNK, "swizzle: a row is eight chunks");

// ---- Divide the work in three ways ----
struct form {
    int fragments; // of 16 query rows each, that a warp owns
    int warps_m;   // warps that divide the rows
    int warps_n;   // warps that share rows, each with its part of the keys
    int step;      // keys that a warp takes from scores to output at once
    int ctas;      // CTAs that share an SM
    // Computed from the above.
    int block_m = MMA_M * fragments * warps_m; // query rows of a CTA
    int block_n = step * warps_n;              // keys of a tile
    int threads = 32 * warps_m * warps_n;
    int loads = block_n * PER_ROW / threads;   // by a lane for a tile of K or V
    int blocks = HEAD_DIM / MMA_N / warps_n;   // 8-column blocks a warp stores
};
constexpr form WIDE = {2, 8, 1, 64, 1};  // many rows: 2 fragments per ldmatrix
constexpr form SPLIT = {1, 4, 2, 32, 1}; // few rows: two warps share each
constexpr form SHORT = {1, 4, 1, 32, 4}; // many short sequences; 4: CTAs an SM

constexpr bool possible(form f)
{
    return f.step % 16 == 0 && f.loads * f.threads == f.block_n * PER_ROW;
}
static_assert(possible(WIDE) && possible(SPLIT) && possible(SHORT),
              "whole matrices and loads");

// ---- Lay out shared memory ----
template <form F> struct half_tiles {
    __half k[F.block_n][HEAD_DIM]; // both are swizzled
    __half v[F.block_n][HEAD_DIM];
};

template <form F> struct alignas(128) shared {
    union {
        half_tiles<F> tiles[RING];
        float4 parts[F.warps_n > 1 ? F.warps_m * F.fragments : 1]
                    [HEAD_DIM / MMA_N + 1][F.warps_n][32]; // for merge()
    };
    uint64_t done; // all lanes arrive at the end of a step
};

// The place of chunk c within a row.
__device__ int swizzle(int row, int c) { return (c ^ row % 8) * CHUNK; }

// D += A B with A [16][16] and B [16][8] half, D [16][8] float. Volatile,
// since the products of ch15_turns must stay between its barriers.
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                    uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
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

// 2^x; 0 where the result would be denormal.
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Codes 2 I and 2 I + 1 of a word of four, as two halves.
template <int I> __device__ uint32_t two_halves(uint32_t codes)
{
    uint32_t halves;
    asm("{ .reg .b16 two<2>;\n"
        "mov.b32 {two0, two1}, %1;\n"
        "cvt.rn.f16x2.e4m3x2 %0, two%2; }"
        : "=r"(halves)
        : "r"(codes), "n"(I));
    return halves;
}

// ---- Keep what goes from step to step ----
template <form F> struct running {
    float base[F.fragments][2]; // minus the reference, as an exponent of 2
    float sum[F.fragments][2];  // of this lane's keys
    float out[F.fragments][HEAD_DIM / MMA_N][4]; // [16 rows][64 d] each
};

// In fragments of 16 rows: Q [16][64], scores and P [16][step], P's sums.
template <form F> using query = uint32_t[F.fragments][HEAD_DIM / MMA_K][4];
template <form F> using step_scores = float[F.fragments][F.step / MMA_N][4];
template <form F> using step_p = uint32_t[F.fragments][F.step / MMA_K][4];
template <form F> using step_sums = float[F.fragments][2];

// ---- Load the query rows into fragments ----
template <form F>
__device__ void load_query(query<F> &q, const uint8_t *codes, int first_row,
                           int seq_len)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < F.fragments; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            int row = first_row + m * MMA_M + h * 8 + lane / 4;
#pragma unroll
            for (int d = 0; d < HEAD_DIM / MMA_K; ++d) {
                // Take four columns of a row
                uint32_t four = 0; // rows past the end are zeros
                if (row < seq_len)
                    four = *(const uint32_t *)(codes + (size_t)row * HEAD_DIM +
                                               d * MMA_K + lane % 4 * 4);
                q[m][d][h] = two_halves<0>(four);
                q[m][d][h + 2] = two_halves<1>(four);
            }
        }
}

// ---- Load a piece of a tile into registers ----
template <form F>
__device__ void fetch(uint4 (&codes)[F.loads], const uint8_t *tile,
                      int bytes_left)
{
#pragma unroll
    for (int i = 0; i < F.loads; ++i) {
        int at = (threadIdx.x + i * F.threads) * LOAD_BYTES;
        codes[i] = uint4{}; // rows past the end are zeros
        if (at < bytes_left)
            codes[i] = *(const uint4 *)(tile + at);
    }
}

// ---- Convert a piece into a half tile ----
template <form F>
__device__ void convert(__half (*tile)[HEAD_DIM],
                        const uint4 (&codes)[F.loads])
{
#pragma unroll
    for (int i = 0; i < F.loads; ++i) {
        int row = (threadIdx.x + i * F.threads) / PER_ROW;
        int chunk = threadIdx.x % PER_ROW * 2;
        const uint4 &c = codes[i]; // a word for each lane of the quad

        // Deal the columns out to the lanes
        uint4 low = {two_halves<0>(c.x), two_halves<0>(c.y), two_halves<0>(c.z),
                     two_halves<0>(c.w)};
        uint4 high = {two_halves<1>(c.x), two_halves<1>(c.y), two_halves<1>(c.z),
                      two_halves<1>(c.w)};
        *(uint4 *)&tile[row][swizzle(row, chunk)] = low;
        *(uint4 *)&tile[row][swizzle(row, chunk + 1)] = high;
    }
}

// ---- Score the keys of a step ----
template <form F>
__device__ void score(step_scores<F> &s, const query<F> &q,
                      const __half (*k)[HEAD_DIM])
{
    int lane = threadIdx.x % 32;
    int row = lane / 16 * 8 + lane % 8; // row of K that this lane points at
    for (int m = 0; m < F.fragments; ++m)
        for (int n = 0; n < F.step / MMA_N; ++n)
            for (int i = 0; i < 4; ++i)
                s[m][n][i] = 0;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / MMA_K; ++d) {
        const __half *at = &k[row][swizzle(row, 2 * d + lane / 8 % 2)];
#pragma unroll
        for (int n = 0; n < F.step / MMA_N; n += 2) {
            // Multiply with sixteen keys
            uint32_t b[4]; // [16 d][16 keys]: K transposed
            load_matrices(b, at + n * MMA_N * HEAD_DIM);
            #pragma unroll
            for (int m = 0; m < F.fragments; ++m) {
                mma(s[m][n], q[m][d], b[0], b[1]);
                mma(s[m][n + 1], q[m][d], b[2], b[3]);
            }
        }
    }
}

// ---- Mask the keys past the end ----
template <form F> __device__ void mask(step_scores<F> &s, int keys_left)
{
    int first = threadIdx.x % 4 * 2; // this lane's first key
#pragma unroll
    for (int n = 0; n < F.step / MMA_N; ++n)
        for (int i = 0; i < 4; ++i)
            if (first + n * MMA_N + i % 2 >= keys_left)
                for (int m = 0; m < F.fragments; ++m)
                    s[m][n][i] = -INFINITY;
}

// ---- Turn scores into probabilities ----
template <form F>
__device__ void probabilities(step_p<F> &p, step_sums<F> &sum,
                              const step_scores<F> &s, const running<F> &r,
                              float scale)
{
#pragma unroll
    for (int m = 0; m < F.fragments; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float base = r.base[m][h];
            sum[m][h] = 0;
#pragma unroll
            for (int n = 0; n < F.step / MMA_N; ++n) {
                // Compute two and pack them
                float p0 = exp2_approx(fmaf(s[m][n][2 * h], scale, base));
                float p1 = exp2_approx(fmaf(s[m][n][2 * h + 1], scale, base));
                sum[m][h] += p0 + p1;
                __half2 two = __floats2half2_rn(p0, p1);
                p[m][n / 2][n % 2 * 2 + h] = *(uint32_t *)&two;
            }
        }
}

// ---- Raise the reference ----
template <form F>
__device__ void raise(running<F> &r, const step_scores<F> &s, float scale)
{
#pragma unroll
    for (int m = 0; m < F.fragments; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float largest = -INFINITY;
            for (int n = 0; n < F.step / MMA_N; ++n)
                for (int i = 2 * h; i < 2 * h + 2; ++i)
                    largest = fmaxf(largest, s[m][n][i]);
            float base = fminf(r.base[m][h], -quad_max(largest) * scale);

            // Rescale what was summed up so far
            float factor = exp2_approx(base - r.base[m][h]); // 0 on the first tile
            r.base[m][h] = base;
            r.sum[m][h] *= factor;
            for (int n = 0; n < HEAD_DIM / MMA_N; ++n)
                for (int i = 2 * h; i < 2 * h + 2; ++i)
                    r.out[m][n][i] *= factor;
        }
}

// ---- Accumulate P·V ----
template <form F>
__device__ void accumulate(running<F> &r, const step_p<F> &p,
                           const __half (*v)[HEAD_DIM])
{
    int lane = threadIdx.x % 32;
    int row = lane % 16; // row of V that this lane points at
#pragma unroll
    for (int n = 0; n < HEAD_DIM / MMA_N; n += 2) {
        const __half *at = &v[row][swizzle(row, n + lane / 16)];
#pragma unroll
        for (int j = 0; j < F.step / MMA_K; ++j) {
            // Multiply sixteen keys of P with V
            uint32_t b[4]; // [16 keys][16 d]
            load_matrices_transposed(b, at + j * MMA_K * HEAD_DIM);
            #pragma unroll
            for (int m = 0; m < F.fragments; ++m) {
                mma(r.out[m][n], p[m][j], b[0], b[1]);
                mma(r.out[m][n + 1], p[m][j], b[2], b[3]);
            }
        }
    }
}

// ---- Merge the parts of a row ----
template <form F>
__device__ void merge(shared<F> &t, running<F> &r, int warp)
{
    int part = warp / F.warps_m;
    int lane = threadIdx.x % 32;
    auto parts = &t.parts[warp % F.warps_m * F.fragments];
#pragma unroll
    for (int m = 0; m < F.fragments; ++m) {
        for (int n = 0; n < HEAD_DIM / MMA_N; ++n)
            parts[m][n][part][lane] =
                float4{r.out[m][n][0], r.out[m][n][1], r.out[m][n][2],
                       r.out[m][n][3]};
        parts[m][HEAD_DIM / MMA_N][part][lane] = float4{
            r.base[m][0], r.base[m][1], r.sum[m][0], r.sum[m][1]};
    }
    __syncthreads(); // the parts of a row come from several warps
#pragma unroll
    for (int m = 0; m < F.fragments; ++m) {
        // Weigh the parts and add them
        float base[2] = {NOTHING, NOTHING};
        for (int w = 0; w < F.warps_n; ++w) {
            float4 state = parts[m][HEAD_DIM / MMA_N][w][lane];
            base[0] = fminf(base[0], state.x);
            base[1] = fminf(base[1], state.y);
        }
        r.sum[m][0] = r.sum[m][1] = 0;
        for (int n = 0; n < F.blocks; ++n)
            for (int i = 0; i < 4; ++i)
                r.out[m][n][i] = 0;
        #pragma unroll
        for (int w = 0; w < F.warps_n; ++w) {
            float4 state = parts[m][HEAD_DIM / MMA_N][w][lane];
            float weight[2] = {exp2_approx(base[0] - state.x),
                               exp2_approx(base[1] - state.y)};
            r.sum[m][0] += weight[0] * state.z;
            r.sum[m][1] += weight[1] * state.w;
        #pragma unroll
            for (int n = 0; n < F.blocks; ++n) {
                float4 out = parts[m][part * F.blocks + n][w][lane];
                r.out[m][n][0] += weight[0] * out.x;
                r.out[m][n][1] += weight[0] * out.y;
                r.out[m][n][2] += weight[1] * out.z;
                r.out[m][n][3] += weight[1] * out.w;
            }
        }
    }
}

// ---- Normalise and store the output ----
template <form F>
__device__ void store(const running<F> &r, __half *out, int first_row,
                      int seq_len, int first_column, float v_scale)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < F.fragments; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            int row = first_row + m * MMA_M + h * 8 + lane / 4;
            float norm = v_scale / quad_sum(r.sum[m][h]);
            if (row >= seq_len)
                continue;
#pragma unroll
            for (int n = 0; n < F.blocks; n += 2) {
                // Store four columns
                const float *o = &r.out[m][n][2 * h], *next = &r.out[m][n + 1][2 * h];
                __half2 four[2] = {__floats2half2_rn(o[0] * norm, o[1] * norm),
                                   __floats2half2_rn(next[0] * norm, next[1] * norm)};
                int column = first_column + n * MMA_N + lane % 4 * 4;
                *(uint2 *)&out[(size_t)row * HEAD_DIM + column] = *(uint2 *)four;
            }
        }
}

// ---- Run a CTA over all key tiles ----
template <form F>
__global__ void __launch_bounds__(F.threads, F.ctas)
attention(const __grid_constant__ attention_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    shared<F> &t = *(shared<F> *)memory;

    // Find the warp's rows and keys
    int seq_len = args.shape.seq_len;
    int head = blockIdx.y % args.shape.heads;
    size_t base = (size_t)blockIdx.y * seq_len * HEAD_DIM;
    int warp = threadIdx.x / 32;
    int part = warp / F.warps_m;    // the warp's part of a tile's keys
    int first = part * F.step;      // the first key of that part
    int first_row = blockIdx.x * F.block_m +
                    warp % F.warps_m * F.fragments * MMA_M;

    // Begin with Q and two tiles
    constexpr int TILE = F.block_n * HEAD_DIM; // bytes
    const uint8_t *k = args.k + base, *v = args.v + base;
    int bytes_left = seq_len * HEAD_DIM; // of K, and of V
    uint4 k_codes[F.loads], v_codes[F.loads];
    fetch<F>(k_codes, k, bytes_left);
    fetch<F>(v_codes, v, bytes_left);
    query<F> q;
    load_query<F>(q, args.q + base, first_row, seq_len);
    convert<F>(t.tiles[0].k, k_codes);
    convert<F>(t.tiles[0].v, v_codes);
    fetch<F>(k_codes, k + TILE, bytes_left - TILE);
    fetch<F>(v_codes, v + TILE, bytes_left - TILE);
    convert<F>(t.tiles[1].k, k_codes);
    fetch<F>(k_codes, k + 2 * TILE, bytes_left - 2 * TILE);
    if (threadIdx.x == 0)
        barrier_init(&t.done, F.threads);
    __syncthreads(); // the first tile and the second K are complete

    // Take a step for each tile
    float scale = args.softmax_scale * LOG2_E;
    scale *= args.q_scales[head] * args.k_scales[head];
    running<F> r = {};
    for (int m = 0; m < F.fragments; ++m)
        r.base[m][0] = r.base[m][1] = NOTHING;
    step_p<F> p = {}; // nothing to accumulate in the first step
    bool busy = F.ctas == 1 || first_row < seq_len;
    int tiles = (seq_len + F.block_n - 1) / F.block_n;
    const __half (*v_before)[HEAD_DIM] = &t.tiles[0].v[first];
    for (int tile = 0; tile < tiles; ++tile) {
        int keys_left = seq_len - tile * F.block_n - first;
        step_scores<F> s;
        step_sums<F> sum;
        if (busy) {
            // Multiply for this step and the last
            score<F>(s, q, &t.tiles[tile % RING].k[first]);
            accumulate<F>(r, p, v_before);
        }

        // Convert two steps ahead, load three ahead
        barrier_wait(&t.done, (tile + 1) % 2); // all lanes ended the previous step
        convert<F>(t.tiles[(tile + 2) % RING].k, k_codes);
        convert<F>(t.tiles[(tile + 1) % RING].v, v_codes);
        k += TILE, v += TILE, bytes_left -= TILE;
        fetch<F>(k_codes, k + 2 * TILE, bytes_left - 2 * TILE);
        fetch<F>(v_codes, v + TILE, bytes_left - TILE);

        if (busy) {
            probabilities<F>(p, sum, s, r, scale);

            // Step carefully where it is needed
            bool careful = keys_left < F.step;
            for (int m = 0; m < F.fragments; ++m)
                for (int h = 0; h < 2; ++h)
                    careful |= !(sum[m][h] <= LARGEST_SUM); // NaN, too
            if (__any_sync(0xffffffff, careful)) {
                mask<F>(s, keys_left);
                raise<F>(r, s, scale);
                probabilities<F>(p, sum, s, r, scale);
            }

            // Add the sums of the step
            for (int m = 0; m < F.fragments; ++m)
                for (int h = 0; h < 2; ++h)
                    r.sum[m][h] += sum[m][h];
        }
        v_before = &t.tiles[tile % RING].v[first];
        barrier_arrive(&t.done);
    }
    if (busy)
        accumulate<F>(r, p, v_before);

    if constexpr (F.warps_n > 1) {
        __syncthreads(); // merge() overwrites the tiles
        merge<F>(t, r, warp);
    }
    store<F>(r, (__half *)args.out + base, first_row, seq_len,
             part * F.blocks * MMA_N, args.v_scales[head]);
}

// ---- Launch the form that fills its rows ----
template <form F>
static cudaError_t launch_form(const struct attention_args *args,
                               cudaStream_t stream)
{
    unsigned tiles_m = (args->shape.seq_len + F.block_m - 1) / F.block_m;
    unsigned pairs = args->shape.batch * args->shape.heads;
    cudaError_t error = cudaFuncSetAttribute(
        attention<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
        sizeof(shared<F>));
    if (error)
        return error;
    attention<F><<<dim3(tiles_m, pairs), F.threads, sizeof(shared<F>),
                   stream>>>(*args);
    return cudaGetLastError();
}

// How many tiles of `size` rows hold `rows`.
static size_t tiles_of(size_t rows, size_t size)
{
    return (rows + size - 1) / size;
}

static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    size_t pairs = (size_t)args->shape.batch * args->shape.heads;
    size_t rows = args->shape.seq_len;
    size_t wide = tiles_of(rows, WIDE.block_m);
    if (pairs > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "batch x heads is %zu, at most 65535", pairs);

    // Choose the short form
    size_t sixteens = MMA_M * tiles_of(rows, MMA_M);
    bool fills = 6 * sixteens > 5 * WIDE.block_m * wide;
    if (!fills && wide <= 2 && pairs * tiles_of(rows, SHORT.block_m) >= 2 * ENOUGH)
        return launch_form<SHORT>(args, stream);

    return pairs * wide < ENOUGH ? launch_form<SPLIT>(args, stream)
                                 : launch_form<WIDE>(args, stream);
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch15_short",
        .title = "Everything in registers, short sequences",
        .chapter = 15,
        .kernel = (const void *)attention<SHORT>,
        .threads = SHORT.threads,
        .dynamic_shared_bytes = sizeof(shared<SHORT>),
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
