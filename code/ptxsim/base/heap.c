// heap.c: the heap of device code. A map has one byte for each 16 bytes of the heap (a grain):
// free, the first grain of a block, or inside a block. A new block is placed after the block made
// last, and freed grains are used again only when the search for free grains begins again at the
// front: until then, accesses to a freed block are found.
#include "heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 16, SPREAD = 4 }; // SPREAD: addresses reserved, in multiples of the limit
enum { GRAIN_FREE, GRAIN_FIRST, GRAIN_INSIDE };

static struct {
    pthread_mutex_t lock;
    size_t limit, used, grains, cursor;
    uint64_t base;
    uint8_t *map;
    uint64_t *size; // for each grain where a block begins, the block's bytes
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = 8 << 20};

bool heap_limit(size_t bytes)
{
    if (heap.base || bytes > memory_capacity() / SPREAD)
        return false;
    heap.limit = bytes;
    return true;
}

void heap_prepare(void)
{
    if (heap.base || heap.limit < GRAIN)
        return;
    size_t grains = heap.limit / GRAIN * SPREAD;
    void *memory = memory_alloc_zeros(grains * GRAIN);
    if (!memory)
        return; // every malloc returns NULL
    heap.grains = grains;
    heap.map = checked_alloc(calloc(grains + 1, 1));
    heap.size = checked_alloc(calloc(grains + 1, sizeof *heap.size));
    heap.base = (uint64_t)(uintptr_t)memory;
    heap.cursor = 1;
}

// Returns the first of `count` consecutive free grains in [from, end), 0 if there are none; grain 0
// is never part of a block.
static size_t free_run(size_t from, size_t end, size_t count)
{
    size_t run = 0;
    for (size_t at = from; at < end; ++at) {
        if (heap.map[at] == GRAIN_FIRST) {
            at += (heap.size[at] + GRAIN - 1) / GRAIN - 1;
            run = 0;
        } else if (++run == count) {
            return at + 1 - count;
        }
    }
    return 0;
}

static uint64_t take_locked(uint64_t bytes)
{
    if (!heap.base || !bytes || bytes > heap.limit)
        return 0;
    size_t count = (bytes + GRAIN - 1) / GRAIN;
    if (!within(heap.used, count * GRAIN, heap.limit))
        return 0;
    // Asks for one grain more, which stays free, so that an access just past the block is found.
    size_t at = free_run(heap.cursor, heap.grains, count + 1);
    if (!at)
        at = free_run(1, heap.grains, count + 1);
    if (!at)
        return 0;
    heap.map[at] = GRAIN_FIRST;
    memset(heap.map + at + 1, GRAIN_INSIDE, count - 1);
    heap.size[at] = bytes;
    heap.used += count * GRAIN;
    heap.cursor = at + count + 1;
    memset((void *)(uintptr_t)(heap.base + at * GRAIN), 0xff, bytes);
    return heap.base + at * GRAIN;
}

uint64_t heap_take(uint64_t bytes)
{
    pthread_mutex_lock(&heap.lock);
    uint64_t address = take_locked(bytes);
    pthread_mutex_unlock(&heap.lock);
    return address;
}

bool heap_give(uint64_t address)
{
    uint64_t offset = address - heap.base, at = offset / GRAIN;
    pthread_mutex_lock(&heap.lock);
    bool good = heap.base && address >= heap.base && offset % GRAIN == 0 && at < heap.grains &&
                heap.map[at] == GRAIN_FIRST;
    if (good) {
        size_t count = (heap.size[at] + GRAIN - 1) / GRAIN;
        memset(heap.map + at, GRAIN_FREE, count);
        heap.used -= count * GRAIN;
    }
    pthread_mutex_unlock(&heap.lock);
    return good;
}

bool heap_find(uint64_t address, uint64_t bytes, struct allocation *block)
{
    uint64_t offset = address - heap.base, at = offset / GRAIN;
    if (!heap.base || address < heap.base || at >= heap.grains)
        return false;
    const struct allocation *whole = memory_find(heap.base, 1, NULL);
    *block = *whole;
    block->live = false;
    pthread_mutex_lock(&heap.lock);
    while (at && heap.map[at] == GRAIN_INSIDE)
        --at;
    uint64_t inside = offset - at * GRAIN;
    if (heap.map[at] == GRAIN_FIRST && within(inside, bytes, heap.size[at])) {
        uint64_t base = heap.base + at * GRAIN;
        *block = (struct allocation){
            .base = base,
            .size = heap.size[at],
            .live = true,
            .kind = MEMORY_DEVICE,
            .sectors_read = whole->sectors_read + (base / 32 - heap.base / 32),
            .sectors_written = whole->sectors_written + (base / 32 - heap.base / 32)};
    }
    pthread_mutex_unlock(&heap.lock);
    return true;
}
