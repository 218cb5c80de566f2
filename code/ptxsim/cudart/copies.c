// copies.c: the functions that copy and fill.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

// ---- Copies -------------------------------------------------------------------------------------

static cudaError_t copy(char *to, size_t to_pitch, const char *from, size_t from_pitch,
                        size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct task task;
    cudaError_t error = copy_task(to, to_pitch, from, from_pitch, width, height, kind, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return error;
    return stream_submit(stream, &task);
}

static cudaError_t box_side(cudaArray_const_t array, const struct cudaPitchedPtr *memory,
                            const struct cudaPos *at, const struct cudaExtent *extent,
                            struct side *side)
{
    if (array)
        return memory->ptr ? cudaErrorInvalidValue : array_side(array, at, extent, side);
    if (extent->depth > 1 && extent->height > memory->ysize)
        return cudaErrorInvalidValue;
    side->pitch = memory->pitch;
    side->slice = memory->pitch * memory->ysize;
    side->at = (char *)memory->ptr + at->x + at->y * side->pitch + at->z * side->slice;
    return cudaSuccess;
}

// A box of pitched memory (rows of its pitch, slices of ysize rows) or of an array, whose elements
// the width is then counted in.
cudaError_t copy_3d_task(const struct cudaMemcpy3DParms *p, struct task *task)
{
    *task = (struct task){.kind = TASK_NOTHING};
    if (!p)
        return cudaErrorInvalidValue;
    struct side to, from;
    cudaError_t error = box_side(p->dstArray, &p->dstPtr, &p->dstPos, &p->extent, &to);
    if (error == cudaSuccess)
        error = box_side(p->srcArray, &p->srcPtr, &p->srcPos, &p->extent, &from);
    if (error != cudaSuccess)
        return error;
    cudaArray_const_t array = p->srcArray ? p->srcArray : p->dstArray;
    if (p->srcArray && p->dstArray && array_element(p->srcArray) != array_element(p->dstArray))
        return cudaErrorInvalidValue;
    size_t width = p->extent.width * (array ? array_element(array) : 1), depth = p->extent.depth;
    if (depth == 0)
        return cudaSuccess;
    // If the first slice and the last are right, so are those between.
    struct task last;
    error = copy_task(to.at, to.pitch, from.at, from.pitch, width, p->extent.height, p->kind, task);
    if (error == cudaSuccess)
        error =
            copy_task(to.at + (depth - 1) * to.slice, to.pitch, from.at + (depth - 1) * from.slice,
                      from.pitch, width, p->extent.height, p->kind, &last);
    if (error == cudaSuccess && task->kind == TASK_COPY) {
        task->copy.depth = depth;
        task->copy.to_slice = to.slice;
        task->copy.from_slice = from.slice;
    }
    return error;
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

// The synchronous ones use the legacy stream. They return when all is done, but for those that work on the device
// alone (CUDA Runtime API, "API synchronization behavior").
static bool is_device(const void *address)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, 1, NULL);
    return a && a->kind == MEMORY_DEVICE;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    API_WORK();
    // From ordinary memory it returns when the bytes are staged, and may not have come to the device.
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

// ---- Boxes, and the other device ----------------------------------------------------------------

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *params, cudaStream_t stream)
{
    API_WORK();
    struct task task;
    cudaError_t error = copy_3d_task(params, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return api_result(error);
    return api_result(stream_submit(stream, &task));
}
ALSO(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz);

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params)
{
    API_WORK();
    return stream_waited_after(cudaMemcpy3DAsync(params, NULL));
}
ALSO(cudaMemcpy3D, cudaMemcpy3D_ptds);

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr memory, int value, struct cudaExtent box,
                              cudaStream_t stream)
{
    API_WORK();
    struct task task;
    size_t slice = memory.pitch * memory.ysize;
    cudaError_t error = cudaSuccess;
    if (box.depth == 0)
        return api_result(cudaSuccess);
    if (box.depth > 1 && box.height > memory.ysize)
        return api_result(cudaErrorInvalidValue);
    for (int last = 1; last >= 0 && error == cudaSuccess; --last)
        error = fill_task((char *)memory.ptr + (last ? (box.depth - 1) * slice : 0), memory.pitch,
                          (unsigned char)value, 1, box.width, box.height, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return api_result(error);
    task.fill.depth = box.depth;
    task.fill.slice = slice;
    return api_result(stream_submit(stream, &task));
}
ALSO(cudaMemset3DAsync, cudaMemset3DAsync_ptsz);

cudaError_t cudaMemset3D(struct cudaPitchedPtr memory, int value, struct cudaExtent box)
{
    return cudaMemset3DAsync(memory, value, box, NULL);
}
ALSO(cudaMemset3D, cudaMemset3D_ptds);

// There is one device: a copy between devices is a copy within it.
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    if (to_device != 0 || from_device != 0)
        return api_result(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL);
}
