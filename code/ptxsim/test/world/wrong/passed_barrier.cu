// expect: lanes that run past a __syncthreads() at which lanes of their warp wait (it stands inside a test that half of them fail), at the line marked HERE
// told: has run past it to the kernel's end
// build: -lineinfo
// Mirrors an array in shared memory and doubles it; the barrier stands inside the test for the array's
// end, but the code after it does not.
#include "../check.h"

__global__ void mirror(const int *in, int *out, int n)
{
    __shared__ int tile[128];
    int t = threadIdx.x, value = 0;
    if (t < n) {
        tile[t] = in[t];
        __syncthreads(); // HERE
        value = tile[n - 1 - t];
    }
    out[t] = 2 * value;
}

int main()
{
    const int n = 80;
    std::vector<int> in(n), want(128);
    for (int i = 0; i < n; ++i) {
        in[i] = i * i;
        want[n - 1 - i] = 2 * in[i];
    }
    int *out = zeros<int>(128);
    mirror<<<1, 128>>>(to_device(in), out, n);
    CHECK_KERNEL();
    expect("mirrored", to_host(out, 128) == want);
    return failures;
}
