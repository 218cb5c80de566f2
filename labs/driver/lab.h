// lab.h: the parts of the lab driver.
//
//   arguments.c what the script in labs/ and its user ask for
//   say.c       words and numbers in a report
//   state.c     the programs, the record and the gates so far
//   clocks.c    what a program that is timed reports of the clock
//   ncu.c       Nsight Compute: which metrics, how it is asked, what it answers
//   evidence.c  what Nsight Compute or the simulator counted
//   fault.c     what is wrong when the simulator has found a fault, in a sentence
//   checks.c    resources and correctness
//   search.c    a search, judged by what it asks of a journal
//   speedup.c   the two programs against each other; recorded runs if there is no GPU
//   sheet.c     the lab's sheet: points so far, what to look at next, hints
//   watch.c     judges a file again whenever it is saved
//   lab.c       from the first gate to the verdict; the record and the chart
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
//
// compare, profile-ncu and scoreboard (labs/tools/) are separate programs made from the same parts.
#ifndef LAB_H
#define LAB_H

#include "../sheet/sheet.h"
#include "host/host.h"
#include "workbench/clocks.h"
#include "workbench/workbench.h"

enum { EXIT_GREEN = 0, EXIT_RED = 1 };
#define RECORD_FORMAT (JSON_INDENT(2) | JSON_REAL_PRECISION(9)) // of the records that are committed
enum { MAX_SHAPES = 16, MAX_PROMISES = 8, RUN_SECONDS = 600, BATCH_SECONDS = 60 };
// Limit of a launch in the simulator, so that nobody waits for an endless loop: this many times the
// warp instructions of the program that it is compared with, and at least as many as take about 20
// s of a core with every check (30 million a second, chapter 3's).
enum { BUDGET_TIMES = 50, BUDGET_LEAST = 600 * 1000 * 1000 };
// Warp instructions that a launch to be filmed may run: some hundred times those of the default
// shape.
enum { FILM_BUDGET = 20 * 1000 * 1000 };

// ---- What is asked for (arguments.c) ------------------------------------------------------------

struct gate { // a limit of a resource; by default the one in resources.def
    struct limit limit;
    bool judges; // false: it is only shown
};

struct promise { // mission:1.3, a ratio; or mission:50, a goal in µs
    char shape[32];
    double ratio; // 0: compared, but not judged
};

struct lab {
    int number;
    const char *why;
    const char *title, *after; // the stage's name; its program, or one that the script names
    const char *before;        // the program that it is compared with, or NULL
    bool plain;                // after is a C program, without a kernel
    bool model;                // after runs a language model: a chain of kernels, counted together
    const char *search;        // a program that searches, or NULL; the journal that answers it
    const char *journal;
    bool only_search;    // only the search is judged, no kernel
    const char *student; // the source file to be judged instead of `after`, or NULL
    const char *seeds;
    const char *inputs;                // kinds of inputs; NULL: the program's own choice
    const char *on;                    // "gpu", "simulator" or NULL
    const char *record;                // or NULL
    bool profile;                      // shows the lines with their counts instead of a verdict
    const char *film;                  // the page to be written instead of a verdict, or NULL
    const char *film_shape, *film_cta; // the launch and CTA to film; film_cta may be NULL
    const char *film_values;           // lines whose registers' values the film has, or NULL
    bool all;                          // shows every table for a student's program, too
    bool watch;                        // judges again whenever the student's file is saved
    int hint; // the task whose next hint is wanted; 0: the first open one; -1: no hint
    int rounds, iterations;
    struct shape shapes[MAX_SHAPES];
    int shape_count;
    struct gate *gates; // at most one for each resource
    struct promise promises[MAX_PROMISES], goals[MAX_PROMISES];
    int promise_count, goal_count;
};
extern struct lab lab;

// Fills in `lab`, looking up the stage in `root`; prints --help and exits, or exits with one line
// about what is wrong.
void parse_options(int argc, char **argv);

// ---- The state of affairs (state.c) -------------------------------------------------------------

struct side {
    const char *name;
    char *path;
    json_t *resources;
    json_t *device;
    json_t *counts;                // evidence: a counter's value by its key
    json_t *counts_of;             // the simulator's counts by shape
    bool wrong;                    // an output differs
    char *how;                     // in which way, at the first shape; or NULL
    char *kind, *words, *sentence; // of the fault that a film opens with, or NULL
    char *fault;                   // the simulator's first complaint, or NULL
    const char *faulty;            // the shape at which it was found
    char *printed; // what the program printed on stdout at the first shape where it did, or NULL
    const char *printed_at;    // that shape
    size_t printed_bytes;      // bytes of all that it printed; `printed` is the beginning
    char *stopped;             // why it gave no outputs, if neither is the reason; or NULL
    const char *hash, *commit; // compiled into it
};
extern struct side before, after; // before.name is NULL in a lab without a before-program
// Folder for work files, the chart, the record: build/labNN, for a student's NAME.cu
// build/labNN/NAME.
extern char *folder;
extern bool on_gpu;
extern json_t *record;     // the record to be written
extern json_t *gates_said; // the record's "gates"
extern int gates_failed;

// Enters a gate into the record, and takes `value` over; the caller prints the line that shows it.
bool note_gate(const char *group, const char *name, json_t *value, const char *limit, bool pass);

// Keeps what a program's first record says about its source and its device.
void note_identity(struct side *side, json_t *said);

// The shape that the evidence is for: the promise's if it is run, else the last.
const char *main_shape(void);

// Environment of a program on the GPU, or in the simulator, which writes its report to a file ("":
// no report) and stops a launch after `budget` warp instructions (0: never).
char *const *environment(bool gpu, const char *report, double budget);
// The budget of a judged program at a shape; 0 if there is nothing to compare it with.
double budget_of(const char *shape); // checks.c

// ---- The parts of a lab -------------------------------------------------------------------------

void judge_resources(void);             // checks.c
void judge_correctness(void);           // checks.c
json_t *simulator_read(json_t *report); // evidence.c: counts per launch from a simulator report
const char *judge_speed(void); // speedup.c: "FAST", "VALID NEGATIVE" or "GREEN"; no gate has failed
void show_evidence(void);      // evidence.c
void judge_search(void);       // search.c
int search_count(enum searched on);    // median number of candidates until the elite
const char *search_broken(void);       // the first rule that the search broke, or NULL
const char *nearby(const char *words); // fault.c: with paths as the user would type them
void explain_fault(int schedule); // fault.c: for the program that is judged; 0: the first schedule

// Points of the sheet: earned as far as can be seen, not to be seen here, and all.
struct score {
    double got, open, total;
};
void show_fault(void); // fault.c: the sentence, the simulator's words, and where to watch it
bool judge_sheet(struct score *score); // sheet.c: false if the lab has no sheet
void show_next(void);                  // sheet.c: what to look at
void remark_on_doubles(void);          // sheet.c
void show_points(void);                // sheet.c
void show_hint(void);                  // sheet.c

// Returns in a child process, at once and again whenever `source` is saved; Ctrl-C ends everything.
void watch(const char *source); // watch.c

// A resource of the image (sm_89, or sm_90), or on this GPU; NaN if it is not known.
double resource(const struct side *side, const struct resource *resource, bool image); // checks.c

// ---- Nsight Compute (ncu.c) ---------------------------------------------------------------------

struct counter {
    const char *key;   // name in the record
    const char *title; // words in the report
};
extern const struct counter ncu_counters[]; // ends with {NULL, NULL}

// What Nsight Compute reads for one launch of argv, after skipping `skip` launches, by the keys of
// ncu_counters; NULL with one line in *why if there is no ncu or it was refused.
json_t *ncu_read(char *const argv[], char *const env[], int skip, char **why);

// ---- Words (say.c) ------------------------------------------------------------------------------

// Terminal colours; empty where they are not wanted.
extern const char *RED_INK, *GREEN_INK, *BOLD, *FAINT, *PLAIN;
void colours(void);

void heading(const char *title);
// Hides what is printed between hush() and speak().
void hush(void);
void speak(void);
// Prints words, broken at spaces, on a line that already has `used` columns; further lines are
// indented. A space comes first if used is more than the indent.
void wrap(const char *words, int used, int indent);
// Whether the terminal has fewer than 80 columns: tables then take 60, with shorter names of
// programs and without what other columns already say.
bool narrow(void);
const char *mark(bool pass); // "ok" or "FAIL"
const char *
grouped(double value); // 12345678 -> "12,345,678"; a number below 100 that is not whole: "1.23"

// ---- Clocks (clocks.c) --------------------------------------------------------------------------

// Adds to *span what an answer of process_ask() reports of the clock.
void add_clock(struct clock_span *span, json_t *answer);
// Sets "clock" in an object of the record, if the clock was read.
void put_clock(json_t *object, const struct clock_span *span);

#endif
