// internal.h: what the files of races/ share: clocks and worlds, parties, crowds, snapshots, reports.
#ifndef PTXSIM_RACES_INTERNAL_H
#define PTXSIM_RACES_INTERNAL_H

#include "cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static inline void *need(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "ptxsim: out of memory\n");
    abort();
}

// Memory whose address and size are multiples of HUGE_PAGE. The host is asked for huge pages: without them, a kernel
// with millions of locks waits for its page tables as long as for its memory.
enum { HUGE_PAGE = 2 << 20 };
static inline void *need_huge(size_t bytes)
{
    void *memory = need(aligned_alloc(HUGE_PAGE, bytes));
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

// ---- Clocks (clocks.c) --------------------------------------------------------------------------

static inline struct clock *clock_share(struct clock *c)
{
    if (c)
        __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static inline struct world *world_share(struct world *x)
{
    if (x)
        __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
    return x;
}

// Makes *clock a clock that may be written: leaves it if nobody else holds it, otherwise copies it;
// if NULL, makes a new one. Returns *clock.
struct clock *clock_own(struct clock **clock, uint32_t threads);

// A world that has only this clock.
struct world *world_of(uint64_t cta, struct clock *clock);
void world_drop(struct world **world);
void world_join(struct world **into, struct world *more);
// Like world_join, but leaves out the clock that `more` has of CTA `but`.
void world_join_but(struct world **into, struct world *more, uint64_t but);
// Joins the clock of one CTA into a world.
void world_put(struct world **world, uint64_t cta, struct clock *clock);
// A world without its clock of one CTA. If it has no such clock, returns the world itself, with one reference more.
struct world *world_without(struct world *world, uint64_t cta);
// clock_world: makes a world of a clock of the CTA `home` and of the world that this clock holds. clock_tell does the
// reverse: joins a world into a clock of `home`.
struct world *clock_world(const struct cta *home, struct clock *clock);
void clock_tell(const struct cta *home, struct clock **clock, struct world *world);

void completed_join(struct completed *into, const struct completed *more);

// Joins the stamps of another clock of the same CTA, but not the world that it holds.
void clock_raise(struct clock *c, const struct clock *more);

static inline bool clock_knows(const struct clock *c, uint32_t thread, uint32_t stamp)
{
    return stamp <= c->base || stamp <= c->at[thread];
}

// The clock that a world has of a CTA; NULL: it has none.
static inline struct clock *world_clock(const struct world *world, uint64_t cta)
{
    for (uint32_t low = 0, high = world ? world->count : 0; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (world->of[middle].cta == cta)
            return world->of[middle].clock;
        if (world->of[middle].cta < cta)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// Recomputes what all lanes of a warp know in common (now_all, base_all, least ...). Called after any lane has learnt
// something.
void race_summarise(struct warp *w);

// ---- Threads (threads.c) ------------------------------------------------------------------------

// Makes lanes acquire what they have met (struct met) but not acquired yet. Called before a check of what they know.
void race_settle_lanes(struct warp *w, uint32_t lanes);
static inline void race_settle(struct warp *w)
{
    if (w->clock->deferred)
        race_settle_lanes(w, w->clock->deferred);
}

// race_tick: advances the CTA's time and returns it. race_step: sets the lanes' time to it, so that what they do from
// now on is later than what they have released.
uint32_t race_tick(struct cta *cta);
void race_step(struct warp *w, uint32_t lanes, uint32_t time);
// Advances the CTA's time, and sets these lanes' time to it; they learn nothing.
void race_move(struct warp *w, uint32_t lanes);
// These add to a clock what lanes know and have done; race_release_lane adds what the lane has done up to `stamp`.
void race_release_lane(struct warp *w, int lane, uint32_t stamp, struct clock **clock);
void race_release_lanes(struct warp *w, uint32_t lanes, struct clock **clock);
// Adds a clock to what lanes know. The caller calls race_summarise afterwards.
void race_acquire_lane(struct warp_clock *c, int lane, struct clock *clock);
void race_acquire_lanes(struct warp_clock *c, uint32_t lanes, struct clock *clock);
// Adds a world to what a lane knows. mine_only: only the world's clock of the lane's own CTA, since a release with
// CTA scope counts for that CTA alone. What a lane knows of its own CTA is in its clock and never in its world: so a
// clock in a world never holds a world, and worlds stay small.
void race_acquire_world(struct warp *w, int lane, struct world *world, bool mine_only);
// Notes that a lane has learnt something, without race_summarise. The summary of what all lanes know is then less than
// what they know: that is safe, and recomputing it for one lane costs more than it saves (race_observed).
void race_has_learnt(struct warp_clock *c, int lane);

// The index in a clock of the entry for reads by a warp's products (wgmma).
static inline uint32_t products_of(const struct races *s, int warp)
{
    return (uint32_t)(s->warps * WARP + warp);
}

// The index in a clock of the entry for a source of loads.
static inline uint32_t loads_of(const struct races *s, uint32_t source)
{
    return s->threads - LOAD_SOURCES + source - LOADS;
}

static inline uint32_t sources_of_loads(const struct races *s)
{
    return s->load_sources < LOAD_SOURCES ? s->load_sources : LOAD_SOURCES;
}

// The CTA of a warp's cluster that has this number; the warp's own CTA if there is none.
static inline struct cta *cta_of(const struct warp *w, uint32_t number)
{
    for (int rank = 0; rank < cluster_size(w->cta); ++rank)
        if ((uint32_t)cta_at(w->cta, rank)->number == number)
            return cta_at(w->cta, rank);
    return w->cta;
}

// ---- Parties ------------------------------------------------------------------------------------

struct party { // an access: who made it, and when; stamp 0: nobody
    uint32_t cta, stamp;
    // One word of a page has all these fields: it is copied faster whole than field by field.
    union {
        uint32_t who;
        struct {
            uint32_t thread : THREAD_BITS, insn : INSN_BITS, kind : KIND_BITS;
        };
    };
};
_Static_assert(THREAD_BITS + INSN_BITS + KIND_BITS == 32, "a party is three words of a page");

static inline struct party party_of(uint32_t cta, uint32_t stamp, uint32_t thread, uint32_t insn,
                                    uint32_t kind)
{
    return (struct party){.cta = cta,
                          .stamp = stamp,
                          .who = thread % (1 << THREAD_BITS) |
                                 insn % (1 << INSN_BITS) << THREAD_BITS |
                                 kind << (THREAD_BITS + INSN_BITS)};
}

// Accesses by other CTAs of the cluster to a CTA's shared memory, kept apart from its cells: a cell or a line has the
// stamp RACE_FOREIGN where such an access is noted here.
enum foreign_access { FOREIGN_WRITE, FOREIGN_READ, FOREIGN_READ_2, FOREIGN_PARTIES };
struct foreign {
    // For each cell: the last write, and two reads by different threads.
    struct party *of[FOREIGN_PARTIES];
    struct crowd *crowd; // all readers that do not fit in `of`
};
// race_foreign_read: checks lanes' write to their own CTA's memory against reads by other CTAs, and drops these reads;
// true: a race has been reported. race_foreign_settle: afterwards removes RACE_FOREIGN from lines without such reads.
bool race_foreign_read(struct warp *w, const struct op *op, uint32_t lanes, uint32_t cell,
                       uint32_t at, uint32_t bytes, enum race_access access);
void race_foreign_settle(struct races *s, uint32_t first, uint32_t last);

// A warp's last reads of one kind: arrays whose first entry is for the cell asked for.
struct cell_reads {
    uint32_t *stamp, *lanes, *insn;
};
struct readers {
    int warp;
    uint32_t kind, stamp, lanes, insn;
};

static inline struct cell_reads reads_at(const struct races *s, int warp, uint32_t kind,
                                         uint32_t cell)
{
    const struct read_plane *r = &s->read[warp];
    uint32_t *strong = r->strong[kind]; // NULL for the kind of plain reads
    return (struct cell_reads){(strong ? strong : r->stamp) + cell,
                               (strong ? strong + s->cells : r->lanes) + cell,
                               (strong ? strong + 2 * s->cells : r->insn) + cell};
}

static inline struct readers readers_of(const struct races *s, int warp, uint32_t kind,
                                        uint32_t cell)
{
    struct cell_reads r = reads_at(s, warp, kind, cell);
    return (struct readers){warp, kind, *r.stamp, *r.lanes, *r.insn};
}

// ---- Crowds (crowd.c) ---------------------------------------------------------------------------

void crowd_free(struct crowd **crowd);
// Drops the readings of n cells that are about to be written.
void crowd_forget(struct crowd *crowd, uint32_t first, uint32_t n);
// Looks at the readings of n cells for one for which `asked` returns true, and stores it in *p; false: there is none.
typedef bool reading_fn(void *data, const struct party *p, uint32_t cell);
bool crowd_find(const struct crowd *crowd, uint32_t first, uint32_t n, reading_fn *asked,
                void *data, struct party *p);
// Whether a lane's write to n cells is a race with one of their readings; *p gets that reading.
bool crowd_races(const struct warp *w, const struct op *op, int lane, const struct crowd *crowd,
                 uint32_t first, uint32_t n, struct party *p);

// ---- Snapshots (snapshots.c) --------------------------------------------------------------------

enum { SNAPSHOTS_OF = 2 };
// refs 0: free. One line of the cache, since a kernel with locks has one for each lock that it takes.
struct snapshot {
    uint32_t refs, mark;
    // What a lane released: what it had done up to `stamp`, and what it knew then (base, wbase, known). stamp 0:
    // nothing.
    union {
        struct {
            uint32_t stamp, base;
        };
        struct snapshot *next; // the next in a list of snapshots to be freed, or of free ones
    };
    uint32_t wbase, cta;
    uint16_t thread, threads : 15;
    uint16_t flat : 1;   // `world` has all that the snapshot shows; other fields are unused
    uint32_t depth;      // 1 more than the deepest of `of`, and at least flat_depth + 1
    struct world *world; // what the lane knew of other CTAs
    struct clock *known;
    struct snapshot *of[SNAPSHOTS_OF]; // snapshots that this one includes; or NULL
};
_Static_assert(sizeof(struct snapshot) == 64, "a snapshot is one line of the cache");
struct snapshots { // the snapshots of a launch
    struct snapshot_block *blocks;
    size_t count; // how many snapshots the blocks have room for
    int lock;     // guards the members below, and `flat`, `mark` and the like of each snapshot
    uint32_t mark;
    struct snapshot *freed; // free snapshots that any host thread may take
    uint32_t
        flat_depth; // depth of flat snapshots; a merge of all snapshots raises it above every depth
    long steps;     // how many more steps than MOST_STEPS work_out may take (snapshots.c)
    size_t more;    // by how many snapshots the limit for merging has risen
    struct snapshot **walk;
    size_t capacity;
};

static inline struct snapshot *snapshot_share(struct snapshot *s)
{
    if (s)
        __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

static inline uint32_t snapshot_depth(const struct snapshot *s)
{
    return __atomic_load_n(&s->depth, __ATOMIC_RELAXED);
}

// The depth of a new snapshot that refers to others whose depth is at most `depth`.
static inline uint32_t snapshot_deeper(const struct snapshots *g, uint32_t depth)
{
    uint32_t flat = __atomic_load_n(&g->flat_depth, __ATOMIC_RELAXED);
    return (depth > flat ? depth : flat) + 1;
}

void snapshot_drop(struct worker *worker, struct snapshot **snapshot);
// A new snapshot with the contents of `shown`; it takes over the references in shown.of. The caller sets its depth:
// looking up the depth of each of shown.of would cost a cache miss.
struct snapshot *snapshot_new(struct worker *worker, struct snapshot shown);
// For a lane that releases again at an address that has only the lane's own snapshot `own`: whether `shown` has all
// that the lane released with `own`. If so, shown->of becomes own->of, and the new snapshot is to
// replace `own`. (Otherwise a lane that takes and returns a lock again and again would leave a
// chain of snapshots.)
bool snapshot_follows(struct snapshots *g, struct snapshot *shown, const struct snapshot *own);
// Like snapshot_follows, but changes `own` itself, so that no new snapshot is needed; false also if `own` has other
// than `holders` references.
bool snapshot_extend(struct snapshots *g, struct snapshot *own, const struct snapshot *shown,
                     uint32_t holders);
// Frees all snapshots of a launch, even those that are still referred to.
void snapshots_forget(struct snapshots *g);
// The world of all that a snapshot shows. It belongs to the snapshot: the caller does not release it.
struct world *snapshot_world(struct worker *worker, struct snapshot *s);
struct party;
// Whether a snapshot shows what a party did. Only the snapshot itself and the nearest ones that it
// includes are searched: even if the result is false, one further away may show it.
bool snapshot_shows(struct worker *worker, struct snapshot *s, const struct party *p);

// ---- Global memory (global.c) -------------------------------------------------------------------

// An address of atomic operations and strong accesses. It fills one line of the cache, together with its lock.
struct global_place {
    _Alignas(64) uint64_t at;  // 0: none yet
    struct global_place *next; // the next place with the same value of the hash
    // In programs without narrow scopes (others use `more`): the snapshot released here, and what the lane that
    // released it last had done.
    struct snapshot *released;
    struct release by;
    uint32_t depth; // of `released` when it was made
    // Only in the first place of a list: guards the list, and its atomic operations, which are done one after another.
    int lock;
    struct place_more {
        struct world *gpu, *cta; // released here: for all CTAs; by each CTA, for its own threads
        struct world *narrow;    // the part of `cta` that comes from CTAs with fences of CTA scope
        struct completed completed; // CTAs whose reads are complete
    } * more;                       // NULL: nothing
};
_Static_assert(sizeof(struct global_place) == 64, "a place is one line of the cache");

enum { SLOTS = 1 << 18, PLACES = 1 << 18 };
struct global_races {
    unsigned shift; // log2 of a cell's bytes
    struct page *pages[SLOTS], *last_page;
    size_t page_count, most_pages;
    struct page *free_pages; // free_lock guards this list, and the list of the chunks of pages
    struct page_chunk *chunks;
    int free_lock;
    // The first place of each list; a list's places have one value of the hash.
    struct global_place *places;
    void *places_memory;               // contains `places`, which begins at a cache line
    uint64_t places_used[PLACES / 64]; // a bit for each list: whether it has a place
    size_t place_count;
    struct snapshots snapshots;
    uint64_t *open; // numbers of pages that are open to series
    struct series_log *logs;
    pthread_mutex_t closing;
    uint32_t closed; // how many pages have been closed to series
    _Atomic size_t series_bytes;
};
void series_forget(struct global_races *g);
// race_pages_start: called when a launch begins; its cells have 1 << shift bytes. race_pages_forget: called when it
// ends.
void race_pages_start(struct global_races *g, unsigned shift);
void race_pages_forget(struct global_races *g);
void race_pages_free(struct global_races *g);

static inline uint64_t scatter(uint64_t x)
{
    return (x * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

// The list for an address. The lists of neighbouring words are neighbours, so that an array of locks fills pages.
static inline struct global_place *place_list(struct global_races *g, uint64_t at)
{
    return &g->places[(scatter(at >> 8) * 64 + (at >> 2)) % PLACES];
}

// race_tell_fenced: called at a CTA's proxy fence for global memory; keeps, for other CTAs to find, what the CTA has
// shown to the asynchronous proxy. race_told_fenced: whether such fences of a party's CTA have shown what the party
// did.
void race_tell_fenced(struct warp *w, struct clock *clock);
bool race_told_fenced(struct worker *worker, const struct party *p);

// ---- Reports (report.c) -------------------------------------------------------------------------

// These report that a lane's access and another party's are not ordered. report_shared: both are by threads of the CTA
// to its own shared memory, the other one at `stamp`. report_cluster: both are to the shared memory of `home`, a CTA of
// the cluster; did: what the other party did. report_global: both are to global memory.
void report_shared(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                   enum race_access access, uint32_t thread, uint32_t insn, bool wrote,
                   uint32_t stamp);
void report_cluster(struct warp *w, const struct op *op, int lane, const struct cta *home,
                    uint32_t at, uint32_t bytes, enum race_access access, const struct party *p,
                    const char *did);
void report_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   enum race_access access, const struct party *p, bool wrote);
// Reports a strong load of what another CTA wrote, where the lane learnt of that write by a fence whose scope is too
// narrow.
void report_narrow(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   const struct party *p);
// Reports that a thread wrote to shared memory while an operation that reads it was under way.
void report_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                        uint32_t thread, uint32_t insn);
// These report an access by the asynchronous proxy that no proxy fence separates from an earlier
// access by a thread. report_proxy: an access to the shared memory of `home`. report_proxy_global:
// a read of global memory.
void report_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home,
                  uint32_t at, uint32_t bytes, bool store, uint32_t thread, uint32_t insn,
                  bool wrote);
void report_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                         const struct party *p);

#endif
