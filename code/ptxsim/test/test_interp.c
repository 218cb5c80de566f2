// test_interp.c: the interpreter on the kernels of ptx/. Arithmetic against references written another
// way (wide integers, f64, search over all codes), control flow, memory, counts, and faults.
#include "ptx.h"
#include "ptxsim/base/heap.h"
#include "ptxsim/ops/ops.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>

#define HEADER ".version 9.0\n.target sm_89\n.address_size 64\n"

// ---- Running a kernel ---------------------------------------------------------------------------

struct outcome {
    struct counts counts;
    struct line_counts *lines;
    size_t line_count;
    struct fault fault;
    bool good;
};

struct setup {
    unsigned grid, block;
    size_t dynamic_shared, stack;
    unsigned schedule;
    int threads;
    bool racy; // whether races go unreported: the test has some, but is not about them
    void (*print)(const char *text, size_t bytes);
    size_t print_bytes;
    const char *with[PTX_HOLES]; // texts for $1, $2, ... in the kernel's text
};

static struct outcome run_module(struct module *module, const char *kernel, struct setup s,
                                 const void *params)
{
    struct outcome o = {0};
    struct launch launch = {.kernel = module_kernel(module, kernel),
                            .grid = {s.grid ? s.grid : 1, 1, 1},
                            .block = {s.block ? s.block : 32, 1, 1},
                            .dynamic_shared_bytes = s.dynamic_shared,
                            .params = params,
                            .stack_bytes = s.stack,
                            .threads = s.threads ? s.threads : 1,
                            .schedule = s.schedule,
                            .check = true,
                            .races = !s.racy,
                            .print = s.print,
                            .print_bytes = s.print_bytes};
    assert_non_null(launch.kernel);
    o.good = launch_run(&launch, &o.counts, &o.lines, &o.line_count, &o.fault);
    return o;
}

static const char *const no_holes[PTX_HOLES];

// Runs one of ptx/'s kernels on `out`.
static struct outcome run_kernel(const char *name, struct setup s, void *out)
{
    struct module *module = ptx_parse(ptx_text("frame.frame", name, s.with));
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct outcome o = run_module(module, ptx_kernel(name), s, &param);
    module_free(module);
    return o;
}

static void assert_good(const struct outcome *o)
{
    if (!o->good)
        fail_msg("%s", o->fault.text);
}

static void finish(struct outcome *o)
{
    free(o->lines);
}

// Runs a kernel that must end well; returns its counts.
static struct counts run_well(const char *name, struct setup s, void *out)
{
    struct outcome o = run_kernel(name, s, out);
    assert_good(&o);
    finish(&o);
    return o.counts;
}

// Returns what a kernel leaves in fresh memory of `count` words, each 0xeeeeeeee; the caller frees
// it.
#define words(name, count, ...) words_of(name, count, (struct setup){__VA_ARGS__})
static uint32_t *words_of(const char *name, size_t count, struct setup s)
{
    uint32_t *out = memory_alloc(count * 4), *copy = malloc(count * 4);
    memset(out, 0xee, count * 4);
    run_well(name, s, out);
    memcpy(copy, out, count * 4);
    memory_free(out);
    return copy;
}

// Expects each word i to be `wanted`, an expression of i.
#define EACH(name, count, wanted, ...)                                                             \
    do {                                                                                           \
        uint32_t *got = words(name, count, __VA_ARGS__);                                           \
        for (uint32_t i = 0; i < (count); ++i)                                                     \
            if (got[i] != (uint32_t)(wanted))                                                      \
                fail_msg("%s: word %u is %u, not %u", name, i, got[i], (uint32_t)(wanted));        \
        free(got);                                                                                 \
    } while (0)

// Expects a kernel to end in a fault whose text contains `text`.
#define expect_fault(name, kind, text, ...) fails(name, kind, text, (struct setup){__VA_ARGS__})
static void fails(const char *name, enum fault_kind kind, const char *text, struct setup s)
{
    uint32_t *out = memory_alloc(4096);
    struct outcome o = run_kernel(name, s, out);
    memory_free(out);
    assert_false(o.good);
    if (o.fault.kind != kind || !strstr(o.fault.text, text))
        fail_msg("fault %d, \"%s\" where \"%s\" was expected", o.fault.kind, o.fault.text, text);
    finish(&o);
}

// Expects instructions to be refused, each with its message.
#define expect_refused(list) refused(list, sizeof list / sizeof list[0])
static void refused(const char *const (*list)[2], size_t count)
{
    for (size_t i = 0; i < count; ++i)
        expect_fault("frame.few", FAULT_UNSUPPORTED, list[i][1], .with = {list[i][0]});
}

// ---- Arithmetic ---------------------------------------------------------------------------------

static float f(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}

static uint64_t fb(float value)
{
    if (value != value)
        return 0x7fffffff;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static double g(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static uint64_t gb(double value)
{
    if (value != value)
        return UINT64_C(0x7ff8) << 48; // one code for all NaNs
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static float fz(float value) // flushes a subnormal number to zero
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float half(uint64_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                 : ldexpf((float)fraction, -24);
    return bits & 0x8000 ? -value : value;
}

// The code nearest to a value among all codes of a format, ties to the even code. finite: number of
// the codes of one sign below infinity; from magnitude `overflow` on, the code is `beyond`; nan:
// the code of any NaN; sign: the sign's bit.
static uint64_t nearest(double value, double (*decode)(unsigned), unsigned finite, double overflow,
                        unsigned beyond, unsigned nan, unsigned sign)
{
    if (value != value)
        return nan;
    double magnitude = fabs(value);
    unsigned s = signbit(value) ? sign : 0;
    if (magnitude >= overflow)
        return s | beyond;
    unsigned low = 0, high = finite - 1;
    while (low < high) { // find the last code whose value is not above the magnitude
        unsigned middle = (low + high + 1) / 2;
        if (decode(middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low + 1 < finite) {
        double below = magnitude - decode(low), above = decode(low + 1) - magnitude;
        if (above < below || (above == below && (low & 1)))
            low++;
    }
    return s | low;
}

static double decode_half(unsigned code)
{
    return half(code);
}

static double decode_bf16(unsigned code)
{
    return f((uint64_t)code << 16);
}

static double decode_e4m3(unsigned code)
{
    unsigned exponent = code >> 3, fraction = code & 7;
    return exponent ? ldexp(8 + fraction, (int)exponent - 10) : ldexp(fraction, -9);
}

static double decode_e5m2(unsigned code)
{
    unsigned exponent = code >> 2, fraction = code & 3;
    return exponent ? ldexp(4 + fraction, (int)exponent - 17) : ldexp(fraction, -16);
}

static uint64_t hb(double value)
{
    return nearest(value, decode_half, 0x7c00, 65520, 0x7c00, 0x7fff, 0x8000);
}

static uint64_t bb(double value)
{
    return nearest(value, decode_bf16, 0x7f80, 0x1.ffp127, 0x7f80, 0x7fff, 0x8000);
}

static double brain(uint64_t bits)
{
    return decode_bf16((unsigned)(bits & 0xffff));
}

static uint64_t brain_add(uint64_t a, uint64_t b)
{
    return bb(brain(a) + brain(b));
}

static uint64_t brain_sub(uint64_t a, uint64_t b)
{
    return bb(brain(a) - brain(b));
}

static uint64_t brain_mul(uint64_t a, uint64_t b)
{
    return bb(brain(a) * brain(b));
}

static double without_subnormal(double value)
{
    return fabs(value) < 0x1p-126 ? copysign(0, value) : value;
}

static uint64_t brain_exp2(uint64_t a, uint64_t b)
{
    (void)b;
    return bb(without_subnormal(exp2(without_subnormal(brain(a)))));
}

static uint64_t brain_tanh(uint64_t a, uint64_t b)
{
    (void)b;
    return bb(tanh(brain(a)));
}

static uint64_t short_add(uint64_t a, uint64_t b)
{
    return (a + b) & 0xffff;
}

static uint64_t short_min(uint64_t a, uint64_t b)
{
    return ((a ^ 0x8000) < (b ^ 0x8000) ? a : b); // signed order by the flipped sign
}

static uint64_t short_max(uint64_t a, uint64_t b)
{
    return ((a ^ 0x8000) < (b ^ 0x8000) ? b : a);
}

static uint64_t ushort_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t ushort_max(uint64_t a, uint64_t b)
{
    return a < b ? b : a;
}

// An operation on both halves of a word.
static uint64_t pair(uint64_t (*one)(uint64_t, uint64_t), uint64_t a, uint64_t b)
{
    return one(a & 0xffff, b & 0xffff) | one(a >> 16 & 0xffff, b >> 16 & 0xffff) << 16;
}

static uint64_t e4(double value)
{
    return nearest(value, decode_e4m3, 0x7f, 448, 0x7e, 0x7f, 0x80);
}

static uint64_t e5(double value)
{
    return nearest(value, decode_e5m2, 0x7c, 57344, 0x7b, 0x7f, 0x80);
}

static int64_t s(uint64_t value, int bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static uint64_t clamp_to(double value, double low, double high)
{
    return value != value  ? 0
           : value <= low  ? (uint64_t)(int64_t)low
           : value >= high ? (uint64_t)(int64_t)high
                           : (uint64_t)(int64_t)value;
}

static double rounded(float (*op)(float, float), uint64_t a, uint64_t b, int mode)
{
    volatile float x = f(a), y = f(b);
    fesetround(mode);
    volatile float result = op(x, y);
    fesetround(FE_TONEAREST);
    return result;
}

static float add2(float a, float b)
{
    volatile float sum = a + b;
    return sum;
}

static float div2(float a, float b)
{
    volatile float quotient = a / b;
    return quotient;
}

static uint64_t byte_of(uint64_t b, uint64_t a, unsigned which)
{
    return ((b << 32 | (a & 0xffffffff)) >> 8 * (which & 7)) & 0xff;
}

static uint64_t prmt_reference(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 4; ++i) {
        unsigned select = c >> 4 * i & 15;
        uint64_t byte = byte_of(b & 0xffffffff, a, select);
        if (select & 8)
            byte = byte >> 7 ? 0xff : 0;
        out |= byte << 8 * i;
    }
    return out;
}

// Rounds to f32; a NaN keeps its sign and the upper bits of its payload.
static uint64_t narrow_f64(uint64_t a)
{
    return g(a) == g(a) ? fb((float)g(a))
                        : (a >> 32 & 0x80000000) | 0x7fc00000 | (a >> 29 & 0x7fffff);
}

static uint64_t bfe_reference(uint64_t a, uint64_t b, uint64_t c, int width, bool is_signed)
{
    // The manual's pseudo-code; for 64 bits the GPU does not mask position and length.
    uint64_t mask = width == 64 ? 0xffffffff : 0xff;
    int msb = width - 1, pos = (b & mask) > 300 ? 300 : (int)(b & mask);
    int length = (c & mask) > 300 ? 300 : (int)(c & mask);
    bool sign =
        !is_signed || !length ? false : a >> (pos + length - 1 < msb ? pos + length - 1 : msb) & 1;
    uint64_t d = 0;
    for (int i = 0; i <= msb; ++i)
        d |= (uint64_t)(i < length && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
    return d;
}

static uint64_t dot(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb)
{
    int64_t sum = (int64_t)c;
    for (int i = 0; i < 4; ++i) {
        int64_t x = a >> 8 * i & 255, y = b >> 8 * i & 255;
        sum += (sa && x > 127 ? x - 256 : x) * (sb && y > 127 ? y - 256 : y);
    }
    return (uint64_t)sum;
}

static uint64_t count_bits(uint64_t a)
{
    uint64_t n = 0;
    for (; a; a >>= 1)
        n += a & 1;
    return n;
}

static uint64_t top(uint64_t a)
{
    for (int i = 63; i >= 0; --i)
        if (a >> i & 1)
            return (uint64_t)i;
    return UINT32_MAX;
}

static uint64_t reverse(uint64_t a, int bits)
{
    uint64_t out = 0;
    for (int i = 0; i < bits; ++i)
        out |= (a >> i & 1) << (bits - 1 - i);
    return out;
}

static double least(double a, double b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static double most(double a, double b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

// Operand widths: result, then sources; h 16, w 32, d 64 bits, p a predicate.
// clang-format off
#define CASES(X) \
    X("add.s16", "hhh", a + b) \
    X("sub.u32", "www", a - b) \
    X("add.s64", "ddd", a + b) \
    X("mul.lo.s16", "hhh", a * b) \
    X("mul.lo.s32", "www", a * b) \
    X("mul.lo.u64", "ddd", a * b) \
    X("mul.hi.u16", "hhh", (a * b) >> 16) \
    X("mul.hi.s16", "hhh", (uint64_t)((s(a, 16) * s(b, 16)) >> 16)) \
    X("mul.hi.u32", "www", (a * b) >> 32) \
    X("mul.hi.s32", "www", (uint64_t)((s(a, 32) * s(b, 32)) >> 32)) \
    X("mul.hi.s64", "ddd", (uint64_t)(((__int128)(int64_t)a * (int64_t)b) >> 64)) \
    X("mul.wide.s16", "whh", (uint64_t)(s(a, 16) * s(b, 16))) \
    X("mul.wide.u32", "dww", a * b) \
    X("mul.wide.s32", "dww", (uint64_t)(s(a, 32) * s(b, 32))) \
    X("mad.lo.s32", "wwww", a * b + c) \
    X("mad.wide.s32", "dwwd", (uint64_t)(s(a, 32) * s(b, 32)) + c) \
    X("mad.hi.u32", "wwww", (a * b >> 32) + c) \
    X("sad.s32", "wwww", c + (uint64_t)llabs(s(a, 32) - s(b, 32))) \
    X("add.sat.s32", "www", clamp_to((double)(s(a, 32) + s(b, 32)), INT32_MIN, INT32_MAX)) \
    X("mul24.lo.s32", "www", (uint64_t)(s(a, 24) * s(b, 24))) \
    X("div.u32", "www", b ? a / b : UINT32_MAX) \
    X("div.s32", "www", b ? (uint64_t)(s(a, 32) / s(b, 32)) : UINT32_MAX) \
    X("rem.u32", "www", b ? a % b : ~UINT64_C(0)) \
    X("rem.s32", "www", b ? (uint64_t)(s(a, 32) % s(b, 32)) : ~UINT64_C(0)) \
    X("div.u64", "ddd", b ? a / b : UINT64_MAX) \
    X("rem.u16", "hhh", b ? a % b : ~UINT64_C(0)) \
    X("div.s64", "ddd", b ? (uint64_t)((__int128)(int64_t)a / (int64_t)b) : UINT64_MAX) \
    X("rem.s64", "ddd", b ? (uint64_t)((__int128)(int64_t)a % (int64_t)b) : ~UINT64_C(0)) \
    X("min.s32", "www", s(a, 32) < s(b, 32) ? a : b) \
    X("max.u16", "hhh", a > b ? a : b) \
    X("max.s64", "ddd", (int64_t)a > (int64_t)b ? a : b) \
    X("abs.s32", "ww", s(a, 32) < 0 ? 0 - a : a) \
    X("neg.s64", "dd", 0 - a) \
    X("not.b32", "ww", ~a) \
    X("cnot.b32", "ww", a == 0) \
    X("and.b32", "www", a & b) \
    X("or.b64", "ddd", a | b) \
    X("xor.b16", "hhh", a ^ b) \
    X("shl.b32", "www", b > 31 ? 0 : a << b) \
    X("shl.b64", "ddw", b > 63 ? 0 : a << b) \
    X("shl.b16", "hhw", b > 15 ? 0 : a << b) \
    X("shr.u32", "www", b > 31 ? 0 : a >> b) \
    X("shr.s32", "www", (uint64_t)(s(a, 32) >> (b > 31 ? 31 : b))) \
    X("shr.s64", "ddw", (uint64_t)((int64_t)a >> (b > 63 ? 63 : b))) \
    X("shr.u64", "ddw", b > 63 ? 0 : a >> b) \
    X("shf.l.wrap.b32", "wwww", (b << 32 | a) << (c & 31) >> 32) \
    X("shf.r.wrap.b32", "wwww", (b << 32 | a) >> (c & 31)) \
    X("shf.r.clamp.b32", "wwww", (b << 32 | a) >> (c > 32 ? 32 : c)) \
    X("shf.l.clamp.b32", "wwww", c > 31 ? a : (b << 32 | a) << c >> 32) \
    X("popc.b32", "ww", count_bits(a)) \
    X("popc.b64", "wd", count_bits(a)) \
    X("clz.b32", "ww", a ? 31 - top(a) : 32) \
    X("clz.b64", "wd", a ? 63 - top(a) : 64) \
    X("brev.b32", "ww", reverse(a, 32)) \
    X("brev.b64", "dd", reverse(a, 64)) \
    X("bfind.u32", "ww", top(a)) \
    X("bfind.s32", "ww", top(a >> 31 & 1 ? ~a & 0xffffffff : a)) \
    X("bfind.u64", "wd", top(a)) \
    X("bfe.u32", "wwww", bfe_reference(a, b, c, 32, false)) \
    X("bfe.s32", "wwww", bfe_reference(a, b, c, 32, true)) \
    X("bfe.u64", "ddww", bfe_reference(a, b, c, 64, false)) \
    X("bfe.s64", "ddww", bfe_reference(a, b, c, 64, true)) \
    X("prmt.b32", "wwww", prmt_reference(a, b, c)) \
    X("dp4a.u32.u32", "wwww", dot(a, b, c, false, false)) \
    X("dp4a.s32.u32", "wwww", dot(a, b, c, true, false)) \
    X("dp4a.s32.s32", "wwww", dot(a, b, c, true, true)) \
    X("add.f32", "www", fb((float)((double)f(a) + f(b)))) \
    X("sub.rn.f32", "www", fb((float)((double)f(a) - f(b)))) \
    X("mul.f32", "www", fb((float)((double)f(a) * f(b)))) \
    X("div.rn.f32", "www", fb((float)((double)f(a) / f(b)))) \
    X("fma.rn.f32", "wwww", fb(fmaf(f(a), f(b), f(c)))) \
    X("add.ftz.f32", "www", fb(fz((float)((double)fz(f(a)) + fz(f(b)))))) \
    X("mul.rn.ftz.f32", "www", fb(fz((float)((double)fz(f(a)) * fz(f(b)))))) \
    X("mul.ftz.sat.f32", "www", fb((float)least(1, most(0, fz((float)((double)fz(f(a)) * \
      fz(f(b)))))))) \
    X("add.rz.f32", "www", fb((float)rounded(add2, a, b, FE_TOWARDZERO))) \
    X("add.rp.f32", "www", fb((float)rounded(add2, a, b, FE_UPWARD))) \
    X("div.rm.f32", "www", fb((float)rounded(div2, a, b, FE_DOWNWARD))) \
    X("sqrt.rn.f32", "ww", fb((float)sqrt((double)f(a)))) \
    X("rcp.rn.f32", "ww", fb((float)(1 / (double)f(a)))) \
    X("min.f32", "www", fb((float)least(f(a), f(b)))) \
    X("max.f32", "www", fb((float)most(f(a), f(b)))) \
    X("abs.f32", "ww", fb(fabsf(f(a)))) \
    X("neg.f32", "ww", fb(-f(a))) \
    X("copysign.f32", "www", (a & 0x80000000) | (b & 0x7fffffff)) \
    X("add.f64", "ddd", gb(g(a) + g(b))) \
    X("mul.f64", "ddd", gb(g(a) * g(b))) \
    X("fma.rn.f64", "dddd", gb(fma(g(a), g(b), g(c)))) \
    X("max.f64", "ddd", gb(most(g(a), g(b)))) \
    X("setp.lt.s32", "pww", s(a, 32) < s(b, 32)) \
    X("setp.hi.u32", "pww", a > b) \
    X("setp.ne.b64", "pdd", a != b) \
    X("setp.lt.f32", "pww", f(a) < f(b)) \
    X("setp.ltu.f32", "pww", !(f(a) >= f(b))) \
    X("setp.ne.f32", "pww", f(a) < f(b) || f(a) > f(b)) \
    X("setp.neu.f32", "pww", f(a) != f(b)) \
    X("setp.equ.f32", "pww", f(a) == f(b) || isnan(f(a)) || isnan(f(b))) \
    X("setp.nan.f32", "pww", isnan(f(a)) || isnan(f(b))) \
    X("setp.num.f64", "pdd", !isnan(g(a)) && !isnan(g(b))) \
    X("setp.gt.f16", "phh", half(a) > half(b)) \
    X("set.ge.u32.s32", "www", s(a, 32) >= s(b, 32) ? UINT32_MAX : 0) \
    X("set.eq.f32.u32", "www", a == b ? 0x3f800000 : 0) \
    X("testp.subnormal.f32", "pw", fpclassify(f(a)) == FP_SUBNORMAL) \
    X("testp.normal.f32", "pw", fpclassify(f(a)) == FP_NORMAL || !f(a)) \
    X("testp.infinite.f64", "pd", isinf(g(a)) != 0) \
    X("slct.b32.s32", "wwww", s(c, 32) >= 0 ? a : b) \
    X("add.f16", "hhh", hb((double)half(a) + half(b))) \
    X("mul.rn.f16", "hhh", hb((double)half(a) * half(b))) \
    X("fma.rn.f16", "hhhh", hb((double)half(a) * half(b) + half(c))) \
    X("max.f16", "hhh", hb(most(half(a), half(b)))) \
    X("add.f16x2", "www", hb((double)half(a & 0xffff) + half(b & 0xffff)) | hb((double)half(a \
      >> 16) + half(b >> 16)) << 16) \
    X("add.bf16", "hhh", bb(decode_bf16((unsigned)a) + decode_bf16((unsigned)b))) \
    X("add.rn.bf16", "hhh", brain_add(a, b)) \
    X("sub.rn.bf16", "hhh", brain_sub(a, b)) \
    X("mul.rn.bf16", "hhh", brain_mul(a, b)) \
    X("add.rn.bf16x2", "www", pair(brain_add, a, b)) \
    X("sub.rn.bf16x2", "www", pair(brain_sub, a, b)) \
    X("mul.rn.bf16x2", "www", pair(brain_mul, a, b)) \
    X("ex2.approx.ftz.bf16", "hh", brain_exp2(a, 0)) \
    X("ex2.approx.ftz.bf16x2", "ww", pair(brain_exp2, a, 0)) \
    X("tanh.approx.bf16", "hh", brain_tanh(a, 0)) \
    X("tanh.approx.bf16x2", "ww", pair(brain_tanh, a, 0)) \
    X("add.s16x2", "www", pair(short_add, a, b)) \
    X("add.u16x2", "www", pair(short_add, a, b)) \
    X("min.s16x2", "www", pair(short_min, a, b)) \
    X("max.s16x2", "www", pair(short_max, a, b)) \
    X("min.u16x2", "www", pair(ushort_min, a, b)) \
    X("max.u16x2", "www", pair(ushort_max, a, b)) \
    X("min.relu.s32", "www", clamp_to((double)(s(a, 32) < s(b, 32) ? s(a, 32) : s(b, 32)), 0, INT32_MAX)) \
    X("max.relu.s32", "www", clamp_to((double)(s(a, 32) > s(b, 32) ? s(a, 32) : s(b, 32)), 0, INT32_MAX)) \
    X("setp.eq.bf16", "phh", brain(a) == brain(b)) \
    X("setp.lt.bf16", "phh", brain(a) < brain(b)) \
    X("setp.geu.bf16", "phh", !(brain(a) < brain(b))) \
    X("setp.neu.bf16", "phh", brain(a) != brain(b)) \
    X("setp.nan.bf16", "phh", isnan(brain(a)) || isnan(brain(b))) \
    X("setp.num.bf16", "phh", !isnan(brain(a)) && !isnan(brain(b))) \
    X("shr.b16", "hhw", b > 15 ? 0 : (a & 0xffff) >> b) \
    X("shr.b32", "www", b > 31 ? 0 : (a & UINT32_MAX) >> b) \
    X("shr.b64", "ddw", b > 63 ? 0 : a >> b) \
    X("cvt.u16.u32", "hw", a) \
    X("cvt.s64.s32", "dw", (uint64_t)s(a, 32)) \
    X("cvt.u64.u32", "dw", a) \
    X("cvt.s32.s16", "wh", (uint64_t)s(a, 16)) \
    X("cvt.s32.s8", "ww", (uint64_t)s(a, 8)) \
    X("cvt.u32.u8", "wh", a & 255) \
    X("cvt.sat.u8.s32", "ww", clamp_to((double)s(a, 32), 0, 255)) \
    X("cvt.sat.s16.s32", "hw", clamp_to((double)s(a, 32), -32768, 32767)) \
    X("cvt.u32.u64", "wd", a) \
    X("cvt.rn.f32.s32", "ww", fb((float)s(a, 32))) \
    X("cvt.rn.f32.u64", "wd", fb((float)a)) \
    X("cvt.rn.f64.s64", "dd", gb((double)(int64_t)a)) \
    X("cvt.rzi.s32.f32", "ww", clamp_to(trunc(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rni.s32.f32", "ww", clamp_to(nearbyint(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rmi.s32.f32", "ww", clamp_to(floor(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rzi.u32.f32", "ww", clamp_to(trunc(f(a)), 0, UINT32_MAX)) \
    X("cvt.rzi.u8.f32", "ww", clamp_to(trunc(f(a)), 0, 255)) \
    X("cvt.rpi.f32.f32", "ww", fb(ceilf(f(a)))) \
    X("cvt.rni.f32.f32", "ww", fb(nearbyintf(f(a)))) \
    X("cvt.rn.f32.f64", "wd", narrow_f64(a)) \
    X("cvt.f64.f32", "dw", gb(f(a))) \
    X("cvt.f32.f16", "wh", fb(half(a))) \
    X("cvt.rn.f16.f32", "hw", hb(f(a))) \
    X("cvt.rn.bf16.f32", "hw", bb(f(a))) \
    X("cvt.rn.f16.f64", "hd", g(a) == g(a) ? (uint64_t)(hb(g(a))) : (a >> 48 & 0x8000) | 0x7e00 | (a >> 42 & 0x3ff)) \
    X("cvt.rn.f16.s32", "hw", hb((double)s(a, 32))) \
    X("cvt.rzi.s32.f16", "wh", clamp_to(trunc(half(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rn.f16x2.f32", "www", hb(f(a)) << 16 | hb(f(b))) \
    X("cvt.rn.satfinite.e4m3x2.f32", "hww", e4(f(a)) << 8 | e4(f(b))) \
    X("cvt.rn.satfinite.e5m2x2.f32", "hww", e5(f(a)) << 8 | e5(f(b))) \
    X("cvt.rn.satfinite.e4m3x2.f16x2", "hw", e4(half(a & 0xffff)) | e4(half(a >> 16)) << 8)
// clang-format on

// Returns the result that case number `which` expects of the sources a, b and c.
static uint64_t reference_of(int which, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    int at = 0;
#define X(opcode, widths, e)                                                                       \
    if (which == at++)                                                                             \
        return (uint64_t)(e);
    CASES(X)
#undef X
    return 0;
}

static const struct {
    const char *opcode, *widths;
} cases[] = {
#define X(opcode, widths, e) {opcode, widths},
    CASES(X)
#undef X
};

static const uint64_t edges[] = {0,
                                 1,
                                 2,
                                 3,
                                 7,
                                 8,
                                 15,
                                 16,
                                 17,
                                 31,
                                 32,
                                 33,
                                 63,
                                 64,
                                 65,
                                 127,
                                 128,
                                 255,
                                 256,
                                 0x3c00,
                                 0x7bff,
                                 0x7c00,
                                 0x7e00,
                                 0x8000,
                                 0x8001,
                                 0x03ff,
                                 0x0400,
                                 0xfc00,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0x80000001,
                                 0xffffffff,
                                 0x55555555,
                                 0x00000001,
                                 0x007fffff,
                                 0x00800000,
                                 0x3f800000,
                                 0x3f800001,
                                 0x3fffffff,
                                 0xbf800000,
                                 0x3f000000,
                                 0x40200000,
                                 0x40600000,
                                 0x7f7fffff,
                                 0x7f800000,
                                 0xff800000,
                                 0x7fc00000,
                                 0xffc00001,
                                 0x33800000,
                                 0x477fe000,
                                 0x477ff000,
                                 0x4f000000,
                                 0xcf000000,
                                 0x4effffff,
                                 0x4f800000,
                                 0x43e00000,
                                 0x43e80000,
                                 0x3c800000,
                                 0x3b000000,
                                 0x3a800000,
                                 0x3a800001,
                                 0xc1200000,
                                 0x42fe0000,
                                 UINT64_C(0x7fffffffffffffff),
                                 UINT64_C(0x8000000000000000),
                                 UINT64_C(0xffffffffffffffff),
                                 UINT64_C(0x3ff0000000000000),
                                 UINT64_C(0xbff8000000000000),
                                 UINT64_C(0x7ff0000000000000),
                                 UINT64_C(0x7ff8000000000000),
                                 UINT64_C(0x0010000000000000),
                                 UINT64_C(0x000fffffffffffff),
                                 UINT64_C(0x47efffffefffffff),
                                 UINT64_C(0x3690000000000001),
                                 UINT64_C(0x40effe0000000000)};

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int bits_of_width(char width)
{
    return width == 'p' ? 1 : width == 'h' ? 16 : width == 'w' ? 32 : 64;
}

static uint64_t cut(uint64_t value, char width)
{
    int bits = bits_of_width(width);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

// Executes the operation on `count` rows of (a, b, c, result), 64 bits each, in place.
static void run_arithmetic(const char *opcode, const char *widths, uint64_t *rows, size_t count)
{
    static const char *const types[] = {"b16", "b32", "b64"};
    char loads[512] = "", code[256];
    int sources = (int)strlen(widths) - 1, used = 0;
    int length = snprintf(code, sizeof code, "%s %%%c0", opcode, widths[0]);
    for (int i = 0; i < sources; ++i) {
        char width = widths[i + 1];
        int log = width == 'h' ? 0 : width == 'w' ? 1 : 2;
        used += snprintf(loads + used, sizeof loads - (size_t)used,
                         "ld.global.%s %%%c%d, [%%row+%d];\n", types[log], width, i + 1, 8 * i);
        length += snprintf(code + length, sizeof code - (size_t)length, ", %%%c%d", width, i + 1);
    }
    strcat(code, ";");
    const char *widens = widths[0] == 'p'   ? "selp.b64 %d0, 1, 0, %p0;"
                         : widths[0] == 'h' ? "cvt.u64.u16 %d0, %h0;"
                         : widths[0] == 'w' ? "cvt.u64.u32 %d0, %w0;"
                                            : "";
    const char *with[PTX_HOLES] = {loads, code, widens};
    struct module *module = ptx_parse(ptx_text("frame.frame", "arithmetic.each_row", with));
    struct {
        uint64_t rows;
        uint32_t n;
    } params = {(uint64_t)(uintptr_t)rows, (uint32_t)count};
    struct setup s = {.grid = (unsigned)((count + 63) / 64), .block = 64};
    struct outcome o = run_module(module, "each_row", s, &params);
    assert_good(&o);
    finish(&o);
    module_free(module);
}

static bool same(uint64_t got, uint64_t wanted, const char *opcode, char width)
{
    if (got == wanted)
        return true;
    if (width == 'd' && strstr(opcode, "f64")) // any NaN equals any NaN
        return g(got) != g(got) && g(wanted) != g(wanted);
    return false;
}

static void arithmetic(void **state)
{
    (void)state;
    enum { EDGES = sizeof edges / sizeof edges[0], RANDOM = 2000, ROWS = EDGES * EDGES + RANDOM };
    uint64_t *rows = memory_alloc(ROWS * 32);
    uint64_t seed = 88172645463325252u;
    for (size_t t = 0; t < sizeof cases / sizeof cases[0]; ++t) {
        const char *widths = cases[t].widths;
        char wc = strlen(widths) > 3 ? widths[3] : 'd', wb = strlen(widths) > 2 ? widths[2] : 'd';
        for (size_t i = 0; i < ROWS; ++i) {
            uint64_t *row = rows + 4 * i;
            bool edge = i < EDGES * EDGES;
            row[0] = cut(edge ? edges[i / EDGES] : random_bits(&seed), widths[1]);
            row[1] = cut(edge ? edges[i % EDGES] : random_bits(&seed), wb);
            row[2] = cut(i & 1 ? random_bits(&seed) : edges[random_bits(&seed) % EDGES], wc);
            row[3] = 0xdead;
        }
        run_arithmetic(cases[t].opcode, widths, rows, ROWS);
        for (size_t i = 0; i < ROWS; ++i) {
            const uint64_t *row = rows + 4 * i;
            uint64_t wanted = cut(reference_of((int)t, row[0], row[1], row[2]), widths[0]);
            if (!same(row[3], wanted, cases[t].opcode, widths[0]))
                fail_msg("%s of %" PRIx64 ", %" PRIx64 ", %" PRIx64 ": %" PRIx64 " where %" PRIx64
                         " was expected",
                         cases[t].opcode, row[0], row[1], row[2], row[3], wanted);
        }
    }
    memory_free(rows);
}

// Converts all codes of both FP8 formats to halves, and all halves to f32.
static void narrow_floats(void **state)
{
    (void)state;
    uint64_t *rows = memory_alloc(65536 * 32);
    for (size_t i = 0; i < 65536; ++i)
        rows[4 * i] = i;
    run_arithmetic("cvt.rn.f16x2.e4m3x2", "wh", rows, 65536);
    for (uint64_t i = 0; i < 65536; ++i)
        for (int k = 0; k < 2; ++k) {
            unsigned code = i >> 8 * k & 0xff;
            uint64_t got = rows[4 * i + 3] >> 16 * k & 0xffff;
            double value =
                (code & 0x7f) == 0x7f ? NAN : decode_e4m3(code & 0x7f) * (code & 0x80 ? -1 : 1);
            assert_int_equal(got, hb(value));
        }
    run_arithmetic("cvt.rn.f16x2.e5m2x2", "wh", rows, 65536);
    for (uint64_t i = 0; i < 65536; ++i)
        for (int k = 0; k < 2; ++k) {
            unsigned code = i >> 8 * k & 0xff;
            uint64_t got = rows[4 * i + 3] >> 16 * k & 0xffff;
            double value = (code & 0x7f) > 0x7c    ? NAN
                           : (code & 0x7f) == 0x7c ? INFINITY
                                                   : decode_e5m2(code & 0x7f);
            assert_int_equal(got, hb(code & 0x80 ? -value : value));
        }
    run_arithmetic("cvt.f32.f16", "wh", rows, 65536);
    for (uint64_t i = 0; i < 65536; ++i)
        assert_int_equal(rows[4 * i + 3], fb(half(i)));
    memory_free(rows);
}

// Approximate functions are within the manual's bounds over their range.
static void approximations(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    uint64_t *rows = memory_alloc(ROWS * 32);
    static const struct {
        const char *opcode;
        double (*exact)(double);
        double low, high, ulps, absolute;
    } list[] = {
        {"ex2.approx.f32", exp2, -149, 128, 2, 0},   {"lg2.approx.f32", log2, 0x1p-126, 1e30, 2, 0},
        {"tanh.approx.f32", tanh, -10, 10, 2048, 0}, {"sqrt.approx.f32", sqrt, 0, 1e30, 2, 0},
        {"sin.approx.f32", sin, -3, 3, 2, 0x1p-21},  {"cos.approx.f32", cos, -3, 3, 2, 0x1p-21}};
    for (size_t t = 0; t < sizeof list / sizeof list[0]; ++t) {
        for (size_t i = 0; i < ROWS; ++i)
            rows[4 * i] =
                fb((float)(list[t].low + (list[t].high - list[t].low) * (double)i / ROWS));
        run_arithmetic(list[t].opcode, "ww", rows, ROWS);
        for (size_t i = 0; i < ROWS; ++i) {
            float got = f(rows[4 * i + 3]);
            double exact = list[t].exact(f(rows[4 * i]));
            double ulp = ldexp(1, (int)fmax(ilogb(exact ? exact : 1e-40), -126) - 23);
            if (!(fabs(got - exact) <= fmax(list[t].ulps * ulp, list[t].absolute)))
                fail_msg("%s of %a: %a where %a is exact", list[t].opcode, f(rows[4 * i]), got,
                         exact);
        }
    }
    static const float special[][2] = {{INFINITY, INFINITY}, {-INFINITY, 0},  {0, 1},
                                       {-1, 0.5f},           {128, INFINITY}, {-150, 0},
                                       {-149, 0x1p-149f}};
    for (size_t i = 0; i < 7; ++i)
        rows[4 * i] = fb(special[i][0]);
    run_arithmetic("ex2.approx.f32", "ww", rows, 7);
    for (size_t i = 0; i < 7; ++i)
        assert_int_equal(rows[4 * i + 3], fb(special[i][1]));
    run_arithmetic("ex2.approx.ftz.f32", "ww", rows, 7);
    assert_int_equal(rows[4 * 6 + 3], 0);
    memory_free(rows);
}

static void packing_and_carry(void **state)
{
    (void)state;
    uint32_t *out = words("arithmetic.packing", 4, .block = 1);
    assert_int_equal(out[0], 0x22114433);
    assert_int_equal(out[1], 0x4433); // the third 16 bits of {r1, r2}
    assert_int_equal(out[2], 1);
    assert_int_equal(out[3], 0);
    free(out);
    EACH("arithmetic.carries", 32, 1 + 4 + (0xf00 << 8) + (8 << 24));
    EACH("arithmetic.borrows", 32, i < 5 ? 2 + 1 : 4);
    EACH("arithmetic.two_predicates", 32, i < 2 ? 1 : i == 3 ? 3 : 2);
}

// ---- Control flow -------------------------------------------------------------------------------

static void if_and_else(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(256);
    struct counts counts = run_well("control.if_and_else", (struct setup){.block = 64}, out);
    for (uint32_t i = 0; i < 64; ++i)
        assert_int_equal(out[i], i < 10 ? i + 100 : 3 * i);
    assert_int_equal(counts.divergent_branches, 1);
    assert_int_equal(counts.classes[CLASS_GLOBAL_STORE], 2); // the lanes have reconverged
    assert_int_equal(counts.global_store_sectors, 8);
    assert_int_equal(counts.global_store_bytes, 256);
    memory_free(out);
}

// What control.loops adds up in a lane.
static uint32_t sum_above_100(uint32_t lane)
{
    uint32_t sum = 0;
    for (uint32_t k = 0; k < lane && lane != 31 && sum <= 100; ++k)
        sum += k;
    return sum;
}

static void loops(void **state)
{
    (void)state;
    EACH("control.loops", 32, sum_above_100(i));
}

static void predication(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(128);
    struct counts counts = run_well("control.predication", (struct setup){0}, out);
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], i & 1 ? 5 + i : 6);
    // Each of two guarded instructions is executed by half of the lanes.
    assert_int_equal(counts.thread_instructions, 32 * counts.warp_instructions - 32);
    memory_free(out);
}

static void calls(void **state)
{
    (void)state;
    static const uint32_t fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13};
    EACH("control.calls", 32, 8000 + fibonacci[i & 7]);
    EACH("control.in_registers", 32, 7011 + 8 * i);
}

static void scopes(void **state)
{
    (void)state;
    EACH("control.scopes", 32, 5 + 20 + 7 + 100 * i);
}

static void switches(void **state)
{
    (void)state;
    static const uint32_t expected[] = {10, 20, 30, 20};
    EACH("control.switches", 32, expected[i & 3]);
}

static void spinning(void **state)
{
    (void)state;
    EACH("control.spinning", 32, i == 5 ? 78 : 77);
}

// CTAs that wait for one another run on one host thread and on two.
static void grid_barrier(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; ++threads) {
        uint32_t *out = memory_alloc(4 * 64);
        memset(out, 0, 4 * 64);
        run_well("control.grid_barrier", (struct setup){.grid = 8, .block = 1, .threads = threads},
                 out);
        for (int i = 0; i < 8; ++i)
            assert_int_equal(out[1 + i], 8);
        memory_free(out);
    }
}

// Recursion as deep as the launch's stack allows.
static void deep_calls(void **state)
{
    (void)state;
    EACH("control.deep_calls", 32, 900, .stack = 64 << 10, .with = {"300"});
    expect_fault("control.deep_calls", FAULT_OUT_OF_BOUNDS, "the stack is full", .stack = 1024,
                 .with = {"300"});
    expect_fault("control.deep_calls", FAULT_OUT_OF_BOUNDS, "the stack is full",
                 .with = {"1000000"});
}

// ---- Between threads ----------------------------------------------------------------------------

static void barriers(void **state)
{
    (void)state;
    for (unsigned schedule = 0; schedule < 16; ++schedule) {
        uint32_t *out = memory_alloc(4 * 128);
        struct counts counts =
            run_well("threads.barriers", (struct setup){.block = 128, .schedule = schedule}, out);
        for (uint32_t i = 0; i < 128; ++i)
            assert_int_equal(out[i], 5000000 + (127 - i) * (127 - i));
        assert_int_equal(counts.barriers, 8);
        memory_free(out);
    }
}

static void barriers_and_exits(void **state)
{
    (void)state;
    EACH("threads.early_exit", 96, i < 40 ? 1 : 0xeeeeeeee, .block = 96);
    EACH("threads.arrives", 64, i, .block = 64);
    expect_fault("threads.runs_past", FAULT_DIVERGENT_BARRIER,
                 "lane 16 of the warp has run past it to the kernel's end");
    EACH("threads.runs_to_the_end", 32, i < 16 ? 1 : 0xeeeeeeee);
    EACH("threads.comes_in_the_end", 32, i < 16 ? 0 : 6);
}

static void shuffles(void **state)
{
    (void)state;
    uint32_t *out = words("threads.shuffles", 32);
    for (uint32_t i = 0; i < 32; ++i) {
        assert_int_equal(out[i] & 31, i ^ 5);
        assert_int_equal(out[i] >> 5 & 31, i >= 3 ? i - 3 : i);
        assert_int_equal(out[i] >> 10 & 31, i + 3 < 32 ? i + 3 : i);
        assert_int_equal(out[i] >> 15 & 31, (i & ~7u) | 1); // width 8: lane 9 % 8 of each segment
        assert_int_equal(out[i] >> 20 & 1, i >= 3);
        assert_int_equal(out[i] >> 21 & 1, i + 3 < 32);
    }
    free(out);
}

static void votes(void **state)
{
    (void)state;
    EACH("threads.votes", 32,
         i == 11  ? 0xfff
         : i < 12 ? 66
                  : 0xfff + (2 << 16) + (8 << 20),
         .racy = true);
}

static void atomics(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(4 * 16);
    memset(out, 0, 64);
    run_well("threads.atomics", (struct setup){.grid = 5, .block = 40, .threads = 2}, out);
    assert_int_equal(out[0], 200);
    assert_int_equal(out[1], 199);
    assert_int_equal(out[2], 255);
    assert_int_equal(out[3], fb(200));
    assert_int_equal(out[4], 600);
    assert_int_equal(out[5], 200 % 10);
    assert_int_equal(out[7], 200);
    memory_free(out);
}

static void subnormal_sums(void **state)
{
    (void)state;
    static const uint32_t before[] = {5, 0x80000005, 0x00800001};
    static const uint32_t after[] = {0, 0x80000000, 0, 8, 0x66ed3e76, 0x7ff83ea5};
    uint32_t *out = memory_alloc(sizeof after);
    memcpy(out, before, sizeof before);
    run_well("threads.subnormal_sums", (struct setup){.block = 1}, out);
    assert_memory_equal(out, after, sizeof after);
    memory_free(out);
}

// Several launches, each with blocks on several host threads.
static void last_block(void **state)
{
    (void)state;
    enum { BLOCKS = 64, LAUNCHES = 400 };
    uint32_t *out = memory_alloc(4 * (2 + BLOCKS));
    memset(out, 0, 4 * (2 + BLOCKS));
    struct module *m = ptx_parse(ptx_text("frame.frame", "threads.last_block", no_holes));
    uint64_t param = (uint64_t)(uintptr_t)out;
    for (int i = 0; i < LAUNCHES; ++i) {
        struct outcome o = run_module(
            m, "last_block", (struct setup){.grid = BLOCKS, .block = 1, .threads = 4}, &param);
        assert_good(&o);
        finish(&o);
        assert_int_equal(out[0], 0);
        assert_int_equal(out[1], BLOCKS * (BLOCKS - 1) / 2);
        out[1] = 0;
    }
    module_free(m);
    memory_free(out);
}

// ---- Memory -------------------------------------------------------------------------------------

static void spaces(void **state)
{
    (void)state;
    EACH("memory.spaces", 64, i < 32 ? 8 * i + 3000 + 10000 * i : (uint32_t)(int8_t)(7 * (i - 32)));
}

static void variables(void **state)
{
    (void)state;
    struct module *m = ptx_parse(ptx_text("frame.frame", "memory.variables", no_holes));
    uint64_t params[2] = {0, 5};
    struct outcome o = run_module(m, "variables", (struct setup){.block = 1}, params);
    assert_good(&o);
    finish(&o);
    void *address;
    size_t size;
    assert_true(module_symbol(m, "table", &address, &size));
    assert_int_equal(size, 16);
    assert_int_equal(((uint32_t *)address)[3], 0x04030201 + 0x30 + 5);
    assert_false(module_symbol(m, "nothing", &address, &size));
    const struct kernel_info *info = kernel_info(module_kernel(m, "variables"));
    assert_int_equal(info->params, 1);
    assert_int_equal(info->param_sizes[0], 16);
    module_free(m);
}

static void dynamic_shared(void **state)
{
    (void)state;
    EACH("memory.dynamic_shared", 1, 32 + 9, .block = 1, .dynamic_shared = 64);
    expect_fault("memory.dynamic_shared", FAULT_OUT_OF_BOUNDS, "", .block = 1,
                 .dynamic_shared = 60);
}

// Sizes as on an H200: the CTA has 400 static and 1000 dynamic bytes; of the 1024 bytes that the
// system keeps for itself, it uses 288.
static void reserved_shared_memory(void **state)
{
    (void)state;
    static const uint32_t expected[] = {288, 0, 1024, 1408, 1000, 0, 1};
    EACH("memory.reserved_shared", 7, expected[i], .block = 1, .dynamic_shared = 1000);
    expect_fault("frame.few", FAULT_OUT_OF_BOUNDS, "past the end", .block = 1,
                 .dynamic_shared = 1000,
                 .with = {"mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r2, [%r1 + 288];",
                          ".shared .align 4 .b8 s[400];"});
}

static void whole_lines(void **state)
{
    (void)state;
    uint32_t *out = words("memory.whole_lines", 384);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t other = lane & 2 ? lane ^ 1 : lane;
        const uint32_t first[4] = {lane, lane, lane + 1000, lane};
        const uint32_t then[4] = {other, other, other + 1000, other};
        assert_memory_equal(out + 4 * lane, first, 16);
        assert_memory_equal(out + 128 + 4 * lane, then, 16);
        assert_memory_equal(out + 256 + 4 * lane, then, 16);
    }
    free(out);
}

// malloc and free in device code, and the heap's limit.
static void device_heap(void **state)
{
    (void)state;
    static const char *const wrong[][4] = {
        {"20", "0", "st.u32 [%rd1+20], %lane;", "of the heap, not all of them in a block"},
        {"16", "%rd1", "ld.u32 %r1, [%rd1];", "of the heap, not all of them in a block"},
        {"16", "%rd1", "{ .param .b64 p; st.param.b64 [p], %rd1; call.uni free, (p); }",
         "or which has been freed"},
        {"16", "%out", "", "which malloc in device code did not return"},
    };
    assert_false(heap_limit(SIZE_MAX / 2)); // more than the device has
    EACH("memory.heap", 32, i);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        expect_fault("memory.heap_wrong", FAULT_OUT_OF_BOUNDS, wrong[i][3],
                     .with = {wrong[i][0], wrong[i][1], wrong[i][2]});
    assert_false(heap_limit(1 << 20)); // too late: the heap is in use
    assert_int_equal(heap_take(9 << 20), 0);
    uint64_t most = heap_take(6 << 20);
    assert_int_not_equal(most, 0);
    assert_int_equal(heap_take(3 << 20), 0); // the heap is exhausted
    assert_true(heap_give(most));
    uint64_t again = heap_take(3 << 20);
    assert_int_not_equal(again, 0);
    assert_true(heap_give(again));
}

// Whole tiles through wmma: D = A B + C against f64, every layout, and a one-hot A that shows which
// register holds which element.
static void wmma_case(const char *a_layout, const char *b_layout, const char *d_layout,
                      bool one_hot)
{
    uint8_t *data = memory_alloc(8192);
    uint16_t *a = (uint16_t *)data, *b = (uint16_t *)(data + 1024);
    float *c = (float *)(data + 2048), *d = (float *)(data + 4096);
    uint64_t seed = 12345;
    struct setup s = {.with = {a_layout, b_layout, d_layout}};
    bool a_row = a_layout[0] == 'r', b_row = b_layout[0] == 'r', d_row = d_layout[0] == 'r';
    for (int hot = 0; hot < (one_hot ? 256 : 4); ++hot) {
        double wide_a[16][16], wide_b[16][16];
        for (int i = 0; i < 16; ++i)
            for (int j = 0; j < 16; ++j) {
                uint16_t x =
                    (uint16_t)hb((double)(int64_t)(random_bits(&seed) % 2001 - 1000) / 256);
                uint16_t y =
                    (uint16_t)hb((double)(int64_t)(random_bits(&seed) % 2001 - 1000) / 512);
                if (one_hot)
                    x = 16 * i + j == hot ? 0x3c00 : 0;
                a[a_row ? 24 * i + j : 24 * j + i] = x;
                b[b_row ? 24 * i + j : 24 * j + i] = y;
                c[24 * i + j] = one_hot ? 0 : (float)i - (float)j;
                wide_a[i][j] = half(x);
                wide_b[i][j] = half(y);
            }
        struct counts counts = run_well("arithmetic.wmma", s, data);
        assert_int_equal(counts.tensor_flops, 8192);
        assert_int_equal(counts.tensor_instructions, 2);
        for (int i = 0; i < 16; ++i)
            for (int j = 0; j < 16; ++j) {
                double sum = c[24 * i + j], size = fabs(sum);
                for (int k = 0; k < 16; ++k) {
                    sum += wide_a[i][k] * wide_b[k][j];
                    size += fabs(wide_a[i][k] * wide_b[k][j]);
                }
                float got = d[d_row ? 24 * i + j : 24 * j + i];
                if (!(fabs(got - sum) <= 16 * 0x1p-24 * size))
                    fail_msg("%s %s: element %d, %d is %g where %g was expected", a_layout,
                             b_layout, i, j, got, sum);
            }
    }
    memory_free(data);
}

static void wmma(void **state)
{
    (void)state;
    wmma_case("row", "col", "row", false);
    wmma_case("row", "row", "col", false);
    wmma_case("col", "col", "row", false);
    wmma_case("col", "row", "row", false);
    wmma_case("row", "col", "row", true);
}

// ---- Counts -------------------------------------------------------------------------------------

static void wavefronts(void **state)
{
    (void)state;
    static const struct {
        int stride, bytes, wavefronts, least; // stride in bytes
    } list[] = {{4, 4, 1, 1},    {8, 4, 2, 1},   {16, 4, 4, 1},   {32, 4, 8, 1},
                {128, 4, 32, 1}, {132, 4, 1, 1}, {0, 4, 1, 1},    {2, 2, 1, 1},
                {1, 1, 1, 1},    {64, 2, 16, 1}, {8, 8, 2, 2},    {16, 8, 4, 2},
                {0, 8, 1, 1},    {16, 16, 4, 4}, {144, 16, 4, 4}, {128, 16, 32, 4}};
    for (size_t t = 0; t < sizeof list / sizeof list[0]; ++t) {
        uint32_t at[WARP];
        for (int i = 0; i < WARP; ++i)
            at[i] = (uint32_t)(i * list[t].stride);
        int least_possible, got = shared_wavefronts(at, list[t].bytes, ~0u, &least_possible);
        if (got != list[t].wavefronts || least_possible != list[t].least)
            fail_msg("stride %d of %d bytes: %d wavefronts, least %d", list[t].stride,
                     list[t].bytes, got, least_possible);
    }
    int least_possible;
    uint32_t at[WARP] = {0};
    assert_int_equal(shared_wavefronts(at, 4, 0, &least_possible), 0);
    for (int i = 0; i < WARP; ++i)
        at[i] = (uint32_t)(i % 2 * 128); // two words in one bank
    assert_int_equal(shared_wavefronts(at, 4, ~0u, &least_possible), 2);
    assert_int_equal(shared_wavefronts(at, 4, 0x55555555, &least_possible), 1);
    uint64_t far[WARP];
    for (int i = 0; i < WARP; ++i)
        far[i] = 4096 + (uint64_t)i * 4;
    assert_int_equal(global_sectors(far, 4, ~0u), 4);
    assert_int_equal(global_sectors(far, 4, 0x101), 2);
    for (int i = 0; i < WARP; ++i)
        far[i] = 4096 + (uint64_t)i * 32;
    assert_int_equal(global_sectors(far, 4, ~0u), 32);
    for (int i = 0; i < WARP; ++i)
        far[i] = 4100 + (uint64_t)(i ^ 1) * 4; // shifted by a word: one sector more
    assert_int_equal(global_sectors(far, 4, ~0u), 5);
    for (int i = 0; i < WARP; ++i)
        far[i] = 4096;
    assert_int_equal(global_sectors(far, 16, ~0u), 1);
}

// Wavefronts for elements of `bytes` bytes (at least a word), by comparing each lane's element with
// all earlier lanes'.
static int elements_in_fullest_bank(const uint32_t at[WARP], uint32_t bytes, uint32_t mask)
{
    int depth[32] = {0}, most = 0;
    for (int i = 0; i < WARP; ++i) {
        bool again = !(mask >> i & 1);
        for (int j = 0; j < i; ++j)
            again = again || ((mask >> j & 1) && at[j] / bytes == at[i] / bytes);
        if (!again && ++depth[at[i] / bytes % (128 / bytes)] > most)
            most = depth[at[i] / bytes % (128 / bytes)];
    }
    return most;
}

// For an access of the last access's shape, the simulator reuses the last count: here accesses have
// the last one's shape, nearly that shape, or another.
static void wavefronts_in_turn(void **state)
{
    (void)state;
    uint32_t at[WARP] = {0}, mask = ~0u, bytes = 4, wider;
    unsigned random = 1;
    for (int turn = 0; turn < 20000; ++turn) {
        random = random * 1664525 + 1013904223;
        unsigned drawn = random >> 8;
        switch (drawn % 6) {
        case 0: // another shape
            for (int i = 0; i < WARP; ++i)
                at[i] = 4096 + (uint32_t)i * (drawn >> 4 & 255) * (drawn >> 12 & 1 ? 4 : 1);
            break;
        case 1: // one lane at another address
            at[drawn >> 4 & 31] = 4096 + (drawn >> 9 & 1023);
            break;
        case 2: // other active lanes: all, all but one, the lowest 16 or 8
            mask = drawn >> 4 & 1   ? ~0u
                   : drawn >> 5 & 1 ? ~(1u << (drawn >> 6 & 31))
                                    : 0xffffffffu >> (drawn >> 6 & 1 ? 16 : 24);
            break;
        case 3: // the same elements, of another size
            wider = 4u << (drawn >> 4) % 3;
            for (int i = 0; i < WARP; ++i)
                at[i] = (at[i] / bytes * wider) & 0xffff;
            bytes = wider;
            break;
        default: // all moved by bytes or words
            for (int i = 0; i < WARP; ++i)
                at[i] += drawn >> 4 & 1 ? 4 * (drawn >> 5 & 63) : drawn >> 5 & 3;
        }
        int least, expected = 0, parts = (int)bytes / 4;
        for (int part = 0; part < parts; ++part)
            expected += elements_in_fullest_bank(
                at, bytes, mask & (UINT32_MAX >> (WARP - WARP / parts)) << part * (WARP / parts));
        if (shared_store_wavefronts(at, (int)bytes, mask, &least) != expected)
            fail_msg("turn %d: not %d wavefronts", turn, expected);
    }
}

// Lanes access words `stride` words apart: the fast paths count what shared_wavefronts() and
// global_sectors() return.
static void counted_accesses(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(4 * 32 * 32);
    for (int stride = 0; stride <= 32; ++stride) {
        char bytes[8];
        snprintf(bytes, sizeof bytes, "%d", 4 * stride);
        struct counts counts =
            run_well("memory.strides", (struct setup){.racy = true, .with = {bytes}}, out);
        uint32_t at[WARP];
        uint64_t far[WARP];
        for (int i = 0; i < WARP; ++i) {
            at[i] = (uint32_t)(4 * stride * i);
            far[i] = (uint64_t)(uintptr_t)out + at[i];
        }
        int least_possible, expected = shared_wavefronts(at, 4, ~0u, &least_possible);
        assert_int_equal(counts.shared_load_wavefronts, expected);
        assert_int_equal(counts.shared_store_wavefronts, expected);
        assert_int_equal(counts.shared_load_conflicts, expected - least_possible);
        assert_int_equal(counts.shared_bytes, 256);
        assert_int_equal(counts.global_load_sectors, global_sectors(far, 4, ~0u));
        assert_int_equal(counts.global_store_sectors, global_sectors(far, 4, ~0u));
        assert_int_equal(counts.classes[CLASS_SHARED_LOAD], 1);
        assert_int_equal(counts.classes[CLASS_GLOBAL_STORE], 1);
    }
    memory_free(out);
}

static void lines_and_threads(void **state)
{
    (void)state;
    struct module *m = ptx_parse(ptx_text("frame.frame", "control.lines", no_holes));
    uint32_t *out = memory_alloc(4);
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct counts first = {0};
    for (int threads = 1; threads <= 3; ++threads) {
        *out = 0;
        struct outcome o = run_module(
            m, "lines", (struct setup){.grid = 37, .block = 32, .threads = threads}, &param);
        assert_good(&o);
        assert_int_equal(*out, 37 * 32 * 10);
        static const int line[] = {10, 12, 13, 14};
        static const uint64_t executed[] = {3 * 37, 370, 740, 2 * 37};
        assert_int_equal(o.line_count, 4);
        for (size_t i = 0; i < 4; ++i) {
            assert_string_equal(o.lines[i].file, "chapters/x.md");
            assert_int_equal(o.lines[i].line, line[i]);
            assert_int_equal(o.lines[i].counts.warp_instructions, executed[i]);
        }
        if (threads == 1)
            first = o.counts;
        else
            assert_memory_equal(&o.counts, &first, sizeof first);
        finish(&o);
    }
    memory_free(out);
    module_free(m);
}

static void floors(void **state)
{
    (void)state;
    struct counts c = {.tensor_flops = 121000000,
                       .mufu_threads = 16 * 58 * 2040,
                       .warp_instructions = 4 * 58 * 2040 * 3};
    struct floors l4 = l4_floors(&c, 600000);
    assert_float_equal(l4.tensor, 1, 1e-9);
    assert_float_equal(l4.exp, 1, 1e-9);
    assert_float_equal(l4.issue, 3, 1e-9);
    assert_float_equal(l4.dram, 2, 1e-9);
    assert_float_equal(l4.shared, 0, 1e-9);
    assert_string_equal(l4.binding, "issue");
    c.tensor_flops_8bit = 60500000; // half of the products, at twice the rate
    assert_float_equal(l4_floors(&c, 600000).tensor, 0.75, 1e-9);
}

// ---- Sparse products ----------------------------------------------------------------------------

// The code of a whole number from -4 to 8 (in floating-point formats of 8 bits: to 4) in a type.
static uint32_t sparse_code(const char *type, int value)
{
    static const uint8_t e4m3[] = {0, 0x38, 0x40, 0x44, 0x48}, e5m2[] = {0, 0x3c, 0x40, 0x42, 0x44};
    int size = abs(value);
    if (!strcmp(type, "e4m3") || !strcmp(type, "e5m2"))
        return (type[1] == '4' ? e4m3[size] : e5m2[size]) | (value < 0 ? 0x80u : 0);
    if (!strcmp(type, "f16"))
        return (uint32_t)hb(value);
    if (!strcmp(type, "bf16"))
        return (uint32_t)fb((float)value) >> 16;
    return type[0] == 't' ? (uint32_t)fb((float)value) : (uint32_t)value;
}

struct sparse {
    const char *type, *sum, *shape;
    int bits, k, selector;
};

// A with 16 rows and nonzero places chosen at random, packed as the manual's fragments are; D = A B
// + C in whole numbers. Lanes whose metadata is not used have invalid metadata.
static void sparse_case(const struct sparse *t)
{
    enum { A = 0, B = 4, C = 8, META = 12, D = 13 };
    bool wide = t->bits >= 16, tf32 = t->bits == 32, whole = t->sum[0] == 's',
         half_sum = t->sum[1] == '1';
    int each = 32 / t->bits, across = 4 * each, pairs = t->bits == 4 ? 2 : 1, stored = t->k / 2;
    int a[16][128] = {0}, b[8][128], c[16][8];
    uint32_t *out = memory_alloc(17 * 128);
    uint64_t seed = (uint64_t)(t->k * 100 + t->bits);
    memset(out, 0, 17 * 128);
    for (int i = 0; i < 32; ++i)
        out[META * 32 + i] = 0x55555555;
    int lanes = (tf32 ? 2 * t->k : t->k / pairs) / 16, low = t->type[0] == 'u' ? 0 : -4;
    for (int i = 0; i < 16; ++i)
        for (int s = 0; s < stored; s += pairs) {
            static const uint8_t picks[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
            static int pick;
            int unit = s / pairs, field = tf32 ? 4 : 2, bit = unit * field;
            if (unit % 2 == 0 || tf32)
                pick = (int)(random_bits(&seed) % 6);
            int place = tf32 ? pick % 2 : picks[pick][unit % 2];
            uint32_t code = tf32 ? (place ? 14 : 4) : (uint32_t)place;
            int base = tf32 ? 2 * s : unit / 2 * 4 * pairs, per = wide ? 16 : 32;
            int word = wide ? bit / 16 : 2 * (bit / 32) + i / 8;
            uint32_t *meta = &out[META * 32 + i % 8 * 4 + t->selector * lanes + word];
            int shift = bit % per + (wide ? 16 * (i / 8) : 0);
            *meta = (*meta & ~((uint32_t)((1 << field) - 1) << shift)) | code << shift;
            for (int e = 0; e < pairs; ++e) {
                int value = low + (int)(random_bits(&seed) % 9), at = s + e;
                a[i][base + place * pairs + e] = t->bits == 4 &&value > 7 ? value -= 2 : value;
                int reg = i / 8 + 2 * (at / across), lane = i % 8 * 4 + at % across / each;
                uint32_t mask = tf32 ? ~0u : (1u << t->bits) - 1;
                out[(A + reg) * 32 + lane] |= (sparse_code(t->type, value) & mask)
                                              << at % each * t->bits % 32;
            }
        }
    for (int j = 0; j < 8; ++j)
        for (int k = 0; k < t->k; ++k) {
            b[j][k] = low + (int)(random_bits(&seed) % 8);
            uint32_t mask = tf32 ? ~0u : (1u << t->bits) - 1;
            out[(B + k / across) * 32 + j * 4 + k % across / each] |=
                (sparse_code(t->type, b[j][k]) & mask) << k % each * t->bits % 32;
        }
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
            c[i][j] = 8 * i - j;
            int lane = i % 8 * 4 + j / 2;
            if (half_sum)
                out[(C + i / 8) * 32 + lane] |= (uint32_t)hb(c[i][j]) << 16 * (j % 2);
            else
                out[(C + i / 8 * 2 + j % 2) * 32 + lane] =
                    whole ? (uint32_t)c[i][j] : (uint32_t)fb((float)c[i][j]);
        }
    char opcode[128], selector[4], regs[3][64] = {"", "", ""};
    int counts[3] = {2 * ((stored + across - 1) / across), t->k / across, half_sum ? 2 : 4};
    for (int which = 0; which < 3; ++which)
        for (int i = 0, used = 0; i < counts[which]; ++i)
            used += snprintf(regs[which] + used, sizeof regs[which] - (size_t)used, "%s%%r%d",
                             i ? ", " : "", 4 * which + i);
    snprintf(opcode, sizeof opcode, "mma.sp::ordered_metadata.sync.aligned.%s.row.col.%s.%s.%s.%s",
             t->shape, t->sum, t->type, t->type, t->sum);
    snprintf(selector, sizeof selector, "%d", t->selector);
    struct setup s = {.with = {opcode, regs[0], regs[1], regs[2], selector}};
    struct counts counted = run_well("arithmetic.sparse", s, out);
    assert_int_equal(counted.tensor_flops, 16 * 8 * t->k); // only stored elements count
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
            int want = c[i][j], lane = i % 8 * 4 + j / 2;
            for (int k = 0; k < t->k; ++k)
                want += a[i][k] * b[j][k];
            uint32_t got = half_sum ? out[(D + i / 8) * 32 + lane] >> 16 * (j % 2) & 0xffff
                                    : out[(D + i / 8 * 2 + j % 2) * 32 + lane];
            uint32_t code = half_sum ? (uint32_t)hb(want)
                            : whole  ? (uint32_t)want
                                     : (uint32_t)fb((float)want);
            if (got != code)
                fail_msg("%s %s: element %d, %d is %08x where %08x (%d) was expected", t->shape,
                         t->type, i, j, got, code, want);
        }
    memory_free(out);
}

static void sparse_products(void **state)
{
    (void)state;
    static const struct sparse list[] = {
        {"f16", "f32", "m16n8k16", 16, 16, 3},  {"f16", "f32", "m16n8k32", 16, 32, 1},
        {"f16", "f16", "m16n8k32", 16, 32, 0},  {"bf16", "f32", "m16n8k16", 16, 16, 0},
        {"bf16", "f32", "m16n8k32", 16, 32, 1}, {"tf32", "f32", "m16n8k8", 32, 8, 2},
        {"tf32", "f32", "m16n8k16", 32, 16, 1}, {"s8", "s32", "m16n8k32", 8, 32, 1},
        {"u8", "s32", "m16n8k64", 8, 64, 0},    {"s8", "s32", "m16n8k64", 8, 64, 0},
        {"s4", "s32", "m16n8k64", 4, 64, 1},    {"u4", "s32", "m16n8k128", 4, 128, 0},
        {"e4m3", "f32", "m16n8k64", 8, 64, 0},  {"e5m2", "f32", "m16n8k64", 8, 64, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i)
        sparse_case(&list[i]);
    static const struct {
        const char *metadata, *opcode, *selector;
        enum fault_kind kind;
        const char *text;
    } wrong[] = {
        {"0", "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "0", FAULT_TRAP,
         "thread (0,0,0): mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 with metadata 0x0 "
         "for row 0 of A"},
        {"0x11114444", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
         "3", FAULT_TRAP,
         "thread (3,0,0): mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
         "with "
         "metadata 0x1111 for row 8 of A"},
        {"0x44444444", "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "4",
         FAULT_UNSUPPORTED, "the sparsity selector is a number below 4"},
        {"0x44444444", "mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32", "0",
         FAULT_UNSUPPORTED,
         "instruction mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 is not supported"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        expect_fault("arithmetic.sparse_wrong", wrong[i].kind, wrong[i].text,
                     .with = {wrong[i].metadata, wrong[i].opcode, wrong[i].selector});
}

// ---- Faults -------------------------------------------------------------------------------------

// A few instructions and the fault that they end in.
struct few {
    const char *body, *text, *declared;
    enum fault_kind kind;
    unsigned grid, block;
};

#define expect_each(list) each_fails(list, sizeof list / sizeof list[0])
static void each_fails(const struct few *list, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        expect_fault("frame.few", list[i].kind, list[i].text, .grid = list[i].grid,
                     .block = list[i].block, .with = {list[i].body, list[i].declared});
}

static void memory_faults(void **state)
{
    (void)state;
    static const char words16[] = ".shared .align 4 .b8 s[64];";
    const struct few list[] = {
        {"ld.global.u32 %r1, [%o+3984];", "block (0,0,0), thread (28,0,0): reads 4 bytes at 0x",
         .kind = FAULT_OUT_OF_BOUNDS},
        // Without a .file, the line in the PTX is reported.
        {".loc 1 7 1\nld.global.u32 %r1, [%o+3972];", "few, PTX line", .kind = FAULT_OUT_OF_BOUNDS},
        {"add.s64 %rd1, %o, 4; st.global.u32 [%rd1+4104], %r1;",
         ", 12 bytes past the end of the allocation of 4096 bytes", .kind = FAULT_OUT_OF_BOUNDS,
         .block = 1},
        {"ld.global.u32 %r1, [%out+-8];", ", 8 bytes before the allocation of 4096 bytes",
         .kind = FAULT_OUT_OF_BOUNDS},
        {"ld.global.u64 %rd1, [%out+4];", "block (0,0,0), thread (0,0,0): reads 8 bytes",
         .kind = FAULT_MISALIGNED, .grid = 3, .block = 1},
        {"ld.global.u32 %r1, [8];", "a null pointer", .kind = FAULT_OUT_OF_BOUNDS},
        {"mov.u32 %r2, s; mad.lo.u32 %r1, %lane, 4, %r2; st.shared.u32 [%r1], %r1;",
         "thread (16,0,0): writes 4 bytes at shared address 64, past the end of the CTA's 64 "
         "bytes",
         .declared = words16, .kind = FAULT_OUT_OF_BOUNDS},
        {"st.shared.u32 [s], 1; ld.shared.u32 %r2, [s+4];",
         "reads 4 bytes at shared address 4 that nothing has written", .declared = words16,
         .kind = FAULT_UNINITIALISED},
        {"st.shared.u16 [s], 1; ld.shared.u32 %r2, [s];",
         "shared address 0 that nothing has written", .declared = words16,
         .kind = FAULT_UNINITIALISED},
        {"ld.local.u32 %r1, [l+16];", "offset 16 of local memory",
         .declared = ".local .align 4 .b8 l[16];", .kind = FAULT_OUT_OF_BOUNDS},
        {"mov.u64 %rd1, 0x7700000000000000; ld.u32 %r1, [%rd1];", "in no address space",
         .kind = FAULT_OUT_OF_BOUNDS},
    };
    expect_each(list);
    uint32_t *gone = memory_alloc(64);
    char body[128];
    snprintf(body, sizeof body, "ld.global.u32 %%r1, [%llu];", (unsigned long long)(uintptr_t)gone);
    memory_free(gone);
    expect_fault("frame.few", FAULT_OUT_OF_BOUNDS, "has been freed", .with = {body});
    // The lowest CTA's fault is reported, whatever the number of host threads.
    for (int threads = 1; threads <= 3; ++threads)
        expect_fault("frame.few", FAULT_OUT_OF_BOUNDS, "block (20,0,0)", .grid = 64, .block = 1,
                     .threads = threads,
                     .with = {"setp.lt.u32 %p1, %gid, 20; @%p1 ret; ld.global.u32 %r1, [8];"});
}

static void control_faults(void **state)
{
    (void)state;
    static const struct few list[] = {
        {"setp.eq.u32 %p1, %lane, 9; @%p1 trap;", "thread (9,0,0): trap", .kind = FAULT_TRAP},
        {"setp.lt.u32 %p1, %lane, 32; @%p1 bra A; bar.sync 0;\nA: bar.sync 1;",
         "deadlock: 2 of 2 warps wait", .kind = FAULT_DEADLOCK, .block = 64},
        {"setp.lt.u32 %p1, %lane, 7; @%p1 bra A; bar.sync 0; bra B;\nA: bar.sync 0;\nB:",
         "under divergence", .kind = FAULT_DIVERGENT_BARRIER},
        {"setp.lt.u32 %p1, %lane, 7; @%p1 bra A; shfl.sync.idx.b32 %r1, %lane, 0, 31, -1; bra B;\n"
         "A: shfl.sync.idx.b32 %r1, %lane, 1, 31, -1;\nB:",
         "shfl.sync", .kind = FAULT_DIVERGENT_BARRIER},
        {"mov.u32 %r1, 16; bar.sync %r1;", "barrier 16", .kind = FAULT_TRAP},
        {"bar.sync 1, 40;", "no multiple of 32", .kind = FAULT_TRAP, .block = 64},
        {"txq.width.b32 %r1, [%rd1];", "instruction txq.width.b32 is not supported",
         .kind = FAULT_UNSUPPORTED},
        {"mov.b64 %rd1, 77; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];",
         "something that is no texture object", .kind = FAULT_OUT_OF_BOUNDS},
        {"mov.b64 %rd1, 0; sust.b.1d.b32.trap [%rd1, {%r1}], %r1;",
         "something that is no surface object", .kind = FAULT_OUT_OF_BOUNDS},
    };
    expect_each(list);
}

// ---- Clocks, architectures, rare instructions, hints, printf ------------------------------------

static void warp_size(void **state)
{
    (void)state;
    EACH("control.warp_size", 32, 32 * i + 5);
}

// Clocks count the warp's instructions, so they advance in straight-line code, the same in every
// run.
static void clocks(void **state)
{
    (void)state;
    EACH("threads.two_readings", 32, 2 * 16, .with = {"%clock64"});
    EACH("threads.two_readings", 32, 2 * 16, .with = {"%globaltimer"});
    // A spin ends soon after its cycles have passed; a long spin takes few instructions.
    uint32_t *out = words("threads.short_spin", 32);
    assert_in_range(out[7], 20000, 20000 + 20000 / 8 + 99);
    free(out);
    out = words("threads.long_spin", 32);
    assert_in_range(out[7], 16, 500);
    free(out);
    EACH("threads.clock_and_barrier", 64, 1, .block = 64);
}

// What ptxas refuses for sm_89 is refused here; the message names the architecture that is needed.
static void newer_machines(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%o];",
         "ld.global.v8.b32 needs sm_100 or newer, this PTX is for sm_89"},
        {"st.global.v8.f32 [%o], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};",
         "st.global.v8.f32 needs sm_100 or newer, this PTX is for sm_89"},
        {"ld.global.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%o];",
         "ld.global.v4.u64 needs sm_100 or newer, this PTX is for sm_89"},
        {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
         "stmatrix.sync.aligned.m8n8.x1.shared.b16 needs sm_90 or newer, this PTX is for sm_89"},
        {"wgmma.wait_group.sync.aligned 0;",
         "wgmma.wait_group.sync.aligned needs sm_90 or newer, this PTX is for sm_89"},
        {"cp.async.bulk.commit_group;",
         "cp.async.bulk.commit_group needs sm_90 or newer, this PTX is for sm_89"},
        {"setmaxnreg.dec.sync.aligned.u32 40;",
         "setmaxnreg.dec.sync.aligned.u32 needs sm_90 or newer, this PTX is for sm_89"},
        {"barrier.cluster.wait.aligned;",
         "barrier.cluster.wait.aligned needs sm_90 or newer, this PTX is for sm_89"},
        {"mapa.u64 %rd1, %rd2, %r1;", "mapa.u64 needs sm_90 or newer, this PTX is for sm_89"},
        {"ld.global.v2.b128 {%q1, %q2}, [%o];", "ld.global.v2.b128 is not supported"},
        {"ld.global.b128 _, [%o];", "an operand of ld.global.b128 is no register"},
    };
    expect_refused(list);
}

// Video instructions, the results worked out by hand.
static void video(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        uint32_t a, b, c, want;
    } list[] = {
        {"vadd.s32.s32.s32 %r4, %r1, %r2;", 7, (uint32_t)-9, 0, (uint32_t)-2},
        {"vadd.u32.u32.u32.sat %r4, %r1, %r2;", 0xffffffff, 2, 0, 0xffffffff},
        {"vadd.s32.s32.s32 %r4, %r1.b1, %r2.b3;", 0x0000ff00, 0x80000000, 0, (uint32_t)-129},
        {"vadd.s32.u32.s32.add %r4, %r1.h1, %r2.h0, %r3;", 0xfffe0000, 0x0000fffe, 5, 0x10001},
        {"vsub.u32.u32.u32.sat %r4, %r1, %r2;", 3, 4, 0, 0},
        {"vsub.s32.u32.u32 %r4.b2, %r1, %r2, %r3;", 3, 4, 0x11223344, 0x11ff3344},
        {"vsub.s32.u32.u32.sat %r4.h0, %r1, %r2, %r3;", 0, 0x9000, 0x11223344, 0x11228000},
        {"vabsdiff.u32.s32.s32.max %r4, %r1, %r2, %r3;", (uint32_t)-5, 9, 13, 14},
        {"vmin.s32.s32.s32.min %r4, %r1, %r2, %r3;", 4, 9, (uint32_t)-1, (uint32_t)-1},
        {"vmax.u32.u32.u32 %r4, %r1.b0, %r2.b0;", 0x80, 0x7f, 0, 0x80},
        {"vshl.u32.u32.u32.clamp %r4, %r1, %r2;", 1, 40, 0, 0},
        {"vshl.u32.u32.u32.wrap %r4, %r1, %r2;", 1, 33, 0, 2},
        {"vshr.s32.s32.u32.clamp %r4, %r1, %r2;", 0x80000000, 99, 0, 0xffffffff},
        {"vmad.s32.s32.s32.shr7 %r4, %r1.b0, %r2.h0, %r3;", 0xff, 256, 0, (uint32_t)-2},
        {"vset.s32.u32.lt %r4, %r1.b0, %r2;", 0xff, 0, 0, 1},
        {"vset.u32.u32.ge.add %r4, %r1, %r2, %r3;", 7, 7, 41, 42},
        {"vadd4.u32.u32.u32 %r4, %r1, %r2, %r3;", 0x01ff7f80, 0x01010180, 0, 0x02008000},
        {"vadd4.s32.s32.s32.sat %r4, %r1, %r2, %r3;", 0x01ff7f80, 0x01010180, 0, 0x02007f80},
        {"vadd2.u32.u32.u32.add %r4, %r1, %r2, %r3;", 0xffff0001, 0x00010002, 9, 0x1000c},
        {"vsub4.u32.u32.u32.sat %r4.b20, %r1, %r2, %r3;", 0x01020304, 0x04030201, 0x99999999,
         0x99009903},
        {"vabsdiff4.u32.u32.u32.add %r4, %r1, %r2, %r3;", 0x10ff0000, 0x00000001, 1000, 1272},
        {"vabsdiff4.s32.s32.s32 %r4, %r1, %r2, %r3;", 0x80000000, 0x7f000001, 0, 0xff000001},
        {"vavrg4.s32.s32.s32 %r4, %r1, %r2, %r3;", 0x01fd04ff, 0x02000601, 0, 0x02fe0500},
        {"vavrg2.u32.u32.u32 %r4, %r1, %r2, %r3;", 0xffff0001, 0xfffe0002, 0, 0xffff0002},
        {"vmin2.s32.s32.s32 %r4, %r1, %r2, %r3;", 0x80000001, 0x00010002, 0, 0x80000001},
        {"vmax4.u32.u32.u32 %r4, %r1.b3210, %r2.b0123, %r3;", 0x01020304, 0, 0, 0x04030304},
        {"vset4.u32.u32.eq %r4, %r1, %r2, %r3;", 0x01020304, 0x01000300, 0, 0x01000100},
        {"vset2.s32.s32.gt.add %r4, %r1, %r2, %r3;", 0x00010001, 0xffff0000, 40, 42},
        // Other instructions that are as rare as the video instructions.
        {"mul24.hi.u32 %r4, %r1, %r2;", 0xffabcdef, 0x12fedcba, 0, 0xab0a74ef},
        {"mul24.hi.s32 %r4, %r1, %r2;", 0x00800000, 0x00000003, 0, (uint32_t)-384},
        {"mad24.hi.u32 %r4, %r1, %r2, %r3;", 0x00010000, 0x00010000, 7, 0x10007},
        {"mad24.hi.sat.s32 %r4, %r1, %r2, %r3;", 0x00010000, 0x00010000, 0x7fffffff, 0x7fffffff},
        {"cvt.pack.sat.s16.s32 %r4, %r1, %r2;", 0x00012345, (uint32_t)-2, 0, 0x7ffffffe},
        {"cvt.pack.sat.u16.s32 %r4, %r1, %r2;", (uint32_t)-5, 0x00012345, 0, 0x0000ffff},
        {"cvt.pack.sat.s8.s32.b32 %r4, %r1, %r2, %r3;", 200, (uint32_t)-200, 0x11223344,
         0x33447f80},
        {"cvt.pack.sat.u4.s32.b32 %r4, %r1, %r2, %r3;", 7, 99, 0x11223344, 0x2233447f},
        {"cvt.pack.sat.s2.s32.b32 %r4, %r1, %r2, %r3;", (uint32_t)-1, 1, 0x8, 0x8d},
        {"setp.lt.u32 %p1, %lane, 16; @%p1 bra LOW; vote.ballot.b32 %r4, !%p1; bra END; LOW: "
         "vote.ballot.b32 %r4, %p1; shl.b32 %r4, %r4, 16; END:",
         0, 0, 0, 0xffff0000},
        {"st.global.b32 [%o], {%r1}; ld.global.b32 {%r4}, [%o];", 77, 0, 0, 77},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        char a[16], b[16], c[16];
        snprintf(a, sizeof a, "%u", list[i].a);
        snprintf(b, sizeof b, "%u", list[i].b);
        snprintf(c, sizeof c, "%u", list[i].c);
        uint32_t *out = words("arithmetic.video", 32, .with = {a, b, c, list[i].code});
        if (out[0] != list[i].want || out[31] != list[i].want)
            fail_msg("%s: %08x where %08x was expected", list[i].code, out[31], list[i].want);
        free(out);
    }
    static const char *const wrong[][2] = {
        {"vadd.s32.s32.s32 %r4, %r1.b4, %r2;", "has no part .b4"},
        {"vadd4.u32.u32.u32 %r4.b5, %r1, %r2, %r3;", "has no result .b5"},
        {"vadd4.u32.u32.u32 %r4, %r1.h10, %r2, %r3;", "takes 4 parts of a word, not .h10"},
        {"vadd4.u32.u32.u32 %r4, %r1, %r2;", "vadd4.u32.u32.u32 takes 4 operands"},
        {"vmad.s32.s32.s32.po %r4, %r1, %r2, %r3;", "vmad.s32.s32.s32.po is not supported"},
        {"vavrg4.s32.s32.s32.min %r4, %r1, %r2, %r3;", "vavrg4.s32.s32.s32.min is not supported"},
        {"add.s32 %r4, %r1.b0, %r2;", "an operand of add.s32 is a part of a register, .b0"},
    };
    expect_refused(wrong);
}

// A cache hint changes neither values nor counts: the access is the same with and without it.
static void cache_hints(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *hinted; // hinted: the same access with a hint; %rd9 has a policy
    } pairs[] = {
        {"ld.global.v2.u32 {%r2, %r3}, [%rd1];",
         "ld.global.L1::no_allocate.L2::cache_hint.L2::128B.v2.u32 {%r2, %r3}, [%rd1], %rd9;"},
        {"st.global.u32 [%o], %r1;", "st.global.L2::cache_hint.u32 [%o], %r1, %rd9;"},
        {"st.u32 [%o], %r1;", "st.L2::cache_hint.u32 [%o], %r1, 0x12F0000000000000;"},
        {"atom.global.add.u32 %r2, [%out], 5;",
         "atom.global.add.L2::cache_hint.u32 %r2, [%out], 5, %rd9;"},
        {"red.global.max.u32 [%out], %lane;",
         "red.global.max.L2::cache_hint.u32 [%out], %lane, %rd9;"},
        {"cp.async.cg.shared.global [%r4], [%rd1], 16; cp.async.wait_all;",
         "cp.async.cg.shared.global.L2::cache_hint.L2::256B [%r4], [%rd1], 16, %rd9; "
         "cp.async.wait_all;"},
        {"cp.async.ca.shared.global [%r4], [%rd1], 8, %p1; cp.async.wait_all;",
         "cp.async.ca.shared.global.L2::cache_hint [%r4], [%rd1], 8, %p1, %rd9; "
         "cp.async.wait_all;"},
        {"cp.async.ca.shared.global [%r4], [%rd1], 4, %r5; cp.async.wait_all;",
         "cp.async.ca.shared.global.L2::cache_hint [%r4], [%rd1], 4, %r5, %rd9; "
         "cp.async.wait_all;"},
    };
    static const char *const policies[] = {
        "createpolicy.fractional.L2::evict_last.b64 %rd9;",
        "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd9, 0.25;",
        "createpolicy.fractional.L2::evict_normal.b64 %rd9, %f1;",
        "createpolicy.range.global.L2::evict_unchanged.L2::evict_first.b64 %rd9, [%out], 128, 256;",
        "createpolicy.cvt.L2.b64 %rd9, %rd1;",
    };
    enum {
        PAIRS = sizeof pairs / sizeof pairs[0],
        POLICIES = sizeof policies / sizeof policies[0]
    };
    uint32_t *out = memory_alloc(512), seen[2][128];
    for (size_t i = 0; i < PAIRS * POLICIES; ++i) {
        struct counts counts[2];
        for (int hinted = 0; hinted < 2; ++hinted) {
            for (int word = 0; word < 128; ++word)
                out[word] = (uint32_t)word * 2654435761u >> 8;
            const char *access = hinted ? pairs[i / POLICIES].hinted : pairs[i / POLICIES].plain;
            struct setup s = {.racy = true, .with = {policies[i % POLICIES], access}};
            counts[hinted] = run_well("memory.hints", s, out);
            memcpy(seen[hinted], out, 512);
        }
        assert_memory_equal(&counts[0], &counts[1], sizeof counts[0]);
        assert_memory_equal(seen[0], seen[1], 512);
    }
    EACH("memory.prefetches", 32, i);
    memory_free(out);
}

// Hints that ptxas refuses are refused here by the same rules.
static void wrong_hints(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"createpolicy.fractional.L2::evict_last.b32 %r1, 1.0;", "is not supported"},
        {"createpolicy.fractional.b64 %rd1, 1.0;", "is not supported"},
        {"createpolicy.L2::evict_first.b64 %rd1, 1.0;", "is not supported"},
        {"createpolicy.fractional.L2::evict_first.L2::evict_last.b64 %rd1, 0.5;",
         "is not supported"},
        {"createpolicy.fractional.L2::evict_first.b64 %rd1, 0.0;",
         "a fraction of 0 is not in (0, 1]"},
        {"createpolicy.fractional.L2::evict_first.b64 %rd1, 1.5;",
         "a fraction of 1.5 is not in (0, 1]"},
        {"createpolicy.fractional.L2::evict_first.b64 %rd1, -1.0;",
         "a fraction of -1 is not in (0, 1]"},
        {"createpolicy.range.shared.L2::evict_last.b64 %rd1, [%rd2], 8, 16;", "is not supported"},
        {"createpolicy.range.global.L2::evict_last.b64 %rd1, [%rd2], 256, 128;",
         "256 bytes of the first priority are more than the range's 128"},
        {"createpolicy.range.global.L2::evict_last.b64 %rd1, [%rd2], 128;",
         "needs more than 3 operands"},
        {"createpolicy.cvt.L2::evict_last.b64 %rd1, %rd2;", "is not supported"},
        {"createpolicy.cvt.L2.b64 %rd1;", "needs more than 1 operands"},
        {"ld.global.L2::cache_hint.b32 %r1, [%o];", "needs a cache policy as its last operand"},
        {"ld.global.b32 %r1, [%o], %rd1;",
         "ld.global.b32 takes 2 operands, a cache policy .L2::cache_hint"},
        {"ld.global.L2::cache_hint.b32 %r1, [%o], %r2;", "an operand of"},
        {"ld.shared.L2::cache_hint.b32 %r1, [%r2], %rd1;", "a cache policy is for global memory"},
        {"ld.volatile.global.L2::cache_hint.b32 %r1, [%o], %rd1;", "and no .volatile"},
        {"ld.global.L2::evict_first.b32 %r1, [%o];", ".L2::evict_first is for 32 bytes at once"},
        {"st.global.L2::evict_last.b32 [%o], %r1;", ".L2::evict_last is for 32 bytes at once"},
        {"st.global.L2::cache_hint.b32 [%o], %r1;", "needs a cache policy as its last operand"},
        {"st.shared.L2::cache_hint.b32 [%r2], %r1, %rd1;", "a cache policy is for global memory"},
        {"atom.shared.add.L2::cache_hint.u32 %r1, [%r2], 1, %rd1;",
         "a cache policy is for global memory"},
        {"atom.global.add.u32 %r1, [%o], 1, %rd1;", "takes 3 operands, a cache policy"},
        {"red.global.add.L2::cache_hint.u32 [%o], 1;", "needs a cache policy as its last operand"},
        {"cp.async.cg.shared.global.L2::cache_hint [%r1], [%o], 16;",
         "needs a cache policy as its last operand"},
        {"cp.async.cg.shared.global [%r1], [%o], 16, 16, %rd1;",
         "takes 4 operands, a cache policy"},
        {"cp.async.ca.shared.global.L2::evict_first [%r1], [%o], 8;", "a policy says it"},
        {"prefetch.global.L2::evict_first [%o];", "is not supported"},
        {"prefetch.shared.L2 [%r1];", "is not supported"},
        {"prefetch.global.L2::cache_hint [%o], %rd1;", "is not supported"},
    };
    expect_refused(wrong);
}

// Copies are counted by what they read: commits, waits and bytes that are filled with zeros do not
// count.
static void async_bytes(void **state)
{
    static const struct {
        const char *body;
        uint64_t bytes;
    } bodies[] = {
        {"cp.async.commit_group; cp.async.wait_group 0;", 0},
        {"cp.async.ca.shared.global [%r2], [%rd1], 16; cp.async.commit_group; cp.async.wait_all;",
         512},
        {"mov.u32 %r3, 4; cp.async.ca.shared.global [%r2], [%rd1], 16, %r3; cp.async.wait_all;",
         128},
        {"ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];", 0},
    };
    void *out = memory_alloc(512);

    (void)state;
    memset(out, 1, 512);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; ++i) {
        struct counts counts =
            run_well("memory.copies", (struct setup){.with = {bodies[i].body}}, out);
        assert_int_equal(*counts_find(&counts, "async_bytes"), bodies[i].bytes);
    }
    memory_free(out);
}

static char printed[256];
static size_t printed_bytes;
static void keep_printed(const char *text, size_t bytes)
{
    assert_true(printed_bytes + bytes < sizeof printed);
    memcpy(printed + printed_bytes, text, bytes);
    printed[printed_bytes += bytes] = '\0';
}

// Three CTAs print a line of 4 bytes for each of two threads: the lines arrive in order at the
// function that the launch names. `most` limits the bytes (0: no limit). The line that reaches the
// limit is complete; its warp then prints no other line, and no later CTA's lines are kept.
static void prints_are_handed_on(void **state)
{
    static const struct {
        size_t most;
        const char *said;
    } limits[] = {
        {0, "bye\nbye\nbye\nbye\nbye\nbye\n"},
        {9, "bye\nbye\nbye\nbye\n"},
        {8, "bye\nbye\n"},
        {1, "bye\n"},
    };
    void *out = memory_alloc(64);

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
        printed_bytes = 0;
        run_well("memory.prints",
                 (struct setup){
                     .grid = 3, .block = 2, .print = keep_printed, .print_bytes = limits[i].most},
                 out);
        assert_string_equal(printed, limits[i].said);
    }
    memory_free(out);
}

// ---- Several texts, and facts about a kernel -----------------------------------------------------

// Names without .visible belong to their own text, even if another text has the same name.
static void linked_texts(void **state)
{
    (void)state;
    char *one = strdup(ptx_text("frame.frame", "memory.linked", no_holes));
    char *two = strdup(ptx_text("frame.frame", "memory.other", no_holes));
    char *texts[2][2] = {{one, two}, {two, one}};
    for (int order = 0; order < 2; ++order) {
        char why[256] = "";
        struct module *module = module_link(texts[order], 2, why, sizeof why);
        assert_string_equal(why, "");
        uint32_t *out = memory_alloc(4);
        struct outcome o = run_module(module, "linked", (struct setup){.block = 1}, &out);
        assert_string_equal(o.fault.text, "");
        assert_int_equal(*out, 160);
        free(o.lines);
        void *address;
        size_t size;
        assert_true(module_symbol(module, "both", &address, &size));
        assert_int_equal(*(uint32_t *)address, 40);
        assert_false(module_symbol(module, "nowhere", &address, &size));
        struct kernel *missing = module_kernel(module, "missing");
        assert_int_equal(kernel_registers(missing), 0);
        assert_non_null(strstr(missing->error, "nowhere is declared, and no file of the program"));
        memory_free(out);
        module_free(module);
    }
    char broken[] = HEADER ".strange\n", why[256], *bad[] = {one, broken};
    assert_null(module_link(bad, 2, why, sizeof why));
    assert_non_null(strstr(why, "'.strange' where a directive was expected"));
    free(one);
    free(two);
}

// What cannot be run is refused with its source line, if there is one.
static void refusals_name_the_line(void **state)
{
    (void)state;
    char wanted[128];
    const char *text = ptx_text("frame.frame", "memory.refused", no_holes);
    int line = 1;
    for (const char *c = text; c < strstr(text, "istypep"); ++c)
        line += *c == '\n';
    snprintf(wanted, sizeof wanted,
             "refused, /home/me/filter.cu:12, PTX line %d: instruction istypep.texref is not "
             "supported",
             line);
    struct module *m = ptx_parse(text);
    struct outcome o = run_module(m, "refused", (struct setup){0}, NULL);
    assert_int_equal(o.fault.kind, FAULT_UNSUPPORTED);
    assert_string_equal(o.fault.text, wanted);
    finish(&o);
    module_free(m);
}

// A module may define a function under a name of the device's runtime: by a body, or by an alias before or after the
// function. Then calls go to the module's function.
static void names_of_functions(void **state)
{
    (void)state;
#define ADDS                                                                                       \
    "(.param .b64 to, .param .b32 value)\n{\n.reg .b64 %a; .reg .b32 %v;\nld.param.b64 %a, [to]; " \
    "ld.param.b32 %v, [value]; add.s32 %v, %v, 1; st.b32 [%a], %v; ret;\n}\n"
#define CALLS                                                                                      \
    "(.param .b64 to, .param .b32 value);\n"                                                       \
    ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o; ld.param.u64 %o, [out];\n"               \
    "{.param .b64 p; .param .b32 q; st.param.b64 [p], %o; st.param.b32 [q], 7;\n"                  \
    "call cudaGraphSetConditional, (p, q);}\nret;\n}\n"
    static const struct {
        const char *text, *missing, *why;
        uint32_t sets;
    } cases[] = {
        {HEADER ".extern .func cudaGraphSetConditional" CALLS, "cudaGraphSetConditional", "", 7},
        {HEADER ".extern .func cudaGraphSetConditional" CALLS ".func adds" ADDS
                ".alias cudaGraphSetConditional, adds;\n",
         NULL, "", 8},
        {HEADER ".func adds" ADDS ".func cudaGraphSetConditional(.param .b64 t, .param .b32 v);\n"
                ".alias cudaGraphSetConditional, adds;\n.func cudaGraphSetConditional" CALLS,
         NULL, "", 8},
        {HEADER ".weak .func cudaGraphSetConditional" ADDS ".func other" CALLS, "other", "", 8},
        {HEADER ".extern .func cudaGraphSetConditional" CALLS
                ".alias cudaGraphSetConditional, nothing;\n",
         NULL, ".alias cudaGraphSetConditional, nothing: it wants a function", 0},
        {HEADER ".func adds" ADDS ".func cudaGraphSetConditional(.param .b64 t);\n"
                ".alias cudaGraphSetConditional, adds;\n",
         NULL, ".alias cudaGraphSetConditional, adds: it wants a function", 0},
        {HEADER ".func adds" ADDS ".alias other, adds;\n", NULL, ".alias other, adds: it wants", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char why[256] = "";
        struct module *module = module_parse(cases[i].text, why, sizeof why);
        assert_string_equal(why[0] ? "wrong" : "", cases[i].why[0] ? "wrong" : "");
        if (!module) {
            assert_ptr_equal(strstr(why, cases[i].why), why);
            continue;
        }
        const char *missing = module_missing(module, 0);
        assert_string_equal(missing ? missing : "", cases[i].missing ? cases[i].missing : "");
        assert_null(module_missing(module, 1));
        uint32_t *out = memory_alloc(4);
        struct outcome o = run_module(module, "k", (struct setup){.block = 1}, &out);
        assert_string_equal(o.fault.text, "");
        assert_int_equal(*out, cases[i].sets);
        free(o.lines);
        memory_free(out);
        module_free(module);
    }
}

// The device's runtime checks its arguments: a condition at an address without memory, a result parameter of fewer
// bytes than the function returns.
static void calls_of_the_runtime(void **state)
{
    (void)state;
    static const struct {
        const char *declared, *call, *told;
    } cases[] = {
        {"cudaGraphSetConditional(.param .b64 h, .param .b32 v)",
         ".param .b64 p; .param .b32 q; st.param.b64 [p], -4; st.param.b32 [q], 1; "
         "call cudaGraphSetConditional, (p, q);",
         "sets the condition 0xfffffffffffffffc, which is none"},
        {"cudaGraphSetConditional(.param .b64 h, .param .b32 v)",
         ".param .b64 p; .param .b32 q; add.s64 %rd1, %out, 2; st.param.b64 [p], %rd1; "
         "st.param.b32 "
         "[q], 1; call cudaGraphSetConditional, (p, q);",
         "sets the condition 0x"},
        {"(.param .b64 r) malloc(.param .b64 n)",
         ".param .b32 r; .param .b64 n; st.param.b64 [n], 8; call (r), malloc, (n);",
         "a call of malloc with 4 bytes, r, where it takes 8"},
        {"(.param .b32 r) vprintf(.param .b64 f, .param .b64 a)",
         ".param .b32 r; .param .b64 f; .param .b64 a; st.param.b64 [f], 0x100000100000000; "
         "st.param.b64 [a], 0; call (r), vprintf, (f, a);",
         "reads 1 bytes at shared address 4294967295, past the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[1024], why[256] = "";
        snprintf(text, sizeof text,
                 HEADER ".extern .func %s;\n.visible .entry k(.param .u64 out)\n{\n"
                        ".reg .b64 %%rd<2>, %%out;\nld.param.u64 %%out, [out];\n{%s}\nret;\n}\n",
                 cases[i].declared, cases[i].call);
        struct module *module = module_parse(text, why, sizeof why);
        assert_string_equal(why, "");
        uint32_t *out = memory_alloc(64);
        struct outcome o = run_module(module, "k", (struct setup){.block = 1}, &out);
        assert_false(o.good);
        if (!strstr(o.fault.text, cases[i].told))
            fail_msg("%s", o.fault.text);
        free(o.lines);
        memory_free(out);
        module_free(module);
    }
}

// Counts the registers of 20 floats and a 64-bit address; with a call, also the function's.
static void registers_alive(void **state)
{
    (void)state;
    char many[1024] = "", sum[1024] = "";
    for (int i = 0, filled = 0, added = 0; i < 20; ++i) {
        filled += snprintf(many + filled, sizeof many - (size_t)filled,
                           "cvt.rn.f32.u32 %%f%d, %%r0;\n", i);
        added +=
            snprintf(sum + added, sizeof sum - (size_t)added, "add.f32 %%f0, %%f0, %%f%d;\n", i);
    }
    for (int calls = 0; calls < 2; ++calls) {
        const char *with[PTX_HOLES] = {many, sum, calls ? "call f;" : ""};
        struct module *module = ptx_parse(ptx_text("frame.frame", "memory.alive", with));
        assert_int_equal(kernel_registers(module_kernel(module, "alive")), calls ? 22 + 6 : 22);
        module_free(module);
    }
}

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } list[] = {{"", "not a PTX text"},
                {"nonsense", "not a PTX text"},
                {HEADER "garbage", "PTX line 4: 'garbage' where a directive was expected"},
                {HEADER ".visible .entry k() {", "a body without its '}'"},
                {HEADER ".visible .entry k() { add.s32 %r1, %r2 }", "'}' where ';' was expected"},
                {HEADER ".visible .entry k() { .reg .b33 %r1; }", "unknown register type '.b33'"},
                {HEADER ".visible .entry k() { @%p1 ret; }", "'%p1' is no predicate"},
                {HEADER ".global .u32 x[2] = {1, 2, 3};", "more initial values than x"},
                {HEADER ".global .u32 x[0xffffffffffffffff];", "is no size"},
                {HEADER ".visible .entry k() { mov.f32 %f1, 0f12; }", "8 hexadecimal digits"},
                {HEADER ".file 1 \"x", "a string without an end"},
                {HEADER ".address_size 32", "only 64-bit"},
                {HEADER ".section x { {", "without its '}'"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        char why[256] = "";
        struct module *m = module_parse(list[i].text, why, sizeof why);
        assert_null(m);
        if (!strstr(why, list[i].why))
            fail_msg("\"%s\" where \"%s\" was expected", why, list[i].why);
    }
    // An error in a kernel is reported when the kernel is launched, and does no harm before.
    struct module *m = ptx_parse(HEADER ".visible .entry k() { .reg .b32 %r<4>; add.s32 %r1, %r2, "
                                        "nowhere; ret; }\n.visible .entry good() { ret; }");
    struct outcome o = run_module(m, "k", (struct setup){0}, NULL);
    assert_false(o.good);
    assert_int_equal(o.fault.kind, FAULT_UNSUPPORTED);
    assert_non_null(strstr(o.fault.text, "'nowhere' is not known"));
    finish(&o);
    assert_non_null(module_kernel(m, "good"));
    assert_null(module_kernel(m, "bad"));
    module_free(m);
}

static void names(void **state)
{
    (void)state;
    static const char *const list[][2] = {{"_Z9attention14attention_args", "attention"},
                                          {"_ZN4book5inner4stepILi4EEEvPf", "step"},
                                          {"_Z4tileILi32EEvPf", "tile"},
                                          {"plain", "plain"},
                                          {"_Z99short", "_Z99short"}};
    for (size_t i = 0; i < 5; ++i) {
        char name[64];
        kernel_base_name(list[i][0], name, sizeof name);
        assert_string_equal(name, list[i][1]);
    }
}

// Runs the first list of tests under every instruction set.
int main(void)
{
    static const struct CMUnitTest each[] = {
        cmocka_unit_test(arithmetic),     cmocka_unit_test(narrow_floats),
        cmocka_unit_test(approximations), cmocka_unit_test(packing_and_carry),
        cmocka_unit_test(if_and_else),    cmocka_unit_test(loops),
        cmocka_unit_test(predication),    cmocka_unit_test(calls),
        cmocka_unit_test(switches),       cmocka_unit_test(spinning),
        cmocka_unit_test(barriers),       cmocka_unit_test(shuffles),
        cmocka_unit_test(votes),          cmocka_unit_test(atomics),
        cmocka_unit_test(subnormal_sums), cmocka_unit_test(spaces),
        cmocka_unit_test(wmma),           cmocka_unit_test(counted_accesses),
        cmocka_unit_test(memory_faults),
    };
    static const struct CMUnitTest once[] = {
        cmocka_unit_test(grid_barrier),
        cmocka_unit_test(scopes),
        cmocka_unit_test(variables),
        cmocka_unit_test(dynamic_shared),
        cmocka_unit_test(wavefronts),
        cmocka_unit_test(wavefronts_in_turn),
        cmocka_unit_test(lines_and_threads),
        cmocka_unit_test(floors),
        cmocka_unit_test(control_faults),
        cmocka_unit_test(warp_size),
        cmocka_unit_test(clocks),
        cmocka_unit_test(reserved_shared_memory),
        cmocka_unit_test(deep_calls),
        cmocka_unit_test(newer_machines),
        cmocka_unit_test(whole_lines),
        cmocka_unit_test(barriers_and_exits),
        cmocka_unit_test(device_heap),
        cmocka_unit_test(video),
        cmocka_unit_test(sparse_products),
        cmocka_unit_test(last_block),
        cmocka_unit_test(cache_hints),
        cmocka_unit_test(wrong_hints),
        cmocka_unit_test(async_bytes),
        cmocka_unit_test(prints_are_handed_on),
        cmocka_unit_test(refusals_name_the_line),
        cmocka_unit_test(linked_texts),
        cmocka_unit_test(names_of_functions),
        cmocka_unit_test(calls_of_the_runtime),
        cmocka_unit_test(registers_alive),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(names),
    };
    static const char *const sets[] = {"base", "avx2", "avx512"};
    const struct op_set *last = NULL;
    int failed = 0;
    for (size_t i = 0; i < 3; ++i) {
        setenv("PTXSIM_ISA", sets[i], 1);
        if (ops_choose() == last) // this processor lacks the set
            continue;
        last = ops_choose();
        failed += cmocka_run_group_tests_name(sets[i], each, NULL, NULL);
    }
    unsetenv("PTXSIM_ISA");
    failed += cmocka_run_group_tests(once, NULL, NULL);
    return failed != 0;
}
