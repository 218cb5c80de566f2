// snapshots.c: what has been released at an address of global memory, as a graph. A snapshot has what one lane released
// there, and refers to the snapshots that this lane had met before. Their joined world is worked out only when a check
// asks for something that the nearest snapshots do not show: a thread that takes a lock mostly asks for what the lock's
// last owner did.
#include "internal.h"

enum {
    MOST_DEPTH = 1 << 14, // the longest chain of snapshots whose worlds are not worked out
    // Working snapshots out may take MOST_STEPS steps, plus EACH for each snapshot made; after that all are merged.
    MOST_STEPS = 2 * MOST_DEPTH,
    EACH = 2,
    MOST = 1 << 21,  // how many snapshots there are before they are merged for the first time
    MOST_ASKED = 24, // how many snapshots snapshot_shows looks at
    AHEAD = 16,      // how many snapshots ahead a merge prefetches what a snapshot refers to
    BLOCK = 256,     // snapshots allocated at a time
    MANY = 1 << 14   // from this many snapshots on, HUGE_PAGE bytes of them are allocated at a time
};

struct snapshot_block {
    struct snapshot_block *next, *later; // the block made before; the one made after, for merge()
    uint32_t room, used;                 // snapshots; those from `used` on have never been used
    _Alignas(64) struct snapshot of[];
};

// Gives back a reference to a snapshot. If it was the last one, adds the snapshot to `list`, a list
// of snapshots to be freed. Returns that list.
static struct snapshot *let_go(struct snapshot *s, struct snapshot *list)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
        return list;
    s->next = list;
    return s;
}

static void merge(struct worker *worker);

// Makes a block of snapshots for this host thread.
static void make_block(struct worker *worker)
{
    struct snapshots *g = &worker->global_races->snapshots;
    bool many = __atomic_load_n(&g->count, __ATOMIC_RELAXED) >= MANY;
    struct snapshot_block *fresh = NULL;
    size_t bytes = many ? HUGE_PAGE : sizeof *fresh + BLOCK * sizeof *fresh->of;
    fresh = many ? need_huge(bytes) : need(aligned_alloc(64, bytes));
    fresh->room = (uint32_t)((bytes - sizeof *fresh) / sizeof *fresh->of);
    fresh->used = 0;
    worker->block = fresh;
    __atomic_add_fetch(&g->count, fresh->room, __ATOMIC_RELAXED);
    fresh->next = __atomic_load_n(&g->blocks, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&g->blocks, &fresh->next, fresh, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
}

// Moves up to BLOCK of the snapshots that merging has freed to this host thread's list. If there are none, and many
// snapshots are in use, merges them first.
static void take_freed(struct worker *worker)
{
    struct snapshots *g = &worker->global_races->snapshots;
    lock_on(&g->lock);
    if (!g->freed && g->count >= MOST + g->more)
        merge(worker);
    struct snapshot *last = g->freed;
    for (int i = 1; last && last->next && i < BLOCK; ++i)
        last = last->next;
    if (last) {
        worker->free_snapshots = g->freed;
        g->freed = last->next;
        last->next = NULL;
    }
    lock_off(&g->lock);
}

static struct snapshot *take_free(struct worker *worker)
{
    const struct snapshots *g = &worker->global_races->snapshots;
    bool full = !worker->block || worker->block->used == worker->block->room;
    if (!worker->free_snapshots && full && __atomic_load_n(&g->count, __ATOMIC_RELAXED) >= MOST)
        take_freed(worker);
    worker->snapshots_made++;
    struct snapshot *s = worker->free_snapshots;
    if (s) {
        worker->free_snapshots = s->next;
        return s;
    }
    if (full)
        make_block(worker);
    s = &worker->block->of[worker->block->used];
    s->refs = 0;
    __atomic_store_n(&worker->block->used, worker->block->used + 1, __ATOMIC_RELEASE);
    return s;
}

void snapshots_forget(struct snapshots *g)
{
    for (struct snapshot_block *block = g->blocks, *next; block; block = next) {
        next = block->next;
        for (uint32_t i = 0; i < block->used; ++i) {
            struct snapshot *s = &block->of[i];
            if (!s->refs)
                continue;
            clock_drop(&s->known);
            world_drop(&s->world);
        }
        free(block);
    }
    g->blocks = NULL;
    g->freed = NULL;
    g->count = 0;
    g->flat_depth = 0;
    g->steps = 0;
    g->more = 0;
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

// Replaces what a snapshot shows by a world that includes all of it, and drops its references to
// other snapshots.
static void make_flat(struct worker *worker, struct snapshot *s, struct world *all)
{
    const struct snapshots *g = &worker->global_races->snapshots;
    world_drop(&s->world);
    clock_drop(&s->known);
    s->world = world_share(all);
    s->flat = true;
    for (int i = 0; i < SNAPSHOTS_OF; ++i)
        snapshot_drop(worker, &s->of[i]);
    __atomic_store_n(&s->depth, g->flat_depth, __ATOMIC_RELAXED);
}

// Works a snapshot out: joins what it and all snapshots that it includes show into one world, and
// makes it flat. Returns false, with nothing changed, if that takes too many steps.
static bool work_out(struct worker *worker, struct snapshot *s)
{
    struct snapshots *g = &worker->global_races->snapshots;
    struct world *all = NULL;
    size_t count = 0, done = 0;
    g->steps += EACH * worker->snapshots_made;
    worker->snapshots_made = 0;
    g->mark++;
    g->walk = array_grow(g->walk, count, &g->capacity, sizeof *g->walk);
    g->walk[count++] = s;
    while (done < count && (long)count <= MOST_STEPS + g->steps) {
        struct snapshot *next = g->walk[done++];
        for (int i = 0; i < SNAPSHOTS_OF; ++i) {
            struct snapshot *of = next->of[i];
            if (!of || of->mark == g->mark)
                continue;
            of->mark = g->mark;
            g->walk = array_grow(g->walk, count, &g->capacity, sizeof *g->walk);
            g->walk[count++] = of;
        }
    }
    if (done < count)
        return false;
    g->steps -= (long)count;
    for (size_t i = count; i-- > 0;)
        add_shown(&all, g->walk[i]);
    make_flat(worker, s, all);
    world_drop(&all);
    return true;
}

struct world *snapshot_world(struct worker *worker, struct snapshot *s)
{
    struct snapshots *g = &worker->global_races->snapshots;
    if (!s)
        return NULL;
    lock_on(&g->lock);
    if (!s->flat && !work_out(worker, s))
        merge(worker);
    lock_off(&g->lock);
    return s->world;
}

// Adds a reference to a snapshot; false: it is free.
static bool hold(struct snapshot *s)
{
    uint32_t refs = __atomic_load_n(&s->refs, __ATOMIC_RELAXED);
    while (refs && !__atomic_compare_exchange_n(&s->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
                                                __ATOMIC_RELAXED))
        ;
    return refs;
}

// The next snapshot in use from place *at of *block on, with a reference for the caller; NULL: there is none. The
// oldest comes first: once flat, a snapshot refers to no others, so letting it go frees no chain.
static struct snapshot *next_used(struct snapshot_block **block, uint32_t *at)
{
    for (; *block; *block = (*block)->later, *at = 0)
        while (*at < __atomic_load_n(&(*block)->used, __ATOMIC_ACQUIRE)) {
            struct snapshot *s = &(*block)->of[(*at)++];
            for (int i = 0; *at + AHEAD < (*block)->used && i < SNAPSHOTS_OF; ++i)
                __builtin_prefetch(s[AHEAD].of[i], 1);
            if (hold(s))
                return s;
        }
    return NULL;
}

// Makes one world of all that the snapshots of the launch show; from now on each of them shows this
// world. So a snapshot may show more than was released, and races with what was done before may be
// missed. Snapshots to which only other snapshots referred are free afterwards, for all host
// threads.
static void merge(struct worker *worker)
{
    struct snapshots *g = &worker->global_races->snapshots;
    struct snapshot_block *first = __atomic_load_n(&g->blocks, __ATOMIC_ACQUIRE), *block = NULL;
    for (struct snapshot_block *later = NULL; first; later = block, first = first->next) {
        block = first;
        block->later = later;
    }
    first = block;
    struct snapshot *own = worker->free_snapshots;
    struct world *all = NULL;
    uint32_t at = 0;
    worker->free_snapshots = g->freed;
    __atomic_add_fetch(&g->flat_depth, 2 * MOST_DEPTH, __ATOMIC_RELAXED);
    g->mark++; // marks what is in the world: other host threads may make snapshots meanwhile
    for (struct snapshot *s; (s = next_used(&block, &at)); snapshot_drop(worker, &s)) {
        s->mark = g->mark;
        add_shown(&all, s);
    }
    block = first;
    at = 0;
    size_t left = 0;
    for (struct snapshot *s; (s = next_used(&block, &at)); snapshot_drop(worker, &s)) {
        if (s->mark == g->mark && !s->flat)
            make_flat(worker, s, all);
        left++;
    }
    world_drop(&all);
    g->freed = worker->free_snapshots;
    worker->free_snapshots = own;
    g->steps = (long)left;
    g->more = 2 * left > MOST ? 2 * left - MOST : 0;
}

struct snapshot *snapshot_new(struct worker *worker, struct snapshot shown)
{
    const struct snapshots *g = &worker->global_races->snapshots;
    struct snapshot *s = take_free(worker);
    clock_share(shown.known);
    world_share(shown.world);
    *s = shown;
    __atomic_store_n(&s->refs, 1, __ATOMIC_RELEASE); // from here on merge() may find it
    if (shown.depth >= __atomic_load_n(&g->flat_depth, __ATOMIC_RELAXED) + MOST_DEPTH)
        snapshot_world(worker, s);
    return s;
}

// Whether `shown` has all that a lane released with `own`.
static bool includes_own(const struct snapshot *shown, const struct snapshot *own)
{
    return !own->flat && own->stamp && own->cta == shown->cta && own->thread == shown->thread &&
           own->stamp <= shown->stamp;
}

bool snapshot_extend(struct snapshots *g, struct snapshot *own, const struct snapshot *shown,
                     uint32_t holders)
{
    if (__atomic_load_n(&own->refs, __ATOMIC_ACQUIRE) != holders)
        return false;
    lock_on(&g->lock); // another host thread might be working `own` out
    bool extends =
        includes_own(shown, own) && own->known == shown->known && own->world == shown->world;
    if (extends) {
        own->stamp = shown->stamp;
        own->base = shown->base;
        own->wbase = shown->wbase;
    }
    lock_off(&g->lock);
    return extends;
}

bool snapshot_follows(struct snapshots *g, struct snapshot *shown, const struct snapshot *own)
{
    lock_on(&g->lock); // another host thread might be working `own` out
    bool follows = includes_own(shown, own);
    for (int i = 0; follows && i < SNAPSHOTS_OF; ++i)
        shown->of[i] = snapshot_share(own->of[i]);
    if (follows)
        shown->depth = own->depth;
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
