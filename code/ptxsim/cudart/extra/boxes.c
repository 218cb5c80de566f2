// boxes.c: copies and fills of boxes, in memory and in arrays; and copies between devices.
#include "extra.h"

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

// Makes the task for a copy of a box. In pitched memory, a slice has ysize rows and the box's width
// is in bytes; if one side is an array, the width counts elements.
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
    // If the first and the last slice are valid, those between are, too.
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
