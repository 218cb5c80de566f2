// Blocks in a row: each waits for the flag of the block before it, which it reads through a
// volatile pointer, and hands on a value with __threadfence(). The blocks' numbers come from an
// atomic counter, so that each block waits for a block that has begun.
#include "check.h"

__global__ void chain(const int *in, unsigned *next, volatile int *values, volatile int *flags,
                      int *out)
{
    __shared__ unsigned number;
    __shared__ int before;
    if (threadIdx.x == 0)
        number = atomicAdd(next, 1);
    __syncthreads();
    int mine = in[number * blockDim.x + threadIdx.x];
    int sum = __reduce_add_sync(0xffffffff, mine);
    if (threadIdx.x == 0) {
        int carry = 0;
        if (number > 0) {
            while (flags[number - 1] == 0)
                ;
            __threadfence();
            carry = values[number - 1];
        }
        values[number] = carry * 3 % 10007 + sum;
        __threadfence();
        flags[number] = 1;
        before = carry;
    }
    __syncthreads();
    out[number * blockDim.x + threadIdx.x] = before + mine;
}

int main()
{
    const int blocks = 100, n = blocks * 32;
    std::vector<int> in(n), want(n);
    for (int i = 0; i < n; ++i)
        in[i] = i % 91;
    for (int block = 0, carry = 0; block < blocks; ++block) {
        int sum = 0;
        for (int i = 32 * block; i < 32 * block + 32; ++i) {
            want[i] = carry + in[i];
            sum += in[i];
        }
        carry = carry * 3 % 10007 + sum;
    }
    int *out = zeros<int>(n);
    chain<<<blocks, 32>>>(to_device(in), zeros<unsigned>(1), zeros<int>(blocks), zeros<int>(blocks),
                          out);
    CHECK_KERNEL();
    expect("chain of 100 blocks", to_host(out, n) == want);
    printf("%d\n", want[n - 1]);
    return failures;
}
