// async.c: asynchronous copies, mbarriers and fences.
#include "internal.h"

#include <string.h>

void decode_mbarrier(struct decoder *d)
{
    static const struct {
        const char *name;
        enum mbarrier_kind kind, expecting;
    } kinds[] = {{"init", MBARRIER_INIT, MBARRIER_INIT},
                 {"inval", MBARRIER_INVAL, MBARRIER_INVAL},
                 {"arrive", MBARRIER_ARRIVE, MBARRIER_ARRIVE_EXPECT},
                 {"arrive_drop", MBARRIER_DROP, MBARRIER_DROP_EXPECT},
                 {"expect_tx", MBARRIER_EXPECT, MBARRIER_EXPECT},
                 {"complete_tx", MBARRIER_COMPLETE, MBARRIER_COMPLETE},
                 {"test_wait", MBARRIER_WAIT, MBARRIER_WAIT},
                 {"try_wait", MBARRIER_WAIT, MBARRIER_WAIT}};
    const char *action = d->modifier_count ? d->modifier[0] : "";
    bool copies = !strcmp(d->base, "cp");
    if (!copies && !strcmp(action, "pending_count")) {
        uint32_t place = destination(d, operand(d, 0), 4), state = source(d, operand(d, 1), 8);
        struct op *op = emit(d, mbarrier_pending_op, 5);
        op->d = place;
        op->a = state;
        return;
    }
    int kind = copies ? MBARRIER_COPIES : -1;
    for (size_t i = 0; !copies && i < sizeof kinds / sizeof kinds[0]; ++i)
        if (!strcmp(action, kinds[i].name))
            kind = (int)(has(d, "expect_tx") ? kinds[i].expecting : kinds[i].kind);
    if (kind < 0)
        unsupported(d);
    struct mbarrier_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    *o = (struct mbarrier_operands){.operand = NO_REGISTER, .result = NO_REGISTER};
    bool returns = d->insn->operands[0].kind != OPERAND_ADDRESS;
    o->parity = has(d, "parity");
    o->no_increment = has(d, "noinc");
    uint32_t place = 0;
    if (kind == MBARRIER_WAIT)
        place = destination(d, operand(d, 0), 0);
    else if (returns && operand(d, 0)->kind != OPERAND_SINK)
        o->result = destination(d, operand(d, 0), 8);
    if (d->insn->count > returns + 1)
        o->operand =
            source(d, operand(d, returns + 1), kind == MBARRIER_WAIT && !o->parity ? 8 : 4);
    else if (kind == MBARRIER_INIT || kind == MBARRIER_WAIT || has(d, "expect_tx") ||
             kind == MBARRIER_COMPLETE)
        operand(d, returns + 1);
    enum space space = memory_space(d);
    uint32_t a;
    int64_t imm;
    uint8_t wide;
    set_address(d, operand(d, returns), &a, &imm, &wide, &space);
    if (space != SPACE_SHARED && space != SPACE_GENERIC)
        unsupported(d);
    struct op *op = emit(d, mbarrier_op, 0);
    op->d = place;
    op->a = a;
    op->imm = imm;
    op->wide_address = wide;
    op->space = (uint8_t)space;
    op->regs = (const uint32_t *)o;
    op->target = kind;
    op->order = kind == MBARRIER_INIT ? 0 : ORDER_STRONG;
}

static void bulk_address(struct decoder *d, int index, struct bulk_address *a)
{
    uint8_t wide;
    enum space space = SPACE_GENERIC;
    set_address(d, operand(d, index), &a->reg, &a->offset, &wide, &space);
    a->wide = wide;
}

// cp.async.bulk{.tensor.Nd}.to.from … [to]{, with the map's coordinates}, [from], {size}, {[mbarrier]}
static void decode_bulk(struct decoder *d)
{
    int shared = -1, global = -1, rank = 0;
    needs_arch(d, 90);
    if (has(d, "commit_group") || has(d, "wait_group")) {
        bool wait = has(d, "wait_group");
        if (wait && (operand(d, 0)->kind != OPERAND_IMMEDIATE || operand(d, 0)->value < 0))
            unsupported(d);
        emit(d, bulk_group_op, 0)->imm = wait ? operand(d, 0)->value : -1;
        return;
    }
    if (has(d, "prefetch")) {
        emit(d, nothing_op, 0);
        return;
    }
    for (int i = 0; i < d->modifier_count; ++i) {
        const char *m = d->modifier[i];
        if (!strcmp(m, "global"))
            global = i;
        else if (!strcmp(m, "shared::cluster") || !strcmp(m, "shared::cta"))
            shared = shared < 0 ? i : MODIFIERS;
        else if (m[0] >= '1' && m[0] <= '5' && !strcmp(m + 1, "d"))
            rank = m[0] - '0';
        else if (strcmp(m, "async") && strcmp(m, "bulk") && strcmp(m, "tensor") &&
                 strcmp(m, "tile") && strcmp(m, "mbarrier::complete_tx::bytes") &&
                 strcmp(m, "bulk_group") && strcmp(m, "L2::cache_hint"))
            unsupported(d);
    }
    if (shared < 0 || global < 0 || shared == MODIFIERS || has(d, "tensor") != (rank > 0))
        unsupported(d);
    struct bulk_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    o->tensor = rank > 0;
    o->store = global < shared;
    o->rank = rank;
    bulk_address(d, 0, o->store ? &o->global : &o->shared);
    bulk_address(d, 1, o->store ? &o->shared : &o->global);
    const struct operand *map = operand(d, o->store ? 0 : 1);
    if (map->count != rank)
        fail(d, "%s needs %d coordinates", d->insn->opcode, rank);
    for (int i = 0; i < rank; ++i)
        o->coordinate[i] = source(d, &map->elements[i], 4);
    if (!o->tensor)
        o->size = source(d, operand(d, 2), 4);
    if (!o->store)
        bulk_address(d, o->tensor ? 2 : 3, &o->barrier);
    emit(d, bulk_op, 0)->regs = (const uint32_t *)o;
    note_size(d, 16);
    struct insn_info *info = &d->program->insns[d->program->insn_count - 1];
    info->bulk = true;
    info->store = o->store;
}

void decode_copy(struct decoder *d)
{
    if (has(d, "async") && has(d, "bulk")) {
        decode_bulk(d);
        return;
    }
    if (!has(d, "async") || has(d, "reduce"))
        unsupported(d);
    if (has(d, "mbarrier")) {
        decode_mbarrier(d);
        return;
    }
    if (has(d, "commit_group") || has(d, "wait_all") || has(d, "wait_group")) {
        int64_t left = -1;
        if (has(d, "wait_group")) {
            if (operand(d, 0)->kind != OPERAND_IMMEDIATE || operand(d, 0)->value < 0)
                unsupported(d);
            left = operand(d, 0)->value;
        } else if (has(d, "wait_all")) {
            left = 0;
        }
        struct op *op = emit(d, copy_group_op, 0);
        op->imm = left;
        op->target = has(d, "wait_all");
        return;
    }
    const struct operand *size = operand(d, 2);
    int64_t bytes = size->kind == OPERAND_IMMEDIATE ? size->value : 0;
    bool ca = has(d, "ca") && (bytes == 4 || bytes == 8);
    if (!has(d, "global") || (!ca && bytes != 16))
        unsupported(d);
    struct copy_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    o->size = o->ignore = NO_REGISTER;
    int policy = has(d, "L2::cache_hint");
    if (d->insn->count - policy > 3) {
        const struct operand *extra = operand(d, 3);
        if (extra->kind == OPERAND_REGISTER && !d->function->regs[extra->reg].bytes)
            o->ignore = source(d, extra, 0);
        else
            o->size = source(d, extra, 4);
    }
    uint8_t wide;
    enum space space = SPACE_SHARED;
    set_address(d, operand(d, 0), &o->to, &o->to_offset, &wide, &space);
    o->to_wide = wide;
    space = SPACE_GLOBAL;
    set_address(d, operand(d, 1), &o->from, &o->from_offset, &wide, &space);
    o->from_wide = wide;
    struct op *op = emit(d, copy_async_op, 0);
    op->regs = (const uint32_t *)o;
    op->bytes = (uint8_t)bytes;
}

void decode_fence(struct decoder *d)
{
    if (has(d, "proxy")) {
        bool async = has(d, "async") || has(d, "async::generic");
        emit(d, async ? proxy_fence_op : nothing_op, 0);
        return;
    }
    emit(d, fence_op, 0)->imm = !has(d, "cta"); // membar.gl, fence…gpu, …sys
}
