// lanes.c: what goes between the lanes of a warp, and CTA barriers.
#include "internal.h"

#include <string.h>

void decode_shfl(struct decoder *d)
{
    int mode = has(d, "up") ? 0 : has(d, "down") ? 1 : has(d, "bfly") ? 2 : has(d, "idx") ? 3 : -1;
    if (mode < 0 || !has(d, "sync"))
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, 2 * sizeof *regs);
    const struct operand *to = operand(d, 0);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = destination(d, to, 4), a = source(d, operand(d, 1), 4),
             b = source(d, operand(d, 2), 4);
    uint32_t c = source(d, operand(d, 3), 4);
    regs[1] = source(d, operand(d, 4), 4); // the members
    struct op *op = emit_plain(d, OP_shfl, place, a, b, c);
    op->regs = regs;
    op->imm = mode;
}

void decode_vote(struct decoder *d)
{
    bool ballot = has(d, "ballot");
    int kind = ballot          ? VOTE_BALLOT
               : has(d, "all") ? VOTE_ALL
               : has(d, "any") ? VOTE_ANY
               : has(d, "uni") ? VOTE_UNI
                               : -1;
    if (kind < 0 || !has(d, "sync"))
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), ballot ? 4 : 0);
    uint32_t p = source(d, operand(d, 1), 0), members = source(d, operand(d, 2), 4);
    struct op *op = emit(d, vote_op, 0);
    op->d = place;
    op->a = p;
    op->b = members;
    op->imm = kind;
}

void decode_match(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    const struct operand *to = operand(d, 0);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = destination(d, to, 4), a = source(d, operand(d, 1), bytes),
             b = source(d, operand(d, 2), 4);
    struct op *op = emit(d, match_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->width = (uint8_t)bytes;
    op->imm = has(d, "all");
    op->regs = regs;
}

void decode_redux(struct decoder *d)
{
    int what = has(d, "add")   ? ATOMIC_ADD
               : has(d, "min") ? ATOMIC_MIN
               : has(d, "max") ? ATOMIC_MAX
               : has(d, "and") ? ATOMIC_AND
               : has(d, "or")  ? ATOMIC_OR
               : has(d, "xor") ? ATOMIC_XOR
                               : -1;
    if (what < 0 || !strcmp(last_modifier(d), "f32"))
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4),
             b = source(d, operand(d, 2), 4);
    struct op *op = emit(d, redux_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->imm = what;
    op->is_signed = last_modifier(d)[0] == 's';
}

void decode_elect(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    if (to->pair < 0)
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = to->kind == OPERAND_REGISTER ? d->slot[to->reg] : NO_REGISTER;
    uint32_t b = source(d, operand(d, 1), 4);
    struct op *op = emit(d, elect_op, 0);
    op->d = d->slot[to->pair];
    op->b = b;
    op->regs = regs;
}

void decode_barrier(struct decoder *d)
{
    struct barrier_operands *b = arena_alloc(&d->program->arena, sizeof *b);
    bool reduce = has(d, "red");
    int at = reduce ? 1 : 0;
    b->kind = has(d, "arrive") ? BARRIER_ARRIVE
              : !reduce        ? BARRIER_SYNC
              : has(d, "popc") ? BARRIER_POPC
              : has(d, "and")  ? BARRIER_AND
                               : BARRIER_OR;
    b->aligned = !strcmp(d->base, "bar") || has(d, "aligned");
    if (reduce) {
        b->output = destination(d, operand(d, 0), b->kind == BARRIER_POPC ? 4 : 0);
        const struct operand *in = operand(d, d->insn->count - 1);
        struct operand positive = *in;
        positive.negated = false;
        b->negated = in->negated;
        b->input = source(d, &positive, 0);
    }
    b->id = source(d, operand(d, at), 4);
    b->has_count = d->insn->count - at - reduce > 1;
    if (b->has_count)
        b->count = source(d, operand(d, at + 1), 4);
    struct op *op = emit(d, barrier_op, 0);
    op->regs = (const uint32_t *)b;
}
