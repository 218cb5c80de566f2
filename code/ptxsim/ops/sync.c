// sync.c: asynchronous copies (cp.async), mbarriers, fences.
//
// A cp.async reads its source when it is issued, and its bytes appear in shared memory at the wait:
// at wait_group by the thread that issued it, or when a thread sees complete the phase of an
// mbarrier that the copy was bound to. The machine may be as late as that; a program that does not
// wait computes with what was there before, and is told so (races.h).
#include "sync.h"
#include "address.h"
#include "bulk.h"
#include "scalars.h"
#include "wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- cp.async -----------------------------------------------------------------------------------

struct copies {          // of a warp
    uint32_t open[WARP]; // number of the group that each lane fills
    size_t count, capacity;
    struct copy {
        uint32_t at, bytes, insn, group, stamp;
        uint32_t meeting; // 1 + the mbarrier's, 0: none
        uint32_t phase;   // complete when the mbarrier has completed more than these
        uint8_t lane, data[16];
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

void copies_drop(struct warp *w)
{
    if (w->copies)
        free(w->copies->list);
    free(w->copies);
    w->copies = NULL;
}

static void arrive_copy(struct warp *w, const struct copy *c, uint32_t stamp)
{
    memcpy(w->cta->shared + c->at, c->data, c->bytes);
    race_arrived(w, c->lane, c->insn, c->at, c->bytes, stamp);
}

// regs: destination, source, source size (or NO_REGISTER), whether to ignore the source (or
// NO_REGISTER). bytes: the size; imm, width: the offsets of source and destination.
void copy_async_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct copy_operands *o = (const struct copy_operands *)op->regs;
    struct copies *copies = copies_of(w);
    struct cta *cta = w->cta;
    struct insn_counts *count = counts_of(w, op);
    uint64_t from[WARP];
    uint32_t reads = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t to = o->to_wide ? ((u64 *)(r + o->to))[i] : ((u32 *)(r + o->to))[i];
        to += (uint64_t)o->to_offset;
        from[i] = o->from_wide ? ((u64 *)(r + o->from))[i] : ((u32 *)(r + o->from))[i];
        from[i] += (uint64_t)o->from_offset;
        uint32_t size = op->bytes, used = size;
        if (o->size != NO_REGISTER)
            used = ((u32 *)(r + o->size))[i];
        if (o->ignore != NO_REGISTER && *(u32 *)(r + o->ignore) >> i & 1)
            used = 0;
        if (used > size) {
            fault_at(w, op, i, FAULT_OUT_OF_BOUNDS, "cp.async of %u bytes, %u from the source",
                     size, used);
            return;
        }
        if (to >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
            to -= SHARED_WINDOW;
        if (to % size || to + size > cta->shared_bytes) {
            fault_shared(w, op, i, to > UINT32_MAX ? UINT32_MAX : (uint32_t)to, size, true);
            continue;
        }
        struct copy c = {.at = (uint32_t)to,
                         .bytes = size,
                         .insn = op->insn,
                         .group = copies->open[i],
                         .lane = (uint8_t)i};
        if (used) {
            if (from[i] % size || !global_span(w, from[i], used) ||
                !global_defined(w, from[i], used, false)) {
                fault_global(w, op, i, from[i], from[i] % size ? size : used, false);
                continue;
            }
            global_touch(w, from[i], used, false);
            race_global(w, op, 1u << i, from[i], used, RACE_READ, NULL);
            memcpy(c.data, (const void *)(uintptr_t)from[i], used);
            count->global_bytes += used;
            reads |= 1u << i;
        }
        race_shared(w, op, 1u << i, c.at, size, RACE_ASYNC, NULL);
        if (cta->written) // what is read too early is reported as a race
            written_mark(cta->written, c.at, size);
        copies->list =
            array_grow(copies->list, copies->count, &copies->capacity, sizeof *copies->list);
        copies->list[copies->count++] = c;
    }
    if (reads)
        count->sectors += (uint64_t)global_sectors(from, op->bytes, reads);
    note_effect(w);
}

// imm: groups that may be left; -1: commit only.
void copy_group_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    struct copies *copies = copies_of(w);
    note_effect(w);
    if (op->imm < 0 || op->target) { // commit_group, or wait_all: what is open counts too
        for (uint32_t left = mask; left; left &= left - 1)
            copies->open[__builtin_ctz(left)]++;
        if (op->imm < 0)
            return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < copies->count; ++i) {
        const struct copy *c = &copies->list[i];
        if (mask >> c->lane & 1 && c->group + (uint64_t)op->imm < copies->open[c->lane])
            arrive_copy(w, c, w->clock ? w->clock->now[c->lane] : 0);
        else
            copies->list[kept++] = *c;
    }
    copies->count = kept;
}

// ---- mbarriers ----------------------------------------------------------------------------------

// The object in shared memory, opaque to programs: threads expected in a phase (20 bits), those
// still missing in this one (20), the phase's parity (1), bytes still missing (23, signed).
struct state {
    uint32_t expected, pending, parity;
    int32_t bytes;
};

static uint64_t pack_state(struct state s)
{
    return (uint64_t)s.expected | (uint64_t)s.pending << 20 | (uint64_t)s.parity << 40 |
           (uint64_t)(uint32_t)s.bytes << 41;
}

static struct state unpack_state(uint64_t word)
{
    return (struct state){.expected = word & 0xfffff,
                          .pending = word >> 20 & 0xfffff,
                          .parity = word >> 40 & 1,
                          .bytes = (int32_t)((int64_t)word >> 41)};
}

struct meeting { // what is known of an mbarrier beside its object
    uint32_t at, phases;
    struct clock *pending, *complete; // of those who arrive in this phase; in all before
};

static struct meeting *meeting_at(struct cta *cta, uint32_t at)
{
    for (size_t i = 0; i < cta->meeting_count; ++i)
        if (cta->meetings[i].at == at)
            return &cta->meetings[i];
    cta->meetings = array_grow(cta->meetings, cta->meeting_count, &cta->meeting_capacity,
                               sizeof *cta->meetings);
    cta->meetings[cta->meeting_count] = (struct meeting){.at = at};
    return &cta->meetings[cta->meeting_count++];
}

void sync_start(struct cta *cta)
{
    for (size_t i = 0; i < cta->meeting_count; ++i) {
        clock_drop(&cta->meetings[i].pending);
        clock_drop(&cta->meetings[i].complete);
    }
    cta->meeting_count = 0;
    bulk_start(cta);
    wgmma_start(cta);
    cta->progress = cta->idle = 0;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        w->yields = false;
        w->waits = NULL;
        if (w->copies) {
            w->copies->count = 0;
            memset(w->copies->open, 0, sizeof w->copies->open);
        }
    }
}

void sync_finish(struct cta *cta)
{
    bulk_finish(cta);
    wgmma_finish(cta);
}

void sync_destroy(struct cta *cta)
{
    sync_start(cta);
    free(cta->meetings);
    bulk_destroy(cta);
    wgmma_destroy(cta);
    for (int i = 0; i < cta->warps; ++i)
        copies_drop(&cta->warp[i]);
}

// Whether a lane's mbarrier is in shared memory, at *at; false after a fault.
static bool good_object(struct warp *w, const struct op *op, int lane, uint64_t wide, bool starts,
                        uint32_t *at)
{
    if (wide >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
        wide -= SHARED_WINDOW;
    *at = wide > UINT32_MAX ? UINT32_MAX : (uint32_t)wide;
    if (*at % 8 || *at + (uint64_t)8 > w->cta->shared_bytes ||
        (!starts && w->cta->written && !written_all(w->cta->written, *at, 8))) {
        if (*at % 8 || *at + (uint64_t)8 > w->cta->shared_bytes)
            fault_shared(w, op, lane, *at, 8, starts);
        else
            fault_at(w, op, lane, FAULT_UNINITIALISED,
                     "%s at shared address 0x%x that nothing has written",
                     w->cta->program->insns[op->insn].opcode, *at);
        return false;
    }
    return true;
}

static bool find_object(struct warp *w, char *r, const struct op *op, int lane, uint32_t *at)
{
    uint64_t wide = op->wide_address ? ((u64 *)(r + op->a))[lane] : ((u32 *)(r + op->a))[lane];
    wide += (uint64_t)op->imm;
    if (!op->wide_address)
        wide = (uint32_t)wide;
    return good_object(w, op, lane, wide, op->target == MBARRIER_INIT, at);
}

static void settle(struct cta *cta, struct meeting *m, struct state *s)
{
    if (s->pending || s->bytes)
        return;
    s->parity ^= 1;
    s->pending = s->expected;
    m->phases++;
    clock_join(&m->complete, m->pending);
    clock_drop(&m->pending);
    cta->progress++;
}

// Copies whose mbarrier has completed the phase that they were bound to.
static void arrive_bound(struct cta *cta, uint32_t index, uint32_t phases)
{
    for (int k = 0; k < cta->warps; ++k) {
        struct warp *w = &cta->warp[k];
        size_t kept = 0;
        for (size_t i = 0; w->copies && i < w->copies->count; ++i) {
            struct copy *c = &w->copies->list[i];
            if (c->meeting == index + 1 && c->phase < phases) {
                arrive_copy(w, c, c->stamp);
                note_effect(w);
            } else
                w->copies->list[kept++] = *c;
        }
        if (w->copies)
            w->copies->count = kept;
    }
    bulk_arrive(cta, index, phases);
}

static void bind_copies(struct warp *w, int lane, const struct meeting *m)
{
    for (size_t i = 0; w->copies && i < w->copies->count; ++i) {
        struct copy *c = &w->copies->list[i];
        if (c->lane == lane && !c->meeting) {
            c->meeting = 1 + (uint32_t)(m - w->cta->meetings);
            c->phase = m->phases;
            c->stamp = w->clock ? w->clock->now[lane] : 0;
        }
    }
}

static bool arrive(struct warp *w, const struct op *op, int lane, struct meeting *m,
                   struct state *s, uint32_t count)
{
    if (!count || count > s->pending) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "arrives %u times at the mbarrier at shared address 0x%x, where this phase lacks "
                 "%u of %u arrivals",
                 count, m->at, s->pending, s->expected);
        return false;
    }
    s->pending -= count;
    w->cta->progress++;
    return true;
}

// The lanes' operation on the mbarrier at one address.
static void at_one(struct warp *w, char *r, const struct op *op, uint32_t lanes, uint32_t at)
{
    const struct mbarrier_operands *o = (const struct mbarrier_operands *)op->regs;
    struct cta *cta = w->cta;
    struct meeting *m = meeting_at(cta, at);
    uint8_t *object = cta->shared + at;
    int first = __builtin_ctz(lanes);
    bool starts = op->target == MBARRIER_INIT, ends = op->target == MBARRIER_INVAL;
    // The end is not checked: libcu++'s pipeline ends its mbarriers with no more than a match_any.
    race_shared(w, op, lanes, at, 8, starts ? RACE_WRITE : RACE_READ, NULL);
    if (starts || ends) {
        uint32_t count = starts ? ((u32 *)(r + o->operand))[first] : 0;
        if (starts && (!count || count > 0xfffff)) {
            fault_at(w, op, first, FAULT_TRAP, "an mbarrier for %u arrivals", count);
            return;
        }
        uint64_t word = pack_state((struct state){.expected = count, .pending = count});
        memcpy(object, &word, 8);
        if (cta->written)
            written_mark(cta->written, at, 8);
        clock_drop(&m->pending);
        clock_drop(&m->complete);
        m->phases++; // what was bound to the old one has come
        return;
    }
    uint64_t word;
    memcpy(&word, object, 8);
    struct state s = unpack_state(word);
    if (!s.expected) {
        fault_at(w, op, first, FAULT_TRAP,
                 "%s at shared address 0x%x, where no mbarrier is initialised",
                 cta->program->insns[op->insn].opcode, at);
        return;
    }
    if (op->target == MBARRIER_WAIT) {
        uint32_t passed = 0;
        for (uint32_t left = lanes; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            uint32_t parity = o->parity ? ((u32 *)(r + o->operand))[i] & 1
                                        : unpack_state(((u64 *)(r + o->operand))[i]).parity;
            passed |= (uint32_t)(parity != s.parity) << i;
        }
        u32 *d = (u32 *)(r + op->d);
        *d = (*d & ~lanes) | passed;
        if (passed) {
            cta->progress++;
            arrive_bound(cta, (uint32_t)(m - cta->meetings), m->phases);
            race_acquire(w, passed, m->complete);
        }
        if (cta->trace)
            trace_ask(cta->trace, w, op->insn, at, passed == lanes);
        w->waits = passed == lanes ? NULL : op;
        w->waits_at = at;
        w->yields |= passed != lanes;
        return;
    }
    if (op->target == MBARRIER_COPIES)
        for (uint32_t left = lanes; left; left &= left - 1)
            bind_copies(w, __builtin_ctz(left), m);
    if (op->target != MBARRIER_EXPECT && op->target != MBARRIER_COMPLETE)
        race_release(w, lanes, &m->pending);
    uint32_t phases = m->phases;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t value = o->operand == NO_REGISTER ? 1 : ((u32 *)(r + o->operand))[i];
        if (o->result != NO_REGISTER)
            ((u64 *)(r + o->result))[i] = pack_state(s);
        switch ((enum mbarrier_kind)op->target) {
        case MBARRIER_EXPECT: s.bytes += (int32_t)value; continue;
        case MBARRIER_COMPLETE:
            s.bytes -= (int32_t)value;
            cta->progress++;
            break;
        case MBARRIER_ARRIVE_EXPECT:
        case MBARRIER_DROP_EXPECT:
            s.bytes += (int32_t)value;
            value = 1;
            break;
        default: break;
        }
        if (op->target == MBARRIER_DROP || op->target == MBARRIER_DROP_EXPECT)
            s.expected -= value < s.expected ? value : s.expected - 1;
        if (op->target == MBARRIER_COPIES)
            value = o->no_increment;
        if (op->target != MBARRIER_COMPLETE && value && !arrive(w, op, i, m, &s, value))
            return;
        settle(cta, m, &s);
    }
    if (cta->trace && op->target != MBARRIER_EXPECT)
        trace_meet(cta->trace, w, at, m->phases != phases);
    word = pack_state(s);
    memcpy(object, &word, 8);
}

bool mbarrier_bind(struct warp *w, const struct op *op, int lane, uint64_t address, uint32_t bytes,
                   uint32_t *meeting, uint32_t *phase)
{
    struct cta *cta = w->cta;
    struct op strong = *op;
    uint32_t at;
    uint64_t word;
    strong.order = ORDER_STRONG;
    if (!good_object(w, op, lane, address, false, &at))
        return false;
    if (cta->races)
        race_shared(w, &strong, 1u << lane, at, 8, RACE_READ, NULL);
    memcpy(&word, cta->shared + at, 8);
    struct state s = unpack_state(word);
    if (!s.expected) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "%s at shared address 0x%x, where no mbarrier is initialised",
                 cta->program->insns[op->insn].opcode, at);
        return false;
    }
    struct meeting *m = meeting_at(cta, at);
    *meeting = (uint32_t)(m - cta->meetings);
    *phase = m->phases;
    race_release(w, 1u << lane, &m->pending);
    s.bytes -= (int32_t)bytes;
    cta->progress++;
    settle(cta, m, &s);
    word = pack_state(s);
    memcpy(cta->shared + at, &word, 8);
    return true;
}

void mbarrier_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    uint32_t at[WARP], good = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (find_object(w, r, op, i, &at[i]))
            good |= 1u << i;
    }
    while (good && !w->cta->faulted) {
        int first = __builtin_ctz(good);
        uint32_t same = 0;
        for (uint32_t left = good; left; left &= left - 1)
            same |= (uint32_t)(at[__builtin_ctz(left)] == at[first]) << __builtin_ctz(left);
        good &= ~same;
        at_one(w, r, op, same, at[first]);
        if (op->target != MBARRIER_WAIT)
            note_effect(w);
    }
}

void mbarrier_describe(const struct cta *cta, uint32_t at, char *text, size_t size)
{
    uint64_t word;
    memcpy(&word, cta->shared + at, 8);
    struct state s = unpack_state(word);
    char name[80];
    shared_name(cta->program, at, name, sizeof name);
    int used = snprintf(text, size, "mbarrier at %u%s, phase of parity %u: %u of %u arrivals", at,
                        name, s.parity, s.expected - s.pending, s.expected);
    if (s.bytes && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %d bytes missing", s.bytes);
}

// a: the state; d: the arrivals that it lacked.
void mbarrier_pending_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    for (int i = 0; i < WARP; ++i)
        ((u32 *)(r + op->d))[i] = unpack_state(((u64 *)(r + op->a))[i]).pending;
}

// ---- Fences -------------------------------------------------------------------------------------

// imm: whether other CTAs see it.
void fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    race_fence(w, mask, op->imm);
}

void proxy_fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op;
    race_proxy_fence(w, mask);
}

void nanosleep_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op, (void)mask;
    w->yields = true;
}
