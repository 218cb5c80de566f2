// memory.c: the simulated device's memory.
//
// An allocation is a mapping of its own, with unused addresses on either side: an access past the
// end never hits a neighbour. A freed allocation gives its pages back but keeps its addresses for a
// while, so that a later access to it can be named.
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SECTOR = 32, FREED_KEPT = 256, POISON = 0xff };
// An allocation of LARGE bytes or more is filled page by page, when a page is touched.
static const size_t LARGE = (size_t)256 << 20;
static const size_t POISON_PIECE = (size_t)16 << 20;
static const size_t GAP = (size_t)1 << 20;
// The first allocation is far from where a system puts programs, libraries and stacks, which it
// moves from run to run. So kernels see the same addresses in every run.
static const uint64_t FIRST_ADDRESS = UINT64_C(0x200000000000),
                      LAST_ADDRESS = UINT64_C(0x300000000000);
static const size_t L4_MEMORY = (size_t)23034 << 20; // bytes of memory, as an L4 reports them

static size_t device_bytes;
static uint64_t freed[FREED_KEPT]; // ring of the base addresses of freed allocations
static size_t freed_next;

static size_t mapped_size(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

bool memory_of_host(uint64_t address)
{
    const struct allocation *below = NULL, *above = memory_above(address);
    uint64_t page = address & ~(uint64_t)(sysconf(_SC_PAGESIZE) - 1);
    unsigned char resident;

    // An address within a gap of an allocation comes from a kernel that has run past an end of the
    // allocation.
    if (memory_find(address, 1, &below) ||
        (below && address - below->base < mapped_size(below->size) + GAP) ||
        (above && above->base - address <= GAP))
        return false;
    return mincore((void *)(uintptr_t)page, 1, &resident) == 0;
}

size_t memory_in_use(void)
{
    return device_bytes;
}

size_t memory_capacity(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kilobytes;
    size_t capacity = L4_MEMORY;
    char line[128];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) == 1 &&
            device_bytes + kilobytes * 1024 < capacity)
            capacity = device_bytes + kilobytes * 1024;
    if (file)
        fclose(file);
    return capacity;
}

static bool counts_as_device(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED;
}

// The number of sectors that an allocation may touch; its ends need not be aligned.
static size_t sector_count(size_t bytes)
{
    return bytes / SECTOR + 2;
}

static bool insert(uint64_t base, size_t bytes, enum memory_kind kind)
{
    uint8_t *sectors = calloc(sector_count(bytes), 2);
    struct allocation *a = NULL;

    if (sectors)
        a = memory_insert(&(struct allocation){
            .base = base,
            .size = bytes,
            .live = true,
            .kind = kind,
            .sectors_read = sectors,
            .sectors_written = sectors + sector_count(bytes),
        });
    if (!a) {
        free(sectors);
        return false;
    }
    notes_of(a);
    if (counts_as_device(kind))
        device_bytes += bytes;
    return true;
}

static uint64_t next_place = FIRST_ADDRESS; // address for the next allocation, if it is unused

void memory_place(uint64_t address)
{
    next_place = address;
}

// Reserves addresses for an allocation and the gaps at its ends: after the allocation before it or,
// if these addresses are used, wherever the system has room.
static char *reserve(size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *start = MAP_FAILED;

    if (within(next_place, bytes, LAST_ADDRESS)) {
        start = mmap((void *)(uintptr_t)next_place, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE,
                     -1, 0);
        next_place += bytes;
    }
    return start != MAP_FAILED ? start : mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
}

// Maps an allocation of zeros; a page costs memory only once it is touched.
static void *map(size_t bytes, enum memory_kind kind)
{
    if (bytes == 0 || bytes > L4_MEMORY || !within(device_bytes, bytes, memory_capacity()))
        return NULL;
    size_t size = mapped_size(bytes);
    char *start = reserve(size + 2 * GAP);
    if (start == MAP_FAILED)
        return NULL;
    char *base = start + GAP;
    if (mprotect(base, size, PROT_READ | PROT_WRITE) != 0 ||
        !insert((uint64_t)(uintptr_t)base, bytes, kind)) {
        munmap(start, size + 2 * GAP);
        return NULL;
    }
    return base;
}

// A file in memory, filled with POISON; -1 if it cannot be made.
static int poison_file(void)
{
    static int file = -2;
    char *pages;

    if (file != -2)
        return file;
    file = memfd_create("ptxsim-poison", MFD_CLOEXEC);
    if (file < 0)
        return file = -1;
    pages = ftruncate(file, POISON_PIECE)
                ? MAP_FAILED
                : mmap(NULL, POISON_PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pages == MAP_FAILED) {
        close(file);
        return file = -1;
    }
    memset(pages, POISON, POISON_PIECE);
    munmap(pages, POISON_PIECE);
    return file;
}

// Fills an allocation with POISON. The pages of a large one all show the same few pages until they
// are written: memory that a program asks for and does not touch takes no memory here.
static void fill_poison(char *base, size_t bytes)
{
    size_t done = 0;
    int file = bytes >= LARGE ? poison_file() : -1;

    while (file >= 0 && done < bytes) {
        size_t piece = bytes - done < POISON_PIECE ? bytes - done : POISON_PIECE;
        if (mmap(base + done, piece, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED)
            break;
        done += piece;
    }
    memset(base + done, POISON, bytes - done);
}

void *memory_alloc_kind(size_t bytes, enum memory_kind kind)
{
    void *base = map(bytes, kind);
    if (base && kind == MEMORY_DEVICE)
        fill_poison(base, bytes);
    return base;
}

void *memory_alloc_at(uint64_t address, size_t bytes, enum memory_kind kind)
{
    uint64_t before = next_place;

    if (address < FIRST_ADDRESS + GAP)
        return NULL;
    next_place = address - GAP;
    void *base = memory_alloc_kind(bytes, kind);
    next_place = before;
    if (base && (uint64_t)(uintptr_t)base != address) {
        memory_free(base);
        base = NULL;
    }
    return base;
}

void *memory_alloc(size_t bytes)
{
    return memory_alloc_kind(bytes, MEMORY_DEVICE);
}

void *memory_alloc_zeros(size_t bytes)
{
    return map(bytes, MEMORY_DEVICE);
}

// ---- Freeing and noting -------------------------------------------------------------------------

bool memory_register(void *address, size_t bytes)
{
    uint64_t base = (uint64_t)(uintptr_t)address;
    size_t at = memory_rank(base);
    const struct allocation *below = at ? memory_nth(at - 1) : NULL, *above = memory_nth(at);

    if (!address || bytes == 0 || !within(base, bytes, UINT64_MAX))
        return false;
    if ((below && below->base + below->size > base) || (above && above->base < base + bytes))
        return false;
    return insert(base, bytes, MEMORY_REGISTERED);
}

void memory_track(void *address)
{
    size_t at = memory_rank((uint64_t)(uintptr_t)address);
    struct allocation *a = at ? memory_nth(at - 1) : NULL;
    if (a && !a->defined)
        a->defined = calloc(a->size, 1); // NULL if there is no memory: not tracked
}

void memory_mark(void *to, const void *from, size_t bytes)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)to, bytes, NULL), *b = NULL;
    if (!a || !a->defined)
        return;
    if (from)
        b = memory_find((uint64_t)(uintptr_t)from, bytes, NULL);
    uint8_t *marks = a->defined + ((uint64_t)(uintptr_t)to - a->base);
    if (b && b->defined)
        memmove(marks, b->defined + ((uint64_t)(uintptr_t)from - b->base), bytes);
    else
        memset(marks, 1, bytes);
}

size_t memory_written(const void *from, size_t bytes)
{
    const struct allocation *a = memory_find((uint64_t)(uintptr_t)from, bytes, NULL);
    if (!a || !a->defined || a->kind != MEMORY_DEVICE)
        return bytes;
    const uint8_t *marks = a->defined + ((uint64_t)(uintptr_t)from - a->base);
    const uint8_t *none = memchr(marks, 0, bytes);
    return none ? (size_t)(none - marks) : bytes;
}

static void forget(size_t at)
{
    struct allocation *a = memory_nth(at);

    if (a->kind != MEMORY_REGISTERED)
        munmap((char *)(uintptr_t)a->base - GAP, mapped_size(a->size) + 2 * GAP);
    free(a->sectors_read);
    free(a->defined);
    notes_drop(a);
    memory_remove(at);
}

bool memory_free(void *address)
{
    uint64_t base = (uint64_t)(uintptr_t)address;
    size_t at = memory_rank(base);
    struct allocation *a = at ? memory_nth(at - 1) : NULL;

    if (!a || a->base != base || !a->live)
        return false;
    if (counts_as_device(a->kind))
        device_bytes -= a->size;
    a->live = false;
    memory_unguard(a);
    if (a->kind == MEMORY_REGISTERED) {
        forget(at - 1);
        return true;
    }
    // Gives the pages back and keeps the addresses.
    mmap(address, mapped_size(a->size), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    free(a->sectors_read);
    free(a->defined);
    notes_drop(a);
    a->sectors_read = a->sectors_written = a->defined = NULL;
    if (freed[freed_next])
        forget(memory_rank(freed[freed_next]) - 1);
    freed[freed_next] = base;
    freed_next = (freed_next + 1) % FREED_KEPT;
    return true;
}

// Fills memory with zeros. If there are many bytes, whole pages are given back to the system, which
// returns them as zeros.
static void clear(uint8_t *at, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), head = (page - (uintptr_t)at % page) % page;

    if (bytes >= LARGE / SECTOR) {
        size_t middle = (bytes - head) / page * page;
        if (!madvise(at + head, middle, MADV_DONTNEED)) {
            memset(at, 0, head);
            memset(at + head + middle, 0, bytes - head - middle);
            return;
        }
    }
    memset(at, 0, bytes);
}

void memory_touched_clear(void)
{
    const struct allocation *a;

    for (size_t i = 0; (a = memory_nth(i)); ++i)
        if (a->live)
            clear(a->sectors_read, 2 * sector_count(a->size));
}

uint64_t memory_touched_bytes(void)
{
    uint64_t sectors = 0;
    const struct allocation *a;

    for (size_t i = 0; (a = memory_nth(i)); ++i) {
        const uint8_t *touched = a->sectors_read; // sectors written are in the second half
        size_t count = a->live ? 2 * sector_count(a->size) : 0;
        for (size_t s = 0; s < count; ++s)
            sectors += touched[s];
    }
    return sectors * SECTOR;
}
