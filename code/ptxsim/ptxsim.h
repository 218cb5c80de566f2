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
// the token, what was expected. An instruction that is not supported is an error of the kernel
// that holds it, raised when that kernel is launched (so that unused code does no harm).
struct module *module_parse(const char *ptx, char *why, size_t size);
// Parses several texts (-rdc=true: one a source file), whose names are linked, as module_parse does one.
struct module *module_link(char *const *texts, size_t count, char *why, size_t size);
void module_free(struct module *module);
struct kernel *module_kernel(struct module *module, const char *mangled_name);
struct kernel *module_kernel_at(struct module *module, size_t i); // NULL: there are not as many
// The index-th function that is declared and nowhere defined, by its name; NULL: there are not as many.
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
// Registers of a thread, estimated: what is alive at one place of the PTX. 0: it cannot be launched.
int kernel_registers(struct kernel *kernel);
// Whether it lets kernels begin that depend on it (griddepcontrol.launch_dependents).
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

// What is counted, for a kernel and for each of its source lines: counts.def says what each is. All
// are exact sums over the launch, the same in every run and for any number of cores.
struct counts {
#define COUNTER(name, title, what) uint64_t name;
#define CLASS_COUNTER(name, op_class, title, what)
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    uint64_t classes[CLASSES]; // warp instructions by class
    // What can stand in for something that is counted, and stands in no report:
    uint64_t
        mufu_substitutes; // by thread: quotients, remainders, roots, whose machine code asks that unit, and doubles
    uint64_t
        signals; // warps that tell others how far they have come: at barriers, mbarriers, by strong stores, atomics
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
    FAULT_ENDLESS,     // a loop: nothing changes any more, or the launch's budget is spent
    FAULT_INTERRUPTED, // launch.tick said so
    FAULT_DIVERGENT_BARRIER,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_INTERNAL,
    FAULT_COPY, // these three are the host's doing (cudart/)
    FAULT_FREE,
    FAULT_ORDER
};

const char *fault_kind_name(enum fault_kind kind); // "race", "out of bounds"

// Where something was done, and by which thread.
struct fault_place {
    const char *file;    // NULL: the PTX names no line of a source
    int line, ptx_line;  // ptx_line: where `file` is NULL; 0: not known either
    const char *callers; // of the line, as next_caller (base.h) reads them; "": it is not inlined
    bool by_thread;      // else block and thread are not known
    unsigned block[3], thread[3];
};

struct fault {
    enum fault_kind kind;
    char kernel[128]; // "": it is no kernel's
    struct fault_place at,
        other;       // other: of a race, the access that it is with; not by_thread: there is none
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

// What a thread has asked the device's runtime for, to be done when its grid has ended: another grid,
// or a copy.
struct child {
    const struct kernel *kernel; // NULL: a copy
    unsigned grid[3], block[3];
    size_t dynamic_shared_bytes;
    void *params; // as of a launch, in the heap of device code; freed by whoever runs it
    void *to;     // of a copy
    const void *from;
    size_t bytes;
};

// What an instruction has accessed of memory that is noted (base/notes.c): all of it lies in [start, end).
struct touched_span {
    uint64_t start, end;
    unsigned kinds; // enum note, a bit each; 0: nothing
};
struct touched {                // by a launch
    struct touched_span *spans; // by instruction; freed by whoever asks
    size_t count;
    bool starts_dependents; // a thread has executed griddepcontrol.launch_dependents
};

// An experiment: what some executions do is spoiled, and a comparison of the outputs shows whether it was used.
// An execution is one operation that a warp runs; where stores are spoiled, it is a CTA. A CTA's executions are
// numbered from 0 on in the order in which they run; CTAs through all launches that get the same struct ablation.
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
// What an execution works on. of: hashes, of a product's two operands; of the bytes that a cp.async or a load brings,
// twice; of an atomic operation's address, and of that with what was there before; of what looks something up, twice: its
// instruction and the places that its lanes ask. work: a product's flops, of integers 0, for nobody's attention is made
// of them; a copy's bytes; 1; a load's bytes that other threads have stored, each once; the lanes that look up.
struct execution {
    uint64_t of[2], cta;
    uint32_t work;
    float
        under_way; // of a cp.async: its bytes times the instructions that its warp ran until they came, summed
};
struct ablation {
    enum spoils what;
    int count; // of those that are spoiled
    struct chosen {
        uint64_t cta, at;
    } chosen[SPOILED_MOST];
    uint64_t ctas;  // of the launches before
    bool logs;      // each execution is noted in `log`, which grows; freed by whoever asks
    uint64_t drawn; // SPOIL_LOOKUPS: which CTAs are noted, that stand for the others
    struct execution *log;
    size_t logged, room;
    // Where `logs`: of each two bytes in global memory from `watched` on, 1 + the CTA that stored there last. NULL: none.
    uint64_t watched;
    size_t writers_count;
    uint64_t *writers;
    // Signals (struct counts) of warps that ask at the same address then: they meet others there, as at a barrier. Who
    // only hands something on asks elsewhere. Where `logs`; signals without a question yet are in a list, freed as the log.
    uint64_t meets;
    struct signalled {
        const void *warp;
        uint64_t address;
        uint32_t times;
    } * signalled;
    size_t signalled_count, signalled_room;
    uint64_t work; // warp instructions of all CTAs
    // SPOIL_STORES, where `logs`: what is loaded of two parts of global memory, K and V: sectors, each once, and those of the
    // CTA that loads most.
    struct part_of_memory {
        uint64_t first, bytes;
        uint8_t *seen; // of each sector, whether it was loaded
    } parts[2];
    uint64_t distinct, busiest;
    // SPOIL_PRODUCTS, where `logs`: sectors that are loaded from global memory, and those by warps that make products, too.
    uint64_t loaded, loaded_beside;
};

struct launch {
    const struct kernel *kernel;
    unsigned grid[3], block[3];
    unsigned cluster[3]; // CTAs of a cluster; the grid has whole ones. 0: as the kernel says
    size_t dynamic_shared_bytes;
    const void *params;    // param_bytes, laid out as kernel_info says
    uint64_t grid_memory;  // of a cooperative launch: its barrier, zeroed; else 0
    const struct gpu *gpu; // what special registers tell of (image/gpus.h); NULL: an L4
    size_t stack_bytes;    // of a thread, for recursion and alloca; 0: a default
    int registers;         // of a thread, as the machine code has it; 0: not known
    int threads;           // of the host; 0: one a core
    unsigned schedule;     // seed of the order in which warps take turns; 0: round robin
    unsigned spin;         // basic blocks of a warp without an effect; 0: a default
    uint64_t budget;       // warp instructions, after which it is stopped; 0: no end
    bool check;            // uninitialised reads; bounds are always checked
    bool
        libraries; // but those of CUB, Thrust and CUTLASS, which are known by their names only: whoever
                   // may have borrowed such a name is not to have this
    bool races;       // races in shared and global memory
    bool strict;      // an atomic operation without .acquire orders nothing before a fence
    bool mine;        // reports only races in the program's own files (races/)
    uint64_t reports; // of a host thread, after which it is stopped; 0: a million
    void (*note)(const struct fault *fault); // with each further fault; may be NULL
    // Takes what the threads print, when the launch is over; NULL: it goes to stdout.
    void (*print)(const char *text, size_t bytes);
    size_t print_bytes; // of a launch that are kept, as by a GPU's buffer; 0: all
    // Called now and then, by each of the host's threads: how many CTAs have ended. True: stop. May
    // be NULL.
    bool (*tick)(uint64_t ended, uint64_t ctas);
    // Called when the grid has ended with what its threads have asked for, CTA by CTA, in order.
    // NULL: they may ask for nothing.
    void (*child)(const struct child *child);
    bool early; // it may begin before the kernel before it has ended: until griddepcontrol.wait
    // NULL: nothing is spoiled. Else one thread of the host runs all CTAs.
    struct ablation *ablation;
    struct touched *touched; // gets what it touches of memory that is noted; NULL: nobody asks
};

// Runs a grid to its end. Adds to *counts, and to *lines (grown with realloc, *line_count entries,
// sorted by file and line). False on a fault; the grid's other effects then stand as on a GPU.
bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault);

// The place of an instruction of a kernel that has been launched, as struct touched counts them; in `text`, as it is
// named to the user.
struct fault_place kernel_line(const struct kernel *kernel, size_t insn, char *text, size_t size);

// The films that PTXSIM_FILM has asked for so far (machine/film.h), as JSON. At the end of a program in
// which it is still set they go to the file that it names.
void films_write(FILE *file);
// Writes that file now, for a program that may abort: at the first call only.
void films_save(void);

// ---- Floors (machine/counts.c) ------------------------------------------------------------------

// The floor that each unit of an L4 (image/gpus.h) sets under these counts, in µs. A bound from
// counts, never a prediction.
struct floors {
    double tensor, exp, shared, issue, dram;
    const char *binding; // name of the largest
};
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes);

#endif
