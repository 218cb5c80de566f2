// ops.h: the operations, and the operands of each: decode/ stores pointers to operations, exec/
// calls them. An operation is a function on 32 lanes (op_fn, program.h). Those that operations.def
// lists are compiled once for each instruction set of the host (isa/), the others once.
//
// The comment at a declaration says which fields of struct op the operation uses; d, a, b and c are
// offsets in the frame, unless the comment says otherwise.
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
// Checks and notes an access to global memory by all lanes, at consecutive addresses from `at` on,
// `size` bytes each; stores the bytes of `lanes` there, as race_global does; lanes NULL: a read.
// Returns false if the caller must check the access lane by lane; a part of it may have been noted
// by then.
typedef bool race_run_fn(struct warp *w, const struct op *op, uint64_t at, uint32_t size,
                         const uint8_t *lanes);
struct op_set {
    const char *isa;
    void (*wgmma)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
    race_run_fn *race_run_global;
    op_fn *run[OP_COUNT];
};
extern const struct op_set ops_base, ops_avx2, ops_avx512;
// The best set that is compiled in and that this CPU runs, but none better than the one that
// PTXSIM_ISA=base|avx2|avx512 names. Without such a set, ends the program.
const struct op_set *ops_choose(void);

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
    MATRIX_S4, // struct matrix counts a byte of S4, U4 or B1 elements as one element
    MATRIX_U4,
    MATRIX_B1
};

// A matrix in the registers of a warp. Lane 4 g + t holds in register i the elements (g + row[i],
// step t + column[i] + e), for each e below `per`. For B, rows are the columns n of the product, so
// that the columns of both operands run along k.
struct matrix {
    enum matrix_type type;
    uint32_t regs[8];
    uint8_t count, distinct;  // registers; how many of them differ from all earlier ones
    uint8_t bytes, per, step; // an element's bytes; elements a register; columns from lane to lane
    uint8_t row[8], column[8];
};

struct mma {
    struct matrix a, b, c, d;
    int m, n, k;
    bool differ;   // B1: whether to count bits that differ in A and B, not bits set in both
    bool saturate; // whether integer sums stop at the ends of s32 instead of wrapping
};

struct matrix_memory { // a wmma fragment, and where it is in memory
    struct matrix matrix;
    bool store, accumulator;
    bool transposed; // whether columns, not rows, of the matrix are contiguous in memory
    uint32_t stride; // a register: elements from one row to the next
};

struct tiles { // ldmatrix, stmatrix: 8x8 tiles of 16-bit elements
    uint32_t regs[4];
    int count;
    bool store, transposed;
};

// operands: of wmma_move a struct matrix_memory; of tiles_move a struct tiles; of OP_mma
// (operations.def) a struct mma.
op_fn wmma_move, tiles_move;
op_fn movmatrix_op;

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
    bool to_integral;                 // .rni and the like: to a whole number
    bool saturate, finite, ftz, relu; // finite: .satfinite, an overflow becomes the largest number
    uint8_t to_width, from_width;     // bytes of the registers
};

op_fn convert; // operands: a struct conversion
// Converts two numbers at once: f32 in a (the upper result) and b, or both halves of a.
op_fn convert_pair;
op_fn rounded_op; // rounds as `rounding` says; operands: an op_fn *, the operation to run

// ---- Everything else ----------------------------------------------------------------------------

// Uses `atomic`, `number`, `is_signed` and `bytes`; regs: destination or NO_REGISTER, operand,
// second operand or NO_REGISTER.
op_fn atomic_op;
// Applies an atomic operation to one value in memory; returns the value before. shared: the value
// is in shared memory.
uint64_t atomic_apply(struct warp *w, const struct op *op, void *memory, uint64_t b, uint64_t c,
                      bool shared);
op_fn guarded_op; // runs `inner` for the lanes whose guard is true
// Whether all 32 lanes take part, as they must in products and matrix accesses. If not, a fault.
bool whole_warp(struct warp *w, const struct op *op, uint32_t mask);
op_fn vote_op, match_op, redux_op, activemask_op, special_op, elect_op;
// For race checks of a shuffle, in which lane i takes the value of lane from[i]. Reports the first
// lane that its own mask leaves out, and the first whose source has ended or is not in its mask.
// named: each lane's mask; NULL: every mask has all lanes.
void report_sources(struct warp *w, const struct op *op, uint32_t mask, const int32_t from[WARP],
                    const uint32_t *named);
op_fn nothing_op;
op_fn start_dependents_op, await_dependency_op;  // griddepcontrol
op_fn mov_b128_op, pack_b128_op, unpack_b128_op; // regs: the two 64-bit halves, the lower first
op_fn warp_sync_op;                              // bar.warp.sync; b: the mask of members
// regs: the offsets of the call's result and parameters.
op_fn vprintf_op, assert_op;

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
    SPECIAL_IS_EXPLICIT_CLUSTER, // a predicate; all others are numbers
    SPECIALS
};
extern const char *const special_names[SPECIALS];

// ---- Control flow -------------------------------------------------------------------------------

op_fn branch_op, exit_op, trap_op, return_op;
op_fn barrier_op, switch_op; // operands: a struct barrier_operands; a struct switch_operands
op_fn call_op, call_end_op;  // operands: a struct call_operands
op_fn alloca_op, stacksave_op, stackrestore_op;
// Runs a plain operation (op->plain) for the lanes of the mask; the destinations of the other lanes
// stay as they are.
void plain_masked(struct warp *w, char *r, const struct op *op, op_fn *run, uint32_t mask);

// How many threads the living warps of a CTA have: 32 for each, even if some lanes have ended.
uint32_t living_threads(const struct cta *cta);
// For race checks of lanes that run past a barrier at which others of their warp wait.
// barrier_note_passing marks such lanes in a group that is about to run; barrier_report_passed
// reports those marked lanes that end.
void barrier_note_passing(struct warp *w, const struct group *g);
void barrier_report_passed(struct warp *w, const struct op *op, uint32_t mask);
// Releases all threads that wait at a barrier, if all that it waits for have arrived.
void release_barrier(struct cta *cta, unsigned id);
// Called when some lanes of a warp have ended. If all its remaining lanes wait at a barrier, counts
// the warp as arrived there.
void barrier_left(struct warp *w);

// The barrier of a cluster, and addresses in a cluster (cluster.c). An arrival may be `relaxed`.
// The operands of the wait are a struct barrier_operands: a barrier of the CTA, at which a CTA
// without a cluster waits instead.
op_fn cluster_arrive_op, cluster_wait_op;
op_fn mapa_op, getctarank_op, isspacep_cta_op; // bytes: size of an address; b: mapa's rank

enum barrier_kind { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR };
struct barrier_operands {
    enum barrier_kind kind;
    bool aligned, has_count, negated;
    uint32_t id, count, input, output; // offsets of registers
};

struct call_operands {
    int callee; // -1: the address of the function is in the register `address`
    uint32_t address;
    const struct callee *caller; // the callee's frame begins after this function's frame
    uint64_t local_bytes;        // of the caller's local memory, after which the callee's begins
    int moves; // how many moves: of arguments (call_op), or of the returned value (call_end_op)
    struct call_move {
        uint64_t mine, its; // offsets in the caller's and the callee's local memory
        uint64_t bytes;
    } * move;
};

struct switch_operands { // operands of brx.idx
    uint32_t index;      // a register
    int count;
    int *targets; // blocks to jump to
};

// Every frame begins with these values, at these offsets, one for each lane: where the function's
// local memory begins (64 bits); the block to return to (32 bits); the caller's frame (32 bits);
// where the thread's alloca memory began at the call (64 bits).
enum {
    FRAME_LOCAL = 0,
    FRAME_RETURN = 256,
    FRAME_CALLER = 384,
    FRAME_STACK = 512,
    FRAME_FIXED = 768
};

// ---- Asynchronous copies and mbarriers (sync.c) -------------------------------------------------

op_fn copy_async_op; // operands: a struct copy_operands; `bytes`
op_fn copy_group_op; // imm: how many groups a wait may leave, -1: commit; `open_group`
op_fn mbarrier_op;   // operands: a struct mbarrier_operands; `mbarrier`
op_fn mbarrier_pending_op;
op_fn fence_op, proxy_fence_op, nanosleep_op;
// Bits of imm of proxy_fence_op: the memory that the fence is for.
enum { PROXY_FENCE_SHARED = 1, PROXY_FENCE_GLOBAL = 2 };

struct copy_operands {
    uint32_t to, from, size, ignore; // registers; size and ignore may be NO_REGISTER
    int64_t to_offset, from_offset;
    bool to_wide, from_wide;
    race_run_fn *read_run;
};

struct mbarrier_operands {
    uint32_t operand; // a count, bytes, a parity or a state; or NO_REGISTER
    uint32_t result;  // receives the state; or NO_REGISTER
    bool parity, no_increment;
};

// ---- Bulk copies, of tensors and of bytes (bulk.c) ----------------------------------------------

struct bulk_operands {
    bool tensor, store;
    bool from_shared; // whether the source, in `global`, is an address of the CTA's shared memory
    // Whether it is cp.reduce. The op's `atomic` is applied to each element; the op's `number` and
    // `bytes` are the elements' type, except for a tensor, whose map has the type.
    bool reduces;
    bool multicast; // whether to copy to each CTA whose bit is set in the register `ranks`
    uint32_t ranks;
    int rank;
    struct bulk_address {
        uint32_t reg;
        int64_t offset;
        bool wide;
    } shared, global, barrier; // global: for a tensor, the address of its map
    uint32_t coordinate[5];
    uint32_t size; // a register; not for a tensor
};

op_fn bulk_op; // operands: a struct bulk_operands
struct told_operands {
    struct bulk_address to, barrier;
    uint32_t bytes;
    bool stores; // whether the instruction is st.async; otherwise red.async
};
// Called after the store to `to`, or the reduction there: subtracts its bytes from those that the
// mbarrier expects.
op_fn told_op;
op_fn bulk_group_op; // imm: how many groups of stores a wait may leave, -1: commit

// ---- Products of a warpgroup (wgmma.c) ----------------------------------------------------------

enum { WGMMA_N = 256, WGMMA_K = 32, WARPGROUP_WARPS = 4 };

struct wgmma {
    enum matrix_type a_type, b_type, d_type;
    int n, k;
    uint32_t a[4], a_desc, b_desc; // registers; a_desc NO_REGISTER: A is in registers
    uint32_t scale_d;              // a register: a predicate
    bool negate_a, negate_b, transposed_a, transposed_b;
    int d_count;
    uint32_t d[WGMMA_N / 2];
    int words;
    const uint64_t *d_set, *a_set; // sets of `words` words each, as in struct watch
    // Computes the product for a warp's 16 rows; each instruction set has its own function. a:
    // [16][k] elements of a_type; b: [n][k] of b_type, columns of B. The result, plus the old D if
    // `add`, goes to the registers d of the frame r.
    void (*product)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
};

// What a run of instructions between two wgmma operations does to the registers of wgmma. A set of
// registers has a bit for each: the decoder has numbered them.
struct watch {
    int words;
    // touched: accumulators that are read or written; written: registers of any operand that are
    // written.
    uint64_t *touched, *written;
    int count;
    struct watch_use {
        int number;
        uint32_t insn;
    } * uses; // each: an accumulator's number, and an instruction that uses it
};

op_fn watch_op;       // operands: a struct watch
op_fn wgmma_op;       // issue; operands: a struct wgmma
op_fn wgmma_group_op; // imm: how many groups a wait may leave, -1: commit
op_fn wgmma_fence_op;
void wgmma_left(struct warp *w); // a warp has ended: no warp of its warpgroup waits for it any more
// The index of another warp of the warpgroup of `w` that has not committed the products that `w`
// waits for; -1: none.
int wgmma_behind(const struct warp *w);
op_fn setmaxnreg_op; // imm: the count of registers; `takes`

// ---- What a CTA has under way -------------------------------------------------------------------

void sync_start(struct cta *cta);   // called before a CTA begins
void sync_finish(struct cta *cta);  // called after its last warp has ended; may fault
void sync_destroy(struct cta *cta); // frees the storage of copies, mbarriers and products
// Writes the text "mbarrier at ADDRESS (name + offset), phase ...": which arrivals and bytes the
// mbarrier at a shared address waits for.
void mbarrier_describe(const struct cta *cta, uint32_t at, char *text, size_t size);

#endif
