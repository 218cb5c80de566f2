// barrier.c: the barriers of a CTA (bar.sync, barrier.cta.arrive, bar.red).
#include "ops.h"
#include "scalars.h"

#include "ptxsim/machine/groups.h"

#include <stdlib.h>

uint32_t living_threads(const struct cta *cta)
{
    uint32_t threads = 0;
    for (int i = 0; i < cta->warps; ++i)
        threads += cta->warp[i].alive ? WARP : 0;
    return threads;
}

// The lanes of a warp that wait at a barrier.
static uint32_t waiting_at(const struct warp *w, unsigned id)
{
    uint32_t lanes = 0;
    for (int k = 0; k < w->group_count; ++k)
        if (w->groups[k].arrived && w->groups[k].barrier == id)
            lanes |= w->groups[k].mask;
    return lanes;
}

// For race checks: orders all that the threads that arrived at a barrier have done before what the
// threads that waited there do from now on.
static void barrier_orders(struct cta *cta, unsigned id)
{
    struct clock **clock = &cta->barrier[id].clock;
    bool all = !*clock;
    for (int i = 0; i < cta->warps && cta->barrier[id].expected; ++i)
        all &= cta->warp[i].alive != 0; // at a barrier with a count, an ended warp has no part
    // Pass 0: do all threads take part? If not, pass 1 releases and pass 2 acquires.
    for (int pass = 0; pass < 3; ++pass) {
        for (int i = 0; i < cta->warps; ++i) {
            struct warp *w = &cta->warp[i];
            uint32_t lanes = waiting_at(w, id);
            if (pass == 0)
                all &= lanes == w->alive;
            else if (pass == 1 && lanes)
                race_release(w, lanes, clock);
            else if (lanes)
                race_acquire(w, lanes, *clock);
        }
        if (all) {
            race_barrier_all(cta);
            break;
        }
    }
    clock_drop(clock);
}

// __syncthreads() is for all threads of the CTA at one place in the code. The hardware does not
// tell places apart, so different places are reported, and the kernel goes on. Threads that have
// ended do not count (NVIDIA's guide to Volta's changes: a barrier waits for all threads that have
// not exited); compute-sanitizer's synccheck accepts them, too.
static void report_places(struct cta *cta, unsigned id)
{
    const struct insn_info *insns = cta->program->insns, *first = NULL;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        for (int k = 0; k < w->group_count; ++k) {
            const struct group *g = &w->groups[k];
            if (!g->arrived || g->barrier != id)
                continue;
            const struct op *op = first_op(cta->program, g->block);
            const struct insn_info *insn = &insns[op->insn];
            if (first && first->at.line && insn->at.line && first->at.line != insn->at.line)
                race_report(w, op, __builtin_ctz(g->mask), FAULT_DIVERGENT_BARRIER,
                            (uint32_t)(first - insns),
                            "%s for all threads of the block, where others came to that at %s:%d "
                            "instead",
                            insn->opcode, first->at.file, first->at.line);
            if (!first)
                first = insn;
        }
    }
}

// ---- Lanes that run past a barrier --------------------------------------------------------------
//
// Lanes of a warp wait at a __syncthreads() in a branch that the others do not take. The others run
// on and end, and then the barrier completes, since lanes that have ended do not count. A GPU does
// the same if the machine code keeps the branch; synccheck reports it, too.

// Whether a lane in block `from` can reach block `to` within the same function.
static bool reaches(const struct program *p, uint32_t from, uint32_t to)
{
    uint32_t *open = checked_alloc(calloc(p->block_count + 1, sizeof *open)), count = 0;
    bool *seen = checked_alloc(calloc(p->block_count + 1, sizeof *seen));
    open[count++] = from;
    seen[from] = true;
    while (count && !seen[to]) {
        uint32_t block = open[--count];
        const struct basic_block *b = &p->blocks[block];
        const struct op *last = &p->ops[b->first + b->count - (b->count ? 1 : 0)];
        bool jumps = last->family == FAMILY_BRANCH, ends = b->ends_flow;
        const struct switch_operands *s = last->family == FAMILY_SWITCH ? last->operands : NULL;
        int ways = (s ? s->count : jumps) + 1;
        for (int i = 0; i < ways; ++i) {
            bool on = i == ways - 1;
            uint32_t next = on ? block + 1 : (uint32_t)(s ? s->targets[i] : last->block);
            if ((on && ends) || next >= p->block_count || seen[next])
                continue;
            seen[next] = true;
            open[count++] = next;
        }
    }
    bool found = seen[to];
    free(open);
    free(seen);
    return found;
}

void barrier_note_passing(struct warp *w, const struct group *g)
{
    const struct program *p = w->cta->program;
    // A block with a single operation only branches or ends the kernel.
    if (!(g->mask & ~w->passed) || p->blocks[g->block].count < 2)
        return;
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *o = &w->groups[i];
        const struct basic_block *b = &p->blocks[o->block];
        if (o == g || o->arrived || o->frame != g->frame || b->sync != SYNC_BARRIER ||
            !b->barrier->aligned || b->barrier->has_count || !reaches(p, o->block + 1, g->block))
            continue;
        w->passed |= g->mask;
        w->passed_block = o->block;
        return;
    }
}

void barrier_report_passed(struct warp *w, const struct op *op, uint32_t mask)
{
    const struct insn_info *insns = w->cta->program->insns;
    const struct op *barrier = first_op(w->cta->program, w->passed_block);
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *o = &w->groups[i];
        if (o->block == w->passed_block && !o->arrived)
            race_report(
                w, barrier, __builtin_ctz(o->mask), FAULT_DIVERGENT_BARRIER, op->insn,
                "%s for all threads of the block: lane %d of the warp has run past it to the "
                "kernel's end",
                insns[barrier->insn].opcode, __builtin_ctz(w->passed & mask));
    }
    w->passed &= ~mask;
}

void release_barrier(struct cta *cta, unsigned id)
{
    if (!cta->barrier[id].arrived)
        return;
    uint32_t expected = cta->barrier[id].expected ? cta->barrier[id].expected : living_threads(cta);
    if (cta->barrier[id].arrived < expected)
        return;
    if (cta->trace)
        trace_release(cta->trace, cta, id);
    if (cta->races && !id && !cta->barrier[id].expected)
        report_places(cta, id);
    if (cta->races)
        barrier_orders(cta, id);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        for (int k = 0; k < w->group_count; ++k) {
            struct group *g = &w->groups[k];
            if (!g->arrived || g->barrier != id)
                continue;
            const struct barrier_operands *b = cta->program->blocks[g->block].barrier;
            char *out = w->file + g->frame + b->output;
            bool yes = b->kind == BARRIER_AND ? cta->barrier[id].yes == cta->barrier[id].lanes
                                              : cta->barrier[id].yes != 0;
            if (b->kind == BARRIER_POPC) {
                for (int lane = 0; lane < WARP; ++lane)
                    if (g->mask >> lane & 1)
                        ((u32 *)out)[lane] = cta->barrier[id].yes;
            } else if (b->kind == BARRIER_AND || b->kind == BARRIER_OR) {
                *(u32 *)out = (*(u32 *)out & ~g->mask) | (yes ? g->mask : 0);
            }
            g->arrived = false;
            g->block++;
        }
    }
    memset(&cta->barrier[id], 0, sizeof cta->barrier[id]);
}

void barrier_left(struct warp *w)
{
    for (int k = 0; k < w->group_count && w->alive; ++k) {
        const struct group *g = &w->groups[k];
        unsigned id = g->barrier;
        if (!g->arrived || id >= NAMED_BARRIERS || waiting_at(w, id) != w->alive)
            continue;
        w->cta->barrier[id].arrived += WARP - (uint32_t)__builtin_popcount(w->alive);
        release_barrier(w->cta, id);
        return;
    }
}

void barrier_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct cta *cta = w->cta;
    const struct barrier_operands *b = op->operands;
    int lane = __builtin_ctz(mask);
    uint32_t id = ((u32 *)(r + b->id))[lane];
    uint32_t count = b->has_count ? ((u32 *)(r + b->count))[lane] : 0;
    if (id >= NAMED_BARRIERS) {
        fault_at(w, op, lane, FAULT_TRAP, "barrier %u; there are %d", id, NAMED_BARRIERS);
        return;
    }
    if (b->has_count && (!count || count % WARP)) {
        fault_at(w, op, lane, FAULT_TRAP, "a barrier of %u threads, which is no multiple of %d",
                 count, WARP);
        return;
    }
    if (cta->barrier[id].arrived && cta->barrier[id].expected != count) {
        fault_at(w, op, lane, FAULT_TRAP, "barrier %u of %u threads, where others wait for %u", id,
                 count, cta->barrier[id].expected);
        return;
    }
    note_effect(w);
    w->passed &= ~mask; // these lanes have reached the barrier after all
    cta->barrier[id].expected = count;
    // The last remaining lanes complete the warp, which then counts as 32 threads.
    uint32_t before = mask == w->alive || b->kind == BARRIER_ARRIVE ? 0 : waiting_at(w, id);
    cta->barrier[id].arrived += (before | mask) == w->alive
                                    ? WARP - (uint32_t)__builtin_popcount(before)
                                    : (uint32_t)__builtin_popcount(mask);
    if (b->kind >= BARRIER_POPC) {
        uint32_t p = *(u32 *)(r + b->input) ^ (b->negated ? ~0u : 0);
        cta->barrier[id].lanes += (uint32_t)__builtin_popcount(mask);
        cta->barrier[id].yes += (uint32_t)__builtin_popcount(p & mask);
    }
    if (b->kind == BARRIER_ARRIVE)
        race_release(w, mask, &cta->barrier[id].clock);
    else {
        w->gone = mask; // the lanes that wait here form a group
        w->groups[w->group_count++] = (struct group){.mask = mask,
                                                     .block = w->next - 1,
                                                     .frame = (uint32_t)(r - w->file),
                                                     .arrived = true,
                                                     .barrier = (uint8_t)id};
        if (cta->trace)
            trace_arrive(cta->trace, w, op->insn, id, mask);
    }
    release_barrier(cta, id);
}
