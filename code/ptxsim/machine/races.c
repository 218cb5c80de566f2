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

static void forget_fences(struct warp_clock *c, int lane)
{
    for (int scope = 0; scope < FENCE_SCOPES; ++scope) {
        clock_drop(&c->fenced[scope][lane].known);
        c->fenced[scope][lane] = (struct fenced){0};
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
        for (int kind = 0; kind < RACE_KINDS; ++kind)
            free(s->read[i].strong[kind]);
        for (int lane = 0; lane < WARP; ++lane) {
            forget_known(cta->warp[i].clock, lane);
            forget_fences(cta->warp[i].clock, lane);
        }
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
            for (int kind = 0; kind < RACE_KINDS; ++kind)
                if (s->read[i].strong[kind])
                    memset(s->read[i].strong[kind], 0, s->cells * sizeof(uint32_t)); // the stamps
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
    memset(s->fenced, 0, sizeof s->fenced);
    uint32_t base = s->start = s->time++;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        clock_drop(&c->proxy);
        for (int lane = 0; lane < WARP; ++lane) {
            forget_known(c, lane);
            c->base[lane] = c->wbase[lane] = base;
            c->now[lane] = s->time;
            forget_fences(c, lane);
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
    const struct insn_info *info = &program->insns[insn & RACE_INSN];
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
    other &= RACE_INSN;
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

static const struct insn_info *insn_of(const struct warp *w, uint32_t insn)
{
    return &w->cta->program->insns[insn & RACE_INSN];
}

// Whether a read at `stamp` was by a product of warp p that a clock knows to have read its operands.
static bool product_read(const struct races *s, const struct warp *w, const struct clock *known,
                         int p, uint32_t stamp, uint32_t insn)
{
    return known && known->at[products_of(s, p)] >= stamp &&
           insn_of(w, insn)->family == FAMILY_WGMMA;
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
static bool is_load_of_cas(const struct warp *w, uint32_t load, uint32_t cas)
{
    const struct insn_info *insns = w->cta->program->insns;
    return insns[cas & RACE_INSN].swaps &&
           insns[load & RACE_INSN].element == insns[cas & RACE_INSN].element;
}

static uint32_t race_kind(const struct op *op)
{
    return op->order & ORDER_STRONG ? 1 + (uint32_t)__builtin_ctz(op->bytes) : RACE_PLAIN;
}

// Whether two accesses that share a byte are both strong, and of the same bytes.
static bool are_strong(uint32_t kind, uint32_t other)
{
    return kind != RACE_PLAIN && kind == other;
}

static bool polls(const struct warp *w, uint32_t insn)
{
    return insn_of(w, insn)->polls;
}

// Volatile accesses of two lanes that run together. A lane that waits for a flag of another one runs apart
// from it, or asks again: then the flag may come in any round.
static bool in_step(const struct warp *w, const struct op *op, int lane, uint32_t thread,
                    uint32_t insn)
{
    return thread / WARP == (uint32_t)w->index && thread % WARP != (uint32_t)lane &&
           w->here >> thread % WARP & 1 && insn_of(w, op->insn)->is_volatile &&
           insn_of(w, insn)->is_volatile && !polls(w, op->insn) && !polls(w, insn);
}

// Loads and stores of matrices: the lanes of a warp meet at each, and who has come to one has done with
// the one before.
static bool is_matrix(const struct warp *w, uint32_t insn)
{
    enum family family = insn_of(w, insn)->family;
    return family == FAMILY_FRAGMENT || family == FAMILY_TILES;
}

static bool both_matrices(const struct warp *w, const struct op *op, uint32_t warp, uint32_t insn)
{
    return warp == (uint32_t)w->index && is_matrix(w, op->insn) && is_matrix(w, insn);
}

static bool is_bulk(const struct program *program, uint32_t insn)
{
    return program->insns[insn & RACE_INSN].family == FAMILY_BULK;
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
            uint32_t thread : THREAD_BITS, insn : INSN_BITS, kind : KIND_BITS;
        };
    };
};

enum foreign_access { FOREIGN_WRITE, FOREIGN_READ, FOREIGN_READ_2, FOREIGN_PARTIES };
struct foreign {
    struct party *of[FOREIGN_PARTIES]; // of each cell: a write, and reads by two threads
    struct crowd *crowd;               // all other readers
};

static void crowd_free(struct crowd **crowd);

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
    if (s->foreign)
        crowd_free(&s->foreign->crowd);
    free(s->foreign);
    s->foreign = NULL;
}

static void foreign_start(struct races *s)
{
    for (int k = 0; s->foreign && k < FOREIGN_PARTIES; ++k)
        memset(s->foreign->of[k], 0, s->cells * sizeof **s->foreign->of);
    if (s->foreign)
        crowd_free(&s->foreign->crowd);
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

static bool crowd_races(const struct warp *w, const struct op *op, int lane, const struct crowd *c,
                        uint32_t first, uint32_t n, struct party *p);
static void crowd_forget(struct crowd *c, uint32_t first, uint32_t n);

// Whether a lane's write to shared memory is a race with a read by another CTA; that, into *p.
static bool foreign_races(const struct warp *w, const struct op *op, int lane,
                          const struct foreign *f, uint32_t cell, struct party *p)
{
    for (int k = FOREIGN_READ; k <= FOREIGN_READ_2; ++k) {
        *p = f->of[k][cell];
        if (p->stamp && !are_strong(race_kind(op), p->kind) && !party_before(w, lane, p))
            return true;
    }
    return crowd_has(f->crowd, cell, 1) && crowd_races(w, op, lane, f->crowd, cell, 1, p);
}

static void foreign_forget(struct foreign *f, uint32_t cell)
{
    f->of[FOREIGN_READ][cell] = f->of[FOREIGN_READ_2][cell] = (struct party){0};
    if (crowd_has(f->crowd, cell, 1))
        crowd_forget(f->crowd, cell, 1);
}

// A write to the CTA's own memory: whether it was reported for a read by another CTA. Those reads are
// then of the past.
static bool foreign_read(struct warp *w, const struct op *op, uint32_t lanes, uint32_t cell,
                         uint32_t at, uint32_t bytes, enum race_access access)
{
    struct foreign *f = w->cta->races->foreign;
    struct party p;
    bool told = false;
    for (uint32_t left = lanes; left && !told; left &= left - 1) {
        told = foreign_races(w, op, __builtin_ctz(left), f, cell, &p);
        if (told)
            report_cluster(w, op, __builtin_ctz(left), w->cta, at, bytes, access, &p, "read");
    }
    foreign_forget(f, cell);
    return told;
}

// After writes to all cells that others have read, the lines say that nobody has.
static void foreign_settle(struct races *s, uint32_t first, uint32_t last)
{
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        bool read = false;
        for (uint32_t i = line * LINE; i < (line + 1) * LINE && i < s->cells; ++i)
            read |= s->foreign->of[FOREIGN_READ][i].stamp ||
                    s->foreign->of[FOREIGN_READ_2][i].stamp || crowd_has(s->foreign->crowd, i, 1);
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
        if (s->read[p].reading[line].strong > c->least[p])
            return false;
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

// The last reads of a cell by a warp, of one kind.
struct readers {
    int warp;
    uint32_t kind, stamp, lanes, insn;
};

static struct readers readers_of(const struct races *s, int warp, uint32_t kind, uint32_t cell)
{
    const struct read_plane *r = &s->read[warp];
    const uint32_t *strong = r->strong[kind];
    struct readers of = {.warp = warp, .kind = kind};
    of.stamp = strong ? strong[cell] : r->stamp[cell];
    of.lanes = strong ? strong[s->cells + cell] : r->lanes[cell];
    of.insn = strong ? strong[2 * s->cells + cell] : r->insn[cell];
    return of;
}

static void note_reader(struct races *s, int warp, uint32_t kind, uint32_t cell, uint32_t lanes,
                        uint32_t now, uint32_t insn)
{
    struct read_plane *r = &s->read[warp];
    uint32_t **strong = &r->strong[kind];
    if (kind != RACE_PLAIN && !*strong)
        *strong = need(calloc(s->cells, 3 * sizeof **strong));
    uint32_t *stamp = *strong ? *strong : r->stamp;
    uint32_t *who = *strong ? *strong + s->cells : r->lanes;
    uint32_t *insns = *strong ? *strong + 2 * s->cells : r->insn;
    who[cell] = (stamp[cell] == now ? who[cell] : 0) | lanes;
    stamp[cell] = now;
    insns[cell] = insn;
}

// The first of some lanes whose write is a race with such reads, and the thread that reads; -1: none is.
static int race_with(const struct warp *w, const struct op *op, uint32_t lanes,
                     const struct readers *r, uint32_t *reader)
{
    bool strong = are_strong(race_kind(op), r->kind);
    bool in_step = strong && r->warp == w->index && insn_of(w, op->insn)->is_volatile &&
                   insn_of(w, r->insn)->is_volatile && !polls(w, r->insn);
    if ((strong && !in_step) ||
        (op->order && r->kind == RACE_PLAIN && is_load_of_cas(w, r->insn, op->insn)) ||
        both_matrices(w, op, (uint32_t)r->warp, r->insn))
        return -1;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        uint32_t readers = unordered(w, lane, r->warp, r->lanes, r->stamp, r->insn);
        readers &= in_step ? w->here : ~0u;
        *reader = (uint32_t)r->warp * WARP + (readers ? (uint32_t)__builtin_ctz(readers) : 0);
        if (readers)
            return lane;
    }
    return -1;
}

void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    struct cta *cta = w->cta;
    struct races *s = cta->races;
    if (!s || !lanes || !bytes || !within(at, bytes, cta->shared_bytes))
        return;
    struct warp_clock *c = w->clock;
    uint32_t kind = race_kind(op);
    bool strong = kind != RACE_PLAIN, write = access == RACE_WRITE || access == RACE_ASYNC;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    if (access == RACE_LOOK && writes_before(s, c, first, last))
        return;
    if (c->now_all && !strong && access <= RACE_WRITE &&
        plainly_ordered(w, op, lanes, first, last, write))
        return;
    if (access == RACE_ASYNC && !strong &&
        plainly_issued(w, op, 31 - __builtin_clz(lanes), first, last))
        return;
    uint32_t mine = (uint32_t)w->index * WARP, insn = op->insn | kind << RACE_KIND_SHIFT;
    int rep = 31 - __builtin_clz(lanes);
    bool told = false;
    uint32_t now = write || !c->now_all ? c->now[rep] : c->now_all;
    if (access != RACE_LOOK)
        note_lines(w, first, last, access == RACE_ASYNC ? RACE_PENDING : now, write, strong);
    // Neighbouring cells mostly have the same stamps: those that were in order are not compared
    // again.
    uint32_t good_stamp = 0, good_thread = 0;
    struct readers good[WARP];
    if (write)
        memset(good, 0, (size_t)s->warps * sizeof *good);
    for (uint32_t cell = first; cell <= last; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp > c->base_all && !(stamp == good_stamp && thread == good_thread) &&
            !(are_strong(kind, s->write_insn[cell] >> RACE_KIND_SHIFT) &&
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
                if (!write && is_load_of_cas(w, op->insn, s->write_insn[cell]))
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
            note_reader(s, w->index, kind, cell, lanes, now, op->insn);
            continue;
        }
        for (int p = 0; p < s->warps && !told; ++p) {
            struct readers r = readers_of(s, p, RACE_PLAIN, cell);
            uint32_t reader;
            int lane = -1;
            if (r.stamp > c->base_all &&
                (r.stamp != good[p].stamp || r.lanes != good[p].lanes || r.insn != good[p].insn))
                lane = race_with(w, op, lanes, &r, &reader);
            if (lane < 0)
                good[p] = r;
            for (uint32_t k = 1; k < RACE_KINDS && lane < 0; ++k)
                if (s->read[p].strong[k] && (r = readers_of(s, p, k, cell)).stamp > c->base_all)
                    lane = race_with(w, op, lanes, &r, &reader);
            if (lane >= 0) {
                report_shared(w, op, lane, at, bytes, access, reader, r.insn, false, 0);
                told = true;
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
    if (!s || !bytes || !within(at, bytes, cta->shared_bytes))
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

// ---- Crowds -------------------------------------------------------------------------------------

static uint32_t stretch_lanes(const struct stretch *s, uint32_t cell)
{
    uint32_t per = s->run % (1 << RUN_SHIFT);
    return s->lanes ? s->lanes : 1u << ((cell + (s->run >> RUN_SHIFT)) >> per) % WARP;
}

static bool same_readers(const struct stretch *a, const struct stretch *b)
{
    return a->lanes == b->lanes && a->run == b->run;
}

// What the crowds of a process take. Past MOST_CROWD no more readers are noted.
enum { MOST_CROWD = 256 << 20 };
static _Atomic size_t crowd_bytes;

static void reader_grow(struct reader *r)
{
    if (r->count < r->capacity)
        return;
    atomic_fetch_add(&crowd_bytes, (r->capacity + 2) * sizeof *r->of);
    r->capacity = 2 * r->capacity + 2;
    r->of = need(realloc(r->of, r->capacity * sizeof *r->of));
}

static void reader_free(struct reader *r)
{
    atomic_fetch_sub(&crowd_bytes, r->capacity * sizeof *r->of);
    free(r->of);
}

static void crowd_empty(struct crowd *c)
{
    for (uint32_t i = 0; i < c->capacity; ++i)
        reader_free(&c->readers[i]);
    atomic_fetch_sub(&crowd_bytes, c->capacity * sizeof *c->readers);
    free(c->readers);
    c->readers = c->last = NULL;
    c->count = c->capacity = 0;
}

static void crowd_free(struct crowd **crowd)
{
    if (*crowd)
        crowd_empty(*crowd);
    free(*crowd);
    *crowd = NULL;
}

// A stretch, at the end of a list; with the one before it, if that is of the same reading.
static void stretch_push(struct reader *r, struct stretch s)
{
    struct stretch *last = r->count ? &r->of[r->count - 1] : NULL;
    if (s.first >= s.end)
        return;
    if (last && last->end == s.first && last->stamp == s.stamp && same_readers(last, &s)) {
        last->end = s.end;
        return;
    }
    reader_grow(r);
    r->of[r->count++] = s;
}

static void stretch_push_part(struct reader *r, struct stretch s, uint32_t first, uint32_t end)
{
    s.first = first > s.first ? first : s.first;
    s.end = end < s.end ? end : s.end;
    stretch_push(r, s);
}

// Cells that were read at one time by several lanes, not in one way: each for itself.
static void stretch_push_both(struct reader *r, const struct stretch *a, const struct stretch *b,
                              uint32_t first, uint32_t end)
{
    for (uint32_t cell = first; cell < end; ++cell) {
        struct stretch both = *b;
        both.lanes = stretch_lanes(a, cell) | stretch_lanes(b, cell);
        both.run = 0;
        stretch_push_part(r, both, cell, cell + 1);
    }
}

// The first stretch of a reader that ends past a cell.
static uint32_t stretch_at(const struct reader *r, uint32_t cell)
{
    uint32_t low = 0;
    for (uint32_t high = r->count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (r->of[middle].end <= cell)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Puts a stretch in the place of what its cells have; by->stamp 0: they have nothing any more.
static void stretch_put(struct reader *r, const struct stretch *by)
{
    uint32_t i = stretch_at(r, by->first), at = by->first;
    struct reader old = *r;
    *r = (struct reader){true, old.cta, old.warp, old.kind, 0, 0, 0, NULL};
    for (uint32_t k = 0; k < i; ++k)
        stretch_push(r, old.of[k]);
    for (; i < old.count && old.of[i].first < by->end; ++i) {
        const struct stretch *o = &old.of[i];
        uint32_t first = o->first > at ? o->first : at, end = o->end < by->end ? o->end : by->end;
        stretch_push_part(r, *o, 0, by->first);
        if (by->stamp)
            stretch_push_part(r, *by, at, first);
        if (by->stamp && o->stamp == by->stamp && !same_readers(o, by))
            stretch_push_both(r, o, by, first, end);
        else if (by->stamp)
            stretch_push_part(r, *by, first, end);
        at = end;
        if (o->end > by->end)
            break;
    }
    if (by->stamp)
        stretch_push_part(r, *by, at, by->end);
    for (; i < old.count; ++i)
        stretch_push_part(r, old.of[i], by->end, UINT32_MAX);
    reader_free(&old);
}

// Makes room in a list, or takes one out.
static void stretch_move(struct reader *r, uint32_t from, uint32_t to)
{
    uint32_t count = r->count - from;
    if (to > from)
        reader_grow(r);
    memmove(r->of + to, r->of + from, count * sizeof *r->of);
    r->count += to - from;
}

// Notes a stretch of cells that a warp has read in the list of its readings, which is in the order of their cells. A
// warp mostly reads the same cells again, or those behind the last ones: both are found without a search.
static void stretch_note(struct reader *r, const struct stretch *by)
{
    bool goes_on = r->last < r->count && r->of[r->last].end == by->first;
    uint32_t i = goes_on ? r->last + 1 : stretch_at(r, by->first);
    struct stretch *o = i < r->count ? &r->of[i] : NULL, *before = i ? &r->of[i - 1] : NULL;
    bool is_free = !o || o->first >= by->end;
    bool inside = !is_free && o->first <= by->first && o->end >= by->end;
    bool whole = inside && o->first == by->first && o->end == by->end;
    bool more = before && before->end == by->first && before->stamp == by->stamp &&
                same_readers(before, by);
    r->last = i;
    if (inside && o->stamp == by->stamp &&
        (same_readers(o, by) || (by->lanes && o->lanes == (o->lanes | by->lanes))))
        return;
    if (whole && o->stamp == by->stamp && o->lanes && by->lanes) {
        o->lanes |= by->lanes;
        return;
    }
    if (!is_free && !(inside && o->first == by->first && o->stamp != by->stamp)) {
        stretch_put(r, by);
        return;
    }
    if (whole && !more) {
        *o = *by;
        return;
    }
    if (whole)
        stretch_move(r, i + 1, i);
    else if (!is_free)
        o->first = by->end;
    if (more) {
        before->end = by->end;
        r->last = i - 1;
    } else {
        stretch_move(r, i, i + 1);
        r->of[i] = *by;
    }
}

static struct reader *reader_at(const struct crowd *c, uint32_t cta, uint32_t warp, uint32_t kind)
{
    uint32_t i = (cta * WARP + warp) * RACE_KINDS + kind;
    for (i = i * 0x9e3779b1u >> 8;; ++i) {
        struct reader *r = &c->readers[i & (c->capacity - 1)];
        if (!r->used || (r->cta == cta && r->warp == warp && r->kind == kind))
            return r;
    }
}

static void crowd_grow(struct crowd *c)
{
    struct crowd old = *c;
    c->capacity = old.capacity ? 2 * old.capacity : 8;
    atomic_fetch_add(&crowd_bytes, (c->capacity - old.capacity) * sizeof *c->readers);
    c->readers = need(calloc(c->capacity, sizeof *c->readers));
    for (uint32_t i = 0; i < old.capacity; ++i)
        if (old.readers[i].used)
            *reader_at(c, old.readers[i].cta, old.readers[i].warp, old.readers[i].kind) =
                old.readers[i];
    free(old.readers);
}

static struct reader *reader_make(struct crowd *c, uint32_t cta, uint32_t warp, uint32_t kind)
{
    if (2 * c->count >= c->capacity)
        crowd_grow(c);
    struct reader *r = reader_at(c, cta, warp, kind);
    if (!r->used) {
        *r = (struct reader){true, cta, warp, kind, 0, 0, 0, NULL};
        c->count++;
    }
    return r;
}

void crowd_note(struct crowd **crowd, uint32_t cells, const struct warp *w, uint32_t kind,
                struct stretch by)
{
    struct crowd *c = *crowd;
    uint32_t cta = (uint32_t)w->cta->number, warp = (uint32_t)w->index;
    if (atomic_load_explicit(&crowd_bytes, memory_order_relaxed) > MOST_CROWD)
        return;
    if (!c)
        c = *crowd = need(calloc(1, sizeof *c + (cells / 32 + 1) * sizeof *c->cells));
    struct reader *r = c->last;
    if (!r || r->cta != cta || r->warp != warp || r->kind != kind)
        r = c->last = reader_make(c, cta, warp, kind);
    stretch_note(r, &by);
    for (uint32_t i = by.first / 32; i <= (by.end - 1) / 32; ++i)
        c->cells[i] |= line_cells(i, by.first, by.end - 1);
}

// Some cells have been written to: who has read them before is of the past.
static void crowd_forget(struct crowd *c, uint32_t first, uint32_t n)
{
    const struct stretch none = {.first = first, .end = first + n};
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->capacity; ++i) {
        struct reader *r = &c->readers[i];
        uint32_t k = stretch_at(r, first);
        if (k < r->count && r->of[k].first < none.end)
            stretch_put(r, &none);
        left |= r->count;
    }
    for (uint32_t i = first / 32; i <= (first + n - 1) / 32; ++i)
        c->cells[i] &= ~line_cells(i, first, first + n - 1);
    if (!left)
        crowd_empty(c);
}

// Whether some reading of a crowd is what is asked for; it, into *p.
typedef bool reading_fn(void *data, const struct party *p, uint32_t cell);
static bool reader_find(const struct reader *r, const struct stretch *s, uint32_t cell,
                        reading_fn *asked, void *data, struct party *p)
{
    for (uint32_t left = stretch_lanes(s, cell); left; left &= left - 1) {
        uint32_t thread = r->warp * WARP + (uint32_t)__builtin_ctz(left);
        *p = (struct party){.cta = r->cta, .stamp = s->stamp};
        p->thread = thread % (1 << THREAD_BITS);
        p->insn = s->insn % (1 << INSN_BITS);
        p->kind = r->kind % (1 << KIND_BITS);
        if (asked(data, p, cell))
            return true;
    }
    return false;
}

static bool crowd_find(const struct crowd *c, uint32_t first, uint32_t n, reading_fn *asked,
                       void *data, struct party *p)
{
    for (uint32_t i = 0; c && i < c->capacity; ++i) {
        const struct reader *r = &c->readers[i];
        for (uint32_t k = stretch_at(r, first); k < r->count && r->of[k].first < first + n; ++k) {
            const struct stretch *s = &r->of[k];
            uint32_t cell = s->first > first ? s->first : first;
            for (; cell < s->end && cell < first + n; ++cell)
                if (reader_find(r, s, cell, asked, data, p))
                    return true;
        }
    }
    return false;
}

struct a_write {
    const struct warp *w;
    const struct op *op;
    int lane;
};

static bool reader_races(const struct warp *w, const struct op *op, int lane,
                         const struct party *p);

static bool races_with_write(void *data, const struct party *p, uint32_t cell)
{
    const struct a_write *write = data;
    (void)cell;
    return reader_races(write->w, write->op, write->lane, p);
}

static bool crowd_races(const struct warp *w, const struct op *op, int lane, const struct crowd *c,
                        uint32_t first, uint32_t n, struct party *p)
{
    struct a_write write = {w, op, lane};
    return crowd_find(c, first, n, races_with_write, &write, p);
}

// ---- Global memory ------------------------------------------------------------------------------

enum { SLOTS = 1 << 18, PLACES = 1024, MOST_BYTES = 384 << 20 };

_Static_assert(THREAD_BITS + INSN_BITS + KIND_BITS == 32, "a party is three words of a page");

static uint32_t who_is(const struct warp *w, int lane, const struct op *op)
{
    uint32_t thread = ((uint32_t)w->index * WARP + (uint32_t)lane) % (1 << THREAD_BITS);
    return thread | (uint32_t)op->insn % (1 << INSN_BITS) << THREAD_BITS |
           race_kind(op) << (THREAD_BITS + INSN_BITS);
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
        crowd_free(&p->crowd);
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

// Whether a reading need not be remembered beside a later one: whoever is in order with that, or is strong of
// its kind, is so with the earlier one.
static bool takes_place(const struct warp *w, int lane, const struct party *me,
                        const struct party *before)
{
    bool known = before->cta == me->cta || w->clock->world[lane];
    return !before->stamp || ((me->kind == RACE_PLAIN || me->kind == before->kind) && known &&
                              party_before(w, lane, before));
}

// Makes a lane a party of a cell that it reads; false where two others stay.
static bool note_read(const struct warp *w, int lane, struct page *page, uint32_t cell,
                      struct party me)
{
    struct party r[2] = {party_at(page, CELL_READ, cell), party_at(page, CELL_READ_2, cell)};
    for (int own = 1; own >= 0; --own) // its own place before another's
        for (int k = 0; k < 2; ++k)
            if ((!own || (r[k].cta == me.cta && r[k].thread == me.thread)) &&
                takes_place(w, lane, &me, &r[k])) {
                set_party(page, CELL_READ + (unsigned)k, cell, me);
                return true;
            }
    return false;
}

// n cells of an access to `size` cells from `start` on, that lanes read. The cells of one lane after the other
// are one stretch.
static struct stretch stretch_of(const struct party *me, uint32_t lanes, uint32_t cell, uint32_t n,
                                 uint64_t start, uint32_t size)
{
    struct stretch s = {cell, cell + n, me->stamp, me->insn, lanes, 0};
    uint32_t per = (uint32_t)__builtin_ctz(size), lane = (uint32_t)__builtin_ctz(lanes);
    if ((lanes & (lanes - 1)) || 1u << per != size || per > LINE_SHIFT)
        return s;
    s.lanes = 0;
    s.run = (((lane << per) - (uint32_t)start) & ((WARP << per) - 1)) << RUN_SHIFT | per;
    return s;
}

// Whether a lane's write is a race with a read.
static bool reader_races(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    bool strong = are_strong(race_kind(op), p->kind) ||
                  (op->order && p->kind == RACE_PLAIN && is_load_of_cas(w, p->insn, op->insn));
    return p->stamp && !(strong && !mine_in_step(w, op, lane, p)) && !party_before(w, lane, p) &&
           !is_complete(w, p) && !mine_of_matrices(w, op, p);
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
    bool told = false;
    struct party me = {
        .cta = (uint32_t)w->cta->number, .stamp = w->clock->now[lane], .who = who_is(w, lane, op)};
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
        if (p.stamp && !told && !(are_strong(me.kind, p.kind) && !mine_in_step(w, op, by, &p)) &&
            !party_before(w, by, &p) &&
            !(access == RACE_READ && is_load_of_cas(w, op->insn, p.insn)) &&
            !mine_of_matrices(w, op, &p) &&
            !(access == RACE_WRITE && value && stores_same((void *)(uintptr_t)at, value, part))) {
            report_global(w, op, by, at, bytes, access, &p, true);
            told = true;
        }
        if (access == RACE_READ) {
            uint32_t more = note_read(w, lane, page, cell, me) ? 0 : 1u << lane;
            if (other != lane) {
                struct party also = me;
                also.who = who_is(w, other, op);
                more |= note_read(w, other, page, cell, also) ? 0 : 1u << other;
            }
            if (more)
                crowd_note(&page->crowd, page->cells, w, me.kind,
                           stretch_of(&me, more, cell, alike, at >> shift,
                                      (uint32_t)(end - (at >> shift))));
            if (alike > 1)
                cells_follow(page, cell, alike, parties);
            continue;
        }
        for (int k = 0; k < 2; ++k) {
            p = party_at(page, CELL_READ + (unsigned)k, cell);
            if (!told && reader_races(w, op, lane, &p)) {
                report_global(w, op, lane, at, bytes, access, &p, false);
                told = true;
            }
            set_party(page, CELL_READ + (unsigned)k, cell, (struct party){0});
        }
        if (crowd_has(page->crowd, cell, alike)) {
            if (!told && crowd_races(w, op, lane, page->crowd, cell, alike, &p)) {
                report_global(w, op, lane, at, bytes, access, &p, false);
                told = true;
            }
            crowd_forget(page->crowd, cell, alike);
        }
        set_party(page, CELL_WRITE, cell, me);
        if (alike > 1)
            cells_follow(page, cell, alike, parties);
        page->written = true;
        if (access == RACE_WRITE && value && me.kind == RACE_PLAIN)
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
static void release_world(struct warp *w, int lane, struct clock *clock, struct world **place,
                          bool flat)
{
    struct clock *own = clock_share(clock);
    if (flat && own->world)
        world_drop(&clock_own(&own, own->threads)->world);
    struct world *mine = world_of(w->cta->number, own);
    world_join(place, mine);
    world_join(place, w->clock->world[lane]);
    world_drop(&mine);
    clock_drop(&own);
}

static void raise(struct clock *clock, uint32_t thread, uint32_t stamp)
{
    clock->at[thread] = stamp > clock->at[thread] ? stamp : clock->at[thread];
    clock->most = stamp > clock->most ? stamp : clock->most;
}

// Up to when a lane knows what another thread of its CTA did.
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

// What others have fenced themselves, as far as the lane knows of it: a fence by every thread before a
// barrier does for the thread that sets a flag behind it.
static void add_fenced_by_others(const struct warp *w, int lane, enum fence_scope scope,
                                 struct clock *clock)
{
    for (int k = 0; k < w->cta->warps; ++k) {
        const struct fenced *f = w->cta->warp[k].clock->fenced[scope];
        for (int i = 0; i < WARP; ++i) {
            uint32_t known = f[i].stamp ? known_of(w, lane, k, i) : 0;
            raise(clock, (uint32_t)(k * WARP + i), f[i].stamp < known ? f[i].stamp : known);
        }
    }
}

// What a strong write shows to those who see it: all that its lane has done and knows, if it releases; else
// what the lane knew at its last fence, and no more. NULL: nothing.
static struct clock *shown_by(struct warp *w, int lane, enum fence_scope scope, bool releases)
{
    const struct fenced *f = &w->clock->fenced[scope][lane];
    struct races *s = w->cta->races;
    struct clock *clock = NULL;
    if (releases)
        release_lane(w, lane, w->clock->now[lane], &clock);
    if (releases || !s->fenced[scope])
        return clock;
    clock_join(&clock, f->known);
    clock_own(&clock, s->threads);
    clock->base = f->base > clock->base ? f->base : clock->base;
    for (int i = 0; i < WARP; ++i)
        raise(clock, (uint32_t)(w->index * WARP + i), f->wbase);
    raise(clock, (uint32_t)(w->index * WARP + lane), f->stamp);
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
    bool releases = op->order & ORDER_RELEASE, to_cta_only = op->order & ORDER_CTA;
    struct clock *to_cta = shown_by(w, lane, FENCE_CTA, releases);
    struct clock *to_gpu =
        home == w->cta ? NULL : shown_by(w, lane, FENCE_GPU, releases && !to_cta_only);
    if (home == w->cta && to_cta) {
        clock_join(shared_place(w->cta->races, (uint32_t)at, true), to_cta);
    } else if (home && to_gpu) {
        struct world *mine = NULL;
        release_world(w, lane, to_gpu, &mine, true);
        tell_clock(home, shared_place(home->races, (uint32_t)at, true), mine);
        world_drop(&mine);
    } else if (!home && to_cta) {
        pthread_mutex_t *lock = &g->lock[scatter(at) % PLACES];
        pthread_mutex_lock(lock);
        struct global_place *p = global_place(g, at, true);
        release_world(w, lane, to_cta, &p->cta, false);
        if (to_gpu && !to_cta_only)
            release_world(w, lane, to_gpu, &p->gpu, true);
        pthread_mutex_unlock(lock);
    }
    clock_drop(&to_cta);
    clock_drop(&to_gpu);
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

static void note_fence(struct warp *w, int lane, enum fence_scope scope)
{
    struct warp_clock *c = w->clock;
    struct fenced *f = &c->fenced[scope][lane];
    clock_drop(&f->known);
    *f = (struct fenced){clock_share(c->known[lane]), c->now[lane], c->base[lane], c->wbase[lane]};
    w->cta->races->fenced[scope] = true;
}

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu)
{
    struct warp_clock *c = w->clock;
    if (!c)
        return;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        acquire_world(w, i, c->seen[i], !whole_gpu); // a fence shows others what it made known here
        note_fence(w, i, FENCE_CTA);
        if (whole_gpu) {
            note_fence(w, i, FENCE_GPU);
            world_drop(&c->seen[i]);
        }
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
                          .insn = s->write_insn[cell] & ((1 << INSN_BITS) - 1),
                          .kind = s->write_insn[cell] >> RACE_KIND_SHIFT};
}

// A reader in `home`, of a cell, that is in no order with what the lane does now; stamp 0: there is none.
static struct party own_reader(const struct warp *w, const struct op *op, int lane,
                               struct cta *home, uint32_t cell)
{
    struct races *s = home->races;
    const struct world *world = w->clock->world[lane];
    const struct clock *known = NULL; // what the lane knows of that CTA
    for (uint32_t i = 0; world && i < world->count; ++i)
        if (world->of[i].cta == home->number)
            known = world->of[i].clock;
    for (uint32_t i = 0; i < (uint32_t)s->warps * RACE_KINDS; ++i) {
        uint32_t p = i / RACE_KINDS, kind = i % RACE_KINDS;
        if (kind == RACE_PLAIN)
            reading_settle(&s->read[p], cell >> LINE_SHIFT);
        else if (!s->read[p].strong[kind])
            continue;
        struct readers r = readers_of(s, (int)p, kind, cell);
        if (r.stamp <= s->start || are_strong(race_kind(op), kind) ||
            product_read(s, w, known, (int)p, r.stamp, r.insn))
            continue;
        for (uint32_t left = r.lanes; left; left &= left - 1) {
            struct party reader = {.cta = (uint32_t)home->number,
                                   .stamp = r.stamp,
                                   .thread = (p * WARP + (uint32_t)__builtin_ctz(left)) %
                                             (1 << THREAD_BITS),
                                   .insn = r.insn & ((1 << INSN_BITS) - 1),
                                   .kind = kind % (1 << KIND_BITS)};
            if (!party_before(w, lane, &reader))
                return reader;
        }
    }
    return (struct party){0};
}

static void note_foreign_read(const struct warp *w, int lane, struct races *s, uint32_t cell,
                              struct party me)
{
    for (int k = FOREIGN_READ; k <= FOREIGN_READ_2; ++k)
        if (takes_place(w, lane, &me, &s->foreign->of[k][cell])) {
            s->foreign->of[k][cell] = me;
            return;
        }
    crowd_note(&s->foreign->crowd, s->cells, w, me.kind,
               (struct stretch){cell, cell + 1, me.stamp, me.insn, 1u << lane, 0});
}

// Checks a lane's access to one cell; what it is reported against, into *p and *did. True: in order.
static bool remote_ordered(const struct warp *w, const struct op *op, int lane, struct cta *home,
                           uint32_t cell, enum race_access access, bool same, struct party *p,
                           const char **did)
{
    struct races *s = home->races;
    *did = "read";
    *p = access == RACE_READ ? (struct party){0} : own_reader(w, op, lane, home, cell);
    if (access != RACE_READ && (p->stamp || foreign_races(w, op, lane, s->foreign, cell, p)))
        return false;
    *p = own_write(home, cell);
    *did = "wrote";
    if (s->write_stamp[cell] == RACE_PENDING)
        *did = "is still copying to (nothing has waited for it)";
    else if (!p->stamp || are_strong(race_kind(op), p->kind) || same || party_before(w, lane, p) ||
             (access == RACE_READ && is_load_of_cas(w, op->insn, p->insn)))
        return true;
    return false;
}

void race_remote(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                 uint32_t bytes, enum race_access access, const void *value)
{
    struct races *s = home->races;
    if (!s || !w->clock || !bytes || !within(at, bytes, home->shared_bytes))
        return;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    bool told = !has_begun(w, lane, home);
    uint32_t thread = ((uint32_t)w->index * WARP + (uint32_t)lane) % (1 << THREAD_BITS);
    struct party me = {.cta = (uint32_t)w->cta->number,
                       .stamp = w->clock->now[lane],
                       .thread = thread,
                       .insn = op->insn & ((1 << INSN_BITS) - 1),
                       .kind = race_kind(op)};
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
        foreign_forget(s->foreign, cell);
        s->foreign->of[FOREIGN_WRITE][cell] = access == RACE_ASYNC ? (struct party){0} : me;
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : RACE_FOREIGN;
        s->write_thread[cell] = thread | RACE_ASYNC_THREAD;
        s->write_insn[cell] = op->insn | race_kind(op) << RACE_KIND_SHIFT;
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

struct leaving {
    struct cta *cta;
    struct world *known;
    struct party last;
};

// Reports an access to a cell of a CTA that may have ended by then: one of its threads does not know of it. A
// reading_fn that finds nothing, so that it is asked of all.
static bool is_left(void *data, const struct party *p, uint32_t cell)
{
    struct leaving *l = data;
    if ((p->cta == l->last.cta && p->stamp == l->last.stamp && p->thread == l->last.thread) ||
        world_knows(l->known, p))
        return false;
    l->last = *p;
    struct cta *other = cta_of(&l->cta->warp[0], p->cta);
    const struct op at = {.insn = p->insn};
    race_report(&other->warp[p->thread / WARP], &at, (int)(p->thread % WARP), FAULT_RACE, p->insn,
                "accesses shared memory of block (%u,%u,%u) at %u, which may have ended by then: "
                "nothing makes it wait (a barrier of the cluster)",
                l->cta->index[0], l->cta->index[1], l->cta->index[2], cell << l->cta->races->shift);
    return false;
}

void race_leave(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s || !s->foreign)
        return;
    struct leaving l = {.cta = cta, .known = known_at_end(cta)};
    for (uint32_t i = 0; i < s->cells * FOREIGN_PARTIES; ++i) {
        struct party p = s->foreign->of[i / s->cells][i % s->cells];
        if (p.stamp && (i / s->cells != FOREIGN_WRITE || s->write_stamp[i] == RACE_FOREIGN))
            is_left(&l, &p, i % s->cells);
    }
    struct party none;
    crowd_find(s->foreign->crowd, 0, s->cells, is_left, &l, &none);
    world_drop(&l.known);
}
