// Even numbers are counted by atomicAdd through a pointer: some threads' leads to the block's counter in shared memory,
// the others' to a variable of their own.
#include "check.h"

__global__ void count_even(const int *in, int n, const int *alone, int *counts)
{
    __shared__ int all;
    int mine = 0;
    if (threadIdx.x == 0)
        all = 0;
    __syncthreads();
    int *counter = alone[threadIdx.x] ? &mine : &all;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i] % 2 == 0)
            atomicAdd(counter, 1);
    __syncthreads();
    counts[threadIdx.x] = mine + all;
}

int main()
{
    const int n = 256;
    int *counts = zeros<int>(32);
    count_even<<<1, 32>>>(to_device(std::vector<int>(n, 4)), n, to_device(std::vector<int>(32, 1)),
                          counts);
    CHECK_KERNEL();
    expect("count", to_host(counts, 1)[0] == n / 32);
    return failures;
}
