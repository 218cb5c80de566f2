// build: -DBY_ITSELF
// More constant memory than the 64 KB there are: refused when the kernels are loaded, since nothing checks
// the size in PTX alone. A program of its own, since every kernel in the same program would be refused.
#include "check.h"

__constant__ int half[8192], other_half[8192], one_more[1];

__global__ void sum(int *out)
{
    out[threadIdx.x] = half[threadIdx.x] + other_half[threadIdx.x] + one_more[0];
}

static void say(const char *what, cudaError_t error)
{
    printf("%s: %s, last %s\n", what, cudaGetErrorName(error),
           cudaGetErrorName(cudaGetLastError()));
}

int main()
{
    int *out, values[32] = {};
    cudaFuncAttributes about;
    say("memory", cudaMalloc(&out, sizeof values));
    say("a copy", cudaMemcpyToSymbol(half, values, sizeof values));
    say("attributes", cudaFuncGetAttributes(&about, sum));
    sum<<<1, 32>>>(out);
    say("a launch", cudaGetLastError());
    say("the end", cudaDeviceSynchronize());
    say("memory", cudaFree(out));
    return 0;
}
