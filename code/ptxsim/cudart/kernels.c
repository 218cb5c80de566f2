// kernels.c: the modules of fat binaries, parsed when first needed, and the attributes of their
// kernels.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Modules ------------------------------------------------------------------------------------

// The PTX texts of a fat binary; or of a program that was compiled separately (-rdc=true), one for
// each source file, which the linker keeps in a section of the executable. Only texts for the
// highest arch not above the device's are taken.
struct texts {
    char **text;
    size_t count, capacity;
    int arch, newest;
    bool compressed;
};

static void drop_texts(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; ++i)
        free(texts->text[i]);
    free(texts->text);
    texts->text = NULL;
    texts->count = texts->capacity = 0;
}

static bool gather_text(const struct image *image, void *data)
{
    struct texts *texts = data;
    if (image->kind != IMAGE_PTX)
        return true;
    if (image->arch > texts->newest)
        texts->newest = image->arch;
    if (image->arch > device_now()->arch || image->arch < texts->arch)
        return true;
    char *text = image->compressed ? image_expand(image) : checked_alloc(strdup(image->data));
    if (!text) {
        texts->compressed = true;
        return true;
    }
    if (image->arch > texts->arch)
        drop_texts(texts);
    texts->arch = image->arch;
    texts->text = array_grow(texts->text, texts->count, &texts->capacity, sizeof *texts->text);
    texts->text[texts->count++] = text;
    return true;
}

// The architecture that a PTX text names, 89 for .target sm_89; 0: it names none.
static int target(const char *text)
{
    const char *at = strstr(text, ".target");
    int arch = 0;
    return at && sscanf(at, ".target sm_%d", &arch) == 1 ? arch : 0;
}

// Chooses among the images of a fat binary as a driver does: the machine code, and the PTX, for the
// highest arch that is not above the device's.
static cudaError_t choose_images(struct binary *binary, struct texts *texts)
{
    const void *at = NULL;
    struct image image;
    int images = 0, arch = device_now()->arch;
    const char *what = binary->loaded ? "what the program loads" : "the executable";
    char why[512];

    if (binary->text) {
        image =
            (struct image){.kind = IMAGE_PTX, .arch = target(binary->text), .data = binary->text};
        gather_text(&image, texts);
    }
    while (binary->fatbin && fatbin_next(binary->fatbin, SIZE_MAX, &at, &image)) {
        ++images;
        if (image.kind == IMAGE_CUBIN) {
            if (image.arch / 10 != arch / 10 || image.arch > arch ||
                (binary->cubin.data && image.arch <= binary->cubin.arch))
                continue;
            if (image.compressed) { // the expanded data is kept as long as the program runs
                image.data = image_expand(&image);
                image.size = image.expanded_size;
            }
            if (image.data)
                binary->cubin = image;
        } else if (!binary->separate) {
            gather_text(&image, texts);
        }
    }
    if (binary->separate)
        fatbin_visit_section("/proc/self/exe", "__nv_relfatbin", gather_text, texts, why,
                             sizeof why);
    if (texts->count)
        return cudaSuccess;
    if (binary->loaded && texts->newest > arch && device_becomes(texts->newest))
        return choose_images(binary, texts);
    if (images == 0 && !texts->newest)
        complain("the GPU code of %s cannot be read: build it with nvcc 12 or 13", what);
    else if (texts->compressed)
        complain("the PTX of %s is compressed, and libzstd.so.1 or liblz4.so.1 is missing or "
                 "cannot expand it: build it with nvcc --compress-mode=none",
                 what);
    else if (texts->newest > arch)
        complain("the PTX of %s is for compute_%d, the simulated GPU is sm_%d: build it with "
                 "-gencode arch=compute_%d,code=compute_%d",
                 what, texts->newest, arch, arch, arch);
    else
        complain("%s holds no PTX: build it with -gencode arch=compute_%d,code=compute_%d", what,
                 arch, arch);
    return cudaErrorNoKernelImageForDevice;
}

// The module of a fat binary, parsed when first needed. An error is explained only once.
cudaError_t binary_module(struct binary *binary, struct module **module)
{
    struct texts texts = {0};
    char why[512];

    *module = NULL;
    if (!binary->module && binary->error == cudaSuccess) {
        binary->error = choose_images(binary, &texts);
        if (binary->error == cudaSuccess) {
            size_t count = binary->separate ? texts.count : 1;
            binary->module = module_link(texts.text, count, why, sizeof why);
            if (!binary->module) {
                complain("%s", why);
                binary->error = cudaErrorInvalidPtx;
            }
        }
        drop_texts(&texts);
    }
    *module = binary->module;
    return binary->error;
}

struct CUkern_st *kernel_of(struct binary *binary, const char *name)
{
    struct module *module;
    struct kernel *kernel;

    struct CUkern_st *known = kernel_registered(binary, name);
    if (known)
        return known;
    if (binary_module(binary, &module) != cudaSuccess || !(kernel = module_kernel(module, name)))
        return NULL;
    return kernel_register(binary, NULL, kernel_info(kernel)->name);
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

// Like kernel_find, but also parses the kernel's module, so that its attributes are known.
static cudaError_t kernel_use(const void *function, struct CUkern_st **kernel)
{
    cudaError_t error = kernel_find(function, kernel);
    return error == cudaSuccess ? kernel_load(*kernel) : error;
}

// How many threads of one CTA an SM has registers for: a warp gets registers in units of 256, and
// the warps are a multiple of four, since each quarter of the SM gets the same number. At most a
// CTA's limit.
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
        .localSizeBytes = cubin->data ? resources.local_bytes : info->local_bytes,
        .maxThreadsPerBlock = threads < info->max_threads ? threads : info->max_threads,
        // 0: there is no machine code for the device (estimated_registers).
        .numRegs = resources.registers,
        .ptxVersion = device_now()->arch,
        .binaryVersion = device_now()->arch,
        .maxDynamicSharedSizeBytes = kernel->max_dynamic_shared,
        .preferredShmemCarveout = kernel->carveout,
        .clusterDimMustBeSet = info->cluster[0] > 0,
        .requiredClusterWidth = (int)info->cluster[0],
        .requiredClusterHeight = (int)info->cluster[1],
        .requiredClusterDepth = (int)info->cluster[2],
        .nonPortableClusterSizeAllowed = kernel->large_clusters,
    };
    if (kernel->max_dynamic_shared < 0)
        attributes->maxDynamicSharedSizeBytes =
            (int)(device_now()->shared_default - info->static_shared_bytes);
    return cudaSuccess;
}

// The number of registers that a program is told for a kernel without machine code: an estimate,
// limited by the kernel's launch bounds.
int estimated_registers(struct CUkern_st *kernel)
{
    static bool told;
    const struct kernel_info *info = kernel_info(kernel->kernel);
    int registers = kernel_registers(kernel->kernel), most = registers;
    if (info->bounded)
        most = GPU_REGISTERS / info->max_threads;

    if (!told)
        complain("registers and occupancy are estimated from the PTX: build with -gencode "
                 "arch=compute_%d,code=[compute_%d,sm_%d] for those of the machine code",
                 device_now()->arch, device_now()->arch, device_now()->arch);
    told = true;
    return registers < most ? registers : most;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    API_WORK();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_find(function, &kernel);
    if (error == cudaSuccess)
        error = attributes ? kernel_attributes(kernel, attributes) : cudaErrorInvalidValue;
    if (error == cudaSuccess && !attributes->numRegs)
        attributes->numRegs = estimated_registers(kernel);
    return api_result(error);
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    API_WORK();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_use(function, &kernel);
    if (error != cudaSuccess)
        return api_result(error);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || (size_t)value + kernel_info(kernel->kernel)->static_shared_bytes >
                             device_now()->shared_optin)
            return api_result(cudaErrorInvalidValue);
        kernel->max_dynamic_shared = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
            return api_result(cudaErrorInvalidValue);
        kernel->carveout = value;
        return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
        kernel->large_clusters = value != 0;
        // fallthrough
    case cudaFuncAttributeClusterSchedulingPolicyPreference: // the simulator does not place CTAs
        return api_result(device_now()->arch >= 90 ? cudaSuccess : cudaErrorInvalidValue);
    default: return api_result(cudaErrorInvalidValue);
    }
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    API_WORK();
    struct CUkern_st *kernel;
    (void)config;
    return api_result(kernel_find(function, &kernel));
}

cudaError_t cudaFuncSetSharedMemConfig(const void *function, enum cudaSharedMemConfig config)
{
    API_WORK();
    struct CUkern_st *kernel;
    if ((unsigned)config > cudaSharedMemBankSizeEightByte)
        return api_result(cudaErrorInvalidValue);
    return api_result(kernel_find(function, &kernel) == cudaSuccess
                          ? cudaSuccess
                          : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    API_WORK();
    struct CUkern_st *kernel;
    cudaError_t error = name ? kernel_find(function, &kernel) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *name = kernel->name;
    return api_result(error);
}

cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset, size_t *size)
{
    API_WORK();
    struct CUkern_st *kernel;
    cudaError_t error = kernel_use(function, &kernel);
    if (error != cudaSuccess)
        return api_result(error);
    const struct kernel_info *info = kernel_info(kernel->kernel);
    if (!offset || index >= (size_t)info->params)
        return api_result(cudaErrorInvalidValue);
    *offset = info->param_offsets[index];
    if (size)
        *size = info->param_sizes[index];
    return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    API_WORK();
    return api_result(kernel ? kernel_find(function, kernel) : cudaErrorInvalidValue);
}
ALSO(cudaGetKernel, __cudaGetKernel);

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    return cudaGetKernel((cudaKernel_t *)function, symbol);
}
