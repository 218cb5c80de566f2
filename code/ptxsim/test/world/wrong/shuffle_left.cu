// expect: a shuffle whose mask names lanes 20-31, which have left the kernel, at the line marked HERE
// told: takes the value of lane 20, which has left the kernel
// build: -lineinfo
// The sum of 20 numbers by one warp: the lanes without a number return before the shuffles.
#include "../check.h"

__global__ void sum(const int *in, int n, int *out)
{
    int lane = threadIdx.x;
    if (lane >= n)
        return;
    int value = in[lane];
    for (int offset = 16; offset > 0; offset /= 2) {
        int other = __shfl_down_sync(0xffffffff, value, offset); // HERE
        if (lane + offset < n)
            value += other;
    }
    if (lane == 0)
        *out = value;
}

int main()
{
    const int n = 20;
    std::vector<int> in(n);
    int total = 0, *out = zeros<int>(1);
    for (int i = 0; i < n; ++i)
        total += in[i] = 3 * i + 1;
    sum<<<1, 32>>>(to_device(in), n, out);
    CHECK_KERNEL();
    expect("sum", to_host(out, 1)[0] == total);
    return failures;
}
