// Tangled from chapters/01-attention-on-paper.md; edit that, then `make tangle`.

// ch01_attention.c: attention on paper, as C for the CPU.
//
//   build/ch01_attention                prints the tables of chapter 1, then
//                                       checks itself
//   build/ch01_attention --record FILE  also writes the numbers that the book
//                                       quotes, as a run record (JSON)
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

// ---- Give up, or get memory ----
static void give_up(const char *why)
{
    fprintf(stderr, "ch01_attention: %s\n", why);
    exit(3);
}

static void *need(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        give_up("out of memory");
    return memory;
}

// ---- Cells of tables, kept for the record ----
static json_t *numbers;

__attribute__((format(printf, 3, 4)))
static void cell(const char *layout, double value, const char *key, ...)
{
    char name[64];
    va_list args;

    va_start(args, key);
    vsnprintf(name, sizeof name, key, args);
    va_end(args);
    printf(layout, value);
    if (json_object_set_new(numbers, name, json_real(value)))
        give_up("out of memory");
}

__attribute__((format(printf, 3, 4)))
static void word(const char *layout, const char *text, const char *key, ...)
{
    char name[64];
    va_list args;

    va_start(args, key);
    vsnprintf(name, sizeof name, key, args);
    va_end(args);
    printf(layout, text);
    if (json_object_set_new(numbers, name, json_string(text)))
        give_up("out of memory");
}

// ---- The named shapes ----
enum { SHAPES = 4 };

static struct shape named_shape(int i)
{
    static const char *const names[] = {"small", "mission", "long", "huge"};
    struct shape shape;
    char why[128];

    if (!shape_parse(names[i], &shape, why, sizeof why))
        give_up(why);
    return shape;
}

// ---- E4M3 to float ----
static float e4m3_decode(uint8_t code)
{
    float sign = code & 0x80 ? -1.0f : 1.0f;
    int exponent = code >> 3 & 15;
    int mantissa = code & 7;

    if (exponent == 15 && mantissa == 7)
        return NAN;
    if (exponent == 0)
        return sign * ldexpf(mantissa, -6 - 3);
    return sign * ldexpf(8 + mantissa, exponent - 7 - 3);
}

// ---- Round to nearest, ties to even ----
static int round_to_even(float x) // 0 <= x <= 16
{
    int down = (int)x;
    float rest = x - down; // exact

    return down + (rest > 0.5f || (rest == 0.5f && down % 2 == 1));
}

// ---- Float to E4M3 ----
static uint8_t e4m3_encode(float x)
{
    uint8_t sign = signbit(x) ? 0x80 : 0;
    float size = fminf(fabsf(x), E4M3_MAX); // larger values become E4M3_MAX
    int exponent = ilogbf(size) < -6 ? -6 : ilogbf(size);

    if (isnan(x))
        return 0x7f;
    int steps = round_to_even(ldexpf(size, 3 - exponent));
    return sign | (8 * (exponent + 6) + steps);
}

// ---- The sources' linear code ----
static uint8_t linear_encode(float x)
{
    float u = roundf(x / E4M3_MAX * 127) + 128;

    return (uint8_t)fminf(fmaxf(u, 1), 255);
}

static float linear_decode(uint8_t u)
{
    return (u - 128) / 127.0f * E4M3_MAX;
}

// ---- Both formats ----
struct format {
    const char *name;
    uint8_t (*encode)(float); // takes -448 .. 448
    float (*decode)(uint8_t);
};

enum { E4M3, LINEAR, FORMATS };

static const struct format formats[FORMATS] = {
    [E4M3] = {"e4m3", e4m3_encode, e4m3_decode},
    [LINEAR] = {"linear", linear_encode, linear_decode},
};

// ---- Quantise a tensor ----
struct tensor {
    uint8_t *codes;
    float scale; // value = decode(code) * scale
};

static struct tensor quantise(const struct format *format, const float *x,
                              size_t count)
{
    struct tensor t = {need(count, 1), 0};

    for (size_t i = 0; i < count; ++i)
        t.scale = fmaxf(t.scale, fabsf(x[i]) / E4M3_MAX);
    if (t.scale == 0)
        t.scale = 1; // all values are 0: this scale avoids 0 / 0
    for (size_t i = 0; i < count; ++i)
        t.codes[i] = format->encode(x[i] / t.scale);
    return t;
}

// ---- Dequantise a tensor ----
static float *dequantise(const struct format *format, const struct tensor *t,
                         size_t count)
{
    float *x = need(count, sizeof *x);

    for (size_t i = 0; i < count; ++i)
        x[i] = format->decode(t->codes[i]) * t->scale;
    return x;
}

// ---- Worst relative error in an octave ----
static double worst_in_octave(const struct format *format, float low)
{
    double worst = 0;

    for (int i = 0; i < 4096; ++i) {
        float x = low + low * i / 4096;
        float back = format->decode(format->encode(x));
        worst = fmax(worst, fabs(back - x) / x);
    }
    return worst;
}

// ---- One head, as drawn ----
struct head {
    int seq_len;
    float *q, *k, *v; // [seq_len][HEAD_DIM]
};

// ---- The dot product of two vectors ----
static double dot(const float *a, const float *b)
{
    double even = 0, odd = 0; // two chains of additions, which overlap

    for (int d = 0; d < HEAD_DIM; d += 2) {
        even += (double)a[d] * b[d];
        odd += (double)a[d + 1] * b[d + 1];
    }
    return even + odd;
}

// ---- Attention of one row, naively ----
static void naive_row(const struct head *h, int row, int keys, double *p,
                      double *out)
{
    double max = -INFINITY, sum = 0;

    for (int j = 0; j < keys; ++j) {
        p[j] = dot(&h->q[row * HEAD_DIM], &h->k[j * HEAD_DIM]);
        p[j] /= sqrt(HEAD_DIM);
        max = fmax(max, p[j]);
    }
    for (int j = 0; j < keys; ++j) {
        p[j] = exp(p[j] - max);
        sum += p[j];
    }
    memset(out, 0, HEAD_DIM * sizeof *out);
    for (int j = 0; j < keys; ++j) {
        double weight = p[j] / sum;
        for (int d = 0; d < HEAD_DIM; ++d)
            out[d] += weight * h->v[j * HEAD_DIM + d];
    }
}

// ---- Attention of the sampled rows, naively ----
enum { ROWS = 32 }; // sampled rows of a head; at S <= 32, all of them

static int sampled_row(int i, int seq_len)
{
    return (int)((long)i * seq_len / ROWS);
}

static double (*naive(const struct head *h, int keys))[HEAD_DIM]
{
    double(*out)[HEAD_DIM] = need(ROWS, sizeof *out); // freed by the caller
    double *p = need(keys, sizeof *p);

    for (int i = 0; i < ROWS; ++i)
        naive_row(h, sampled_row(i, h->seq_len), keys, p, out[i]);
    free(p);
    return out;
}

// ---- One head, as a kernel gets it ----
struct coded_head {
    int seq_len;
    struct tensor q, k, v; // [seq_len][HEAD_DIM] codes
};

// ---- Quantise a head, and back ----
static struct coded_head encode_head(const struct format *format,
                                     const struct head *h)
{
    size_t count = (size_t)h->seq_len * HEAD_DIM;

    return (struct coded_head){h->seq_len, quantise(format, h->q, count),
                               quantise(format, h->k, count),
                               quantise(format, h->v, count)};
}

static struct head decode_head(const struct format *format,
                               const struct coded_head *c)
{
    size_t count = (size_t)c->seq_len * HEAD_DIM;

    return (struct head){c->seq_len, dequantise(format, &c->q, count),
                         dequantise(format, &c->k, count),
                         dequantise(format, &c->v, count)};
}

// ---- Draw a head ----
static struct head draw(int seq_len, enum input_kind kind)
{
    struct shape shape = {.batch = 1, .heads = 1, .seq_len = seq_len};
    struct problem p;

    if (!problem_create(&p, &shape, kind, 0))
        give_up("out of memory");
    struct head h = {seq_len, p.q, p.k, p.v};
    p.q = p.k = p.v = NULL; // h has them now
    problem_destroy(&p);
    return h;
}

static void head_free(struct head *h)
{
    free(h->q);
    free(h->k);
    free(h->v);
}

static void coded_head_free(struct coded_head *h)
{
    free(h->q.codes);
    free(h->k.codes);
    free(h->v.codes);
}

// ---- One channel of K far larger than the rest ----
static void make_outlier(struct head *h)
{
    for (int row = 0; row < h->seq_len; ++row) {
        h->k[row * HEAD_DIM] *= 32;
        h->q[row * HEAD_DIM] /= 32; // the scores do not change
    }
}

// ---- What a block keeps ----
enum { BLOCK_M = 32, BLOCK_N = 32 }; // query rows of a block, keys of a tile

struct tiles {
    float q[BLOCK_M][HEAD_DIM];
    float k[BLOCK_N][HEAD_DIM];
    float v[BLOCK_N][HEAD_DIM];
    float scores[BLOCK_M][BLOCK_N]; // first scores, later P
    float accum[BLOCK_M][HEAD_DIM]; // unnormalised output
    float row_max[BLOCK_M];
    float row_sum[BLOCK_M];
};

static void load_tile(float (*tile)[HEAD_DIM], const uint8_t *code,
                      int first_row, int seq_len)
{
    for (int r = 0; r < 32; ++r)
        for (int d = 0; d < HEAD_DIM; ++d) {
            size_t at = (size_t)(first_row + r) * HEAD_DIM + d;
            tile[r][d] = first_row + r < seq_len ? e4m3_decode(code[at]) : 0;
        }
}

// ---- Score one key tile ----
static void score(struct tiles *t, float scale, int keys_left)
{
    for (int i = 0; i < BLOCK_M; ++i)
        for (int j = 0; j < BLOCK_N; ++j) {
            float dot = 0;
            for (int d = 0; d < HEAD_DIM; ++d)
                dot += t->q[i][d] * t->k[j][d];

            // Scale the score, mask keys that are not there
            t->scores[i][j] = j < keys_left ? dot * scale : -INFINITY;
        }
}

static void online_softmax(struct tiles *t)
{
    for (int i = 0; i < BLOCK_M; ++i) {
        float old_max = t->row_max[i];
        for (int j = 0; j < BLOCK_N; ++j)
            t->row_max[i] = fmaxf(t->row_max[i], t->scores[i][j]);
        float rescale = expf(old_max - t->row_max[i]);

        // Rescale what was summed under the old maximum
        t->row_sum[i] *= rescale;
        for (int d = 0; d < HEAD_DIM; ++d)
            t->accum[i][d] *= rescale;

        for (int j = 0; j < BLOCK_N; ++j) {
            t->scores[i][j] = expf(t->scores[i][j] - t->row_max[i]);
            t->row_sum[i] += t->scores[i][j];
        }
    }
}

// ---- Accumulate P V ----
static void accumulate(struct tiles *t)
{
    for (int i = 0; i < BLOCK_M; ++i)
        for (int j = 0; j < BLOCK_N; ++j)
            for (int d = 0; d < HEAD_DIM; ++d)
                t->accum[i][d] += t->scores[i][j] * t->v[j][d];
}

// ---- Attention in tiles ----
static void tiled(const struct coded_head *h, float *out)
{
    float scale = h->q.scale * h->k.scale / sqrtf(HEAD_DIM);
    int seq_len = h->seq_len;
    struct tiles t;

    for (int first_row = 0; first_row < seq_len; first_row += BLOCK_M) {
        load_tile(t.q, h->q.codes, first_row, seq_len);

        // Start with no keys seen
        memset(t.accum, 0, sizeof t.accum);
        for (int i = 0; i < BLOCK_M; ++i) {
            t.row_max[i] = -INFINITY;
            t.row_sum[i] = 0;
        }

        for (int first_key = 0; first_key < seq_len; first_key += BLOCK_N) {
            load_tile(t.k, h->k.codes, first_key, seq_len);
            load_tile(t.v, h->v.codes, first_key, seq_len);
            score(&t, scale, seq_len - first_key);
            online_softmax(&t);
            accumulate(&t);
        }

        // Normalise and store
        for (int i = 0; i < BLOCK_M && first_row + i < seq_len; ++i)
            for (int d = 0; d < HEAD_DIM; ++d)
                out[(first_row + i) * HEAD_DIM + d] =
                    t.accum[i][d] * h->v.scale / t.row_sum[i];
    }
}

// ---- What is measured ----
struct error {
    double relative;  // ||out - ref|| / ||ref||, over all sampled rows
    double worst_row; // ||out - ref|| / ||ref|| of the row where it is largest
    double max, mean; // of |out - ref|
    double bad;       // elements with |out - ref| > 0.02 + 0.02 |ref|, in %
};

// ---- The larger error, NaN the largest ----
static double worse(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

// ---- Measure an output ----
static struct error measure(double (*out)[HEAD_DIM], double (*ref)[HEAD_DIM])
{
    struct error e = {0};
    double difference = 0, norm = 0;

    for (int i = 0; i < ROWS; ++i) {
        double row_difference = 0, row_norm = 0;
        for (int d = 0; d < HEAD_DIM; ++d) {
            double err = fabs(out[i][d] - ref[i][d]);
            row_difference += err * err;
            row_norm += ref[i][d] * ref[i][d];
            e.max = worse(e.max, err);
            e.mean += err / (ROWS * HEAD_DIM);
            e.bad += !(err <= 0.02 + 0.02 * fabs(ref[i][d]));
        }
        e.worst_row = worse(e.worst_row, sqrt(row_difference / row_norm));
        difference += row_difference;
        norm += row_norm;
    }
    e.relative = sqrt(difference / norm);
    e.bad *= 100.0 / (ROWS * HEAD_DIM);
    return e;
}

// With NaN every comparison is false: ask for "small enough", not "too large".
static bool within(const struct error *e, double tolerance)
{
    return e->relative <= tolerance &&
           e->worst_row <= GATE_ROW_FACTOR * tolerance;
}

// ---- The sources' gate ----
static bool sources_pass(const struct error *e)
{
    return e->max <= 0.06 && e->mean <= 0.02 && e->bad <= 1;
}

// ---- Relative error of an array ----
static double rms_error(const float *x, const float *exact, size_t count)
{
    double difference = 0, norm = 0;

    for (size_t i = 0; i < count; ++i) {
        difference += pow(x[i] - exact[i], 2);
        norm += pow(exact[i], 2);
    }
    return sqrt(difference / norm);
}

// ---- Store as half ----
static double through_half(double x)
{
    return half_to_float(half_from_float((float)x));
}

// Error of tiled()'s output against `exact`; `half`: after rounding to half.
static struct error tiled_error(const struct coded_head *coded,
                                double (*exact)[HEAD_DIM], bool half)
{
    int seq_len = coded->seq_len;
    float *out = need((size_t)seq_len * HEAD_DIM, sizeof *out);
    double(*rows)[HEAD_DIM] = need(ROWS, sizeof *rows);

    tiled(coded, out);
    for (int i = 0; i < ROWS; ++i)
        for (int d = 0; d < HEAD_DIM; ++d) {
            double x = out[sampled_row(i, seq_len) * HEAD_DIM + d];
            rows[i][d] = half ? through_half(x) : x;
        }
    struct error e = measure(rows, exact);
    free(out);
    free(rows);
    return e;
}

// ---- Causes of error ----

// Results whose errors are listed: for each format, K's values and the output;
// for E4M3 alone also tiled()'s output, as float and rounded to half.
enum { VALUE, OUTPUT = VALUE + FORMATS, TILED = OUTPUT + FORMATS, HALF };
enum { CAUSES = HALF + 1 };

static const char *const causes[CAUSES] = {
    "value_e4m3",    "value_linear", "output_e4m3",
    "output_linear", "tiled",        "half",
};

// ---- Find the error's causes ----
static void find_causes(const struct head *h, double error[CAUSES])
{
    size_t count = (size_t)h->seq_len * HEAD_DIM;
    double(*drawn)[HEAD_DIM] = naive(h, h->seq_len);

    for (int f = 0; f < FORMATS; ++f) {
        struct coded_head coded = encode_head(&formats[f], h);
        struct head back = decode_head(&formats[f], &coded);
        double(*exact)[HEAD_DIM] = naive(&back, h->seq_len);
        error[VALUE + f] = rms_error(back.k, h->k, count);
        error[OUTPUT + f] = measure(exact, drawn).relative;
        if (f == E4M3) {
            error[TILED] = tiled_error(&coded, exact, false).relative;
            error[HALF] = tiled_error(&coded, exact, true).relative;
        }
        free(exact);
        head_free(&back);
        coded_head_free(&coded);
    }
    free(drawn);
}

// ---- Three outputs, two references ----
enum { ZEROS, DROPPED, RIGHT, OUTPUTS };

struct verdict {
    struct error own;   // against attention of the E4M3 values
    struct error drawn; // against attention of the values as drawn
};

// ---- Judge two wrong outputs and a right one ----
static void judge(int seq_len, struct verdict verdict[OUTPUTS])
{
    struct head h = draw(seq_len, INPUT_NORMAL);
    struct coded_head coded = encode_head(&formats[E4M3], &h);
    struct head back = decode_head(&formats[E4M3], &coded);
    double(*drawn)[HEAD_DIM] = naive(&h, seq_len);
    double(*exact)[HEAD_DIM] = naive(&back, seq_len);
    double(*out[OUTPUTS])[HEAD_DIM] = {need(ROWS, sizeof **out),
                                       naive(&back, seq_len - BLOCK_N),
                                       need(ROWS, sizeof **out)};

    for (int i = 0; i < ROWS; ++i)
        for (int d = 0; d < HEAD_DIM; ++d)
            out[RIGHT][i][d] = through_half(exact[i][d]);
    for (int i = 0; i < OUTPUTS; ++i) {
        verdict[i].own = measure(out[i], exact);
        verdict[i].drawn = measure(out[i], drawn);
        free(out[i]);
    }
    free(drawn);
    free(exact);
    head_free(&h);
    head_free(&back);
    coded_head_free(&coded);
}

// ---- Rates of two GPUs ----
struct gpu {
    const char *name, *key;
    double sms, clock_ghz;             // boost clock
    double tensor_tflops, fp32_tflops; // dense; FP16 with float sums
    double dram_gbs;
};

static const struct gpu gpus[] = {
    {"L4", "l4", 58, 2.040, 121, 30.3, 300},
    {"H200", "h200", 132, 1.980, 989.5, 67, 4800},
};

// ---- Find the floors ----
enum unit { FP32, TENSOR, EXP, SHARED, DRAM, UNITS };

static const char *const units[] = {"fp32", "tensor", "exp", "shared", "dram"};

// Least time of each unit, in us. Returns the unit with the largest, FP32 left
// out: only a kernel without tensor cores needs that time.
static enum unit find_floors(const struct gpu *gpu, const struct shape *shape,
                             double us[UNITS])
{
    double elements = shape_elements(shape);
    double flops = shape_flops(shape);
    double pairs = elements / HEAD_DIM * shape->seq_len; // (query, key)
    double tile_bytes = 2 * 2 * (2.0 * HEAD_DIM) / BLOCK_M; // per pair
    double clocks = gpu->sms * gpu->clock_ghz * 1e3; // cycles of all SMs per us
    enum unit binding = TENSOR;

    us[FP32] = flops / (gpu->fp32_tflops * 1e6);
    us[TENSOR] = flops / (gpu->tensor_tflops * 1e6);
    us[EXP] = pairs / (16 * clocks);
    us[SHARED] = pairs * tile_bytes / (128 * clocks);
    us[DRAM] = elements * (3 * 1 + 2) / (gpu->dram_gbs * 1e3);
    for (enum unit u = TENSOR; u < UNITS; ++u)
        binding = us[u] > us[binding] ? u : binding;
    return binding;
}

// ---- Print work and traffic ----
static void print_work(void)
{
    printf("\nWork and traffic\n\n  %-10s%12s%12s%12s%12s%12s\n", "shape",
           "GFLOP", "MB", "FLOP/byte", "scores MB", "FLOP/byte");
    for (int s = 0; s < SHAPES; ++s) {
        struct shape shape = named_shape(s);
        double flops = shape_flops(&shape);
        double elements = shape_elements(&shape);
        double bytes = (3 * 1 + 2) * elements;
        double scores = 4 * 2 * elements / HEAD_DIM * shape.seq_len;
        printf("  %-10s", shape.name);
        cell("%12.3f", flops / 1e9, "work_%s_gflop", shape.name);
        cell("%12.2f", bytes / 1e6, "work_%s_mb", shape.name);
        cell("%12.0f", flops / bytes, "work_%s_intensity", shape.name);
        cell("%12.1f", scores / 1e6, "work_%s_scores_mb", shape.name);
        cell("%12.1f\n", flops / (bytes + scores),
             "work_%s_intensity_scores", shape.name);
    }
}

// ---- Print the error by octave ----
static void print_octaves(void)
{
    static const int octaves[] = {1, 2, 3, 4, 5, 6, 8, 14, 16, 18};

    printf("\nWorst relative error of a value, by its part of the largest\n\n"
           "  %-10s%10s%10s\n", "from", "E4M3", "linear");
    for (size_t i = 0; i < sizeof octaves / sizeof octaves[0]; ++i) {
        printf("  2^-%-7d", octaves[i]);
        for (int f = 0; f < FORMATS; ++f)
            cell("%10.4f", worst_in_octave(&formats[f],
                                           ldexpf(E4M3_MAX, -octaves[i])),
                 "octave_%d_%s", octaves[i], formats[f].name);
        printf("\n");
    }
}

// ---- Print the error's causes ----
static void print_causes(void)
{
    static const char *const names[] = {"normal", "mean", "peaky", "outlier"};
    enum { KINDS = sizeof names / sizeof names[0] };
    double error[KINDS][CAUSES];

    printf("\nRelative error by cause, S = 512\n\n  %-14s", "");
    for (int kind = 0; kind < KINDS; ++kind) {
        bool outlier = kind == INPUT_KINDS;
        struct head h = draw(512, outlier ? INPUT_NORMAL : kind);
        if (outlier)
            make_outlier(&h);
        find_causes(&h, error[kind]);
        head_free(&h);
        printf("%12s", names[kind]);
    }
    for (int cause = 0; cause < CAUSES; ++cause) {
        printf("\n  %-14s", causes[cause]);
        for (int kind = 0; kind < KINDS; ++kind)
            cell("%12.2e", error[kind][cause], "cause_%s_%s", causes[cause],
                 names[kind]);
    }
    printf("\n");
}

// ---- Print the verdicts of both gates ----
static int print_gates(void) // returns how many outputs our gate misjudges
{
    static const char *const names[OUTPUTS] = {"zeros", "dropped", "right"};
    static const int lengths[] = {32, 128, 512, 2048, 8192, 32768, 65536};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    struct verdict verdicts[LENGTHS][OUTPUTS];
    int misjudged = 0;

    for (int s = 0; s < LENGTHS; ++s)
        judge(lengths[s], verdicts[s]);
    printf("\nAn output of zeros, one without the last 32 keys, a right one\n\n"
           "  %-8s%6s%10s%10s%10s%10s%12s%10s\n", "output", "S", "max", "mean",
           "bad %", "sources", "relative", "ours");
    for (int i = 0; i < OUTPUTS; ++i)
        for (int s = 0; s < LENGTHS; ++s) {
            const struct verdict *v = &verdicts[s][i];
            bool pass = within(&v->own, GATE_TOLERANCE);
            misjudged += pass != (i == RIGHT);

            // Print one verdict
            const char *name = names[i];
            int seq_len = lengths[s];

            printf("  %-8s%6d", s ? "" : name, seq_len);
            cell("%10.4f", v->drawn.max, "gate_%s_%d_max", name, seq_len);
            cell("%10.4f", v->drawn.mean, "gate_%s_%d_mean", name, seq_len);
            cell("%10.1f", v->drawn.bad, "gate_%s_%d_bad", name, seq_len);
            word("%10s", sources_pass(&v->drawn) ? "pass" : "fail",
                 "gate_%s_%d_sources", name, seq_len);
            cell("%12.5f", v->own.relative, "gate_%s_%d_relative", name, seq_len);
            word("%10s\n", pass ? "pass" : "fail", "gate_%s_%d_ours", name, seq_len);
        }
    return misjudged;
}

static void print_floors(const struct gpu *gpu)
{
    printf("\nFloors of an %s, us\n\n  %-10s", gpu->name, "shape");
    for (int u = 0; u < UNITS; ++u)
        printf("%11s", units[u]);
    printf("%9s\n", "binds");
    for (int s = 0; s < SHAPES; ++s) {
        struct shape shape = named_shape(s);
        double us[UNITS];
        enum unit binding = find_floors(gpu, &shape, us);
        printf("  %-10s", shape.name);
        for (int u = 0; u < UNITS; ++u)
            cell("%11.2f", us[u], "floor_%s_%s_%s", gpu->key, shape.name,
                 units[u]);
        word("%9s\n", units[binding], "floor_%s_%s_binds", gpu->key,
             shape.name);
    }
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

// ---- Check all codes against the workbench's ----
static void check_codes(void)
{
    int right = 0;

    for (int c = 0; c < 256; ++c) {
        float mine = e4m3_decode(c), other = e4m3_to_float(c);
        right += mine == other || (isnan(mine) && isnan(other));
    }
    check(right == 256, "codes", "%d of 256 codes have their value", right);
}

// ---- Check all ties ----
static void check_ties(void)
{
    int right = 0;

    for (int c = 0; c < 0x7e; ++c) {
        float tie = (e4m3_decode(c) + e4m3_decode(c + 1)) / 2;
        right += e4m3_encode(tie) == c + c % 2 &&
                 e4m3_encode(-tie) == e4m3_from_float(-tie) &&
                 e4m3_encode(nextafterf(tie, 0)) == c &&
                 e4m3_encode(nextafterf(tie, INFINITY)) == c + 1;
    }
    check(right == 0x7e, "ties", "%d of 126 ties go to even", right);
}

// ---- Check floats of all sizes ----
static void check_floats(void)
{
    int right = 0, tried = 0;

    for (uint64_t bits = 0; bits < 1ull << 32; bits += 99991, ++tried) {
        uint32_t pattern = (uint32_t)bits;
        float x;
        memcpy(&x, &pattern, sizeof x);
        right += e4m3_encode(x) == e4m3_from_float(x);
    }
    check(right == tried, "floats", "%d of %d floats get their code", right,
          tried);
}

// ---- Check the tiles against the naive way ----
static struct error compare(const struct head *h)
{
    struct coded_head coded = encode_head(&formats[E4M3], h);
    struct head back = decode_head(&formats[E4M3], &coded);
    double(*exact)[HEAD_DIM] = naive(&back, h->seq_len);
    struct error e = tiled_error(&coded, exact, false);

    free(exact);
    head_free(&back);
    coded_head_free(&coded);
    return e;
}

static void check_tiles(void)
{
    static const int lengths[] = {1, 31, 32, 33, 239, 517};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
        struct head h = draw(lengths[i], INPUT_PEAKY);
        struct error e = compare(&h);
        check(within(&e, 1e-5), "tiles", "S = %-3d: as the naive way, to %.0e",
              lengths[i], e.relative);
        head_free(&h);
    }
}

// ---- Check rows of very small scores ----
static void check_deep(void)
{
    struct head h = draw(3 * BLOCK_N, INPUT_NORMAL);

    for (int i = 0; i < 3 * BLOCK_N * HEAD_DIM; ++i) {
        h.q[i] = 8;
        h.k[i] = -2.75f + 0.25f * (i / HEAD_DIM / BLOCK_N);
    }
    struct error e = compare(&h);
    check(within(&e, 1e-5), "deep",
          "scores near -150: as the naive way, to %.0e", e.relative);
    head_free(&h);
}

// ---- Check against the workbench's reference ----
static void check_workbench(void)
{
    struct shape shape = {.batch = 1, .heads = 2, .seq_len = 239};
    size_t head = 239 * HEAD_DIM;
    struct rows all = {0, 1};
    struct problem p;
    float *ref = need(2 * head, sizeof *ref);
    float *out = need(2 * head, sizeof *out);
    uint16_t *half = need(2 * head, sizeof *half);

    if (!problem_create(&p, &shape, INPUT_MEAN, 1) ||
        !reference_dequantised(&p, all, 1, ref))
        give_up("out of memory");
    for (int h = 0; h < 2; ++h) {
        struct coded_head coded = {239,
                                   {p.q_codes + h * head, p.q_scales[h]},
                                   {p.k_codes + h * head, p.k_scales[h]},
                                   {p.v_codes + h * head, p.v_scales[h]}};
        tiled(&coded, out + h * head);
    }
    for (size_t i = 0; i < 2 * head; ++i)
        half[i] = half_from_float(out[i]);
    struct error_metrics m = error_measure(&shape, all, half, ref);
    check(gate_relative(&m, GATE_TOLERANCE), "workbench",
          "its reference and gate accept the tiles, at %.1e", m.rel_head);
    problem_destroy(&p);
    free(ref);
    free(out);
    free(half);
}

// ---- Check that NaN is noticed ----
static void check_nan(void)
{
    double(*ref)[HEAD_DIM] = need(ROWS, sizeof *ref);
    double(*out)[HEAD_DIM] = need(ROWS, sizeof *out);

    for (int i = 0; i < ROWS; ++i)
        for (int d = 0; d < HEAD_DIM; ++d)
            ref[i][d] = out[i][d] = 1;
    struct error right = measure(out, ref);
    out[3][14] = NAN;
    struct error wrong = measure(out, ref);
    check(within(&right, 0) && !within(&wrong, 1) && !sources_pass(&wrong) &&
              isnan(wrong.max) && isnan(wrong.worst_row),
          "nan", "one NaN among 2048 elements fails every gate");
    free(ref);
    free(out);
}

static void write_record(const char *path)
{
    char date[32], why[512];
    time_t now = time(NULL);
    char *text = NULL;

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_t *record = json_pack(
        "{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:O}", "record", 1, "program",
        "ch01_attention", "chapter", 1, "title", "Attention on paper",
        "source_hash", SOURCE_HASH, "git_commit", GIT_COMMIT, "date", date,
        "numbers", numbers);
    if (record)
        text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    if (!text)
        give_up("out of memory");
    if (!file_write(path, text, strlen(text), why, sizeof why))
        give_up(why);
    free(text);
    json_decref(record);
}

// ---- Print the tables, then check ----
int main(int argc, char **argv)
{
    const char *record = NULL;
    char why[512];

    // Read the options
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: ch01_attention [--record FILE]\n"
               "Prints the tables of chapter 1, then checks itself.\n\n"
               "  --record FILE  write the numbers as a run record (JSON)\n"
               "  --help         print this text\n\n"
               "Exit status: 0 all checks passed, 1 a check failed, 2 bad usage,\n"
               "3 the machine failed (no memory, FILE not writable).\n");
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--record") == 0) {
        record = argv[2];
    } else if (argc > 1) {
        fprintf(stderr, "ch01_attention: \"%s\": write --record FILE or --help\n",
                argv[1]);
        return 2;
    }

    if (record && !file_writable(record, why, sizeof why))
        give_up(why);
    numbers = json_object();
    print_work();
    print_octaves();
    print_causes();
    int misjudged = print_gates();
    print_floors(&gpus[0]);
    print_floors(&gpus[1]);
    printf("\nChecks\n\n");
    check_codes();
    check_ties();
    check_floats();
    check_tiles();
    check_deep();
    check_workbench();
    check_nan();
    check(misjudged == 0, "gates", "%d of 21 outputs misjudged", misjudged);
    if (record && failures == 0)
        write_record(record);
    json_decref(numbers);
    return failures > 0;
}
