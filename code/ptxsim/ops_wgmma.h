// ops_wgmma.h: products of a warpgroup, between decode.c, ops_wgmma.c and the instruction sets.
#ifndef PTXSIM_OPS_WGMMA_H
#define PTXSIM_OPS_WGMMA_H

#include "ops_common.h"

enum { WGMMA_N = 256, WGMMA_K = 32, WARPGROUP_WARPS = 4 };

struct wgmma {
    enum matrix_type a_type, b_type, d_type;
    int n, k;
    uint32_t a[4], a_desc, b_desc; // registers; a_desc NO_REGISTER: A is in registers
    uint32_t scale_d;              // predicate
    bool negate_a, negate_b, transposed_a, transposed_b;
    int d_count;
    uint32_t d[WGMMA_N / 2];
    int words;
    const uint64_t *d_set, *a_set; // `words` of them, as in struct watch
    // The product of a warp's 16 rows, for each instruction set. a: [16][WGMMA_K] of bytes or
    // halves; b: [n][WGMMA_K], columns of B; d: the registers' frame.
    void (*product)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
};

// What a stretch of instructions does to registers that wgmma uses: sets of a bit each, by the
// numbers that the decoder gave to them.
struct watch {
    int words;
    uint64_t *touched, *written; // accumulators that are read or written; all that are written
    int count;
    struct watch_use {
        int number;
        uint32_t insn;
    } * uses; // of accumulators
};

op_fn watch_op;       // regs: a struct watch
op_fn wgmma_op;       // issue; regs: a struct wgmma
op_fn wgmma_group_op; // imm: groups that may be left by a wait, -1: commit
op_fn wgmma_fence_op;
op_fn setmaxnreg_op; // imm: the count; target: whether it takes more

void wgmma_start(struct cta *cta);
void wgmma_finish(struct cta *cta); // the CTA has ended: did all warps of each warpgroup take part?
void wgmma_destroy(struct cta *cta);

#endif
