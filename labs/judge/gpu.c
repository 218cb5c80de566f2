// gpu.c: runs and times kernels on a GPU through the driver's API. The driver is loaded when it is
// first needed, so that the same runner works without a GPU.
//
// Timing: all input sets of a request are different, and each is launched once, in one sequence;
// the clock starts after the first `warm` sets. A kernel can reuse nothing of an earlier launch.
// The outputs of all launches are sent back, to be checked.
#include "protocol.h"

#include "host/host.h"

#include <cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 7, GUARD_BYTES = 4096, GUARD = 0xa5, POISON = 0xff };

// The functions of the driver that are used.
#define FUNCTIONS(F)                                                                               \
    F(cuInit, (unsigned))                                                                          \
    F(cuDeviceGet, (CUdevice *, int))                                                              \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    F(cuCtxSetCurrent, (CUcontext))                                                                \
    F(cuCtxSynchronize, (void))                                                                    \
    F(cuModuleLoadData, (CUmodule *, const void *))                                                \
    F(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                 \
    F(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))                                 \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    F(cuMemFree_v2, (CUdeviceptr))                                                                 \
    F(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                        \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                              \
    F(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                         \
    F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                       unsigned, CUstream, void **, void **))                                      \
    F(cuLaunchCooperativeKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                                  unsigned, unsigned, CUstream, void **))                          \
    F(cuEventCreate, (CUevent *, unsigned))                                                        \
    F(cuEventRecord, (CUevent, CUstream))                                                          \
    F(cuEventSynchronize, (CUevent))                                                               \
    F(cuEventElapsedTime, (float *, CUevent, CUevent))                                             \
    F(cuEventDestroy_v2, (CUevent))                                                                \
    F(cuGetErrorName, (CUresult, const char **))
#define DECLARE(name, arguments) static CUresult(*call_##name) arguments;
FUNCTIONS(DECLARE)

static CUmodule loaded;

static bool failed(CUresult result, const char *what, char *why, size_t size)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return false;
    call_cuGetErrorName(result, &name);
    snprintf(why, size, "%s: %s", what, name ? name : "unknown error");
    return true;
}

bool gpu_open(char *why, size_t size)
{
    CUdevice device;
    CUcontext context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (!driver) {
        snprintf(why, size, "there is no driver of a GPU");
        return false;
    }
#define LOOK_UP(name, arguments)                                                                   \
    if (!(*(void **)&call_##name = dlsym(driver, #name))) {                                        \
        snprintf(why, size, "the driver has no " #name);                                           \
        return false;                                                                              \
    }
    FUNCTIONS(LOOK_UP)
    return !failed(call_cuInit(0), "cuInit", why, size) &&
           !failed(call_cuDeviceGet(&device, 0), "cuDeviceGet", why, size) &&
           !failed(call_cuDevicePrimaryCtxRetain(&context, device), "context", why, size) &&
           !failed(call_cuCtxSetCurrent(context), "context", why, size);
}

bool gpu_load(const char *ptx, char *why, size_t size)
{
    return !failed(call_cuModuleLoadData(&loaded, ptx), "the driver refuses the PTX", why, size);
}

struct set {
    CUdeviceptr inputs[6], block; // block: guard, output, guard
    struct attention_args args;
};

// If a call fails, the first such call is named in the reply, and the rest is skipped.
#define TRY(call, what)                                                                            \
    do {                                                                                           \
        if (reply->verdict == DONE && failed((call), (what), reply->text, sizeof reply->text)) {   \
            reply->verdict = FAULTED;                                                              \
        }                                                                                          \
    } while (0)

static void make_set(struct set *s, const struct run_request *r, const char *inputs,
                     struct reply *reply)
{
    size_t elements = shape_elements(&r->shape);
    uint64_t at[BUFFERS];

    for (int i = 0; i < 6; ++i) {
        size_t bytes = i < 3 ? elements : (size_t)r->shape.heads * sizeof(float);
        TRY(call_cuMemAlloc_v2(&s->inputs[i], bytes), "cuMemAlloc");
        TRY(call_cuMemcpyHtoD_v2(s->inputs[i], inputs, bytes), "cuMemcpyHtoD");
        at[i] = s->inputs[i];
        inputs += bytes;
    }
    TRY(call_cuMemAlloc_v2(&s->block, 2 * elements + 2 * GUARD_BYTES), "cuMemAlloc");
    TRY(call_cuMemsetD8_v2(s->block, GUARD, 2 * elements + 2 * GUARD_BYTES), "cuMemsetD8");
    TRY(call_cuMemsetD8_v2(s->block + GUARD_BYTES, POISON, 2 * elements), "cuMemsetD8");
    at[6] = s->block + GUARD_BYTES;
    memset(&s->args, 0, sizeof s->args);
    memcpy(&s->args, at, sizeof at);
    s->args.shape = r->shape;
    s->args.softmax_scale = r->softmax_scale;
}

static void free_set(struct set *s)
{
    for (int i = 0; i < 6; ++i)
        if (s->inputs[i])
            call_cuMemFree_v2(s->inputs[i]);
    if (s->block)
        call_cuMemFree_v2(s->block);
}

static void compare_inputs(const struct set *s, const struct run_request *r, const char *inputs,
                           struct reply *reply)
{
    size_t elements = shape_elements(&r->shape);
    char *now = malloc(elements + (size_t)r->shape.heads * sizeof(float));

    if (!now)
        exit(1);
    for (int i = 0; i < 6; ++i) {
        size_t bytes = i < 3 ? elements : (size_t)r->shape.heads * sizeof(float);
        TRY(call_cuMemcpyDtoH_v2(now, s->inputs[i], bytes), "cuMemcpyDtoH");
        if (reply->verdict == DONE && memcmp(now, inputs, bytes) != 0) {
            reply->verdict = FAULTED;
            snprintf(reply->text, sizeof reply->text, WRITES_INPUTS);
        }
        inputs += bytes;
    }
    free(now);
}

static void fetch(const struct set *s, const struct run_request *r, const char *inputs, char *out,
                  struct reply *reply)
{
    size_t bytes = 2 * shape_elements(&r->shape);
    unsigned char guards[2][GUARD_BYTES] = {{0}};

    TRY(call_cuMemcpyDtoH_v2(out, s->block + GUARD_BYTES, bytes), "cuMemcpyDtoH");
    TRY(call_cuMemcpyDtoH_v2(guards[0], s->block, GUARD_BYTES), "cuMemcpyDtoH");
    TRY(call_cuMemcpyDtoH_v2(guards[1], s->block + GUARD_BYTES + bytes, GUARD_BYTES),
        "cuMemcpyDtoH");
    for (int i = 0; reply->verdict == DONE && i < 2 * GUARD_BYTES; ++i) {
        if (guards[i / GUARD_BYTES][i % GUARD_BYTES] != GUARD) {
            reply->verdict = FAULTED;
            snprintf(reply->text, sizeof reply->text, "it wrote outside its output");
        }
    }
    compare_inputs(s, r, inputs, reply);
}

static void find_kernels(const struct run_request *r, CUfunction kernels[], struct reply *reply)
{
    for (int i = 0; i < r->launch_count; ++i) {
        TRY(call_cuModuleGetFunction(&kernels[i], loaded, r->launches[i].kernel), "the kernel");
        if (r->launches[i].shared > 48 << 10)
            TRY(call_cuFuncSetAttribute(kernels[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)r->launches[i].shared),
                "its shared memory");
    }
}

static void launch_set(const struct run_request *r, const CUfunction kernels[], struct set *s,
                       struct reply *reply)
{
    void *parameters[] = {&s->args};

    for (int i = 0; i < r->launch_count; ++i) {
        const struct recorded *l = &r->launches[i];
        if (l->cooperative) {
            TRY(call_cuLaunchCooperativeKernel(kernels[i], l->grid[0], l->grid[1], l->grid[2],
                                               l->block[0], l->block[1], l->block[2],
                                               (unsigned)l->shared, NULL, parameters),
                "the launch");
            continue;
        }
        TRY(call_cuLaunchKernel(kernels[i], l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                l->block[1], l->block[2], (unsigned)l->shared, NULL, parameters,
                                NULL),
            "the launch");
    }
}

void gpu_run(const struct run_request *r, const char *inputs, struct reply *reply, char *out)
{
    struct set *sets = calloc((size_t)r->sets, sizeof *sets);
    CUfunction kernels[LAUNCHES_MAX] = {0};
    CUevent start = NULL, stop = NULL;
    float ms = 0;

    if (!sets)
        exit(1);
    for (int i = 0; i < r->sets; ++i)
        make_set(&sets[i], r, inputs + (size_t)i * input_bytes(&r->shape), reply);
    find_kernels(r, kernels, reply);
    TRY(call_cuEventCreate(&start, 0), "cuEventCreate");
    TRY(call_cuEventCreate(&stop, 0), "cuEventCreate");
    TRY(call_cuCtxSynchronize(), "cuCtxSynchronize");
    double began = now();
    for (int i = 0; i < r->sets; ++i) {
        if (i == r->warm)
            TRY(call_cuEventRecord(start, NULL), "cuEventRecord");
        launch_set(r, kernels, &sets[i], reply);
    }
    TRY(call_cuEventRecord(stop, NULL), "cuEventRecord");
    TRY(call_cuEventSynchronize(stop), "the kernel");
    double wall = 1e6 * (now() - began);
    if (r->sets > r->warm)
        TRY(call_cuEventElapsedTime(&ms, start, stop), "cuEventElapsedTime");
    if (reply->verdict == DONE && r->sets > r->warm) {
        reply->microseconds = 1e3 * (double)ms / (r->sets - r->warm);
        reply->wall_microseconds = wall / r->sets;
    }
    for (int i = 0; i < r->sets; ++i)
        fetch(&sets[i], r, inputs + (size_t)i * input_bytes(&r->shape),
              out + (size_t)i * 2 * shape_elements(&r->shape), reply);
    for (int i = 0; i < r->sets; ++i)
        free_set(&sets[i]);
    if (start)
        call_cuEventDestroy_v2(start);
    if (stop)
        call_cuEventDestroy_v2(stop);
    free(sets);
}
