// Device printf: every conversion, widths and precisions, strings, no arguments, many arguments,
// from several threads in order, and its return value.
#include "check.h"

__device__ const char *word(int i)
{
    return i == 0 ? "zero" : i == 1 ? "one" : "many";
}

__global__ void kinds()
{
    printf("plain\n");
    printf("%d %i %u %x %X %o %c %%\n", -42, 42, 42u, 255, 255, 8, 'z');
    printf("[%5d] [%-5d] [%05d] [%+d] [% d] [%#x]\n", 42, 42, 42, 42, 42, 255);
    printf("[%8.3f] [%-9.2f] [%e] [%g] [%g] [%G]\n", 3.14159, 2.5f, 12345.678, 0.0001, 1e10, 1e-10);
    printf("[%*d] [%.*f]\n", 6, 42, 2, 2.71828);
    printf("%ld %lld %lu %llx %lu\n", -1L, -5000000000LL, 5UL, 0xfedcba9876543210ULL,
           sizeof(double));
    printf("[%s] [%10s] [%-6s] [%.2s]\n", word(0), word(1), word(2), "abcdef");
    printf("%f %f %f\n", 1.0 / 0.0, -1.0 / 0.0, -0.0);
    printf("%d %d %d %d %d %d %d %d %d %d %d %d %g %s\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
           13.5, "end");
    int printed = printf("two arguments %d %d\n", 1, 2);
    printf("returned %d\n", printed);
}

__global__ void threads()
{
    for (unsigned turn = 0; turn < blockDim.x; ++turn) {
        if (threadIdx.x == turn)
            printf("thread %u of block %u says %s\n", threadIdx.x, blockIdx.x, word(threadIdx.x));
        __syncthreads();
    }
}

int main()
{
    size_t size = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    printf("buffer of at least 2 MB: %d\n", size >= 2 << 20);
    fflush(stdout);
    kinds<<<1, 1>>>();
    CHECK_KERNEL();
    for (int block = 0; block < 2; ++block) {
        threads<<<1, 3>>>();
        CHECK_KERNEL();
    }
    fflush(stdout);
    return failures;
}
