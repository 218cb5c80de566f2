// ops_sync.h: what decode.c and exec.c need of ops_sync.c.
#ifndef PTXSIM_OPS_SYNC_H
#define PTXSIM_OPS_SYNC_H

#include "ops_common.h"

op_fn copy_async_op; // regs: a struct copy_operands; bytes
op_fn copy_group_op; // imm: groups that may be left by a wait, -1: commit; target: the open one too
op_fn mbarrier_op;   // regs: a struct mbarrier_operands; target: enum mbarrier_kind
op_fn mbarrier_pending_op;
op_fn fence_op, proxy_fence_op, nanosleep_op;

struct copy_operands {
    uint32_t to, from, size, ignore; // registers; the last two or NO_REGISTER
    int64_t to_offset, from_offset;
    bool to_wide, from_wide;
};

enum mbarrier_kind {
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT,
    MBARRIER_DROP,
    MBARRIER_DROP_EXPECT,
    MBARRIER_EXPECT,
    MBARRIER_COMPLETE,
    MBARRIER_COPIES, // cp.async.mbarrier.arrive
    MBARRIER_WAIT,
};
struct mbarrier_operands {
    uint32_t operand; // count, bytes, parity or state; or NO_REGISTER
    uint32_t result;  // the state; or NO_REGISTER
    bool parity, no_increment;
};

// The bytes of a bulk copy are taken off the mbarrier at `address`; it gets the number of the mbarrier
// and of the phase that it completes with. False after a fault.
bool mbarrier_bind(struct warp *w, const struct op *op, int lane, uint64_t address, uint32_t bytes,
                   uint32_t *meeting, uint32_t *phase);

void sync_start(struct cta *cta);
void sync_finish(struct cta *cta); // every warp has ended; may fault
void sync_destroy(struct cta *cta);
void mbarrier_describe(const struct cta *cta, uint32_t at, char *text, size_t size);

#endif
