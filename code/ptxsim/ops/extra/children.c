// children.c: kernels launched by kernels (dynamic parallelism), and other requests of device code
// to the runtime.
//
// A launch in device code is two calls: one prepares a buffer for the parameters, the other
// launches with it. The grid, and all that it launches in turn, runs when its parent has ended and
// before the next grid. A GPU may choose this order, too, since a parent cannot wait for its
// children. The stream that the child is launched into makes no difference.
#include "extra.h"
#include "ptxsim/base/heap.h"
#include "ptxsim/ops/address.h"
#include "ptxsim/ops/scalars.h"
#include "ptxsim/ops/system.h"

#include <stdlib.h>

enum { SUCCESS = 0, NO_MEMORY = 2, BAD_CONFIGURATION = 9, BAD_VALUE = 1 }; // values of cudaError_t
enum { THREADS_CTA = 1024 };

static uint64_t argument(struct warp *w, const char *r, const struct op *op, int lane, int index,
                         size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, parameter(w, r, op, lane, index), bytes);
    return value;
}

static void give(struct warp *w, const char *r, const struct op *op, int lane, uint64_t value,
                 size_t bytes)
{
    memcpy(parameter(w, r, op, lane, 0), &value, bytes);
}

// The kernel at an address that a program has taken; NULL: the address is not a kernel's.
static const struct kernel *kernel_at(const struct warp *w, uint64_t address)
{
    const struct module *m = w->cta->program->kernel->function->module;
    uint64_t number = address - CODE_WINDOW;
    for (size_t i = 0; i < m->kernel_count && number < m->function_count; ++i)
        if (m->kernels[i].function == m->functions[number])
            return &m->kernels[i];
    return NULL;
}

// Sets the result of a call. An error is also what cudaGetLastError will return.
static void give_error(struct warp *w, const char *r, const struct op *op, int lane, uint32_t error)
{
    if (error)
        w->error[lane] = error;
    give(w, r, op, lane, error, 4);
}

static struct child_entry *new_child(struct warp *w)
{
    struct worker *worker = w->cta->worker;
    worker->children = array_grow(worker->children, worker->child_count, &worker->child_capacity,
                                  sizeof *worker->children);
    struct child_entry *entry = &worker->children[worker->child_count];
    *entry = (struct child_entry){.cta = w->cta->number, .order = worker->child_count++};
    return entry;
}

// void *__cudaCDP2GetParameterBufferV2(kernel, dim3 grid, dim3 block, unsigned shared)
void child_params_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t address = argument(w, r, op, lane, 1, 8);
        const struct kernel *kernel = kernel_at(w, address);
        if (!kernel) {
            fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "launches 0x%llx, which is no kernel",
                     (unsigned long long)address);
            return;
        }
        size_t bytes = kernel->info.param_bytes;
        uint64_t buffer = heap_take(bytes ? bytes : 1);
        give(w, r, op, lane, buffer, 8);
        if (!buffer)
            continue; // the program gets NULL, and launches nothing
        struct child *child = &new_child(w)->child;
        child->kernel = kernel;
        child->params = (void *)(uintptr_t)buffer;
        memcpy(child->grid, parameter(w, r, op, lane, 2), sizeof child->grid);
        memcpy(child->block, parameter(w, r, op, lane, 3), sizeof child->block);
        child->dynamic_shared_bytes = argument(w, r, op, lane, 4, 4);
    }
}

static bool can_launch(const struct child *child)
{
    uint64_t threads = (uint64_t)child->block[0] * child->block[1] * child->block[2];
    uint64_t ctas = (uint64_t)child->grid[0] * child->grid[1] * child->grid[2];
    return ctas && threads && child->block[0] <= THREADS_CTA && child->block[1] <= THREADS_CTA &&
           threads <= (uint64_t)child->kernel->info.max_threads;
}

// cudaError_t __cudaCDP2LaunchDeviceV2(buffer, stream)
void child_launch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct worker *worker = w->cta->worker;
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        void *buffer = (void *)(uintptr_t)argument(w, r, op, lane, 1, 8);
        struct child_entry *entry = NULL;
        for (size_t i = worker->child_count; i-- > 0 && !entry;)
            if (worker->children[i].child.params == buffer && !worker->children[i].asked)
                entry = &worker->children[i];
        if (!entry) {
            fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                     "launches with parameters at %p, which were not prepared", buffer);
            return;
        }
        entry->asked = can_launch(&entry->child);
        give_error(w, r, op, lane, entry->asked ? SUCCESS : BAD_CONFIGURATION);
    }
}

// cudaError_t cudaMemcpyAsync(to, from, bytes, kind, stream)
void child_copy_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t to = argument(w, r, op, lane, 1, 8), from = argument(w, r, op, lane, 2, 8);
        uint64_t bytes = argument(w, r, op, lane, 3, 8);
        if (bytes > UINT32_MAX) {
            give_error(w, r, op, lane, BAD_VALUE);
            continue;
        }
        if (!global_span(w, to, bytes)) {
            fault_global(w, op, lane, to, (uint32_t)bytes, true);
            return;
        }
        if (!global_span(w, from, bytes)) {
            fault_global(w, op, lane, from, (uint32_t)bytes, false);
            return;
        }
        struct child_entry *entry = new_child(w);
        entry->child.to = (void *)(uintptr_t)to;
        entry->child.from = (const void *)(uintptr_t)from;
        entry->child.bytes = bytes;
        entry->asked = true;
        give_error(w, r, op, lane, SUCCESS);
    }
}

// cudaError_t cudaMalloc(void **at, size_t bytes): from the heap of device code, as on a GPU.
void device_malloc_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t address = heap_take(argument(w, r, op, lane, 2, 8));
        if (!generic_store(w, op, lane, argument(w, r, op, lane, 1, 8), &address, 8))
            return;
        give_error(w, r, op, lane, address ? SUCCESS : NO_MEMORY);
    }
}

// cudaError_t cudaFree(void *address)
void device_free_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    // worker->last may remember the block that is freed here.
    w->cta->worker->last = (struct allocation){0};
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t address = argument(w, r, op, lane, 1, 8);
        give_error(w, r, op, lane, !address || heap_give(address) ? SUCCESS : BAD_VALUE);
    }
}

// cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
void stream_create_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    static const uint64_t any = 1;
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        if (!generic_store(w, op, lane, argument(w, r, op, lane, 1, 8), &any, 8))
            return;
        give_error(w, r, op, lane, SUCCESS);
    }
}

// void cudaGraphSetConditional(handle, unsigned value): the handle is the value's address.
void set_condition_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    note_effect(w);
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t handle, value;
        memcpy(&handle, parameter(w, r, op, lane, 0), 8);
        value = argument(w, r, op, lane, 1, 4);
        if (handle % 4 || !global_span(w, handle, 4)) {
            fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "sets the condition 0x%llx, which is none",
                     (unsigned long long)handle);
            return;
        }
        if (!generic_store(w, op, lane, handle, &value, 4))
            return;
    }
}

// cudaError_t cudaPeekAtLastError(), and cudaGetLastError(), which also resets the error
void peek_error_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1)
        give(w, r, op, __builtin_ctz(mask), w->error[__builtin_ctz(mask)], 4);
}

void get_error_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    peek_error_op(w, r, op, mask);
    for (; mask; mask &= mask - 1)
        w->error[__builtin_ctz(mask)] = SUCCESS;
}

void device_success_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1)
        give(w, r, op, __builtin_ctz(mask), 0, op->bytes);
}
