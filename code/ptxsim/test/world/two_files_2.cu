// The second file of two_files.cu.
#include "check.h"

__device__ int counter = 100;
__constant__ int primes[8];

extern __device__ int twice(int x);

__device__ int gcd(int a, int b)
{
    return b == 0 ? a : gcd(b, a % b);
}

__device__ int twice_and_one(int x)
{
    return twice(x) + 1;
}

__device__ int (*operation)(int) = twice_and_one;

struct Stack {
    int values[16], size;
    __device__ void push(int value);
    __device__ int pop();
};

__device__ void Stack::push(int value)
{
    values[size++] = value;
}

__device__ int Stack::pop()
{
    return values[--size];
}

__global__ void scale(int *x, int factor)
{
    x[threadIdx.x] *= factor;
}

void set_primes(const int *values)
{
    CHECK(cudaMemcpyToSymbol(primes, values, 8 * sizeof(int)));
}
