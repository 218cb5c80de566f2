// ptxsim.h: the public face of the PTX functional simulator, and the types that its folders share.
//
// Each folder uses those above it in this list and none below (code/tools/check-floors checks it), and has
// one header that says what it offers:
//
//   base/     base.h     arenas, texts, names of files; the device's memory and its bounds
//   parse/    module.h   PTX text -> struct module: kernels, functions, variables, instructions
//   machine/  machine.h  what operations run on: programs (program.h), warps, CTAs, host threads;
//                        faults, names, traces, wavefronts, the lower bounds on an L4's time
//   races/    races.h    finds accesses to memory that nothing orders
//   ops/      ops.h      the operations on 32 lanes: arithmetic, memory, control, copies, matrices;
//                        isa/ has those that are compiled for each instruction set of the host
//   decode/   decode.h   struct module -> struct program: operations, places of operands
//   exec/     exec.h     runs a grid: CTAs over the host's cores, the warps of a CTA in turns, the
//                        lanes of a warp together; deadlocks; what the counters add up to
//   capi/     capi.h     libptxsim.so: loads and runs kernels for programs in other languages,
//                        without a CUDA runtime
//   cudart/   runtime.h  the replacement of libcudart.so.13
//   ops/extra/, decode/extra/, cudart/extra/  what only other people's programs need: textures,
//                        sparse matrices, launches by the device, the driver's library. The book's
//                        programs do not need it
//   cudart12/            libcudart.so.12: passes calls on to libcudart.so.13
//
// tool/ has programs that read what the simulator reports, test/ the tests. Fat binaries are read by
// code/image, which the workbench uses, too.
//
// The simulator counts what a program does; it is no timing model, and never prints a simulated
// time.
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
// Like module_parse, for several texts whose names are linked (-rdc=true: one text for each source
// file).
struct module *module_link(char *const *texts, size_t count, char *why, size_t size);
void module_free(struct module *module);
struct kernel *module_kernel(struct module *module, const char *mangled_name);
struct kernel *module_kernel_at(struct module *module, size_t i); // NULL: i is past the last kernel
// The name of the index-th function that is declared but nowhere defined; NULL: index is past the
// last one.
const char *module_missing(struct module *module, size_t index);
// Address and size of a .global or .const variable, for cudaMemcpyToSymbol; false if unknown.
bool module_symbol(struct module *module, const char *name, void **address, size_t *size);

struct kernel_info {
    const char *name; // the mangled name
    int params;
    const size_t *param_offsets; // offset of each parameter in the parameter buffer, in bytes
    const size_t *param_sizes;
    size_t param_bytes;
    size_t static_shared_bytes;
    size_t local_bytes;  // bytes of a thread's .local variables
    int max_threads;     // the product of .maxntid or .reqntid; without them 1024
    bool bounded;        // whether the kernel has a .maxntid or .reqntid
    int most_registers;  // .maxnreg; 0: the kernel has none
    unsigned cluster[3]; // .reqnctapercluster: CTAs of a cluster; 0: the launch sets it
};
const struct kernel_info *kernel_info(const struct kernel *kernel);
// Estimated registers of a thread, 8 to 255: the most that are live at one point of the kernel,
// plus those of the called function that has most. 0: the kernel cannot be launched.
int kernel_registers(struct kernel *kernel);
// Whether a kernel lets dependent kernels begin (griddepcontrol.launch_dependents).
bool kernel_starts_dependents(struct kernel *kernel);
// The kernel's name in the source: "attention" for "_ZN4book9attentionILi4EEEvPf".
void kernel_base_name(const char *mangled, char *name, size_t size);

// ---- Launches (exec/) ---------------------------------------------------------------------------

// Instruction classes. Each executed warp instruction of the PTX counts in one of them.
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

// What is counted for a kernel and for each of its source lines: counts.def describes each counter.
// All are exact sums over the launch, the same in every run and for any number of host threads.
struct counts {
#define COUNTER(name, title, what) uint64_t name;
#define CLASS_COUNTER(name, op_class, title, what)
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    uint64_t classes[CLASSES]; // warp instructions of each class
    // The members from here on stand for work that has no counter; no report shows them.
    // mufu_substitutes: quotients, remainders and roots, whose machine code uses the special
    // function unit, and operations on doubles; by thread.
    uint64_t mufu_substitutes;
    // Warp instructions that signal progress to others: barriers, mbarriers, strong stores, atomics.
    uint64_t signals;
    // Arithmetic that `classes` does not show, by warp: products of two integers in registers (up
    // to four for one instruction), and the second value of a packed pair.
    uint64_t further_arithmetic;
    // Sums, over wavefronts of shared memory, of the share of the warp's lanes that took no part.
    uint64_t loaded_in_turns, stored_in_turns;
};

// The counter called `name` ("barriers", "async_copies"); NULL: counts.def has no such row.
const uint64_t *counts_find(const struct counts *counts, const char *name);

struct line_counts {  // one source line
    const char *file; // the name in the PTX's .file (the chapter, through #line)
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
    FAULT_INTERRUPTED, // launch.tick has stopped the launch
    FAULT_DIVERGENT_BARRIER,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_INTERNAL,
    FAULT_COPY, // this kind and the next two are faults of the host, found by cudart/
    FAULT_FREE,
    FAULT_ORDER
};

const char *fault_kind_name(enum fault_kind kind); // a name such as "race" or "out of bounds"

// The place of an access, and its thread.
struct fault_place {
    const char *file;   // NULL: the PTX names no source line
    int line, ptx_line; // ptx_line: set where `file` is NULL; 0: unknown
    // The callers of the line, a text for next_caller (base.h); "": the line is not inlined.
    const char *callers;
    bool by_thread; // false: block and thread are not known
    unsigned block[3], thread[3];
};

struct fault {
    enum fault_kind kind;
    char kernel[128];             // "": the fault is of no kernel
    struct fault_place at, other; // other: a race's other access; other.by_thread false: none
    char text[2048]; // one line for the user: kernel, place, block, thread, and what happened
    size_t what;     // offset in `text` of what happened
};

// A fault as one line of JSON, for programs that run others: tool/, through PTXSIM_FAULTS, and
// python/.
//
//   {"kind": fault_kind_name, "kernel": NAME, "file": FILE, "line": N, "callers": ["FILE:LINE", ...], "block": [x, y, z],
//    "thread": [x, y, z],
//    "other": {"thread": ..., "block": ..., "file": ..., "line": ..., "callers": ...},
//    "what": TEXT, "text": TEXT}
//
// "callers" begin with the innermost. other.block is given if it differs from "block". "ptx_line":
// N replaces "file", "line" and "callers" where no line of the source is known. "what" is the end
// of "text". Fields that are not known are left out.
void fault_write(FILE *file, const struct fault *fault);

struct gpu;

// A request of a thread to the device's runtime, carried out when the thread's grid has ended:
// another grid, or a copy.
struct child {
    const struct kernel *kernel; // NULL: the request is a copy
    unsigned grid[3], block[3];
    size_t dynamic_shared_bytes;
    // A launch's parameters, in the heap of device code; freed by whoever runs the grid.
    void *params;
    void *to; // a copy's destination
    const void *from;
    size_t bytes;
};

// An instruction's accesses to memory with notes (base/notes.c): all lie within [start, end).
struct touched_span {
    uint64_t start, end;
    unsigned kinds; // bit k for enum note k; 0: no access
};
struct touched {                // the accesses of a launch
    struct touched_span *spans; // a span for each instruction; freed by the caller of the launch
    size_t count;
    bool starts_dependents; // whether a thread has executed griddepcontrol.launch_dependents
};

// An experiment: some executions are spoiled, and a comparison of the outputs shows whether their
// results were used. An execution is one operation run by a warp; for SPOIL_STORES it is a CTA with
// all its stores. A CTA's executions are numbered from 0 in the order in which they run. CTAs are
// numbered on from launch to launch, if the launches get the same struct ablation.
enum spoils {
    // mma, wmma, wgmma: the result's sign is changed (integers: each bit is inverted).
    SPOIL_PRODUCTS,
    SPOIL_COPIES, // cp.async, bulk copies: the highest bit of each copied byte is inverted
    // Atomic operations in global memory: 1 is added to the result; without a result, the update is left out.
    SPOIL_ATOMICS,
    SPOIL_STORES, // a CTA's stores to global memory are left out
    SPOIL_LOADS,  // loads from shared memory: the highest bit of each loaded byte is inverted
    // Nothing is spoiled: operations that may look something up (loads, atomics, shuffles, prmt)
    // are logged, with their addresses, lanes or selectors.
    SPOIL_LOOKUPS,
    SPOILS
};
enum { SPOILED_MOST = 16 };
// What a CTA gets done while copies are under way (SPOIL_COPIES): pieces of products that no
// product had before; or bytes of arrived copies that are read for the first time. A loop that only
// counts gets neither done.
enum progress { PROGRESS_PRODUCTS, PROGRESS_READS, PROGRESSES };
// What an execution works on.
//   of    two hashes. For a product: of A and of B. For a cp.async or a load: twice of the bytes
//         that it brings. For an atomic operation: of its address, and of the address with the old
//         value. For a possible lookup: twice of its instruction and its lanes' addresses.
//         A product is logged in pieces, one for each register of A and register of B that meet.
//   work  for a piece its flops (0 for integers, which no attention uses, and if A or B is all
//         zeros); for a copy those of its bytes that were read in shared memory before anything
//         else was stored there; for an atomic operation 1; for a load the bytes that other threads
//         stored, each counted once; for a lookup its lanes, times the lookups for which it stands
struct execution {
    uint64_t of[2], cta;
    uint32_t work;
    uint16_t brought; // bytes that a cp.async brings
    bool more;        // whether it is a further piece of the execution that is logged before it
    // Of a cp.async: the bytes of each lane's copy, times the progress that the CTA makes until the
    // copy arrives, summed over the lanes.
    float under_way[PROGRESSES];
};
struct ablation {
    enum spoils what;
    int count; // number of spoiled executions
    struct chosen {
        uint64_t cta, at;
    } chosen[SPOILED_MOST];
    uint64_t ctas; // number of CTAs in the launches before this one
    bool logs;     // whether each execution is appended to `log`; the caller frees `log`
    // SPOIL_LOOKUPS: selects the CTAs that are logged. Of four CTAs, one is logged for all four.
    uint64_t drawn;
    struct execution *log;
    size_t logged, room;
    // If `logs`: for each two bytes of global memory from address `watched` on, 1 + the CTA that
    // stored there last; NULL: not asked for.
    uint64_t watched;
    size_t writers_count;
    uint64_t *writers;
    // If `logs`: signals (counts.signals) by which a warp meets other warps, as at a barrier: it
    // later waits or reads at the address where it signalled. (A warp that only passes something on
    // reads at other addresses.) `signalled` lists the signals without such a read so far; the
    // caller frees it. A warp's last signal also counts if the warp reads, at another address, the
    // signal of a second warp that knew of the first warp's: a meeting with a go-between.
    uint64_t meets;
    struct signalled {
        const void *warp;
        uint64_t address;
        uint32_t times;
    } * signalled;
    size_t signalled_count, signalled_room;
    uint64_t progress[PROGRESSES]; // SPOIL_COPIES, if `logs`: the sums over all CTAs
    uint8_t *made;                 // a bit for each hash of a product's piece; the caller frees it
    // SPOIL_STORES, if `logs`: loads from two parts of global memory, K and V. distinct: sectors
    // loaded, each counted once. busiest: sectors loaded by the CTA that loads most.
    struct part_of_memory {
        uint64_t first, bytes;
        uint8_t *seen; // for each sector, whether it has been loaded
    } parts[2];
    uint64_t distinct, busiest;
    // SPOIL_PRODUCTS, if `logs`: sectors loaded from global memory by all warps, and by those warps
    // that also make products.
    uint64_t loaded, loaded_beside;
    uint64_t ahead; // sectors loaded by warps before their first product
    // The sectors of `ahead` form groups: a group is what the warps of a CTA load with no product
    // of the CTA in between. at_once: the squares of the groups' sizes, summed.
    double at_once;
};

struct launch {
    const struct kernel *kernel;
    unsigned grid[3], block[3];
    unsigned cluster[3]; // CTAs of a cluster, a divisor of the grid; 0: the kernel's own
    size_t dynamic_shared_bytes;
    const void *params; // param_bytes, laid out as kernel_info says
    // Memory for a cooperative launch's grid barrier, zeroed; 0: the launch is not cooperative.
    uint64_t grid_memory;
    // CTAs that the GPU holds at a time, at most: if these wait for CTAs that have not begun, it is a
    // deadlock. Not for a cooperative launch, whose CTAs all fit. 0: more than most GPUs hold.
    uint64_t resident;
    const struct gpu *gpu; // the GPU that special registers describe (image/gpus.h); NULL: an L4
    size_t stack_bytes;    // a thread's stack, for recursion and alloca; 0: a default
    int registers;         // registers of a thread in the machine code; 0: unknown
    int threads;           // threads of the host; 0: one for each core
    unsigned schedule;     // seed of the order in which warps take turns; 0: round robin
    // If set, the bytes of half of the groups of cp.async appear when the copies are issued, the
    // earliest moment that a GPU may choose, and not when the group is awaited.
    bool hasty;
    // Basic blocks without an effect after which a warp's loop is taken for endless; 0: a default.
    unsigned spin;
    uint64_t budget; // warp instructions after which the launch is stopped; 0: no limit
    bool check;      // reports uninitialised reads; bounds are always checked
    // Uninitialised reads by CUB, Thrust and CUTLASS are not reported. These libraries are
    // recognised only by their names: do not set this for a program that may borrow such a name.
    bool libraries;
    bool races;       // reports races in shared and global memory
    bool strict;      // an atomic operation without .acquire orders nothing before a fence
    bool mine;        // reports only those races that are in the program's own files (races/)
    uint64_t reports; // reports by a host thread after which the launch is stopped; 0: a million
    void (*note)(const struct fault *fault); // called with each further fault; may be NULL
    // Receives what the threads print, when the launch is over; NULL: it goes to stdout.
    void (*print)(const char *text, size_t bytes);
    size_t print_bytes; // bytes of printed text that are kept, like a GPU's buffer; 0: all
    // Called now and then by each host thread with the number of ended CTAs. Returns true to stop
    // the launch. May be NULL.
    bool (*tick)(uint64_t ended, uint64_t ctas);
    // Called when the grid has ended, for each request of its threads, CTA by CTA, in order. NULL:
    // requests fail.
    void (*child)(const struct child *child);
    bool early; // until griddepcontrol.wait, the grid may run beside the previous kernel
    // NULL: nothing is spoiled. Otherwise one thread of the host runs all CTAs.
    struct ablation *ablation;
    struct touched *touched; // receives the accesses to memory with notes; NULL: not asked for
};

// Runs a grid to its end. Adds to *counts, and to *lines (grown with realloc, *line_count entries,
// sorted by file and line). False on a fault; what the grid has done until then remains, as on a
// GPU.
bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault);

// The place of an instruction of a launched kernel; insn: its index in touched.spans. `text` receives the source line
// in words for the user.
struct fault_place kernel_line(const struct kernel *kernel, size_t insn, char *text, size_t size);

// Writes the films that PTXSIM_FILM has asked for so far (machine/film.h), as JSON. If that
// variable is still set when the program ends, the films are written to its file.
void films_write(FILE *file);
// Writes the file of PTXSIM_FILM now, for a program that may abort. Only the first call does.
void films_save(void);

// ---- Floors (machine/counts.c) ------------------------------------------------------------------

// The lower bound on time that each unit of an L4 (image/gpus.h) sets for these counts, in µs: a
// bound, never a prediction.
struct floors {
    double tensor, exp, shared, issue, dram;
    const char *binding; // the name of the unit with the highest bound
};
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes);

#endif
