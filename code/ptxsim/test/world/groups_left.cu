// Threads past the end of an array skip what the others do together, and leave. block.sync() of
// cooperative groups counts only the other threads. In the last warp, only some of the lanes leave.
#include "check.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Adds to *out how many of `in` are not zero.
__global__ void count_inside(const int *in, int n, int *out)
{
    __shared__ int found;
    auto block = cg::this_thread_block();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        if (block.thread_rank() == 0)
            found = 0;
        block.sync();
        if (in[i])
            atomicAdd(&found, 1);
        block.sync();
        if (block.thread_rank() == 0)
            atomicAdd(out, found);
    }
}

// Threads leave by a return.
__global__ void count_after(const int *in, int n, int *out)
{
    __shared__ int found;
    auto block = cg::this_thread_block();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (block.thread_rank() == 0)
        found = 0;
    block.sync();
    if (in[i])
        atomicAdd(&found, 1);
    block.sync();
    if (block.thread_rank() == 0)
        atomicAdd(out, found);
}

int main()
{
    for (int n : {40, 64, 200, 256, 257, 1000}) {
        std::vector<int> in(n);
        int want = 0;
        for (int i = 0; i < n; ++i)
            want += in[i] = i % 3 == 0;
        int *device = to_device(in), *out = zeros<int>(2);
        count_inside<<<(n + 127) / 128, 128>>>(device, n, out);
        CHECK_KERNEL();
        count_after<<<(n + 127) / 128, 128>>>(device, n, out + 1);
        CHECK_KERNEL();
        std::vector<int> got = to_host(out, 2);
        expect("inside", got[0] == want);
        expect("after", got[1] == want);
        printf("%d of %d\n", got[0], n);
    }
    return failures;
}
