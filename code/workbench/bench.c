// bench.c: the device, buffers that show missing and stray writes, and timing. Timing follows three
// rules. Nothing is timed before it has been checked, and no time is believed unless the outputs
// are still right afterwards (program.c). A sample is long enough for the clock: launches over all
// input sets are captured into one graph and repeated until a replay takes SAMPLE_US or more, so
// that the resolution of the events (0.5 µs) and the start of the graph stay near a percent. And
// the input sets are taken in turn, so that a launch does not find all its inputs in the caches.
#include <dlfcn.h>
#include <math.h>
#include <nvtx3/nvToolsExt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { GUARD_BYTES = 4096, GUARD_PATTERN = 0xa5, POISON = 0xff }; // half 0xffff is NaN
static const double SAMPLE_US = 200;

void workbench_cuda_check(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    complain("%s:%d: %s: %s: %s", file, line, call, cudaGetErrorName(error),
             cudaGetErrorString(error));
    exit(EXIT_MACHINE);
}

cudaError_t launch_refused(cudaError_t error, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain("launch refused: %s", text);
    return error;
}

void range_push(const char *name)
{
    nvtxRangePushA(name);
}

void range_pop(void)
{
    nvtxRangePop();
}

void into_simulator(char **argv)
{
    const char *on = getenv("WORKBENCH_ON"), *old = getenv("LD_LIBRARY_PATH");
    char program[4096] = "", folder[4352], library[4608], path[8192];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    if (length <= 0 || (on && strcmp(on, "gpu") == 0))
        return;
    *strrchr(program, '/') = '\0';
    for (int up = 0; up < 2; ++up) { // the program is in build/, or in a folder in it
        snprintf(folder, sizeof folder, "%s%s/ptxsim", program, up ? "/.." : "");
        snprintf(library, sizeof library, "%s/libcudart.so.13", folder);
        if (access(library, R_OK) != 0)
            continue;
        if (old && strncmp(old, folder, strlen(folder)) == 0)
            return;
        snprintf(path, sizeof path, "%s%s%s", folder, old ? ":" : "", old ? old : "");
        setenv("LD_LIBRARY_PATH", path, 1);
        complain("no GPU here: in the simulator");
        execv("/proc/self/exe", argv);
        return;
    }
}

bool device_open(struct device *device, char *why, size_t size)
{
    struct cudaDeviceProp properties;
    const char *(*simulator_version)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "ptxsim_version");
    int count = 0;

    memset(device, 0, sizeof *device);
    // C has no cast from an object's pointer to a function's.
    memcpy(&simulator_version, &symbol, sizeof symbol);
    if (simulator_version)
        device->simulator = simulator_version();
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        snprintf(why, size,
                 "no CUDA device: %s; make chapterN builds the simulator, which needs none",
                 error != cudaSuccess ? cudaGetErrorString(error) : "none is there");
        return false;
    }
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    snprintf(device->name, sizeof device->name, "%s", properties.name);
    device->major = properties.major;
    device->minor = properties.minor;
    device->sms = properties.multiProcessorCount;
    device->l2_bytes = (size_t)properties.l2CacheSize;
    CUDA_CHECK(cudaDeviceGetAttribute(&device->clock_mhz, cudaDevAttrClockRate, 0));
    CUDA_CHECK(cudaDeviceGetAttribute(&device->memory_clock_mhz, cudaDevAttrMemoryClockRate, 0));
    device->clock_mhz /= 1000; // attributes are in kHz
    device->memory_clock_mhz /= 1000;
    CUDA_CHECK(cudaDriverGetVersion(&device->driver));
    CUDA_CHECK(cudaRuntimeGetVersion(&device->toolkit));
    CUDA_CHECK(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    if (!device->simulator) {
        char bus_id[32];
        snprintf(bus_id, sizeof bus_id, "%08x:%02x:%02x.0", (unsigned)properties.pciDomainID,
                 (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
        clock_meter_open(&device->meter, bus_id);
    }
    return true;
}

size_t device_free_bytes(void)
{
    size_t unused = 0, total = 0;

    CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    return unused;
}

static size_t flush_bytes(const struct device *device)
{
    // Twice the cache's size, since the cache does not strictly replace the oldest line first.
    return 2 * device->l2_bytes;
}

size_t device_bytes(const struct device *device, const struct shape *shape,
                    const struct options *options)
{
    bool timed = options->timing && !device->simulator;
    size_t one = shape_elements(shape) * 3 +
                 shape_outputs(shape) * (shape->newest ? 2 : 1) * sizeof(uint16_t) +
                 2 * GUARD_BYTES + 3 * sizeof(float) * (size_t)shape->heads;

    // One input set more than are timed: sets that are only checked are there one at a time.
    return one * (timed ? (size_t)options->rotations + 1 : 1) +
           (timed && (options->mode == TIME_COLD || options->on_demand) ? flush_bytes(device) : 0);
}

static void *upload(const void *bytes, size_t size)
{
    void *pointer = NULL;

    CUDA_CHECK(cudaMalloc(&pointer, size));
    CUDA_CHECK(cudaMemcpy(pointer, bytes, size, cudaMemcpyHostToDevice));
    return pointer;
}

// Uploads one number for each sequence.
static int *upload_numbers(const struct shape *shape, int (*number)(const struct shape *, int))
{
    int numbers[shape->batch];

    for (int b = 0; b < shape->batch; ++b)
        numbers[b] = number(shape, b);
    return upload(numbers, sizeof numbers);
}

static void *host(size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory) {
        complain("out of memory (%.1f GiB)", (double)bytes / (1 << 30));
        exit(EXIT_MACHINE);
    }
    return memory;
}

static void *upload_halves(const float *values, size_t count)
{
    uint16_t *halves = host(count * sizeof *halves);

    for (size_t i = 0; i < count; ++i)
        halves[i] = half_from_float(values[i]);
    void *pointer = upload(halves, count * sizeof *halves);
    free(halves);
    return pointer;
}

// Uploads the newest tokens of each sequence from [B][H][S][D]: one or, in a prompt, its query
// tokens; NaN where a sequence has fewer.
static void *upload_newest(const struct shape *shape, const float *values)
{
    size_t dim = (size_t)shape_head_dim(shape), room = shape->newest ? shape->newest : 1;
    size_t jobs = (size_t)shape->batch * shape->heads, count = jobs * room * dim;
    float *newest = host(count * sizeof *newest);

    for (size_t i = 0; i < count; ++i)
        newest[i] = NAN;
    for (size_t job = 0; job < jobs; ++job) {
        int b = (int)job / shape->heads, tokens = shape_newest(shape, b);
        size_t first = (size_t)(shape_length(shape, b) - tokens);
        memcpy(newest + job * room * dim, values + (job * shape->seq_len + first) * dim,
               (size_t)tokens * dim * sizeof *newest);
    }
    void *pointer = upload_halves(newest, count);
    free(newest);
    return pointer;
}

// Uploads Q as half: as drawn; or in a prompt the values of its codes, which halves represent
// exactly.
static void *upload_queries(const struct problem *problem)
{
    size_t count = shape_outputs(&problem->shape), dim = (size_t)shape_head_dim(&problem->shape);

    if (!problem->q_codes)
        return upload_halves(problem->q, count);
    float *values = host(count * sizeof *values);
    for (size_t i = 0; i < count; ++i)
        values[i] = e4m3_to_float(problem->q_codes[i]) * problem->q_scales[i / dim];
    void *pointer = upload_halves(values, count);
    free(values);
    return pointer;
}

// Zeroed scratch memory for the first launch; NULL: the program needs none. Each case has its own,
// so that a launch of another case cannot prepare it.
static void *create_scratch(const struct program *program, const struct cache_args *args)
{
    size_t bytes = program->scratch_bytes ? program->scratch_bytes(args) : 0;
    void *pointer = NULL;

    if (bytes > 0) {
        CUDA_CHECK(cudaMalloc(&pointer, bytes));
        CUDA_CHECK(cudaMemset(pointer, 0, bytes));
    }
    return pointer;
}

static void create_cache(struct device_case *c, const struct program *program,
                         const struct problem *problem)
{
    const struct shape *shape = &problem->shape;
    struct cache_image *image = &c->image;

    if (!cache_image_create(image, problem,
                            shape->head_dim ? program->code_place_128 : program->code_place,
                            program->scale_place)) {
        complain("out of memory (%.1f GiB)", shape_cache_bytes(shape) / (1 << 30));
        exit(EXIT_MACHINE);
    }
    c->inputs[0] = upload_queries(problem);
    c->inputs[1] = upload_newest(shape, problem->k);
    c->inputs[2] = upload_newest(shape, problem->v);
    c->inputs[3] = upload(image->before, image->bytes);
    c->inputs[4] =
        upload(image->table, (size_t)shape->batch * image->max_pages * sizeof *image->table);
    c->cache = (struct cache_args){
        .q = c->inputs[0],
        .new_k = c->inputs[1],
        .new_v = c->inputs[2],
        .codes = c->inputs[3],
        .scales = (uint8_t *)c->inputs[3] + image->code_bytes,
        .table = c->inputs[4],
        .lengths = c->lengths,
        .shape = *shape,
        .queries = shape->group,
        .page = shape->page,
        .max_pages = image->max_pages,
        .softmax_scale = problem->softmax_scale,
    };
    c->inputs[5] = create_scratch(program, &c->cache);
    c->cache.scratch = c->inputs[5];
}

// What is wrong with the cache after a launch, in the words that the grader uses; NULL: only the
// new tokens have been added.
static const char *wrong_cache(const struct device_case *c)
{
    const struct cache_image *image = &c->image;
    uint8_t *now = host(image->bytes);
    bool missing = false, changed = false;

    CUDA_CHECK(cudaMemcpy(now, c->cache.codes, image->bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < image->bytes; ++i)
        if (now[i] != image->then[i]) {
            missing |= image->then[i] != image->before[i];
            changed |= image->then[i] == image->before[i];
        }
    free(now);
    if (missing && changed)
        return "the new token is not in its place in the cache, and other bytes of it have changed";
    if (missing)
        return "the new token is not in its place in the cache";
    return changed ? "bytes of the cache have changed that are not the new token's" : NULL;
}

// ---- A problem on the device --------------------------------------------------------------------

static void upload_inputs(struct device_case *c, const struct problem *problem)
{
    size_t elements = shape_elements(&problem->shape);
    size_t scale_bytes = (size_t)problem->shape.heads * sizeof(float);

    c->inputs[0] = upload(problem->q_codes, elements);
    c->inputs[1] = upload(problem->k_codes, elements);
    c->inputs[2] = upload(problem->v_codes, elements);
    c->inputs[3] = upload(problem->q_scales, scale_bytes);
    c->inputs[4] = upload(problem->k_scales, scale_bytes);
    c->inputs[5] = upload(problem->v_scales, scale_bytes);
}

void case_create(struct device_case *c, const struct device *device, const struct program *program,
                 const struct problem *problem)
{
    void *block = NULL;

    memset(c, 0, sizeof *c);
    if (problem->shape.ragged || problem->shape.page)
        c->lengths = upload_numbers(&problem->shape, shape_length);
    if (problem->shape.newest)
        c->asked = upload_numbers(&problem->shape, shape_rows_asked);
    if (problem->shape.page)
        create_cache(c, program, problem);
    else
        upload_inputs(c, problem);
    c->guard = device->simulator ? 0 : GUARD_BYTES;
    c->out_bytes = shape_outputs(&problem->shape) * sizeof(uint16_t);
    CUDA_CHECK(cudaMalloc(&block, c->out_bytes + 2 * c->guard));
    c->block = block;
    c->cache.out = c->block + c->guard;
    c->args = (struct attention_args){
        .q = c->inputs[0],
        .k = c->inputs[1],
        .v = c->inputs[2],
        .q_scales = c->inputs[3],
        .k_scales = c->inputs[4],
        .v_scales = c->inputs[5],
        .out = c->block + c->guard,
        .shape = problem->shape,
        .softmax_scale = problem->softmax_scale,
    };
}

void case_destroy(struct device_case *c)
{
    for (int i = 0; i < 6; ++i)
        CUDA_CHECK(cudaFree(c->inputs[i]));
    CUDA_CHECK(cudaFree(c->lengths));
    CUDA_CHECK(cudaFree(c->asked));
    CUDA_CHECK(cudaFree(c->block));
    cache_image_destroy(&c->image);
    memset(c, 0, sizeof *c);
}

void case_poison(const struct device_case *c, const struct device *device)
{
    size_t all = c->out_bytes + 2 * c->guard;

    CUDA_CHECK(cudaMemsetAsync(c->block, GUARD_PATTERN, all, device->stream));
    CUDA_CHECK(cudaMemsetAsync(c->args.out, POISON, c->out_bytes, device->stream));
    if (c->image.bytes > 0)
        CUDA_CHECK(cudaMemcpyAsync(c->cache.codes, c->image.before, c->image.bytes,
                                   cudaMemcpyHostToDevice, device->stream));
    CUDA_CHECK(cudaStreamSynchronize(device->stream));
}

cudaError_t case_launch(const struct device_case *c, const struct program *program,
                        cudaStream_t stream)
{
    if (c->asked && program->launch_prompt) {
        struct prompt_args args = {c->cache, c->asked, c->cache.shape.newest};
        return program->launch_prompt(&args, stream);
    }
    if (c->image.bytes > 0)
        return program->launch_cache(&c->cache, stream);
    return c->lengths ? program->launch_ragged(&c->args, c->lengths, stream)
                      : program->launch(&c->args, stream);
}

cudaError_t case_run(const struct device_case *c, const struct device *device,
                     const struct program *program)
{
    cudaError_t error = case_launch(c, program, device->stream);
    cudaError_t after = cudaStreamSynchronize(device->stream);

    return error != cudaSuccess ? error : after;
}

static bool untouched(const uint8_t *guard, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        if (guard[i] != GUARD_PATTERN)
            return false;
    return true;
}

const char *case_fetch(const struct device_case *c, const struct device *device, uint16_t *out)
{
    uint8_t guards[2][GUARD_BYTES];

    CUDA_CHECK(cudaStreamSynchronize(device->stream));
    CUDA_CHECK(cudaMemcpy(out, c->args.out, c->out_bytes, cudaMemcpyDeviceToHost));
    const char *wrong = c->image.bytes > 0 ? wrong_cache(c) : NULL;
    if (wrong)
        return wrong;
    if (c->guard == 0)
        return NULL;
    CUDA_CHECK(cudaMemcpy(guards[0], c->block, c->guard, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(guards[1], c->block + c->guard + c->out_bytes, c->guard,
                          cudaMemcpyDeviceToHost));
    bool whole = untouched(guards[0], c->guard) && untouched(guards[1], c->guard);
    return whole ? NULL : "wrote outside its output";
}

static void launch(const struct stopwatch *watch, int index)
{
    CUDA_CHECK(case_launch(&watch->cases[index], watch->program, watch->device->stream));
}

// Prepares the launches of a sample: `repeats` passes over all cases.
static void prepare(struct stopwatch *watch, int repeats)
{
    cudaStream_t stream = watch->device->stream;
    cudaGraph_t graph;

    watch->launches = repeats * watch->count;
    if (watch->mode != TIME_GRAPH)
        return;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < repeats; ++i)
        for (int j = 0; j < watch->count; ++j)
            launch(watch, j);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&watch->graph, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

void stopwatch_create(struct stopwatch *watch, const struct device *device,
                      const struct program *program, const struct device_case *cases, int count,
                      enum timing_mode mode)
{
    *watch = (struct stopwatch){
        .mode = mode, .device = device, .program = program, .cases = cases, .count = count};
    CUDA_CHECK(cudaEventCreate(&watch->start));
    CUDA_CHECK(cudaEventCreate(&watch->stop));
    if (mode == TIME_COLD) {
        watch->launches = 1;
        watch->flush_bytes = flush_bytes(device);
        CUDA_CHECK(cudaMalloc(&watch->flush, watch->flush_bytes));
        return;
    }
    prepare(watch, 1);
    double shortest = stopwatch_sample(watch); // the first replay also uploads the graph
    for (int i = 0; i < 3; ++i) {
        double us = stopwatch_sample(watch);
        shortest = us < shortest ? us : shortest;
    }
    double repeats = SAMPLE_US / (shortest * watch->count);
    if (repeats > 1) {
        if (watch->graph)
            CUDA_CHECK(cudaGraphExecDestroy(watch->graph));
        prepare(watch, repeats < 256 ? (int)repeats + 1 : 256);
    }
}

double stopwatch_sample(struct stopwatch *watch)
{
    cudaStream_t stream = watch->device->stream;
    float ms = 0;

    if (watch->flush) {
        // The flush also keeps the device busy while the host enqueues the rest, so the time does
        // not include the host's launch latency.
        CUDA_CHECK(cudaMemsetAsync(watch->flush, 0, watch->flush_bytes, stream));
        CUDA_CHECK(cudaEventRecord(watch->start, stream));
        launch(watch, watch->next);
        watch->next = (watch->next + 1) % watch->count;
    } else {
        CUDA_CHECK(cudaEventRecord(watch->start, stream));
        if (watch->graph)
            CUDA_CHECK(cudaGraphLaunch(watch->graph, stream));
        else
            for (int i = 0; i < watch->launches; ++i)
                launch(watch, i % watch->count);
    }
    CUDA_CHECK(cudaEventRecord(watch->stop, stream));
    CUDA_CHECK(cudaEventSynchronize(watch->stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, watch->start, watch->stop));
    return 1e3 * (double)ms / watch->launches;
}

void stopwatch_destroy(struct stopwatch *watch)
{
    if (watch->graph)
        CUDA_CHECK(cudaGraphExecDestroy(watch->graph));
    CUDA_CHECK(cudaFree(watch->flush));
    CUDA_CHECK(cudaEventDestroy(watch->start));
    CUDA_CHECK(cudaEventDestroy(watch->stop));
}
