// cells.h: the cells of memory, which races/ and the loops over whole warps (ops/isa/race_runs.h) share.
//
// Most accesses are in order by a barrier, and most neighbours are accessed by the same warp at the
// same time. So what is asked of every access is kept for a line of 32 cells at once:
//
//   - When the line was last written, and last read, and by which warp. No cell of it has a later
//     stamp; a line that is in order by these needs no look at its cells.
//   - Of each warp, the reading that is under way: cells that it has read at one time, all of them by
//     the same lanes or each by its own. A warp that reads them again in the same way has nothing to
//     note but its instruction. The reading is written to the cells (settled) when another kind
//     of access comes, or somebody has to look at them.
//
// A reading ends with its time: a barrier, a fence or a release moves the warp's clock on, and what
// was noted before is no longer the same.
#ifndef PTXSIM_RACES_CELLS_H
#define PTXSIM_RACES_CELLS_H

#include "races.h"

#include <sched.h>
#include <string.h>

enum { LINE = 32, LINE_SHIFT = 5 }; // cells

// ---- Who has written a cell (write_thread) ------------------------------------------------------

// Above the source of loads: the warp that issued the load. Above that of a copy that another CTA of the cluster issued:
// 1 + its rank.
enum { ISSUER_SHIFT = 12, ISSUER_RANK_SHIFT = 17 };

// A lane as the writer of a copy to the shared memory of `home`.
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

// How a cell names its writer if that was a load: the source of loads, and who issued it (issuer_in).
static inline uint32_t writer_by_load(uint32_t source, uint32_t issuer)
{
    uint32_t rank = issuer >> ISSUER_RANK_SHIFT, warp = issuer / WARP % WARP;
    return rank << ISSUER_RANK_SHIFT | warp << ISSUER_SHIFT | source * WARP | issuer % WARP;
}

// The thread that has written, or has issued the copy.
static inline uint32_t issuer_of(uint32_t writer)
{
    uint32_t warp = source_of(writer) < LOADS ? source_of(writer) : writer >> ISSUER_SHIFT;
    return warp % WARP * WARP + writer % WARP;
}

// ---- Lines of shared memory ---------------------------------------------------------------------

// Whether the last accesses to a line come before what every lane of a warp does now.
static inline bool latest_ordered(const struct warp_clock *c, const struct latest *l)
{
    return l->stamp <= c->least[l->warp];
}

// An access at `stamp` by a warp, in a run or (0) not, to a line; `base`: what the warp knows of all.
static inline void latest_note(struct latest *l, uint32_t stamp, uint32_t warp, uint32_t run,
                               uint32_t base)
{
    bool alone = l->stamp <= base; // what is older is in order for everybody
    l->run = alone || l->run == run ? run : 0;
    l->warp = alone || l->warp == warp ? warp : SEVERAL;
    l->stamp = l->stamp > stamp ? l->stamp : stamp;
}

// Of the cells of a line: those in [first, last], as bits.
static inline uint32_t line_cells(uint32_t line, uint32_t first, uint32_t last)
{
    uint32_t from = first >> LINE_SHIFT < line ? 0 : first % LINE;
    uint32_t to = last >> LINE_SHIFT > line ? LINE - 1 : last % LINE;
    return (UINT32_MAX >> (LINE - 1 - to)) & (UINT32_MAX << from);
}

// Writes some cells of a reading to the warp's cells. A second reading at the same time adds lanes.
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

// Settles the reading under way: afterwards the cells say all.
static inline void reading_settle(struct read_plane *plane, uint32_t line)
{
    struct reading *r = &plane->reading[line];
    if (r->cells)
        cells_read(plane, line, r->cells, r->stamp, r->lanes, r->run);
    r->cells = 0;
}

// Whether no cell of the line has a reading by the warp that is later than `stamp`.
static inline bool reading_before(const struct read_plane *plane, uint32_t line, uint32_t stamp)
{
    const struct reading *r = &plane->reading[line];
    return r->older <= stamp && (!r->cells || r->stamp <= stamp);
}

// Whether any cell of some bytes may have been written after a time.
static inline bool written_since(const struct races *s, uint32_t at, uint32_t bytes, uint32_t time)
{
    uint32_t late = 0;
    for (uint32_t line = at >> s->shift >> LINE_SHIFT;
         line <= (at + bytes - 1) >> s->shift >> LINE_SHIFT; ++line)
        late |= s->writes[line].stamp > time;
    return late;
}

// A line was last written by an access that was on its way then. Whether what it holds now is in order for
// all lanes.
bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line);

// A warp whose lanes agree on the time reads some cells of a line: by `lanes`, or (0) as `run` says.
// The caller notes the instruction, afterwards.
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
    // What is older is in order for everybody, but for a bulk copy if there was no proxy fence.
    if (r->cells & ~cells && (r->stamp > c->base_all || s->bulk))
        cells_read(plane, line, r->cells & ~cells, r->stamp, r->lanes, r->run);
    r->stamp = c->now_all;
    r->cells = cells;
    r->lanes = lanes;
    r->run = run;
    latest_note(&s->reads[line], c->now_all, warp, 0, c->base_all);
}

// Before single cells are written to: what the warp read of the line at an earlier time is settled, and
// the line knows that it reads it now. Until the warp's time moves on, once is enough (older).
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

// first + (i >> per) in cell i of `count`, a multiple of 16.
static inline void fill_run(uint32_t *to, uint32_t count, uint32_t first, uint32_t per)
{
    sixteen lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (uint32_t i = 0; i < count; i += 16, lane += 16)
        *(sixteen *)(to + i) = (lane >> per) + first;
}

// Whether the last writes to some cells come before what every lane of a warp does now.
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

// An access to cells of one line, by lanes that agree on the time: notes it if it is plainly in
// order; otherwise false, with nothing noted. Lanes that read, read all of the bytes; those that
// write are neighbours, and write a part each, one after the other.
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

// Reads of `bytes` by all lanes, at each of `count` places: noted, as far as they are plainly in order. False,
// where one is not; those before it are noted then.
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

// The readers of cells that have more of them than two parties: the last reading of each cell by each warp, as
// shared memory keeps it. Neighbouring cells that were read alike are one stretch.
struct stretch {
    uint32_t first, end; // cells
    uint32_t stamp, insn;
    uint32_t lanes, run; // lanes 0: lane (cell + run / 8) >> run % 8, modulo 32, has read the cell
};
struct crowd {
    uint32_t count, capacity; // of a table that is searched by reader
    struct reader {
        bool used;
        uint32_t cta, warp, kind;
        uint32_t count, capacity, last; // last: the one noted last
        struct stretch *of;             // in the order of their cells
    } * readers, *last;
    uint32_t cells[]; // a bit each: whether somebody has read it
};

// Whether the crowd has a reading of any of some cells; a NULL crowd is empty.
static inline bool crowd_has(const struct crowd *crowd, uint32_t cell, uint32_t n)
{
    uint32_t some = 0;
    for (uint32_t i = cell / 32; crowd && i <= (cell + n - 1) / 32; ++i)
        some |= crowd->cells[i] & line_cells(i, cell, cell + n - 1);
    return some != 0;
}

// Notes a stretch that an access of this kind by a warp has read. *crowd: of `cells` cells; made if it is NULL.
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
    bool written, read; // some cell has had a write; a reading
    struct crowd *crowd;
    uint32_t cells;
    uint32_t words[];
};

// From one of a page's arrays to the next, in words: by a cache line more than the cells, for at a multiple of 4 KiB all
// nine words of a cell would fall into one set of the processor's first cache.
static inline size_t page_stride(uint32_t cells)
{
    return cells + 16;
}

static inline uint32_t *page_words(struct page *p, enum cell_party party, enum party_word word)
{
    return p->words + ((unsigned)party * PARTY_WORDS + (unsigned)word) * page_stride(p->cells);
}

// Whether any cell of the page may have such a party. Before that its words are not set.
static inline bool page_has(const struct page *p, enum cell_party party)
{
    return party == CELL_WRITE ? p->written : p->read;
}

// Before a cell of a page gets such a party.
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
    enum { PATIENCE = 64 }; // then its owner may be waiting for a core
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
// The page of a number; NULL when there is no more room: it is then not checked.
static inline struct page *race_page(struct worker *worker, uint64_t number)
{
    struct page *last = worker->pages[number % LAST_PAGES];
    return last && last->number == number ? last : race_page_find(worker, number);
}
unsigned global_races_shift(const struct global_races *races);

// ---- Series of reads ------------------------------------------------------------------------------

// A page that several warps have read, and nobody has written, is open to series: one stands for all the reads that a
// warp's load makes of such pages in a loop, for as long as its addresses go on by the same step. Nothing is noted at
// the cells then. Before the first write to an open page all series are written out, into crowds (series.c).
struct series {
    uint32_t cta, warp, insn, stamp; // as of a party
    uint32_t lanes, bytes;           // of a lane
    uint32_t count;                  // reads
    uint64_t at, step;               // of the first lane, at the first read; step modulo 2^64
    uint64_t
        span; // bytes that a read lies within, from its first lane's on; 0: not only from there
    uint64_t from[WARP]; // of each lane, from the first one's address on
};

// Of a host thread. A read that finds its page open is noted while the lock is held: a thread that closes the page
// takes each lock afterwards, and then finds what was noted.
struct series_log {
    int lock;
    uint32_t count, capacity, round; // round: how often it has been written out
    struct series *of;
    const uint64_t *open; // of the launch: at the slot of a page's number, that number
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

// Another read of some open pages, in place of a series that did not go on. False where there are too many.
bool race_series_new(struct warp *w, const struct series *s, struct series_place *place);
// race_series_open opens a locked page, if it may be opened. race_series_close closes a page; the
// caller has no page locked.
void race_series_open(struct worker *worker, struct page *page);
void race_series_close(struct worker *worker, struct page *page);

// After a read of a page that is locked: it is opened once it has a crowd.
static inline void series_consider(struct worker *worker, struct page *page)
{
    if (page->series == SERIES_NONE && !page->written && page->crowd && page->crowd->count > 1)
        race_series_open(worker, page);
}

#endif
