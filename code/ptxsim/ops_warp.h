// ops_warp.h: shuffles and matrix products. Included by each instruction set's ops file.

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

// imm: the mode. regs: the predicate (NO_REGISTER if none). Reading a lane that is not here gives
// what its register holds; PTX leaves it undefined.
static void FN(shfl)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a), *b = (const u32 *)(r + op->b);
    const u32 *c = (const u32 *)(r + op->c);
    u32 *d = (u32 *)(r + op->d);
    int32_t from[WARP];
    uint32_t within[WARP];
    int mode = (int)op->imm;
    LANES
    {
        int32_t segment = (int32_t)(c[i] >> 8 & 31), clamp = (int32_t)(c[i] & 31);
        int32_t by = (int32_t)(b[i] & 31);
        int32_t most = (i & segment) | (clamp & ~segment);
        int32_t lane = mode == SHFL_UP     ? i - by
                       : mode == SHFL_DOWN ? i + by
                       : mode == SHFL_BFLY ? i ^ by
                                           : (i & segment) | (by & ~segment);
        bool inside = mode == SHFL_UP ? lane >= most : lane <= most;
        from[i] = inside ? lane : i;
        within[i] = inside ? ~0u : 0;
    }
    uint32_t value[WARP];
#if defined OPS_AVX512
    __m512i low = _mm512_loadu_si512(a), high = _mm512_loadu_si512(a + 16);
    for (int i = 0; i < WARP; i += 16)
        _mm512_storeu_si512(value + i,
                            _mm512_permutex2var_epi32(low, _mm512_loadu_si512(from + i), high));
#else
    for (int i = 0; i < WARP; ++i)
        value[i] = a[from[i] & 31];
#endif
    if (mask == ~0u)
        memcpy(d, value, sizeof value);
    else
        for (uint32_t left = mask; left; left &= left - 1)
            d[__builtin_ctz(left)] = value[__builtin_ctz(left)];
    if (op->regs[0] != NO_REGISTER) {
        u32 *p = (u32 *)(r + op->regs[0]);
        *p = (*p & ~mask) | (FN(mask_of)(within) & mask);
    }
}

// ---- Matrix products ----------------------------------------------------------------------------

enum { MATRIX_STRIDE = 32 }; // of a matrix laid out in rows: m, n and k are at most 32

// Register i of a matrix, as its lanes hold it: `per` elements a lane.
static inline void FN(matrix_floats)(const char *reg, enum matrix_type type, float *value)
{
    switch (type) {
    case MATRIX_F16: FN(f16_load)((const u16 *)reg, value, 2 * WARP); break;
    case MATRIX_BF16: FN(bf16_load)((const u16 *)reg, value, 2 * WARP); break;
    case MATRIX_TF32:
        LANES value[i] = float_of(((const u32 *)reg)[i] & 0xffffe000);
        break;
    case MATRIX_E4M3:
        for (int i = 0; i < 4 * WARP; ++i)
            value[i] = f16_to_f32(e4m3_to_f16(((const u8 *)reg)[i]));
        break;
    case MATRIX_E5M2:
        for (int i = 0; i < 4 * WARP; ++i)
            value[i] = f16_to_f32(e5m2_to_f16(((const u8 *)reg)[i]));
        break;
    default: memcpy(value, reg, 4 * WARP);
    }
}

static inline void FN(matrix_integers)(const char *reg, enum matrix_type type, uint32_t *value)
{
    if (type == MATRIX_S32)
        memcpy(value, reg, 4 * WARP);
    else
        for (int i = 0; i < 4 * WARP; ++i)
            value[i] = type == MATRIX_S8 ? (uint32_t)(int8_t)((const u8 *)reg)[i]
                                         : ((const u8 *)reg)[i];
}

// Where element e of lane i of register k stands in rows of MATRIX_STRIDE.
static inline int FN(matrix_at)(const struct matrix *f, int k, int i, int e)
{
    return (i / 4 + f->row[k]) * MATRIX_STRIDE + i % 4 * f->step + f->column[k] + e;
}

static inline void FN(matrix_rows)(const char *r, const struct matrix *f, float *rows)
{
    for (int k = 0; k < f->distinct; ++k) {
        float value[4 * WARP];
        FN(matrix_floats)(r + f->regs[k], f->type, value);
        if (f->step == f->per) { // rows of a tile are whole
            for (int row = 0; row < 8; ++row)
                memcpy(rows + (row + f->row[k]) * MATRIX_STRIDE + f->column[k],
                       value + row * 4 * f->per, 16u * f->per);
            continue;
        }
        for (int i = 0; i < WARP; ++i)
            for (int e = 0; e < f->per; ++e)
                rows[FN(matrix_at)(f, k, i, e)] = value[i * f->per + e];
    }
}

// Products are exact in f32; each element starts from C and adds its products in the order of k
// with fused multiply-adds, so its error is below k ulp(f32) of sum |a b| + |c|. The machine adds
// in another order and truncates: compare within that bound, not bit by bit.
static inline __attribute__((always_inline)) void
FN(product)(int m, const int n, int depth, const float *a, const float *b, float *c)
{
    for (int i = 0; i < m; ++i) {
        float sum[16];
        memcpy(sum, c + i * MATRIX_STRIDE, (size_t)n * sizeof *sum);
        for (int k = 0; k < depth; ++k)
            for (int j = 0; j < n; ++j)
                sum[j] = fused_f32(a[i * MATRIX_STRIDE + k], b[k * MATRIX_STRIDE + j], sum[j]);
        memcpy(c + i * MATRIX_STRIDE, sum, (size_t)n * sizeof *sum);
    }
}

static void FN(mma_float)(char *r, const struct mma *t)
{
    enum { SIZE = 32 * MATRIX_STRIDE };
    float a[SIZE], columns[SIZE], b[SIZE], c[SIZE];
    FN(matrix_rows)(r, &t->a, a);
    FN(matrix_rows)(r, &t->b, columns);
    FN(matrix_rows)(r, &t->c, c);
    for (int j = 0; j < t->n; ++j)
        for (int k = 0; k < t->k; ++k)
            b[k * MATRIX_STRIDE + j] = columns[j * MATRIX_STRIDE + k];
    if (t->n == 8)
        FN(product)(t->m, 8, t->k, a, b, c);
    else
        FN(product)(t->m, 16, t->k, a, b, c);
    const struct matrix *d = &t->d;
    for (int k = 0; k < d->distinct; ++k)
        for (int i = 0; i < WARP; ++i)
            for (int e = 0; e < d->per; ++e) {
                float value = canonical(c[FN(matrix_at)(d, k, i, e)]);
                if (d->type == MATRIX_F16)
                    ((u16 *)(r + d->regs[k]))[2 * i + e] = (u16)f16_of(value);
                else
                    ((f32 *)(r + d->regs[k]))[i] = value;
            }
}

static void FN(mma_integer)(char *r, const struct mma *t)
{
    enum { SIZE = 32 * MATRIX_STRIDE };
    uint32_t a[SIZE], b[SIZE], c[SIZE], value[4 * WARP];
    const struct matrix *from[] = {&t->a, &t->b, &t->c};
    uint32_t *to[] = {a, b, c};
    for (int which = 0; which < 3; ++which)
        for (int k = 0; k < from[which]->distinct; ++k) {
            const struct matrix *f = from[which];
            FN(matrix_integers)(r + f->regs[k], f->type, value);
            for (int i = 0; i < WARP; ++i)
                for (int e = 0; e < f->per; ++e)
                    to[which][FN(matrix_at)(f, k, i, e)] = value[i * f->per + e];
        }
    for (int i = 0; i < t->m; ++i)
        for (int j = 0; j < t->n; ++j) {
            uint32_t sum = 0; // 32 products of 16 bits fit
            for (int k = 0; k < t->k; ++k)
                sum += a[i * MATRIX_STRIDE + k] * b[j * MATRIX_STRIDE + k];
            uint32_t *at = &c[i * MATRIX_STRIDE + j];
            *at = t->saturate ? (uint32_t)saturate_s32((s64)(int32_t)*at + (int32_t)sum) : *at + sum;
        }
    const struct matrix *d = &t->d;
    for (int k = 0; k < d->distinct; ++k)
        for (int i = 0; i < WARP; ++i)
            ((u32 *)(r + d->regs[k]))[i] = c[FN(matrix_at)(d, k, i, 0)];
}

// m8n8k4: lane 4 g + t holds a (g, t), b (t, g) and c, d (g, 2 t) and (g, 2 t + 1).
static void FN(mma_f64)(char *r, const struct mma *t)
{
    const f64 *a = (const f64 *)(r + t->a.regs[0]), *b = (const f64 *)(r + t->b.regs[0]);
    double sum[2][WARP];
    for (int e = 0; e < 2; ++e)
        for (int i = 0; i < WARP; ++i) {
            sum[e][i] = ((const f64 *)(r + t->c.regs[e]))[i];
            for (int k = 0; k < 4; ++k)
                sum[e][i] = fused_f64(a[i / 4 * 4 + k], b[4 * (2 * (i % 4) + e) + k], sum[e][i]);
        }
    for (int e = 0; e < 2; ++e)
        memcpy(r + t->d.regs[e], sum[e], sizeof sum[e]);
}

static void FN(mma)(ARGUMENTS)
{
    const struct mma *t = (const struct mma *)op->regs;
    if (mask != ~0u)
        fault_at(w, op, __builtin_ctz(mask), FAULT_DIVERGENT_BARRIER,
                 "%s with %d of the warp's 32 lanes", w->cta->program->insns[op->insn].opcode,
                 __builtin_popcount(mask));
    else if (t->d.type == MATRIX_F64)
        FN(mma_f64)(r, t);
    else if (t->d.type == MATRIX_S32)
        FN(mma_integer)(r, t);
    else
        FN(mma_float)(r, t);
}
