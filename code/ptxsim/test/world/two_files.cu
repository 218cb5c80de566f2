// A program of two files with relocatable device code: functions, variables, constants, a kernel
// and a function pointer that the other file, two_files_2.cu, defines.
// build: -rdc=true
#include "check.h"

extern __device__ int gcd(int a, int b);
extern __device__ int counter;
extern __constant__ int primes[8];
extern __device__ int (*operation)(int);
extern __global__ void scale(int *x, int factor);
extern void set_primes(const int *values); // a host function

struct Stack { // its members are in the other file
    int values[16], size;
    __device__ void push(int value);
    __device__ int pop();
};

__device__ int twice(int x) // called from the other file
{
    return 2 * x;
}

__global__ void all(int *out)
{
    int i = threadIdx.x;
    Stack stack;
    stack.size = 0;
    for (int k = 0; k < 8; ++k)
        stack.push(gcd(primes[k] * (i + 1), 360));
    int sum = 0;
    while (stack.size > 0)
        sum = sum * 2 + stack.pop();
    out[i] = sum + operation(i);
    atomicAdd(&counter, 1);
}

int main()
{
    const int primes_of_host[8] = {2, 3, 5, 7, 11, 13, 17, 19};
    int *out = zeros<int>(32), count = 0;
    set_primes(primes_of_host);
    all<<<1, 32>>>(out);
    scale<<<1, 32>>>(out, 3);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 32);
    bool right = true;
    for (int i = 0; i < 32; ++i) {
        int sum = 0;
        for (int k = 7; k >= 0; --k) {
            int a = primes_of_host[k] * (i + 1), b = 360;
            while (b) {
                int rest = a % b;
                a = b;
                b = rest;
            }
            sum = sum * 2 + a;
        }
        right = right && got[i] == 3 * (sum + 2 * i + 1);
    }
    expect("both files", right);
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    printf("counter %d, first %d\n", count, got[0]);
    return failures;
}
