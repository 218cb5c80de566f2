// ptxsim.h: the public face of the PTX functional simulator, and the types that its floors share.
//
// Each folder uses those above it in this list and none below (code/tools/check-floors holds it), and has
// one header that says what it offers:
//
//   base/     base.h     arenas, texts, names of files; the device's memory and its bounds
//   parse/    module.h   PTX text -> struct module: kernels, functions, variables, instructions
//   machine/  machine.h  what operations run on: programs (program.h), warps, CTAs, host threads;
//                        faults, names, traces, wavefronts, the floors of an L4
//   races/    races.h    which accesses to memory nothing orders
//   ops/      ops.h      the operations on 32 lanes: arithmetic, memory, control, copies, matrices;
//                        isa/ has those that are compiled for each instruction set of the host
//   decode/   decode.h   struct module -> struct program: operations, places of operands
//   exec/     exec.h     runs a grid: CTAs over the host's cores, the warps of a CTA in turns, the
//                        lanes of a warp together; deadlocks; what the counters add up to
//   capi/     capi.h     libptxsim.so: the same for programs in other languages, without a CUDA runtime
//   cudart/   runtime.h  the replacement of libcudart.so.13
//   cudart12/            libcudart.so.12: hands calls on to it
//   ops/extra/, decode/extra/, cudart/extra/  what only other people's programs need: textures, sparse matrices,
//                        launches by the device, the driver's library. The book's programs run without.
//
// tool/ has programs that read what the simulator reports, test/ the tests. Fat binaries are read by
// code/image, which the workbench uses, too.
//
// A functional simulator that counts, not a timing model: it never prints a simulated time.
#ifndef PTXSIM_H
#define PTXSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PTXSIM_VERSION "0.1"

enum { WARP = 32 };

// ---- Modules and kernels (parse/, decode/) ------------------------------------------------------

struct module;
struct kernel;

// Parses a NUL-terminated PTX text. On an error returns NULL and one line in `why`: the PTX line,
// the token, what was expected. An instruction that is not supported is an error of its kernel,
// reported when that kernel is launched (so that unused code does no harm).
struct module *module_parse(const char *ptx, char *why, size_t size);
// Like module_parse, for several texts (-rdc=true: one for each source file), whose names are
// linked.
struct module *module_link(char *const *texts, size_t count, char *why, size_t size);
void module_free(struct module *module);
struct kernel *module_kernel(struct module *module, const char *mangled_name);
struct kernel *module_kernel_at(struct module *module, size_t i); // NULL: there are not as many
// The index-th function that is declared but nowhere defined, by its name; NULL: there are not so
// many.
const char *module_missing(struct module *module, size_t index);
// Address and size of a .global or .const variable, for cudaMemcpyToSymbol; false if unknown.
bool module_symbol(struct module *module, const char *name, void **address, size_t *size);

struct kernel_info {
    const char *name; // mangled
    int params;
    const size_t *param_offsets; // of each parameter in the parameter buffer, bytes
    const size_t *param_sizes;
    size_t param_bytes;
    size_t static_shared_bytes;
    size_t local_bytes;  // of the PTX's .local depot
    int max_threads;     // .maxntid product, or 1024
    bool bounded;        // there is a .maxntid
    int most_registers;  // .maxnreg; 0: there is none
    unsigned cluster[3]; // .reqnctapercluster: CTAs of a cluster; 0: the launch says
};
const struct kernel_info *kernel_info(const struct kernel *kernel);
// Estimated registers of a thread: the most that are live at one point of the PTX. 0: it cannot be
// launched.
int kernel_registers(struct kernel *kernel);
// Whether it lets dependent kernels begin (griddepcontrol.launch_dependents).
bool kernel_starts_dependents(struct kernel *kernel);
// "attention" of "_ZN4book9attentionILi4EEEvPf".
void kernel_base_name(const char *mangled, char *name, size_t size);

// ---- Launches (exec/) ---------------------------------------------------------------------------

// Instruction classes, by executed warp instruction of the PTX.
enum op_class {
    CLASS_INT,
    CLASS_FP32,
    CLASS_FP64,
    CLASS_HALF,
    CLASS_CONVERT,
    CLASS_MUFU,
    CLASS_TENSOR,
    CLASS_SHARED_LOAD,
    CLASS_SHARED_STORE,
    CLASS_GLOBAL_LOAD,
    CLASS_GLOBAL_STORE,
    CLASS_LOCAL,
    CLASS_CONST,
    CLASS_ATOMIC,
    CLASS_SHUFFLE,
    CLASS_BRANCH,
    CLASS_BARRIER,
    CLASS_COPY_ASYNC,
    CLASS_MOVE,
    CLASS_OTHER,
    CLASSES
};
extern const char *const op_class_names[CLASSES]; // "int", "fp32", ... "shared_load", ...

// What is counted for a kernel and for each of its source lines: counts.def says what each counter
// is. All are exact sums over the launch, the same in every run and for any number of cores.
struct counts {
#define COUNTER(name, title, what) uint64_t name;
#define CLASS_COUNTER(name, op_class, title, what)
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    uint64_t classes[CLASSES]; // warp instructions by class
    // Substitutes for what is counted; these are in no report:
    uint64_t
        mufu_substitutes; // by thread: quotients, remainders, roots, whose machine code asks that unit, and doubles
    uint64_t signals; // warps that signal progress: barriers, mbarriers, strong stores, atomics
    uint64_t integer_products; // warp instructions: products of two integers in registers
};

// The counter of that name ("barriers", "async_copies"); NULL: counts.def has none.
const uint64_t *counts_find(const struct counts *counts, const char *name);

struct line_counts {  // one source line
    const char *file; // as in the PTX's .file (the chapter, through #line)
    int line;
    struct counts counts;
};

enum fault_kind {
    FAULT_NONE,
    FAULT_UNSUPPORTED,
    FAULT_OUT_OF_BOUNDS,
    FAULT_MISALIGNED,
    FAULT_UNINITIALISED,
    FAULT_RACE,
    FAULT_DEADLOCK,
    FAULT_ENDLESS,     // a loop in which nothing changes any more, or the launch's budget is spent
    FAULT_INTERRUPTED, // stopped by launch.tick
    FAULT_DIVERGENT_BARRIER,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_INTERNAL,
    FAULT_COPY, // these three are made by the host (cudart/)
    FAULT_FREE,
    FAULT_ORDER
};

const char *fault_kind_name(enum fault_kind kind); // "race", "out of bounds"

// The place of an access, and its thread.
struct fault_place {
    const char *file;    // NULL: the PTX names no source line
    int line, ptx_line;  // ptx_line: if `file` is NULL; 0: not known either
    const char *callers; // of the line, as next_caller (base.h) reads them; "": it is not inlined
    bool by_thread;      // false: block and thread are not known
    unsigned block[3], thread[3];
};

struct fault {
    enum fault_kind kind;
    char kernel[128]; // "": it belongs to no kernel
    struct fault_place at,
        other;       // other: for a race, the other access; not by_thread: there is none
    char text[2048]; // one line for the user: kernel, place, block, thread, and what happened
    size_t what;     // where in `text` what happened begins
};

// A fault as one line of JSON, for who runs programs: tool/ by way of PTXSIM_FAULTS, and python/.
//
//   {"kind": fault_kind_name, "kernel": NAME, "file": FILE, "line": N, "callers": ["FILE:LINE", ...], "block": [x, y, z],
//    "thread": [x, y, z], "other": {"thread": ..., "block": ..., "file": ..., "line": ...}, "what": TEXT, "text": TEXT}
//
// "callers" begin with the innermost; other.block is there where it is another block; "ptx_line": N stands in place of a
// line of the source; "what" is the end of "text". What is not known is left out.
void fault_write(FILE *file, const struct fault *fault);

struct gpu;

// A request of a thread to the device's runtime, to be done when its grid has ended: another grid,
// or a copy.
struct child {
    const struct kernel *kernel; // NULL: a copy
    unsigned grid[3], block[3];
    size_t dynamic_shared_bytes;
    void *params; // parameters of a launch, in the heap of device code; freed by whoever runs it
    void *to;     // of a copy
    const void *from;
    size_t bytes;
};

// An instruction's accesses to memory that is noted (base/notes.c): all are within [start, end).
struct touched_span {
    uint64_t start, end;
    unsigned kinds; // enum note, a bit each; 0: nothing
};
struct touched {                // by a launch
    struct touched_span *spans; // by instruction; freed by whoever asks
    size_t count;
    bool starts_dependents; // a thread has executed griddepcontrol.launch_dependents
};

// An experiment: some executions are spoiled, and a comparison of the outputs shows whether their
// results were used. An execution is one operation run by a warp; for stores, it is a CTA. A CTA's
// executions are numbered from 0 in the order in which they run; CTAs are numbered through all
// launches that get the same struct ablation.
enum spoils {
    SPOIL_PRODUCTS, // mma, wmma, wgmma: the result has the other sign (integers: each bit is inverted)
    SPOIL_COPIES, // cp.async, bulk copies: each byte that they deliver has its highest bit turned over
    SPOIL_ATOMICS, // in global memory: the result is one more; without one, no update is made
    SPOIL_STORES,  // a CTA's stores to global memory are left out
    SPOIL_LOADS, // from shared memory: each byte that they find there has its highest bit turned over
    SPOIL_LOOKUPS, // nothing is spoiled; what may look something up is noted, with the places that it asks
    SPOILS
};
enum { SPOILED_MOST = 16 };
// What an execution works on. of: hashes: for a product, of its two operands; for a cp.async or a
// load, twice of the bytes that it brings; for an atomic operation, of its address, and of that
// with the old value; for a possible lookup, twice of its instruction and the places that its lanes
// ask. work: a product's flops (0 for integers, which no attention uses); a copy's bytes; 1; a
// load's bytes stored by other threads, each counted once; the lanes that look up.
struct execution {
    uint64_t of[2], cta;
    uint32_t work;
    float under_way; // of a cp.async: sum of bytes times its warp's instructions until they arrived
};
struct ablation {
    enum spoils what;
    int count; // number of spoiled executions
    struct chosen {
        uint64_t cta, at;
    } chosen[SPOILED_MOST];
    uint64_t ctas;  // CTAs of the launches before
    bool logs;      // each execution is noted in `log`, which grows; freed by whoever asks
    uint64_t drawn; // SPOIL_LOOKUPS: which CTAs are noted, that stand for the others
    struct execution *log;
    size_t logged, room;
    // If `logs`: for each two bytes of global memory from `watched` on, 1 + the CTA that stored
    // there last. NULL: not wanted.
    uint64_t watched;
    size_t writers_count;
    uint64_t *writers;
    // Signals (struct counts) of warps that then ask at the same address: they meet others there,
    // as at a barrier. A warp that only passes something on asks elsewhere. If `logs`; signals
    // without a question so far are in a list, freed like the log.
    uint64_t meets;
    struct signalled {
        const void *warp;
        uint64_t address;
        uint32_t times;
    } * signalled;
    size_t signalled_count, signalled_room;
    uint64_t work; // warp instructions of all CTAs
    // SPOIL_STORES, if `logs`: loads from two parts of global memory, K and V: sectors, each
    // counted once, and those of the CTA that loads most.
    struct part_of_memory {
        uint64_t first, bytes;
        uint8_t *seen; // of each sector, whether it was loaded
    } parts[2];
    uint64_t distinct, busiest;
    // SPOIL_PRODUCTS, if `logs`: sectors that are loaded from global memory, and of these the ones
    // loaded by warps that also make products.
    uint64_t loaded, loaded_beside;
};

struct launch {
    const struct kernel *kernel;
    unsigned grid[3], block[3];
    unsigned cluster[3]; // CTAs of a cluster; the grid has whole ones. 0: as the kernel says
    size_t dynamic_shared_bytes;
    const void *params;    // param_bytes, laid out as kernel_info says
    uint64_t grid_memory;  // for a cooperative launch: its barrier, zeroed; else 0
    const struct gpu *gpu; // the GPU that special registers describe (image/gpus.h); NULL: an L4
    size_t stack_bytes;    // of a thread, for recursion and alloca; 0: a default
    int registers;         // of a thread, as the machine code has it; 0: not known
    int threads;           // of the host; 0: one a core
    unsigned schedule;     // seed of the order in which warps take turns; 0: round robin
    unsigned spin;         // basic blocks of a warp without an effect; 0: a default
    uint64_t budget;       // warp instructions, after which it is stopped; 0: no end
    bool check;            // uninitialised reads; bounds are always checked
    bool
        libraries; // but not those by CUB, Thrust and CUTLASS, which are known only by their names:
                   // not for programs that may borrow such a name
    bool races;    // races in shared and global memory
    bool strict;   // an atomic operation without .acquire orders nothing before a fence
    bool mine;     // reports only races in the program's own files (races/)
    uint64_t reports; // reports of a host thread after which the launch is stopped; 0: a million
    void (*note)(const struct fault *fault); // called with each further fault; may be NULL
    // Takes what the threads print, when the launch is over; NULL: it goes to stdout.
    void (*print)(const char *text, size_t bytes);
    size_t print_bytes; // of a launch that are kept, as by a GPU's buffer; 0: all
    // Called now and then by each host thread with the number of CTAs that have ended. True: stop.
    // May be NULL.
    bool (*tick)(uint64_t ended, uint64_t ctas);
    // Called when the grid has ended with its threads' requests, CTA by CTA, in order. NULL:
    // requests fail.
    void (*child)(const struct child *child);
    bool early; // it may begin before the kernel before it has ended: until griddepcontrol.wait
    // NULL: nothing is spoiled. Else one thread of the host runs all CTAs.
    struct ablation *ablation;
    struct touched *touched; // receives the accesses to memory that is noted; NULL: not wanted
};

// Runs a grid to its end. Adds to *counts, and to *lines (grown with realloc, *line_count entries,
// sorted by file and line). False on a fault; the grid's other effects are then as on a GPU.
bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault);

// The place of an instruction of a launched kernel, by its index in struct touched; `text` receives
// it in words for the user.
struct fault_place kernel_line(const struct kernel *kernel, size_t insn, char *text, size_t size);

// The films that PTXSIM_FILM has asked for so far (machine/film.h), as JSON. If the variable is
// still set when the program ends, they are written to its file.
void films_write(FILE *file);
// Writes that file now, for a program that may abort: at the first call only.
void films_save(void);

// ---- Floors (machine/counts.c) ------------------------------------------------------------------

// The lower bound on time that each unit of an L4 (image/gpus.h) sets for these counts, in µs. A
// bound from counts, never a prediction.
struct floors {
    double tensor, exp, shared, issue, dram;
    const char *binding; // name of the largest
};
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes);

#endif
