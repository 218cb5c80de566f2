// decode.h: a kernel and the functions it calls -> struct program.
#ifndef PTXSIM_DECODE_H
#define PTXSIM_DECODE_H

#include "ptxsim/machine/program.h"

// NULL with one line in `why`.
struct program *program_decode(struct kernel *kernel, char *why, size_t size);
void program_free(struct program *program);

#endif
