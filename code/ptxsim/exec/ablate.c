// ablate.c: runs the basic blocks of a CTA of which some executions are spoiled (struct ablation), to learn
// whether what they do is used. A launch without an ablation does not run this file.
//
// What is spoiled stays finite: of what is not used, a NaN would come through a product with 0. And a spoiled
// value always differs from what it was, unless both are zeros of different sign.
#include "exec.h"

#include "ptxsim/ops/address.h"
#include "ptxsim/ops/async.h"
#include "ptxsim/ops/scalars.h"

#include <string.h>

static bool is_chosen(const struct ablation *a, uint64_t execution)
{
    bool chosen = false;
    for (int i = 0; i < a->count; ++i)
        chosen |= a->chosen[i] == execution;
    return chosen;
}

static bool is_product(const struct op *op)
{
    return op->family == FAMILY_PRODUCT || op->family == FAMILY_SPARSE_PRODUCT;
}

static void spoil_product(char *r, const struct op *op)
{
    const struct matrix *d = &((const struct mma *)op->operands)->d;
    const bool half = d->type == MATRIX_F16 || d->type == MATRIX_BF16;
    const bool real = half || d->type == MATRIX_F32 || d->type == MATRIX_F64;
    const uint32_t turned = half ? 0x80008000 : real ? 0x80000000 : UINT32_MAX;

    for (int i = 0; i < d->distinct; ++i) {
        if (d->regs[i] == NO_REGISTER)
            continue;
        u32 *words = (u32 *)(r + d->regs[i]);
        for (int k = 0; k < WARP; ++k)
            words[d->bytes > 4 ? 2 * k + 1 : k] ^=
                turned; // of 8 bytes the upper four have the sign
    }
}

// Lanes whose address is in global memory.
static uint32_t global_lanes(const char *r, const struct op *op, uint32_t address, int64_t offset,
                             uint32_t mask)
{
    uint32_t lanes = 0;
    if (op->space == SPACE_GLOBAL)
        return mask;
    for (uint32_t left = op->space == SPACE_GENERIC ? mask : 0; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t at = address_in(r, address, op->wide_address, offset, i);
        lanes |= (uint32_t)(at >> WINDOW_SHIFT == 0) << i;
    }
    return lanes;
}

static void run_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (op->plain && !op->inner && (mask != w->alive || w->loop.careful))
        plain_masked(w, r, op, op->run, mask);
    else if (mask)
        op->run(w, r, op, mask);
}

// Lanes of `mask` for which an operation's guard holds.
static uint32_t guarded(const char *r, const struct op *op, uint32_t mask)
{
    if (op->run != guarded_op)
        return mask;
    uint32_t guard = *(const u32 *)(r + op->guard);
    return mask & (op->guard_negated ? ~guard : guard);
}

// An atomic operation that is spoiled. global: its lanes in global memory, of those that run it (`mask`). An update that
// is left out, or made twice, may do no harm where the result is asked for: a queue gives a number twice, or wraps.
static void spoil_atomic(struct warp *w, char *r, const struct op *op, uint32_t mask,
                         uint32_t global)
{
    bool returns = op->regs[0] != NO_REGISTER;

    run_op(w, r, op, returns ? mask : mask & ~global);
    for (uint32_t left = returns ? global : 0; left; left &= left - 1) {
        uint8_t *result = (uint8_t *)r + op->regs[0] + (size_t)__builtin_ctz(left) * op->width;
        for (int k = 0; k < op->width; ++k)
            result[k] ^= 0xff;
    }
}

// A copy or a product that is put on a list when it is issued; spoiled there.
static void spoil_issued(struct warp *w, char *r, const struct op *op, uint32_t mask, bool chosen)
{
    size_t bulk[CLUSTER_MOST], products = wgmma_open(w), copies = copies_open(w);

    bulk_open(w, bulk);
    run_op(w, r, op, mask);
    if (chosen && op->family == FAMILY_WGMMA)
        wgmma_spoil(w, products);
    else if (chosen && op->family == FAMILY_BULK)
        bulk_spoil(w, bulk);
    else if (chosen)
        copies_spoil(w, copies);
}

// Whether the executions of an operation are those that are counted.
static bool is_issued(const struct op *op, enum spoils what)
{
    if (what == SPOIL_PRODUCTS)
        return op->family == FAMILY_WGMMA;
    return what == SPOIL_COPIES &&
           (op->family == FAMILY_COPY || (op->family == FAMILY_BULK && bulk_loads(op)));
}

static void ablate_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct ablation *a = w->cta->launch->ablation;
    const uint32_t on = guarded(r, op, mask);
    const bool stores = w->cta->program->insns[op->insn].store;
    uint32_t global;

    if (a->what == SPOIL_PRODUCTS && is_product(op) && on) {
        run_op(w, r, op, mask);
        if (is_chosen(a, a->executions++))
            spoil_product(r, op);
    } else if (is_issued(op, a->what) && on) {
        spoil_issued(w, r, op, mask, is_chosen(a, a->executions++));
    } else if (a->what == SPOIL_ATOMICS && op->family == FAMILY_ATOMIC &&
               (global = global_lanes(r, op, op->a, op->imm, on)) != 0) {
        if (is_chosen(a, a->executions++))
            spoil_atomic(w, r, op, mask, global);
        else
            run_op(w, r, op, mask);
    } else if (a->what == SPOIL_STORES && stores && is_chosen(a, w->cta->stores)) {
        run_op(w, r, op, mask & ~global_lanes(r, op, op->a, op->imm, on));
    } else {
        run_op(w, r, op, mask);
    }
}

void run_ablated(struct warp *w, char *r, const struct basic_block *b, uint32_t mask)
{
    for (const struct op *op = &w->cta->program->ops[b->first], *end = op + b->count; op < end;
         ++op)
        ablate_op(w, r, op, mask);
}
