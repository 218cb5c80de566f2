// written.c: under PTXSIM_LAUNCHES=FD, a program's requests of the device are written to that file
// descriptor instead of being carried out, one line each:
//
//   launch NAME grid.x .y .z block.x .y .z shared cooperative PARAMETERS   parameters in hexadecimal
//   memory KIND ADDRESS BYTES               allocated: d, cudaMalloc; m, cudaMallocManaged
//   write TARGET OFFSET BYTES               copied from the host, or found changed in managed
//                                           memory: hexadecimal
//   fill TARGET OFFSET COUNT VALUE ELEMENT  COUNT elements of ELEMENT bytes
//   refused ERROR: TEXT                     a launch that the runtime does not accept
//   other                                   anything else: a copy from the device, a host function
//
// A target is the name of a variable, or the address of an allocation. Addresses are the same in
// every run, so that another process can launch these kernels with the same addresses.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static FILE *lines;

__attribute__((constructor)) static void begin(void)
{
    const char *fd = getenv("PTXSIM_LAUNCHES");

    if (!fd || !*fd)
        return;
    if (!(lines = fdopen(atoi(fd), "w"))) {
        complain("PTXSIM_LAUNCHES: \"%s\" is no open file descriptor", fd);
        exit(1);
    }
    memory_place(HOST_CODE_MEMORY);
}

bool only_written(void)
{
    return lines != NULL;
}

void write_refusal(cudaError_t error)
{
    if (lines)
        fprintf(lines, "refused %s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
}

// ---- Memory -------------------------------------------------------------------------------------

static struct shared { // memory to which the host, too, writes, without calls of the API
    const char *name;  // NULL: it is an allocation, no variable
    const char *at;
    char *told; // the allocation's bytes as last written down; NULL: never
    size_t size;
} * shared;
static size_t shared_count, shared_capacity;

static void share(const char *name, const void *at, size_t size)
{
    for (size_t i = 0; i < shared_count; ++i)
        if (shared[i].at == at)
            return;
    shared = array_grow(shared, shared_count, &shared_capacity, sizeof *shared);
    shared[shared_count++] = (struct shared){.name = name, .at = at, .size = size};
}

void write_memory(const void *address, size_t bytes, bool managed)
{
    if (!lines)
        return;
    fprintf(lines, "memory %c 0x%llx %zu\n", managed ? 'm' : 'd',
            (unsigned long long)(uintptr_t)address, bytes);
    if (managed)
        share(NULL, address, bytes);
}

static void write_bytes(const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        fprintf(lines, "%02x", (unsigned char)from[i]);
    fputc('\n', lines);
}

static bool is_zeros(const char *from, size_t bytes)
{
    while (bytes > 0 && !from[bytes - 1])
        --bytes;
    return bytes == 0;
}

// Writes down each piece of managed memory, as a whole, in which the host has changed something
// since the last launch.
static void write_shared(void)
{
    struct module *module;
    void *found;
    size_t size;

    for (struct device_variable *v = variables_registered(); v; v = v->next)
        if (v->managed && binary_module(v->binary, &module) == cudaSuccess &&
            module_symbol(module, v->name, &found, &size))
            share(v->name, found, size);
    for (struct shared *s = shared; s < shared + shared_count; ++s) {
        if (!memory_find((uint64_t)(uintptr_t)s->at, s->size, NULL) || // the memory has been freed
            (s->told ? !memcmp(s->told, s->at, s->size) : is_zeros(s->at, s->size)))
            continue;
        s->told = s->told ? s->told : checked_alloc(malloc(s->size));
        memcpy(s->told, s->at, s->size);
        if (s->name)
            fprintf(lines, "write %s 0 ", s->name);
        else
            fprintf(lines, "write 0x%llx 0 ", (unsigned long long)(uintptr_t)s->at);
        write_bytes(s->at, s->size);
    }
}

// Writes "write" or "fill", the target and the offset; writes nothing, and returns false, if the
// bytes are not in one variable or allocation of the device.
static bool write_target(const char *verb, const char *to, size_t bytes)
{
    struct module *module;
    void *found;
    size_t size;

    for (struct device_variable *v = variables_registered(); v; v = v->next)
        if (binary_module(v->binary, &module) == cudaSuccess &&
            module_symbol(module, v->name, &found, &size) && to >= (char *)found &&
            to + bytes <= (char *)found + size) {
            fprintf(lines, "%s %s %td ", verb, v->name, to - (char *)found);
            return true;
        }
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)to, bytes, NULL);
    if (!a || (a->kind != MEMORY_DEVICE && a->kind != MEMORY_MANAGED))
        return false;
    fprintf(lines, "%s 0x%llx %llu ", verb, (unsigned long long)a->base,
            (unsigned long long)((uint64_t)(uintptr_t)to - a->base));
    return true;
}

// Writes down one row that a copy or a fill writes.
static void write_row(const struct task *task, size_t slice, size_t row)
{
    if (task->kind == TASK_FILL) {
        const char *to = task->fill.to + slice * task->fill.slice + row * task->fill.pitch;
        if (write_target("fill", to, task->fill.width * task->fill.element))
            fprintf(lines, "%zu %u %d\n", task->fill.width, task->fill.value, task->fill.element);
        else
            fputs("other\n", lines);
        return;
    }
    const char *to = task->copy.to + slice * task->copy.to_slice + row * task->copy.to_pitch;
    const char *from =
        task->copy.from + slice * task->copy.from_slice + row * task->copy.from_pitch;
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)from, task->copy.width, NULL);
    bool of_host = !a || a->kind != MEMORY_DEVICE;
    if (of_host && write_target("write", to, task->copy.width))
        write_bytes(from, task->copy.width);
    else
        fputs("other\n", lines);
}

// ---- Tasks --------------------------------------------------------------------------------------

static void write_launch(const struct launch_order *l)
{
    write_shared();
    fprintf(lines, "launch %s %u %u %u %u %u %u %zu %d ", l->kernel->name, l->grid[0], l->grid[1],
            l->grid[2], l->block[0], l->block[1], l->block[2], l->dynamic_shared_bytes,
            l->cooperative);
    write_bytes(l->params, kernel_info(l->kernel->kernel)->param_bytes);
}

void write_down(const struct task *task)
{
    bool copies = task->kind == TASK_COPY;
    size_t depth = copies ? task->copy.depth : task->fill.depth;
    size_t height = copies ? task->copy.height : task->fill.height;

    switch (task->kind) {
    case TASK_KERNEL: write_launch(&task->launch); break;
    case TASK_COPY:
    case TASK_FILL:
        for (size_t slice = 0; slice < (depth ? depth : 1); ++slice)
            for (size_t row = 0; row < height; ++row)
                write_row(task, slice, row);
        break;
    case TASK_RECORD:
    case TASK_NOTHING:
    case TASK_ALLOC:
    case TASK_FREE: break;
    default: fputs("other\n", lines);
    }
    fflush(lines);
}
