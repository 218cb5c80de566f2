// arithmetic.c: arithmetic, comparison and selection.
#include "internal.h"

#include <stdio.h>
#include <string.h>

// ---- arithmetic -------------------------------------------------------------------

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

void decode_arithmetic(struct decoder *d)
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
    uint32_t to = destination(d, operand(d, 0), s->plain - 1);
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

void decode_carry(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    bool product = !strcmp(d->base, "mad") || !strcmp(d->base, "madc");
    uint32_t to = destination(d, operand(d, 0), bytes);
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

void decode_bfi(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    uint32_t *regs = arena_alloc(&d->program->arena, sizeof *regs);
    uint32_t to = destination(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 4);
    regs[0] = source(d, operand(d, 4), 4);
    emit_plain(d, bytes == 8 ? OP_bfi_b64 : OP_bfi_b32, to, a, b, c)->regs = regs;
}

void decode_lop3(struct decoder *d)
{
    const struct operand *table = operand(d, 4);
    if (table->kind != OPERAND_IMMEDIATE || d->insn->count != 5)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4);
    uint32_t b = source(d, operand(d, 2), 4), c = source(d, operand(d, 3), 4);
    emit_plain(d, OP_lop3_b32, to, a, b, c)->imm = table->value;
}

void decode_prmt(struct decoder *d)
{
    char name[32];
    snprintf(name, sizeof name, "prmt_b32%s%s", d->modifier_count > 1 ? "_" : "",
             d->modifier_count > 1 ? d->modifier[1] : "");
    int id = op_find(name);
    if (id < 0)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 4), a = source(d, operand(d, 1), 4);
    uint32_t b = source(d, operand(d, 2), 4), c = source(d, operand(d, 3), 4);
    emit_plain(d, id, to, a, b, c);
}

// ---- comparison and selection -----------------------------------------------------

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

void decode_setp(struct decoder *d)
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
    uint32_t place = destination(d, to, 0);
    if (simple) {
        d->program->ops[d->program->op_count - 1].d = place; // straight into the predicate
        return;
    }
    emit_plain(d, OP_mov_pred, place, yes, 0, 0);
    if (to->pair >= 0)
        emit_plain(d, OP_mov_pred, d->slot[to->pair], no, 0, 0);
}

void decode_set(struct decoder *d)
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
        emit_plain(d, OP_pack_2x16, destination(d, operand(d, 0), 4), value[0], value[1], 0);
        return;
    }
    decode_comparison(d, source_type, 1, 0, &yes, NULL);
    uint64_t one = !strcmp(result_type, "f32")    ? 0x3f800000
                   : !strcmp(result_type, "f16")  ? 0x3c00
                   : !strcmp(result_type, "bf16") ? 0x3f80
                                                  : UINT64_MAX;
    emit_plain(d, bytes == 2 ? OP_selp_b16 : OP_selp_b32, destination(d, operand(d, 0), bytes),
               constant(d, one, bytes), constant(d, 0, bytes), yes);
}

void decode_selp(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    int id = bytes == 2 ? OP_selp_b16 : bytes == 4 ? OP_selp_b32 : OP_selp_b64;
    uint32_t to = destination(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 0);
    emit_plain(d, id, to, a, b, c);
}

void decode_slct(struct decoder *d)
{
    char name[32];
    drop_modifier(d, "ftz");
    int bytes = d->modifier_count == 2 ? need_type(d, d->modifier[0]) : -1;
    snprintf(name, sizeof name, "slct_b%d_%s", 8 * bytes, last_modifier(d));
    int id = op_find(name);
    if (id < 0)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 4);
    emit_plain(d, id, to, a, b, c);
}
