// internal.h: what the files of races/ share: clocks and worlds, who accessed a cell, crowds, what is told.
#ifndef PTXSIM_RACES_INTERNAL_H
#define PTXSIM_RACES_INTERNAL_H

#include "cells.h"

#include <stdio.h>
#include <stdlib.h>

static inline void *need(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "ptxsim: out of memory\n");
    abort();
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

// A clock that may be written: *clock itself if nobody else holds it, else a copy; NULL becomes a new clock.
struct clock *clock_own(struct clock **clock, uint32_t threads);

struct world *world_of(uint64_t cta, struct clock *clock); // of one CTA
void world_drop(struct world **world);
void world_join(struct world **into, struct world *more);
void world_join_but(struct world **into, struct world *more,
                    uint64_t but); // without what `more` has of a CTA
void world_put(struct world **world, uint64_t cta,
               struct clock *clock); // joins the clock of one CTA
// Without the clock of one CTA: the world itself, shared, if it has none.
struct world *world_without(struct world *world, uint64_t cta);
// clock_world makes one world of a clock of the CTA `home` and of the world that the clock knows.
// clock_tell joins a world into such a clock.
struct world *clock_world(const struct cta *home, struct clock *clock);
void clock_tell(const struct cta *home, struct clock **clock, struct world *world);

void completed_join(struct completed *into, const struct completed *more);

// The stamps of a clock of the same CTA, without its world.
void clock_raise(struct clock *c, const struct clock *more);

static inline bool clock_knows(const struct clock *c, uint32_t thread, uint32_t stamp)
{
    return stamp <= c->base || stamp <= c->at[thread];
}

// What a world has of a CTA; NULL: nothing.
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

// Works out anew what all lanes of a warp have in common, after any of them has learnt something.
void race_summarise(struct warp *w);

// ---- Threads (threads.c) ------------------------------------------------------------------------

// Lanes acquire what they have met (struct met) and not yet acquired. Before anybody asks what they know.
void race_settle_lanes(struct warp *w, uint32_t lanes);
static inline void race_settle(struct warp *w)
{
    if (w->clock->deferred)
        race_settle_lanes(w, w->clock->deferred);
}

// The CTA's time moves on; lanes that have released what they did go on at a new time.
uint32_t race_tick(struct cta *cta);
void race_step(struct warp *w, uint32_t lanes, uint32_t time);
// Moves the CTA's time on, and these lanes to it; what they know stays.
void race_move(struct warp *w, uint32_t lanes);
// What lanes know goes into a clock, with what they did themselves: one lane's up to `stamp`.
void race_release_lane(struct warp *w, int lane, uint32_t stamp, struct clock **clock);
void race_release_lanes(struct warp *w, uint32_t lanes, struct clock **clock);
// Adds a clock to what lanes know. The caller calls race_summarise afterwards.
void race_acquire_lane(struct warp_clock *c, int lane, struct clock *clock);
void race_acquire_lanes(struct warp_clock *c, uint32_t lanes, struct clock *clock);
// A lane learns what a world knows; mine_only: of its own CTA only, for what was released to a CTA is not
// for others. What a lane knows of its own CTA is in its clock and never in its world: so no clock
// in a world has a world in turn, and worlds do not grow for ever.
void race_acquire_world(struct warp *w, int lane, struct world *world, bool mine_only);
// A lane knows more. What the warp's lanes have in common is left as it is: that is less than they know, and to work it
// out costs more than a lane alone gains by it (race_observed).
void race_has_learnt(struct warp_clock *c, int lane);

// The place in a clock of what a warp's products (wgmma) have read.
static inline uint32_t products_of(const struct races *s, int warp)
{
    return (uint32_t)(s->warps * WARP + warp);
}

// The place in a clock of the loads of a source.
static inline uint32_t loads_of(const struct races *s, uint32_t source)
{
    return s->threads - LOAD_SOURCES + source - LOADS;
}

static inline uint32_t sources_of_loads(const struct races *s)
{
    return s->load_sources < LOAD_SOURCES ? s->load_sources : LOAD_SOURCES;
}

// The CTA of that number in a warp's cluster.
static inline struct cta *cta_of(const struct warp *w, uint32_t number)
{
    for (int rank = 0; rank < cluster_size(w->cta); ++rank)
        if ((uint32_t)cta_at(w->cta, rank)->number == number)
            return cta_at(w->cta, rank);
    return w->cta;
}

// ---- Parties ------------------------------------------------------------------------------------

struct party { // who accessed a cell; stamp 0: nobody
    uint32_t cta, stamp;
    union { // as a page has it; read and written whole, which is quicker than field by field
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

// Accesses by other CTAs of the cluster to a CTA's shared memory, kept beside its cells. Whatever meets a cell
// or a line that says RACE_FOREIGN looks here.
enum foreign_access { FOREIGN_WRITE, FOREIGN_READ, FOREIGN_READ_2, FOREIGN_PARTIES };
struct foreign {
    struct party *of[FOREIGN_PARTIES]; // of each cell: a write, and reads by two threads
    struct crowd *crowd;               // all other readers
};
// race_foreign_read: whether a write by lanes to their own CTA's memory was reported as a race with a read
// by another CTA. Such reads are dropped then. race_foreign_settle: where all are dropped, the lines of
// those cells say that nobody has read them.
bool race_foreign_read(struct warp *w, const struct op *op, uint32_t lanes, uint32_t cell,
                       uint32_t at, uint32_t bytes, enum race_access access);
void race_foreign_settle(struct races *s, uint32_t first, uint32_t last);

// The last reads of a cell by a warp, of one kind: where they are kept, and what they are.
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
    uint32_t *strong = r->strong[kind]; // of plain reads: NULL
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
// Drops the readings of cells that have been written since.
void crowd_forget(struct crowd *crowd, uint32_t first, uint32_t n);
// Whether `asked` is true of some reading of n cells; *p gets that reading.
typedef bool reading_fn(void *data, const struct party *p, uint32_t cell);
bool crowd_find(const struct crowd *crowd, uint32_t first, uint32_t n, reading_fn *asked,
                void *data, struct party *p);
// Whether a lane's write to n cells is a race with a reading; *p gets that reading.
bool crowd_races(const struct warp *w, const struct op *op, int lane, const struct crowd *crowd,
                 uint32_t first, uint32_t n, struct party *p);

// ---- Snapshots (snapshots.c) --------------------------------------------------------------------

enum { SNAPSHOTS_OF = 3 };
struct
    snapshot { // small, for a kernel with locks has one for each lock that it takes; refs 0: free
    uint32_t refs, mark;
    // What a lane showed, as its fence had it; stamp 0: nothing.
    union {
        struct {
            uint32_t stamp, base;
        };
        struct snapshot *next; // of those to be freed, and of those that are
    };
    uint32_t wbase, cta;
    uint16_t thread, threads, depth;
    bool flat;           // it is worked out: `world` has everything, and all else is of no use
    struct world *world; // of other CTAs, what the lane knew
    struct clock *known;
    struct snapshot *of[SNAPSHOTS_OF]; // what is shown besides; or NULL
};
struct snapshots { // of a launch
    struct snapshot_block *blocks;
    size_t block_count;
    int lock; // of `flat`, `mark`, and what changes with them
    uint32_t mark;
    struct snapshot **walk;
    size_t capacity;
};

static inline struct snapshot *snapshot_share(struct snapshot *s)
{
    if (s)
        __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void snapshot_drop(struct worker *worker, struct snapshot **snapshot);
// A snapshot as it is given. The references to what it is made of (of) are its own from then on.
struct snapshot *snapshot_new(struct worker *worker, struct snapshot shown);
// Whether what a lane shows where only its own snapshot was has all that this one itself shows. Then it is made of what this
// one is made of, and takes its place: so one stays of those that a lane makes when it takes a lock and gives it back.
bool snapshot_follows(struct snapshots *g, struct snapshot *shown, const struct snapshot *own);
// Frees all snapshots of a launch, whoever holds them.
void snapshots_forget(struct snapshots *g);
// All that a snapshot shows. It is the snapshot's.
struct world *snapshot_world(struct worker *worker, struct snapshot *s);
struct party;
// Whether a snapshot shows what a party did, for all that the nearest snapshots say: false may be untrue.
bool snapshot_shows(struct worker *worker, struct snapshot *s, const struct party *p);

// ---- Global memory (global.c) -------------------------------------------------------------------

struct global_place { // an address at which atomics and strong accesses meet
    uint64_t at;
    struct global_place *next;
    struct snapshot *released; // in programs without narrow scopes; in others these three:
    struct world *gpu, *cta;   // what was released to the GPU; to the CTA only
    struct world *narrow; // cta, of the CTAs that have executed fences for themselves only; or NULL
    struct completed completed; // whose reads are complete
};

enum { SLOTS = 1 << 18, PLACE_LISTS = 1024 };
struct global_races {
    unsigned shift; // log2 of a cell's bytes
    struct page *pages[SLOTS], *last_page;
    size_t page_count, most_pages;
    struct place_list { // of the places whose addresses fall into it
        int lock, turn; // turn: of atomics, which come one after another
        struct global_place *first;
    } places[PLACE_LISTS];
    size_t place_count;
    struct snapshots snapshots;
    uint64_t *open; // numbers of pages that are open to series
    struct series_log *logs;
    pthread_mutex_t closing;
    uint32_t closed; // pages that were open
    _Atomic size_t series_bytes;
};
void series_forget(struct global_races *g);

static inline uint64_t scatter(uint64_t x)
{
    return (x * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

static inline struct place_list *place_list(struct global_races *g, uint64_t at)
{
    return &g->places[scatter(at) % PLACE_LISTS];
}

// race_tell_fenced: notes for other CTAs what a CTA's proxy fences for global memory have shown. race_told_fenced:
// whether they have shown what a party did.
void race_tell_fenced(struct warp *w, struct clock *clock);
bool race_told_fenced(struct worker *worker, const struct party *p);

// ---- What is told (report.c) --------------------------------------------------------------------

// Each reports an access of a lane that is not in order with another access. report_shared: both by
// threads of the CTA to its own shared memory, the other at `stamp`. report_cluster: to the shared memory
// of `home`, a CTA of the cluster; did: what the other party did. report_global: to global memory.
void report_shared(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                   enum race_access access, uint32_t thread, uint32_t insn, bool wrote,
                   uint32_t stamp);
void report_cluster(struct warp *w, const struct op *op, int lane, const struct cta *home,
                    uint32_t at, uint32_t bytes, enum race_access access, const struct party *p,
                    const char *did);
void report_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   enum race_access access, const struct party *p, bool wrote);
// Reports a strong load of what another CTA wrote, of which the lane was told with a fence of too
// narrow a scope.
void report_narrow(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                   const struct party *p);
// A read of shared memory by an operation that was under way while a thread wrote there.
void report_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                        uint32_t thread, uint32_t insn);
// Each reports an access by the asynchronous proxy that no proxy fence separates from an earlier access by a thread:
// to the shared memory of `home`; a read of global memory.
void report_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home,
                  uint32_t at, uint32_t bytes, bool store, uint32_t thread, uint32_t insn,
                  bool wrote);
void report_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                         const struct party *p);

#endif
