// host.h: what the host programs share that judge, measure and draw: the labs' driver and tools,
// the grader, build/series, the command ptxsim.
//
//   say.c      the line that a failing program prints, texts, and the line that says what is being done
//   options.c  a program's options by a table
//   json.c     values at dotted paths of JSON, and JSON files
//   root.c     the folder of the program, and of the repository
//   gpu.c      whether there is a GPU
//   clock.c    the time
//   process.c  programs as processes: run to the end, or asked line by line
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
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

// The name that fail() begins its line with: "lab3", "grade".
extern const char *speaker;

// Prints one line on stderr, "SPEAKER: ...", and exits.
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

// printf into a new string.
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reads a whole number that the user has typed. Fails, and calls it `what`, unless `word` is a number in least..most.
int whole(const char *what, const char *word, int least, int most);

// Returns the result of an allocation; fails if it is NULL.
void *need(void *memory);

// doing() shows on stderr what is being done, if stderr is a terminal; done() removes the line.
// still_doing(), called with the seconds since, adds them to the line from the first second on.
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));
void still_doing(double seconds);
void done(void);

// ---- Options (options.c) ------------------------------------------------------------------------

struct option_row {              // "--NAME ARGUMENT"
    const char *name, *argument; // argument NULL: the option takes none
    const char
        *help; // words of --help, lines end at \n and at 100 columns; NULL: it is not listed there
    // Where the value goes, one of: a text; a number in [least, most]; a flag that is set if the
    // option is given; a function that takes the value.
    const char **word;
    int *number, least, most;
    bool *flag;
    void (*call)(const char *option, const char *value); // option: "--name"
};
// Takes all options of a table, which ends in a row without a name; fails on any other option. Returns the index in
// argv of the first operand: operands are moved behind the options. front: options end at the first operand.
int options_read(int argc, char **argv, const struct option_row *rows, bool front);
void options_help(const struct option_row *rows); // prints the lines of the table

// ---- JSON (json.c) ------------------------------------------------------------------------------

// The value at a dotted path, "shapes.mission.timing.p50_us"; NULL: the path has no value, or the value is null.
json_t *at(const json_t *json, const char *path);
// The number, or the string, at a path; `otherwise` if there is none.
double number_or(const json_t *json, const char *path, double otherwise);
const char *string_or(const json_t *json, const char *path, const char *otherwise);
double number_at(const json_t *json, const char *path);      // NaN if there is none
const char *string_at(const json_t *json, const char *path); // "?" if there is none

// Writes a file by way of a temporary one beside it, so that nobody ever sees half of it. `format`:
// jansson's flags; `end`, "\n" or "", is written after the value.
void write_json(const json_t *json, const char *path, size_t format, const char *end);

// Fails if a file could not be written; to be called before the work whose result it is to hold.
void must_be_writable(const char *path);

// All bytes of a file, or of the rest of a stream, with a NUL after them, for the caller to free;
// NULL if they cannot be read. bytes: receives their number, unless it is NULL.
char *read_file(const char *path, size_t *bytes);
char *read_stream(FILE *file, size_t *bytes);

// ---- The machine (root.c, gpu.c, clock.c) -------------------------------------------------------

char *own_folder(void); // the folder of this program's file; for the caller to free
extern char *root;      // the repository's folder, once find_root() has found it
void find_root(void);   // finds it from the place of this program, which is in build/

bool gpu_here(void);        // whether there are a driver and a GPU
const char *gpu_name(void); // NULL: there is no GPU
double now(void);           // seconds, by a clock that is never set
const char *date_now(void); // as in records: 2026-11-21T09:00:00Z

// ---- Processes (process.c) ----------------------------------------------------------------------

struct output {
    int status; // exit status; 128 + signal; -1: stopped because it ran too long
    char *out;  // stdout, NUL-terminated
    char *err;  // stderr
};

// Runs argv (NULL-terminated) to its end, at most `seconds`. env: "NAME=value" strings added to
// the environment, NULL-terminated, or NULL. When `show`, stdout goes to ours instead.
struct output run(char *const argv[], char *const env[], int seconds, bool show);
void output_free(struct output *output);

// The last line of a program's stderr, for a report of one line; "no message" if it is empty.
const char *last_line(char *err);

// A program that answers lines of its standard input.
struct process {
    pid_t pid;
    FILE *in, *out;
    int err;
};
bool process_start(struct process *child, char *const argv[], char *const env[]);
// Sends a line to the program and returns its answer, a JSON object, which the caller releases. NULL: the program has
// ended, or has not answered within `seconds`.
json_t *process_ask(struct process *child, const char *request, int seconds);
// Closes the program's input and waits for the program to end. Returns what run() returns.
struct output process_finish(struct process *child, int seconds);

#endif
