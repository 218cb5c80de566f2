// Tangled from chapters/16-fp8.md; edit that, then `make tangle`.

// ch16_rounding.c: the cost of rounding P to E4M3, and of short accumulators.
//
//   build/ch16_rounding                prints the errors, then checks
//   build/ch16_rounding --record FILE  also writes them as a run record (JSON)
//
// Exit status: 0 all checks passed, 1 a check failed, 2 bad usage, 3 the
// machine failed (no memory, FILE not writable).

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "workbench/workbench.h"

static void give_up(const char *why)
{
    fprintf(stderr, "ch16_rounding: %s\n", why);
    exit(3);
}

// ---- Report a check ----
static int failures;

__attribute__((format(printf, 3, 4)))
static void check(bool ok, const char *name, const char *format, ...)
{
    va_list args;

    printf("  %s  %-11s", ok ? "pass" : "FAIL", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    failures += !ok;
}

// ---- Measure the error of one way to round P ----
static struct error_metrics rounding_error(const struct problem *p,
                                           struct p_rounding how)
{
    struct error_metrics metrics;
    struct error_limits limits;
    struct rows rows = reference_rows(&p->shape);
    float *ref = calloc(shape_elements(&p->shape), sizeof *ref);

    if (!ref || !reference_dequantised(p, rows, 0, ref) ||
        !gate_limits_of(p, rows, 0, how, GATE_TOLERANCE, ref, &metrics,
                        &limits))
        give_up("out of memory");
    free(ref);
    return metrics;
}

// ---- Measure them all, for one input ----
static const int OFFSETS[] = {0, 4, 8, 9};

static json_t *rounding_errors(const struct problem *p)
{
    json_t *all = json_object();

    for (size_t i = 0; i < 2 * sizeof OFFSETS / sizeof *OFFSETS; ++i) {
        struct p_rounding how = {.format = P_E4M3,
                                 .offset = OFFSETS[i / 2],
                                 .sum_rounded = i % 2};
        struct error_metrics e = rounding_error(p, how);
        char name[32];
        snprintf(name, sizeof name, "%s_%d",
                 how.sum_rounded ? "rounded" : "plain", how.offset);
        printf("  %-6s %-10s %-10s %9.2e in a head, %9.2e in a row\n",
               input_kind_name(p->kind), p->shape.name, name, e.rel_head,
               e.rel_row);
        json_object_set_new(all, name, json_pack("{s:f, s:f}", "rel_head",
                                                 e.rel_head, "rel_row",
                                                 e.rel_row));
    }
    return all;
}

// ---- Truncate at a bit ----

// x without its bits below 2^lowest.
static double truncated(double x, int lowest)
{
    return ldexp(trunc(ldexp(x, -lowest)), lowest);
}

static int leading(double x) // exponent of the leading bit
{
    int exponent;
    return frexp(x, &exponent) == 0 ? -1000 : exponent - 1;
}

// One mma.sync as SageAttention2 and DeepSeek found it: all terms are aligned
// with the largest and cut off `bits` bits below its leading bit.
static double short_step(double sum, const double *p, const double *v,
                         int count, int bits)
{
    int most = leading(sum);
    double total;

    for (int i = 0; i < count; ++i)
        most = leading(p[i] * v[i]) > most ? leading(p[i] * v[i]) : most;
    total = truncated(sum, most - bits);
    for (int i = 0; i < count; ++i)
        total += truncated(p[i] * v[i], most - bits);
    return truncated(total, leading(total) - bits);
}

// ---- Compute a row of P as E4M3 ----
static double row_of_p(const struct problem *pr, size_t base, int row,
                       double *p)
{
    int seq_len = pr->shape.seq_len;
    double scale = (double)pr->softmax_scale * pr->q_scales[0] *
                   pr->k_scales[0];
    double most = -INFINITY, sum = 0;

    for (int j = 0; j < seq_len; ++j) {
        double dot = 0;
        for (int d = 0; d < HEAD_DIM; ++d)
            dot += (double)e4m3_to_float(
                       pr->q_codes[base + (size_t)row * HEAD_DIM + d]) *
                   e4m3_to_float(pr->k_codes[base + (size_t)j * HEAD_DIM + d]);
        p[j] = dot * scale;
        most = fmax(most, p[j]);
    }
    for (int j = 0; j < seq_len; ++j) {
        double exact = 256 * exp(p[j] - most);
        p[j] = e4m3_to_float(e4m3_from_float((float)exact));
        sum += exact;
    }
    return sum;
}

// ---- Sum up a column of P·V in three ways ----
enum { WIDE, SHORT, BY_TILE, WAYS }; // BY_TILE: SHORT in each 64 keys
enum { STEP = 32, TILE = 64, SHORT_BITS = 13 };

static void short_row(const double *p, const double *v, int seq_len,
                      double (*sum)[WAYS])
{
    double tile = 0, *s = *sum;

    memset(s, 0, sizeof *sum);
    for (int j = 0; j < seq_len; j += STEP) {
        int count = seq_len - j < STEP ? seq_len - j : STEP;
        for (int i = j; i < j + count; ++i)
            s[WIDE] += p[i] * v[i];
        s[SHORT] = short_step(s[SHORT], p + j, v + j, count, SHORT_BITS);
        tile = short_step(tile, p + j, v + j, count, SHORT_BITS);
        if (j % TILE + STEP == TILE || j + STEP >= seq_len) {
            s[BY_TILE] += tile;
            tile = 0;
        }
    }
}

// One head's errors relative to wide sums of the same P.
static json_t *short_sums(const struct problem *pr)
{
    int seq_len = pr->shape.seq_len;
    double *p = malloc(2 * (size_t)seq_len * sizeof *p), *v = p + seq_len;
    double error[WAYS] = {0}, norm = 0, cells[WAYS];

    if (!p)
        give_up("out of memory");
    for (int row = 0; row < seq_len; row += seq_len / 16 | 1) {
        row_of_p(pr, 0, row, p);
        for (int d = 0; d < HEAD_DIM; ++d) {
            for (int j = 0; j < seq_len; ++j)
                v[j] = e4m3_to_float(pr->v_codes[(size_t)j * HEAD_DIM + d]);
            short_row(p, v, seq_len, &cells);
            norm += cells[WIDE] * cells[WIDE];
            for (int way = 0; way < WAYS; ++way)
                error[way] += pow(cells[way] - cells[WIDE], 2);
        }
    }
    free(p);
    for (int way = 0; way < WAYS; ++way)
        error[way] = sqrt(error[way] / norm);
    printf("  %-6s %-10s short %9.2e, by tile %9.2e\n",
           input_kind_name(pr->kind), pr->shape.name, error[SHORT],
           error[BY_TILE]);
    check(error[BY_TILE] <= error[SHORT], "by tile", "is no worse");
    return json_pack("{s:f, s:f}", "short", error[SHORT], "by_tile",
                     error[BY_TILE]);
}

// ---- Write the errors as a record ----
static void write_errors(const char *path, json_t *rounding, json_t *sums)
{
    char date[32], why[512];
    time_t now = time(NULL);

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_t *record = json_pack(
        "{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:O, s:O}", "record", 1,
        "program", "ch16_rounding", "chapter", 16, "title",
        "What P in E4M3 costs", "source_hash", SOURCE_HASH, "git_commit",
        GIT_COMMIT, "date", date, "rounding", rounding, "sums", sums);
    char *text = NULL;
    if (record)
        text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(5));
    if (!text)
        give_up("out of memory");
    if (!file_write(path, text, strlen(text), why, sizeof why))
        give_up(why);
    free(text);
    json_decref(record);
}

// ---- Measure, check, record ----
int main(int argc, char **argv)
{
    static const char *const shapes[] = {"1x4x512", "1x4x8192"};
    json_t *rounding = json_object(), *sums = json_object();

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: ch16_rounding [--record FILE]\n"
               "Measures what rounding P to E4M3 costs.\n");
        return 0;
    }
    if (argc > 1 && (argc != 3 || strcmp(argv[1], "--record") != 0)) {
        fprintf(stderr, "ch16_rounding: \"%s\": write --record FILE or "
                        "--help\n", argv[1]);
        return 2;
    }
    for (int i = 0; i < 2 * INPUT_KINDS; ++i) {
        struct problem p;
        struct shape shape;
        char why[128], name[32];
        if (!shape_parse(shapes[i / INPUT_KINDS], &shape, why, sizeof why) ||
            !problem_create(&p, &shape, i % INPUT_KINDS, 0))
            give_up("out of memory");
        snprintf(name, sizeof name, "%s_%d", input_kind_name(p.kind),
                 shape.seq_len);
        json_object_set_new(rounding, name, rounding_errors(&p));
        json_object_set_new(sums, name, short_sums(&p));
        problem_destroy(&p);
    }
    if (argc == 3 && failures == 0)
        write_errors(argv[2], rounding, sums);
    json_decref(rounding);
    json_decref(sums);
    return failures > 0;
}
