// A graph made node by node: memset, kernels, copies, a host function, a child graph, an empty
// node; the parameters of one kernel are changed in the executable graph.
#include "check.h"

__global__ void add(int *x, int n, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += value + i;
}

static int calls;

static void CUDART_CB count(void *by)
{
    calls += *(int *)by;
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, const cudaGraphNode_t *after,
                                   void **arguments)
{
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)add;
    kernel.gridDim = dim3(2);
    kernel.blockDim = dim3(64);
    kernel.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &kernel));
    return node;
}

int main()
{
    int n = 100, ten = 10, thousand = 1000, three = 3;
    int *x = zeros<int>(n), *y = zeros<int>(n);
    std::vector<int> got(n);
    cudaGraph_t graph, child;
    cudaGraphNode_t clear, nested, both, host, copy, back;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));

    cudaMemsetParams set = {};
    set.dst = x;
    set.elementSize = 4;
    set.value = 7;
    set.width = n;
    set.height = 1;
    CHECK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &set));
    void *first[] = {&x, &n, &ten}, *inner[] = {&y, &n, &thousand};
    cudaGraphNode_t adds = kernel_node(graph, &clear, first);
    kernel_node(child, nullptr, inner);
    CHECK(cudaGraphAddChildGraphNode(&nested, graph, nullptr, 0, child));
    cudaGraphNode_t parents[] = {adds, nested};
    CHECK(cudaGraphAddEmptyNode(&both, graph, parents, 2));
    cudaHostNodeParams function = {count, &three};
    CHECK(cudaGraphAddHostNode(&host, graph, &both, 1, &function));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &host, 1, y, x, n / 2 * sizeof(int),
                                   cudaMemcpyDeviceToDevice));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &copy, 1, got.data(), y, n * sizeof(int),
                                   cudaMemcpyDeviceToHost));
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nested, &type));
    printf("child graph: %d\n", type == cudaGraphNodeTypeGraph);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 2; ++round) {
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaStreamSynchronize(0));
        printf("round %d: %d %d %d %d, %d calls\n", round, got[0], got[49], got[50], got[99],
               calls);
    }
    int more = 500;
    void *changed[] = {&x, &n, &more};
    cudaKernelNodeParams kernel;
    CHECK(cudaGraphKernelNodeGetParams(adds, &kernel));
    kernel.kernelParams = changed;
    kernel.gridDim = dim3(1);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, adds, &kernel));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaStreamSynchronize(0));
    printf("changed: %d %d %d\n", got[0], got[49], got[99]);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaGraphDestroy(graph));
    return failures;
}
