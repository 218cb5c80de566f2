// tool.h: what the files of the command ptxsim share.
//
//   tiles.c      names in shared memory, from a kernel's source
//   film.c       pages that play a CTA
//   program.c    which programs can be run: executables, and the libraries that they need
//   record.c     runs in the simulator, and what is recorded of them
//   profile.c    ptxsim profile: counts and pictures
//   messages.c   faults as compilers print errors
//   run.c        ptxsim run
//   cc.c         ptxsim cc
//   command.c    the command, which chooses among these
//   bench-sim.c  a separate program: the simulator's time and memory
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
#ifndef PTXSIM_TOOL_H
#define PTXSIM_TOOL_H

#include "host/host.h"

#include <signal.h>

// The whole number at a path, 0 if there is none.
static inline long whole_at(const json_t *json, const char *path)
{
    return (long)number_or(json, path, 0);
}

// ---- Names in shared memory (tiles.c) -----------------------------------------------------------

// The tiles of a kernel: [{name, at, element, type, dims: [...]}], from its source text and its
// shared variables ([name, offset, bytes]). Variables whose tiles cannot be worked out are left
// out.
json_t *tiles_of(const char *text, const json_t *variables, const char *mangled);
// "t.k[3][5]" for a shared address, in `name`; "shared address 4711" if no tile has it.
const char *tile_name(const json_t *tiles, unsigned address, char *name, size_t size);

// ---- Films (film.c) -----------------------------------------------------------------------------

extern char *viewer; // folder of the parts of a page

// The kernel of a PTXSIM_FILM recording to be shown: the one with that name; with NULL the first
// one with a fault, or else the first one. NULL: there is none.
json_t *film_kernel(json_t *recording, const char *name);
// Marks faults that are the same mistake. Returns the CTA of the first fault's other party, in the
// form of PTXSIM_FILM, if another one was filmed; else NULL.
char *film_other_cta(json_t *kernel);
// Writes a page that shows the kernel, and prints what is wrong with it, unless that is known
// already. other: the recording of the other CTA, or NULL; program: the file that was run; chapter:
// whose lessons the page has, 0: none, -1: the program's.
void film_page(json_t *kernel, json_t *other, const char *program, int chapter, const char *file,
               bool known);
// Writes no page, and prints three lines about the fault with which such a page opens: its kind,
// the simulator's words, and the sentence. Nothing if there is no fault.
void film_say(json_t *kernel, const char *program);
// Gives each fault of the kernel its "sentence".
void film_explain(json_t *kernel, const char *program);

// ---- Programs (program.c) -----------------------------------------------------------------------

// The path of a program, found as execvp does, for the caller to free; NULL: not found.
char *find_program(const char *name);
// Whether an executable needs a library with that name.
bool needs_library(const char *path, const char *library);
// Why a program cannot be run in the simulator, in one line; NULL: it can.
const char *program_unfit(const char *path);

// ---- Runs (record.c) ----------------------------------------------------------------------------

extern char *home;           // the folder of libcudart.so.13
extern char report_file[64]; // report of the last run; removed when this program ends
extern char trace_file[64];
void find_home(void); // sets root and viewer, too
// Makes a new, empty file for the next run's report.
void make_report_file(void);
// Makes the loader find the simulator's libraries for the program that this process executes next.
void set_libraries(void);
// Runs a program with a report, and with what `variable` (PTXSIM_TRACE, PTXSIM_FILM or NULL)
// records of a CTA ("x,y,z"; NULL: the first); all its output goes to stderr or, if silent,
// nowhere. Returns its exit status; 128 + a signal.
int run_recorded(char **argv, const char *variable, const char *cta, bool silent);

// From now on a signal to end this process only ends the program that it runs, and no other is run
// after that.
void outlive_signals(void);
extern volatile sig_atomic_t ended_by; // the signal, 0: none has come
extern volatile pid_t running;         // the program, 0: none is running
// "x,y,z" for a block, [x, y, z], in the form of --cta, for the caller to free; NULL: not a block.
char *cta_of(const json_t *block);

struct film {
    json_t *recording;
    json_t *shown,
        *other; // kernels of the recordings, chosen by film_kernel and film_other_cta; may be NULL
    int status; // of the program
};
struct film film_load(const char *file, const char *kernel);
// Without a CTA the first one is filmed; if the checks find a fault in another one, that one.
struct film film_record(char **argv, const char *kernel, const char *cta, bool silent);
// Fails where there is nothing to show.
void film_must_show(const struct film *film, const char *program, const char *kernel,
                    const char *cta, bool recorded);

// ---- The command --------------------------------------------------------------------------------

// Prints the lines of a report with their counts (profile.c); also writes them to the file `json`,
// unless it is NULL.
void show_report(const json_t *file, const char *kernel, int lines, const char *by,
                 const char *json);
int profile_main(int argc, char **argv);

// Faults that a run has reported (messages.c): records as fault_write (ptxsim.h) makes them. In
// this order: a fault is added, unless the record has none; each gets the "sentence" that a film
// says of it; their places become what the user opens.
void fault_add(json_t *faults, const char *record);
void faults_explain(json_t *faults, json_t *recording, const char *program);
void faults_settle(json_t *faults);
void faults_print(const json_t *faults, FILE *out);

int run_main(int argc, char **argv);
int cc_main(int argc, char **argv);

#endif
