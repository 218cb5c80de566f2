// ops_common.c: operations that are compiled once: checks and faults, conversions, atomics, votes.
#include "ops_common.h"

#include "image/gpus.h"

#include "races.h"
#include "scalars.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// ---- Faults -------------------------------------------------------------------------------------

void fault_text(char *text, size_t size, struct warp *w, const struct op *op, int lane,
                const char *format, va_list arguments)
{
    const struct cta *cta = w->cta;
    char name[128];
    kernel_base_name(cta->program->kernel->info.name, name, sizeof name);
    const struct insn_info *insn = op ? &cta->program->insns[op->insn] : NULL;
    char where[544] = "";
    if (insn && insn->at.line)
        snprintf(where, sizeof where, ", %s:%d%s", insn->at.file, insn->at.line, insn->at.callers);
    else if (insn)
        snprintf(where, sizeof where, ", PTX line %d", insn->ptx_line);
    int used = snprintf(text, size, "%s%s, block (%u,%u,%u), thread (%u,%u,%u): ", name, where,
                        cta->index[0], cta->index[1], cta->index[2], w->tid[0][lane],
                        w->tid[1][lane], w->tid[2][lane]);
    if (used > 0 && (size_t)used < size)
        vsnprintf(text + used, size - (size_t)used, format, arguments);
}

void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...)
{
    struct cta *cta = w->cta;
    if (cta->faulted)
        return;
    cta->faulted = true;
    cta->fault.kind = kind;
    va_list arguments;
    va_start(arguments, format);
    fault_text(cta->fault.text, sizeof cta->fault.text, w, op, lane, format, arguments);
    va_end(arguments);
}

bool global_span_slow(struct warp *w, uint64_t address, uint64_t bytes)
{
    const struct allocation *found = memory_find(address, bytes, NULL);
    if (!found || !found->live)
        return false;
    w->cta->worker->last = *found;
    return true;
}

void fault_shared(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                  bool store)
{
    const char *verb = store ? "writes" : "reads";
    uint32_t size = w->cta->shared_bytes;
    if (at + (uint64_t)bytes > size)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at shared address 0x%x, past the end of the CTA's %u bytes of shared "
                 "memory",
                 verb, bytes, at, size);
    else if (at % bytes)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s %u bytes at shared address 0x%x, which is no multiple of %u", verb, bytes, at,
                 bytes);
    else
        race_report(w, op, lane, FAULT_UNINITIALISED, op->insn,
                    "%s %u bytes at shared address 0x%x that nothing has written", verb, bytes, at);
}

void fault_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                  bool store)
{
    const char *verb = store ? "writes" : "reads";
    const struct allocation *nearest = NULL;
    unsigned long long address = at;
    const struct allocation *found = memory_find(at, bytes, &nearest);
    if (found && found->live && at % bytes == 0) {
        race_report(w, op, lane, FAULT_UNINITIALISED, op->insn,
                    "%s %u bytes at 0x%llx, byte %llu of an allocation of %llu bytes, that nothing "
                    "has written",
                    verb, bytes, address, address - (unsigned long long)found->base,
                    (unsigned long long)found->size);
        return;
    }
    if (found && found->live) {
        fault_at(w, op, lane, FAULT_MISALIGNED, "%s %u bytes at 0x%llx, which is no multiple of %u",
                 verb, bytes, address, bytes);
        return;
    }
    if (found)
        nearest = found;
    if (at < 4096)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx: a null pointer", verb,
                 bytes, address);
    else if (nearest && !nearest->live && at - nearest->base < nearest->size)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx, in an allocation of %llu bytes that has been freed", verb,
                 bytes, address, (unsigned long long)nearest->size);
    else if (nearest && at >= nearest->base && at - nearest->base < nearest->size)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx, across the end of the allocation of %llu bytes", verb,
                 bytes, address, (unsigned long long)nearest->size);
    else if (nearest && at >= nearest->base)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx, %llu bytes past the end of the allocation of %llu bytes",
                 verb, bytes, address, (unsigned long long)(at - nearest->base - nearest->size),
                 (unsigned long long)nearest->size);
    else
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx, in no allocation", verb,
                 bytes, address);
}

uint8_t *private_memory(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        bool store)
{
    const struct program *program = w->cta->program;
    const char *verb = store ? "writes" : "reads";
    uint64_t window = at >> WINDOW_SHIFT << WINDOW_SHIFT;
    bool is_param = op->space == SPACE_PARAM || window == PARAM_WINDOW;
    bool is_local = op->space == SPACE_LOCAL || window == LOCAL_WINDOW;
    uint64_t offset = at - window;
    if (!is_param && !is_local) {
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx, in no address space",
                 verb, bytes, (unsigned long long)at);
        return NULL;
    }
    uint64_t size = is_param ? program->kernel->info.param_bytes : program->local_bytes;
    const char *name = is_param ? "the kernel's parameters" : "local memory";
    if (offset > size || bytes > size - offset)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at offset %llu of %s, %llu bytes",
                 verb, bytes, (unsigned long long)offset, name, (unsigned long long)size);
    else if (offset % bytes)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s %u bytes at offset %llu of %s, which is no multiple of %u", verb, bytes,
                 (unsigned long long)offset, name, bytes);
    else if (is_param && store)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "writes to the kernel's parameters");
    else if (is_param)
        return (uint8_t *)(uintptr_t)w->cta->launch->params + offset;
    else
        return (uint8_t *)w->local + (size_t)lane * program->local_bytes + offset;
    return NULL;
}

// ---- Guards and rounding ------------------------------------------------------------------------

enum { SAVE_BYTES = WARP * 16 };

static size_t plain_bytes(const struct op *op)
{
    return op->plain == 1 ? 4 : (size_t)(op->plain - 1) * WARP;
}

void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask)
{
    _Alignas(64) char saved[SAVE_BYTES];
    char *d = r + op->d;
    size_t width = op->plain - 1u;
    memcpy(saved, d, plain_bytes(op));
    run(w, r, op, mask);
    uint32_t off = ~mask;
    if (!width) {
        *(u32 *)d = (*(u32 *)d & mask) | (*(u32 *)saved & off);
        return;
    }
    switch (width) {
    case 2:
        for (int i = 0; i < WARP; ++i)
            ((u16 *)d)[i] = off >> i & 1 ? ((u16 *)saved)[i] : ((u16 *)d)[i];
        break;
    case 4:
        for (int i = 0; i < WARP; ++i)
            ((u32 *)d)[i] = off >> i & 1 ? ((u32 *)saved)[i] : ((u32 *)d)[i];
        break;
    default:
        for (int i = 0; i < WARP; ++i)
            ((u64 *)d)[i] = off >> i & 1 ? ((u64 *)saved)[i] : ((u64 *)d)[i];
    }
}

void guarded_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    uint32_t guard = *(u32 *)(r + op->guard);
    uint32_t on = mask & (op->guard_negated ? ~guard : guard);
    counts_of(w, op)->lanes_off += (uint64_t)__builtin_popcount(mask & ~on);
    if (!on)
        return;
    if (op->plain)
        plain_masked(w, r, op, op->inner, on);
    else
        op->inner(w, r, op, on);
}

void rounded_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    op_fn *run;
    memcpy(&run, op->regs, sizeof run);
    fesetround(modes[op->bytes]);
    run(w, r, op, mask);
    fesetround(FE_TONEAREST);
}

void mov_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        memmove(r + op->d + 16 * i, r + op->a + 16 * i, 16);
    }
}

void pack_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1)
        for (int half = 0, i = __builtin_ctz(mask); half < 2; ++half)
            memcpy(r + op->d + 16 * i + 8 * half, r + op->regs[half] + 8 * i, 8);
}

void unpack_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1)
        for (int half = 0, i = __builtin_ctz(mask); half < 2; ++half)
            memcpy(r + op->regs[half] + 8 * i, r + op->a + 16 * i + 8 * half, 8);
}

void nothing_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)r, (void)op, (void)mask;
}

void warp_sync_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op;
    if (w->clock)
        race_warp_sync(w, mask);
}

// ---- Conversions --------------------------------------------------------------------------------

static bool is_float(enum number number)
{
    return number >= NUMBER_F16;
}

static int number_bytes(enum number number)
{
    static const int bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 4, 1, 1};
    return bytes[number];
}

// To a float of `fraction` bits and least normal exponent `least`, in f64, in any rounding.
static double round_to(double a, int fraction, int least, double most, enum rounding rounding)
{
    if (!(fabs(a) < INFINITY) || a == 0)
        return a;
    int exponent;
    frexp(a, &exponent);
    int unit = (exponent - 1 < least ? least : exponent - 1) - fraction;
    double scaled = ldexp(a, -unit), whole;
    switch (rounding) {
    case ROUND_ZERO: whole = trunc(scaled); break;
    case ROUND_DOWN: whole = floor(scaled); break;
    case ROUND_UP: whole = ceil(scaled); break;
    case ROUND_AWAY: whole = round(scaled); break;
    default: whole = nearbyint(scaled);
    }
    double result = copysign(ldexp(whole, unit), a);
    if (fabs(result) > most) {
        bool to_infinity = rounding == ROUND_NEAREST || rounding == ROUND_AWAY ||
                           (rounding == ROUND_UP && a > 0) || (rounding == ROUND_DOWN && a < 0);
        return copysign(to_infinity ? INFINITY : most, a);
    }
    return result;
}

static double integral(double a, enum rounding rounding)
{
    return rounding == ROUND_ZERO   ? trunc(a)
           : rounding == ROUND_DOWN ? floor(a)
           : rounding == ROUND_UP   ? ceil(a)
                                    : nearbyint(a);
}

// An integer, 65 bits and its sign, to f32 or f64 in any rounding.
static double integer_to_float(bool negative, uint64_t magnitude, int digits,
                               enum rounding rounding)
{
    if (!magnitude)
        return 0;
    int drop = 64 - __builtin_clzll(magnitude) - digits;
    if (drop > 0) {
        uint64_t unit = UINT64_C(1) << drop, rest = magnitude & (unit - 1);
        magnitude -= rest;
        bool up = rounding == ROUND_NEAREST
                      ? rest > unit / 2 || (rest == unit / 2 && (magnitude & unit))
                      : rest && ((rounding == ROUND_UP && !negative) ||
                                 (rounding == ROUND_DOWN && negative));
        double exact = (double)magnitude + (up ? (double)unit : 0); // both fit in 53 bits
        return negative ? -exact : exact;
    }
    return negative ? -(double)magnitude : (double)magnitude;
}

static uint64_t float_to_integer(double a, const struct conversion *k)
{
    int bits = 8 * number_bytes(k->to);
    bool is_signed = k->to >= NUMBER_S8;
    if (a != a)
        return k->from != NUMBER_F64 && bits < 64 ? 0 : UINT64_C(1) << (bits - 1);
    a = integral(a, k->rounding);
    double high = ldexp(1, is_signed ? bits - 1 : bits);
    if (is_signed) {
        if (a >= high)
            return (UINT64_C(1) << (bits - 1)) - 1;
        if (a < -high)
            return UINT64_C(1) << (bits - 1);
        return (uint64_t)(int64_t)a;
    }
    if (a >= high)
        return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return a <= 0 ? 0 : (uint64_t)a;
}

static uint64_t integer_to_integer(uint64_t value, bool negative, const struct conversion *k)
{
    if (!k->saturate)
        return value;
    int bits = 8 * number_bytes(k->to);
    if (k->to >= NUMBER_S8) {
        int64_t high = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        if (negative)
            return (int64_t)value < -high - 1 ? (uint64_t)(-high - 1) : value;
        return value > (uint64_t)high ? (uint64_t)high : value;
    }
    uint64_t high = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return negative ? 0 : value > high ? high : value;
}

static uint64_t float_bits(double a, const struct conversion *k)
{
    if (k->saturate)
        a = a > 0 ? (a < 1 ? a : 1) : 0;
    if (k->relu && a <= 0)
        a = 0;
    if (k->finite) {
        double most = k->to == NUMBER_F16    ? 65504
                      : k->to == NUMBER_BF16 ? 0x1.fep127
                      : k->to == NUMBER_TF32 ? 0x1.ffcp127
                                             : INFINITY; // e4m3 and e5m2 never overflow
        a = a > most ? most : a < -most ? -most : a;
    }
    uint64_t bits;
    memcpy(&bits, &a, 8);
    if (a != a && k->from == NUMBER_F64 && !k->saturate && k->to != NUMBER_F64) {
        // Sign and payload stay, as far as they fit; quiet.
        uint32_t single = (uint32_t)(bits >> 63 << 31 | 0x7fc00000 | (bits >> 29 & 0x7fffff));
        return k->to == NUMBER_F16    ? (single >> 16 & 0x8000) | 0x7c00 | (single >> 13 & 0x3ff)
               : k->to == NUMBER_BF16 ? single >> 16
                                      : single;
    }
    switch (k->to) {
    case NUMBER_E4M3: return e4m3_of((float)a);
    case NUMBER_E5M2: return e5m2_of((float)a);
    case NUMBER_F16: return f16_of(canonical((float)round_to(a, 10, -14, 65504, k->rounding)));
    case NUMBER_BF16: return bf16_of((float)round_to(a, 7, -126, 0x1.fep127, k->rounding));
    case NUMBER_TF32:
        return 0xffffe000 &
               bits_of(canonical((float)round_to(a, 10, -126, 0x1.ffcp127, k->rounding)));
    case NUMBER_F32: {
        float single = canonical((float)round_to(a, 23, -126, 0x1.fffffep127, k->rounding));
        return bits_of(k->ftz ? flush(single) : single);
    }
    default: return bits;
    }
}

static uint64_t convert_one(uint64_t raw, const struct conversion *k)
{
    int from_bits = 8 * number_bytes(k->from);
    if (!is_float(k->from)) {
        unsigned shift = 64 - (unsigned)from_bits;
        bool is_signed = k->from >= NUMBER_S8;
        uint64_t value = raw << shift;
        value = is_signed ? (uint64_t)((int64_t)value >> shift) : value >> shift;
        bool negative = is_signed && (int64_t)value < 0;
        if (!is_float(k->to))
            return integer_to_integer(value, negative, k);
        int digits = k->to == NUMBER_F64 ? 53 : k->to == NUMBER_F32 ? 24 : 53;
        return float_bits(integer_to_float(negative, negative ? 0 - value : value, digits,
                                           k->to == NUMBER_F32 || k->to == NUMBER_F64
                                               ? k->rounding
                                               : ROUND_NEAREST),
                          k);
    }
    if (k->to == NUMBER_TF32 && (raw & 0x7fffffff) > 0x7f800000)
        return raw & 0xffffe000; // a NaN is cut, too
    double a;
    if (k->from == NUMBER_F16)
        a = f16_to_f32((uint32_t)raw & 0xffff);
    else if (k->from == NUMBER_BF16)
        a = float_of((uint32_t)raw << 16);
    else if (k->from == NUMBER_F64)
        memcpy(&a, &raw, 8);
    else
        a = k->ftz ? canonical(flush(float_of((uint32_t)raw))) : float_of((uint32_t)raw);
    if (!is_float(k->to))
        return float_to_integer(a, k);
    if (k->to_integral && k->from == NUMBER_F64 && a != a && !k->saturate)
        return raw | UINT64_C(1) << 51; // quiet, with its payload
    if (k->to_integral) {
        struct conversion exact = *k;
        exact.rounding = ROUND_NEAREST;
        return float_bits(copysign(integral(a, k->rounding), a), &exact);
    }
    return float_bits(a, k);
}

static double narrow_value(enum number from, uint32_t bits)
{
    return from == NUMBER_F16    ? f16_to_f32(bits & 0xffff)
           : from == NUMBER_BF16 ? float_of(bits << 16)
           : from == NUMBER_E4M3 ? f16_to_f32(e4m3_to_f16(bits & 0xff))
           : from == NUMBER_E5M2 ? f16_to_f32(e5m2_to_f16(bits & 0xff))
                                 : float_of(bits);
}

void convert_pair(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    const struct conversion *k = (const struct conversion *)op->regs;
    unsigned bits = 8 * (unsigned)number_bytes(k->to), from = 8 * (unsigned)number_bytes(k->from);
    for (unsigned i = 0; i < WARP; ++i) {
        uint32_t high = 0, low = 0;
        memcpy(&high, r + op->a + i * k->from_width, k->from_width);
        if (k->from == NUMBER_F32)
            memcpy(&low, r + op->b + 4 * i, 4);
        else
            low = high, high >>= from;
        uint32_t value = (uint32_t)float_bits(narrow_value(k->from, high), k) << bits |
                         (uint32_t)float_bits(narrow_value(k->from, low), k);
        memcpy(r + op->d + i * k->to_width, &value, k->to_width);
    }
}

void convert(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    const struct conversion *k = (const struct conversion *)op->regs;
    unsigned bits = 8 * (unsigned)number_bytes(k->to), shift = 64 - bits;
    for (unsigned i = 0; i < WARP; ++i) {
        uint64_t value = 0;
        memcpy(&value, r + op->a + i * k->from_width, k->from_width);
        value = convert_one(value, k);
        if (shift) // extended to the register's width
            value = k->to >= NUMBER_S8 && !is_float(k->to)
                        ? (uint64_t)((int64_t)(value << shift) >> shift)
                        : value << shift >> shift;
        memcpy(r + op->d + i * k->to_width, &value, k->to_width);
    }
}

// ---- Extended precision -------------------------------------------------------------------------

// imm: enum carry. regs[0]: the carry, one bit a lane.
void carry_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    u32 *carry = (u32 *)(r + op->regs[0]);
    uint32_t in = op->imm & CARRY_IN ? *carry : 0, out = 0;
    for (int i = 0; i < WARP; ++i) {
        if (!(mask >> i & 1))
            continue;
        uint64_t a = 0, b = 0;
        memcpy(&a, r + op->a + (size_t)i * op->width, op->width);
        memcpy(&b, r + op->b + (size_t)i * op->width, op->width);
        // A borrow: the carry of a - b is set when a < b.
        unsigned __int128 wide = op->imm & CARRY_SUBTRACT
                                     ? (unsigned __int128)a - b - (in >> i & 1)
                                     : (unsigned __int128)a + b + (in >> i & 1);
        uint64_t d = (uint64_t)wide;
        memcpy(r + op->d + (size_t)i * op->width, &d, op->width);
        out |= (uint32_t)(wide >> 8 * op->width & 1) << i;
    }
    if (op->imm & CARRY_OUT)
        *carry = (*carry & ~mask) | out;
}

// ---- Votes --------------------------------------------------------------------------------------

// a: the predicate, b: the members (already here, see SYNC_MEMBERS). d: a predicate or, for a
// ballot, a register.
void vote_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    uint32_t p = *(u32 *)(r + op->a) ^ (op->is_signed ? ~0u : 0);
    uint32_t d = *(u32 *)(r + op->d);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t members = ((u32 *)(r + op->b))[i] & mask, yes = p & members;
        if (op->imm == VOTE_BALLOT) {
            ((u32 *)(r + op->d))[i] = yes;
            continue;
        }
        bool result = op->imm == VOTE_ALL   ? yes == members
                      : op->imm == VOTE_ANY ? yes != 0
                                            : yes == members || !yes;
        d = (d & ~(1u << i)) | (uint32_t)result << i;
    }
    if (op->imm != VOTE_BALLOT)
        *(u32 *)(r + op->d) = d;
}

// match.any, match.all (imm 1). regs[0]: the predicate or NO_REGISTER.
void match_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    uint64_t value[WARP] = {0};
    uint32_t result[WARP];
    for (int i = 0; i < WARP; ++i)
        memcpy(&value[i], r + op->a + (size_t)i * op->width, op->width);
    for (int i = 0; i < WARP; ++i) {
        uint32_t members = ((u32 *)(r + op->b))[i] & mask, same = 0;
        for (int j = 0; j < WARP; ++j)
            same |= (uint32_t)(members >> j & 1 && value[j] == value[i]) << j;
        result[i] = op->imm ? (same == members ? members : 0) : same;
    }
    uint32_t p = 0;
    for (int i = 0; i < WARP; ++i) {
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = result[i];
        p |= (uint32_t)(result[i] != 0) << i;
    }
    if (op->regs[0] != NO_REGISTER) {
        u32 *d = (u32 *)(r + op->regs[0]);
        *d = (*d & ~mask) | (p & mask);
    }
}

// imm: enum atomic (add, min, max, and, or, xor).
void redux_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    uint32_t result[WARP];
    const u32 *a = (const u32 *)(r + op->a);
    for (int i = 0; i < WARP; ++i) {
        uint32_t members = ((u32 *)(r + op->b))[i] & mask, sum = 0;
        bool first = true;
        for (uint32_t left = members; left; left &= left - 1, first = false) {
            uint32_t x = a[__builtin_ctz(left)];
            bool less = op->is_signed ? (int32_t)x < (int32_t)sum : x < sum;
            sum = first                   ? x
                  : op->imm == ATOMIC_ADD ? sum + x
                  : op->imm == ATOMIC_MIN ? (less ? x : sum)
                  : op->imm == ATOMIC_MAX ? (less ? sum : x)
                  : op->imm == ATOMIC_AND ? (sum & x)
                  : op->imm == ATOMIC_OR  ? (sum | x)
                                          : (sum ^ x);
        }
        result[i] = sum;
    }
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = result[i];
}

// The leader is the lowest member. regs[0]: its lane (or NO_REGISTER), d: whether this is it.
void elect_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    uint32_t p = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t members = ((u32 *)(r + op->b))[i] & mask;
        int leader = members ? __builtin_ctz(members) : i;
        if (op->regs[0] != NO_REGISTER)
            ((u32 *)(r + op->regs[0]))[i] = (uint32_t)leader;
        p |= (uint32_t)(leader == i) << i;
    }
    u32 *d = (u32 *)(r + op->d);
    *d = (*d & ~mask) | p;
}

void activemask_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = mask;
}

// ---- Special registers --------------------------------------------------------------------------

const char *const special_names[SPECIALS] = {"%tid.x",
                                             "%tid.y",
                                             "%tid.z",
                                             "%ntid.x",
                                             "%ntid.y",
                                             "%ntid.z",
                                             "%ctaid.x",
                                             "%ctaid.y",
                                             "%ctaid.z",
                                             "%nctaid.x",
                                             "%nctaid.y",
                                             "%nctaid.z",
                                             "%laneid",
                                             "%warpid",
                                             "%nwarpid",
                                             "%smid",
                                             "%nsmid",
                                             "%gridid",
                                             "%lanemask_eq",
                                             "%lanemask_le",
                                             "%lanemask_lt",
                                             "%lanemask_ge",
                                             "%lanemask_gt",
                                             "%clock",
                                             "%clock_hi",
                                             "%clock64",
                                             "%globaltimer",
                                             "%globaltimer_lo",
                                             "%globaltimer_hi",
                                             "%dynamic_smem_size",
                                             "%total_smem_size",
                                             "%reserved_smem_offset_begin",
                                             "%reserved_smem_offset_end",
                                             "%reserved_smem_offset_cap",
                                             "%reserved_smem_offset_0",
                                             "%reserved_smem_offset_1",
                                             "%envreg1",
                                             "%envreg2"};

// A clock counts the warp's own basic blocks: it grows, and is the same in every run.
static uint64_t special(const struct warp *w, int which, int lane)
{
    const struct cta *cta = w->cta;
    const struct launch *launch = cta->launch;
    uint32_t bit = 1u << lane;
    switch (which) {
    case SPECIAL_TID_X:
    case SPECIAL_TID_Y:
    case SPECIAL_TID_Z: return w->tid[which - SPECIAL_TID_X][lane];
    case SPECIAL_NTID_X:
    case SPECIAL_NTID_Y:
    case SPECIAL_NTID_Z: return launch->block[which - SPECIAL_NTID_X];
    case SPECIAL_CTAID_X:
    case SPECIAL_CTAID_Y:
    case SPECIAL_CTAID_Z: return cta->index[which - SPECIAL_CTAID_X];
    case SPECIAL_NCTAID_X:
    case SPECIAL_NCTAID_Y:
    case SPECIAL_NCTAID_Z: return launch->grid[which - SPECIAL_NCTAID_X];
    case SPECIAL_LANEID: return (uint64_t)lane;
    case SPECIAL_WARPID: return (uint64_t)w->index;
    case SPECIAL_NWARPID: return (unsigned)gpus[GPU_L4].threads_sm / WARP;
    case SPECIAL_SMID: return cta->number % (unsigned)gpus[GPU_L4].sms;
    case SPECIAL_NSMID: return (unsigned)gpus[GPU_L4].sms;
    case SPECIAL_GRIDID: return 1;
    case SPECIAL_LANEMASK_EQ: return bit;
    case SPECIAL_LANEMASK_LE: return bit | (bit - 1);
    case SPECIAL_LANEMASK_LT: return bit - 1;
    case SPECIAL_LANEMASK_GE: return ~(bit - 1);
    case SPECIAL_LANEMASK_GT: return ~(bit | (bit - 1));
    case SPECIAL_CLOCK: return (uint32_t)(w->turns * 16);
    case SPECIAL_CLOCK_HI: return w->turns * 16 >> 32;
    case SPECIAL_CLOCK64:
    case SPECIAL_GLOBALTIMER: return w->turns * 16;
    case SPECIAL_GLOBALTIMER_LO: return (uint32_t)(w->turns * 16);
    case SPECIAL_GLOBALTIMER_HI: return w->turns * 16 >> 32;
    case SPECIAL_DYNAMIC_SMEM_SIZE: return launch->dynamic_shared_bytes;
    case SPECIAL_TOTAL_SMEM_SIZE:
    case SPECIAL_RESERVED_SMEM_BEGIN: // nothing is reserved: past the CTA's own
    case SPECIAL_RESERVED_SMEM_END:
    case SPECIAL_RESERVED_SMEM_CAP:
    case SPECIAL_RESERVED_SMEM_0:
    case SPECIAL_RESERVED_SMEM_1: return cta->shared_bytes;
    case SPECIAL_ENVREG1: return launch->grid_memory >> 32; // as cooperative groups look for it
    case SPECIAL_ENVREG2: return (uint32_t)launch->grid_memory;
    }
    return 0;
}

void special_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)mask;
    if (op->imm <= SPECIAL_TID_Z && op->width == 4) {
        memcpy(r + op->d, w->tid[op->imm], sizeof w->tid[0]);
        return;
    }
    for (int i = 0; i < WARP; ++i) {
        uint64_t value = special(w, (int)op->imm, i);
        memcpy(r + op->d + (size_t)i * op->width, &value, op->width);
    }
}

// ---- Atomics ------------------------------------------------------------------------------------

static uint32_t half_atomic(uint32_t old, uint32_t b, int kind, enum atomic what)
{
    bool bf = kind == 3 || kind == 5;
    uint32_t result = 0;
    for (int i = 0; i < (kind < 4 ? 2 : 1); ++i) {
        float x, y;
        x = bf ? float_of(old >> 16 * i << 16) : f16_to_f32(old >> 16 * i & 0xffff);
        y = bf ? float_of(b >> 16 * i << 16) : f16_to_f32(b >> 16 * i & 0xffff);
        float sum = canonical(what == ATOMIC_MIN   ? min_f32(x, y)
                              : what == ATOMIC_MAX ? max_f32(x, y)
                                                   : x + y);
        result |= (bf ? bf16_of(sum) : f16_of(sum)) << 16 * i;
    }
    return result;
}

// In global memory a sum of floats is made without subnormals, in shared memory with them.
static uint64_t atomic_result(const struct op *op, uint64_t old, uint64_t b, uint64_t c,
                              bool shared)
{
    enum atomic what = (enum atomic)op->target;
    if (op->vector > 1)
        return half_atomic((uint32_t)old, (uint32_t)b, op->vector, what);
    if (op->vector == 1 && op->bytes == 4) {
        float x = float_of((uint32_t)old), y = float_of((uint32_t)b);
        if (what != ATOMIC_ADD)
            return b;
        return bits_of(canonical(shared ? x + y : flush(flush(x) + flush(y))));
    }
    if (op->vector == 1) {
        double x, y;
        memcpy(&x, &old, 8);
        memcpy(&y, &b, 8);
        x += y;
        memcpy(&b, &x, 8);
        return b;
    }
    unsigned shift = 64 - 8u * op->bytes;
    bool less = op->is_signed ? (int64_t)(b << shift) < (int64_t)(old << shift) : b < old;
    switch (what) {
    case ATOMIC_ADD: return old + b;
    case ATOMIC_MIN: return less ? b : old;
    case ATOMIC_MAX: return less ? old : b;
    case ATOMIC_INC: return old >= b ? 0 : old + 1;
    case ATOMIC_DEC: return !old || old > b ? b : old - 1;
    case ATOMIC_AND: return old & b;
    case ATOMIC_OR: return old | b;
    case ATOMIC_XOR: return old ^ b;
    case ATOMIC_EXCHANGE: return b;
    case ATOMIC_CAS: return old == b ? c : old;
    }
    return old;
}

static uint64_t atomic_apply(struct warp *w, const struct op *op, void *memory, uint64_t b,
                             uint64_t c, bool shared)
{
    if (op->bytes == 2) {
        uint16_t old = __atomic_load_n((uint16_t *)memory, __ATOMIC_RELAXED), new;
        do
            new = (uint16_t)atomic_result(op, old, b & 0xffff, c & 0xffff, shared);
        while (!__atomic_compare_exchange_n((uint16_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        if (new != old)
            note_effect(w);
        return old;
    }
    if (op->bytes == 4) {
        uint32_t old = __atomic_load_n((uint32_t *)memory, __ATOMIC_RELAXED), new;
        do
            new = (uint32_t)atomic_result(op, old, b, c, shared);
        while (!__atomic_compare_exchange_n((uint32_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        if (new != old)
            note_effect(w);
        return old;
    }
    uint64_t old = __atomic_load_n((uint64_t *)memory, __ATOMIC_RELAXED), new;
    do
        new = atomic_result(op, old, b, c, shared);
    while (!__atomic_compare_exchange_n((uint64_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    if (new != old)
        note_effect(w);
    return old;
}

// Whether a compare-and-swap finds something else than it compares with; what it finds.
static bool swap_fails(const struct op *op, const void *memory, uint64_t b, uint64_t *now)
{
    if (op->target != ATOMIC_CAS || op->vector)
        return false;
    uint64_t mask = op->bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * op->bytes) - 1;
    *now = op->bytes == 2   ? __atomic_load_n((const uint16_t *)memory, __ATOMIC_SEQ_CST)
           : op->bytes == 4 ? __atomic_load_n((const uint32_t *)memory, __ATOMIC_SEQ_CST)
                            : __atomic_load_n((const uint64_t *)memory, __ATOMIC_SEQ_CST);
    return *now != (b & mask);
}

// atom and red; lanes in order.
void atomic_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct cta *cta = w->cta;
    struct insn_counts *count = counts_of(w, op);
    uint64_t global[WARP];
    uint64_t offsets[WARP];
    uint32_t in_global = 0, in_shared = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t at = 0, b = 0, c = 0;
        memcpy(&at, r + op->a + (size_t)i * (op->wide_address ? 8 : 4), op->wide_address ? 8 : 4);
        at += (uint64_t)op->imm;
        if (!op->wide_address)
            at = (uint32_t)at;
        memcpy(&b, r + op->regs[1] + (size_t)i * op->width, op->bytes);
        if (op->regs[2] != NO_REGISTER)
            memcpy(&c, r + op->regs[2] + (size_t)i * op->width, op->bytes);
        void *memory = NULL;
        bool shared = op->space == SPACE_SHARED;
        if (op->space == SPACE_GENERIC && at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
            at -= SHARED_WINDOW;
            shared = true;
        }
        if (shared) {
            uint32_t offset = at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
            bool good = offset + (uint64_t)op->bytes <= cta->shared_bytes && !(offset % op->bytes);
            if (!good || (cta->written && !written_all(cta->written, offset, op->bytes)))
                fault_shared(w, op, i, offset, op->bytes, false);
            if (good) {
                memory = cta->shared + offset;
                race_shared(w, op, 1u << i, offset, op->bytes, RACE_WRITE, NULL);
            }
            offsets[i] = offset;
            in_shared |= 1u << i;
        } else if (at % op->bytes || !global_span(w, at, op->bytes) ||
                   !global_defined(w, at, op->bytes, false)) {
            fault_global(w, op, i, at, op->bytes, true);
        } else {
            memory = (void *)(uintptr_t)at;
            global_touch(w, at, op->bytes, false);
            global_touch(w, at, op->bytes, true);
            race_global(w, op, 1u << i, at, op->bytes, RACE_WRITE, NULL);
            global[i] = at;
            in_global |= 1u << i;
        }
        uint64_t old = 0;
        if (memory && !swap_fails(op, memory, b, &old)) { // that is a load, and tells nobody
            race_publish(w, op, i, at, shared);
            old = atomic_apply(w, op, memory, b, c, shared);
        }
        if (memory)
            race_observe(w, op, i, at, shared, true);
        if (op->regs[0] != NO_REGISTER)
            memcpy(r + op->regs[0] + (size_t)i * op->width, &old, op->width);
    }
    if (in_shared) {
        int least, wavefronts = shared_atomic_wavefronts(offsets, op->bytes, in_shared,
                                                         op->target == ATOMIC_CAS, &least);
        count->wavefronts += (uint64_t)wavefronts;
        count->conflicts += (uint64_t)(wavefronts - least);
        count->shared_bytes += (uint64_t)__builtin_popcount(in_shared) * op->bytes;
    }
    if (in_global) {
        count->sectors += (uint64_t)global_atomic_sectors(global, op->bytes, in_global);
        count->global_bytes += (uint64_t)__builtin_popcount(in_global) * op->bytes;
    }
}
