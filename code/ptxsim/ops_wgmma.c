// ops_wgmma.c: products of a warpgroup (wgmma), and setmaxnreg.
//
// Four warps issue the same instruction; each of them makes 16 of the 64 rows of D from its rows of
// A and the whole of B, so that each warp can be followed for itself. A wgmma only notes what it
// is to do. The product is made at the wait_group that waits for it, and that is when its operands in
// shared memory are read for good, and when its D appears: a missing wait computes with the old
// values, and an operand that is overwritten before the wait is read overwritten. The machine may be
// as late as that. A in registers is taken at the issue.
//
// Where an element of an operand in shared memory lies follows the descriptor: rows of eight times 16
// bytes without a swizzle, else of eight times the swizzle's span; the swizzle exchanges the
// 16-byte pieces by bits of their address.
#include "ops_wgmma.h"
#include "races.h"

#include "scalars.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 32 }; // of k, in every type

struct products { // of a warp
    uint32_t open;
    size_t count, capacity;
    struct pending {
        const struct op *op;
        uint64_t a_desc, b_desc;
        uint32_t frame, group;
        bool add;
        uint32_t a[4][WARP];
    } * list;
};

static struct products *products_of(struct warp *w)
{
    if (!w->products)
        w->products = calloc(1, sizeof *w->products);
    if (!w->products)
        abort();
    return w->products;
}

void wgmma_start(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i)
        if (cta->warp[i].products)
            cta->warp[i].products->count = 0;
}

void wgmma_destroy(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i) {
        if (cta->warp[i].products)
            free(cta->warp[i].products->list);
        free(cta->warp[i].products);
        cta->warp[i].products = NULL;
    }
}

// ---- Operands in shared memory ------------------------------------------------------------------

struct layout { // of a descriptor
    uint32_t start, leading, stride, base;
    uint32_t span; // of the swizzle: 0, 32, 64, 128
};

static struct layout unpack_descriptor(uint64_t d)
{
    static const uint8_t spans[] = {0, 128, 64, 32};
    return (struct layout){.start = (uint32_t)(d & 0x3fff) << 4,
                           .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                           .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                           .base = (uint32_t)(d >> 49 & 7),
                           .span = spans[d >> 62]};
}

static uint32_t swizzled(const struct layout *l, uint32_t at)
{
    uint32_t row = (at >> 7) - l->base;
    return l->span ? at ^ (row & (l->span / 16 - 1)) << 4 : at;
}

// Where 16 bytes lie: eight halves or 16 bytes along k from `k` on in row `row` (a column of B), or,
// transposed, eight halves along the rows from `row` on at one k.
static uint32_t piece_at(const struct layout *l, bool transposed, int row, int k, int size)
{
    uint32_t r = (uint32_t)row, along = (uint32_t)(k * size), pitch = l->span ? l->span : 16;
    uint32_t at = l->start;
    if (!transposed) {
        at += r % 8 * pitch + r / 8 * l->stride;
        at += l->span ? along : along / 16 * l->leading;
    } else {
        uint32_t wide = pitch / 2, across = (uint32_t)k; // halves that lie side by side
        at += r % wide * 2 + across % 8 * pitch;
        at += l->span ? r / wide * l->leading + across / 8 * l->stride
                      : r / wide * l->stride + across / 8 * l->leading;
    }
    return swizzled(l, at);
}

// Checks a piece and, if `to` is not NULL, copies it there.
static bool take_piece(struct warp *w, const struct op *op, uint32_t at, void *to)
{
    struct cta *cta = w->cta;
    bool good = at + (uint64_t)16 <= cta->shared_bytes;
    if (!good || (cta->written && !written_all(cta->written, at, 16))) {
        fault_shared(w, op, 0, at, 16, false);
        if (!good)
            return false;
    }
    if (cta->races)
        race_shared(w, op, ~0u, at, 16, RACE_READ, NULL);
    if (to)
        memcpy(to, cta->shared + at, 16);
    return true;
}

// Rows first … first + count - 1 of an operand, ROW_BYTES each; NULL: checks only.
static bool take_rows(struct warp *w, const struct op *op, uint64_t descriptor, bool transposed,
                      int first, int count, int size, uint8_t *to)
{
    struct layout l = unpack_descriptor(descriptor);
    if (!transposed) {
        for (int i = 0; i < count; ++i)
            for (int part = 0; part < 2; ++part)
                if (!take_piece(w, op, piece_at(&l, false, first + i, 16 / size * part, size),
                                to ? to + i * ROW_BYTES + 16 * part : NULL))
                    return false;
        return true;
    }
    for (int k = 0; k < ROW_BYTES / 2; ++k)
        for (int i = 0; i < count; i += 8) {
            uint16_t piece[8];
            if (!take_piece(w, op, piece_at(&l, true, first + i, k, 2), to ? piece : NULL))
                return false;
            for (int e = 0; e < 8 && to; ++e)
                memcpy(to + (i + e) * ROW_BYTES + 2 * k, &piece[e], 2);
        }
    return true;
}

// ---- Issue and wait -----------------------------------------------------------------------------

static bool whole_warp(struct warp *w, const struct op *op, uint32_t mask)
{
    if (mask == ~0u)
        return true;
    fault_at(w, op, __builtin_ctz(mask), FAULT_DIVERGENT_BARRIER,
             "%s with %d of the warp's 32 lanes", w->cta->program->insns[op->insn].opcode,
             __builtin_popcount(mask));
    return false;
}

static int element_bytes(const struct wgmma *t)
{
    return ROW_BYTES / t->k;
}

static bool same_lanes(struct warp *w, const struct op *op, const u64 *descriptor)
{
    for (int i = 1; i < WARP; ++i)
        if (descriptor[i] != descriptor[0]) {
            fault_at(w, op, i, FAULT_TRAP, "%s with a descriptor that differs between lanes",
                     w->cta->program->insns[op->insn].opcode);
            return false;
        }
    return true;
}

void wgmma_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct wgmma *t = (const struct wgmma *)op->regs;
    struct products *products = products_of(w);
    struct pending p = {
        .op = op, .frame = (uint32_t)(r - w->file), .group = products->open, .add = true};
    if (!whole_warp(w, op, mask) || !same_lanes(w, op, (const u64 *)(r + t->b_desc)) ||
        (t->a_desc != NO_REGISTER && !same_lanes(w, op, (const u64 *)(r + t->a_desc))))
        return;
    uint32_t scale = *(const u32 *)(r + t->scale_d);
    if (scale && ~scale) {
        fault_at(w, op, 0, FAULT_TRAP, "%s with a scale-d that differs between lanes",
                 w->cta->program->insns[op->insn].opcode);
        return;
    }
    p.add = scale != 0;
    p.b_desc = *(const u64 *)(r + t->b_desc);
    if (t->a_desc == NO_REGISTER) {
        for (int i = 0; i < 4; ++i)
            memcpy(p.a[i], r + t->a[i], sizeof p.a[i]);
    } else {
        p.a_desc = *(const u64 *)(r + t->a_desc);
        if (!take_rows(w, op, p.a_desc, t->transposed_a, w->index % 4 * 16, 16, element_bytes(t),
                       NULL))
            return;
    }
    if (!take_rows(w, op, p.b_desc, t->transposed_b, 0, t->n, element_bytes(t), NULL))
        return;
    products->list = array_grow(products->list, products->count, &products->capacity, sizeof p);
    products->list[products->count++] = p;
    note_effect(w);
}

static void finish(struct warp *w, const struct pending *p)
{
    const struct wgmma *t = (const struct wgmma *)p->op->regs;
    _Alignas(64) uint8_t a[16][ROW_BYTES], b[WGMMA_N][ROW_BYTES];
    if (t->a_desc == NO_REGISTER) {
        for (int i = 0; i < 4; ++i) // registers go down the rows, then along k
            for (int lane = 0; lane < WARP; ++lane)
                memcpy(&a[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16], &p->a[i][lane], 4);
    } else if (!take_rows(w, p->op, p->a_desc, t->transposed_a, w->index % 4 * 16, 16,
                          element_bytes(t), a[0])) {
        return;
    }
    if (take_rows(w, p->op, p->b_desc, t->transposed_b, 0, t->n, element_bytes(t), b[0]))
        t->product(w->file + p->frame, t, a, b, p->add);
}

void wgmma_group_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct products *products = products_of(w);
    (void)r;
    if (!whole_warp(w, op, mask))
        return;
    if (op->imm < 0) {
        products->open++;
        return;
    }
    size_t done = 0;
    while (done < products->count &&
           products->list[done].group + (uint64_t)op->imm < products->open)
        finish(w, &products->list[done++]);
    if (!done)
        return;
    products->count -= done;
    memmove(products->list, products->list + done, products->count * sizeof *products->list);
    note_effect(w);
}

void wgmma_fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    whole_warp(w, op, mask);
}

void setmaxnreg_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    whole_warp(w, op, mask);
}
