// internal.h: what the files of decode/ share: tables, the decoder's state, and the functions of
// each file.
//
//   table.c       operations and modifiers by name (operations.def, modifiers.def)
//   spelling.c    the parts of an opcode as written: modifiers, type, space
//   operands.c    operands' places in the frame; emitting operations
//   liveness.c    basic blocks, and places in the register file
//   arithmetic.c  the decoders, decode_…, of the rows of opcodes.def: arithmetic,
//   control.c     jumps, calls, returns,
//   lanes.c       exchange between lanes, barriers,
//   moves.c       moves and conversions,
//   access.c      loads, stores, atomic operations,
//   matrix.c      matrix products and their operands,
//   async.c       asynchronous copies, mbarriers, fences
//   opcodes.c     takes an opcode apart: its row of opcodes.def, its modifiers, its class
//   decode.c      makes a struct program from a kernel and the functions that it calls
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
// extra/ has instructions and system calls that only other people's programs have.
#ifndef PTXSIM_DECODE_INTERNAL_H
#define PTXSIM_DECODE_INTERNAL_H

#include "decode.h"
#include "ptxsim/ops/ops.h"

#include <setjmp.h>
#include <string.h>

struct decoder;

// ---- Tables (table.c) ---------------------------------------------------------------------------

struct signature {          // the operands of an operation
    uint8_t operands;       // how many operands; 0: the operation has a decoder of its own
    uint8_t plain, a, b, c; // bytes for each lane; plain: as in struct op
};
extern const struct signature signatures[OP_COUNT];

// What runs after an instruction: up to CONTROL_BARRIER the next one in the text; from CONTROL_JUMP
// on, perhaps another.
enum control {
    CONTROL_NEXT,
    CONTROL_MEMBERS, // waits for the lanes in its mask; without a mask, for the whole warp
    CONTROL_GROUP,   // waits like CONTROL_MEMBERS, then perhaps for other warps: ends its block
    CONTROL_BARRIER, // waits for the CTA; its decoder sets the block's `barrier`
    CONTROL_JUMP,
    CONTROL_SWITCH,
    CONTROL_CALL, // returns to the next instruction
    CONTROL_LEAVE,
};

// What an instruction does with its first operand, if this operand is no address.
enum result { RESULT_READS, RESULT_WRITES, RESULT_UPDATES };

// Classes in opcodes.def that depend on type or space.
enum { CLASS_BY_TYPE = CLASSES, CLASS_LOAD, CLASS_STORE };

// Decodes an instruction to operations; fails if the instruction is invalid or unsupported.
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
    uint8_t bytes[6]; // bytes of the result, unless there is none, and of each argument
    bool heap;        // uses the heap of device code
};

// Tables of extra/, for programs other than the book's. They are weak symbols, since the library
// may be linked without extra/.
struct extra {
    const struct opcode *opcodes;
    const struct system_call *calls;
    int opcode_count, call_count;
};
extern const struct extra extra_instructions;

enum modifier {
    MOD_NONE, // a word that modifiers.def does not have
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
struct type { // a modifier as a type; bytes -1: no type, or a type without registers, such as s4
    int8_t bytes;
    uint8_t op_class;
    int8_t number, pair, matrix; // enum number; enum number of a pair's halves; enum matrix_type
};
extern const struct type modifier_types[MODIFIER_COUNT];

static inline bool is_pair(enum modifier type) // whether a type is f16x2 or the like
{
    return modifier_types[type].pair != NUMBER_NONE;
}

enum { NAME_SLOTS = 4096 }; // a power of two, much larger than the number of names
struct names {
    const void *list; // rows, whose first member is a name
    size_t row;       // bytes of a row
    int count;
    // A hash table of 1 + the row's index; collisions use the next free slot.
    int16_t slots[NAME_SLOTS];
    // Whether the table has been filled. Protected by the runtime's lock, which is held while
    // decoding.
    bool ready;
};
// The index of the row with this name; -1: the list has none.
int find_name(struct names *names, const char *text, size_t length);
int op_find(const char *name); // an enum op_id; -1: there is no such operation
enum modifier modifier_find(const char *text);

// ---- State --------------------------------------------------------------------------------------

enum { SCRATCH_SLOTS = 16, SCRATCH_BYTES = 256, MOST_MODIFIERS = 16, SPELLINGS = 256 };

// An opcode as written, for example "ld.shared.v2.u32", taken apart once and kept for all its uses.
struct spelling {
    const char *text;
    const struct opcode *opcode; // the opcode's row in opcodes.def
    const char *base;            // the first part, "ld"
    int count;
    const char *word[MOST_MODIFIERS]; // the other parts, "shared", "v2", "u32"
    enum modifier modifier[MOST_MODIFIERS];
    // A bit for each modifier, other than MOD_NONE, that the opcode has.
    uint64_t set[(MODIFIER_COUNT + 63) / 64];
    struct spelling *next; // the next spelling with the same hash
};

struct constant {
    uint64_t value;
    uint8_t bytes; // bytes for each lane; 0: a predicate
    uint32_t at;
};

struct decoder {
    struct program *program;
    struct module *module;
    struct kernel *kernel;
    const struct op_set *ops;
    struct callee *callee;
    struct function *function;
    const struct insn *insn; // the instruction that is being decoded
    const struct spelling *spelling;
    struct spelling *spellings[SPELLINGS]; // hash table of all spellings so far
    const struct spelling **spelled;       // the spelling of each instruction of the function
    uint32_t *slot;                        // for each register, its place in the frame
    int *block_of; // for each instruction, the block that begins there, or -1
    struct constant *constants;
    size_t constant_count, constant_capacity;
    size_t frame; // bytes of the frame in use
    uint32_t scratch_at;
    int scratch_used;
    size_t op_capacity, block_capacity, place_capacity;
    const struct call_operands *call_end;
    // For each register, its number among those that wgmma uses, or -1; NULL: the function has no
    // wgmma.
    int *watched;
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
__attribute__((noreturn)) void unsupported(struct decoder *d); // fails, naming the instruction
// Fails unless the module's target is at least `arch`, as ptxas requires for this instruction.
void needs_arch(struct decoder *d, int arch);

// ---- The parts of an opcode as written (spelling.c) ---------------------------------------------

// The spelling of an instruction, from d->spelled.
const struct spelling *spelling_of(const struct decoder *d, const struct insn *insn);
bool is_wgmma(const struct spelling *s);

// The functions below read the instruction that is being decoded.
static inline bool has(const struct decoder *d, enum modifier m)
{
    return d->spelling->set[m / 64] >> m % 64 & 1;
}
enum modifier modifier_at(const struct decoder *d, int index); // MOD_NONE if there is no such index
enum modifier last_modifier(const struct decoder *d); // the last modifier, in most opcodes the type
// Whether the type at the end of the opcode is signed.
bool is_signed(const struct decoder *d);
bool is_store(const struct decoder *d);
enum space memory_space(const struct decoder *d); // the space that the opcode names

// ---- An instruction's opcode (opcodes.c) --------------------------------------------------------

// The row of an opcode as written; for an unknown one, a row whose decoder refuses it.
const struct opcode *opcode_find(const char *text);
// The spelling of an instruction, made when its opcode is first used; fails on too many modifiers.
const struct spelling *spell(struct decoder *d, const struct insn *insn);
void spell_function(struct decoder *d); // fills d->spelled for all instructions of d->function
// The class of the instruction that is being decoded.
enum op_class classify(const struct decoder *d);
void decode_insn(struct decoder *d);

// ---- Operands and operations (operands.c) -------------------------------------------------------

struct basic_block *this_block(struct decoder *d); // the block being filled, the program's last
struct insn_info *this_insn(struct decoder *d);
// These return places in the frame. take: reserves new bytes. constant: a place with `value` in
// each lane (bytes 0: a predicate). scratch: 256 bytes for intermediate values of one instruction;
// the next instruction reuses them.
uint32_t take(struct decoder *d, size_t bytes, size_t align);
uint32_t constant(struct decoder *d, uint64_t value, int bytes);
uint32_t scratch(struct decoder *d);
// These add an operation: emit by its function, emit_id by its enum op_id. It runs under the
// instruction's guard. plain: as in struct op. The pointer is valid until the next operation is
// added.
struct op *emit(struct decoder *d, op_fn *run, int plain);
struct op *emit_id(struct decoder *d, int id);
struct op *emit_plain(struct decoder *d, int id, uint32_t to, uint32_t a, uint32_t b, uint32_t c);
// The bits of a literal, `bytes` wide.
uint64_t immediate(struct decoder *d, const struct operand *o, int bytes);
int special_find(const char *name); // an enum special; -1: there is none
bool is_local(const struct decoder *d, const struct variable *v);
// An operand of the instruction by its index; fails if there is none.
const struct operand *operand(struct decoder *d, int index);
// The place in the frame of an operand of `bytes` bytes for each lane (0: a predicate). source: of
// one that is read; destination: of one that is written.
uint32_t source(struct decoder *d, const struct operand *o, int bytes);
uint32_t destination(struct decoder *d, const struct operand *o, int bytes);
// Like source, for an instruction that reads the low bytes of a register that may be wider than
// `least`; *width: the register's bytes.
uint32_t wide_source(struct decoder *d, const struct operand *o, int least, uint8_t *width);
// The place of the mask of lanes that an instruction waits for, which is also stored with its
// block.
uint32_t members_source(struct decoder *d, const struct operand *o);
// The value of an operand that must be a literal and not negative: how many groups a wait may leave
// pending.
int64_t count_operand(struct decoder *d, int index);

struct address { // an address: [register + offset]
    uint32_t reg;
    int64_t offset;
    bool wide; // the register has 64 bits
    enum space space;
};
// The address of an operand [reg + offset] or [name + offset], in the space that the opcode names.
struct address address_operand(struct decoder *d, const struct operand *o, enum space space);
void set_address(struct op *op, const struct address *address);
// need_atomic: the atomic operation that the opcode names; fails if it names none. set_atomic:
// fills in an operation's atomic, number, bytes and is_signed, by the type that is the last
// modifier.
enum atomic need_atomic(struct decoder *d);
void set_atomic(struct decoder *d, struct op *op);

// Whether the opcode's word at `index` is `word`.
static inline bool is_word(const struct decoder *d, int index, const char *word)
{
    return index < d->spelling->count && !strcmp(d->spelling->word[index], word);
}
// A type's bytes; fails if the modifier is not a type.
int need_type(struct decoder *d, enum modifier type);
// The operation whose name is these parts, for example OP_setp_lt_s32 for "setp", "lt", "s32";
// empty parts are skipped. -1: there is none.
int find_parts(const char *a, const char *b, const char *c);
int find_spelled(const struct decoder *d); // the operation whose name is the whole opcode

// ---- The decoders -------------------------------------------------------------------------------

#define OPCODE(name, how, ...) decode_fn decode_##how;
#include "opcodes.def"
#undef OPCODE
decode_fn decode_unknown; // fails: the opcode is unknown

// access.c
// Notes the bytes of an access: the smallest access of a kernel sets the size of a cell in race
// checks.
void note_size(struct decoder *d, int bytes);
// Reads the operand at `index` as the cache policy of an access, if the opcode has .L2::cache_hint.
// Fails if that operand is missing, or is not the last.
void policy_operand(struct decoder *d, int index);

// control.c: the system call that provides a function without a body, such as vprintf; NULL: there
// is none.
const struct system_call *system_function(const struct function *f);

// matrix.c
struct shape {
    int m, n, k;
};
// The shape that the opcode names, for example m16n8k16; *at: the index of that modifier.
struct shape need_shape(struct decoder *d, int *at);
// Reads the types of D, A, B and C, which follow the shape. The opcode of a product of f16 may name
// only the types of D and C.
void product_types(struct decoder *d, int shape_at, enum matrix_type types[4]);
// Whether PTX has a product with these types of D, A, B and C.
bool types_agree(const enum matrix_type types[4]);
int integer_bits(enum matrix_type type); // bits of an element of an integer type; 0: another type
bool is_8bit_float(enum matrix_type type);
// Fills in *f for a matrix ('a', 'b' or 'c') in the registers of an operand; to: the operand is
// written.
void matrix_operand(struct decoder *d, const struct operand *o, struct matrix *f,
                    enum matrix_type type, char which, struct shape s, bool to);

// ---- Blocks and registers (liveness.c) ----------------------------------------------------------

struct flow_block {
    size_t first, end;        // indices of instructions: first, and one past the last
    int next[2];              // blocks that may follow; -1: none
    const struct label *many; // brx: the list of its targets
    bool exits;               // control never runs on into the next block
    enum sync_kind sync;
    // Sets of registers: used before they are defined, defined, live at the block's start.
    uint64_t *use, *def, *in;
};

typedef void visit_fn(struct decoder *d, int reg, bool defines, void *data);

void visit_registers(struct decoder *d, const struct insn *insn, visit_fn *visit, void *data);
// The blocks of d->function; fills d->block_of.
struct flow_block *find_blocks(struct decoder *d, size_t *count);
// Whether some instruction of the function uses the register of an operand.
bool is_used(struct decoder *d, const struct operand *o);
// Whether a load is in a loop, and its value only decides branches, as that of a polled flag does.
bool asks_again(struct decoder *d, const struct insn *load);
void number_watched(struct decoder *d); // fills d->watched
// Fills d->slot.
void allocate_registers(struct decoder *d, struct flow_block *blocks, size_t count);

#endif
