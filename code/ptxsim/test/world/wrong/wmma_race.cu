// expect: a race of two warps on one tile of C (the second half of K belongs to another warp), at the line marked HERE
// told: with no barrier in between
// build: -lineinfo
// A product with K divided between two warps: both load C, add their parts and store to the same tile.
#include <cuda_fp16.h>
#include <mma.h>

#include "../check.h"

using namespace nvcuda;

constexpr int K = 32;

__global__ void gemm(const half *a, const half *b, float *c)
{
    int warp = threadIdx.x / 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, old;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a + 16 * warp, K);
    wmma::load_matrix_sync(right, b + 16 * warp, K);
    wmma::mma_sync(sum, left, right, sum);
    wmma::load_matrix_sync(old, c, 16, wmma::mem_row_major);
    for (int i = 0; i < old.num_elements; ++i)
        old.x[i] += sum.x[i];
    wmma::store_matrix_sync(c, old, 16, wmma::mem_row_major); // HERE
}

int main()
{
    std::vector<half> a(16 * K, __float2half(1)), b(16 * K, __float2half(2));
    float *c = zeros<float>(256);
    gemm<<<1, 64>>>(to_device(a), to_device(b), c);
    CHECK_KERNEL();
    expect("product", to_host(c, 256)[0] == 2 * K);
    return failures;
}
