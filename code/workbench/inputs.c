// inputs.c: shapes; problems, drawn and quantised.
//
// The bytes of a problem must be the same on every machine: outputs of a simulator here and of a
// GPU there are compared with each other. So no bit depends on a math library. Element i of a
// tensor is a function of (seed, tensor, i) alone: three 64-bit words of splitmix64 (Steele, Lea
// and Flood, 2014) are cut into twelve 16-bit uniforms, whose sum has variance 12/12 = 1. The sum
// is an integer of 20 bits, so that subtracting its mean and scaling by 2^-16 is exact in float. It
// is nearly normal: its fourth moment is 2.9 instead of 3, and nothing is beyond 6.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

static const struct shape named_shapes[] = {
#define SHAPE(text, b, h, s) {.name = #text, .batch = b, .heads = h, .seq_len = s},
#include "shapes.def"
#undef SHAPE
};

enum { MOST_SEED = 9999, MOST_QUERIES = 16, LEAST_PAGE = 16, MOST_PAGE = 256, MOST_NEWEST = 65535 };

// Reads `letter` and a number from 1 to `most`. Returns the number, or 0 if they are not there.
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

// Makes the name BxHxS{qGROUPpPAGE{sNEWEST}}{dDIM}{rSEED}, which shape_parse reads. False: it is
// too long.
static bool name_shape(struct shape *s)
{
    char name[64];
    int used = snprintf(name, sizeof name, "%dx%dx%d", s->batch, s->heads, s->seq_len);

    if (s->page)
        used += sprintf(name + used, "q%dp%d", s->group, s->page);
    if (s->newest)
        used += sprintf(name + used, "s%d", s->newest);
    if (s->head_dim)
        used += sprintf(name + used, "d%d", s->head_dim);
    if (s->ragged)
        used += sprintf(name + used, "r%d", s->ragged);
    if ((size_t)used >= sizeof s->name)
        return false;
    memcpy(s->name, name, (size_t)used + 1);
    return true;
}

// Writes one line to `why` that says what is wrong or what is allowed, and returns false.
static bool refuse(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *why, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

// Parses what may follow BxHxS. False: `why` has one line.
static bool parse_suffixes(const char *text, const char **at, struct shape *s, char *why,
                           size_t size)
{
    if (**at == 'q') {
        s->group = (uint8_t)parse_suffix(at, 'q', MOST_QUERIES);
        s->page = (uint16_t)parse_suffix(at, 'p', MOST_PAGE);
        if (s->group == 0 || !is_page(s->page))
            return refuse(why, size,
                          "\"%s\" is no cache: write BxHxSqQpP (2x8x512q4p16): 1 to %d queries, "
                          "pages of 16, 32, 64, 128 or 256",
                          text, MOST_QUERIES);
        if (**at == 's') {
            s->newest = (uint16_t)parse_suffix(at, 's', MOST_NEWEST);
            if (s->newest == 0 || s->newest > s->seq_len)
                return refuse(
                    why, size,
                    "\"%s\" is no prompt: write BxHxSqQpPsN (2x8x512q4p16s32): the 1 to S "
                    "newest tokens ask, at most %d",
                    text, MOST_NEWEST);
        }
    }
    if (**at == 'd') {
        s->head_dim = (uint8_t)parse_suffix(at, 'd', HEAD_DIM_MOST);
        if (s->head_dim != HEAD_DIM_MOST)
            return refuse(why, size,
                          "\"%s\": write d%d for heads of %d elements, and nothing for %d", text,
                          HEAD_DIM_MOST, HEAD_DIM_MOST, HEAD_DIM);
    }
    s->ragged = (uint16_t)parse_suffix(at, 'r', MOST_SEED);
    return true;
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
    while (parsed < 3 && *at >= '0' && *at <= '9') { // strtol would also accept a sign and spaces
        char *end;
        factors[parsed++] = strtol(at, &end, 10);
        at = *end == 'x' && parsed < 3 ? end + 1 : end;
    }
    struct shape s = {.seq_len = 0};
    if (parsed == 3) {
        s.seq_len = factors[2] < INT_MAX ? (int)factors[2] : INT_MAX;
        if (!parse_suffixes(text, &at, &s, why, size))
            return false;
    }
    if (parsed != 3 || *at != '\0')
        return refuse(why, size,
                      "\"%s\" is no shape: write BxHxS (2x8x512) or small, mission, long, huge",
                      text);
    for (int i = 0; i < 3; ++i)
        if (factors[i] == 0)
            return refuse(why, size, "\"%s\": %s must be at least 1", text, factor_names[i]);
    // Compared by division, since the product of three longs may overflow.
    int dim = shape_head_dim(&s);
    long limit = (1L << 31) / dim;
    if (factors[0] > limit || factors[1] > limit / factors[0] ||
        factors[2] > limit / factors[0] / factors[1])
        return refuse(why, size, "\"%s\" is too large: B*H*S*%d may be at most 2^31", text, dim);
    s.batch = (int)factors[0];
    s.heads = (int)factors[1];
    if (shape_outputs(&s) > (size_t)1 << 31)
        return refuse(why, size, "\"%s\" is too large: B*H*Q*N*%d may be at most 2^31", text, dim);
    if (!name_shape(&s))
        return refuse(why, size, "\"%s\" is too long: a shape's name has at most %zu characters",
                      text, sizeof s.name - 1);
    *shape = s;
    return true;
}

int shape_head_dim(const struct shape *shape)
{
    return shape->head_dim ? shape->head_dim : HEAD_DIM;
}

size_t shape_elements(const struct shape *shape)
{
    return (size_t)shape->batch * shape->heads * shape->seq_len * shape_head_dim(shape);
}

int shape_query_heads(const struct shape *shape)
{
    return shape->newest ? shape->heads * shape->group : shape->heads;
}

size_t shape_outputs(const struct shape *shape)
{
    return (size_t)shape->batch * shape_query_heads(shape) * shape_rows(shape) *
           shape_head_dim(shape);
}

double shape_flops(const struct shape *shape)
{
    return masked_flops(shape, MASK_NONE);
}

double masked_flops(const struct shape *shape, enum mask mask)
{
    double scores = 0; // scores of one head, over all sequences

    for (int b = 0; b < shape->batch; ++b) {
        double length = shape_length(shape, b), asked = shape_rows_asked(shape, b);
        double later = asked * (asked - 1) / 2; // pairs of a query and a key after its position
        scores += length * asked - (mask == MASK_CAUSAL ? later : 0);
    }
    return 4.0 * shape_query_heads(shape) * scores * shape_head_dim(shape);
}

double shape_cache_bytes(const struct shape *shape)
{
    double tokens = 0;

    for (int b = 0; b < shape->batch; ++b)
        tokens += shape_length(shape, b);
    return tokens * shape->heads * 2 * (shape_head_dim(shape) + 1);
}

const char *input_kind_name(enum input_kind kind)
{
    static const char *const names[INPUT_KINDS_ALL] = {"normal", "mean",    "peaky",  "sink",
                                                       "rising", "falling", "needle", "model"};
    return names[kind];
}

static uint64_t splitmix64(uint64_t state)
{
    uint64_t z = state + 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t drawn_length(const struct shape *shape, int batch)
{
    return splitmix64(splitmix64((uint64_t)shape->ragged) + (uint64_t)batch);
}

int shape_rows(const struct shape *shape)
{
    return shape->newest ? shape->newest : shape->page ? shape->group : shape->seq_len;
}

int shape_rows_asked(const struct shape *shape, int batch)
{
    if (!shape->newest)
        return shape->page ? shape->group : shape_length(shape, batch);
    if (!shape->ragged)
        return shape->newest;
    int length = shape_length(shape, batch);
    uint64_t most = (uint64_t)(shape->newest < length ? shape->newest : length);
    return 1 + (int)(splitmix64(drawn_length(shape, batch)) % most);
}

int shape_newest(const struct shape *shape, int batch)
{
    return shape->newest ? shape_rows_asked(shape, batch) : 1;
}

int shape_first_place(const struct shape *shape, int batch)
{
    return shape->newest ? shape_length(shape, batch) - shape_rows_asked(shape, batch) : 0;
}

int shape_length(const struct shape *shape, int batch)
{
    if (shape->ragged == 0)
        return shape->seq_len;
    return 1 + (int)(drawn_length(shape, batch) % (uint64_t)shape->seq_len);
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

// What a key's position adds to its scores, as an exponent of 2 (in units of ln 2).
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

// Sets the last channel so that each key's scores grow by score_of_place(): all queries get
// 1 / softmax_scale there, and each key gets what its scores are to grow by.
static void draw_places(const struct problem *problem, int tensor, size_t rows, float *out)
{
    const float query = 1 / problem->softmax_scale, ln2 = 0.69314718f; // query: 8 where D is 64
    size_t dim = (size_t)shape_head_dim(&problem->shape);

    for (size_t row = 0; row < rows; ++row) {
        int key = (int)(row % (size_t)problem->shape.seq_len);
        out[row * dim + dim - 1] = tensor == 0 ? query : score_of_place(problem, key) * ln2;
    }
}

// The stream of a tensor's numbers; tensor 0 is Q, 1 is K, 2 is V. Hashing twice gives unrelated
// numbers to neighbouring seeds, and to the three tensors.
static uint64_t stream_of(const struct problem *problem, int tensor)
{
    return splitmix64(splitmix64(problem->seed) + (uint64_t)tensor);
}

int needle_place(const struct problem *problem, size_t row)
{
    const struct shape *shape = &problem->shape;
    size_t rows = (size_t)shape_query_heads(shape) * (size_t)shape_rows(shape);
    int batch = (int)(row / rows);
    int keys = shape->newest ? shape_first_place(shape, batch) + 1 : shape_length(shape, batch);

    return (int)(splitmix64(~stream_of(problem, 0) + row) % (uint64_t)keys);
}

static void draw_needles(const struct problem *problem, float *q)
{
    const struct shape *shape = &problem->shape;
    uint64_t keys = stream_of(problem, 1);
    size_t dim = (size_t)shape_head_dim(shape), rows = shape_outputs(shape) / dim;
    // rows of Q for each head of K
    size_t shared = (size_t)(shape_rows(shape) * (shape_query_heads(shape) / shape->heads));

    for (size_t row = 0; row < rows; ++row) {
        size_t key = row / shared * (size_t)shape->seq_len + (size_t)needle_place(problem, row);
        for (size_t d = 0; d < dim; ++d)
            q[row * dim + d] = normal(keys, key * dim + d);
    }
}

const char *tensors_folder;

struct tensors { // the tensors of one layer of a model
    int heads, key_heads, tokens;
    long start; // where Q begins in the file, in bytes
};

// Opens the file of a layer, and sets *t from its first line. NULL: the file is missing or
// malformed, and `why` has one line.
static FILE *tensors_open(uint64_t layer, struct tensors *t, char *why, size_t size)
{
    char path[4096];
    int columns = 0;

    snprintf(path, sizeof path, "%s/%" PRIu64 ".half", tensors_folder, layer);
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    bool good =
        fscanf(file, "tensors %d %d %d %d", &t->heads, &t->key_heads, &t->tokens, &columns) == 4 &&
        fgetc(file) == '\n' && columns == HEAD_DIM && t->tokens > 0 && t->key_heads > 0 &&
        t->tokens <= 1 << 20 && t->heads <= 1 << 10 && t->heads >= t->key_heads &&
        t->heads % t->key_heads == 0;
    t->start = ftell(file);
    long bytes = (long)(t->heads + 2L * t->key_heads) * t->tokens * HEAD_DIM * 2;
    if (!good || fseek(file, 0, SEEK_END) != 0 || ftell(file) != t->start + bytes) {
        snprintf(why, size, "%s is no layer of a model, as build/ask --tensors writes it", path);
        fclose(file);
        return NULL;
    }
    return file;
}

bool tensors_fit(const struct shape *shape, uint64_t layer, char *why, size_t size)
{
    struct tensors t;
    FILE *file = tensors_open(layer, &t, why, size);

    if (!file)
        return false;
    fclose(file);
    if (shape->batch == 1 && shape->heads == t.heads && shape->seq_len <= t.tokens &&
        !shape->page && !shape->ragged)
        return true;
    snprintf(why, size, "layer %" PRIu64 " has %d heads and %d tokens: write 1x%dxS, S at most %d",
             layer, t.heads, t.tokens, t.heads, t.tokens);
    return false;
}

static bool read_tensors(const struct problem *problem, int tensor, float *out)
{
    char why[1];
    struct tensors t;
    FILE *file = tensors_open(problem->seed, &t, why, sizeof why);
    size_t elements = (size_t)problem->shape.seq_len * HEAD_DIM;
    uint16_t *halves = malloc(elements * sizeof *halves);
    bool good = file && halves;

    for (int h = 0; good && h < problem->shape.heads; ++h) {
        long head = tensor == 0 ? h : h / (t.heads / t.key_heads);
        head += tensor == 0 ? 0 : t.heads + (tensor - 1L) * t.key_heads;
        good = fseek(file, t.start + head * t.tokens * HEAD_DIM * 2, SEEK_SET) == 0 &&
               fread(halves, sizeof *halves, elements, file) == elements;
        for (size_t i = 0; good && i < elements; ++i)
            out[(size_t)h * elements + i] = half_to_float(halves[i]);
    }
    free(halves);
    if (file)
        fclose(file);
    return good;
}

static bool draw(const struct problem *problem, int tensor, float *out)
{
    if (problem->kind == INPUT_MODEL)
        return read_tensors(problem, tensor, out);
    if (problem->kind == INPUT_NEEDLE && tensor == 0) {
        draw_needles(problem, out);
        return true;
    }
    uint64_t stream = stream_of(problem, tensor);
    size_t elements =
        tensor == 0 ? shape_outputs(&problem->shape) : shape_elements(&problem->shape);
    float scale = problem->kind == INPUT_PEAKY && tensor == 0 ? 8.0f : 1.0f;
    size_t dim = (size_t)shape_head_dim(&problem->shape);
    float mean[HEAD_DIM_MOST] = {0};

    if (problem->kind == INPUT_MEAN || (problem->kind == INPUT_NEEDLE && tensor == 2))
        for (size_t d = 0; d < dim; ++d)
            mean[d] = normal(~stream, d);
    for (size_t i = 0; i < elements; ++i)
        out[i] = normal(stream, i) * scale + mean[i % dim];
    if (problem->kind >= INPUT_SINK && problem->kind < INPUT_KINDS_DRAWN && tensor < 2)
        draw_places(problem, tensor, elements / dim, out);
    return true;
}

// One scale for each head, the same in all batches: with it, the head's largest magnitude has the
// largest code.
static void quantise(const struct shape *shape, const float *values, uint8_t *codes, float *scales)
{
    size_t head_elements = (size_t)shape->seq_len * shape_head_dim(shape);

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

// One scale for each token: the smallest power of two with which its largest magnitude has a code.
static void quantise_tokens(size_t tokens, size_t dim, const float *values, uint8_t *codes,
                            float *scales)
{
    for (size_t token = 0; token < tokens; ++token) {
        const float *x = values + token * dim;
        float largest = 0;
        for (size_t d = 0; d < dim; ++d)
            largest = fmaxf(largest, fabsf(x[d]));
        scales[token] = e8m0_to_float(e8m0_for(largest));
        float inverse = 1 / scales[token]; // exact, since the scale is a power of two
        for (size_t d = 0; d < dim; ++d)
            codes[token * dim + d] = e4m3_from_float(x[d] * inverse);
    }
}

// Rounds a cache's tokens to half: kernels get and quantise halves.
static void round_to_half(size_t elements, float *values)
{
    for (size_t i = 0; i < elements; ++i)
        values[i] = half_to_float(half_from_float(values[i]));
}

static void vary_sizes(const struct problem *problem, size_t tokens, float *values)
{
    uint64_t stream = splitmix64(problem->seed + 3);
    size_t dim = (size_t)shape_head_dim(&problem->shape);

    for (size_t token = 0; token < tokens; ++token) {
        float size = ldexpf(1, (int)(splitmix64(stream + token) % 13) - 6);
        for (size_t d = 0; d < dim; ++d)
            values[token * dim + d] *= size;
    }
}

// Quantises the queries of a prompt to E4M3, with one scale for each row, as for a token.
static bool quantise_queries(struct problem *problem)
{
    size_t elements = shape_outputs(&problem->shape);
    size_t dim = (size_t)shape_head_dim(&problem->shape), rows = elements / dim;

    problem->q_codes = malloc(elements);
    problem->q_scales = malloc(rows * sizeof(float));
    if (!problem->q_codes || !problem->q_scales)
        return false;
    quantise_tokens(rows, dim, problem->q, problem->q_codes, problem->q_scales);
    return true;
}

static bool create_cache(struct problem *problem)
{
    size_t elements = shape_elements(&problem->shape);
    size_t dim = (size_t)shape_head_dim(&problem->shape), tokens = elements / dim;
    float **values[] = {&problem->k, &problem->v};
    uint8_t **codes[] = {&problem->k_codes, &problem->v_codes};
    float **scales[] = {&problem->k_scales, &problem->v_scales};

    problem->q = malloc(shape_outputs(&problem->shape) * sizeof(float));
    if (!problem->q)
        return false;
    draw(problem, 0, problem->q);
    if (problem->shape.newest && !quantise_queries(problem))
        return false;
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
        quantise_tokens(tokens, dim, *values[t], *codes[t], *scales[t]);
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
    problem->softmax_scale = shape_softmax_scale(shape);
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
        if (!*values[t] || !*codes[t] || !*scales[t] || !draw(problem, t, *values[t])) {
            problem_destroy(problem);
            return false;
        }
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
