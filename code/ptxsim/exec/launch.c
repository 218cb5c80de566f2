// launch.c: runs a grid: launch_run. Each host thread takes the next CTA until none is left.
#include "exec.h"

#include "ptxsim/base/heap.h"
#include "ptxsim/decode/decode.h"
#include "ptxsim/ops/ops.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    // CTAs that a host thread keeps open while they wait for other CTAs, if the launch does not say
    // how many are resident. A cooperative launch keeps all its CTAs open; they fit on the GPU at
    // once.
    MOST_RESIDENT = 1024,
    // How often each open CTA has had its turn in vain before another one is opened: the owner of a lock is mostly open,
    // perhaps on another host thread, and another CTA would wait for the lock, too.
    PASSES = 64,
    BUSY_PASSES = 2,        // the first passes, after each of which the host thread only yields
    SLEEP = 20000,          // ns that the host thread sleeps after each later pass
    MOST_SHARED = 16 << 20, // bytes of shared memory of a CTA: more than any GPU has
};

struct printed { // what one CTA has printed
    uint64_t cta;
    struct text text;
};

// ---- Host threads -------------------------------------------------------------------------------

static void keep_fault(struct run *run, const struct cta *cta)
{
    pthread_mutex_lock(&run->lock);
    if (cta->number < run->fault_cta) {
        run->fault_cta = cta->number;
        run->fault = cta->fault;
        atomic_store(&run->faulted, cta->number);
    }
    pthread_mutex_unlock(&run->lock);
}

static void keep_printed_one(struct run *run, struct cta *cta)
{
    struct text all = {0};
    for (int i = 0; i < cta->warps; ++i) {
        struct text *text = &cta->warp[i].printed;
        if (text->size)
            text_add(&all, text->data, text->size);
        text->size = 0;
    }
    if (!all.size)
        return;
    pthread_mutex_lock(&run->lock);
    size_t most = run->launch->print_bytes ? run->launch->print_bytes : SIZE_MAX;
    if (run->printed_bytes >= most) {
        pthread_mutex_unlock(&run->lock);
        free(all.data);
        return;
    }
    run->printed_bytes += all.size;
    run->printed =
        array_grow(run->printed, run->printed_count, &run->printed_capacity, sizeof *run->printed);
    run->printed[run->printed_count++] = (struct printed){cta->number, all};
    pthread_mutex_unlock(&run->lock);
}

static void keep_printed(struct run *run, struct cta *cta)
{
    for (int rank = 0; rank < cluster_size(cta); ++rank)
        keep_printed_one(run, cta_at(cta, rank));
}

static int by_cta(const void *a, const void *b)
{
    uint64_t x = ((const struct printed *)a)->cta, y = ((const struct printed *)b)->cta;
    return x < y ? -1 : x > y;
}

static void write_printed(struct run *run)
{
    if (run->printed_count)
        qsort(run->printed, run->printed_count, sizeof *run->printed, by_cta);
    for (size_t i = 0; i < run->printed_count; ++i) {
        const struct text *text = &run->printed[i].text;
        // It is chance whether CTAs above the faulted one ran: their text is dropped.
        if (run->printed[i].cta > run->fault_cta)
            ;
        else if (run->launch->print)
            run->launch->print(text->data, text->size);
        else
            fwrite(text->data, 1, text->size, stdout);
        free(text->data);
    }
    free(run->printed);
}

// Called when all open CTAs of this host thread are stuck. If those of all other threads are stuck,
// too, and nothing has happened since, halts the run: it is a deadlock.
static void all_open_stuck(struct worker *worker, uint64_t effects)
{
    struct run *run = worker->run;
    pthread_mutex_lock(&run->lock);
    worker->stuck_at = effects;
    bool all = effects_of(run) == effects;
    for (uint64_t i = 0; i < run->worker_count; ++i)
        all &= run->workers[i].finished || run->workers[i].stuck_at == effects;
    pthread_mutex_unlock(&run->lock);
    if (all)
        halt(run, DEADLOCKED);
    else
        sched_yield();
}

static uint64_t instructions_of(struct cta *cta)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < cluster_size(cta); ++rank)
        for (int i = 0; i < cta->warps; ++i)
            sum += cta_at(cta, rank)->warp[i].instructions;
    return sum;
}

// The CTA of a cluster that has a fault; otherwise one that has not ended.
static struct cta *faulted_one(struct cta *cta)
{
    struct cta *best = cta;
    for (int rank = cluster_size(cta) - 1; rank >= 0; --rank) {
        struct cta *one = cta_at(cta, rank);
        if (one->faulted || (!best->faulted && !one->left))
            best = one;
    }
    return best;
}

// The CTA to blame for a halt: for a deadlock, the lowest; if the launch took too long or was
// interrupted, the one that has run most instructions.
static struct cta *culprit(struct cta *open, enum halt why)
{
    struct cta *best = open;
    for (struct cta *cta = open; cta; cta = cta->next) {
        uint64_t more = why == DEADLOCKED ? 0 : instructions_of(cta);
        uint64_t most = why == DEADLOCKED ? 0 : instructions_of(best);
        if (more > most || (more == most && cta->number < best->number))
            best = cta;
    }
    return best;
}

// Ends this thread's open CTAs after a halt. Unless a fault came before the halt, makes the halt
// one CTA's fault; keep_fault keeps the fault of the lowest CTA of all threads.
static void give_up(struct worker *worker, struct cta *open)
{
    struct run *run = worker->run;
    enum halt why = (enum halt)atomic_load(&run->halt);
    struct cta *whole = culprit(open, why), *cta = faulted_one(whole);
    if (why == DEADLOCKED)
        cta = stuck_one(whole);
    if (!run->blameless && why == DEADLOCKED) {
        for (int i = 0; i < cta->warps; ++i)
            if (cta->warp[i].group_count && cta->warp[i].loop.found)
                find_polled(&cta->warp[i]);
        fault_stuck(cta, run->ctas - atomic_load(&run->ended));
        keep_fault(run, cta);
    } else if (!run->blameless && instructions_of(whole)) {
        fault_stopped(cta, why);
        keep_fault(run, cta);
    }
    while (open) {
        struct cta *next = open->next;
        keep_printed(run, open);
        free_cta(open);
        open = next;
    }
}

// Called after a pass in which each open CTA had its turn in vain: lets another host thread run the owners of the locks.
static void leave_to_others(int passes)
{
    const struct timespec some = {.tv_nsec = SLEEP};
    if (passes <= BUSY_PASSES)
        sched_yield();
    else
        nanosleep(&some, NULL);
}

// Clusters that are resident at a time, at least one; 0: the launch does not say how many.
static uint64_t resident_clusters(const struct run *run)
{
    const uint64_t resident = run->launch->resident, clusters = resident / run->size;
    return resident && !clusters ? 1 : clusters;
}

// How many clusters a host thread keeps open at most: its part of the resident ones.
static int most_open(const struct worker *worker)
{
    const struct run *run = worker->run;
    const uint64_t resident = resident_clusters(run), index = (uint64_t)(worker - run->workers);
    const uint64_t part =
        resident / run->worker_count + (index < resident % run->worker_count ? 1 : 0);
    if (run->launch->grid_memory)
        return INT_MAX;
    return !resident ? MOST_RESIDENT : part < INT_MAX ? (int)part : INT_MAX;
}

// The work of a host thread: runs CTAs until none is left. A CTA whose turn is over, or whose warps
// are all stuck, stays open while others run.
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    struct cta *open = NULL, **last = &open, *spare = NULL;
    const int most = most_open(worker);
    int count = 0, in_vain = 0; // in_vain: how many turns in a row were CTA_IN_VAIN
    bool more = true;
    while (more || open) {
        struct cta *cta = NULL;
        if (more && count < most && (!in_vain || in_vain >= PASSES * count)) {
            in_vain = 0;
            uint64_t number = atomic_fetch_add(&run->next, 1);
            if (number < run->ctas / run->size && number < atomic_load(&run->faulted)) {
                cta = spare ? spare : new_cta(worker);
                spare = NULL;
                start_cta(cta, number);
                count++;
            } else {
                more = false;
            }
        }
        if (!cta) {
            cta = open;
            if (!cta)
                continue;
            open = cta->next;
            if (!open)
                last = &open;
        }
        if (atomic_load(&run->halt) != RUNNING) {
            cta->next = open;
            open = cta;
            give_up(worker, open);
            break;
        }
        enum cta_state state = cta->number > atomic_load(&run->faulted) ? CTA_DONE : run_cta(cta);
        in_vain = state == CTA_IN_VAIN ? in_vain + 1 : 0;
        if (in_vain && in_vain % count == 0 && run->worker_count > 1)
            leave_to_others(in_vain / count);
        if (state == CTA_TURN_OVER || state == CTA_IN_VAIN || state == CTA_STUCK) {
            cta->next = NULL;
            *last = cta;
            last = &cta->next;
            bool all = state == CTA_STUCK && (!more || count == most);
            for (const struct cta *other = open; other && all; other = other->next)
                all = other->stuck_at == cta->stuck_at;
            if (all)
                all_open_stuck(worker, cta->stuck_at);
            continue;
        }
        if (state == CTA_FAULT)
            keep_fault(run, faulted_one(cta));
        atomic_fetch_add(&run->ended, run->size);
        keep_printed(run, cta);
        count--;
        if (spare || state == CTA_FAULT)
            free_cta(cta);
        else
            spare = cta;
    }
    if (spare)
        free_cta(spare);
    pthread_mutex_lock(&run->lock);
    worker->finished = true;
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

// ---- Grids --------------------------------------------------------------------------------------

static bool refuse(struct fault *fault, enum fault_kind kind, const char *text)
{
    fault->kind = kind;
    snprintf(fault->text, sizeof fault->text, "%s", text);
    return false;
}

// Reports the races in the log: the first becomes the launch's fault, unless the launch has a fault
// already; all others become notes.
static void tell_races(const struct launch *launch, struct race_log *races, struct fault *fault)
{
    race_log_sort(races);
    for (size_t i = 0; i < races->count; ++i) {
        const struct race_entry *e = &races->entries[i];
        struct fault told = e->fault;
        char more[48] = "";
        if (e->count > 1)
            snprintf(more, sizeof more, " (and %llu more like it)",
                     (unsigned long long)e->count - 1);
        snprintf(told.text, sizeof told.text, "%.*s%s", (int)(sizeof told.text - sizeof more),
                 e->fault.text, more);
        if (fault->kind == FAULT_NONE)
            *fault = told;
        else if (launch->note)
            launch->note(&told);
    }
    free(races->entries);
}

// Bytes of shared memory of each CTA of a launch.
static uint64_t shared_bytes_of(const struct program *p, size_t dynamic)
{
    size_t offset = (p->shared_bytes + 15) & ~(size_t)15, bytes = p->shared_bytes;
    if (dynamic > MOST_SHARED)
        return dynamic;
    if (dynamic)
        bytes = (offset > p->dynamic_offset ? offset : p->dynamic_offset) + dynamic;
    if (p->asks_reserved) // the system's part comes after the CTA's own (ops/special.c)
        bytes = ((bytes + 127) & ~(size_t)127) + RESERVED_SHARED_BYTES;
    return bytes;
}

// The kernel's program, decoded at its first launch; NULL: `fault` says why it cannot be launched.
static const struct program *program_of(struct kernel *kernel, struct fault *fault)
{
    if (!kernel->program && !kernel->error[0])
        kernel->program = program_decode(kernel, kernel->error, sizeof kernel->error);
    if (!kernel->program)
        refuse(fault, FAULT_UNSUPPORTED, kernel->error);
    return kernel->program;
}

int kernel_registers(struct kernel *kernel)
{
    enum { LEAST = 8, MOST = 255 }; // limits of registers in machine code
    struct fault fault = {0};
    const struct program *p = program_of(kernel, &fault);
    if (!p)
        return 0;
    int deepest = 0;
    for (size_t i = 1; i < p->callee_count; ++i)
        if (p->callees[i].live_words > deepest)
            deepest = p->callees[i].live_words;
    int words = p->callees[0].live_words + deepest;
    return words < LEAST ? LEAST : words > MOST ? MOST : words;
}

bool kernel_starts_dependents(struct kernel *kernel)
{
    struct fault fault = {0};
    const struct program *p = program_of(kernel, &fault);
    return p && p->starts_dependents;
}

struct fault_place kernel_line(const struct kernel *kernel, size_t insn, char *text, size_t size)
{
    insn_line(kernel->program, (uint32_t)insn, text, size);
    return insn_place(kernel->program, (uint32_t)insn);
}

// Makes one worker for each core of the host, or as many as the launch asks for; each has its own
// counters.
static void prepare_workers(struct run *run)
{
    const struct launch *launch = run->launch;
    const struct program *p = run->program;
    long cores = launch->threads > 0 ? launch->threads : sysconf(_SC_NPROCESSORS_ONLN);
    run->worker_count = cores < 1 ? 1 : cores > 256 ? 256 : (uint64_t)cores;
    // Several threads would make the order of executions depend on the machine.
    if (launch->ablation)
        run->worker_count = 1;
    if (run->worker_count > run->ctas / run->size)
        run->worker_count = run->ctas ? run->ctas / run->size : 1;
    const uint64_t resident = resident_clusters(run);
    if (resident && run->worker_count > resident)
        run->worker_count = resident;
    run->workers = checked_alloc(calloc(run->worker_count, sizeof *run->workers));
    struct global_races *races = launch->races ? global_races_new(p) : NULL;
    for (uint64_t i = 0; i < run->worker_count; ++i) {
        struct worker *worker = &run->workers[i];
        worker->run = run;
        worker->stuck_at = UINT64_MAX;
        worker->insns = aligned_zeroed(p->insn_count * sizeof *worker->insns);
        worker->blocks = aligned_zeroed(p->block_count * sizeof *worker->blocks);
        worker->patterns = aligned_zeroed(p->insn_count * sizeof *worker->patterns);
        worker->global_races = races;
        worker->series = races ? global_races_log(races) : NULL;
        if (launch->touched)
            worker->spans = aligned_zeroed(p->insn_count * sizeof *worker->spans);
    }
}

// Runs the workers. The calling thread is the first; if a thread cannot be created, the others do
// its work.
static void run_workers(struct run *run)
{
    pthread_t *thread = checked_alloc(calloc(run->worker_count, sizeof *thread));
    uint64_t started = 1;
    for (; started < run->worker_count; ++started)
        if (pthread_create(&thread[started], NULL, work, &run->workers[started]))
            break;
    pthread_mutex_lock(&run->lock);
    for (uint64_t i = started; i < run->worker_count; ++i)
        run->workers[i].finished = true;
    pthread_mutex_unlock(&run->lock);
    work(&run->workers[0]);
    for (uint64_t i = 1; i < started; ++i)
        pthread_join(thread[i], NULL);
    free(thread);
}

// Adds the counters of all other workers to the first worker's.
static void merge_counters(struct run *run)
{
    const struct program *p = run->program;
    const struct worker *first = &run->workers[0];
    for (uint64_t i = 1; i < run->worker_count; ++i) {
        const struct worker *worker = &run->workers[i];
        for (size_t k = 0; k < p->insn_count; ++k) {
            uint64_t *sum = (uint64_t *)&first->insns[k], *more = (uint64_t *)&worker->insns[k];
            for (size_t j = 0; j < sizeof *first->insns / sizeof *sum; ++j)
                sum[j] += more[j];
        }
        for (size_t k = 0; k < p->block_count; ++k) {
            first->blocks[k].warps += worker->blocks[k].warps;
            first->blocks[k].threads += worker->blocks[k].threads;
        }
    }
}

// Merges the workers' spans of accessed memory, instruction by instruction, if the launch asks for
// them (launch.touched).
static void hand_on_touched(const struct run *run)
{
    struct touched *touched = run->launch->touched;
    if (!touched)
        return;
    *touched = (struct touched){.spans = run->workers[0].spans, .count = run->program->insn_count};
    for (uint64_t i = 0; i < run->worker_count; ++i) {
        const struct worker *worker = &run->workers[i];
        touched->starts_dependents |= worker->starts_dependents;
        for (size_t k = 0; i && k < touched->count; ++k) {
            struct touched_span *sum = &touched->spans[k], *more = &worker->spans[k];
            if (more->kinds && (!sum->kinds || more->start < sum->start))
                sum->start = more->start;
            sum->end = more->end > sum->end ? more->end : sum->end;
            sum->kinds |= more->kinds;
        }
        if (i)
            free(worker->spans);
    }
}

static int by_cta_and_order(const void *a, const void *b)
{
    const struct child_entry *x = a, *y = b;
    return x->cta != y->cta ? (x->cta < y->cta ? -1 : 1) : x->order < y->order ? -1 : 1;
}

// Passes on the grids and copies that this grid's threads have requested (struct child); drops them
// if this grid has a fault.
static void hand_on_children(const struct run *run)
{
    struct child_entry *all = NULL;
    size_t count = 0, capacity = 0;
    for (uint64_t i = 0; i < run->worker_count; ++i) {
        const struct worker *worker = &run->workers[i];
        for (size_t k = 0; k < worker->child_count; ++k) {
            all = array_grow(all, count, &capacity, sizeof *all);
            all[count++] = worker->children[k];
        }
    }
    if (count)
        qsort(all, count, sizeof *all, by_cta_and_order);
    for (size_t i = 0; i < count; ++i)
        if (all[i].asked && run->fault.kind == FAULT_NONE && run->launch->child)
            run->launch->child(&all[i].child);
        else if (all[i].child.params)
            heap_give((uint64_t)(uintptr_t)all[i].child.params);
    free(all);
}

// Frees the workers; merges their races into one log.
static void drop_workers(struct run *run, struct race_log *races)
{
    global_races_free(run->workers[0].global_races);
    for (uint64_t i = 0; i < run->worker_count; ++i) {
        race_log_merge(races, &run->workers[i].races);
        free(run->workers[i].insns);
        free(run->workers[i].blocks);
        free(run->workers[i].patterns);
        free(run->workers[i].children);
    }
    free(run->workers);
}

// Sets the shape of a cluster: the launch's; without one, the kernel's; without that, one CTA.
static bool take_shape(struct run *run, struct fault *fault)
{
    const struct launch *launch = run->launch;
    const unsigned *shape = launch->cluster[0] ? launch->cluster : launch->kernel->info.cluster;
    run->size = 1;
    for (int i = 0; i < 3; ++i) {
        run->shape[i] = shape[i] ? shape[i] : 1;
        run->size *= run->shape[i];
        if (run->size > MOST_CLUSTER || launch->grid[i] % run->shape[i])
            return refuse(fault, FAULT_INTERNAL,
                          run->size > MOST_CLUSTER ? "a cluster of more than 16 CTAs"
                                                   : "a grid of no whole clusters");
    }
    return true;
}

bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault)
{
    *fault = (struct fault){0};
    const struct program *p = program_of((struct kernel *)launch->kernel, fault);
    if (!p)
        return false;
    program_stack(((struct kernel *)launch->kernel)->program, launch->stack_bytes);
    uint64_t shared = shared_bytes_of(p, launch->dynamic_shared_bytes);
    if (shared > MOST_SHARED)
        return refuse(fault, FAULT_INTERNAL, "more than 16 MiB of shared memory");
    struct run run = {.launch = launch,
                      .program = p,
                      .ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
                      .shared_bytes = (uint32_t)shared,
                      .fault_cta = UINT64_MAX};
    if (!take_shape(&run, fault))
        return false;
    atomic_init(&run.next, 0);
    atomic_init(&run.faulted, UINT64_MAX);
    atomic_init(&run.halt, RUNNING);
    atomic_init(&run.ended, 0);
    atomic_init(&run.spent, 0);
    pthread_mutex_init(&run.lock, NULL);
    prepare_workers(&run);

    run_workers(&run);
    if (launch->ablation)
        launch->ablation->ctas += run.ctas;

    struct race_log races = {0};
    merge_counters(&run);
    counts_derive(p, run.workers[0].insns, run.workers[0].blocks, counts, lines, line_count);
    hand_on_children(&run);
    hand_on_touched(&run);
    drop_workers(&run, &races);
    write_printed(&run);
    pthread_mutex_destroy(&run.lock);
    *fault = run.fault;
    tell_races(launch, &races, fault);
    return fault->kind == FAULT_NONE;
}
