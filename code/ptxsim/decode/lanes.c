// lanes.c: exchange between the lanes of a warp, and the barriers of a warp and of a CTA: vote,
// match, redux, elect, activemask, bar, barrier (PTX ISA, "Parallel Synchronization and
// Communication Instructions"), shfl ("Data Movement and Conversion Instructions").
#include "internal.h"

void decode_shfl(struct decoder *d)
{
    int mode = has(d, MOD_up)     ? 0
               : has(d, MOD_down) ? 1
               : has(d, MOD_bfly) ? 2
               : has(d, MOD_idx)  ? 3
                                  : -1;
    if (mode < 0 || !has(d, MOD_sync))
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, 2 * sizeof *regs);
    const struct operand *to = operand(d, 0);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = destination(d, to, 4), a = source(d, operand(d, 1), 4),
             b = source(d, operand(d, 2), 4);
    uint32_t c = source(d, operand(d, 3), 4);
    const struct operand *members = operand(d, 4);
    regs[1] = members_source(d, members);
    if (members->kind == OPERAND_IMMEDIATE && (uint32_t)members->value == ~0u)
        regs[1] = NO_REGISTER; // all lanes are members
    struct op *op = emit_plain(d, OP_shfl, place, a, b, c);
    op->regs = regs;
    op->imm = mode;
}

static void emit_vote(struct decoder *d, bool named)
{
    bool ballot = has(d, MOD_ballot);
    int kind = ballot            ? VOTE_BALLOT
               : has(d, MOD_all) ? VOTE_ALL
               : has(d, MOD_any) ? VOTE_ANY
               : has(d, MOD_uni) ? VOTE_UNI
                                 : -1;
    if (kind < 0)
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), ballot ? 4 : 0);
    uint32_t p = source(d, operand(d, 1), 0);
    uint32_t members =
        named ? members_source(d, operand(d, 2)) : constant(d, UINT32_MAX, sizeof(uint32_t));
    struct op *op = emit(d, vote_op, 0);
    op->d = place;
    op->a = p;
    op->b = members;
    op->imm = kind;
}

void decode_vote(struct decoder *d)
{
    emit_vote(d, true);
}

// vote without .sync: the active lanes of the warp vote.
void decode_vote_here(struct decoder *d)
{
    emit_vote(d, false);
}

void decode_match(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    const struct operand *to = operand(d, 0);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = destination(d, to, 4), a = source(d, operand(d, 1), bytes),
             b = members_source(d, operand(d, 2));
    struct op *op = emit(d, match_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->width = (uint8_t)bytes;
    op->imm = has(d, MOD_all);
    op->regs = regs;
}

void decode_redux(struct decoder *d)
{
    int what = has(d, MOD_add)   ? ATOMIC_ADD
               : has(d, MOD_min) ? ATOMIC_MIN
               : has(d, MOD_max) ? ATOMIC_MAX
               : has(d, MOD_and) ? ATOMIC_AND
               : has(d, MOD_or)  ? ATOMIC_OR
               : has(d, MOD_xor) ? ATOMIC_XOR
                                 : -1;
    if (what < 0 || last_modifier(d) == MOD_f32)
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4),
             b = members_source(d, operand(d, 2));
    struct op *op = emit(d, redux_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->imm = what;
    op->is_signed = is_signed(d);
}

void decode_elect(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    if (to->pair < 0)
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = to->kind == OPERAND_REGISTER ? d->slot[to->reg] : NO_REGISTER;
    uint32_t b = members_source(d, operand(d, 1));
    struct op *op = emit(d, elect_op, 0);
    op->d = d->slot[to->pair];
    op->b = b;
    op->regs = regs;
}

void decode_activemask(struct decoder *d)
{
    emit(d, activemask_op, 0)->d = destination(d, operand(d, 0), 4);
}

void decode_bar_warp(struct decoder *d)
{
    uint32_t members = members_source(d, operand(d, 0));
    emit(d, warp_sync_op, 0)->b = members;
}

// barrier{.red} {result,} id{, threads}{, predicate}
static void decode_cta_barrier(struct decoder *d, bool aligned)
{
    struct barrier_operands *b = arena_alloc(&d->program->arena, sizeof *b);
    bool reduce = has(d, MOD_red);
    int at = reduce ? 1 : 0;
    b->kind = has(d, MOD_arrive) ? BARRIER_ARRIVE
              : !reduce          ? BARRIER_SYNC
              : has(d, MOD_popc) ? BARRIER_POPC
              : has(d, MOD_and)  ? BARRIER_AND
                                 : BARRIER_OR;
    b->aligned = aligned;
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
    emit(d, barrier_op, 0)->operands = b;
    this_block(d)->barrier = b;
}

void decode_cluster_arrive(struct decoder *d)
{
    needs_arch(d, 90);
    if (has(d, MOD_acquire))
        unsupported(d);
    if (!has(d, MOD_aligned)) // the lane waits for no other lane
        this_block(d)->members = constant(d, 0, 4);
    emit(d, cluster_arrive_op, 0)->relaxed = has(d, MOD_relaxed);
}

// barrier.cluster.wait: in a CTA without a cluster it waits at the CTA's own barrier, and an
// arrival (barrier.cluster.arrive) has no effect.
void decode_cluster_wait(struct decoder *d)
{
    struct barrier_operands *b = arena_alloc(&d->program->arena, sizeof *b);
    needs_arch(d, 90);
    if (has(d, MOD_relaxed) || has(d, MOD_release))
        unsupported(d);
    b->kind = BARRIER_SYNC;
    b->aligned = has(d, MOD_aligned);
    b->id = constant(d, 0, 4);
    emit(d, cluster_wait_op, 0)->operands = b;
    this_block(d)->barrier = b;
}

void decode_bar(struct decoder *d)
{
    decode_cta_barrier(d, true);
}

void decode_barrier(struct decoder *d)
{
    decode_cta_barrier(d, has(d, MOD_aligned));
}
