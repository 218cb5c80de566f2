// Atomic operations as courses use them: on double and half2, with CAS loops for what does not
// exist (a maximum of floats, products), a lock, system and block scope, 16 and 64 bits.
#include <cuda_fp16.h>

#include "check.h"

struct Results {
    double sum;
    float most;
    unsigned product, wrapped, lock, locked, system, block[4];
    unsigned short narrow[2];
    unsigned long long least, mask;
    half2 halves;
};

__device__ void atomic_max(float *address, float value)
{
    int *bits = (int *)address, old = *(volatile int *)bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (old != assumed);
}

__device__ unsigned atomic_multiply(unsigned *address, unsigned factor)
{
    unsigned old = *(volatile unsigned *)address, seen;
    while ((seen = atomicCAS(address, old, old * factor)) != old)
        old = seen;
    return old;
}

__global__ void all(Results *r)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&r->sum, 0.25 * i);
    atomic_max(&r->most, (i * 37 % 501) * 0.5f);
    atomic_multiply(&r->product, 2 * i + 1);
    atomicInc(&r->wrapped, 99);
    atomicAdd_system(&r->system, 3);
    atomicAdd_block(&r->block[blockIdx.x], threadIdx.x);
    atomicMin(&r->least, 10000000000ull - i);
    atomicXor(&r->mask, 1ull << (i % 64));
    atomicAdd(&r->halves, __floats2half2_rn(1, -0.5f));
    unsigned short seen = *(volatile unsigned short *)&r->narrow[1], expected;
    do {
        expected = seen;
        seen = atomicCAS(&r->narrow[1], expected, (unsigned short)(expected + 1));
    } while (seen != expected);
    // One thread of each warp takes a lock and changes what it guards.
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&r->lock, 0, 1) != 0)
            ;
        __threadfence();
        *(volatile unsigned *)&r->locked = *(volatile unsigned *)&r->locked + 5;
        __threadfence();
        atomicExch(&r->lock, 0);
    }
}

int main()
{
    Results start = {}, end;
    start.product = 3;
    start.least = ~0ull;
    start.narrow[0] = 77;
    Results *device = to_device(std::vector<Results>{start});
    all<<<4, 128>>>(device);
    CHECK_KERNEL();
    CHECK(cudaMemcpy(&end, device, sizeof end, cudaMemcpyDeviceToHost));
    unsigned product = 3;
    for (int i = 0; i < 512; ++i)
        product *= 2 * i + 1;
    printf("sum %g, most %g, wrapped %u\n", end.sum, end.most, end.wrapped);
    expect("product", end.product == product);
    printf("system %u, blocks %u %u, least %llu, mask %llx\n", end.system, end.block[0],
           end.block[3], end.least, end.mask);
    printf("narrow %u %u, locked %u, lock %u\n", end.narrow[0], end.narrow[1], end.locked,
           end.lock);
    printf("halves %g %g\n", __low2float(end.halves), __high2float(end.halves));
    return failures;
}
