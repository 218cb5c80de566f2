// libraries.c: modules that a program loads at run time: PTX texts, fat binaries, and files of
// either.
#include "extra.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlib_st {
    struct binary binary;
    void *file;            // what the file contained, or a copy of the text
    struct CUlib_st *next; // the next in the list of loaded libraries
};
static struct CUlib_st *libraries;

static struct CUlib_st *library_find(cudaLibrary_t handle)
{
    struct CUlib_st *l = libraries;
    while (l && l != handle)
        l = l->next;
    return l;
}

// Writes the compiler's message to the program's buffer, if the program has given one.
static void log_error(const char *text, const enum cudaJitOption *options, void *const *values,
                      unsigned count)
{
    char *buffer = NULL;
    size_t size = 0;

    for (unsigned i = 0; i < count; ++i)
        if (options[i] == cudaJitErrorLogBuffer)
            buffer = values[i];
        else if (options[i] == cudaJitErrorLogBufferSizeBytes)
            size = (unsigned)(uintptr_t)values[i];
    if (buffer && size)
        snprintf(buffer, size, "%s", text);
}

// Takes `code`: a fat binary, nvcc's wrapper of one, or a PTX text, as its first bytes show;
// machine code is refused. A text is copied, since the program may free it after loading.
static cudaError_t take(struct CUlib_st *library, const char *code)
{
    if (!strncmp(code, "\x50\xed\x55\xba", 4)) {
        library->binary.fatbin = code;
    } else if (!strncmp(code, "\xb1\x43\x62\x46", 4)) {
        library->binary.fatbin = wrapped(code);
    } else if (!strncmp(code,
                        "\x7f"
                        "ELF",
                        4)) {
        complain("what the program loads is machine code, a cubin: load what nvcc -ptx or -fatbin "
                 "makes");
        return cudaErrorNoKernelImageForDevice;
    } else {
        if (!library->file && !(library->file = strdup(code)))
            return cudaErrorMemoryAllocation;
        library->binary.text = library->file;
    }
    return cudaSuccess;
}

static cudaError_t load(cudaLibrary_t *handle, const void *code, void *file,
                        const enum cudaJitOption *options, void *const *values, unsigned count)
{
    struct CUlib_st *library = calloc(1, sizeof *library);
    struct module *module;

    if (!library) {
        free(file);
        return cudaErrorMemoryAllocation;
    }
    library->binary.loaded = true;
    library->file = file;
    cudaError_t error = take(library, code);
    if (error == cudaSuccess)
        error = binary_module(&library->binary, &module);
    if (error != cudaSuccess) {
        log_error(complained(), options, values, count);
        free(library->file);
        free(library);
        return error;
    }
    library->next = libraries;
    libraries = library;
    *handle = library;
    return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *options, void **values, unsigned count,
                                enum cudaLibraryOption *library_options, void **library_values,
                                unsigned library_count)
{
    API_ENTER();
    (void)library_options, (void)library_values, (void)library_count;
    if (!library || !code || (count && (!options || !values)))
        return api_result(cudaErrorInvalidValue);
    return api_result(load(library, code, NULL, options, values, count));
}

// Reads a file into memory that the caller frees, and appends a NUL.
static cudaError_t read_file(const char *path, char **data)
{
    FILE *file = fopen(path, "rb");
    size_t size = 0, room = 1 << 16;

    if (!file) {
        complain("%s: %s", path, strerror(errno));
        return cudaErrorFileNotFound;
    }
    char *bytes = malloc(room);
    while (bytes) {
        size += fread(bytes + size, 1, room - size - 1, file);
        if (size + 1 < room)
            break;
        char *more = realloc(bytes, room *= 2);
        if (!more)
            free(bytes);
        bytes = more;
    }
    if (bytes)
        bytes[size] = 0;
    bool failed = ferror(file);
    fclose(file);
    *data = bytes;
    if (bytes && !failed)
        return cudaSuccess;
    free(bytes);
    return bytes ? cudaErrorFileNotFound : cudaErrorMemoryAllocation;
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
                                    enum cudaJitOption *options, void **values, unsigned count,
                                    enum cudaLibraryOption *library_options, void **library_values,
                                    unsigned library_count)
{
    API_ENTER();
    char *data;
    (void)library_options, (void)library_values, (void)library_count;
    if (!library || !path || (count && (!options || !values)))
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = read_file(path, &data);
    if (error == cudaSuccess)
        error = load(library, data, data, options, values, count);
    return api_result(error);
}

// The library's kernels can no longer be found; their counts, and the library's memory, stay.
cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    API_ENTER();
    for (struct CUlib_st **l = &libraries; *l; l = &(*l)->next)
        if (*l == library) {
            *l = library->next;
            library->binary.unloaded = true;
            return cudaSuccess;
        }
    return api_result(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    API_ENTER();
    if (!kernel || !name)
        return api_result(cudaErrorInvalidValue);
    if (!library_find(library))
        return api_result(cudaErrorInvalidResourceHandle);
    *kernel = kernel_of(&library->binary, name);
    return api_result(*kernel ? cudaSuccess : cudaErrorSymbolNotFound);
}

cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    API_ENTER();
    struct module *module;
    if (!count)
        return api_result(cudaErrorInvalidValue);
    if (!library_find(library))
        return api_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = binary_module(&library->binary, &module);
    for (*count = 0; error == cudaSuccess && module_kernel_at(module, *count); ++*count)
        ;
    return api_result(error);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count,
                                        cudaLibrary_t library)
{
    API_ENTER();
    struct module *module;
    struct kernel *kernel;
    if (!kernels && count)
        return api_result(cudaErrorInvalidValue);
    if (!library_find(library))
        return api_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = binary_module(&library->binary, &module);
    for (unsigned i = 0;
         error == cudaSuccess && i < count && (kernel = module_kernel_at(module, i)); ++i)
        kernels[i] = kernel_of(&library->binary, kernel_info(kernel)->name);
    return api_result(error);
}

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library,
                                 const char *name)
{
    API_ENTER();
    struct module *module;
    void *found;
    size_t size;
    if (!name)
        return api_result(cudaErrorInvalidValue);
    if (!library_find(library))
        return api_result(cudaErrorInvalidResourceHandle);
    cudaError_t error = binary_module(&library->binary, &module);
    if (error != cudaSuccess)
        return api_result(error);
    if (!module_symbol(module, name, &found, &size))
        return api_result(cudaErrorSymbolNotFound);
    if (address)
        *address = found;
    if (bytes)
        *bytes = size;
    return cudaSuccess;
}

// A managed variable has the same address for host and device, like all memory of the simulator.
cudaError_t cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library,
                                  const char *name)
{
    return cudaLibraryGetGlobal(address, bytes, library, name);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute,
                                            int value, int device)
{
    if (device != 0)
        return api_result(cudaErrorInvalidDevice);
    return cudaFuncSetAttribute(kernel, attribute, value);
}
