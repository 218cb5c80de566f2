// resources.c: what a kernel needs on this machine's device and, wherever the program runs, on a
// GPU of the table (image/gpus.h). The numbers for the table's GPU come from the machine code in
// this very executable: from the code for an L4 or, if there is none, as in a program for Hopper
// only, from the code for the next GPU of the table.
#include <stdio.h>
#include <string.h>

#include "internal.h"

struct search {
    const char *kernel; // its mangled name
    bool found[GPUS_MOST];
    struct cubin_resources resources[GPUS_MOST];
    struct machine_code *code;
};

static bool visit(const struct image *image, void *data)
{
    struct search *search = data;
    const struct gpu *gpu = gpu_of_arch(image->arch);

    if (image->kind != IMAGE_CUBIN || image->compressed || !gpu)
        return true;
    ptrdiff_t row = gpu - gpus;
    struct machine_code *code = &search->code[row];
    if (!code->there)
        code->there = cubin_code(image->data, image->size, search->kernel, &code->code);
    if (!search->found[row])
        search->found[row] =
            cubin_resources(image->data, image->size, search->kernel, &search->resources[row]);
    return true;
}

// Fills in r->image from a GPU's machine code, if a launch stays within that GPU's limits.
static void take_image(struct resources *r, const struct gpu *gpu,
                       const struct cubin_resources *found)
{
    struct gpu_occupancy occupancy;

    if (!gpu_occupancy(gpu, found, r->threads, r->dynamic_shared_bytes, &occupancy))
        return;
    r->image.gpu = gpu;
    r->image.registers = found->registers;
    r->image.shared_bytes = found->shared_bytes + r->dynamic_shared_bytes;
    r->image.local_bytes = found->local_bytes;
    r->image.ctas_per_sm = occupancy.ctas;
    r->image.occupancy = occupancy.share;
    r->image.limited_by = occupancy.limited_by;
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
    // A kernel with more than 48 KiB of shared memory must opt in; its launch function does so.
    if (r->dynamic_shared_bytes > 48 * 1024)
        (void)cudaFuncSetAttribute(program->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)r->dynamic_shared_bytes);
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&r->ctas_per_sm, program->kernel,
                                                             r->threads, r->dynamic_shared_bytes));
    CUDA_CHECK(cudaDeviceGetAttribute(&most_threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
    r->occupancy = (double)r->ctas_per_sm * r->threads / most_threads;

    // It is no error if there is no readable machine code: the record then has no numbers from it.
    CUDA_CHECK(cudaFuncGetName(&search.kernel, program->kernel));
    (void)fatbin_visit_executable("/proc/self/exe", visit, &search, ignored, sizeof ignored);
    int row = 0;
    while (row < gpu_count && !search.found[row])
        ++row;
    if (row < gpu_count)
        take_image(r, &gpus[row], &search.resources[row]);
    return true;
}
