// program.h: a kernel as it runs: basic blocks of operations. An operation is a function pointer
// that works on 32 lanes. An instruction that needs more than one (a vector unpack, `setp` with a
// combining predicate) becomes a run of operations. decode/ makes the program.
#ifndef PTXSIM_PROGRAM_H
#define PTXSIM_PROGRAM_H

#include "ptxsim/parse/module.h"

// Bytes of each CTA's shared memory that the system uses itself, as an H200 reports them.
enum { RESERVED_SHARED_BYTES = 288 };

struct warp;
struct op;
struct barrier_operands;

// One operation on the lanes of a warp. r: the frame; operands are byte offsets in it. A plain
// operation writes all 32 lanes of its destination and reads nothing but its operands: the caller
// restores the inactive lanes. Other operations honour `mask` themselves.
typedef void op_fn(struct warp *w, char *r, const struct op *op, uint32_t mask);

// The family of an instruction: which operands its operation takes, and how the film, the race
// checks and the reports treat it. A column of decode/opcodes.def.
enum family {
    FAMILY_PLAIN, // computes from its operands, or has no result that matters
    // A plain result that may carry the value of a loaded flag to the branch that the flag decides.
    FAMILY_LOGIC,
    FAMILY_SHUFFLE,        // shfl: a register of another lane
    FAMILY_ACCESS,         // ld, st
    FAMILY_ATOMIC,         // atom, red
    FAMILY_COPY,           // cp.async
    FAMILY_COPY_GROUP,     // cp.async: a group committed or waited for
    FAMILY_BULK,           // cp.async.bulk: a copy by the asynchronous proxy
    FAMILY_BULK_GROUP,     // cp.async.bulk: a group of stores committed or waited for
    FAMILY_FRAGMENT,       // wmma.load, wmma.store: a fragment and memory
    FAMILY_TILES,          // ldmatrix, stmatrix: 8x8 tiles and memory
    FAMILY_PRODUCT,        // mma, wmma.mma: by one warp
    FAMILY_SPARSE_PRODUCT, // mma.sp: not drawn in the film
    FAMILY_WGMMA,          // wgmma.mma_async: by a warpgroup
    FAMILY_WGMMA_GROUP,    // wgmma: a group committed or waited for
    FAMILY_WGMMA_FENCE,
    FAMILY_BRANCH,
    FAMILY_SWITCH,
};

// How PTX's .rn, .rz, .rm, .rp and .rna round.
enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY };

// What an atomic operation does, and the type of its values.
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
enum atomic_number {
    ATOMIC_INTEGER,
    ATOMIC_FLOAT,
    ATOMIC_F16X2,
    ATOMIC_BF16X2,
    ATOMIC_F16,
    ATOMIC_BF16
};

enum mbarrier_kind {
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT,
    MBARRIER_DROP,
    MBARRIER_DROP_EXPECT,
    MBARRIER_EXPECT,
    MBARRIER_COMPLETE,
    MBARRIER_COPIES, // cp.async.mbarrier.arrive
    MBARRIER_WAIT,
};

// Which threads a strong access is ordered with (PTX ISA, "Scope").
enum scope { SCOPE_GPU, SCOPE_CLUSTER, SCOPE_CTA };
// Bits of a memory operation's order; ORDER_CTA: its scope is no wider than the CTA.
enum order { ORDER_STRONG = 1, ORDER_ACQUIRE = 2, ORDER_RELEASE = 4, ORDER_CTA = 8 };

struct op {
    op_fn *run;
    op_fn *inner;        // the operation that guarded_op wraps
    uint32_t d, a, b, c; // result and operands: byte offsets in the frame
    int64_t imm;         // an address offset, or a constant that the operation takes
    // Further operands. ops.h says which member an operation uses.
    union {
        // Vectors and fragments: the offsets of their registers, in the order of the operands.
        const uint32_t *regs;
        const void *operands; // a structure of its own, declared in ops.h
    };
    uint32_t guard;
    bool guard_negated;
    uint8_t plain; // 0: not plain; else 1 + bytes of the destination for each lane (1: a predicate)
    // Of a memory operation: its space; bytes of an element; elements for each lane; bytes of a
    // register.
    uint8_t space, bytes, vector, width, is_signed;
    uint8_t wide_address; // the address register has 64 bits
    uint8_t order;        // bits of enum order, of a memory operation
    bool cluster;         // whether the instruction says .shared::cluster
    uint8_t family;       // enum family
    union {               // by family; ops.h says which member an operation uses
        int block;        // the block that a branch goes to
        struct {
            uint8_t atomic, number; // values of enum atomic and of enum atomic_number
        };
        uint8_t mbarrier; // enum mbarrier_kind
        uint8_t rounding; // enum rounding
        bool relaxed;     // of an arrival: whether it releases nothing
        bool open_group;  // of a wait: whether it includes the group that is still open
        bool of_inits;    // of a fence: whether it is fence.mbarrier_init
        bool takes;       // of setmaxnreg: whether it takes registers (.inc)
        uint32_t locals;  // bytes of local memory of a called function's frame
    };
    uint32_t insn; // number of the instruction, for its counters and its source line
};

enum sync_kind {
    SYNC_NONE,
    SYNC_MEMBERS, // shfl.sync and friends: the lanes named in the mask must be here
    SYNC_BARRIER, // a CTA barrier
};

// A run of ops that is entered at its first op and left after its last. If the block's first
// instruction waits for other lanes, `sync` says so, and the scheduler holds the lanes until the
// others are there.
struct basic_block {
    uint32_t first, count; // the block's ops
    uint32_t insn, insns;  // the block's instructions
    uint8_t sync;          // enum sync_kind
    bool ends_flow;        // whether control never falls through
    uint32_t members;      // for SYNC_MEMBERS: register of the mask, or NO_REGISTER
    const struct barrier_operands *barrier; // for SYNC_BARRIER: the barrier
};

struct program {
    const struct kernel *kernel;
    struct op *ops;
    size_t op_count;
    struct basic_block *blocks;
    size_t block_count;
    struct insn_info {
        struct source_line at;
        uint8_t op_class;
        uint32_t tensor_flops, tensor_flops_8bit, tensor_instructions;
        // Values that a thread asks of the special function unit: two for a pair of halves.
        uint8_t mufu;
        bool barrier, store;
        bool substitutes, signals; // whether it counts in counts.mufu_substitutes, counts.signals
        uint8_t further;           // what a warp adds to counts.further_arithmetic
        bool selects;              // whether it takes bytes by a selector in a register (prmt)
        uint8_t family;            // enum family
        uint8_t scope;             // enum scope, of a load, a store or an atomic operation
        bool is_volatile, swaps;   // swaps: whether it compares and swaps (.cas)
        uint8_t element; // bytes of an element, for a load, a store or an atomic operation; else 0
        bool polls;      // whether it is a volatile load in a loop that ends by the loaded value
        const char *opcode;
        int ptx_line;
        // How many characters of `opcode`, from the beginning, are its name in opcodes.def, such as
        // "cp.async.bulk".
        uint8_t name_length;
    } * insns;
    size_t insn_count;
    size_t shared_bytes;    // static shared memory, including variables of called functions
    bool starts_dependents; // whether the kernel has griddepcontrol.launch_dependents
    bool asks_reserved;     // whether it reads the address of the system's shared memory
    size_t dynamic_offset;  // where dynamic shared memory begins, after padding for its alignment
    bool tells_mbarriers;   // whether it has cp.async.mbarrier.arrive, st.async or red.async
    bool narrow;            // whether an instruction orders global accesses only within a CTA
    // log2 of a cell's bytes (races/): those of the smallest access to memory, but at most 4 bytes.
    uint8_t cell_shift;
    // local_bytes: each function's frame once, and the stack that the launch gives (recursion,
    // alloca). frames_local_bytes: the frames alone.
    size_t local_bytes, frames_local_bytes; // bytes of a thread's local memory
    bool has_alloca;
    // Bytes of a warp's register file: all of it; the frames alone.
    size_t file_bytes, frames_file_bytes;
    size_t largest_frame; // bytes of the largest frame of a called function
    struct callee {
        struct function *function;
        uint32_t block; // the callee's first block
        size_t frame_bytes, constants_at, constant_bytes, local_bytes;
        int live_words;  // the most 4-byte words of live registers at one point
        char *constants; // immediates, copied for each lane, at the end of the frame
    } * callees;         // callees[0] is the kernel
    size_t callee_count;
    struct constant_place { // a constant in a function's frame
        uint32_t at;
        uint16_t callee;
        uint8_t bytes;
    } * constants;
    size_t constant_count;
    struct arena arena;
};

#endif
