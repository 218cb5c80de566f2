// cases.c: makes the inputs of cases, drawn from the secret for each submission, and decides which
// answers are right.
#include "judge.h"

#include "workbench/diagnosis.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *drawn_for = ""; // hash of the source for which inputs are drawn

const char *secret_draw_for(const char *hash)
{
    const char *before = drawn_for;
    drawn_for = hash;
    return before;
}

const char *secret_name(void)
{
    static char name[SHA256_DIGEST_STRING_LENGTH];
    if (!*name) {
        SHA256Data(options.secret, sizeof options.secret, name);
        name[12] = '\0';
    }
    return name;
}

static uint64_t draw(const uint8_t key[SHA256_DIGEST_LENGTH], const char *of, const char *format,
                     va_list arguments)
{
    char purpose[256];
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX s;
    uint64_t drawn;

    vsnprintf(purpose, sizeof purpose, format, arguments);
    SHA256Init(&s);
    SHA256Update(&s, key, SHA256_DIGEST_LENGTH);
    SHA256Update(&s, (const uint8_t *)of, strlen(of) + 1);
    SHA256Update(&s, (const uint8_t *)purpose, strlen(purpose));
    SHA256Final(digest, &s);
    memcpy(&drawn, digest, sizeof drawn);
    return drawn;
}

uint64_t secret_draw(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    uint64_t drawn = draw(options.secret, drawn_for, format, arguments);
    va_end(arguments);
    return drawn;
}

uint64_t class_draw(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    uint64_t drawn = draw(options.secret, "", format, arguments);
    va_end(arguments);
    return drawn;
}

uint64_t public_draw(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    uint64_t drawn = draw(options.seeds, drawn_for, format, arguments);
    va_end(arguments);
    return drawn;
}

int secret_between(int least, int most, uint64_t drawn)
{
    return least + (int)(drawn % (uint64_t)(most - least + 1));
}

char *drawn_like(const char *published)
{
    // If the public shape has fewer than LEAST tiles, the number of tiles is drawn: LEAST to MOST.
    enum { TILE = 128, LEAST = 3, MOST = 6 };
    struct shape shape;
    char why[256];

    if (!shape_parse(published, &shape, why, sizeof why) || shape.ragged)
        return text("%s", published);
    if (shape.page) {
        const int keys = secret_between(3 * shape.seq_len / 4, 5 * shape.seq_len / 4,
                                        class_draw("keys like %s", published));
        return text("%dx%dx%dq%dp%d", shape.batch, shape.heads, keys, shape.group, shape.page);
    }
    if (shape.seq_len % TILE)
        return text("%s", published);
    const int tiles = shape.seq_len / TILE, heads = shape.batch * shape.heads;
    const bool few = tiles < LEAST;
    const int other = secret_between(few ? LEAST : tiles - 1, few ? MOST : tiles + 1,
                                     class_draw("tiles like %s", published));
    const double even = (double)heads * tiles * tiles / (other * other);
    const int more = secret_between(0, 1, class_draw("heads like %s", published)) ? 1 : -1;
    int drawn = (int)fmax(1, round(even)) + (other == tiles ? more : 0);
    return text("1x%dx%d", drawn < 1 ? 2 : drawn, other * TILE);
}

const char *input_name(enum input input)
{
    static const char *const names[GRADE_INPUTS] = {"normal", "mean", "peaky",
                                                    "rising", "flat", "offset"};
    return names[input];
}

// Turns a cache's normal inputs (queries in half, a scale for each token) into inputs of the case's
// kind.
static void reshape_cache(struct grade_case *c)
{
    struct problem *p = &c->problem;
    size_t tokens = shape_elements(&p->shape) / HEAD_DIM, keys = (size_t)p->shape.seq_len;

    if (c->input == GRADE_FLAT)
        memset(p->q, 0, shape_outputs(&p->shape) * sizeof *p->q);
    for (size_t t = 0; c->input == GRADE_RISING && t < tokens; ++t) {
        const float *q = p->q + t / keys * (size_t)shape_rows(&p->shape) * HEAD_DIM;
        float *k = p->k + t * HEAD_DIM, largest = 0;
        for (int d = 0; d < HEAD_DIM; ++d) {
            float grown = q[d] * (float)(t % keys + 1) / (float)keys;
            k[d] = half_to_float(half_from_float(grown));
            largest = fmaxf(largest, fabsf(k[d]));
        }
        p->k_scales[t] = e8m0_to_float(e8m0_for(largest));
        for (int d = 0; d < HEAD_DIM; ++d)
            p->k_codes[t * HEAD_DIM + d] = e4m3_from_float(k[d] / p->k_scales[t]);
    }
}

// Turns normal inputs into inputs of the grader's own kinds. Without a cache only codes change, no
// scales.
static void reshape_inputs(struct grade_case *c)
{
    struct problem *p = &c->problem;
    size_t elements = shape_elements(&p->shape);

    if (p->shape.page) {
        reshape_cache(c);
        return;
    }
    if (c->input == GRADE_FLAT)
        memset(p->q_codes, 0, elements);
    // The largest E4M3 value is 448.
    for (size_t i = 0; c->input == GRADE_OFFSET && i < elements; ++i) {
        p->q_codes[i] = e4m3_from_float(400 + 0.1f * e4m3_to_float(p->q_codes[i]));
        p->k_codes[i] = e4m3_from_float(400 + 0.1f * e4m3_to_float(p->k_codes[i]));
    }
    for (size_t i = 0; c->input == GRADE_RISING && i < elements; ++i) {
        // Each key points in the direction of the head's first query, and is longer than the one
        // before it.
        size_t row = i / HEAD_DIM % (size_t)p->shape.seq_len;
        size_t first = i - row * HEAD_DIM;
        float grown = e4m3_to_float(p->q_codes[first]) * (float)(row + 1) / (float)p->shape.seq_len;
        p->k_codes[i] = e4m3_from_float(grown);
    }
}

// The rows that the reference in double precision computes: all, or about as many as the book's
// gates compare, but drawn at random.
static struct rows draw_rows(const struct shape *shape, uint64_t seed)
{
    struct rows rows = reference_rows(shape);

    if (rows.stride > 1) {
        int most = rows.stride | 1, least = most / 2 | 1;
        rows.stride =
            secret_between(least, most, secret_draw("stride %016llx", (unsigned long long)seed)) |
            1;
        rows.first = secret_between(0, rows.stride - 1,
                                    secret_draw("first %016llx", (unsigned long long)seed));
    }
    return rows;
}

// ---- The second implementation ------------------------------------------------------------------
// Computes every row in single precision, adding in another order than the reference: this checks
// the rows that the reference leaves out. Its own error is of the order of 1e-6; its purpose is to
// find rows that were never computed. As in reference.c, what takes time is written in vectors and
// compiled for two generations of x86, with bit-identical results.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_X86 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_X86
#endif

// As in reference.c, a vector is as wide as a register of AVX2.
enum { LANES = 16, WIDTH = 8, PARTS = LANES / WIDTH, COLUMNS = HEAD_DIM / WIDTH };
typedef float vec __attribute__((vector_size(WIDTH * sizeof(float))));
typedef int32_t ivec __attribute__((vector_size(WIDTH * sizeof(int32_t))));

// Queries, keys and values of one (batch, head), padded to a multiple of LANES rows. Keys are
// arranged so that a vector has the same element of several keys.
struct one_head {
    float *queries; // [seq_len][HEAD_DIM]
    vec *keys;      // [padded / LANES][HEAD_DIM][PARTS], one key for each lane
    vec *values;    // [padded][COLUMNS]
};

// exp(x) for x <= 0: 2^k exp(r) with k = round(x / ln 2) and a polynomial of degree 7 for
// |r| <= ln(2) / 2.
static inline void exponentials(vec *x)
{
    const float log2_e = 1.44269504f, ln2 = 0.693147181f;
    const float magic = 0x1.8p23f; // x + magic - magic rounds x; the low bits of x + magic are the
                                   // integer
    ivec kept = *x > -87.0f;       // all bits set in lanes to be kept; the others become 0
    vec small = (vec)((ivec)*x & kept);
    vec shifted = small * log2_e + magic;
    vec rest = small - (shifted - magic) * ln2;
    vec power = 1 + rest * (1.0f / 7);

    for (int n = 6; n >= 1; --n)
        power = 1 + power * (rest * (1.0f / (float)n));
    ivec exponent = ((ivec)shifted + 127) << 23; // shifts out the bits of magic itself
    *x = (vec)((ivec)(power * (vec)exponent) & kept);
}

FOR_EACH_X86 static void one_row(const struct one_head *head, int row, int seen, float scale,
                                 float v_scale, float *out)
{
    const float *q = head->queries + (size_t)row * HEAD_DIM;
    float max = -INFINITY, sum = 0;
    vec o[COLUMNS] = {{0}};

    for (int first = 0; first < seen; first += LANES) {
        int keys = seen - first < LANES ? seen - first : LANES;
        const vec *k = head->keys + (size_t)first / LANES * HEAD_DIM * PARTS;
        const vec *v = head->values + (size_t)first * COLUMNS;
        vec score[PARTS] = {{0}};
        for (int d = 0; d < HEAD_DIM; ++d)
#pragma GCC unroll 2 // keeps the sums in registers
            for (int i = 0; i < PARTS; ++i)
                score[i] += q[d] * k[d * PARTS + i];
        for (int i = 0; i < PARTS; ++i)
            score[i] *= scale;
        float highest = max;
        for (int j = 0; j < keys; ++j)
            highest = score[j / WIDTH][j % WIDTH] > highest ? score[j / WIDTH][j % WIDTH] : highest;
        if (highest > max) {
            float rescale = expf(max - highest);
            max = highest;
            sum *= rescale;
            for (int c = 0; c < COLUMNS; ++c)
                o[c] *= rescale;
        }
        float weights[LANES];
        for (int i = 0; i < PARTS; ++i) {
            vec x = score[i] - max;
            exponentials(&x);
            memcpy(weights + i * WIDTH, &x, sizeof x);
        }
        for (int j = 0; j < keys; ++j) {
            sum += weights[j];
#pragma GCC unroll 8
            for (int c = 0; c < COLUMNS; ++c)
                o[c] += weights[j] * v[j * COLUMNS + c];
        }
    }
    for (int d = 0; d < HEAD_DIM; ++d)
        out[d] = o[d / WIDTH][d % WIDTH] / sum * v_scale;
}

static void take_head(const struct problem *p, int index, const float table[256],
                      struct one_head *head)
{
    size_t keys = (size_t)p->shape.seq_len, base = (size_t)index * keys * HEAD_DIM;

    for (size_t i = 0; i < keys * HEAD_DIM; ++i) {
        size_t key = i / HEAD_DIM, d = i % HEAD_DIM;
        head->queries[i] = table[p->q_codes[base + i]];
        head->keys[(key / LANES * HEAD_DIM + d) * PARTS + key % LANES / WIDTH][key % WIDTH] =
            table[p->k_codes[base + i]];
        head->values[i / WIDTH][i % WIDTH] = table[p->v_codes[base + i]];
    }
}

static void *of_vectors(size_t elements) // zeroed memory for `elements` floats, aligned
{
    size_t bytes = elements * sizeof(float);
    void *room = need(aligned_alloc(PARTS * sizeof(vec), bytes));
    return memset(room, 0, bytes);
}

// Computes every row, [B][H][S][HEAD_DIM], for the caller to free.
static float *every_row(const struct problem *p)
{
    size_t padded = ((size_t)p->shape.seq_len + LANES - 1) / LANES * LANES * HEAD_DIM;
    struct one_head head = {of_vectors(padded), of_vectors(padded), of_vectors(padded)};
    float *out = of_vectors(shape_elements(&p->shape)), *at = out, table[256];

    for (int i = 0; i < 256; ++i)
        table[i] = e4m3_to_float((uint8_t)i);
    for (int i = 0; i < p->shape.batch * p->shape.heads; ++i) {
        int h = i % p->shape.heads;
        take_head(p, i, table, &head);
        for (int row = 0; row < p->shape.seq_len; ++row, at += HEAD_DIM)
            one_row(&head, row, keys_seen(p->mask, p->shape.seq_len, row),
                    p->softmax_scale * p->q_scales[h] * p->k_scales[h], p->v_scales[h], at);
    }
    free(head.queries);
    free(head.keys);
    free(head.values);
    return out;
}

// ---- Cases --------------------------------------------------------------------------------------

// The inputs of a set in one piece of memory, for the caller to free.
static char *joined_inputs(const struct shape *shape, const void *const parts[])
{
    size_t bytes[INPUTS_MAX];
    int count = input_sizes(shape, bytes);
    char *inputs = need(malloc(input_bytes(shape))), *at = inputs;

    for (int i = 0; i < count; at += bytes[i++])
        memcpy(at, parts[i], bytes[i]);
    return inputs;
}

// Replaces K or V of a problem by the K or V of another seed, with the same shape.
static void take_tensor(struct problem *p, enum tensor which, uint64_t seed)
{
    struct problem other;

    if (!problem_create(&other, &p->shape, p->kind, seed))
        fail(EXIT_MACHINE, "out of memory for a case");
#define EXCHANGE(field)                                                                            \
    do {                                                                                           \
        void *taken = other.field;                                                                 \
        other.field = p->field;                                                                    \
        p->field = taken;                                                                          \
    } while (0)
    if (which == TENSOR_K) {
        EXCHANGE(k);
        EXCHANGE(k_codes);
        EXCHANGE(k_scales);
    } else {
        EXCHANGE(v);
        EXCHANGE(v_codes);
        EXCHANGE(v_scales);
    }
#undef EXCHANGE
    problem_destroy(&other);
}

void case_make(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
               uint64_t seed)
{
    case_make_of(c, shape, softmax_scale, input, (const uint64_t[TENSORS]){seed, seed, seed});
}

void case_make_of(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
                  const uint64_t seeds[TENSORS])
{
    static const enum input_kind kinds[GRADE_INPUTS] = {INPUT_NORMAL, INPUT_MEAN, INPUT_PEAKY,
                                                        INPUT_NORMAL, INPUT_NORMAL};
    char why[256];

    const uint64_t seed = seeds[TENSOR_Q];
    *c = (struct grade_case){.input = input, .seed = seed};
    if (!shape_parse(shape, &c->shape, why, sizeof why))
        fail(EXIT_USAGE, "%s", why);
    c->rows = draw_rows(&c->shape, seed);
    c->ref = malloc(shape_outputs(&c->shape) * sizeof *c->ref);
    if (!c->ref || !problem_create(&c->problem, &c->shape, kinds[input], seed))
        fail(EXIT_MACHINE, "out of memory for a case");
    for (enum tensor t = TENSOR_K; t < TENSORS; ++t)
        if (seeds[t] != seed)
            take_tensor(&c->problem, t, seeds[t]);
    c->problem.softmax_scale = softmax_scale;
    c->problem.mask = sheet.mask;
    reshape_inputs(c);
    c->all_rows = c->rows.stride > 1 ? every_row(&c->problem) : NULL;
    struct error_metrics rounded;
    if (!reference_dequantised(&c->problem, c->rows, options.threads, c->ref) ||
        !gate_limits_of(&c->problem, c->rows, options.threads, sheet.p, GATE_TOLERANCE, c->ref,
                        &rounded, &c->limits))
        fail(EXIT_MACHINE, "out of memory for a reference");
    if (c->shape.page)
        return;
    const struct problem *p = &c->problem;
    const void *parts[] = {p->q_codes,  p->k_codes,  p->v_codes,
                           p->q_scales, p->k_scales, p->v_scales};
    c->inputs = joined_inputs(&c->shape, parts);
}

void mixed_seeds(int i, const uint64_t seeds[], uint64_t of[TENSORS])
{
    of[TENSOR_Q] = of[TENSOR_K] = of[TENSOR_V] = seeds[i < CASES_MIXED ? 0 : i];
    if (i > 0 && i < CASES_MIXED)
        of[TENSORS - i] = seeds[i];
}

// ---- A cache ------------------------------------------------------------------------------------

static const struct places *laid_out; // read by code_place and scale_place, which the library calls

static int code_place(enum cache_tensor tensor, int slot, int d)
{
    return laid_out->codes[(tensor * laid_out->page + slot) * HEAD_DIM + d];
}

static int scale_place(enum cache_tensor tensor, int slot)
{
    return laid_out->scales[tensor * laid_out->page + slot];
}

// Whether a byte marks a slot without a token: it is NaN both as a code and as a scale.
static bool is_nobodys(uint8_t byte)
{
    return byte == 0xff;
}

// Fills the slots without a token with bytes that an earlier owner of the page might have left; a
// kernel cannot tell them from a token.
static void fill_with_stale(const struct grade_case *c)
{
    uint64_t state = secret_draw("stale %016llx", (unsigned long long)c->seed);

    for (size_t i = 0; i < c->image.bytes; ++i) {
        state = state * 6364136223846793005 + 1442695040888963407; // Knuth's generator
        uint8_t code = (uint8_t)(state >> 56) & 0xf7;              // never NaN
        uint8_t scale = (uint8_t)(112 + (state >> 60));
        uint8_t stale = i < c->image.code_bytes ? code : scale;
        bool before = is_nobodys(c->image.before[i]), then = is_nobodys(c->image.then[i]);
        if (before)
            c->image.before[i] = stale;
        if (then)
            c->image.then[i] = stale;
    }
}

// `rows` rows of HEAD_DIM values as halves; row() returns for each the index of its row in
// `values`.
static uint16_t *halves_of(const float *values, size_t rows,
                           size_t (*row)(const struct shape *, size_t), const struct shape *shape)
{
    uint16_t *halves = need(malloc(rows * HEAD_DIM * sizeof *halves));

    for (size_t i = 0; i < rows * HEAD_DIM; ++i)
        halves[i] = half_from_float(values[row(shape, i / HEAD_DIM) * HEAD_DIM + i % HEAD_DIM]);
    return halves;
}

static size_t own_row(const struct shape *shape, size_t row)
{
    (void)shape;
    return row;
}

static size_t newest_row(const struct shape *shape, size_t job)
{
    int last = shape_length(shape, (int)job / shape->heads) - 1;
    return job * (size_t)shape->seq_len + (size_t)last;
}

void case_lay_out(struct grade_case *c, const struct places *places, bool stale)
{
    const struct problem *p = &c->problem;
    const struct shape *shape = &c->shape;
    size_t jobs = (size_t)(shape->batch * shape->heads);
    int *lengths = malloc((size_t)shape->batch * sizeof *lengths);

    cache_image_destroy(&c->image); // frees the image of the launch before
    free(c->inputs);
    laid_out = places;
    if (!lengths || !cache_image_create(&c->image, p, code_place, scale_place))
        fail(EXIT_MACHINE, "out of memory for a cache");
    if (stale)
        fill_with_stale(c);
    for (int b = 0; b < shape->batch; ++b)
        lengths[b] = shape_length(shape, b);
    uint16_t *q = halves_of(p->q, shape_outputs(shape) / HEAD_DIM, own_row, shape);
    uint16_t *new_k = halves_of(p->k, jobs, newest_row, shape);
    uint16_t *new_v = halves_of(p->v, jobs, newest_row, shape);
    const void *parts[] = {q,
                           new_k,
                           new_v,
                           c->image.before,
                           c->image.before + c->image.code_bytes,
                           c->image.table,
                           lengths};
    c->inputs = joined_inputs(shape, parts);
    free(q);
    free(new_k);
    free(new_v);
    free(lengths);
}

// How many bytes of new tokens are missing, and how many other bytes have changed.
struct strayed {
    size_t missing, changed;
};

static struct strayed compare_cache(const struct grade_case *c, const char *answer)
{
    const uint8_t *now = (const uint8_t *)answer + 2 * shape_outputs(&c->shape);
    struct strayed s = {0};

    for (size_t i = 0; i < c->image.bytes; ++i)
        if (now[i] != c->image.then[i]) {
            bool is_new = c->image.then[i] != c->image.before[i];
            s.missing += is_new;
            s.changed += !is_new;
        }
    return s;
}

// ---- What is right ------------------------------------------------------------------------------

void case_free(struct grade_case *c)
{
    problem_destroy(&c->problem);
    cache_image_destroy(&c->image);
    free(c->ref);
    free(c->all_rows);
    free(c->inputs);
    *c = (struct grade_case){0};
}

static bool output_right(const struct grade_case *c, const uint16_t *out, double *error, char **why)
{
    struct error_metrics m = error_measure(&c->shape, c->rows, out, c->ref);

    *error = m.rel_head;
    if (gate_within(&m, c->limits)) {
        if (!c->all_rows)
            return true;
        m = error_measure(&c->shape, (struct rows){0, 1}, out, c->all_rows);
        *error = fmax(*error, m.rel_head);
        if (gate_within(&m, (struct error_limits){2 * c->limits.head, 2 * c->limits.row}))
            return true;
    }
    if (m.not_finite)
        *why = text("%zu elements are not finite, or were not written", m.not_finite);
    else
        *why = text("relative error %.1e in a head, %.1e in a row; at most %.*e and %.*e",
                    m.rel_head, m.rel_row, sheet.p.format ? 1 : 0, c->limits.head,
                    sheet.p.format ? 1 : 0, c->limits.row);
    return false;
}

bool case_right(const struct grade_case *c, const char *answer, double *error, char **why)
{
    if (!output_right(c, (const uint16_t *)answer, error, why))
        return false;
    struct strayed s = compare_cache(c, answer);
    if (s.missing)
        *why = text("the new token is not in its place in the cache%s",
                    s.changed ? ", and other bytes of it have changed" : "");
    else if (s.changed)
        *why = text("bytes of the cache have changed that are not the new token's");
    return !s.missing && !s.changed;
}

// Says what is wrong with the bytes of a cache, for an answer whose output is right.
static char *how_strayed(const struct grade_case *c, const char *answer)
{
    struct strayed s = compare_cache(c, answer);
    const struct shape *shape = &c->shape;

    return text(
        "%zu of %d bytes of new tokens are not in their places, %zu other bytes of the cache "
        "have changed",
        s.missing, shape->batch * shape->heads * 2 * (HEAD_DIM + 1), s.changed);
}

char *case_how_wrong(const struct grade_case *c, const char *answer)
{
    char *how = diagnose(&c->problem, c->rows, c->limits, (const uint16_t *)answer, c->ref);

    if (how)
        return how;
    return c->image.bytes > 0
               ? how_strayed(c, answer)
               : text("the rows that are compared one by one are right, others are not");
}
