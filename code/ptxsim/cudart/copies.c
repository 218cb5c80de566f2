// copies.c: allocations, copies and fills.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

// ---- Allocations --------------------------------------------------------------------------------

static cudaError_t allocate(void **address, size_t bytes, enum memory_kind kind)
{
    cudaError_t error = capture_forbids();

    if (error != cudaSuccess)
        return error;
    if (!address)
        return cudaErrorInvalidValue;
    *address = NULL;
    if (bytes == 0)
        return cudaSuccess;
    *address = memory_alloc_kind(bytes, kind);
    if (*address && kind == MEMORY_DEVICE) { // the host may write the others unseen
        memory_track(*address);
        memory_guard(*address);
    }
    if (*address && kind != MEMORY_HOST)
        write_memory(*address, bytes, kind == MEMORY_MANAGED);
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

static const struct allocation *allocation_at(const void *address)
{
    return memory_find((uint64_t)(uintptr_t)address, 1, NULL);
}

// What is wrong with an address that is to be freed: few programs look at the error of cudaFree.
static void explain_free(const void *address, bool host, const struct allocation *inside)
{
    static bool explained[2];
    const struct allocation *nearest = NULL;
    const char *call = host ? "cudaFreeHost" : "cudaFree";

    if (explained[host])
        return;
    explained[host] = true;
    memory_find((uint64_t)(uintptr_t)address, 1, &nearest);
    if (inside && (inside->kind == MEMORY_REGISTERED || (inside->kind == MEMORY_HOST) != host))
        complain("%s: %p is %s: free it with %s", call, address,
                 inside->kind == MEMORY_REGISTERED ? "the program's own, only registered"
                 : host                            ? "memory of the device"
                                                   : "pinned memory of the host",
                 inside->kind == MEMORY_REGISTERED ? "free, after cudaHostUnregister"
                 : host                            ? "cudaFree"
                                                   : "cudaFreeHost");
    else if (inside)
        complain("%s: %p is byte %llu of an allocation, not where it begins", call, address,
                 (unsigned long long)((uint64_t)(uintptr_t)address - inside->base));
    else if (nearest && nearest->base == (uint64_t)(uintptr_t)address)
        complain("%s: %p has been freed already", call, address);
    else
        complain("%s: %p was not allocated by CUDA", call, address);
}

static cudaError_t release(void *address, bool host)
{
    cudaError_t error = capture_forbids();

    if (error != cudaSuccess || !address)
        return error;
    const struct allocation *a = allocation_at(address);
    if (!a || a->kind == MEMORY_REGISTERED || (a->kind == MEMORY_HOST) != host ||
        !memory_free(address)) {
        explain_free(address, host, a);
        return cudaErrorInvalidValue;
    }
    pool_returned(address);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    API_ENTER();
    return api_result(allocate(address, bytes, MEMORY_DEVICE));
}

cudaError_t cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
    API_ENTER();
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
        return api_result(cudaErrorInvalidValue);
    return api_result(allocate(address, bytes, MEMORY_MANAGED));
}

// Flags of pinned memory that are more than what all of it has, newest first. They have no effect.
static struct pinned {
    uint64_t base;
    unsigned flags;
    struct pinned *next;
} * pinned;

static void remember_flags(const void *address, unsigned flags)
{
    struct pinned *p = flags ? malloc(sizeof *p) : NULL;

    if (!p)
        return;
    *p = (struct pinned){(uint64_t)(uintptr_t)address, flags, pinned};
    pinned = p;
}

static void forget_flags(const void *address)
{
    for (struct pinned **p = &pinned; *p;) {
        struct pinned *gone = *p;
        if (gone->base == (uint64_t)(uintptr_t)address) {
            *p = gone->next;
            free(gone);
        } else {
            p = &gone->next;
        }
    }
}

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags)
{
    API_ENTER();
    cudaError_t error = allocate(address, bytes, MEMORY_HOST);
    if (error == cudaSuccess && *address)
        remember_flags(*address, flags);
    return api_result(error);
}

// With one space of addresses for host and device, all pinned memory is mapped.
cudaError_t cudaHostGetFlags(unsigned *flags, void *address)
{
    API_ENTER();
    const struct allocation *a = allocation_at(address);
    if (!flags || !a || (a->kind != MEMORY_HOST && a->kind != MEMORY_REGISTERED))
        return api_result(cudaErrorInvalidValue);
    *flags = cudaHostAllocMapped;
    for (const struct pinned *p = pinned; p; p = p->next)
        if (p->base == a->base)
            *flags |= p->flags;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **address, size_t bytes)
{
    return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
    API_ENTER();
    if (!pitch || (height && width > SIZE_MAX / 2 / height))
        return api_result(cudaErrorInvalidValue);
    *pitch = (width + 511) / 512 * 512;
    return api_result(allocate(address, *pitch * height, MEMORY_DEVICE));
}

cudaError_t cudaFree(void *address)
{
    API_ENTER();
    if (graph_keeps(address))
        return cudaSuccess;
    return api_result(release(address, false));
}

cudaError_t cudaFreeHost(void *address)
{
    API_ENTER();
    cudaError_t error = release(address, true);
    if (error == cudaSuccess)
        forget_flags(address);
    return api_result(error);
}

cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
    API_ENTER();
    (void)flags;
    if (!address || bytes == 0)
        return api_result(cudaErrorInvalidValue);
    return api_result(memory_register(address, bytes) ? cudaSuccess
                                                      : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void *address)
{
    API_ENTER();
    const struct allocation *a = allocation_at(address);
    if (!a || a->kind != MEMORY_REGISTERED || !memory_free(address))
        return api_result(cudaErrorHostMemoryNotRegistered);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    API_ENTER();
    (void)flags;
    const struct allocation *a = allocation_at(host);
    if (!device || !a || (a->kind != MEMORY_HOST && a->kind != MEMORY_REGISTERED))
        return api_result(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    API_ENTER();
    if (!free_bytes || !total)
        return api_result(cudaErrorInvalidValue);
    *total = device_properties()->totalGlobalMem;
    size_t capacity = memory_capacity();
    *free_bytes = (capacity < *total ? capacity : *total);
    *free_bytes -= memory_in_use() < *free_bytes ? memory_in_use() : *free_bytes;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address)
{
    static const enum cudaMemoryType types[] = {
        [MEMORY_DEVICE] = cudaMemoryTypeDevice,
        [MEMORY_HOST] = cudaMemoryTypeHost,
        [MEMORY_MANAGED] = cudaMemoryTypeManaged,
        [MEMORY_REGISTERED] = cudaMemoryTypeHost,
    };

    API_ENTER();
    const struct allocation *a = allocation_at(address);
    if (!attributes)
        return api_result(cudaErrorInvalidValue);
    *attributes = (struct cudaPointerAttributes){
        .type = a ? types[a->kind] : cudaMemoryTypeUnregistered,
        .device = a ? 0 : cudaInvalidDeviceId,
        .devicePointer = a ? (void *)(uintptr_t)address : NULL,
        .hostPointer = a && a->kind == MEMORY_DEVICE ? NULL : (void *)(uintptr_t)address,
    };
    return cudaSuccess;
}

// Hints about where managed memory should be: accepted, there is one place here.
cudaError_t cudaMemPrefetchAsync(const void *address, size_t bytes, struct cudaMemLocation location,
                                 unsigned flags, cudaStream_t stream)
{
    API_ENTER();
    (void)location, (void)flags, (void)stream;
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)address, bytes, NULL);
    return api_result(a && a->kind == MEMORY_MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}
ALSO(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz);

cudaError_t cudaMemAdvise(const void *address, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    (void)advice;
    return cudaMemPrefetchAsync(address, bytes, location, 0, NULL);
}

// ---- Copies -------------------------------------------------------------------------------------

// Bytes from the first to the last of a pitched block.
static size_t extent(size_t pitch, size_t width, size_t height)
{
    return height ? pitch * (height - 1) + width : 0;
}

// A range that is said to be the device's must lie in an allocation. One that is said to be the
// host's may lie in the device's memory, too, but may not begin in an allocation and pass its end.
static bool side_is_right(const void *address, size_t bytes, bool device)
{
    const struct allocation *nearest = NULL;
    uint64_t start = (uint64_t)(uintptr_t)address;

    if (memory_find(start, bytes, &nearest))
        return true;
    return !device && !(nearest && nearest->live && start - nearest->base < nearest->size);
}

// A copy of no bytes is TASK_NOTHING.
cudaError_t copy_task(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
                      size_t height, enum cudaMemcpyKind kind, struct task *task)
{
    *task = (struct task){.kind = TASK_NOTHING};
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (width > to_pitch || width > from_pitch)
        return height > 1 ? cudaErrorInvalidPitchValue : cudaErrorInvalidValue;
    if (width == 0 || height == 0)
        return cudaSuccess;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!to || !from || !side_is_right(to, extent(to_pitch, width, height), to_device) ||
        !side_is_right(from, extent(from_pitch, width, height), from_device))
        return cudaErrorInvalidValue;
    task->kind = TASK_COPY;
    task->copy.to = to;
    task->copy.from = from;
    task->copy.to_pitch = to_pitch;
    task->copy.from_pitch = from_pitch;
    task->copy.width = width;
    task->copy.height = height;
    return cudaSuccess;
}

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

// width in elements of 1, 2 or 4 bytes.
cudaError_t fill_task(char *to, size_t pitch, unsigned value, unsigned element, size_t width,
                      size_t height, struct task *task)
{
    *task = (struct task){.kind = TASK_NOTHING};
    if ((element != 1 && element != 2 && element != 4) || width > SIZE_MAX / 8)
        return cudaErrorInvalidValue;
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (height == 1)
        pitch = width * element;
    if (width * element > pitch || !side_is_right(to, extent(pitch, width * element, height), true))
        return cudaErrorInvalidValue;
    task->kind = TASK_FILL;
    task->fill.to = to;
    task->fill.pitch = pitch;
    task->fill.value = value;
    task->fill.element = (unsigned char)element;
    task->fill.width = width;
    task->fill.height = height;
    return cudaSuccess;
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
    API_ENTER();
    return api_result(copy(to, bytes, from, bytes, bytes, 1, kind, stream));
}
ALSO(cudaMemcpyAsync, cudaMemcpyAsync_ptsz);

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    API_ENTER();
    return api_result(copy(to, to_pitch, from, from_pitch, width, height, kind, stream));
}
ALSO(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz);

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    API_ENTER();
    return api_result(fill(to, bytes, value, bytes, 1, stream));
}
ALSO(cudaMemsetAsync, cudaMemsetAsync_ptsz);

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    API_ENTER();
    return api_result(fill(to, pitch, value, width, height, stream));
}
ALSO(cudaMemset2DAsync, cudaMemset2DAsync_ptsz);

// The synchronous ones use the legacy stream.
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}
ALSO(cudaMemcpy, cudaMemcpy_ptds);

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}
ALSO(cudaMemcpy2D, cudaMemcpy2D_ptds);

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}
ALSO(cudaMemset, cudaMemset_ptds);

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}
ALSO(cudaMemset2D, cudaMemset2D_ptds);

// ---- Boxes, and the other device ----------------------------------------------------------------

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *memory, struct cudaExtent box)
{
    if (!memory || (box.depth && box.height > SIZE_MAX / box.depth))
        return api_result(cudaErrorInvalidValue);
    *memory = (struct cudaPitchedPtr){.xsize = box.width, .ysize = box.height};
    return cudaMallocPitch(&memory->ptr, &memory->pitch, box.width, box.height * box.depth);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *params, cudaStream_t stream)
{
    API_ENTER();
    struct task task;
    cudaError_t error = copy_3d_task(params, &task);
    if (error != cudaSuccess || task.kind == TASK_NOTHING)
        return api_result(error);
    return api_result(stream_submit(stream, &task));
}
ALSO(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz);

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params)
{
    return cudaMemcpy3DAsync(params, NULL);
}
ALSO(cudaMemcpy3D, cudaMemcpy3D_ptds);

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr memory, int value, struct cudaExtent box,
                              cudaStream_t stream)
{
    API_ENTER();
    struct task task;
    size_t slice = memory.pitch * memory.ysize;
    cudaError_t error = cudaSuccess;
    if (box.depth == 0)
        return cudaSuccess;
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
