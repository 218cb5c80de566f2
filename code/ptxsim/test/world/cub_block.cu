// CUB's block-wide primitives: BlockLoad, BlockRadixSort of pairs, BlockScan with a carry from tile
// to tile, and BlockReduce.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include <algorithm>

#include "check.h"

constexpr int THREADS = 128, ITEMS = 4, TILE = THREADS * ITEMS;

__global__ void sort(const unsigned *in, unsigned *out, int *places)
{
    using Sort = cub::BlockRadixSort<unsigned, THREADS, ITEMS, int>;
    __shared__ typename Sort::TempStorage storage;
    unsigned keys[ITEMS];
    int values[ITEMS];
    cub::LoadDirectBlocked(threadIdx.x, in, keys);
    for (int i = 0; i < ITEMS; ++i)
        values[i] = threadIdx.x * ITEMS + i;
    Sort(storage).Sort(keys, values, 0, 10);
    cub::StoreDirectBlocked(threadIdx.x, out, keys);
    cub::StoreDirectBlocked(threadIdx.x, places, values);
}

struct Carry { // the sum of all tiles before this one
    int total;
    __device__ int operator()(int tile)
    {
        int before = total;
        total += tile;
        return before;
    }
};

__global__ void scan(const unsigned *in, int tiles, int *out, int *sum)
{
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<int, THREADS>;
    using Reduce = cub::BlockReduce<int, THREADS>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } storage;
    Carry carry = {0};
    int mine = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        int items[ITEMS];
        Load(storage.load).Load((const int *)in + tile * TILE, items);
        __syncthreads();
        for (int item : items)
            mine += item;
        Scan(storage.scan).ExclusiveSum(items, items, carry);
        __syncthreads();
        cub::StoreDirectBlocked(threadIdx.x, out + tile * TILE, items);
    }
    int all = Reduce(storage.reduce).Sum(mine);
    if (threadIdx.x == 0)
        *sum = all;
}

int main()
{
    const int tiles = 3, n = tiles * TILE;
    std::vector<unsigned> in(n);
    std::vector<int> order(TILE), exclusive(n);
    for (int i = 0, sum = 0; i < n; sum += in[i++]) {
        in[i] = i * 2654435761u >> 22;
        exclusive[i] = sum;
    }
    unsigned *device = to_device(in), *sorted = zeros<unsigned>(TILE);
    int *out = zeros<int>(n), *sum = zeros<int>(1);
    sort<<<1, THREADS>>>(device, sorted, out);
    CHECK_KERNEL();
    for (int i = 0; i < TILE; ++i)
        order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return in[a] < in[b]; });
    expect("BlockRadixSort", to_host(out, TILE) == order && to_host(sorted, 1)[0] == in[order[0]]);
    scan<<<1, THREADS>>>(device, tiles, out, sum);
    CHECK_KERNEL();
    expect("BlockScan", to_host(out, n) == exclusive);
    expect("BlockReduce", to_host(sum, 1)[0] == exclusive[n - 1] + (int)in[n - 1]);
    printf("%d\n", to_host(sum, 1)[0]);
    return failures;
}
