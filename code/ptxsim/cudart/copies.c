// copies.c: cudaMemcpy, cudaMemset and their variants.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static cudaError_t copy(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                        size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct task task;
    cudaError_t error = copy_task(to, to_pitch, from, from_pitch, width, height, kind, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return error;
    return stream_submit(stream, &task);
}

static cudaError_t fill(char *to, size_t pitch, int value, size_t width, size_t height,
                        cudaStream_t stream)
{
    struct task task;
    cudaError_t error = fill_task(to, pitch, (unsigned char)value, 1, width, height, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return error;
    return stream_submit(stream, &task);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    API_WORK();
    return api_result(copy(to, bytes, from, bytes, bytes, 1, kind, stream));
}
ALSO(cudaMemcpyAsync, cudaMemcpyAsync_ptsz);

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    API_WORK();
    return api_result(copy(to, to_pitch, from, from_pitch, width, height, kind, stream));
}
ALSO(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz);

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    API_WORK();
    return api_result(fill(to, bytes, value, bytes, 1, stream));
}
ALSO(cudaMemsetAsync, cudaMemsetAsync_ptsz);

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    API_WORK();
    return api_result(fill(to, pitch, value, width, height, stream));
}
ALSO(cudaMemset2DAsync, cudaMemset2DAsync_ptsz);

// Whether an address is in device memory. Synchronous copies, which use the legacy stream, return
// when the bytes have arrived, except within the device (CUDA Runtime API, "API synchronization
// behavior").
static bool is_device(const void *address)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, 1, NULL);
    return a && a->kind == MEMORY_DEVICE;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    API_WORK();
    // A copy from pageable memory returns when its bytes are in a staging buffer; they may not have
    // reached the device.
    bool staged = !memory_find((uint64_t)(uintptr_t)from, 1, NULL) && order_strict();
    bool waits = !is_device(to) || !(staged || is_device(from));
    order_waits(waits);
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return waits ? stream_waited_after(error) : error;
}
ALSO(cudaMemcpy, cudaMemcpy_ptds);

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    API_WORK();
    return stream_waited_after(
        cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL));
}
ALSO(cudaMemcpy2D, cudaMemcpy2D_ptds);

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    API_WORK();
    cudaError_t error = cudaMemsetAsync(to, value, bytes, NULL);
    return is_device(to) ? error : stream_waited_after(error);
}
ALSO(cudaMemset, cudaMemset_ptds);

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}
ALSO(cudaMemset2D, cudaMemset2D_ptds);
