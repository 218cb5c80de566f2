// reference.c: attention in double precision, fast enough to be computed often.
//
// A job is one (batch, query head): K (transposed) and V become doubles; then scores, softmax and
// output are computed for four query rows at a time, with eight keys or eight output columns at a
// time. GCC lowers its vector types to what the machine has; these functions are compiled for two
// generations of x86, and the right version is chosen at the start. In each of them, every lane
// does the same IEEE operations in the same order (no fused multiply-add; an exponential of our
// own), so the result is bit-identical everywhere.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workbench.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_X86 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_X86
#endif

// A vector has WIDTH doubles, as many as a register of AVX2. GCC keeps wider ones in memory, where
// each addition to a sum waits for the store of the one before: that takes five times as long.
enum { LANES = 8, WIDTH = 4, PARTS = LANES / WIDTH, ROWS = 4 };
typedef double vec __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int64_t ivec __attribute__((vector_size(WIDTH * sizeof(int64_t))));

struct work {
    const struct problem *problem;
    struct rows rows;
    bool fp16; // reads the tensors as drawn, rounded to half, instead of the dequantised ones
    struct p_rounding p;
    float *out;
    atomic_int next_job;
    atomic_bool failed;
};

// A thread's memory for one job. Keys are padded to a multiple of LANES. Keys and values are stored
// in the order in which they are read, vector after vector: rows whose length is a power of two
// would share few sets of the cache.
struct scratch {
    int padded, dim;
    double *keys;    // [padded / LANES][dim][LANES], transposed
    double *values;  // [dim / LANES][padded][LANES]
    double *weights; // [ROWS][padded]: scores, then exp(score - max)
    double queries[ROWS][HEAD_DIM_MOST];
    int seen[ROWS]; // how many keys each row sees
    double sums[ROWS];
    double outputs[ROWS][HEAD_DIM_MOST];
};

FOR_EACH_X86 static void scores(struct scratch *s)
{
    for (int j = 0; j < s->padded; j += LANES) {
        vec dot[ROWS][PARTS] = {{{0}}};
        const vec *keys = (const vec *)(s->keys + (size_t)j * (size_t)s->dim);
        for (int d = 0; d < s->dim; ++d) {
#pragma GCC unroll 4 // keeps the sums in registers
            for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
                for (int i = 0; i < PARTS; ++i)
                    dot[r][i] += s->queries[r][d] * keys[d * PARTS + i];
        }
        for (int r = 0; r < ROWS; ++r)
            memcpy(s->weights + (size_t)r * s->padded + j, dot[r], sizeof dot[r]);
    }
}

// The sum of all lanes, added in their order.
static inline double in_order(const vec sums[PARTS])
{
    double total = 0;

    for (int lane = 0; lane < LANES; ++lane)
        total += sums[lane / WIDTH][lane % WIDTH];
    return total;
}

// Turns scores into weights exp(score - max), and adds them up. exp(x) = 2^k exp(r) with k =
// round(x / ln 2) and |r| <= ln(2) / 2, where a Taylor polynomial of degree 13 has an error of
// 1e-16.
FOR_EACH_X86 static void softmax(struct scratch *s)
{
    const double log2_e = 1.4426950408889634;
    const double ln2_high = 0x1.62e42fee00000p-1; // 32 bits, so that k * ln2_high is exact
    const double ln2_low = 0x1.a39ef35793c76p-33;
    const double magic = 0x1.8p52; // x + magic - magic rounds x; the low bits of x + magic are the
                                   // integer

    for (int r = 0; r < ROWS; ++r) {
        double *row = s->weights + (size_t)r * s->padded;
        for (int j = s->seen[r]; j < s->padded; ++j)
            row[j] = -INFINITY;
        vec most = -INFINITY - (vec){0};
        for (int j = 0; j < s->padded; j += WIDTH) {
            vec x = *(vec *)(row + j);
            ivec more = x > most; // never for NaN
            most = (vec)(((ivec)x & more) | ((ivec)most & ~more));
        }
        double largest = -INFINITY;
        for (int lane = 0; lane < WIDTH; ++lane)
            largest = most[lane] > largest ? most[lane] : largest;
        vec sum[PARTS] = {{0}}; // each lane: every eighth weight
        for (int j = 0; j < s->padded; j += WIDTH) {
            vec x = *(vec *)(row + j) - largest;
            ivec kept = x > -700.0; // all bits set in lanes to be kept; the others, including
                                    // padding, become 0
            x = (vec)((ivec)x & kept);
            vec shifted = x * log2_e + magic;
            vec k = shifted - magic;
            vec rest = x - k * ln2_high - k * ln2_low;
            vec power = 1 + rest * (1.0 / 13); // Taylor's polynomial: 1 + r/1 (1 + r/2 (1 + ...
            for (int n = 12; n >= 1; --n)
                power = 1 + power * (rest * (1.0 / n));
            ivec exponent = ((ivec)shifted + 1023) << 52; // shifts out the bits of magic itself
            power = (vec)((ivec)(power * (vec)exponent) & kept);
            *(vec *)(row + j) = power;
            sum[j / WIDTH % PARTS] += power;
        }
        s->sums[r] = in_order(sum);
    }
}

// Rounds scale * weight for `keys` weights to E4M3: to 3 bits after the leading one, and to
// multiples of 2^-9. For that it adds 1.5 * 2^49 times the value of the leading bit, or times 2^-6
// if that is more, and subtracts it again. Stores the rounded values times `back`, and returns
// their sum.
FOR_EACH_X86 static double round_tile(double *weights, int keys, double scale, double back)
{
    const ivec least = {0}, half_bit = least + ((int64_t)1 << 51);
    vec sum[PARTS] = {{0}};

    for (int j = 0; j < keys; j += WIDTH) {
        vec x = *(vec *)(weights + j) * scale;
        ivec exponent = ((ivec)x >> 52) - (1023 - 6); // at least that of 2^-6
        exponent = (exponent & (exponent > 0)) + (1023 - 6);
        vec magic = (vec)(((exponent + 49) << 52) | half_bit);
        vec rounded = x + magic - magic;
        ivec past = rounded > (double)E4M3_MAX;
        vec most = (vec){0} + E4M3_MAX;
        rounded = (vec)(((ivec)rounded & ~past) | ((ivec)most & past)) * back;
        *(vec *)(weights + j) = rounded;
        sum[j / WIDTH % PARTS] += rounded;
    }
    return in_order(sum);
}

static double geometric_mean(const double *weights, int keys)
{
    double sum = 0;

    for (int j = 0; j < keys; ++j)
        sum += log2(weights[j]); // -inf for a weight that is 0
    return exp2(sum / keys);
}

// The new maximum of a kernel with room (p.room), after a tile whose highest weight is too high.
static double raised(struct p_rounding p, double maximum, double highest, double mean)
{
    double most = p.offset + p.lag; // an exponent of 2, as all numbers here but the arguments
    double high = p.offset + log2(highest / maximum), average = p.offset + log2(mean / maximum);
    double by = high - (most - p.room);

    if (average > p.lost)
        by = fmax(high - most, fmin(by, average - p.kept));
    return maximum * exp2(by);
}

// Whether the highest weight of a tile is heavy (p.heavy): then the maximum rises to it, without
// room. False if P of the first tile's mean has become 2^-7 or less.
static bool carries(struct p_rounding p, const double *weights, int keys, double maximum,
                    double highest, double mean)
{
    if (p.offset + log2(mean / maximum) <= -7)
        return false;
    double sum = -7 * (p.tile - keys); // for the tile's columns after the last key
    for (int j = 0; j < keys; ++j)
        sum += fmax(p.offset + log2(weights[j] / maximum), -7);
    return p.offset + log2(highest / maximum) - sum / p.tile > p.heavy;
}

// Rounds weights, which are relative to the row's final maximum, in the way that the kernel rounds
// P.
static void round_weights(struct scratch *s, struct p_rounding p)
{
    int tile = p.tile > 0 ? p.tile : s->padded;

    for (int r = 0; r < ROWS; ++r) {
        double *row = s->weights + (size_t)r * s->padded;
        double maximum = p.tile > 0 ? 0 : 1, sum = 0; // weights of 1 have the final maximum
        double mean = 0; // mean of the tile that set the maximum; with room, of the first tile
        for (int first = 0; first < s->padded; first += tile) {
            int keys = first + tile < s->padded ? tile : s->padded - first;
            double highest = 0;
            for (int j = first; j < first + keys; ++j)
                highest = fmax(highest, row[j]);
            bool rises = first > 0 && highest > maximum * exp2(p.lag);
            if (rises && p.room > 0 && !carries(p, row + first, keys, maximum, highest, mean)) {
                maximum = raised(p, maximum, highest, mean);
            } else if (p.tile > 0 && (first == 0 || rises)) {
                maximum = fmax(highest, 1e-290);       // its reciprocal has to be finite
                bool chosen = p.room > 0 && first > 0; // the tile's own maximum, not its mean
                if (p.mean && !chosen && first + tile < s->seen[r]) {
                    mean = geometric_mean(row + first, tile);
                    maximum = fmax(maximum, ldexp(mean, p.offset));
                }
            }
            sum += round_tile(row + first, keys, ldexp(1 / maximum, p.offset),
                              ldexp(maximum, -p.offset));
        }
        if (p.sum_rounded)
            s->sums[r] = sum;
    }
}

FOR_EACH_X86 static void weigh_values(struct scratch *s, int length)
{
    for (int d = 0; d < s->dim; d += LANES) {
        vec sum[ROWS][PARTS] = {{{0}}};
        const vec *values = (const vec *)(s->values + (size_t)d * s->padded);
        for (int j = 0; j < length; ++j) {
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
                for (int i = 0; i < PARTS; ++i)
                    sum[r][i] += s->weights[(size_t)r * s->padded + j] * values[j * PARTS + i];
        }
        for (int r = 0; r < ROWS; ++r)
            for (int lane = 0; lane < LANES; ++lane)
                s->outputs[r][d + lane] = sum[r][lane / WIDTH][lane % WIDTH] / s->sums[r];
    }
}

static double element(const struct work *work, const float *drawn, const uint8_t *codes,
                      float scale, size_t index)
{
    if (work->fp16 || !codes) // Q of a cache, which has no codes
        return half_to_float(half_from_float(drawn[index]));
    return (double)e4m3_to_float(codes[index]) * scale;
}

// Computes one job; jobs count the heads of Q over all batches.
static void attend(const struct work *work, struct scratch *s, int job)
{
    const struct problem *p = work->problem;
    const struct shape *shape = &p->shape;
    int query_heads = shape_query_heads(shape), batch = job / query_heads;
    int head = job % query_heads / (query_heads / shape->heads); // the head of K and V
    size_t pair = (size_t)batch * shape->heads + head, dim = (size_t)s->dim;
    int length = shape_length(shape, batch), asked = shape_rows_asked(shape, batch);
    int first = shape_first_place(shape, batch);
    bool cache = shape->page > 0;
    size_t base = pair * shape->seq_len * dim;
    size_t base_q = (size_t)job * shape_rows(shape); // the job's first row of Q

    for (int j = 0; j < length; ++j) {
        size_t scale = cache ? pair * shape->seq_len + j : (size_t)head;
        for (size_t d = 0; d < dim; ++d) {
            size_t i = base + (size_t)j * dim + d;
            s->keys[((size_t)(j / LANES) * dim + d) * LANES + j % LANES] =
                element(work, p->k, p->k_codes, p->k_scales[scale], i);
            s->values[((size_t)(d / LANES) * s->padded + j) * LANES + d % LANES] =
                element(work, p->v, p->v_codes, p->v_scales[scale], i);
        }
    }
    for (int row = work->rows.first; row < asked;) {
        int covered[ROWS];
        int count = 0;
        for (; count < ROWS && row < asked; row = rows_next(work->rows, asked, row)) {
            s->seen[count] = keys_seen(p->mask, length, first + row);
            covered[count++] = row;
        }
        for (int r = count; r < ROWS; ++r)
            s->seen[r] = length;
        for (int r = 0; r < count; ++r) {
            size_t at = base_q + (size_t)covered[r];
            float scale = !p->q_scales ? 1 : p->q_scales[cache ? at : (size_t)head];
            for (size_t d = 0; d < dim; ++d)
                s->queries[r][d] =
                    p->softmax_scale * element(work, p->q, p->q_codes, scale, at * dim + d);
        }
        scores(s);
        softmax(s);
        if (work->p.format == P_E4M3)
            round_weights(s, work->p);
        weigh_values(s, length);
        for (int r = 0; r < count; ++r) {
            for (size_t d = 0; d < dim; ++d) {
                float o = (float)s->outputs[r][d];
                work->out[(base_q + (size_t)covered[r]) * dim + d] =
                    work->fp16 ? half_to_float(half_from_float(o)) : o;
            }
        }
    }
}

static void *work_on(void *data)
{
    struct work *work = data;
    int jobs = work->problem->shape.batch * shape_query_heads(&work->problem->shape);
    int dim = shape_head_dim(&work->problem->shape);
    int seq_len = work->problem->shape.seq_len;
    int padded = (seq_len + LANES - 1) / LANES * LANES;
    size_t doubles = (size_t)padded * (size_t)(2 * dim + ROWS);
    struct scratch scratch = {.padded = padded, .dim = dim};

    scratch.keys = aligned_alloc(PARTS * sizeof(vec), doubles * sizeof(double));
    if (!scratch.keys) {
        work->failed = true;
        return NULL;
    }
    // Zeros where nothing is written: padding, and missing rows of a short last group.
    memset(scratch.keys, 0, doubles * sizeof(double));
    scratch.values = scratch.keys + (size_t)padded * (size_t)dim;
    scratch.weights = scratch.values + (size_t)padded * (size_t)dim;
    for (int job; (job = atomic_fetch_add(&work->next_job, 1)) < jobs;)
        attend(work, &scratch, job);
    free(scratch.keys);
    return NULL;
}

static bool run(struct work *work, int threads)
{
    enum { MOST = 64 };
    pthread_t helpers[MOST];
    int jobs = work->problem->shape.batch * shape_query_heads(&work->problem->shape);
    int started = 0;

    if (threads <= 0)
        threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > jobs ? jobs : threads > MOST ? MOST : threads;
    while (started < threads - 1 && pthread_create(&helpers[started], NULL, work_on, work) == 0)
        ++started;
    work_on(work); // this thread works as well: without helpers it does everything
    for (int i = 0; i < started; ++i)
        pthread_join(helpers[i], NULL);
    return !work->failed;
}

struct rows reference_rows(const struct shape *shape)
{
    if (shape_rows(shape) <= 2048)
        return (struct rows){0, 1};
    return (struct rows){0, shape_rows(shape) / 64 | 1};
}

bool reference_dequantised(const struct problem *problem, struct rows rows, int threads, float *out)
{
    struct work work = {.problem = problem, .rows = rows, .out = out};
    return run(&work, threads);
}

bool reference_rounded_p(const struct problem *problem, struct rows rows, int threads,
                         struct p_rounding p, float *out)
{
    struct work work = {.problem = problem, .rows = rows, .p = p, .out = out};
    return run(&work, threads);
}

bool reference_fp16(const struct problem *problem, struct rows rows, int threads, float *out)
{
    struct work work = {.problem = problem, .rows = rows, .fp16 = true, .out = out};
    return run(&work, threads);
}
