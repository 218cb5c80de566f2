// async.c: asynchronous operations: copies, whose bytes arrive in shared memory later; wgmma and bulk stores, which
// read until they are waited for; and the asynchronous proxy, which sees a thread's writes only after a fence.
#include "order.h"

void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t source, uint32_t stamp)
{
    struct races *s = home->races;
    if (!s || !bytes)
        return;
    uint32_t thread = issuer_in(home, w, lane);
    uint32_t writer = source ? writer_by_load(source, thread) : thread;
    uint32_t first = at >> s->shift, count = ((at + bytes - 1) >> s->shift) - first + 1;
    uint32_t *restrict stamps = s->write_stamp + first, *restrict threads = s->write_thread + first;
    const uint32_t *insns = s->write_insn + first;
    for (uint32_t i = 0; i < count; ++i) {
        bool its = (stamps[i] == RACE_PENDING) & (insns[i] == insn) &
                   (threads[i] == (thread | RACE_ASYNC_THREAD));
        stamps[i] = its ? stamp : stamps[i];
        threads[i] = its ? writer : threads[i];
    }
}

void race_under_way(const struct warp *w, int lane, uint32_t insn, struct cta *home, uint32_t at,
                    uint32_t bytes)
{
    struct races *s = home->races;
    if (!s)
        return;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    for (uint32_t cell = first; cell <= last; ++cell) {
        if (s->write_stamp[cell] == RACE_FOREIGN)
            s->foreign->of[FOREIGN_WRITE][cell] = (struct party){0};
        s->write_stamp[cell] = RACE_PENDING;
        s->write_thread[cell] = issuer_in(home, w, lane) | RACE_ASYNC_THREAD;
        s->write_insn[cell] = insn;
        s->writes[cell >> LINE_SHIFT].stamp = RACE_PENDING;
    }
    s->pending = true;
}

uint32_t race_load_source(struct cta *home, bool copies)
{
    struct races *s = home->races;
    if (!s)
        return 0;
    uint32_t source = LOADS + s->load_sources++ % LOAD_SOURCES;
    s->of_copies |= copies ? race_source_bit(source) : 0;
    for (int i = 0; i < home->warps; ++i)
        home->warp[i].clock->least[source] = 0;
    return source;
}

uint32_t race_loads_come(struct cta *home, uint32_t source, struct clock **clock)
{
    if (!home->races)
        return 0;
    uint32_t stamp = race_tick(home);
    race_loads_known(home, source, stamp, clock);
    return stamp;
}

void race_loads_known(struct cta *home, uint32_t source, uint32_t stamp, struct clock **clock)
{
    if (!home->races)
        return;
    struct clock *c = clock_own(clock, home->races->threads);
    uint32_t *at = &c->at[loads_of(home->races, source)];
    *at = stamp > *at ? stamp : *at;
    uint32_t *came = &home->races->came[source - LOADS];
    *came = stamp > *came ? stamp : *came;
    c->most = stamp > c->most ? stamp : c->most;
}

void race_loads_told(struct cta *home, uint32_t sources, struct clock **clock)
{
    struct races *s = home->races;
    for (uint32_t left = s ? sources : 0; left; left &= left - 1) {
        uint32_t source = LOADS + (uint32_t)__builtin_ctz(left);
        if (s->came[source - LOADS])
            race_loads_known(home, source, s->came[source - LOADS], clock);
    }
}

void race_copies_awaited(struct warp *w, uint32_t lanes)
{
    if (!w->clock)
        return;
    race_move(w, lanes);
    for (uint32_t left = lanes; left; left &= left - 1)
        w->clock->waited[__builtin_ctz(left)] = w->clock->now[__builtin_ctz(left)];
}

uint32_t race_issue(struct warp *w)
{
    if (!w->clock)
        return 0;
    uint32_t now = w->cta->races->time;
    race_step(w, ~0u, race_tick(w->cta));
    race_summarise(w);
    return now;
}

bool race_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                      uint32_t issued)
{
    const struct races *s = w->cta->races;
    if (!s || !bytes || !within(at, bytes, w->cta->shared_bytes))
        return false;
    race_settle(w);
    for (uint32_t cell = at >> s->shift; cell <= (at + bytes - 1) >> s->shift; ++cell) {
        if (!is_overwritten(w, lane, s->write_thread[cell], s->write_stamp[cell], issued))
            continue;
        report_overwritten(w, op, lane, at, bytes, s->write_thread[cell], s->write_insn[cell]);
        return true;
    }
    return false;
}

// ---- The asynchronous proxy -----------------------------------------------------------------------

void race_proxy_fence(struct warp *w, uint32_t lanes, bool shared, bool global)
{
    struct warp_clock *c = w->clock;
    if (!c)
        return;
    race_settle(w);
    struct proxy_fence *f = &c->proxy.of[c->proxy.count % PROXY_FENCES];
    for (int space = 0; space < PROXY_SPACES && c->proxy.count >= PROXY_FENCES; ++space)
        if (f->is_for[space])
            clock_join(&c->proxy.old[space], f->shown);
    clock_drop(&f->shown);
    race_release_lanes(w, lanes, &f->shown);
    f->stamp = race_tick(w->cta);
    f->lanes = lanes;
    f->is_for[PROXY_SHARED] = shared;
    f->is_for[PROXY_GLOBAL] = global;
    c->proxy.count++;
    if (global)
        race_tell_fenced(w, f->shown);
    race_step(w, lanes, f->stamp);
    race_summarise(w);
}

// The first thread of r whose read is ordered before what the lane does now, but without a proxy fence in between; -1:
// none. A read that is not ordered before is left out: it is a race in any case, and reported elsewhere.
static int unfenced(const struct warp *w, int lane, const struct cta *home, const struct readers *r)
{
    for (uint32_t left = r->lanes; left; left &= left - 1) {
        uint32_t thread = (uint32_t)r->warp * WARP + (uint32_t)__builtin_ctz(left);
        struct party p = party_of((uint32_t)home->number, r->stamp, thread, 0, 0);
        if (party_before(w, lane, &p) && !is_fenced(w, lane, home, thread, r->stamp))
            return (int)thread;
    }
    return -1;
}

// The record of the accesses to `home` that have been found fenced for the lane; emptied if it was for another CTA or
// lane.
static struct fenced_for *fenced_for(const struct warp *w, int lane, const struct cta *home)
{
    struct fenced_for *known = &w->clock->fenced_for;
    if (known->home != home || known->lane != lane)
        *known = (struct fenced_for){.home = home, .lane = lane};
    return known;
}

// Whether a proxy fence lies between each read in `r` and what the lane does now. Reads that are
// not ordered before it are left out, as in unfenced.
static bool reads_fenced(const struct warp *w, int lane, const struct cta *home,
                         const struct readers *r)
{
    struct fenced_reads *known = &fenced_for(w, lane, home)->reads[r->warp];
    bool same = known->stamp == r->stamp;
    if ((same && !(r->lanes & ~known->lanes)) || r->stamp <= home->races->start)
        return true;
    if (unfenced(w, lane, home, r) >= 0)
        return false;
    *known = (struct fenced_reads){r->stamp, r->lanes | (same ? known->lanes : 0)};
    return true;
}

// Whether some neighbouring cells of a line were last read by one plain instruction of a warp, at one time; *r gets the
// readers.
static bool read_at_once(const struct races *s, int warp, uint32_t line, uint32_t cells,
                         struct readers *r)
{
    const struct reading *now = &s->read[warp].reading[line];
    if (cells & ~now->cells || now->older >= now->stamp)
        return false;
    uint32_t first = line * LINE + (uint32_t)__builtin_ctz(cells), other = 0, lanes = now->lanes;
    uint32_t last = first + (uint32_t)__builtin_popcount(cells) - 1;
    const uint32_t *insn = s->read[warp].insn;
    for (uint32_t cell = first; cell <= last; ++cell)
        other |= insn[cell] ^ insn[first];
    if (!lanes) { // each cell has been read by one lane
        uint32_t begin = now->run >> RUN_SHIFT, per = now->run % (1 << RUN_SHIFT);
        for (uint32_t i = (first - begin) >> per; i <= (last - begin) >> per; ++i)
            lanes |= 1u << (i & 31);
    }
    *r = (struct readers){warp, RACE_PLAIN, now->stamp, lanes, insn[first]};
    return !other;
}

// A thread of warp `warp` of `home` that has read one of some cells of a line, by a read of kind `kind` outside the
// asynchronous proxy and with no proxy fence since; *insn gets its instruction. -1: there is no such thread.
static int unfenced_in(const struct warp *w, int lane, const struct cta *home, int warp,
                       uint32_t kind, uint32_t line, uint32_t cells, uint32_t *insn)
{
    struct races *s = home->races;
    struct readers r;
    if (kind == RACE_PLAIN && read_at_once(s, warp, line, cells, &r) &&
        (is_asynchronous(w, r.insn) || reads_fenced(w, lane, home, &r)))
        return -1;
    reading_settle(&s->read[warp], line);
    for (uint32_t left = cells; left; left &= left - 1) {
        r = readers_of(s, warp, kind, line * LINE + (uint32_t)__builtin_ctz(left));
        *insn = r.insn;
        if (!is_asynchronous(w, r.insn) && !reads_fenced(w, lane, home, &r))
            return unfenced(w, lane, home, &r);
    }
    return -1;
}

// Like unfenced_in, for all warps and all kinds of reads.
static int unfenced_reader(const struct warp *w, int lane, const struct cta *home, uint32_t line,
                           uint32_t cells, uint32_t *insn)
{
    const struct races *s = home->races;
    for (int p = 0; p < s->warps; ++p) {
        const struct read_plane *plane = &s->read[p];
        int thread = reading_before(plane, line, s->start)
                         ? -1
                         : unfenced_in(w, lane, home, p, RACE_PLAIN, line, cells, insn);
        bool strong = plane->reading[line].strong > s->start;
        for (uint32_t kind = 1; kind < RACE_KINDS && strong && thread < 0; ++kind)
            if (plane->strong[kind])
                thread = unfenced_in(w, lane, home, p, kind, line, cells, insn);
        if (thread >= 0)
            return thread;
    }
    return -1;
}

// The first of some cells of a line that a thread has written with no proxy fence between its write and what the lane
// does now; -1: there is none.
static int unfenced_write(const struct warp *w, int lane, const struct cta *home, uint32_t line,
                          uint32_t cells)
{
    const struct races *s = home->races;
    struct fenced_for *known = fenced_for(w, lane, home);
    uint32_t bulk = UINT32_MAX;
    for (uint32_t left = cells; left; left &= left - 1) {
        uint32_t cell = line * LINE + (uint32_t)__builtin_ctz(left);
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        uint32_t by = s->write_insn[cell];
        if (by == bulk || stamp <= s->start || stamp >= RACE_FOREIGN ||
            (stamp == known->write_stamp && thread == known->write_thread))
            continue;
        if (is_bulk(w, by)) {
            bulk = by;
            continue;
        }
        if (!is_write_fenced(w, lane, home, thread, stamp))
            return (int)cell;
        known->write_stamp = stamp, known->write_thread = thread;
    }
    return -1;
}

bool race_proxy_passes(struct warp *w, int lane, const struct line_part *parts, uint32_t n)
{
    race_settle(w);
    for (uint32_t i = 0; i < n; ++i)
        if (unfenced_write(w, lane, w->cta, parts[i].line, parts[i].cells) >= 0)
            return false;
    return true;
}

bool race_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home, uint32_t at,
                uint32_t bytes, bool store)
{
    const struct races *s = home->races;
    if (!s || !bytes || !within(at, bytes, home->shared_bytes))
        return false;
    race_settle(w);
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        int cell = unfenced_write(w, lane, home, line, line_cells(line, first, last));
        if (cell < 0)
            continue;
        report_proxy(w, op, lane, home, at, bytes, store, s->write_thread[cell],
                     s->write_insn[cell], true);
        return true;
    }
    for (uint32_t line = first >> LINE_SHIFT; store && line <= last >> LINE_SHIFT; ++line) {
        uint32_t insn;
        int thread =
            s->reads[line].stamp <= s->start
                ? -1
                : unfenced_reader(w, lane, home, line, line_cells(line, first, last), &insn);
        if (thread < 0)
            continue;
        report_proxy(w, op, lane, home, at, bytes, store, (uint32_t)thread, insn, false);
        return true;
    }
    return false;
}
