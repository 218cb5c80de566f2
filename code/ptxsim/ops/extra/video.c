// video.c: arithmetic on bytes and halves of words (PTX ISA, "Video Instructions").
#include "video.h"

static int64_t part_of(uint32_t word, unsigned at, unsigned bits, bool is_signed)
{
    uint64_t value = (uint64_t)word >> at << (64 - bits);
    return is_signed ? (int64_t)value >> (64 - bits) : (int64_t)(value >> (64 - bits));
}

static int64_t clamp_to(int64_t value, unsigned bits, bool is_signed)
{
    int64_t most = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    int64_t least = is_signed ? -most - 1 : 0;
    return value > most ? most : value < least ? least : value;
}

// The exact sum, difference and so on of two parts.
static int64_t compute(const struct video *v, int64_t a, int64_t b, int64_t c)
{
    int64_t shift = v->wrap ? b & 31 : b < 0 || b > 32 ? 32 : b;
    switch (v->kind) {
    case VIDEO_ADD: return a + b;
    case VIDEO_SUB: return a - b;
    case VIDEO_ABSDIFF: return a > b ? a - b : b - a;
    case VIDEO_MIN: return a < b ? a : b;
    case VIDEO_MAX: return a > b ? a : b;
    case VIDEO_AVERAGE: return (a + b + (a + b >= 0)) >> 1;
    case VIDEO_SHL: return (int64_t)((uint64_t)a << shift);
    case VIDEO_SHR: return a >> shift;
    case VIDEO_MAD: return (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c) >> v->scale;
    case VIDEO_EQ: return a == b;
    case VIDEO_NE: return a != b;
    case VIDEO_LT: return a < b;
    case VIDEO_LE: return a <= b;
    case VIDEO_GT: return a > b;
    case VIDEO_GE: return a >= b;
    }
    return 0;
}

static uint32_t merge(uint32_t into, uint32_t value, unsigned at, unsigned bits)
{
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1) << at;
    return (into & ~mask) | (value << at & mask);
}

static uint32_t one_result(const struct video *v, uint32_t a, uint32_t b, uint32_t c)
{
    int64_t addend = v->signed_d ? (int32_t)c : (int64_t)c;
    int64_t value = compute(v, part_of(a, v->a[0], v->a_bits, v->signed_a),
                            part_of(b, v->b[0], v->b_bits, v->signed_b), addend);
    if (v->saturate)
        value = clamp_to(value, v->d_bits, v->signed_d);
    uint32_t low = (uint32_t)value;
    int64_t whole = v->signed_d ? (int32_t)low : (int64_t)low;
    switch (v->then) {
    case THEN_ADD: return low + c;
    case THEN_MIN: return whole < addend ? low : c;
    case THEN_MAX: return whole > addend ? low : c;
    case THEN_MERGE: return merge(c, low, v->d_at, v->d_bits);
    default: return low;
    }
}

static uint32_t many_results(const struct video *v, uint32_t a, uint32_t b, uint32_t c)
{
    unsigned bits = 32u / (unsigned)v->parts;
    uint32_t result = c;
    for (int i = 0; i < v->parts; ++i) {
        int from_a = v->a[i], from_b = v->b[i];
        int64_t x = part_of(from_a < v->parts ? a : b, bits * (unsigned)(from_a % v->parts), bits,
                            v->signed_a);
        int64_t y = part_of(from_b < v->parts ? a : b, bits * (unsigned)(from_b % v->parts), bits,
                            v->signed_b);
        int64_t value = compute(v, x, y, 0);
        if (v->saturate)
            value = clamp_to(value, bits, v->signed_d);
        if (!(v->mask >> i & 1))
            continue;
        result = v->then == THEN_ADD ? result + (uint32_t)value
                                     : merge(result, (uint32_t)value, bits * (unsigned)i, bits);
    }
    return result;
}

void video_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct video *v = op->operands;
    uint32_t *d = (uint32_t *)(r + op->d);
    const uint32_t *a = (const uint32_t *)(r + op->a), *b = (const uint32_t *)(r + op->b);
    const uint32_t *c = (const uint32_t *)(r + op->c);
    (void)w;
    (void)mask;
    for (int i = 0; i < WARP; ++i)
        d[i] = v->parts == 1 ? one_result(v, a[i], b[i], c[i]) : many_results(v, a[i], b[i], c[i]);
}
