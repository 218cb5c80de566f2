// cudaDeviceSetLimit and GetLimit for every limit that a course sets, cache preferences, and what
// happens with impossible values.
#include "check.h"

__global__ void stack(int *out)
{
    int values[512]; // 2 KB of the thread's stack
    for (int i = 0; i < 512; ++i)
        values[(i * 7 + threadIdx.x) % 512] = i;
    int sum = 0;
    for (int i = 0; i < 512; i += 3)
        sum += values[(i + out[0]) % 512];
    out[threadIdx.x + 1] = sum;
}

static void set(const char *name, cudaLimit limit, size_t value)
{
    size_t got = 0;
    cudaError_t error = cudaDeviceSetLimit(limit, value);
    CHECK(cudaDeviceGetLimit(&got, limit));
    printf("%s: %s, at least that: %d\n", name, cudaGetErrorName(error), got >= value);
}

int main()
{
    set("stack", cudaLimitStackSize, 16 << 10);
    set("printf", cudaLimitPrintfFifoSize, 4 << 20);
    set("heap", cudaLimitMallocHeapSize, 32 << 20);
    size_t value = 0;
    CHECK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
    printf("stack %zu\n", value);
    printf("no such limit: %s\n", cudaGetErrorName(cudaDeviceSetLimit((cudaLimit)99, 1)));
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    cudaFuncCache preference;
    CHECK(cudaDeviceGetCacheConfig(&preference));
    CHECK(cudaFuncSetCacheConfig(stack, cudaFuncCachePreferL1));
    (void)cudaGetLastError();
    int *out = zeros<int>(65);
    stack<<<1, 64>>>(out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 65);
    bool right = true;
    for (int t = 0; t < 64; ++t) {
        int values[512], sum = 0;
        for (int i = 0; i < 512; ++i)
            values[(i * 7 + t) % 512] = i;
        for (int i = 0; i < 512; i += 3)
            sum += values[i];
        right = right && got[t + 1] == sum;
    }
    expect("arrays on the stack", right);
    return failures;
}
