// Programmatic dependent launch: the second kernel may begin while the first one ends, and waits
// with cudaGridDependencySynchronize before it reads what the first wrote.
// build: compute_90
#include "check.h"

__global__ void first(int *x, int round)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] * 3 + round;
    cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void second(const int *x, int *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    int index = n - 1 - i; // what does not depend on the first kernel comes before the wait
    cudaGridDependencySynchronize();
    y[i] += x[index];
}

int main()
{
    const int blocks = 6, threads = 64, n = blocks * threads;
    int *x = zeros<int>(n), *y = zeros<int>(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3(blocks);
    configuration.blockDim = dim3(threads);
    configuration.stream = stream;
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    int value = 0, sum = 0;
    for (int round = 1; round <= 5; ++round) {
        first<<<blocks, threads, 0, stream>>>(x, round);
        CHECK(cudaLaunchKernelEx(&configuration, second, (const int *)x, y));
        value = value * 3 + round;
        sum += value;
    }
    CHECK(cudaStreamSynchronize(stream));
    bool right = true;
    for (int got : to_host(y, n))
        right = right && got == sum;
    expect("five rounds", right);
    printf("%d\n", sum);
    CHECK(cudaStreamDestroy(stream));
    return failures;
}
