// task.c: does the work of streams and graphs: launches, copies, fills, host functions. The
// functions of the API check requests and make tasks of them.
#include "runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Launches -----------------------------------------------------------------------------------

// A whole number from an environment variable; 0 if the variable is not set. A value that is no
// whole number, or above `most`, is reported once, and ignored.
static uint64_t environment_number(const char *name, uint64_t most)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || *text == '-' || value > most) {
        complain("%s: \"%s\" is no whole number up to %llu: ignored", name, text,
                 (unsigned long long)most);
        unsetenv(name);
        return 0;
    }
    return value;
}

// Whether PTXSIM_CHECK is `what`; settings.def has its values.
static bool checks_are(const char *what)
{
    const char *text = getenv("PTXSIM_CHECK");
    if (text && *text && strcmp(text, "off") && strcmp(text, "memory") && strcmp(text, "all") &&
        strcmp(text, "mine") && strcmp(text, "strict")) {
        complain("PTXSIM_CHECK: \"%s\" is none of off, memory, mine, all, strict: ignored", text);
        unsetenv("PTXSIM_CHECK");
        return false;
    }
    return text && !strcmp(text, what);
}

// Whether CUB, Thrust and CUTLASS may load memory that nothing has written.
static bool libraries_may(void)
{
    const char *text = getenv("PTXSIM_UNWRITTEN");
    if (text && *text && strcmp(text, "libraries")) {
        complain("PTXSIM_UNWRITTEN: \"%s\" is not libraries: ignored", text);
        unsetenv("PTXSIM_UNWRITTEN");
        return false;
    }
    return text && *text;
}

static struct fault notes[63]; // further faults of the current launch
static int note_count;

static void take_note(const struct fault *fault)
{
    if (note_count < (int)(sizeof notes / sizeof *notes))
        notes[note_count++] = *fault;
}

static cudaError_t fault_error(const struct fault *fault)
{
    switch (fault->kind) {
    case FAULT_UNSUPPORTED: return cudaErrorNotSupported;
    case FAULT_OUT_OF_BOUNDS: return cudaErrorIllegalAddress;
    case FAULT_MISALIGNED: return cudaErrorMisalignedAddress;
    case FAULT_DEADLOCK:
    case FAULT_ENDLESS: return cudaErrorLaunchTimeout;
    case FAULT_ASSERT: return cudaErrorAssert;
    case FAULT_UNINITIALISED: // a GPU goes on with whatever it has read
    case FAULT_RACE:
    case FAULT_DIVERGENT_BARRIER:
    case FAULT_TRAP: return cudaErrorLaunchFailure;
    default: return cudaErrorUnknown;
    }
}

// Whether a kernel stops at this kind of fault; after others it runs to its end.
static bool stops(const struct fault *fault)
{
    return fault->kind != FAULT_RACE && fault->kind != FAULT_UNINITIALISED &&
           fault->kind != FAULT_DIVERGENT_BARRIER;
}

// The memory in which the barrier of a cooperative grid counts arrivals, set to 0. Kernels find its
// address in %envreg1 and %envreg2.
static uint64_t grid_memory(void)
{
    enum { BYTES = 64 };
    static void *memory;

    if (!memory)
        memory = memory_alloc(BYTES);
    if (memory)
        memset(memory, 0, BYTES);
    return (uint64_t)(uintptr_t)memory;
}

// Explains why a launch failed, and what else went wrong in it.
static void explain(const struct fault *fault)
{
    complain_of(fault);
    if (fault->kind == FAULT_ENDLESS)
        report_endless();
    report_fault(fault);
    for (int i = 0; i < note_count; ++i) {
        complain_of(&notes[i]);
        report_fault(&notes[i]);
    }
    films_save();
    note_count = 0;
}

static uint64_t instructions; // how many instructions the warps of all kernels have executed

#pragma weak extra_children
cudaError_t launch_now(const struct launch_order *order)
{
    struct CUkern_st *kernel = order->kernel;
    struct fault fault = {0};
    struct launch launch = {
        .kernel = kernel->kernel,
        .dynamic_shared_bytes = order->dynamic_shared_bytes,
        .params = order->params,
        .grid_memory = order->cooperative ? grid_memory() : 0,
        .gpu = device_now(),
        .stack_bytes = stack_limit(),
        .threads = (int)environment_number("PTXSIM_THREADS", 1024),
        .schedule = order_late() ? 0 : (unsigned)environment_number("PTXSIM_SCHEDULE", UINT32_MAX),
        .spin = (unsigned)environment_number("PTXSIM_SPIN", UINT32_MAX),
        .budget = environment_number("PTXSIM_BUDGET", INT64_MAX),
        .check = !checks_are("off"),
        .races = !checks_are("off") && !checks_are("memory"),
        .strict = checks_are("strict"),
        .mine = checks_are("mine"),
        .libraries = libraries_may(),
        .note = take_note,
        .tick = terminal_tick,
        .child = &extra_children ? extra_children.take : NULL,
        .early = order->early,
        .touched = order_kernel(kernel->kernel),
    };
    struct cudaFuncAttributes attributes;
    if (device_now()->arch >= 90 && kernel_attributes(kernel, &attributes) == cudaSuccess)
        launch.registers = attributes.numRegs; // setmaxnreg may move some between warps
    memcpy(launch.grid, order->grid, sizeof launch.grid);
    memcpy(launch.block, order->block, sizeof launch.block);
    memcpy(launch.cluster, order->cluster, sizeof launch.cluster);

    uint64_t before = kernel->counts.warp_instructions;
    memory_touched_clear();
    terminal_begin(kernel->name);
    tell_launched();
    bool passed = launch_run(&launch, &kernel->counts, &kernel->lines, &kernel->line_count, &fault);
    terminal_end();
    order_kernel_done(kernel, launch.touched, order->early);
    if (fault.kind == FAULT_INTERRUPTED) {
        complain("%s", fault.text);
        raise(SIGINT); // ends the program: terminal_end has restored the default action
    }
    kernel->dram_bytes += memory_touched_bytes();
    instructions += kernel->counts.warp_instructions - before;
    if (kernel->launches++ == 0)
        kernel_was_launched(kernel);
    memcpy(kernel->grid, order->grid, sizeof kernel->grid);
    memcpy(kernel->block, order->block, sizeof kernel->block);
    kernel->dynamic_shared_bytes = order->dynamic_shared_bytes;
    if (passed)
        return &extra_children ? extra_children.run(kernel) : cudaSuccess;
    if (fault.kind == FAULT_UNSUPPORTED) { // the kernel did not begin: the device is unchanged
        if (!kernel->refused)
            explain(&fault);
        kernel->refused = true;
        return cudaErrorNotSupported;
    }
    explain(&fault);
    return api_result_sticky(fault_error(&fault), stops(&fault));
}

// ---- Copies and fills ---------------------------------------------------------------------------

static void fill_row(char *to, unsigned value, size_t element, size_t width)
{
    if (element == 1)
        memset(to, (int)value, width);
    else
        for (size_t i = 0; i < width; ++i)
            memcpy(to + i * element, &value, element); // takes the low bytes of `value`
    memory_mark(to, NULL, width * element);
}

// Tells a program once that it copies a result that nothing has computed, which reaches the host as
// NaN or -1 without any kernel having read it. Such a copy is no error: a program that copies a
// whole buffer may know which part of it is valid.
static void tell_unwritten(const char *to, const char *from, size_t bytes)
{
    static bool told;
    size_t written = told || (uintptr_t)to == (uintptr_t)from ? bytes : memory_written(from, bytes);
    const struct allocation *source, *target = memory_find((uint64_t)(uintptr_t)to, bytes, NULL);

    if (written == bytes ||
        (target && (target->kind == MEMORY_DEVICE || target->kind == MEMORY_MANAGED)) ||
        checks_are("off"))
        return;
    told = true;
    source = memory_find((uint64_t)(uintptr_t)from, bytes, NULL);
    complain("a copy to the host has bytes that nothing has written, the first at byte %llu of an "
             "allocation of %llu bytes: here they are 0xff, on a GPU they may be anything",
             (unsigned long long)((uint64_t)(uintptr_t)from - source->base + written),
             (unsigned long long)source->size);
}

static int graphs_under_way; // depth of graphs inside graphs

// Whether the bytes of one side of a copy exist; if not, reports the copy: the memory may have been
// freed after the copy's graph was made. For memory that CUDA did not allocate, the check is a
// system call, which takes longer than a copy: it is made only in graphs.
static bool side_is_there(const struct task *task, const char *first, bool reads)
{
    size_t pitch = reads ? task->copy.from_pitch : task->copy.to_pitch, rows = task->copy.height;
    size_t slice = reads ? task->copy.from_slice : task->copy.to_slice;
    size_t slices = task->copy.depth ? task->copy.depth : 1;
    uint64_t at = (uint64_t)(uintptr_t)first;
    uint64_t last = at + (slices - 1) * slice + (rows - 1) * pitch + task->copy.width - 1;
    const struct allocation *nearest = NULL;

    if (memory_find(at, last - at + 1, &nearest))
        return true;
    bool freed = nearest && !nearest->live && at - nearest->base < nearest->size;
    if (!freed && (!graphs_under_way || (memory_of_host(at) && memory_of_host(last))))
        return true;
    complain_of_host(FAULT_COPY, true, &(struct host_line){.line = 0},
                     "a copy %s %llu bytes at 0x%llx, %s", reads ? "reads" : "writes",
                     (unsigned long long)task->copy.width, (unsigned long long)at,
                     freed ? "in an allocation that has been freed" : "where no memory is");
    return false;
}

static cudaError_t copy_now(const struct task *task)
{
    if (task->kind == TASK_COPY &&
        (!side_is_there(task, task->copy.from, true) || !side_is_there(task, task->copy.to, false)))
        return api_result_sticky(cudaErrorIllegalAddress, true);
    bool copies = task->kind == TASK_COPY;
    size_t depth = copies ? task->copy.depth : task->fill.depth;
    size_t height = copies ? task->copy.height : task->fill.height;

    for (size_t slice = 0; slice < (depth ? depth : 1); ++slice)
        for (size_t row = 0; row < height; ++row) {
            if (!copies) {
                fill_row(task->fill.to + slice * task->fill.slice + row * task->fill.pitch,
                         task->fill.value, task->fill.element, task->fill.width);
                continue;
            }
            char *to = task->copy.to + slice * task->copy.to_slice + row * task->copy.to_pitch;
            const char *from =
                task->copy.from + slice * task->copy.from_slice + row * task->copy.from_pitch;
            tell_unwritten(to, from, task->copy.width);
            memmove(to, from, task->copy.width);
            memory_mark(to, from, task->copy.width);
        }
    order_copy(task);
    return cudaSuccess;
}

// ---- Events -------------------------------------------------------------------------------------

static struct CUevent_st *events;

struct CUevent_st *event_find(cudaEvent_t handle)
{
    for (struct CUevent_st *e = events; e; e = e->next)
        if (e == handle)
            return e;
    return NULL;
}

void event_add(struct CUevent_st *event)
{
    event->next = events;
    events = event;
}

bool event_remove(const struct CUevent_st *event)
{
    for (struct CUevent_st **e = &events; *e; e = &(*e)->next)
        if (*e == event) {
            *e = event->next;
            return true;
        }
    return false;
}

static cudaError_t event_record(cudaEvent_t event)
{
    if (!event_find(event))
        return cudaSuccess;
    event->recorded = true;
    event->instructions = instructions;
    order_drop(&event->knows);
    order_knows(&event->knows);
    return cudaSuccess;
}

// A host function may tell the host, in ways that cannot be seen, that work before it is done: from
// then on the host counts as knowing that this work is done.
static cudaError_t host_now(const struct task *task)
{
    if (order_now())
        order_host_knows(&order_now()->knows);
    memory_open();
    task->host.function(task->host.data);
    return cudaSuccess;
}

// ---- Tasks --------------------------------------------------------------------------------------

// Runs a conditional node. Its value is read when the node is reached, and after each round of a
// loop.
static cudaError_t conditional_run(const struct task *task)
{
    const unsigned *now = &task->conditional.value->now, count = task->conditional.count;
    cudaGraph_t *body = task->conditional.body;
    cudaError_t error = cudaSuccess;

    switch (task->conditional.type) {
    case cudaGraphCondTypeWhile:
        while (*now && error == cudaSuccess)
            error = graph_run(body[0]);
        return error;
    case cudaGraphCondTypeIf:
        return *now ? graph_run(body[0]) : count > 1 ? graph_run(body[1]) : cudaSuccess;
    case cudaGraphCondTypeSwitch: return *now < count ? graph_run(body[*now]) : cudaSuccess;
    }
    return cudaErrorUnknown;
}

cudaError_t task_run(const struct task *task)
{
    // The tasks of a graph are written down one by one.
    if (only_written() && task->kind != TASK_GRAPH && task->kind != TASK_CONDITIONAL) {
        write_down(task);
        return cudaSuccess;
    }
    if (task->kind == TASK_KERNEL || task->kind == TASK_COPY || task->kind == TASK_FILL)
        memory_open();
    switch (task->kind) {
    case TASK_KERNEL: return launch_now(&task->launch);
    case TASK_COPY:
    case TASK_FILL: return copy_now(task);
    case TASK_HOST: return host_now(task);
    case TASK_RECORD: return event_record(task->event);
    case TASK_NOTHING:
    case TASK_ALLOC:
    case TASK_FREE: return cudaSuccess;
    case TASK_GRAPH: return graph_run(task->graph);
    case TASK_CONDITIONAL: return conditional_run(task);
    }
    return cudaErrorUnknown;
}

// ---- Graphs: lists of tasks ---------------------------------------------------------------------

struct CUgraph_st *graph_new(void)
{
    return calloc(1, sizeof(struct CUgraph_st));
}

void task_free(struct task *task)
{
    if (task->kind == TASK_KERNEL)
        free(task->launch.params);
    if (task->kind == TASK_GRAPH)
        graph_free(task->graph);
    if (task->kind == TASK_CONDITIONAL) {
        for (unsigned i = 0; i < task->conditional.count; ++i)
            graph_free(task->conditional.body[i]);
        free(task->conditional.body);
    }
}

// Whether each node depends on exactly the node before it.
static bool is_line(const struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->count; ++i) {
        const struct CUgraphNode_st *node = graph->nodes[i];
        if (i && (node->after_count != 1 || node->after[0] != graph->nodes[i - 1]))
            return false;
    }
    return true;
}

// Divides the nodes into chains; within a chain, each node comes after the one before.
static void make_chains(struct CUgraph_st *graph)
{
    // For each chain, its last node.
    size_t *last = checked_alloc(calloc(graph->count + 1, sizeof *last));

    for (size_t i = 0; i < graph->count; ++i) {
        struct CUgraphNode_st *node = graph->nodes[i];
        node->chain = graph->chain_count;
        for (size_t k = 0; k < node->after_count; ++k)
            if (last[node->after[k]->chain] == node->after[k]->index)
                node->chain = node->after[k]->chain;
        graph->chain_count += node->chain == graph->chain_count;
        last[node->chain] = i;
    }
    free(last);
    graph->chains = checked_alloc(calloc(graph->chain_count + 1, sizeof *graph->chains));
    for (size_t i = 0; i < graph->chain_count; ++i)
        timeline_begin(&graph->chains[i], "a branch of a graph");
}

// Runs a node. It begins when the nodes that it depends on are done, and not before the graph
// begins.
static cudaError_t node_run(struct CUgraphNode_st *node, const struct timeline *whole)
{
    struct timeline *chain = &node->graph->chains[node->chain];

    order_join(&chain->knows, &whole->knows);
    for (size_t i = 0; i < node->after_count; ++i)
        order_join(&chain->knows, &node->after[i]->done);
    order_next(chain);
    cudaError_t error = task_run(&node->task);
    order_join(&node->done, &chain->knows);
    return error;
}

static cudaError_t branches_run(struct CUgraph_st *graph, struct timeline *whole)
{
    cudaError_t error = cudaSuccess;

    order_watch(true);
    if (!graph->chains)
        make_chains(graph);
    for (size_t i = 0; i < graph->count && error == cudaSuccess; ++i)
        error = node_run(graph->nodes[i], whole);
    for (size_t i = 0; i < graph->count; ++i) {
        order_join(&whole->knows, &graph->nodes[i]->done);
        order_drop(&graph->nodes[i]->done);
    }
    order_next(whole);
    return error;
}

cudaError_t graph_run(struct CUgraph_st *graph)
{
    cudaError_t error = cudaSuccess;

    struct timeline *whole = order_now();
    ++graphs_under_way;
    if (whole)
        order_join(&whole->knows, &graph->done);
    if (whole && !is_line(graph))
        error = branches_run(graph, whole);
    else
        for (size_t i = 0; i < graph->count && error == cudaSuccess; ++i)
            error = task_run(&graph->nodes[i]->task);
    if (whole)
        order_join(&graph->done, &whole->knows);
    --graphs_under_way;
    return error;
}

struct CUgraphNode_st *graph_node(struct CUgraph_st *graph, struct task *task)
{
    struct CUgraphNode_st *node = calloc(1, sizeof *node);

    if (node && graph->count == graph->room) {
        size_t room = graph->room ? 2 * graph->room : 16;
        struct CUgraphNode_st **grown = realloc(graph->nodes, room * sizeof *grown);
        if (grown) {
            graph->nodes = grown;
            graph->room = room;
        }
    }
    if (!node || graph->count == graph->room) {
        free(node);
        task_free(task);
        return NULL;
    }
    node->task = *task;
    node->graph = graph;
    node->index = graph->count;
    return graph->nodes[graph->count++] = node;
}

cudaError_t graph_depend(struct CUgraphNode_st *node, struct CUgraphNode_st *const *on,
                         size_t count)
{
    if (count == 0)
        return cudaSuccess;
    struct CUgraphNode_st **grown =
        realloc(node->after, (node->after_count + count) * sizeof *grown);
    if (!grown)
        return cudaErrorMemoryAllocation;
    node->after = grown;
    for (size_t i = 0; i < count; ++i) {
        bool known = false;
        for (size_t k = 0; k < node->after_count; ++k)
            known |= grown[k] == on[i];
        if (!known)
            grown[node->after_count++] = on[i];
    }
    return cudaSuccess;
}

void graph_remove_last(struct CUgraph_st *graph)
{
    struct CUgraphNode_st *node = graph->nodes[--graph->count];
    task_free(&node->task);
    free(node->after);
    free(node->arguments);
    free(node);
}

void graph_free(struct CUgraph_st *graph)
{
    while (graph && graph->count)
        graph_remove_last(graph);
    for (size_t i = 0; graph && i < graph->chain_count; ++i)
        timeline_end(&graph->chains[i]);
    if (graph) {
        order_drop(&graph->done);
        free(graph->nodes);
        free(graph->chains);
    }
    free(graph);
}
