// gpus.c: the table of GPUs.
//
// Sources. Limits of compute capabilities 8.9 and 9.0, rates of special functions and of shared
// memory: the CUDA C++ Programming Guide. SMs and clocks of an L4: the Ada architecture's white
// paper; 58 SMs x 128 lanes x 2 x 2.04 GHz give the data sheet's fp32 rate. Tensor rates: the data
// sheets, which state them with sparsity, twice the dense rates: 242 TFLOP/s for an L4; 1979 for an
// H200 (SXM), computed for 1.83 GHz, not for the boost clock. SMs, clocks and L2 of an H200: its
// driver.
#include "image/gpus.h"

#include <stdio.h>
#include <string.h>

const struct gpu gpus[] = {
    [GPU_L4] =
        {
            .key = "l4",
            .name = "NVIDIA L4",
            .arch = 89,
            .sms = 58,
            .clock_khz = 2040000,
            .memory_clock_khz = 6251000,
            .bus_bits = 192,
            .l2_bytes = 48 << 20,
            .threads_sm = 1536,
            .blocks_sm = 24,
            .shared_default = 48 << 10,
            .shared_optin = 99 << 10,
            .shared_sm = 100 << 10,
            .tensor_fp16_tflops = 121,
            .fp32_tflops = 30.3,
            .dram_gbs = 300,
        },
    [GPU_H200] =
        {
            .key = "h200",
            .name = "NVIDIA H200",
            .arch = 90,
            .sms = 132,
            .clock_khz = 1980000,
            .memory_clock_khz = 3201000,
            .bus_bits = 6144,
            .l2_bytes = 60 << 20,
            .threads_sm = 2048,
            .blocks_sm = 32,
            .shared_default = 48 << 10,
            .shared_optin = 227 << 10,
            .shared_sm = 228 << 10,
            .tensor_fp16_tflops = 989.5,
            .fp32_tflops = 67,
            .dram_gbs = 4800,
            .mma_sync_low_tflops = 621,
            .mma_sync_high_tflops = 643,
        },
};

const int gpu_count = sizeof gpus / sizeof *gpus;
_Static_assert(sizeof gpus / sizeof *gpus <= GPUS_MOST, "GPUS_MOST is too small for the table");

const struct gpu *gpu_of_arch(int arch)
{
    for (int i = 0; i < gpu_count; ++i)
        if (gpus[i].arch == arch)
            return &gpus[i];
    return NULL;
}

const char *gpu_model(const struct gpu *gpu)
{
    static const char maker[] = "NVIDIA ";
    size_t length = sizeof maker - 1;
    return gpu->name + (strncmp(gpu->name, maker, length) == 0 ? length : 0);
}

void gpu_in_a_sentence(const struct gpu *gpu, char *text, size_t size)
{
    const char *model = gpu_model(gpu);
    // Letters whose names begin with a vowel: "an L", "an H".
    snprintf(text, size, "%s %s", strchr("AEFHILMNORSX", *model) ? "an" : "a", model);
}
