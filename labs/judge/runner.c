// runner.c: runs a submission's kernels on inputs that come by a pipe, and sends the outputs back.
//
// Nothing of the submission's host code is in this process. It takes the PTX, launches what was
// recorded, and knows neither the reference nor the seed. Two environments:
//   build/runner       the simulator
//   build/runner gpu   the GPU, by the driver's API (gpu.c)
#include "protocol.h"

#include "ptxsim/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct module *module;
static bool on_gpu;
static struct reply reply;

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
        ssize_t n = write(STDOUT_FILENO, (const char *)from + put, bytes - put);
        if (n <= 0)
            exit(1); // the judge is gone
        put += (size_t)n;
    }
}

static void refuse(const char *text)
{
    reply.verdict = REFUSED;
    snprintf(reply.text[0], sizeof reply.text[0], "%.511s", text);
    reply.faults = 1;
}

static void note(const char *text)
{
    if (reply.faults < FAULTS_SAID)
        snprintf(reply.text[reply.faults++], sizeof reply.text[0], "%.511s", text);
}

// What a driver would check before a launch.
static const char *wrong_with(const struct recorded *l, const struct kernel_info *info)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

    if (info->params != 1 || info->param_sizes[0] != sizeof(struct attention_args))
        return "the kernel's parameters are not one attention_args";
    if (threads == 0 || threads > (uint64_t)info->max_threads || l->block[0] > 1024 ||
        l->block[1] > 1024 || l->block[2] > 64)
        return "a CTA has too many threads, or none";
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0 || l->grid[0] > INT32_MAX ||
        l->grid[1] > 65535 || l->grid[2] > 65535)
        return "the grid is empty or too large";
    if (l->shared + info->static_shared_bytes > 99 << 10)
        return "more shared memory than a CTA can have (99 KB)";
    return NULL;
}

static void *device_copy(const char **from, size_t bytes)
{
    void *to = memory_alloc(bytes);
    if (to)
        memcpy(to, *from, bytes);
    *from += bytes;
    return to;
}

static void launch_all(const struct run_request *r, const struct attention_args *args)
{
    struct line_counts *lines = NULL;
    size_t line_count = 0;

    for (int i = 0; i < r->launch_count && reply.verdict == DONE; ++i) {
        const struct recorded *l = &r->launches[i];
        struct kernel *kernel = module_kernel(module, l->kernel);
        if (!kernel) {
            refuse("launches a kernel that its device code does not have");
            break;
        }
        const char *wrong = wrong_with(l, kernel_info(kernel));
        if (wrong) {
            refuse(wrong);
            break;
        }
        struct launch launch = {
            .kernel = kernel,
            .grid = {l->grid[0], l->grid[1], l->grid[2]},
            .block = {l->block[0], l->block[1], l->block[2]},
            .dynamic_shared_bytes = l->shared,
            .params = args,
            .threads = r->threads,
            .schedule = r->schedule,
            .check = !r->unchecked,
            .races = r->races,
            .note = note,
        };
        struct fault fault = {0};
        reply.faults = 1; // notes come after the fault itself
        if (launch_run(&launch, &reply.counts, &lines, &line_count, &fault)) {
            reply.faults = 0;
            continue;
        }
        reply.verdict = FAULTED;
        reply.fault = fault.kind;
        snprintf(reply.text[0], sizeof reply.text[0], "%.511s", fault.text);
    }
    free(lines);
}

static void run(const struct run_request *r, const char *inputs, char *out)
{
    size_t elements = shape_elements(&r->shape);
    size_t scale_bytes = (size_t)r->shape.heads * sizeof(float);
    void *at[7];

    for (int i = 0; i < 6; ++i)
        at[i] = device_copy(&inputs, i < 3 ? elements : scale_bytes);
    at[6] = memory_alloc(2 * elements); // filled with NaN
    memory_track(at[6]);                // and not to be read before it is written
    struct attention_args args;
    memset(&args, 0, sizeof args);
    memcpy(&args, at, sizeof at);
    args.shape = r->shape;
    args.softmax_scale = r->softmax_scale;
    bool room = true;
    for (int i = 0; i < 7; ++i)
        room = room && at[i];
    if (room)
        launch_all(r, &args);
    else
        refuse("out of memory");
    if (at[6])
        memcpy(out, at[6], 2 * elements);
    for (int i = 0; i < 7; ++i)
        if (at[i])
            memory_free(at[i]);
}

static void find_resources(const char *cubin, size_t bytes, const char *names)
{
    struct cubin_resources r;

    for (; *names; names += strlen(names) + 1) {
        if (!cubin_resources(cubin, bytes, names, &r)) {
            refuse("launches a kernel that its sm_89 image does not have");
            return;
        }
#define LARGER(field)                                                                              \
    if (r.field > reply.resources.field)                                                           \
    reply.resources.field = r.field
        LARGER(registers);
        LARGER(shared_bytes);
        LARGER(local_bytes);
        LARGER(barriers);
    }
}

int main(int argc, char **argv)
{
    struct request request;
    char why[512];

    on_gpu = argc > 1 && strcmp(argv[1], "gpu") == 0;
    while (read_all(&request, sizeof request)) {
        char *bytes = calloc(1, request.bytes + 2); // texts end in NUL
        char *out = NULL;
        memset(&reply, 0, sizeof reply);
        if (!bytes || !read_all(bytes, request.bytes))
            return 1;
        if (request.verb == VERB_LOAD) {
            if (on_gpu ? !gpu_open(why, sizeof why) || !gpu_load(bytes, why, sizeof why)
                       : !(module = module_parse(bytes, why, sizeof why)))
                refuse(why);
        } else if (request.verb == VERB_IMAGE) { // names, an empty one, machine code
            char *cubin = bytes;
            while (*cubin)
                cubin += strlen(cubin) + 1;
            ++cubin;
            find_resources(cubin, request.bytes - (size_t)(cubin - bytes), bytes);
        } else {
            struct run_request *r = (struct run_request *)bytes;
            reply.bytes = 2 * shape_elements(&r->shape) * (size_t)r->sets;
            out = calloc(1, reply.bytes);
            if (!out)
                return 1;
            if (on_gpu)
                gpu_run(r, bytes + sizeof *r, &reply, out);
            else
                run(r, bytes + sizeof *r, out);
        }
        write_all(&reply, sizeof reply);
        write_all(out, reply.bytes);
        free(out);
        free(bytes);
    }
    return 0;
}
