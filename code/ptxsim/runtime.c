// runtime.c: what nvcc's host code calls: fat binaries, kernels, variables, launches.
#include "runtime.h"

#include "fatbin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRAPPER_MAGIC = 0x466243B1, WRAPPER_SEPARATE = 2, CALLS_MAX = 16 };

struct wrapper { // in .nvFatBinSegment
    int magic, version;
    const void *fatbin;
    const void *prelinked;
};

struct binary { // one fat binary: usually one source file
    const void *fatbin;
    bool separate;         // compiled separately (-rdc=true), and linked to machine code only
    struct module *module; // NULL until it is first needed
    struct image cubin;    // of the arch closest below the device's; data NULL: none
    cudaError_t error;     // why there is no module
    struct binary *next;
};

struct variable {
    struct binary *binary;
    const void *host; // address of its shadow in host memory
    const char *name;
    size_t size;
    void **managed; // the host's pointer to a __managed__ variable, else NULL
    struct variable *next;
};

static struct binary *binaries;
static struct variable *variables;
static struct CUkern_st *kernels, *launched, **launched_end = &launched;

// ---- Calls and errors ---------------------------------------------------------------------------

static pthread_mutex_t api_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static cudaError_t sticky;
static _Thread_local cudaError_t last_error;

int api_enter(void)
{
    pthread_mutex_lock(&api_lock);
    return 1;
}

void api_leave(const int *entered)
{
    (void)entered;
    pthread_mutex_unlock(&api_lock);
}

cudaError_t sticky_error(void)
{
    return sticky;
}

cudaError_t result(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t result_sticky(cudaError_t error)
{
    sticky = error;
    return result(error);
}

// A fault is not remembered here longer than other errors, but the next call meets it again.
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

void complain(const char *format, ...)
{
    va_list arguments;
    char line[1024];

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ptxsim: %s\n", line);
}

int report_unsupported(const char *name); // unsupported.c
int report_unsupported(const char *name)
{
    complain("%s: not supported", name);
    return result(cudaErrorNotSupported);
}

const char *ptxsim_version(void)
{
    return PTXSIM_VERSION;
}

// ---- Registration -------------------------------------------------------------------------------

// nvcc's prototypes for these are in an internal header of C++.
#pragma GCC visibility push(default)
void **__cudaRegisterFatBinary(const struct wrapper *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t size, int constant, int global);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
#pragma GCC visibility pop

// These run before main and cannot report an error: out of memory ends the program.
static void *registered(size_t size)
{
    void *entry = calloc(1, size);
    if (!entry) {
        complain("out of memory");
        abort();
    }
    return entry;
}

void **__cudaRegisterFatBinary(const struct wrapper *wrapper)
{
    struct binary *binary = registered(sizeof *binary);

    if (wrapper->magic == WRAPPER_MAGIC)
        binary->fatbin = wrapper->fatbin;
    binary->separate = wrapper->version == WRAPPER_SEPARATE;
    binary->next = binaries;
    binaries = binary;
    return (void **)binary;
}

static bool ignore_image(const struct image *image, void *data)
{
    (void)image, (void)data;
    return false;
}

// A program that has GPU code and did not bring it here has another runtime: its own (nvcc links it
// statically unless told), or that of another CUDA. LD_PRELOAD is how it meets this library at all.
__attribute__((destructor)) static void tell_other_runtime(void)
{
    char why[512];
    if (!binaries && fatbin_visit_executable("/proc/self/exe", ignore_image, NULL, why, sizeof why))
        complain("the executable has a CUDA runtime of its own: build it with nvcc 13 and "
                 "-cudart shared");
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

// The counts are still wanted for the report.
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size)
{
    struct CUkern_st *kernel = registered(sizeof *kernel);

    (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid;
    (void)warp_size;
    kernel->binary = (struct binary *)handle;
    kernel->host = host;
    kernel->name = name;
    kernel->max_dynamic_shared = -1;
    kernel->carveout = -1;
    kernel->next = kernels;
    kernels = kernel;
}

static struct variable *register_variable(void **handle, const void *host, const char *name,
                                          size_t size)
{
    struct variable *variable = registered(sizeof *variable);

    variable->binary = (struct binary *)handle;
    variable->host = host;
    variable->name = name;
    variable->size = size;
    variable->next = variables;
    variables = variable;
    return variable;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global)
{
    (void)device, (void)external, (void)constant, (void)global;
    register_variable(handle, host, name, size);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t size, int constant, int global)
{
    (void)device, (void)external, (void)constant, (void)global;
    register_variable(handle, host, name, size)->managed = host;
}

// ---- Modules ------------------------------------------------------------------------------------

static bool find_device_launch(const struct image *image, void *data)
{
    static const char declared[] =
        ".extern .func (.param .b32 func_retval0) __cudaCDP2LaunchDevice";
    bool *found = data;
    if (image->kind == IMAGE_PTX && !image->compressed)
        *found |= memmem(image->data, image->size, declared, strlen(declared)) != NULL;
    return !*found;
}

// What is wrong with an executable that was compiled separately.
static const char *separate_error(void)
{
    bool launches = false;
    char why[512];

    fatbin_visit_section("/proc/self/exe", "__nv_relfatbin", find_device_launch, &launches, why,
                         sizeof why);
    return launches
               ? "the executable launches kernels from device code: dynamic parallelism is not "
                 "supported"
               : "the executable was built with -rdc=true, whose PTX is not linked: build it "
                 "without, each kernel in one source file with all that it calls";
}

bool needs_hopper(void)
{
    bool needs = false;

    for (const struct binary *binary = binaries; binary; binary = binary->next) {
        const void *at = NULL;
        struct image image;
        bool old = false, hopper = false;
        while (binary->fatbin && fatbin_next(binary->fatbin, SIZE_MAX, &at, &image)) {
            old |= image.kind == IMAGE_PTX && image.arch < 90;
            hopper |= image.kind == IMAGE_PTX && image.arch == 90;
        }
        needs |= hopper && !old;
    }
    return needs;
}

// Chooses among the images of a fat binary as a driver does: machine code and PTX of the highest
// arch that is not newer than the device's.
static cudaError_t choose_images(struct binary *binary, struct image *ptx)
{
    const void *at = NULL;
    struct image image;
    int newest = 0, images = 0, arch = device_now()->arch;
    bool compressed = false;

    while (binary->fatbin && fatbin_next(binary->fatbin, SIZE_MAX, &at, &image)) {
        ++images;
        if (image.kind == IMAGE_CUBIN) {
            if (!image.compressed && image.arch / 10 == arch / 10 && image.arch <= arch &&
                (!binary->cubin.data || image.arch > binary->cubin.arch))
                binary->cubin = image;
            continue;
        }
        if (image.arch > newest)
            newest = image.arch;
        if (image.arch > arch)
            continue;
        if (image.compressed)
            compressed = true;
        else if (!ptx->data || image.arch > ptx->arch)
            *ptx = image;
    }
    if (ptx->data)
        return cudaSuccess;
    if (binary->separate)
        complain("%s", separate_error());
    else if (images == 0)
        complain("the executable's GPU code cannot be read: build it with nvcc 12 or 13");
    else if (compressed)
        complain("the executable's PTX is compressed: build it with nvcc --compress-mode=none");
    else if (newest > arch)
        complain(
            "the executable's PTX is for compute_%d, the simulated GPU is sm_%d: build it with "
            "-gencode arch=compute_%d,code=compute_%d",
            newest, arch, arch, arch);
    else
        complain("the executable holds no PTX: build it with -gencode arch=compute_%d,"
                 "code=compute_%d",
                 arch, arch);
    return cudaErrorNoKernelImageForDevice;
}

// The module of a fat binary, parsed when it is first needed. An error is explained once.
static cudaError_t binary_module(struct binary *binary, struct module **module)
{
    struct image ptx = {0};
    char why[512];

    *module = NULL;
    if (!binary->module && binary->error == cudaSuccess) {
        binary->error = choose_images(binary, &ptx);
        if (binary->error == cudaSuccess) {
            binary->module = module_parse(ptx.data, why, sizeof why);
            if (!binary->module) {
                complain("%s", why);
                binary->error = cudaErrorInvalidPtx;
            }
        }
    }
    *module = binary->module;
    return binary->error;
}

static cudaError_t kernel_load(struct CUkern_st *kernel)
{
    struct module *module;
    cudaError_t error;

    if (kernel->kernel)
        return cudaSuccess;
    error = binary_module(kernel->binary, &module);
    if (error != cudaSuccess)
        return error;
    kernel->kernel = module_kernel(module, kernel->name);
    return kernel->kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

// ---- Kernels and their attributes ---------------------------------------------------------------

struct CUkern_st *kernel_launched(void)
{
    return launched;
}

cudaError_t kernel_find(const void *function, struct CUkern_st **kernel)
{
    *kernel = NULL;
    if (!function)
        return cudaErrorInvalidDeviceFunction;
    for (struct CUkern_st *k = kernels; k; k = k->next)
        if (k->host == function || k == function)
            *kernel = k;
    return *kernel ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

// A kernel that can be launched: parsed, too.
static cudaError_t kernel_use(const void *function, struct CUkern_st **kernel)
{
    cudaError_t error = kernel_find(function, kernel);
    return error == cudaSuccess ? kernel_load(*kernel) : error;
}

// Threads that the registers of an SM allow in one CTA: a warp's registers are given out 256 at a
// time, and warps four at a time, one to each quarter of the SM.
static int threads_for_registers(int registers)
{
    if (registers <= 0)
        return GPU_THREADS_CTA;
    int warps = GPU_REGISTERS / ((registers * WARP + 255) / 256 * 256) / 4 * 4;
    return warps * WARP < GPU_THREADS_CTA ? warps * WARP : GPU_THREADS_CTA;
}

cudaError_t kernel_attributes(struct CUkern_st *kernel, struct cudaFuncAttributes *attributes)
{
    cudaError_t error = kernel_load(kernel);
    struct cubin_resources resources = {0};

    if (error != cudaSuccess)
        return error;
    const struct kernel_info *info = kernel_info(kernel->kernel);
    const struct image *cubin = &kernel->binary->cubin;
    if (cubin->data)
        cubin_resources(cubin->data, cubin->size, kernel->name, &resources);
    int threads = threads_for_registers(resources.registers);
    *attributes = (struct cudaFuncAttributes){
        .sharedSizeBytes = info->static_shared_bytes,
        .localSizeBytes = resources.local_bytes,
        .maxThreadsPerBlock = threads < info->max_threads ? threads : info->max_threads,
        .numRegs = resources.registers, // 0 when the executable has no machine code for sm_8x
        .ptxVersion = device_now()->arch,
        .binaryVersion = device_now()->arch,
        .maxDynamicSharedSizeBytes = kernel->max_dynamic_shared,
        .preferredShmemCarveout = kernel->carveout,
    };
    if (kernel->max_dynamic_shared < 0)
        attributes->maxDynamicSharedSizeBytes =
            (int)(device_now()->shared_default - info->static_shared_bytes);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    API_ENTER();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_find(function, &kernel);
    if (error == cudaSuccess)
        error = attributes ? kernel_attributes(kernel, attributes) : cudaErrorInvalidValue;
    return result(error);
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    API_ENTER();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_use(function, &kernel);
    if (error != cudaSuccess)
        return result(error);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || (size_t)value + kernel_info(kernel->kernel)->static_shared_bytes >
                             device_now()->shared_optin)
            return result(cudaErrorInvalidValue);
        kernel->max_dynamic_shared = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
            return result(cudaErrorInvalidValue);
        kernel->carveout = value;
        return cudaSuccess;
    default: // clusters: sm_90
        return result(cudaErrorInvalidValue);
    }
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    API_ENTER();
    struct CUkern_st *kernel;
    (void)config;
    return result(kernel_find(function, &kernel));
}

cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    API_ENTER();
    struct CUkern_st *kernel;
    cudaError_t error = name ? kernel_find(function, &kernel) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *name = kernel->name;
    return result(error);
}

cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset, size_t *size)
{
    API_ENTER();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_use(function, &kernel);
    if (error != cudaSuccess)
        return result(error);
    const struct kernel_info *info = kernel_info(kernel->kernel);
    if (!offset || index >= (size_t)info->params)
        return result(cudaErrorInvalidValue);
    *offset = info->param_offsets[index];
    if (size)
        *size = info->param_sizes[index];
    return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    API_ENTER();
    return result(kernel ? kernel_find(function, kernel) : cudaErrorInvalidValue);
}
ALSO(cudaGetKernel, __cudaGetKernel);

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    return cudaGetKernel((cudaKernel_t *)function, symbol);
}

// ---- Launches -----------------------------------------------------------------------------------

// The configurations of <<<...>>> between its two halves; arguments may launch, too.
static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} calls[CALLS_MAX];
static _Thread_local int call_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (call_count == CALLS_MAX)
        return 1;
    calls[call_count].grid = grid;
    calls[call_count].block = block;
    calls[call_count].shared = shared;
    calls[call_count++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (call_count == 0)
        return result(cudaErrorMissingConfiguration);
    --call_count;
    *grid = calls[call_count].grid;
    *block = calls[call_count].block;
    *shared = calls[call_count].shared;
    memcpy(stream, &calls[call_count].stream, sizeof calls[call_count].stream);
    return cudaSuccess;
}

static cudaError_t check_launch(struct CUkern_st *kernel, dim3 grid, dim3 block, size_t shared)
{
    const struct cudaDeviceProp *device = device_properties();
    struct cudaFuncAttributes attributes;
    cudaError_t error = kernel_attributes(kernel, &attributes);

    if (error != cudaSuccess)
        return error;
    size_t threads = (size_t)block.x * block.y * block.z;
    const unsigned grids[] = {grid.x, grid.y, grid.z}, blocks[] = {block.x, block.y, block.z};
    for (int i = 0; i < 3; ++i)
        if (grids[i] == 0 || grids[i] > (unsigned)device->maxGridSize[i] || blocks[i] == 0 ||
            blocks[i] > (unsigned)device->maxThreadsDim[i])
            return cudaErrorInvalidValue;
    if (threads > (size_t)kernel_info(kernel->kernel)->max_threads ||
        shared > (size_t)attributes.maxDynamicSharedSizeBytes)
        return cudaErrorInvalidValue;
    if (threads > (size_t)attributes.maxThreadsPerBlock)
        return cudaErrorLaunchOutOfResources;
    return cudaSuccess;
}

// The arguments of a call, copied now, in the layout of the kernel's parameters.
static void *lay_out(const struct kernel_info *info, void **arguments)
{
    char *params = calloc(1, info->param_bytes + 1);

    for (int i = 0; params && i < info->params; ++i)
        memcpy(params + info->param_offsets[i], arguments[i], info->param_sizes[i]);
    return params;
}

static cudaError_t prepare(const void *function, dim3 grid, dim3 block, void **arguments,
                           size_t shared, bool cooperative, struct launch_order *order)
{
    struct CUkern_st *kernel;
    cudaError_t error = kernel_find(function, &kernel);
    int resident = 0;

    if (error == cudaSuccess)
        error = check_launch(kernel, grid, block, shared);
    if (error == cudaSuccess && cooperative)
        error = device_occupancy(kernel, (int)(block.x * block.y * block.z), shared, &resident);
    if (error != cudaSuccess)
        return error;
    if (cooperative &&
        (uint64_t)grid.x * grid.y * grid.z > (uint64_t)resident * (unsigned)device_now()->sms)
        return cudaErrorCooperativeLaunchTooLarge;
    const struct kernel_info *info = kernel_info(kernel->kernel);
    if (info->params > 0 && !arguments)
        return cudaErrorInvalidValue;
    *order = (struct launch_order){
        .kernel = kernel,
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .dynamic_shared_bytes = shared,
        .cooperative = cooperative,
        .params = lay_out(info, arguments),
    };
    return order->params ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t kernel_order(const void *function, dim3 grid, dim3 block, void **arguments,
                         size_t shared, struct launch_order *order)
{
    return prepare(function, grid, block, arguments, shared, false, order);
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments,
                          size_t shared, cudaStream_t stream, bool cooperative)
{
    struct task task = {.kind = TASK_KERNEL};
    cudaError_t error =
        prepare(function, grid, block, arguments, shared, cooperative, &task.launch);

    if (error != cudaSuccess)
        return capture_broken(stream, error);
    return stream_submit(stream, &task);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    API_ENTER();
    return result(launch(function, grid, block, arguments, shared, stream, false));
}
ALSO(cudaLaunchKernel, cudaLaunchKernel_ptsz);

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
ALSO(__cudaLaunchKernel, __cudaLaunchKernel_ptsz);

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream)
{
    API_ENTER();
    return result(launch(function, grid, block, arguments, shared, stream, true));
}
ALSO(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz);

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments)
{
    API_ENTER();
    bool cooperative = false;
    if (!config || (config->numAttrs > 0 && !config->attrs))
        return result(cudaErrorInvalidValue);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute *a = &config->attrs[i];
        if (a->id == cudaLaunchAttributeCooperative)
            cooperative = a->val.cooperative != 0;
        if (a->id == cudaLaunchAttributeClusterDimension &&
            (a->val.clusterDim.x > 1 || a->val.clusterDim.y > 1 || a->val.clusterDim.z > 1)) {
            complain("cudaLaunchKernelExC: clusters are not supported");
            return result(cudaErrorNotSupported);
        }
    }
    return result(launch(function, config->gridDim, config->blockDim, arguments,
                         config->dynamicSmemBytes, config->stream, cooperative));
}
ALSO(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz);

// A whole number from the environment, 0 when it is not set. Nonsense is named once, and ignored.
static unsigned environment_number(const char *name, unsigned most)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || *text == '-' || value > most) {
        complain("%s: \"%s\" is no whole number up to %u: ignored", name, text, most);
        unsetenv(name);
        return 0;
    }
    return (unsigned)value;
}

// runtime.h has the values of PTXSIM_CHECK.
static bool checks_are(const char *what)
{
    const char *text = getenv("PTXSIM_CHECK");
    if (text && *text && strcmp(text, "off") && strcmp(text, "memory") && strcmp(text, "all")) {
        complain("PTXSIM_CHECK: \"%s\" is none of off, memory, all: ignored", text);
        unsetenv("PTXSIM_CHECK");
        return false;
    }
    return text && !strcmp(text, what);
}

static char *notes[63]; // further faults of the launch at hand
static int note_count;

static void take_note(const char *text)
{
    if (note_count < (int)(sizeof notes / sizeof *notes) && (notes[note_count] = strdup(text)))
        note_count++;
}

static cudaError_t fault_error(const struct fault *fault)
{
    switch (fault->kind) {
    case FAULT_UNSUPPORTED: return cudaErrorNotSupported;
    case FAULT_OUT_OF_BOUNDS: return cudaErrorIllegalAddress;
    case FAULT_MISALIGNED: return cudaErrorMisalignedAddress;
    case FAULT_DEADLOCK: return cudaErrorLaunchTimeout;
    case FAULT_ASSERT: return cudaErrorAssert;
    case FAULT_UNINITIALISED: // a GPU would go on with whatever it read
    case FAULT_RACE:
    case FAULT_DIVERGENT_BARRIER:
    case FAULT_TRAP: return cudaErrorLaunchFailure;
    default: return cudaErrorUnknown;
    }
}

// What the barrier of a whole grid counts in: cooperative groups find it through %envreg1 and 2.
static uint64_t grid_memory(void)
{
    enum { BYTES = 64 };
    static void *memory;

    if (!memory)
        memory = memory_alloc(BYTES);
    if (memory)
        memset(memory, 0, BYTES);
    return (uint64_t)(uintptr_t)memory;
}

cudaError_t launch_now(const struct launch_order *order)
{
    struct CUkern_st *kernel = order->kernel;
    struct fault fault = {0};
    struct launch launch = {
        .kernel = kernel->kernel,
        .dynamic_shared_bytes = order->dynamic_shared_bytes,
        .params = order->params,
        .grid_memory = order->cooperative ? grid_memory() : 0,
        .threads = (int)environment_number("PTXSIM_THREADS", 1024),
        .schedule = environment_number("PTXSIM_SCHEDULE", UINT32_MAX),
        .spin = environment_number("PTXSIM_SPIN", UINT32_MAX),
        .check = !checks_are("off"),
        .races = !checks_are("off") && !checks_are("memory"),
        .note = take_note,
    };
    memcpy(launch.grid, order->grid, sizeof launch.grid);
    memcpy(launch.block, order->block, sizeof launch.block);

    memory_touched_clear();
    bool passed = launch_run(&launch, &kernel->counts, &kernel->lines, &kernel->line_count, &fault);
    kernel->dram_bytes += memory_touched_bytes();
    if (kernel->launches++ == 0) {
        *launched_end = kernel;
        launched_end = &kernel->next_launched;
    }
    memcpy(kernel->grid, order->grid, sizeof kernel->grid);
    memcpy(kernel->block, order->block, sizeof kernel->block);
    kernel->dynamic_shared_bytes = order->dynamic_shared_bytes;
    if (passed)
        return cudaSuccess;
    complain("%s", fault.text);
    report_fault(fault.text);
    for (int i = 0; i < note_count; ++i) {
        complain("%s", notes[i]);
        report_fault(notes[i]);
        free(notes[i]);
    }
    note_count = 0;
    return result_sticky(fault_error(&fault));
}

// ---- Variables ----------------------------------------------------------------------------------

static cudaError_t find_symbol(const void *symbol, char **address, size_t *size)
{
    struct module *module;
    void *found;

    for (struct variable *v = variables; v; v = v->next) {
        if (v->managed ? *v->managed != symbol : v->host != symbol)
            continue;
        cudaError_t error = binary_module(v->binary, &module);
        if (error != cudaSuccess)
            return error;
        if (!module_symbol(module, v->name, &found, size))
            return cudaErrorInvalidSymbol;
        *address = found;
        return cudaSuccess;
    }
    return cudaErrorInvalidSymbol;
}

// Host code of a program with __managed__ variables calls this before it uses one.
char __cudaInitModule(void **handle)
{
    struct module *module;
    size_t size;

    api_enter();
    for (struct variable *v = variables; v; v = v->next)
        if (v->managed && v->binary == (struct binary *)handle &&
            binary_module(v->binary, &module) == cudaSuccess)
            module_symbol(module, v->name, v->managed, &size);
    api_leave(NULL);
    return 1;
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    API_ENTER();
    size_t size;
    if (!address)
        return result(cudaErrorInvalidValue);
    return result(find_symbol(symbol, (char **)address, &size));
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    API_ENTER();
    char *address;
    if (!size)
        return result(cudaErrorInvalidValue);
    return result(find_symbol(symbol, &address, size));
}

// A copy to (from NULL) or from (to NULL) a variable.
static cudaError_t symbol_copy(const void *symbol, const void *from, void *to, size_t bytes,
                               size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *address;
    size_t size;
    cudaError_t error = find_symbol(symbol, &address, &size);

    if (error != cudaSuccess)
        return error;
    if (offset > size || bytes > size - offset || (!from && !to))
        return cudaErrorInvalidValue;
    if (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice &&
        kind != (to ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice))
        return cudaErrorInvalidMemcpyDirection;
    struct task task = {.kind = TASK_COPY};
    task.copy.to = to ? to : address + offset;
    task.copy.from = from ? from : address + offset;
    task.copy.width = bytes;
    task.copy.height = 1;
    return stream_submit(stream, &task);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    API_ENTER();
    return result(symbol_copy(symbol, from, NULL, bytes, offset, kind, stream));
}
ALSO(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz);

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    API_ENTER();
    return result(symbol_copy(symbol, NULL, to, bytes, offset, kind, stream));
}
ALSO(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz);

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind)
{
    return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, NULL);
}
ALSO(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds);

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, NULL);
}
ALSO(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds);
