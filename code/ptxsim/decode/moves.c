// moves.c: moves and conversions.
#include "internal.h"

#include <stdio.h>
#include <string.h>

// ---- moves ------------------------------------------------------------------------

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
            halves[i] = destination(d, &to->elements[i], 8);
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
            emit_plain(d, id, destination(d, &to->elements[i], part == 1 ? 2 : part), from, 0, 0)
                ->imm = 8 * part * i;
}

static void decode_pack(struct decoder *d, const struct operand *from, int bytes)
{
    int part = bytes / from->count;
    uint32_t to = destination(d, operand(d, 0), bytes);
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

void decode_mov(struct decoder *d)
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
        op->d = destination(d, to, bytes);
        op->a = source(d, from, bytes);
    } else {
        uint32_t place = destination(d, to, bytes);
        uint32_t value = source(d, from, bytes);
        if (from->kind == OPERAND_NAME && d->scratch_used) // %tid.x: straight into the register
            d->program->ops[d->program->op_count - 1].d = place;
        else
            emit_plain(d, move_id(d, bytes), place, value, 0, 0);
    }
}

void decode_cvta(struct decoder *d)
{
    bool to = has(d, "to");
    uint64_t window = has(d, "shared") || has(d, "shared::cta") ? SHARED_WINDOW
                      : has(d, "local")                         ? LOCAL_WINDOW
                      : has(d, "param")                         ? PARAM_WINDOW
                                                                : 0;
    int bytes = need_type(d, last_modifier(d));
    if (bytes != 8)
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), 8), from = source(d, operand(d, 1), 8);
    emit_plain(d, window ? OP_window_of : OP_mov_b64, place, from, 0, 0)->imm =
        (int64_t)(to ? 0 - window : window);
}

void decode_isspacep(struct decoder *d)
{
    uint64_t window = has(d, "shared") || has(d, "shared::cta") ? SHARED_WINDOW
                      : has(d, "local")                         ? LOCAL_WINDOW
                      : has(d, "param")                         ? PARAM_WINDOW
                      : has(d, "global")                        ? 0
                                                                : 1;
    if (window == 1)
        unsupported(d);
    uint32_t shifted = scratch(d);
    uint32_t place = destination(d, operand(d, 0), 0), from = source(d, operand(d, 1), 8);
    emit_plain(d, OP_shr_u64, shifted, from, constant(d, WINDOW_SHIFT, 4), 0);
    emit_plain(d, OP_setp_eq_u64, place, shifted, constant(d, window >> WINDOW_SHIFT, 8), 0);
}

// ---- conversion -------------------------------------------------------------------

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
    uint32_t place = destination(d, operand(d, 0), k.to_width);
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

void decode_cvt(struct decoder *d)
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
    uint32_t place = destination(d, operand(d, 0), s->plain - 1),
             a = source(d, operand(d, 1), s->a), b = 0;
    if (s->operands > 1)
        b = source(d, operand(d, 2), s->b);
    emit_plain(d, id, place, a, b, 0);
}
