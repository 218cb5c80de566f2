// access.c: loads, stores and atomics.
#include "internal.h"

#include <string.h>

enum space memory_space(const struct decoder *d)
{
    return has(d, "global")                                                     ? SPACE_GLOBAL
           : has(d, "shared") || has(d, "shared::cta")                          ? SPACE_SHARED
           : has(d, "shared::cluster")                                          ? SPACE_SHARED
           : has(d, "local")                                                    ? SPACE_LOCAL
           : has(d, "param") || has(d, "param::entry") || has(d, "param::func") ? SPACE_PARAM
           : has(d, "const")                                                    ? SPACE_CONST
                                                                                : SPACE_GENERIC;
}

// What a memory operation orders: strong ones never race with each other.
static uint8_t order_of(const struct decoder *d)
{
    bool atomic = !strcmp(d->base, "atom") || !strcmp(d->base, "red");
    uint8_t order = 0;
    if (atomic || has(d, "volatile") || has(d, "relaxed"))
        order |= ORDER_STRONG;
    if (has(d, "acquire") || has(d, "acq_rel"))
        order |= ORDER_STRONG | ORDER_ACQUIRE;
    if (has(d, "release") || has(d, "acq_rel"))
        order |= ORDER_STRONG | ORDER_RELEASE;
    if (has(d, "cta"))
        order |= ORDER_CTA;
    return order & ORDER_STRONG ? order : 0;
}

// The smallest access of a kernel makes the cells of the race checks.
void note_size(struct decoder *d, int bytes)
{
    int shift = __builtin_ctz((unsigned)bytes);
    if (shift < d->program->cell_shift)
        d->program->cell_shift = (uint8_t)shift;
}

void decode_access(struct decoder *d, bool store)
{
    int element = need_type(d, last_modifier(d));
    int count = has(d, "v2") ? 2 : has(d, "v4") ? 4 : 1;
    if (has(d, "v8") || (element == 8 && count == 4))
        needs_arch(d, 100);
    if (has(d, "v8") || element * count > 16 || !element)
        unsupported(d);
    const struct operand *value = operand(d, store ? 1 : 0), *address = operand(d, store ? 0 : 1);
    uint32_t *regs = arena_alloc(&d->program->arena, 4 * sizeof *regs);
    uint8_t width = 0;
    for (int i = 0; i < count; ++i) {
        const struct operand *o = value;
        if (count > 1) {
            if (value->kind != OPERAND_VECTOR || value->count != count)
                fail(d, "%s needs a vector of %d", d->insn->opcode, count);
            o = &value->elements[i];
        }
        uint8_t this_width;
        if (element == 16 && o->kind != OPERAND_REGISTER)
            fail(d, "an operand of %s is no register", d->insn->opcode);
        if (store) {
            regs[i] = wide_source(d, o, element, &this_width);
        } else if (o->kind == OPERAND_SINK && element < 16) {
            this_width = width ? width : (uint8_t)(element == 1 ? 2 : element);
            regs[i] = scratch(d);
        } else {
            if (o->kind != OPERAND_REGISTER)
                fail(d, "the result of %s is no register", d->insn->opcode);
            this_width = d->function->regs[o->reg].bytes;
            regs[i] = d->slot[o->reg];
            if (this_width < element)
                fail(d, "the result of %s is too narrow", d->insn->opcode);
        }
        if (width && this_width != width) {
            if (!store || o->kind == OPERAND_REGISTER)
                fail(d, "a vector of registers of different widths");
        }
        width = this_width;
    }
    // Immediates in a vector of wider registers take the registers' width.
    for (int i = 0; store && i < count && count > 1; ++i)
        if (value->elements[i].kind == OPERAND_IMMEDIATE)
            regs[i] = constant(d, immediate(d, &value->elements[i], width), width);
    enum space space = memory_space(d);
    uint32_t a;
    int64_t imm;
    uint8_t wide;
    set_address(d, address, &a, &imm, &wide, &space);
    int log = __builtin_ctz((unsigned)(element * count));
    int id = space == SPACE_SHARED ? (store ? OP_store_shared_1 : OP_load_shared_1) + log
             : space == SPACE_GLOBAL || space == SPACE_CONST
                 ? (store ? OP_store_global_1 : OP_load_global_1) + log
             : store ? OP_store_any
                     : OP_load_any;
    struct op *op = emit_id(d, id);
    op->d = regs[0];
    op->a = a;
    op->imm = imm;
    op->wide_address = wide;
    op->regs = regs;
    op->space = (uint8_t)space;
    op->bytes = (uint8_t)element;
    op->vector = (uint8_t)count;
    op->width = width;
    op->is_signed = last_modifier(d)[0] == 's';
    op->order = order_of(d);
    if (space == SPACE_SHARED || space == SPACE_GLOBAL || space == SPACE_GENERIC)
        note_size(d, element * count);
}

void decode_atomic(struct decoder *d, bool returns)
{
    static const char *const names[] = {"add", "min", "max", "inc",  "dec",
                                        "and", "or",  "xor", "exch", "cas"};
    const char *type = last_modifier(d);
    int bytes = need_type(d, type), what = -1;
    for (int i = 0; i < 10; ++i)
        if (has(d, names[i]))
            what = i;
    if (what < 0 || has(d, "v2") || has(d, "v4") || has(d, "v8") || bytes < 2 || bytes > 8 ||
        has(d, "shared::cluster"))
        unsupported(d);
    int kind = !strcmp(type, "f16x2")    ? 2
               : !strcmp(type, "bf16x2") ? 3
               : !strcmp(type, "f16")    ? 4
               : !strcmp(type, "bf16")   ? 5
               : type[0] == 'f'          ? 1
                                         : 0;
    int at = returns ? 1 : 0;
    uint32_t *regs = arena_alloc(&d->program->arena, 3 * sizeof *regs);
    regs[0] = NO_REGISTER;
    if (returns && operand(d, 0)->kind != OPERAND_SINK)
        regs[0] = destination(d, operand(d, 0), bytes);
    regs[1] = source(d, operand(d, at + 1), bytes);
    regs[2] = what == ATOMIC_CAS ? source(d, operand(d, at + 2), bytes) : NO_REGISTER;
    enum space space = memory_space(d);
    uint32_t a;
    int64_t imm;
    uint8_t wide;
    set_address(d, operand(d, at), &a, &imm, &wide, &space);
    struct op *op = emit(d, atomic_op, 0);
    op->a = a;
    op->imm = imm;
    op->wide_address = wide;
    op->space = (uint8_t)space;
    op->regs = regs;
    op->target = what;
    op->bytes = op->width = (uint8_t)bytes;
    op->vector = (uint8_t)kind;
    op->is_signed = type[0] == 's';
    op->order = order_of(d);
    note_size(d, bytes);
}
