// D = alpha * A * B + beta * C by tensor cores, in place: each warp loads its tile of C, does
// arithmetic on the fragments' elements and stores to the same tile, in global and in shared
// memory.
#include <cuda_fp16.h>
#include <mma.h>

#include "check.h"

using namespace nvcuda;

constexpr int N = 64; // [N][N] matrices, 16 tiles, a warp each

__global__ void gemm(const half *a, const half *b, float *c, float alpha, float beta)
{
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int row = warp / (N / 16) * 16, column = warp % (N / 16) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, old;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < N; k += 16) {
        wmma::load_matrix_sync(left, a + row * N + k, N);
        wmma::load_matrix_sync(right, b + column * N + k, N);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::load_matrix_sync(old, c + row * N + column, N, wmma::mem_row_major);
    for (int i = 0; i < old.num_elements; ++i)
        old.x[i] = alpha * sum.x[i] + beta * old.x[i];
    wmma::store_matrix_sync(c + row * N + column, old, N, wmma::mem_row_major);
}

// A warp doubles its own tile of shared memory, three times.
__global__ void doubled(float *out)
{
    __shared__ float tiles[4][16][16];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = lane; i < 256; i += 32)
        tiles[warp][i / 16][i % 16] = i + warp;
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> tile;
    for (int round = 0; round < 3; ++round) {
        wmma::load_matrix_sync(tile, tiles[warp][0], 16, wmma::mem_row_major);
        for (int i = 0; i < tile.num_elements; ++i)
            tile.x[i] *= 2;
        wmma::store_matrix_sync(tiles[warp][0], tile, 16, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4 * 256; i += blockDim.x)
        out[i] = tiles[i / 256][i % 256 / 16][i % 16];
}

int main()
{
    std::vector<half> a(N * N), b(N * N);
    std::vector<float> c(N * N), want(N * N);
    for (int i = 0; i < N * N; ++i) {
        a[i] = __float2half((float)(i * 7 % 9 - 4));
        b[i] = __float2half((float)(i * 5 % 11 - 5));
        c[i] = i % 17;
    }
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
            float sum = 0;
            for (int k = 0; k < N; ++k)
                sum += __half2float(a[i * N + k]) * __half2float(b[j * N + k]);
            want[i * N + j] = 2 * sum + 0.5f * c[i * N + j];
        }
    float *device = to_device(c);
    gemm<<<4, 128>>>(to_device(a), to_device(b), device, 2, 0.5f);
    CHECK_KERNEL();
    expect("in place", to_host(device, N * N) == want);
    printf("%g %g\n", want[0], want[N * N - 1]);
    doubled<<<1, 128>>>(device);
    CHECK_KERNEL();
    std::vector<float> got = to_host(device, 1024);
    bool right = true;
    for (int i = 0; i < 1024; ++i)
        right = right && got[i] == 8 * (i % 256 + i / 256);
    expect("in shared memory", right);
    return failures;
}
