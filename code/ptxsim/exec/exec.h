// exec.h: what the files of exec/ share. Its public face is launch_run (ptxsim.h).
#ifndef PTXSIM_EXEC_H
#define PTXSIM_EXEC_H

#include "ptxsim/machine/machine.h"

// Adds what the counters of a launch amount to; lines and line_count may be NULL.
void counts_derive(const struct program *program, const struct insn_counts *insns,
                   const struct block_counts *blocks, struct counts *counts,
                   struct line_counts **lines, size_t *line_count);

#endif
