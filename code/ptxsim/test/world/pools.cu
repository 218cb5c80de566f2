// Allocations in the order of a stream: cudaMallocAsync and cudaFreeAsync, the default pool's
// threshold, a pool of one's own, its statistics and trimming.
#include <cstdint>

#include "check.h"

__global__ void fill(int *array, int n, int value)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        array[i] = value + i;
}

__global__ void add(const int *a, const int *b, int *sum, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum[i] = a[i] + b[i];
}

int main()
{
    const int n = 5000;
    cudaStream_t stream;
    cudaMemPool_t pool, own;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t threshold = UINT64_MAX, value = 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    printf("threshold kept %d\n", value == threshold);
    std::vector<int> got(n);
    for (int round = 0; round < 4; ++round) {
        int *a, *b, *sum;
        CHECK(cudaMallocAsync(&a, n * sizeof(int), stream));
        CHECK(cudaMallocAsync(&b, n * sizeof(int), stream));
        fill<<<1, 256, 0, stream>>>(a, n, round);
        fill<<<1, 256, 0, stream>>>(b, n, 10 * round);
        CHECK(cudaMallocAsync(&sum, n * sizeof(int), stream));
        add<<<1, 256, 0, stream>>>(a, b, sum, n);
        CHECK(cudaFreeAsync(a, stream));
        CHECK(cudaFreeAsync(b, stream));
        CHECK(cudaMemcpyAsync(got.data(), sum, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(sum, stream));
        CHECK(cudaStreamSynchronize(stream));
        printf("round %d: %d %d\n", round, got[0], got[n - 1]);
    }
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&own, &properties));
    int *array;
    CHECK(cudaMallocFromPoolAsync(&array, 1 << 20, own, stream));
    fill<<<1, 256, 0, stream>>>(array, n, 7);
    CHECK(cudaStreamSynchronize(stream));
    uint64_t used = 0;
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
    printf("used at least 1 MB: %d\n", used >= 1 << 20);
    CHECK(cudaFreeAsync(array, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
    printf("used then %d\n", (int)used);
    CHECK(cudaMemPoolTrimTo(own, 0));
    CHECK(cudaMemPoolDestroy(own));
    CHECK(cudaStreamDestroy(stream));
    return failures;
}
