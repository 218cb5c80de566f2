// address.c: finds the memory that an access's address belongs to, and reports what is wrong with
// the access.
#include "address.h"

#include "cluster.h"
#include "ptxsim/base/heap.h"
#include "ptxsim/machine/film.h"

bool global_span_slow(struct warp *w, uint64_t address, uint64_t bytes)
{
    struct allocation block;
    const struct allocation *found = memory_find(address, bytes, NULL);
    if (!found || !found->live)
        return false;
    if (heap_find(address, bytes, &block))
        found = &block;
    if (!found->live)
        return false;
    w->cta->worker->last = *found;
    return true;
}

void global_note(struct warp *w, const struct op *op, uint64_t address, uint32_t bytes, bool store)
{
    const struct worker *worker = w->cta->worker;
    const struct allocation *a = &worker->last;
    bool strong = op->order & ORDER_STRONG || op->family == FAMILY_ATOMIC;
    unsigned kind = (strong ? NOTE_STRONG_READ : NOTE_READ) + store;
    // A strong access may be a message between the kernels, so it does not count as early.
    bool early = w->cta->launch->early && !w->cta->waited && !strong;
    uint64_t at = address - a->base;

    memset(a->notes + kind * a->size + at, 1, bytes);
    if (early)
        memset(a->notes + (NOTE_EARLY_READ + store) * a->size + at, 1, bytes);
    if (!worker->spans)
        return;
    struct touched_span *span = &worker->spans[op->insn];
    if (!span->kinds || address < span->start)
        span->start = address;
    if (address + bytes > span->end)
        span->end = address + bytes;
    span->kinds |= 1u << kind | (early ? 1u << (NOTE_EARLY_READ + store) : 0);
}

static bool library_may(const struct warp *w, const struct op *op)
{
    return w->cta->launch->libraries && race_in_library(w->cta->program, op->insn);
}

void fault_shared_of(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                     uint32_t bytes, bool store)
{
    const char *verb = store ? "writes" : "reads";
    uint32_t size = home->shared_bytes;
    char of[64];
    cluster_name(w, home, of, sizeof of);
    if (!within(at, bytes, size))
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at shared address %u%s, past the end of the CTA's %u bytes of shared "
                 "memory",
                 verb, bytes, at, of, size);
    else if (at % bytes)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s %u bytes at shared address %u%s, which is no multiple of %u", verb, bytes, at,
                 of, bytes);
    // A library's reads of unwritten bytes are not reported: CUB's merges load an element past the
    // end of a tile, which is still inside shared memory, and do not use it. CUTLASS's fragments
    // have rows past the end of a matrix, and rows of tiles after the last one.
    else if (!library_may(w, op)) {
        if (w->cta->film)
            film_party(w->cta->film, (uint32_t)(w->index * WARP + lane), at, bytes, false, false);
        race_report(w, op, lane, FAULT_UNINITIALISED, op->insn,
                    "%s %u bytes at shared address %u%s that nothing has written", verb, bytes, at,
                    of);
    }
}

void fault_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                  bool store)
{
    const char *verb = store ? "writes" : "reads";
    const struct allocation *nearest = NULL;
    unsigned long long address = at;
    const struct allocation *found = memory_find(at, bytes, &nearest);
    struct allocation block;
    // Loads and stores to local memory do not come here.
    if (at >> WINDOW_SHIFT == LOCAL_WINDOW >> WINDOW_SHIFT) {
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at offset %llu of local memory, where %s cannot go", verb, bytes,
                 address - (unsigned long long)LOCAL_WINDOW,
                 w->cta->program->insns[op->insn].opcode);
        return;
    }
    if (heap_find(at, bytes, &block) && !block.live) {
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx of the heap, not all of them in a block that malloc in "
                 "device code "
                 "returned and nobody freed",
                 verb, bytes, address);
        return;
    }
    if (found && found->live && at % bytes == 0) {
        const uint8_t *defined = found->defined ? found->defined + (at - found->base) : NULL;
        if (defined && memchr(defined, 1, bytes) && library_may(w, op))
            return; // CUB copies its own structures with their padding
        // Only a load, or an atomic operation, which loads first, can read memory that was never
        // written.
        race_report(w, op, lane, FAULT_UNINITIALISED, op->insn,
                    "reads %u bytes at 0x%llx, byte %llu of an allocation of %llu bytes, that "
                    "nothing has written",
                    bytes, address, address - (unsigned long long)found->base,
                    (unsigned long long)found->size);
        return;
    }
    if (found && found->live) {
        fault_at(w, op, lane, FAULT_MISALIGNED, "%s %u bytes at 0x%llx, which is no multiple of %u",
                 verb, bytes, address, bytes);
        return;
    }
    if (found)
        nearest = found;
    const struct allocation *above = memory_above(at);
    const char *where = memory_of_host(at) ? " in the host's memory" : "";
    bool before =
        above && above->live && (!nearest || above->base - at < at - nearest->base - nearest->size);
    if (at < 4096)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx: a null pointer", verb,
                 bytes, address);
    else if (nearest && !nearest->live && at - nearest->base < nearest->size)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx, in an allocation of %llu bytes that has been freed", verb,
                 bytes, address, (unsigned long long)nearest->size);
    else if (nearest && at >= nearest->base && at - nearest->base < nearest->size)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx, across the end of the allocation of %llu bytes", verb,
                 bytes, address, (unsigned long long)nearest->size);
    else if (before)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx%s, %llu bytes before the allocation of %llu bytes", verb,
                 bytes, address, where, (unsigned long long)(above->base - at),
                 (unsigned long long)above->size);
    else if (nearest && at >= nearest->base)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s %u bytes at 0x%llx%s, %llu bytes past the end of the allocation of %llu bytes",
                 verb, bytes, address, where,
                 (unsigned long long)(at - nearest->base - nearest->size),
                 (unsigned long long)nearest->size);
    else
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx%s, in no allocation",
                 verb, bytes, address, where);
}

uint8_t *private_memory(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        bool store)
{
    const struct program *program = w->cta->program;
    const char *verb = store ? "writes" : "reads";
    uint64_t window = at >> WINDOW_SHIFT << WINDOW_SHIFT;
    uint64_t own = op->space == SPACE_PARAM   ? PARAM_WINDOW
                   : op->space == SPACE_LOCAL ? LOCAL_WINDOW
                                              : window;
    bool is_param = own == PARAM_WINDOW, is_local = own == LOCAL_WINDOW;
    uint64_t offset = op->space == SPACE_GENERIC ? at - own : at;
    if (!is_param && !is_local) {
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at 0x%llx, in no address space",
                 verb, bytes, (unsigned long long)at);
        return NULL;
    }
    uint64_t size = is_param ? program->kernel->info.param_bytes : program->local_bytes;
    const char *name = is_param ? "the kernel's parameters" : "local memory";
    if (!within(offset, bytes, size))
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s %u bytes at offset %llu of %s, %llu bytes",
                 verb, bytes, (unsigned long long)offset, name, (unsigned long long)size);
    else if (offset % bytes)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s %u bytes at offset %llu of %s, which is no multiple of %u", verb, bytes,
                 (unsigned long long)offset, name, bytes);
    else if (is_param && store)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "writes to the kernel's parameters");
    else if (is_param)
        return (uint8_t *)(uintptr_t)w->cta->launch->params + offset;
    else
        return (uint8_t *)w->local + (size_t)lane * program->local_bytes + offset;
    return NULL;
}
