// A graph captured from two streams that part and meet, launched many times; its nodes are counted.
#include "check.h"

__global__ void scale(int *x, int n, int factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = x[i] * factor % 10007;
}

__global__ void add(int *to, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] += from[i];
}

int main()
{
    const int n = 600;
    std::vector<int> a(n), b(n), got(n);
    for (int i = 0; i < n; ++i) {
        a[i] = i;
        b[i] = 2 * i + 1;
    }
    int *x = to_device(a), *y = to_device(b), *pinned;
    CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
    cudaStream_t first, second;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));

    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(fork, first));
    CHECK(cudaStreamWaitEvent(second, fork, 0));
    scale<<<5, 128, 0, first>>>(x, n, 3);
    scale<<<5, 128, 0, second>>>(y, n, 5);
    CHECK(cudaEventRecord(join, second));
    CHECK(cudaStreamWaitEvent(first, join, 0));
    add<<<5, 128, 0, first>>>(x, y, n);
    CHECK(cudaMemcpyAsync(pinned, x, n * sizeof(int), cudaMemcpyDeviceToHost, first));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(second, &status));
    printf("second stream captures too: %d\n", status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(first, &graph));
    size_t nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    printf("%zu nodes, %zu edges\n", nodes, edges);
    expect("nothing has run yet", to_host(x, n) == a);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 10; ++round) {
        CHECK(cudaGraphLaunch(exec, first));
        for (int i = 0; i < n; ++i) {
            b[i] = b[i] * 5 % 10007;
            a[i] = a[i] * 3 % 10007 + b[i];
        }
    }
    CHECK(cudaStreamSynchronize(first));
    got.assign(pinned, pinned + n);
    expect("ten launches", got == a);
    printf("%d %d\n", a[1], a[n - 1]);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFreeHost(pinned));
    return failures;
}
