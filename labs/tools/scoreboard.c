// scoreboard.c: times every stage and PyTorch's attention on one GPU, in one run.
//
//   scoreboard [OUT.json] [my.cu] [--shapes LIST] [--programs LIST] [--backends LIST] [--over LIST]
//              [--inputs LIST] [--rounds N] [--contestant my.py ...] [--causal]
//
// First all contestants of a shape are started and checked; then they are timed in turn, a short
// batch each, and in reverse order in the next round, so that a drifting clock affects all of them.
// Each is timed in three ways: graph, plain, cold (chapter 19 and any program's --help explain
// them). A contestant that is wrong, before or after timing, has no times. Slow ones get fewer
// rounds: see SLOW_US. A contestant may be an attention in a Python file (labs/tools/pytorch
// --help). Each program is compared, round by round, with PyTorch's backends, the contestants, and
// the programs that --over names. With --causal, PyTorch's backends have a causal mask. With
// several kinds of --inputs, each shape is run again for each further kind, in graphs only; these
// results are under "inputs" of the shape in the record. The record has everything; OUT.json is
// plots/runs/<gpu>/scoreboard.json or, with a program of your own, build/board/scoreboard.json.
//
// Exit status: 0 done, 1 something was wrong, 2 bad usage, 3 no GPU, no programs.
#include "../driver/lab.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODES = 3, GRAPH = 0, PLAIN_LAUNCHES = 1, COLD = 2 };
enum { MAX_ENTRIES = 64, MAX_ROUNDS = 99, CHECK_SECONDS = 300, ANSWER_SECONDS = 120 };
enum { MOST_SAMPLES = 40, SLOW_ROUNDS = 3 };
static const char *const modes[MODES] = {"graph", "plain", "cold"};
static const double BATCH_US = 8000; // a batch is about this long
static const double SLOW_US = 100e3; // an entry with longer samples gets only SLOW_ROUNDS rounds
static const double PLAIN_US = 5000; // longer launches hide the cost of launching: not timed plain

struct entry {
    const char *name;     // "ch03_wmma_qk", "pytorch-flash", or the name of the student's file
    const char *backend;  // PyTorch's backend, or the contestant's name; NULL: a program
    const char *path;     // the program, or the contestant's file
    bool own;             // whether it is a contestant's Python file, not a backend of PyTorch
    struct process child; // the process of a program; PyTorch's backends share one
    bool started, timed;
    bool compared; // whether programs are compared with it: a backend, a contestant, one of --over
    const char *verdict, *why; // verdict: "wrong" or "left out", why: one line; or both NULL
    double times[MODES][MAX_ROUNDS];
    int rounds[MODES], samples[MODES], launches[MODES];
    struct clock_span clock[MODES], batch; // clock: over all rounds; batch: over the last batch
    json_t *said;                          // the entry's object in the record
};

static struct entry entries[MAX_ENTRIES];
static struct shape shapes[MAX_SHAPES];
static const char *kinds[INPUT_KINDS_DRAWN]; // for all but the first kind, only graphs are timed
static int entry_count, shape_count, kind_count, kind, rounds = 9, wrong_ones;
static struct process pytorch;
static bool pytorch_here, causal;
static json_t *board, *device;

// ---- What is asked for --------------------------------------------------------------------------

static bool ends_with(const char *word, const char *ending)
{
    size_t length = strlen(word), tail = strlen(ending);
    return length > tail && strcmp(word + length - tail, ending) == 0;
}

// Calls `add` with each item of a comma-separated list.
static void for_each(const char *option, const char *list, void (*add)(const char *))
{
    char *copy = text("%s", list), *rest = copy;
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        if (*item == '\0')
            fail(EXIT_USAGE, "%s \"%s\": an item of the list is empty", option, list);
        add(item);
    }
}

static struct entry *add_entry(const char *name)
{
    for (int i = 0; i < entry_count; ++i)
        if (strcmp(entries[i].name, name) == 0)
            fail(EXIT_USAGE, "%s is there twice", name);
    if (entry_count == MAX_ENTRIES)
        fail(EXIT_USAGE, "more than %d contestants", MAX_ENTRIES);
    entries[entry_count] = (struct entry){.name = name};
    return &entries[entry_count++];
}

static void add_program(const char *name)
{
    struct entry *entry = add_entry(name);
    entry->path = text("build/%s", name);
    if (access(entry->path, X_OK))
        fail(EXIT_MACHINE, "%s is not there: type make %s", entry->path, entry->path);
}

static void add_backend(const char *name)
{
    static const char *const known[] = {"flash", "cudnn", "efficient", "math", NULL};
    for (const char *const *k = known; *k; ++k)
        if (strcmp(*k, name) == 0) {
            struct entry *entry = add_entry(text("pytorch-%s", name));
            entry->backend = *k;
            entry->compared = true;
            return;
        }
    fail(EXIT_USAGE, "--backends: \"%s\" is none of flash, cudnn, efficient, math", name);
}

// Adds an attention in a Python file, which is timed beside PyTorch's.
static void add_contestant(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = text("%s", slash ? slash + 1 : path);
    if (!ends_with(name, ".py"))
        fail(EXIT_USAGE, "--contestant \"%s\" is no Python file", path);
    name[strlen(name) - strlen(".py")] = '\0';
    if (access(path, R_OK))
        fail(EXIT_MACHINE, "%s: %s", path, strerror(errno));
    struct entry *entry = add_entry(name);
    entry->backend = name;
    entry->path = path;
    entry->own = entry->compared = true;
}

static void compare_with(const char *name)
{
    for (int i = 0; i < entry_count; ++i)
        if (!entries[i].backend && strcmp(entries[i].name, name) == 0) {
            entries[i].compared = true;
            return;
        }
    fail(EXIT_USAGE, "--over: \"%s\" is none of the programs", name);
}

static void add_shape(const char *name)
{
    char why[256];
    if (shape_count == MAX_SHAPES)
        fail(EXIT_USAGE, "more than %d shapes", MAX_SHAPES);
    if (!shape_parse(name, &shapes[shape_count++], why, sizeof why))
        fail(EXIT_USAGE, "--shapes: %s", why);
    for (int i = 0; i < shape_count - 1; ++i)
        if (strcmp(shapes[i].name, shapes[shape_count - 1].name) == 0)
            fail(EXIT_USAGE, "--shapes: \"%s\" is there twice", name);
}

static void add_kind(const char *name)
{
    for (int k = 0; k < INPUT_KINDS_DRAWN; ++k) {
        if (strcmp(input_kind_name((enum input_kind)k), name) != 0)
            continue;
        for (int i = 0; i < kind_count; ++i)
            if (strcmp(kinds[i], name) == 0)
                fail(EXIT_USAGE, "--inputs: \"%s\" is there twice", name);
        kinds[kind_count++] = input_kind_name((enum input_kind)k);
        return;
    }
    fail(EXIT_USAGE, "--inputs: \"%s\" is none of normal, mean, peaky, sink, rising, falling",
         name);
}

// Adds a program of the reader's own, compiled like the book's.
static void add_student(const char *source)
{
    const char *slash = strrchr(source, '/');
    char *name = text("%s", slash ? slash + 1 : source);
    name[strlen(name) - strlen(".cu")] = '\0';
    for (const char *c = name; *c; ++c)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
            fail(EXIT_USAGE, "%s: a file's name is letters, digits, _ and -", source);
    if (access(source, R_OK))
        fail(EXIT_MACHINE, "%s: %s", source, strerror(errno));
    struct entry *entry = add_entry(name);
    entry->path = text("build/student/%s", name);
    char *command[] = {"make", "-s", "student", NULL};
    char *names[] = {text("SRC=%s", source), text("OUT=%s", entry->path), NULL};
    struct output built = run(command, names, RUN_SECONDS, false);
    if (built.status != 0)
        fail(EXIT_MACHINE, "%s does not compile:\n%s", source, built.err);
    output_free(&built);
}

static const char *shape_list, *programs, *over, *inputs = "normal";
static const char *backends = "flash,cudnn,efficient,math", *contestants[MAX_ENTRIES];
static int contestant_count;

static void take_contestant(const char *option, const char *value)
{
    if (contestant_count == MAX_ENTRIES)
        fail(EXIT_USAGE, "%s: more than %d", option, MAX_ENTRIES);
    contestants[contestant_count++] = value;
}

static const char *parse(int argc, char **argv)
{
    const char *out = NULL, *student = NULL;
#define SHAPE(name, ...) "," #name
    static const char named[] =
#include "workbench/shapes.def"
        ;
#undef SHAPE
    bool help = false;
    const struct option_row rows[] = {
        {"shapes", "LIST", "default: those with a name", .word = &shape_list},
        {"programs", "LIST", "default: all that are built", .word = &programs},
        {"backends", "LIST", "of PyTorch, or none; default: flash,cudnn,efficient,math",
         .word = &backends},
        {"over", "LIST", "programs that all others are divided by", .word = &over},
        {"inputs", "LIST", "kinds of inputs that are timed; default: normal", .word = &inputs},
        {"rounds", "N", "samples of each in turn", .number = &rounds, .least = 1,
         .most = MAX_ROUNDS},
        {"contestant", "my.py", "an attention in a Python file", .call = take_contestant},
        {"causal", NULL, "with a causal mask", .flag = &causal},
        {"help", NULL, "this text", .flag = &help},
        {0},
    };
    int first = options_read(argc, argv, rows, false);
    if (help) {
        puts("usage: labs/tools/scoreboard [OPTION...] [OUT.json] [my.cu]");
        options_help(rows);
        exit(EXIT_GREEN);
    }
    for (const char *word; (word = argv[first]); ++first) {
        if (ends_with(word, ".json") && !out)
            out = word;
        else if (ends_with(word, ".cu") && !student)
            student = word;
        else
            fail(EXIT_USAGE, "what is \"%s\"? labs/tools/scoreboard --help", word);
    }
    shape_list = shape_list ? shape_list : named + 1;
    for_each("--shapes", shape_list, add_shape);
    for_each("--inputs", inputs, add_kind);
    for (int i = 0; i < shape_count; ++i)
        if (shapes[i].page && strcmp(inputs, "normal") != 0)
            fail(EXIT_USAGE, "--inputs: %s is a cache, which is timed with normal inputs only",
                 shapes[i].name);
    if (!programs || !*programs)
        fail(EXIT_MACHINE, "no program is built: type make all");
    for_each("--programs", programs, add_program);
    if (strcmp(backends, "none") != 0)
        for_each("--backends", backends, add_backend);
    for (int i = 0; i < contestant_count; ++i)
        add_contestant(contestants[i]);
    if (over)
        for_each("--over", over, compare_with);
    if (!gpu_here())
        fail(EXIT_MACHINE, "no GPU here: there is nothing to time");
    if (student)
        add_student(student);
    return out ? out : student ? "build/board/scoreboard.json" : NULL;
}

// ---- One shape: start and check -----------------------------------------------------------------

static void give_verdict(struct entry *entry, const char *verdict, const char *why)
{
    entry->verdict = verdict;
    entry->why = why;
    wrong_ones += strcmp(verdict, "wrong") == 0;
}

static char *own_record(const struct entry *entry)
{
    return text("build/board/%s.json", entry->name);
}

// Ends a program, if it has not ended by itself, and gives a verdict if it failed: with status 1
// because of a gate, otherwise because of the machine.
static void stop(struct entry *entry)
{
    struct output output = process_finish(&entry->child, CHECK_SECONDS);
    entry->started = false;
    if (output.status == 1 && !entry->verdict)
        give_verdict(entry, "wrong",
                     *output.err ? last_line(output.err) : "a gate failed: run it by itself");
    if (output.status != 0 && !entry->verdict)
        give_verdict(entry, "left out", last_line(output.err));
    if (output.status == 0 && !entry->verdict && !entry->timed)
        give_verdict(entry, "left out", "it gave no time");
}

static json_t *ask(struct entry *entry, const struct shape *shape, const char *mode, int samples)
{
    if (entry->backend)
        return process_ask(
            &pytorch,
            text("%s/%s %s %s %d", shape->name, kinds[kind], entry->backend, mode, samples),
            ANSWER_SECONDS);
    return process_ask(&entry->child, text("%s %d", mode, samples), CHECK_SECONDS);
}

static void start_programs(const struct shape *shape)
{
    for (int i = 0; i < entry_count; ++i) {
        struct entry *entry = &entries[i];
        entry->verdict = entry->why = NULL;
        entry->timed = false;
        memset(entry->rounds, 0, sizeof entry->rounds);
        memset(entry->clock, 0, sizeof entry->clock);
        entry->said = json_object();
        if (entry->backend)
            continue;
        char *command[] = {(char *)entry->path,
                           "--shapes",
                           (char *)shape->name,
                           "--seeds",
                           "0",
                           "--inputs",
                           (char *)kinds[kind],
                           "--time-inputs",
                           (char *)kinds[kind],
                           "--iters",
                           text("%d", MOST_SAMPLES),
                           "--warmup",
                           "1",
                           "--on-demand",
                           "--quiet",
                           "--record",
                           own_record(entry),
                           NULL};
        unlink(own_record(entry));
        entry->started = process_start(&entry->child, command, NULL);
        if (!entry->started)
            fail(EXIT_MACHINE, "cannot start %s: %s", entry->name, strerror(errno));
    }
}

// Checks the outputs of a PyTorch backend; its answer becomes the entry's accuracy.
static bool check_backend(struct entry *entry, const struct shape *shape)
{
    json_t *said = ask(entry, shape, "check", 0);
    if (!said)
        give_verdict(entry, "left out", "PyTorch gave no answer");
    else if (at(said, "left_out"))
        give_verdict(entry, "left out", text("%s", string_at(said, "left_out")));
    else if (!json_is_true(at(said, "pass")))
        give_verdict(entry, "wrong", text("relative error %.1e", number_at(said, "rel_head")));
    if (!entry->verdict)
        json_object_update(entry->said, said);
    if (entry->own)
        json_object_set_new(entry->said, "contestant", json_true());
    json_decref(said);
    return !entry->verdict;
}

// Gets one time from a contestant; false, and a verdict, if it gives none.
static bool ask_time(struct entry *entry, const struct shape *shape, int mode, int samples,
                     double *us)
{
    json_t *said = ask(entry, shape, modes[mode], samples);
    *us = number_at(said, "p50_us");
    entry->batch = (struct clock_span){0};
    add_clock(&entry->batch, said);
    if (*us > 0)
        entry->launches[mode] = (int)number_at(said, "launches_per_sample");
    else if (!entry->backend)
        stop(entry);
    else
        give_verdict(entry, "left out",
                     at(said, "left_out") ? text("%s", string_at(said, "left_out"))
                                          : "PyTorch gave no answer");
    json_decref(said);
    return *us > 0;
}

static bool is_slow(const struct entry *entry)
{
    return entry->times[GRAPH][0] * entry->launches[GRAPH] > SLOW_US;
}

static bool is_asked(const struct entry *entry, int mode)
{
    if (kind > 0)
        return mode == GRAPH;
    return mode != PLAIN_LAUNCHES || entry->times[GRAPH][0] < PLAIN_US;
}

// Checks all entries. A program is asked for a time, which it gives once it has checked itself; the
// time does not count, since other programs are still starting.
static void check_all(const struct shape *shape)
{
    for (int i = 0; i < entry_count; ++i) {
        doing("%s: starting and checking, %d of %d", shape->name, i + 1, entry_count);
        struct entry *entry = &entries[i];
        double ignored;
        if (entry->backend && !pytorch_here)
            give_verdict(entry, "left out", "no PyTorch here");
        else if (!entry->backend || check_backend(entry, shape))
            entry->timed = ask_time(entry, shape, COLD, 1, &ignored);
    }
}

// Runs an uncounted batch of each entry to find out how many samples its batches should have.
static void choose_samples(const struct shape *shape)
{
    for (int i = 0; i < entry_count; ++i)
        for (int mode = 0; mode < MODES; ++mode) {
            struct entry *entry = &entries[i];
            double us;
            if (!entry->timed || !is_asked(entry, mode))
                continue;
            entry->timed = ask_time(entry, shape, mode, 1, &us);
            double samples = entry->timed ? floor(BATCH_US / (us * entry->launches[mode])) : 1;
            int most = mode == COLD ? MOST_SAMPLES / 2 : MOST_SAMPLES;
            entry->samples[mode] = samples < 1 ? 1 : samples > most ? most : (int)samples;
            entry->times[mode][0] = us;
        }
}

// ---- One shape: time ----------------------------------------------------------------------------

static void time_all(const struct shape *shape)
{
    for (int round = 0; round < rounds; ++round)
        for (int mode = 0; mode < MODES; ++mode)
            for (int turn = 0; turn < entry_count; ++turn) {
                struct entry *entry = &entries[round & 1 ? entry_count - 1 - turn : turn];
                if (!entry->timed || !is_asked(entry, mode) ||
                    (round >= SLOW_ROUNDS && is_slow(entry)))
                    continue;
                doing("%s: round %d of %d, %s, %s", shape->name, round + 1, rounds, modes[mode],
                      entry->name);
                double us;
                entry->timed = ask_time(entry, shape, mode, entry->samples[mode], &us);
                if (!entry->timed)
                    continue;
                entry->times[mode][entry->rounds[mode]++] = us;
                clock_span_join(&entry->clock[mode], &entry->batch);
            }
    done();
}

// Checks the outputs again; a program also reports what it was built from.
static void check_again(struct entry *entry, const struct shape *shape)
{
    if (entry->backend) {
        entry->timed = entry->timed && check_backend(entry, shape);
        return;
    }
    if (entry->started)
        stop(entry);
    entry->timed = entry->timed && !entry->verdict;
    json_t *own = json_load_file(own_record(entry), 0, NULL);
    unlink(own_record(entry));
    json_t *result = json_array_get(at(at(at(own, "shapes"), shape->name), "correctness"), 0);
    static const char *const accuracy[] = {"pass",    "rel_head",  "rel_row",
                                           "max_abs", "rounded_p", "limits"};
    for (size_t i = 0; i < sizeof accuracy / sizeof *accuracy; ++i)
        if (at(result, accuracy[i]))
            json_object_set(entry->said, accuracy[i], at(result, accuracy[i]));
    if (at(own, "chapter"))
        json_object_set(entry->said, "chapter", at(own, "chapter"));
    if (at(own, "title"))
        json_object_set(entry->said, "title", at(own, "title"));
    if (at(own, "source_hash") && strncmp(entry->path, "build/student/", 14) != 0)
        json_object_set(at(board, "source_hashes"), entry->name, at(own, "source_hash"));
    if (!device && at(own, "device"))
        device = json_incref(at(own, "device"));
    json_decref(own);
}

// ---- The record ---------------------------------------------------------------------------------

static json_t *summary_json(const struct entry *entry, int mode)
{
    double times[MAX_ROUNDS];
    memcpy(times, entry->times[mode], sizeof times);
    struct summary s = summarise(times, entry->rounds[mode]);
    json_t *said = json_pack("{s:f, s:f, s:f, s:i, s:i, s:i}", "p50_us", s.p50, "min_us", s.min,
                             "max_us", s.max, "rounds", entry->rounds[mode], "samples",
                             entry->samples[mode], "launches_per_sample", entry->launches[mode]);
    put_clock(said, &entry->clock[mode]);
    return said;
}

// How many times as fast an entry is as `other`: the median of the rounds' ratios, with its
// interval.
static json_t *ratio_json(const struct entry *entry, const struct entry *other, int mode)
{
    double ratios[MAX_ROUNDS];
    int count =
        entry->rounds[mode] < other->rounds[mode] ? entry->rounds[mode] : other->rounds[mode];
    for (int i = 0; i < count; ++i)
        ratios[i] = other->times[mode][i] / entry->times[mode][i];
    struct interval i = median_interval(ratios, count);
    json_t *said = json_pack("{s:f}", "median", i.median);
    if (isfinite(i.low)) {
        json_object_set_new(said, "low", json_real(i.low));
        json_object_set_new(said, "high", json_real(i.high));
    }
    return said;
}

static const struct entry *fastest(bool of_pytorch, int mode)
{
    const struct entry *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < entry_count; ++i) {
        if (!entries[i].timed || entries[i].own || (entries[i].backend != NULL) != of_pytorch ||
            entries[i].rounds[mode] == 0)
            continue;
        double p50 = number_at(at(entries[i].said, modes[mode]), "p50_us");
        if (p50 < least) {
            least = p50;
            best = &entries[i];
        }
    }
    return best;
}

// The GPU's clocks, temperature and power, if nvidia-smi reports them; otherwise null.
static json_t *clocks(void)
{
    char *command[] = {"nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw",
                       "--format=csv,noheader,nounits", NULL};
    struct output said = run(command, NULL, 20, false);
    double sm, memory, temperature, power;
    json_t *json = json_null();
    if (said.status == 0 &&
        sscanf(said.out, "%lf, %lf, %lf, %lf", &sm, &memory, &temperature, &power) == 4)
        json = json_pack("{s:f, s:f, s:f, s:f}", "sm_mhz", sm, "memory_mhz", memory, "celsius",
                         temperature, "watts", power);
    output_free(&said);
    return json;
}

static void keep(const struct shape *shape, json_t *clock)
{
    json_t *said = json_object();
    for (int i = 0; i < entry_count; ++i) {
        struct entry *entry = &entries[i];
        for (int mode = 0; mode < MODES && entry->timed; ++mode)
            if (entry->rounds[mode] > 0)
                json_object_set_new(entry->said, modes[mode], summary_json(entry, mode));
        if (entry->verdict)
            json_object_set_new(entry->said, entry->verdict, json_string(entry->why));
    }
    for (int i = 0; i < entry_count; ++i)
        for (int k = 0; k < entry_count && entries[i].timed && !entries[i].backend; ++k)
            if (k != i && entries[k].timed && entries[k].compared)
                json_object_set_new(
                    entries[i].said,
                    text("over_%s", entries[k].backend ? entries[k].backend : entries[k].name),
                    ratio_json(&entries[i], &entries[k], GRAPH));
    json_t *kept =
        json_pack("{s:i, s:i, s:i, s:f, s:o}", "batch", shape->batch, "heads", shape->heads,
                  "seq_len", shape->seq_len, "gflop",
                  masked_flops(shape, causal ? MASK_CAUSAL : MASK_NONE) * 1e-9, "clocks", clock);
    if (shape->page)
        json_object_set_new(kept, "cache_bytes", json_real(shape_cache_bytes(shape)));
    for (int side = 0; side < 2; ++side) {
        const struct entry *best = fastest(side == 1, GRAPH);
        if (!best)
            continue;
        json_t *p50 = at(at(best->said, "graph"), "p50_us"), *copy = json_copy(best->said);
        json_object_set_new(copy, "name", json_string(best->name));
        json_object_set(copy, "p50_us", p50);
        json_object_set_new(copy, "tflops",
                            json_real(number_at(kept, "gflop") / json_number_value(p50) * 1e3));
        json_object_set_new(kept, side ? "best_pytorch" : "best", copy);
    }
    for (int i = 0; i < entry_count; ++i)
        json_object_set_new(said, entries[i].name, entries[i].said);
    json_object_set_new(kept, "entries", said);
    if (kind == 0) {
        if (kind_count > 1)
            json_object_set_new(kept, "inputs", json_object());
        json_object_set_new(at(board, "shapes"), shape->name, kept);
        return;
    }
    json_object_set_new(at(at(at(board, "shapes"), shape->name), "inputs"), kinds[kind], kept);
}

static void show(const struct shape *shape)
{
    printf("\n%s%s%s  B%d H%d S%d, %s inputs: p50 in us\n", BOLD, shape->name, PLAIN, shape->batch,
           shape->heads, shape->seq_len, kinds[kind]);
    printf("  %-22s %10s %10s %10s %10s %9s\n", "", "graph", "plain", "cold L2", "error",
           "x flash");
    for (int i = 0; i < entry_count; ++i) {
        const struct entry *entry = &entries[i];
        if (entry->verdict) {
            printf("  %-22s %s: %s\n", entry->name, entry->verdict, entry->why);
            continue;
        }
        printf("  %-22s", entry->name);
        for (int mode = 0; mode < MODES; ++mode) {
            double us = number_at(at(entry->said, modes[mode]), "p50_us");
            if (isnan(us))
                printf(" %10s", "-");
            else
                printf(" %10.2f", us);
        }
        bool moved = clock_moved(&entry->clock[GRAPH]);
        double ratio = number_at(at(entry->said, "over_flash"), "median");
        printf(" %10.1e", number_at(entry->said, "rel_head"));
        if (isnan(ratio))
            printf(" %9s%s\n", "", moved ? " the clock moved" : "");
        else
            printf(" %9.2f%s\n", ratio, moved ? " the clock moved" : "");
    }
}

// ---- All shapes ---------------------------------------------------------------------------------

static void start_pytorch(void)
{
    bool wanted = false;
    for (int i = 0; i < entry_count; ++i)
        wanted = wanted || entries[i].backend;
    if (!wanted)
        return;
    char *command[MAX_ENTRIES + 4] = {"labs/tools/pytorch", "--on-demand"};
    int n = 2;
    if (causal)
        command[n++] = "--causal";
    for (int i = 0; i < entry_count; ++i)
        if (entries[i].own)
            command[n++] = (char *)entries[i].path;
    if (!process_start(&pytorch, command, NULL))
        fail(EXIT_MACHINE, "cannot start labs/tools/pytorch: %s", strerror(errno));
    json_t *said = process_ask(&pytorch, "hello", CHECK_SECONDS);
    pytorch_here = said && at(said, "torch");
    if (pytorch_here) {
        json_object_set_new(board, "pytorch", said);
        if (shapes[0].page) // how fast memory can be read: that limits attention over a cache
            json_object_set_new(board, "bandwidth",
                                process_ask(&pytorch, "bandwidth", CHECK_SECONDS));
        return;
    }
    struct output output = process_finish(&pytorch, ANSWER_SECONDS);
    printf("scoreboard: the stages only: %s\n", last_line(output.err));
}

// The path of the record, from the GPU's name: plots/runs/h200/scoreboard.json for "NVIDIA H200".
static char *default_path(void)
{
    const char *name = string_at(device, "name");
    char *gpu = text("%s", strncmp(name, "NVIDIA ", 7) == 0 ? name + 7 : name);
    for (char *c = gpu; *c; ++c)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    mkdir(text("plots/runs/%s", gpu), 0777);
    return text("plots/runs/%s/scoreboard.json", gpu);
}

// Runs one shape with one kind of inputs: starts every program, times all, adds the results to the
// record.
static void run_all(const struct shape *shape)
{
    start_programs(shape);
    check_all(shape);
    choose_samples(shape);
    time_all(shape);
    json_t *clock = clocks();
    for (int k = 0; k < entry_count; ++k)
        check_again(&entries[k], shape);
    keep(shape, clock);
    show(shape);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char why[512];
    double started = now();

    speaker = "scoreboard";
    colours();
    if (mkdir("build/board", 0777) && errno != EEXIST)
        fail(EXIT_MACHINE, "cannot make build/board: %s", strerror(errno));
    const char *path = parse(argc, argv);
    if (path && !file_writable(path, why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    board = json_pack("{s:i, s:s, s:s, s:s, s:i, s:f, s:f, s:{}, s:{}}", "record", 1, "kind",
                      "scoreboard", "date", date_now(), "runtime", "gpu", "rounds", rounds,
                      "slow_us", SLOW_US, "plain_us", PLAIN_US, "source_hashes", "shapes");
    if (causal)
        json_object_set_new(board, "mask", json_string("causal"));
    if (kind_count > 1 || strcmp(kinds[0], "normal") != 0)
        json_object_set_new(board, "first_inputs", json_string(kinds[0]));
    start_pytorch();
    for (int i = 0; i < shape_count; ++i)
        for (kind = 0; kind < kind_count; ++kind)
            run_all(&shapes[i]);
    if (pytorch_here) {
        struct output output = process_finish(&pytorch, ANSWER_SECONDS);
        output_free(&output);
    }
    if (!device)
        fail(EXIT_MACHINE, "no program ran: see above");
    json_object_set(board, "device", device);
    double seconds = round(now() - started);
    json_object_set_new(board, "seconds", json_real(seconds));
    if (!path)
        path = default_path();
    write_json(board, path, RECORD_FORMAT, "");
    printf("\n  %d rounds, %.0f s; record %s\n", rounds, seconds, path);
    return wrong_ones > 0 ? EXIT_RED : EXIT_GREEN;
}
