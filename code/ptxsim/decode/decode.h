// decode.h: makes a struct program from a kernel and the functions it calls.
#ifndef PTXSIM_DECODE_H
#define PTXSIM_DECODE_H

#include "ptxsim/machine/program.h"

// Decodes a kernel and everything that it can call. The caller frees the program, or leaves it in
// kernel->program for module_free. The program points to variables and texts of the module, so the
// module must outlive it. If an instruction is not supported or the PTX is invalid, returns NULL
// and one line in `why` (`size` bytes) that names the kernel and the line of its PTX. One thread at
// a time.
struct program *program_decode(struct kernel *kernel, char *why, size_t size);
void program_free(struct program *program); // NULL is fine

// Reserves stack for each thread of a launch: `bytes` for recursion and alloca, as in
// cudaLimitStackSize, but never less than a minimum.
void program_stack(struct program *program, size_t bytes);

#endif
