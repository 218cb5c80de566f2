// expect: a race between lanes of a warp (no __syncwarp() between the store and the load of another lane's value), at the line marked HERE
// told: with no __syncwarp or barrier in between
// build: -lineinfo
// The old way to end a reduction: volatile shared memory, and trust that a warp runs in lockstep.
#include "../check.h"

__device__ void warp_reduce(volatile int *sums, int t)
{
    sums[t] += sums[t + 32];
    sums[t] += sums[t + 16]; // HERE
    sums[t] += sums[t + 8];
    sums[t] += sums[t + 4];
    sums[t] += sums[t + 2];
    sums[t] += sums[t + 1];
}

__global__ void reduce(const int *in, int *out)
{
    __shared__ int sums[128];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    if (t < 64)
        sums[t] += sums[t + 64];
    __syncthreads();
    if (t < 32)
        warp_reduce(sums, t);
    if (t == 0)
        out[blockIdx.x] = sums[0];
}

int main()
{
    const int blocks = 4, n = 128 * blocks;
    std::vector<int> in(n), want(blocks);
    for (int i = 0; i < n; ++i)
        want[i / 128] += in[i] = i % 37;
    int *out = zeros<int>(blocks);
    reduce<<<blocks, 128>>>(to_device(in), out);
    CHECK_KERNEL();
    expect("sums", to_host(out, blocks) == want);
    return failures;
}
