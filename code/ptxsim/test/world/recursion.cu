// Recursion: Fibonacci, Ackermann, quicksort of a thread's own array and depth that needs a larger
// stack (cudaLimitStackSize).
#include "check.h"

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ int ackermann(int m, int n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

__device__ void quicksort(int *values, int left, int right)
{
    int i = left, j = right, pivot = values[(left + right) / 2];
    while (i <= j) {
        while (values[i] < pivot)
            ++i;
        while (values[j] > pivot)
            --j;
        if (i <= j) {
            int kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
    }
    if (left < j)
        quicksort(values, left, j);
    if (i < right)
        quicksort(values, i, right);
}

// Each level has an array of its own, so that the stack grows.
__device__ __noinline__ int deep(int level, const int *above)
{
    int mine[32];
    for (int i = 0; i < 32; ++i)
        mine[i] = above[31 - i] + (i == level % 32);
    return level == 0 ? mine[0] + mine[31] : deep(level - 1, mine) + mine[level % 7];
}

__global__ void all(int *out)
{
    int values[20];
    for (int i = 0; i < 20; ++i)
        values[i] = (i * 7 + threadIdx.x) % 20;
    quicksort(values, 0, 19);
    bool sorted = true;
    for (int i = 0; i < 20; ++i)
        sorted = sorted && values[i] == i;
    out[threadIdx.x * 3] = sorted;
    out[threadIdx.x * 3 + 1] = fibonacci(threadIdx.x % 12);
    out[threadIdx.x * 3 + 2] = ackermann(2, threadIdx.x % 4);
}

__global__ void depth(int levels, int *out)
{
    int zero[32] = {0};
    out[threadIdx.x] = deep(levels, zero);
}

static int deep_on_host(int level, const int *above)
{
    int mine[32];
    for (int i = 0; i < 32; ++i)
        mine[i] = above[31 - i] + (i == level % 32);
    return level == 0 ? mine[0] + mine[31] : deep_on_host(level - 1, mine) + mine[level % 7];
}

int main()
{
    int *out = zeros<int>(96), none[32] = {0};
    size_t stack = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 64 << 10));
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    printf("stack of at least 64 KB: %d\n", stack >= 64 << 10);
    all<<<1, 32>>>(out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 96);
    for (int i = 0; i < 12; i += 3)
        printf("%d %d %d\n", got[3 * i], got[3 * i + 1], got[3 * i + 2]);
    depth<<<1, 32>>>(150, out);
    CHECK_KERNEL();
    expect("150 levels", to_host(out, 32)[31] == deep_on_host(150, none));
    return failures;
}
