// scalars.h: arithmetic on one lane, for the expressions of operations.def. Free of branches where
// a loop over 32 lanes is to become vector code.
#ifndef PTXSIM_SCALARS_H
#define PTXSIM_SCALARS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// A register may be read as any type of its width.
typedef uint8_t u8 __attribute__((may_alias));
typedef uint16_t u16 __attribute__((may_alias));
typedef uint32_t u32 __attribute__((may_alias));
typedef uint64_t u64 __attribute__((may_alias));
typedef int16_t s16 __attribute__((may_alias));
typedef int32_t s32 __attribute__((may_alias));
typedef int64_t s64 __attribute__((may_alias));
typedef float f32 __attribute__((may_alias));
typedef double f64 __attribute__((may_alias));

#define SCALAR static inline __attribute__((always_inline, unused))

SCALAR uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

SCALAR float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// ---- Integers -----------------------------------------------------------------------------------

SCALAR int32_t saturate_s32(int64_t value)
{
    return (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}

SCALAR uint32_t low24(uint32_t value) // the low 24 bits, sign-extended
{
    return (uint32_t)((int32_t)(value << 8) >> 8);
}

#define halves2_min(x, y) ((x) < (y) ? (x) : (y))
#define halves2_max(x, y) ((x) > (y) ? (x) : (y))
#define halves2(f, a, b)                                                                           \
    ((uint32_t)halves2_##f((a)&0xffff, (b)&0xffff) | (uint32_t)halves2_##f((a) >> 16, (b) >> 16)   \
                                                         << 16)
#define signed_halves2(f, a, b)                                                                    \
    ((uint32_t)(uint16_t)halves2_##f((int16_t)(a), (int16_t)(b)) |                                 \
     (uint32_t)(uint16_t)halves2_##f((int16_t)((a) >> 16), (int16_t)((b) >> 16)) << 16)

SCALAR uint32_t reverse32(uint32_t x)
{
    x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
    x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
    x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
    return __builtin_bswap32(x);
}

SCALAR uint32_t top_bit(uint64_t x) // position of the highest set bit; ~0: no bit is set
{
    return x ? 63 - (uint32_t)__builtin_clzll(x) : ~0u;
}

// bfe: `length` bits from `position` on, sign-extended if is_signed; bits past the register's width
// are 0 or, if is_signed, copies of the sign.
SCALAR uint64_t extract(uint64_t a, uint32_t position, uint32_t length, int width, bool is_signed)
{
    position &= 0xff;
    length &= 0xff;
    if (!length)
        return 0;
    uint32_t last = position + length - 1;
    if (last > (uint32_t)width - 1)
        last = (uint32_t)width - 1;
    uint64_t sign = is_signed ? a >> last & 1 : 0;
    uint64_t field = position > (uint32_t)width - 1 ? 0 : a >> position;
    uint32_t have = last >= position ? last - position + 1 : 0;
    uint64_t mask = have > 63 ? ~(uint64_t)0 : ((uint64_t)1 << have) - 1;
    return (field & mask) | (sign ? ~mask : 0);
}

SCALAR uint64_t insert(uint64_t from, uint64_t into, uint32_t position, uint32_t length, int width)
{
    // bfi.b32 is a machine instruction, which uses only the low 8 bits of position and length; of
    // bfi.b64 ptxas makes a routine, which uses all of their bits.
    if (width == 32) {
        position &= 0xff;
        length &= 0xff;
    }
    if (position >= (uint32_t)width)
        return into;
    uint64_t mask = (length > 63 ? ~(uint64_t)0 : ((uint64_t)1 << length) - 1) << position;
    return (into & ~mask) | (from << position & mask);
}

SCALAR uint32_t bit_mask(uint32_t position, uint32_t length)
{
    if (position > 31)
        return 0;
    uint64_t mask = length > 31 ? 0xffffffff : ((uint64_t)1 << length) - 1;
    return (uint32_t)(mask << position);
}

SCALAR uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == INT32_MIN) // this result was measured on a GPU
        return 0;
    if (base > 31)
        return ~0u;
    if (!offset)
        return mask >> base & 1 ? base : ~0u;
    int step = offset > 0 ? 1 : -1;
    int left = offset > 0 ? offset : -offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && !--left)
            return (uint32_t)at;
    return ~0u;
}

// prmt: each nibble of the selector chooses a byte of b:a; with its top bit set, eight copies of
// that byte's sign.
SCALAR uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        uint32_t byte = (uint32_t)(both >> 8 * (selector >> 4 * i & 7)) & 0xff;
        if (selector >> 4 * i & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

SCALAR uint32_t backward4(uint32_t c)
{
    return c == 0 ? 0x5670 : c == 1 ? 0x6701 : c == 2 ? 0x7012 : 0x0123;
}

SCALAR uint32_t edge_left(uint32_t c)
{
    return c == 0 ? 0x3210 : c == 1 ? 0x3211 : c == 2 ? 0x3222 : 0x3333;
}

SCALAR uint32_t edge_right(uint32_t c)
{
    return c == 0 ? 0x0000 : c == 1 ? 0x1110 : c == 2 ? 0x2210 : 0x3210;
}

SCALAR uint32_t dot4(uint32_t a, uint32_t b, bool signed_a, bool signed_b)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (signed_a ? (int8_t)(a >> i) : (int32_t)(a >> i & 0xff)) *
               (signed_b ? (int8_t)(b >> i) : (int32_t)(b >> i & 0xff));
    return (uint32_t)sum;
}

SCALAR uint32_t dot2(uint32_t a, uint32_t b, bool signed_a, bool signed_b)
{
    uint32_t sum = 0;
    for (int i = 0; i < 2; ++i)
        sum += (uint32_t)((signed_a ? (int16_t)(a >> 16 * i) : (int32_t)(a >> 16 * i & 0xffff)) *
                          (signed_b ? (int8_t)(b >> 8 * i) : (int32_t)(b >> 8 * i & 0xff)));
    return sum;
}

// ---- Floats -------------------------------------------------------------------------------------

SCALAR float flush(float value) // turns a subnormal into a zero of its sign
{
    uint32_t bits = bits_of(value);
    return float_of(bits & 0x7f800000 ? bits : bits & 0x80000000u);
}

SCALAR float canonical(float value)
{
    return value != value ? float_of(0x7fffffff) : value;
}

SCALAR float fused_f32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

SCALAR double fused_f64(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

// If one operand is NaN, the result is the other one; -0 is less than +0.
SCALAR float min_f32(float a, float b)
{
    float least = a < b ? a : b;
    least = a == b ? float_of(bits_of(a) | bits_of(b)) : least;
    return a != a ? b : b != b ? a : least;
}

SCALAR float max_f32(float a, float b)
{
    float most = a > b ? a : b;
    most = a == b ? float_of(bits_of(a) & bits_of(b)) : most;
    return a != a ? b : b != b ? a : most;
}

SCALAR double min_f64(double a, double b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

SCALAR double max_f64(double a, double b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

SCALAR float relu(float a)
{
    return a != a ? a : a > 0 ? a : 0;
}

// The part of an f64 that rcp.approx.ftz.f64 and rsqrt work on: its upper word, with subnormals
// flushed and all NaNs made alike.
SCALAR double upper_half(double a)
{
    uint64_t bits;
    memcpy(&bits, &a, 8);
    bits &= UINT64_C(0xffffffff00000000);
    if (!(bits & UINT64_C(0x7ff0000000000000)))
        bits &= UINT64_C(1) << 63;
    if (a != a)
        bits = UINT64_C(0x7fffffff00000000);
    memcpy(&a, &bits, 8);
    return a;
}

// For sin.approx and cos.approx: the angle in radians, without whole revolutions; rounded as the
// hardware does, to an f32 number of revolutions.
SCALAR double angle_of(float a)
{
    float turns = flush(a) * 0x1.45f306p-3f; // 1 / 2 pi
    return (double)(turns - truncf(turns)) * 6.283185307179586;
}

// 2^x in f64, rounded once to f32; the f64 value has a relative error below 2^-42.
SCALAR float exp2_f32(float x)
{
    double clamped = x < -200.0f ? -200.0 : x > 200.0f ? 200.0 : x; // clamped; a NaN stays
    double shifted = clamped + 0x1.8p52;       // the low bits are the integer part
    double f = clamped - (shifted - 0x1.8p52); // the fraction, in [-0.5, 0.5]
    uint64_t bits;
    memcpy(&bits, &shifted, 8);
    bits = (bits + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, 8);
    // The series of exp(f ln 2) up to the term of f^11.
    double p = 4.4455e-10;
    p = p * f + 7.0549116208e-09;
    p = p * f + 1.01780860092397e-07;
    p = p * f + 1.3215486790144309e-06;
    p = p * f + 1.5252733804059841e-05;
    p = p * f + 1.5403530393381608e-04;
    p = p * f + 1.3333558146428443e-03;
    p = p * f + 9.6181291076284772e-03;
    p = p * f + 5.5504108664821580e-02;
    p = p * f + 2.4022650695910072e-01;
    p = p * f + 6.9314718055994531e-01;
    p = p * f + 1.0;
    return (float)(p * scale);
}

SCALAR int32_t to_s32(float a) // towards zero, clamped; NaN gives 0
{
    return a >= 2147483648.0f   ? INT32_MAX
           : a > -2147483648.0f ? (int32_t)a
           : a != a             ? 0
                                : INT32_MIN;
}

// The sum of x and y in f64, rounded to odd: if it is inexact, its last bit is set. If x is a b,
// the exact product of numbers of at most 11 bits, and y is c, a later rounding to a half gives
// a b + c rounded once.
SCALAR double sum_odd(double x, double y)
{
    double sum = x + y, part = sum - x;
    double rest = (x - (sum - part)) + (y - part);
    uint64_t bits;
    memcpy(&bits, &sum, 8);
    uint64_t odd = bits & 1 ? bits : (rest > 0) == (sum > 0) ? bits + 1 : bits - 1;
    bits = rest > 0 || rest < 0 ? odd : bits; // a NaN stays as it is
    memcpy(&sum, &bits, 8);
    return sum;
}

// ---- Narrow floats, rounded to nearest even -----------------------------------------------------

SCALAR uint32_t f16_of(float a)
{
    uint32_t bits = bits_of(a), sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff;
    uint32_t normal = (mag + 0xfff + (mag >> 13 & 1) - (UINT32_C(112) << 23)) >> 13;
    // The sum with 0.5f is rounded to a multiple of the ulp of 0.5f, which is f16's least number.
    uint32_t tiny = bits_of(float_of(mag) + 0.5f) - 0x3f000000;
    uint32_t half = mag >= 0x47800000 ? 0x7c00 : mag >= 0x38800000 ? normal : tiny;
    return mag > 0x7f800000 ? 0x7fff : sign | half;
}

SCALAR float f16_to_f32(uint32_t half)
{
    uint32_t mag = half & 0x7fff;
    uint32_t bits = bits_of(float_of(mag << 13) * 0x1p112f);
    bits = mag >= 0x7c00 ? mag << 13 | 0x7f800000 : bits;
    return float_of(bits | (half & 0x8000) << 16);
}

SCALAR uint32_t bf16_of(float a)
{
    uint32_t bits = bits_of(a);
    return a != a ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Rounds an f64 to odd in f32: if the result is then rounded to a half format, that half is `a`
// rounded once.
SCALAR float odd_f32(double a)
{
    float near = (float)a;
    uint32_t bits = bits_of(near);
    double back = near;
    bool inexact = back != a && a == a && !isinf(back);
    bool past = (a < 0 ? -back : back) > (a < 0 ? -a : a);
    uint32_t odd = (past ? bits - 1 : bits) | 1;
    return float_of(inexact ? odd : bits);
}

SCALAR float fused_odd(float a, float b, float c)
{
    return odd_f32(sum_odd((double)a * b, c));
}

SCALAR float flush_f16(float a)
{
    return a < 0x1p-14f && a > -0x1p-14f ? a * 0.0f : a;
}

SCALAR float round_flush_f16(float a)
{
    return flush_f16(f16_to_f32(f16_of(a)));
}

SCALAR uint32_t e4m3_to_f16(uint32_t code)
{
    uint32_t mag = code & 0x7f;
    uint32_t tiny = mag >= 4   ? 0x2000 + ((mag - 4) << 8)
                    : mag >= 2 ? 0x1c00 + ((mag - 2) << 9)
                    : mag      ? 0x1800
                               : 0;
    uint32_t half = mag >= 8 ? (mag << 7) + 0x2000 : tiny;
    return mag == 0x7f ? 0x7fff : half | (code & 0x80) << 8;
}

// Converts an e4m3 code below 8 to a half. The code is a number of units of 2^-9, e4m3's least
// number; in f16 such values have different exponents.
SCALAR uint32_t e4m3_tiny(uint32_t code)
{
    int half = (int)(bits_of((float)(int)code) >> 13) - (121 << 10);
    return half > 0 ? (uint32_t)half : 0;
}

// Converts two e4m3 codes to the halves of one word, each as e4m3_to_f16 does.
SCALAR uint32_t e4m3_pair(uint32_t codes)
{
    uint32_t two = (codes & 0xff) | (codes & 0xff00) << 8, mag = two & 0x007f007f;
    uint32_t nan = (mag + 0x00010001) & 0x00800080, tiny = ~(mag + 0x00780078) & 0x00800080;
    uint32_t halves = ((mag << 7) + 0x20002000) | ((nan << 8) - (nan >> 7));
    uint32_t below = e4m3_tiny(mag & 7) | e4m3_tiny(mag >> 16 & 7) << 16;
    uint32_t where = (tiny << 9) - (tiny >> 7); // all bits of those halves whose code is below 8
    return (halves & ~where) | (below & where) | (two & 0x00800080 & ~nan) << 8;
}

SCALAR uint32_t e5m2_to_f16(uint32_t code)
{
    return (code & 0x7f) > 0x7c ? 0x7fff : code << 8;
}

SCALAR uint32_t e5m2_pair(uint32_t codes)
{
    return e5m2_to_f16(codes & 0xff) | e5m2_to_f16(codes >> 8 & 0xff) << 16;
}

SCALAR uint32_t e4m3_of(float a) // saturates to 448
{
    uint32_t bits = bits_of(a), sign = bits >> 24 & 0x80, mag = bits & 0x7fffffff;
    uint32_t clamped = mag > 0x43e00000 ? 0x43e00000 : mag;
    uint32_t normal = (clamped + 0x7ffff + (clamped >> 20 & 1) - (UINT32_C(120) << 23)) >> 20;
    uint32_t tiny = bits_of(float_of(clamped) * 512.0f + 8388608.0f) & 0xff;
    uint32_t code = clamped >= 0x3c800000 ? normal : tiny;
    return mag > 0x7f800000 ? 0x7f : sign | code;
}

SCALAR uint32_t e5m2_of(float a) // saturates to 57344
{
    uint32_t bits = bits_of(a), sign = bits >> 24 & 0x80, mag = bits & 0x7fffffff;
    uint32_t clamped = mag > 0x47600000 ? 0x47600000 : mag;
    uint32_t normal = (clamped + 0xfffff + (clamped >> 21 & 1) - (UINT32_C(112) << 23)) >> 21;
    uint32_t tiny = bits_of(float_of(clamped) * 65536.0f + 8388608.0f) & 0xff;
    uint32_t code = clamped >= 0x38800000 ? normal : tiny;
    return mag > 0x7f800000 ? 0x7f : sign | code;
}

SCALAR uint32_t e4m3_of_halves(uint32_t halves)
{
    return e4m3_of(f16_to_f32(halves & 0xffff)) | e4m3_of(f16_to_f32(halves >> 16)) << 8;
}

SCALAR uint32_t e5m2_of_halves(uint32_t halves)
{
    return e5m2_of(f16_to_f32(halves & 0xffff)) | e5m2_of(f16_to_f32(halves >> 16)) << 8;
}

#endif
