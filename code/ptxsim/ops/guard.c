// guard.c: operations around others: under a guard, for some of the lanes, in another rounding; and
// those that want every lane.
#include "ops.h"
#include "scalars.h"

#include <fenv.h>

enum { SAVE_BYTES = WARP * 16 };

static size_t plain_bytes(const struct op *op)
{
    return op->plain == 1 ? 4 : (size_t)(op->plain - 1) * WARP;
}

void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask)
{
    _Alignas(64) char saved[SAVE_BYTES];
    char *d = r + op->d;
    size_t width = op->plain - 1u;
    memcpy(saved, d, plain_bytes(op));
    run(w, r, op, mask);
    uint32_t off = ~mask;
    if (!width) {
        *(u32 *)d = (*(u32 *)d & mask) | (*(u32 *)saved & off);
        return;
    }
    switch (width) {
    case 2:
        for (int i = 0; i < WARP; ++i)
            ((u16 *)d)[i] = off >> i & 1 ? ((u16 *)saved)[i] : ((u16 *)d)[i];
        break;
    case 4:
        for (int i = 0; i < WARP; ++i)
            ((u32 *)d)[i] = off >> i & 1 ? ((u32 *)saved)[i] : ((u32 *)d)[i];
        break;
    default:
        for (int i = 0; i < WARP; ++i)
            ((u64 *)d)[i] = off >> i & 1 ? ((u64 *)saved)[i] : ((u64 *)d)[i];
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
