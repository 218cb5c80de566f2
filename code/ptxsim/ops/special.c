// special.c: special registers.
#include "ops.h"
#include "scalars.h"

#include <time.h>

const char *const special_names[SPECIALS] = {"%tid.x",
                                             "%tid.y",
                                             "%tid.z",
                                             "%ntid.x",
                                             "%ntid.y",
                                             "%ntid.z",
                                             "%ctaid.x",
                                             "%ctaid.y",
                                             "%ctaid.z",
                                             "%nctaid.x",
                                             "%nctaid.y",
                                             "%nctaid.z",
                                             "%laneid",
                                             "%warpid",
                                             "%nwarpid",
                                             "%smid",
                                             "%nsmid",
                                             "%gridid",
                                             "%lanemask_eq",
                                             "%lanemask_le",
                                             "%lanemask_lt",
                                             "%lanemask_ge",
                                             "%lanemask_gt",
                                             "%clock",
                                             "%clock_hi",
                                             "%clock64",
                                             "%globaltimer",
                                             "%globaltimer_lo",
                                             "%globaltimer_hi",
                                             "%dynamic_smem_size",
                                             "%total_smem_size",
                                             "%reserved_smem_offset_begin",
                                             "%reserved_smem_offset_end",
                                             "%reserved_smem_offset_cap",
                                             "%reserved_smem_offset_0",
                                             "%reserved_smem_offset_1",
                                             "%envreg1",
                                             "%envreg2"};

// A clock counts the warp's own basic blocks: it grows, and is the same in every run.
static uint64_t special(const struct warp *w, int which, int lane)
{
    const struct cta *cta = w->cta;
    const struct launch *launch = cta->launch;
    uint32_t bit = 1u << lane;
    switch (which) {
    case SPECIAL_TID_X:
    case SPECIAL_TID_Y:
    case SPECIAL_TID_Z: return w->tid[which - SPECIAL_TID_X][lane];
    case SPECIAL_NTID_X:
    case SPECIAL_NTID_Y:
    case SPECIAL_NTID_Z: return launch->block[which - SPECIAL_NTID_X];
    case SPECIAL_CTAID_X:
    case SPECIAL_CTAID_Y:
    case SPECIAL_CTAID_Z: return cta->index[which - SPECIAL_CTAID_X];
    case SPECIAL_NCTAID_X:
    case SPECIAL_NCTAID_Y:
    case SPECIAL_NCTAID_Z: return launch->grid[which - SPECIAL_NCTAID_X];
    case SPECIAL_LANEID: return (uint64_t)lane;
    case SPECIAL_WARPID: return (uint64_t)w->index;
    case SPECIAL_NWARPID: return 48;
    case SPECIAL_SMID: return cta->number % 58; // an L4's
    case SPECIAL_NSMID: return 58;
    case SPECIAL_GRIDID: return 1;
    case SPECIAL_LANEMASK_EQ: return bit;
    case SPECIAL_LANEMASK_LE: return bit | (bit - 1);
    case SPECIAL_LANEMASK_LT: return bit - 1;
    case SPECIAL_LANEMASK_GE: return ~(bit - 1);
    case SPECIAL_LANEMASK_GT: return ~(bit | (bit - 1));
    case SPECIAL_CLOCK: return (uint32_t)(w->turns * 16);
    case SPECIAL_CLOCK_HI: return w->turns * 16 >> 32;
    case SPECIAL_CLOCK64:
    case SPECIAL_GLOBALTIMER: return w->turns * 16;
    case SPECIAL_GLOBALTIMER_LO: return (uint32_t)(w->turns * 16);
    case SPECIAL_GLOBALTIMER_HI: return w->turns * 16 >> 32;
    case SPECIAL_DYNAMIC_SMEM_SIZE: return launch->dynamic_shared_bytes;
    case SPECIAL_TOTAL_SMEM_SIZE:
    case SPECIAL_RESERVED_SMEM_BEGIN: // of no bytes, behind the CTA's own
    case SPECIAL_RESERVED_SMEM_END:
    case SPECIAL_RESERVED_SMEM_CAP:
    case SPECIAL_RESERVED_SMEM_0:
    case SPECIAL_RESERVED_SMEM_1: return cta->shared_bytes;
    case SPECIAL_ENVREG1: return launch->grid_memory >> 32; // as cooperative groups look for it
    case SPECIAL_ENVREG2: return (uint32_t)launch->grid_memory;
    }
    return 0;
}

void special_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)mask;
    if (op->imm <= SPECIAL_TID_Z && op->width == 4) {
        memcpy(r + op->d, w->tid[op->imm], sizeof w->tid[0]);
        return;
    }
    for (int i = 0; i < WARP; ++i) {
        uint64_t value = special(w, (int)op->imm, i);
        memcpy(r + op->d + (size_t)i * op->width, &value, op->width);
    }
}
