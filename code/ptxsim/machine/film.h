// film.h: the film of a CTA: everything that its warps did, step by step, to be watched in a page
// (code/film/). Recorded only if PTXSIM_FILM asks for it:
//
//   PTXSIM_FILM=FILE          the CTA (0, 0, 0) of each kernel's first launch, as JSON into FILE
//   PTXSIM_FILM=FILE@x,y,z    another CTA
//   PTXSIM_FILM_VALUES=LINES  with the registers that these source lines write, or store: lines of any
//                             file (164) or of one (04-cp-async.md:164), with commas between
//
// A film is a list of events in the order in which the simulator executed them: a basic block that
// a warp runs, followed by what its instructions did. film.c says how each is written. A CTA that
// is filmed gives its warps turns of one basic block, so that they advance together.
#ifndef PTXSIM_FILM_H
#define PTXSIM_FILM_H

#include "film_events.h"
#include "machine.h"

#include <stdio.h>

struct film;
struct trace;

// The film of a CTA that begins, NULL if there is no memory for it; the films of all launched
// kernels, as JSON.
struct film *film_start(const struct cta *cta);
void film_write(FILE *file, const struct film *film);
// An instruction's description from the beginning of the film, as JSON: a matrix's layout.
void film_describe(struct film *film, uint32_t insn, const char *json);

// ---- What happens -------------------------------------------------------------------------------

// A warp's lanes begin a basic block. The following events belong to it until the next one begins.
void film_block(struct film *film, const struct warp *w, uint32_t block, uint32_t mask);
// Only some of the block's lanes execute an instruction, by its guard.
void film_lanes(struct film *film, uint32_t insn, uint32_t mask);
// What an instruction added to its counters.
void film_counts(struct film *film, uint32_t insn, const struct insn_counts *before,
                 const struct insn_counts *after);

enum film_access { FILM_LOAD, FILM_STORE, FILM_ATOMIC, FILM_COPY };
// Lanes access bytes of shared memory; COPY: a cp.async is issued, whose bytes arrive later.
void film_shared(struct film *film, uint32_t insn, const uint32_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);
// Lanes access global memory.
void film_global(struct film *film, uint32_t insn, const uint64_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);

// Whether an instruction's register values are asked for; the values of one register: `values`,
// `bytes` for each lane; 0: a predicate, a bit for each lane.
bool film_wants(const struct film *film, uint32_t insn);
void film_value(struct film *film, uint32_t insn, int index, int bytes, uint32_t mask,
                const void *values);

// Lanes arrive at a barrier and wait; the waiting ones are released.
void film_arrive(struct film *film, uint32_t insn, unsigned barrier, uint32_t mask,
                 uint32_t expected);
void film_release(struct film *film, unsigned barrier, uint32_t warps);
// An operation (`kind`: enum mbarrier_kind) on the mbarrier at a shared address: what is missing in
// the phase afterwards, and how many phases have ended. A question whether a phase has ended.
struct film_mbarrier {
    uint32_t at, kind, lanes, pending, expected, phases;
    int32_t bytes;
};
void film_mbarrier(struct film *film, uint32_t insn, const struct film_mbarrier *state);
void film_ask(struct film *film, uint32_t insn, uint32_t at, uint32_t lanes, uint32_t passed,
              uint32_t phases);
// cp.async.commit_group (left -1), or a wait that leaves `left` groups; all: the open one is waited
// for, too.
void film_group(struct film *film, uint32_t insn, int64_t left, bool all);
// A bulk copy of `bytes` to (or from) shared address `at`; its mbarrier and phase.
void film_bulk(struct film *film, uint32_t insn, int lane, uint32_t at, uint32_t bytes,
               uint32_t mbarrier, uint32_t phase, bool store);
// A wgmma reads two stretches of shared memory, the first of them empty if A is in registers.
void film_product(struct film *film, uint32_t insn, const uint32_t from[2], const uint32_t to[2]);

// ---- What is wrong ------------------------------------------------------------------------------

// The other party of the next fault.
void film_party(struct film *film, uint32_t thread, uint32_t at, uint32_t bytes, bool wrote,
                bool pending);
// The other party if both accesses are to global memory: its CTA, and the address.
void film_global_party(struct film *film, const unsigned cta[3], uint32_t thread, uint64_t at,
                       uint32_t bytes, bool wrote);
// A report of the checks, at the event of the film where it was made. insn, other: the instructions
// of the two parties, UINT32_MAX: none. A pair of instructions is kept once.
void film_fault(struct film *film, const struct fault *fault, const struct warp *w, int lane,
                uint32_t insn, uint32_t other);

#endif
