// resources.c: what a kernel takes, on the device at hand and on an L4 (sm_89), wherever it runs.
//
// The L4's figures come from the sm_89 machine code in this very executable and from NVIDIA's own
// occupancy calculator, a header that needs no device. A program for Hopper alone has no such code:
// then they are an H200's, from its sm_90 code.
#include <cuda_occupancy.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

// An L4 (AD104), from the CUDA programming guide's table for compute capability 8.9.
static const struct cudaOccDeviceProp l4 = {
    .computeMajor = 8,
    .computeMinor = 9,
    .maxThreadsPerBlock = 1024,
    .maxThreadsPerMultiprocessor = 1536,
    .regsPerBlock = 65536,
    .regsPerMultiprocessor = 65536,
    .warpSize = 32,
    .sharedMemPerBlock = 48 * 1024,
    .sharedMemPerMultiprocessor = 100 * 1024,
    .numSms = 58,
    .sharedMemPerBlockOptin = 99 * 1024,
    .reservedSharedMemPerBlock = 1024,
};

// An H200 (GH100), from the same guide's table for compute capability 9.0.
static const struct cudaOccDeviceProp h200 = {
    .computeMajor = 9,
    .computeMinor = 0,
    .maxThreadsPerBlock = 1024,
    .maxThreadsPerMultiprocessor = 2048,
    .regsPerBlock = 65536,
    .regsPerMultiprocessor = 65536,
    .warpSize = 32,
    .sharedMemPerBlock = 48 * 1024,
    .sharedMemPerMultiprocessor = 228 * 1024,
    .numSms = 132,
    .sharedMemPerBlockOptin = 227 * 1024,
    .reservedSharedMemPerBlock = 1024,
};

struct search {
    const char *kernel; // mangled
    bool compressed;
    bool found[2]; // the code for an L4, for a Hopper
    struct cubin_resources resources[2];
    struct machine_code *code;
};

static bool visit(const struct image *image, void *data)
{
    struct search *search = data;

    if (image->kind != IMAGE_CUBIN || (image->arch != 89 && image->arch != 90))
        return true;
    if (image->compressed) {
        search->compressed = true;
        return true;
    }
    struct machine_code *code = &search->code[image->arch == 90];
    if (code->arch == 0 && cubin_code(image->data, image->size, search->kernel, &code->code))
        code->arch = image->arch;
    int at = image->arch == 90;
    if (!search->found[at])
        search->found[at] =
            cubin_resources(image->data, image->size, search->kernel, &search->resources[at]);
    return true;
}

// Names what limits the CTAs of an SM. Of several limits warps come first: then the SM is full.
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

static bool image_occupancy(struct resources *r, int static_shared, int barriers)
{
    const struct cudaOccDeviceProp *device = r->image.arch == 89 ? &l4 : &h200;
    struct cudaOccFuncAttributes attributes = {
        .maxThreadsPerBlock = 1024,
        .numRegs = r->image.registers,
        .sharedSizeBytes = (size_t)static_shared,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = r->dynamic_shared_bytes,
        .numBlockBarriers = barriers > 0 ? barriers : 1,
    };
    struct cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
    struct cudaOccResult result = {0};

    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, device, &attributes, &state, r->threads,
                                                r->dynamic_shared_bytes) != CUDA_OCC_SUCCESS)
        return false;
    int warps = (r->threads + 31) / 32;
    r->image.ctas_per_sm = result.activeBlocksPerMultiprocessor;
    r->image.occupancy = (double)result.activeBlocksPerMultiprocessor * warps * 32 /
                         device->maxThreadsPerMultiprocessor;
    r->image.limited_by = limit_name(result.limitingFactors);
    return true;
}

bool resources_find(struct resources *r, const struct program *program, char *why, size_t size)
{
    struct cudaFuncAttributes attributes;
    struct search search = {.code = r->code};
    int most_threads = 0;
    char ignored[256];

    memset(r, 0, sizeof *r);
    cudaError_t error = cudaFuncGetAttributes(&attributes, program->kernel);
    if (error != cudaSuccess) {
        snprintf(why, size, "the kernel cannot run on this device: %s: %s", cudaGetErrorName(error),
                 cudaGetErrorString(error));
        return false;
    }
    r->registers = attributes.numRegs;
    r->static_shared_bytes = attributes.sharedSizeBytes;
    r->dynamic_shared_bytes = program->dynamic_shared_bytes;
    r->local_bytes = attributes.localSizeBytes;
    r->threads = program->threads;
    if (r->dynamic_shared_bytes > 48 * 1024) // past this a kernel must opt in; the launch does too
        (void)cudaFuncSetAttribute(program->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)r->dynamic_shared_bytes);
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&r->ctas_per_sm, program->kernel,
                                                             r->threads, r->dynamic_shared_bytes));
    CUDA_CHECK(cudaDeviceGetAttribute(&most_threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
    r->occupancy = (double)r->ctas_per_sm * r->threads / most_threads;

    // No such code, or none that can be read, is no failure: those lines then say so.
    CUDA_CHECK(cudaFuncGetName(&search.kernel, program->kernel));
    (void)fatbin_visit_executable("/proc/self/exe", visit, &search, ignored, sizeof ignored);
    int at = search.found[0] ? 0 : 1;
    if (search.found[at]) {
        const struct cubin_resources *found = &search.resources[at];
        r->image.arch = at == 0 ? 89 : 90;
        r->image.registers = found->registers;
        r->image.shared_bytes = found->shared_bytes + r->dynamic_shared_bytes;
        r->image.local_bytes = found->local_bytes;
        if (!image_occupancy(r, (int)found->shared_bytes, found->barriers))
            r->image.arch = 0;
    }
    return true;
}
