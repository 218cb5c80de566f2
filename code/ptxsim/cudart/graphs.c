// graphs.c: graphs that were captured from streams (streams.c): copied, instantiated, launched.
// extra/nodes.c has functions for graphs that are built node by node.
//
// A launch runs the nodes one after another, in the order in which they were added or captured,
// except that each node comes after all nodes that it depends on.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

// ---- Copies -------------------------------------------------------------------------------------

static cudaError_t bodies_copy(const struct task *task, struct task *copy)
{
    cudaError_t error = cudaSuccess;
    copy->conditional.count = 0;
    copy->conditional.body = calloc(task->conditional.count, sizeof(cudaGraph_t));
    if (!copy->conditional.body)
        return cudaErrorMemoryAllocation;
    for (unsigned i = 0; i < task->conditional.count && error == cudaSuccess; ++i) {
        error = graph_copy(task->conditional.body[i], &copy->conditional.body[i]);
        copy->conditional.count += error == cudaSuccess;
    }
    if (error != cudaSuccess)
        task_free(copy);
    return error;
}

static cudaError_t task_copy(const struct task *task, struct task *copy)
{
    *copy = *task;
    if (task->kind == TASK_GRAPH)
        return graph_copy(task->graph, &copy->graph);
    if (task->kind == TASK_CONDITIONAL)
        return bodies_copy(task, copy);
    if (task->kind == TASK_KERNEL) {
        size_t bytes = kernel_info(task->launch.kernel->kernel)->param_bytes + 1;
        copy->launch.params = malloc(bytes);
        if (!copy->launch.params)
            return cudaErrorMemoryAllocation;
        memcpy(copy->launch.params, task->launch.params, bytes);
    }
    return cudaSuccess;
}

// Whether a node has not been copied yet, but all nodes that it depends on have.
static bool is_next(const struct CUgraphNode_st *node)
{
    bool ready = !node->copy;
    for (size_t i = 0; i < node->after_count; ++i)
        ready &= node->after[i]->copy != NULL;
    return ready;
}

static cudaError_t node_copy(struct CUgraphNode_st *node, struct CUgraph_st *to)
{
    struct task task;
    cudaError_t error = task_copy(&node->task, &task);
    if (error != cudaSuccess)
        return error;
    node->copy = graph_node(to, &task);
    if (!node->copy)
        return cudaErrorMemoryAllocation;
    node->copy->source = node;
    for (size_t i = 0; i < node->after_count && error == cudaSuccess; ++i)
        error = graph_depend(node->copy, &node->after[i]->copy, 1);
    return error;
}

cudaError_t graph_copy(const struct CUgraph_st *graph, struct CUgraph_st **copy)
{
    cudaError_t error = cudaSuccess;

    *copy = graph_new();
    if (!*copy)
        return cudaErrorMemoryAllocation;
    for (size_t i = 0; i < graph->count; ++i)
        graph->nodes[i]->copy = NULL;
    while ((*copy)->count < graph->count && error == cudaSuccess) {
        struct CUgraphNode_st *next = NULL;
        for (size_t i = 0; i < graph->count && !next; ++i)
            next = is_next(graph->nodes[i]) ? graph->nodes[i] : NULL;
        error = next ? node_copy(next, *copy) : cudaErrorInvalidValue;
    }
    if (error != cudaSuccess) {
        graph_free(*copy);
        *copy = NULL;
    }
    return error;
}

// ---- Launching ----------------------------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    API_ENTER();
    (void)flags;
    if (!exec || !graph)
        return api_result(cudaErrorInvalidValue);
    *exec = calloc(1, sizeof **exec);
    cudaError_t error = *exec ? graph_copy(graph, &(*exec)->graph) : cudaErrorMemoryAllocation;
    if (error != cudaSuccess) {
        free(*exec);
        *exec = NULL;
    }
    return api_result(error);
}
ALSO(cudaGraphInstantiate, cudaGraphInstantiateWithFlags);

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    API_ENTER();
    if (!graph)
        return api_result(cudaErrorInvalidValue);
    graph_free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    API_ENTER();
    if (!exec)
        return api_result(cudaErrorInvalidValue);
    graph_free(exec->graph);
    free(exec);
    return cudaSuccess;
}

// Sets the conditions of a graph, and of the graphs inside it, to their initial values.
static void begin_conditions(const struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->count; ++i) {
        const struct task *task = &graph->nodes[i]->task;
        if (task->kind == TASK_GRAPH)
            begin_conditions(task->graph);
        if (task->kind != TASK_CONDITIONAL)
            continue;
        struct condition *value = (struct condition *)(uintptr_t)task->conditional.value;
        if (value->assign)
            value->now = value->first;
        for (unsigned k = 0; k < task->conditional.count; ++k)
            begin_conditions(task->conditional.body[k]);
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    API_ENTER();
    if (!exec)
        return api_result(cudaErrorInvalidValue);
    cudaError_t error = stream_now(stream);
    if (error == cudaSuccess)
        begin_conditions(exec->graph);
    return api_result(error == cudaSuccess ? graph_run(exec->graph) : error);
}
ALSO(cudaGraphLaunch, cudaGraphLaunch_ptsz);
