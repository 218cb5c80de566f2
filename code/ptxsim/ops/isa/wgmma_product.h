// wgmma_product.h: the arithmetic of wgmma. Each instruction set's file includes it.
//
// This model agreed with an H200 in every bit of 65,536 sums of halves and FP8, and of 30,720 sums
// of bfloat16 and tf32. An instruction adds its products and the old sum in one step. Each of these
// terms is cut off a number of bits below the leading bit of the largest term: 13 bits for FP8, 25
// for all other types (a product's exponent is the sum of its factors' exponents). What remains is
// added exactly. Then the sum is cut off: 13 bits behind its leading bit for FP8, to a float for
// others. Accumulators of halves are rounded to nearest instead. (There are published models:
// Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025.)

enum { WGMMA_KEPT_FP8 = 13, WGMMA_KEPT = 25, WGMMA_NONE = -16000 };
// If a column's highest exponent is between these, all its terms can be computed as floats, scaled
// or not.
enum { WGMMA_LOW = -100, WGMMA_HIGH = 126 };

static void FN(wgmma_values)(const uint8_t *raw, int rows, int k, enum matrix_type type,
                             bool negate, float *value)
{
    int count = rows * k;
    if (type == MATRIX_F16) {
        FN(f16_load)((const u16 *)raw, value, count);
    } else if (type == MATRIX_BF16) {
        FN(bf16_load)((const u16 *)raw, value, count);
    } else if (type == MATRIX_TF32) {
        for (int i = 0; i < count; ++i)
            value[i] = float_of(((const u32 *)raw)[i] & 0xffffe000);
    } else if (type == MATRIX_E5M2) {
        for (int i = 0; i < count; ++i)
            value[i] = f16_to_f32(e5m2_to_f16(raw[i]));
    } else {
        uint16_t half[WGMMA_N * WGMMA_K]; // the codes' bits, as f16: their values divided by 2^8
        for (int i = 0; i < count; ++i)
            half[i] = (uint16_t)((raw[i] & 0x80) << 8 | (raw[i] & 0x7f) << 7);
        FN(f16_load)(half, value, count);
        for (int i = 0; i < count; ++i)
            value[i] = (raw[i] & 0x7f) == 0x7f ? float_of(0x7fffffff) : value[i] * 0x1p8f;
    }
    if (negate)
        for (int i = 0; i < count; ++i)
            value[i] = -value[i];
}

// The exponents by which products are aligned: a subnormal number has the exponent of the least
// normal one.
static void FN(wgmma_exponents)(const float *value, int count, int least, int16_t *exponent)
{
    for (int i = 0; i < count; ++i) {
        uint32_t bits = bits_of(value[i]) & 0x7fffffff;
        int e = (int)(bits >> 23) - 127;
        e = e < least ? least : e;
        exponent[i] = (int16_t)(bits ? e : WGMMA_NONE);
    }
}

static int FN(wgmma_least)(enum matrix_type type) // exponent of the least normal number
{
    return type == MATRIX_E4M3 ? -6 : type == MATRIX_F16 || type == MATRIX_E5M2 ? -14 : -126;
}

static bool FN(wgmma_finite)(const float *value, int count, int stride)
{
    uint32_t bad = 0;
    for (int i = 0; i < count; ++i)
        bad |= (bits_of(value[i * stride]) & 0x7f800000) == 0x7f800000;
    return !bad;
}

enum { WGMMA_WIDE = 16 }; // columns computed together

// One sum, whose terms may overflow floats when they are scaled. Infinities and NaN may be added in
// any order.
static float FN(wgmma_cut_far)(const float *a, const int16_t *ae, const float *b, const int16_t *be,
                               int n, int depth, int kept, int fraction, float c)
{
    int16_t most;
    int unit;
    double sum = 0;
    if (!FN(wgmma_finite)(a, depth, 1) || !FN(wgmma_finite)(b, depth, n) ||
        !FN(wgmma_finite)(&c, 1, 1)) {
        for (int k = 0; k < depth; ++k)
            sum += (double)a[k] * b[k * n];
        return (float)(c + sum);
    }
    FN(wgmma_exponents)(&c, 1, -126, &most);
    for (int k = 0; k < depth; ++k)
        most = ae[k] + be[k * n] > most ? (int16_t)(ae[k] + be[k * n]) : most;
    sum += trunc(ldexp(c, kept - most));
    for (int k = 0; k < depth; ++k)
        sum += trunc(ldexp((double)a[k] * b[k * n], kept - most));
    frexp(sum, &unit);
    unit += most - kept - 1; // the exponent of the sum
    unit = (unit < -126 ? -126 : unit) - fraction;
    return (float)ldexp(trunc(ldexp(sum, most - kept - unit)), unit);
}

static inline __attribute__((always_inline)) void
FN(wgmma_cut)(const float *a, const int16_t *ae, const float *b, const int16_t *be, int n,
              const int depth, const int kept, const int fraction, bool finite, float *c)
{
    int16_t most[WGMMA_WIDE];
    float scale[WGMMA_WIDE];
    int32_t sum[2][WGMMA_WIDE]; // nine terms of 28 bits fit
    bool far = !finite;
    FN(wgmma_exponents)(c, WGMMA_WIDE, -126, most);
    for (int k = 0; k < depth; ++k)
        for (int j = 0; j < WGMMA_WIDE; ++j) {
            int16_t e = (int16_t)(ae[k] + be[k * n + j]);
            most[j] = e > most[j] ? e : most[j];
        }
    for (int j = 0; j < WGMMA_WIDE; ++j) {
        // A column whose products all have a factor of zero gets the lowest exponent.
        most[j] = most[j] < WGMMA_NONE / 2 ? WGMMA_LOW : most[j];
        far |= most[j] < WGMMA_LOW || most[j] > WGMMA_HIGH;
    }
    for (int j = 0; far && j < WGMMA_WIDE; ++j)
        c[j] = FN(wgmma_cut_far)(a, ae, b + j, be + j, n, depth, kept, fraction, c[j]);
    if (far)
        return;
    for (int j = 0; j < WGMMA_WIDE; ++j) {
        scale[j] = float_of((uint32_t)(127 + kept - most[j]) << 23);
        sum[0][j] = (int32_t)(c[j] * scale[j]);
        sum[1][j] = 0;
    }
    for (int half = 0; half < 2; ++half)
        for (int k = half * depth / 2; k < (half + 1) * depth / 2; ++k)
            for (int j = 0; j < WGMMA_WIDE; ++j)
                sum[half][j] += (int32_t)(a[k] * b[k * n + j] * scale[j]);
    const uint64_t keep = UINT64_MAX << (52 - fraction);
    for (int j = 0; j < WGMMA_WIDE; ++j) {
        double total = (double)sum[0][j] + (double)sum[1][j], unit;
        uint64_t bits, power = (uint64_t)(1023 - kept + most[j]) << 52;
        memcpy(&bits, &total, 8);
        bits &= keep;
        memcpy(&total, &bits, 8);
        memcpy(&unit, &power, 8);
        c[j] = (float)(total * unit);
    }
}

// The index in D of element e of a pair in a lane's accumulator register i.
static inline int FN(wgmma_place)(const struct wgmma *t, int n, int i, int lane, int e)
{
    int row, column;
    if (t->d_type == MATRIX_F16) {
        row = lane / 4 + i % 2 * 8;
        column = i / 2 * 8 + lane % 4 * 2 + e;
    } else {
        row = lane / 4 + i / 2 % 2 * 8;
        column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    }
    return row * n + column;
}

static void FN(wgmma_product)(char *r, const struct wgmma *t, const void *a_raw, const void *b_raw,
                              bool add)
{
    _Alignas(64) float a[16 * WGMMA_K], columns[WGMMA_N * WGMMA_K], b[WGMMA_K * WGMMA_N];
    _Alignas(64) float c[16 * WGMMA_N];
    _Alignas(64) int16_t ae[16 * WGMMA_K], be[WGMMA_K * WGMMA_N];
    // n is rounded up: the columns past the last are zero.
    int n = (t->n + WGMMA_WIDE - 1) / WGMMA_WIDE * WGMMA_WIDE;
    bool half = t->d_type == MATRIX_F16;
    FN(wgmma_values)(a_raw, 16, t->k, t->a_type, t->negate_a, a);
    FN(wgmma_values)(b_raw, t->n, t->k, t->b_type, t->negate_b, columns);
    for (int j = t->n; j < n; ++j)
        memset(columns + j * t->k, 0, (size_t)t->k * sizeof *columns);
    for (int j = 0; j < n; ++j)
        for (int k = 0; k < t->k; ++k)
            b[k * n + j] = columns[j * t->k + k];
    memset(c, 0, (size_t)(16 * n) * sizeof *c);
    for (int i = 0; i < t->d_count && add; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            if (half)
                for (int e = 0; e < 2; ++e)
                    c[FN(wgmma_place)(t, n, i, lane, e)] =
                        f16_to_f32(((const u16 *)(r + t->d[i]))[2 * lane + e]);
            else
                c[FN(wgmma_place)(t, n, i, lane, 0)] = ((const f32 *)(r + t->d[i]))[lane];
    bool finite = FN(wgmma_finite)(a, 16 * t->k, 1) && FN(wgmma_finite)(b, n * t->k, 1) &&
                  FN(wgmma_finite)(c, 16 * n, 1);
    FN(wgmma_exponents)(a, 16 * t->k, FN(wgmma_least)(t->a_type), ae);
    FN(wgmma_exponents)(b, n * t->k, FN(wgmma_least)(t->b_type), be);
    for (int i = 0; i < 16; ++i) {
        const float *row = a + i * t->k;
        const int16_t *row_e = ae + i * t->k;
        for (int j = 0; j < n; j += WGMMA_WIDE) {
            float *sums = c + i * n + j;
            if (t->k == WGMMA_K)
                FN(wgmma_cut)(row, row_e, b + j, be + j, n, WGMMA_K, WGMMA_KEPT_FP8,
                              half ? 23 : WGMMA_KEPT_FP8, finite, sums);
            else if (t->k == WGMMA_K / 2)
                FN(wgmma_cut)(row, row_e, b + j, be + j, n, WGMMA_K / 2, WGMMA_KEPT, 23, finite, sums);
            else
                FN(wgmma_cut)(row, row_e, b + j, be + j, n, WGMMA_K / 4, WGMMA_KEPT, 23, finite, sums);
        }
    }
    for (int i = 0; i < t->d_count; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            if (half)
                for (int e = 0; e < 2; ++e)
                    ((u16 *)(r + t->d[i]))[2 * lane + e] =
                        (u16)f16_of(canonical(c[FN(wgmma_place)(t, n, i, lane, e)]));
            else
                ((f32 *)(r + t->d[i]))[lane] = canonical(c[FN(wgmma_place)(t, n, i, lane, 0)]);
}
