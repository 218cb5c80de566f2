// The sum and the maximum of an array by blocks, in the classic style: `warpSize` in device code.
#include "check.h"

__device__ int warp_sum(int value)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__device__ int warp_max(int value)
{
    for (int mask = warpSize / 2; mask > 0; mask >>= 1)
        value = max(value, __shfl_xor_sync(0xffffffff, value, mask));
    return value;
}

__global__ void sums(const int *in, int count, int *out)
{
    __shared__ int parts[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    int value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        value += in[i];
    value = warp_sum(value);
    if (lane == 0)
        parts[warp] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / warpSize ? parts[lane] : 0;
    if (warp == 0)
        value = warp_sum(value);
    if (threadIdx.x == 0)
        out[blockIdx.x] = value;
}

__global__ void maxima(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int largest = warp_max(in[i]);
    if (threadIdx.x % warpSize == 0)
        out[i / warpSize] = largest;
}

__global__ void size(int *out)
{
    *out = warpSize;
}

int main()
{
    const int count = 10000, blocks = 8;
    std::vector<int> in(count);
    long total = 0;
    for (int i = 0; i < count; ++i) {
        in[i] = (i * 7919) % 1009;
        total += in[i];
    }
    int *device = to_device(in), *out = zeros<int>(1024);
    sums<<<blocks, 256>>>(device, count, out);
    CHECK_KERNEL();
    long sum = 0;
    for (int part : to_host(out, blocks))
        sum += part;
    printf("sum %ld\n", sum);
    expect("sum", sum == total);

    maxima<<<9, 1024>>>(device, out);
    CHECK_KERNEL();
    std::vector<int> largest = to_host(out, 9 * 32);
    bool right = true;
    for (int warp = 0; warp < 9 * 32; ++warp) {
        int most = 0;
        for (int i = 0; i < 32; ++i)
            most = in[warp * 32 + i] > most ? in[warp * 32 + i] : most;
        right = right && largest[warp] == most;
    }
    expect("maxima", right);

    size<<<1, 1>>>(out);
    CHECK_KERNEL();
    printf("warpSize %d\n", to_host(out, 1)[0]);
    return failures;
}
