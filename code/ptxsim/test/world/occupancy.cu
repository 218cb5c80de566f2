// What a program may ask about its kernels: __launch_bounds__, cudaFuncGetAttributes, occupancy,
// the block size that CUDA suggests.
#include "check.h"

__global__ void __launch_bounds__(128, 4) bounded(float *x)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[127 - threadIdx.x] + tile[threadIdx.x];
}

__global__ void spilling(int *x, int n)
{
    int values[200];
    for (int i = 0; i < 200; ++i)
        values[i] = x[i] * i;
    for (int i = 0; i < n; ++i)
        values[(i * 7 + x[0]) % 200] += values[i % 200];
    x[threadIdx.x] = values[x[1] % 200];
}

__global__ void tiny(int *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void dynamic(int *x)
{
    extern __shared__ int rows[];
    rows[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = rows[blockDim.x - 1 - threadIdx.x];
}

static size_t four_bytes_a_thread(int block)
{
    return 4 * block;
}

int main()
{
    cudaFuncAttributes a;
    CHECK(cudaFuncGetAttributes(&a, bounded));
    printf("bounded: %zu bytes shared, at most %d threads\n", a.sharedSizeBytes,
           a.maxThreadsPerBlock);
    expect("registers", a.numRegs >= 4 && a.numRegs <= 128);
    CHECK(cudaFuncGetAttributes(&a, spilling));
    printf("spilling: at most %d threads\n", a.maxThreadsPerBlock);
    expect("local memory", a.localSizeBytes >= 800);
    CHECK(cudaFuncGetAttributes(&a, tiny));
    expect("registers of a tiny kernel", a.numRegs >= 2 && a.numRegs <= 32);
    expect("versions", a.binaryVersion >= 80 && a.ptxVersion >= 80);

    int blocks, grid, block;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 128, 0));
    expect("at least the four that were asked for", blocks >= 4);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic, 64, 40 << 10));
    expect("shared memory limits", blocks >= 1 && blocks <= 5);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, tiny, 0, 0));
    expect("suggested", block >= 256 && block <= 1024 && block % 32 == 0 && grid > 0);
    CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, dynamic,
                                                         four_bytes_a_thread));
    expect("suggested with shared memory", block >= 256 && block % 32 == 0);
    size_t bytes;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, dynamic, 2, 128));
    expect("shared memory for two blocks", bytes >= 32 << 10);

    CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared));
    int *x = zeros<int>(1024);
    tiny<<<4, 256>>>(x);
    dynamic<<<1, 256, 1024>>>(x);
    spilling<<<1, 1>>>(x, 100);
    CHECK_KERNEL();
    printf("%d\n", to_host(x, 1)[0]);
    bounded<<<1, 256>>>((float *)x);
    printf("past the bounds: %s\n", cudaGetErrorName(cudaGetLastError()));
    return failures;
}
