// reference.c: the model in double precision, with the weights as the file has them. The GPU's results are compared
// with those of this code.
#include "model.h"

#include "host/host.h"
#include "workbench/workbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference {
    const struct model *model;
    enum kept kept;
    int room, length;      // how many tokens fit, and how many there are
    double *keys, *values; // [layers][room][key_heads * 64], keys after RoPE
    double *queries;       // [layers][room][width]; NULL: queries are not kept
};

struct reference *reference_open(const struct model *m, int room, enum kept kept)
{
    struct reference *r = need(calloc(1, sizeof *r));
    const size_t count = (size_t)m->layers * (size_t)room * (size_t)m->key_heads * HEAD_COLUMNS;
    r->model = m;
    r->room = room;
    r->kept = kept;
    r->keys = need(malloc(count * sizeof *r->keys));
    r->values = need(malloc(count * sizeof *r->values));
    return r;
}

void reference_close(struct reference *r)
{
    free(r->keys);
    free(r->values);
    free(r->queries);
    free(r);
}

void reference_keep_queries(struct reference *r)
{
    const struct model *m = r->model;
    r->queries =
        need(malloc((size_t)m->layers * (size_t)r->room * (size_t)m->width * sizeof *r->queries));
}

const double *reference_head(const struct reference *r, int layer, enum of_head of, int head,
                             int *stride)
{
    const double *all = of == OF_QUERIES ? r->queries : of == OF_KEYS ? r->keys : r->values;
    *stride = of == OF_QUERIES ? r->model->width : r->model->key_heads * HEAD_COLUMNS;
    return all + (size_t)layer * (size_t)r->room * (size_t)*stride + head * HEAD_COLUMNS;
}

void reference_cut(struct reference *r, int length)
{
    r->length = length;
}

static double *vectors(int count, int columns)
{
    return need(malloc((size_t)count * (size_t)columns * sizeof(double)));
}

// The inner product, in eight partial sums, so that the compiler can use vector registers.
static double dot(const float *weights, const double *x, int columns)
{
    enum { SUMS = 8 };
    double sums[SUMS] = {0}, all = 0;
    for (int c = 0; c < columns; c += SUMS)
        for (int i = 0; i < SUMS; ++i)
            sums[i] += (double)weights[c + i] * x[c + i];
    for (int i = 0; i < SUMS; ++i)
        all += sums[i];
    return all;
}

// y[count][rows] = x[count][columns] times the transposed weights, which are [rows][columns].
static void product(const struct tensor *weights, const double *x, int count, double *y)
{
    float *row = need(malloc((size_t)weights->columns * sizeof *row));
    for (int r = 0; r < weights->rows; ++r) {
        tensor_row(weights, r, row);
        for (int i = 0; i < count; ++i)
            y[(size_t)i * (size_t)weights->rows + (size_t)r] =
                dot(row, x + (size_t)i * (size_t)weights->columns, weights->columns);
    }
    free(row);
}

// RMSNorm (Zhang and Sennrich 2019): divides each vector by the root of its mean square, and multiplies each column by
// its weight.
static void norm(const struct model *m, const struct tensor *weights, const double *x, int count,
                 double *to)
{
    float *weight = need(malloc((size_t)m->width * sizeof *weight));
    tensor_row(weights, 0, weight);
    for (int i = 0; i < count; ++i, x += m->width, to += m->width) {
        double squares = 0;
        for (int c = 0; c < m->width; ++c)
            squares += x[c] * x[c];
        const double factor = 1 / sqrt(squares / m->width + m->epsilon);
        for (int c = 0; c < m->width; ++c)
            to[c] = x[c] * factor * weight[c];
    }
    free(weight);
}

// RoPE (Su et al. 2021): rotates columns 2i and 2i + 1 of a head by the angle place * base^(-2i / 64).
static void turn(const struct model *m, double *head, int place)
{
    for (int i = 0; i < HEAD_COLUMNS; i += 2) {
        const double angle = place * pow(m->rope_base, -(double)i / HEAD_COLUMNS);
        const double a = head[i], b = head[i + 1];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

// Rounds a head of a key or a value as chapter 21's cache does: to halves, then to E4M3 with a power of two as scale.
static void round_kept(double *head)
{
    float halves[HEAD_COLUMNS], largest = 0;
    for (int d = 0; d < HEAD_COLUMNS; ++d) {
        halves[d] = half_to_float(half_from_float((float)head[d]));
        largest = fmaxf(largest, fabsf(halves[d]));
    }
    const float scale = e8m0_to_float(e8m0_for(largest));
    for (int d = 0; d < HEAD_COLUMNS; ++d)
        head[d] = (double)scale * e4m3_to_float(e4m3_from_float(halves[d] / scale));
}

// Attention of one query head of one token over the keys and values of `length` tokens, which are `stride` doubles
// apart.
static void attend(const double *query, const double *keys, const double *values, int stride,
                   int length, double *scores, double *to)
{
    double most = -INFINITY, sum = 0;
    for (int t = 0; t < length; ++t) {
        scores[t] = 0;
        for (int d = 0; d < HEAD_COLUMNS; ++d)
            scores[t] += query[d] * keys[(size_t)t * (size_t)stride + (size_t)d];
        scores[t] /= sqrt(HEAD_COLUMNS);
        most = fmax(most, scores[t]);
    }
    memset(to, 0, HEAD_COLUMNS * sizeof *to);
    for (int t = 0; t < length; ++t) {
        const double p = exp(scores[t] - most);
        sum += p;
        for (int d = 0; d < HEAD_COLUMNS; ++d)
            to[d] += p * values[(size_t)t * (size_t)stride + (size_t)d];
    }
    for (int d = 0; d < HEAD_COLUMNS; ++d)
        to[d] /= sum;
}

// Adds the attention of layer `number` to the vectors x[count][width], and puts the vectors' keys and values into the
// cache.
static void add_attention(struct reference *r, int number, double *x, int count)
{
    const struct model *m = r->model;
    const struct layer *layer = &m->layer[number];
    const int keys = m->key_heads * HEAD_COLUMNS, group = m->heads / m->key_heads;
    const size_t start = (size_t)number * (size_t)r->room * (size_t)keys;
    double *layer_keys = r->keys + start, *layer_values = r->values + start;
    double *new_keys = layer_keys + (size_t)r->length * (size_t)keys;
    double *new_values = layer_values + (size_t)r->length * (size_t)keys;
    double *in = vectors(count, m->width), *queries = vectors(count, m->width),
           *out = vectors(count, m->width), *scores = vectors(1, r->room);

    norm(m, &layer->attention_norm, x, count, in);
    product(&layer->query, in, count, queries);
    product(&layer->key, in, count, new_keys);
    product(&layer->value, in, count, new_values);
    for (int i = 0; i < count; ++i)
        for (int h = 0; h < m->key_heads; ++h) {
            double *key = new_keys + i * keys + h * HEAD_COLUMNS;
            turn(m, key, r->length + i);
            if (r->kept == KEPT_E4M3) {
                round_kept(key);
                round_kept(new_values + i * keys + h * HEAD_COLUMNS);
            }
        }
    for (int i = 0; i < count; ++i)
        for (int h = 0; h < m->heads; ++h) {
            double *query = queries + i * m->width + h * HEAD_COLUMNS;
            const int of = h / group * HEAD_COLUMNS;
            turn(m, query, r->length + i);
            attend(query, layer_keys + of, layer_values + of, keys, r->length + i + 1, scores,
                   out + i * m->width + h * HEAD_COLUMNS);
        }
    product(&layer->output, out, count, in);
    for (int i = 0; i < count * m->width; ++i)
        x[i] += in[i];
    if (r->queries)
        memcpy(r->queries +
                   ((size_t)number * (size_t)r->room + (size_t)r->length) * (size_t)m->width,
               queries, (size_t)count * (size_t)m->width * sizeof *queries);
    free(in);
    free(queries);
    free(out);
    free(scores);
}

// Adds the feed-forward network, SwiGLU (Shazeer 2020): down(silu(gate) * up).
static void add_mlp(const struct model *m, const struct layer *layer, double *x, int count)
{
    double *in = vectors(count, m->width), *gate = vectors(count, m->inner),
           *up = vectors(count, m->inner);
    norm(m, &layer->mlp_norm, x, count, in);
    product(&layer->gate, in, count, gate);
    product(&layer->up, in, count, up);
    for (int i = 0; i < count * m->inner; ++i)
        gate[i] *= up[i] / (1 + exp(-gate[i]));
    product(&layer->down, gate, count, in);
    for (int i = 0; i < count * m->width; ++i)
        x[i] += in[i];
    free(in);
    free(gate);
    free(up);
}

void reference_run(struct reference *r, const int *tokens, int count, int from, double *logits)
{
    const struct model *m = r->model;
    double *x = vectors(count, m->width);
    float *row = need(malloc((size_t)m->width * sizeof *row));

    for (int i = 0; i < count; ++i) {
        tensor_row(&m->embedding, tokens[i], row);
        for (int c = 0; c < m->width; ++c)
            x[i * m->width + c] = row[c];
    }
    for (int l = 0; l < m->layers; ++l) {
        add_attention(r, l, x, count);
        add_mlp(m, &m->layer[l], x, count);
    }
    r->length += count;
    if (from < count) {
        norm(m, &m->output_norm, x + from * m->width, count - from, x);
        product(&m->embedding, x, count - from, logits);
    }
    free(x);
    free(row);
}

int likeliest(const double *logits, int words)
{
    int best = 0;
    for (int i = 1; i < words; ++i)
        if (logits[i] > logits[best])
            best = i;
    return best;
}
