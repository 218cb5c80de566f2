// Lanes of a warp join a loop one after another. Lanes that are ahead in a later round wait, with a
// larger mask, at the same instruction as lanes in an earlier round. Four rounds are unrolled: nvcc
// then puts the loop's jump before them, so that lanes that have nothing to do yet run ahead.
#include "check.h"

__global__ void matches(unsigned *out)
{
    unsigned sum = 0, lane = threadIdx.x;
#pragma unroll 4
    for (unsigned lanes = 2; lanes <= 32; ++lanes)
        if (lane < lanes)
            sum = 31 * sum + __match_any_sync(~0u >> (32 - lanes), lane % 3);
    out[lane] = sum;
}

__global__ void shuffles(unsigned *out)
{
    unsigned sum = threadIdx.x;
#pragma unroll 4
    for (unsigned lanes = 1; lanes <= 32; ++lanes)
        if (threadIdx.x < lanes) {
            unsigned mask = ~0u >> (32 - lanes);
            sum += __shfl_sync(mask, sum, (threadIdx.x + 1) % lanes);
            sum ^= __reduce_add_sync(mask, threadIdx.x) << __popc(__ballot_sync(mask, sum & 1)) / 4;
        }
    out[threadIdx.x] = sum;
}

// Each half of a warp synchronises by itself, at the same instructions: the lower half in three
// rounds, the upper half in seven.
__global__ void halves(unsigned *out)
{
    __shared__ unsigned steps[32];
    unsigned half = threadIdx.x / 16, mask = 0xffffu << 16 * half, i = threadIdx.x;
    steps[i] = 0;
#pragma unroll 1
    for (unsigned round = 0; round < 3 + 4 * half; ++round) {
        if (i % 5 == round % 5)
            for (unsigned k = 0; k <= i; ++k)
                steps[i] += k * round;
        __syncwarp(mask);
        unsigned next = steps[16 * half + (i + 1) % 16];
        __syncwarp(mask);
        steps[i] += next;
    }
    out[i] = steps[i];
}

static void show(const char *name, void (*kernel)(unsigned *))
{
    unsigned *out = zeros<unsigned>(32);
    kernel<<<1, 32>>>(out);
    CHECK_KERNEL();
    printf("%s:", name);
    for (unsigned value : to_host(out, 32))
        printf(" %x", value);
    printf("\n");
}

int main()
{
    show("matches", matches);
    show("shuffles", shuffles);
    show("halves", halves);
    return failures;
}
