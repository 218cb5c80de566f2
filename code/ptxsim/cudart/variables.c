// variables.c: __device__, __constant__ and __managed__ variables, by their names in host code.
#include "runtime.h"

// nvcc declares __cudaInitModule in an internal C++ header.
#pragma GCC visibility push(default)
char __cudaInitModule(void **handle);
#pragma GCC visibility pop

static cudaError_t find_symbol(const void *symbol, char **address, size_t *size)
{
    struct module *module;
    void *found;

    for (struct device_variable *v = variables_registered(); v; v = v->next) {
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
    for (struct device_variable *v = variables_registered(); v; v = v->next)
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
        return api_result(cudaErrorInvalidValue);
    return api_result(find_symbol(symbol, (char **)address, &size));
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    API_ENTER();
    char *address;
    if (!size)
        return api_result(cudaErrorInvalidValue);
    return api_result(find_symbol(symbol, &address, size));
}

// Copies to a variable if `to` is NULL, or from the variable if `from` is NULL.
static cudaError_t symbol_copy(const void *symbol, const void *from, void *to, size_t bytes,
                               size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *address;
    size_t size;
    cudaError_t error = find_symbol(symbol, &address, &size);

    if (error != cudaSuccess)
        return error;
    if (!within(offset, bytes, size) || (!from && !to))
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
    return api_result(symbol_copy(symbol, from, NULL, bytes, offset, kind, stream));
}
ALSO(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz);

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    API_ENTER();
    return api_result(symbol_copy(symbol, NULL, to, bytes, offset, kind, stream));
}
ALSO(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz);

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind)
{
    API_ENTER();
    return stream_waited_after(cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, NULL));
}
ALSO(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds);

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    API_ENTER();
    return stream_waited_after(cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, NULL));
}
ALSO(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds);
