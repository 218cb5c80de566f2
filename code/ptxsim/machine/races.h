// races.h: who may see whose accesses to memory (races.c, ops/isa/race_runs.h).
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
//     page's crowd (race_cells.h), which keeps as much of each warp.
//   - The bytes that a cp.async or a bulk copy writes are on their way until a wait, or the phase of an
//     mbarrier, shows that they have come. Until then any access to them is a race, even by the thread
//     that issued the copy.
//   - wgmma and bulk stores are checked as reads at the issue and once more at the wait, so that a
//     thread that overwrites an operand in between is found. A wgmma is one operation of four warps: a
//     wait by any of them shows that all four have read. They and bulk loads go through the
//     asynchronous proxy, which sees what threads have written to shared memory only after a
//     fence.proxy.async by a thread that knows of the write.
//
// What orders: CTA barriers (all, or some of the warps), bar.warp.sync (and nothing else between
// the lanes of a warp: shfl and vote order no memory in PTX, and the lanes' running in step is no
// promise), mbarriers, and atomics: a .release with a strong write, or a fence before it, by its thread or,
// before a barrier that the thread has passed, by the one whose accesses it is to show; and a strong read
// that sees its place with a fence or .acquire after. An atom needs no fence after it: CUDA's own
// samples have none. Two writes of the same value are no race. A kernel's end orders everything.
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

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct cta;
struct warp;
struct op;
struct program;

#include "ptxsim/ptxsim.h"

enum { ORDER_STRONG = 1, ORDER_ACQUIRE = 2, ORDER_RELEASE = 4, ORDER_CTA = 8 }; // op->order
// ASYNC: the issue of a cp.async. LOOK: a read that is held against the writes before it and not noted.
enum race_access { RACE_READ, RACE_WRITE, RACE_ASYNC, RACE_LOOK };

#define RACE_PENDING UINT32_MAX       // the stamp of a write by cp.async that is still on its way
#define RACE_FOREIGN (UINT32_MAX - 1) // of an access by another CTA of the cluster
#define RACE_ASYNC_THREAD 0x80000000u // with the thread that issued it
#define RACE_KIND_SHIFT 29 // above an instruction: the kind of its access, RACE_INSN below
#define RACE_INSN ((1u << RACE_KIND_SHIFT) - 1)
// Of an access: 0, it is plain; else strong, and 1 + log2 of the bytes of an element. Two are in order without
// a synchronisation where they are of one kind, for then they are of the same bytes (PTX ISA, "Morally strong
// operations"): each is aligned to its size.
enum { RACE_PLAIN, RACE_KINDS = 6 };

// What a thread knows of others, or a place at which threads synchronise. Counted references;
// copied before it is written if several hold it.
struct clock {
    uint32_t refs, base, threads;
    uint32_t most;       // no at is later
    struct world *world; // of other CTAs, or NULL
    uint32_t at[];       // of each thread
};

struct world { // clocks of CTAs, by number
    uint32_t refs, count;
    struct {
        uint64_t cta;
        struct clock *clock;
    } of[];
};

// Who sees what was done before a fence: the CTA, or the whole GPU, which is the CTA, too.
enum fence_scope { FENCE_CTA, FENCE_GPU, FENCE_SCOPES };

struct warp_clock {
    uint32_t now[WARP], base[WARP], wbase[WARP];
    uint32_t least[WARP + 1]; // of each warp: up to when every lane knows of all its threads;
                              // of SEVERAL: of all threads of the CTA, the base
    struct clock *known[WARP];
    struct world *world[WARP], *seen[WARP]; // seen: by strong reads, known after the next fence
    struct fenced {          // what a lane knew at its last fence; stamp 0: there was none
        struct clock *known; // a reference
        uint32_t stamp, base, wbase;
    } fenced[FENCE_SCOPES][WARP];
    uint32_t now_all;             // when all lanes agree, else 0
    uint32_t base_all, wbase_all; // the least
    bool plain;                   // no lane knows more of its own CTA than base and wbase say
    bool alone;                   // nor anything of another one
    struct clock *proxy; // what the warp's proxy fences have shown to the asynchronous proxy
};

// What is kept of a line of 32 cells (race_cells.h).
struct latest { // no cell has a later stamp; the stamps after the base are the warp's, or SEVERAL's
    uint32_t stamp, warp;
    uint32_t run; // of writes: all of those were by one lane after the other, as in struct reading;
                  // less one; 0: not so
};
enum { SEVERAL = WARP, RUN_SHIFT = 3 };
struct
    reading { // by a warp: `cells` (bits) at `stamp`, all by `lanes`; for lanes 0, lane i has read
    // the 1 << run % 8 cells from cell run / 8 + (i << run % 8) on
    uint32_t stamp, cells, lanes, run;
    uint32_t older;  // no stamp of the cells themselves, nor `strong`, is later
    uint32_t strong; // when it last made a strong read here
};

struct races {                            // a CTA's
    unsigned shift;                       // log2 of a cell's bytes
    uint32_t cells, threads, time, start; // start: the last time of the CTA before
    // threads: of clocks. Behind the CTA's stands one for each warp: its products (wgmma).
    int warps;
    uint32_t *write_stamp, *write_thread, *write_insn; // of each cell
    struct read_plane {                                // of plain reads
        uint32_t *stamp, *lanes, *insn;
        struct reading *reading; // of each line, not yet in stamp and lanes
        uint32_t
            *strong[RACE_KINDS];   // strong reads: the same three; NULL: there is none of that kind
    } read[WARP];                  // of each warp
    struct latest *writes, *reads; // of each line
    bool pending;                  // whether there may be stamps RACE_PENDING or RACE_FOREIGN
    bool fenced[FENCE_SCOPES];     // whether a thread of the CTA has executed such a fence
    struct foreign *foreign;       // who it was of RACE_FOREIGN; NULL: there is none
    struct init {                  // an mbarrier's, until the cluster's barrier has shown it
        uint32_t at, thread, stamp;
        enum { INIT_DONE, INIT_FENCED, INIT_ARRIVED } state;
    } * inits;
    size_t init_count, init_capacity;
    struct place { // of shared memory, where atomics meet
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

// ---- A CTA's ------------------------------------------------------------------------------------

void races_create(struct cta *cta);  // called when the launch checks races
void races_destroy(struct cta *cta); // like races_start, does nothing where they are not checked
void races_start(struct cta *cta);   // before each CTA that uses the storage

// ---- Accesses -----------------------------------------------------------------------------------

// Locks what is to be unlocked after an atomic operation on global memory: what it does is noted in the order
// in which it is done. NULL where nothing is noted.
pthread_mutex_t *race_turn(const struct warp *w, uint64_t at);

// One access of `lanes` to the same bytes of shared memory, before it happens. value: what a write
// writes; NULL: not known.
void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// A line was last written by an access that was on its way then. Whether what it holds now is in
// order for all lanes.
bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line);
// The bytes of a copy have come to the shared memory of `home`: a write by its lane.
void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t stamp);
// An access by the asynchronous proxy (wgmma, bulk copies): reports bytes that somebody has written
// in the ordinary way, with no fence.proxy.async in between; whether there are any.
bool race_proxy(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                bool store);
// The same for global memory. It stores the value of a write that is not strong, too, while it has the page
// to itself: a CTA on another thread that writes the same next is to see that it is the same.
void race_global(struct warp *w, const struct op *op, uint32_t lanes, uint64_t at, uint32_t bytes,
                 enum race_access access, const void *value);
// Before a strong write: what it releases. After a strong read: what it acquires; atomic: by atom.
// home: the CTA in whose shared memory it is; NULL: in global memory.
void race_publish(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home);
void race_observe(struct warp *w, const struct op *op, int lane, uint64_t at, struct cta *home,
                  bool atomic);

// ---- Clusters -----------------------------------------------------------------------------------

struct cluster;
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
// The bytes of a copy by another CTA come with a phase of an mbarrier: the stamp of that write, which all
// know who know the mbarrier's clock. It stands as one by the thread of that number in `home`.
uint32_t race_delivered(const struct warp *w, int lane, struct cta *home, struct clock **clock);
// The threads of a CTA have ended: reports what others may do to its shared memory after that.
void race_leave(struct cta *cta);

// ---- Synchronisation ----------------------------------------------------------------------------

void race_fence(struct warp *w, uint32_t lanes, bool whole_gpu);
void race_proxy_fence(struct warp *w, uint32_t lanes);
void race_warp_sync(struct warp *w, uint32_t lanes);
// What the lanes have done goes into a clock; what a clock knows goes to the lanes.
void race_release(struct warp *w, uint32_t lanes, struct clock **clock);
// The same of what the warp's products (wgmma) read so far, and of nothing else.
void race_release_products(struct warp *w, struct clock **clock);
void race_acquire(struct warp *w, uint32_t lanes, struct clock *clock);
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
struct race_log {
    uint64_t total;
    struct race_entry {
        enum fault_kind kind;
        uint32_t insn, other;
        uint64_t cta, count;
        char text[1024];
    } * entries;
    size_t count, capacity;
};
void race_log_merge(struct race_log *into, struct race_log *from);
void race_log_sort(struct race_log *log);
// Whether an instruction is CUB's, Thrust's or one of CUTLASS's loads of fragments: by its line, or by the
// name of its kernel where nvcc was not asked for lines. A program may give its own the same names.
bool race_in_library(const struct program *program, uint32_t insn);
// "file:line" of an instruction, as it is named to the user; in `text`.
const char *race_line(const struct program *program, uint32_t insn, char *text, size_t size);
// " (tile + 128)", the variable that an address of shared memory lies in, or "".
const char *shared_name(const struct program *program, uint32_t at, char *text, size_t size);

struct variable;
// The name of a variable as it is in the source: "t" of "_ZZ9attentionE1t".
void variable_name(const struct variable *variable, char *name, size_t size);

// Global memory's cells: of a launch, shared by its host threads.
struct global_races *global_races_new(const struct program *program);
void global_races_free(struct global_races *races);

#endif
