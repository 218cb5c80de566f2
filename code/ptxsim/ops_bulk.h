// ops_bulk.h: bulk copies, of tensors (TMA) and of bytes, between decode.c, ops_sync.c and
// ops_bulk.c.
#ifndef PTXSIM_OPS_BULK_H
#define PTXSIM_OPS_BULK_H

#include "ops_common.h"

struct bulk_operands {
    bool tensor, store;
    int rank;
    struct bulk_address {
        uint32_t reg;
        int64_t offset;
        bool wide;
    } shared, global, barrier; // global: that of the tensor's map
    uint32_t coordinate[5];
    uint32_t size; // register, if it is no tensor
};

op_fn bulk_op;       // regs: a struct bulk_operands
op_fn bulk_group_op; // imm: groups of stores that may be left by a wait, -1: commit

void bulk_start(struct cta *cta);
void bulk_finish(struct cta *cta); // stores that nobody has waited for
void bulk_destroy(struct cta *cta);
// Copies that are bound to an mbarrier whose phases before `phases` are complete have come.
void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);

#endif
