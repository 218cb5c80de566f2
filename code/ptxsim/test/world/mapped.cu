// Host memory that a kernel reads and writes: mapped allocations and their device pointers, memory
// registered afterwards, pinned copies, attributes of the pointers.
#include "check.h"

__global__ void negate(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = -in[i];
}

static const char *kind(const void *pointer)
{
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, pointer));
    switch (attributes.type) {
    case cudaMemoryTypeHost: return "host";
    case cudaMemoryTypeDevice: return "device";
    case cudaMemoryTypeManaged: return "managed";
    default: return "unregistered";
    }
}

int main()
{
    const int n = 1000;
    int *in, *out, *in_device, *out_device, *managed, local = 0;
    CHECK(cudaHostAlloc(&in, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocWriteCombined));
    CHECK(cudaHostAlloc(&out, n * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&in_device, in, 0));
    CHECK(cudaHostGetDevicePointer(&out_device, out, 0));
    for (int i = 0; i < n; ++i)
        in[i] = i;
    negate<<<4, 256>>>(in_device, out_device, n);
    CHECK_KERNEL();
    printf("mapped %d %d\n", out[1], out[n - 1]);

    int *ordinary = (int *)aligned_alloc(4096, 8192);
    for (int i = 0; i < n; ++i)
        ordinary[i] = 3 * i;
    CHECK(cudaHostRegister(ordinary, 8192, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&in_device, ordinary, 0));
    negate<<<4, 256>>>(in_device, out_device, n);
    CHECK_KERNEL();
    printf("registered %d\n", out[n - 1]);
    unsigned flags;
    CHECK(cudaHostGetFlags(&flags, out));
    printf("mapped flag %d\n", (flags & cudaHostAllocMapped) != 0);

    int *device = zeros<int>(n);
    CHECK(cudaMallocManaged(&managed, 64));
    CHECK(cudaMemcpyAsync(device, out, n * sizeof(int), cudaMemcpyDefault, 0));
    CHECK(cudaMemcpyAsync(in, device, n * sizeof(int), cudaMemcpyDefault, 0));
    CHECK(cudaStreamSynchronize(0));
    printf("there and back %d\n", in[n - 1]);
    printf("%s %s %s %s %s\n", kind(out), kind(ordinary), kind(device + 10), kind(managed),
           kind(&local));
    CHECK(cudaHostUnregister(ordinary));
    printf("%s\n", kind(ordinary));
    free(ordinary);
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
    return failures;
}
