// async.h: what a CTA has on its way, between sync.c and the files that hold it: copies by cp.async
// (copy_async.c), bulk copies (bulk.c), products of warpgroups (wgmma.c). Each has a start, called
// before every CTA that uses the storage, and a destroy.
#ifndef PTXSIM_ASYNC_H
#define PTXSIM_ASYNC_H

#include "ops.h"

// Copies of a lane that are bound to no mbarrier yet: to the phase of this one that is open.
void copies_bind(struct warp *w, int lane, uint32_t meeting, uint32_t phase);
// Copies that are bound to an mbarrier whose phases before `phases` are complete have come.
void copies_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);
void copies_start(struct cta *cta);
void copies_destroy(struct cta *cta);

void bulk_start(struct cta *cta);
void bulk_finish(struct cta *cta); // stores that nobody has waited for
void bulk_destroy(struct cta *cta);
// As copies_arrive.
void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);

void wgmma_start(struct cta *cta);
void wgmma_finish(struct cta *cta); // the CTA has ended: did all warps of each warpgroup take part?
void wgmma_destroy(struct cta *cta);

#endif
