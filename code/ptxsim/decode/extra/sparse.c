// sparse.c: mma.sp (PTX ISA, "Matrix multiply-accumulate operation using mma.sp instruction with sparse
// matrix A").
#include "extra.h"

// mma.sp{::ordered_metadata}.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a,
// b, c, metadata, selector
static void sparse_product(struct decoder *d, bool ordered)
{
    struct sparse_mma *sparse = arena_alloc(&d->program->arena, sizeof *sparse);
    struct mma *t = &sparse->product;
    enum matrix_type types[4];
    int at;
    struct shape s = need_shape(d, &at);
    product_types(d, at, types);
    int whole = integer_bits(types[1]), bits = whole                     ? whole
                                               : types[1] == MATRIX_TF32 ? 32
                                               : is_8bit_float(types[1]) ? 8
                                                                         : 16;
    int least = 256 / bits; // columns of A in a machine instruction: half are stored, 16 bytes
    if (!has(d, MOD_row) || !has(d, MOD_col) || !types_agree(types) || types[1] == MATRIX_F64 ||
        bits == 1 || s.m != 16 || s.n != 8 ||
        (s.k != 2 * least && (s.k != least || is_8bit_float(types[1]))))
        unsupported(d);
    t->m = s.m;
    t->n = s.n;
    t->k = s.k;
    t->saturate = has(d, MOD_satfinite);
    sparse->ordered = ordered;
    sparse->metadata_lanes = s.k / least * (bits <= 8 ? 2 : 1);
    const struct operand *selector = operand(d, 5);
    if (selector->kind != OPERAND_IMMEDIATE || selector->value < 0 ||
        selector->value >= 4 / sparse->metadata_lanes)
        fail(d, "%s: the sparsity selector is a number below %d", d->insn->opcode,
             4 / sparse->metadata_lanes);
    sparse->selector = (int)selector->value;
    struct shape stored = {s.m, s.n, s.k / 2};
    if (whole) { // integers: from here on, k counts bytes
        stored.k = stored.k * bits / 8;
        s.k = s.k * bits / 8;
    }
    matrix_operand(d, operand(d, 0), &t->d, types[0], 'c', s, true);
    matrix_operand(d, operand(d, 1), &t->a, types[1], 'a', stored, false);
    matrix_operand(d, operand(d, 2), &t->b, types[2], 'b', s, false);
    matrix_operand(d, operand(d, 3), &t->c, types[3], 'c', s, false);
    sparse->metadata = source(d, operand(d, 4), 4);
    emit(d, mma_sparse_op, 0)->operands = sparse;
    // The hardware multiplies only stored elements, and takes as long as for a dense product of
    // half the k.
    struct insn_info *info = this_insn(d);
    info->tensor_flops = (uint32_t)(t->m * t->n * t->k);
    info->tensor_flops_8bit = t->a.bytes == 1 ? info->tensor_flops : 0;
    info->tensor_instructions = (uint32_t)(t->k / least);
}

void decode_sparse(struct decoder *d)
{
    sparse_product(d, false);
}

void decode_sparse_ordered(struct decoder *d)
{
    sparse_product(d, true);
}
