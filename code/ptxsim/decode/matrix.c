// matrix.c: matrices of a warp: wmma, mma, ldmatrix, stmatrix, movmatrix (PTX ISA, "Warp Level
// Matrix Multiply-Accumulate Instructions"); of a warpgroup: wgmma ("Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate Instructions"); setmaxnreg ("Miscellaneous Instructions").
#include "internal.h"

#include <stdio.h>
#include <string.h>

// ---- Types, shapes and places -------------------------------------------------------------------

static enum matrix_type need_matrix_type(struct decoder *d, enum modifier m)
{
    int type = modifier_types[m].matrix;
    if (type == MATRIX_NONE)
        unsupported(d);
    return (enum matrix_type)type;
}

struct shape need_shape(struct decoder *d, int *at)
{
    struct shape s;
    char rest;
    for (*at = 0; *at < d->spelling->count; ++*at)
        if (sscanf(d->spelling->word[*at], "m%dn%dk%d%c", &s.m, &s.n, &s.k, &rest) == 3)
            return s;
    unsupported(d);
}

// Sets which elements of a matrix ('a', 'b' or 'c') the `count` registers of each lane hold. The
// 8-row tiles of A and C go down 16 rows and then to the next columns; the tiles of B, of 8
// columns, go along k and then to the next columns.
static void place_matrix(struct decoder *d, struct matrix *f, enum matrix_type type, char which,
                         struct shape s, int count)
{
    static const uint8_t bytes[] = {2, 2, 4, 1, 1, 1, 1, 4, 4, 8, 1, 1, 1};
    f->type = type;
    f->bytes = bytes[type];
    f->per = (uint8_t)(f->bytes < 4 ? 4 / f->bytes : 1);
    f->step = which == 'c' ? 2 : f->per;
    int columns = which == 'c' ? s.n : s.k, rows = which == 'b' ? s.n : s.m;
    int across = columns / (4 * f->step), down = rows / 8;
    int registers = across * down * f->step / f->per;
    if (!across || !down || registers < 1 || registers > 8 || count % registers || count > 8)
        unsupported(d);
    f->count = (uint8_t)count;
    f->distinct = (uint8_t)registers;
    int pair = f->step / f->per, high = down > 1 ? 2 : 1; // high: tiles in 16 rows
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

void matrix_operand(struct decoder *d, const struct operand *o, struct matrix *f,
                    enum matrix_type type, char which, struct shape s, bool to)
{
    bool one = o->kind == OPERAND_REGISTER;
    place_matrix(d, f, type, which, s, one ? 1 : o->kind == OPERAND_VECTOR ? o->count : 0);
    for (int i = 0; i < f->count; ++i) {
        const struct operand *e = one ? o : &o->elements[i];
        int bytes = type == MATRIX_F64 ? 8 : 4;
        f->regs[i] = to ? destination(d, e, bytes) : source(d, e, bytes);
    }
}

// ---- wmma and mma -------------------------------------------------------------------------------

// Turns wmma's m8n32k16 into m32n8k16 of the transposed matrices and returns true: A and B change
// places, and the accumulator's rows become its columns. Leaves other shapes, and returns false.
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
    int at;
    bool is_b = has(d, MOD_b), accumulator = has(d, MOD_c) || has(d, MOD_d);
    struct shape s = need_shape(d, &at);
    bool flip = flipped(&s);
    char which = accumulator ? 'c' : is_b != flip ? 'b' : 'a';
    m->store = store;
    m->accumulator = accumulator;
    m->transposed = has(d, is_b ? MOD_row : MOD_col) != (accumulator && flip);
    matrix_operand(d, operand(d, store ? 1 : 0), &m->matrix, need_matrix_type(d, last_modifier(d)),
                   which, s, !store);
    int natural = accumulator ? (flip != m->transposed ? s.m : s.n) : s.k;
    m->stride =
        d->insn->count > 2 ? source(d, operand(d, 2), 4) : constant(d, (uint64_t)natural, 4);
    struct address address = address_operand(d, operand(d, store ? 0 : 1), memory_space(d));
    struct op *op = emit(d, wmma_move, 0);
    set_address(op, &address);
    op->operands = m;
    note_size(d, m->matrix.bytes);
}

void decode_wmma_load(struct decoder *d)
{
    decode_wmma_memory(d, false);
}

void decode_wmma_store(struct decoder *d)
{
    decode_wmma_memory(d, true);
}

void product_types(struct decoder *d, int shape_at, enum matrix_type types[4])
{
    int count = 0;
    for (int i = shape_at + 1; i < d->spelling->count; ++i) {
        enum modifier m = d->spelling->modifier[i];
        if (m == MOD_row || m == MOD_col || m == MOD_rn || m == MOD_satfinite || m == MOD_and ||
            m == MOD_xor || m == MOD_popc)
            continue;
        if (count == 4)
            unsupported(d);
        types[count++] = need_matrix_type(d, m);
    }
    if (count == 2) {
        types[3] = types[1];
        types[1] = types[2] = MATRIX_F16;
    } else if (count != 4) {
        unsupported(d);
    }
}

int integer_bits(enum matrix_type type)
{
    return type == MATRIX_S8 || type == MATRIX_U8   ? 8
           : type == MATRIX_S4 || type == MATRIX_U4 ? 4
           : type == MATRIX_B1                      ? 1
                                                    : 0;
}

bool is_8bit_float(enum matrix_type type)
{
    return type == MATRIX_E4M3 || type == MATRIX_E5M2;
}

bool types_agree(const enum matrix_type types[4])
{
    enum matrix_type a = types[1], b = types[2];
    if (a == MATRIX_F32 || a == MATRIX_S32)
        return false;
    int bits = integer_bits(a);
    bool agree = bits ? integer_bits(b) == bits : is_8bit_float(a) ? is_8bit_float(b) : b == a;
    for (int i = 0; i < 4; i += 3)
        agree &= bits              ? types[i] == MATRIX_S32
                 : a == MATRIX_F64 ? types[i] == MATRIX_F64
                                   : types[i] == MATRIX_F32 || types[i] == MATRIX_F16;
    return agree;
}

static void decode_product(struct decoder *d)
{
    struct mma *t = arena_alloc(&d->program->arena, sizeof *t);
    enum matrix_type types[4];
    int at;
    struct shape s = need_shape(d, &at);
    product_types(d, at, types);
    bool f64 = types[1] == MATRIX_F64, small = s.m == 8 && s.n == 8;
    int bits = integer_bits(types[1]);
    // m8n8k4 of f16 is not supported: it has Volta's layout.
    if (!types_agree(types) || (small && !f64 && !bits) || (f64 && (s.m != 8 || s.k != 4)) ||
        (bits == 1 && (!has(d, MOD_popc) || has(d, MOD_and) == has(d, MOD_xor))))
        unsupported(d);
    uint32_t flops = 2 * (uint32_t)(s.m * s.n * s.k);
    if (bits)
        s.k = s.k * bits / 8; // k now counts bytes
    bool flip = flipped(&s);
    t->m = s.m;
    t->n = s.n;
    t->k = s.k;
    t->saturate = has(d, MOD_satfinite);
    t->differ = has(d, MOD_xor);
    matrix_operand(d, operand(d, 0), &t->d, types[0], 'c', s, true);
    matrix_operand(d, operand(d, 1), flip ? &t->b : &t->a, types[1], flip ? 'b' : 'a', s, false);
    matrix_operand(d, operand(d, 2), flip ? &t->a : &t->b, types[2], flip ? 'a' : 'b', s, false);
    matrix_operand(d, operand(d, 3), &t->c, types[3], 'c', s, false);
    emit_id(d, OP_mma)->operands = t;
    // One machine instruction takes 32 bytes along k, for 16 rows and 8 columns.
    int work = s.m * s.n * s.k * t->a.bytes, unit = 16 * 8 * 32;
    struct insn_info *info = this_insn(d);
    info->tensor_flops = flops;
    info->tensor_flops_8bit = t->a.bytes == 1 ? info->tensor_flops : 0;
    info->tensor_instructions = (uint32_t)((work + unit - 1) / unit);
}

// wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype{.rnd}{.satfinite}
void decode_wmma_mma(struct decoder *d)
{
    decode_product(d);
}

// mma.sync.aligned.shape.alayout.blayout{.satfinite}.dtype.atype.btype.ctype
void decode_mma(struct decoder *d)
{
    if (!has(d, MOD_row) || !has(d, MOD_col))
        unsupported(d);
    decode_product(d);
}

// ---- wgmma --------------------------------------------------------------------------------------

void decode_wgmma_fence(struct decoder *d)
{
    needs_arch(d, 90);
    emit(d, wgmma_fence_op, 0)->imm = -1;
}

void decode_wgmma_group(struct decoder *d)
{
    needs_arch(d, 90);
    int64_t left = has(d, MOD_wait_group) ? count_operand(d, 0) : -1;
    emit(d, wgmma_group_op, 0)->imm = left;
}

// The registers of an operand's vector, as a set: bit i stands for the register that number_watched
// gave number i.
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

// Reads types and shape from the opcode; returns whether PTX has such a product.
static bool wgmma_types(struct decoder *d, struct wgmma *t)
{
    static const uint8_t bytes[] = {2, 2, 4, 1, 1};
    int at;
    struct shape s = need_shape(d, &at);
    if (at + 4 != d->spelling->count)
        return false;
    t->d_type = need_matrix_type(d, modifier_at(d, at + 1));
    t->a_type = need_matrix_type(d, modifier_at(d, at + 2));
    t->b_type = need_matrix_type(d, modifier_at(d, at + 3));
    t->n = s.n;
    t->k = s.k;
    enum matrix_type a = t->a_type;
    bool agree = is_8bit_float(a)
                     ? is_8bit_float(t->b_type)
                     : (a == MATRIX_F16 || a == MATRIX_BF16 || a == MATRIX_TF32) && t->b_type == a;
    bool half = t->d_type == MATRIX_F16 && a != MATRIX_BF16 && a != MATRIX_TF32;
    return agree && (half || t->d_type == MATRIX_F32) && s.m == 64 && s.n >= 8 && s.n <= WGMMA_N &&
           s.n % 8 == 0 && s.k * bytes[a] == 32;
}

// Reads the operands: D is in registers, B is a descriptor, A is either.
static void wgmma_matrices(struct decoder *d, struct wgmma *t)
{
    const struct operand *to = operand(d, 0), *a = operand(d, 1);
    t->d_count = t->n / (t->d_type == MATRIX_F16 ? 4 : 2);
    if (to->kind != OPERAND_VECTOR || to->count != t->d_count)
        fail(d, "%s needs %d accumulators", d->insn->opcode, t->d_count);
    for (int i = 0; i < t->d_count; ++i)
        t->d[i] = destination(d, &to->elements[i], 4);
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
    t->words = d->watched_words;
    t->d_set = watched_set(d, to);
    t->a_set = watched_set(d, a);
}

// wgmma.mma_async.sync.aligned.shape.dtype.atype.btype  d, a, b, scale-d, negate-a, negate-b,
// {transpose-a,} transpose-b
void decode_wgmma(struct decoder *d)
{
    struct wgmma *t = arena_alloc(&d->program->arena, sizeof *t);
    int next = 6;
    needs_arch(d, 90);
    if (!wgmma_types(d, t))
        unsupported(d);
    wgmma_matrices(d, t);
    t->scale_d = source(d, operand(d, 3), 0);
    t->negate_a = operand(d, 4)->value < 0;
    t->negate_b = operand(d, 5)->value < 0;
    bool transposes = t->a_type == MATRIX_F16 || t->a_type == MATRIX_BF16;
    if (transposes && t->a_desc != NO_REGISTER)
        t->transposed_a = operand(d, next++)->value != 0;
    if (transposes)
        t->transposed_b = operand(d, next)->value != 0;
    t->product = d->ops->wgmma;
    emit(d, wgmma_op, 0)->operands = t;
    note_size(d, 16);
    // Counts the machine instructions for a warp's part of the product: each takes 32 bytes along
    // k, for 16 rows and 8 columns.
    this_insn(d)->tensor_flops = 2 * 16 * (uint32_t)(t->n * t->k);
    this_insn(d)->tensor_instructions = (uint32_t)t->n / 8;
}

void decode_setmaxnreg(struct decoder *d)
{
    const struct operand *count = operand(d, 0);
    needs_arch(d, 90);
    if (count->kind != OPERAND_IMMEDIATE || has(d, MOD_inc) == has(d, MOD_dec))
        unsupported(d);
    if (count->value < 24 || count->value > 256 || count->value % 8)
        fail(d, "%s %lld: the count must be a multiple of 8 from 24 to 256", d->insn->opcode,
             (long long)count->value);
    struct op *op = emit(d, setmaxnreg_op, 0);
    op->imm = count->value;
    op->takes = has(d, MOD_inc);
}

// ---- ldmatrix, stmatrix, movmatrix --------------------------------------------------------------

static void decode_tiles(struct decoder *d, bool store)
{
    struct tiles *t = arena_alloc(&d->program->arena, sizeof *t);
    t->store = store;
    t->transposed = has(d, MOD_trans);
    t->count = has(d, MOD_x4) ? 4 : has(d, MOD_x2) ? 2 : has(d, MOD_x1) ? 1 : 0;
    const struct operand *value = operand(d, store ? 1 : 0);
    bool one = value->kind == OPERAND_REGISTER;
    enum space space = memory_space(d);
    if (!t->count || !has(d, MOD_m8n8) || last_modifier(d) != MOD_b16 ||
        (space != SPACE_SHARED && space != SPACE_GENERIC))
        unsupported(d);
    if (t->count != (one ? 1 : value->kind == OPERAND_VECTOR ? value->count : 0))
        fail(d, "%s needs %d registers", d->insn->opcode, t->count);
    for (int i = 0; i < t->count; ++i) {
        const struct operand *o = one ? value : &value->elements[i];
        t->regs[i] = store ? source(d, o, 4) : destination(d, o, 4);
    }
    struct address address = address_operand(d, operand(d, store ? 0 : 1), space);
    struct op *op = emit(d, tiles_move, 0);
    set_address(op, &address);
    op->operands = t;
    note_size(d, 16);
}

void decode_ldmatrix(struct decoder *d)
{
    decode_tiles(d, false);
}

void decode_stmatrix(struct decoder *d)
{
    needs_arch(d, 90);
    decode_tiles(d, true);
}

void decode_movmatrix(struct decoder *d)
{
    if (!has(d, MOD_m8n8) || !has(d, MOD_trans) || last_modifier(d) != MOD_b16)
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 4), from = source(d, operand(d, 1), 4);
    struct op *op = emit(d, movmatrix_op, 0);
    op->d = to;
    op->a = from;
}
