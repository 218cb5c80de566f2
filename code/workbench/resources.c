// resources.c: what a kernel takes, on the device at hand and on an L4 (sm_89), wherever it runs.
//
// The L4's figures come from the sm_89 machine code in this very executable and from NVIDIA's own
// occupancy calculator, a header that needs no device.
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

struct search {
    const char *kernel; // mangled
    bool found, compressed;
    struct cubin_resources resources;
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
    if (image->arch == 89 && !search->found)
        search->found =
            cubin_resources(image->data, image->size, search->kernel, &search->resources);
    return true;
}

// The limit that matters most, where several bind: warps first, for nothing is lost to them.
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

static bool occupancy_on_l4(struct resources *r, int static_shared, int barriers)
{
    struct cudaOccFuncAttributes attributes = {
        .maxThreadsPerBlock = 1024,
        .numRegs = r->sm_89.registers,
        .sharedSizeBytes = (size_t)static_shared,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = r->dynamic_shared_bytes,
        .numBlockBarriers = barriers > 0 ? barriers : 1,
    };
    struct cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
    struct cudaOccResult result = {0};

    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &l4, &attributes, &state, r->threads,
                                                r->dynamic_shared_bytes) != CUDA_OCC_SUCCESS)
        return false;
    int warps = (r->threads + 31) / 32;
    r->sm_89.ctas_per_sm = result.activeBlocksPerMultiprocessor;
    r->sm_89.occupancy = (double)result.activeBlocksPerMultiprocessor * warps / 48;
    r->sm_89.limited_by = limit_name(result.limitingFactors);
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

    // No sm_89 code, or none that can be read, is no failure: those lines then say so.
    CUDA_CHECK(cudaFuncGetName(&search.kernel, program->kernel));
    (void)fatbin_visit_executable("/proc/self/exe", visit, &search, ignored, sizeof ignored);
    if (search.found) {
        r->sm_89.registers = search.resources.registers;
        r->sm_89.shared_bytes = search.resources.shared_bytes + r->dynamic_shared_bytes;
        r->sm_89.local_bytes = search.resources.local_bytes;
        r->sm_89.known =
            occupancy_on_l4(r, (int)search.resources.shared_bytes, search.resources.barriers);
    }
    return true;
}
