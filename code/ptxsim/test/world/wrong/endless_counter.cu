// expect: an endless loop (its counter does not move where a number is negative; nobody is waited for), at the line marked HERE
// told: the loop here does not end
// build: -lineinfo
// Each thread adds up positive numbers; the increment stands inside the test.
#include "../check.h"

__global__ void sums(const int *in, int n, int *out)
{
    int sum = 0, i = threadIdx.x;
    while (i < n) {
        if (in[i] >= 0) { // HERE
            sum += in[i];
            i += blockDim.x;
        }
    }
    out[threadIdx.x] = sum;
}

int main()
{
    const int n = 256;
    std::vector<int> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = i == 100 ? -1 : i;
    int *out = zeros<int>(32);
    sums<<<1, 32>>>(to_device(in), n, out);
    CHECK_KERNEL();
    expect("sum", to_host(out, 32)[0] > 0);
    return failures;
}
