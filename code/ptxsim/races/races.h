// races.h: who may see whose accesses to memory. What the operations tell of accesses and synchronisation, and what
// exec/ does with it.
//
//   clocks.c   what is known of others: clocks, and worlds of them
//   snapshots.c  what was released at a place of global memory, and not yet worked out
//   report.c   what is told
//   crowd.c    readers of which a cell has no room
//   storage.c  what is kept of a CTA
//   threads.c  what a CTA's threads know of one another: releases, acquires, barriers
//   atomics.c  strong accesses, and fences
//   pages.c    the pages of the cells of global memory
//   series.c   reads of it in loops
//   global.c   accesses to it
//   cluster.c  shared memory of other CTAs, the cluster's barrier
//   async.c    copies that come later, the asynchronous proxy
//   shared.c   accesses to the CTA's shared memory
//
// Each uses only those above it in this list: code/tools/check-floors holds that. cells.h has the cells of memory, and
// lines of them; order.h the rules by which two accesses are in order, or no race without it.
//
// A race is two accesses to a byte by different threads, at least one a write and not both strong and of the
// same bytes, with nothing that orders them. Order is kept as in a vector clock, compressed:
//
//   - A CTA has one clock, `time`; it advances at every synchronisation. A thread stamps what it
//     accesses with `now`, the time after its own last release.
//   - A thread knows of every thread of the CTA up to `base` (the last barrier of them all), of its
//     own warp up to `wbase` (the last bar.warp.sync of them all), and of each thread by itself up
//     to known->at[thread] (barriers of some, mbarriers, atomics). Of other CTAs: `world`.
//   - Each cell of shared memory (1, 2 or 4 bytes: the smallest access of the kernel) remembers its
//     last write, and for each warp its last read, of each kind, and the lanes that took part; each cell
//     of global memory its last write and two reads by different threads. All others that read it are in its
//     page's crowd (cells.h), which keeps as much of each warp.
//   - The bytes that a cp.async or a bulk copy writes are on their way until a wait, or the phase of an
//     mbarrier, shows that they have come. Until then any access to them is a race, even by the thread
//     that issued the copy.
//   - wgmma and bulk stores are checked as reads at the issue and once more at the wait, so that a
//     thread that overwrites an operand in between is found, whatever orders it with the issue. A wgmma is one
//     operation of four warps: a wait by any of them shows that all four have read. They and bulk loads go
//     through the asynchronous proxy. An access by that proxy comes after one by a thread, with a write among
//     them, only if a fence.proxy.async lies between: by a thread that knows of the former, and of which the
//     thread that issues the latter knows.
//
// What orders: CTA barriers (all, or some of the warps), bar.warp.sync (and nothing else between
// the lanes of a warp: shfl and vote order no memory in PTX, and the lanes' running in step is no
// promise), mbarriers, and atomics: a .release with a strong write, or a fence before it, by its thread or,
// before a barrier that the thread has passed, by the one whose accesses it is to show; and a strong read
// that sees its place with a fence or .acquire after. An atom needs no fence after it, but where launch->strict asks
// for it: CUDA's own samples have none. Two writes of the same value are no race. A kernel's end orders everything.
//
// Some accesses are in order without such an edge:
//   - A barrier of the CTA completes the reads before it. Who sees a flag (any strong store) that
//     was set after it may write there, fence or no fence: CUB's look-back does in place. In another
//     CTA that holds from its next barrier on.
// And some are races although they are strong: volatile accesses of lanes that run together ("warp-
// synchronous" code), where nothing but their step says which comes first.
// What is reported is a race. Not every race is reported: of strong writes that are in no order, a cell
// remembers the last; and of a launch, as many readers as 256 MB hold.
#ifndef PTXSIM_RACES_H
#define PTXSIM_RACES_H

#include "ptxsim/machine/machine.h"

#include <pthread.h>

// ASYNC: the issue of a copy. LOOK: a read that is held against the writes before it and not noted.
enum race_access { RACE_READ, RACE_WRITE, RACE_ASYNC, RACE_LOOK };

#define RACE_PENDING UINT32_MAX       // the stamp of a write by a copy that is still on its way
#define RACE_FOREIGN (UINT32_MAX - 1) // of an access by another CTA of the cluster
#define RACE_ASYNC_THREAD 0x80000000u // with the number of the thread that issued a copy
#define RACE_KIND_SHIFT 29 // above an instruction: the kind of its access; RACE_INSN below
#define RACE_INSN ((1u << RACE_KIND_SHIFT) - 1)
// Kinds of accesses: plain ones are 0, strong ones 1 + log2 of the bytes of an element. Two strong accesses of one
// kind are of the same bytes, for each is aligned to its size, and need no order (PTX ISA, "Morally strong
// operations").
enum { RACE_PLAIN, RACE_KINDS = 6 };

// What a thread knows of others, or what is known at a place where threads synchronise. References are counted;
// a clock is copied before it is written if several hold it.
struct clock {
    uint32_t refs, base, threads;
    uint32_t most;       // no `at` is later
    struct world *world; // what is known of other CTAs, or NULL
    uint32_t at[];       // of each thread
};

struct world { // clocks of CTAs, in the order of the CTAs' numbers
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

// The last proxy fences of a warp. Fences before those count as known to everybody.
enum { PROXY_FENCES = 8 };
struct proxy_fences {
    struct
        proxy_fence { // by some lanes: whoever knows of one of them at `stamp` knows of its fence
        uint32_t stamp, lanes;
        bool is_for[PROXY_SPACES];
        struct clock *shown; // what the lanes knew: the asynchronous proxy sees it from then on
    } of[PROXY_FENCES];
    uint32_t count; // of all fences; the last one is of[(count - 1) % PROXY_FENCES]
    struct clock *old[PROXY_SPACES]; // what those before have shown
};

// Sources of writes: a warp (0 to 31), several warps, or the bulk loads of an mbarrier (from LOADS on). What a bulk load
// writes is not the issuing thread's: only who has seen the mbarrier's phase complete knows that it has come, and who
// has met such a thread since. So the loads of each mbarrier have a place of their own in a clock. So have st.async and
// the cp.async that an mbarrier is told of; of these the issuing thread may wait, too, and who meets it after that knows
// of them by its place. Where a CTA has more than LOAD_SOURCES, some share one.
enum { SEVERAL = WARP, LOADS, LOAD_SOURCES = 32, SOURCES = 128 }; // LOAD_SOURCES: bits of a word

// The series that a warp's loads of global memory have under way (cells.h), by the load's number.
enum { SERIES_PLACES = 16 };
struct series_place {
    uint32_t insn, at, round; // at: in the log of its host thread, in that round
    uint32_t broken; // how many have ended after few reads; from MOST_BROKEN on: no more are begun
};

struct warp_clock { // of each lane: its time, and what it knows
    uint32_t now[WARP], base[WARP], wbase[WARP];
    // Of each warp: up to when every lane knows of all its threads; of SEVERAL: of all threads of the CTA,
    // the base; of each source of loads (LOADS): up to when every lane knows that they have come.
    uint32_t least[LOADS + LOAD_SOURCES];
    struct clock *known[WARP];
    struct world *world[WARP], *seen[WARP]; // seen: by strong reads, known after the next fence
    struct world *narrow[WARP];             // seen, with a fence between that is for one CTA only
    struct met {                            // the place in global memory of a lane's last atomic,
        uint64_t at;                        // and what it found released there: to the GPU, and to
        struct world *gpu;                  // its own CTA. A loop around an atomic that waits finds
        struct clock *cta;                  // the same in most rounds, and nothing new to acquire
        struct snapshot *last, *before; // In programs without narrow scopes instead: what it found
    } met[WARP];                        // there last, and what it had met before at other places.
    uint32_t deferred;       // lanes that have not acquired it, since nobody has asked yet
    struct fenced {          // what a lane knew at its last fence; stamp 0: there was none
        struct clock *known; // a reference
        uint32_t stamp, base, wbase;
        struct snapshot *last, *before; // met by then, and not yet acquired
    } fenced[FENCE_SCOPES][WARP];
    uint32_t waited[WARP];        // when it last waited for copies of its own
    uint32_t now_all;             // when all lanes agree, else 0
    uint32_t base_all, wbase_all; // the least
    bool plain;                   // no lane knows more of its own CTA than base and wbase say
    bool alone;                   // nor anything of another CTA
    bool learnt;                  // some lanes know more by now than all of these say
    struct proxy_fences proxy;
    struct series_place series[SERIES_PLACES];
};

// The latest accesses (writes, or reads) to a line of 32 cells. No cell of the line has a stamp later than `stamp`.
// All of its stamps that are later than the base are of the source `warp`: a warp, SEVERAL or the loads of an mbarrier.
struct latest {
    uint32_t stamp, warp;
    // Of writes: 1 + the run (struct reading) in which all of those were made; 0: in several, or in none.
    uint32_t run;
};

// The reading of a line that a warp has under way: it has read the cells whose bits are set in `cells`, all at
// time `stamp`. Either all `lanes` have read each of them; or, where lanes is 0, one lane has read each, as `run`
// says: lane i the 1 << run % 8 cells from cell run / 8 + (i << run % 8) on.
enum { RUN_SHIFT = 3 };
struct reading {
    uint32_t stamp, cells, lanes, run;
    uint32_t older;  // no stamp in the warp's own cells of the line, and not `strong`, is later
    uint32_t strong; // when the warp last made a strong read here
};

struct races {                            // of a CTA
    unsigned shift;                       // log2 of a cell's bytes
    uint32_t cells, threads, time, start; // start: the last time of the CTA before
    // threads: places in a clock. Behind those of the CTA's threads each warp has one for its products (wgmma), and
    // behind these each source of loads.
    int warps;
    bool bulk;                                         // there are bulk copies
    uint32_t load_sources;                             // of the CTA, so far
    uint32_t of_copies;                                // a bit of each source: of cp.async
    uint32_t came[LOAD_SOURCES];                       // of each source: when its last loads came
    uint32_t *write_stamp, *write_thread, *write_insn; // of each cell
    struct read_plane {                                // of plain reads
        uint32_t *stamp, *lanes, *insn;
        struct reading *reading; // of each line, not yet in stamp and lanes
        uint32_t
            *strong[RACE_KINDS];   // stamps, lanes and instructions of strong reads, one after the
                                   // other; NULL: there were none of that kind
    } read[WARP];                  // of each warp
    struct latest *writes, *reads; // of each line
    bool pending;                  // whether there may be stamps RACE_PENDING or RACE_FOREIGN
    bool fenced[FENCE_SCOPES];     // whether a thread of the CTA has executed such a fence
    bool narrow;                   // whether one has executed a fence for the CTA only
    bool told_narrowly;            // whether warp_clock.narrow of any lane is not NULL
    struct foreign *foreign;       // who it was where a stamp is RACE_FOREIGN; NULL: nobody yet
    struct init {                  // an mbarrier's, until the cluster's barrier has shown it
        uint32_t at, thread, stamp;
        enum { INIT_DONE, INIT_FENCED, INIT_ARRIVED } state;
    } * inits;
    size_t init_count, init_capacity;
    struct place { // an address of shared memory at which atomics meet
        uint32_t at;
        struct clock *clock;
    } * places;
    size_t place_count, place_capacity;
    struct completed { // of other CTAs, by number: up to when their reads are complete
        uint32_t count, capacity;
        struct {
            uint32_t cta, stamp;
        } * of;
    } seen, completed; // seen by some thread; known to all of them, since a barrier
};

// ---- Storage ------------------------------------------------------------------------------------

void races_create(struct cta *cta); // called when the launch checks races
// Without that call, all others do nothing.
void races_destroy(struct cta *cta);
void races_start(struct cta *cta); // before each CTA that uses the storage

// The cells of global memory, of a launch: shared by its host threads.
struct global_races *global_races_new(const struct program *program);
void global_races_free(struct global_races *races);
struct series_log *global_races_log(struct global_races *races); // of one of those threads

// ---- Accesses -----------------------------------------------------------------------------------

// One access of `lanes` to the same bytes of shared memory, before it happens. value: what a write
// writes; NULL: not known.
void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// One access of `lanes` to the same bytes of global memory, before it happens. A plain write of a value is
// made here, while the checker has the page to itself: a CTA on another host thread that writes the same
// value next is to see that it is the same. A strong write is made by the caller.
void race_global(struct warp *w, const struct op *op, uint32_t lanes, uint64_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// The bytes of a copy have come to the shared memory of `home`: a write by its lane; source: of loads, or 0.
void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t source, uint32_t stamp);
// What a lane has just stored to the shared memory of `home` is on its way from now on.
void race_under_way(const struct warp *w, int lane, uint32_t insn, struct cta *home, uint32_t at,
                    uint32_t bytes);
// race_load_source: the next source of loads of a CTA; copies: of cp.async. race_loads_come: loads of a source come now:
// the stamp of these writes. race_loads_known: who acquires the mbarrier's clock knows of those up to a stamp.
uint32_t race_load_source(struct cta *home, bool copies);
uint32_t race_loads_come(struct cta *home, uint32_t source, struct clock **clock);
void race_loads_known(struct cta *home, uint32_t source, uint32_t stamp, struct clock **clock);
// A clock knows of all that has come of some sources, a bit each.
void race_loads_told(struct cta *home, uint32_t sources, struct clock **clock);
static inline uint32_t race_source_bit(uint32_t source)
{
    return source ? 1u << (source - LOADS) : 0;
}
// Lanes have waited for copies of theirs: those that come by that have the lanes' time, which moves on.
void race_copies_awaited(struct warp *w, uint32_t lanes);
// A warp issues an operation that goes on by itself and reads shared memory until it is waited for: the CTA's time.
// What the warp writes from now on is later.
uint32_t race_issue(struct warp *w);
// Before race_shared, when such an operation reads: reports bytes that were written since it was issued, even in
// order with the wait; whether there are any.
bool race_overwritten(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                      uint32_t issued);
// An access by the asynchronous proxy (wgmma, bulk copies) to the shared memory of `home`, the own CTA or one of the
// cluster: reports bytes that a thread has written, or that are written now (store) and a thread has read, with
// no fence.proxy.async in between; whether there are any. And a read of global memory that a thread has written.
bool race_proxy(struct warp *w, const struct op *op, int lane, const struct cta *home, uint32_t at,
                uint32_t bytes, bool store);
void race_proxy_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes);
// Locks what is to be unlocked after an atomic operation on global memory: what it does is noted in the order
// in which it is done. NULL where nothing is noted.
int *race_turn(const struct warp *w, uint64_t at);
void race_turn_ends(int *turn);
// race_publish, before a strong write: notes what it releases. race_observe, after a strong read: takes what it
// acquires; by: a load, or an atomic operation, which may have compared in vain. home: the CTA in whose shared
// memory it is; NULL: in global memory.
enum race_strong { RACE_LOAD, RACE_ATOMIC, RACE_ATOMIC_IN_VAIN };
void race_publish(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home);
void race_observe(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home,
                  enum race_strong by);
void race_observed(struct warp *w, uint32_t lanes); // after race_observe of these lanes

// ---- Clusters -----------------------------------------------------------------------------------

// One lane's access to the shared memory of another CTA of its cluster, before it happens.
void race_remote(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                 uint32_t bytes, enum race_access access, const void *value);
// A lane of a cluster has initialised an mbarrier; lanes execute a fence.mbarrier_init, after which the
// cluster's barrier shows what they initialised, even if they arrive .relaxed.
void race_init(struct warp *w, int lane, uint32_t at);
void race_init_fence(struct warp *w, uint32_t lanes);
// Lanes arrive at the cluster's barrier (relaxed: all that others learn is that their CTA has begun),
// its phase is complete, they have waited for that; a cluster begins, or goes.
void race_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed);
void race_cluster_phase(struct cluster *cluster);
void race_cluster_wait(struct warp *w, uint32_t lanes);
void race_cluster_forget(struct cluster *cluster);
// race_release into a clock of another CTA, or its own.
void race_release_to(struct warp *w, uint32_t lanes, struct cta *home, struct clock **clock);
// The threads of a CTA have ended: reports what others may do to its shared memory after that.
void race_leave(struct cta *cta);

// ---- Synchronisation ----------------------------------------------------------------------------

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu);
void race_proxy_fence(struct warp *w, uint32_t lanes, bool shared,
                      bool global); // which memory it is for
void race_warp_sync(struct warp *w, uint32_t lanes);
// race_release adds what the lanes have done to a clock; race_acquire adds what a clock knows to
// what the lanes know.
void race_release(struct warp *w, uint32_t lanes, struct clock **clock);
void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock);
// Adds to a clock what the warp's products (wgmma) have read so far, and nothing else.
void race_release_products(struct warp *w, struct clock **clock);
void race_barrier_all(struct cta *cta); // every thread of the CTA waits at one barrier
void clock_join(struct clock **into, struct clock *more);
void clock_drop(struct clock **clock);

// ---- Reports ------------------------------------------------------------------------------------

// Races, and reads of what nothing has written: the kernel goes on. Each pair of lines is told
// once, with the first of its CTAs; the rest is counted. other: the instruction of the other party.
// launch->mine: a pair of lines that both stand in headers of the system or of a CUDA toolkit, called
// from nowhere else, is not told.
void race_report(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                 uint32_t other, const char *format, ...) __attribute__((format(printf, 6, 7)));
void race_log_merge(struct race_log *into, struct race_log *from);
void race_log_sort(struct race_log *log);
// Whether an instruction is CUB's, Thrust's or one of CUTLASS's loads of fragments: by its line, or by the
// name of its kernel where nvcc was not asked for lines. A program may give its own the same names.
bool race_in_library(const struct program *program, uint32_t insn);

#endif
