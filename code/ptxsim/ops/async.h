// async.h: what a CTA has on its way, between sync.c and the files that hold it: copies by cp.async
// (copy_async.c), bulk copies (bulk.c), products of warpgroups (wgmma.c). Each has a start, called
// before every CTA that uses the storage, and a destroy.
#ifndef PTXSIM_ASYNC_H
#define PTXSIM_ASYNC_H

#include "ops.h"

// Binds a lane's copies that are bound to no mbarrier yet to phase `phase` of this one.
void copies_bind(struct warp *w, int lane, uint32_t meeting, uint32_t phase);
// The phases before `phases` of an mbarrier are complete: writes the bytes of copies bound to them.
void copies_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);
// copies_open: how many copies a warp has on their way. copies_spoil: spoils those from `first` on
// (struct ablation). copies_note: these are execution `execution` of the log, which is told when they come.
size_t copies_open(const struct warp *w);
void copies_spoil(struct warp *w, size_t first);
void copies_note(struct warp *w, size_t first, size_t execution);
// Of the same a hash of what they bring, and how many bytes that is.
uint64_t copies_hash(const struct warp *w, size_t first, uint32_t *bytes);
void copies_start(struct cta *cta);
void copies_destroy(struct cta *cta);

void bulk_start(struct cta *cta);
void bulk_finish(struct cta *cta); // the CTA has ended: makes the stores that nobody has waited for
void bulk_destroy(struct cta *cta);
// As copies_arrive, for bulk copies.
void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);
// bulk_loads: whether an operation copies from global memory. bulk_spoil: spoils the copies that the warp has issued
// last, wherever in its cluster they go: those that were put on the lists since bulk_open gave their lengths.
enum { CLUSTER_MOST = 16 };
bool bulk_loads(const struct op *op);
void bulk_open(const struct warp *w, size_t open[CLUSTER_MOST]);
void bulk_spoil(struct warp *w, const size_t open[CLUSTER_MOST]);

// As copies_open and copies_spoil, for the products of a warp.
size_t wgmma_open(const struct warp *w);
void wgmma_spoil(struct warp *w, size_t first);
void wgmma_start(struct cta *cta);
void wgmma_finish(
    struct cta *cta); // the CTA has ended: faults if a warpgroup's warps issued different ones
void wgmma_destroy(struct cta *cta);

#endif
