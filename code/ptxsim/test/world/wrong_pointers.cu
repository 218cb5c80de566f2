// Wrong pointers in calls of the host, and what the program is told: freeing what was never
// allocated, twice, or in the middle; pointers asked for their kind; null and unknown handles.
#include "check.h"

static const char *kind(const void *pointer)
{
    cudaPointerAttributes a;
    cudaError_t error = cudaPointerGetAttributes(&a, pointer);
    if (error != cudaSuccess)
        return cudaGetErrorName(error);
    return a.type == cudaMemoryTypeDevice ? "device"
           : a.type == cudaMemoryTypeHost ? "host"
                                          : "none";
}

#define SHOW(call) printf("%s: %s\n", #call, cudaGetErrorName(call))

int main()
{
    static int local[64];
    char *device = zeros<char>(4096), *pinned;
    int *twice = zeros<int>(16);
    CHECK(cudaMallocHost(&pinned, 4096));
    printf("%s %s %s %s\n", kind(device + 100), kind(pinned + 100), kind(local), kind(nullptr));
    SHOW(cudaFree(local));
    SHOW(cudaFree(device + 256));
    SHOW(cudaFree(nullptr));
    SHOW(cudaFree(twice));
    SHOW(cudaFree(twice));
    SHOW(cudaFreeHost(local));
    SHOW(cudaFreeHost(device));
    SHOW(cudaMemset(nullptr, 0, 4));
    SHOW(cudaMemset(local, 0, 4));
    SHOW(cudaMemcpy(device, nullptr, 4, cudaMemcpyHostToDevice));
    SHOW(cudaMemcpy(nullptr, local, 4, cudaMemcpyHostToDevice));
    SHOW(cudaMemcpy(device, local, 4, (cudaMemcpyKind)17));
    SHOW(cudaMemcpy(device, local, 0, cudaMemcpyHostToDevice));
    SHOW(cudaMalloc((void **)nullptr, 16));
    SHOW(cudaMalloc((void **)&twice, (size_t)1 << 50));
    SHOW(cudaMalloc((void **)&twice, 0));
    SHOW(cudaEventSynchronize(nullptr));
    SHOW(cudaGetLastError());
    SHOW(cudaGetLastError());
    CHECK(cudaFree(device)); // still allocated after all of this
    CHECK(cudaFreeHost(pinned));
    printf("%s\n", cudaGetErrorString(cudaErrorInvalidValue));
    return failures;
}
