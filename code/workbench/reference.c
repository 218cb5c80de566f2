// reference.c: attention in double precision, fast enough to be computed often.
//
// A job is one (batch, query head): K (transposed) and V become doubles; then scores, softmax and
// output are computed for four query rows at a time, with eight keys or eight output columns at a
// time (reference_rows.h). GCC lowers its vector types to what the machine has; the loops are
// compiled for three generations of x86, and the right version is chosen at the start.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workbench.h"

// Vectors as wide as a register of AVX2. GCC keeps wider vectors in memory, where each addition to a
// sum waits for the store of the previous sum: the loops then take five times as long.
#define WIDTH 4
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TARGET __attribute__((target_clones("avx2", "default")))
#else
#define TARGET
#endif
#include "reference_rows.h"

struct work {
    const struct problem *problem;
    struct rows rows;
    bool fp16; // whether to read the tensors as drawn, rounded to half, not the dequantised ones
    struct p_rounding p;
    float *out;
    atomic_int next_job;
    atomic_bool failed;
};

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
    // All local numbers, and those of `p`, are exponents of 2; the other arguments are not.
    double most = p.offset + p.lag;
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
        double maximum = p.tile > 0 ? 0 : 1, sum = 0; // 1 is the weight of the final maximum
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
                bool chosen = p.room > 0 && first > 0; // whether to ignore the tile's mean
                if (p.mean && !chosen && first + tile < s->seen[r]) {
                    mean = geometric_mean(row + first, tile);
                    maximum = fmax(maximum, ldexp(mean, p.offset));
                }
            }
            sum += s->loops->round_tile(row + first, keys, ldexp(1 / maximum, p.offset),
                                        ldexp(maximum, -p.offset));
        }
        if (p.sum_rounded)
            s->sums[r] = sum;
    }
}

static double element(const struct work *work, const float *drawn, const uint8_t *codes,
                      float scale, size_t index)
{
    if (work->fp16 || !codes) // no codes: Q of a cache without a prompt
        return half_to_float(half_from_float(drawn[index]));
    return (double)e4m3_to_float(codes[index]) * scale;
}

// Computes one job: number `job` of the heads of Q, counted over all batches.
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
        s->loops->scores(s);
        s->loops->softmax(s);
        if (work->p.format == P_E4M3)
            round_weights(s, work->p);
        s->loops->weigh_values(s, length);
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
    const struct row_loops *wide = reference_avx512();
    struct scratch scratch = {.padded = padded, .dim = dim, .loops = wide ? wide : &row_loops};

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
