// races.h: the race checker: whether something orders the accesses of different threads to memory. Operations and exec/
// call these functions for every access and every synchronisation.
//
//   clocks.c   what threads know of others: vector clocks, and worlds of clocks
//   snapshots.c  what was released at an address of global memory, joined only when it is asked for
//   report.c   reports of races, and their log
//   crowd.c    the readers that do not fit into a cell
//   storage.c  the storage of one CTA
//   threads.c  what a CTA's threads know of one another: releases, acquires, barriers
//   atomics.c  strong accesses, and fences
//   pages.c    the pages of the cells of global memory
//   series.c   reads of global memory in loops
//   global.c   accesses to global memory
//   cluster.c  shared memory of other CTAs, the cluster's barrier
//   async.c    copies that arrive later, the asynchronous proxy
//   shared.c   accesses to the CTA's shared memory
//
// Each uses only those above it in this list: code/tools/check-floors checks that. cells.h has the shadow cells and
// lines of cells; order.h the rules by which two accesses are ordered, or are no race although nothing orders them.
//
// The checker's words, in the field's terms: "ordered before" (also "in order") is happens-before. A "cell" is a shadow
// cell: it has the last accesses to 1, 2 or 4 bytes of memory; a "line" is 32 neighbouring cells. "Time" is logical, a
// value of the CTA's clock; the "stamp" of an access is the time at which its thread made it (an epoch). A thread
// "knows" what happens before its next action: a struct clock is a vector clock of the threads of one CTA, and a struct
// world has such clocks of several CTAs. To "release" is to join one's clock into that of an address or a barrier,
// which then "shows" it; to "acquire" is to join that clock into one's own. A "party" is one access by its thread, with
// CTA and stamp. A "place" is an address at which threads synchronise. An asynchronous operation is "under way" from
// its issue until its completion is seen.
//
// A race is two accesses to one byte by different threads that nothing orders. At least one of them is a write, and
// they are not both strong and of the same bytes. Order is kept in vector clocks, compressed:
//
//   - A CTA has one logical clock, `time`; it advances at every synchronisation. A thread stamps what it
//     accesses with `now`, the time after its own last release.
//   - A thread knows of every thread of the CTA up to `base` (the last barrier of them all), of its
//     own warp up to `wbase` (the last bar.warp.sync of them all), and of each single thread up
//     to known->at[thread] (barriers of some, mbarriers, atomics). Its `world` has what it knows of other CTAs.
//   - Each cell of shared memory (1, 2 or 4 bytes: the smallest access of the kernel) remembers its
//     last write and, for each warp and each kind of access, the last read and its lanes. Each cell
//     of global memory remembers its last write and two reads by different threads. All its other readers are in its
//     page's crowd (cells.h), which remembers the last read by each warp as well.
// - The bytes that a cp.async or a bulk copy writes are under way until a wait, or the phase of an mbarrier, shows that
// they have arrived. Until then any access to them is a race, even by the thread that issued the copy.
// - wgmma and bulk stores are checked as reads twice, at their issue and at the wait for them. So a thread that
// overwrites an operand in between is found, even if its write is ordered after the issue. A wgmma is one operation of
// four warps: a wait by any of them shows that all four have read. wgmma, bulk stores and bulk loads go through the
// asynchronous proxy. If a thread accesses a byte and the proxy accesses it later, and one of the two writes, a
// fence.proxy.async must lie between them. The fence must be by a thread that knows of the first access, and the thread
// that issues the second must know of the fence.
//
// What orders accesses:
//   - CTA barriers, of all warps or of some, and mbarriers.
//   - bar.warp.sync, and nothing else between the lanes of a warp: in PTX shfl and vote order no memory, and
//     nothing promises that lanes run in step.
//   - A strong write that releases, and a strong read of the same place that acquires. The write releases
//     by .release, or by a fence before it. The fence may be the writing thread's own; or, if a barrier lies between,
//     that of the thread whose accesses are to be seen. The read acquires by .acquire, or by a fence after it. An
//     atom needs no fence after it unless launch->strict asks for one: CUDA's own samples have none.
//   - The end of a kernel.
//
// Two writes of the same value are no race. A read and a later write may be ordered without any of
// these: a barrier of the CTA completes the reads before it. A thread that then sees a flag (any
// strong store), set after the barrier, may write where these reads were, with or without a fence
// (CUB's look-back does so). If the thread is of another CTA, its CTA must pass a barrier, too,
// after it has seen the flag.
//
// Some pairs of strong accesses are races: volatile accesses of lanes that run together ("warp-synchronous" code),
// where only their running in step decides which comes first.
//
// Everything that is reported is a race, but not every race is reported. Of several strong writes without order, a cell
// remembers only the last. Of the readers in crowds, only as many are remembered as fit into
// 256 MB. Where millions of locks are taken, what was released is merged now and then (snapshots.c): all that was done
// before counts as known to whoever acquires any of it.
#ifndef PTXSIM_RACES_H
#define PTXSIM_RACES_H

#include "ptxsim/machine/machine.h"

#include <pthread.h>

// ASYNC: the issue of a copy. LOOK: a read that is checked against earlier writes, but not noted.
enum race_access { RACE_READ, RACE_WRITE, RACE_ASYNC, RACE_LOOK };

#define RACE_PENDING UINT32_MAX       // the stamp of a write by a copy that is still under way
#define RACE_FOREIGN (UINT32_MAX - 1) // the stamp of an access by another CTA of the cluster
#define RACE_ASYNC_THREAD 0x80000000u // a bit of write_thread: the thread is the issuer of a copy
#define RACE_KIND_SHIFT 29 // in write_insn, the bits from this one up are the kind of access
#define RACE_INSN ((1u << RACE_KIND_SHIFT) - 1)
// Kinds of accesses: 0 for plain ones, 1 + log2 of the bytes of an element for strong ones. Two strong accesses of one
// kind that share a byte cover the same bytes, since each is aligned to its size: they need no order (PTX ISA, "Morally
// strong operations").
enum { RACE_PLAIN, RACE_KINDS = 6 };

// A vector clock: what a thread knows of the threads of one CTA, or what has been released at an address or a barrier.
// Clocks are shared and have a count of references; one with several holders is copied before it is written.
struct clock {
    uint32_t refs, base, threads;
    uint32_t most;       // no entry of `at` is greater
    struct world *world; // what is known of other CTAs, or NULL
    uint32_t at[];       // for each thread, the time up to which its actions are known
};

struct world { // clocks of CTAs, sorted by the CTAs' numbers
    uint32_t refs, count;
    struct {
        uint64_t cta;
        struct clock *clock;
    } of[];
};

// The scope of a fence: the CTA, or the whole GPU, which includes the CTA.
enum fence_scope { FENCE_CTA, FENCE_GPU, FENCE_SCOPES };

// The memory that a proxy fence is for.
enum proxy_space { PROXY_SHARED, PROXY_GLOBAL, PROXY_SPACES };

// The last proxy fences of a warp. Older fences are treated as known to every thread.
enum { PROXY_FENCES = 8 };
struct proxy_fences {
    // A thread that knows what one of `lanes` did up to `stamp` knows of the fence.
    struct proxy_fence {
        uint32_t stamp, lanes;
        bool is_for[PROXY_SPACES];
        struct clock *shown; // the lanes' clock at the fence: what the fence shows to the proxy
    } of[PROXY_FENCES];
    uint32_t count; // how many fences there have been; the last: of[(count - 1) % PROXY_FENCES]
    // The number, from 1 on, and the lane of the fence that is_shown_by (order.h) found last; 0:
    // none yet.
    uint32_t served, served_by;
    struct clock *old[PROXY_SPACES]; // what the older fences have shown, joined
};

// Sources of writes: a warp (0 to 31), several warps, or the bulk loads of an mbarrier (from LOADS on). The bytes of a
// bulk load do not count as written by the thread that issued it: only a thread that has seen the mbarrier's phase
// complete knows that they have arrived, and threads that have synchronised with such a thread since. So the loads of
// each mbarrier have their own index in clocks. The same holds for st.async, and for those cp.async that arrive on an
// mbarrier. But the thread that issued a cp.async may also wait for it itself; threads that
// synchronise with that thread afterwards know of the copy by the thread's index. If a CTA has more
// than LOAD_SOURCES mbarriers, some share a source. LOAD_SOURCES: as many as a 32-bit word has
// bits.
enum { SEVERAL = WARP, LOADS, LOAD_SOURCES = 32, SOURCES = 128 };

// The current series of a warp's loads of global memory (cells.h). A load instruction has the place at index
// (its number % SERIES_PLACES).
enum { SERIES_PLACES = 16 };
struct series_place {
    // at: the index of the series in the host thread's log; round: the log's round when the series began.
    uint32_t insn, at, round;
    // How many series in a row ended after few reads; after MOST_BROKEN (race_runs.h), no further
    // series is begun.
    uint32_t broken;
};

struct release { // what a thread has done up to `stamp`; stamp 0: nothing
    uint32_t cta, thread, stamp;
};

struct warp_clock { // the clocks of a warp's lanes: the time of each, and what it knows
    uint32_t now[WARP], base[WARP], wbase[WARP];
    // The time up to which every lane of this warp knows of a source. For a source that is a warp:
    // of all threads of that warp; at SEVERAL: of all threads of the CTA (the base); from LOADS on:
    // of the source's loads that have arrived.
    uint32_t least[LOADS + LOAD_SOURCES];
    struct clock *known[WARP];
    // world: what each lane knows of other CTAs. seen: found by strong reads, known to the lane from its next fence
    // on.
    struct world *world[WARP], *seen[WARP];
    struct world *narrow[WARP]; // what a lane learnt by fences of CTA scope: its own or a writer's
    // The address in global memory of a lane's last access that acquires, such as an atomic operation, and what the
    // lane found released there: to the GPU, and to its own CTA. A loop that waits around such an access finds the
    // same in most rounds, and then has nothing to acquire. In programs without narrow scopes
    // (program->narrow) `last` and `before` are used instead of `gpu` and `cta`: the snapshot that
    // the lane found there last, and those that it had found before at other places. by: what the
    // thread that released `last` had done by then, which is mostly all that a check asks for.
    struct met {
        uint64_t at;
        struct world *gpu;
        struct clock *cta;
        struct snapshot *last, *before;
        uint32_t depth; // of the deeper snapshot, `last` or `before`
        struct release by;
    } met[WARP];
    uint32_t deferred;       // lanes that have not yet acquired what they met (struct met)
    struct fenced {          // what a lane knew at its last fence; stamp 0: it has executed none
        struct clock *known; // a counted reference to a lane's clock
        uint32_t stamp, base, wbase;
        struct snapshot *last, *before; // as in struct met, at the fence
    } fenced[FENCE_SCOPES][WARP];
    uint32_t waited[WARP];        // the time when each lane last waited for its own copies
    uint32_t now_all;             // the time of the lanes if all have the same; otherwise 0
    uint32_t base_all, wbase_all; // the least base, and the least wbase, of any lane
    bool plain;                   // whether base and wbase have all that lanes know of their CTA
    bool alone;                   // whether `plain`, and no lane knows anything of another CTA
    bool learnt;                  // whether lanes have learnt something since race_summarise
    struct proxy_fences proxy;
    // Accesses to `home` that race_proxy has found to be fenced for `lane`. They stay so, since a lane forgets nothing.
    struct fenced_for {
        const struct cta *home;
        int lane;
        uint32_t write_stamp, write_thread; // the write found fenced last
        struct fenced_reads {
            uint32_t stamp, lanes;
        } reads[WARP]; // for each warp of `home`, its reads found fenced last
    } fenced_for;
    struct series_place series[SERIES_PLACES];
};

// The latest writes, or the latest reads, to a line of 32 cells. No cell of the line has a stamp later than `stamp`.
// All cells whose stamp is later than the base have the source `warp`: a warp, SEVERAL, or the loads of an mbarrier.
struct latest {
    uint32_t stamp, warp;
    // Of writes: 1 + the run (struct reading) that describes all of them; 0: they were made in several runs, or in
    // none.
    uint32_t run;
};

// A warp's current reading of a line: at time `stamp`, the warp has read the cells whose bits are set in `cells`. If
// `lanes` is not 0, each of these lanes has read all of these cells. Otherwise each cell has been read by one lane,
// according to `run`: lane i has read the 1 << run % 8 cells from cell run / 8 + (i << run % 8) on.
enum { RUN_SHIFT = 3 };
struct reading {
    uint32_t stamp, cells, lanes, run;
    // An upper bound of `strong` and the stamps of the warp's settled (cells.h) reads of the line.
    uint32_t older;
    uint32_t strong; // the time of the warp's last strong read of the line
};

struct races {      // what the checker remembers of one CTA
    unsigned shift; // log2 of a cell's bytes
    // start: the last time of the CTA that used this storage before
    uint32_t cells, threads, time, start;
    // threads: entries of a clock: one for each thread of the CTA; then one for each warp, for its
    // products (wgmma); then, if the program has loads that mbarriers count, one for each source of
    // loads.
    int warps;
    bool bulk;             // whether the program has bulk copies
    uint32_t load_sources; // sources of loads (race_load_source) taken so far
    uint32_t of_copies;    // a bit for each source of loads by cp.async
    // For each source of loads, the time when its last loads arrived.
    uint32_t came[LOAD_SOURCES];
    uint32_t *write_stamp, *write_thread, *write_insn; // each cell's last write
    struct read_plane {                                // a warp's last plain read of each cell
        uint32_t *stamp, *lanes, *insn;
        // For each line, reads that have not yet been settled into stamp and lanes.
        struct reading *reading;
        // For strong reads of a kind: the stamps of all cells, then their lanes, then their
        // instructions; NULL: there were none.
        uint32_t *strong[RACE_KINDS];
    } read[WARP];                  // one plane for each warp
    struct latest *writes, *reads; // the latest writes, and the latest reads, of each line
    bool pending;                  // whether there may be stamps RACE_PENDING or RACE_FOREIGN
    bool fenced[FENCE_SCOPES];     // whether a thread has executed a fence of this scope
    bool narrow;                   // whether a thread has executed a fence of CTA scope
    bool told_narrowly;            // whether warp_clock.narrow of some lane is not NULL
    struct foreign *foreign;       // accesses with the stamp RACE_FOREIGN; NULL: there were none
    // An initialised mbarrier, until the cluster's barrier has shown it to the other CTAs.
    struct init {
        uint32_t at, thread, stamp;
        enum { INIT_DONE, INIT_FENCED, INIT_ARRIVED } state;
    } * inits;
    size_t init_count, init_capacity;
    struct place { // an address of shared memory that strong writes have used
        uint32_t at;
        struct clock *clock;
    } * places;
    size_t place_count, place_capacity;
    // For each CTA, sorted by their numbers, the stamp up to which its reads are complete.
    struct completed {
        uint32_t count, capacity;
        struct {
            uint32_t cta, stamp;
        } * of;
    } seen, completed; // seen: known to some thread; completed: known to all since the last barrier
};

// ---- Storage ------------------------------------------------------------------------------------

// races_create is called only if the launch checks races; otherwise all functions here do nothing. races_start is
// called before each CTA that runs in this storage.
void races_create(struct cta *cta);
void races_destroy(struct cta *cta);
void races_start(struct cta *cta);

// The cells of a launch's global memory, which its host threads share.
struct global_races *global_races_new(const struct program *program);
void global_races_free(struct global_races *races);
struct series_log *global_races_log(struct global_races *races); // a new log, for one host thread

// ---- Accesses -----------------------------------------------------------------------------------

// Checks and notes an access by each of `lanes` to the same bytes of shared memory, before it happens. value: what a
// write writes; NULL: not known.
void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// Some cells of one line of shared memory: a bit for each.
struct line_part {
    uint32_t line, cells;
};
// Checks a plain read by all lanes of n parts of lines and, if `noted`, notes it. Returns false, with nothing noted, if
// what all lanes know does not show all earlier writes to be ordered before it: race_shared then has to check it.
bool race_operand(struct warp *w, const struct op *op, const struct line_part *parts, uint32_t n,
                  bool noted);
// Checks and notes an access by each of `lanes` to the same bytes of global memory, before it happens. A plain write of
// a known value is also made here, while the page is locked: if a CTA on another host thread then writes the same
// value, the checker finds it in memory. A strong write is made by the caller.
void race_global(struct warp *w, const struct op *op, uint32_t lanes, uint64_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// Called when the bytes of a copy have arrived in the shared memory of `home`: from now on they count as a write at
// `stamp`, by the source of loads; or, if `source` is 0, by the lane that issued the copy.
void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t source, uint32_t stamp);
// Marks the bytes of a lane's store to the shared memory of `home` (st.async) as under way until race_arrived.
void race_under_way(const struct warp *w, int lane, uint32_t insn, struct cta *home, uint32_t at,
                    uint32_t bytes);
// race_load_source: a CTA's next source of loads; copies: the source is for cp.async. race_loads_come: called when
// loads of a source arrive; returns the stamp for race_arrived. race_loads_known: adds to an mbarrier's clock that a
// source's loads up to a stamp have arrived.
uint32_t race_load_source(struct cta *home, bool copies);
uint32_t race_loads_come(struct cta *home, uint32_t source, struct clock **clock);
void race_loads_known(struct cta *home, uint32_t source, uint32_t stamp, struct clock **clock);
// Adds to a clock everything that has arrived so far from some sources of loads. sources: a race_source_bit for each.
void race_loads_told(struct cta *home, uint32_t sources, struct clock **clock);
static inline uint32_t race_source_bit(uint32_t source)
{
    return source ? 1u << (source - LOADS) : 0;
}
// Called when lanes have waited for copies that they issued. Advances the lanes' time: copies that have arrived by
// then count as waited for.
void race_copies_awaited(struct warp *w, uint32_t lanes);
// Called when a warp issues an asynchronous operation, which reads shared memory until it is waited for. Returns the
// CTA's time at the issue; what the warp writes from now on has a later stamp.
uint32_t race_issue(struct warp *w);
// Called before race_shared when such an operation is waited for: reports bytes that were written since its issue
// (`issued`), even if the write is ordered before the wait. Returns whether there are any.
bool race_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                      uint32_t issued);
// Checks an access by the asynchronous proxy (wgmma, bulk copies) to the shared memory of `home`, a CTA of the warp's
// cluster. Reports bytes that a thread has written (for a store: also bytes that a thread has read) without a
// fence.proxy.async since; returns whether there are any. race_proxy_global does the same for a read of global memory.
bool race_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home, uint32_t at,
                uint32_t bytes, bool store);
void race_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes);
// Whether race_proxy would report nothing of a lane's read of n parts of lines of its own CTA's shared memory.
bool race_proxy_passes(struct warp *w, int lane, const struct line_part *parts, uint32_t n);
// race_turn takes the lock of a place of global memory, under which an atomic operation is executed and noted, so that
// both happen in the same order; NULL: nothing is noted, and no lock is taken. race_turn_ends releases the lock.
int *race_turn(const struct warp *w, uint64_t at);
// Called some time before race_turn and race_global: fetches into the CPU's cache what they need.
void race_fetch(const struct warp *w, uint64_t at);
void race_turn_ends(int *turn);
// race_publish: called before a strong write; notes what the write releases at its address. race_observe: called after
// a strong read; the lane acquires what it finds there. by: a load, or an atomic operation; IN_VAIN: an atomic
// operation whose comparison failed. home: the CTA whose shared memory contains `at`; NULL: `at` is in global memory,
// and the caller of an atomic operation has its lock.
enum race_strong { RACE_LOAD, RACE_ATOMIC, RACE_ATOMIC_IN_VAIN };
void race_publish(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home);
void race_observe(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home,
                  enum race_strong by);
void race_observed(struct warp *w, uint32_t lanes); // called after race_observe for all these lanes

// ---- Clusters -----------------------------------------------------------------------------------

// Checks and notes one lane's access to the shared memory of another CTA of its cluster, before it happens.
void race_remote(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                 uint32_t bytes, enum race_access access, const void *value);
// race_init: a lane of a cluster has initialised an mbarrier. race_init_fence: lanes execute a fence.mbarrier_init;
// afterwards the cluster's barrier shows others the mbarriers that these lanes initialised, even if they arrive
// .relaxed.
void race_init(struct warp *w, int lane, uint32_t at);
void race_init_fence(struct warp *w, uint32_t lanes);
// race_cluster_arrive: lanes arrive at the cluster's barrier; relaxed: others learn only that the CTA has begun.
// race_cluster_phase: the barrier's phase is complete. race_cluster_wait: lanes have waited for that.
// race_cluster_forget: a cluster begins, or ends.
void race_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed);
void race_cluster_phase(struct cluster *cluster);
void race_cluster_wait(struct warp *w, uint32_t lanes);
void race_cluster_forget(struct cluster *cluster);
// Like race_release, into a clock of the CTA `home`, which may be another one of the cluster.
void race_release_to(struct warp *w, uint32_t lanes, struct cta *home, struct clock **clock);
// Called when the threads of a CTA have ended: reports accesses by other CTAs to its shared memory that may come
// later.
void race_leave(struct cta *cta);

// ---- Synchronisation ----------------------------------------------------------------------------

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu);
// shared, global: the memory that the fence is for.
void race_proxy_fence(struct warp *w, uint32_t lanes, bool shared, bool global);
void race_warp_sync(struct warp *w, uint32_t lanes);
// race_release: adds to a clock what the lanes have done and know. race_acquire: adds the contents of a clock to what
// the lanes know.
void race_release(struct warp *w, uint32_t lanes, struct clock **clock);
void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock);
// Adds to a clock the reads that the warp's wgmma operations (products) have made so far, and nothing else.
void race_release_products(struct warp *w, struct clock **clock);
void race_barrier_all(struct cta *cta); // every thread of the CTA waits at one barrier
void clock_join(struct clock **into, struct clock *more);
void clock_drop(struct clock **clock);

// ---- Reports ------------------------------------------------------------------------------------

// Reports a race, a read of bytes that nothing has written, or another fault after which the kernel
// goes on. Each pair of source lines is reported once, for the CTA with the lowest number, and then
// only counted. other: the instruction of the other party. With launch->mine, leaves out a pair
// whose lines are both in headers of the system or of a CUDA toolkit, unless one of them is inlined
// into another file.
void race_report(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                 uint32_t other, const char *format, ...) __attribute__((format(printf, 6, 7)));
void race_log_merge(struct race_log *into, struct race_log *from);
void race_log_sort(struct race_log *log);
// Whether an instruction belongs to CUB, to Thrust, or to a load of fragments of CUTLASS: by the
// file of its source line or, for CUB and Thrust, by the kernel's name. A program that uses the
// same names is taken for the library.
bool race_in_library(const struct program *program, uint32_t insn);

#endif
