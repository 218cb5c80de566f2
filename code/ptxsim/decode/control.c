// control.c: branches, calls and the end of a kernel (PTX ISA, "Control Flow Instructions"), the
// stack ("Stack Manipulation Instructions"), trap, nanosleep, pmevent ("Miscellaneous Instructions").
#include "internal.h"
#include "ptxsim/base/heap.h"
#include "ptxsim/ops/system.h"

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
    op->block = label_block(d, to->name);
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
    emit(d, switch_op, 0)->operands = s;
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

static const struct system_call system_calls[] = {
    // In ops/system.c:
    {"vprintf", vprintf_op, {4, 8, 8}, false},
    {"__assertfail", assert_op, {8, 8, 4, 8, 8}, false},
    {"malloc", malloc_op, {8, 8}, true},
    {"free", free_op, {8}, false},
};

static const struct system_call *call_named(const struct system_call *calls, size_t count,
                                            const char *name)
{
    for (size_t i = 0; i < count; ++i)
        if (!strcmp(name, calls[i].name))
            return &calls[i];
    return NULL;
}

#pragma weak extra_instructions
const struct system_call *system_function(const struct function *f)
{
    if (f->has_body)
        return NULL;
    const struct system_call *call =
        call_named(system_calls, sizeof system_calls / sizeof system_calls[0], f->name);
    return call || !&extra_instructions
               ? call
               : call_named(extra_instructions.calls, (size_t)extra_instructions.call_count,
                            f->name);
}

static void decode_system_call(struct decoder *d, const struct system_call *call,
                               const struct operand *returned, const struct operand *arguments)
{
    const struct operand *lists[] = {returned, arguments};
    enum { MOST = sizeof call->bytes };
    int count = returned->count + arguments->count, at = 0;
    if (count > MOST || (count < MOST && call->bytes[count]) || (count && !call->bytes[count - 1]))
        unsupported(d);
    if (call->heap)
        heap_prepare();
    uint32_t *regs = arena_alloc(&d->program->arena, (size_t)count * sizeof *regs);
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < lists[k]->count; ++i) {
            const struct operand *o = &lists[k]->elements[i];
            const struct variable *v = o->kind == OPERAND_NAME
                                           ? function_variable(d->function, d->insn->scope, o->name)
                                           : NULL;
            if (!v || !is_local(d, v))
                fail(d, "a parameter of a call is no .param variable");
            if (v->size != call->bytes[at]) // an argument of another size than the parameter
                fail(d, "a call of %s with %zu bytes, %s, where it takes %d", call->name, v->size,
                     v->name, call->bytes[at]);
            regs[at++] = (uint32_t)v->offset;
        }
    struct op *op = emit(d, call->run, 0);
    op->regs = regs;
    op->bytes = call->bytes[0];
}

static int callee_number(struct decoder *d, const struct operand *o)
{
    const struct program *p = d->program;
    struct function *f =
        o->kind == OPERAND_NAME ? module_function(d->module, d->function->unit, o->name) : NULL;
    for (size_t i = 0; f && i < p->callee_count; ++i)
        if (p->callees[i].function == f)
            return (int)i;
    fail(d, "function '%s' is not in this module", o->name ? o->name : "?");
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
    struct function *system = callee->kind == OPERAND_NAME
                                  ? module_function(d->module, d->function->unit, callee->name)
                                  : NULL;
    if (system && system_function(system)) {
        decode_system_call(d, system_function(system), returned, arguments);
        return;
    }
    struct call_operands *call = arena_alloc(&d->program->arena, sizeof *call);
    struct call_operands *end = arena_alloc(&d->program->arena, sizeof *end);
    size_t layout = 0;
    layout_moves(d, end, returned, &layout);
    layout_moves(d, call, arguments, &layout);
    if (callee->kind == OPERAND_REGISTER) {
        call->callee = -1;
        call->address = source(d, callee, 8);
    } else {
        call->callee = callee_number(d, callee);
    }
    call->caller = end->caller = d->callee;
    call->local_bytes = end->local_bytes = (d->callee->local_bytes + 15) & ~(size_t)15;
    emit(d, call_op, 0)->operands = call;
    d->call_end = end; // emitted at the beginning of the next block
}

void decode_return(struct decoder *d)
{
    emit(d, d->function->is_kernel ? exit_op : return_op, 0);
}

void decode_exit(struct decoder *d)
{
    emit(d, exit_op, 0);
}

void decode_trap(struct decoder *d)
{
    emit(d, trap_op, 0);
}

void decode_nanosleep(struct decoder *d)
{
    emit(d, nanosleep_op, 0);
}

// Decodes cache hints and events, which have no effect in the simulator.
void decode_nothing(struct decoder *d)
{
    emit(d, nothing_op, 0);
}

// ---- The stack ----------------------------------------------------------------------------------

static void needs_u64(struct decoder *d)
{
    if (last_modifier(d) != MOD_u64)
        unsupported(d);
}

static void emit_stack(struct decoder *d, op_fn *run, uint32_t place, uint32_t from, int64_t align)
{
    struct op *op = emit(d, run, 0);
    op->d = place;
    op->a = from;
    op->imm = align;
    op->locals = (uint32_t)d->callee->local_bytes;
    d->program->has_alloca = true;
}

void decode_alloca(struct decoder *d)
{
    needs_u64(d);
    uint32_t place = destination(d, operand(d, 0), 8), from = source(d, operand(d, 1), 8);
    int64_t align = d->insn->count > 2 ? operand(d, 2)->value : 8;
    if (align < 1 || align > 128 || (align & (align - 1)))
        unsupported(d);
    emit_stack(d, alloca_op, place, from, align < 8 ? 8 : align);
}

void decode_stacksave(struct decoder *d)
{
    needs_u64(d);
    emit_stack(d, stacksave_op, destination(d, operand(d, 0), 8), 0, 8);
}

void decode_stackrestore(struct decoder *d)
{
    needs_u64(d);
    emit_stack(d, stackrestore_op, 0, source(d, operand(d, 0), 8), 8);
}
