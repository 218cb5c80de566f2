// Tangled from chapters/14-autotune.md; edit that, then `make tangle`.

// Chapter 14: a search over the knobs of ch14_autotune.cu.
//
//   make tune          (build/ch14_search --help)
//
// Evolution with an elite of three, then every single change of the best.
// Every candidate is compiled. It is timed only if its machine code is new, it
// keeps the limits on resources, and its results are right. All results go into
// a journal, so that a search can be interrupted and resumed.

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workbench/workbench.h"

// ---- List the knobs and their values ----
enum {
    BLOCK_M, BLOCK_N, WARPS_N, STAGES, PRODUCERS, // sizes
    PERSISTENT, FAST_EXP, SWIZZLE,                // on or off
    KNOBS
};

static const struct {
    const char *name, *head; // the knob's name, and its heading in a report
    int count, values[4];
} space[KNOBS] = {
    {"block_m", "  m", 3, {32, 64, 128}},
    {"block_n", "  n", 4, {16, 32, 64, 128}},
    {"warps_n", "warps", 3, {1, 2, 4}},
    {"stages", "stages", 4, {1, 2, 3, 4}},
    {"producers", "prod", 4, {0, 1, 2, 4}},
    {"persistent", "pers", 2, {0, 1}},
    {"fast_exp", "fast", 2, {0, 1}},
    {"swizzle", "swiz", 2, {0, 1}},
};

// ---- Say what is known of a candidate ----
enum verdict { UNTRIED, UNBUILT, SAME, REFUSED, WRONG, TIMED, VERDICTS };

static const char *const verdicts[] = {"untried", "not built", "same",
                                       "refused", "wrong", "timed"};

enum { LINE = 160, NAME = 64, PATH = 256 }; // sizes of buffers, in bytes

struct candidate {
    int knob[KNOBS];
    int generation;
    enum verdict verdict;
    double score;    // in us, if timed: p50, or the simulator's floor
    char code[20];   // hash of the machine code
    char said[LINE]; // why it has no time, or which candidate it equals
};

enum { ELITE = 3, LITTER = 8, NEIGHBOURS = 24, MOST = 1000 };
enum { LAST = 9999 }; // generation number of the best candidate's neighbours

static struct candidate tried[MOST];
static int tried_count;

// ---- Keep the options ----
static struct {
    const char *shape, *folder, *elite, *on, *replay, *children;
    int budget, seed, iterations, jobs, occupancy;
    bool neighbours;
} options = {.shape = "mission", .folder = "build/tune", .budget = 48,
             .seed = 1, .iterations = 500, .jobs = 2, .neighbours = true};
static bool on_gpu;
static char machine[LINE]; // the GPU's name, or "the simulator"

// ---- Give up with one line ----
static void fail(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
static void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "ch14_search: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(status);
}

// Whether the kernel's static assertions hold, and a CTA has no more than 1024
// threads.
static bool valid(const int k[KNOBS])
{
    int warps = k[BLOCK_M] / 16 * k[WARPS_N];
    int loading = k[PRODUCERS] > 0 ? k[PRODUCERS] : warps;
    return k[BLOCK_N] % (16 * k[WARPS_N]) == 0 &&
           k[BLOCK_N] % (8 * loading) == 0 && warps + k[PRODUCERS] <= 32;
}

// ---- Name a candidate, its files, and what it says ----
static void knobs_text(const int k[KNOBS], char text[NAME])
{
    int at = 0;
    for (int i = 0; i < KNOBS; ++i)
        at += snprintf(text + at, NAME - (size_t)at, i ? "-%d" : "%d", k[i]);
}

// FOLDER/KNOBS is the program; the names of its other files add an ending.
static void file_of(const struct candidate *c, const char *ending,
                    char path[PATH])
{
    char knobs[NAME];
    knobs_text(c->knob, knobs);
    snprintf(path, PATH, "%s/%s%s", options.folder, knobs, ending);
}

// Makes a line of a program's output fit for the journal: ASCII alone.
static void plain_ascii(char *line)
{
    line[strcspn(line, "\n")] = 0;
    for (char *p = line; *p; ++p)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static struct candidate *find(const int k[KNOBS])
{
    for (int i = 0; i < tried_count; ++i)
        if (!memcmp(tried[i].knob, k, sizeof tried[i].knob))
            return &tried[i];
    return NULL;
}

// ---- Draw random numbers ----

// splitmix64 (Steele, Lea and Flood 2014). Each generation has a stream of
// its own, so that a resumed search draws what an uninterrupted one would.
static uint64_t state;

static int draw(int below)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int)((z ^ z >> 31) % (uint64_t)below);
}

// Runs a shell command, for ten minutes at most; returns its exit status, and
// in `line` the last line that it printed.
static int run(char line[LINE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int run(char line[LINE], const char *format, ...)
{
    char command[3 * PATH] = "timeout --foreground 600 ", text[512];
    size_t at = strlen(command), room = sizeof command - at;
    va_list args;
    va_start(args, format);
    size_t length = (size_t)vsnprintf(command + at, room, format, args);
    va_end(args);
    if (length + sizeof " 2>&1" > room)
        fail(3, "a command is too long: %s", command);
    FILE *pipe = popen(strcat(command, " 2>&1"), "r");
    if (!pipe)
        fail(3, "cannot run a shell: %s", strerror(errno));
    line[0] = 0;
    while (fgets(text, sizeof text, pipe))
        if (text[0] != '\n')
            snprintf(line, LINE, "%.*s", (int)strcspn(text, "\n"), text);
    int ended = pclose(pipe);
    int status = ended < 0 || ended & 127 ? 128 : ended >> 8 & 255;
    plain_ascii(line);
    if (status == 130 || (ended & 127) == SIGINT) // Ctrl-C was meant for us
        exit(130);
    if (status && !line[0])
        snprintf(line, LINE, "exit status %d", status);
    return status;
}

// ---- Keep a journal ----

// Its first line is about the search, each further line about a candidate.
static FILE *journal;

static void note(const struct candidate *c)
{
    char knobs[NAME];
    knobs_text(c->knob, knobs);
    json_t *line = json_pack(
        "{ss si ss sf ss ss}", "knobs", knobs, "generation", c->generation,
        "verdict", verdicts[c->verdict], "score", c->score, "code", c->code,
        "said", c->said);
    if (!line || json_dumpf(line, journal, 0) ||
        fputc('\n', journal) == EOF || fflush(journal))
        fail(3, "%s/journal.jsonl: cannot write it", options.folder);
    json_decref(line);
}

// ---- Read back what an interrupted search has found ----
static bool read_knobs(const char *text, int k[KNOBS])
{
    int end = 0;
    return sscanf(text, "%d-%d-%d-%d-%d-%d-%d-%d%n", &k[0], &k[1], &k[2],
                  &k[3], &k[4], &k[5], &k[6], &k[7], &end) == KNOBS &&
           !text[end];
}

static bool read_candidate(json_t *line, struct candidate *c)
{
    const char *knobs, *verdict, *code, *said;
    int *k = c->knob, v = UNTRIED;
    if (json_unpack(line, "{ss si ss sF ss ss}", "knobs", &knobs,
                    "generation", &c->generation, "verdict", &verdict,
                    "score", &c->score, "code", &code, "said", &said) ||
        !read_knobs(knobs, k))
        return false;
    while (v < VERDICTS && strcmp(verdict, verdicts[v]))
        ++v;
    c->verdict = (enum verdict)v;
    snprintf(c->code, sizeof c->code, "%s", code);
    snprintf(c->said, sizeof c->said, "%s", said);
    return v < VERDICTS && !find(k);
}

// Opens the journal, and reads the candidates in it. `head`, its first line,
// says which search it is of: kernel, machine, shape, seed and occupancy.
static void journal_open(const char *head)
{
    char path[PATH + 16], *text = NULL;
    size_t size = 0;
    long whole = 0; // bytes of complete lines; a last half line is cut off
    snprintf(path, sizeof path, "%s/journal.jsonl", options.folder);
    journal = fopen(path, "a+e");
    if (!journal)
        fail(3, "%s: %s", path, strerror(errno));
    if (flock(fileno(journal), LOCK_EX | LOCK_NB))
        fail(3, "another search is at work in %s", options.folder);
    rewind(journal);
    for (int n = 1; getline(&text, &size, journal) > 0; ++n) {
        char *end = strchr(text, '\n');
        if (!end)
            break;
        *end = 0;
        if (n == 1 && strcmp(text, head))
            fail(2, "%s is of another search (%s); remove it to start this "
                 "one", path, text);
        struct candidate c = {0};
        json_t *line = json_loads(text, 0, NULL);
        if (n > 1 && (tried_count == MOST || !read_candidate(line, &c)))
            fail(2, "%s:%d: not a line of a journal; remove the file to start "
                 "again", path, n);
        if (n > 1)
            tried[tried_count++] = c;
        json_decref(line);
        whole = ftell(journal);
    }
    free(text);
    if (ftruncate(fileno(journal), whole) || fseek(journal, 0, SEEK_END) ||
        (whole == 0 && fprintf(journal, "%s\n", head) < 0) || fflush(journal))
        fail(3, "%s: %s", path, strerror(errno));
}

// ---- Look up what was measured before ----
static struct candidate known[MOST]; // what the replayed journal says
static int known_count;

// Asks the program at the other end of stdin and stdout about a candidate.
static void ask(const char *knobs, struct candidate *answer)
{
    char *text = NULL;
    size_t size = 0;
    printf("ask %s\n", knobs);
    fflush(stdout);
    bool got = getline(&text, &size, stdin) > 0;
    json_t *line = got ? json_loads(text, 0, NULL) : NULL;
    if (!line || !read_candidate(line, answer))
        fail(1, "no answer to %s: the replay is over", knobs);
    json_decref(line);
    free(text);
}

// Takes what the journal or the other program says of a candidate, instead of
// judging it.
static void look_up(struct candidate *c)
{
    struct candidate answer = {.verdict = UNTRIED,
                               .said = "not in the journal"};
    char knobs[NAME];
    knobs_text(c->knob, knobs);
    if (!strcmp(options.replay, "-"))
        ask(knobs, &answer);
    for (int i = 0; i < known_count; ++i)
        if (!memcmp(known[i].knob, c->knob, sizeof c->knob))
            answer = known[i];
    c->verdict = answer.verdict;
    c->score = answer.score;
    memcpy(c->said, answer.said, sizeof c->said);
}

// The best candidates of all generations before this one, the best first;
// returns how many.
static int find_elite(int generation, struct candidate *elite[ELITE])
{
    int count = 0;
    for (int i = 0; i < tried_count; ++i) {
        struct candidate *c = &tried[i];
        if (c->verdict != TIMED || c->generation >= generation)
            continue;
        int at = count < ELITE ? count++ : ELITE;
        for (; at > 0 && c->score < elite[at - 1]->score; --at)
            if (at < ELITE)
                elite[at] = elite[at - 1];
        if (at < ELITE)
            elite[at] = c;
    }
    return count;
}

// ---- Has it become a program? ----
static bool built(struct candidate *c)
{
    char path[PATH];
    file_of(c, ".code", path);
    FILE *f = fopen(path, "r");
    bool good = f && fscanf(f, "%19s", c->code) == 1;
    if (f)
        fclose(f);
    file_of(c, ".error", path);
    if (!good && (f = fopen(path, "r"))) {
        if (!fgets(c->said, sizeof c->said, f))
            c->said[0] = 0;
        plain_ascii(c->said);
        fclose(f);
    }
    return good;
}

// ---- Is its machine code new? ----
static bool new_code(struct candidate *c)
{
    char other[NAME];
    for (int i = 0; i < tried_count; ++i)
        if (tried[i].code[0] && !strcmp(tried[i].code, c->code)) {
            knobs_text(tried[i].knob, other);
            snprintf(c->said, sizeof c->said, "as %s", other);
            return false;
        }
    return true;
}

// ---- Does it keep the limits? ----
static double number(json_t *json, const char *a, const char *b)
{
    json = json_object_get(json_object_get(json, a), b);
    return json_is_number(json) ? json_number_value(json) : NAN;
}

static bool within_limits(struct candidate *c)
{
    char path[PATH], program[PATH];
    file_of(c, "", program);
    file_of(c, ".json", path);
    json_t *r = NULL;
    if (!run(c->said, "%s --resources >%s", program, path))
        r = json_load_file(path, 0, NULL);
    double registers = number(r, "sm_89", "registers");
    double shared = number(r, "sm_89", "shared_bytes");
    double spilled = number(r, "sm_89", "local_bytes");
    double occupancy = 100 * number(r, "sm_89", "occupancy"); // percent
    // Add the local bytes of the kernel as this GPU runs it.
    spilled += json_number_value(json_object_get(r, "local_bytes"));
    json_decref(r);
    if (!(registers <= 120))
        snprintf(c->said, sizeof c->said, "%.0f registers", registers);
    else if (!(shared <= 65536))
        snprintf(c->said, sizeof c->said, "%.0f bytes shared", shared);
    else if (!(spilled <= 0))
        snprintf(c->said, sizeof c->said, "%.0f bytes spilled", spilled);
    else if (!(occupancy >= options.occupancy))
        snprintf(c->said, sizeof c->said, "%.0f %% occupancy", occupancy);
    else
        return true;
    return false;
}

// ---- Is it right? ----
static bool right(struct candidate *c)
{
    char program[PATH];
    file_of(c, "", program);
    return !run(c->said, "%s --shapes small,1x2x33,1x2x239,16x16x65 "
                "--seeds 0,1 --no-timing", program);
}

// ---- How fast is it? ----
static double time_of(const char *path)
{
    json_t *r = json_load_file(path, 0, NULL);
    json_t *shape = json_object_get(json_object_get(r, "shapes"),
                                    options.shape);
    double us = number(shape, "timing", "p50_us");
    json_decref(r);
    return us;
}

static double floor_of(const char *path)
{
    json_t *r = json_load_file(path, 0, NULL);
    json_t *k = json_array_get(json_object_get(r, "kernels"), 0);
    json_t *floors = json_object_get(k, "l4_floors_us");
    const char *binding = json_string_value(json_object_get(floors, "binding"));
    double us = binding ? number(k, "l4_floors_us", binding) : NAN;
    us /= json_number_value(json_object_get(k, "launches"));
    json_decref(r);
    return us;
}

static bool measured(struct candidate *c)
{
    char program[PATH], path[PATH];
    file_of(c, "", program);
    file_of(c, ".json", path);
    int status =
        on_gpu ? run(c->said, "%s --shapes %s --seeds 0 --inputs normal "
                     "--iters 50 --record %s", program, options.shape, path)
               : run(c->said, "env PTXSIM_REPORT=%s %s --shapes %s --seeds 0 "
                     "--inputs normal --no-timing", path, program,
                     options.shape);
    if (status)
        return false;
    c->score = on_gpu ? time_of(path) : floor_of(path);
    snprintf(c->said, sizeof c->said, "%s",
             isfinite(c->score) ? "" : "no score in its record");
    return isfinite(c->score);
}

// ---- Judge a candidate ----
static void judge(struct candidate *c)
{
    static const struct {
        bool (*good)(struct candidate *);
        enum verdict otherwise;
    } checks[] = {{built, UNBUILT}, {new_code, SAME}, {within_limits, REFUSED},
                  {right, WRONG},   {measured, WRONG}};
    c->verdict = TIMED;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; ++i)
        if (!checks[i].good(c)) {
            c->verdict = checks[i].otherwise;
            return;
        }
}

// ---- Make new candidates ----

// The programs of earlier chapters, as far as the knobs describe them.
static const int ancestors[][KNOBS] = {
    {32, 32, 2, 2, 0, 0, 0, 0}, {32, 32, 2, 2, 0, 0, 0, 1},
    {32, 32, 2, 3, 0, 0, 0, 1}, {32, 32, 2, 2, 0, 0, 1, 1},
    {32, 32, 2, 2, 0, 1, 0, 1}, {32, 32, 2, 2, 1, 0, 0, 1},
    {32, 32, 2, 2, 2, 0, 0, 1}, {32, 32, 2, 3, 2, 0, 0, 1},
};
_Static_assert(sizeof ancestors / sizeof *ancestors == LITTER, "a litter");

// Set one to three knobs anew
static void mutate(struct candidate *child)
{
    for (int changes = 1 + draw(3); changes > 0; --changes) {
        int k = draw(KNOBS);
        child->knob[k] = space[k].values[draw(space[k].count)];
    }
}

static bool in_litter(const struct candidate *litter, int count,
                      const int k[KNOBS])
{
    for (int i = 0; i < count; ++i)
        if (!memcmp(litter[i].knob, k, sizeof litter[i].knob))
            return true;
    return false;
}

// Fills the litter of a generation: always the same litter, even if a resumed
// search has tried a part of it before.
static int breed(int generation, struct candidate litter[LITTER])
{
    struct candidate *elite[ELITE];
    int parents = find_elite(generation, elite), count = 0;
    if (generation > 0 && parents == 0)
        fail(1, "no candidate of the first generation was right");
    state = (uint64_t)options.seed * 1000003 + (uint64_t)generation;
    for (int tries = 0; count < LITTER && tries < 10000; ++tries) {
        struct candidate child = {.generation = generation};
        if (generation == 0)
            memcpy(child.knob, ancestors[count], sizeof child.knob);
        else {
            memcpy(child.knob, elite[draw(parents)]->knob, sizeof child.knob);
            mutate(&child);
        }
        struct candidate *known = find(child.knob);
        if (valid(child.knob) && !in_litter(litter, count, child.knob) &&
            (!known || known->generation == generation))
            litter[count++] = child;
    }
    return count;
}

// ---- Change one knob of the best ----
static int neighbours_of(const struct candidate *best,
                         struct candidate litter[NEIGHBOURS])
{
    int count = 0;
    for (int k = 0; k < KNOBS; ++k)
        for (int v = 0; v < space[k].count; ++v) {
            struct candidate c = {.generation = LAST};
            memcpy(c.knob, best->knob, sizeof c.knob);
            c.knob[k] = space[k].values[v];
            if (c.knob[k] != best->knob[k] && valid(c.knob))
                litter[count++] = c;
        }
    return count;
}

// ---- Show what became of a candidate ----
static void report_head(void)
{
    printf("  tried");
    for (int k = 0; k < KNOBS; ++k)
        printf(" %s", space[k].head);
    printf("   %s\n", on_gpu ? "p50" : "floor on an L4, not a time");
}

// Prints a line of at most 80 columns about a candidate.
static void report(const struct candidate *c, int number)
{
    char text[2 * LINE], of[16] = "";
    struct candidate *elite[ELITE];
    if (c->generation < LAST)
        snprintf(of, sizeof of, "/%d", options.budget);
    printf("%3d%-4s", number, of);
    for (int k = 0; k < KNOBS; ++k)
        printf(" %*d", (int)strlen(space[k].head), c->knob[k]);
    if (c->verdict == TIMED)
        snprintf(text, sizeof text, "%7.2f us%s", c->score,
                 find_elite(INT_MAX, elite) && elite[0] == c ? "  best" : "");
    else
        snprintf(text, sizeof text, "%s%s%s", verdicts[c->verdict],
                 c->verdict == SAME ? " " : c->said[0] ? ": " : "", c->said);
    printf("  %.30s\n", text);
    fflush(stdout);
}

// ---- Compile candidates together ----
static void compile(const struct candidate *litter, int count)
{
    char command[PATH + 32], knobs[NAME];
    snprintf(command, sizeof command, "labs/candidates %s %d %d",
             options.folder, options.jobs, options.occupancy);
    fflush(stdout);
    FILE *pipe = popen(command, "w");
    for (int i = 0; pipe && i < count; ++i) {
        knobs_text(litter[i].knob, knobs);
        fprintf(pipe, "%s\n", knobs);
    }
    if (!pipe || pclose(pipe))
        fail(3, "%s failed", command);
}

// Tries the candidates of a litter that were not tried before, at most `most`
// of them; returns how many.
static int try_all(struct candidate *litter, int count, int most)
{
    int fresh = 0;

    // Leave out what was tried
    for (int i = 0; i < count && fresh < most; ++i)
        if (!find(litter[i].knob))
            litter[fresh++] = litter[i];

    if (fresh == 0 || tried_count + fresh > MOST)
        return 0;
    if (litter[0].generation == LAST)
        printf("one change of the best:\n");
    else
        printf("generation %d:\n", litter[0].generation);
    if (!options.replay)
        compile(litter, fresh);
    for (int i = 0; i < fresh; ++i) {
        if (options.replay) {
            look_up(&litter[i]);
        } else {
            judge(&litter[i]);
            note(&litter[i]);
        }
        tried[tried_count++] = litter[i];
        report(&tried[tried_count - 1], tried_count);
    }
    return fresh;
}

// Tries every single change of the best candidate; if one is better, then every
// single change of that one; and so on, until the best has no untried change.
static void search_around_best(void)
{
    struct candidate *elite[ELITE], litter[NEIGHBOURS];
    int fresh = 1;
    while (fresh && find_elite(INT_MAX, elite))
        fresh = try_all(litter, neighbours_of(elite[0], litter), INT_MAX);
}

// ---- Measure the elite again, longer ----
static json_t *knobs_json(const struct candidate *c)
{
    json_t *knobs = json_object();
    for (int k = 0; k < KNOBS; ++k)
        json_object_set_new(knobs, space[k].name, json_integer(c->knob[k]));
    return knobs;
}

// Runs a candidate again on the GPU, for its times at each shape and resources.
static void final_run(const struct candidate *c, json_t *said)
{
    char program[PATH], path[PATH], line[LINE];
    file_of(c, "", program);
    file_of(c, ".json", path);
    bool listed = strstr(" small mission long ", options.shape);
    if (access(program, X_OK)) // it is in the journal, but was not built here
        compile(c, 1);
    if (run(line, "%s --shapes small,mission,long%s%s --seeds 0,1,2 "
            "--iters %d --record %s", program, listed ? "" : ",",
            listed ? "" : options.shape, options.iterations, path))
        fail(1, "%s was right and is not any more: %s", program, line);
    json_t *record = json_load_file(path, 0, NULL), *times = json_object();
    json_t *shape;
    const char *name;
    json_object_foreach (json_object_get(record, "shapes"), name, shape)
        json_object_set(times, name, json_object_get(shape, "timing"));
    json_object_set_new(said, "timing", times);
    json_object_set(said, "resources", json_object_get(record, "resources"));
    json_decref(record);
}

// The elite, in the order of the last measurement.
static json_t *final_elite(void)
{
    struct candidate *elite[ELITE];
    int count = find_elite(INT_MAX, elite);
    json_t *best = json_array();
    double scores[ELITE];
    for (int i = 0; i < count; ++i) {
        char knobs[NAME];
        knobs_text(elite[i]->knob, knobs);
        json_t *said = json_pack(
            "{ss so si sf}", "knobs", knobs, "knob", knobs_json(elite[i]),
            "generation", elite[i]->generation, "score", elite[i]->score);
        if (on_gpu)
            final_run(elite[i], said);
        json_t *times = json_object_get(said, "timing");
        double score = on_gpu ? number(times, options.shape, "p50_us")
                              : elite[i]->score;
        int at = i;
        for (; at > 0 && score < scores[at - 1]; --at)
            scores[at] = scores[at - 1];
        scores[at] = score;
        json_array_insert_new(best, (size_t)at, said);
        printf("%-26s %7.2f us%s\n", knobs, score,
               on_gpu ? "" : ", floor on an L4");
    }
    return best;
}

// ---- Write the elite down ----

// Verdict and score of each single change of the best that was tried.
static json_t *changes_json(const struct candidate *best)
{
    json_t *all = json_array();
    struct candidate litter[NEIGHBOURS];
    for (int i = 0, count = neighbours_of(best, litter); i < count; ++i) {
        struct candidate *c = find(litter[i].knob);
        int k = 0;
        while (litter[i].knob[k] == best->knob[k])
            ++k;
        if (c)
            json_array_append_new(all, json_pack(
                "{ss si ss sf ss}", "knob", space[k].name, "value",
                c->knob[k], "verdict", verdicts[c->verdict], "score",
                c->score, "said", c->said));
    }
    return all;
}

static void write_elite(const char *path, const char *hash)
{
    struct candidate *elite[ELITE];
    if (find_elite(INT_MAX, elite) == 0)
        fail(1, "none of %d candidates was right", tried_count);
    json_t *verdict_counts = json_object();
    for (int v = UNBUILT; v < VERDICTS; ++v) {
        int count = 0;
        for (int i = 0; i < tried_count; ++i)
            count += tried[i].verdict == (enum verdict)v;
        json_object_set_new(verdict_counts, verdicts[v], json_integer(count));
    }
    char best[NAME], why[LINE];
    knobs_text(elite[0]->knob, best);
    json_t *result = json_pack(
        "{si ss s{ss} ss ss si si si si so so ss so}", "record", 1, "runtime",
        on_gpu ? "gpu" : "simulator", "source_hashes", "ch14_autotune.any",
        hash, "shape", options.shape, "on", machine, "seed", options.seed,
        "occupancy", options.occupancy, "budget", options.budget, "tried",
        tried_count, "verdicts", verdict_counts, "elite", final_elite(),
        "changes_of", best, "changes", changes_json(elite[0]));
    char *text = json_dumps(result, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    if (!text || !file_write(path, text, strlen(text), why, sizeof why))
        fail(3, "%s", text ? why : "no memory");
    free(text);
    json_decref(result);
    printf("the elite is in %s\n", path);
}

// ---- Replay a journal ----
static void load_known(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(options.replay, "r");
    if (!file)
        fail(2, "--replay %s: %s", options.replay, strerror(errno));
    for (int n = 1; getline(&text, &size, file) > 0; ++n) {
        const char *shape, *on;
        json_t *line = json_loads(text, 0, NULL);
        bool good =
            n == 1 ? !json_unpack(line, "{ss ss}", "search", &shape, "on", &on)
                   : known_count < MOST &&
                         read_candidate(line, &known[known_count++]);
        if (!good)
            fail(2, "%s:%d: not a line of a journal", options.replay, n);
        if (n == 1) {
            options.shape = strdup(shape);
            snprintf(machine, sizeof machine, "%s", on);
        }
        json_decref(line);
    }
    if (!machine[0])
        fail(2, "%s: an empty journal", options.replay);
    free(text);
    fclose(file);
}

static const char *start_replay(void)
{
    if (strcmp(options.replay, "-"))
        load_known();
    on_gpu = strcmp(machine, "the simulator");
    if (machine[0])
        printf("%s on %s, replayed", options.shape, machine);
    else
        printf("asking");
    printf("; seed %d, %d candidates\n", options.seed, options.budget);
    report_head();
    return NULL;
}

static void report_replay(void)
{
    struct candidate *elite[ELITE];
    int missing = 0;
    char best[NAME];
    for (int i = 0; i < tried_count; ++i)
        missing += tried[i].verdict == UNTRIED;
    if (find_elite(INT_MAX, elite) == 0)
        fail(1, "none of %d candidates has a time", tried_count);
    knobs_text(elite[0]->knob, best);
    printf("best: %s, %.2f us; %d asked for, %d not in the journal\n",
           best, elite[0]->score, tried_count, missing);
}

// Prints what mutate() makes of a candidate, one child a line.
static int show_children(void)
{
    enum { CHILDREN = 500 };
    int parent[KNOBS];
    char knobs[NAME];
    if (!read_knobs(options.children, parent))
        fail(2, "--children: knobs as in 32-32-2-2-0-0-0-1, not '%s'",
             options.children);
    state = (uint64_t)options.seed * 1000003;
    for (int i = 0; i < CHILDREN; ++i) {
        struct candidate child = {.generation = 1};
        memcpy(child.knob, parent, sizeof child.knob);
        mutate(&child);
        knobs_text(child.knob, knobs);
        printf("child %s\n", knobs);
    }
    return 0;
}

// ---- Read the options ----
static void help(void)
{
    printf(
        "usage: build/ch14_search [option ...]\n"
        "Searches the knobs of code/ch14_autotune.cu for the fastest kernel.\n"
        "On a GPU by measured time; in the simulator by the L4's floor.\n\n"
        "  --shape NAME     what to be fast at                    (mission)\n"
        "  --budget N       candidates to try                     (48)\n"
        "  --no-neighbours  not, at last, each change of the best\n"
        "  --occupancy N    least percent of an L4's warps        (0)\n"
        "  --seed N         of the random choices                 (1)\n"
        "  --iters N        timed runs of each of the elite, last (500)\n"
        "  --jobs N         compilers at a time                   (2)\n"
        "  --on WHERE       gpu or simulator       (a GPU if there is one)\n"
        "  --folder DIR     candidates and the journal        (build/tune)\n"
        "  --elite FILE     where the best three go  (DIR/elite.json)\n"
        "  --replay JOURNAL no compiler, no GPU: the journal answers. -: one\n"
        "                   who reads `ask KNOBS` and writes a journal's line\n"
        "  --children KNOBS shows what mutate makes of a candidate\n\n"
        "A candidate is named after its knobs, which are in this order:\n");
    for (int k = 0; k < KNOBS; ++k) {
        printf("  %-10s", space[k].name);
        for (int v = 0; v < space[k].count; ++v)
            printf("%s%d", v ? ", " : "  ", space[k].values[v]);
        printf("\n");
    }
    printf("\nInterrupt it when you like: the same command goes on.\n");
}

static int integer(const char *option, const char *text, int least, int most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || end == text || n < least || n > most)
        fail(2, "--%s: a number from %d to %d, not '%s'", option, least, most,
             text);
    return (int)n;
}

// Returns `text` if it is safe in a shell command; else ends the program.
static const char *plain(const char *option, const char *text)
{
    for (const char *p = text; *p; ++p)
        if (!strchr("/._-", *p) && !isalnum((unsigned char)*p))
            fail(2, "--%s: letters, digits and /._- only", option);
    if (!text[0] || text[0] == '-' || strlen(text) > 128)
        fail(2, "--%s: a name of 1 to 128 characters", option);
    return text;
}

static void read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"shape", 1, 0, 's'}, {"budget", 1, 0, 'b'}, {"seed", 1, 0, 'r'},
        {"iters", 1, 0, 'i'}, {"jobs", 1, 0, 'j'},   {"folder", 1, 0, 'f'},
        {"elite", 1, 0, 'e'}, {"on", 1, 0, 'o'},     {"help", 0, 0, 'h'},
        {"replay", 1, 0, 'p'},      {"children", 1, 0, 'c'},
        {"occupancy", 1, 0, 'w'},   {"no-neighbours", 0, 0, 'n'},
        {0, 0, 0, 0}};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;)
        switch (o) {
        case 's': options.shape = plain("shape", optarg); break;
        case 'w':
            options.occupancy = integer("occupancy", optarg, 0, 100);
            break;
        case 'b': options.budget = integer("budget", optarg, 1, 900); break;
        case 'r': options.seed = integer("seed", optarg, 1, 1 << 30); break;
        case 'i': options.iterations = integer("iters", optarg, 1, 9999); break;
        case 'j': options.jobs = integer("jobs", optarg, 1, 256); break;
        case 'f': options.folder = plain("folder", optarg); break;
        case 'e': options.elite = optarg; break;
        case 'o': options.on = optarg; break;
        case 'p': options.replay = optarg; break;
        case 'c': options.children = optarg; break;
        case 'n': options.neighbours = false; break;
        case 'h': help(); exit(0);
        default: exit(2);
        }
    if (optind < argc)
        fail(2, "'%s' is not an option; see --help", argv[optind]);
}

// ---- Find the machine and open the journal ----

// Finds where the search runs: sets `machine` and `on_gpu`.
static void find_machine(void)
{
    bool simulate = options.on && !strcmp(options.on, "simulator");
    if (options.on && !simulate && strcmp(options.on, "gpu"))
        fail(2, "--on: gpu or simulator, not '%s'", options.on);
    on_gpu = !simulate && !run(machine, "nvidia-smi --query-gpu=name "
                                        "--format=csv,noheader");
    if (!on_gpu && options.on && !simulate)
        fail(3, "--on gpu: nvidia-smi finds none here");
    if (!on_gpu) {
        snprintf(machine, sizeof machine, "the simulator");
        setenv("LD_LIBRARY_PATH", "build/ptxsim", 1);
    }
}

// Opens the journal; returns the kernel's hash, and in `elite` the name of the
// file that the elite is written to.
static const char *start(char elite[PATH])
{
    static char hash[LINE];
    char why[LINE], head[2 * PATH + LINE];
    struct shape shape;
    if (!shape_parse(options.shape, &shape, why, sizeof why))
        fail(2, "--shape: %s", why);
    signal(SIGPIPE, SIG_IGN); // if labs/candidates ends, it says why itself
    find_machine();
    if (run(hash, "sed -n 's/^ch14_autotune.any\\t//p' build/hashes.tsv") ||
        !hash[0])
        fail(3, "build/hashes.tsv does not know the kernel: make chapter14");
    if (mkdir(options.folder, 0777) && errno != EEXIST)
        fail(3, "%s: %s", options.folder, strerror(errno));
    snprintf(elite, PATH, "%s/elite.json", options.folder);
    if (options.elite && strlen(options.elite) >= PATH)
        fail(2, "--elite: a name of at most %d characters", PATH - 1);
    if (options.elite)
        strcpy(elite, options.elite);
    char folder[PATH];
    strcpy(folder, elite);
    if (access(dirname(folder), W_OK)) // say so now, not after the search
        fail(3, "%s: cannot write there", elite);
    snprintf(head, sizeof head,
             "{\"search\": \"%s\", \"on\": \"%s\", \"seed\": %d, "
             "\"occupancy\": %d, \"kernel\": \"%.16s\"}",
             options.shape, machine, options.seed, options.occupancy, hash);
    journal_open(head);
    printf("%s on %s, seed %d, %d candidates", options.shape, machine,
           options.seed, options.budget);
    if (tried_count)
        printf("; going on after %d", tried_count);
    printf("\n");
    report_head();
    return hash;
}

// ---- Search ----

// How many candidates count towards the budget.
static int spent(void)
{
    int count = 0;
    for (int i = 0; i < tried_count; ++i)
        count += tried[i].generation < LAST;
    return count;
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    if (options.children)
        return show_children();
    char elite_path[PATH];
    const char *hash = options.replay ? start_replay() : start(elite_path);
    for (int g = 0, count; spent() < options.budget; ++g) {
        struct candidate litter[LITTER];
        if ((count = breed(g, litter)) == 0)
            break; // nothing left to try
        try_all(litter, count, options.budget - spent());
    }
    if (options.neighbours)
        search_around_best();
    if (options.replay)
        report_replay();
    else
        write_elite(elite_path, hash);
    return 0;
}
