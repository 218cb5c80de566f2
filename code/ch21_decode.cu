// Tangled from chapters/21-cache.md; edit that, then `make tangle`.

// Chapter 21: one query a sequence, against a paged cache in E4M3.
//
//   make chapter21 && ./lab21
//
// A warp takes granules of 16 tokens, wherever their pages are, and a lane
// reads back from shared memory only what it copied itself. The queries that
// share a head's keys are the rows of a tile. Keys are divided among warps and,
// where heads are few, among CTAs, and merged. The newest token is quantised on
// the way, attended to, and put into the cache.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

// ---- Name the sizes ----
constexpr int MMA_N = 8;              // keys, or columns, of a product
constexpr int GRANULE = 16;           // tokens: one step of P V
constexpr int GRANULE_CODES = 2 * GRANULE * HEAD_DIM; // bytes: K, then V
constexpr int GRANULE_SCALES = 2 * GRANULE;
constexpr int ROWS = 8;               // query heads of a block of rows
constexpr int LEAST_SCALE = 95;       // 2^-32, for the smallest half
constexpr int MOST_PARTS = 1024;      // CTAs whose parts are merged
constexpr float LOG2_E = 1.44269504f;
constexpr float LEAST = -1e30f;       // below all scores, and finite
constexpr float LARGEST_P = 8;        // log2(P) past which references rise

// ---- Divide the work in four ways ----
struct form {
    int warps;  // that share a head's keys in a CTA
    int stages; // granules of a warp on their way, and one at work
};
constexpr form SPLIT = {8, 4}; // few heads: several CTAs for each
constexpr form WIDE = {6, 3};  // one CTA a head, two CTAs on an SM
constexpr form MANY = {4, 2};  // four or five heads an SM
constexpr form MOST = {2, 3};  // more heads
constexpr int SOME_AN_SM = 3, MANY_AN_SM = 5; // heads: the most for WIDE, MANY

// ---- Say where an element lies in its page ----

// In K, a token is a row. V lies as a lane of mma.sync wants it: four tokens of
// a column are a word, and four columns 8 apart are 16 bytes.
static int code_place(enum cache_tensor tensor, int slot, int d)
{
    int first = slot / GRANULE * GRANULE_CODES, token = slot % GRANULE;
    if (tensor == CACHE_K)
        return first + token * HEAD_DIM + d;
    int lane = d % MMA_N * 4 + token / 4;
    return first + GRANULE * HEAD_DIM + d / 32 * 512 + lane * 16 +
           d / MMA_N % 4 * 4 + token % 4;
}

static int scale_place(enum cache_tensor tensor, int slot)
{
    int first = slot / GRANULE * GRANULE_SCALES, token = slot % GRANULE;
    return first + token / 4 * 8 + tensor * 4 + token % 4;
}

// ---- Lay out shared memory ----
struct alignas(16) stage { // a granule, as its lanes copied it
    uint4 k[2][32], v[2][32]; // [tile][lane]
    uint2 scales[32];         // of a lane's four tokens: K's, V's
};
template <form F, int BLOCKS> union alignas(16) shared {
    stage rings[F.warps][F.stages];
    struct {
        float2 out[F.warps][BLOCKS * ROWS][HEAD_DIM / 2 + 4]; // 4: no conflicts
        float2 state[F.warps][BLOCKS * ROWS]; // reference, sum
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

// ---- Copy without waiting ----

// Copies 16 bytes that nobody reads again, and that leave the L2 cache first.
__device__ void copy_codes(uint32_t to, const uint8_t *from)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "l"(policy)
                 : "memory");
}

__device__ void copy_scales(uint32_t to, const uint8_t *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
                 :
                 : "r"(to), "l"(from)
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

// ---- Find the power of two that fits ----

// E8M0: 2^(code - 127). 448 is 1.75 * 2^8: a mantissa past .75 carries.
__device__ uint32_t scale_for(float largest)
{
    int code = (int)((__float_as_uint(largest) + 0x1fffff) >> 23) - 8;
    return max(code, LEAST_SCALE);
}

__device__ float power(uint32_t code) { return __uint_as_float(code << 23); }

// ---- Load the newest token ----

// A lane's part: 16 elements of K, a quarter of the row, and every eighth of V.
struct raw_token {
    uint4 k[2];
    __half v[8];
};
struct token { // the same part, as codes
    uint4 k;
    uint32_t v[2]; // byte t: d = 8 t + lane / 4
    uint32_t k_scale, v_scale;
};

__device__ raw_token load_token(const cache_args &args, int pair)
{
    int lane = threadIdx.x % 32;
    const __half *k = (const __half *)args.new_k + (size_t)pair * HEAD_DIM;
    const __half *v = (const __half *)args.new_v + (size_t)pair * HEAD_DIM;
    raw_token raw;
    raw.k[0] = ((const uint4 *)k)[2 * (lane % 4)];
    raw.k[1] = ((const uint4 *)k)[2 * (lane % 4) + 1];
    for (int t = 0; t < 8; ++t)
        raw.v[t] = v[8 * t + lane / 4];
    return raw;
}

// ---- Quantise the newest token ----
__device__ uint32_t two_codes(float low, float high)
{
    return __nv_cvt_float2_to_fp8x2(float2{low, high}, __NV_SATFINITE,
                                    __NV_E4M3);
}

__device__ uint32_t four_codes(const float *x, float factor)
{
    return two_codes(x[0] * factor, x[1] * factor) |
           two_codes(x[2] * factor, x[3] * factor) << 16;
}

__device__ token quantise(const raw_token &raw)
{
    const __half *halves = (const __half *)raw.k;
    float k[16], v[8], k_max = 0, v_max = 0;
    for (int i = 0; i < 16; ++i) {
        k[i] = __half2float(halves[i]);
        k_max = fmaxf(k_max, fabsf(k[i]));
    }
    for (int i = 0; i < 8; ++i) {
        v[i] = __half2float(raw.v[i]);
        v_max = fmaxf(v_max, fabsf(v[i]));
    }
    token t;
    t.k_scale = scale_for(lanes_max<1, 4>(k_max));
    t.v_scale = scale_for(lanes_max<4, 32>(v_max));
    float k_inverse = power(254 - t.k_scale); // exact
    float v_inverse = power(254 - t.v_scale);
    t.k = {four_codes(k, k_inverse), four_codes(k + 4, k_inverse),
           four_codes(k + 8, k_inverse), four_codes(k + 12, k_inverse)};
    t.v[0] = four_codes(v, v_inverse);
    t.v[1] = four_codes(v + 4, v_inverse);
    return t;
}

// ---- Find a warp's granules ----

// One warp's granules of a sequence: every stride-th. `stride` counts the warps
// of all CTAs that share the head.
struct walk {
    const int *table;  // pages of the sequence
    int first, stride; // of the warp's granules
    int count;         // how many granules the warp has
    int ids, next_ids; // pages of 32 granules, one in each lane
};

// The page of the warp's granule number from + lane; 0 past the table.
__device__ int page_of(const walk &w, const cache_args &args, int from)
{
    int lane = threadIdx.x % 32;
    int token = (w.first + (from + lane) * w.stride) * GRANULE;
    int page = token >> (31 - __clz(args.page)); // a power of two
    return page < args.max_pages ? w.table[page] : 0;
}

// A granule's place in the cache, among those of all heads.
__device__ size_t find(const walk &w, const cache_args &args, int granule,
                       int page_id)
{
    int in_page = granule & (args.page / GRANULE - 1);
    size_t page = (size_t)page_id * gridDim.y + blockIdx.y;
    return page * (args.page / GRANULE) + in_page;
}

// `to`: the lane's place in a stage, k[0][lane].
__device__ void fetch(uint32_t to, walk &w, const cache_args &args, int i)
{
    int lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
    if (i < w.count) {
        if (i % 32 == 0 && i > 0) { // the next 32 pages
            w.ids = w.next_ids;
            w.next_ids = page_of(w, args, i + 32);
        }
        int page_id = __shfl_sync(0xffffffff, w.ids, i % 32);
        size_t at = find(w, args, w.first + i * w.stride, page_id);
        const uint8_t *k = args.codes + at * GRANULE_CODES;
        const uint8_t *v = k + GRANULE * HEAD_DIM;
        const uint8_t *mine = k + (row / 2 * 4 + row % 2) * HEAD_DIM;
        copy_codes(to, mine + quarter * 16);
        copy_codes(to + 512, mine + 2 * HEAD_DIM + quarter * 16);
        copy_codes(to + 1024, v + lane * 16);
        copy_codes(to + 1536, v + 512 + lane * 16);
        copy_scales(to + 2048 - 8 * lane,
                    args.scales + at * GRANULE_SCALES + quarter * 8);
    }
    copy_commit(); // even an empty group: the wait counts groups
}

// Loads Q as mma.sync wants A; rows past the queries are zeros.
template <int BLOCKS>
__device__ void load_queries(uint4 (&q)[BLOCKS][2], const cache_args &args,
                             int pair)
{
    int lane = threadIdx.x % 32;
    for (int m = 0; m < BLOCKS; ++m) {
        int row = m * ROWS + lane / 4;
        bool there = row < args.queries;
        size_t at = ((size_t)pair * args.queries + row) * (HEAD_DIM / 8);
        const uint4 *from = (const uint4 *)args.q + at + lane % 4 * 2;
        q[m][0] = there ? from[0] : uint4{};
        q[m][1] = there ? from[1] : uint4{};
    }
}

// ---- Insert the newest token ----
struct granule {
    uint4 k[2], v[2];
    uint32_t k_scales, v_scales; // of the lane's four tokens
};

__device__ void insert_byte(uint32_t &word, int byte, uint32_t value)
{
    word = (word & ~(0xffu << 8 * byte)) | value << 8 * byte;
}

__device__ void insert(granule &g, const token &t, int slot)
{
    int lane = threadIdx.x % 32, row = lane / 4;
    for (int tile = 0; tile < 2; ++tile)
        if (row / 2 * 4 + row % 2 + 2 * tile == slot)
            g.k[tile] = t.k;
    if (slot / 4 != lane % 4)
        return;
    insert_byte(g.k_scales, slot % 4, t.k_scale);
    insert_byte(g.v_scales, slot % 4, t.v_scale);
    uint32_t *v = (uint32_t *)g.v;
    for (int i = 0; i < 8; ++i)
        insert_byte(v[i], slot % 4, t.v[i / 4] >> i % 4 * 8 & 0xff);
}

// Clears what follows `left` tokens. V may be NaN there, and 0 * NaN is NaN.
__device__ void clear_past(granule &g, int left)
{
    int mine = left - 4 * (int)(threadIdx.x % 4);
    uint32_t valid = mine >= 4   ? 0xffffffff
                     : mine <= 0 ? 0
                                 : (1u << 8 * mine) - 1;
    g.v_scales &= valid;
    uint32_t *v = (uint32_t *)g.v;
    for (int i = 0; i < 8; ++i)
        v[i] &= valid;
}

// s[tile]: rows lane / 4 and + 8, keys 4 (lane % 4) + 2 tile and the next.
template <int BLOCKS>
__device__ void score(float (&s)[2][4], const uint4 (&q)[BLOCKS][2],
                      const granule &g)
{
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            uint32_t k = ((const uint32_t *)&g.k[tile])[j];
            const uint32_t *low = (const uint32_t *)q[0] + 2 * j;
            const uint32_t *high = (const uint32_t *)q[BLOCKS - 1] + 2 * j;
            uint32_t a[4] = {low[0], BLOCKS > 1 ? high[0] : 0, low[1],
                             BLOCKS > 1 ? high[1] : 0};
            mma(s[tile], a, two_halves<0>(k), two_halves<1>(k));
        }
}

// ---- Weigh 16 keys ----
template <int BLOCKS> struct row_state { // of a lane: a row of each block
    float reference[BLOCKS], sum[BLOCKS]; // log2(P's unit); sum: P / V's scale
    float out[HEAD_DIM / MMA_N][4];
};

// Raises the references to the largest scores, and rescales.
template <int BLOCKS>
__device__ void raise(row_state<BLOCKS> &r, const float (&largest)[BLOCKS])
{
    for (int m = 0; m < BLOCKS; ++m) {
        float reference = fmaxf(r.reference[m], lanes_max<1, 4>(largest[m]));
        float factor = exp2_approx(r.reference[m] - reference);
        r.reference[m] = reference;
        r.sum[m] *= factor;
        for (int n = 0; n < HEAD_DIM / MMA_N; ++n)
            for (int i = 0; i < 2; ++i)
                r.out[n][2 * m + i] *= factor;
    }
}

template <int BLOCKS>
__device__ void weigh(uint32_t (&p)[4], row_state<BLOCKS> &r,
                      const float (&s)[2][4], const granule &g, float scale,
                      int left)
{
    int lane = threadIdx.x % 32;
    float y[BLOCKS][4], inverse[4], largest[BLOCKS];

    // Add the exponent of V's scale to the score
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        float factor = power(g.k_scales >> 8 * i & 0xff) * scale;
        uint32_t v_scale = g.v_scales >> 8 * i & 0xff;
        inverse[i] = power(254 - v_scale);
        for (int m = 0; m < BLOCKS; ++m)
            y[m][i] = fmaf(s[i / 2][2 * m + i % 2], factor, (float)v_scale);
    }
    if (left < GRANULE)
        for (int i = 0; i < 4; ++i)
            if (4 * (lane % 4) + i >= left)
                for (int m = 0; m < BLOCKS; ++m)
                    y[m][i] = -INFINITY;

    bool high = false;
    for (int m = 0; m < BLOCKS; ++m) {
        largest[m] = fmaxf(fmaxf(y[m][0], y[m][1]), fmaxf(y[m][2], y[m][3]));
        high |= largest[m] > r.reference[m] + LARGEST_P;
    }
    if (__any_sync(0xffffffff, high))
        raise<BLOCKS>(r, largest);
    for (int m = 0; m < BLOCKS; ++m)
        for (int tile = 0; tile < 2; ++tile) {
            float p0 = exp2_approx(y[m][2 * tile] - r.reference[m]);
            float p1 = exp2_approx(y[m][2 * tile + 1] - r.reference[m]);
            r.sum[m] = fmaf(p0, inverse[2 * tile], r.sum[m]);
            r.sum[m] = fmaf(p1, inverse[2 * tile + 1], r.sum[m]);
            __half2 two = __floats2half2_rn(p0, p1);
            p[2 * tile + m] = *(uint32_t *)&two;
        }
}

// ---- Add P V of 16 keys ----
template <int BLOCKS>
__device__ void accumulate(row_state<BLOCKS> &r, const uint32_t (&p)[4],
                           const granule &g)
{
    const uint32_t *v = (const uint32_t *)g.v;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / MMA_N; ++n)
        mma(r.out[n], p, two_halves<0>(v[n]), two_halves<1>(v[n]));
}

// Puts a token into the cache; `at`: the place of its granule there.
__device__ void append(const cache_args &args, const token &t, size_t at,
                       int slot)
{
    int lane = threadIdx.x % 32;
    uint8_t *k = args.codes + at * GRANULE_CODES;
    uint8_t *v = k + GRANULE * HEAD_DIM;
    if (lane < 4)
        *(uint4 *)(k + slot * HEAD_DIM + 16 * lane) = t.k;
    if (lane % 4 == 0) // d = 8 i + lane / 4
        for (int i = 0; i < 8; ++i)
            v[i / 4 * 512 + (lane + slot / 4) * 16 + i % 4 * 4 + slot % 4] =
                (uint8_t)(t.v[i / 4] >> i % 4 * 8);
    if (lane < 2) // K's, V's
        args.scales[at * GRANULE_SCALES + slot / 4 * 8 + lane * 4 + slot % 4] =
            (uint8_t)(lane ? t.v_scale : t.k_scale);
}

// ---- Merge the warps ----

// Columns 2 d and 2 d + 1 of a row: a warp's part, a CTA's, or the whole.
struct part {
    float reference, sum;
    float2 out;
};

template <form F, int BLOCKS>
__device__ void put_rows(shared<F, BLOCKS> &t, const row_state<BLOCKS> &r)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int m = 0; m < BLOCKS; ++m) {
        int row = m * ROWS + lane / 4;
        float sum = r.sum[m];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        for (int n = 0; n < HEAD_DIM / MMA_N; ++n)
            t.end.out[warp][row][n * 4 + lane % 4] =
                float2{r.out[n][2 * m], r.out[n][2 * m + 1]};
        if (lane % 4 == 0)
            t.end.state[warp][row] = float2{r.reference[m], sum};
    }
}

template <form F, int BLOCKS>
__device__ part merge_warps(const shared<F, BLOCKS> &t, int row, int d)
{
    part all = {LEAST, 0, {0, 0}}; // a CTA may have no keys at all
    for (int w = 0; w < F.warps; ++w)
        all.reference = fmaxf(all.reference, t.end.state[w][row].x);
    for (int w = 0; w < F.warps; ++w) {
        float2 state = t.end.state[w][row], out = t.end.out[w][row][d];
        float weight = exp2_approx(state.x - all.reference);
        all.sum += weight * state.y;
        all.out.x += weight * out.x;
        all.out.y += weight * out.y;
    }
    return all;
}

// ---- Keep the parts of CTAs ----

// What a launch has in args.scratch. Parts of one head are neighbours.
struct part_memory {
    unsigned arrived[MOST_PARTS / 2][2 * ROWS]; // parts of a row; 0 in the end
    float2 parts[MOST_PARTS][2 * ROWS][HEAD_DIM / 2 + 1]; // out; reference, sum
};

__device__ void store_row(const cache_args &args, int pair, int row,
                          const part &p)
{
    float norm = 1 / p.sum;
    size_t at = ((size_t)pair * args.queries + row) * (HEAD_DIM / 2);
    ((__half2 *)args.out)[at + threadIdx.x % 32] =
        __floats2half2_rn(p.out.x * norm, p.out.y * norm);
}

__device__ void store_part(const cache_args &args, int at, int row,
                           const part &p)
{
    int lane = threadIdx.x % 32;
    float2 *to = ((part_memory *)args.scratch)->parts[at][row];
    to[lane] = p.out;
    if (lane == 0)
        to[HEAD_DIM / 2] = float2{p.reference, p.sum};
}

// ---- Merge the parts ----

// Whether this warp is the last to have stored a part of the row.
__device__ bool is_last(const cache_args &args, int pair, int row)
{
    unsigned *arrived = &((part_memory *)args.scratch)->arrived[pair][row];
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

__device__ part merge_parts(const cache_args &args, int first, int row)
{
    constexpr int AT_ONCE = 16; // loads on their way
    const auto *parts = ((const part_memory *)args.scratch)->parts;
    part all = {LEAST, 0, {0, 0}};
    for (int i = 0; i < gridDim.x; i += AT_ONCE) {
        float2 state[AT_ONCE], out[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            bool there = i + j < gridDim.x;
            const float2 *from = parts[first + i + j][row];
            state[j] = there ? __ldcg(&from[HEAD_DIM / 2]) : float2{LEAST, 0};
            out[j] = there ? __ldcg(&from[threadIdx.x % 32]) : float2{0, 0};
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

// ---- Attend to a part of a head's keys ----
template <form F, int BLOCKS>
__global__ void __launch_bounds__(32 * F.warps)
attention(const __grid_constant__ cache_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    shared<F, BLOCKS> &t = *(shared<F, BLOCKS> *)memory;

    // Find the warp's part of the keys
    int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0); // same in all lanes
    int pair = blockIdx.z * gridDim.y + blockIdx.y;
    walk w;
    w.table = args.table + (size_t)blockIdx.z * args.max_pages;
    w.first = blockIdx.x * F.warps + warp;
    w.stride = gridDim.x * F.warps;
    w.ids = page_of(w, args, 0); // on its way together with the length
    int length = args.lengths[blockIdx.z];

    // Begin with all loads at once
    uint4 q[BLOCKS][2];
    load_queries<BLOCKS>(q, args, pair);
    int granules = (length + GRANULE - 1) / GRANULE;

    // Count the warp's granules
    int log_parts = 31 - __clz(gridDim.x); // a power of two: no division
    int after = (granules - w.first - 1) >> log_parts;
    w.count = granules > w.first ? after / F.warps + 1 : 0;

    int newest = granules - 1, slot = (length - 1) % GRANULE;
    bool appends = w.count > 0 && w.first + (w.count - 1) * w.stride == newest;
    raw_token raw;
    if (appends)
        raw = load_token(args, pair);
    w.next_ids = w.count > 32 ? page_of(w, args, 32) : 0;
    // Not [warp]: with a uniform address ptxas 13.0 makes illegal instructions of
    // copies that have a policy.
    uint4 *ring = &t.rings[threadIdx.x / 32][0].k[0][threadIdx.x % 32];
    uint32_t start = (uint32_t)__cvta_generic_to_shared(ring);
    uint32_t to = start, from = start; // the lane's place in a stage
    #pragma unroll 1
    for (int i = 0; i < F.stages - 1; ++i, to += sizeof(stage))
        fetch(to, w, args, i);
    token last;
    if (appends)
        last = quantise(raw);

    // Take a step for each granule
    float scale = args.softmax_scale * LOG2_E;
    row_state<BLOCKS> r = {};
    for (int m = 0; m < BLOCKS; ++m)
        r.reference[m] = -INFINITY;
    for (int i = 0; i < w.count; ++i) {
        fetch(to, w, args, i + F.stages - 1);
        copy_wait<F.stages - 1>(); // a lane reads what it copied: no barrier

        // Take a granule, and the newest token into it
        const uint4 *own = (const uint4 *)__cvta_shared_to_generic(from);
        uint2 scales = *(const uint2 *)((const uint8_t *)own + 2048 -
                                        8 * (threadIdx.x % 32));
        granule g = {{own[0], own[32]}, {own[64], own[96]}, scales.x, scales.y};

        // Count the tokens from the granule on
        int left = length - (w.first + i * w.stride) * GRANULE;

        if (left <= GRANULE) { // the last granule
            if (appends)
                insert(g, last, slot);
            clear_past(g, left);
        }

        float s[2][4] = {};
        uint32_t p[4] = {};
        score<BLOCKS>(s, q, g);
        weigh<BLOCKS>(p, r, s, g, scale, left);
        accumulate<BLOCKS>(r, p, g);
        to = from;
        from += sizeof(stage);
        if (from == start + F.stages * sizeof(stage))
            from = start;
    }

    // Append, merge, store
    copy_wait<0>();
    __syncwarp(); // all lanes have read the bytes that the token overwrites

    // Put the newest token into the cache
    if (appends) {
        int page_id = w.table[newest * GRANULE >> (31 - __clz(args.page))];
        append(args, last, find(w, args, newest, page_id), slot);
    }

    // Leave the warps' parts in shared memory
    __syncthreads(); // the parts overwrite the rings
    put_rows<F, BLOCKS>(t, r);
    __syncthreads();

    for (int row = warp; row < args.queries; row += F.warps) {
        part p = merge_warps<F, BLOCKS>(t, row, threadIdx.x % 32);
        if (gridDim.x > 1) {
            store_part(args, pair * gridDim.x + blockIdx.x, row, p);
            if (!is_last(args, pair, row))
                continue;
            p = merge_parts(args, pair * gridDim.x, row);
        }
        store_row(args, pair, row, p);
    }
}

// How many CTAs share a pair: the largest power of two with no more CTAs in all
// than SMs or MOST_PARTS, and with a granule for each warp.
static int splits_of(const struct cache_args *args, int pairs, int sms)
{
    int granules = (args->shape.seq_len + GRANULE - 1) / GRANULE;
    int splits = 1;
    while (pairs * splits * 2 <= min(sms, MOST_PARTS) &&
           granules >= splits * 2 * SPLIT.warps)
        splits *= 2;
    return splits;
}

// ---- Launch the form that fills the GPU ----
template <form F, int BLOCKS>
static cudaError_t launch_as(const struct cache_args *args, int splits,
                             cudaStream_t stream)
{
    dim3 grid(splits, args->shape.heads, args->shape.batch);
    size_t bytes = sizeof(shared<F, BLOCKS>);
    cudaError_t error = cudaFuncSetAttribute(
        (const void *)attention<F, BLOCKS>,
        cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error)
        return error;
    attention<F, BLOCKS><<<grid, 32 * F.warps, bytes, stream>>>(*args);
    return cudaGetLastError();
}

// Choose the form
template <form F>
static cudaError_t launch_form(const struct cache_args *args, int splits,
                               cudaStream_t stream)
{
    return args->queries <= ROWS ? launch_as<F, 1>(args, splits, stream)
                                 : launch_as<F, 2>(args, splits, stream);
}

static cudaError_t launch_filling(const struct cache_args *args, int splits,
                                  int sms, cudaStream_t stream)
{
    int pairs = args->shape.batch * args->shape.heads;
    if (splits > 1)
        return launch_form<SPLIT>(args, splits, stream);
    return pairs <= SOME_AN_SM * sms   ? launch_form<WIDE>(args, 1, stream)
           : pairs <= MANY_AN_SM * sms ? launch_form<MANY>(args, 1, stream)
                                       : launch_form<MOST>(args, 1, stream);
}

// Say how much memory the parts take
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
    int sms, pairs = args->shape.batch * args->shape.heads;
    if (count_sms(&sms) != cudaSuccess)
        return 0;
    int splits = splits_of(args, pairs, sms);
    return splits == 1 ? 0
                       : offsetof(part_memory, parts) +
                             sizeof(part_memory::parts[0]) * pairs * splits;
}

static cudaError_t check(const struct cache_args *args, int pairs, int sms)
{
    if (args->shape.batch > 65535 || args->shape.heads > 65535)
        return launch_refused(cudaErrorInvalidConfiguration,
                              "%d sequences of %d heads, at most 65535",
                              args->shape.batch, args->shape.heads);
    if (splits_of(args, pairs, sms) > 1 && !args->scratch)
        return launch_refused(cudaErrorInvalidValue,
                              "no scratch, but %zu bytes are needed",
                              scratch_bytes(args));
    return cudaSuccess;
}

static cudaError_t launch(const struct cache_args *args, cudaStream_t stream)
{
    int sms, pairs = args->shape.batch * args->shape.heads;
    cudaError_t error = count_sms(&sms);
    if (!error)
        error = check(args, pairs, sms);
    if (error)
        return error;
    return launch_filling(args, splits_of(args, pairs, sms), sms, stream);
}

// ---- Describe the program to the workbench ----
int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "ch21_decode",
        .title = "One query at a time, a paged cache in E4M3",
        .chapter = 21,
        .kernel = (const void *)attention<MANY, 1>,
        .threads = 32 * MANY.warps,
        .dynamic_shared_bytes = sizeof(shared<MANY, 1>),
        .tensor_flops_share = 1,
        .launch_cache = launch,
        .code_place = code_place,
        .scale_place = scale_place,
        .scratch_bytes = scratch_bytes,
        PROGRAM_BUILD,
    };
    return workbench_main(&program, argc, argv);
}
