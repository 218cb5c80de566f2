// wgmma.h: what sync.c needs of wgmma.c.
#ifndef PTXSIM_WGMMA_H
#define PTXSIM_WGMMA_H

#include "ops.h"

void wgmma_start(struct cta *cta);
void wgmma_finish(struct cta *cta); // the CTA has ended: did all warps of each warpgroup take part?
void wgmma_destroy(struct cta *cta);

#endif
