// lab.h: what the parts of the lab driver share.
//
//   arguments.c reads the options of the script in labs/, and of its user
//   say.c       words and numbers in a report
//   state.c     the programs, the record and the gates so far
//   clocks.c    what a program that is timed reports about the GPU's clock
//   ncu.c       Nsight Compute: its metrics, how it is called, how its output is read
//   evidence.c  counts of Nsight Compute or of the simulator
//   fault.c     explains a fault that the simulator has found, in a sentence
//   checks.c    resources and correctness
//   search.c    judges a search by the candidates that it asks for
//   speedup.c   times two programs against each other; shows recorded runs if there is no GPU
//   sheet.c     the lab's sheet: points so far, what to look at next, hints
//   watch.c     judges a file again whenever it is saved
//   lab.c       from the first gate to the verdict; the record and the chart
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
//
// compare, profile-ncu and scoreboard (labs/tools/) are separate programs that use some of these
// parts.
#ifndef LAB_H
#define LAB_H

#include "../sheet/sheet.h"
#include "host/host.h"
#include "workbench/clocks.h"
#include "workbench/workbench.h"

enum { EXIT_GREEN = 0, EXIT_RED = 1 };
#define RECORD_FORMAT (JSON_INDENT(2) | JSON_REAL_PRECISION(9)) // for records that are committed
enum { MAX_SHAPES = 16, MAX_PROMISES = 8, RUN_SECONDS = 600, BATCH_SECONDS = 60 };
// The simulator stops a launch of the judged program after BUDGET_TIMES the warp instructions of
// the program that the judged one is compared with, but not before BUDGET_LEAST: about 20 s on one
// core with every check (30 million a second, measured with chapter 3). This ends endless loops.
enum { BUDGET_TIMES = 50, BUDGET_LEAST = 600 * 1000 * 1000 };
// The limit in warp instructions of a launch that is filmed: some hundred times what a launch at
// --film-shape's default takes.
enum { FILM_BUDGET = 20 * 1000 * 1000 };

// ---- What is asked for (arguments.c) ------------------------------------------------------------

struct gate { // a limit of a resource; without an option, the usual one of resources.def
    struct limit limit;
    bool judges; // false: it is only shown
};

struct promise { // mission:1.3, a promised speedup; or mission:50, a goal in µs
    char shape[32];
    double ratio; // the speedup, or the goal in µs; 0: the programs are compared, but not judged
};

struct lab {
    int number;
    const char *why;
    const char *title, *after; // the stage's name; its program, or the one that a script names
    const char *before;        // the program that `after` is compared with, or NULL
    bool plain;                // whether `after` is a C program, without a kernel
    bool model;                // whether `after` runs a language model; its counts are added up
    const char *search;        // a program that searches, or NULL
    const char *journal;       // the file that answers the search
    bool only_search;          // whether only the search is judged, and no kernel
    const char *student;       // a source file that is judged instead of `after`, or NULL
    const char *seeds;
    const char *inputs;                // kinds of inputs; NULL: the program chooses
    const char *on;                    // "gpu", "simulator" or NULL
    const char *record;                // where the record is written, or NULL
    bool profile;                      // whether to show lines with their counts, and no verdict
    const char *film;                  // the page that is written instead of a verdict, or NULL
    const char *film_shape, *film_cta; // the launch's shape, and its CTA (or NULL), to film
    const char *film_values;           // lines for which the film has the registers' values, or
                                       // NULL
    bool all;                          // whether to show every table for a student's program, too
    bool watch;                        // whether to judge again each time the file is saved
    int hint; // a task, whose next hint is shown; 0: the lab chooses the task; -1: no hint
    int rounds, iterations;
    struct shape shapes[MAX_SHAPES];
    int shape_count;
    struct gate *gates; // one gate for each of resources[]; NO_LIMIT: the lab leaves it out
    struct promise promises[MAX_PROMISES], goals[MAX_PROMISES];
    int promise_count, goal_count;
};
extern struct lab lab;

// Fills in `lab`, with the stage from a file below `root`. With --help, prints the help and exits;
// for bad options, exits with one line about what is wrong.
void parse_options(int argc, char **argv);

// ---- The state so far (state.c) -----------------------------------------------------------------

struct side {
    const char *name;
    char *path;
    json_t *resources;
    json_t *device;
    json_t *counts;                // evidence: for each counter's key its value
    json_t *counts_of;             // the simulator's counts, for each shape
    bool wrong;                    // whether some output was wrong
    char *how;                     // how the output at the first wrong shape is wrong, or NULL
    char *kind, *words, *sentence; // about the fault at which a film opens, or NULL
    char *fault;                   // the simulator's first fault in a run that was not stopped; or
                                   // NULL
    const char *faulty;            // the first shape with a fault, in any run; or NULL
    char *printed; // what the program printed on stdout, at the first shape where it printed
                   // anything; or NULL
    const char *printed_at;    // the shape at which it printed `printed`
    size_t printed_bytes;      // of all that it printed at that shape; `printed` may have fewer
    char *stopped;             // why the program gave no outputs, if `fault` does not say; or NULL
    const char *hash, *commit; // of the program's source, as compiled into the program
};
extern struct side before, after; // before.name is NULL in a lab that compares with no program
// The folder for working files, the chart and the record: build/labNN; for a student's NAME.cu,
// build/labNN/NAME.
extern char *folder;
extern bool on_gpu;
extern json_t *record;     // the record that will be written
extern json_t *gates_said; // the record's "gates"
extern int gates_failed;

// Adds a gate to the record; takes over `value`; returns `pass`. The caller prints the gate's line.
bool note_gate(const char *group, const char *name, json_t *value, const char *limit, bool pass);

// Keeps what a program's first record says about its source and the device.
void note_identity(struct side *side, json_t *said);

// The shape for which evidence is shown: the first promise's, if the lab runs that shape; otherwise
// the last one that it runs.
const char *main_shape(void);

// The environment for a program on the GPU, or in the simulator, which writes its report to a file
// ("": nowhere) and stops a launch after `budget` warp instructions (0: never).
char *const *environment(bool gpu, const char *report, double budget);
// The budget of a judged program at a shape: from a count of the program before or, if that has
// none and a student's program is judged, of the chapter's own. 0: none, since neither has a count,
// or the program runs on a GPU.
double budget_of(const char *shape); // checks.c

// ---- The parts of a lab -------------------------------------------------------------------------

void judge_resources(void);             // checks.c
void judge_correctness(void);           // checks.c
json_t *simulator_read(json_t *report); // evidence.c: a simulator's report as counts for one launch
// speedup.c: "FAST", "VALID NEGATIVE" or "GREEN"; on a GPU, "RED" if a gate has failed.
const char *judge_speed(void);
void show_evidence(void);              // evidence.c
void judge_search(void);               // search.c
int search_count(enum searched on);    // candidates until the elite, median over the seeds
const char *search_broken(void);       // the first rule that the search broke; or NULL
const char *nearby(const char *words); // fault.c: words whose paths are as the user would type them
// fault.c: looks for the fault of the judged program, with the warps in the order of a schedule (0:
// the usual one).
void explain_fault(int schedule);

// Points of the sheet. got: those earned; open: those of items that cannot be judged here; total:
// those of all items.
struct score {
    double got, open, total;
};
// fault.c: prints the fault's sentence, the simulator's words, and how to watch the fault.
void show_fault(void);
bool judge_sheet(struct score *score); // sheet.c: false if the lab has no sheet
void show_next(void);                  // sheet.c: what to look at
void remark_on_doubles(void);          // sheet.c
void show_points(void);                // sheet.c
void show_hint(void);                  // sheet.c

// Returns in a child process, first at once and then each time `source` is saved; Ctrl-C ends all
// of them.
void watch(const char *source); // watch.c

// The value of a resource: if `image`, in the program's image (such as sm_89); otherwise on this
// GPU. NaN: unknown.
double resource(const struct side *side, const struct resource *resource, bool image); // checks.c

// ---- Nsight Compute (ncu.c) ---------------------------------------------------------------------

struct counter {
    const char *key;   // the counter's name in the record
    const char *title; // the counter's title in the report
};
extern const struct counter ncu_counters[]; // the last one is {NULL, NULL}

// What Nsight Compute measures for one launch of argv, after skipping `skip` launches, by the keys
// of ncu_counters. NULL: there is no ncu, or it failed; *why says so in one line.
json_t *ncu_read(char *const argv[], char *const env[], int skip, char **why);

// ---- Words (say.c) ------------------------------------------------------------------------------

// Escape sequences for a terminal's colours; "" where there are none.
extern const char *RED_INK, *GREEN_INK, *BOLD, *FAINT, *PLAIN;
void colours(void);

void heading(const char *title);
// hush: what is printed from now on is hidden, until speak.
void hush(void);
void speak(void);
// Prints words, broken at spaces, on a line in which `used` columns are taken; further lines are
// indented. Begins with a space if `used` exceeds the indent.
void wrap(const char *words, int used, int indent);
// Whether the terminal has fewer than 80 columns. Tables then take 60: programs have shorter names,
// and some columns are left out.
bool narrow(void);
const char *mark(bool pass); // "ok" or "FAIL"
// "12,345,678" for 12345678; "1.23" for a number below 100 that is not whole.
const char *grouped(double value);

// ---- Clocks (clocks.c) --------------------------------------------------------------------------

// Adds to *span what an answer of process_ask() reports about the clock.
void add_clock(struct clock_span *span, json_t *answer);
// Sets "clock" in an object of the record, unless the clock was never read.
void put_clock(json_t *object, const struct clock_span *span);

#endif
