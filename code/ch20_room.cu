// Tangled from chapters/20-mask.md; edit that, then `make tangle`.

// Chapter 20, its last program: ch20_hopper with room after a rise.
//
//   make chapter20 && build/ch20_room
//
// Where a later tile has a score that is too high, all codes of its row are
// lowered, and leave room for scores that are higher still, as in ch18_room.

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Fix the sizes ----
constexpr int WARPGROUP = 128; // threads
constexpr int MMA_M = 64;      // rows that a warpgroup's wgmma computes
constexpr int MMA_K = 32;      // bytes of a row that one wgmma takes
constexpr int BLOCK_N = 128;   // keys of a tile
constexpr int OUT_COLS = HEAD_DIM + 8; // V's columns, and 8 more: one sums up P

// The sizes that the launch chooses by the shape.
template <int ROW_GROUPS_, int KEY_GROUPS_, int STAGES_, bool PAIRED_,
          bool RAGGED_ = false>
struct tiling {
    static constexpr int ROW_GROUPS = ROW_GROUPS_; // of 64 query rows each
    static constexpr int KEY_GROUPS = KEY_GROUPS_; // parts of a row's keys
    static constexpr int STAGES = STAGES_;         // tiles in shared memory
    static constexpr bool PAIRED = PAIRED_; // whether floats sum pairs of tiles
    static constexpr bool RAGGED = RAGGED_; // whether sequence lengths differ
    static constexpr bool SINGLE = ROW_GROUPS == 1; // a CTA has one item
    static constexpr int CONSUMERS = ROW_GROUPS * KEY_GROUPS;
    static constexpr int BLOCK_M = MMA_M * ROW_GROUPS; // query rows of a CTA
    static constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
    // By setmaxnreg consumers get the registers that the producer gives up.
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 1 ? 96 : 40;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 1 ? 208 : 232;

    static_assert(CONSUMERS <= 2, "more do not get their registers");
    static_assert(WARPGROUP * (PRODUCER_REGISTERS +
                               CONSUMERS * CONSUMER_REGISTERS) <= 65536,
                  "registers of an SM");
};
constexpr int SEQUENCES = 512, LEVELS = 512; // the most of a ragged batch

// ---- Lay out shared memory ----
template <class T> struct alignas(1024) tiles {
    uint8_t vt[T::STAGES][OUT_COLS * BLOCK_N]; // [OUT_COLS][BLOCK_N]
    uint8_t k[T::STAGES][BLOCK_N * HEAD_DIM];  // [BLOCK_N][HEAD_DIM]
    uint8_t v[T::STAGES][BLOCK_N * HEAD_DIM];  // [BLOCK_N][HEAD_DIM]
    float other[T::KEY_GROUPS > 1 ? 2 : 0][20][WARPGROUP]; // see merge()
    uint64_t k_full[T::STAGES];   // the TMA has brought K
    uint64_t v_full[T::STAGES];   // the TMA has brought V
    uint64_t empty[T::STAGES];    // k is multiplied, v transposed: load again
    uint64_t vt_full[T::STAGES];  // V is transposed, in vt
    uint64_t vt_empty[T::STAGES]; // vt is multiplied: transpose the next V
    int lengths[T::RAGGED ? SEQUENCES : 0];   // sorted, the longest first
    int order[T::RAGGED ? SEQUENCES : 0];     // the sequence with lengths[i]
    int before[T::RAGGED ? LEVELS + 1 : 0];   // items of heavier levels
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

// ---- Load and store matrices ----
__device__ void load_transposed(uint32_t (&m)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(row)
                 : "memory");
}

__device__ void store_matrices(uint32_t row, uint32_t a, uint32_t b,
                               uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "[%0], {%1, %2, %3, %4};"
                 :
                 : "r"(row), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// ---- Name the registers of a product ----
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i)                                                          \
    FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

// D = A B, or D += A B if `add`: A [64][32] in registers, B [128][32] in shared
// memory, codes of E4M3; D [64][128] float. Only queues it: see wgmma_wait().
__device__ void multiply(float (&d)[BLOCK_N / 2], const uint32_t (&a)[4],
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

// Like the above, with B [72][32] and D [64][72].
__device__ void multiply(float (&d)[OUT_COLS / 2], const uint32_t (&a)[4],
                         uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %41, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n72k32"
                 ".f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35"
                 "}, {%36, %37, %38, %39}, %40, add, 1, 1;\n"
                 "}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), FOUR(d, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
                   "r"((int)add));
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

// ---- Load a key tile ----
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

// Transposes V, 32 keys and 16 columns at a time. A lane gets the codes of
// two keys in two columns from each of four matrices; four byte permutations
// make four codes of a column out of them. The place of a code in vt:
//   row           16 (d / 16) + 8 (d % 2) + d / 2 % 8   for column d of V
//   byte of row   by key, as P's keys lie in a lane's registers: see convert()
__device__ void transpose(const uint8_t *v, uint8_t *vt, int warp, int lane)
{
    constexpr int BLOCKS = BLOCK_N / 32;
    uint32_t from = shared_address(v), to = shared_address(vt);
    int row = 16 * warp + lane / 16 * 8 + lane % 8;
    uint32_t m[BLOCKS][4]; // [8 keys][16 d] each

    // Load pairs of columns
    #pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        int key = 32 * i + lane;
        load_transposed(m[i],
                        from + key * HEAD_DIM + (warp ^ key / 2 % 4) * 16);
    }

    // Store columns as rows
    #pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        int chunk = 2 * i + lane / 8 % 2;
        store_matrices(to + row * BLOCK_N + (chunk ^ row % 8) * 16,
                       __byte_perm(m[i][0], m[i][1], 0x6420), // d even
                       __byte_perm(m[i][2], m[i][3], 0x6420),
                       __byte_perm(m[i][0], m[i][1], 0x7531), // d odd
                       __byte_perm(m[i][2], m[i][3], 0x7531));
    }
}

// The rows of vt past V's: one of ones, seven of zeros. Each warp writes two.
__device__ void write_ones(uint8_t *vt, int warp, int lane)
{
    uint2 *rows = (uint2 *)(vt + (HEAD_DIM + 2 * warp) * BLOCK_N);
    uint32_t ones = warp == 0 && lane < 16 ? 0x38383838 : 0; // 0x38 is 1
    rows[lane] = make_uint2(ones, ones);
}

// ---- Say how items are handed out ----

// Made by the launch. A section is as many heads as have room for their K and V
// in the L2 cache; the last section may have fewer. Divisions take long, so the
// launch passes reciprocals to multiply by.
struct schedule {
    int tiles_m;                       // row tiles of a sequence
    int section, sections, last; // heads a section, sections, heads of the last
    int rounds;                        // of a section; one item per CTA in each
    float by_section, by_last, by_rounds, by_heads; // 1 / section, ...
    const int *lengths;                // NULL unless the batch is ragged
};

struct work {
    int pair, m; // the head, counted through the batch, and its row tile
    int tiles_n; // key tiles; 0: this CTA has no more items
    int round;
    int length;  // the sequence's
};

// a / b for 0 <= a < 2^22, by = 1 / b.
__device__ int quotient(int a, float by)
{
    return (int)(((float)a + 0.5f) * by);
}

// ---- Find the items of a CTA ----
template <class T>
__device__ bool find_ragged(const tiles<T> &t, const schedule &plan,
                            int heads, work &w)
{
    int r = w.round, s = 0;

    // Go there and back
    bool back = (r + s) % 2;
    int item = r * gridDim.x + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);

    if (item >= t.before[plan.tiles_m])
        return false;
    int level = 0, end = plan.tiles_m; // before[level] <= item < before[end]
    while (end - level > 1) {
        int middle = (level + end) / 2;
        (t.before[middle] <= item ? level : end) = middle;
    }
    int at = item - t.before[level];
    int rank = quotient(at, plan.by_heads); // of the sequence by length
    w.pair = t.order[rank] * heads + at - rank * heads;
    w.m = plan.tiles_m - 1 - level;
    w.length = t.lengths[rank];
    return true;
}

// Sorts the sequences by length, and counts the items that come before each
// level. Level 0 is the last row tile of a sequence of seq_len tokens.
template <class T>
__device__ void tabulate(tiles<T> &t, const schedule &plan,
                         const struct shape &shape)
{
    for (int i = threadIdx.x; i < shape.batch; i += T::THREADS) {
        int length = plan.lengths[i], rank = 0;
        for (int j = 0; j < shape.batch; ++j) {
            int other = plan.lengths[j];
            rank += other > length || (other == length && j < i);
        }
        t.lengths[rank] = length;
        t.order[rank] = i;
    }
    __syncthreads(); // all lengths are stored
    for (int level = threadIdx.x; level <= plan.tiles_m; level += T::THREADS) {
        int items = 0, least = plan.tiles_m - level; // items with m >= least
        for (int i = 0; i < shape.batch; ++i) {
            int tiles_m = (t.lengths[i] + T::BLOCK_M - 1) / T::BLOCK_M;
            items += max(tiles_m - least, 0);
        }
        t.before[level] = items * shape.heads;
    }
    __syncthreads(); // all levels are counted
}

// This CTA's item of this round or, if it has none, of its next round with one.
template <class T>
__device__ work find(const tiles<T> &t, const schedule &plan,
                     const attention_args &args, int round)
{
    work w = {0, 0, 0, round, args.shape.seq_len};
    if (T::SINGLE) {
        w.pair = blockIdx.x;
        w.m = gridDim.y - 1 - blockIdx.y;
    } else if (T::RAGGED) {
        if (!find_ragged(t, plan, args.shape.heads, w))
            return w;
    } else {
        // Find an item of a section
        for (;; ++w.round) {
            int s = quotient(w.round, plan.by_rounds);
            if (s >= plan.sections)
                return w;
            bool last = s == plan.sections - 1;
            int r = w.round - s * plan.rounds;

            // Go there and back
            bool back = (r + s) % 2;
            int item = r * gridDim.x + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);

            int level = quotient(item, last ? plan.by_last : plan.by_section);
            if (level < plan.tiles_m) {
                w.pair = s * plan.section + item -
                         level * (last ? plan.last : plan.section);
                w.m = plan.tiles_m - 1 - level; // level 0 is the heaviest
                break;
            }
        }
    }

    // Count the key tiles that the rows see
    int keys = min(w.length, (w.m + 1) * T::BLOCK_M);
    w.tiles_n = (keys + BLOCK_N - 1) / BLOCK_N;

    return w;
}

// ---- Say that all lanes have the same item ----
template <class T> __device__ work uniform(work w)
{
    if constexpr (T::RAGGED) { // tell the compiler: the same in all lanes
        w.pair = __reduce_max_sync(0xffffffff, w.pair);
        w.m = __reduce_max_sync(0xffffffff, w.m);
        w.tiles_n = __reduce_max_sync(0xffffffff, w.tiles_n);
        w.round = __reduce_max_sync(0xffffffff, w.round);
        w.length = __reduce_max_sync(0xffffffff, w.length);
    }
    return w;
}

// ---- Produce ----
template <class T>
__device__ work next_of(const tiles<T> &t, const schedule &plan,
                        const attention_args &args, const work &w)
{
    return T::SINGLE ? work{} : find(t, plan, args, w.round + 1);
}

template <class T>
__device__ void produce(tiles<T> &t, const schedule &plan,
                        const attention_args &args, const CUtensorMap *k_map,
                        const CUtensorMap *v_map, work w)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    work l = w;                // the item whose tiles are being loaded
    int loaded = 1, tile = 1;  // tiles loaded, in all and of l: tile 0 so far

    // Load the next key tile of this CTA's items
    auto load_next = [&] {
        if (tile == l.tiles_n) {
            tile = 0;
            l = next_of(t, plan, args, l);
        }
        if (l.tiles_n > 0)
            load(t, k_map, v_map, loaded++, tile++, l.pair);
    };

    if (threadIdx.x == 0)
        while (loaded < T::STAGES && l.tiles_n > 0)
            load_next();
    __syncwarp();
    int n = 0;
    for (; w.tiles_n > 0; w = uniform<T>(next_of(t, plan, args, w)))
        for (int i = 0; i < w.tiles_n; ++i, ++n) {
            int stage = n % T::STAGES;

            // Load into the stage before
            if (threadIdx.x == 0 && n > 0 && l.tiles_n > 0) {
                int before = (n - 1) % T::STAGES; // the stage of the tile to load
                barrier_wait(&t.empty[before], parity<T>(n - 1));
                load_next();
            }
            __syncwarp();

            // Wait until the turned tile has been multiplied
            if (n < T::STAGES)
                write_ones(t.vt[stage], warp, lane);
            else
                barrier_wait(&t.vt_empty[stage], parity<T>(n) ^ 1);

            // Turn a tile over, and say so
            barrier_wait(&t.v_full[stage], parity<T>(n));
            transpose(t.v[stage], t.vt[stage], warp, lane);
            proxy_fence();
            release(&t.empty[stage]);
            release(&t.vt_full[stage]);
        }
}

// ---- Know E4M3's codes ----
constexpr float LOG2_E = 1.44269504f;
constexpr float TOP = 8; // no P is past 2^TOP when a reference is chosen
// E4M3's code of 2^y is 8 (y + 7) where y is whole. For other y the code is up
// to 0.7 lower, since the mantissa is linear: 0.4 less centres that error.
constexpr float BIAS = 8 * 7 - 0.4f;
// How many powers of two past 2^TOP a later P may be: from there on its code
// would be rounded to more than 126.
constexpr double LAG = (126.5 + 0.4) / 8 - 7 - TOP;
// The smallest positive half. A half up to 2^-13 is a multiple of UNIT, and the
// bits of the half are that multiple.
constexpr float UNIT = 1.0f / (1 << 24);

// The room after a rise, in powers of two: how far a later score may exceed
// the row's highest score so far before the reference rises again.
constexpr float ROOM = 5;
// After a rise the first tile's mean has code LEAST or more, if the highest
// score allows that. A mean whose code is LOST or lower does not count.
constexpr float LEAST = 16, LOST = -24;
// A score may carry its row if its code is this far above the tile's mean code.
constexpr float HEAVY = 64;

// ---- Compute two to the power of x ----
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The codes of two scores, each in the low byte of 16 bits of the result. A
// code that would be negative is 0.
__device__ uint32_t two_codes(float low, float high, float scale, float bias)
{
    uint32_t codes;
    asm("cvt.rn.relu.f16x2.f32 %0, %2, %1;"
        : "=r"(codes)
        : "f"(fmaf(low, scale, bias)), "f"(fmaf(high, scale, bias)));
    return codes;
}

// ---- Turn scores into codes, two in a register ----

// Turns 64 x 128 scores into codes, two in a register, as halves in units of
// UNIT: codes[i] has keys 8 (i / 2) + 2 (lane % 4) and the next, of row i % 2.
// P is 1 where a score is the row's `ref`.
__device__ void convert(const float (&s)[BLOCK_N / 2],
                        uint32_t (&codes)[BLOCK_N / 4], const float (&ref)[2],
                        float scale)
{
    float units = scale * 8 * UNIT; // what 1 of a score adds to the code
    float bias[2] = {fmaf(-ref[0], units, BIAS * UNIT),
                     fmaf(-ref[1], units, BIAS * UNIT)};
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i)
        codes[i] = two_codes(s[2 * i], s[2 * i + 1], units, bias[i % 2]);
}

// Packs four codes into a register, as wgmma wants P: byte b of p[j][i] is key
// 32 j + 16 (i / 2) + 8 (b / 2) + 2 (lane % 4) + b % 2 of row i % 2.
__device__ void pack(uint32_t (&p)[BLOCK_N / MMA_K][4],
                     const uint32_t (&codes)[BLOCK_N / 4])
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 8; ++i) {
        int at = i / 2 * 4 + i % 2;
        p[i / 4][i % 4] = __byte_perm(codes[at], codes[at + 2], 0x6420);
    }
}

// What a lane keeps of two rows, lane / 4 and lane / 4 + 8 of its warp's 16.
struct row_state {
    float ref[2];    // the score for which P is 1
    float factor[2]; // scales the output so far, when ref has risen
    float mean[2];   // the mean of the first tile's scores
    bool rising;     // whether the warp takes the maximum of each later tile
};

// ---- Find a row's highest code ----
__device__ __half2 halves(uint32_t bits) { return *(__half2 *)&bits; }
__device__ uint32_t bits(__half2 halves) { return *(uint32_t *)&halves; }

// The highest code that a lane has in each of its two rows, row 0's in the low
// half and row 1's in the high one.
__device__ __half2 highest(const uint32_t (&codes)[BLOCK_N / 4])
{
    __half2 high[8]; // row i % 2
#pragma unroll
    for (int i = 0; i < 8; ++i)
        high[i] =
            __hmax2(__hmax2(halves(codes[i]), halves(codes[i + 8])),
                    __hmax2(halves(codes[i + 16]), halves(codes[i + 24])));
    for (int i = 0; i < 2; ++i)
        high[i] = __hmax2(__hmax2(high[i], high[i + 2]),
                          __hmax2(high[i + 4], high[i + 6]));
    return __hmax2(__lows2half2(high[0], high[1]),
                   __highs2half2(high[0], high[1]));
}

// The highest code in each of two rows, of the four lanes that share them.
__device__ float2 of_rows(__half2 high)
{
    high = __hmax2(high, __shfl_xor_sync(0xffffffff, high, 1));
    high = __hmax2(high, __shfl_xor_sync(0xffffffff, high, 2));
    return __half22float2(high);
}

// Whether a code of either row is past 126, the largest.
__device__ bool is_past(__half2 high)
{
    float2 rows = __half22float2(high);
    return (rows.x > 126 * UNIT) | (rows.y > 126 * UNIT); // || would branch
}

// ---- Add up a sample of a row's codes ----

// A row's sample has 32 of its 128 codes: of every 32 keys the first 8.
constexpr int SAMPLE = 32;

// The sum of each row's sample, row 0's in the low half, row 1's in the high.
__device__ float2 sampled(const uint32_t (&codes)[BLOCK_N / 4])
{
    __half2 sum[2] = {halves(codes[0]), halves(codes[1])}; // row i % 2
#pragma unroll
    for (int i = 8; i < BLOCK_N / 4; i += 8) {
        sum[0] = __hadd2(sum[0], halves(codes[i]));
        sum[1] = __hadd2(sum[1], halves(codes[i + 1]));
    }
    __half2 both = __hadd2(__lows2half2(sum[0], sum[1]),
                           __highs2half2(sum[0], sum[1]));
    both = __hadd2(both, __shfl_xor_sync(0xffffffff, both, 1));
    both = __hadd2(both, __shfl_xor_sync(0xffffffff, both, 2));
    return __half22float2(both);
}

// ---- Lower a row's codes ----

// The code of row h's mean in the first tile, not rounded.
__device__ float mean_code(const row_state &rows, int h, float scale)
{
    return fmaf(rows.mean[h] - rows.ref[h], 8 * scale, BIAS);
}

// Whether row h's highest code, `high`, is too high to be lowered, because the
// score carries its row: the first tile's mean has a code above 0, and `high`
// is past 126 and more than HEAVY above this tile's mean. sum: of the row's
// sample.
__device__ bool carries(float high, float sum, const row_state &rows, int h,
                        float scale)
{
    float light = fmaxf(126 * UNIT, sum / SAMPLE + HEAVY * UNIT);
    return (mean_code(rows, h, scale) > 0) & (high > light);
}

// By how much a row's codes are lowered. high: the row's highest code; mean:
// the code of the row's mean in the first tile.
__device__ float excess(float high, float mean)
{
    float wanted = high - (126 - 8 * ROOM), needed = high - 126;
    if (mean > LOST) // takes the mean below LEAST only as far as needed
        wanted = fmaxf(needed, fminf(wanted, mean - LEAST));
    return fmaxf(wanted, 0);
}

// Lowers the codes of two rows, which are at most 2048, and raises their
// references by the same amount.
__device__ void lower(uint32_t (&codes)[BLOCK_N / 4], float2 high,
                      row_state &rows, float scale)
{
    float highs[2] = {high.x / UNIT, high.y / UNIT};
    __half2 down[2];
    for (int h = 0; h < 2; ++h) {
        float codes_down = rintf(excess(highs[h], mean_code(rows, h, scale)));
        rows.factor[h] = exp2_approx(codes_down * -0.125f);
        rows.ref[h] += __fdividef(codes_down * 0.125f, scale);
        down[h] = __float2half2_rn(-codes_down * UNIT);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i)
        codes[i] = bits(__hfma2_relu(halves(codes[i]), __float2half2_rn(1),
                                     down[i % 2]));
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

// Returns whether a reference rose; `rows` has the factors then. last: as for
// mask(); more: whether another key tile of the row tile follows.
template <bool FIRST>
__device__ bool softmax(float (&s)[BLOCK_N / 2],
                        uint32_t (&p)[BLOCK_N / MMA_K][4], row_state &rows,
                        float scale, int last, bool masked, bool more)
{
    if (masked) {
        // Mask half of the keys, or all
        if (__shfl_sync(0xffffffff, last, 0) >= BLOCK_N / 2)
            mask<BLOCK_N / 4>(s, last); // all of the warp's rows see the first half
        else
            mask<0>(s, last);
    }
    uint32_t codes[BLOCK_N / 4]; // two codes in each
    if (!FIRST && !rows.rising) {
        // Try with the reference there is, or a little above it
        convert(s, codes, rows.ref, scale);
        pack(p, codes);
        __half2 own = highest(codes);
        if (!__any_sync(0xffffffff, is_past(own)))
            return false;
        float2 high = of_rows(own);
        bool again = (high.x > 2048 * UNIT) | (high.y > 2048 * UNIT);
        bool has_mean = (mean_code(rows, 0, scale) > 0) |
                        (mean_code(rows, 1, scale) > 0);
        if (__any_sync(0xffffffff, has_mean)) {
            float2 sum = sampled(codes);
            again |= carries(high.x, sum.x, rows, 0, scale) |
                     carries(high.y, sum.y, rows, 1, scale);
        }
        if (!__any_sync(0xffffffff, again)) {
            lower(codes, high, rows, scale);
            pack(p, codes);
            return true;
        }
        rows.rising = true;
    }

    // Leave no score past 2^TOP
    float most[4] = {s[0], s[2], s[1], s[3]}; // two chains of maxima for each row
    #pragma unroll
    for (int i = 4; i < BLOCK_N / 2; ++i) {
        float &chain = most[i / 2 % 2 + i % 2 * 2];
        chain = fmaxf(chain, s[i]);
    }
    float ref[2] = {fmaxf(most[0], most[2]), fmaxf(most[1], most[3])};
    float room = __fdividef(TOP, scale);
    for (int h = 0; h < 2; ++h) {
        ref[h] = fmaxf(ref[h], __shfl_xor_sync(0xffffffff, ref[h], 1));
        ref[h] = fmaxf(ref[h], __shfl_xor_sync(0xffffffff, ref[h], 2)) - room;
    }

    // Leave room for scores to come, and keep the mean
    if (FIRST && more) { // the mean of a quarter of the keys is close enough
        float sums[4] = {0, 0, 0, 0};
    #pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i += 16)
            for (int j = 0; j < 4; ++j)
                sums[j] += s[i + j];
        for (int h = 0; h < 2; ++h) {
            float sum = sums[2 * h] + sums[2 * h + 1];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            rows.mean[h] = sum / (BLOCK_N / 4);
            ref[h] = fmaxf(ref[h], rows.mean[h]);
        }
    }

    // Raise the reference
    for (int h = 0; h < 2; ++h) {
        ref[h] = fmaxf(ref[h], rows.ref[h]);
        rows.factor[h] = exp2_approx((rows.ref[h] - ref[h]) * scale);
        rows.ref[h] = ref[h];
    }

    // Make the codes anew, and see whether a reference rose
    convert(s, codes, rows.ref, scale);
    pack(p, codes);
    bool rose = (rows.factor[0] != 1) | (rows.factor[1] != 1);
    return __any_sync(0xffffffff, rose);
}

// Queues Q K for a tile: s becomes this lane's part of [64][128].
__device__ void queue_scores(float (&s)[BLOCK_N / 2],
                             const uint32_t (&q)[HEAD_DIM / MMA_K][4],
                             uint64_t k)
{
    pin(s);
    wgmma_fence();
    multiply(s, q[0], k, false);
    multiply(s, q[1], advance<MMA_K>(k, 1), true);
    wgmma_commit();
}

// Queues P V [64][72] for a tile: part = P V, or part += P V if `add`.
__device__ void queue_output(float (&part)[OUT_COLS / 2],
                             uint32_t (&p)[BLOCK_N / MMA_K][4], uint64_t vt,
                             bool add)
{
    pin(part);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < BLOCK_N / MMA_K; ++i)
        multiply(part, p[i], advance<MMA_K>(vt, i), add || i > 0);
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

// Normalises and stores 16 BLOCKS columns. In the order of vt's rows, a lane
// has four neighbouring columns of two rows, from 16 b + 4 (lane % 4) on.
// sums: of each row's P, valid in the first lane of four.
template <int BLOCKS>
__device__ void store(const float (&out)[8 * BLOCKS], const float (&sums)[2],
                      __half *to, int row, int length, float v_scale)
{
    int lane = threadIdx.x % 32;
    for (int h = 0; h < 2; ++h) {
        float sum = __shfl_sync(0xffffffff, sums[h], lane & ~3);
        float norm = __fdividef(v_scale, sum);
        int r = row + 8 * h;
        if (r < length)
#pragma unroll
            for (int b = 0; b < BLOCKS; ++b) {
                const float *even = &out[8 * b + 2 * h], *odd = even + 4;
                __half2 four[2] = {
                    __floats2half2_rn(even[0] * norm, odd[0] * norm),
                    __floats2half2_rn(even[1] * norm, odd[1] * norm)};
                *(uint2 *)&to[(size_t)r * HEAD_DIM + 16 * b + lane % 4 * 4] =
                    *(uint2 *)four;
            }
    }
}

// Adds up and stores the outputs of the two warpgroups that share a row's keys:
// each warpgroup does one half of the columns.
template <class T>
__device__ void merge(tiles<T> &t, const float (&out)[OUT_COLS / 2],
                      const row_state &rows, int key_group, float scale,
                      __half *to, int row, int length, float v_scale)
{
    int lane = threadIdx.x % WARPGROUP;
    float(*mine)[WARPGROUP] = t.other[key_group];
    float(*theirs)[WARPGROUP] = t.other[1 - key_group];

    // Leave half of the columns to the other
    #pragma unroll
    for (int i = 0; i < 16; ++i)
        mine[i][lane] = key_group == 0 ? out[16 + i] : out[i];
    for (int h = 0; h < 2; ++h) {
        mine[16 + h][lane] = out[HEAD_DIM / 2 + 2 * h];
        mine[18 + h][lane] = rows.ref[h];
    }

    asm volatile("barrier.cta.sync 2, %0;"
                 :
                 : "n"(T::CONSUMERS * WARPGROUP)
                 : "memory");
    float sums[2], ours[2], other[2], all[16];

    // Weigh the two parts
    for (int h = 0; h < 2; ++h) {
        float their_ref = theirs[18 + h][lane];
        float ref = fmaxf(rows.ref[h], their_ref); // -inf where there is no key
        ours[h] = exp2_approx((rows.ref[h] - ref) * scale);
        other[h] = exp2_approx((their_ref - ref) * scale);
        sums[h] = ours[h] * out[HEAD_DIM / 2 + 2 * h] +
                  other[h] * theirs[16 + h][lane];
    }

#pragma unroll
    for (int i = 0; i < 16; ++i) {
        float own = key_group == 0 ? out[i] : out[16 + i];
        all[i] = ours[i / 2 % 2] * own + other[i / 2 % 2] * theirs[i][lane];
    }
    store<2>(all, sums, to + 32 * key_group, row, length, v_scale);
}

// Loaded as early as Q, so that no softmax has to wait for them.
struct head_scales {
    float q, k, v;
};
__device__ head_scales load_scales(const attention_args &args,
                                   const schedule &plan, int pair)
{
    int heads = args.shape.heads;
    int head = pair - quotient(pair, plan.by_heads) * heads;
    return {args.q_scales[head], args.k_scales[head], args.v_scales[head]};
}

// Computes one query tile. q and s have its Q and the scores of its first key
// tile, and are left with those of the next item. n: the key tiles that used
// the stages before it. Returns the item after the next one.
template <class T>
__device__ work attend(tiles<T> &t, const schedule &plan,
                       const attention_args &args, work w, work later, int n,
                       uint32_t (&q)[HEAD_DIM / MMA_K][4],
                       head_scales &scales, float (&s)[BLOCK_N / 2])
{
    // The shuffle tells the compiler that `group` is the same in all lanes.
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP - 1, 0);
    int key_group = T::KEY_GROUPS == 1 ? 0 : group / T::ROW_GROUPS;
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    int first_row = w.m * T::BLOCK_M + group % T::ROW_GROUPS * MMA_M;
    int row = first_row + 16 * warp + lane / 4;
    size_t head_size = (size_t)args.shape.seq_len * HEAD_DIM;
    size_t head_at = w.pair * head_size;
    float v_scale = scales.v;
    // Turns scores into exponents of 2. Not 0: a masked key's would be NaN.
    float scale =
        fmaxf(args.softmax_scale * scales.q * scales.k * LOG2_E, 1e-30f);

    // Lay out the registers
    float out[OUT_COLS / 2] = {}; // [64][72], all earlier tiles' P V
    float own_part[OUT_COLS / 2]; // [64][72], two tiles' P V
    float(&part)[OUT_COLS / 2] = T::PAIRED ? own_part : out;
    uint32_t p[BLOCK_N / MMA_K][4], p2[BLOCK_N / MMA_K][4]; // [64][128] each
    row_state rows = {{-INFINITY, -INFINITY}, {1, 1}};
    uint64_t k_tiles = describe<HEAD_DIM>(t.k);
    uint64_t vt_tiles = describe<BLOCK_N>(t.vt);

    // Start and finish products
    auto scores_of = [&](int tile) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.k_full[stage], parity<T>(n + tile));
        queue_scores(s, q, advance<BLOCK_N * HEAD_DIM>(k_tiles, stage));
    };
    auto output_of = [&](int tile, uint32_t (&now)[BLOCK_N / MMA_K][4],
                         bool add) {
        int stage = (n + tile) % T::STAGES;
        barrier_wait(&t.vt_full[stage], parity<T>(n + tile));
        queue_output(part, now, advance<OUT_COLS * BLOCK_N>(vt_tiles, stage),
                     add);
    };
    auto output_done = [&]<int GROUPS = 0>(int tile,
                                           uint32_t (&used)[BLOCK_N / MMA_K][4]) {
        wgmma_wait<GROUPS>();
        pin(part);
        pin(used);
        release(&t.vt_empty[(n + tile) % T::STAGES]);
    };
    auto add_part = [&] {
    #pragma unroll
        for (int i = 0; i < OUT_COLS / 2; ++i)
            out[i] += part[i];
    };
    // masked: whether some row does not see all of a tile; more: whether another
    // tile follows.
    auto masked = [&](int tile) { return (tile + 1) * BLOCK_N > first_row + 1; };
    auto more = [&](int tile) { return tile + T::KEY_GROUPS < w.tiles_n; };

    // Begin the next item
    auto load_later = [&] {
        if (later.tiles_n > 0) {
            int later_row = later.m * T::BLOCK_M + row - w.m * T::BLOCK_M;
            load_q(q, args, later_row, later.pair * head_size);
            scales = load_scales(args, plan, later.pair);
        }
    };
    // Queued even if no next item uses the scores: if a product were queued only on
    // a condition, the compiler would serialise all products.
    auto scores_later = [&] {
        int tile = n + w.tiles_n - 1;
        if (later.tiles_n > 0) {
            ++tile;
            barrier_wait(&t.k_full[tile % T::STAGES], parity<T>(tile));
        }
        queue_scores(
            s, q, advance<BLOCK_N * HEAD_DIM>(k_tiles, tile % T::STAGES));
    };
    work after = {};

    // P V of this tile, while the next one's scores become codes. The tensor cores
    // add up the products of two tiles; the sums of such pairs are added up here.
    int tile = key_group;
    auto step = [&]<bool SECOND>(uint32_t (&now)[BLOCK_N / MMA_K][4],
                                 uint32_t (&then)[BLOCK_N / MMA_K][4]) {
        int next = tile + T::KEY_GROUPS;
        scores_of(next);
        output_of(tile, now, SECOND);

        // Wait for the scores
        wgmma_wait<1>(); // the scores are complete
        pin(s);
        release(&t.empty[(n + next) % T::STAGES]);

        if (!T::SINGLE && !more(next))
            load_later(); // this item no longer needs Q's registers
        bool rose = softmax<false>(s, then, rows, scale, row - next * BLOCK_N,
                                   masked(next), more(next));

        // Collect the output
        output_done(tile, now);
        if (SECOND)
            add_part();
        if (rose)
        #pragma unroll
            for (int i = 0; i < OUT_COLS / 2; ++i) {
                out[i] *= rows.factor[i / 2 % 2];
                if (!SECOND)
                    part[i] *= rows.factor[i / 2 % 2];
            }

        tile = next;
    };

    // Finish the last tile
    auto finish = [&](uint32_t (&now)[BLOCK_N / MMA_K][4], bool add) {
        output_of(tile, now, add);
        if constexpr (T::SINGLE) {
            output_done(tile, now);
        } else {
            scores_later(); // the next item's; they are waited for at the end
            after = uniform<T>(next_of(t, plan, args, later));
            output_done.template operator()<1>(tile, now);
        }
        add_part();
    };

    // Go through the key tiles
    auto first = [&] {
        release(&t.empty[(n + tile) % T::STAGES]);
        softmax<true>(s, p, rows, scale, row - tile * BLOCK_N, masked(tile),
                      more(tile));
    };
    if constexpr (!T::PAIRED) {
        // Sum at most two tiles without pairs
        if (tile < w.tiles_n) {
            first();
            output_of(tile, p, false);
            for (int next; more(tile); tile = next) {
                next = tile + T::KEY_GROUPS;
                scores_of(next);
                wgmma_wait<0>();
                pin(s);
                pin(out);
                pin(p);
                release(&t.empty[(n + next) % T::STAGES]);
                release(&t.vt_empty[(n + tile) % T::STAGES]);
                if (softmax<false>(s, p, rows, scale, row - next * BLOCK_N,
                                   masked(next), more(next)))
        #pragma unroll
                    for (int i = 0; i < OUT_COLS / 2; ++i)
                        out[i] *= rows.factor[i / 2 % 2];
                output_of(next, p, true);
            }
            wgmma_wait<0>();
            pin(out);
            release(&t.vt_empty[(n + tile) % T::STAGES]);
        }
    } else if (tile < w.tiles_n) {
        if (!T::SINGLE && !more(tile))
            load_later();
        first();
        for (;;) { // p and p2 take turns
            if (!more(tile)) {
                finish(p, false);
                break;
            }
            step.template operator()<false>(p, p2);
            if (!more(tile)) {
                finish(p2, true);
                break;
            }
            step.template operator()<true>(p2, p);
        }
    }

    __half *to = (__half *)args.out + head_at;
    if constexpr (T::KEY_GROUPS > 1) {
        merge(t, out, rows, key_group, scale, to, row, w.length, v_scale);
    } else {
        float sums[2] = {out[HEAD_DIM / 2], out[HEAD_DIM / 2 + 2]};
        store<4>((float(&)[32])out, sums, to, row, w.length, v_scale);
    }
    if constexpr (!T::SINGLE) {
        wgmma_wait<0>(); // the next item's scores are complete
        pin(s);
    }
    return after;
}

// ---- Divide a CTA into roles ----
template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
attention(const __grid_constant__ attention_args args,
          const __grid_constant__ schedule plan,
          const __grid_constant__ CUtensorMap k_map,
          const __grid_constant__ CUtensorMap v_map)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    tiles<T> &t = *(tiles<T> *)memory;

    // Ask for the tensor maps
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" : : "l"(&k_map) : "memory");
        asm volatile("prefetch.tensormap [%0];" : : "l"(&v_map) : "memory");
    }

    if constexpr (T::RAGGED)
        tabulate(t, plan, args.shape);
    work w = uniform<T>(find(t, plan, args, 0));
    uint32_t q[HEAD_DIM / MMA_K][4];
    head_scales scales;

    // Ask for Q before anything else
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP - 1, 0);
    if (threadIdx.x >= WARPGROUP) { // loads Q while the barriers are made
        int row = w.m * T::BLOCK_M + group % T::ROW_GROUPS * MMA_M +
                  threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
        scales = load_scales(args, plan, w.pair);
        load_q(q, args, row, (size_t)w.pair * args.shape.seq_len * HEAD_DIM);
    }

    // Begin with the barriers and the first tile
    if (threadIdx.x == 0) {
        for (int i = 0; i < T::STAGES; ++i) {
            barrier_init(&t.k_full[i], 1);
            barrier_init(&t.v_full[i], 1);
            if (i == 0) { // loading the first tile needs only these barriers
                // Let the TMA see the barriers
                asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");

                if (w.tiles_n > 0)
                    load(t, &k_map, &v_map, 0, 0, w.pair);
            }
            barrier_init(&t.empty[i], 4 + 4 * T::ROW_GROUPS); // one arrival a warp
            barrier_init(&t.vt_full[i], 4);
            barrier_init(&t.vt_empty[i], 4 * T::ROW_GROUPS);
        }

        // Let the TMA see the barriers
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    __syncthreads(); // all mbarriers are initialised

    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"
                     :
                     : "n"(T::PRODUCER_REGISTERS));
        produce(t, plan, args, &k_map, &v_map, w);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;"
                     :
                     : "n"(T::CONSUMER_REGISTERS));

        // Compute this CTA's items
        int n = 0, key_group = T::KEY_GROUPS == 1 ? 0 : group / T::ROW_GROUPS;
        float s[BLOCK_N / 2]; // [64][128], handed on from item to item
        work later = uniform<T>(next_of(t, plan, args, w));
        if (key_group < w.tiles_n) {
            barrier_wait(&t.k_full[key_group % T::STAGES], 0);
            queue_scores(s, q, describe<HEAD_DIM>(t.k[key_group % T::STAGES]));
            wgmma_wait<0>();
            pin(s);
        }
        while (w.tiles_n > 0) {
            work after = attend(t, plan, args, w, later, n, q, scales, s);
            n += w.tiles_n;
            w = later;
            later = after;
        }
    }
}

// ---- Describe K or V to the TMA ----

// cuTensorMapEncodeTiled is a driver function; the runtime finds its address.
typedef CUresult (*encode_function)(
    CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill);

// Describes K or V [pairs][seq_len][HEAD_DIM] to the TMA, in boxes of BLOCK_N
// rows of one head, with a swizzle of 64 bytes.
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
constexpr size_t SECTION_BYTES = 17000000; // a section's K and V: 1/3 of the L2

// 1 / b, to be passed to quotient().
static float reciprocal(int b) { return 1.0f / (float)b; }

// Divides the heads into sections, and the items of a section, heaviest first,
// into rounds of one item for each of `ctas` CTAs.
static struct schedule plan_of(const struct shape *shape, int block_m,
                               int ctas, const int *lengths)
{
    int pairs = shape->batch * shape->heads;
    struct schedule plan = {.lengths = lengths};
    plan.tiles_m = (shape->seq_len + block_m - 1) / block_m;
    size_t most = SECTION_BYTES / ((size_t)shape->seq_len * 2 * HEAD_DIM);
    plan.section = most < 1 ? 1 : most < (size_t)pairs ? (int)most : pairs;
    plan.sections = (pairs + plan.section - 1) / plan.section;
    plan.last = pairs - (plan.sections - 1) * plan.section;
    plan.rounds = (plan.section * plan.tiles_m + ctas - 1) / ctas;
    plan.by_section = reciprocal(plan.section);
    plan.by_last = reciprocal(plan.last);
    plan.by_rounds = reciprocal(plan.rounds);
    plan.by_heads = reciprocal(shape->heads);
    return plan;
}

template <class T>
static cudaError_t launch_as(const struct attention_args *args,
                             const int *lengths, int sms, cudaStream_t stream)
{
    // Ask for more shared memory
    static bool raised; // whether a CTA may have this much shared memory
    if (!raised) {
        cudaError_t error = cudaFuncSetAttribute(
            attention<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
            sizeof(tiles<T>));
        if (error)
            return error;
        raised = true;
    }

    CUtensorMap k_map, v_map;
    cudaError_t error = describe_tensor(&k_map, args->k, &args->shape);
    if (!error)
        error = describe_tensor(&v_map, args->v, &args->shape);
    if (error)
        return error;
    unsigned pairs = args->shape.batch * args->shape.heads;
    unsigned tiles_m = (args->shape.seq_len + T::BLOCK_M - 1) / T::BLOCK_M;
    unsigned ctas = min(pairs * tiles_m, (unsigned)sms);
    struct schedule plan = plan_of(&args->shape, T::BLOCK_M, ctas, lengths);
    dim3 grid = T::SINGLE ? dim3(pairs, tiles_m) : dim3(ctas);
    attention<T><<<grid, T::THREADS, sizeof(tiles<T>), stream>>>(
        *args, plan, k_map, v_map);
    return cudaGetLastError();
}

// ---- Name the tilings ----
typedef tiling<1, 1, 1, false> short_keys; // one tile of keys
typedef tiling<1, 2, 4, false> few_tiles;  // two or fewer key tiles a warpgroup
typedef tiling<1, 2, 4, true> few_rows;    // too few rows for all SMs
typedef tiling<2, 1, 4, true> many_rows;
typedef tiling<2, 1, 4, true, true> ragged_rows;

// ---- Choose a tiling by the shape ----
static cudaError_t launch_ragged(const struct attention_args *args,
                                 const int *lengths, cudaStream_t stream)
{
    int device, sms;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount,
                                       device);
    if (error)
        return error;
    size_t pairs = (size_t)args->shape.batch * args->shape.heads;
    int seq_len = args->shape.seq_len;
    size_t items = pairs * ((seq_len + MMA_M - 1) / MMA_M);
    if (items >= 1 << 22)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%zu query tiles, less than 2^22", items);
    if (lengths && (args->shape.batch > SEQUENCES ||
                    seq_len > LEVELS * ragged_rows::BLOCK_M))
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%d sequences of up to %d, at most %d and %d",
                              args->shape.batch, seq_len, SEQUENCES,
                              LEVELS * ragged_rows::BLOCK_M);
    if (lengths)
        return launch_as<ragged_rows>(args, lengths, sms, stream);
    if (items > (size_t)sms)
        return launch_as<many_rows>(args, NULL, sms, stream);
    if (seq_len > 4 * BLOCK_N)
        return launch_as<few_rows>(args, NULL, sms, stream);
    if (seq_len > BLOCK_N)
        return launch_as<few_tiles>(args, NULL, sms, stream);
    return launch_as<short_keys>(args, NULL, sms, stream);
}

static cudaError_t launch(const struct attention_args *args,
                          cudaStream_t stream)
{
    return launch_ragged(args, NULL, stream);
}

// ---- Hand the last program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch20_room",
        .title = "A causal mask, with room after a rise",
        .chapter = 20,
        .kernel = (const void *)attention<many_rows>,
        .threads = many_rows::THREADS,
        .dynamic_shared_bytes = sizeof(tiles<many_rows>),
        .p = {P_E4M3, (int)TOP, true, BLOCK_N, LAG, true, ROOM, LEAST / 8 - 7,
              LOST / 8 - 7, HEAVY / 8},
        .tensor_flops_share = 1,
        .mask = MASK_CAUSAL,
        .launch = launch,
        .launch_ragged = launch_ragged,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
