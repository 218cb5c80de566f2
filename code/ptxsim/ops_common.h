// ops_common.h: operations and helpers that are compiled once (ops_common.c, ops_tensor.c).
#ifndef PTXSIM_OPS_COMMON_H
#define PTXSIM_OPS_COMMON_H

#include "interp.h"

#include <string.h>

#define NO_REGISTER UINT32_MAX

// ---- Checks of addresses ------------------------------------------------------------------------

// Whether [address, address + bytes) lies in one live allocation.
bool global_span_slow(struct warp *w, uint64_t address, uint64_t bytes);
static inline bool global_span(struct warp *w, uint64_t address, uint64_t bytes)
{
    const struct allocation *last = &w->cta->worker->last;
    return (address >= last->base && address - last->base < last->size &&
            bytes <= last->size - (address - last->base)) ||
           global_span_slow(w, address, bytes);
}

// Notes the sectors touched by an access that global_span has just found good.
static inline void global_touch(struct warp *w, uint64_t address, uint32_t bytes, bool store)
{
    const struct allocation *a = &w->cta->worker->last;
    uint8_t *sectors = store ? a->sectors_written : a->sectors_read;
    uint64_t first = a->base / 32;
    for (uint64_t i = address / 32; i <= (address + bytes - 1) / 32; ++i)
        __atomic_store_n(&sectors[i - first], 1, __ATOMIC_RELAXED);
}

// Notes what a store defines; false for a load of what nothing has written.
static inline bool global_defined(struct warp *w, uint64_t address, uint64_t bytes, bool store)
{
    const struct allocation *a = &w->cta->worker->last;
    if (!a->defined || !w->cta->written)
        return true;
    uint8_t *defined = a->defined + (address - a->base);
    if (store)
        memset(defined, 1, bytes);
    return store || !memchr(defined, 0, bytes);
}

// The wavefronts of an access, counted. A loop comes by with the same pattern again and again,
// moved by whole 16 bytes: that turns the banks round and changes nothing.
static inline void count_wavefronts(struct warp *w, const struct op *op, const uint32_t at[WARP],
                                    uint32_t bytes, uint32_t mask, bool store)
{
    struct pattern *p = &w->cta->worker->patterns[op->insn];
    struct insn_counts *count = counts_of(w, op);
    uint32_t differs = (p->mask ^ mask) | (p->bytes ^ bytes) | (p->phase ^ (at[0] & 15));
    for (int i = 0; i < WARP; ++i)
        differs |= p->from[i] ^ (at[i] - at[0]);
    if (differs) {
        for (int i = 0; i < WARP; ++i)
            p->from[i] = at[i] - at[0];
        p->mask = mask;
        p->bytes = bytes;
        p->phase = at[0] & 15;
        p->wavefronts = store ? shared_store_wavefronts(at, (int)bytes, mask, &p->least)
                              : shared_wavefronts(at, (int)bytes, mask, &p->least);
    }
    count->wavefronts += (uint64_t)p->wavefronts;
    count->conflicts += (uint64_t)(p->wavefronts - p->least);
}

void fault_shared(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                  bool store);
void fault_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                  bool store);

// A lane's local memory or the kernel's parameters; NULL after a fault.
uint8_t *private_memory(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        bool store);

// Which bytes of shared memory have been written: a bit a byte.
static inline bool written_all(const uint8_t *written, uint32_t at, uint32_t bytes)
{
    if (bytes <= 4) // aligned to its size, so within a byte of the map
        return !(~(written[at >> 3] >> (at & 7)) & ((1u << bytes) - 1));
    for (uint32_t i = at >> 3; i < (at + bytes) >> 3; ++i)
        if (written[i] != 0xff)
            return false;
    return !((at + bytes) & 7) || !(~written[(at + bytes) >> 3] & ((1u << ((at + bytes) & 7)) - 1));
}

static inline void written_mark(uint8_t *written, uint32_t at, uint32_t bytes)
{
    if (bytes <= 4) {
        written[at >> 3] |= (uint8_t)(((1u << bytes) - 1) << (at & 7));
        return;
    }
    for (; bytes && (at & 7); ++at, --bytes)
        written[at >> 3] |= (uint8_t)(1u << (at & 7));
    for (; bytes >= 8; at += 8, bytes -= 8)
        written[at >> 3] = 0xff;
    for (; bytes; ++at, --bytes)
        written[at >> 3] |= (uint8_t)(1u << (at & 7));
}

// ---- Matrices (ops_tensor.c, ops_warp.h) --------------------------------------------------------

enum matrix_type {
    MATRIX_F16,
    MATRIX_BF16,
    MATRIX_TF32,
    MATRIX_E4M3,
    MATRIX_E5M2,
    MATRIX_S8,
    MATRIX_U8,
    MATRIX_F32,
    MATRIX_S32,
    MATRIX_F64
};

// A matrix in the registers of a warp. Lane 4 g + t holds in register i the elements
// (g + row[i], step t + column[i] + e) for e below `per`. A row of B is a column n of the product,
// so that the columns of both operands run along k.
struct matrix {
    enum matrix_type type;
    uint32_t regs[8];
    uint8_t count, distinct;  // registers; the ones that hold no copy of an earlier one
    uint8_t bytes, per, step; // of an element; elements a register
    uint8_t row[8], column[8];
};

struct mma {
    struct matrix a, b, c, d;
    int m, n, k;
    bool saturate; // integers: at the ends of s32 instead of wrapping
};

struct matrix_memory { // a load or a store of one wmma fragment
    struct matrix matrix;
    bool store, accumulator;
    bool transposed; // the matrix's rows are not contiguous in memory
    uint32_t stride; // register: elements between rows
};

struct tiles { // ldmatrix, stmatrix: 8x8 tiles of 16-bit elements
    uint32_t regs[4];
    int count;
    bool store, transposed;
};

op_fn wmma_move, tiles_move, movmatrix_op;

// ---- Conversions --------------------------------------------------------------------------------

enum number {
    NUMBER_U8,
    NUMBER_U16,
    NUMBER_U32,
    NUMBER_U64,
    NUMBER_S8,
    NUMBER_S16,
    NUMBER_S32,
    NUMBER_S64,
    NUMBER_F16,
    NUMBER_BF16,
    NUMBER_F32,
    NUMBER_F64,
    NUMBER_TF32,
    NUMBER_E4M3,
    NUMBER_E5M2
};
enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY };

struct conversion {
    enum number to, from;
    enum rounding rounding;
    bool to_integral;                 // .rni and friends
    bool saturate, finite, ftz, relu; // finite: .satfinite, the largest number for an overflow
    uint8_t to_width, from_width;     // of the registers
};

op_fn convert; // regs: a struct conversion
// Two at once: from a (the upper) and b in f32, or from both halves of a.
op_fn convert_pair;
op_fn rounded_op; // inner under the rounding mode `bytes`

// ---- Everything else ----------------------------------------------------------------------------

enum atomic {
    ATOMIC_ADD,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_INC,
    ATOMIC_DEC,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_EXCHANGE,
    ATOMIC_CAS
};
// target: enum atomic; is_signed, vector: 0 integer, 1 float, 2 f16x2, 3 bf16x2, 4 f16, 5 bf16;
// regs: destination or NO_REGISTER, operand, second operand.
op_fn atomic_op;
op_fn guarded_op; // inner for the lanes of the guard
op_fn carry_op;   // add.cc and relatives
op_fn vote_op, match_op, redux_op, activemask_op, special_op, elect_op;
op_fn nothing_op;
op_fn mov_b128_op, pack_b128_op, unpack_b128_op; // regs: the two halves, the lower first
op_fn warp_sync_op; // bar.warp.sync; b: the members
op_fn vprintf_op, assert_op; // regs: where the call's result and parameters lie

enum carry { CARRY_SUBTRACT = 1, CARRY_IN = 2, CARRY_OUT = 4 };
enum vote { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

// Special registers, in the order of special_names.
enum special {
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_NTID_X,
    SPECIAL_NTID_Y,
    SPECIAL_NTID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_NCTAID_X,
    SPECIAL_NCTAID_Y,
    SPECIAL_NCTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_WARPID,
    SPECIAL_NWARPID,
    SPECIAL_SMID,
    SPECIAL_NSMID,
    SPECIAL_GRIDID,
    SPECIAL_LANEMASK_EQ,
    SPECIAL_LANEMASK_LE,
    SPECIAL_LANEMASK_LT,
    SPECIAL_LANEMASK_GE,
    SPECIAL_LANEMASK_GT,
    SPECIAL_CLOCK,
    SPECIAL_CLOCK_HI,
    SPECIAL_CLOCK64,
    SPECIAL_GLOBALTIMER,
    SPECIAL_GLOBALTIMER_LO,
    SPECIAL_GLOBALTIMER_HI,
    SPECIAL_DYNAMIC_SMEM_SIZE,
    SPECIAL_TOTAL_SMEM_SIZE,
    SPECIAL_RESERVED_SMEM_BEGIN,
    SPECIAL_RESERVED_SMEM_END,
    SPECIAL_RESERVED_SMEM_CAP,
    SPECIAL_RESERVED_SMEM_0,
    SPECIAL_RESERVED_SMEM_1,
    SPECIAL_ENVREG1,
    SPECIAL_ENVREG2,
    SPECIALS
};
extern const char *const special_names[SPECIALS];

// ---- Control flow (exec.c) ----------------------------------------------------------------------

op_fn branch_op, exit_op, barrier_op, trap_op, call_op, call_end_op, return_op, switch_op;
op_fn alloca_op, stacksave_op, stackrestore_op;
// A plain operation for some of the lanes: the others keep what the destination held.
void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask);

enum barrier_kind { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR };
struct barrier_operands {
    enum barrier_kind kind;
    bool aligned, has_count, negated;
    uint32_t id, count, input, output; // registers
};

struct call_operands {
    int callee; // -1: the function whose address is in the register `address`
    uint32_t address;
    uint32_t frame_bytes; // the callee's frame and local memory begin after the caller's own
    uint64_t local_bytes;
    int moves; // arguments (call_op) or the returned value (call_end_op)
    struct call_move {
        uint64_t mine, its; // offsets in the caller's and the callee's local memory
        uint64_t bytes;
    } * move;
};

struct switch_operands { // brx.idx
    uint32_t index;      // register
    int count;
    int *targets; // blocks
};

// Fixed places in every frame: where the thread's local memory of this frame begins (64 bits a
// lane); the block to return to and the caller's frame (32 bits); alloca's memory at the call (64).
enum {
    FRAME_LOCAL = 0,
    FRAME_RETURN = 256,
    FRAME_CALLER = 384,
    FRAME_STACK = 512,
    FRAME_FIXED = 768
};

#endif
