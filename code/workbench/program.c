// program.c: workbench_main(), which calls the other files' functions in order: options, resources;
// then it checks every kind of inputs and every seed of each shape. A shape is timed only if all
// its outputs are right; they are checked again afterwards.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { CLOCK_READINGS = 16 }; // most readings of the clock during a batch; one more at its end

// An input set on the device, with its expected output, kept to be timed.
struct checked {
    struct device_case device;
    float *ref;
    struct error_metrics rounded; // errors of rounding P alone
    struct error_limits limits;
    enum input_kind input;
    uint64_t seed;
};

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory) {
        complain("out of memory (%.1f GiB)", (double)bytes / (1 << 30));
        exit(EXIT_MACHINE);
    }
    return memory;
}

// ---- Before the long work -----------------------------------------------------------------------

// Checks that the program supports what the shapes have: ragged batches, caches, prompts, heads of
// 128.
static bool takes_shapes(const struct options *o, const struct program *program)
{
    bool prompts = program->launch_prompt != NULL;

    for (int i = 0; i < o->shape_count; ++i) {
        bool cache = o->shapes[i].page > 0;
        int newest = o->shapes[i].newest;
        if (o->shapes[i].head_dim && !program->heads_of_128) {
            complain("--shapes: %s: %s takes heads of %d elements only: write it without d%d",
                     o->shapes[i].name, program->name, HEAD_DIM, o->shapes[i].head_dim);
            return false;
        }
        if (newest > 1 && program->launch_cache && !prompts) {
            complain("--shapes: %s: %s asks one query of a cache: write BxHxSqQpP without s",
                     o->shapes[i].name, program->name);
            return false;
        }
        if (newest == 0 && prompts &&
            !(cache ? program->launch_cache != NULL : program->launch != NULL)) {
            complain("--shapes: %s: %s asks a cache with a prompt: write BxHxSqQpPsN, as "
                     "2x8x512q4p16s32",
                     o->shapes[i].name, program->name);
            return false;
        }
        if (cache && !program->launch_cache && !prompts) {
            complain("--shapes: %s: %s asks no cache: write BxHxS without q and p",
                     o->shapes[i].name, program->name);
            return false;
        }
        if (!cache && !program->launch) {
            complain("--shapes: %s: %s asks a cache: write BxHxSqQpP, as 2x8x512q4p16",
                     o->shapes[i].name, program->name);
            return false;
        }
        if (cache)
            continue;
        if (o->shapes[i].ragged && (!program->launch_ragged || o->launch_only)) {
            complain("--shapes: %s: %s takes no sequences of different lengths%s",
                     o->shapes[i].name, o->launch_only ? "--launch-only" : program->name,
                     o->launch_only ? "" : ": write BxHxS without r");
            return false;
        }
    }
    return true;
}

static void case_path(char *path, size_t size, const char *folder, const struct shape *shape,
                      enum input_kind input, uint64_t seed)
{
    snprintf(path, size, "%s/%s-%s-seed%llu.half", folder, shape->name, input_kind_name(input),
             (unsigned long long)seed);
}

// Checks that each stored output that --against needs exists and is complete.
static bool stored_outputs_are_there(const struct options *o)
{
    for (int i = 0; i < o->shape_count; ++i) {
        for (int j = 0; j < o->input_count * o->seed_count; ++j) {
            struct stat status;
            char path[4096];
            size_t bytes = shape_outputs(&o->shapes[i]) * sizeof(uint16_t);
            case_path(path, sizeof path, o->against, &o->shapes[i], o->inputs[j / o->seed_count],
                      o->seeds[j % o->seed_count]);
            if (stat(path, &status) != 0) {
                complain("--against: %s: %s", path, strerror(errno));
                return false;
            }
            if ((size_t)status.st_size != bytes) {
                complain("--against: %s has %lld bytes, the output %zu", path,
                         (long long)status.st_size, bytes);
                return false;
            }
        }
    }
    return true;
}

static enum exit_status check_files(const struct options *o)
{
    char why[4352];

    if (o->record && !file_writable(o->record, why, sizeof why)) {
        complain("--record: %s", why);
        return EXIT_MACHINE;
    }
    if (o->summaries) {
        if (mkdir(o->summaries, 0777) != 0 && errno != EEXIST) {
            complain("--summaries: cannot make %s: %s", o->summaries, strerror(errno));
            return EXIT_MACHINE;
        }
        for (int i = 0; i < SUMMARY_FILES; ++i) {
            char probe[4096];
            snprintf(probe, sizeof probe, "%s/%s", o->summaries, summary_names[i]);
            if (!file_writable(probe, why, sizeof why)) {
                complain("--summaries: %s", why);
                return EXIT_MACHINE;
            }
        }
    }
    if (o->outputs) {
        char probe[4096];
        if (mkdir(o->outputs, 0777) != 0 && errno != EEXIST) {
            complain("--outputs: cannot make %s: %s", o->outputs, strerror(errno));
            return EXIT_MACHINE;
        }
        case_path(probe, sizeof probe, o->outputs, &o->shapes[0], o->inputs[0], o->seeds[0]);
        if (!file_writable(probe, why, sizeof why)) {
            complain("--outputs: %s", why);
            return EXIT_MACHINE;
        }
    }
    if (o->against && !stored_outputs_are_there(o))
        return EXIT_USAGE;
    return EXIT_PASSED;
}

static size_t host_free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib = 0;

    while (file && kib == 0 && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %zu kB", &kib);
    if (file)
        fclose(file);
    return kib > 0 ? kib * 1024 : SIZE_MAX;
}

static bool memory_suffices(const struct options *o, const struct device *device)
{
    size_t device_free = device_free_bytes();
    size_t host_free = host_free_bytes();
    double gib = 1 << 30;

    for (int i = 0; i < o->shape_count; ++i) {
        size_t kept = o->timing && !device->simulator ? (size_t)o->rotations : 0;
        // On the host: the problem (three tensors as floats and as codes), the FP16 reference (or
        // the reference with P rounded), the output, the stored output, and one reference for each
        // input set; for a cache, its bytes before and after a launch.
        size_t elements = shape_elements(&o->shapes[i]), outputs = shape_outputs(&o->shapes[i]);
        size_t host = elements * 2 * 5 + outputs * (5 + 4 + 2 * 2 + 4 * (kept + 1));
        if (o->shapes[i].page)
            host += elements * 2 * 2 * (kept + 1);
        size_t there = device_bytes(device, &o->shapes[i], o);
        const char *name = o->shapes[i].name;
        if (there > device_free) {
            complain("--shapes: %s needs %.1f GiB on the device, %.1f are free", name, there / gib,
                     device_free / gib);
            return false;
        }
        if (device->simulator)
            host += there; // in the simulator, device memory is memory of the host
        if (host > host_free) {
            complain("--shapes: %s needs %.1f GiB on the host, %.1f are free", name, host / gib,
                     host_free / gib);
            return false;
        }
    }
    return true;
}

// ---- Checking -----------------------------------------------------------------------------------

static int ordered(uint16_t half) // consecutive halves differ by 1, and -0 from 0 by 0
{
    return half & 0x8000 ? -(half & 0x7fff) : half;
}

static struct agreement agree(const uint16_t *out, const uint16_t *stored, size_t elements)
{
    struct agreement a = {0};
    size_t identical = 0;

    for (size_t i = 0; i < elements; ++i) {
        int ulp = abs(ordered(out[i]) - ordered(stored[i]));
        identical += out[i] == stored[i];
        a.max_ulp = ulp > a.max_ulp ? ulp : a.max_ulp;
        a.max_abs = fmax(a.max_abs, fabs((double)half_to_float(out[i]) - half_to_float(stored[i])));
    }
    a.identical_percent = 100.0 * (double)identical / (double)elements;
    return a;
}

static bool compare_with_stored(const struct run *run, const struct shape *shape,
                                struct result *result, const uint16_t *out)
{
    size_t elements = shape_outputs(shape);
    uint16_t *stored = allocate(elements * sizeof *stored);
    char path[4096];

    case_path(path, sizeof path, run->options->against, shape, result->input, result->seed);
    FILE *file = fopen(path, "rb");
    bool read = file && fread(stored, sizeof *stored, elements, file) == elements;
    if (file)
        fclose(file);
    if (read) {
        result->agreement = agree(out, stored, elements);
        result->compared = true;
    } else {
        complain("--against: cannot read %s", path);
    }
    free(stored);
    return read;
}

// Fetches a case's output into `out`, and measures it.
static void check(const struct run *run, const struct shape_run *shape, const struct checked *c,
                  uint16_t *out, struct result *result)
{
    *result = (struct result){
        .input = c->input, .seed = c->seed, .rounded = c->rounded, .limits = c->limits};
    result->fault = case_fetch(&c->device, run->device, out);
    result->metrics = error_measure(&shape->shape, shape->rows, out, c->ref);
    result->pass = !result->fault && gate_within(&result->metrics, result->limits);
}

// Does what --outputs and --against ask for; false: a file cannot be written or read.
static bool keep_and_compare(const struct run *run, const struct shape *shape,
                             struct result *result, const uint16_t *out)
{
    char path[4096], why[4352];

    if (run->options->outputs) {
        case_path(path, sizeof path, run->options->outputs, shape, result->input, result->seed);
        if (!file_write(path, out, shape_outputs(shape) * sizeof *out, why, sizeof why)) {
            complain("--outputs: %s", why);
            return false;
        }
    }
    return !run->options->against || compare_with_stored(run, shape, result, out);
}

static void measure_against_fp16(const struct shape_run *shape, const struct problem *problem,
                                 const uint16_t *out, struct result *result)
{
    float *fp16 = allocate(shape_outputs(&shape->shape) * sizeof *fp16);

    if (!reference_fp16(problem, shape->rows, 0, fp16)) {
        complain("out of memory for the FP16 reference");
        exit(EXIT_MACHINE);
    }
    result->sources = error_measure(&shape->shape, shape->rows, out, fp16);
    free(fp16);
}

static struct needles find_needles(const struct shape_run *shape, const struct problem *problem,
                                   const float *out)
{
    struct needles needles;

    if (!needles_find(problem, shape->rows, out, &needles)) {
        complain("out of memory for the needles");
        exit(EXIT_MACHINE);
    }
    return needles;
}

static void measure_needles(const struct run *run, const struct shape_run *shape,
                            const struct problem *problem, const float *ref, const uint16_t *out,
                            struct result *result)
{
    size_t elements = shape_outputs(&shape->shape);
    struct p_rounding p = run->program->p;
    float *wide = allocate(elements * sizeof *wide);

    for (size_t i = 0; i < elements; ++i)
        wide[i] = half_to_float(out[i]);
    result->needles = find_needles(shape, problem, wide);
    result->exact = find_needles(shape, problem, ref);
    if (p.format != P_NOT_TOLD && reference_rounded_p(problem, shape->rows, 0, p, wide))
        result->rounded_needles = find_needles(shape, problem, wide);
    free(wide);
}

// Launches a case, checks its output, and notes in *result what is wrong with it. Returns the
// launch's or kernel's error; if there is one, *result is not set. first: whether this is the
// case's first launch.
static cudaError_t run_and_check(const struct run *run, const struct shape_run *shape,
                                 const struct checked *c, const struct problem *problem, bool first,
                                 uint16_t *out, struct result *result)
{
    static const char again[] = "In a second launch, with scratch memory as the first left it: ";

    case_poison(&c->device, run->device);
    cudaError_t error = case_run(&c->device, run->device, run->program);
    if (error != cudaSuccess)
        return error;
    check(run, shape, c, out, result);
    if (result->pass || result->fault)
        return cudaSuccess;
    char *how = diagnose(problem, shape->rows, result->limits, out, c->ref);
    if (how && !first) {
        char *both = allocate(sizeof again + strlen(how));
        strcat(strcpy(both, again), how);
        free(how);
        how = both;
    }
    result->how = how;
    return cudaSuccess;
}

// Draws an input set, computes its reference, runs the kernel on it and checks the output; a kernel
// with scratch memory whose output is right runs twice. is_listed: whether the command line asks
// for the set: then the output is also compared with FP16 attention, and stored if --outputs asks
// for it. False: the device can do nothing more.
static bool first_run(const struct run *run, struct shape_run *shape, struct checked *c,
                      struct result *result, bool is_listed, enum exit_status *status)
{
    size_t elements = shape_outputs(&shape->shape);
    uint16_t *out = allocate(elements * sizeof *out);
    struct problem problem;
    bool alive = true;

    c->ref = allocate(elements * sizeof *c->ref);
    bool drawn = problem_create(&problem, &shape->shape, c->input, c->seed);
    problem.mask = run->program->mask;
    if (!drawn || !reference_dequantised(&problem, shape->rows, 0, c->ref) ||
        !gate_limits_of(&problem, shape->rows, 0, run->program->p, run->tolerance, c->ref,
                        &c->rounded, &c->limits)) {
        complain("out of memory for the inputs and their reference");
        exit(EXIT_MACHINE);
    }
    case_create(&c->device, run->device, run->program, &problem);
    range_push("verify");
    cudaError_t error = run_and_check(run, shape, c, &problem, true, out, result);
    // A second launch, with scratch memory as the first launch left it.
    if (error == cudaSuccess && result->pass && c->device.cache.scratch)
        error = run_and_check(run, shape, c, &problem, false, out, result);
    if (error == cudaSuccess) {
        if (is_listed) {
            measure_against_fp16(shape, &problem, out, result);
            if (c->input == INPUT_NEEDLE)
                measure_needles(run, shape, &problem, c->ref, out, result);
            if (!keep_and_compare(run, &shape->shape, result, out))
                *status = EXIT_MACHINE;
        }
    } else {
        *result = (struct result){.input = c->input, .seed = c->seed};
        result->fault = cudaGetErrorName(error);
        complain("%s, %s, seed %llu: the kernel failed: %s: %s", shape->shape.name,
                 input_kind_name(c->input), (unsigned long long)c->seed, cudaGetErrorName(error),
                 cudaGetErrorString(error));
        (void)cudaGetLastError(); // a refused launch's error is cleared by this; a fault's is not
        alive = cudaDeviceSynchronize() == cudaSuccess;
    }
    range_pop();
    problem_destroy(&problem);
    free(out);
    return alive;
}

static void discard(struct checked *c)
{
    free(c->ref);
    case_destroy(&c->device);
}

// ---- Timing -------------------------------------------------------------------------------------

static bool all_right(const struct run *run, const struct shape_run *shape,
                      const struct checked *sets, int count, const char *when)
{
    uint16_t *out = allocate(shape_outputs(&shape->shape) * sizeof *out);
    bool right = true;

    range_push("verify");
    for (int i = 0; i < count; ++i) {
        struct result result;
        check(run, shape, &sets[i], out, &result);
        if (!result.pass) {
            complain("%s, seed %llu: wrong %s: relative error %.1e in a head, %zu not finite",
                     shape->shape.name, (unsigned long long)sets[i].seed, when,
                     result.metrics.rel_head, result.metrics.not_finite);
            right = false;
        }
    }
    range_pop();
    free(out);
    return right;
}

static void poison_all(const struct run *run, const struct device_case *cases, int count)
{
    for (int i = 0; i < count; ++i)
        case_poison(&cases[i], run->device);
}

// The number of samples to throw away before timing. A cold sample is one launch, and each of the
// `count` input sets must have been launched before its output is checked.
static int warmup_samples(const struct options *o, enum timing_mode mode, int count)
{
    return mode == TIME_COLD && o->warmup < count ? count : o->warmup;
}

static void warm_up(struct stopwatch *watch, int count)
{
    range_push("warm-up");
    for (int i = 0; i < count; ++i)
        stopwatch_sample(watch);
    range_pop();
}

// Takes `count` samples. The clock is read at the beginning, at the end, and several times between
// samples.
static void sample(struct stopwatch *watch, int count, double *samples, struct clock_span *clock)
{
    const struct clock_meter *meter = &watch->device->meter;
    int step = (count + CLOCK_READINGS - 1) / CLOCK_READINGS;

    range_push("timed");
    for (int i = 0; i < count; ++i) {
        if (i % step == 0)
            clock_meter_read(meter, clock);
        samples[i] = stopwatch_sample(watch);
    }
    clock_meter_read(meter, clock);
    range_pop();
}

// The clock's readings as part of a JSON answer; "" if it was not read.
static const char *clock_text(const struct clock_span *clock, char *text, size_t size)
{
    *text = '\0';
    if (clock->readings > 0)
        snprintf(text, size, ",\"clock\":{\"low_mhz\":%.0f,\"high_mhz\":%.0f,\"watts\":%.1f}",
                 clock->low_mhz, clock->high_mhz, clock->watts);
    return text;
}

// Reads a timing mode and a number of samples, up to --iters, from a line of standard input. Any
// other line asks for the command line's mode and --iters samples.
static enum timing_mode read_request(const struct options *o, const char *line, int *samples)
{
    char name[8], end;

    *samples = o->iters;
    for (enum timing_mode mode = 0; mode < TIMING_MODES; ++mode) {
        int count;
        if (sscanf(line, "%7s %d %c", name, &count, &end) == 2 &&
            strcmp(name, timing_mode_name(mode)) == 0 && count >= 1 && count <= o->iters) {
            *samples = count;
            return mode;
        }
    }
    return o->mode;
}

// Times one batch for each line of standard input; returns how many there were.
static int time_on_demand(const struct run *run, const struct device_case *cases, int count)
{
    const struct options *o = run->options;
    struct stopwatch watches[TIMING_MODES] = {{0}}; // made when they are first needed
    double *samples = allocate((size_t)o->iters * sizeof *samples);
    int batches = 0, wanted;
    char *line = NULL;
    size_t size = 0;

    for (; getline(&line, &size, stdin) > 0; ++batches) {
        enum timing_mode mode = read_request(o, line, &wanted);
        struct stopwatch *watch = &watches[mode];
        if (watch->launches == 0)
            stopwatch_create(watch, run->device, run->program, cases, count, mode);
        poison_all(run, cases, count);
        warm_up(watch, warmup_samples(o, mode, count));
        struct clock_span clock = {0};
        char text[128];
        sample(watch, wanted, samples, &clock);
        struct summary s = summarise(samples, wanted);
        printf("{\"p50_us\":%.4f,\"mean_us\":%.4f,\"samples\":%d,\"launches_per_sample\":%d%s}\n",
               s.p50, s.mean, wanted, watch->launches, clock_text(&clock, text, sizeof text));
        fflush(stdout);
    }
    for (enum timing_mode mode = 0; mode < TIMING_MODES; ++mode)
        if (watches[mode].launches > 0)
            stopwatch_destroy(&watches[mode]);
    free(line);
    free(samples);
    return batches;
}

// Times `count` checked input sets of one kind in turn; false: an output was wrong afterwards.
static bool time_sets(const struct run *run, struct shape_run *shape, const struct checked *sets,
                      int count)
{
    struct timing *timing = &shape->timing[sets[0].input];
    const struct options *o = run->options;
    struct device_case cases[MAX_ROTATIONS];
    int batches = 1;

    for (int i = 0; i < count; ++i)
        cases[i] = sets[i].device;
    if (o->on_demand) {
        batches = time_on_demand(run, cases, count);
    } else {
        double *samples = allocate((size_t)o->iters * sizeof *samples);
        struct stopwatch watch;
        stopwatch_create(&watch, run->device, run->program, cases, count, o->mode);
        timing->launches_per_sample = watch.launches;
        poison_all(run, cases, count);
        warm_up(&watch, warmup_samples(o, o->mode, count));
        sample(&watch, o->iters, samples, &timing->clock);
        timing->us = summarise(samples, o->iters);
        free(samples);
        stopwatch_destroy(&watch);
    }
    bool right = batches == 0 || all_right(run, shape, sets, count, "after the timed runs");
    timing->done = right && !o->on_demand;
    return right;
}

// ---- A shape ------------------------------------------------------------------------------------

// Checked input sets of one kind that stay on the device, to be timed.
struct kept {
    struct checked sets[MAX_ROTATIONS];
    int count;
};

// Times inputs of one kind. If fewer than --rotations sets are kept, first draws and checks more,
// with seeds from `seed` on. False: a gate failed. *alive: false if the device is lost.
static bool time_kind(const struct run *run, struct shape_run *shape, enum input_kind kind,
                      struct kept *kept, uint64_t seed, bool *alive, enum exit_status *status)
{
    bool pass = true;

    while (pass && kept->count < run->options->rotations) {
        struct checked *c = &kept->sets[kept->count];
        struct result result;
        *c = (struct checked){.input = kind, .seed = seed++};
        *alive = first_run(run, shape, c, &result, false, status);
        if (!*alive) {
            free(c->ref);
            return false;
        }
        ++kept->count;
        pass = result.pass;
        if (!pass)
            console_result(run, shape, &result);
    }
    pass = pass && time_sets(run, shape, kept->sets, kept->count);
    while (kept->count > 0)
        discard(&kept->sets[--kept->count]);
    return pass;
}

// Checks every kind and seed that was asked for, then times. False: a gate failed. *alive: false if
// the device is lost.
static bool run_shape(const struct run *run, struct shape_run *shape, bool *alive,
                      enum exit_status *status)
{
    const struct options *o = run->options;
    bool timed = o->timing && !run->device->simulator, pass = true;
    struct kept kept = {.count = 0}; // sets of the kind that is timed first
    uint64_t next_seed = 0;

    for (int i = 0; i < o->input_count * o->seed_count && *alive; ++i) {
        struct checked c = {.input = o->inputs[i / o->seed_count],
                            .seed = o->seeds[i % o->seed_count]};
        struct result *result = &shape->results[shape->count++];
        *alive = first_run(run, shape, &c, result, true, status);
        pass = pass && result->pass;
        console_result(run, shape, result);
        if (!*alive) {
            free(c.ref);
            return false;
        }
        if (timed && c.input == o->timed[0] && kept.count < o->rotations)
            kept.sets[kept.count++] = c;
        else
            discard(&c);
        next_seed = c.seed >= next_seed ? c.seed + 1 : next_seed;
    }
    for (int i = 0; timed && pass && *alive && i < o->timed_count; ++i)
        pass = time_kind(run, shape, o->timed[i], &kept, next_seed, alive, status);
    while (kept.count > 0)
        discard(&kept.sets[--kept.count]);
    return pass;
}

// Prints a line for the grader, which fills the pages: the bytes of scratch memory; then the
// indices in a page of all codes (K's tokens, then V's) and of all scales, each index in four
// hexadecimal digits.
static void print_wants(const struct program *program, const struct cache_args *args)
{
    int page = args->page, dim = shape_head_dim(&args->shape);
    code_place_fn *code_place =
        args->shape.head_dim ? program->code_place_128 : program->code_place;

    printf("cache %zu ", program->scratch_bytes ? program->scratch_bytes(args) : 0);
    for (int i = 0; i < 2 * page * dim; ++i)
        printf("%04x", (unsigned)code_place((enum cache_tensor)(i / (page * dim)), i / dim % page,
                                            i % dim));
    printf(" ");
    for (int i = 0; i < 2 * page; ++i)
        printf("%04x", (unsigned)program->scale_place((enum cache_tensor)(i / page), i % page));
    printf("\n");
}

static cudaError_t launch_without_memory(const struct program *program, const struct shape *shape)
{
    if (shape->page == 0) {
        struct attention_args args = launch_only_args(shape);
        return program->launch(&args, NULL);
    }
    struct cache_args args = launch_only_cache_args(shape);
    print_wants(program, &args);
    if (shape->newest && program->launch_prompt) {
        struct prompt_args prompt = launch_only_prompt_args(shape);
        return program->launch_prompt(&prompt, NULL);
    }
    return program->launch_cache(&args, NULL);
}

static enum exit_status launch_only(const struct options *options, const struct program *program)
{
    for (int i = 0; i < options->shape_count; ++i) {
        cudaError_t error = launch_without_memory(program, &options->shapes[i]);
        if (error != cudaSuccess) {
            complain("%s: the launch failed: %s: %s", options->shapes[i].name,
                     cudaGetErrorName(error), cudaGetErrorString(error));
            return EXIT_MACHINE;
        }
    }
    return EXIT_PASSED;
}

int workbench_main(const struct program *program, int argc, char **argv)
{
    struct options options;
    struct device device;
    struct resources resources;
    enum exit_status status = EXIT_PASSED;
    int parse_status;
    char why[512];
    bool pass = true, alive = true;

    program_name = program->name;
    if (!options_parse(program, argc, argv, &options, &parse_status))
        return parse_status;
    if (!takes_shapes(&options, program))
        return EXIT_USAGE;
    if (options.launch_only)
        return launch_only(&options, program);
    if (!device_open(&device, why, sizeof why)) {
        into_simulator(argv);
        complain("%s", why);
        return EXIT_MACHINE;
    }
    if (options.input_count == 0)
        for (int kind = 0; kind < (device.simulator ? 1 : INPUT_KINDS); ++kind)
            options.inputs[options.input_count++] = kind;
    if (options.on_demand && device.simulator && !options.resources) {
        complain("--on-demand: time is not measured in the simulator");
        return EXIT_MACHINE;
    }
    if (!options.resources && (status = check_files(&options)) != EXIT_PASSED)
        return status;
    if (!resources_find(&resources, program, why, sizeof why)) {
        complain("%s", why);
        return EXIT_MACHINE;
    }
    if (options.resources) {
        record_print_resources(&resources);
        return EXIT_PASSED;
    }
    if (!memory_suffices(&options, &device))
        return EXIT_MACHINE;

    struct run run = {
        .program = program,
        .options = &options,
        .device = &device,
        .resources = &resources,
        .tolerance = program->tolerance > 0 ? program->tolerance : GATE_TOLERANCE,
    };
    run.shapes = calloc((size_t)options.shape_count, sizeof *run.shapes);
    if (!run.shapes) {
        complain("out of memory");
        return EXIT_MACHINE;
    }
    console_head(&run);
    while (run.shape_count < options.shape_count && alive) {
        struct shape_run *shape = &run.shapes[run.shape_count++];
        shape->shape = options.shapes[run.shape_count - 1];
        shape->rows = reference_rows(&shape->shape);
        pass = run_shape(&run, shape, &alive, &status) && pass;
    }
    if (alive)
        console_timing(&run);
    console_verdict(&run, pass);
    if (options.record && !record_write(&run, options.record, why, sizeof why)) {
        complain("--record: %s", why);
        status = EXIT_MACHINE;
    }
    if (options.summaries && !summaries_write(&run, options.summaries, why, sizeof why)) {
        complain("--summaries: %s", why);
        status = EXIT_MACHINE;
    }
    for (int i = 0; i < run.shape_count; ++i)
        for (int k = 0; k < run.shapes[i].count; ++k)
            free(run.shapes[i].results[k].how);
    free(run.shapes);
    return status != EXIT_PASSED ? (int)status : pass ? EXIT_PASSED : EXIT_GATE;
}
