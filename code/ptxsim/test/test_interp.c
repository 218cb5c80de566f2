// test_interp.c: the interpreter on small PTX texts. Arithmetic against references written another
// way (wide integers, f64, search over all codes), control flow, memory, counts, and faults.
#include "ptxsim/base/heap.h"
#include "ptxsim/exec/exec.h"
#include "ptxsim/ops/ops.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER ".version 9.0\n.target sm_89\n.address_size 64\n"

// ---- Running a text -----------------------------------------------------------------------------

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
    bool racy; // the test is not about races, and has some
    void (*print)(const char *text, size_t bytes);
    size_t print_bytes;
};

static struct outcome run_module(struct module *module, struct setup s, const void *params)
{
    struct outcome o = {0};
    struct launch launch = {.kernel = module_kernel(module, "k"),
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

static struct module *parse(const char *text)
{
    char why[256] = "";
    struct module *module = module_parse(text, why, sizeof why);
    if (!module)
        fail_msg("%s", why);
    return module;
}

// A kernel with one parameter, `out`, and %lane = tid.x, %o = out + 4 tid.x (tid.y, z are 0).
static struct outcome run_body(const char *registers, const char *body, struct setup s, void *out)
{
    static char text[65536];
    snprintf(
        text, sizeof text,
        HEADER
        "%s\n.visible .entry k(.param .u64 out)\n{\n"
        ".reg .b32 %%lane, %%gid, %%t<8>; .reg .b64 %%out, %%o, %%oo; .reg .pred %%p<8>;\n"
        ".reg .b32 %%r<40>; .reg .b64 %%rd<20>; .reg .f32 %%f<40>; .reg .b16 %%rs<20>;\n"
        "%s"
        "ld.param.u64 %%out, [out]; mov.u32 %%lane, %%tid.x;\n"
        "mov.u32 %%t0, %%ctaid.x; mov.u32 %%t1, %%ntid.x; mad.lo.s32 %%gid, %%t0, %%t1, %%lane;\n"
        "mul.wide.u32 %%oo, %%gid, 4; add.s64 %%o, %%out, %%oo;\n"
        "%s\nret;\n}\n",
        registers[0] == '.' && strstr(registers, ".func") ? registers : "",
        strstr(registers, ".func") ? "" : registers, body);
    struct module *module = parse(text);
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct outcome o = run_module(module, s, &param);
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

// Runs a body on fresh memory of `count` words and hands the words back; the caller frees them.
static uint32_t *words(const char *registers, const char *body, struct setup s, size_t count)
{
    uint32_t *out = memory_alloc(count * 4);
    memset(out, 0xee, count * 4);
    struct outcome o = run_body(registers, body, s, out);
    assert_good(&o);
    finish(&o);
    uint32_t *copy = malloc(count * 4);
    memcpy(copy, out, count * 4);
    memory_free(out);
    return copy;
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
        return UINT64_C(0x7ff8) << 48; // any NaN: compared as one
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static float fz(float value) // flushed
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

// The code nearest to a value among all of a format's, ties to the even code; `finite` counts the
// codes of one sign up to infinity.
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
    while (low < high) { // the last code that is not above
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

// The same for both halves of a word.
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

// Rounded to f32; a NaN keeps its sign and what fits of its payload.
static uint64_t narrow_f64(uint64_t a)
{
    return g(a) == g(a) ? fb((float)g(a))
                        : (a >> 32 & 0x80000000) | 0x7fc00000 | (a >> 29 & 0x7fffff);
}

static uint64_t bfe_reference(uint64_t a, uint64_t b, uint64_t c, int width, bool is_signed)
{
    // The manual's pseudo-code; of 64 bits the machine's routine takes position and length whole.
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
    X("mul.lo.s16", "hhh", a *b) \
    X( "mul.lo.s32", "www", a *b) \
    X("mul.lo.u64", "ddd", a *b) \
    X("mul.hi.u16", "hhh", (a * b) >> 16) \
    X("mul.hi.s16", "hhh", (uint64_t)((s(a, 16) * s(b, 16)) >> 16)) \
    X("mul.hi.u32", "www", (a * b) >> 32) \
    X("mul.hi.s32", "www", (uint64_t)((s(a, 32) * s(b, 32)) >> 32)) \
    X( "mul.hi.s64", "ddd", (uint64_t)(((__int128)(int64_t)a * (int64_t)b) >> 64)) \
    X("mul.wide.s16", "whh", (uint64_t)(s(a, 16) * s(b, 16))) \
    X("mul.wide.u32", "dww", a *b) \
    X("mul.wide.s32", "dww", (uint64_t)(s(a, 32) * s(b, 32))) \
    X( "mad.lo.s32", "wwww", a *b + c) \
    X("mad.wide.s32", "dwwd", (uint64_t)(s(a, 32) * s(b, 32)) + c) \
    X("mad.hi.u32", "wwww", (a * b >> 32) + c) \
    X("sad.s32", "wwww", c + (uint64_t)llabs(s(a, 32) - s(b, 32))) \
    X( "add.sat.s32", "www", clamp_to((double)(s(a, 32) + s(b, 32)), INT32_MIN, INT32_MAX)) \
    X("mul24.lo.s32", "www", (uint64_t)(s(a, 24) * s(b, 24))) \
    X("div.u32", "www", b ? a / b : UINT32_MAX) \
    X("div.s32", "www", b ? (uint64_t)(s(a, 32) / s(b, 32)) : UINT32_MAX) \
    X("rem.u32", "www", b ? a % b : ~UINT64_C(0)) \
    X( "rem.s32", "www", b ? (uint64_t)(s(a, 32) % s(b, 32)) : ~UINT64_C(0)) \
    X("div.u64", "ddd", b ? a / b : UINT64_MAX) \
    X("rem.u16", "hhh", b ? a % b : ~UINT64_C(0)) \
    X( "div.s64", "ddd", b ? (uint64_t)((__int128)(int64_t)a / (int64_t)b) : UINT64_MAX) \
    X("rem.s64", "ddd", b ? (uint64_t)((__int128)(int64_t)a % (int64_t)b) : ~UINT64_C(0)) \
    X("min.s32", "www", s(a, 32) < s(b, 32) ? a : b) \
    X("max.u16", "hhh", a > b ? a : b) \
    X("max.s64", "ddd", (int64_t)a > (int64_t)b ? a : b) \
    X( "abs.s32", "ww", s(a, 32) < 0 ? 0 - a : a) \
    X("neg.s64", "dd", 0 - a) \
    X("not.b32", "ww", ~a) \
    X("cnot.b32", "ww", a == 0) \
    X( "and.b32", "www", a &b) \
    X("or.b64", "ddd", a | b) \
    X("xor.b16", "hhh", a ^ b) \
    X("shl.b32", "www", b > 31 ? 0 : a << b) \
    X( "shl.b64", "ddw", b > 63 ? 0 : a << b) \
    X("shl.b16", "hhw", b > 15 ? 0 : a << b) \
    X("shr.u32", "www", b > 31 ? 0 : a >> b) \
    X( "shr.s32", "www", (uint64_t)(s(a, 32) >> (b > 31 ? 31 : b))) \
    X("shr.s64", "ddw", (uint64_t)((int64_t)a >> (b > 63 ? 63 : b))) \
    X( "shr.u64", "ddw", b > 63 ? 0 : a >> b) \
    X("shf.l.wrap.b32", "wwww", (b << 32 | a) << (c & 31) >> 32) \
    X("shf.r.wrap.b32", "wwww", (b << 32 | a) >> (c & 31)) \
    X( "shf.r.clamp.b32", "wwww", (b << 32 | a) >> (c > 32 ? 32 : c)) \
    X("shf.l.clamp." "b32", "wwww", c > 31 ? a : (b << 32 | a) << c >> 32) \
    X("popc.b32", "ww", count_bits(a)) \
    X("popc.b64", "wd", count_bits(a)) \
    X("clz.b32", "ww", a ? 31 - top(a) : 32) \
    X("clz.b64", "wd", a ? 63 - top(a) : 64) \
    X("brev.b32", "ww", reverse(a, 32)) \
    X( "brev.b64", "dd", reverse( a, 64)) \
    X("b" "f" "i" "n" "d" "." "u" "3" "2", "w" "w", top(a)) \
    X( "bfind." "s32", "ww", top(a >> 31 & 1 ? ~a & 0xffffffff : a)) \
    X("bfind." "u64", "wd", top(a)) \
    X("bf" "e." "u3" "2", "ww" "w" "w", bfe_reference( a, b, c, 32, false)) \
    X("bfe.s32", "wwww", bfe_reference(a, b, c, 32, true)) \
    X("bfe.u64", "ddww", bfe_reference(a, b, c, 64, false)) \
    X("bfe.s64", "ddww", bfe_reference(a, b, c, 64, true)) \
    X("prmt.b32", "wwww", prmt_reference( a, b, c)) \
    X("dp4a.u32.u32", "wwww", dot(a, b, c, false, false)) \
    X("dp4a.s32.u32", "wwww", dot(a, b, c, true, false)) \
    X("dp4a.s32.s32", "wwww", dot(a, b, c, true, true)) \
    X("add.f32", "www", fb((float)((double) f(a) + f( b)))) \
    X("sub.rn.f32", "www", fb((float)((double) f(a) - f( b)))) \
    X("mul.f32", "www", fb((float)((double)f(a) * f(b)))) \
    X("div.rn.f32", "www", fb( ( float)((double)f(a) / f( b)))) \
    X("fma.rn.f32", "wwww", fb( fmaf(f(a), f(b), f(c)))) \
    X("add.ftz.f32", "www", fb(fz((float)((double)fz( f(a)) + fz(f( b)))))) \
    X("mul.rn.ftz.f32", "www", fb(fz((float)((double)fz(f(a)) * fz(f(b)))))) \
    X("mul.ftz.sat.f32", "www", fb((float) least(1, most(0, fz((float)((double)fz(f(a)) * \
      fz(f(b)))))))) \
    X("add.rz.f32", "www", fb((float)rounded( add2, a, b, FE_TOWARDZERO))) \
    X("add.rp.f32", "www", fb((float) rounded( add2, a, b, FE_UPWARD))) \
    X("div.rm.f32", "www", fb( (float) rounded( div2, a, b, FE_DOWNWARD))) \
    X("sqrt.rn.f32", "ww", fb((float)sqrt((double)f(a)))) \
    X("rcp.rn.f32", "ww", fb((float)(1 / (double)f(a)))) \
    X("min.f32", "www", fb( (float) least( f(a), f(b)))) \
    X("max.f32", "www", fb((float)most(f(a), f(b)))) \
    X("abs.f32", "ww", fb(fabsf(f(a)))) \
    X("neg.f32", "ww", fb(-f(a))) \
    X("copysign.f32", "www", (a & 0x80000000) | (b & 0x7fffffff)) \
    X("add.f64", "ddd", gb( g(a) + g(b))) \
    X("mul.f64", "ddd", gb(g(a) * g(b))) \
    X("fma.rn.f64", "dddd", gb( fma(g(a), g(b), g(c)))) \
    X("max.f64", "ddd", gb(most( g(a), g( b)))) \
    X("setp.lt.s32", "pww", s(a, 32) < s(b, 32)) \
    X("setp.hi.u32", "pww", a > b) \
    X("setp.ne.b64", "pdd", a != b) \
    X("setp.lt.f32", "pww", f(a) < f(b)) \
    X("setp.ltu.f32", "pww", !(f(a) >= f(b))) \
    X("setp.ne.f32", "pww", f(a) < f(b) || f(a) > f(b)) \
    X("setp.neu.f32", "pww", f(a) != f( b)) \
    X("setp.equ.f32", "pww", f( a) == f(b) || isnan(f(a)) || isnan(f(b))) \
    X("setp.nan.f32", "pww", isnan(f(a)) || isnan(f( b))) \
    X("setp.num.f64", "pdd", !isnan(g(a)) && !isnan(g(b))) \
    X("setp.gt.f16", "phh", half(a) > half(b)) \
    X("set.ge.u32.s32", "www", s(a, 32) >= s(b, 32) ? UINT32_MAX : 0) \
    X("set.eq.f32.u32", "www", a == b ? 0x3f800000 : 0) \
    X("testp.subnormal.f32", "pw", fpclassify( f( a)) == FP_SUBNORMAL) \
    X("testp.normal.f32", "pw", fpclassify(f(a)) == FP_NORMAL || !f(a)) \
    X("testp.infinite.f64", "pd", isinf( g(a)) != 0) \
    X("slct.b32.s32", "wwww", s(c, 32) >= 0 ? a : b) \
    X("add.f16", "hhh", hb((double)half(a) + half(b))) \
    X("mul.rn.f16", "hhh", hb((double)half( a) * half(b))) \
    X("fma.rn.f16", "hhhh", hb((double)half(a) * half(b) + half(c))) \
    X("max.f16", "hhh", hb(most(half(a), half(b)))) \
    X("add.f16x2", "www", hb((double)half(a & 0xffff) + half(b & 0xffff)) | hb((double)half(a \
      >> 16) + half( b >> 16)) << 16) \
    X("add.bf16", "hhh", bb(decode_bf16((unsigned)a) + decode_bf16(( unsigned)b))) \
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
    X("cvt.s64.s32", "dw", (uint64_t) s(a, 32)) \
    X("cvt.u64.u32", "dw", a) \
    X("cvt.s32.s16", "wh", (uint64_t)s(a, 16)) \
    X("cvt.s32.s8", "ww", (uint64_t) s(a, 8)) \
    X("cvt.u32.u8", "wh", a & 255) \
    X("cvt.sat.u8.s32", "ww", clamp_to( ( double)s(a, 32), 0, 255)) \
    X("cvt.sat.s16.s32", "hw", clamp_to((double)s( a, 32), -32768, 32767)) \
    X("cvt.u32.u64", "wd", a) \
    X("cvt.rn.f32.s32", "ww", fb( (float) s( a, 32))) \
    X("cvt.rn.f32.u64", "wd", fb( (float)a)) \
    X("cvt.rn.f64.s64", "dd", gb((double)(int64_t)a)) \
    X("cvt.rzi.s32.f32", "ww", clamp_to(trunc(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rni.s32.f32", "ww", clamp_to(nearbyint(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rmi.s32.f32", "ww", clamp_to(floor(f(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rzi.u32.f32", "ww", clamp_to( trunc(f( a)), 0, UINT32_MAX)) \
    X("cvt.rzi.u8.f32", "ww", clamp_to( trunc(f( a)), 0, 255)) \
    X("cvt.rpi.f32.f32", "ww", fb(ceilf(f(a)))) \
    X("cvt.rni.f32.f32", "ww", fb(nearbyintf( f( a)))) \
    X("cvt.rn.f32.f64", "wd", narrow_f64(a)) \
    X("cvt.f64.f32", "dw", gb(f(a))) \
    X("cvt.f32.f16", "wh", fb(half( a))) \
    X("cvt.rn.f16.f32", "hw", hb( f(a))) \
    X("cvt.rn.bf16.f32", "hw", bb(f(a))) \
    X("cvt.rn.f16.f64", "hd", g(a) == g(a) ? (uint64_t)(hb(g(a))) : (a >> 48 & 0x8000) | 0x7e00 | (a >> 42 & 0x3ff)) \
    X("cvt.rn.f16.s32", "hw", hb((double)s(a, 32))) \
    X("cvt.rzi.s32.f16", "wh", clamp_to(trunc(half(a)), INT32_MIN, INT32_MAX)) \
    X("cvt.rn.f16x2.f32", "www", hb(f( a)) << 16 | hb(f( b))) \
    X("cvt.rn.satfinite.e4m3x2.f32", "hww", e4(f( a)) << 8 | e4(f( b))) \
    X("cvt.rn.satfinite.e5m2x2.f32", "hww", e5(f( a)) << 8 | e5(f( b))) \
    X("cvt.rn.satfinite.e4m3x2.f16x2", "hw", e4(half( a & 0xffff)) | e4(half( a >> 16)) << 8)
// clang-format on

// By the case's number.
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

static const uint64_t edges[] = {
    0,
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
    UINT64_C(0x40effe0000000000),
};

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

// The operation on `count` rows of (a, b, c, result), 64 bits each, in place.
static void run_arithmetic(const char *opcode, const char *widths, uint64_t *rows, size_t count)
{
    static const char *const types[] = {"b16", "b32", "b64"};
    char text[4096], loads[512] = "", operands[128] = "";
    int sources = (int)strlen(widths) - 1;
    for (int i = 0; i < sources; ++i) {
        char width = widths[i + 1];
        int log = width == 'h' ? 0 : width == 'w' ? 1 : 2;
        size_t used = strlen(loads);
        snprintf(loads + used, sizeof loads - used, "ld.global.%s %%%c%d, [%%row+%d];\n",
                 types[log], width, i + 1, 8 * i);
        used = strlen(operands);
        snprintf(operands + used, sizeof operands - used, ", %%%c%d", width, i + 1);
    }
    const char *store = widths[0] == 'p'   ? "selp.b64 %d0, 1, 0, %p0;"
                        : widths[0] == 'h' ? "cvt.u64.u16 %d0, %h0;"
                        : widths[0] == 'w' ? "cvt.u64.u32 %d0, %w0;"
                                           : "";
    snprintf(text, sizeof text,
             HEADER ".visible .entry k(.param .u64 rows, .param .u32 n)\n{\n"
                    ".reg .b64 %%row, %%at, %%d<8>; .reg .b32 %%i, %%j, %%k, %%n, %%w<8>; .reg "
                    ".b16 %%h<8>; .reg .pred %%p<8>;\n"
                    "ld.param.u64 %%row, [rows]; ld.param.u32 %%n, [n];\n"
                    "mov.u32 %%i, %%ctaid.x; mov.u32 %%j, %%tid.x; mov.u32 %%k, %%ntid.x; "
                    "mad.lo.u32 %%i, %%i, %%k, %%j;\n"
                    "setp.ge.u32 %%p7, %%i, %%n; @%%p7 bra DONE;\n"
                    "mul.wide.u32 %%at, %%i, 32; add.s64 %%row, %%row, %%at;\n"
                    "%s%s %%%c0%s;\n%s\nst.global.b64 [%%row+24], %%d0;\nDONE: ret;\n}\n",
             loads, opcode, widths[0], operands, store);
    struct module *module = parse(text);
    struct {
        uint64_t rows;
        uint32_t n;
    } params = {(uint64_t)(uintptr_t)rows, (uint32_t)count};
    struct outcome o = run_module(
        module, (struct setup){.grid = (unsigned)((count + 63) / 64), .block = 64}, &params);
    assert_good(&o);
    finish(&o);
    module_free(module);
}

static bool same(uint64_t got, uint64_t wanted, const char *opcode, char width)
{
    if (got == wanted)
        return true;
    if (width == 'd' && strstr(opcode, "f64")) // NaN is NaN
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

// All codes of both FP8 formats, and all halves, through their conversions.
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

// Approximate functions: within the manual's bounds over their range.
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
    uint32_t *out = words(
        "",
        "mov.b32 %r1, 0x44332211; mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r2, {%rs2, %rs1};\n"
        "mov.b64 %rd1, {%r1, %r2}; mov.b64 {%rs3, %rs4, %rs5, %rs6}, %rd1; cvt.u32.u16 %r3, %rs5;\n"
        "add.cc.u32 %r4, 0xffffffff, 2; addc.cc.u32 %r5, 0xffffffff, 0; addc.u32 %r6, 0, 0;\n"
        "sub.cc.u32 %r7, 1, 2; subc.u32 %r8, 5, 0;\n"
        "bfi.b32 %r9, 0xff, 0, 8, 4; lop3.b32 %r10, 12, 10, 0, 0xc0;\n"
        "setp.lt.and.s32 %p1|%p2, %lane, 16, %p0; setp.eq.s32 %p0, %lane, 3;\n"
        "setp.lt.or.s32 %p1|%p2, %lane, 2, %p0; selp.b32 %r11, 1, 0, %p1; selp.b32 %r12, 1, 0, "
        "%p2;\n"
        "mad.lo.s32 %r20, %lane, 44, 0; cvt.u64.u32 %rd2, %r20; add.s64 %rd3, %out, %rd2;\n"
        "st.global.v4.b32 [%rd3], {%r2, %r3, %r4, %r5};",
        (struct setup){.block = 1}, 64);
    assert_int_equal(out[0], 0x22114433);
    assert_int_equal(out[1], 0x4433); // the third half of {r1, r2}
    assert_int_equal(out[2], 1);
    assert_int_equal(out[3], 0);
    free(out);
    out =
        words("",
              "add.cc.u32 %r4, 0xffffffff, 2; addc.cc.u32 %r5, 0xffffffff, 0; addc.u32 %r6, 0, 0;\n"
              "sub.cc.u32 %r7, 1, 2; subc.u32 %r8, 5, 0; bfi.b32 %r9, 0xff, 0, 8, 4; lop3.b32 "
              "%r10, 12, 10, 0, 0xc0;\n"
              "add.u32 %r6, %r6, %r8; shl.b32 %r9, %r9, 8; or.b32 %r6, %r6, %r9; shl.b32 %r10, "
              "%r10, 24; or.b32 %r6, %r6, %r10;\n"
              "st.global.u32 [%o], %r6;",
              (struct setup){0}, 32);
    assert_int_equal(out[5], 1 + 4 + (0xf00 << 8) + (8 << 24));
    free(out);
    // A difference's carry is set where nothing was borrowed.
    out = words("",
                "sub.cc.u32 %r1, %lane, 5; addc.u32 %r2, 0, 0; add.cc.u32 %r1, %lane, -5; "
                "subc.u32 %r3, 0, 0;\n"
                "sub.cc.u32 %r1, %lane, 5; subc.u32 %r4, 0, 0; shl.b32 %r2, %r2, 2; and.b32 %r3, "
                "%r3, 2;\n"
                "and.b32 %r4, %r4, 1; or.b32 %r2, %r2, %r3; or.b32 %r2, %r2, %r4; st.global.u32 "
                "[%o], %r2;",
                (struct setup){0}, 32);
    assert_int_equal(out[4], 2 + 1);
    assert_int_equal(out[5], 4);
    free(out);
    out = words("",
                "setp.eq.s32 %p0, %lane, 3; setp.lt.or.s32 %p1|%p2, %lane, 2, %p0; selp.b32 %r1, "
                "1, 0, %p1; selp.b32 %r2, 2, 0, %p2;\n"
                "or.b32 %r3, %r1, %r2; st.global.u32 [%o], %r3;",
                (struct setup){0}, 32);
    assert_int_equal(out[0], 1); // below 2; its negation is false and p0 too
    assert_int_equal(out[2], 2);
    assert_int_equal(out[3], 3); // both, through the second operand
    free(out);
}

// ---- Control flow -------------------------------------------------------------------------------

static void if_and_else(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(256);
    struct outcome o =
        run_body("",
                 "setp.lt.u32 %p1, %lane, 10; mov.u32 %r1, 7; @%p1 bra THEN;\n"
                 "mul.lo.u32 %r1, %lane, 3; bra.uni JOIN;\nTHEN: add.u32 %r1, %lane, 100;\n"
                 "JOIN: st.global.u32 [%o], %r1;",
                 (struct setup){.block = 64}, out);
    assert_good(&o);
    for (uint32_t i = 0; i < 64; ++i)
        assert_int_equal(out[i], i < 10 ? i + 100 : 3 * i);
    assert_int_equal(o.counts.divergent_branches, 1);
    assert_int_equal(o.counts.classes[CLASS_GLOBAL_STORE], 2); // the lanes have met again
    assert_int_equal(o.counts.global_store_sectors, 8);
    assert_int_equal(o.counts.global_store_bytes, 256);
    finish(&o);
    memory_free(out);
}

static void loops(void **state)
{
    (void)state;
    // Trip counts differ; a break out of the middle; an early exit.
    uint32_t *out = words("",
                          "mov.u32 %r1, 0; mov.u32 %r2, 0; setp.eq.u32 %p3, %lane, 31; "
                          "st.global.u32 [%o], %r1; @%p3 exit;\n"
                          "LOOP: setp.ge.u32 %p1, %r1, %lane; @%p1 bra OUT;\n"
                          "add.u32 %r2, %r2, %r1; setp.gt.u32 %p2, %r2, 100; @%p2 bra OUT; add.u32 "
                          "%r1, %r1, 1; bra LOOP;\n"
                          "OUT: st.global.u32 [%o], %r2;",
                          (struct setup){.block = 32}, 32);
    for (uint32_t i = 0; i < 32; ++i) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < i && i != 31; ++k) {
            sum += k;
            if (sum > 100)
                break;
        }
        assert_int_equal(out[i], sum);
    }
    free(out);
}

static void predication(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(128);
    struct outcome o =
        run_body("",
                 "and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 5;\n"
                 "@%p1 mov.u32 %r2, 6; @!%p1 add.u32 %r2, %r2, %lane; st.global.u32 [%o], %r2;",
                 (struct setup){0}, out);
    assert_good(&o);
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], i & 1 ? 5 + i : 6);
    // 12 of the frame (with ret) and 6 here; the guarded two with half the lanes.
    assert_int_equal(o.counts.thread_instructions, 32 * o.counts.warp_instructions - 32);
    finish(&o);
    memory_free(out);
}

static void calls(void **state)
{
    (void)state;
    // fib by recursion, divergent: every lane to its own depth.
    static const char fib[] =
        ".func (.param .b32 result) fib(.param .b32 n)\n{\n.reg .b32 %r<8>; .reg .pred %p<2>;\n"
        "ld.param.u32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; mov.u32 %r5, %r1; @%p1 bra LEAVE;\n"
        "sub.u32 %r2, %r1, 1;\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni "
        "(b), fib, (a); ld.param.b32 %r3, [b]; }\n"
        "sub.u32 %r2, %r1, 2;\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni "
        "(b), fib, (a); ld.param.b32 %r4, [b]; }\n"
        "add.u32 %r5, %r3, %r4;\nLEAVE: st.param.b32 [result], %r5; ret;\n}\n";
    uint32_t *out = words(
        fib,
        "and.b32 %r1, %lane, 7;\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), "
        "fib, (a); ld.param.b32 %r2, [b]; }\n"
        "mov.u64 %rd1, fib; { .param .b32 a; .param .b32 b; st.param.b32 [a], 6; P: .callprototype "
        "(.param .b32 _) _ (.param .b32 _); call (b), %rd1, (a), P; ld.param.b32 %r3, [b]; }\n"
        "mad.lo.u32 %r2, %r3, 1000, %r2; st.global.u32 [%o], %r2;",
        (struct setup){0}, 32);
    static const uint32_t expected[] = {0, 1, 1, 2, 3, 5, 8, 13};
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], 8000 + expected[i & 7]);
    free(out);
}

// Names belong to their { }: labels, parameters of calls, and registers.
static void scopes(void **state)
{
    (void)state;
    static const char low[] =
        ".func (.param .b32 r) low(.param .b64 n)\n{\n.reg .b64 %rd1; .reg .b32 %r1;\n"
        "ld.param.u64 %rd1, [n]; cvt.u32.u64 %r1, %rd1; st.param.b32 [r], %r1; ret;\n}\n";
    uint32_t *out = words(
        low,
        "mov.u32 %r1, 0;\n"
        "{ .reg .pred p; .reg .b32 i; mov.u32 i, 0;\n"
        "L: add.u32 i, i, 1; setp.lt.u32 p, i, 5; @p bra L; add.u32 %r1, %r1, i; }\n"
        "{ .reg .pred p; .reg .b32 i; mov.u32 i, 10;\n"
        "L: add.u32 i, i, 1; setp.lt.u32 p, i, 20; @p bra L; add.u32 %r1, %r1, i; }\n"
        "{ .param .b32 a; st.param.b32 [a], 7; ld.param.b32 %r2, [a]; add.u32 %r1, %r1, %r2; }\n"
        "{ .param .b64 a; .param .b32 b; cvt.u64.u32 %rd1, %lane; st.param.b64 [a], %rd1;\n"
        "call (b), low, (a); ld.param.b32 %r2, [b]; mad.lo.u32 %r1, %r2, 100, %r1; }\n"
        "st.global.u32 [%o], %r1;",
        (struct setup){0}, 32);
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], 5 + 20 + 7 + 100 * i);
    free(out);
}

static void switches(void **state)
{
    (void)state;
    uint32_t *out = words(
        "",
        "and.b32 %r1, %lane, 3; T: .branchtargets A, B, C, B;\nbrx.idx %r1, T;\nA: mov.u32 %r2, "
        "10; bra J;\nB: mov.u32 %r2, 20; bra J;\nC: mov.u32 %r2, 30;\nJ: st.global.u32 [%o], %r2;",
        (struct setup){0}, 32);
    for (uint32_t i = 0; i < 32; ++i) {
        static const uint32_t expected[] = {10, 20, 30, 20};
        assert_int_equal(out[i], expected[i & 3]);
    }
    free(out);
}

// A lane spins until another of its warp has let it go: no lane may starve.
static void spinning(void **state)
{
    (void)state;
    uint32_t *out = words(
        ".shared .align 4 .b8 flag[4];\n",
        "mov.u32 %r9, flag; setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.u32 [%r9], 0; bar.warp.sync "
        "0xffffffff;\n"
        "setp.ne.u32 %p1, %lane, 5; @%p1 bra WAIT; bra.uni GIVE;\n"
        "WAIT: ld.volatile.shared.u32 %r1, [%r9]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT; bra "
        "DONE;\n"
        "GIVE: st.volatile.shared.u32 [%r9], 77; mov.u32 %r1, 78;\nDONE: st.global.u32 [%o], %r1;",
        (struct setup){0}, 32);
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], i == 5 ? 78 : 77);
    free(out);
}

// CTAs that wait for one another, on one host thread and on two.
static void grid_barrier(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; ++threads) {
        uint32_t *out = memory_alloc(4 * 64);
        memset(out, 0, 4 * 64);
        struct outcome o =
            run_body("",
                     "atom.global.add.u32 %r1, [%out], 1;\nWAIT: ld.volatile.global.u32 %r2, "
                     "[%out]; setp.lt.u32 %p1, %r2, 8; @%p1 bra WAIT;\n"
                     "st.global.u32 [%o+4], %r2;",
                     (struct setup){.grid = 8, .block = 1, .threads = threads}, out);
        assert_good(&o);
        for (int i = 0; i < 8; ++i)
            assert_int_equal(out[1 + i], 8);
        finish(&o);
        memory_free(out);
    }
}

// ---- Between threads ----------------------------------------------------------------------------

static void barriers(void **state)
{
    (void)state;
    // Each thread writes its own word and reads its mirror image's.
    for (unsigned schedule = 0; schedule < 16; ++schedule) {
        uint32_t *out = memory_alloc(4 * 128);
        struct outcome o = run_body(
            ".shared .align 4 .b8 s[512];\n",
            "shl.b32 %r1, %lane, 2; mov.u32 %r9, s; add.u32 %r2, %r9, %r1; mul.lo.u32 %r3, %lane, "
            "%lane; st.shared.u32 [%r2], %r3;\n"
            "bar.sync 0; sub.u32 %r4, 508, %r1; add.u32 %r4, %r4, %r9; ld.shared.u32 %r5, [%r4];\n"
            "setp.lt.u32 %p1, %lane, 50; bar.red.popc.u32 %r6, 0, %p1; mad.lo.u32 %r5, %r6, "
            "100000, %r5; st.global.u32 [%o], %r5;",
            (struct setup){.block = 128, .schedule = schedule}, out);
        assert_good(&o);
        for (uint32_t i = 0; i < 128; ++i)
            assert_int_equal(out[i], 5000000 + (127 - i) * (127 - i));
        assert_int_equal(o.counts.barriers, 8);
        finish(&o);
        memory_free(out);
    }
}

static void shuffles(void **state)
{
    (void)state;
    uint32_t *out =
        words("",
              "shfl.sync.bfly.b32 %r1|%p1, %lane, 5, 31, -1; shfl.sync.up.b32 %r2|%p2, %lane, 3, "
              "0, -1; shfl.sync.down.b32 %r3|%p3, %lane, 3, 31, -1;\n"
              "shfl.sync.idx.b32 %r4, %lane, 9, 0x181f, -1;\n"
              "selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 1, 0, %p3; shl.b32 %r2, %r2, 5; or.b32 %r1, "
              "%r1, %r2; shl.b32 %r3, %r3, 10; or.b32 %r1, %r1, %r3;\n"
              "shl.b32 %r4, %r4, 15; or.b32 %r1, %r1, %r4; shl.b32 %r5, %r5, 20; or.b32 %r1, %r1, "
              "%r5; shl.b32 %r6, %r6, 21; or.b32 %r1, %r1, %r6; st.global.u32 [%o], %r1;",
              (struct setup){0}, 32);
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
    uint32_t *out =
        words("",
              "setp.lt.u32 %p1, %lane, 12; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.all.pred "
              "%p2, %p1, -1; vote.sync.any.pred %p3, !%p1, -1;\n"
              "selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3; add.u32 %r2, %r2, %r3; shl.b32 "
              "%r2, %r2, 16; or.b32 %r1, %r1, %r2;\n"
              "and.b32 %r4, %lane, 3; match.any.sync.b32 %r5, %r4, -1; popc.b32 %r5, %r5; shl.b32 "
              "%r5, %r5, 20; or.b32 %r1, %r1, %r5; st.global.u32 [%o], %r1;\n"
              "@!%p1 bra J; redux.sync.add.s32 %r6, %lane, 0xfff; st.global.u32 [%o], %r6; "
              "activemask.b32 %r7; st.global.u32 [%out+44], %r7;\nJ: ",
              (struct setup){.racy = true}, 32);
    assert_int_equal(out[3], 66);
    assert_int_equal(out[11], 0xfff);
    assert_int_equal(out[20], 0xfff + (2 << 16) + (8 << 20));
    free(out);
}

static void atomics(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(4 * 16);
    memset(out, 0, 64);
    struct outcome o = run_body(
        "",
        "red.global.add.u32 [%out], 1; atom.global.max.s32 %r1, [%out+4], %gid; atom.global.or.b32 "
        "%r1, [%out+8], %gid; mov.f32 %f1, 0f3F800000; red.global.add.f32 [%out+12], %f1;\n"
        "RETRY: ld.global.u32 %r2, [%out+16]; add.u32 %r3, %r2, 3; atom.global.cas.b32 %r4, "
        "[%out+16], %r2, %r3; setp.ne.u32 %p1, %r4, %r2; @%p1 bra RETRY;\n"
        "atom.global.inc.u32 %r5, [%out+20], 9; atom.global.add.u64 %rd1, [%out+24], 0x100000000;",
        (struct setup){.grid = 5, .block = 40, .threads = 2}, out);
    assert_good(&o);
    assert_int_equal(out[0], 200);
    assert_int_equal(out[1], 199);
    assert_int_equal(out[2], 255);
    assert_int_equal(out[3], fb(200));
    assert_int_equal(out[4], 600);
    assert_int_equal(out[5], 200 % 10);
    assert_int_equal(out[7], 200);
    finish(&o);
    memory_free(out);
}

// As an H200 does it: a sum of floats has no subnormals in global memory and has them in shared
// memory; rounding a signalling f64 NaN makes it quiet.
static void subnormal_sums(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(4 * 16);
    memset(out, 0, 64);
    out[0] = 5;
    out[1] = 0x80000005;
    out[2] = 0x00800001;
    struct outcome o = run_body(
        ".shared .align 4 .b32 s;",
        "mov.b32 %f1, 0x00000003; mov.b32 %f2, 0x80000003; mov.b32 %f3, 0x80800000; mov.u32 %r1, "
        "5; st.shared.u32 [s], %r1; red.global.add.f32 [%out], %f1; red.global.add.f32 [%out+4], "
        "%f2; red.global.add.f32 [%out+8], %f3; red.shared.add.f32 [s], %f1; ld.shared.u32 %r2, "
        "[s]; st.global.u32 [%out+12], %r2; mov.b64 %rd1, 0x7ff03ea566ed3e76; cvt.rmi.f64.f64 "
        "%rd2, %rd1; st.global.u64 [%out+16], %rd2;",
        (struct setup){.block = 1}, out);
    assert_good(&o);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 0x80000000);
    assert_int_equal(out[2], 0);
    assert_int_equal(out[3], 8);
    assert_int_equal(out[4], 0x66ed3e76);
    assert_int_equal(out[5], 0x7ff83ea5);
    finish(&o);
    memory_free(out);
}

// ---- Memory -------------------------------------------------------------------------------------

static void spaces(void **state)
{
    (void)state;
    uint32_t *out = words(".shared .align 16 .b8 s[256]; .local .align 8 .b8 mine[64];\n",
                          // local, by generic address and not; shared by generic address
                          "mov.u64 %rd1, mine; cvta.local.u64 %rd2, %rd1; mul.lo.u32 %r1, %lane, "
                          "7; st.local.u32 [mine+8], %r1; ld.u32 %r2, [%rd2+8];\n"
                          "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; mul.wide.u32 %rd5, %lane, "
                          "8; add.s64 %rd6, %rd4, %rd5; st.v2.u32 [%rd6], {%r2, %lane};\n"
                          "mov.u32 %r3, s; mad.lo.u32 %r4, %lane, 8, %r3; ld.shared.v2.b32 {%r5, "
                          "%r6}, [%r4]; isspacep.shared %p1, %rd6; isspacep.global %p2, %o;\n"
                          "selp.u32 %r7, 1000, 0, %p1; add.u32 %r5, %r5, %r7; selp.u32 %r7, 2000, "
                          "0, %p2; add.u32 %r5, %r5, %r7; add.u32 %r5, %r5, %r6;\n"
                          "cvta.to.shared.u64 %rd7, %rd6; ld.shared.u8 %rs1, [%rd7+4]; cvt.u32.u8 "
                          "%r8, %rs1; mad.lo.u32 %r5, %r8, 10000, %r5; ld.s8 %r9, [%rd6]; st.u32 "
                          "[%o], %r5; st.global.u32 [%o+128], %r9;",
                          (struct setup){0}, 64);
    for (uint32_t i = 0; i < 32; ++i) {
        assert_int_equal(out[i], 8 * i + 3000 + 10000 * i);
        assert_int_equal(out[32 + i], (uint32_t)(int8_t)(7 * i));
    }
    free(out);
}

static void variables(void **state)
{
    (void)state;
    struct module *m = parse(
        HEADER
        ".global .align 4 .u32 table[4] = {1, 2, 0x30};\n.const .align 4 .b8 bytes[4] = {1, 2, 3, "
        "4};\n.global .align 8 .u64 pointer = generic(table)+8;\n"
        ".visible .entry k(.param .align 8 .b8 s[16])\n{\n.reg .b64 %rd<4>; .reg .b32 %r<6>;\n"
        "ld.global.u64 %rd1, [pointer]; ld.u32 %r1, [%rd1]; ld.const.u32 %r2, [bytes]; add.u32 "
        "%r1, %r1, %r2; ld.param.u32 %r3, [s+8]; add.u32 %r1, %r1, %r3; st.global.u32 [table+12], "
        "%r1; ret;\n}\n");
    uint64_t params[2] = {0, 5};
    struct outcome o = run_module(m, (struct setup){.block = 1}, params);
    assert_good(&o);
    finish(&o);
    void *address;
    size_t size;
    assert_true(module_symbol(m, "table", &address, &size));
    assert_int_equal(size, 16);
    assert_int_equal(((uint32_t *)address)[3], 0x04030201 + 0x30 + 5);
    assert_false(module_symbol(m, "nothing", &address, &size));
    const struct kernel_info *info = kernel_info(module_kernel(m, "k"));
    assert_int_equal(info->params, 1);
    assert_int_equal(info->param_sizes[0], 16);
    module_free(m);
}

static void dynamic_shared(void **state)
{
    (void)state;
    struct module *m =
        parse(HEADER ".extern .shared .align 16 .b8 pool[];\n.visible .entry k(.param .u64 "
                     "out)\n{\n.shared .align 4 .b8 own[20];\n.reg .b64 %rd<4>; .reg .b32 %r<6>;\n"
                     "ld.param.u64 %rd1, [out]; mov.u32 %r1, pool; mov.u32 %r2, own; sub.u32 %r3, "
                     "%r1, %r2; st.shared.u32 [%r1+60], 9; ld.shared.u32 %r4, [pool+60]; add.u32 "
                     "%r3, %r3, %r4; st.global.u32 [%rd1], %r3; ret;\n}\n");
    uint32_t *out = memory_alloc(4);
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct outcome o = run_module(m, (struct setup){.block = 1, .dynamic_shared = 64}, &param);
    assert_good(&o);
    assert_int_equal(*out, 32 + 9);
    finish(&o);
    o = run_module(m, (struct setup){.block = 1, .dynamic_shared = 60}, &param);
    assert_int_equal(o.fault.kind, FAULT_OUT_OF_BOUNDS);
    finish(&o);
    memory_free(out);
    module_free(m);
}

// Whole tiles through wmma: D = A B + C against f64, every layout, and a one-hot A that shows which
// register holds which element.
static void wmma_case(const char *a_layout, const char *b_layout, const char *d_layout,
                      bool one_hot)
{
    char text[4096];
    snprintf(
        text, sizeof text,
        HEADER
        ".visible .entry k(.param .u64 data)\n{\n.reg .b64 %%d; .reg .b32 %%a<8>, %%b<8>; .reg "
        ".f32 %%c<8>, %%e<8>; .reg .b32 %%s;\n"
        "ld.param.u64 %%d, [data]; mov.u32 %%s, 24;\n"
        "wmma.load.a.sync.aligned.%s.m16n16k16.global.f16 "
        "{%%a0,%%a1,%%a2,%%a3,%%a4,%%a5,%%a6,%%a7}, [%%d], %%s;\n"
        "wmma.load.b.sync.aligned.%s.m16n16k16.f16 {%%b0,%%b1,%%b2,%%b3,%%b4,%%b5,%%b6,%%b7}, "
        "[%%d+1024], %%s;\n"
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 "
        "{%%c0,%%c1,%%c2,%%c3,%%c4,%%c5,%%c6,%%c7}, [%%d+2048], %%s;\n"
        "wmma.mma.sync.aligned.%s.%s.m16n16k16.f32.f32 {%%e0,%%e1,%%e2,%%e3,%%e4,%%e5,%%e6,%%e7}, "
        "{%%a0,%%a1,%%a2,%%a3,%%a4,%%a5,%%a6,%%a7}, {%%b0,%%b1,%%b2,%%b3,%%b4,%%b5,%%b6,%%b7}, "
        "{%%c0,%%c1,%%c2,%%c3,%%c4,%%c5,%%c6,%%c7};\n"
        "wmma.store.d.sync.aligned.%s.m16n16k16.global.f32 [%%d+4096], "
        "{%%e0,%%e1,%%e2,%%e3,%%e4,%%e5,%%e6,%%e7}, %%s;\nret;\n}\n",
        a_layout, b_layout, a_layout, b_layout, d_layout);
    uint8_t *data = memory_alloc(8192);
    uint16_t *a = (uint16_t *)data, *b = (uint16_t *)(data + 1024);
    float *c = (float *)(data + 2048), *d = (float *)(data + 4096);
    struct module *m = parse(text);
    uint64_t param = (uint64_t)(uintptr_t)data, seed = 12345;
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
        struct outcome o = run_module(m, (struct setup){0}, &param);
        assert_good(&o);
        assert_int_equal(o.counts.tensor_flops, 8192);
        assert_int_equal(o.counts.tensor_instructions, 2);
        finish(&o);
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
    module_free(m);
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

// Of elements of so many bytes, a word at least: each lane's is compared with all before it.
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

// An access is counted by the last one's count where it has that one's shape: so many in turn, of the same
// shape, of nearly the same, and of another.
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
        case 1: // one lane elsewhere
            at[drawn >> 4 & 31] = 4096 + (drawn >> 9 & 1023);
            break;
        case 2: // other lanes: all, all but one, those that 8 or 16 bytes are stored by at a time
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
        default: // all of them further on, by bytes or words
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

// The same strides through kernels: what the fast paths count is what the helpers say.
static void counted_accesses(void **state)
{
    (void)state;
    uint32_t *out = memory_alloc(4 * 32 * 32);
    for (int stride = 0; stride <= 32; ++stride) {
        char body[512];
        snprintf(body, sizeof body,
                 "mul.lo.u32 %%r1, %%lane, %d; mov.u32 %%r2, s; add.u32 %%r1, %%r1, %%r2; "
                 "st.shared.u32 [%%r1], %%lane; ld.shared.u32 %%r3, [%%r1];\n"
                 "mul.wide.u32 %%rd1, %%lane, %d; add.s64 %%rd1, %%rd1, %%out; st.global.u32 "
                 "[%%rd1], %%r3; ld.global.u32 %%r4, [%%rd1];",
                 4 * stride, 4 * stride);
        struct outcome o =
            run_body(".shared .align 4 .b8 s[4096];\n", body, (struct setup){.racy = true}, out);
        assert_good(&o);
        uint32_t at[WARP];
        uint64_t far[WARP];
        for (int i = 0; i < WARP; ++i) {
            at[i] = (uint32_t)(4 * stride * i);
            far[i] = (uint64_t)(uintptr_t)out + at[i];
        }
        int least_possible, expected = shared_wavefronts(at, 4, ~0u, &least_possible);
        assert_int_equal(o.counts.shared_load_wavefronts, expected);
        assert_int_equal(o.counts.shared_store_wavefronts, expected);
        assert_int_equal(o.counts.shared_load_conflicts, expected - least_possible);
        assert_int_equal(o.counts.shared_bytes, 256);
        assert_int_equal(o.counts.global_load_sectors, global_sectors(far, 4, ~0u));
        assert_int_equal(o.counts.global_store_sectors, global_sectors(far, 4, ~0u));
        assert_int_equal(o.counts.classes[CLASS_SHARED_LOAD], 1);
        assert_int_equal(o.counts.classes[CLASS_GLOBAL_STORE], 1);
        finish(&o);
    }
    memory_free(out);
}

static void lines_and_threads(void **state)
{
    (void)state;
    struct module *m = parse(
        HEADER
        ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p;\n"
        ".loc 1 10 1\nld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0;\n"
        "L:\n.loc 1 12 1\nadd.u32 %r2, %r2, 1;\n.loc 2 99 1, function_name $x, inlined_at 1 13 "
        "4\nsetp.lt.u32 %p, %r2, 10;\n.loc 1 0 1\n@%p bra L;\n"
        ".loc 1 14 1\nred.global.add.u32 [%rd1], %r2; ret;\n}\n.file 1 \"chapters/x.md\"\n.file 2 "
        "\"/usr/local/cuda-13.0/include/crt/y.h\"\n");
    uint32_t *out = memory_alloc(4);
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct counts first = {0};
    for (int threads = 1; threads <= 3; ++threads) {
        *out = 0;
        struct outcome o =
            run_module(m, (struct setup){.grid = 37, .block = 32, .threads = threads}, &param);
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
    c.tensor_flops_8bit = 60500000; // a half of them at twice the rate
    assert_float_equal(l4_floors(&c, 600000).tensor, 0.75, 1e-9);
}

// ---- Faults -------------------------------------------------------------------------------------

static void expect_fault(const char *registers, const char *body, struct setup s,
                         enum fault_kind kind, const char *text)
{
    uint32_t *out = memory_alloc(4096);
    struct outcome o = run_body(registers, body, s, out);
    memory_free(out);
    assert_false(o.good);
    if (o.fault.kind != kind || !strstr(o.fault.text, text))
        fail_msg("fault %d, \"%s\" where \"%s\" was expected", o.fault.kind, o.fault.text, text);
    finish(&o);
}

// The last block to count takes the sum and puts the counter back. Blocks run on several cores, and
// whoever counts last has seen what all others did, as often as it is launched.
static void last_block(void **state)
{
    (void)state;
    enum { BLOCKS = 64, LAUNCHES = 400 };
    uint32_t *out = memory_alloc(4 * (2 + BLOCKS));
    memset(out, 0, 4 * (2 + BLOCKS));
    struct module *m = parse(
        HEADER
        ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p;\n"
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;\n"
        "mad.wide.u32 %rd2, %r1, 4, %rd1; st.volatile.global.u32 [%rd2+8], %r1;\n"
        "membar.gl; atom.global.add.u32 %r3, [%rd1], 1; sub.u32 %r4, %r2, 1;\n"
        "setp.ne.u32 %p, %r3, %r4; @%p ret;\n"
        "membar.gl; mov.u32 %r5, 0; mov.u64 %rd3, %rd1;\n"
        "next: ld.volatile.global.u32 %r6, [%rd3+8]; add.u32 %r5, %r5, %r6; add.s64 %rd3, %rd3, "
        "4;\n"
        "sub.u32 %r2, %r2, 1; setp.ne.u32 %p, %r2, 0; @%p bra next;\n"
        "st.global.u32 [%rd1+4], %r5; st.global.u32 [%rd1], 0; ret;\n}\n");
    uint64_t param = (uint64_t)(uintptr_t)out;
    for (int i = 0; i < LAUNCHES; ++i) {
        struct outcome o =
            run_module(m, (struct setup){.grid = BLOCKS, .block = 1, .threads = 4}, &param);
        assert_good(&o);
        finish(&o);
        assert_int_equal(out[0], 0);
        assert_int_equal(out[1], BLOCKS * (BLOCKS - 1) / 2);
        out[1] = 0;
    }
    module_free(m);
    memory_free(out);
}

// ---- Sparse products ----------------------------------------------------------------------------

// The code of a small whole number in a type of `bits` bits.
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

// A of 16 rows with places chosen at random, packed as the manual's fragments say; D = A B + C in whole
// numbers. Lanes that hold no metadata hold what is none.
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
    char body[4096], regs[3][64];
    int counts[3] = {2 * ((stored + across - 1) / across), t->k / across, half_sum ? 2 : 4},
        used = 0;
    for (int which = 0; which < 3; ++which) {
        int at = 0;
        for (int i = 0; i < counts[which]; ++i)
            at += snprintf(regs[which] + at, sizeof regs[which] - (size_t)at, "%s%%r%d",
                           i ? ", " : "", 4 * which + i);
    }
    for (int i = 0; i < 13; ++i)
        used += snprintf(body + used, sizeof body - (size_t)used,
                         "ld.global.u32 %%r%d, [%%o+%d];\n", i, 128 * i);
    used += snprintf(body + used, sizeof body - (size_t)used,
                     "mma.sp::ordered_metadata.sync.aligned.%s.row.col.%s.%s.%s.%s {%s}, {%s}, "
                     "{%s}, {%s}, %%r12, %d;\n",
                     t->shape, t->sum, t->type, t->type, t->sum, regs[2], regs[0], regs[1], regs[2],
                     t->selector);
    for (int i = 0; i < counts[2]; ++i)
        used += snprintf(body + used, sizeof body - (size_t)used,
                         "st.global.u32 [%%o+%d], %%r%d;\n", 128 * (D + i), 8 + i);
    struct outcome o = run_body("", body, (struct setup){0}, out);
    assert_good(&o);
    assert_int_equal(o.counts.tensor_flops, 16 * 8 * t->k); // of what is stored
    finish(&o);
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
    static const char rest[] =
        "{%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3}, {%f0, %f1, %f2, %f3}, %r4";
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
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        char body[1024];
        snprintf(
            body, sizeof body,
            "mov.u32 %%r4, %s; mov.u32 %%r0, 0; mov.u32 %%r1, 0; mov.u32 %%r2, 0; mov.u32 %%r3, 0; "
            "mov.f32 %%f0, 0f00000000; mov.f32 %%f1, %%f0; mov.f32 %%f2, %%f0; mov.f32 %%f3, %%f0; "
            "%s %s, %s;",
            wrong[i].metadata, wrong[i].opcode, rest, wrong[i].selector);
        expect_fault("", body, (struct setup){0}, wrong[i].kind, wrong[i].text);
    }
}

static void memory_faults(void **state)
{
    (void)state;
    expect_fault("", ".loc 1 7 1\nld.global.u32 %r1, [%o+3972];", (struct setup){0},
                 FAULT_OUT_OF_BOUNDS,
                 "k, PTX line"); // no .file: the PTX's own line
    expect_fault("", "ld.global.u32 %r1, [%o+3984];", (struct setup){0}, FAULT_OUT_OF_BOUNDS,
                 "block (0,0,0), thread (28,0,0): reads 4 bytes at 0x");
    expect_fault("", "add.s64 %rd1, %o, 4; st.global.u32 [%rd1+4104], %r1;",
                 (struct setup){.block = 1}, FAULT_OUT_OF_BOUNDS,
                 ", 12 bytes past the end of the allocation of 4096 bytes");
    expect_fault("", "ld.global.u32 %r1, [%out+-8];", (struct setup){0}, FAULT_OUT_OF_BOUNDS,
                 ", 8 bytes before the allocation of 4096 bytes");
    expect_fault("", "ld.global.u64 %rd1, [%out+4];", (struct setup){.grid = 3, .block = 1},
                 FAULT_MISALIGNED, "block (0,0,0), thread (0,0,0): reads 8 bytes");
    expect_fault("", "ld.global.u32 %r1, [8];", (struct setup){0}, FAULT_OUT_OF_BOUNDS,
                 "a null pointer");
    expect_fault(".shared .align 4 .b8 s[64];\n",
                 "mov.u32 %r1, s; mad.lo.u32 %r1, %lane, 4, %r1; st.shared.u32 [%r1], %r1;",
                 (struct setup){0}, FAULT_OUT_OF_BOUNDS,
                 "thread (16,0,0): writes 4 bytes at shared address 0x40, past the end of the "
                 "CTA's 64 bytes");
    expect_fault(".shared .align 4 .b8 s[64];\n",
                 "mov.u32 %r1, s; st.shared.u32 [%r1], 1; ld.shared.u32 %r2, [%r1+4];",
                 (struct setup){0}, FAULT_UNINITIALISED,
                 "reads 4 bytes at shared address 0x4 that nothing has written");
    expect_fault(".shared .align 4 .b8 s[64];\n",
                 "mov.u32 %r1, s; st.shared.u16 [%r1], 1; ld.shared.u32 %r2, [%r1];",
                 (struct setup){0}, FAULT_UNINITIALISED, "0x0 that nothing has written");
    expect_fault(".local .align 4 .b8 l[16];\n", "ld.local.u32 %r1, [l+16];", (struct setup){0},
                 FAULT_OUT_OF_BOUNDS, "offset 16 of local memory");
    expect_fault("", "mov.u64 %rd1, 0x7700000000000000; ld.u32 %r1, [%rd1];", (struct setup){0},
                 FAULT_OUT_OF_BOUNDS, "in no address space");
    uint32_t *gone = memory_alloc(64);
    char body[128];
    snprintf(body, sizeof body, "mov.u64 %%rd1, %llu; ld.global.u32 %%r1, [%%rd1];",
             (unsigned long long)(uintptr_t)gone);
    memory_free(gone);
    expect_fault("", body, (struct setup){0}, FAULT_OUT_OF_BOUNDS, "has been freed");
    // The lowest CTA's fault is the one reported, whatever the number of host threads.
    for (int threads = 1; threads <= 3; ++threads)
        expect_fault("",
                     "setp.lt.u32 %p1, %gid, 20; @%p1 bra FINE; ld.global.u32 %r1, [8];\nFINE: ",
                     (struct setup){.grid = 64, .block = 1, .threads = threads},
                     FAULT_OUT_OF_BOUNDS, "block (20,0,0)");
}

static void control_faults(void **state)
{
    (void)state;
    expect_fault("", "setp.eq.u32 %p1, %lane, 9; @%p1 trap;", (struct setup){0}, FAULT_TRAP,
                 "thread (9,0,0): trap");
    expect_fault("", "setp.lt.u32 %p1, %lane, 32; @%p1 bra A; bar.sync 0;\nA: bar.sync 1;",
                 (struct setup){.block = 64}, FAULT_DEADLOCK, "deadlock: 2 of 2 warps wait");
    expect_fault("",
                 "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; bar.sync 0; bra B;\nA: bar.sync 0;\nB: ",
                 (struct setup){0}, FAULT_DIVERGENT_BARRIER, "under divergence");
    expect_fault("",
                 "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; shfl.sync.idx.b32 %r1, %lane, 0, 31, -1; "
                 "bra B;\nA: shfl.sync.idx.b32 %r1, %lane, 1, 31, -1;\nB: ",
                 (struct setup){0}, FAULT_DIVERGENT_BARRIER, "shfl.sync");
    expect_fault("", "mov.u32 %r1, 16; bar.sync %r1;", (struct setup){0}, FAULT_TRAP, "barrier 16");
    expect_fault("", "bar.sync 1, 40;", (struct setup){.block = 64}, FAULT_TRAP,
                 "no multiple of 32");
    expect_fault(".func (.param .b32 r) deep(.param .b32 n)\n{\n.reg .b32 %r<3>;\nld.param.u32 "
                 "%r1, [n];\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), "
                 "deep, (a); ld.param.b32 %r2, [b]; }\nst.param.b32 [r], %r2; ret;\n}\n",
                 "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), deep, (a); "
                 "ld.param.b32 %r1, [b]; }",
                 (struct setup){0}, FAULT_OUT_OF_BOUNDS, "the stack is full");
    expect_fault("", "txq.width.b32 %r1, [%rd1];", (struct setup){0}, FAULT_UNSUPPORTED,
                 "instruction txq.width.b32 is not supported");
    expect_fault("", "mov.b64 %rd1, 77; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];",
                 (struct setup){0}, FAULT_OUT_OF_BOUNDS, "something that is no texture object");
    expect_fault("", "mov.b64 %rd1, 0; sust.b.1d.b32.trap [%rd1, {%r1}], %r1;", (struct setup){0},
                 FAULT_OUT_OF_BOUNDS, "something that is no surface object");
}

// ---- What a kernel asks of the machine ----------------------------------------------------------

static void warp_size(void **state)
{
    (void)state;
    uint32_t *out = words("",
                          "mov.u32 %r1, WARP_SZ; mad.lo.s32 %r2, %lane, WARP_SZ, 5; "
                          "add.s32 %r2, %r2, -WARP_SZ; add.s32 %r2, %r2, %r1; st.global.u32 [%o], "
                          "%r2;",
                          (struct setup){0}, 32);
    for (uint32_t i = 0; i < 32; ++i)
        assert_int_equal(out[i], 32 * i + 5);
    free(out);
}

// Clocks count the warp's instructions, so they move in straight-line code, the same in every run.
static void clocks(void **state)
{
    (void)state;
    static const char *const names[] = {"clock64", "globaltimer"};
    char body[512];
    for (int i = 0; i < 2; ++i) {
        snprintf(body, sizeof body,
                 "mov.u64 %%rd1, %%%s; add.s32 %%r1, %%lane, 1; mov.u64 %%rd2, %%%s; "
                 "sub.s64 %%rd3, %%rd2, %%rd1; cvt.u32.u64 %%r1, %%rd3; st.global.u32 [%%o], %%r1;",
                 names[i], names[i]);
        uint32_t *out = words("", body, (struct setup){0}, 32);
        for (int lane = 0; lane < 32; ++lane)
            assert_int_equal(out[lane], 2 * 16);
        free(out);
    }
    // A spin of so many cycles ends, soon after them; a long one after few instructions.
    uint32_t *out = words("",
                          "mov.u32 %r1, %clock;\nL: mov.u32 %r2, %clock; sub.s32 %r3, %r2, %r1; "
                          "setp.lt.s32 %p1, %r3, 20000; @%p1 bra L; st.global.u32 [%o], %r3;",
                          (struct setup){0}, 32);
    assert_true(out[7] >= 20000 && out[7] < 20000 + 20000 / 8 + 100);
    free(out);
    out = words(
        "",
        "mov.u64 %rd1, %clock64; mov.u32 %r1, 0;\nL: mov.u64 %rd2, %clock64; sub.s64 %rd3, %rd2, "
        "%rd1; add.s32 %r1, %r1, 1; setp.lt.s64 %p1, %rd3, 1000000000000; @%p1 bra L; "
        "st.global.u32 [%o], %r1;",
        (struct setup){0}, 32);
    assert_in_range(out[7], 16, 500);
    free(out);
    // After a barrier no warp reads less than another has read before it.
    out = words(".shared .align 4 .b8 s[4];\n",
                "setp.ne.u32 %p1, %lane, 0; @%p1 bra W; mov.u32 %r1, 0;\nL: add.s32 %r1, %r1, 1; "
                "setp.lt.s32 %p2, %r1, 100; @%p2 bra L; mov.u32 %r1, %clock; st.shared.u32 [s], "
                "%r1;\nW: bar.sync 0; ld.shared.u32 %r2, [s]; mov.u32 %r3, %clock; "
                "setp.ge.u32 %p1, %r3, %r2; selp.u32 %r4, 1, 0, %p1; st.global.u32 [%o], %r4;",
                (struct setup){.block = 64}, 64);
    for (int i = 0; i < 64; ++i)
        assert_int_equal(out[i], 1);
    free(out);
}

// Sizes as an H200 gives them: 400 bytes and 1000 of the CTA's own, 288 that the system uses of the
// 1024 that it keeps.
static void reserved_shared_memory(void **state)
{
    (void)state;
    static const char declared[] = ".shared .align 4 .b8 s[400];\n";
    const struct setup s = {.block = 1, .dynamic_shared = 1000};
    uint32_t *out = words(
        declared,
        "mov.u32 %r1, %reserved_smem_offset_begin; mov.u32 %r2, %reserved_smem_offset_end; "
        "mov.u32 %r3, %reserved_smem_offset_1; mov.u32 %r4, %reserved_smem_offset_cap; "
        "mov.u32 %r5, %total_smem_size; mov.u32 %r6, %dynamic_smem_size; sub.s32 %r2, %r2, %r1; "
        "st.global.u32 [%o], %r2; sub.s32 %r7, %r3, %r1; st.global.u32 [%o + 4], %r7; "
        "st.global.u32 [%o + 8], %r4; st.global.u32 [%o + 12], %r5; st.global.u32 [%o + 16], %r6; "
        "ld.shared.u32 %r8, [%r3]; st.global.u32 [%o + 20], %r8; st.shared.u32 [%r3 + 284], %r8; "
        "setp.ge.u32 %p1, %r1, 1400; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%o + 24], %r9;",
        s, 7);
    static const uint32_t expected[] = {288, 0, 1024, 1408, 1000, 0, 1};
    for (int i = 0; i < 7; ++i)
        assert_int_equal(out[i], expected[i]);
    free(out);
    expect_fault(declared, "mov.u32 %r1, %reserved_smem_offset_1; ld.shared.u32 %r2, [%r1 + 288];",
                 s, FAULT_OUT_OF_BOUNDS, "past the end");
}

// A call in a call in a call: as deep as the stack that the launch gives.
static void deep_calls(void **state)
{
    (void)state;
    static const char declared[] =
        ".func (.param .b32 r) deep(.param .b32 n)\n{\n.reg .b32 %r<4>; .reg .pred %p<2>;\n"
        "ld.param.u32 %r1, [n]; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra E;\n"
        "sub.s32 %r1, %r1, 1;\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), "
        "deep, (a); ld.param.b32 %r2, [b]; }\nadd.s32 %r2, %r2, 3;\n"
        "E: st.param.b32 [r], %r2; ret;\n}\n";
    static const char body[] = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 300; call (b), "
                               "deep, (a); ld.param.b32 %r1, [b]; }\nst.global.u32 [%o], %r1;";
    uint32_t *out = words(declared, body, (struct setup){.stack = 64 << 10}, 32);
    assert_int_equal(out[31], 900);
    free(out);
    expect_fault(declared, body, (struct setup){.stack = 1024}, FAULT_OUT_OF_BOUNDS,
                 "the stack is full");
}

// What ptxas refuses for sm_89 is refused here, by the machine that it needs.
static void newer_machines(void **state)
{
    (void)state;
    static const struct {
        const char *body, *text;
    } list[] = {
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
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i)
        expect_fault(".reg .b128 %q<4>;", list[i].body, (struct setup){0}, FAULT_UNSUPPORTED,
                     list[i].text);
}

// b128: 16 bytes a lane in one register; half the lanes take part in the second half.
static void whole_lines(void **state)
{
    (void)state;
    static const char body[] =
        "mul.wide.u32 %rd1, %lane, 16; add.s64 %rd1, %rd1, %out;\n"
        "mov.b64 %rd2, {%lane, %lane}; add.s64 %rd3, %rd2, 1000;\n"
        "mov.b128 %q1, {%rd2, %rd3}; st.global.b128 [%rd1], %q1;\n"
        "shl.b32 %r1, %lane, 4; mov.u32 %r2, buffer; add.s32 %r1, %r1, %r2;\n"
        "ld.global.b128 %q2, [%rd1]; st.shared.b128 [%r1], %q2; bar.warp.sync -1;\n"
        "xor.b32 %r1, %r1, 16; mov.b128 %q3, %q2; and.b32 %r3, %lane, 2; setp.ne.u32 %p1, %r3, 0;\n"
        "@%p1 ld.shared.b128 %q3, [%r1]; mov.b128 {%rd4, %rd5}, %q3;\n"
        "@%p1 mov.b128 %q2, %q3; @!%p1 mov.b128 %q2, {%rd4, %rd5};\n"
        "st.b128 [%rd1+512], %q2; st.global.v2.b64 [%rd1+1024], {%rd4, %rd5};";
    uint32_t *out =
        words(".reg .b128 %q<4>; .shared .align 16 .b8 buffer[512];", body, (struct setup){0}, 384);
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

// An early exit does not hold up a barrier; warps that arrive without waiting let others go.
static void barriers_and_exits(void **state)
{
    (void)state;
    uint32_t *out =
        words("", "setp.ge.u32 %p1, %lane, 40; @%p1 exit; bar.sync 0; st.global.u32 [%o], 1;",
              (struct setup){.block = 96}, 96);
    assert_int_equal(out[39], 1);
    assert_int_equal(out[40], 0xeeeeeeee);
    free(out);
    out = words("",
                "setp.lt.u32 %p1, %lane, 32; @%p1 bra A; bar.arrive 1, 64; bra B;\nA: bar.sync 1, "
                "64;\nB: st.global.u32 [%o], %lane;",
                (struct setup){.block = 64}, 64);
    assert_int_equal(out[63], 63);
    assert_int_equal(out[3], 3);
    free(out);
    // Past a barrier at which others of the warp stand, and to the end; not: to the end at once, or to
    // the barrier in the end, by a way that it leads to itself.
    expect_fault("",
                 "setp.ge.u32 %p1, %lane, 16; @%p1 bra P; bar.sync 0;\nP: st.global.u32 [%o], 1;",
                 (struct setup){0}, FAULT_DIVERGENT_BARRIER,
                 "lane 16 of the warp has run past it to the kernel's end");
    out =
        words("", "setp.ge.u32 %p1, %lane, 16; @%p1 bra P; bar.sync 0; st.global.u32 [%o], 1;\nP:",
              (struct setup){0}, 32);
    assert_int_equal(out[15], 1);
    free(out);
    out = words("",
                "mov.u32 %r1, 0; mov.u32 %r2, 0; setp.lt.u32 %p1, %lane, 16; bra.uni L;\n"
                "B: bar.sync 0; add.u32 %r1, %r1, 1; setp.ge.u32 %p2, %r1, 3; @%p2 bra E;\n"
                "L: @%p1 bra B; add.u32 %r2, %r2, 1; add.u32 %r2, %r2, 1; bra.uni B;\n"
                "E: st.global.u32 [%o], %r2;",
                (struct setup){0}, 32);
    assert_int_equal(out[3], 0);
    assert_int_equal(out[31], 6);
    free(out);
}

// ---- Several texts, and what is told of a kernel -------------------------------------------------

// Names that are not .visible are each text's own, also where the other has the same.
static void linked_texts(void **state)
{
    (void)state;
    char one[] = HEADER
        ".global .u32 number = 1;\n.extern .global .u32 both;\n.extern .global .u32 nowhere;\n"
        ".extern .func (.param .b32 value) theirs();\n"
        ".func (.param .b32 value) mine()\n{\n.reg .b32 %r<2>;\n"
        "ld.global.u32 %r1, [number]; st.param.b32 [value], %r1; ret;\n}\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>; .reg .b64 %out;\n"
        "ld.param.u64 %out, [out];\n"
        "{ .param .b32 got; call (got), mine; ld.param.b32 %r1, [got]; }\n"
        "{ .param .b32 got; call (got), theirs; ld.param.b32 %r2, [got]; }\n"
        "ld.global.u32 %r3, [both]; mad.lo.s32 %r4, %r1, 100, %r2; add.s32 %r4, %r4, %r3;\n"
        "st.global.u32 [%out], %r4; ret;\n}\n"
        ".visible .entry missing()\n{\n.reg .b32 %r1;\nld.global.u32 %r1, [nowhere]; ret;\n}\n";
    char two[] = HEADER
        ".global .u32 number = 2;\n.visible .global .u32 both = 40;\n"
        ".func (.param .b32 value) mine()\n{\n.reg .b32 %r<2>;\n"
        "ld.global.u32 %r1, [number]; mul.lo.s32 %r1, %r1, 10; st.param.b32 [value], %r1; ret;\n}\n"
        ".visible .func (.param .b32 value) theirs()\n{\n.reg .b32 %r<2>;\n"
        "{ .param .b32 got; call (got), mine; ld.param.b32 %r1, [got]; }\n"
        "st.param.b32 [value], %r1; ret;\n}\n";
    char *texts[2][2] = {{one, two}, {two, one}};
    for (int order = 0; order < 2; ++order) {
        char why[256] = "";
        struct module *module = module_link(texts[order], 2, why, sizeof why);
        assert_string_equal(why, "");
        uint32_t *out = memory_alloc(4);
        struct outcome o = run_module(module, (struct setup){.block = 1}, &out);
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
}

// What a module defines is what runs, under a name of the runtime's too: by an alias, before or after the
// function, or by a body.
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
        struct outcome o = run_module(module, (struct setup){.block = 1}, &out);
        assert_string_equal(o.fault.text, "");
        assert_int_equal(*out, cases[i].sets);
        free(o.lines);
        memory_free(out);
        module_free(module);
    }
}

// The runtime's functions look at what they are given: an address that is none, a parameter that is too
// small for what they write there.
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
         "reads 1 bytes at shared address 0xffffffff, past the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char declared[256], body[512];
        snprintf(declared, sizeof declared, ".extern .func %s;\n", cases[i].declared);
        snprintf(body, sizeof body, "{%s}", cases[i].call);
        uint32_t *out = memory_alloc(64);
        struct outcome o = run_body(declared, body, (struct setup){.block = 1}, out);
        assert_false(o.good);
        if (!strstr(o.fault.text, cases[i].told))
            fail_msg("%s", o.fault.text);
        finish(&o);
        memory_free(out);
    }
}

// 20 floats and a 64-bit address; with a call, what the function needs as well. Predicates take none.
static void registers_alive(void **state)
{
    (void)state;
    char text[8192], many[4096] = "", sum[2048] = "";
    for (int i = 0; i < 20; ++i) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "cvt.rn.f32.u32 %%f%d, %%r0;\n",
                 i);
        snprintf(sum + strlen(sum), sizeof sum - strlen(sum), "add.f32 %%f0, %%f0, %%f%d;\n", i);
    }
    for (int calls = 0; calls < 2; ++calls) {
        snprintf(
            text, sizeof text,
            HEADER
            ".func f()\n{\n.reg .b64 %%x<4>;\nmov.u64 %%x0, 1; mov.u64 %%x1, 2;\n"
            "mov.u64 %%x2, 3; add.s64 %%x0, %%x0, %%x1; add.s64 %%x0, %%x0, %%x2; ret;\n}\n"
            ".visible .entry k(.param .u64 out)\n{\n.reg .f32 %%f<20>; .reg .b32 %%r0;\n"
            ".reg .b64 %%out; .reg .pred %%p;\nld.param.u64 %%out, [out]; mov.u32 %%r0, %%tid.x;\n"
            "setp.eq.u32 %%p, %%r0, 0;\n%s%s%s@%%p st.global.f32 [%%out], %%f0; ret;\n}\n",
            many, sum, calls ? "call f;\n" : "");
        struct module *module = parse(text);
        assert_int_equal(kernel_registers(module_kernel(module, "k")), calls ? 22 + 6 : 22);
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
    // What a kernel cannot do is said when it is launched, and does no harm before.
    struct module *m = parse(HEADER ".visible .entry k() { .reg .b32 %r<4>; add.s32 %r1, %r2, "
                                    "nowhere; ret; }\n.visible .entry good() { ret; }");
    struct outcome o = run_module(m, (struct setup){0}, NULL);
    assert_false(o.good);
    assert_int_equal(o.fault.kind, FAULT_UNSUPPORTED);
    assert_non_null(strstr(o.fault.text, "'nowhere' is not known"));
    finish(&o);
    assert_non_null(module_kernel(m, "good"));
    assert_null(module_kernel(m, "bad"));
    module_free(m);
}

#define HEAP_DECLARED                                                                              \
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"
#define MALLOC(bytes, to)                                                                          \
    "{ .param .b64 n; .param .b64 r; st.param.b64 [n], " bytes                                     \
    "; call.uni (r), malloc, (n); ld.param.b64 " to ", [r]; }\n"
#define FREE(what) "{ .param .b64 p; st.param.b64 [p], " what "; call.uni free, (p); }\n"

// malloc and free in device code.
static void device_heap(void **state)
{
    (void)state;
    assert_false(heap_limit(SIZE_MAX / 2)); // more than the device has
    uint32_t *out = words(
        HEAP_DECLARED,
        MALLOC("20", "%rd1") "st.u32 [%rd1+16], %lane;\n" MALLOC("0x10000000000", "%rd2") MALLOC(
            "0",
            "%rd3") "or.b64 %rd2, %rd2, %rd3;\n"
                    "and.b64 %rd4, %rd1, 15; or.b64 %rd2, %rd2, %rd4;\n"
                    "ld.u32 %r1, [%rd1+16]; cvt.u32.u64 %r2, %rd2; add.u32 %r1, %r1, %r2;\n" FREE(
                        "%rd1") FREE("%rd2") "st.global.u32 [%o], %r1;",
        (struct setup){0}, 32);
    for (uint32_t lane = 0; lane < 32; ++lane)
        assert_int_equal(out[lane], lane);
    free(out);
    expect_fault(HEAP_DECLARED, MALLOC("20", "%rd1") "st.u32 [%rd1+20], %lane;", (struct setup){0},
                 FAULT_OUT_OF_BOUNDS, "of the heap, not all of them in a block");
    expect_fault(HEAP_DECLARED, MALLOC("16", "%rd1") FREE("%rd1") "ld.u32 %r1, [%rd1];",
                 (struct setup){0}, FAULT_OUT_OF_BOUNDS, "of the heap, not all of them in a block");
    expect_fault(HEAP_DECLARED, MALLOC("16", "%rd1") FREE("%rd1") FREE("%rd1"), (struct setup){0},
                 FAULT_OUT_OF_BOUNDS, "or which has been freed");
    expect_fault(HEAP_DECLARED, FREE("%out"), (struct setup){0}, FAULT_OUT_OF_BOUNDS,
                 "which malloc in device code did not return");
    assert_false(heap_limit(1 << 20)); // there is a heap
    assert_int_equal(heap_take(9 << 20), 0);
    uint64_t most = heap_take(6 << 20);
    assert_int_not_equal(most, 0);
    assert_int_equal(heap_take(3 << 20), 0); // exhausted
    assert_true(heap_give(most));
    uint64_t again = heap_take(3 << 20);
    assert_int_not_equal(again, 0);
    assert_true(heap_give(again));
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
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        char body[256];
        snprintf(body, sizeof body,
                 "mov.b32 %%r1, %u; mov.b32 %%r2, %u; mov.b32 %%r3, %u;\n%s\n"
                 "st.global.u32 [%%o], %%r4;",
                 list[i].a, list[i].b, list[i].c, list[i].code);
        uint32_t *out = words("", body, (struct setup){0}, 32);
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
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        expect_fault("", wrong[i][0], (struct setup){0}, FAULT_UNSUPPORTED, wrong[i][1]);
}

// A hint to the caches changes neither a value nor a count, and an access with one is the access.
static void cache_hints(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *hinted; // the same, with %rd9 a policy
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
            char body[1024];
            snprintf(body, sizeof body,
                     "mov.b32 %%f1, 0f3f000000; mul.wide.u32 %%rd1, %%lane, 16; add.s64 %%rd1, "
                     "%%rd1, %%out; mov.u32 %%r4, s; mad.lo.u32 %%r4, %%lane, 16, %%r4; mov.u32 "
                     "%%r5, 4; setp.ge.u32 %%p1, %%lane, 7; mov.u32 %%r1, 3; mov.u32 %%r2, 0; "
                     "mov.u32 %%r3, 0; st.shared.v2.u32 [%%r4], {%%r2, %%r3};\n%s\n%s\n"
                     "ld.shared.v2.u32 {%%r6, %%r7}, [%%r4]; add.u32 %%r2, %%r2, %%r3; "
                     "add.u32 %%r2, %%r2, %%r6; add.u32 %%r2, %%r2, %%r7; "
                     "st.global.u32 [%%o+128], %%r2;",
                     policies[i % POLICIES],
                     hinted ? pairs[i / POLICIES].hinted : pairs[i / POLICIES].plain);
            for (int word = 0; word < 128; ++word)
                out[word] = (uint32_t)word * 2654435761u >> 8;
            struct outcome o = run_body(".shared .align 16 .b8 s[512];\n", body,
                                        (struct setup){.racy = true}, out);
            assert_good(&o);
            counts[hinted] = o.counts;
            memcpy(seen[hinted], out, 512);
            finish(&o);
        }
        assert_memory_equal(&counts[0], &counts[1], sizeof counts[0]);
        assert_memory_equal(seen[0], seen[1], 512);
    }
    free(words(
        "",
        "prefetch.global.L2 [%o]; prefetch.L1 [%o]; prefetch.global.L2::evict_last [%o+4096]; "
        "prefetch.L2::evict_normal [%o]; prefetchu.L1 [%o]; "
        "st.global.u32 [%o], %lane;",
        (struct setup){0}, 32));
    memory_free(out);
}

// What ptxas refuses of them, by the same rules.
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
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        expect_fault("", wrong[i][0], (struct setup){0}, FAULT_UNSUPPORTED, wrong[i][1]);
}

// What cannot be run is refused by the line of its source, where there is one.
// Copies are counted by what they read: not commits, not waits, not bytes that are filled with zeros.
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
        char body[512];
        snprintf(body, sizeof body,
                 "mov.u32 %%r1, s; mad.lo.u32 %%r2, %%lane, 16, %%r1; "
                 "mad.wide.u32 %%rd1, %%lane, 16, %%out; %s",
                 bodies[i].body);
        struct outcome o =
            run_body(".shared .align 16 .b8 s[512];\n", body, (struct setup){0}, out);
        assert_good(&o);
        assert_int_equal(*counts_find(&o.counts, "async_bytes"), bodies[i].bytes);
        finish(&o);
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

// Three CTAs print a line for each of two threads: to who asks for it, in order, and no more than is
// asked for, to the end of the warp's that passes it.
static void prints_are_handed_on(void **state)
{
    static const char function[] =
        ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
        ".global .align 1 .b8 line[5] = {98, 121, 101, 10, 0};\n";
    static const char body[] =
        "{ .param .b64 pf; .param .b64 pa; .param .b32 pr;\n"
        "mov.u64 %rd1, line; mov.u64 %rd2, 0; st.param.b64 [pf], %rd1; st.param.b64 [pa], %rd2;\n"
        "call.uni (pr), vprintf, (pf, pa); }";
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
        struct outcome o = run_body(
            function, body,
            (struct setup){
                .grid = 3, .block = 2, .print = keep_printed, .print_bytes = limits[i].most},
            out);
        assert_good(&o);
        assert_string_equal(printed, limits[i].said);
        finish(&o);
    }
    memory_free(out);
}

// What cannot be run is refused by the line of its source, where there is one.
static void refusals_name_the_line(void **state)
{
    (void)state;
    struct module *m = parse(HEADER ".visible .entry k() {\n.reg .b64 %d<8>;\n.loc 1 12 3\n"
                                    "istypep.texref %d1, %d2;\nret;\n}\n"
                                    ".file 1 \"/home/me/filter.cu\"\n");
    struct outcome o = run_module(m, (struct setup){0}, NULL);
    assert_int_equal(o.fault.kind, FAULT_UNSUPPORTED);
    assert_string_equal(o.fault.text, "k, /home/me/filter.cu:12, PTX line 7: instruction "
                                      "istypep.texref is not supported");
    finish(&o);
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

// The first list under every instruction set.
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
    int failed = 0;
    for (size_t i = 0; i < 3; ++i) {
        setenv("PTXSIM_ISA", sets[i], 1);
        failed += cmocka_run_group_tests_name(sets[i], each, NULL, NULL);
    }
    unsetenv("PTXSIM_ISA");
    failed += cmocka_run_group_tests(once, NULL, NULL);
    return failed != 0;
}
