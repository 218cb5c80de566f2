// A reduction in one kernel: every block writes its part, then counts itself (__threadfence(), an
// atomic operation); the block that counts last adds the parts up.
#include "check.h"

__device__ unsigned arrived;
__device__ volatile long long parts[64];

__global__ void sum(const int *in, int n, long long *out)
{
    __shared__ long long tree[128];
    __shared__ bool last;
    long long value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        value += in[i];
    tree[threadIdx.x] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            tree[threadIdx.x] += tree[threadIdx.x + half];
    }
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = tree[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    if (threadIdx.x == 0) {
        __threadfence();
        long long total = 0;
        for (unsigned i = 0; i < gridDim.x; ++i)
            total += parts[i];
        *out = total;
    }
}

int main()
{
    const int n = 100000;
    std::vector<int> in(n);
    long long total = 0;
    for (int i = 0; i < n; ++i)
        total += in[i] = i * 7919 % 1000003;
    int *device = to_device(in);
    long long *out = zeros<long long>(1);
    for (int blocks = 1; blocks <= 64; blocks *= 4) { // each launch leaves the counter at zero
        CHECK(cudaMemset(out, 0, sizeof *out));
        sum<<<blocks, 128>>>(device, n, out);
        CHECK_KERNEL();
        printf("%d blocks\n", blocks);
        expect("sum", to_host(out, 1)[0] == total);
    }
    printf("%lld\n", total);
    return failures;
}
