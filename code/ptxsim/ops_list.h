// ops_list.h: every lane-wise operation, by its PTX name with '_' for '.', as OP(name, form, …).
//
// The forms (ops_math.h) are UNARY(result, a, expression), BINARY, TERNARY, COMPARE (a predicate),
// SELECT and CUSTOM (written out; result bytes a lane plus one, 0: masks its lanes itself). The
// expression sees a, b and c, converted to the types given. No include guard: included by interp.h
// for the ids, and by each instruction set's ops file for the functions.

// ---- Integers -----------------------------------------------------------------------------------
// Types wrap in unsigned arithmetic whatever the PTX type says.

#define WRAP_UNARY(name, e) \
    OP(name##_s16, UNARY, u16, u16, e) OP(name##_s32, UNARY, u32, u32, e) OP(name##_s64, UNARY, u64, u64, e)
#define WRAP_BINARY(name, e) \
    OP(name##_u16, BINARY, u16, u16, u16, e) OP(name##_s16, BINARY, u16, u16, u16, e) \
    OP(name##_u32, BINARY, u32, u32, u32, e) OP(name##_s32, BINARY, u32, u32, u32, e) \
    OP(name##_u64, BINARY, u64, u64, u64, e) OP(name##_s64, BINARY, u64, u64, u64, e)
#define WRAP_TERNARY(name, e) \
    OP(name##_u16, TERNARY, u16, u16, u16, u16, e) OP(name##_s16, TERNARY, u16, u16, u16, u16, e) \
    OP(name##_u32, TERNARY, u32, u32, u32, u32, e) OP(name##_s32, TERNARY, u32, u32, u32, u32, e) \
    OP(name##_u64, TERNARY, u64, u64, u64, u64, e) OP(name##_s64, TERNARY, u64, u64, u64, u64, e)
#define TYPED_BINARY(name, e) \
    OP(name##_u16, BINARY, u16, u16, u16, e) OP(name##_s16, BINARY, s16, s16, s16, e) \
    OP(name##_u32, BINARY, u32, u32, u32, e) OP(name##_s32, BINARY, s32, s32, s32, e) \
    OP(name##_u64, BINARY, u64, u64, u64, e) OP(name##_s64, BINARY, s64, s64, s64, e)
#define BITS_BINARY(name, e) \
    OP(name##_b16, BINARY, u16, u16, u16, e) OP(name##_b32, BINARY, u32, u32, u32, e) \
    OP(name##_b64, BINARY, u64, u64, u64, e)

WRAP_BINARY(add, a + b)
WRAP_BINARY(sub, a - b)
WRAP_BINARY(mul_lo, 1u * a * b)
WRAP_TERNARY(mad_lo, 1u * a * b + c)
WRAP_UNARY(neg, 0u - a)
OP(add_sat_s32, BINARY, s32, s32, s32, saturate_s32((s64)a + b))
OP(sub_sat_s32, BINARY, s32, s32, s32, saturate_s32((s64)a - b))
OP(mul_hi_u16, BINARY, u16, u16, u16, ((u32)a * b) >> 16)
OP(mul_hi_s16, BINARY, s16, s16, s16, (a * b) >> 16)
OP(mul_hi_u32, BINARY, u32, u32, u32, ((u64)a * b) >> 32)
OP(mul_hi_s32, BINARY, s32, s32, s32, ((s64)a * b) >> 32)
OP(mul_hi_u64, BINARY, u64, u64, u64, ((unsigned __int128)a * b) >> 64)
OP(mul_hi_s64, BINARY, s64, s64, s64, ((__int128)a * b) >> 64)
OP(mad_hi_u16, TERNARY, u16, u16, u16, u16, (((u32)a * b) >> 16) + c)
OP(mad_hi_s16, TERNARY, u16, s16, s16, u16, ((a * b) >> 16) + c)
OP(mad_hi_u32, TERNARY, u32, u32, u32, u32, (((u64)a * b) >> 32) + c)
OP(mad_hi_s32, TERNARY, u32, s32, s32, u32, (u32)(((s64)a * b) >> 32) + c)
OP(mad_hi_u64, TERNARY, u64, u64, u64, u64, (u64)(((unsigned __int128)a * b) >> 64) + c)
OP(mad_hi_s64, TERNARY, u64, s64, s64, u64, (u64)(((__int128)a * b) >> 64) + c)
OP(mad_hi_sat_s32, TERNARY, s32, s32, s32, s32, saturate_s32((((s64)a * b) >> 32) + c))
OP(mul_wide_u16, BINARY, u32, u16, u16, (u32)a * b)
OP(mul_wide_s16, BINARY, s32, s16, s16, a * b)
OP(mul_wide_u32, BINARY, u64, u32, u32, (u64)a * b)
OP(mul_wide_s32, BINARY, s64, s32, s32, (s64)a * b)
OP(mad_wide_u16, TERNARY, u32, u16, u16, u32, (u32)a * b + c)
OP(mad_wide_s16, TERNARY, u32, s16, s16, u32, (u32)(a * b) + c)
OP(mad_wide_u32, TERNARY, u64, u32, u32, u64, (u64)a * b + c)
OP(mad_wide_s32, TERNARY, u64, s32, s32, u64, (u64)((s64)a * b) + c)
OP(mul24_lo_u32, BINARY, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff))
OP(mul24_lo_s32, BINARY, u32, u32, u32, low24(a) * low24(b))
OP(mad24_lo_u32, TERNARY, u32, u32, u32, u32, (a & 0xffffff) * (b & 0xffffff) + c)
OP(mad24_lo_s32, TERNARY, u32, u32, u32, u32, low24(a) * low24(b) + c)
OP(sad_u16, TERNARY, u16, u16, u16, u16, c + (a > b ? a - b : b - a))
OP(sad_s16, TERNARY, u16, s16, s16, u16, c + (a > b ? a - b : b - a))
OP(sad_u32, TERNARY, u32, u32, u32, u32, c + (a > b ? a - b : b - a))
OP(sad_s32, TERNARY, u32, s32, s32, u32, c + (a > b ? (u32)a - (u32)b : (u32)b - (u32)a))
OP(sad_u64, TERNARY, u64, u64, u64, u64, c + (a > b ? a - b : b - a))
OP(sad_s64, TERNARY, u64, s64, s64, u64, c + (a > b ? (u64)a - (u64)b : (u64)b - (u64)a))
// Division by zero is unspecified in PTX; this is what the machine's own routine gives.
OP(div_u16, BINARY, u16, u16, u16, b ? a / b : 0xffff)
OP(div_s16, BINARY, s16, s16, s16, b ? a / b : -1)
OP(div_u32, BINARY, u32, u32, u32, b ? a / b : ~0u)
OP(div_s32, BINARY, u32, s32, s32, !b ? ~0u : b == -1 ? 0u - (u32)a : (u32)(a / b))
OP(div_u64, BINARY, u64, u64, u64, b ? a / b : ~(u64)0)
OP(div_s64, BINARY, u64, s64, s64, !b ? ~(u64)0 : b == -1 ? 0 - (u64)a : (u64)(a / b))
// A remainder by zero gives all ones, too.
OP(rem_u16, BINARY, u16, u16, u16, b ? a % b : 0xffff)
OP(rem_s16, BINARY, s16, s16, s16, b ? a % b : -1)
OP(rem_u32, BINARY, u32, u32, u32, b ? a % b : ~0u)
OP(rem_s32, BINARY, s32, s32, s32, !b ? -1 : b == -1 ? 0 : a % b)
OP(rem_u64, BINARY, u64, u64, u64, b ? a % b : ~(u64)0)
OP(rem_s64, BINARY, s64, s64, s64, !b ? -1 : b == -1 ? 0 : a % b)
OP(abs_s16, UNARY, u16, s16, a < 0 ? -a : a)
OP(abs_s32, UNARY, u32, s32, a < 0 ? 0u - (u32)a : (u32)a)
OP(abs_s64, UNARY, u64, s64, a < 0 ? 0 - (u64)a : (u64)a)
TYPED_BINARY(min, a < b ? a : b)
TYPED_BINARY(max, a > b ? a : b)
OP(min_relu_s32, BINARY, s32, s32, s32, a < b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b))
OP(max_relu_s32, BINARY, s32, s32, s32, a > b ? (a < 0 ? 0 : a) : (b < 0 ? 0 : b))
OP(min_u16x2, BINARY, u32, u32, u32, halves2(min, a, b))
OP(max_u16x2, BINARY, u32, u32, u32, halves2(max, a, b))
OP(min_s16x2, BINARY, u32, u32, u32, signed_halves2(min, a, b))
OP(max_s16x2, BINARY, u32, u32, u32, signed_halves2(max, a, b))
OP(add_u16x2, BINARY, u32, u32, u32, (((a & 0xffff) + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16)
OP(add_s16x2, BINARY, u32, u32, u32, (((a & 0xffff) + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16)

BITS_BINARY(and, a & b)
BITS_BINARY(or, a | b)
BITS_BINARY(xor, a ^ b)
OP(not_b16, UNARY, u16, u16, ~a)
OP(not_b32, UNARY, u32, u32, ~a)
OP(not_b64, UNARY, u64, u64, ~a)
OP(cnot_b16, UNARY, u16, u16, !a)
OP(cnot_b32, UNARY, u32, u32, !a)
OP(cnot_b64, UNARY, u64, u64, !a)
// Shift amounts past the width are clamped to it.
OP(shl_b16, BINARY, u16, u16, u32, b > 15 ? 0 : a << b)
OP(shl_b32, BINARY, u32, u32, u32, b > 31 ? 0 : a << (b & 31))
OP(shl_b64, BINARY, u64, u64, u32, b > 63 ? 0 : a << (b & 63))
OP(shr_u16, BINARY, u16, u16, u32, b > 15 ? 0 : a >> b)
OP(shr_u32, BINARY, u32, u32, u32, b > 31 ? 0 : a >> (b & 31))
OP(shr_u64, BINARY, u64, u64, u32, b > 63 ? 0 : a >> (b & 63))
OP(shr_s16, BINARY, s16, s16, u32, a >> (b > 15 ? 15 : b))
OP(shr_s32, BINARY, s32, s32, u32, a >> (b > 31 ? 31 : b))
OP(shr_s64, BINARY, s64, s64, u32, a >> (b > 63 ? 63 : b))
// Funnel shifts of b:a (b the upper half) by c.
OP(shf_l_wrap_b32, TERNARY, u32, u32, u32, u32, (((u64)b << 32 | a) << (c & 31)) >> 32)
OP(shf_r_wrap_b32, TERNARY, u32, u32, u32, u32, ((u64)b << 32 | a) >> (c & 31))
OP(shf_l_clamp_b32, TERNARY, u32, u32, u32, u32, (((u64)b << 32 | a) << (c > 32 ? 32 : c)) >> 32)
OP(shf_r_clamp_b32, TERNARY, u32, u32, u32, u32, ((u64)b << 32 | a) >> (c > 32 ? 32 : c))
OP(popc_b32, UNARY, u32, u32, __builtin_popcount(a))
OP(popc_b64, UNARY, u32, u64, __builtin_popcountll(a))
OP(clz_b32, UNARY, u32, u32, a ? __builtin_clz(a) : 32)
OP(clz_b64, UNARY, u32, u64, a ? __builtin_clzll(a) : 64)
OP(brev_b32, UNARY, u32, u32, reverse32(a))
OP(brev_b64, UNARY, u64, u64, (u64)reverse32((u32)a) << 32 | reverse32((u32)(a >> 32)))
OP(bfind_u32, UNARY, u32, u32, top_bit(a))
OP(bfind_s32, UNARY, u32, s32, top_bit((u32)(a < 0 ? ~a : a)))
OP(bfind_u64, UNARY, u32, u64, top_bit(a))
OP(bfind_s64, UNARY, u32, s64, top_bit((u64)(a < 0 ? ~a : a)))
OP(bfind_shiftamt_u32, UNARY, u32, u32, a ? 31 - top_bit(a) : ~0u)
OP(bfind_shiftamt_s32, UNARY, u32, s32, a && ~a ? 31 - top_bit((u32)(a < 0 ? ~a : a)) : ~0u)
OP(bfind_shiftamt_u64, UNARY, u32, u64, a ? 63 - top_bit(a) : ~0u)
OP(bfind_shiftamt_s64, UNARY, u32, s64, a && ~a ? 63 - top_bit((u64)(a < 0 ? ~a : a)) : ~0u)
OP(bfe_u32, TERNARY, u32, u32, u32, u32, extract(a, b, c, 32, false))
OP(bfe_s32, TERNARY, u32, s32, u32, u32, extract((u64)(s64)a, b, c, 32, true))
OP(bfe_u64, TERNARY, u64, u64, u32, u32, b > 63 ? 0 : extract(a, b, c > 64 ? 64 : c, 64, false))
OP(bfe_s64, TERNARY, u64, u64, u32, u32, extract(a, b > 63 ? 64 : b, c > 64 ? 64 : c, 64, true))
OP(bfi_b32, CUSTOM, 5)
OP(bfi_b64, CUSTOM, 9)
OP(bmsk_clamp_b32, BINARY, u32, u32, u32, bit_mask(a, b))
OP(bmsk_wrap_b32, BINARY, u32, u32, u32, bit_mask(a & 31, b & 31))
OP(szext_clamp_u32, BINARY, u32, u32, u32, b > 31 ? a : a & ((1u << b) - 1))
OP(szext_clamp_s32, BINARY, u32, u32, u32, !b ? 0 : b > 31 ? a : (u32)((s32)(a << (32 - b)) >> (32 - b)))
OP(szext_wrap_u32, BINARY, u32, u32, u32, a & ((1u << (b & 31)) - 1))
OP(szext_wrap_s32, BINARY, u32, u32, u32, b & 31 ? (u32)((s32)(a << (32 - (b & 31))) >> (32 - (b & 31))) : 0)
OP(lop3_b32, CUSTOM, 5)
OP(fns_b32, TERNARY, u32, u32, u32, s32, find_nth_set(a, b, c))
OP(prmt_b32, TERNARY, u32, u32, u32, u32, permute_bytes(a, b, c))
OP(prmt_b32_f4e, TERNARY, u32, u32, u32, u32, (u32)(((u64)b << 32 | a) >> 8 * (c & 3)))
OP(prmt_b32_b4e, TERNARY, u32, u32, u32, u32, permute_bytes(a, b, backward4(c & 3)))
OP(prmt_b32_rc8, TERNARY, u32, u32, u32, u32, (a >> 8 * (c & 3) & 0xff) * 0x01010101u)
OP(prmt_b32_ecl, TERNARY, u32, u32, u32, u32, permute_bytes(a, b, edge_left(c & 3)))
OP(prmt_b32_ecr, TERNARY, u32, u32, u32, u32, permute_bytes(a, b, edge_right(c & 3)))
OP(prmt_b32_rc16, TERNARY, u32, u32, u32, u32, (a >> 16 * (c & 1) & 0xffff) * 0x00010001u)
OP(dp4a_u32_u32, TERNARY, u32, u32, u32, u32, c + dot4(a, b, false, false))
OP(dp4a_s32_u32, TERNARY, u32, u32, u32, u32, c + dot4(a, b, true, false))
OP(dp4a_u32_s32, TERNARY, u32, u32, u32, u32, c + dot4(a, b, false, true))
OP(dp4a_s32_s32, TERNARY, u32, u32, u32, u32, c + dot4(a, b, true, true))
OP(dp2a_lo_u32_u32, TERNARY, u32, u32, u32, u32, c + dot2(a, b, false, false))
OP(dp2a_lo_s32_u32, TERNARY, u32, u32, u32, u32, c + dot2(a, b, true, false))
OP(dp2a_lo_u32_s32, TERNARY, u32, u32, u32, u32, c + dot2(a, b, false, true))
OP(dp2a_lo_s32_s32, TERNARY, u32, u32, u32, u32, c + dot2(a, b, true, true))
OP(dp2a_hi_u32_u32, TERNARY, u32, u32, u32, u32, c + dot2(a, b >> 16, false, false))
OP(dp2a_hi_s32_u32, TERNARY, u32, u32, u32, u32, c + dot2(a, b >> 16, true, false))
OP(dp2a_hi_u32_s32, TERNARY, u32, u32, u32, u32, c + dot2(a, b >> 16, false, true))
OP(dp2a_hi_s32_s32, TERNARY, u32, u32, u32, u32, c + dot2(a, b >> 16, true, true))

// ---- Moves, packing, selection ------------------------------------------------------------------

OP(mov_b16, UNARY, u16, u16, a)
OP(mov_b32, UNARY, u32, u32, a)
OP(mov_b64, UNARY, u64, u64, a)
OP(pack_2x16, BINARY, u32, u16, u16, a | (u32)b << 16)
OP(pack_2x32, BINARY, u64, u32, u32, a | (u64)b << 32)
OP(pack_4x16, CUSTOM, 9)
OP(pack_4x8, CUSTOM, 5)
OP(pack_2x8, BINARY, u16, u16, u16, (a & 0xff) | b << 8)
OP(part_16_of_32, CUSTOM, 3)
OP(part_16_of_64, CUSTOM, 3)
OP(part_32_of_64, CUSTOM, 5)
OP(part_8_of_32, CUSTOM, 3)
OP(part_8_of_16, CUSTOM, 3)
OP(selp_b16, SELECT, u16)
OP(selp_b32, SELECT, u32)
OP(selp_b64, SELECT, u64)
OP(slct_b16_s32, TERNARY, u16, u16, u16, s32, c >= 0 ? a : b)
OP(slct_b32_s32, TERNARY, u32, u32, u32, s32, c >= 0 ? a : b)
OP(slct_b64_s32, TERNARY, u64, u64, u64, s32, c >= 0 ? a : b)
OP(slct_b16_f32, TERNARY, u16, u16, u16, f32, c >= 0 ? a : b)
OP(slct_b32_f32, TERNARY, u32, u32, u32, f32, c >= 0 ? a : b)
OP(slct_b64_f32, TERNARY, u64, u64, u64, f32, c >= 0 ? a : b)
OP(window_of, CUSTOM, 9)   // a + imm where a is not null for a real pointer; cvta

// ---- Predicates: one bit a lane -----------------------------------------------------------------

OP(mov_pred, CUSTOM, 1)
OP(and_pred, CUSTOM, 1)
OP(or_pred, CUSTOM, 1)
OP(xor_pred, CUSTOM, 1)
OP(not_pred, CUSTOM, 1)

#define COMPARES(type) \
    OP(setp_eq_##type, COMPARE, type, a == b) OP(setp_ne_##type, COMPARE, type, a != b) \
    OP(setp_lt_##type, COMPARE, type, a < b) OP(setp_le_##type, COMPARE, type, a <= b) \
    OP(setp_gt_##type, COMPARE, type, a > b) OP(setp_ge_##type, COMPARE, type, a >= b)
// Float `ne` is ordered; the forms with u are true when either is NaN.
#define FLOAT_COMPARES(name, type, f) \
    OP(setp_eq_##name, COMPARE, type, f(a) == f(b)) \
    OP(setp_ne_##name, COMPARE, type, (f(a) < f(b)) | (f(a) > f(b))) \
    OP(setp_lt_##name, COMPARE, type, f(a) < f(b)) OP(setp_le_##name, COMPARE, type, f(a) <= f(b)) \
    OP(setp_gt_##name, COMPARE, type, f(a) > f(b)) OP(setp_ge_##name, COMPARE, type, f(a) >= f(b)) \
    OP(setp_equ_##name, COMPARE, type, !((f(a) < f(b)) | (f(a) > f(b)))) \
    OP(setp_neu_##name, COMPARE, type, !(f(a) == f(b))) \
    OP(setp_ltu_##name, COMPARE, type, !(f(a) >= f(b))) OP(setp_leu_##name, COMPARE, type, !(f(a) > f(b))) \
    OP(setp_gtu_##name, COMPARE, type, !(f(a) <= f(b))) OP(setp_geu_##name, COMPARE, type, !(f(a) < f(b))) \
    OP(setp_num_##name, COMPARE, type, (a == a) & (b == b)) \
    OP(setp_nan_##name, COMPARE, type, (a != a) | (b != b))
COMPARES(u16)
COMPARES(s16)
COMPARES(u32)
COMPARES(s32)
COMPARES(u64)
COMPARES(s64)
FLOAT_COMPARES(f32, f32, )
FLOAT_COMPARES(ftz_f32, f32, flush)
FLOAT_COMPARES(f64, f64, )
OP(testp_finite_f32, COMPARE, u32, (a & 0x7fffffff) < 0x7f800000)
OP(testp_infinite_f32, COMPARE, u32, (a & 0x7fffffff) == 0x7f800000)
OP(testp_number_f32, COMPARE, u32, (a & 0x7fffffff) <= 0x7f800000)
OP(testp_notanumber_f32, COMPARE, u32, (a & 0x7fffffff) > 0x7f800000)
// Zero counts as normal.
OP(testp_normal_f32, COMPARE, u32, !(a << 1) | ((a & 0x7fffffff) - 0x800000 < 0x7f000000))
OP(testp_subnormal_f32, COMPARE, u32, (a & 0x7fffffff) - 1 < 0x7fffff)
OP(testp_finite_f64, COMPARE, u64, (a << 1) < (u64)0x7ff << 53)
OP(testp_infinite_f64, COMPARE, u64, (a << 1) == (u64)0x7ff << 53)
OP(testp_number_f64, COMPARE, u64, (a << 1) <= (u64)0x7ff << 53)
OP(testp_notanumber_f64, COMPARE, u64, (a << 1) > (u64)0x7ff << 53)
OP(testp_normal_f64, COMPARE, u64, !(a << 1) | ((a << 1) - ((u64)1 << 53) < (u64)0x7fe << 53))
OP(testp_subnormal_f64, COMPARE, u64, (a << 1) - 2 < ((u64)1 << 53) - 2)

// ---- Floats -------------------------------------------------------------------------------------
// f32 NaN results are the canonical 0x7fffffff, as the machine's. ftz flushes operands and result.

#define F32_UNARY(name, e) \
    OP(name##_f32, UNARY, f32, f32, canonical(e)) \
    OP(name##_ftz_f32, UNARY, f32, f32, (a = flush(a), canonical(flush(e))))
#define F32_BINARY(name, e) \
    OP(name##_f32, BINARY, f32, f32, f32, canonical(e)) \
    OP(name##_ftz_f32, BINARY, f32, f32, f32, (a = flush(a), b = flush(b), canonical(flush(e))))
#define F32_TERNARY(name, e) \
    OP(name##_f32, TERNARY, f32, f32, f32, f32, canonical(e)) \
    OP(name##_ftz_f32, TERNARY, f32, f32, f32, f32, \
       (a = flush(a), b = flush(b), c = flush(c), canonical(flush(e))))

F32_BINARY(add, a + b)
F32_BINARY(sub, a - b)
F32_BINARY(mul, a * b)
F32_TERNARY(fma, fused_f32(a, b, c))
F32_BINARY(div, a / b)
F32_BINARY(div_full, a / b)
// The machine multiplies by the reciprocal, which is flushed to zero past 2^126.
F32_BINARY(div_approx, fabsf(b) > 0x1p126f && fabsf(b) < INFINITY ? a * copysignf(0.0f, b) : a / b)
F32_UNARY(rcp, 1.0f / a)
F32_UNARY(rcp_approx, 1.0f / a)
F32_UNARY(sqrt, sqrtf(a))
F32_UNARY(sqrt_approx, sqrtf(a))
// Approximate functions: computed in f64 and rounded once, so within half an ulp and a hair of the
// exact value; the manual allows the machine 2 ulp or 2^-20.
F32_UNARY(rsqrt_approx, (f32)(1.0 / sqrt((f64)a)))
F32_UNARY(ex2_approx, exp2_f32(a))
F32_UNARY(lg2_approx, (f32)log2((f64)a))
// The machine first turns the angle into revolutions, rounded to f32.
F32_UNARY(sin_approx, (f32)sin(angle_of(a)))
F32_UNARY(cos_approx, (f32)cos(angle_of(a)))
F32_UNARY(tanh_approx, (f32)tanh((f64)a))
F32_BINARY(min, min_f32(a, b))
F32_BINARY(max, max_f32(a, b))
F32_BINARY(min_NaN, a != a || b != b ? a + b : min_f32(a, b))
F32_BINARY(max_NaN, a != a || b != b ? a + b : max_f32(a, b))
F32_UNARY(abs, float_of(bits_of(a) & 0x7fffffff))
F32_UNARY(neg, float_of(bits_of(a) ^ 0x80000000u))
OP(sat_f32, UNARY, f32, f32, a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f) // NaN gives 0
OP(relu_f32, UNARY, f32, f32, a != a ? a : a > 0.0f ? a : 0.0f)
OP(copysign_f32, BINARY, u32, u32, u32, (a & 0x80000000u) | (b & 0x7fffffff))
OP(add_f64, BINARY, f64, f64, f64, a + b)
OP(sub_f64, BINARY, f64, f64, f64, a - b)
OP(mul_f64, BINARY, f64, f64, f64, a * b)
OP(fma_f64, TERNARY, f64, f64, f64, f64, fused_f64(a, b, c))
OP(div_f64, BINARY, f64, f64, f64, a / b)
OP(rcp_f64, UNARY, f64, f64, 1.0 / a)
OP(sqrt_f64, UNARY, f64, f64, sqrt(a))
OP(rcp_approx_ftz_f64, UNARY, f64, f64, upper_half(1.0 / upper_half(a)))
OP(rsqrt_approx_f64, UNARY, f64, f64, 1.0 / sqrt(a))
OP(rsqrt_approx_ftz_f64, UNARY, f64, f64, upper_half(1.0 / sqrt(upper_half(a))))
OP(min_f64, BINARY, f64, f64, f64, min_f64(a, b))
OP(max_f64, BINARY, f64, f64, f64, max_f64(a, b))
// An f64 NaN keeps its sign and payload.
OP(abs_f64, UNARY, u64, u64, a << 1 > (u64)0x7ff << 53 ? a | (u64)1 << 51 : a & ~((u64)1 << 63))
OP(neg_f64, UNARY, u64, u64, a << 1 > (u64)0x7ff << 53 ? a | (u64)1 << 51 : a ^ (u64)1 << 63)
OP(copysign_f64, BINARY, u64, u64, u64, (a & (u64)1 << 63) | (b & ~((u64)1 << 63)))

// ---- Conversions with a path of their own; every other cvt goes through convert (ops_common.c) --

OP(cvt_u16_u32, UNARY, u16, u32, a)
OP(cvt_u32_u16, UNARY, u32, u16, a)
OP(cvt_s32_s16, UNARY, s32, s16, a)
OP(cvt_u32_u64, UNARY, u32, u64, a)
OP(cvt_u64_u32, UNARY, u64, u32, a)
OP(cvt_s64_s32, UNARY, s64, s32, a)
OP(cvt_u64_u16, UNARY, u64, u16, a)
OP(cvt_s64_s16, UNARY, s64, s16, a)
OP(cvt_rn_f32_s32, UNARY, f32, s32, a)
OP(cvt_rn_f32_u32, UNARY, f32, u32, a)
OP(cvt_rn_f32_u16, UNARY, f32, u16, a)
OP(cvt_rn_f32_s16, UNARY, f32, s16, a)
OP(cvt_rn_f64_s32, UNARY, f64, s32, a)
OP(cvt_rn_f64_u32, UNARY, f64, u32, a)
OP(cvt_rzi_s32_f32, UNARY, s32, f32, to_s32(a))
OP(cvt_rni_s32_f32, UNARY, s32, f32, to_s32(rintf(a)))
OP(cvt_rmi_f32_f32, UNARY, f32, f32, canonical(floorf(a)))
OP(cvt_rpi_f32_f32, UNARY, f32, f32, canonical(ceilf(a)))
OP(cvt_rzi_f32_f32, UNARY, f32, f32, canonical(truncf(a)))
OP(cvt_rni_f32_f32, UNARY, f32, f32, canonical(rintf(a)))
OP(cvt_f64_f32, UNARY, f64, f32, a)
OP(cvt_rn_f32_f64, UNARY, f32, f64, a) // a NaN keeps what fits of its payload
OP(cvt_f32_f16, CUSTOM, 5)
OP(cvt_rn_f16_f32, UNARY, u16, f32, f16_of(a))
OP(cvt_rn_f16x2_f32, BINARY, u32, f32, f32, (u32)f16_of(a) << 16 | f16_of(b))
OP(cvt_f32_bf16, UNARY, u32, u16, (u32)a << 16)
OP(cvt_rn_bf16_f32, UNARY, u16, f32, bf16_of(a))
OP(cvt_rn_bf16x2_f32, BINARY, u32, f32, f32, (u32)bf16_of(a) << 16 | bf16_of(b))
OP(cvt_rn_f16x2_e4m3x2, UNARY, u32, u16, e4m3_pair(a))
OP(cvt_rn_f16x2_e5m2x2, UNARY, u32, u16, e5m2_pair(a))
OP(cvt_rn_satfinite_e4m3x2_f32, BINARY, u16, f32, f32, (u32)e4m3_of(a) << 8 | e4m3_of(b))
OP(cvt_rn_satfinite_e5m2x2_f32, BINARY, u16, f32, f32, (u32)e5m2_of(a) << 8 | e5m2_of(b))
OP(cvt_rn_satfinite_e4m3x2_f16x2, UNARY, u16, u32, e4m3_of_halves(a))
OP(cvt_rn_satfinite_e5m2x2_f16x2, UNARY, u16, u32, e5m2_of_halves(a))

// ---- Half precision: in f32 (products and sums exact enough for one rounding), fma to odd ------

#define HALVES(name, count, e) \
    OP(name##_f16, HALF, 1, f16, count, e) OP(name##_f16x2, HALF, 2, f16, count, e) \
    OP(name##_bf16, HALF, 1, bf16, count, e) OP(name##_bf16x2, HALF, 2, bf16, count, e)
HALVES(add, 2, a + b)
HALVES(sub, 2, a - b)
HALVES(mul, 2, a * b)
HALVES(fma, 3, fused_odd(a, b, c))
HALVES(fma_relu, 3, relu(fused_odd(a, b, c)))
HALVES(min, 2, min_f32(a, b))
HALVES(max, 2, max_f32(a, b))
HALVES(min_NaN, 2, a != a || b != b ? a + b : min_f32(a, b))
HALVES(max_NaN, 2, a != a || b != b ? a + b : max_f32(a, b))
HALVES(sat, 1, a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f)
OP(ex2_approx_f16, HALF, 1, f16, 1, exp2_f32(a))
OP(ex2_approx_f16x2, HALF, 2, f16, 1, exp2_f32(a))
OP(ex2_approx_ftz_bf16, HALF, 1, bf16, 1, (a = flush(a), flush(exp2_f32(a))))
OP(ex2_approx_ftz_bf16x2, HALF, 2, bf16, 1, (a = flush(a), flush(exp2_f32(a))))
HALVES(tanh_approx, 1, (f32)tanh((f64)a))
HALVES(abs, 1, a < 0 ? -a : a + 0.0f)
HALVES(neg, 1, -a)
// f16 alone has .ftz: operands and the rounded result.
#define F16_FTZ(name, count, e) \
    OP(name##_ftz_f16, HALF, 1, f16, count, (a = flush_f16(a), b = flush_f16(b), c = flush_f16(c), round_flush_f16(e))) \
    OP(name##_ftz_f16x2, HALF, 2, f16, count, (a = flush_f16(a), b = flush_f16(b), c = flush_f16(c), round_flush_f16(e)))
F16_FTZ(add, 2, a + b)
F16_FTZ(sub, 2, a - b)
F16_FTZ(mul, 2, a * b)
F16_FTZ(fma, 3, fused_odd(a, b, c))
F16_FTZ(fma_relu, 3, relu(fused_odd(a, b, c)))
F16_FTZ(min, 2, min_f32(a, b))
F16_FTZ(max, 2, max_f32(a, b))
F16_FTZ(min_NaN, 2, a != a || b != b ? a + b : min_f32(a, b))
F16_FTZ(max_NaN, 2, a != a || b != b ? a + b : max_f32(a, b))
F16_FTZ(abs, 1, a < 0 ? -a : a + 0.0f)
F16_FTZ(neg, 1, -a)

// ---- Memory: by address space and bytes a lane --------------------------------------------------

#define BY_SIZE(name) \
    OP(name##_1, CUSTOM, 0) OP(name##_2, CUSTOM, 0) OP(name##_4, CUSTOM, 0) OP(name##_8, CUSTOM, 0) \
    OP(name##_16, CUSTOM, 0)
BY_SIZE(load_shared)
BY_SIZE(store_shared)
BY_SIZE(load_global)
BY_SIZE(store_global)
OP(load_any, CUSTOM, 0)
OP(store_any, CUSTOM, 0)

// ---- Between lanes, and matrices ----------------------------------------------------------------

OP(shfl, CUSTOM, 0)
OP(mma, CUSTOM, 0)

#undef WRAP_UNARY
#undef WRAP_BINARY
#undef WRAP_TERNARY
#undef TYPED_BINARY
#undef BITS_BINARY
#undef COMPARES
#undef FLOAT_COMPARES
#undef F32_UNARY
#undef F32_BINARY
#undef F32_TERNARY
#undef HALVES
#undef F16_FTZ
#undef BY_SIZE
