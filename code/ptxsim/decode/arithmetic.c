// arithmetic.c: arithmetic, logic, comparison and selection (PTX ISA, "Integer Arithmetic",
// "Extended-Precision Integer Arithmetic", "Floating Point", "Half Precision Floating Point",
// "Comparison and Selection", "Half Precision Comparison" and "Logic and Shift Instructions").
#include "internal.h"

#include <stdio.h>
#include <string.h>

// ---- Arithmetic ---------------------------------------------------------------------------------

static bool is_half(enum modifier type)
{
    return modifier_types[type].op_class == CLASS_HALF;
}

static bool is_float(enum modifier type)
{
    return modifier_types[type].op_class != CLASS_INT;
}

static enum rounding rounding_of(const struct decoder *d)
{
    return has(d, MOD_rz)   ? ROUND_ZERO
           : has(d, MOD_rm) ? ROUND_DOWN
           : has(d, MOD_rp) ? ROUND_UP
                            : ROUND_NEAREST;
}

// Appends '_' and a word to a name; false if they do not fit.
static bool add_word(char *name, size_t size, const char *word)
{
    size_t used = strlen(name);
    return (size_t)snprintf(name + used, size - used, "_%s", word) < size - used;
}

// The operation for an opcode, for example "fma_ftz_f32" for fma.rn.ftz.sat.f32. Names of float
// operations omit .sat and, if `rounds` is true, the rounding; .ftz stands before the type.
static int find_arithmetic(const struct decoder *d, const char *base, bool rounds)
{
    const struct spelling *s = d->spelling;
    char name[160];
    snprintf(name, sizeof name, "%s", base);
    bool floats = is_float(last_modifier(d)), fits = true;
    for (int i = 0; i < s->count && fits; ++i) {
        enum modifier m = s->modifier[i];
        if (i == s->count - 1 && has(d, MOD_ftz))
            fits = add_word(name, sizeof name, "ftz");
        bool mode = m == MOD_rn || m == MOD_rz || m == MOD_rm || m == MOD_rp;
        if (!(mode && floats && rounds) && !(m == MOD_sat && floats) && m != MOD_ftz)
            fits = fits && add_word(name, sizeof name, s->word[i]);
    }
    return fits ? op_find(name) : -1;
}

// Emits the operation `id` of operations.def; its signature tells how many operands it takes, and
// of how many bytes.
static struct op *emit_listed(struct decoder *d, int id)
{
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
    return emit_plain(d, id, to, a, b, c);
}

static void run_rounded(struct decoder *d, struct op *op, int id, enum rounding rounding)
{
    op_fn **run = arena_alloc(&d->program->arena, sizeof *run);
    *run = d->ops->run[id];
    op->operands = run;
    op->rounding = rounding;
    *(op->run == guarded_op ? &op->inner : &op->run) = rounded_op;
}

// Finds the operation by name, and emits it; `base` stands for the opcode's first part. rounds:
// whether float operations heed the opcode's rounding.
static void decode_by_name(struct decoder *d, const char *base, bool rounds)
{
    enum modifier type = last_modifier(d);
    int id = find_arithmetic(d, base, rounds);
    struct op *op = emit_listed(d, id);
    uint32_t to = op->d;
    if (rounds && is_float(type) && rounding_of(d) != ROUND_NEAREST)
        run_rounded(d, op, id, rounding_of(d));
    if (is_float(type) && has(d, MOD_sat)) {
        int sat = find_parts("sat", modifier_names[type], "");
        if (sat < 0)
            unsupported(d);
        emit_plain(d, sat, to, to, 0, 0);
    }
}

void decode_arithmetic(struct decoder *d)
{
    decode_by_name(d, d->spelling->base, false);
}

void decode_rounded(struct decoder *d)
{
    decode_by_name(d, d->spelling->base, true);
}

void decode_mad(struct decoder *d) // mad of floats is fma
{
    decode_by_name(d, is_float(last_modifier(d)) ? "fma" : "mad", true);
}

// ---- With a carry, bit fields -------------------------------------------------------------------

// Emits the sum or difference of two values, with the carry that the instruction before has left
// (addc, subc, madc), and leaves a carry for the next one (.cc). The carry has its own slot in the
// frame: 0 or 1 for each lane.
static void emit_carry(struct decoder *d, uint32_t to, uint32_t a, uint32_t b, bool subtract)
{
    bool wide = need_type(d, last_modifier(d)) == 8, in = d->spelling->base[3] == 'c';
    uint32_t carry = d->scratch_at + SCRATCH_SLOTS * SCRATCH_BYTES;
    uint32_t before = in ? carry : constant(d, subtract, 4), after = in ? scratch(d) : carry;
    if (has(d, MOD_cc))
        emit_plain(d,
                   subtract ? (wide ? OP_carried_sub_u64 : OP_carried_sub_u32)
                            : (wide ? OP_carried_add_u64 : OP_carried_add_u32),
                   after, a, b, before);
    emit_plain(d,
               subtract ? (wide ? OP_carry_sub_u64 : OP_carry_sub_u32)
                        : (wide ? OP_carry_add_u64 : OP_carry_add_u32),
               to, a, b, before);
    if (has(d, MOD_cc) && in)
        emit_plain(d, OP_mov_b32, carry, after, 0, 0);
}

static void decode_carry(struct decoder *d, bool subtract)
{
    int bytes = need_type(d, last_modifier(d));
    uint32_t to = destination(d, operand(d, 0), bytes);
    uint32_t a = source(d, operand(d, 1), bytes), b = source(d, operand(d, 2), bytes);
    emit_carry(d, to, a, b, subtract);
}

void decode_add_carry(struct decoder *d)
{
    decode_carry(d, false);
}

void decode_subtract_carry(struct decoder *d)
{
    decode_carry(d, true);
}

void decode_multiply_carry(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    uint32_t to = destination(d, operand(d, 0), bytes);
    uint32_t a = source(d, operand(d, 1), bytes), b = source(d, operand(d, 2), bytes);
    int id = find_parts("mul", has(d, MOD_hi) ? "hi" : "lo", modifier_names[last_modifier(d)]);
    if (id < 0)
        unsupported(d);
    uint32_t product = scratch(d);
    emit_plain(d, id, product, a, b, 0);
    emit_carry(d, to, product, source(d, operand(d, 3), bytes), false);
}

// mul24.hi, mad24.hi{.sat}: bits 16 to 47 of the product of the lower 24 bits.
void decode_multiply_24_high(struct decoder *d)
{
    enum modifier type = last_modifier(d);
    bool is_signed = type == MOD_s32, adds = d->spelling->base[1] == 'a', sat = has(d, MOD_sat);
    if ((!is_signed && type != MOD_u32) || d->insn->count != 3 + adds ||
        (sat && !(adds && is_signed)) || d->spelling->count != 2 + sat)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 4), eight = constant(d, 8, 4), part[2];
    uint32_t product = scratch(d), high = scratch(d);
    for (int i = 0; i < 2; ++i) {
        part[i] = scratch(d);
        emit_plain(d, OP_shl_b32, part[i], source(d, operand(d, 1 + i), 4), eight, 0);
        emit_plain(d, is_signed ? OP_shr_s32 : OP_shr_u32, part[i], part[i], eight, 0);
    }
    emit_plain(d, is_signed ? OP_mul_wide_s32 : OP_mul_wide_u32, product, part[0], part[1], 0);
    emit_plain(d, OP_shr_u64, product, product, constant(d, 16, 4), 0);
    emit_plain(d, OP_part_32_of_64, adds ? high : to, product, 0, 0)->imm = 0;
    if (adds)
        emit_plain(d, sat ? OP_add_sat_s32 : OP_add_u32, to, high, source(d, operand(d, 3), 4), 0);
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

// ---- Logic and shift ----------------------------------------------------------------------------

void decode_logic(struct decoder *d)
{
    if (last_modifier(d) != MOD_pred) {
        decode_arithmetic(d);
        return;
    }
    int id = find_parts(d->spelling->base, "pred", "");
    if (id < 0)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 0), a = source(d, operand(d, 1), 0), b = 0;
    if (d->insn->count > 2)
        b = source(d, operand(d, 2), 0);
    emit_plain(d, id, to, a, b, 0);
}

static enum modifier unsigned_type(enum modifier type)
{
    return type == MOD_b16 ? MOD_u16 : type == MOD_b32 ? MOD_u32 : type == MOD_b64 ? MOD_u64 : type;
}

void decode_shift_right(struct decoder *d) // shr.b32 fills with zeros
{
    if (d->spelling->count != 1)
        unsupported(d);
    enum modifier type = unsigned_type(last_modifier(d));
    emit_listed(d, find_parts("shr", modifier_names[type], ""));
}

// ---- Comparison ---------------------------------------------------------------------------------

// For a comparison of halves: widens the operand at *place to f32, where the comparison is exact.
// part 1: the upper half of a pair.
static void widen(struct decoder *d, enum modifier type, int part, uint32_t *place)
{
    bool pair = is_pair(type);
    int id = type == MOD_f16 || type == MOD_f16x2 ? OP_cvt_f32_f16 : OP_cvt_f32_bf16;
    uint32_t wide = scratch(d);
    if (pair) {
        uint32_t half = scratch(d);
        emit_plain(d, OP_part_16_of_32, half, *place, 0, 0)->imm = 16 * part;
        *place = half;
    }
    emit_plain(d, id, wide, *place, 0, 0);
    *place = wide;
}

static int comparison_id(const struct decoder *d, enum modifier type)
{
    const char *compare = d->spelling->count ? d->spelling->word[0] : "";
    switch (modifier_at(d, 0)) {
    case MOD_lo: compare = "lt"; break;
    case MOD_ls: compare = "le"; break;
    case MOD_hi: compare = "gt"; break;
    case MOD_hs: compare = "ge"; break;
    default: break;
    }
    if (is_half(type))
        return has(d, MOD_ftz) ? -1 : find_parts("setp", compare, "f32");
    char of[16];
    snprintf(of, sizeof of, "%s%s", has(d, MOD_ftz) ? "ftz_" : "",
             modifier_names[unsigned_type(type)]);
    return find_parts("setp", compare, of);
}

static int combination_id(struct decoder *d)
{
    if (has(d, MOD_and))
        return OP_and_pred;
    if (has(d, MOD_or))
        return OP_or_pred;
    if (has(d, MOD_xor))
        return OP_xor_pred;
    unsupported(d);
}

// The comparison of operands 1 and 2 in setp and set, combined with a predicate if the opcode has
// one. `yes` gets the place of the result; `no`, unless NULL, the place of the result for the
// negated comparison.
static void decode_comparison(struct decoder *d, enum modifier type, int part, uint32_t *yes,
                              uint32_t *no)
{
    int id = comparison_id(d, type);
    if (id < 0)
        unsupported(d);
    int bytes = need_type(d, type);
    uint32_t a = source(d, operand(d, 1), bytes), b = source(d, operand(d, 2), bytes);
    if (is_half(type)) {
        widen(d, type, part, &a);
        widen(d, type, part, &b);
    }
    uint32_t compared = *yes = scratch(d);
    emit_plain(d, id, compared, a, b, 0);
    if (d->insn->count <= 3) {
        if (no)
            emit_plain(d, OP_not_pred, *no = scratch(d), compared, 0, 0);
        return;
    }
    int combine = combination_id(d);
    uint32_t with = source(d, operand(d, 3), 0);
    if (no) {
        uint32_t inverse = *no = scratch(d);
        emit_plain(d, OP_not_pred, inverse, compared, 0, 0);
        emit_plain(d, combine, inverse, inverse, with, 0);
    }
    emit_plain(d, combine, compared, compared, with, 0);
}

void decode_setp(struct decoder *d)
{
    const struct operand *to = operand(d, 0);
    enum modifier type = last_modifier(d);
    bool simple = to->pair < 0 && d->insn->count == 3 && !is_half(type);
    uint32_t yes, no;
    if (is_pair(type)) { // a predicate for each half
        if (to->pair < 0)
            unsupported(d);
        decode_comparison(d, type, 0, &yes, NULL);
        decode_comparison(d, type, 1, &no, NULL);
    } else {
        decode_comparison(d, type, 0, &yes, to->pair >= 0 ? &no : NULL);
    }
    uint32_t place = destination(d, to, 0);
    if (simple) {
        // Lets the operation write the predicate itself.
        d->program->ops[d->program->op_count - 1].d = place;
        return;
    }
    emit_plain(d, OP_mov_pred, place, yes, 0, 0);
    if (to->pair >= 0)
        emit_plain(d, OP_mov_pred, d->slot[to->pair], no, 0, 0);
}

// The bits that set writes for "true": 1.0, or all ones.
static uint64_t true_bits(enum modifier type)
{
    switch (type) {
    case MOD_f32: return 0x3f800000;
    case MOD_f16:
    case MOD_f16x2: return 0x3c00;
    case MOD_bf16:
    case MOD_bf16x2: return 0x3f80;
    default: return UINT64_MAX;
    }
}

void decode_set(struct decoder *d)
{
    if (d->spelling->count < 3)
        unsupported(d);
    enum modifier type = last_modifier(d), to = modifier_at(d, d->spelling->count - 2);
    uint32_t yes;
    int bytes = need_type(d, to);
    uint64_t one = true_bits(to);
    if (is_pair(type)) {
        uint32_t value[2];
        for (int part = 0; part < 2; ++part) {
            decode_comparison(d, type, part, &yes, NULL);
            emit_plain(d, OP_selp_b16, value[part] = scratch(d), constant(d, one, 2),
                       constant(d, 0, 2), yes);
        }
        emit_plain(d, OP_pack_2x16, destination(d, operand(d, 0), 4), value[0], value[1], 0);
        return;
    }
    decode_comparison(d, type, 0, &yes, NULL);
    emit_plain(d, bytes == 2 ? OP_selp_b16 : OP_selp_b32, destination(d, operand(d, 0), bytes),
               constant(d, one, bytes), constant(d, 0, bytes), yes);
}

// ---- Selection ----------------------------------------------------------------------------------

void decode_selp(struct decoder *d)
{
    int bytes = need_type(d, last_modifier(d));
    int id = bytes == 2 ? OP_selp_b16 : bytes == 4 ? OP_selp_b32 : OP_selp_b64;
    uint32_t to = destination(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 0);
    emit_plain(d, id, to, a, b, c);
}

void decode_slct(struct decoder *d) // slct{.ftz}.type.{s32,f32}
{
    const struct spelling *s = d->spelling;
    if (s->count - has(d, MOD_ftz) != 2)
        unsupported(d);
    char type[8];
    int bytes = need_type(d, modifier_at(d, s->count - 2));
    snprintf(type, sizeof type, "b%d", 8 * bytes);
    int id = find_parts("slct", type, s->word[s->count - 1]);
    if (id < 0)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), bytes), a = source(d, operand(d, 1), bytes);
    uint32_t b = source(d, operand(d, 2), bytes), c = source(d, operand(d, 3), 4);
    emit_plain(d, id, to, a, b, c);
}
