// test_workbench.c: tests the half of the workbench that needs no GPU.
//
// The test is linked with the workbench as compiled under ASan and UBSan (build/san/libworkbench.a).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h needs the four headers above
#include <cmocka.h>
#include <cuda_fp8.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "stages.h"
#include "workbench.h"

#include <jansson.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct shape shape_of(const char *text)
{
    struct shape shape;
    char why[256];
    if (!shape_parse(text, &shape, why, sizeof why))
        fail_msg("%s", why);
    return shape;
}

static struct problem problem_of(const char *shape, enum input_kind kind, uint64_t seed)
{
    struct shape parsed = shape_of(shape);
    struct problem problem;
    assert_true(problem_create(&problem, &parsed, kind, seed));
    return problem;
}

// ---- E4M3 and half ------------------------------------------------------------------------------

static void e4m3_values_follow_the_format(void **state)
{
    (void)state;
    for (int code = 0; code < 256; ++code) {
        float value = e4m3_to_float((uint8_t)code);
        int exponent = code >> 3 & 15, mantissa = code & 7;
        if ((code & 0x7f) == 0x7f) {
            assert_true(isnan(value));
            continue;
        }
        double expected = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        assert_true(value == (code & 0x80 ? -expected : expected));
        assert_int_equal(signbit(value) != 0, code >> 7);
        assert_int_equal(e4m3_from_float(value), code);
    }
    assert_true(e4m3_to_float(0x7e) == 448);
    assert_true(e4m3_to_float(0x01) == 0x1p-9f);
}

static void e4m3_rounds_to_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (int code = 0; code < 0x7e; ++code) {
        float low = e4m3_to_float((uint8_t)code), high = e4m3_to_float((uint8_t)(code + 1));
        float tie = (low + high) / 2; // exact
        int even = code & 1 ? code + 1 : code;
        assert_int_equal(e4m3_from_float(tie), even);
        assert_int_equal(e4m3_from_float(-tie), even | 0x80);
        assert_int_equal(e4m3_from_float(nextafterf(tie, 0)), code);
        assert_int_equal(e4m3_from_float(nextafterf(tie, 1000)), code + 1);
    }
}

static void e4m3_saturates_and_keeps_nan(void **state)
{
    (void)state;
    const float large[] = {448, 449, 463.99f, 464, 465, 480, 1e30f, INFINITY};
    for (size_t i = 0; i < LENGTH(large); ++i) {
        assert_int_equal(e4m3_from_float(large[i]), 0x7e);
        assert_int_equal(e4m3_from_float(-large[i]), 0xfe);
    }
    assert_int_equal(e4m3_from_float(NAN), 0x7f);
    assert_int_equal(e4m3_from_float(-NAN), 0x7f);
    assert_int_equal(e4m3_from_float(0.0f), 0);
    assert_int_equal(e4m3_from_float(-0.0f), 0x80);
    assert_int_equal(e4m3_from_float(float_of(1)), 0); // the smallest positive float
}

static void e4m3_agrees_with_nvidias_header(void **state)
{
    (void)state;
    // Every 251st of all 2^32 floats: 17 million, which cover every exponent and all kinds of low
    // bits.
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 251) {
        float value = float_of((uint32_t)bits);
        uint8_t expected = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
        if (e4m3_from_float(value) != expected)
            fail_msg("%a: 0x%02x, not 0x%02x", value, e4m3_from_float(value), expected);
    }
    for (int code = 0; code < 256; ++code) {
        if ((code & 0x7f) == 0x7f)
            continue;
        __half_raw half = __nv_cvt_fp8_to_halfraw((uint8_t)code, __NV_E4M3);
        assert_true(half_to_float(half.x) == e4m3_to_float((uint8_t)code));
    }
}

static void half_agrees_with_the_compilers(void **state)
{
    (void)state;
    for (int bits = 0; bits < 0x10000; ++bits) {
        uint16_t half = (uint16_t)bits;
        _Float16 native;
        memcpy(&native, &half, sizeof native);
        float value = half_to_float(half);
        if (isnan((float)native)) {
            assert_true(isnan(value));
            assert_int_equal(half_from_float(value), 0x7fff);
            continue;
        }
        assert_true(value == (float)native);
        assert_int_equal(half_from_float(value), half);
    }
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 509) {
        float value = float_of((uint32_t)bits);
        _Float16 native = (_Float16)value;
        uint16_t expected;
        memcpy(&expected, &native, sizeof expected);
        if (!isnan(value) && half_from_float(value) != expected)
            fail_msg("%a: 0x%04x, not 0x%04x", value, half_from_float(value), expected);
    }
    assert_int_equal(half_from_float(65519.996f), 0x7bff);
    assert_int_equal(half_from_float(65520), 0x7c00);
    assert_int_equal(half_from_float(0x1p-25f), 0); // a tie goes to even
    assert_int_equal(half_from_float(0x1.8p-24f), 2);
}

// ---- Shapes and inputs --------------------------------------------------------------------------

static void shapes_are_parsed(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int batch, heads, seq_len;
    } good[] = {
        {"small", 1, 8, 128},         {"mission", 2, 8, 512},           {"long", 2, 8, 2048},
        {"huge", 4, 16, 8192},        {"2x8x517", 2, 8, 517},           {"1x1x1", 1, 1, 1},
        {"4x16x65536", 4, 16, 65536}, {"1x1x33554432", 1, 1, 33554432},
    };
    for (size_t i = 0; i < LENGTH(good); ++i) {
        struct shape shape = shape_of(good[i].text);
        assert_string_equal(shape.name, good[i].text);
        assert_int_equal(shape.batch, good[i].batch);
        assert_int_equal(shape.heads, good[i].heads);
        assert_int_equal(shape.seq_len, good[i].seq_len);
    }
    struct shape mission = shape_of("mission");
    assert_int_equal(shape_elements(&mission), 2 * 8 * 512 * 64);
    assert_int_equal(mission.ragged, 0);
    assert_int_equal(shape_length(&mission, 1), 512);
    assert_true(shape_flops(&mission) == 4.0 * 16 * 512 * 512 * 64);
    assert_true(masked_flops(&mission, MASK_CAUSAL) == 4.0 * 16 * (512 * 513 / 2) * 64);
}

static void lengths_of_a_ragged_batch_are_drawn(void **state)
{
    (void)state;
    struct shape ragged = shape_of("64x2x100r7"), other = shape_of("64x2x100r8");
    int least = 100, most = 1, different = 0;
    double squares = 0;

    assert_string_equal(ragged.name, "64x2x100r7");
    assert_int_equal(ragged.ragged, 7);
    for (int b = 0; b < 64; ++b) {
        int length = shape_length(&ragged, b);
        assert_true(length >= 1 && length <= 100);
        least = length < least ? length : least;
        most = length > most ? length : most;
        different += length != shape_length(&other, b);
        squares += (double)length * length;
    }
    assert_true(least <= 10 && most >= 90 && different >= 50);
    assert_true(shape_flops(&ragged) == 4.0 * 2 * squares * 64);
    // Elements after the end of a sequence are drawn, too.
    assert_int_equal(shape_elements(&ragged), 64 * 2 * 100 * 64);
    assert_string_equal(shape_of("1x1x33554432r9999").name, "1x1x33554432r9999");
}

static void caches_are_parsed(void **state)
{
    (void)state;
    struct shape cache = shape_of("3x2x100q4p32"), ragged = shape_of("3x2x100q4p32r7");
    struct shape plain = shape_of("3x2x100r7");
    int tokens = 0;

    assert_string_equal(ragged.name, "3x2x100q4p32r7");
    assert_int_equal(cache.group, 4);
    assert_int_equal(cache.page, 32);
    assert_int_equal(cache.ragged, 0);
    assert_int_equal(ragged.ragged, 7);
    assert_int_equal(plain.group + plain.page, 0);
    assert_int_equal(shape_rows(&cache), 4);
    assert_int_equal(shape_rows(&plain), 100);
    assert_int_equal(shape_outputs(&cache), 3 * 2 * 4 * 64);
    assert_int_equal(shape_outputs(&plain), shape_elements(&plain));
    for (int b = 0; b < 3; ++b) {
        assert_int_equal(shape_length(&ragged, b), shape_length(&plain, b));
        assert_int_equal(shape_rows_asked(&ragged, b), 4);
        assert_int_equal(shape_rows_asked(&plain, b), shape_length(&plain, b));
        tokens += shape_length(&ragged, b);
    }
    assert_true(shape_flops(&ragged) == 4.0 * 64 * 2 * 4 * tokens);
    assert_true(shape_cache_bytes(&ragged) == 2.0 * tokens * (2 * 64 + 2));
    assert_string_equal(shape_of("128x32x8192q16p256r9999").name, "128x32x8192q16p256r9999");
}

static void prompts_are_parsed(void **state)
{
    (void)state;
    struct shape prompt = shape_of("3x2x100q4p32s7d128"), ragged = shape_of("64x2x100q4p32s40r7");
    struct shape wide = shape_of("2x8x512d128r3");
    int least = 40, most = 1;
    double pairs = 0;

    assert_int_equal(prompt.newest, 7);
    assert_int_equal(prompt.group, 4);
    assert_int_equal(prompt.page, 32);
    assert_int_equal(prompt.head_dim, 128);
    assert_int_equal(shape_head_dim(&prompt), 128);
    assert_int_equal(shape_head_dim(&ragged), 64);
    assert_int_equal(shape_query_heads(&prompt), 8);
    assert_int_equal(shape_rows(&prompt), 7);
    assert_int_equal(shape_outputs(&prompt), 3 * 8 * 7 * 128);
    assert_int_equal(shape_elements(&prompt), 3 * 2 * 100 * 128);
    assert_true(shape_cache_bytes(&prompt) == 3.0 * 100 * 2 * (2 * 128 + 2));
    assert_int_equal(shape_first_place(&prompt, 2), 93);
    assert_int_equal(shape_newest(&prompt, 2), 7);
    for (int b = 0; b < 64; ++b) {
        int length = shape_length(&ragged, b), asked = shape_rows_asked(&ragged, b);
        assert_true(asked >= 1 && asked <= 40 && asked <= length);
        assert_int_equal(shape_first_place(&ragged, b), length - asked);
        least = asked < least ? asked : least;
        most = asked > most ? asked : most;
        for (int row = 0; row < asked; ++row)
            pairs += keys_seen(MASK_CAUSAL, length, length - asked + row);
    }
    assert_true(least <= 5 && most >= 35);
    assert_true(masked_flops(&ragged, MASK_CAUSAL) == 4.0 * 64 * 8 * pairs);
    assert_int_equal(shape_newest(&wide, 0), 1);
    assert_int_equal(shape_first_place(&wide, 1), 0);
    assert_int_equal(shape_outputs(&wide), 2 * 8 * 512 * 128);
    assert_true(shape_softmax_scale(&wide) == (float)(1 / sqrt(128)));
    assert_string_equal(shape_of("8x8x4096q16p64s512d128").name, "8x8x4096q16p64s512d128");
    assert_string_equal(ragged.name, "64x2x100q4p32s40r7");
}

// A token's scale is the smallest power of two with which its codes fit, and at least 2^-32, which
// the smallest half needs.
static void a_token_has_the_smallest_scale_that_fits(void **state)
{
    (void)state;
    for (int exponent = -24; exponent <= 15; ++exponent)
        for (int eighth = 8; eighth < 16; ++eighth) {
            float largest = ldexpf((float)eighth / 8, exponent);
            float scale = e8m0_to_float(e8m0_for(largest));
            assert_true(largest <= 448 * scale);
            assert_true(largest > 448 * scale / 2 || e8m0_for(largest) == 95);
        }
    assert_int_equal(e8m0_for(0), 95);
    assert_int_equal(e8m0_for(448), 127);
    assert_int_equal(e8m0_for(448.1f), 128);
    assert_true(e8m0_to_float(126) == 0.5f);
}

static int plain_code_place(enum cache_tensor tensor, int slot, int d)
{
    return (slot * 2 + tensor) * HEAD_DIM + d;
}
static int plain_scale_place(enum cache_tensor tensor, int slot)
{
    return slot * 2 + tensor;
}

// Each token's codes and scales must be in its page; the newest ones only in `then`; all else must
// be NaN.
static void a_cache_has_each_token_in_its_page(void **state)
{
    (void)state;
    struct problem p = problem_of("3x2x70q4p16r3", INPUT_PEAKY, 5);
    struct cache_image image;
    size_t found = 0, nobodys = 0;
    bool used[3 * 5] = {false};

    assert_true(cache_image_create(&image, &p, plain_code_place, plain_scale_place));
    assert_int_equal(image.max_pages, 5);
    assert_int_equal(image.code_bytes, 3 * 5 * 2 * 2 * 16 * 64);
    assert_int_equal(image.bytes, image.code_bytes / 64 * 65);
    for (int job = 0; job < 6; ++job) {
        int b = job / 2, length = shape_length(&p.shape, b);
        for (int i = 0; i < 5; ++i) {
            int page = image.table[b * 5 + i];
            assert_true(i * 16 < length ? page >= 0 && page < 15 : page == -1);
            if (job % 2 == 0 && page >= 0) {
                assert_false(used[page]);
                used[page] = true;
            }
        }
        for (int t = 0; t < length; ++t) {
            size_t block = (size_t)image.table[b * 5 + t / 16] * 2 + job % 2;
            size_t at = block * 2 * 16 * 64 + (size_t)plain_code_place(CACHE_V, t % 16, 0);
            size_t scale =
                image.code_bytes + block * 2 * 16 + (size_t)plain_scale_place(CACHE_V, t % 16);
            size_t token = (size_t)job * 70 + t;
            assert_memory_equal(image.then + at, p.v_codes + token * 64, 64);
            assert_true(e8m0_to_float(image.then[scale]) == p.v_scales[token]);
            assert_int_equal(image.before[at], t < length - 1 ? image.then[at] : 0xff);
            assert_int_equal(image.before[scale], t < length - 1 ? image.then[scale] : 0xff);
            found += 2 * 65;
        }
    }
    for (size_t i = 0; i < image.bytes; ++i)
        nobodys += image.then[i] == 0xff;
    // All other bytes are 0xff, which is NaN as a code and as a scale.
    assert_int_equal(found + nobodys, image.bytes);
    cache_image_destroy(&image);
    problem_destroy(&p);
}

// The index of an element in a page with heads of 128.
static int wide_code_place(enum cache_tensor tensor, int slot, int d)
{
    return (slot * 2 + tensor) * 128 + d;
}
static void a_cache_is_asked_without_its_newest_tokens(void **state)
{
    (void)state;
    struct problem p = problem_of("3x2x70q4p16s30d128r3", INPUT_PEAKY, 5);
    struct cache_image image;

    assert_true(cache_image_create(&image, &p, wide_code_place, plain_scale_place));
    assert_int_equal(image.bytes, 3 * 5 * 2 * 2 * 16 * 129);
    for (int job = 0; job < 6; ++job) {
        int b = job / 2, length = shape_length(&p.shape, b);
        for (int t = 0; t < length; ++t) {
            size_t block = (size_t)image.table[b * 5 + t / 16] * 2 + job % 2;
            size_t at = block * 2 * 16 * 128 + (size_t)wide_code_place(CACHE_V, t % 16, 0);
            bool new = t >= length - shape_rows_asked(&p.shape, b);
            assert_memory_equal(image.then + at, p.v_codes + ((size_t)job * 70 + t) * 128, 128);
            assert_int_equal(image.before[at + 127], new ? 0xff : image.then[at + 127]);
        }
    }
    cache_image_destroy(&image);
    problem_destroy(&p);
}

static void malformed_shapes_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        const char *text, *why;
    } bad[] = {
        {"", "is no shape"},
        {"huger", "is no shape"},
        {"2x8", "\"2x8\" is no shape: write BxHxS (2x8x512) or small, mission, long, huge"},
        {"2x8x", "is no shape"},
        {"2x8x512x", "is no shape"},
        {"2x8x512x3", "is no shape"},
        {"2x8x512r", "is no shape"},
        {"2x8x512r0", "is no shape"},
        {"2x8x512r-1", "is no shape"},
        {"2x8x512r1x2", "is no shape"},
        {"2x8x512r10000", "is no shape"},
        {"2x8r1", "is no shape"},
        {"2x8x512q4", "\"2x8x512q4\" is no cache: write BxHxSqQpP (2x8x512q4p16)"},
        {"2x8x512q0p16", "is no cache"},
        {"2x8x512q17p16", "is no cache"},
        {"2x8x512q4p8", "is no cache"},
        {"2x8x512q4p48", "is no cache"},
        {"2x8x512q4p512", "is no cache"},
        {"2x8x512p16", "is no shape"},
        {"2x8x512p16q4", "is no shape"},
        {"2x8x512q4p16r", "is no shape"},
        {"2x8x512q4p16s0", "is no prompt: write BxHxSqQpPsN (2x8x512q4p16s32)"},
        {"2x8x512q4p16s513", "\"2x8x512q4p16s513\" is no prompt"},
        {"1x1x100000q4p16s65536", "is no prompt"},
        {"2x8x512s32", "is no shape"},
        {"2x8x512q4p16r1s32", "is no shape"},
        {"2x8x512d64", "\"2x8x512d64\": write d128 for heads of 128 elements, and nothing for 64"},
        {"2x8x512d", "write d128"},
        {"2x8x512d129", "write d128"},
        {"2x8x512r1d128", "is no shape"},
        {"1x1x16777217d128", "too large: B*H*S*128 may be at most 2^31"},
        {"64x8x60000q16p16s60000", "too large: B*H*Q*N*64 may be at most 2^31"},
        {"1x1x33554432q16p256r9999", "too long: a shape's name has at most 23 characters"},
        {"missionq4p16", "is no shape"},
        {"2x-8x512", "is no shape"},
        {" 2x8x512", "is no shape"},
        {"2x8x512 ", "is no shape"},
        {"2X8X512", "is no shape"},
        {"x8x512", "is no shape"},
        {"2x8x0", "\"2x8x0\": S must be at least 1"},
        {"0x8x512", "the batch must be at least 1"},
        {"2x0x512", "the number of heads must be at least 1"},
        {"1x1x33554433", "too large"},
        {"65536x65536x65536", "too large"},
        {"9223372036854775807x2x1", "too large"},
        {"99999999999999999999x1x1", "too large"},
    };
    for (size_t i = 0; i < LENGTH(bad); ++i) {
        struct shape shape;
        char why[256] = "";
        assert_false(shape_parse(bad[i].text, &shape, why, sizeof why));
        if (!strstr(why, bad[i].why) || strchr(why, '\n'))
            fail_msg("\"%s\": said: %s", bad[i].text, why);
    }
}

static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t size)
{
    for (const uint8_t *at = bytes; size > 0; --size)
        hash = (hash ^ *at++) * 0x100000001b3;
    return hash;
}

// The bytes of the inputs are fixed for ever, since stored outputs are compared across machines.
static void inputs_are_the_same_bytes_everywhere(void **state)
{
    (void)state;
    const struct {
        enum input_kind kind;
        uint64_t seed, hash;
    } known[] = {
        {INPUT_NORMAL, 0, 0x08c3adfa99a51924},
        {INPUT_NORMAL, 1, 0xa6039753c1e393d9},
        {INPUT_MEAN, 0, 0x1322b675df8d6a66},
        {INPUT_PEAKY, 2, 0x8abc6ad242b42d64},
    };
    for (size_t i = 0; i < LENGTH(known); ++i) {
        struct problem p = problem_of("2x3x33", known[i].kind, known[i].seed);
        size_t elements = shape_elements(&p.shape);
        uint64_t hash = fnv1a(0xcbf29ce484222325, p.q, elements * sizeof(float));
        hash = fnv1a(hash, p.k, elements * sizeof(float));
        hash = fnv1a(hash, p.v, elements * sizeof(float));
        hash = fnv1a(hash, p.q_codes, elements);
        hash = fnv1a(hash, p.k_codes, elements);
        hash = fnv1a(hash, p.v_codes, elements);
        hash = fnv1a(hash, p.v_scales, 3 * sizeof(float));
        if (hash != known[i].hash)
            fail_msg("%s, seed %d: 0x%016llx", input_kind_name(known[i].kind), (int)known[i].seed,
                     (unsigned long long)hash);
        problem_destroy(&p);
    }
}

static void inputs_are_normal(void **state)
{
    (void)state;
    struct problem p = problem_of("mission", INPUT_NORMAL, 7);
    struct problem other = problem_of("mission", INPUT_NORMAL, 8);
    const float *tensors[] = {p.q, p.k, p.v, other.q};
    size_t elements = shape_elements(&p.shape);

    for (size_t t = 0; t < LENGTH(tensors); ++t) {
        double mean = 0, square = 0, fourth = 0, beyond_2 = 0;
        for (size_t i = 0; i < elements; ++i) {
            double x = tensors[t][i];
            mean += x / elements;
            square += x * x / elements;
            fourth += x * x * x * x / elements;
            beyond_2 += (fabs(x) > 2) / (double)elements;
        }
        // The limits are four standard errors of half a million samples.
        assert_true(fabs(mean) < 0.0056);
        assert_true(fabs(square - 1) < 0.008);
        assert_true(fabs(fourth - 2.9) < 0.06); // twelve uniforms: 3 - 1.2 / 12
        assert_true(fabs(beyond_2 - 0.0455) < 0.0015);
        for (size_t u = 0; u < t; ++u) { // the tensors are uncorrelated
            double product = 0;
            for (size_t i = 0; i < elements; ++i)
                product += (double)tensors[t][i] * tensors[u][i] / elements;
            assert_true(fabs(product) < 0.0056);
        }
    }
    problem_destroy(&p);
    problem_destroy(&other);
}

static void the_kinds_of_input_differ_as_they_say(void **state)
{
    (void)state;
    struct problem normal = problem_of("2x3x517", INPUT_NORMAL, 3);
    struct problem mean = problem_of("2x3x517", INPUT_MEAN, 3);
    struct problem peaky = problem_of("2x3x517", INPUT_PEAKY, 3);
    size_t elements = shape_elements(&normal.shape);
    double largest = 0;

    for (size_t i = 0; i < elements; ++i) {
        assert_true(peaky.q[i] == 8 * normal.q[i]);
        assert_true(peaky.k[i] == normal.k[i]);
    }
    for (int d = 0; d < HEAD_DIM; ++d) {
        double sum = 0;
        for (size_t i = (size_t)d; i < elements; i += HEAD_DIM)
            sum += (double)mean.v[i];
        largest = fmax(largest, fabs(sum / (elements / HEAD_DIM)));
    }
    assert_true(largest > 0.5);
    problem_destroy(&normal);
    problem_destroy(&mean);
    problem_destroy(&peaky);
}

// How much a key's scores exceed the mean of all scores, as an exponent of 2, computed from the
// codes.
static double over_the_mean(const struct problem *p, int key)
{
    double sum[2] = {0}; // sums of the key's scores and of all scores
    int keys = p->shape.seq_len;

    for (int row = 0; row < keys; ++row) // rows of head 0, whose scale is the first
        for (int k = 0; k < keys; ++k) {
            double dot = 0;
            for (int d = 0; d < HEAD_DIM; ++d)
                dot += (double)e4m3_to_float(p->q_codes[row * HEAD_DIM + d]) *
                       (double)e4m3_to_float(p->k_codes[k * HEAD_DIM + d]);
            sum[1] += dot / keys;
            sum[0] += k == key ? dot : 0;
        }
    double unit = (double)(p->q_scales[0] * p->k_scales[0] * p->softmax_scale) / log(2);
    return (sum[0] - sum[1]) / keys * unit;
}

static void scores_follow_the_place_of_their_keys_where_inputs_say_so(void **state)
{
    (void)state;
    const struct {
        enum input_kind kind;
        double first, middle, last; // expected, relative to the mean
    } kinds[] = {
        {INPUT_SINK, 12 - 12. / 129, -12. / 129, -12. / 129},
        {INPUT_RISING, -20, 0, 20},
        {INPUT_FALLING, 20, 0, -20},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        struct problem p = problem_of("1x2x129", kinds[i].kind, 1);
        // The other channels' part of the mean over 129 rows is below 0.5; rounding K changes a
        // score by at most 1/16 of 40.
        assert_true(fabs(over_the_mean(&p, 0) - kinds[i].first) < 1.5);
        assert_true(fabs(over_the_mean(&p, 64) - kinds[i].middle) < 2);
        assert_true(fabs(over_the_mean(&p, 128) - kinds[i].last) < 1.5);
        problem_destroy(&p);
    }
}

// The row of K that row `row` of Q copies.
static const float *copied_key(const struct problem *p, size_t row)
{
    const struct shape *s = &p->shape;
    size_t query_heads = (size_t)shape_query_heads(s), dim = (size_t)shape_head_dim(s);
    size_t head = row / (size_t)shape_rows(s); // of Q, over all batches
    size_t pair = head / query_heads * s->heads + head % query_heads / (query_heads / s->heads);

    return p->k + (pair * s->seq_len + (size_t)needle_place(p, row)) * dim;
}

static void each_query_of_a_needle_is_a_copy_of_one_key(void **state)
{
    (void)state;
    const char *const shapes[] = {"2x3x257", "3x2x33r5", "3x2x70q4p16r3", "2x2x40q4p16s9d128r2"};

    for (size_t i = 0; i < LENGTH(shapes); ++i) {
        struct problem p = problem_of(shapes[i], INPUT_NEEDLE, 1);
        size_t dim = (size_t)shape_head_dim(&p.shape), rows = shape_outputs(&p.shape) / dim;
        int per_batch = shape_query_heads(&p.shape) * shape_rows(&p.shape);
        int places[64] = {0};
        for (size_t row = 0; row < rows; ++row) {
            int place = needle_place(&p, row), batch = (int)row / per_batch;
            assert_in_range(place, 0, shape_length(&p.shape, batch) - 1);
            if (p.shape.newest)
                assert_in_range(place, 0, shape_first_place(&p.shape, batch));
            for (size_t d = 0; d < dim; ++d) {
                float q = p.q[row * dim + d];
                q = p.shape.page ? half_to_float(half_from_float(q)) : q;
                assert_true(q == copied_key(&p, row)[d]);
            }
            ++places[place % (int)LENGTH(places)];
        }
        for (int place = 0; i == 0 && place < (int)LENGTH(places); ++place)
            assert_in_range(places[place], 1, rows / 16); // they are spread over all keys
        problem_destroy(&p);
    }
}

// Finds needles in an output whose rows are the values of the keys `off` places after those that
// the queries copy.
static struct needles found_after(const struct problem *p, int off)
{
    size_t rows = shape_elements(&p->shape) / HEAD_DIM, keys = (size_t)p->shape.seq_len;
    float *out = malloc(rows * HEAD_DIM * sizeof *out);
    struct needles needles;

    for (size_t row = 0; row < rows; ++row) {
        size_t key = (size_t)(needle_place(p, row) + off) % keys;
        memcpy(out + row * HEAD_DIM, p->v + (row / keys * keys + key) * HEAD_DIM,
               HEAD_DIM * sizeof *out);
    }
    assert_true(needles_find(p, (struct rows){0, 3}, out, &needles));
    free(out);
    return needles;
}

static void a_needle_is_found_if_its_value_is_the_outputs_largest_part(void **state)
{
    (void)state;
    struct problem p = problem_of("2x2x129", INPUT_NEEDLE, 4);
    float *ref = malloc(shape_outputs(&p.shape) * sizeof *ref);
    struct needles own = found_after(&p, 0), next = found_after(&p, 1), exact;

    assert_int_equal(own.of, 4 * 44); // every third row, and the last
    assert_int_equal(own.found, own.of);
    assert_true(fabs(own.share - 1) < 0.01); // V is rounded
    assert_int_equal(next.found, 0);
    assert_true(fabs(next.share) < 0.05);
    assert_true(reference_dequantised(&p, (struct rows){0, 3}, 0, ref));
    assert_true(needles_find(&p, (struct rows){0, 3}, ref, &exact));
    assert_in_range(exact.found, own.of - 2, own.of);
    assert_true(exact.share > 0.8 && exact.share < 1);
    free(ref);
    problem_destroy(&p);
}

static void scales_are_per_head_and_shared_by_the_batches(void **state)
{
    (void)state;
    struct problem p = problem_of("3x2x33", INPUT_MEAN, 5);
    size_t head_elements = (size_t)p.shape.seq_len * HEAD_DIM;

    for (int h = 0; h < 2; ++h) {
        float largest = 0;
        int saturated = 0;
        for (int b = 0; b < 3; ++b) {
            size_t base = (b * 2 + h) * head_elements;
            for (size_t i = base; i < base + head_elements; ++i) {
                double value = (double)e4m3_to_float(p.k_codes[i]) * p.k_scales[h];
                // The error is at most half a step: 2^-4 of the value, or of the least normal
                // number.
                assert_true(fabs(value - p.k[i]) <=
                            fmax(fabs(p.k[i]), 0x1p-6 * p.k_scales[h]) * 0x1.00001p-4);
                largest = fmaxf(largest, fabsf(p.k[i]));
                saturated += (p.k_codes[i] & 0x7f) == 0x7e;
            }
        }
        assert_true(p.k_scales[h] == largest / 448);
        assert_true(saturated >= 1);
    }
    assert_true(p.k_scales[0] != p.k_scales[1]);
    problem_destroy(&p);
}

// ---- Reference ----------------------------------------------------------------------------------

// The value of a code. It is looked up in a table, since this is called millions of times.
static double dequantised(const uint8_t *codes, float scale, size_t i)
{
    static float numbers[256];

    if (numbers[1] == 0)
        for (int code = 0; code < 256; ++code)
            numbers[code] = e4m3_to_float((uint8_t)code);
    return (double)numbers[codes[i]] * scale;
}

static double as_half(const float *values, size_t i)
{
    return half_to_float(half_from_float(values[i]));
}

// K of a head as doubles, [seq_len][HEAD_DIM]: from its codes, or rounded to half. For the caller
// to free.
static double *keys_of_head(const struct problem *p, int head, bool fp16)
{
    size_t count = (size_t)p->shape.seq_len * HEAD_DIM, base = head * count;
    float scale = p->k_scales[head % p->shape.heads];
    double *keys = malloc(count * sizeof *keys);

    assert_non_null(keys);
    for (size_t i = 0; i < count; ++i)
        keys[i] = fp16 ? as_half(p->k, base + i) : dequantised(p->k_codes, scale, base + i);
    return keys;
}

// V of a head, transposed: [HEAD_DIM][seq_len] doubles. For the caller to free.
static double *values_of_head(const struct problem *p, int head)
{
    int seq_len = p->shape.seq_len;
    double *values = malloc((size_t)seq_len * HEAD_DIM * sizeof *values);

    assert_non_null(values);
    for (int j = 0; j < seq_len; ++j)
        for (int d = 0; d < HEAD_DIM; ++d)
            values[(size_t)d * seq_len + j] =
                dequantised(p->v_codes, p->v_scales[head % p->shape.heads],
                            ((size_t)head * seq_len + j) * HEAD_DIM + d);
    return values;
}

// The weights exp(score - max) of one row and their sum, computed in the plain way.
static double weights_of_row(const struct problem *p, int head, int row, bool fp16,
                             const double *keys, double *weights)
{
    size_t base = (size_t)head * p->shape.seq_len * HEAD_DIM;
    int h = head % p->shape.heads;
    int length = shape_length(&p->shape, head / p->shape.heads);
    double largest = -INFINITY, sum = 0, query[HEAD_DIM];

    for (int d = 0; d < HEAD_DIM; ++d) {
        size_t at = base + (size_t)row * HEAD_DIM + d;
        query[d] = fp16 ? as_half(p->q, at) : dequantised(p->q_codes, p->q_scales[h], at);
    }
    for (int j = 0; j < p->shape.seq_len; ++j) {
        double dot = 0;
        bool seen = j < length && (p->mask == MASK_NONE || j <= row);
        for (int d = 0; d < HEAD_DIM; ++d)
            dot += query[d] * keys[(size_t)j * HEAD_DIM + d];
        weights[j] = seen ? dot / 8 : -INFINITY;
        largest = fmax(largest, weights[j]);
    }
    for (int j = 0; j < p->shape.seq_len; ++j)
        sum += weights[j] = exp(weights[j] - largest);
    return sum;
}

static void check_reference(const char *shape, enum input_kind kind, enum mask mask, bool fp16)
{
    struct problem p = problem_of(shape, kind, 11);
    p.mask = mask;
    int seq_len = p.shape.seq_len;
    size_t elements = shape_elements(&p.shape);
    float *ref = malloc(elements * sizeof *ref);
    double *weights = malloc(seq_len * sizeof *weights);
    struct rows all = {0, 1};

    for (size_t i = 0; i < elements; ++i)
        ref[i] = -1234; // rows after a sequence's end must keep this
    assert_true(fp16 ? reference_fp16(&p, all, 2, ref) : reference_dequantised(&p, all, 2, ref));
    for (int head = 0; head < p.shape.batch * p.shape.heads; ++head) {
        int length = shape_length(&p.shape, head / p.shape.heads);
        for (int row = length; row < seq_len; ++row)
            assert_true(ref[((size_t)head * seq_len + row) * HEAD_DIM] == -1234);
        double *keys = keys_of_head(&p, head, fp16);
        for (int row = 0; row<length; row += seq_len> 40 ? 37 : 1) {
            double sum = weights_of_row(&p, head, row, fp16, keys, weights);
            for (int d = 0; d < HEAD_DIM; ++d) {
                size_t base = (size_t)head * seq_len * HEAD_DIM + d;
                double expected = 0;
                for (int j = 0; j < seq_len; ++j)
                    expected += weights[j] / sum *
                                (fp16 ? as_half(p.v, base + (size_t)j * HEAD_DIM)
                                      : dequantised(p.v_codes, p.v_scales[head % p.shape.heads],
                                                    base + (size_t)j * HEAD_DIM));
                float got = ref[base + (size_t)row * HEAD_DIM];
                // The error of rounding the result to float or to half (rounding twice may differ).
                double step = fp16 ? fabs(expected) * 0x1.01p-11 + 0x1p-25
                                   : fabs(expected) * 0x1.01p-24 + 1e-14;
                if (!(fabs(got - expected) <= step))
                    fail_msg("%s, %s: head %d, row %d, column %d: %.9g, not %.9g", shape,
                             input_kind_name(kind), head, row, d, got, expected);
            }
        }
        free(keys);
    }
    free(weights);
    free(ref);
    problem_destroy(&p);
}

// Each query head of a group sees all of its sequence's tokens, each token with its own scales.
static void references_of_a_cache_agree_with_the_plain_way(void **state)
{
    (void)state;
    struct problem p = problem_of("3x2x40q5p16r2", INPUT_PEAKY, 11);
    float ref[3 * 2 * 5 * HEAD_DIM];

    assert_true(reference_dequantised(&p, reference_rows(&p.shape), 2, ref));
    for (int job = 0; job < 6; ++job)
        for (int row = 0; row < 5; ++row) {
            const float *q = p.q + ((size_t)job * 5 + row) * HEAD_DIM;
            double out[HEAD_DIM] = {0}, sum = 0;
            for (int t = 0; t < shape_length(&p.shape, job / 2); ++t) {
                size_t token = (size_t)job * 40 + t;
                double dot = 0;
                for (int d = 0; d < HEAD_DIM; ++d)
                    dot += half_to_float(half_from_float(q[d])) *
                           (double)dequantised(p.k_codes, p.k_scales[token], token * HEAD_DIM + d);
                double weight = exp(dot / 8); // peaky: dot / 8 is below 100
                sum += weight;
                for (int d = 0; d < HEAD_DIM; ++d)
                    out[d] +=
                        weight * dequantised(p.v_codes, p.v_scales[token], token * HEAD_DIM + d);
            }
            for (int d = 0; d < HEAD_DIM; ++d) {
                double expected = out[d] / sum, got = ref[(job * 5 + row) * HEAD_DIM + d];
                assert_true(fabs(got - expected) <= fabs(expected) * 1e-6 + 1e-9);
            }
        }
    problem_destroy(&p);
}

// A prompt's query heads see their head of keys up to their own token: queries are the last tokens
// of a sequence.
static void check_prompt_reference(const char *text)
{
    struct problem p = problem_of(text, INPUT_PEAKY, 12);
    const struct shape *s = &p.shape;
    int heads = shape_query_heads(s), rows = shape_rows(s), dim = shape_head_dim(s);
    float *ref = malloc(shape_outputs(s) * sizeof *ref);

    p.mask = MASK_CAUSAL;
    assert_non_null(ref);
    for (size_t i = 0; i < shape_outputs(s); ++i)
        ref[i] = -1234;
    assert_true(reference_dequantised(&p, reference_rows(s), 2, ref));
    for (int job = 0; job < s->batch * heads; ++job)
        for (int row = 0; row < rows; ++row) {
            int b = job / heads, pair = b * s->heads + job % heads / s->group;
            size_t at = (size_t)job * rows + row;
            int asked = shape_rows_asked(s, b), seen = shape_length(s, b) - asked + row + 1;
            double out[HEAD_DIM_MOST] = {0}, sum = 0, largest = 0;
            if (row >= asked) {
                assert_true(ref[at * dim] == -1234);
                continue;
            }
            for (int pass = 0; pass < 2; ++pass)
                for (int t = 0; t < seen; ++t) {
                    size_t token = (size_t)pair * s->seq_len + t;
                    double dot = 0;
                    for (int d = 0; d < dim; ++d)
                        dot += (double)dequantised(p.q_codes, p.q_scales[at], at * dim + d) *
                               dequantised(p.k_codes, p.k_scales[token], token * dim + d);
                    dot *= (double)p.softmax_scale;
                    largest = pass || dot < largest ? largest : dot;
                    double weight = pass ? exp(dot - largest) : 0;
                    sum += weight;
                    for (int d = 0; d < dim; ++d)
                        out[d] +=
                            weight * dequantised(p.v_codes, p.v_scales[token], token * dim + d);
                }
            for (int d = 0; d < dim; ++d) {
                double expected = out[d] / sum, got = ref[at * dim + d];
                assert_true(fabs(got - expected) <= fabs(expected) * 1e-6 + 1e-9);
            }
        }
    free(ref);
    problem_destroy(&p);
}

static void references_of_a_prompt_agree_with_the_plain_way(void **state)
{
    (void)state;
    check_prompt_reference("3x2x40q5p16s9r2");
    check_prompt_reference("1x2x33q3p16s33");
    check_prompt_reference("2x1x20q2p16s7d128");
}

// A prompt's halves are exactly the values of its codes.
static void halves_hold_a_prompts_queries(void **state)
{
    (void)state;
    struct problem p = problem_of("2x2x40q4p16s9", INPUT_PEAKY, 3);
    struct problem one = problem_of("2x2x40q4p16", INPUT_PEAKY, 3);
    size_t different = 0;

    for (size_t i = 0; i < shape_outputs(&p.shape); ++i) {
        float value = dequantised(p.q_codes, p.q_scales[i / 64], i);
        assert_true(half_to_float(half_from_float(value)) == value);
        assert_true(fabsf(value - p.q[i]) <= fabsf(p.q[i]) / 16 + p.q_scales[i / 64] / 1024);
        different += value != p.q[i];
    }
    assert_true(different > 4000);
    assert_memory_equal(p.q, one.q, shape_outputs(&one.shape) * sizeof *p.q);
    assert_null(one.q_codes);
    problem_destroy(&p);
    problem_destroy(&one);
}

static void references_agree_with_the_plain_way(void **state)
{
    (void)state;
    const char *const shapes[] = {"1x1x1", "2x3x5", "1x2x33", "1x3x239", "2x1x517"};
    for (size_t i = 0; i < LENGTH(shapes); ++i) {
        for (int kind = 0; kind < INPUT_KINDS; ++kind) {
            check_reference(shapes[i], kind, MASK_NONE, false);
            check_reference(shapes[i], kind, MASK_NONE, true);
        }
    }
}

static void references_agree_with_the_plain_way_under_a_mask(void **state)
{
    (void)state;
    const char *const shapes[] = {"1x1x1", "2x3x5", "1x2x33", "2x1x517", "5x2x33r1", "3x1x517r2"};
    for (size_t i = 0; i < LENGTH(shapes); ++i) {
        check_reference(shapes[i], INPUT_MEAN, MASK_CAUSAL, false);
        check_reference(shapes[i], INPUT_PEAKY, MASK_CAUSAL, true);
        check_reference(shapes[i], INPUT_NORMAL, MASK_NONE, false);
    }
}

// The first query sees one key: its output is that key's value, whatever its score.
static void the_first_row_under_a_mask_is_the_first_value(void **state)
{
    (void)state;
    struct problem p = problem_of("2x2x77", INPUT_PEAKY, 3);
    float *ref = malloc(shape_elements(&p.shape) * sizeof *ref);
    const struct p_rounding e4m3 = {P_E4M3, 8, true, 32, 1, true, 0, 0, 0, 0};

    p.mask = MASK_CAUSAL;
    for (int rounded = 0; rounded < 2; ++rounded) {
        assert_true(rounded ? reference_rounded_p(&p, (struct rows){0, 1}, 0, e4m3, ref)
                            : reference_dequantised(&p, (struct rows){0, 1}, 0, ref));
        for (int head = 0; head < 4; ++head)
            for (int d = 0; d < HEAD_DIM; ++d) {
                size_t i = (size_t)head * 77 * HEAD_DIM + d;
                assert_true(ref[i] == (float)dequantised(p.v_codes, p.v_scales[head % 2], i));
            }
    }
    free(ref);
    problem_destroy(&p);
}

// Rows past a sequence's length may contain anything, even NaN, and are not measured; all rows
// before the length count.
static void rows_past_a_length_are_not_measured(void **state)
{
    (void)state;
    struct shape shape = shape_of("3x1x9r1");
    float ref[3 * 9 * HEAD_DIM];
    uint16_t out[3 * 9 * HEAD_DIM];

    for (int b = 0; b < 3; ++b)
        for (int i = 0; i < 9 * HEAD_DIM; ++i) {
            bool within = i < shape_length(&shape, b) * HEAD_DIM;
            ref[b * 9 * HEAD_DIM + i] = within ? 1 : NAN;
            out[b * 9 * HEAD_DIM + i] = within ? half_from_float(1) : 0xffff;
        }
    struct error_metrics m = error_measure(&shape, (struct rows){0, 1}, out, ref);
    assert_true(m.rel_head == 0 && m.rel_row == 0 && m.not_finite == 0);
    size_t last = (size_t)(2 * 9 + shape_length(&shape, 2)) * HEAD_DIM - 1;
    out[last] = half_from_float(1.5f);
    m = error_measure(&shape, (struct rows){0, 1}, out, ref);
    assert_float_equal(m.rel_row, 0.5 / 8, 1e-12);
    out[last] = 0xffff;
    m = error_measure(&shape, (struct rows){0, 1}, out, ref);
    assert_int_equal(m.not_finite, 1);
}

static void check_rounded_reference(const char *shape, enum input_kind kind, struct p_rounding how)
{
    struct problem p = problem_of(shape, kind, 11);
    int seq_len = p.shape.seq_len;
    size_t elements = shape_elements(&p.shape);
    float *ref = malloc(elements * sizeof *ref);
    double *weights = malloc(seq_len * sizeof *weights);

    assert_true(ref && weights);
    assert_true(reference_rounded_p(&p, (struct rows){0, 1}, 0, how, ref));
    for (int head = 0; head < p.shape.batch * p.shape.heads; ++head) {
        double *keys = keys_of_head(&p, head, false), *values = values_of_head(&p, head);
        for (int row = 0; row < seq_len; ++row) {
            size_t base = (size_t)head * seq_len * HEAD_DIM;
            double sum = ldexp(weights_of_row(&p, head, row, false, keys, weights), how.offset);
            double rounded_sum = 0, maximum = 1; // 1: the row's maximum, whose weight is 1
            double first_mean = 0;
            for (int j = 0; j < seq_len; ++j) {
                if (how.tile > 0 && j % how.tile == 0) { // the kernel may use an older maximum
                    double highest = 0;
                    for (int i = j; i < j + how.tile && i < seq_len; ++i)
                        highest = fmax(highest, weights[i]);
                    bool too_high = j > 0 && highest > maximum * exp2(how.lag);
                    double powers = 0; // sum of log2(P), at least -7 each, over the tile's columns
                    for (int i = j; i < j + how.tile; ++i)
                        powers +=
                            i < seq_len ? fmax(log2(weights[i] / maximum) + how.offset, -7) : -7;
                    bool heavy =
                        log2(first_mean / maximum) + how.offset > -7 &&
                        log2(highest / maximum) + how.offset > powers / how.tile + how.heavy;
                    if (too_high && how.room > 0 && !heavy) {
                        double high = highest / maximum, fits = exp2(how.lag);
                        double by = high / fits * exp2(how.room), least = high / fits;
                        double mean = first_mean / maximum * exp2(how.offset);
                        if (mean > exp2(how.lost)) // P may fall to 2^kept
                            by = fmax(least, fmin(by, mean * exp2(-how.kept)));
                        maximum *= by;
                    } else if (j == 0 || too_high) {
                        maximum = highest;
                        bool has_mean = j == 0 || how.room == 0;
                        double mean = 1; // the geometric mean; 0 for the last tile
                        for (int i = j; i < j + how.tile; ++i)
                            mean *= j + how.tile < seq_len ? pow(weights[i], 1.0 / how.tile) : 0;
                        if (how.mean && has_mean && mean * exp2(how.offset) > maximum)
                            maximum = mean * exp2(how.offset);
                        first_mean = has_mean ? mean : first_mean;
                    }
                }
                float scaled = (float)ldexp(weights[j] / maximum, how.offset);
                weights[j] = e4m3_to_float(e4m3_from_float(scaled)) * maximum;
                rounded_sum += weights[j];
            }
            for (int d = 0; d < HEAD_DIM; ++d) {
                double expected = 0;
                for (int j = 0; j < seq_len; ++j)
                    expected += weights[j] * values[(size_t)d * seq_len + j];
                expected /= how.sum_rounded ? rounded_sum : sum;
                float got = ref[base + (size_t)row * HEAD_DIM + d];
                if (!(fabs(got - expected) <= fabs(expected) * 0x1.01p-24 + 1e-14))
                    fail_msg("%s, %s, offset %d: head %d, row %d, column %d: %.9g, not %.9g", shape,
                             input_kind_name(kind), how.offset, head, row, d, got, expected);
            }
        }
        free(values);
        free(keys);
    }
    free(weights);
    free(ref);
    problem_destroy(&p);
}

static void references_with_p_rounded_agree_with_the_plain_way(void **state)
{
    (void)state;
    const char *const shapes[] = {"1x1x1", "2x3x5", "1x1x130"};
    const int offsets[] = {0, 8, 10, -12}; // with 10, P exceeds 448; with -12, it is below the
                                           // smallest code
    for (size_t i = 0; i < LENGTH(shapes); ++i)
        for (int kind = 0; kind < INPUT_KINDS; ++kind)
            for (size_t j = 0; j < LENGTH(offsets); ++j) {
                check_rounded_reference(
                    shapes[i], kind, (struct p_rounding){.format = P_E4M3, .offset = offsets[j]});
                if (offsets[j] >= 0) // else the sum is 0
                    check_rounded_reference(shapes[i], kind,
                                            (struct p_rounding){.format = P_E4M3,
                                                                .offset = offsets[j],
                                                                .sum_rounded = true});
            }
}

static void references_whose_maximum_lags_agree_with_the_plain_way(void **state)
{
    (void)state;
    const double lags[] = {0, 1.5, 3.8625};
    for (size_t i = 0; i < LENGTH(lags); ++i)
        for (int kind = 0; kind < INPUT_KINDS; ++kind)
            for (int tile = 8; tile <= 128; tile *= 4) {
                check_rounded_reference(
                    "2x3x77", kind,
                    (struct p_rounding){P_E4M3, 5, true, tile, lags[i], false, 0, 0, 0, 0});
                check_rounded_reference(
                    "1x1x239", kind,
                    (struct p_rounding){P_E4M3, 5, false, tile, lags[i], false, 0, 0, 0, 0});
                check_rounded_reference(
                    "1x1x149", kind,
                    (struct p_rounding){P_E4M3, 8, true, tile, lags[i], true, 0, 0, 0, 0});
            }
}

static void references_whose_rises_leave_room_agree_with_the_plain_way(void **state)
{
    (void)state;
    const double lags[] = {0, 0.8625, 3.5}; // exponents of 2
    for (size_t i = 0; i < LENGTH(lags); ++i)
        for (int kind = 0; kind < INPUT_KINDS; ++kind)
            for (int tile = 8; tile <= 32; tile *= 4) {
                struct p_rounding how = {P_E4M3, 8, true, tile, lags[i], true, 7, -5, -10, 4};
                check_rounded_reference("1x2x149", kind, how);
            }
}

static void room_is_left_by_rises_alone(void **state)
{
    (void)state;
    const struct p_rounding none = {P_E4M3, 8, true, 32, 0.8625, true, 0, 0, 0, 0};
    struct p_rounding some = none;
    some.room = 4;
    some.kept = -5;
    some.lost = -10;
    some.heavy = 8;
    const struct {
        const char *shape;
        enum input_kind kind;
        bool differ;
    } cases[] = {{"1x1x149", INPUT_RISING, true}, {"1x1x32", INPUT_RISING, false}}; // a single tile
    for (size_t i = 0; i < LENGTH(cases); ++i) {
        struct problem p = problem_of(cases[i].shape, cases[i].kind, 1);
        size_t bytes = shape_elements(&p.shape) * sizeof(float);
        float *without = malloc(bytes), *with = malloc(bytes);
        assert_true(reference_rounded_p(&p, (struct rows){0, 1}, 0, none, without));
        assert_true(reference_rounded_p(&p, (struct rows){0, 1}, 0, some, with));
        assert_int_equal(memcmp(without, with, bytes) != 0, cases[i].differ);
        free(without);
        free(with);
        problem_destroy(&p);
    }
}

static void p_that_is_not_told_is_not_rounded(void **state)
{
    (void)state;
    struct problem p = problem_of("1x3x77", INPUT_NORMAL, 1);
    size_t bytes = shape_elements(&p.shape) * sizeof(float);
    float *plain = malloc(bytes), *told = malloc(bytes);

    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 0, plain));
    assert_true(reference_rounded_p(&p, (struct rows){0, 1}, 0, (struct p_rounding){0}, told));
    assert_memory_equal(plain, told, bytes);
    free(plain);
    free(told);
    problem_destroy(&p);
}

static void references_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    struct problem p = problem_of("2x3x239", INPUT_NORMAL, 1);
    size_t bytes = shape_elements(&p.shape) * sizeof(float);
    float *one = malloc(bytes), *seven = malloc(bytes);

    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 1, one));
    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 7, seven));
    assert_memory_equal(one, seven, bytes);
    free(one);
    free(seven);
    problem_destroy(&p);
}

static void sampled_rows_are_the_same_and_the_others_left_alone(void **state)
{
    (void)state;
    struct problem p = problem_of("1x2x239", INPUT_NORMAL, 1);
    size_t elements = shape_elements(&p.shape);
    float *all = malloc(elements * sizeof *all), *some = malloc(elements * sizeof *some);
    struct rows rows = {2, 50};

    for (size_t i = 0; i < elements; ++i)
        some[i] = 1234;
    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 0, all));
    assert_true(reference_dequantised(&p, rows, 0, some));
    for (size_t i = 0; i < elements; ++i) {
        int row = (int)(i / HEAD_DIM % 239);
        bool covered = row % 50 == 2 || row == 238;
        assert_true(some[i] == (covered ? all[i] : 1234));
    }
    free(all);
    free(some);
    problem_destroy(&p);
}

static void covered_rows_include_the_first_and_last_tile(void **state)
{
    (void)state;
    const char *const shapes[] = {"1x1x1",    "mission",  "long",      "1x1x2049",
                                  "1x1x8300", "1x1x4097", "1x1x65536", "huge"};
    for (size_t i = 0; i < LENGTH(shapes); ++i) {
        struct shape shape = shape_of(shapes[i]);
        struct rows rows = reference_rows(&shape);
        int count = 0, last = -1;
        unsigned positions = 0; // rows modulo 32 that were seen
        for (int row = rows.first; row < shape.seq_len; row = rows_next(rows, shape.seq_len, row)) {
            assert_true(row > last);
            last = row;
            positions |= 1u << row % 32;
            ++count;
        }
        assert_int_equal(rows.first, 0);
        assert_int_equal(last, shape.seq_len - 1);
        assert_true(shape.seq_len <= 2048 ? count == shape.seq_len : count >= 63 && count <= 66);
        assert_true(shape.seq_len < 32 || positions == 0xffffffff);
    }
}

// ---- Gates --------------------------------------------------------------------------------------

static void metrics_are_what_they_say(void **state)
{
    (void)state;
    struct shape shape = shape_of("1x2x2");
    struct rows all = {0, 1};
    float ref[4 * HEAD_DIM];
    uint16_t out[4 * HEAD_DIM];

    for (int i = 0; i < 4 * HEAD_DIM; ++i) {
        ref[i] = 1;
        out[i] = half_from_float(1);
    }
    struct error_metrics m = error_measure(&shape, all, out, ref);
    assert_true(m.rel_head == 0 && m.rel_row == 0 && m.max_abs == 0 && m.mean_abs == 0);
    assert_true(m.bad_percent == 0 && m.not_finite == 0);
    assert_true(gate_relative(&m, GATE_TOLERANCE) && gate_sources(&m));

    out[3 * HEAD_DIM] = half_from_float(1.5f); // in the last row of the second head
    m = error_measure(&shape, all, out, ref);
    assert_float_equal(m.rel_row, 0.5 / 8, 1e-12);
    assert_float_equal(m.rel_head, 0.5 / sqrt(128), 1e-12);
    assert_float_equal(m.max_abs, 0.5, 1e-12);
    assert_float_equal(m.mean_abs, 0.5 / 256, 1e-12);
    assert_float_equal(m.bad_percent, 100.0 / 256, 1e-12);
    assert_false(gate_relative(&m, GATE_TOLERANCE));
    assert_true(gate_relative(&m, 0.05));   // 0.044 in the head; 0.0625 in the row, below 4 * 0.05
    assert_false(gate_relative(&m, 0.015)); // 0.044 is too much for the head

    out[3 * HEAD_DIM] = half_from_float(1);
    const uint16_t not_numbers[] = {0x7c00, 0xfc00, 0x7e00, 0xffff};
    for (size_t i = 0; i < LENGTH(not_numbers); ++i) {
        out[17] = not_numbers[i];
        m = error_measure(&shape, (struct rows){1, 2}, out, ref); // although row 0 is not covered
        assert_int_equal(m.not_finite, 1);
        assert_true(isnan(m.rel_head) && isnan(m.rel_row) && isnan(m.max_abs));
        assert_true(isnan(m.mean_abs) && isnan(m.bad_percent));
        assert_false(gate_relative(&m, 1e9));
        assert_false(gate_sources(&m));
    }
    struct error_metrics nan = {.rel_head = NAN};
    assert_false(gate_relative(&nan, GATE_TOLERANCE));
}

static void errors_against_zero_are_infinite_not_nothing(void **state)
{
    (void)state;
    struct shape shape = shape_of("1x1x1");
    float ref[HEAD_DIM] = {0};
    uint16_t out[HEAD_DIM] = {0};
    struct error_metrics m = error_measure(&shape, (struct rows){0, 1}, out, ref);

    assert_true(m.rel_head == 0 && m.rel_row == 0 && gate_relative(&m, GATE_TOLERANCE));
    out[5] = 1;
    m = error_measure(&shape, (struct rows){0, 1}, out, ref);
    assert_true(isinf(m.rel_head) && isinf(m.rel_row));
    assert_false(gate_relative(&m, GATE_TOLERANCE));
}

// Mistakes of kernels, made here in a few rows of every head.
enum mistake {
    NONE,
    HALF_P, // right: P is rounded to half, then the output
    E4M3_P, // P is rounded to E4M3 relative to the maximum so far: right for a program that says so
    ZEROS,
    MEAN_V,
    FLIPPED,
    FIRST_TILE,
    MIDDLE_TILE,
    LAST_TILE,
    OTHER_HEAD,
    UNSCALED_V,
    STALE_ROW,
    NAN_ONCE,
    INFINITE_ONCE,
    MISTAKES
};
static const char *const mistake_names[] = {
    "no mistake",
    "P in half",
    "P in E4M3",
    "zeros",
    "mean(V)",
    "flipped sign",
    "first tile dropped",
    "middle tile dropped",
    "last tile dropped",
    "another head's",
    "V without its scale",
    "one row not written",
    "a NaN",
    "an infinity",
};

// Computes a row with each mistake, in one pass over the head's keys and values; `weights` has room
// for 3 * seq_len doubles.
static void wrong_rows(const struct problem *p, int head, int row, const double *keys,
                       const double *values, double *weights, double out[MISTAKES][HEAD_DIM])
{
    int seq_len = p->shape.seq_len, heads = p->shape.heads;
    double sum = weights_of_row(p, head, row, false, keys, weights);
    double *half = weights + seq_len, *e4m3 = half + seq_len; // the weights, rounded
    int tiles = (seq_len + 31) / 32;
    const int dropped[] = {[FIRST_TILE] = 0, [MIDDLE_TILE] = tiles / 2, [LAST_TILE] = tiles - 1};
    double sums[MISTAKES], half_sum = 0, largest = 0; // largest: the largest weight in tiles so far

    for (int m = 0; m < MISTAKES; ++m)
        sums[m] = sum;
    memset(out, 0, MISTAKES * sizeof *out);
    for (int j = 0; j < seq_len; ++j) {
        half[j] = half_to_float(half_from_float((float)weights[j]));
        for (int next = j; j % 32 == 0 && next < j + 32 && next < seq_len; ++next)
            largest = fmax(largest, weights[next]);
        float scaled = (float)(weights[j] / largest * 256);
        e4m3[j] = e4m3_to_float(e4m3_from_float(scaled)) * largest / 256;
        half_sum += weights[j]; // kernels sum before they round
        for (int m = FIRST_TILE; m <= LAST_TILE; ++m)
            if (j / 32 == dropped[m])
                sums[m] -= weights[j];
    }
    sums[HALF_P] = half_sum;
    for (int d = 0; d < HEAD_DIM; ++d) {
        const double *v = values + (size_t)d * seq_len;
        for (int tile = 0; tile < tiles; ++tile) {
            double exact = 0, in_half = 0, in_e4m3 = 0, unweighted = 0;
            for (int j = 32 * tile; j < seq_len && j < 32 * tile + 32; ++j) {
                exact += weights[j] * v[j];
                in_half += half[j] * v[j];
                in_e4m3 += e4m3[j] * v[j];
                unweighted += v[j];
            }
            out[NONE][d] += exact;
            out[HALF_P][d] += in_half;
            out[E4M3_P][d] += in_e4m3;
            out[MEAN_V][d] += unweighted * sum / seq_len;
            for (int m = FIRST_TILE; m <= LAST_TILE; ++m)
                if (tile != dropped[m])
                    out[m][d] += exact;
        }
        out[FLIPPED][d] = -out[NONE][d];
        out[STALE_ROW][d] = row == seq_len - 1 ? 0 : out[NONE][d];
        out[NAN_ONCE][d] = out[INFINITE_ONCE][d] = out[NONE][d];
        out[UNSCALED_V][d] = out[NONE][d] / p->v_scales[head % heads];
    }
    for (int m = 0; m < MISTAKES; ++m)
        for (int d = 0; d < HEAD_DIM; ++d)
            out[m][d] /= sums[m];
}

static void check_gate(const char *name, enum input_kind kind, struct p_rounding how,
                       const bool judged[MISTAKES])
{
    struct problem p = problem_of(name, kind, 0);
    int seq_len = p.shape.seq_len, all_heads = p.shape.batch * p.shape.heads;
    struct rows rows = {0, seq_len / 12 | 1};
    size_t elements = shape_elements(&p.shape);
    float *ref = calloc(elements, sizeof *ref);
    uint16_t *out = calloc(elements, sizeof *out);
    double *weights = malloc(3 * (size_t)seq_len * sizeof *weights);
    int row_count = 0;
    for (int row = rows.first; row < seq_len; row = rows_next(rows, seq_len, row))
        ++row_count;
    double(*wrong)[MISTAKES][HEAD_DIM] = malloc((size_t)all_heads * row_count * sizeof *wrong);

    assert_true(ref && out && weights && wrong);
    assert_true(reference_dequantised(&p, rows, 0, ref));
    struct error_metrics rounded;
    struct error_limits limits;
    assert_true(gate_limits_of(&p, rows, 0, how, GATE_TOLERANCE, ref, &rounded, &limits));
    for (int head = 0, at = 0; head < all_heads; ++head) {
        double *keys = keys_of_head(&p, head, false), *values = values_of_head(&p, head);
        for (int row = rows.first; row < seq_len; row = rows_next(rows, seq_len, row))
            wrong_rows(&p, head, row, keys, values, weights, wrong[at++]);
        free(values);
        free(keys);
    }
    for (int m = 0; m < MISTAKES; ++m) {
        if (!judged[m])
            continue;
        for (int head = 0, at = 0; head < all_heads; ++head) {
            for (int row = rows.first; row < seq_len; row = rows_next(rows, seq_len, row), ++at) {
                int from = m == OTHER_HEAD ? (at + row_count) % (all_heads * row_count) : at;
                int which = m == OTHER_HEAD ? NONE : m;
                for (int d = 0; d < HEAD_DIM; ++d)
                    out[((size_t)head * seq_len + row) * HEAD_DIM + d] =
                        half_from_float((float)wrong[from][which][d]);
            }
        }
        if (m == NAN_ONCE)
            out[elements - 1] = 0x7e00;
        if (m == INFINITE_ONCE)
            out[elements - 1] = 0x7c00;
        struct error_metrics metrics = error_measure(&p.shape, rows, out, ref);
        bool pass = gate_within(&metrics, limits);
        if (getenv("MARGINS"))
            fprintf(stderr, "%-10s %-7s %-20s head %9.2e of %.2e  row %9.2e of %.2e\n", name,
                    input_kind_name(kind), mistake_names[m], metrics.rel_head, limits.head,
                    metrics.rel_row, limits.row);
        if (pass != (m == NONE || m == HALF_P || (m == E4M3_P && how.format == P_E4M3)))
            fail_msg("%s, %s: %s: %.2e in a head, %.2e in a row", name, input_kind_name(kind),
                     mistake_names[m], metrics.rel_head, metrics.rel_row);
        // The margins. Those without P in E4M3 are the ones that gates.c promises.
        if (m == E4M3_P && how.format == P_E4M3)
            assert_true(metrics.rel_head < limits.head / 1.8 && metrics.rel_row < limits.row / 1.5);
        else if (how.format == P_E4M3 && m > E4M3_P && metrics.not_finite == 0 && m != STALE_ROW)
            assert_true(metrics.rel_head > limits.head * 1.2 || metrics.rel_row > limits.row * 1.3);
        else if (how.format == P_E4M3)
            continue;
        else if (m <= HALF_P)
            assert_true(metrics.rel_head < GATE_TOLERANCE / 5 &&
                        metrics.rel_row < GATE_ROW_FACTOR * GATE_TOLERANCE / 10);
        else if (metrics.not_finite == 0 && kind == INPUT_NORMAL && m != STALE_ROW)
            assert_true(metrics.rel_head > 5 * GATE_TOLERANCE);
    }
    free(wrong);
    free(weights);
    free(out);
    free(ref);
    problem_destroy(&p);
}

static void judge_all(bool judged[MISTAKES])
{
    for (int m = 0; m < MISTAKES; ++m)
        judged[m] = true;
}

static void the_gate_tells_right_from_wrong_at_every_named_shape(void **state)
{
    (void)state;
    const char *const shapes[] = {"small", "mission", "long", "huge"};
    bool judged[MISTAKES];

    judge_all(judged);
    for (size_t i = 0; i < LENGTH(shapes); ++i)
        check_gate(shapes[i], INPUT_NORMAL, (struct p_rounding){0}, judged);
}

static void the_gate_for_p_in_e4m3_tells_right_from_wrong(void **state)
{
    (void)state;
    const char *const shapes[] = {"small", "1x2x517", "1x2x2048", "1x2x8192", "2x2x33"};
    const struct p_rounding how = {.format = P_E4M3, .offset = 8};
    const struct p_rounding rounded_sum = {.format = P_E4M3, .offset = 8, .sum_rounded = true};
    bool judged[MISTAKES];

    judge_all(judged);
    for (size_t i = 0; i < LENGTH(shapes); ++i)
        check_gate(shapes[i], INPUT_NORMAL, how, judged);
    check_gate("1x2x512", INPUT_MEAN, how, judged);
    check_gate("small", INPUT_NORMAL, rounded_sum, judged);
    judged[MEAN_V] = judged[FIRST_TILE] = judged[MIDDLE_TILE] = judged[LAST_TILE] = false;
    check_gate("1x2x512", INPUT_PEAKY, how, judged);
    check_gate("2x3x1", INPUT_NORMAL, how, judged);
}

static void limits_for_rounded_p_have_ends(void **state)
{
    (void)state;
    const double least = GATE_TOLERANCE, row = GATE_ROW_FACTOR;
    struct error_metrics own = {.rel_head = 0.02, .rel_row = 0.03};
    struct error_limits l = gate_rounded_limits(least, &own);
    assert_true(l.head == 0.04 && l.row == 0.06);

    own = (struct error_metrics){0}; // one key: P is 1, and only the output is rounded
    l = gate_rounded_limits(least, &own);
    assert_true(l.head == least && l.row == row * least);

    own = (struct error_metrics){.rel_head = 1, .rel_row = INFINITY}; // all of P became 0
    l = gate_rounded_limits(least, &own);
    assert_true(l.head == GATE_ROUNDED_MOST && l.row == row * GATE_ROUNDED_MOST);

    own = (struct error_metrics){.rel_head = NAN, .rel_row = NAN, .not_finite = 1};
    struct error_metrics none = {0}, nan = {.rel_head = NAN};
    assert_false(gate_within(&none, gate_rounded_limits(least, &own)));
    assert_false(gate_within(&nan, (struct error_limits){1, 1}));
    assert_false(
        gate_within(&(struct error_metrics){.not_finite = 1}, (struct error_limits){1, 1}));
}

static void the_gate_tells_right_from_wrong_at_ragged_shapes(void **state)
{
    (void)state;
    const char *const shapes[] = {"2x2x33", "1x3x239", "2x2x517", "1x2x2049", "1x2x8193"};
    bool judged[MISTAKES];

    judge_all(judged);
    for (size_t i = 0; i < LENGTH(shapes); ++i)
        check_gate(shapes[i], INPUT_NORMAL, (struct p_rounding){0}, judged);
    // With one key, every row is the key's value: P is 1, there is one tile, and mean(V) is right.
    judged[E4M3_P] = judged[MEAN_V] = judged[FIRST_TILE] = judged[MIDDLE_TILE] = judged[LAST_TILE] =
        false;
    check_gate("2x3x1", INPUT_NORMAL, (struct p_rounding){0}, judged);
}

static void the_gate_tells_right_from_wrong_with_other_inputs(void **state)
{
    (void)state;
    bool judged[MISTAKES];

    judge_all(judged);
    check_gate("small", INPUT_MEAN, (struct p_rounding){0}, judged);
    check_gate("mission", INPUT_MEAN, (struct p_rounding){0}, judged);
    // With few rows, perhaps none has its peak in a given tile.
    judged[FIRST_TILE] = judged[MIDDLE_TILE] = judged[LAST_TILE] = false;
    check_gate("small", INPUT_PEAKY, (struct p_rounding){0}, judged);
    check_gate("mission", INPUT_PEAKY, (struct p_rounding){0}, judged);
}

// Zeros pass an absolute tolerance: that is why the gate is relative.
static void the_sources_gate_passes_zeros_where_outputs_are_small(void **state)
{
    (void)state;
    struct problem p = problem_of("1x2x8192", INPUT_NORMAL, 0);
    struct rows rows = reference_rows(&p.shape);
    size_t elements = shape_elements(&p.shape);
    float *ref = calloc(elements, sizeof *ref);
    uint16_t *zeros = calloc(elements, sizeof *zeros);

    assert_true(reference_fp16(&p, rows, 0, ref));
    struct error_metrics m = error_measure(&p.shape, rows, zeros, ref);
    assert_true(m.mean_abs <= 0.02);
    assert_float_equal(m.rel_head, 1, 1e-12);
    assert_false(gate_relative(&m, GATE_TOLERANCE));
    free(zeros);
    free(ref);
    problem_destroy(&p);
}

// ---- Statistics ---------------------------------------------------------------------------------

static void summaries_interpolate(void **state)
{
    (void)state;
    double values[] = {5, 1, 4, 2, 3};
    struct summary s = summarise(values, 5);
    assert_float_equal(s.p50, 3, 1e-12);
    assert_float_equal(s.p90, 4.6, 1e-12);
    assert_float_equal(s.p99, 4.96, 1e-12);
    assert_float_equal(s.mean, 3, 1e-12);
    assert_float_equal(s.std, sqrt(2.5), 1e-12);
    assert_true(s.min == 1 && s.max == 5 && s.samples == 5 && values[0] == 1);

    double two[] = {10, 20};
    assert_float_equal(summarise(two, 2).p50, 15, 1e-12);
    double one[] = {7};
    s = summarise(one, 1);
    assert_true(s.p50 == 7 && s.p99 == 7 && s.std == 0);
    assert_true(isnan(summarise(one, 0).p50));
}

static void medians_come_with_their_interval(void **state)
{
    (void)state;
    double values[30];
    for (int i = 0; i < 30; ++i)
        values[i] = 30 - i;
    // n = 30: P(X < 10) = 0.0214, P(X < 11) = 0.0494 (binomial table): from the 10th to the 21st.
    struct interval interval = median_interval(values, 30);
    assert_float_equal(interval.median, 15.5, 1e-12);
    assert_true(interval.low == 10 && interval.high == 21);

    double six[] = {6, 5, 4, 3, 2, 1}; // 2 P(X < 1) = 2 / 64 is within 5 %
    interval = median_interval(six, 6);
    assert_true(interval.low == 1 && interval.high == 6 && interval.median == 3.5);
    double five[] = {1, 2, 3, 4, 5}; // 2 / 32 is not
    interval = median_interval(five, 5);
    assert_true(interval.median == 3 && interval.low == -INFINITY && interval.high == INFINITY);
    assert_true(isnan(median_interval(five, 0).median));

    double many[5000];
    for (int i = 0; i < 5000; ++i)
        many[i] = i + 1;
    interval = median_interval(many, 5000); // normal approximation: 2500 -+ 0.98 sqrt(5000)
    assert_in_range((int)interval.low, 2428, 2434);
    assert_true(interval.low + interval.high == 5001);
}

// ---- Files --------------------------------------------------------------------------------------

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void files_are_whole_or_not_there(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_workbench.XXXXXX", path[64], why[256], text[16] = "";
    struct stat status;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a", folder);
    assert_true(file_writable(path, why, sizeof why));
    assert_int_equal(entries(folder), 0);
    assert_true(file_write(path, "first", 5, why, sizeof why));
    assert_true(file_write(path, "second", 6, why, sizeof why));
    assert_int_equal(entries(folder), 1);
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(text, 1, sizeof text, file), 6);
    fclose(file);
    assert_string_equal(text, "second");
    assert_int_equal(stat(path, &status), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(status.st_mode & 0777, 0666 & ~mask);
    unlink(path);

    // A pipe: /dev/null is no regular file either, but root could rename over it.
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *const bad[] = {folder, path, "/nonexistent/file", "/proc/version/file", ""};
    for (size_t i = 0; i < LENGTH(bad); ++i) {
        why[0] = '\0';
        assert_false(file_writable(bad[i], why, sizeof why));
        assert_non_null(strstr(why, "cannot write"));
        why[0] = '\0';
        assert_false(file_write(bad[i], "x", 1, why, sizeof why));
        assert_non_null(strstr(why, "cannot write"));
    }
    assert_int_equal(entries(folder), 1);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

// The number at a path of keys in a JSON file; NaN if it is not there.
static double number_in(const char *folder, const char *name, const char *first, const char *second,
                        const char *third)
{
    const char *const keys[] = {first, second, third};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *file = json_load_file(path, 0, NULL), *at = file;
    for (size_t i = 0; i < LENGTH(keys) && keys[i]; ++i)
        at = json_object_get(at, keys[i]);
    double value = json_is_number(at) ? json_number_value(at) : NAN;
    json_decref(file);
    return value;
}

static void summaries_hold_times_and_the_worst_errors(void **state)
{
    (void)state;
    static struct shape_run shapes[2];
    static const struct program program = {.name = "p", .title = "t", .chapter = 1};
    static const struct options options = {.rotations = 4, .warmup = 20};
    static const struct device device = {.name = "a GPU", .major = 8, .minor = 9};
    static const struct resources resources = {.registers = 96};
    struct run run = {&program, &options, &device, &resources, shapes, 2, 2e-3};
    char folder[] = "/tmp/workbench-XXXXXX", why[256], path[256];

    assert_non_null(mkdtemp(folder));
    shapes[0].shape = shape_of("small");
    shapes[0].count = 3;
    shapes[0].results[0] = (struct result){.pass = true, .metrics.rel_head = 1e-4};
    shapes[0].results[1] = (struct result){.pass = true, .metrics.rel_head = 3e-4};
    shapes[0].results[2] =
        (struct result){.pass = true, .metrics.rel_head = 2e-4, .sources = {.max_abs = 0.07}};
    shapes[0].timing[INPUT_NORMAL] = (struct timing){
        .done = true, .us = {.samples = 100, .p50 = 12.5, .p90 = 13, .mean = 12.75}};
    shapes[0].timing[INPUT_NORMAL].clock = (struct clock_span){17, 1740, 1980, 540.5};
    shapes[1].shape = shape_of("mission");
    shapes[1].count = 2;
    shapes[1].results[0] = (struct result){.pass = true, .metrics.rel_head = 1e-4};
    shapes[1].results[1] = (struct result){.fault = "wrote outside its output"};
    assert_true(summaries_write(&run, folder, why, sizeof why));

    const char *name = summary_names[0];
    assert_float_equal(number_in(folder, name, "passed", NULL, NULL), 4, 0);
    assert_float_equal(number_in(folder, name, "of", NULL, NULL), 5, 0);
    assert_float_equal(number_in(folder, name, "shapes", "small", "rel_head"), 3e-4, 1e-9);
    assert_float_equal(number_in(folder, name, "shapes", "small", "passed"), 3, 0);
    assert_float_equal(number_in(folder, name, "shapes", "mission", "passed"), 1, 0);
    // After a fault there is no error to record.
    assert_true(isnan(number_in(folder, name, "shapes", "mission", "rel_head")));
    name = summary_names[1];
    assert_float_equal(number_in(folder, name, "shapes", "small", "p50_us"), 12.5, 1e-9);
    assert_float_equal(number_in(folder, name, "shapes", "small", "p90_us"), 13, 1e-9);
    assert_true(isnan(number_in(folder, name, "shapes", "mission", "p50_us")));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *times = json_load_file(path, 0, NULL),
           *wanted = json_pack("{s:i, s:f, s:f, s:f, s:b}", "readings", 17, "low_mhz", 1740.0,
                               "high_mhz", 1980.0, "watts", 540.5, "moved", true);
    json_t *small = json_object_get(json_object_get(times, "shapes"), "small");
    assert_true(json_equal(json_object_get(small, "clock"), wanted));
    json_decref(wanted);
    json_decref(times);
    name = summary_names[2];
    assert_float_equal(number_in(folder, name, "resources", "registers", NULL), 96, 0);

    assert_int_equal(entries(folder), SUMMARY_FILES);
    for (int i = 0; i < SUMMARY_FILES; ++i) {
        snprintf(path, sizeof path, "%s/%s", folder, summary_names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_false(summaries_write(&run, folder, why, sizeof why));
    assert_non_null(strstr(why, "cannot write"));
}

// ---- The clock ----------------------------------------------------------------------------------

// build/tests/nvml.so answers as environment variables say (fixtures/nvml.c).
static void the_clock_is_read_where_there_is_nvml(void **state)
{
    struct clock_meter meter;
    struct clock_span span = {0};

    (void)state;
    setenv("WORKBENCH_NVML", "/nowhere/libnvidia-ml.so", 1);
    assert_false(clock_meter_open(&meter, "00000000:65:00.0"));
    clock_meter_read(&meter, &span);
    assert_int_equal(span.readings, 0);

    setenv("WORKBENCH_NVML", "build/tests/nvml.so", 1);
    assert_false(clock_meter_open(&meter, "00000000:01:00.0")); // another GPU
    clock_meter_read(&meter, &span);
    assert_int_equal(span.readings, 0);

    setenv("FAKE_MHZ", "1965 1980 1740 ", 1); // the fourth item is empty: that call fails
    assert_true(clock_meter_open(&meter, "00000000:65:00.0"));
    clock_meter_read(&meter, &span); // FAKE_MILLIWATTS is not set yet
    assert_float_equal(span.watts, 0, 0);
    setenv("FAKE_MILLIWATTS", "540500", 1);
    for (int i = 0; i < 4; ++i)
        clock_meter_read(&meter, &span);
    assert_int_equal(span.readings, 3);
    assert_float_equal(span.low_mhz, 1740, 0);
    assert_float_equal(span.high_mhz, 1980, 0);
    assert_float_equal(span.watts, 540.5, 1e-9);
    assert_true(clock_moved(&span));
    unsetenv("WORKBENCH_NVML");
}

static void a_clock_moves_by_more_than_five_percent(void **state)
{
    static const struct {
        struct clock_span span;
        bool moved;
    } cases[] = {
        {{0}, false},
        {{9, 1980, 1980, 500}, false},
        {{9, 1900, 2000, 500}, false}, // five percent of the highest
        {{9, 1899, 2000, 500}, true},
        {{9, 1380, 1980, 72}, true},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(cases); ++i)
        assert_int_equal(clock_moved(&cases[i].span), cases[i].moved);

    struct clock_span all = {0};
    for (size_t i = 0; i < LENGTH(cases); ++i)
        clock_span_join(&all, &cases[i].span);
    assert_int_equal(all.readings, 36);
    assert_float_equal(all.low_mhz, 1380, 0);
    assert_float_equal(all.high_mhz, 2000, 0);
    assert_float_equal(all.watts, 500, 0);
}

// ---- Stages -------------------------------------------------------------------------------------

static char stages_root[] = "/tmp/test_stages.XXXXXX";

static int make_stages_root(void **state)
{
    char path[64];
    (void)state;
    assert_non_null(mkdtemp(stages_root));
    snprintf(path, sizeof path, "%s/chapters", stages_root);
    return mkdir(path, 0700);
}

static int remove_stages_root(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "%s/chapters", stages_root);
    assert_int_equal(rmdir(path), 0);
    return rmdir(stages_root);
}

// Reads a stage from a table with this text; NULL: there is no table.
static bool stage_from(const char *text, int number, struct stage *stage, char *why, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/chapters/stages.tsv", stages_root);
    if (text) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    bool found = stage_read(stages_root, number, stage, why, size);
    if (text)
        unlink(path);
    return found;
}

#define STAGES_HEADING "number\tname\tprogram\timages\tleast\n"

static void stages_are_found_by_number(void **state)
{
    static const char table[] = "# a comment\n" STAGES_HEADING "1\ton paper\tch01_a\t-\t-\n"
                                "# another\n12\tP·V\tch12_b\tsm_89 sm_90\t80\n"
                                "18\tboard\t-\tsm_90a\t-"; // no newline at the end
    struct stage stage;
    char why[256];
    (void)state;
    assert_true(stage_from(table, 12, &stage, why, sizeof why));
    assert_int_equal(stage.number, 12);
    assert_string_equal(stage.name, "P·V");
    assert_string_equal(stage.program, "ch12_b");
    assert_true(stage.has_kernel);
    assert_true(stage_from(table, 1, &stage, why, sizeof why));
    assert_string_equal(stage.program, "ch01_a");
    assert_false(stage.has_kernel);
    assert_true(stage_from(table, 18, &stage, why, sizeof why));
    assert_string_equal(stage.program, "");
    assert_true(stage.has_kernel);
    // Columns are found by name: others may stand between them.
    assert_true(
        stage_from("number\tfilm\timages\tprogram\tname\n3\t1x1x96\tsm_89\tch03_a\tproducts\n", 3,
                   &stage, why, sizeof why));
    assert_string_equal(stage.name, "products");
    assert_string_equal(stage.program, "ch03_a");
    assert_true(stage.has_kernel);
}

static void stages_that_are_not_there_are_named(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {NULL, "chapters/stages.tsv: No such file or directory"},
        {"",
         "chapters/stages.tsv has no heading with the columns number, name, program and images"},
        {STAGES_HEADING "2\ta\tch02_a\tsm_89\t75\n",
         "chapters/stages.tsv has no stage 3: add a row of its number, name, program, images, "
         "least"},
        {"3\ta\tch03_a\tsm_89\t75\n", // without a heading
         "chapters/stages.tsv:1: no heading with the columns number, name, program and images"},
        {"number\tname\tprogram\n3\ta\tch03_a\n",
         "chapters/stages.tsv:1: no heading with the columns number, name, program and images"},
        {"number\tprogram\timages\tname\n3\tch03_a\t-\n", // the message has the heading's order
         "chapters/stages.tsv:2: no row of number, program, images, name"},
        {STAGES_HEADING "three\ta\tch03_a\tsm_89\t75\n",
         "chapters/stages.tsv:2: no row of number, name, program, images, least"},
        {STAGES_HEADING "100\ta\tch03_a\tsm_89\t75\n",
         "chapters/stages.tsv:2: no row of number, name, program, images, least"},
        {STAGES_HEADING "#\n3\t\tch03_a\tsm_89\t75\n", // without a name
         "chapters/stages.tsv:3: no row of number, name, program, images, least"},
        {STAGES_HEADING "3\ta\tch03_a\tsm_89\n",
         "chapters/stages.tsv:2: no row of number, name, program, images, least"},
        {STAGES_HEADING "3\ta\tch03_a\tsm_89\t75\t9\n",
         "chapters/stages.tsv:2: no row of number, name, program, images, least"},
        {STAGES_HEADING
         "3\ta\tch03_a_name_that_is_longer_than_any_that_a_program_of_this_book_may_h"
         "ave\tsm_89\t75\n",
         "chapters/stages.tsv:2: no row of number, name, program, images, least"},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(cases); ++i) {
        struct stage stage;
        char why[256] = "";
        assert_false(stage_from(cases[i].text, 3, &stage, why, sizeof why));
        assert_string_equal(why, cases[i].why);
    }
}

// ---- What is wrong with an output ---------------------------------------------------------------

// Keys of the problem; their number rounded up to whole tiles of 32.
enum { TOLD_KEYS = 77, TOLD_WHOLE = 96 };

static float *told_reference(const struct problem *problem) // for the caller to free
{
    float *ref = malloc((size_t)TOLD_WHOLE * HEAD_DIM * sizeof *ref);
    assert_true(ref && reference_dequantised(problem, (struct rows){0, 1}, 1, ref));
    return ref;
}

// Asserts that the diagnosis of `out` contains these words; NULL: that it says nothing.
static void assert_told(const struct problem *p, const uint16_t *out, const float *ref,
                        const char *words)
{
    char *said = diagnose(p, (struct rows){0, 1}, gate_limits(GATE_TOLERANCE), out, ref);
    if (!words ? said != NULL : !said || !strstr(said, words))
        fail_msg("%s\nis not: %s", said ? said : "(nothing)", words ? words : "(nothing)");
    free(said);
}

// Rounds a reference to half.
static void round_to_half(uint16_t *out, const float *ref)
{
    for (size_t i = 0; i < (size_t)TOLD_KEYS * HEAD_DIM; ++i)
        out[i] = half_from_float(ref[i]);
}

// Asserts the diagnosis of an output that belongs to another problem.
static void assert_told_of(const struct problem *p, const struct problem *other, const float *ref,
                           const char *words)
{
    uint16_t out[TOLD_KEYS * HEAD_DIM];
    float *wrong = told_reference(other);
    round_to_half(out, ref);
    for (size_t i = 0;
         i < (size_t)HEAD_DIM *
                 (size_t)(other->shape.seq_len < TOLD_KEYS ? other->shape.seq_len : TOLD_KEYS);
         ++i)
        out[i] = half_from_float(wrong[i]);
    assert_told(p, out, ref, words);
    free(wrong);
}

static void told_problem(struct problem *p)
{
    struct shape shape = shape_of("1x1x96");
    assert_true(problem_create(p, &shape, INPUT_NORMAL, 3));
    for (size_t i = (size_t)TOLD_KEYS * HEAD_DIM; i < (size_t)TOLD_WHOLE * HEAD_DIM; ++i)
        p->k_codes[i] = p->v_codes[i] = 0;
    p->shape.seq_len = TOLD_KEYS;
}

static void a_cause_is_told_where_it_explains_the_rows(void **state)
{
    struct problem p;
    float one = 1;
    (void)state;
    told_problem(&p);
    float *ref = told_reference(&p);
    struct problem other = p;
    assert_told_of(&p, &other, ref, NULL);
    other.softmax_scale = 1;
    assert_told_of(&p, &other, ref, "if softmax_scale is not in the scores");
    other.softmax_scale = p.softmax_scale * p.softmax_scale;
    assert_told_of(&p, &other, ref, "if softmax_scale is in the scores twice");
    other = p;
    other.q_scales = &one;
    assert_told_of(&p, &other, ref, " if a scale is missing in the scores (Q's, K's, ");
    other.k_scales = &one;
    assert_told_of(&p, &other, ref, " if a scale is missing in the scores (Q's, K's, ");
    other = p;
    other.v_scales = &one;
    assert_told_of(&p, &other, ref, "if V's scale is not in the output");
    other = p;
    other.shape.seq_len = 64;
    assert_told_of(&p, &other, ref, "if the keys from 64 on are left out");
    other.shape.seq_len = TOLD_WHOLE;
    assert_told_of(&p, &other, ref,
                   "if the keys past the end, 77 and up to a whole tile, count as zeros: no mask");
    p.mask = MASK_CAUSAL;
    free(ref);
    ref = told_reference(&p);
    other = p;
    other.mask = MASK_NONE;
    assert_told_of(&p, &other, ref, "if keys after the query's own place are seen");
    free(ref);
    problem_destroy(&p);
}

// Computes a row as a kernel does that takes `tile` keys at a time and may forget to rescale the
// output or the sum.
static void told_tiles(const struct problem *p, int row, int tile, bool rescale_out,
                       bool rescale_sum, uint16_t out[HEAD_DIM])
{
    const double scale = (double)p->softmax_scale * p->q_scales[0] * p->k_scales[0];
    double accum[HEAD_DIM] = {0}, max = -INFINITY, sum = 0;
    for (int first = 0; first < TOLD_KEYS; first += tile) {
        double score[TOLD_WHOLE], before = max;
        int keys = TOLD_KEYS - first < tile ? TOLD_KEYS - first : tile;
        for (int j = 0; j < keys; ++j) {
            score[j] = 0;
            for (int d = 0; d < HEAD_DIM; ++d)
                score[j] += scale * e4m3_to_float(p->q_codes[row * HEAD_DIM + d]) *
                            e4m3_to_float(p->k_codes[(first + j) * HEAD_DIM + d]);
            max = fmax(max, score[j]);
        }
        sum *= rescale_sum ? exp(before - max) : 1;
        for (int d = 0; d < HEAD_DIM; ++d)
            accum[d] *= rescale_out ? exp(before - max) : 1;
        for (int j = 0; j < keys; ++j) {
            sum += exp(score[j] - max);
            for (int d = 0; d < HEAD_DIM; ++d)
                accum[d] += exp(score[j] - max) *
                            e4m3_to_float(p->v_codes[(first + j) * HEAD_DIM + d]) * p->v_scales[0];
        }
    }
    for (int d = 0; d < HEAD_DIM; ++d)
        out[d] = half_from_float((float)(accum[d] / sum));
}

static void what_is_not_rescaled_is_told(void **state)
{
    static const char *const words[] = {
        "if neither output nor sum is rescaled when a tile (32 keys) has a larger score",
        "if the output is not rescaled when a tile (32 keys) has a larger score",
        "if the sum is not rescaled when a tile (32 keys) has a larger score", NULL};
    struct problem p;
    uint16_t out[TOLD_KEYS * HEAD_DIM];
    (void)state;
    told_problem(&p);
    float *ref = told_reference(&p);
    for (int which = 0; which < 4; ++which) {
        for (int row = 0; row < TOLD_KEYS; ++row)
            told_tiles(&p, row, 32, which & 2, which & 1, out + row * HEAD_DIM);
        assert_told(&p, out, ref, words[which]);
    }
    free(ref);
    problem_destroy(&p);
}

static void repeat_tile(uint8_t *codes, int tile)
{
    for (int i = tile * HEAD_DIM; i < TOLD_KEYS * HEAD_DIM; ++i)
        codes[i] = codes[i - tile * HEAD_DIM];
}

static void keys_that_are_taken_twice_or_alone_are_told(void **state)
{
    struct problem p;
    uint8_t codes[TOLD_WHOLE * HEAD_DIM] = {0};
    (void)state;
    told_problem(&p);
    float *ref = told_reference(&p);
    struct problem other = p;
    other.k_codes += 64 * HEAD_DIM;
    other.v_codes += 64 * HEAD_DIM;
    other.shape.seq_len = TOLD_KEYS - 64;
    assert_told_of(&p, &other, ref, "if the keys from 64 on are all that counts");
    other = p;
    other.v_codes = codes;
    memcpy(codes, p.v_codes, sizeof codes);
    repeat_tile(codes, 32);
    assert_told_of(&p, &other, ref, "if the first 32 keys of V are taken for each tile");
    other = p;
    other.k_codes = codes;
    memcpy(codes, p.k_codes, sizeof codes);
    repeat_tile(codes, 16);
    assert_told_of(&p, &other, ref, "if the first 16 keys of K are taken for each tile");
    free(ref);
    problem_destroy(&p);
}

static void causes_are_told_of_a_cache(void **state)
{
    enum { KEYS = 33, ROWS_ASKED = 4 };
    struct problem p = problem_of("1x1x33q4p16", INPUT_NORMAL, 3);
    float ref[ROWS_ASKED * HEAD_DIM], wrong[ROWS_ASKED * HEAD_DIM], ones[KEYS];
    uint16_t out[ROWS_ASKED * HEAD_DIM];
    static const char *const words[] = {"if the newest token is left out",
                                        "if softmax_scale is not in the scores",
                                        "if V's scale is not in the output"};
    (void)state;
    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 1, ref));
    for (int i = 0; i < KEYS; ++i)
        ones[i] = 1;
    for (int which = 0; which < 3; ++which) {
        struct problem other = p;
        if (which == 0)
            other.shape.seq_len = KEYS - 1;
        else if (which == 1)
            other.softmax_scale = 1;
        else
            other.v_scales = ones;
        assert_true(reference_dequantised(&other, (struct rows){0, 1}, 1, wrong));
        for (int i = 0; i < ROWS_ASKED * HEAD_DIM; ++i)
            out[i] = half_from_float(wrong[i]);
        assert_told(&p, out, ref, words[which]);
    }
    problem_destroy(&p);
}

// Two query heads share a head of 40 keys of 128 elements.
static void causes_are_told_of_a_prompt(void **state)
{
    enum { ELEMENTS = 2 * 9 * 128 };
    struct problem p = problem_of("1x1x40q2p16s9d128", INPUT_NORMAL, 3), other = p;
    float ref[ELEMENTS], wrong[ELEMENTS];
    uint16_t out[ELEMENTS];
    (void)state;
    p.mask = other.mask = MASK_CAUSAL;
    other.shape.seq_len = 9;
    assert_true(reference_dequantised(&p, (struct rows){0, 1}, 1, ref));
    assert_true(reference_dequantised(&other, (struct rows){0, 1}, 1, wrong));
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = half_from_float(wrong[i]);
    assert_told(&p, out, ref,
                "if query i sees i + 1 keys, as if the queries were a sequence's first");
    other = p;
    other.mask = MASK_NONE;
    assert_true(reference_dequantised(&other, (struct rows){0, 1}, 1, wrong));
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = half_from_float(wrong[i]);
    assert_told(&p, out, ref, "if keys after the query's own place are seen");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = half_from_float(i / 128 < 9 ? ref[i] : -ref[i]);
    assert_told(&p, out, ref, "in 9 of 18 rows; head 1; most of all batch 0, head 1, row ");
    problem_destroy(&p);
}

static void what_is_off_is_told_by_its_place_and_its_ratio(void **state)
{
    enum { ELEMENTS = TOLD_KEYS * HEAD_DIM };
    struct problem p;
    uint16_t out[ELEMENTS], right[ELEMENTS];
    (void)state;
    told_problem(&p);
    float *ref = told_reference(&p);
    round_to_half(right, ref);
    memset(out, 0xff, sizeof out);
    assert_told(&p, out, ref,
                "Nothing was stored: 4928 of 4928 elements are off, in 77 of 77 rows");
    memset(out, 0, sizeof out);
    assert_told(&p, out, ref, "Every output is 0: ");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = half_from_float(ref[i] / 8);
    assert_told(&p, out, ref, "Every output is 0.125 times what it should be: a scale? ");
    memcpy(out, right, sizeof out);
    for (int i = 0; i < ELEMENTS; ++i)
        if (i / HEAD_DIM % 8 == 7)
            out[i] = 0xffff;
    assert_told(&p, out, ref,
                "Never stored, and all others are right: 576 of 4928 elements are off, in 9 of 77 "
                "rows; each row n with n % 8 = 7");
    memcpy(out, right, sizeof out);
    memset(out + 64 * HEAD_DIM, 0, 13 * HEAD_DIM * sizeof *out);
    assert_told(&p, out, ref, " of 4928 elements are off, in 13 of 77 rows; rows 64 to 76; most");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = i % HEAD_DIM < 32 ? right[i] : 0x3c00;
    assert_told(&p, out, ref, "in 77 of 77 rows; columns 32 to 63; most");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = right[i ^ 8];
    assert_told(&p, out, ref, "Column d of the rows tried has what belongs in column d ^ 8");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = right[i / HEAD_DIM < 64 ? i ^ 8 * HEAD_DIM : i];
    assert_told(&p, out, ref, "Rows have other rows' output: row 0 has row 8's");
    for (int i = 0; i < ELEMENTS; ++i)
        out[i] = half_from_float(ref[i] + (float)(i % 7) / 8);
    char *said = diagnose(&p, (struct rows){0, 1}, gate_limits(GATE_TOLERANCE), out, ref);
    assert_true(said && strncmp(said, "Cause not found: ", 17) == 0);
    free(said);
    free(ref);
    problem_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e4m3_values_follow_the_format),
        cmocka_unit_test(e4m3_rounds_to_nearest_and_ties_to_even),
        cmocka_unit_test(e4m3_saturates_and_keeps_nan),
        cmocka_unit_test(e4m3_agrees_with_nvidias_header),
        cmocka_unit_test(half_agrees_with_the_compilers),
        cmocka_unit_test(shapes_are_parsed),
        cmocka_unit_test(lengths_of_a_ragged_batch_are_drawn),
        cmocka_unit_test(caches_are_parsed),
        cmocka_unit_test(prompts_are_parsed),
        cmocka_unit_test(a_token_has_the_smallest_scale_that_fits),
        cmocka_unit_test(a_cache_has_each_token_in_its_page),
        cmocka_unit_test(a_cache_is_asked_without_its_newest_tokens),
        cmocka_unit_test(malformed_shapes_are_refused_by_name),
        cmocka_unit_test(inputs_are_the_same_bytes_everywhere),
        cmocka_unit_test(inputs_are_normal),
        cmocka_unit_test(the_kinds_of_input_differ_as_they_say),
        cmocka_unit_test(scores_follow_the_place_of_their_keys_where_inputs_say_so),
        cmocka_unit_test(each_query_of_a_needle_is_a_copy_of_one_key),
        cmocka_unit_test(a_needle_is_found_if_its_value_is_the_outputs_largest_part),
        cmocka_unit_test(scales_are_per_head_and_shared_by_the_batches),
        cmocka_unit_test(references_agree_with_the_plain_way),
        cmocka_unit_test(references_of_a_cache_agree_with_the_plain_way),
        cmocka_unit_test(references_of_a_prompt_agree_with_the_plain_way),
        cmocka_unit_test(halves_hold_a_prompts_queries),
        cmocka_unit_test(references_agree_with_the_plain_way_under_a_mask),
        cmocka_unit_test(the_first_row_under_a_mask_is_the_first_value),
        cmocka_unit_test(rows_past_a_length_are_not_measured),
        cmocka_unit_test(references_with_p_rounded_agree_with_the_plain_way),
        cmocka_unit_test(references_whose_maximum_lags_agree_with_the_plain_way),
        cmocka_unit_test(references_whose_rises_leave_room_agree_with_the_plain_way),
        cmocka_unit_test(room_is_left_by_rises_alone),
        cmocka_unit_test(p_that_is_not_told_is_not_rounded),
        cmocka_unit_test(references_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(sampled_rows_are_the_same_and_the_others_left_alone),
        cmocka_unit_test(covered_rows_include_the_first_and_last_tile),
        cmocka_unit_test(metrics_are_what_they_say),
        cmocka_unit_test(errors_against_zero_are_infinite_not_nothing),
        cmocka_unit_test(the_gate_tells_right_from_wrong_at_every_named_shape),
        cmocka_unit_test(the_gate_for_p_in_e4m3_tells_right_from_wrong),
        cmocka_unit_test(limits_for_rounded_p_have_ends),
        cmocka_unit_test(the_gate_tells_right_from_wrong_at_ragged_shapes),
        cmocka_unit_test(the_gate_tells_right_from_wrong_with_other_inputs),
        cmocka_unit_test(the_sources_gate_passes_zeros_where_outputs_are_small),
        cmocka_unit_test(a_cause_is_told_where_it_explains_the_rows),
        cmocka_unit_test(what_is_not_rescaled_is_told),
        cmocka_unit_test(keys_that_are_taken_twice_or_alone_are_told),
        cmocka_unit_test(causes_are_told_of_a_cache),
        cmocka_unit_test(causes_are_told_of_a_prompt),
        cmocka_unit_test(what_is_off_is_told_by_its_place_and_its_ratio),
        cmocka_unit_test(summaries_interpolate),
        cmocka_unit_test(medians_come_with_their_interval),
        cmocka_unit_test(files_are_whole_or_not_there),
        cmocka_unit_test(summaries_hold_times_and_the_worst_errors),
        cmocka_unit_test(the_clock_is_read_where_there_is_nvml),
        cmocka_unit_test(a_clock_moves_by_more_than_five_percent),
        cmocka_unit_test(stages_are_found_by_number),
        cmocka_unit_test(stages_that_are_not_there_are_named),
    };
    return cmocka_run_group_tests(tests, make_stages_root, remove_stages_root);
}
