// ops_set.h: everything that is compiled once for each instruction set, and its table. FN(x) names
// the functions of the set.
#include "interp.h"
#include "ops_common.h"
#include "ops_wgmma.h"
#include "races.h"
#include "scalars.h"

#include "ops_math.h"
#include "races_set.h"
#include "ops_memory.h"
#include "ops_warp.h"
#include "ops_wgmma_set.h"

#define OP(name, ...) [OP_##name] = FN(name),
#define QUOTE(x) #x
#define TEXT(x) QUOTE(x)
const struct op_set FN(ops) = {
    .isa = TEXT(FN()),
    .wgmma = FN(wgmma_product),
    .run = {
#include "ops_list.h"
    }};
#undef OP
