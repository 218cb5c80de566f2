// exec.h: what the files of exec/ share. Its public face is launch_run (ptxsim.h).
//
//   exec.c           runs a warp: its groups of lanes, block by block
//   stuck.c          loops that nobody ends, and deadlocks
//   cta.c            a CTA: storage, and the turns of its warps
//   launch.c         a grid: CTAs over the host's threads; launch_run
//   counts_derive.c  what the counters of a launch add up to
#ifndef PTXSIM_EXEC_H
#define PTXSIM_EXEC_H

#include "ptxsim/machine/machine.h"

#include <pthread.h>
#include <stdatomic.h>

struct run { // a launch
    const struct launch *launch;
    const struct program *program;
    uint64_t ctas;
    uint32_t shared_bytes;
    atomic_uint_fast64_t next;
    atomic_uint_fast64_t faulted; // the lowest CTA with a fault: none above it need run
    pthread_mutex_t lock;         // guards fault
    struct fault fault;
    uint64_t fault_cta;
    struct worker *workers; // guarded by the lock: their stuck_at and finished
    uint64_t worker_count;
    atomic_uint_fast64_t ended; // CTAs
    atomic_bool deadlocked;     // nobody will ever go on
    bool blameless;             // the deadlock follows from another fault, which is told instead
    struct printed *printed;    // guarded by the lock too
    size_t printed_count, printed_capacity, printed_bytes;
};

// ---- Warps (exec.c) -----------------------------------------------------------------------------

// Whether a group of lanes can run: it waits neither at a barrier nor for lanes that are elsewhere.
bool group_ready(const struct warp *w, const struct group *g);
// The group to run next, an index into w->groups; -1 if none can.
int pick_group(struct warp *w);
// Runs one basic block of the group at `index`.
void run_block(struct warp *w, int index);
// Runs a warp until it has to wait or its turn is over; whether it moved at all.
bool run_warp(struct warp *w);

// ---- Loops that nobody ends (stuck.c) -----------------------------------------------------------

// The sum of all that the run's warps have done that another could see.
uint64_t effects_of(const struct run *run);
// Whether every warp of a CTA stays where it is as long as the effects of all are `effects`.
bool all_stuck(struct cta *cta, uint64_t effects);
// What a warp in a loop looks at, into its `polls`.
void find_polled(struct warp *w);
// Makes it the CTA's fault that its warps wait for others that never come. ctas: how many have not
// ended and never will; 0: it is this one's own affair.
void fault_stuck(struct cta *cta, uint64_t ctas);

// ---- CTAs (cta.c) -------------------------------------------------------------------------------

// Zeroed, aligned to 64 bytes; aborts if there is no memory.
void *aligned_zeroed(size_t bytes);
// Storage for CTAs of a launch, to be used for one after the other: start_cta before each.
struct cta *new_cta(struct worker *worker);
void start_cta(struct cta *cta, uint64_t number);
void free_cta(struct cta *cta);

enum cta_state { CTA_DONE, CTA_TURN_OVER, CTA_STUCK, CTA_FAULT };
// Gives the warps their turns until they end or the CTA's own turn is over.
enum cta_state run_cta(struct cta *cta);

// ---- Counts (counts_derive.c) -------------------------------------------------------------------

// Adds what the counters of a launch amount to; lines and line_count may be NULL.
void counts_derive(const struct program *program, const struct insn_counts *insns,
                   const struct block_counts *blocks, struct counts *counts,
                   struct line_counts **lines, size_t *line_count);

#endif
