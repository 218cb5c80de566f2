// cta.c: runs a CTA or, with clusters, a cluster: its storage, and the turns of its warps, until
// all have ended or are stuck, or another CTA has its turn. A cluster is run as if it were one CTA:
// its CTA of rank 0 stands for it, and the warps of all its CTAs take turns.
#include "exec.h"

#include "ptxsim/ops/cluster.h"
#include "ptxsim/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CTA_ROUNDS = 256, // rounds after which another CTA of the same host thread takes its turn
    // A warp's turn is idle if it runs no block, or fewer than these and then fails in a wait.
    IDLE_BLOCKS = 64,
    IDLE_ROUNDS = 1000,    // rounds of idle turns, with no progress, that count as a deadlock
    TICK_ROUNDS = 16,      // rounds between calls of launch.tick
    MOST_UNTOLD = 1 << 16, // instructions that a host thread runs before the launch's sum gets them
};

// ---- Storage ------------------------------------------------------------------------------------

void *aligned_zeroed(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 64)) {
        fprintf(stderr, "ptxsim: out of memory\n");
        abort();
    }
    memset(memory, 0, bytes);
    return memory;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

// Makes the storage of a CTA: registers, local and shared memory. It serves one CTA after the
// other.
static struct cta *new_one(struct worker *worker)
{
    const struct run *run = worker->run;
    const struct launch *launch = run->launch;
    const struct program *p = run->program;
    unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    struct cta *cta = aligned_zeroed(sizeof *cta);
    cta->worker = worker;
    cta->launch = launch;
    cta->program = p;
    cta->warps = (int)((threads + WARP - 1) / WARP);
    cta->warp = aligned_zeroed((size_t)cta->warps * sizeof *cta->warp);
    cta->shared_bytes = run->shared_bytes;
    cta->shared = aligned_zeroed(padded(run->shared_bytes) + 64);
    if (launch->check)
        cta->written = aligned_zeroed(run->shared_bytes / 8 + 64);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        w->cta = cta;
        w->index = i;
        w->file = aligned_zeroed(padded(p->file_bytes));
        w->local = p->local_bytes ? aligned_zeroed(p->local_bytes * WARP) : NULL;
        memcpy(w->file + p->callees[0].constants_at, p->callees[0].constants,
               p->callees[0].constant_bytes);
        for (unsigned lane = 0; lane < WARP; ++lane) {
            unsigned t = (unsigned)i * WARP + lane;
            w->tid[0][lane] = t % launch->block[0];
            w->tid[1][lane] = t / launch->block[0] % launch->block[1];
            w->tid[2][lane] = t / launch->block[0] / launch->block[1];
        }
    }
    if (launch->races)
        races_create(cta);
    return cta;
}

struct cta *new_cta(struct worker *worker)
{
    const unsigned *shape = worker->run->shape;
    int size = (int)(shape[0] * shape[1] * shape[2]);
    struct cta *first = new_one(worker);
    if (size == 1)
        return first;
    struct cluster *cluster = aligned_zeroed(sizeof *cluster);
    cluster->size = size;
    memcpy(cluster->shape, shape, sizeof cluster->shape);
    for (int rank = 0; rank < size; ++rank) {
        struct cta *cta = rank ? new_one(worker) : first;
        cluster->cta[rank] = cta;
        cta->cluster = cluster;
        cta->rank = rank;
    }
    return first;
}

static void free_one(struct cta *cta)
{
    for (int i = 0; i < NAMED_BARRIERS; ++i)
        clock_drop(&cta->barrier[i].clock);
    races_destroy(cta);
    sync_destroy(cta);
    for (int i = 0; i < cta->warps; ++i) {
        free(cta->warp[i].file);
        free(cta->warp[i].local);
        free(cta->warp[i].printed.data);
    }
    free(cta->warp);
    free(cta->shared);
    free(cta->notes);
    free(cta->brought);
    free(cta->known);
    free(cta->written);
    free(cta);
}

void free_cta(struct cta *cta)
{
    struct cluster *cluster = cta->cluster;
    for (int rank = cluster_size(cta) - 1; rank >= 0; --rank)
        free_one(cta_at(cta, rank));
    if (cluster)
        race_cluster_forget(cluster);
    free(cluster);
}

// Sets the system's part of shared memory to zero, as it is when a CTA begins, and marks it as
// written.
static void clear_reserved(struct cta *cta)
{
    for (uint32_t at = cta->shared_bytes - RESERVED_SHARED_BYTES; at < cta->shared_bytes; ++at) {
        cta->shared[at] = 0;
        if (cta->written)
            cta->written[at / 8] |= (uint8_t)(1 << at % 8);
    }
}

static void start_one(struct cta *cta)
{
    const struct launch *launch = cta->launch;
    unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    cta->left = cta->waited = false;
    cta->rounds = cta->clock = 0;
    cta->stuck_at = cta->vain_at = UINT64_MAX;
    for (int i = 0; i < NAMED_BARRIERS; ++i)
        clock_drop(&cta->barrier[i].clock);
    memset(cta->barrier, 0, sizeof cta->barrier);
    if (cta->written)
        memset(cta->written, 0, cta->shared_bytes / 8 + 64);
    if (cta->program->asks_reserved)
        clear_reserved(cta);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        unsigned lanes = threads - (unsigned)i * WARP;
        w->alive = lanes >= WARP ? ~0u : (1u << lanes) - 1;
        w->turns = w->steps = w->instructions = 0;
        w->loop.watched = w->loop.careful = false;
        memset(&w->look, 0, sizeof w->look);
        w->polls = NULL;
        w->failed_at = 0;
        w->passed = w->came = w->through = 0;
        memset(w->error, 0, sizeof w->error);
        for (int lane = 0; lane < WARP; ++lane)
            w->stack[lane] = cta->program->local_bytes;
        w->group_count = 1;
        w->groups[0] = (struct group){.mask = w->alive, .block = cta->program->callees[0].block};
    }
    cta->trace = trace_start(cta);
    cta->film = trace_film(cta->trace);
    if (cta->film)
        describe_matrices(cta);
    cta->watched = cta->trace || cta->written || cta->races;
    cta->singly = cta->trace || (launch->ablation && ablation_start(cta));
    races_start(cta);
    sync_start(cta);
}

// number: the cluster's number in the grid. Both the clusters of the grid and the CTAs of a cluster
// are numbered along x first.
void start_cta(struct cta *cta, uint64_t number)
{
    const unsigned *grid = cta->launch->grid, *shape = cta->worker->run->shape;
    unsigned first[3];
    first[0] = (unsigned)(number % (grid[0] / shape[0])) * shape[0];
    number /= grid[0] / shape[0];
    first[1] = (unsigned)(number % (grid[1] / shape[1])) * shape[1];
    first[2] = (unsigned)(number / (grid[1] / shape[1])) * shape[2];
    if (cta->cluster)
        race_cluster_forget(cta->cluster);
    for (int rank = 0; rank < cluster_size(cta); ++rank) {
        struct cta *one = cta_at(cta, rank);
        unsigned r = (unsigned)rank;
        one->index[0] = first[0] + r % shape[0];
        one->index[1] = first[1] + r / shape[0] % shape[1];
        one->index[2] = first[2] + r / shape[0] / shape[1];
        one->number =
            one->index[0] + (uint64_t)grid[0] * (one->index[1] + (uint64_t)grid[1] * one->index[2]);
        start_one(one);
    }
}

// ---- Turns --------------------------------------------------------------------------------------

static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

// From time to time adds the warps' instructions to the launch's sum, and calls launch.tick.
// Returns false if the launch is to stop.
static bool goes_on(struct run *run, struct worker *worker, uint64_t instructions)
{
    const struct launch *launch = run->launch;
    worker->instructions += instructions;
    if (++worker->rounds % TICK_ROUNDS == 0 && launch->tick &&
        launch->tick(atomic_load(&run->ended), run->ctas))
        halt(run, INTERRUPTED);
    if (launch->budget && worker->instructions >= MOST_UNTOLD) {
        uint64_t spent = atomic_fetch_add(&run->spent, worker->instructions);
        if (spent + worker->instructions > launch->budget)
            halt(run, SPENT);
        worker->instructions = 0;
    }
    return atomic_load_explicit(&run->halt, memory_order_relaxed) == RUNNING;
}

// Runs one turn of a warp; returns how many instructions it has run. *moved is set if the warp has
// run a block; *idle is cleared if its turn was not idle.
static uint64_t turn_of(struct warp *w, bool *moved, bool *idle)
{
    struct cta *cta = w->cta;
    uint32_t alive = w->alive;
    uint64_t turns = w->turns, before = w->instructions;
    w->yields = w->contends = false;
    *moved |= run_warp(w);
    *idle &= w->turns - turns < IDLE_BLOCKS && (!w->yields || w->waits) &&
             (w->yields || w->turns == turns);
    if (cta->faulted)
        return 0;
    if (!w->alive && alive) {
        for (unsigned id = 0; id < NAMED_BARRIERS; ++id)
            release_barrier(cta, id);
        wgmma_left(w);
    }
    if (w->alive != alive && cta->cluster)
        cluster_left(cta);
    return w->instructions - before;
}

// Whether some warp of a CTA has not ended.
static bool is_running(const struct cta *cta)
{
    bool running = false;
    for (int i = 0; i < cta->warps; ++i)
        running |= cta->warp[i].group_count > 0;
    return running;
}

static uint64_t progress_of(struct cta *cta)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < cluster_size(cta); ++rank)
        sum += cta_at(cta, rank)->progress;
    return sum;
}

struct cta *stuck_one(struct cta *cta)
{
    struct cta *best = NULL;
    for (int rank = cluster_size(cta) - 1; rank >= 0; --rank) {
        struct cta *one = cta_at(cta, rank);
        bool elsewhere = false;
        for (int i = 0; i < one->warps; ++i)
            for (int k = 0; k < one->warp[i].group_count; ++k)
                elsewhere |= !one->warp[i].groups[k].arrived ||
                             one->warp[i].groups[k].barrier != CLUSTER_BARRIER;
        if (is_running(one) && (elsewhere || !best))
            best = one;
    }
    return best ? best : cta;
}

static enum cta_state end_cta(struct cta *cta)
{
    for (int rank = 0; rank < cluster_size(cta); ++rank) {
        sync_finish(cta_at(cta, rank));
        if (cta_at(cta, rank)->faulted)
            return CTA_FAULT;
    }
    return CTA_DONE;
}

// Whether all CTAs of a cluster are stuck while the sum of all effects is `effects`.
static bool whole_stuck(struct cta *cta, uint64_t effects)
{
    bool all = true;
    for (int rank = 0; rank < cluster_size(cta); ++rank)
        all &= all_stuck(cta_at(cta, rank), effects);
    return all;
}

static uint64_t effects_by(const struct worker *worker)
{
    return atomic_load_explicit(&worker->effects, memory_order_relaxed);
}

// Whether every warp of a CTA, or of its cluster, has just failed to get a lock, waits at a barrier, or has ended.
static bool all_wait(struct cta *cta)
{
    bool all = true;
    for (int rank = 0; rank < cluster_size(cta); ++rank)
        for (int i = 0; i < cta->warps && all; ++i) {
            struct warp *w = &cta_at(cta, rank)->warp[i];
            all = w->contends || pick_group(w) < 0;
        }
    return all;
}

enum cta_state run_cta(struct cta *cta)
{
    struct run *run = cta->worker->run;
    int warps = cta->warps * cluster_size(cta);
    if (cta->stuck_at == effects_of(run))
        return CTA_STUCK;
    for (int round = 0; round < CTA_ROUNDS; ++round) {
        bool moved = false, running = false, idle = true, contends = false;
        uint64_t own = effects_by(cta->worker);
        uint64_t order = 0, progress = progress_of(cta), effects = effects_of(run), ran = 0;
        if (cta->launch->schedule)
            order = scramble(cta->launch->schedule + cta->number * 64 + ++cta->rounds);
        for (int i = 0; i < warps; ++i) {
            // With a seed, each round starts at another warp, and may go backwards.
            int at = (int)((order >> 1) % (unsigned)warps);
            at = (order & 1 ? at + warps - i : at + i) % warps;
            struct warp *w = cta->cluster ? &cta_at(cta, at / cta->warps)->warp[at % cta->warps]
                                          : &cta->warp[at];
            if (!w->group_count)
                continue;
            ran += turn_of(w, &moved, &idle);
            if (w->cta->faulted)
                return CTA_FAULT;
            running |= w->group_count > 0;
            contends |= w->contends;
        }
        // The end of the last warp may have released an earlier warp from a barrier.
        for (int rank = 0; !running && rank < cluster_size(cta); ++rank)
            running = is_running(cta_at(cta, rank));
        if (!running)
            return end_cta(cta);
        cta->idle = idle && progress == progress_of(cta) ? cta->idle + 1 : 0;
        if (!moved || cta->idle > IDLE_ROUNDS) {
            fault_stuck(stuck_one(cta), 0);
            return CTA_FAULT;
        }
        // When all warps wait for locks, tests whether they are stuck only if nothing has happened
        // since they last waited: if CTAs contend for locks, something mostly has happened, and the
        // test takes longer than a round.
        bool in_vain = contends && all_wait(cta) && own == effects_by(cta->worker);
        bool asked = !in_vain || cta->vain_at == effects;
        if (in_vain)
            cta->vain_at = effects;
        if (asked && effects_of(run) == effects && whole_stuck(cta, effects)) {
            cta->stuck_at = effects;
            return CTA_STUCK;
        }
        if (!goes_on(run, cta->worker, ran))
            return CTA_TURN_OVER;
        if (in_vain)
            return CTA_IN_VAIN;
    }
    return CTA_TURN_OVER;
}
