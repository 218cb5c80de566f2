// guard.c: operations that wrap another one: run it under a guard, for some of the lanes, or in
// another rounding; and operations that need every lane.
#include "ops.h"
#include "scalars.h"

#include <fenv.h>

enum { SAVE_BYTES = WARP * 16 };

static size_t plain_bytes(const struct op *op)
{
    return op->plain == 1 ? 4 : (size_t)(op->plain - 1) * WARP;
}

// Restores the registers of inactive lanes. Without a branch for each lane this is a few vector
// instructions.
#define GET_BACK(type)                                                                             \
    for (int i = 0; i < WARP; ++i) {                                                               \
        type kept = (type)(0 - (type)((off & bit[i]) != 0));                                       \
        ((type *)d)[i] = (type)((((type *)d)[i] & ~kept) | (((type *)saved)[i] & kept));           \
    }

void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask)
{
#define FOUR(i) 1u << (i), 2u << (i), 4u << (i), 8u << (i)
    static const uint32_t bit[WARP] = {FOUR(0),  FOUR(4),  FOUR(8),  FOUR(12),
                                       FOUR(16), FOUR(20), FOUR(24), FOUR(28)};
    _Alignas(64) char saved[SAVE_BYTES];
    char *d = r + op->d;
    size_t width = op->plain - 1u;
    uint32_t off = ~mask;
    if (!off) {
        run(w, r, op, mask);
        return;
    }
    memcpy(saved, d, plain_bytes(op));
    run(w, r, op, mask);
    if (!width) {
        *(u32 *)d = (*(u32 *)d & mask) | (*(u32 *)saved & off);
        return;
    }
    switch (width) {
    case 2: GET_BACK(u16); break;
    case 4: GET_BACK(u32); break;
    default: GET_BACK(u64);
    }
}

void guarded_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    uint32_t guard = *(u32 *)(r + op->guard);
    uint32_t on = mask & (op->guard_negated ? ~guard : guard);
    uint32_t off = mask & ~on;
    if (off)
        counts_of(w, op)->lanes_off += off == ~0u ? WARP : (uint64_t)__builtin_popcount(off);
    if (!on)
        return;
    if (op->plain)
        plain_masked(w, r, op, op->inner, on);
    else
        op->inner(w, r, op, on);
}

void rounded_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    op_fn *const *run = op->operands;
    fesetround(modes[op->rounding]);
    (*run)(w, r, op, mask);
    fesetround(FE_TONEAREST);
}

void nothing_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)r, (void)op, (void)mask;
}

bool whole_warp(struct warp *w, const struct op *op, uint32_t mask)
{
    if (mask == ~0u)
        return true;
    fault_at(w, op, __builtin_ctz(mask), FAULT_DIVERGENT_BARRIER,
             "%s with %d of the warp's 32 lanes", w->cta->program->insns[op->insn].opcode,
             __builtin_popcount(mask));
    return false;
}
