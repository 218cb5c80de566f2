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
    {"small", 1, 8, 128},
    {"mission", 2, 8, 512},
    {"long", 2, 8, 2048},
    {"huge", 4, 16, 8192},
};

enum { MOST_SEED = 9999 }; // of lengths

bool shape_parse(const char *text, struct shape *shape, char *why, size_t size)
{
    static const char *const factor_names[] = {"the batch", "the number of heads", "S"};
    long factors[3];
    const char *at = text;
    int parsed = 0;
    long ragged = 0;

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
    if (parsed == 3 && *at == 'r' && at[1] >= '1' && at[1] <= '9') {
        char *end;
        ragged = strtol(at + 1, &end, 10);
        at = ragged <= MOST_SEED ? end : at;
    }
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
    shape->batch = (int)factors[0];
    shape->heads = (int)factors[1];
    shape->seq_len = (int)factors[2];
    int length = snprintf(shape->name, sizeof shape->name, "%dx%dx%d", shape->batch, shape->heads,
                          shape->seq_len);
    if (ragged > 0)
        snprintf(shape->name + length, sizeof shape->name - (size_t)length, "r%d", (int)ragged);
    return true;
}

size_t shape_elements(const struct shape *shape)
{
    return (size_t)shape->batch * shape->heads * shape->seq_len * HEAD_DIM;
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
        scores += mask == MASK_CAUSAL ? length * (length + 1) / 2 : length * length;
    }
    return 4.0 * shape->heads * scores * HEAD_DIM;
}

const char *input_kind_name(enum input_kind kind)
{
    static const char *const names[INPUT_KINDS] = {"normal", "mean", "peaky"};
    return names[kind];
}

static uint64_t splitmix64(uint64_t state)
{
    uint64_t z = state + 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int shape_ragged(const struct shape *shape)
{
    const char *seed = strchr(shape->name, 'r'); // no other name has that letter

    return seed ? atoi(seed + 1) : 0;
}

int shape_length(const struct shape *shape, int batch)
{
    int seed = shape_ragged(shape);

    if (seed == 0)
        return shape->seq_len;
    uint64_t drawn = splitmix64(splitmix64((uint64_t)seed) + (uint64_t)batch);
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

static void draw(const struct problem *problem, int tensor, float *out)
{
    // Hashing twice keeps neighbouring seeds and the three tensors apart.
    uint64_t stream = splitmix64(splitmix64(problem->seed) + tensor);
    size_t elements = shape_elements(&problem->shape);
    float scale = problem->kind == INPUT_PEAKY && tensor == 0 ? 8.0f : 1.0f;
    float mean[HEAD_DIM] = {0};

    if (problem->kind == INPUT_MEAN)
        for (int d = 0; d < HEAD_DIM; ++d)
            mean[d] = normal(~stream, d);
    for (size_t i = 0; i < elements; ++i)
        out[i] = normal(stream, i) * scale + mean[i % HEAD_DIM];
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
