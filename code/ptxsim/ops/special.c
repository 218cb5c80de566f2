// special.c: special registers.
#include "image/gpus.h"
#include "ops.h"
#include "scalars.h"

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
                                             "%envreg2",
                                             "%cluster_ctaid.x",
                                             "%cluster_ctaid.y",
                                             "%cluster_ctaid.z",
                                             "%cluster_nctaid.x",
                                             "%cluster_nctaid.y",
                                             "%cluster_nctaid.z",
                                             "%clusterid.x",
                                             "%clusterid.y",
                                             "%clusterid.z",
                                             "%nclusterid.x",
                                             "%nclusterid.y",
                                             "%nclusterid.z",
                                             "%cluster_ctarank",
                                             "%cluster_nctarank",
                                             "%is_explicit_cluster"};

// The clocks count instructions, since the simulator has no time. An instruction of the warp counts
// for some cycles, so that a loop that waits for a number of cycles ends soon. A warp never reads
// less than another warp of its CTA has read before. All values are the same in every run. A warp
// that does nothing but read the clock waits: after some reads, each further read advances the
// clock by a part of the time that the wait has lasted.
enum { CYCLES_INSTRUCTION = 16, PATIENT_LOOKS = 16, PART_OF_WAIT = 8 };

static uint64_t read_clock(struct warp *w, const struct op *op)
{
    // The block that is running.
    const struct basic_block *block = &w->cta->program->blocks[w->next - 1];
    uint64_t ran = (w->instructions + op->insn - block->insn) * CYCLES_INSTRUCTION;
    uint64_t effects = atomic_load_explicit(&w->cta->worker->effects, memory_order_relaxed);
    if (w->look.effects != effects || !w->look.count) {
        w->look.effects = effects;
        w->look.count = 0;
        w->look.since = ran + w->look.ahead;
    }
    if (++w->look.count > PATIENT_LOOKS)
        w->look.ahead += (ran + w->look.ahead - w->look.since) / PART_OF_WAIT;
    uint64_t now = ran + w->look.ahead;
    if (now < w->cta->clock) { // another warp has read a later time: go on from that
        w->look.ahead += w->cta->clock - now;
        w->look.since += w->cta->clock - now;
    }
    return w->cta->clock = ran + w->look.ahead;
}

static bool is_clock(int64_t which)
{
    return which >= SPECIAL_CLOCK && which <= SPECIAL_GLOBALTIMER_HI;
}

// Where the system's part of shared memory begins. On a GPU, this part lies before the CTA's own;
// in the simulator after it, and only in programs that read its address (exec/launch.c).
static uint64_t reserved_begin(const struct cta *cta)
{
    return cta->shared_bytes - (cta->program->asks_reserved ? RESERVED_SHARED_BYTES : 0);
}

static const struct gpu *gpu_of(const struct launch *launch)
{
    return launch->gpu ? launch->gpu : &gpus[GPU_L4];
}

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
    case SPECIAL_NWARPID: return (unsigned)gpu_of(launch)->threads_sm / WARP;
    case SPECIAL_SMID: return cta->number % (unsigned)gpu_of(launch)->sms;
    case SPECIAL_NSMID: return (unsigned)gpu_of(launch)->sms;
    case SPECIAL_GRIDID: return 1;
    case SPECIAL_LANEMASK_EQ: return bit;
    case SPECIAL_LANEMASK_LE: return bit | (bit - 1);
    case SPECIAL_LANEMASK_LT: return bit - 1;
    case SPECIAL_LANEMASK_GE: return ~(bit - 1);
    case SPECIAL_LANEMASK_GT: return ~(bit | (bit - 1));
    case SPECIAL_DYNAMIC_SMEM_SIZE: return launch->dynamic_shared_bytes;
    case SPECIAL_TOTAL_SMEM_SIZE: return (reserved_begin(cta) + 127) & ~(uint64_t)127;
    case SPECIAL_RESERVED_SMEM_CAP: return GPU_SHARED_RESERVED;
    case SPECIAL_RESERVED_SMEM_END: return reserved_begin(cta) + RESERVED_SHARED_BYTES;
    case SPECIAL_RESERVED_SMEM_BEGIN:
    case SPECIAL_RESERVED_SMEM_0:
    case SPECIAL_RESERVED_SMEM_1: return reserved_begin(cta);
    case SPECIAL_ENVREG1: return launch->grid_memory >> 32; // cooperative groups read this register
    case SPECIAL_ENVREG2: return (uint32_t)launch->grid_memory;
    case SPECIAL_CLUSTER_CTARANK: return (uint64_t)cta->rank;
    case SPECIAL_CLUSTER_NCTARANK: return (uint64_t)cluster_size(cta);
    }
    if (which >= SPECIAL_CLUSTER_CTAID_X && which <= SPECIAL_NCLUSTERID_Z) {
        int side = (which - SPECIAL_CLUSTER_CTAID_X) % 3;
        unsigned shape = cta->cluster ? cta->cluster->shape[side] : 1;
        switch (which - side) {
        case SPECIAL_CLUSTER_CTAID_X: return cta->index[side] % shape;
        case SPECIAL_CLUSTER_NCTAID_X: return shape;
        case SPECIAL_CLUSTERID_X: return cta->index[side] / shape;
        default: return launch->grid[side] / shape;
        }
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
    if (is_clock(op->imm)) {
        bool high = op->imm == SPECIAL_CLOCK_HI || op->imm == SPECIAL_GLOBALTIMER_HI;
        uint64_t now = read_clock(w, op) >> (high ? 32 : 0);
        for (int i = 0; i < WARP; ++i)
            if (op->width == 4)
                ((uint32_t *)(void *)(r + op->d))[i] = (uint32_t)now;
            else
                ((uint64_t *)(void *)(r + op->d))[i] = now;
        return;
    }
    if (op->imm == SPECIAL_IS_EXPLICIT_CLUSTER) {
        const struct launch *launch = w->cta->launch;
        bool asked = launch->cluster[0] || w->cta->program->kernel->info.cluster[0];
        *(u32 *)(r + op->d) = asked ? ~0u : 0;
        return;
    }
    for (int i = 0; i < WARP; ++i) {
        uint64_t value = special(w, (int)op->imm, i);
        memcpy(r + op->d + (size_t)i * op->width, &value, op->width);
    }
}
