// Function pointers in tables of constant and global memory, lambdas and functors as arguments of
// templates, a pointer that the host takes with cudaMemcpyFromSymbol and hands back.
// build: -extended-lambda
#include "check.h"

typedef int (*Operation)(int, int);

__device__ int add(int a, int b)
{
    return a + b;
}

__device__ int multiply(int a, int b)
{
    return a * b;
}

__device__ int power(int a, int b)
{
    int result = 1;
    for (int i = 0; i < b; ++i)
        result *= a;
    return result;
}

__constant__ Operation table[3] = {add, multiply, power};
__device__ Operation chosen = power;

__global__ void by_table(int *out)
{
    out[threadIdx.x] = table[threadIdx.x % 3](threadIdx.x / 3, 3);
}

__global__ void by_argument(Operation operation, int *out)
{
    out[threadIdx.x] = operation(threadIdx.x, 2);
}

template <class F> __global__ void for_each(int n, F function)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        function(i);
}

template <int K> struct Multiple {
    int *out;
    __device__ void operator()(int i) const
    {
        out[i] = K * i;
    }
};

__global__ void local_lambda(int *out)
{
    int base = threadIdx.x;
    auto polynomial = [base](int x, auto more) { return base * x * x + more; };
    out[threadIdx.x] = polynomial(3, 1) + polynomial(2, 1u);
}

static void show(const char *what, const int *out)
{
    CHECK_KERNEL();
    printf("%s:", what);
    for (int value : to_host(out, 9))
        printf(" %d", value);
    printf("\n");
}

int main()
{
    int *out = zeros<int>(32), factor = 5;
    by_table<<<1, 32>>>(out);
    show("table", out);
    Operation operation;
    CHECK(cudaMemcpyFromSymbol(&operation, chosen, sizeof operation));
    by_argument<<<1, 32>>>(operation, out);
    show("argument", out);
    for_each<<<1, 32>>>(32, Multiple<7>{out});
    show("functor", out);
    for_each<<<2, 16>>>(32, [=] __device__(int i) { out[i] = i * factor + 1; });
    show("lambda", out);
    local_lambda<<<1, 32>>>(out);
    show("local lambda", out);
    return failures;
}
