// Loops that wait on a clock and must end: on clock64 for a number of cycles, on clock, on
// %globaltimer for a time; __nanosleep; and clocks in straight-line code never go backwards.
#include "check.h"

__device__ unsigned long long global_timer()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void spin(long long cycles, int *out)
{
    long long start = clock64();
    while (clock64() - start < cycles)
        ;
    out[threadIdx.x] = 1;
}

__global__ void spin_short(clock_t cycles, int *out)
{
    clock_t start = clock(), now = start;
    while (now - start < cycles)
        now = clock();
    out[threadIdx.x] = 2;
}

__global__ void spin_time(unsigned long long nanoseconds, int *out)
{
    unsigned long long start = global_timer();
    while (global_timer() - start < nanoseconds)
        __nanosleep(100);
    out[threadIdx.x] = 3;
}

__global__ void straight(int *out)
{
    long long a = clock64();
    int value = out[threadIdx.x];
    for (int i = 0; i < 10; ++i)
        value = value * 3 + i;
    long long b = clock64();
    out[threadIdx.x] = value;
    __threadfence();
    long long c = clock64();
    out[32 + threadIdx.x] = b > a;
    out[64 + threadIdx.x] = c > b;
}

static bool all(const int *out, int value)
{
    bool right = true;
    for (int got : to_host(out, 32))
        right = right && got == value;
    return right;
}

int main()
{
    int *out = zeros<int>(96);
    spin<<<1, 32>>>(20000, out);
    CHECK_KERNEL();
    expect("clock64", all(out, 1));
    spin_short<<<1, 32>>>(5000, out);
    CHECK_KERNEL();
    expect("clock", all(out, 2));
    spin_time<<<1, 32>>>(20000, out);
    CHECK_KERNEL();
    expect("globaltimer", all(out, 3));
    straight<<<1, 32>>>(out);
    CHECK_KERNEL();
    expect("forwards", all(out + 32, 1) && all(out + 64, 1));
    printf("%d\n", to_host(out, 1)[0]);
    return failures;
}
