// decode.c: a kernel and the functions it calls -> struct program.
//
// For each function: basic blocks, liveness, places in the register file (a linear scan, so that
// a kernel's frame stays in the first-level cache), then the operations. An opcode whose name is
// in ops_list.h needs nothing more; the others have a decoder here.
#include "ops_bulk.h"
#include "ops_common.h"
#include "ops_sync.h"
#include "ops_wgmma.h"
#include "races.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The table of operations --------------------------------------------------------------------

struct signature {
    const char *name;
    uint8_t operands;       // 0: has a decoder of its own
    uint8_t plain, a, b, c; // bytes a lane; plain as in struct op
};

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define UNARY(D, A, e)                                                                             \
    {                                                                                              \
        .operands = 1, .plain = 1 + sizeof(D), .a = sizeof(A)                                      \
    }
#define BINARY(D, A, B, e)                                                                         \
    {                                                                                              \
        .operands = 2, .plain = 1 + sizeof(D), .a = sizeof(A), .b = sizeof(B)                      \
    }
#define TERNARY(D, A, B, C, e)                                                                     \
    {                                                                                              \
        .operands = 3, .plain = 1 + sizeof(D), .a = sizeof(A), .b = sizeof(B), .c = sizeof(C)      \
    }
#define COMPARE(A, e)                                                                              \
    {                                                                                              \
        .operands = 2, .plain = 1, .a = sizeof(A), .b = sizeof(A)                                  \
    }
#define SELECT(D)                                                                                  \
    {                                                                                              \
        .operands = 3, .plain = 1 + sizeof(D), .a = sizeof(D), .b = sizeof(D), .c = 0              \
    }
#define HALF(per, format, count, e)                                                                \
    {                                                                                              \
        .operands = count, .plain = 1 + 2 * per, .a = 2 * per, .b = 2 * per, .c = 2 * per          \
    }
#define CUSTOM(result)                                                                             \
    {                                                                                              \
        .operands = 0, .plain = result                                                             \
    }
static const struct signature signatures[OP_COUNT] = {
#define OP(name, form, ...) [OP_##name] = form(__VA_ARGS__),
#include "ops_list.h"
#undef OP
};
#undef UNARY
#undef BINARY
#undef TERNARY
#undef COMPARE
#undef SELECT
#undef HALF
#undef CUSTOM

static const char *const op_names[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = #name,
#include "ops_list.h"
#undef OP
};

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    while (*text)
        hash = (hash ^ (uint8_t)*text++) * 16777619u;
    return hash;
}

static int op_find(const char *name)
{
    enum { SLOTS = 4096 };
    static int16_t slots[SLOTS]; // id + 1
    static bool ready;           // decoding is under the runtime's lock
    if (!ready) {
        for (int id = 0; id < OP_COUNT; ++id) {
            uint32_t at = hash_text(op_names[id]) % SLOTS;
            while (slots[at])
                at = (at + 1) % SLOTS;
            slots[at] = (int16_t)(id + 1);
        }
        ready = true;
    }
    for (uint32_t at = hash_text(name) % SLOTS; slots[at]; at = (at + 1) % SLOTS)
        if (!strcmp(op_names[slots[at] - 1], name))
            return slots[at] - 1;
    return -1;
}

const struct op_set *ops_choose(void)
{
    const char *wanted = getenv("PTXSIM_ISA");
#if defined __x86_64__ && defined __GNUC__
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx512 && (!wanted || !strcmp(wanted, "avx512")))
        return &ops_avx512;
    if (avx2 && (!wanted || strcmp(wanted, "base")))
        return &ops_avx2;
#endif
    (void)wanted;
    return &ops_base;
}

// ---- State --------------------------------------------------------------------------------------

enum { SCRATCH_SLOTS = 16, SCRATCH_BYTES = 256, MODIFIERS = 16 };

struct constant {
    uint64_t value;
    uint8_t bytes; // a lane; 0: a predicate
    uint32_t at;
};

struct decoder {
    struct program *program;
    struct module *module;
    struct kernel *kernel;
    const struct op_set *ops;
    struct callee *callee;
    struct function *function;
    const struct insn *insn;
    uint32_t *slot; // of each register
    int *block_of;  // of each instruction (the block that starts there), -1 inside one
    struct constant *constants;
    size_t constant_count, constant_capacity;
    size_t frame; // bytes so far
    uint32_t scratch_at;
    int scratch_used;
    size_t op_capacity, block_capacity, place_capacity;
    char base[32]; // the opcode up to its first '.'
    char modifiers[192];
    const char *modifier[MODIFIERS];
    int modifier_count;
    const struct call_operands *call_end;
    int *watched; // of each register: its number among those that wgmma uses, or -1; NULL: none
    bool *accumulates;
    int watched_words;
    struct arena temporary; // what a function's decoding needs, gone with the decoder
    jmp_buf failed;
    char *why;
    size_t why_size;
};

__attribute__((noreturn, format(printf, 2, 3))) static void fail(struct decoder *d,
                                                                 const char *format, ...)
{
    char name[96];
    kernel_base_name(d->kernel->info.name, name, sizeof name);
    int used =
        snprintf(d->why, d->why_size, "%s, PTX line %d: ", name, d->insn ? d->insn->ptx_line : 0);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0 && (size_t)used < d->why_size)
        vsnprintf(d->why + used, d->why_size - (size_t)used, format, arguments);
    va_end(arguments);
    longjmp(d->failed, 1);
}

__attribute__((noreturn)) static void unsupported(struct decoder *d)
{
    fail(d, "instruction %s is not supported", d->insn->opcode);
}

static bool has(const struct decoder *d, const char *modifier)
{
    for (int i = 0; i < d->modifier_count; ++i)
        if (!strcmp(d->modifier[i], modifier))
            return true;
    return false;
}

// What ptxas accepts from a newer machine on only.
static void needs_arch(struct decoder *d, int arch)
{
    if (d->module->arch < arch)
        fail(d, "%s needs sm_%d or newer, this PTX is for sm_%d", d->insn->opcode, arch,
             d->module->arch);
}

static const char *last_modifier(const struct decoder *d)
{
    return d->modifier_count ? d->modifier[d->modifier_count - 1] : "";
}

static void split_opcode(struct decoder *d, const char *opcode)
{
    const char *dot = strchr(opcode, '.');
    size_t length = dot ? (size_t)(dot - opcode) : strlen(opcode);
    if (length >= sizeof d->base || strlen(opcode) >= sizeof d->modifiers)
        unsupported(d);
    memcpy(d->base, opcode, length);
    d->base[length] = 0;
    d->modifier_count = 0;
    strcpy(d->modifiers, dot ? dot + 1 : "");
    for (char *at = d->modifiers; at && *at;) {
        if (d->modifier_count == MODIFIERS)
            unsupported(d);
        d->modifier[d->modifier_count++] = at;
        at = strchr(at, '.');
        if (at)
            *at++ = 0;
    }
}

static void drop_modifier(struct decoder *d, const char *modifier)
{
    int kept = 0;
    for (int i = 0; i < d->modifier_count; ++i)
        if (strcmp(d->modifier[i], modifier))
            d->modifier[kept++] = d->modifier[i];
    d->modifier_count = kept;
}

// ---- Operands -----------------------------------------------------------------------------------

static uint32_t take(struct decoder *d, size_t bytes, size_t align)
{
    d->frame = (d->frame + align - 1) & ~(align - 1);
    size_t at = d->frame;
    d->frame += bytes;
    if (d->frame > UINT32_MAX / 4)
        fail(d, "too many registers");
    return (uint32_t)at;
}

static uint32_t constant(struct decoder *d, uint64_t value, int bytes)
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

static uint32_t scratch(struct decoder *d)
{
    if (d->scratch_used == SCRATCH_SLOTS)
        fail(d, "%s needs too many intermediate values", d->insn->opcode);
    return d->scratch_at + (uint32_t)(d->scratch_used++ * SCRATCH_BYTES);
}

static struct op *emit(struct decoder *d, op_fn *run, int plain)
{
    struct program *p = d->program;
    p->ops = array_grow(p->ops, p->op_count, &d->op_capacity, sizeof *p->ops);
    struct op *op = &p->ops[p->op_count++];
    *op = (struct op){
        .run = run, .plain = (uint8_t)plain, .insn = (uint32_t)(p->insn_count - 1), .target = -1};
    if (d->insn->guard >= 0) {
        op->inner = run;
        op->run = guarded_op;
        op->guard = d->slot[d->insn->guard];
        op->guard_negated = d->insn->guard_negated;
    }
    return op;
}

static struct op *emit_id(struct decoder *d, int id)
{
    return emit(d, d->ops->run[id], signatures[id].plain);
}

static struct op *emit_plain(struct decoder *d, int id, uint32_t to, uint32_t a, uint32_t b,
                             uint32_t c)
{
    struct op *op = emit_id(d, id);
    op->d = to;
    op->a = a;
    op->b = b;
    op->c = c;
    return op;
}

static uint64_t immediate(struct decoder *d, const struct operand *o, int bytes)
{
    uint64_t bits = (uint64_t)o->value;
    if (!o->is_float || bytes == 8)
        return bits;
    if (bytes != 4)
        fail(d, "a float constant of %d bytes", bytes);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if ((bits >> 52 & 0x7ff) == 0x7ff) // NaN payloads as they are
        return bits >> 63 << 31 | 0x7f800000 | fraction >> 29;
    double wide;
    memcpy(&wide, &bits, 8);
    float single = (float)wide;
    uint32_t low;
    memcpy(&low, &single, 4);
    return low;
}

static int special_find(const char *name)
{
    for (int i = 0; i < SPECIALS; ++i)
        if (!strcmp(special_names[i], name))
            return i;
    return -1;
}

static int function_number(const struct module *m, const struct function *f)
{
    for (size_t i = 0; i < m->function_count; ++i)
        if (m->functions[i] == f)
            return (int)i;
    return -1;
}

static bool is_local(const struct decoder *d, const struct variable *v)
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

// The address of a name, as a constant: false for local variables, which move with the frame.
static bool name_value(struct decoder *d, const struct operand *o, uint64_t *value,
                       const struct variable **variable)
{
    const struct variable *v = function_variable(d->function, d->insn->scope, o->name);
    if (!v)
        v = module_variable(d->module, o->name);
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
            fail(d, "%s has no memory", o->name);
        return true;
    }
    struct function *f = module_function(d->module, o->name);
    if (f) {
        *value = CODE_WINDOW + (uint64_t)function_number(d->module, f);
        return true;
    }
    fail(d, "'%s' is not known", o->name);
}

// A source of `bytes` a lane (0: a predicate): its place in the frame.
static uint32_t source(struct decoder *d, const struct operand *o, int bytes)
{
    switch (o->kind) {
    case OPERAND_REGISTER:
        if (d->function->regs[o->reg].bytes != bytes)
            fail(d, "an operand of %s has %d bytes where %d were expected", d->insn->opcode,
                 d->function->regs[o->reg].bytes, bytes);
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
        int special = special_find(o->name);
        if (special >= 0) {
            uint32_t to = scratch(d);
            struct op *op = emit(d, special_op, 1 + bytes);
            op->d = to;
            op->imm = special;
            op->width = (uint8_t)bytes;
            return to;
        }
        uint64_t value;
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

// A source as wide as its own register, for instructions that take the low bytes of a wider one.
static uint32_t wide_source(struct decoder *d, const struct operand *o, int least, uint8_t *width)
{
    *width = (uint8_t)(least == 1 ? 2 : least);
    if (o->kind == OPERAND_REGISTER) {
        *width = d->function->regs[o->reg].bytes;
        if (*width < (least == 1 ? 2 : least))
            fail(d, "an operand of %s is too narrow", d->insn->opcode);
        return d->slot[o->reg];
    }
    return source(d, o, *width);
}

static uint32_t result(struct decoder *d, const struct operand *o, int bytes)
{
    if (o->kind == OPERAND_SINK)
        return scratch(d);
    if (o->kind != OPERAND_REGISTER)
        fail(d, "the result of %s is no register", d->insn->opcode);
    if (d->function->regs[o->reg].bytes != bytes)
        fail(d, "the result of %s has %d bytes where %d were expected", d->insn->opcode,
             d->function->regs[o->reg].bytes, bytes);
    return d->slot[o->reg];
}

static const struct operand *operand(struct decoder *d, int index)
{
    if (index >= d->insn->count)
        fail(d, "%s needs more than %d operands", d->insn->opcode, d->insn->count);
    return &d->insn->operands[index];
}

// Sets an operation's address from [reg + offset] or [name + offset]; generic and other spaces.
static void set_address(struct decoder *d, const struct operand *o, uint32_t *a, int64_t *imm,
                        uint8_t *wide, enum space *space)
{
    if (o->kind != OPERAND_ADDRESS)
        fail(d, "%s needs an address in brackets", d->insn->opcode);
    if (o->reg >= 0) {
        int bytes = d->function->regs[o->reg].bytes;
        if (bytes != 4 && bytes != 8)
            fail(d, "an address of %d bytes", bytes);
        *wide = bytes == 8;
        *a = d->slot[o->reg];
        *imm = o->value;
        return;
    }
    *wide = 1;
    uint64_t value = (uint64_t)o->value;
    const struct variable *v = NULL;
    if (o->name) {
        bool fixed = name_value(d, o, &value, &v);
        if (v && is_local(d, v) && *space == SPACE_PARAM)
            *space = SPACE_LOCAL; // a parameter of a call, or of this function
        if (!fixed) {
            *a = FRAME_LOCAL;
            *imm = (int64_t)value;
            return;
        }
    }
    *a = constant(d, value, 8);
    *imm = 0;
}

// ---- Types --------------------------------------------------------------------------------------

static int type_bytes(const char *type)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {{"pred", 0}, {"b8", 1},    {"u8", 1},     {"s8", 1},   {"b16", 2}, {"u16", 2},
                 {"s16", 2},  {"f16", 2},   {"bf16", 2},   {"b32", 4},  {"u32", 4}, {"s32", 4},
                 {"f32", 4},  {"f16x2", 4}, {"bf16x2", 4}, {"tf32", 4}, {"b64", 8}, {"u64", 8},
                 {"s64", 8},  {"f64", 8},   {"b128", 16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i)
        if (!strcmp(types[i].name, type))
            return types[i].bytes;
    return -1;
}

static int need_type(struct decoder *d, const char *type)
{
    int bytes = type_bytes(type);
    if (bytes < 0)
        unsupported(d);
    return bytes;
}

// "setp", ".lt", "s32" -> id; -1 if there is none.
static int find_parts(const char *a, const char *b, const char *c)
{
    char name[128];
    int length =
        snprintf(name, sizeof name, "%s%s%s%s%s", a, b[0] ? "_" : "", b, c[0] ? "_" : "", c);
    return length < (int)sizeof name ? op_find(name) : -1;
}

// ---- Instructions: arithmetic -------------------------------------------------------------------

// The opcode as an operation's name: "fma_ftz_f32"; the rounding and .sat taken out.
static int find_arithmetic(struct decoder *d, enum rounding *rounding, bool *saturate)
{
    static const char *const floats[] = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"};
    const char *type = last_modifier(d);
    bool is_float = !strcmp(type, "f32") || !strcmp(type, "f64") || strstr(type, "f16");
    *rounding = ROUND_NEAREST;
    *saturate = false;
    bool rounds = false;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; ++i)
        rounds |= is_float && !strcmp(d->base, floats[i]);
    if (rounds) {
        *rounding = has(d, "rz")   ? ROUND_ZERO
                    : has(d, "rm") ? ROUND_DOWN
                    : has(d, "rp") ? ROUND_UP
                                   : ROUND_NEAREST;
        drop_modifier(d, "rn");
        drop_modifier(d, "rz");
        drop_modifier(d, "rm");
        drop_modifier(d, "rp");
        if (!strcmp(d->base, "mad"))
            strcpy(d->base, "fma");
    }
    if (is_float && has(d, "sat")) {
        *saturate = true;
        drop_modifier(d, "sat");
    }
    if (has(d, "ftz")) { // last before the type
        drop_modifier(d, "ftz");
        d->modifier[d->modifier_count] = d->modifier[d->modifier_count - 1];
        d->modifier[d->modifier_count++ - 1] = "ftz";
    }
    char name[160];
    int used = snprintf(name, sizeof name, "%s", d->base);
    for (int i = 0; i < d->modifier_count && used < (int)sizeof name; ++i) {
        const char *m = d->modifier[i];
        bool bits = !strcmp(d->base, "shr") && m[0] == 'b'; // shr.b32 fills with zeros
        used +=
            snprintf(name + used, sizeof name - (size_t)used, "_%s%s", bits ? "u" : "", m + bits);
    }
    return used < (int)sizeof name ? op_find(name) : -1;
}

static void decode_arithmetic(struct decoder *d)
{
    enum rounding rounding;
    bool saturate;
    char type[16];
    snprintf(type, sizeof type, "%s", last_modifier(d));
    int id = find_arithmetic(d, &rounding, &saturate);
    if (id < 0 || !signatures[id].operands)
        unsupported(d);
    const struct signature *s = &signatures[id];
    if (d->insn->count != s->operands + 1 && !(s->plain == 1 && d->insn->count == 2))
        fail(d, "%s takes %d operands", d->insn->opcode, s->operands + 1);
    uint32_t to = result(d, operand(d, 0), s->plain - 1);
    uint32_t a = source(d, operand(d, 1), s->a), b = a, c = 0;
    if (s->operands > 1 && d->insn->count > 2)
        b = source(d, operand(d, 2), s->b);
    if (s->operands > 2)
        c = source(d, operand(d, 3), s->c);
    struct op *op = emit_plain(d, id, to, a, b, c);
    if (rounding != ROUND_NEAREST) {
        op_fn **run = arena_alloc(&d->program->arena, sizeof *run);
        *run = d->ops->run[id];
        op->regs = (const uint32_t *)run;
        op->bytes = (uint8_t)rounding;
        if (op->run == guarded_op)
            op->inner = rounded_op;
        else
            op->run = rounded_op;
    }
    if (saturate) {
        int sat = find_parts("sat", type, "");
        if (sat < 0)
            unsupported(d);
        emit_plain(d, sat, to, to, 0, 0);
    }
}

static void decode_carry(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    bool product = !strcmp(d->base, "mad") || !strcmp(d->base, "madc");
    uint32_t to = result(d, operand(d, 0), bytes);
    uint32_t a = source(d, operand(d, 1), bytes), b = source(d, operand(d, 2), bytes);
    if (product) {
        char name[48];
        snprintf(name, sizeof name, "mul_%s_%s", has(d, "hi") ? "hi" : "lo", last_modifier(d));
        int id = op_find(name);
        if (id < 0)
            unsupported(d);
        uint32_t value = scratch(d);
        emit_plain(d, id, value, a, b, 0);
        a = value;
        b = source(d, operand(d, 3), bytes);
    }
    bool subtract = !strncmp(d->base, "sub", 3);
    bool in = !strcmp(d->base, "addc") || !strcmp(d->base, "subc") || !strcmp(d->base, "madc");
    struct op *op = emit(d, carry_op, 0);
    op->d = to;
    op->a = a;
    op->b = b;
    op->width = (uint8_t)bytes;
    op->imm =
        (subtract ? CARRY_SUBTRACT : 0) | (in ? CARRY_IN : 0) | (has(d, "cc") ? CARRY_OUT : 0);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = d->scratch_at + SCRATCH_SLOTS * SCRATCH_BYTES; // the carry's own place
    op->regs = regs;
}

static void decode_bfi(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    uint32_t to = result(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 4);
    regs[0] = source(d, operand(d, 4), 4);
    emit_plain(d, bytes == 8 ? OP_bfi_b64 : OP_bfi_b32, to, a, b, c)->regs = regs;
}

static void decode_lop3(struct decoder *d)
{
    const struct operand *table = operand(d, 4);
    if (table->kind != OPERAND_IMMEDIATE || d->insn->count != 5)
        unsupported(d);
    uint32_t to = result(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4);
    uint32_t b = source(d, operand(d, 2), 4), c = source(d, operand(d, 3), 4);
    emit_plain(d, OP_lop3_b32, to, a, b, c)->imm = table->value;
}

static void decode_prmt(struct decoder *d)
{
    char name[32];
    snprintf(name, sizeof name, "prmt_b32%s%s", d->modifier_count > 1 ? "_" : "",
             d->modifier_count > 1 ? d->modifier[1] : "");
    int id = op_find(name);
    if (id < 0)
        unsupported(d);
    uint32_t to = result(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4);
    uint32_t b = source(d, operand(d, 2), 4), c = source(d, operand(d, 3), 4);
    emit_plain(d, id, to, a, b, c);
}

// ---- Instructions: comparison and selection -----------------------------------------------------

static const char *unsigned_type(const char *type)
{
    return !strcmp(type, "b16")   ? "u16"
           : !strcmp(type, "b32") ? "u32"
           : !strcmp(type, "b64") ? "u64"
                                  : type;
}

// The comparison of setp and set, combined with a predicate if there is one: `yes` gets the
// result, `no` (if not NULL) that of the negated comparison. Of a pair, `part` 1 is the upper half.
static void decode_comparison(struct decoder *d, const char *type, int first, int part,
                              uint32_t *yes, uint32_t *no)
{
    static const char *const aliases[][2] = {
        {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    const char *compare = d->modifier[0];
    for (size_t i = 0; i < 4; ++i)
        if (!strcmp(compare, aliases[i][0]))
            compare = aliases[i][1];
    char name[64];
    bool half = strstr(type, "f16") != NULL, pair = half && strstr(type, "x2");
    if (half && has(d, "ftz"))
        unsupported(d);
    snprintf(name, sizeof name, "setp_%s_%s%s", compare, has(d, "ftz") && !half ? "ftz_" : "",
             half ? "f32" : unsigned_type(type));
    int id = op_find(name);
    if (id < 0)
        unsupported(d);
    int bytes = need_type(d, type);
    uint32_t a = source(d, operand(d, first), bytes), b = source(d, operand(d, first + 1), bytes);
    if (half) { // exact in f32
        int widen = type[0] == 'f' ? OP_cvt_f32_f16 : OP_cvt_f32_bf16;
        uint32_t wide_a = scratch(d), wide_b = scratch(d);
        if (pair) {
            uint32_t half_a = scratch(d), half_b = scratch(d);
            emit_plain(d, OP_part_16_of_32, half_a, a, 0, 0)->imm = 16 * part;
            emit_plain(d, OP_part_16_of_32, half_b, b, 0, 0)->imm = 16 * part;
            a = half_a;
            b = half_b;
        }
        emit_plain(d, widen, wide_a, a, 0, 0);
        emit_plain(d, widen, wide_b, b, 0, 0);
        a = wide_a;
        b = wide_b;
    }
    uint32_t compared = scratch(d);
    emit_plain(d, id, compared, a, b, 0);
    if (d->insn->count <= first + 2) {
        *yes = compared;
        if (no)
            emit_plain(d, OP_not_pred, *no = scratch(d), compared, 0, 0);
        return;
    }
    int combine = has(d, "and")   ? OP_and_pred
                  : has(d, "or")  ? OP_or_pred
                  : has(d, "xor") ? OP_xor_pred
                                  : -1;
    if (combine < 0)
        unsupported(d);
    uint32_t with = source(d, operand(d, first + 2), 0);
    if (no) {
        uint32_t inverse = scratch(d);
        emit_plain(d, OP_not_pred, inverse, compared, 0, 0);
        emit_plain(d, combine, inverse, inverse, with, 0);
        *no = inverse;
    }
    emit_plain(d, combine, compared, compared, with, 0);
    *yes = compared;
}

static void decode_setp(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    const char *type = last_modifier(d);
    bool simple = to->pair < 0 && d->insn->count == 3 && !strstr(type, "f16");
    uint32_t yes, no;
    if (strstr(type, "x2")) { // a predicate for each half
        if (to->pair < 0)
            unsupported(d);
        decode_comparison(d, type, 1, 0, &yes, NULL);
        decode_comparison(d, type, 1, 1, &no, NULL);
    } else {
        decode_comparison(d, type, 1, 0, &yes, to->pair >= 0 ? &no : NULL);
    }
    uint32_t place = result(d, to, 0);
    if (simple) {
        d->program->ops[d->program->op_count - 1].d = place; // straight into the predicate
        return;
    }
    emit_plain(d, OP_mov_pred, place, yes, 0, 0);
    if (to->pair >= 0)
        emit_plain(d, OP_mov_pred, d->slot[to->pair], no, 0, 0);
}

static void decode_set(struct decoder *d)
{
    char source_type[16], result_type[16];
    snprintf(source_type, sizeof source_type, "%s", last_modifier(d));
    if (d->modifier_count < 3)
        unsupported(d);
    snprintf(result_type, sizeof result_type, "%s", d->modifier[d->modifier_count - 2]);
    uint32_t yes;
    int bytes = need_type(d, result_type);
    if (strstr(source_type, "x2")) {
        uint32_t value[2];
        uint64_t one = !strcmp(result_type, "f16x2")    ? 0x3c00
                       : !strcmp(result_type, "bf16x2") ? 0x3f80
                                                        : 0xffff;
        for (int part = 0; part < 2; ++part) {
            decode_comparison(d, source_type, 1, part, &yes, NULL);
            emit_plain(d, OP_selp_b16, value[part] = scratch(d), constant(d, one, 2),
                       constant(d, 0, 2), yes);
        }
        emit_plain(d, OP_pack_2x16, result(d, operand(d, 0), 4), value[0], value[1], 0);
        return;
    }
    decode_comparison(d, source_type, 1, 0, &yes, NULL);
    uint64_t one = !strcmp(result_type, "f32")    ? 0x3f800000
                   : !strcmp(result_type, "f16")  ? 0x3c00
                   : !strcmp(result_type, "bf16") ? 0x3f80
                                                  : UINT64_MAX;
    emit_plain(d, bytes == 2 ? OP_selp_b16 : OP_selp_b32, result(d, operand(d, 0), bytes),
               constant(d, one, bytes), constant(d, 0, bytes), yes);
}

static void decode_selp(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    int id = bytes == 2 ? OP_selp_b16 : bytes == 4 ? OP_selp_b32 : OP_selp_b64;
    uint32_t to = result(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 0);
    emit_plain(d, id, to, a, b, c);
}

static void decode_slct(struct decoder *d)
{
    char name[32];
    drop_modifier(d, "ftz");
    int bytes = d->modifier_count == 2 ? need_type(d, d->modifier[0]) : -1;
    snprintf(name, sizeof name, "slct_b%d_%s", 8 * bytes, last_modifier(d));
    int id = op_find(name);
    if (id < 0)
        unsupported(d);
    uint32_t to = result(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 4);
    emit_plain(d, id, to, a, b, c);
}

// ---- Instructions: moves ------------------------------------------------------------------------

static int move_id(struct decoder *d, int bytes)
{
    switch (bytes) {
    case 0: return OP_mov_pred;
    case 2: return OP_mov_b16;
    case 4: return OP_mov_b32;
    case 8: return OP_mov_b64;
    }
    unsupported(d);
}

static void decode_unpack(struct decoder *d, const struct operand *to, int bytes)
{
    uint32_t from = source(d, operand(d, 1), bytes);
    int part = bytes / to->count, id;
    if (bytes == 16 && part == 8) {
        uint32_t *halves = arena_alloc(&d->program->arena, 2 * sizeof *halves);
        for (int i = 0; i < 2; ++i)
            halves[i] = result(d, &to->elements[i], 8);
        struct op *op = emit(d, unpack_b128_op, 0);
        op->a = from;
        op->regs = halves;
        return;
    }
    if (bytes == 4 && part == 2)
        id = OP_part_16_of_32;
    else if (bytes == 8 && part == 2)
        id = OP_part_16_of_64;
    else if (bytes == 8 && part == 4)
        id = OP_part_32_of_64;
    else if (bytes == 4 && part == 1)
        id = OP_part_8_of_32;
    else if (bytes == 2 && part == 1)
        id = OP_part_8_of_16;
    else
        unsupported(d);
    for (int i = 0; i < to->count; ++i)
        if (to->elements[i].kind != OPERAND_SINK)
            emit_plain(d, id, result(d, &to->elements[i], part == 1 ? 2 : part), from, 0, 0)->imm =
                8 * part * i;
}

static void decode_pack(struct decoder *d, const struct operand *from, int bytes)
{
    int part = bytes / from->count;
    uint32_t to = result(d, operand(d, 0), bytes);
    uint32_t *regs = arena_alloc(&d->program->arena, (size_t)from->count * sizeof *regs);
    for (int i = 0; i < from->count; ++i)
        regs[i] = source(d, &from->elements[i], part == 1 ? 2 : part);
    if (bytes == 16 && part == 8) {
        struct op *op = emit(d, pack_b128_op, 0);
        op->d = to;
        op->regs = regs;
        return;
    }
    int id = bytes == 4 && part == 2   ? OP_pack_2x16
             : bytes == 8 && part == 4 ? OP_pack_2x32
             : bytes == 8 && part == 2 ? OP_pack_4x16
             : bytes == 4 && part == 1 ? OP_pack_4x8
             : bytes == 2 && part == 1 ? OP_pack_2x8
                                       : -1;
    if (id < 0)
        unsupported(d);
    emit_plain(d, id, to, regs[0], regs[1], 0)->regs = regs;
}

static void decode_mov(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    const struct operand *to = operand(d, 0), *from = operand(d, 1);
    if (to->kind == OPERAND_VECTOR && to->count) {
        decode_unpack(d, to, bytes);
    } else if (from->kind == OPERAND_VECTOR && from->count) {
        decode_pack(d, from, bytes);
    } else if (bytes == 16) {
        if (to->kind != OPERAND_REGISTER || from->kind != OPERAND_REGISTER)
            unsupported(d);
        struct op *op = emit(d, mov_b128_op, 0);
        op->d = result(d, to, bytes);
        op->a = source(d, from, bytes);
    } else {
        uint32_t place = result(d, to, bytes);
        uint32_t value = source(d, from, bytes);
        if (from->kind == OPERAND_NAME && d->scratch_used) // %tid.x: straight into the register
            d->program->ops[d->program->op_count - 1].d = place;
        else
            emit_plain(d, move_id(d, bytes), place, value, 0, 0);
    }
}

static void decode_cvta(struct decoder *d)
{
    bool to = has(d, "to");
    uint64_t window = has(d, "shared") || has(d, "shared::cta") ? SHARED_WINDOW
                      : has(d, "local")                         ? LOCAL_WINDOW
                      : has(d, "param")                         ? PARAM_WINDOW
                                                                : 0;
    int bytes = need_type(d, last_modifier(d));
    if (bytes != 8)
        unsupported(d);
    uint32_t place = result(d, operand(d, 0), 8), from = source(d, operand(d, 1), 8);
    emit_plain(d, window ? OP_window_of : OP_mov_b64, place, from, 0, 0)->imm =
        (int64_t)(to ? 0 - window : window);
}

static void decode_isspacep(struct decoder *d)
{
    uint64_t window = has(d, "shared") || has(d, "shared::cta") ? SHARED_WINDOW
                      : has(d, "local")                         ? LOCAL_WINDOW
                      : has(d, "param")                         ? PARAM_WINDOW
                      : has(d, "global")                        ? 0
                                                                : 1;
    if (window == 1)
        unsupported(d);
    uint32_t shifted = scratch(d);
    uint32_t place = result(d, operand(d, 0), 0), from = source(d, operand(d, 1), 8);
    emit_plain(d, OP_shr_u64, shifted, from, constant(d, WINDOW_SHIFT, 4), 0);
    emit_plain(d, OP_setp_eq_u64, place, shifted, constant(d, window >> WINDOW_SHIFT, 8), 0);
}

// ---- Instructions: conversion -------------------------------------------------------------------

static bool find_number(const char *type, enum number *number)
{
    static const struct {
        const char *name;
        enum number number;
    } numbers[] = {{"u8", NUMBER_U8},   {"u16", NUMBER_U16},   {"u32", NUMBER_U32},
                   {"u64", NUMBER_U64}, {"s8", NUMBER_S8},     {"s16", NUMBER_S16},
                   {"s32", NUMBER_S32}, {"s64", NUMBER_S64},   {"b8", NUMBER_U8},
                   {"b16", NUMBER_U16}, {"b32", NUMBER_U32},   {"b64", NUMBER_U64},
                   {"f16", NUMBER_F16}, {"bf16", NUMBER_BF16}, {"f32", NUMBER_F32},
                   {"f64", NUMBER_F64}, {"tf32", NUMBER_TF32}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i)
        if (!strcmp(numbers[i].name, type)) {
            *number = numbers[i].number;
            return true;
        }
    return false;
}

static void decode_convert(struct decoder *d)
{
    const char *from = last_modifier(d);
    const char *to = d->modifier_count > 1 ? d->modifier[d->modifier_count - 2] : "";
    struct conversion k = {0};
    if (!find_number(to, &k.to) || !find_number(from, &k.from))
        unsupported(d);
    bool to_float = k.to >= NUMBER_F16, from_float = k.from >= NUMBER_F16;
    for (int i = 0; i < d->modifier_count - 2; ++i) {
        const char *m = d->modifier[i];
        bool whole = m[0] == 'r' && strlen(m) == 3 && m[2] == 'i';
        if (m[0] == 'r' && (whole || strlen(m) == 2 || !strcmp(m, "rna"))) {
            k.to_integral = whole && to_float && from_float;
            k.rounding = m[1] == 'z'         ? ROUND_ZERO
                         : m[1] == 'm'       ? ROUND_DOWN
                         : m[1] == 'p'       ? ROUND_UP
                         : !strcmp(m, "rna") ? ROUND_AWAY
                                             : ROUND_NEAREST;
            if (!strchr("nzmp", m[1]))
                unsupported(d);
        } else if (!strcmp(m, "sat")) {
            k.saturate = true;
        } else if (!strcmp(m, "satfinite")) {
            k.finite = true;
        } else if (!strcmp(m, "ftz")) {
            k.ftz = true;
        } else if (!strcmp(m, "relu")) {
            k.relu = true;
        } else {
            unsupported(d);
        }
    }
    int from_bytes = need_type(d, from), to_bytes = need_type(d, to);
    uint32_t a = wide_source(d, operand(d, 1), from_bytes, &k.from_width);
    const struct operand *destination = operand(d, 0);
    if (destination->kind != OPERAND_REGISTER)
        unsupported(d);
    k.to_width = d->function->regs[destination->reg].bytes;
    if (k.to_width < (to_bytes == 1 ? 2 : to_bytes))
        fail(d, "the result of %s is too narrow", d->insn->opcode);
    // An operation of its own where the registers are just as wide as the types.
    char name[64];
    int used = snprintf(name, sizeof name, "cvt");
    for (int i = 0; i < d->modifier_count && used < (int)sizeof name; ++i)
        used += snprintf(name + used, sizeof name - (size_t)used, "_%s", d->modifier[i]);
    int id = used < (int)sizeof name ? op_find(name) : -1;
    if (k.from_width == from_bytes && k.to_width == to_bytes && id < 0 && !to_float &&
        !from_float && !k.saturate) {
        // Integers: widening goes by the source's sign, narrowing drops bits.
        const char *sign = from_bytes >= to_bytes || from[0] != 's' ? "u" : "s";
        snprintf(name, sizeof name, "cvt_%s%d_%s%d", sign, 8 * to_bytes, sign, 8 * from_bytes);
        id = from_bytes == to_bytes ? move_id(d, to_bytes) : op_find(name);
    }
    uint32_t place = d->slot[destination->reg];
    if (id >= 0 && k.from_width == from_bytes && k.to_width == to_bytes) {
        emit_plain(d, id, place, a, 0, 0);
        return;
    }
    struct conversion *copy = arena_alloc(&d->program->arena, sizeof *copy);
    *copy = k;
    struct op *op = emit(d, convert, 1 + k.to_width);
    op->d = place;
    op->a = a;
    op->regs = (const uint32_t *)copy;
}

// "f16x2" -> the type of its elements.
static bool find_pair(const char *type, enum number *number)
{
    static const struct {
        const char *name;
        enum number number;
    } pairs[] = {{"f16x2", NUMBER_F16},
                 {"bf16x2", NUMBER_BF16},
                 {"e4m3x2", NUMBER_E4M3},
                 {"e5m2x2", NUMBER_E5M2}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i)
        if (!strcmp(pairs[i].name, type)) {
            *number = pairs[i].number;
            return true;
        }
    return false;
}

static void decode_convert_pair(struct decoder *d)
{
    const char *from = last_modifier(d), *to = d->modifier[d->modifier_count - 2];
    struct conversion k = {0};
    bool single = !strcmp(from, "f32");
    if (!find_pair(to, &k.to) || (!single && !find_pair(from, &k.from)))
        unsupported(d);
    if (single)
        k.from = NUMBER_F32;
    for (int i = 0; i < d->modifier_count - 2; ++i) {
        const char *m = d->modifier[i];
        if (!strcmp(m, "rz") && single && k.to <= NUMBER_BF16)
            k.rounding = ROUND_ZERO;
        else if (!strcmp(m, "satfinite"))
            k.finite = true;
        else if (!strcmp(m, "relu"))
            k.relu = true;
        else if (strcmp(m, "rn"))
            unsupported(d);
    }
    k.to_width = k.to >= NUMBER_E4M3 ? 2 : 4;
    k.from_width = !single && k.from >= NUMBER_E4M3 ? 2 : 4;
    uint32_t place = result(d, operand(d, 0), k.to_width);
    uint32_t a = source(d, operand(d, 1), k.from_width), b = 0;
    if (single)
        b = source(d, operand(d, 2), 4);
    struct conversion *copy = arena_alloc(&d->program->arena, sizeof *copy);
    *copy = k;
    struct op *op = emit(d, convert_pair, 1 + k.to_width);
    op->d = place;
    op->a = a;
    op->b = b;
    op->regs = (const uint32_t *)copy;
}

static void decode_cvt(struct decoder *d)
{
    const char *to = d->modifier_count > 1 ? d->modifier[d->modifier_count - 2] : "";
    if (!strstr(to, "x2") && !strstr(last_modifier(d), "x2")) {
        decode_convert(d);
        return;
    }
    char name[96];
    int used = snprintf(name, sizeof name, "cvt");
    for (int i = 0; i < d->modifier_count && used < (int)sizeof name; ++i)
        used += snprintf(name + used, sizeof name - (size_t)used, "_%s", d->modifier[i]);
    int id = used < (int)sizeof name ? op_find(name) : -1;
    if (id < 0) {
        decode_convert_pair(d);
        return;
    }
    // The usual ones are in the list.
    const struct signature *s = &signatures[id];
    uint32_t place = result(d, operand(d, 0), s->plain - 1), a = source(d, operand(d, 1), s->a),
             b = 0;
    if (s->operands > 1)
        b = source(d, operand(d, 2), s->b);
    emit_plain(d, id, place, a, b, 0);
}

// ---- Instructions: memory -----------------------------------------------------------------------

static enum space memory_space(const struct decoder *d)
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
static void note_size(struct decoder *d, int bytes)
{
    int shift = __builtin_ctz((unsigned)bytes);
    if (shift < d->program->cell_shift)
        d->program->cell_shift = (uint8_t)shift;
}

static void decode_access(struct decoder *d, bool store)
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

static void decode_atomic(struct decoder *d, bool returns)
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
        regs[0] = result(d, operand(d, 0), bytes);
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

// ---- Instructions: between lanes ----------------------------------------------------------------

static void decode_shfl(struct decoder *d)
{
    int mode = has(d, "up") ? 0 : has(d, "down") ? 1 : has(d, "bfly") ? 2 : has(d, "idx") ? 3 : -1;
    if (mode < 0 || !has(d, "sync"))
        unsupported(d);
    uint32_t *regs = arena_alloc(&d->program->arena, 2 * sizeof *regs);
    const struct operand *to = operand(d, 0);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = result(d, to, 4), a = source(d, operand(d, 1), 4),
             b = source(d, operand(d, 2), 4);
    uint32_t c = source(d, operand(d, 3), 4);
    regs[1] = source(d, operand(d, 4), 4); // the members
    struct op *op = emit_plain(d, OP_shfl, place, a, b, c);
    op->regs = regs;
    op->imm = mode;
}

static void decode_vote(struct decoder *d)
{
    bool ballot = has(d, "ballot");
    int kind = ballot          ? VOTE_BALLOT
               : has(d, "all") ? VOTE_ALL
               : has(d, "any") ? VOTE_ANY
               : has(d, "uni") ? VOTE_UNI
                               : -1;
    if (kind < 0 || !has(d, "sync"))
        unsupported(d);
    uint32_t place = result(d, operand(d, 0), ballot ? 4 : 0);
    uint32_t p = source(d, operand(d, 1), 0), members = source(d, operand(d, 2), 4);
    struct op *op = emit(d, vote_op, 0);
    op->d = place;
    op->a = p;
    op->b = members;
    op->imm = kind;
}

static void decode_match(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    const struct operand *to = operand(d, 0);
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    regs[0] = to->pair >= 0 ? d->slot[to->pair] : NO_REGISTER;
    uint32_t place = result(d, to, 4), a = source(d, operand(d, 1), bytes),
             b = source(d, operand(d, 2), 4);
    struct op *op = emit(d, match_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->width = (uint8_t)bytes;
    op->imm = has(d, "all");
    op->regs = regs;
}

static void decode_redux(struct decoder *d)
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
    uint32_t place = result(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4),
             b = source(d, operand(d, 2), 4);
    struct op *op = emit(d, redux_op, 0);
    op->d = place;
    op->a = a;
    op->b = b;
    op->imm = what;
    op->is_signed = last_modifier(d)[0] == 's';
}

static void decode_elect(struct decoder *d)
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

static void decode_barrier(struct decoder *d)
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
        b->output = result(d, operand(d, 0), b->kind == BARRIER_POPC ? 4 : 0);
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

// ---- Instructions: asynchronous copies and mbarriers --------------------------------------------

static void decode_mbarrier(struct decoder *d)
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
        uint32_t place = result(d, operand(d, 0), 4), state = source(d, operand(d, 1), 8);
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
        place = result(d, operand(d, 0), 0);
    else if (returns && operand(d, 0)->kind != OPERAND_SINK)
        o->result = result(d, operand(d, 0), 8);
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

static void decode_copy(struct decoder *d)
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

static void decode_fence(struct decoder *d)
{
    if (has(d, "proxy")) {
        bool async = has(d, "async") || has(d, "async::generic");
        emit(d, async ? proxy_fence_op : nothing_op, 0);
        return;
    }
    emit(d, fence_op, 0)->imm = !has(d, "cta"); // membar.gl, fence…gpu, …sys
}

// ---- Instructions: matrices ---------------------------------------------------------------------

static bool matrix_type(const char *name, enum matrix_type *type)
{
    static const char *const names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2",
                                        "s8",  "u8",   "f32",  "s32",  "f64"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (!strcmp(names[i], name)) {
            *type = (enum matrix_type)i;
            return true;
        }
    return false;
}

static enum matrix_type need_matrix_type(struct decoder *d, const char *name)
{
    enum matrix_type type;
    if (!matrix_type(name, &type))
        unsupported(d);
    return type;
}

struct shape {
    int m, n, k;
};

static bool find_shape(const struct decoder *d, struct shape *shape, int *at)
{
    for (*at = 0; *at < d->modifier_count; ++*at) {
        char rest;
        if (sscanf(d->modifier[*at], "m%dn%dk%d%c", &shape->m, &shape->n, &shape->k, &rest) == 3)
            return true;
    }
    return false;
}

// Where the elements of a matrix ('a', 'b' or 'c') lie in `count` registers of a warp. The tiles
// of A go down its 16 rows and then along k, those of B along k and then to the next columns.
static void place_matrix(struct decoder *d, struct matrix *f, enum matrix_type type, char which,
                         struct shape s, int count)
{
    static const uint8_t bytes[] = {2, 2, 4, 1, 1, 1, 1, 4, 4, 8};
    f->type = type;
    f->bytes = bytes[type];
    f->per = (uint8_t)(f->bytes < 4 ? 4 / f->bytes : 1);
    f->step = which == 'c' ? 2 : f->per;
    int columns = which == 'c' ? s.n : s.k, rows = which == 'b' ? s.n : s.m;
    int across = columns / (4 * f->step), down = rows / 8;
    int registers = across * down * f->step / f->per;
    if (!across || !down || registers > 8 || count % registers || count > 8)
        unsupported(d);
    f->count = (uint8_t)count;
    f->distinct = (uint8_t)registers;
    int pair = f->step / f->per, high = down > 1 ? 2 : 1; // tiles in 16 rows
    for (int i = 0; i < count; ++i) {
        int tile = i % registers / pair, row, column;
        if (which == 'b') {
            column = tile % across;
            row = tile / across;
        } else {
            row = tile % high + 2 * (tile / (high * across));
            column = tile / high % across;
        }
        f->row[i] = (uint8_t)(8 * row);
        f->column[i] = (uint8_t)(4 * f->step * column + i % pair);
    }
}

static void matrix_operand(struct decoder *d, const struct operand *o, struct matrix *f,
                           enum matrix_type type, char which, struct shape s, bool to)
{
    bool one = o->kind == OPERAND_REGISTER;
    place_matrix(d, f, type, which, s, one ? 1 : o->kind == OPERAND_VECTOR ? o->count : 0);
    for (int i = 0; i < f->count; ++i) {
        const struct operand *e = one ? o : &o->elements[i];
        int bytes = type == MATRIX_F64 ? 8 : 4;
        f->regs[i] = to ? result(d, e, bytes) : source(d, e, bytes);
    }
}

// wmma's m8n32k16 is the machine's m32n8k16 on the transposed matrices: A takes B's part, and the
// accumulator's rows are its columns.
static bool flipped(struct shape *s)
{
    bool flip = s->m == 8 && s->n == 32;
    if (flip)
        *s = (struct shape){32, 8, s->k};
    return flip;
}

static void decode_wmma_memory(struct decoder *d, bool store)
{
    struct matrix_memory *m = arena_alloc(&d->program->arena, sizeof *m);
    struct shape s;
    int at;
    bool is_b = has(d, "b"), accumulator = has(d, "c") || has(d, "d");
    if (!find_shape(d, &s, &at))
        unsupported(d);
    bool flip = flipped(&s);
    char which = accumulator ? 'c' : is_b != flip ? 'b' : 'a';
    m->store = store;
    m->accumulator = accumulator;
    m->transposed = (is_b ? has(d, "row") : has(d, "col")) != (accumulator && flip);
    matrix_operand(d, operand(d, store ? 1 : 0), &m->matrix, need_matrix_type(d, last_modifier(d)),
                   which, s, !store);
    int natural = accumulator ? (flip != m->transposed ? s.m : s.n) : s.k;
    m->stride =
        d->insn->count > 2 ? source(d, operand(d, 2), 4) : constant(d, (uint64_t)natural, 4);
    enum space space = memory_space(d);
    uint32_t a;
    int64_t imm;
    uint8_t wide;
    set_address(d, operand(d, store ? 0 : 1), &a, &imm, &wide, &space);
    struct op *op = emit(d, wmma_move, 0);
    op->a = a;
    op->imm = imm;
    op->wide_address = wide;
    op->space = (uint8_t)space;
    op->regs = (const uint32_t *)m;
    note_size(d, m->matrix.bytes);
}

// mma.sync.aligned.shape.alayout.blayout{.satfinite}.dtype.atype.btype.ctype
// wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype{.rnd}{.satfinite}
static void decode_product(struct decoder *d)
{
    struct mma *t = arena_alloc(&d->program->arena, sizeof *t);
    struct shape s;
    enum matrix_type types[4];
    int at, count = 0;
    bool wmma = !strcmp(d->base, "wmma");
    if (!find_shape(d, &s, &at) || has(d, "sp") || (!wmma && (!has(d, "row") || !has(d, "col"))))
        unsupported(d);
    for (int i = at + 1; i < d->modifier_count; ++i) {
        const char *name = d->modifier[i];
        if (!strcmp(name, "row") || !strcmp(name, "col") || !strcmp(name, "rn") ||
            !strcmp(name, "satfinite"))
            continue;
        if (count == 4 || !matrix_type(name, &types[count++]))
            unsupported(d);
    }
    if (count == 2) { // f16 operands are not named
        types[3] = types[1];
        types[1] = types[2] = MATRIX_F16;
    } else if (count != 4) {
        unsupported(d);
    }
    bool integer = types[1] == MATRIX_S8 || types[1] == MATRIX_U8;
    bool twin = integer ? types[2] == MATRIX_S8 || types[2] == MATRIX_U8
                : types[1] == MATRIX_E4M3 || types[1] == MATRIX_E5M2
                    ? types[2] == MATRIX_E4M3 || types[2] == MATRIX_E5M2
                    : types[2] == types[1];
    for (int i = 0; i < 4; i += 3)
        twin &= integer                  ? types[i] == MATRIX_S32
                : types[1] == MATRIX_F64 ? types[i] == MATRIX_F64
                                         : types[i] == MATRIX_F32 || types[i] == MATRIX_F16;
    bool small = types[1] == MATRIX_F64 || integer; // m8n8k4 of f16 has Volta's layout
    if (!twin || types[1] == MATRIX_F32 || types[1] == MATRIX_S32 ||
        (s.m == 8 && s.n == 8 && !small))
        unsupported(d);
    if (types[1] == MATRIX_F64 && (s.m != 8 || s.k != 4))
        unsupported(d);
    bool flip = flipped(&s);
    t->m = s.m;
    t->n = s.n;
    t->k = s.k;
    t->saturate = has(d, "satfinite");
    matrix_operand(d, operand(d, 0), &t->d, types[0], 'c', s, true);
    matrix_operand(d, operand(d, 1), flip ? &t->b : &t->a, types[1], flip ? 'b' : 'a', s, false);
    matrix_operand(d, operand(d, 2), flip ? &t->a : &t->b, types[2], flip ? 'a' : 'b', s, false);
    matrix_operand(d, operand(d, 3), &t->c, types[3], 'c', s, false);
    emit_id(d, OP_mma)->regs = (const uint32_t *)t;
    // A machine instruction takes 32 bytes of k of 16 rows and 8 columns.
    int work = s.m * s.n * s.k * t->a.bytes, unit = 16 * 8 * 32;
    struct insn_info *info = &d->program->insns[d->program->insn_count - 1];
    info->tensor_flops = 2 * (uint32_t)(s.m * s.n * s.k);
    info->tensor_flops_8bit = t->a.bytes == 1 ? info->tensor_flops : 0;
    info->tensor_instructions = (uint32_t)((work + unit - 1) / unit);
}

// Registers that wgmma uses have numbers, from 0 on, so that a few words hold a set of them: those of
// the operand's vector.
static uint64_t *watched_set(struct decoder *d, const struct operand *o)
{
    uint64_t *set = arena_alloc(&d->program->arena, (size_t)(d->watched_words + 1) * sizeof *set);
    for (int i = 0; i < o->count; ++i) {
        int reg = o->elements[i].reg, number = reg >= 0 && d->watched ? d->watched[reg] : -1;
        if (number >= 0)
            set[number / 64] |= UINT64_C(1) << number % 64;
    }
    return set;
}

// wgmma.mma_async.sync.aligned.shape.dtype.atype.btype  d, a, b, scale-d, negate-a, negate-b,
// {transpose-a,} transpose-b
static void decode_wgmma(struct decoder *d)
{
    static const uint8_t bytes[] = {2, 2, 4, 1, 1};
    needs_arch(d, 90);
    if (!has(d, "mma_async")) {
        bool wait = has(d, "wait_group");
        if (wait && (operand(d, 0)->kind != OPERAND_IMMEDIATE || operand(d, 0)->value < 0))
            unsupported(d);
        emit(d, has(d, "fence") ? wgmma_fence_op : wgmma_group_op, 0)->imm =
            wait ? operand(d, 0)->value : -1;
        return;
    }
    struct wgmma *t = arena_alloc(&d->program->arena, sizeof *t);
    struct shape s;
    int at, next = 6;
    if (!find_shape(d, &s, &at) || at + 4 != d->modifier_count)
        unsupported(d);
    t->d_type = need_matrix_type(d, d->modifier[at + 1]);
    t->a_type = need_matrix_type(d, d->modifier[at + 2]);
    t->b_type = need_matrix_type(d, d->modifier[at + 3]);
    t->n = s.n;
    t->k = s.k;
    bool fp8 = t->a_type == MATRIX_E4M3 || t->a_type == MATRIX_E5M2;
    bool twin =
        fp8 ? t->b_type == MATRIX_E4M3 || t->b_type == MATRIX_E5M2
            : (t->a_type == MATRIX_F16 || t->a_type == MATRIX_BF16) && t->b_type == t->a_type;
    bool half = t->d_type == MATRIX_F16 && t->a_type != MATRIX_BF16;
    if (!twin || (!half && t->d_type != MATRIX_F32) || s.m != 64 || s.n < 8 || s.n > WGMMA_N ||
        s.n % 8 || s.k * bytes[t->a_type] != 32)
        unsupported(d);
    const struct operand *to = operand(d, 0), *a = operand(d, 1);
    t->d_count = s.n / (half ? 4 : 2);
    if (to->kind != OPERAND_VECTOR || to->count != t->d_count)
        fail(d, "%s needs %d accumulators", d->insn->opcode, t->d_count);
    for (int i = 0; i < t->d_count; ++i)
        t->d[i] = result(d, &to->elements[i], 4);
    t->a_desc = NO_REGISTER;
    if (a->kind == OPERAND_VECTOR) {
        if (a->count != 4)
            fail(d, "%s needs 4 registers of A", d->insn->opcode);
        for (int i = 0; i < 4; ++i)
            t->a[i] = source(d, &a->elements[i], 4);
    } else {
        t->a_desc = source(d, a, 8);
    }
    t->b_desc = source(d, operand(d, 2), 8);
    t->scale_d = source(d, operand(d, 3), 0);
    t->negate_a = operand(d, 4)->value < 0;
    t->negate_b = operand(d, 5)->value < 0;
    if (!fp8 && t->a_desc != NO_REGISTER)
        t->transposed_a = operand(d, next++)->value != 0;
    if (!fp8)
        t->transposed_b = operand(d, next)->value != 0;
    t->product = d->ops->wgmma;
    t->words = d->watched_words;
    t->d_set = watched_set(d, to);
    t->a_set = watched_set(d, a);
    emit(d, wgmma_op, 0)->regs = (const uint32_t *)t;
    note_size(d, 16);
    // Of a warp's part: a machine instruction of mma takes 32 bytes of k of 16 rows and 8 columns.
    struct insn_info *info = &d->program->insns[d->program->insn_count - 1];
    info->tensor_flops = 2 * 16 * (uint32_t)(s.n * s.k);
    info->tensor_instructions = (uint32_t)s.n / 8;
}

static void decode_setmaxnreg(struct decoder *d)
{
    const struct operand *count = operand(d, 0);
    needs_arch(d, 90);
    if (count->kind != OPERAND_IMMEDIATE || has(d, "inc") == has(d, "dec"))
        unsupported(d);
    if (count->value < 24 || count->value > 256 || count->value % 8)
        fail(d, "%s %lld: the count must be a multiple of 8 from 24 to 256", d->insn->opcode,
             (long long)count->value);
    struct op *op = emit(d, setmaxnreg_op, 0);
    op->imm = count->value;
    op->target = has(d, "inc");
}

static void decode_wmma(struct decoder *d)
{
    if (has(d, "load") || has(d, "store"))
        decode_wmma_memory(d, has(d, "store"));
    else
        decode_product(d);
}

static void decode_tiles(struct decoder *d)
{
    struct tiles *t = arena_alloc(&d->program->arena, sizeof *t);
    t->store = !strcmp(d->base, "stmatrix");
    if (t->store)
        needs_arch(d, 90);
    t->transposed = has(d, "trans");
    t->count = has(d, "x4") ? 4 : has(d, "x2") ? 2 : has(d, "x1") ? 1 : 0;
    const struct operand *value = operand(d, t->store ? 1 : 0);
    bool one = value->kind == OPERAND_REGISTER;
    enum space space = memory_space(d);
    if (!t->count || !has(d, "m8n8") || strcmp(last_modifier(d), "b16") ||
        (space != SPACE_SHARED && space != SPACE_GENERIC))
        unsupported(d);
    if (t->count != (one ? 1 : value->kind == OPERAND_VECTOR ? value->count : 0))
        fail(d, "%s needs %d registers", d->insn->opcode, t->count);
    for (int i = 0; i < t->count; ++i) {
        const struct operand *o = one ? value : &value->elements[i];
        t->regs[i] = t->store ? source(d, o, 4) : result(d, o, 4);
    }
    uint32_t a;
    int64_t imm;
    uint8_t wide;
    set_address(d, operand(d, t->store ? 0 : 1), &a, &imm, &wide, &space);
    struct op *op = emit(d, tiles_move, 0);
    op->a = a;
    op->imm = imm;
    op->wide_address = wide;
    op->space = (uint8_t)space;
    op->regs = (const uint32_t *)t;
    note_size(d, 16);
}

static void decode_movmatrix(struct decoder *d)
{
    if (!has(d, "m8n8") || !has(d, "trans") || strcmp(last_modifier(d), "b16"))
        unsupported(d);
    uint32_t to = result(d, operand(d, 0), 4), from = source(d, operand(d, 1), 4);
    struct op *op = emit(d, movmatrix_op, 0);
    op->d = to;
    op->a = from;
}

// ---- Instructions: control ----------------------------------------------------------------------

static int label_block(struct decoder *d, const char *name)
{
    const struct label *label = function_label(d->function, d->insn->scope, name);
    if (!label)
        fail(d, "label '%s' is not known", name);
    return (int)d->callee->block + d->block_of[label->insn];
}

static void decode_branch(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    if (to->kind != OPERAND_NAME)
        unsupported(d);
    struct op *op = emit(d, branch_op, 0);
    op->target = label_block(d, to->name);
}

static void decode_switch(struct decoder *d)
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
static op_fn *system_function(const struct function *f)
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

static void decode_call(struct decoder *d)
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

static void decode_stack(struct decoder *d)
{
    bool allocates = !strcmp(d->base, "alloca"), saves = !strcmp(d->base, "stacksave");
    uint32_t place = 0, from = 0;
    int64_t align = 8;
    if (strcmp(last_modifier(d), "u64"))
        unsupported(d);
    if (allocates || saves)
        place = result(d, operand(d, 0), 8);
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

// ---- Instructions: the switchboard --------------------------------------------------------------

static bool in_list(const char *word, const char *const *list)
{
    for (; *list; ++list)
        if (!strcmp(word, *list))
            return true;
    return false;
}

static void decode_insn(struct decoder *d)
{
    static const char *const nothing[] = {"prefetch", "prefetchu",     "pmevent", "griddepcontrol",
                                          "discard",  "applypriority", NULL};
    static const struct {
        const char *base;
        void (*decode)(struct decoder *);
    } table[] = {{"mov", decode_mov},
                 {"setp", decode_setp},
                 {"set", decode_set},
                 {"selp", decode_selp},
                 {"slct", decode_slct},
                 {"cvt", decode_cvt},
                 {"cvta", decode_cvta},
                 {"isspacep", decode_isspacep},
                 {"bfi", decode_bfi},
                 {"lop3", decode_lop3},
                 {"prmt", decode_prmt},
                 {"shfl", decode_shfl},
                 {"vote", decode_vote},
                 {"match", decode_match},
                 {"redux", decode_redux},
                 {"elect", decode_elect},
                 {"wmma", decode_wmma},
                 {"mma", decode_product},
                 {"wgmma", decode_wgmma},
                 {"setmaxnreg", decode_setmaxnreg},
                 {"ldmatrix", decode_tiles},
                 {"stmatrix", decode_tiles},
                 {"movmatrix", decode_movmatrix},
                 {"bra", decode_branch},
                 {"brx", decode_switch},
                 {"call", decode_call},
                 {"addc", decode_carry},
                 {"subc", decode_carry},
                 {"madc", decode_carry},
                 {"cp", decode_copy},
                 {"mbarrier", decode_mbarrier},
                 {"fence", decode_fence},
                 {"membar", decode_fence},
                 {"alloca", decode_stack},
                 {"stacksave", decode_stack},
                 {"stackrestore", decode_stack}};
    d->scratch_used = 0;
    const char *base = d->base;
    if (has(d, "cc")) {
        decode_carry(d);
        return;
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i)
        if (!strcmp(base, table[i].base)) {
            table[i].decode(d);
            return;
        }
    if (!strcmp(base, "ld") || !strcmp(base, "ldu")) {
        decode_access(d, false);
    } else if (!strcmp(base, "st")) {
        decode_access(d, true);
    } else if (!strcmp(base, "atom") || !strcmp(base, "red")) {
        decode_atomic(d, base[0] == 'a');
    } else if (!strcmp(base, "bar") && has(d, "warp")) {
        uint32_t members = source(d, operand(d, 0), 4);
        emit(d, warp_sync_op, 0)->b = members;
    } else if (!strcmp(base, "bar") || !strcmp(base, "barrier")) {
        decode_barrier(d);
    } else if (!strcmp(base, "activemask")) {
        emit(d, activemask_op, 0)->d = result(d, operand(d, 0), 4);
    } else if (!strcmp(base, "exit") || (!strcmp(base, "ret") && d->function->is_kernel)) {
        emit(d, exit_op, 0);
    } else if (!strcmp(base, "ret")) {
        emit(d, return_op, 0);
    } else if (!strcmp(base, "trap") || !strcmp(base, "brkpt")) {
        emit(d, trap_op, 0);
    } else if (!strcmp(base, "nanosleep")) {
        emit(d, nanosleep_op, 0);
    } else if (in_list(base, nothing)) {
        emit(d, nothing_op, 0);
    } else {
        if (!strcmp(last_modifier(d), "pred")) { // and.pred, not.pred: in the list as they are
            int id = find_parts(base, "pred", "");
            if (id < 0)
                unsupported(d);
            uint32_t to = result(d, operand(d, 0), 0), a = source(d, operand(d, 1), 0), b = 0;
            if (d->insn->count > 2)
                b = source(d, operand(d, 2), 0);
            emit_plain(d, id, to, a, b, 0);
            return;
        }
        decode_arithmetic(d);
    }
}

// ---- What an instruction is ---------------------------------------------------------------------

static enum op_class classify(const struct decoder *d)
{
    static const char *const mufu[] = {"ex2", "lg2", "rsqrt", "sin", "cos", "tanh", NULL};
    static const char *const branches[] = {"bra",  "brx",  "call",  "ret",
                                           "exit", "trap", "brkpt", NULL};
    static const char *const lanes[] = {"shfl",       "vote",  "match",     "redux",
                                        "activemask", "elect", "movmatrix", NULL};
    const char *base = d->base, *type = last_modifier(d);
    bool store = !strcmp(base, "st");
    if (store || !strcmp(base, "ld") || !strcmp(base, "ldu") || !strcmp(base, "ldmatrix") ||
        !strcmp(base, "stmatrix") || (!strcmp(base, "wmma") && !has(d, "mma"))) {
        store |= has(d, "store") || !strcmp(base, "stmatrix");
        switch (memory_space(d)) {
        case SPACE_SHARED: return store ? CLASS_SHARED_STORE : CLASS_SHARED_LOAD;
        case SPACE_LOCAL: return CLASS_LOCAL;
        case SPACE_PARAM: return d->function->is_kernel ? CLASS_CONST : CLASS_LOCAL;
        case SPACE_CONST: return CLASS_CONST;
        default: return store ? CLASS_GLOBAL_STORE : CLASS_GLOBAL_LOAD;
        }
    }
    if (!strcmp(base, "wmma") || !strcmp(base, "mma") || has(d, "mma_async"))
        return CLASS_TENSOR;
    if (!strcmp(base, "wgmma") || !strcmp(base, "setmaxnreg"))
        return CLASS_OTHER;
    if (!strcmp(base, "atom") || !strcmp(base, "red"))
        return CLASS_ATOMIC;
    if (in_list(base, branches))
        return CLASS_BRANCH;
    if (in_list(base, lanes))
        return CLASS_SHUFFLE;
    if (!strcmp(base, "bar") || !strcmp(base, "barrier") || !strcmp(base, "mbarrier"))
        return CLASS_BARRIER;
    if (!strcmp(base, "cp"))
        return CLASS_COPY_ASYNC;
    if (!strcmp(base, "cvt"))
        return CLASS_CONVERT;
    if (!strcmp(base, "mov") || !strcmp(base, "selp") || !strcmp(base, "slct") ||
        !strcmp(base, "cvta"))
        return CLASS_MOVE;
    if (in_list(base, mufu) ||
        ((!strcmp(base, "rcp") || !strcmp(base, "sqrt")) && has(d, "approx")))
        return CLASS_MUFU;
    if (strstr(type, "f16"))
        return CLASS_HALF;
    if (!strcmp(type, "f32"))
        return CLASS_FP32;
    if (!strcmp(type, "f64"))
        return CLASS_FP64;
    if (!strcmp(base, "membar") || !strcmp(base, "fence") || !strcmp(base, "nanosleep"))
        return CLASS_OTHER;
    return CLASS_INT;
}

static enum sync_kind sync_of(const struct decoder *d)
{
    if ((!strcmp(d->base, "bar") || !strcmp(d->base, "barrier")) && !has(d, "warp"))
        return SYNC_BARRIER;
    if (has(d, "sync"))
        return SYNC_MEMBERS;
    return SYNC_NONE;
}

static bool ends_block(const struct decoder *d)
{
    static const char *const enders[] = {"bra",  "brx",  "call",  "ret",
                                         "exit", "trap", "brkpt", NULL};
    return in_list(d->base, enders);
}

// ---- Liveness and places ------------------------------------------------------------------------

typedef void visit_fn(struct decoder *d, int reg, bool defines, void *data);

static void visit_operand(struct decoder *d, const struct operand *o, bool defines, visit_fn *visit,
                          void *data)
{
    for (int i = 0; i < o->count; ++i) // of a vector, or the coordinates of an address
        visit_operand(d, &o->elements[i], defines && o->kind == OPERAND_VECTOR, visit, data);
    if (o->reg >= 0)
        visit(d, o->reg, defines && o->kind != OPERAND_ADDRESS, data);
    if (o->pair >= 0)
        visit(d, o->pair, defines, data);
}

// Every register an instruction names; uses first.
static void visit_registers(struct decoder *d, const struct insn *insn, visit_fn *visit, void *data)
{
    static const char *const without[] = {
        "st",    "red",       "bra",     "brx",      "ret",          "exit",
        "call",  "membar",    "fence",   "prefetch", "prefetchu",    "trap",
        "brkpt", "nanosleep", "pmevent", "stmatrix", "stackrestore", NULL};
    split_opcode(d, insn->opcode);
    bool barrier = !strcmp(d->base, "bar") || !strcmp(d->base, "barrier");
    bool defines = !in_list(d->base, without) && !(barrier && !has(d, "red")) &&
                   !(!strcmp(d->base, "wmma") && has(d, "store"));
    for (int i = defines ? 1 : 0; i < insn->count; ++i)
        visit_operand(d, &insn->operands[i], false, visit, data);
    if (insn->guard >= 0)
        visit(d, insn->guard, false, data);
    if (defines && insn->count) {
        if (insn->guard >= 0 || has(d, "mma_async")) // keeps its value where the guard is off
            visit_operand(d, &insn->operands[0], false, visit, data);
        visit_operand(d, &insn->operands[0], true, visit, data);
    }
}

struct flow_block {
    size_t first, end; // instructions
    int next[2];       // -1: none
    const struct label *many;
    bool exits;
    enum sync_kind sync;
    uint64_t *use, *def, *in;
};

struct interval {
    int reg;
    size_t start, end;
};

struct liveness {
    struct flow_block *block;
    struct interval *intervals; // by register
    size_t at;
};

static void note_local(struct decoder *d, int reg, bool defines, void *data)
{
    (void)d;
    struct flow_block *b = ((struct liveness *)data)->block;
    uint64_t bit = UINT64_C(1) << (reg & 63);
    if (defines)
        b->def[reg >> 6] |= bit;
    else if (!(b->def[reg >> 6] & bit))
        b->use[reg >> 6] |= bit;
}

static void stretch(struct interval *i, size_t at)
{
    if (at < i->start)
        i->start = at;
    if (at > i->end || i->end == SIZE_MAX)
        i->end = at;
}

static void note_interval(struct decoder *d, int reg, bool defines, void *data)
{
    (void)d, (void)defines;
    struct liveness *l = data;
    stretch(&l->intervals[reg], l->at);
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start ? 1 : x->reg - y->reg;
}

// Blocks of the function: d->block_of and the list returned.
static struct flow_block *find_blocks(struct decoder *d, size_t *count)
{
    struct function *f = d->function;
    size_t n = f->insn_count;
    bool *leader = arena_alloc(&d->temporary, (n + 2) * sizeof *leader);
    enum sync_kind *sync = arena_alloc(&d->temporary, (n + 1) * sizeof *sync);
    leader[0] = true;
    for (size_t i = 0; i < f->label_count; ++i)
        leader[f->labels[i].insn] = true;
    for (size_t i = 0; i < n; ++i) {
        split_opcode(d, f->insns[i].opcode);
        sync[i] = sync_of(d);
        if (sync[i])
            leader[i] = true;
        if (sync[i] == SYNC_BARRIER || ends_block(d))
            leader[i + 1] = true;
    }
    size_t blocks = 0;
    for (size_t i = 0; i < n; ++i)
        blocks += leader[i];
    struct flow_block *list = arena_alloc(&d->temporary, (blocks + 1) * sizeof *list);
    d->block_of = arena_alloc(&d->temporary, (n + 1) * sizeof *d->block_of);
    size_t at = 0;
    for (size_t i = 0; i <= n; ++i) {
        if (i < n && leader[i]) {
            list[at].first = i;
            list[at].sync = sync[i];
            at++;
        }
        d->block_of[i] =
            i < n ? (int)at - 1 : (int)blocks; // a label at the very end: the last exit
        if (at)
            list[at - 1].end = i < n ? i + 1 : n;
    }
    *count = blocks;
    for (size_t b = 0; b < blocks; ++b) {
        const struct insn *last = &f->insns[list[b].end - 1];
        split_opcode(d, last->opcode);
        bool falls = last->guard >= 0 || !ends_block(d) || !strcmp(d->base, "call");
        list[b].next[0] = falls && b + 1 < blocks ? (int)b + 1 : -1;
        list[b].next[1] = -1;
        list[b].exits = !falls;
        const struct operand *o = last->count ? &last->operands[0] : NULL;
        if (!strcmp(d->base, "bra") && o && o->kind == OPERAND_NAME) {
            const struct label *label = function_label(f, last->scope, o->name);
            d->insn = last;
            if (!label)
                fail(d, "label '%s' is not known", o->name);
            if (label->insn < n)
                list[b].next[1] = d->block_of[label->insn];
        } else if (!strcmp(d->base, "brx") && last->count > 1 &&
                   last->operands[1].kind == OPERAND_NAME) {
            list[b].many = function_label(f, last->scope, last->operands[1].name);
        }
    }
    return list;
}

static bool merge_in(uint64_t *out, const struct flow_block *from, size_t words)
{
    bool changed = false;
    for (size_t i = 0; i < words; ++i) {
        uint64_t more = from->in[i] & ~out[i];
        out[i] |= more;
        changed |= more != 0;
    }
    return changed;
}

static void live_out(struct decoder *d, struct flow_block *blocks, const struct flow_block *b,
                     uint64_t *out, size_t words)
{
    memset(out, 0, words * sizeof *out);
    for (int k = 0; k < 2; ++k)
        if (b->next[k] >= 0)
            merge_in(out, &blocks[b->next[k]], words);
    for (int k = 0; b->many && b->many->targets && k < b->many->target_count; ++k) {
        const struct label *label =
            function_label(d->function, b->many->scope, b->many->targets[k]);
        if (label && label->insn < d->function->insn_count)
            merge_in(out, &blocks[d->block_of[label->insn]], words);
    }
}

// Numbers the registers that the function's wgmma use. Called functions are not watched: nvcc makes
// them inline.
static void number_watched(struct decoder *d)
{
    struct function *f = d->function;
    int numbers = 0;
    d->watched = NULL;
    d->watched_words = 0;
    for (size_t i = 0; i < f->insn_count; ++i) {
        const struct insn *insn = &f->insns[i];
        if (strncmp(insn->opcode, "wgmma.mma_async", 15) || insn->count < 2)
            continue;
        if (!d->watched) {
            d->watched = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *d->watched);
            d->accumulates = arena_alloc(&d->temporary, f->reg_count + 1);
            memset(d->watched, 0xff, (f->reg_count + 1) * sizeof *d->watched);
        }
        for (int k = 0; k < 2; ++k) // D, and A if it is in registers
            for (int e = 0; e < insn->operands[k].count; ++e) {
                int reg = insn->operands[k].elements[e].reg;
                if (reg < 0)
                    continue;
                d->accumulates[reg] |= k == 0;
                if (d->watched[reg] < 0)
                    d->watched[reg] = numbers++;
            }
    }
    if (f->is_kernel)
        d->watched_words = (numbers + 63) / 64;
}

static void allocate_registers(struct decoder *d, struct flow_block *blocks, size_t count)
{
    struct function *f = d->function;
    size_t words = (f->reg_count + 63) / 64;
    uint64_t *bits = arena_alloc(&d->temporary, ((3 * count + 1) * words + 1) * sizeof *bits);
    uint64_t *out = bits;
    struct interval *intervals = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *intervals);
    for (size_t b = 0; b < count; ++b) {
        blocks[b].use = bits + (3 * b + 1) * words;
        blocks[b].def = bits + (3 * b + 2) * words;
        blocks[b].in = bits + (3 * b + 3) * words;
        struct liveness l = {.block = &blocks[b]};
        for (size_t i = blocks[b].first; i < blocks[b].end; ++i)
            visit_registers(d, &f->insns[i], note_local, &l);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t b = count; b-- > 0;) {
            live_out(d, blocks, &blocks[b], out, words);
            for (size_t i = 0; i < words; ++i) {
                uint64_t in = blocks[b].use[i] | (out[i] & ~blocks[b].def[i]);
                changed |= in != blocks[b].in[i];
                blocks[b].in[i] = in;
            }
        }
    }
    for (size_t i = 0; i < f->reg_count; ++i)
        intervals[i] = (struct interval){(int)i, SIZE_MAX, SIZE_MAX};
    for (size_t b = 0; b < count; ++b) {
        live_out(d, blocks, &blocks[b], out, words);
        for (size_t i = 0; i < f->reg_count; ++i) {
            if (blocks[b].in[i >> 6] >> (i & 63) & 1)
                stretch(&intervals[i], blocks[b].first);
            if (out[i >> 6] >> (i & 63) & 1)
                stretch(&intervals[i], blocks[b].end);
        }
        for (size_t i = blocks[b].first; i < blocks[b].end; ++i) {
            struct liveness l = {.intervals = intervals, .at = i};
            visit_registers(d, &f->insns[i], note_interval, &l);
        }
    }
    for (size_t i = 0; i < f->reg_count && d->watched; ++i)
        if (d->accumulates[i]) // written at some wait: its place is its own
            intervals[i] = (struct interval){(int)i, 0, f->insn_count};
    d->slot = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *d->slot);
    for (size_t i = 0; i < f->reg_count; ++i)
        d->slot[i] = d->scratch_at; // never named
    qsort(intervals, f->reg_count, sizeof *intervals, by_start);
    // Free places by size: predicates, 2, 4, 8 and 16 bytes.
    struct place {
        struct place *next;
        uint32_t at;
        size_t busy_until;
    } * places[5] = {0};
    for (size_t i = 0; i < f->reg_count && intervals[i].start != SIZE_MAX; ++i) {
        const struct interval *v = &intervals[i];
        int bytes = f->regs[v->reg].bytes;
        int size = bytes ? __builtin_ctz((unsigned)bytes) : 0;
        struct place *place = places[size];
        while (place && place->busy_until >= v->start)
            place = place->next;
        if (!place) {
            place = arena_alloc(&d->temporary, sizeof *place);
            place->next = places[size];
            places[size] = place;
            place->at = bytes ? take(d, (size_t)bytes * WARP, 64) : take(d, 4, 4);
        }
        place->busy_until = v->end;
        d->slot[v->reg] = place->at;
    }
}

// ---- Functions and programs ---------------------------------------------------------------------

static void add_block(struct decoder *d, const struct flow_block *flow)
{
    struct program *p = d->program;
    p->blocks = array_grow(p->blocks, p->block_count, &d->block_capacity, sizeof *p->blocks);
    struct basic_block *b = &p->blocks[p->block_count++];
    *b = (struct basic_block){.first = (uint32_t)p->op_count, .insn = (uint32_t)p->insn_count};
    if (flow) {
        b->sync = (uint8_t)flow->sync;
        b->ends_flow = flow->exits;
    }
}

static void add_insn(struct decoder *d, const struct insn *insn)
{
    struct program *p = d->program;
    if (!(p->insn_count & (p->insn_count - 1))) {
        size_t capacity = p->insn_count ? 2 * p->insn_count : 1;
        p->insns = realloc(p->insns, capacity * sizeof *p->insns);
        if (!p->insns)
            abort();
    }
    d->insn = insn;
    split_opcode(d, insn->opcode);
    enum op_class class = classify(d);
    p->insns[p->insn_count++] = (struct insn_info){
        .at = insn->at,
        .opcode = insn->opcode,
        .ptx_line = insn->ptx_line,
        .op_class = (uint8_t) class,
        .mufu = class == CLASS_MUFU,
        .barrier = class == CLASS_BARRIER && !has(d, "warp") && strcmp(d->base, "mbarrier"),
        .store = !strcmp(d->base, "st") || !strcmp(d->base, "stmatrix") || has(d, "store"),
    };
}

struct watching {
    struct watch watch;
    size_t capacity;
    uint32_t insn;
};

static void note_watched(struct decoder *d, int reg, bool defines, void *data)
{
    struct watching *n = data;
    struct watch *w = &n->watch;
    int number = d->watched[reg];
    if (number < 0)
        return;
    uint64_t bit = UINT64_C(1) << number % 64;
    if (defines)
        w->written[number / 64] |= bit;
    if (!d->accumulates[reg])
        return;
    w->touched[number / 64] |= bit;
    w->uses = array_grow(w->uses, (size_t)w->count, &n->capacity, sizeof *w->uses);
    w->uses[w->count++] = (struct watch_use){number, n->insn};
}

// Emits what tells of the instructions from `first` up to the next wgmma, or to the end, which of the
// watched registers they use; returns the instruction where the next such stretch begins.
static size_t watch_stretch(struct decoder *d, size_t first, size_t end, uint32_t insn)
{
    struct function *f = d->function;
    struct watching n = {.watch.words = d->watched_words, .insn = insn};
    uint64_t *sets = arena_alloc(&d->program->arena, 2 * (size_t)d->watched_words * sizeof *sets);
    n.watch.touched = sets;
    n.watch.written = sets + d->watched_words;
    size_t at = first;
    bool any = false;
    for (; at < end && strncmp(f->insns[at].opcode, "wgmma.", 6); ++at, ++n.insn)
        if (f->insns[at].guard < 0) // with a guard it may not be executed
            visit_registers(d, &f->insns[at], note_watched, &n);
    split_opcode(d, d->insn->opcode);
    for (int i = 0; i < d->watched_words; ++i)
        any |= n.watch.touched[i] | n.watch.written[i];
    if (any) {
        struct watch *watch = arena_alloc(&d->program->arena, sizeof *watch);
        *watch = n.watch;
        watch->uses =
            arena_alloc(&d->program->arena, (size_t)(watch->count + 1) * sizeof *watch->uses);
        if (watch->count)
            memcpy(watch->uses, n.watch.uses, (size_t)watch->count * sizeof *watch->uses);
        struct op *op = emit(d, watch_op, 0);
        op->run = watch_op; // whatever the guard of the instruction here
        op->inner = NULL;
        op->regs = (const uint32_t *)watch;
    }
    free(n.watch.uses);
    return at < end ? at + 1 : end;
}

static void decode_function(struct decoder *d, struct callee *callee)
{
    static const struct insn leave = {.opcode = "ret", .guard = -1};
    struct program *p = d->program;
    struct function *f = callee->function;
    d->callee = callee;
    d->function = f;
    d->frame = FRAME_FIXED;
    d->constant_count = 0;
    d->scratch_at = take(d, SCRATCH_SLOTS * SCRATCH_BYTES + 64, 64);
    size_t count;
    struct flow_block *blocks = find_blocks(d, &count);
    number_watched(d);
    allocate_registers(d, blocks, count);
    callee->block = (uint32_t)p->block_count;
    callee->constants_at = take(d, 0, 64);
    size_t first_op = p->op_count;
    for (size_t b = 0; b < count; ++b) {
        add_block(d, &blocks[b]);
        if (d->call_end) {
            d->insn = &leave; // whatever the call's guard was
            emit(d, call_end_op, 0)->regs = (const uint32_t *)d->call_end;
            d->call_end = NULL;
        }
        size_t watched = blocks[b].first;
        for (size_t i = blocks[b].first; i < blocks[b].end; ++i) {
            add_insn(d, &f->insns[i]);
            bool leads =
                blocks[b].sync && i == blocks[b].first; // must be the block's first operation
            if (d->watched_words && i >= watched && !leads)
                watched = watch_stretch(d, i, blocks[b].end, (uint32_t)(p->insn_count - 1));
            decode_insn(d);
            if (d->watched_words && i >= watched && leads)
                watched = watch_stretch(d, i, blocks[b].end, (uint32_t)(p->insn_count - 1));
            p->blocks[p->block_count - 1].insns++;
        }
        p->blocks[p->block_count - 1].count =
            (uint32_t)(p->op_count - p->blocks[p->block_count - 1].first);
    }
    // Falling off the end, and labels there, return.
    d->call_end = NULL;
    add_block(d, NULL);
    add_insn(d, &leave);
    decode_insn(d);
    p->blocks[p->block_count - 1].count = 1;
    p->blocks[p->block_count - 1].insns = 0;
    p->blocks[p->block_count - 1].ends_flow = true;
    // Constants lie together at the end of the frame.
    callee->frame_bytes = take(d, 0, 256);
    callee->constant_bytes = callee->frame_bytes - callee->constants_at;
    callee->constants = arena_alloc(&p->arena, callee->constant_bytes + 1);
    for (size_t i = 0; i < d->constant_count; ++i) {
        const struct constant *c = &d->constants[i];
        char *to = callee->constants + (c->at - callee->constants_at);
        for (int lane = 0; lane < (c->bytes ? WARP : 1); ++lane)
            memcpy(to + lane * c->bytes, &c->value, c->bytes ? c->bytes : 4);
        p->constants =
            array_grow(p->constants, p->constant_count, &d->place_capacity, sizeof *p->constants);
        p->constants[p->constant_count++] =
            (struct constant_place){c->at, (uint16_t)(callee - p->callees), c->bytes};
    }
    for (size_t i = first_op; i < p->op_count; ++i) {
        op_fn *run = p->ops[i].inner ? p->ops[i].inner : p->ops[i].run;
        if (run == call_op)
            ((struct call_operands *)p->ops[i].regs)->frame_bytes = (uint32_t)callee->frame_bytes;
    }
}

static void add_callee(struct decoder *d, struct function *f)
{
    struct program *p = d->program;
    for (size_t i = 0; i < p->callee_count; ++i)
        if (p->callees[i].function == f)
            return;
    if (!f->has_body && !strncmp(f->name, "cuda", 4))
        fail(d, "calls %s: dynamic parallelism is not supported", f->name);
    if (!f->has_body && (!strcmp(f->name, "malloc") || !strcmp(f->name, "free")))
        fail(d, "calls %s: allocating memory in device code is not supported", f->name);
    if (!f->has_body)
        fail(d, "function '%s' has no body", f->name);
    if (p->callee_count == 1024)
        fail(d, "more than 1024 functions");
    p->callees[p->callee_count++] = (struct callee){.function = f};
}

static void find_names(struct decoder *d, const struct operand *o)
{
    if (o->kind == OPERAND_VECTOR)
        for (int i = 0; i < o->count; ++i)
            find_names(d, &o->elements[i]);
    if (o->kind != OPERAND_NAME || special_find(o->name) >= 0 ||
        function_variable(d->function, d->insn->scope, o->name))
        return;
    struct function *f = module_function(d->module, o->name);
    if (f && !system_function(f))
        add_callee(d, f);
}

// The functions that can be reached, and what their variables take.
static void collect(struct decoder *d)
{
    struct program *p = d->program;
    p->callees = arena_alloc(&p->arena, 1024 * sizeof *p->callees);
    p->shared_bytes = d->kernel->info.static_shared_bytes;
    add_callee(d, d->kernel->function);
    // Functions in initialised tables can be called too.
    for (size_t i = 0; i < d->module->variable_count; ++i)
        for (struct relocation *r = d->module->variables[i]->relocations; r; r = r->next) {
            struct function *f = module_function(d->module, r->name);
            if (f && f->has_body)
                add_callee(d, f);
        }
    for (size_t c = 0; c < p->callee_count; ++c) {
        struct function *f = d->function = p->callees[c].function;
        for (size_t i = 0; i < f->insn_count; ++i) {
            const struct insn *insn = d->insn = &f->insns[i];
            for (int k = 0; k < insn->count && strncmp(insn->opcode, "bra", 3); ++k)
                find_names(d, &insn->operands[k]);
        }
        size_t local = 0;
        for (size_t i = 0; i < f->variable_count; ++i) {
            struct variable *v = f->variables[i];
            if (v->space == SPACE_SHARED && c && !v->dynamic) {
                v->offset = (p->shared_bytes + v->align - 1) & ~(v->align - 1);
                p->shared_bytes = v->offset + v->size;
            } else if (is_local(d, v)) {
                v->offset = local = (local + v->align - 1) & ~(v->align - 1);
                local += v->size;
            }
        }
        p->callees[c].local_bytes = (local + 15) & ~(size_t)15;
    }
}

static void decode_program(struct decoder *d)
{
    struct program *p = d->program;
    p->cell_shift = 2;
    collect(d);
    for (size_t c = 0; c < p->callee_count; ++c)
        decode_function(d, &p->callees[c]);
    bool calls = p->callee_count > 1;
    for (size_t c = 0; c < p->callee_count; ++c) {
        p->file_bytes += p->callees[c].frame_bytes;
        p->local_bytes += p->callees[c].local_bytes;
    }
    if (calls) { // room for recursion
        size_t room = 0, depth = 64;
        for (size_t c = 1; c < p->callee_count; ++c)
            room = p->callees[c].frame_bytes > room ? p->callees[c].frame_bytes : room;
        p->file_bytes += depth * room;
        p->local_bytes += 4096;
    }
    if (p->has_alloca)
        p->local_bytes += 16384;
    p->local_bytes = (p->local_bytes + 15) & ~(size_t)15;
}

static bool decode_guarded(struct decoder *d)
{
    if (setjmp(d->failed))
        return false;
    decode_program(d);
    return true;
}

struct program *program_decode(struct kernel *kernel, char *why, size_t size)
{
    if (kernel->function->unsupported[0]) {
        snprintf(why, size, "%s", kernel->function->unsupported);
        return NULL;
    }
    struct program *p = calloc(1, sizeof *p);
    struct decoder *d = calloc(1, sizeof *d);
    if (!p || !d)
        abort();
    p->kernel = kernel;
    *d = (struct decoder){.program = p,
                          .module = kernel->function->module,
                          .kernel = kernel,
                          .ops = ops_choose(),
                          .why = why,
                          .why_size = size};
    bool good = decode_guarded(d);
    arena_free(&d->temporary);
    free(d->constants);
    free(d);
    if (!good) {
        program_free(p);
        return NULL;
    }
    return p;
}

void program_free(struct program *p)
{
    if (!p)
        return;
    free(p->ops);
    free(p->blocks);
    free(p->insns);
    free(p->constants);
    arena_free(&p->arena);
    free(p);
}

void module_free(struct module *module)
{
    if (!module)
        return;
    for (size_t i = 0; module->kernels && i < module->kernel_count; ++i)
        program_free(module->kernels[i].program);
    for (size_t i = 0; i < module->variable_count; ++i)
        if (module->variables[i]->address)
            memory_free(module->variables[i]->address);
    for (size_t i = 0; i < module->function_count; ++i) {
        free(module->functions[i]->regs);
        free(module->functions[i]->insns);
        free(module->functions[i]->labels);
        free(module->functions[i]->outer);
        free(module->functions[i]->variables);
    }
    free(module->functions);
    free(module->variables);
    arena_free(&module->arena);
    free(module);
}
