// global.c: checks an access to global memory against those that its cells remember, and notes it there.
#include "order.h"

enum { MOST_BYTES = 384 << 20 }; // most bytes of a launch's pages

static struct party party_at(struct page *page, enum cell_party which, uint32_t cell)
{
    return (struct party){.cta = page_words(page, which, PARTY_CTA)[cell],
                          .stamp = page_words(page, which, PARTY_STAMP)[cell],
                          .who = page_words(page, which, PARTY_WHO)[cell]};
}

// Like party_at, but reads only the stamp if it is 0, and nothing if the page has no such party.
static struct party some_party_at(struct page *page, enum cell_party which, uint32_t cell)
{
    if (!page_has(page, which) || !page_words(page, which, PARTY_STAMP)[cell])
        return (struct party){0};
    return party_at(page, which, cell);
}

static void set_party(struct page *page, enum cell_party which, uint32_t cell, struct party p)
{
    page_prepare(page, which);
    page_words(page, which, PARTY_CTA)[cell] = p.cta;
    page_words(page, which, PARTY_STAMP)[cell] = p.stamp;
    page_words(page, which, PARTY_WHO)[cell] = p.who;
}

unsigned global_races_shift(const struct global_races *races)
{
    return races->shift;
}

// The tables of the last launch, emptied, for the next launch. They are large, and clearing new ones would take longer
// than a small kernel.
static struct global_races *spare_races;

struct global_races *global_races_new(const struct program *program)
{
    struct global_races *g = __atomic_exchange_n(&spare_races, NULL, __ATOMIC_ACQUIRE);
    if (!g) {
        g = need(calloc(1, sizeof *g));
        pthread_mutex_init(&g->closing, NULL);
        g->open = need(calloc(OPEN_SLOTS, sizeof *g->open));
        g->places_memory = need(calloc(PLACES + 1, sizeof *g->places));
        uintptr_t line = sizeof *g->places;
        g->places = (void *)(((uintptr_t)g->places_memory + line - 1) / line * line);
    }
    race_pages_start(g, program->cell_shift);
    g->most_pages = MOST_BYTES / race_page_bytes(g->shift);
    return g;
}

// Empties a list of places.
static void forget_places(struct global_place *first)
{
    for (struct global_place *p = first, *next; p; p = next) {
        next = p->next;
        if (p->more) {
            world_drop(&p->more->gpu);
            world_drop(&p->more->cta);
            world_drop(&p->more->narrow);
            free(p->more->completed.of);
            free(p->more);
        }
        if (p != first)
            free(p);
    }
    *first = (struct global_place){0};
}

void global_races_free(struct global_races *g)
{
    if (!g)
        return;
    series_forget(g);
    snapshots_forget(&g->snapshots);
    race_pages_forget(g);
    for (int i = 0; g->place_count && i < PLACES / 64; ++i)
        for (; g->places_used[i]; g->places_used[i] &= g->places_used[i] - 1)
            forget_places(&g->places[i * 64 + __builtin_ctzll(g->places_used[i])]);
    g->place_count = 0;
    g = __atomic_exchange_n(&spare_races, g, __ATOMIC_ACQ_REL);
    if (g) {
        race_pages_free(g);
        free(g->snapshots.walk);
        pthread_mutex_destroy(&g->closing);
        free(g->open);
        free(g->places_memory);
    }
    free(g);
}

// Notes a lane's read as one of a cell's two readers. Returns false if the cell must keep both readers that it has.
static bool note_read(const struct warp *w, int lane, struct page *page, uint32_t cell,
                      struct party me)
{
    struct party r[2] = {some_party_at(page, CELL_READ, cell),
                         some_party_at(page, CELL_READ_2, cell)};
    for (int own = 1; own >= 0; --own) // first choice: the thread's own earlier read is replaced
        for (int k = 0; k < 2; ++k)
            if ((!own || (r[k].cta == me.cta && r[k].thread == me.thread)) &&
                takes_place(w, lane, &me, &r[k])) {
                set_party(page, CELL_READ + (unsigned)k, cell, me);
                return true;
            }
    return false;
}

// A stretch of n cells from `cell` on, of an access that reads `size` cells from `start` on. If one
// lane reads them, and `size` is a power of two up to LINE, the stretch has a `run`: so it can be
// joined to the stretches of neighbouring lanes, each of which reads cells of its own.
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

enum { CELL_WORDS = CELL_PARTIES * PARTY_WORDS, MOST_ALIKE = 32 };

// How many of n cells, from the first on, have the same parties as the first, as neighbouring cells
// mostly do. `parties` gets the words of these parties. If all stamps of a party are 0, its other
// words are not compared. The result may be too low; it is at most MOST_ALIKE.
static uint32_t cells_alike(struct page *page, uint32_t cell, uint32_t n,
                            uint32_t parties[CELL_WORDS])
{
    uint32_t count = n < MOST_ALIKE ? n : MOST_ALIKE;
    for (enum cell_party which = 0; which < CELL_PARTIES; ++which) {
        if (!page_has(page, which))
            continue;
        const uint32_t *stamp = page_words(page, which, PARTY_STAMP) + cell;
        uint32_t some = stamp[0] | stamp[1]; // no loop, since n is mostly 2
        for (uint32_t j = 2; j < count; ++j)
            some |= stamp[j];
        for (enum party_word word = 0; some && word < PARTY_WORDS; ++word) {
            const uint32_t *of = page_words(page, which, word) + cell;
            uint32_t first = of[0], any = of[1] ^ first;
            parties[which * PARTY_WORDS + word] = first;
            for (uint32_t j = 2; j < count; ++j)
                any |= of[j] ^ first;
            for (uint32_t j = 1; any && j < count; ++j)
                if (of[j] != first)
                    count = j;
        }
    }
    return count;
}

// Copies the parties of the first of n cells to the others. Before the access all n cells had the parties in
// `parties`.
static void cells_follow(struct page *page, uint32_t cell, uint32_t n,
                         const uint32_t parties[CELL_WORDS])
{
    for (enum cell_party which = 0; which < CELL_PARTIES; ++which) {
        const uint32_t *was = parties + which * PARTY_WORDS;
        bool is_new = !was[PARTY_STAMP];
        if (!page_has(page, which) || (is_new && !page_words(page, which, PARTY_STAMP)[cell]))
            continue;
        for (enum party_word word = 0; word < PARTY_WORDS; ++word) {
            uint32_t *of = page_words(page, which, word) + cell, now = of[0];
            if (!is_new && now == was[word])
                continue;
            of[1] = now;
            for (uint32_t j = 2; j < n; ++j)
                of[j] = now;
        }
    }
}

void race_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes)
{
    struct global_races *g = w->cta->worker->global_races;
    if (!w->clock || !g || !bytes)
        return;
    race_settle(w);
    bool told = false;
    uint64_t cell_at = at >> g->shift, end = ((at + bytes - 1) >> g->shift) + 1;
    for (uint32_t n; cell_at < end && !told; cell_at += n) {
        struct page *page = race_page(w->cta->worker, (cell_at << g->shift) / PAGE);
        if (!page)
            return;
        uint32_t cell = cell_at & ((PAGE >> g->shift) - 1), left = page->cells - cell;
        n = end - cell_at < left ? (uint32_t)(end - cell_at) : left;
        page_lock(page);
        for (uint32_t i = cell; page->written && i < cell + n && !told; ++i) {
            struct party p = party_at(page, CELL_WRITE, i);
            told = p.stamp && !is_bulk(w, p.insn) && !is_fenced_global(w, lane, &p);
            if (told)
                report_proxy_global(w, op, lane, at, bytes, &p);
        }
        page_unlock(page);
    }
}

// Whether what a party did is ordered before what the lane does now, also through what the lane has met but not
// acquired yet.
static bool knows_by_now(struct warp *w, int lane, const struct party *p)
{
    struct worker *worker = w->cta->worker;
    const struct met *met = &w->clock->met[lane];
    if (p->cta == met->by.cta && p->thread == met->by.thread && p->stamp <= met->by.stamp)
        return true;
    if (w->clock->deferred >> lane & 1 && ((met->last && snapshot_shows(worker, met->last, p)) ||
                                           (met->before && snapshot_shows(worker, met->before, p))))
        return true;
    race_settle_lanes(w, 1u << lane);
    return party_before(w, lane, p);
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
    struct party me = party_by(w, lane, op);
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
            page_fetch(page, shift, cell_at & ((PAGE >> shift) - 1), at);
            page_lock(page);
            while (access != RACE_READ && page->series == SERIES_OPEN) {
                page_unlock(page);
                race_series_close(worker, page);
                page_lock(page);
            }
        }
        uint32_t cell = cell_at & ((PAGE >> shift) - 1), left = page->cells - cell;
        uint32_t n = end - cell_at < left ? (uint32_t)(end - cell_at) : left;
        // Cells that have the same parties are checked together, by the first of them.
        uint32_t parties[CELL_WORDS] = {0};
        alike = n > 1 ? cells_alike(page, cell, n, parties) : 1;
        struct part part = part_in(at, bytes, cell_at << shift, (uint64_t)alike << shift);
        struct party p = some_party_at(page, CELL_WRITE, cell);
        // If several lanes read the cell, one of them may be its writer: then another of them is checked.
        int by = other != lane && party_before(w, lane, &p) ? other : lane;
        if (!told && writer_races(w, op, by, access, &p) && !knows_by_now(w, by, &p) &&
            !(access == RACE_WRITE && value && stores_same((void *)(uintptr_t)at, value, part))) {
            report_global(w, op, by, at, bytes, access, &p, true);
            told = true;
        }
        if (access == RACE_READ) {
            if (!told && w->clock->narrow[by] && told_narrowly(w, op, by, &p) &&
                !knows_by_now(w, by, &p)) {
                report_narrow(w, op, by, at, bytes, &p);
                told = true;
            }
            uint32_t more = note_read(w, lane, page, cell, me) ? 0 : 1u << lane;
            if (other != lane) {
                struct party also = party_by(w, other, op);
                also.stamp = me.stamp;
                more |= note_read(w, other, page, cell, also) ? 0 : 1u << other;
            }
            if (more) {
                crowd_note(&page->crowd, page->cells, me.cta, (uint32_t)w->index, me.kind,
                           stretch_of(&me, more, cell, alike, at >> shift,
                                      (uint32_t)(end - (at >> shift))));
                series_consider(worker, page);
            }
            if (alike > 1)
                cells_follow(page, cell, alike, parties);
            continue;
        }
        for (int k = 0; k < 2; ++k) {
            p = some_party_at(page, CELL_READ + (unsigned)k, cell);
            if (!told && reader_races(w, op, lane, &p) && !knows_by_now(w, lane, &p)) {
                report_global(w, op, lane, at, bytes, access, &p, false);
                told = true;
            }
            if (p.stamp)
                page_words(page, CELL_READ + (unsigned)k, PARTY_STAMP)[cell] = 0;
        }
        if (crowd_has(page->crowd, cell, alike)) {
            race_settle_lanes(w, 1u << lane);
            if (!told && crowd_races(w, op, lane, page->crowd, cell, alike, &p)) {
                report_global(w, op, lane, at, bytes, access, &p, false);
                told = true;
            }
            crowd_forget(page->crowd, cell, alike);
        }
        set_party(page, CELL_WRITE, cell, me);
        if (alike > 1)
            cells_follow(page, cell, alike, parties);
        if (access == RACE_WRITE && value && me.kind == RACE_PLAIN)
            memcpy((uint8_t *)(uintptr_t)at + part.first, (const uint8_t *)value + part.first,
                   part.count);
    }
    if (page)
        page_unlock(page);
}
