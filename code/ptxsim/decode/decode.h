// decode.h: makes a struct program from a kernel and the functions it calls.
#ifndef PTXSIM_DECODE_H
#define PTXSIM_DECODE_H

#include "ptxsim/machine/program.h"

// Decodes a kernel and everything that it can call; the caller frees the program, or leaves it in
// kernel->program for module_free. It holds addresses of the module's variables and texts, so the
// module must outlive it. NULL if an instruction is not supported or the PTX is invalid: `why`
// (`size` bytes) then has one line that names the kernel and the line of its PTX. One thread at a
// time.
struct program *program_decode(struct kernel *kernel, char *why, size_t size);
void program_free(struct program *program); // NULL is fine

// Makes room for the stack of each thread of a launch: bytes for recursion and alloca, as in
// cudaLimitStackSize; some room is always there.
void program_stack(struct program *program, size_t bytes);

#endif
