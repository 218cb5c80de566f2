// The last steps of a tree of sums in shared memory, by one warp: volatile accesses with
// __syncwarp() between reading and writing; and these steps with only half of the lanes.
#include "check.h"

__global__ void tree(const int *in, int *out)
{
    __shared__ volatile int sums[64];
    int t = threadIdx.x;
    sums[t] = in[64 * blockIdx.x + t];
    sums[t + 32] = in[64 * blockIdx.x + t + 32];
    int value = sums[t] + sums[t + 32];
    for (int step = 16; step > 0; step /= 2) {
        __syncwarp();
        sums[t] = value;
        __syncwarp();
        value += sums[(t + step) % 32];
    }
    if (t == 0)
        out[blockIdx.x] = value;
}

__global__ void halves(const int *in, int *out)
{
    __shared__ volatile int values[32];
    int t = threadIdx.x;
    unsigned mask = t < 16 ? 0x0000ffff : 0xffff0000;
    values[t] = in[t];
    if (t < 16) {
        __syncwarp(mask);
        out[t] = values[15 - t];
    } else {
        __syncwarp(mask);
        out[t] = values[47 - t] * 2;
    }
}

int main()
{
    const int blocks = 9, n = 64 * blocks;
    std::vector<int> in(n), want(blocks), mirrored(32);
    for (int i = 0; i < n; ++i)
        want[i / 64] += in[i] = i * i % 97;
    int *device = to_device(in), *out = zeros<int>(32);
    tree<<<blocks, 32>>>(device, out);
    CHECK_KERNEL();
    expect("tree", to_host(out, blocks) == want);
    halves<<<1, 32>>>(device, out);
    CHECK_KERNEL();
    for (int i = 0; i < 32; ++i)
        mirrored[i] = i < 16 ? in[15 - i] : in[47 - i] * 2;
    expect("halves", to_host(out, 32) == mirrored);
    printf("%d\n", want[8]);
    return failures;
}
