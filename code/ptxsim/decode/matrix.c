// matrix.c: matrices: wmma, mma, wgmma, ldmatrix and their kin.
#include "internal.h"

#include <stdio.h>
#include <string.h>

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
        f->regs[i] = to ? destination(d, e, bytes) : source(d, e, bytes);
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
void decode_product(struct decoder *d)
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
void decode_wgmma(struct decoder *d)
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

void decode_setmaxnreg(struct decoder *d)
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

void decode_wmma(struct decoder *d)
{
    if (has(d, "load") || has(d, "store"))
        decode_wmma_memory(d, has(d, "store"));
    else
        decode_product(d);
}

void decode_tiles(struct decoder *d)
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
        t->regs[i] = t->store ? source(d, o, 4) : destination(d, o, 4);
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

void decode_movmatrix(struct decoder *d)
{
    if (!has(d, "m8n8") || !has(d, "trans") || strcmp(last_modifier(d), "b16"))
        unsupported(d);
    uint32_t to = destination(d, operand(d, 0), 4), from = source(d, operand(d, 1), 4);
    struct op *op = emit(d, movmatrix_op, 0);
    op->d = to;
    op->a = from;
}
