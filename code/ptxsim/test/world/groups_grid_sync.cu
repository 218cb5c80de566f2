// A grid whose blocks wait for one another: cooperative launch, grid.sync() between the steps of a
// Jacobi iteration in integers, and what the launch says when the grid is too large.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void relax(int *a, int *b, int n, int steps)
{
    cg::grid_group grid = cg::this_grid();
    for (int step = 0; step < steps; ++step) {
        for (unsigned i = grid.thread_rank(); i < (unsigned)n; i += grid.size())
            b[i] = ((i > 0 ? a[i - 1] : 0) + a[i] + (i + 1 < (unsigned)n ? a[i + 1] : 0)) & 0xffff;
        grid.sync();
        int *other = a;
        a = b;
        b = other;
    }
}

__global__ void total(const int *in, int n, int *parts, int *out)
{
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    __shared__ int sum;
    if (block.thread_rank() == 0)
        sum = 0;
    block.sync();
    for (unsigned i = grid.thread_rank(); i < (unsigned)n; i += grid.size())
        atomicAdd(&sum, in[i]);
    block.sync();
    if (block.thread_rank() == 0)
        parts[blockIdx.x] = sum;
    cg::sync(grid);
    if (grid.thread_rank() == 0)
        for (unsigned i = 0; i < gridDim.x; ++i)
            *out += parts[i];
}

int main()
{
    int n = 3000, steps = 9, supported = 0, blocks = 0, threads = 128;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, relax, threads, 0));
    printf("cooperative launch %d, blocks fit %d\n", supported, blocks > 0);
    std::vector<int> want(n);
    for (int i = 0; i < n; ++i)
        want[i] = i % 13;
    int *a = to_device(want), *b = zeros<int>(n), *parts = zeros<int>(64), *out = zeros<int>(1);
    void *arguments[] = {&a, &b, &n, &steps};
    CHECK(cudaLaunchCooperativeKernel((void *)relax, 12, threads, arguments, 0, 0));
    CHECK_KERNEL();
    for (int step = 0; step < steps; ++step) {
        std::vector<int> old = want;
        for (int i = 0; i < n; ++i)
            want[i] = ((i > 0 ? old[i - 1] : 0) + old[i] + (i + 1 < n ? old[i + 1] : 0)) & 0xffff;
    }
    expect("relaxed", to_host(b, n) == want); // nine steps end in b
    void *more[] = {&b, &n, &parts, &out};
    CHECK(cudaLaunchCooperativeKernel((void *)total, 10, 96, more, 0, 0));
    CHECK_KERNEL();
    int sum = 0;
    for (int value : want)
        sum += value;
    expect("total", to_host(out, 1)[0] == sum);
    cudaError_t refused = cudaLaunchCooperativeKernel((void *)relax, 100000, 128, arguments, 0, 0);
    printf("too large: %s\n", cudaGetErrorName(refused));
    printf("then: %s\n", cudaGetErrorName(cudaGetLastError()));
    return failures;
}
