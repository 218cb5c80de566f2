// cluster.c: clusters of CTAs: their barrier (barrier.cluster), and addresses in one another's shared
// memory (mapa, getctarank; PTX ISA, "Cluster of Cooperative Thread Arrays").
//
// A lane first arrives at the barrier, and waits later. `came` has the lanes that have arrived in
// the current phase, `through` the lanes whose phase is complete and that have not waited yet. A
// phase is complete when every lane of the cluster has arrived or ended.
#include "cluster.h"
#include "scalars.h"

#include <stdio.h>

// ---- The barrier --------------------------------------------------------------------------------

void cluster_count(const struct cta *cta, uint32_t *came, uint32_t *alive)
{
    const struct cluster *cluster = cta->cluster;
    *came = *alive = 0;
    for (int rank = 0; rank < cluster->size; ++rank)
        for (int i = 0; i < cta->warps; ++i) {
            const struct warp *w = &cluster->cta[rank]->warp[i];
            *came += (uint32_t)__builtin_popcount(w->came & w->alive);
            *alive += (uint32_t)__builtin_popcount(w->alive);
        }
}

static bool is_complete(const struct cluster *cluster)
{
    for (int rank = 0; rank < cluster->size; ++rank)
        for (int i = 0; i < cluster->cta[rank]->warps; ++i) {
            const struct warp *w = &cluster->cta[rank]->warp[i];
            if (w->alive & ~w->came)
                return false;
        }
    return true;
}

static void let_go(struct warp *w)
{
    w->through |= w->came;
    w->came = 0;
    for (int k = 0; k < w->group_count; ++k) {
        struct group *g = &w->groups[k];
        if (!g->arrived || g->barrier != CLUSTER_BARRIER)
            continue;
        w->through &= ~g->mask;
        race_cluster_wait(w, g->mask);
        g->arrived = false;
        g->block++;
    }
}

static void settle(struct cluster *cluster)
{
    if (!is_complete(cluster))
        return;
    race_cluster_phase(cluster);
    for (int rank = 0; rank < cluster->size; ++rank)
        for (int i = 0; i < cluster->cta[rank]->warps; ++i)
            let_go(&cluster->cta[rank]->warp[i]);
}

void cluster_left(struct cta *cta)
{
    uint32_t alive = 0;
    for (int i = 0; i < cta->warps; ++i)
        alive |= cta->warp[i].alive;
    if (!alive && !cta->left) {
        cta->left = true;
        race_leave(cta);
    }
    settle(cta->cluster);
}

void cluster_arrive_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    if (!w->cta->cluster)
        return; // without a cluster, the wait completes the barrier
    uint32_t again = mask & (w->came | w->through);
    if (again) {
        fault_at(w, op, __builtin_ctz(again), FAULT_TRAP,
                 "arrives at the cluster's barrier again, with no barrier.cluster.wait in between");
        return;
    }
    note_effect(w);
    race_cluster_arrive(w, mask, op->relaxed);
    w->came |= mask;
    settle(w->cta->cluster);
}

void cluster_wait_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (!w->cta->cluster) {
        barrier_op(w, r, op, mask);
        return;
    }
    uint32_t early = mask & ~(w->came | w->through), waits = mask & w->came;
    if (early) {
        fault_at(w, op, __builtin_ctz(early), FAULT_TRAP,
                 "waits at the cluster's barrier with no barrier.cluster.arrive before");
        return;
    }
    note_effect(w);
    race_cluster_wait(w, mask & ~waits);
    w->through &= waits;
    if (!waits)
        return;
    w->gone = waits;
    w->groups[w->group_count++] = (struct group){.mask = waits,
                                                 .block = w->next - 1,
                                                 .frame = (uint32_t)(r - w->file),
                                                 .arrived = true,
                                                 .barrier = CLUSTER_BARRIER};
}

// ---- Addresses ----------------------------------------------------------------------------------

const char *cluster_name(const struct warp *w, const struct cta *home, char *text, size_t size)
{
    text[0] = 0;
    if (home != w->cta)
        snprintf(text, size, " of block (%u,%u,%u)", home->index[0], home->index[1],
                 home->index[2]);
    return text;
}

struct cta *cluster_home_of(struct warp *w, const struct op *op, int lane, uint32_t *at)
{
    struct cluster *cluster = w->cta->cluster;
    uint32_t rank = (*at >> RANK_SHIFT) - 1;
    const char *opcode = w->cta->program->insns[op->insn].opcode;
    char name[64];
    if (!cluster || rank >= (uint32_t)cluster->size)
        return w->cta;
    struct cta *home = cluster->cta[rank];
    *at &= (1u << RANK_SHIFT) - 1;
    if (home == w->cta)
        return home;
    if (op->space == SPACE_SHARED && !op->cluster)
        fault_at(
            w, op, lane, FAULT_OUT_OF_BOUNDS,
            "%s at shared address %u%s: the CTA's own is what .shared reaches; that of others of "
            "its cluster, .shared::cluster",
            opcode, *at, cluster_name(w, home, name, sizeof name));
    else if (home->left && w->cta->launch->check)
        race_report(
            w, op, lane, FAULT_RACE, op->insn,
            "%s at shared address %u%s, whose threads have all ended: nothing makes it wait (a "
            "barrier of the cluster)",
            opcode, *at, cluster_name(w, home, name, sizeof name));
    return home;
}

struct cta *cluster_home_wide(struct warp *w, const struct op *op, int lane, uint64_t wide,
                              uint32_t *at)
{
    if (wide >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
        wide -= SHARED_WINDOW;
    *at = wide > UINT32_MAX ? UINT32_MAX : (uint32_t)wide;
    return cluster_home(w, op, lane, at);
}

void cluster_race(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                  uint32_t bytes, enum race_access access, const void *value)
{
    if (home == w->cta)
        race_shared(w, op, 1u << lane, at, bytes, access, value);
    else
        race_remote(w, op, lane, home, at, bytes, access, value);
}

// a: an address of shared memory; b: a rank; bytes: of the address, 4 or 8. A generic address gives
// a generic address.
void mapa_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    uint32_t size = (uint32_t)cluster_size(w->cta);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t rank = ((u32 *)(r + op->b))[i];
        uint64_t at = op->bytes == 8 ? ((u64 *)(r + op->a))[i] : ((u32 *)(r + op->a))[i];
        if (rank >= size) {
            fault_at(w, op, i, FAULT_TRAP, "%s: rank %u in a cluster of %u",
                     w->cta->program->insns[op->insn].opcode, rank, size);
            return;
        }
        at &= ~(UINT64_C(0xff) << RANK_SHIFT);
        at |= (uint64_t)(w->cta->cluster ? rank + 1 : 0) << RANK_SHIFT;
        if (op->bytes == 8)
            ((u64 *)(r + op->d))[i] = at;
        else
            ((u32 *)(r + op->d))[i] = (uint32_t)at;
    }
}

// d: the rank; a: the address.
void getctarank_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)mask;
    for (int i = 0; i < WARP; ++i) {
        uint64_t at = op->bytes == 8 ? ((u64 *)(r + op->a))[i] : ((u32 *)(r + op->a))[i];
        uint32_t tag = at >> RANK_SHIFT & 0xff;
        ((u32 *)(r + op->d))[i] = tag ? tag - 1 : (uint32_t)w->cta->rank;
    }
}

// d: a predicate: whether a, a generic address, is in the CTA's own shared memory.
void isspacep_cta_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    u32 *d = (u32 *)(r + op->d);
    (void)mask;
    *d = 0;
    for (int i = 0; i < WARP; ++i) {
        uint64_t at = ((u64 *)(r + op->a))[i];
        uint32_t tag = at >> RANK_SHIFT & 0xff;
        bool own = !tag || tag == (uint32_t)w->cta->rank + 1;
        *d |= (uint32_t)(own && at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) << i;
    }
}
