// copy_async.c: asynchronous copies (cp.async).
//
// A cp.async reads its source when it is issued. Its bytes appear in shared memory at a wait: at
// wait_group by the thread that issued it, or when a thread sees that the phase of an mbarrier to
// which the copy is bound is complete. A GPU may not let them appear later. So a program that does
// not wait computes with what was there before, and the race is reported (races/). In a hasty launch
// half of the copies appear at once: a program that copies over what others still read computes with
// the new bytes.
#include "address.h"
#include "async.h"
#include "mbarrier.h"
#include "scalars.h"

#include <stdlib.h>

struct copies {          // the copies of a warp
    uint32_t open[WARP]; // for each lane, the number of the group that it fills
    // For each lane, a bit for each source (races/) of its copies that are bound to mbarriers.
    uint32_t bound_to[WARP];
    size_t count, capacity;
    struct copy {
        uint32_t at, bytes, insn, group;
        uint32_t meeting; // 1 + the number of its mbarrier; 0: bound to none
        // The phase to which it is bound: complete when the mbarrier has completed more phases than
        // this.
        uint32_t phase;
        uint8_t lane, data[16];
        bool early;                  // whether its bytes have appeared already
        size_t execution;            // 1 + its execution in an ablation's log; 0: none
        uint64_t issued[PROGRESSES]; // the CTA's progress at the issue
    } * list;
};

static struct copies *copies_of(struct warp *w)
{
    if (!w->copies)
        w->copies = calloc(1, sizeof *w->copies);
    if (!w->copies)
        abort();
    return w->copies;
}

static void copies_drop(struct warp *w)
{
    if (w->copies)
        free(w->copies->list);
    free(w->copies);
    w->copies = NULL;
}

// Notes in the log of an ablation what the CTA did while a copy was on its way.
static void note_arrival(const struct cta *cta, const struct copy *c)
{
    struct execution *e = &cta->launch->ablation->log[c->execution - 1];

    for (int i = 0; i < PROGRESSES; ++i)
        e->under_way[i] += (float)c->bytes * (float)(cta->progress_of[i] - c->issued[i]);
    for (uint32_t i = 0; i < c->bytes; ++i) {
        uint32_t *byte = &cta->brought[c->at + i];
        *byte = (*byte == (c->execution | BYTE_COUNTED) ? *byte : (uint32_t)c->execution) |
                BYTE_ARRIVED;
    }
}

static void arrive_copy(struct warp *w, const struct copy *c, uint32_t source, uint32_t stamp)
{
    if (!c->early)
        memcpy(w->cta->shared + c->at, c->data, c->bytes);
    if (c->execution)
        note_arrival(w->cta, c);
    race_arrived(w->cta, w, c->lane, c->insn, c->at, c->bytes, source, stamp);
}

struct copy_places { // the addresses of each lane's copy
    uint64_t to[WARP], from[WARP];
    uint32_t used[WARP]; // bytes read from the source; the rest is filled with zeros
};

static void copy_places_of(const char *r, const struct op *op, struct copy_places *p)
{
    const struct copy_operands *o = op->operands;

    for (int i = 0; i < WARP; ++i) {
        uint64_t to = address_in(r, o->to, o->to_wide, o->to_offset, i);
        p->to[i] = to - (to >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT ? SHARED_WINDOW : 0);
        p->from[i] = address_in(r, o->from, o->from_wide, o->from_offset, i);
        p->used[i] = o->size != NO_REGISTER ? ((const u32 *)(r + o->size))[i] : op->bytes;
        if (o->ignore != NO_REGISTER && *(const u32 *)(r + o->ignore) >> i & 1)
            p->used[i] = 0;
    }
}

// Checks and notes the reads of all 32 lanes at once, if the lanes read whole pieces at consecutive
// addresses, every earlier write there is ordered before the reads, and no address is wrong: mostly
// it is so. Otherwise returns false: each lane must be checked by itself.
static bool copy_reads_run(struct warp *w, const struct op *op, const struct copy_places *p)
{
    const struct copy_operands *o = op->operands;
    const uint32_t size = op->bytes;
    uint64_t first = p->from[0], other = first % size;

    for (uint32_t i = 0; i < WARP; ++i)
        other |= (p->from[i] ^ (first + i * size)) | (p->used[i] ^ size) | p->to[i] % size |
                 !within(p->to[i], size, w->cta->shared_bytes);
    if (other || !global_span(w, first, WARP * size) ||
        !global_defined(w, first, WARP * size, false) ||
        (w->clock && !o->read_run(w, op, first, size, NULL)))
        return false;
    global_touch(w, op, first, WARP * size, false);
    return true;
}

// Whether the copies of a group appear when they are issued: in a hasty launch, half of the groups.
static bool is_early(const struct warp *w, uint32_t group)
{
    return w->cta->launch->hasty && (w->cta->number + (uint64_t)w->index + group) % 2;
}

void copy_async_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct copies *copies = copies_of(w);
    struct cta *cta = w->cta;
    struct insn_counts *count = counts_of(w, op);
    const uint32_t size = op->bytes;
    struct copy_places p;
    uint32_t reads = 0;

    copy_places_of(r, op, &p);
    const bool run = mask == ~0u && copy_reads_run(w, op, &p);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t to = p.to[i], from = p.from[i];
        uint32_t used = p.used[i];
        if (used > size) {
            fault_at(w, op, i, FAULT_OUT_OF_BOUNDS, "cp.async of %u bytes, %u from the source",
                     size, used);
            return;
        }
        if (to % size || !within(to, size, cta->shared_bytes)) {
            fault_shared(w, op, i, to > UINT32_MAX ? UINT32_MAX : (uint32_t)to, size, true);
            continue;
        }
        struct copy c = {.at = (uint32_t)to,
                         .bytes = size,
                         .insn = op->insn,
                         .group = copies->open[i],
                         .early = is_early(w, copies->open[i]),
                         .lane = (uint8_t)i};
        if (used && !run) {
            if (from % size || !global_span(w, from, used) ||
                !global_defined(w, from, used, false)) {
                fault_global(w, op, i, from, from % size ? size : used, false);
                continue;
            }
            global_touch(w, op, from, used, false);
            race_global(w, op, 1u << i, from, used, RACE_READ, NULL);
        }
        if (used) {
            memcpy(c.data, (const void *)(uintptr_t)from, used);
            count->global_bytes += used;
            reads |= 1u << i;
        }
        if (c.early)
            memcpy(cta->shared + c.at, c.data, size);
        race_shared(w, op, 1u << i, c.at, size, RACE_ASYNC, NULL);
        // A read before the bytes arrive is reported as a race, not as uninitialised.
        if (cta->written)
            written_mark(cta->written, c.at, size);
        copies->list =
            array_grow(copies->list, copies->count, &copies->capacity, sizeof *copies->list);
        copies->list[copies->count++] = c;
    }
    if (reads)
        count->sectors += (uint64_t)global_sectors(p.from, op->bytes, reads);
    note_effect(w);
}

// For race checks of a copy that is bound to a phase of an mbarrier. source_of_copies: the source
// of writes (races.h) to which all copies bound to the phase belong. clock_of_copies: the clock
// that a thread acquires when it sees the phase complete.
static uint32_t *source_of_copies(struct cta *cta, const struct copy *c)
{
    return &cta->meetings[c->meeting - 1].copies[c->phase % 2];
}

static struct clock **clock_of_copies(struct cta *cta, const struct copy *c)
{
    struct meeting *m = &cta->meetings[c->meeting - 1];
    return c->phase < m->phases ? &m->complete : &m->pending;
}

// Called when a lane's copies of `source` have arrived at `stamp`: adds this arrival to the clocks
// of the phases to which the lane's later copies, from index `from` on, are bound. Such a phase
// also waits for all copies that the lane issued before, so whoever sees the phase complete knows
// that these have arrived.
static void tell_later(struct warp *w, size_t from, int lane, uint32_t source, uint32_t stamp)
{
    for (size_t i = from; i < w->copies->count; ++i) {
        const struct copy *c = &w->copies->list[i];
        if (c->lane == lane && c->meeting && *source_of_copies(w->cta, c) != source)
            race_loads_known(w->cta, source, stamp, clock_of_copies(w->cta, c));
    }
}

// Called when the thread that issued copy i has waited for it. If the copy is bound to a phase of
// an mbarrier, whoever sees that phase complete knows that the copy has arrived.
static void arrive_awaited(struct warp *w, size_t i)
{
    const struct copy *c = &w->copies->list[i];
    uint32_t source = c->meeting ? *source_of_copies(w->cta, c) : 0;
    uint32_t stamp = w->clock ? w->clock->now[c->lane] : 0;
    if (source) {
        race_loads_known(w->cta, source, stamp, clock_of_copies(w->cta, c));
        tell_later(w, i + 1, c->lane, source, stamp);
    }
    arrive_copy(w, c, source, stamp);
}

// commit_group and wait_group. imm: how many groups may be left; -1: only commits.
void copy_group_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    struct copies *copies = copies_of(w);
    note_effect(w);
    if (op->imm < 0 || op->open_group) { // commit_group, or wait_all
        for (uint32_t left = mask; left; left &= left - 1)
            copies->open[__builtin_ctz(left)]++;
        if (op->imm < 0)
            return;
    }
    size_t kept = 0;
    if (w->cta->program->tells_mbarriers)
        race_copies_awaited(w, mask);
    for (size_t i = 0; i < copies->count; ++i) {
        const struct copy *c = &copies->list[i];
        if (mask >> c->lane & 1 && c->group + (uint64_t)op->imm < copies->open[c->lane])
            arrive_awaited(w, i);
        else
            copies->list[kept++] = *c;
    }
    copies->count = kept;
}

void copies_bind(struct warp *w, int lane, uint32_t meeting, uint32_t phase)
{
    struct copies *copies = copies_of(w);
    race_loads_told(w->cta, copies->bound_to[lane], &w->cta->meetings[meeting].pending);
    for (size_t i = 0; i < copies->count; ++i) {
        struct copy *c = &copies->list[i];
        if (c->lane != lane || c->meeting)
            continue;
        c->meeting = 1 + meeting;
        c->phase = phase;
        uint32_t *source = source_of_copies(w->cta, c);
        *source = *source ? *source : race_load_source(w->cta, true);
        copies->bound_to[lane] |= race_source_bit(*source);
    }
}

// Makes those copies of a warp arrive that are bound to a complete phase, and those that the same
// threads issued before them.
static void arrive_bound(struct warp *w, uint32_t meeting, uint32_t phases, uint32_t stamp[2])
{
    struct copies *copies = w->copies;
    struct cta *cta = w->cta;
    size_t last[WARP] = {0}, kept = 0; // for each lane, 1 + its last copy that arrives
    uint32_t lanes = 0;
    for (size_t i = 0; i < copies->count; ++i) {
        const struct copy *c = &copies->list[i];
        if (c->meeting != meeting + 1 || c->phase >= phases)
            continue;
        uint32_t *at = &stamp[c->phase % 2], source = *source_of_copies(cta, c);
        *at = *at ? *at : race_loads_come(cta, source, &cta->meetings[meeting].complete);
        if (!(lanes >> c->lane & 1))
            tell_later(w, i + 1, c->lane, source, *at);
        lanes |= 1u << c->lane;
        last[c->lane] = i + 1;
    }
    for (size_t i = 0; lanes && i < copies->count; ++i) {
        const struct copy *c = &copies->list[i];
        if (i >= last[c->lane]) {
            copies->list[kept++] = *c;
            continue;
        }
        uint32_t source = *source_of_copies(cta, c), at = stamp[c->phase % 2];
        if (c->meeting != meeting + 1) {
            at = race_loads_come(cta, source, clock_of_copies(cta, c));
            race_loads_known(cta, source, at, &cta->meetings[meeting].complete);
            tell_later(w, i + 1, c->lane, source, at);
        }
        arrive_copy(w, c, source, at);
        note_effect(w);
    }
    copies->count = lanes ? kept : copies->count;
}

void copies_arrive(struct cta *cta, uint32_t meeting, uint32_t phases)
{
    uint32_t stamp[2] = {0}; // indexed by the parity of the phase
    for (int k = 0; k < cta->warps; ++k)
        if (cta->warp[k].copies)
            arrive_bound(&cta->warp[k], meeting, phases, stamp);
}

size_t copies_open(const struct warp *w)
{
    return w->copies ? w->copies->count : 0;
}

void copies_spoil(struct warp *w, size_t first)
{
    for (size_t i = first; i < copies_open(w); ++i)
        for (uint32_t k = 0; k < w->copies->list[i].bytes; ++k)
            w->copies->list[i].data[k] ^= 0x80;
}

void copies_note(struct warp *w, size_t first, size_t execution)
{
    for (size_t i = first; i < copies_open(w); ++i) {
        struct copy *c = &w->copies->list[i];
        c->execution = execution + 1;
        for (uint32_t k = 0; k < c->bytes; ++k)
            w->cta->brought[c->at + k] = (uint32_t)c->execution;
        memcpy(w->copies->list[i].issued, w->cta->progress_of, sizeof w->cta->progress_of);
    }
}

uint64_t copies_hash(const struct warp *w, size_t first, uint32_t *bytes)
{
    uint64_t hash = 0xcbf29ce484222325; // FNV-1a

    *bytes = 0;
    for (size_t i = first; i < copies_open(w); ++i) {
        const struct copy *c = &w->copies->list[i];
        *bytes += c->bytes;
        for (uint32_t k = 0; k < c->bytes; ++k)
            hash = (hash ^ c->data[k]) * 0x100000001b3;
    }
    return hash;
}

void copies_start(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i) {
        struct copies *copies = cta->warp[i].copies;
        if (copies) {
            copies->count = 0;
            memset(copies->open, 0, sizeof copies->open);
            memset(copies->bound_to, 0, sizeof copies->bound_to);
        }
    }
}

void copies_destroy(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i)
        copies_drop(&cta->warp[i]);
}
