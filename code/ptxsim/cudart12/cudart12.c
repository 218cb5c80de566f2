// cudart12.c: functions of libcudart.so.12 whose arguments differ from CUDA 13's. All others are
// passed on unchanged (forward). The only runtime is libcudart.so.13: this library has no state.
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <string.h>

// Declares NAME_13, the function NAME of libcudart.so.13.
#define NEW(name)                                                                                  \
    extern __typeof__(name) name##_13;                                                             \
    __asm__(".symver " #name "_13, " #name "@libcudart.so.13")
// Gives a function the name that CUDA 12 programs call. In C it has another name here, since
// cuda_runtime_api.h declares CUDA 13's function.
#define OLD(name) __asm__(#name) __attribute__((visibility("default")))

// ---- Properties ---------------------------------------------------------------------------------

struct properties {
#define SAME(type, name, dimension) type name dimension;
#define GONE(name, attribute) int name;
#define ZERO(name) int name;
#include "properties.def"
#undef SAME
#undef GONE
#undef ZERO
    int reserved[63];
};

NEW(cudaGetDeviceProperties);
NEW(cudaDeviceGetAttribute);

cudaError_t old_properties(struct properties *old, int device) OLD(cudaGetDeviceProperties_v2);
cudaError_t old_properties(struct properties *old, int device)
{
    struct cudaDeviceProp now;
    cudaError_t error = old ? cudaGetDeviceProperties_13(&now, device) : cudaErrorInvalidValue;

    if (error != cudaSuccess)
        return error;
    memset(old, 0, sizeof *old);
#define SAME(type, name, dimension) memcpy(&old->name, &now.name, sizeof old->name);
#define GONE(name, attribute) cudaDeviceGetAttribute_13(&old->name, attribute, device);
#define ZERO(name)
#include "properties.def"
#undef SAME
#undef GONE
#undef ZERO
    return cudaSuccess;
}

// ---- Places of memory ---------------------------------------------------------------------------

NEW(cudaMemAdvise);
NEW(cudaMemPrefetchAsync);

static struct cudaMemLocation location_of(int device)
{
    return (struct cudaMemLocation){
        .type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
        .id = device == cudaCpuDeviceId ? 0 : device,
    };
}

cudaError_t old_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
    OLD(cudaMemAdvise);
cudaError_t old_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
    return cudaMemAdvise_13(address, bytes, advice, location_of(device));
}

cudaError_t old_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream)
    OLD(cudaMemPrefetchAsync);
cudaError_t old_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream)
{
    return cudaMemPrefetchAsync_13(address, bytes, location_of(device), 0, stream);
}

// ---- Graphs: in CUDA 12, edges have no data -----------------------------------------------------

NEW(cudaGraphAddDependencies);
NEW(cudaGraphRemoveDependencies);
NEW(cudaGraphGetEdges);
NEW(cudaGraphNodeGetDependencies);
NEW(cudaGraphNodeGetDependentNodes);
NEW(cudaGraphAddNode);
NEW(cudaStreamGetCaptureInfo);
NEW(cudaStreamUpdateCaptureDependencies);

cudaError_t old_add(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                    size_t count) OLD(cudaGraphAddDependencies);
cudaError_t old_add(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                    size_t count)
{
    return cudaGraphAddDependencies_13(graph, from, to, NULL, count);
}

cudaError_t old_remove(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                       size_t count) OLD(cudaGraphRemoveDependencies);
cudaError_t old_remove(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                       size_t count)
{
    return cudaGraphRemoveDependencies_13(graph, from, to, NULL, count);
}

cudaError_t old_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
    OLD(cudaGraphGetEdges);
cudaError_t old_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
    return cudaGraphGetEdges_13(graph, from, to, NULL, count);
}

cudaError_t old_dependencies(cudaGraphNode_t node, cudaGraphNode_t *on, size_t *count)
    OLD(cudaGraphNodeGetDependencies);
cudaError_t old_dependencies(cudaGraphNode_t node, cudaGraphNode_t *on, size_t *count)
{
    return cudaGraphNodeGetDependencies_13(node, on, NULL, count);
}

cudaError_t old_dependents(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count)
    OLD(cudaGraphNodeGetDependentNodes);
cudaError_t old_dependents(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count)
{
    return cudaGraphNodeGetDependentNodes_13(node, nodes, NULL, count);
}

cudaError_t old_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *on,
                     size_t count, struct cudaGraphNodeParams *params) OLD(cudaGraphAddNode);
cudaError_t old_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *on,
                     size_t count, struct cudaGraphNodeParams *params)
{
    return cudaGraphAddNode_13(node, graph, on, NULL, count, params);
}

cudaError_t old_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **on,
                        size_t *count) OLD(cudaStreamGetCaptureInfo_v2);
cudaError_t old_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                        unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **on,
                        size_t *count)
{
    return cudaStreamGetCaptureInfo_13(stream, status, id, graph, on, NULL, count);
}

cudaError_t old_update(cudaStream_t stream, cudaGraphNode_t *on, size_t count, unsigned flags)
    OLD(cudaStreamUpdateCaptureDependencies);
cudaError_t old_update(cudaStream_t stream, cudaGraphNode_t *on, size_t count, unsigned flags)
{
    return cudaStreamUpdateCaptureDependencies_13(stream, on, NULL, count, flags);
}
