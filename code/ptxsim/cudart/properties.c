// properties.c: functions that tell a program about the simulated device (device.c): properties,
// attributes, limits.
#include "ptxsim/base/heap.h"
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNTIME_VERSION = 13000 };

static cudaError_t check_device(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    API_LOCK();
    if (!count)
        return api_result(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    API_LOCK();
    if (!device)
        return api_result(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    API_LOCK();
    return api_result(check_device(device));
}

// An empty list allows all devices again.
cudaError_t cudaSetValidDevices(int *devices, int count)
{
    API_LOCK();
    if (count < 0 || (count > 0 && !devices))
        return api_result(cudaErrorInvalidValue);
    for (int i = 0; i < count; ++i)
        if (check_device(devices[i]) != cudaSuccess)
            return api_result(cudaErrorInvalidDevice);
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    API_LOCK();
    (void)device_flags, (void)flags;
    return api_result(check_device(device));
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
        return api_result(cudaErrorInvalidValue);
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
        return api_result(cudaErrorInvalidValue);
    if (check_device(device) != cudaSuccess)
        return api_result(cudaErrorInvalidDevice);
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
        {cudaDevAttrClusterLaunch, p->clusterLaunch},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p->sharedMemPerBlockOptin},
        {cudaDevAttrHostRegisterSupported, p->hostRegisterSupported},
        {cudaDevAttrMemoryPoolsSupported, p->memoryPoolsSupported},
        {cudaDevAttrMaxBlocksPerMultiprocessor, p->maxBlocksPerMultiProcessor},
        {cudaDevAttrReservedSharedMemoryPerBlock, (int)p->reservedSharedMemPerBlock},
    };

    if (!value || attribute < 1 || attribute >= cudaDevAttrMax)
        return api_result(cudaErrorInvalidValue);
    if (check_device(device) != cudaSuccess)
        return api_result(cudaErrorInvalidDevice);
    *value = 0; // 0: a feature that the simulator lacks
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute)
            *value = known[i].value;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    API_ENTER();
    if (!id || size <= 0 || (size_t)size <= strlen("0000:00:00.0"))
        return api_result(cudaErrorInvalidValue);
    strcpy(id, "0000:00:00.0");
    return api_result(check_device(device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    API_ENTER();
    unsigned domain = 0, bus, place, function = 0;
    char end;
    if (!device || !id ||
        (sscanf(id, "%x:%x:%x.%x%c", &domain, &bus, &place, &function, &end) != 4 &&
         sscanf(id, "%x:%x:%x%c", &domain, &bus, &place, &end) != 3 &&
         (domain = 0, sscanf(id, "%x:%x.%x%c", &bus, &place, &function, &end)) != 3))
        return api_result(cudaErrorInvalidValue);
    if (domain || bus || place || function)
        return api_result(cudaErrorInvalidDevice);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    API_ENTER();
    if (!can || check_device(device) != cudaSuccess || check_device(peer) != cudaSuccess)
        return api_result(cudaErrorInvalidDevice);
    *can = 0;
    return cudaSuccess;
}

// A GPU is not its own peer, and the simulator has only one.
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    API_ENTER();
    if (flags != 0)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = check_device(peer);
    return api_result(error == cudaSuccess ? cudaErrorPeerAccessUnsupported : error);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    API_ENTER();
    cudaError_t error = check_device(peer);
    return api_result(error == cudaSuccess ? cudaErrorPeerAccessNotEnabled : error);
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
    API_WORK();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess)
        streams_wait();
    return api_result(error);
}

// A reset does not clear a fault: the memory of a faulted device is lost, with all that the program
// has there.
cudaError_t cudaDeviceReset(void)
{
    API_LOCK();
    streams_wait();
    return cudaSuccess;
}

// Settings of caches, and limits other than the stack's and the heap's, have no effect.
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
        return api_result(cudaErrorInvalidValue);
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}

// The banks are four bytes wide, whatever is set, as in every GPU since 2014.
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    API_ENTER();
    if (!config)
        return api_result(cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    API_ENTER();
    return api_result((unsigned)config <= cudaSharedMemBankSizeEightByte ? cudaSuccess
                                                                         : cudaErrorInvalidValue);
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    API_ENTER();
    return cudaSuccess;
}

enum { STACK_MOST = 512 << 10 }; // bytes of local memory that a thread may have

static cudaError_t check_limit(enum cudaLimit limit)
{
    if (!device_limit(limit))
        return cudaErrorInvalidValue;
    return limit == cudaLimitDevRuntimeSyncDepth ? cudaErrorUnsupportedLimit : cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    API_ENTER();
    cudaError_t error = check_limit(limit);
    if (error == cudaSuccess && limit == cudaLimitStackSize && value > STACK_MOST)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && limit == cudaLimitMallocHeapSize && !heap_limit(value))
        // The value is too large, or a kernel that allocates has already run.
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *device_limit(limit) = value;
    return api_result(error);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    API_ENTER();
    cudaError_t error = value ? check_limit(limit) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *value = *device_limit(limit);
    return api_result(error);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return api_result(cudaErrorInvalidValue);
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
