// A __shared__ variable at file scope: it takes room in kernels that use it, themselves or in a function that
// they call. Kernels that do not use it have that room for an array of their own.
#include "check.h"

constexpr int CELLS = 9000; // 36,000 bytes of the 48 KB

__shared__ int board[CELLS];

__device__ __noinline__ int cell(int i)
{
    return board[(i + 1) % CELLS];
}

__global__ void turned(int *out)
{
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x)
        board[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x)
        out[i] = board[CELLS - 1 - i];
}

__global__ void shifted(int *out)
{
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x)
        board[i] = 2 * i;
    __syncthreads();
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x)
        out[i] = cell(i);
}

__global__ void without(int *out)
{
    extern __shared__ int tile[]; // [10000]
    for (int i = threadIdx.x; i < 10000; i += blockDim.x)
        tile[i] = 3 * i;
    __syncthreads();
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x)
        out[i] = tile[9999 - i];
}

static void test(const char *name, void (*kernel)(int *), size_t dynamic)
{
    cudaFuncAttributes a;
    int *out = zeros<int>(CELLS);
    CHECK(cudaFuncGetAttributes(&a, kernel));
    kernel<<<1, 128, dynamic>>>(out);
    CHECK_KERNEL();
    std::vector<int> result = to_host(out, CELLS);
    printf("%s: %zu bytes, %d %d %d\n", name, a.sharedSizeBytes, result[0], result[1],
           result[CELLS - 1]);
}

int main()
{
    test("turned", turned, 0);
    test("shifted", shifted, 0);
    test("without", without, 40000);
    return failures;
}
