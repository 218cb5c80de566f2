// series.c: series of reads of global memory (cells.h): opens pages to series; before an open page
// is written, writes all series to the crowds of their pages.
#include "internal.h"

enum {
    MOST_SERIES = 128 << 20, // bytes of a launch's series
    MOST_CLOSED = 64         // closed pages after which no further page is opened
};

struct series_log *global_races_log(struct global_races *g)
{
    struct series_log *log = need(calloc(1, sizeof *log));
    log->open = g->open;
    log->round = 1; // a struct series_place that has had no series has round 0
    log->next = g->logs;
    return g->logs = log;
}

void series_forget(struct global_races *g)
{
    for (struct series_log *log = g->logs, *next; log; log = next) {
        next = log->next;
        free(log->of);
        free(log);
    }
    g->logs = NULL;
    g->closed = 0;
    g->series_bytes = 0;
    for (struct page *p = g->last_page; p; p = p->next)
        if (p->series == SERIES_OPEN)
            g->open[open_slot(p->number)] = 0;
}

bool race_series_new(struct warp *w, const struct series *s, struct series_place *place)
{
    struct global_races *g = w->cta->worker->global_races;
    struct series_log *log = w->cta->worker->series;
    if (log->count == log->capacity) {
        uint32_t more = log->capacity ? log->capacity : 64;
        if (atomic_fetch_add(&g->series_bytes, more * sizeof *s) > MOST_SERIES)
            return false;
        log->capacity += more;
        log->of = need(realloc(log->of, log->capacity * sizeof *log->of));
    }
    place->at = log->count++;
    place->round = log->round;
    log->of[place->at] = *s;
    return true;
}

void race_series_open(struct worker *worker, struct page *page)
{
    struct global_races *g = worker->global_races;
    uint64_t free_slot = 0;
    if (__atomic_load_n(&g->closed, __ATOMIC_RELAXED) < MOST_CLOSED &&
        __atomic_compare_exchange_n(&g->open[open_slot(page->number)], &free_slot, page->number,
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        page->series = SERIES_OPEN;
}

// Notes in the crowds of the pages that each of `lanes` has read `bytes` bytes at `at`. lanes 0:
// the lanes have read consecutive parts of these bytes, of (1 << per) cells each (struct stretch,
// run).
static void note_cells(struct worker *worker, const struct series *s, uint64_t at, uint64_t bytes,
                       uint32_t lanes, uint32_t per)
{
    unsigned shift = worker->global_races->shift;
    uint64_t start = at >> shift, end = ((at + bytes - 1) >> shift) + 1;
    for (uint64_t cell = start, n; cell < end; cell += n) {
        struct page *page = race_page(worker, (cell << shift) / PAGE);
        uint32_t first = cell & ((PAGE >> shift) - 1), left = (PAGE >> shift) - first;
        n = end - cell < left ? end - cell : left;
        struct stretch by = {first, first + (uint32_t)n, s->stamp, s->insn, lanes, 0};
        if (!lanes)
            by.run = ((uint32_t)(cell - start) - first) % (WARP << per) << RUN_SHIFT | per;
        page_lock(page); // never NULL: the page was open to series, so it exists
        crowd_note(&page->crowd, page->cells, s->cta, s->warp, RACE_PLAIN, by);
        page_unlock(page);
    }
}

// Whether the lanes read neighbouring bytes: each lane the bytes after those of the previous lane.
static bool is_run(const struct series *s)
{
    bool run = s->lanes == ~0u;
    for (uint64_t i = 0; run && i < WARP; ++i)
        run = s->from[i] == i * s->bytes;
    return run;
}

static void write_out(struct worker *worker, const struct series *s)
{
    bool run = is_run(s);
    uint32_t per = (uint32_t)__builtin_ctz(s->bytes) - worker->global_races->shift;
    for (uint32_t k = 0; k < s->count; ++k) {
        uint64_t lead = s->at + k * s->step;
        if (run)
            note_cells(worker, s, lead, (uint64_t)WARP * s->bytes, 0, per);
        for (uint32_t left = run ? 0 : s->lanes; left;) {
            uint32_t same = 0; // the next lanes that read at the same address
            uint64_t from = s->from[__builtin_ctz(left)];
            do {
                same |= left & -left;
                left &= left - 1;
            } while (left && s->from[__builtin_ctz(left)] == from);
            note_cells(worker, s, lead + from, s->bytes, same, 0);
        }
    }
}

// Writes out all series, not only those that read this page: so each is written once, however many
// pages are closed.
void race_series_close(struct worker *worker, struct page *page)
{
    struct global_races *g = worker->global_races;
    pthread_mutex_lock(&g->closing);
    if (page->series == SERIES_OPEN) {
        __atomic_store_n(&g->open[open_slot(page->number)], 0, __ATOMIC_RELEASE);
        for (struct series_log *log = g->logs; log; log = log->next) {
            lock_on(&log->lock);
            for (uint32_t i = 0; i < log->count; ++i)
                write_out(worker, &log->of[i]);
            log->count = 0;
            log->round++;
            lock_off(&log->lock);
        }
        page_lock(page);
        page->series = SERIES_OVER;
        page_unlock(page);
        __atomic_store_n(&g->closed, g->closed + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&g->closing);
}
