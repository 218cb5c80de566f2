// clocks.c: what is known of others: clocks of a CTA's threads, worlds (clocks of several CTAs) and when
// the reads of CTAs were complete. They are shared by reference, and copied before a shared one is written.
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

// Whether a clock knows all that another one does.
static bool clock_covers(const struct clock *a, const struct clock *b)
{
    uint32_t more = b->base > a->base;
    for (uint32_t i = 0; !more && b->most > a->base && i < b->threads; ++i)
        more = b->at[i] > a->at[i] && b->at[i] > a->base;
    return !more && world_covers(a->world, b->world);
}

// Where one of the two knows all already, that one is shared: clocks that meet again and again become
// one, and joining them costs a comparison.
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
    c->base = more->base > c->base ? more->base : c->base;
    c->most = more->most > c->most ? more->most : c->most;
    for (uint32_t i = 0; i < more->threads; ++i)
        c->at[i] = more->at[i] > c->at[i] ? more->at[i] : c->at[i];
    world_join(&c->world, more->world);
}

static bool world_covers(const struct world *a, const struct world *b)
{
    if (!b || a == b)
        return true;
    for (uint32_t i = 0, j = 0; j < b->count; ++j) {
        while (a && i < a->count && a->of[i].cta < b->of[j].cta)
            ++i;
        if (!a || i == a->count || a->of[i].cta > b->of[j].cta ||
            (a->of[i].clock != b->of[j].clock && !clock_covers(a->of[i].clock, b->of[j].clock)))
            return false;
    }
    return true;
}

void world_join(struct world **into, struct world *more)
{
    if (!more || *into == more)
        return;
    struct world *old = *into;
    if (world_covers(old, more))
        return;
    if (!old || world_covers(more, old)) {
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

// Both lists are in the order of the CTAs' numbers, as the result is.
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
    for (uint32_t j = more->count; j > 0;) { // from the end: what is moved is never overwritten
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
