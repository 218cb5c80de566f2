// A kernel that follows a null pointer: the next synchronisation returns
// cudaErrorIllegalAddress, and so does every later call.
#include "check.h"

struct Table {
    int *rows[4];
};

__global__ void sum(Table table, int n, int *out)
{
    int total = 0;
    for (int i = 0; i < n; ++i)
        total += table.rows[i][threadIdx.x];
    out[threadIdx.x] = total;
}

int main()
{
    Table table = {};
    int *out = zeros<int>(32);
    for (int i = 0; i < 3; ++i)
        table.rows[i] = to_device(std::vector<int>(32, i + 1));
    sum<<<1, 32>>>(table, 3, out);
    CHECK_KERNEL();
    printf("three rows: %d\n", to_host(out, 32)[31]);
    sum<<<1, 32>>>(table, 4, out); // the fourth row was never allocated
    cudaError_t error = cudaDeviceSynchronize();
    printf("synchronize: %s, %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
    int value;
    printf("copy: %s\n",
           cudaGetErrorName(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost)));
    void *more;
    printf("malloc: %s\n", cudaGetErrorName(cudaMalloc(&more, 16)));
    return failures;
}
