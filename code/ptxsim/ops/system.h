// system.h: functions that the device's runtime provides to every kernel. regs of these operations:
// the offsets of the call's result and parameters in a lane's local memory.
#ifndef PTXSIM_OPS_SYSTEM_H
#define PTXSIM_OPS_SYSTEM_H

#include "ops.h"

op_fn malloc_op, free_op;

// The address of the call's result or parameter whose offset is regs[index].
char *parameter(struct warp *w, const char *r, const struct op *op, int lane, int index);
// Stores a result at a generic address, checked and noted like any store of a kernel; false after a
// fault.
bool generic_store(struct warp *w, const struct op *op, int lane, uint64_t at, const void *from,
                   uint32_t bytes);

#endif
