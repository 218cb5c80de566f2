// extra.h: operations that only other people's programs run; video.h and texture.h have more. The
// simulator runs the book's programs without this folder, decode/extra and cudart/extra
// (code/ptxsim/ptxsim.h).
#ifndef PTXSIM_OPS_EXTRA_H
#define PTXSIM_OPS_EXTRA_H

#include "ptxsim/ops/ops.h"

// ---- Textures and surfaces (texture.c) ----------------------------------------------------------

enum surface_outside { SURFACE_TRAP, SURFACE_CLAMP, SURFACE_ZERO };
struct texture_operands { // registers
    uint32_t handle, layer, coordinate[3];
    uint32_t value[4];
    uint8_t dimensions;                  // of the coordinates: three of a cube
    bool cube, layered, integers, store; // integers: the coordinates of a fetch
    uint8_t component;                   // the channel that a gather returns
    enum surface_outside outside;
};

op_fn texture_op; // operands: a struct texture_operands
op_fn gather_op;  // the same
op_fn
    surface_op; // operands: a struct texture_operands; bytes and vector of the access, a register's width

// ---- Products with a sparse A (sparse.c) --------------------------------------------------------

struct sparse_mma { // mma.sp, whose A stores half of its columns
    struct mma product;
    uint32_t metadata;  // the register that says which columns of A are stored
    int metadata_lanes; // how many of four lanes hold it
    int selector;       // and the first of these lanes
    bool ordered;       // the columns of a block are in ascending order
};
op_fn mma_sparse_op; // operands: a struct sparse_mma

// ---- What device code asks the runtime for (children.c), as system.h has it -----------------------

op_fn child_params_op, child_launch_op, child_copy_op;
op_fn device_malloc_op, device_free_op, stream_create_op, peek_error_op, get_error_op;
op_fn set_condition_op;  // cudaGraphSetConditional
op_fn device_success_op; // calls without effect here: the result is cudaSuccess, or NULL

#endif
