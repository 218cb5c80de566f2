// __constant__ arrays and structs, __device__ globals, static members and arrays of two dimensions:
// copies to and from symbols with offsets, their addresses and sizes, initial values.
#include "check.h"

struct Camera {
    float position[3];
    int width, height;
};

__constant__ Camera camera;
__constant__ int weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
__device__ int grid[4][8];
__device__ unsigned long long counter = 40;
static __device__ double ratio = 0.75;
template <class T> __device__ T shared_by_type = T(3);

__global__ void use(int *out)
{
    int t = threadIdx.x, sum = 0;
    for (int k = 0; k < 9; ++k)
        sum += weights[(k + t) % 9] * (k + 1);
    grid[t / 8][t % 8] += sum;
    out[t] = (int)camera.position[t % 3] + camera.width * (t % 2) + camera.height;
    if (t == 0) {
        ratio *= 2;
        shared_by_type<int> += 4;
        shared_by_type<short> -= 4;
    }
    atomicAdd(&counter, 2ull);
}

int main()
{
    Camera mine = {{1, 2, 3}, 100, 5000};
    int *out = zeros<int>(32), rows[4][8] = {}, heavy[2] = {10, 20};
    CHECK(cudaMemcpyToSymbol(camera, &mine, sizeof mine));
    rows[3][7] = 1000;
    CHECK(cudaMemcpyToSymbol(grid, rows, sizeof rows));
    CHECK(cudaMemcpyToSymbol(weights, heavy, sizeof heavy, 3 * sizeof(int)));
    use<<<1, 32>>>(out);
    CHECK_KERNEL();
    for (int value : to_host(out, 6))
        printf("%d ", value);
    CHECK(cudaMemcpyFromSymbol(rows, grid, sizeof rows));
    printf("| %d %d %d |", rows[0][0], rows[1][2], rows[3][7]);
    int part[2];
    CHECK(cudaMemcpyFromSymbol(part, weights, sizeof part, 4 * sizeof(int)));
    printf(" %d %d |", part[0], part[1]);
    unsigned long long count;
    double r;
    int i;
    short s;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    CHECK(cudaMemcpyFromSymbol(&r, ratio, sizeof r));
    CHECK(cudaMemcpyFromSymbol(&i, shared_by_type<int>, sizeof i));
    CHECK(cudaMemcpyFromSymbol(&s, shared_by_type<short>, sizeof s));
    printf(" %llu %g %d %d\n", count, r, i, s);

    void *address;
    size_t size;
    CHECK(cudaGetSymbolAddress(&address, grid));
    CHECK(cudaGetSymbolSize(&size, grid));
    CHECK(cudaMemset(address, 0, size));
    CHECK(cudaMemcpyFromSymbolAsync(rows, grid, 8 * sizeof(int), 3 * 8 * sizeof(int),
                                    cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    printf("size %zu, cleared %d\n", size, rows[0][7]);
    printf("beyond: %s\n", cudaGetErrorName(cudaMemcpyToSymbol(weights, heavy, sizeof heavy, 32)));
    return failures;
}
