// needle.c: counts the queries that find the key that they copy, in inputs of kind INPUT_NEEDLE.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

// The values of one head and sequence, as the kernel gets them, less their mean.
struct hay {
    int length, dim;
    double mean[HEAD_DIM_MOST];
    float *columns; // [dim][length]
    float *norms;   // [length]
    float *dots;    // [length]: dot products with an output
};

static bool hay_create(struct hay *hay, const struct shape *shape)
{
    size_t length = (size_t)shape->seq_len;

    hay->dim = shape_head_dim(shape);
    hay->columns = malloc((size_t)(hay->dim + 2) * length * sizeof(float));
    if (!hay->columns)
        return false;
    hay->norms = hay->columns + (size_t)hay->dim * length;
    hay->dots = hay->norms + length;
    return true;
}

static void gather(struct hay *hay, const struct problem *problem, int batch, int head)
{
    const struct shape *shape = &problem->shape;
    size_t pair = (size_t)batch * shape->heads + head, dim = (size_t)hay->dim;

    hay->length = shape_length(shape, batch);
    for (size_t j = 0; j < (size_t)hay->length; ++j) {
        size_t row = pair * shape->seq_len + j;
        float scale = problem->v_scales[shape->page ? row : (size_t)head];
        for (size_t d = 0; d < dim; ++d)
            hay->columns[d * hay->length + j] =
                e4m3_to_float(problem->v_codes[row * dim + d]) * scale;
    }
}

static void subtract_mean(struct hay *hay)
{
    memset(hay->norms, 0, (size_t)hay->length * sizeof *hay->norms);
    for (int d = 0; d < hay->dim; ++d) {
        float *column = hay->columns + (size_t)d * hay->length;
        double sum = 0;
        for (int j = 0; j < hay->length; ++j)
            sum += column[j];
        hay->mean[d] = sum / hay->length;
        for (int j = 0; j < hay->length; ++j) {
            column[j] -= (float)hay->mean[d];
            hay->norms[j] += column[j] * column[j];
        }
    }
    for (int j = 0; j < hay->length; ++j)
        hay->norms[j] = sqrtf(hay->norms[j]);
}

// The key whose value makes the smallest angle with the output.
static int nearest(struct hay *hay, const float *out)
{
    int best = 0;

    memset(hay->dots, 0, (size_t)hay->length * sizeof *hay->dots);
    for (int d = 0; d < hay->dim; ++d) {
        const float *column = hay->columns + (size_t)d * hay->length;
        float x = (float)(out[d] - hay->mean[d]);
        for (int j = 0; j < hay->length; ++j)
            hay->dots[j] += x * column[j];
    }
    for (int j = 1; j < hay->length; ++j)
        if (hay->dots[j] * hay->norms[best] > hay->dots[best] * hay->norms[j])
            best = j;
    return best;
}

bool needles_find(const struct problem *problem, struct rows rows, const float *out,
                  struct needles *needles)
{
    const struct shape *shape = &problem->shape;
    int query_heads = shape_query_heads(shape), shared = query_heads / shape->heads;
    struct hay hay = {.length = 0};

    *needles = (struct needles){.of = 0};
    if (!hay_create(&hay, shape))
        return false;
    for (int job = 0; job < shape->batch * query_heads; ++job) {
        int batch = job / query_heads, asked = shape_rows_asked(shape, batch);
        if (job % shared == 0) { // the next head of K and V
            gather(&hay, problem, batch, job % query_heads / shared);
            subtract_mean(&hay);
        }
        for (int row = rows.first; row < asked; row = rows_next(rows, asked, row)) {
            size_t at = (size_t)job * shape_rows(shape) + (size_t)row;
            int place = needle_place(problem, at);
            needles->found += nearest(&hay, out + at * (size_t)hay.dim) == place;
            needles->share += hay.dots[place] / (hay.norms[place] * hay.norms[place]);
            ++needles->of;
        }
    }
    needles->share /= needles->of;
    free(hay.columns);
    return true;
}
