// extra.h: functions of the runtime and of the driver that only other people's programs call. They
// use the runtime (runtime.h), which does not use them.
//
//   libraries.c     modules that the program loads itself
//   arrays.c        arrays, textures, surfaces
//   boxes.c         three-dimensional copies, also of arrays; copies between devices
//   pools.c         memory allocated and freed in stream order
//   children.c      kernels that kernels launch
//   nodes.c         graphs that are built node by node
//   driver.c        libcuda.so.1, the driver's library, as far as ordinary programs call it
//   unsupported.c   (unsupported.def) all other functions of the real library: each fails and
//                   reports its name
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef CUDART_EXTRA_H
#define CUDART_EXTRA_H

#include "ptxsim/cudart/runtime.h"

struct side { // the source or the destination of a copy of a box
    char *at;
    size_t pitch, slice; // bytes from one row, and from one slice, to the next
};
// Bytes of an array's element.
size_t array_element(cudaArray_const_t array);
// Finds the box of `extent` elements at `at` in an array; cudaErrorInvalidValue: it is not within
// the array.
cudaError_t array_side(cudaArray_const_t array, const struct cudaPos *at,
                       const struct cudaExtent *extent, struct side *side);

cudaError_t copy_3d_task(const struct cudaMemcpy3DParms *params, struct task *task);

#endif
