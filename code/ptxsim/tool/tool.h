// tool.h: what the files of the command ptxsim share.
//
//   tiles.c      names in shared memory, from a kernel's source
//   film.c       makes pages that play the film of a CTA
//   program.c    which programs can be run, and which libraries they need
//   record.c     runs programs in the simulator, with a report and a recording
//   profile.c    ptxsim profile: counts and pictures
//   messages.c   prints faults in the way of compilers' errors
//   run.c        ptxsim run
//   cc.c         ptxsim cc
//   command.c    the command itself, which calls one of these
//   bench-sim.c  a separate program: the simulator's time and memory
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef PTXSIM_TOOL_H
#define PTXSIM_TOOL_H

#include "host/host.h"

#include <signal.h>

// The whole number at a path; 0 if there is none.
static inline long whole_at(const json_t *json, const char *path)
{
    return (long)number_or(json, path, 0);
}

// ---- Names in shared memory (tiles.c) -----------------------------------------------------------

// The tiles of a kernel, [{name, at, element, type, dims: [...]}], from its source text and its
// shared variables ([name, offset, bytes]). A variable whose tiles cannot be found is a tile of
// words; it is left out if it has no bytes.
json_t *tiles_of(const char *text, const json_t *variables, const char *mangled);
// Writes a name for a shared address, such as "t.k[3][5]"; "shared address 4711" if it is in no
// tile.
const char *tile_name(const json_t *tiles, unsigned address, char *name, size_t size);

// ---- Films (film.c) -----------------------------------------------------------------------------

extern char *viewer; // the folder of the parts of a page

// The kernel of a recording that is shown: of those with this name (NULL: of all), the first with a
// fault or, without faults, the first. NULL: there is none.
json_t *film_kernel(json_t *recording, const char *name);
// Marks faults that repeat a mistake. If the other access of the first fault is by another CTA,
// returns that CTA, as PTXSIM_FILM takes it; otherwise NULL.
char *film_other_cta(json_t *kernel);
// Writes a page that shows the kernel. Prints what is wrong with it, unless the reader has seen
// that (known). other: the recording of the other CTA, or NULL; program: the file that was run,
// or the recording; chapter: the chapter whose lessons the page has, 0: none, -1: the program's.
void film_page(json_t *kernel, json_t *other, const char *program, int chapter, const char *file,
               bool known);
// Instead of a page, prints three lines about the fault with which the page would open: its kind,
// the simulator's words, the sentence that explains it. Prints nothing if there is no fault.
void film_say(json_t *kernel, const char *program);
// Adds to each fault of a kernel its "sentence", which explains it.
void film_explain(json_t *kernel, const char *program);

// ---- Programs (program.c) -----------------------------------------------------------------------

// The path of a program, found as by execvp, for the caller to free; NULL: not found.
char *find_program(const char *name);
// Whether an executable needs a library with that name.
bool needs_library(const char *path, const char *library);
// Why the simulator cannot run a program, in one line; NULL: it can.
const char *program_unfit(const char *path);

// ---- Runs (record.c) ----------------------------------------------------------------------------

extern char *home;           // the folder of libcudart.so.13
extern char report_file[64]; // the report of the last run; removed when this process ends
extern char trace_file[64];
void find_home(void); // also sets root and viewer
// Makes a new, empty file for the next run's report.
void make_report_file(void);
// Makes the loader find the simulator's libraries for the program that this process executes next.
void set_libraries(void);
// Runs a program with a report. variable: PTXSIM_TRACE or PTXSIM_FILM, to record a CTA; NULL:
// nothing is recorded. cta: the CTA, as "x,y,z"; NULL: the first. All the program's output goes to
// stderr or, if silent, nowhere. Returns the exit status, or 128 + the signal that ended it.
int run_recorded(char **argv, const char *variable, const char *cta, bool silent);

// From now on, a signal that would end this process ends only the program that it runs; no other
// program is run afterwards.
void outlive_signals(void);
extern volatile sig_atomic_t ended_by; // the signal; 0: there was none
extern volatile pid_t running;         // the program, 0: none is running
// A block's index, the JSON array [x, y, z], as the text "x,y,z" that --cta takes; for the caller
// to free. NULL: `block` is not such an array.
char *cta_of(const json_t *block);

struct film {
    json_t *recording;
    // Recorded kernels, chosen by film_kernel and film_other_cta; may be NULL.
    json_t *shown, *other;
    int status; // the program's exit status
};
struct film film_load(const char *file, const char *kernel);
// Runs a program and films a CTA. Without `cta`, this is the first CTA or, if the checks find a
// fault in another CTA, that one.
struct film film_record(char **argv, const char *kernel, const char *cta, bool silent);
// Ends this process with a message if there is nothing to show.
void film_must_show(const struct film *film, const char *program, const char *kernel,
                    const char *cta, bool recorded);

// ---- The command --------------------------------------------------------------------------------

// Prints the lines of a report with their counts (profile.c), and writes them to the file `json`
// unless that is NULL.
void show_report(const json_t *file, const char *kernel, int lines, const char *by,
                 const char *json);
int profile_main(int argc, char **argv);

// The faults that a run has reported (messages.c), as records of fault_write (ptxsim.h). In this
// order: fault_add adds one, unless the record has none; faults_explain adds to each the "sentence"
// of its film; faults_settle replaces the files and lines by those that the user opens.
void fault_add(json_t *faults, const char *record);
void faults_explain(json_t *faults, json_t *recording, const char *program);
void faults_settle(json_t *faults);
void faults_print(const json_t *faults, FILE *out);

int run_main(int argc, char **argv);
int cc_main(int argc, char **argv);

#endif
