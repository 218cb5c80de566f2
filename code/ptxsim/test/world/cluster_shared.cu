// Clusters of two and four blocks: a histogram spread over the shared memory of a cluster's blocks,
// and neighbours that hand values on (distributed shared memory).
// build: compute_90
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int BINS = 64; // bins of a block

__global__ void histogram(const int *in, int n, int *out)
{
    extern __shared__ int bins[]; // [BINS]
    cg::cluster_group cluster = cg::this_cluster();
    int blocks = cluster.num_blocks();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        bins[i] = 0;
    cluster.sync();
    int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int i = first; i < n; i += step) {
        int bin = in[i] % (BINS * blocks);
        atomicAdd(cluster.map_shared_rank(bins, bin / BINS) + bin % BINS, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(&out[cluster.block_rank() * BINS + i], bins[i]);
}

__global__ void __cluster_dims__(2, 1, 1) exchange(int *out)
{
    __shared__ int mine[32];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    cluster.sync();
    int *other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x];
    cluster.sync(); // nobody leaves while others read
}

int main()
{
    const int n = 4000;
    std::vector<int> in(n), want(4 * BINS);
    for (int i = 0; i < n; ++i)
        in[i] = i * 7919 % 1013;
    int *device = to_device(in), *out = zeros<int>(4 * BINS);
    for (int blocks = 2; blocks <= 4; blocks += 2) {
        cudaLaunchConfig_t configuration = {};
        cudaLaunchAttribute attribute = {};
        configuration.gridDim = dim3(8);
        configuration.blockDim = dim3(96);
        configuration.dynamicSmemBytes = BINS * sizeof(int);
        configuration.attrs = &attribute;
        configuration.numAttrs = 1;
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = blocks;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        CHECK(cudaMemset(out, 0, 4 * BINS * sizeof(int)));
        CHECK(cudaLaunchKernelEx(&configuration, histogram, (const int *)device, n, out));
        CHECK_KERNEL();
        want.assign(4 * BINS, 0);
        for (int value : in)
            ++want[value % (BINS * blocks)];
        printf("clusters of %d\n", blocks);
        expect("histogram", to_host(out, 4 * BINS) == want);
    }
    exchange<<<6, 32>>>(out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 6 * 32);
    printf("%d %d %d\n", got[0], got[32], got[5 * 32 + 31]);
    return failures;
}
