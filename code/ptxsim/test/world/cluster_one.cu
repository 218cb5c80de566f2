// cudaLaunchKernelEx with a cluster of one block, as libraries for Hopper launch everything:
// NonPortableClusterSizeAllowed, the cluster's rank and size, cluster.sync, occupancy.
// build: compute_90
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void who(int *out)
{
    __shared__ int seen;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0)
        seen = 1000 * cluster.num_blocks() + 100 * cluster.block_rank() + 7;
    cluster.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] =
        *cluster.map_shared_rank(&seen, 0) + (int)cluster.dim_blocks().x;
}

__global__ void __cluster_dims__(1, 1, 1) fixed(int *out)
{
    cg::this_cluster().sync();
    out[blockIdx.x] = blockIdx.x * 10 + cg::this_cluster().num_threads();
}

int main()
{
    int *out = zeros<int>(256), clusters = 0, size = 0;
    cudaLaunchConfig_t configuration = {};
    cudaLaunchAttribute attribute = {};
    configuration.gridDim = dim3(4);
    configuration.blockDim = dim3(64);
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    CHECK(cudaFuncSetAttribute(who, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CHECK(cudaLaunchKernelEx(&configuration, who, out));
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 256);
    printf("%d %d\n", got[0], got[255]);
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, who, &configuration));
    CHECK(cudaOccupancyMaxPotentialClusterSize(&size, who, &configuration));
    printf("clusters fit %d, of up to 8 blocks or more %d\n", clusters > 0, size >= 8);
    fixed<<<5, 32>>>(out);
    CHECK_KERNEL();
    got = to_host(out, 5);
    printf("%d %d\n", got[0], got[4]);
    return failures;
}
