// Tangled from chapters/20-mask.md; edit that, then `make tangle`.

// Chapter 20: a causal mask on Hopper, and P in half.
//
//   make chapter20 && build/ch20_half
//
// Chapter 17's kernel, for rows that see different numbers of keys. CTAs get
// the longest rows first, in reverse order in every other round, so that all
// get about as much work.

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the sizes ----
constexpr int WARPGROUP = 128; // threads
constexpr int MMA_M = 64;      // rows that a warpgroup's wgmma computes
constexpr int MMA_N = 64;      // columns of a wgmma's result
constexpr int MMA_K = 32;      // bytes of a row that one wgmma takes
constexpr int HALF_K = 16;     // keys that a product of halves takes
constexpr int BLOCK_N = 128;   // keys of a tile
constexpr int HALF_ROW = HEAD_DIM * (int)sizeof(__half); // bytes of V's row
static_assert(HALF_ROW == 128, "a row of V is the swizzle's");

typedef float scores[BLOCK_N / 2];            // a lane's part of [64][BLOCK_N]
typedef uint32_t halves[BLOCK_N / HALF_K][4]; // the lane's P, as operands A

// The sizes that the launch chooses by the shape.
template <int ROW_GROUPS_, int KEY_GROUPS_, int STAGES_> struct tiling {
    static constexpr int ROW_GROUPS = ROW_GROUPS_; // of 64 query rows each
    static constexpr int KEY_GROUPS = KEY_GROUPS_; // parts of a row's keys
    static constexpr int STAGES = STAGES_;         // tiles in shared memory
    static constexpr int CONSUMERS = ROW_GROUPS * KEY_GROUPS;
    static constexpr int BLOCK_M = MMA_M * ROW_GROUPS; // query rows of a CTA
    static constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
    // Three consumers have no registers for P beside the scores.
    static constexpr bool IN_PLACE = CONSUMERS == 3;
    // By setmaxnreg consumers get the registers that the producer gives up.
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 40;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : 232;

    static_assert(CONSUMERS == 2 || CONSUMERS == 3, "their registers");
    static_assert(WARPGROUP * (PRODUCER_REGISTERS +
                               CONSUMERS * CONSUMER_REGISTERS) <= 65536,
                  "registers of an SM");
};

// ---- Lay out shared memory ----
template <class T> struct alignas(1024) tiles {
    __half vh[T::STAGES][BLOCK_N * HEAD_DIM]; // [BLOCK_N][HEAD_DIM]
    uint8_t k[T::STAGES][BLOCK_N * HEAD_DIM]; // [BLOCK_N][HEAD_DIM]
    uint8_t v[T::STAGES][BLOCK_N * HEAD_DIM]; // [BLOCK_N][HEAD_DIM]
    uint8_t q[2][T::BLOCK_M * HEAD_DIM];      // this query tile and the next
    float other[T::KEY_GROUPS - 1][HEAD_DIM / 2 + 4][WARPGROUP]; // see merge()
    uint64_t q_full[2];           // the TMA has brought Q
    uint64_t q_empty[2];          // all scores of this Q are computed
    uint64_t k_full[T::STAGES];   // the TMA has brought K
    uint64_t v_full[T::STAGES];   // the TMA has brought V
    uint64_t empty[T::STAGES];    // K has been used, V is in vh: load again
    uint64_t vh_full[T::STAGES];  // V is converted, in vh
    uint64_t vh_empty[T::STAGES]; // the half V has been multiplied
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

// Arrives, and makes the phase wait for `bytes` bytes of the TMA as well.
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

// Arrives for the warp, after all of its lanes.
__device__ void release(uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        barrier_arrive(barrier);
}

// The parity of the phase in which the CTA's key tile n passes a barrier of its
// stage.
template <class T> __device__ int parity(int n) { return n / T::STAGES & 1; }

// Has the TMA copy a box of a head's rows, with zeros for rows past the end,
// and count its bytes at the barrier. The map says how rows are swizzled.
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

// Makes earlier ordinary stores visible to the tensor cores and the TMA.
__device__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// ---- Name the registers of a product ----
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i)                                                          \
    FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

// D = A B, or D += A B if `add`: A [64][32], B [64][32], codes of E4M3 in
// shared memory; D [64][64] float. Only queues it: see wgmma_wait().
__device__ void multiply(float *d, uint64_t a, uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32"
                 ".f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, add, 1, 1;\n"
                 "}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16)
                 : "l"(a), "l"(b), "r"((int)add));
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

// From here on products may read registers that were written before.
__device__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

// Makes a group of the products queued since the last commit.
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

// The compiler does not see that a queued product reads and writes registers
// until the wait. It moves no use of the registers past this call.
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

// The descriptor of a tile: rows of ROW bytes, with a swizzle of ROW bytes.
template <int ROW> __device__ uint64_t describe(const void *tile)
{
    constexpr uint64_t SWIZZLE = ROW == 128 ? 1 : 2; // 128 or 64 bytes
    static_assert(ROW == 128 || ROW == 64, "the swizzle is the row");
    uint64_t start = shared_address(tile) >> 4;
    uint64_t eight_rows = 8 * ROW >> 4;
    return start | (uint64_t)1 << 16 | eight_rows << 32 | SWIZZLE << 62;
}

// The descriptor of what lies n * BYTES further on.
template <int BYTES> __device__ uint64_t advance(uint64_t tile, int n)
{
    return tile + (uint64_t)(n * (BYTES >> 4));
}

// ---- Find the CTA's next item ----
struct work {
    int pair, m; // the head, counted through the batch, and its row tile
    int tiles_n; // key tiles that its rows see; 0: this CTA has no more items
};

// This CTA's i-th item.
template <class T> __device__ work find(const attention_args &args, int i)
{
    int pairs = args.shape.batch * args.shape.heads;
    int seq_len = args.shape.seq_len;
    int tiles_m = (seq_len + T::BLOCK_M - 1) / T::BLOCK_M;
    bool back = i % 2; // there and back
    int item = i * gridDim.x + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    int level = (unsigned)item / (unsigned)pairs; // level 0 is the heaviest
    work w = {item - level * pairs, tiles_m - 1 - level, 0};
    if (w.m >= 0) {
        int keys = min(seq_len, (w.m + 1) * T::BLOCK_M);
        w.tiles_n = (keys + BLOCK_N - 1) / BLOCK_N;
    }
    return w;
}

// ---- Load a tile ----
template <class T>
__device__ void load(tiles<T> &t, const CUtensorMap *k_map,
                     const CUtensorMap *v_map, int n, int tile, int head)
{
    constexpr int BYTES = BLOCK_N * HEAD_DIM;
    int stage = n % T::STAGES;
    barrier_expect(&t.k_full[stage], BYTES);
    tma_load(t.k[stage], k_map, &t.k_full[stage], tile * BLOCK_N, head);
    barrier_expect(&t.v_full[stage], BYTES);
    tma_load(t.v[stage], v_map, &t.v_full[stage], tile * BLOCK_N, head);
}

// Loads the queries of a CTA's i-th item.
template <class T>
__device__ void load_q(tiles<T> &t, const CUtensorMap *q_map, int i,
                       const work &w)
{
    barrier_expect(&t.q_full[i % 2], T::BLOCK_M * HEAD_DIM);
    tma_load(t.q[i % 2], q_map, &t.q_full[i % 2], w.m * T::BLOCK_M, w.pair);
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

// As in chapter 17; but the producer's loop has no registers for two rounds.
template <int THREADS> __device__ void make_half(const uint8_t *v, __half *vh)
{
    int thread = threadIdx.x, c = thread % 4;
#pragma unroll 1
    for (int i = 0; i < 4 * BLOCK_N / THREADS; ++i) {
        int row = THREADS / 4 * i + thread / 4;
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
__device__ void produce(tiles<T> &t, const attention_args &args,
                        const CUtensorMap *q_map, const CUtensorMap *k_map,
                        const CUtensorMap *v_map, work w)
{
    work l = w; // the CTA's item `item`, whose tiles are being loaded
    int item = 0, tile = 1; // tile 0 is under way

    // Load the CTA's n-th key tile, if there is one
    auto load_next = [&](int n) {
        if (tile == l.tiles_n) {
            tile = 0;
            l = find<T>(args, ++item);
        }
        if (l.tiles_n > 0)
            load(t, k_map, v_map, n, tile++, l.pair);
    };

    if (threadIdx.x == 0)
        for (int n = 1; n < T::STAGES && l.tiles_n > 0; ++n)
            load_next(n);
    __syncwarp();
    int i = 1, left = w.tiles_n; // key tiles left of the CTA's item i - 1
    for (int n = 0; left > 0; ++n) {
        int stage = n % T::STAGES;

        // Wait until the half tile has been multiplied
        if (n >= T::STAGES)
            barrier_wait(&t.vh_empty[stage], parity<T>(n) ^ 1);

        // Make a tile half, and say so
        barrier_wait(&t.v_full[stage], parity<T>(n));
        make_half<WARPGROUP>(t.v[stage], t.vh[stage]);
        proxy_fence();
        release(&t.empty[stage]);
        release(&t.vh_full[stage]);

        // Go on to the next item, and load its queries
        if (--left == 0) {
            work next = find<T>(args, i);
            left = next.tiles_n;
            if (threadIdx.x == 0 && left > 0) {
                if (i > 1)
                    barrier_wait(&t.q_empty[i % 2], i / 2 + 1 & 1);
                load_q(t, q_map, i, next);
            }
            ++i;
        }

        // Load into the stage before
        if (threadIdx.x == 0 && n > 0 && l.tiles_n > 0) {
            int before = (n - 1) % T::STAGES; // the stage of the tile to load
            barrier_wait(&t.empty[before], parity<T>(n - 1));
            load_next(n - 1 + T::STAGES);
        }

        __syncwarp();
    }
}

// ---- Choose the scale of P ----
constexpr float LOG2_E = 1.44269504f;
constexpr float NOTHING = 1e30f;     // base before the first key
constexpr float TOP = -4;            // a new base makes the largest P 2^TOP
constexpr float LARGEST_SUM = 32768; // of a lane's P, so that each fits a half

// ---- Compute two to the power of x ----
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// What a lane keeps of two rows, lane / 4 and lane / 4 + 8 of its warp's 16.
struct row_state {
    float base[2]; // minus the reference, as an exponent of 2
    float sum[2];  // of this lane's P
};

// Sixteen keys of P as wgmma wants A: an accumulator's order is A's.
__device__ void make_halves(uint32_t (&p)[4], const float *floats)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        __half2 two = __floats2half2_rn(floats[2 * i], floats[2 * i + 1]);
        p[i] = *(uint32_t *)&two;
    }
}

// Makes P in place of the scores, or as halves in registers of its own, and
// adds it up: two sums for each of the two rows.
template <bool IN_PLACE>
__device__ void probabilities(halves &p, scores &s, float (&sum)[4],
                              const row_state &rows, float scale)
{
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
#pragma unroll
    for (int j = 0; j < BLOCK_N / HALF_K; ++j) {
        float x[HALF_K / 2]; // the lane's P of sixteen keys
#pragma unroll
        for (int i = 0; i < HALF_K / 2; ++i) {
            x[i] = exp2_approx(
                fmaf(s[HALF_K / 2 * j + i], scale, rows.base[i / 2 % 2]));
            sum[i % 4] += x[i];
            if (IN_PLACE)
                s[HALF_K / 2 * j + i] = x[i];
        }
        if (!IN_PLACE)
            make_halves(p[j], x);
    }
}

// ---- Ask the whole warpgroup ----

// Named barriers: one for merge(); from TURN on and from VOTE on, one for each
// warpgroup.
constexpr int MERGE = 2, TURN = 3, VOTE = 6;

// Whether `so` is true in any thread of the warpgroup.
__device__ bool any_of_group(bool so, int group)
{
    int any;
    asm volatile("{\n"
                 ".reg .pred so, any;\n"
                 "setp.ne.b32 so, %1, 0;\n"
                 "barrier.cta.red.or.pred any, %2, %3, so;\n"
                 "selp.b32 %0, 1, 0, any;\n"
                 "}"
                 : "=r"(any)
                 : "r"((int)so), "r"(VOTE + group), "n"(WARPGROUP)
                 : "memory");
    return any;
}

// ---- Take turns ----

// Waits for this warpgroup's turn to queue products.
template <class T> __device__ void take_turn(int group)
{
    if (T::ROW_GROUPS > 1)
        asm volatile("barrier.cta.sync %0, %1;"
                     :
                     : "r"(TURN + group), "n"(2 * WARPGROUP)
                     : "memory");
}

// Passes the turn on to the next warpgroup.
template <class T> __device__ void give_turn(int group)
{
    if (T::ROW_GROUPS > 1)
        asm volatile("barrier.cta.arrive %0, %1;"
                     :
                     : "r"(TURN + (group + 1) % T::ROW_GROUPS),
                       "n"(2 * WARPGROUP)
                     : "memory");
}

// Masks scores from register FROM on. last: the last key of the tile that the
// lane's first row sees; its second row sees 8 keys more.
template <int FROM> __device__ void mask(float (&s)[BLOCK_N / 2], int last)
{
    int limit = last - (int)(threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = FROM; i < BLOCK_N / 2; ++i)
        if (i / 4 * 8 + i % 2 - i / 2 % 2 * 8 > limit)
            s[i] = -INFINITY;
}

// Lowers bases until no P of the tile is past 2^TOP. `factor` rescales what was
// summed up with the old bases.
__device__ void raise(float (&factor)[2], const scores &s, row_state &rows,
                      float scale)
{
    float largest[2] = {s[0], s[2]};
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i)
        largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[i]);
    for (int h = 0; h < 2; ++h) {
        float m = largest[h];
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
        float base = fminf(rows.base[h], TOP - m * scale);
        factor[h] = exp2_approx(base - rows.base[h]); // 0 on the first tile
        rows.base[h] = base;
        rows.sum[h] *= factor[h];
    }
}

// ---- Queue the products of a tile ----

// Queues Q K for a tile: s becomes this lane's part of [64][BLOCK_N].
__device__ void queue_scores(scores &s, uint64_t q, uint64_t k)
{
    pin(s);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < BLOCK_N / MMA_N; ++i) {
        float *d = s + i * MMA_N / 2;
        uint64_t keys = advance<MMA_N * HEAD_DIM>(k, i);
        multiply(d, q, keys, false);
        multiply(d, advance<MMA_K>(q, 1), advance<MMA_K>(keys, 1), true);
    }
    wgmma_commit();
}

// Queues out += P V [64][64] for a tile, sixteen rows of V at a time.
__device__ void queue_output(float (&out)[HEAD_DIM / 2], halves &p,
                             uint64_t vh)
{
    pin(out);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < BLOCK_N / HALF_K; ++i)
        multiply_halves(out, p[i], advance<HALF_K * HALF_ROW>(vh, i));
    wgmma_commit();
}

// Adds up the outputs and sums of the warpgroups that share a row's keys, in
// the first of these warpgroups. Returns whether this one is the first.
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
    asm volatile("barrier.cta.sync %0, %1;"
                 :
                 : "n"(MERGE), "n"(T::CONSUMERS * WARPGROUP)
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

// Normalises and stores [64][64]: a lane has four consecutive columns, from
// 16 b + 4 (lane % 4) on, of two rows: see make_half().
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

// Computes a CTA's i-th item. `n` key tiles passed the stages before it.
template <class T>
__device__ void attend(tiles<T> &t, const attention_args &args, const work &w,
                       int i, int n)
{
    // The shuffle tells the compiler that `group` is the same in all lanes.
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP - 1, 0);
    int key_group = T::KEY_GROUPS == 1 ? 0 : group / T::ROW_GROUPS;
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    int head = w.pair % args.shape.heads;
    int row_group = group % T::ROW_GROUPS;
    int group_row = w.m * T::BLOCK_M + row_group * MMA_M;
    int row = group_row + 16 * warp + lane / 4;
    // The item's key tiles of which the warpgroup's rows see something
    int seen = min(w.tiles_n, (group_row + MMA_M - 1) / BLOCK_N + 1);
    int seq_len = args.shape.seq_len;
    size_t head_at = (size_t)w.pair * seq_len * HEAD_DIM;
    // Turns scores into exponents of 2. Not 0: a masked key's would be NaN.
    float scale = fmaxf(args.softmax_scale * args.q_scales[head] *
                            args.k_scales[head] * LOG2_E,
                        1e-30f);

    // Lay out the registers
    scores s;
    halves p, p2;                 // p2 only where P has its own registers
    float out[HEAD_DIM / 2] = {}; // [64][64]
    row_state rows = {{NOTHING, NOTHING}, {0, 0}};
    float sum[4];    // of a tile's P
    float factor[2]; // for the output so far, when the reference rises
    uint64_t q =
        describe<HEAD_DIM>(t.q[i % 2] + row_group * MMA_M * HEAD_DIM);
    uint64_t k_tiles = describe<HEAD_DIM>(t.k);
    uint64_t vh_tiles = describe<HALF_ROW>(t.vh);

    // Start and finish products
    auto scores_of = [&](int tile) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.k_full[stage], parity<T>(n + tile));
        queue_scores(s, q, advance<BLOCK_N * HEAD_DIM>(k_tiles, stage));
    };
    auto output_of = [&](int tile, halves &now) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.vh_full[stage], parity<T>(n + tile));
        queue_output(out, now, advance<BLOCK_N * HALF_ROW>(vh_tiles, stage));
    };
    auto output_done = [&](int tile, halves &used) {
        wgmma_wait<0>();
        pin(out);
        pin(used);
        release(&t.vh_empty[(n + tile) % T::STAGES]);
    };
    auto mask_end = [&](int tile) {
        if (group_row - tile * BLOCK_N < BLOCK_N - 1)
            mask<0>(s, row - tile * BLOCK_N);
    };

    // P V of this tile, while the next one's scores become P.
    int tile = key_group;
    auto step = [&](halves &now, halves &then) {
        int next = tile + T::KEY_GROUPS;
        take_turn<T>(group);
        scores_of(next);
        output_of(tile, now);
        give_turn<T>(group);

        // Wait for the scores
        wgmma_wait<1>(); // the scores are complete
        pin(s);
        if (!T::IN_PLACE) // in place, K may be needed again
            release(&t.empty[(n + next) % T::STAGES]);

        mask_end(next);
        probabilities<T::IN_PLACE>(then, s, sum, rows, scale);

        // Look whether P fits
        bool fits = sum[0] + sum[1] <= LARGEST_SUM && sum[2] + sum[3] <= LARGEST_SUM;
        bool rose = T::IN_PLACE ? any_of_group(!fits, group)
                                : __any_sync(0xffffffff, !fits);
        if (rose) { // seldom
            if (T::IN_PLACE) {
                // Multiply the scores again
                wgmma_wait<0>(); // waits for the output, too: nothing overlaps here
                scores_of(next);
                wgmma_wait<0>();
                pin(s);
                mask_end(next);
            }
            raise(factor, s, rows, scale);
            probabilities<T::IN_PLACE>(then, s, sum, rows, scale);
        }

        if (T::IN_PLACE)
            release(&t.empty[(n + next) % T::STAGES]);
        output_done(tile, now);

        // Let the output follow
        if (rose)
        #pragma unroll
            for (int j = 0; j < HEAD_DIM / 2; ++j)
                out[j] *= factor[j / 2 % 2];
        rows.sum[0] += sum[0] + sum[1];
        rows.sum[1] += sum[2] + sum[3];
        if (T::IN_PLACE)
        #pragma unroll
            for (int j = 0; j < BLOCK_N / HALF_K; ++j)
                make_halves(then[j], s + HALF_K / 2 * j);

        tile = next;
    };

    // Finish, and let the tiles go of which no row sees a key
    auto finish = [&](halves &now) {
        output_of(tile, now);
        if (T::ROW_GROUPS > 1)
            for (int unseen = seen; unseen < w.tiles_n; ++unseen) {
                take_turn<T>(group);
                give_turn<T>(group);
            }
        output_done(tile, now);

        // Say that the unseen tiles are done with
        if (T::ROW_GROUPS > 1)
            for (int unseen = seen; unseen < w.tiles_n; ++unseen) {
                int stage = (n + unseen) % T::STAGES;
                barrier_wait(&t.k_full[stage], parity<T>(n + unseen));
                release(&t.empty[stage]);
                barrier_wait(&t.vh_full[stage], parity<T>(n + unseen));
                release(&t.vh_empty[stage]);
            }
    };

    // Go through the key tiles
    barrier_wait(&t.q_full[i % 2], i / 2 & 1);
    if (tile < seen) {
        scores_of(tile);
        wgmma_wait<0>();
        pin(s);
        release(&t.empty[(n + tile) % T::STAGES]);
        mask_end(tile);
        raise(factor, s, rows, scale);
        probabilities<false>(p, s, sum, rows, scale);
        rows.sum[0] = sum[0] + sum[1];
        rows.sum[1] = sum[2] + sum[3];
        halves &second = T::IN_PLACE ? p : p2;
        for (;;) { // p and p2 take turns
            if (tile + T::KEY_GROUPS >= seen) {
                finish(p);
                break;
            }
            step(p, second);
            if (T::IN_PLACE)
                continue;
            if (tile + T::KEY_GROUPS >= seen) {
                finish(second);
                break;
            }
            step(second, p);
        }
        release(&t.q_empty[i % 2]);
    }

    if (T::KEY_GROUPS == 1 || merge(t, out, rows, key_group))
        store(out, rows, (__half *)args.out + head_at, row, seq_len,
              args.v_scales[head]);
}

// ---- Divide a CTA into roles ----
template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
attention(const __grid_constant__ attention_args args,
          const __grid_constant__ CUtensorMap q_map,
          const __grid_constant__ CUtensorMap k_map,
          const __grid_constant__ CUtensorMap v_map)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    tiles<T> &t = *(tiles<T> *)memory;
    work w = find<T>(args, 0);

    // Begin with the barriers and the first tile
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            barrier_init(&t.q_full[i], 1);
            barrier_init(&t.q_empty[i], 4 * T::CONSUMERS); // one arrival a warp
        }
        for (int i = 0; i < T::STAGES; ++i) {
            barrier_init(&t.k_full[i], 1);
            barrier_init(&t.v_full[i], 1);
            barrier_init(&t.empty[i], 4 + 4 * T::ROW_GROUPS);
            barrier_init(&t.vh_full[i], 4);
            barrier_init(&t.vh_empty[i], 4 * T::ROW_GROUPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        load_q(t, &q_map, 0, w);
        load(t, &k_map, &v_map, 0, 0, w.pair);
    }
    __syncthreads(); // all mbarriers are initialised

    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"
                     :
                     : "n"(T::PRODUCER_REGISTERS));
        produce(t, args, &q_map, &k_map, &v_map, w);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;"
                     :
                     : "n"(T::CONSUMER_REGISTERS));

        // Compute this CTA's items
        int n = 0, i = 0;
        if (threadIdx.x / WARPGROUP == T::ROW_GROUPS)
            give_turn<T>(T::ROW_GROUPS - 1); // the first group begins
        for (; w.tiles_n > 0; w = find<T>(args, i)) {
            attend(t, args, w, i++, n);
            n += w.tiles_n;
            if (T::KEY_GROUPS > 1)
                break; // t.other, which merge() uses, holds one item's sums
        }
    }
}

// ---- Compute heads of one key tile ----

// For one tile of keys: GROUPS warpgroups of 64 rows each, without producers.
template <int GROUPS> struct alignas(1024) one_tile {
    static constexpr int BLOCK_M = MMA_M * GROUPS;
    static constexpr int THREADS = WARPGROUP * GROUPS;
    __half vh[BLOCK_N * HEAD_DIM];    // [BLOCK_N][HEAD_DIM]
    uint8_t k[2][BLOCK_N * HEAD_DIM]; // of this item and the next
    uint8_t v[2][BLOCK_N * HEAD_DIM];
    uint8_t q[2][BLOCK_M * HEAD_DIM];
    uint64_t k_full[2]; // the TMA has brought Q and K
    uint64_t v_full[2]; // the TMA has brought V
};

template <int GROUPS>
__global__ void __launch_bounds__(WARPGROUP *GROUPS, 4 / GROUPS)
attention_short(const __grid_constant__ attention_args args,
                const __grid_constant__ CUtensorMap q_map,
                const __grid_constant__ CUtensorMap k_map,
                const __grid_constant__ CUtensorMap v_map)
{
    typedef one_tile<GROUPS> T;
    extern __shared__ __align__(1024) unsigned char memory[];
    T &t = *(T *)memory;
    int seq_len = args.shape.seq_len;
    int tiles_m = (seq_len + T::BLOCK_M - 1) / T::BLOCK_M;
    int items = tiles_m * args.shape.batch * args.shape.heads;
    // The shuffle tells the compiler that `group` is the same in all lanes.
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;

    // Load the first two items
    auto load_item = [&](int item, int stage) {
        int head = item / tiles_m;
        barrier_expect(&t.k_full[stage], (T::BLOCK_M + BLOCK_N) * HEAD_DIM);
        tma_load(t.q[stage], &q_map, &t.k_full[stage],
                 item % tiles_m * T::BLOCK_M, head);
        tma_load(t.k[stage], &k_map, &t.k_full[stage], 0, head);
        barrier_expect(&t.v_full[stage], BLOCK_N * HEAD_DIM);
        tma_load(t.v[stage], &v_map, &t.v_full[stage], 0, head);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; ++stage) {
            barrier_init(&t.k_full[stage], 1);
            barrier_init(&t.v_full[stage], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        for (int stage = 0; stage < 2; ++stage)
            if (blockIdx.x + stage * gridDim.x < items)
                load_item(blockIdx.x + stage * gridDim.x, stage);
    }
    __syncthreads(); // all mbarriers are initialised

    int i = 0;
    for (int item = blockIdx.x; item < items; item += gridDim.x, ++i) {
        int stage = i % 2;

        // Compute an item from its scores to its output
        int pair = item / tiles_m, head = pair % args.shape.heads;
        float scale = fmaxf(args.softmax_scale * args.q_scales[head] *
                                args.k_scales[head] * LOG2_E,
                            1e-30f);
        float v_scale = args.v_scales[head]; // early, for the load takes a while
        scores s;
        uint64_t vh = describe<HALF_ROW>(t.vh);
        barrier_wait(&t.k_full[stage], i / 2 & 1);
        queue_scores(s, describe<HEAD_DIM>(t.q[stage] + group * MMA_M * HEAD_DIM),
                     describe<HEAD_DIM>(t.k[stage]));
        barrier_wait(&t.v_full[stage], i / 2 & 1);
        make_half<T::THREADS>(t.v[stage], t.vh);
        proxy_fence();
        __syncthreads(); // vh is complete
        wgmma_wait<0>();
        pin(s);

        row_state rows = {{NOTHING, NOTHING}, {0, 0}};
        float factor[2], sum[4];
        int row = item % tiles_m * T::BLOCK_M + group * MMA_M + 16 * warp + lane / 4;
        mask<0>(s, row);
        raise(factor, s, rows, scale);
        halves p;
        probabilities<false>(p, s, sum, rows, scale);
        rows.sum[0] = sum[0] + sum[1];
        rows.sum[1] = sum[2] + sum[3];
        float out[HEAD_DIM / 2] = {}; // [64][64]
        queue_output(out, p, vh);
        wgmma_wait<0>();
        pin(out);
        pin(p);
        __syncthreads(); // all of the stage has been read
        if (threadIdx.x == 0 && item + 2 * gridDim.x < items)
            load_item(item + 2 * gridDim.x, stage);
        store(out, rows, (__half *)args.out + (size_t)pair * seq_len * HEAD_DIM, row,
              seq_len, v_scale);
    }
}

// ---- Describe Q, K or V to the TMA ----

// cuTensorMapEncodeTiled is a driver function; the runtime finds its address.
typedef CUresult (*encode_function)(
    CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill);

// Describes Q, K or V [pairs][seq_len][HEAD_DIM] to the TMA, in boxes of
// BLOCK_N rows of one head, with a swizzle of 64 bytes.
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
typedef void kernel_of_maps(attention_args, CUtensorMap, CUtensorMap,
                            CUtensorMap);

template <class T, class Shared>
static cudaError_t launch_as(kernel_of_maps *kernel,
                             const struct attention_args *args, size_t ctas,
                             cudaStream_t stream)
{
    // Ask for a CTA's shared memory
    static bool raised; // whether this kernel's limit has been raised
    if (!raised) {
        cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
        if (error)
            return error;
        raised = true;
    }

    CUtensorMap q_map, k_map, v_map;
    cudaError_t error =
        describe_tensor<T::BLOCK_M>(&q_map, args->q, &args->shape);
    if (!error)
        error = describe_tensor<BLOCK_N>(&k_map, args->k, &args->shape);
    if (!error)
        error = describe_tensor<BLOCK_N>(&v_map, args->v, &args->shape);
    if (error)
        return error;
    kernel<<<(unsigned)ctas, T::THREADS, sizeof(Shared), stream>>>(
        *args, q_map, k_map, v_map);
    return cudaGetLastError();
}

// ---- Name the tilings ----
typedef tiling<1, 2, 4> few_rows; // too few rows for all SMs
typedef tiling<2, 1, 5> two_groups;
typedef tiling<3, 1, 5> three_groups;

// ---- Choose a tiling by the shape ----

// Counts the query tiles of a tiling; returns how many key tiles the busiest SM
// gets, about.
template <class T>
static size_t busiest(size_t pairs, int seq_len, size_t sms, size_t *items)
{
    size_t tiles = 0, most = 0;
    int tiles_m = (seq_len + T::BLOCK_M - 1) / T::BLOCK_M;
    for (int m = 0; m < tiles_m; ++m) {
        int keys = (m + 1) * T::BLOCK_M;
        most = ((keys < seq_len ? keys : seq_len) + BLOCK_N - 1) / BLOCK_N;
        tiles += most;
    }
    *items = pairs * tiles_m;
    size_t mean = (pairs * tiles + sms - 1) / sms;
    return mean > most ? mean : most;
}

static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    int device, count;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount,
                                       device);
    if (error)
        return error;
    size_t pairs = (size_t)args->shape.batch * args->shape.heads, sms = count;
    size_t items, two, three;
    int seq_len = args->shape.seq_len;
    busiest<few_rows>(pairs, seq_len, sms, &items);
    if (items > INT32_MAX / 2)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%zu query tiles, at most 2^30", items);
    size_t cost_two = 7 * busiest<two_groups>(pairs, seq_len, sms, &two);
    size_t cost_three = 8 * busiest<three_groups>(pairs, seq_len, sms, &three);
    auto at_most = [](size_t ctas, size_t most) {
        return ctas < most ? ctas : most;
    };
    if (seq_len <= BLOCK_N && items <= sms)
        return launch_as<one_tile<1>, one_tile<1>>(attention_short<1>, args,
                                                   items, stream);
    if (seq_len <= BLOCK_N) // two CTAs share an SM
        return launch_as<one_tile<2>, one_tile<2>>(
            attention_short<2>, args, at_most(two, 2 * sms), stream);
    if (items <= sms)
        return launch_as<few_rows, tiles<few_rows>>(attention<few_rows>, args,
                                                    items, stream);
    if (cost_two < cost_three)
        return launch_as<two_groups, tiles<two_groups>>(
            attention<two_groups>, args, at_most(two, sms), stream);
    return launch_as<three_groups, tiles<three_groups>>(
        attention<three_groups>, args, at_most(three, sms), stream);
}

// ---- Hand the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch20_half",
        .title = "A causal mask on Hopper, P in half",
        .chapter = 20,
        .kernel = (const void *)attention<three_groups>,
        .threads = three_groups::THREADS,
        .dynamic_shared_bytes = sizeof(tiles<three_groups>),
        .tolerance = 4e-3, // scores are summed with thirteen bits
        .tensor_flops_share = 1,
        .mask = MASK_CAUSAL,
        .launch = launch,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
