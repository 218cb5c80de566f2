// warp.h: shuffles and matrix products. Each instruction set's file includes it.

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

// from gets the lane that each lane reads: the lane itself, if the one asked for is outside of its
// segment. within gets 0 for such a lane, otherwise all ones.
static inline __attribute__((always_inline)) void
FN(shfl_lanes)(const int mode, const uint32_t *b, const uint32_t *c, int32_t from[WARP],
               uint32_t within[WARP])
{
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
}

// imm: the mode. regs: the predicate (NO_REGISTER: none) and the members (NO_REGISTER: all lanes).
// A lane that does not take part can still be read from; PTX leaves that undefined.
static void FN(shfl)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a), *b = (const u32 *)(r + op->b);
    const u32 *c = (const u32 *)(r + op->c);
    u32 *d = (u32 *)(r + op->d);
    int32_t from[WARP];
    uint32_t within[WARP];
    switch (op->imm) {
    case SHFL_UP: FN(shfl_lanes)(SHFL_UP, b, c, from, within); break;
    case SHFL_DOWN: FN(shfl_lanes)(SHFL_DOWN, b, c, from, within); break;
    case SHFL_BFLY: FN(shfl_lanes)(SHFL_BFLY, b, c, from, within); break;
    default: FN(shfl_lanes)(SHFL_IDX, b, c, from, within);
    }
    const u32 *named = op->regs[1] != NO_REGISTER ? (const u32 *)(r + op->regs[1]) : NULL;
    uint32_t all = w->alive;
    if (named)
        LANES all &= named[i];
    if (__builtin_expect(all != ~0u, 0) && w->clock)
        report_sources(w, op, mask, from, named);
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

// Elements of a row of a matrix laid out in rows: m, n and k are at most 32.
enum { MATRIX_STRIDE = 32 };

// Moved to the places of a half's sign, exponent and fraction, the bits of an e4m3 code are the
// code's value divided by 2^8, except for NaN.
static inline void FN(e4m3_load)(const u8 *codes, float *value)
{
    u16 halves[4 * WARP];
    for (int i = 0; i < 4 * WARP; ++i)
        halves[i] = (u16)((codes[i] & 0x7fu) << 7 | (codes[i] & 0x80u) << 8);
    FN(f16_load)(halves, value, 4 * WARP);
    for (int i = 0; i < 4 * WARP; ++i)
        value[i] = (codes[i] & 0x7f) == 0x7f ? f16_to_f32(0x7fff) : value[i] * 256.0f;
}

// The elements in one register of all lanes, in the order of the lanes, `per` for each lane.
static inline void FN(matrix_floats)(const char *reg, enum matrix_type type, float *value)
{
    switch (type) {
    case MATRIX_F16: FN(f16_load)((const u16 *)reg, value, 2 * WARP); break;
    case MATRIX_BF16: FN(bf16_load)((const u16 *)reg, value, 2 * WARP); break;
    case MATRIX_TF32:
        LANES value[i] = float_of(((const u32 *)reg)[i] & 0xffffe000);
        break;
    case MATRIX_E4M3:
        FN(e4m3_load)((const u8 *)reg, value);
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

// The index of element e of lane i's register k, in rows of MATRIX_STRIDE.
static inline int FN(matrix_at)(const struct matrix *f, int k, int i, int e)
{
    return (i / 4 + f->row[k]) * MATRIX_STRIDE + i % 4 * f->step + f->column[k] + e;
}

// Copies a tile whose rows, of 4 times `per` floats, are contiguous, to rows of MATRIX_STRIDE.
static inline void FN(tile_rows)(const float *value, const int per, float *rows)
{
    for (int row = 0; row < 8; ++row)
        memcpy(rows + row * MATRIX_STRIDE, value + row * 4 * per, 16u * (unsigned)per);
}

// Merges the even and odd columns of an 8x8 tile, each in one register of the lanes, into rows.
static inline void FN(tile_zip)(const float *even, const float *odd, float *rows)
{
#if defined OPS_AVX2 || defined OPS_AVX512
    for (int row = 0; row < 8; row += 2) {
        __m256 e = _mm256_loadu_ps(even + 4 * row), o = _mm256_loadu_ps(odd + 4 * row);
        __m256 left = _mm256_unpacklo_ps(e, o), right = _mm256_unpackhi_ps(e, o);
        float *to = rows + row * MATRIX_STRIDE;
        _mm256_storeu_ps(to, _mm256_permute2f128_ps(left, right, 0x20));
        _mm256_storeu_ps(to + MATRIX_STRIDE, _mm256_permute2f128_ps(left, right, 0x31));
    }
#else
    for (int i = 0; i < WARP; ++i) {
        rows[i / 4 * MATRIX_STRIDE + i % 4 * 2] = even[i];
        rows[i / 4 * MATRIX_STRIDE + i % 4 * 2 + 1] = odd[i];
    }
#endif
}

static inline void FN(tile_unzip)(const float *rows, float *even, float *odd)
{
#if defined OPS_AVX2 || defined OPS_AVX512
    for (int row = 0; row < 8; row += 2) {
        const float *from = rows + row * MATRIX_STRIDE;
        __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + MATRIX_STRIDE);
        __m256 left = _mm256_permute2f128_ps(a, b, 0x20);
        __m256 right = _mm256_permute2f128_ps(a, b, 0x31);
        _mm256_storeu_ps(even + 4 * row, _mm256_shuffle_ps(left, right, 0x88));
        _mm256_storeu_ps(odd + 4 * row, _mm256_shuffle_ps(left, right, 0xdd));
    }
#else
    for (int i = 0; i < WARP; ++i) {
        even[i] = rows[i / 4 * MATRIX_STRIDE + i % 4 * 2];
        odd[i] = rows[i / 4 * MATRIX_STRIDE + i % 4 * 2 + 1];
    }
#endif
}

static inline void FN(matrix_rows)(const char *r, const struct matrix *f, float *rows)
{
    if (f->step > f->per) { // an accumulator of f32: two registers make a tile
        for (int k = 0; k < f->distinct; k += 2)
            FN(tile_zip)((const float *)(r + f->regs[k]), (const float *)(r + f->regs[k + 1]),
                         rows + f->row[k] * MATRIX_STRIDE + f->column[k]);
        return;
    }
    for (int k = 0; k < f->distinct; ++k) {
        // Zeroed, since GCC 14 cannot see how much is filled in.
        _Alignas(64) float value[4 * WARP] = {0};
        float *to = rows + f->row[k] * MATRIX_STRIDE + f->column[k];
        FN(matrix_floats)(r + f->regs[k], f->type, value);
        if (f->per == 4)
            FN(tile_rows)(value, 4, to);
        else if (f->per == 2)
            FN(tile_rows)(value, 2, to);
        else
            FN(tile_rows)(value, 1, to);
    }
}

// Transposes B: from [n][depth] to [depth][n], one row for each step of k. n is a multiple of 8.
static inline void FN(matrix_turn)(const float *from, int n, int depth, float *to)
{
    int k = 0;
#if defined OPS_AVX2 || defined OPS_AVX512
    for (; k + 8 <= depth; k += 8)
        for (int j = 0; j < n; j += 8) {
            __m256 row[8], part[8];
            for (int i = 0; i < 8; ++i)
                row[i] = _mm256_loadu_ps(from + (j + i) * MATRIX_STRIDE + k);
            for (int i = 0; i < 8; i += 2) {
                part[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
                part[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
            }
            for (int i = 0; i < 8; i += 4) {
                row[i] = _mm256_shuffle_ps(part[i], part[i + 2], 0x44);
                row[i + 1] = _mm256_shuffle_ps(part[i], part[i + 2], 0xee);
                row[i + 2] = _mm256_shuffle_ps(part[i + 1], part[i + 3], 0x44);
                row[i + 3] = _mm256_shuffle_ps(part[i + 1], part[i + 3], 0xee);
            }
            float *here = to + k * MATRIX_STRIDE + j;
            for (int i = 0; i < 4; ++i) {
                _mm256_storeu_ps(here + i * MATRIX_STRIDE,
                                 _mm256_permute2f128_ps(row[i], row[i + 4], 0x20));
                _mm256_storeu_ps(here + (i + 4) * MATRIX_STRIDE,
                                 _mm256_permute2f128_ps(row[i], row[i + 4], 0x31));
            }
        }
#endif
    for (; k < depth; ++k)
        for (int j = 0; j < n; ++j)
            to[k * MATRIX_STRIDE + j] = from[j * MATRIX_STRIDE + k];
}

// Products are exact in f32. Each element starts from C and adds its products in the order of k
// with fused multiply-adds, so its error is below k ulp(f32) of sum |a b| + |c|. The hardware adds
// in another order and truncates: compare results within that bound, not bit by bit. m is a
// multiple of 8. Four rows are computed together, since each addition of a row waits for the one
// before it.
#if defined OPS_AVX2 || defined OPS_AVX512
#define PRODUCT(name, vec, load, store, broadcast, fused) \
    static inline void FN(name)(int m, int depth, const float *a, const float *b, float *c) \
    { \
        for (int i = 0; i < m; i += 4) { \
            vec sum[4]; \
            for (int q = 0; q < 4; ++q) \
                sum[q] = load(c + (i + q) * MATRIX_STRIDE); \
            for (int k = 0; k < depth; ++k) { \
                vec row = load(b + k * MATRIX_STRIDE); \
                for (int q = 0; q < 4; ++q) \
                    sum[q] = fused(broadcast(a[(i + q) * MATRIX_STRIDE + k]), row, sum[q]); \
            } \
            for (int q = 0; q < 4; ++q) \
                store(c + (i + q) * MATRIX_STRIDE, sum[q]); \
        } \
    }
PRODUCT(product_8, __m256, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps)
#if defined OPS_AVX512
PRODUCT(product_16, __m512, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps)
#else
static inline void FN(product_16)(int m, int depth, const float *a, const float *b, float *c)
{
    FN(product_8)(m, depth, a, b, c);
    FN(product_8)(m, depth, a, b + 8, c + 8);
}
#endif
#undef PRODUCT
#else
static inline __attribute__((always_inline)) void
FN(product)(int m, const int n, int depth, const float *a, const float *b, float *c)
{
    for (int i = 0; i < m; ++i)
        for (int k = 0; k < depth; ++k)
            for (int j = 0; j < n; ++j) {
                float *sum = &c[i * MATRIX_STRIDE + j];
                *sum = fused_f32(a[i * MATRIX_STRIDE + k], b[k * MATRIX_STRIDE + j], *sum);
            }
}

static void FN(product_8)(int m, int depth, const float *a, const float *b, float *c)
{
    FN(product)(m, 8, depth, a, b, c);
}

static void FN(product_16)(int m, int depth, const float *a, const float *b, float *c)
{
    FN(product)(m, 16, depth, a, b, c);
}
#endif

static void FN(mma_float)(char *r, const struct mma *t)
{
    enum { SIZE = 32 * MATRIX_STRIDE };
    _Alignas(64) float a[SIZE], columns[SIZE], b[SIZE], c[SIZE];
    FN(matrix_rows)(r, &t->a, a);
    FN(matrix_rows)(r, &t->b, columns);
    FN(matrix_rows)(r, &t->c, c);
    FN(matrix_turn)(columns, t->n, t->k, b);
    if (t->n == 8)
        FN(product_8)(t->m, t->k, a, b, c);
    else
        FN(product_16)(t->m, t->k, a, b, c);
    const struct matrix *d = &t->d;
    for (int k = 0; k < d->distinct; ++k) {
        const float *tile = c + d->row[k] * MATRIX_STRIDE + d->column[k];
        if (d->type == MATRIX_F16) {
            u16 *to = (u16 *)(r + d->regs[k]);
            float value[2 * WARP];
            for (int row = 0; row < 8; ++row)
                memcpy(value + 8 * row, tile + row * MATRIX_STRIDE, 8 * sizeof *value);
            for (int i = 0; i < 2 * WARP; ++i)
                to[i] = (u16)f16_of(canonical(value[i]));
        } else {
            float value[2][WARP];
            FN(tile_unzip)(tile, value[0], value[1]);
            for (int odd = 0; odd < 2; ++odd) {
                f32 *to = (f32 *)(r + d->regs[k + odd]);
                LANES to[i] = canonical(value[odd][i]);
            }
            ++k;
        }
    }
}

// What one byte of A and one byte of B contribute to a sum: a product, two products of 4-bit
// integers, or a count of single bits.
static inline uint32_t FN(byte_product)(const struct mma *t, uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    if (t->a.type == MATRIX_B1)
        return (uint32_t)__builtin_popcount(t->differ ? a ^ b : a & b);
    if (t->a.type != MATRIX_S4 && t->a.type != MATRIX_U4)
        return a * b;
    for (int at = 0; at < 8; at += 4) {
        int32_t x = (int32_t)(a << (28 - at)), y = (int32_t)(b << (28 - at));
        sum += (t->a.type == MATRIX_S4 ? (uint32_t)(x >> 28) : (uint32_t)x >> 28) *
               (t->b.type == MATRIX_S4 ? (uint32_t)(y >> 28) : (uint32_t)y >> 28);
    }
    return sum;
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
            uint32_t sum = 0; // the sum of 32 pairs of bytes fits
            for (int k = 0; k < t->k; ++k)
                sum += FN(byte_product)(t, a[i * MATRIX_STRIDE + k], b[j * MATRIX_STRIDE + k]);
            uint32_t *at = &c[i * MATRIX_STRIDE + j];
            *at = t->saturate ? (uint32_t)saturate_s32((s64)(int32_t)*at + (int32_t)sum) : *at + sum;
        }
    const struct matrix *d = &t->d;
    for (int k = 0; k < d->distinct; ++k)
        for (int i = 0; i < WARP; ++i)
            ((u32 *)(r + d->regs[k]))[i] = c[FN(matrix_at)(d, k, i, 0)];
}

// m8n8k4: lane 4 g + t holds a (g, t); b (t, g); c and d (g, 2 t) and (g, 2 t + 1).
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
    const struct mma *t = op->operands;
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
