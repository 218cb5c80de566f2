// registry.c: the fat binaries, kernels and variables of the program, which nvcc's host code
// registers before main; and the list of kernels that were launched.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum { WRAPPER_MAGIC = 0x466243B1, WRAPPER_SEPARATE = 2 };

struct wrapper { // an entry of .nvFatBinSegment
    int magic, version;
    const void *fatbin;
    const void *prelinked;
};

const void *wrapped(const void *wrapper)
{
    const struct wrapper *w = wrapper;
    return w->magic == WRAPPER_MAGIC ? w->fatbin : NULL;
}

static struct binary *binaries;
static struct device_variable *variables;
static struct CUkern_st *kernels, *launched, **launched_end = &launched;

// nvcc declares these functions in an internal C++ header.
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
#pragma GCC visibility pop

// Registration runs before main and cannot report an error: without memory, the program ends.
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

    binary->fatbin = wrapped(wrapper);
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

// Tells a program whose GPU code is not registered here that it uses another runtime: one that nvcc
// linked statically, or one of another CUDA version. (Such a program has loaded this library as
// libcuda.so.1, or by LD_PRELOAD.)
__attribute__((destructor)) static void tell_other_runtime(void)
{
    char why[512];
    if (!binaries && !driver_used &&
        fatbin_visit_executable("/proc/self/exe", ignore_image, NULL, why, sizeof why))
        complain("the executable has a CUDA runtime of its own: build it with nvcc 13 and "
                 "-cudart shared");
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

// Frees nothing, since the report at exit needs the counts.
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size)
{
    (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid;
    (void)warp_size;
    kernel_register((struct binary *)handle, host, name);
}

struct CUkern_st *kernel_register(struct binary *binary, const void *host, const char *name)
{
    struct CUkern_st *kernel = registered(sizeof *kernel);

    kernel->binary = binary;
    kernel->host = host;
    kernel->name = name;
    kernel->max_dynamic_shared = -1;
    kernel->carveout = -1;
    kernel->next = kernels;
    kernels = kernel;
    return kernel;
}

static struct device_variable *register_variable(void **handle, const void *host, const char *name,
                                                 size_t size)
{
    struct device_variable *variable = registered(sizeof *variable);

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

// ---- Looking up ---------------------------------------------------------------------------------

int arch_needed(void)
{
    int needed = 0;

    for (const struct binary *binary = binaries; binary; binary = binary->next) {
        const void *at = NULL;
        struct image image;
        int least = 0; // the lowest arch of this fat binary's PTX; 0: it has no PTX
        while (binary->fatbin && fatbin_next(binary->fatbin, SIZE_MAX, &at, &image))
            if (image.kind == IMAGE_PTX && (least == 0 || image.arch < least))
                least = image.arch;
        needed = least > needed ? least : needed;
    }
    return needed;
}

cudaError_t kernel_find(const void *function, struct CUkern_st **kernel)
{
    *kernel = NULL;
    if (!function)
        return cudaErrorInvalidDeviceFunction;
    for (struct CUkern_st *k = kernels; k; k = k->next)
        if ((k->host == function || k == function) && !k->binary->unloaded)
            *kernel = k;
    return *kernel ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

struct CUkern_st *kernel_named(const char *name)
{
    struct CUkern_st *found = NULL;
    for (struct CUkern_st *k = kernels; k; k = k->next)
        if (!strcmp(k->name, name))
            found = k;
    return found;
}

struct CUkern_st *kernel_registered(const struct binary *binary, const char *name)
{
    for (struct CUkern_st *k = kernels; k; k = k->next)
        if (k->binary == binary && !strcmp(k->name, name))
            return k;
    return NULL;
}

struct device_variable *variables_registered(void)
{
    return variables;
}

struct CUkern_st *kernel_launched(void)
{
    return launched;
}

void kernel_was_launched(struct CUkern_st *kernel)
{
    *launched_end = kernel;
    launched_end = &kernel->next_launched;
}
