// sparse.c: mma.sp (PTX ISA, "Matrix multiply-accumulate operation using mma.sp instruction with
// sparse matrix A"). A row of A stores two of each four elements; one of each two for tf32; two of
// each four pairs for 4-bit integers. The metadata says which ones: two bits for each stored
// element, the lowest bits for the first; four bits for tf32.
//
// Four lanes share rows g and g + 8. One, two or four of them hold the metadata, beginning with
// lane `selector` times that number. For 16-bit floats and tf32, a lane's word has 16 bits for row
// g and above them 16 bits for row g + 8. For smaller elements it has 32 bits for one row: the
// first lane's for row g, the second's for row g + 8, and so on.
#include "extra.h"
#include "ptxsim/ops/scalars.h"

enum { STORED = 64, ROWS = 16, COLUMNS = 8 }; // STORED: the most stored elements of a row of A

struct operands {
    union element {
        float f;
        int32_t i;
    } a[ROWS][STORED], b[COLUMNS][2 * STORED], c[ROWS][COLUMNS];
};

static union element element_of(enum matrix_type type, uint32_t bits)
{
    switch (type) {
    case MATRIX_F16: return (union element){.f = f16_to_f32(bits)};
    case MATRIX_BF16: return (union element){.f = float_of(bits << 16)};
    case MATRIX_TF32: return (union element){.f = float_of(bits & 0xffffe000)};
    case MATRIX_E4M3: return (union element){.f = f16_to_f32(e4m3_to_f16(bits))};
    case MATRIX_E5M2: return (union element){.f = f16_to_f32(e5m2_to_f16(bits))};
    case MATRIX_S8: return (union element){.i = (int8_t)bits};
    case MATRIX_S4: return (union element){.i = (int32_t)(bits << 28) >> 28};
    case MATRIX_F32: return (union element){.f = float_of(bits)};
    default: return (union element){.i = (int32_t)bits}; // u8, u4, s32
    }
}

static int bits_of_element(const struct matrix *f)
{
    return f->type == MATRIX_S4 || f->type == MATRIX_U4 ? 4 : 8 * f->bytes;
}

// Copies a matrix from registers to rows of `stride` elements. For elements smaller than a byte, f
// counts columns in bytes.
static void take(const char *r, const struct matrix *f, union element *rows, int stride)
{
    int bits = bits_of_element(f), each = f->bytes * 8 / bits;
    for (int k = 0; k < f->distinct; ++k)
        for (int lane = 0; lane < WARP; ++lane) {
            uint32_t word = ((const u32 *)(r + f->regs[k]))[lane];
            int column = (lane % 4 * f->step + f->column[k]) * each;
            union element *to = rows + (lane / 4 + f->row[k]) * stride + column;
            for (int e = 0; e < f->per * each; ++e)
                to[e] =
                    element_of(f->type, bits == 32 ? word : word >> e * bits & ((1u << bits) - 1));
        }
}

// The metadata of row g, or g + 8 if `high`.
static uint64_t metadata_of(const char *r, const struct sparse_mma *t, int g, int high)
{
    const u32 *word = (const u32 *)(r + t->metadata) + 4 * g + t->selector * t->metadata_lanes;
    uint64_t bits = 0;
    if (t->product.a.bytes == 1)
        for (int i = 0; i < t->metadata_lanes / 2; ++i)
            bits |= (uint64_t)word[2 * i + high] << 32 * i;
    else
        for (int i = 0; i < t->metadata_lanes; ++i)
            bits |= (uint64_t)(word[i] >> 16 * high & 0xffff) << 16 * i;
    return bits;
}

// Finds the column of each stored element of a row. Returns false if the metadata is not valid.
static bool find_places(const struct sparse_mma *t, uint64_t metadata, int stored,
                        int place[STORED])
{
    int each = bits_of_element(&t->product.a) == 4 ? 2 : 1;
    for (int s = 0; s < stored; ++s) {
        if (t->product.a.type == MATRIX_TF32) {
            uint32_t which = metadata >> 4 * s & 15;
            if (which != 4 && which != 14)
                return false;
            place[s] = 2 * s + (which == 14);
            continue;
        }
        int pair = s / each;
        place[s] = (pair / 2 * 4 + (int)(metadata >> 2 * pair & 3)) * each + s % each;
        int before = pair % 2 ? place[s - each] : -1;
        if (place[s] == before || (t->ordered && place[s] < before))
            return false;
    }
    return true;
}

void mma_sparse_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct sparse_mma *sparse = op->operands;
    const struct mma *t = &sparse->product;
    struct operands o;
    int place[STORED], stored = t->k / 2;
    bool integers = t->d.type == MATRIX_S32;
    if (!whole_warp(w, op, mask))
        return;
    take(r, &t->a, o.a[0], STORED);
    take(r, &t->b, o.b[0], 2 * STORED);
    take(r, &t->c, o.c[0], COLUMNS);
    for (int i = 0; i < ROWS; ++i) {
        uint64_t metadata = metadata_of(r, sparse, i % 8, i / 8);
        if (!find_places(sparse, metadata, stored, place)) {
            fault_at(w, op, i % 8 * 4 + sparse->selector * sparse->metadata_lanes, FAULT_TRAP,
                     "%s with metadata 0x%llx for row %d of A, which does not say where its "
                     "elements belong",
                     w->cta->program->insns[op->insn].opcode, (unsigned long long)metadata, i);
            return;
        }
        for (int j = 0; j < COLUMNS; ++j) {
            union element sum = o.c[i][j];
            int64_t whole = 0;
            for (int s = 0; s < stored; ++s)
                if (integers)
                    whole += o.a[i][s].i * o.b[j][place[s]].i;
                else
                    sum.f = fused_f32(o.a[i][s].f, o.b[j][place[s]].f, sum.f);
            if (integers)
                sum.i =
                    t->saturate ? saturate_s32(sum.i + whole) : (int32_t)(uint32_t)(sum.i + whole);
            else
                sum.f = canonical(sum.f);
            o.c[i][j] = sum;
        }
    }
    for (int k = 0; k < t->d.distinct; ++k)
        for (int lane = 0; lane < WARP; ++lane) {
            const union element *sum = &o.c[lane / 4 + t->d.row[k]][lane % 4 * 2 + t->d.column[k]];
            uint32_t word = t->d.type == MATRIX_F16 ? f16_of(sum[0].f) | f16_of(sum[1].f) << 16
                                                    : (uint32_t)sum->i;
            ((u32 *)(r + t->d.regs[k]))[lane] = word;
        }
}
