// ptxsim.h: the inside of the PTX functional simulator, shared by its modules.
//
//   parse.c    PTX text -> struct module: kernels, functions, variables, instructions
//   decode.c   instructions -> specialised operations on a warp's register file
//   exec.c     runs a grid: blocks over the cores, warps of a block in turn, 32 lanes at a time
//   ops_*.c    the operations: integer and float arithmetic, memory, control, warp, tensor
//   memory.c   the device's memory: allocations and their bounds
//   races.c    races by vector clocks (races.h), races_set.h for whole warps
//   ops_sync.c cp.async, mbarriers, fences
//   counts.c   wavefronts, sectors, classes; the floors of an L4
//   fatbin.c   PTX and machine code out of the executable's fat binary
//   runtime.c  the replacement of libcudart.so.13 (and device.c, copies.c, streams.c; runtime.h)
//   report.c   what was counted, as JSON
//   trace.c    what the warps of one CTA did, for pictures
//
// A functional simulator that counts, not a timing model: it never prints a simulated time.
#ifndef PTXSIM_H
#define PTXSIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WARP = 32 };

// ---- Device memory (memory.c) -------------------------------------------------------------------
// A device address is a host address: copies are memcpy. Every access of a kernel is checked
// against the allocations. Calls that change the list of allocations never run beside a launch:
// the runtime holds one lock.

enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_HOST, // pinned: cudaMallocHost
    MEMORY_MANAGED,
    MEMORY_REGISTERED, // the program's own, made known by cudaHostRegister
};

struct allocation {
    uint64_t base, size;
    bool live; // false: freed (kept for a while, to name use after free)
    enum memory_kind kind;
    // A byte for each 32-byte sector (address / 32 - base / 32), set to 1 by launch_run when a lane
    // reads or writes it. The runtime clears them before a launch and sums them afterwards: what
    // DRAM must move at least when the caches start cold.
    uint8_t *sectors_read, *sectors_written;
    // A byte for each byte, 0 until the host or a kernel writes it; NULL: not tracked.
    uint8_t *defined;
};

// 256-byte aligned, guarded by its bounds, filled with 0xff (NaN in every float format); NULL when
// out of memory.
void *memory_alloc(size_t bytes);
void *memory_alloc_kind(size_t bytes, enum memory_kind kind);
void *memory_alloc_zeros(size_t bytes);            // with zeros; a page is used when it is touched
bool memory_register(void *address, size_t bytes); // false when it overlaps an allocation
bool memory_free(void *address);                   // false: not the start of a live allocation

// The live allocation holding [address, address + bytes), else NULL; `nearest` (may be NULL) then
// gets the allocation, live or freed, closest below, or NULL. Lock-free for readers in a launch.
const struct allocation *memory_find(uint64_t address, uint64_t bytes,
                                     const struct allocation **nearest);
// From now on what has not been written is known (PTXSIM_CHECK; the whole is unwritten at first).
void memory_track(void *address);
// The host has written, or copied (from: in device memory or not), bytes of an allocation.
void memory_mark(void *to, const void *from, size_t bytes);
size_t memory_in_use(void);   // bytes of device and managed memory
size_t memory_capacity(void); // of the simulated device, or what the host can give, if less

// Clears the sectors touched; sums them, 32 bytes for each one read and each one written.
void memory_touched_clear(void);
uint64_t memory_touched_bytes(void);

// ---- Modules and kernels (parse.c, decode.c) ----------------------------------------------------

struct module;
struct kernel;

// Parses a NUL-terminated PTX text. On an error returns NULL and one line in `why`: the PTX line,
// the token, what was expected. An instruction that is not supported is an error of the kernel
// that holds it, raised when that kernel is launched (so that unused code does no harm).
struct module *module_parse(const char *ptx, char *why, size_t size);
void module_free(struct module *module);
struct kernel *module_kernel(struct module *module, const char *mangled_name);
// Address and size of a .global or .const variable, for cudaMemcpyToSymbol; false if unknown.
bool module_symbol(struct module *module, const char *name, void **address, size_t *size);

struct kernel_info {
    const char *name; // mangled
    int params;
    const size_t *param_offsets; // of each parameter in the parameter buffer, bytes
    const size_t *param_sizes;
    size_t param_bytes;
    size_t static_shared_bytes;
    size_t local_bytes; // of the PTX's .local depot
    int max_threads;    // .maxntid product, or 1024
};
const struct kernel_info *kernel_info(const struct kernel *kernel);
// "attention" of "_ZN4book9attentionILi4EEEvPf".
void kernel_base_name(const char *mangled, char *name, size_t size);
// A source file as the user knows it (report.c): nvcc makes every path absolute; what lies in the
// repository, or below the current directory, is named from there. A part of `path`.
const char *source_path(const char *path);

// ---- Launches (exec.c) --------------------------------------------------------------------------

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
    FAULT_DIVERGENT_BARRIER,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_INTERNAL
};

struct fault {
    enum fault_kind kind;
    char text[1024]; // one line: kernel, chapter line, block, thread, address, the other party
};

struct launch {
    const struct kernel *kernel;
    unsigned grid[3], block[3];
    size_t dynamic_shared_bytes;
    const void *params;             // param_bytes, laid out as kernel_info says
    uint64_t grid_memory;           // of a cooperative launch: its barrier, zeroed; else 0
    int threads;                    // of the host; 0: one a core
    unsigned schedule;              // seed of the order in which warps take turns; 0: round robin
    unsigned spin;                  // basic blocks of a warp without an effect; 0: a default
    bool check;                     // uninitialised reads; bounds are always checked
    bool races;                     // races in shared and global memory
    void (*note)(const char *text); // called with each further fault; may be NULL
};

// Runs a grid to its end. Adds to *counts, and to *lines (grown with realloc, *line_count entries,
// sorted by file and line). False on a fault; the grid's other effects then stand as on a GPU.
bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault);

// ---- Counting helpers (counts.c) ----------------------------------------------------------------

// Wavefronts of one shared load: the 32 lanes' byte addresses, `bytes` each (1 to 16), active
// lanes by mask. Lanes that name the same word share it; 8-byte accesses go by half warps, 16-byte
// ones by quarter warps, two of them together where few lanes are active or neighbours agree. *least gets the
// wavefronts that these parts take without any conflict. test_counts.c compares all of these
// with what an H200 counts.
int shared_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// The same of a store: no two parts go together.
int shared_store_wavefronts(const uint32_t address[WARP], int bytes, uint32_t mask, int *least);
// The same of an atomic operation, 4 or 8 bytes: lanes with the same address take turns. swaps:
// compare-and-swap, which takes each turn twice.
int shared_atomic_wavefronts(const uint64_t address[WARP], int bytes, uint32_t mask, bool swaps,
                             int *least);

// Distinct 32-byte sectors touched by one global access.
int global_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);
// Of an atomic operation: as above, summed over its turns.
int global_atomic_sectors(const uint64_t address[WARP], int bytes, uint32_t mask);

// The floor that each unit of an L4 (image/gpus.h) sets under these counts, in µs. A bound from counts, never a prediction.
struct floors {
    double tensor, exp, shared, issue, dram;
    const char *binding; // name of the largest
};
struct floors l4_floors(const struct counts *counts, uint64_t dram_bytes);

#endif
