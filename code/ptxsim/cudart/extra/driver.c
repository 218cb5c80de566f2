// driver.c: the driver's library, libcuda.so.1, as far as ordinary programs call it: contexts,
// modules, memory, launches, streams, events. Most functions call the runtime's function for the
// same task. The simulator's library is found as libcuda.so.1 and as libcudart.so.13, so a program
// may use the driver and the runtime, as on a GPU. The loader reports the name of a function that
// is missing here.
//
// As on a GPU, a program that calls no function of the runtime must call cuInit and make a context.
#include "extra.h"

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)cudaErrorNoKernelImageForDevice == (int)CUDA_ERROR_NO_BINARY_FOR_GPU &&
                   (int)cudaErrorSymbolNotFound == (int)CUDA_ERROR_NOT_FOUND &&
                   (int)cudaErrorIllegalAddress == (int)CUDA_ERROR_ILLEGAL_ADDRESS,
               "from 100 on errors have the runtime's numbers");
_Static_assert((int)cudaDevAttrReservedSharedMemoryPerBlock ==
                       (int)CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK &&
                   (int)cudaFuncAttributeMaxDynamicSharedMemorySize ==
                       (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                   (int)cudaJitErrorLogBuffer == (int)CU_JIT_ERROR_LOG_BUFFER &&
                   (int)cudaLaunchAttributeClusterDimension ==
                       (int)CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                   sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute),
               "what is handed on to the runtime's functions");

// ---- Errors and contexts ------------------------------------------------------------------------

static const struct {
    CUresult error;
    const char *name;
} error_names[] = {
#define NAME(error)                                                                                \
    {                                                                                              \
        error, #error                                                                              \
    }
    NAME(CUDA_SUCCESS),
    NAME(CUDA_ERROR_INVALID_VALUE),
    NAME(CUDA_ERROR_OUT_OF_MEMORY),
    NAME(CUDA_ERROR_NOT_INITIALIZED),
    NAME(CUDA_ERROR_NO_DEVICE),
    NAME(CUDA_ERROR_INVALID_DEVICE),
    NAME(CUDA_ERROR_INVALID_IMAGE),
    NAME(CUDA_ERROR_INVALID_CONTEXT),
    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU),
    NAME(CUDA_ERROR_UNSUPPORTED_LIMIT),
    NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    NAME(CUDA_ERROR_INVALID_PTX),
    NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    NAME(CUDA_ERROR_INVALID_SOURCE),
    NAME(CUDA_ERROR_FILE_NOT_FOUND),
    NAME(CUDA_ERROR_INVALID_HANDLE),
    NAME(CUDA_ERROR_NOT_FOUND),
    NAME(CUDA_ERROR_NOT_READY),
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS),
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    NAME(CUDA_ERROR_LAUNCH_TIMEOUT),
    NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
    NAME(CUDA_ERROR_ASSERT),
    NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION),
    NAME(CUDA_ERROR_MISALIGNED_ADDRESS),
    NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE),
    NAME(CUDA_ERROR_LAUNCH_FAILED),
    NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
    NAME(CUDA_ERROR_NOT_PERMITTED),
    NAME(CUDA_ERROR_NOT_SUPPORTED),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE),
    NAME(CUDA_ERROR_UNKNOWN),
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
    for (size_t i = 0; name && i < sizeof error_names / sizeof *error_names; ++i)
        if (error_names[i].error == error) {
            *name = error_names[i].name;
            return CUDA_SUCCESS;
        }
    if (name)
        *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    CUresult known = cuGetErrorName(error, text);
    if (known == CUDA_SUCCESS)
        *text = cudaGetErrorString((cudaError_t)error);
    return known;
}

// The driver's error for an error of the runtime: it has the same number. Only errors between the
// two named below become "invalid value": the driver lacks most of them, such as those of a
// launch's configuration.
static CUresult result(cudaError_t error)
{
    if (error < cudaErrorNoDevice && error > cudaErrorInitializationError)
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)error;
}

struct CUctx_st {
    bool primary;
    struct CUctx_st *next; // the next in the list of all contexts
};
static struct CUctx_st primary = {.primary = true}, *contexts = &primary;
static unsigned primary_retained;
static bool initialised, tables_asked;

enum { CONTEXTS_DEEP = 32 };
static _Thread_local CUcontext stack[CONTEXTS_DEEP]; // the top is the current context
static _Thread_local int depth;

static CUcontext current(void)
{
    return depth > 0 ? stack[depth - 1] : runtime_called_here ? &primary : NULL;
}

static CUresult has_begun(void)
{
    return initialised || runtime_called ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult has_context(void)
{
    CUresult begun = has_begun();
    return begun != CUDA_SUCCESS ? begun : current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// Begins a function of the driver: takes the lock, as the runtime's functions do, and makes the
// function return `condition` if that is an error. Nearly every function requires has_begun() or
// has_context().
#define ENTER(condition)                                                                           \
    __attribute__((cleanup(api_leave), unused)) int entered = driver_enter();                      \
    NEEDS(condition)
#define NEEDS(condition)                                                                           \
    do {                                                                                           \
        CUresult needs_ = (condition);                                                             \
        if (needs_ != CUDA_SUCCESS)                                                                \
            return needs_;                                                                         \
    } while (0)

static CUresult is_context(CUcontext context)
{
    struct CUctx_st *c = contexts;
    while (c && c != context)
        c = c->next;
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult is_device(CUdevice device)
{
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuInit(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = true;
    driver_used = !tables_asked;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    return result(cudaDriverGetVersion(version));
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    ENTER(has_begun());
    NEEDS(is_context(context));
    if (depth == CONTEXTS_DEEP)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    ENTER(has_begun());
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    --depth;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(has_begun());
    if (context)
        NEEDS(is_context(context));
    depth -= depth > 0;
    return context ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(has_begun());
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current();
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    struct CUctx_st *made = context ? calloc(1, sizeof *made) : NULL;
    (void)params, (void)flags;
    if (!made)
        return context ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    made->next = contexts;
    contexts = made;
    *context = made;
    return cuCtxPushCurrent(made);
}

CUresult cuCtxDestroy(CUcontext context)
{
    ENTER(has_begun());
    NEEDS(is_context(context));
    if (context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (current() == context)
        --depth;
    for (struct CUctx_st **c = &contexts; *c; c = &(*c)->next)
        if (*c == context) {
            *c = context->next;
            break;
        }
    free(context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    ++primary_retained;
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!primary_retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    --primary_retained;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    return result(cudaDeviceReset());
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    *active = primary_retained || runtime_called;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(has_context());
    return result(cudaGetDevice(device));
}

CUresult cuCtxSynchronize(void)
{
    ENTER(has_context());
    return result(cudaDeviceSynchronize());
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER(has_context());
    return result(cudaDeviceSetLimit((enum cudaLimit)limit, value));
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    ENTER(has_context());
    return result(cudaDeviceGetLimit(value, (enum cudaLimit)limit));
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(has_context());
    return result(cudaDeviceGetStreamPriorityRange(least, greatest));
}

// ---- The device ---------------------------------------------------------------------------------

CUresult cuDeviceGetCount(int *count)
{
    ENTER(has_begun());
    return result(cudaGetDeviceCount(count));
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(has_begun());
    NEEDS(is_device(ordinal));
    return result(cudaGetDevice(device));
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!name || size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "%s", device_properties()->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = device_properties()->totalGlobalMem;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(has_begun());
    return result(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device));
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER(has_begun());
    NEEDS(is_device(device));
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid, &device_properties()->uuid, sizeof *uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    ENTER(has_begun());
    return result(cudaDeviceGetPCIBusId(id, size, device));
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(has_begun());
    return result(cudaDeviceCanAccessPeer(can, device, peer));
}

// ---- Modules and their functions ----------------------------------------------------------------

// A CUmodule is a cudaLibrary_t here, a CUfunction one of its kernels.
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    ENTER(has_context());
    return result(cudaLibraryLoadData((cudaLibrary_t *)module, image, (enum cudaJitOption *)options,
                                      values, count, NULL, NULL, 0));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatbin)
{
    return cuModuleLoadDataEx(module, fatbin, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    ENTER(has_context());
    return result(
        cudaLibraryLoadFromFile((cudaLibrary_t *)module, path, NULL, NULL, 0, NULL, NULL, 0));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned count, CUlibraryOption *library_options,
                           void **library_values, unsigned library_count)
{
    (void)library_options, (void)library_values, (void)library_count;
    return cuModuleLoadDataEx((CUmodule *)library, code, count, options, values);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    return cuModuleUnload((CUmodule)library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return cuModuleGetFunction((CUfunction *)kernel, (CUmodule)library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    ENTER(has_context());
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER(has_context());
    return result(cudaLibraryUnload((cudaLibrary_t)module));
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(has_context());
    return result(cudaLibraryGetKernel((cudaKernel_t *)function, (cudaLibrary_t)module, name));
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    ENTER(has_context());
    return result(cudaLibraryGetKernelCount(count, (cudaLibrary_t)module));
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    ENTER(has_context());
    return result(cudaLibraryGetGlobal((void **)address, bytes, (cudaLibrary_t)module, name));
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    ENTER(has_context());
    struct cudaFuncAttributes a;
    CUresult error = result(cudaFuncGetAttributes(&a, function));
    if (error != CUDA_SUCCESS || !value)
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = a.maxThreadsPerBlock; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)a.sharedSizeBytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = (int)a.constSizeBytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)a.localSizeBytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = a.numRegs; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = a.ptxVersion; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = a.binaryVersion; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = a.maxDynamicSharedSizeBytes;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = a.preferredShmemCarveout;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    ENTER(has_context());
    return result(cudaFuncSetAttribute(function, (enum cudaFuncAttribute)attribute, value));
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    ENTER(has_context());
    return result(cudaFuncSetCacheConfig(function, (enum cudaFuncCache)config));
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    ENTER(has_context());
    return result(cudaFuncGetName(name, function));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t dynamic_shared)
{
    ENTER(has_context());
    return result(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared));
}

// Finds the block size with which most threads are resident on an SM (of equally good sizes, the
// largest), and how many such blocks fill the GPU.
CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                          int limit)
{
    ENTER(has_context());
    struct cudaFuncAttributes a;
    int blocks, most = 0;

    if (!grid || !block)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult error = result(cudaFuncGetAttributes(&a, function));
    int threads = limit > 0 && limit < a.maxThreadsPerBlock ? limit : a.maxThreadsPerBlock;
    while (error == CUDA_SUCCESS && threads > 0) {
        error = result(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, threads, shared_of ? shared_of(threads) : dynamic_shared));
        if (error == CUDA_SUCCESS && blocks * threads > most) {
            most = blocks * threads;
            *block = threads;
            *grid = blocks * device_now()->sms;
        }
        threads = (threads - 1) / WARP * WARP;
    }
    return error;
}

// ---- Launches -----------------------------------------------------------------------------------

// Sets `arguments` to the address of each argument in the buffer that `extra` names; the buffer has
// the layout of the kernel's parameters.
static CUresult unpack(CUfunction function, void **extra, void **arguments, size_t most)
{
    char *buffer = NULL;
    size_t offset, size;

    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] != CU_LAUNCH_PARAM_BUFFER_SIZE)
            return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < most; ++i) {
        if (cudaFuncGetParamInfo(function, i, &offset, &size) != cudaSuccess)
            return CUDA_SUCCESS;
        if (!buffer)
            return CUDA_ERROR_INVALID_VALUE;
        arguments[i] = buffer + offset;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra)
{
    ENTER(has_context());
    void *unpacked[1024];
    if (!config || (arguments && extra))
        return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        NEEDS(unpack(function, extra, unpacked, sizeof unpacked / sizeof *unpacked));
        arguments = unpacked;
    }
    cudaLaunchConfig_t same = {
        .gridDim = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .blockDim = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .dynamicSmemBytes = config->sharedMemBytes,
        .stream = config->hStream,
        .attrs = (cudaLaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    return result(cudaLaunchKernelExC(&same, function, arguments));
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned dynamic_shared, CUstream stream, void **arguments, void **extra)
{
    CUlaunchConfig config = {grid_x,  grid_y,         grid_z, block_x, block_y,
                             block_z, dynamic_shared, stream, NULL,    0};
    return cuLaunchKernelEx(&config, function, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned dynamic_shared, CUstream stream,
                                   void **arguments)
{
    CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {grid_x,  grid_y,         grid_z, block_x,   block_y,
                             block_z, dynamic_shared, stream, &together, 1};
    return cuLaunchKernelEx(&config, function, arguments, NULL);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER(has_context());
    return result(cudaLaunchHostFunc(stream, function, data));
}

// ---- Memory -------------------------------------------------------------------------------------

static void *at(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    ENTER(has_context());
    return bytes ? result(cudaMalloc((void **)address, bytes)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                         unsigned element)
{
    ENTER(has_context());
    if (element != 4 && element != 8 && element != 16)
        return CUDA_ERROR_INVALID_VALUE;
    return result(cudaMallocPitch((void **)address, pitch, width, height));
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    ENTER(has_context());
    return result(cudaMallocManaged((void **)address, bytes, flags));
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    ENTER(has_context());
    return result(cudaMallocAsync((void **)address, bytes, stream));
}

CUresult cuMemFree(CUdeviceptr address)
{
    ENTER(has_context());
    return result(cudaFree(at(address)));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    ENTER(has_context());
    return result(cudaFreeAsync(at(address), stream));
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    ENTER(has_context());
    return result(cudaMemGetInfo(free_bytes, total));
}

CUresult cuMemAllocHost(void **memory, size_t bytes)
{
    ENTER(has_context());
    return result(cudaMallocHost(memory, bytes));
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER(has_context());
    return result(cudaHostAlloc(memory, bytes, flags));
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned flags)
{
    ENTER(has_context());
    return result(cudaHostGetDevicePointer((void **)address, memory, flags));
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    ENTER(has_context());
    return result(cudaHostRegister(memory, bytes, flags));
}

CUresult cuMemHostUnregister(void *memory)
{
    ENTER(has_context());
    return result(cudaHostUnregister(memory));
}

CUresult cuMemFreeHost(void *memory)
{
    ENTER(has_context());
    return result(cudaFreeHost(memory));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER(has_context());
    return result(cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDefault));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(has_context());
    return result(cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDefault, stream));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER(has_context());
    return result(cudaMemcpyAsync(at(to), from, bytes, cudaMemcpyHostToDevice, stream));
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    ENTER(has_context());
    return result(cudaMemcpy(at(to), from, bytes, cudaMemcpyHostToDevice));
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(has_context());
    return result(cudaMemcpyAsync(to, at(from), bytes, cudaMemcpyDeviceToHost, stream));
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    ENTER(has_context());
    return result(cudaMemcpy(to, at(from), bytes, cudaMemcpyDeviceToHost));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(has_context());
    return result(cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDeviceToDevice, stream));
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER(has_context());
    return result(cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDeviceToDevice));
}

static CUresult fill(CUdeviceptr to, unsigned value, unsigned element, size_t count,
                     CUstream stream)
{
    ENTER(has_context());
    struct task task;
    cudaError_t error = sticky_error();
    if (error == cudaSuccess && to % element)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = fill_task(at(to), 0, value, element, count, 1, &task);
    if (error == cudaSuccess && task.kind != TASK_NOTHING)
        error = stream_submit(stream, &task);
    return result(api_result(error));
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(to, value, 1, count, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(to, value, 1, count, stream);
}

CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill(to, value, 2, count, NULL);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count)
{
    return fill(to, value, 4, count, NULL);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    return fill(to, value, 4, count, stream);
}

// ---- Streams and events -------------------------------------------------------------------------

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(has_context());
    return result(cudaStreamCreateWithFlags(stream, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    ENTER(has_context());
    return result(cudaStreamCreateWithPriority(stream, flags, priority));
}

CUresult cuStreamDestroy(CUstream stream)
{
    ENTER(has_context());
    return result(cudaStreamDestroy(stream));
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(has_context());
    return result(cudaStreamSynchronize(stream));
}

CUresult cuStreamQuery(CUstream stream)
{
    ENTER(has_context());
    return result(cudaStreamQuery(stream));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER(has_context());
    return result(cudaStreamWaitEvent(stream, event, flags));
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(has_context());
    return result(cudaEventCreateWithFlags(event, flags));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(has_context());
    return result(cudaEventRecord(event, stream));
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(has_context());
    return result(cudaEventSynchronize(event));
}

CUresult cuEventQuery(CUevent event)
{
    ENTER(has_context());
    return result(cudaEventQuery(event));
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    ENTER(has_context());
    return result(cudaEventElapsedTime(ms, from, to));
}

CUresult cuEventDestroy(CUevent event)
{
    ENTER(has_context());
    return result(cudaEventDestroy(event));
}

// ---- Functions by name --------------------------------------------------------------------------

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *found)
{
    (void)version, (void)flags;
    if (!name || !function)
        return CUDA_ERROR_INVALID_VALUE;
    // A runtime that is linked into the executable asks the driver for tables that are not
    // documented.
    tables_asked |= !strcmp(name, "cuGetExportTable");
    driver_used = initialised && !tables_asked;
    *function = driver_function(name);
    if (found)
        *found = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS; // also if there is no such function: *found says that
}
