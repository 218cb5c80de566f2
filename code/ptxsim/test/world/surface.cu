// Surfaces: kernels write and read elements of an array in place, a texture reads what a surface
// wrote, and what lies outside is zero.
#include "check.h"

constexpr int WIDTH = 32, HEIGHT = 16;

__global__ void draw(cudaSurfaceObject_t surface)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    surf2Dwrite(make_int2(x + y, x * y), surface, x * sizeof(int2), y);
}

__global__ void blur(cudaSurfaceObject_t from, cudaSurfaceObject_t to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int2 sum = make_int2(0, 0), one;
    for (int dx = -1; dx <= 1; ++dx) {
        surf2Dread(&one, from, (x + dx) * (int)sizeof(int2), y, cudaBoundaryModeZero);
        sum.x += one.x;
        sum.y += one.y;
    }
    surf2Dwrite(sum, to, x * sizeof(int2), y);
}

__global__ void sample(cudaTextureObject_t texture, int *out)
{
    int2 value = tex2D<int2>(texture, threadIdx.x, threadIdx.y);
    out[threadIdx.y * WIDTH + threadIdx.x] = 1000 * value.x + value.y;
}

int main()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int2>();
    cudaArray_t array[2];
    cudaSurfaceObject_t surface[2];
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaMallocArray(&array[i], &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
        resource.res.array.array = array[i];
        CHECK(cudaCreateSurfaceObject(&surface[i], &resource));
    }
    draw<<<dim3(2, 2), dim3(16, 8)>>>(surface[0]);
    blur<<<dim3(2, 2), dim3(16, 8)>>>(surface[0], surface[1]);
    CHECK_KERNEL();
    static int2 got[HEIGHT][WIDTH];
    CHECK(cudaMemcpy2DFromArray(got, sizeof got[0], array[1], 0, 0, sizeof got[0], HEIGHT,
                                cudaMemcpyDeviceToHost));
    bool right = true;
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            int a = 0, b = 0;
            for (int k = x - 1; k <= x + 1; ++k)
                if (k >= 0 && k < WIDTH) {
                    a += k + y;
                    b += k * y;
                }
            right = right && got[y][x].x == a && got[y][x].y == b;
        }
    expect("blurred", right);
    printf("%d %d\n", got[3][31].x, got[15][31].y);

    cudaTextureDesc reading = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
    int *out = zeros<int>(WIDTH * HEIGHT);
    sample<<<1, dim3(WIDTH, HEIGHT)>>>(texture, out);
    CHECK_KERNEL();
    printf("%d %d\n", to_host(out, 33)[32], to_host(out, 512)[511]);
    CHECK(cudaDestroyTextureObject(texture));
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaDestroySurfaceObject(surface[i]));
        CHECK(cudaFreeArray(array[i]));
    }
    return failures;
}
