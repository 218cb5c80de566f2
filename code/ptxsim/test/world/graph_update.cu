// cudaGraphExecUpdate: an executable graph takes over the parameters of a new capture if both
// graphs have the same shape; otherwise the call says what differs.
#include "check.h"

__global__ void multiply(int *x, int factor)
{
    x[threadIdx.x] *= factor;
}

__global__ void add(int *x, int value)
{
    x[threadIdx.x] += value;
}

static cudaGraph_t capture(cudaStream_t stream, int *x, int factor, int value, int repeats)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    multiply<<<1, 32, 0, stream>>>(x, factor);
    for (int i = 0; i < repeats; ++i)
        add<<<1, 32, 0, stream>>>(x, value);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

int main()
{
    int *x = zeros<int>(32);
    cudaStream_t stream;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamCreate(&stream));
    int want = 0;
    for (int round = 1; round <= 5; ++round) {
        cudaGraph_t graph = capture(stream, x, round, round + 10, 2);
        cudaGraphExecUpdateResultInfo info;
        if (!exec)
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
        else
            CHECK(cudaGraphExecUpdate(exec, graph, &info));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        want = want * round + 2 * (round + 10);
        printf("round %d: %d\n", round, to_host(x, 1)[0]);
    }
    expect("five rounds", to_host(x, 32)[31] == want);
    cudaGraph_t longer = capture(stream, x, 1, 1, 3);
    cudaGraphExecUpdateResultInfo info;
    cudaError_t error = cudaGraphExecUpdate(exec, longer, &info);
    printf("another shape: %s, %s\n", cudaGetErrorName(error),
           info.result == cudaGraphExecUpdateErrorTopologyChanged ? "topology" : "other");
    (void)cudaGetLastError();
    CHECK(cudaGraphDestroy(longer));
    CHECK(cudaGraphExecDestroy(exec));
    return failures;
}
