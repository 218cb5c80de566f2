// The driver's library: a module of PTX text, its functions and variables, both ways to hand over the
// arguments, fills of words, and what is answered to a program that forgets cuInit or the context, or
// asks for what is not there. The functions are looked up, so that it links on a machine without a GPU.
#include "check.h"
#include <cstring>
#include <cuda.h>
#include <dlfcn.h>

static const char text[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 calls = 5;
.visible .const .align 4 .u32 factor = 3;

.visible .entry scale(.param .u64 array, .param .u32 count, .param .u64 offset)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [array];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    cvta.to.global.u64 %a1, %a1;
    mul.wide.u32 %a2, %r2, 4;
    add.s64 %a1, %a1, %a2;
    ld.global.u32 %r5, [%a1];
    ld.const.u32 %r6, [factor];
    ld.param.u32 %r7, [offset];
    mad.lo.s32 %r5, %r5, %r6, %r7;
    st.global.u32 [%a1], %r5;
    setp.ne.u32 %p, %r2, 0;
    @%p ret;
    atom.global.add.u32 %r5, [calls], 1;
    ret;
}
)";

template <class F> static F function(void *library, const char *name)
{
    F f = (F)dlsym(library, name);
    if (!f) {
        fprintf(stderr, "%s: not in the driver's library\n", name);
        exit(1);
    }
    return f;
}

#define NAME_OF(name) #name
#define LOOK_UP(name) auto *name##_ = function<decltype(&name)>(driver, NAME_OF(name))

static void answers(const char *what, CUresult is, CUresult should_be)
{
    if (is != should_be)
        fprintf(stderr, "%s: %d, not %d\n", what, is, should_be);
    expect(what, is == should_be);
}

int main()
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    LOOK_UP(cuInit);
    LOOK_UP(cuDeviceGet);
    LOOK_UP(cuDeviceGetAttribute);
    LOOK_UP(cuCtxGetCurrent);
    auto *retain =
        function<decltype(&cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain");
    LOOK_UP(cuCtxSetCurrent);
    LOOK_UP(cuCtxSynchronize);
    LOOK_UP(cuModuleLoadData);
    LOOK_UP(cuModuleLoadDataEx);
    LOOK_UP(cuModuleGetFunction);
    LOOK_UP(cuModuleUnload);
    LOOK_UP(cuLaunchKernel);
    LOOK_UP(cuFuncGetAttribute);
    LOOK_UP(cuGetErrorName);
    LOOK_UP(cuGetErrorString);
    auto *alloc = function<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2");
    auto *release = function<decltype(&cuMemFree)>(driver, "cuMemFree_v2");
    auto *to_gpu = function<decltype(&cuMemcpyHtoD)>(driver, "cuMemcpyHtoD_v2");
    auto *from_gpu = function<decltype(&cuMemcpyDtoH)>(driver, "cuMemcpyDtoH_v2");
    auto *fill = function<decltype(&cuMemsetD32)>(driver, "cuMemsetD32_v2");
    auto *global = function<decltype(&cuModuleGetGlobal)>(driver, "cuModuleGetGlobal_v2");
    auto *get = function<decltype(&cuGetProcAddress)>(driver, "cuGetProcAddress_v2");

    CUdeviceptr array = 0, variable = 0;
    answers("before cuInit", alloc(&array, 64), CUDA_ERROR_NOT_INITIALIZED);
    answers("cuInit", cuInit_(0), CUDA_SUCCESS);
    answers("without a context", alloc(&array, 64), CUDA_ERROR_INVALID_CONTEXT);

    CUdevice device;
    CUcontext context, current = nullptr;
    answers("device 0", cuDeviceGet_(&device, 0), CUDA_SUCCESS);
    answers("device 99", cuDeviceGet_(&device, 99), CUDA_ERROR_INVALID_DEVICE);
    answers("device 0 again", cuDeviceGet_(&device, 0), CUDA_SUCCESS);
    int warp = 0;
    answers("attribute", cuDeviceGetAttribute_(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device),
            CUDA_SUCCESS);
    expect("warp of 32", warp == 32);
    answers("primary context", retain(&context, device), CUDA_SUCCESS);
    answers("none is current", cuCtxGetCurrent_(&current), CUDA_SUCCESS);
    expect("none", current == nullptr);
    answers("make it current", cuCtxSetCurrent_(context), CUDA_SUCCESS);
    answers("which is current", cuCtxGetCurrent_(&current), CUDA_SUCCESS);
    expect("it is", current == context);

    CUmodule module;
    CUfunction scale, missing;
    size_t bytes = 0;
    answers("module", cuModuleLoadData_(&module, text), CUDA_SUCCESS);
    answers("function", cuModuleGetFunction_(&scale, module, "scale"), CUDA_SUCCESS);
    answers("no such function", cuModuleGetFunction_(&missing, module, "shrink"),
            CUDA_ERROR_NOT_FOUND);
    answers("variable", global(&variable, &bytes, module, "calls"), CUDA_SUCCESS);
    expect("of four bytes", bytes == 4);
    answers("no such variable", global(&array, &bytes, module, "returns"), CUDA_ERROR_NOT_FOUND);
    int threads = 0;
    answers("attribute of a function",
            cuFuncGetAttribute_(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, scale),
            CUDA_SUCCESS);
    expect("a block of 1024", threads == 1024);

    unsigned count = 1000, values[1000];
    unsigned long long offset = 7;
    answers("memory of nothing", alloc(&array, 0), CUDA_ERROR_INVALID_VALUE);
    answers("memory", alloc(&array, sizeof values), CUDA_SUCCESS);
    answers("fill", fill(array, 0x01020304, count), CUDA_SUCCESS);
    answers("fill from a byte on", fill(array + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    void *arguments[] = {&array, &count, &offset};
    answers("launch", cuLaunchKernel_(scale, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_SUCCESS);
    struct {
        CUdeviceptr array;
        unsigned count;
        unsigned long long offset;
    } packed = {array, count, 1};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    answers("launch of a buffer",
            cuLaunchKernel_(scale, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
    answers("launch of 2048 threads",
            cuLaunchKernel_(scale, 1, 1, 1, 2048, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_ERROR_INVALID_VALUE);
    answers("wait", cuCtxSynchronize_(), CUDA_SUCCESS);
    answers("copy", from_gpu(values, array, sizeof values), CUDA_SUCCESS);
    bool right = true;
    for (unsigned v : values)
        right &= v == (0x01020304 * 3 + 7) * 3 + 1;
    expect("values", right);
    unsigned calls = 0;
    answers("copy of the variable", from_gpu(&calls, variable, 4), CUDA_SUCCESS);
    expect("two calls", calls == 7);
    answers("to the variable", to_gpu(variable, &count, 4), CUDA_SUCCESS);

    char log[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *option_values[] = {log, (void *)sizeof log};
    CUmodule broken;
    answers("a text that is no PTX",
            cuModuleLoadDataEx_(&broken, ".version 7.0\n.target sm_80\n.address_size 64\nrubbish\n",
                                2, options, option_values),
            CUDA_ERROR_INVALID_PTX);
    expect("the compiler says why", strlen(log) > 0);

    const char *name = "";
    answers("name", cuGetErrorName_(CUDA_ERROR_NOT_FOUND, &name), CUDA_SUCCESS);
    printf("%s\n", name);
    answers("text", cuGetErrorString_(CUDA_ERROR_INVALID_CONTEXT, &name), CUDA_SUCCESS);
    printf("%s\n", name);
    answers("no such error", cuGetErrorName_((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
    void *found = nullptr;
    answers("by name", get("cuMemAlloc", &found, CUDA_VERSION, 0, nullptr), CUDA_SUCCESS);
    expect("the same function", found == (void *)alloc);
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    answers("no such name", get("cuMemLose", &found, CUDA_VERSION, 0, &status), CUDA_SUCCESS);
    expect("is not found", !found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);

    answers("free", release(array), CUDA_SUCCESS);
    answers("free again", release(array), CUDA_ERROR_INVALID_VALUE);
    answers("unload", cuModuleUnload_(module), CUDA_SUCCESS);
    return failures;
}
