// hopper_cases.cu: small programs for sm_90a, each in a right version and in one with a planted
// bug. test_hopper.bats runs them: `cases NAME right|wrong [SCHEDULES]`. The line that a report
// must name is marked "<- NAME".
#include <cuda.h> // types only

#include <cstdint>

#include "cases.h"

constexpr int N = 128; // threads of a block, and of a warpgroup
constexpr int ROWS = 8, ROW_BYTES = 64, BOX = ROWS * ROW_BYTES;

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

struct alignas(1024) tiles {
    uint8_t a[4096], b[BOX]; // tiles as TMA writes them: rows of 64 bytes, a swizzle of 64
    uint64_t full;
};

// ---- wgmma --------------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t descriptor(const void *tile)
{
    return shared_address(tile) >> 4 | (uint64_t)1 << 16 | (uint64_t)(8 * ROW_BYTES >> 4) << 32 |
           (uint64_t)2 << 62;
}

__device__ __forceinline__ void pin(float (&d)[4])
{
    for (int i = 0; i < 4; ++i)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define MULTIPLY(d, a, b)                                                                          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                       \
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, "  \
                 "p, 1, 1;\n}"                                                                     \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "l"(a), "l"(b), "r"(1))
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")

__device__ __forceinline__ void fill(tiles &t, bool fenced)
{
    for (int i = threadIdx.x; i < 4096 + BOX; i += N)
        t.a[i] = 0x38;
    if (fenced)
        proxy_fence();
    __syncthreads();
}

template <bool WRONG> __global__ void no_wait(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {1, 2, 3, 4};
    fill(t, true);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    if (!WRONG)
        WAIT;
    pin(d);
    out[threadIdx.x] = (int)(d[0] + d[1] + d[2] + d[3]); // <- no_wait
    WAIT;
}

template <bool WRONG> __global__ void no_fence(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {1, 2, 3, 4};
    fill(t, true);
    for (int i = 0; i < 2; ++i) {
        pin(d);
        if (!WRONG || i == 0)
            FENCE;
        MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- no_fence
        COMMIT;
        WAIT;
        pin(d);
        for (int k = 0; k < 4; ++k)
            d[k] *= 0.5f;
    }
    out[threadIdx.x] = (int)(d[0] + d[1] + d[2] + d[3]);
}

template <bool WRONG> __global__ void no_proxy_fence(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, !WRONG);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- no_proxy_fence
    COMMIT;
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void unfilled(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    for (int i = threadIdx.x; i < 4096 + BOX; i += N)
        if (!WRONG || i != 4096 + ROW_BYTES)
            t.a[i] = 0x38;
    proxy_fence();
    __syncthreads();
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- unfilled
    COMMIT;
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

// An operand is overwritten while the product is being computed.
template <bool WRONG> __global__ void overwritten(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    if (!WRONG)
        WAIT;
    __syncthreads();
    t.b[threadIdx.x] = 0; // <- overwritten
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0] + t.b[threadIdx.x];
}

// Barriers before and after the write order it for the threads, but not for the product.
template <bool WRONG> __global__ void overwritten_between(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    if (!WRONG)
        WAIT;
    __syncthreads();
    t.b[threadIdx.x] = 0; // <- overwritten_between
    __syncthreads();
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void three_warps(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    if (!WRONG || threadIdx.x < 96) {
        pin(d);
        FENCE;
        MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- three_warps
        COMMIT;
        WAIT;
        pin(d);
    }
    out[threadIdx.x] = (int)d[0];
}

// Three warps of a warpgroup come to wgmma's wait, the fourth waits at a barrier.
template <bool WRONG> __global__ void elsewhere(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    if (!WRONG || threadIdx.x < 96) {
        pin(d);
        FENCE;
        MULTIPLY(d, descriptor(t.a), descriptor(t.b));
        COMMIT;
        WAIT; // <- elsewhere
        pin(d);
    }
    __syncthreads();
    out[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void outside(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b) + (WRONG ? 65536 >> 4 : 0)); // <- outside
    COMMIT;
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void registers(int *out, const CUtensorMap *)
{
    if (threadIdx.x < N || !WRONG)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 248;"); // <- registers
    out[threadIdx.x % N] = 1;
}

// The wanted registers fit in an SM, but the block was launched with 64 registers a thread.
template <bool WRONG>
__global__ void __maxnreg__(64) registers_of_block(int *out, const CUtensorMap *)
{
    if (threadIdx.x < N)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else if (!WRONG)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 88;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 96;"); // <- registers_of_block
    out[threadIdx.x % N] = 1;
}

// A wait for products is no barrier for ordinary reads by threads.
template <bool WRONG> __global__ void wait_is_no_barrier(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    __shared__ int x;
    float d[4] = {};
    if (threadIdx.x == 0)
        x = 7;
    fill(t, true);
    if (threadIdx.x == 32)
        out[1] = x;
    if (!WRONG)
        __syncthreads();
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    WAIT;
    pin(d);
    if (threadIdx.x == 0)
        x = (int)d[0]; // <- wait_is_no_barrier
    __syncthreads();
    out[2 + threadIdx.x] = x;
}

// ---- Bulk copies --------------------------------------------------------------------------------

__device__ __forceinline__ void load_box(void *to, const CUtensorMap *map, uint64_t *full)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %2}], [%3];" ::"r"(shared_address(to)),
                 "l"(map), "r"(0), "r"(shared_address(full))
                 : "memory");
}

__device__ __forceinline__ void initialise(tiles &t)
{
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&t.full))
                     : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

__device__ __forceinline__ void expect(tiles &t, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&t.full)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void start(tiles &t, const CUtensorMap *map, uint32_t bytes)
{
    initialise(t);
    if (threadIdx.x == 0) {
        expect(t, bytes);
        load_box(t.b, map, &t.full);
    }
}

__device__ __forceinline__ void await(uint32_t mbarrier, int parity = 0)
{
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(
            mbarrier),
        "r"(parity)
        : "memory");
}

__device__ __forceinline__ void await(tiles &t, int parity = 0)
{
    await(shared_address(&t.full), parity);
}

template <bool WRONG> __global__ void early(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, map, BOX);
    if (!WRONG)
        await(t);
    out[threadIdx.x] = t.b[threadIdx.x]; // <- early
    await(t);
}

// In the wrong version, only one lane of each warp waits for the box of a product.
template <bool WRONG> __global__ void multiplied_early(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    float d[4] = {};
    fill(t, true);
    start(t, map, BOX);
    if (!WRONG || threadIdx.x % 32 == 0)
        await(t);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- multiplied_early
    COMMIT;
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
    await(t);
}

// One thread waits for a box, and others read it. Their barrier comes after the issue of the copy, but not after the
// wait. The flag has no fence and orders nothing: it only delays the read.
template <bool WRONG> __global__ void met_before(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ volatile int seen;
    if (threadIdx.x == 0)
        seen = 0;
    start(t, map, BOX);
    __syncthreads();
    if (threadIdx.x == 0) {
        await(t);
        seen = 1;
    }
    if (!WRONG)
        __syncthreads();
    while (threadIdx.x >= 32 && !seen)
        ;
    if (threadIdx.x >= 32)
        out[threadIdx.x] = t.b[threadIdx.x]; // <- met_before
}

// One lane waits for a box on behalf of its warp.
template <bool WRONG> __global__ void lane_waits(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, map, BOX);
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    if (threadIdx.x == 0)
        await(t);
    if (!WRONG)
        __syncwarp();
    out[threadIdx.x] = t.b[threadIdx.x]; // <- lane_waits
}

// Two boxes with an mbarrier each: a warp waits for one box and reads the other.
template <bool WRONG> __global__ void other_awaited(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ uint64_t other;
    uint32_t full = shared_address(&other);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
    start(t, map, BOX);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(BOX)
                     : "memory");
        load_box(t.a, map, &other);
    }
    __syncthreads();
    if (!WRONG || threadIdx.x < 32)
        await(t);
    if (!WRONG || threadIdx.x >= 32)
        await(full);
    out[threadIdx.x] = t.b[threadIdx.x]; // <- other_awaited
    await(full);
}

// A warp waits for a box and signals to the others by an mbarrier, on which it arrives too early.
template <bool WRONG> __global__ void handed_on(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ uint64_t there;
    uint32_t handed = shared_address(&there);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(handed) : "memory");
    start(t, map, BOX);
    if (threadIdx.x < 32) {
        if (!WRONG)
            await(t);
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(handed) : "memory");
        await(t);
    } else {
        await(handed);
        out[threadIdx.x] = t.b[threadIdx.x]; // <- handed_on
    }
}

template <bool WRONG> __global__ void expected(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, map, WRONG ? BOX + 16 : BOX);
    await(t); // <- expected
    out[threadIdx.x] = t.b[threadIdx.x];
}

// A box is copied into a tile that other warps still read.
template <bool WRONG> __global__ void reused(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    t.b[threadIdx.x] = (uint8_t)threadIdx.x;
    proxy_fence();
    __syncthreads();
    int mine = t.b[N - 1 - threadIdx.x];
    proxy_fence();
    uint32_t full = shared_address(&t.full);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (!WRONG)
        __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(BOX)
                     : "memory");
        load_box(t.b, map, &t.full); // <- reused
    }
    __syncthreads();
    await(t);
    out[threadIdx.x] = mine + t.b[threadIdx.x];
}

// A tile is given back before its product has read it, and is filled again: the copy may come before the wait for
// the product or after it.
template <bool WRONG> __global__ void released_early(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ uint64_t empty;
    float d[4] = {};
    uint32_t full = shared_address(&t.full), released = shared_address(&empty);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(released) : "memory");
    }
    fill(t, true);
    if (threadIdx.x >= N) { // the second warpgroup
        if (threadIdx.x == N) {
            await(released);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
                         "r"(BOX)
                         : "memory");
            load_box(t.b, map, &t.full); // <- released_early
            await(full);
        }
        return;
    }
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    if (!WRONG)
        WAIT;
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(released) : "memory");
    WAIT;
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

// A product belongs to the warpgroup: when one of its threads has waited, all four warps have read the tile.
template <bool WRONG> __global__ void one_waits(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    float d[4] = {};
    uint32_t full = shared_address(&t.full);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fill(t, true);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b));
    COMMIT;
    if (!WRONG)
        WAIT;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(BOX)
                     : "memory");
        load_box(t.b, map, &t.full); // <- one_waits
    }
    WAIT;
    await(t);
    pin(d);
    out[threadIdx.x] = (int)d[0] + t.b[threadIdx.x];
}

template <bool WRONG> __global__ void no_map(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, WRONG ? (const CUtensorMap *)out : map, BOX); // <- no_map
    await(t);
    out[threadIdx.x] = t.b[threadIdx.x];
}

__device__ __forceinline__ void store_row(int *out, const int *row)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
                 "r"(shared_address(row)), "r"(N * 4)
                 : "memory");
}

template <bool WRONG> __global__ void store_unfenced(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = threadIdx.x;
    if (!WRONG)
        proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row); // <- store_unfenced
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

template <bool WRONG> __global__ void store_reused(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = threadIdx.x;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row); // <- store_reused
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!WRONG)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    row[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A store's source is overwritten before the store is waited for: by all threads, between two
// barriers, or (store_own) by the storing thread.
template <bool WRONG> __global__ void store_between(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = threadIdx.x;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!WRONG)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
    row[threadIdx.x] = 0; // <- store_between
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <bool WRONG> __global__ void store_own(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = threadIdx.x;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!WRONG)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        row[0] = 1; // <- store_own
        proxy_fence();
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// Threads read a box by ordinary loads, and the next box is copied to its place.
template <bool WRONG> __global__ void read_unfenced(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, map, BOX);
    await(t);
    out[threadIdx.x] = t.b[threadIdx.x]; // <- read_unfenced
    if (!WRONG)
        proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(t, BOX);
        load_box(t.b, map, &t.full);
    }
    await(t, 1);
}

// There is a fence, but after the barrier: the thread that issues the copy need not see its effect.
template <bool WRONG> __global__ void fenced_late(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    start(t, map, BOX);
    await(t);
    if (threadIdx.x >= 32) {
        out[threadIdx.x] = t.b[threadIdx.x]; // <- fenced_late
        if (!WRONG)
            proxy_fence();
    }
    __syncthreads();
    if (threadIdx.x >= 32)
        proxy_fence();
    if (threadIdx.x == 0) {
        expect(t, BOX);
        load_box(t.b, map, &t.full);
    }
    await(t, 1);
}

// A row of global memory that threads of this or of another block have written is read by a bulk copy. The fence is on
// the writers' side, and must be one for global memory.
__device__ int flag;
__device__ __align__(16) int written[N];

template <bool WRONG> __device__ __forceinline__ void write_row()
{
    written[threadIdx.x] = threadIdx.x; // <- global_unfenced, global_flag
    if (WRONG)
        proxy_fence();
    else
        asm volatile("fence.proxy.async.global;" ::: "memory");
}

__device__ __forceinline__ void read_row(int *out, tiles &t)
{
    initialise(t);
    if (threadIdx.x == 0) {
        expect(t, sizeof written);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" ::"r"(shared_address(t.a)),
                     "l"(written), "r"((int)sizeof written), "r"(shared_address(&t.full))
                     : "memory");
    }
    await(t);
    out[threadIdx.x] = ((int *)t.a)[threadIdx.x];
}

template <bool WRONG> __global__ void global_unfenced(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    write_row<WRONG>();
    __syncthreads();
    read_row(out, t);
}

template <bool WRONG> __global__ void global_flag(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    if (blockIdx.x == 0) {
        write_row<WRONG>();
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            atomicExch(&flag, 1);
        return;
    }
    if (threadIdx.x == 0)
        while (!atomicAdd(&flag, 0))
            ;
    __syncthreads();
    read_row(out, t);
}

template <bool WRONG> __global__ void store_unwaited(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = threadIdx.x;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row); // <- store_unwaited
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!WRONG)
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

__device__ __forceinline__ void store_box(const CUtensorMap *map, const void *from, int row)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
            map),
        "r"(0), "r"(row), "r"(shared_address(from))
        : "memory");
}

// A box lies half outside of the tensor: only the half inside is stored, and must have been
// written.
template <bool WRONG> __global__ void store_outside(int *, const CUtensorMap *map)
{
    __shared__ tiles t;
    for (int i = threadIdx.x; i < (WRONG ? BOX / 4 : BOX / 2); i += N)
        t.b[i] = 1;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_box(map, t.b, ROWS / 2); // <- store_outside
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// ---- The cases of the table of race tools (appendix A), each modelled on a bug report ------------

// A block polls a flag, and TMA then fetches what was written before the flag. deepseek-ai/DeepEP#621.
template <bool WRONG> __global__ void flag_polled(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    if (blockIdx.x == 0) {
        written[threadIdx.x] = threadIdx.x; // <- flag_polled
        __syncthreads();
        if (threadIdx.x == 0)
            asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(&flag) : "memory");
        return;
    }
    int raised = 0;
    while (!raised)
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(raised) : "l"(&flag) : "memory");
    if (!WRONG)
        asm volatile("fence.proxy.async;" ::: "memory");
    read_row(out, t);
}

__device__ __forceinline__ void load_row(int *to, const int *from, uint64_t *full)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(full)),
        "r"(N * 4)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(N * 4), "r"(shared_address(full))
                 : "memory");
}

// A warp reads a row in a stage; then its first lane has the next row loaded there. deepseek-ai/DeepEP#642.
template <bool WRONG> __global__ void read_then_load(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    int *row = (int *)t.a, sum = 0;
    initialise(t);
    if (threadIdx.x >= 32)
        return;
    for (unsigned round = 0; round < 2; ++round) {
        if (threadIdx.x == 0)
            load_row(row, written, &t.full);
        await(t, round);
        sum += row[threadIdx.x]; // <- read_then_load
        if (!WRONG)
            proxy_fence();
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}

// A copy through two stages: the next load into a stage waits for all stores but one, and the store left out may be
// this stage's. deepseek-ai/DeepEP#657.
template <bool WRONG> __global__ void copied_through(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    __shared__ uint64_t second;
    uint64_t *full[2] = {&t.full, &second};
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&second))
                     : "memory");
    initialise(t);
    if (threadIdx.x)
        return;
    for (int i = 0; i < 2; ++i)
        load_row((int *)t.a + i * N, written, full[i]);
    for (int i = 0; i < 4; ++i) {
        int *stage = (int *)t.a + i % 2 * N;
        await(shared_address(full[i % 2]), i / 2);
        store_row(out + i % 2 * N, stage); // <- copied_through
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (WRONG)
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        else
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        if (i < 2)
            load_row(stage, written, full[i % 2]);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A ring of two stages: one warp loads rows, three read them and give the stage back, with a fence on one of two
// paths. The right version is one that racecheck is said to report as a race. Dao-AILab/flash-attention#2462.
template <bool WRONG> __global__ void two_paths(int *out, const CUtensorMap *)
{
    __shared__ tiles t;
    __shared__ uint64_t full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[i]))
                         : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 96;" ::"r"(shared_address(&empty[i]))
                         : "memory");
        }
    initialise(t);
    int warp = threadIdx.x / 32, sum = 0, rounds = blockDim.x / 16;
    for (int i = 0; i < rounds; ++i) {
        int *stage = (int *)t.a + i % 2 * N;
        if (warp == 0) {
            if (i >= 2)
                await(shared_address(&empty[i % 2]), i / 2 - 1 & 1);
            if (threadIdx.x == 0)
                load_row(stage, written, &full[i % 2]);
        } else {
            await(shared_address(&full[i % 2]), i / 2 & 1);
            sum += stage[threadIdx.x]; // <- two_paths
            if (warp == 1 || !WRONG)
                proxy_fence();
            asm volatile(
                "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&empty[i % 2]))
                : "memory");
        }
    }
    out[threadIdx.x] = sum;
}

// One warp stores an address, and another reads it at the end; the barriers in between stand in a
// loop over tiles, and there may be no tile. NVIDIA/cutlass#2835.
template <bool WRONG> __global__ void address_of_none(int *out, const CUtensorMap *)
{
    __shared__ int address;
    if (threadIdx.x == 0)
        address = blockDim.x;
    for (unsigned tile = 0; tile < (WRONG ? blockDim.x - N : blockDim.x / N); ++tile)
        __syncthreads();
    if (threadIdx.x == N - 1)
        out[0] = address; // <- address_of_none
}

// The fence stands in a loop over tiles, and there may be no tile. MoonshotAI/FlashKDA#24.
template <bool WRONG> __global__ void no_tiles(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    row[threadIdx.x] = 0;
    for (unsigned tile = 0; tile < blockDim.x - N; ++tile) {
        row[threadIdx.x] += tile;
        proxy_fence();
    }
    if (!WRONG)
        proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_row(out, row); // <- no_tiles
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A tile is stored in a loop; nothing waits before the next tile is written to its place. NVIDIA/Fuser#5448.
template <bool WRONG> __global__ void store_loop(int *out, const CUtensorMap *)
{
    __shared__ __align__(16) int row[N];
    for (int round = 0; round < 2; ++round) {
        row[threadIdx.x] = round;
        proxy_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            store_row(out, row); // <- store_loop
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            if (!WRONG)
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A stage that threads have read is given back by an mbarrier, with a fence of one warp only.
// NVIDIA/TransformerEngine#2695.
template <bool WRONG> __global__ void given_back(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ uint64_t empty;
    uint32_t released = shared_address(&empty);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(released) : "memory");
    start(t, map, BOX);
    await(t);
    out[threadIdx.x] = t.b[threadIdx.x]; // <- given_back
    if (!WRONG || threadIdx.x < 32)
        proxy_fence();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(released) : "memory");
    if (threadIdx.x == 0) {
        await(released);
        expect(t, BOX);
        load_box(t.b, map, &t.full);
    }
    await(t, 1);
}

// A product of two boxes waits for one of them. facebookexperimental/CUTracer#106.
template <bool WRONG> __global__ void one_awaited(int *out, const CUtensorMap *map)
{
    __shared__ tiles t;
    __shared__ uint64_t other;
    float d[4] = {};
    uint32_t full = shared_address(&other);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
    fill(t, true);
    start(t, map, BOX);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(BOX)
                     : "memory");
        load_box(t.a, map, &other);
    }
    await(t);
    if (!WRONG)
        await(full);
    pin(d);
    FENCE;
    MULTIPLY(d, descriptor(t.a), descriptor(t.b)); // <- one_awaited
    COMMIT;
    WAIT;
    await(full);
    pin(d);
    out[threadIdx.x] = (int)d[0];
}

// ---- Running them -------------------------------------------------------------------------------

#define CASE(name, warpgroups) BLOCKS(name, warpgroups, 1)
#define BLOCKS(name, warpgroups, blocks)                                                           \
    {                                                                                              \
#name, {name < false>, name < true> }, warpgroups, blocks                                  \
    }
static const struct {
    const char *name;
    void (*kernel[2])(int *, const CUtensorMap *);
    int warpgroups, blocks;
} cases[] = {
    CASE(no_wait, 1),
    CASE(no_fence, 1),
    CASE(no_proxy_fence, 1),
    CASE(unfilled, 1),
    CASE(multiplied_early, 1),
    CASE(overwritten, 1),
    CASE(overwritten_between, 1),
    CASE(three_warps, 1),
    CASE(outside, 1),
    CASE(elsewhere, 1),
    CASE(one_waits, 1),
    CASE(store_outside, 1),
    CASE(released_early, 2),
    CASE(registers, 3),
    CASE(registers_of_block, 2),
    CASE(early, 1),
    CASE(met_before, 1),
    CASE(lane_waits, 1),
    CASE(other_awaited, 1),
    CASE(handed_on, 1),
    CASE(expected, 1),
    CASE(reused, 1),
    CASE(no_map, 1),
    CASE(store_unfenced, 1),
    CASE(store_reused, 1),
    CASE(store_between, 1),
    CASE(store_own, 1),
    CASE(read_unfenced, 1),
    CASE(fenced_late, 1),
    CASE(global_unfenced, 1),
    BLOCKS(global_flag, 1, 2),
    CASE(store_unwaited, 1),
    BLOCKS(flag_polled, 1, 2),
    CASE(read_then_load, 1),
    CASE(copied_through, 1),
    CASE(two_paths, 1),
    CASE(address_of_none, 1),
    CASE(wait_is_no_barrier, 1),
    CASE(no_tiles, 1),
    CASE(store_loop, 1),
    CASE(given_back, 1),
    CASE(one_awaited, 1),
};

static bool encode(CUtensorMap *map, void *tensor)
{
    typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                               const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void *function;
    cudaDriverEntryPointQueryResult found;
    cuuint64_t size[2] = {ROW_BYTES, ROWS}, stride[1] = {ROW_BYTES};
    cuuint32_t box[2] = {ROW_BYTES, ROWS}, step[2] = {1, 1};
    return !cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                             cudaEnableDefault, &found) &&
           !((encode_fn *)function)(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, tensor, size, stride,
                                    box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                    CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, [](const auto &c, auto kernel) {
        static uint8_t input[4096];
        alignas(128) CUtensorMap map;
        void *tensor;
        CUtensorMap *at_map;
        int *out;
        cudaMalloc(&tensor, sizeof input);
        cudaMalloc(&at_map, sizeof map);
        cudaMalloc(&out, sizeof input);
        if (!encode(&map, tensor))
            exit(2);
        cudaMemcpy(tensor, input, sizeof input, cudaMemcpyHostToDevice);
        cudaMemcpy(at_map, &map, sizeof map, cudaMemcpyHostToDevice);
        kernel<<<c.blocks, c.warpgroups * N>>>(out, at_map);
    });
}
