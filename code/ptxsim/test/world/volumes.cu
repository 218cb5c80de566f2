// Three dimensions: cudaMalloc3D, cudaMemset3D, cudaMemcpy3D of a volume, cudaMemcpy3DAsync of a
// part of one, a stencil of seven points with a grid of three dimensions.
#include "check.h"

constexpr int X = 20, Y = 12, Z = 6;

__device__ int *at(cudaPitchedPtr volume, int y, int z)
{
    return (int *)((char *)volume.ptr + ((size_t)z * volume.ysize + y) * volume.pitch);
}

__global__ void stencil(cudaPitchedPtr in, cudaPitchedPtr out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x == 0 || y == 0 || z == 0 || x >= X - 1 || y >= Y - 1 || z >= Z - 1)
        return;
    at(out, y, z)[x] = at(in, y, z)[x - 1] + at(in, y, z)[x + 1] + at(in, y - 1, z)[x] +
                       at(in, y + 1, z)[x] + at(in, y, z - 1)[x] + at(in, y, z + 1)[x] -
                       6 * at(in, y, z)[x];
}

int main()
{
    static int in[Z][Y][X], out[Z][Y][X];
    for (int z = 0; z < Z; ++z)
        for (int y = 0; y < Y; ++y)
            for (int x = 0; x < X; ++x)
                in[z][y][x] = x * x + 2 * y * y * y + 3 * z * z + x * y * z % 5;
    cudaExtent extent = make_cudaExtent(X * sizeof(int), Y, Z);
    cudaPitchedPtr a, b;
    CHECK(cudaMalloc3D(&a, extent));
    CHECK(cudaMalloc3D(&b, extent));
    CHECK(cudaMemset3D(b, 0, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in, X * sizeof(int), X, Y);
    copy.dstPtr = a;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    stencil<<<dim3(2, 3, 3), dim3(16, 4, 2)>>>(a, b);
    CHECK_KERNEL();
    copy.srcPtr = b;
    copy.dstPtr = make_cudaPitchedPtr(out, X * sizeof(int), X, Y);
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    bool right = true;
    for (int z = 1; z < Z - 1; ++z)
        for (int y = 1; y < Y - 1; ++y)
            for (int x = 1; x < X - 1; ++x)
                right = right && out[z][y][x] == in[z][y][x - 1] + in[z][y][x + 1] +
                                                     in[z][y - 1][x] + in[z][y + 1][x] +
                                                     in[z - 1][y][x] + in[z + 1][y][x] -
                                                     6 * in[z][y][x];
    expect("stencil", right && out[0][3][3] == 0 && out[Z - 1][3][3] == 0);

    // A box of 3 x 2 x 2, from (4,5,1) of the device's volume to (1,1,3) of the host's volume.
    copy = {};
    copy.srcPtr = a;
    copy.srcPos = make_cudaPos(4 * sizeof(int), 5, 1);
    copy.dstPtr = make_cudaPitchedPtr(out, X * sizeof(int), X, Y);
    copy.dstPos = make_cudaPos(1 * sizeof(int), 1, 3);
    copy.extent = make_cudaExtent(3 * sizeof(int), 2, 2);
    copy.kind = cudaMemcpyDefault;
    int before = out[3][1][4];
    CHECK(cudaMemcpy3DAsync(&copy, 0));
    CHECK(cudaStreamSynchronize(0));
    right = out[3][1][4] == before;
    for (int i = 0; i < 12; ++i)
        right = right &&
                out[3 + i / 6][1 + i / 3 % 2][1 + i % 3] == in[1 + i / 6][5 + i / 3 % 2][4 + i % 3];
    expect("box", right);
    printf("%d %d\n", in[1][5][4], out[4][2][3]);
    CHECK(cudaFree(a.ptr));
    CHECK(cudaFree(b.ptr));
    return failures;
}
