// host.h: what the programs share that judge, measure and draw on the host: the labs' driver and tools, the grader,
// build/series, the command ptxsim.
//
//   say.c      the line in which a program fails, texts, the line that says what is under way
//   options.c  a program's options by a table
//   json.c     values at dotted paths of JSON, and files of it
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

// Exit statuses that these programs share; others are a program's own.
enum { EXIT_USAGE = 2, EXIT_MACHINE = 3 };

// ---- Words (say.c) ------------------------------------------------------------------------------

// Who speaks in fail(): "lab3", "grade".
extern const char *speaker;

// Prints one line on stderr, "SPEAKER: ...", and exits.
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

// printf into a new string.
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A whole number that somebody has typed; fails where it is none, or beyond these.
int whole(const char *what, const char *word, int least, int most);

// Memory that was asked for; fails where it is NULL.
void *need(void *memory);

// doing shows on stderr what is being done, if that is a terminal; done removes the line. still_doing, called with the
// seconds since, adds them to the line from the first second on.
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));
void still_doing(double seconds);
void done(void);

// ---- Options (options.c) ------------------------------------------------------------------------

struct option_row {              // "--NAME ARGUMENT"
    const char *name, *argument; // argument NULL: the option takes none
    const char
        *help; // words of --help, lines end at \n and at 100 columns; NULL: it is not listed there
    // Where the value goes, one of these: a text; a number in [least, most]; whether the option was given; a
    // function that takes it.
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

// The value at a dotted path, "shapes.mission.timing.p50_us"; NULL where there is none, or a null.
json_t *at(const json_t *json, const char *path);
// The number, or the string, at a path; `otherwise` where there is none.
double number_or(const json_t *json, const char *path, double otherwise);
const char *string_or(const json_t *json, const char *path, const char *otherwise);
double number_at(const json_t *json, const char *path);      // otherwise NaN
const char *string_at(const json_t *json, const char *path); // otherwise "?"

// Writes a file by way of a temporary one beside it, so that nobody ever sees half of it. `format` are
// jansson's flags, `end` stands behind the value: "\n" or "".
void write_json(const json_t *json, const char *path, size_t format, const char *end);

// Fails where a file could not be written; before the work of which it is the result.
void must_be_writable(const char *path);

// All bytes of a file, or of what is left of a stream: new, with a NUL behind them; NULL where they cannot be
// read. bytes: how many, or NULL.
char *read_file(const char *path, size_t *bytes);
char *read_stream(FILE *file, size_t *bytes);

// ---- The machine (root.c, gpu.c, clock.c) -------------------------------------------------------

char *own_folder(void); // of this program's file: new
extern char *root;      // the repository's folder, once find_root() has found it
void find_root(void);   // by the place of this program, which is in build/

bool gpu_here(void);        // whether there are a driver and a GPU
const char *gpu_name(void); // NULL: there is none
double now(void);           // seconds, of a clock that is never set
const char *date_now(void); // as a record has it: 2026-11-21T09:00:00Z

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

// The last line of a program's complaints, for a report of one line; "no message" if it said none.
const char *last_line(char *err);

// A program that answers lines of its standard input.
struct process {
    pid_t pid;
    FILE *in, *out;
    int err;
};
bool process_start(struct process *child, char *const argv[], char *const env[]);
// Its answer to a line: a JSON object, which the caller lets go of; NULL when the program has ended
// or hangs.
json_t *process_ask(struct process *child, const char *request, int seconds);
// Ends its input and waits. Returns as run() does.
struct output process_finish(struct process *child, int seconds);

#endif
