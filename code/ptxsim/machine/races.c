// races.c: order between the accesses of threads, and what to say where there is none. races.h has
// the idea; ops/isa/race_runs.h the accesses of whole warps, which are most.
#include "film.h"
#include "race_cells.h"

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

// A clock that may be written: *clock itself if nobody else holds it, else a copy; a new one for
// NULL.
static struct clock *clock_own(struct clock **clock, uint32_t threads)
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
static void world_join(struct world **into, struct world *more);

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

static void world_join(struct world **into, struct world *more)
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

// Both are in the order of the CTAs.
static void completed_join(struct completed *into, const struct completed *more)
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

// ---- A CTA's ------------------------------------------------------------------------------------

// What every lane knows of every thread of each warp.
static void summarise_known(struct warp *w, uint32_t lanes)
{
    struct warp_clock *c = w->clock;
    int warps = w->cta->warps, last = -1;
    c->least[SEVERAL] = c->base_all;
    if (c->plain) {
        for (int p = 0; p < warps; ++p)
            c->least[p] = c->base_all;
        lanes = 0;
    } else {
        for (int p = 0; p < warps; ++p)
            c->least[p] = UINT32_MAX;
    }
    for (; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        const struct clock *known = c->known[lane];
        if (last >= 0 && known == c->known[last] && c->base[lane] == c->base[last])
            continue; // most lanes know the same as the one before
        last = lane;
        for (int p = 0; p < warps; ++p) {
            uint32_t least = known ? UINT32_MAX : 0;
            for (int i = p * WARP; known && i < (p + 1) * WARP; ++i)
                least = known->at[i] < least ? known->at[i] : least;
            least = c->base[lane] > least ? c->base[lane] : least;
            c->least[p] = least < c->least[p] ? least : c->least[p];
        }
    }
    uint32_t *own = &c->least[w->index];
    *own = c->wbase_all > *own ? c->wbase_all : *own;
}

static void summarise(struct warp *w)
{
    struct warp_clock *c = w->clock;
    uint32_t lanes = w->alive ? w->alive : ~0u;
    c->now_all = c->now[__builtin_ctz(lanes)];
    c->base_all = c->wbase_all = UINT32_MAX;
    c->plain = c->alone = true;
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

static uint32_t *plane(uint32_t cells)
{
    return need(calloc(cells + WARP, sizeof(uint32_t)));
}

void races_create(struct cta *cta)
{
    struct races *s = cta->races = need(calloc(1, sizeof *s));
    s->shift = cta->program->cell_shift;
    s->cells = (cta->shared_bytes >> s->shift) + 1;
    s->threads = (uint32_t)cta->warps * (WARP + 1);
    s->warps = cta->warps;
    s->write_stamp = plane(s->cells);
    s->write_thread = plane(s->cells);
    s->write_insn = plane(s->cells);
    s->writes = need(calloc(s->cells / LINE + 1, sizeof *s->writes));
    s->reads = need(calloc(s->cells / LINE + 1, sizeof *s->reads));
    for (int i = 0; i < cta->warps; ++i) {
        s->read[i].stamp = plane(s->cells);
        s->read[i].lanes = plane(s->cells);
        s->read[i].insn = plane(s->cells);
        s->read[i].reading = need(calloc(s->cells / LINE + 1, sizeof *s->read[i].reading));
        cta->warp[i].clock = need(calloc(1, sizeof *cta->warp[i].clock));
    }
}

static void foreign_free(struct races *s);
static void foreign_start(struct races *s);

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
    free(s->inits);
    free(s->seen.of);
    free(s->completed.of);
    free(s->write_stamp);
    free(s->write_thread);
    free(s->write_insn);
    free(s->writes);
    free(s->reads);
    foreign_free(s);
    for (int i = 0; i < cta->warps; ++i) {
        free(s->read[i].stamp);
        free(s->read[i].lanes);
        free(s->read[i].insn);
        free(s->read[i].reading);
        for (int lane = 0; lane < WARP; ++lane)
            forget_known(cta->warp[i].clock, lane);
        clock_drop(&cta->warp[i].clock->proxy);
        free(cta->warp[i].clock);
    }
    free(s);
}

// The stamps of the CTA before are all older than this one's time: only those of writes that are
// still on their way, or by other CTAs, must be cleared.
void races_start(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    forget_places(s);
    s->seen.count = s->completed.count = 0;
    s->init_count = 0;
    if (s->time > UINT32_MAX / 2) {
        uint32_t lines = s->cells / LINE + 1;
        memset(s->write_stamp, 0, s->cells * sizeof *s->write_stamp);
        memset(s->writes, 0, lines * sizeof *s->writes);
        memset(s->reads, 0, lines * sizeof *s->reads);
        for (int i = 0; i < cta->warps; ++i) {
            memset(s->read[i].stamp, 0, s->cells * sizeof *s->read[i].stamp);
            memset(s->read[i].reading, 0, lines * sizeof *s->read[i].reading);
        }
        s->time = 0;
        s->pending = false;
    }
    for (uint32_t i = 0; s->pending && i < s->cells; ++i) {
        if (s->write_stamp[i] >= RACE_FOREIGN)
            s->write_stamp[i] = 0;
        if (s->writes[i / LINE].stamp >= RACE_FOREIGN)
            s->writes[i / LINE].stamp = 0;
        if (s->reads[i / LINE].stamp >= RACE_FOREIGN)
            s->reads[i / LINE].stamp = 0;
    }
    s->pending = false;
    foreign_start(s);
    uint32_t base = s->start = s->time++;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        clock_drop(&c->proxy);
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

// Lanes that have released what they did go on at a new time.
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

// Most lanes of a warp know the same: that is joined once.
static void release_lanes(struct warp *w, uint32_t lanes, struct clock **clock)
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
        release_lane(w, i, c->now[i], clock);
        last = i;
    }
}

void race_release(struct warp *w, uint32_t lanes, struct clock **clock)
{
    if (!w->clock)
        return;
    release_lanes(w, lanes, clock);
    step(w, lanes, tick(w->cta));
    summarise(w);
}

static uint32_t products_of(const struct races *s, int warp)
{
    return (uint32_t)(s->warps * WARP + warp);
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
    step(w, ~0u, tick(w->cta));
    summarise(w);
}

static void acquire_lane(struct warp_clock *c, int lane, struct clock *clock)
{
    c->base[lane] = clock->base > c->base[lane] ? clock->base : c->base[lane];
    clock_join(&c->known[lane], clock);
    world_join(&c->world[lane], clock->world);
}

static void acquire_lanes(struct warp_clock *c, uint32_t lanes, struct clock *clock)
{
    struct clock *old = NULL, *joined = NULL; // what the lane before knew, and knows now
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
        old = clock_share(c->known[i]); // so that joining makes a new one
        acquire_lane(c, i, clock);
        joined = c->known[i];
    }
    clock_drop(&old);
}

void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock)
{
    if (!w->clock || !clock)
        return;
    acquire_lanes(w->clock, lanes, clock);
    summarise(w);
}

void race_proxy_fence(struct warp *w, uint32_t lanes)
{
    if (!w->clock)
        return;
    release_lanes(w, lanes, &w->clock->proxy);
    step(w, lanes, tick(w->cta));
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
        release_lanes(w, lanes, &all);
        acquire_lanes(c, lanes, all);
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
    completed_join(&s->completed, &s->seen);
    for (int i = 0; i < cta->warps; ++i)
        for (int lane = 0; !cta->warp[i].clock->alone && lane < WARP; ++lane)
            world_join(&world, cta->warp[i].clock->world[lane]);
    uint32_t before = s->time, now = tick(cta);
    if (now < before)
        before = now - 1;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        for (int lane = 0; !(c->alone && !world) && lane < WARP; ++lane) {
            clock_drop(&c->known[lane]); // base says as much
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
        c->plain = true;
        c->alone = !world;
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

const char *race_line(const struct program *program, uint32_t insn, char *text, size_t size)
{
    const struct insn_info *info = &program->insns[insn & ~RACE_STRONG];
    if (info->at.line)
        snprintf(text, size, "%s:%d%s", info->at.file, info->at.line, info->at.callers);
    else
        snprintf(text, size, "PTX line %d", info->ptx_line);
    return text;
}

// The same line of a helper that is inlined at two places counts as two lines.
static bool same_line(const struct source_line *a, const struct source_line *b)
{
    return a->line == b->line && a->file == b->file &&
           (a->callers == b->callers || strcmp(a->callers, b->callers) == 0);
}

// Whether a path (up to its end, or a colon) is a header of the system or of a CUDA toolkit.
static bool is_header_of_system(const char *path)
{
    static const char *const folders[] = {"/cccl/", "/cuda", "/nvidia/"};
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(path, ":"), path);
    if (strncmp(text, "/usr/include/", 13) == 0)
        return true;
    for (size_t i = 0; strstr(text, "/include/") && i < sizeof folders / sizeof *folders; ++i)
        if (strstr(text, folders[i]))
            return true;
    return false;
}

bool race_in_library(const struct program *program, uint32_t insn)
{
    const char *kernel = program->kernel->function->name;
    return program->insns[insn].at.in_library || strncmp(kernel, "_ZN3cub", 7) == 0 ||
           strncmp(kernel, "_ZN6thrust", 10) == 0;
}

// Whether an instruction stands in the program's own files, or was called from there.
static bool is_mine(const struct source_line *at)
{
    if (!at->line || !is_header_of_system(at->file))
        return true;
    size_t length;
    for (const char *caller = at->callers; (caller = next_caller(caller, &length));
         caller += length)
        if (!is_header_of_system(caller))
            return true;
    return false;
}

void race_report(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                 uint32_t other, const char *format, ...)
{
    struct cta *cta = w->cta;
    struct race_log *log = &cta->worker->races;
    // A kernel that computes with garbage may loop for ever.
    uint64_t enough = cta->launch->reports ? cta->launch->reports : 1 << 20;
    other &= ~RACE_STRONG;
    if (cta->launch->mine && !is_mine(&cta->program->insns[op->insn].at) &&
        !is_mine(&cta->program->insns[other].at))
        return;
    if (cta->film) {
        char told[1024];
        va_list arguments;
        va_start(arguments, format);
        fault_text(told, sizeof told, w, op, lane, format, arguments);
        va_end(arguments);
        film_fault(cta->film, kind, w, lane, op->insn, other, told);
    }
    if (++log->total == enough) {
        log->total = 0;
        char last[512];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(last, sizeof last, format, arguments);
        va_end(arguments);
        fault_at(w, op, lane, kind, "%s: stopped: %llu accesses were reported", last,
                 (unsigned long long)enough);
    }
    // By source line: a line is often several instructions.
    const struct insn_info *insns = cta->program->insns;
    const struct insn_info *a = &insns[op->insn], *b = &insns[other];
    for (size_t i = 0; i < log->count; ++i) {
        struct race_entry *e = &log->entries[i];
        const struct insn_info *c = &insns[e->insn], *d = &insns[e->other];
        bool same = a->at.line ? same_line(&a->at, &c->at) : e->insn == op->insn;
        same &= b->at.line ? same_line(&b->at, &d->at) : e->other == other;
        if (same && e->kind == kind) {
            e->count++;
            return;
        }
    }
    if (log->count == 256)
        return;
    log->entries = array_grow(log->entries, log->count, &log->capacity, sizeof *log->entries);
    struct race_entry *e = &log->entries[log->count++];
    *e = (struct race_entry){
        .kind = kind, .insn = op->insn, .other = other, .cta = cta->number, .count = 1};
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
            if (into->entries[k].insn == e->insn && into->entries[k].other == e->other &&
                into->entries[k].kind == e->kind)
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
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1; // uninitialised reads come before races
    if (x->insn != y->insn)
        return x->insn < y->insn ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

void race_log_sort(struct race_log *log)
{
    if (log->count > 1)
        qsort(log->entries, log->count, sizeof *log->entries, by_place);
}

void variable_name(const struct variable *v, char *text, size_t size)
{
    // The last name that its length announces.
    const char *name = v->name, *end = name + strlen(name);
    for (const char *p = end; p-- > name;)
        if (p[0] >= '1' && p[0] <= '9') {
            char *rest;
            unsigned long length = strtoul(p, &rest, 10);
            if (rest + length == end && rest < end)
                name = rest;
        }
    snprintf(text, size, "%.40s", name);
}

const char *shared_name(const struct program *program, uint32_t at, char *text, size_t size)
{
    const struct function *f = program->kernel->function;
    const struct module *m = f->module;
    text[0] = 0;
    for (int which = 0; which < 2; ++which) {
        size_t count = which ? m->variable_count : f->variable_count;
        for (size_t i = 0; i < count; ++i) {
            const struct variable *v = which ? m->variables[i] : f->variables[i];
            if (v->space != SPACE_SHARED || v->dynamic || at < v->offset ||
                at - v->offset >= v->size)
                continue;
            char name[48];
            variable_name(v, name, sizeof name);
            snprintf(text, size, " (%s + %u)", name, at - (uint32_t)v->offset);
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

static bool opcode_has(const struct warp *w, uint32_t insn, const char *part)
{
    return strstr(w->cta->program->insns[insn & ~RACE_STRONG].opcode, part) != NULL;
}

// Whether a read at `stamp` was by a product of warp p that a clock knows to have read its operands.
static bool product_read(const struct races *s, const struct warp *w, const struct clock *known,
                         int p, uint32_t stamp, uint32_t insn)
{
    return known && known->at[products_of(s, p)] >= stamp && opcode_has(w, insn, "wgmma.mma");
}

// Of some lanes of warp p: those of which a read at `stamp` is not known to come before what the lane
// does now.
static uint32_t unordered(const struct warp *w, int lane, int p, uint32_t lanes, uint32_t stamp,
                          uint32_t insn)
{
    const struct warp_clock *c = w->clock;
    const struct clock *known = c->known[lane];
    if (stamp <= c->base[lane] || (p == w->index && stamp <= c->wbase[lane]))
        return 0;
    if (p == w->index)
        lanes &= ~(1u << lane);
    if (!known || known->threads < (uint32_t)(p + 1) * WARP)
        return lanes;
    uint32_t later = 0;
    for (int i = 0; i < WARP; ++i)
        later |= (uint32_t)(known->at[p * WARP + i] < stamp) << i;
    lanes &= later;
    return lanes && product_read(w->cta->races, w, known, p, stamp, insn) ? 0 : lanes;
}

// A loop around atom.cas begins with a plain load of its place, as CUDA's own examples do.
static bool is_cas(const struct warp *w, uint32_t insn)
{
    return strstr(w->cta->program->insns[insn & ~RACE_STRONG].opcode, ".cas") != NULL;
}

static bool polls(const struct warp *w, uint32_t insn)
{
    return w->cta->program->insns[insn & ~RACE_STRONG].polls;
}

// Volatile accesses of two lanes that run together. A lane that waits for a flag of another one runs apart
// from it, or asks again: then the flag may come in any round.
static bool in_step(const struct warp *w, const struct op *op, int lane, uint32_t thread,
                    uint32_t insn)
{
    return thread / WARP == (uint32_t)w->index && thread % WARP != (uint32_t)lane &&
           w->here >> thread % WARP & 1 && opcode_has(w, op->insn, ".volatile") &&
           opcode_has(w, insn, ".volatile") && !polls(w, op->insn) && !polls(w, insn);
}

// Loads and stores of matrices: the lanes of a warp meet at each, and who has come to one has done with
// the one before.
static bool is_matrix(const struct warp *w, uint32_t insn)
{
    return opcode_has(w, insn, "wmma.load") || opcode_has(w, insn, "wmma.store") ||
           opcode_has(w, insn, "ldmatrix") || opcode_has(w, insn, "stmatrix");
}

static bool both_matrices(const struct warp *w, const struct op *op, uint32_t warp, uint32_t insn)
{
    return warp == (uint32_t)w->index && is_matrix(w, op->insn) && is_matrix(w, insn);
}

static bool is_bulk(const struct program *program, uint32_t insn)
{
    return program->insns[insn & ~RACE_STRONG].bulk;
}

static void report_shared(struct warp *w, const struct op *op, int lane, uint32_t at,
                          uint32_t bytes, enum race_access access, uint32_t thread, uint32_t insn,
                          bool wrote, uint32_t stamp)
{
    const struct cta *cta = w->cta;
    char who[64], where[544], variable[80];
    const char *verb = access == RACE_READ || access == RACE_LOOK ? "reads"
                       : access == RACE_WRITE                     ? "writes"
                       : is_bulk(cta->program, op->insn)          ? "copies (cp.async.bulk)"
                                                                  : "copies (cp.async)";
    race_line(cta->program, insn, where, sizeof where);
    shared_name(cta->program, at, variable, sizeof variable);
    if (cta->film)
        film_party(cta->film, thread & ~RACE_ASYNC_THREAD, at, bytes, wrote,
                   wrote && stamp == RACE_PENDING);
    if (wrote && stamp == RACE_PENDING) {
        name_thread(cta, thread & ~RACE_ASYNC_THREAD, who, sizeof who);
        race_report(
            w, op, lane, FAULT_RACE, insn,
            "%s %u bytes of shared memory at %u%s that a cp.async%s of %s at %s is still writing: "
            "nothing has waited for it",
            verb, bytes, at, variable, is_bulk(cta->program, insn) ? ".bulk" : "", who, where);
        return;
    }
    name_thread(cta, thread, who, sizeof who);
    bool same_warp = thread / WARP == (uint32_t)w->index;
    race_report(w, op, lane, FAULT_RACE, insn,
                "%s %u bytes of shared memory at %u%s that %s %s at %s with no %s in "
                "between",
                verb, bytes, at, variable, who, wrote ? "wrote" : "read", where,
                same_warp ? "__syncwarp or barrier" : "barrier");
}

// ---- Other CTAs of the cluster --------------------------------------------------------------------
//
// Their accesses to a CTA's shared memory are kept beside its cells, which say RACE_FOREIGN: whatever
// meets one looks closer.

struct party { // who accessed a cell; stamp 0: nobody
    uint32_t cta, stamp;
    union { // as a page has it; read and written whole, which is quicker than field by field
        uint32_t who;
        struct {
            uint32_t thread : THREAD_BITS, insn : INSN_BITS, strong : 1;
        };
    };
};

enum foreign_access { FOREIGN_WRITE, FOREIGN_READ, FOREIGN_READ_2, FOREIGN_PARTIES };
struct foreign {
    struct party *of[FOREIGN_PARTIES]; // of each cell: a write, and reads by two threads
};

static bool party_before(const struct warp *w, int lane, const struct party *p);

static void foreign_make(struct races *s)
{
    if (s->foreign)
        return;
    s->foreign = need(calloc(1, sizeof *s->foreign));
    for (int k = 0; k < FOREIGN_PARTIES; ++k)
        s->foreign->of[k] = need(calloc(s->cells, sizeof **s->foreign->of));
}

static void foreign_free(struct races *s)
{
    for (int k = 0; s->foreign && k < FOREIGN_PARTIES; ++k)
        free(s->foreign->of[k]);
    free(s->foreign);
    s->foreign = NULL;
}

static void foreign_start(struct races *s)
{
    for (int k = 0; s->foreign && k < FOREIGN_PARTIES; ++k)
        memset(s->foreign->of[k], 0, s->cells * sizeof **s->foreign->of);
}

static bool foreign_before(const struct warp *w, int lane, uint32_t cell, enum foreign_access which)
{
    return party_before(w, lane, &w->cta->races->foreign->of[which][cell]);
}

// The CTA of that number in a warp's cluster.
static struct cta *cta_of(const struct warp *w, uint32_t number)
{
    for (int rank = 0; rank < cluster_size(w->cta); ++rank)
        if ((uint32_t)cta_at(w->cta, rank)->number == number)
            return cta_at(w->cta, rank);
    return w->cta;
}

// An access of a lane to the shared memory of `home` that is in no order with that of a party. where: of
// the launch's CTAs only one's memory is meant, so that of others is named.
static void report_cluster(struct warp *w, const struct op *op, int lane, const struct cta *home,
                           uint32_t at, uint32_t bytes, enum race_access access,
                           const struct party *p, const char *did)
{
    char who[64], where[544], variable[80], of[64] = "", block[64] = "";
    const struct cta *other = cta_of(w, p->cta);
    const char *verb = access == RACE_READ ? "reads" : access == RACE_WRITE ? "writes" : "copies";
    race_line(w->cta->program, p->insn, where, sizeof where);
    shared_name(w->cta->program, at, variable, sizeof variable);
    name_thread(other, p->thread, who, sizeof who);
    if (home != w->cta)
        snprintf(of, sizeof of, " of block (%u,%u,%u)", home->index[0], home->index[1],
                 home->index[2]);
    if (other != w->cta)
        snprintf(block, sizeof block, " of block (%u,%u,%u)", other->index[0], other->index[1],
                 other->index[2]);
    race_report(
        w, op, lane, FAULT_RACE, p->insn,
        "%s %u bytes of shared memory at %u%s%s that %s%s %s at %s with no barrier%s in between",
        verb, bytes, at, variable, of, who, block, did, where,
        other == w->cta ? "" : " of the cluster");
}

// A write to the CTA's own memory: whether it was reported for a read by another CTA. Those reads are
// then of the past.
static bool foreign_read(struct warp *w, const struct op *op, uint32_t lanes, uint32_t cell,
                         uint32_t at, uint32_t bytes, enum race_access access)
{
    struct foreign *f = w->cta->races->foreign;
    bool told = false;
    for (int k = FOREIGN_READ; k <= FOREIGN_READ_2; ++k) {
        struct party *p = &f->of[k][cell];
        for (uint32_t left = p->stamp ? lanes : 0; left && !told; left &= left - 1) {
            int lane = __builtin_ctz(left);
            if ((op->order & ORDER_STRONG && p->strong) || party_before(w, lane, p))
                continue;
            report_cluster(w, op, lane, w->cta, at, bytes, access, p, "read");
            told = true;
        }
        *p = (struct party){0};
    }
    return told;
}

// After writes to all cells that others have read, the lines say that nobody has.
static void foreign_settle(struct races *s, uint32_t first, uint32_t last)
{
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        bool read = false;
        for (uint32_t i = line * LINE; i < (line + 1) * LINE && i < s->cells; ++i)
            read |=
                s->foreign->of[FOREIGN_READ][i].stamp || s->foreign->of[FOREIGN_READ_2][i].stamp;
        if (!read && s->reads[line].stamp == RACE_FOREIGN)
            s->reads[line] = (struct latest){.stamp = s->time, .warp = SEVERAL};
    }
}

bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line)
{
    struct latest *l = &s->writes[line], now = {0};
    for (uint32_t i = line * LINE; i < (line + 1) * LINE; ++i) {
        if (s->write_stamp[i] == RACE_PENDING)
            return false;
        uint32_t warp = s->write_stamp[i] == RACE_FOREIGN ? SEVERAL : s->write_thread[i] / WARP;
        if (s->write_stamp[i] > c->base_all)
            latest_note(&now, s->write_stamp[i], warp, 0, c->base_all);
    }
    *l = now;
    return latest_ordered(c, l);
}

// Whether an access to a line is in order by what all lanes know; where the line does not show it, by
// its cells.
static bool line_ordered(const struct warp *w, uint32_t line, uint32_t cells, bool write)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    const uint32_t *stamps = s->write_stamp + line * LINE, *threads = s->write_thread + line * LINE;
    bool before = latest_ordered(c, &s->writes[line]) ||
                  (s->writes[line].stamp >= RACE_FOREIGN && race_line_arrived(s, c, line));
    for (uint32_t left = before ? 0 : cells; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (stamps[i] > c->least[threads[i] / WARP % WARP])
            return false;
    }
    if (!write || latest_ordered(c, &s->reads[line]))
        return true;
    if (s->reads[line].stamp == RACE_FOREIGN)
        return false;
    for (int p = 0; p < s->warps; ++p) {
        if (reading_before(&s->read[p], line, c->least[p]))
            continue;
        reading_settle(&s->read[p], line);
        for (uint32_t left = cells; left; left &= left - 1)
            if (s->read[p].stamp[line * LINE + (uint32_t)__builtin_ctz(left)] > c->least[p])
                return false;
    }
    return true;
}

// An access that is in order by what all lanes know: noted. False, with nothing done, where that
// does not say so.
static bool plainly_ordered(struct warp *w, const struct op *op, uint32_t lanes, uint32_t first,
                            uint32_t last, bool write)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, thread = warp * WARP + 31 - (uint32_t)__builtin_clz(lanes);
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (!line_ordered(w, line, line_cells(line, first, last), write))
            return false;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (write)
            latest_note(&s->writes[line], c->now_all, warp, 0, c->base_all);
        else
            reading_note(s, c, warp, line, line_cells(line, first, last), lanes, 0);
    for (uint32_t cell = first; cell <= last; ++cell) {
        if (write) {
            s->write_stamp[cell] = c->now_all;
            s->write_thread[cell] = thread;
            s->write_insn[cell] = op->insn;
        } else {
            s->read[warp].insn[cell] = op->insn;
        }
    }
    return true;
}

// The same of the issue of a copy: a write that is on its way.
static bool plainly_issued(struct warp *w, const struct op *op, int lane, uint32_t first,
                           uint32_t last)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, count = last - first + 1;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (!latest_ordered(c, &s->reads[line]))
            return false;
    if (!writes_before(s, c, first, last))
        return false;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        latest_note(&s->writes[line], RACE_PENDING, warp, 0, c->base_all);
    fill(s->write_stamp + first, count, RACE_PENDING);
    fill(s->write_thread + first, count, (warp * WARP + (uint32_t)lane) | RACE_ASYNC_THREAD);
    fill(s->write_insn + first, count, op->insn);
    s->pending = true;
    return true;
}

// What the lines keep, before an access that is looked at cell by cell.
static void note_lines(struct warp *w, uint32_t first, uint32_t last, uint32_t stamp, bool write,
                       bool strong)
{
    struct races *s = w->cta->races;
    uint32_t base = w->clock->base_all, warp = (uint32_t)w->index;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        for (uint32_t p = 0; p < (uint32_t)s->warps; ++p)
            if (write || p == warp)
                reading_settle(&s->read[p], line);
        latest_note(write ? &s->writes[line] : &s->reads[line], stamp, warp, 0, base);
        struct reading *own = &s->read[warp].reading[line];
        if (!write)
            own->older = own->older > stamp ? own->older : stamp;
        if (!write && strong)
            own->strong = stamp;
    }
    s->pending |= stamp >= RACE_FOREIGN;
}

// Which of an access's bytes, the `bytes` from `at` on, lie in `size` bytes from `from` on: the first of
// them, and how many.
struct part {
    uint32_t first, count;
};

static struct part part_in(uint64_t at, uint32_t bytes, uint64_t from, uint64_t size)
{
    uint64_t low = from > at ? from : at, end = at + bytes;
    uint64_t high = from + size < end ? from + size : end;
    return (struct part){(uint32_t)(low - at), (uint32_t)(high - low)};
}

// Whether a store of `value` leaves a part of what is in memory as it is: two writes of the same value are
// no race.
static bool stores_same(const void *memory, const void *value, struct part p)
{
    return !memcmp((const uint8_t *)memory + p.first, (const uint8_t *)value + p.first, p.count);
}

void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    struct cta *cta = w->cta;
    struct races *s = cta->races;
    if (!s || !lanes || !bytes || at + (uint64_t)bytes > cta->shared_bytes)
        return;
    struct warp_clock *c = w->clock;
    bool strong = op->order & ORDER_STRONG, write = access == RACE_WRITE || access == RACE_ASYNC;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    if (access == RACE_LOOK && writes_before(s, c, first, last))
        return;
    if (c->now_all && !strong && access <= RACE_WRITE &&
        plainly_ordered(w, op, lanes, first, last, write))
        return;
    if (access == RACE_ASYNC && !strong &&
        plainly_issued(w, op, 31 - __builtin_clz(lanes), first, last))
        return;
    uint32_t mine = (uint32_t)w->index * WARP, insn = op->insn | (strong ? RACE_STRONG : 0);
    int rep = 31 - __builtin_clz(lanes);
    bool told = false;
    uint32_t now = write || !c->now_all ? c->now[rep] : c->now_all;
    if (access != RACE_LOOK)
        note_lines(w, first, last, access == RACE_ASYNC ? RACE_PENDING : now, write, strong);
    // Neighbouring cells mostly have the same stamps: those that were in order are not compared
    // again.
    uint32_t good_stamp = 0, good_thread = 0;
    struct {
        uint32_t stamp, lanes, insn;
    } good[WARP];
    if (write)
        memset(good, 0, (size_t)s->warps * sizeof *good);
    for (uint32_t cell = first; cell <= last; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp > c->base_all && !(stamp == good_stamp && thread == good_thread) &&
            !(strong && s->write_insn[cell] & RACE_STRONG &&
              !in_step(w, op, rep, thread, s->write_insn[cell])) &&
            !told) {
            bool all = true;
            for (uint32_t left = lanes; left && !told; left &= left - 1) {
                int lane = __builtin_ctz(left);
                if (stamp == RACE_FOREIGN
                        ? foreign_before(w, lane, cell, FOREIGN_WRITE)
                        : stamp != RACE_PENDING && ordered(w, lane, thread, stamp))
                    continue;
                all = false;
                if (!write && is_cas(w, s->write_insn[cell]))
                    continue;
                if (stamp != RACE_PENDING &&
                    both_matrices(w, op, thread / WARP, s->write_insn[cell]))
                    continue;
                if (access == RACE_WRITE && value && stamp != RACE_PENDING &&
                    stores_same(cta->shared + at, value,
                                part_in(at, bytes, (uint64_t)cell << s->shift, 1u << s->shift)))
                    continue;
                if (stamp == RACE_FOREIGN)
                    report_cluster(w, op, lane, cta, at, bytes, access,
                                   &s->foreign->of[FOREIGN_WRITE][cell], "wrote");
                else
                    report_shared(w, op, lane, at, bytes, access, thread, s->write_insn[cell], true,
                                  stamp);
                told = true;
            }
            if (all && stamp != RACE_FOREIGN)
                good_stamp = stamp, good_thread = thread;
        }
        if (access == RACE_LOOK)
            continue;
        if (!write) {
            struct read_plane *r = &s->read[w->index];
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
            if (r->stamp[cell] <= c->base_all ||
                (r->stamp[cell] == good[p].stamp && r->lanes[cell] == good[p].lanes &&
                 r->insn[cell] == good[p].insn) ||
                (strong && !(p == w->index && opcode_has(w, op->insn, ".volatile")) &&
                 (r->insn[cell] & RACE_STRONG || is_cas(w, op->insn))))
                continue;
            for (uint32_t left = lanes; left && !told; left &= left - 1) {
                int lane = __builtin_ctz(left);
                uint32_t readers =
                    unordered(w, lane, p, r->lanes[cell], r->stamp[cell], r->insn[cell]);
                if (strong && r->insn[cell] & RACE_STRONG) // volatile both, or neither races
                    readers = opcode_has(w, r->insn[cell], ".volatile") && !polls(w, r->insn[cell])
                                  ? readers & w->here
                                  : 0;
                if (readers && !both_matrices(w, op, (uint32_t)p, r->insn[cell])) {
                    uint32_t reader = (uint32_t)p * WARP + (uint32_t)__builtin_ctz(readers);
                    report_shared(w, op, lane, at, bytes, access, reader, r->insn[cell], false, 0);
                    told = true;
                }
            }
            if (!told) {
                good[p].stamp = r->stamp[cell];
                good[p].lanes = r->lanes[cell];
                good[p].insn = r->insn[cell];
            }
        }
        if (s->foreign && !told)
            told = foreign_read(w, op, lanes, cell, at, bytes, access);
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : now;
        s->write_thread[cell] =
            (mine + (uint32_t)rep) | (access == RACE_ASYNC ? RACE_ASYNC_THREAD : 0);
        s->write_insn[cell] = insn;
    }
    if (write && s->foreign)
        foreign_settle(s, first, last);
}

void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t stamp)
{
    struct races *s = home->races;
    if (!s || !bytes)
        return;
    uint32_t thread = (uint32_t)w->index * WARP + (uint32_t)lane;
    uint32_t first = at >> s->shift, count = ((at + bytes - 1) >> s->shift) - first + 1;
    uint32_t *restrict stamps = s->write_stamp + first, *restrict threads = s->write_thread + first;
    const uint32_t *insns = s->write_insn + first;
    for (uint32_t i = 0; i < count; ++i) {
        bool its = (stamps[i] == RACE_PENDING) & (insns[i] == insn) &
                   (threads[i] == (thread | RACE_ASYNC_THREAD));
        stamps[i] = its ? stamp : stamps[i];
        threads[i] = its ? thread : threads[i];
    }
}

// Whether a fence of this warp has shown what `thread` did up to `stamp`.
static bool shown(const struct warp *w, uint32_t thread, uint32_t stamp)
{
    const struct clock *c = w->clock->proxy;
    return c && (stamp <= c->base || stamp <= c->at[thread]);
}

bool race_proxy(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                bool store)
{
    const struct cta *cta = w->cta;
    const struct races *s = cta->races;
    if (!s || !bytes || at + (uint64_t)bytes > cta->shared_bytes)
        return false;
    for (uint32_t cell = at >> s->shift; cell <= (at + bytes - 1) >> s->shift; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp <= s->start || stamp >= RACE_FOREIGN ||
            is_bulk(cta->program, s->write_insn[cell]))
            continue;
        bool fenced = shown(w, thread, stamp) || shown(&cta->warp[thread / WARP], thread, stamp);
        for (int i = 0; i < cta->warps && !fenced; ++i)
            fenced = shown(&cta->warp[i], thread, stamp);
        if (fenced)
            continue;
        char who[64], where[544], variable[80];
        race_line(cta->program, s->write_insn[cell], where, sizeof where);
        shared_name(cta->program, at, variable, sizeof variable);
        name_thread(cta, thread, who, sizeof who);
        if (cta->film)
            film_party(cta->film, thread, at, bytes, true, false);
        race_report(w, op, lane, FAULT_RACE, s->write_insn[cell],
                    "%s %u bytes of shared memory at %u%s that %s wrote at %s: a proxy fence is "
                    "missing in between (fence.proxy.async)",
                    store ? "copies" : "reads", bytes, at, variable, who, where);
        return true;
    }
    return false;
}

// ---- Global memory ------------------------------------------------------------------------------

enum { SLOTS = 1 << 18, PLACES = 1024, MOST_BYTES = 384 << 20 };

_Static_assert(THREAD_BITS + INSN_BITS + 1 == 32, "a party is three words of a page");

static uint32_t who_is(const struct warp *w, int lane, const struct op *op, bool strong)
{
    uint32_t thread = ((uint32_t)w->index * WARP + (uint32_t)lane) % (1 << THREAD_BITS);
    return thread | (uint32_t)op->insn % (1 << INSN_BITS) << THREAD_BITS |
           (uint32_t)strong << (THREAD_BITS + INSN_BITS);
}

static struct party party_at(struct page *page, enum cell_party which, uint32_t cell)
{
    return (struct party){.cta = page_words(page, which, PARTY_CTA)[cell],
                          .stamp = page_words(page, which, PARTY_STAMP)[cell],
                          .who = page_words(page, which, PARTY_WHO)[cell]};
}

static void set_party(struct page *page, enum cell_party which, uint32_t cell, struct party p)
{
    page_words(page, which, PARTY_CTA)[cell] = p.cta;
    page_words(page, which, PARTY_STAMP)[cell] = p.stamp;
    page_words(page, which, PARTY_WHO)[cell] = p.who;
}

struct global_place { // where atomics and strong accesses meet
    uint64_t at;
    struct world *gpu, *cta;    // what was released to the GPU; to the CTA only
    struct completed completed; // whose reads are complete
    struct global_place *next;
};

struct global_races {
    unsigned shift;
    struct page *pages[SLOTS], *last_page;
    size_t page_count, most_pages;
    pthread_mutex_t lock[PLACES], turn[PLACES]; // turn: of atomics, which come one after another
    struct global_place *places[PLACES];
    size_t place_count;
};

static size_t page_bytes(unsigned shift)
{
    return sizeof(struct page) +
           ((size_t)PAGE >> shift) * CELL_PARTIES * PARTY_WORDS * sizeof(uint32_t);
}

unsigned global_races_shift(const struct global_races *races)
{
    return races->shift;
}

// Empty tables for the next launch: they are large, and a kernel may be small.
static struct global_races *spare_races;

struct global_races *global_races_new(const struct program *program)
{
    struct global_races *g = __atomic_exchange_n(&spare_races, NULL, __ATOMIC_ACQUIRE);
    if (!g) {
        g = need(calloc(1, sizeof *g));
        for (int i = 0; i < PLACES; ++i) {
            pthread_mutex_init(&g->lock[i], NULL);
            pthread_mutex_init(&g->turn[i], NULL);
        }
    }
    g->shift = program->cell_shift;
    g->most_pages = MOST_BYTES / page_bytes(g->shift);
    return g;
}

void global_races_free(struct global_races *g)
{
    if (!g)
        return;
    for (struct page *p = g->last_page, *next; p; p = next) {
        next = p->next;
        *p->slot = NULL;
        free(p);
    }
    g->last_page = NULL;
    g->page_count = 0;
    for (int i = 0; i < PLACES; ++i) {
        while (g->places[i]) {
            struct global_place *p = g->places[i];
            g->places[i] = p->next;
            world_drop(&p->gpu);
            world_drop(&p->cta);
            free(p->completed.of);
            free(p);
        }
    }
    g->place_count = 0;
    g = __atomic_exchange_n(&spare_races, g, __ATOMIC_ACQ_REL);
    for (int i = 0; i < PLACES && g; ++i) {
        pthread_mutex_destroy(&g->lock[i]);
        pthread_mutex_destroy(&g->turn[i]);
    }
    free(g);
}

static uint64_t scatter(uint64_t x)
{
    return (x * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

struct page *race_page(struct worker *worker, uint64_t number)
{
    struct global_races *g = worker->global_races;
    if (worker->page && worker->page->number == number)
        return worker->page;
    for (size_t i = scatter(number) % SLOTS;; i = (i + 1) % SLOTS) {
        struct page *p = __atomic_load_n(&g->pages[i], __ATOMIC_ACQUIRE);
        if (!p) {
            if (__atomic_load_n(&g->page_count, __ATOMIC_RELAXED) >= g->most_pages)
                return NULL;
            struct page *fresh = need(calloc(1, page_bytes(g->shift)));
            fresh->number = number;
            fresh->slot = &g->pages[i];
            fresh->cells = PAGE >> g->shift;
            if (__atomic_compare_exchange_n(&g->pages[i], &p, fresh, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                __atomic_add_fetch(&g->page_count, 1, __ATOMIC_RELAXED);
                fresh->next = __atomic_exchange_n(&g->last_page, fresh, __ATOMIC_RELAXED);
                p = fresh;
            } else {
                free(fresh);
            }
        }
        if (p->number == number)
            return worker->page = p;
    }
}

static bool party_before(const struct warp *w, int lane, const struct party *p)
{
    if (!p->stamp)
        return true;
    if (p->cta == (uint32_t)w->cta->number)
        return ordered(w, lane, p->thread, p->stamp);
    const struct world *world = w->clock->world[lane];
    for (uint32_t low = 0, high = world ? world->count : 0; low < high;) {
        uint32_t middle = (low + high) / 2;
        const struct clock *c = world->of[middle].clock;
        if ((uint32_t)world->of[middle].cta == p->cta)
            return p->stamp <= c->base || p->stamp <= c->at[p->thread];
        if (world->of[middle].cta < p->cta)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

// Whether a read by another CTA is known to be complete.
static bool is_complete(const struct warp *w, const struct party *p)
{
    const struct completed *c = &w->cta->races->completed;
    for (uint32_t low = 0, high = c->count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (c->of[middle].cta == p->cta)
            return p->stamp <= c->of[middle].stamp;
        if (c->of[middle].cta < p->cta)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool mine_of_matrices(const struct warp *w, const struct op *op, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && both_matrices(w, op, p->thread / WARP, p->insn);
}

// Whether an access that strong clocks do not order is a race all the same, or none.
static bool mine_in_step(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && in_step(w, op, lane, p->thread, p->insn);
}

static void report_global(struct warp *w, const struct op *op, int lane, uint64_t at,
                          uint32_t bytes, enum race_access access, const struct party *p,
                          bool wrote)
{
    const struct cta *cta = w->cta;
    const struct launch *launch = cta->launch;
    const struct allocation *a = memory_find(at, bytes, NULL);
    unsigned x = launch->block[0], y = launch->block[1];
    char where[544], block[48] = "", offset[64] = "";
    race_line(cta->program, p->insn, where, sizeof where);
    bool mine = p->cta == (uint32_t)cta->number;
    const unsigned theirs[3] = {p->cta % launch->grid[0],
                                p->cta / launch->grid[0] % launch->grid[1],
                                p->cta / launch->grid[0] / launch->grid[1]};
    if (!mine)
        snprintf(block, sizeof block, " of block (%u,%u,%u)", theirs[0], theirs[1], theirs[2]);
    if (cta->film)
        film_global_party(cta->film, theirs, p->thread, at, bytes, wrote);
    if (a)
        snprintf(offset, sizeof offset, " (byte %llu of its allocation)",
                 (unsigned long long)(at - a->base));
    race_report(w, op, lane, FAULT_RACE, p->insn,
                "%s %u bytes at 0x%llx%s that thread (%u,%u,%u)%s %s at %s with %s in between",
                access == RACE_READ ? "reads" : "writes", bytes, (unsigned long long)at, offset,
                p->thread % x, p->thread / x % y, p->thread / x / y, block,
                wrote ? "wrote" : "read", where,
                !mine                                    ? "no release and acquire"
                : p->thread / WARP == (unsigned)w->index ? "no __syncwarp or barrier"
                                                         : "no barrier");
}

static void note_read(const struct warp *w, int lane, struct page *page, uint32_t cell,
                      struct party me)
{
    struct party r[2] = {party_at(page, CELL_READ, cell), party_at(page, CELL_READ_2, cell)};
    for (int k = 0; k < 2; ++k)
        if (r[k].stamp && r[k].cta == me.cta && r[k].thread == me.thread) {
            if (!me.strong || r[k].strong || r[k].stamp != me.stamp)
                set_party(page, CELL_READ + (unsigned)k, cell, me);
            return;
        }
    for (int k = 0; k < 2; ++k)
        if (!r[k].stamp ||
            ((r[k].cta == me.cta || w->clock->world[lane]) && party_before(w, lane, &r[k]))) {
            set_party(page, CELL_READ + (unsigned)k, cell, me);
            return;
        }
    if (r[0].cta == r[1].cta && r[1].cta != me.cta) // readers of two CTAs are kept, if there are
        set_party(page, CELL_READ_2, cell, me);
}

enum { CELL_WORDS = CELL_PARTIES * PARTY_WORDS, MOST_ALIKE = 32 };

// How many of n cells, from the first on, have its parties, as most neighbours have; and which these are.
// There may be more.
static uint32_t cells_alike(const struct page *page, uint32_t cell, uint32_t n,
                            uint32_t parties[CELL_WORDS])
{
    const uint32_t *of[CELL_WORDS];
    size_t differs = 0, count = n < MOST_ALIKE ? n : MOST_ALIKE;
    for (size_t k = 0; k < CELL_WORDS; ++k) {
        of[k] = page->words + k * page->cells + cell;
        parties[k] = of[k][0];
    }
    size_t first = page->written ? 0 : PARTY_WORDS; // all zeros, the words of who writes
    for (size_t k = first; k < CELL_WORDS; ++k) {
        uint32_t any = 0;
        for (size_t j = 0; j < count; ++j)
            any |= of[k][j] ^ parties[k];
        differs |= any;
    }
    for (size_t k = 0; differs && k < CELL_WORDS; ++k)
        for (size_t j = 1; j < count; ++j)
            if (of[k][j] != parties[k])
                count = j;
    return (uint32_t)count;
}

// Gives cells that were alike the parties that the first of them has by now.
static void cells_follow(struct page *page, uint32_t cell, uint32_t n,
                         const uint32_t parties[CELL_WORDS])
{
    for (uint32_t k = 0; k < CELL_WORDS; ++k) {
        uint32_t *of = page->words + k * page->cells + cell, now = of[0];
        for (uint32_t j = 1; now != parties[k] && j < n; ++j)
            of[j] = now;
    }
}

void race_global(struct warp *w, const struct op *op, uint32_t lanes, uint64_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    struct worker *worker = w->cta->worker;
    if (!w->clock || !worker->global_races || !lanes || !bytes)
        return;
    unsigned shift = worker->global_races->shift;
    int lane = 31 - __builtin_clz(lanes), other = __builtin_ctz(lanes);
    bool strong = op->order & ORDER_STRONG, told = false;
    struct party me = {.cta = (uint32_t)w->cta->number,
                       .stamp = w->clock->now[lane],
                       .who = who_is(w, lane, op, strong)};
    struct page *page = NULL;
    uint64_t cell_at = at >> shift, end = ((at + bytes - 1) >> shift) + 1;
    for (uint32_t alike; cell_at < end; cell_at += alike) {
        uint64_t number = (cell_at << shift) / PAGE;
        if (!page || page->number != number) {
            if (page)
                page_unlock(page);
            page = race_page(worker, number);
            if (!page)
                return;
            page_lock(page);
        }
        uint32_t cell = cell_at & ((PAGE >> shift) - 1), left = page->cells - cell;
        uint32_t n = end - cell_at < left ? (uint32_t)(end - cell_at) : left;
        // What becomes of the first becomes of all that are alike.
        uint32_t parties[CELL_WORDS] = {0};
        alike = n > 1 ? cells_alike(page, cell, n, parties) : 1;
        struct part part = part_in(at, bytes, cell_at << shift, (uint64_t)alike << shift);
        struct party p = party_at(page, CELL_WRITE, cell);
        // Of lanes that all read, one may have written it itself.
        int by = other != lane && party_before(w, lane, &p) ? other : lane;
        if (p.stamp && !told && !(strong && p.strong && !mine_in_step(w, op, by, &p)) &&
            !party_before(w, by, &p) && !(access == RACE_READ && is_cas(w, p.insn)) &&
            !mine_of_matrices(w, op, &p) &&
            !(access == RACE_WRITE && value && stores_same((void *)(uintptr_t)at, value, part))) {
            report_global(w, op, by, at, bytes, access, &p, true);
            told = true;
        }
        if (access == RACE_READ) {
            note_read(w, lane, page, cell, me);
            if (other != lane) {
                struct party also = me;
                also.who = who_is(w, other, op, strong);
                note_read(w, other, page, cell, also);
            }
            if (alike > 1)
                cells_follow(page, cell, alike, parties);
            continue;
        }
        for (int k = 0; k < 2; ++k) {
            p = party_at(page, CELL_READ + (unsigned)k, cell);
            if (p.stamp && !told &&
                !(strong && (p.strong || is_cas(w, op->insn)) && !mine_in_step(w, op, lane, &p)) &&
                !party_before(w, lane, &p) && !is_complete(w, &p) && !mine_of_matrices(w, op, &p)) {
                report_global(w, op, lane, at, bytes, access, &p, false);
                told = true;
            }
            set_party(page, CELL_READ + (unsigned)k, cell, (struct party){0});
        }
        set_party(page, CELL_WRITE, cell, me);
        if (alike > 1)
            cells_follow(page, cell, alike, parties);
        page->written = true;
        if (access == RACE_WRITE && value && !strong)
            memcpy((uint8_t *)(uintptr_t)at + part.first, (const uint8_t *)value + part.first,
                   part.count);
    }
    if (page)
        page_unlock(page);
}

// ---- Atomics and fences -------------------------------------------------------------------------

static struct world *world_of(uint64_t cta, struct clock *clock)
{
    struct world *x = need(malloc(sizeof *x + sizeof *x->of));
    *x = (struct world){.refs = 1, .count = 1};
    x->of[0].cta = cta;
    x->of[0].clock = clock_share(clock);
    return x;
}

// The CTAs of a world but one; the world itself if that is not among them.
static struct world *world_without(struct world *world, uint64_t cta)
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

// mine_only: what was released to a CTA is nothing to the others. What a lane knows of its own CTA
// is not in its world: so no clock there has a world in turn, and none grows for ever.
static void acquire_world(struct warp *w, int lane, struct world *world, bool mine_only)
{
    for (uint32_t i = 0; world && i < world->count; ++i)
        if (world->of[i].cta == w->cta->number)
            acquire_lane(w->clock, lane, world->of[i].clock);
    if (mine_only || !world)
        return;
    struct world *others = world_without(world, w->cta->number);
    world_join(&w->clock->world[lane], others);
    world_drop(&others);
}

// To the whole GPU the releaser's world goes beside its clock; to its CTA (flat false), in it.
static void release_world(struct warp *w, int lane, uint32_t stamp, struct world **place, bool flat)
{
    struct clock *clock = NULL;
    release_lane(w, lane, stamp, &clock);
    if (flat)
        world_drop(&clock->world);
    struct world *mine = world_of(w->cta->number, clock);
    world_join(place, mine);
    world_join(place, w->clock->world[lane]);
    world_drop(&mine);
    clock_drop(&clock);
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

static struct global_place *global_place(struct global_races *g, uint64_t at, bool make)
{
    struct global_place **list = &g->places[scatter(at) % PLACES];
    for (struct global_place *p = *list; p; p = p->next)
        if (p->at == at)
            return p;
    if (!make)
        return NULL;
    struct global_place *p = need(calloc(1, sizeof *p));
    p->at = at;
    p->next = *list;
    __atomic_add_fetch(&g->place_count, 1, __ATOMIC_RELAXED);
    return *list = p;
}

// A flag in global memory is set: who sees it knows that the reads before this CTA's last barrier are
// complete, and those of which this CTA knows.
static void tell_completed(struct warp *w, int lane, uint64_t at)
{
    enum { ENOUGH = 1 << 16 }; // places: an array of volatile elements is no array of flags
    struct races *s = w->cta->races;
    struct global_races *g = w->cta->worker->global_races;
    uint32_t base = w->clock->base[lane];
    if (base <= s->start && !s->seen.count)
        return;
    pthread_mutex_t *lock = &g->lock[scatter(at) % PLACES];
    pthread_mutex_lock(lock);
    bool room = __atomic_load_n(&g->place_count, __ATOMIC_RELAXED) < ENOUGH;
    struct global_place *p = global_place(g, at, room);
    if (p) {
        struct completed mine = {.count = base > s->start, .of = NULL};
        mine.of = need(malloc(sizeof *mine.of));
        mine.of[0].cta = (uint32_t)w->cta->number;
        mine.of[0].stamp = base;
        completed_join(&p->completed, &mine);
        completed_join(&p->completed, &s->seen);
        free(mine.of);
    }
    pthread_mutex_unlock(lock);
}

// What is known at a place of the shared memory of `home`, as the world of others is known.
static struct world *world_at(const struct cta *home, struct clock *clock)
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

// A world, into a clock of `home`.
static void tell_clock(const struct cta *home, struct clock **clock, struct world *world)
{
    for (uint32_t i = 0; i < world->count; ++i)
        if (world->of[i].cta == home->number)
            clock_join(clock, world->of[i].clock);
    struct world *others = world_without(world, home->number);
    world_join(&clock_own(clock, home->races->threads)->world, others);
    world_drop(&others);
}

pthread_mutex_t *race_turn(const struct warp *w, uint64_t at)
{
    struct global_races *g = w->clock ? w->cta->worker->global_races : NULL;
    pthread_mutex_t *turn = g ? &g->turn[scatter(at) % PLACES] : NULL;
    if (turn)
        pthread_mutex_lock(turn);
    return turn;
}

void race_publish(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home)
{
    struct warp_clock *c = w->clock;
    struct global_races *g = w->cta->worker->global_races;
    if (!c || !(op->order & ORDER_STRONG))
        return;
    if (!home && w->cta->program->insns[op->insn].op_class != CLASS_ATOMIC)
        tell_completed(w, lane, at);
    bool releases = op->order & ORDER_RELEASE;
    uint32_t to_cta = releases ? c->now[lane] : c->fenced_cta[lane];
    uint32_t to_gpu = releases && !(op->order & ORDER_CTA) ? c->now[lane] : c->fenced_gpu[lane];
    if (!to_cta)
        return;
    if (home == w->cta) {
        release_lane(w, lane, to_cta, shared_place(w->cta->races, (uint32_t)at, true));
    } else if (home && to_gpu) {
        struct world *mine = NULL;
        release_world(w, lane, to_gpu, &mine, true);
        tell_clock(home, shared_place(home->races, (uint32_t)at, true), mine);
        world_drop(&mine);
    } else if (!home) {
        pthread_mutex_t *lock = &g->lock[scatter(at) % PLACES];
        pthread_mutex_lock(lock);
        struct global_place *p = global_place(g, at, true);
        release_world(w, lane, to_cta, &p->cta, false);
        if (to_gpu && !(op->order & ORDER_CTA))
            release_world(w, lane, to_gpu, &p->gpu, true);
        pthread_mutex_unlock(lock);
    }
    if (releases) {
        step(w, 1u << lane, tick(w->cta));
        summarise(w);
    }
}

void race_observe(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home,
                  bool atomic)
{
    struct warp_clock *c = w->clock;
    struct global_races *g = w->cta->worker->global_races;
    if (!c || !(op->order & ORDER_STRONG))
        return;
    bool now = atomic || op->order & ORDER_ACQUIRE;
    if (home) {
        struct clock **clock = shared_place(home->races, (uint32_t)at, false);
        if (!clock || !*clock)
            return;
        bool alone = home == w->cta && !(*clock)->world;
        struct world *there = alone ? world_of(home->number, *clock) : world_at(home, *clock);
        if (now)
            acquire_world(w, lane, there, alone);
        else
            world_join(&c->seen[lane], there);
        world_drop(&there);
    } else {
        if (!__atomic_load_n(&g->place_count, __ATOMIC_RELAXED))
            return;
        pthread_mutex_t *lock = &g->lock[scatter(at) % PLACES];
        pthread_mutex_lock(lock);
        struct global_place *p = global_place(g, at, false);
        struct world *gpu = p ? world_share(p->gpu) : NULL, *cta = p ? world_share(p->cta) : NULL;
        if (p)
            completed_join(&w->cta->races->seen, &p->completed);
        pthread_mutex_unlock(lock);
        if (now) {
            acquire_world(w, lane, cta, true);
            acquire_world(w, lane, gpu, op->order & ORDER_CTA);
        } else {
            // Of what was released to CTAs, this CTA's part.
            for (uint32_t i = 0; cta && i < cta->count; ++i)
                if (cta->of[i].cta == w->cta->number) {
                    struct world *mine = world_of(w->cta->number, cta->of[i].clock);
                    world_join(&c->seen[lane], mine);
                    world_drop(&mine);
                }
            if (!(op->order & ORDER_CTA))
                world_join(&c->seen[lane], gpu);
        }
        world_drop(&gpu);
        world_drop(&cta);
    }
    if (now) // what is only seen counts from a fence on, and is in no summary; loops see it often
        summarise(w);
}

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu)
{
    struct warp_clock *c = w->clock;
    if (!c)
        return;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        c->fenced_cta[i] = c->now[i];
        if (whole_gpu)
            c->fenced_gpu[i] = c->now[i];
        acquire_world(w, i, c->seen[i], !whole_gpu);
        if (whole_gpu)
            world_drop(&c->seen[i]);
    }
    step(w, lanes, tick(w->cta));
    summarise(w);
}

// ---- Clusters -----------------------------------------------------------------------------------

// Whether a lane knows anything of another CTA: that it has begun.
static bool has_begun(const struct warp *w, int lane, const struct cta *home)
{
    const struct world *world = w->clock->world[lane];
    for (uint32_t i = 0; world && i < world->count; ++i)
        if (world->of[i].cta == home->number)
            return true;
    return false;
}

static struct party own_write(const struct cta *home, uint32_t cell)
{
    const struct races *s = home->races;
    if (s->write_stamp[cell] == RACE_FOREIGN)
        return s->foreign->of[FOREIGN_WRITE][cell];
    if (s->write_stamp[cell] <= s->start)
        return (struct party){0};
    return (struct party){.cta = (uint32_t)home->number,
                          .stamp = s->write_stamp[cell],
                          .thread = s->write_thread[cell] % (1 << THREAD_BITS),
                          .insn = s->write_insn[cell] & ~RACE_STRONG & ((1 << INSN_BITS) - 1),
                          .strong = (s->write_insn[cell] & RACE_STRONG) != 0};
}

// A reader in `home`, of a cell, that is in no order with what the lane does now; stamp 0: there is none.
static struct party own_reader(const struct warp *w, int lane, struct cta *home, uint32_t cell,
                               bool strong)
{
    struct races *s = home->races;
    const struct world *world = w->clock->world[lane];
    const struct clock *known = NULL; // what the lane knows of that CTA
    for (uint32_t i = 0; world && i < world->count; ++i)
        if (world->of[i].cta == home->number)
            known = world->of[i].clock;
    for (uint32_t p = 0; p < (uint32_t)s->warps; ++p) {
        reading_settle(&s->read[p], cell >> LINE_SHIFT);
        const struct read_plane *r = &s->read[p];
        if (r->stamp[cell] <= s->start || (strong && r->insn[cell] & RACE_STRONG) ||
            product_read(s, w, known, (int)p, r->stamp[cell], r->insn[cell]))
            continue;
        for (uint32_t left = r->lanes[cell]; left; left &= left - 1) {
            struct party reader = {.cta = (uint32_t)home->number,
                                   .stamp = r->stamp[cell],
                                   .thread = (p * WARP + (uint32_t)__builtin_ctz(left)) %
                                             (1 << THREAD_BITS),
                                   .insn = r->insn[cell] & ((1 << INSN_BITS) - 1)};
            if (!party_before(w, lane, &reader))
                return reader;
        }
    }
    return (struct party){0};
}

static void note_foreign_read(const struct warp *w, int lane, struct races *s, uint32_t cell,
                              struct party me)
{
    struct party *r[2] = {&s->foreign->of[FOREIGN_READ][cell],
                          &s->foreign->of[FOREIGN_READ_2][cell]};
    for (int k = 0; k < 2; ++k)
        if (!r[k]->stamp || (r[k]->cta == me.cta && r[k]->thread == me.thread) ||
            party_before(w, lane, r[k])) {
            *r[k] = me;
            return;
        }
    if (r[0]->cta == r[1]->cta && r[1]->cta != me.cta) // readers of two CTAs are kept, if there are
        *r[1] = me;
}

// Checks a lane's access to one cell; what it is reported against, into *p and *did. True: in order.
static bool remote_ordered(const struct warp *w, const struct op *op, int lane, struct cta *home,
                           uint32_t cell, enum race_access access, bool same, struct party *p,
                           const char **did)
{
    struct races *s = home->races;
    bool strong = op->order & ORDER_STRONG;
    *did = "read";
    *p = access == RACE_READ ? (struct party){0} : own_reader(w, lane, home, cell, strong);
    for (int k = FOREIGN_READ; access != RACE_READ && !p->stamp && k <= FOREIGN_READ_2; ++k) {
        const struct party *reader = &s->foreign->of[k][cell];
        if (reader->stamp && !(strong && reader->strong) && !party_before(w, lane, reader))
            *p = *reader;
    }
    if (p->stamp)
        return false;
    *p = own_write(home, cell);
    *did = "wrote";
    if (s->write_stamp[cell] == RACE_PENDING)
        *did = "is still copying to (nothing has waited for it)";
    else if (!p->stamp || (strong && p->strong) || same || party_before(w, lane, p) ||
             (access == RACE_READ && is_cas(w, p->insn)))
        return true;
    return false;
}

void race_remote(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                 uint32_t bytes, enum race_access access, const void *value)
{
    struct races *s = home->races;
    if (!s || !w->clock || !bytes || at + (uint64_t)bytes > home->shared_bytes)
        return;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    bool told = !has_begun(w, lane, home), strong = op->order & ORDER_STRONG;
    uint32_t thread = ((uint32_t)w->index * WARP + (uint32_t)lane) % (1 << THREAD_BITS);
    struct party me = {.cta = (uint32_t)w->cta->number,
                       .stamp = w->clock->now[lane],
                       .thread = thread,
                       .insn = op->insn & ((1 << INSN_BITS) - 1),
                       .strong = strong};
    if (told)
        race_report(
            w, op, lane, FAULT_RACE, op->insn,
            "%s shared memory of block (%u,%u,%u), which may not have begun: a barrier of the "
            "cluster comes first",
            access == RACE_READ ? "reads" : "writes", home->index[0], home->index[1],
            home->index[2]);
    foreign_make(s);
    s->pending = true;
    for (uint32_t cell = first; cell <= last; ++cell) {
        struct latest *line =
            access == RACE_READ ? &s->reads[cell >> LINE_SHIFT] : &s->writes[cell >> LINE_SHIFT];
        struct party p;
        const char *did;
        bool same = access == RACE_WRITE && value &&
                    stores_same(home->shared + at, value,
                                part_in(at, bytes, (uint64_t)cell << s->shift, 1u << s->shift));
        if (!told && !remote_ordered(w, op, lane, home, cell, access, same, &p, &did)) {
            report_cluster(w, op, lane, home, at, bytes, access, &p, did);
            told = true;
        }
        if (line->stamp != RACE_PENDING)
            *line = (struct latest){.stamp = RACE_FOREIGN, .warp = SEVERAL};
        if (access == RACE_READ) {
            note_foreign_read(w, lane, s, cell, me);
            continue;
        }
        s->foreign->of[FOREIGN_READ][cell] = s->foreign->of[FOREIGN_READ_2][cell] =
            (struct party){0};
        s->foreign->of[FOREIGN_WRITE][cell] = access == RACE_ASYNC ? (struct party){0} : me;
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : RACE_FOREIGN;
        s->write_thread[cell] = thread | RACE_ASYNC_THREAD;
        s->write_insn[cell] = op->insn | (strong ? RACE_STRONG : 0);
        if (access == RACE_ASYNC)
            line->stamp = RACE_PENDING;
    }
}

// What lanes have done, and know, as a world; they go on at a new time.
static struct world *release_to_world(struct warp *w, uint32_t lanes)
{
    struct clock *clock = NULL;
    release_lanes(w, lanes, &clock);
    struct world *world = world_at(w->cta, clock);
    clock_drop(&clock);
    step(w, lanes, tick(w->cta));
    summarise(w);
    return world;
}

static void acquire_from_world(struct warp *w, uint32_t lanes, struct world *world)
{
    struct world *others = world_without(world, w->cta->number);
    for (uint32_t i = 0; i < world->count; ++i)
        if (world->of[i].cta == w->cta->number)
            acquire_lanes(w->clock, lanes, world->of[i].clock);
    for (uint32_t left = lanes; left; left &= left - 1)
        world_join(&w->clock->world[__builtin_ctz(left)], others);
    world_drop(&others);
    summarise(w);
}

void race_release_to(struct warp *w, uint32_t lanes, struct cta *home, struct clock **clock)
{
    if (home == w->cta) {
        race_release(w, lanes, clock);
        return;
    }
    if (!w->clock)
        return;
    struct world *world = release_to_world(w, lanes);
    tell_clock(home, clock, world);
    world_drop(&world);
}

uint32_t race_delivered(const struct warp *w, int lane, struct cta *home, struct clock **clock)
{
    if (!home->races)
        return 0;
    uint32_t stamp = tick(home), thread = (uint32_t)w->index * WARP + (uint32_t)lane;
    struct clock *c = clock_own(clock, home->races->threads);
    c->at[thread] = c->most = stamp;
    return stamp;
}

void race_init(struct warp *w, int lane, uint32_t at)
{
    struct races *s = w->cta->races;
    if (!s || !w->cta->cluster)
        return;
    if (s->init_count == s->init_capacity) {
        s->init_capacity = s->init_capacity ? 2 * s->init_capacity : 16;
        s->inits = need(realloc(s->inits, s->init_capacity * sizeof *s->inits));
    }
    s->inits[s->init_count++] = (struct init){
        .at = at, .thread = (uint32_t)(w->index * WARP + lane), .stamp = w->clock->now[lane]};
}

// Those that these lanes have initialised go on from one state to the next.
static void inits_go_on(struct warp *w, uint32_t lanes, int from)
{
    struct races *s = w->cta->races;
    for (size_t i = 0; s && i < s->init_count; ++i) {
        struct init *init = &s->inits[i];
        if (init->thread / WARP == (uint32_t)w->index && lanes >> init->thread % WARP & 1 &&
            (int)init->state == from)
            init->state++;
    }
}

void race_init_fence(struct warp *w, uint32_t lanes)
{
    inits_go_on(w, lanes, INIT_DONE);
}

// All have waited at the cluster's barrier: for them it is as if those mbarriers had been there from the
// start.
static void settle_inits(struct races *s)
{
    size_t left = 0;
    for (size_t i = 0; i < s->init_count; ++i) {
        struct init init = s->inits[i];
        if (init.state != INIT_ARRIVED) {
            s->inits[left++] = init;
            continue;
        }
        for (uint32_t cell = init.at >> s->shift; cell <= (init.at + 7) >> s->shift; ++cell)
            if (s->write_stamp[cell] == init.stamp && s->write_thread[cell] == init.thread)
                s->write_stamp[cell] = s->start;
    }
    s->init_count = left;
}

void race_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed)
{
    struct cluster *cluster = w->cta->cluster;
    if (!w->clock)
        return;
    inits_go_on(w, lanes, INIT_FENCED);
    struct world *world;
    if (relaxed) {
        struct clock *begun = NULL;
        clock_own(&begun, w->cta->races->threads)->base = w->cta->races->start;
        world = world_of(w->cta->number, begun);
        clock_drop(&begun);
    } else {
        world = release_to_world(w, lanes);
    }
    world_join(&cluster->pending, world);
    world_drop(&world);
}

void race_cluster_phase(struct cluster *cluster)
{
    world_join(&cluster->complete, cluster->pending);
    world_drop(&cluster->pending);
    for (int rank = 0; rank < cluster->size; ++rank)
        if (cluster->cta[rank]->races)
            settle_inits(cluster->cta[rank]->races);
}

void race_cluster_wait(struct warp *w, uint32_t lanes)
{
    if (w->clock && lanes && w->cta->cluster->complete)
        acquire_from_world(w, lanes, w->cta->cluster->complete);
}

void race_cluster_forget(struct cluster *cluster)
{
    world_drop(&cluster->pending);
    world_drop(&cluster->complete);
}

// What any of a CTA's threads has known.
static struct world *known_at_end(const struct cta *cta)
{
    struct world *all = NULL;
    for (int i = 0; i < cta->warps; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            world_join(&all, cta->warp[i].clock->world[lane]);
    return all;
}

static bool world_knows(const struct world *world, const struct party *p)
{
    for (uint32_t i = 0; world && i < world->count; ++i)
        if ((uint32_t)world->of[i].cta == p->cta)
            return p->stamp <= world->of[i].clock->base ||
                   p->stamp <= world->of[i].clock->at[p->thread];
    return false;
}

void race_leave(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s || !s->foreign)
        return;
    struct world *known = known_at_end(cta);
    struct party last = {0};
    for (uint32_t i = 0; i < s->cells * FOREIGN_PARTIES; ++i) {
        struct party p = s->foreign->of[i / s->cells][i % s->cells];
        if (!p.stamp || (i / s->cells == FOREIGN_WRITE && s->write_stamp[i] != RACE_FOREIGN) ||
            (p.cta == last.cta && p.stamp == last.stamp && p.thread == last.thread) ||
            world_knows(known, &p))
            continue;
        last = p;
        struct cta *other = cta_of(&cta->warp[0], p.cta);
        const struct op at = {.insn = p.insn};
        race_report(
            &other->warp[p.thread / WARP], &at, (int)(p.thread % WARP), FAULT_RACE, p.insn,
            "accesses shared memory of block (%u,%u,%u) at %u, which may have ended by then: "
            "nothing makes it wait (a barrier of the cluster)",
            cta->index[0], cta->index[1], cta->index[2], i % s->cells << s->shift);
    }
    world_drop(&known);
}
