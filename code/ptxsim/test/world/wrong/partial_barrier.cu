// expect: a __syncthreads() that 96 of 128 threads reach (the others have ended, so it completes), at the line marked HERE
// Mirrors an array in shared memory; the barrier stands inside the test for the array's end.
#include "../check.h"

__global__ void mirror(const int *in, int *out, int n)
{
    __shared__ int tile[128];
    int t = threadIdx.x;
    if (t < n) {
        tile[t] = in[t];
        __syncthreads(); // HERE
        out[t] = tile[n - 1 - t];
    }
}

int main()
{
    const int n = 96;
    std::vector<int> in(n), want(n);
    for (int i = 0; i < n; ++i)
        in[i] = want[n - 1 - i] = i * i;
    int *out = zeros<int>(n);
    mirror<<<1, 128>>>(to_device(in), out, n);
    CHECK_KERNEL();
    expect("mirrored", to_host(out, n) == want);
    return failures;
}
