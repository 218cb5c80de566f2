// judge.h: what the parts of the grader share.
//
//   texts.c     texts from submissions, made safe for reports, spreadsheets, files and hashes
//   options.c   the options; the keys from which inputs are drawn
//   lab.c       the sheet (labs/sheet/) of the lab that is graded
//   late.c      how much of its points a late submission keeps
//   sandbox.c   runs commands in boxes: bubblewrap, limits, allowed system calls
//   work.c      a submission's folder, and the time that it may take
//   kept.c      keeps what was compiled and recorded for the next time
//   cases.c     makes inputs from the secret seed; the reference; which answers are right
//   record.c    runs a submission's host code twice, to see how it launches its kernels
//   build.c     compiles a submission
//   talk.c      the judge's end of the pipe to the runner
//   film.c      films the first fault of a wrong submission, as a page to watch
//   used.c      whether what an aim counts was used
//   footprint.c the values of a sheet's resources, from what the runner has measured
//   search.c    runs programs that search, and counts the candidates that they ask for
//   model.c     a language model's program, with a submission's kernels in it
//   timing.c    the item that needs a GPU
//   flags.c     what a teacher may want to look at in a submission
//   alike.c     text shared by submissions, beyond the starter's and the book's; copied programs
//   regrade.c   grades one item again for a class
//   items.c     grades a submission, item by item; the result is JSON
//   feedback.c  writes a result for people and for Gradescope
//   board.c     the ranking by speed
//   sources.c   finds and reads a submission's source
//   entries.c   grades submissions in processes of their own, resumable
//   slurm.c     grades submissions on a cluster
//   folder.c    finds the submissions of a class; writes their results and the gradebook
//   check.c     tests a lab: grades its starter, solution and planted bugs
//   pairs.c     tests all sheets: what each program of the book earns for each lab's aims
//   main.c      one submission, a folder, or a test
//
//   gpu.c       part of the runner: a GPU's memory, launches and timing
//   spoil.c     part of the runner: spoils operations of a launch, and sees which outputs change
//   runner.c    the runner, a program of its own: runs kernels on inputs that come through a pipe
//   clock.c     a library: the clock that host code sees while it is recorded
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
//
// The judge trusts nothing that comes out of a box: it cuts and cleans texts, and checks numbers.
#ifndef JUDGE_H
#define JUDGE_H

#include "protocol.h" // first, since the workbench's declarations depend on the CUDA runtime's
                      // header

#include "../sheet/sheet.h"

#include <sha2.h> // libmd's SHA-256

enum { EXIT_GRADED = 0, SOURCE_BYTES_MAX = 1 << 20 };
#define RESULT_FORMAT (JSON_INDENT(2) | JSON_REAL_PRECISION(12))

struct options {
    int lab, jobs, threads;
    int wall; // seconds that a submission may take, by the clock; 0: the default
    const char *lab_file, *secret_file, *json, *gradescope, *out, *record;
    const char *deadline, *times; // as in --help; deadline NULL: no submission is late
    int late_days, penalty;       // free late days; percent for each further day, -1: not given
    const char *visibility;       // when Gradescope shows items: NAME=WHEN,...; or NULL
    const char *item;             // the item to be graded again; NULL: all items are graded

    bool unsafe, fresh, cpu_only, check, quick, slurm, board, no_film;
    const char *pairs; // a folder of programs that all sheets judge, or NULL
    bool one;          // whether the folder is a single submission
    const char *film;  // where a single submission's film is written, or NULL
    const char *partition, *time_limit, *gres; // Slurm's options
    uint8_t secret[SHA256_DIGEST_LENGTH];      // key made from the secret
    uint8_t seeds[SHA256_DIGEST_LENGTH];       // key for published seeds
};
extern struct options options;
// Whether submissions are timed: on this machine's GPU, or on GPUs that Slurm provides.
bool is_timed(void);
// Sets options.secret, from --secret, GRADE_SECRET or build/grade/secret, which is made if there is
// none; and options.seeds.
void secrets_read(void);

// ---- Texts --------------------------------------------------------------------------------------

// A text for a report, in which bytes that could mislead are replaced: control characters, except
// for newlines, and bytes that are not UTF-8 by \xHH; characters that disguise others, such as
// U+202E, by \u202e. For the caller to free.
char *cleaned(const char *line, size_t bytes);
char *clean_name(const char *name); // like cleaned(), for a name, which becomes one line
// Adds the number of bytes, and then the bytes, to a hash: so "ab" and "c" do not give the hash of
// "a" and "bc".
void hash_bytes(SHA2_CTX *hash, const void *bytes, size_t size);
void write_csv(FILE *to, const char *field); // by RFC 4180; a field is never taken for a formula
bool write_text(const char *path, const char *text);

// A text, which may contain any byte, and a NUL after it.
struct source {
    char *text;
    size_t bytes;
};
struct source source_of(const char *path); // a file of the book; text NULL: the file is missing

// ---- Sandbox ------------------------------------------------------------------------------------

enum box_kind { BOX_COMPILE, BOX_RECORD, BOX_RUN, BOX_MODEL };

struct box {
    enum box_kind kind;
    const char *folder; // private to this submission; inside the box it is /work, read-only
    bool gpu;           // BOX_RUN: whether the GPU's device files are in the box
    int cpu_seconds;    // limit for each process
    const char *clock;  // BOX_RECORD: the first time of the box's clock, in ns since 1970; or NULL
};

struct stream { // what a process wrote, up to a limit
    int fd;
    char *bytes;
    size_t size, limit;
    bool over;
};

struct boxed {
    int status;        // exit status; 128 + signal; or -1: stopped
    bool late, chatty; // late: the process exceeded its CPU time, or its time by the clock; chatty:
                       // it wrote too much
    double used;       // CPU seconds used; if the process was stopped, all that were allowed
    struct stream out, err, lines; // lines: from file descriptor 3; all three end with a NUL
};

// Paths inside the box: the submission's folder, the repository's files.
const char *box_work(const struct box *box);
const char *box_book(void);

// Whether this machine can run boxes; if not, *why says in one line what to do.
bool sandbox_works(char **why);

// Runs a command in a box until it ends, for at most `seconds` by the clock and `lines_limit` bytes
// of lines.
struct boxed box_run(const struct box *box, char *const argv[], double seconds, size_t lines_limit);
void boxed_free(struct boxed *boxed);

// Starts a command whose stdin and file descriptor 3 are pipes to the caller; its stdout and stderr
// are discarded.
pid_t box_start(const struct box *box, char *const argv[], int *to, int *from);
// Waits for a process to end, and kills it after 10 s; returns the CPU seconds that it used.
double box_stop(pid_t pid);

// ---- Building -----------------------------------------------------------------------------------

struct submission {
    const char *name;                       // the submission's name, cleaned for reports
    char *folder;                           // temporary, with the source and the compiled program
    char hash[SHA256_DIGEST_STRING_LENGTH]; // hash of the submission's source
    int lock;                               // file descriptor of the folder's lock
    int wall;                               // seconds that it may take, by the clock
    double end;                             // when its time ends, by now(); 0: never
    char *kept;                             // path under which the compiled files are kept
    json_t *records;                        // for each shape, what its host code answered
                                            // (record.c)
    double record_used;                     // CPU seconds that its host code, or its searches, used
    bool record_late;                       // whether its host code once did not end in time: then
                                            // it is run no more
    bool recorded;                          // whether there are new answers to be kept
    char *two_ways;                         // how two answers of its host code differed, or NULL
    char *ptx, *cubin;
    size_t ptx_bytes, cubin_bytes;
    char *problem; // why nothing can be run, or NULL
    char *details; // the compiler's messages
};

// HAND_OUT, the last command in a box, prints files to descriptor 3: for each file its size, a
// newline, its bytes. take_file sets *bytes to a copy of the next file's bytes, with a NUL after
// them, for the caller to free; false: there is no next file, or it is empty.
#define HAND_OUT(files) "for file in " files "; do stat -c %%s $file; cat $file; done >&3"
bool take_file(const struct stream *made, size_t *at, char **bytes, size_t *size);
// Writes a file into a submission's folder.
void write_work(const struct submission *s, const char *name, const char *bytes, size_t size,
                mode_t mode);

void submission_build(struct submission *s, const char *source, size_t bytes);

// Starts a time limit, by the clock, for all that is done with a submission: --wall, or a multiple
// of the CPU time that its kernels may use, longer if several processes share a core. It stops what
// neither computes nor ends.
void wall_begin(struct submission *s);
double wall_left(const struct submission *s, double most); // in seconds, at most `most`
bool wall_over(const struct submission *s);
char *wall_told(const struct submission *s); // a text that says that the time is over
void submission_free(struct submission *s);

// Makes a submission's folder, in /tmp. It is locked while it is in use; submission_tidy removes
// folders without a lock, which killed judges have left.
void work_make(struct submission *s);
void work_remove(struct submission *s);
void submission_tidy(void);

// Preprocesses sources, each to a text for the caller to free: macros are expanded, comments and
// included text removed, and a line "# NUMBER" says which source line follows. A source that cannot
// be preprocessed is copied unchanged.
void preprocess(const struct source sources[], struct source plain[], int count);

const char *kept_folder(void);                  // for results and compiled programs; only the owner
                                                // can open it
char *records_path(const struct submission *s); // beside the compiled files; for the caller to free
// The compiled files of a source: built_path is their path, for the caller to free; built_take
// reads them, if they are there and undamaged; built_keep stores them.
char *built_path(const char *source, size_t bytes);
char *plain_path(const struct source *source); // for the preprocessed text
bool plain_take(struct source *plain, const char *path);
void plain_keep(const struct source *plain, const char *path);
bool built_take(struct submission *s, const char *path);
void built_keep(const struct submission *s, const char *path);

// The places of codes (K's tokens, then V's) and of scales in a page: a program chooses their
// order, and nothing else.
struct places {
    int page;
    uint16_t *codes, *scales; // [2][page][HEAD_DIM], [2][page]
};

// How a submission's host code wants its kernels launched at a shape.
struct known_launches {
    struct shape shape;
    struct recorded launches[LAUNCHES_MAX];
    int count;
    struct places places; // for a cache; otherwise zeros
    uint64_t scratch;     // bytes of additional memory that the host code wants
    char *steps;          // the host code's operations on memory, as lines; to be freed; or NULL
    size_t steps_bytes;
};
// Finds out how a submission wants to be launched at a shape and, for a cache, how it wants the
// pages filled. False: it cannot be launched, and *why says in one line why.
bool submission_launches(struct submission *s, const struct shape *shape, struct known_launches *k,
                         char **why);
void records_free(struct submission *s); // if there are new answers, first writes them to a file
void launches_free(struct known_launches *k);

// ---- The runner ---------------------------------------------------------------------------------

enum { RUNNER_SECONDS = 300 }; // CPU seconds for all cases of a submission

struct runner {
    struct box box;
    pid_t pid; // 0: not started
    int to, from;
    double used; // CPU time, seconds
};

// Sends a request to a new runner process, so that nothing is left of earlier requests; only
// timings, on a GPU, share a process. seconds: CPU time. False: there is no reply, and *why says in
// one line why. *out: reply.bytes bytes, for the caller to free.
bool runner_ask(struct runner *r, const struct submission *s, const struct request *request,
                const void *parts[], const size_t sizes[], int part_count, int seconds,
                struct reply *reply, char **out, char **why);
double runner_end(struct runner *r); // returns the CPU seconds that it used

// ---- Cases --------------------------------------------------------------------------------------

#define SOFTMAX_SCALE                                                                              \
    0.125f // 1 / sqrt(HEAD_DIM), as in the book's programs; hidden cases have other scales

enum input { // three kinds of the workbench, and three of the grader
    GRADE_NORMAL,
    GRADE_MEAN,
    GRADE_PEAKY,
    GRADE_RISING, // the first query's scores grow with the key: each tile raises its maximum
    GRADE_FLAT,   // Q is zero: every key counts the same
    GRADE_OFFSET, // all scores are above 90: exp() overflows unless the maximum is subtracted
    GRADE_INPUTS
};

struct grade_case {
    struct shape shape;
    enum input input;
    uint64_t seed;
    struct problem problem;
    struct rows rows;
    float *ref;
    float *all_rows; // from the second implementation, if the reference leaves rows out; otherwise
                     // NULL
    struct error_limits limits; // how large an output's error may be
    char *inputs;               // as sent to the runner; for a cache, set by case_lay_out()
    struct cache_image image;   // for a cache, set by case_lay_out()
};

// secret_draw() returns 64 bits that depend on the secret, the current submission, and their
// purpose, which `format` names: what is drawn for one submission tells nothing about what is drawn
// for another, or for a changed version of it.
const char *secret_draw_for(const char *hash); // makes a submission current, by the hash of its
                                               // source; returns the hash of the one before
const char *secret_name(void);                 // a hash that names the secret, without revealing it
uint64_t secret_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
// 64 bits that depend on the secret and on their purpose, the same for all submissions.
uint64_t class_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
// 64 bits for what a report tells, such as a published seed: drawn as by secret_draw, but from the
// random bytes in build/grade/seeds, so that a report reveals nothing about the secret.
uint64_t public_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));
int secret_between(int least, int most, uint64_t drawn);
// A shape with about as much work as a public one, the same for all submissions, for the caller to
// free. It consists of whole tiles of 128 keys: one tile more or less than the public shape, or as
// many tiles and another number of heads; if the public shape has fewer than three tiles, three to
// six. For a cache, the number of keys is drawn, within a quarter of the public shape's. A copy of
// the public shape is returned if it is ragged, or is no cache's and not whole tiles.
char *drawn_like(const char *published);

void case_make(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
               uint64_t seed);
// Makes a case, with its own seed for each tensor.
enum tensor { TENSOR_Q, TENSOR_K, TENSOR_V, TENSORS };
void case_make_of(struct grade_case *c, const char *shape, float softmax_scale, enum input input,
                  const uint64_t seeds[TENSORS]);
// Sets of[] to the seeds of case i's tensors, taken from `seeds`. Case 0 differs from case 1 only
// in V, from case 2 only in K, from case 3 only in Q, and from later cases in all tensors.
enum { CASES_MIXED = 4 };
void mixed_seeds(int i, const uint64_t seeds[], uint64_t of[TENSORS]);
// Lays out a cache as a submission wants it. Slots without a token contain NaN or, if `stale`,
// bytes that look like a token.
void case_lay_out(struct grade_case *c, const struct places *places, bool stale);
void case_free(struct grade_case *c);
const char *input_name(enum input input);
// Whether an answer is right: the output, and for a cache also all of its bytes. If not, *why says
// so in one line. *error: the output's largest relative error in a head.
bool case_right(const struct grade_case *c, const char *answer, double *error, char **why);
// Says in one line how far, and where, an answer is wrong; for the caller to free.
char *case_how_wrong(const struct grade_case *c, const char *answer);

// ---- Labs ---------------------------------------------------------------------------------------

extern struct sheet sheet;
extern char sheet_hash[SHA256_DIGEST_STRING_LENGTH]; // hash of the sheet's file
// Hash of the sheet's file, the lab's program and its starter; with --pairs, of those of all labs
// in all_sheets.
extern char lab_hash[SHA256_DIGEST_STRING_LENGTH];
// The lab's program from "code", or its starter from "build/starters"; for the caller to free.
struct source of_the_lab(const struct sheet *s, const char *folder);
void hash_sheet(SHA2_CTX *hash, const struct sheet *s);
void lab_read(void); // reads the sheet of options.lab
enum { LABS_MAX = 32 };
extern struct sheet all_sheets[LABS_MAX]; // filled by labs_read(), for aims of several labs
extern int sheet_count;
// Reads the sheets of all graded labs with an aim, except for searches and language models; the
// first sheet becomes the current one.
void labs_read(void);

// ---- Searches -----------------------------------------------------------------------------------

struct searches {
    json_t *cases; // for the caller to free
    int median;    // median of the candidates asked for until the elite was found; REPLAY_MOST: it
                   // was not found
    bool late;     // whether a run did not end in time; then no other was started
};
// search_journal: runs the submission for children of some candidates, and for searches on the
// lab's journal. search_drawn: runs it for searches on landscapes drawn for this submission;
// `late`: whether an earlier run did not end in time; then none is run.
struct searches search_journal(struct submission *s);
struct searches search_drawn(struct submission *s, bool late);

// ---- Evidence (used.c) --------------------------------------------------------------------------

// Launches cases in turn in a new process; then launches the first of them again and again, with
// spoiled executions. Returns whether all launches without spoiled executions ended.
typedef bool launch_ablated(void *of, struct grade_case *cases, int count,
                            const struct experiment *experiment, struct reply *reply, char **out,
                            char **why);

struct use {
    bool known;       // whether use_of() has filled in the struct
    bool depends;     // whether the outputs change with Q, with K and with V
    double share;     // the share of executions that affect an output, 0 to 1
    double deviation; // standard deviation of `share`
    // Work of a launch: flops of products, bytes of copies that were read and depend on the inputs,
    // sectors of atomic operations.
    double work;
    double each;    // flops of the products, divided by the number of their instructions
    double overlap; // bytes of copies that affect outputs, under way on average (struct worked_on)
    struct worked_on worked_on;
    char *why; // why use was not measured: a launch did not end; or NULL
};
struct use use_of(enum spoils what, launch_ablated *launch, void *of);
// The work on operands that depend on the inputs: for each combination of Q, K and V
// (worked_on.work) at most as much as the lab's own program has, and in all at most `share` of the
// submission's work.
double work_in_common(const struct use *use, double share, const struct use *own);
// How much of a count affects outputs, as far as the lab's own program does such work, too.
// of_book: that program's count.
double used_as_by(enum spoils what, double count, double of_book, const struct use *use,
                  const struct use *own);
// *what: the operations to be spoiled in order to see whether what a counter or a resource counts
// is used; false: there are none.
bool spoils_for(const char *name, enum spoils *what);
// Whether a count decreases when a CTA takes more rows, whatever it does with them.
bool falls_with_tiles(const char *name);

// ---- Grading ------------------------------------------------------------------------------------

// The value of a sheet's resource (labs/sheet/resources.def); NaN: there is no such resource.
double resource_graded(const struct footprint *f, const char *name);

// earlier: with --item, the earlier result, from which the other items are taken; or NULL.
json_t *grade(const char *name, const char *source, size_t bytes, const json_t *earlier);
json_t *refused(const char *name, const char *why);
// What a program earns for the aims of several sheets: it is compiled once, and run once at each of
// their shapes.
json_t *grade_aims(const char *name, const char *source, size_t bytes, const struct sheet sheets[],
                   int count);
// Flags, as lines of text. source, own: the submission and the lab's own program, each unchanged
// and preprocessed; ptx may be NULL.
json_t *flags_of(const struct source source[2], const struct source own[2], const char *ptx);
json_t *not_graded(const char *name, const char *why); // a result without anything graded

// What became of a submission; all but the first status mean no points.
enum status {
    STATUS_GRADED,
    STATUS_WRONG,   // it ran, and earned nothing
    STATUS_STOPPED, // it exceeded its time or memory
    STATUS_NO_COMPILE,
    STATUS_REFUSED,    // refused, mostly for what its host code does
    STATUS_NOT_GRADED, // no readable source
};
enum status result_status(const json_t *result);

// Films the first fault of a submission at a public shape, on public inputs. Returns an object with
// "shape", "sentence" and "page", or the string "failed"; NULL: there is no fault.
json_t *film_of(struct submission *s);
// Removes the page from a result; first writes it to `path`, if there is a page and a path.
void film_take(json_t *result, const char *path);

struct speed {
    double ratio, low, high; // the time of the lab's program divided by the submission's, with its
                             // 95 % interval
    double microseconds;     // median of one launch of the submission
    char *why;               // why there is no ratio, or NULL
    bool wrong;              // whether an output of a timed run was wrong
};
// Times a submission against the lab's own program on this machine's GPU.
void measure_speed(struct submission *s, const char *shape, struct speed *speed);

void feedback_human(const json_t *result, FILE *to);
json_t *feedback_gradescope(const json_t *result);
void check_visibility(void); // fails if --visibility does not fit this lab

// A run of a language model's program, on a model and a text that it makes from the seed.
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

// A submission's source: the file itself, or the one file in a folder with the ending of the lab's
// programs. NULL: it cannot be read, and *why says why in one line.
char *submission_source(const char *path, size_t *bytes, char **why);
bool ends_well(const char *name); // whether it ends like the lab's programs, in any case: .cu, .CU
// The kind of a file that operating systems add to folders, by its name; NULL: it is another file.
const char *litter(const char *name);

// One submission of a folder.
struct entry {
    char *file, *name; // the file's name in the folder; the same, cleaned for reports
    char *kept;        // where the result is kept
    char *source, *why;
    size_t bytes;
    json_t *result;
    json_t *earlier;        // with --item: its latest earlier result, or NULL
    double earlier_written; // seconds since 1970
    pid_t pid;              // the process that is grading it; 0: none yet; -1: it has been graded
    int tries;              // how many of its processes were killed
};

const char *grader_hash(void); // hash of the judge, and of the programs that run kernels for it
// Sets e->kept, by a hash; e->source or e->why must have been set.
void entry_keep(struct entry *e);
json_t *kept_result(const struct entry *e); // NULL: none is kept
char *film_kept(const struct entry *e);     // build/grade/kept/HASH.html, beside its result
typedef void tell_entry(int ended, int count, const struct entry *e);
// Grades an entry and keeps the result; false: the result cannot be written.
bool entry_grade(struct entry *e);
// Takes the result of the process that has graded an entry.
void entry_finish(struct entry *e, int *ended, int count, tell_entry *tell);
// Grades all entries without a result, and reports each one that is finished.
void grade_entries(struct entry *entries, int count, tell_entry *tell);
int grade_folder(const char *path);

// Writes the ranking of the timed results as a Markdown table; returns the number of its rows.
int write_board(FILE *to, const json_t *const results[], int count);
int print_board(char *const paths[], int count); // prints the ranking of results that --json wrote

void check_item(void); // fails if --item does not fit this lab
// Finds each entry's earlier result. Returns how many have none: they are graded whole.
int find_earlier(struct entry *entries, int count);
// The earlier outcome of an item, if it still holds. NULL: the item is the one to be graded again,
// or its limit has changed.
const json_t *earlier_item(const json_t *earlier, const char *name, const char *limit);
// The earlier cases that still hold, and those graded again; for the caller to free.
json_t *joined_cases(const json_t *earlier, const json_t *anew);

void late_read(void); // reads the options about late work
// How many days late an entry came; a begun day counts as a whole one.
int late_days(const char *folder, const struct entry *e);
double late_points(double score, int days);

// Whether two preprocessed programs become the same tokens (alike.c): then they differ only in
// layout, names, numbers and texts in quotes.
bool reads_the_same(const struct source *plain, const struct source *other);
// The name of another chapter's program, if the text is that program; for the caller to free;
// otherwise NULL. Each text is given unchanged and preprocessed: the submission, the lab's own
// program, the starter.
char *book_program(const struct source given[2], const struct source own[2],
                   const struct source starter[2]);
// Writes the pairs of entries that share much of their own text; returns how many there are.
int find_alike(const char *path, const struct entry *entries, int count);

// Grades all entries as a job array; fails unless each has a result afterwards.
void slurm_grade(struct entry *entries, int count, tell_entry *tell);
int slurm_element(const char *folder); // on a node of the cluster: grades one entry

// Tests a lab; returns 0, or 1 if something is not as the sheet says.
int check_lab(void);
// Tests all sheets on the programs in options.pairs; returns 0, or 1 if a program earns an aim
// without having its idea, or has the idea and earns nothing.
int check_pairs(void);

#endif
