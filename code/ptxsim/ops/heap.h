// heap.h: malloc and free in device code, for their decoder.
#ifndef PTXSIM_OPS_HEAP_H
#define PTXSIM_OPS_HEAP_H

#include "ops.h"

op_fn malloc_op, free_op; // regs: where the call's result and parameters lie

#endif
