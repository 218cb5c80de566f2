// transfers.c: checks copies and fills, and makes tasks of them.
#include "runtime.h"

// Bytes from the beginning to the end of a pitched block. On overflow SIZE_MAX, which is larger
// than any allocation.
static size_t extent(size_t pitch, size_t width, size_t height)
{
    size_t bytes;
    if (!height)
        return 0;
    bool good = !__builtin_mul_overflow(pitch, height - 1, &bytes) &&
                !__builtin_add_overflow(bytes, width, &bytes);
    return good ? bytes : SIZE_MAX;
}

// Whether a range is valid as one side of a copy. A range of the device must be inside an
// allocation. A range of the host may be the program's own memory; if it begins in an allocation,
// it must not pass the allocation's end.
static bool side_is_right(const void *address, size_t bytes, bool device)
{
    const struct allocation *nearest = NULL;
    uint64_t start = (uint64_t)(uintptr_t)address;

    if (memory_find(start, bytes, &nearest))
        return true;
    return !device && !(nearest && nearest->live && start - nearest->base < nearest->size);
}

// Makes the task of a copy; a copy of no bytes becomes TASK_NOTHING.
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

// Makes the task of a fill; width: in elements of 1, 2 or 4 bytes.
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
