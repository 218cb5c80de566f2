// interp.h: the inside of the PTX interpreter, shared by parse.c, decode.c, exec.c and the ops.
//
// parse.c makes a `struct module` of a text; decode.c makes a `struct program` of a kernel and the
// functions it calls: basic blocks of `struct op`, each one function pointer on 32 lanes. An
// instruction that needs more than one operation (a vector unpack, `setp` with a combining
// predicate) becomes a run of ops that belong to the same instruction.
#ifndef PTXSIM_INTERP_H
#define PTXSIM_INTERP_H

#include "ptxsim.h"

#include <stdarg.h>
#include <stdatomic.h>

// ---- Arena: everything a module owns, freed at once ---------------------------------------------

struct arena {
    struct arena_chunk *chunks;
    char *at, *end;
};
void *arena_alloc(struct arena *arena,
                  size_t bytes); // zeroed, 16-byte aligned; aborts if there is no memory
char *arena_text(struct arena *arena, const char *text, size_t length);
void arena_free(struct arena *arena);

// Grows a malloc'ed array so that it holds one more element.
void *array_grow(void *array, size_t count, size_t *capacity, size_t element);

// ---- What parse.c makes -------------------------------------------------------------------------

enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST };

// Shared and local memory in the generic address space: a window each, far from host addresses.
#define WINDOW_SHIFT 56
#define SHARED_WINDOW (UINT64_C(1) << WINDOW_SHIFT)
#define LOCAL_WINDOW (UINT64_C(2) << WINDOW_SHIFT)
#define PARAM_WINDOW (UINT64_C(3) << WINDOW_SHIFT) // of a kernel's parameters (__grid_constant__)
#define CODE_WINDOW (UINT64_C(4) << WINDOW_SHIFT)  // function addresses, for indirect calls

enum operand_kind {
    OPERAND_REGISTER,  // reg
    OPERAND_IMMEDIATE, // value; is_float: an f64's bits, narrowed at decoding
    OPERAND_NAME,      // a variable, function, label or special register, + value
    OPERAND_ADDRESS,   // [reg + value] or [name + value]; reg < 0: none; count coordinates
    OPERAND_VECTOR,    // {…} or (…): count operands from `elements`
    OPERAND_SINK,      // _
};

struct operand {
    enum operand_kind kind;
    bool is_float, negated; // negated: !%p
    int reg;
    int pair; // %r|%p: the second register, else -1
    int64_t value;
    const char *name;
    struct operand *elements;
    int count;
};

struct source_line {
    const char *file;
    int line;
    const char *callers; // of a line in an inlined function: " (called at FILE:LINE, …)", else ""
};

struct insn {
    const char *opcode; // with all modifiers: "ld.shared.v2.u32"
    int guard;          // predicate register, -1: none
    bool guard_negated;
    int count;
    struct operand *operands;
    struct source_line at; // the user's line, out of the toolkit's headers
    int ptx_line;
    int scope; // of its names
};

// Bytes a lane: 2, 4, 8 or 16; 0 is a predicate, kept as one bit a lane.
struct reg {
    uint8_t bytes;
};

struct variable {
    const char *name;
    enum space space;
    size_t align, size;
    size_t offset; // in shared memory, in the parameters, or in the frame's local memory
    bool dynamic;  // extern .shared []
    bool is_param; // a kernel's or function's own parameter
    void *address; // global and const: its allocation
    uint8_t *init; // size bytes, or NULL
    struct relocation *relocations;
    int scope; // the { } of its function that it stands in
};

struct relocation {
    size_t at;
    const char *name;
    int64_t addend;
    bool generic;
    struct relocation *next;
};

struct label {
    const char *name;
    size_t insn; // the instruction it stands before
    int scope;
    const char **targets; // of .branchtargets / .calltargets, else NULL
    int target_count;
};

struct function {
    const char *name;
    bool is_kernel, has_body;
    struct module *module;
    struct reg *regs;
    size_t reg_count, reg_capacity;
    struct insn *insns;
    size_t insn_count, insn_capacity;
    struct label *labels;
    size_t label_count, label_capacity;
    struct variable **variables; // parameters first, then the body's
    size_t variable_count, variable_capacity;
    int *outer; // of each scope: the one around it, -1 for the body itself
    size_t scope_count, scope_capacity;
    int params, returns; // of a .func: return values come first among the variables
    int max_threads;
    char unsupported[256]; // why it cannot be decoded, else empty
};

struct module {
    struct arena arena;
    int arch; // 89 for .target sm_89
    const char **files;
    size_t file_count;
    struct variable **variables;
    size_t variable_count, variable_capacity;
    struct function **functions;
    size_t function_count, function_capacity;
    struct kernel *kernels;
    size_t kernel_count;
};

struct function *module_function(struct module *module, const char *name);
struct variable *module_variable(struct module *module, const char *name);
// By the names that an instruction in `scope` sees.
struct variable *function_variable(const struct function *function, int scope, const char *name);
const struct label *function_label(const struct function *function, int scope, const char *name);

struct kernel {
    struct function *function;
    struct kernel_info info;
    struct program *program; // decoded at the first launch
    char error[384];         // why it cannot be launched, else empty
};

// ---- What decode.c makes ------------------------------------------------------------------------

struct warp;
struct op;

// One operation on the lanes of a warp. r: the frame, operands at byte offsets in it. A plain
// operation writes all 32 lanes of its destination and looks at nothing but its operands: the
// caller restores the inactive lanes. The others honour `mask` themselves.
typedef void op_fn(struct warp *w, char *r, const struct op *op, uint32_t mask);

struct op {
    op_fn *run;
    op_fn *inner;         // what guarded_op and rounded_op call
    uint32_t d, a, b, c;  // operands: byte offsets in the frame
    int64_t imm;          // address offset, or what the operation takes
    const uint32_t *regs; // vectors and fragments: offsets in the order of the operands
    uint32_t guard;
    bool guard_negated;
    uint8_t plain; // 0, or 1 + the bytes a lane of its destination (1: a predicate)
    uint8_t space, bytes, vector, width,
        is_signed;        // memory operations: per element; register width
    uint8_t wide_address; // the address register has 64 bits
    uint8_t order;        // of a memory operation: strong, acquire, release (races.h)
    int target;           // a block
    uint32_t insn;        // counters, source line
};

enum sync_kind {
    SYNC_NONE,
    SYNC_MEMBERS, // shfl.sync and friends: the lanes named in the mask must be here
    SYNC_BARRIER, // a CTA barrier
};

// A run of ops that is entered at its first and left after its last. A block that begins with an
// instruction that waits for other lanes is marked, so that the scheduler can hold its lanes.
struct basic_block {
    uint32_t first, count; // ops
    uint32_t insn, insns;  // instructions
    uint8_t sync;
    bool ends_flow; // does not fall through
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
        bool bulk; // a bulk copy: it goes through the asynchronous proxy
        const char *opcode;
        int ptx_line;
    } * insns;
    size_t insn_count;
    size_t shared_bytes;   // static, with the called functions' variables
    size_t dynamic_offset; // where dynamic shared memory starts, past the padding that it asks for
    uint8_t cell_shift;    // log2 of the smallest access to memory, at most 4 bytes (races.h)
    size_t local_bytes;    // a thread, with room for every frame
    bool has_alloca;
    size_t file_bytes; // a warp's register file, with room for every frame
    struct callee {
        struct function *function;
        uint32_t block; // where it starts
        size_t frame_bytes, constants_at, constant_bytes, local_bytes;
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

// NULL with one line in `why`.
struct program *program_decode(struct kernel *kernel, char *why, size_t size);
void program_free(struct program *program);

// Adds what the counters of a launch amount to; lines and line_count may be NULL.
struct insn_counts;
struct block_counts;
void counts_derive(const struct program *program, const struct insn_counts *insns,
                   const struct block_counts *blocks, struct counts *counts,
                   struct line_counts **lines, size_t *line_count);

// ---- The operations (ops_list.h names them) -----------------------------------------------------

enum op_id {
#define OP(name, ...) OP_##name,
#include "ops_list.h"
#undef OP
    OP_COUNT
};

struct wgmma;
struct op_set {
    const char *isa;
    void (*wgmma)(char *r, const struct wgmma *t, const void *a, const void *b, bool add);
    op_fn *run[OP_COUNT];
};
extern const struct op_set ops_base, ops_avx2, ops_avx512;
const struct op_set *
ops_choose(void); // the best this CPU has; PTXSIM_ISA=base|avx2|avx512 overrides

// ---- What exec.c runs ---------------------------------------------------------------------------

struct insn_counts { // per instruction and host thread: what cannot be derived from the blocks
    uint64_t wavefronts, conflicts, shared_bytes, sectors, global_bytes, lanes_off, divergent;
};
struct block_counts {
    uint64_t warps, threads;
};
// The last access of an instruction to shared memory, if it was irregular.
struct pattern {
    uint32_t from[WARP];         // of each lane: how far from the first
    uint32_t mask, phase, bytes; // bytes 0: none yet
    int wavefronts, least;
};

struct group { // lanes of a warp at the same place
    uint32_t mask;
    uint32_t block;
    uint32_t frame; // byte offset of its frame in the register file
    bool arrived;   // at a CTA barrier, and waits for the others
    uint8_t barrier;
};

struct text { // grows
    char *data;
    size_t size, capacity;
};
void text_add(struct text *text, const char *from, size_t size);

struct warp {
    struct cta *cta;
    char *file;  // register file: frames, the kernel's first
    char *local; // local memory: per lane, program->local_bytes each
    uint32_t alive;
    uint32_t here; // lanes of the running group
    int index, group_count;
    struct group groups[WARP];
    uint32_t next, next_frame; // where the running group goes; set by the control operations
    uint32_t taken;            // lanes that go to next; the others fall through
    uint32_t gone;             // lanes that have left the group in another way
    uint32_t tid[3][WARP];
    uint64_t stack[WARP]; // alloca: the lowest byte in use, from the end of the lane's local memory
    struct text printed;  // by printf
    uint64_t turns;
    struct warp_clock *clock;  // NULL: races are not checked
    struct copies *copies;     // cp.async on their way; NULL until the first
    struct products *products; // wgmma on their way; NULL until the first
    uint32_t bulk_open[WARP];  // number of the group of bulk stores that each lane fills
    bool yields;               // a failed wait, a nanosleep, a look at a flag: the turn is over
    const struct op *waits;    // at an mbarrier whose phase is not complete
    uint32_t waits_at;
    struct {                   // a loop that changes nothing but registers (exec.c)
        uint64_t effects;      // sum of them since when it may be in one
        uint64_t state, turns; // the registers at some round, as a hash, and when that was
        uint64_t rounds, until, first;
        bool watched, found, endless; // endless: not proven, but it takes too long
    } loop;
    uint64_t steps;         // basic blocks that it ran
    const struct op *polls; // what a warp in such a loop looks at
    uint64_t polls_at;
    int polls_lane;
};

enum { NAMED_BARRIERS = 16 };

struct cta {
    struct worker *worker;
    const struct launch *launch;
    const struct program *program;
    unsigned index[3];
    uint64_t number;
    int warps;
    struct warp *warp;
    uint8_t *shared, *written; // written: a bit a byte; NULL: not checked
    uint32_t shared_bytes;
    struct {
        uint32_t arrived, expected; // threads, in whole warps; expected 0: every warp there is
        uint32_t lanes, yes;        // bar.red
        struct clock *clock;        // what those who came have done
    } barrier[NAMED_BARRIERS];
    struct races *races;      // NULL: not checked
    struct meeting *meetings; // mbarriers that have a clock or copies; NULL until the first
    size_t meeting_count, meeting_capacity;
    struct bulk *bulk; // copies of tensors on their way, and the like
    size_t bulk_count, bulk_capacity;
    uint64_t progress; // arrivals at mbarriers and phases seen
    uint64_t idle;     // rounds in which every warp only waited
    bool faulted;
    bool watched; // accesses to shared memory are checked or traced
    struct fault fault;
    uint64_t rounds;
    uint64_t stuck_at;   // every warp is, as long as the run's effects sum up to this
    struct trace *trace; // NULL: not traced
    struct cta *next;
};

#include "races.h"

struct worker { // one host thread
    struct run *run;
    _Atomic uint64_t effects; // what its warps have done that another can see
    uint64_t stuck_at;        // all of its CTAs are, as long as the effects sum up to this
    bool finished;
    struct insn_counts *insns;
    struct block_counts *blocks;
    struct pattern *patterns; // by instruction
    struct allocation last; // the allocation of the last access
    struct race_log races;
    struct global_races *global_races; // of the launch
    struct page *page;                 // the last one of those
};

// A warp has done something that others can see: whoever waits for it looks again. Read by other
// host threads, written by one.
static inline void note_effect(struct warp *w)
{
    _Atomic uint64_t *effects = &w->cta->worker->effects;
    atomic_store_explicit(effects, atomic_load_explicit(effects, memory_order_relaxed) + 1,
                          memory_order_release);
}

// ---- Traces (trace.c) ---------------------------------------------------------------------------

// The trace of a CTA that begins, NULL if nobody asked for it.
struct trace *trace_start(const struct cta *cta);
void trace_block(struct trace *trace, const struct warp *w, const struct basic_block *block);
void trace_arrive(struct trace *trace, const struct warp *w, uint32_t insn);
void trace_release(struct trace *trace, const struct cta *cta, unsigned barrier);
// A warp arrives at the mbarrier at a shared address; it asks whether a phase of it has ended.
void trace_meet(struct trace *trace, const struct warp *w, uint32_t at, bool ends_phase);
void trace_ask(struct trace *trace, const struct warp *w, uint32_t insn, uint32_t at, bool passed);
void trace_access(struct trace *trace, const struct warp *w, uint32_t insn, const uint32_t at[WARP],
                  int bytes, uint32_t mask, bool store);

// "kernel, line, block, thread: text".
void fault_text(char *text, size_t size, struct warp *w, const struct op *op, int lane,
                const char *format, va_list arguments);
// Records the CTA's first fault: kernel, line, block and thread, then the text.
void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

static inline struct insn_counts *counts_of(struct warp *w, const struct op *op)
{
    return &w->cta->worker->insns[op->insn];
}

#endif
