// snapshots.c: what has been released at an address of global memory, as a graph. A snapshot has what one lane released
// there, and refers to the snapshots that this lane had met before. Their joined world is worked out only when a check
// asks for something that the nearest snapshots do not show: a thread that takes a lock mostly asks for what the lock's
// last owner did.
#include "internal.h"

enum {
    MOST_DEPTH = 1 << 14, // the longest chain of snapshots whose worlds are not worked out
    // If there are this many snapshots, a new one is worked out at once, unless a free one is found.
    MOST = 1 << 20,
    MOST_ASKED = 24, // how many snapshots snapshot_shows looks at
    BLOCK = 256      // snapshots allocated at a time
};

struct snapshot_block {
    struct snapshot_block *next;
    struct snapshot of[BLOCK];
};

// Gives back a reference to a snapshot. If it was the last one, adds the snapshot to `list`, of snapshots to be freed.
// Returns the list.
static struct snapshot *let_go(struct snapshot *s, struct snapshot *list)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
        return list;
    s->next = list;
    return s;
}

// Takes a free snapshot from this host thread's list.
static struct snapshot *take_free(struct worker *worker)
{
    if (!worker->free_snapshots) {
        struct snapshots *g = &worker->global_races->snapshots;
        struct snapshot_block *fresh = need(malloc(sizeof *fresh));
        for (int i = BLOCK; i-- > 0;) {
            fresh->of[i].refs = 0;
            fresh->of[i].next = worker->free_snapshots;
            worker->free_snapshots = &fresh->of[i];
        }
        __atomic_add_fetch(&g->block_count, 1, __ATOMIC_RELAXED);
        fresh->next = __atomic_load_n(&g->blocks, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&g->blocks, &fresh->next, fresh, false,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
    }
    struct snapshot *s = worker->free_snapshots;
    worker->free_snapshots = s->next;
    return s;
}

void snapshots_forget(struct snapshots *g)
{
    for (struct snapshot_block *block = g->blocks, *next; block; block = next) {
        next = block->next;
        for (int i = 0; i < BLOCK; ++i) {
            struct snapshot *s = &block->of[i];
            if (!s->refs)
                continue;
            clock_drop(&s->known);
            world_drop(&s->world);
        }
        free(block);
    }
    g->blocks = NULL;
    g->block_count = 0;
}

void snapshot_drop(struct worker *worker, struct snapshot **snapshot)
{
    struct snapshot *list = let_go(*snapshot, NULL);
    *snapshot = NULL;
    while (list) { // a loop, no recursion: a chain may be MOST_DEPTH long
        struct snapshot *s = list;
        list = s->next;
        for (int i = 0; i < SNAPSHOTS_OF; ++i)
            list = let_go(s->of[i], list);
        clock_drop(&s->known);
        world_drop(&s->world);
        s->next = worker->free_snapshots;
        worker->free_snapshots = s;
    }
}

// The clock of a CTA in a struct world, for the caller to write: the world and the clock are copied if they are shared,
// and made if they are missing.
static struct clock *clock_in(struct world **world, uint64_t cta, uint32_t threads)
{
    struct world *x = *world;
    uint32_t count = x ? x->count : 0, at = 0;
    for (uint32_t high = count; at < high;) {
        uint32_t middle = (at + high) / 2;
        if (x->of[middle].cta < cta)
            at = middle + 1;
        else
            high = middle;
    }
    bool there = at < count && x->of[at].cta == cta;
    if (!there || __atomic_load_n(&x->refs, __ATOMIC_ACQUIRE) > 1) {
        struct world *own = need(malloc(sizeof *own + (count + 1) * sizeof *own->of));
        *own = (struct world){.refs = 1, .count = count + !there};
        for (uint32_t i = 0; i < count; ++i) {
            uint32_t to = i + (!there && i >= at);
            own->of[to].cta = x->of[i].cta;
            own->of[to].clock = clock_share(x->of[i].clock);
        }
        if (!there) {
            own->of[at].cta = cta;
            own->of[at].clock = NULL;
        }
        world_drop(world);
        *world = x = own;
    }
    return clock_own(&x->of[at].clock, threads);
}

static void raise(struct clock *c, uint32_t thread, uint32_t stamp)
{
    c->at[thread] = stamp > c->at[thread] ? stamp : c->at[thread];
    c->most = stamp > c->most ? stamp : c->most;
}

// Joins into a world what a snapshot itself shows, without the snapshots that it refers to.
static void add_shown(struct world **world, const struct snapshot *s)
{
    if (s->stamp) {
        struct clock *c = clock_in(world, s->cta, s->threads);
        raise(c, s->thread, s->stamp);
        c->base = s->base > c->base ? s->base : c->base;
        for (uint32_t i = s->thread / WARP * WARP, end = i + WARP; s->wbase > c->base && i < end;
             ++i)
            raise(c, i, s->wbase);
    }
    if (s->known)
        clock_raise(clock_in(world, s->cta, s->threads), s->known);
    world_join(world, s->world);
}

// Works a snapshot out: joins into its world all that it shows itself, and all that the snapshots it refers to show;
// then drops those references.
static void work_out(struct worker *worker, struct snapshot *s)
{
    struct snapshots *g = &worker->global_races->snapshots;
    struct world *all = NULL;
    size_t count = 0, done = 0;
    g->mark++;
    g->walk = array_grow(g->walk, count, &g->capacity, sizeof *g->walk);
    g->walk[count++] = s;
    while (done < count) {
        struct snapshot *next = g->walk[done++];
        for (int i = 0; i < SNAPSHOTS_OF; ++i) {
            struct snapshot *of = next->of[i];
            if (!of || of->mark == g->mark)
                continue;
            of->mark = g->mark;
            if (of->flat) {
                world_join(&all, of->world);
                continue;
            }
            g->walk = array_grow(g->walk, count, &g->capacity, sizeof *g->walk);
            g->walk[count++] = of;
        }
    }
    for (size_t i = count; i-- > 0;)
        add_shown(&all, g->walk[i]);
    world_drop(&s->world);
    clock_drop(&s->known);
    s->world = all;
    s->flat = true;
    for (int i = 0; i < SNAPSHOTS_OF; ++i)
        snapshot_drop(worker, &s->of[i]);
    __atomic_store_n(&s->depth, 0, __ATOMIC_RELAXED);
}

struct world *snapshot_world(struct worker *worker, struct snapshot *s)
{
    struct snapshots *g = &worker->global_races->snapshots;
    if (!s)
        return NULL;
    lock_on(&g->lock);
    if (!s->flat)
        work_out(worker, s);
    lock_off(&g->lock);
    return s->world;
}

struct snapshot *snapshot_new(struct worker *worker, struct snapshot shown)
{
    struct snapshots *g = &worker->global_races->snapshots;
    bool many = !worker->free_snapshots &&
                __atomic_load_n(&g->block_count, __ATOMIC_RELAXED) >= MOST / BLOCK;
    struct snapshot *s = take_free(worker);
    *s = shown;
    s->refs = 1;
    for (int i = 0; i < SNAPSHOTS_OF; ++i) {
        uint16_t depth =
            s->of[i] ? (uint16_t)(__atomic_load_n(&s->of[i]->depth, __ATOMIC_RELAXED) + 1) : 0;
        s->depth = depth > s->depth ? depth : s->depth;
    }
    clock_share(s->known);
    world_share(s->world);
    if (many || s->depth >= MOST_DEPTH)
        snapshot_world(worker, s);
    return s;
}

bool snapshot_follows(struct snapshots *g, struct snapshot *shown, const struct snapshot *own)
{
    lock_on(&g->lock); // another host thread might be working `own` out
    bool follows = !own->flat && own->stamp && own->cta == shown->cta &&
                   own->thread == shown->thread && own->stamp <= shown->stamp;
    for (int i = 0; follows && i < SNAPSHOTS_OF; ++i)
        shown->of[i] = snapshot_share(own->of[i]);
    lock_off(&g->lock);
    return follows;
}

// Whether a snapshot itself, without the snapshots that it refers to, shows what a party did.
static bool shows_itself(const struct snapshot *s, const struct party *p)
{
    const struct clock *known = world_clock(s->world, p->cta);
    if (known && clock_knows(known, p->thread, p->stamp))
        return true;
    if (s->flat || !s->stamp || s->cta != p->cta)
        return false;
    return (s->thread == p->thread && p->stamp <= s->stamp) || p->stamp <= s->base ||
           (s->thread / WARP == p->thread / WARP && p->stamp <= s->wbase) ||
           (s->known && clock_knows(s->known, p->thread, p->stamp));
}

bool snapshot_shows(struct worker *worker, struct snapshot *s, const struct party *p)
{
    struct snapshots *g = &worker->global_races->snapshots;
    struct snapshot *walk[MOST_ASKED];
    int count = 0;
    bool shown = false;
    lock_on(&g->lock);
    walk[count++] = s;
    for (int done = 0; !shown && done < count; ++done) {
        shown = shows_itself(walk[done], p);
        for (int i = 0; i < SNAPSHOTS_OF && count < MOST_ASKED; ++i)
            if (walk[done]->of[i])
                walk[count++] = walk[done]->of[i];
    }
    lock_off(&g->lock);
    return shown;
}
