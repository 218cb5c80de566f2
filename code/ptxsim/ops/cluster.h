// cluster.h: what the CTAs of a cluster do with one another. An address of shared memory has the rank of
// a CTA above RANK_SHIFT, plus one, as mapa makes it; nothing there is the CTA's own, so that no access of
// an ordinary kernel looks at more than it did.
#ifndef PTXSIM_CLUSTER_H
#define PTXSIM_CLUSTER_H

#include "ops.h"

// The CTA in whose shared memory an access of a lane is, the warp's own or another of its cluster; *at
// becomes the place there. Of no CTA of the cluster: the warp's own, and *at stays past its end. Reports
// an access to a CTA that has ended, and .shared where it should be .shared::cluster.
struct cta *cluster_home_of(struct warp *w, const struct op *op, int lane, uint32_t *at);
static inline struct cta *cluster_home(struct warp *w, const struct op *op, int lane, uint32_t *at)
{
    return *at >> RANK_SHIFT ? cluster_home_of(w, op, lane, at) : w->cta;
}
// As cluster_home, of an address of 64 bits: a generic one, or one of shared memory.
struct cta *cluster_home_wide(struct warp *w, const struct op *op, int lane, uint64_t wide,
                              uint32_t *at);

// Race checks of one lane's access to the shared memory of `home`: race_shared, if that is its own CTA.
void cluster_race(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                  uint32_t bytes, enum race_access access, const void *value);

// " of block (1,0,0)" for another CTA, "" for the warp's own.
const char *cluster_name(const struct warp *w, const struct cta *home, char *text, size_t size);

// Some lanes of a CTA of a cluster have ended: the cluster's barrier waits for them no longer.
void cluster_left(struct cta *cta);
// Lanes of the cluster that have come to its barrier in this phase, and that have not ended.
void cluster_count(const struct cta *cta, uint32_t *came, uint32_t *alive);

#endif
