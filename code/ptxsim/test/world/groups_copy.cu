// cg::memcpy_async of a block into shared memory, in two stages, with wait and wait_prior.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int TILE = 256; // ints of a stage

__global__ void sums(const int *in, int tiles, int *out)
{
    __shared__ __align__(16) int stage[2][TILE];
    cg::thread_block block = cg::this_thread_block();
    int sum = 0;
    cg::memcpy_async(block, stage[0], in, sizeof stage[0]);
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            cg::memcpy_async(block, stage[(tile + 1) % 2], in + (tile + 1) * TILE, sizeof stage[0]);
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        for (int i = block.thread_rank(); i < TILE; i += block.size())
            sum += stage[tile % 2][TILE - 1 - i] * (tile + 1);
        block.sync();
    }
    out[block.thread_rank()] = sum;
}

// A warp's tile copies for itself, with a count of elements instead of bytes.
__global__ void warps(const int *in, int *out)
{
    __shared__ __align__(16) int part[4][32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int w = warp.meta_group_rank();
    cg::memcpy_async(warp, part[w], 32, in + 32 * w, 32);
    cg::wait(warp);
    out[threadIdx.x] = part[w][31 - warp.thread_rank()];
}

int main()
{
    const int tiles = 7, threads = 64;
    std::vector<int> in(tiles * TILE), want(threads), mirrored(128);
    for (int i = 0; i < tiles * TILE; ++i)
        in[i] = i * 31 % 257;
    for (int tile = 0; tile < tiles; ++tile)
        for (int i = 0; i < TILE; ++i)
            want[i % threads] += in[tile * TILE + TILE - 1 - i] * (tile + 1);
    int *device = to_device(in), *out = zeros<int>(128);
    sums<<<1, threads>>>(device, tiles, out);
    CHECK_KERNEL();
    expect("stages", to_host(out, threads) == want);
    for (int i = 0; i < 128; ++i)
        mirrored[i] = in[i / 32 * 32 + 31 - i % 32];
    warps<<<1, 128>>>(device, out);
    CHECK_KERNEL();
    expect("a warp's own", to_host(out, 128) == mirrored);
    printf("%d %d\n", want[0], want[63]);
    return failures;
}
