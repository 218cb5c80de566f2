// Rows with a pitch: cudaMallocPitch, cudaMemset2D, cudaMemcpy2D in all directions, a kernel that
// transposes through a padded tile.
#include "check.h"

constexpr int WIDTH = 70, HEIGHT = 37;

__global__ void transpose(const int *in, size_t in_pitch, int *out, size_t out_pitch)
{
    __shared__ int tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < WIDTH && y < HEIGHT)
        tile[threadIdx.y][threadIdx.x] = ((const int *)((const char *)in + y * in_pitch))[x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < HEIGHT && y < WIDTH)
        ((int *)((char *)out + y * out_pitch))[x] = tile[threadIdx.x][threadIdx.y];
}

int main()
{
    static int in[HEIGHT][WIDTH], out[WIDTH][HEIGHT], back[HEIGHT][WIDTH];
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x)
            in[y][x] = 1000 * y + x;
    int *a, *b;
    size_t a_pitch, b_pitch;
    CHECK(cudaMallocPitch(&a, &a_pitch, WIDTH * sizeof(int), HEIGHT));
    CHECK(cudaMallocPitch(&b, &b_pitch, HEIGHT * sizeof(int), WIDTH));
    printf("pitches %d %d\n", a_pitch >= sizeof in[0] && a_pitch % 32 == 0,
           b_pitch >= sizeof out[0] && b_pitch % 32 == 0);
    CHECK(cudaMemcpy2D(a, a_pitch, in, sizeof in[0], sizeof in[0], HEIGHT, cudaMemcpyHostToDevice));
    transpose<<<dim3(5, 3), dim3(16, 16)>>>(a, a_pitch, b, b_pitch);
    CHECK_KERNEL();
    CHECK(
        cudaMemcpy2D(out, sizeof out[0], b, b_pitch, sizeof out[0], WIDTH, cudaMemcpyDeviceToHost));
    bool right = true;
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x)
            right = right && out[x][y] == in[y][x];
    expect("transposed", right);

    // A window of 10 x 5 ints is set, another is copied within the device.
    CHECK(cudaMemset2D((char *)a + 2 * a_pitch + 4 * sizeof(int), a_pitch, 0xff, 10 * sizeof(int),
                       5));
    CHECK(cudaMemcpy2DAsync((char *)a + 20 * a_pitch, a_pitch, (char *)a + a_pitch, a_pitch,
                            30 * sizeof(int), 4, cudaMemcpyDeviceToDevice, 0));
    CHECK(cudaMemcpy2D(back, sizeof back[0], a, a_pitch, sizeof in[0], HEIGHT,
                       cudaMemcpyDeviceToHost));
    printf("%d %d %d %d | %d %d %d\n", back[2][3], back[2][4], back[6][13], back[6][14],
           back[20][0], back[21][4], back[21][30]);
    printf("too wide: %s\n",
           cudaGetErrorName(cudaMemcpy2D(a, 16, in, sizeof in[0], 32, 2, cudaMemcpyHostToDevice)));
    return failures;
}
