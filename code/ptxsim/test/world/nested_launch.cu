// Kernels that launch kernels (dynamic parallelism): a quicksort whose parts are children, in streams of
// their own, and a sum that a later grid makes of their results.
// build: -rdc=true -lcudadevrt
#include "check.h"

enum { SMALL = 16, DEEPEST = 12 };

__device__ int grids;

__device__ void sort_small(int *x, int first, int last)
{
    for (int i = first + 1; i < last; ++i) {
        int value = x[i], at = i;
        for (; at > first && x[at - 1] > value; --at)
            x[at] = x[at - 1];
        x[at] = value;
    }
}

__global__ void quicksort(int *x, int first, int last, int depth)
{
    atomicAdd(&grids, 1);
    if (last - first <= SMALL || depth == DEEPEST) {
        sort_small(x, first, last);
        return;
    }
    int pivot = x[(first + last) / 2], left = first, right = last - 1;
    while (left <= right) {
        while (x[left] < pivot)
            ++left;
        while (x[right] > pivot)
            --right;
        if (left <= right) {
            int value = x[left];
            x[left++] = x[right];
            x[right--] = value;
        }
    }
    cudaStream_t stream;
    if (first < right) {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        quicksort<<<1, 1, 0, stream>>>(x, first, right + 1, depth + 1);
        cudaStreamDestroy(stream);
    }
    if (left < last - 1) {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        quicksort<<<1, 1, 0, stream>>>(x, left, last, depth + 1);
        cudaStreamDestroy(stream);
    }
}

// A child of many threads with shared memory, launched by one thread of each block.
__global__ void add_up(const int *x, int *sums, int block)
{
    extern __shared__ int part[];
    part[threadIdx.x] = x[block * blockDim.x + threadIdx.x];
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        sums[block] = part[0];
}

__global__ void launch_sums(const int *x, int *sums, int *refused)
{
    if (threadIdx.x == 0)
        add_up<<<1, 64, 64 * sizeof(int)>>>(x, sums, blockIdx.x);
    if (threadIdx.x == 1 && blockIdx.x == 0) {
        add_up<<<1, 2048>>>(x, sums, 0);
        *refused = cudaGetLastError() != cudaSuccess;
    }
}

int main()
{
    const int n = 512;
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = i * 7919 % 1009;
    int *x = to_device(values), *sums = zeros<int>(n / 64), *refused = zeros<int>(1), count = 0;
    quicksort<<<1, 1>>>(x, 0, n, 0);
    CHECK_KERNEL();
    std::vector<int> sorted = to_host(x, n);
    bool right = true;
    for (int i = 1; i < n; ++i)
        right = right && sorted[i - 1] <= sorted[i];
    expect("sorted", right);
    CHECK(cudaMemcpyFromSymbol(&count, grids, sizeof count));
    printf("first %d, middle %d, last %d, grids %d\n", sorted[0], sorted[n / 2], sorted[n - 1],
           count);
    launch_sums<<<n / 64, 32>>>(x, sums, refused);
    CHECK_KERNEL();
    for (int sum : to_host(sums, n / 64))
        printf("%d ", sum);
    printf("\nrefused %d\n", to_host(refused, 1)[0]);
    return failures;
}
