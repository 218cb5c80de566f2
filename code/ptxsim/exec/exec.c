// exec.c: runs a warp. Its lanes run together as long as they are at the same instruction.
//
// Divergence: a warp is a list of groups of lanes, and each group is at one basic block. The group
// that is furthest behind (the deepest call, then the lowest block) runs, one block at a time. So
// groups meet again at the first block that both reach, and nvcc lays code out so that paths join
// there. From time to time each group gets a turn, so that lanes that wait in a loop for others
// cannot starve them. A group before an instruction with a member mask (shfl.sync, bar.warp.sync …)
// waits for the lanes in the mask.
//
// Counting costs one addition for each basic block: an instruction has run as often as its block.
#include "exec.h"

#include "ptxsim/machine/groups.h"
#include "ptxsim/ops/ops.h"
#include "ptxsim/ops/scalars.h"

enum { TURN_BLOCKS = 4096 }; // basic blocks that a warp runs in a turn

// ---- Groups of lanes ----------------------------------------------------------------------------

// For a group before an instruction with a member mask: the lanes that may go on, because all
// living lanes in their mask are here with the same mask. Lanes at one place may have different
// masks: some may be in another round of a loop, or work on another tile.
static uint32_t lanes_met(const struct warp *w, const struct group *g)
{
    uint32_t members = w->cta->program->blocks[g->block].members, met = 0;
    if (members == NO_REGISTER) // .aligned: needs the whole warp
        return w->alive & ~g->mask ? 0 : g->mask;
    const u32 *named = (const u32 *)(w->file + g->frame + members);
    uint32_t lowest = named[__builtin_ctz(g->mask)], others = 0;
    for (int i = 0; i < WARP; ++i)
        others |= named[i] ^ lowest;
    if (!others) // almost always: all lanes give one mask
        return lowest & w->alive & ~g->mask ? 0 : g->mask;
    for (uint32_t left = g->mask; left;) {
        uint32_t mask = named[__builtin_ctz(left)], same = 0;
        for (int i = 0; i < WARP; ++i)
            same |= (uint32_t)(named[i] == mask) << i;
        same &= g->mask;
        if (!(mask & w->alive & ~same))
            met |= same;
        left &= ~same;
    }
    return met;
}

// Whether all lanes of the lowest lane's mask are here; their own masks may differ.
static bool lowest_met(const struct warp *w, const struct group *g)
{
    const struct basic_block *block = &w->cta->program->blocks[g->block];
    if (g->arrived || block->sync != SYNC_MEMBERS || block->members == NO_REGISTER)
        return false;
    uint32_t named =
        *(const u32 *)(w->file + g->frame + block->members + 4 * __builtin_ctz(g->mask));
    return !(named & w->alive & ~g->mask);
}

bool group_ready(const struct warp *w, const struct group *g)
{
    if (g->arrived)
        return false;
    const struct basic_block *block = &w->cta->program->blocks[g->block];
    switch (block->sync) {
    case SYNC_MEMBERS: return lanes_met(w, g) != 0;
    case SYNC_BARRIER: return g->mask == w->alive || !block->barrier->aligned;
    }
    return true;
}

static bool before(const struct group *a, const struct group *b)
{
    return a->frame != b->frame ? a->frame > b->frame : a->block < b->block;
}

// The group to run, -1 if none can: the one that is furthest behind, so that lanes meet again.
// Since it may be waiting for another group, each group gets a turn of some blocks from time to
// time.
int pick_group(struct warp *w)
{
    int best = -1, ready = 0;
    for (int i = 0; i < w->group_count; ++i)
        if (group_ready(w, &w->groups[i])) {
            ready++;
            if (best < 0 || before(&w->groups[i], &w->groups[best]))
                best = i;
        }
    // Lanes with different masks should not wait for one another (PTX ISA, shfl.sync). If they do,
    // they go on once no other lanes can, as on a GPU.
    for (int i = 0; best < 0 && i < w->group_count; ++i)
        if (lowest_met(w, &w->groups[i]))
            best = i;
    if ((w->turns & 0xfff) < 0xf00 || ready < 2)
        return best;
    int rank = (int)(((w->turns >> 5 & 7) + (w->turns >> 12) * 8) % (unsigned)ready);
    for (int i = 0; i < w->group_count; ++i) {
        int earlier = 0;
        for (int k = 0; k < w->group_count; ++k)
            earlier += group_ready(w, &w->groups[k]) && before(&w->groups[k], &w->groups[i]);
        if (earlier == rank && group_ready(w, &w->groups[i]))
            return i;
    }
    return best;
}

static void merge_groups(struct warp *w)
{
    for (int i = 0; i < w->group_count; ++i)
        for (int j = w->group_count - 1; j > i; --j) {
            struct group *a = &w->groups[i], *b = &w->groups[j];
            if (a->block == b->block && a->frame == b->frame && a->arrived == b->arrived &&
                a->barrier == b->barrier) {
                a->mask |= b->mask;
                remove_group(w, j);
            }
        }
}

// ---- Warps --------------------------------------------------------------------------------------

static inline void run_ops(struct warp *w, char *r, const struct op *op, const struct op *end,
                           uint32_t mask)
{
    // If all live lanes are active, the registers of ended lanes may be overwritten, unless
    // loop.careful keeps them.
    if (mask == w->alive && !w->loop.careful) {
        for (; op < end; ++op)
            op->run(w, r, op, mask);
    } else {
        for (; op < end; ++op) {
            if (op->plain && !op->inner)
                plain_masked(w, r, op, op->run, mask);
            else
                op->run(w, r, op, mask);
        }
    }
}

void run_block(struct warp *w, int index)
{
    const struct program *p = w->cta->program;
    struct group *g = &w->groups[index];
    const struct basic_block *b = &p->blocks[g->block];
    uint32_t mask = g->mask, block = g->block, frame = g->frame;
    struct block_counts *counts = &w->cta->worker->blocks[block];
    uint32_t met = b->sync == SYNC_MEMBERS ? lanes_met(w, g) : 0;
    if (met)
        mask = met;
    counts->warps++;
    counts->threads += mask == ~0u ? WARP : (uint64_t)__builtin_popcount(mask);
    w->taken = w->gone = 0;
    w->next = block + 1;
    // While the group runs it is not in the list: so operations can add groups freely.
    if (w->group_count > 1 && w->cta->races)
        barrier_note_passing(w, g);
    if (mask != g->mask)
        g->mask &= ~mask;
    else if (w->group_count > 1)
        remove_group(w, index);
    else
        w->group_count = 0;
    const struct op *first = &p->ops[b->first];
    if (w->cta->singly)
        (w->cta->trace ? run_recorded : run_ablated)(w, w->file + frame, b, mask);
    else
        run_ops(w, w->file + frame, first, first + b->count, mask);
    w->turns++;
    w->steps++;
    w->instructions += b->insns;
    mask &= ~w->gone;
    uint32_t taken = w->taken & mask, rest = mask & ~taken;
    if (taken)
        push_group(w, taken, w->next, w->next_frame);
    if (rest) {
        push_group(w, rest, block + 1, frame);
        if (taken)
            w->cta->worker->insns[(first + b->count - 1)->insn].divergent++;
    }
    if (w->group_count > 1)
        merge_groups(w);
}

// Runs a warp until it has to wait or its turn is over; returns whether it has run a block.
bool run_warp(struct warp *w)
{
    bool moved = false;
    const int most = w->cta->film ? 1 : TURN_BLOCKS; // in a film the warps advance together
    for (int turn = 0; turn < most && w->group_count && !w->cta->faulted; ++turn) {
        int index = w->group_count == 1 && w->groups[0].mask == w->alive && !w->groups[0].arrived
                        ? 0
                        : pick_group(w);
        if (index < 0)
            return moved;
        run_block(w, index);
        moved = true;
        if (w->yields) {
            if (w->group_count > 1) // the group may wait for another group
                w->turns |= 0xf00;
            return true;
        }
    }
    return moved;
}
