// gates.c: measures how wrong an output is, and decides whether that is too wrong.
//
// Why 2e-3. With normal inputs a row's output is a mean of about S random vectors: its norm shrinks
// like 1/sqrt(S), so the error is measured relative to it and means the same at every S.
//   right:  rounding the output to half costs 2^-11 at most, 2.2e-4 in the norm; rounding P to half
//           on the way as well, 3.2e-4 (such errors add as squares).
//   wrong:  zeros give 1, mean(V) 0.8, a flipped sign 2, another head's output 1.5; missing T of S
//           keys gives about sqrt(T / S): for a tile of 32, 0.5 at S = 128 and 0.06 at 8192.
// 2e-3 is 6 times what right kernels reach, and lets no missing tile of 32 keys pass below S = 8
// million, and no single missing key below S = 250 000. test_workbench.c checks at many shapes that
// right heads are below a fifth of it, and wrong heads above five times. A row has fewer elements
// than a head to average its error over, and may be wrong alone; hence a factor of 4 for the worst
// row.
//
// Why twice, for P in E4M3. Rounding to 4 significant bits makes an error of 2.6 % in the mean
// square, and the output is wrong by about as much at any S: a tolerance that means something for P
// in half lets no such kernel pass. So the reference rounds P in the same way, and its error is the
// measure. A kernel's error differs a little from it, since the kernel rounds relative to the
// maximum so far, and the reference relative to the final one; all else that a right kernel does
// costs less than 1e-3. A dropped tile of 32 keys costs about sqrt(32 / S), 0.0625 at S = 8192:
// more than twice what rounding costs, about 0.027, in the head or, where the head comes close to
// the limit, in the worst row. GATE_ROUNDED_MOST is for a rounding that destroys P (an offset of
// -12 leaves zeros): twice its error would let anything pass.
#include <math.h>
#include <stdlib.h>

#include "workbench.h"

struct error_metrics error_measure(const struct shape *shape, struct rows rows, const uint16_t *out,
                                   const float *ref)
{
    struct error_metrics m = {0};
    size_t dim = (size_t)shape_head_dim(shape), head_elements = (size_t)shape_rows(shape) * dim;
    size_t compared = 0, bad = 0;
    int heads = shape_query_heads(shape);

    for (int head = 0; head < shape->batch * heads; ++head) {
        size_t written = (size_t)shape_rows_asked(shape, head / heads) * dim;
        for (size_t i = head * head_elements; i < head * head_elements + written; ++i)
            m.not_finite += (out[i] & 0x7c00) == 0x7c00;
    }
    if (m.not_finite > 0) {
        m.rel_head = m.rel_row = m.max_abs = m.mean_abs = m.bad_percent = NAN;
        return m;
    }
    for (int head = 0; head < shape->batch * heads; ++head) {
        double head_error = 0, head_ref = 0;
        int asked = shape_rows_asked(shape, head / heads);
        for (int row = rows.first; row < asked; row = rows_next(rows, asked, row)) {
            size_t base = head * head_elements + (size_t)row * dim;
            double row_error = 0, row_ref = 0;
            for (size_t i = base; i < base + dim; ++i) {
                double expected = ref[i];
                double error = fabs(half_to_float(out[i]) - expected);
                row_error += error * error;
                row_ref += expected * expected;
                m.max_abs = fmax(m.max_abs, error);
                m.mean_abs += error;
                bad += error > 0.02 + 0.02 * fabs(expected);
            }
            compared += dim;
            head_error += row_error;
            head_ref += row_ref;
            if (row_error > 0) // a correct row of zeros has the error 0, not 0/0
                m.rel_row = fmax(m.rel_row, sqrt(row_error / row_ref));
        }
        if (head_error > 0)
            m.rel_head = fmax(m.rel_head, sqrt(head_error / head_ref));
    }
    m.mean_abs /= (double)compared;
    m.bad_percent = 100.0 * (double)bad / (double)compared;
    return m;
}

bool gate_relative(const struct error_metrics *metrics, double tolerance)
{
    return gate_within(metrics, gate_limits(tolerance));
}

bool gate_within(const struct error_metrics *metrics, struct error_limits limits)
{
    return metrics->not_finite == 0 && metrics->rel_head <= limits.head &&
           metrics->rel_row <= limits.row; // false for NaN
}

struct error_limits gate_limits(double tolerance)
{
    return (struct error_limits){tolerance, GATE_ROW_FACTOR * tolerance};
}

// Twice `own`, clamped to least..most; NaN if `own` is NaN, so that nothing passes.
static double rounded_limit(double own, double least, double most)
{
    double twice = GATE_ROUNDED_FACTOR * own;

    return isnan(own) ? NAN : twice < least ? least : twice > most ? most : twice;
}

struct error_limits gate_rounded_limits(double tolerance, const struct error_metrics *rounded)
{
    struct error_limits least = gate_limits(tolerance), most = gate_limits(GATE_ROUNDED_MOST);

    return (struct error_limits){rounded_limit(rounded->rel_head, least.head, most.head),
                                 rounded_limit(rounded->rel_row, least.row, most.row)};
}

bool gate_limits_of(const struct problem *problem, struct rows rows, int threads,
                    struct p_rounding p, double tolerance, const float *ref,
                    struct error_metrics *rounded, struct error_limits *limits)
{
    *rounded = (struct error_metrics){0};
    *limits = gate_limits(tolerance);
    if (p.format == P_NOT_TOLD)
        return true;
    size_t elements = shape_outputs(&problem->shape);
    float *wide = calloc(elements, sizeof *wide);
    uint16_t *out = malloc(elements * sizeof *out);
    bool done = wide && out && reference_rounded_p(problem, rows, threads, p, wide);

    if (done) {
        for (size_t i = 0; i < elements; ++i)
            out[i] = half_from_float(wide[i]);
        *rounded = error_measure(&problem->shape, rows, out, ref);
        *limits = gate_rounded_limits(tolerance, rounded);
    }
    free(wide);
    free(out);
    return done;
}

bool gate_sources(const struct error_metrics *metrics)
{
    return metrics->not_finite == 0 && metrics->max_abs <= 0.06 && metrics->mean_abs <= 0.02 &&
           metrics->bad_percent <= 1.0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, int count, double fraction)
{
    double rank = fraction * (count - 1);
    int below = (int)rank;
    int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - below) * (sorted[above] - sorted[below]);
}

struct summary summarise(double *values, int count)
{
    struct summary s = {.samples = count};
    double squares = 0;

    if (count <= 0) {
        s.p50 = s.p90 = s.p99 = s.mean = s.std = s.min = s.max = NAN;
        return s;
    }
    qsort(values, (size_t)count, sizeof *values, compare);
    for (int i = 0; i < count; ++i)
        s.mean += values[i] / count;
    for (int i = 0; i < count; ++i)
        squares += (values[i] - s.mean) * (values[i] - s.mean);
    s.std = count > 1 ? sqrt(squares / (count - 1)) : 0;
    s.p50 = percentile(values, count, 0.50);
    s.p90 = percentile(values, count, 0.90);
    s.p99 = percentile(values, count, 0.99);
    s.min = values[0];
    s.max = values[count - 1];
    return s;
}

// The interval from the k-th smallest to the k-th largest of n values contains the median, unless
// fewer than k values are on one side of the median. The number X on one side is binomial with
// p = 1/2, whatever the distribution: so the interval misses with probability 2 P(X < k). The
// largest k that keeps this within 5 % is taken.
struct interval median_interval(double *values, int count)
{
    struct interval interval = {NAN, -INFINITY, INFINITY};
    double below = 0; // P(X < k)
    int k = 0;

    if (count <= 0)
        return interval;
    qsort(values, (size_t)count, sizeof *values, compare);
    interval.median = percentile(values, count, 0.5);
    while (k <= count / 2) {
        below +=
            exp(lgamma(count + 1.0) - lgamma(k + 1.0) - lgamma(count - k + 1.0) - count * log(2.0));
        if (2 * below > 0.05)
            break;
        ++k;
    }
    if (k > 0) {
        interval.low = values[k - 1];
        interval.high = values[count - k];
    }
    return interval;
}
