// races.c: order between the accesses of threads, and what to say where there is none. races.h has
// the idea; races_set.h the accesses of whole warps, which are most.
#include "ops_common.h"
#include "races.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "ptxsim: out of memory\n");
    abort();
}

// ---- Clocks -------------------------------------------------------------------------------------

static void world_drop(struct world **world);

void clock_drop(struct clock **clock)
{
    struct clock *c = *clock;
    *clock = NULL;
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
        return;
    world_drop(&c->world);
    free(c);
}

static void world_drop(struct world **world)
{
    struct world *x = *world;
    *world = NULL;
    if (!x || __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL))
        return;
    for (uint32_t i = 0; i < x->count; ++i)
        clock_drop(&x->of[i].clock);
    free(x);
}

static struct clock *clock_share(struct clock *c)
{
    if (c)
        __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static struct world *world_share(struct world *x)
{
    if (x)
        __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
    return x;
}

// One that may be written: *clock itself if nobody shares it, else a copy, or a new one.
static struct clock *clock_own(struct clock **clock, uint32_t threads)
{
    struct clock *old = *clock;
    if (old && __atomic_load_n(&old->refs, __ATOMIC_ACQUIRE) == 1)
        return old;
    struct clock *c = need(calloc(1, sizeof *c + threads * sizeof *c->at));
    if (old) {
        memcpy(c->at, old->at, threads * sizeof *c->at);
        c->base = old->base;
        c->world = world_share(old->world);
        clock_drop(clock);
    }
    c->refs = 1;
    c->threads = threads;
    return *clock = c;
}

static void world_join(struct world **into, struct world *more);

void clock_join(struct clock **into, struct clock *more)
{
    if (!more || *into == more)
        return;
    if (!*into) {
        *into = clock_share(more);
        return;
    }
    struct clock *c = clock_own(into, more->threads);
    c->base = more->base > c->base ? more->base : c->base;
    for (uint32_t i = 0; i < more->threads; ++i)
        c->at[i] = more->at[i] > c->at[i] ? more->at[i] : c->at[i];
    world_join(&c->world, more->world);
}

static void world_join(struct world **into, struct world *more)
{
    if (!more || *into == more)
        return;
    struct world *old = *into;
    if (!old) {
        *into = world_share(more);
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

// ---- A CTA's ------------------------------------------------------------------------------------

static void summarise(struct warp *w)
{
    struct warp_clock *c = w->clock;
    uint32_t lanes = w->alive ? w->alive : ~0u;
    c->now_all = c->now[__builtin_ctz(lanes)];
    c->base_all = c->wbase_all = UINT32_MAX;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (c->now[i] != c->now_all)
            c->now_all = 0;
        c->base_all = c->base[i] < c->base_all ? c->base[i] : c->base_all;
        c->wbase_all = c->wbase[i] < c->wbase_all ? c->wbase[i] : c->wbase_all;
    }
}

static uint32_t *plane(uint32_t cells)
{
    return need(calloc(cells + WARP, sizeof(uint32_t)));
}

void races_create(struct cta *cta)
{
    struct races *s = cta->races = need(calloc(1, sizeof *s));
    s->shift = cta->program->cell_shift;
    s->cells = (cta->shared_bytes >> s->shift) + 1;
    s->threads = (uint32_t)cta->warps * WARP;
    s->warps = cta->warps;
    s->write_stamp = plane(s->cells);
    s->write_thread = plane(s->cells);
    s->write_insn = plane(s->cells);
    for (int i = 0; i < cta->warps; ++i) {
        s->read[i].stamp = plane(s->cells);
        s->read[i].lanes = plane(s->cells);
        s->read[i].insn = plane(s->cells);
        cta->warp[i].clock = need(calloc(1, sizeof *cta->warp[i].clock));
    }
}

static void forget_known(struct warp_clock *c, int lane)
{
    clock_drop(&c->known[lane]);
    world_drop(&c->world[lane]);
    world_drop(&c->seen[lane]);
}

static void forget_places(struct races *s)
{
    for (size_t i = 0; i < s->place_count; ++i)
        clock_drop(&s->places[i].clock);
    s->place_count = 0;
}

void races_destroy(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    forget_places(s);
    free(s->places);
    free(s->write_stamp);
    free(s->write_thread);
    free(s->write_insn);
    for (int i = 0; i < cta->warps; ++i) {
        free(s->read[i].stamp);
        free(s->read[i].lanes);
        free(s->read[i].insn);
        for (int lane = 0; lane < WARP; ++lane)
            forget_known(cta->warp[i].clock, lane);
        free(cta->warp[i].clock);
    }
    free(s);
}

// The stamps of the CTA before are all in the past: nothing need be cleared but what is on its way.
void races_start(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    forget_places(s);
    if (s->time > UINT32_MAX / 2) {
        memset(s->write_stamp, 0, s->cells * sizeof *s->write_stamp);
        for (int i = 0; i < cta->warps; ++i)
            memset(s->read[i].stamp, 0, s->cells * sizeof *s->read[i].stamp);
        s->time = 0;
    }
    for (uint32_t i = 0; i < s->cells; ++i)
        if (s->write_stamp[i] == RACE_PENDING)
            s->write_stamp[i] = 0;
    uint32_t base = s->time++;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        for (int lane = 0; lane < WARP; ++lane) {
            forget_known(c, lane);
            c->base[lane] = c->wbase[lane] = base;
            c->now[lane] = s->time;
            c->fenced_cta[lane] = c->fenced_gpu[lane] = 0;
        }
        summarise(&cta->warp[i]);
    }
}

// ---- Synchronisation ----------------------------------------------------------------------------

// A new time for lanes that have released what they did.
static void step(struct warp *w, uint32_t lanes, uint32_t time)
{
    for (uint32_t left = lanes; left; left &= left - 1)
        w->clock->now[__builtin_ctz(left)] = time;
}

// At RACE_PENDING the stamps are full; long before, all that is past is forgotten.
static uint32_t tick(struct cta *cta)
{
    struct races *s = cta->races;
    if (++s->time < UINT32_MAX - 16)
        return s->time;
    races_start(cta);
    return ++s->time;
}

static void release_lane(struct warp *w, int lane, uint32_t stamp, struct clock **clock)
{
    struct warp_clock *c = w->clock;
    struct clock *to = clock_own(clock, w->cta->races->threads);
    to->base = c->base[lane] > to->base ? c->base[lane] : to->base;
    clock_join(clock, c->known[lane]);
    to = *clock;
    uint32_t first = (uint32_t)w->index * WARP;
    for (uint32_t i = first; i < first + WARP; ++i)
        to->at[i] = c->wbase[lane] > to->at[i] ? c->wbase[lane] : to->at[i];
    if (stamp > to->at[first + (uint32_t)lane])
        to->at[first + (uint32_t)lane] = stamp;
    world_join(&to->world, c->world[lane]);
}

void race_release(struct warp *w, uint32_t lanes, struct clock **clock)
{
    if (!w->clock)
        return;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        release_lane(w, lane, w->clock->now[lane], clock);
    }
    step(w, lanes, tick(w->cta));
    summarise(w);
}

static void acquire_lane(struct warp_clock *c, int lane, struct clock *clock)
{
    c->base[lane] = clock->base > c->base[lane] ? clock->base : c->base[lane];
    clock_join(&c->known[lane], clock);
    world_join(&c->world[lane], clock->world);
}

void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock)
{
    if (!w->clock || !clock)
        return;
    for (uint32_t left = lanes; left; left &= left - 1)
        acquire_lane(w->clock, __builtin_ctz(left), clock);
    summarise(w);
}

void race_warp_sync(struct warp *w, uint32_t lanes)
{
    struct warp_clock *c = w->clock;
    if (!c || !(lanes & (lanes - 1)))
        return;
    bool simple = lanes == w->alive;
    uint32_t base = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        simple &= !c->known[i] && !c->world[i];
        base = c->base[i] > base ? c->base[i] : base;
    }
    if (!simple) {
        struct clock *all = NULL;
        for (uint32_t left = lanes; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            release_lane(w, i, c->now[i], &all);
        }
        for (uint32_t left = lanes; left; left &= left - 1)
            acquire_lane(c, __builtin_ctz(left), all);
        clock_drop(&all);
    }
    uint32_t before = w->cta->races->time, now = tick(w->cta);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        c->base[i] = base;
        if (lanes == w->alive)
            c->wbase[i] = before;
        c->now[i] = now;
    }
    summarise(w);
}

void race_barrier_all(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    struct world *world = NULL;
    for (int i = 0; i < cta->warps; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            world_join(&world, cta->warp[i].clock->world[lane]);
    uint32_t before = s->time, now = tick(cta);
    if (now < before)
        before = now - 1;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        for (int lane = 0; lane < WARP; ++lane) {
            clock_drop(&c->known[lane]); // base says as much
            world_drop(&c->world[lane]);
            c->world[lane] = world_share(world);
            c->base[lane] = c->wbase[lane] = before;
            c->now[lane] = now;
        }
        c->now_all = now;
        c->base_all = c->wbase_all = before;
    }
    world_drop(&world);
}

// ---- Reports ------------------------------------------------------------------------------------

static void name_thread(const struct cta *cta, uint32_t thread, char *text, size_t size)
{
    const struct warp *w = &cta->warp[thread / WARP];
    snprintf(text, size, "thread (%u,%u,%u)", w->tid[0][thread % WARP], w->tid[1][thread % WARP],
             w->tid[2][thread % WARP]);
}

static const char *name_line(const struct cta *cta, uint32_t insn, char *text, size_t size)
{
    const struct insn_info *info = &cta->program->insns[insn & ~RACE_STRONG];
    if (info->at.line)
        snprintf(text, size, "%s:%d", info->at.file, info->at.line);
    else
        snprintf(text, size, "PTX line %d", info->ptx_line);
    return text;
}

__attribute__((format(printf, 5, 6))) static void
report(struct warp *w, const struct op *op, int lane, uint32_t other, const char *format, ...)
{
    struct cta *cta = w->cta;
    struct race_log *log = &cta->worker->races;
    other &= ~RACE_STRONG;
    // By source line: a line is often several instructions.
    const struct insn_info *insns = cta->program->insns;
    const struct insn_info *a = &insns[op->insn], *b = &insns[other];
    for (size_t i = 0; i < log->count; ++i) {
        struct race_entry *e = &log->entries[i];
        const struct insn_info *c = &insns[e->insn], *d = &insns[e->other];
        bool same = a->at.line ? a->at.line == c->at.line && a->at.file == c->at.file
                               : e->insn == op->insn;
        same &= b->at.line ? b->at.line == d->at.line && b->at.file == d->at.file
                           : e->other == other;
        if (same) {
            e->count++;
            return;
        }
    }
    if (log->count == 256)
        return;
    log->entries = array_grow(log->entries, log->count, &log->capacity, sizeof *log->entries);
    struct race_entry *e = &log->entries[log->count++];
    *e = (struct race_entry){.insn = op->insn, .other = other, .cta = cta->number, .count = 1};
    va_list arguments;
    va_start(arguments, format);
    fault_text(e->text, sizeof e->text, w, op, lane, format, arguments);
    va_end(arguments);
}

void race_log_merge(struct race_log *into, struct race_log *from)
{
    for (size_t i = 0; i < from->count; ++i) {
        struct race_entry *e = &from->entries[i], *same = NULL;
        for (size_t k = 0; k < into->count && !same; ++k)
            if (into->entries[k].insn == e->insn && into->entries[k].other == e->other)
                same = &into->entries[k];
        if (!same) {
            into->entries =
                array_grow(into->entries, into->count, &into->capacity, sizeof *into->entries);
            into->entries[into->count++] = *e;
            continue;
        }
        same->count += e->count;
        if (e->cta < same->cta) {
            same->cta = e->cta;
            memcpy(same->text, e->text, sizeof same->text);
        }
    }
    free(from->entries);
    *from = (struct race_log){0};
}

static int by_place(const void *a, const void *b)
{
    const struct race_entry *x = a, *y = b;
    if (x->cta != y->cta)
        return x->cta < y->cta ? -1 : 1;
    if (x->insn != y->insn)
        return x->insn < y->insn ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

void race_log_sort(struct race_log *log)
{
    if (log->count > 1)
        qsort(log->entries, log->count, sizeof *log->entries, by_place);
}

// " (tile + 128)": the variable that an address of shared memory lies in.
static const char *name_variable(const struct cta *cta, uint32_t at, char *text, size_t size)
{
    const struct function *f = cta->program->kernel->function;
    const struct module *m = f->module;
    text[0] = 0;
    for (int which = 0; which < 2; ++which) {
        size_t count = which ? m->variable_count : f->variable_count;
        for (size_t i = 0; i < count; ++i) {
            const struct variable *v = which ? m->variables[i] : f->variables[i];
            if (v->space != SPACE_SHARED || v->dynamic || at < v->offset ||
                at - v->offset >= v->size)
                continue;
            // Of "_ZZ9attentionE1t": the last name that its length announces.
            const char *name = v->name, *end = name + strlen(name);
            for (const char *p = end; p-- > name;)
                if (p[0] >= '1' && p[0] <= '9') {
                    char *rest;
                    unsigned long length = strtoul(p, &rest, 10);
                    if (rest + length == end && rest < end)
                        name = rest;
                }
            snprintf(text, size, " (%.40s + %u)", name, at - (uint32_t)v->offset);
            return text;
        }
    }
    return text;
}

// ---- Shared memory ------------------------------------------------------------------------------

// Whether what `thread` did up to `stamp` comes before what the lane does now.
static bool ordered(const struct warp *w, int lane, uint32_t thread, uint32_t stamp)
{
    const struct warp_clock *c = w->clock;
    uint32_t mine = (uint32_t)w->index * WARP;
    return stamp <= c->base[lane] || thread == mine + (uint32_t)lane ||
           (thread / WARP == mine / WARP && stamp <= c->wbase[lane]) ||
           (c->known[lane] && thread < c->known[lane]->threads &&
            stamp <= c->known[lane]->at[thread]);
}

static void report_shared(struct warp *w, const struct op *op, int lane, uint32_t at,
                          uint32_t bytes, enum race_access access, uint32_t thread, uint32_t insn,
                          bool wrote, uint32_t stamp)
{
    const struct cta *cta = w->cta;
    char who[64], where[288], variable[80];
    const char *verb = access == RACE_READ    ? "reads"
                       : access == RACE_WRITE ? "writes"
                                              : "copies (cp.async)";
    name_line(cta, insn, where, sizeof where);
    name_variable(cta, at, variable, sizeof variable);
    if (wrote && stamp == RACE_PENDING) {
        name_thread(cta, thread & ~RACE_ASYNC_THREAD, who, sizeof who);
        report(w, op, lane, insn,
               "%s %u bytes of shared memory at %u%s that a cp.async of %s at %s is still writing: "
               "nothing has waited for it",
               verb, bytes, at, variable, who, where);
        return;
    }
    name_thread(cta, thread, who, sizeof who);
    bool same_warp = thread / WARP == (uint32_t)w->index;
    report(w, op, lane, insn, "%s %u bytes of shared memory at %u%s that %s %s at %s with no %s in "
           "between", verb, bytes, at, variable, who, wrote ? "wrote" : "read", where,
           same_warp ? "__syncwarp or barrier" : "barrier");
}

void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    struct cta *cta = w->cta;
    struct races *s = cta->races;
    if (!s || !lanes || !bytes || at + (uint64_t)bytes > cta->shared_bytes)
        return;
    struct warp_clock *c = w->clock;
    bool strong = op->order & ORDER_STRONG, write = access != RACE_READ;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    uint32_t mine = (uint32_t)w->index * WARP, insn = op->insn | (strong ? RACE_STRONG : 0);
    int rep = 31 - __builtin_clz(lanes);
    bool told = false;
    for (uint32_t cell = first; cell <= last; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp > c->base_all && !(strong && s->write_insn[cell] & RACE_STRONG) && !told)
            for (uint32_t left = lanes; left && !told; left &= left - 1) {
                int lane = __builtin_ctz(left);
                if (stamp != RACE_PENDING && ordered(w, lane, thread, stamp))
                    continue;
                if (access == RACE_WRITE && value && stamp != RACE_PENDING &&
                    !memcmp(cta->shared + at, value, bytes))
                    continue; // the same value
                report_shared(w, op, lane, at, bytes, access, thread, s->write_insn[cell], true,
                              stamp);
                told = true;
            }
        if (!write) {
            struct read_plane *r = &s->read[w->index];
            uint32_t now = c->now_all ? c->now_all : c->now[rep];
            bool current = r->stamp[cell] == now;
            if (current && strong && !(r->insn[cell] & RACE_STRONG))
                continue; // the plain read matters more
            if (current && !strong && r->insn[cell] & RACE_STRONG)
                current = false;
            r->lanes[cell] = (current ? r->lanes[cell] : 0) | lanes;
            r->stamp[cell] = now;
            r->insn[cell] = insn;
            continue;
        }
        for (int p = 0; p < s->warps && !told; ++p) {
            const struct read_plane *r = &s->read[p];
            if (r->stamp[cell] <= c->base_all || (strong && r->insn[cell] & RACE_STRONG))
                continue;
            for (uint32_t left = lanes; left && !told; left &= left - 1) {
                int lane = __builtin_ctz(left);
                for (uint32_t m = r->lanes[cell]; m && !told; m &= m - 1) {
                    uint32_t reader = (uint32_t)p * WARP + (uint32_t)__builtin_ctz(m);
                    if (ordered(w, lane, reader, r->stamp[cell]))
                        continue;
                    report_shared(w, op, lane, at, bytes, access, reader, r->insn[cell], false, 0);
                    told = true;
                }
            }
        }
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : c->now[rep];
        s->write_thread[cell] =
            (mine + (uint32_t)rep) | (access == RACE_ASYNC ? RACE_ASYNC_THREAD : 0);
        s->write_insn[cell] = insn;
    }
}

void race_arrived(struct warp *w, int lane, uint32_t insn, uint32_t at, uint32_t bytes,
                  uint32_t stamp)
{
    struct races *s = w->cta->races;
    if (!s || !bytes)
        return;
    uint32_t thread = (uint32_t)w->index * WARP + (uint32_t)lane;
    for (uint32_t cell = at >> s->shift; cell <= (at + bytes - 1) >> s->shift; ++cell)
        if (s->write_stamp[cell] == RACE_PENDING && s->write_insn[cell] == insn &&
            s->write_thread[cell] == (thread | RACE_ASYNC_THREAD)) {
            s->write_stamp[cell] = stamp;
            s->write_thread[cell] = thread;
        }
}

// ---- Global memory ------------------------------------------------------------------------------

struct global_races *global_races_new(const struct program *program)
{
    (void)program;
    return NULL;
}

void global_races_free(struct global_races *races)
{
    (void)races;
}

void race_global(struct warp *w, const struct op *op, uint32_t lanes, uint64_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    (void)w, (void)op, (void)lanes, (void)at, (void)bytes, (void)access, (void)value;
}

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu)
{
    (void)w, (void)lanes, (void)whole_gpu;
}
