// set.h: all that is compiled once for each instruction set, and the set's table of functions.
// FN(x) appends the set's name to x.
#include "ptxsim/ops/address.h"
#include "ptxsim/ops/cluster.h"
#include "ptxsim/ops/ops.h"
#include "ptxsim/ops/scalars.h"

// In this order: each uses those before it.
#include "arithmetic.h"

#include "race_runs.h"

#include "access.h"

#include "warp.h"

#include "wgmma_product.h"

#define OP(name, ...) [OP_##name] = FN(name),
#define QUOTE(x) #x
#define TEXT(x) QUOTE(x)
const struct op_set FN(ops) = {
    .isa = TEXT(FN()),
    .wgmma = FN(wgmma_product),
    .race_run_global = FN(race_run_global),
    .run = {
#include "ptxsim/ops/operations.def"
    }};
#undef OP
