// film.h: the film of a CTA: everything that its warps did, step by step, to be watched in a page
// (code/film/). Recorded only if PTXSIM_FILM asks for it:
//
//   PTXSIM_FILM=FILE          the CTA (0, 0, 0) of each kernel's first launch, as JSON into FILE
//   PTXSIM_FILM=FILE@x,y,z    another CTA
//   PTXSIM_FILM_VALUES=LINES  with the values of registers that these source lines write, or store:
//                             a line of any file (164) or of one file (04-cp-async.md:164), commas between
//
// A film is a list of events in the order in which the simulator executed them: a basic block that
// a warp runs, followed by what its instructions did. film.c describes the rows of the list. The
// warps of a filmed CTA take turns of one basic block each, so that they advance together.
#ifndef PTXSIM_FILM_H
#define PTXSIM_FILM_H

#include "film_events.h"
#include "machine.h"

#include <stdio.h>

struct film;
struct trace;

// film_start: the film of a CTA that begins, NULL if there is no memory for it. film_write: writes
// one film as JSON.
struct film *film_start(const struct cta *cta);
void film_write(FILE *file, const struct film *film);
// Adds JSON that describes an instruction, such as a matrix's layout, to the head of the film.
void film_describe(struct film *film, uint32_t insn, const char *json);

// ---- What happens -------------------------------------------------------------------------------

// A warp's lanes begin a basic block. The following events belong to it until the next one begins.
void film_block(struct film *film, const struct warp *w, uint32_t block, uint32_t mask);
// The guard of an instruction holds for these lanes of the block only.
void film_lanes(struct film *film, uint32_t insn, uint32_t mask);
// What an instruction added to its counters: their values before and after it.
void film_counts(struct film *film, uint32_t insn, const struct insn_counts *before,
                 const struct insn_counts *after);

enum film_access { FILM_LOAD, FILM_STORE, FILM_ATOMIC, FILM_COPY };
// Lanes access bytes of shared memory; COPY: a cp.async is issued, whose bytes arrive later.
void film_shared(struct film *film, uint32_t insn, const uint32_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);
// Lanes access global memory.
void film_global(struct film *film, uint32_t insn, const uint64_t at[WARP], int bytes,
                 uint32_t mask, enum film_access access);

// film_wants: whether the film shows the register values of an instruction. film_value: the values
// of one register, `bytes` for each lane; bytes 0: a predicate, a bit for each lane.
bool film_wants(const struct film *film, uint32_t insn);
void film_value(struct film *film, uint32_t insn, int index, int bytes, uint32_t mask,
                const void *values);

// film_arrive: lanes arrive at a barrier and wait. film_release: the barrier releases the lanes
// that wait.
void film_arrive(struct film *film, uint32_t insn, unsigned barrier, uint32_t mask,
                 uint32_t expected);
void film_release(struct film *film, unsigned barrier, uint32_t warps);
// film_mbarrier: an operation (`kind`: enum mbarrier_kind) on the mbarrier at a shared address,
// with what is missing in its phase afterwards, and how many phases have ended. film_ask: a test
// whether a phase has ended.
struct film_mbarrier {
    uint32_t at, kind, lanes, pending, expected, phases;
    int32_t bytes;
};
void film_mbarrier(struct film *film, uint32_t insn, const struct film_mbarrier *state);
void film_ask(struct film *film, uint32_t insn, uint32_t at, uint32_t lanes, uint32_t passed,
              uint32_t phases);
// A group of cp.async, bulk stores or wgmma is committed (left: -1), or a warp waits until at most
// `left` groups are under way. all: whether the wait includes the group that is still open.
void film_group(struct film *film, uint32_t insn, int64_t left, bool all);
// A bulk copy of `bytes` to shared address `at`, with its mbarrier and phase; or, if `store`, a
// bulk store from that address, with mbarrier 0 and its group as `phase`.
void film_bulk(struct film *film, uint32_t insn, int lane, uint32_t at, uint32_t bytes,
               uint32_t mbarrier, uint32_t phase, bool store);
// A wgmma reads two ranges of shared memory, A's and B's; A's range is empty if A is in registers.
void film_product(struct film *film, uint32_t insn, const uint32_t from[2], const uint32_t to[2]);

// ---- What is wrong ------------------------------------------------------------------------------

// Records the other access of the fault that is reported next.
void film_party(struct film *film, uint32_t thread, uint32_t at, uint32_t bytes, bool wrote,
                bool pending);
// Records the other access where both are to global memory: its CTA, and the address.
void film_global_party(struct film *film, const unsigned cta[3], uint32_t thread, uint64_t at,
                       uint32_t bytes, bool wrote);
// Adds a report of the checks, at the event of the film where it was made. insn, other: the instructions of the two
// accesses; UINT32_MAX: none. For each kind of fault, a pair of instructions is kept once.
void film_fault(struct film *film, const struct fault *fault, const struct warp *w, int lane,
                uint32_t insn, uint32_t other);

#endif
