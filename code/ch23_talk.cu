// Tangled from chapters/23-talk.md; edit that, then `make tangle`.

// Chapter 23: a small language model that answers a question.
//
//   make chapter23 && ./talk "Why is the sky blue?"
//
// Weights of four and eight bits are multiplied on tensor cores as the whole
// numbers that they are. A prompt goes through a layer by tiles, an answer a
// token at a time; chapters 22's and 21's kernels ask a paged cache in E4M3.

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <type_traits>
#include <unistd.h>

extern "C" {
#include "host/host.h"
}
#include "model/model.h"

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

// ---- Begin when the kernel before has ended ----
constexpr char NAME[] = "ch23_talk";
constexpr bool EARLY = false;

__device__ void await_previous()
{
}

// ---- Attend, behind the kernel before ----
template <form F, int BLOCKS>
__global__ void __launch_bounds__(32 * F.warps)
attention(const __grid_constant__ cache_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    shared<F, BLOCKS> &t = *(shared<F, BLOCKS> *)memory;
    await_previous();

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

// ---- Divide a head's keys where they are many ----
constexpr int ALONE = 16;  // up to 16 granules of a pair go to one CTA
constexpr int SHARES = 16; // CTAs of a pair, at most

// How many CTAs share a pair: 1 if it has at most ALONE granules; otherwise the
// largest power of two, up to SHARES, with no more CTAs in all than SMs or
// MOST_PARTS, and with a granule for each warp.
static int splits_of(const struct cache_args *args, int pairs, int sms)
{
    int granules = (args->shape.seq_len + GRANULE - 1) / GRANULE;
    int splits = 1;
    while (granules > ALONE && splits < SHARES &&
           pairs * splits * 2 <= min(sms, MOST_PARTS) &&
           granules >= splits * 2 * SPLIT.warps)
        splits *= 2;
    return splits;
}

// ---- Start a kernel behind another ----
static bool begins_early = EARLY;

template <class... P>
static void start(cudaStream_t stream, void (*kernel)(P...), dim3 ctas,
                  int threads, size_t shared, std::type_identity_t<P>... args)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = ctas;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = begins_early;
    if (shared > 48 << 10)
        CUDA_CHECK(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

// ---- Launch the form that fills the GPU ----
template <form F, int BLOCKS>
static cudaError_t launch_as(const struct cache_args *args, int splits,
                             cudaStream_t stream)
{
    dim3 grid(splits, args->shape.heads, args->shape.batch);
    start(stream, attention<F, BLOCKS>, grid, 32 * F.warps,
          sizeof(shared<F, BLOCKS>), *args);
    return cudaSuccess;
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

namespace prompt { // chapter 22's, of which many names are chapter 21's, too
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

// ---- Load the queries, which stay halves ----
template <int D> struct queries {
    uint32_t halves[2][D / 64][8]; // rows lane / 4 and + 8: 16 of 64 columns
    float scale[2];                // of these rows' scores
};

// The index of a row in the output: heads of a token are neighbours.
__device__ size_t row_place(const prompt_args &args, const work &w, int row)
{
    int heads = args.cache.shape.heads * args.cache.queries;
    return (size_t)query_of(w, row) * heads + w.head + row % w.group;
}

template <int D>
__device__ void load_queries(queries<D> &q, const prompt_args &args,
                             const work &w, int first_row)
{
    int lane = threadIdx.x % 32;
    int all = args.cache.shape.heads * args.cache.queries;
    for (int m = 0; m < 2; ++m) {
        int row = min(first_row + m * 8 + lane / 4, w.end - 1);

        // Find a row's query, and what its scores are scaled by
        size_t at = (size_t)query_of(w, row) * all + w.head + row % w.group;
        q.scale[m] = args.cache.softmax_scale * LOG2_E;

        const uint4 *from = (const uint4 *)args.cache.q + at * (D / 8);
        for (int i = 0; i < D / 32; ++i)
            *(uint4 *)&q.halves[m][i / 2][i % 2 * 4] =
                from[i / 2 * 8 + lane % 4 * 2 + i % 2];
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

// ---- Bring a tile's granules, all of them from the cache ----
template <int D>
__device__ void fetch(stage<D> &to, const prompt_args &args, const work &w,
                      int tile, int page_id)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t at = find(args, w, tile * TILE + warp * GRANULE, page_id);
    const auto *codes = (const granule<D> *)args.cache.codes + at;
    const auto *scales = (const granule_scales *)args.cache.scales + at;
    if (tile < w.end_tile) {
        for (int i = lane; i < sizeof(granule<D>) / 16; i += 32)
            copy_sixteen((uint4 *)&to.codes[warp] + i,
                         (const uint4 *)codes + i);
        if (lane < sizeof(granule_scales) / 16)
            copy_sixteen((uint4 *)&to.scales[warp] + lane,
                         (const uint4 *)scales + lane);
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
            // Score 64 columns of eight keys
            int key = row / 2 * 4 + row % 2 + 2 * tile;
            uint4 four = *(const uint4 *)&g.k[h][key][lane % 4 * 16];
            const uint32_t k[4] = {four.x, four.y, four.z, four.w};
            const uint32_t(&low)[8] = q.halves[0][h];
            const uint32_t(&high)[8] = q.halves[1][h];
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                mma(s[tile], {low[2 * j], high[2 * j], low[2 * j + 1], high[2 * j + 1]},
                    two_halves<0>(k[j]), two_halves<1>(k[j]));
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
}

// ---- Name the model's sizes ----
constexpr int TOKENS = 4;      // of a product, in two columns each: half, rest
constexpr int GROUP = 8;       // tokens: one product for halves, one for rests
constexpr int FEW = 256;       // more tokens are multiplied by multiply_block()
constexpr int BLOCK = 2048;    // tokens of a prompt at a time, at most
constexpr int TILE_ROWS = 16;  // rows of a tile of weights
constexpr int SHARERS = 8;     // warps that share a tile's columns
constexpr int WARPS = 4;       // of a CTA of most other kernels
constexpr int THREADS = 32 * WARPS;
constexpr int TILES = 4;       // of weights, for a CTA of multiply_block()
constexpr int PAGE = 64;       // tokens of a page of the cache
constexpr int SEQUENCES = 64;  // that are answered together, at most

// ---- Name what a step is about ----
struct step {
    int count, length;   // tokens; length of the prompt's sequence with them
    int lengths[BLOCK];  // of the sequence up to and with each token
    int ids[BLOCK];
};

// [rows / 16][columns / 32] tiles of 16 rows by 32 columns, with zeros up to a
// multiple of TILES tiles of rows. A lane has rows lane / 4 and lane / 4 + 8 of
// a tile, in columns 8 (lane % 4) to + 7.
struct weights {
    const uint8_t *codes;  // a tile's: 8 or 16 bytes for each of 32 lanes
    const __half2 *scales; // a tile's, for 8 pairs of rows: d, d; or d, m, d, m
    int rows, columns;     // rows: a multiple of 16
    bool four;             // whether a code has four bits, not eight
};

// ---- Repack a matrix ----
static const uint8_t *block_of(const tensor &t, int row, int block)
{
    int bytes = t.type == QUANT_Q4_1 ? Q4_1_BYTES : Q8_0_BYTES;
    return t.data + row * t.row_bytes + (size_t)block * bytes;
}

// Packs columns 8 q to 8 q + 7 of a block of Q4_1 into a word: columns 2 p into
// its lower half, column 2 p + 1 at the same place of its upper half.
static void pack_four(uint8_t *to, const uint8_t *block, int q)
{
    uint32_t word = 0;
    for (int i = 0; i < 8; ++i) {
        int k = 8 * q + i;
        uint32_t code = block[4 + k % 16] >> (k < 16 ? 0 : 4) & 15;
        word |= code << (4 * (i / 2) + 16 * (i % 2));
    }
    memcpy(to, &word, sizeof word);
}

// Packs a block, which is row r * 8 + group of a tile: its codes for the four
// lanes that take them, and its scales.
static void pack_row(const weights &w, uint8_t *codes, __half *scales,
                     const uint8_t *block, int r, int group)
{
    int bytes = w.four ? 4 : 8, scale_count = w.four ? 2 : 1;
    for (int q = 0; q < 4; ++q) {
        uint8_t *to = codes + (group * 4 + q) * 2 * bytes + r * bytes;
        if (w.four)
            pack_four(to, block, q);
        else
            memcpy(to, block + 2 + 8 * q, 8);
    }
    memcpy(scales + group * 2 * scale_count + r * scale_count, block,
           scale_count * sizeof(__half));
}

// The row of a tensor that a row of the matrix is made from.
struct row_source {
    const tensor *of; // NULL: the row is zeros
    int row;
};

// The matrix has the tensors' rows, one tensor after the other; if two are
// paired, it has eight rows of one and eight of the other in turn.
static row_source source_of(const tensor *const *parts, int count, bool paired,
                        int row)
{
    if (paired)
        return {parts[row / 8 % 2], row / 16 * 8 + row % 8};
    for (int i = 0; i < count; row -= parts[i++]->rows)
        if (row < parts[i]->rows)
            return {parts[i], row};
    return {NULL, 0};
}

static void *to_device(const void *from, size_t bytes)
{
    void *to;
    CUDA_CHECK(cudaMalloc(&to, bytes));
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    return to;
}

static weights repack(const struct model *m, const tensor *const *parts,
                      int count, bool paired)
{
    weights w = {NULL, NULL, 0, parts[0]->columns,
                 parts[0]->type == QUANT_Q4_1};
    for (int i = 0; i < count; ++i) {
        w.rows += parts[i]->rows;
        if (parts[i]->type != parts[0]->type)
            fail(EXIT_USAGE, "%s: matrices that are multiplied together are "
                             "quantised in two ways", gguf_path(m->file));
    }
    w.rows = (w.rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    int blocks = w.columns / QUANT_BLOCK;
    size_t tiles = (w.rows / TILE_ROWS + TILES - 1) / TILES * TILES * blocks;
    size_t tile_bytes = w.four ? 256 : 512, tile_scales = w.four ? 32 : 16;
    uint8_t *codes = (uint8_t *)need(calloc(tiles, tile_bytes));
    __half *scales = (__half *)need(calloc(tiles, tile_scales * 2));
    for (int row = 0; row < w.rows; ++row) {
        row_source from = source_of(parts, count, paired, row);
        for (int b = 0; from.of && b < blocks; ++b) {
            size_t tile = (size_t)(row / TILE_ROWS) * blocks + b;
            pack_row(w, codes + tile * tile_bytes, scales + tile * tile_scales,
                     block_of(*from.of, from.row, b), row / 8 % 2, row % 8);
        }
    }
    w.codes = (const uint8_t *)to_device(codes, tiles * tile_bytes);
    w.scales = (const __half2 *)to_device(scales, tiles * tile_scales * 2);
    free(codes);
    free(scales);
    return w;
}

// ---- Name the vectors of a product ----
enum from { NORMED, FLOATS, HALVES };
struct source { // a product's vectors: [tokens][columns]
    from how;
    const void *x;        // HALVES: halves; otherwise floats
    const float *squares; // NORMED: [columns / 16][room], sums of 16 squares
    int room;             // tokens
    float epsilon;
};

// What RMSNorm multiplies a token's vector by; 1 if `from` is not to be normed.
// Eight lanes share a token.
__device__ float factor_of(const source &from, int columns, int token)
{
    float sum = 0;
    if (from.how != NORMED)
        return 1;
    int sums = columns / TILE_ROWS;
    for (int first = threadIdx.x % 8; first < sums; first += 64)
#pragma unroll
        for (int i = first; i < first + 64; i += 8)
            sum += i < sums ? from.squares[(size_t)i * from.room + token] : 0;
    for (int i = 4; i > 0; i /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, i);
    return rsqrtf(sum / columns + from.epsilon);
}

// Rounds two floats to halves, `high`, and what is lost to halves, `rest`.
__device__ void split(uint32_t &high, uint32_t &rest, float2 x)
{
    // Round, and keep the rest
    __half2 near = __float22half2_rn(x);
    float2 back = __half22float2(near);
    __half2 left = __float22half2_rn(float2{x.x - back.x, x.y - back.y});
    high = *(uint32_t *)&near;
    rest = *(uint32_t *)&left;
}

// ---- Work on two halves at once ----

// (x & MASK) | 0x6400 in each 16 bits: the half 1024 plus the bits under MASK.
template <uint32_t MASK> __device__ uint32_t beyond_1024(uint32_t x)
{
    uint32_t y;
    asm("lop3.b32 %0, %1, %2, 0x64006400, 0xea;"
        : "=r"(y)
        : "r"(x), "n"(MASK));
    return y;
}

// Subtracts the two halves of LESS from those of x.
template <uint32_t LESS> __device__ uint32_t less(uint32_t x)
{
    uint32_t y;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(LESS));
    return y;
}

__device__ uint32_t sixteenth_less_64(uint32_t x)
{
    uint32_t y;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(y)
        : "r"(x), "r"(0x2c002c00), "r"(0xd400d400));
    return y;
}

// The half in the lower 16 bits, as a float.
__device__ float half_of(uint32_t bits)
{
    float x;
    asm("{ .reg .b16 low; cvt.u16.u32 low, %1; cvt.f32.f16 %0, low; }"
        : "=f"(x)
        : "r"(bits));
    return x;
}

// ---- Make halves of whole numbers ----

// Turns eight codes of four bits into halves, columns 2 p and 2 p + 1 in h[p].
// The half 1024 is 0x6400, and its last bit is worth 1. Codes are put into the
// last four bits, or into the four above, where they count 16 times as much.
__device__ void halves_of(uint32_t (&h)[4], uint32_t word)
{
    uint32_t next = word >> 8;
    h[0] = less<0x64006400>(beyond_1024<0x000f000f>(word));
    h[1] = sixteenth_less_64(beyond_1024<0x00f000f0>(word));
    h[2] = less<0x64006400>(beyond_1024<0x000f000f>(next));
    h[3] = sixteenth_less_64(beyond_1024<0x00f000f0>(next));
}

// Turns eight signed codes of eight bits into halves, with columns as above.
__device__ void halves_of(uint32_t (&h)[4], uint2 words)
{
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        uint32_t word = (p < 2 ? words.x : words.y) ^ 0x80808080;
        uint32_t two = __byte_perm(word, 0x64646464, p % 2 ? 0x4342 : 0x4140);
        h[p] = less<0x64806480>(two); // 1024 + 128
    }
}

// ---- Load pieces of tiles ----
template <bool FOUR> struct piece {
    std::conditional_t<FOUR, uint2, uint4> codes; // rows lane / 4, and + 8
    std::conditional_t<FOUR, uint2, uint32_t> scales;
};

// Brings a line into the L2 cache, for a later load.
__device__ void prefetch(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" : : "l"(at));
}

template <bool FOUR>
__device__ void prefetch_pieces(const weights &w, int tile, int count, int b)
{
    int lane = threadIdx.x % 32, blocks = w.columns / QUANT_BLOCK;
    const auto *codes = (const decltype(piece<FOUR>::codes) *)w.codes + lane;
    for (; b < blocks; b += SHARERS)
        for (int m = 0; m < count; ++m)
            prefetch(codes + ((size_t)(tile + m) * blocks + b) * 32);
}

// Loads block b of M tiles of rows from `tile` on; past the last block, zeros.
template <bool FOUR, int M>
__device__ void load_pieces(piece<FOUR> (&to)[M], const weights &w, int tile,
                            int b)
{
    int lane = threadIdx.x % 32, blocks = w.columns / QUANT_BLOCK;
    const auto *codes = (const decltype(to->codes) *)w.codes + lane;
    const auto *scales = (const decltype(to->scales) *)w.scales + lane / 4;
#pragma unroll
    for (int m = 0; m < M; ++m) {
        size_t at = (size_t)(tile + m) * blocks + b;
        to[m] = {};
        if (b < blocks)
            to[m] = {codes[at * 32], scales[at * 8]};
    }
}

// ---- Take a piece apart ----
struct taken { // a lane's part of a tile: rows lane / 4, and + 8
    uint32_t a[2][4]; // the operands A of two products
    float scale[2], offset[2];
};

template <bool FOUR> __device__ taken take(const piece<FOUR> &p)
{
    uint32_t low[4], high[4];
    float2 first, second; // each row's scale and offset
    if constexpr (FOUR) {
        halves_of(low, p.codes.x);
        halves_of(high, p.codes.y);
        first = {half_of(p.scales.x), half_of(p.scales.x >> 16)};
        second = {half_of(p.scales.y), half_of(p.scales.y >> 16)};
    } else {
        halves_of(low, uint2{p.codes.x, p.codes.y});
        halves_of(high, uint2{p.codes.z, p.codes.w});
        first = {half_of(p.scales), 0};
        second = {half_of(p.scales >> 16), 0};
    }
    return {{{low[0], high[0], low[1], high[1]},
             {low[2], high[2], low[3], high[3]}},
            {first.x, second.x},
            {first.y, second.y}};
}

// ---- Turn and store two rows of a token ----
enum to { STORED, ADDED, GATED, TURNED };
struct result { // [tokens][rows]
    to how;
    float *y;
    float *scaled;      // ADDED: y times the next norm's weights
    const float *scale; // ADDED: the next norm's weights
    float *squares;     // ADDED: [rows / 16][room], sums of 16 squares of y
    int room;           // tokens

    // Name what is turned by which angles
    __half *q, *k, *v;   // TURNED: [tokens][rows of each], instead of y
    const float2 *turns; // [place][32] cosines and sines
    const step *now;
    int q_rows, turned_rows; // rows of queries; of queries and keys
};

// Queries, keys and values lie apart.
__device__ __half *turned_place(const result &to, int rows, int row, int token)
{
    if (row < to.q_rows)
        return to.q + (size_t)token * to.q_rows + row;
    bool key = row < to.turned_rows;
    return (key ? to.k + row - to.q_rows : to.v + row - to.turned_rows) +
           (size_t)token * (rows - to.turned_rows);
}

union beside { // what a result needs besides the sums, of two rows of a token
    float2 added[2]; // ADDED: y, and the next norm's weight
    float2 angle[2]; // TURNED: cosine and sine
};

// A token's place in the text, for its angles.
__device__ int place_of(const result &to, int token, int count)
{
    if (to.how != TURNED || token >= count)
        return 0;

    // Count a token's place in the text
    int place = to.now->lengths[token] - 1;

    return place;
}

// Loads what store_rows() needs. Callers load everything before they store: the
// compiler would move no load ahead of a store.
__device__ beside load_beside(const result &to, int rows, int row, int token,
                              int count, int place)
{
    beside b = {};
    if (row >= rows || token >= count)
        return b;
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (to.how == ADDED) {
            b.added[i] = {to.y[(size_t)token * rows + row + 8 * i],
                          to.scale[row + 8 * i]};
        } else if (to.how == TURNED) {
            const float2 *by = to.turns + (size_t)place * (HEAD_DIM / 2);
            b.angle[i] = by[(row + 8 * i) % HEAD_DIM / 2];
        }
    return b;
}

// Stores a lane's two sums of a token: of rows `row` and `row` + 8 of `rows`.
// All lanes of the warp call it. ADDED: y += sum. GATED: y = silu(a) b, with a
// the first sum and b the second; y has half as many rows. TURNED: queries,
// keys and values, as chapter 21 wants them.
__device__ void store_rows(const result &to, int rows, int row, int token,
                           int count, float (&sum)[2], const beside &b)
{
    // Turn queries and keys by their places
    if (to.how == TURNED && row < to.turned_rows) {
        for (int i = 0; i < 2; ++i) {
            float other = __shfl_xor_sync(0xffffffff, sum[i], 4); // of the pair
            float2 angle = b.angle[i];
            sum[i] = fmaf(sum[i], angle.x, (row % 2 ? other : -other) * angle.y);
        }
    }

    // Add to the vector, and sum up its squares
    if (to.how == ADDED) {
        sum[0] += b.added[0].x;
        sum[1] += b.added[1].x;
        float squares = sum[0] * sum[0] + sum[1] * sum[1];
        for (int i = 16; i > 2; i /= 2) // lanes with the same token
            squares += __shfl_xor_sync(0xffffffff, squares, i);
        if (threadIdx.x % 32 < 4 && token < count)
            to.squares[(size_t)(row / TILE_ROWS) * to.room + token] = squares;
    }

    if (token < count) {
        // Store two rows of a token
        if (to.how == GATED) {
            float gate = sum[0] / (1 + __expf(-sum[0]));
            to.y[(size_t)token * (rows / 2) + row / 16 * 8 + row % 8] = gate * sum[1];
        } else if (to.how == TURNED) {
            __half *at = turned_place(to, rows, row, token);
            at[0] = __float2half_rn(sum[0]);
            at[8] = __float2half_rn(sum[1]);
        } else {
            size_t at = (size_t)token * rows + row;
            for (int i = 0; i < 2; ++i) {
                to.y[at + 8 * i] = sum[i];
                if (to.how == ADDED)
                    to.scaled[at + 8 * i] = sum[i] * b.added[i].y;
            }
        }
    }
}

// ---- Load and round vectors ----
struct eight { // columns of a token: floats, or halves in `first`
    uint4 first, second;
};

// Loads block b's columns of the lane's token in each group.
template <int N, int GROUPS>
__device__ void load_vectors(eight (&to)[GROUPS], const source &from,
                             int columns, int b, int first, int count)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        int token = first + (N ? g * GROUP + lane / 4 : lane / 8);
        size_t at = (size_t)token * columns + b * QUANT_BLOCK + lane % 4 * 8;
        to[g] = {};
        if (token < count && b < columns / QUANT_BLOCK) {
            size_t bytes = from.how == HALVES ? sizeof(__half) : sizeof(float);
            const auto *x = (const uint8_t *)from.x + at * bytes;
            to[g].first = *(const uint4 *)x;
            if (from.how != HALVES)
                to[g].second = *(const uint4 *)(x + sizeof(uint4));
        }
    }
}

struct rounded {
    uint32_t high[4], rest[4]; // two columns each
    float sum;                 // of the token's 32 numbers in a block
};

__device__ rounded round_eight(const eight &x, bool halves, float factor)
{
    const uint32_t words[8] = {x.first.x,  x.first.y,  x.first.z,  x.first.w,
                               x.second.x, x.second.y, x.second.z, x.second.w};
    rounded to = {};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        float2 two = {__uint_as_float(words[2 * p]) * factor,
                      __uint_as_float(words[2 * p + 1]) * factor};
        if (halves)
            two = __half22float2(*(const __half2 *)&words[p]);
        split(to.high[p], to.rest[p], two);
        to.sum += two.x + two.y;
    }
    to.sum += __shfl_xor_sync(0xffffffff, to.sum, 1);
    to.sum += __shfl_xor_sync(0xffffffff, to.sum, 2);
    return to;
}

// ---- Multiply a tile by a group of tokens ----

// y: rows lane / 4 and + 8 of the product for the lane's tokens. N = 0: column
// 2 t has token t's numbers as halves, column 2 t + 1 what rounding has lost.
template <int N, int MINE>
__device__ void multiply_tile(float (&y)[MINE][2], const uint32_t (&a)[2][4],
                              const rounded &v)
{
    bool rest = N == 0 && threadIdx.x / 4 % 2; // whether the lane takes rests
    float d[4] = {}, e[4] = {};
    uint32_t b[4];
    for (int p = 0; p < 4; ++p)
        b[p] = rest ? v.rest[p] : v.high[p];
    mma(d, a[0], b[0], b[1]);
    mma(d, a[1], b[2], b[3]);
    if (N) {
        mma(e, a[0], v.rest[0], v.rest[1]);
        mma(e, a[1], v.rest[2], v.rest[3]);
    }
    for (int i = 0; i < MINE; ++i)
        for (int r = 0; r < 2; ++r)
            y[i][r] = N ? d[2 * r + i] + e[2 * r + i] : d[2 * r] + d[2 * r + 1];
}

// Adds the products of a block of columns: M tiles by all groups of tokens.
template <bool FOUR, int M, int N, int GROUPS, int MINE>
__device__ void multiply_pieces(float (&sums)[M][GROUPS][MINE][2],
                                const piece<FOUR> (&pieces)[M],
                                const eight (&x)[GROUPS], const source &from,
                                const float *factors)
{
    int lane = threadIdx.x % 32;
    taken all[M];
#pragma unroll
    for (int m = 0; m < M; ++m)
        all[m] = take(pieces[m]);
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        float factor = factors[N ? g * GROUP + lane / 4 : lane / 8];
        const rounded v = round_eight(x[g], from.how == HALVES, factor);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const taken &p = all[m];
            float y[MINE][2];
            multiply_tile<N>(y, p.a, v);
#pragma unroll
            for (int i = 0; i < MINE; ++i) {
                float(&sum)[2] = sums[m][g][i];
                int owner = N ? lane % 4 * 8 + 4 * i : lane % 4 * 8;
                float of_block = __shfl_sync(0xffffffff, v.sum, owner);
                sum[0] = fmaf(p.scale[0], y[i][0], sum[0]);
                sum[1] = fmaf(p.scale[1], y[i][1], sum[1]);
                if (FOUR) {
                    // Add the offset of a block
                    sum[0] = fmaf(p.offset[0], of_block, sum[0]);
                    sum[1] = fmaf(p.offset[1], of_block, sum[1]);
                }
            }
        }
    }
}

// y = W x. A CTA has M tiles of rows, and N groups of eight tokens; if N is 0,
// four tokens, each with two columns of a product: half and rest.
template <bool FOUR, int M, int N>
__global__ void __launch_bounds__(32 * SHARERS, M * N == 16 ? 1 : 2)
product(weights w, source from, result to, int count)
{
    constexpr int GROUPS = N ? N : 1, MINE = N ? 2 : 1;
    __shared__ float factors[GROUPS * GROUP];
    __shared__ float2 parts[SHARERS][GROUPS * MINE][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int blocks = w.columns / QUANT_BLOCK;
    int tile = blockIdx.x * M, first = blockIdx.y * N * GROUP;
    float sums[M][GROUPS][MINE][2] = {};
    // Blocks on their way.
    constexpr int AT_ONCE = N == 4 ? 1 : M + N == 1 ? 6 : 3;
    piece<FOUR> pieces[AT_ONCE][M];
    eight x[AT_ONCE][GROUPS];
    beside more[M];
    #pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) // no earlier kernel writes weights
        load_pieces<FOUR>(pieces[i], w, tile, warp + i * SHARERS);
    prefetch_pieces<FOUR>(w, tile, M, warp + AT_ONCE * SHARERS);
    await_previous();
    #pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
        load_vectors<N>(x[i], from, w.columns, warp + i * SHARERS, first, count);
    int row = tile * TILE_ROWS + lane / 4;
    int token = first + (N ? warp / 2 * GROUP + lane % 4 * 2 + warp % 2 : lane % 4);
    int place = place_of(to, token, count);
    for (int m = 0; warp < GROUPS * MINE && m < M; ++m)
        more[m] = load_beside(to, w.rows, row + m * TILE_ROWS, token, count, place);
    for (int i = threadIdx.x / 8; i < GROUPS * GROUP; i += SHARERS * 4) {
        float factor = factor_of(from, w.columns, first + i);
        if (threadIdx.x % 8 == 0)
            factors[i] = factor;
    }
    __syncthreads();
    for (int b = warp; b < blocks; b += AT_ONCE * SHARERS) {
        // Load the next blocks
        if (b > warp) {
        #pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                load_pieces<FOUR>(pieces[i], w, tile, b + i * SHARERS);
                load_vectors<N>(x[i], from, w.columns, b + i * SHARERS, first, count);
            }
        }

#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (i % 3 == 0 && b + i * SHARERS >= blocks)
                break;
            multiply_pieces<FOUR, M, N>(sums, pieces[i], x[i], from, factors);
        }
    }

    // Merge the warps' parts, and store
    #pragma unroll
    for (int m = 0; m < M; ++m) {
    #pragma unroll
        for (int f = 0; f < GROUPS * MINE; ++f) {
            float(&mine)[2] = sums[m][f / MINE][f % MINE];
            parts[warp][f][lane] = {mine[0], mine[1]};
        }
        __syncthreads();
        if (warp < GROUPS * MINE) {
            float sum[2] = {0, 0};
            for (int i = 0; i < SHARERS; ++i) {
                sum[0] += parts[i][warp][lane].x;
                sum[1] += parts[i][warp][lane].y;
            }
            if (row + m * TILE_ROWS < w.rows)
                store_rows(to, w.rows, row + m * TILE_ROWS, token, count, sum,
                           more[m]);
        }
        __syncthreads();
    }
}

// ---- Prepare tokens' vectors for tiles ----
struct operand {
    uint32_t *halves; // token t rounded in row 2 t, what is left in 2 t + 1
    float *sums;      // [columns / 32][tokens]: a block's numbers summed
    int columns, tokens;
};

static size_t operand_words(int columns, int tokens)
{
    return (size_t)tokens * (columns + columns / QUANT_BLOCK);
}

static operand operand_of(uint32_t *words, int columns, int tokens)
{
    return {words, (float *)(words + (size_t)tokens * columns), columns,
            tokens};
}

constexpr int PREPARED = 1; // tokens of a CTA

__global__ void __launch_bounds__(THREADS)
prepare(operand to, source from, int count)
{
    await_previous();
    int token = blockIdx.x, lane = threadIdx.x % 32, columns = to.columns;
    size_t at = (size_t)token * columns / 2;
    uint32_t *halves = to.halves + (size_t)token * columns;
    float factor = factor_of(from, columns, token);
    for (int c = threadIdx.x - lane; c < columns / 2; c += THREADS) {
        int mine = c + lane;
        float2 x = {};
        if (mine < columns / 2) {
            if (from.how == HALVES)
                x = __half22float2(((const __half2 *)from.x)[at + mine]);
            else
                x = ((const float2 *)from.x)[at + mine];
            x = {x.x * factor, x.y * factor};
            split(halves[mine], halves[columns / 2 + mine], x);
        }
        float sum = x.x + x.y;
        for (int i = 8; i > 0; i /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, i);
        if (lane % 16 == 0 && mine < columns / 2)
            to.sums[mine / 16 * to.tokens + token] = sum;
    }
}

// ---- Bring a block of columns of both factors ----
constexpr int SOME_TOKENS = 64; // that a CTA multiplies by
constexpr int RING = 4;         // stages: three on their way, one at work
constexpr int CTAS = 4;         // of an SM

template <bool FOUR> struct block_stage { // 32 columns of weights and of x
    decltype(piece<FOUR>::codes) codes[TILES][32];
    decltype(piece<FOUR>::scales) scales[TILES][8];
    __half x[2][SOME_TOKENS][QUANT_BLOCK]; // x as halves; what rounding left
    float sums[SOME_TOKENS];
};

// Copies COUNT pieces of 16 bytes: all threads together.
template <unsigned COUNT, class FROM>
__device__ void copy_pieces(void *to, FROM from)
{
#pragma unroll
    for (unsigned first = 0; first < COUNT; first += THREADS) {
        unsigned i = first + threadIdx.x;
        if (first + THREADS <= COUNT || i < COUNT)
            prompt::copy_sixteen((uint4 *)to + i, from(i));
    }
}

// The matrix has zeros for rows past its last, and the vectors have room for
// tokens past the last, whatever they are: these products are not stored.
template <bool FOUR>
__device__ void bring(block_stage<FOUR> &to, const weights &w, const operand &x,
                      unsigned b)
{
    constexpr unsigned CODES = sizeof to.codes[0] / 16;
    constexpr unsigned SCALES = sizeof to.scales[0] / 16;
    unsigned blocks = w.columns / QUANT_BLOCK, tile = blockIdx.x * TILES;
    unsigned token = blockIdx.y * SOME_TOKENS, row = x.columns * sizeof(__half);
    if (b < blocks) {
        copy_pieces<TILES * CODES>(to.codes, [&](unsigned i) {
            unsigned of_tile = (tile + i / CODES) * blocks + b;
            return (const uint4 *)w.codes + of_tile * CODES + i % CODES;
        });
        copy_pieces<TILES * SCALES>(to.scales, [&](unsigned i) {
            unsigned of_tile = (tile + i / SCALES) * blocks + b;
            return (const uint4 *)w.scales + of_tile * SCALES + i % SCALES;
        });
        copy_pieces<2 * SOME_TOKENS * 4>(to.x, [&](unsigned i) {
            unsigned at = 2 * (token + i / 4 % SOME_TOKENS);
            at += i / 4 / SOME_TOKENS; // 1 more for what rounding left
            return (const uint8_t *)x.halves + at * row + b * 64 + i % 4 * 16;
        });
        if (FOUR)
            copy_pieces<SOME_TOKENS / 4>(to.sums, [&](unsigned i) {
                return x.sums + b * x.tokens + token + 4 * i;
            });
    }
    prompt::copy_commit(); // even an empty group, so that the wait counts right
}

// ---- Multiply tiles of weights by a block of tokens ----
constexpr int HERE = TILES / 2;                   // tiles of a warp
constexpr int TOKENS_HERE = SOME_TOKENS / 2;
constexpr int COLUMNS_HERE = TOKENS_HERE / GROUP; // a warp's groups of 8 tokens

// Adds a warp's products of a stage.
template <bool FOUR>
__device__ void multiply_stage(float (&sums)[HERE][COLUMNS_HERE][2][2],
                               const block_stage<FOUR> &now, int tile,
                               int token)
{
    int lane = threadIdx.x % 32;
    taken all[HERE];
#pragma unroll
    for (int m = 0; m < HERE; ++m)
        all[m] = take(piece<FOUR>{now.codes[tile + m][lane],
                                  now.scales[tile + m][lane / 4]});
#pragma unroll
    for (int n = 0; n < COLUMNS_HERE; ++n) {
        float d[HERE][4] = {};
#pragma unroll
        for (int rest = 0; rest < 2; ++rest) {
            const __half *column = now.x[rest][token + 8 * n + lane / 4];
            uint4 v = *(const uint4 *)(column + lane % 4 * 8);
#pragma unroll
            for (int m = 0; m < HERE; ++m)
                mma(d[m], all[m].a[0], v.x, v.y);
#pragma unroll
            for (int m = 0; m < HERE; ++m)
                mma(d[m], all[m].a[1], v.z, v.w);
        }
#pragma unroll
        for (int i = 0; i < 2 * HERE; ++i) {
            const taken &p = all[i / 2];
            float(&sum)[2] = sums[i / 2][n][i % 2];
            sum[0] = fmaf(p.scale[0], d[i / 2][i % 2], sum[0]);
            sum[1] = fmaf(p.scale[1], d[i / 2][i % 2 + 2], sum[1]);
            if (FOUR) {
                int mine = token + 8 * n + lane % 4 * 2 + i % 2;
                float of_block = now.sums[mine];

                // Add the offset of a block
                sum[0] = fmaf(p.offset[0], of_block, sum[0]);
                sum[1] = fmaf(p.offset[1], of_block, sum[1]);
            }
        }
    }
}

template <bool FOUR>
__global__ void __launch_bounds__(THREADS, CTAS)
multiply_block(weights w, operand x, result to, int count)
{
    extern __shared__ __align__(16) unsigned char memory[];
    auto *ring = (block_stage<FOUR> *)memory;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tile = warp % 2 * HERE, column = warp / 2 * TOKENS_HERE;
    int blocks = w.columns / QUANT_BLOCK;
    float sums[HERE][COLUMNS_HERE][2][2] = {};

    await_previous();
    for (int b = 0; b < RING - 1; ++b)
        bring(ring[b], w, x, b);
    for (int b = 0; b < blocks; ++b) {
        copy_wait<RING - 2>();
        __syncthreads(); // the stage is complete; nobody reads the one before
        bring(ring[(b + RING - 1) % RING], w, x, b + RING - 1);
        multiply_stage<FOUR>(sums, ring[b % RING], tile, column);
    }

    // Store a warp's tiles
    int first = blockIdx.y * SOME_TOKENS + column + lane % 4 * 2;
    int places[COLUMNS_HERE][2];
    #pragma unroll
    for (int i = 0; i < 2 * COLUMNS_HERE; ++i)
        places[i / 2][i % 2] = place_of(to, first + i / 2 * GROUP + i % 2, count);
    #pragma unroll
    for (int m = 0; m < HERE; ++m) {
        int row = (blockIdx.x * TILES + tile + m) * TILE_ROWS + lane / 4;
        beside more[COLUMNS_HERE][2];
    #pragma unroll
        for (int i = 0; i < 2 * COLUMNS_HERE; ++i)
            more[i / 2][i % 2] = load_beside(
                to, w.rows, row, first + i / 2 * GROUP + i % 2, count,
                places[i / 2][i % 2]);
    #pragma unroll
        for (int i = 0; i < 2 * COLUMNS_HERE; ++i)
            if (row < w.rows)
                store_rows(to, w.rows, row, first + i / 2 * GROUP + i % 2, count,
                           sums[m][i / 2][i % 2], more[i / 2][i % 2]);
    }
}

// A warp has a token of a head of keys; new_k and new_v: [tokens][all heads].
__global__ void __launch_bounds__(THREADS)
append_block(cache_args args, const step *now, int count)
{
    int token = blockIdx.x * WARPS + threadIdx.x / 32;
    int head = blockIdx.y, heads = args.shape.heads;
    await_previous();
    if (token >= count)
        return;
    int place = now->lengths[token] - 1;

    // Put a token into its page
    size_t at = find({}, args, place / GRANULE, args.table[place / PAGE]);
    raw_token raw = load_token(args, token * heads + head);
    append(args, quantise(raw), at, place % GRANULE);
}

// A CTA looks up a token, and stores its vector as for ADDED, but adds it to
// nothing.
__global__ void __launch_bounds__(THREADS)
embed(result to, weights w, const step *now)
{
    await_previous();
    int row = now->ids[blockIdx.x], r = row / 8 % 2, group = row % 8;
    int blocks = w.columns / QUANT_BLOCK, size = w.four ? 4 : 8;
    for (int c = threadIdx.x; c < w.columns; c += THREADS) {
        size_t tile = (size_t)(row / TILE_ROWS) * blocks + c / QUANT_BLOCK;
        int k = c % 8, lane = 4 * group + c % QUANT_BLOCK / 8;
        const uint8_t *codes = w.codes + (tile * 64 + 2 * lane + r) * size;
        float value;
        if (w.four) {
            uint32_t word = *(const uint32_t *)codes;
            float2 by = __half22float2(w.scales[tile * 16 + 2 * group + r]);
            value = by.x * (word >> (4 * (k / 2) + 16 * (k % 2)) & 15) + by.y;
        } else {
            float2 by = __half22float2(w.scales[tile * 8 + group]);
            value = (r ? by.y : by.x) * (int8_t)codes[k];
        }
        to.y[(size_t)blockIdx.x * w.columns + c] = value;
        to.scaled[(size_t)blockIdx.x * w.columns + c] = value * to.scale[c];
        float sum = value * value;
        for (int i = TILE_ROWS / 2; i > 0; i /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, i);
        if (c % TILE_ROWS == 0)
            to.squares[c / TILE_ROWS * to.room + blockIdx.x] = sum;
    }
}

// ---- Find the likeliest token ----
struct choice {
    float logit;
    int id;
};

// The choice with the larger logit; if they are equal, with the smaller id.
__device__ choice better(choice a, choice b)
{
    return b.logit > a.logit || (b.logit == a.logit && b.id < a.id) ? b : a;
}

__device__ choice best_of_warp(choice a)
{
    for (int i = 16; i > 0; i /= 2)
        a = better(a, {__shfl_xor_sync(0xffffffff, a.logit, i),
                       __shfl_xor_sync(0xffffffff, a.id, i)});
    return a;
}

// ---- Draw a token ----
struct drawing {
    float scale;    // log2(e) / temperature; 0: the likeliest token is taken
    uint64_t share; // 2^64 top_p
    uint32_t seed;
};

struct candidates { // what a warp has of the logits
    const float *logits;
    int first, end;
    float largest, scale; // the largest of all logits; as in `drawing`
};

// Weigh a token
__device__ uint32_t weight(const candidates &c, int token)
{
    float less = c.logits[token] - c.largest;
    return __float2uint_rn(exp2_approx(fmaf(less, c.scale, 29)));
}

// Philox2x32-10: 64 random bits of a counter and a key.
__device__ uint64_t random_bits(uint32_t counter, uint32_t key)
{
    uint32_t low = counter, high = 0;
    for (int round = 0; round < 10; ++round) {
        uint64_t product = (uint64_t)0xd256d193 * low;
        low = (uint32_t)(product >> 32) ^ key ^ high;
        high = (uint32_t)product;
        key += 0x9e3779b9;
    }
    return (uint64_t)high << 32 | low;
}

// The sum of a warp's numbers up to this lane's.
__device__ uint64_t sum_up_to(uint64_t x)
{
    for (int i = 1; i < 32; i *= 2) {
        uint64_t before = __shfl_up_sync(0xffffffff, x, i);
        if (threadIdx.x % 32 >= i)
            x += before;
    }
    return x;
}

// Returns in which lane's part of the sum the target lies, and subtracts what
// lies before that part from the target.
__device__ int find_lane(uint64_t mine, uint64_t &target)
{
    uint64_t end = sum_up_to(mine);
    int lane = __ffs(__ballot_sync(0xffffffff, end > target)) - 1;
    target -= __shfl_sync(0xffffffff, end - mine, lane);
    return lane;
}

// Sums up the weights of at least `least`: for each warp in `sums`; returns the
// sum of all warps.
__device__ uint64_t sum_of(uint64_t (&sums)[32], const candidates &c,
                           uint32_t least)
{
    int lane = threadIdx.x % 32;
    uint64_t sum = 0;
    for (int i = c.first + lane; i < c.end; i += 32) {
        uint32_t w = weight(c, i);
        sum += w >= least ? w : 0;
    }
    sum = sum_up_to(sum);
    __syncthreads(); // all have read the sums that were here before
    if (lane == 31)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    return __shfl_sync(0xffffffff, sum_up_to(sums[lane]), 31);
}

// The largest weight w for which the weights of at least w add up to more than
// `enough`. All threads of the CTA call it.
__device__ uint32_t least_kept(const candidates &c, uint64_t enough)
{
    __shared__ unsigned long long bins[32];
    int lane = threadIdx.x % 32;
    uint64_t above = 0; // the sum of the weights that are surely larger
    uint32_t least = 0;

    for (int shift = 25; shift >= 0; shift -= 5) {
        if (threadIdx.x < 32)
            bins[lane] = 0;
        __syncthreads();
        for (int i = c.first + lane; i < c.end; i += 32) {
            uint32_t w = weight(c, i), digit = (w >> shift) % 32;
            if (digit > 0 && (w ^ least) >> shift < 32)
                atomicAdd(&bins[digit], w);
        }
        __syncthreads();
        uint64_t mine = bins[31 - lane], sum = above + sum_up_to(mine);
        unsigned large = __ballot_sync(0xffffffff, sum > enough);
        int last = large ? __ffs(large) - 1 : 31;
        above = __shfl_sync(0xffffffff, sum - mine, last);
        least |= (31 - last) << shift;
        __syncthreads(); // all have read the bins
    }

    // Keep the last token, too
    return least;
}

// Draws a token for a place of the text. One thread returns it, the others -1.
__device__ int draw(const candidates &c, const drawing &by, int place)
{
    __shared__ uint64_t sums[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint64_t all = sum_of(sums, c, 0);
    uint32_t least = least_kept(c, __umul64hi(all, by.share));
    uint64_t kept = sum_of(sums, c, least), mine = 0;
    uint64_t target = __umul64hi(random_bits(place, by.seed), kept);

    if (find_lane(sums[lane], target) != warp)
        return -1;
    int each = (c.end - c.first + 31) / 32; // consecutive tokens of a lane
    int token = c.first + lane * each, end = min(token + each, c.end);
    for (int i = token; i < end; ++i) {
        uint32_t w = weight(c, i);
        mine += w >= least ? w : 0;
    }
    if (find_lane(mine, target) != lane)
        return -1;
    for (;; ++token) {
        uint32_t w = weight(c, token);
        if (w >= least && target < w)
            return token;
        target -= w >= least ? w : 0;
    }
}

// Chooses the token that follows each sequence's last one, of a step of `count`
// tokens, and puts it into the next step. A CTA of 32 warps has a sequence.
// logits: [sequences][stride].
__global__ void __launch_bounds__(1024)
choose(step *now, const float *logits, int stride, int words, int count,
       drawing by, int context)
{
    constexpr int AT_ONCE = 8; // logits on their way
    __shared__ choice best[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int each = (words + 31) / 32, first = warp * each;
    int end = min(first + each, words);
    int sequence = blockIdx.x, last = count - gridDim.x + sequence;
    choice mine = {-INFINITY, words};

    await_previous();
    logits += (size_t)sequence * stride;
    int place = now->lengths[last];
    for (int i = first + lane; i < end; i += 32 * AT_ONCE) {
        float some[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            some[j] = i + 32 * j < end ? logits[i + 32 * j] : -INFINITY;
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            mine = better(mine, {some[j], i + 32 * j});
    }
    mine = best_of_warp(mine);
    if (lane == 0)
        best[warp] = mine;
    __syncthreads();
    mine = best_of_warp(best[lane]);
    int token = threadIdx.x == 0 ? mine.id : -1;
    by.seed += sequence;
    if (by.scale > 0)
        token = draw({logits, first, end, mine.logit, by.scale}, by, place);
    if (token >= 0) {
        now->ids[sequence] = token;
        now->lengths[sequence] = min(place + 1, context);
    }
}

// ---- Foretell a token ----
__device__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffff, x, i);
    return x;
}

// surprises[i]: -log p, in nats, of the probability p that the logits behind
// token `first` + i of the step give to the step's next token. A CTA of 32
// warps has a token. logits: [tokens][stride].
__global__ void __launch_bounds__(1024)
foretell(const step *now, const float *logits, int stride, int words, int first,
         float *surprises)
{
    __shared__ float largest[32], sums[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int token = first + blockIdx.x;
    float most = -INFINITY, sum = 0;

    await_previous();
    logits += (size_t)blockIdx.x * stride;
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        most = fmaxf(most, logits[i]);
    most = lanes_max<1, 32>(most);
    if (lane == 0)
        largest[warp] = most;
    __syncthreads();
    most = lanes_max<1, 32>(largest[lane]);
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        sum += expf(logits[i] - most);
    sum = warp_sum(sum);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    sum = warp_sum(sums[lane]);
    if (threadIdx.x == 0)
        surprises[token] = most + logf(sum) - logits[now->ids[token + 1]];
}

// ---- Bring the model onto the device ----
struct step_graph {
    cudaGraphExec_t exec;
    int room;  // up to how many tokens in the sequence the graph can be used
    int count; // tokens of the step
};

struct device_layer {
    const float *attention_norm, *mlp_norm;
    weights qkv, output, gate_up, down;
    uint8_t *codes, *scales; // the layer's cache
};

struct talker {
    const struct model *model;
    struct device_layer *layer;
    weights embedding;
    const float *output_norm;
    const float2 *turns;           // [context][32]
    int *table;                    // [sequences][pages]
    step *now;                     // the step's tokens
    int tokens;                    // for which the following have room
    float *x, *scaled, *squares;   // vectors, as a product leaves them
    float *y;                      // gated values of the feed-forward network
    __half *q, *k, *v;             // [tokens][heads of each][64]
    __half *attended;              // [tokens][heads][64]
    uint32_t *operand;             // of products by tiles
    float *logits;                 // [SEQUENCES]
    float *surprises;              // -log p of a text's next tokens
    void *scratch;                 // for chapter 21's launches
    int sequence, place;           // the next token's
    bool together;                 // whether tokens are of different sequences
    int sms;
    cudaStream_t stream;
    bool graphs;                   // whether steps are launched as graphs
    step_graph reading, answering;
    bool tiles;                    // whether a prompt is read by blocks
    int few;                       // more tokens go to multiply_block()
    bool chain;                    // ch23_hopper: no cluster of CTAs
    drawing by;                    // how a token is chosen
};

static const float *vector_on_device(const tensor &t)
{
    return (const float *)to_device(t.data, t.row_bytes);
}

template <class T> static T *zeros(size_t count)
{
    T *to;
    CUDA_CHECK(cudaMalloc((void **)&to, count * sizeof(T)));
    CUDA_CHECK(cudaMemset(to, 0, count * sizeof(T)));
    return to;
}

static const float2 *make_turns(const struct model *m)
{
    size_t count = (size_t)m->context * (HEAD_DIM / 2);
    float2 *turns = (float2 *)need(malloc(count * sizeof *turns));
    for (size_t i = 0; i < count; ++i) {
        double exponent = -2.0 * (i % (HEAD_DIM / 2)) / (int)HEAD_DIM;
        double angle = i / (HEAD_DIM / 2) * pow(m->rope_base, exponent);
        turns[i] = {(float)cos(angle), (float)sin(angle)};
    }
    const float2 *on_device =
        (const float2 *)to_device(turns, count * sizeof *turns);
    free(turns);
    return on_device;
}

static int pages_of(const struct model *m)
{
    // Count the pages
    return (m->context + PAGE - 1) / PAGE;
}

static void load_layer(talker *t, int number, int sequences)
{
    const struct model *m = t->model;
    const struct layer *from = &m->layer[number];
    device_layer *to = &t->layer[number];
    const tensor *qkv[] = {&from->query, &from->key, &from->value};
    const tensor *gate_up[] = {&from->gate, &from->up};
    const tensor *output = &from->output, *down = &from->down;
    size_t pages = (size_t)pages_of(m) * sequences;
    size_t granules = pages * m->key_heads * (PAGE / GRANULE);
    to->attention_norm = vector_on_device(from->attention_norm);
    to->mlp_norm = vector_on_device(from->mlp_norm);
    to->qkv = repack(m, qkv, 3, false);
    to->output = repack(m, &output, 1, false);
    to->gate_up = repack(m, gate_up, 2, true);
    to->down = repack(m, &down, 1, false);
    to->codes = zeros<uint8_t>(granules * GRANULE_CODES);
    to->scales = zeros<uint8_t>(granules * GRANULE_SCALES);
}

// Up to how many tokens the launches for a sequence of this length can be used:
// the smallest power of two, from 256 on, that is enough, but no more than the
// model reads. For longer sequences chapter 21 may divide the keys anew.
static int room_for(const struct model *m, int length)
{
    int room = 256;
    while (room < length)
        room *= 2;
    return min(room, m->context);
}

static cache_args attention_args(const talker *t, int layer, int token,
                                 int room)
{
    const struct model *m = t->model;
    size_t keys = (size_t)token * m->key_heads * HEAD_DIM;
    cache_args args = {};
    args.q = t->q + (size_t)token * m->width;
    args.new_k = t->k + keys;
    args.new_v = t->v + keys;
    args.codes = t->layer[layer].codes;
    args.scales = t->layer[layer].scales;
    args.table = t->table + t->sequence * pages_of(m);
    args.lengths = t->now->lengths + token;
    args.out = t->attended + (size_t)token * m->width;
    args.scratch = t->scratch;
    args.shape.batch = 1;
    args.shape.heads = m->key_heads;
    args.shape.seq_len = room;
    args.queries = m->heads / m->key_heads;
    args.page = PAGE;
    args.max_pages = pages_of(m);
    args.softmax_scale = 0.125f; // 1 / sqrt(64)
    return args;
}

// The pages of a sequence lie among those of the other sequences.
static int *make_table(const struct model *m, int sequences)
{
    int pages = pages_of(m), count = pages * sequences;
    int *numbers = (int *)need(malloc(count * sizeof *numbers));
    for (int i = 0; i < count; ++i)
        numbers[i] = i % pages * sequences + i / pages;
    int *table = (int *)to_device(numbers, count * sizeof *numbers);
    free(numbers);
    return table;
}

// Scratch memory for any launch of up to `sequences` sequences; NULL if none
// needs it.
static void *make_scratch(const talker *t, int sequences)
{
    cache_args args = attention_args(t, 0, 0, t->model->context);
    size_t most = 0;
    for (int i = 1; i <= sequences; ++i) {
        args.shape.batch = i;
        most = max(most, scratch_bytes(&args));
    }
    return most ? zeros<uint8_t>(most) : NULL;
}

static void make_room(talker *t, int sequences, bool foretells)
{
    const struct model *m = t->model;
    size_t widest = max(m->width, m->inner);
    size_t tokens = (min(BLOCK, m->context) + SOME_TOKENS - 1) / SOME_TOKENS *
                    SOME_TOKENS;
    t->tokens = (int)tokens;
    t->now = zeros<step>(1);
    t->x = zeros<float>(tokens * m->width);
    t->scaled = zeros<float>(tokens * m->width);
    t->squares = zeros<float>(tokens * m->width / TILE_ROWS);
    t->y = zeros<float>(tokens * widest);
    t->q = zeros<__half>(tokens * m->width);
    t->k = zeros<__half>(tokens * m->key_heads * HEAD_DIM);
    t->v = zeros<__half>(tokens * m->key_heads * HEAD_DIM);
    t->attended = zeros<__half>(tokens * m->width);
    t->operand = zeros<uint32_t>(operand_words(widest, tokens));
    size_t answers = foretells ? (int)SEQUENCES : sequences;
    t->logits = zeros<float>(answers * t->embedding.rows);
    t->surprises = foretells ? zeros<float>(PERPLEXITY_PIECE) : NULL;
    t->scratch = make_scratch(t, sequences);
}

// ---- Load the model ----
static talker *load(const struct model *m, int sequences, bool foretells)
{
    talker *t = (talker *)need(calloc(1, sizeof *t));
    const tensor *embedding = &m->embedding;
    t->model = m;
    t->few = FEW;
    t->layer = (device_layer *)need(calloc(m->layers, sizeof *t->layer));
    for (int i = 0; i < m->layers; ++i) {
        doing("loading layer %d of %d", i + 1, m->layers);
        load_layer(t, i, sequences);
    }
    t->embedding = repack(m, &embedding, 1, false);
    t->output_norm = vector_on_device(m->output_norm);
    t->turns = make_turns(m);
    t->table = make_table(m, sequences);
    t->graphs = t->tiles = true;
    CUDA_CHECK(count_sms(&t->sms));
    make_room(t, sequences, foretells);
    CUDA_CHECK(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaDeviceSynchronize()); // zeros were set in another stream
    done();
    return t;
}

// ---- Launch a product by tiles ----
static void start_block(cudaStream_t stream, const weights &w, const operand &x,
                        const source &, const result &to, int count)
{
    int ctas = (w.rows / TILE_ROWS + TILES - 1) / TILES;
    start(stream, w.four ? multiply_block<true> : multiply_block<false>,
          dim3(ctas, (count + SOME_TOKENS - 1) / SOME_TOKENS), THREADS,
          RING * (w.four ? sizeof(block_stage<true>)
                         : sizeof(block_stage<false>)),
          w, x, to, count);
}

// ---- Launch product and attention ----
template <bool FOUR, int M, int N>
static void start_product(const talker *t, const weights &w, const source &from,
                          const result &to, int count)
{
    int tiles = w.rows / TILE_ROWS, tokens = N * GROUP;
    dim3 ctas((tiles + M - 1) / M, N ? (count + tokens - 1) / tokens : 1);
    start(t->stream, product<FOUR, M, N>, ctas, 32 * SHARERS, 0, w, from, to,
          count);
}

// Gives a CTA four or two tiles of weights if each SM still has a CTA then; for
// up to TOKENS tokens two tiles, if each SM has two CTAs; otherwise one tile.
template <bool FOUR>
static void multiply_few(const talker *t, const weights &w, const source &from,
                         const result &to, int count)
{
    int tiles = w.rows / TILE_ROWS, columns = (count + 31) / 32;
    if (count <= TOKENS && tiles / 4 >= t->sms)
        start_product<FOUR, 2, 0>(t, w, from, to, count);
    else if (count <= TOKENS)
        start_product<FOUR, 1, 0>(t, w, from, to, count);
    else if (tiles / 4 * columns >= t->sms)
        start_product<FOUR, 4, 4>(t, w, from, to, count);
    else if (tiles / 2 * columns >= t->sms)
        start_product<FOUR, 2, 4>(t, w, from, to, count);
    else
        start_product<FOUR, 1, 2>(t, w, from, to, count);
}

// y = W x, where x is made of `from`.
static void multiply(const talker *t, const weights &w, const source &from,
                     const result &to, int count)
{
    operand x = operand_of(t->operand, w.columns, t->tokens);
    if (count <= t->few)
        return w.four ? multiply_few<true>(t, w, from, to, count)
                      : multiply_few<false>(t, w, from, to, count);
    start(t->stream, prepare, (count + PREPARED - 1) / PREPARED, THREADS, 0, x,
          from, count);
    start_block(t->stream, w, x, from, to, count);
}

// Chapter 22's kernel, behind one that fills the cache.
static void attend_block(talker *t, int layer, int count)
{
    constexpr int ROW_WARPS = 1, ROWS = ROW_WARPS * TILE_ROWS;
    constexpr auto kernel = prompt::attention<HEAD_DIM, ROW_WARPS>;
    size_t bytes = sizeof(prompt::shared<HEAD_DIM>);
    prompt_args args = {attention_args(t, layer, 0, 0), &t->now->count, count};
    int heads = args.cache.shape.heads, rows = count * args.cache.queries;
    start(t->stream, append_block, dim3((count + WARPS - 1) / WARPS, heads),
          THREADS, 0, args.cache, t->now, count);
    args.cache.lengths = &t->now->length;
    const auto room = cudaFuncAttributeMaxDynamicSharedMemorySize;
    CUDA_CHECK(cudaFuncSetAttribute((const void *)kernel, room, bytes));
    kernel<<<dim3(1, heads, (rows + ROWS - 1) / ROWS), THREADS, bytes,
             t->stream>>>(args);
    CUDA_CHECK(cudaGetLastError());
}

// How much longer a sequence is after a step.
static int longer(const talker *t, int count)
{
    return t->together ? 1 : count;
}

// Launches chapter 21's kernel once, for a token of each sequence, or once for
// each token of one sequence, in order: a token sees the ones before it. More
// than TOKENS tokens of one sequence go to chapter 22's kernel.
static void attend(talker *t, int layer, int count)
{
    int room = room_for(t->model, t->place + longer(t, count));
    int launches = longer(t, count);
    if (launches > TOKENS)
        return attend_block(t, layer, count);
    for (int i = 0; i < launches; ++i) {
        cache_args args = attention_args(t, layer, i, room);
        args.shape.batch = count / launches;
        CUDA_CHECK(launch(&args, t->stream));
    }
}

// ---- Say what a product reads and leaves ----

// x += W y; next_norm: the weights of the norm that reads x next.
static result added(const talker *t, const float *next_norm)
{
    return {ADDED, t->x, t->scaled, next_norm, t->squares, t->tokens};
}

static source normed(const talker *t, int first)
{
    return {NORMED, t->scaled + (size_t)first * t->model->width,
            t->squares + first, t->tokens, (float)t->model->epsilon};
}

static result turned(const talker *t)
{
    const struct model *m = t->model;
    result to = {TURNED};
    to.q = t->q;
    to.k = t->k;
    to.v = t->v;
    to.turns = t->turns;
    to.now = t->now;
    to.q_rows = m->heads * (int)HEAD_DIM;
    to.turned_rows = to.q_rows + m->key_heads * (int)HEAD_DIM;
    return to;
}

// ---- Take tokens through a layer ----
static void run_layer(talker *t, int number, int count, bool attends)
{
    const device_layer &l = t->layer[number];
    const float *next = number + 1 < t->model->layers
                            ? t->layer[number + 1].attention_norm
                            : t->output_norm;
    multiply(t, l.qkv, normed(t, 0), turned(t), count);
    if (attends)
        attend(t, number, count);
    multiply(t, l.output, {HALVES, t->attended}, added(t, l.mlp_norm), count);
    multiply(t, l.gate_up, normed(t, 0), {GATED, t->y}, count);
    multiply(t, l.down, {FLOATS, t->y}, added(t, next), count);
}

// ---- Note Ctrl-C ----
static volatile sig_atomic_t interrupted;

static void interrupt(int)
{
    interrupted = 1;
}

// ---- Take a step ----

// Computes the logits that follow each sequence's last token, and chooses its
// next one.
static void score_next(talker *t, int count)
{
    const struct model *m = t->model;
    int sequences = t->together ? count : 1;
    multiply(t, t->embedding, normed(t, count - sequences), {STORED, t->logits},
             sequences);
    start(t->stream, choose, sequences, 1024, 0, t->now, t->logits,
          t->embedding.rows, m->words, count, t->by, m->context);
}

// Launches all kernels of a step, whose tokens are in t->now.
static void launch_step(talker *t, int count, bool answers)
{
    start(t->stream, embed, count, THREADS, 0,
          added(t, t->layer[0].attention_norm), t->embedding, t->now);
    for (int i = 0; i < t->model->layers; ++i) {
        if (longer(t, count) > TOKENS) {
            if (interrupted)
                return;
            doing("reading token %d to %d: layer %d of %d", t->place + 1,
                  t->place + count, i + 1, t->model->layers);
        }
        run_layer(t, i, count, true);
    }
    if (answers)
        score_next(t, count);
}

static void capture(talker *t, step_graph *to, int count, bool answers)
{
    cudaGraph_t graph;
    if (to->exec)
        CUDA_CHECK(cudaGraphExecDestroy(to->exec));
    CUDA_CHECK(
        cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal));
    launch_step(t, count, answers);
    CUDA_CHECK(cudaStreamEndCapture(t->stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&to->exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    to->room = room_for(t->model, t->place + longer(t, count));
    to->count = count;
}

// Launches a step: as a graph if t->graphs is set, and the step is an answer's
// or reads TOKENS tokens.
static void take_step(talker *t, int count, bool answers)
{
    step_graph *graph = answers ? &t->answering : &t->reading;
    if (!t->graphs || (!answers && count != TOKENS)) {
        launch_step(t, count, answers);
    } else {
        if (graph->room != room_for(t->model, t->place + longer(t, count)) ||
            graph->count != count)
            capture(t, graph, count, answers);
        CUDA_CHECK(cudaGraphLaunch(graph->exec, t->stream));
    }
    t->place += longer(t, count);
}

// ---- Read tokens, and bring the next one to the host ----

// Gives the next step its tokens, which follow those that were read.
static void set_step(talker *t, const int *tokens, int count)
{
    step now = {};
    for (int i = 0; i < count; ++i) {
        now.ids[i] = tokens[i];
        now.lengths[i] = t->place + i + 1;
    }
    now.count = count;
    now.length = t->place + count;
    CUDA_CHECK(cudaMemcpyAsync(t->now, &now, sizeof now, cudaMemcpyHostToDevice,
                               t->stream));
}

// Gives the next step a token of each sequence.
static void set_sequences(talker *t, const int *ids, const int *lengths,
                          int count)
{
    step now = {};
    for (int i = 0; i < count; ++i) {
        now.ids[i] = ids[i];
        now.lengths[i] = lengths[i];
        now.length = max(now.length, lengths[i]);
    }
    now.count = count;
    t->place = now.length - 1;
    CUDA_CHECK(cudaMemcpyAsync(t->now, &now, sizeof now, cudaMemcpyHostToDevice,
                               t->stream));
}

// Reads tokens; returns how many were in the last step, or 0 if interrupted.
static int read_all(talker *t, const int *tokens, int count)
{
    int here = 0;
    for (int i = 0; i < count && !interrupted; i += here) {
        here = min(count - i, t->tiles ? BLOCK : TOKENS);
        doing("reading token %d of %d", i + here, count);
        set_step(t, tokens + i, here);
        take_step(t, here, false);
        CUDA_CHECK(cudaStreamSynchronize(t->stream));
    }
    done();
    return interrupted ? 0 : here;
}

// Brings the tokens that were chosen for `count` sequences to the host.
static void bring_chosen(talker *t, int *ids, int count)
{
    CUDA_CHECK(cudaMemcpyAsync(ids, t->now->ids, count * sizeof *ids,
                               cudaMemcpyDeviceToHost, t->stream));
    CUDA_CHECK(cudaStreamSynchronize(t->stream));
}

static int chosen(talker *t)
{
    int id;
    bring_chosen(t, &id, 1);
    return id;
}

// ---- Take turns ----

// How an answer is said, and what the next turn has to read of it.
struct turn_state {
    int most;       // the most tokens of an answer
    bool numbers;   // whether to say the tokens' numbers, not their texts
    int unread[2], left; // `left` tokens that the next turn has to read first
};

static void say_token(const talker *t, const turn_state *s, int id)
{
    span bytes = token_bytes(t->model->tokens, id);
    if (s->numbers)
        printf("%d\n", id);
    else
        fwrite(bytes.at, 1, bytes.bytes, stdout);
    fflush(stdout);
}

// Generates the tokens that follow those that were read, and says them. Returns
// how many. step: how many tokens the last step read.
static int speak(talker *t, turn_state *s, int step)
{
    int most = min(s->most, t->model->context - t->place);
    int end = t->model->chat.end, said = 0;
    score_next(t, step);
    int id = chosen(t);
    while (id != end) {
        say_token(t, s, id);
        if (++said == most || interrupted)
            break;
        take_step(t, 1, true);
        id = chosen(t);
    }
    if (!s->numbers)
        putchar('\n');
    s->unread[0] = id;
    s->unread[1] = end;
    s->left = id == end ? 1 : 2;
    return said;
}

// The tokens of a question that comes after `before` tokens that have been read
// and `left` that have not.
static int *tokens_of(const talker *t, const char *question, int before,
                      int left, size_t *asked)
{
    const struct model *m = t->model;
    int *tokens =
        chat_question(&m->chat, m->tokens, before == 0, question, asked);
    if (!tokens)
        fail(EXIT_USAGE, "the question is no UTF-8 at byte %zu", *asked);
    size_t all = before + left + *asked;
    if (all >= (size_t)m->context)
        fail(EXIT_USAGE, "with the template %zu tokens have been said; the "
                         "model reads %d", all, m->context);
    return tokens;
}

// Reads a question, and says its answer.
static void take_turn(talker *t, turn_state *s, const char *question)
{
    int before = t->place;
    size_t asked;
    int *tokens = tokens_of(t, question, before, s->left, &asked);
    double begin = now();
    if (s->left > 0)
        read_all(t, s->unread, s->left);
    int step = read_all(t, tokens, (int)asked);
    free(tokens);
    if (step == 0) { // interrupted: the question is forgotten
        t->place = before;
        return;
    }
    int read = t->place - before;
    double middle = now();
    int said = speak(t, s, step);
    fprintf(stderr, "talk: %d tokens read, %.3g s each; %d said, %.3g s each\n",
            read, (middle - begin) / read, said,
            (now() - middle) / max(said, 1));
}

// Answers each line of standard input, up to its end. Ctrl-C ends an answer.
static void talk(talker *t, turn_state *s)
{
    char *line = NULL;
    size_t room = 0;
    bool asked = isatty(STDIN_FILENO);
    for (;;) {
        if (asked)
            fputs("> ", stderr);
        interrupted = 0;
        ssize_t length = getline(&line, &room, stdin);
        if (length <= 0)
            break;
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        take_turn(t, s, line);
    }
    free(line);
}

// ---- Answer questions together ----
struct answer {
    int *ids, count, most; // tokens; how many there are, and how many may be
    bool ended;
};

// Reads a question as a sequence of its own; returns its answer's first token.
static int ask_one(talker *t, int sequence, const char *question)
{
    size_t asked;
    int *tokens = tokens_of(t, question, 0, 0, &asked);
    t->sequence = sequence;
    t->place = 0;
    int step = read_all(t, tokens, (int)asked);
    free(tokens);
    if (step == 0)
        return t->model->chat.end;
    score_next(t, step);
    return chosen(t);
}

// Notes the tokens that were chosen; returns whether an answer goes on.
static bool note(const talker *t, answer *answers, const int *ids, int count)
{
    bool goes_on = false;
    for (int i = 0; i < count; ++i) {
        answer *a = &answers[i];
        a->ended |= ids[i] == t->model->chat.end;
        if (!a->ended)
            a->ids[a->count++] = ids[i];
        a->ended |= a->count == a->most;
        goes_on |= !a->ended;
    }
    return goes_on && !interrupted;
}

// Answers questions together. The answer to question i is drawn with seed + i.
static void answer_together(talker *t, const turn_state *s, char **questions,
                            int count)
{
    answer answers[SEQUENCES] = {};
    int ids[SEQUENCES], lengths[SEQUENCES], read = 0, said = 0, steps = 0;
    uint32_t seed = t->by.seed;
    double begin = now();
    for (int i = 0; i < count; ++i) {
        t->by.seed = seed + i;
        ids[i] = ask_one(t, i, questions[i]);
        lengths[i] = t->place + 1;
        read += t->place;
        answers[i].most = min(s->most, t->model->context - t->place);
        answers[i].ids = (int *)need(malloc(answers[i].most * sizeof(int)));
    }
    double middle = now();
    t->by.seed = seed;
    t->sequence = 0;
    t->together = true;
    t->answering.room = 0; // the graph is captured anew, with the seed
    set_sequences(t, ids, lengths, count);
    while (note(t, answers, ids, count)) {
        take_step(t, count, true);
        bring_chosen(t, ids, count);
        ++steps;
    }
    t->together = false;
    double end = now();
    for (int i = 0; i < count; ++i) {
        said += answers[i].count;
        for (int j = 0; j < answers[i].count; ++j)
            say_token(t, s, answers[i].ids[j]);
        if (!s->numbers)
            putchar('\n');
        free(answers[i].ids);
    }
    fprintf(stderr, "talk: %d sequences: %d tokens read, %.3g s; %d said in %d "
                    "steps, %.3g s\n",
            count, read, middle - begin, said, steps, end - middle);
}

// Answers the lines of standard input, `sequences` at a time.
static void answer_lines(talker *t, const turn_state *s, int sequences)
{
    char *lines[SEQUENCES] = {};
    size_t room[SEQUENCES] = {};
    int count;
    do {
        for (count = 0; count < sequences; ++count) {
            ssize_t length = getline(&lines[count], &room[count], stdin);
            if (length <= 0)
                break;
            if (lines[count][length - 1] == '\n')
                lines[count][length - 1] = '\0';
        }
        if (count > 0)
            answer_together(t, s, lines, count);
        t->by.seed += count;
    } while (count == sequences && !interrupted);
    for (char *line : lines)
        free(line);
}

// ---- Tell a text's perplexity ----

// Reads a piece of a text, and returns the surprises of all its tokens but the
// first, summed.
static double surprise_of(talker *t, const int *tokens, int count)
{
    float surprises[PERPLEXITY_PIECE];
    double sum = 0;
    t->place = 0;
    set_step(t, tokens, count);
    launch_step(t, count, false);
    for (int first = 0; first < count - 1; first += SEQUENCES) {
        int some = min((int)SEQUENCES, count - 1 - first);
        multiply(t, t->embedding, normed(t, first), {STORED, t->logits}, some);
        start(t->stream, foretell, some, 1024, 0, t->now, t->logits,
              t->embedding.rows, t->model->words, first, t->surprises);
    }
    CUDA_CHECK(cudaMemcpyAsync(surprises, t->surprises,
                               (count - 1) * sizeof(float),
                               cudaMemcpyDeviceToHost, t->stream));
    CUDA_CHECK(cudaStreamSynchronize(t->stream));
    for (int i = 0; i < count - 1; ++i)
        sum += surprises[i];
    return sum;
}

static void print_perplexity(talker *t)
{
    size_t count, foretold = 0;
    int *tokens = tokens_to_foretell(t->model->tokens, stdin, &count);
    int piece = min((int)PERPLEXITY_PIECE, t->model->context);
    double sum = 0;
    for (size_t at = 0; at + 1 < count && !interrupted; at += piece) {
        int here = (int)std::min<size_t>(piece, count - at);
        sum += surprise_of(t, tokens + at, here);
        foretold += here - 1;
    }
    done();
    if (!interrupted)
        printf(PERPLEXITY_LINE, exp(sum / foretold), foretold);
    free(tokens);
}

// ---- Say how tokens are drawn, and measure ----
static drawing drawing_of(const struct sampling &s)
{
    float scale = s.temperature > 0 ? (float)(M_LOG2E / s.temperature) : 0;
    uint64_t all = UINT64_MAX;
    return {scale, s.top_p < 1 ? (uint64_t)ldexp(s.top_p, 64) : all, s.seed};
}

enum { SAMPLES = 15 };

// The times of repeated runs, in us.
struct times {
    double us[SAMPLES];
};

static json_t *times_json(times *all)
{
    std::sort(all->us, all->us + SAMPLES);
    return json_pack("{s:f, s:f, s:f, s:i}", "p50_us", all->us[SAMPLES / 2],
                     "min_us", all->us[0], "max_us", all->us[SAMPLES - 1],
                     "samples", SAMPLES);
}

// Times what `work` puts into the stream, and divides by `count`. Each time
// `prepare` runs before it, untimed; a first run of both is not timed.
template <class PREPARE, class WORK>
static json_t *time_work(const talker *t, int count, PREPARE prepare, WORK work)
{
    cudaEvent_t begin, end;
    times all;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    for (int i = -1; i < SAMPLES; ++i) {
        float ms;
        prepare();
        CUDA_CHECK(cudaEventRecord(begin, t->stream));
        work();
        CUDA_CHECK(cudaEventRecord(end, t->stream));
        CUDA_CHECK(cudaEventSynchronize(end));
        CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 0)
            all.us[i] = ms * 1e3 / count;
    }
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    return times_json(&all);
}

__global__ void __launch_bounds__(THREADS) nothing()
{
    await_previous();
}

// Times a graph of what `launches` launches.
template <class LAUNCHES>
static json_t *time_graph(talker *t, int count, LAUNCHES launches)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(
        cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal));
    launches();
    CUDA_CHECK(cudaStreamEndCapture(t->stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    json_t *us = time_work(t, count, [] {}, [&] {
        CUDA_CHECK(cudaGraphLaunch(exec, t->stream));
    });
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return us;
}

// Times a step's kernels of each kind alone, for the `count` tokens that were
// set last; and as many kernels that do nothing as a step has in all.
static json_t *parts_json(talker *t, int count)
{
    int layers = t->model->layers, launches = longer(t, count);
    int attention = launches > TOKENS ? 2 : launches;
    int kernels = layers * ((count > t->few ? 8 : 4) + attention) + 3;
    json_t *parts = json_pack("{s:i}", "kernels", kernels);
    json_object_set_new(parts, "products", time_graph(t, 1, [&] {
        for (int i = 0; i < layers; ++i)
            run_layer(t, i, count, false);
    }));
    json_object_set_new(parts, "attention", time_graph(t, 1, [&] {
        for (int i = 0; i < layers; ++i)
            attend(t, i, count);
    }));
    json_object_set_new(parts, "logits",
                        time_graph(t, 1, [&] { score_next(t, count); }));
    json_object_set_new(parts, "nothing", time_graph(t, 1, [&] {
        for (int i = 0; i < kernels; ++i)
            start(t->stream, nothing, 1, THREADS, 0);
    }));
    return parts;
}

// Reads `count` tokens, no matter which.
static void read_any(talker *t, int count)
{
    int *tokens = (int *)need(malloc(count * sizeof *tokens));
    for (int i = 0; i < count; ++i)
        tokens[i] = (1 + 7919 * i) % t->model->words;
    t->place = 0;
    read_all(t, tokens, count);
    free(tokens);
}

// ---- Time tokens behind a context ----
enum { STEPS = 16 }; // that are timed together

static void add_context(talker *t, json_t *contexts, int context)
{
    struct rung {
        const char *name;
        bool graphs, early, drawn;
    } rungs[] = {{"launches", false, false, false},
                 {"graph", true, false, false},
                 {"graph_early", true, true, false},
                 {"drawn", true, EARLY, true}};
    json_t *all = json_object();
    for (const rung &r : rungs) {
        if (r.early && !EARLY)
            continue;
        t->graphs = r.graphs;
        begins_early = r.early;
        t->by = drawing_of({r.drawn ? 0.8 : 0, 0.9, 1});
        t->answering.room = t->reading.room = 0; // graphs are captured anew
        read_any(t, context);
        json_t *us = time_work(t, STEPS, [&] {
            int any = 1;
            t->place = context;
            set_step(t, &any, 1);
        }, [&] {
            for (int i = 0; i < STEPS; ++i)
                take_step(t, 1, true);
        });
        t->place = context;
        json_object_set_new(all, r.name, us);
        if (r.graphs && !r.drawn)
            json_object_set_new(all, text("%s_parts", r.name),
                                parts_json(t, 1));
    }
    t->by = drawing_of({});
    json_object_set_new(contexts, text("%d", context), all);
}

// ---- Time all of it ----

// Times steps of sequences that have `context` tokens each, whatever they are.
static void add_together(talker *t, json_t *to, int sequences, int context)
{
    int ids[SEQUENCES], lengths[SEQUENCES];
    for (int i = 0; i < sequences; ++i) {
        ids[i] = 1 + i;
        lengths[i] = context + 1;
    }
    t->together = true;
    json_t *us = time_work(t, STEPS, [&] {
        set_sequences(t, ids, lengths, sequences);
    }, [&] {
        for (int i = 0; i < STEPS; ++i)
            take_step(t, sequences, true);
    });
    set_sequences(t, ids, lengths, sequences);
    json_object_set_new(us, "parts", parts_json(t, sequences));
    t->together = false;
    json_object_set_new(to, text("%d_behind_%d", sequences, context), us);
}

static void measure(talker *t, const char *path)
{
    cudaDeviceProp gpu;
    if (!gpu_here())
        fail(EXIT_MACHINE, "no GPU here, and the simulator has no time");
    CUDA_CHECK(cudaGetDeviceProperties(&gpu, 0));
    if (t->model->context < 2048)
        fail(EXIT_USAGE, "%s: the model reads %d tokens; measured are 2048",
             gguf_path(t->model->file), t->model->context);
    json_t *contexts = json_object(), *prompts = json_object();
    json_t *by_steps = json_object(), *parts = json_object();
    json_t *as_graphs = json_object(), *together = json_object();
    const int most[] = {128, 1000, 2000}, prompt[] = {36, 128, 500, 2000};
    for (int context : most)
        add_context(t, contexts, context);
    for (int count : prompt) {
        auto read = [&] { read_any(t, count); };
        t->tiles = false;
        t->reading.room = 0; // the graph is captured anew
        json_object_set_new(by_steps, text("%d", count),
                            time_work(t, 1, [] {}, read));
        t->tiles = true;
        json_object_set_new(prompts, text("%d", count),
                            time_work(t, 1, [] {}, read));
        t->place = 0;
        json_object_set_new(
            as_graphs, text("%d", count),
            time_graph(t, 1, [&] { launch_step(t, count, false); }));
        json_object_set_new(parts, text("%d", count), parts_json(t, count));
    }
    for (int sequences : {1, 8, 64})
        for (int context : {128, 1000})
            add_together(t, together, sequences, context);
    json_t *record = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:s, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "record", 1, "program", NAME, "source_hash", SOURCE_HASH, "flags",
        BUILD_FLAGS, "git_commit", GIT_COMMIT, "date", date_now(), "runtime",
        "gpu", "device", "name", gpu.name, "how",
        "each sample between two events: 16 tokens behind a context, without "
        "the host's waiting; a graph of one kind of a token's kernels; a "
        "whole prompt, as the program reads it, and four tokens a step; steps "
        "of several sequences",
        "contexts", contexts, "prompts", prompts, "prompts_by_steps", by_steps,
        "prompt_parts", parts, "prompts_as_graphs", as_graphs, "together",
        together);
    write_json(record, path, JSON_INDENT(1) | JSON_REAL_PRECISION(7), "\n");
}

// ---- Answer ----
static void choose_again(talker *t, const drawing &by)
{
    start(t->stream, choose, 1, 1024, 0, t->now, t->logits, t->embedding.rows,
          t->model->words, 1, by, INT_MAX);
}

// Prints the logits that follow the tokens of `words`, such as "1 42 7", a line
// each; or, if `draws` > 0, as many tokens drawn from these logits, one for
// each place from the next on.
static void print_next(talker *t, const char *words, int draws)
{
    const struct model *m = t->model;
    int *tokens = (int *)need(malloc((strlen(words) + 1) * sizeof *tokens));
    int count = 0;
    char *rest, *copy = text("%s", words);
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        tokens[count++] = whole("a token", word, 0, m->words - 1);
    if (count < 1 || count > m->context)
        fail(EXIT_USAGE, "%d tokens; the model reads 1 to %d", count,
             m->context);
    int step = read_all(t, tokens, count);
    score_next(t, step);
    int id = chosen(t);
    for (int i = 0; i < draws; ++i) {
        printf("%d\n", id);
        choose_again(t, t->by);
        id = chosen(t);
    }
    if (draws > 0)
        return;
    float *logits = (float *)need(malloc(m->words * sizeof *logits));
    CUDA_CHECK(cudaMemcpy(logits, t->logits, m->words * sizeof *logits,
                          cudaMemcpyDeviceToHost));
    for (int i = 0; i < m->words; ++i)
        printf("%.9g\n", logits[i]);
    free(logits);
    free(tokens);
}

// What lab 23 asks of the program (code/model/lab.c).
static void *open_for_lab(const struct model *m)
{
    talker *t = load(m, 1, false);
    t->few = 64; // so that texts of 70 and 130 tokens go through the ring
    return t;
}

static void next_for_lab(void *of, const int *tokens, int count, bool answers,
                         float *logits)
{
    talker *t = (talker *)of;
    if (answers) {
        set_step(t, tokens, 1);
        take_step(t, 1, true);
    } else {
        score_next(t, read_all(t, tokens, count));
    }
    chosen(t);
    CUDA_CHECK(cudaMemcpy(logits, t->logits, t->model->words * sizeof *logits,
                          cudaMemcpyDeviceToHost));
}

static void draw_for_lab(void *of, const struct sampling *s, int *tokens,
                         int count)
{
    talker *t = (talker *)of;
    set_step(t, tokens, 1); // sets the place that tokens are drawn for
    for (int i = 0; i < count; ++i) {
        choose_again(t, drawing_of(*s));
        tokens[i] = chosen(t);
    }
}

int main(int argc, char **argv)
{
    const struct speaking speaking = {NAME, SOURCE_HASH, GIT_COMMIT,
                                      open_for_lab, next_for_lab, draw_for_lab};
    turn_state s = {1 << 20, false, {}, 0};
    bool help = false, chat = false, perplexity = false;
    bool steps = false, chain = false;
    const char *of = NULL, *record = NULL, *temperature = NULL, *top_p = NULL;
    int draws = 0, seed = -1, sequences = 0, few = FEW;
    const option_row options[] = {
        {"help", NULL, NULL, NULL, NULL, 0, 0, &help, NULL},
        {"chat", NULL, NULL, NULL, NULL, 0, 0, &chat, NULL},
        {"perplexity", NULL, NULL, NULL, NULL, 0, 0, &perplexity, NULL},
        {"most", "N", NULL, NULL, &s.most, 1, 1 << 20, NULL, NULL},
        {"numbers", NULL, NULL, NULL, NULL, 0, 0, &s.numbers, NULL},
        {"steps", NULL, NULL, NULL, NULL, 0, 0, &steps, NULL},
        {"few", "N", NULL, NULL, &few, TOKENS, FEW, NULL, NULL},
        {"logits", "TOKENS", NULL, &of, NULL, 0, 0, NULL, NULL},
        {"record", "FILE", NULL, &record, NULL, 0, 0, NULL, NULL},
        {"temperature", "T", NULL, &temperature, NULL, 0, 0, NULL, NULL},
        {"top-p", "P", NULL, &top_p, NULL, 0, 0, NULL, NULL},
        {"seed", "S", NULL, NULL, &seed, 0, INT_MAX, NULL, NULL},
        {"draws", "N", NULL, NULL, &draws, 1, 1 << 20, NULL, NULL},
        {"sequences", "N", NULL, NULL, &sequences, 1, SEQUENCES, NULL, NULL},
        {EARLY ? "chain" : NULL, NULL, NULL, NULL, NULL, 0, 0, &chain, NULL},
        {}};
    speaker = "talk";
    if (lab_asks(argc, argv))
        return lab_answer(argc, argv, &speaking);
    int first = options_read(argc, argv, options, false);
    int modes = chat + perplexity + (of != NULL) + (record != NULL) +
                (sequences > 0);
    const char *usage =
        text("usage: talk FILE QUESTION | FILE --chat | FILE --sequences N | "
             "FILE --perplexity | FILE --logits TOKENS | FILE --record FILE; "
             "--most N, --numbers, --steps, --few N, --draws N, "
             "--temperature T, --top-p P, --seed S%s",
             EARLY ? ", --chain" : "");
    if (help)
        return puts(usage) < 0;
    if (argc - first != (modes ? 1 : 2) || modes > 1)
        fail(EXIT_USAGE, "%s", usage);
    drawing by = drawing_of(sampling_read(temperature, top_p, seed));
    if (record)
        must_be_writable(record);
    struct sigaction action = {};
    action.sa_handler = interrupt; // a second Ctrl-C ends the program
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    talker *t = load(model_open(argv[first]),
                     record ? SEQUENCES : max(sequences, 1), perplexity);
    t->tiles = !steps;
    t->few = few;
    t->chain = chain;
    t->by = by;
    if (of)
        print_next(t, of, draws);
    else if (record)
        measure(t, record);
    else if (perplexity)
        print_perplexity(t);
    else if (sequences > 0)
        answer_lines(t, &s, sequences);
    else if (chat)
        talk(t, &s);
    else
        take_turn(t, &s, argv[first + 1]);
    if (fflush(stdout) != 0)
        fail(EXIT_MACHINE, "standard output cannot be written: %m");
    return interrupted ? 130 : 0;
}
