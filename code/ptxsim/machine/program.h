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
    uint8_t space, bytes, vector, width,
        is_signed;        // memory operations: per element; register width
    uint8_t wide_address; // the address register has 64 bits
    uint8_t order;        // of a memory operation: strong, acquire, release (races.h)
    bool cluster;         // it says .shared::cluster
    int target;           // a block
    uint32_t insn;        // its instruction: counters, source line
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
        bool mufu, barrier, store;
        bool bulk;       // a bulk copy: it goes through the asynchronous proxy
        uint8_t element; // bytes of an element of a load, a store or an atomic operation; else 0
        bool polls;      // a volatile load that is asked again, in a loop that its value ends
        const char *opcode;
        int ptx_line;
    } * insns;
    size_t insn_count;
    size_t shared_bytes;   // static, with the called functions' variables
    bool asks_reserved;    // for the shared memory that is kept for the system
    size_t dynamic_offset; // where dynamic shared memory starts, past the padding that it asks for
    uint8_t cell_shift;    // log2 of the smallest access to memory, at most 4 bytes (races.h)
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
