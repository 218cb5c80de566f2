// Launches that no GPU accepts, and what the program is told: a block of 2048 threads, 64 KB of
// shared memory without asking, a grid 70000 high, an empty grid; none of them runs, none of
// them spoils what comes after.
#include "check.h"

__global__ void count(int *x)
{
    extern __shared__ int scratch[];
    scratch[0] = 1;
    atomicAdd(x, 1);
}

static void refused(const char *what)
{
    cudaError_t peeked = cudaPeekAtLastError(), error = cudaGetLastError();
    printf("%s: %s%s, then %s\n", what, cudaGetErrorName(error), peeked == error ? "" : " (peeked)",
           cudaGetErrorName(cudaGetLastError()));
}

int main()
{
    int *x = zeros<int>(1);
    count<<<1, 2048, 4>>>(x);
    refused("2048 threads");
    count<<<1, dim3(32, 32, 2), 4>>>(x);
    refused("32 x 32 x 2 threads");
    count<<<1, dim3(1, 1, 65), 4>>>(x);
    refused("65 deep");
    count<<<1, 32, 64 << 10>>>(x);
    refused("64 KB");
    count<<<1, 32, 1 << 20>>>(x);
    refused("1 MB");
    count<<<dim3(1, 70000), 32, 4>>>(x);
    refused("grid 70000 high");
    count<<<dim3(1, 1, 65536), 32, 4>>>(x);
    refused("grid 65536 deep");
    count<<<0, 32, 4>>>(x);
    refused("no blocks");
    count<<<1, 0, 4>>>(x);
    refused("no threads");
    printf("synchronize: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("nothing ran: %d\n", to_host(x, 1)[0]);

    void *arguments[] = {&x};
    printf("returned: %s\n",
           cudaGetErrorName(cudaLaunchKernel((void *)count, 1, 4096, arguments, 4, 0)));
    refused("and kept");
    printf("no kernel: %s\n",
           cudaGetErrorName(cudaLaunchKernel((void *)refused, 1, 1, arguments, 0, 0)));
    refused("and kept");
    count<<<dim3(1, 65535), 1, 4>>>(x);
    CHECK_KERNEL();
    printf("65535 blocks: %d\n", to_host(x, 1)[0]);
    return failures;
}
