// Tangled from chapters/22-prompt.md; edit that, then `make tangle`.

// Chapter 22: the newest tokens of a sequence ask the cache of chapter 21.
//
//   make chapter22 && ./lab22
//
// The query heads that share a head of keys, and the tokens that ask, are the
// rows of a tile. Its four warps divide the rows or, where there are few, the
// keys. Tiles of 64 keys come from the pages; new tokens are quantised by every
// CTA that sees them, and put into the cache by the one that has their queries.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
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

// ---- Count the row tiles of a group ----
static int row_tiles(const struct cache_args *args)
{
    int rows = args->shape.newest * heads_of_tile(*args);
    int tile = row_warps(args) * MMA_M;
    return (rows + tile - 1) / tile;
}

static cudaError_t count_sms(int *sms)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    return error ? error
                 : cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount,
                                          device);
}

// Returns 0 also if the GPU does not answer; launch() then says so.
static size_t scratch_bytes(const struct cache_args *args)
{
    int sms, units = count_groups(args) * row_tiles(args);
    if (count_sms(&sms) != cudaSuccess)
        return 0;
    int splits = splits_of(args, units, sms);
    if (splits == 1)
        return 0;
    size_t part = args->shape.head_dim ? sizeof(part_memory<128>::parts[0])
                                       : sizeof(part_memory<64>::parts[0]);
    return offsetof(part_memory<64>, parts) + part * units * splits;
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

// ---- Launch the form that has the rows ----
static cudaError_t launch(const struct prompt_args *args, cudaStream_t stream)
{
    const struct cache_args *c = &args->cache;
    int sms, groups = count_groups(c), tiles = row_tiles(c);
    cudaError_t error = count_sms(&sms);
    if (error)
        return error;
    if (groups > 65535 || tiles > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%d heads of %d row tiles, at most 65535 of each",
                              groups, tiles);
    int splits = splits_of(c, groups * tiles, sms);
    if (splits > 1 && !c->scratch)
        return launch_refused(cudaErrorInvalidValue,
                              "no scratch, but %zu bytes are needed",
                              scratch_bytes(c));
    dim3 grid(splits, groups, tiles);
    return c->shape.head_dim ? launch_form<128>(args, grid, stream)
                             : launch_form<64>(args, grid, stream);
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch22_prompt",
        .title = "A prompt that asks a paged cache in E4M3",
        .chapter = 22,
        .kernel = (const void *)attention<64, WARPS>,
        .threads = 32 * WARPS,
        .dynamic_shared_bytes = sizeof(shared<64>),
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
