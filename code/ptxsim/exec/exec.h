// exec.h: what the files of exec/ share. Other folders call launch_run (ptxsim.h).
//
//   counts_derive.c  adds up the counters of a launch
//   recorded.c       runs a basic block of a CTA that is traced or filmed
//   ablate.c         runs a basic block of a CTA in which some executions are spoiled
//   exec.c           runs a warp: its groups of lanes, block by block
//   stuck.c          finds endless loops and deadlocks; stops launches
//   cta.c            runs a CTA: storage, and the turns of its warps
//   launch.c         runs a grid: CTAs over the host's threads; launch_run
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef PTXSIM_EXEC_H
#define PTXSIM_EXEC_H

#include "ptxsim/machine/machine.h"

#include <pthread.h>
#include <stdatomic.h>

enum halt { RUNNING, DEADLOCKED, SPENT, INTERRUPTED };

struct run { // what the host threads of a launch share
    const struct launch *launch;
    const struct program *program;
    uint64_t ctas;
    unsigned shape[3]; // CTAs of a cluster along x, y and z
    uint64_t size;     // CTAs of a cluster, the product of `shape`; 1 without clusters
    uint32_t shared_bytes;
    atomic_uint_fast64_t next; // number of the next cluster to run
    // The lowest CTA with a fault: CTAs with higher numbers need not run.
    atomic_uint_fast64_t faulted;
    pthread_mutex_t lock; // guards fault and fault_cta
    struct fault fault;
    uint64_t fault_cta;
    struct worker *workers; // `lock` guards their stuck_at and finished
    uint64_t worker_count;
    atomic_uint_fast64_t ended; // CTAs that have ended
    atomic_uint_fast64_t spent; // warp instructions executed so far
    atomic_int halt;            // enum halt: why the run has been stopped
    bool blameless;             // whether a fault came before the halt: only the fault is reported
    struct printed *printed;    // what CTAs have printed; guarded by `lock`
    size_t printed_count, printed_capacity, printed_bytes;
};

// ---- Warps (exec.c) -----------------------------------------------------------------------------

// Whether a group of lanes can run: it waits neither at a barrier nor for other lanes.
bool group_ready(const struct warp *w, const struct group *g);
// The group to run next, an index into w->groups; -1 if none can.
int pick_group(struct warp *w);
// Runs one basic block of the group at `index`.
void run_block(struct warp *w, int index);
// Runs a warp until it has to wait or its turn is over; returns whether it has run a block.
bool run_warp(struct warp *w);

// ---- CTAs that are recorded (recorded.c) --------------------------------------------------------

// Runs the operations of a basic block and records them for the CTA's trace and film.
void run_recorded(struct warp *w, char *r, const struct basic_block *b, uint32_t mask);
// Called when a CTA of a launch with an ablation begins (ablate.c). Returns whether the CTA's
// operations are logged, or one of them is spoiled.
bool ablation_start(struct cta *cta);
// Runs the operations of a basic block of a CTA for which ablation_start has returned true.
void run_ablated(struct warp *w, char *r, const struct basic_block *b, uint32_t mask);
// Records for a film how the program's matrices lie in registers.
void describe_matrices(const struct cta *cta);

// ---- Endless loops and deadlocks (stuck.c) ------------------------------------------------------

// The sum of all effects of the run's warps: what they have done that other warps can see.
uint64_t effects_of(const struct run *run);
// Whether every warp of a CTA is stuck: it waits, or loops, as long as the sum of all effects stays
// `effects`.
bool all_stuck(struct cta *cta, uint64_t effects);
// Sets a warp's `polls` to the load by which it waits in its loop, with the address that it reads.
void find_polled(struct warp *w);
// Reports as the CTA's fault that its warps wait for something that never happens. ctas: how many
// CTAs can never end; 0: no other CTA is involved.
void fault_stuck(struct cta *cta, uint64_t ctas);
// Stops a run. If it has been stopped already, its first reason remains.
void halt(struct run *run, enum halt why);
// Reports as the CTA's fault that the launch was stopped, with the place of the CTA's loop or of
// the interruption. To find the loop, runs the CTA for some more rounds.
void fault_stopped(struct cta *cta, enum halt why);

// ---- CTAs (cta.c) -------------------------------------------------------------------------------

// Zeroed memory, aligned to 64 bytes; aborts if the host is out of memory.
void *aligned_zeroed(size_t bytes);
// Storage for CTAs of a launch, used for one CTA after the other: start_cta before each. With
// clusters, the storage is for all CTAs of one cluster: these functions take or return its CTA of
// rank 0, and `number` counts clusters.
struct cta *new_cta(struct worker *worker);
void start_cta(struct cta *cta, uint64_t number);
void free_cta(struct cta *cta);

// The CTA to report when all CTAs of a cluster are stuck: if possible, one that does not wait at
// the cluster's barrier.
struct cta *stuck_one(struct cta *cta);

// CTA_IN_VAIN: the turn is over, since every warp waits for a lock or at a barrier. CTA_STUCK: proven that no warp can
// go on until another CTA does something, and none has done anything since.
enum cta_state { CTA_DONE, CTA_TURN_OVER, CTA_IN_VAIN, CTA_STUCK, CTA_FAULT };
// Gives the warps their turns, until all have ended or the turn of the CTA itself is over.
enum cta_state run_cta(struct cta *cta);

// ---- Counts (counts_derive.c) -------------------------------------------------------------------

// Adds the counters of a launch to *counts and to the source lines; counts, lines and line_count
// may be NULL.
void counts_derive(const struct program *program, const struct insn_counts *insns,
                   const struct block_counts *blocks, struct counts *counts,
                   struct line_counts **lines, size_t *line_count);

#endif
