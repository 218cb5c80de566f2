// A scan in one pass, with decoupled look-back: a block publishes its sum, then looks back over the
// blocks before it until one of these has published the sum of all blocks up to itself.
#include "check.h"

constexpr int THREADS = 64;
enum { EMPTY, SUM, PREFIX };

__global__ void scan(const int *in, unsigned *next, int *sums, int *prefixes, volatile int *states,
                     int *out)
{
    __shared__ unsigned number;
    __shared__ int values[THREADS], before;
    int t = threadIdx.x;
    if (t == 0)
        number = atomicAdd(next, 1);
    __syncthreads();
    int value = values[t] = in[number * THREADS + t];
    for (int step = 1; step < THREADS; step *= 2) {
        __syncthreads();
        int other = t >= step ? values[t - step] : 0;
        __syncthreads();
        values[t] = value += other;
    }
    if (t == THREADS - 1) {
        sums[number] = value;
        __threadfence();
        states[number] = SUM;
        int carry = 0;
        for (int i = (int)number - 1; i >= 0; --i) {
            int state;
            while ((state = states[i]) == EMPTY)
                ;
            __threadfence();
            carry += state == PREFIX ? prefixes[i] : sums[i];
            if (state == PREFIX)
                break;
        }
        prefixes[number] = carry + value;
        __threadfence();
        states[number] = PREFIX;
        before = carry;
    }
    __syncthreads();
    out[number * THREADS + t] = before + value;
}

int main()
{
    const int blocks = 120, n = blocks * THREADS;
    std::vector<int> in(n), want(n);
    for (int i = 0, sum = 0; i < n; ++i) {
        in[i] = i * 31 % 103 - 40;
        want[i] = sum += in[i];
    }
    int *out = zeros<int>(n);
    scan<<<blocks, THREADS>>>(to_device(in), zeros<unsigned>(1), zeros<int>(blocks),
                              zeros<int>(blocks), zeros<int>(blocks), out);
    CHECK_KERNEL();
    expect("scan", to_host(out, n) == want);
    printf("%d\n", want[n - 1]);
    return failures;
}
