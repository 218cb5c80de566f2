// Cooperative groups within a block: tiles of 32, 16 and 4, coalesced threads, binary and labelled
// partitions, compared with plain loops on the host.
#include <cooperative_groups.h>

#include <algorithm>

#include "check.h"

namespace cg = cooperative_groups;

template <int SIZE> __device__ int tile_sum(const cg::thread_block &block, int value)
{
    cg::thread_block_tile<SIZE> tile = cg::tiled_partition<SIZE>(block);
    for (int offset = tile.size() / 2; offset > 0; offset /= 2)
        value += tile.shfl_down(value, offset);
    return tile.shfl(value, 0);
}

__global__ void tiles(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    int rank = block.thread_rank();
    out[rank] = tile_sum<32>(block, rank);
    out[block.size() + rank] = tile_sum<16>(block, rank);
    out[2 * block.size() + rank] = tile_sum<4>(block, rank);
    cg::thread_group half = cg::tiled_partition(cg::tiled_partition<32>(block), 8);
    out[3 * block.size() + rank] = half.thread_rank() * 100 + half.size();
}

// Threads with an odd number count themselves, with one atomic operation for all of a warp.
__global__ void odd(const int *in, int *count, int *place)
{
    int i = threadIdx.x;
    if (in[i] % 2) {
        cg::coalesced_group active = cg::coalesced_threads();
        int first = 0;
        if (active.thread_rank() == 0)
            first = atomicAdd(count, active.size());
        place[active.shfl(first, 0) + active.thread_rank()] = i;
    }
}

__global__ void partitions(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    cg::coalesced_group third = cg::binary_partition(warp, warp.thread_rank() % 3 == 0);
    out[block.thread_rank()] = third.size() * 100 + third.thread_rank();
    cg::coalesced_group label = cg::labeled_partition(warp, warp.thread_rank() % 5);
    out[block.size() + block.thread_rank()] = label.size() * 100 + label.thread_rank();
    out[2 * block.size() + block.thread_rank()] =
        warp.any(warp.thread_rank() == 31) + 2 * warp.all(warp.thread_rank() < 31) +
        4 * (warp.ballot(warp.thread_rank() < 4) == 15) + 8 * warp.meta_group_rank();
}

int main()
{
    const int n = 128;
    int *out = zeros<int>(4 * n);
    tiles<<<1, n>>>(out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 4 * n), in(n), want;
    const int sizes[3] = {32, 16, 4};
    for (int k = 0; k < 3; ++k) {
        bool right = true;
        for (int i = 0; i < n; ++i) {
            int first = i / sizes[k] * sizes[k];
            right = right && got[k * n + i] == sizes[k] * (2 * first + sizes[k] - 1) / 2;
        }
        printf("tiles of %d\n", sizes[k]);
        expect("their sums", right);
    }
    printf("a tile chosen at run time: %d %d\n", got[3 * n + 7], got[3 * n + 13]);

    for (int i = 0; i < n; ++i)
        in[i] = i * i % 7;
    int *device = to_device(in), *count = zeros<int>(1), *place = zeros<int>(n);
    odd<<<1, n>>>(device, count, place);
    CHECK_KERNEL();
    for (int i = 0; i < n; ++i)
        if (in[i] % 2)
            want.push_back(i);
    int total = to_host(count, 1)[0];
    std::vector<int> found = to_host(place, total); // by warps, which come in any order
    std::sort(found.begin(), found.end());
    expect("coalesced", found == want);
    printf("%d odd\n", total);

    partitions<<<1, n>>>(out);
    CHECK_KERNEL();
    got = to_host(out, 3 * n);
    printf("binary %d %d %d, labelled %d %d %d, votes %d %d\n", got[0], got[1], got[33], got[n],
           got[n + 31], got[n + 4], got[2 * n], got[2 * n + 100]);
    return failures;
}
