// device.c: the simulated device, an NVIDIA L4 (Ada, AD104) or, for programs that have nothing for
// it, an H200 (Hopper, GH100): what it is, what fits on it, and the names of errors.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_occupancy.h>

enum { RUNTIME_VERSION = 13000 };

// Decided when a program first asks: its fat binaries are registered before main.
const struct gpu *device_now(void)
{
    static const struct gpu *device;
    if (!device)
        device = &gpus[needs_hopper() ? GPU_H200 : GPU_L4];
    return device;
}

// Features that the simulator does not have are 0.
const struct cudaDeviceProp *device_properties(void)
{
    static struct cudaDeviceProp properties = {
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
        snprintf(properties.name, sizeof properties.name, "%s (ptxsim)", d->name);
        properties.major = d->arch / 10;
        properties.minor = d->arch % 10;
        properties.multiProcessorCount = d->sms;
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

static cudaError_t check_device(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    API_LOCK();
    if (!count)
        return result(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    API_LOCK();
    if (!device)
        return result(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    API_LOCK();
    return result(check_device(device));
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    API_LOCK();
    (void)device_flags, (void)flags;
    return result(check_device(device));
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    API_ENTER();
    (void)flags;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    API_ENTER();
    if (!flags)
        return result(cudaErrorInvalidValue);
    *flags = 0;
    return cudaSuccess;
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    (void)wanted;
    return cudaGetDevice(device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    API_LOCK();
    if (!properties)
        return result(cudaErrorInvalidValue);
    if (check_device(device) != cudaSuccess)
        return result(cudaErrorInvalidDevice);
    *properties = *device_properties();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    API_LOCK();
    const struct cudaDeviceProp *p = device_properties();
    const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } known[] = {
        {cudaDevAttrMaxThreadsPerBlock, p->maxThreadsPerBlock},
        {cudaDevAttrMaxBlockDimX, p->maxThreadsDim[0]},
        {cudaDevAttrMaxBlockDimY, p->maxThreadsDim[1]},
        {cudaDevAttrMaxBlockDimZ, p->maxThreadsDim[2]},
        {cudaDevAttrMaxGridDimX, p->maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, p->maxGridSize[1]},
        {cudaDevAttrMaxGridDimZ, p->maxGridSize[2]},
        {cudaDevAttrMaxSharedMemoryPerBlock, (int)p->sharedMemPerBlock},
        {cudaDevAttrTotalConstantMemory, (int)p->totalConstMem},
        {cudaDevAttrWarpSize, p->warpSize},
        {cudaDevAttrMaxPitch, (int)p->memPitch},
        {cudaDevAttrMaxRegistersPerBlock, p->regsPerBlock},
        {cudaDevAttrClockRate, device_now()->clock_khz},
        {cudaDevAttrTextureAlignment, (int)p->textureAlignment},
        {cudaDevAttrTexturePitchAlignment, (int)p->texturePitchAlignment},
        {cudaDevAttrSurfaceAlignment, (int)p->surfaceAlignment},
        {cudaDevAttrGpuOverlap, 1},
        {cudaDevAttrMultiProcessorCount, p->multiProcessorCount},
        {cudaDevAttrCanMapHostMemory, p->canMapHostMemory},
        {cudaDevAttrConcurrentKernels, p->concurrentKernels},
        {cudaDevAttrEccEnabled, p->ECCEnabled},
        {cudaDevAttrMemoryClockRate, device_now()->memory_clock_khz},
        {cudaDevAttrGlobalMemoryBusWidth, p->memoryBusWidth},
        {cudaDevAttrL2CacheSize, p->l2CacheSize},
        {cudaDevAttrMaxThreadsPerMultiProcessor, p->maxThreadsPerMultiProcessor},
        {cudaDevAttrAsyncEngineCount, p->asyncEngineCount},
        {cudaDevAttrUnifiedAddressing, p->unifiedAddressing},
        {cudaDevAttrComputeCapabilityMajor, p->major},
        {cudaDevAttrComputeCapabilityMinor, p->minor},
        {cudaDevAttrStreamPrioritiesSupported, p->streamPrioritiesSupported},
        {cudaDevAttrGlobalL1CacheSupported, p->globalL1CacheSupported},
        {cudaDevAttrLocalL1CacheSupported, p->localL1CacheSupported},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p->sharedMemPerMultiprocessor},
        {cudaDevAttrMaxRegistersPerMultiprocessor, p->regsPerMultiprocessor},
        {cudaDevAttrManagedMemory, p->managedMemory},
        {cudaDevAttrSingleToDoublePrecisionPerfRatio, p->major == 9 ? 2 : 64},
        {cudaDevAttrConcurrentManagedAccess, p->concurrentManagedAccess},
        {cudaDevAttrComputePreemptionSupported, p->computePreemptionSupported},
        {cudaDevAttrCanUseHostPointerForRegisteredMem, p->canUseHostPointerForRegisteredMem},
        {cudaDevAttrCooperativeLaunch, p->cooperativeLaunch},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p->sharedMemPerBlockOptin},
        {cudaDevAttrHostRegisterSupported, p->hostRegisterSupported},
        {cudaDevAttrMemoryPoolsSupported, p->memoryPoolsSupported},
        {cudaDevAttrMaxBlocksPerMultiprocessor, p->maxBlocksPerMultiProcessor},
        {cudaDevAttrReservedSharedMemoryPerBlock, (int)p->reservedSharedMemPerBlock},
    };

    if (!value || attribute < 1 || attribute >= cudaDevAttrMax)
        return result(cudaErrorInvalidValue);
    if (check_device(device) != cudaSuccess)
        return result(cudaErrorInvalidDevice);
    *value = 0; // a feature that the simulator does not have
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute)
            *value = known[i].value;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    API_ENTER();
    if (!id || size <= 0 || (size_t)size <= strlen("0000:00:00.0"))
        return result(cudaErrorInvalidValue);
    strcpy(id, "0000:00:00.0");
    return result(check_device(device));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    API_ENTER();
    if (!can || check_device(device) != cudaSuccess || check_device(peer) != cudaSuccess)
        return result(cudaErrorInvalidDevice);
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    API_ENTER();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    API_ENTER();
    return result(capture_forbids());
}

// Does not take back a fault: the memory of a faulted device is lost, and with it all that the
// program holds.
cudaError_t cudaDeviceReset(void)
{
    API_LOCK();
    return cudaSuccess;
}

// Caches, and limits of what the simulator does not model, are accepted and have no effect.
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    API_ENTER();
    (void)config;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    API_ENTER();
    if (!config)
        return result(cudaErrorInvalidValue);
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    API_ENTER();
    return cudaSuccess;
}

static size_t limits[] = {
    [cudaLimitStackSize] = 1024,           [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,   [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64, [cudaLimitPersistingL2CacheSize] = 0,
};

static cudaError_t check_limit(enum cudaLimit limit)
{
    if (limit >= sizeof limits / sizeof *limits)
        return cudaErrorInvalidValue;
    return limit == cudaLimitDevRuntimeSyncDepth ? cudaErrorUnsupportedLimit : cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    API_ENTER();
    cudaError_t error = check_limit(limit);
    if (error == cudaSuccess)
        limits[limit] = value;
    return result(error);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    API_ENTER();
    cudaError_t error = value ? check_limit(limit) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *value = limits[limit];
    return result(error);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return result(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

cudaError_t cudaProfilerStart(void)
{
    API_ENTER();
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    API_ENTER();
    return cudaSuccess;
}

// ---- Occupancy ----------------------------------------------------------------------------------

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
    return result(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                  0);
}

// ---- Errors -------------------------------------------------------------------------------------

struct error_text {
    cudaError_t error;
    const char *name;
    const char *text; // NULL: the words of the name
};

static const struct error_text error_texts[] = {
#define ERROR(name, text) {name, #name, text},
#include "errors.def"
#undef ERROR
};

static const struct error_text *find_error(cudaError_t error)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; ++i)
        if (error_texts[i].error == error)
            return &error_texts[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const struct error_text *found = find_error(error);
    return found ? found->name : "unrecognized error code";
}

// The texts that programs meet here are the real library's; the others are made of the name,
// "peer access unsupported" of cudaErrorPeerAccessUnsupported.
const char *cudaGetErrorString(cudaError_t error)
{
    static _Thread_local char words[128];
    const struct error_text *found = find_error(error);
    size_t length = 0;

    if (!found)
        return "unrecognized error code";
    if (found->text)
        return found->text;
    for (const char *c = found->name + strlen("cudaError"); *c && length + 2 < sizeof words; ++c) {
        bool capital = *c >= 'A' && *c <= 'Z';
        if (capital && length > 0)
            words[length++] = ' ';
        words[length++] = (char)(capital ? *c - 'A' + 'a' : *c);
    }
    words[length] = 0;
    return words;
}
