// recorded.c: runs the basic blocks of a CTA that is traced or filmed (machine/film.h). Other CTAs
// do not run this file.
//
// An operation is observed from outside: its addresses are computed from its operands, its counts
// are the difference of the counters. So a film's sums are the simulator's counts. Where that is
// not enough (barriers, matrices in shared memory), the operation records itself.
#include "exec.h"

#include "ptxsim/machine/film.h"
#include "ptxsim/ops/address.h"
#include "ptxsim/ops/scalars.h"

#include <stdlib.h>
#include <string.h>

// ---- Addresses ----------------------------------------------------------------------------------

// global_lanes: those of `mask` whose address is in global memory. shared_lanes: those whose
// address is in shared memory; in `at`, their addresses become offsets there.
static uint32_t global_lanes(const struct op *op, const uint64_t at[WARP], uint32_t mask)
{
    uint32_t lanes = 0;
    for (uint32_t left = mask; left; left &= left - 1)
        lanes |= (uint32_t)(at[__builtin_ctz(left)] >> WINDOW_SHIFT == 0) << __builtin_ctz(left);
    return op->space == SPACE_GLOBAL ? mask : op->space == SPACE_GENERIC ? lanes : 0;
}

static uint32_t shared_lanes(const struct op *op, uint64_t at[WARP], uint32_t mask)
{
    uint32_t lanes = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (at[i] >> WINDOW_SHIFT != SHARED_WINDOW >> WINDOW_SHIFT)
            continue;
        at[i] -= SHARED_WINDOW;
        lanes |= 1u << i;
    }
    return op->space == SPACE_SHARED ? mask : op->space == SPACE_GENERIC ? lanes : 0;
}

// The addresses of a load, a store or an atomic operation.
static void plain_addresses(const char *r, const struct op *op, uint64_t at[WARP])
{
    for (int i = 0; i < WARP; ++i)
        at[i] = address_in(r, op->a, op->wide_address, op->imm, i);
}

static void film_narrow(struct film *film, const struct op *op, const uint64_t at[WARP], int bytes,
                        uint32_t mask, enum film_access access)
{
    uint32_t narrow[WARP];
    for (int i = 0; i < WARP; ++i)
        narrow[i] = (uint32_t)at[i];
    film_shared(film, op->insn, narrow, bytes, mask, access);
}

static void film_copy(struct film *film, const char *r, const struct op *op, uint32_t mask)
{
    const struct copy_operands *o = op->operands;
    uint64_t to[WARP] = {0}, from[WARP] = {0};
    uint32_t reads = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        to[i] = address_in(r, o->to, o->to_wide, o->to_offset, i);
        from[i] = address_in(r, o->from, o->from_wide, o->from_offset, i);
        uint32_t used = o->size == NO_REGISTER ? op->bytes : ((const u32 *)(r + o->size))[i];
        if (o->ignore != NO_REGISTER && *(const u32 *)(r + o->ignore) >> i & 1)
            used = 0;
        reads |= (uint32_t)(used > 0) << i;
        if (to[i] >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
            to[i] -= SHARED_WINDOW;
    }
    film_narrow(film, op, to, op->bytes, mask, FILM_COPY);
    film_global(film, op->insn, from, op->bytes, reads, FILM_COPY);
}

// Records what an operation is going to do, unless the operation records itself.
static void film_before(struct film *film, const struct warp *w, const char *r, const struct op *op,
                        uint32_t mask)
{
    const struct insn_info *insn = &w->cta->program->insns[op->insn];
    bool of_global = insn->op_class == CLASS_GLOBAL_LOAD || insn->op_class == CLASS_GLOBAL_STORE;
    uint64_t at[WARP];
    switch (op->family) {
    case FAMILY_COPY: film_copy(film, r, op, mask); break;
    case FAMILY_COPY_GROUP: film_group(film, op->insn, op->imm, op->open_group); break;
    case FAMILY_BULK_GROUP:
    case FAMILY_WGMMA_GROUP: film_group(film, op->insn, op->imm, false); break;
    case FAMILY_ATOMIC:
        plain_addresses(r, op, at);
        film_global(film, op->insn, at, op->bytes, global_lanes(op, at, mask), FILM_ATOMIC);
        film_narrow(film, op, at, op->bytes, shared_lanes(op, at, mask), FILM_ATOMIC);
        break;
    case FAMILY_ACCESS:
        if (!of_global)
            break;
        plain_addresses(r, op, at);
        film_global(film, op->insn, at, op->bytes * op->vector, global_lanes(op, at, mask),
                    insn->store ? FILM_STORE : FILM_LOAD);
        break;
    default: break;
    }
}

// ---- Blocks -------------------------------------------------------------------------------------

// A copy of all instructions' counters, made before a wait: the stores that it completes are
// counted at the instructions that issued them.
static struct insn_counts *copy_counts(const struct warp *w)
{
    size_t bytes = w->cta->program->insn_count * sizeof(struct insn_counts);
    struct insn_counts *copy = checked_alloc(malloc(bytes + 1));
    memcpy(copy, w->cta->worker->insns, bytes);
    return copy;
}

static void film_counts_of_all(struct film *film, const struct warp *w, struct insn_counts *before)
{
    for (size_t i = 0; i < w->cta->program->insn_count; ++i)
        film_counts(film, (uint32_t)i, &before[i], &w->cta->worker->insns[i]);
    free(before);
}

static void film_registers(struct film *film, const char *r, const struct op *op,
                           const uint32_t *regs, int count, int bytes, uint32_t mask)
{
    for (int i = 0; i < count; ++i)
        if (regs[i] != NO_REGISTER)
            film_value(film, op->insn, i, bytes, mask, r + regs[i]);
}

// Records the registers that an operation has written or, for a store, stored.
static void film_values(struct film *film, const char *r, const struct op *op, uint32_t mask)
{
    if (op->family == FAMILY_PRODUCT) {
        const struct mma *t = op->operands;
        film_registers(film, r, op, t->d.regs, t->d.count, t->d.bytes > 4 ? 8 : 4, mask);
    } else if (op->family == FAMILY_FRAGMENT) {
        const struct matrix_memory *t = op->operands;
        film_registers(film, r, op, t->matrix.regs, t->matrix.count, t->matrix.bytes > 4 ? 8 : 4,
                       mask);
    } else if (op->family == FAMILY_TILES) {
        const struct tiles *t = op->operands;
        film_registers(film, r, op, t->regs, t->count, 4, mask);
    } else if (op->family == FAMILY_ACCESS && op->vector) {
        film_registers(film, r, op, op->regs, op->vector, op->width, mask);
    } else if (op->plain) {
        film_value(film, op->insn, 0, op->plain - 1, mask, r + op->d);
    }
}

// Runs an operation and records it. last: whether it is the instruction's last operation.
static void film_op(struct film *film, struct warp *w, char *r, const struct op *op, uint32_t mask,
                    bool last)
{
    uint32_t on = mask;
    if (op->run == guarded_op) {
        uint32_t guard = *(const u32 *)(r + op->guard);
        on = mask & (op->guard_negated ? ~guard : guard);
    }
    if (on != mask)
        film_lanes(film, op->insn, on);
    if (on)
        film_before(film, w, r, op, on);
    const struct insn_counts before = *counts_of(w, op);
    struct insn_counts *all = op->family == FAMILY_BULK_GROUP ? copy_counts(w) : NULL;
    if (op->plain && !op->inner && (mask != w->alive || w->loop.careful))
        plain_masked(w, r, op, op->run, mask);
    else
        op->run(w, r, op, mask);
    if (all)
        film_counts_of_all(film, w, all);
    else
        film_counts(film, op->insn, &before, counts_of(w, op));
    if (last && on && film_wants(film, op->insn))
        film_values(film, r, op, on);
}

void run_recorded(struct warp *w, char *r, const struct basic_block *b, uint32_t mask)
{
    struct film *film = w->cta->film;
    bool all = mask == w->alive && !w->loop.careful;
    trace_block(w->cta->trace, w, b, mask);
    for (const struct op *op = &w->cta->program->ops[b->first], *end = op + b->count; op < end;
         ++op)
        if (film)
            film_op(film, w, r, op, mask, op + 1 == end || op[1].insn != op->insn);
        else if (op->plain && !op->inner && !all)
            plain_masked(w, r, op, op->run, mask);
        else
            op->run(w, r, op, mask);
}

// ---- Matrices -----------------------------------------------------------------------------------

static void describe(char *text, size_t size, const char *name, const struct matrix *m)
{
    static const char *const types[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8",
                                        "f32", "s32",  "f64",  "s4",   "u4",   "b1"};
    char rows[64] = "", columns[64] = "";
    for (int i = 0; i < m->count && i < 8; ++i) {
        size_t used = strlen(rows), more = strlen(columns);
        snprintf(rows + used, sizeof rows - used, "%s%d", i ? "," : "", m->row[i]);
        snprintf(columns + more, sizeof columns - more, "%s%d", i ? "," : "", m->column[i]);
    }
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             ",\"%s\":{\"type\":\"%s\",\"per\":%d,\"step\":%d,\"distinct\":%d,\"row\":[%s],"
             "\"column\":[%s]}",
             name, types[m->type], m->per, m->step, m->distinct, rows, columns);
}

// Writes JSON that describes the matrices of an operation; "" if it has none.
static void matrix_json(const struct op *op, char *text, size_t size)
{
    text[0] = 0;
    if (op->family == FAMILY_PRODUCT) {
        const struct mma *t = op->operands;
        snprintf(text, size, "{\"what\":\"mma\",\"m\":%d,\"n\":%d,\"k\":%d", t->m, t->n, t->k);
        describe(text, size, "A", &t->a);
        describe(text, size, "B", &t->b);
        describe(text, size, "C", &t->c);
        describe(text, size, "D", &t->d);
    } else if (op->family == FAMILY_FRAGMENT) {
        const struct matrix_memory *t = op->operands;
        snprintf(text, size, "{\"what\":\"wmma\",\"store\":%d", t->store);
        describe(text, size, "matrix", &t->matrix);
    } else if (op->family == FAMILY_TILES) {
        const struct tiles *t = op->operands;
        snprintf(text, size, "{\"what\":\"tiles\",\"count\":%d,\"store\":%d,\"transposed\":%d",
                 t->count, t->store, t->transposed);
    } else if (op->family == FAMILY_WGMMA) {
        const struct wgmma *t = op->operands;
        snprintf(text, size, "{\"what\":\"wgmma\",\"m\":64,\"n\":%d,\"k\":%d", t->n, t->k);
    }
    if (text[0])
        strncat(text, "}", size - strlen(text) - 1);
}

void describe_matrices(const struct cta *cta)
{
    const struct program *p = cta->program;
    char text[1024];
    for (size_t i = 0; i < p->op_count; ++i) {
        const struct op *op = &p->ops[i];
        matrix_json(op, text, sizeof text);
        if (text[0])
            film_describe(cta->film, op->insn, text);
    }
}
