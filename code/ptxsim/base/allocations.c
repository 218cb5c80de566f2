// allocations.c: the list of the allocations of the simulated device, by address.
#include "base.h"

#include <stdlib.h>
#include <string.h>

// Live and freed allocations, sorted by their base addresses.
static struct allocation **allocations;
static size_t allocation_count, allocation_capacity;

size_t memory_rank(uint64_t address)
{
    size_t low = 0, high = allocation_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct allocation *memory_find(uint64_t address, uint64_t bytes,
                                     const struct allocation **nearest)
{
    size_t below = memory_rank(address);
    const struct allocation *a = below ? allocations[below - 1] : NULL;

    if (a && a->live && within(address - a->base, bytes, a->size))
        return a;
    if (nearest)
        *nearest = a;
    return NULL;
}

const struct allocation *memory_above(uint64_t address)
{
    size_t below = memory_rank(address);
    return below < allocation_count ? allocations[below] : NULL;
}

struct allocation *memory_nth(size_t index)
{
    return index < allocation_count ? allocations[index] : NULL;
}

struct allocation *memory_insert(const struct allocation *allocation)
{
    struct allocation *a = malloc(sizeof *a);

    if (!a)
        return NULL;
    *a = *allocation;
    allocations =
        array_grow(allocations, allocation_count, &allocation_capacity, sizeof *allocations);
    size_t at = memory_rank(a->base);
    memmove(allocations + at + 1, allocations + at, (allocation_count - at) * sizeof *allocations);
    allocations[at] = a;
    ++allocation_count;
    return a;
}

void memory_remove(size_t at)
{
    free(allocations[at]);
    --allocation_count;
    memmove(allocations + at, allocations + at + 1, (allocation_count - at) * sizeof *allocations);
}
