// order.h: all rules by which two accesses are ordered, or are no race although nothing orders them. The rules ask what
// a thread knows (races.h); threads.c and atomics.c keep track of that. They are in a header because the loops of
// shared.c and global.c apply them to every cell.
#ifndef PTXSIM_RACES_ORDER_H
#define PTXSIM_RACES_ORDER_H

#include "internal.h"

// Without `inline`, so that the compiler decides: with it, race_shared takes 5 % more instructions.
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

// The party (struct party) that stands for an access by a lane now.
RULE struct party party_by(const struct warp *w, int lane, const struct op *op)
{
    return party_of((uint32_t)w->cta->number, w->clock->now[lane],
                    (uint32_t)w->index * WARP + (uint32_t)lane, op->insn, race_kind(op));
}

// ---- Ordered, because the lane knows of the other access ---------------------------------------------

// Whether a write was made by a cp.async that its issuing thread has waited for by now.
RULE bool issuer_has_waited(const struct cta *home, uint32_t writer, uint32_t stamp)
{
    uint32_t issuer = issuer_of(writer), source = source_of(writer);
    return home->races->of_copies & race_source_bit(source) &&
           home->warp[issuer / WARP].clock->waited[issuer % WARP] >= stamp;
}

// Whether the events of a clock's entry `thread`, up to `stamp`, are ordered before what the lane does now.
RULE bool knows(const struct warp *w, int lane, uint32_t thread, uint32_t stamp)
{
    const struct warp_clock *c = w->clock;
    uint32_t mine = (uint32_t)w->index * WARP;
    return stamp <= c->base[lane] || thread == mine + (uint32_t)lane ||
           (thread / WARP == mine / WARP && stamp <= c->wbase[lane]) ||
           (c->known[lane] && thread < c->known[lane]->threads &&
            stamp <= c->known[lane]->at[thread]);
}

// Whether what `thread` did up to `stamp` is ordered before what the lane does now. `thread` may stand
// for loads that an mbarrier counts (races.h): then whether the arrival of these loads is ordered before that.
RULE bool ordered(const struct warp *w, int lane, uint32_t thread, uint32_t stamp)
{
    if (source_of(thread) < LOADS)
        return knows(w, lane, thread, stamp);
    return knows(w, lane, loads_of(w->cta->races, source_of(thread)), stamp) ||
           (issuer_has_waited(w->cta, thread, stamp) && knows(w, lane, issuer_of(thread), stamp));
}

// Whether what a party did, in this CTA or another one, is ordered before what the lane does now.
RULE bool party_before(const struct warp *w, int lane, const struct party *p)
{
    if (!p->stamp)
        return true;
    if (p->cta == (uint32_t)w->cta->number)
        return ordered(w, lane, p->thread, p->stamp);
    const struct clock *known = world_clock(w->clock->world[lane], p->cta);
    return known && clock_knows(known, p->thread, p->stamp);
}

// Whether a lane knows that a CTA has begun: it does if it knows anything of that CTA.
RULE bool has_begun(const struct warp *w, int lane, const struct cta *home)
{
    return world_clock(w->clock->world[lane], home->number) != NULL;
}

// Whether a product (wgmma) of warp p made the read at `stamp`, and the clock `known` shows that the product has read
// its operands.
RULE bool product_read(const struct races *s, const struct warp *w, const struct clock *known,
                       int p, uint32_t stamp, uint32_t insn)
{
    return known && known->at[products_of(s, p)] >= stamp &&
           insn_of(w, insn)->family == FAMILY_WGMMA;
}

// Those of `lanes`, lanes of warp p, whose read at `stamp` is not ordered before what the lane does now.
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

// Whether a read by another CTA is known to be complete: that CTA has since passed a barrier and
// set a flag, and this CTA has seen the flag before its own last barrier.
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

// Whether the clock of a fence includes what a thread of CTA `cta` did up to `stamp`. own: whether the fence, too,
// is by that CTA.
RULE bool shows(const struct clock *c, bool own, uint64_t cta, uint32_t thread, uint32_t stamp)
{
    const struct clock *known = !c || own ? c : world_clock(c->world, cta);
    return known && clock_knows(known, thread, stamp);
}

// Whether a fence that lane `by_lane` of warp `warp` of the CTA `by` has executed is ordered before what a lane does
// now.
RULE bool knows_fence(const struct warp *w, int lane, const struct cta *by, uint32_t warp,
                      const struct proxy_fence *fence, uint32_t by_lane)
{
    struct party p = party_of((uint32_t)by->number, fence->stamp, warp * WARP + by_lane, 0, 0);
    return party_before(w, lane, &p);
}

// Whether the lane knows of a proxy fence, by one warp of CTA `by`, that has shown to the asynchronous proxy what a
// thread of CTA `cta` did up to `stamp`. One fence often serves many accesses: the fence found by the last such search
// is tried first.
RULE bool is_shown_by(const struct warp *w, int lane, const struct cta *by, uint32_t warp,
                      enum proxy_space space, uint64_t cta, uint32_t thread, uint32_t stamp)
{
    struct proxy_fences *f = &by->warp[warp].clock->proxy;
    bool own = cta == by->number;
    if (shows(f->old[space], own, cta, thread, stamp))
        return true;
    if (f->served && f->count - f->served < PROXY_FENCES) {
        const struct proxy_fence *fence = &f->of[(f->served - 1) % PROXY_FENCES];
        if (fence->is_for[space] && shows(fence->shown, own, cta, thread, stamp) &&
            knows_fence(w, lane, by, warp, fence, f->served_by))
            return true;
    }
    for (uint32_t k = 1; k <= f->count && k <= PROXY_FENCES; ++k) {
        const struct proxy_fence *fence = &f->of[(f->count - k) % PROXY_FENCES];
        bool shown = fence->is_for[space] && shows(fence->shown, own, cta, thread, stamp);
        for (uint32_t left = shown ? fence->lanes : 0; left; left &= left - 1)
            if (knows_fence(w, lane, by, warp, fence, (uint32_t)__builtin_ctz(left))) {
                f->served = f->count - k + 1;
                f->served_by = (uint32_t)__builtin_ctz(left);
                return true;
            }
    }
    return false;
}

// Whether a proxy fence lies between what a thread of CTA `home` did and what the lane does now through the
// asynchronous proxy. The fence is by a thread of either CTA that knows of the first access, and the lane knows of the
// fence. Without a fence the two accesses are not ordered, whatever synchronises their threads: causality order holds
// only between accesses by one proxy, even for a read before a write (PTX ISA, "Causality Order").
RULE bool is_fenced(const struct warp *w, int lane, const struct cta *home, uint32_t thread,
                    uint32_t stamp)
{
    // The warp of the thread itself is tried first, since the fence is mostly by that warp.
    uint32_t own = thread / WARP < (uint32_t)home->warps ? thread / WARP : 0;
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

// Whether a proxy fence lies between a write and what the lane does now. The writer may be loads that an mbarrier
// counts (races.h).
RULE bool is_write_fenced(const struct warp *w, int lane, const struct cta *home, uint32_t writer,
                          uint32_t stamp)
{
    if (source_of(writer) < LOADS)
        return is_fenced(w, lane, home, writer, stamp);
    return is_fenced(w, lane, home, loads_of(home->races, source_of(writer)), stamp) ||
           (issuer_has_waited(home, writer, stamp) &&
            is_fenced(w, lane, home, issuer_of(writer), stamp));
}

// Whether a proxy fence lies between a party's access to global memory and what the lane does now. A fence by the
// party's CTA, if it is not the lane's, counts even if it is not ordered before what the lane does.
RULE bool is_fenced_global(const struct warp *w, int lane, const struct party *p)
{
    for (int i = 0; i < w->cta->warps; ++i)
        if (is_shown_by(w, lane, w->cta, (uint32_t)i, PROXY_GLOBAL, p->cta, p->thread, p->stamp))
            return true;
    return p->cta != (uint32_t)w->cta->number && race_told_fenced(w->cta->worker, p);
}

// ---- A race, although the lane knows of the other access --------------------------------------------

// Whether a write at `stamp` is a race with an asynchronous operation (wgmma, a bulk copy from
// shared memory) that was issued at `issued`. The operation may read at any time from its issue
// until its completion is seen. So a write in between is a race, even with a barrier between issue
// and write: PTX treats such an operation as another thread's, and only its own completion
// mechanism orders it (PTX ISA, "Program Order – Asynchronous Operations").
RULE bool is_overwritten(const struct warp *w, int lane, uint32_t thread, uint32_t stamp,
                         uint32_t issued)
{
    return stamp > issued && stamp < RACE_FOREIGN && ordered(w, lane, thread, stamp);
}

// Whether a lane loads what another CTA wrote last, both by strong accesses, and has learnt of that write only through
// a fence of CTA scope. In PTX that is no race, since both are strong; but such a fence orders nothing for other CTAs,
// so the lane may still load the old value. A load that is repeated until it finds the new value does not count.
RULE bool told_narrowly(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    const struct world *narrow = w->clock->narrow[lane];
    if (!narrow || !p->stamp || p->cta == (uint32_t)w->cta->number || !op->order ||
        insn_of(w, op->insn)->polls || party_before(w, lane, p))
        return false;
    const struct clock *known = world_clock(narrow, p->cta);
    return known && clock_knows(known, p->thread, p->stamp);
}

// ---- No race, although nothing orders the accesses --------------------------------------------------

// Whether two accesses that share a byte are both strong and cover the same bytes: they do if they have the same strong
// kind.
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

// Whether this access and another one, by a thread of CTA `cta`, are morally strong: both are
// strong, they cover the same bytes, and the scope of each includes the other's thread (PTX ISA,
// "Morally strong operations").
RULE bool are_morally_strong(const struct warp *w, const struct op *op, uint32_t cta, uint32_t kind,
                             uint32_t insn)
{
    return are_strong(race_kind(op), kind) && includes(w, op->insn, cta) && includes(w, insn, cta);
}

RULE bool polls(const struct warp *w, uint32_t insn)
{
    return insn_of(w, insn)->polls;
}

// Whether two accesses are volatile ones of lanes that run together, so that only their running in step orders them. If
// either of them polls, the answer is no: a lane that polls a flag works whenever the other lane sets it.
RULE bool in_step(const struct warp *w, const struct op *op, int lane, uint32_t thread,
                  uint32_t insn)
{
    return thread / WARP == (uint32_t)w->index && thread % WARP != (uint32_t)lane &&
           w->here >> thread % WARP & 1 && insn_of(w, op->insn)->is_volatile &&
           insn_of(w, insn)->is_volatile && !polls(w, op->insn) && !polls(w, insn);
}

// Whether an instruction loads or stores a matrix. All lanes of a warp execute it together: when a
// lane is at such an instruction, every lane has completed the warp's earlier ones.
RULE bool is_matrix(const struct warp *w, uint32_t insn)
{
    enum family family = insn_of(w, insn)->family;
    return family == FAMILY_FRAGMENT || family == FAMILY_TILES;
}

RULE bool both_matrices(const struct warp *w, const struct op *op, uint32_t warp, uint32_t insn)
{
    return warp == (uint32_t)w->index && is_matrix(w, op->insn) && is_matrix(w, insn);
}

// Whether a load is taken for the one before a loop around atom.cas, as in CUDA's own examples: the
// instruction `cas` is a compare-and-swap of elements of the load's size. The two are no race,
// since the swap fails if the loaded value was old.
RULE bool is_load_of_cas(const struct warp *w, uint32_t load, uint32_t cas)
{
    const struct insn_info *insns = w->cta->program->insns;
    return insns[cas & RACE_INSN].swaps &&
           insns[load & RACE_INSN].element == insns[cas & RACE_INSN].element;
}

// The part of an access to `bytes` bytes at `at` that lies within `size` bytes at `from`. first: its first byte,
// counted from `at`; count: its bytes.
struct part {
    uint32_t first, count;
};

RULE struct part part_in(uint64_t at, uint32_t bytes, uint64_t from, uint64_t size)
{
    uint64_t low = from > at ? from : at, end = at + bytes;
    uint64_t high = from + size < end ? from + size : end;
    return (struct part){(uint32_t)(low - at), (uint32_t)(high - low)};
}

// Whether a store of `value` leaves a part of memory unchanged. Two writes of the same value are no race.
RULE bool stores_same(const void *memory, const void *value, struct part p)
{
    return !memcmp((const uint8_t *)memory + p.first, (const uint8_t *)value + p.first, p.count);
}

// Whether a party's access to global memory and this one are both loads or stores of matrices by the same warp.
RULE bool mine_of_matrices(const struct warp *w, const struct op *op, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && both_matrices(w, op, p->thread / WARP, p->insn);
}

// Whether a party's access to global memory and this one are volatile accesses in step.
RULE bool mine_in_step(const struct warp *w, const struct op *op, int lane, const struct party *p)
{
    return p->cta == (uint32_t)w->cta->number && in_step(w, op, lane, p->thread, p->insn);
}

// ---- An access against earlier writes and reads -----------------------------------------------------

// Whether a lane's access to global memory is a race with a write. The caller checks whether a store writes the same
// value.
RULE bool writer_races(const struct warp *w, const struct op *op, int lane, enum race_access access,
                       const struct party *p)
{
    if (!p->stamp || party_before(w, lane, p) || mine_of_matrices(w, op, p) ||
        (access == RACE_READ && is_load_of_cas(w, op->insn, p->insn)))
        return false;
    return !are_morally_strong(w, op, p->cta, p->kind, p->insn) || mine_in_step(w, op, lane, p);
}

// The first of `lanes` whose write is a race with a read in `r`; *reader gets the thread that read. -1: there is none.
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

// Whether a lane's read (me) may replace an earlier one (before) at a cell: it may if every later
// write that is a race with the earlier read is a race with this one, too.
RULE bool takes_place(const struct warp *w, int lane, const struct party *me,
                      const struct party *before)
{
    bool known = before->cta == me->cta || w->clock->world[lane];
    return !before->stamp || ((me->kind == RACE_PLAIN || me->kind == before->kind) && known &&
                              party_before(w, lane, before));
}

#endif
