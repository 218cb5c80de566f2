// async.h: what a CTA has under way: copies by cp.async (copy_async.c), bulk copies (bulk.c),
// products of warpgroups (wgmma.c). sync.c uses these functions. Each of the three has a start,
// called before each CTA that uses the storage, and a destroy.
#ifndef PTXSIM_ASYNC_H
#define PTXSIM_ASYNC_H

#include "ops.h"

// Binds a lane's copies that are not bound to an mbarrier yet to phase `phase` of an mbarrier of
// the CTA; meeting: the mbarrier's index in cta->meetings.
void copies_bind(struct warp *w, int lane, uint32_t meeting, uint32_t phase);
// Called when the phases of an mbarrier before phase `phases` are complete: writes the bytes of the
// copies that are bound to them, and of the copies that the same threads issued before those.
void copies_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);
// copies_open: how many copies a warp has under way. copies_spoil: spoils the copies from number
// `first` on (struct ablation). copies_note: records that the copies from number `first` on belong
// to entry `execution` of the ablation's log; when they arrive, this entry's `under_way` rises.
size_t copies_open(const struct warp *w);
void copies_spoil(struct warp *w, size_t first);
void copies_note(struct warp *w, size_t first, size_t execution);
// A hash of the bytes that a warp's copies from number `first` on bring; *bytes gets the number of
// these bytes.
uint64_t copies_hash(const struct warp *w, size_t first, uint32_t *bytes);
void copies_start(struct cta *cta);
void copies_destroy(struct cta *cta);

void bulk_start(struct cta *cta);
void bulk_finish(struct cta *cta); // the CTA has ended: makes the stores that nobody has waited for
void bulk_destroy(struct cta *cta);
// Like copies_arrive, for bulk copies.
void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);
// bulk_loads: whether an operation copies from global memory. bulk_spoil: spoils the bulk copies
// that the warp issued last, to any CTA of its cluster: those added to the CTAs' lists since
// bulk_open returned the lists' lengths.
enum { CLUSTER_MOST = 16 };
bool bulk_loads(const struct op *op);
void bulk_open(const struct warp *w, size_t open[CLUSTER_MOST]);
void bulk_spoil(struct warp *w, const size_t open[CLUSTER_MOST]);

// Like copies_open and copies_spoil, for the products of a warp.
size_t wgmma_open(const struct warp *w);
void wgmma_spoil(struct warp *w, size_t first);
void wgmma_start(struct cta *cta);
// Called when the CTA has ended: a fault if the warps of a warpgroup have not executed equally many
// wgmma and setmaxnreg, or if the CTA's warps end up with too many registers.
void wgmma_finish(struct cta *cta);
void wgmma_destroy(struct cta *cta);

#endif
