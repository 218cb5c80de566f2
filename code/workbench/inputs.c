// inputs.c: shapes, and problems drawn and quantised.
//
// The bytes of a problem must be the same on every machine: outputs of a simulator here and of a
// GPU there are compared with each other. So no bit depends on a math library. Element i of a
// tensor is a function of (seed, tensor, i) alone: three 64-bit words of splitmix64 (Steele, Lea
// and Flood, 2014) are cut into twelve 16-bit uniforms, whose sum has variance 12/12 = 1. The sum
// is an integer of 20 bits, so that subtracting its mean and scaling by 2^-16 is exact in float. It
// is nearly normal: its fourth moment is 2.9 instead of 3, and nothing is beyond 6.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

static const struct shape named_shapes[] = {
#define SHAPE(text, b, h, s) {.name = #text, .batch = b, .heads = h, .seq_len = s},
#include "shapes.def"
#undef SHAPE
};

enum { MOST_SEED = 9999, MOST_QUERIES = 16, LEAST_PAGE = 16, MOST_PAGE = 256 };

// Reads a letter and a number from 1 up, at most `most`; 0 if there is no such thing.
static int parse_suffix(const char **at, char letter, long most)
{
    char *end;

    if (**at != letter || (*at)[1] < '1' || (*at)[1] > '9')
        return 0;
    long value = strtol(*at + 1, &end, 10);
    if (value > most)
        return 0;
    *at = end;
    return (int)value;
}

static bool is_page(int page)
{
    return page >= LEAST_PAGE && (page & (page - 1)) == 0;
}

// BxHxS{qGROUPpPAGE}{rSEED}, as shape_parse reads it.
static void name_shape(struct shape *s)
{
    char cache[16] = "", ragged[8] = "";

    if (s->page)
        snprintf(cache, sizeof cache, "q%dp%d", s->group, s->page);
    if (s->ragged)
        snprintf(ragged, sizeof ragged, "r%d", s->ragged);
    snprintf(s->name, sizeof s->name, "%dx%dx%d%s%s", s->batch, s->heads, s->seq_len, cache,
             ragged);
}

bool shape_parse(const char *text, struct shape *shape, char *why, size_t size)
{
    static const char *const factor_names[] = {"the batch", "the number of heads", "S"};
    long factors[3];
    const char *at = text;
    int parsed = 0;

    for (size_t i = 0; i < sizeof named_shapes / sizeof *named_shapes; ++i) {
        if (strcmp(text, named_shapes[i].name) == 0) {
            *shape = named_shapes[i];
            return true;
        }
    }
    while (parsed < 3 && *at >= '0' && *at <= '9') { // strtol alone would take a sign and spaces
        char *end;
        factors[parsed++] = strtol(at, &end, 10);
        at = *end == 'x' && parsed < 3 ? end + 1 : end;
    }
    bool cache = parsed == 3 && *at == 'q';
    int queries = cache ? parse_suffix(&at, 'q', MOST_QUERIES) : 0;
    int page = cache ? parse_suffix(&at, 'p', MOST_PAGE) : 0;
    if (cache && (queries == 0 || !is_page(page))) {
        snprintf(
            why, size,
            "\"%s\" is no cache: write BxHxSqQpP (2x8x512q4p16): 1 to %d queries, pages of 16, "
            "32, 64, 128 or 256",
            text, MOST_QUERIES);
        return false;
    }
    int ragged = parsed == 3 ? parse_suffix(&at, 'r', MOST_SEED) : 0;
    if (parsed != 3 || *at != '\0') {
        snprintf(why, size,
                 "\"%s\" is no shape: write BxHxS (2x8x512) or small, mission, long, huge", text);
        return false;
    }
    for (int i = 0; i < 3; ++i) {
        if (factors[i] == 0) {
            snprintf(why, size, "\"%s\": %s must be at least 1", text, factor_names[i]);
            return false;
        }
    }
    // Compared by division: the product of three longs may not fit.
    long limit = (1L << 31) / HEAD_DIM;
    if (factors[0] > limit || factors[1] > limit / factors[0] ||
        factors[2] > limit / factors[0] / factors[1]) {
        snprintf(why, size, "\"%s\" is too large: B*H*S*%d may be at most 2^31", text, HEAD_DIM);
        return false;
    }
    *shape = (struct shape){.batch = (int)factors[0],
                            .heads = (int)factors[1],
                            .seq_len = (int)factors[2],
                            .ragged = (uint16_t)ragged,
                            .group = (uint16_t)queries,
                            .page = (uint16_t)page};
    name_shape(shape);
    return true;
}

size_t shape_elements(const struct shape *shape)
{
    return (size_t)shape->batch * shape->heads * shape->seq_len * HEAD_DIM;
}

size_t shape_outputs(const struct shape *shape)
{
    return (size_t)shape->batch * shape->heads * shape_rows(shape) * HEAD_DIM;
}

double shape_flops(const struct shape *shape)
{
    return masked_flops(shape, MASK_NONE);
}

double masked_flops(const struct shape *shape, enum mask mask)
{
    double scores = 0; // of a head, in all sequences

    for (int b = 0; b < shape->batch; ++b) {
        double length = shape_length(shape, b);
        scores +=
            mask == MASK_CAUSAL ? length * (length + 1) / 2 : length * shape_rows_asked(shape, b);
    }
    return 4.0 * shape->heads * scores * HEAD_DIM;
}

double shape_cache_bytes(const struct shape *shape)
{
    double tokens = 0;

    for (int b = 0; b < shape->batch; ++b)
        tokens += shape_length(shape, b);
    return tokens * shape->heads * 2 * (HEAD_DIM + 1);
}

const char *input_kind_name(enum input_kind kind)
{
    static const char *const names[INPUT_KINDS_ALL] = {"normal", "mean",   "peaky",
                                                       "sink",   "rising", "falling"};
    return names[kind];
}

static uint64_t splitmix64(uint64_t state)
{
    uint64_t z = state + 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int shape_rows(const struct shape *shape)
{
    return shape->page ? shape->group : shape->seq_len;
}

int shape_rows_asked(const struct shape *shape, int batch)
{
    return shape->page ? shape->group : shape_length(shape, batch);
}

int shape_length(const struct shape *shape, int batch)
{
    if (shape->ragged == 0)
        return shape->seq_len;
    uint64_t drawn = splitmix64(splitmix64((uint64_t)shape->ragged) + (uint64_t)batch);
    return 1 + (int)(drawn % (uint64_t)shape->seq_len);
}

static float normal(uint64_t stream, uint64_t index)
{
    int32_t sum = 0;
    for (int i = 0; i < 3; ++i) {
        uint64_t word = splitmix64(stream + (3 * index + i) * 0x9e3779b97f4a7c15);
        sum += (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) +
                         (word >> 48));
    }
    return (float)(sum - 6 * 65535) * 0x1p-16f; // twelve uniforms of mean 65535/2
}

// What a key's place adds to its scores, in powers of two.
static float score_of_place(const struct problem *problem, int key)
{
    int last = problem->shape.seq_len - 1;
    float along = last > 0 ? (float)key / (float)last : 0;

    switch (problem->kind) {
    case INPUT_SINK: return key == 0 ? 12 : 0;
    case INPUT_RISING: return 40 * along;
    case INPUT_FALLING: return 40 * (1 - along);
    default: return 0;
    }
}

// Sets the last channel: one number in all queries, and in each key the number whose product with it is the
// score of the key's place.
static void draw_places(const struct problem *problem, int tensor, size_t rows, float *out)
{
    const float query = 8, ln2 = 0.69314718f; // times softmax_scale: 1

    for (size_t row = 0; row < rows; ++row) {
        int key = (int)(row % (size_t)problem->shape.seq_len);
        out[row * HEAD_DIM + HEAD_DIM - 1] =
            tensor == 0 ? query : score_of_place(problem, key) * ln2;
    }
}

static void draw(const struct problem *problem, int tensor, float *out)
{
    // Hashing twice keeps neighbouring seeds and the three tensors apart.
    uint64_t stream = splitmix64(splitmix64(problem->seed) + tensor);
    size_t elements =
        tensor == 0 ? shape_outputs(&problem->shape) : shape_elements(&problem->shape);
    float scale = problem->kind == INPUT_PEAKY && tensor == 0 ? 8.0f : 1.0f;
    float mean[HEAD_DIM] = {0};

    if (problem->kind == INPUT_MEAN)
        for (int d = 0; d < HEAD_DIM; ++d)
            mean[d] = normal(~stream, d);
    for (size_t i = 0; i < elements; ++i)
        out[i] = normal(stream, i) * scale + mean[i % HEAD_DIM];
    if (problem->kind >= INPUT_SINK && tensor < 2)
        draw_places(problem, tensor, elements / HEAD_DIM, out);
}

// One scale a head, over all batches: its largest magnitude becomes the largest code.
static void quantise(const struct shape *shape, const float *values, uint8_t *codes, float *scales)
{
    size_t head_elements = (size_t)shape->seq_len * HEAD_DIM;

    for (int h = 0; h < shape->heads; ++h) {
        float largest = 0;
        for (int b = 0; b < shape->batch; ++b) {
            const float *head = values + ((size_t)b * shape->heads + h) * head_elements;
            for (size_t i = 0; i < head_elements; ++i)
                largest = fmaxf(largest, fabsf(head[i]));
        }
        scales[h] = largest > 0 ? largest / E4M3_MAX : 1.0f;
        for (int b = 0; b < shape->batch; ++b) {
            size_t first = ((size_t)b * shape->heads + h) * head_elements;
            for (size_t i = first; i < first + head_elements; ++i)
                codes[i] = e4m3_from_float(values[i] / scales[h]);
        }
    }
}

// A power of two for each token: the smallest by which its largest magnitude becomes a code.
static void quantise_tokens(size_t tokens, const float *values, uint8_t *codes, float *scales)
{
    for (size_t token = 0; token < tokens; ++token) {
        const float *x = values + token * HEAD_DIM;
        float largest = 0;
        for (int d = 0; d < HEAD_DIM; ++d)
            largest = fmaxf(largest, fabsf(x[d]));
        scales[token] = e8m0_to_float(e8m0_for(largest));
        float inverse = 1 / scales[token]; // exact
        for (int d = 0; d < HEAD_DIM; ++d)
            codes[token * HEAD_DIM + d] = e4m3_from_float(x[d] * inverse);
    }
}

// What a cache gets are halves: that is what is quantised.
static void round_to_half(size_t elements, float *values)
{
    for (size_t i = 0; i < elements; ++i)
        values[i] = half_to_float(half_from_float(values[i]));
}

static void vary_sizes(const struct problem *problem, size_t tokens, float *values)
{
    uint64_t stream = splitmix64(problem->seed + 3);

    for (size_t token = 0; token < tokens; ++token) {
        float size = ldexpf(1, (int)(splitmix64(stream + token) % 13) - 6);
        for (int d = 0; d < HEAD_DIM; ++d)
            values[token * HEAD_DIM + d] *= size;
    }
}

static bool create_cache(struct problem *problem)
{
    size_t elements = shape_elements(&problem->shape), tokens = elements / HEAD_DIM;
    float **values[] = {&problem->k, &problem->v};
    uint8_t **codes[] = {&problem->k_codes, &problem->v_codes};
    float **scales[] = {&problem->k_scales, &problem->v_scales};

    problem->q = malloc(shape_outputs(&problem->shape) * sizeof(float));
    if (!problem->q)
        return false;
    draw(problem, 0, problem->q);
    for (int t = 0; t < 2; ++t) {
        *values[t] = malloc(elements * sizeof(float));
        *codes[t] = malloc(elements);
        *scales[t] = malloc(tokens * sizeof(float));
        if (!*values[t] || !*codes[t] || !*scales[t])
            return false;
        draw(problem, t + 1, *values[t]);
        if (t == CACHE_V && problem->kind == INPUT_PEAKY)
            vary_sizes(problem, tokens, *values[t]);
        round_to_half(elements, *values[t]);
        quantise_tokens(tokens, *values[t], *codes[t], *scales[t]);
    }
    return true;
}

bool problem_create(struct problem *problem, const struct shape *shape, enum input_kind kind,
                    uint64_t seed)
{
    size_t elements = shape_elements(shape);
    float **values[] = {&problem->q, &problem->k, &problem->v};
    uint8_t **codes[] = {&problem->q_codes, &problem->k_codes, &problem->v_codes};
    float **scales[] = {&problem->q_scales, &problem->k_scales, &problem->v_scales};

    memset(problem, 0, sizeof *problem);
    problem->shape = *shape;
    problem->kind = kind;
    problem->seed = seed;
    problem->softmax_scale = 0.125f; // 1 / sqrt(64)
    if (shape->page) {
        bool created = create_cache(problem);
        if (!created)
            problem_destroy(problem);
        return created;
    }
    for (int t = 0; t < 3; ++t) {
        *values[t] = malloc(elements * sizeof(float));
        *codes[t] = malloc(elements);
        *scales[t] = malloc(shape->heads * sizeof(float));
        if (!*values[t] || !*codes[t] || !*scales[t]) {
            problem_destroy(problem);
            return false;
        }
        draw(problem, t, *values[t]);
        quantise(shape, *values[t], *codes[t], *scales[t]);
    }
    return true;
}

void problem_destroy(struct problem *problem)
{
    free(problem->q);
    free(problem->k);
    free(problem->v);
    free(problem->q_codes);
    free(problem->k_codes);
    free(problem->v_codes);
    free(problem->q_scales);
    free(problem->k_scales);
    free(problem->v_scales);
    memset(problem, 0, sizeof *problem);
}
