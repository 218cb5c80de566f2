// threads.c: what the threads of a CTA know of one another, which grows by releases and acquires,
// barriers and fences.
#include "internal.h"

void race_step(struct warp *w, uint32_t lanes, uint32_t time)
{
    for (uint32_t left = lanes; left; left &= left - 1)
        w->clock->now[__builtin_ctz(left)] = time;
}

// When stamps get close to RACE_PENDING, all accesses so far are forgotten, and the time starts
// again.
uint32_t race_tick(struct cta *cta)
{
    struct races *s = cta->races;
    if (++s->time < UINT32_MAX - 16)
        return s->time;
    races_start(cta);
    return ++s->time;
}

void race_move(struct warp *w, uint32_t lanes)
{
    uint32_t now = race_tick(w->cta);
    race_step(w, lanes, now);
    w->clock->now_all = w->alive & ~lanes ? 0 : now;
}

void race_release_lane(struct warp *w, int lane, uint32_t stamp, struct clock **clock)
{
    struct warp_clock *c = w->clock;
    clock_join(clock, c->known[lane]);
    struct clock *to = clock_own(clock, w->cta->races->threads);
    to->base = c->base[lane] > to->base ? c->base[lane] : to->base;
    uint32_t first = (uint32_t)w->index * WARP;
    for (uint32_t i = first; i < first + WARP; ++i)
        to->at[i] = c->wbase[lane] > to->at[i] ? c->wbase[lane] : to->at[i];
    if (stamp > to->at[first + (uint32_t)lane])
        to->at[first + (uint32_t)lane] = stamp;
    to->most = c->wbase[lane] > to->most ? c->wbase[lane] : to->most;
    to->most = stamp > to->most ? stamp : to->most;
    world_join(&to->world, c->world[lane]);
}

// Most lanes have the same clock as the lane before, and add only their own time.
void race_release_lanes(struct warp *w, uint32_t lanes, struct clock **clock)
{
    const struct warp_clock *c = w->clock;
    int last = -1;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (last >= 0 && c->known[i] == c->known[last] && c->base[i] == c->base[last] &&
            c->wbase[i] == c->wbase[last] && c->world[i] == c->world[last]) {
            uint32_t *at = &(*clock)->at[w->index * WARP + i];
            *at = c->now[i] > *at ? c->now[i] : *at;
            (*clock)->most = *at > (*clock)->most ? *at : (*clock)->most;
            continue;
        }
        race_release_lane(w, i, c->now[i], clock);
        last = i;
    }
}

void race_release(struct warp *w, uint32_t lanes, struct clock **clock)
{
    if (!w->clock)
        return;
    race_settle(w);
    race_release_lanes(w, lanes, clock);
    race_step(w, lanes, race_tick(w->cta));
    race_summarise(w);
}

void race_release_products(struct warp *w, struct clock **clock)
{
    if (!w->clock)
        return;
    const struct races *s = w->cta->races;
    struct clock *to = clock_own(clock, s->threads);
    uint32_t last = 0;
    for (int i = 0; i < WARP; ++i)
        last = w->clock->now[i] > last ? w->clock->now[i] : last;
    to->at[products_of(s, w->index)] = last;
    to->most = last > to->most ? last : to->most;
    race_step(w, ~0u, race_tick(w->cta));
    race_summarise(w);
}

void race_acquire_lane(struct warp_clock *c, int lane, struct clock *clock)
{
    c->base[lane] = clock->base > c->base[lane] ? clock->base : c->base[lane];
    clock_join(&c->known[lane], clock);
    world_join(&c->world[lane], clock->world);
}

void race_acquire_lanes(struct warp_clock *c, uint32_t lanes, struct clock *clock)
{
    // The clocks of the previous lane: before it acquired, and after.
    struct clock *old = NULL, *joined = NULL;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (joined && c->known[i] == old) {
            clock_share(joined);
            clock_drop(&c->known[i]);
            c->known[i] = joined;
            c->base[i] = clock->base > c->base[i] ? clock->base : c->base[i];
            world_join(&c->world[i], clock->world);
            continue;
        }
        clock_drop(&old);
        old = clock_share(c->known[i]); // a second reference, so that joining makes a new clock
        race_acquire_lane(c, i, clock);
        joined = c->known[i];
    }
    clock_drop(&old);
}

void race_acquire_world(struct warp *w, int lane, struct world *world, bool mine_only)
{
    struct clock *own = world_clock(world, w->cta->number);
    if (own)
        race_acquire_lane(w->clock, lane, own);
    if (mine_only || !world)
        return;
    world_join_but(&w->clock->world[lane], world, w->cta->number);
}

void race_has_learnt(struct warp_clock *c, int lane)
{
    c->plain &= !c->known[lane];
    c->alone &= !c->known[lane] && !c->world[lane];
    c->learnt = true;
}

void race_settle_lanes(struct warp *w, uint32_t lanes)
{
    struct warp_clock *c = w->clock;
    for (uint32_t left = lanes & c->deferred; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        struct met *met = &c->met[i];
        if (met->last) {
            struct worker *worker = w->cta->worker;
            race_acquire_world(w, i, snapshot_world(worker, met->last), false);
            race_acquire_world(w, i, snapshot_world(worker, met->before), false);
            snapshot_drop(worker, &met->before);
        }
        if (met->cta)
            race_acquire_lane(c, i, met->cta);
        race_acquire_world(w, i, met->gpu, false);
        race_has_learnt(c, i);
    }
    c->deferred &= ~lanes;
}

void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock)
{
    if (!w->clock || !clock)
        return;
    race_acquire_lanes(w->clock, lanes, clock);
    race_summarise(w);
}

void race_warp_sync(struct warp *w, uint32_t lanes)
{
    struct warp_clock *c = w->clock;
    if (!c || !(lanes & (lanes - 1)))
        return;
    race_settle(w);
    bool simple = lanes == w->alive;
    uint32_t base = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        simple &= !c->known[i] && !c->world[i];
        base = c->base[i] > base ? c->base[i] : base;
    }
    if (!simple) {
        struct clock *all = NULL;
        race_release_lanes(w, lanes, &all);
        race_acquire_lanes(c, lanes, all);
        clock_drop(&all);
    }
    uint32_t before = w->cta->races->time, now = race_tick(w->cta);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        c->base[i] = base;
        if (lanes == w->alive)
            c->wbase[i] = before;
        c->now[i] = now;
    }
    race_summarise(w);
}

// At a barrier of the whole CTA: all threads learn what any of them has learnt by a fence of CTA
// scope.
static void share_narrow(struct cta *cta)
{
    struct world *all = NULL;
    for (int i = 0; i < cta->warps * WARP; ++i)
        world_join(&all, cta->warp[i / WARP].clock->narrow[i % WARP]);
    for (int i = 0; i < cta->warps * WARP; ++i)
        world_join(&cta->warp[i / WARP].clock->narrow[i % WARP], all);
    world_drop(&all);
}

void race_barrier_all(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    struct world *world = NULL;
    for (int i = 0; i < cta->warps; ++i)
        race_settle(&cta->warp[i]);
    completed_join(&s->completed, &s->seen);
    if (s->told_narrowly)
        share_narrow(cta);
    for (int i = 0; i < cta->warps; ++i)
        for (int lane = 0; !cta->warp[i].clock->alone && lane < WARP; ++lane)
            world_join(&world, cta->warp[i].clock->world[lane]);
    uint32_t before = s->time, now = race_tick(cta);
    if (now < before)
        before = now - 1;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        for (int lane = 0; !(c->alone && !world) && lane < WARP; ++lane) {
            clock_drop(&c->known[lane]); // after the barrier, base has all that this clock shows
            world_drop(&c->world[lane]);
            c->world[lane] = world_share(world);
        }
        for (int lane = 0; lane < WARP; ++lane) {
            c->base[lane] = c->wbase[lane] = before;
            c->now[lane] = now;
        }
        c->now_all = now;
        c->base_all = c->wbase_all = before;
        for (int p = 0; p < cta->warps; ++p)
            c->least[p] = before;
        c->least[SEVERAL] = before;
        for (uint32_t k = 0; k < sources_of_loads(s); ++k)
            c->least[LOADS + k] = before;
        c->plain = true;
        c->alone = !world;
    }
    world_drop(&world);
}
