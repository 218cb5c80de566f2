// cells.h: the shadow cells of memory (races.h), and lines of 32 cells. races/ and the loops over whole warps
// (ops/isa/race_runs.h) share them.
//
// Most accesses are ordered by a barrier, and neighbouring cells are mostly accessed by one warp at one
// time. So the facts that every check needs are kept for a line of 32 cells at once:
//
//   - When the line was last written, when it was last read, and by which warp. No cell of the line has a
//     later stamp: an access that is ordered after these needs no look at the line's cells.
//   - For each warp, its current reading of the line: the cells that it has read at one time, either all of
//     them by the same lanes, or each by a lane of its own. When the warp reads these cells again in the
//     same way, only its instruction is noted. The reading is written to the cells (settled) when the warp
//     accesses the line in another way, or when a check has to look at the cells.
//
// A reading ends when a barrier, a fence or a release advances the warp's clock: what the warp reads afterwards has a
// later stamp.
#ifndef PTXSIM_RACES_CELLS_H
#define PTXSIM_RACES_CELLS_H

#include "races.h"

#include <sched.h>
#include <string.h>

enum { LINE = 32, LINE_SHIFT = 5 }; // cells in a line, and log2 of that

// ---- Who has written a cell (write_thread) ------------------------------------------------------

// The bits of write_thread, from the lowest up: the lane; the source (a warp, or loads); from ISSUER_SHIFT on, the warp
// that issued the load; from ISSUER_RANK_SHIFT on, the rank + 1 of the CTA that issued it, if that is another CTA of
// the cluster.
enum { ISSUER_SHIFT = 12, ISSUER_RANK_SHIFT = 17 };

// The value of write_thread for a copy that a lane issues to the shared memory of `home`.
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

// The value of write_thread for a load: its source and its issuer (issuer_in).
static inline uint32_t writer_by_load(uint32_t source, uint32_t issuer)
{
    uint32_t rank = issuer >> ISSUER_RANK_SHIFT, warp = issuer / WARP % WARP;
    return rank << ISSUER_RANK_SHIFT | warp << ISSUER_SHIFT | source * WARP | issuer % WARP;
}

// The thread that wrote a cell, or that issued the copy which wrote it. writer: the cell's write_thread.
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

// Notes at a line a warp's access with the stamp `stamp`. run: as in struct latest; base: the time
// up to which the warp knows of all threads.
static inline void latest_note(struct latest *l, uint32_t stamp, uint32_t warp, uint32_t run,
                               uint32_t base)
{
    bool alone = l->stamp <= base; // whether earlier accesses to the line are ordered before this
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

// Writes a reading to the warp's entries of some cells. Where a cell already has a reading with this stamp, the lanes
// are added to that one.
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

// Settles the current reading of a line: writes all of it to the cells.
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

// For a line whose last write was a copy that was still under way: whether all its writes have arrived by now, and are
// ordered before what any lane of the warp does.
bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line);

// Notes that a warp reads some cells of a line at time `now`. lanes: those that each read all of the cells; 0: each cell
// is read by one lane, according to `run` (struct reading). The caller notes the instruction afterwards.
static __attribute__((noinline, unused)) void reading_note(const struct warp *w, uint32_t now,
                                                           uint32_t line, uint32_t cells,
                                                           uint32_t lanes, uint32_t run)
{
    struct races *s = w->cta->races;
    uint32_t base = w->clock->base_all;
    struct read_plane *plane = &s->read[w->index];
    struct reading *r = &plane->reading[line];
    if (r->stamp == now && r->cells) {
        if (r->lanes == lanes && r->run == run)
            r->cells |= cells;
        else
            cells_read(plane, line, cells, now, lanes, run);
        return;
    }
    // Settles the part of the old reading whose cells are not in the new one. A reading no later
    // than the base need not be kept, since every later access by a thread is ordered after it; but
    // a later bulk copy is ordered after it only if a proxy fence lies between them.
    if (r->cells & ~cells && (r->stamp > base || s->bulk))
        cells_read(plane, line, r->cells & ~cells, r->stamp, r->lanes, r->run);
    r->stamp = now;
    r->cells = cells;
    r->lanes = lanes;
    r->run = run;
    latest_note(&s->reads[line], now, (uint32_t)w->index, 0, base);
}

// Called before a warp's reads are noted at single cells of a line: settles what the warp read of the line at an
// earlier time, and notes at the line that the warp reads it now. One call is enough for each value of the warp's
// `now_all`.
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

// Notes an access within one line of cells by lanes with the same `now`, if for each of these lanes every earlier write
// of the cells (for a write: also every earlier read of the line) is ordered before it. Otherwise, or if the access is
// strong, returns false, with nothing noted: the caller then checks cell by cell. In a read, each lane reads all of the
// bytes; in a write, neighbouring lanes write neighbouring parts of them.
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
        reading_note(w, now, line, cells, lanes, 0);
    fill(plane->insn + first, count, op->insn);
    return true;
}

// Notes that all lanes read `bytes` bytes at each of `count` addresses. Returns false at the first read before which a
// write may be unordered; the reads before that one are noted.
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
            reading_note(w, now, line, bits << first % LINE, ~0u, 0);
        fill(insns + first, cells, insn);
    }
    return true;
}

// ---- Pages of global memory ---------------------------------------------------------------------

enum { PAGE = 4096 };

// Who accessed a cell, in three words: the CTA's number; the stamp, 0: nobody; and together the thread, the instruction
// and the access's kind. For each party, each of these words is an array over the page's cells.
enum party_word { PARTY_CTA, PARTY_STAMP, PARTY_WHO, PARTY_WORDS };
enum cell_party { CELL_WRITE, CELL_READ, CELL_READ_2, CELL_PARTIES };
enum { THREAD_BITS = 10, INSN_BITS = 19, KIND_BITS = 3 };

// A page's crowd keeps the readers of those cells that more than two parties have read: for each cell, each warp's last
// reading, as for shared memory. Neighbouring cells that were read in the same way form a stretch.
struct stretch {
    uint32_t first, end; // the stretch's cells: [first, end)
    uint32_t stamp, insn;
    uint32_t lanes, run; // lanes 0: each cell was read by lane ((cell + run / 8) >> run % 8) % 32
};
struct crowd {
    uint32_t count, capacity; // entries and slots of the hash table `readers`, by reader
    struct reader {
        bool used;
        uint32_t cta, warp, kind;
        // Stretches, and room for them; last: the index of the stretch noted last.
        uint32_t count, capacity, last;
        struct stretch *of; // stretches, sorted by their cells
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

// Notes a stretch of cells that a warp has read; kind: the kind of access. If *crowd is NULL, makes a crowd for `cells`
// cells.
void crowd_note(struct crowd **crowd, uint32_t cells, uint32_t cta, uint32_t warp, uint32_t kind,
                struct stretch by);

struct page {
    uint64_t number;
    // slot: the table's pointer to this page; next: the page made before it
    struct page **slot, *next;
    int lock;
    enum {
        SERIES_NONE,
        SERIES_OPEN,
        SERIES_OVER
    } series;           // whether some of its reads are noted in series only
    bool written, read; // whether any cell was ever written, or read
    struct crowd *crowd;
    uint32_t cells;
    uint32_t words[];
};

// The distance in words from one of a page's arrays to the next. It is one cache line longer than the array: at a
// distance of 4 KiB, all nine words of a cell would fall into one set of the CPU's L1 cache.
static inline size_t page_stride(uint32_t cells)
{
    return cells + 16;
}

static inline uint32_t *page_words(struct page *p, enum cell_party party, enum party_word word)
{
    return p->words + ((unsigned)party * PARTY_WORDS + (unsigned)word) * page_stride(p->cells);
}

// Whether any cell of the page may have a party of this kind. Until one has, the party's words are not initialised.
static inline bool page_has(const struct page *p, enum cell_party party)
{
    return party == CELL_WRITE ? p->written : p->read;
}

// Called before a cell of a page gets a party of this kind: initialises the party's words the first time.
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

// Fetches the words of a cell, and the memory that it stands for, into the CPU's cache: all at
// once, since one fetch takes as long as many instructions, and at a lock the CPU waits for every
// earlier fetch.
static inline void page_fetch(struct page *p, unsigned shift, uint32_t cell, uint64_t at)
{
    const uint32_t *word = p->words + cell;
    size_t stride = page_stride(PAGE >> shift);
    __builtin_prefetch((const void *)(uintptr_t)at);
    for (uint32_t i = 0; i < PARTY_WORDS; ++i)
        __builtin_prefetch(word + (CELL_WRITE * PARTY_WORDS + i) * stride, 1);
    for (uint32_t i = 0; p->read && i < PARTY_WORDS; ++i)
        __builtin_prefetch(word + (CELL_READ * PARTY_WORDS + i) * stride, 1);
    if (p->read)
        __builtin_prefetch(word + (CELL_READ_2 * PARTY_WORDS + PARTY_STAMP) * stride, 1);
}

static inline void lock_on(int *lock)
{
    enum { PATIENCE = 64 }; // tries, after which the lock's owner may be waiting for a core
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
// The page of this number. NULL: there is no room for more pages, and accesses to this one are not checked.
static inline struct page *race_page(struct worker *worker, uint64_t number)
{
    struct page *last = worker->pages[number % LAST_PAGES];
    return last && last->number == number ? last : race_page_find(worker, number);
}
unsigned global_races_shift(const struct global_races *races);

// ---- Series of reads ------------------------------------------------------------------------------

// A page that several warps have read, and nobody has written, is open to series. A series stands for all reads of open
// pages that one load instruction of a warp makes in a loop, as long as its addresses advance by a constant step. These
// reads are not noted at the cells. Before the first write to an open page, all series are written to the crowds of
// their pages (series.c).
struct series {
    uint32_t cta, warp, insn, stamp; // who reads, with which instruction, and when
    uint32_t lanes, bytes;           // bytes: for each lane
    uint32_t count;                  // how many reads it stands for
    // at: the first lane's address in the first read; step: from one read to the next, modulo 2^64.
    uint64_t at, step;
    // The number of bytes, from the first lane's address on, that contain all lanes' reads; 0: a
    // lane reads before that address, or a page or more after it.
    uint64_t span;
    uint64_t from[WARP]; // each lane's address minus the first lane's
};

// The series of one host thread. A read that finds its page open is noted while the log's lock is held. A thread that
// closes the page afterwards takes each log's lock, and so finds the read.
struct series_log {
    int lock;
    uint32_t count, capacity, round; // round: 1 + how often the log has been written out
    struct series *of;
    const uint64_t *open; // the numbers of the launch's open pages, each in its slot (open_slot)
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

// Begins a series with a read of open pages; the series that `place` had before has ended. Returns false if there is no
// room.
bool race_series_new(struct warp *w, const struct series *s, struct series_place *place);
// race_series_open opens a page, which the caller has locked, unless too many pages have been closed or the page's slot
// is taken. race_series_close closes a page; its caller must hold no page's lock.
void race_series_open(struct worker *worker, struct page *page);
void race_series_close(struct worker *worker, struct page *page);

// Called after a read of a page that is locked: opens the page once its crowd has two readers.
static inline void series_consider(struct worker *worker, struct page *page)
{
    if (page->series == SERIES_NONE && !page->written && page->crowd && page->crowd->count > 1)
        race_series_open(worker, page);
}

#endif
