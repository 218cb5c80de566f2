// moves.c: moves and conversions: mov, cvta, isspacep, cvt (PTX ISA, "Data Movement and Conversion
// Instructions"; vectors in mov pack and unpack).
#include "internal.h"

#include <stdio.h>

// ---- Moves --------------------------------------------------------------------------------------

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
        // The operation that reads %tid.x or the like writes the destination itself.
        if (from->kind == OPERAND_NAME && d->scratch_used)
            d->program->ops[d->program->op_count - 1].d = place;
        else
            emit_plain(d, move_id(d, bytes), place, value, 0, 0);
    }
}

// The beginning, in generic addresses, of the space that the opcode names; 0 for global memory.
static uint64_t window_of(const struct decoder *d)
{
    return memory_space(d) == SPACE_SHARED ? SHARED_WINDOW
           : has(d, MOD_local)             ? LOCAL_WINDOW
           : has(d, MOD_param)             ? PARAM_WINDOW
                                           : 0;
}

void decode_cvta(struct decoder *d)
{
    uint64_t window = window_of(d);
    if (need_type(d, last_modifier(d)) != 8)
        unsupported(d);
    uint32_t place = destination(d, operand(d, 0), 8), from = source(d, operand(d, 1), 8);
    emit_plain(d, window ? OP_window_of : OP_mov_b64, place, from, 0, 0)->imm =
        (int64_t)(has(d, MOD_to) ? 0 - window : window);
}

// mapa{.shared::cluster} to, address, rank: the address of the same offset in another CTA of the
// cluster.
void decode_mapa(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    needs_arch(d, 90);
    uint32_t rank = source(d, operand(d, 2), 4), from = source(d, operand(d, 1), bytes);
    uint32_t place = destination(d, operand(d, 0), bytes);
    struct op *op = emit(d, mapa_op, 0);
    op->d = place;
    op->a = from;
    op->b = rank;
    op->bytes = (uint8_t)bytes;
}

void decode_getctarank(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    needs_arch(d, 90);
    uint32_t place = destination(d, operand(d, 0), 4), from = source(d, operand(d, 1), bytes);
    struct op *op = emit(d, getctarank_op, 1 + 4);
    op->d = place;
    op->a = from;
    op->bytes = (uint8_t)bytes;
}

void decode_isspacep(struct decoder *d)
{
    uint64_t window = window_of(d);
    if (!window && !has(d, MOD_global))
        unsupported(d);
    uint32_t shifted = scratch(d);
    uint32_t place = destination(d, operand(d, 0), 0), from = source(d, operand(d, 1), 8);
    if (window == SHARED_WINDOW && !has(d, MOD_shared_cluster)) {
        struct op *op = emit(d, isspacep_cta_op, 1);
        op->d = place;
        op->a = from;
        return;
    }
    emit_plain(d, OP_shr_u64, shifted, from, constant(d, WINDOW_SHIFT, 4), 0);
    emit_plain(d, OP_setp_eq_u64, place, shifted, constant(d, window >> WINDOW_SHIFT, 8), 0);
}

// ---- Conversions --------------------------------------------------------------------------------

// The type `to` of cvt{.how}.to.from.
static enum modifier result_type(const struct decoder *d)
{
    return modifier_at(d, d->spelling->count - 2);
}

// Reads a rounding: .rn and the like, or .rni and the like, which round to an integer and set
// *whole.
static bool find_rounding(enum modifier m, enum rounding *rounding, bool *whole)
{
    *whole = m == MOD_rni || m == MOD_rzi || m == MOD_rmi || m == MOD_rpi;
    switch (m) {
    case MOD_rn:
    case MOD_rni: *rounding = ROUND_NEAREST; return true;
    case MOD_rz:
    case MOD_rzi: *rounding = ROUND_ZERO; return true;
    case MOD_rm:
    case MOD_rmi: *rounding = ROUND_DOWN; return true;
    case MOD_rp:
    case MOD_rpi: *rounding = ROUND_UP; return true;
    case MOD_rna: *rounding = ROUND_AWAY; return true;
    default: return false;
    }
}

// Reads the types of a conversion, and all modifiers before them; fails on an unknown modifier.
static struct conversion conversion_of(struct decoder *d)
{
    int to = modifier_types[result_type(d)].number, from = modifier_types[last_modifier(d)].number;
    if (to == NUMBER_NONE || from == NUMBER_NONE)
        unsupported(d);
    struct conversion k = {.to = (enum number)to, .from = (enum number)from};
    bool floats = k.to >= NUMBER_F16 && k.from >= NUMBER_F16;
    for (int i = 0; i < d->spelling->count - 2; ++i) {
        enum modifier m = d->spelling->modifier[i];
        bool whole;
        if (find_rounding(m, &k.rounding, &whole))
            k.to_integral = whole && floats;
        else if (m == MOD_sat)
            k.saturate = true;
        else if (m == MOD_satfinite)
            k.finite = true;
        else if (m == MOD_ftz)
            k.ftz = true;
        else if (m == MOD_relu)
            k.relu = true;
        else
            unsupported(d);
    }
    return k;
}

// The operation for a conversion between registers that are exactly as wide as the types; -1: there
// is none.
static int conversion_id(struct decoder *d, const struct conversion *k, int to_bytes,
                         int from_bytes)
{
    int id = find_spelled(d);
    if (id >= 0 || k->to >= NUMBER_F16 || k->from >= NUMBER_F16 || k->saturate)
        return id;
    // Widening an integer depends on the sign of the source's type; narrowing drops bits.
    if (from_bytes == to_bytes)
        return move_id(d, to_bytes);
    char to[8], from[8];
    char sign = from_bytes < to_bytes && is_signed(d) ? 's' : 'u';
    snprintf(to, sizeof to, "%c%d", sign, 8 * to_bytes);
    snprintf(from, sizeof from, "%c%d", sign, 8 * from_bytes);
    return find_parts("cvt", to, from);
}

static void emit_conversion(struct decoder *d, op_fn *run, const struct conversion *k, uint32_t to,
                            uint32_t a, uint32_t b)
{
    struct conversion *copy = arena_alloc(&d->program->arena, sizeof *copy);
    *copy = *k;
    struct op *op = emit(d, run, 1 + k->to_width);
    op->d = to;
    op->a = a;
    op->b = b;
    op->operands = copy;
}

static void decode_convert(struct decoder *d)
{
    struct conversion k = conversion_of(d);
    int from_bytes = need_type(d, last_modifier(d)), to_bytes = need_type(d, result_type(d));
    uint32_t a = wide_source(d, operand(d, 1), from_bytes, &k.from_width);
    const struct operand *to = operand(d, 0);
    if (to->kind != OPERAND_REGISTER)
        unsupported(d);
    k.to_width = d->function->regs[to->reg].bytes;
    if (k.to_width < (to_bytes == 1 ? 2 : to_bytes))
        fail(d, "the result of %s is too narrow", d->insn->opcode);
    int id = -1;
    if (k.from_width == from_bytes && k.to_width == to_bytes)
        id = conversion_id(d, &k, to_bytes, from_bytes);
    if (id >= 0)
        emit_plain(d, id, d->slot[to->reg], a, 0, 0);
    else
        emit_conversion(d, convert, &k, d->slot[to->reg], a, 0);
}

// Converts two numbers at once, from two f32 operands or from one operand that holds both.
static void decode_convert_pair(struct decoder *d)
{
    bool single = last_modifier(d) == MOD_f32;
    int to = modifier_types[result_type(d)].pair;
    int from = single ? (int)NUMBER_F32 : modifier_types[last_modifier(d)].pair;
    if (to == NUMBER_NONE || from == NUMBER_NONE)
        unsupported(d);
    struct conversion k = {.to = (enum number)to, .from = (enum number)from};
    for (int i = 0; i < d->spelling->count - 2; ++i) {
        enum modifier m = d->spelling->modifier[i];
        if (m == MOD_rz && single && k.to <= NUMBER_BF16)
            k.rounding = ROUND_ZERO;
        else if (m == MOD_satfinite)
            k.finite = true;
        else if (m == MOD_relu)
            k.relu = true;
        else if (m != MOD_rn)
            unsupported(d);
    }
    k.to_width = k.to >= NUMBER_E4M3 ? 2 : 4;
    k.from_width = !single && k.from >= NUMBER_E4M3 ? 2 : 4;
    uint32_t place = destination(d, operand(d, 0), k.to_width);
    uint32_t a = source(d, operand(d, 1), k.from_width), b = 0;
    if (single)
        b = source(d, operand(d, 2), 4);
    emit_conversion(d, convert_pair, &k, place, a, b);
}

// cvt.pack.sat.TYPE.s32{.b32} to, a, b{, c}: clamps a and b to the type and packs them, b in the
// lowest bits. If the type has fewer than 16 bits, c fills the bits above.
static void decode_convert_pack(struct decoder *d)
{
    static const char *const types[] = {"u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"};
    int type = -1, size = 0, takes_c = d->spelling->count == 5;
    for (int i = 0; i < 8; ++i)
        if (is_word(d, 2, types[i]))
            size = 2 << (type = i) / 2;
    if (type < 0 || !is_word(d, 1, "sat") || !is_word(d, 3, "s32") || takes_c == (size == 16) ||
        (takes_c && !is_word(d, 4, "b32")) || d->insn->count != 3 + takes_c)
        unsupported(d);
    bool is_signed = type % 2;
    uint64_t most = (UINT64_C(1) << (size - is_signed)) - 1;
    uint32_t to = destination(d, operand(d, 0), 4), all = scratch(d), part[2];
    for (int i = 0; i < 2; ++i) {
        part[i] = scratch(d);
        emit_plain(d, OP_min_s32, part[i], source(d, operand(d, 1 + i), 4), constant(d, most, 4),
                   0);
        emit_plain(d, OP_max_s32, part[i], part[i], constant(d, is_signed ? ~most : 0, 4), 0);
        emit_plain(d, OP_and_b32, part[i], part[i], constant(d, (UINT64_C(1) << size) - 1, 4), 0);
    }
    emit_plain(d, OP_shl_b32, all, part[0], constant(d, (uint64_t)size, 4), 0);
    emit_plain(d, OP_or_b32, takes_c ? all : to, all, part[1], 0);
    if (!takes_c)
        return;
    uint32_t above = scratch(d);
    emit_plain(d, OP_shl_b32, above, source(d, operand(d, 3), 4), constant(d, 2u * size, 4), 0);
    emit_plain(d, OP_or_b32, to, all, above, 0);
}

void decode_cvt(struct decoder *d)
{
    if (is_word(d, 0, "pack")) {
        decode_convert_pack(d);
        return;
    }
    if (!is_pair(result_type(d)) && !is_pair(last_modifier(d))) {
        decode_convert(d);
        return;
    }
    int id = find_spelled(d);
    if (id < 0) {
        decode_convert_pair(d);
        return;
    }
    // Common conversions have an operation in operations.def.
    const struct signature *s = &signatures[id];
    uint32_t place = destination(d, operand(d, 0), s->plain - 1),
             a = source(d, operand(d, 1), s->a), b = 0;
    if (s->operands > 1)
        b = source(d, operand(d, 2), s->b);
    emit_plain(d, id, place, a, b, 0);
}
