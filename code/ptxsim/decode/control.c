// control.c: branches, calls and the stack.
#include "internal.h"

#include <string.h>

static int label_block(struct decoder *d, const char *name)
{
    const struct label *label = function_label(d->function, d->insn->scope, name);
    if (!label)
        fail(d, "label '%s' is not known", name);
    return (int)d->callee->block + d->block_of[label->insn];
}

void decode_branch(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    if (to->kind != OPERAND_NAME)
        unsupported(d);
    struct op *op = emit(d, branch_op, 0);
    op->target = label_block(d, to->name);
}

void decode_switch(struct decoder *d)
{
    const struct operand *list = operand(d, 1);
    const struct label *label =
        list->kind == OPERAND_NAME ? function_label(d->function, d->insn->scope, list->name) : NULL;
    if (!label || !label->targets)
        unsupported(d);
    struct switch_operands *s = arena_alloc(&d->program->arena, sizeof *s);
    s->index = source(d, operand(d, 0), 4);
    s->count = label->target_count;
    s->targets = arena_alloc(&d->program->arena, (size_t)s->count * sizeof *s->targets);
    for (int i = 0; i < s->count; ++i)
        s->targets[i] = label_block(d, label->targets[i]);
    emit(d, switch_op, 0)->regs = (const uint32_t *)s;
}

static void layout_moves(struct decoder *d, struct call_operands *call, const struct operand *list,
                         size_t *at)
{
    call->move = arena_alloc(&d->program->arena, (size_t)(list->count + 1) * sizeof *call->move);
    for (int i = 0; i < list->count; ++i) {
        const struct variable *v =
            list->elements[i].kind == OPERAND_NAME
                ? function_variable(d->function, d->insn->scope, list->elements[i].name)
                : NULL;
        if (!v)
            fail(d, "a parameter of a call is no .param variable");
        *at = (*at + v->align - 1) & ~(v->align - 1);
        call->move[call->moves++] = (struct call_move){v->offset, *at, v->size};
        *at += v->size;
    }
}

// What the device's runtime gives to every kernel (ops_system.c); it has no body in the module.
op_fn *system_function(const struct function *f)
{
    return f->has_body                        ? NULL
           : !strcmp(f->name, "vprintf")      ? vprintf_op
           : !strcmp(f->name, "__assertfail") ? assert_op
                                              : NULL;
}

static void decode_system_call(struct decoder *d, op_fn *run, const struct operand *returned,
                               const struct operand *arguments)
{
    const struct operand *lists[] = {returned, arguments};
    int count = returned->count + arguments->count, at = 0;
    if (count != (run == vprintf_op ? 3 : 5))
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, (size_t)count * sizeof *regs);
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < lists[k]->count; ++i) {
            const struct operand *o = &lists[k]->elements[i];
            const struct variable *v = o->kind == OPERAND_NAME
                                           ? function_variable(d->function, d->insn->scope, o->name)
                                           : NULL;
            if (!v || !is_local(d, v))
                fail(d, "a parameter of a call is no .param variable");
            regs[at++] = (uint32_t)v->offset;
        }
    emit(d, run, 0)->regs = regs;
}

void decode_call(struct decoder *d)
{
    static const struct operand nothing = {.kind = OPERAND_VECTOR};
    const struct operand *list = d->insn->operands;
    int count = d->insn->count, at = 0;
    const struct operand *returned = &nothing, *arguments = &nothing;
    if (at < count && list[at].kind == OPERAND_VECTOR)
        returned = &list[at++];
    if (at >= count)
        unsupported(d);
    const struct operand *callee = &list[at++];
    if (at < count && list[at].kind == OPERAND_VECTOR)
        arguments = &list[at++];
    struct function *system =
        callee->kind == OPERAND_NAME ? module_function(d->module, callee->name) : NULL;
    if (system && system_function(system)) {
        decode_system_call(d, system_function(system), returned, arguments);
        return;
    }
    struct call_operands *call = arena_alloc(&d->program->arena, sizeof *call);
    struct call_operands *end = arena_alloc(&d->program->arena, sizeof *end);
    size_t layout = 0;
    layout_moves(d, end, returned, &layout);
    layout_moves(d, call, arguments, &layout);
    call->callee = -1;
    if (callee->kind == OPERAND_REGISTER) {
        call->address = source(d, callee, 8);
    } else {
        struct function *f =
            callee->kind == OPERAND_NAME ? module_function(d->module, callee->name) : NULL;
        for (size_t i = 0; f && i < d->program->callee_count; ++i)
            if (d->program->callees[i].function == f)
                call->callee = (int)i;
        if (call->callee < 0)
            fail(d, "function '%s' is not in this module", callee->name ? callee->name : "?");
    }
    call->local_bytes = end->local_bytes = (d->callee->local_bytes + 15) & ~(size_t)15;
    emit(d, call_op, 0)->regs = (const uint32_t *)call;
    d->call_end = end; // the returned value is fetched where the block that follows begins
}

void decode_stack(struct decoder *d)
{
    bool allocates = !strcmp(d->base, "alloca"), saves = !strcmp(d->base, "stacksave");
    uint32_t place = 0, from = 0;
    int64_t align = 8;
    if (strcmp(last_modifier(d), "u64"))
        unsupported(d);
    if (allocates || saves)
        place = destination(d, operand(d, 0), 8);
    if (!saves)
        from = source(d, operand(d, allocates), 8);
    if (allocates && d->insn->count > 2)
        align = operand(d, 2)->value;
    if (align < 1 || align > 128 || (align & (align - 1)))
        unsupported(d);
    struct op *op = emit(d, allocates ? alloca_op : saves ? stacksave_op : stackrestore_op, 0);
    op->d = place;
    op->a = from;
    op->imm = align < 8 ? 8 : align;
    op->target = (int)d->callee->local_bytes;
    d->program->has_alloca = true;
}
