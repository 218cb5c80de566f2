// launch.c: runs a grid. CTAs go to the host's threads in order.
#include "exec.h"

#include "ptxsim/decode/decode.h"
#include "ptxsim/ops/ops.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_RESIDENT = 1024 }; // CTAs that a host thread keeps open because they wait for others

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

static void keep_printed(struct run *run, struct cta *cta)
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
    run->printed =
        array_grow(run->printed, run->printed_count, &run->printed_capacity, sizeof *run->printed);
    run->printed[run->printed_count++] = (struct printed){cta->number, all};
    pthread_mutex_unlock(&run->lock);
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
        if (run->printed[i].cta <= run->fault_cta) // later ones ran or not, as it happened
            fwrite(run->printed[i].text.data, 1, run->printed[i].text.size, stdout);
        free(run->printed[i].text.data);
    }
    free(run->printed);
}

// The CTAs that this thread has open are all stuck. So are those of the other threads? Then for good.
static void all_open_stuck(struct worker *worker, uint64_t effects)
{
    struct run *run = worker->run;
    pthread_mutex_lock(&run->lock);
    worker->stuck_at = effects;
    bool all = effects_of(run) == effects;
    for (uint64_t i = 0; i < run->worker_count; ++i)
        all &= run->workers[i].finished || run->workers[i].stuck_at == effects;
    if (all && !atomic_load(&run->deadlocked)) {
        run->blameless = atomic_load(&run->faulted) != UINT64_MAX;
        atomic_store(&run->deadlocked, true);
    }
    pthread_mutex_unlock(&run->lock);
    if (!all)
        sched_yield();
}

// The lowest of them tells; keep_fault takes the lowest of all threads'.
static void give_up(struct worker *worker, struct cta *open)
{
    struct run *run = worker->run;
    struct cta *lowest = open;
    for (struct cta *cta = open; cta; cta = cta->next)
        if (cta->number < lowest->number)
            lowest = cta;
    if (!run->blameless) {
        for (int i = 0; i < lowest->warps; ++i)
            if (lowest->warp[i].group_count && lowest->warp[i].loop.found)
                find_polled(&lowest->warp[i]);
        fault_stuck(lowest, run->ctas - atomic_load(&run->ended));
        keep_fault(run, lowest);
    }
    while (open) {
        struct cta *next = open->next;
        keep_printed(run, open);
        free_cta(open);
        open = next;
    }
}

// A host thread: takes the next CTA; one whose warps only spin (they wait for another CTA) stays
// open while others begin.
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    struct cta *open = NULL, **last = &open, *spare = NULL;
    int count = 0;
    bool more = true;
    while (more || open) {
        struct cta *cta = NULL;
        if (more && count < MOST_RESIDENT) {
            uint64_t number = atomic_fetch_add(&run->next, 1);
            if (number < run->ctas && number < atomic_load(&run->faulted)) {
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
        if (atomic_load(&run->deadlocked)) {
            cta->next = open;
            open = cta;
            give_up(worker, open);
            break;
        }
        enum cta_state state = cta->number > atomic_load(&run->faulted) ? CTA_DONE : run_cta(cta);
        if (state == CTA_TURN_OVER || state == CTA_STUCK) {
            cta->next = NULL;
            *last = cta;
            last = &cta->next;
            bool all = state == CTA_STUCK && (!more || count == MOST_RESIDENT);
            for (const struct cta *other = open; other && all; other = other->next)
                all = other->stuck_at == cta->stuck_at;
            if (all)
                all_open_stuck(worker, cta->stuck_at);
            continue;
        }
        if (state == CTA_FAULT)
            keep_fault(run, cta);
        atomic_fetch_add(&run->ended, 1);
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

// The first race is the launch's fault, if it has no worse one; the others are notes.
static void tell_races(const struct launch *launch, struct race_log *races, struct fault *fault)
{
    race_log_sort(races);
    for (size_t i = 0; i < races->count; ++i) {
        const struct race_entry *e = &races->entries[i];
        struct fault told = {.kind = e->kind};
        char more[48] = "";
        if (e->count > 1)
            snprintf(more, sizeof more, " (and %llu more like it)",
                     (unsigned long long)e->count - 1);
        snprintf(told.text, sizeof told.text, "%.*s%s", (int)(sizeof told.text - sizeof more),
                 e->text, more);
        if (fault->kind == FAULT_NONE)
            *fault = told;
        else if (launch->note)
            launch->note(told.text);
    }
    free(races->entries);
}

bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault)
{
    struct kernel *kernel = (struct kernel *)launch->kernel;
    *fault = (struct fault){0};
    if (!kernel->program && !kernel->error[0])
        kernel->program = program_decode(kernel, kernel->error, sizeof kernel->error);
    if (!kernel->program)
        return refuse(fault, FAULT_UNSUPPORTED, kernel->error);
    const struct program *p = kernel->program;
    uint64_t shared = p->shared_bytes + launch->dynamic_shared_bytes;
    if (launch->dynamic_shared_bytes) {
        size_t offset = (p->shared_bytes + 15) & ~(size_t)15;
        shared = (offset > p->dynamic_offset ? offset : p->dynamic_offset) +
                 launch->dynamic_shared_bytes;
    }
    if (shared > 16 << 20)
        return refuse(fault, FAULT_INTERNAL, "more than 16 MiB of shared memory");
    struct run run = {.launch = launch,
                      .program = p,
                      .ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
                      .shared_bytes = (uint32_t)shared,
                      .fault_cta = UINT64_MAX};
    atomic_init(&run.next, 0);
    atomic_init(&run.faulted, UINT64_MAX);
    pthread_mutex_init(&run.lock, NULL);
    long cores = launch->threads > 0 ? launch->threads : sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t workers = cores < 1 ? 1 : cores > 256 ? 256 : (uint64_t)cores;
    if (workers > run.ctas)
        workers = run.ctas ? run.ctas : 1;
    struct worker *worker = calloc(workers, sizeof *worker);
    pthread_t *thread = calloc(workers, sizeof *thread);
    if (!worker || !thread)
        abort();
    run.workers = worker;
    run.worker_count = workers;
    atomic_init(&run.deadlocked, false);
    atomic_init(&run.ended, 0);
    for (uint64_t i = 0; i < workers; ++i) {
        worker[i].run = &run;
        worker[i].stuck_at = UINT64_MAX;
        worker[i].insns = aligned_zeroed(p->insn_count * sizeof *worker[i].insns);
        worker[i].blocks = aligned_zeroed(p->block_count * sizeof *worker[i].blocks);
        worker[i].patterns = aligned_zeroed(p->insn_count * sizeof *worker[i].patterns);
    }
    struct global_races *shadow = launch->races ? global_races_new(p) : NULL;
    for (uint64_t i = 0; i < workers; ++i)
        worker[i].global_races = shadow;
    uint64_t started = 1; // this thread is the first worker
    for (; started < workers; ++started)
        if (pthread_create(&thread[started], NULL, work, &worker[started]))
            break;
    pthread_mutex_lock(&run.lock);
    for (uint64_t i = started; i < workers; ++i)
        worker[i].finished = true;
    pthread_mutex_unlock(&run.lock);
    work(&worker[0]);
    for (uint64_t i = 1; i < started; ++i)
        pthread_join(thread[i], NULL);
    for (uint64_t i = 1; i < workers; ++i) {
        for (size_t k = 0; k < p->insn_count; ++k) {
            uint64_t *sum = (uint64_t *)&worker[0].insns[k],
                     *more = (uint64_t *)&worker[i].insns[k];
            for (size_t j = 0; j < sizeof *worker->insns / sizeof *sum; ++j)
                sum[j] += more[j];
        }
        for (size_t k = 0; k < p->block_count; ++k) {
            worker[0].blocks[k].warps += worker[i].blocks[k].warps;
            worker[0].blocks[k].threads += worker[i].blocks[k].threads;
        }
    }
    counts_derive(p, worker[0].insns, worker[0].blocks, counts, lines, line_count);
    global_races_free(shadow);
    struct race_log races = {0};
    for (uint64_t i = 0; i < workers; ++i) {
        race_log_merge(&races, &worker[i].races);
        free(worker[i].insns);
        free(worker[i].blocks);
        free(worker[i].patterns);
    }
    free(worker);
    free(thread);
    write_printed(&run);
    pthread_mutex_destroy(&run.lock);
    *fault = run.fault;
    tell_races(launch, &races, fault);
    return fault->kind == FAULT_NONE;
}
