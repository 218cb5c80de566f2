// sync.h: what bulk.c needs of sync.c.
#ifndef PTXSIM_SYNC_H
#define PTXSIM_SYNC_H

#include "ops.h"

// The bytes of a bulk copy are taken off the mbarrier at `address`; it gets the number of the mbarrier
// and of the phase that it completes with. False after a fault.
bool mbarrier_bind(struct warp *w, const struct op *op, int lane, uint64_t address, uint32_t bytes,
                   uint32_t *meeting, uint32_t *phase);

#endif
