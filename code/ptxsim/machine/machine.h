// machine.h: what operations run on: warps, CTAs, the host's threads; faults, names, traces, and
// the wavefronts of an access.
#ifndef PTXSIM_MACHINE_H
#define PTXSIM_MACHINE_H

#include "program.h"

#include <stdarg.h>
#include <stdatomic.h>

// ---- Warps, CTAs and host threads ---------------------------------------------------------------

struct insn_counts { // for each instruction and host thread: counts that block_counts lacks
    uint64_t wavefronts, conflicts, shared_bytes, sectors, global_bytes, lanes_off, divergent;
};
struct block_counts {
    uint64_t warps, threads;
};
// An instruction's last irregular access to shared memory (the lanes had neither one address nor
// consecutive ones), with its wavefronts. Kept, since the instruction's next access often has the
// same pattern.
struct pattern {
    uint32_t from[WARP];         // each lane's address, less that of lane 0
    uint32_t mask, phase, bytes; // phase: lane 0's address modulo 16; bytes 0: no access yet
    int wavefronts, least;
};

struct group { // lanes of a warp that are at the same block
    uint32_t mask;
    uint32_t block;
    uint32_t frame; // byte offset of the lanes' frame in the register file
    bool arrived;   // whether the group waits at `barrier` for other lanes
    uint8_t barrier;
};

struct warp {
    struct cta *cta;
    char *file;  // register file: the frames, the kernel's first
    char *local; // local memory: program->local_bytes for each lane in turn
    uint32_t alive;
    uint32_t here; // lanes of the last memory access that was made lane by lane
    int index, group_count;
    struct group groups[WARP];
    // The block that the running group goes to; set by control operations.
    uint32_t next, next_frame;
    uint32_t taken; // lanes that go to next; the others fall through
    uint32_t gone;  // lanes that have left the group in another way
    // Lanes that run on past a barrier at which others of the warp wait (ops/barrier.c).
    uint32_t passed;
    uint32_t passed_block; // the block of that barrier
    uint32_t tid[3][WARP];
    // alloca: each lane's lowest byte in use, growing down from the end of its local memory.
    uint64_t stack[WARP];
    struct text printed; // what printf has printed
    uint64_t turns;
    uint64_t instructions;     // how many the warp has run, without the block under way
    struct warp_clock *clock;  // NULL: races are not checked
    struct copies *copies;     // cp.async operations under way; NULL until the first
    struct products *products; // wgmma operations under way; NULL until the first
    // For each lane, the number of the group of bulk stores that it fills.
    uint32_t bulk_open[WARP];
    // came: lanes that have arrived at the cluster's barrier; through: those that may pass it
    // (ops/cluster.c).
    uint32_t came, through;
    uint32_t error[WARP]; // what cudaGetLastError gives in device code
    // Whether the warp's turn ends: after a failed wait, a nanosleep or a strong load of global
    // memory.
    bool yields;
    bool contends; // whether its turn ends because it cannot get a lock
    // The failed wait for an mbarrier's phase that the warp repeats, or NULL.
    const struct op *waits;
    uint32_t waits_at;
    struct {                   // a loop that changes only registers (exec/stuck.c)
        uint64_t effects;      // the run's effects when the watch of the warp began
        uint64_t state, turns; // at an earlier check: the result of state_of, low bits of w->turns
        uint64_t rounds, until, first;
        bool watched, found, endless; // endless: found by the limit of blocks, not by a proof
        bool careful;                 // whether registers of lanes that have ended are kept
    } loop;
    struct {
        // ahead: cycles by which the clock is ahead of the warp's instructions (ops/special.c).
        uint64_t effects, count, since, ahead;
    } look; // the warp's reads of the clock
    // In a launch with an ablation: sectors of global memory that the warp has loaded before its
    // first product.
    uint64_t loaded;
    bool multiplies;
    uint64_t steps;         // basic blocks that the warp has run
    const struct op *polls; // the load by which the warp waits for a value in its loop, or NULL
    uint64_t polls_at;
    int polls_lane;
    uint64_t failed_at; // where its last atomic operation failed; 0: it has not failed
};

enum { NAMED_BARRIERS = 16 };
// Values of a group's `barrier` that are no named barrier: the cluster's barrier, and the place
// where a wgmma waits for the other warps of its warpgroup.
enum { CLUSTER_BARRIER = NAMED_BARRIERS, WARPGROUP_BARRIER };

// CTAs that run together and reach one another's shared memory. A CTA alone has no cluster.
struct cluster {
    int size;
    unsigned shape[3];
    struct cta *cta[MOST_CLUSTER]; // the CTAs, by rank
    // For race checks, what the threads that have arrived at the cluster's barrier know: in this
    // phase (pending), and in all earlier phases (complete).
    struct world *pending, *complete;
};

struct cta {
    struct worker *worker;
    const struct launch *launch;
    const struct program *program;
    unsigned index[3];
    uint64_t number;
    struct cluster *cluster; // NULL: the CTA is in none
    int rank;                // the CTA's rank in its cluster
    bool left;               // in a cluster: whether all threads of the CTA have ended
    // Whether a thread of the CTA, or of its cluster, has waited (griddepcontrol.wait) for the
    // previous kernel.
    bool waited;
    int warps;
    struct warp *warp;
    uint8_t *shared, *written; // written: a bit for each byte of `shared`; NULL: not checked
    uint32_t shared_bytes;
    struct {
        // Numbers of threads. arrived: rises by 32 when the last living lanes of a warp arrive.
        // expected: 0 stands for all warps.
        uint32_t arrived, expected;
        // bar.red: how many lanes have arrived, and how many of them have a true predicate.
        uint32_t lanes, yes;
        struct clock *clock; // what the threads that have arrived have done
    } barrier[NAMED_BARRIERS];
    struct races *races;      // NULL: races are not checked
    struct meeting *meetings; // the mbarriers used so far (ops/mbarrier.h); NULL until the first
    size_t meeting_count, meeting_capacity;
    struct bulk *bulk; // bulk copies and stores under way
    size_t bulk_count, bulk_capacity;
    // Counts events at mbarriers: arrivals, reports of bytes, phases ended or seen complete.
    uint64_t progress;
    uint64_t idle; // rounds in a row with all warps idle (cta.c) and no progress
    bool faulted;
    bool watched; // whether accesses to shared memory are checked or traced
    bool singly;  // whether operations are traced, or logged or spoiled for an ablation
    // In a launch with an ablation: the CTA's number, counted over all launches, and how many
    // executions it has had.
    uint64_t place, executions;
    // In a launch with an ablation: sectors of K and V that the CTA has loaded; sectors that warps
    // without a product have loaded since the CTA's last product; what it has done (enum progress).
    uint64_t loaded, ahead, progress_of[PROGRESSES];
    // In a launch with an ablation, for each byte of `shared`; NULL: not asked for. SPOIL_LOADS: the
    // thread that stored it. SPOIL_COPIES: 1 + the place in the log of the copy that brings it, plus
    // these flags; 0: no copy brings it, or it was read after its arrival, or replaced.
#define BYTE_ARRIVED (UINT32_C(1) << 31)
#define BYTE_COUNTED (UINT32_C(1) << 30) // whether it has been read, before its arrival
    uint8_t *notes;
    uint32_t *brought;
    struct known *known; // in a launch with an ablation: who knows of which signals (ablate.c)
    size_t known_count, known_capacity;
    struct fault fault;
    uint64_t rounds;
    uint64_t clock;      // the latest clock value that one of its warps has read
    uint64_t stuck_at;   // all its warps are stuck as long as the run's effects have this sum
    uint64_t vain_at;    // the effects' sum in the last round in which all its warps waited
    struct trace *trace; // NULL: the CTA is not traced
    struct film *film;   // NULL: the CTA is not filmed
    struct cta *next;
};

static inline int cluster_size(const struct cta *cta)
{
    return cta->cluster ? cta->cluster->size : 1;
}

// The CTA of a rank in the cluster of `cta`; `cta` itself where it has no cluster.
static inline struct cta *cta_at(struct cta *cta, int rank)
{
    return cta->cluster ? cta->cluster->cta[rank] : cta;
}

// What the checks have found (races/report.c): the kernel goes on, and a fault is reported at its
// end. Each pair of source lines is one entry.
struct race_log {
    uint64_t total; // how many accesses were reported
    struct race_entry {
        // Instructions: the one whose line the fault names, and the other access's.
        uint32_t insn, other;
        uint64_t cta, count; // cta: the lowest CTA with this fault; count: accesses
        struct fault fault;
    } * entries;
    size_t count, capacity;
};

struct child_entry {
    struct child child;
    uint64_t cta, order; // the CTA that asked, and the request's number among those of the worker
    bool asked;          // false: its parameters are still being written, or it cannot be launched
};

enum { LAST_PAGES = 256 };
struct worker { // the state of one host thread
    struct run *run;
    _Atomic uint64_t effects; // how often its warps have done what other warps can see
    uint64_t stuck_at;        // all its CTAs are stuck as long as the run's effects have this sum
    uint64_t instructions;    // run by its warps, but not yet added to the launch's sum
    unsigned rounds;          // rounds in which the warps of one of its CTAs have had their turns
    bool finished;
    struct insn_counts *insns;
    struct block_counts *blocks;
    struct pattern *patterns;   // for each instruction, its last irregular shared access
    struct allocation last;     // the allocation that was accessed last
    struct touched_span *spans; // for each instruction; NULL: not asked for (launch.touched)
    bool starts_dependents;     // whether a thread has executed griddepcontrol.launch_dependents
    struct race_log races;
    struct global_races *global_races; // the launch's race checks; NULL: races are not checked
    // Recently used pages of global memory, each at the index: its number % LAST_PAGES.
    struct page *pages[LAST_PAGES];
    struct series_log *series; // the thread's series of reads (races/cells.h)
    struct snapshot *free_snapshots;
    struct snapshot_block
        *block; // the block from which this thread takes snapshots that were never used
    uint32_t snapshots_made;      // how many this thread has made since it last worked one out
    struct child_entry *children; // requests of device code (ops/extra/children.c)
    size_t child_count, child_capacity;
};

// Notes that a warp has done something that other warps can see, so that warps that wait look
// again. The counter is written by the worker's own host thread, and read by others.
static inline void note_effect(struct warp *w)
{
    _Atomic uint64_t *effects = &w->cta->worker->effects;
    atomic_store_explicit(effects, atomic_load_explicit(effects, memory_order_relaxed) + 1,
                          memory_order_release);
}

// ---- Traces (trace.c) ---------------------------------------------------------------------------

// trace_start: the trace of a CTA that begins; NULL: the CTA is not traced (trace.c). trace_film:
// the trace's film (film.h); NULL: there is none, or no trace.
struct trace *trace_start(const struct cta *cta);
struct film *trace_film(const struct trace *trace);
void trace_block(struct trace *trace, const struct warp *w, const struct basic_block *block,
                 uint32_t mask);
// trace_arrive: lanes of a warp wait at a barrier. trace_release: the warps that wait there go on.
void trace_arrive(struct trace *trace, const struct warp *w, uint32_t insn, unsigned barrier,
                  uint32_t mask);
void trace_release(struct trace *trace, const struct cta *cta, unsigned barrier);
// trace_meet: a warp arrives at the mbarrier at a shared address. trace_ask: a warp tests whether a
// phase of that mbarrier has ended.
void trace_meet(struct trace *trace, const struct warp *w, uint32_t at, bool ends_phase);
void trace_ask(struct trace *trace, const struct warp *w, uint32_t insn, uint32_t at, bool passed);
void trace_access(struct trace *trace, const struct warp *w, uint32_t insn, const uint32_t at[WARP],
                  int bytes, uint32_t mask, bool store);

// ---- Names and faults (names.c, fault.c) --------------------------------------------------------

// insn_place: the place of an instruction, without a thread. insn_line: writes and returns this
// place for the user, as "file:line" with the line's callers, or as "PTX line N".
struct fault_place insn_place(const struct program *program, uint32_t insn);
const char *insn_line(const struct program *program, uint32_t insn, char *text, size_t size);
// Writes a line's callers as a JSON array, ["FILE:LINE", ...].
void write_callers(FILE *file, const char *callers);
// The variable that contains a shared address, as " (tile + 128)"; "" if there is none.
const char *shared_name(const struct program *program, uint32_t at, char *text, size_t size);
// The name of a variable as it is in the source: "t" of "_ZZ9attentionE1t".
void variable_name(const struct variable *variable, char *name, size_t size);

// A fault of a lane. Its text is "kernel, line, block, thread: " and the formatted message; without
// the line if op is NULL; of an assertion, only the message.
struct fault fault_of(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                      const char *format, va_list arguments);
// Makes a fault like fault_of, and gives it to the warp's CTA, unless the CTA has one already.
void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

static inline struct insn_counts *counts_of(struct warp *w, const struct op *op)
{
    return &w->cta->worker->insns[op->insn];
}

// ---- Wavefronts and sectors (counts.c) ----------------------------------------------------------

// Wavefronts of one shared load. address: each lane's byte address; bytes: for each lane, 1 to 16;
// mask: the active lanes. Lanes that name the same word share it. 8-byte accesses are served by
// half warps, 16-byte ones by quarter warps; two neighbouring parts are served together if they
// have no conflict, and few lanes are active or pairs of lanes share an address. *least gets the
// wavefronts that the parts would take without any conflict. test_counts.c compares all counts of
// this section with those of an H200.
int shared_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// Wavefronts of one shared store: no two parts go together.
int shared_store_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// Wavefronts of an atomic operation on shared memory, 4 or 8 bytes a lane: lanes with the same
// bank, or the same address, take turns. swaps: a compare-and-swap, which takes each turn twice.
int shared_atomic_wavefronts(const uint64_t address[WARP], int bytes, uint32_t mask, bool swaps,
                             int *least);

// Distinct 32-byte sectors touched by one global access.
int global_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);
// Sectors of an atomic operation: lanes with the same address take turns, and the sectors of every
// turn are added.
int global_atomic_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);

#endif
