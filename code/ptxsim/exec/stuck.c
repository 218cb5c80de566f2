// stuck.c: finds warps that wait for something that will never happen, and describes their waits.
//
// What a warp does next depends on its registers and on memory. If its registers come back to
// earlier values, and meanwhile nothing happened that another warp could see, the warp is in a
// loop, and stays there until another warp acts. When this is so for all warps of all CTAs, no warp
// will ever act: that is a proof of a deadlock, not a guess from the time that passes. A loop that
// counts its rounds never has the same registers twice: it is found by a limit on its blocks. A
// loop that keeps storing always has effects: its launch is stopped when the budget is spent.
#include "exec.h"

#include "ptxsim/machine/groups.h"
#include "ptxsim/ops/cluster.h"
#include "ptxsim/ops/ops.h"
#include "ptxsim/ops/scalars.h"

#include <stdio.h>

enum {
    LOOP_TURN = 64,       // basic blocks in a turn while a warp's loop is searched
    MOST_STEPS = 1 << 26, // basic blocks without an effect after which a loop is called endless
    // Checks (is_stuck) from one record of a loop's state to the next: if there are more, registers
    // of ended lanes are no longer changed.
    CAREFUL_FROM = 16,
    MOST_LOOP = 1 << 16, // basic blocks within which a loop is expected to begin its next round
};

// ---- Loops --------------------------------------------------------------------------------------

uint64_t effects_of(const struct run *run)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < run->worker_count; ++i)
        sum += atomic_load_explicit(&run->workers[i].effects, memory_order_acquire);
    return sum;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    uint64_t word, other = hash ^ UINT64_C(0x9e3779b97f4a7c15);
    // Two chains of multiplications, since each multiplication waits for the one before in its
    // chain.
    for (; size >= 16; size -= 16, at += 16) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 29;
        memcpy(&word, at + 8, 8);
        other = (other ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
        other ^= other >> 31;
    }
    word = 0;
    memcpy(&word, at, size < 8 ? size : 8);
    return (hash ^ word) * UINT64_C(0xff51afd7ed558ccd) + other;
}

// A hash of everything that determines what a warp does next, except memory that others can write.
static uint64_t state_of(const struct warp *w)
{
    const struct program *p = w->cta->program;
    uint64_t hash = hash_bytes(w->alive, w->file, p->file_bytes);
    if (w->local)
        hash = hash_bytes(hash, w->local, p->local_bytes * WARP);
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *g = &w->groups[i];
        uint64_t words[2] = {g->mask | (uint64_t)g->block << 32,
                             g->frame | (uint64_t)g->arrived << 32 | (uint64_t)g->barrier << 40};
        hash = hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

// Whether a warp is stuck: it waits, or loops, as long as the sum of all effects stays `effects`.
static bool is_stuck(struct warp *w, uint64_t effects)
{
    uint64_t limit = w->cta->launch->spin ? w->cta->launch->spin : MOST_STEPS;
    if (!w->group_count || pick_group(w) < 0)
        return true;                   // the warp has ended, or waits at a barrier
    uint64_t turns = w->turns & 0xfff; // decides whether each group gets a turn (pick_group)
    if (!w->loop.watched || w->loop.effects != effects) {
        w->loop.watched = true;
        w->loop.found = w->loop.endless = w->loop.careful = false;
        w->loop.effects = effects;
        w->loop.rounds = 0;
        w->loop.until = 1;
        w->loop.first = w->steps;
    } else if (w->loop.found) {
        return true;
    } else if (w->loop.turns == turns && w->loop.state == state_of(w)) {
        w->loop.found = true;
        return true;
    } else if (w->steps - w->loop.first > limit) {
        w->loop.found = w->loop.endless = true;
        return true;
    } else if (++w->loop.rounds < w->loop.until) {
        return false;
    } else {
        w->loop.rounds = 0;
        w->loop.until *= 2;
        // The registers of lanes that have ended are part of the state, so from now on they must
        // not change.
        w->loop.careful = w->loop.until > CAREFUL_FROM;
    }
    w->loop.state = state_of(w);
    w->loop.turns = turns;
    return false;
}

bool all_stuck(struct cta *cta, uint64_t effects)
{
    bool all = true;
    for (int i = 0; i < cta->warps; ++i)
        all &= is_stuck(&cta->warp[i], effects);
    return all;
}

// Whether a loop waits by the load `op` rather than by `other`. A load that is ordered with
// accesses of other threads, such as a volatile one, is preferred to one that is not; then the
// first in the PTX.
static bool comes_first(const struct op *op, const struct op *other)
{
    bool ordered = op->order, other_ordered = other->order;
    return ordered != other_ordered ? ordered : op->insn < other->insn;
}

// Finds the load by which a warp waits in its loop. All loads of a round are looked at, since the
// warp may have stopped anywhere in its loop.
void find_polled(struct warp *w)
{
    const struct program *p = w->cta->program;
    uint64_t start = state_of(w);
    // Whether the loop counts its rounds: then the warp's state hardly ever comes back.
    bool counts = w->loop.endless;
    w->polls = w->waits = NULL;
    for (int step = 0; step < MOST_LOOP; ++step) {
        int index = pick_group(w);
        if (index < 0)
            return;
        const struct group g = w->groups[index];
        const struct basic_block *b = &p->blocks[g.block];
        int lane = __builtin_ctz(g.mask);
        run_block(w, index);
        for (const struct op *op = &p->ops[b->first]; op < &p->ops[b->first + b->count]; ++op) {
            uint8_t class = p->insns[op->insn].op_class;
            if (!op->bytes || (w->polls && !comes_first(op, w->polls)) ||
                (class != CLASS_SHARED_LOAD && class != CLASS_GLOBAL_LOAD && class != CLASS_ATOMIC))
                continue;
            const char *r = w->file + g.frame;
            w->polls = op;
            w->polls_at = (op->wide_address ? ((const u64 *)(r + op->a))[lane]
                                            : ((const u32 *)(r + op->a))[lane]) +
                          (uint64_t)op->imm;
            w->polls_lane = lane;
        }
        if (!counts && state_of(w) == start)
            break;
    }
}

// ---- The messages -------------------------------------------------------------------------------

// The operation that a group of lanes waits at.
static const struct op *place_of(const struct warp *w, const struct group *g)
{
    return g->arrived ? first_op(w->cta->program, g->block)
           : w->waits ? w->waits
           : w->polls ? w->polls
                      : first_op(w->cta->program, g->block);
}

// Writes where a group of lanes waits, for example
// "FILE:LINE (bar.sync, barrier 0: 96 of 128 threads came)".
static void describe_wait(const struct cta *cta, const struct warp *w, const struct group *g,
                          char *text, size_t size)
{
    const struct program *p = cta->program;
    const struct op *op = place_of(w, g);
    const struct insn_info *insn = &p->insns[op->insn];
    char what[240] = "";
    if (g->arrived && g->barrier == CLUSTER_BARRIER) {
        uint32_t came, alive;
        cluster_count(cta, &came, &alive);
        snprintf(what, sizeof what, ", of the cluster: %u of %u threads came", came, alive);
    } else if (g->arrived && g->barrier == WARPGROUP_BARRIER) {
        snprintf(what, sizeof what, ", for warp %d of its warpgroup", wgmma_behind(w));
    } else if (g->arrived) {
        uint32_t expected = cta->barrier[g->barrier].expected;
        snprintf(what, sizeof what, ", barrier %u: %u of %u threads came", g->barrier,
                 cta->barrier[g->barrier].arrived, expected ? expected : living_threads(cta));
    } else if (w->polls && !w->waits) {
        char name[80] = "";
        bool shared = w->polls->space == SPACE_SHARED ||
                      w->polls_at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT;
        uint64_t at = w->polls_at & ~SHARED_WINDOW;
        if (shared)
            shared_name(p, (uint32_t)at, name, sizeof name);
        snprintf(what, sizeof what,
                 shared ? ", shared address %llu%s" : ", global address 0x%llx%s",
                 (unsigned long long)at, name);
    } else if (w->waits) {
        mbarrier_describe(cta, w->waits_at, what + 2, sizeof what - 2);
        what[0] = ',';
        what[1] = ' ';
    }
    char where[544];
    insn_line(p, (uint32_t)(insn - p->insns), where, sizeof where);
    snprintf(text, size, "%s (%s%s)", where, insn->opcode, what);
}

// Whether some lanes of a warp are in a loop while others may wait.
static bool in_loop(struct warp *w)
{
    return w->group_count && w->loop.watched && w->loop.found && pick_group(w) >= 0;
}

// Ranks a warp of a stuck CTA; the message names the one with the highest rank. 2: it is in a loop
// that reads nothing that others change, so it is the cause; 1: it polls; 0: it waits.
static int rank_of(struct warp *w)
{
    if (!in_loop(w))
        return 0;
    return w->waits || (w->polls && w->polls->order) ? 1 : 2;
}

// The group that the message names for a warp: one in a loop, otherwise the group of the lowest
// lane.
static const struct group *telling_group(struct warp *w)
{
    const struct group *best = NULL;
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *g = &w->groups[i];
        bool loops = in_loop(w) && group_ready(w, g),
             other = best && in_loop(w) && group_ready(w, best);
        if (!best || loops > other ||
            (loops == other && __builtin_ctz(g->mask) < __builtin_ctz(best->mask)))
            best = g;
    }
    return best;
}

// ctas: how many CTAs can never end; 0: no other CTA is involved.
void fault_stuck(struct cta *cta, uint64_t ctas)
{
    const struct program *p = cta->program;
    struct warp *at = NULL;
    const struct group *g = NULL;
    // First case: the lanes of a warp diverged, and some of them wait for the others (sync_kind).
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        for (int k = 0; k < w->group_count; ++k) {
            const struct group *one = &w->groups[k];
            if (!at) {
                at = w;
                g = one;
            }
            if (one->arrived || p->blocks[one->block].sync == SYNC_NONE || w->group_count < 2 ||
                in_loop(w))
                continue;
            const struct group *other = &w->groups[k ? 0 : 1];
            const struct op *op = first_op(p, one->block);
            const struct insn_info *insn = &p->insns[place_of(w, other)->insn];
            fault_at(w, op, __builtin_ctz(one->mask), FAULT_DIVERGENT_BARRIER,
                     "%s under divergence: %d lanes of the warp wait here (mask 0x%08x), others at "
                     "%s:%d (mask 0x%08x)",
                     p->insns[op->insn].opcode, __builtin_popcount(one->mask), one->mask,
                     insn->at.line ? insn->at.file : "PTX line",
                     insn->at.line ? insn->at.line : insn->ptx_line, other->mask);
            return;
        }
    }
    // Otherwise lists the warps and where they wait; warps at the same place share an entry.
    char dump[880] = "", place[560], last[560] = "";
    int waiting = 0, from = -1;
    size_t used = 0;
    for (int i = 0; i <= cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        place[0] = 0;
        if (i < cta->warps && w->group_count) {
            describe_wait(cta, w, telling_group(w), place, sizeof place);
            waiting++;
        }
        if (from >= 0 && strcmp(place, last)) {
            used += (size_t)snprintf(dump + used, sizeof dump - used, "%s", used ? "; " : "");
            char warps[32];
            snprintf(warps, sizeof warps, from == i - 1 ? "warp %d" : "warps %d-%d", from, i - 1);
            int more = snprintf(dump + used, sizeof dump - used, "%s at %s", warps, last);
            used += (size_t)more < sizeof dump - used ? (size_t)more : 0;
            dump[used] = 0;
            from = -1;
            if (used + 8 > sizeof dump)
                break;
        }
        if (place[0] && from < 0) {
            from = i;
            memcpy(last, place, sizeof last);
        }
    }
    bool endless = false;
    for (int i = cta->warps; i-- > 0;) {
        struct warp *w = &cta->warp[i];
        if (!w->group_count)
            continue;
        endless |= w->loop.watched && w->loop.endless;
        if (rank_of(w) >= rank_of(at)) {
            at = w;
            g = telling_group(w);
        }
    }
    const struct op *op = place_of(at, g);
    bool alone = !g->arrived && !at->waits && !(at->polls && at->polls->order);
    int lane = op == at->polls && !g->arrived ? at->polls_lane : __builtin_ctz(g->mask);
    char others[64] = "";
    if (ctas && cta->worker->run->ctas > 1)
        snprintf(others, sizeof others, ", in %llu of %llu CTAs", (unsigned long long)ctas,
                 (unsigned long long)cta->worker->run->ctas);
    if (alone) { // the warp's loop reads nothing that others change
        char how[96] = "nothing changes from one round to the next";
        if (endless)
            snprintf(how, sizeof how, "%llu basic blocks and nothing stored (PTXSIM_SPIN)",
                     (unsigned long long)(at->steps - at->loop.first));
        fault_at(at, op, lane, FAULT_ENDLESS, "the loop here does not end: %s", how);
        return;
    }
    if (cta->cluster && !others[0])
        snprintf(others, sizeof others, ", in a cluster of %d CTAs", cta->cluster->size);
    fault_at(at, op, lane, FAULT_DEADLOCK,
             "%s: %d of %d warps wait for others that never come%s: %s",
             endless ? "no progress (PTXSIM_SPIN)" : "deadlock", waiting, cta->warps, others, dump);
}

// ---- Launches that are stopped ------------------------------------------------------------------

// The warp that has run most instructions, of those that have not ended; NULL: all have ended.
static struct warp *busiest(struct cta *cta)
{
    struct warp *best = NULL;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        if (w->group_count && (!best || w->instructions > best->instructions))
            best = w;
    }
    return best;
}

struct loop { // a warp's loop in its outermost function, as far as it was seen
    // first: the loop's lowest block; from: the block that jumped back to it.
    uint32_t frame, first, from;
    uint32_t last; // the block that the warp ran last
    bool any, closed;
};

static void note_block(struct loop *loop, const struct group *g)
{
    if (loop->any && g->frame > loop->frame)
        return; // the group is in a function that the loop calls
    if (!loop->any || g->frame < loop->frame || g->block < loop->first)
        *loop = (struct loop){.frame = g->frame, .first = g->block, .last = g->block, .any = true};
    else if (g->block == loop->first) {
        loop->from = loop->last;
        loop->closed = true;
    }
    loop->last = g->block;
}

// Lets the warps of a CTA take turns, and watches one of them until even its outermost loop must
// have begun its next round. Returns false if the warp has ended, or is in no loop.
static bool find_loop(struct warp *watched, struct loop *loop)
{
    struct cta *cta = watched->cta;
    bool moved = true;
    for (int blocks = 0; blocks < MOST_LOOP && moved && !cta->faulted;) {
        moved = false;
        for (int i = 0; i < cta->warps; ++i) {
            struct warp *w = &cta->warp[i];
            w->yields = false;
            for (int turn = 0; turn < LOOP_TURN && w->group_count && !w->yields; ++turn) {
                int index = pick_group(w);
                if (index < 0)
                    break;
                if (w == watched) {
                    note_block(loop, &w->groups[index]);
                    blocks++;
                }
                run_block(w, index);
                moved = true;
            }
        }
    }
    return watched->group_count && loop->closed;
}

// The first and last line of a loop in its own function: returns an operation of the first line;
// *last becomes the last line, 0: no line is known. The first is the `for` or `while` if the
// compiler has kept code for it, else a line below. Inlined code does not count: its lines are
// elsewhere.
static const struct op *first_line(const struct program *p, const struct loop *loop, int *last)
{
    const struct op *best = NULL;
    for (uint32_t block = loop->first; block <= loop->from; ++block)
        for (uint32_t i = 0; i < p->blocks[block].count; ++i) {
            const struct op *op = first_op(p, block) + i;
            const struct source_line *at = &p->insns[op->insn].at;
            const struct source_line *first = best ? &p->insns[best->insn].at : at;
            if (!at->line || at->callers[0] || strcmp(at->file, first->file))
                continue;
            *last = at->line > *last ? at->line : *last;
            best = !best || at->line < first->line ? op : best;
        }
    *last = best ? *last : 0;
    return best ? best : first_op(p, loop->first);
}

void halt(struct run *run, enum halt why)
{
    pthread_mutex_lock(&run->lock);
    if (atomic_load(&run->halt) == RUNNING) {
        run->blameless = atomic_load(&run->faulted) != UINT64_MAX;
        atomic_store(&run->halt, why);
    }
    pthread_mutex_unlock(&run->lock);
}

void fault_stopped(struct cta *cta, enum halt why)
{
    const struct program *p = cta->program;
    struct warp *w = busiest(cta);
    if (!w) // the launch took too long, but no warp of this CTA is left
        w = &cta->warp[0];
    int lane = w->alive ? __builtin_ctz(w->alive) : 0;
    int index = w->group_count ? pick_group(w) : -1;
    const struct op *here =
        w->group_count ? first_op(p, w->groups[index < 0 ? 0 : index].block) : NULL;
    if (why == INTERRUPTED) {
        fault_at(w, here, lane, FAULT_INTERRUPTED, "interrupted here");
        return;
    }
    struct loop loop = {0};
    int last = 0;
    bool loops = find_loop(w, &loop);
    char what[64] = "what is run here";
    if (loops)
        here = first_line(p, &loop, &last);
    if (loops && last > p->insns[here->insn].at.line)
        snprintf(what, sizeof what, "the loop here, to line %d,", last);
    else if (loops)
        snprintf(what, sizeof what, "the loop here");
    fault_at(w, here, lane, FAULT_ENDLESS,
             "%s has not ended after %llu warp instructions of the launch (PTXSIM_BUDGET)", what,
             (unsigned long long)cta->launch->budget);
}
