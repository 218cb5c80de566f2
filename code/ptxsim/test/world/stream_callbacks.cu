// Streams that wait for each other's events, host functions and callbacks in order, priorities,
// queries, and the per-thread default stream.
#include "check.h"

__global__ void step(int *value, int factor, int addend)
{
    *value = *value * factor + addend;
}

static void CUDART_CB host_function(void *data)
{
    int *at = (int *)data;
    at[1] = at[0]; // the preceding copy has filled at[0]
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *data)
{
    ((int *)data)[2] = status == cudaSuccess ? ((int *)data)[1] + 1000 : -1;
}

int main()
{
    int *value = zeros<int>(1), *host, least, greatest;
    CHECK(cudaMallocHost(&host, 4 * sizeof(int)));
    cudaStream_t a, b;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamCreate(&b));
    cudaEvent_t turn;
    CHECK(cudaEventCreateWithFlags(&turn, cudaEventDisableTiming));
    for (int round = 0; round < 10; ++round) {
        cudaStream_t now = round % 2 ? a : b, next = round % 2 ? b : a;
        step<<<1, 1, 0, now>>>(value, 2, round);
        CHECK(cudaEventRecord(turn, now));
        CHECK(cudaStreamWaitEvent(next, turn, 0));
    }
    CHECK(cudaMemcpyAsync(host, value, sizeof(int), cudaMemcpyDeviceToHost, b));
    CHECK(cudaLaunchHostFunc(b, host_function, host));
    CHECK(cudaStreamAddCallback(b, callback, host, 0));
    CHECK(cudaStreamSynchronize(b));
    int want = 0;
    for (int round = 0; round < 10; ++round)
        want = want * 2 + round;
    printf("%d %d %d\n", host[0], host[1], host[2]);
    expect("ten rounds", host[0] == want && host[1] == want && host[2] == want + 1000);
    printf("queries: %s %s\n", cudaGetErrorName(cudaStreamQuery(b)),
           cudaGetErrorName(cudaEventQuery(turn)));
    unsigned flags = 9;
    CHECK(cudaStreamGetFlags(a, &flags));
    printf("flags %u\n", flags);
    step<<<1, 1, 0, cudaStreamPerThread>>>(value, 0, 7);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    step<<<1, 1>>>(value, 3, 1);
    printf("then %d\n", to_host(value, 1)[0]);
    CHECK(cudaEventDestroy(turn));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    CHECK(cudaFreeHost(host));
    return failures;
}
