// races_cases.cu: small programs, each in a right version and in one with a planted bug.
// test_races.bats runs them: `cases NAME right|wrong [SCHEDULES]`. The line that a report must name
// is marked "<- NAME".
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include "cases.h"

constexpr int N = 128; // threads of a block

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// ---- cp.async -----------------------------------------------------------------------------------

template <bool WRONG> __global__ void copy_wait(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    tile[t] = 0;
    __pipeline_memcpy_async(&tile[t], &in[t], 4);
    __pipeline_commit();
    if (!WRONG)
        __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[N - 1 - t]; // <- copy_wait
}

// A copy in a helper: its own line and the line of the call are reported.
__device__ void fetch(int *to, const int *from)
{
    // clang-format off
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 ::"r"(shared_address(to)), "l"(from) : "memory"); // <- fetched
    // clang-format on
}

template <bool WRONG> __global__ void helper(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    fetch(&tile[t], &in[t]); // <- fetching
    if (!WRONG)
        asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[t] = tile[N - 1 - t]; // <- helper
}

template <bool WRONG> __global__ void copy_groups(int *out, const int *in)
{
    __shared__ int tile[2][N];
    int t = threadIdx.x, sum = 0;
    __pipeline_memcpy_async(&tile[0][t], &in[t], 4);
    __pipeline_commit();
    for (int i = 0; i < 4; ++i) {
        if (i + 1 < 4)
            __pipeline_memcpy_async(&tile[(i + 1) % 2][t], &in[(i + 1) * N + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(WRONG ? 2 : 1);
        __syncthreads();
        sum += tile[i % 2][N - 1 - t]; // <- copy_groups
        __syncthreads();
    }
    out[t] = sum;
}

// A tile is copied again: in the wrong version before all threads have read the previous one.
template <bool WRONG> __global__ void copy_reuse(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; ++i) {
        __pipeline_memcpy_async(&tile[t], &in[i * N + t], 4); // <- copy_reuse
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        sum += tile[N - 1 - t];
        if (!WRONG)
            __syncthreads();
    }
    out[t] = sum;
}

// Warps copy what other warps have written: 16 bytes a lane, in the order of the lanes.
template <bool WRONG> __global__ void copy_source(int *out, const int *)
{
    __shared__ alignas(16) int tile[4 * N];
    int t = threadIdx.x;
    for (int i = 0; i < 4; ++i)
        out[4 * (N - 1 - t) + i] = t;
    if (!WRONG)
        __syncthreads();
    __pipeline_memcpy_async(&tile[4 * t], &out[4 * t], 16); // <- copy_source
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[4 * t] = tile[4 * t];
}

// Warps overwrite words that other warps have copied from.
template <bool WRONG> __global__ void copy_source_again(int *out, const int *in)
{
    __shared__ alignas(16) int tile[4 * N];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&tile[4 * t], &in[4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (!WRONG)
        __syncthreads();
    ((int *)in)[4 * N - 1 - t] = tile[4 * t]; // <- copy_source_again
    out[t] = tile[4 * t];
}

// ---- Barriers -----------------------------------------------------------------------------------

template <bool WRONG> __global__ void read_early(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[t] = in[t];
    if (!WRONG)
        __syncthreads();
    out[t] = tile[(t + 40) % N]; // <- read_early
}

template <bool WRONG> __global__ void overwrite(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; ++i) {
        tile[t] = in[i * N + t]; // <- overwrite
        __syncthreads();
        sum += tile[N - 1 - t];
        if (!WRONG)
            __syncthreads();
    }
    out[t] = sum;
}

// A race between the lanes of a warp: lockstep orders nothing.
template <bool WRONG> __global__ void warp_step(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (!WRONG)
        __syncwarp();
    out[t] = tile[t ^ 1]; // <- warp_step
}

// Two halves of the block hand over by named barriers: sync waits, arrive does not.
template <bool WRONG> __global__ void named(int *out, const int *in)
{
    __shared__ int tile[N / 2];
    int t = threadIdx.x;
    if (t < N / 2)
        tile[t] = 0;
    __syncthreads();
    if (t < N / 2) {
        tile[t] = in[t];
        if (!WRONG)
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        else
            asm volatile("bar.arrive 2, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, %0;" ::"n"(WRONG ? 64 : 128) : "memory");
        out[t] = tile[N - 1 - t]; // <- named
    }
}

template <bool WRONG> __global__ void divergent(int *out, const int *in)
{
    int t = threadIdx.x;
    if (!WRONG || t % 32 < 16)
        __syncthreads(); // <- divergent
    else
        out[t] = in[0];
    out[t] = in[t];
    if (WRONG)
        __syncthreads();
}

// The two halves of the block come to two different barriers.
template <bool WRONG> __global__ void two_barriers(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    if (WRONG && t >= N / 2) {
        tile[t] = 2 * in[t];
        __syncthreads(); // <- two_barriers
        out[t] = tile[N - 1 - t];
    } else {
        tile[t] = in[t];
        __syncthreads();
        out[t] = 3 * tile[N - 1 - t];
    }
}

// ---- mbarriers ----------------------------------------------------------------------------------

__device__ void init(unsigned long long *bar, unsigned count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count)
                 : "memory");
}

__device__ void arrive(unsigned long long *bar)
{
    asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" ::"r"(shared_address(bar))
                 : "memory");
}

__device__ bool passed(unsigned long long *bar, unsigned parity)
{
    unsigned yes;
    asm volatile(
        "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(yes)
        : "r"(shared_address(bar)), "r"(parity) // <- arrivals, parity
        : "memory");
    return yes;
}

// Two warps produce, two consume, through full and empty mbarriers.
template <int BUG> __device__ void hand_over(int *out, const int *in)
{
    __shared__ int tile[N / 2];
    __shared__ unsigned long long full, empty;
    int t = threadIdx.x, sum = 0;
    if (t < N / 2)
        tile[t] = 0;
    if (t == 0) {
        init(&full, BUG == 2 ? N / 2 + 1 : N / 2);
        init(&empty, N / 2);
    }
    __syncthreads();
    if (t < N / 2) {
        for (int i = 0; i < 4; ++i) {
            while (i > 0 && !passed(&empty, (i - 1) & 1)) // <- fills
                ;
            tile[t] = in[i * N + t];
            arrive(&full);
        }
    } else {
        for (int i = 0; i < 4; ++i) {
            while (!passed(&full, (BUG == 1 ? i + 1 : i) & 1)) // <- waits
                ;
            sum += tile[N - 1 - t];
            arrive(&empty);
        }
        out[t] = sum;
    }
}

template <bool WRONG> __global__ void parity(int *out, const int *in)
{
    hand_over<WRONG ? 1 : 0>(out, in);
}

template <bool WRONG> __global__ void arrivals(int *out, const int *in)
{
    hand_over<WRONG ? 2 : 0>(out, in); // <- hands
}

// cp.async that arrives at an mbarrier: a thread that waits there needs no other wait.
template <bool WRONG> __global__ void copy_mbarrier(int *out, const int *in)
{
    __shared__ int tile[N];
    __shared__ unsigned long long full;
    int t = threadIdx.x;
    if (t == 0)
        init(&full, N);
    __syncthreads();
    __pipeline_memcpy_async(&tile[t], &in[t], 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full))
                 : "memory");
    if (!WRONG)
        while (!passed(&full, 0))
            ;
    else
        __syncthreads();
    out[t] = tile[N - 1 - t]; // <- copy_mbarrier
}

// One thread waits for the mbarrier. Other threads read: in the wrong version their last barrier
// comes after the issue, but before the wait. The flag has no fence and orders nothing: it only
// delays the read.
template <bool WRONG> __global__ void copy_seen(int *out, const int *in)
{
    __shared__ int tile[N];
    __shared__ unsigned long long full;
    __shared__ volatile int seen;
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, N);
        seen = 0;
    }
    __syncthreads();
    __pipeline_memcpy_async(&tile[t], &in[t], 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full))
                 : "memory");
    __syncthreads();
    if (t == 0) {
        while (!passed(&full, 0))
            ;
        seen = 1;
    }
    if (!WRONG)
        __syncthreads();
    while (t >= 32 && !seen)
        ;
    if (t >= 32)
        out[t] = tile[N - 1 - t]; // <- copy_seen
}

// Each thread waits for its own copies, which also signal an mbarrier. It reads copies of other threads; the barrier
// with them comes before the wait, not after it.
template <bool WRONG> __global__ void copy_own_wait(int *out, const int *in)
{
    __shared__ int tile[N];
    __shared__ unsigned long long full;
    int t = threadIdx.x;
    if (t == 0)
        init(&full, N);
    __syncthreads();
    __pipeline_memcpy_async(&tile[t], &in[t], 4);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full))
                 : "memory");
    if (WRONG)
        __syncthreads();
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (!WRONG)
        __syncthreads();
    out[t] = tile[N - 1 - t]; // <- copy_own_wait
}

// The producers wait for their copies only after they have handed the tile over by an mbarrier; the
// wrong consumers do not wait at the mbarrier.
template <bool WRONG> __global__ void copy_drained(int *out, const int *in)
{
    __shared__ int tile[N / 2];
    __shared__ unsigned long long full;
    int t = threadIdx.x;
    if (t == 0)
        init(&full, N / 2);
    __syncthreads();
    if (t < N / 2) {
        __pipeline_memcpy_async(&tile[t], &in[t], 4); // <- copy_drained
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full))
                     : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
    } else {
        while (!WRONG && !passed(&full, 0))
            ;
        out[t] = tile[N - 1 - t];
    }
}

// ---- Accesses of whole warps --------------------------------------------------------------------

// A warp doubles a tile in place, and its lanes meet at each load and store of it.
__device__ void wmma_double(float *tile)
{
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
    constexpr auto rows = nvcuda::wmma::mem_row_major;
    for (int round = 0; round < 2; ++round) {
        nvcuda::wmma::load_matrix_sync(sum, tile, 16, rows);
        for (int i = 0; i < sum.num_elements; ++i)
            sum.x[i] *= 2;
        nvcuda::wmma::store_matrix_sync(tile, sum, 16, rows); // <- wmma_in_place
    }
}

// In the wrong version a lane reads elements that other lanes have stored, with no __syncwarp().
template <bool WRONG> __global__ void wmma_looked_at(int *out, const int *in)
{
    __shared__ float tiles[N / 32][256];
    int t = threadIdx.x, warp = t / 32;
    for (int i = t % 32; i < 256; i += 32)
        tiles[warp][i] = (float)in[i];
    __syncthreads();
    wmma_double(tiles[warp]);
    if (!WRONG)
        __syncwarp();
    out[t] = (int)tiles[warp][t % 32 * 8]; // <- wmma_looked_at
}

// In the wrong version all warps use the same tile.
template <bool WRONG> __global__ void wmma_in_place(int *out, const int *in)
{
    __shared__ float tiles[N / 32][256];
    int t = threadIdx.x, warp = t / 32;
    for (int i = t % 32; i < 256; i += 32)
        tiles[warp][i] = (float)in[i];
    __syncthreads();
    wmma_double(tiles[WRONG ? 0 : warp]);
    __syncthreads();
    out[t] = (int)tiles[warp][t];
}

// Lanes are not ordered by volatile accesses, even in lockstep.
template <bool WRONG> __global__ void in_step(int *out, const int *in)
{
    __shared__ volatile int sums[N];
    int t = threadIdx.x;
    sums[t] = in[t];
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {
        int other = sums[t ^ step]; // <- in_step
        __syncwarp();
        sums[t] = sums[t] + other;
        if (!WRONG)
            __syncwarp();
    }
    out[t] = sums[t];
}

// As in_step, in global memory.
__device__ volatile int sums[N];

template <bool WRONG> __global__ void in_step_global(int *out, const int *in)
{
    int t = threadIdx.x;
    sums[t] = in[t];
    if (!WRONG)
        __syncwarp();
    out[t] = sums[t ^ 1]; // <- in_step_global
}

// A flag with fences orders the lanes of a warp, unlike lockstep.
template <bool WRONG> __global__ void lane_flag(int *out, const int *in)
{
    __shared__ volatile int ready;
    __shared__ int value;
    int t = threadIdx.x;
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (t == 1) {
        value = in[t];
        if (!WRONG)
            __threadfence_block();
        ready = 1;
    } else if (t == 0) {
        while (ready == 0)
            ;
        __threadfence_block();
        out[t] = value; // <- lane_flag
    }
}

// A flag that all lanes read, round after round, until one of them has set it, is no race: only a lane that
// computes with the flag's value needs an order.
template <bool WRONG> __global__ void polled(int *out, const int *in)
{
    __shared__ volatile int done;
    __shared__ int next;
    int sum = 0, task;
    if (threadIdx.x == 0)
        done = next = 0;
    __syncthreads();
    while (!done) {
        if ((task = atomicAdd(&next, 1)) < N)
            sum += in[task];
        else
            done = 1;
        if (WRONG)
            sum += done; // <- polled
    }
    out[threadIdx.x] = sum;
}

// A shuffle takes a value from lanes that have left the kernel.
template <bool WRONG> __global__ void left(int *out, const int *in)
{
    int t = threadIdx.x;
    if (WRONG && t % 32 >= 20)
        return;
    int value = in[t];
    for (int by = 16; by > 0; by /= 2)
        value += __shfl_down_sync(0xffffffff, value, by); // <- left
    out[t] = value;
}

// ---- Flags ------------------------------------------------------------------------------------

// One warp signals to another by a flag; in the wrong version it does not.
template <bool WRONG> __global__ void flag(int *out, const int *in)
{
    __shared__ int value;
    __shared__ volatile int ready;
    int t = threadIdx.x;
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (t == 32) {
        value = in[t];
        __threadfence_block();
        if (!WRONG || value < 0)
            ready = 1;
    }
    if (t < 32) {
        while (ready == 0) // <- flag
            ;
        __threadfence_block();
        out[t] = value;
    }
    __syncthreads();
}

// As in flag, but the wait counts its rounds, so that the warp's state never repeats.
template <bool WRONG> __global__ void flag_counted(int *out, const int *in)
{
    __shared__ volatile int ready;
    int t = threadIdx.x;
    unsigned rounds = 0;
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (t == 32 && (!WRONG || in[t] < 0))
        ready = 1;
    if (t == 0) {
        while (ready == 0) // <- flag_counted
            ++rounds;
        out[0] = (int)rounds;
    }
}

// Some lanes loop with a counter that does not change, after the other lanes have ended.
template <bool WRONG> __global__ void endless(int *out, const int *in)
{
    int sum = 0;
    for (int i = threadIdx.x; i < 4 * N;) {
        int value = in[i]; // <- endless
        if (!WRONG || value % 7 != 5) {
            sum += value;
            i += N;
        }
    }
    out[threadIdx.x] = sum;
}

// A loop that stores equal values again and again, and waits for a value that nobody stores.
template <bool WRONG> __global__ void endless_stores(int *out, const int *in)
{
    __shared__ volatile int ready[2];
    int t = threadIdx.x;
    if (t < 2)
        ready[t] = 0;
    __syncthreads();
    if (t % 32 == 0 && t < (WRONG ? 32 : 64)) {
        do
            ready[t / 32] = 1;
        while (ready[1 - t / 32] == 0); // <- endless_stores
    }
    out[t] = in[t];
}

// Each block waits for the block before it; in the wrong version the first waits for the last.
__device__ int turn[4];

template <bool WRONG> __global__ void chain(int *out, const int *in)
{
    int t = threadIdx.x, block = blockIdx.x, before = (block + gridDim.x - 1) % gridDim.x;
    if (t == 0 && (WRONG || block > 0)) {
        while (atomicAdd(&turn[before], 0) == 0) // <- chain
            ;
        __threadfence();
        if (block > 0)
            out[block] = out[before] + in[block];
    }
    if (t == 0) {
        if (block == 0)
            out[0] = in[0];
        __threadfence();
        atomicExch(&turn[block], 1);
    }
    __syncthreads();
}

// A lock that its owner takes again, without giving it back.
__device__ int lock;

template <bool WRONG> __global__ void twice_locked(int *out, const int *in)
{
    int t = threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < 2; ++i) {
            while (atomicCAS(&lock, 0, 1) != 0) // <- twice_locked
                ;
            __threadfence();
            out[0] = in[blockIdx.x];
            __threadfence();
            if (!WRONG)
                atomicExch(&lock, 0);
        }
    }
}

// A loop until x is a certain even number, while x is always odd.
template <bool WRONG> __global__ void missed_end(int *out, const int *in)
{
    unsigned x = 1;
    while (x != (WRONG ? 4 : 7))
        x = x * 5 + (unsigned)in[2]; // <- missed_end
    out[threadIdx.x] = (int)x;
}

// An endless loop of one warp that reads no memory, while the other warps wait for it; the next
// kernel has such a loop of half a warp.
template <bool WRONG> __global__ void warp_spins(int *out, const int *in)
{
    int t = threadIdx.x, step = WRONG ? in[0] : 1;
    if (t / 32 == 1)
        for (int i = 0; i < 4; i += step) // <- warp_spins
            asm volatile("" ::: "memory");
    __syncthreads();
    out[t] = in[t];
}

template <bool WRONG> __global__ void lanes_spin(int *out, const int *in)
{
    int t = threadIdx.x, step = WRONG ? in[0] : 1;
    if (t % 32 >= 16)
        for (int i = 0; i < 4; i += step) // <- lanes_spin
            asm volatile("" ::: "memory");
    __syncthreads();
    out[t] = in[t];
}

// A loop over tiles that never comes to the next tile: it loads, meets at barriers and sums up for ever.
template <bool WRONG> __global__ void same_tile(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x, sum = 0;
    for (int first = 0; first < 4 * N; first += WRONG ? in[0] : N) { // <- same_tile
        tile[t] = in[first + t] + sum;
        __syncthreads();
        for (int i = 0; i < N; ++i)
            sum += tile[(t + i) % N];
        __syncthreads();
    }
    out[t] = sum;
}

// An endless loop whose condition the compiler has removed.
template <bool WRONG> __global__ void no_step(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x, sum = 0;
    for (int first = 0; first < 4 * N; first += WRONG ? 0 : N) { // <- no_step
        tile[t] = in[first + t] + sum;
        __syncthreads();
        sum += tile[N - 1 - t];
        __syncthreads();
    }
    out[t] = sum;
}

// An endless loop in a function that one block calls, while its neighbours end.
__device__ int walked[N];

__device__ __noinline__ int walk(const int *in, int t, int step)
{
    int sum = 0;
    for (int i = 0; i < 4; i += step) { // <- walks
        sum += in[i * N + t];
        atomicAdd(&walked[t], sum);
    }
    return sum;
}

template <bool WRONG> __global__ void walks(int *out, const int *in)
{
    int t = threadIdx.x;
    int sum = walk(in, t, WRONG && blockIdx.x == 2 ? in[0] : 1);
    if (blockIdx.x == 0)
        out[t] = sum;
}

// ---- Bounds and what was never written ----------------------------------------------------------

template <bool WRONG> __global__ void bounds(int *out, const int *in)
{
    int t = threadIdx.x;
    out[t] = in[4 * N - 1 - t + (WRONG ? 1 : 0)]; // <- bounds
}

template <bool WRONG> __global__ void uninitialised(int *out, const int *in)
{
    __shared__ int tile[N + 1];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (!WRONG && t == 0)
        tile[N] = 0;
    __syncthreads();
    out[t] = tile[t + 1]; // <- uninitialised
}

// A kernel with a library's name (cub::) reads a word that nothing has written; so does
// borrowed_line, at the end of this file, in a line that seems to be a library's.
namespace cub
{
template <bool WRONG> __global__ void borrowed(int *out, const int *in)
{
    __shared__ int tile[N + 1];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (!WRONG && t == 0)
        tile[N] = 0;
    __syncthreads();
    out[t] = tile[t + 1];
}
} // namespace cub
using cub::borrowed;

// ---- Atomics ------------------------------------------------------------------------------------

__device__ int head;

template <bool WRONG> __global__ void queue(int *out, const int *in)
{
    __shared__ int next;
    int t = threadIdx.x;
    if (t == 0)
        next = 0;
    __syncthreads();
    if (in[t] % 2 == 0) {
        int at = WRONG ? next++ : atomicAdd(&next, 1); // <- queue
        out[at] = t;
    }
}

template <bool WRONG> __global__ void global_queue(int *out, const int *in)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[t] % 2 == 0) {
        int at = WRONG ? head++ : atomicAdd(&head, 1); // <- global_queue
        out[at] = t;
    }
}

// The last block to finish sums what the others wrote.
__device__ int partial[4], tickets;

template <bool WRONG> __global__ void last_block(int *out, const int *in)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = in[blockIdx.x];
        if (!WRONG)
            __threadfence();
        last = atomicAdd(&tickets, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < 32) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x; ++i)
            sum += partial[i]; // <- last_block
        out[threadIdx.x] = sum;
    }
}

// A block's threads write, and after a barrier the first thread sets a flag. A fence by that thread covers what is
// ordered before it; a fence by each thread covers what that thread had done before its fence, and nothing later.
__device__ int shown, handed[128];

template <bool EARLY_FIRST, bool EARLY_EACH, bool FENCED_EACH>
__device__ void hand_over(int *out, const int *in)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        if (EARLY_EACH || (EARLY_FIRST && t == 0))
            __threadfence();
        if (EARLY_FIRST)
            __syncthreads();
        handed[t] = in[t];
        if (FENCED_EACH)
            __threadfence();
        __syncthreads();
        if (t == 0 && !EARLY_EACH && !EARLY_FIRST && !FENCED_EACH)
            __threadfence();
        if (t == 0)
            atomicExch(&shown, 1);
    } else if (blockIdx.x == 1) {
        if (t == 0) {
            while (atomicAdd(&shown, 0) == 0)
                ;
            __threadfence();
        }
        __syncthreads();
        out[t] = handed[t]; // <- fence_before_barrier, fence_before_write
    }
}

template <bool WRONG> __global__ void fence_before_barrier(int *out, const int *in)
{
    hand_over<WRONG, false, !WRONG>(out, in);
}

template <bool WRONG> __global__ void fence_before_write(int *out, const int *in)
{
    hand_over<false, WRONG, false>(out, in);
}

// Blocks take turns: each writes where the block before it has read. The barrier before the flag
// completes the reads, so that they need no fence.
__device__ int place[4 * N];
__device__ volatile int counted[4];

template <bool WRONG> __global__ void in_place(int *out, const int *in)
{
    __shared__ int before;
    int t = threadIdx.x, block = blockIdx.x;
    int value = place[block * N + t]; // <- in_place
    if (!WRONG)
        __syncthreads();
    if (t == 0) {
        int sum = 0;
        while (block > 0 && (sum = counted[block - 1]) == 0)
            ;
        counted[block] = sum + 1;
        before = sum;
    }
    __syncthreads();
    if (before > 0)
        place[(before - 1) * N + t] = value + in[t] + 1;
    out[block * N + t] = value;
}

// Blocks share an element at their border.
template <bool WRONG> __global__ void border(int *out, const int *in)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t] = in[t];
    if (WRONG && threadIdx.x == 0 && blockIdx.x > 0)
        out[t - 1] += 1; // <- border
}

template <bool WRONG> __global__ void fresh(int *out, const int *in)
{
    int t = threadIdx.x;
    if (!WRONG)
        out[t] = 0;
    out[t] += in[t]; // <- fresh
}

// ---- Races by a wrong address, which no barrier mends -------------------------------------------

// Rows of 16 words that begin 12 words apart.
template <bool WRONG> __global__ void overlap(int *out, const int *in)
{
    __shared__ int tile[2 * N];
    int t = threadIdx.x, pitch = WRONG ? 12 : 16;
    tile[t / 16 * pitch + t % 16] = in[t]; // <- overlap
    __syncthreads();
    out[t] = tile[t / 16 * pitch + t % 16];
}

// Rows of 16 words that begin 12 words apart, in global memory.
template <bool WRONG> __global__ void overlap_global(int *out, const int *in)
{
    int t = threadIdx.x, pitch = WRONG ? 12 : 16;
    out[t / 16 * pitch + t % 16] = in[t]; // <- overlap_global
}

// A statement reads what the same statement of another thread writes.
template <bool WRONG> __global__ void neighbour(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    tile[t] += tile[WRONG ? (t + 32) % N : t]; // <- neighbour
    __syncthreads();
    out[t] = tile[t];
}

// Threads read past the end of one tile, and others write there.
struct two_lists {
    int from[N], to[N];
};

template <bool WRONG> __global__ void runs_over(int *out, const int *in)
{
    __shared__ two_lists lists;
    int t = threadIdx.x;
    lists.from[t] = in[t];
    lists.to[t] = 0;
    __syncthreads();
    int value = lists.from[WRONG ? 2 * t : t]; // <- runs_over
    lists.to[t] = value;
    __syncthreads();
    out[t] = lists.to[t];
}

// Here no address is wrong, but a barrier is missing: different rounds write the same words.
template <bool WRONG> __global__ void turns(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        tile[(t + 32 * i) % N] = in[i]; // <- turns
        if (!WRONG)
            __syncthreads();
    }
    __syncthreads();
    out[t] = tile[t];
}

// Here a barrier is missing, too: one line writes both tiles, which it names as one.
template <bool WRONG> __global__ void two_tiles(int *out, const int *in)
{
    __shared__ two_lists lists;
    int t = threadIdx.x;
    for (int i = t; i < 2 * N; i += N)
        ((int *)&lists)[i] = in[i]; // <- two_tiles
    if (!WRONG)
        __syncthreads();
    out[t] = lists.to[N - 1 - t];
}

// No bug at all: each step gathers words with another pattern of addresses.
template <bool WRONG> __global__ void gathers(int *out, const int *in)
{
    unsigned t = threadIdx.x, at = t + 1, sum = 0;
#pragma unroll 1
    for (int i = 0; i < 60000; ++i) {
        at = at * 1664525 + 1013904223;
        sum += (unsigned)in[at >> 23];
    }
    out[t] = (int)sum;
}

// Defined at the end of this file.
template <bool WRONG> __global__ void header(int *out, const int *in);
template <bool WRONG> __global__ void borrowed_line(int *out, const int *in);

// A mask of the lanes below a lane leaves out this lane itself.
template <bool WRONG> __global__ void outside(int *out, const int *in)
{
    unsigned below = (1u << threadIdx.x % 32) - 1;
    bool odd = in[threadIdx.x] & 1;
    unsigned votes = __ballot_sync(WRONG ? below : ~0u, odd); // <- outside
    out[threadIdx.x] = __popc(votes & below);
}

// Masks that leave out lanes: some that call __syncwarp(), some that shuffle, and some that a
// shuffle only reads from.
template <bool WRONG> __global__ void outside_sync(int *out, const int *in)
{
    if (threadIdx.x % 32 < 16)
        __syncwarp(WRONG ? 0xff : 0xffff); // <- outside_sync
    out[threadIdx.x] = in[threadIdx.x];
}

template <bool WRONG> __global__ void outside_shuffle(int *out, const int *in)
{
    unsigned half = threadIdx.x % 32 / 16, mask = 0xffffu << 16 * (WRONG ? threadIdx.x % 2 : half);
    out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 8); // <- outside_shuffle
}

template <bool WRONG> __global__ void outside_source(int *out, const int *in)
{
    int value = in[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        value += __shfl_down_sync(0xffff, value, 8, WRONG ? 32 : 16); // <- outside_source
    out[threadIdx.x] = value;
}

// A counter of all blocks, raised by atomics of a block's scope.
__device__ int arrivals_of_blocks, block_lock, guarded;

template <bool WRONG> __global__ void block_scope(int *, const int *)
{
    if (WRONG)
        atomicAdd_block(&arrivals_of_blocks, 1); // <- block_scope
    else
        atomicAdd(&arrivals_of_blocks, 1);
}

// A volatile message to another block, sent or received with a fence of one block's scope.
__device__ volatile int message, sent;

template <bool SEND, bool RECEIVE> __device__ __forceinline__ void pass_message(int *out)
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        message = 7;
        SEND ? __threadfence_block() : __threadfence();
        sent = 1;
    } else if (threadIdx.x == 0) {
        while (!sent)
            ;
        RECEIVE ? __threadfence_block() : __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 32 && blockIdx.x > 0)
        *out = message; // <- sent_to_block, received_for_block
}

template <bool WRONG> __global__ void sent_to_block(int *out, const int *)
{
    pass_message<WRONG, false>(out);
}

template <bool WRONG> __global__ void received_for_block(int *out, const int *)
{
    pass_message<false, WRONG>(out);
}

// A lock that is taken without a fence after it.
template <bool WRONG> __global__ void locked(int *, const int *)
{
    if (threadIdx.x)
        return;
    while (atomicCAS(&block_lock, 0, 1))
        ;
    if (!WRONG)
        __threadfence();
    guarded++; // <- locked
    __threadfence();
    atomicExch(&block_lock, 0);
}

// Lists of a hash table, each with a lock; one thread takes the lock of another list.
__device__ int bucket_locks[4], heads[4], next_entries[4 * N];

template <bool WRONG> __global__ void buckets(int *, const int *)
{
    int entry = blockIdx.x * N + threadIdx.x, bucket = entry % 4;
    int *lock = &bucket_locks[WRONG && entry == 2 * N - 1 ? 0 : bucket];
    for (int turn = 0; turn < 32; ++turn) {
        if ((int)threadIdx.x % 32 != turn)
            continue;
        while (atomicCAS(lock, 0, 1))
            ;
        __threadfence();
        next_entries[entry] = heads[bucket], heads[bucket] = entry; // <- buckets
        __threadfence();
        atomicExch(lock, 0);
    }
}

// Locks are taken so often that the checker merges what was released (snapshots.c, MOST_STEPS). Then a thread adds up
// what all have done. One thread of each block takes no lock, and stores.
__device__ int long_locks[16], counts[16];

template <bool WRONG> __global__ void long_history(int *out, const int *)
{
    bool outside = WRONG && threadIdx.x == N - 1;
    for (int turn = 0; turn < 32 * 100; ++turn) {
        int list = (turn * 7 + threadIdx.x * 5 + blockIdx.x) % 16;
        if ((int)threadIdx.x % 32 != turn % 32 || outside)
            continue;
        while (atomicCAS(&long_locks[list], 0, 1))
            ;
        __threadfence();
        counts[list]++;
        __threadfence();
        atomicExch(&long_locks[list], 0);
    }
    int all = 0;
    for (int list = 0; list < 16 && threadIdx.x == 0; ++list) {
        while (atomicCAS(&long_locks[list], 0, 1))
            ;
        __threadfence();
        all += counts[list];
        __threadfence();
        atomicExch(&long_locks[list], 0);
    }
    out[blockIdx.x * N + threadIdx.x] = all;
    if (outside)
        counts[blockIdx.x] = 0; // <- long_history
}

// Blocks on several host threads contend for locks. One lane of each block takes none.
__device__ int crowded_locks[64], crowded_counts[64];

template <bool WRONG> __global__ void crowded(int *, const int *)
{
    int at = blockIdx.x * N + threadIdx.x;
    bool outside = WRONG && threadIdx.x == N - 1;
    for (int turn = 0; turn < 32 * 100; ++turn) {
        int list = (at * 7 + turn / 32 * 13) % 64;
        if ((int)threadIdx.x % 32 != turn % 32)
            continue;
        while (!outside && atomicCAS(&crowded_locks[list], 0, 1))
            ;
        __threadfence();
        crowded_counts[list]++; // <- crowded
        __threadfence();
        if (!outside)
            atomicExch(&crowded_locks[list], 0);
    }
}

// A block stores a vector, and the block before stores a word: the vector's last, or the word after
// it.
template <bool WRONG> __global__ void vector_stored(int *out, const int *in)
{
    int t = threadIdx.x, block = blockIdx.x, next = (block + 1) % gridDim.x;
    if (t == 0)
        *(int4 *)&out[8 * block] = make_int4(1, 2, 3, 4);
    if (t == N - 1)
        out[8 * next + (WRONG ? 3 : 4)] = in[t]; // <- vector_stored
}

template <bool WRONG> __global__ void vector_loaded(int *out, const int *in)
{
    int t = threadIdx.x, block = blockIdx.x, next = (block + 1) % gridDim.x;
    if (t == 0) {
        int4 v = *(const int4 *)&in[8 * block];
        out[block] = v.x + v.y + v.z + v.w;
    }
    if (t == N - 1)
        const_cast<int *>(in)[8 * next + (WRONG ? 3 : 4)] = t; // <- vector_loaded
}

// All lanes of a warp load one word, which the last lane or the first then overwrites.
template <bool WRONG> __global__ void same_word(int *out, const int *in)
{
    int t = threadIdx.x, warp = t / 32;
    int word = in[warp];
    if (!WRONG)
        __syncwarp();
    if (t % 32 == (warp % 2 ? 0 : 31))
        const_cast<int *>(in)[warp] = t; // <- same_word
    out[t] = word;
}

// All lanes load a word that the last lane has stored.
template <bool WRONG> __global__ void last_lane(int *out, const int *in)
{
    int t = threadIdx.x;
    int *word = out + N + t / 32;
    if (t % 32 == 31)
        *word = in[t];
    asm volatile("" ::: "memory"); // so that the last lane loads the word, too
    if (!WRONG)
        __syncwarp();
    out[t] = *word; // <- last_lane
}

// All blocks store the same values, in any order; odd blocks store them as vectors.
__device__ int4 same[1000][N / 4];
template <bool WRONG> __global__ void same_values(int *, const int *)
{
    int t = threadIdx.x, block = blockIdx.x;
    for (auto &row : same) {
        if (block % 2 == 0)
            ((int *)row)[t] = WRONG ? block : 2; // <- same_values
        else if (t < N / 4)
            row[t] = make_int4(2, 2, 2, 2);
    }
}

// All warps of a block store the same values to one row of shared memory.
template <bool WRONG> __global__ void same_row(int *out, const int *in)
{
    __shared__ int row[32];
    int t = threadIdx.x;
    row[t % 32] = WRONG ? in[t] : in[t % 32]; // <- same_row
    __syncthreads();
    out[t] = row[31 - t % 32];
}

// All warps of all blocks store the same matrix, in shared and in global memory.
template <bool WRONG> __global__ void same_matrix(int *out, const int *in)
{
    __shared__ alignas(32) float tile[256];
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
    nvcuda::wmma::fill_fragment(c, (float)in[WRONG ? threadIdx.x / 32 : 1]);
    nvcuda::wmma::store_matrix_sync(tile, c, 16, nvcuda::wmma::mem_row_major); // <- same_matrix
    nvcuda::wmma::store_matrix_sync((float *)out, c, 16, nvcuda::wmma::mem_col_major);
}

// ---- Strong accesses that overlap in part -------------------------------------------------------

template <bool WRONG> __global__ void partly(int *out, const int *)
{
    __shared__ int word;
    int t = threadIdx.x;
    if (t == 0)
        word = 0;
    __syncthreads();
    if (t == 32 && WRONG)
        ((volatile short *)&word)[1] = 7; // <- partly
    else if (t == 32)
        *(volatile int *)&word = 7;
    if (t == 64)
        out[t] = atomicOr(&word, 0);
}

// Strong accesses that overlap in part, in global memory, between blocks.
__device__ int halves;

template <bool WRONG> __global__ void partly_global(int *out, const int *)
{
    if (threadIdx.x == 0 && blockIdx.x % 2 == 0) {
        if (WRONG)
            ((volatile short *)&halves)[blockIdx.x / 2] = 7; // <- partly_global
        else
            *(volatile int *)&halves = 7;
    } else if (threadIdx.x == 0) {
        out[blockIdx.x] = atomicOr(&halves, 0);
    }
}

// One lane reads a whole word, then another lane reads half of it: the checks must not forget the
// first read.
template <bool WRONG> __global__ void partly_read(int *out, const int *)
{
    __shared__ int word;
    int t = threadIdx.x;
    if (t == 0)
        word = 0;
    __syncthreads();
    if (t == 0)
        out[t] = *(volatile int *)&word; // <- partly_read
    if (t == 1)
        out[t] = *(volatile short *)&word;
    if (!WRONG)
        __syncthreads();
    if (t == 32)
        *(volatile short *)&word = 7;
}

// ---- Three readers ------------------------------------------------------------------------------

// Three blocks read what the fourth then writes; only two of them signal to it after their reads.
__device__ int common, read_by;

template <bool WRONG> __global__ void third_block(int *out, const int *)
{
    int block = blockIdx.x;
    if (threadIdx.x == 0 && block < 3) {
        out[block] = common; // <- third_block
        __threadfence();
        if (!WRONG || block != 1)
            atomicAdd(&read_by, 1);
    } else if (threadIdx.x == 0) {
        while (atomicAdd(&read_by, 0) < (WRONG ? 2 : 3))
            ;
        __threadfence();
        common = 1;
    }
}

// Three blocks read a table in a loop, parts of it with another word for each lane. The fourth block then writes
// one word, but one of the three has not signalled to it after reading. (Such reads are series: races/series.c.)
__device__ int tables_read;

template <bool WRONG> __global__ void table_written(int *out, const int *in)
{
    int block = blockIdx.x, t = threadIdx.x, sum = 0;
    if (block < 3) {
#pragma unroll 1
        for (int i = 0; i < 2 * N; ++i)
            sum += in[i] + in[i + t] + in[i + t / 16 * 8]; // <- table_written
        out[block * N + t] = sum;
        __syncthreads();
        __threadfence();
        if (t == 0 && (!WRONG || block != 1))
            atomicAdd(&tables_read, 1);
    } else if (t == 0) {
        while (atomicAdd(&tables_read, 0) < (WRONG ? 2 : 3))
            ;
        __threadfence();
        const_cast<int *>(in)[2 * N + 5] = 1;
    }
}

// Three warps of one block read a word; the fourth overwrites it after waiting for two of them only.
template <bool WRONG> __global__ void third_warp(int *out, const int *in)
{
    int t = threadIdx.x, warp = t / 32;
    if (warp < 3) {
        out[t] = in[t % 32]; // <- third_warp
        if (!WRONG || warp != 1)
            asm volatile("bar.arrive 1, %0;" ::"n"(WRONG ? 96 : 128) : "memory");
    } else {
        asm volatile("bar.sync 1, %0;" ::"n"(WRONG ? 96 : 128) : "memory");
        const_cast<int *>(in)[t % 32] = t;
    }
}

// ---- More cases, each modelled on a bug report --------------------------------------------------

// A block reads the sum of the blocks before it after it has seen their flag. kokkos/kokkos#2681.
__device__ int sums_before[4], summed[4];

template <bool WRONG> __global__ void scan(int *out, const int *in)
{
    int block = blockIdx.x, sum = in[block];
    if (threadIdx.x)
        return;
    if (block > 0) {
        while (!atomicAdd(&summed[block - 1], 0))
            ;
        __threadfence();
        sum += sums_before[block - 1]; // <- scan
    }
    sums_before[block] = sum;
    if (!WRONG)
        __threadfence();
    atomicExch(&summed[block], 1);
    out[block] = sum;
}

// The last block has no fence after it has counted: reported under PTXSIM_CHECK=strict. pytorch/pytorch#193321.
__device__ int parts[4], came;

template <bool WRONG> __global__ void last_unfenced(int *out, const int *in)
{
    if (threadIdx.x)
        return;
    parts[blockIdx.x] = in[blockIdx.x];
    __threadfence();
    if (atomicAdd(&came, 1) < (int)gridDim.x - 1)
        return;
    if (!WRONG)
        __threadfence();
    for (unsigned i = 0; i < gridDim.x; ++i)
        out[i] = parts[i]; // <- last_unfenced
}

// A vote brings lanes together and orders no memory. NVIDIA/cuCollections#337.
template <bool WRONG> __global__ void vote(int *out, const int *in)
{
    __shared__ int counts[N / 32];
    int t = threadIdx.x, lane = t % 32;
    if (lane == 0)
        counts[t / 32] = 0;
    if (!WRONG)
        __syncwarp();
    unsigned odd = __ballot_sync(0xffffffff, in[t] % 2);
    if (odd >> lane & 1)
        atomicAdd(&counts[t / 32], 1); // <- vote
    __syncthreads();
    out[t] = counts[t / 32];
}

// A mask of 24 lanes for a warp of 32. catboost/catboost#2339.
template <bool WRONG> __global__ void short_mask(int *out, const int *in)
{
    unsigned mask = WRONG ? 0xffffff : 0xffffffff;
    out[threadIdx.x] = __shfl_sync(mask, in[threadIdx.x], 0); // <- short_mask
}

// A second norm is written to the place of the first, which one thread still adds up.
// pegainfer-project/pegainfer#410.
template <bool WRONG> __global__ void norms(int *out, const int *in)
{
    __shared__ int of_warps[N / 32];
    int t = threadIdx.x, sum = 0;
    if (t % 32 == 0)
        of_warps[t / 32] = in[t];
    __syncthreads();
    for (int i = 0; t == 0 && i < N / 32; ++i)
        sum += of_warps[i];
    if (!WRONG)
        __syncthreads();
    if (t % 32 == 0)
        of_warps[t / 32] = in[t + 1]; // <- norms
    out[t] = sum;
}

// Each lane reads a tile that the warp has stored from its fragments. JustVugg/colibri#1099.
template <bool WRONG> __global__ void stored_tile(int *out, const int *in)
{
    __shared__ int tiles[N / 32][256];
    int t = threadIdx.x, *tile = tiles[t / 32];
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, int> sums;
    nvcuda::wmma::fill_fragment(sums, in[0]);
    nvcuda::wmma::store_matrix_sync(tile, sums, 16, nvcuda::wmma::mem_row_major);
    if (!WRONG)
        __syncwarp();
    out[t] = tile[t % 32 * 8]; // <- stored_tile
}

// An exchange whose result nobody uses is only a store: the word need not have been written before.
template <bool WRONG> __global__ void exchanged(int *out, const int *)
{
    int before = atomicExch(&out[threadIdx.x], 1); // <- exchanged
    if (WRONG)
        out[threadIdx.x] = before;
}

// ---- Running them -------------------------------------------------------------------------------

// clang-format off
#define CASE(name, blocks) {#name, {name<false>, name<true>}, blocks}
// clang-format on
static const struct {
    const char *name;
    void (*kernel[2])(int *, const int *);
    int blocks;
} cases[] = {
    CASE(copy_wait, 1),
    CASE(copy_groups, 1),
    CASE(copy_reuse, 1),
    CASE(read_early, 1),
    CASE(overwrite, 1),
    CASE(warp_step, 1),
    CASE(named, 1),
    CASE(divergent, 1),
    CASE(parity, 1),
    CASE(arrivals, 1),
    CASE(copy_mbarrier, 1),
    CASE(bounds, 1),
    CASE(queue, 1),
    CASE(global_queue, 4),
    CASE(fence_before_barrier, 2),
    CASE(fence_before_write, 2),
    CASE(last_block, 4),
    CASE(border, 4),
    CASE(uninitialised, 1),
    CASE(fresh, 1),
    CASE(helper, 1),
    CASE(flag, 1),
    CASE(flag_counted, 1),
    CASE(chain, 4),
    CASE(twice_locked, 4),
    CASE(header, 1),
    CASE(missed_end, 1),
    CASE(copy_seen, 1),
    CASE(copy_own_wait, 1),
    CASE(copy_drained, 1),
    CASE(wmma_in_place, 1),
    CASE(wmma_looked_at, 1),
    CASE(in_step, 1),
    CASE(in_step_global, 1),
    CASE(lane_flag, 1),
    CASE(polled, 1),
    CASE(left, 1),
    CASE(two_barriers, 1),
    CASE(endless, 1),
    CASE(endless_stores, 1),
    CASE(in_place, 4),
    CASE(same_tile, 1),
    CASE(walks, 4),
    CASE(no_step, 1),
    CASE(warp_spins, 1),
    CASE(lanes_spin, 1),
    CASE(overlap, 1),
    CASE(overlap_global, 1),
    CASE(neighbour, 1),
    CASE(runs_over, 1),
    CASE(turns, 1),
    CASE(two_tiles, 1),
    CASE(gathers, 1),
    CASE(outside, 1),
    CASE(outside_sync, 1),
    CASE(outside_shuffle, 1),
    CASE(outside_source, 1),
    CASE(block_scope, 4),
    CASE(sent_to_block, 2),
    CASE(received_for_block, 2),
    CASE(locked, 4),
    CASE(buckets, 4),
    CASE(long_history, 4),
    CASE(crowded, 16),
    CASE(copy_source, 1),
    CASE(copy_source_again, 1),
    CASE(vector_stored, 4),
    CASE(vector_loaded, 4),
    CASE(same_word, 1),
    CASE(last_lane, 1),
    CASE(same_values, 4),
    CASE(same_row, 1),
    CASE(same_matrix, 4),
    CASE(partly, 1),
    CASE(partly_global, 4),
    CASE(partly_read, 1),
    CASE(third_block, 4),
    CASE(table_written, 4),
    CASE(third_warp, 1),
    CASE(borrowed, 1),
    CASE(borrowed_line, 1),
    CASE(scan, 4),
    CASE(last_unfenced, 4),
    CASE(vote, 1),
    CASE(short_mask, 1),
    CASE(norms, 1),
    CASE(stored_tile, 1),
    CASE(exchanged, 1),
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, [](const auto &c, auto kernel) {
        static int input[4 * N];
        int *in, *out;
        for (int i = 0; i < 4 * N; ++i)
            input[i] = i;
        cudaMalloc(&in, sizeof input);
        cudaMalloc(&out, sizeof input);
        cudaMemcpy(in, input, sizeof input, cudaMemcpyHostToDevice);
        kernel<<<c.blocks, N>>>(out, in);
    });
}

// A kernel whose lines seem to be in a header of the toolkit.
#line 1 "/opt/cuda/include/racing.h"
template <bool WRONG> __global__ void header(int *out, const int *in)
{
    __shared__ int tile[N];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (!WRONG)
        __syncthreads();
    out[t] = tile[N - 1 - t];
}

#line 1 "/opt/cutlass/arch/memory_sm80.h"
template <bool WRONG> __global__ void borrowed_line(int *out, const int *in)
{
    __shared__ int tile[N + 1];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (!WRONG && t == 0)
        tile[N] = 0;
    __syncthreads();
    out[t] = tile[t + 1];
}
