// order.h: the rules by which two accesses are in order, or are no race although they are not: all of them, and
// nothing else. What a thread knows (threads.c, atomics.c) is kept elsewhere; here it is asked. In a header, for the
// loops of shared.c and global.c ask it of every cell.
#ifndef PTXSIM_RACES_ORDER_H
#define PTXSIM_RACES_ORDER_H

#include "internal.h"

// Whether a rule is inlined is left to the compiler: with `inline`, race_shared takes 5 % more instructions.
#define RULE static __attribute__((unused))

RULE const struct insn_info *insn_of(const struct warp *w, uint32_t insn)
{
    return &w->cta->program->insns[insn & RACE_INSN];
}

RULE bool is_bulk(const struct warp *w, uint32_t insn)
{
    return insn_of(w, insn)->family == FAMILY_BULK;
}

// Whether an instruction accesses memory through the asynchronous proxy.
RULE bool is_asynchronous(const struct warp *w, uint32_t insn)
{
    return is_bulk(w, insn) || insn_of(w, insn)->family == FAMILY_WGMMA;
}

RULE uint32_t race_kind(const struct op *op)
{
    return op->order & ORDER_STRONG ? 1 + (uint32_t)__builtin_ctz(op->bytes) : RACE_PLAIN;
}

// A lane, as the party that makes an access now.
RULE struct party party_by(const struct warp *w, int lane, const struct op *op)
{
    return party_of((uint32_t)w->cta->number, w->clock->now[lane],
                    (uint32_t)w->index * WARP + (uint32_t)lane, op->insn, race_kind(op));
}

// ---- In order, because the lane knows of it -------------------------------------------------------

// Whether a write was by a cp.async, and the thread that has issued it has waited for it by now.
RULE bool issuer_has_waited(const struct cta *home, uint32_t writer, uint32_t stamp)
{
    uint32_t issuer = issuer_of(writer), source = source_of(writer);
    return home->races->of_copies & race_source_bit(source) &&
           home->warp[issuer / WARP].clock->waited[issuer % WARP] >= stamp;
}

// Whether what has that place in a clock did up to `stamp` comes before what the lane does now.
RULE bool knows(const struct warp *w, int lane, uint32_t thread, uint32_t stamp)
{
    const struct warp_clock *c = w->clock;
    uint32_t mine = (uint32_t)w->index * WARP;
    return stamp <= c->base[lane] || thread == mine + (uint32_t)lane ||
           (thread / WARP == mine / WARP && stamp <= c->wbase[lane]) ||
           (c->known[lane] && thread < c->known[lane]->threads &&
            stamp <= c->known[lane]->at[thread]);
}

// Whether what `thread` did up to `stamp` comes before what the lane does now. It may be a writer by loads (cells.h):
// then whether the lane knows that they have come.
RULE bool ordered(const struct warp *w, int lane, uint32_t thread, uint32_t stamp)
{
    if (source_of(thread) < LOADS)
        return knows(w, lane, thread, stamp);
    return knows(w, lane, loads_of(w->cta->races, source_of(thread)), stamp) ||
           (issuer_has_waited(w->cta, thread, stamp) && knows(w, lane, issuer_of(thread), stamp));
}

// Whether what a party did, of this CTA or another one, comes before what the lane does now.
RULE bool party_before(const struct warp *w, int lane, const struct party *p)
{
    if (!p->stamp)
        return true;
    if (p->cta == (uint32_t)w->cta->number)
        return ordered(w, lane, p->thread, p->stamp);
    const struct clock *known = world_clock(w->clock->world[lane], p->cta);
    return known && clock_knows(known, p->thread, p->stamp);
}

// Whether a lane knows that a CTA has begun: it knows anything of that CTA.
RULE bool has_begun(const struct warp *w, int lane, const struct cta *home)
{
    return world_clock(w->clock->world[lane], home->number) != NULL;
}

// Whether a read at `stamp` was by a product of warp p that a clock knows to have read its operands.
RULE bool product_read(const struct races *s, const struct warp *w, const struct clock *known,
                       int p, uint32_t stamp, uint32_t insn)
{
    return known && known->at[products_of(s, p)] >= stamp &&
           insn_of(w, insn)->family == FAMILY_WGMMA;
}

// Of some lanes of warp p: those of which a read at `stamp` is not known to come before what the lane
// does now.
RULE uint32_t unordered(const struct warp *w, int lane, int p, uint32_t lanes, uint32_t stamp,
                        uint32_t insn)
{
    const struct warp_clock *c = w->clock;
    const struct clock *known = c->known[lane];
    if (stamp <= c->base[lane] || (p == w->index && stamp <= c->wbase[lane]))
        return 0;
    if (p == w->index)
        lanes &= ~(1u << lane);
    if (!known || known->threads < (uint32_t)(p + 1) * WARP)
        return lanes;
    uint32_t later = 0;
    for (int i = 0; i < WARP; ++i)
        later |= (uint32_t)(known->at[p * WARP + i] < stamp) << i;
    lanes &= later;
    return lanes && product_read(w->cta->races, w, known, p, stamp, insn) ? 0 : lanes;
}

// Whether a read by another CTA is known to be complete: a barrier of that CTA came after it, and then a
// flag that this CTA has seen.
RULE bool is_complete(const struct warp *w, const struct party *p)
{
    const struct completed *c = &w->cta->races->completed;
    for (uint32_t low = 0, high = c->count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (c->of[middle].cta == p->cta)
            return p->stamp <= c->of[middle].stamp;
        if (c->of[middle].cta < p->cta)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

// Whether a fence's clock, of the thread's own CTA or of another one, has what a thread of a CTA did up to `stamp`.
RULE bool shows(const struct clock *c, bool own, uint64_t cta, uint32_t thread, uint32_t stamp)
{
    const struct clock *known = !c || own ? c : world_clock(c->world, cta);
    return known && clock_knows(known, thread, stamp);
}

// Whether a proxy fence of a warp of `by` that a lane knows of has shown the asynchronous proxy what a thread of a CTA
// did up to `stamp`.
RULE bool is_shown_by(const struct warp *w, int lane, const struct cta *by, uint32_t warp,
                      enum proxy_space space, uint64_t cta, uint32_t thread, uint32_t stamp)
{
    const struct proxy_fences *f = &by->warp[warp].clock->proxy;
    bool own = cta == by->number;
    if (shows(f->old[space], own, cta, thread, stamp))
        return true;
    for (uint32_t k = 1; k <= f->count && k <= PROXY_FENCES; ++k) {
        const struct proxy_fence *fence = &f->of[(f->count - k) % PROXY_FENCES];
        bool shown = fence->is_for[space] && shows(fence->shown, own, cta, thread, stamp);
        for (uint32_t left = shown ? fence->lanes : 0; left; left &= left - 1) {
            struct party p = party_of((uint32_t)by->number, fence->stamp,
                                      warp * WARP + (uint32_t)__builtin_ctz(left), 0, 0);
            if (party_before(w, lane, &p))
                return true;
        }
    }
    return false;
}

// Whether there is a proxy fence between what a thread of a CTA did and what a lane does now through the asynchronous
// proxy: a fence by a thread that knows of the former and of which the lane knows, of that CTA or its own. Without it
// the two are in no order, whatever synchronises the threads: only accesses by one proxy keep causality order, and that
// is so of a read before a write, too (PTX ISA, "Causality Order").
RULE bool is_fenced(const struct warp *w, int lane, const struct cta *home, uint32_t thread,
                    uint32_t stamp)
{
    uint32_t own = thread / WARP < (uint32_t)home->warps ? thread / WARP : 0; // mostly by this warp
    if (is_shown_by(w, lane, home, own, PROXY_SHARED, home->number, thread, stamp))
        return true;
    for (int i = 0; i < home->warps; ++i)
        if (is_shown_by(w, lane, home, (uint32_t)i, PROXY_SHARED, home->number, thread, stamp))
            return true;
    for (int i = 0; home != w->cta && i < w->cta->warps; ++i)
        if (is_shown_by(w, lane, w->cta, (uint32_t)i, PROXY_SHARED, home->number, thread, stamp))
            return true;
    return false;
}

// Whether there is such a fence after a write, whose writer may be a load (cells.h).
RULE bool is_write_fenced(const struct warp *w, int lane, const struct cta *home, uint32_t writer,
                          uint32_t stamp)
{
    if (source_of(writer) < LOADS)
        return is_fenced(w, lane, home, writer, stamp);
    return is_fenced(w, lane, home, loads_of(home->races, source_of(writer)), stamp) ||
           (issuer_has_waited(home, writer, stamp) &&
            is_fenced(w, lane, home, issuer_of(writer), stamp));
}

// In global memory. Of other CTAs' own fences it is not asked whether the lane knows of them.
RULE bool is_fenced_global(const struct warp *w, int lane, const struct party *p)
{
    for (int i = 0; i < w->cta->warps; ++i)
        if (is_shown_by(w, lane, w->cta, (uint32_t)i, PROXY_GLOBAL, p->cta, p->thread, p->stamp))
            return true;
    return p->cta != (uint32_t)w->cta->number && race_told_fenced(w->cta->worker, p);
}

// ---- A race, although the lane knows of it ---------------------------------------------------------

// An operation that goes on by itself (wgmma, a bulk copy from shared memory) may read at any time from its issue until
// its completion is seen. So a write in between is a race, even if a barrier stands between issue and write:
// PTX takes such an operation for one of another thread, which only its own way of completion orders
// (PTX ISA, "Program Order – Asynchronous Operations").
RULE bool is_overwritten(const struct warp *w, int lane, uint32_t thread, uint32_t stamp,
                         uint32_t issued)
{
    return stamp > issued && stamp < RACE_FOREIGN && ordered(w, lane, thread, stamp);
}

// Whether a lane that loads what another CTA wrote last, both strong, has been told of that write with a fence for one
// CTA only. PTX calls this no race, for the accesses are strong, but the lane may find the value before it: such a
// fence orders nothing for other CTAs. A load that is repeated until it finds the new value does not mind.
RULE bool told_narrowly(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    const struct world *narrow = w->clock->narrow[lane];
    if (!narrow || !p->stamp || p->cta == (uint32_t)w->cta->number || !op->order ||
        insn_of(w, op->insn)->polls || party_before(w, lane, p))
        return false;
    const struct clock *known = world_clock(narrow, p->cta);
    return known && clock_knows(known, p->thread, p->stamp);
}

// ---- No race, although nothing orders them --------------------------------------------------------

// Whether two accesses that share a byte are both strong, and of the same bytes.
RULE bool are_strong(uint32_t kind, uint32_t other)
{
    return kind != RACE_PLAIN && kind == other;
}

// Whether the scope of a warp's instruction includes the threads of a CTA.
RULE bool includes(const struct warp *w, uint32_t insn, uint32_t cta)
{
    enum scope scope = insn_of(w, insn)->scope;
    return cta == (uint32_t)w->cta->number || scope == SCOPE_GPU ||
           (scope == SCOPE_CLUSTER && cta_of(w, cta) != w->cta);
}

// Whether an access and one by a CTA are morally strong: strong, of the same bytes, and each within the other's
// scope (PTX ISA, "Morally strong operations").
RULE bool are_morally_strong(const struct warp *w, const struct op *op, uint32_t cta, uint32_t kind,
                             uint32_t insn)
{
    return are_strong(race_kind(op), kind) && includes(w, op->insn, cta) && includes(w, insn, cta);
}

RULE bool polls(const struct warp *w, uint32_t insn)
{
    return insn_of(w, insn)->polls;
}

// Volatile accesses of two lanes that run together. A lane that waits for a flag of another one runs apart
// from it, or asks again: then the flag may come in any round.
RULE bool in_step(const struct warp *w, const struct op *op, int lane, uint32_t thread,
                  uint32_t insn)
{
    return thread / WARP == (uint32_t)w->index && thread % WARP != (uint32_t)lane &&
           w->here >> thread % WARP & 1 && insn_of(w, op->insn)->is_volatile &&
           insn_of(w, insn)->is_volatile && !polls(w, op->insn) && !polls(w, insn);
}

// Loads and stores of matrices: the lanes of a warp meet at each, and who has come to one has done with
// the one before.
RULE bool is_matrix(const struct warp *w, uint32_t insn)
{
    enum family family = insn_of(w, insn)->family;
    return family == FAMILY_FRAGMENT || family == FAMILY_TILES;
}

RULE bool both_matrices(const struct warp *w, const struct op *op, uint32_t warp, uint32_t insn)
{
    return warp == (uint32_t)w->index && is_matrix(w, op->insn) && is_matrix(w, insn);
}

// A loop around atom.cas begins with a plain load of its place, as CUDA's own examples do.
RULE bool is_load_of_cas(const struct warp *w, uint32_t load, uint32_t cas)
{
    const struct insn_info *insns = w->cta->program->insns;
    return insns[cas & RACE_INSN].swaps &&
           insns[load & RACE_INSN].element == insns[cas & RACE_INSN].element;
}

// Which of an access's bytes, the `bytes` from `at` on, lie in `size` bytes from `from` on: the first of
// them, and how many.
struct part {
    uint32_t first, count;
};

RULE struct part part_in(uint64_t at, uint32_t bytes, uint64_t from, uint64_t size)
{
    uint64_t low = from > at ? from : at, end = at + bytes;
    uint64_t high = from + size < end ? from + size : end;
    return (struct part){(uint32_t)(low - at), (uint32_t)(high - low)};
}

// Whether a store of `value` leaves a part of what is in memory as it is: two writes of the same value are
// no race.
RULE bool stores_same(const void *memory, const void *value, struct part p)
{
    return !memcmp((const uint8_t *)memory + p.first, (const uint8_t *)value + p.first, p.count);
}

// Whether a party's access to global memory and this one are both to matrices, by the same warp.
RULE bool mine_of_matrices(const struct warp *w, const struct op *op, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && both_matrices(w, op, p->thread / WARP, p->insn);
}

// Whether a party's access to global memory and this one are volatile accesses in step.
RULE bool mine_in_step(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && in_step(w, op, lane, p->thread, p->insn);
}

// ---- An access, and what was written or read before ------------------------------------------------

// Whether a lane's access to global memory is a race with a write. A store of the same value is looked for
// elsewhere.
RULE bool writer_races(const struct warp *w, const struct op *op, int lane, enum race_access access,
                       const struct party *p)
{
    if (!p->stamp || party_before(w, lane, p) || mine_of_matrices(w, op, p) ||
        (access == RACE_READ && is_load_of_cas(w, op->insn, p->insn)))
        return false;
    return !are_morally_strong(w, op, p->cta, p->kind, p->insn) || mine_in_step(w, op, lane, p);
}

// The first of some lanes whose write is a race with such reads, and the thread that has read; -1: there is no
// such lane.
RULE int race_with(const struct warp *w, const struct op *op, uint32_t lanes,
                   const struct readers *r, uint32_t *reader)
{
    bool strong = are_strong(race_kind(op), r->kind);
    bool in_step = strong && r->warp == w->index && insn_of(w, op->insn)->is_volatile &&
                   insn_of(w, r->insn)->is_volatile && !polls(w, r->insn);
    if ((strong && !in_step) ||
        (op->order && r->kind == RACE_PLAIN && is_load_of_cas(w, r->insn, op->insn)) ||
        both_matrices(w, op, (uint32_t)r->warp, r->insn))
        return -1;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        uint32_t readers = unordered(w, lane, r->warp, r->lanes, r->stamp, r->insn);
        readers &= in_step ? w->here : ~0u;
        *reader = (uint32_t)r->warp * WARP + (readers ? (uint32_t)__builtin_ctz(readers) : 0);
        if (readers)
            return lane;
    }
    return -1;
}

// Whether a lane's write is a race with a read by a party.
RULE bool reader_races(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    if (!p->stamp || party_before(w, lane, p) || is_complete(w, p) || mine_of_matrices(w, op, p))
        return false;
    bool strong = are_morally_strong(w, op, p->cta, p->kind, p->insn) ||
                  (op->order && p->kind == RACE_PLAIN && is_load_of_cas(w, p->insn, op->insn));
    return !strong || mine_in_step(w, op, lane, p);
}

// Whether a party's read need not be remembered once a lane's later read (me) is: every access that is in
// order with the later read, or strong of its kind, is so with the earlier one, too.
RULE bool takes_place(const struct warp *w, int lane, const struct party *me,
                      const struct party *before)
{
    bool known = before->cta == me->cta || w->clock->world[lane];
    return !before->stamp || ((me->kind == RACE_PLAIN || me->kind == before->kind) && known &&
                              party_before(w, lane, before));
}

#endif
