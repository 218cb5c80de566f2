// arithmetic.h: makes the functions of operations.def, each for 32 lanes. base.c, avx2.c and
// avx512.c include it, each compiled for its instruction set; FN(x) appends the set's name to x.

#define ARGUMENTS \
    __attribute__((unused)) struct warp *w, __attribute__((unused)) char *r, \
        __attribute__((unused)) const struct op *op, __attribute__((unused)) uint32_t mask

// A loop over the lanes. ivdep: a destination is either the very register that is read, or does not
// overlap it.
#define LANES _Pragma("GCC ivdep") for (int i = 0; i < WARP; ++i)

// Makes a mask, with a bit for each lane, from `yes`: words of all ones or zero.
static inline uint32_t FN(mask_of)(const uint32_t yes[WARP])
{
#if defined OPS_AVX512
    __mmask16 low = _mm512_movepi32_mask(_mm512_loadu_si512(yes));
    __mmask16 high = _mm512_movepi32_mask(_mm512_loadu_si512(yes + 16));
    return (uint32_t)high << 16 | low;
#elif defined OPS_AVX2
    uint32_t mask = 0;
    for (int i = 0; i < 4; ++i)
        mask |= (uint32_t)_mm256_movemask_ps(_mm256_loadu_ps((const float *)yes + 8 * i)) << 8 * i;
    return mask;
#else
    uint32_t mask = 0;
    for (int i = 0; i < WARP; ++i)
        mask |= (yes[i] & 1) << i;
    return mask;
#endif
}

static inline void FN(f16_load)(const u16 *half, float *value, int count)
{
#if defined OPS_AVX512
    for (int i = 0; i < count; i += 16)
        _mm512_storeu_ps(value + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(half + i))));
#elif defined OPS_AVX2
    for (int i = 0; i < count; i += 8)
        _mm256_storeu_ps(value + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(half + i))));
#else
    for (int i = 0; i < count; ++i)
        value[i] = f16_to_f32(half[i]);
#endif
}

static inline void FN(bf16_load)(const u16 *half, float *value, int count)
{
    for (int i = 0; i < count; ++i)
        value[i] = float_of((uint32_t)half[i] << 16);
}

// Each operation for one lane, as a function of its operands: add_s32_lane_avx2(a, b). In a
// debugger its line is the operation's row in operations.def, and a, b and c can be looked at.
#define LANE static inline __attribute__((always_inline, unused))
#define UNARY(name, D, A, e) LANE D FN(name##_lane)(A a) { return (D)(e); }
#define BINARY(name, D, A, B, e) LANE D FN(name##_lane)(A a, B b) { return (D)(e); }
#define TERNARY(name, D, A, B, C, e) \
    LANE D FN(name##_lane)(A a, __attribute__((unused)) B b, C c) { return (D)(e); }
#define COMPARE(name, A, e) \
    LANE bool FN(name##_lane)(A a, __attribute__((unused)) A b) { return e; }
#define SELECT(name, D) LANE D FN(name##_lane)(D a, D b, bool first) { return first ? a : b; }
#define HALF(name, per_register, format, operands, e) \
    LANE float FN(name##_lane)(float a, __attribute__((unused)) float b, \
                               __attribute__((unused)) float c) \
    { \
        return canonical(e); \
    }
#define CUSTOM(name, result)
#define OP(name, form, ...) form(name, __VA_ARGS__)
#include "ptxsim/ops/operations.def"
#undef OP
#undef UNARY
#undef BINARY
#undef TERNARY
#undef COMPARE
#undef SELECT
#undef HALF
#undef CUSTOM

// An operation on 32 lanes: add_s32_avx2(w, r, op, mask).
#define UNARY(name, D, A, e) \
    static void FN(name)(ARGUMENTS) \
    { \
        const A *a = (const A *)(r + op->a); \
        D *d = (D *)(r + op->d); \
        LANES d[i] = FN(name##_lane)(a[i]); \
    }
#define BINARY(name, D, A, B, e) \
    static void FN(name)(ARGUMENTS) \
    { \
        const A *a = (const A *)(r + op->a); \
        const B *b = (const B *)(r + op->b); \
        D *d = (D *)(r + op->d); \
        LANES d[i] = FN(name##_lane)(a[i], b[i]); \
    }
#define TERNARY(name, D, A, B, C, e) \
    static void FN(name)(ARGUMENTS) \
    { \
        const A *a = (const A *)(r + op->a); \
        const B *b = (const B *)(r + op->b); \
        const C *c = (const C *)(r + op->c); \
        D *d = (D *)(r + op->d); \
        LANES d[i] = FN(name##_lane)(a[i], b[i], c[i]); \
    }
#define COMPARE(name, A, e) \
    static void FN(name)(ARGUMENTS) \
    { \
        const A *a = (const A *)(r + op->a), *b = (const A *)(r + op->b); \
        uint32_t yes[WARP]; \
        LANES yes[i] = FN(name##_lane)(a[i], b[i]) ? ~0u : 0; \
        *(u32 *)(r + op->d) = FN(mask_of)(yes); \
    }
#define SELECT(name, D) \
    static void FN(name)(ARGUMENTS) \
    { \
        const D *a = (const D *)(r + op->a), *b = (const D *)(r + op->b); \
        D *d = (D *)(r + op->d); \
        uint32_t p = *(u32 *)(r + op->c); \
        LANES d[i] = FN(name##_lane)(a[i], b[i], p >> i & 1); \
    }
#define HALF(name, per_register, format, operands, e) \
    static void FN(name)(ARGUMENTS) \
    { \
        enum { COUNT = per_register * WARP }; \
        float a[COUNT], b[COUNT] = {0}, c[COUNT] = {0}; \
        FN(format##_load)((const u16 *)(r + op->a), a, COUNT); \
        if (operands > 1) \
            FN(format##_load)((const u16 *)(r + op->b), b, COUNT); \
        if (operands > 2) \
            FN(format##_load)((const u16 *)(r + op->c), c, COUNT); \
        float result[COUNT]; \
        for (int i = 0; i < COUNT; ++i) \
            result[i] = FN(name##_lane)(a[i], b[i], c[i]); \
        u16 *d = (u16 *)(r + op->d); \
        _Pragma("GCC ivdep") for (int i = 0; i < COUNT; ++i) d[i] = (u16)format##_of(result[i]); \
    }
#define CUSTOM(name, result) static op_fn FN(name);
#define OP(name, form, ...) form(name, __VA_ARGS__)
#include "ptxsim/ops/operations.def"
#undef OP
#undef CUSTOM

static void FN(cvt_f32_f16)(ARGUMENTS)
{
    float value[WARP];
    FN(f16_load)((const u16 *)(r + op->a), value, WARP);
    f32 *d = (f32 *)(r + op->d);
    LANES d[i] = canonical(value[i]);
}

static void FN(bfi_b32)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a), *b = (const u32 *)(r + op->b);
    const u32 *c = (const u32 *)(r + op->c), *e = (const u32 *)(r + op->regs[0]);
    u32 *d = (u32 *)(r + op->d);
    LANES d[i] = (u32)insert(a[i], b[i], c[i], e[i], 32);
}

static void FN(bfi_b64)(ARGUMENTS)
{
    const u64 *a = (const u64 *)(r + op->a), *b = (const u64 *)(r + op->b);
    const u32 *c = (const u32 *)(r + op->c), *e = (const u32 *)(r + op->regs[0]);
    u64 *d = (u64 *)(r + op->d);
    LANES d[i] = insert(a[i], b[i], c[i], e[i], 64);
}

// imm: the truth table: its bit number a << 2 | b << 1 | c is the result for bits a, b and c.
static void FN(lop3_b32)(ARGUMENTS)
{
    const u32 *av = (const u32 *)(r + op->a), *bv = (const u32 *)(r + op->b);
    const u32 *cv = (const u32 *)(r + op->c);
    u32 *d = (u32 *)(r + op->d);
    uint32_t t[8];
    for (int i = 0; i < 8; ++i)
        t[i] = op->imm >> i & 1 ? ~0u : 0;
    LANES
    {
        uint32_t a = av[i], b = bv[i], c = cv[i];
        d[i] = (~a & ~b & ~c & t[0]) | (~a & ~b & c & t[1]) | (~a & b & ~c & t[2]) |
               (~a & b & c & t[3]) | (a & ~b & ~c & t[4]) | (a & ~b & c & t[5]) |
               (a & b & ~c & t[6]) | (a & b & c & t[7]);
    }
}

static void FN(pack_4x16)(ARGUMENTS)
{
    const u16 *v[4];
    for (int k = 0; k < 4; ++k)
        v[k] = (const u16 *)(r + op->regs[k]);
    u64 *d = (u64 *)(r + op->d);
    LANES d[i] = v[0][i] | (u64)v[1][i] << 16 | (u64)v[2][i] << 32 | (u64)v[3][i] << 48;
}

static void FN(pack_4x8)(ARGUMENTS)
{
    const u16 *v[4];
    for (int k = 0; k < 4; ++k)
        v[k] = (const u16 *)(r + op->regs[k]);
    u32 *d = (u32 *)(r + op->d);
    LANES d[i] = (v[0][i] & 0xffu) | (v[1][i] & 0xffu) << 8 | (v[2][i] & 0xffu) << 16 |
                 (u32)(v[3][i] & 0xff) << 24;
}

// Takes part of a register. imm: by how many bits it is shifted down.
static void FN(part_16_of_32)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a);
    u16 *d = (u16 *)(r + op->d);
    int shift = (int)op->imm;
    LANES d[i] = (u16)(a[i] >> shift);
}

static void FN(part_16_of_64)(ARGUMENTS)
{
    const u64 *a = (const u64 *)(r + op->a);
    u16 *d = (u16 *)(r + op->d);
    int shift = (int)op->imm;
    LANES d[i] = (u16)(a[i] >> shift);
}

static void FN(part_32_of_64)(ARGUMENTS)
{
    const u64 *a = (const u64 *)(r + op->a);
    u32 *d = (u32 *)(r + op->d);
    int shift = (int)op->imm;
    LANES d[i] = (u32)(a[i] >> shift);
}

static void FN(part_8_of_32)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a);
    u16 *d = (u16 *)(r + op->d);
    LANES d[i] = a[i] >> op->imm & 0xff;
}

static void FN(part_8_of_16)(ARGUMENTS)
{
    const u16 *a = (const u16 *)(r + op->a);
    u16 *d = (u16 *)(r + op->d);
    LANES d[i] = a[i] >> op->imm & 0xff;
}

// cvta: adds imm: the beginning of a space's window of generic addresses, or its negative.
static void FN(window_of)(ARGUMENTS)
{
    const u64 *a = (const u64 *)(r + op->a);
    u64 *d = (u64 *)(r + op->d);
    u64 shift = (u64)op->imm;
    LANES d[i] = a[i] + shift;
}

static void FN(mov_pred)(ARGUMENTS)
{
    *(u32 *)(r + op->d) = *(u32 *)(r + op->a);
}

static void FN(and_pred)(ARGUMENTS)
{
    *(u32 *)(r + op->d) = *(u32 *)(r + op->a) & *(u32 *)(r + op->b);
}

static void FN(or_pred)(ARGUMENTS)
{
    *(u32 *)(r + op->d) = *(u32 *)(r + op->a) | *(u32 *)(r + op->b);
}

static void FN(xor_pred)(ARGUMENTS)
{
    *(u32 *)(r + op->d) = *(u32 *)(r + op->a) ^ *(u32 *)(r + op->b);
}

static void FN(not_pred)(ARGUMENTS)
{
    *(u32 *)(r + op->d) = ~*(u32 *)(r + op->a);
}
