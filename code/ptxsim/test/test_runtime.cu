// The runtime's functions, as a program calls them. The same executable passes on a GPU with the real
// runtime; where the two differ (the device, and times), the tests ask simulated().
#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_profiler_api.h>
#include <jansson.h>

extern "C" {
#include <cmocka.h>
}

static bool simulated()
{
    return dlsym(RTLD_DEFAULT, "ptxsim_version") != nullptr;
}

#define assert_error(call, error) assert_string_equal(cudaGetErrorName(call), #error)
#define assert_ok(call) assert_error(call, cudaSuccess)

// Expects this error of a launch, or cudaSuccess, and clears it.
#define assert_launch(error) assert_error(cudaGetLastError(), error)

template <typename T> static T *device_array(size_t count)
{
    void *array;
    assert_ok(cudaMalloc(&array, count * sizeof(T)));
    assert_ok(cudaMemset(array, 0, count * sizeof(T)));
    return (T *)array;
}

static int read_int(const int *device)
{
    int value;
    assert_ok(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

// ---- Kernels ------------------------------------------------------------------------------------

__device__ int counter;
__constant__ float table[16];
__managed__ int managed_value = 3;

__global__ void nothing()
{
}

__global__ void increment(int *value)
{
    atomicAdd(value, 1);
}

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

// Sums each block's part by a tree in dynamic shared memory, after a pass through static shared memory.
__global__ void block_sums(const int *in, int *out)
{
    __shared__ int staged[256];
    extern __shared__ int sums[];
    staged[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    sums[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = sums[0];
}

__global__ void use_variables(float *out)
{
    out[threadIdx.x] = table[threadIdx.x] * 2;
    if (threadIdx.x == 0)
        counter += 5;
}

__global__ void use_managed()
{
    managed_value *= 7;
}

struct odd {
    int a[3];
    char b;
};

__global__ void many_parameters(char c, double d, odd o, short s, long long *out)
{
    out[0] = c;
    out[1] = (long long)(d * 4);
    out[2] = o.a[0] + o.a[1] + o.a[2];
    out[3] = o.b;
    out[4] = s;
}

namespace inner
{
template <int N> __global__ void store(int *out)
{
    *out = N;
}
} // namespace inner

__global__ void __launch_bounds__(128) bounded(int *out)
{
    out[threadIdx.x] = 1;
}

enum { STORE_AT_LINE = __LINE__ + 3, STORE_UNALIGNED_LINE = __LINE__ + 8 };
__global__ void store_at(int *base, long long index)
{
    base[index] = 1;
}

__global__ void store_unaligned(char *base)
{
    *(volatile int *)(base + 1) = 1;
}

enum { TRAP_LINE = __LINE__ + 3 };
__global__ void trap()
{
    asm volatile("trap;");
}

__global__ void check_five(int value)
{
    assert(value == 5);
}

// ---- Faults: each in a process of its own, since CUDA does not recover --------------------------

// Runs the part of a test that uses CUDA in a child, and returns what the child wrote on stderr. Such
// tests come first: a GPU's runtime does not survive a fork.
static const char *in_child(void (*body)())
{
    static char text[4096];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        body();
        exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (status != 0)
        print_message("# %s", text);
    assert_int_equal(status, 0);
    return text;
}

// For use in the child, whose assert_* the parent would not see: ends the child with status 1
// instead.
#define expect(call, wanted) expect_at(call, wanted, __LINE__)
static void expect_at(cudaError_t got, cudaError_t wanted, int line)
{
    if (got == wanted)
        return;
    fprintf(stderr, "line %d: %s, not %s\n", line, cudaGetErrorName(got), cudaGetErrorName(wanted));
    _exit(1);
}

// Expects that `text` is one line of the simulator about a fault, with this kernel, source line and
// words; on a GPU, expects nothing.
static void assert_told(const char *text, const char *kernel, int line, const char *words)
{
    char place[256];
    if (!simulated())
        return;
    snprintf(place, sizeof place, "ptxsim: %s, %s:%d, block (0,0,0), thread (0,0,0): ", kernel,
             __FILE__, line);
    if (strncmp(text, place, strlen(place)) != 0 || !strstr(text, words) ||
        strchr(text, '\n') != text + strlen(text) - 1)
        fail_msg("%s... %s: was told: %s", place, words, text);
}

static void expect_sticky(cudaError_t error)
{
    int *array, count;
    cudaEvent_t event;
    expect(cudaDeviceSynchronize(), error);
    cudaGetLastError();
    expect(cudaMalloc(&array, 4), error);
    expect(cudaFree(nullptr), error);
    expect(cudaEventCreate(&event), error);
    expect(cudaGetLastError(), error);
    expect(cudaPeekAtLastError(), cudaSuccess);
    nothing<<<1, 1>>>();
    expect(cudaGetLastError(), error);
    expect(cudaGetDeviceCount(&count), cudaSuccess);
}

static void test_store_out_of_bounds(void **)
{
    const char *told = in_child([] {
        int *array;
        expect(cudaMalloc(&array, 4096), cudaSuccess);
        store_at<<<1, 1>>>(array, -(1 << 20));
        expect_sticky(cudaErrorIllegalAddress);
    });
    assert_told(told, "store_at", STORE_AT_LINE, "4 bytes");
    if (!simulated()) // the simulator checks every byte, a GPU whole pages
        return;
    told = in_child([] {
        int *array;
        expect(cudaMalloc(&array, 4096), cudaSuccess);
        store_at<<<1, 1>>>(array, 1026);
        expect_sticky(cudaErrorIllegalAddress);
    });
    assert_told(told, "store_at", STORE_AT_LINE,
                "8 bytes past the end of the allocation of 4096 bytes");
}

static void test_store_to_host_memory_or_null(void **)
{
    const char *told = in_child([] {
        store_at<<<1, 1>>>(nullptr, 0);
        expect_sticky(cudaErrorIllegalAddress);
    });
    assert_told(told, "store_at", STORE_AT_LINE, "4 bytes at 0x0");
    in_child([] {
        cudaDeviceProp device;
        expect(cudaGetDeviceProperties(&device, 0), cudaSuccess);
        if (device.pageableMemoryAccess) // then a kernel can access all memory of the host
            return;
        int *array = (int *)malloc(64);
        store_at<<<1, 1>>>(array, 0);
        expect_sticky(cudaErrorIllegalAddress);
    });
}

static void test_store_to_freed_memory(void **)
{
    const char *told = in_child([] {
        int *array;
        expect(cudaMalloc(&array, 4 << 20), cudaSuccess);
        expect(cudaFree(array), cudaSuccess);
        store_at<<<1, 1>>>(array, 0);
        expect_sticky(cudaErrorIllegalAddress);
    });
    assert_told(told, "store_at", STORE_AT_LINE, "freed");
}

static void test_misaligned_store(void **)
{
    const char *told = in_child([] {
        char *array;
        expect(cudaMalloc(&array, 4096), cudaSuccess);
        store_unaligned<<<1, 1>>>(array);
        expect_sticky(cudaErrorMisalignedAddress);
    });
    assert_told(told, "store_unaligned", STORE_UNALIGNED_LINE, "no multiple of 4");
}

static void test_trap_and_assertion(void **)
{
    const char *told = in_child([] {
        trap<<<1, 1>>>();
        expect_sticky(cudaErrorLaunchFailure);
    });
    assert_told(told, "trap", TRAP_LINE, "trap");
    if (simulated())
        return; // test_programs.cu tests assert in the simulator
    in_child([] {
        check_five<<<1, 1>>>(5);
        expect(cudaDeviceSynchronize(), cudaSuccess);
        check_five<<<1, 1>>>(4);
        expect_sticky(cudaErrorAssert);
    });
}

// ---- The report ---------------------------------------------------------------------------------

static json_t *report_of(void (*body)())
{
    char path[] = "/tmp/test_runtime.XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    setenv("PTXSIM_REPORT", path, 1);
    in_child(body);
    unsetenv("PTXSIM_REPORT");
    json_error_t error;
    json_t *report = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    remove(path);
    if (!report)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return report;
}

// A number by its path in the report, "kernels.0.counts.barriers"; -1 when it is not there.
static double number_at(const json_t *at, const char *path)
{
    char name[64];
    int used;
    while (at && sscanf(path, "%63[^.]%n", name, &used) == 1) {
        at = json_is_array(at) ? json_array_get(at, atoi(name)) : json_object_get(at, name);
        path += used + (path[used] == '.');
    }
    return json_is_number(at) ? json_number_value(at) : -1;
}

static void test_report(void **)
{
    if (!simulated())
        return;
    json_t *report = report_of([] {
        float *array;
        expect(cudaMalloc(&array, 4096 * sizeof(float)), cudaSuccess);
        expect(cudaMemset(array, 0, 4096 * sizeof(float)), cudaSuccess);
        for (int i = 0; i < 3; ++i)
            vector_add<<<dim3(8), 128>>>(array, array + 1024, array + 2048, 1000);
        inner::store<1><<<1, 1>>>((int *)array);
        expect(cudaDeviceSynchronize(), cudaSuccess);
    });
    json_t *kernels = json_object_get(report, "kernels"), *kernel = json_array_get(kernels, 0);
    assert_string_equal(json_string_value(json_object_get(report, "ptxsim")), "0.1");
    assert_int_equal(json_array_size(kernels), 2);
    assert_int_equal(json_array_size(json_object_get(report, "faults")), 0);
    assert_string_equal(json_string_value(json_object_get(kernel, "name")), "vector_add");
    assert_string_equal(json_string_value(json_object_get(kernel, "mangled")),
                        "_Z10vector_addPKfS0_Pfi");
    assert_string_equal(json_string_value(json_object_get(json_array_get(kernels, 1), "name")),
                        "store");
    assert_int_equal(number_at(kernel, "launches"), 3);
    assert_int_equal(number_at(kernel, "grid.0"), 8);
    assert_int_equal(number_at(kernel, "block.0"), 128);
    // 31 warps and 8 lanes store 1000 floats; 2 arrays are read.
    assert_int_equal(number_at(kernel, "counts.classes.global_store"), 3 * 32);
    assert_int_equal(number_at(kernel, "counts.global_store_bytes"), 3 * 4000);
    assert_int_equal(number_at(kernel, "counts.global_load_bytes"), 3 * 8000);
    assert_int_equal(number_at(kernel, "counts.global_store_sectors"), 3 * 125);
    assert_int_equal(number_at(kernel, "counts.global_load_sectors"), 3 * 250);
    assert_int_equal(number_at(kernel, "dram_bytes"), 3 * 12000);

    double total = 0, of_lines = 0;
    const char *name;
    json_t *value, *line;
    size_t i;
    json_object_foreach (json_object_get(json_object_get(kernel, "counts"), "classes"), name, value)
        total += json_number_value(value);
    assert_int_equal(total, number_at(kernel, "counts.warp_instructions"));
    json_array_foreach (json_object_get(kernel, "lines"), i, line) {
        of_lines += number_at(line, "counts.warp_instructions");
        assert_string_equal(json_string_value(json_object_get(line, "file")), __FILE__);
    }
    assert_int_equal(of_lines, total);
    assert_true(number_at(kernel, "l4_floors_us.dram") > 0);
    assert_true(number_at(kernel, "l4_floors_us.issue") > 0);
    assert_int_equal(number_at(kernel, "l4_floors_us.tensor"), 0);
    assert_non_null(
        json_string_value(json_object_get(json_object_get(kernel, "l4_floors_us"), "binding")));
    json_decref(report);
}

static void test_report_of_a_fault(void **)
{
    if (!simulated())
        return;
    json_t *report = report_of([] {
        store_at<<<1, 1>>>(nullptr, 0);
        _exit(0); // ends like an aborting program: no exit handler runs
    });
    json_t *faults = json_object_get(report, "faults");
    assert_int_equal(json_array_size(faults), 1);
    assert_non_null(strstr(json_string_value(json_array_get(faults, 0)), "store_at"));
    json_decref(report);
}

// ---- Kernels and their data ---------------------------------------------------------------------

static void test_vector_add(void **)
{
    enum { N = 1000 };
    float a[N], b[N], c[N];
    for (int i = 0; i < N; ++i) {
        a[i] = (float)i;
        b[i] = (float)(2 * i) + 0.5f;
    }
    float *da = device_array<float>(N), *db = device_array<float>(N), *dc = device_array<float>(N);
    assert_ok(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(db, b, sizeof b, cudaMemcpyDefault));
    vector_add<<<(N + 127) / 128, 128>>>(da, db, dc, N);
    assert_launch(cudaSuccess);
    assert_ok(cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; ++i)
        assert_true(c[i] == 3 * i + 0.5f);
    assert_ok(cudaFree(da));
    assert_ok(cudaFree(db));
    assert_ok(cudaFree(dc));
}

static void test_shared_memory_of_both_kinds(void **)
{
    enum { BLOCKS = 5, THREADS = 256 };
    int in[BLOCKS * THREADS], out[BLOCKS];
    for (int i = 0; i < BLOCKS * THREADS; ++i)
        in[i] = i;
    int *din = device_array<int>(BLOCKS * THREADS), *dout = device_array<int>(BLOCKS);
    assert_ok(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    block_sums<<<BLOCKS, THREADS, THREADS * sizeof(int)>>>(din, dout);
    assert_launch(cudaSuccess);
    assert_ok(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
    for (int b = 0; b < BLOCKS; ++b)
        assert_int_equal(out[b], THREADS * (THREADS - 1) / 2 + b * THREADS * THREADS);
    assert_ok(cudaFree(din));
    assert_ok(cudaFree(dout));
}

static void test_variables(void **)
{
    float values[16], out[16];
    int five = 5, count;
    size_t size;
    void *address;
    for (int i = 0; i < 16; ++i)
        values[i] = (float)i;
    float *device = device_array<float>(16);

    assert_ok(cudaMemcpyToSymbol(table, values, sizeof values));
    assert_ok(cudaMemcpyToSymbol(counter, &five, sizeof five));
    use_variables<<<1, 16>>>(device);
    assert_ok(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 16; ++i)
        assert_true(out[i] == 2 * i);
    assert_ok(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    assert_int_equal(count, 10);
    assert_ok(cudaMemcpyFromSymbol(out, table, 8, 12));
    assert_true(out[0] == 3 && out[1] == 4);
    assert_ok(cudaGetSymbolSize(&size, table));
    assert_int_equal(size, 64);
    assert_ok(cudaGetSymbolAddress(&address, counter));
    assert_int_equal(read_int((int *)address), 10);

    assert_error(cudaMemcpyToSymbol(counter, &five, 8), cudaErrorInvalidValue);
    assert_error(cudaMemcpyToSymbol(counter, &five, 4, 1), cudaErrorInvalidValue);
    assert_error(cudaMemcpyToSymbol(counter, &five, 4, 0, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidMemcpyDirection);
    assert_error(cudaGetSymbolAddress(&address, five), cudaErrorInvalidSymbol);
    assert_ok(cudaFree(device));
}

static void test_managed_variable(void **)
{
    if (!simulated())
        return; // managed memory is not used on a GPU, which others may share
    managed_value = 6;
    use_managed<<<1, 1>>>();
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(managed_value, 42);
}

static void test_parameters_of_every_size(void **)
{
    long long out[5], *device = device_array<long long>(5);
    many_parameters<<<1, 1>>>(-7, 2.25, odd{{1, 20, 300}, 'x'}, -12345, device);
    assert_ok(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    const long long expected[] = {-7, 9, 321, 'x', -12345};
    assert_memory_equal(out, expected, sizeof out);
    assert_ok(cudaFree(device));
}

static void test_kernels_by_pointer_and_name(void **)
{
    int *device = device_array<int>(1);
    void *arguments[] = {&device};
    void (*kernel)(int *) = inner::store<17>;
    const char *name;
    cudaFunction_t function;
    size_t offset, size;

    kernel<<<1, 1>>>(device);
    assert_int_equal(read_int(device), 17);
    assert_ok(cudaLaunchKernel((const void *)inner::store<18>, 1, 1, arguments, 0, nullptr));
    assert_int_equal(read_int(device), 18);
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    assert_ok(cudaLaunchKernelEx(&config, inner::store<17>, device));
    assert_int_equal(read_int(device), 17);
    assert_ok(cudaFuncGetName(&name, (const void *)kernel));
    assert_string_equal(name, "_ZN5inner5storeILi17EEEvPi");
    assert_ok(cudaGetFuncBySymbol(&function, (const void *)kernel));
    assert_ok(cudaFuncGetParamInfo((const void *)many_parameters, 2, &offset, &size));
    assert_int_equal(offset, 16);
    assert_int_equal(size, sizeof(odd));
    assert_error(cudaFuncGetParamInfo((const void *)many_parameters, 5, &offset, &size),
                 cudaErrorInvalidValue);
    assert_error(cudaFuncGetName(&name, (const void *)read_int), cudaErrorInvalidResourceHandle);
    assert_error(cudaFuncGetName(&name, nullptr), cudaErrorInvalidDeviceFunction);
    assert_ok(cudaFree(device));
}

// ---- Launches that are refused, and do no harm --------------------------------------------------

static void test_refused_launches(void **)
{
    int *device = device_array<int>(1024);
    nothing<<<0, 1>>>();
    assert_launch(cudaErrorInvalidValue);
    nothing<<<1, 0>>>();
    assert_launch(cudaErrorInvalidValue);
    nothing<<<1, 1025>>>();
    assert_launch(cudaErrorInvalidValue);
    nothing<<<dim3(1, 65536), 1>>>();
    assert_launch(cudaErrorInvalidValue);
    nothing<<<1, dim3(1, 1, 65)>>>();
    assert_launch(cudaErrorInvalidValue);
    bounded<<<1, 128>>>(device);
    assert_launch(cudaSuccess);
    bounded<<<1, 129>>>(device);
    assert_launch(cudaErrorInvalidValue);
    assert_error(cudaLaunchKernel((const void *)read_int, 1, 1, nullptr, 0, nullptr),
                 cudaErrorInvalidResourceHandle);
    assert_launch(cudaErrorInvalidResourceHandle);
    nothing<<<1, 1>>>();
    assert_launch(cudaSuccess);
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaFree(device));
}

static void test_shared_memory_is_limited(void **)
{
    const void *kernel = (const void *)block_sums; // has 1024 bytes of static shared memory
    cudaFuncAttributes attributes;
    int *device = device_array<int>(256);

    assert_ok(cudaFuncGetAttributes(&attributes, kernel));
    assert_int_equal(attributes.sharedSizeBytes, 1024);
    assert_int_equal(attributes.maxDynamicSharedSizeBytes, 47 * 1024);
    block_sums<<<1, 256, 47 * 1024>>>(device, device);
    assert_launch(cudaSuccess);
    block_sums<<<1, 256, 47 * 1024 + 1>>>(device, device);
    assert_launch(cudaErrorInvalidValue);
    assert_ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    block_sums<<<1, 256, 64 * 1024>>>(device, device);
    assert_launch(cudaSuccess);
    block_sums<<<1, 256, 64 * 1024 + 4>>>(device, device);
    assert_launch(cudaErrorInvalidValue);
    int optin;
    assert_ok(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_ok(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, optin - 1024));
    assert_error(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, optin - 1023),
        cudaErrorInvalidValue);
    assert_error(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, -1),
                 cudaErrorInvalidValue);
    assert_error(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 101),
                 cudaErrorInvalidValue);
    assert_ok(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100));
    block_sums<<<1, 256, 101>>>(device, device);
    assert_launch(cudaErrorInvalidValue);
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaFree(device));
}

static void test_attributes_and_occupancy(void **)
{
    cudaFuncAttributes attributes;
    int blocks, threads;

    assert_ok(cudaFuncGetAttributes(&attributes, bounded));
    assert_int_equal(attributes.maxThreadsPerBlock, 128);
    assert_in_range(attributes.numRegs, 4, 32);
    assert_int_equal(attributes.localSizeBytes, 0);
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
    assert_int_equal(blocks, simulated() ? 1 : 2);
    if (simulated()) {
        assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 0));
        assert_int_equal(blocks, 24);
        assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 128, 24 << 10));
        assert_int_equal(blocks, 4); // each takes 25 KB of 100
    }
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 2048, 0));
    assert_int_equal(blocks, 0);
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 60000));
    assert_int_equal(blocks, 0);
    assert_error(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0),
                 cudaErrorInvalidValue);
    size_t bytes;
    assert_ok(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 2, 128));
    assert_true(bytes >= 32 << 10 && bytes <= 48 << 10);
    assert_error(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 0, 128),
                 cudaErrorInvalidValue);
    assert_ok(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, vector_add));
    assert_true(blocks > 0 && threads >= 32);
    void *arguments[1] = {};
    assert_error(
        cudaLaunchCooperativeKernel((const void *)nothing, 100000, 1024, arguments, 0, nullptr),
        cudaErrorCooperativeLaunchTooLarge);
    assert_ok(cudaLaunchCooperativeKernel((const void *)nothing, 2, 32, arguments, 0, nullptr));
}

// ---- Copies and memory --------------------------------------------------------------------------

static void test_copies_are_checked(void **)
{
    enum { BYTES = 1 << 20 };
    char *host = (char *)calloc(2, BYTES), *device = device_array<char>(BYTES);

    assert_ok(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice));
    assert_error(cudaMemcpy(device, host, BYTES + BYTES / 2, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue);
    assert_error(cudaMemcpy(host, device, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_error(cudaMemcpy(device, host, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_error(cudaMemcpy(host, host + 64, 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
    assert_ok(cudaMemcpy(host, host + 64, 4, cudaMemcpyDefault));
    assert_ok(cudaMemcpy(device, device + 64, 4, cudaMemcpyHostToHost));
    assert_error(cudaMemcpy(device, host, 4, (cudaMemcpyKind)7), cudaErrorInvalidMemcpyDirection);
    assert_error(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_error(cudaMemcpy(device, nullptr, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_ok(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    assert_error(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
    assert_error(cudaMemset(device, 0, 2 * BYTES), cudaErrorInvalidValue);
    assert_error(cudaMemcpy2D(device, 8, host, 8, 16, 2, cudaMemcpyHostToDevice),
                 cudaErrorInvalidPitchValue);
    assert_error(cudaMemset2D(device, 8, 0, 16, 2), cudaErrorInvalidValue);
    assert_ok(cudaFree(device));
    free(host);
}

static void test_rows_are_copied_and_filled(void **)
{
    char host[4][10], back[4][6];
    size_t pitch;
    void *device;
    for (int i = 0; i < 40; ++i)
        host[i / 10][i % 10] = (char)i;

    assert_ok(cudaMallocPitch(&device, &pitch, 10, 4));
    assert_true(pitch >= 10 && pitch % 256 == 0);
    assert_ok(cudaMemcpy2D(device, pitch, host, 10, 10, 4, cudaMemcpyHostToDevice));
    assert_ok(cudaMemset2D((char *)device + 1, pitch, 99, 2, 3));
    assert_ok(cudaMemcpy2D(back, 6, device, pitch, 6, 4, cudaMemcpyDeviceToHost));
    for (int row = 0; row < 4; ++row)
        for (int column = 0; column < 6; ++column)
            assert_int_equal(back[row][column],
                             row < 3 && (column == 1 || column == 2) ? 99 : 10 * row + column);
    assert_ok(cudaFree(device));
}

static void test_boxes_are_copied_and_filled(void **)
{
    const int width = 6, height = 4, depth = 3;
    unsigned char host[depth][height][width], back[depth][height][width];
    cudaPitchedPtr device;
    cudaMemcpy3DParms copy = {};

    for (int i = 0; i < width * height * depth; ++i)
        ((unsigned char *)host)[i] = (unsigned char)(i + 1);
    memset(back, 0, sizeof back);
    assert_ok(cudaMalloc3D(&device, make_cudaExtent(width, height, depth)));
    assert_true(device.pitch >= (size_t)width && device.pitch % 32 == 0);
    copy.srcPtr = make_cudaPitchedPtr(host, width, width, height);
    copy.dstPtr = device;
    copy.extent = make_cudaExtent(width, height, depth);
    copy.kind = cudaMemcpyHostToDevice;
    assert_ok(cudaMemcpy3D(&copy));
    cudaPitchedPtr inside = device; // rows 1 and 2 of each slice, columns 2 to 4
    inside.ptr = (char *)device.ptr + device.pitch + 2;
    assert_ok(cudaMemset3D(inside, 99, make_cudaExtent(3, 2, depth)));
    copy.srcPtr = device; // copies a box to another place
    copy.srcPos = make_cudaPos(1, 1, 1);
    copy.dstPtr = make_cudaPitchedPtr(back, width, width, height);
    copy.dstPos = make_cudaPos(0, 2, 1);
    copy.extent = make_cudaExtent(5, 2, 2);
    copy.kind = cudaMemcpyDeviceToHost;
    assert_ok(cudaMemcpy3D(&copy));
    for (int z = 0; z < depth; ++z)
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                bool copied = z >= 1 && y >= 2 && x < 5;
                int set = x + 1 >= 2 && x + 1 < 5 ? 99 : copied ? host[z][y - 1][x + 1] : 0;
                assert_int_equal(back[z][y][x], copied ? set : 0);
            }
    copy.extent.depth = 4; // past the end
    assert_error(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    cudaGetLastError();
    assert_ok(cudaFree(device.ptr));
    int *from = device_array<int>(1), *to = device_array<int>(1);
    increment<<<1, 3>>>(from);
    assert_ok(cudaMemcpyPeer(to, 0, from, 0, sizeof *to));
    assert_int_equal(read_int(to), 3);
    assert_ok(cudaFree(from));
    assert_ok(cudaFree(to));
}

static void test_pools(void **)
{
    cudaMemPool_t pool, mine, now;
    cudaMemPoolProps props = {};
    uint64_t used, before, threshold = UINT64_MAX;
    int *memory, *other, supported, value = 0;

    assert_ok(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    assert_int_equal(supported, 1);
    assert_ok(cudaDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    threshold = 0;
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    assert_true(threshold == UINT64_MAX);
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &before));
    assert_ok(cudaMallocAsync((void **)&memory, 1 << 20, nullptr));
    assert_ok(cudaMemsetAsync(memory, 0, 4, nullptr));
    increment<<<1, 7>>>(memory);
    assert_int_equal(read_int(memory), 7);
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    assert_true(used == before + (1 << 20));
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    assert_ok(cudaMemPoolCreate(&mine, &props));
    assert_ok(cudaMallocFromPoolAsync((void **)&other, 256, mine, nullptr));
    assert_ok(cudaMemPoolSetAttribute(mine, cudaMemPoolReuseAllowOpportunistic, &value));
    assert_ok(cudaDeviceSetMemPool(0, mine));
    assert_ok(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, mine);
    assert_ok(cudaDeviceSetMemPool(0, pool));
    assert_ok(cudaFreeAsync(other, nullptr));
    assert_ok(cudaFreeAsync(memory, nullptr));
    assert_ok(cudaStreamSynchronize(nullptr));
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    assert_true(used == before);
    assert_ok(cudaMemPoolTrimTo(pool, 0));
    assert_ok(cudaMemPoolDestroy(mine));
    assert_error(cudaMemPoolCreate(&mine, nullptr), cudaErrorInvalidValue);
    cudaGetLastError();
}

static void test_allocations(void **)
{
    void *address = (void *)1;
    size_t before, after, total;

    assert_ok(cudaMalloc(&address, 0));
    assert_null(address);
    assert_error(cudaMalloc((void **)nullptr, 4), cudaErrorInvalidValue);
    assert_error(cudaMalloc(&address, (size_t)1 << 45), cudaErrorMemoryAllocation);
    assert_launch(cudaErrorMemoryAllocation);
    assert_launch(cudaSuccess); // the error is returned once
    assert_ok(cudaFree(nullptr));
    assert_error(cudaFree(&before), cudaErrorInvalidValue);
    assert_ok(cudaMemGetInfo(&before, &total));
    assert_ok(cudaMalloc(&address, 256 << 20));
    assert_ok(cudaMemGetInfo(&after, &total));
    assert_true(after < before && before <= total);
    assert_error(cudaFree((char *)address + 1), cudaErrorInvalidValue);
    assert_error(cudaFreeHost(address), cudaErrorInvalidValue);
    assert_ok(cudaFree(address));
    assert_error(cudaFree(address), cudaErrorInvalidValue);
    assert_ok(cudaMallocAsync(&address, 64, nullptr));
    assert_ok(cudaFreeAsync(address, nullptr));
}

static void test_pinned_and_registered_memory(void **)
{
    static int own[1024];
    int *pinned;
    void *device;
    cudaPointerAttributes attributes;

    assert_ok(cudaMallocHost(&pinned, 64));
    *pinned = 41;
    increment<<<1, 1>>>(pinned);
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(*pinned, 42);
    assert_ok(cudaHostGetDevicePointer(&device, pinned, 0));
    assert_ptr_equal(device, pinned);
    assert_ok(cudaPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_error(cudaFree(pinned), cudaErrorInvalidValue);
    assert_ok(cudaFreeHost(pinned));
    assert_error(cudaFreeHost(pinned), cudaErrorInvalidValue);

    unsigned flags;
    assert_ok(cudaHostAlloc(&pinned, 64, cudaHostAllocWriteCombined));
    assert_ok(cudaHostGetFlags(&flags, pinned + 3));
    assert_int_equal(flags & (cudaHostAllocMapped | cudaHostAllocWriteCombined),
                     cudaHostAllocMapped | cudaHostAllocWriteCombined);
    assert_ok(cudaFreeHost(pinned));
    assert_error(cudaHostGetFlags(&flags, own), cudaErrorInvalidValue);

    assert_ok(cudaPointerGetAttributes(&attributes, own));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_ptr_equal(attributes.hostPointer, own);
    assert_null(attributes.devicePointer);
    assert_ok(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    assert_error(cudaHostRegister(own, sizeof own, 0), cudaErrorHostMemoryAlreadyRegistered);
    increment<<<1, 32>>>(own);
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(own[0], 32);
    assert_ok(cudaHostUnregister(own));
    assert_error(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);

    int *memory = device_array<int>(4);
    assert_ok(cudaPointerGetAttributes(&attributes, memory + 3));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    assert_null(attributes.hostPointer);
    assert_ok(cudaFree(memory));
}

// ---- Streams, events, graphs --------------------------------------------------------------------

static void test_streams_and_events(void **)
{
    cudaStream_t stream, other, refused;
    cudaEvent_t start, end, untimed, none;
    int *device = device_array<int>(1);
    float milliseconds;

    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    assert_error(cudaStreamCreateWithFlags(&refused, 77), cudaErrorInvalidValue);
    assert_ok(cudaEventCreate(&start));
    assert_ok(cudaEventCreate(&end));
    assert_ok(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    assert_error(cudaEventCreateWithFlags(&none, 0x100), cudaErrorInvalidValue);
    assert_ok(cudaEventQuery(start)); // an event that was never recorded is complete
    assert_error(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
    assert_ok(cudaMemsetAsync(device, 0, 4, stream));
    assert_ok(cudaEventRecord(start, stream));
    increment<<<3, 64, 0, stream>>>(device);
    assert_ok(cudaEventRecord(end, stream));
    assert_ok(cudaStreamWaitEvent(other, end, 0));
    increment<<<1, 1, 0, other>>>(device);
    assert_ok(cudaEventRecord(untimed, other));
    assert_ok(cudaEventSynchronize(untimed));
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaStreamQuery(other));
    assert_int_equal(read_int(device), 193);
    assert_error(cudaEventElapsedTime(&milliseconds, start, untimed),
                 cudaErrorInvalidResourceHandle);
    assert_ok(cudaEventElapsedTime(&milliseconds, start, end));
    // In the simulator a warp instruction takes 1e-6 ms: six warps execute at least three each.
    assert_true(milliseconds > (simulated() ? 6 * 3e-6 : 0));
    assert_ok(cudaEventElapsedTime(&milliseconds, start, start));
    assert_true(milliseconds < 6 * 3e-6);
    cudaGetLastError();
    assert_ok(cudaEventDestroy(start));
    assert_ok(cudaEventDestroy(end));
    assert_ok(cudaEventDestroy(untimed));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaStreamDestroy(other));
    if (simulated()) { // a GPU's runtime crashes here
        assert_error(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
        assert_error(cudaEventSynchronize(start), cudaErrorInvalidResourceHandle);
    }
    assert_ok(cudaFree(device));
}

static void add_one(void *value)
{
    ++*(int *)value;
}

static void test_captured_graph(void **)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCaptureStatus status;
    int *device = device_array<int>(2), host[2] = {}, calls = 0;
    size_t nodes;

    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaMemset(device, 0, 8));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    increment<<<2, 32, 0, stream>>>(device);
    assert_ok(cudaMemsetAsync(device + 1, 1, 4, stream));
    assert_ok(cudaMemcpyAsync(host, device, 8, cudaMemcpyDeviceToHost, stream));
    assert_ok(cudaLaunchHostFunc(stream, add_one, &calls));
    assert_ok(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_ok(cudaStreamEndCapture(stream, &graph));
    assert_int_equal(read_int(device), 0); // nothing was done yet
    assert_ok(cudaGraphGetNodes(graph, nullptr, &nodes));
    assert_int_equal(nodes, 4);
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    assert_ok(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; ++i)
        assert_ok(cudaGraphLaunch(exec, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_int_equal(host[0], 3 * 64);
    assert_int_equal(host[1], 0x01010101);
    assert_int_equal(calls, 3);
    assert_ok(cudaGraphExecDestroy(exec));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(device));
}

static void test_capture_over_two_streams(void **)
{
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int *device = device_array<int>(1);

    assert_ok(cudaMemset(device, 0, 4));
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaStreamCreate(&other));
    assert_ok(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    assert_ok(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    for (int joined = 0; joined < 2; ++joined) {
        assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        assert_ok(cudaEventRecord(fork, stream));
        assert_ok(cudaStreamWaitEvent(other, fork, 0));
        increment<<<1, 5, 0, other>>>(device);
        if (!joined) {
            assert_error(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
            continue;
        }
        assert_ok(cudaEventRecord(join, other));
        assert_ok(cudaStreamWaitEvent(stream, join, 0));
        assert_ok(cudaStreamEndCapture(stream, &graph));
    }
    assert_error(cudaEventQuery(fork), cudaErrorInvalidValue); // its capture is over
    cudaGetLastError();
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    assert_ok(cudaGraphLaunch(exec, stream));
    assert_ok(cudaStreamSynchronize(stream));
    assert_int_equal(read_int(device), 5);
    assert_ok(cudaGraphExecDestroy(exec));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaEventDestroy(fork));
    assert_ok(cudaEventDestroy(join));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaStreamDestroy(other));
    assert_ok(cudaFree(device));
}

// A graph built node by node: a fill before a kernel, an empty node before a child graph, a copy to
// the host after both, and a host call after the copy.
static void test_graph_of_nodes(void **)
{
    cudaGraph_t graph, child;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, add, copy, call, join, inner, last, from_host;
    cudaGraphNodeType type;
    int *device = device_array<int>(4), host[4] = {}, source[2] = {40, 50}, calls = 0;

    assert_ok(cudaGraphCreate(&graph, 0));
    cudaMemsetParams set = {};
    set.dst = device;
    set.value = 0x01020304;
    set.elementSize = 4;
    set.width = 2;
    set.height = 1;
    assert_ok(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &set));
    void *arguments[] = {&device};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)increment;
    kernel.gridDim = dim3(2);
    kernel.blockDim = dim3(8);
    kernel.kernelParams = arguments;
    assert_ok(cudaGraphAddKernelNode(&add, graph, &fill, 1, &kernel));
    assert_ok(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, host, device, sizeof host,
                                       cudaMemcpyDeviceToHost));
    cudaHostNodeParams function = {};
    function.fn = add_one;
    function.userData = &calls;
    assert_ok(cudaGraphAddHostNode(&call, graph, &copy, 1, &function));
    assert_ok(cudaGraphAddEmptyNode(&join, graph, nullptr, 0));
    assert_ok(cudaGraphCreate(&child, 0));
    assert_ok(cudaGraphAddMemcpyNode1D(&from_host, child, nullptr, 0, device + 2, source,
                                       sizeof source, cudaMemcpyHostToDevice));
    assert_ok(cudaGraphAddChildGraphNode(&inner, graph, &join, 1, child));
    assert_ok(cudaGraphDestroy(child));
    // The copy was added before `inner`, on which it depends.
    cudaGraphNode_t before[] = {add, inner}, after[] = {copy, copy};
    assert_ok(cudaGraphAddDependencies(graph, before, after, nullptr, 2));
    assert_error(cudaGraphAddEmptyNode(&last, graph, &from_host, 1), cudaErrorInvalidValue);
    assert_ok(cudaGraphNodeGetType(inner, &type));
    assert_int_equal(type, cudaGraphNodeTypeGraph);
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i)
        assert_ok(cudaGraphLaunch(exec, nullptr));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(host[0], 0x01020304 + 16);
    assert_int_equal(host[1], 0x01020304);
    assert_int_equal(host[2], 40);
    assert_int_equal(host[3], 50);
    assert_int_equal(calls, 2);
    kernel.gridDim = dim3(3);
    assert_ok(cudaGraphExecKernelNodeSetParams(exec, add, &kernel));
    assert_error(cudaGraphExecKernelNodeSetParams(exec, copy, &kernel), cudaErrorInvalidValue);
    assert_ok(cudaGraphLaunch(exec, nullptr));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(host[0], 0x01020304 + 24);
    assert_ok(cudaGraphExecDestroy(exec));
    // A graph with a cycle cannot be instantiated.
    assert_ok(cudaGraphAddDependencies(graph, &call, &fill, nullptr, 1));
    assert_error(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue);
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaFree(device));
    cudaGetLastError();
}

// The edges of a capture over two streams; the parameters of its kernels; and an executable graph that
// is updated from another graph of the same shape.
static void test_graph_asked_and_updated(void **)
{
    cudaStream_t first, second;
    cudaEvent_t fork, join;
    cudaGraph_t graph[2], longer;
    cudaGraphExec_t exec;
    int *device = device_array<int>(2), *moved = device + 1;
    assert_ok(cudaStreamCreate(&first));
    assert_ok(cudaStreamCreate(&second));
    assert_ok(cudaEventCreate(&fork));
    assert_ok(cudaEventCreate(&join));
    for (int i = 0; i < 2; ++i) {
        assert_ok(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
        increment<<<1, 1, 0, first>>>(device);
        assert_ok(cudaEventRecord(fork, first));
        assert_ok(cudaStreamWaitEvent(second, fork, 0));
        increment<<<1 + i, 2, 0, first>>>(device);
        increment<<<1, 4, 0, second>>>(device);
        assert_ok(cudaEventRecord(join, second));
        assert_ok(cudaStreamWaitEvent(first, join, 0));
        increment<<<1, 8, 0, first>>>(device);
        assert_ok(cudaStreamEndCapture(first, &graph[i]));
    }
    size_t edges = 0, roots = 1, nodes = 1;
    assert_ok(cudaGraphGetEdges(graph[0], nullptr, nullptr, nullptr, &edges));
    assert_int_equal(edges, 4); // a diamond
    cudaGraphNode_t root, from[4], to[4];
    cudaGraphEdgeData data[4];
    assert_ok(cudaGraphGetEdges(graph[0], from, to, data, &edges));
    assert_ok(cudaGraphGetRootNodes(graph[0], &root, &roots));
    assert_ok(cudaGraphGetNodes(graph[0], from, &nodes));
    assert_int_equal(roots, 1);
    assert_ptr_equal(root, from[0]);

    cudaKernelNodeParams kernel;
    assert_ok(cudaGraphKernelNodeGetParams(root, &kernel));
    assert_ptr_equal(kernel.func, (void *)increment);
    assert_int_equal(kernel.gridDim.x * kernel.blockDim.x, 1);
    assert_ptr_equal(*(int **)kernel.kernelParams[0], device);
    assert_ok(cudaGraphInstantiate(&exec, graph[0], 0));
    assert_ok(cudaGraphLaunch(exec, nullptr));
    assert_int_equal(read_int(device), 15);
    cudaGraphExecUpdateResultInfo info;
    assert_ok(cudaGraphExecUpdate(exec, graph[1], &info));
    assert_int_equal(info.result, cudaGraphExecUpdateSuccess);
    assert_ok(cudaGraphLaunch(exec, nullptr));
    assert_int_equal(read_int(device), 15 + 17);
    void *arguments[] = {&moved};
    kernel.kernelParams = arguments;
    assert_ok(cudaGraphExecKernelNodeSetParams(exec, root, &kernel));
    assert_ok(cudaGraphLaunch(exec, nullptr));
    assert_int_equal(read_int(device), 15 + 17 + 16);
    assert_int_equal(read_int(moved), 1);

    assert_ok(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 4; ++i) // a chain, not a diamond
        increment<<<1, 1, 0, first>>>(device);
    assert_ok(cudaStreamEndCapture(first, &longer));
    assert_error(cudaGraphExecUpdate(exec, longer, &info), cudaErrorGraphExecUpdateFailure);
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    cudaGetLastError();
    assert_ok(cudaGraphExecDestroy(exec));
    for (cudaGraph_t one : {graph[0], graph[1], longer})
        assert_ok(cudaGraphDestroy(one));
    assert_ok(cudaFree(device));
}

// A graph's own memory, by nodes and by a capture; a capture into an existing graph, whose nodes are
// listed meanwhile; nodes of any kind by cudaGraphAddNode.
static void test_graph_memory_and_capture_into(void **)
{
    int *out = device_array<int>(1), *inner, *captured;
    cudaGraph_t graph, body, same;
    cudaGraphNode_t allocation, child, copy, freed;
    cudaStream_t stream;
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaGraphCreate(&graph, 0));
    assert_ok(cudaGraphCreate(&body, 0));
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.poolProps.location.id = 0;
    memory.bytesize = sizeof(int);
    assert_ok(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &memory));
    inner = (int *)memory.dptr;
    assert_non_null(inner);

    assert_error(cudaStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0,
                                               cudaStreamCaptureModeGlobal),
                 cudaErrorInvalidValue);
    assert_ok(cudaStreamBeginCaptureToGraph(stream, graph, &allocation, nullptr, 1,
                                            cudaStreamCaptureModeGlobal));
    assert_ok(cudaMemsetAsync(inner, 0, sizeof(int), stream));
    increment<<<1, 8, 0, stream>>>(inner);
    cudaStreamCaptureStatus status;
    cudaGraph_t into;
    const cudaGraphNode_t *after;
    size_t count;
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, nullptr, &into, &after, nullptr, &count));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_ptr_equal(into, graph);
    assert_int_equal(count, 1);
    cudaGraphNodeType type;
    assert_ok(cudaGraphNodeGetType(after[0], &type));
    assert_int_equal(type, cudaGraphNodeTypeKernel);
    cudaGraphNode_t last = after[0], nowhere = nullptr;
    assert_ok(cudaMallocAsync(&captured, sizeof(int), stream));
    assert_ok(cudaMemcpyAsync(captured, inner, sizeof(int), cudaMemcpyDeviceToDevice, stream));
    assert_ok(cudaMemcpyAsync(out, captured, sizeof(int), cudaMemcpyDeviceToDevice, stream));
    assert_ok(cudaFreeAsync(captured, stream));
    assert_error(cudaStreamUpdateCaptureDependencies(stream, &nowhere, nullptr, 1,
                                                     cudaStreamSetCaptureDependencies),
                 cudaErrorInvalidValue);
    assert_ok(cudaStreamUpdateCaptureDependencies(stream, &last, nullptr, 1,
                                                  cudaStreamSetCaptureDependencies));
    increment<<<1, 1, 0, stream>>>(inner);
    assert_ok(cudaStreamEndCapture(stream, &same));
    assert_ptr_equal(same, graph);
    assert_ok(cudaGraphNodeGetType(allocation, &type));
    assert_int_equal(type, cudaGraphNodeTypeMemAlloc);
    assert_error(cudaGraphAddMemFreeNode(&freed, graph, nullptr, 0, out), cudaErrorInvalidValue);

    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeGraph;
    parameters.graph.graph = body;
    assert_ok(cudaGraphAddNode(&child, graph, nullptr, nullptr, 0, &parameters));
    parameters = {};
    parameters.type = cudaGraphNodeTypeMemset;
    parameters.memset.dst = out;
    parameters.memset.elementSize = 4;
    parameters.memset.width = parameters.memset.height = 1;
    assert_ok(cudaGraphAddNode(&copy, graph, &allocation, nullptr, 1, &parameters));
    assert_ok(cudaGraphAddDependencies(graph, &copy, &last, nullptr, 1));

    cudaGraphExec_t exec;
    assert_ok(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i) {
        assert_ok(cudaGraphLaunch(exec, stream));
        assert_ok(cudaStreamSynchronize(stream));
        int got = read_int(out);
        assert_true(got == 8 || got == 9); // the last increment and the copy are not ordered
    }
    assert_ok(cudaGraphExecDestroy(exec));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaGraphDestroy(body));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(out));
}

// ---- Arrays, textures, surfaces -----------------------------------------------------------------

__global__ void sample_volume(cudaTextureObject_t texture, float *out)
{
    out[threadIdx.x] = tex3D<float>(texture, threadIdx.x + 1, 1, 1);
}

__global__ void sample_bytes(cudaTextureObject_t texture, float *out)
{
    float2 value = tex1D<float2>(texture, (threadIdx.x + 0.5f) / 4);
    out[2 * threadIdx.x] = value.x;
    out[2 * threadIdx.x + 1] = value.y;
}

__global__ void write_surface(cudaSurfaceObject_t surface)
{
    short one = 0;
    surf2Dwrite((short)(10 * threadIdx.y + threadIdx.x), surface, 2 * threadIdx.x, threadIdx.y);
    surf2Dread(&one, surface, 2 * threadIdx.x, threadIdx.y);
    surf2Dwrite((short)(one + 1), surface, 2 * threadIdx.x, threadIdx.y);
    surf2Dwrite((short)99, surface, 2 * 77, threadIdx.y, cudaBoundaryModeZero);
}

// Samples cube maps whose faces have 2 x 2 texels: in the direction of each texel's centre, face by
// face, row by row. out: the texels in their order.
__global__ void sample_cubes(cudaTextureObject_t one, cudaTextureObject_t layers, float *out)
{
    const int quarter = threadIdx.x % 4, face = threadIdx.x / 4;
    const float s = quarter % 2 - 0.5f, t = quarter / 2 - 0.5f;
    const float x[6] = {1, -1, s, s, s, -s}, y[6] = {-t, -t, 1, -1, -t, -t};
    const float z[6] = {-s, s, t, -t, 1, -1};
    out[threadIdx.x] = texCubemap<float>(one, 3 * x[face], 3 * y[face], 3 * z[face]);
    out[24 + threadIdx.x] = texCubemapLayered<float>(layers, x[face], y[face], z[face], 1);
}

static void test_cubes(void **)
{
    float texels[12][2][2], *out = device_array<float>(48), got[48];
    for (int i = 0; i < 48; ++i)
        texels[i / 4][i / 2 % 2][i % 2] = i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    for (cudaExtent wrong : {make_cudaExtent(2, 3, 6), make_cudaExtent(2, 2, 5)})
        assert_error(cudaMalloc3DArray(&array, &format, wrong, cudaArrayCubemap),
                     cudaErrorInvalidValue);
    assert_error(cudaMalloc3DArray(&array, &format, make_cudaExtent(2, 2, 12), cudaArrayCubemap),
                 cudaErrorInvalidValue);
    cudaTextureObject_t texture[2];
    cudaTextureDesc reading = {};
    reading.normalizedCoords = 1;
    for (unsigned faces : {6, 12}) {
        unsigned layered = faces > 6 ? cudaArrayLayered : 0;
        assert_ok(cudaMalloc3DArray(&array, &format, make_cudaExtent(2, 2, faces),
                                    cudaArrayCubemap | layered));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(texels, sizeof texels[0][0], 2, 2);
        copy.dstArray = array;
        copy.extent = make_cudaExtent(2, 2, faces);
        copy.kind = cudaMemcpyHostToDevice;
        assert_ok(cudaMemcpy3D(&copy));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = array;
        assert_ok(cudaCreateTextureObject(&texture[faces / 12], &resource, &reading, nullptr));
    }
    sample_cubes<<<1, 24>>>(texture[0], texture[1], out);
    assert_ok(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 48; ++i)
        assert_true(got[i] == i);
}

static void test_arrays(void **)
{
    float volume[2][2][3], *out = device_array<float>(8), got[8];
    for (int i = 0; i < 12; ++i)
        volume[i / 6][i / 3 % 2][i % 3] = i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>(), wrong = {32, 16, 0, 0, format.f};
    cudaArray_t array;
    assert_error(cudaMallocArray(&array, &wrong, 4, 4), cudaErrorInvalidValue);
    assert_ok(cudaMalloc3DArray(&array, &format, make_cudaExtent(3, 2, 2)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(volume, sizeof volume[0][0], 3, 2);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(3, 2, 2);
    copy.kind = cudaMemcpyHostToDevice;
    assert_ok(cudaMemcpy3D(&copy));
    copy.dstPos.x = 1; // past the end
    assert_error(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc reading = {};
    for (cudaTextureAddressMode &mode : reading.addressMode)
        mode = cudaAddressModeClamp;
    reading.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    assert_error(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidValue);
    assert_ok(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
    sample_volume<<<1, 2>>>(texture, out); // samples halfway between eight texels
    assert_ok(cudaMemcpy(got, out, 8, cudaMemcpyDeviceToHost));
    assert_true(got[0] == 5 && got[1] == 6);
    assert_ok(cudaDestroyTextureObject(texture));
    assert_ok(cudaFreeArray(array));

    // Signed bytes as -1 to 1; integers are not filtered.
    const signed char pairs[4][2] = {{127, -128}, {0, -127}, {127, 0}, {-127, 127}};
    format = cudaCreateChannelDesc<char2>();
    assert_ok(cudaMallocArray(&array, &format, 4));
    assert_ok(cudaMemcpy2DToArray(array, 0, 0, pairs, sizeof pairs, sizeof pairs, 1,
                                  cudaMemcpyHostToDevice));
    resource.res.array.array = array;
    reading.normalizedCoords = 1;
    assert_error(cudaCreateTextureObject(&texture, &resource, &reading, nullptr),
                 cudaErrorInvalidFilterSetting);
    reading.filterMode = cudaFilterModePoint;
    reading.readMode = cudaReadModeNormalizedFloat;
    assert_ok(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
    sample_bytes<<<1, 4>>>(texture, out);
    assert_ok(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    const float want[8] = {1, -1, 0, -1, 1, 0, -1, 1};
    assert_memory_equal(got, want, sizeof want);
    assert_ok(cudaDestroyTextureObject(texture));
    assert_ok(cudaFreeArray(array));

    short back[3][4] = {};
    format = cudaCreateChannelDesc<short>();
    assert_ok(cudaMallocArray(&array, &format, 4, 3, cudaArraySurfaceLoadStore));
    resource.res.array.array = array;
    assert_ok(cudaCreateSurfaceObject(&surface, &resource));
    write_surface<<<1, dim3(4, 3)>>>(surface);
    assert_ok(cudaMemcpy2DFromArray(back, sizeof back[0], array, 0, 0, sizeof back[0], 3,
                                    cudaMemcpyDeviceToHost));
    for (int i = 0; i < 12; ++i)
        assert_int_equal(back[i / 4][i % 4], 10 * (i / 4) + i % 4 + 1);
    assert_ok(cudaDestroySurfaceObject(surface));
    assert_ok(cudaFreeArray(array));
    assert_ok(cudaFree(out));
    cudaGetLastError();
}

static void test_what_a_capture_forbids(void **)
{
    cudaStream_t stream, other;
    cudaGraph_t graph;
    cudaEvent_t event;
    int *device = device_array<int>(1), zero = 0;
    void *memory;

    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    assert_ok(cudaEventCreate(&event));
    assert_error(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
                 cudaErrorStreamCaptureUnsupported);
    assert_error(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);

// Expects this error of a call during a capture, and that the capture is then invalid.
#define assert_forbidden(call, error)                                                              \
    do {                                                                                           \
        assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));                    \
        assert_error(call, error);                                                                 \
        assert_error(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);     \
        assert_null(graph);                                                                        \
        cudaGetLastError();                                                                        \
    } while (0)
    assert_forbidden(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaFree(device), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaStreamSynchronize(other), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
    assert_forbidden(cudaMemcpy(device, &zero, 4, cudaMemcpyHostToDevice),
                     cudaErrorStreamCaptureImplicit);
    assert_forbidden(cudaMemcpyToSymbol(counter, &zero, 4), cudaErrorStreamCaptureImplicit);
    assert_forbidden((increment<<<1, 1>>>(device), cudaGetLastError()),
                     cudaErrorStreamCaptureImplicit);
    assert_forbidden((increment<<<0, 1, 0, stream>>>(device), cudaGetLastError()),
                     cudaErrorInvalidValue);
#undef assert_forbidden
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaStreamDestroy(other));
    assert_ok(cudaEventDestroy(event));
    assert_ok(cudaFree(device));
}

// ---- The device and errors ----------------------------------------------------------------------

static void test_device(void **)
{
    cudaDeviceProp device;
    int value;

    assert_ok(cudaGetDeviceCount(&value));
    assert_int_equal(value, 1);
    assert_ok(cudaGetDeviceProperties(&device, 0));
    assert_int_equal(device.warpSize, 32);
    if (simulated()) {
        assert_string_equal(device.name, "NVIDIA L4 (ptxsim)");
        assert_int_equal(device.major * 10 + device.minor, 89);
        assert_int_equal(device.multiProcessorCount, 58);
        assert_int_equal(device.sharedMemPerBlockOptin, 101376);
    }
    assert_ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    assert_int_equal(value, device.multiProcessorCount);
    assert_error(cudaDeviceGetAttribute(&value, (cudaDeviceAttr)999, 0), cudaErrorInvalidValue);
    assert_error(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
    assert_error(cudaGetDeviceProperties(&device, 9), cudaErrorInvalidDevice);
    assert_error(cudaSetDevice(7), cudaErrorInvalidDevice);
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaRuntimeGetVersion(&value));
    assert_int_equal(value / 1000, 13);
    assert_ok(cudaProfilerStart());
    assert_ok(cudaProfilerStop());
    cudaGetLastError();
}

static void test_errors_have_names(void **)
{
    assert_string_equal(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    assert_string_equal(cudaGetErrorString(cudaErrorIllegalAddress),
                        "an illegal memory access was encountered");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorString((cudaError_t)4242), "unrecognized error code");
    assert_string_equal(cudaGetErrorName((cudaError_t)4242), "unrecognized error code");
    for (int i = 0; i < 1000; ++i)
        assert_true(strlen(cudaGetErrorString((cudaError_t)i)) > 0);
    if (simulated())
        assert_string_equal(cudaGetErrorString(cudaErrorMpsRpcFailure), "mps rpc failure");
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(test_store_out_of_bounds), // faults first: see in_child
        cmocka_unit_test(test_store_to_host_memory_or_null),
        cmocka_unit_test(test_store_to_freed_memory),
        cmocka_unit_test(test_misaligned_store),
        cmocka_unit_test(test_trap_and_assertion),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_report_of_a_fault),
        cmocka_unit_test(test_vector_add),
        cmocka_unit_test(test_shared_memory_of_both_kinds),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_managed_variable),
        cmocka_unit_test(test_parameters_of_every_size),
        cmocka_unit_test(test_kernels_by_pointer_and_name),
        cmocka_unit_test(test_refused_launches),
        cmocka_unit_test(test_shared_memory_is_limited),
        cmocka_unit_test(test_attributes_and_occupancy),
        cmocka_unit_test(test_copies_are_checked),
        cmocka_unit_test(test_rows_are_copied_and_filled),
        cmocka_unit_test(test_boxes_are_copied_and_filled),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_pinned_and_registered_memory),
        cmocka_unit_test(test_streams_and_events),
        cmocka_unit_test(test_captured_graph),
        cmocka_unit_test(test_capture_over_two_streams),
        cmocka_unit_test(test_graph_of_nodes),
        cmocka_unit_test(test_graph_asked_and_updated),
        cmocka_unit_test(test_graph_memory_and_capture_into),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_cubes),
        cmocka_unit_test(test_what_a_capture_forbids),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_errors_have_names),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
