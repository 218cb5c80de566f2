// test_gpus.c: checks that the table of GPUs agrees with what an H200 reports, with chapter 1's own
// rates, and with numbers in the chapters; and occupancy, against values worked out by hand.
#include "image/gpus.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image/fatbin.h"

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: not there", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void gpus_are_found_by_what_they_run(void **state)
{
    (void)state;
    assert_ptr_equal(gpu_of_arch(89), &gpus[GPU_L4]);
    assert_ptr_equal(gpu_of_arch(90), &gpus[GPU_H200]);
    assert_null(gpu_of_arch(0));
    char text[32];
    gpu_in_a_sentence(&gpus[GPU_L4], text, sizeof text);
    assert_string_equal(text, "an L4");
    gpu_in_a_sentence(&(struct gpu){.name = "Board 7"}, text, sizeof text);
    assert_string_equal(text, "a Board 7");
}

// Each GPU of the table that has recorded runs must agree with what its driver reported.
static void the_table_says_what_the_driver_says(void **state)
{
    (void)state;
    int compared = 0;
    for (int i = 0; i < gpu_count; ++i) {
        const struct gpu *gpu = &gpus[i];
        char path[256], capability[16];
        snprintf(path, sizeof path, "plots/runs/%s/ch02_scalar.json", gpu->key);
        snprintf(capability, sizeof capability, "%d.%d", gpu->arch / 10, gpu->arch % 10);
        json_t *json = json_load_file(path, 0, NULL);
        if (!json)
            continue;
        const json_t *device = json_object_get(json, "device");
#define SAID(key) json_integer_value(json_object_get(device, key))
        assert_string_equal(json_string_value(json_object_get(device, "name")), gpu->name);
        assert_string_equal(json_string_value(json_object_get(device, "compute_capability")),
                            capability);
        assert_int_equal(SAID("sms"), gpu->sms);
        assert_int_equal(SAID("clock_mhz") * 1000, gpu->clock_khz);
        assert_int_equal(SAID("memory_clock_mhz") * 1000, gpu->memory_clock_khz);
        assert_int_equal(SAID("l2_bytes"), gpu->l2_bytes);
        json_decref(json);
        compared++;
    }
    assert_true(compared >= 1);
}

// An SM has 128 lanes, and a multiply-add is two operations; DRAM makes two transfers in a clock.
static void rates_follow_from_clocks(void **state)
{
    (void)state;
    for (int i = 0; i < gpu_count; ++i) {
        const struct gpu *gpu = &gpus[i];
        double fp32 = gpu->sms * 128 * 2 * (gpu->clock_khz / 1e9);
        double dram = gpu->bus_bits / 8.0 * 2 * gpu->memory_clock_khz / 1e6;
        assert_true(fp32 / gpu->fp32_tflops > 0.99 && fp32 / gpu->fp32_tflops < 1.01);
        assert_true(dram / gpu->dram_gbs > 0.99 && dram / gpu->dram_gbs < 1.03);
    }
}

// Chapter 1's program prints from its own table, which the reader sees.
static void chapter_1_has_the_same_rates(void **state)
{
    (void)state;
    char *program = read_text("code/ch01_attention.c");
    for (int i = 0; i < gpu_count; ++i) {
        const struct gpu *gpu = &gpus[i];
        char key[32];
        double sms, clock, tensor, fp32, dram;
        snprintf(key, sizeof key, ", \"%s\", ", gpu->key);
        const char *row = strstr(program, key);
        assert_non_null(row);
        assert_int_equal(sscanf(row + strlen(key), "%lf, %lf, %lf, %lf, %lf}", &sms, &clock,
                                &tensor, &fp32, &dram),
                         5);
        assert_true(sms == gpu->sms);
        assert_float_equal(clock * 1e6, gpu->clock_khz, 1e-3);
        assert_true(tensor == gpu->tensor_fp16_tflops);
        assert_true(fp32 == gpu->fp32_tflops);
        assert_true(dram == gpu->dram_gbs);
    }
    free(program);
}

// Asserts that a chapter's text contains this row of a table.
static void __attribute__((format(printf, 2, 3))) has_row(const char *text, const char *format, ...)
{
    char row[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row, sizeof row, format, arguments);
    va_end(arguments);
    if (!strstr(text, row))
        fail_msg("no row \"%s\"", row);
}

// Writes 1893120 as "1,893,120".
static const char *grouped(double value)
{
    static char texts[2][32];
    static int turn;
    char digits[32], *to = texts[turn++ % 2];
    int length = snprintf(digits, sizeof digits, "%.0f", value), at = 0;
    for (int i = 0; i < length; ++i) {
        if (i > 0 && (length - i) % 3 == 0)
            to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = '\0';
    return to;
}

static void the_chapters_print_the_same_rates(void **state)
{
    (void)state;
    const struct gpu *a = &gpus[GPU_L4], *b = &gpus[GPU_H200];
    char *text = read_text("chapters/01-attention-on-paper.md");
    has_row(text, "| SMs | %d | %d |", a->sms, b->sms);
    has_row(text, "| clock, GHz | %.3f | %.3f |", a->clock_khz / 1e6, b->clock_khz / 1e6);
    has_row(text, "| tensor cores, FP16, TFLOP/s | %g | %g |", a->tensor_fp16_tflops,
            b->tensor_fp16_tflops);
    has_row(text, "| FP32, TFLOP/s | %g | %g |", a->fp32_tflops, b->fp32_tflops);
    has_row(text, "| exponentials a clock and SM | %d | %d |", GPU_RATE_EXP, GPU_RATE_EXP);
    has_row(text, "| DRAM, GB/s | %g | %g |", a->dram_gbs, b->dram_gbs);
    free(text);

    text = read_text("chapters/A-simulator.md");
    double cycles = (double)a->sms * a->clock_khz / 1e3;
    has_row(text, "| %g TFLOP/s, dense, half | %s |", a->tensor_fp16_tflops,
            grouped(a->tensor_fp16_tflops * 1e6));
    has_row(text, "| %g TFLOP/s, dense | %s |", 2 * a->tensor_fp16_tflops,
            grouped(2 * a->tensor_fp16_tflops * 1e6));
    has_row(text, "| %d a cycle and SM | %s |", GPU_RATE_EXP, grouped(GPU_RATE_EXP * cycles));
    has_row(text, "| %d a cycle and SM | %s |", GPU_RATE_SHARED, grouped(GPU_RATE_SHARED * cycles));
    has_row(text, "| %d a cycle and SM | %s |", GPU_RATE_ISSUE, grouped(GPU_RATE_ISSUE * cycles));
    has_row(text, "| %g GB/s | %s |", a->dram_gbs, grouped(a->dram_gbs * 1e3));
    free(text);
}

// ---- Occupancy ----------------------------------------------------------------------------------

static void occupancy_is(int which, int registers, size_t shared, int threads, size_t dynamic,
                         int ctas, int warps, const char *limit)
{
    const struct cubin_resources kernel = {.registers = registers, .shared_bytes = shared};
    struct gpu_occupancy found;
    assert_true(gpu_occupancy(&gpus[which], &kernel, threads, dynamic, &found));
    assert_int_equal(found.ctas, ctas);
    assert_float_equal(found.share, (double)warps * 32 / gpus[which].threads_sm, 1e-12);
    assert_string_equal(found.limited_by, limit);
}

static void occupancy_as_worked_out_by_hand(void **state)
{
    (void)state;
    // 96 registers for each thread are 3072 for a warp: 5 warps in each quarter of the register
    // file, 20 in all.
    occupancy_is(GPU_L4, 96, 0, 128, 0, 5, 20, "registers");
    occupancy_is(GPU_H200, 96, 0, 128, 0, 5, 20, "registers");
    // 48 KiB and the reserved KiB: two CTAs in 100 KiB, four in 228 KiB; static or dynamic.
    occupancy_is(GPU_L4, 32, 48 << 10, 128, 0, 2, 8, "shared memory");
    occupancy_is(GPU_L4, 32, 0, 128, 48 << 10, 2, 8, "shared memory");
    occupancy_is(GPU_H200, 32, 0, 128, 48 << 10, 4, 16, "shared memory");
    // With a CTA of 1024 threads, an SM of an L4 has no room for another one.
    occupancy_is(GPU_L4, 32, 0, 1024, 0, 1, 32, "warps");
    occupancy_is(GPU_H200, 32, 0, 1024, 0, 2, 64, "warps");
    // However small its CTAs, an SM holds at most 24 (L4) or 32 (H200).
    occupancy_is(GPU_L4, 16, 0, 32, 0, 24, 24, "CTAs");
    occupancy_is(GPU_H200, 16, 0, 32, 0, 32, 32, "CTAs");
    // A warp that is not full counts as a full one.
    occupancy_is(GPU_L4, 96, 0, 100, 0, 5, 20, "registers");
}

static void occupancy_of_nonsense_is_refused(void **state)
{
    (void)state;
    const struct cubin_resources kernel = {.registers = 32};
    struct gpu_occupancy found;
    assert_false(gpu_occupancy(&gpus[GPU_L4], &kernel, 0, 0, &found));
    assert_false(gpu_occupancy(&gpus[GPU_L4], &kernel, -32, 0, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_found_by_what_they_run),
        cmocka_unit_test(the_table_says_what_the_driver_says),
        cmocka_unit_test(rates_follow_from_clocks),
        cmocka_unit_test(chapter_1_has_the_same_rates),
        cmocka_unit_test(the_chapters_print_the_same_rates),
        cmocka_unit_test(occupancy_as_worked_out_by_hand),
        cmocka_unit_test(occupancy_of_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
