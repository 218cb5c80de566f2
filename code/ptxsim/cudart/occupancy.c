// occupancy.c: how many CTAs of a kernel one SM holds.
#include "runtime.h"

#include <cuda_occupancy.h>
#include <stdlib.h>
#include <string.h>

cudaError_t device_occupancy(struct CUkern_st *kernel, int threads, size_t dynamic_shared,
                             int *blocks)
{
    const struct cudaDeviceProp *p = device_properties();
    struct cudaFuncAttributes attributes;
    cudaError_t error = kernel_attributes(kernel, &attributes);

    *blocks = 0;
    if (error != cudaSuccess)
        return error;
    if (threads <= 0)
        return cudaErrorInvalidValue;
    if (threads > GPU_THREADS_CTA || dynamic_shared > (size_t)attributes.maxDynamicSharedSizeBytes)
        return cudaSuccess; // none fits
    struct cudaOccDeviceProp device = {
        .computeMajor = p->major,
        .computeMinor = p->minor,
        .maxThreadsPerBlock = p->maxThreadsPerBlock,
        .maxThreadsPerMultiprocessor = p->maxThreadsPerMultiProcessor,
        .regsPerBlock = p->regsPerBlock,
        .regsPerMultiprocessor = p->regsPerMultiprocessor,
        .warpSize = p->warpSize,
        .sharedMemPerBlock = p->sharedMemPerBlock,
        .sharedMemPerMultiprocessor = p->sharedMemPerMultiprocessor,
        .numSms = p->multiProcessorCount,
        .sharedMemPerBlockOptin = p->sharedMemPerBlockOptin,
        .reservedSharedMemPerBlock = p->reservedSharedMemPerBlock,
    };
    struct cudaOccFuncAttributes function = {
        .maxThreadsPerBlock = GPU_THREADS_CTA, // launch bounds do not count here
        .numRegs = attributes.numRegs,
        .sharedSizeBytes = attributes.sharedSizeBytes,
        .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = (size_t)attributes.maxDynamicSharedSizeBytes,
        .numBlockBarriers = 1,
    };
    struct cudaOccDeviceState state = {.carveoutConfig = kernel->carveout};
    cudaOccResult occupancy;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&occupancy, &device, &function, &state, threads,
                                                dynamic_shared) != CUDA_OCC_SUCCESS)
        return cudaErrorUnknown;
    *blocks = occupancy.activeBlocksPerMultiprocessor;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *function,
                                                                   int threads, size_t shared,
                                                                   unsigned flags)
{
    API_ENTER();
    struct CUkern_st *kernel;
    cudaError_t error = blocks ? kernel_find(function, &kernel) : cudaErrorInvalidValue;
    (void)flags;
    if (error == cudaSuccess)
        error = device_occupancy(kernel, threads, shared, blocks);
    return api_result(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                  0);
}
