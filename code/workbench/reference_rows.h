// reference_rows.h: the loops of reference.c that take the time, over a job's keys and values. Each
// file that includes it defines WIDTH, the doubles of a vector, and TARGET, the processors that the
// loops are compiled for. Whatever WIDTH and TARGET are, every lane does the same IEEE operations in
// the same order (no fused multiply-add; an exponential of our own), so the result is bit-identical
// everywhere.
#ifndef WORKBENCH_REFERENCE_ROWS_H
#define WORKBENCH_REFERENCE_ROWS_H

#include <math.h>
#include <string.h>

#include "workbench.h"

enum { LANES = 8, PARTS = LANES / WIDTH, ROWS = 4 };
typedef double vec __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int64_t ivec __attribute__((vector_size(WIDTH * sizeof(int64_t))));

// A thread's memory for one job. Keys are padded to a multiple of LANES. Keys and values are stored
// in the order in which they are read, vector after vector: rows whose length is a power of two
// would share few sets of the processor's cache.
struct scratch {
    const struct row_loops *loops;
    int padded, dim;
    double *keys;    // [padded / LANES][dim][LANES], transposed
    double *values;  // [dim / LANES][padded][LANES]
    double *weights; // [ROWS][padded]: scores, then exp(score - max)
    double queries[ROWS][HEAD_DIM_MOST];
    int seen[ROWS]; // how many keys each row sees
    double sums[ROWS];
    double outputs[ROWS][HEAD_DIM_MOST];
};

struct row_loops {
    void (*scores)(struct scratch *s);
    void (*softmax)(struct scratch *s);
    double (*round_tile)(double *weights, int keys, double scale, double back);
    void (*weigh_values)(struct scratch *s, int length);
};

// The loops for vectors of eight doubles; NULL: this processor has no registers for them.
const struct row_loops *reference_avx512(void);

TARGET static void scores(struct scratch *s)
{
    for (int j = 0; j < s->padded; j += LANES) {
        vec dot[ROWS][PARTS] = {{{0}}};
        const vec *keys = (const vec *)(s->keys + (size_t)j * (size_t)s->dim);
        for (int d = 0; d < s->dim; ++d) {
#pragma GCC unroll 4 // keeps the sums in registers
            for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
                for (int i = 0; i < PARTS; ++i)
                    dot[r][i] += s->queries[r][d] * keys[d * PARTS + i];
        }
        for (int r = 0; r < ROWS; ++r)
            memcpy(s->weights + (size_t)r * s->padded + j, dot[r], sizeof dot[r]);
    }
}

// The sum of all lanes, added in their order.
static inline double in_order(const vec sums[PARTS])
{
    double total = 0;

    for (int lane = 0; lane < LANES; ++lane)
        total += sums[lane / WIDTH][lane % WIDTH];
    return total;
}

// Turns scores into weights exp(score - max), and adds them up. exp(x) = 2^k exp(r) with k =
// round(x / ln 2) and |r| <= ln(2) / 2, where a Taylor polynomial of degree 13 has an error of
// 1e-16.
TARGET static void softmax(struct scratch *s)
{
    const double log2_e = 1.4426950408889634;
    const double ln2_high = 0x1.62e42fee00000p-1; // 32 bits, so that k * ln2_high is exact
    const double ln2_low = 0x1.a39ef35793c76p-33;
    const double magic = 0x1.8p52; // x + magic - magic rounds x; the low bits of x + magic are the
                                   // integer

    for (int r = 0; r < ROWS; ++r) {
        double *row = s->weights + (size_t)r * s->padded;
        for (int j = s->seen[r]; j < s->padded; ++j)
            row[j] = -INFINITY;
        vec most = -INFINITY - (vec){0};
        for (int j = 0; j < s->padded; j += WIDTH) {
            vec x = *(vec *)(row + j);
            ivec more = x > most; // never for NaN
            most = (vec)(((ivec)x & more) | ((ivec)most & ~more));
        }
        double largest = -INFINITY;
        for (int lane = 0; lane < WIDTH; ++lane)
            largest = most[lane] > largest ? most[lane] : largest;
        vec sum[PARTS] = {{0}}; // each lane sums every eighth weight
        for (int j = 0; j < s->padded; j += WIDTH) {
            vec x = *(vec *)(row + j) - largest;
            ivec kept = x > -700.0; // all bits set in lanes to be kept; the others, including
                                    // padding, become 0
            x = (vec)((ivec)x & kept);
            vec shifted = x * log2_e + magic;
            vec k = shifted - magic;
            vec rest = x - k * ln2_high - k * ln2_low;
            vec power = 1 + rest * (1.0 / 13); // Taylor's polynomial: 1 + r/1 (1 + r/2 (1 + ...
#pragma GCC unroll 12
            for (int n = 12; n >= 1; --n)
                power = 1 + power * (rest * (1.0 / n));
            ivec exponent = ((ivec)shifted + 1023) << 52; // shifts out the bits of magic itself
            power = (vec)((ivec)(power * (vec)exponent) & kept);
            *(vec *)(row + j) = power;
            sum[j / WIDTH % PARTS] += power;
        }
        s->sums[r] = in_order(sum);
    }
}

// Rounds scale * weight for `keys` weights to E4M3: to 3 bits after the leading one, and to
// multiples of 2^-9. For that it adds 1.5 * 2^49 times the value of the leading bit (or times 2^-6,
// if the leading bit is less), and subtracts this number again. Stores the rounded values times
// `back`, and returns the sum of what it has stored.
TARGET static double round_tile(double *weights, int keys, double scale, double back)
{
    const ivec least = {0}, half_bit = least + ((int64_t)1 << 51);
    vec sum[PARTS] = {{0}};

    for (int j = 0; j < keys; j += WIDTH) {
        vec x = *(vec *)(weights + j) * scale;
        ivec exponent = ((ivec)x >> 52) - (1023 - 6); // at least that of 2^-6
        exponent = (exponent & (exponent > 0)) + (1023 - 6);
        vec magic = (vec)(((exponent + 49) << 52) | half_bit);
        vec rounded = x + magic - magic;
        ivec past = rounded > (double)E4M3_MAX;
        vec most = (vec){0} + E4M3_MAX;
        rounded = (vec)(((ivec)rounded & ~past) | ((ivec)most & past)) * back;
        *(vec *)(weights + j) = rounded;
        sum[j / WIDTH % PARTS] += rounded;
    }
    return in_order(sum);
}

TARGET static void weigh_values(struct scratch *s, int length)
{
    for (int d = 0; d < s->dim; d += LANES) {
        vec sum[ROWS][PARTS] = {{{0}}};
        const vec *values = (const vec *)(s->values + (size_t)d * s->padded);
        for (int j = 0; j < length; ++j) {
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
                for (int i = 0; i < PARTS; ++i)
                    sum[r][i] += s->weights[(size_t)r * s->padded + j] * values[j * PARTS + i];
        }
        for (int r = 0; r < ROWS; ++r)
            for (int lane = 0; lane < LANES; ++lane)
                s->outputs[r][d + lane] = sum[r][lane / WIDTH][lane % WIDTH] / s->sums[r];
    }
}

static const struct row_loops row_loops = {scores, softmax, round_tile, weigh_values};

#endif
