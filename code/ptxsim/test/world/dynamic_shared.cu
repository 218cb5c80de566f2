// Dynamic shared memory in templates: one array for each type, two arrays in one allocation, 80 KB
// after cudaFuncSetAttribute, and launches of kernels with too little or too much of it.
#include "check.h"

template <class T> struct Shared { // an extern array may not have two types under one name
    __device__ operator T *()
    {
        extern __shared__ __align__(16) unsigned char bytes[];
        return reinterpret_cast<T *>(bytes);
    }
};

template <class T> __global__ void reverse(T *x, int n)
{
    T *tile = Shared<T>();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        tile[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = tile[n - 1 - i];
}

__global__ void two_arrays(int *out, int n)
{
    extern __shared__ double first[]; // [n] doubles, followed by [n] shorts
    short *second = (short *)&first[n];
    first[threadIdx.x] = threadIdx.x * 0.5;
    second[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    int other = n - 1 - threadIdx.x;
    out[threadIdx.x] = (int)(first[other] * 2) + second[other];
}

template <class T> void test(const char *name, int n)
{
    std::vector<T> in(n), want(n);
    for (int i = 0; i < n; ++i)
        in[i] = want[n - 1 - i] = (T)(i % 100);
    T *x = to_device(in);
    size_t bytes = n * sizeof(T);
    if (bytes > 48 << 10) {
        reverse<<<1, 128, bytes>>>(x, n);
        printf("%s without asking: %s\n", name, cudaGetErrorName(cudaGetLastError()));
        CHECK(cudaFuncSetAttribute(reverse<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    }
    reverse<<<1, 128, bytes>>>(x, n);
    CHECK_KERNEL();
    expect(name, to_host(x, n) == want);
}

int main()
{
    test<char>("char", 1000);
    test<float>("float", 3000);
    test<double>("double", 10240); // 80 KB
    int *out = zeros<int>(64);
    two_arrays<<<1, 64, 64 * (sizeof(double) + sizeof(short))>>>(out, 64);
    CHECK_KERNEL();
    printf("%d %d\n", to_host(out, 64)[0], to_host(out, 64)[63]);
    printf("300 KB: %s\n",
           cudaGetErrorName(cudaFuncSetAttribute(
               two_arrays, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 << 10)));
    printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
    return failures;
}
