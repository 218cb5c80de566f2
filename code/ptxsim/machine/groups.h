// groups.h: the groups of a warp's lanes (machine.h). Inline, since every basic block ends with
// these functions.
#ifndef PTXSIM_GROUPS_H
#define PTXSIM_GROUPS_H

#include "machine.h"

// Adds lanes that run `block` next: to the group that is at `block` already; if there is none, as a
// new group.
static inline void push_group(struct warp *w, uint32_t mask, uint32_t block, uint32_t frame)
{
    for (int i = 0; i < w->group_count; ++i) {
        struct group *g = &w->groups[i];
        if (g->block == block && g->frame == frame && !g->arrived) {
            g->mask |= mask;
            return;
        }
    }
    w->groups[w->group_count++] = (struct group){.mask = mask, .block = block, .frame = frame};
}

// Removes a group; the last group of the array takes its place.
static inline void remove_group(struct warp *w, int index)
{
    w->groups[index] = w->groups[--w->group_count];
}

static inline const struct op *first_op(const struct program *p, uint32_t block)
{
    return &p->ops[p->blocks[block].first];
}

#endif
