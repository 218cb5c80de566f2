// atomics.c: strong accesses and fences: what a strong write releases at its address, and a strong read acquires there.
#include "order.h"

void race_observed(struct warp *w, uint32_t lanes)
{
    if (w->clock && w->clock->learnt && lanes == w->alive)
        race_summarise(w);
}

// Adds to *place what a lane's release with the scope of the GPU shows: `clock` for its own CTA, and its world for all
// other CTAs. covered: the lane's world already includes what *place has about other CTAs.
static void release_world(struct warp *w, int lane, struct clock *clock, struct world **place,
                          bool covered)
{
    struct clock *own = clock_share(clock);
    if (own->world)
        world_drop(&clock_own(&own, own->threads)->world);
    if (covered) {
        struct clock *there = world_clock(*place, w->cta->number);
        clock_join(&own, there);
        world_drop(place);
        *place = world_share(w->clock->world[lane]);
    }
    world_put(place, w->cta->number, own);
    if (!covered)
        world_join(place, w->clock->world[lane]);
    clock_drop(&own);
}

static void raise_to(struct clock *clock, uint32_t thread, uint32_t stamp)
{
    clock->at[thread] = stamp > clock->at[thread] ? stamp : clock->at[thread];
    clock->most = stamp > clock->most ? stamp : clock->most;
}

// The stamp up to which another thread's actions are ordered before the next action of a lane of the same CTA.
static uint32_t known_of(const struct warp *w, int lane, int warp, int other)
{
    const struct warp_clock *c = w->clock;
    const struct clock *known = c->known[lane];
    uint32_t stamp = c->base[lane];
    if (warp == w->index && c->wbase[lane] > stamp)
        stamp = c->wbase[lane];
    uint32_t more = known ? known->at[warp * WARP + other] : 0;
    return more > stamp ? more : stamp;
}

// Adds what other threads of the CTA did before fences of their own, as far as it is ordered before
// what the lane does now: a flag that one thread sets after a barrier shows what each thread did
// before a fence before the barrier. If the lane has learnt nothing since its own fence, there is
// nothing to add.
static void add_fenced_by_others(const struct warp *w, int lane, enum fence_scope scope,
                                 struct clock *clock)
{
    for (int k = 0; k < w->cta->warps; ++k) {
        const struct fenced *f = w->cta->warp[k].clock->fenced[scope];
        for (int i = 0; i < WARP; ++i) {
            uint32_t known = f[i].stamp ? known_of(w, lane, k, i) : 0;
            raise_to(clock, (uint32_t)(k * WARP + i), f[i].stamp < known ? f[i].stamp : known);
        }
    }
}

// The clock that a strong write shows to those who see it. If the write releases, the clock has all
// that the lane has done and knows; otherwise what the lane had done and knew at its last fence,
// and what add_fenced_by_others adds. NULL: nothing.
static struct clock *shown_by(struct warp *w, int lane, enum fence_scope scope, bool releases)
{
    // In programs without narrow scopes, every fence is noted with the scope of the GPU.
    scope = w->cta->program->narrow ? scope : FENCE_GPU;
    const struct fenced *f = &w->clock->fenced[scope][lane];
    struct races *s = w->cta->races;
    struct clock *clock = NULL;
    if (releases)
        race_release_lane(w, lane, w->clock->now[lane], &clock);
    if (releases || !s->fenced[scope])
        return clock;
    clock_join(&clock, f->known);
    clock_join(&clock, world_clock(snapshot_world(w->cta->worker, f->last), w->cta->number));
    clock_join(&clock, world_clock(snapshot_world(w->cta->worker, f->before), w->cta->number));
    clock_own(&clock, s->threads);
    clock->base = f->base > clock->base ? f->base : clock->base;
    for (int i = 0; i < WARP; ++i)
        raise_to(clock, (uint32_t)(w->index * WARP + i), f->wbase);
    raise_to(clock, (uint32_t)(w->index * WARP + lane), f->stamp);
    const struct warp_clock *c = w->clock;
    if (!f->stamp || f->known != c->known[lane] || f->base != c->base[lane] ||
        f->wbase != c->wbase[lane])
        add_fenced_by_others(w, lane, scope, clock);
    world_join(&clock->world, w->clock->world[lane]);
    return clock;
}

static struct clock **shared_place(struct races *s, uint32_t at, bool make)
{
    for (size_t i = 0; i < s->place_count; ++i)
        if (s->places[i].at == at)
            return &s->places[i].clock;
    if (!make)
        return NULL;
    s->places = array_grow(s->places, s->place_count, &s->place_capacity, sizeof *s->places);
    s->places[s->place_count] = (struct place){.at = at};
    return &s->places[s->place_count++].clock;
}

static struct global_place *global_place(struct worker *worker, uint64_t at, bool make)
{
    struct global_races *g = worker->global_races;
    struct global_place *first = place_list(g, at), *p = first;
    while (p && p->at != at)
        p = p->next;
    if (p || !make)
        return p;
    p = first;
    if (first->at) {
        p = need(aligned_alloc(_Alignof(struct global_place), sizeof *p));
        *p = (struct global_place){.next = first->next};
        first->next = p;
    } else {
        size_t list = (size_t)(first - g->places);
        __atomic_or_fetch(&g->places_used[list / 64], UINT64_C(1) << list % 64, __ATOMIC_RELAXED);
    }
    p->at = at;
    __atomic_add_fetch(&g->place_count, 1, __ATOMIC_RELAXED);
    return p;
}

static struct place_more *more_of(struct global_place *p)
{
    if (!p->more)
        p->more = need(calloc(1, sizeof *p->more));
    return p->more;
}

// The address under which the clock of a CTA's proxy fences is kept among the places of global memory. No access has
// this address.
static uint64_t place_of_fences(uint64_t cta)
{
    return UINT64_MAX - cta;
}

void race_tell_fenced(struct warp *w, struct clock *clock)
{
    struct worker *worker = w->cta->worker;
    struct global_races *g = worker->global_races;
    uint64_t at = place_of_fences(w->cta->number);
    int *lock = &place_list(g, at)->lock;
    struct world *mine = world_of(w->cta->number, clock);
    lock_on(lock);
    world_join(&more_of(global_place(worker, at, true))->gpu, mine);
    lock_off(lock);
    world_drop(&mine);
}

bool race_told_fenced(struct worker *worker, const struct party *p)
{
    struct global_races *g = worker->global_races;
    uint64_t at = place_of_fences(p->cta);
    int *lock = &place_list(g, at)->lock;
    lock_on(lock);
    struct global_place *place = global_place(worker, at, false);
    const struct clock *known = place ? world_clock(more_of(place)->gpu, p->cta) : NULL;
    bool told = known && clock_knows(known, p->thread, p->stamp);
    lock_off(lock);
    return told;
}

// Called when a lane sets a flag in global memory: notes at the flag which reads are complete for whoever sees it:
// those before this CTA's last barrier, and those that this CTA itself knows to be complete.
static void tell_completed(struct warp *w, int lane, uint64_t at)
{
    // Above this number of places, an address is taken for an element of a volatile array, not for a flag, and no
    // further place is made.
    enum { ENOUGH = 1 << 16 };
    struct races *s = w->cta->races;
    struct worker *worker = w->cta->worker;
    struct global_races *g = worker->global_races;
    uint32_t base = w->clock->base[lane];
    if (base <= s->start && !s->seen.count)
        return;
    int *lock = &place_list(g, at)->lock;
    lock_on(lock);
    bool room = __atomic_load_n(&g->place_count, __ATOMIC_RELAXED) < ENOUGH;
    struct global_place *p = global_place(worker, at, room);
    if (p) {
        struct completed mine = {.count = base > s->start, .of = NULL};
        mine.of = need(malloc(sizeof *mine.of));
        mine.of[0].cta = (uint32_t)w->cta->number;
        mine.of[0].stamp = base;
        completed_join(&more_of(p)->completed, &mine);
        completed_join(&p->more->completed, &s->seen);
        free(mine.of);
    }
    lock_off(lock);
}

void race_fetch(const struct warp *w, uint64_t at)
{
    struct global_races *g = w->clock ? w->cta->worker->global_races : NULL;
    if (!g)
        return;
    __builtin_prefetch(place_list(g, at), 1);
    struct page *last = w->cta->worker->pages[at / PAGE % LAST_PAGES];
    if (last && last->number == at / PAGE)
        page_fetch(last, g->shift, at % PAGE >> g->shift, at);
}

int *race_turn(const struct warp *w, uint64_t at)
{
    struct global_races *g = w->clock ? w->cta->worker->global_races : NULL;
    int *turn = g ? &place_list(g, at)->lock : NULL;
    if (turn)
        lock_on(turn);
    return turn;
}

void race_turn_ends(int *turn)
{
    if (turn)
        lock_off(turn);
}

// Makes one snapshot, met->last, of the two that a lane has met.
static void join_met(struct worker *worker, struct met *met)
{
    struct snapshot joined = {.of = {met->last, met->before},
                              .depth =
                                  snapshot_deeper(&worker->global_races->snapshots, met->depth)};
    met->last = snapshot_new(worker, joined);
    met->before = NULL;
    met->depth = snapshot_depth(met->last);
}

// Notes, in a program without narrow scopes, that a lane finds the snapshot released at an address. The lane acquires
// it later, when a check asks what the lane knows (race_settle_lanes).
static void meet_snapshot(struct warp *w, int lane, uint64_t at, struct snapshot *released)
{
    struct warp_clock *c = w->clock;
    struct worker *worker = w->cta->worker;
    struct met *met = &c->met[lane];
    bool deferred = c->deferred >> lane & 1;
    if (!released || met->last == released)
        return;
    snapshot_share(released);
    uint32_t depth = snapshot_depth(released);
    if (deferred && met->at != at) { // at one address, the last snapshot includes the earlier one
        if (met->before)
            join_met(worker, met);
        met->before = met->last;
    } else {
        snapshot_drop(worker, &met->last);
    }
    met->at = at;
    met->last = released;
    if (!met->before || depth > met->depth)
        met->depth = depth;
    c->deferred |= 1u << lane;
}

// Notes, in a program without narrow scopes, that a lane acquires what is released at a place: checks that ask only
// for the last release there (`by`) need no look at the snapshot.
static void meet_release(const struct warp *w, int lane, const struct global_place *p)
{
    uint32_t cta = (uint32_t)w->cta->number, thread = (uint32_t)(w->index * WARP + lane);
    if (p->by.stamp && (p->by.thread != thread || p->by.cta != cta))
        w->clock->met[lane].by = p->by;
}

// Whether a strong read acquires, without a fence after it.
static bool acquires(const struct warp *w, const struct op *op, bool atomic)
{
    return (atomic && !w->cta->launch->strict) || op->order & ORDER_ACQUIRE;
}

// In a program without narrow scopes, leaves at an address the snapshot of what a lane's write shows there. If the
// write releases, the snapshot has all that the lane has done and knows; otherwise what the lane knew at its last
// fence. In both cases it includes what the lane has met.
static void publish_snapshot(struct warp *w, const struct op *op, int lane, uint64_t at,
                             bool atomic)
{
    bool releases = op->order & ORDER_RELEASE;
    struct warp_clock *c = w->clock;
    struct worker *worker = w->cta->worker;
    struct global_races *g = worker->global_races;
    struct fenced *f = &c->fenced[FENCE_GPU][lane];
    struct met *met = &c->met[lane];
    struct clock *shown = NULL;
    bool deferred = c->deferred >> lane & 1;
    if (!releases && !w->cta->races->fenced[FENCE_GPU])
        return;
    struct snapshot new = {.cta = (uint32_t)w->cta->number,
                           .thread = (uint16_t)(w->index * WARP + lane),
                           .threads = (uint16_t)w->cta->races->threads};
    if (releases ||
        (f->known == c->known[lane] && f->base == c->base[lane] && f->wbase == c->wbase[lane])) {
        new.known = c->known[lane];
        new.stamp = releases ? c->now[lane] : f->stamp;
        new.base = c->base[lane];
        new.wbase = c->wbase[lane];
    } else { // since its fence the lane has learnt something: fences of other threads may count
        race_settle_lanes(w, 1u << lane);
        new.known = shown = shown_by(w, lane, FENCE_GPU, false);
    }
    new.world = c->world[lane];
    if (!new.stamp && !new.known && !new.world && !deferred)
        return;
    int *lock = atomic ? NULL : &place_list(g, at)->lock;
    if (lock)
        lock_on(lock);
    struct global_place *p = global_place(worker, at, true);
    if (atomic && acquires(w, op, atomic))
        meet_release(w, lane, p);
    p->by = (struct release){new.cta, new.thread, new.stamp};
    struct snapshot *own = deferred && p->released == met->last && !met->before ? met->last : NULL;
    // The holders of references to `own`: the place, `met`, and perhaps the lane's fence.
    uint32_t holders = 2 + (!releases && f->last == own);
    if (own && snapshot_extend(&g->snapshots, own, &new, holders)) {
        if (lock)
            lock_off(lock);
        return;
    }
    bool follows = own && snapshot_follows(&g->snapshots, &new, own);
    if (!follows && deferred) { // the new snapshot takes over what the lane has met
        bool three = met->before && p->released && p->released != met->last;
        if (three)
            join_met(worker, met);
        new.of[1] = met->last;
        new.of[0] = met->before;
        new.depth = snapshot_deeper(&g->snapshots, met->depth);
        met->last = met->before = NULL;
    }
    if (!follows && p->released && p->released != new.of[1]) {
        uint32_t depth = snapshot_deeper(&g->snapshots, p->depth);
        new.depth = depth > new.depth ? depth : new.depth;
        new.of[0] = p->released; // join_met has left it free
        p->released = NULL;
    }
    struct snapshot *released = snapshot_new(worker, new);
    if (follows && !releases && f->last == own) { // `released` includes all of `own`
        snapshot_drop(worker, &f->last);
        f->last = snapshot_share(released);
    }
    snapshot_drop(worker, &p->released);
    p->released = released;
    p->depth = snapshot_depth(released);
    if (deferred) {
        snapshot_drop(worker, &met->last);
        met->at = at;
        met->last = snapshot_share(released);
        met->depth = p->depth;
    }
    if (lock)
        lock_off(lock);
    clock_drop(&shown);
}

void race_publish(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home)
{
    struct warp_clock *c = w->clock;
    struct worker *worker = w->cta->worker;
    struct global_races *g = worker->global_races;
    if (!c || !(op->order & ORDER_STRONG))
        return;
    bool wide = !home && !w->cta->program->narrow;
    if (!wide)
        race_settle_lanes(w, 1u << lane);
    bool atomic = w->cta->program->insns[op->insn].op_class == CLASS_ATOMIC;
    if (!home && !atomic)
        tell_completed(w, lane, at);
    bool releases = op->order & ORDER_RELEASE, to_cta_only = op->order & ORDER_CTA;
    if (wide) {
        publish_snapshot(w, op, lane, at, atomic);
        if (releases)
            race_move(w, 1u << lane);
        return;
    }
    // Whether the write shows the same to the CTA and to the GPU.
    bool alike = releases ? !to_cta_only : !w->cta->races->narrow;
    struct clock *to_cta = shown_by(w, lane, FENCE_CTA, releases);
    struct clock *to_gpu = home == w->cta ? NULL
                           : alike        ? clock_share(to_cta)
                                          : shown_by(w, lane, FENCE_GPU, releases && !to_cta_only);
    if (home == w->cta && to_cta) {
        clock_join(shared_place(w->cta->races, (uint32_t)at, true), to_cta);
    } else if (home && to_gpu) {
        struct world *mine = NULL;
        release_world(w, lane, to_gpu, &mine, false);
        clock_tell(home, shared_place(home->races, (uint32_t)at, true), mine);
        world_drop(&mine);
    } else if (!home && to_cta) {
        int *lock = atomic ? NULL : &place_list(g, at)->lock;
        if (lock)
            lock_on(lock);
        struct place_more *p = more_of(global_place(worker, at, true));
        struct met *met = &c->met[lane];
        bool covered =
            met->at == at && met->gpu == p->gpu && met->cta == world_clock(p->cta, w->cta->number);
        world_put(&p->cta, w->cta->number, to_cta); // to_cta includes the lane's world
        if (w->cta->races->narrow || (releases && to_cta_only))
            release_world(w, lane, to_cta, &p->narrow, false);
        if (to_gpu && !to_cta_only)
            release_world(w, lane, to_gpu, &p->gpu, covered);
        if (covered) { // the lane knows all that is released here, so it has nothing to acquire
            world_share(p->gpu);
            world_drop(&met->gpu);
            clock_drop(&met->cta);
            met->gpu = p->gpu;
            met->cta = clock_share(world_clock(p->cta, w->cta->number));
        }
        if (lock)
            lock_off(lock);
    }
    clock_drop(&to_cta);
    clock_drop(&to_gpu);
    if (releases) {
        race_step(w, 1u << lane, race_tick(w->cta));
        race_summarise(w);
    }
}

// Notes, in a program with narrow scopes, what a lane finds released at an address. The lane acquires it later
// (race_settle_lanes), since a loop around a swap that fails finds the same in every round.
static void meet(struct warp *w, int lane, uint64_t at, struct world *gpu, struct clock *cta)
{
    struct met *met = &w->clock->met[lane];
    if (met->at == at && met->gpu == gpu && met->cta == cta)
        return;
    if (met->at != at) // *met is overwritten now: what was met at its address is acquired first
        race_settle_lanes(w, 1u << lane);
    world_share(gpu);
    clock_share(cta);
    world_drop(&met->gpu);
    clock_drop(&met->cta);
    *met = (struct met){.at = at, .gpu = gpu, .cta = cta};
    w->clock->deferred |= 1u << lane;
}

void race_observe(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home,
                  enum race_strong by)
{
    struct warp_clock *c = w->clock;
    struct worker *worker = w->cta->worker;
    struct global_races *g = worker->global_races;
    if (!c || !(op->order & ORDER_STRONG))
        return;
    bool now = acquires(w, op, by != RACE_LOAD);
    bool wide = !home && !w->cta->program->narrow;
    if (!wide && (home || !now || op->order & ORDER_CTA))
        race_settle_lanes(w, 1u << lane);
    if (home) {
        struct clock **clock = shared_place(home->races, (uint32_t)at, false);
        if (!clock || !*clock)
            return;
        bool alone = home == w->cta && !(*clock)->world;
        struct world *there = alone ? world_of(home->number, *clock) : clock_world(home, *clock);
        if (now) {
            race_acquire_world(w, lane, there, alone);
            race_has_learnt(c, lane);
        } else
            world_join(&c->seen[lane], there);
        world_drop(&there);
    } else {
        if (!__atomic_load_n(&g->place_count, __ATOMIC_RELAXED))
            return;
        int *lock = by == RACE_LOAD ? &place_list(g, at)->lock : NULL;
        if (lock)
            lock_on(lock);
        struct global_place *p = global_place(worker, at, false);
        struct place_more *more = p ? p->more : NULL;
        struct clock *own = more ? clock_share(world_clock(more->cta, w->cta->number)) : NULL;
        struct world *gpu = more ? world_share(more->gpu) : NULL;
        bool is_new = p && !(wide && now && p->released == c->met[lane].last);
        struct snapshot *released = is_new ? snapshot_share(p->released) : NULL;
        if (more) {
            completed_join(&w->cta->races->seen, &more->completed);
            world_join(&c->narrow[lane], more->narrow);
            w->cta->races->told_narrowly |= more->narrow != NULL;
        }
        if (wide && now && p)
            meet_release(w, lane, p);
        if (lock)
            lock_off(lock);
        if (wide && now) {
            meet_snapshot(w, lane, at, released);
        } else if (wide) {
            world_join(&c->seen[lane], snapshot_world(worker, released));
        } else if (now && !(op->order & ORDER_CTA)) {
            meet(w, lane, at, gpu, own);
            if (by != RACE_ATOMIC_IN_VAIN)
                race_settle_lanes(w, 1u << lane);
        } else if (now) {
            if (own)
                race_acquire_lane(c, lane, own);
            race_acquire_world(w, lane, gpu, true);
            race_has_learnt(c, lane);
        } else {
            struct world *mine = own ? world_of(w->cta->number, own) : NULL;
            world_join(&c->seen[lane], mine);
            world_drop(&mine);
            if (!(op->order & ORDER_CTA))
                world_join(&c->seen[lane], gpu);
        }
        world_drop(&gpu);
        clock_drop(&own);
        snapshot_drop(worker, &released);
    }
}

static void note_fence(struct warp *w, int lane, enum fence_scope scope)
{
    struct warp_clock *c = w->clock;
    struct worker *worker = w->cta->worker;
    struct fenced *f = &c->fenced[scope][lane];
    bool deferred = c->deferred >> lane & 1;
    struct snapshot *last = deferred ? c->met[lane].last : NULL;
    struct snapshot *before = deferred ? c->met[lane].before : NULL;
    if (f->known != c->known[lane]) {
        clock_drop(&f->known);
        f->known = clock_share(c->known[lane]);
    }
    if (f->last != last) {
        snapshot_drop(worker, &f->last);
        f->last = snapshot_share(last);
    }
    if (f->before != before) {
        snapshot_drop(worker, &f->before);
        f->before = snapshot_share(before);
    }
    f->stamp = c->now[lane];
    f->base = c->base[lane];
    f->wbase = c->wbase[lane];
    w->cta->races->fenced[scope] = true;
}

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu)
{
    struct warp_clock *c = w->clock;
    bool learns = false;
    if (!c)
        return;
    if (w->cta->program->narrow)
        race_settle(w);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        learns |= c->seen[i] != NULL;
        // Before note_fence, so that the fence shows what is acquired here, too.
        race_acquire_world(w, i, c->seen[i], !whole_gpu);
        if (w->cta->program->narrow)
            note_fence(w, i, FENCE_CTA);
        if (!whole_gpu) {
            w->cta->races->narrow = true;
            w->cta->races->told_narrowly |= c->seen[i] != NULL;
            world_join(&c->narrow[i], c->seen[i]);
        } else {
            note_fence(w, i, FENCE_GPU);
            world_drop(&c->seen[i]);
        }
    }
    race_move(w, lanes);
    if (learns || c->learnt)
        race_summarise(w);
}
