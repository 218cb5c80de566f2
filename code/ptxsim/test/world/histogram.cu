// A histogram with one array in shared memory for each warp and one for the grid, a game of life on
// a torus with a halo in shared memory, in the styles of a first course.
#include "check.h"

constexpr int SIDE = 64;

__global__ void histogram(const unsigned char *in, int n, unsigned *bins)
{
    __shared__ unsigned mine[4][256];
    for (int i = threadIdx.x; i < 4 * 256; i += blockDim.x)
        ((unsigned *)mine)[i] = 0;
    __syncthreads();
    unsigned *of_warp = mine[threadIdx.x / warpSize];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&of_warp[in[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        atomicAdd(&bins[bin], mine[0][bin] + mine[1][bin] + mine[2][bin] + mine[3][bin]);
}

__global__ void life(const unsigned char *from, unsigned char *to)
{
    __shared__ unsigned char tile[18][18];
    int x0 = blockIdx.x * 16 - 1 + SIDE, y0 = blockIdx.y * 16 - 1 + SIDE;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256)
        tile[i / 18][i % 18] = from[(y0 + i / 18) % SIDE * SIDE + (x0 + i % 18) % SIDE];
    __syncthreads();
    int neighbours = 0, x = threadIdx.x + 1, y = threadIdx.y + 1;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            neighbours += dx || dy ? tile[y + dy][x + dx] : 0;
    to[(blockIdx.y * 16 + threadIdx.y) * SIDE + blockIdx.x * 16 + threadIdx.x] =
        neighbours == 3 || (neighbours == 2 && tile[y][x]);
}

int main()
{
    const int n = 50000;
    std::vector<unsigned char> in(n), board(SIDE * SIDE);
    std::vector<unsigned> want(256);
    for (int i = 0; i < n; ++i)
        ++want[in[i] = i * 2654435761u >> 25 ^ i % 3 << 7];
    unsigned *bins = zeros<unsigned>(256);
    histogram<<<8, 128>>>(to_device(in), n, bins);
    CHECK_KERNEL();
    expect("histogram", to_host(bins, 256) == want);

    for (int i = 0; i < SIDE * SIDE; ++i)
        board[i] = i * 2654435761u >> 30 == 0;
    unsigned char *a = to_device(board), *b = zeros<unsigned char>(SIDE * SIDE);
    for (int step = 0; step < 20; ++step) {
        life<<<dim3(4, 4), dim3(16, 16)>>>(a, b);
        std::swap(a, b);
        std::vector<unsigned char> old = board;
        for (int i = 0; i < SIDE * SIDE; ++i) {
            int neighbours = 0;
            for (int k = 0; k < 9; ++k)
                if (k != 4)
                    neighbours += old[(i / SIDE + k / 3 + SIDE - 1) % SIDE * SIDE +
                                      (i + k % 3 + SIDE - 1) % SIDE];
            board[i] = neighbours == 3 || (neighbours == 2 && old[i]);
        }
    }
    CHECK_KERNEL();
    expect("life", to_host(a, SIDE * SIDE) == board);
    int alive = 0;
    for (int cell : board)
        alive += cell;
    printf("%d alive\n", alive);
    return failures;
}
