// nodes.c: graphs that are built, inspected and changed node by node.
#include "extra.h"

#include <stdlib.h>

// ---- Nodes --------------------------------------------------------------------------------------

static bool holds(const struct CUgraph_st *graph, const struct CUgraphNode_st *node)
{
    for (size_t i = 0; i < graph->count; ++i)
        if (graph->nodes[i] == node)
            return true;
    return false;
}

static cudaError_t depend(struct CUgraphNode_st *node, const cudaGraphNode_t *on, size_t count)
{
    if (count == 0)
        return cudaSuccess;
    if (!on)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i)
        if (!holds(node->graph, on[i]) || on[i] == node)
            return cudaErrorInvalidValue;
    return graph_depend(node, on, count);
}

// Adds a node for a task. error: the result of the task's check; unless it is cudaSuccess, nothing
// is added.
static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, struct task *task, cudaError_t error)
{
    if (error != cudaSuccess)
        return error;
    if (!node || !graph) {
        task_free(task);
        return cudaErrorInvalidValue;
    }
    struct CUgraphNode_st *added = graph_node(graph, task);
    if (!added)
        return cudaErrorMemoryAllocation;
    error = depend(added, after, count);
    if (error != cudaSuccess) {
        graph_remove_last(graph);
        return error;
    }
    *node = added;
    return cudaSuccess;
}

// ---- Building -----------------------------------------------------------------------------------

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    API_ENTER();
    if (!graph || flags != 0)
        return api_result(cudaErrorInvalidValue);
    *graph = graph_new();
    return api_result(*graph ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
    API_ENTER();
    return api_result(clone && graph ? graph_copy(graph, clone) : cudaErrorInvalidValue);
}

static cudaError_t kernel_task(const struct cudaKernelNodeParams *p, struct task *task)
{
    *task = (struct task){.kind = TASK_KERNEL};
    if (!p || p->extra)
        return cudaErrorInvalidValue;
    return kernel_order(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes,
                        &task->launch);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaKernelNodeParams *params)
{
    API_ENTER();
    struct task task;
    cudaError_t error = kernel_task(params, &task);
    return api_result(add_node(node, graph, after, count, &task, error));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count, void *to,
                                     const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    API_ENTER();
    struct task task;
    cudaError_t error = copy_task(to, bytes, from, bytes, bytes, 1, kind, &task);
    return api_result(add_node(node, graph, after, count, &task, error));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemcpy3DParms *params)
{
    API_ENTER();
    struct task task;
    cudaError_t error = copy_3d_task(params, &task);
    return api_result(add_node(node, graph, after, count, &task, error));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t count,
                                   const struct cudaMemsetParams *params)
{
    API_ENTER();
    struct task task;
    cudaError_t error = params
                            ? fill_task(params->dst, params->pitch, params->value,
                                        params->elementSize, params->width, params->height, &task)
                            : cudaErrorInvalidValue;
    return api_result(add_node(node, graph, after, count, &task, error));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                 const cudaGraphNode_t *after, size_t count,
                                 const struct cudaHostNodeParams *params)
{
    API_ENTER();
    struct task task = {.kind = TASK_HOST};
    if (!params || !params->fn)
        return api_result(cudaErrorInvalidValue);
    task.host.function = params->fn;
    task.host.data = params->userData;
    return api_result(add_node(node, graph, after, count, &task, cudaSuccess));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *after, size_t count)
{
    API_ENTER();
    struct task task = {.kind = TASK_NOTHING};
    return api_result(add_node(node, graph, after, count, &task, cudaSuccess));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t count,
                                       cudaGraph_t child)
{
    API_ENTER();
    struct task task = {.kind = TASK_GRAPH};
    cudaError_t error = child ? graph_copy(child, &task.graph) : cudaErrorInvalidValue;
    return api_result(add_node(node, graph, after, count, &task, error));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *after, size_t count,
                                     struct cudaMemAllocNodeParams *params)
{
    API_ENTER();
    struct task task = {.kind = TASK_ALLOC};
    if (!params || params->bytesize == 0)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = add_node(node, graph, after, count, &task, cudaSuccess);
    if (error == cudaSuccess && !(params->dptr = graph_memory(params->bytesize))) {
        graph_remove_last(graph);
        error = cudaErrorMemoryAllocation;
    }
    return api_result(error);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *after, size_t count, void *address)
{
    API_ENTER();
    struct task task = {.kind = TASK_FREE};
    return api_result(add_node(node, graph, after, count, &task,
                               graph_keeps(address) ? cudaSuccess : cudaErrorInvalidValue));
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                             unsigned value, unsigned flags)
{
    API_ENTER();
    struct condition *condition = NULL;
    if (!handle || !graph || flags > cudaGraphCondAssignDefault)
        return api_result(cudaErrorInvalidValue);
    condition = memory_alloc(sizeof *condition); // like the handle, it lives until the program ends
    if (!condition)
        return api_result(cudaErrorMemoryAllocation);
    *condition = (struct condition){value, value, flags == cudaGraphCondAssignDefault};
    *handle = (cudaGraphConditionalHandle)(uintptr_t)condition;
    return cudaSuccess;
}

// Makes the task of a conditional node. The graphs of its cases are empty, for the program to fill
// in; the node frees them.
static cudaError_t conditional_task(struct cudaConditionalNodeParams *params, struct task *task)
{
    const struct condition *value = (const struct condition *)(uintptr_t)params->handle;
    unsigned most = params->type == cudaGraphCondTypeWhile ? 1
                    : params->type == cudaGraphCondTypeIf  ? 2
                                                           : UINT32_MAX;
    *task = (struct task){.kind = TASK_CONDITIONAL};
    if (!value || !memory_find((uintptr_t)value, sizeof *value, NULL) || params->size == 0 ||
        params->size > most || params->type > cudaGraphCondTypeSwitch)
        return cudaErrorInvalidValue;
    task->conditional.type = params->type;
    task->conditional.value = value;
    task->conditional.body = calloc(params->size, sizeof(cudaGraph_t));
    for (unsigned i = 0; task->conditional.body && i < params->size; ++i, ++task->conditional.count)
        if (!(task->conditional.body[i] = graph_new()))
            break;
    if (task->conditional.body && task->conditional.count == params->size)
        return cudaSuccess;
    task_free(task);
    return cudaErrorMemoryAllocation;
}

// Adds a node of any kind that the simulator supports.
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *edges, size_t count,
                             struct cudaGraphNodeParams *params)
{
    API_ENTER();
    struct task task;
    cudaError_t error;
    (void)edges;
    if (!params)
        return api_result(cudaErrorInvalidValue);
    switch (params->type) {
    case cudaGraphNodeTypeKernel: {
        const struct cudaKernelNodeParamsV2 *k = &params->kernel;
        struct cudaKernelNodeParams same = {.func = k->func,
                                            .gridDim = k->gridDim,
                                            .blockDim = k->blockDim,
                                            .sharedMemBytes = k->sharedMemBytes,
                                            .kernelParams = k->kernelParams,
                                            .extra = k->extra};
        return cudaGraphAddKernelNode(node, graph, after, count, &same);
    }
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphAddMemcpyNode(node, graph, after, count, &params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        const struct cudaMemsetParamsV2 *m = &params->memset;
        struct cudaMemsetParams same = {.dst = m->dst,
                                        .pitch = m->pitch,
                                        .value = m->value,
                                        .elementSize = m->elementSize,
                                        .width = m->width,
                                        .height = m->height};
        return cudaGraphAddMemsetNode(node, graph, after, count, &same);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams same = {.fn = params->host.fn, .userData = params->host.userData};
        return cudaGraphAddHostNode(node, graph, after, count, &same);
    }
    case cudaGraphNodeTypeGraph:
        return cudaGraphAddChildGraphNode(node, graph, after, count, params->graph.graph);
    case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, graph, after, count);
    case cudaGraphNodeTypeMemFree:
        return cudaGraphAddMemFreeNode(node, graph, after, count, params->free.dptr);
    case cudaGraphNodeTypeConditional:
        error = conditional_task(&params->conditional, &task);
        error = add_node(node, graph, after, count, &task, error);
        if (error == cudaSuccess)
            params->conditional.phGraph_out = (*node)->task.conditional.body;
        return api_result(error);
    default:
        complain("cudaGraphAddNode: nodes of type %d are not supported", (int)params->type);
        return api_result(cudaErrorNotSupported);
    }
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                     size_t count)
{
    API_ENTER();
    cudaError_t error = cudaSuccess;
    (void)edges;
    if (!graph || (count && (!from || !to)))
        return api_result(cudaErrorInvalidValue);
    for (size_t i = 0; i < count && error == cudaSuccess; ++i)
        error = holds(graph, to[i]) ? depend(to[i], &from[i], 1) : cudaErrorInvalidValue;
    return api_result(error);
}

// Lists nodes in the order in which they were added; `nodes` NULL: returns only their number.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    API_ENTER();
    if (!graph || !count)
        return api_result(cudaErrorInvalidValue);
    for (size_t i = 0; nodes && i < *count; ++i)
        nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
    if (!nodes || *count > graph->count)
        *count = graph->count;
    return cudaSuccess;
}

// Lists pairs of nodes, where the second depends on the first; `from` and `to` NULL: returns only
// their number.
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *data, size_t *count)
{
    API_ENTER();
    if (!graph || !count || !from != !to)
        return api_result(cudaErrorInvalidValue);
    size_t edges = 0;
    for (size_t i = 0; i < graph->count; ++i)
        for (size_t k = 0; k < graph->nodes[i]->after_count; ++k, ++edges) {
            if (!from || edges >= *count)
                continue;
            from[edges] = graph->nodes[i]->after[k];
            to[edges] = graph->nodes[i];
            if (data)
                data[edges] = (cudaGraphEdgeData){0};
        }
    for (size_t i = edges; from && i < *count; ++i)
        from[i] = to[i] = NULL;
    if (!from || *count > edges)
        *count = edges;
    return cudaSuccess;
}

// Lists nodes without dependencies; `nodes` NULL: returns only their number.
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    API_ENTER();
    if (!graph || !count)
        return api_result(cudaErrorInvalidValue);
    size_t roots = 0;
    for (size_t i = 0; i < graph->count; ++i) {
        if (graph->nodes[i]->after_count)
            continue;
        if (nodes && roots < *count)
            nodes[roots] = graph->nodes[i];
        roots++;
    }
    for (size_t i = roots; nodes && i < *count; ++i)
        nodes[i] = NULL;
    if (!nodes || *count > roots)
        *count = roots;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    static const enum cudaGraphNodeType types[] = {
        [TASK_KERNEL] = cudaGraphNodeTypeKernel,
        [TASK_COPY] = cudaGraphNodeTypeMemcpy,
        [TASK_FILL] = cudaGraphNodeTypeMemset,
        [TASK_HOST] = cudaGraphNodeTypeHost,
        [TASK_RECORD] = cudaGraphNodeTypeEventRecord,
        [TASK_NOTHING] = cudaGraphNodeTypeEmpty,
        [TASK_GRAPH] = cudaGraphNodeTypeGraph,
        [TASK_CONDITIONAL] = cudaGraphNodeTypeConditional,
        [TASK_ALLOC] = cudaGraphNodeTypeMemAlloc,
        [TASK_FREE] = cudaGraphNodeTypeMemFree,
    };

    API_ENTER();
    if (!node || !type)
        return api_result(cudaErrorInvalidValue);
    *type = types[node->task.kind];
    return cudaSuccess;
}

// ---- Changes ------------------------------------------------------------------------------------

// Gives a kernel node another launch: kernel, grid, block, arguments.
static cudaError_t set_kernel(struct CUgraphNode_st *node,
                              const struct cudaKernelNodeParams *params)
{
    struct task task;
    if (!node || node->task.kind != TASK_KERNEL)
        return cudaErrorInvalidValue;
    cudaError_t error = kernel_task(params, &task);
    if (error != cudaSuccess)
        return error;
    task_free(&node->task);
    node->task = task;
    free(node->arguments); // the arguments belong to the earlier task
    node->arguments = NULL;
    return cudaSuccess;
}

// The arguments are valid until they are changed or the node is destroyed.
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
    API_ENTER();
    if (!node || !params || node->task.kind != TASK_KERNEL)
        return api_result(cudaErrorInvalidValue);
    const struct launch_order *order = &node->task.launch;
    const struct kernel_info *info = kernel_info(order->kernel->kernel);
    if (!node->arguments)
        node->arguments = calloc((size_t)info->params + 1, sizeof *node->arguments);
    if (!node->arguments)
        return api_result(cudaErrorMemoryAllocation);
    for (int i = 0; i < info->params; ++i)
        node->arguments[i] = (char *)order->params + info->param_offsets[i];
    *params = (struct cudaKernelNodeParams){
        .func = (void *)(uintptr_t)order->kernel->host,
        .gridDim = {order->grid[0], order->grid[1], order->grid[2]},
        .blockDim = {order->block[0], order->block[1], order->block[2]},
        .sharedMemBytes = (unsigned)order->dynamic_shared_bytes,
        .kernelParams = node->arguments,
    };
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *params)
{
    API_ENTER();
    return api_result(set_kernel(node, params));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *params)
{
    API_ENTER();
    struct CUgraphNode_st *mine = NULL;
    for (size_t i = 0; exec && i < exec->graph->count; ++i)
        if (exec->graph->nodes[i]->source == node)
            mine = exec->graph->nodes[i];
    return api_result(set_kernel(mine, params));
}

// Finds a difference between two graphs that an update cannot remove; *where is the node of `to`
// that differs.
static enum cudaGraphExecUpdateResult
compare(const struct CUgraph_st *from, const struct CUgraph_st *to, struct CUgraphNode_st **where)
{
    if (from->count != to->count)
        return cudaGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; i < to->count; ++i) {
        const struct CUgraphNode_st *a = from->nodes[i];
        struct CUgraphNode_st *b = *where = to->nodes[i];
        if (a->after_count != b->after_count)
            return cudaGraphExecUpdateErrorTopologyChanged;
        for (size_t k = 0; k < a->after_count; ++k)
            if (a->after[k]->index != b->after[k]->index)
                return cudaGraphExecUpdateErrorTopologyChanged;
        if (a->task.kind != b->task.kind)
            return cudaGraphExecUpdateErrorNodeTypeChanged;
        enum cudaGraphExecUpdateResult inner = cudaGraphExecUpdateSuccess;
        if (a->task.kind == TASK_GRAPH)
            inner = compare(a->task.graph, b->task.graph, where);
        if (inner != cudaGraphExecUpdateSuccess)
            return inner;
    }
    *where = NULL;
    return cudaGraphExecUpdateSuccess;
}

// Takes over the tasks of a graph of the same shape: each node then stands for the task of the
// other graph's node with the same index.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *info)
{
    API_ENTER();
    struct CUgraph_st *copy;
    struct CUgraphNode_st *where = NULL;
    if (!exec || !graph || !info)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = graph_copy(graph, &copy);
    *info = (cudaGraphExecUpdateResultInfo){.result = cudaGraphExecUpdateError};
    if (error != cudaSuccess)
        return api_result(error);
    info->result = compare(exec->graph, copy, &where);
    if (info->result != cudaGraphExecUpdateSuccess) {
        info->errorNode = where ? (struct CUgraphNode_st *)(uintptr_t)where->source : NULL;
        graph_free(copy);
        return api_result(cudaErrorGraphExecUpdateFailure);
    }
    for (size_t i = 0; i < copy->count; ++i) {
        struct task task = exec->graph->nodes[i]->task;
        exec->graph->nodes[i]->task = copy->nodes[i]->task;
        copy->nodes[i]->task = task; // the old task is freed with the copy
    }
    graph_free(copy);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    API_ENTER();
    (void)stream;
    return api_result(exec ? cudaSuccess : cudaErrorInvalidValue);
}
ALSO(cudaGraphUpload, cudaGraphUpload_ptsz);
