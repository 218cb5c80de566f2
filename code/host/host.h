// host.h: shared by the host programs that judge, measure and draw: the labs' driver and tools, the grader,
// build/series, the command ptxsim.
//
//   say.c      fail(), texts, and a line on stderr that shows what is being done
//   options.c  a program's options, described in a table
//   json.c     values in JSON by dotted paths, and JSON files
//   root.c     the folder of the program, and of the repository
//   gpu.c      whether there is a GPU
//   clock.c    the time
//   process.c  runs programs as processes: to the end, or asked line by line
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
// These programs run once and end; texts that they make for their reports are not freed.
#ifndef HOST_H
#define HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

// Exit statuses that these programs share; each may have others of its own.
enum { EXIT_USAGE = 2, EXIT_MACHINE = 3 };

// ---- Words (say.c) ------------------------------------------------------------------------------

// The name at the beginning of fail()'s line: "lab3", "grade".
extern const char *speaker;

// Prints one line on stderr, "SPEAKER: ...", and exits.
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

// Like printf, but returns a new string, which the caller may free.
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reads a whole number typed by the user. Fails, naming it `what`, unless `word` is a number from `least` to `most`.
int whole(const char *what, const char *word, int least, int most);

// Returns the result of an allocation; fails if it is NULL.
void *need(void *memory);

// If stderr is a terminal, doing() shows there what is being done; still_doing() adds the seconds that it has taken
// so far, if they are 5 or more; done() removes the line.
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));
void still_doing(double seconds);
void done(void);

// ---- Options (options.c) ------------------------------------------------------------------------

struct option_row {              // "--NAME ARGUMENT"
    const char *name, *argument; // argument NULL: the option takes none
    const char *help; // words of --help, broken at \n and at 100 columns; NULL: not listed there
    // Where the value goes, one of: a text; a number in [least, most]; a flag that is set if the
    // option is given; a function that takes the value.
    const char **word;
    int *number, least, most;
    bool *flag;
    void (*call)(const char *option, const char *value); // option: "--name"
};
// Reads all options of a table, which ends in a row without a name; fails on any other option. Moves operands after
// the options, and returns the index in argv of the first operand. front: options end at the first operand.
int options_read(int argc, char **argv, const struct option_row *rows, bool front);
void options_help(const struct option_row *rows); // prints the lines of the table

// ---- JSON (json.c) ------------------------------------------------------------------------------

// The value at a dotted path such as "shapes.mission.timing.p50_us"; NULL: there is none, or it is null.
json_t *at(const json_t *json, const char *path);
// The number, or the string, at a path; if there is none, `otherwise`.
double number_or(const json_t *json, const char *path, double otherwise);
const char *string_or(const json_t *json, const char *path, const char *otherwise);
double number_at(const json_t *json, const char *path);      // NaN if there is none
const char *string_at(const json_t *json, const char *path); // "?" if there is none

// Writes a value to a file, by way of a temporary file beside it, so that nobody ever sees half of it; fails if this
// is not possible. format: jansson's flags; end: written after the value, "\n" or "".
void write_json(const json_t *json, const char *path, size_t format, const char *end);

// Fails if a file cannot be written. To be called before the long work whose result is to be written there.
void must_be_writable(const char *path);

// All bytes of a file, or of the rest of a stream, and a NUL, for the caller to free; NULL: they cannot be read.
// *bytes: their number, unless `bytes` is NULL.
char *read_file(const char *path, size_t *bytes);
char *read_stream(FILE *file, size_t *bytes);

// ---- The machine (root.c, gpu.c, clock.c) -------------------------------------------------------

char *own_folder(void); // the folder of this program's file; for the caller to free
extern char *root;      // the repository's folder, once find_root() has found it
void find_root(void);   // sets `root`: this program's file is in root/build/

bool gpu_here(void);        // whether there is a driver, and a GPU
const char *gpu_name(void); // NULL: there is no GPU
double now(void);           // seconds of a clock that only runs forward (CLOCK_MONOTONIC)
const char *date_now(void); // date and time in the form of records, 2026-11-21T09:00:00Z

// ---- Processes (process.c) ----------------------------------------------------------------------

struct output {
    int status; // exit status; 128 + signal; -1: killed after the time allowed
    char *out;  // stdout, NUL-terminated
    char *err;  // stderr
};

// Runs argv (NULL-terminated) until it ends, at most for `seconds`. env: "NAME=value" strings added to the environment,
// NULL-terminated, or NULL. show: stdout goes to this process's stdout.
struct output run(char *const argv[], char *const env[], int seconds, bool show);
void output_free(struct output *output);

// The last line of a program's stderr, for a one-line message; "no message" if it is empty.
const char *last_line(char *err);

// A program that answers lines of its standard input.
struct process {
    pid_t pid;
    FILE *in, *out;
    int err;
};
bool process_start(struct process *child, char *const argv[], char *const env[]);
// Sends a line to the program, and returns its answer, a JSON object, which the caller releases. NULL: the program has
// ended, prints nothing for `seconds`, or its answer is not valid JSON.
json_t *process_ask(struct process *child, const char *request, int seconds);
// Closes the program's input, and waits until the program ends, at most for `seconds`. Returns its exit status and
// stderr as run() does; `out` is empty.
struct output process_finish(struct process *child, int seconds);

#endif
