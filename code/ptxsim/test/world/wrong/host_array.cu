// expect: a kernel reads an array of the host (on a GPU: an illegal address), at the line marked HERE
// told: in the host's memory
// build: -lineinfo
// Weights a vector; the weights were copied, but the kernel is given the host's array.
#include "../check.h"

__global__ void weigh(const int *in, const int *weights, int n, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * weights[i % 4]; // HERE
}

int main()
{
    const int n = 100, weights[4] = {1, 4, 6, 4};
    std::vector<int> in(n, 3);
    int *copy = zeros<int>(4), *out = zeros<int>(n);
    CHECK(cudaMemcpy(copy, weights, sizeof weights, cudaMemcpyHostToDevice));
    weigh<<<1, 128>>>(to_device(in), weights, n, out);
    CHECK_KERNEL();
    expect("weighted", to_host(out, n)[1] == 12);
    return failures;
}
