// cells.h: the cells of memory, which races/ and the loops over whole warps (ops/isa/race_runs.h) share.
//
// Most accesses are ordered by a barrier, and neighbouring cells are mostly accessed by one warp at one
// time. So the facts that every check needs are kept for a line of 32 cells at once:
//
//   - When the line was last written, when it was last read, and by which warp. No cell of the line has a
//     later stamp: if an access comes after these, its cells need not be looked at.
//   - For each warp, its reading of the line that is under way: the cells that it has read at one time, either
//     all of them by the same lanes, or each by a lane of its own. When the warp reads these cells again in
//     the same way, only its instruction is noted. The reading is written to the cells (settled) when the
//     line is accessed in another way, or when a check has to look at the cells.
//
// A reading ends when a barrier, a fence or a release moves the warp's clock on: what the warp reads after
// that has a later stamp.
#ifndef PTXSIM_RACES_CELLS_H
#define PTXSIM_RACES_CELLS_H

#include "races.h"

#include <sched.h>
#include <string.h>

enum { LINE = 32, LINE_SHIFT = 5 }; // cells

// ---- Who has written a cell (write_thread) ------------------------------------------------------

// The bits of write_thread, from the lowest up: the lane; the source (a warp, or loads); from ISSUER_SHIFT on the warp
// that issued the load; from ISSUER_RANK_SHIFT on 1 + the rank of the issuing CTA, if that is another one of the
// cluster.
enum { ISSUER_SHIFT = 12, ISSUER_RANK_SHIFT = 17 };

// The number that names a lane as the writer of a copy to the shared memory of `home`.
static inline uint32_t issuer_in(const struct cta *home, const struct warp *w, int lane)
{
    uint32_t thread = (uint32_t)w->index * WARP + (uint32_t)lane;
    return home == w->cta ? thread : thread | (uint32_t)(w->cta->rank + 1) << ISSUER_RANK_SHIFT;
}

static inline const struct cta *issuing_cta(const struct cta *home, uint32_t writer)
{
    int rank = (int)(writer >> ISSUER_RANK_SHIFT & 31);
    return rank ? home->cluster->cta[rank - 1] : home;
}

static inline uint32_t source_of(uint32_t writer)
{
    return writer / WARP % SOURCES;
}

// The number that names a load as a cell's writer: its source of loads, and who issued it (issuer_in).
static inline uint32_t writer_by_load(uint32_t source, uint32_t issuer)
{
    uint32_t rank = issuer >> ISSUER_RANK_SHIFT, warp = issuer / WARP % WARP;
    return rank << ISSUER_RANK_SHIFT | warp << ISSUER_SHIFT | source * WARP | issuer % WARP;
}

// The thread that wrote the cell, or that issued the copy which wrote it.
static inline uint32_t issuer_of(uint32_t writer)
{
    uint32_t warp = source_of(writer) < LOADS ? source_of(writer) : writer >> ISSUER_SHIFT;
    return warp % WARP * WARP + writer % WARP;
}

// ---- Lines of shared memory ---------------------------------------------------------------------

// Whether the last accesses to a line are ordered before what any lane of a warp does now.
static inline bool latest_ordered(const struct warp_clock *c, const struct latest *l)
{
    return l->stamp <= c->least[l->warp];
}

// Notes a warp's access to a line at `stamp`. run: struct latest; base: the warp knows of all threads up to then.
static inline void latest_note(struct latest *l, uint32_t stamp, uint32_t warp, uint32_t run,
                               uint32_t base)
{
    bool alone = l->stamp <= base; // all earlier accesses to the line are in order for every thread
    l->run = alone || l->run == run ? run : 0;
    l->warp = alone || l->warp == warp ? warp : SEVERAL;
    l->stamp = l->stamp > stamp ? l->stamp : stamp;
}

// A bit for each cell of a line that is in [first, last].
static inline uint32_t line_cells(uint32_t line, uint32_t first, uint32_t last)
{
    uint32_t from = first >> LINE_SHIFT < line ? 0 : first % LINE;
    uint32_t to = last >> LINE_SHIFT > line ? LINE - 1 : last % LINE;
    return (UINT32_MAX >> (LINE - 1 - to)) & (UINT32_MAX << from);
}

// Writes a reading to the warp's entries of some cells. If a cell has a reading of the same time, lanes are added to
// it.
static inline void cells_read(struct read_plane *plane, uint32_t line, uint32_t cells,
                              uint32_t stamp, uint32_t lanes, uint32_t run)
{
    uint32_t *stamps = plane->stamp + line * LINE, *who = plane->lanes + line * LINE;
    uint32_t from = line * LINE - (run >> RUN_SHIFT), per = run % (1 << RUN_SHIFT);
    for (uint32_t j = 0; j < LINE; ++j) {
        bool in = cells >> j & 1;
        uint32_t reads = lanes ? lanes : 1u << ((from + j) >> per & 31);
        uint32_t all = (stamps[j] == stamp ? who[j] : 0) | reads;
        who[j] = in ? all : who[j];
        stamps[j] = in ? stamp : stamps[j];
    }
    struct reading *r = &plane->reading[line];
    r->older = r->older > stamp ? r->older : stamp;
}

// Settles the reading that is under way: afterwards all that is known of it stands at the cells.
static inline void reading_settle(struct read_plane *plane, uint32_t line)
{
    struct reading *r = &plane->reading[line];
    if (r->cells)
        cells_read(plane, line, r->cells, r->stamp, r->lanes, r->run);
    r->cells = 0;
}

// Whether the warp has read no cell of the line after `stamp`.
static inline bool reading_before(const struct read_plane *plane, uint32_t line, uint32_t stamp)
{
    const struct reading *r = &plane->reading[line];
    return r->older <= stamp && (!r->cells || r->stamp <= stamp);
}

// Whether any of `bytes` bytes from `at` on may have been written after `time`.
static inline bool written_since(const struct races *s, uint32_t at, uint32_t bytes, uint32_t time)
{
    uint32_t late = 0;
    for (uint32_t line = at >> s->shift >> LINE_SHIFT;
         line <= (at + bytes - 1) >> s->shift >> LINE_SHIFT; ++line)
        late |= s->writes[line].stamp > time;
    return late;
}

// For a line whose last write was a copy that had not yet come: whether by now all its writes have come, and are
// ordered before what any lane of the warp does.
bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line);

// Notes that a warp, whose lanes all have the same time, reads some cells of a line. lanes: those that read each of the
// cells; 0: one lane reads each, as `run` says (struct reading). The caller notes the instruction afterwards.
static __attribute__((noinline, unused)) void
reading_note(struct races *s, const struct warp_clock *c, uint32_t warp, uint32_t line,
             uint32_t cells, uint32_t lanes, uint32_t run)
{
    struct read_plane *plane = &s->read[warp];
    struct reading *r = &plane->reading[line];
    if (r->stamp == c->now_all && r->cells) {
        if (r->lanes == lanes && r->run == run)
            r->cells |= cells;
        else
            cells_read(plane, line, cells, c->now_all, lanes, run);
        return;
    }
    // Cells of the old reading that the new one leaves out. Up to the base they need not be kept, since every later
    // access is in order with them; but a bulk copy is so only after a proxy fence.
    if (r->cells & ~cells && (r->stamp > c->base_all || s->bulk))
        cells_read(plane, line, r->cells & ~cells, r->stamp, r->lanes, r->run);
    r->stamp = c->now_all;
    r->cells = cells;
    r->lanes = lanes;
    r->run = run;
    latest_note(&s->reads[line], c->now_all, warp, 0, c->base_all);
}

// To be called before a warp's reads are noted at single cells of a line: settles what the warp read of the line at an
// earlier time, and notes at the line that the warp reads it now. One call is enough for each time of the warp (older).
static __attribute__((noinline, unused)) void
reading_open(struct races *s, const struct warp_clock *c, uint32_t warp, uint32_t line)
{
    struct reading *r = &s->read[warp].reading[line];
    if (r->stamp != c->now_all)
        reading_settle(&s->read[warp], line);
    r->older = c->now_all;
    latest_note(&s->reads[line], c->now_all, warp, 0, c->base_all);
}

typedef uint32_t sixteen __attribute__((vector_size(64), aligned(4), may_alias));

// Writes one value to `count` cells, a power of two.
static inline void fill(uint32_t *to, uint32_t count, uint32_t value)
{
    uint64_t two = value | (uint64_t)value << 32;
    sixteen many = {0};
    many += value;
    if (count == 1)
        *to = value;
    for (; count >= 16; to += 16, count -= 16)
        *(sixteen *)to = many;
    for (; count > 1; to += 2, count -= 2)
        memcpy(to, &two, sizeof two);
}

// Writes first + (i >> per) to cell i, for each of `count` cells, a multiple of 16.
static inline void fill_run(uint32_t *to, uint32_t count, uint32_t first, uint32_t per)
{
    sixteen lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (uint32_t i = 0; i < count; i += 16, lane += 16)
        *(sixteen *)(to + i) = (lane >> per) + first;
}

// Whether the last writes to some cells are ordered before what any lane of a warp does now.
static __attribute__((noinline, unused)) bool
writes_before(const struct races *s, const struct warp_clock *c, uint32_t first, uint32_t last)
{
    uint32_t late = 0;
    for (uint32_t cell = first; cell <= last; ++cell)
        late |= s->write_stamp[cell] > c->base_all;
    for (uint32_t cell = first; late && cell <= last; ++cell)
        if (s->write_stamp[cell] > c->least[source_of(s->write_thread[cell])])
            return false;
    return true;
}

// Notes an access to cells of one line, by lanes that have the same time, if what all of them know puts it in
// order. Returns false otherwise, with nothing noted: the caller then checks cell by cell. When lanes read, each
// reads all of the bytes; when they write, neighbouring lanes write neighbouring parts of the bytes.
static inline __attribute__((always_inline)) bool race_in_line(struct warp *w, const struct op *op,
                                                               uint32_t lanes, uint32_t at,
                                                               uint32_t bytes, bool write)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift, count = last - first + 1;
    uint32_t line = first >> LINE_SHIFT, warp = (uint32_t)w->index, now = c->now_all;
    if (!now || op->order || last >> LINE_SHIFT != line ||
        !(latest_ordered(c, &s->writes[line]) || writes_before(s, c, first, last)) ||
        (write && !latest_ordered(c, &s->reads[line])))
        return false;
    if (write) {
        fill(s->write_stamp + first, count, now);
        uint32_t thread = warp * WARP + (uint32_t)__builtin_ctz(lanes);
        uint32_t part = count / (uint32_t)__builtin_popcount(lanes);
        for (uint32_t cell = first; cell <= last; cell += part, ++thread)
            fill(s->write_thread + cell, part, thread);
        fill(s->write_insn + first, count, op->insn);
        latest_note(&s->writes[line], now, warp, 0, c->base_all);
        return true;
    }
    struct read_plane *plane = &s->read[warp];
    struct reading *r = &plane->reading[line];
    uint32_t cells = line_cells(line, first, last);
    if (r->stamp == now && r->lanes == lanes && !r->run && r->cells)
        r->cells |= cells;
    else
        reading_note(s, c, warp, line, cells, lanes, 0);
    fill(plane->insn + first, count, op->insn);
    return true;
}

// Notes that all lanes read `bytes` at each of `count` places. Returns false at the first read that may not be in
// order; the reads before it are noted.
static inline bool race_rows(struct warp *w, const struct op *op, const uint64_t *at,
                             uint32_t count, uint32_t bytes)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    const struct latest *const writes = s->writes;
    struct read_plane *plane = &s->read[w->index];
    struct reading *const readings = plane->reading;
    uint32_t *const insns = plane->insn, insn = op->insn, shift = s->shift, now = c->now_all;
    uint32_t cells = bytes >> shift, bits = UINT32_MAX >> (LINE - cells);
    if (!now || op->order)
        return false;
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t first = (uint32_t)at[i] >> shift, line = first >> LINE_SHIFT;
        struct reading *r = &readings[line];
        if (!latest_ordered(c, &writes[line]) && !writes_before(s, c, first, first + cells - 1))
            return false;
        if (r->stamp == now && !~r->lanes && r->cells)
            r->cells |= bits << first % LINE;
        else
            reading_note(s, c, (uint32_t)w->index, line, bits << first % LINE, ~0u, 0);
        fill(insns + first, cells, insn);
    }
    return true;
}

// ---- Pages of global memory ---------------------------------------------------------------------

enum { PAGE = 4096 };

// Who accessed a cell, in three words: the CTA's number, the stamp (0: nobody), and the thread, the
// instruction and the access's kind. Each word of each party is an array of the page's cells.
enum party_word { PARTY_CTA, PARTY_STAMP, PARTY_WHO, PARTY_WORDS };
enum cell_party { CELL_WRITE, CELL_READ, CELL_READ_2, CELL_PARTIES };
enum { THREAD_BITS = 10, INSN_BITS = 19, KIND_BITS = 3 };

// A page's crowd keeps the readers of those cells that more than two parties have read: for each cell the last reading
// by each warp, as for shared memory. Neighbouring cells that were read in the same way are one stretch.
struct stretch {
    uint32_t first, end; // cells
    uint32_t stamp, insn;
    uint32_t lanes, run; // lanes 0: lane ((cell + run / 8) >> run % 8) % 32 read each cell
};
struct crowd {
    uint32_t count, capacity; // of a table that is searched by reader
    struct reader {
        bool used;
        uint32_t cta, warp, kind;
        uint32_t count, capacity, last; // last: the stretch that was noted last
        struct stretch *of;             // in the order of their cells
    } * readers, *last;
    uint32_t cells[]; // a bit for each cell: whether the crowd has a reading of it
};

// Whether the crowd has a reading of any of n cells. A NULL crowd is empty.
static inline bool crowd_has(const struct crowd *crowd, uint32_t cell, uint32_t n)
{
    uint32_t some = 0;
    for (uint32_t i = cell / 32; crowd && i <= (cell + n - 1) / 32; ++i)
        some |= crowd->cells[i] & line_cells(i, cell, cell + n - 1);
    return some != 0;
}

// Notes a stretch of cells that a warp has read. kind: of the access. If *crowd is NULL, a crowd of `cells` cells is
// made.
void crowd_note(struct crowd **crowd, uint32_t cells, uint32_t cta, uint32_t warp, uint32_t kind,
                struct stretch by);

struct page {
    uint64_t number;
    struct page **slot, *next; // its place in the table, and the page made before it
    int lock;
    enum {
        SERIES_NONE,
        SERIES_OPEN,
        SERIES_OVER
    } series;           // whether series stand for some of its reads
    bool written, read; // whether any cell was ever written, or read
    struct crowd *crowd;
    uint32_t cells;
    uint32_t words[];
};

// The distance in words from one of a page's arrays to the next. It is one cache line more than the array needs: at a
// distance of 4 KiB all nine words of a cell would fall into one set of the CPU's L1 cache.
static inline size_t page_stride(uint32_t cells)
{
    return cells + 16;
}

static inline uint32_t *page_words(struct page *p, enum cell_party party, enum party_word word)
{
    return p->words + ((unsigned)party * PARTY_WORDS + (unsigned)word) * page_stride(p->cells);
}

// Whether any cell of the page may have such a party. As long as none has, the party's words are not initialised.
static inline bool page_has(const struct page *p, enum cell_party party)
{
    return party == CELL_WRITE ? p->written : p->read;
}

// To be called before a cell of a page gets such a party: initialises the party's words, the first time.
static inline void page_prepare(struct page *p, enum cell_party party)
{
    if (page_has(p, party))
        return;
    for (enum cell_party i = 0; i < CELL_PARTIES; ++i)
        if ((i == CELL_WRITE) == (party == CELL_WRITE))
            memset(page_words(p, i, PARTY_STAMP), 0, p->cells * sizeof(uint32_t));
    p->written |= party == CELL_WRITE;
    p->read |= party != CELL_WRITE;
}

static inline void lock_on(int *lock)
{
    enum { PATIENCE = 64 }; // tries; after these the lock's owner may be waiting for a core
    for (int i = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); ++i)
        if (i % PATIENCE == PATIENCE - 1)
            sched_yield();
}

static inline void lock_off(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static inline void page_lock(struct page *p)
{
    lock_on(&p->lock);
}

static inline void page_unlock(struct page *p)
{
    lock_off(&p->lock);
}

size_t race_page_bytes(unsigned shift);
struct page *race_page_find(struct worker *worker, uint64_t number);
// The page with this number. NULL: there is no room for more pages, and accesses to this one are not checked.
static inline struct page *race_page(struct worker *worker, uint64_t number)
{
    struct page *last = worker->pages[number % LAST_PAGES];
    return last && last->number == number ? last : race_page_find(worker, number);
}
unsigned global_races_shift(const struct global_races *races);

// ---- Series of reads ------------------------------------------------------------------------------

// A page that several warps have read, and that nobody has written, is open to series. A series stands for all reads
// that one load instruction of a warp makes of open pages in a loop, as long as its addresses advance by the same step.
// These reads are not noted at the cells. Before the first write to an open page, all series are written out into the
// crowds of their pages (series.c).
struct series {
    uint32_t cta, warp, insn, stamp; // as in struct party
    uint32_t lanes, bytes;           // bytes: of one lane
    uint32_t count;                  // reads
    uint64_t at, step;               // the first lane's address in the first read; step: mod 2^64
    uint64_t
        span; // bytes that a read lies within, from its first lane's on; 0: not only from there
    uint64_t from[WARP]; // of each lane, from the first one's address on
};

// The series of a host thread. A read that finds its page open is noted while the lock is held. A thread that closes
// the page takes each log's lock after that, so it finds the read.
struct series_log {
    int lock;
    uint32_t count, capacity, round; // round: how often it has been written out
    struct series *of;
    const uint64_t *open; // the launch's open pages: each one's number at its slot (open_slot)
    struct series_log *next;
};

enum { OPEN_SLOTS = 1 << 16 };
static inline uint64_t open_slot(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) >> 48;
}

static inline bool is_open(const struct series_log *log, uint64_t number)
{
    return number && __atomic_load_n(&log->open[open_slot(number)], __ATOMIC_RELAXED) == number;
}

// Begins a series with a read of open pages; the place's series before it did not go on. False: there is no room.
bool race_series_new(struct warp *w, const struct series *s, struct series_place *place);
// race_series_open opens a page, which the caller has locked, unless too many pages were closed before or the page's
// slot is taken. race_series_close closes a page; its caller must have no page locked.
void race_series_open(struct worker *worker, struct page *page);
void race_series_close(struct worker *worker, struct page *page);

// To be called after a read of a page that is locked: opens the page once its crowd has two readers.
static inline void series_consider(struct worker *worker, struct page *page)
{
    if (page->series == SERIES_NONE && !page->written && page->crowd && page->crowd->count > 1)
        race_series_open(worker, page);
}

#endif
