// tool.h: what the files of build/profile share.
//
//   tiles.c      names in shared memory, from a kernel's source
//   film.c       pages that play a CTA
//   profile.c    the command line; counts and pictures
//   bench-sim.c  a program of its own: the simulator's time and memory
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
#ifndef PTXSIM_TOOL_H
#define PTXSIM_TOOL_H

#include "host/host.h"

// The whole number at a path, 0 where there is none.
static inline long whole_at(const json_t *json, const char *path)
{
    return (long)number_or(json, path, 0);
}

// ---- Films (film.c) -----------------------------------------------------------------------------

// The kernel of a recording of PTXSIM_FILM to show: the one of that name; without a name the first with
// a fault, else the first. NULL: there is none.
json_t *film_kernel(json_t *recording, const char *name);
// Marks faults that are the same mistake. The CTA of the other party of the first one, as PTXSIM_FILM
// takes it, if that is another one than was filmed; else NULL.
char *film_other_cta(json_t *kernel);
// Writes a page that shows it, and prints what is wrong with the kernel. other: the recording of that
// CTA, or NULL; program: the file that was run; chapter: whose lessons the page has, 0: nobody's, -1: the program's.
void film_page(json_t *kernel, json_t *other, const char *program, int chapter, const char *file);
// Writes no page, and prints three lines of the fault that such a page opens at: its kind, the simulator's words, and
// the sentence. Nothing where there is no fault.
void film_say(json_t *kernel, const char *program);

// ---- Names in shared memory (tiles.c) -----------------------------------------------------------

// The tiles of a kernel: [{name, at, element, type, dims: [...]}], from its source text and its shared
// variables ([name, offset, bytes]). What cannot be told is left out.
json_t *tiles_of(const char *text, const json_t *variables, const char *mangled);
// "t.k[3][5]" of a shared address, in `name`; "shared address 4711" where no tile has it.
const char *tile_name(const json_t *tiles, unsigned address, char *name, size_t size);

#endif
