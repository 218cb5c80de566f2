// libcu++: cuda::pipeline shared by a block, once with all threads in both roles and once divided
// into producers and consumers; and cuda::barrier with cuda::memcpy_async.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

#include "check.h"

#pragma nv_diag_suppress static_var_with_dynamic_init // a pipeline's state has such an initialiser

namespace cg = cooperative_groups;

constexpr int STAGES = 3, TILE = 64;

template <bool DIVIDED> __global__ void staged(const int *in, int tiles, int *out)
{
    using State = cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES>;
    __shared__ State state;
    __shared__ __align__(16) int stage[STAGES][TILE];
    cg::thread_block block = cg::this_thread_block();
    bool producer = threadIdx.x < 32;
    if (DIVIDED) {
        auto role = producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
        auto pipe = cuda::make_pipeline(block, &state, role);
        int sum = 0, t = threadIdx.x - 32;
        for (int tile = 0; tile < tiles; ++tile) {
            if (producer) {
                pipe.producer_acquire();
                for (int i = threadIdx.x; i < TILE; i += 32)
                    cuda::memcpy_async(&stage[tile % STAGES][i], in + tile * TILE + i, sizeof(int),
                                       pipe);
                pipe.producer_commit();
            } else {
                pipe.consumer_wait();
                sum += stage[tile % STAGES][TILE - 1 - t] * (tile + 1);
                pipe.consumer_release();
            }
        }
        if (!producer)
            out[t] = sum;
    } else {
        auto pipe = cuda::make_pipeline(block, &state);
        int sum = 0, fetched = 0;
        for (int tile = 0; tile < tiles; ++tile) {
            for (; fetched < tiles && fetched < tile + STAGES; ++fetched) {
                pipe.producer_acquire();
                cuda::memcpy_async(block, stage[fetched % STAGES], in + fetched * TILE,
                                   cuda::aligned_size_t<16>(sizeof stage[0]), pipe);
                pipe.producer_commit();
            }
            pipe.consumer_wait();
            sum += stage[tile % STAGES][TILE - 1 - threadIdx.x] * (tile + 1);
            pipe.consumer_release();
        }
        out[threadIdx.x] = sum;
    }
}

__global__ void barrier_copy(const int *in, int *out)
{
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ Barrier barrier;
    __shared__ __align__(16) int tile[TILE];
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&barrier, block.size());
    block.sync();
    for (int round = 0; round < 4; ++round) {
        cuda::memcpy_async(block, tile, in + round * TILE, sizeof tile, barrier);
        barrier.arrive_and_wait();
        out[round * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
        barrier.arrive_and_wait();
    }
}

int main()
{
    const int tiles = 10;
    std::vector<int> in(tiles * TILE), want(TILE), mirrored(4 * TILE);
    for (int i = 0; i < tiles * TILE; ++i) {
        in[i] = i * 17 % 401;
        want[TILE - 1 - i % TILE] += in[i] * (i / TILE + 1);
    }
    for (int i = 0; i < 4 * TILE; ++i)
        mirrored[i] = in[i / TILE * TILE + TILE - 1 - i % TILE];
    int *device = to_device(in), *out = zeros<int>(4 * TILE);
    staged<false><<<1, TILE>>>(device, tiles, out);
    CHECK_KERNEL();
    expect("all in both roles", to_host(out, TILE) == want);
    CHECK(cudaMemset(out, 0, TILE * sizeof(int)));
    staged<true><<<1, 32 + TILE>>>(device, tiles, out);
    CHECK_KERNEL();
    expect("producers and consumers", to_host(out, TILE) == want);
    barrier_copy<<<1, TILE>>>(device, out);
    CHECK_KERNEL();
    expect("barrier", to_host(out, 4 * TILE) == mirrored);
    printf("%d %d\n", want[0], want[TILE - 1]);
    return failures;
}
