// program.h: a kernel as it runs: basic blocks of operations, each one function pointer on 32
// lanes. An instruction that needs more than one operation (a vector unpack, `setp` with a
// combining predicate) becomes a run of ops that belong to the same instruction. decode/ makes it.
#ifndef PTXSIM_PROGRAM_H
#define PTXSIM_PROGRAM_H

#include "ptxsim/parse/module.h"

// Bytes that the system uses of what it keeps of each CTA's shared memory, as an H200 says.
enum { RESERVED_SHARED_BYTES = 288 };

struct warp;
struct op;
struct barrier_operands;

// One operation on the lanes of a warp. r: the frame, operands at byte offsets in it. A plain
// operation writes all 32 lanes of its destination and looks at nothing but its operands: the
// caller restores the inactive lanes. The others honour `mask` themselves.
typedef void op_fn(struct warp *w, char *r, const struct op *op, uint32_t mask);

// What an operation takes, and what the film, the race checks and the reports take an instruction for. A
// column of decode/opcodes.def.
enum family {
    FAMILY_PLAIN,   // computes from its operands, or has no result that matters
    FAMILY_LOGIC,   // a plain result that may lead from the load of a flag to the branch it decides
    FAMILY_SHUFFLE, // shfl: a register of another lane
    FAMILY_ACCESS,  // ld, st
    FAMILY_ATOMIC,  // atom, red
    FAMILY_COPY,    // cp.async
    FAMILY_COPY_GROUP,     // cp.async: a group committed or waited for
    FAMILY_BULK,           // cp.async.bulk: a copy by the asynchronous proxy
    FAMILY_BULK_GROUP,     // cp.async.bulk: a group of stores committed or waited for
    FAMILY_FRAGMENT,       // wmma.load, wmma.store: a fragment and memory
    FAMILY_TILES,          // ldmatrix, stmatrix: 8x8 tiles and memory
    FAMILY_PRODUCT,        // mma, wmma.mma: of a warp
    FAMILY_SPARSE_PRODUCT, // mma.sp: of which the film has no picture
    FAMILY_WGMMA,          // wgmma.mma_async: of a warpgroup
    FAMILY_WGMMA_GROUP,    // wgmma: a group committed or waited for
    FAMILY_WGMMA_FENCE,
    FAMILY_BRANCH,
    FAMILY_SWITCH,
};

// How PTX's .rn, .rz, .rm, .rp and .rna round.
enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY };

// What an atomic operation does, and to numbers of which kind.
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

// Whose accesses a strong access takes into account (PTX ISA, "Scope").
enum scope { SCOPE_GPU, SCOPE_CLUSTER, SCOPE_CTA };
// What a memory operation is: strong; an acquire; a release; of a scope no wider than the CTA.
enum order { ORDER_STRONG = 1, ORDER_ACQUIRE = 2, ORDER_RELEASE = 4, ORDER_CTA = 8 };

struct op {
    op_fn *run;
    op_fn *inner;        // what guarded_op calls
    uint32_t d, a, b, c; // result and operands: byte offsets in the frame
    int64_t imm;         // address offset, or what the operation takes
    // What does not fit in here. ops.h says which of the two an operation has.
    union {
        const uint32_t *regs; // vectors and fragments: offsets in the order of the operands
        const void *operands; // a structure of the operation's own
    };
    uint32_t guard;
    bool guard_negated;
    uint8_t plain; // 0, or 1 + the bytes a lane of its destination (1: a predicate)
    // Of a memory operation: its space; bytes of an element, elements a lane, bytes of a register.
    uint8_t space, bytes, vector, width, is_signed;
    uint8_t wide_address; // the address register has 64 bits
    uint8_t order;        // of a memory operation: bits of enum order
    bool cluster;         // it says .shared::cluster
    uint8_t family;       // enum family
    union {               // by family; ops.h says which of these an operation has
        int block;        // that a branch goes to
        struct {
            uint8_t atomic, number; // enum atomic, enum atomic_number
        };
        uint8_t mbarrier; // enum mbarrier_kind
        uint8_t rounding; // enum rounding
        bool relaxed;     // an arrival that releases nothing
        bool open_group;  // a wait that counts the group which is still open
        bool of_inits;    // a fence for the mbarriers that have been initialised, and nothing else
        bool takes;       // of setmaxnreg: registers are taken, not given back
        uint32_t locals;  // bytes of a frame's own local memory
    };
    uint32_t insn; // its instruction: counters, source line
};

enum sync_kind {
    SYNC_NONE,
    SYNC_MEMBERS, // shfl.sync and friends: the lanes named in the mask must be here
    SYNC_BARRIER, // a CTA barrier
};

// A run of ops that is entered at its first and left after its last. A block that begins with an
// instruction that waits for other lanes is marked, so that the scheduler can hold its lanes.
struct basic_block {
    uint32_t first, count;                  // ops
    uint32_t insn, insns;                   // instructions
    uint8_t sync;                           // enum sync_kind
    bool ends_flow;                         // does not fall through
    uint32_t members;                       // SYNC_MEMBERS: register of the mask, or NO_REGISTER
    const struct barrier_operands *barrier; // SYNC_BARRIER
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
        uint8_t mufu; // values that a thread asks the special unit for: two of a pair of halves
        bool barrier, store;
        bool substitutes, signals; // counts.mufu_substitutes, counts.signals
        bool multiplies;           // counts.integer_products
        bool selects;              // bytes by a selector in a register (prmt)
        uint8_t family;            // enum family
        uint8_t scope;             // enum scope, of a load, a store or an atomic operation
        bool is_volatile, swaps;   // swaps: it compares and swaps (.cas)
        uint8_t element; // bytes of an element of a load, a store or an atomic operation; else 0
        bool polls;      // a volatile load in a loop that ends by the loaded value
        const char *opcode;
        int ptx_line;
        uint8_t name_length; // of the opcode, what its row is called: "cp.async.bulk"
    } * insns;
    size_t insn_count;
    size_t shared_bytes;    // static, with the called functions' variables
    bool starts_dependents; // has griddepcontrol.launch_dependents
    bool asks_reserved;     // for the shared memory that is kept for the system
    size_t dynamic_offset;  // where dynamic shared memory starts, past the padding that it asks for
    bool tells_mbarriers;   // has copies of which an mbarrier is told when they have come
    bool narrow;            // a fence or a strong access of global memory is for one CTA only
    uint8_t cell_shift;     // log2 of the smallest access to memory, at most 4 bytes (races/)
    // With room for every frame once, and the stack that the launch gives (recursion, alloca).
    size_t local_bytes, frames_local_bytes; // a thread's local memory
    bool has_alloca;
    size_t file_bytes, frames_file_bytes; // a warp's register file
    size_t largest_frame;                 // of a called function in it
    struct callee {
        struct function *function;
        uint32_t block; // where it starts
        size_t frame_bytes, constants_at, constant_bytes, local_bytes;
        int live_words;  // of 4 bytes, the most that its registers hold at one place
        char *constants; // immediates, a copy for each lane, at the end of the frame
    } * callees;         // [0] is the kernel
    size_t callee_count;
    struct constant_place { // of every function's frame
        uint32_t at;
        uint16_t callee;
        uint8_t bytes;
    } * constants;
    size_t constant_count;
    struct arena arena;
};

#endif
