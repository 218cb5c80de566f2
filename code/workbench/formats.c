// formats.c: E4M3, E8M0 and half, by their bits.
#include <string.h>

#include "workbench.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Drops the lowest `count` bits of a float's bits, rounding to nearest with ties to even. A carry
// out of the mantissa increments the exponent: the result is then the next power of two, as it
// should be.
static uint32_t drop_bits(uint32_t bits, int count)
{
    uint32_t last_kept = bits >> count & 1;
    return (bits + (1u << (count - 1)) - 1 + last_kept) >> count;
}

// E4M3 is sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinity; only S.1111.111 is NaN.
// Hence 448 = 1.75 * 2^8 (0x7e), normals from 2^-6, subnormals in steps of 2^-9.
uint8_t e4m3_from_float(float value)
{
    uint32_t sign = bits_of(value) >> 24 & 0x80;
    uint32_t magnitude = bits_of(value) & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return 0x7f;
    if (magnitude >= 0x43e00000) // 448
        return (uint8_t)(sign | 0x7e);
    if (magnitude < 0x3c800000) { // 2^-6
        // Floats from 2^14 on are 2^-9 apart: the addition rounds, and the low bits of the sum are
        // the code.
        float sum = float_of(magnitude) + 0x1p14f;
        return (uint8_t)(sign | (bits_of(sum) & 0xff));
    }
    return (uint8_t)(sign | (drop_bits(magnitude, 20) - ((127 - 7) << 3)));
}

float e4m3_to_float(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t exponent = code >> 3 & 15;
    uint32_t mantissa = code & 7;

    if ((code & 0x7f) == 0x7f)
        return float_of(sign | 0x7fc00000);
    if (exponent == 0)
        return float_of(sign | bits_of((float)mantissa * 0x1p-9f));
    return float_of(sign | (exponent + 127 - 7) << 23 | mantissa << 20);
}

// An E8M0 code is a float's biased exponent. E4M3's largest number, 448, is 1.75 * 2^8, so a float
// whose mantissa exceeds 1.75 takes the next power. The smallest half, 2^-24, gets the code 95, and
// so does zero.
uint8_t e8m0_for(float largest)
{
    int code = (int)((bits_of(largest) + 0x1fffff) >> 23) - 8;

    return (uint8_t)(code < 95 ? 95 : code);
}

float e8m0_to_float(uint8_t code)
{
    return float_of((uint32_t)code << 23);
}

// Half is sign, 5 bits of exponent (bias 15), 10 of mantissa; normals from 2^-14, subnormals in
// steps of 2^-24; from 65520 on, values round to infinity.
uint16_t half_from_float(float value)
{
    uint32_t sign = bits_of(value) >> 16 & 0x8000;
    uint32_t magnitude = bits_of(value) & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return 0x7fff;
    if (magnitude >= 0x477ff000) // 65520
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { // 2^-14
        // Floats from 1/2 on are 2^-24 apart.
        float sum = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(sum) - bits_of(0.5f)));
    }
    return (uint16_t)(sign | (drop_bits(magnitude, 13) - ((127 - 15) << 10)));
}

float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31;
    uint32_t mantissa = half & 0x3ff;

    if (exponent == 31)
        return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0)
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}
