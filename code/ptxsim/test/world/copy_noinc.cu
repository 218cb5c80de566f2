// A producer warp copies with cp.async and hands over through mbarriers: the copies arrive there by
// themselves (cp.async.mbarrier.arrive.noinc), and at the end the producer waits for its copies by
// cp.async.wait_all. Each of four stages has a full and an empty barrier.
#include "check.h"

constexpr int STAGES = 4, TILE = 128; // TILE: ints in a stage, 16 bytes a lane

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void init(unsigned long long *barrier, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}

__device__ void arrive(unsigned long long *barrier)
{
    asm volatile("{ .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                     shared_address(barrier))
                 : "memory");
}

__device__ void wait(unsigned long long *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

__global__ void sums(const int *in, int tiles, int *out)
{
    __shared__ __align__(16) int stage[STAGES][TILE];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 32);
            init(&empty[s], 64);
        }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int tile = 0; tile < tiles; ++tile) {
            int s = tile % STAGES, round = tile / STAGES;
            if (round > 0)
                wait(&empty[s], (round - 1) % 2);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             shared_address(&stage[s][4 * lane])),
                         "l"(in + tile * TILE + 4 * lane)
                         : "memory");
            asm volatile(
                "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full[s]))
                : "memory");
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    } else {
        int sum = 0, t = threadIdx.x - 32;
        for (int tile = 0; tile < tiles; ++tile) {
            int s = tile % STAGES;
            wait(&full[s], tile / STAGES % 2);
            sum += stage[s][TILE - 1 - t] * (tile + 1) - stage[s][t];
            arrive(&empty[s]);
        }
        out[t] = sum;
    }
}

int main()
{
    const int tiles = 21;
    std::vector<int> in(tiles * TILE), want(64);
    for (int i = 0; i < tiles * TILE; ++i)
        in[i] = i * 13 % 311;
    for (int tile = 0; tile < tiles; ++tile)
        for (int t = 0; t < 64; ++t)
            want[t] += in[tile * TILE + TILE - 1 - t] * (tile + 1) - in[tile * TILE + t];
    int *out = zeros<int>(64);
    sums<<<1, 96>>>(to_device(in), tiles, out);
    CHECK_KERNEL();
    expect("sums of 21 tiles", to_host(out, 64) == want);
    printf("%d %d\n", want[0], want[63]);
    return failures;
}
