// expect: blocks add to a sum that nothing has set to zero, at the line marked HERE
// told: reads 4 bytes
// build: -lineinfo
// Adds up a vector. An atomic addition adds to what is already there, which here nothing has written.
#include "../check.h"

__global__ void add_up(const int *in, int n, int *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(sum, in[i]); // HERE
}

int main()
{
    const int n = 100;
    int *sum;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    add_up<<<1, 128>>>(to_device(std::vector<int>(n, 3)), n, sum);
    CHECK_KERNEL();
    expect("sum", to_host(sum, 1)[0] == 3 * n);
    return failures;
}
