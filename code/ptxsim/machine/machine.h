// machine.h: what operations run on: warps, CTAs, the host's threads; faults, names, traces, and
// the wavefronts of an access.
#ifndef PTXSIM_MACHINE_H
#define PTXSIM_MACHINE_H

#include "program.h"

#include <stdarg.h>
#include <stdatomic.h>

// ---- Warps, CTAs and host threads ---------------------------------------------------------------

struct insn_counts { // per instruction and host thread: what cannot be derived from the blocks
    uint64_t wavefronts, conflicts, shared_bytes, sectors, global_bytes, lanes_off, divergent;
};
struct block_counts {
    uint64_t warps, threads;
};
// The last access of an instruction to shared memory that was irregular (neither one address for
// all lanes, nor one lane after the other), with its wavefronts: the next is mostly like it.
struct pattern {
    uint32_t from[WARP];         // each lane's address, less that of lane 0
    uint32_t mask, phase, bytes; // phase: lane 0's address modulo 16; bytes 0: no access yet
    int wavefronts, least;
};

struct group { // lanes of a warp at the same place
    uint32_t mask;
    uint32_t block;
    uint32_t frame; // byte offset of its frame in the register file
    bool arrived;   // at a CTA barrier, and waits for the others
    uint8_t barrier;
};

struct warp {
    struct cta *cta;
    char *file;  // register file: frames, the kernel's first
    char *local; // local memory: per lane, program->local_bytes each
    uint32_t alive;
    uint32_t here; // lanes of the last access to memory that was made lane by lane
    int index, group_count;
    struct group groups[WARP];
    uint32_t next, next_frame; // where the running group goes; set by the control operations
    uint32_t taken;            // lanes that go to next; the others fall through
    uint32_t gone;             // lanes that have left the group in another way
    uint32_t passed;           // lanes that run past a barrier, at block passed_block, at which
    uint32_t passed_block;     // others of the warp stand (ops/barrier.c)
    uint32_t tid[3][WARP];
    uint64_t stack[WARP]; // alloca: the lowest byte in use, from the end of the lane's local memory
    struct text printed;  // by printf
    uint64_t turns;
    uint64_t instructions;     // that it ran, but for those of the block at hand
    struct warp_clock *clock;  // NULL: races are not checked
    struct copies *copies;     // cp.async on their way; NULL until the first
    struct products *products; // wgmma on their way; NULL until the first
    uint32_t bulk_open[WARP];  // number of the group of bulk stores that each lane fills
    uint32_t came, through;    // lanes at the cluster's barrier (ops/cluster.c)
    uint32_t error[WARP];      // what cudaGetLastError gives in device code
    bool yields;               // ends its turn: a failed wait, a nanosleep, a load of a flag
    const struct op *waits;    // the failed wait for an mbarrier's phase that it repeats, or NULL
    uint32_t waits_at;
    struct {                   // a loop that changes nothing but registers (exec/stuck.c)
        uint64_t effects;      // the run's effects when the loop may have begun
        uint64_t state, turns; // a hash of the registers at some round, and the round's turn
        uint64_t rounds, until, first;
        bool watched, found, endless; // endless: no proof of a loop, but past the limit of blocks
        bool careful;                 // lanes that have ended keep their registers
    } loop;
    struct {
        uint64_t effects, count, since, ahead; // ahead: cycles that it has not run (ops/special.c)
    } look;                                    // at the clock
    // Of a launch with an ablation: sectors of global memory, until it makes a product; instructions that it has run.
    uint64_t loaded, ran;
    bool multiplies;
    uint64_t steps;         // basic blocks that it ran
    const struct op *polls; // the load by which a warp in such a loop waits, or NULL
    uint64_t polls_at;
    int polls_lane;
};

enum { NAMED_BARRIERS = 16 };
enum { // values of a group's `barrier`: at the cluster's barrier; where a wgmma waits for other warps
    CLUSTER_BARRIER = NAMED_BARRIERS,
    WARPGROUP_BARRIER
};

// CTAs that run together and reach one another's shared memory. A cluster of one CTA has none.
struct cluster {
    int size;
    unsigned shape[3];
    struct cta *cta[MOST_CLUSTER]; // by rank
    // For race checks: what the threads know that have arrived at the cluster's barrier in this phase
    // (pending), and in all phases before (complete).
    struct world *pending, *complete;
};

struct cta {
    struct worker *worker;
    const struct launch *launch;
    const struct program *program;
    unsigned index[3];
    uint64_t number;
    struct cluster *cluster; // NULL: it is alone
    int rank;                // in the cluster
    bool left;               // all of its threads have ended
    bool
        waited; // whether one of its threads has waited for the kernel that its own depends on (griddepcontrol.wait)
    int warps;
    struct warp *warp;
    uint8_t *shared, *written; // written: a bit a byte; NULL: not checked
    uint32_t shared_bytes;
    struct {
        uint32_t arrived, expected; // threads, in whole warps; expected 0: every warp there is
        uint32_t lanes, yes;        // bar.red
        struct clock *clock;        // what those who came have done
    } barrier[NAMED_BARRIERS];
    struct races *races;      // NULL: not checked
    struct meeting *meetings; // mbarriers that have a clock or copies; NULL until the first
    size_t meeting_count, meeting_capacity;
    struct bulk *bulk; // copies of tensors on their way, and the like
    size_t bulk_count, bulk_capacity;
    uint64_t progress; // arrivals at mbarriers and phases seen
    uint64_t idle;     // rounds in which every warp only waited
    bool faulted;
    bool watched; // accesses to shared memory are checked or traced
    bool singly;  // each operation is looked at: it is traced, or some are spoiled
    uint64_t place,
        executions;  // of a launch with an ablation: its number there, and of its executions so far
    uint64_t loaded; // and sectors of K and V that it has loaded
    uint8_t *stored_by; // and of each byte of `shared` the thread that stored it; NULL: not asked
    struct fault fault;
    uint64_t rounds;
    uint64_t clock;      // the latest that one of its warps has read
    uint64_t stuck_at;   // every warp is, as long as the run's effects sum up to this
    struct trace *trace; // NULL: not traced
    struct film *film;   // NULL: not filmed
    struct cta *next;
};

static inline int cluster_size(const struct cta *cta)
{
    return cta->cluster ? cta->cluster->size : 1;
}

// The CTA of that rank in the cluster of a CTA; a CTA without a cluster is its own.
static inline struct cta *cta_at(struct cta *cta, int rank)
{
    return cta->cluster ? cta->cluster->cta[rank] : cta;
}

// What the checks have found (races/report.c): the kernel goes on, and it is told at its end. A pair of lines
// is one entry.
struct race_log {
    uint64_t total; // accesses that were reported
    struct race_entry {
        uint32_t insn, other; // whose line it names, and that of the other party
        uint64_t cta, count;  // the lowest CTA, whose fault it is; accesses
        struct fault fault;
    } * entries;
    size_t count, capacity;
};

struct child_entry {
    struct child child;
    uint64_t cta, order; // of the CTA that asked, and of the worker's
    bool asked;          // false: the buffer of its parameters is being filled
};

enum { LAST_PAGES = 8 };
struct worker { // one host thread
    struct run *run;
    _Atomic uint64_t effects; // what its warps have done that another can see
    uint64_t stuck_at;        // all of its CTAs are, as long as the effects sum up to this
    uint64_t instructions;    // run, and not yet added to those of the launch
    unsigned rounds;          // of the warps of its CTAs
    bool finished;
    struct insn_counts *insns;
    struct block_counts *blocks;
    struct pattern *patterns;   // by instruction
    struct allocation last;     // the allocation of the last access
    struct touched_span *spans; // by instruction; NULL: nobody asks (launch.touched)
    bool
        starts_dependents; // whether one of its threads has executed griddepcontrol.launch_dependents
    struct race_log races;
    struct global_races *global_races; // of the launch
    struct page *pages[LAST_PAGES]; // the last ones of its pages, each at its number % LAST_PAGES
    struct series_log *series;      // its series of reads (races/cells.h)
    struct global_place *place;     // where an atomic was last
    struct snapshot *free_snapshots;
    struct child_entry *children; // what device code has launched (ops/extra/children.c)
    size_t child_count, child_capacity;
};

// A warp has done something that others can see: whoever waits for it looks again. Read by other
// host threads, written by one.
static inline void note_effect(struct warp *w)
{
    _Atomic uint64_t *effects = &w->cta->worker->effects;
    atomic_store_explicit(effects, atomic_load_explicit(effects, memory_order_relaxed) + 1,
                          memory_order_release);
}

// ---- Traces (trace.c) ---------------------------------------------------------------------------

// The trace of a CTA that begins, NULL if nobody asked for it; its film (film.h), if it has one.
struct trace *trace_start(const struct cta *cta);
struct film *trace_film(const struct trace *trace);
void trace_block(struct trace *trace, const struct warp *w, const struct basic_block *block,
                 uint32_t mask);
// Lanes of a warp wait at a barrier; those who wait there go on.
void trace_arrive(struct trace *trace, const struct warp *w, uint32_t insn, unsigned barrier,
                  uint32_t mask);
void trace_release(struct trace *trace, const struct cta *cta, unsigned barrier);
// A warp arrives at the mbarrier at a shared address; it asks whether a phase of it has ended.
void trace_meet(struct trace *trace, const struct warp *w, uint32_t at, bool ends_phase);
void trace_ask(struct trace *trace, const struct warp *w, uint32_t insn, uint32_t at, bool passed);
void trace_access(struct trace *trace, const struct warp *w, uint32_t insn, const uint32_t at[WARP],
                  int bytes, uint32_t mask, bool store);

// ---- Names and faults (names.c, fault.c) --------------------------------------------------------

// The place of an instruction, without a thread; in `text`, as it is named to the user: "file:line".
struct fault_place insn_place(const struct program *program, uint32_t insn);
const char *insn_line(const struct program *program, uint32_t insn, char *text, size_t size);
// A line's callers as a list of JSON, ["FILE:LINE", ...].
void write_callers(FILE *file, const char *callers);
// " (tile + 128)", the variable that an address of shared memory lies in, or "".
const char *shared_name(const struct program *program, uint32_t at, char *text, size_t size);
// The name of a variable as it is in the source: "t" of "_ZZ9attentionE1t".
void variable_name(const struct variable *variable, char *name, size_t size);

// A fault of a lane, its text "kernel, line, block, thread: " and then the format; op may be NULL.
struct fault fault_of(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                      const char *format, va_list arguments);
// Records the CTA's first fault.
void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

static inline struct insn_counts *counts_of(struct warp *w, const struct op *op)
{
    return &w->cta->worker->insns[op->insn];
}

// ---- Wavefronts and sectors (counts.c) ----------------------------------------------------------

// Wavefronts of one shared load: the 32 lanes' byte addresses, `bytes` each (1 to 16), active lanes
// by mask. Lanes that name the same word share it; 8-byte accesses go by half warps, 16-byte ones
// by quarter warps, two of them together where few lanes are active or neighbours agree. *least
// gets the wavefronts that these parts take without any conflict. test_counts.c compares all of
// these with what an H200 counts.
int shared_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// Wavefronts of one shared store: no two parts go together.
int shared_store_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// Wavefronts of an atomic operation on shared memory, 4 or 8 bytes a lane: lanes with the same address take turns. swaps:
// compare-and-swap, which takes each turn twice.
int shared_atomic_wavefronts(const uint64_t address[WARP], int bytes, uint32_t mask, bool swaps,
                             int *least);

// Distinct 32-byte sectors touched by one global access.
int global_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);
// Sectors of an atomic operation: lanes with the same address take turns, and each turn's sectors count.
int global_atomic_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);

#endif
