// bulk.h: what sync.c needs of bulk.c.
#ifndef PTXSIM_BULK_H
#define PTXSIM_BULK_H

#include "ops.h"

void bulk_start(struct cta *cta);
void bulk_finish(struct cta *cta); // stores that nobody has waited for
void bulk_destroy(struct cta *cta);
// Copies that are bound to an mbarrier whose phases before `phases` are complete have come.
void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases);

#endif
