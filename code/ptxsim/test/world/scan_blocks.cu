// Inclusive and exclusive scans of a block: Hillis and Steele's in two buffers, Blelloch's in
// place, and one with shuffles. Needs `warpSize`, `__syncthreads` in loops, dynamic shared memory.
#include "check.h"

__global__ void hillis_steele(const int *in, int *out)
{
    extern __shared__ int buffer[]; // [2][blockDim.x]
    int n = blockDim.x, t = threadIdx.x, from = 0;
    buffer[t] = in[t];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        int to = 1 - from;
        buffer[to * n + t] = buffer[from * n + t] + (t >= step ? buffer[from * n + t - step] : 0);
        from = to;
        __syncthreads();
    }
    out[t] = buffer[from * n + t];
}

__global__ void blelloch(const int *in, int *out)
{
    extern __shared__ int tree[]; // [2 * blockDim.x]
    int n = 2 * blockDim.x, t = threadIdx.x, offset = 1;
    tree[2 * t] = in[2 * t];
    tree[2 * t + 1] = in[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    }
    if (t == 0)
        tree[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}

__global__ void shuffles(const int *in, int *out)
{
    __shared__ int sums[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    int value = in[threadIdx.x];
    for (int step = 1; step < warpSize; step *= 2) {
        int other = __shfl_up_sync(0xffffffff, value, step);
        if (lane >= step)
            value += other;
    }
    if (lane == warpSize - 1)
        sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int sum = lane < (int)blockDim.x / warpSize ? sums[lane] : 0;
        for (int step = 1; step < warpSize; step *= 2) {
            int other = __shfl_up_sync(0xffffffff, sum, step);
            if (lane >= step)
                sum += other;
        }
        sums[lane] = sum;
    }
    __syncthreads();
    out[threadIdx.x] = value + (warp > 0 ? sums[warp - 1] : 0);
}

int main()
{
    const int n = 512;
    std::vector<int> in(n), inclusive(n), exclusive(n);
    for (int i = 0, sum = 0; i < n; ++i) {
        in[i] = i * i % 17 - 5;
        exclusive[i] = sum;
        inclusive[i] = sum += in[i];
    }
    int *device = to_device(in), *out = zeros<int>(n);
    hillis_steele<<<1, n, 2 * n * sizeof(int)>>>(device, out);
    CHECK_KERNEL();
    expect("Hillis and Steele", to_host(out, n) == inclusive);
    blelloch<<<1, n / 2, n * sizeof(int)>>>(device, out);
    CHECK_KERNEL();
    expect("Blelloch", to_host(out, n) == exclusive);
    shuffles<<<1, n>>>(device, out);
    CHECK_KERNEL();
    expect("shuffles", to_host(out, n) == inclusive);
    printf("last %d\n", inclusive[n - 1]);
    return failures;
}
