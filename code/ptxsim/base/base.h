// base.h: what every folder of the simulator uses: memory for its own data, texts, names of source files, and the
// simulated device's memory.
//
//   arena.c        memory that is freed all at once, arrays and texts that grow
//   paths.c        names of source files
//   caller.c       source lines of host code
//   allocations.c  the list of the device's allocations
//   notes.c        which bytes of them were accessed, and how
//   host.c         memory that the host may not touch
//   memory.c       allocations made and freed
//   heap.c         the heap of device code (heap.h)
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef PTXSIM_BASE_H
#define PTXSIM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// ---- Bounds -------------------------------------------------------------------------------------

// Whether [at, at + bytes) lies in the first `size` bytes, even if at + bytes overflows.
static inline bool within(uint64_t at, uint64_t bytes, uint64_t size)
{
    return at <= size && bytes <= size - at;
}

// ---- Arenas, arrays, texts (arena.c) ------------------------------------------------------------

struct arena {
    struct arena_chunk *chunks;
    char *at, *end;
};
// Zeroed memory of the arena, 16-byte aligned; aborts if the host is out of memory.
void *arena_alloc(struct arena *arena, size_t bytes);
// A copy of `length` bytes of a text, and a NUL after them.
char *arena_text(struct arena *arena, const char *text, size_t length);
// Frees all that was allocated; the arena is empty and can be used again.
void arena_free(struct arena *arena);

// Returns the array with room for `count` + 1 elements of `element` bytes; it may have moved. The
// caller keeps *capacity, which begins at 0, with the array NULL. Aborts if the host is out of
// memory.
void *array_grow(void *array, size_t count, size_t *capacity, size_t element);
// Returns its argument, the result of malloc or calloc. If that result is NULL, prints a line and
// aborts.
void *checked_alloc(void *memory);

struct text { // a text that grows; begins as all zeros; `data` comes from malloc
    char *data;
    size_t size, capacity;
};
void text_add(struct text *text, const char *from, size_t size);
// Writes a text as a JSON string, with U+FFFD for bytes that are not UTF-8.
void write_string(FILE *file, const char *text);

// ---- Names of files (paths.c) -------------------------------------------------------------------

// A source file as the user knows it: nvcc makes every path absolute; files in the repository, or
// below the current directory, are named relative to these. Returns a part of `path`.
const char *source_path(const char *path);
// Walks through a line's callers, a text like " (called at FILE:LINE, FILE:LINE)". Returns the next
// FILE:LINE, with its length in *length; NULL after the last. `text` is the whole text at the first
// call; at each later call it is what follows the FILE:LINE returned before.
const char *next_caller(const char *text, size_t *length);
// The current directory when the program began, "" if it is not known.
const char *start_directory(void);

// ---- Lines of the host's source (caller.c) -------------------------------------------------------

enum { CALLERS_KEPT = 6 };
// The program's calls under way, as addresses, innermost first; calls within this library are left out.
struct callers {
    uint64_t at[CALLERS_KEPT];
    int count;
};
void note_callers(struct callers *callers);
// Drops the innermost calls up to and including the call made by `function`, the short host
// function that nvcc makes for a kernel; drops none if `function` has made no call.
void drop_callers(struct callers *callers, const void *function);
// File and line of the innermost call, or instruction, in the program's own source; line 0: the
// place is not known.
struct host_line {
    char file[300];
    int line;
};
struct host_line caller_line(const struct callers *callers);

// ---- Device memory (allocations.c, memory.c) ----------------------------------------------------
// A device address is a host address: copies are memcpy. Every access of a kernel is checked
// against the allocations. Calls that change the list of allocations never run beside a launch:
// the runtime holds one lock.

enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_HOST, // pinned: cudaMallocHost
    MEMORY_MANAGED,
    MEMORY_REGISTERED, // the program's own, registered by cudaHostRegister
};

struct allocation {
    uint64_t base, size;
    bool live; // false: freed (kept for a while, to name use after free)
    enum memory_kind kind;
    bool guarded; // whether memory_close closes it to the host
    // One flag for each 32-byte sector (index: address / 32 - base / 32), set by launch_run when a
    // lane reads or writes the sector. The runtime clears the flags before a launch and sums them
    // afterwards: the sum is what DRAM must move at least when the caches start cold.
    uint8_t *sectors_read, *sectors_written;
    // One flag for each byte: 0 until the host or a kernel writes that byte; NULL: not tracked.
    uint8_t *defined;
    uint8_t *notes; // for each enum note, a flag for each byte; NULL: no notes are kept (notes.c)
};

// The live allocation that contains [address, address + bytes), else NULL. In the latter case
// *nearest (unless `nearest` is NULL) gets the closest allocation below, live or freed, or NULL.
// Lock-free for readers in a launch.
const struct allocation *memory_find(uint64_t address, uint64_t bytes,
                                     const struct allocation **nearest);
// The first allocation, live or freed, that begins above an address, or NULL.
const struct allocation *memory_above(uint64_t address);
// The allocation, live or freed, at an index of the list sorted by address; NULL past the last.
struct allocation *memory_nth(size_t index);
// For memory.c. memory_rank: how many allocations begin at or below an address. memory_insert: adds
// a copy of an allocation; NULL when out of memory. memory_remove: removes the allocation at an
// index of the list, and frees its entry.
size_t memory_rank(uint64_t address);
struct allocation *memory_insert(const struct allocation *allocation);
void memory_remove(size_t index);

// Device memory, 256-byte aligned, filled with 0xff (NaN in every float format); NULL when out of
// memory, or if `bytes` is 0. Memory that the host may touch is filled with zeros instead, as the
// system's pages are.
void *memory_alloc(size_t bytes);
void *memory_alloc_kind(size_t bytes, enum memory_kind kind);
// Makes an allocation at the address that it had in another process; NULL: that address is not free
// in this process.
void *memory_alloc_at(uint64_t address, size_t bytes, enum memory_kind kind);
// Sets the address from which allocations are placed one after the other, the same in every run.
// When a process only writes down what its host code requests of the device (cudart/written.c), its
// allocations begin at HOST_CODE_MEMORY. Another process then runs the kernels: it can use the same
// addresses, and its own inputs lie elsewhere.
static const uint64_t HOST_CODE_MEMORY = UINT64_C(0x280000000000);
void memory_place(uint64_t address);
void *memory_alloc_zeros(size_t bytes);            // zeroed; a page is allocated when it is touched
bool memory_register(void *address, size_t bytes); // false: empty, or overlaps an allocation
bool memory_free(void *address);                   // false: not the beginning of a live allocation

// Whether an address is the program's own memory (a variable's or malloc's), far from every
// allocation.
bool memory_of_host(uint64_t address);
// Starts noting which bytes of an allocation are written (PTXSIM_CHECK); at first none counts as
// written.
void memory_track(void *address);
// Notes that the host has written bytes of an allocation, or copied them there from `from`, which
// may be device memory.
void memory_mark(void *to, const void *from, size_t bytes);
// How many bytes of a copy's source in device memory come before the first byte that was never
// written: all of them, if every byte was written or the allocation is not tracked.
size_t memory_written(const void *from, size_t bytes);
size_t memory_in_use(void); // bytes of device and managed memory
// Bytes of the simulated device's memory, or less if the host cannot give so much.
size_t memory_capacity(void);

// ---- What the host may not touch (host.c) -------------------------------------------------------

// Guards an allocation: while it is closed, a host access to it causes a page fault, which is
// reported and ends the program, as on a GPU. Closing and opening take a system call for each
// guarded allocation, so at most 64 are guarded, and they are closed at most 256 times.
void memory_guard(void *address);
void memory_unguard(struct allocation *a);
void memory_close(void);
void memory_open(void);
// For memory that the host may touch, but not while the device works on it. Each call of memory_close closes the pages
// of [address, address + bytes) to writes, and, if `reads` is true, to reads as well, until memory_unshut. An access to
// them is passed to `touched`, with the address of the instruction that makes it; then the access is made, and the
// program goes on.
void memory_shut(uint64_t address, uint64_t bytes, bool reads);
void memory_unshut(void); // opens the pages passed to memory_shut, and forgets them
void memory_on_touch(void (*touched)(uint64_t at, bool writes, uint64_t instruction));

// ---- Notes of what is accessed (notes.c) --------------------------------------------------------

// Kinds of accesses. Atomic and volatile accesses are strong, all others plain. Plain accesses
// before the kernel has waited for the kernel that it depends on (griddepcontrol.wait) are noted
// twice, as plain and as early.
enum note {
    NOTE_READ,
    NOTE_WRITE,
    NOTE_STRONG_READ,
    NOTE_STRONG_WRITE,
    NOTE_EARLY_READ,
    NOTE_EARLY_WRITE,
    NOTE_KINDS
};
struct note_run { // bytes [start, end); kinds: how they were accessed, bit k for enum note k
    uint64_t start, end;
    unsigned kinds;
};
void notes_begin(void); // from now on all allocations are noted
bool notes_begun(void);
bool notes_taken(void); // whether any allocation is noted
// Passes each run of noted bytes to `take`, in the order of addresses, and forgets the notes.
void notes_take(void (*take)(const struct note_run *run, void *data), void *data);
// Like notes_take, for allocations without notes: the runs are whole 32-byte sectors, those in
// which the last launch has read or written some byte. Passes nothing after notes_begin.
void notes_take_sectors(void (*take)(const struct note_run *run, void *data), void *data);
// For memory.c. notes_of: gives a new allocation its notes, if it is to have any. notes_drop: frees the notes of an
// allocation.
void notes_of(struct allocation *a);
void notes_drop(struct allocation *a);

// memory_touched_clear clears the flags of all touched sectors. memory_touched_bytes returns their sum: 32 bytes for
// each sector read, and for each one written.
void memory_touched_clear(void);
uint64_t memory_touched_bytes(void);

#endif
