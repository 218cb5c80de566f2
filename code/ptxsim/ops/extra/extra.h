// extra.h: operations that only other people's programs run; video.h and texture.h declare more.
// The book's programs run in a simulator without this folder, decode/extra and cudart/extra
// (code/ptxsim/ptxsim.h).
#ifndef PTXSIM_OPS_EXTRA_H
#define PTXSIM_OPS_EXTRA_H

#include "ptxsim/ops/ops.h"

// ---- Textures and surfaces (texture.c) ----------------------------------------------------------

enum surface_outside { SURFACE_TRAP, SURFACE_CLAMP, SURFACE_ZERO };
struct texture_operands { // offsets of registers in the frame
    uint32_t handle, layer, coordinate[3];
    uint32_t value[4];
    uint8_t dimensions;                  // how many coordinates; a cube has three
    bool cube, layered, integers, store; // integers: a fetch, whose coordinates are integers
    uint8_t component;                   // the channel that a gather returns
    enum surface_outside outside;
};

op_fn texture_op; // operands: a struct texture_operands
op_fn gather_op;  // operands: a struct texture_operands
// operands: a struct texture_operands. bytes, vector: of the access; width: of a register.
op_fn surface_op;

// ---- Products with a sparse A (sparse.c) --------------------------------------------------------

struct sparse_mma { // mma.sp, whose A stores half of its columns
    struct mma product;
    uint32_t metadata;  // the register that tells which columns of A are stored
    int metadata_lanes; // how many of each four lanes hold metadata
    int selector;       // the first of those lanes, divided by metadata_lanes
    bool ordered;       // the columns within a block are in ascending order
};
op_fn mma_sparse_op; // operands: a struct sparse_mma

// ---- Requests of device code to the runtime (children.c), with the operands of system.h ---------

op_fn child_params_op, child_launch_op, child_copy_op;
op_fn device_malloc_op, device_free_op, stream_create_op, peek_error_op, get_error_op;
op_fn set_condition_op;  // cudaGraphSetConditional
op_fn device_success_op; // calls that do nothing here: their result is cudaSuccess, or NULL

#endif
