// extra.h: the decoders for the rows of extra/opcodes.def.
#ifndef PTXSIM_DECODE_EXTRA_H
#define PTXSIM_DECODE_EXTRA_H

#include "ptxsim/decode/internal.h"
#include "ptxsim/ops/extra/extra.h"

#define OPCODE(name, how, ...) decode_fn decode_##how;
#include "opcodes.def"
#undef OPCODE

#endif
