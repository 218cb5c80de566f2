// expect: the host follows a pointer of cudaMalloc (on a GPU: a segmentation fault), at the line marked HERE
// told: the host follows a device pointer
// build: -lineinfo
// Squares on the device; the copy back was forgotten.
#include "../check.h"

__global__ void square(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= x[i];
}

int main()
{
    const int n = 100;
    std::vector<int> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = i;
    int *x = to_device(in), sum = 0;
    square<<<1, 128>>>(x, n);
    CHECK_KERNEL();
    for (int i = 0; i < n; ++i)
        sum += x[i]; // HERE, on the HOST
    printf("sum %d\n", sum);
    return failures;
}
