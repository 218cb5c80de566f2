// Tangled from chapters/16-fp8.md; edit that, then `make tangle`.

// Chapter 16: both products in FP8.
//
//   make chapter16 && ./lab16
//
// K and V stay the bytes they are, and P becomes bytes: mma.sync m16n8k32
// multiplies E4M3 by E4M3. P is packed where it lies, its keys permuted as V's
// are; V is transposed on its way into registers. Needs sm_89; for sm_90 the
// compiler turns each FP8 product into products of halves.

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the sizes ----
constexpr int BLOCK_M = 64; // query rows of a CTA
constexpr int BLOCK_N = 64; // keys of a tile
constexpr int WARPS = 4;    // each with 16 rows, and with all keys
constexpr int THREADS = 32 * WARPS;
constexpr int STAGES = 3;   // one key tile at work, two landing
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 32; // of one mma.sync
constexpr int CHUNK = 16;   // codes in 16 bytes
constexpr int KEY_BLOCKS = BLOCK_N / MMA_N;  // accumulators of the scores
constexpr int COL_BLOCKS = HEAD_DIM / MMA_N; // accumulators of the output
constexpr int P_OFFSET = 8; // P is 2^8 exp(score - row_max) when it is rounded

static_assert(BLOCK_M == MMA_M * WARPS, "a warp owns the rows of one mma");
static_assert(HEAD_DIM == 4 * CHUNK, "swizzle: a row is four chunks");
static_assert(HEAD_DIM == 2 * MMA_K, "score: two products in a row of K");
static_assert(P_OFFSET <= 8, "2^P_OFFSET must not pass 448");

// ---- Lay out shared memory ----
struct alignas(128) tiles { // codes, swizzled
    struct {
        uint8_t k[BLOCK_N][HEAD_DIM];
        uint8_t v[BLOCK_N][HEAD_DIM];
    } ring[STAGES];
};

// The place of byte d within a row: two rows share the 32 banks, so the order
// of the four chunks changes every two rows.
__device__ int swizzle(int row, int d)
{
    return d ^ row / 2 % 4 * CHUNK; // an order for each pair of rows
}

// D += A B with A [16][32] and B [32][8] E4M3, D [16][8] float.
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                    uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Load matrices with ldmatrix ----

// Four matrices of eight rows of 16 bytes: lane 8 i + r points at row r of
// matrix i. A lane gets bytes 4 t to 4 t + 3 of row g, with g = lane / 4 and
// t = lane % 4; transposed, bytes 2 g and 2 g + 1 of rows 2 t and 2 t + 1.
__device__ void load_matrices(uint32_t (&m)[4], const uint8_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

__device__ void load_matrices_transposed(uint32_t (&m)[4], const uint8_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// Four codes in a register, the first in its lowest byte.
__device__ uint32_t pack(const float (&x)[4])
{
    uint32_t codes;
    asm("{ .reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high}; }"
        : "=r"(codes)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
    return codes;
}

// 2^x; 0 where the result would be denormal.
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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

// ---- Copy a tile's rows asynchronously ----
__device__ void copy_rows(uint8_t (*tile)[HEAD_DIM], const uint8_t *codes,
                          int first_row, int seq_len)
{
    constexpr int PER_ROW = HEAD_DIM / CHUNK;
    int d = threadIdx.x % PER_ROW * CHUNK;
#pragma unroll
    for (int i = 0; i < BLOCK_N * PER_ROW / THREADS; ++i) {
        int row = threadIdx.x / PER_ROW + i * (THREADS / PER_ROW);
        int from = min(first_row + row, seq_len - 1);

        // Copy sixteen codes, or zeros
        int bytes = first_row + row < seq_len ? CHUNK : 0; // zeros past the end
        uint8_t *to = &tile[row][swizzle(row, d)];
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"((uint32_t)__cvta_generic_to_shared(to)),
                       "l"(codes + (size_t)from * HEAD_DIM + d), "r"(bytes)
                     : "memory");
    }
}

// ---- Start copying a key tile ----
__device__ void copy_tile(tiles &t, int tile, const uint8_t *k,
                          const uint8_t *v, int seq_len)
{
    int key = tile * BLOCK_N;
    if (key < seq_len) {
        copy_rows(t.ring[tile % STAGES].k, k, key, seq_len);
        copy_rows(t.ring[tile % STAGES].v, v, key, seq_len);
    }
    __pipeline_commit(); // even an empty group: the wait counts groups
}

// ---- Load a warp's queries into fragments ----
__device__ void load_queries(uint32_t (&q)[HEAD_DIM / MMA_K][4],
                             const uint8_t *codes, int row, int rows_left,
                             int lane)
{
#pragma unroll
    for (int b = 0; b < HEAD_DIM / MMA_K; ++b)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int r = row + lane / 4 + i % 2 * 8;
            int d = b * MMA_K + i / 2 * 16 + lane % 4 * 4;
            q[b][i] = 0; // rows past the end
            if (r < rows_left)
                q[b][i] = *(const uint32_t *)&codes[r * HEAD_DIM + d];
        }
}

// ---- Score one key tile ----
__device__ void score(const uint8_t (*k_tile)[HEAD_DIM],
                      const uint32_t (&q)[HEAD_DIM / MMA_K][4],
                      float (&s)[KEY_BLOCKS][4], int lane)
{
#pragma unroll
    for (int n = 0; n < KEY_BLOCKS; ++n) {
        for (int i = 0; i < 4; ++i)
            s[n][i] = 0;

        // Multiply all of Q with eight keys
        int row = n * MMA_N + lane % 8;
        uint32_t k[4]; // [64 d][8 keys]: K transposed
        load_matrices(k, &k_tile[row][swizzle(row, lane / 8 * CHUNK)]);
        mma(s[n], q[0], k[0], k[1]);
        mma(s[n], q[1], k[2], k[3]);
    }
}

// Finds the new maxima. Sets `rescale` to the factors for the output so far,
// and `shift` so that a row's largest scaled score plus its shift is P_OFFSET.
__device__ void softmax(row_state &rows, float (&s)[KEY_BLOCKS][4],
                        float (&rescale)[2], float (&shift)[2], int lane,
                        float scale, int keys_left)
{
    if (keys_left < BLOCK_N) { // the last tile
        // Mask the keys past the end
        #pragma unroll
        for (int n = 0; n < KEY_BLOCKS; ++n)
            for (int i = 0; i < 4; ++i)
                if (n * MMA_N + lane % 4 * 2 + i % 2 >= keys_left)
                    s[n][i] = -INFINITY;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        // Find the new maximum
        float new_max = rows.max[h];
        #pragma unroll
        for (int n = 0; n < KEY_BLOCKS; ++n)
            new_max = fmaxf(new_max, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        new_max = quad_max(new_max);

        // Shift the maximum to 2^P_OFFSET
        shift[h] = P_OFFSET - new_max * scale;

        rescale[h] = exp2_approx((rows.max[h] - new_max) * scale);
        rows.max[h] = new_max; // rescale was 0 on the first tile
        rows.sum[h] *= rescale[h];
    }
}

// ---- Turn 32 keys' scores into a fragment of P ----
__device__ void probabilities(uint32_t (&p)[4], row_state &rows,
                              const float (*s)[4], const float (&shift)[2],
                              float scale)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) { // register i of A
        const int n = i / 2 * 2, h = i % 2;
        float x[4];

        // Take two keys each from two accumulators
        for (int j = 0; j < 4; ++j) { // keys 2 t, 2 t + 1, 8 + 2 t, 8 + 2 t + 1
            float scaled = fmaf(s[n + j / 2][2 * h + j % 2], scale, shift[h]);
            x[j] = exp2_approx(scaled);
            rows.sum[h] += x[j];
        }

        p[i] = pack(x);
    }
}

// Adds the products of 32 keys; v_tile points at the first key's row.
__device__ void accumulate(const uint8_t (*v_tile)[HEAD_DIM],
                           const uint32_t (&p)[4],
                           float (&out)[COL_BLOCKS][4], int lane)
{
#pragma unroll
    for (int c = 0; c < HEAD_DIM / CHUNK; ++c) {
        uint32_t v[4]; // pairs of columns of keys 0-7, 8-15, 16-23, 24-31
        load_matrices_transposed(v, &v_tile[lane][swizzle(lane, c * CHUNK)]);

        // Part even columns from odd ones, and multiply
        constexpr unsigned EVEN = 0x6420, ODD = 0x7531; // bytes of the two words
        mma(out[2 * c], p, __byte_perm(v[0], v[1], EVEN),
            __byte_perm(v[2], v[3], EVEN));
        mma(out[2 * c + 1], p, __byte_perm(v[0], v[1], ODD),
            __byte_perm(v[2], v[3], ODD));
    }
}

// ---- Normalise and store the output ----
__device__ void store(const row_state &rows, const float (&out)[COL_BLOCKS][4],
                      __half *o, int row, int rows_left, int lane,
                      float v_scale)
{
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float norm = v_scale / quad_sum(rows.sum[h]); // 2^P_OFFSET cancels
        int r = row + lane / 4 + 8 * h;
        if (r >= rows_left)
            return;
#pragma unroll
        for (int c = 0; c < HEAD_DIM / CHUNK; ++c) {
            // Write four columns, even and odd ones in turn
            const float *even = &out[2 * c][2 * h], *odd = &out[2 * c + 1][2 * h];
            __half2 four[2] = {__floats2half2_rn(even[0] * norm, odd[0] * norm),
                               __floats2half2_rn(even[1] * norm, odd[1] * norm)};
            *(uint2 *)&o[r * HEAD_DIM + c * CHUNK + lane % 4 * 4] = *(uint2 *)four;
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
    int rows_left = seq_len - first_row;
    int head = blockIdx.y % args.shape.heads;
    size_t base = (size_t)blockIdx.y * seq_len * HEAD_DIM;
    size_t at = base + (size_t)first_row * HEAD_DIM;
    const uint8_t *k = args.k + base, *v = args.v + base;
    __half *out = (__half *)args.out + at;
    int tiles_n = (seq_len + BLOCK_N - 1) / BLOCK_N;

    for (int tile = 0; tile < STAGES - 1; ++tile)
        copy_tile(t, tile, k, v, seq_len);

    // Load the queries, reset the running sums
    constexpr float LOG2_E = 1.44269504f;
    float scale = args.softmax_scale * args.q_scales[head] * args.k_scales[head] *
                  LOG2_E;
    uint32_t q[HEAD_DIM / MMA_K][4]; // [16 rows][64 d]
    load_queries(q, args.q + at, warp * MMA_M, rows_left, lane);
    row_state rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float sum[COL_BLOCKS][4] = {}; // [16 rows][64 d]

    for (int tile = 0; tile < tiles_n; ++tile) {
        __pipeline_wait_prior(STAGES - 2); // this thread's part has landed
        __syncthreads(); // everybody's part has landed; nobody reads the tile before
        copy_tile(t, tile + STAGES - 1, k, v, seq_len);

        // Work on one key tile
        const auto &stage = t.ring[tile % STAGES];
        float s[KEY_BLOCKS][4];         // [16 rows][BLOCK_N]
        float part[COL_BLOCKS][4] = {}; // [16 rows][64 d]: of this tile alone
        float rescale[2], shift[2];
        score(stage.k, q, s, lane);
        softmax(rows, s, rescale, shift, lane, scale, seq_len - tile * BLOCK_N);
        #pragma unroll
        for (int b = 0; b < BLOCK_N / MMA_K; ++b) {
            uint32_t p[4]; // [16 rows][32 keys], keys permuted
            probabilities(p, rows, s + b * (MMA_K / MMA_N), shift, scale);
            accumulate(stage.v + b * MMA_K, p, part, lane);
        }

        // Rescale the output so far, and add this tile
        #pragma unroll
        for (int n = 0; n < COL_BLOCKS; ++n)
            for (int i = 0; i < 4; ++i)
                sum[n][i] = fmaf(sum[n][i], rescale[i / 2], part[n][i]);
    }
    store(rows, sum, out, warp * MMA_M, rows_left, lane, args.v_scales[head]);
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
        .name = "ch16_fp8_mma",
        .title = "FP8 tensor cores",
        .chapter = 16,
        .kernel = (const void *)attention,
        .threads = THREADS,
        .p = {P_E4M3, P_OFFSET, false}, // row sums are of P before its rounding
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
