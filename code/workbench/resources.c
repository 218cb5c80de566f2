// resources.c: what a kernel takes, on the device at hand and on an L4 (sm_89), wherever it runs.
//
// The L4's figures come from the sm_89 machine code in this very executable. A program for Hopper
// alone has no such code: then they are an H200's, from its sm_90 code.
#include <stdio.h>
#include <string.h>

#include "image/gpus.h"
#include "internal.h"

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
        struct gpu_occupancy occupancy;
        if (gpu_occupancy(&gpus[at == 0 ? GPU_L4 : GPU_H200], found, r->threads,
                          r->dynamic_shared_bytes, &occupancy)) {
            r->image.ctas_per_sm = occupancy.ctas;
            r->image.occupancy = occupancy.share;
            r->image.limited_by = occupancy.limited_by;
        } else {
            r->image.arch = 0;
        }
    }
    return true;
}
