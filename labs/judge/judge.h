// judge.h: the parts of the grader.
//
//   texts.c     texts from submissions, for reports, spreadsheets, files and hashes
//   options.c   the options, and the keys that inputs are drawn from
//   lab.c       the lab at hand: its sheet (labs/sheet/)
//   late.c      what a late submission keeps
//   sandbox.c   processes apart: bubblewrap, limits, the system calls that there are
//   work.c      a submission's folder, and the time that it may take
//   kept.c      what was compiled and recorded, for the next time
//   cases.c     inputs from the secret seed, the reference, what is right
//   record.c    asks its host code how it wants to be launched, twice
//   build.c     compiles a submission
//   talk.c      the judge's end of the pipe to the runner
//   film.c      the first fault of a wrong one as a page to watch
//   used.c      whether what an aim counts was used
//   footprint.c the resources of a sheet, from what the runner has measured
//   search.c    a program that searches: what it asks for
//   model.c     a language model's program, with a submission's kernels in it
//   timing.c    the item that needs a GPU
//   flags.c     what a teacher may want to look at in a submission
//   alike.c     what submissions have in common that is neither the starter's nor the book's; another chapter's program
//   regrade.c   one item anew for a class
//   items.c     one submission, item by item, to a result (JSON)
//   feedback.c  a result for people, for Gradescope, for a gradebook
//   board.c     who is fastest
//   sources.c   a submission's source, found and read
//   entries.c   submissions graded in processes of their own, resumable
//   slurm.c     the same on a cluster
//   folder.c    a class: which submissions there are, what is written of them
//   check.c     a lab's own test: starter, solution and planted bugs, graded
//   pairs.c     the test of all sheets: what each program of the book earns of each lab's aims
//   main.c      one submission, a folder, or a test
//
//   gpu.c       of another program, the runner: a GPU's memory, launches and timing
//   spoil.c     of the runner: executions that are spoiled, and who notices
//   runner.c    that program: runs the kernels on inputs that come by a pipe
//   clock.c     a library: the clock that host code sees while it is recorded
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
//
// The judge trusts nothing that comes out of a box: texts are cut and cleaned, numbers checked.
#ifndef JUDGE_H
#define JUDGE_H

#include "protocol.h" // first: the workbench's declarations depend on the CUDA runtime's header

#include "../sheet/sheet.h"

#include <sha2.h> // libmd's SHA-256

enum { EXIT_GRADED = 0, SOURCE_BYTES_MAX = 1 << 20 };
#define RESULT_FORMAT (JSON_INDENT(2) | JSON_REAL_PRECISION(12))

struct options {
    int lab, jobs, threads;
    int wall; // seconds by the clock that a submission may take; 0: the default
    const char *lab_file, *secret_file, *json, *gradescope, *out, *record;
    const char *deadline, *times; // NULL: nothing is late
    int late_days,
        penalty;            // free late days; percent for each further day, -1: not given
    const char *visibility; // for items in Gradescope: NAME=WHEN,...
    const char *item;       // the item to be graded anew; NULL: all

    bool unsafe, fresh, cpu_only, check, quick, slurm, board, no_film;
    const char *pairs; // folder of texts to be judged by all sheets, or NULL
    bool one;          // the folder is one submission
    const char *film;  // the path for a single submission's film, or NULL
    const char *partition, *time_limit, *gres; // Slurm's options
    uint8_t secret[SHA256_DIGEST_LENGTH];      // key made from the secret
    uint8_t seeds[SHA256_DIGEST_LENGTH];       // key for published seeds
};
extern struct options options;
bool is_timed(void); // whether submissions are timed: on a GPU here, or on those that Slurm gives
void secrets_read(void); // the keys, from --secret or the environment, and for published seeds

// ---- Texts --------------------------------------------------------------------------------------

// Control characters and bytes that are no UTF-8 become \xHH, characters that disguise others
// (U+202E and its kind) \u202e, for a line of a report. For the caller to free.
char *cleaned(const char *line, size_t bytes);
char *clean_name(const char *name); // the same on one line
// Adds bytes to a hash, after their number, so that no part runs into the next.
void hash_bytes(SHA2_CTX *hash, const void *bytes, size_t size);
void write_csv(FILE *to, const char *field); // RFC 4180; never a formula
bool write_text(const char *path, const char *text);

// A text, which may contain any byte, followed by a NUL.
struct source {
    char *text;
    size_t bytes;
};
struct source
source_of(const char *path); // a file of the book; without text if the file is missing

// ---- Sandbox ------------------------------------------------------------------------------------

enum box_kind { BOX_COMPILE, BOX_RECORD, BOX_RUN, BOX_MODEL };

struct box {
    enum box_kind kind;
    const char *folder; // private to this submission; in the box it is /work, read only
    bool gpu;           // BOX_RUN: with the GPU's device files
    int cpu_seconds;    // limit for each process
    const char *clock;  // for a BOX_RECORD: ns since 1970 where its clock begins; or NULL
};

struct stream { // what a process wrote, up to a limit
    int fd;
    char *bytes;
    size_t size, limit;
    bool over;
};

struct boxed {
    int status;        // exit status, 128 + signal, or -1: stopped
    bool late, chatty; // late: exceeded the clock or the CPU time; chatty: wrote too much
    double used;       // CPU seconds; a process that was stopped counts as having used all
    struct stream out, err, lines; // lines: from file descriptor 3; a NUL after each
};

// The submission's folder and the repository's files, as the box sees them.
const char *box_work(const struct box *box);
const char *box_book(void);

// Whether processes can be put in a box here; else one line, with what to do.
bool sandbox_works(char **why);

// Runs a command in a box to its end, at most `seconds` by the clock, with `lines_limit` bytes of lines.
struct boxed box_run(const struct box *box, char *const argv[], double seconds, size_t lines_limit);
void boxed_free(struct boxed *boxed);

// Starts a command whose stdin and file descriptor 3 are pipes to the caller; what it writes to
// stdout and stderr is lost.
pid_t box_start(const struct box *box, char *const argv[], int *to, int *from);
double box_stop(pid_t pid); // returns the CPU time that it used, in seconds

// ---- Building -----------------------------------------------------------------------------------

struct submission {
    const char *name;                       // cleaned, for reports
    char *folder;                           // temporary; has its text and its program
    char hash[SHA256_DIGEST_STRING_LENGTH]; // hash of its text
    int lock;                               // file descriptor by which the folder is locked
    int wall;                               // seconds by the clock that it may take
    double end;                             // when its time ends, as now() counts; 0: never
    char *kept;                             // path under which what was compiled is kept
    json_t *records;                        // what its host code answered, by shape (record.c)
    double record_used;                     // CPU seconds of its host code, or of its searches
    bool record_late;                       // it once did not end in time, and is asked no more
    bool recorded;                          // there are new answers to keep
    char *two_ways;                         // how its host code gave two different answers, or NULL
    char *ptx, *cubin;
    size_t ptx_bytes, cubin_bytes;
    char *problem; // why there is nothing to run, or NULL
    char *details; // the compiler's words
};

// Prints files from a box, by the last command, to descriptor 3: for each file its size, a newline,
// its bytes. The function returns the next one, for the caller to free, with a NUL after it; false:
// there is none, or it is empty.
#define HAND_OUT(files) "for file in " files "; do stat -c %%s $file; cat $file; done >&3"
bool take_file(const struct stream *made, size_t *at, char **bytes, size_t *size);
// Writes a file into a submission's folder.
void write_work(const struct submission *s, const char *name, const char *bytes, size_t size,
                mode_t mode);

void submission_build(struct submission *s, const char *source, size_t bytes);

// Starts a submission's time by the clock, for everything that is done with it: a multiple of the
// CPU time that it may use, more if several share a core. It stops what neither computes nor ends.
void wall_begin(struct submission *s);
double wall_left(const struct submission *s, double most); // seconds, at most `most`
bool wall_over(const struct submission *s);
char *wall_told(const struct submission *s); // says that the time was over
void submission_free(struct submission *s);

// Makes the folder in /tmp, locked while it is used; a folder without a lock was left by a judge
// that was killed, and submission_tidy removes it.
void work_make(struct submission *s);
void work_remove(struct submission *s);
void submission_tidy(void);

// Preprocesses sources, each into a text for the caller to free: macros expanded, comments and
// included text removed, and lines "# NUMBER" for where in the source it goes on. A source that
// cannot be preprocessed is copied as it is.
void preprocess(const struct source sources[], struct source plain[], int count);

const char *kept_folder(void);                  // results, compiled programs; closed to others
char *records_path(const struct submission *s); // beside what was compiled; for the caller to free
// What was compiled from a text: the path of its file, for the caller to free; taking it, if it is
// there and undamaged; keeping it.
char *built_path(const char *source, size_t bytes);
char *plain_path(const struct source *source); // for the preprocessed text
bool plain_take(struct source *plain, const char *path);
void plain_keep(const struct source *plain, const char *path);
bool built_take(struct submission *s, const char *path);
void built_keep(const struct submission *s, const char *path);

// The places of codes (K's tokens, then V's) and scales in a page: only their order is the
// program's choice.
struct places {
    int page;
    uint16_t *codes, *scales; // [2][page][HEAD_DIM], [2][page]
};

// Gets how a submission wants to be launched at a shape and, for a cache, to have the pages filled;
// false with one line in *why.
struct known_launches {
    struct shape shape;
    struct recorded launches[LAUNCHES_MAX];
    int count;
    struct places places; // for a cache; else zeros
    uint64_t scratch;     // bytes of memory that it also wants
    char *steps;          // lines about what it does to memory, for the caller to free; or NULL
    size_t steps_bytes;
};
bool submission_launches(struct submission *s, const struct shape *shape, struct known_launches *k,
                         char **why);
void records_free(struct submission *s); // also keeps new ones
void launches_free(struct known_launches *k);

// ---- The runner ---------------------------------------------------------------------------------

enum { RUNNER_SECONDS = 300 }; // seconds of CPU time for all cases of a submission

struct runner {
    struct box box;
    pid_t pid; // 0: not started
    int to, from;
    double used; // CPU time, seconds
};

// Asks in a process of its own, so that nothing is left from the request before; only timings (on a
// GPU) share one. seconds: CPU time. False with one line in *why: refused, or the runner was lost.
// *out: reply.bytes, for the caller to free.
bool runner_ask(struct runner *r, const struct submission *s, const struct request *request,
                const void *parts[], const size_t sizes[], int part_count, int seconds,
                struct reply *reply, char **out, char **why);
double runner_end(struct runner *r); // returns seconds of CPU time

// ---- Cases --------------------------------------------------------------------------------------

#define SOFTMAX_SCALE                                                                              \
    0.125f // 1 / sqrt(HEAD_DIM), as in the book's programs; hidden cases have others

enum input { // three of the workbench's kinds, and three of the grader's own
    GRADE_NORMAL,
    GRADE_MEAN,
    GRADE_PEAKY,
    GRADE_RISING, // scores grow with the key: each tile has a new maximum
    GRADE_FLAT,   // Q is zero: every key counts the same
    GRADE_OFFSET, // all scores share more than 90, which a row's maximum takes off
    GRADE_INPUTS
};

struct grade_case {
    struct shape shape;
    enum input input;
    uint64_t seed;
    struct problem problem;
    struct rows rows;
    float *ref;
    float *all_rows; // from a second implementation, if the reference leaves out rows; else NULL
    struct error_limits limits; // limits for an output's error
    char *inputs;               // as the runner gets them; for a cache set by case_lay_out()
    struct cache_image image;   // for a cache, after that
};

// 64 bits that depend on the secret, on the current submission and on their purpose: what one
// submission was asked tells nothing about what another, or the same one changed, will be asked.
const char *secret_draw_for(const char *hash); // of the submission's text; returns the last one
const char *secret_name(void);                 // distinguishes secrets, tells nothing else
uint64_t secret_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
// 64 bits that depend on the secret and on their purpose: the same for all submissions.
uint64_t class_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
// 64 bits for what a report tells, for example a published seed: drawn like secret_draw's, but from
// the random bytes in build/grade/seeds, so that a report tells nothing about the secret.
uint64_t public_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
int secret_between(int least, int most, uint64_t drawn);
// A shape with about the work of a public one, drawn for all submissions: also in whole tiles of
// 128 keys; or, if the public one has fewer than three tiles, with few heads and more tiles; for a
// cache with another number of keys. For the caller to free.
char *drawn_like(const char *published);

void case_make(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
               uint64_t seed);
// Makes a case with a seed for each of its tensors.
enum tensor { TENSOR_Q, TENSOR_K, TENSOR_V, TENSORS };
void case_make_of(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
                  const uint64_t seeds[TENSORS]);
// Sets of[] to the seeds of the tensors of case `i`, taken from `seeds`. Case 0 differs from case 1
// in V only, from case 2 in K, from case 3 in Q, and from all later ones in every tensor.
enum { CASES_MIXED = 4 };
void mixed_seeds(int i, const uint64_t seeds[], uint64_t of[TENSORS]);
// Lays out a cache as a submission wants it. Slots without a token are NaN; if `stale`, they hold
// what looks like a token.
void case_lay_out(struct grade_case *c, const struct places *places, bool stale);
void case_free(struct grade_case *c);
const char *input_name(enum input input);
// Whether an answer is right: an output, and for a cache all its bytes; else one line in *why.
bool case_right(const struct grade_case *c, const char *answer, double *error, char **why);
// Says in one line how far, and where, an answer is wrong; for the caller to free.
char *case_how_wrong(const struct grade_case *c, const char *answer);

// ---- Labs ---------------------------------------------------------------------------------------

extern struct sheet sheet;
extern char sheet_hash[SHA256_DIGEST_STRING_LENGTH]; // hash of the sheet's file
extern char lab_hash
    [SHA256_DIGEST_STRING_LENGTH]; // of the sheet's file, the lab's program and starter; or all labs'
struct source of_the_lab(const struct sheet *s,
                         const char *folder); // its program, or its starter; for the caller to free
void hash_sheet(SHA2_CTX *hash, const struct sheet *s);
void lab_read(void); // the sheet of options.lab
enum { LABS_MAX = 32 };
extern struct sheet
    all_sheets[LABS_MAX]; // the sheets of labs whose aims are graded, after labs_read()
extern int sheet_count;
void labs_read(void); // makes the first of them the current one

// ---- Searches -----------------------------------------------------------------------------------

struct searches {
    json_t *cases; // for the caller to free
    int median;    // median number of candidates until the elite; REPLAY_MOST: not found
    bool late;     // a run did not end in time, so no other was started
};
// Children of some candidates, and searches on the lab's journal; then searches on landscapes drawn
// for this submission, none of which is run if one was late before.
struct searches search_journal(struct submission *s);
struct searches search_drawn(struct submission *s, bool late);

// ---- Evidence (used.c) --------------------------------------------------------------------------

// Launches cases in turn, in a new process, and then the first of them repeatedly, spoiled; returns
// whether all ended.
typedef bool launch_ablated(void *of, struct grade_case *cases, int count,
                            const struct experiment *experiment, struct reply *reply, char **out,
                            char **why);

struct use {
    bool known;
    bool depends; // outputs change with Q, with K and with V
    double share; // the share of executions that affect some output, 0 to 1
    double deviation;
    double work; // of a launch: flops of products, bytes of copies, sectors of atomics
    double each; // flops of a product that counts as one instruction
    struct worked_on worked_on;
    char *why; // why use could not be seen: a launch did not end; or NULL
};
struct use use_of(enum spoils what, launch_ablated *launch, void *of);
// The work on what changes with the same inputs as in the lab's own program, for each kind no more
// than there; and no more than a share of all work.
double work_in_common(const struct use *use, double share, const struct use *own);
// The share of a count, 0 to 1, that is of use, and of the same use as in the lab's own program.
double share_as_by(enum spoils what, const struct use *use, const struct use *own);
// Sets *what to the operations to be spoiled in order to see whether what a counter or a resource
// counts is used; false: no operations can show that.
bool spoils_for(const char *name, enum spoils *what);
// Whether a count decreases if a CTA takes more rows, whatever it does with them.
bool falls_with_tiles(const char *name);

// ---- Grading ------------------------------------------------------------------------------------

// The value of a resource of a sheet (labs/sheet/resources.def); NaN if there is no such resource.
double resource_graded(const struct footprint *f, const char *name);

// earlier: with --item, the result whose other items stand; or NULL.
json_t *grade(const char *name, const char *source, size_t bytes, const json_t *earlier);
json_t *refused(const char *name, const char *why);
// What a text earns for the aims of several sheets: it is built once, and launched once at each of
// their shapes.
json_t *grade_aims(const char *name, const char *source, size_t bytes, const struct sheet sheets[],
                   int count);
// Flags, lines of text. source, own: the submission and the lab's own program, each as written and
// preprocessed; ptx may be NULL.
json_t *flags_of(const struct source source[2], const struct source own[2], const char *ptx);
json_t *not_graded(const char *name, const char *why); // with nothing to grade

// The outcome for a submission; all but the first have no points.
enum status {
    STATUS_GRADED,
    STATUS_WRONG,   // it ran, but earned nothing
    STATUS_STOPPED, // stopped for its time or memory
    STATUS_NO_COMPILE,
    STATUS_REFUSED,    // refused for what its host code does
    STATUS_NOT_GRADED, // no readable source
};
enum status result_status(const json_t *result);

// Films the first fault of a submission, if there is one at a public shape on public inputs.
// Returns an object with "shape", "sentence" and "page"; or only "failed"; NULL: no fault.
json_t *film_of(struct submission *s);
// Takes the page out of a result and writes it, if there is a page and a path.
void film_take(json_t *result, const char *path);

struct speed {
    double ratio, low, high; // the reference's time over the submission's, with its 95 % interval
    double microseconds;     // median of a launch of the submission
    char *why;               // why there is no ratio, or NULL
    bool wrong;              // an output of a timed run was wrong
};
// Times a submission against the lab's own program on the GPU at hand.
void measure_speed(struct submission *s, const char *shape, struct speed *speed);

void feedback_human(const json_t *result, FILE *to);
json_t *feedback_gradescope(const json_t *result);
void check_visibility(void); // checks the option for this lab

// A run of a language model's program, on a model and a text of the seed.
struct model_run {
    json_t *report, *said; // the simulator's report, and the program's record; or NULL
    const json_t *checks;  // what was asked: "input", "pass", "rel_head", "how"
    char *fault;           // the simulator's first fault, or why nothing was computed; or NULL
    struct counts counts;  // of all launches together
};
// races: looks for races, too, each of which is a fault.
struct model_run model_run(struct submission *s, const char *shape, int seed, unsigned schedule,
                           bool races);
void model_run_free(struct model_run *r);

// A submission's source: the file itself, or the one in a folder with the ending of the lab's
// programs. NULL with one line in *why.
char *submission_source(const char *path, size_t *bytes, char **why);
bool ends_well(const char *name); // with the ending of the lab's programs, or in capitals, .CU
// What kind of file systems leave beside other files; NULL: no such file.
const char *litter(const char *name);

// One submission of a folder.
struct entry {
    char *file, *name; // as it lies in the folder; cleaned
    char *kept;        // where its result is kept
    char *source, *why;
    size_t bytes;
    json_t *result;
    json_t *earlier;        // with --item: its newest earlier result, or NULL
    double earlier_written; // seconds since 1970
    pid_t pid;              // the process that grades it now; -1: done
    int tries;              // processes that were killed
};

const char *grader_hash(void); // hash of the judge, and of what runs kernels for it
// Sets `kept`, once source or why are there.
void entry_keep(struct entry *e);
json_t *kept_result(const struct entry *e); // NULL: there is none
char *film_kept(const struct entry *e);     // beside its result: build/grade/kept/HASH.html
typedef void tell_entry(int ended, int count, const struct entry *e);
bool entry_grade(struct entry *e); // keeps the result; false: that cannot be written
void entry_finish(struct entry *e, int *ended, int count, tell_entry *tell); // takes its result
// Grades all that have no result yet, and reports each as it is finished.
void grade_entries(struct entry *entries, int count, tell_entry *tell);
int grade_folder(const char *path);

// Writes a ranking of the results that were timed, as a Markdown table; returns their number.
int write_board(FILE *to, const json_t *const results[], int count);
int print_board(char *const paths[], int count); // for results that --json wrote

void check_item(void); // checks the option for this lab
// Finds each entry's earlier result; returns how many have none, and are graded whole.
int find_earlier(struct entry *entries, int count);
// The earlier outcome of an item, if it stands: NULL for the item that is graded anew, and for an
// item whose limit has changed.
const json_t *earlier_item(const json_t *earlier, const char *name, const char *limit);
// The cases of what stands and of what was graded anew; for the caller to free.
json_t *joined_cases(const json_t *earlier, const json_t *anew);

void late_read(void);                                     // reads the options for late work
int late_days(const char *folder, const struct entry *e); // days, each begun day counted
double late_points(double score, int days);

// Whether two preprocessed programs differ only in layout, names and numbers.
bool reads_the_same(const struct source *plain, const struct source *other);
// The name of another chapter's program that a text is, for the caller to free; or NULL. Each text
// is given as it is and preprocessed: the submission's, the lab's own program, the starter.
char *book_program(const struct source given[2], const struct source own[2],
                   const struct source starter[2]);
// Writes the pairs that have much of their own text in common; returns their number.
int find_alike(const char *path, const struct entry *entries, int count);

// Grades all entries as a job array; fails unless all have a result then.
void slurm_grade(struct entry *entries, int count, tell_entry *tell);
int slurm_element(const char *folder); // on a node: grades one

// The test of a lab: 0, or 1 if something is not as the sheet says.
int check_lab(void);
// The test of all sheets, on the texts of options.pairs: 0, or 1 if an aim is earned by a text
// without its idea.
int check_pairs(void);

#endif
