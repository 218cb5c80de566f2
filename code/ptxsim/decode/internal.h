// internal.h: what the files of decode/ share: the tables, the decoder's state, and their functions
// by file.
//
//   table.c       operations and modifiers by name (operations.def, modifiers.def)
//   spelling.c    what an opcode that has been taken apart says: modifiers, type, space
//   operands.c    places of operands; operations emitted
//   liveness.c    basic blocks, and places in the register file
//   arithmetic.c  the decoders, decode_…, of the rows of opcodes.def: arithmetic,
//   control.c     jumps, calls, returns,
//   lanes.c       what lanes do together, barriers,
//   moves.c       moves and conversions,
//   access.c      loads, stores, atomics,
//   matrix.c      matrix products and their operands,
//   async.c       copies that are waited for
//   opcodes.c     an opcode taken apart: its row of opcodes.def, its modifiers; its class
//   decode.c      a kernel and the functions it calls -> struct program
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
// extra/ has instructions and system calls that only other people's programs have.
#ifndef PTXSIM_DECODE_INTERNAL_H
#define PTXSIM_DECODE_INTERNAL_H

#include "decode.h"
#include "ptxsim/ops/ops.h"

#include <setjmp.h>
#include <string.h>

struct decoder;

// ---- Tables (table.c) ---------------------------------------------------------------------------

struct signature {          // of an operation
    uint8_t operands;       // 0: has a decoder of its own
    uint8_t plain, a, b, c; // bytes a lane; plain as in struct op
};
extern const struct signature signatures[OP_COUNT];

// What runs after an instruction. From CONTROL_JUMP on: not always the next one.
enum control {
    CONTROL_NEXT,
    CONTROL_MEMBERS, // waits for the lanes in its mask, or without a mask for the whole warp
    CONTROL_GROUP,   // like CONTROL_MEMBERS, and then perhaps for other warps: ends its block
    CONTROL_BARRIER, // waits for the CTA; its decoder sets the block's `barrier`
    CONTROL_JUMP,
    CONTROL_SWITCH,
    CONTROL_CALL, // returns to the next instruction
    CONTROL_LEAVE,
};

// What an instruction does to its first operand, unless that is an address.
enum result { RESULT_READS, RESULT_WRITES, RESULT_UPDATES };

enum { CLASS_BY_TYPE = CLASSES, CLASS_LOAD, CLASS_STORE }; // see opcodes.def

// Makes an instruction's operations, or fails.
typedef void decode_fn(struct decoder *d);

struct opcode { // a row of opcodes.def
    const char *name;
    decode_fn *decode;
    uint8_t op_class;
    enum control control;
    enum result result;
    enum family family;
};

// A function that the device's runtime provides to every kernel, without a body in the module.
struct system_call {
    const char *name;
    op_fn *run;
    uint8_t bytes[6]; // of the result, if there is one, and of each argument
    bool heap;        // uses the heap of device code
};

// Tables of extra/, for programs other than the book's. A library may be linked without extra/: so
// these are declared weak.
struct extra {
    const struct opcode *opcodes;
    const struct system_call *calls;
    int opcode_count, call_count;
};
extern const struct extra extra_instructions;

enum modifier {
    MOD_NONE, // not in modifiers.def
#define TYPE(name, ...) MOD_##name,
#define MODIFIER(name) MOD_##name,
#define MODIFIER_AS(name, text) MOD_##name,
#include "modifiers.def"
#undef TYPE
#undef MODIFIER
#undef MODIFIER_AS
    MODIFIER_COUNT
};
extern const char *const modifier_names[MODIFIER_COUNT];

enum { NUMBER_NONE = -1, MATRIX_NONE = -1 };
struct type { // a modifier as a type; bytes -1 and no numbers if it is none
    int8_t bytes;
    uint8_t op_class;
    int8_t number, pair, matrix; // enum number, enum matrix_type
};
extern const struct type modifier_types[MODIFIER_COUNT];

static inline bool is_pair(enum modifier type) // f16x2 and the like
{
    return modifier_types[type].pair != NUMBER_NONE;
}

enum { NAME_SLOTS = 4096 }; // a power of two, well above the number of names
struct names {
    const void *list; // rows that begin with a name
    size_t row;       // bytes of a row
    int count;
    int16_t slots[NAME_SLOTS]; // index in the list + 1, at the name's hash or the next free slot
    bool ready;                // set under the runtime's lock, which decoding holds
};
// A name's index; -1 if the list does not have it.
int find_name(struct names *names, const char *text, size_t length);
int op_find(const char *name); // an enum op_id, -1: there is none
enum modifier modifier_find(const char *text);

// ---- State --------------------------------------------------------------------------------------

enum { SCRATCH_SLOTS = 16, SCRATCH_BYTES = 256, MOST_MODIFIERS = 16, SPELLINGS = 256 };

// An opcode as written, "ld.shared.v2.u32", taken apart once for all its uses.
struct spelling {
    const char *text;
    const struct opcode *opcode; // its row of opcodes.def
    const char *base;            // "ld"
    int count;
    const char *word[MOST_MODIFIERS]; // "shared", "v2", "u32"
    enum modifier modifier[MOST_MODIFIERS];
    uint64_t set[(MODIFIER_COUNT + 63) / 64]; // a bit for each word except MOD_NONE
    struct spelling *next;                    // with the same hash
};

struct constant {
    uint64_t value;
    uint8_t bytes; // bytes of a lane; 0: a predicate
    uint32_t at;
};

struct decoder {
    struct program *program;
    struct module *module;
    struct kernel *kernel;
    const struct op_set *ops;
    struct callee *callee;
    struct function *function;
    const struct insn *insn; // being decoded
    const struct spelling *spelling;
    struct spelling *spellings[SPELLINGS]; // all of them so far, by hash
    const struct spelling **spelled;       // for each instruction of the function
    uint32_t *slot;                        // for each register its place in the frame
    int *block_of; // for each instruction the block that starts there, or -1
    struct constant *constants;
    size_t constant_count, constant_capacity;
    size_t frame; // frame bytes used so far
    uint32_t scratch_at;
    int scratch_used;
    size_t op_capacity, block_capacity, place_capacity;
    const struct call_operands *call_end;
    int *watched; // for each register its number among those used by wgmma, or -1; NULL: none
    bool *accumulates;
    int watched_words;
    struct arena temporary; // memory for decoding a function, freed with the decoder
    jmp_buf failed;
    char *why;
    size_t why_size;
};

// Ends the decoding of the kernel with one line, "kernel, PTX line: text".
__attribute__((noreturn, format(printf, 2, 3))) void fail(struct decoder *d, const char *format,
                                                          ...);
__attribute__((noreturn)) void unsupported(struct decoder *d); // names the instruction
// Fails unless the target is new enough for ptxas to accept this.
void needs_arch(struct decoder *d, int arch);

// ---- An opcode that has been taken apart (spelling.c) ----------------------------------------------

const struct spelling *spelling_of(const struct decoder *d,
                                   const struct insn *insn); // out of d->spelled
bool is_wgmma(const struct spelling *s);

// The following functions are about the instruction being decoded.
static inline bool has(const struct decoder *d, enum modifier m)
{
    return d->spelling->set[m / 64] >> m % 64 & 1;
}
enum modifier modifier_at(const struct decoder *d, int index); // MOD_NONE past the ends
enum modifier last_modifier(const struct decoder *d);          // most opcodes end in their type
bool is_signed(const struct decoder *d);                       // by the type at its end
bool is_store(const struct decoder *d);
enum space memory_space(const struct decoder *d); // the space that the opcode names

// ---- An instruction's opcode (opcodes.c) --------------------------------------------------------

// The row of an opcode as written; for an unknown one, a row whose decoder refuses it.
const struct opcode *opcode_find(const char *text);
// The spelling of an instruction, made when its opcode is first used; fails on too many modifiers.
const struct spelling *spell(struct decoder *d, const struct insn *insn);
void spell_function(struct decoder *d); // all instructions of d->function: fills d->spelled
enum op_class classify(const struct decoder *d); // of the instruction being decoded
void decode_insn(struct decoder *d);

// ---- Operands and operations (operands.c) -------------------------------------------------------

struct basic_block *this_block(struct decoder *d); // the program's last one, which is being filled
struct insn_info *this_insn(struct decoder *d);
// Each returns a place in the frame. take: a new one. constant: one with a value for each lane
// (bytes 0: a predicate). scratch: 256 bytes for intermediate values, which the next instruction
// uses again.
uint32_t take(struct decoder *d, size_t bytes, size_t align);
uint32_t constant(struct decoder *d, uint64_t value, int bytes);
uint32_t scratch(struct decoder *d);
// Adds an operation, under the instruction's guard unless `plain`; by its function, or by its enum
// op_id. The pointer is valid until the next one is added.
struct op *emit(struct decoder *d, op_fn *run, int plain);
struct op *emit_id(struct decoder *d, int id);
struct op *emit_plain(struct decoder *d, int id, uint32_t to, uint32_t a, uint32_t b, uint32_t c);
uint64_t immediate(struct decoder *d, const struct operand *o, int bytes); // the bits of a literal
int special_find(const char *name); // an enum special; -1: there is none
bool is_local(const struct decoder *d, const struct variable *v);
// The instruction's operand; fails if it has fewer.
const struct operand *operand(struct decoder *d, int index);
// Places in the frame of operands with `bytes` a lane (0: a predicate).
uint32_t source(struct decoder *d, const struct operand *o, int bytes);
uint32_t destination(struct decoder *d, const struct operand *o, int bytes);
// A source in its own register's width, for instructions that take the low bytes of a wider
// register.
uint32_t wide_source(struct decoder *d, const struct operand *o, int least, uint8_t *width);
// The mask of the lanes that an instruction waits for; it is stored with its block.
uint32_t members_source(struct decoder *d, const struct operand *o);
// A literal that is not negative: how many groups a wait may leave.
int64_t count_operand(struct decoder *d, int index);

struct address { // [register + offset]
    uint32_t reg;
    int64_t offset;
    bool wide; // the register has 64 bits
    enum space space;
};
// The address of an operand [reg + offset] or [name + offset], in the space that the opcode names.
struct address address_operand(struct decoder *d, const struct operand *o, enum space space);
void set_address(struct op *op, const struct address *address);
// need_atomic: the opcode's atomic operation; refuses an opcode without one. set_atomic: sets the
// operation's atomic, its number, bytes and sign by the type of the last modifier.
enum atomic need_atomic(struct decoder *d);
void set_atomic(struct decoder *d, struct op *op);

static inline bool is_word(const struct decoder *d, int index, const char *word) // of the opcode
{
    return index < d->spelling->count && !strcmp(d->spelling->word[index], word);
}
int need_type(struct decoder *d, enum modifier type); // a type's bytes; refuses what is not a type
// "setp", "lt", "s32" -> OP_setp_lt_s32; -1 if there is none. Empty parts are skipped.
int find_parts(const char *a, const char *b, const char *c);
int find_spelled(const struct decoder *d); // the operation whose name is the whole opcode

// ---- The decoders -------------------------------------------------------------------------------

#define OPCODE(name, how, ...) decode_fn decode_##how;
#include "opcodes.def"
#undef OPCODE
decode_fn decode_unknown; // refuses the opcode

// access.c
// An access of `bytes`: the smallest one of a kernel makes the cells of the race checks.
void note_size(struct decoder *d, int bytes);
// The cache policy of an access, its last operand, at `index`, if the opcode has .L2::cache_hint;
// fails if that operand is missing, or is not the last.
void policy_operand(struct decoder *d, int index);

// control.c: the operation for vprintf and the like, which have no body in the module; else NULL.
const struct system_call *system_function(const struct function *f);

// matrix.c
struct shape {
    int m, n, k;
};
// The shape that the opcode names, m16n8k16; *at: the index of that modifier.
struct shape need_shape(struct decoder *d, int *at);
// The types of D, A, B and C, which follow the shape; for f16 those of A and B are not written.
void product_types(struct decoder *d, int shape_at, enum matrix_type types[4]);
// Whether there is a product with these types of D, A, B and C.
bool types_agree(const enum matrix_type types[4]);
int integer_bits(enum matrix_type type); // bytes of an element, for integer types; 0: another type
bool is_8bit_float(enum matrix_type type);
// A matrix ('a', 'b' or 'c') in the registers of an operand. to: as a destination.
void matrix_operand(struct decoder *d, const struct operand *o, struct matrix *f,
                    enum matrix_type type, char which, struct shape s, bool to);

// ---- Blocks and registers (liveness.c) ----------------------------------------------------------

struct flow_block {
    size_t first, end;        // instructions
    int next[2];              // blocks that may follow; -1: none
    const struct label *many; // for a brx: the list of its targets
    bool exits;               // control never reaches the next block
    enum sync_kind sync;
    uint64_t *use, *def,
        *in; // sets of registers: used before definition, defined, live at the start
};

typedef void visit_fn(struct decoder *d, int reg, bool defines, void *data);

void visit_registers(struct decoder *d, const struct insn *insn, visit_fn *visit, void *data);
struct flow_block *find_blocks(struct decoder *d, size_t *count); // of d->function; d->block_of
// Whether some instruction of the function uses the register of an operand.
bool is_used(struct decoder *d, const struct operand *o);
// Whether a load is in a loop and its value only decides branches, like the load of a flag.
bool asks_again(struct decoder *d, const struct insn *load);
void number_watched(struct decoder *d);                                              // d->watched
void allocate_registers(struct decoder *d, struct flow_block *blocks, size_t count); // d->slot

#endif
