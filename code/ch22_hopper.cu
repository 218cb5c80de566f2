// Tangled from chapters/22-prompt.md; edit that, then `make tangle`.

// Chapter 22 on Hopper: prompts of more than FEW_ROWS rows are multiplied by
// wgmma. A kernel puts new tokens into the cache; in the next kernel two
// warpgroups of producers have the TMA bring granules, and convert K and V to
// half, and warpgroups of consumers have 64 rows each.

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Name the sizes ----
constexpr int MMA_M = 16, MMA_N = 8;  // rows and columns of a product
constexpr int GRANULE = 16;           // tokens: one step of P V
constexpr int WARPS = 4;              // of a CTA
constexpr int TILE = WARPS * GRANULE; // keys: each warp brings a granule
constexpr int STAGES = 3;             // tiles: two on their way, one at work
constexpr int SLOTS = WARPS * MMA_M;  // rows of all warps' parts
constexpr int LEAST_SCALE = 95;       // 2^-32, for the smallest half
constexpr int MOST_PARTS = 1024;      // CTAs whose parts are merged
constexpr float LOG2_E = 1.44269504f;
constexpr float LEAST = -1e30f;       // below all scores, and finite
constexpr float LARGEST_P = 8;        // log2(P) past which references rise

// ---- Name the sizes of Hopper's tiles ----
constexpr int FEW_ROWS = 64;   // of a group, at most, for mma.sync
constexpr int WARPGROUP = 128; // threads
constexpr int PRODUCERS = 2;   // warpgroups: one makes V half, one K
constexpr int GROUP_ROWS = 64; // rows that a warpgroup's wgmma computes
constexpr int KEYS = 128;      // of a tile
constexpr int PANEL = 64;      // columns of a row, or keys of a column of V
constexpr int MMA_K = 16;      // depth of a product
constexpr int ROW_BYTES = 2 * PANEL; // of a panel of halves: the swizzle's 128
constexpr int GRANULES = KEYS / GRANULE;
static_assert(GRANULES * 4 == 32, "a lane has the scales of four keys");

typedef float scores[KEYS / 2];             // a lane's part of [64][KEYS]
typedef uint32_t halves[KEYS / MMA_K][4]; // the lane's P, as operands A

// ---- Lay out a granule ----
template <int D> struct alignas(16) granule { // as it lies in the cache
    uint8_t k[D / 64][GRANULE][64]; // all tokens' columns 0-63, then the rest
    uint8_t v[D / 32][32][16];      // [][lane]: 4 columns 8 apart, of 4 tokens
};
struct alignas(16) granule_scales {
    uint8_t k_and_v[GRANULE / 4][2][4]; // of four tokens: K's, V's
};

// ---- Say where an element lies in its page ----
template <int D>
static int code_place(enum cache_tensor tensor, int slot, int d)
{
    constexpr int BYTES = sizeof(granule<D>);
    int token = slot % GRANULE, first = slot / GRANULE * BYTES;
    if (tensor == CACHE_K)
        return first + d / 64 * GRANULE * 64 + token * 64 + d % 64;
    int lane = d % MMA_N * 4 + token / 4;
    return first + GRANULE * D + d / 32 * 512 + lane * 16 +
           d / MMA_N % 4 * 4 + token % 4;
}

static int scale_place(enum cache_tensor tensor, int slot)
{
    int first = slot / GRANULE * (int)sizeof(granule_scales);
    return first + slot % GRANULE / 4 * 8 + tensor * 4 + slot % 4;
}

// ---- Lay out shared memory ----
template <int D> struct stage { // a tile of keys
    granule<D> codes[WARPS];
    granule_scales scales[WARPS];
};
template <int D> union shared {
    stage<D> ring[STAGES];
    struct {
        float2 out[SLOTS][D / 2 + 4]; // + 4: no bank conflicts
        float2 state[SLOTS];          // reference, sum
    } end;
};

// The sizes that the launch chooses.
template <int D_, int ROW_GROUPS_, bool IN_PLACE_, int STAGES_, int HALVES_,
          int PRODUCER_REGISTERS_>
struct tiling {
    static constexpr int D = D_;
    static constexpr int ROW_GROUPS = ROW_GROUPS_; // of 64 rows each
    static constexpr bool IN_PLACE = IN_PLACE_; // whether P replaces the scores
    static constexpr int STAGES = STAGES_;      // tiles of codes
    static constexpr int HALVES = HALVES_;      // tiles of K, and of V, in half
    static constexpr int BLOCK_M = GROUP_ROWS * ROW_GROUPS;
    static constexpr int THREADS = WARPGROUP * (PRODUCERS + ROW_GROUPS);
    static constexpr int PRODUCER_REGISTERS = PRODUCER_REGISTERS_;
    static constexpr int CONSUMER_REGISTERS =
        (512 - PRODUCERS * PRODUCER_REGISTERS) / ROW_GROUPS / 8 * 8;
};

// ---- Lay out shared memory for Hopper ----

// What the producers' first warp has to load next. It is in shared memory, as
// they have few registers.
struct loader {
    const int *table; // pages of the sequence
    int head, old, length;
    int tile, end_tile;  // nothing is left if these are the same
    int round;           // see next_work()
    int pages[GRANULES]; // a page number for each box of the tile, on its way
};

template <class T> struct alignas(1024) tiles {
    __half k[T::HALVES][KEYS * T::D];           // [D / 64][KEYS][64]
    __half v[T::HALVES][KEYS * T::D];           // [KEYS / 64][D][64]
    __half q[T::BLOCK_M * T::D];                // [groups][D / 64][64][64]
    uint8_t codes[T::STAGES][2 * KEYS * T::D];  // panels of K, then of V
    granule_scales scales[T::STAGES][GRANULES]; // as they came
    loader next;
    int left[T::STAGES];     // tokens from the tile's first on
    int2 largest[T::HALVES]; // exponents of a tile's scales: of K, of V
    uint64_t q_full, q_empty;
    uint64_t full[T::STAGES], empty[T::STAGES];
    uint64_t k_full[T::HALVES], k_empty[T::HALVES];
    uint64_t v_full[T::HALVES], v_empty[T::HALVES];
};

// A place in a ring of stages. The barriers of a stage are waited for with
// `parity`; but who fills a stage of halves waits for k_empty or v_empty with
// the other parity, which lets the first round pass.
template <int STAGES> struct place {
    int stage, parity;
    __device__ place next() const
    {
        return stage + 1 < STAGES ? place{stage + 1, parity}
                                  : place{0, parity ^ 1};
    }
};

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

// D += A B with A [16][32] and B [32][8] E4M3, D [16][8] float.
__device__ void mma_codes(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                          uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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

// 2^x; 0 where the result would be denormal.
__device__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The maximum of lanes whose numbers differ only in bits FROM to TO / 2.
template <int FROM, int TO> __device__ float lanes_max(float x)
{
    for (int i = FROM; i < TO; i *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, i));
    return x;
}

// ---- Find the power of two that fits ----

// E8M0: 2^(code - 127). 448 is 1.75 * 2^8: a mantissa past .75 carries.
__device__ uint32_t scale_for(float largest)
{
    int code = (int)((__float_as_uint(largest) + 0x1fffff) >> 23) - 8;
    return max(code, LEAST_SCALE);
}

__device__ float power(uint32_t code) { return __uint_as_float(code << 23); }

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

// ---- Copy sixteen bytes without waiting ----
__device__ void copy_sixteen(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

__device__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int N> __device__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

// How many query heads have their rows in one tile.
__host__ __device__ int heads_of_tile(const cache_args &c) { return c.queries; }

// ---- Find the CTA's rows and keys ----
struct work {
    const int *table;   // pages of the sequence
    int pair;           // of a sequence and a head of keys
    int group, head;    // query heads of the tile: how many, and the first
    int old, length;    // tokens: before the launch, and with the new ones
    int asked;          // new tokens, the last of the sequence
    int first_row, end; // rows of the tile: first, and past the last
    int tile, end_tile; // key tiles of this CTA's part
    int own, own_end;   // tokens that this CTA puts into the cache
};

// Rows go query by query: the heads of a group are neighbours.
__device__ int query_of(const work &w, int row)
{
    return row / w.group;
}

// How many keys a row sees.
__device__ int seen_by(const work &w, int row)
{
    // Count the keys that a row sees
    int query = min(query_of(w, row), w.asked - 1); // past the end: the last query
    return w.old + query + 1;
}

template <int ROWS> __device__ work find_work(const prompt_args &args)
{
    const cache_args &c = args.cache;
    work w;
    w.group = heads_of_tile(c);
    w.head = blockIdx.y * w.group;
    w.pair = w.head / c.queries;
    int batch = w.pair / c.shape.heads, tile_m = gridDim.z - 1 - blockIdx.z;
    w.table = c.table + (size_t)batch * c.max_pages;
    w.length = c.lengths[batch];
    w.asked = args.asked[batch];
    w.old = w.length - w.asked;
    w.first_row = tile_m * ROWS; // tile_m counts down: most keys come first
    w.end = min(w.first_row + ROWS, w.asked * w.group);
    int tiles = (seen_by(w, w.end - 1) + TILE - 1) / TILE;
    w.tile = tiles * blockIdx.x / gridDim.x;
    w.end_tile = tiles * (blockIdx.x + 1) / gridDim.x;

    // Own the tokens whose first query is here
    int up = w.first_row + w.group - 1; // so that the division rounds up
    w.own = w.old + query_of(w, up);
    w.own_end = min(w.old + query_of(w, up + ROWS), w.length);
    if (w.head % c.queries != 0)
        w.own_end = w.own; // a tile without the group's first head owns none

    return w;
}

// ---- Load the queries, and round them to codes ----
template <int D> struct queries {
    uint32_t codes[2][D / 64][4]; // of rows lane / 4 and + 8: 16 of 64 columns
    float scale[2];               // of these rows' scores
};

// The index of a row in Q and in the output.
__device__ size_t row_place(const prompt_args &args, const work &w, int row)
{
    size_t head = w.head + row % w.group;
    return head * args.newest + query_of(w, row);
}

template <int D>
__device__ void load_queries(queries<D> &q, const prompt_args &args,
                             const work &w, int first_row)
{
    int lane = threadIdx.x % 32;
    for (int m = 0; m < 2; ++m) {
        int row = first_row + m * 8 + lane / 4;
        float x[D / 64][4][4] = {}, largest = 0;
        if (row < w.end)
            for (int h = 0; h < D / 64; ++h) {
                const uint4 *from = (const uint4 *)args.cache.q +
                                    row_place(args, w, row) * (D / 8) + h * 8;
                uint4 raw[2] = {from[2 * (lane % 4)], from[2 * (lane % 4) + 1]};
                for (int i = 0; i < 16; ++i) {
                    x[h][i / 4][i % 4] = __half2float(((__half *)raw)[i]);
                    largest = fmaxf(largest, fabsf(x[h][i / 4][i % 4]));
                }
            }
        uint32_t scale = scale_for(lanes_max<1, 4>(largest));
        q.scale[m] = power(scale) * args.cache.softmax_scale * LOG2_E;
        for (int i = 0; i < D / 4; ++i)
            x[i / 16][i / 4 % 4][i % 4] *= power(254 - scale); // exact
        for (int i = 0; i < D / 16; ++i)
            q.codes[m][i / 4][i % 4] = pack(x[i / 4][i % 4]);
    }
}

// ---- Find a warp's granule of a tile ----

// The page of the warp's granule; 0 past the table.
__device__ int page_of(const prompt_args &args, const work &w, int tile)
{
    int token = tile * TILE + threadIdx.x / 32 * GRANULE;
    int page = token >> (31 - __clz(args.cache.page)); // a power of two
    return page < args.cache.max_pages ? w.table[page] : 0;
}

// A granule's place in the cache, among those of all heads.
__device__ size_t find(const prompt_args &args, const work &w, int first,
                       int page_id)
{
    int heads = args.cache.shape.heads, head = w.pair % heads;
    int granules = args.cache.page / GRANULE;
    return ((size_t)page_id * heads + head) * granules +
           first / GRANULE % granules;
}

// Puts K of the granule that begins with token `first` into `to`: old tokens as
// they are in the cache (in_cache), new tokens quantised. Writes those that the
// CTA owns to the cache, too. Two lanes share a token, each has half of its
// columns.
template <int D>
__device__ void put_keys(granule<D> &to, granule_scales &scales,
                         granule<D> *in_cache, granule_scales *scales_in_cache,
                         const prompt_args &args, const work &w, int first)
{
    int token = threadIdx.x % 32 / 2, column = threadIdx.x % 2 * (D / 2);
    int at = first + token;
    bool fresh = at >= w.old && at < w.length;
    bool own = at >= w.own && at < w.own_end;
    uint4 raw[D / 16] = {}, codes[D / 32] = {};
    float largest = 0;
    if (fresh) {
        size_t row = (size_t)w.pair * args.newest + at - w.old;
        const __half *k = (const __half *)args.cache.new_k + row * D + column;
        const uint4 *from = (const uint4 *)k;
        for (int i = 0; i < D / 16; ++i)
            raw[i] = from[i];
    }
    const __half *x = (const __half *)raw;
    for (int i = 0; i < D / 2; ++i)
        largest = fmaxf(largest, fabsf(__half2float(x[i])));
    uint32_t scale = scale_for(lanes_max<1, 2>(largest));
    float inverse = power(254 - scale);
    for (int i = 0; i < D / 8; ++i) {
        float four[4];
        for (int j = 0; j < 4; ++j)
            four[j] = __half2float(x[4 * i + j]) * inverse;
        ((uint32_t *)codes)[i] = pack(four);
    }
    int half = column / 64, in_half = column % 64, quad = token / 4;
    if (at < w.old)
        scale = scales_in_cache->k_and_v[quad][CACHE_K][token % 4];
    for (int i = 0; i < D / 32; ++i) {
        uint4 *old = (uint4 *)&in_cache->k[half][token][in_half] + i;
        if (at < w.old)
            codes[i] = *old;
        ((uint4 *)&to.k[half][token][in_half])[i] = codes[i];
        if (own)
            *old = codes[i];
    }
    if (column == 0)
        scales.k_and_v[quad][CACHE_K][token % 4] = (uint8_t)scale;
    if (column == 0 && own)
        scales_in_cache->k_and_v[quad][CACHE_K][token % 4] = (uint8_t)scale;
}

// Like put_keys(), for V: a lane has every eighth column of four tokens.
template <int D>
__device__ void put_values(granule<D> &to, granule_scales &scales,
                           granule<D> *in_cache,
                           granule_scales *scales_in_cache,
                           const prompt_args &args, const work &w, int first)
{
    int lane = threadIdx.x % 32, quad = lane % 4, at = first + 4 * quad;
    __half x[D / MMA_N][4];
    uint32_t scale[4];
    float inverse[4];
    for (int t = 0; t < 4; ++t) {
        bool fresh = at + t >= w.old && at + t < w.length;
        size_t row = (size_t)w.pair * args.newest;
        row += fresh ? at + t - w.old : 0;
        const __half *from = (const __half *)args.cache.new_v + row * D;
        float largest = 0;
        for (int i = 0; i < D / MMA_N; ++i) {
            x[i][t] = fresh ? from[i * MMA_N + lane / 4] : __half(0);
            largest = fmaxf(largest, fabsf(__half2float(x[i][t])));
        }
        scale[t] = scale_for(lanes_max<4, 32>(largest));
        inverse[t] = power(254 - scale[t]);
        if (at + t < w.old)
            scale[t] = scales_in_cache->k_and_v[quad][CACHE_V][t];
    }
    for (int i = 0; i < D / MMA_N; ++i) {
        float four[4];
        for (int t = 0; t < 4; ++t)
            four[t] = __half2float(x[i][t]) * inverse[t];
        uint32_t codes = pack(four); // zeros for tokens that are not new
        uint8_t *old = &in_cache->v[i / 4][lane][i % 4 * 4];
        for (int t = 0; t < 4; ++t) {
            if (at + t < w.old)
                codes |= (uint32_t)old[t] << 8 * t;

            // Put a code of V into the cache
            if (at + t >= w.own && at + t < w.own_end)
                old[t] = (uint8_t)(codes >> 8 * t);
        }
        *(uint32_t *)&to.v[i / 4][lane][i % 4 * 4] = codes;
    }
    if (lane < 4)
        for (int t = 0; t < 4; ++t) {
            scales.k_and_v[quad][CACHE_V][t] = (uint8_t)scale[t];
            if (at + t >= w.own && at + t < w.own_end)
                scales_in_cache->k_and_v[quad][CACHE_V][t] = (uint8_t)scale[t];
        }
}

// ---- Bring a tile's granules ----
template <int D>
__device__ void fetch(stage<D> &to, const prompt_args &args, const work &w,
                      int tile, int page_id)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int first = tile * TILE + warp * GRANULE;
    size_t at = find(args, w, first, page_id);
    granule<D> *codes = (granule<D> *)args.cache.codes + at;
    granule_scales *scales = (granule_scales *)args.cache.scales + at;

    // See whether all of its tokens are in the cache
    bool all_old = first + GRANULE <= w.old;

    if (tile < w.end_tile && all_old) {
        for (int i = lane; i < sizeof(granule<D>) / 16; i += 32)
            copy_sixteen((uint4 *)&to.codes[warp] + i, (uint4 *)codes + i);
        if (lane < sizeof(granule_scales) / 16)
            copy_sixteen((uint4 *)&to.scales[warp] + lane,
                         (uint4 *)scales + lane);
    } else if (tile < w.end_tile) {
        granule<D> &here = to.codes[warp];
        put_keys(here, to.scales[warp], codes, scales, args, w, first);
        put_values(here, to.scales[warp], codes, scales, args, w, first);
    }
    copy_commit(); // even an empty group, so that the wait counts right
}

// s[tile]: rows lane / 4 and + 8, keys 4 (lane % 4) + 2 tile and the next.
template <int D>
__device__ void score(float (&s)[2][4], const queries<D> &q,
                      const granule<D> &g)
{
    int lane = threadIdx.x % 32, row = lane / 4;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int h = 0; h < D / 64; ++h) {
            int key = row / 2 * 4 + row % 2 + 2 * tile;
            uint4 k = *(const uint4 *)&g.k[h][key][lane % 4 * 16];
            const uint32_t(&low)[4] = q.codes[0][h], (&high)[4] = q.codes[1][h];
            uint32_t first[4] = {low[0], high[0], low[1], high[1]};
            uint32_t second[4] = {low[2], high[2], low[3], high[3]};
            mma_codes(s[tile], first, k.x, k.y);
            mma_codes(s[tile], second, k.z, k.w);
        }
}

// ---- Weigh a warp's granules of a tile ----
template <int D> struct row_state { // of a lane: rows lane / 4 and + 8
    float reference[2], sum[2]; // log2 of P's unit; sums of P without V's scale
    float out[D / MMA_N][4];
};

// Raises the references to the largest scores, and rescales.
template <int D>
__device__ void raise(row_state<D> &r, const float (&largest)[2])
{
    for (int m = 0; m < 2; ++m) {
        float reference = fmaxf(r.reference[m], lanes_max<1, 4>(largest[m]));
        float factor = exp2_approx(r.reference[m] - reference);
        r.reference[m] = reference;
        r.sum[m] *= factor;
        for (int n = 0; n < D / MMA_N; ++n)
            for (int i = 0; i < 2; ++i)
                r.out[n][2 * m + i] *= factor;
    }
}

// Makes p from s for N granules, every STRIDE-th of the tile. `last`: the last
// key that each row of the lane sees, counted from the first granule.
template <int D, int N, int STRIDE>
__device__ void weigh(uint32_t (&p)[N][4], row_state<D> &r, float (&s)[N][2][4],
                      const granule_scales *scales, const float (&scale)[2],
                      const int (&last)[2], bool masked)
{
    int quad = threadIdx.x % 4;
    float inverse[N][4], largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < N; ++n) {
        uint2 both = *(const uint2 *)scales[n * STRIDE].k_and_v[quad];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float k_scale = power(both.x >> 8 * i & 0xff);
            uint32_t v_scale = both.y >> 8 * i & 0xff;
            inverse[n][i] = power(254 - v_scale);
            for (int m = 0; m < 2; ++m) {
                float &y = s[n][i / 2][2 * m + i % 2];

                // Scale a score, and add the exponent of V's scale
                y = fmaf(y, k_scale * scale[m], (float)v_scale);
            }
        }
    }

    // Mask the keys after a row's own token
    if (masked)
        for (int n = 0; n < N; ++n)
            for (int i = 0; i < 4; ++i)
                for (int m = 0; m < 2; ++m)
                    if (n * STRIDE * GRANULE + 4 * quad + i > last[m])
                        s[n][i / 2][2 * m + i % 2] = -INFINITY;

#pragma unroll
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < 8; ++i)
            largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[n][i / 4][i % 4]);
    bool high = largest[0] > r.reference[0] + LARGEST_P ||
                largest[1] > r.reference[1] + LARGEST_P;
    if (__any_sync(0xffffffff, high))
        raise(r, largest);
#pragma unroll
    for (int n = 0; n < N; ++n)
        for (int m = 0; m < 2; ++m)
            for (int tile = 0; tile < 2; ++tile) {
                float p0 = exp2_approx(s[n][tile][2 * m] - r.reference[m]);
                float p1 = exp2_approx(s[n][tile][2 * m + 1] - r.reference[m]);
                r.sum[m] = fmaf(p0, inverse[n][2 * tile], r.sum[m]);
                r.sum[m] = fmaf(p1, inverse[n][2 * tile + 1], r.sum[m]);
                __half2 two = __floats2half2_rn(p0, p1);
                p[n][2 * tile + m] = *(uint32_t *)&two;
            }
}

// ---- Add P V of a granule ----
template <int D>
__device__ void accumulate(row_state<D> &r, const uint32_t (&p)[4],
                           const granule<D> &g)
{
#pragma unroll
    for (int piece = 0; piece < D / 32; ++piece) {
        uint4 four = *(const uint4 *)g.v[piece][threadIdx.x % 32];
        const uint32_t v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j)
            mma(r.out[4 * piece + j], p, two_halves<0>(v[j]),
                two_halves<1>(v[j]));
    }
}

// ---- Merge the warps that had the same rows ----

// Columns 2 d and 2 d + 1 of a row: a warp's part, a CTA's, or the whole.
struct part {
    float reference, sum;
    float2 out;
};

template <int D> __device__ void put_rows(shared<D> &t, const row_state<D> &r)
{
    int lane = threadIdx.x % 32;
    for (int m = 0; m < 2; ++m) {
        int slot = threadIdx.x / 32 * MMA_M + m * 8 + lane / 4;
        float sum = r.sum[m];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        for (int n = 0; n < D / MMA_N; ++n)
            t.end.out[slot][n * 4 + lane % 4] =
                float2{r.out[n][2 * m], r.out[n][2 * m + 1]};
        if (lane % 4 == 0)
            t.end.state[slot] = float2{r.reference[m], sum};
    }
}

template <int D, int ROWS>
__device__ part merge_warps(const shared<D> &t, int row, int d)
{
    part all = {LEAST, 0, {0, 0}}; // a CTA may have no keys at all
    for (int slot = row; slot < SLOTS; slot += ROWS)
        all.reference = fmaxf(all.reference, t.end.state[slot].x);
    for (int slot = row; slot < SLOTS; slot += ROWS) {
        float2 state = t.end.state[slot], out = t.end.out[slot][d];
        float weight = exp2_approx(state.x - all.reference);
        all.sum += weight * state.y;
        all.out.x += weight * out.x;
        all.out.y += weight * out.y;
    }
    return all;
}

// ---- Keep the parts of CTAs ----

// What a launch has in scratch memory. A unit is a row tile of a pair; a unit's
// parts are neighbours.
template <int D> struct part_memory {
    unsigned arrived[MOST_PARTS / 2][SLOTS]; // parts of a row; 0 in the end
    float2 parts[MOST_PARTS][SLOTS][D / 2 + 1]; // out; reference, sum
};

template <int D>
__device__ void store_row(const prompt_args &args, const work &w, int row,
                          int d, const part &p)
{
    float norm = 1 / p.sum;
    ((__half2 *)args.cache.out)[row_place(args, w, row) * (D / 2) + d] =
        __floats2half2_rn(p.out.x * norm, p.out.y * norm);
}

template <int D>
__device__ void store_part(const prompt_args &args, int at, int row, int d,
                           const part &p)
{
    float2 *to = ((part_memory<D> *)args.cache.scratch)->parts[at][row];
    to[d] = p.out;
    if (d == 0)
        to[D / 2] = float2{p.reference, p.sum};
}

// ---- Merge the parts ----

// Whether this warp is the last to have stored a part of the row.
template <int D>
__device__ bool is_last(const prompt_args &args, int unit, int row)
{
    unsigned *arrived =
        &((part_memory<D> *)args.cache.scratch)->arrived[unit][row];
    unsigned before = 0;
    __syncwarp(); // the part is stored
    if (threadIdx.x % 32 == 0)
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(arrived), "r"(gridDim.x - 1)
                     : "memory");
    before = __shfl_sync(0xffffffff, before, 0);
    __syncwarp(); // the others' parts are read only after this count
    return before == gridDim.x - 1; // the last count set it to 0 again
}

template <int D>
__device__ part merge_parts(const prompt_args &args, int first, int row, int d)
{
    constexpr int AT_ONCE = 16; // loads on their way
    const auto *parts = ((const part_memory<D> *)args.cache.scratch)->parts;
    part all = {LEAST, 0, {0, 0}};
    for (int i = 0; i < gridDim.x; i += AT_ONCE) {
        float2 state[AT_ONCE], out[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            bool there = i + j < gridDim.x;
            const float2 *from = parts[first + (there ? i + j : 0)][row];
            state[j] = there ? __ldcg(&from[D / 2]) : float2{LEAST, 0};
            out[j] = there ? __ldcg(&from[d]) : float2{0, 0};
        }

        // Add parts in the largest one's unit
        float reference = all.reference;
        #pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            reference = fmaxf(reference, state[j].x);
        float factor = exp2_approx(all.reference - reference);
        all = {reference, all.sum * factor, {all.out.x * factor, all.out.y * factor}};
        #pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            float weight = exp2_approx(state[j].x - reference);
            all.sum += weight * state[j].y;
            all.out.x += weight * out[j].x;
            all.out.y += weight * out[j].y;
        }
    }
    return all;
}

// ---- Attend to a part of a row tile's keys ----
template <int D, int ROW_WARPS>
__global__ void __launch_bounds__(32 * WARPS)
attention(const __grid_constant__ prompt_args args)
{
    constexpr int ROWS = ROW_WARPS * MMA_M, KEY_WARPS = WARPS / ROW_WARPS;
    extern __shared__ __align__(16) unsigned char memory[];
    shared<D> &t = *(shared<D> *)memory;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const work w = find_work<ROWS>(args);
    if (w.first_row >= w.end)
        return; // in a ragged batch some sequences have fewer new tokens

    // Start the first tiles, and load the queries
    int page_id = page_of(args, w, w.tile);
    for (int i = 0; i < STAGES - 1; ++i) {
        fetch(t.ring[i], args, w, w.tile + i, page_id);
        page_id = page_of(args, w, w.tile + i + 1); // a tile ahead
    }
    int first_row = w.first_row + warp % ROW_WARPS * MMA_M;
    int key_part = warp / ROW_WARPS; // the warp's first granule of a tile
    queries<D> q;
    load_queries(q, args, w, first_row);
    row_state<D> r = {};
    r.reference[0] = r.reference[1] = LEAST; // finite: a row may see no key here

    // Take a step for each tile
    int all_see = seen_by(w, w.first_row); // keys that all rows see
    for (int tile = w.tile, at = 0; tile < w.end_tile; ++tile) {
        copy_wait<STAGES - 2>();
        __syncthreads(); // the tile is complete; nobody reads the one before
        int free = (at + STAGES - 1) % STAGES;
        fetch(t.ring[free], args, w, tile + STAGES - 1, page_id);
        page_id = page_of(args, w, tile + STAGES);
        const stage<D> &now = t.ring[at];
        float s[ROW_WARPS][2][4] = {};
        uint32_t p[ROW_WARPS][4];
    #pragma unroll
        for (int n = 0; n < ROW_WARPS; ++n)
            score(s[n], q, now.codes[n * KEY_WARPS + key_part]);
        int first = tile * TILE + key_part * GRANULE, last[2];
        for (int m = 0; m < 2; ++m)
            last[m] = seen_by(w, first_row + m * 8 + lane / 4) - 1 - first;

        // See whether the tile has keys that not every row sees
        bool masked = (tile + 1) * TILE > all_see;

        weigh<D, ROW_WARPS, KEY_WARPS>(p, r, s, now.scales + key_part, q.scale,
                                       last, masked);
    #pragma unroll
        for (int n = 0; n < ROW_WARPS; ++n)
            accumulate(r, p[n], now.codes[n * KEY_WARPS + key_part]);
        at = at + 1 < STAGES ? at + 1 : 0;
    }

    // Merge and store
    copy_wait<0>();
    __syncthreads(); // the parts overwrite the ring
    put_rows(t, r);
    __syncthreads();
    int unit = blockIdx.y * gridDim.z + blockIdx.z;
    for (int row = warp; row < w.end - w.first_row; row += WARPS)
        for (int merging = 0; merging < 2; ++merging) {
            if (merging && (gridDim.x == 1 || !is_last<D>(args, unit, row)))
                break;
            for (int d = lane; d < D / 2; d += 32) {
                part p = merging ? merge_parts<D>(args, unit * gridDim.x, row, d)
                                 : merge_warps<D, ROWS>(t, row, d);
                if (gridDim.x > 1 && !merging)
                    store_part<D>(args, unit * gridDim.x + blockIdx.x, row, d, p);
                else
                    store_row<D>(args, w, w.first_row + row, d, p);
            }
        }
}

// A warp has a granule with new tokens.
template <int D>
__global__ void __launch_bounds__(32 * WARPS)
append(const __grid_constant__ prompt_args args)
{
    __shared__ granule<D> codes[WARPS]; // written, never read
    __shared__ granule_scales scales[WARPS];
    asm volatile("griddepcontrol.launch_dependents;");
    const cache_args &c = args.cache;
    work w = {};
    int batch = blockIdx.y / c.shape.heads, warp = threadIdx.x / 32;
    w.pair = blockIdx.y;
    w.table = c.table + (size_t)batch * c.max_pages;
    w.length = w.own_end = c.lengths[batch];
    w.old = w.own = w.length - args.asked[batch];
    int at = w.old / GRANULE + blockIdx.x * WARPS + warp;
    int first = at * GRANULE;
    if (first >= w.length)
        return;
    size_t place = find(args, w, first, w.table[first / c.page]);
    granule<D> *to = (granule<D> *)c.codes + place;
    granule_scales *to_scales = (granule_scales *)c.scales + place;
    put_keys(codes[warp], scales[warp], to, to_scales, args, w, first);
    put_values(codes[warp], scales[warp], to, to_scales, args, w, first);
}

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

// Makes earlier ordinary stores visible to the tensor cores and the TMA.
__device__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// ---- Have the TMA bring granules ----

// Has the TMA load a box: one panel, swizzled, of the granules from `granule`
// on; zeros if `granule` is negative.
__device__ void tma_load(void *to, const CUtensorMap *map, uint64_t *barrier,
                         int granule, int panel)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %4, %3}], "
                 "[%5];"
                 :
                 : "r"(shared_address(to)), "l"(map), "r"(0), "r"(granule),
                   "r"(panel), "r"(shared_address(barrier))
                 : "memory");
}

__device__ void bulk_load(void *to, const void *from, int bytes,
                          uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes),
                   "r"(shared_address(barrier))
                 : "memory");
}

// ---- Name the registers of a product ----
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i)                                                          \
    FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

// ---- Queue products of 64 rows ----

// D = A B, or D += A B if `add`: A [64][16], B [128][16], halves in shared
// memory; D [64][128] float. Only queues it: see wgmma_wait().
__device__ void multiply(scores &d, uint64_t a, uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16"
                 ".f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
                 "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
                 "%57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, add, 1, 1, 0, 0;\n"
                 "}"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32),
                   SIXTEEN(d, 48)
                 : "l"(a), "l"(b), "r"((int)add));
}

// d += a b: a [64][16], halves in registers; b [D][16], halves in shared
// memory; d [64][D], floats. D is 64 here, and 128 in the next function.
__device__ void multiply_halves(float (&d)[32], const uint32_t (&a)[4],
                                uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16"
                 ".f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31"
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void multiply_halves(float (&d)[64], const uint32_t (&a)[4],
                                uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16"
                 ".f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
                 "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                 "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
                 "%57, %58, %59, %60, %61, %62, %63"
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32),
                   SIXTEEN(d, 48)
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

// ---- Find a CTA's row tiles ----

// How the row tiles of all groups are dealt out: by sections of groups whose
// keys fit into the L2 cache together, in each the tiles with most keys first.
struct schedule {
    int groups, tiles_m; // row tiles of a group
    int section;         // groups of a section
    int box;             // granules of a TMA's box
};

// Finds the CTA's next row tile from round `round` on. Every second round is
// dealt out backwards, so that all CTAs get about the same number of keys.
// Returns false if there is no more.
template <class T>
__device__ bool next_work(work &w, int &round, const prompt_args &args,
                          const schedule &plan)
{
    const cache_args &c = args.cache;
    int ctas = gridDim.y, items = plan.groups * plan.tiles_m;
    for (; round * ctas < items; ++round) {
        int place = round % 2 ? ctas - 1 - blockIdx.y : blockIdx.y;
        int item = round * ctas + place;
        if (item >= items)
            continue;
        int whole = plan.section * plan.tiles_m, section = item / whole;
        int first = section * plan.section, in_section = item % whole;
        int groups = min(plan.section, plan.groups - first);
        int tile_m = plan.tiles_m - 1 - in_section / groups;
        w.group = heads_of_tile(c);
        w.head = (first + in_section % groups) * w.group;
        w.pair = w.head / c.queries;
        int batch = w.pair / c.shape.heads;
        w.table = c.table + (size_t)batch * c.max_pages;
        w.length = c.lengths[batch];
        w.asked = args.asked[batch];
        w.old = w.length - w.asked;
        w.first_row = tile_m * T::BLOCK_M;
        w.end = min(w.first_row + T::BLOCK_M, w.asked * w.group);
        int tiles = (seen_by(w, w.end - 1) + KEYS - 1) / KEYS;
        w.tile = tiles * blockIdx.x / gridDim.x;
        w.end_tile = tiles * (blockIdx.x + 1) / gridDim.x;
        if (w.first_row < w.end) {
            ++round;
            return true;
        }
    }
    return false;
}

// ---- Load a key tile ----

// The thread's number, read anew at each call: what is computed from it need
// not stay in registers, of which producers have few, from tile to tile.
__device__ int thread_anew()
{
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// Has the tile's pages looked up, ahead of the load that needs them; takes
// the next row tile first if all tiles of the current one are loaded.
template <class T>
__device__ void look_up(tiles<T> &t, loader l, const prompt_args &args,
                        const schedule &plan)
{
    work w;
    if (l.tile >= l.end_tile && next_work<T>(w, l.round, args, plan)) {
        l.table = w.table;
        l.head = w.pair % args.cache.shape.heads;
        l.old = w.old;
        l.length = w.length;
        l.tile = w.tile;
        l.end_tile = w.end_tile;
    }
    int lane = thread_anew(), boxes = GRANULES / plan.box;
    __syncwarp(); // all lanes have read what is overwritten
    if (lane == 0) {
        t.next.table = l.table;
        t.next.head = l.head;
        t.next.old = l.old;
        t.next.length = l.length;
        t.next.tile = l.tile;
        t.next.end_tile = l.end_tile;
        t.next.round = l.round;
    }
    int token = l.tile * KEYS + lane * plan.box * GRANULE;
    if (lane < boxes && l.tile < l.end_tile && token < l.length)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     :
                     : "r"(shared_address(&t.next.pages[lane])),
                       "l"(l.table + (token >> (31 - __clz(args.cache.page))))
                     : "memory");
    __syncwarp();
}

// Loads the next tile: a lane for each box of each panel.
template <class T>
__device__ void load(tiles<T> &t, place<T::STAGES> at, bool waits,
                     const prompt_args &args, const schedule &plan,
                     const CUtensorMap *map)
{
    constexpr int PANELS = 2 * T::D / PANEL;
    static_assert(GRANULES * PANELS <= 32, "a box a lane");
    int lane = thread_anew(), stage = at.stage;
    int boxes = GRANULES / plan.box, tokens = plan.box * GRANULE;
    int box = lane % boxes, panel = lane / boxes, granule = -GRANULES;
    asm volatile("cp.async.wait_all;" : : : "memory");
    __syncwarp(); // the pages are there
    loader l = {t.next.table, t.next.head, t.next.old,     t.next.length,
                t.next.tile,  t.next.end_tile, t.next.round};
    if (l.tile >= l.end_tile)
        return;
    if (waits)
        barrier_wait(&t.empty[stage], at.parity);

    // Wait for the new tokens of a tile
    if ((l.tile + 1) * KEYS > l.old)
        asm volatile("griddepcontrol.wait;" : : : "memory");

    int left = l.length - l.tile * KEYS;
    int scale_bytes = plan.box * (int)sizeof(granule_scales);
    if (box * tokens < left) {
        int of_page = args.cache.page / GRANULE;
        int page = t.next.pages[box] * args.cache.shape.heads + l.head;
        granule = page * of_page +
                  (l.tile * GRANULES + box * plan.box) % of_page;
    }
    if (lane == 0) {
        int loaded = min(boxes, (left + tokens - 1) / tokens);
        t.left[stage] = left;
        barrier_expect(&t.full[stage],
                       2 * KEYS * T::D + loaded * scale_bytes);
    }
    __syncwarp();
    if (panel < PANELS) {
        tma_load(t.codes[stage] + (panel * KEYS + box * tokens) * PANEL, map,
                 &t.full[stage], granule, panel);
        if (panel == 0 && granule >= 0)
            bulk_load(&t.scales[stage][box * plan.box],
                      (granule_scales *)args.cache.scales + granule,
                      scale_bytes, &t.full[stage]);
    }
    ++l.tile;
    look_up<T>(t, l, args, plan);
}

// ---- Find a tile's unit ----

// A mask of the first `left` bytes of a word, which has a byte of four tokens.
__device__ uint32_t valid_bytes(int left)
{
    return left >= 4 ? 0xffffffff : left <= 0 ? 0 : (1u << 8 * left) - 1;
}

// A lane's scales of four keys, 0 past the end; `most`: the tile's largest.
template <class T>
__device__ uint32_t scales_of(const tiles<T> &t, int stage, int tensor,
                              int &most)
{
    int lane = threadIdx.x % 32;
    uint32_t valid = valid_bytes(t.left[stage] - 4 * lane), x = 0;
    if (valid)
        x = *(const uint32_t *)
                 t.scales[stage][lane / 4].k_and_v[lane % 4][tensor];
    x &= valid;
    uint32_t low = max(x & 0xff, x >> 8 & 0xff);
    uint32_t high = max(x >> 16 & 0xff, x >> 24);
    most = __reduce_max_sync(0xffffffff, max(low, high));
    return x;
}

// What a code is multiplied by: 2^7 for the largest scale, so that 448 becomes
// 57344, which a half holds. For a key past the end the factor is so small that
// it is 0 as a half.
constexpr int UNIT = 127 + 7; // exponent of 2^7
__device__ float factor_of(uint32_t scale, int most)
{
    return power(max((int)scale - most + UNIT, 0));
}

__device__ uint32_t times(uint32_t halves, __half2 factor)
{
    __half2 product = __hmul2(*(__half2 *)&halves, factor);
    return *(uint32_t *)&product;
}

// A lane takes sixteen columns of a key, as in chapter 17.
template <class T> __device__ void make_keys(tiles<T> &t, int stage, int to)
{
    int most;
    int thread = thread_anew() % WARPGROUP, c = thread % 4;
    int most_of_v;
    scales_of(t, stage, CACHE_V, most_of_v);
    uint32_t scales = scales_of(t, stage, CACHE_K, most);
    if (thread == 0)
        t.largest[to] = int2{most, most_of_v};
#pragma unroll 2
    for (int i = 0; i < KEYS * T::D / (16 * WARPGROUP); ++i) {
        int row = WARPGROUP / 4 * i + thread / 4, key = row % KEYS;
        uint4 codes = *(const uint4 *)(t.codes[stage] + row * PANEL +
                                       (c ^ row / 2 % 4) * 16);
        uint32_t scale = __shfl_sync(0xffffffff, scales, key / 4);
        scale = scale >> key % 4 * 8 & 0xff;
        __half2 f = __float2half2_rn(factor_of(scale, most));
        uint4 low = {times(two_halves<0>(codes.x), f),
                     times(two_halves<1>(codes.x), f),
                     times(two_halves<0>(codes.y), f),
                     times(two_halves<1>(codes.y), f)};
        uint4 high = {times(two_halves<0>(codes.z), f),
                      times(two_halves<1>(codes.z), f),
                      times(two_halves<0>(codes.w), f),
                      times(two_halves<1>(codes.w), f)};
        __half *k = t.k[to] + row * PANEL;
        *(uint4 *)(k + ((2 * c) ^ row % 8) * 8) = low;
        *(uint4 *)(k + ((2 * c + 1) ^ row % 8) * 8) = high;
    }
}

// A lane takes four keys of four columns, which are eight apart, and then the
// next four keys; but a lane with odd lane / 8 takes the later four keys first,
// so that the stores of 8 bytes have no conflicts.
template <class T> __device__ void make_values(tiles<T> &t, int stage, int to)
{
    int most;
    int thread = thread_anew(), lane = thread % 32, left = t.left[stage];
    uint32_t scales = scales_of(t, stage, CACHE_V, most);
    int column = lane % 8, eight = lane / 8 % 2, piece = lane / 16;
    int row = piece * 8 + column; // of 64 bytes
#pragma unroll 2
    for (int i = thread / 32; i < GRANULES * T::D / PANEL; i += 4) {
        int granule = i % GRANULES, panel = i / GRANULES;
        const uint8_t *from = t.codes[stage] + KEYS * T::D +
                              (i * GRANULE + row) * PANEL;
        int d = panel * PANEL + piece * 32 + column;
        __half *v = t.v[to] + granule / 4 * T::D * PANEL + d * PANEL +
                    ((granule % 4 * 2 + eight) ^ column) * 8;
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            int half = step ^ eight, quad = 4 * granule + 2 * eight + half;
            uint4 codes = *(const uint4 *)(from + ((2 * eight + half) ^
                                                   row / 2 % 4) * 16);
            uint32_t four = __shfl_sync(0xffffffff, scales, quad);
            __half2 low = __floats2half2_rn(factor_of(four & 0xff, most),
                                            factor_of(four >> 8 & 0xff, most));
            __half2 high = __floats2half2_rn(factor_of(four >> 16 & 0xff, most),
                                             factor_of(four >> 24, most));
            uint32_t valid = 0xffffffff;

            // Clear the values past the end
            if (left < KEYS)
                valid = valid_bytes(left - 4 * quad); // 0 * NaN is NaN

            const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
            for (int j = 0; j < 4; ++j)
                *(uint2 *)(v + j * 8 * PANEL + half * 4) =
                    uint2{times(two_halves<0>(words[j] & valid), low),
                          times(two_halves<1>(words[j] & valid), high)};
        }
    }
}

// ---- Copy a row tile's queries ----

// Copies sixteen bytes, or clears them.
__device__ void copy_or_clear(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

// Rows past the end are zeros.
template <class T>
__device__ void copy_q(tiles<T> &t, const prompt_args &args, const work &w)
{
    constexpr int CHUNKS = T::D / 8, PANELS = T::D / PANEL;
    int thread = thread_anew(), c = thread % CHUNKS;
#pragma unroll 1
    for (int r = thread / CHUNKS; r < T::BLOCK_M; r += WARPGROUP / CHUNKS) {
        bool there = w.first_row + r < w.end;
        size_t row = there ? row_place(args, w, w.first_row + r) : 0;
        int panel = r / GROUP_ROWS * PANELS + c / 8;
        __half *to = t.q + (panel * GROUP_ROWS + r % GROUP_ROWS) * PANEL;
        copy_or_clear(to + (c % 8 ^ r % 8) * 8,
                      (const uint4 *)args.cache.q + row * CHUNKS + c, there);
    }
}

// ---- Produce tiles ----
template <class T>
__device__ void produce(tiles<T> &t, const prompt_args &args,
                        const schedule &plan, const CUtensorMap *map)
{
    bool loads = threadIdx.x < 32, makes_keys = threadIdx.x >= WARPGROUP;
    if (loads) {
        look_up<T>(t, loader{}, args, plan);
#pragma unroll 1
        for (int i = 0; i < T::STAGES; ++i)
            load(t, place<T::STAGES>{i, 0}, false, args, plan, map);
    }
    place<T::STAGES> codes = {};
    place<T::HALVES> halves = {};
    work w;
#pragma unroll 1
    for (int round = 0, i = 0; next_work<T>(w, round, args, plan); ++i)
#pragma unroll 1
        for (int tile = w.tile, end = w.end_tile; tile < end; ++tile) {
            bool first = tile == w.tile;

            // Make K, Q and V of a tile
            barrier_wait(&t.full[codes.stage], codes.parity);
            if (makes_keys) {
                barrier_wait(&t.k_empty[halves.stage], halves.parity ^ 1);
                make_keys(t, codes.stage, halves.stage);
                proxy_fence();
                release(&t.k_full[halves.stage]);
            } else {
                if (first) {
                    barrier_wait(&t.q_empty, i + 1 & 1);
                    copy_q(t, args, w); // while V becomes half
                }
                barrier_wait(&t.v_empty[halves.stage], halves.parity ^ 1);
                make_values(t, codes.stage, halves.stage);

                // Wait for the copies of Q
                asm volatile("cp.async.wait_all;" : : : "memory");
                proxy_fence(); // V and Q are read by wgmma

                release(&t.v_full[halves.stage]);
                if (first)
                    release(&t.q_full);
            }
            release(&t.empty[codes.stage]);

            if (loads)
                load(t, codes, true, args, plan, map);
            codes = codes.next();
            halves = halves.next();
        }
}

// ---- Keep what belongs to a row ----
constexpr float NOTHING = 1e30f;     // base before the first key
constexpr float TOP = 0;             // a new base makes the largest P 2^TOP
constexpr float LARGEST_SUM = 32768; // of a lane's P: none overflows a half

// Of a lane: rows lane / 4 and + 8 of the warp's 16.
struct row_sums {
    float base[2]; // minus the reference, in powers of two
    float sum[2];  // of this lane's P / V's unit
    int last[2];   // last key that the row sees
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

// ---- Make P, and add it up ----

// The units of a tile.
struct units {
    float score; // turns scores into exponents of 2
    float v;     // log2 of V's unit
};

// Makes P in place of the scores, or as halves in registers of its own.
template <bool IN_PLACE>
__device__ void probabilities(halves &p, scores &s, float (&sum)[4],
                              const row_sums &rows, units u)
{
    float base[2] = {rows.base[0] + u.v, rows.base[1] + u.v};
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
#pragma unroll
    for (int j = 0; j < KEYS / MMA_K; ++j) {
        float x[8]; // the lane's P of sixteen keys
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] = exp2_approx(fmaf(s[8 * j + i], u.score, base[i / 2 % 2]));
            sum[i % 4] += x[i];
            if (IN_PLACE)
                s[8 * j + i] = x[i];
        }
        if (!IN_PLACE)
            make_halves(p[j], x);
    }
}

// Masks the keys that a row does not see. first: the tile's first key.
__device__ void mask(scores &s, const row_sums &rows, int first)
{
    int at = first + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i)
        if (at + i / 4 * 8 + i % 2 > rows.last[i / 2 % 2])
            s[i] = -INFINITY;
}

// Lowers bases until no P of the tile is past 2^TOP. `factor` rescales what was
// summed up with the old bases.
__device__ void lower(float (&factor)[2], const scores &s, row_sums &rows,
                      units u)
{
    float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i)
        largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[i]);
    for (int m = 0; m < 2; ++m) {
        float y = lanes_max<1, 4>(largest[m]) * u.score;
        float base = fminf(rows.base[m], TOP - u.v - y);
        factor[m] = exp2_approx(base - rows.base[m]); // 0 on the first tile
        rows.base[m] = base;
        rows.sum[m] *= factor[m];
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

// ---- Queue the products of a tile ----

// The descriptor of the i-th MMA_K columns of an operand, which lies in panels
// of ROWS rows.
template <int ROWS> __device__ uint64_t step_of(uint64_t panels, int i)
{
    constexpr int STEPS = PANEL / MMA_K;
    return advance<2 * MMA_K>(advance<ROWS * ROW_BYTES>(panels, i / STEPS),
                              i % STEPS);
}

// Queues Q K for a tile: s becomes this lane's part of [64][KEYS].
template <int D>
__device__ void queue_scores(scores &s, uint64_t q, uint64_t k)
{
    pin(s);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / MMA_K; ++i)
        multiply(s, step_of<GROUP_ROWS>(q, i), step_of<KEYS>(k, i), i > 0);
    wgmma_commit();
}

// Queues P V for a tile: out += [64][D].
template <int D>
__device__ void queue_output(float (&out)[D / 2], halves &p, uint64_t v)
{
    pin(out);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < KEYS / MMA_K; ++i)
        multiply_halves(out, p[i], step_of<D>(v, i));
    wgmma_commit();
}

// A lane has columns 8 n + 2 (lane % 4) and the next, of two rows.
template <class T>
__device__ void store(const prompt_args &args, const work &w,
                      const float (&out)[T::D / 2], const row_sums &rows,
                      int first_row)
{
    int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 % 4 * 16;
    int units = (args.newest * w.group + T::BLOCK_M - 1) / T::BLOCK_M *
                T::ROW_GROUPS; // units of a group of heads, 64 rows each
    int unit = w.head / w.group * units + first_row / GROUP_ROWS;
    int at = unit * gridDim.x + blockIdx.x;
    for (int m = 0; m < 2; ++m) {
        float sum = rows.sum[m];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        int in_group = warp_row + m * 8 + lane / 4, row = first_row + in_group;
        if (row < w.end)
#pragma unroll
            for (int n = 0; n < T::D / 8; ++n) {
                int d = 4 * n + lane % 4;
                part p = {-rows.base[m], sum,
                          {out[4 * n + 2 * m], out[4 * n + 2 * m + 1]}};
                if (gridDim.x > 1)
                    store_part<T::D>(args, at, in_group, d, p);
                else
                    store_row<T::D>(args, w, row, d, p);
            }
    }
    if (gridDim.x == 1)
        return;
    for (int r = warp_row; r < warp_row + 16; ++r)
        if (first_row + r < w.end && is_last<T::D>(args, unit, r))
            for (int d = lane; d < T::D / 2; d += 32)
                store_row<T::D>(
                    args, w, first_row + r, d,
                    merge_parts<T::D>(args, unit * gridDim.x, r, d));
}

// Computes the CTA's i-th row tile. `at`: the place of its first key tile in
// the rings of halves; on return, the place after its last key tile.
template <class T>
__device__ void attend(tiles<T> &t, const prompt_args &args, const work &w,
                       int i, place<T::HALVES> &at)
{
    constexpr int D = T::D;
    // By a shuffle, so that the compiler knows it to be the same in all lanes.
    int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP - PRODUCERS, 0);
    int first_row = w.first_row + group * GROUP_ROWS;

    // Begin with a row tile
    scores s;
    halves p, p2;          // p2 only where P has its own registers
    float out[D / 2] = {}; // [64][D]
    float sum[4] = {};     // of a tile's P
    float factor[2];       // for the output so far, when the reference rises
    row_sums rows = {{NOTHING, NOTHING}, {0, 0}};
    int row = first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    for (int m = 0; m < 2; ++m)
        rows.last[m] = seen_by(w, row + 8 * m) - 1;
    // Keys that all rows of the warp see.
    int all_see = __shfl_sync(0xffffffff, rows.last[0], 0) + 1;
    uint64_t q = describe<ROW_BYTES>(t.q + group * GROUP_ROWS * D);
    uint64_t k_tiles = describe<ROW_BYTES>(t.k);
    uint64_t v_tiles = describe<ROW_BYTES>(t.v);

    // Start and finish products of halves
    auto scores_of = [&](place<T::HALVES> at) {
        barrier_wait(&t.k_full[at.stage], at.parity);
        queue_scores<D>(s, q, advance<2 * KEYS * D>(k_tiles, at.stage));
    };
    auto scores_done = [&](place<T::HALVES> at, int tile) {
        release(&t.k_empty[at.stage]);
        if (tile + 1 == w.end_tile)
            release(&t.q_empty);
    };
    auto output_of = [&](halves &p) {
        barrier_wait(&t.v_full[at.stage], at.parity);
        queue_output<D>(out, p, advance<2 * KEYS * D>(v_tiles, at.stage));
    };
    auto output_done = [&](halves &p) {
        wgmma_wait<0>();
        pin(out);
        pin(p);
        release(&t.v_empty[at.stage]);
    };
    auto mask_end = [&](int tile) {
        if ((tile + 1) * KEYS > all_see)
            mask(s, rows, tile * KEYS);
    };
    auto units_of = [&](place<T::HALVES> at) { // call it before scores_done()
        int2 largest = t.largest[at.stage];
        float scale = args.cache.softmax_scale * LOG2_E;
        // Not 0: a masked key's exponent would be NaN.
        return units{fmaxf(scale * power(largest.x - UNIT + 127), 1e-30f),
                     (float)(largest.y - UNIT)};
    };
    auto add_sums = [&](units u) {
        float inverse = exp2_approx(-u.v);
        rows.sum[0] = fmaf(sum[0] + sum[1], inverse, rows.sum[0]);
        rows.sum[1] = fmaf(sum[2] + sum[3], inverse, rows.sum[1]);
    };

    int tile = w.tile;
    auto step = [&](halves &now, halves &then) {
        // Multiply P V, and make the next P
        place<T::HALVES> next = at.next();
        take_turn<T>(group);
        scores_of(next);
        output_of(now);
        give_turn<T>(group);
        wgmma_wait<1>(); // the scores are there
        pin(s);
        units u = units_of(next);
        if (!T::IN_PLACE) // else K may be wanted again
            scores_done(next, tile + 1);
        mask_end(tile + 1);
        probabilities<T::IN_PLACE>(then, s, sum, rows, u);

        // Let the reference rise where P does not fit
        bool fits = sum[0] + sum[1] <= LARGEST_SUM && sum[2] + sum[3] <= LARGEST_SUM;
        bool rose = T::IN_PLACE ? any_of_group(!fits, group)
                                : __any_sync(0xffffffff, !fits);
        if (rose) { // seldom
            if (T::IN_PLACE) {
                wgmma_wait<0>();
                scores_of(next);
                wgmma_wait<0>();
                pin(s);
                mask_end(tile + 1);
            }
            lower(factor, s, rows, u);
            probabilities<T::IN_PLACE>(then, s, sum, rows, u);
        }

        if (T::IN_PLACE)
            scores_done(next, tile + 1);
        output_done(now);
        if (rose)
        #pragma unroll
            for (int j = 0; j < D / 2; ++j)
                out[j] *= factor[j / 2 % 2];
        add_sums(u);
        if (T::IN_PLACE)
        #pragma unroll
            for (int j = 0; j < KEYS / MMA_K; ++j)
                make_halves(then[j], s + 8 * j);
        at = next;
        ++tile;
    };
    if (tile < w.end_tile) {
        // Go through the row tile's key tiles
        barrier_wait(&t.q_full, i & 1);
        scores_of(at);
        wgmma_wait<0>();
        pin(s);
        units u = units_of(at);
        scores_done(at, tile);
        mask_end(tile);
        lower(factor, s, rows, u);
        probabilities<false>(p, s, sum, rows, u);
        add_sums(u);
        halves &second = T::IN_PLACE ? p : p2;
        bool odd = false;
        while (tile + 1 < w.end_tile) { // p and `second` take turns
            step(p, second);
            if (T::IN_PLACE)
                continue;
            odd = tile + 1 >= w.end_tile;
            if (odd)
                break;
            step(second, p);
        }
        if (odd) {
            output_of(second);
            output_done(second);
        } else {
            output_of(p);
            output_done(p);
        }
        at = at.next();
    }
    store<T>(args, w, out, rows, first_row);
}

// ---- Divide a CTA of Hopper's into roles ----
template <class T>
__global__ void __launch_bounds__(T::THREADS, 1)
attention_tiles(const __grid_constant__ prompt_args args,
                const __grid_constant__ schedule plan,
                const __grid_constant__ CUtensorMap map)
{
    extern __shared__ __align__(1024) unsigned char tile_memory[];
    tiles<T> &t = *(tiles<T> *)tile_memory;

    // Begin with the barriers
    if (threadIdx.x == 0) {
        constexpr int CONSUMERS = 4 * T::ROW_GROUPS; // warps: one arrival each
        barrier_init(&t.q_full, 4);
        barrier_init(&t.q_empty, CONSUMERS);
        for (int i = 0; i < T::STAGES; ++i) {
            barrier_init(&t.full[i], 1);
            barrier_init(&t.empty[i], 4 * PRODUCERS);
        }
        for (int i = 0; i < T::HALVES; ++i) {
            barrier_init(&t.k_full[i], 4);
            barrier_init(&t.v_full[i], 4);
            barrier_init(&t.k_empty[i], CONSUMERS);
            barrier_init(&t.v_empty[i], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    __syncthreads(); // the barriers can be waited for

    if (threadIdx.x < PRODUCERS * WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"
                     :
                     : "n"(T::PRODUCER_REGISTERS));
        produce(t, args, plan, &map);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;"
                     :
                     : "n"(T::CONSUMER_REGISTERS));
        work w;
        place<T::HALVES> at = {};
        if (threadIdx.x / WARPGROUP == PRODUCERS + T::ROW_GROUPS - 1)
            give_turn<T>(T::ROW_GROUPS - 1); // the first group begins
        for (int i = 0, round = 0; next_work<T>(w, round, args, plan); ++i)
            attend(t, args, w, i, at);
    }
}

// How many CTAs share a row tile: the largest power of two with no more CTAs in
// all than SMs or MOST_PARTS, and with two tiles of keys for each.
static int splits_of(const struct cache_args *args, int units, int sms)
{
    int tiles = (args->shape.seq_len + TILE - 1) / TILE, splits = 1;
    while (units * splits * 2 <= min(sms, MOST_PARTS) && tiles >= splits * 4)
        splits *= 2;
    return splits;
}

// ---- Count row tiles and SMs ----

// Groups of query heads that share a tile, of all sequences.
static int count_groups(const struct cache_args *args)
{
    int heads = args->shape.batch * args->shape.heads * args->queries;
    return heads / heads_of_tile(*args);
}

// How many warps divide the rows; WARPS divided by it is how many divide the
// keys.
static int row_warps(const struct cache_args *args)
{
    int rows = args->shape.newest * heads_of_tile(*args);
    return rows <= MMA_M ? 1 : rows <= 2 * MMA_M ? 2 : WARPS;
}

static cudaError_t count_sms(int *sms)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    return error ? error
                 : cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount,
                                          device);
}

// ---- Launch a form ----
template <int D, int ROW_WARPS>
static cudaError_t launch_as(const struct prompt_args *args, dim3 grid,
                             cudaStream_t stream)
{
    size_t bytes = sizeof(shared<D>);
    cudaError_t error = cudaFuncSetAttribute(
        (const void *)attention<D, ROW_WARPS>,
        cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error)
        return error;
    attention<D, ROW_WARPS><<<grid, 32 * WARPS, bytes, stream>>>(*args);
    return cudaGetLastError();
}

template <int D>
static cudaError_t launch_form(const struct prompt_args *args, dim3 grid,
                               cudaStream_t stream)
{
    int warps = row_warps(&args->cache);
    return warps == 1   ? launch_as<D, 1>(args, grid, stream)
           : warps == 2 ? launch_as<D, 2>(args, grid, stream)
                        : launch_as<D, WARPS>(args, grid, stream);
}

// ---- Describe the cache to the TMA ----

// cuTensorMapEncodeTiled is the driver's; the runtime knows where it is.
typedef CUresult (*encode_function)(
    CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill);

// Describes the granules of all pages in four dimensions: 64 bytes of a token,
// 16 tokens, the panels of K and then of V, granules. A box has `box` granules
// of one panel.
template <int D>
static cudaError_t describe_cache(CUtensorMap *map, uint8_t *codes, int box)
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

    cuuint64_t size[4] = {PANEL, GRANULE, 2 * D / PANEL, INT32_MAX};
    cuuint64_t strides[3] = {PANEL, GRANULE * PANEL, sizeof(granule<D>)};
    cuuint32_t boxes[4] = {PANEL, GRANULE, 1, (cuuint32_t)box};
    cuuint32_t steps[4] = {1, 1, 1, 1};
    CUresult result = encode(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, codes, size, strides, boxes,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return launch_refused(cudaErrorInvalidValue,
                              "cuTensorMapEncodeTiled refused: CUresult %d",
                              (int)result);
    return cudaSuccess;
}

// ---- Choose the rows of a tile ----
typedef tiling<64, 2, true, 3, 3, 72> heads_of_64;
typedef tiling<128, 2, true, 2, 2, 56> heads_of_128;
constexpr size_t SECTION_BYTES = 17000000; // of keys and values: 1/3 of the L2

struct division {
    bool few;   // whether a group has at most FEW_ROWS rows, for mma.sync
    int rows;   // of a tile
    int groups, tiles, splits;
};

static struct division divide(const struct cache_args *args, int sms)
{
    struct division d;
    int rows = args->shape.newest * heads_of_tile(*args);
    d.few = rows <= FEW_ROWS;
    d.rows = d.few                  ? row_warps(args) * MMA_M
             : args->shape.head_dim ? heads_of_128::BLOCK_M
                                    : heads_of_64::BLOCK_M;
    d.groups = count_groups(args);
    d.tiles = (rows + d.rows - 1) / d.rows;
    d.splits = splits_of(args, d.groups * d.tiles, sms);
    return d;
}

// Returns 0 also if the GPU does not answer; launch() then says so.
static size_t scratch_bytes(const struct cache_args *args)
{
    int sms;
    if (count_sms(&sms) != cudaSuccess)
        return 0;
    struct division d = divide(args, sms);
    if (d.splits == 1)
        return 0;
    int units = d.groups * d.tiles * (d.few ? 1 : d.rows / GROUP_ROWS);
    size_t part = args->shape.head_dim ? sizeof(part_memory<128>::parts[0])
                                       : sizeof(part_memory<64>::parts[0]);
    return offsetof(part_memory<64>, parts) + part * units * d.splits;
}

// ---- Launch on Hopper ----
template <class T>
static cudaError_t launch_tiles(const struct prompt_args *args,
                                const struct division *d, int sms,
                                cudaStream_t stream)
{
    const struct cache_args *c = &args->cache;
    int pairs = c->shape.batch * c->shape.heads;
    struct schedule plan = {d->groups, d->tiles};
    size_t most = SECTION_BYTES / ((size_t)c->shape.seq_len * 2 * T::D);
    plan.section = most < 1 ? 1 : (int)min(most, (size_t)d->groups);
    plan.box = min(c->page / GRANULE, GRANULES);
    CUtensorMap map;
    cudaError_t error = describe_cache<T::D>(&map, c->codes, plan.box);
    if (!error)
        error = cudaFuncSetAttribute(
            (const void *)attention_tiles<T>,
            cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(tiles<T>));
    if (error)
        return error;
    int granules = (args->newest + GRANULE - 2) / GRANULE + 1;
    append<T::D><<<dim3((granules + WARPS - 1) / WARPS, pairs), 32 * WARPS, 0,
                   stream>>>(*args);
    error = cudaGetLastError();
    if (error)
        return error;

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(d->splits, min(d->groups * d->tiles, sms));
    config.blockDim = T::THREADS;
    config.dynamicSmemBytes = sizeof(tiles<T>);
    config.stream = stream;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, attention_tiles<T>, *args, plan, map);
}

static cudaError_t launch(const struct prompt_args *args, cudaStream_t stream)
{
    const struct cache_args *c = &args->cache;
    int sms;
    cudaError_t error = count_sms(&sms);
    if (error)
        return error;
    struct division d = divide(c, sms);
    if (d.groups > 65535 || d.tiles > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%d heads of %d row tiles, at most 65535 of each",
                              d.groups, d.tiles);
    if (d.splits > 1 && !c->scratch)
        return launch_refused(cudaErrorInvalidValue,
                              "no scratch, but %zu bytes are needed",
                              scratch_bytes(c));
    dim3 grid(d.splits, d.groups, d.tiles);
    if (c->shape.head_dim)
        return d.few ? launch_form<128>(args, grid, stream)
                     : launch_tiles<heads_of_128>(args, &d, sms, stream);
    return d.few ? launch_form<64>(args, grid, stream)
                 : launch_tiles<heads_of_64>(args, &d, sms, stream);
}

// ---- Describe the program for Hopper ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch22_hopper",
        .title = "A prompt that asks a paged cache in E4M3, on Hopper",
        .chapter = 22,
        .kernel = (const void *)attention_tiles<heads_of_64>,
        .threads = heads_of_64::THREADS,
        .dynamic_shared_bytes = sizeof(tiles<heads_of_64>),
        .tensor_flops_share = 1,
        .mask = MASK_CAUSAL,
        .launch_prompt = launch,
        .heads_of_128 = true,
        .code_place = code_place<64>,
        .code_place_128 = code_place<128>,
        .scale_place = scale_place,
        .scratch_bytes = scratch_bytes,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
