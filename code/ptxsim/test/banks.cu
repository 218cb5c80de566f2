// banks.cu: the accesses that "An SM in six pages" counts. One warp makes each
// access once, on a line of its own: `make banks` shows the simulator's counts
// for each line, and code/test/test_sm.bats compares the pages' answers with them.
#include <stdio.h>

enum { WORDS = 2048 };

// All elements of a wide load are used: nvcc would not load unused ones.
__device__ float sum(float2 x)
{
    return x.x + x.y;
}

__device__ float sum(float4 x)
{
    return x.x + x.y + x.z + x.w;
}

__global__ void accesses(float *out)
{
    __shared__ alignas(128) float words[WORDS];
    const float2 *pairs = (const float2 *)words;
    const float4 *fours = (const float4 *)words;
    int lane = threadIdx.x;

    for (int i = lane; i < WORDS; i += 32)
        words[i] = (float)i;
    __syncwarp();

    float a = words[lane];
    float b = words[2 * lane];
    float c = words[20 * lane];
    float d = words[33 * lane];
    float e = words[0];
    float2 f = pairs[32 + lane];
    float4 g = fours[lane];
    float4 h = fours[8 * lane];
    float4 i = fours[9 * lane];
    float4 j = fours[5];

    out[lane] = a + b + c + d + e + sum(f) + sum(g) + sum(h) + sum(i) + sum(j);
}

int main(void)
{
    float *out;
    if (cudaMalloc(&out, 32 * sizeof *out) != cudaSuccess)
        return 3;
    accesses<<<1, 32>>>(out);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess)
        fprintf(stderr, "banks: %s\n", cudaGetErrorString(error));
    cudaFree(out);
    return error == cudaSuccess ? 0 : 3;
}
