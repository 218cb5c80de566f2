// race_runs.h: race checks of whole-warp accesses. Each instruction set's file includes it before access.h. An access
// that these loops cannot prove to be ordered after all earlier conflicting ones goes to race_shared or race_global,
// lane by lane.
#include "ptxsim/races/cells.h"

// ---- Shared memory ------------------------------------------------------------------------------

// Whether the last writes to a line are ordered before what the warp does now.
static inline bool FN(writes_ordered)(struct races *s, const struct warp_clock *c, uint32_t line)
{
    const struct latest *l = &s->writes[line];
    return latest_ordered(c, l) || (l->stamp >= RACE_FOREIGN && race_line_arrived(s, c, line));
}

// Whether a warp's reads of a line after `stamp` all belong to the run `run` (struct reading).
static inline bool FN(only_run)(const struct read_plane *plane, uint32_t line, uint32_t run,
                                uint32_t stamp)
{
    const struct reading *r = &plane->reading[line];
    return r->older <= stamp && (!r->cells || (!r->lanes && r->run == run));
}

// Whether the cells prove every earlier conflicting access to be ordered before an access by all lanes. Lane i accesses
// the 1 << per cells from cell + (i << per) on.
static __attribute__((noinline)) bool
FN(run_ordered)(const struct warp *w, uint32_t cell, uint32_t per, bool store)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, first = warp * WARP, bad = 0, n = WARP << per;
    uint32_t line = cell >> LINE_SHIFT, end = (cell + n - 1) >> LINE_SHIFT;
    const uint32_t *ws = s->write_stamp + cell, *wt = s->write_thread + cell;
    bool written = true, read = true, own = true; // own: each line was last written by this warp
    for (uint32_t i = line; i <= end; ++i) {
        written &= FN(writes_ordered)(s, c, i);
        own &= s->writes[i].warp == warp;
        read &= !store || latest_ordered(c, &s->reads[i]);
        bad |= store && s->reads[i].stamp == RACE_FOREIGN;
    }
    if (!written && own) {
        uint32_t least = c->least[warp];
        for (uint32_t j = 0; j < n; ++j)
            bad |= (ws[j] > least) & (wt[j] != first + (j >> per));
    } else if (!written) {
        for (uint32_t j = 0; j < n; ++j)
            bad |= (ws[j] > c->least[source_of(wt[j])]) & (wt[j] != first + (j >> per));
    }
    for (uint32_t p = 0; !read && p < (uint32_t)s->warps; ++p) {
        uint32_t least = c->least[p];
        bool before = true;
        for (uint32_t i = line; i <= end; ++i) {
            bool mine = p == warp && FN(only_run)(&s->read[p], i, cell << RUN_SHIFT | per, least);
            before &= mine || reading_before(&s->read[p], i, least);
        }
        if (before)
            continue;
        for (uint32_t i = line; i <= end; ++i) {
            reading_settle(&s->read[p], i);
            bad |= s->read[p].reading[i].strong > least;
        }
        const uint32_t *rs = s->read[p].stamp + cell, *rl = s->read[p].lanes + cell;
        for (uint32_t j = 0; j < n; ++j)
            bad |= (rs[j] > least) & (p != warp || rl[j] != 1u << (j >> per & 31));
    }
    return !bad;
}

// Checks and notes an access by all lanes to consecutive addresses from `at` on, `size` bytes each. Returns false, with
// nothing done, if the lines and cells do not prove it to be ordered after all earlier conflicting accesses.
static inline __attribute__((always_inline)) bool
FN(race_run)(struct warp *w, const struct op *op, uint32_t at, uint32_t size, const bool store)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, now = c->now_all;
    uint32_t per = (uint32_t)__builtin_ctz(size) - s->shift; // log2 of a lane's cells
    uint32_t cell = at >> s->shift, n = WARP << per, last = cell + n - 1;
    uint32_t first_line = cell >> LINE_SHIFT, last_line = last >> LINE_SHIFT;
    uint32_t run = cell << RUN_SHIFT | per;
    struct read_plane *plane = &s->read[warp];
    bool good = true;
    if (!now || op->order)
        return false;
    for (uint32_t i = first_line; i <= last_line; ++i) {
        const struct latest *ws = &s->writes[i], *rs = &s->reads[i];
        // The access is ordered, too, if the last accesses were this warp's, by each lane to the
        // same cells.
        good &= latest_ordered(c, ws) || (ws->warp == warp && ws->run == run + 1);
        good &= !store || latest_ordered(c, rs) ||
                (rs->warp == warp && FN(only_run)(plane, i, run, c->least[warp]));
    }
    if (!good && !FN(run_ordered)(w, cell, per, store))
        return false;
    if (store) {
        fill(s->write_stamp + cell, n, now);
        fill_run(s->write_thread + cell, n, warp * WARP, per);
        fill(s->write_insn + cell, n, op->insn);
        for (uint32_t i = first_line; i <= last_line; ++i)
            latest_note(&s->writes[i], now, warp, run + 1, c->base_all);
        return true;
    }
    for (uint32_t i = first_line; i <= last_line; ++i) {
        struct reading *r = &plane->reading[i];
        uint32_t cells = line_cells(i, cell, last);
        if (r->stamp == now && !r->lanes && r->run == run && r->cells)
            r->cells |= cells;
        else
            reading_note(w, now, i, cells, 0, run);
    }
    fill(plane->insn + cell, n, op->insn);
    return true;
}

static __attribute__((noinline)) bool FN(race_run_load)(struct warp *w, const struct op *op,
                                                        uint32_t at, uint32_t size)
{
    return FN(race_run)(w, op, at, size, false);
}

static __attribute__((noinline)) bool FN(race_run_store)(struct warp *w, const struct op *op,
                                                         uint32_t at, uint32_t size)
{
    return FN(race_run)(w, op, at, size, true);
}

// Checks and notes an access of a regular shape; false: it is not proven to be ordered. same: all
// lanes read at `at`; otherwise each lane's bytes follow those of the lane before, from `at` on.
static inline __attribute__((always_inline)) bool
FN(race_regular)(struct warp *w, const struct op *op, uint32_t at, uint32_t size,
                                    bool same, bool store)
{
    return same    ? race_in_line(w, op, ~0u, at, size, false)
           : store ? FN(race_run_store)(w, op, at, size)
                   : FN(race_run_load)(w, op, at, size);
}

// Checks an access that race_regular has not proven to be ordered, lane by lane (if `same`, all
// lanes at once), and reports what is wrong.
static __attribute__((noinline)) void FN(race_lanes)(struct warp *w, const struct op *op,
                                                     uint32_t at, uint32_t size, bool same,
                                                     bool store, const uint8_t *lanes)
{
    if (same)
        race_shared(w, op, ~0u, at, size, RACE_READ, NULL);
    for (uint32_t i = 0; i < WARP && !same; ++i)
        race_shared(w, op, 1u << i, at + i * size, size, store ? RACE_WRITE : RACE_READ,
                    lanes + i * size);
}

// Checks one lane of an irregular access.
static inline void FN(race_lane)(struct warp *w, const struct op *op, int lane, uint32_t at,
                                 uint32_t size, bool store, const void *value)
{
    if (!race_in_line(w, op, 1u << lane, at, size, store))
        race_shared(w, op, 1u << lane, at, size, store ? RACE_WRITE : RACE_READ, value);
}

// race_scattered for reads that lie in one line, or in two neighbouring ones: first finds for each
// cell the lanes that read it, then notes them for all cells of the lines at once.
static __attribute__((noinline)) bool FN(race_near)(struct warp *w, const struct op *op,
                                                    const uint32_t at[WARP], uint32_t size,
                                                    uint32_t line, uint32_t lines)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t now = c->now_all, warp = (uint32_t)w->index, shift = s->shift, first = line * LINE;
    uint32_t insn = op->insn;
    struct read_plane *plane = &s->read[warp];
    uint32_t lanes[2 * LINE] = {0};
    for (uint32_t i = line; i < line + lines; ++i)
        if (!latest_ordered(c, &s->writes[i]))
            return false;
    for (uint32_t i = line; i < line + lines; ++i)
        if (plane->reading[i].older != now)
            reading_open(s, c, warp, i);
    for (uint32_t k = 0; k < size >> shift; ++k)
        for (int i = 0; i < WARP; ++i)
            lanes[(at[i] >> shift) - first + k] |= 1u << i;
    uint32_t *restrict stamps = plane->stamp + first, *restrict who = plane->lanes + first;
    uint32_t *restrict insns = plane->insn + first;
    for (uint32_t j = 0; j < lines * LINE; ++j) {
        bool in = lanes[j] != 0;
        who[j] = in ? (stamps[j] == now ? who[j] : 0) | lanes[j] : who[j];
        stamps[j] = in ? now : stamps[j];
        insns[j] = in ? insn : insns[j];
    }
    return true;
}

// Checks and notes a read by all lanes, each somewhere from `low` to `high`, aligned and within shared memory. Returns
// false, with nothing done, if the lines do not prove all earlier writes to be ordered before it.
static inline __attribute__((always_inline)) bool
FN(race_scattered)(struct warp *w, const struct op *op, const uint32_t at[WARP],
                   const uint32_t size, uint32_t low, uint32_t high)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t now = c->now_all, base = c->base_all, warp = (uint32_t)w->index, shift = s->shift;
    uint32_t late = 0, closed = 0, n = size >> shift, insn = op->insn;
    struct read_plane *plane = &s->read[warp];
    uint32_t line = low >> shift >> LINE_SHIFT, lines = (high >> shift >> LINE_SHIFT) - line + 1;
    if (!now || op->order)
        return false;
    if (lines <= 2)
        return FN(race_near)(w, op, at, size, line, lines);
    for (int i = 0; i < WARP; ++i)
        late |= s->writes[at[i] >> shift >> LINE_SHIFT].stamp > base;
    for (int i = 0; late && i < WARP; ++i)
        if (!latest_ordered(c, &s->writes[at[i] >> shift >> LINE_SHIFT]))
            return false;
    for (int i = 0; i < WARP; ++i)
        closed |= plane->reading[at[i] >> shift >> LINE_SHIFT].older ^ now;
    for (int i = 0; closed && i < WARP; ++i)
        if (plane->reading[at[i] >> shift >> LINE_SHIFT].older != now)
            reading_open(s, c, warp, at[i] >> shift >> LINE_SHIFT);
    uint32_t *restrict stamps = plane->stamp, *restrict who = plane->lanes;
    uint32_t *restrict insns = plane->insn;
    for (uint32_t k = 0; k < n; ++k)
        for (int i = 0; i < WARP; ++i) {
            uint32_t cell = (at[i] >> shift) + k;
            who[cell] = (stamps[cell] == now ? who[cell] : 0) | 1u << i;
            stamps[cell] = now;
            insns[cell] = insn;
        }
    return true;
}

// ---- Global memory ------------------------------------------------------------------------------

struct FN(party_at) { // a party's entries for some cells of a page
    uint32_t *cta, *stamp, *who;
};

static inline struct FN(party_at)
FN(party_at)(struct page *page, enum cell_party party, uint32_t cell)
{
    return (struct FN(party_at)){page_words(page, party, PARTY_CTA) + cell,
                                 page_words(page, party, PARTY_STAMP) + cell,
                                 page_words(page, party, PARTY_WHO) + cell};
}

// Whether each of n cells has no party, or one that is ordered before the lane of this warp that
// accesses the cell: lane (j + skip) >> per accesses cell j.
static bool FN(parties_before)(const struct warp *w, struct FN(party_at) p, uint32_t n,
                               uint32_t skip, uint32_t per)
{
    uint32_t warp = (uint32_t)w->index, cta = (uint32_t)w->cta->number, some = 0, bad = 0;
    uint32_t base = w->clock->base_all, wbase = w->clock->wbase_all;
    for (uint32_t j = 0; j < n; ++j)
        some |= p.stamp[j];
    for (uint32_t j = 0; some && j < n; ++j) {
        uint32_t thread = p.who[j] % (1 << THREAD_BITS), me = warp * WARP + ((j + skip) >> per);
        uint32_t before = (p.stamp[j] <= base) | (thread == me) |
                          ((thread / WARP == warp) & (p.stamp[j] <= wbase));
        bad |= p.stamp[j] && !((p.cta[j] == cta) & before);
    }
    return !bad;
}

// Whether no thread of another CTA has accessed any of n cells.
static bool FN(parties_near)(const struct warp *w, struct page *page, uint32_t cell, uint32_t n)
{
    uint32_t cta = (uint32_t)w->cta->number, far = 0;
    for (unsigned k = 0; k < CELL_PARTIES; ++k) {
        struct FN(party_at) p = FN(party_at)(page, (enum cell_party)k, cell);
        for (uint32_t j = 0; page_has(page, (enum cell_party)k) && j < n; ++j)
            far |= (p.stamp[j] != 0) & (p.cta[j] != cta);
    }
    return !far;
}

// Like note_read (races/global.c), for n cells at once; assumes that no access by another CTA is
// ordered before the warp's. If a reader finds both parties of its cell taken, the readers of all n
// cells are added to the crowd.
static void FN(note_reads)(const struct warp *w, struct page *page, uint32_t cell, uint32_t n,
                           uint32_t skip, uint32_t per, uint32_t insn)
{
    uint32_t warp = (uint32_t)w->index, cta = (uint32_t)w->cta->number;
    uint32_t base = w->clock->base_all, wbase = w->clock->wbase_all, now = w->clock->now_all;
    struct FN(party_at) a = FN(party_at)(page, CELL_READ, cell);
    struct FN(party_at) b = FN(party_at)(page, CELL_READ_2, cell);
    page_prepare(page, CELL_READ);
    uint32_t some = 0, left = 0; // a cell whose two parties are of other CTAs stays as it is
    for (uint32_t j = 0; j < n; ++j)
        some |= (a.stamp[j] == 0) | (b.stamp[j] == 0) | (a.cta[j] == cta) | (b.cta[j] == cta);
    const uint32_t looked_at = some ? n : 0;
    left = !some;
#pragma GCC ivdep
    for (uint32_t j = 0; j < looked_at; ++j) {
        uint32_t me = warp * WARP + ((j + skip) >> per);
        uint32_t sa = a.stamp[j], sb = b.stamp[j], ca = a.cta[j], cb = b.cta[j];
        uint32_t wa = a.who[j], wb = b.who[j];
        uint32_t ta = wa % (1 << THREAD_BITS), tb = wb % (1 << THREAD_BITS);
        uint32_t mine_a = (sa != 0) & (ca == cta) & (ta == me);
        uint32_t mine_b = (sb != 0) & (cb == cta) & (tb == me);
        uint32_t free_a = (sa == 0) | ((ca == cta) & ((sa <= base) | ((ta / WARP == warp) & (sa <= wbase))));
        uint32_t free_b = (sb == 0) | ((cb == cta) & ((sb <= base) | ((tb / WARP == warp) & (sb <= wbase))));
        uint32_t to_a = mine_a | ((mine_b ^ 1) & free_a);
        uint32_t to_b = (to_a ^ 1) & (mine_b | free_b);
        left |= (to_a | to_b) ^ 1;
        uint32_t who = me | insn << THREAD_BITS;
        a.stamp[j] = to_a ? now : sa;
        a.cta[j] = to_a ? cta : ca;
        a.who[j] = to_a ? who : wa;
        b.stamp[j] = to_b ? now : sb;
        b.cta[j] = to_b ? cta : cb;
        b.who[j] = to_b ? who : wb;
    }
    if (left) {
        crowd_note(&page->crowd, page->cells, cta, warp, RACE_PLAIN,
                   (struct stretch){cell, cell + n, now, insn, 0,
                                    ((skip - cell) & ((WARP << per) - 1)) << RUN_SHIFT | per});
        series_consider(w->cta->worker, page);
    }
}

static void FN(note_writes)(const struct warp *w, struct page *page, uint32_t cell, uint32_t n,
                            uint32_t skip, uint32_t per, uint32_t insn)
{
    uint32_t warp = (uint32_t)w->index, cta = (uint32_t)w->cta->number, now = w->clock->now_all;
    struct FN(party_at) p = FN(party_at)(page, CELL_WRITE, cell);
    uint32_t *a = page_words(page, CELL_READ, PARTY_STAMP) + cell;
    uint32_t *b = page_words(page, CELL_READ_2, PARTY_STAMP) + cell;
    page_prepare(page, CELL_WRITE);
#pragma GCC ivdep
    for (uint32_t j = 0; j < n; ++j) {
        p.cta[j] = cta;
        p.stamp[j] = now;
        p.who[j] = (warp * WARP + ((j + skip) >> per)) | insn << THREAD_BITS;
    }
    if (page->read) {
        memset(a, 0, n * sizeof *a);
        memset(b, 0, n * sizeof *b);
    }
}

// The race_run_fn (ops.h) of this instruction set.
static bool FN(race_run_global)(struct warp *w, const struct op *op, uint64_t at, uint32_t size,
                                const uint8_t *lanes)
{
    struct worker *worker = w->cta->worker;
    const struct warp_clock *c = w->clock;
    if (!c->now_all || !c->plain || op->order)
        return false;
    unsigned shift = global_races_shift(worker->global_races);
    uint32_t per = (uint32_t)__builtin_ctz(size) - shift, insn = op->insn % (1 << INSN_BITS);
    uint32_t total = WARP << per;
    for (uint32_t done = 0, n; done < total; done += n) {
        uint64_t cell = (at >> shift) + done;
        struct page *page = race_page(worker, (cell << shift) / PAGE);
        uint32_t from = cell & ((PAGE >> shift) - 1), left = (PAGE >> shift) - from;
        n = total - done < left ? total - done : left;
        if (!page)
            continue;
        page_lock(page);
        bool good = !(lanes && page->series == SERIES_OPEN) &&
            (c->alone || FN(parties_near)(w, page, from, n)) &&
            (!page->written ||
             FN(parties_before)(w, FN(party_at)(page, CELL_WRITE, from), n, done, per)) &&
            (!lanes ||
             (!crowd_has(page->crowd, from, n) &&
              (!page->read ||
               (FN(parties_before)(w, FN(party_at)(page, CELL_READ, from), n, done, per) &&
                FN(parties_before)(w, FN(party_at)(page, CELL_READ_2, from), n, done, per)))));
        if (good && lanes) {
            FN(note_writes)(w, page, from, n, done, per, insn);
            memcpy((uint8_t *)(uintptr_t)at + ((size_t)done << shift),
                   lanes + ((size_t)done << shift), (size_t)n << shift);
        } else if (good)
            FN(note_reads)(w, page, from, n, done, per, insn);
        page_unlock(page);
        if (!good)
            return false;
    }
    return true;
}

// ---- Series of reads of global memory --------------------------------------------------------------

// Whether the series' lanes read at the series' distances from `lead`, the first lane's address.
static inline bool FN(same_places)(const struct series *s, const uint64_t at[WARP], uint64_t lead)
{
    uint64_t differ = 0;
    if (s->lanes == ~0u)
        for (int i = 0; i < WARP; ++i)
            differ |= (at[i] - lead) ^ s->from[i];
    else
        for (int i = 0; i < WARP; ++i)
            differ |= s->lanes >> i & 1 ? (at[i] - lead) ^ s->from[i] : 0;
    return !differ;
}

// Whether all pages that these lanes read are open to series.
static inline bool FN(all_open)(const struct series_log *log, const uint64_t at[WARP], uint32_t size,
                                uint32_t lanes)
{
    uint64_t last = UINT64_MAX;
    for (uint32_t left = lanes; left; left &= left - 1) {
        uint64_t page = at[__builtin_ctz(left)] / PAGE;
        if (page != last && !is_open(log, page))
            return false;
        last = page;
    }
    return size <= PAGE;
}

// Notes a read of open pages: as part of the instruction's series, if it continues that series, or
// as the first read of a new one. Returns false, with nothing noted, if the read cannot be part of
// a series.
static __attribute__((noinline)) bool FN(race_series)(struct warp *w, const struct op *op,
                                                      const uint64_t at[WARP], uint32_t size,
                                                      uint32_t lanes)
{
    enum { MOST_BROKEN = 8, FEW = 4 };
    struct series_log *log = w->cta->worker->series;
    struct warp_clock *c = w->clock;
    struct series_place *place = &c->series[op->insn % SERIES_PLACES];
    uint64_t lead = at[__builtin_ctz(lanes)];
    if (!c->now_all || op->order || !is_open(log, lead / PAGE))
        return false;
    if (place->insn != op->insn)
        *place = (struct series_place){.insn = op->insn, .round = UINT32_MAX};
    if (place->broken >= MOST_BROKEN)
        return false;
    lock_on(&log->lock);
    struct series *s = place->round == log->round ? &log->of[place->at] : NULL;
    bool goes_on = s && s->cta == (uint32_t)w->cta->number && s->stamp == c->now_all &&
                   s->lanes == lanes && s->bytes == size && s->count < UINT32_MAX;
    uint64_t step = goes_on && s->count == 1 ? lead - s->at : s ? s->step : 0;
    goes_on = goes_on && lead == s->at + step * s->count && FN(same_places)(s, at, lead);
    uint64_t end = goes_on && s->span ? lead + s->span - 1 : lead;
    bool open = goes_on && s->span && end / PAGE - lead / PAGE <= 1
                    ? is_open(log, lead / PAGE) && is_open(log, end / PAGE)
                    : FN(all_open)(log, at, size, lanes);
    if (open && goes_on) {
        s->step = step;
        s->count++;
    } else if (open) {
        place->broken = s && s->cta == (uint32_t)w->cta->number && s->count < FEW ? place->broken + 1 : 0;
        struct series fresh = {.cta = (uint32_t)w->cta->number, .warp = (uint32_t)w->index,
                               .insn = op->insn, .stamp = c->now_all, .lanes = lanes,
                               .bytes = size, .count = 1, .at = lead};
        uint64_t most = 0;
        for (int i = 0; i < WARP; ++i) {
            fresh.from[i] = at[i] - lead;
            if (lanes >> i & 1)
                most = fresh.from[i] > most ? fresh.from[i] : most;
        }
        fresh.span = most < PAGE ? most + size : 0;
        open = race_series_new(w, &fresh, place);
    }
    lock_off(&log->lock);
    return open;
}
