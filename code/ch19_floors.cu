// Tangled from chapters/19-scoreboard.md; edit that, then `make tangle`.

// Chapter 19: the floors. What the units of the GPU at hand do at most, and
// how fast attention could be if nothing but one of them took time.
//
//   make chapter19 && build/ch19_floors [--record FILE]
//
// Each unit gets a kernel that does nothing else. Every kernel's result is
// checked, here and in the simulator: a loop that the compiler has thrown away
// is fast, too.

#include <cuda_runtime.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "workbench/workbench.h"

// ---- Keep the stream and its clock ----
static cudaStream_t stream;
static cudaEvent_t begin, end;
static struct cudaDeviceProp gpu;
static int failures;

static double elapsed_us()
{
    float ms = 0;
    CUDA_CHECK(cudaEventRecord(end, stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    return 1e3 * ms;
}

// ---- Exponentials and nothing else ----
constexpr int CHAINS = 8; // independent of each other, to hide the latency
constexpr float FIXED_POINT = 0.64118574f; // x = 2^-x

__global__ void exponentials(float *out, int rounds)
{
    float x[CHAINS], sum = 0;
    for (int i = 0; i < CHAINS; ++i)
        x[i] = 0.125f * ((threadIdx.x + i) % 8);
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i)
            asm volatile("{ .reg .f32 minus;\n"
                         "neg.f32 minus, %0;\n"
                         "ex2.approx.ftz.f32 %0, minus; }"
                         : "+f"(x[i]));

    // Use what every chain has computed
    for (int i = 0; i < CHAINS; ++i)
        sum += x[i];

    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each product adds 16 * 1 * 2^-4 = 1 to each of its sums.
__global__ void products_fp16(float *out, int rounds)
{
    float acc[CHAINS][4] = {}, sum = 0;
    uint32_t a = 0x3c003c00, b = 0x2c002c00; // two halves each: 1, 2^-4
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(acc[i][0]), "+f"(acc[i][1]), "+f"(acc[i][2]),
                           "+f"(acc[i][3])
                         : "r"(a), "r"(b));
    for (int i = 0; i < 4 * CHAINS; ++i)
        sum += acc[i / 4][i % 4];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- Products of E4M3 ----
__global__ void products_fp8(float *out, int rounds)
{
    float acc[CHAINS][4], sum = 0;
    uint32_t a = 0x38383838; // four codes: 1
    uint32_t b = 0x10101010; // 2^-5: its exponent field is 2, and the bias 7

    // Begin each chain with another number
    uint32_t none = rounds >> 30; // 0, but the compiler does not know
    for (int i = 0; i < 4 * CHAINS; ++i)
        acc[i / 4][i % 4] = i;

    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) {
            // Make a factor that is new each time
            uint32_t b_now = b | (__float_as_uint(acc[i][0]) & none);

            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                         "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(acc[i][0]), "+f"(acc[i][1]), "+f"(acc[i][2]),
                           "+f"(acc[i][3])
                         : "r"(a), "r"(b_now));
        }
    for (int i = 0; i < 4 * CHAINS; ++i)
        sum += acc[i / 4][i % 4];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- Spell 128 accumulators ----
#define EIGHT(x)                                                              \
    "d" #x "0,d" #x "1,d" #x "2,d" #x "3,d" #x "4,d" #x "5,d" #x "6,d" #x "7"
#define WGMMA                                                                 \
    "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {" EIGHT(1) ","    \
    EIGHT(2) "," EIGHT(3) "," EIGHT(4) "," EIGHT(5) "," EIGHT(6) "," EIGHT(7) \
    "," EIGHT(8) "," EIGHT(9) "," EIGHT(10) "," EIGHT(11) "," EIGHT(12) ","   \
    EIGHT(13) "," EIGHT(14) "," EIGHT(15) "," EIGHT(16) "}, %1, %2, p, 1, 1;\n"

// A warpgroup's products read both factors from shared memory. All results are
// NaN where the code is not for Hopper.
__global__ void products_wgmma(float *out, int rounds)
{
    float sum = NAN;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    // Fill two tiles, and describe them
    __shared__ alignas(128) uint32_t a[64 * 32 / 4], b[256 * 32 / 4];
    for (int i = threadIdx.x; i < 64 * 32 / 4; i += blockDim.x)
        a[i] = 0x38383838;
    for (int i = threadIdx.x; i < 256 * 32 / 4; i += blockDim.x)
        b[i] = 0x10101010;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    // Blocks of 8 rows by 16 bytes, one after the other: a row's next block is 128
    // bytes further on, the next 8 rows' block 256 bytes.
    uint64_t strides = (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
    uint64_t a_tile = strides | (uint32_t)__cvta_generic_to_shared(a) >> 4;
    uint64_t b_tile = strides | (uint32_t)__cvta_generic_to_shared(b) >> 4;

    // Four products a group. The first of all overwrites, the others add.
    asm volatile("{ .reg .f32 d<168>;\n"
                 ".reg .pred p, more;\n"
                 ".reg .s32 left;\n"
                 "mov.s32 left, %3;\n"
                 "setp.ne.s32 p, left, left;\n"
                 "again:\n"
                 "wgmma.fence.sync.aligned;\n" WGMMA
                 "setp.eq.s32 p, left, left;\n" WGMMA WGMMA WGMMA
                 "wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;\n"
                 "sub.s32 left, left, 4;\n"
                 "setp.gt.s32 more, left, 0;\n"
                 "@more bra again;\n"
                 "mov.f32 %0, d10; }"
                 : "=f"(sum)
                 : "l"(a_tile), "l"(b_tile), "r"(rounds)
                 : "memory");
#endif
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    (void)rounds;
}

// ---- Copy, and do nothing ----
__global__ void copy(uint4 *__restrict__ to, const uint4 *__restrict__ from,
                     size_t count)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4 // four loads under way
    for (size_t i = first; i < count; i += step)
        to[i] = from[i];
}

__global__ void nothing() {}

// ---- List the units ----
constexpr float BEGINNINGS = 4 * CHAINS * (4 * CHAINS - 1) / 2; // 0 + 1 + ...

static const struct unit {
    const char *key, *sum_key, *title;
    void (*kernel)(float *out, int rounds);
    int threads, ctas_per_sm;
    double work;            // of a CTA a round, in exponentials or flop
    float at_once, a_round; // a thread's result: at_once + a_round * rounds
} units[] = {
    {"exp", "", "exponentials", exponentials, 256, 8, 256.0 * CHAINS,
     CHAINS * FIXED_POINT, 0},
    {"fp16", "fp16_sum", "mma.sync, halves", products_fp16, 256, 2,
     8.0 * CHAINS * 4096, 0, 4 * CHAINS},
    {"fp8", "fp8_sum", "mma.sync, E4M3", products_fp8, 256, 2,
     8.0 * CHAINS * 8192, BEGINNINGS, 4 * CHAINS},
    {"wgmma", "wgmma_sum", "wgmma, E4M3", products_wgmma, 128, 2,
     64.0 * 256 * 32 * 2, 0, 1},
};
constexpr int UNITS = sizeof units / sizeof *units;

// False if a result is wrong, or if the unit is missing: all are NaN then.
static bool check(const unit *u, const float *out, int count, int rounds)
{
    float wanted = u->at_once + u->a_round * rounds;
    int wrong = 0, missing = 0;
    for (int i = 0; i < count; ++i) {
        missing += isnan(out[i]);
        wrong += !(fabsf(out[i] - wanted) <= 1e-5f * wanted);
    }
    if (missing == count)
        return false;
    printf("  %-4s  %-6s %s\n", wrong ? "FAIL" : "ok", u->key, u->title);
    if (wrong)
        printf("        %d of %d results are not %g, the last is %g\n", wrong,
               count, wanted, out[count - 1]);
    failures += wrong > 0;
    return wrong == 0;
}

// ---- Measure a unit ----
constexpr int FEW = 64, MANY = 4096; // rounds to check, and to time

// Runs a kernel, copies its results to the host; returns the time in us, or 0
// if `rounds` is not MANY.
static double run(const unit *u, int ctas, int rounds, float *results)
{
    size_t bytes = (size_t)ctas * u->threads * sizeof *results;
    float *out = NULL;
    double us = 0;
    CUDA_CHECK(cudaMalloc((void **)&out, bytes));
    CUDA_CHECK(cudaEventRecord(begin, stream));
    u->kernel<<<ctas, u->threads, 0, stream>>>(out, rounds);
    CUDA_CHECK(cudaGetLastError());
    if (rounds == MANY)
        us = elapsed_us();
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(results, out, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(out));
    return us;
}

// Work a second; 0 where the unit is missing or wrong, or nothing is timed.
// *sum: what the last run has added up to, in rounds.
static double rate(const unit *u, bool timed, double *sum)
{
    int ctas = timed ? gpu.multiProcessorCount * u->ctas_per_sm : 1;
    int count = ctas * u->threads;
    float *results = (float *)calloc(count, sizeof *results);
    double best = INFINITY;
    run(u, ctas, FEW, results);
    bool right = check(u, results, count, FEW);
    for (int i = 0; i < 6 && right && timed; ++i)
        best = fmin(best, run(u, ctas, MANY, results));
    *sum = (results[0] - u->at_once) / u->a_round;
    free(results);
    return right && timed ? u->work * ctas * MANY / best * 1e6 : 0;
}

// ---- Measure the memory ----
static double copy_rate() // bytes read and written a second
{
    size_t bytes = (size_t)1 << 29;
    uint4 *from = NULL, *to = NULL;
    double best = INFINITY;
    CUDA_CHECK(cudaMalloc((void **)&from, bytes));
    CUDA_CHECK(cudaMalloc((void **)&to, bytes));
    CUDA_CHECK(cudaMemsetAsync(from, 1, bytes, stream));
    for (int run = 0; run < 6; ++run) {
        CUDA_CHECK(cudaEventRecord(begin, stream));
        copy<<<gpu.multiProcessorCount * 8, 256, 0, stream>>>(to, from,
                                                            bytes / 16);
        CUDA_CHECK(cudaGetLastError());
        best = fmin(best, elapsed_us());
    }
    CUDA_CHECK(cudaFree(from));
    CUDA_CHECK(cudaFree(to));
    return 2.0 * bytes / best * 1e6;
}

// ---- Launch nothing ----
constexpr int LAUNCHES = 256, RUNS = 20;

static void launch_nothing(int count)
{
    for (int i = 0; i < count; ++i)
        nothing<<<gpu.multiProcessorCount, 128, 0, stream>>>();
    CUDA_CHECK(cudaGetLastError());
}

static double launch_by_graph()
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    double times[RUNS];
    CUDA_CHECK(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_nothing(LAUNCHES);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
    for (int run = -3; run < RUNS; ++run) { // three to warm up
        CUDA_CHECK(cudaEventRecord(begin, stream));
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        times[run < 0 ? 0 : run] = elapsed_us() / LAUNCHES;
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return summarise(times, RUNS).p50;
}

// ---- One after the other ----
static double launch_plainly()
{
    double times[RUNS];
    for (int run = -3; run < RUNS; ++run) {
        CUDA_CHECK(cudaEventRecord(begin, stream));
        launch_nothing(LAUNCHES);
        times[run < 0 ? 0 : run] = elapsed_us() / LAUNCHES;
    }
    return summarise(times, RUNS).p50;
}

// ---- Once, after the cache was overwritten ----
static double launch_cold()
{
    double times[RUNS];
    size_t bytes = 2 * (size_t)gpu.l2CacheSize;
    void *flush = NULL;
    CUDA_CHECK(cudaMalloc(&flush, bytes));
    for (int run = -3; run < RUNS; ++run) {
        CUDA_CHECK(cudaMemsetAsync(flush, 0, bytes, stream));
        CUDA_CHECK(cudaEventRecord(begin, stream));
        launch_nothing(1);
        times[run < 0 ? 0 : run] = elapsed_us();
    }
    CUDA_CHECK(cudaFree(flush));
    return summarise(times, RUNS).p50;
}

// ---- Work out the floors of a shape ----
struct rates {
    double unit[UNITS]; // work a second; 0: no such unit
    double sum[UNITS];  // rounds in a result: MANY if it is right
    double copy;        // bytes a second
    double graph, plain, cold; // µs for an empty launch
};

static json_t *floors(const rates *r, const char *name)
{
    struct shape shape;
    char why[128];
    if (!shape_parse(name, &shape, why, sizeof why))
        exit(3);
    double flop = shape_flops(&shape);
    double fp8 = fmax(r->unit[2], r->unit[3]);
    double exps = flop / (4 * (double)HEAD_DIM); // one for each score
    double us[4] = {exps / r->unit[0] * 1e6,
                    flop / r->unit[1] * 1e6, flop / fp8 * 1e6,
                    // Q, K, V: a byte an element; O: two
                    shape_elements(&shape) * 5.0 / r->copy * 1e6};
    static const char *const keys[] = {"exp", "fp16", "fp8", "dram"};
    // The floor leaves out products of halves, which a kernel need not use;
    // without_exp leaves out the exponentials as well, as chapter 18 does.
    double without_exp = fmax(us[2], us[3]), floor = fmax(us[0], without_exp);
    int binding = us[0] == floor ? 0 : us[2] == floor ? 2 : 3;
    json_t *said = json_object();
    for (int i = 0; i < 4; ++i)
        if (isfinite(us[i]))
            json_object_set_new(said, keys[i], json_real(us[i]));
    json_object_set_new(said, "binding", json_string(keys[binding]));
    json_object_set_new(said, "floor", json_real(floor));
    json_object_set_new(said, "floor_and_launch",
                        json_real(floor + r->graph));
    json_object_set_new(said, "without_exp_and_launch",
                        json_real(without_exp + r->graph));
    printf("  %-9s %9.2f %9.2f %9.2f %9.2f %9.2f\n", name, us[0], us[1], us[2],
           us[3], floor + r->graph);
    return said;
}

// ---- Write the record ----
static json_t *rates_json(const rates *r)
{
    json_t *said = json_object();
    for (int i = 0; i < UNITS; ++i)
        if (r->unit[i] > 0)
            json_object_set_new(said, units[i].key,
                                json_real(r->unit[i] * 1e-9));
    for (int i = 1; i < UNITS; ++i)
        if (r->unit[i] > 0)
            json_object_set_new(said, units[i].sum_key, json_real(r->sum[i]));
    double clock = 16.0 * gpu.multiProcessorCount; // exponentials a cycle
    json_object_set_new(said, "exp_mhz", json_real(r->unit[0] / clock * 1e-6));
    json_object_set_new(said, "copy_gbs", json_real(r->copy * 1e-9));
    json_object_set_new(said, "launch_graph_us", json_real(r->graph));
    json_object_set_new(said, "launch_plain_us", json_real(r->plain));
    json_object_set_new(said, "launch_cold_us", json_real(r->cold));
    return said;
}

static void write_record(const char *path, json_t *rates, json_t *shapes)
{
    char date[32], why[512];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_t *record = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:s, s:{s:s}, s:O, s:O}", "record", 1,
        "program", "ch19_floors", "source_hash", SOURCE_HASH, "git_commit",
        GIT_COMMIT, "date", date, "runtime", "gpu", "device", "name", gpu.name,
        "rates", rates, "shapes", shapes);
    char *text = json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    if (!text || !file_write(path, text, strlen(text), why, sizeof why)) {
        fprintf(stderr, "ch19_floors: %s\n", text ? why : "out of memory");
        exit(3);
    }
    free(text);
    json_decref(record);
}

// ---- Check the units, then measure them ----
static void usage(FILE *to)
{
    fprintf(to, "usage: ch19_floors [--record FILE] [--no-timing]\n");
}

int main(int argc, char **argv)
{
    const char *record = NULL;
    bool timed = true;

    // Read the options
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return 0;
        }
        if (strcmp(argv[i], "--no-timing") == 0) {
            timed = false;
        } else if (strcmp(argv[i], "--record") == 0 && i + 1 < argc) {
            record = argv[++i];
        } else {
            usage(stderr);
            return 2;
        }
    }

    // Find the GPU
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        fprintf(stderr, "ch19_floors: no GPU here; in the simulator "
                        "(LD_LIBRARY_PATH=build/ptxsim), --no-timing checks it\n");
        return 3;
    }
    CUDA_CHECK(cudaGetDeviceProperties(&gpu, 0));
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));

    rates r = {};
    printf("Checks\n");
    for (int i = 0; i < UNITS; ++i)
        r.unit[i] = rate(&units[i], timed, &r.sum[i]);
    if (!timed || failures)
        return failures > 0;

    // Say what the units do, and what follows
    static const char *const names[] = {"small", "mission", "long", "huge"};
    r.copy = copy_rate();
    r.graph = launch_by_graph();
    r.plain = launch_plainly();
    r.cold = launch_cold();
    printf("\n%s, at most, a second\n", gpu.name);
    for (int i = 0; i < UNITS; ++i)
        if (r.unit[i] > 0)
            printf("  %-18s %9.1f G%s\n", units[i].title, r.unit[i] * 1e-9,
                   i == 0 ? "" : "FLOP");
    for (int i = 1; i < UNITS; ++i)
        if (r.unit[i] > 0)
            printf("  %-18s adds %d ones up to %g\n", units[i].title, MANY,
                   r.sum[i]);
    printf("  %-18s %9.1f GB\n", "copy, read + write", r.copy * 1e-9);
    printf("An empty launch: %.2f us in a graph, %.2f plain, %.2f cold\n", r.graph,
           r.plain, r.cold);
    printf("\nFloors, us          exp      fp16      fp8      DRAM  + launch\n");
    json_t *shapes = json_object();
    for (const char *name : names)
        json_object_set_new(shapes, name, floors(&r, name));
    if (record)
        write_record(record, rates_json(&r), shapes);

    return 0;
}
