// Conditional nodes of a graph: a WHILE node whose body counts down, set from a kernel, and an IF
// node.
// build: -rdc=true
#include "check.h"

__global__ void body(int *counter, int *sum, cudaGraphConditionalHandle handle)
{
    *sum += *counter;
    --*counter;
    cudaGraphSetConditional(handle, *counter > 0);
}

__global__ void decide(const int *sum, int limit, cudaGraphConditionalHandle handle)
{
    cudaGraphSetConditional(handle, *sum > limit);
}

__global__ void mark(int *flag)
{
    *flag += 1;
}

static cudaGraphNode_t conditional(cudaGraph_t graph, const cudaGraphNode_t *after,
                                   cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, cudaGraph_t *inside)
{
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = 1;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &parameters));
    *inside = parameters.conditional.phGraph_out[0];
    return node;
}

static cudaGraphNode_t kernel(cudaGraph_t graph, const cudaGraphNode_t *after, void *function,
                              void **arguments)
{
    cudaKernelNodeParams parameters = {};
    parameters.func = function;
    parameters.gridDim = parameters.blockDim = dim3(1);
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &parameters));
    return node;
}

int main()
{
    int *counter = to_device(std::vector<int>{10}), *sum = zeros<int>(1), *flag = zeros<int>(1);
    cudaGraph_t graph, inside;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle loop, branch;
    CHECK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&branch, graph, 0, cudaGraphCondAssignDefault));
    cudaGraphNode_t last = conditional(graph, nullptr, loop, cudaGraphCondTypeWhile, &inside);
    void *of_body[] = {&counter, &sum, &loop};
    kernel(inside, nullptr, (void *)body, of_body);
    int limit = 54;
    void *of_decide[] = {&sum, &limit, &branch}, *of_mark[] = {&flag};
    last = kernel(graph, &last, (void *)decide, of_decide);
    conditional(graph, &last, branch, cudaGraphCondTypeIf, &inside);
    kernel(inside, nullptr, (void *)mark, of_mark);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaStreamSynchronize(0));
    printf("sum %d, counter %d, flag %d\n", to_host(sum, 1)[0], to_host(counter, 1)[0],
           to_host(flag, 1)[0]);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return failures;
}
