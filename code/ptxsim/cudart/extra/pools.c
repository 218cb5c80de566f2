// pools.c: memory from pools, allocated and freed in stream order. Work is done when it is
// submitted, so memory is allocated and freed at once. A pool keeps no memory in reserve; it counts
// what is in use.
#include "extra.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    struct pool_use use;
    uint64_t threshold;
    int reuse[4]; // policies for reuse, indexed by attribute
    bool gone;    // whether the program has destroyed it; pools_sweep frees it when it is unused
    struct CUmemPoolHandle_st *next;
};

static struct CUmemPoolHandle_st default_pool = {.reuse = {0, 1, 1, 1}};
static struct CUmemPoolHandle_st *pools = &default_pool, *current = &default_pool;

static struct CUmemPoolHandle_st *pool_find(cudaMemPool_t handle)
{
    for (struct CUmemPoolHandle_st *p = pools; p; p = p->next)
        if (p == handle && !p->gone)
            return p;
    return NULL;
}

// Frees destroyed pools that have no memory in use.
static void pools_sweep(void)
{
    for (struct CUmemPoolHandle_st **p = &pools; *p;) {
        struct CUmemPoolHandle_st *pool = *p;
        if (pool->gone && pool->use.bytes == 0) {
            *p = pool->next;
            free(pool);
        } else {
            p = &pool->next;
        }
    }
}

static cudaError_t lend(void **address, size_t bytes, struct CUmemPoolHandle_st *pool,
                        cudaStream_t stream)
{
    if (!pool || !address)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = pool_memory(address, bytes);
    if (error == cudaSuccess && bytes && !pool_lends(&pool->use, *address, bytes)) {
        pool_free(*address);
        error = cudaErrorMemoryAllocation;
    }
    if (error == cudaSuccess && bytes && stream_next(stream))
        order_allocation(*address, false);
    return api_result(error);
}

// ---- Memory of graphs ---------------------------------------------------------------------------

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute,
                                           void *value)
{
    API_ENTER();
    if (device != 0)
        return api_result(cudaErrorInvalidDevice);
    if (!value || attribute > cudaGraphMemAttrReservedMemHigh)
        return api_result(cudaErrorInvalidValue);
    *(uint64_t *)value = graph_memory_kept(); // all memory of graphs is kept, so all of it counts
    return cudaSuccess;
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    API_ENTER();
    return api_result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

// ---- Memory in the order of a stream ------------------------------------------------------------

cudaError_t cudaMallocAsync(void **address, size_t bytes, cudaStream_t stream)
{
    API_WORK();
    if (stream_captures(stream) && address && bytes) {
        struct task task = {.kind = TASK_ALLOC};
        *address = graph_memory(bytes);
        return api_result(*address ? stream_submit(stream, &task) : cudaErrorMemoryAllocation);
    }
    return lend(address, bytes, current, stream);
}
ALSO(cudaMallocAsync, cudaMallocAsync_ptsz);

cudaError_t cudaMallocFromPoolAsync(void **address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    API_WORK();
    return lend(address, bytes, pool_find(pool), stream);
}
ALSO(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz);

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
    API_WORK();
    struct task task = {.kind = TASK_FREE};
    if (stream_captures(stream) && graph_keeps(address))
        return api_result(stream_submit(stream, &task));
    if (!pool_owns(address)) // only memory of a pool is freed in stream order
        return cudaFree(address);
    if (stream_next(stream))
        order_allocation(address, true);
    return api_result(pool_free(address));
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
    pools_sweep();
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
    pools_sweep();
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
    case cudaMemPoolAttrReservedMemCurrent: // no memory is kept in reserve
    case cudaMemPoolAttrUsedMemCurrent: *number = pool->use.bytes; return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: *number = pool->use.most; return cudaSuccess;
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
    case cudaMemPoolAttrUsedMemHigh: // a program may only reset it to 0
        if (*(const uint64_t *)value != 0)
            return api_result(cudaErrorInvalidValue);
        pool->use.most = pool->use.bytes;
        return cudaSuccess;
    default: return api_result(cudaErrorInvalidValue);
    }
}
