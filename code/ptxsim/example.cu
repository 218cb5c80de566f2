#include <cstdio>

__global__ void sums(const float *in, float *out)
{
    __shared__ float tile[256];
    float sum = 0;
    for (int round = 0; round < 4; ++round) {
        tile[threadIdx.x] = in[256 * round + threadIdx.x];
        __syncthreads();
        sum += tile[255 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}

int main()
{
    float *in, *out;
    cudaMallocManaged(&in, 1024 * sizeof *in);
    cudaMallocManaged(&out, 256 * sizeof *out);
    for (int i = 0; i < 1024; ++i)
        in[i] = i;
    sums<<<1, 256>>>(in, out);
    cudaDeviceSynchronize();
    printf("%g\n", out[0]);
}
