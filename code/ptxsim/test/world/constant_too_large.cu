// build: -DBY_ITSELF
// More constant memory than there is, 64 KB: refused when the kernels are loaded, for PTX alone is not asked
// to fit. By itself, for with it every kernel of the program is refused.
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
