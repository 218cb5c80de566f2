// ops.h: the operations, and what each takes: decode/ emits pointers to them, exec/ calls them. An
// operation is a function on 32 lanes (op_fn, program.h). Those that operations.def lists are
// compiled once for each instruction set of the host (isa/), the others once.
//
// Each declaration says which fields of struct op its operation takes; d, a, b and c are places in
// the frame unless it says otherwise.
#ifndef PTXSIM_OPS_H
#define PTXSIM_OPS_H

#include "ptxsim/races/races.h"

#include <string.h>

#define NO_REGISTER UINT32_MAX

// ---- Lane-wise operations (operations.def) ------------------------------------------------------

enum op_id {
#define OP(name, ...) OP_##name,
#include "operations.def"
#undef OP
    OP_COUNT
};

struct wgmma;
// Checks and notes an access of global memory by all lanes, one after the other from `at`, `size` bytes
// each; and stores `lanes` there, as race_global does; NULL: a read. False where it is to be checked lane
// by lane; what has been noted by then is noted again.
typedef bool race_run_fn(struct warp *w, const struct op *op, uint64_t at, uint32_t size,
                         const uint8_t *lanes);
struct op_set {
    const char *isa;
    void (*wgmma)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
    race_run_fn *race_run_global;
    op_fn *run[OP_COUNT];
};
extern const struct op_set ops_base, ops_avx2, ops_avx512;
const struct op_set *
ops_choose(void); // the best this CPU has; PTXSIM_ISA=base|avx2|avx512 overrides

// ---- Matrices -----------------------------------------------------------------------------------

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
    MATRIX_F64,
    MATRIX_S4, // of these three, an element stands for a byte of them
    MATRIX_U4,
    MATRIX_B1
};

// A matrix in the registers of a warp. Lane 4 g + t holds in register i the elements
// (g + row[i], step t + column[i] + e) for e below `per`. A row of B is a column n of the product,
// so that the columns of both operands run along k.
struct matrix {
    enum matrix_type type;
    uint32_t regs[8];
    uint8_t count, distinct;  // registers; how many of them are not copies of earlier ones
    uint8_t bytes, per, step; // of an element; elements a register
    uint8_t row[8], column[8];
};

struct mma {
    struct matrix a, b, c, d;
    int m, n, k;
    bool differ;   // single bits: those that differ are counted, not those that are both set
    bool saturate; // integer sums stop at the ends of s32 instead of wrapping
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

op_fn wmma_move, tiles_move; // operands: a struct matrix_memory, a struct tiles
op_fn movmatrix_op;          // OP_mma has a struct mma

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

struct conversion {
    enum number to, from;
    enum rounding rounding;
    bool to_integral;                 // .rni and friends
    bool saturate, finite, ftz, relu; // finite: .satfinite, the largest number for an overflow
    uint8_t to_width, from_width;     // of the registers
};

op_fn convert; // operands: a struct conversion
// Two at once: from a (the upper) and b in f32, or from both halves of a.
op_fn convert_pair;
op_fn rounded_op; // under the mode `rounding`; operands: an op_fn *, what it calls

// ---- Everything else ----------------------------------------------------------------------------

// atomic, number, is_signed, bytes; regs: destination or NO_REGISTER, operand, second operand.
op_fn atomic_op;
// The same on one value in memory; what it held. shared: whether the memory is.
uint64_t atomic_apply(struct warp *w, const struct op *op, void *memory, uint64_t b, uint64_t c,
                      bool shared);
op_fn guarded_op; // inner for the lanes of the guard
// Whether all 32 lanes are there, as for products and matrices, whose addresses are the first lane's;
// a fault if not.
bool whole_warp(struct warp *w, const struct op *op, uint32_t mask);
op_fn vote_op, match_op, redux_op, activemask_op, special_op, elect_op;
// For race checks, of a shuffle: reports a lane that its own mask leaves out, and the first lane that takes a value from
// one that has ended, or that its mask leaves out. named: the masks of the lanes; NULL: they name all.
void report_sources(struct warp *w, const struct op *op, uint32_t mask, const int32_t from[WARP],
                    const uint32_t *named);
op_fn nothing_op;
op_fn start_dependents_op, await_dependency_op;  // griddepcontrol
op_fn mov_b128_op, pack_b128_op, unpack_b128_op; // regs: the two halves, the lower first
op_fn warp_sync_op;                              // bar.warp.sync; b: the members
op_fn vprintf_op, assert_op;                     // regs: where the call's result and parameters lie

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
    SPECIAL_CLUSTER_CTAID_X,
    SPECIAL_CLUSTER_CTAID_Y,
    SPECIAL_CLUSTER_CTAID_Z,
    SPECIAL_CLUSTER_NCTAID_X,
    SPECIAL_CLUSTER_NCTAID_Y,
    SPECIAL_CLUSTER_NCTAID_Z,
    SPECIAL_CLUSTERID_X,
    SPECIAL_CLUSTERID_Y,
    SPECIAL_CLUSTERID_Z,
    SPECIAL_NCLUSTERID_X,
    SPECIAL_NCLUSTERID_Y,
    SPECIAL_NCLUSTERID_Z,
    SPECIAL_CLUSTER_CTARANK,
    SPECIAL_CLUSTER_NCTARANK,
    SPECIAL_IS_EXPLICIT_CLUSTER, // a predicate
    SPECIALS
};
extern const char *const special_names[SPECIALS];

// ---- Control flow -------------------------------------------------------------------------------

op_fn branch_op, exit_op, trap_op, return_op;
op_fn barrier_op, switch_op; // operands: a struct barrier_operands, a struct switch_operands
op_fn call_op, call_end_op;  // operands: a struct call_operands
op_fn alloca_op, stacksave_op, stackrestore_op;
// A plain operation for some of the lanes: the others keep what the destination held.
void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask);

// Threads of a CTA's warps that have not ended, in whole warps.
uint32_t living_threads(const struct cta *cta);
// For race checks: marks the lanes of a group that is to run and has run past a barrier at which others of
// the warp stand; and reports those marked that end.
void barrier_note_passing(struct warp *w, const struct group *g);
void barrier_report_passed(struct warp *w, const struct op *op, uint32_t mask);
// Lets everyone who waits at a barrier go on if all have come.
void release_barrier(struct cta *cta, unsigned id);
// Some lanes of a warp have ended: when all that are left of it wait at a barrier, the warp has come.
void barrier_left(struct warp *w);

// The barrier of a cluster, and addresses in it (cluster.c). An arrival may be `relaxed`; the wait has as
// operands what it is in a cluster of one CTA, the barrier of that.
op_fn cluster_arrive_op, cluster_wait_op;
op_fn mapa_op, getctarank_op, isspacep_cta_op; // bytes: of the address; b: of mapa, the rank

enum barrier_kind { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR };
struct barrier_operands {
    enum barrier_kind kind;
    bool aligned, has_count, negated;
    uint32_t id, count, input, output; // registers
};

struct call_operands {
    int callee; // -1: the function whose address is in the register `address`
    uint32_t address;
    const struct callee *caller; // the callee's frame begins after its frame
    uint64_t local_bytes;        // and the callee's local memory after these of the caller
    int moves;                   // arguments (call_op) or the returned value (call_end_op)
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

// ---- Asynchronous copies and mbarriers (sync.c) -------------------------------------------------

op_fn copy_async_op; // operands: a struct copy_operands; bytes
op_fn copy_group_op; // imm: groups that may be left by a wait, -1: commit; open_group
op_fn mbarrier_op;   // operands: a struct mbarrier_operands; mbarrier
op_fn mbarrier_pending_op;
op_fn fence_op, proxy_fence_op, nanosleep_op;
enum { PROXY_FENCE_SHARED = 1, PROXY_FENCE_GLOBAL = 2 }; // bits of the fence's imm: which memory

struct copy_operands {
    uint32_t to, from, size, ignore; // registers; the last two or NO_REGISTER
    int64_t to_offset, from_offset;
    bool to_wide, from_wide;
    race_run_fn *read_run;
};

struct mbarrier_operands {
    uint32_t operand; // count, bytes, parity or state; or NO_REGISTER
    uint32_t result;  // the state; or NO_REGISTER
    bool parity, no_increment;
};

// ---- Bulk copies, of tensors and of bytes (bulk.c) ----------------------------------------------

struct bulk_operands {
    bool tensor, store;
    bool from_shared; // to another CTA's, that is in `global`
    bool
        reduces; // cp.reduce: as the operation's `atomic` and `number` say, in elements of its bytes
    bool multicast; // to the CTAs of the cluster that the register `ranks` names, a bit each
    uint32_t ranks;
    int rank;
    struct bulk_address {
        uint32_t reg;
        int64_t offset;
        bool wide;
    } shared, global, barrier; // global: that of the tensor's map
    uint32_t coordinate[5];
    uint32_t size; // register, if it is no tensor
};

op_fn bulk_op; // operands: a struct bulk_operands
struct told_operands {
    struct bulk_address to, barrier;
    uint32_t bytes;
    bool stores; // st.async
};
op_fn told_op; // after a store to `to`: its bytes are taken off those that the mbarrier expects
op_fn bulk_group_op; // imm: groups of stores that may be left by a wait, -1: commit

// ---- Products of a warpgroup (wgmma.c) ----------------------------------------------------------

enum { WGMMA_N = 256, WGMMA_K = 32, WARPGROUP_WARPS = 4 };

struct wgmma {
    enum matrix_type a_type, b_type, d_type;
    int n, k;
    uint32_t a[4], a_desc, b_desc; // registers; a_desc NO_REGISTER: A is in registers
    uint32_t scale_d;              // predicate
    bool negate_a, negate_b, transposed_a, transposed_b;
    int d_count;
    uint32_t d[WGMMA_N / 2];
    int words;
    const uint64_t *d_set, *a_set; // `words` of them, as in struct watch
    // The product of a warp's 16 rows, for each instruction set. a: [16][WGMMA_K] of bytes or
    // halves; b: [n][WGMMA_K], columns of B; d: the registers' frame.
    void (*product)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
};

// Which of the registers that wgmma uses a stretch of instructions reads and writes: sets of bits,
// by the numbers that the decoder gave to the registers.
struct watch {
    int words;
    uint64_t *touched, *written; // accumulators that are read or written; all that are written
    int count;
    struct watch_use {
        int number;
        uint32_t insn;
    } * uses; // of accumulators
};

op_fn watch_op;       // operands: a struct watch
op_fn wgmma_op;       // issue; operands: a struct wgmma
op_fn wgmma_group_op; // imm: groups that may be left by a wait, -1: commit
op_fn wgmma_fence_op;
void wgmma_left(struct warp *w); // it has ended: nobody of its warpgroup waits for it any more
// Of a warp that waits for products: another one of its warpgroup that has not committed them, or -1.
int wgmma_behind(const struct warp *w);
op_fn setmaxnreg_op; // imm: the count; takes

// ---- What a CTA has on its way ------------------------------------------------------------------

void sync_start(struct cta *cta);   // before a CTA begins
void sync_finish(struct cta *cta);  // after its last warp has ended; may fault
void sync_destroy(struct cta *cta); // frees what the CTA's storage holds of them
// "mbarrier at ADDRESS (name + offset), phase ...": what the mbarrier at a shared address waits
// for.
void mbarrier_describe(const struct cta *cta, uint32_t at, char *text, size_t size);

#endif
