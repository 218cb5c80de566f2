// Tangled from chapters/17-hopper-half.md; edit that, then `make tangle`.

// Chapter 17: Hopper's engines, and P in half.
//
//   make chapter17 && ./lab17
//
// Q K by wgmma in E4M3, P V by wgmma in half. A warpgroup of producers keeps
// the TMA loading tiles of K and V, and makes V's codes halves; one to three
// warpgroups of consumers multiply with wgmma, Q and P in registers. A row's
// maximum is looked for where it begins, and where P no longer fits a half.

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the sizes ----
constexpr int WARPGROUP = 128; // threads
constexpr int MMA_M = 64;      // rows of a wgmma, one warpgroup's
constexpr int MMA_K = 32;      // bytes of a row that it takes at a time
constexpr int HALF_K = 16;     // and halves
constexpr int HALF_ROW = HEAD_DIM * (int)sizeof(__half); // bytes of V's row
static_assert(HALF_ROW == 128, "a row of V is the swizzle's");

// What the launch chooses by the shape.
template <int ROW_GROUPS_, int KEY_GROUPS_, int BLOCK_N_, int STAGES_>
struct tiling {
    static constexpr int ROW_GROUPS = ROW_GROUPS_; // warpgroups, of 64 rows
    static constexpr int KEY_GROUPS = KEY_GROUPS_; // that share the keys
    static constexpr int BLOCK_N = BLOCK_N_;       // keys of a tile
    static constexpr int STAGES = STAGES_;         // tiles in shared memory
    static constexpr int CONSUMERS = ROW_GROUPS * KEY_GROUPS;
    static constexpr int BLOCK_M = MMA_M * ROW_GROUPS; // query rows of a CTA
    static constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
    // setmaxnreg: what a producer gives up, a consumer gets.
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 40;
    static constexpr int CONSUMER_REGISTERS =
        CONSUMERS == 1 ? 208 : CONSUMERS == 2 ? 232 : 160;

    typedef float scores[BLOCK_N / 2];            // [64][BLOCK_N], of a lane
    typedef uint32_t halves[BLOCK_N / HALF_K][4]; // the same, as operand A

    static_assert(CONSUMERS <= 3, "more do not get their registers");
    static_assert(WARPGROUP * (PRODUCER_REGISTERS +
                               CONSUMERS * CONSUMER_REGISTERS) <= 65536,
                  "registers of an SM");
};

// ---- Lay out shared memory ----
template <class T> struct alignas(1024) tiles {
    __half vh[T::STAGES][T::BLOCK_N * HEAD_DIM];  // [BLOCK_N][HEAD_DIM]
    uint8_t k[T::STAGES][T::BLOCK_N * HEAD_DIM];  // [BLOCK_N][HEAD_DIM]
    uint8_t v[T::STAGES][T::BLOCK_N * HEAD_DIM];  // [BLOCK_N][HEAD_DIM]
    float other[T::KEY_GROUPS - 1][HEAD_DIM / 2 + 4][WARPGROUP]; // see merge()
    uint64_t k_full[T::STAGES];   // the TMA has brought K
    uint64_t v_full[T::STAGES];   // the TMA has brought V
    uint64_t empty[T::STAGES];    // K's scores are there, V is half
    uint64_t vh_full[T::STAGES];  // V is half
    uint64_t vh_empty[T::STAGES]; // and multiplied
};

// ---- Synchronise with mbarriers ----
__device__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// Begin with an mbarrier
__device__ void barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

__device__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(shared_address(barrier))
                 : "memory");
}

// Arrives, and makes the phase wait for so many bytes of the TMA as well.
__device__ void barrier_expect(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits for the end of the phase with this parity.
__device__ void barrier_wait(uint64_t *barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}"
                 :
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
}

// ---- Arrive for a warp ----

// A warp's arrival, after all its lanes.
__device__ void release(uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        barrier_arrive(barrier);
}

// The parity of the phase in which a stage's n-th tile passes a barrier.
template <class T> __device__ int parity(int n) { return n / T::STAGES & 1; }

// Has the TMA copy 128 rows of a head, rows past the end as zeros, and their
// bytes counted at the barrier. The tensor map says how they are swizzled.
__device__ void tma_load(void *to, const CUtensorMap *map, uint64_t *barrier,
                         int row, int head)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 :
                 : "r"(shared_address(to)), "l"(map), "r"(0), "r"(row),
                   "r"(head), "r"(shared_address(barrier))
                 : "memory");
}

// What ordinary stores wrote is for the tensor cores and the TMA from here on.
__device__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// ---- Name the registers of a product ----
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i)                                                          \
    FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

// D (+)= A B: A [64][32] in registers, B [128][32] in shared memory, codes of
// E4M3; D [64][128] float. Only queued: see wgmma_wait().
__device__ void multiply(float (&d)[64], const uint32_t (&a)[4],
                         uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32"
                 ".f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
                 "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
                 "%57, %58, %59, %60, %61, %62, %63"
                 "}, {%64, %65, %66, %67}, %68, add, 1, 1;\n"
                 "}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"((int)add));
}

// The same with B [64][32] and D [64][64].
__device__ void multiply(float (&d)[32], const uint32_t (&a)[4],
                         uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32"
                 ".f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, add, 1, 1;\n"
                 "}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"((int)add));
}

// D += A B: A [64][16] in registers, B [16][64] in shared memory, halves; D
// [64][64] float. The last 1 says that B is transposed: a row has all columns
// of one k.
__device__ void multiply_halves(float (&d)[HEAD_DIM / 2],
                                const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16"
                 ".f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// ---- Queue products and wait for them ----

// Registers that were written may be multiplied from here on.
__device__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

// What was queued since the last time is a group.
__device__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

// Waits until no more than the last GROUPS groups are under way.
template <int GROUPS> __device__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;"
                 :
                 : "n"(GROUPS)
                 : "memory");
}

// ---- Keep registers where they are ----

// The compiler does not see that a queued product reads and writes its
// registers until the wait: this keeps it from moving their uses past here.
template <int N> __device__ void pin(float (&registers)[N])
{
    for (int i = 0; i < N; ++i)
        asm volatile("" : "+f"(registers[i]) : : "memory");
}

template <int N> __device__ void pin(uint32_t (&registers)[N][4])
{
    for (int i = 0; i < 4 * N; ++i)
        asm volatile("" : "+r"(registers[i / 4][i % 4]) : : "memory");
}

// ---- Describe an operand in shared memory ----

// Says where a tile of B lies: rows of ROW bytes, swizzled over as much.
template <int ROW> __device__ uint64_t describe(const void *tile)
{
    constexpr uint64_t SWIZZLE = ROW == 128 ? 1 : 2; // 128 or 64 bytes
    static_assert(ROW == 128 || ROW == 64, "the swizzle is the row");
    uint64_t start = shared_address(tile) >> 4;
    uint64_t eight_rows = 8 * ROW >> 4;
    return start | (uint64_t)1 << 16 | eight_rows << 32 | SWIZZLE << 62;
}

// The same, n times BYTES further on.
template <int BYTES> __device__ uint64_t advance(uint64_t tile, int n)
{
    return tile + (uint64_t)(n * (BYTES >> 4));
}

// ---- Load a key tile ----
template <class T>
__device__ void load(tiles<T> &t, const CUtensorMap *k_map,
                     const CUtensorMap *v_map, int n, int tile, int head)
{
    constexpr int BYTES = T::BLOCK_N * HEAD_DIM;
    int stage = n % T::STAGES;
    barrier_expect(&t.k_full[stage], BYTES);
    tma_load(t.k[stage], k_map, &t.k_full[stage], tile * T::BLOCK_N, head);
    barrier_expect(&t.v_full[stage], BYTES);
    tma_load(t.v[stage], v_map, &t.v_full[stage], tile * T::BLOCK_N, head);
}

// Codes 2 i and 2 i + 1 of a word of four, as two halves.
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

// A lane takes sixteen columns of a row. Of each four the first two go to one
// chunk of 16 bytes and the others to the next, so that a lane of the output
// has columns 4 i ... 4 i + 3.
template <class T> __device__ void make_half(const uint8_t *v, __half *vh)
{
    int thread = threadIdx.x, c = thread % 4;
#pragma unroll
    for (int i = 0; i < T::BLOCK_N / 32; ++i) {
        int row = 32 * i + thread / 4;
        uint4 codes =
            *(const uint4 *)(v + row * HEAD_DIM + (c ^ row / 2 % 4) * 16);
        __half *to = vh + row * HEAD_DIM;

        // Store sixteen codes as halves
        uint4 low = {two_halves<0>(codes.x), two_halves<0>(codes.y),
                     two_halves<0>(codes.z), two_halves<0>(codes.w)};
        uint4 high = {two_halves<1>(codes.x), two_halves<1>(codes.y),
                      two_halves<1>(codes.z), two_halves<1>(codes.w)};
        *(uint4 *)(to + ((2 * c) ^ row % 8) * 8) = low;
        *(uint4 *)(to + ((2 * c + 1) ^ row % 8) * 8) = high;
    }
}

template <class T>
__device__ void produce(tiles<T> &t, const CUtensorMap *k_map,
                        const CUtensorMap *v_map, int items, int tiles_m,
                        int tiles_n)
{
    int mine = (items - (int)blockIdx.x - 1) / (int)gridDim.x + 1;
    int all = mine * tiles_n; // key tiles of this CTA's items
    int to_load = 1, tile = 1, item = blockIdx.x; // the first one is under way

    // Load the next key tile of this CTA's items
    auto load_next = [&] {
        if (tile == tiles_n) {
            tile = 0;
            item += gridDim.x;
        }
        load(t, k_map, v_map, to_load++, tile++, item / tiles_m);
    };

    if (threadIdx.x == 0)
        while (to_load < T::STAGES && to_load < all)
            load_next();
    for (int n = 0; n < all; ++n) {
        int stage = n % T::STAGES;

        // Wait until the half tile has been multiplied
        if (n >= T::STAGES)
            barrier_wait(&t.vh_empty[stage], parity<T>(n) ^ 1);

        // Make a tile half, and say so
        barrier_wait(&t.v_full[stage], parity<T>(n));
        make_half<T>(t.v[stage], t.vh[stage]);
        proxy_fence();
        release(&t.empty[stage]);
        release(&t.vh_full[stage]);

        // Load into the stage before
        if (threadIdx.x == 0 && n > 0 && to_load < all) {
            int before = (n - 1) % T::STAGES; // the stage of tile to_load
            barrier_wait(&t.empty[before], parity<T>(n - 1));
            load_next();
        }
        __syncwarp();
    }
}

// ---- Choose the scale of P ----
constexpr float LOG2_E = 1.44269504f;
constexpr float NOTHING = 1e30f;     // base before the first key
constexpr float TOP = 3;             // P is 2^TOP where a base is chosen
constexpr float LARGEST_SUM = 32768; // of a lane's P: none overflows a half

// ---- Compute two to the power of x ----
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a lane keeps of two rows, lane / 4 and lane / 4 + 8 of its warp's 16.
struct row_state {
    float base[2]; // minus the reference, in powers of two
    float sum[2];  // of this lane's P
};

// P as wgmma wants A: an accumulator's order is that of A's halves.
template <class T>
__device__ void probabilities(typename T::halves &p, float (&sum)[2],
                              const typename T::scores &s,
                              const row_state &rows, float scale)
{
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < T::BLOCK_N / 4; ++i) {
        int h = i % 2; // of the two rows
        float p0 = exp2_approx(fmaf(s[2 * i], scale, rows.base[h]));
        float p1 = exp2_approx(fmaf(s[2 * i + 1], scale, rows.base[h]));
        sums[h][0] += p0;
        sums[h][1] += p1;
        __half2 two = __floats2half2_rn(p0, p1);
        p[i / 4][i % 4] = *(uint32_t *)&two;
    }
    sum[0] = sums[0][0] + sums[0][1];
    sum[1] = sums[1][0] + sums[1][1];
}

// ---- Mask the keys past the end ----
template <class T> __device__ void mask(typename T::scores &s, int keys_left)
{
    int first = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < T::BLOCK_N / 2; ++i)
        if (i / 4 * 8 + first + i % 2 >= keys_left)
            s[i] = -INFINITY;
}

// Chooses bases with which no P of the tile is past 2^TOP, unless those there
// are lower, and `factor`, which makes what was summed up before follow.
template <class T>
__device__ void raise(float (&factor)[2], const typename T::scores &s,
                      row_state &rows, float scale)
{
    float largest[2] = {s[0], s[2]};
#pragma unroll
    for (int i = 0; i < T::BLOCK_N / 2; ++i)
        largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[i]);
    for (int h = 0; h < 2; ++h) {
        float m = largest[h];
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
        float base = fminf(rows.base[h], TOP - m * scale);
        factor[h] = exp2_approx(base - rows.base[h]); // 0 on the first
        rows.base[h] = base;
        rows.sum[h] *= factor[h];
    }
}

// ---- Queue the products of a tile ----

// Queues Q K for a tile: s = [64][BLOCK_N].
template <class T>
__device__ void queue_scores(typename T::scores &s,
                             const uint32_t (&q)[HEAD_DIM / MMA_K][4],
                             uint64_t k)
{
    pin(s);
    wgmma_fence();
    multiply(s, q[0], k, false);
    multiply(s, q[1], advance<MMA_K>(k, 1), true);
    wgmma_commit();
}

// Queues P V for a tile: out += [64][64], sixteen rows of V at a time.
template <class T>
__device__ void queue_output(float (&out)[HEAD_DIM / 2],
                             typename T::halves &p, uint64_t vh)
{
    pin(out);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::BLOCK_N / HALF_K; ++i)
        multiply_halves(out, p[i], advance<HALF_K * HALF_ROW>(vh, i));
    wgmma_commit();
}

// A lane's registers of Q, as wgmma wants A: [64][64].
__device__ void load_q(uint32_t (&q)[HEAD_DIM / MMA_K][4],
                       const attention_args &args, int row, size_t head_at)
{
    for (int i = 0; i < 2 * 4; ++i) {
        int r = row + i % 2 * 8;
        int d = i / 4 * MMA_K + i / 2 % 2 * 16 + threadIdx.x % 4 * 4;
        q[i / 4][i % 4] = 0; // rows past the end are zeros
        if (r < args.shape.seq_len)
            q[i / 4][i % 4] =
                *(const uint32_t *)(args.q + head_at + r * HEAD_DIM + d);
    }
}

// Adds up what the warpgroups of a row's keys have, in the first of them.
// Returns whether this is the first.
template <class T>
__device__ bool merge(tiles<T> &t, float (&out)[HEAD_DIM / 2], row_state &rows,
                      int key_group)
{
    constexpr int STATE = HEAD_DIM / 2;
    int lane = threadIdx.x % WARPGROUP;
    if (key_group > 0) {
        // Leave a part in shared memory
        float(*to)[WARPGROUP] = t.other[key_group - 1];
        #pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            to[i][lane] = out[i];
        for (int h = 0; h < 2; ++h) {
            to[STATE + h][lane] = rows.base[h];
            to[STATE + 2 + h][lane] = rows.sum[h];
        }
    }
    asm volatile("barrier.cta.sync 2, %0;"
                 :
                 : "n"(T::CONSUMERS * WARPGROUP)
                 : "memory");
    if (key_group > 0)
        return false;
    for (int g = 0; g < T::KEY_GROUPS - 1; ++g) {
        // Add another part
        float(*from)[WARPGROUP] = t.other[g];
        float ours[2], theirs[2];
        for (int h = 0; h < 2; ++h) {
            float their_base = from[STATE + h][lane];
            float base = fminf(rows.base[h], their_base);
            ours[h] = exp2_approx(base - rows.base[h]);
            theirs[h] = exp2_approx(base - their_base);
            rows.sum[h] =
                rows.sum[h] * ours[h] + from[STATE + 2 + h][lane] * theirs[h];
            rows.base[h] = base;
        }
        #pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            out[i] = out[i] * ours[i / 2 % 2] + from[i][lane] * theirs[i / 2 % 2];
    }
    return true;
}

// Normalises and stores [64][64]: a lane has four columns that follow each
// other, 16 b + 4 (lane % 4), of two rows, since V's columns lie so.
__device__ void store(const float (&out)[HEAD_DIM / 2], const row_state &rows,
                      __half *to, int row, int seq_len, float v_scale)
{
    int lane = threadIdx.x % 32;
    for (int h = 0; h < 2; ++h) {
        float sum = rows.sum[h];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        float norm = __fdividef(v_scale, sum);
        int r = row + 8 * h;
        if (r < seq_len)
#pragma unroll
            for (int b = 0; b < HEAD_DIM / 16; ++b) {
                // Write four columns
                const float *first = &out[8 * b + 2 * h], *next = first + 4;
                __half2 four[2] = {__floats2half2_rn(first[0] * norm, first[1] * norm),
                                   __floats2half2_rn(next[0] * norm, next[1] * norm)};
                *(uint2 *)&to[(size_t)r * HEAD_DIM + 16 * b + lane % 4 * 4] = *(uint2 *)four;
            }
    }
}

// One query tile. `n` counts the key tiles that passed the stages before.
template <class T>
__device__ void attend(tiles<T> &t, const attention_args &args, int item,
                       int tiles_m, int tiles_n, int n)
{
    // From a shuffle, so that the compiler takes it for the same in all lanes.
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP - 1, 0);
    int key_group = T::KEY_GROUPS == 1 ? 0 : group / T::ROW_GROUPS;
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    int pair = item / tiles_m, head = pair % args.shape.heads;
    int row = item % tiles_m * T::BLOCK_M + group % T::ROW_GROUPS * MMA_M +
              16 * warp + lane / 4;
    int seq_len = args.shape.seq_len;
    size_t head_at = (size_t)pair * seq_len * HEAD_DIM;
    uint32_t q[HEAD_DIM / MMA_K][4];
    load_q(q, args, row, head_at);
    float v_scale = args.v_scales[head]; // early: it takes a while
    // In powers of two; not 0, which would let masked keys count.
    float scale = fmaxf(args.softmax_scale * args.q_scales[head] *
                            args.k_scales[head] * LOG2_E,
                        1e-30f);

    // Lay out the registers
    typename T::scores s;
    typename T::halves p, p2;
    float out[HEAD_DIM / 2] = {}; // [64][64]
    row_state rows = {{NOTHING, NOTHING}, {0, 0}};
    float sum[2];    // of the lane's P in one tile
    float factor[2]; // what a rise of the reference does to the output so far
    uint64_t k_tiles = describe<HEAD_DIM>(t.k);
    uint64_t vh_tiles = describe<HALF_ROW>(t.vh);

    // Start and finish products
    auto scores_of = [&](int tile) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.k_full[stage], parity<T>(n + tile));
        queue_scores<T>(s, q, advance<T::BLOCK_N * HEAD_DIM>(k_tiles, stage));
    };
    auto output_of = [&](int tile, typename T::halves &now) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.vh_full[stage], parity<T>(n + tile));
        queue_output<T>(out, now,
                        advance<T::BLOCK_N * HALF_ROW>(vh_tiles, stage));
    };
    auto output_done = [&](int tile, typename T::halves &used) {
        wgmma_wait<0>();
        pin(out);
        pin(used);
        release(&t.vh_empty[(n + tile) % T::STAGES]);
    };

    // P V of this tile, while the next one's scores become P.
    int tile = key_group;
    auto step = [&](typename T::halves &now, typename T::halves &then) {
        int next = tile + T::KEY_GROUPS, keys_left = seq_len - next * T::BLOCK_N;
        scores_of(next);
        output_of(tile, now);

        // Wait for the scores
        wgmma_wait<1>(); // the scores are there
        pin(s);
        release(&t.empty[(n + next) % T::STAGES]);

        if (keys_left < T::BLOCK_N)
            mask<T>(s, keys_left);
        probabilities<T>(then, sum, s, rows, scale);

        // Look whether P fits
        bool fits = sum[0] <= LARGEST_SUM && sum[1] <= LARGEST_SUM;
        bool rose = __any_sync(0xffffffff, !fits);
        if (rose) { // seldom; and a branch, so that all of P is there before the wait
            raise<T>(factor, s, rows, scale);
            probabilities<T>(then, sum, s, rows, scale);
        }

        output_done(tile, now);

        // Let the output follow
        if (rose)
        #pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; ++i)
                out[i] *= factor[i / 2 % 2];
        rows.sum[0] += sum[0];
        rows.sum[1] += sum[1];

        tile = next;
    };

    // Go through the key tiles
    if (tile < tiles_n) {
        scores_of(tile);
        wgmma_wait<0>();
        pin(s);
        release(&t.empty[(n + tile) % T::STAGES]);
        if (seq_len - tile * T::BLOCK_N < T::BLOCK_N)
            mask<T>(s, seq_len - tile * T::BLOCK_N);
        raise<T>(factor, s, rows, scale);
        probabilities<T>(p, sum, s, rows, scale);
        rows.sum[0] = sum[0];
        rows.sum[1] = sum[1];
        for (;;) { // p and p2 take turns
            if (tile + T::KEY_GROUPS >= tiles_n) {
                output_of(tile, p);
                output_done(tile, p);
                break;
            }
            step(p, p2);
            if (tile + T::KEY_GROUPS >= tiles_n) {
                output_of(tile, p2);
                output_done(tile, p2);
                break;
            }
            step(p2, p);
        }
    }

    if (T::KEY_GROUPS == 1 || merge(t, out, rows, key_group))
        store(out, rows, (__half *)args.out + head_at, row, seq_len, v_scale);
}

// ---- Divide a CTA into roles ----
template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
attention(const __grid_constant__ attention_args args,
          const __grid_constant__ CUtensorMap k_map,
          const __grid_constant__ CUtensorMap v_map)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    tiles<T> &t = *(tiles<T> *)memory;
    int tiles_m = (args.shape.seq_len + T::BLOCK_M - 1) / T::BLOCK_M;
    int tiles_n = (args.shape.seq_len + T::BLOCK_N - 1) / T::BLOCK_N;
    int items = tiles_m * args.shape.batch * args.shape.heads;

    // Begin with the barriers and the first tile
    if (threadIdx.x == 0) {
        for (int i = 0; i < T::STAGES; ++i) {
            barrier_init(&t.k_full[i], 1);
            barrier_init(&t.v_full[i], 1);
            barrier_init(&t.empty[i], 4 + 4 * T::ROW_GROUPS); // warps
            barrier_init(&t.vh_full[i], 4);
            barrier_init(&t.vh_empty[i], 4 * T::ROW_GROUPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        load(t, &k_map, &v_map, 0, 0, blockIdx.x / tiles_m);
    }
    __syncthreads(); // the barriers can be waited for

    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"
                     :
                     : "n"(T::PRODUCER_REGISTERS));
        produce(t, &k_map, &v_map, items, tiles_m, tiles_n);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;"
                     :
                     : "n"(T::CONSUMER_REGISTERS));

        // Compute this CTA's items
        int n = 0;
        for (int item = blockIdx.x; item < items; item += gridDim.x) {
            attend(t, args, item, tiles_m, tiles_n, n);
            n += tiles_n;
            if (T::KEY_GROUPS > 1)
                break; // merge() has no second round
        }
    }
}

// ---- Describe K or V to the TMA ----

// cuTensorMapEncodeTiled is the driver's; the runtime knows where it is.
typedef CUresult (*encode_function)(
    CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill);

// Describes K or V [pairs][seq_len][HEAD_DIM] to the TMA, in boxes of BLOCK_N
// rows of one head, 64 bytes swizzled.
template <int BLOCK_N>
static cudaError_t describe_tensor(CUtensorMap *map, const uint8_t *codes,
                                   const struct shape *shape)
{
    // Find the driver's function
    static encode_function encode;
    if (!encode) {
        cudaDriverEntryPointQueryResult found;
        cudaError_t error = cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", (void **)&encode, 12000,
            cudaEnableDefault, &found);
        if (error || !encode)
            return launch_refused(error ? error : cudaErrorNotSupported,
                                  "the driver has no tensor maps: %d",
                                  (int)found);
    }

    // Encode the tensor map
    cuuint64_t pairs = (cuuint64_t)shape->batch * shape->heads;
    cuuint64_t rows = shape->seq_len;
    cuuint64_t size[3] = {HEAD_DIM, rows, pairs};
    cuuint64_t strides[2] = {HEAD_DIM, rows * HEAD_DIM}; // in bytes
    cuuint32_t box[3] = {HEAD_DIM, BLOCK_N, 1}, steps[3] = {1, 1, 1};
    CUresult result = encode(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)codes, size, strides,
        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return launch_refused(cudaErrorInvalidValue,
                              "cuTensorMapEncodeTiled refused: CUresult %d",
                              (int)result);
    return cudaSuccess;
}

// ---- Launch one tiling ----
template <class T>
static cudaError_t launch_as(const struct attention_args *args, size_t items,
                             int ctas, cudaStream_t stream)
{
    // Ask for more shared memory
    static bool raised; // the limit of a CTA's shared memory
    if (!raised) {
        cudaError_t error = cudaFuncSetAttribute(
            attention<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
            sizeof(tiles<T>));
        if (error)
            return error;
        raised = true;
    }

    CUtensorMap k_map, v_map;
    cudaError_t error =
        describe_tensor<T::BLOCK_N>(&k_map, args->k, &args->shape);
    if (!error)
        error = describe_tensor<T::BLOCK_N>(&v_map, args->v, &args->shape);
    if (error)
        return error;
    if (T::KEY_GROUPS > 1 || items < (size_t)ctas)
        ctas = (int)items;
    attention<T><<<ctas, T::THREADS, sizeof(tiles<T>), stream>>>(*args, k_map,
                                                                 v_map);
    return cudaGetLastError();
}

// ---- Name the tilings ----
typedef tiling<1, 1, 128, 2> short_keys; // one tile of keys
typedef tiling<1, 2, 128, 4> few_rows;   // too few rows for all SMs
typedef tiling<2, 1, 128, 4> two_groups;
typedef tiling<3, 1, 64, 6> three_groups;

// ---- Choose a tiling by the shape ----

// Query tiles of a tiling, and how many rows the busiest SM has of them.
template <class T>
static size_t busiest(size_t pairs, int seq_len, int sms, size_t *items)
{
    *items = pairs * ((seq_len + T::BLOCK_M - 1) / T::BLOCK_M);
    return (*items + sms - 1) / sms * T::BLOCK_M;
}

static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    int device, sms;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount,
                                       device);
    if (error)
        return error;
    size_t pairs = (size_t)args->shape.batch * args->shape.heads;
    size_t items, two, three;
    int seq_len = args->shape.seq_len;
    busiest<short_keys>(pairs, seq_len, sms, &items);
    if (items > INT32_MAX / 2)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%zu query tiles, at most 2^30", items);
    if (items <= (size_t)sms)
        return seq_len > few_rows::BLOCK_N
                   ? launch_as<few_rows>(args, items, sms, stream)
                   : launch_as<short_keys>(args, items, sms, stream);
    if (busiest<two_groups>(pairs, seq_len, sms, &two) <
        busiest<three_groups>(pairs, seq_len, sms, &three))
        return launch_as<two_groups>(args, two, sms, stream);
    return launch_as<three_groups>(args, three, sms, stream);
}

// ---- Hand the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch17_hopper_half",
        .title = "Hopper, P in half",
        .chapter = 17,
        .kernel = (const void *)attention<three_groups>,
        .threads = three_groups::THREADS,
        .dynamic_shared_bytes = sizeof(tiles<three_groups>),
        .tolerance = 4e-3, // scores are sums of thirteen bits
        .tensor_flops_share = 1,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
