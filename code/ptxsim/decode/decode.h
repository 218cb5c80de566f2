// decode.h: a kernel and the functions it calls -> struct program.
#ifndef PTXSIM_DECODE_H
#define PTXSIM_DECODE_H

#include "ptxsim/machine/program.h"

// The program of a kernel and of all that it can call, to be freed, or left in kernel->program for
// module_free. It holds addresses of the module's variables and texts, so it ends before the module.
// NULL if an instruction is not supported or the PTX is not valid: `why` (of `size` bytes) then has
// one line, that names the kernel and the line of its PTX. One thread at a time.
struct program *program_decode(struct kernel *kernel, char *why, size_t size);
void program_free(struct program *program); // NULL is fine

// Makes room for the stack that a launch gives each thread: bytes for recursion and alloca, as
// cudaLimitStackSize has them; there is always some.
void program_stack(struct program *program, size_t bytes);

#endif
