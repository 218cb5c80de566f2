// peaks: measures the peak rates, on this GPU, of the units that chapter 15 needs; prints a record.
//
//   nvcc -std=c++20 -O3 -arch=native -o build/peaks labs/tools/peaks.cu
//   build/peaks >plots/runs/<gpu>/ch15-peaks.json
//
// Each kernel repeats one instruction on registers: mma.sync on halves, ex2, or the conversion from
// E4M3; one mixes products with exponentials. In each warp there are so many independent chains
// that only the unit limits the rate.
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "peaks: %s: %s\n", #call, cudaGetErrorString(error_));                 \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

enum { THREADS = 256, CTAS_PER_SM = 2, ROUNDS = 2000, CHAINS = 8, SAMPLES = 21 };

__device__ void product(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void exponential(float &x)
{
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
}

__device__ void conversion(uint32_t &x)
{
    asm volatile("{ .reg .b16 two, other; mov.b32 {two, other}, %0; cvt.rn.f16x2.e4m3x2 %0, two; }"
                 : "+r"(x));
}

// BOTH: in each round a warp has 16 products, and each lane 8 exponentials, as attention has for a
// 16 x 16 block of scores.
enum kind { PRODUCTS, EXPONENTIALS, BOTH, CONVERSIONS };

template <kind KIND> __global__ void __launch_bounds__(THREADS) work(float *out)
{
    float d[CHAINS][4] = {}, x[CHAINS];
    uint32_t codes[CHAINS], a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {threadIdx.x, 5};
    for (int i = 0; i < CHAINS; ++i) {
        x[i] = threadIdx.x * 1e-3f;
        codes[i] = threadIdx.x + i;
    }
    for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
            if (KIND == PRODUCTS || KIND == BOTH) {
                product(d[i], a, b);
                product(d[(i + 4) % CHAINS], a, b);
            }
            if (KIND == EXPONENTIALS || KIND == BOTH)
                exponential(x[i]);
            if (KIND == CONVERSIONS)
                conversion(codes[i]);
        }
    float sum = 0;
    for (int i = 0; i < CHAINS; ++i)
        sum += d[i][0] + d[i][1] + d[i][2] + d[i][3] + x[i] + codes[i];
    if (sum == 1.25f)
        out[threadIdx.x] = sum; // never true, which the compiler cannot know
}

template <kind KIND> static double shortest_us(int ctas, float *out)
{
    cudaEvent_t begin, end;
    float best = 1e30f;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < SAMPLES; ++i) {
        float ms;
        CHECK(cudaEventRecord(begin));
        work<KIND><<<ctas, THREADS>>>(out);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        best = ms < best ? ms : best;
    }
    return best * 1e3;
}

int main(void)
{
    cudaDeviceProp device;
    float *out;
    CHECK(cudaGetDeviceProperties(&device, 0));
    CHECK(cudaMalloc(&out, THREADS * sizeof *out));
    int ctas = device.multiProcessorCount * CTAS_PER_SM;
    double warps = (double)ctas * THREADS / 32, each = warps * ROUNDS * CHAINS;
    double us[] = {shortest_us<PRODUCTS>(ctas, out), shortest_us<EXPONENTIALS>(ctas, out),
                   shortest_us<BOTH>(ctas, out), shortest_us<CONVERSIONS>(ctas, out)};
    double flops = 2.0 * 16 * 8 * 16;
    printf("{\"record\": 1, \"program\": \"peaks\", \"runtime\": \"gpu\",\n");
    printf(" \"device\": {\"name\": \"%s\", \"sms\": %d},\n", device.name,
           device.multiProcessorCount);
    printf(" \"products\": {\"us\": %.2f, \"tflops\": %.1f},\n", us[PRODUCTS],
           2 * each * flops / us[PRODUCTS] * 1e-6);
    printf(" \"exponentials\": {\"us\": %.2f, \"billions_a_second\": %.1f},\n", us[EXPONENTIALS],
           32 * each / us[EXPONENTIALS] * 1e-3);
    printf(" \"both\": {\"us\": %.2f, \"tflops\": %.1f},\n", us[BOTH],
           2 * each * flops / us[BOTH] * 1e-6);
    printf(" \"conversions\": {\"us\": %.2f, \"billion_codes_a_second\": %.1f}}\n", us[CONVERSIONS],
           2 * 32 * each / us[CONVERSIONS] * 1e-3);
    return 0;
}
