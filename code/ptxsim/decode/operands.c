// operands.c: what every decoder needs: the places of an instruction's operands in the frame, and
// functions that emit operations (PTX ISA, "Instruction Operands": operand types, using addresses,
// constants).
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---- Errors, and the block and instruction being decoded ----------------------------------------

__attribute__((noreturn, format(printf, 2, 3))) void fail(struct decoder *d, const char *format,
                                                          ...)
{
    char name[96];
    kernel_base_name(d->kernel->info.name, name, sizeof name);
    int line = d->insn ? d->insn->ptx_line : 0, used;
    if (d->insn && d->insn->at.line)
        used = snprintf(d->why, d->why_size, "%s, %s:%d%s, PTX line %d: ", name, d->insn->at.file,
                        d->insn->at.line, d->insn->at.callers, line);
    else
        used = snprintf(d->why, d->why_size, "%s, PTX line %d: ", name, line);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0 && (size_t)used < d->why_size)
        vsnprintf(d->why + used, d->why_size - (size_t)used, format, arguments);
    va_end(arguments);
    longjmp(d->failed, 1);
}

__attribute__((noreturn)) void unsupported(struct decoder *d)
{
    fail(d, "instruction %s is not supported", d->insn->opcode);
}

void needs_arch(struct decoder *d, int arch)
{
    if (d->module->arch < arch)
        fail(d, "%s needs sm_%d or newer, this PTX is for sm_%d", d->insn->opcode, arch,
             d->module->arch);
}

struct basic_block *this_block(struct decoder *d)
{
    return &d->program->blocks[d->program->block_count - 1];
}

struct insn_info *this_insn(struct decoder *d)
{
    return &d->program->insns[d->program->insn_count - 1];
}

// ---- Operands -----------------------------------------------------------------------------------

uint32_t take(struct decoder *d, size_t bytes, size_t align)
{
    d->frame = (d->frame + align - 1) & ~(align - 1);
    size_t at = d->frame;
    d->frame += bytes;
    if (d->frame > UINT32_MAX / 4)
        fail(d, "too many registers");
    return (uint32_t)at;
}

uint32_t constant(struct decoder *d, uint64_t value, int bytes)
{
    if (bytes && bytes < 8)
        value &= (UINT64_C(1) << 8 * bytes) - 1;
    for (size_t i = 0; i < d->constant_count; ++i)
        if (d->constants[i].value == value && d->constants[i].bytes == bytes)
            return d->constants[i].at;
    d->constants =
        array_grow(d->constants, d->constant_count, &d->constant_capacity, sizeof *d->constants);
    uint32_t at = take(d, bytes ? (size_t)bytes * WARP : 4, 64);
    d->constants[d->constant_count++] =
        (struct constant){.value = value, .bytes = (uint8_t)bytes, .at = at};
    return at;
}

uint32_t scratch(struct decoder *d)
{
    if (d->scratch_used == SCRATCH_SLOTS)
        fail(d, "%s needs too many intermediate values", d->insn->opcode);
    return d->scratch_at + (uint32_t)(d->scratch_used++ * SCRATCH_BYTES);
}

struct op *emit(struct decoder *d, op_fn *run, int plain)
{
    struct program *p = d->program;
    p->ops = array_grow(p->ops, p->op_count, &d->op_capacity, sizeof *p->ops);
    struct op *op = &p->ops[p->op_count++];
    *op = (struct op){.run = run,
                      .plain = (uint8_t)plain,
                      .insn = (uint32_t)(p->insn_count - 1),
                      .family = d->spelling->opcode->family};
    if (d->insn->guard >= 0) {
        op->inner = run;
        op->run = guarded_op;
        op->guard = d->slot[d->insn->guard];
        op->guard_negated = d->insn->guard_negated;
    }
    return op;
}

struct op *emit_id(struct decoder *d, int id)
{
    return emit(d, d->ops->run[id], signatures[id].plain);
}

struct op *emit_plain(struct decoder *d, int id, uint32_t to, uint32_t a, uint32_t b, uint32_t c)
{
    struct op *op = emit_id(d, id);
    op->d = to;
    op->a = a;
    op->b = b;
    op->c = c;
    return op;
}

uint64_t immediate(struct decoder *d, const struct operand *o, int bytes)
{
    uint64_t bits = (uint64_t)o->value;
    if (!o->is_float || bytes == 8)
        return bits;
    if (bytes != 4)
        fail(d, "a float constant of %d bytes", bytes);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if ((bits >> 52 & 0x7ff) == 0x7ff) // a NaN keeps its payload
        return bits >> 63 << 31 | 0x7f800000 | fraction >> 29;
    double wide;
    memcpy(&wide, &bits, 8);
    float single = (float)wide;
    uint32_t low;
    memcpy(&low, &single, 4);
    return low;
}

int special_find(const char *name)
{
    for (int i = 0; i < SPECIALS; ++i)
        if (!strcmp(special_names[i], name))
            return i;
    return -1;
}

static void whole_register(struct decoder *d, const struct operand *o, const char *what, int bytes)
{
    if (o->part)
        fail(d, "%s of %s is a part of a register, .%s", what, d->insn->opcode, o->part);
    if (d->function->regs[o->reg].bytes != bytes)
        fail(d, "%s of %s has %d bytes where %d were expected", what, d->insn->opcode,
             d->function->regs[o->reg].bytes, bytes);
}

static int function_number(const struct module *m, const struct function *f)
{
    for (size_t i = 0; i < m->function_count; ++i)
        if (m->functions[i] == f)
            return (int)i;
    return -1;
}

bool is_local(const struct decoder *d, const struct variable *v)
{
    return v->space == SPACE_LOCAL ||
           (v->space == SPACE_PARAM && !(v->is_param && d->function->is_kernel));
}

static size_t dynamic_offset(const struct decoder *d, const struct variable *v)
{
    struct program *p = d->program;
    size_t offset = (p->shared_bytes + v->align - 1) & ~(v->align - 1);
    p->dynamic_offset = offset > p->dynamic_offset ? offset : p->dynamic_offset;
    return offset;
}

// The address of a name, as a constant; false for a local variable, whose address depends on the
// frame.
static bool name_value(struct decoder *d, const struct operand *o, uint64_t *value,
                       const struct variable **variable)
{
    const struct variable *v = function_variable(d->function, d->insn->scope, o->name);
    if (!v)
        v = module_variable(d->module, d->function->unit, o->name);
    *variable = v;
    if (v) {
        if (is_local(d, v)) {
            *value = v->offset + (uint64_t)o->value;
            return false;
        }
        *value = (uint64_t)o->value + (v->address   ? (uint64_t)(uintptr_t)v->address
                                       : v->dynamic ? dynamic_offset(d, v)
                                                    : v->offset);
        if ((v->space == SPACE_GLOBAL || v->space == SPACE_CONST) && !v->address)
            fail(d, "%s is declared, and no file of the program defines it", o->name);
        return true;
    }
    struct function *f = module_function(d->module, d->function->unit, o->name);
    if (f) {
        *value = CODE_WINDOW + (uint64_t)function_number(d->module, f);
        return true;
    }
    fail(d, "'%s' is not known", o->name);
}

uint32_t source(struct decoder *d, const struct operand *o, int bytes)
{
    switch (o->kind) {
    case OPERAND_REGISTER:
        whole_register(d, o, "an operand", bytes);
        if (o->negated) {
            uint32_t to = scratch(d);
            emit_plain(d, OP_not_pred, to, d->slot[o->reg], 0, 0);
            return to;
        }
        return d->slot[o->reg];
    case OPERAND_IMMEDIATE:
        if (!bytes)
            return constant(d, o->value ? UINT32_MAX : 0, 0);
        return constant(d, immediate(d, o, bytes), bytes);
    case OPERAND_NAME: {
        uint64_t value;
        int special = special_find(o->name);
        if (special >= 0) {
            uint32_t to = scratch(d);
            struct op *op = emit(d, special_op, 1 + bytes);
            op->d = to;
            op->imm = special;
            op->width = (uint8_t)bytes;
            d->program->asks_reserved |=
                special >= SPECIAL_RESERVED_SMEM_BEGIN && special <= SPECIAL_RESERVED_SMEM_1;
            return to;
        }
        const struct variable *v;
        if (name_value(d, o, &value, &v))
            return constant(d, value, bytes);
        if (d->function->is_kernel)
            return constant(d, value, bytes);
        uint32_t to = scratch(d);
        if (bytes == 8) {
            emit_plain(d, OP_add_u64, to, FRAME_LOCAL, constant(d, value, 8), 0);
        } else {
            emit_plain(d, OP_cvt_u32_u64, to, FRAME_LOCAL, 0, 0);
            emit_plain(d, OP_add_u32, to, to, constant(d, value, 4), 0);
        }
        return to;
    }
    default: fail(d, "an operand of %s is of the wrong kind", d->insn->opcode);
    }
}

uint32_t wide_source(struct decoder *d, const struct operand *o, int least, uint8_t *width)
{
    *width = (uint8_t)(least == 1 ? 2 : least);
    if (o->kind == OPERAND_REGISTER) {
        *width = d->function->regs[o->reg].bytes;
        if (o->part)
            whole_register(d, o, "an operand", *width);
        if (*width < (least == 1 ? 2 : least))
            fail(d, "an operand of %s is too narrow", d->insn->opcode);
        return d->slot[o->reg];
    }
    return source(d, o, *width);
}

uint32_t destination(struct decoder *d, const struct operand *o, int bytes)
{
    if (o->kind == OPERAND_SINK)
        return scratch(d);
    if (o->kind != OPERAND_REGISTER)
        fail(d, "the result of %s is no register", d->insn->opcode);
    whole_register(d, o, "the result", bytes);
    return d->slot[o->reg];
}

const struct operand *operand(struct decoder *d, int index)
{
    if (index >= d->insn->count)
        fail(d, "%s needs more than %d operands", d->insn->opcode, d->insn->count);
    return &d->insn->operands[index];
}

uint32_t members_source(struct decoder *d, const struct operand *o)
{
    uint32_t at = source(d, o, 4);
    // A special register cannot be the mask of a wait: it is read within the block, after the wait.
    if (o->kind == OPERAND_REGISTER || o->kind == OPERAND_IMMEDIATE)
        this_block(d)->members = at;
    return at;
}

int64_t count_operand(struct decoder *d, int index)
{
    const struct operand *o = operand(d, index);
    if (o->kind != OPERAND_IMMEDIATE || o->value < 0)
        unsupported(d);
    return o->value;
}

// ---- Addresses ----------------------------------------------------------------------------------

struct address address_operand(struct decoder *d, const struct operand *o, enum space space)
{
    if (o->kind != OPERAND_ADDRESS)
        fail(d, "%s needs an address in brackets", d->insn->opcode);
    if (o->reg >= 0) {
        int bytes = d->function->regs[o->reg].bytes;
        if (bytes != 4 && bytes != 8)
            fail(d, "an address of %d bytes", bytes);
        return (struct address){d->slot[o->reg], o->value, bytes == 8, space};
    }
    uint64_t value = (uint64_t)o->value;
    if (o->name) {
        const struct variable *v;
        bool fixed = name_value(d, o, &value, &v);
        if (v && is_local(d, v) && space == SPACE_PARAM)
            space = SPACE_LOCAL; // a parameter of a call or of this function
        if (!fixed)
            return (struct address){FRAME_LOCAL, (int64_t)value, true, space};
    }
    return (struct address){constant(d, value, 8), 0, true, space};
}

void set_address(struct op *op, const struct address *address)
{
    op->a = address->reg;
    op->imm = address->offset;
    op->wide_address = address->wide;
    op->space = (uint8_t)address->space;
}

// ---- Types, and operations by name --------------------------------------------------------------

int need_type(struct decoder *d, enum modifier type)
{
    int bytes = modifier_types[type].bytes;
    if (bytes < 0)
        unsupported(d);
    return bytes;
}

int find_parts(const char *a, const char *b, const char *c)
{
    char name[128];
    int length =
        snprintf(name, sizeof name, "%s%s%s%s%s", a, b[0] ? "_" : "", b, c[0] ? "_" : "", c);
    return length < (int)sizeof name ? op_find(name) : -1;
}

int find_spelled(const struct decoder *d)
{
    char name[128];
    int length = snprintf(name, sizeof name, "%s", d->spelling->text);
    for (char *at = name; (at = strchr(at, '.')); ++at)
        *at = '_';
    return length < (int)sizeof name ? op_find(name) : -1;
}
