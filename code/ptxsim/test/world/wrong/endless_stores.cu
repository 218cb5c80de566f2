// expect: a loop without end that keeps storing (it waits for a flag that nobody sets), at the line marked HERE
// told: deadlock: 1 of 1 warps wait
// build: -lineinfo
// A block says that it is ready and waits for its partner: the grid has no second block.
#include "../check.h"

__global__ void meet(volatile int *ready)
{
    int mine = blockIdx.x, other = 1 - mine;
    do {
        ready[mine] = 1;
    } while (ready[other] == 0); // HERE
}

int main()
{
    int *ready = zeros<int>(2);
    meet<<<1, 1>>>(ready); // should be <<<2, 1>>>
    CHECK_KERNEL();
    expect("both", to_host(ready, 2)[1] == 1);
    return failures;
}
