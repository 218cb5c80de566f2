// Programs of a CUDA course, unchanged, each compared with a plain loop on the host; and other
// abilities of device code: recursion, calls through pointers and virtual functions, memory on the
// stack, printf, assert. test_debug.cu is this file compiled with -G. Both programs pass on a GPU,
// too.
#include <alloca.h>
#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {
#include <cmocka.h>
}

#define assert_ok(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

template <typename T> static T *to_device(const std::vector<T> &host)
{
    T *device;
    assert_ok(cudaMalloc((void **)&device, host.size() * sizeof(T)));
    assert_ok(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

template <typename T> static std::vector<T> from_device(T *device, size_t count)
{
    std::vector<T> host(count);
    assert_ok(cudaGetLastError());
    assert_ok(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    assert_ok(cudaFree(device));
    return host;
}

static std::vector<float> numbers(size_t count)
{
    std::vector<float> x(count);
    uint32_t state = 7;
    for (float &v : x) {
        state = state * 1664525 + 1013904223;
        v = (float)(int)(state >> 20) / 64 - 32; // sums of products are exact
    }
    return x;
}

// ---- The course ---------------------------------------------------------------------------------

enum { TILE = 16 };

// C = A B, n x n, tiles in shared memory; n need not be a multiple of TILE.
__global__ void matrix_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        int x = k + threadIdx.x, y = k + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < n && x < n ? a[row * n + x] : 0;
        tile_b[threadIdx.y][threadIdx.x] = y < n && column < n ? b[y * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i)
            sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n)
        c[row * n + column] = sum;
}

static void test_matrix_product(void **)
{
    const int n = 50;
    auto a = numbers(n * n), b = numbers(n * n);
    std::vector<float> zero(n * n);
    float *device_a = to_device(a), *device_b = to_device(b), *device_c = to_device(zero);
    dim3 grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE), block(TILE, TILE);
    matrix_product<<<grid, block>>>(device_a, device_b, device_c, n);
    auto c = from_device(device_c, n * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int k = 0; k < n; ++k)
                sum += (double)a[i * n + k] * b[k * n + j];
            assert_true(fabs(c[i * n + j] - sum) <= 1e-2);
        }
    cudaFree(device_a);
    cudaFree(device_b);
}

// A row of the input becomes a column; one word of padding against bank conflicts.
__global__ void transpose(const float *in, float *out, int width, int height)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < width && y + i < height)
            tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < height && y + i < width)
            out[(y + i) * height + x] = tile[threadIdx.x][threadIdx.y + i];
}

static void test_transpose(void **)
{
    const int width = 70, height = 45;
    auto in = numbers(width * height);
    float *device_in = to_device(in), *device_out = to_device(std::vector<float>(width * height));
    transpose<<<dim3(3, 2), dim3(32, 8)>>>(device_in, device_out, width, height);
    auto out = from_device(device_out, width * height);
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            assert_true(out[x * height + y] == in[y * width + x]);
    cudaFree(device_in);
}

__device__ int warp_sum(int x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_down_sync(0xffffffff, x, offset);
    return x;
}

// Grid-stride loop, shuffles in a warp, shared memory between warps, one atomic a block.
__global__ void reduce(const int *in, int n, int *total)
{
    __shared__ int sums[32];
    int x = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x += in[i];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        x = warp_sum(threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0);
        if (threadIdx.x == 0)
            atomicAdd(total, x);
    }
}

// Each block counts in shared memory, then adds its counts to the whole histogram.
__global__ void histogram(const int *in, int n, int *bins)
{
    __shared__ int mine[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i] % 64], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        atomicAdd(&bins[i], mine[i]);
}

static void test_reduction_and_histogram(void **)
{
    const int n = 5000;
    std::vector<int> in(n);
    int total = 0, bins[64] = {};
    for (int i = 0; i < n; ++i) {
        in[i] = (i * 7919 + 13) % 1009;
        total += in[i];
        bins[in[i] % 64]++;
    }
    int *device_in = to_device(in), *device_total = to_device(std::vector<int>(1));
    int *device_bins = to_device(std::vector<int>(64));
    reduce<<<5, 192>>>(device_in, n, device_total);
    histogram<<<5, 192>>>(device_in, n, device_bins);
    assert_int_equal(from_device(device_total, 1)[0], total);
    auto got = from_device(device_bins, 64);
    for (int i = 0; i < 64; ++i)
        assert_int_equal(got[i], bins[i]);
    cudaFree(device_in);
}

// Blelloch's work-efficient exclusive scan of 2 blockDim.x elements.
__global__ void scan(const int *in, int *out)
{
    extern __shared__ int sums[];
    int t = threadIdx.x, n = 2 * blockDim.x, distance = 1;
    sums[2 * t] = in[2 * t];
    sums[2 * t + 1] = in[2 * t + 1];
    for (int active = n / 2; active > 0; active /= 2, distance *= 2) {
        __syncthreads();
        if (t < active)
            sums[distance * (2 * t + 2) - 1] += sums[distance * (2 * t + 1) - 1];
    }
    if (t == 0)
        sums[n - 1] = 0;
    for (int active = 1; active < n; active *= 2) {
        distance /= 2;
        __syncthreads();
        if (t < active) {
            int left = distance * (2 * t + 1) - 1, right = distance * (2 * t + 2) - 1;
            int moved = sums[left];
            sums[left] = sums[right];
            sums[right] += moved;
        }
    }
    __syncthreads();
    out[2 * t] = sums[2 * t];
    out[2 * t + 1] = sums[2 * t + 1];
}

static void test_scan(void **)
{
    std::vector<int> in(256);
    for (int i = 0; i < 256; ++i)
        in[i] = i * i % 37;
    int *device_in = to_device(in), *device_out = to_device(std::vector<int>(256));
    scan<<<1, 128, 256 * sizeof(int)>>>(device_in, device_out);
    auto out = from_device(device_out, 256);
    for (int i = 0, sum = 0; i < 256; sum += in[i++])
        assert_int_equal(out[i], sum);
    cudaFree(device_in);
}

// ---- The language -------------------------------------------------------------------------------

__device__ __noinline__ int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

typedef int operation(int, int);
__device__ int add(int a, int b)
{
    return a + b;
}
__device__ int subtract(int a, int b)
{
    return a - b;
}
__device__ operation *const operations[] = {add, subtract};

struct shape {
    __device__ virtual float area() const = 0;
};
struct square : shape {
    float side;
    __device__ square(float side) : side(side)
    {
    }
    __device__ float area() const override
    {
        return side * side;
    }
};
struct rectangle : square {
    __device__ rectangle(float side) : square(side)
    {
    }
    __device__ float area() const override
    {
        return 2 * side * side;
    }
};

__device__ __noinline__ int on_the_stack(int n, int factor)
{
    int *values = (int *)alloca(n * sizeof(int)), sum = 0;
    for (int i = 0; i < n; ++i)
        values[i] = i * factor;
    for (int i = n; i-- > 0;)
        sum += values[i] * (i + 1);
    return sum;
}

__global__ void call_everything(int *out)
{
    int t = threadIdx.x;
    out[5 * t] = ackermann(t % 3, t / 3 % 4);
    out[5 * t + 1] = operations[t % 2](t, 5);
    square s(t);
    rectangle r(t);
    const shape *which = t % 2 ? (const shape *)&s : &r;
    out[5 * t + 2] = (int)which->area();
    out[5 * t + 3] = on_the_stack(1 + t % 11, t) + on_the_stack(3, t);
    int counted = 0;
    switch (t % 7) {
    case 0: counted += 5; break;
    case 1: counted += 6; // falls through
    case 2: counted += 7; break;
    case 3: counted += t; break;
    case 5: counted -= t; break;
    default: counted = 99;
    }
    out[5 * t + 4] = counted;
}

static int host_ackermann(int m, int n)
{
    return m == 0   ? n + 1
           : n == 0 ? host_ackermann(m - 1, 1)
                    : host_ackermann(m - 1, host_ackermann(m, n - 1));
}

static void test_calls_and_the_stack(void **)
{
    int *device = to_device(std::vector<int>(5 * 64));
    assert_ok(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    call_everything<<<1, 64>>>(device);
    auto out = from_device(device, 5 * 64);
    for (int t = 0; t < 64; ++t) {
        static const int cases[] = {5, 13, 7, 0, 99, 0, 99};
        int sum = 0, n = 1 + t % 11;
        for (int i = 0; i < n; ++i)
            sum += i * t * (i + 1);
        for (int i = 0; i < 3; ++i)
            sum += i * t * (i + 1);
        assert_int_equal(out[5 * t], host_ackermann(t % 3, t / 3 % 4));
        assert_int_equal(out[5 * t + 1], t % 2 ? t - 5 : t + 5);
        assert_int_equal(out[5 * t + 2], t % 2 ? t * t : 2 * t * t);
        assert_int_equal(out[5 * t + 3], sum);
        assert_int_equal(out[5 * t + 4], t % 7 == 3 ? t : t % 7 == 5 ? -t : cases[t % 7]);
    }
}

__global__ void add_halves(__half2 *halves, __nv_bfloat162 *brains, __half *half)
{
    atomicAdd(halves, __floats2half2_rn(1, 0.5f));
    atomicAdd(brains, __floats2bfloat162_rn(1, 0.5f));
    atomicAdd(half, __float2half(2));
}

static void test_atomics_of_halves(void **)
{
    char *device = to_device(std::vector<char>(64));
    add_halves<<<2, 32>>>((__half2 *)device, (__nv_bfloat162 *)(device + 16),
                          (__half *)(device + 32));
    auto out = from_device(device, 64);
    __half2 halves;
    __nv_bfloat162 brains;
    __half half;
    memcpy(&halves, &out[0], 4);
    memcpy(&brains, &out[16], 4);
    memcpy(&half, &out[32], 2);
    assert_true(__low2float(halves) == 64 && __high2float(halves) == 32);
    assert_true(__low2float(brains) == 64 && __high2float(brains) == 32);
    assert_true(__half2float(half) == 128);
}

// Comparisons of pairs: setp with two results, and instructions whose results are masks.
__global__ void compare_pairs(const __half2 *a, const __half2 *b, unsigned *out)
{
    __half2 x = a[threadIdx.x], y = b[threadIdx.x];
    out[threadIdx.x] = __hblt2(x, y) | __hbeq2(x, y) << 1 | (__hltu2_mask(x, y) == 0xffffffff) << 2;
    unsigned least = __vminu4(threadIdx.x * 0x01020304u, 0x40404040u);
    out[32 + threadIdx.x] = least + __vcmpgtu4(least, 0x10101010u);
}

static void test_pairs(void **)
{
    std::vector<__half2> a(32), b(32);
    for (int i = 0; i < 32; ++i) {
        a[i] = __floats2half2_rn(i % 4, i == 7 ? NAN : i / 4);
        b[i] = __floats2half2_rn(2, 3);
    }
    __half2 *device_a = to_device(a), *device_b = to_device(b);
    unsigned *device_out = to_device(std::vector<unsigned>(64));
    compare_pairs<<<1, 32>>>(device_a, device_b, device_out);
    auto out = from_device(device_out, 64);
    for (unsigned i = 0; i < 32; ++i) {
        bool less = i % 4 < 2 && i / 4 < 3 && i != 7, equal = i % 4 == 2 && i / 4 == 3;
        bool below = i % 4 < 2 && (i == 7 || i / 4 < 3);
        assert_int_equal(out[i], less | equal << 1 | below << 2);
        unsigned least = 0, expected = 0;
        for (int byte = 0; byte < 32; byte += 8) {
            unsigned v = i * 0x01020304u >> byte & 0xff;
            least |= (v < 0x40 ? v : 0x40) << byte;
            expected |= (v > 0x10 ? 0xffu : 0) << byte;
        }
        assert_int_equal(out[32 + i], least + expected);
    }
    cudaFree(device_a);
    cudaFree(device_b);
}

// ---- Output of printf and assert ----------------------------------------------------------------

// Runs test part `what` in a process of its own, and returns what it writes on stdout and stderr. CUDA
// does not survive a fork, so the process executes this file anew.
static std::string run_again(const char *what, int *status)
{
    char path[4096], command[4200], text[65536];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = 0;
    snprintf(command, sizeof command, "'%s' %s 2>&1", path, what);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text, pipe);
    *status = WEXITSTATUS(pclose(pipe));
    return std::string(text, size);
}

__global__ void say(int n, const char *null)
{
    printf("thread %2d of %d: %-6s|%8.3f|%e|%g\n", threadIdx.x, n, "hello", 1.5 * threadIdx.x, 1e10,
           (double)0.1f);
    if (threadIdx.x == 1)
        printf("%lld %llx %c %% %u %5d|%-5d|%05d|%+d %s %#x\n", 1ll << 40, ~0ull, 'x', 4000000000u,
               -7, -7, -7, 7, null ? "not null" : "null", 255);
}

enum { ASSERT_LINE = __LINE__ + 3 };
__global__ void insist(int value)
{
    assert(value == 3 && "three");
}

__global__ void take_memory(int **out)
{
    *out = (int *)malloc(16);
}

static int told(const char *what)
{
    if (!strcmp(what, "say"))
        say<<<1, 2>>>(2, nullptr);
    else if (!strcmp(what, "insist"))
        insist<<<1, 1>>>(4);
    cudaError_t error = cudaGetLastError(); // the error of a refused launch
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error != cudaSuccess;
}

static void test_printf(void **)
{
    int status;
    std::string text = run_again("say", &status);
    char expected[1024];
    int used = 0;
    for (int t = 0; t < 2; ++t)
        used += snprintf(expected + used, sizeof expected - used,
                         "thread %2d of %d: %-6s|%8.3f|%e|%g\n", t, 2, "hello", 1.5 * t, 1e10,
                         (double)0.1f);
    snprintf(expected + used, sizeof expected - used,
             "%lld %llx %c %% %u %5d|%-5d|%05d|%+d %s %#x\ncudaSuccess\n", 1ll << 40, ~0ull, 'x',
             4000000000u, -7, -7, -7, 7, "null", 255);
    assert_string_equal(text.c_str(), expected);
    assert_int_equal(status, 0);
}

static void test_assert(void **)
{
    int status;
    char expected[256];
    std::string text = run_again("insist", &status);
    snprintf(expected, sizeof expected,
             "test_programs.cu:%d: void insist(int): block: [0,0,0], thread: [0,0,0] Assertion "
             "`value == 3 && \"three\"` failed.\n",
             ASSERT_LINE);
    assert_non_null(strstr(text.c_str(), expected));
    assert_non_null(strstr(text.c_str(), "cudaErrorAssert\n"));
    assert_int_equal(status, 1);
}

static void test_device_malloc(void **)
{
    int **out, *taken = nullptr;
    assert_int_equal(cudaMalloc(&out, sizeof *out), cudaSuccess);
    take_memory<<<1, 1>>>(out);
    assert_int_equal(cudaMemcpy(&taken, out, sizeof taken, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_non_null(taken);
    assert_int_equal(cudaFree(out), cudaSuccess);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return told(argv[1]);
    const CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_product),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_reduction_and_histogram),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_calls_and_the_stack),
        cmocka_unit_test(test_atomics_of_halves),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_assert),
        cmocka_unit_test(test_device_malloc),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
