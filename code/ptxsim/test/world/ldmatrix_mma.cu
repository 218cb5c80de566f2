// A matrix product by hand: tiles in shared memory with padded rows, ldmatrix (also transposed),
// mma.sync m16n8k16, a warp for each 16 x 16 tile of the result.
#include <cuda_fp16.h>

#include "check.h"

constexpr int M = 32, N = 32, K = 48, PAD = 8;

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__global__ void gemm(const half *a, const half *b, float *c)
{
    __shared__ half left[M][K + PAD];  // rows of 112 bytes
    __shared__ half right[K][N + PAD]; // rows of 80 bytes
    for (int i = threadIdx.x; i < M * K; i += blockDim.x)
        left[i / K][i % K] = a[i];
    for (int i = threadIdx.x; i < K * N; i += blockDim.x)
        right[i / N][i % N] = b[i];
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / 2 * 16, column = warp % 2 * 16;
    float d[2][4] = {};
    for (int k = 0; k < K; k += 16) {
        unsigned x[4], y[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(shared_address(&left[row + lane % 16][k + lane / 16 * 8])));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                     : "r"(shared_address(&right[k + lane % 16][column + lane / 16 * 8])));
        for (int n = 0; n < 2; ++n)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                         "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
                         : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * n]),
                           "r"(y[2 * n + 1]));
    }
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i)
            c[(row + lane / 4 + i / 2 * 8) * N + column + n * 8 + lane % 4 * 2 + i % 2] = d[n][i];
}

int main()
{
    std::vector<half> a(M * K), b(K * N);
    std::vector<float> want(M * N);
    for (int i = 0; i < M * K; ++i)
        a[i] = __float2half((float)(i * 5 % 23 - 11));
    for (int i = 0; i < K * N; ++i)
        b[i] = __float2half((float)(i * 7 % 19 - 9) * 0.5f);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < K; ++k)
            want[i] += __half2float(a[i / N * K + k]) * __half2float(b[k * N + i % N]);
    float *c = zeros<float>(M * N);
    gemm<<<1, 128>>>(to_device(a), to_device(b), c);
    CHECK_KERNEL();
    expect("product", to_host(c, M * N) == want);
    printf("%g %g\n", want[0], want[M * N - 1]);
    return failures;
}
