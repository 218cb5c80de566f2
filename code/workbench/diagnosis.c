// diagnosis.c: what is wrong with an output, in words.
//
// A cause is named only if it has been computed: some of the wrong rows are computed again with
// something left out or exchanged, as a student may have done, and the kernel's rows have to agree
// with the result within the gate's own limit. All else is only counted: how much is off, and
// where.
#include "diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_STORED = 0xffff, TRIED = 6, WORDS = 1024, NEARER = 3 };

struct view { // an output with its reference
    const struct problem *problem;
    const struct shape *shape;
    struct rows rows;
    struct error_limits limits;
    const uint16_t *out;
    const float *ref;
    int heads, seq_rows, dim; // batch x heads of Q; rows of each; elements of a row
};

static size_t base_of(const struct view *v, int head, int row)
{
    return ((size_t)head * (size_t)v->seq_rows + (size_t)row) * (size_t)v->dim;
}

static int rows_of(const struct view *v, int head)
{
    return shape_rows_asked(v->shape, head / shape_query_heads(v->shape));
}

static double size_of(const float *row, int dim) // the root mean square of the elements
{
    double squares = 0;

    for (int d = 0; d < dim; ++d)
        squares += (double)row[d] * row[d] / dim;
    return sqrt(squares);
}

// Whether an element is off by more than the gate allows in a row of this size; NaN always is.
static bool element_off(const struct view *v, size_t base, int d, double row_size)
{
    double error = half_to_float(v->out[base + (size_t)d]) - v->ref[base + (size_t)d];

    return !(fabs(error) <= v->limits.row * row_size);
}

static bool off_in_row(const struct view *v, int head, int row)
{
    const size_t base = base_of(v, head, row);
    const double size = size_of(v->ref + base, v->dim);

    for (int d = 0; d < v->dim; ++d)
        if (element_off(v, base, d, size))
            return true;
    return false;
}

// ---- What is off --------------------------------------------------------------------------------

struct off { // where an output is off
    size_t compared, elements, rows, rows_off, missing, zeros, not_finite;
    size_t worst;                 // index of the worst element
    double worst_error;           // the worst element's error
    bool *row;                    // for each row of a head, whether it is off in some head
    size_t column[HEAD_DIM_MOST]; // for each column, how many elements are off
    bool *head;                   // for each head, whether any element is off
    int tried[TRIED][2];          // head and row of up to TRIED rows that are off
    int tried_count;
};

static void look_at_row(const struct view *v, struct off *o, int head, int row)
{
    const size_t base = base_of(v, head, row), before = o->elements;
    const double size = size_of(v->ref + base, v->dim);

    for (int d = 0; d < v->dim; ++d) {
        const uint16_t half = v->out[base + (size_t)d];
        const bool off = element_off(v, base, d, size);
        double got = half_to_float(half), error = fabs(got - v->ref[base + (size_t)d]);
        o->missing += half == NOT_STORED;
        o->not_finite += !isfinite(got) && half != NOT_STORED;
        o->zeros += (half & 0x7fff) == 0;
        o->elements += off;
        o->column[d] += off;
        if (isnan(error))
            error = INFINITY;
        if (error > o->worst_error) {
            o->worst_error = error;
            o->worst = base + (size_t)d;
        }
    }
    bool off = o->elements > before;
    o->compared += (size_t)v->dim;
    o->rows++;
    o->rows_off += off;
    o->row[row] |= off;
    o->head[head] |= off;
}

static bool look(const struct view *v, struct off *o)
{
    *o = (struct off){.worst_error = -1,
                      .row = calloc((size_t)v->seq_rows, sizeof *o->row),
                      .head = calloc((size_t)v->heads, sizeof *o->head)};
    if (!o->row || !o->head)
        return false;
    for (int head = 0; head < v->heads; ++head)
        for (int row = v->rows.first, asked = rows_of(v, head); row < asked;
             row = rows_next(v->rows, asked, row))
            look_at_row(v, o, head, row);
    return true;
}

static void forget(struct off *o)
{
    free(o->row);
    free(o->head);
}

// Chooses the wrong rows to be tried, spread over all wrong rows.
static void choose_rows(const struct view *v, struct off *o)
{
    size_t seen = 0, step = o->rows_off / TRIED + 1;

    for (int head = 0; head < v->heads; ++head)
        for (int row = v->rows.first, asked = rows_of(v, head); row < asked;
             row = rows_next(v->rows, asked, row)) {
            if (!off_in_row(v, head, row) || seen++ % step || o->tried_count == TRIED)
                continue;
            o->tried[o->tried_count][0] = head;
            o->tried[o->tried_count++][1] = row;
        }
}

// ---- Where --------------------------------------------------------------------------------------

// Writes "rows 96 to 127" or "each row n with n % 8 = 7"; "": neither fits, or all `count` are off,
// or none.
static void pattern(const bool *off, int count, const char *name, char *words, size_t size)
{
    int first = 0, last = count - 1;

    *words = '\0';
    while (first < count && !off[first])
        ++first;
    while (last >= 0 && !off[last])
        --last;
    bool whole = true;
    for (int i = first; i <= last; ++i)
        whole &= off[i];
    if (first > last || (whole && last - first + 1 == count))
        return;
    if (whole) {
        snprintf(words, size, first == last ? "%s %d" : "%ss %d to %d", name, first, last);
        return;
    }
    for (int period = 2; period <= 64 && 2 * period <= count; period *= 2) {
        bool fits = true;
        for (int i = period; i < count; ++i)
            fits &= off[i] == off[i - period];
        int from = 0, to = period - 1, off_here = 0;
        while (!off[from] && from < to)
            ++from;
        while (!off[to] && to > from)
            --to;
        for (int i = 0; i < period; ++i)
            off_here += off[i];
        if (!fits || off_here != to - from + 1)
            continue;
        if (from == to)
            snprintf(words, size, "each %s n with n %% %d = %d", name, period, from);
        else
            snprintf(words, size, "each %s n with n %% %d from %d to %d", name, period, from, to);
        return;
    }
}

static void say_where(const struct view *v, const struct off *o, char *words, size_t size)
{
    char rows[128] = "", columns[128] = "", heads[128] = "";
    bool column[HEAD_DIM_MOST];
    size_t most = 0;
    int asked = 0;

    for (int head = 0; head < v->heads; ++head)
        asked = rows_of(v, head) > asked ? rows_of(v, head) : asked;
    for (int d = 0; d < v->dim; ++d)
        most = o->column[d] > most ? o->column[d] : most;
    for (int d = 0; d < v->dim; ++d) // some elements of a wrong column may be right by chance
        column[d] = o->column[d] * 4 > most;
    if (v->rows.stride == 1)
        pattern(o->row, asked, "row", rows, sizeof rows);
    pattern(column, v->dim, "column", columns, sizeof columns);
    pattern(o->head, v->heads, "head", heads, sizeof heads);
    if (!*rows && !*columns && !*heads)
        return;
    snprintf(words, size, "; %s%s%s%s%s%s", rows, *rows && *columns ? ", " : "", columns,
             (*rows || *columns) && *heads ? ", " : "", heads,
             *heads && v->shape->batch > 1 ? " (batch x heads)" : "");
}

// ---- Why ----------------------------------------------------------------------------------------

struct guess {        // attention with something left out or exchanged
    double scale;     // factor of the scores, besides K's own scale
    bool no_k, no_v;  // whether K's scales, and V's, are left out
    bool v_in_sum;    // whether V's scales are included in the sum
    int first, keys;  // keys from `first` up to `keys`, exclusive, are used
    int zeros;        // how many further keys, all zeros, count as well
    int tile;         // keys processed together, for the four fields below
    bool k_again;     // whether the first tile of K is read for every tile
    bool v_again;     // whether the first tile of V is read for every tile
    bool out_kept;    // whether the output is not rescaled when a tile raises the maximum
    bool sum_kept;    // whether the sum is not rescaled when a tile raises the maximum
    bool not_divided; // whether the output is not divided by the sum of weights
};

struct head_data { // one query, and all keys and values of its head
    int dim;
    const uint8_t *q_codes, *k_codes, *v_codes;
    const float *q; // for a cache without a prompt, whose Q has no codes; otherwise NULL
    const float *k_scales, *v_scales;
    bool by_token; // whether K and V have a scale for each token
};

static struct head_data data_of(const struct view *v, int head, int row)
{
    const struct problem *p = v->problem;
    const int shared = shape_query_heads(v->shape) / v->shape->heads, pair = head / shared;
    const size_t tokens = (size_t)v->shape->seq_len, first = (size_t)pair * tokens;
    const bool cache = v->shape->page > 0;
    const size_t scales = cache ? first : (size_t)(head % v->shape->heads);

    return (struct head_data){
        .dim = v->dim,
        .q_codes = p->q_codes ? p->q_codes + base_of(v, head, row) : NULL,
        .k_codes = p->k_codes + first * (size_t)v->dim,
        .v_codes = p->v_codes + first * (size_t)v->dim,
        .q = p->q_codes ? NULL : p->q + base_of(v, head, row),
        .k_scales = p->k_scales + scales,
        .v_scales = p->v_scales + scales,
        .by_token = cache,
    };
}

static double score_of(const struct head_data *h, const struct guess *g, int j)
{
    const int from = g->k_again ? j % g->tile : j;
    const uint8_t *k = h->k_codes + (size_t)(from * h->dim);
    double dot = 0;

    for (int d = 0; d < h->dim; ++d) {
        // Queries without codes (h->q) are rounded to half.
        double q = h->q ? half_to_float(half_from_float(h->q[d])) : e4m3_to_float(h->q_codes[d]);
        dot += q * e4m3_to_float(k[d]);
    }
    return dot * g->scale * (g->no_k ? 1 : h->k_scales[h->by_token ? from : 0]);
}

// Adds `weight` times the value of key j.
static void add_value(const struct head_data *h, const struct guess *g, int j, double weight,
                      double out[HEAD_DIM_MOST])
{
    const int from = g->v_again ? j % g->tile : j;
    const uint8_t *value = h->v_codes + (size_t)(from * h->dim);

    weight *= g->no_v ? 1 : h->v_scales[h->by_token ? from : 0];
    for (int d = 0; d < h->dim; ++d)
        out[d] += weight * e4m3_to_float(value[d]);
}

// Computes a row as the guessed kernel would, tile by tile, to be compared with the wrong row.
static void guess_row(const struct view *v, int head, int row, const struct guess *g,
                      double out[HEAD_DIM_MOST])
{
    const struct head_data h = data_of(v, head, row);
    const int step = g->tile ? g->tile : v->shape->seq_len;
    double max = g->zeros ? 0 : -INFINITY, sum = 0;
    double *scores = malloc((size_t)v->shape->seq_len * sizeof *scores);

    memset(out, 0, (size_t)v->dim * sizeof *out);
    for (int from = g->first; scores && from < g->keys; from += step) {
        const int end = from + step < g->keys ? from + step : g->keys;
        double before = max;
        for (int j = from; j < end; ++j) {
            scores[j] = score_of(&h, g, j);
            max = fmax(max, scores[j]);
        }
        sum *= g->sum_kept ? 1 : exp(before - max);
        for (int d = 0; d < v->dim; ++d)
            out[d] *= g->out_kept ? 1 : exp(before - max);
        for (int j = from; j < end; ++j) {
            sum += exp(scores[j] - max) * (g->v_in_sum ? h.v_scales[h.by_token ? j : 0] : 1);
            add_value(&h, g, j, exp(scores[j] - max), out);
        }
    }
    sum += g->zeros * exp(-max);
    for (int d = 0; d < v->dim; ++d)
        out[d] /= g->not_divided ? 1 : sum;
    free(scores);
}

// Whether a row of the output is `expected` within the gate's limit for a row, and much nearer to
// it than to the right row, since that limit is wide where P is rounded to E4M3.
static bool is_row(const struct view *v, int head, int row, const double expected[HEAD_DIM_MOST])
{
    const size_t base = base_of(v, head, row);
    double error = 0, size = 0, off = 0;

    for (int d = 0; d < v->dim; ++d) {
        double got = half_to_float(v->out[base + (size_t)d]), right = v->ref[base + (size_t)d];
        error += (got - expected[d]) * (got - expected[d]);
        size += expected[d] * expected[d];
        off += (got - right) * (got - right);
    }
    return size > 0 && sqrt(error / size) <= v->limits.row && // false for NaN
           sqrt(off / error) >= NEARER;
}

struct cause {
    enum {
        SOFTMAX_SCALE,
        SOFTMAX_SCALE_TWICE,
        Q_SCALE,
        K_SCALE,
        BOTH_SCALES,
        ALL_SCALES,
        V_SCALE,
        V_IN_SUM,
        NOT_DIVIDED,
        NO_MASK,
        LATER_KEYS,
        TOP_LEFT,
        NEWEST,
        LAST_KEYS,
        FIRST_KEYS,
        ONLY_LAST,
        K_AGAIN,
        V_AGAIN,
        OUT_KEPT,
        SUM_KEPT,
        BOTH_KEPT
    } what;
    int tile; // keys of a tile, for causes that concern keys
    const char *words;
};

// Sets *g to the computation of a row under a cause; false: the cause cannot affect this row.
static bool guess_of(const struct view *v, int head, int row, struct cause cause, struct guess *g)
{
    const struct problem *p = v->problem;
    const bool cache = v->shape->page > 0;
    const int heads = shape_query_heads(v->shape), batch = head / heads;
    const int length = shape_length(v->shape, batch);
    const size_t q_row = (size_t)head * (size_t)v->seq_rows + (size_t)row;
    const double q = p->q_scales ? p->q_scales[cache ? q_row : (size_t)(head % heads)] : 1;
    const double softmax = p->softmax_scale;

    *g =
        (struct guess){.scale = softmax * q,
                       .keys = keys_seen(p->mask, length, shape_first_place(v->shape, batch) + row),
                       .tile = cause.tile};
    switch (cause.what) {
    case SOFTMAX_SCALE: g->scale = q; break;
    case SOFTMAX_SCALE_TWICE: g->scale *= softmax; break;
    case Q_SCALE: g->scale = softmax; return p->q_scales;
    case K_SCALE: g->no_k = true; break;
    case BOTH_SCALES:
        g->scale = softmax;
        g->no_k = true;
        return p->q_scales;
    case ALL_SCALES:
        g->scale = 1;
        g->no_k = true;
        break;
    case V_SCALE: g->no_v = true; break;
    case V_IN_SUM: g->v_in_sum = true; return cache;
    case NOT_DIVIDED: g->not_divided = true; break;
    case NO_MASK:
        g->zeros = (cause.tile - g->keys % cause.tile) % cause.tile;
        return g->zeros > 0 && p->mask == MASK_NONE && !cache;
    case LATER_KEYS: g->keys = length; return p->mask == MASK_CAUSAL;
    case TOP_LEFT: g->keys = row + 1; return shape_first_place(v->shape, batch) > 0;
    case NEWEST: g->keys -= 1; return cache && g->keys > 0;
    case LAST_KEYS: g->keys = (g->keys - 1) / cause.tile * cause.tile; return g->keys > 0;
    case FIRST_KEYS: g->first = cause.tile; return g->first < g->keys;
    case ONLY_LAST: g->first = (g->keys - 1) / cause.tile * cause.tile; return g->first > 0;
    case K_AGAIN: g->k_again = true; return g->keys > cause.tile;
    case V_AGAIN: g->v_again = true; return g->keys > cause.tile;
    case OUT_KEPT: g->out_kept = true; return g->keys > cause.tile;
    case SUM_KEPT: g->sum_kept = true; return g->keys > cause.tile;
    case BOTH_KEPT: g->out_kept = g->sum_kept = true; return g->keys > cause.tile;
    }
    return true;
}

// Whether a cause alone explains all rows that are tried.
static bool explains(const struct view *v, const struct off *o, struct cause cause)
{
    struct guess g;
    double expected[HEAD_DIM_MOST];

    for (int i = 0; i < o->tried_count; ++i) {
        const int head = o->tried[i][0], row = o->tried[i][1];
        if (!guess_of(v, head, row, cause, &g))
            return false;
        guess_row(v, head, row, &g, expected);
        if (!is_row(v, head, row, expected))
            return false;
    }
    return o->tried_count > 0;
}

// Adds a cause to the words. If several explain the error, none of them is called the cause.
static void add_cause(char *words, size_t size, const char *cause)
{
    size_t used = strlen(words);

    snprintf(words + used, size - used, "%s if %s",
             used ? ", or" : "Rows that are off come out just so", cause);
}

// Looks for causes that concern keys, with each possible size of a tile. Several sizes may leave
// out the same keys: such a cause is named once.
static void find_keys(const struct view *v, const struct off *o, char *words, size_t size)
{
    static const struct cause causes[] = {
        {NO_MASK, 0, "the keys past the end, %d and up to a whole tile, count as zeros: no mask"},
        {LAST_KEYS, 0, "the keys from %d on are left out"},
        {FIRST_KEYS, 0, "the keys before %d are left out"},
        {ONLY_LAST, 0, "the keys from %d on are all that counts"},
        {K_AGAIN, 0, "the first %d keys of K are taken for each tile"},
        {V_AGAIN, 0, "the first %d keys of V are taken for each tile"},
        {OUT_KEPT, 0, "the output is not rescaled when a tile (%d keys) has a larger score"},
        {SUM_KEPT, 0, "the sum is not rescaled when a tile (%d keys) has a larger score"},
        {BOTH_KEPT, 0,
         "neither output nor sum is rescaled when a tile (%d keys) has a larger score"},
    };

    for (size_t i = 0; i < sizeof causes / sizeof *causes; ++i)
        for (int tile = 8; tile <= 256; tile *= 2) {
            struct cause cause = causes[i];
            struct guess g;
            char what[128];
            cause.tile = tile;
            if (!explains(v, o, cause))
                continue;
            guess_of(v, o->tried[0][0], o->tried[0][1], cause, &g);
            const bool of_tiles = cause.what >= K_AGAIN;
            snprintf(what, sizeof what, cause.words, of_tiles ? tile : g.first ? g.first : g.keys);
            if (!strstr(words, what))
                add_cause(words, size, what);
        }
}

// Looks for a missing scale of the scores. Often the largest score takes all of the weight,
// whichever scale is missing: if three causes or more fit, the words say only that a scale is
// missing.
static void find_scale(const struct view *v, const struct off *o, char *words, size_t size)
{
    static const struct cause causes[] = {
        {SOFTMAX_SCALE, 0, "softmax_scale is not in the scores"},
        {SOFTMAX_SCALE_TWICE, 0, "softmax_scale is in the scores twice"},
        {Q_SCALE, 0, "Q's scale is not in the scores"},
        {K_SCALE, 0, "K's scale is not in the scores"},
        {BOTH_SCALES, 0, "Q's and K's scales are not in the scores"},
        {ALL_SCALES, 0, "the scores are not scaled"},
    };
    int found = 0;

    for (size_t i = 0; i < sizeof causes / sizeof *causes; ++i)
        if (explains(v, o, causes[i]) && ++found)
            add_cause(words, size, causes[i].words);
    if (found < 3)
        return;
    *words = '\0';
    add_cause(words, size,
              "a scale is missing in the scores (Q's, K's, softmax_scale, or several)");
}

static bool find_cause(const struct view *v, const struct off *o, char *words, size_t size)
{
    static const struct cause causes[] = {
        {V_SCALE, 0, "V's scale is not in the output"},
        {V_IN_SUM, 0, "V's scales are in the sum of the weights, too"},
        {NOT_DIVIDED, 0, "the output is not divided by its row's sum"},
        {LATER_KEYS, 0, "keys after the query's own place are seen"},
        {TOP_LEFT, 0, "query i sees i + 1 keys, as if the queries were a sequence's first"},
        {NEWEST, 0, "the newest token is left out"},
    };

    find_scale(v, o, words, size);
    for (size_t i = 0; i < sizeof causes / sizeof *causes; ++i)
        if (explains(v, o, causes[i]))
            add_cause(words, size, causes[i].words);
    find_keys(v, o, words, size);
    return *words;
}

// ---- What a row contains instead ----------------------------------------------------------------

static void take(const float *ref, int dim, int exchanged, double out[HEAD_DIM_MOST])
{
    for (int d = 0; d < dim; ++d)
        out[d] = ref[d ^ exchanged];
}

// Whether all tried rows have in column d what the reference has in column d ^ n, as if chunks of
// columns had changed places.
static bool find_columns(const struct view *v, const struct off *o, char *words, size_t size)
{
    double expected[HEAD_DIM_MOST];

    for (int n = 1; n < v->dim; ++n) {
        int found = 0;
        for (int i = 0; i < o->tried_count; ++i) {
            take(v->ref + base_of(v, o->tried[i][0], o->tried[i][1]), v->dim, n, expected);
            found += is_row(v, o->tried[i][0], o->tried[i][1], expected);
        }
        if (found == 0 || found < o->tried_count)
            continue;
        snprintf(words, size, "Column d of the rows tried has what belongs in column d ^ %d", n);
        return true;
    }
    return false;
}

// Whether each tried row has the output of another row of its head.
static bool find_rows(const struct view *v, const struct off *o, char *words, size_t size)
{
    double expected[HEAD_DIM_MOST];

    for (int i = 0; i < o->tried_count; ++i) {
        const int head = o->tried[i][0], row = o->tried[i][1];
        bool found = false;
        for (int other = v->rows.first, asked = rows_of(v, head); other < asked && !found;
             other = rows_next(v->rows, asked, other)) {
            take(v->ref + base_of(v, head, other), v->dim, 0, expected);
            if (other == row || !is_row(v, head, row, expected))
                continue;
            found = true;
            if (i == 0)
                snprintf(words, size, "Rows have other rows' output: row %d has row %d's", row,
                         other);
        }
        if (!found)
            return false;
    }
    return o->tried_count > 0;
}

// Whether the outputs of each head are the right ones times a factor, which may differ by head.
static bool find_ratio(const struct view *v, char *words, size_t size)
{
    double least = INFINITY, most = -INFINITY;

    for (int head = 0; head < v->heads; ++head) {
        double product = 0, squares = 0, error = 0, own = 0;
        int asked = rows_of(v, head);
        for (int pass = 0; pass < 2; ++pass)
            for (int row = v->rows.first; row < asked; row = rows_next(v->rows, asked, row))
                for (size_t i = base_of(v, head, row), end = i + (size_t)v->dim; i < end; ++i) {
                    double got = half_to_float(v->out[i]), ref = v->ref[i];
                    double rest = pass ? got - product / squares * ref : 0;
                    product += pass ? 0 : got * ref;
                    squares += pass ? 0 : ref * ref;
                    error += rest * rest;
                    own += pass ? got * got : 0;
                }
        if (!(own > 0 && sqrt(error / own) <= v->limits.head))
            return false;
        least = fmin(least, product / squares);
        most = fmax(most, product / squares);
    }
    if (most - least <= 2 * v->limits.head * fabs(most))
        snprintf(words, size, "Every output is %.4g times what it should be: a scale?", most);
    else
        snprintf(words, size,
                 "In each head, every output is one number times what it should be, from %.3g to "
                 "%.3g: a scale?",
                 least, most);
    return true;
}

static void find(const struct view *v, const struct off *o, char *words, size_t size)
{
    *words = '\0';
    if (o->missing == o->compared)
        snprintf(words, size, "Nothing was stored");
    else if (o->missing == o->elements)
        snprintf(words, size, "Never stored, and all others are right");
    else if (o->missing)
        snprintf(words, size, "%zu elements were never stored", o->missing);
    else if (o->zeros == o->compared)
        snprintf(words, size, "Every output is 0");
    else if (o->not_finite)
        snprintf(words, size, "%zu elements are NaN or infinite%s", o->not_finite,
                 v->shape->page ? " (in the cache a slot without a token holds NaN)" : "");
    else if (!find_cause(v, o, words, size) && !find_ratio(v, words, size) &&
             !find_columns(v, o, words, size) && !find_rows(v, o, words, size))
        snprintf(words, size, "Cause not found");
}

static void say_worst(const struct view *v, const struct off *o, char *words, size_t size)
{
    const size_t row = o->worst / (size_t)v->dim, seq_rows = (size_t)v->seq_rows;
    const size_t head = row / seq_rows, heads = (size_t)shape_query_heads(v->shape);
    const double got = half_to_float(v->out[o->worst]);
    char value[32] = "NaN";

    if (!isnan(got))
        snprintf(value, sizeof value, "%.4g", got);
    snprintf(words, size, "; most of all batch %zu, head %zu, row %zu, column %zu: %s, not %.4g",
             head / heads, head % heads, row % seq_rows, o->worst % (size_t)v->dim, value,
             v->ref[o->worst]);
}

char *diagnose(const struct problem *problem, struct rows rows, struct error_limits limits,
               const uint16_t *out, const float *ref)
{
    const struct shape *shape = &problem->shape;
    const struct view v = {problem,
                           shape,
                           rows,
                           limits,
                           out,
                           ref,
                           shape->batch * shape_query_heads(shape),
                           shape_rows(shape),
                           shape_head_dim(shape)};
    struct off o;
    char found[WORDS], where[WORDS] = "", *words = malloc(3 * WORDS);

    if (!look(&v, &o) || !words || o.elements == 0) {
        forget(&o);
        free(words);
        return NULL;
    }
    choose_rows(&v, &o);
    find(&v, &o, found, sizeof found);
    say_where(&v, &o, where, sizeof where);
    int used =
        snprintf(words, 3 * WORDS, "%s%s%zu of %zu elements are off, in %zu of %zu rows%s", found,
                 !*found                           ? ""
                 : found[strlen(found) - 1] == '?' ? " "
                                                   : ": ",
                 o.elements, o.compared, o.rows_off, o.rows, where);
    if (o.missing < o.elements)
        say_worst(&v, &o, words + used, 3 * WORDS - (size_t)used);
    forget(&o);
    return words;
}
