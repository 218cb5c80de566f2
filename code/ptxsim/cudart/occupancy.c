// occupancy.c: how many CTAs of a kernel one SM holds.
#include "runtime.h"

#include <cuda_occupancy.h>
#include <stdlib.h>
#include <string.h>

struct question { // the input of CUDA's occupancy calculator
    struct cudaOccDeviceProp device;
    struct cudaOccFuncAttributes function;
    struct cudaOccDeviceState state;
};

static cudaError_t ask(struct CUkern_st *kernel, bool estimate, struct question *q)
{
    const struct cudaDeviceProp *p = device_properties();
    struct cudaFuncAttributes attributes;
    cudaError_t error = kernel_attributes(kernel, &attributes);

    if (error != cudaSuccess)
        return error;
    if (!attributes.numRegs && estimate)
        attributes.numRegs = estimated_registers(kernel);
    *q = (struct question){
        .device =
            {
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
            },
        .function =
            {
                .maxThreadsPerBlock = GPU_THREADS_CTA, // launch bounds do not limit occupancy
                .numRegs = attributes.numRegs,
                .sharedSizeBytes = attributes.sharedSizeBytes,
                .partitionedGCConfig = PARTITIONED_GC_OFF,
                .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                .maxDynamicSharedSizeBytes = (size_t)attributes.maxDynamicSharedSizeBytes,
                .numBlockBarriers = 1,
            },
        .state = {.carveoutConfig = kernel->carveout},
    };
    return cudaSuccess;
}

cudaError_t device_occupancy(struct CUkern_st *kernel, bool estimate, int threads,
                             size_t dynamic_shared, int *blocks)
{
    struct question q;
    cudaError_t error = ask(kernel, estimate, &q);

    *blocks = 0;
    if (error != cudaSuccess)
        return error;
    if (threads <= 0)
        return cudaErrorInvalidValue;
    if (threads > GPU_THREADS_CTA || dynamic_shared > q.function.maxDynamicSharedSizeBytes)
        return cudaSuccess; // occupancy 0: no CTA fits
    cudaOccResult occupancy;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&occupancy, &q.device, &q.function, &q.state,
                                                threads, dynamic_shared) != CUDA_OCC_SUCCESS)
        return cudaErrorUnknown;
    *blocks = occupancy.activeBlocksPerMultiprocessor;
    return cudaSuccess;
}

// The most dynamic shared memory of a CTA with which `blocks` CTAs still fit on an SM.
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function,
                                                      int blocks, int threads)
{
    API_ENTER();
    struct CUkern_st *kernel;
    struct question q;
    cudaError_t error = bytes ? kernel_find(function, &kernel) : cudaErrorInvalidValue;
    if (error == cudaSuccess && (blocks <= 0 || threads <= 0 || threads > GPU_THREADS_CTA))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = ask(kernel, true, &q);
    if (error == cudaSuccess &&
        cudaOccAvailableDynamicSMemPerBlock(bytes, &q.device, &q.function, &q.state, blocks,
                                            threads) != CUDA_OCC_SUCCESS)
        error = cudaErrorInvalidValue;
    return api_result(error);
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
        error = device_occupancy(kernel, true, threads, shared, blocks);
    return api_result(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                  0);
}

// How many CTAs a cluster of a launch has.
static size_t cluster_size(const cudaLaunchConfig_t *config)
{
    size_t size = 1;
    for (unsigned i = 0; config->attrs && i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            const cudaLaunchAttributeValue *v = &config->attrs[i].val;
            size = (size_t)v->clusterDim.x * v->clusterDim.y * v->clusterDim.z;
        }
    return size;
}

// How many clusters are resident at once, if the CTAs of a cluster may be on any SMs.
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config)
{
    API_ENTER();
    struct CUkern_st *kernel;
    int blocks = 0;
    if (!clusters || !config || cluster_size(config) == 0 || device_now()->arch < 90)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = kernel_find(function, &kernel);
    if (error == cudaSuccess)
        error = device_occupancy(
            kernel, true, (int)(config->blockDim.x * config->blockDim.y * config->blockDim.z),
            config->dynamicSmemBytes, &blocks);
    *clusters = (int)((size_t)blocks * (size_t)device_now()->sms / cluster_size(config));
    return api_result(error);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                 const cudaLaunchConfig_t *config)
{
    API_ENTER();
    struct CUkern_st *kernel;
    if (!size || !config || device_now()->arch < 90)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = kernel_find(function, &kernel);
    if (error == cudaSuccess)
        *size = kernel->large_clusters ? LARGEST_CLUSTER : PORTABLE_CLUSTER;
    return api_result(error);
}
