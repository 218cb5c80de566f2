// cluster.h: how the CTAs of a cluster access one another. mapa puts the rank of a CTA, plus one,
// into the bits of a shared address from RANK_SHIFT on. 0 there means the CTA itself, so ordinary
// kernels need no further checks.
#ifndef PTXSIM_CLUSTER_H
#define PTXSIM_CLUSTER_H

#include "ops.h"

// The CTA whose shared memory a lane accesses: the warp's own or another of its cluster; *at
// becomes the offset there. If the address names no CTA of the cluster, returns the warp's own CTA
// and leaves *at, which is past the end of its memory. Reports an access to a CTA that has ended,
// and .shared where .shared::cluster is needed.
struct cta *cluster_home_of(struct warp *w, const struct op *op, int lane, uint32_t *at);
static inline struct cta *cluster_home(struct warp *w, const struct op *op, int lane, uint32_t *at)
{
    return *at >> RANK_SHIFT ? cluster_home_of(w, op, lane, at) : w->cta;
}
// Like cluster_home, for a 64-bit address: a generic one, or one of shared memory.
struct cta *cluster_home_wide(struct warp *w, const struct op *op, int lane, uint64_t wide,
                              uint32_t *at);

// Makes the race checks of one lane's access to the shared memory of `home`; calls race_shared if
// `home` is the lane's own CTA.
void cluster_race(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                  uint32_t bytes, enum race_access access, const void *value);

// " of block (1,0,0)" for another CTA, "" for the warp's own.
const char *cluster_name(const struct warp *w, const struct cta *home, char *text, size_t size);

// Called when lanes of a CTA in a cluster have ended: the cluster's barrier waits for them no more.
void cluster_left(struct cta *cta);
// came: lanes of the cluster that have arrived at its barrier in this phase; alive: lanes that have
// not ended.
void cluster_count(const struct cta *cta, uint32_t *came, uint32_t *alive);

#endif
