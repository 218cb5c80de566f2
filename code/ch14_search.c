// Tangled from chapters/14-autotune.md; edit that, then `make tangle`.

// Chapter 14: a search over the knobs of ch14_autotune.cu.
//
//   make tune          (build/ch14_search --help)
//
// Evolution with an elite of three. Every candidate is compiled, then has to
// keep the limits on resources, then has to be right, and only then is timed.
// What was learned goes into a journal, so that a search can be interrupted.
// ---- Include JSON and the system ----
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    const char *name;
    int count, values[4];
} space[KNOBS] = {
    {"block_m", 3, {32, 64, 128}},  {"block_n", 4, {16, 32, 64, 128}},
    {"warps_n", 3, {1, 2, 4}},      {"stages", 4, {1, 2, 3, 4}},
    {"producers", 4, {0, 1, 2, 4}}, {"persistent", 2, {0, 1}},
    {"fast_exp", 2, {0, 1}},        {"swizzle", 2, {0, 1}},
};

// ---- Say what is known of a candidate ----
enum verdict { UNTRIED, UNBUILT, SAME, REFUSED, WRONG, TIMED };

static const char *const verdicts[] = {"untried", "does not compile",
                                       "same code", "refused", "wrong",
                                       "timed"};

struct candidate {
    int knob[KNOBS];
    int generation;
    enum verdict verdict;
    double score;   // p50 in us, or the simulator's floor; if timed
    char code[20];  // hash of the machine code
    char said[160]; // why it was refused, what it is the same as
};

enum { ELITE = 3, LITTER = 8, MOST = 1000 };

static struct candidate tried[MOST];
static int tried_count;

// ---- Keep the options ----
static struct {
    const char *shape, *folder, *elite;
    int budget, seed, iterations, jobs;
} options = {"mission", "build/tune", "", 48, 1, 500, 2};
static bool on_gpu;

// ---- Tell which knobs go together ----
// The static assertions of the kernel, and the launch limit of 1024 threads.
static bool valid(const int k[KNOBS])
{
    int warps = k[BLOCK_M] / 16 * k[WARPS_N] + k[PRODUCERS];
    return k[BLOCK_N] % (16 * k[WARPS_N]) == 0 && warps <= 32 &&
           (k[PRODUCERS] > 0 || k[STAGES] > 1) &&
           (k[PRODUCERS] == 0 || k[BLOCK_N] % (8 * k[PRODUCERS]) == 0);
}

static void knobs_text(const int k[KNOBS], char text[64])
{
    int at = 0;
    for (int i = 0; i < KNOBS; ++i)
        at += snprintf(text + at, 64 - (size_t)at, i ? "-%d" : "%d", k[i]);
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
// its own, so that a search that goes on draws what it would have drawn.
static uint64_t state;

static int draw(int below)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int)((z ^ z >> 31) % (uint64_t)below);
}

// ---- Run a command ----
static void fail(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
static void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "ch14_search: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(status);
}

// The exit status of a shell command, its last line of output in `line`.
// Names come from us, so nothing needs quoting.
static int run(char line[160], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int run(char line[160], const char *format, ...)
{
    char command[512], text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(command, sizeof command - 6, format, args);
    va_end(args);
    if (length >= (int)sizeof command - 6)
        fail(3, "a command is too long: %s", command);
    FILE *pipe = popen(strcat(command, " 2>&1"), "r");
    if (!pipe)
        fail(3, "cannot run a shell: %s", strerror(errno));
    line[0] = 0;
    while (fgets(text, sizeof text, pipe)) {
        text[strcspn(text, "\n")] = 0;
        if (text[0])
            snprintf(line, 160, "%.159s", text);
    }
    int status = pclose(pipe);
    return status < 0 || status & 127 ? 128 : status >> 8 & 255;
}

// ---- Keep a journal ----
// A line for the search itself, then one for each candidate, written when it
// is judged. What a search that was interrupted has found is read back.
static FILE *journal;

static void note(const struct candidate *c)
{
    char knobs[64];
    knobs_text(c->knob, knobs);
    fprintf(journal, "{\"knobs\": \"%s\", \"generation\": %d, \"verdict\": %d, "
            "\"score\": %.4f, \"code\": \"%s\", \"said\": \"%s\"}\n",
            knobs, c->generation, c->verdict, c->score, c->code, c->said);
    fflush(journal);
}

static void journal_line(json_t *line, const char *path, int number)
{
    struct candidate c = {0};
    const char *knobs = "", *code = "", *said = "";
    int verdict = 0;
    if (json_unpack(line, "{ss si si sF ss ss}", "knobs", &knobs,
                    "generation", &c.generation, "verdict", &verdict, "score",
                    &c.score, "code", &code, "said", &said) ||
        sscanf(knobs, "%d-%d-%d-%d-%d-%d-%d-%d", &c.knob[0], &c.knob[1],
               &c.knob[2], &c.knob[3], &c.knob[4], &c.knob[5], &c.knob[6],
               &c.knob[7]) != KNOBS ||
        verdict < UNBUILT || verdict > TIMED || tried_count == MOST)
        fail(2, "%s:%d: not a line of a journal; remove the file to start "
                "again", path, number);
    c.verdict = (enum verdict)verdict;
    snprintf(c.code, sizeof c.code, "%s", code);
    snprintf(c.said, sizeof c.said, "%s", said);
    tried[tried_count++] = c;
}

// `head` says which search this is: kernel, machine, shape and seed.
static void journal_open(const char *head)
{
    char path[256], *text = NULL;
    snprintf(path, sizeof path, "%s/journal.jsonl", options.folder);
    size_t size = 0;
    FILE *old = fopen(path, "r");
    long whole = 0; // bytes of complete lines: the last may be half a line
    for (int n = 1; old && getline(&text, &size, old) > 0; ++n) {
        if (!strchr(text, '\n'))
            break;
        whole = ftell(old);
        json_t *line = json_loads(text, 0, NULL);
        if (n > 1)
            journal_line(line, path, n);
        else if (text[strcspn(text, "\n")] = 0, strcmp(text, head))
            fail(2, "%s is of another search (%s); remove it to start this "
                    "one", path, text);
        json_decref(line);
    }
    free(text);
    if (old)
        fclose(old);
    journal = fopen(path, old ? "r+" : "w");
    if (!journal || (old && ftruncate(fileno(journal), whole)) ||
        fseek(journal, 0, SEEK_END))
        fail(3, "%s: %s", path, strerror(errno));
    if (whole == 0)
        fprintf(journal, "%s\n", head);
}

// ---- Find the best three ----
// The best of the generations before this one, best first.
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

// ---- Judge a candidate: limits, then correctness, then speed ----
static double number(json_t *json, const char *a, const char *b)
{
    json = json_object_get(json_object_get(json, a), b);
    return json_is_number(json) ? json_number_value(json) : NAN;
}

static bool within_limits(struct candidate *c, const char *path)
{
    char line[160];
    int status = run(line, "%s --resources >%s.json", path, path);
    char file[300];
    snprintf(file, sizeof file, "%s.json", path);
    json_t *r = status ? NULL : json_load_file(file, 0, NULL);
    double registers = number(r, "sm_89", "registers");
    double shared = number(r, "sm_89", "shared_bytes");
    double local = number(r, "sm_89", "local_bytes");
    double here = json_number_value(json_object_get(r, "local_bytes"));
    json_decref(r);
    bool good = registers <= 128 && shared <= 65536 && local == 0 && here == 0;
    if (!good)
        snprintf(c->said, sizeof c->said,
                 "%.0f registers, %.0f bytes shared, %.0f spilled", registers,
                 shared, local + here);
    return good;
}

static double floor_of(const char *report)
{
    json_t *r = json_load_file(report, 0, NULL);
    json_t *k = json_array_get(json_object_get(r, "kernels"), 0);
    json_t *floors = json_object_get(k, "l4_floors_us");
    const char *binding = json_string_value(json_object_get(floors, "binding"));
    double us = binding ? number(k, "l4_floors_us", binding) : NAN;
    us /= json_number_value(json_object_get(k, "launches"));
    json_decref(r);
    return us;
}

static void judge(struct candidate *c, const char *path)
{
    char other[64];
    for (int i = 0; i < tried_count; ++i)
        if (tried[i].code[0] && !strcmp(tried[i].code, c->code)) {
            c->verdict = SAME;
            knobs_text(tried[i].knob, other);
            snprintf(c->said, sizeof c->said, "as %s", other);
            return;
        }
    c->verdict = REFUSED;
    if (!within_limits(c, path))
        return;
    c->verdict = WRONG;
    if (run(c->said, "%s --shapes small,1x2x33,1x2x239 --seeds 0,1 --no-timing",
            path))
        return;
    if (on_gpu) {
        if (run(c->said, "%s --shapes %s --seeds 0 --inputs normal --iters 50 "
                "--record %s.json", path, options.shape, path))
            return;
        char file[300];
        snprintf(file, sizeof file, "%s.json", path);
        json_t *record = json_load_file(file, 0, NULL);
        json_t *shapes = json_object_get(record, "shapes");
        c->score = number(json_object_get(shapes, options.shape), "timing",
                          "p50_us");
        json_decref(record);
    } else {
        if (run(c->said, "PTXSIM_REPORT=%s.json %s --shapes %s --seeds 0 "
                "--inputs normal --no-timing", path, path, options.shape))
            return;
        char file[300];
        snprintf(file, sizeof file, "%s.json", path);
        c->score = floor_of(file);
    }
    c->said[0] = 0;
    c->verdict = isfinite(c->score) ? TIMED : WRONG;
}

// ---- Make new candidates ----
static bool in_litter(const struct candidate *litter, int count,
                      const int k[KNOBS])
{
    for (int i = 0; i < count; ++i)
        if (!memcmp(litter[i].knob, k, sizeof litter[i].knob))
            return true;
    return false;
}

// Generation 0: the stages of the chapters before, as far as they are knobs.
static const int ancestors[][KNOBS] = {
    {32, 32, 2, 2, 0, 0, 0, 0}, {32, 32, 2, 2, 0, 0, 0, 1},
    {32, 32, 2, 3, 0, 0, 0, 1}, {32, 32, 2, 2, 0, 0, 1, 1},
    {32, 32, 2, 2, 0, 1, 0, 1}, {32, 32, 2, 2, 1, 0, 0, 1},
    {32, 32, 2, 2, 2, 0, 0, 1}, {32, 32, 2, 3, 2, 0, 0, 1},
};

static int breed(int generation, struct candidate litter[LITTER])
{
    struct candidate *elite[ELITE];
    int parents = find_elite(generation, elite), count = 0;
    state = (uint64_t)options.seed * 1000003 + (uint64_t)generation;
    for (int tries = 0; count < LITTER && tries < 10000; ++tries) {
        struct candidate child = {.generation = generation};
        if (generation == 0) {
            if (tries == sizeof ancestors / sizeof *ancestors)
                break;
            memcpy(child.knob, ancestors[tries], sizeof child.knob);
        } else {
            if (!parents)
                fail(1, "no candidate of the first generation was right");
            memcpy(child.knob, elite[draw(parents)]->knob, sizeof child.knob);
            for (int changes = 1 + draw(3); changes > 0; --changes) {
                int k = draw(KNOBS);
                child.knob[k] = space[k].values[draw(space[k].count)];
            }
        }
        struct candidate *known = find(child.knob);
        if (valid(child.knob) && !in_litter(litter, count, child.knob) &&
            (!known || known->generation == generation))
            litter[count++] = child;
    }
    return count;
}

// ---- Compile a generation together, judge it one by one ----
static void report(const struct candidate *c, int number)
{
    char knobs[64];
    knobs_text(c->knob, knobs);
    if (c->verdict == TIMED)
        printf("%4d  %-24s %10.2f us%s\n", number, knobs, c->score,
               on_gpu ? "" : " (floor on an L4, not a time)");
    else
        printf("%4d  %-24s %s%s%s\n", number, knobs, verdicts[c->verdict],
               c->said[0] ? ": " : "", c->said);
    fflush(stdout);
}

// ---- Compile what has not been tried ----
static void compile(const struct candidate *litter, int count)
{
    char command[300], knobs[64];
    snprintf(command, sizeof command, "labs/candidates %s %d", options.folder,
             options.jobs);
    FILE *pipe = popen(command, "w");
    for (int i = 0; pipe && i < count; ++i)
        if (!find(litter[i].knob)) {
            knobs_text(litter[i].knob, knobs);
            fprintf(pipe, "%s\n", knobs);
        }
    if (!pipe || pclose(pipe))
        fail(3, "%s failed", command);
}

// Whether the candidate has become a program, at `path`.
static bool built(struct candidate *c, char path[200])
{
    char knobs[64], file[220];
    knobs_text(c->knob, knobs);
    snprintf(path, 200, "%s/%s", options.folder, knobs);
    snprintf(file, sizeof file, "%s.code", path);
    FILE *f = fopen(file, "r");
    bool good = f && fscanf(f, "%19s", c->code) == 1;
    if (f)
        fclose(f);
    snprintf(file, sizeof file, "%s.error", path);
    if (!good && (f = fopen(file, "r"))) {
        if (!fgets(c->said, sizeof c->said, f))
            c->said[0] = 0;
        c->said[strcspn(c->said, "\n")] = 0;
        fclose(f);
    }
    return good;
}

// False when there is nothing left to try.
static bool run_generation(int generation)
{
    struct candidate litter[LITTER];
    int count = breed(generation, litter);
    if (count == 0)
        return false;
    compile(litter, count);
    for (int i = 0; i < count; ++i) {
        if (find(litter[i].knob))
            continue; // an interrupted search had come this far
        if (tried_count == options.budget || tried_count == MOST)
            return false;
        struct candidate *c = &litter[i];
        char path[200];
        c->verdict = built(c, path) ? TIMED : UNBUILT;
        if (c->verdict == TIMED)
            judge(c, path);
        note(c);
        tried[tried_count++] = *c;
        report(c, tried_count);
    }
    return tried_count < options.budget;
}

// ---- Measure the elite again, longer ----
static json_t *final_run(const struct candidate *c)
{
    char knobs[64], path[200], file[220], line[160];
    knobs_text(c->knob, knobs);
    snprintf(path, sizeof path, "%s/%s", options.folder, knobs);
    snprintf(file, sizeof file, "%s.json", path);
    if (run(line, "%s --shapes small,mission,long --seeds 0,1,2 --iters %d "
            "--record %s", path, options.iterations, file))
        fail(1, "%s was right and is not any more: %s", knobs, line);
    json_t *record = json_load_file(file, 0, NULL);
    json_t *shapes = json_object_get(record, "shapes"), *times = json_object();
    const char *name;
    json_t *shape;
    json_object_foreach (shapes, name, shape)
        json_object_set(times, name, json_object_get(shape, "timing"));
    json_t *said = json_pack(
        "{ss si so sO}", "knobs", knobs, "generation", c->generation,
        "timing", times, "resources", json_object_get(record, "resources"));
    json_decref(record);
    return said;
}

// ---- Tell which kernel is searched, and what the simulator counts ----
// The hash of today's kernel, of build/hashes.tsv.
static const char *kernel_hash(void)
{
    static char hash[160];
    if (run(hash, "grep ^ch14_autotune build/hashes.tsv | cut -f2") || !hash[0])
        fail(3, "build/hashes.tsv is missing: make chapter14");
    return hash;
}

// Without a GPU there are no times to take again.
static json_t *final_count(const struct candidate *c)
{
    char knobs[64];
    knobs_text(c->knob, knobs);
    return json_pack("{ss si sf}", "knobs", knobs, "generation",
                     c->generation, "l4_floor_us", c->score);
}

// ---- Search ----
static void help(void)
{
    printf(
        "usage: build/ch14_search [option ...]\n"
        "Searches the knobs of code/ch14_autotune.cu for the fastest kernel.\n"
        "On a GPU by measured time; in the simulator by the L4's floor.\n\n"
        "  --shape NAME    what to be fast at                     (mission)\n"
        "  --budget N      candidates to try                      (48)\n"
        "  --seed N        of the random choices                  (1)\n"
        "  --iters N       timed runs of each of the elite, last  (500)\n"
        "  --jobs N        compilers at a time                    (2)\n"
        "  --folder DIR    candidates and the journal        (build/tune)\n"
        "  --elite FILE    where the best three go  (DIR/elite.json)\n\n"
        "Interrupt it when you like: the same command goes on.\n");
}

static int positive(const char *option, const char *text, int most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || end == text || n < 1 || n > most)
        fail(2, "--%s: a number from 1 to %d, not '%s'", option, most, text);
    return (int)n;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"shape", 1, 0, 's'}, {"budget", 1, 0, 'b'}, {"seed", 1, 0, 'r'},
        {"iters", 1, 0, 'i'}, {"jobs", 1, 0, 'j'},   {"folder", 1, 0, 'f'},
        {"elite", 1, 0, 'e'}, {"help", 0, 0, 'h'},   {0, 0, 0, 0}};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;)
        switch (o) {
        case 's': options.shape = optarg; break;
        case 'b': options.budget = positive("budget", optarg, MOST); break;
        case 'r': options.seed = positive("seed", optarg, 1 << 30); break;
        case 'i': options.iterations = positive("iters", optarg, 9999); break;
        case 'j': options.jobs = positive("jobs", optarg, 256); break;
        case 'f': options.folder = optarg; break;
        case 'e': options.elite = optarg; break;
        case 'h': help(); return 0;
        default: return 2;
        }
    if (optind < argc)
        fail(2, "'%s' is not an option; see --help", argv[optind]);
    // ---- Check the ground and open the journal ----
    char why[160], line[160], head[256];
    struct shape shape;
    if (!shape_parse(options.shape, &shape, why, sizeof why))
        fail(2, "--shape: %s", why);
    for (const char *p = options.folder; *p; ++p)
        if (!strchr("/._-", *p) && !isalnum((unsigned char)*p))
            fail(2, "--folder: letters, digits and /._- only");
    if (mkdir(options.folder, 0777) && errno != EEXIST)
        fail(3, "%s: %s", options.folder, strerror(errno));
    on_gpu = !run(line, "nvidia-smi --query-gpu=name --format=csv,noheader");
    if (!on_gpu)
        setenv("LD_LIBRARY_PATH", "build/ptxsim", 1);
    snprintf(head, sizeof head,
             "{\"search\": \"%s\", \"on\": \"%s\", \"seed\": %d, "
             "\"kernel\": \"%.16s\"}",
             options.shape, on_gpu ? line : "the simulator", options.seed,
             kernel_hash());
    journal_open(head);
    if (tried_count)
        printf("going on after %d candidates\n", tried_count);
    for (int generation = 0; run_generation(generation); ++generation)
        ;
    // ---- Write down the elite ----
    struct candidate *elite[ELITE];
    int count = find_elite(INT_MAX, elite);
    if (count == 0)
        fail(1, "none of %d candidates was right", tried_count);
    json_t *best = json_array();
    for (int i = 0; i < count; ++i) {
        report(elite[i], i + 1);
        json_array_append_new(best, on_gpu ? final_run(elite[i])
                                           : final_count(elite[i]));
    }
    int of[TIMED + 1] = {0};
    for (int i = 0; i < tried_count; ++i)
        of[tried[i].verdict]++;
    json_t *result = json_pack(
        "{ss ss si si s{si si si si si} so}", "shape", options.shape, "on",
        on_gpu ? line : "the simulator", "seed", options.seed, "tried",
        tried_count, "verdicts", "unbuilt", of[UNBUILT], "same", of[SAME],
        "refused", of[REFUSED], "wrong", of[WRONG], "timed", of[TIMED], "elite",
        best);
    char path[256];
    snprintf(path, sizeof path, "%s/elite.json", options.folder);
    const char *to = options.elite[0] ? options.elite : path;
    char *text = json_dumps(result, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    if (!text || !file_write(to, text, strlen(text), why, sizeof why))
        fail(3, "%s", text ? why : "no memory");
    printf("the elite is in %s\n", to);
    return 0;
}
