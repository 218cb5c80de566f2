// internal.h: what the files of decode/ share: the decoder's state, and their functions by file.
#ifndef PTXSIM_DECODE_INTERNAL_H
#define PTXSIM_DECODE_INTERNAL_H

#include "decode.h"
#include "ptxsim/ops/ops.h"

#include <setjmp.h>

struct signature {
    const char *name;
    uint8_t operands;       // 0: has a decoder of its own
    uint8_t plain, a, b, c; // bytes a lane; plain as in struct op
};
extern const struct signature signatures[OP_COUNT];

enum { SCRATCH_SLOTS = 16, SCRATCH_BYTES = 256, MODIFIERS = 16 };

struct constant {
    uint64_t value;
    uint8_t bytes; // a lane; 0: a predicate
    uint32_t at;
};

struct decoder {
    struct program *program;
    struct module *module;
    struct kernel *kernel;
    const struct op_set *ops;
    struct callee *callee;
    struct function *function;
    const struct insn *insn;
    uint32_t *slot; // of each register
    int *block_of;  // of each instruction (the block that starts there), -1 inside one
    struct constant *constants;
    size_t constant_count, constant_capacity;
    size_t frame; // bytes so far
    uint32_t scratch_at;
    int scratch_used;
    size_t op_capacity, block_capacity, place_capacity;
    char base[32]; // the opcode up to its first '.'
    char modifiers[192];
    const char *modifier[MODIFIERS];
    int modifier_count;
    const struct call_operands *call_end;
    int *watched; // of each register: its number among those that wgmma uses, or -1; NULL: none
    bool *accumulates;
    int watched_words;
    struct arena temporary; // what a function's decoding needs, gone with the decoder
    jmp_buf failed;
    char *why;
    size_t why_size;
};

struct flow_block {
    size_t first, end; // instructions
    int next[2];       // -1: none
    const struct label *many;
    bool exits;
    enum sync_kind sync;
    uint64_t *use, *def, *in;
};

typedef void visit_fn(struct decoder *d, int reg, bool defines, void *data);

// table.c
int op_find(const char *name);

// operands.c
__attribute__((noreturn, format(printf, 2, 3))) void fail(struct decoder *d, const char *format,
                                                          ...);
__attribute__((noreturn)) void unsupported(struct decoder *d);
bool has(const struct decoder *d, const char *modifier);
void needs_arch(struct decoder *d, int arch);
const char *last_modifier(const struct decoder *d);
void split_opcode(struct decoder *d, const char *opcode);
void drop_modifier(struct decoder *d, const char *modifier);
uint32_t take(struct decoder *d, size_t bytes, size_t align);
uint32_t constant(struct decoder *d, uint64_t value, int bytes);
uint32_t scratch(struct decoder *d);
struct op *emit(struct decoder *d, op_fn *run, int plain);
struct op *emit_id(struct decoder *d, int id);
struct op *emit_plain(struct decoder *d, int id, uint32_t to, uint32_t a, uint32_t b, uint32_t c);
uint64_t immediate(struct decoder *d, const struct operand *o, int bytes);
int special_find(const char *name);
bool is_local(const struct decoder *d, const struct variable *v);
uint32_t source(struct decoder *d, const struct operand *o, int bytes);
uint32_t wide_source(struct decoder *d, const struct operand *o, int least, uint8_t *width);
uint32_t destination(struct decoder *d, const struct operand *o, int bytes);
const struct operand *operand(struct decoder *d, int index);
void set_address(struct decoder *d, const struct operand *o, uint32_t *a, int64_t *imm,
                 uint8_t *wide, enum space *space);
int need_type(struct decoder *d, const char *type);
int find_parts(const char *a, const char *b, const char *c);

// arithmetic.c
void decode_arithmetic(struct decoder *d);
void decode_carry(struct decoder *d);
void decode_bfi(struct decoder *d);
void decode_lop3(struct decoder *d);
void decode_prmt(struct decoder *d);
void decode_setp(struct decoder *d);
void decode_set(struct decoder *d);
void decode_selp(struct decoder *d);
void decode_slct(struct decoder *d);

// moves.c
void decode_mov(struct decoder *d);
void decode_cvta(struct decoder *d);
void decode_isspacep(struct decoder *d);
void decode_cvt(struct decoder *d);

// access.c
enum space memory_space(const struct decoder *d);
void note_size(struct decoder *d, int bytes);
void decode_access(struct decoder *d, bool store);
void decode_atomic(struct decoder *d, bool returns);

// lanes.c
void decode_shfl(struct decoder *d);
void decode_vote(struct decoder *d);
void decode_match(struct decoder *d);
void decode_redux(struct decoder *d);
void decode_elect(struct decoder *d);
void decode_barrier(struct decoder *d);

// async.c
void decode_mbarrier(struct decoder *d);
void decode_copy(struct decoder *d);
void decode_fence(struct decoder *d);

// matrix.c
void decode_product(struct decoder *d);
void decode_wgmma(struct decoder *d);
void decode_setmaxnreg(struct decoder *d);
void decode_wmma(struct decoder *d);
void decode_tiles(struct decoder *d);
void decode_movmatrix(struct decoder *d);

// control.c
void decode_branch(struct decoder *d);
void decode_switch(struct decoder *d);
op_fn *system_function(const struct function *f);
void decode_call(struct decoder *d);
void decode_stack(struct decoder *d);

// opcodes.c
bool in_list(const char *word, const char *const *list);
void decode_insn(struct decoder *d);
enum op_class classify(const struct decoder *d);
enum sync_kind sync_of(const struct decoder *d);
bool ends_block(const struct decoder *d);

// liveness.c
void visit_registers(struct decoder *d, const struct insn *insn, visit_fn *visit, void *data);
struct flow_block *find_blocks(struct decoder *d, size_t *count);
void number_watched(struct decoder *d);
void allocate_registers(struct decoder *d, struct flow_block *blocks, size_t count);

#endif
