// device.c: the simulated device: its properties and its limits. It is the first GPU of the table
// that runs all of the program's PTX: an L4, or an H200 for a program that is for Hopper only.
#include "ptxsim/base/base.h"
#include "runtime.h"

#include <stdio.h>

static const struct gpu *device;
static struct cudaDeviceProp properties;

// The first GPU of the table that runs PTX for this compute capability. If there is none, the
// table's first GPU, which then refuses the kernels.
static const struct gpu *gpu_for(int arch)
{
    const struct gpu *found = &gpus[0];
    for (int i = gpu_count - 1; i >= 0; --i)
        if (gpus[i].arch >= arch)
            found = &gpus[i];
    return found;
}

// Chooses the device when a function first needs it: the choice depends on the fat binaries, which
// the program has registered before main.
const struct gpu *device_now(void)
{
    if (!device)
        device = gpu_for(arch_needed());
    return device;
}

// Properties of features that the simulator lacks are 0.
const struct cudaDeviceProp *device_properties(void)
{
    static const struct cudaDeviceProp always = {
        .regsPerBlock = GPU_REGISTERS,
        .warpSize = WARP,
        .memPitch = INT32_MAX,
        .maxThreadsPerBlock = GPU_THREADS_CTA,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {INT32_MAX, 65535, 65535},
        .totalConstMem = 64 << 10,
        .textureAlignment = 512,
        .texturePitchAlignment = 32,
        .surfaceAlignment = 512,
        .canMapHostMemory = 1,
        .concurrentKernels = 1,
        .ECCEnabled = 1,
        .asyncEngineCount = 2,
        .unifiedAddressing = 1,
        .streamPrioritiesSupported = 1,
        .globalL1CacheSupported = 1,
        .localL1CacheSupported = 1,
        .regsPerMultiprocessor = GPU_REGISTERS,
        .managedMemory = 1,
        .concurrentManagedAccess = 1,
        .computePreemptionSupported = 1,
        .canUseHostPointerForRegisteredMem = 1,
        .cooperativeLaunch = 1,
        .reservedSharedMemPerBlock = GPU_SHARED_RESERVED,
        .hostRegisterSupported = 1,
        .memoryPoolsSupported = 1,
    };

    if (properties.totalGlobalMem == 0) {
        const struct gpu *d = device_now();
        properties = always;
        snprintf(properties.name, sizeof properties.name, "%s (ptxsim)", d->name);
        properties.major = d->arch / 10;
        properties.minor = d->arch % 10;
        properties.multiProcessorCount = d->sms;
        properties.clusterLaunch = d->arch >= 90;
        properties.memoryBusWidth = d->bus_bits;
        properties.l2CacheSize = (int)d->l2_bytes;
        properties.maxThreadsPerMultiProcessor = d->threads_sm;
        properties.sharedMemPerBlock = d->shared_default;
        properties.sharedMemPerMultiprocessor = d->shared_sm;
        properties.sharedMemPerBlockOptin = d->shared_optin;
        properties.maxBlocksPerMultiProcessor = d->blocks_sm;
        properties.totalGlobalMem = memory_capacity();
    }
    return &properties;
}

// If a program that has launched nothing yet loads PTX for a newer GPU, the device becomes that
// GPU.
bool device_becomes(int arch)
{
    const struct gpu *other = gpu_for(arch);
    char name[64];

    if (kernel_launched() || other->arch < arch || other->arch <= device_now()->arch)
        return false;
    gpu_in_a_sentence(other, name, sizeof name);
    complain("the program loads PTX for sm_%d: the simulated GPU is %s from now on", arch, name);
    device = other;
    properties.totalGlobalMem = 0; // properties are filled in again
    return true;
}

static size_t limits[] = {
    [cudaLimitStackSize] = 1024,           [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,   [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64, [cudaLimitPersistingL2CacheSize] = 0,
};

size_t *device_limit(enum cudaLimit limit)
{
    return limit < sizeof limits / sizeof *limits ? &limits[limit] : NULL;
}

size_t stack_limit(void)
{
    return limits[cudaLimitStackSize];
}
