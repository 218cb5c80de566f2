// allocations.c: memory of the device, pinned and managed memory; and which allocations belong to a
// pool or a graph.
#include "runtime.h"

#include <stdlib.h>

// ---- Allocations of pools and of graphs ---------------------------------------------------------

static struct loan { // an allocation from a pool
    const void *address;
    size_t bytes;
    struct pool_use *pool;
    struct loan *next;
} * loans;

bool pool_lends(struct pool_use *pool, const void *address, size_t bytes)
{
    struct loan *loan = malloc(sizeof *loan);

    if (!loan)
        return false;
    *loan = (struct loan){address, bytes, pool, loans};
    loans = loan;
    pool->bytes += bytes;
    pool->most = pool->bytes > pool->most ? pool->bytes : pool->most;
    return true;
}

bool pool_owns(const void *address)
{
    for (const struct loan *l = loans; l; l = l->next)
        if (l->address == address)
            return true;
    return false;
}

// Removes an allocation that is being freed from its pool's account. Returns false if it belongs to
// no pool.
static bool pool_returned(const void *address)
{
    for (struct loan **l = &loans; *l; l = &(*l)->next)
        if ((*l)->address == address) {
            struct loan *loan = *l;
            *l = loan->next;
            loan->pool->bytes -= loan->bytes;
            free(loan);
            return true;
        }
    return false;
}

static void **kept;
static size_t kept_count, kept_capacity, kept_bytes;

void *graph_memory(size_t bytes)
{
    void *memory = memory_alloc(bytes);
    if (!memory)
        return NULL;
    write_memory(memory, bytes, false);
    kept_bytes += bytes;
    kept = array_grow(kept, kept_count, &kept_capacity, sizeof *kept);
    return kept[kept_count++] = memory;
}

bool graph_keeps(const void *address)
{
    for (size_t i = 0; i < kept_count; ++i)
        if (kept[i] == address)
            return true;
    return false;
}

size_t graph_memory_kept(void)
{
    return kept_bytes;
}

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
    if (*address && kind == MEMORY_DEVICE) { // other kinds may be written by the host unseen
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

// Reports why an address cannot be freed, since few programs look at the error: once for cudaFree,
// and once for cudaFreeHost.
static void explain_free(const void *address, bool host, const struct allocation *inside)
{
    static bool explained[2];
    const struct allocation *nearest = NULL;
    char call[320] = "";
    struct callers here;

    if (explained[host])
        return;
    explained[host] = true;
    note_callers(&here);
    const struct host_line line = caller_line(&here);
    if (line.line)
        snprintf(call, sizeof call, ", %s:%d", line.file, line.line);
    memory_find((uint64_t)(uintptr_t)address, 1, &nearest);
    const char *name = host ? "cudaFreeHost" : "cudaFree";
    if (inside && (inside->kind == MEMORY_REGISTERED || (inside->kind == MEMORY_HOST) != host))
        complain_of_host(FAULT_FREE, false, &line, "%s%s: %p is %s: free it with %s", name, call,
                         address,
                         inside->kind == MEMORY_REGISTERED ? "the program's own, only registered"
                         : host                            ? "memory of the device"
                                                           : "pinned memory of the host",
                         inside->kind == MEMORY_REGISTERED ? "free, after cudaHostUnregister"
                         : host                            ? "cudaFree"
                                                           : "cudaFreeHost");
    else if (inside)
        complain_of_host(
            FAULT_FREE, false, &line, "%s%s: %p is byte %llu of an allocation, not where it begins",
            name, call, address, (unsigned long long)((uint64_t)(uintptr_t)address - inside->base));
    else if (nearest && nearest->base == (uint64_t)(uintptr_t)address)
        complain_of_host(FAULT_FREE, false, &line, "%s%s: %p has been freed already", name, call,
                         address);
    else
        complain_of_host(FAULT_FREE, false, &line, "%s%s: %p was not allocated by CUDA", name, call,
                         address);
}

static cudaError_t release(void *address, bool host)
{
    cudaError_t error = capture_forbids();

    if (error != cudaSuccess || !address)
        return error;
    const struct allocation *a = allocation_at(address);
    // Memory of a pool is freed at once, other memory when all work is done.
    if (!pool_returned(address))
        streams_wait();
    if (!a || a->kind == MEMORY_REGISTERED || (a->kind == MEMORY_HOST) != host ||
        !memory_free(address)) {
        explain_free(address, host, a);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

cudaError_t pool_memory(void **address, size_t bytes)
{
    return allocate(address, bytes, MEMORY_DEVICE);
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    API_WORK();
    streams_meet();
    return api_result(allocate(address, bytes, MEMORY_DEVICE));
}

cudaError_t cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
    API_WORK();
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
        return api_result(cudaErrorInvalidValue);
    streams_meet();
    return api_result(allocate(address, bytes, MEMORY_MANAGED));
}

// Pinned memory that was allocated with flags, the newest first. The flags have no effect; programs
// can ask for them.
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
    API_WORK();
    streams_meet();
    cudaError_t error = allocate(address, bytes, MEMORY_HOST);
    if (error == cudaSuccess && *address)
        remember_flags(*address, flags);
    return api_result(error);
}

// Host and device share one address space, so all pinned memory is mapped.
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
    API_WORK();
    if (!pitch || (height && width > SIZE_MAX / 2 / height))
        return api_result(cudaErrorInvalidValue);
    *pitch = (width + 511) / 512 * 512;
    streams_meet();
    return api_result(allocate(address, *pitch * height, MEMORY_DEVICE));
}

cudaError_t pool_free(void *address)
{
    return release(address, false);
}

cudaError_t cudaFree(void *address)
{
    API_WORK();
    if (graph_keeps(address))
        return api_result(cudaSuccess);
    if (pool_owns(address))
        order_free(address, false);
    return api_result(release(address, false));
}

cudaError_t cudaFreeHost(void *address)
{
    API_WORK();
    if (order_strict())
        order_free(address, true);
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
    streams_wait();
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

// Hints about where managed memory should be have no effect: there is only one place.
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

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *memory, struct cudaExtent box)
{
    if (!memory || (box.depth && box.height > SIZE_MAX / box.depth))
        return api_result(cudaErrorInvalidValue);
    *memory = (struct cudaPitchedPtr){.xsize = box.width, .ysize = box.height};
    return cudaMallocPitch(&memory->ptr, &memory->pitch, box.width, box.height * box.depth);
}
