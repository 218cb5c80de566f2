// address.h: checks of the addresses that operations access, and notes of these accesses.
#ifndef PTXSIM_ADDRESS_H
#define PTXSIM_ADDRESS_H

#include "ops.h"
#include "scalars.h"

// A lane's address: a register plus an offset, modulo 2^64, or modulo 2^32 if the register has 32
// bits.
static inline uint64_t address_in(const char *r, uint32_t reg, bool wide, int64_t offset, int lane)
{
    return wide ? ((const u64 *)(r + reg))[lane] + (uint64_t)offset
                : (u32)(((const u32 *)(r + reg))[lane] + (u32)offset);
}

// Whether [address, address + bytes) lies in one live allocation; if so, worker->last is set to it.
bool global_span_slow(struct warp *w, uint64_t address, uint64_t bytes);
static inline bool global_span(struct warp *w, uint64_t address, uint64_t bytes)
{
    const struct allocation *last = &w->cta->worker->last;
    return within(address - last->base, bytes, last->size) || global_span_slow(w, address, bytes);
}

// Notes an access, byte by byte, in an allocation that has notes (base/notes.c).
void global_note(struct warp *w, const struct op *op, uint64_t address, uint32_t bytes, bool store);

// Notes the sectors touched by an access that global_span has just found within an allocation.
static inline void global_touch(struct warp *w, const struct op *op, uint64_t address,
                                uint32_t bytes, bool store)
{
    const struct allocation *a = &w->cta->worker->last;
    if (a->notes)
        global_note(w, op, address, bytes, store);
    uint8_t *sectors = store ? a->sectors_written : a->sectors_read;
    uint64_t first = a->base / 32;
    for (uint64_t i = address / 32; i <= (address + bytes - 1) / 32; ++i)
        __atomic_store_n(&sectors[i - first], 1, __ATOMIC_RELAXED);
}

// Marks the bytes of a store as written; returns false for a load if some of its bytes were never
// written.
static inline bool global_defined(struct warp *w, uint64_t address, uint64_t bytes, bool store)
{
    const struct allocation *a = &w->cta->worker->last;
    if (!a->defined || !w->cta->written)
        return true;
    uint8_t *defined = a->defined + (address - a->base);
    __builtin_prefetch((const void *)(uintptr_t)address);
    if (store)
        memset(defined, 1, bytes);
    return store || !memchr(defined, 0, bytes);
}

// Counts the wavefronts of an access. A loop often repeats an access moved by a multiple of 16
// bytes: its banks differ, but the number of wavefronts is the same, so the last result is kept.
static inline void count_wavefronts(struct warp *w, const struct op *op, const uint32_t at[WARP],
                                    uint32_t bytes, uint32_t mask, bool store)
{
    struct pattern *p = &w->cta->worker->patterns[op->insn];
    struct insn_counts *count = counts_of(w, op);
    uint32_t differs = (p->mask ^ mask) | (p->bytes ^ bytes) | (p->phase ^ (at[0] & 15));
    for (int i = 0; i < WARP; ++i)
        differs |= p->from[i] ^ (at[i] - at[0]);
    if (differs) {
        for (int i = 0; i < WARP; ++i)
            p->from[i] = at[i] - at[0];
        p->mask = mask;
        p->bytes = bytes;
        p->phase = at[0] & 15;
        p->wavefronts = store ? shared_store_wavefronts(at, (int)bytes, mask, &p->least)
                              : shared_wavefronts(at, (int)bytes, mask, &p->least);
    }
    count->wavefronts += (uint64_t)p->wavefronts;
    count->conflicts += (uint64_t)(p->wavefronts - p->least);
}

void fault_shared_of(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                     uint32_t bytes, bool store);
static inline void fault_shared(struct warp *w, const struct op *op, int lane, uint32_t at,
                                uint32_t bytes, bool store)
{
    fault_shared_of(w, op, lane, w->cta, at, bytes, store);
}
void fault_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                  bool store);

// A pointer to a lane's bytes of local memory or of the kernel's parameters; NULL after a fault.
uint8_t *private_memory(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        bool store);

// Whether all of these bytes of shared memory have been written; written: a map with a bit for each
// byte.
static inline bool written_all(const uint8_t *written, uint32_t at, uint32_t bytes)
{
    if (bytes <= 4) // the access is aligned to its size, so its bits are within one byte of the map
        return !(~(written[at >> 3] >> (at & 7)) & ((1u << bytes) - 1));
    uint32_t i = at >> 3, end = (at + bytes) >> 3;
    uint64_t eight;
    for (; i + 8 <= end; i += 8) {
        memcpy(&eight, written + i, 8);
        if (~eight)
            return false;
    }
    for (; i < end; ++i)
        if (written[i] != 0xff)
            return false;
    return !((at + bytes) & 7) || !(~written[(at + bytes) >> 3] & ((1u << ((at + bytes) & 7)) - 1));
}

static inline void written_mark(uint8_t *written, uint32_t at, uint32_t bytes)
{
    if (bytes <= 4) {
        written[at >> 3] |= (uint8_t)(((1u << bytes) - 1) << (at & 7));
        return;
    }
    for (; bytes && (at & 7); ++at, --bytes)
        written[at >> 3] |= (uint8_t)(1u << (at & 7));
    memset(written + (at >> 3), 0xff, bytes >> 3);
    at += bytes & ~7u;
    bytes &= 7;
    for (; bytes; ++at, --bytes)
        written[at >> 3] |= (uint8_t)(1u << (at & 7));
}

#endif
