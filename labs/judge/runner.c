// runner.c: runs a submission's kernels on inputs that it gets through a pipe, and sends back the
// outputs.
//
// No host code of the submission is in this process. It gets PTX and recorded launches, but neither
// the reference nor the seed. It answers on its own file descriptor, which a kernel's prints cannot
// reach. In the simulator, a process runs the cases of one request and ends, so that no request
// finds anything left by another. The runner is called in two ways:
//   build/runner       the simulator
//   build/runner gpu   the GPU, by the driver's API (gpu.c)
#include "protocol.h"

#include "ptxsim/base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct module *module;
static const char *ptx, *cubin;
static size_t cubin_bytes;
static bool on_gpu;
static struct reply reply;
static uint64_t residents[LAUNCHES_MAX]; // of each launch, the CTAs that JUDGED_GPU holds at a time

static bool read_all(void *to, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t n = read(STDIN_FILENO, (char *)to + got, bytes - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

static void write_all(const void *from, size_t bytes)
{
    for (size_t put = 0; put < bytes;) {
        ssize_t n = write(REPLY_FD, (const char *)from + put, bytes - put);
        if (n <= 0)
            exit(1); // the judge has ended
        put += (size_t)n;
    }
}

static void refuse(const char *text)
{
    reply.verdict = REFUSED;
    snprintf(reply.text, sizeof reply.text, "%.1023s", text);
}

static void fault(enum fault_kind kind, const char *text)
{
    if (reply.verdict != DONE) // only the first failure is reported
        return;
    reply.verdict = FAULTED;
    reply.fault = kind;
    snprintf(reply.text, sizeof reply.text, "%.1023s", text);
}

// Notes a fault. A race does not count as one: it is reported beside the outputs.
static void note(const struct fault *found)
{
    if (found->kind != FAULT_RACE)
        fault(found->kind, found->text);
    else if (reply.races++ == 0)
        snprintf(reply.race, sizeof reply.race, "%.1023s", found->text);
}

static void print(const char *text, size_t bytes)
{
    size_t room = sizeof reply.printed - reply.printed_bytes;
    size_t keep = bytes < room ? bytes : room;

    memcpy(reply.printed + reply.printed_bytes, text, keep);
    reply.printed_bytes += (uint32_t)keep;
    reply.printed_more = reply.printed_more || keep < bytes;
}

// ---- What a launch needs ------------------------------------------------------------------------

// Why the GPU's driver would refuse a launch because of its shape or parameters; NULL: it would
// not.
static const char *shape_wrong(const struct recorded *l, const struct kernel_info *info,
                               const struct shape *shape)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    union kernel_args args;

    if (info->params < 1 || info->param_sizes[0] != args_for(&args, shape) ||
        info->param_bytes != info->param_sizes[0] + l->more_bytes)
        return shape->page ? "the kernel's first parameter is not one cache_args"
                           : "the kernel's first parameter is not one attention_args";
    if (l->block[0] > 1024 || l->block[1] > 1024 || l->block[2] > 64 || threads == 0 ||
        threads > (uint64_t)info->max_threads)
        return "a CTA has too many threads, or none";
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0 || l->grid[0] > INT32_MAX ||
        l->grid[1] > 65535 || l->grid[2] > 65535)
        return "the grid is empty or too large";
    return NULL;
}

// Bytes of the stack frame in which a kernel passes up to 32 arguments to printf. A kernel writes
// them and never reads them: if the program reads local memory anywhere, the frame contains an
// array, too. 0: there is no such frame, or it contains more than arguments.
static size_t print_frame(const struct kernel_info *info)
{
    enum { ARGUMENTS_BYTES = 32 * 8 };

    if (!strstr(ptx, "vprintf") || strstr(ptx, "ld.local") || info->local_bytes > ARGUMENTS_BYTES)
        return 0;
    return info->local_bytes;
}

// A line of text, valid until the next call.
static const char *__attribute__((format(printf, 1, 2), returns_nonnull))
told(const char *format, ...)
{
    static char line[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return line;
}

static const char *__attribute__((returns_nonnull)) too_large(uint64_t ctas, uint64_t at_once)
{
    char gpu[64];
    gpu_in_a_sentence(JUDGED_GPU, gpu, sizeof gpu);
    return told("a cooperative launch of %llu CTAs, of which %s has room for %llu at once "
                "(cudaErrorCooperativeLaunchTooLarge)",
                (unsigned long long)ctas, gpu, (unsigned long long)at_once);
}

// Measures what a launch needs of JUDGED_GPU, by its machine code. Returns a line if that is more
// than this GPU has, or if the launch cannot be made at all; otherwise NULL. All resources of
// launches are measured, and their limits checked, here. *at_once: the CTAs that fit at a time.
static const char *measure(const struct recorded *l, const struct shape *shape, struct footprint *f,
                           uint64_t *at_once)
{
    const struct gpu *gpu = JUDGED_GPU;
    char gpu_text[64];
    struct kernel *kernel = module_kernel(module, l->kernel);
    struct cubin_resources r;
    struct gpu_occupancy fits;

    if (!kernel)
        return "launches a kernel that its device code does not have";
    if (!cubin_resources(cubin, cubin_bytes, l->kernel, &r))
        return told("launches a kernel that its sm_%d image does not have", gpu->arch);
    const char *wrong = shape_wrong(l, kernel_info(kernel), shape);
    if (wrong)
        return wrong;
    size_t fixed = r.shared_bytes, in_ptx = kernel_info(kernel)->static_shared_bytes;
    fixed = in_ptx > fixed ? in_ptx : fixed;
    if (fixed > gpu->shared_optin ||
        l->shared > gpu->shared_optin - fixed) // the difference cannot wrap, as a sum could
        return told("more shared memory than a CTA can have (%zu KB)", gpu->shared_optin >> 10);
    const size_t frame = print_frame(kernel_info(kernel));
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    if (!gpu_occupancy(gpu, &r, threads, l->shared, &fits) || fits.ctas == 0) {
        gpu_in_a_sentence(gpu, gpu_text, sizeof gpu_text);
        return told("no SM of %s has room for one CTA: its registers, shared memory and threads "
                    "together are too many",
                    gpu_text);
    }
    uint64_t ctas = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    *at_once = (uint64_t)fits.ctas * (uint64_t)gpu->sms;
    if (l->cooperative && ctas > *at_once)
        return too_large(ctas, *at_once);
    *f = (struct footprint){
        .registers = r.registers,
        .threads = threads,
        .ctas = ctas,
        .all_ctas = ctas,
        .shared_bytes = fixed + l->shared,
        .local_bytes = r.local_bytes > frame ? r.local_bytes - frame : 0,
        .occupancy = fits.share,
        .waves = (double)ctas / (double)*at_once,
    };
    return NULL;
}

// Measures all launches: of each resource the largest value, of occupancy the least. False: a
// launch is refused.
static bool measure_all(const struct run_request *r)
{
    struct footprint f, *most = &reply.footprint;

    for (int i = 0; i < r->launch_count; ++i) {
        const char *wrong = measure(&r->launches[i], &r->shape, &f, &residents[i]);
        if (wrong) {
            refuse(wrong);
            return false;
        }
#define LARGER(field) most->field = i && most->field > f.field ? most->field : f.field
        LARGER(registers);
        LARGER(threads);
        LARGER(ctas);
        most->all_ctas = i ? most->all_ctas + f.ctas : f.ctas;
        LARGER(shared_bytes);
        LARGER(local_bytes);
        LARGER(waves);
        most->occupancy = i && most->occupancy < f.occupancy ? most->occupancy : f.occupancy;
    }
    return true;
}

// ---- The simulator ------------------------------------------------------------------------------

// Zeroed memory for the barrier of a cooperative grid; 0: no memory is left.
static uint64_t grid_memory(void)
{
    enum { BYTES = 64 };
    static void *memory;

    memory = memory ? memory : memory_alloc(BYTES);
    if (memory)
        memset(memory, 0, BYTES);
    return (uint64_t)(uintptr_t)memory;
}

static void *symbol_or_memory(const char *target, size_t *size)
{
    char *end;
    void *found;
    uint64_t address = strtoull(target, &end, 16);

    if (strncmp(target, "0x", 2) != 0)
        return module_symbol(module, target, &found, size) ? found : NULL;
    const struct allocation *a = *end ? NULL : memory_find(address, 1, NULL);
    if (!a || a->base != address || address < HOST_CODE_MEMORY)
        return NULL;
    *size = a->size;
    return (void *)(uintptr_t)address;
}

// Step "memory KIND ADDRESS BYTES", such as "memory d 0x280000100000 4096" (m: managed memory):
// allocates memory at an address, once for all sets. line: without "memory ". Returns why it cannot
// be done, or NULL.
static const char *step_memory(const char *line)
{
    static uint64_t all;
    unsigned long long address, bytes;
    char kind;

    if (sscanf(line, "%c 0x%llx %llu", &kind, &address, &bytes) != 3 || address < HOST_CODE_MEMORY)
        return "wrote its own record of its launches, and not well";
    if (memory_find(address, bytes, NULL))
        return NULL;
    if (bytes > SCRATCH_MOST || all > SCRATCH_MOST - bytes)
        return "its host code allocates more than 64 MB";
    all += bytes;
    void *base = memory_alloc_at(address, bytes, kind == 'm' ? MEMORY_MANAGED : MEMORY_DEVICE);
    if (base && kind != 'm')
        memory_track(base);
    return base ? NULL : "its host code allocates memory where there is none";
}

// Step "write TARGET OFFSET BYTES" (hexadecimal digits) or, if `fills`, "fill TARGET OFFSET COUNT
// VALUE ELEMENT": COUNT elements of ELEMENT bytes. line: without the first word. Returns why it
// cannot be done, or NULL.
static const char *step_store(const char *line, bool fills)
{
    static char target[KERNEL_NAME_MAX];
    unsigned long long offset, count = 0;
    unsigned value = 0, element = 1;
    int at = 0;
    size_t size;

    bool good = sscanf(line, "%4095s %llu %n", target, &offset, &at) == 2 && at > 0;
    if (good && fills)
        good = sscanf(line + at, "%llu %u %u", &count, &value, &element) == 3 &&
               (element == 1 || element == 2 || element == 4);
    else
        count = good ? strspn(line + at, "0123456789abcdef") / 2 : 0;
    char *to = good ? symbol_or_memory(target, &size) : NULL;
    if (!to || offset > size || count > (size - offset) / element)
        return "its host code writes to memory that its kernels do not have";
    for (size_t i = 0; i < count; ++i) {
        if (!fills)
            sscanf(line + at + 2 * i, "%2x", &value);
        memcpy(to + offset + i * element, &value, element);
    }
    memory_mark(to + offset, NULL, count * element);
    return NULL;
}

// Carries out the steps, one a line, that host code takes before a launch to change memory.
static void take_steps(char *from, const char *end)
{
    for (char *next; from < end && reply.verdict == DONE; from = next) {
        next = memchr(from, '\n', (size_t)(end - from));
        next = next ? next + 1 : (char *)end;
        char kept = next[-1];
        next[-1] = '\0';
        const char *wrong = strncmp(from, "memory ", 7) == 0  ? step_memory(from + 7)
                            : strncmp(from, "write ", 6) == 0 ? step_store(from + 6, false)
                                                              : step_store(from + 5, true);
        next[-1] = kept;
        if (wrong)
            refuse(wrong);
    }
}

// The parameters of a launch in the kernel's layout: the arguments, and those that its host code
// adds.
static const void *params_of(const struct run_request *r, const struct recorded *l,
                             const union kernel_args *args)
{
    static unsigned char params[sizeof *args + MORE_MAX];
    union kernel_args unused;
    size_t bytes = args_for(&unused, &r->shape);

    memcpy(params, args, bytes);
    memcpy(params + bytes, l->more, l->more_bytes < MORE_MAX ? l->more_bytes : MORE_MAX);
    return params;
}

static struct ablation ablation; // for all launches together
static uint64_t budget;          // warp instructions after which a launch is stopped

// Allocates what the host code allocates, before keep_memory(): so it is there in each spoiled
// launch, too.
static void make_memory(const struct run_request *r)
{
    const char *from = (const char *)(r + 1), *end = from + r->steps_bytes;

    for (const char *next; from < end && reply.verdict == DONE; from = next) {
        next = memchr(from, '\n', (size_t)(end - from));
        next = next ? next + 1 : end;
        // The line has no NUL at its end: sscanf() in step_memory() stops at a blank.
        const char *wrong = strncmp(from, "memory ", 7) == 0 ? step_memory(from + 7) : NULL;
        if (wrong)
            refuse(wrong);
    }
}

static void launch_all(const struct run_request *r, const union kernel_args *args)
{
    char *steps = (char *)(r + 1);
    struct line_counts *lines = NULL;
    size_t line_count = 0;

    for (int i = 0; i < r->launch_count && reply.verdict == DONE && !reply.raced_out; ++i) {
        const struct recorded *l = &r->launches[i];
        take_steps(steps + (i ? l[-1].steps : 0), steps + l->steps);
        if (reply.verdict != DONE)
            return;
        struct launch launch = {
            .kernel = module_kernel(module, l->kernel),
            .grid = {l->grid[0], l->grid[1], l->grid[2]},
            .block = {l->block[0], l->block[1], l->block[2]},
            .dynamic_shared_bytes = l->shared,
            .params = params_of(r, l, args),
            .grid_memory = l->cooperative ? grid_memory() : 0,
            .resident = residents[i],
            .threads = r->threads,
            .schedule = r->schedule,
            .hasty = r->hasty,
            .budget = budget,
            .ablation = r->ablated ? &ablation : NULL,
            .check = !r->unchecked,
            .races = r->races,
            .reports = REPORTS_MAX,
            .note = note,
            .print = print,
            // One byte more than is kept, which shows that there was more.
            .print_bytes = sizeof reply.printed + 1,
        };
        struct fault first = {0};
        bool good = launch_run(&launch, &reply.counts, &lines, &line_count, &first);
        if (good)
            continue;
        note(&first);
        // Whether too many races stopped the launch is read from the simulator's words. A
        // misreading would cost only one more run.
        if (first.kind == FAULT_RACE && strstr(first.text, ": stopped: "))
            reply.raced_out = true;
    }
    free(lines);
}

static void *device_copy(const char *from, size_t bytes)
{
    void *to = memory_alloc(bytes);
    if (to)
        memcpy(to, from, bytes);
    return to;
}

// One set of inputs: the arguments of its launches, and the memory to which these point.
struct set {
    union kernel_args args;
    void *at[KERNEL_POINTERS]; // the inputs, then the output
};

static void set_fill(const struct run_request *r, const char *inputs, struct set *set)
{
    size_t bytes[INPUTS_MAX];
    int count = input_sizes(&r->shape, bytes);

    for (int i = 0; i < count; inputs += bytes[i++])
        memcpy(set->at[i], inputs, bytes[i]);
    memset(set->at[count], 0xff, 2 * shape_outputs(&r->shape)); // filled with NaN, as new memory is
}

static bool set_make(const struct run_request *r, const char *inputs, void *scratch,
                     struct set *set)
{
    size_t bytes[INPUTS_MAX];
    int count = input_sizes(&r->shape, bytes);

    bool room = true;
    for (int i = 0; i < count; inputs += bytes[i++])
        room = (set->at[i] = device_copy(inputs, bytes[i])) && room;
    // New memory is filled with NaN.
    room = (set->at[count] = memory_alloc(2 * shape_outputs(&r->shape))) && room;
    if (!room) {
        refuse("out of memory");
        return false;
    }
    memory_track(set->at[count]); // so that a read before the first write is reported
    args_for(&set->args, &r->shape);
    memcpy(&set->args, set->at, (size_t)(count + 1) * sizeof *set->at);
    if (r->shape.page) {
        set->args.cache.softmax_scale = r->softmax_scale;
        set->args.cache.scratch = scratch;
    } else {
        set->args.attention.softmax_scale = r->softmax_scale;
    }
    return true;
}

static void set_answer(const struct run_request *r, const struct set *set, const char *inputs,
                       char *out)
{
    const size_t output = 2 * shape_outputs(&r->shape);
    size_t bytes[INPUTS_MAX];
    int count = input_sizes(&r->shape, bytes);

    memcpy(out, set->at[count], output);
    out += output;
    for (int i = 0; i < count; inputs += bytes[i++]) {
        if (comes_back(&r->shape, i)) {
            memcpy(out, set->at[i], bytes[i]);
            out += bytes[i];
        } else if (memcmp(set->at[i], inputs, bytes[i]) != 0) {
            fault(FAULT_NONE, WRITES_INPUTS);
        }
    }
}

// ---- Spoiled launches ---------------------------------------------------------------------------

// The contents of all memory before the first launch. Each set of inputs and each spoiled launch
// begins with them again, so that no variable tells a kernel which launch it is in.
static struct kept {
    void *to, *bytes;
    size_t size;
} * kept;
static size_t kept_count;

static void keep_memory(void)
{
    size_t room = 0;
    const struct allocation *a;

    for (size_t i = 0; (a = memory_nth(i)) != NULL; ++i) {
        if (!a->live)
            continue;
        kept = array_grow(kept, kept_count, &room, sizeof *kept);
        kept[kept_count] = (struct kept){(void *)(uintptr_t)a->base, malloc(a->size), a->size};
        if (!kept[kept_count].bytes)
            exit(1);
        memcpy(kept[kept_count].bytes, kept[kept_count].to, a->size);
        ++kept_count;
    }
}

static void restore_memory(void)
{
    for (size_t i = 0; i < kept_count; ++i)
        memcpy(kept[i].to, kept[i].bytes, kept[i].size);
}

struct again { // the first set, which is launched again and again
    const struct run_request *request;
    struct set set;
    size_t output; // index of the output among the set's pointers
};

static const uint16_t *launch_again(void *of, const struct ablation *spoils)
{
    const struct again *again = of;
    const struct reply before = reply;

    restore_memory();
    ablation = *spoils;
    launch_all(again->request, &again->set.args);
    const bool ended = reply.verdict == DONE;
    reply = before;
    return ended ? again->set.at[again->output] : NULL;
}

// Sets the memory whose loads are noted for SPOIL_STORES (ablation.distinct, busiest): K and V; for
// a cache, its codes and its scales.
static void watch_parts(const struct run_request *r, const struct set *set)
{
    size_t bytes[INPUTS_MAX];
    const int first = r->shape.page ? CACHE_CODES : 1;

    (void)input_sizes(&r->shape, bytes);
    for (int i = 0; i < 2; ++i) {
        ablation.parts[i] =
            (struct part_of_memory){.first = (uint64_t)(uintptr_t)set->at[first + i],
                                    .bytes = bytes[first + i],
                                    .seen = calloc(bytes[first + i] / 32 + 1, 1)};
        if (!ablation.parts[i].seen)
            exit(1);
    }
}

// Runs the sets in turn and logs their executions; then runs the first set again and again with
// spoiled executions.
static void run_ablated(const struct run_request *r, const char *inputs, void *scratch, char *out)
{
    enum { NOTED_MOST = 4 }; // sets: the first, and three that differ from it in V, K or Q
    size_t bytes[INPUTS_MAX], ends[NOTED_MOST] = {0};
    struct again again = {.request = r, .output = (size_t)input_sizes(&r->shape, bytes)};
    struct set set;
    uint64_t ctas = 0;

    ablation = (struct ablation){
        .what = r->experiment.what, .logs = true, .drawn = r->experiment.drawn[0]};
    uint64_t *writers = calloc(shape_outputs(&r->shape), sizeof *writers);
    uint8_t *changes = NULL;
    if (!writers)
        exit(1);
    for (int i = 0; i < r->sets && i < NOTED_MOST && reply.verdict == DONE; ++i) {
        const char *from = inputs + (size_t)i * input_bytes(&r->shape);
        restore_memory();
        if (i > 0)
            // All sets use the same addresses: an address that differs depends on the inputs.
            set_fill(r, from, &set);
        else if (!set_make(r, from, scratch, &set))
            return;
        if (i == 0) {
            again.set = set;
            make_memory(r);
            keep_memory();
            ablation.watched = (uint64_t)(uintptr_t)set.at[again.output];
            ablation.writers_count = shape_outputs(&r->shape);
            ablation.writers = writers;
            watch_parts(r, &set);
        }
        launch_all(r, &set.args);
        set_answer(r, &set, from, out + (size_t)i * answer_bytes(&r->shape));
        ends[i] = ablation.logged;
        free(ablation.made); // in each set, every piece of a product counts as new again
        ablation.made = NULL;
        ctas = i ? ctas : ablation.ctas;
        ablation.writers = NULL;
    }
    if (reply.verdict != DONE)
        return;
    const struct ablation noted = ablation;
    const struct spoiling spoiling = {.experiment = &r->experiment,
                                      .log = noted.log,
                                      .count = ends[0],
                                      .ctas = ctas,
                                      .writers = writers,
                                      .outputs = shape_outputs(&r->shape),
                                      .out = (const uint16_t *)out,
                                      .launch = launch_again,
                                      .of = &again};
    reply.worked_on = worked_on_of(&noted, ends, r->sets, &changes);
    budget = reply.counts.warp_instructions + 100000; // a spoiled launch might never end
    reply.noticed = noted.what == SPOIL_LOADS    ? spoil_each(&spoiling, changes)
                    : noted.what == SPOIL_COPIES ? spoil_working(&spoiling, changes)
                                                 : spoil_all(&spoiling);
}

// Runs the sets in turn, in one process, to show what a kernel keeps from one launch to the next.
static void run(const struct run_request *r, const char *inputs, char *out)
{
    void *scratch = r->scratch ? memory_alloc(r->scratch) : NULL;

    if (r->scratch && !scratch) {
        refuse("out of memory");
        return;
    }
    if (scratch)
        memset(scratch, 0, r->scratch);
    budget = r->budget;
    if (r->ablated) {
        run_ablated(r, inputs, scratch, out);
        return;
    }
    for (int i = 0; i < r->sets && reply.verdict == DONE && !reply.raced_out; ++i) {
        struct set set;
        const char *from = inputs + (size_t)i * input_bytes(&r->shape);
        if (!set_make(r, from, scratch, &set))
            return;
        launch_all(r, &set.args);
        set_answer(r, &set, from, out + (size_t)i * answer_bytes(&r->shape));
    }
}

// Runs a set and records its film. In a box the simulator cannot write to a file, so the film is
// taken from its memory.
static char *run_filmed(const struct run_request *r, const char *inputs, char *out)
{
    char asked[64], *film = NULL;
    size_t bytes = 0;

    snprintf(asked, sizeof asked, "film@%u,%u,%u", r->cta[0], r->cta[1], r->cta[2]);
    setenv("PTXSIM_FILM", asked, 1);
    run(r, inputs, out);
    free(out);
    FILE *file = open_memstream(&film, &bytes);
    if (file)
        films_write(file);
    unsetenv("PTXSIM_FILM");
    bool good = file && fclose(file) == 0 && bytes <= FILM_BYTES_MAX;
    reply.bytes = good ? bytes : 0;
    return film;
}

// ---- Requests -----------------------------------------------------------------------------------

// Whether a kernel may call a function of the device's runtime: those that print, stop and
// allocate. What others do is not counted, and launches by a kernel were not recorded.
static bool may_be_extern(const char *name)
{
    static const char *const known[] = {"vprintf", "__assertfail", "malloc", "free"};
    bool may = false;

    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        may = may || strcmp(name, known[i]) == 0;
    return may;
}

static void refuse_externs(void)
{
    char why[512];
    const char *name;

    for (size_t i = 0; reply.verdict == DONE && (name = module_missing(module, i)); ++i)
        if (!may_be_extern(name)) {
            snprintf(
                why, sizeof why,
                "its device code calls %.200s, and does not define it: of the device's runtime, a "
                "submission has printf, assert, malloc and free",
                name);
            refuse(why);
        }
}

// Takes PTX, a NUL, and machine code, and keeps them.
static void load(char *bytes, size_t size)
{
    char why[512];

    ptx = bytes;
    cubin = bytes + strlen(bytes) + 1;
    cubin_bytes = size > strlen(bytes) ? size - strlen(bytes) - 1 : 0;
    if (on_gpu ? !gpu_open(why, sizeof why) || !gpu_load(bytes, why, sizeof why)
               : !(module = module_parse(bytes, why, sizeof why)))
        refuse(why);
    else if (!on_gpu)
        refuse_externs();
}

static char *answer(const struct request *request, char *bytes)
{
    struct run_request *r = (struct run_request *)bytes;
    char *out = NULL;

    if (request->verb == VERB_LOAD) {
        load(bytes, request->bytes);
        return NULL;
    }
    if (request->verb != VERB_MEASURE) {
        reply.bytes = answer_bytes(&r->shape) * (size_t)r->sets;
        out = calloc(1, reply.bytes);
        if (!out)
            exit(1);
    }
    if (request->verb == VERB_TIME)
        gpu_run(r, bytes + sizeof *r + r->steps_bytes, &reply, out);
    else if (measure_all(r) && request->verb == VERB_RUN)
        run(r, bytes + sizeof *r + r->steps_bytes, out);
    else if (reply.verdict == DONE && request->verb == VERB_FILM)
        out = run_filmed(r, bytes + sizeof *r + r->steps_bytes, out);
    return out;
}

int main(int argc, char **argv)
{
    struct request request;

    on_gpu = argc > 1 && strcmp(argv[1], "gpu") == 0;
    while (read_all(&request, sizeof request)) {
        char *bytes = calloc(1, request.bytes + 2); // two more, for NULs after the texts
        memset(&reply, 0, sizeof reply);
        if (!bytes || !read_all(bytes, request.bytes))
            return 1;
        char *out = answer(&request, bytes);
        write_all(&reply, sizeof reply);
        write_all(out, reply.bytes);
        if (request.verb == VERB_RUN || request.verb == VERB_FILM)
            return 0;
        free(out);
        if (request.verb != VERB_LOAD)
            free(bytes);
    }
    return 0;
}
