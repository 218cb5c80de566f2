// Tiles of more than a warp: tiled_partition<64> and <128> with block_tile_memory, their sync,
// reduce in place of shuffles, and the shared memory that the runtime keeps for them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

template <int SIZE> __global__ void sums(const int *in, int *out)
{
    __shared__ cg::block_tile_memory<256> scratch;
    __shared__ int values[256];
    cg::thread_block block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<SIZE>(block);
    int rank = block.thread_rank();
    // Each tile reverses its own values, then adds them up: this needs the tile's barrier only.
    values[rank] = in[rank];
    tile.sync();
    int first = rank - tile.thread_rank();
    int value = values[first + SIZE - 1 - tile.thread_rank()];
    int sum = cg::reduce(tile, value * (1 + (int)tile.thread_rank()), cg::plus<int>());
    out[rank] = sum;
    if (tile.thread_rank() == 0)
        out[256 + tile.meta_group_rank()] = tile.meta_group_size() * 1000 + tile.num_threads();
}

template <int SIZE> void test(const std::vector<int> &in, const int *device, int *out)
{
    sums<SIZE><<<1, 256>>>(device, out);
    CHECK_KERNEL();
    std::vector<int> got = to_host(out, 256 + 256 / SIZE);
    bool right = true;
    for (int i = 0; i < 256; ++i) {
        int first = i / SIZE * SIZE, sum = 0;
        for (int k = 0; k < SIZE; ++k)
            sum += in[first + SIZE - 1 - k] * (1 + k);
        right = right && got[i] == sum;
    }
    printf("%d threads, shape %d, first sum %d\n", SIZE, got[256], got[0]);
    expect("sums of the tiles", right);
}

int main()
{
    std::vector<int> in(256);
    for (int i = 0; i < 256; ++i)
        in[i] = i % 11 - 3;
    int *device = to_device(in), *out = zeros<int>(512);
    test<64>(in, device, out);
    test<128>(in, device, out);
    test<32>(in, device, out);
    return failures;
}
