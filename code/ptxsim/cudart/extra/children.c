// children.c: runs what the threads of a grid have launched (ops/extra/children.c), when the grid
// has ended.
#include "extra.h"
#include "ptxsim/base/heap.h"

#include <stdlib.h>
#include <string.h>

static struct child *asked; // requests of the threads of the current launch
static size_t asked_count, asked_capacity;

static void take_child(const struct child *child)
{
    asked = array_grow(asked, asked_count, &asked_capacity, sizeof *asked);
    asked[asked_count++] = *child;
}

static cudaError_t run_child(const struct CUkern_st *parent, const struct child *child)
{
    if (!child->kernel) {
        memmove(child->to, child->from, child->bytes);
        memory_mark(child->to, child->from, child->bytes);
        return cudaSuccess;
    }
    const char *name = kernel_info(child->kernel)->name;
    struct CUkern_st *kernel = kernel_named(name);
    if (!kernel) // it is in a module loaded at run time, and the host has never asked for it
        kernel = kernel_of(parent->binary, name);
    if (!kernel)
        return cudaErrorInvalidDeviceFunction;
    kernel->kernel = (struct kernel *)(uintptr_t)child->kernel;
    struct launch_order order = {.kernel = kernel,
                                 .dynamic_shared_bytes = child->dynamic_shared_bytes,
                                 .params = child->params};
    memcpy(order.grid, child->grid, sizeof order.grid);
    memcpy(order.block, child->block, sizeof order.block);
    return launch_now(&order);
}

// Runs what the threads of an ended grid have launched: a child, then the child's own children,
// then the next child.
static cudaError_t run_children(const struct CUkern_st *grid)
{
    struct child *list = asked;
    size_t count = asked_count;
    cudaError_t error = cudaSuccess;

    asked = NULL;
    asked_count = asked_capacity = 0;
    for (size_t i = 0; i < count; ++i) {
        if (error == cudaSuccess)
            error = run_child(grid, &list[i]);
        if (list[i].params)
            heap_give((uint64_t)(uintptr_t)list[i].params);
    }
    free(list);
    return error;
}

const struct extra_children extra_children = {take_child, run_children};
