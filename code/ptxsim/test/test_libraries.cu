// Libraries that CUDA programs use in device code: CUB's block and warp primitives, libcu++ and
// cooperative groups, each against a plain loop on the host. The program passes on a GPU, too.
#include <algorithm>
#include <complex>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>

extern "C" {
#include <cmocka.h>
}

namespace cg = cooperative_groups;

#define assert_ok(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

static const int THREADS = 128, ITEMS = 4, N = THREADS * ITEMS;

static uint32_t random_word()
{
    static uint32_t state = 12345;
    return state = state * 1664525 + 1013904223;
}

// Random whole numbers in [0, limit), on the host and on the device.
template <typename T> struct input {
    std::vector<T> host;
    T *device;
    input(size_t count, uint32_t limit) : host(count)
    {
        for (T &x : host)
            x = (T)((random_word() >> 8) % limit);
        assert_ok(cudaMalloc((void **)&device, count * sizeof(T)));
        assert_ok(cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~input()
    {
        cudaFree(device);
    }
};

template <typename T> struct output {
    size_t count;
    T *device;
    output(size_t count) : count(count)
    {
        assert_ok(cudaMalloc((void **)&device, count * sizeof(T)));
        assert_ok(cudaMemset(device, 0, count * sizeof(T)));
    }
    ~output()
    {
        cudaFree(device);
    }
    std::vector<T> read() const
    {
        std::vector<T> host(count);
        assert_ok(cudaGetLastError());
        assert_ok(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

// ---- CUB ----------------------------------------------------------------------------------------

template <cub::BlockReduceAlgorithm A> __global__ void block_reduce(const int *in, int *out)
{
    using reduce = cub::BlockReduce<int, THREADS, A>;
    __shared__ typename reduce::TempStorage storage;
    int items[ITEMS];
    for (int i = 0; i < ITEMS; ++i)
        items[i] = in[threadIdx.x * ITEMS + i];
    int sum = reduce(storage).Sum(items);
    __syncthreads();
    int most = reduce(storage).Reduce(
        items[0], [](int a, int b) { return a > b ? a : b; }, 77);
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = most;
    }
}

static void test_block_reduce(void **)
{
    input<int> in(N, 1000);
    int sum = 0, most = 0;
    for (int x : in.host)
        sum += x;
    for (int t = 0; t < 77; ++t)
        most = std::max(most, in.host[t * ITEMS]);
    void (*kernels[])(const int *, int *) = {
        block_reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>,
        block_reduce<cub::BLOCK_REDUCE_RAKING>,
        block_reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>,
    };
    for (auto kernel : kernels) {
        output<int> out(2);
        kernel<<<1, THREADS>>>(in.device, out.device);
        auto got = out.read();
        assert_int_equal(got[0], sum);
        assert_int_equal(got[1], most);
    }
}

template <cub::BlockScanAlgorithm A> __global__ void block_scan(const int *in, int *out)
{
    using scan = cub::BlockScan<int, THREADS, A>;
    __shared__ typename scan::TempStorage storage;
    int items[ITEMS], total;
    for (int i = 0; i < ITEMS; ++i)
        items[i] = in[threadIdx.x * ITEMS + i];
    scan(storage).ExclusiveSum(items, items, total);
    for (int i = 0; i < ITEMS; ++i)
        out[threadIdx.x * ITEMS + i] = items[i];
    __syncthreads();
    int most;
    scan(storage).InclusiveScan(in[threadIdx.x], most, [](int a, int b) { return a > b ? a : b; });
    out[N + threadIdx.x] = most;
    if (threadIdx.x == 0)
        out[N + THREADS] = total;
}

static void test_block_scan(void **)
{
    input<int> in(N, 1000);
    void (*kernels[])(const int *, int *) = {
        block_scan<cub::BLOCK_SCAN_WARP_SCANS>,
        block_scan<cub::BLOCK_SCAN_RAKING>,
        block_scan<cub::BLOCK_SCAN_RAKING_MEMOIZE>,
    };
    for (auto kernel : kernels) {
        output<int> out(N + THREADS + 1);
        kernel<<<1, THREADS>>>(in.device, out.device);
        auto got = out.read();
        int sum = 0, most = 0;
        for (int i = 0; i < N; sum += in.host[i++])
            assert_int_equal(got[i], sum);
        assert_int_equal(got[N + THREADS], sum);
        for (int i = 0; i < THREADS; ++i) {
            most = std::max(most, in.host[i]);
            assert_int_equal(got[N + i], most);
        }
    }
}

__global__ void block_sort(const uint32_t *in, uint32_t *keys_out, int *values_out, float *floats)
{
    using sort = cub::BlockRadixSort<uint32_t, THREADS, ITEMS, int>;
    using sort_floats = cub::BlockRadixSort<float, THREADS, ITEMS>;
    __shared__ union {
        typename sort::TempStorage pairs;
        typename sort_floats::TempStorage floats;
    } storage;
    uint32_t keys[ITEMS];
    int values[ITEMS];
    float numbers[ITEMS];
    for (int i = 0; i < ITEMS; ++i) {
        keys[i] = in[threadIdx.x * ITEMS + i];
        values[i] = threadIdx.x * ITEMS + i;
        numbers[i] = (float)(int)keys[i] - 5000.5f;
    }
    sort(storage.pairs).Sort(keys, values);
    __syncthreads();
    sort_floats(storage.floats).SortDescending(numbers);
    for (int i = 0; i < ITEMS; ++i) {
        keys_out[threadIdx.x * ITEMS + i] = keys[i];
        values_out[threadIdx.x * ITEMS + i] = values[i];
        floats[threadIdx.x * ITEMS + i] = numbers[i];
    }
}

struct record {
    int64_t key;
    int value;
};

struct by_key {
    __device__ bool operator()(const record &a, const record &b) const
    {
        return a.key < b.key;
    }
};

// CUB's merges load one element past the end of a tile, and do not use it.
static void test_device_merge_sort(void **)
{
    const int many = 5000;
    input<uint32_t> in(many, 200);
    std::vector<record> records(many), sorted(many);
    for (int i = 0; i < many; ++i)
        records[i] = {in.host[i], i};
    output<record> out(many);
    assert_ok(
        cudaMemcpy(out.device, records.data(), many * sizeof(record), cudaMemcpyHostToDevice));
    size_t bytes = 0;
    assert_ok(cub::DeviceMergeSort::StableSortKeys(nullptr, bytes, out.device, many, by_key()));
    output<char> room(bytes);
    assert_ok(cub::DeviceMergeSort::StableSortKeys(room.device, bytes, out.device, many, by_key()));
    auto got = out.read();
    for (int i = 0; i < many; ++i) {
        assert_int_equal(got[i].key, in.host[got[i].value]);
        assert_true(i == 0 || got[i - 1].key < got[i].key ||
                    (got[i - 1].key == got[i].key && got[i - 1].value < got[i].value));
    }
}

// CUB's merges, used in a kernel of our own.
__global__ void block_merge(record *records)
{
    using sort = cub::BlockMergeSort<record, THREADS, ITEMS>;
    __shared__ typename sort::TempStorage storage;
    record items[ITEMS];
    for (int i = 0; i < ITEMS; ++i)
        items[i] = records[threadIdx.x * ITEMS + i];
    sort(storage).StableSort(items, by_key());
    for (int i = 0; i < ITEMS; ++i)
        records[threadIdx.x * ITEMS + i] = items[i];
}

static void test_block_merge_sort(void **)
{
    input<uint32_t> in(N, 200);
    std::vector<record> records(N);
    for (int i = 0; i < N; ++i)
        records[i] = {in.host[i], i};
    output<record> out(N);
    assert_ok(cudaMemcpy(out.device, records.data(), N * sizeof(record), cudaMemcpyHostToDevice));
    block_merge<<<1, THREADS>>>(out.device);
    std::stable_sort(records.begin(), records.end(),
                     [](const record &a, const record &b) { return a.key < b.key; });
    auto got = out.read();
    for (int i = 0; i < N; ++i)
        assert_int_equal(got[i].value, records[i].value);
}

static void test_block_radix_sort(void **)
{
    input<uint32_t> in(N, 10000); // some keys twice: the sort keeps their order
    output<uint32_t> keys(N);
    output<int> values(N);
    output<float> floats(N);
    block_sort<<<1, THREADS>>>(in.device, keys.device, values.device, floats.device);
    auto got_keys = keys.read();
    auto got_values = values.read();
    auto got_floats = floats.read();
    std::vector<int> order(N);
    std::vector<float> numbers(N);
    for (int i = 0; i < N; ++i) {
        order[i] = i;
        numbers[i] = (float)in.host[i] - 5000.5f;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return in.host[a] < in.host[b]; });
    std::sort(numbers.rbegin(), numbers.rend());
    for (int i = 0; i < N; ++i) {
        assert_int_equal(got_values[i], order[i]);
        assert_int_equal(got_keys[i], in.host[order[i]]);
        assert_true(got_floats[i] == numbers[i]);
    }
}

__global__ void block_move(const int *in, int *out, int valid)
{
    using load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
    using store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using exchange = cub::BlockExchange<int, THREADS, ITEMS>;
    __shared__ union {
        typename load::TempStorage load;
        typename store::TempStorage store;
        typename exchange::TempStorage exchange;
    } storage;
    int items[ITEMS];
    load(storage.load).Load(in, items, valid, -1);
    __syncthreads();
    exchange(storage.exchange).BlockedToStriped(items, items);
    for (int i = 0; i < ITEMS; ++i) // now items[i] is element i * THREADS + threadIdx.x
        items[i] = items[i] * 2 + i;
    __syncthreads();
    exchange(storage.exchange).StripedToBlocked(items, items);
    __syncthreads();
    store(storage.store).Store(out, items);
}

static void test_block_load_exchange_store(void **)
{
    input<int> in(N, 1000);
    output<int> out(N);
    block_move<<<1, THREADS>>>(in.device, out.device, N - 5);
    auto got = out.read();
    for (int i = 0; i < N; ++i)
        assert_int_equal(got[i], (i < N - 5 ? in.host[i] : -1) * 2 + i / THREADS);
}

__global__ void block_histogram(const uint8_t *in, unsigned *out)
{
    using histogram = cub::BlockHistogram<uint8_t, THREADS, ITEMS, 64>;
    __shared__ typename histogram::TempStorage storage;
    __shared__ unsigned bins[64];
    uint8_t items[ITEMS];
    for (int i = 0; i < ITEMS; ++i)
        items[i] = in[threadIdx.x * ITEMS + i];
    histogram(storage).Histogram(items, bins);
    __syncthreads();
    if (threadIdx.x < 64)
        out[threadIdx.x] = bins[threadIdx.x];
}

static void test_block_histogram(void **)
{
    input<uint8_t> in(N, 64);
    output<unsigned> out(64);
    unsigned expected[64] = {};
    for (uint8_t x : in.host)
        expected[x]++;
    block_histogram<<<1, THREADS>>>(in.device, out.device);
    auto got = out.read();
    for (int i = 0; i < 64; ++i)
        assert_int_equal(got[i], expected[i]);
}

__global__ void warp_primitives(const int *in, int *out)
{
    using reduce = cub::WarpReduce<int>;
    using half_scan = cub::WarpScan<int, 16>;
    __shared__ typename reduce::TempStorage sums[THREADS / 32];
    __shared__ typename half_scan::TempStorage scans[THREADS / 16];
    int x = in[threadIdx.x], scanned;
    int sum = reduce(sums[threadIdx.x / 32]).Sum(x);
    half_scan(scans[threadIdx.x / 16]).InclusiveSum(x, scanned);
    out[threadIdx.x] = scanned;
    if (threadIdx.x % 32 == 0)
        out[THREADS + threadIdx.x / 32] = sum;
    __syncwarp();
    int head = reduce(sums[threadIdx.x / 32]).HeadSegmentedSum(x, threadIdx.x % 7 == 0);
    out[2 * THREADS + threadIdx.x] = head;
}

static void test_warp_reduce_and_scan(void **)
{
    input<int> in(THREADS, 1000);
    output<int> out(3 * THREADS);
    warp_primitives<<<1, THREADS>>>(in.device, out.device);
    auto got = out.read();
    for (int t = 0; t < THREADS; ++t) {
        int scanned = 0, sum = 0, segment = 0;
        for (int i = t / 16 * 16; i <= t; ++i)
            scanned += in.host[i];
        assert_int_equal(got[t], scanned);
        for (int i = t; i < t + 32 && t % 32 == 0; ++i)
            sum += in.host[i];
        if (t % 32 == 0)
            assert_int_equal(got[THREADS + t / 32], sum);
        for (int i = t; i == t || (i % 7 && i % 32); ++i)
            segment += in.host[i];
        if (t % 7 == 0)
            assert_int_equal(got[2 * THREADS + t], segment);
    }
}

// ---- libcu++ ------------------------------------------------------------------------------------

__global__ void use_barrier(const int *in, int *out)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int staged[THREADS];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 4; ++round) {
        staged[threadIdx.x] = in[threadIdx.x] + round;
        auto token = barrier.arrive();
        barrier.wait(std::move(token));
        out[round * THREADS + threadIdx.x] = staged[THREADS - 1 - threadIdx.x];
        barrier.arrive_and_wait();
    }
}

static void test_barrier(void **)
{
    input<int> in(THREADS, 1000);
    output<int> out(4 * THREADS);
    use_barrier<<<1, THREADS>>>(in.device, out.device);
    auto got = out.read();
    for (int i = 0; i < 4 * THREADS; ++i)
        assert_int_equal(got[i], in.host[THREADS - 1 - i % THREADS] + i / THREADS);
}

// A producer warp and three consumer warps, with two barriers at which all 128 threads arrive.
__global__ void use_barrier_with_copies(const int *in, int *out, int rounds)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> full, empty;
    __shared__ alignas(16) int staged[96];
    if (threadIdx.x == 0) {
        init(&full, 32 + 96);
        init(&empty, 32 + 96);
    }
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < rounds; ++round) {
        if (threadIdx.x < 32) {
            empty.arrive_and_wait();
            for (int i = threadIdx.x; i < 24; i += 32)
                cuda::memcpy_async(staged + 4 * i, in + round * 96 + 4 * i,
                                   cuda::aligned_size_t<16>(16), full);
            (void)full.arrive();
        } else {
            (void)empty.arrive();
            full.arrive_and_wait();
            sum += staged[(threadIdx.x + 5) % 96];
            __threadfence_block();
        }
    }
    if (threadIdx.x >= 32)
        out[threadIdx.x - 32] = sum;
}

static void test_barrier_with_copies(void **)
{
    const int ROUNDS = 5;
    input<int> in(96 * ROUNDS, 1000);
    output<int> out(96);
    use_barrier_with_copies<<<1, THREADS>>>(in.device, out.device, ROUNDS);
    auto got = out.read();
    for (int t = 0; t < 96; ++t) {
        int sum = 0;
        for (int round = 0; round < ROUNDS; ++round)
            sum += in.host[round * 96 + (t + 37) % 96];
        assert_int_equal(got[t], sum);
    }
}

__global__ void use_shared_pipeline(const int *in, int *out, int tiles)
{
    auto block = cg::this_thread_block();
    __shared__ alignas(16) int staged[2][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipeline = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int tile = 0, fetched = 0; tile < tiles; ++tile) {
        for (; fetched < tiles && fetched < tile + 2; ++fetched) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, staged[fetched % 2], in + fetched * THREADS,
                               cuda::aligned_size_t<16>(sizeof staged[0]), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum += (tile + 1) * staged[tile % 2][THREADS - 1 - threadIdx.x];
        pipeline.consumer_release();
    }
    out[threadIdx.x] = sum;
}

__global__ void use_own_pipeline(const int *in, int *out, int tiles)
{
    __shared__ int staged[2][THREADS];
    auto pipeline = cuda::make_pipeline();
    int sum = 0;
    for (int tile = 0, fetched = 0; tile < tiles; ++tile) {
        for (; fetched < tile + 2; ++fetched) {
            pipeline.producer_acquire();
            if (fetched < tiles)
                cuda::memcpy_async(&staged[fetched % 2][threadIdx.x],
                                   in + fetched * THREADS + threadIdx.x, sizeof(int), pipeline);
            pipeline.producer_commit();
        }
        cuda::pipeline_consumer_wait_prior<1>(pipeline);
        __syncthreads();
        sum += (tile + 1) * staged[tile % 2][THREADS - 1 - threadIdx.x];
        __syncthreads();
        pipeline.consumer_release();
    }
    out[threadIdx.x] = sum;
}

static void test_pipelines(void **)
{
    const int TILES = 7;
    input<int> in(THREADS * TILES, 1000);
    void (*kernels[])(const int *, int *, int) = {use_shared_pipeline, use_own_pipeline};
    for (auto kernel : kernels) {
        output<int> out(THREADS);
        kernel<<<2, THREADS>>>(in.device, out.device, TILES);
        auto got = out.read();
        for (int t = 0; t < THREADS; ++t) {
            int sum = 0;
            for (int tile = 0; tile < TILES; ++tile)
                sum += (tile + 1) * in.host[tile * THREADS + THREADS - 1 - t];
            assert_int_equal(got[t], sum);
        }
    }
}

struct totals {
    int count, most, retried;
    unsigned bits;
    double sum;
    unsigned long long word;
};

__global__ void use_atomic_ref(totals *t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device>(t->count).fetch_add(
        1, cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_device>(t->most).fetch_max(i ^ 0x55);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device>(t->bits).fetch_or(1u << i % 32);
    cuda::atomic_ref<double, cuda::thread_scope_device>(t->sum).fetch_add(0.5);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system>(t->word).fetch_xor(
        1ull << i * 7 % 61);
    cuda::atomic_ref<int, cuda::thread_scope_device> retried(t->retried);
    int seen = retried.load(cuda::memory_order_relaxed);
    while (!retried.compare_exchange_weak(seen, seen + 3))
        ;
}

static void test_atomic_ref(void **)
{
    output<totals> out(1);
    use_atomic_ref<<<3, THREADS>>>(out.device);
    auto got = out.read()[0];
    unsigned long long word = 0;
    int most = 0;
    for (int i = 0; i < 3 * THREADS; ++i) {
        word ^= 1ull << i * 7 % 61;
        most = std::max(most, i ^ 0x55);
    }
    assert_int_equal(got.count, 3 * THREADS);
    assert_int_equal(got.most, most);
    assert_int_equal(got.bits, 0xffffffff);
    assert_true(got.sum == 1.5 * THREADS);
    assert_true(got.word == word);
    assert_int_equal(got.retried, 9 * THREADS);
}

// One block signals to the others by an atomic flag that its values are stored.
__global__ void use_flag(int *data, int *flag, int *out)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 3 * threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            ready.store(1, cuda::memory_order_release);
            ready.notify_all();
        }
    } else {
        ready.wait(0, cuda::memory_order_acquire);
        out[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = data[blockDim.x - 1 - threadIdx.x];
    }
}

// Threads add to a sum one at a time, by a semaphore, and a latch waits for all of them.
__global__ void use_latch_and_semaphore(int *out)
{
    using latch_type = cuda::latch<cuda::thread_scope_block>;
    __shared__ alignas(latch_type) char
        memory[sizeof(latch_type)]; // a shared latch_type would need an initialiser
    latch_type &latch = *reinterpret_cast<latch_type *>(memory);
    __shared__ cuda::binary_semaphore<cuda::thread_scope_block> turn;
    __shared__ int total;
    if (threadIdx.x == 0) {
        new (memory) latch_type(blockDim.x);
        new (&turn) cuda::binary_semaphore<cuda::thread_scope_block>(1);
        total = 0;
    }
    __syncthreads();
    turn.acquire();
    total += threadIdx.x;
    turn.release();
    latch.arrive_and_wait();
    out[threadIdx.x] = total;
}

static void test_flags_latches_and_semaphores(void **)
{
    output<int> data(64), flag(1), out(3 * 64);
    use_flag<<<4, 64>>>(data.device, flag.device, out.device);
    auto got = out.read();
    for (int i = 0; i < 3 * 64; ++i)
        assert_int_equal(got[i], 3 * (63 - i % 64));
    use_latch_and_semaphore<<<1, 64>>>(out.device);
    got = out.read();
    for (int i = 0; i < 64; ++i)
        assert_int_equal(got[i], 63 * 64 / 2);
}

__global__ void use_std(const float *in, float *out, int n)
{
    cuda::std::span<const float> all(in, n);
    cuda::std::array<float, 3> three{all[threadIdx.x], all[(threadIdx.x + 1) % n], 2.5f};
    cuda::std::complex<float> z(three[0], three[1]), w(3, -1);
    auto quotient = z * w / cuda::std::complex<float>(0, 2);
    auto pair = cuda::std::make_tuple(three[2], (int)threadIdx.x);
    cuda::std::optional<float> odd;
    if (threadIdx.x & 1)
        odd = 7.f;
    out[4 * threadIdx.x] = quotient.real();
    out[4 * threadIdx.x + 1] = quotient.imag();
    out[4 * threadIdx.x + 2] = cuda::std::get<0>(pair) * cuda::std::get<1>(pair) + odd.value_or(-1);
    out[4 * threadIdx.x + 3] = cuda::std::popcount((unsigned)threadIdx.x) +
                               cuda::std::countl_zero((unsigned)threadIdx.x) +
                               cuda::std::numeric_limits<int8_t>::max();
}

static void test_std(void **)
{
    input<float> in(64, 100);
    output<float> out(4 * 64);
    use_std<<<1, 64>>>(in.device, out.device, 64);
    auto got = out.read();
    for (int t = 0; t < 64; ++t) {
        std::complex<float> z(in.host[t], in.host[(t + 1) % 64]), w(3, -1);
        auto quotient = z * w / std::complex<float>(0, 2);
        assert_true(got[4 * t] == quotient.real() && got[4 * t + 1] == quotient.imag());
        assert_true(got[4 * t + 2] == 2.5f * t + (t & 1 ? 7 : -1));
        assert_true(got[4 * t + 3] ==
                    __builtin_popcount(t) + (t ? __builtin_clz(t) : 32) + INT8_MAX);
    }
}

// ---- Cooperative groups -------------------------------------------------------------------------

__global__ void use_groups(const int *in, int *out)
{
    auto block = cg::this_thread_block();
    auto eight = cg::tiled_partition<8>(block);
    auto warp = cg::tiled_partition<32>(block);
    int rank = block.thread_rank(), x = in[rank];
    out[rank] = cg::reduce(eight, x, cg::plus<int>());
    out[THREADS + rank] = cg::exclusive_scan(eight, x, cg::plus<int>());
    int among = 0;
    if (x & 1) {
        auto odd = cg::coalesced_threads();
        among = 1000 * odd.size() + odd.thread_rank();
        among += 100000 * cg::reduce(odd, x % 8, cg::greater<int>());
    }
    out[2 * THREADS + rank] = among;
    out[3 * THREADS + rank] = warp.shfl_xor(x, 5) + (warp.any(x > 990) ? 10000 : 0) +
                              (warp.all(x < 1000) ? 20000 : 0) +
                              __popc(warp.ballot(x & 1)) * 100000;
    auto alike = cg::labeled_partition(warp, x % 3);
    out[4 * THREADS + rank] = alike.size() * 100 + eight.meta_group_rank();
    out[5 * THREADS + rank] = eight.shfl_down(x, 2) + (cg::reduce(warp, x, cg::less<int>()) << 10);
    auto four = cg::tiled_partition(block, 4); // its size known at run time only
    out[6 * THREADS + rank] = four.thread_rank() + 10 * four.size();
}

static void test_groups(void **)
{
    input<int> in(THREADS, 1000);
    output<int> out(7 * THREADS);
    use_groups<<<1, THREADS>>>(in.device, out.device);
    auto got = out.read();
    const std::vector<int> &x = in.host;
    for (int t = 0; t < THREADS; ++t) {
        int first = t / 8 * 8, warp = t / 32 * 32, sum = 0, before = 0, odd = 0, odd_before = 0;
        int most = 0, alike = 0, least = 1000;
        bool any = false;
        for (int i = first; i < first + 8; ++i) {
            sum += x[i];
            before += i < t ? x[i] : 0;
        }
        for (int i = warp; i < warp + 32; ++i) {
            odd += x[i] & 1;
            odd_before += i < t && x[i] & 1;
            most = x[i] & 1 ? std::max(most, x[i] % 8) : most;
            any |= x[i] > 990;
            alike += x[i] % 3 == x[t] % 3;
            least = std::min(least, x[i]);
        }
        assert_int_equal(got[t], sum);
        assert_int_equal(got[THREADS + t], before);
        assert_int_equal(got[2 * THREADS + t],
                         x[t] & 1 ? 100000 * most + 1000 * odd + odd_before : 0);
        assert_int_equal(got[3 * THREADS + t], x[t ^ 5] + (any ? 10000 : 0) + 20000 + 100000 * odd);
        assert_int_equal(got[4 * THREADS + t], alike * 100 + t / 8);
        assert_int_equal(got[5 * THREADS + t], x[t % 8 < 6 ? t + 2 : t] + (least << 10));
        assert_int_equal(got[6 * THREADS + t], t % 4 + 40);
    }
}

__global__ void copy_by_group(const int *in, int *out)
{
    __shared__ alignas(16) int staged[THREADS];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, staged, in + blockIdx.x * THREADS, sizeof staged);
    cg::wait(block);
    out[blockIdx.x * THREADS + threadIdx.x] = staged[THREADS - 1 - threadIdx.x];
}

static void test_copy_by_group(void **)
{
    input<int> in(2 * THREADS, 1000);
    output<int> out(2 * THREADS);
    copy_by_group<<<2, THREADS>>>(in.device, out.device);
    auto got = out.read();
    for (int i = 0; i < 2 * THREADS; ++i)
        assert_int_equal(got[i], in.host[i / THREADS * THREADS + THREADS - 1 - i % THREADS]);
}

__global__ void rotate(int *data, int n, int rounds)
{
    auto grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int round = 0; round < rounds; ++round) {
        int next = data[(i + 1) % n];
        grid.sync();
        data[i] = next + (grid.is_valid() ? 1 : 1000);
        grid.sync();
    }
}

static void test_grid(void **)
{
    int n = 5 * 64, rounds = 3;
    input<int> data(n, 1000);
    output<int> out(1);
    void *arguments[] = {&data.device, &n, &rounds};
    for (int launches = 0; launches < 2; ++launches)
        assert_ok(cudaLaunchCooperativeKernel((void *)rotate, dim3(5), dim3(64), arguments, 0, 0));
    std::vector<int> got(n);
    assert_ok(cudaMemcpy(got.data(), data.device, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        assert_int_equal(got[i], data.host[(i + 6) % n] + 6);
}

// For the tests of merges only, which load past the end of a tile and use nothing of it: unwritten
// reads by libraries are not reported.
static int libraries_may(void **)
{
    return setenv("PTXSIM_UNWRITTEN", "libraries", 1);
}

static int nobody_may(void **)
{
    return unsetenv("PTXSIM_UNWRITTEN");
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(test_block_reduce),
        cmocka_unit_test(test_block_scan),
        cmocka_unit_test(test_block_radix_sort),
        cmocka_unit_test_setup_teardown(test_device_merge_sort, libraries_may, nobody_may),
        cmocka_unit_test_setup_teardown(test_block_merge_sort, libraries_may, nobody_may),
        cmocka_unit_test(test_block_load_exchange_store),
        cmocka_unit_test(test_block_histogram),
        cmocka_unit_test(test_warp_reduce_and_scan),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_barrier_with_copies),
        cmocka_unit_test(test_pipelines),
        cmocka_unit_test(test_atomic_ref),
        cmocka_unit_test(test_flags_latches_and_semaphores),
        cmocka_unit_test(test_std),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_copy_by_group),
        cmocka_unit_test(test_grid),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
