// clocks.c: what threads know of others: clocks of a CTA's threads, worlds (clocks of several CTAs), and up to when
// reads of CTAs are complete. Clocks and worlds are shared by reference, and a shared one is copied before it is
// written.
#include "internal.h"

void clock_drop(struct clock **clock)
{
    struct clock *c = *clock;
    *clock = NULL;
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
        return;
    world_drop(&c->world);
    free(c);
}

void world_drop(struct world **world)
{
    struct world *x = *world;
    *world = NULL;
    if (!x || __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL))
        return;
    for (uint32_t i = 0; i < x->count; ++i)
        clock_drop(&x->of[i].clock);
    free(x);
}

struct clock *clock_own(struct clock **clock, uint32_t threads)
{
    struct clock *old = *clock;
    if (old && __atomic_load_n(&old->refs, __ATOMIC_ACQUIRE) == 1)
        return old;
    struct clock *c = need(calloc(1, sizeof *c + threads * sizeof *c->at));
    if (old) {
        memcpy(c->at, old->at, threads * sizeof *c->at);
        c->base = old->base;
        c->most = old->most;
        c->world = world_share(old->world);
        clock_drop(clock);
    }
    c->refs = 1;
    c->threads = threads;
    return *clock = c;
}

static bool world_covers(const struct world *a, const struct world *b);

// Whether any of n stamps is later than both `base` and the stamp at its index in `than`; base and than are another
// clock's.
static inline __attribute__((always_inline)) bool any_later(const uint32_t *stamps, uint32_t n,
                                                            const uint32_t *than, uint32_t base)
{
    enum { PART = 64 };
    uint32_t later = 0;
    for (uint32_t i = 0; !later && i < n; i += PART)
        for (uint32_t k = i, end = n - i < PART ? n : i + PART; k < end; ++k)
            later |= (stamps[k] > than[k]) & (stamps[k] > base);
    return later;
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) bool any_later_avx2(const uint32_t *stamps, uint32_t n,
                                                           const uint32_t *than, uint32_t base)
{
    return any_later(stamps, n, than, base);
}
#endif

// Whether clock a includes clock b. The latest stamp of b is compared first: mostly it is the one that a lacks.
static bool clock_covers(const struct clock *a, const struct clock *b)
{
    if (b->base > a->base || (b->most > a->most && b->most > a->base))
        return false;
    bool later = false;
    if (b->most <= a->base)
        later = false;
#ifdef __x86_64__
    else if (__builtin_cpu_supports("avx2"))
        later = any_later_avx2(b->at, b->threads, a->at, a->base);
#endif
    else
        later = any_later(b->at, b->threads, a->at, a->base);
    return !later && world_covers(a->world, b->world);
}

void clock_raise(struct clock *c, const struct clock *more)
{
    c->base = more->base > c->base ? more->base : c->base;
    c->most = more->most > c->most ? more->most : c->most;
    for (uint32_t i = 0; i < more->threads; ++i)
        c->at[i] = more->at[i] > c->at[i] ? more->at[i] : c->at[i];
}

// If one of two clocks includes the other, no new clock is made: both holders share the larger one.
// So threads that synchronise again and again come to hold the same clock, and joining a clock with
// itself costs one comparison.
void clock_join(struct clock **into, struct clock *more)
{
    if (!more || *into == more)
        return;
    if (*into && clock_covers(*into, more))
        return;
    if (!*into || clock_covers(more, *into)) {
        clock_share(more);
        clock_drop(into);
        *into = more;
        return;
    }
    struct clock *c = clock_own(into, more->threads);
    clock_raise(c, more);
    world_join(&c->world, more->world);
}

// Whether world a includes world b. but: the number of a CTA whose clocks are not compared; NO_CTA:
// the clocks of all CTAs are compared.
#define NO_CTA UINT64_MAX
static bool world_covers_but(const struct world *a, const struct world *b, uint64_t but)
{
    if (!b || a == b)
        return true;
    for (uint32_t i = 0, j = 0; j < b->count; ++j) {
        if (b->of[j].cta == but)
            continue;
        while (a && i < a->count && a->of[i].cta < b->of[j].cta)
            ++i;
        if (!a || i == a->count || a->of[i].cta > b->of[j].cta ||
            (a->of[i].clock != b->of[j].clock && !clock_covers(a->of[i].clock, b->of[j].clock)))
            return false;
    }
    return true;
}

static bool world_covers(const struct world *a, const struct world *b)
{
    return world_covers_but(a, b, NO_CTA);
}

void world_join(struct world **into, struct world *more)
{
    world_join_but(into, more, NO_CTA);
}

void world_join_but(struct world **into, struct world *more, uint64_t but)
{
    static const struct world nothing = {.refs = 1};
    if (!more || *into == more)
        return;
    const struct world *old = *into ? *into : &nothing;
    if (world_covers_but(old, more, but))
        return;
    if (!world_clock(more, but) && world_covers(more, old)) {
        world_share(more);
        world_drop(into);
        *into = more;
        return;
    }
    struct world *x = need(malloc(sizeof *x + (old->count + more->count) * sizeof *x->of));
    *x = (struct world){.refs = 1};
    for (uint32_t i = 0, j = 0; i < old->count || j < more->count;) {
        uint64_t a = i < old->count ? old->of[i].cta : UINT64_MAX;
        uint64_t b = j < more->count ? more->of[j].cta : UINT64_MAX;
        if (b == but && j < more->count) {
            ++j;
            continue;
        }
        struct clock **clock = &x->of[x->count].clock;
        x->of[x->count++].cta = a < b ? a : b;
        *clock = NULL;
        if (a <= b)
            *clock = clock_share(old->of[i++].clock);
        if (b <= a)
            clock_join(clock, more->of[j++].clock);
    }
    world_drop(into);
    *into = x;
}

// Both lists are sorted by the numbers of CTAs, and so is the result.
void completed_join(struct completed *into, const struct completed *more)
{
    uint32_t known = 0, i = 0;
    for (uint32_t j = 0; j < more->count; ++j) {
        while (i < into->count && into->of[i].cta < more->of[j].cta)
            ++i;
        if (i == into->count || into->of[i].cta > more->of[j].cta)
            continue;
        known++;
        if (into->of[i].stamp < more->of[j].stamp)
            into->of[i].stamp = more->of[j].stamp;
    }
    if (known == more->count)
        return;
    uint32_t total = into->count + more->count - known;
    if (total > into->capacity) {
        into->capacity = 2 * total;
        into->of = need(realloc(into->of, into->capacity * sizeof *into->of));
    }
    i = into->count;
    into->count = total;
    // From the end, so that no entry is overwritten before it is moved.
    for (uint32_t j = more->count; j > 0;) {
        --total;
        if (i > 0 && into->of[i - 1].cta >= more->of[j - 1].cta) {
            j -= into->of[i - 1].cta == more->of[j - 1].cta;
            into->of[total] = into->of[--i];
        } else {
            into->of[total] = more->of[--j];
        }
    }
}

struct world *world_of(uint64_t cta, struct clock *clock)
{
    struct world *x = need(malloc(sizeof *x + sizeof *x->of));
    *x = (struct world){.refs = 1, .count = 1};
    x->of[0].cta = cta;
    x->of[0].clock = clock_share(clock);
    return x;
}

// If nobody else holds the world, and it has a clock of the CTA, joins into that clock, which saves a copy of the
// world.
void world_put(struct world **world, uint64_t cta, struct clock *clock)
{
    struct world *x = *world, *one;
    bool mine = x && __atomic_load_n(&x->refs, __ATOMIC_ACQUIRE) == 1;
    for (uint32_t i = 0; mine && i < x->count; ++i)
        if (x->of[i].cta == cta) {
            clock_join(&x->of[i].clock, clock);
            return;
        }
    one = world_of(cta, clock);
    world_join(world, one);
    world_drop(&one);
}

struct world *world_without(struct world *world, uint64_t cta)
{
    uint32_t at = 0;
    while (at < world->count && world->of[at].cta != cta)
        at++;
    if (at == world->count)
        return world_share(world);
    struct world *x = need(malloc(sizeof *x + world->count * sizeof *x->of));
    *x = (struct world){.refs = 1};
    for (uint32_t i = 0; i < world->count; ++i)
        if (i != at) {
            x->of[x->count].cta = world->of[i].cta;
            x->of[x->count++].clock = clock_share(world->of[i].clock);
        }
    return x;
}

struct world *clock_world(const struct cta *home, struct clock *clock)
{
    struct world *world = NULL, *others = world_share(clock->world);
    struct clock *flat = clock_share(clock);
    if (flat->world)
        world_drop(&clock_own(&flat, clock->threads)->world);
    world = world_of(home->number, flat);
    world_join(&world, others);
    world_drop(&others);
    clock_drop(&flat);
    return world;
}

void clock_tell(const struct cta *home, struct clock **clock, struct world *world)
{
    clock_join(clock, world_clock(world, home->number));
    struct world *others = world_without(world, home->number);
    world_join(&clock_own(clock, home->races->threads)->world, others);
    world_drop(&others);
}

// ---- What the lanes of a warp have in common -----------------------------------------------------

// Computes `least`: for each warp, the time up to which every lane knows of all of that warp's threads; for each source
// of loads, the time up to which every lane knows of that source.
static void summarise_known(struct warp *w, uint32_t lanes)
{
    struct warp_clock *c = w->clock;
    const struct races *s = w->cta->races;
    const uint32_t loads = sources_of_loads(s);
    int warps = w->cta->warps, last = -1;
    c->least[SEVERAL] = c->base_all;
    for (int p = 0; p < warps; ++p)
        c->least[p] = c->plain ? c->base_all : UINT32_MAX;
    for (uint32_t k = 0; k < loads; ++k)
        c->least[LOADS + k] = c->plain ? c->base_all : UINT32_MAX;
    if (c->plain)
        lanes = 0;
    for (; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        const struct clock *known = c->known[lane];
        if (last >= 0 && known == c->known[last] && c->base[lane] == c->base[last])
            continue; // like most lanes, this one has the same clock as `last`
        last = lane;
        for (int p = 0; p < warps; ++p) {
            uint32_t least = known ? UINT32_MAX : 0;
            for (int i = p * WARP; known && i < (p + 1) * WARP; ++i)
                least = known->at[i] < least ? known->at[i] : least;
            least = c->base[lane] > least ? c->base[lane] : least;
            c->least[p] = least < c->least[p] ? least : c->least[p];
        }
        for (uint32_t k = 0; k < loads; ++k) {
            uint32_t least = known ? known->at[loads_of(s, LOADS + k)] : 0;
            least = c->base[lane] > least ? c->base[lane] : least;
            c->least[LOADS + k] = least < c->least[LOADS + k] ? least : c->least[LOADS + k];
        }
    }
    uint32_t *own = &c->least[w->index];
    *own = c->wbase_all > *own ? c->wbase_all : *own;
}

void race_summarise(struct warp *w)
{
    struct warp_clock *c = w->clock;
    uint32_t lanes = w->alive ? w->alive : ~0u;
    c->now_all = c->now[__builtin_ctz(lanes)];
    c->base_all = c->wbase_all = UINT32_MAX;
    c->plain = c->alone = true;
    c->learnt = false;
    for (int i = 0; i < WARP; ++i) {
        c->plain &= !c->known[i];
        c->alone &= !c->known[i] && !c->world[i];
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (c->now[i] != c->now_all)
            c->now_all = 0;
        c->base_all = c->base[i] < c->base_all ? c->base[i] : c->base_all;
        c->wbase_all = c->wbase[i] < c->wbase_all ? c->wbase[i] : c->wbase_all;
    }
    summarise_known(w, lanes);
}
