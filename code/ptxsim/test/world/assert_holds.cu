// Assertions in device code: one is true; another is false and ends the kernel with
// cudaErrorAssert, which every later call returns, too.
#undef NDEBUG
#include <cassert>

#include "check.h"

__global__ void halve(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(in[i] % 2 == 0);
    assert(blockDim.x == 64 && "a block has 64 threads");
    out[i] = in[i] / 2;
}

int main()
{
    std::vector<int> in(256);
    for (int i = 0; i < 256; ++i)
        in[i] = 2 * i;
    int *device = to_device(in), *out = zeros<int>(256);
    halve<<<4, 64>>>(device, out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 256);
    bool right = true;
    for (int i = 0; i < 256; ++i)
        right = right && got[i] == i;
    expect("halves", right);

    CHECK(cudaMemset(device + 77, 1, 1));
    halve<<<4, 64>>>(device, out);
    cudaError_t error = cudaDeviceSynchronize();
    printf("odd: %s, %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
    printf("then: %s\n", cudaGetErrorName(cudaMemset(out, 0, 4)));
    return failures;
}
