// module.h: what parse.c makes of a PTX text. All is kept as written: an opcode is a string, and
// operands have no types.
#ifndef PTXSIM_MODULE_H
#define PTXSIM_MODULE_H

#include "ptxsim/base/base.h"
#include "ptxsim/ptxsim.h"

enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST };

// Where the windows of generic addresses begin, far from host addresses. Global memory has no
// window.
#define WINDOW_SHIFT 56
#define SHARED_WINDOW (UINT64_C(1) << WINDOW_SHIFT)
#define LOCAL_WINDOW (UINT64_C(2) << WINDOW_SHIFT)
#define PARAM_WINDOW (UINT64_C(3) << WINDOW_SHIFT) // a kernel's parameters (__grid_constant__)
#define CODE_WINDOW (UINT64_C(4) << WINDOW_SHIFT)  // function addresses, for indirect calls

// The bits of a shared address from RANK_SHIFT on are a CTA's rank in the cluster, plus 1; 0: the
// thread's own CTA.
#define RANK_SHIFT 24
enum { MOST_CLUSTER = 16 }; // most CTAs of a cluster

enum operand_kind {
    OPERAND_REGISTER,  // reg
    OPERAND_IMMEDIATE, // value; is_float: the bits of an f64, to be narrowed by decode/
    OPERAND_NAME,      // a variable, function, label or special register, + value
    // [reg + value], [name + value] or [value]: reg is -1 if there is no register, name NULL if
    // there is no name. `count` coordinates follow.
    OPERAND_ADDRESS,
    OPERAND_VECTOR, // {…} or (…): `count` operands, from `elements` on
    OPERAND_SINK,   // _
};

struct operand {
    enum operand_kind kind;
    bool is_float, negated; // negated: whether it is a predicate as !%p
    int reg;
    int pair; // the second register of %r|%p, else -1
    int64_t value;
    const char *name;
    const char *part; // part of a register in video instructions, "b3" of %r1.b3; else NULL
    struct operand *elements;
    int count;
};

struct source_line {
    const char *file;
    int line;
    // Where the line's function is inlined, " (called at FILE:LINE, …)"; "": it is not inlined.
    const char *callers;
    bool in_library; // whether the instruction itself is in CUB, Thrust or CUTLASS
};

struct insn {
    const char *opcode; // the opcode with all modifiers: "ld.shared.v2.u32"
    int guard;          // the predicate register of its guard; -1: none
    bool guard_negated;
    int count;
    struct operand *operands;
    struct source_line at; // the line of the user's file, not of one of the toolkit's headers
    int ptx_line;
    int scope; // the block { } in which names are looked up
};

// Bytes of a register for each lane: 2, 4, 8 or 16; 0: a predicate, kept as one bit for each lane.
struct reg {
    uint8_t bytes;
};

enum linkage {
    LINK_LOCAL, // visible in its own text only
    LINK_GLOBAL,
    LINK_EXTERN, // declared here, defined in another text
};

struct variable {
    const char *name;
    enum space space;
    size_t align, size;
    size_t offset; // offset in shared memory, in the parameters, or in the frame's local memory
    bool dynamic;  // whether it is declared as extern .shared []
    bool is_param; // whether it is a parameter of the kernel or function
    void *address; // the memory of a .global or .const variable
    uint8_t *init; // `size` bytes of initial values; or NULL
    struct relocation *relocations;
    int scope; // the block { } that declares it
    int unit;  // the text that declares it, by number
    enum linkage linkage;
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
    size_t insn; // the instruction that follows it
    int scope;
    const char **targets; // the names after .branchtargets or .calltargets; else NULL
    int target_count;
};

struct function {
    const char *name;
    bool is_kernel, has_body;
    int unit; // the text that it is in, by number
    enum linkage linkage;
    struct module *module;
    struct reg *regs;
    size_t reg_count, reg_capacity;
    struct insn *insns;
    size_t insn_count, insn_capacity;
    struct label *labels;
    size_t label_count, label_capacity;
    struct variable **variables; // returned values, parameters, then the body's
    size_t variable_count, variable_capacity;
    int *outer; // for each scope, the enclosing one; -1: the scope is the body
    size_t scope_count, scope_capacity;
    struct function *alias; // the function that an .alias stands for; or NULL
    int params, returns;    // how many a .func has; `variables` begins with the returned values
    int max_threads;
    bool bounded;          // whether the PTX gives max_threads
    int most_registers;    // .maxnreg; 0: not given
    unsigned cluster[3];   // .reqnctapercluster; 0: not given
    char unsupported[256]; // why the function cannot be decoded; "": it can
};

struct alias { // from `.alias name, of;`
    const char *name, *of;
    int unit;
};

struct module {
    struct arena arena;
    int arch; // the number in .target: 89 for sm_89
    int units;
    const char **files;
    size_t file_count;
    struct variable **variables;
    size_t variable_count, variable_capacity;
    struct function **functions;
    size_t function_count, function_capacity;
    struct alias *aliases;
    size_t alias_count, alias_capacity;
    struct kernel *kernels;
    size_t kernel_count;
};

// Frees what module_parse has made; module_free (decode/) frees the programs of the kernels first.
void module_drop(struct module *module);
// The function or variable of a name, as the text number `unit` sees it: first a local one of that
// text, then a definition in any text, then a declaration; NULL: the name is unknown. For an alias,
// the function that it stands for.
struct function *module_function(struct module *module, int unit, const char *name);
struct variable *module_variable(struct module *module, int unit, const char *name);
// The variable, or label, of a name used by an instruction in `scope`; NULL: the function has none.
struct variable *function_variable(const struct function *function, int scope, const char *name);
const struct label *function_label(const struct function *function, int scope, const char *name);

struct kernel {
    struct function *function;
    struct kernel_info info;
    struct program *program; // decoded at the first launch
    char error[384];         // why the kernel cannot be launched; "": it can
};

#endif
