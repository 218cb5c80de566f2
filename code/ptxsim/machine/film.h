// film.h: the film of a CTA: everything that its warps did, step by step, to be watched in a page
// (code/film/). Only where PTXSIM_FILM asks for it:
//
//   PTXSIM_FILM=FILE          the CTA (0, 0, 0) of each kernel's first launch, as JSON into FILE
//   PTXSIM_FILM=FILE@x,y,z    another CTA
//   PTXSIM_FILM_VALUES=LINES  with the registers that these source lines write, or store: lines of any
//                             file (164) or of one (04-cp-async.md:164), with commas between
//
// A film is a list of events in the order in which the simulator executed them: a basic block that
// a warp runs, followed by what its instructions did. film.c says how each is written. A CTA that is
// filmed gives its warps turns of one basic block, so that they go on side by side.
#ifndef PTXSIM_FILM_H
#define PTXSIM_FILM_H

#include "film_events.h"
#include "machine.h"

#include <stdio.h>

struct film;
struct trace;

// The film of a CTA that begins, NULL if its storage cannot be had; the films of all kernels that were
// launched, as JSON.
struct film *film_start(const struct cta *cta);
void film_write(FILE *file, const struct film *film);
// What was recorded of an instruction at the time when the film began, as JSON: a matrix's layout.
void film_describe(struct film *film, uint32_t insn, const char *json);

// ---- What happens -------------------------------------------------------------------------------

// A warp's lanes begin a basic block. What follows is of this block until the next one begins.
void film_block(struct film *film, const struct warp *w, uint32_t block, uint32_t mask);
// Only some of the block's lanes execute an instruction, by its guard.
void film_lanes(struct film *film, uint32_t insn, uint32_t mask);
// What an instruction added to its counters.
void film_counts(struct film *film, uint32_t insn, const struct insn_counts *before,
                 const struct insn_counts *after);

enum film_access { FILM_LOAD, FILM_STORE, FILM_ATOMIC, FILM_COPY };
// Bytes of shared memory that lanes name; COPY: a cp.async is issued, and they come later.
void film_shared(struct film *film, uint32_t insn, const uint32_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);
// Of global memory.
void film_global(struct film *film, uint32_t insn, const uint64_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);

// Whether the registers that an instruction writes are asked for; what one of them holds: `values`, a
// value of `bytes` for each lane; 0: a predicate, a bit a lane.
bool film_wants(const struct film *film, uint32_t insn);
void film_value(struct film *film, uint32_t insn, int index, int bytes, uint32_t mask,
                const void *values);

// Lanes come to a barrier and wait; those who wait there go on.
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
// cp.async.commit_group (left -1), or a wait that leaves `left` groups; all: the open one, too.
void film_group(struct film *film, uint32_t insn, int64_t left, bool all);
// A bulk copy of `bytes` to (or from) shared address `at`; its mbarrier and phase.
void film_bulk(struct film *film, uint32_t insn, int lane, uint32_t at, uint32_t bytes,
               uint32_t mbarrier, uint32_t phase, bool store);
// A wgmma reads two stretches of shared memory, the first of them empty if A is in registers.
void film_product(struct film *film, uint32_t insn, const uint32_t from[2], const uint32_t to[2]);

// ---- What is wrong ------------------------------------------------------------------------------

// The other party of the fault that is told next.
void film_party(struct film *film, uint32_t thread, uint32_t at, uint32_t bytes, bool wrote,
                bool pending);
// The other party where both accesses are to global memory: its CTA, and the address.
void film_global_party(struct film *film, const unsigned cta[3], uint32_t thread, uint64_t at,
                       uint32_t bytes, bool wrote);
// A report of the checks, at the place of the film where it was made. insn, other: the instructions of the two
// parties, UINT32_MAX: there is none. A pair of instructions is kept once.
void film_fault(struct film *film, const struct fault *fault, const struct warp *w, int lane,
                uint32_t insn, uint32_t other);

#endif
