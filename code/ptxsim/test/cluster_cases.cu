// cluster_cases.cu: small programs with clusters of two blocks, each in a right version and in one
// with a planted bug. test_cluster.bats runs them: `cases NAME right|wrong [SCHEDULES]`. The line
// that a report must name is marked "<- NAME".
#include <cooperative_groups.h>

#include <cstdint>

#include "cases.h"

namespace cg = cooperative_groups;

constexpr int N = 64; // threads of a block
constexpr int BYTES = N * 4;

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// The address of a variable in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32_t in_block(const void *p, uint32_t rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
    return there;
}

__device__ __forceinline__ void init(uint64_t *barrier, uint32_t arrivals)
{
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;"
                     "\nfence.proxy.async;" ::"r"(shared_address(barrier)),
                     "r"(arrivals)
                     : "memory");
}

__device__ __forceinline__ void expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void arrive_at(uint64_t *barrier, uint32_t rank)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                     in_block(barrier, rank))
                 : "memory");
}

__device__ __forceinline__ void wait_for(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

#define ARRIVE asm volatile("barrier.cluster.arrive;" ::: "memory")
#define WAIT asm volatile("barrier.cluster.wait;" ::: "memory")
#define MULTICAST(to, from, barrier, ranks)                                                        \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"   \
                 "cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),                    \
                 "l"(from), "r"(BYTES), "r"(shared_address(barrier)), "h"((uint16_t)(ranks))       \
                 : "memory")

#define LOAD(space, value, at) asm volatile("ld." space ".u32 %0, [%1];" : "=r"(value) : "r"(at))
#define STORE(at, value)                                                                           \
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory")
#define SEND(to, from, barrier)                                                                    \
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], "   \
                 "[%1], %2, [%3];" ::"r"(to),                                                      \
                 "r"(shared_address(from)), "r"(BYTES), "r"(barrier)                               \
                 : "memory")

// ---- The barrier of the cluster -----------------------------------------------------------------

template <bool WRONG> __global__ void not_begun(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    if (!WRONG)
        cluster.sync();
    theirs[threadIdx.x] = threadIdx.x; // <- not_begun
    cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = mine[threadIdx.x];
}

template <bool WRONG> __global__ void read_early(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    mine[threadIdx.x] = 0;
    cluster.sync();
    mine[threadIdx.x] = threadIdx.x; // <- read_early
    if (WRONG)
        __syncthreads();
    else
        cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = theirs[N - 1 - threadIdx.x];
    cluster.sync();
}

template <bool WRONG> __global__ void relaxed(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    mine[threadIdx.x] = threadIdx.x;
    if (WRONG)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    else
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    int value = theirs[threadIdx.x]; // <- relaxed
    cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = value;
}

// After fence.mbarrier_init the cluster's barrier makes new mbarriers visible to other blocks, even
// if the arrival there is relaxed.
template <bool WRONG> __global__ void initialised(int *out)
{
    __shared__ uint64_t barrier;
    uint32_t other = cg::this_cluster().block_rank() ^ 1;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier))
                     : "memory");
    if (!WRONG)
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0)
        arrive_at(&barrier, other); // <- initialised
    wait_for(&barrier, 0);
    cg::this_cluster().sync();
    out[blockIdx.x * N + threadIdx.x] = 1;
}

template <bool WRONG> __global__ void written_late(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    mine[threadIdx.x] = 0;
    cluster.sync();
    theirs[threadIdx.x] = threadIdx.x + 1; // <- written_late
    if (!WRONG)
        cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = mine[threadIdx.x];
    cluster.sync();
}

template <bool WRONG> __global__ void overwritten(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    mine[threadIdx.x] = threadIdx.x;
    cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = theirs[threadIdx.x];
    if (!WRONG)
        cluster.sync();
    mine[threadIdx.x] = -1; // <- overwritten
    cluster.sync();
}

template <bool WRONG> __global__ void left(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = threadIdx.x;
    cluster.sync();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[blockIdx.x * N + threadIdx.x] = theirs[threadIdx.x]; // <- left
    if (!WRONG)
        cluster.sync();
}

template <bool WRONG> __global__ void counted(int *out)
{
    __shared__ int count;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0)
        count = 0;
    cluster.sync();
    int *first = cluster.map_shared_rank(&count, 0);
    if (threadIdx.x == 0 && WRONG)
        *first = *first + 1; // <- counted
    else if (threadIdx.x == 0)
        atomicAdd(first, 1);
    cluster.sync();
    out[blockIdx.x * N + threadIdx.x] = count;
}

template <bool WRONG> __global__ void twice(int *)
{
    ARRIVE;
    if (!WRONG)
        WAIT;
    ARRIVE; // <- twice
    WAIT;
}

template <bool WRONG> __global__ void unasked(int *)
{
    if (!WRONG)
        ARRIVE;
    WAIT; // <- unasked
}

template <bool WRONG> __global__ void stuck(int *)
{
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0 && !WRONG)
        arrive_at(&full, 1);
    if (cluster.block_rank() == 1)
        wait_for(&full, 0); // <- stuck
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0 && WRONG)
        arrive_at(&full, 1);
}

// ---- Addresses ----------------------------------------------------------------------------------

template <bool WRONG> __global__ void outside(int *out)
{
    __shared__ int mine[N];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = threadIdx.x;
    cluster.sync();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[blockIdx.x * N + threadIdx.x] = theirs[threadIdx.x + (WRONG ? 4096 : 0)]; // <- outside
    cluster.sync();
}

template <bool WRONG> __global__ void not_its_own(int *out)
{
    __shared__ int mine[N];
    int value;
    mine[threadIdx.x] = threadIdx.x;
    ARRIVE;
    WAIT;
    uint32_t at = in_block(&mine[threadIdx.x], 1);
    if (WRONG)
        LOAD("shared", value, at); // <- not_its_own
    else
        LOAD("shared::cluster", value, at);
    ARRIVE;
    WAIT;
    out[blockIdx.x * N + threadIdx.x] = value;
}

template <bool WRONG> __global__ void no_such_rank(int *out)
{
    __shared__ int mine[N];
    out[blockIdx.x * N + threadIdx.x] = in_block(mine, WRONG ? 2 : 1) > 0; // <- no_such_rank
}

// ---- mbarriers, and copies ----------------------------------------------------------------------

template <bool WRONG> __global__ void handed_over(int *out)
{
    __shared__ int mine[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, N);
    cluster.sync();
    if (cluster.block_rank() == 0) {
        STORE(in_block(&mine[threadIdx.x], 1), threadIdx.x); // <- handed_over
        arrive_at(&full, 1);
        return; // block 1 needs nothing more from this block
    }
    if (!WRONG)
        wait_for(&full, 0);
    out[threadIdx.x] = mine[N - 1 - threadIdx.x];
    if (WRONG)
        wait_for(&full, 0);
}

template <bool WRONG> __global__ void multicast(int *out)
{
    __shared__ alignas(16) int tile[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    cluster.sync();
    if (threadIdx.x == 0)
        expect(&full, BYTES);
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        MULTICAST(tile, out, &full, 3); // <- multicast
    cluster.sync();
    if (!WRONG || cluster.block_rank() == 0)
        wait_for(&full, 0);
    out[N + blockIdx.x * N + threadIdx.x] = tile[threadIdx.x];
    if (WRONG && cluster.block_rank() == 1)
        wait_for(&full, 0);
    cluster.sync();
}

// Block 1 waits for its tile, and block 0 reads the tile there. In the wrong version the last
// barrier of the two blocks comes before the wait.
template <bool WRONG> __global__ void read_there(int *out)
{
    __shared__ alignas(16) int tile[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    int *theirs = cluster.map_shared_rank(tile, 1);
    init(&full, 1);
    cluster.sync();
    if (threadIdx.x == 0)
        expect(&full, BYTES);
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        MULTICAST(tile, out, &full, 3);
    cluster.sync();
    if (!WRONG || cluster.block_rank() == 1)
        wait_for(&full, 0);
    if (!WRONG)
        cluster.sync();
    if (cluster.block_rank() == 0)
        out[N + threadIdx.x] = theirs[threadIdx.x]; // <- read_there
    wait_for(&full, 0);
    cluster.sync();
}

template <bool WRONG> __global__ void reused(int *out)
{
    __shared__ alignas(16) int tile[N];
    __shared__ uint64_t full, empty;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    init(&empty, 2 * N);
    cluster.sync();
    int sum = 0;
    for (int round = 0; round < 2; ++round) {
        if (threadIdx.x == 0)
            expect(&full, BYTES);
        if (cluster.block_rank() == 0 && threadIdx.x == 0) {
            if (round && !WRONG)
                wait_for(&empty, 0);
            MULTICAST(tile, out, &full, 3); // <- reused
        }
        wait_for(&full, round);
        sum += tile[threadIdx.x];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        arrive_at(&empty, 0);
    }
    cluster.sync();
    out[N + blockIdx.x * N + threadIdx.x] = sum;
}

template <bool WRONG> __global__ void unwaited(int *out)
{
    __shared__ alignas(16) int tile[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    cluster.sync();
    if (threadIdx.x == 0)
        expect(&full, BYTES);
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        MULTICAST(tile, out, &full, 2); // <- unwaited
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], %1;" ::"r"(
                         shared_address(&full)),
                     "r"(BYTES)
                     : "memory");
    if (!WRONG)
        wait_for(&full, 0);
    cluster.sync();
}

template <bool WRONG> __global__ void sent(int *out)
{
    __shared__ alignas(16) int from[N], to[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    from[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    asm volatile("fence.proxy.async;" ::: "memory");
    cluster.sync();
    uint32_t other = cluster.block_rank() ^ 1;
    if (threadIdx.x == 0) {
        expect(&full, BYTES);
        SEND(in_block(to, other), from, in_block(&full, WRONG ? other ^ 1 : other)); // <- sent
    }
    wait_for(&full, 0);
    out[blockIdx.x * N + threadIdx.x] = to[threadIdx.x];
    cluster.sync();
}

#define TOLD ".shared::cluster.mbarrier::complete_tx::bytes"
#define TELL(to, value, barrier)                                                                   \
    asm volatile("st.async" TOLD ".u32 [%0], %1, [%2];" ::"r"(to), "r"(value), "r"(barrier)        \
                 : "memory")
#define ADD(to, value, barrier)                                                                    \
    asm volatile("red.async.relaxed.cluster" TOLD ".add.u32 [%0], %1, [%2];" ::"r"(to),            \
                 "r"(value), "r"(barrier)                                                          \
                 : "memory")

template <bool WRONG> __global__ void told(int *out)
{
    __shared__ int mine[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    if (threadIdx.x == 0)
        expect(&full, BYTES);
    cluster.sync();
    uint32_t other = cluster.block_rank() ^ 1, t = threadIdx.x;
    TELL(in_block(&mine[t], other), t, in_block(&full, other)); // <- told
    if (!WRONG)
        wait_for(&full, 0);
    out[blockIdx.x * N + t] = mine[N - 1 - t];
    if (WRONG)
        wait_for(&full, 0);
    cluster.sync();
}

// One thread waits for what the other block has stored. Other threads read it: in the wrong version
// their last barrier comes after the stores, but before the wait. The flag has no fence and orders
// nothing: it only delays the read.
template <bool WRONG> __global__ void told_one(int *out)
{
    __shared__ int mine[N];
    __shared__ uint64_t full;
    __shared__ volatile int seen;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    if (threadIdx.x == 0) {
        seen = 0;
        expect(&full, BYTES);
    }
    cluster.sync();
    uint32_t other = cluster.block_rank() ^ 1, t = threadIdx.x;
    TELL(in_block(&mine[t], other), t, in_block(&full, other));
    cluster.sync();
    if (t == 0) {
        wait_for(&full, 0);
        seen = 1;
    }
    if (!WRONG)
        __syncthreads();
    while (t >= 32 && !seen)
        ;
    if (t >= 32)
        out[blockIdx.x * N + t] = mine[N - 1 - t]; // <- told_one
    cluster.sync();
}

template <bool WRONG> __global__ void added(int *out)
{
    __shared__ int sum;
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    if (threadIdx.x == 0) {
        sum = 0;
        expect(&full, 2 * BYTES);
    }
    cluster.sync();
    for (uint32_t rank = 0; rank < 2; ++rank)
        ADD(in_block(&sum, rank), threadIdx.x, in_block(&full, rank)); // <- added
    if (!WRONG)
        wait_for(&full, 0);
    out[blockIdx.x * N + threadIdx.x] = sum;
    if (WRONG)
        wait_for(&full, 0);
    cluster.sync();
}

template <bool WRONG> __global__ void astray(int *out)
{
    __shared__ int mine[N];
    __shared__ uint64_t full;
    cg::cluster_group cluster = cg::this_cluster();
    init(&full, 1);
    if (threadIdx.x == 0)
        expect(&full, BYTES);
    cluster.sync();
    uint32_t other = cluster.block_rank() ^ 1, t = threadIdx.x;
    TELL(in_block(&mine[t], other), t, in_block(&full, WRONG ? other ^ 1 : other)); // <- astray
    wait_for(&full, 0);
    out[blockIdx.x * N + t] = mine[t];
    cluster.sync();
}

// ---- Strong accesses, and many readers ------------------------------------------------------------

// A block stores half of a word, and the other block reads the whole word, both by strong accesses.
template <bool WRONG> __global__ void partly(int *out)
{
    __shared__ int word;
    cg::cluster_group cluster = cg::this_cluster();
    word = 0;
    cluster.sync();
    if (threadIdx.x == 0 && cluster.block_rank() == 0 && WRONG)
        ((volatile short *)&word)[1] = 7; // <- partly
    else if (threadIdx.x == 0 && cluster.block_rank() == 0)
        *(volatile int *)&word = 7;
    else if (threadIdx.x == 0)
        out[0] = atomicOr(cluster.map_shared_rank(&word, 0), 0);
    cluster.sync();
}

// Three threads of a block read the other block's word; the wrong version signals only for two of
// them.
template <bool WRONG> __global__ void third_reader(int *out)
{
    __shared__ int word;
    __shared__ uint64_t read;
    cg::cluster_group cluster = cg::this_cluster();
    uint32_t t = threadIdx.x, value;
    init(&read, WRONG ? 2 : 3);
    word = 0;
    cluster.sync();
    if (cluster.block_rank() == 1 && (t == 0 || t == 32 || t == 33)) {
        LOAD("shared::cluster", value, in_block(&word, 0)); // <- third_reader
        out[t] = (int)value;
        if (!WRONG || t != 33)
            arrive_at(&read, 0);
    } else if (cluster.block_rank() == 0 && t == 0) {
        wait_for(&read, 0);
        word = 1;
    }
    cluster.sync();
}

// ---- Running them -------------------------------------------------------------------------------

#define CASE(name)                                                                                 \
    {                                                                                              \
#name,                                                                                     \
        {                                                                                          \
            name<false>, name<true>                                                                \
        }                                                                                          \
    }
static const struct {
    const char *name;
    void (*kernel[2])(int *);
} cases[] = {
    CASE(not_begun), CASE(read_early),  CASE(relaxed),      CASE(written_late), CASE(overwritten),
    CASE(left),      CASE(counted),     CASE(twice),        CASE(unasked),      CASE(stuck),
    CASE(outside),   CASE(not_its_own), CASE(no_such_rank), CASE(handed_over),  CASE(multicast),
    CASE(reused),    CASE(unwaited),    CASE(sent),         CASE(told),         CASE(added),
    CASE(astray),    CASE(initialised), CASE(partly),       CASE(third_reader), CASE(read_there),
    CASE(told_one),
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, [](const auto &, auto kernel) {
        int *out;
        cudaMalloc(&out, 3 * BYTES);
        cudaMemset(out, 0, 3 * BYTES);
        cudaLaunchConfig_t configuration = {};
        cudaLaunchAttribute cluster = {};
        configuration.gridDim = dim3(2);
        configuration.blockDim = dim3(N);
        configuration.attrs = &cluster;
        configuration.numAttrs = 1;
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {2, 1, 1};
        cudaLaunchKernelEx(&configuration, kernel, out);
    });
}
