// occupancy.c: computes how much of a GPU a kernel fills, from the resources of its machine code,
// with NVIDIA's occupancy calculator, a header that needs no device.
#include "image/gpus.h"

#include <cuda_occupancy.h>

#include "image/fatbin.h"

enum { WARP_THREADS = 32 };

// The limit that is reported if there are several: warps first, since then the SM is full.
static const char *limit_name(unsigned factors)
{
    if (factors & OCC_LIMIT_WARPS)
        return "warps";
    if (factors & OCC_LIMIT_REGISTERS)
        return factors & OCC_LIMIT_SHARED_MEMORY ? "registers, shared" : "registers";
    if (factors & OCC_LIMIT_SHARED_MEMORY)
        return "shared memory";
    return factors & OCC_LIMIT_BLOCKS ? "CTAs" : "barriers";
}

static struct cudaOccDeviceProp limits_of(const struct gpu *gpu)
{
    return (struct cudaOccDeviceProp){
        .computeMajor = gpu->arch / 10,
        .computeMinor = gpu->arch % 10,
        .maxThreadsPerBlock = GPU_THREADS_CTA,
        .maxThreadsPerMultiprocessor = gpu->threads_sm,
        .regsPerBlock = GPU_REGISTERS,
        .regsPerMultiprocessor = GPU_REGISTERS,
        .warpSize = WARP_THREADS,
        .sharedMemPerBlock = gpu->shared_default,
        .sharedMemPerMultiprocessor = gpu->shared_sm,
        .numSms = gpu->sms,
        .sharedMemPerBlockOptin = gpu->shared_optin,
        .reservedSharedMemPerBlock = GPU_SHARED_RESERVED,
    };
}

bool gpu_occupancy(const struct gpu *gpu, const struct cubin_resources *kernel, int threads,
                   size_t dynamic_shared, struct gpu_occupancy *occupancy)
{
    struct cudaOccDeviceProp limits = limits_of(gpu);
    struct cudaOccFuncAttributes attributes = {
        .maxThreadsPerBlock = GPU_THREADS_CTA,
        .numRegs = kernel->registers,
        .sharedSizeBytes = kernel->shared_bytes,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = dynamic_shared,
        .numBlockBarriers = kernel->barriers > 0 ? kernel->barriers : 1,
    };
    struct cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
    struct cudaOccResult result = {0};

    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &limits, &attributes, &state, threads,
                                                dynamic_shared) != CUDA_OCC_SUCCESS)
        return false;
    int warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
    occupancy->ctas = result.activeBlocksPerMultiprocessor;
    occupancy->share = (double)occupancy->ctas * warps * WARP_THREADS / gpu->threads_sm;
    occupancy->limited_by = limit_name(result.limitingFactors);
    return true;
}
