// mbarrier.h: an mbarrier: its 64-bit object in shared memory, and what race checks and copies need
// to know beyond it. Shared by mbarrier.c, sync.c (the operations) and bulk.c.
#ifndef PTXSIM_MBARRIER_H
#define PTXSIM_MBARRIER_H

#include "ops.h"

// The object in shared memory, opaque to programs: arrivals expected in a phase (20 bits), arrivals
// missing in this phase (20), the phase's parity (1), bytes missing in this phase (23, signed).
struct mbarrier_state {
    uint32_t expected, pending, parity;
    int32_t bytes;
};

static inline uint64_t mbarrier_pack(struct mbarrier_state s)
{
    return (uint64_t)s.expected | (uint64_t)s.pending << 20 | (uint64_t)s.parity << 40 |
           (uint64_t)(uint32_t)s.bytes << 41;
}

static inline struct mbarrier_state mbarrier_unpack(uint64_t word)
{
    return (struct mbarrier_state){.expected = word & 0xfffff,
                                   .pending = word >> 20 & 0xfffff,
                                   .parity = word >> 40 & 1,
                                   .bytes = (int32_t)((int64_t)word >> 41)};
}

struct meeting {         // what is known of an mbarrier beyond its object
    uint32_t at, phases; // its shared address; how many phases are complete
    // For race checks, the sources (races.h) of writes that complete on the mbarrier; 0: none yet.
    // loads: the source of bulk loads and st.async. copies: the sources of cp.async, one for each
    // parity of the phase, since a copy of the current phase may arrive before those of the
    // previous phase.
    uint32_t loads, copies[2];
    // What the threads that have arrived know: in this phase, and in all earlier phases.
    struct clock *pending, *complete;
};

// The meeting of the mbarrier at a shared address. The pointer is valid until the next call.
struct meeting *meeting_at(struct cta *cta, uint32_t at);

// The CTA whose shared memory holds a lane's mbarrier; *at: the mbarrier's address there. NULL
// after a fault. starts: the operation initialises the mbarrier, whose bytes may be unwritten.
struct cta *mbarrier_home(struct warp *w, const struct op *op, int lane, uint64_t wide, bool starts,
                          uint32_t *at);

// Adds `more` to the bytes that the phase still lacks. Returns false after a fault: the sum, or its
// negative, would be more than 2^20 - 1 (PTX ISA, "Tracking asynchronous operations by the mbarrier
// object").
bool mbarrier_expect(struct warp *w, const struct op *op, int lane, uint32_t at,
                     struct mbarrier_state *s, int64_t more);

// Ends the phase if nothing is missing in it.
void mbarrier_settle(struct cta *cta, struct meeting *m, struct mbarrier_state *s);

// For a film: records the state of the mbarrier after an operation on it.
void film_state(struct cta *cta, const struct op *op, enum mbarrier_kind kind, uint32_t lanes,
                const struct meeting *m, const struct mbarrier_state *s);

// Subtracts the bytes of a bulk copy, st.async or red.async from those that the mbarrier at
// `address`, in the shared memory of `home`, expects. *meeting gets the mbarrier's number, *phase
// the phase that counts these bytes. False after a fault.
bool mbarrier_bind(struct warp *w, const struct op *op, int lane, struct cta *home,
                   uint64_t address, uint32_t bytes, uint32_t *meeting, uint32_t *phase);

// meetings_start: forgets the mbarriers of the previous CTA. meetings_destroy: frees the storage.
void meetings_start(struct cta *cta);
void meetings_destroy(struct cta *cta);

#endif
