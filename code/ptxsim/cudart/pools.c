// pools.c: memory in the order of a stream, from pools. Work is done when it is submitted, so an
// allocation is there at once and gone at once; a pool keeps nothing back and counts what is out.
#include "runtime.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    size_t used, used_high;
    uint64_t threshold;
    int reuse[4]; // the policies, by their attribute
    bool gone;    // destroyed; freed when the last allocation from it is
    struct CUmemPoolHandle_st *next;
};

struct loan { // an allocation from a pool
    void *address;
    size_t bytes;
    struct CUmemPoolHandle_st *pool;
    struct loan *next;
};

static struct CUmemPoolHandle_st default_pool = {.reuse = {0, 1, 1, 1}};
static struct CUmemPoolHandle_st *pools = &default_pool, *current = &default_pool;
static struct loan *loans;

static struct CUmemPoolHandle_st *pool_find(cudaMemPool_t handle)
{
    for (struct CUmemPoolHandle_st *p = pools; p; p = p->next)
        if (p == handle && !p->gone)
            return p;
    return NULL;
}

static void pool_drop(struct CUmemPoolHandle_st *pool)
{
    for (struct CUmemPoolHandle_st **p = &pools; *p; p = &(*p)->next)
        if (*p == pool) {
            *p = pool->next;
            free(pool);
            return;
        }
}

static cudaError_t lend(void **address, size_t bytes, struct CUmemPoolHandle_st *pool)
{
    if (!pool || !address)
        return api_result(cudaErrorInvalidValue);
    struct loan *loan = malloc(sizeof *loan);
    cudaError_t error = loan ? cudaMalloc(address, bytes) : cudaErrorMemoryAllocation;
    if (error != cudaSuccess || bytes == 0) {
        free(loan);
        return api_result(error);
    }
    *loan = (struct loan){.address = *address, .bytes = bytes, .pool = pool, .next = loans};
    loans = loan;
    pool->used += bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    return cudaSuccess;
}

// Memory of a pool may be given back by cudaFree, too.
void pool_returned(const void *address)
{
    for (struct loan **l = &loans; *l; l = &(*l)->next)
        if ((*l)->address == address) {
            struct loan *loan = *l;
            *l = loan->next;
            loan->pool->used -= loan->bytes;
            if (loan->pool->gone && loan->pool->used == 0)
                pool_drop(loan->pool);
            free(loan);
            return;
        }
}

// ---- Memory of graphs ---------------------------------------------------------------------------

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

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value)
{
    API_ENTER();
    if (device != 0)
        return api_result(cudaErrorInvalidDevice);
    if (!value || attribute > cudaGraphMemAttrReservedMemHigh)
        return api_result(cudaErrorInvalidValue);
    *(uint64_t *)value = kept_bytes; // in use or not: it is kept
    return cudaSuccess;
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    API_ENTER();
    return api_result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

// ---- In the order of a stream -------------------------------------------------------------------

cudaError_t cudaMallocAsync(void **address, size_t bytes, cudaStream_t stream)
{
    API_ENTER();
    if (stream_captures(stream) && address && bytes) {
        struct task task = {.kind = TASK_ALLOC};
        *address = graph_memory(bytes);
        return api_result(*address ? stream_submit(stream, &task) : cudaErrorMemoryAllocation);
    }
    return lend(address, bytes, current);
}
ALSO(cudaMallocAsync, cudaMallocAsync_ptsz);

cudaError_t cudaMallocFromPoolAsync(void **address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    API_ENTER();
    (void)stream;
    return lend(address, bytes, pool_find(pool));
}
ALSO(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz);

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
    API_ENTER();
    struct task task = {.kind = TASK_FREE};
    if (stream_captures(stream) && graph_keeps(address))
        return api_result(stream_submit(stream, &task));
    return cudaFree(address);
}
ALSO(cudaFreeAsync, cudaFreeAsync_ptsz);

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    API_ENTER();
    if (!pool || device != 0)
        return api_result(pool ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *pool = &default_pool;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    API_ENTER();
    if (!pool || device != 0)
        return api_result(pool ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *pool = current;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    API_ENTER();
    if (device != 0 || !pool_find(pool))
        return api_result(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    current = pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
    API_ENTER();
    if (!pool || !props || props->allocType != cudaMemAllocationTypePinned)
        return api_result(cudaErrorInvalidValue);
    if (props->location.type != cudaMemLocationTypeDevice ||
        props->handleTypes != cudaMemHandleTypeNone) {
        complain("cudaMemPoolCreate: pools of other memory than the device's, or that other "
                 "processes share, are not supported");
        return api_result(cudaErrorNotSupported);
    }
    if (props->location.id != 0)
        return api_result(cudaErrorInvalidDevice);
    *pool = calloc(1, sizeof **pool);
    if (!*pool)
        return api_result(cudaErrorMemoryAllocation);
    **pool = (struct CUmemPoolHandle_st){.reuse = {0, 1, 1, 1}, .next = pools};
    pools = *pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle)
{
    API_ENTER();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || pool == &default_pool)
        return api_result(cudaErrorInvalidValue);
    if (current == pool)
        current = &default_pool;
    pool->gone = true;
    if (pool->used == 0)
        pool_drop(pool);
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    API_ENTER();
    (void)keep;
    return api_result(pool_find(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute,
                                    void *value)
{
    API_ENTER();
    const struct CUmemPoolHandle_st *pool = pool_find(handle);
    uint64_t *number = value;
    if (!pool || !value)
        return api_result(cudaErrorInvalidValue);
    switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        *(int *)value = pool->reuse[attribute];
        return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold: *number = pool->threshold; return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent: // nothing is kept back
    case cudaMemPoolAttrUsedMemCurrent: *number = pool->used; return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: *number = pool->used_high; return cudaSuccess;
    default: return api_result(cudaErrorInvalidValue);
    }
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute,
                                    void *value)
{
    API_ENTER();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || !value)
        return api_result(cudaErrorInvalidValue);
    switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        pool->reuse[attribute] = *(const int *)value != 0;
        return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
        pool->threshold = *(const uint64_t *)value;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: // may only be set back
        if (*(const uint64_t *)value != 0)
            return api_result(cudaErrorInvalidValue);
        pool->used_high = pool->used;
        return cudaSuccess;
    default: return api_result(cudaErrorInvalidValue);
    }
}
