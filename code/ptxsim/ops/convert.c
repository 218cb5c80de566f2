// convert.c: cvt between all types of numbers and in every rounding, a lane at a time. The common
// conversions have operations of their own (operations.def).
#include "ops.h"
#include "scalars.h"

static bool is_float(enum number number)
{
    return number >= NUMBER_F16;
}

static int number_bytes(enum number number)
{
    static const int bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 4, 1, 1};
    return bytes[number];
}

// Rounds an f64 to a float format with `fraction` fraction bits, the least normal exponent `least`
// and the largest value `most`.
static double round_to(double a, int fraction, int least, double most, enum rounding rounding)
{
    if (!(fabs(a) < INFINITY) || a == 0)
        return a;
    int exponent;
    frexp(a, &exponent);
    int unit = (exponent - 1 < least ? least : exponent - 1) - fraction;
    double scaled = ldexp(a, -unit), whole;
    switch (rounding) {
    case ROUND_ZERO: whole = trunc(scaled); break;
    case ROUND_DOWN: whole = floor(scaled); break;
    case ROUND_UP: whole = ceil(scaled); break;
    case ROUND_AWAY: whole = round(scaled); break;
    default: whole = nearbyint(scaled);
    }
    double result = copysign(ldexp(whole, unit), a);
    if (fabs(result) > most) {
        bool to_infinity = rounding == ROUND_NEAREST || rounding == ROUND_AWAY ||
                           (rounding == ROUND_UP && a > 0) || (rounding == ROUND_DOWN && a < 0);
        return copysign(to_infinity ? INFINITY : most, a);
    }
    return result;
}

static double integral(double a, enum rounding rounding)
{
    return rounding == ROUND_ZERO   ? trunc(a)
           : rounding == ROUND_DOWN ? floor(a)
           : rounding == ROUND_UP   ? ceil(a)
                                    : nearbyint(a);
}

// Converts an integer, given as sign and magnitude, to a float with `digits` significant bits (f32:
// 24, f64: 53) in any rounding.
static double integer_to_float(bool negative, uint64_t magnitude, int digits,
                               enum rounding rounding)
{
    if (!magnitude)
        return 0;
    int drop = 64 - __builtin_clzll(magnitude) - digits;
    if (drop > 0) {
        uint64_t unit = UINT64_C(1) << drop, rest = magnitude & (unit - 1);
        magnitude -= rest;
        bool up = rounding == ROUND_NEAREST
                      ? rest > unit / 2 || (rest == unit / 2 && (magnitude & unit))
                      : rest && ((rounding == ROUND_UP && !negative) ||
                                 (rounding == ROUND_DOWN && negative));
        double exact = (double)magnitude + (up ? (double)unit : 0); // no rounding
        return negative ? -exact : exact;
    }
    return negative ? -(double)magnitude : (double)magnitude;
}

static uint64_t float_to_integer(double a, const struct conversion *k)
{
    int bits = 8 * number_bytes(k->to);
    bool is_signed = k->to >= NUMBER_S8;
    if (a != a)
        return k->from != NUMBER_F64 && bits < 64 ? 0 : UINT64_C(1) << (bits - 1);
    a = integral(a, k->rounding);
    double high = ldexp(1, is_signed ? bits - 1 : bits);
    if (is_signed) {
        if (a >= high)
            return (UINT64_C(1) << (bits - 1)) - 1;
        if (a < -high)
            return UINT64_C(1) << (bits - 1);
        return (uint64_t)(int64_t)a;
    }
    if (a >= high)
        return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return a <= 0 ? 0 : (uint64_t)a;
}

static uint64_t integer_to_integer(uint64_t value, bool negative, const struct conversion *k)
{
    if (!k->saturate)
        return value;
    int bits = 8 * number_bytes(k->to);
    if (k->to >= NUMBER_S8) {
        int64_t high = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        if (negative)
            return (int64_t)value < -high - 1 ? (uint64_t)(-high - 1) : value;
        return value > (uint64_t)high ? (uint64_t)high : value;
    }
    uint64_t high = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return negative ? 0 : value > high ? high : value;
}

static uint64_t float_bits(double a, const struct conversion *k)
{
    if (k->saturate)
        a = a > 0 ? (a < 1 ? a : 1) : 0;
    if (k->relu && a <= 0)
        a = 0;
    if (k->finite) {
        double most = k->to == NUMBER_F16    ? 65504
                      : k->to == NUMBER_BF16 ? 0x1.fep127
                      : k->to == NUMBER_TF32 ? 0x1.ffcp127
                                             : INFINITY; // e4m3 and e5m2 never overflow
        a = a > most ? most : a < -most ? -most : a;
    }
    uint64_t bits;
    memcpy(&bits, &a, 8);
    if (a != a && k->from == NUMBER_F64 && !k->saturate && k->to != NUMBER_F64) {
        // A NaN keeps its sign, and as much of its payload as fits, and becomes quiet.
        uint32_t single = (uint32_t)(bits >> 63 << 31 | 0x7fc00000 | (bits >> 29 & 0x7fffff));
        return k->to == NUMBER_F16    ? (single >> 16 & 0x8000) | 0x7c00 | (single >> 13 & 0x3ff)
               : k->to == NUMBER_BF16 ? single >> 16
                                      : single;
    }
    switch (k->to) {
    case NUMBER_E4M3: return e4m3_of((float)a);
    case NUMBER_E5M2: return e5m2_of((float)a);
    case NUMBER_F16: return f16_of(canonical((float)round_to(a, 10, -14, 65504, k->rounding)));
    case NUMBER_BF16: return bf16_of((float)round_to(a, 7, -126, 0x1.fep127, k->rounding));
    case NUMBER_TF32:
        return 0xffffe000 &
               bits_of(canonical((float)round_to(a, 10, -126, 0x1.ffcp127, k->rounding)));
    case NUMBER_F32: {
        float single = canonical((float)round_to(a, 23, -126, 0x1.fffffep127, k->rounding));
        return bits_of(k->ftz ? flush(single) : single);
    }
    default: return bits;
    }
}

static uint64_t convert_one(uint64_t raw, const struct conversion *k)
{
    int from_bits = 8 * number_bytes(k->from);
    if (!is_float(k->from)) {
        unsigned shift = 64 - (unsigned)from_bits;
        bool is_signed = k->from >= NUMBER_S8;
        uint64_t value = raw << shift;
        value = is_signed ? (uint64_t)((int64_t)value >> shift) : value >> shift;
        bool negative = is_signed && (int64_t)value < 0;
        if (!is_float(k->to))
            return integer_to_integer(value, negative, k);
        int digits = k->to == NUMBER_F64 ? 53 : k->to == NUMBER_F32 ? 24 : 53;
        return float_bits(integer_to_float(negative, negative ? 0 - value : value, digits,
                                           k->to == NUMBER_F32 || k->to == NUMBER_F64
                                               ? k->rounding
                                               : ROUND_NEAREST),
                          k);
    }
    if (k->to == NUMBER_TF32 && (raw & 0x7fffffff) > 0x7f800000)
        return raw & 0xffffe000; // the mask also cuts a NaN's payload
    double a;
    if (k->from == NUMBER_F16)
        a = f16_to_f32((uint32_t)raw & 0xffff);
    else if (k->from == NUMBER_BF16)
        a = float_of((uint32_t)raw << 16);
    else if (k->from == NUMBER_F64)
        memcpy(&a, &raw, 8);
    else
        a = k->ftz ? canonical(flush(float_of((uint32_t)raw))) : float_of((uint32_t)raw);
    if (!is_float(k->to))
        return float_to_integer(a, k);
    if (k->to_integral && k->from == NUMBER_F64 && a != a && !k->saturate)
        return raw | UINT64_C(1) << 51; // a quiet NaN with the same payload
    if (k->to_integral) {
        struct conversion exact = *k;
        exact.rounding = ROUND_NEAREST;
        return float_bits(copysign(integral(a, k->rounding), a), &exact);
    }
    return float_bits(a, k);
}

static double narrow_value(enum number from, uint32_t bits)
{
    return from == NUMBER_F16    ? f16_to_f32(bits & 0xffff)
           : from == NUMBER_BF16 ? float_of(bits << 16)
           : from == NUMBER_E4M3 ? f16_to_f32(e4m3_to_f16(bits & 0xff))
           : from == NUMBER_E5M2 ? f16_to_f32(e5m2_to_f16(bits & 0xff))
                                 : float_of(bits);
}

void convert_pair(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    const struct conversion *k = op->operands;
    unsigned bits = 8 * (unsigned)number_bytes(k->to), from = 8 * (unsigned)number_bytes(k->from);
    for (unsigned i = 0; i < WARP; ++i) {
        uint32_t high = 0, low = 0;
        memcpy(&high, r + op->a + i * k->from_width, k->from_width);
        if (k->from == NUMBER_F32)
            memcpy(&low, r + op->b + 4 * i, 4);
        else
            low = high, high >>= from;
        uint32_t value = (uint32_t)float_bits(narrow_value(k->from, high), k) << bits |
                         (uint32_t)float_bits(narrow_value(k->from, low), k);
        memcpy(r + op->d + i * k->to_width, &value, k->to_width);
    }
}

void convert(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    const struct conversion *k = op->operands;
    unsigned bits = 8 * (unsigned)number_bytes(k->to), shift = 64 - bits;
    for (unsigned i = 0; i < WARP; ++i) {
        uint64_t value = 0;
        memcpy(&value, r + op->a + i * k->from_width, k->from_width);
        value = convert_one(value, k);
        if (shift) // extends the value to the register's width
            value = k->to >= NUMBER_S8 && !is_float(k->to)
                        ? (uint64_t)((int64_t)(value << shift) >> shift)
                        : value << shift >> shift;
        memcpy(r + op->d + i * k->to_width, &value, k->to_width);
    }
}
