// lab.c: judges a chapter's program, gate by gate, and says one word about it.
//
// The scripts labs/labNN call this with the chapter's programs, gates and promise; whoever runs
// them may add the options that --help lists, or a program of his own. Everything that is said is
// also written as a record (JSON). Exit status: 0 unless RED, which is 1; 2 bad usage; 3 the
// machine failed us.
#include "lab.h"

#include "workbench/workbench.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SHAPES = 16, MAX_GATES = 32, MAX_PROMISES = 8, RUN_SECONDS = 600, BATCH_SECONDS = 60 };

struct gate {
    char name[32], relation[3];
    double limit;
};

struct promise {
    char shape[32];
    double ratio;
};

static struct lab {
    int number;
    const char *title, *why;
    const char *before, *after; // programs by name; before may be NULL
    bool plain;                 // after is a C program that checks itself, without a kernel
    const char *student;        // the source file judged instead of after, or NULL
    const char *shapes, *seeds, *inputs, *on, *record;
    int rounds, iterations;
    struct gate gates[MAX_GATES];
    int gate_count;
    struct promise promises[MAX_PROMISES];
    int promise_count;
} lab = {.shapes = "small,mission", .seeds = "0,1,2", .rounds = 30, .iterations = 20};

static struct side {
    const char *name;
    char *path;
    json_t *resources;
    json_t *shapes; // of its run records
    json_t *device;
    json_t *counts; // evidence: a counter's value by its key
    const char *hash;
} before, after;

static struct shape shapes[MAX_SHAPES];
static int shape_count;
static char *root;   // of the repository
static char *folder; // build/labNN: the chart, the record
static bool on_gpu;
static json_t *record;     // what will be written
static json_t *gates_said; // its "gates"
static int gates_failed;
static bool colour;

// ---- Saying things ------------------------------------------------------------------------------

void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "lab%d: ", lab.number);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

char *text(const char *format, ...)
{
    char *string;
    va_list args;
    va_start(args, format);
    if (vasprintf(&string, format, args) < 0)
        fail(EXIT_MACHINE, "out of memory");
    va_end(args);
    return string;
}

static const char *paint(const char *code)
{
    return colour ? code : "";
}
#define RED_INK paint("\033[31m")
#define GREEN_INK paint("\033[32m")
#define BOLD paint("\033[1m")
#define FAINT paint("\033[2m")
#define PLAIN paint("\033[0m")

static void heading(const char *title)
{
    printf("\n%s%s%s\n", BOLD, title, PLAIN);
}

// What is being done, until the next line replaces it; on a terminal only.
static void doing(const char *format, ...)
{
    if (!isatty(STDOUT_FILENO))
        return;
    va_list args;
    va_start(args, format);
    printf("\r\033[K%s  ", FAINT);
    vprintf(format, args);
    printf(" ...%s", PLAIN);
    va_end(args);
    fflush(stdout);
}

static void done(void)
{
    if (isatty(STDOUT_FILENO))
        printf("\r\033[K");
}

static const char *mark(bool pass)
{
    return pass ? text("%sok%s", GREEN_INK, PLAIN) : text("%sFAIL%s", RED_INK, PLAIN);
}

// Enters a gate into the record; the caller has the line that shows it.
static bool note_gate(const char *group, const char *name, json_t *value, const char *limit,
                      bool pass)
{
    json_array_append_new(gates_said,
                          json_pack("{s:s, s:s, s:o, s:s, s:b}", "group", group, "name", name,
                                    "value", value, "limit", limit, "pass", pass));
    gates_failed += !pass;
    return pass;
}

// 12345678 -> "12,345,678"; numbers that are no counts get the digits they deserve.
static const char *grouped(double value)
{
    char digits[64], out[96];
    if (value != floor(value) || fabs(value) > 1e15)
        return text(fabs(value) < 100 ? "%.2f" : "%.0f", value);
    int length = snprintf(digits, sizeof digits, "%.0f", value), at = 0;
    for (int i = 0; i < length; ++i) {
        out[at++] = digits[i];
        if (digits[i] != '-' && (length - i - 1) % 3 == 0 && i < length - 1)
            out[at++] = ',';
    }
    out[at] = '\0';
    return text("%s", out);
}

// ---- JSON ---------------------------------------------------------------------------------------

// The value at a dotted path, or NULL.
static json_t *at(json_t *json, const char *path)
{
    char key[128];
    while (json && *path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        json = json_object_get(json, key);
        path += length + (path[length] == '.');
    }
    return json;
}

static double number_at(json_t *json, const char *path)
{
    json_t *value = at(json, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// Read by way of a temporary file beside it, so that nobody ever sees half of it.
static void write_json(json_t *json, const char *path)
{
    char *temporary = text("%s.new", path);
    if (json_dump_file(json, temporary, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) ||
        rename(temporary, path)) {
        int error = errno;
        unlink(temporary);
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(error));
    }
}

// ---- Options ------------------------------------------------------------------------------------

static void usage(void)
{
    printf(
        "usage: ./lab%d [options] [my.cu]\n\n"
        "Judges chapter %d's program%s%s, or yours instead of it.\n\n"
        "  --on gpu|simulator  where to run (default: on a GPU where there is one)\n"
        "  --shapes LIST       small, mission, long, huge or BxHxS (default %s)\n"
        "  --seeds LIST        of the random inputs (default %s)\n"
        "  --inputs LIST       normal, mean, peaky (default: all; normal in the simulator)\n"
        "  --rounds N          of the comparison on a GPU, at least 6 (default %d)\n"
        "  --quick             one seed and 8 rounds\n"
        "  --record FILE       where to write the record (default build/lab%02d/record.json)\n"
        "  --help              this text\n\n"
        "Exit status: 0 GREEN, FAST or VALID NEGATIVE; 1 RED; 2 bad usage; 3 the machine failed.\n",
        lab.number, lab.number, lab.before ? " against " : "", lab.before ? lab.before : "",
        lab.shapes, lab.seeds, lab.rounds, lab.number);
}

static int whole(const char *option, const char *word, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(word, &end, 10);
    if (end == word || *end || errno || value < least || value > most)
        fail(EXIT_USAGE, "%s: \"%s\" is no whole number from %ld to %ld", option, word, least,
             most);
    return value;
}

static void parse_gate(const char *word)
{
    struct gate *gate = &lab.gates[lab.gate_count];
    char end;
    if (lab.gate_count == MAX_GATES ||
        sscanf(word, "%31s %2[<>=] %lf %c", gate->name, gate->relation, &gate->limit, &end) != 3)
        fail(EXIT_USAGE, "--gate: write 'registers <= 128', not '%s'", word);
    ++lab.gate_count;
}

static void parse_promise(const char *word)
{
    struct promise *promise = &lab.promises[lab.promise_count];
    char end;
    if (lab.promise_count == MAX_PROMISES ||
        sscanf(word, "%31[^:]:%lf %c", promise->shape, &promise->ratio, &end) != 2)
        fail(EXIT_USAGE, "--promise: write mission:1.3, not '%s'", word);
    ++lab.promise_count;
}

// Calls visit with each word of a comma-separated list; an empty word is an error.
static void each(const char *option, const char *list,
                 void (*visit)(const char *option, const char *word))
{
    char *copy = text("%s", list), *rest = copy, *word;
    if (!*list)
        fail(EXIT_USAGE, "%s: the list is empty", option);
    while ((word = strsep(&rest, ","))) {
        if (!*word)
            fail(EXIT_USAGE, "%s: \"%s\" has an empty entry", option, list);
        visit(option, word);
    }
    free(copy);
}

static void add_shape(const char *option, const char *word)
{
    char why[256];
    if (shape_count == MAX_SHAPES)
        fail(EXIT_USAGE, "%s: at most %d shapes", option, MAX_SHAPES);
    if (!shape_parse(word, &shapes[shape_count++], why, sizeof why))
        fail(EXIT_USAGE, "%s: %s", option, why);
}

static void check_seed(const char *option, const char *word)
{
    whole(option, word, 0, LONG_MAX);
}

static void check_input(const char *option, const char *word)
{
    for (int kind = 0; kind < INPUT_KINDS; ++kind)
        if (strcmp(word, input_kind_name(kind)) == 0)
            return;
    fail(EXIT_USAGE, "%s: \"%s\" is no kind of input: normal, mean or peaky", option, word);
}

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"lab", required_argument, NULL, 'l'},
        {"title", required_argument, NULL, 't'},
        {"before", required_argument, NULL, 'b'},
        {"after", required_argument, NULL, 'a'},
        {"program", required_argument, NULL, 'c'},
        {"shapes", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'S'},
        {"inputs", required_argument, NULL, 'i'},
        {"gate", required_argument, NULL, 'g'},
        {"promise", required_argument, NULL, 'p'},
        {"why", required_argument, NULL, 'w'},
        {"on", required_argument, NULL, 'o'},
        {"record", required_argument, NULL, 'r'},
        {"rounds", required_argument, NULL, 'n'},
        {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool help = false;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (c) {
        case 'l': lab.number = whole("--lab", optarg, 1, 99); break;
        case 't': lab.title = optarg; break;
        case 'b': lab.before = optarg; break;
        case 'a': lab.after = optarg; break;
        case 'c':
            lab.after = optarg;
            lab.plain = true;
            break;
        case 's': lab.shapes = optarg; break;
        case 'S': lab.seeds = optarg; break;
        case 'i': lab.inputs = optarg; break;
        case 'g': parse_gate(optarg); break;
        case 'p': parse_promise(optarg); break;
        case 'w': lab.why = optarg; break;
        case 'o': lab.on = optarg; break;
        case 'r': lab.record = optarg; break;
        case 'n': lab.rounds = whole("--rounds", optarg, 6, 100000); break;
        case 'q':
            lab.seeds = "0";
            lab.rounds = 8;
            break;
        case 'h': help = true; break;
        case ':': fail(EXIT_USAGE, "%s needs a value; --help lists the options", argv[optind - 1]);
        default: fail(EXIT_USAGE, "%s is no option; --help lists them", argv[optind - 1]);
        }
    }
    if (!lab.number || !lab.after)
        fail(EXIT_USAGE, "--lab and --after are needed; labs/lab03 shows how");
    if (help) {
        usage();
        exit(0);
    }
    each("--shapes", lab.shapes, add_shape);
    each("--seeds", lab.seeds, check_seed);
    if (lab.inputs)
        each("--inputs", lab.inputs, check_input);
    if (lab.on && strcmp(lab.on, "gpu") != 0 && strcmp(lab.on, "simulator") != 0)
        fail(EXIT_USAGE, "--on: \"%s\" is neither gpu nor simulator", lab.on);
    if (argc - optind > 1)
        fail(EXIT_USAGE, "one program at a time: %s or %s", argv[optind], argv[optind + 1]);
    lab.student = argv[optind];
    if (lab.student && access(lab.student, R_OK))
        fail(EXIT_USAGE, "%s: %s", lab.student, strerror(errno));
}

// ---- Programs -----------------------------------------------------------------------------------

// Where this program stands in, whatever the working directory is.
static char *find_root(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    for (int up = 0; up < 2 && length > 0; ++up) { // build/lab
        while (length > 0 && path[length - 1] != '/')
            --length;
        --length;
    }
    if (length <= 0)
        fail(EXIT_MACHINE, "cannot tell where build/lab is");
    path[length] = '\0';
    return text("%s", path);
}

static bool gpu_here(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*count)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDeviceGetCount") : NULL;
    int devices = 0;
    return init && count && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

// Environment of a program on the GPU, or in the simulator, which then reports into a file.
static char *const *environment(bool gpu, const char *report)
{
    static char *env[3];
    env[0] = gpu ? NULL : text("LD_LIBRARY_PATH=%s/build/ptxsim", root);
    env[1] = text("PTXSIM_REPORT=%s", report);
    return env;
}

static void find_program(struct side *side, const char *name)
{
    side->name = name;
    side->path = text("%s/build/%s", root, name);
    if (access(side->path, X_OK))
        fail(EXIT_MACHINE, "build/%s is not there: type make chapter%d", name, lab.number);
}

// A student's program is compiled as the chapters' are; make knows how.
static void compile_student(struct side *side, const char *source)
{
    char path[PATH_MAX];
    if (!realpath(source, path))
        fail(EXIT_USAGE, "%s: %s", source, strerror(errno));
    const char *base = strrchr(path, '/') + 1;
    const char *dot = strrchr(base, '.');
    if (!dot || (strcmp(dot, ".cu") != 0 && strcmp(dot, ".c") != 0))
        fail(EXIT_USAGE, "%s: a program is a .cu file", source);
    char *name = text("%.*s", (int)(dot - base), base);
    side->name = lab.before && strcmp(name, lab.before) == 0 ? text("my_%s", name) : name;
    side->path = text("%s/build/student/%s", root, name);
    doing("compiling %s", source);
    char *command[] = {"make",
                       "-s",
                       "-C",
                       root,
                       "student",
                       text("SRC=%s", path),
                       text("OUT=build/student/%s", name),
                       NULL};
    struct output output = run(command, NULL, RUN_SECONDS, false);
    done();
    if (output.status) {
        printf("%s", output.out);
        fflush(stdout);
        fprintf(stderr, "%s", output.err);
        fail(EXIT_RED, "%s does not compile", source);
    }
    output_free(&output);
}

// A program that ends with 3 before it computed anything cannot run here at all.
static void read_resources(struct side *side)
{
    char *command[] = {side->path, "--resources", NULL};
    struct output output = run(command, environment(on_gpu, "/dev/null"), RUN_SECONDS, false);
    if (output.status == EXIT_MACHINE || output.status == EXIT_USAGE || output.status == 127)
        fail(EXIT_MACHINE, "%s: %s", side->name, last_line(output.err));
    json_t *said = json_loads(output.out, 0, NULL);
    side->resources = at(said, "resources") ? at(said, "resources") : said;
    if (output.status || !side->resources)
        fail(EXIT_MACHINE, "%s --resources gives no resources: %s", side->name,
             last_line(output.err));
}

// ---- Gates --------------------------------------------------------------------------------------

// The value of a resource gate: of the sm_89 image, or of the code that runs on this GPU.
static double resource(const struct side *side, const char *name, bool sm_89)
{
    json_t *r = side->resources;
    if (strcmp(name, "threads") == 0)
        return number_at(r, "threads");
    if (strcmp(name, "occupancy") == 0)
        return sm_89 ? 100 * number_at(r, "sm_89.occupancy") : NAN;
    if (strcmp(name, "registers") == 0)
        return number_at(r, sm_89 ? "sm_89.registers" : "registers");
    if (strcmp(name, "spills") == 0)
        return number_at(r, sm_89 ? "sm_89.local_bytes" : "local_bytes");
    if (strcmp(name, "shared") == 0) {
        double dynamic = number_at(r, "dynamic_shared_bytes");
        return number_at(r, sm_89 ? "sm_89.shared_bytes" : "static_shared_bytes") +
               (isnan(dynamic) ? 0 : dynamic);
    }
    fail(EXIT_USAGE, "--gate: \"%s\" is none of registers, shared, spills, occupancy, threads",
         name);
}

static bool holds(double value, const struct gate *gate) // NaN never does
{
    const char *relation = gate->relation;
    if (strcmp(relation, "<=") == 0)
        return value <= gate->limit;
    if (strcmp(relation, ">=") == 0)
        return value >= gate->limit;
    if (strcmp(relation, "==") == 0)
        return value == gate->limit;
    fail(EXIT_USAGE, "--gate: \"%s\" is none of <=, >=, ==", relation);
}

static void judge_resources(bool sm_89)
{
    static const char *const titles[][2] = {
        {"registers", "registers a thread"},   {"shared", "shared memory a CTA, bytes"},
        {"spills", "spilled a thread, bytes"}, {"occupancy", "occupancy of an L4, %"},
        {"threads", "threads a CTA"},
    };
    for (int i = 0; i < lab.gate_count; ++i) {
        const struct gate *gate = &lab.gates[i];
        double value = resource(&after, gate->name, sm_89);
        if (!sm_89 && (strcmp(gate->name, "occupancy") == 0 || strcmp(gate->name, "threads") == 0))
            continue;
        const char *title = gate->name;
        for (size_t t = 0; t < sizeof titles / sizeof titles[0]; ++t)
            if (strcmp(titles[t][0], gate->name) == 0)
                title = titles[t][1];
        char *limit = text("%s %s", gate->relation, grouped(gate->limit));
        bool pass =
            note_gate("resources", text("%s (%s)", gate->name, sm_89 ? "sm_89" : "device"),
                      isnan(value) ? json_null() : json_real(value), limit, holds(value, gate));
        printf("  %-28s", title);
        if (before.name)
            printf(" %15s", grouped(round(resource(&before, gate->name, sm_89))));
        printf(" %15s  %-10s %s\n", grouped(round(value)), limit, mark(pass));
    }
}

static void resources(void)
{
    if (before.name)
        read_resources(&before);
    read_resources(&after);
    heading("Resources");
    printf("  %-28s", "sm_89 image");
    if (before.name)
        printf(" %15.15s", before.name);
    printf(" %15.15s  limit\n", after.name);
    judge_resources(true);
    if (on_gpu) {
        printf("  on this GPU\n");
        judge_resources(false);
    }
}

// Runs a program over the seeds of one shape, checks every output, and keeps what was counted.
static void judge_outputs(struct side *side, const char *shape, bool keep_counts)
{
    char *own = text("%s/%s-%s.json", folder, side->name, shape);
    char *counts = text("%s/%s-%s-counts.json", folder, side->name, shape);
    char *command[] = {side->path,    "--shapes", (char *)shape, "--seeds", (char *)lab.seeds,
                       "--no-timing", "--quiet",  "--record",    own,       NULL,
                       NULL,          NULL};
    if (lab.inputs) { // else the program's own choice: all on a GPU, normal in the simulator
        command[9] = "--inputs";
        command[10] = (char *)lab.inputs;
    }
    unlink(own);
    unlink(counts);
    doing("%s, %s", side->name, shape);
    struct output output = run(command, environment(on_gpu, counts), RUN_SECONDS, false);
    done();
    json_t *said = json_load_file(own, 0, NULL);
    json_t *report = json_load_file(counts, 0, NULL);
    json_t *checks = at(said, text("shapes.%s.correctness", shape));
    json_t *faults = at(report, "faults");

    if (output.status == EXIT_USAGE || output.status == 127 ||
        (output.status == EXIT_MACHINE && json_array_size(faults) == 0))
        fail(output.status == EXIT_USAGE ? EXIT_USAGE : EXIT_MACHINE, "%s", last_line(output.err));
    int passed = 0, total = json_array_size(checks);
    double worst = 0;
    for (int i = 0; i < total; ++i) {
        json_t *check = json_array_get(checks, i);
        double error = number_at(check, "rel_head");
        passed += json_is_true(at(check, "pass"));
        worst = error <= worst ? worst : error; // a NaN stays
    }
    bool pass = note_gate("correctness", text("%s, %s", side->name, shape),
                          json_sprintf("%d of %d", passed, total), "all",
                          output.status == 0 && total > 0 && passed == total);
    char *right = total ? text("%d of %d right", passed, total) : text("no result");
    printf("  %-21s %-11s %-13s", side->name, shape, right);
    if (total)
        printf(" relative error %7.1e", worst);
    printf("  %s\n", mark(pass));
    for (size_t i = 0; i < json_array_size(faults); ++i)
        printf("    %s\n", json_string_value(json_array_get(faults, i)));
    if (!pass && json_array_size(faults) == 0 && output.err[0])
        printf("    %s\n", last_line(output.err));
    if (output.status == -1)
        printf("    stopped: it ran for more than %d s\n", RUN_SECONDS);
    else if (output.status > 128)
        printf("    it crashed: %s\n", strsignal(output.status - 128));

    if (!side->shapes)
        side->shapes = json_object();
    json_object_set(side->shapes, shape, at(said, text("shapes.%s", shape)));
    if (!side->device)
        side->device = json_incref(at(said, "device"));
    if (!side->hash && at(said, "source_hash"))
        side->hash = text("%s", json_string_value(at(said, "source_hash")));
    if (keep_counts && report)
        side->counts = simulator_read(report);
    unlink(own);
    unlink(counts);
    output_free(&output);
}

// The shape that the evidence is about: the promise's, else the last.
static const char *main_shape(void)
{
    const char *promised = lab.promise_count ? lab.promises[0].shape : "";
    for (int i = 0; i < shape_count; ++i)
        if (strcmp(shapes[i].name, promised) == 0)
            return promised;
    return shapes[shape_count - 1].name;
}

static void correctness(void)
{
    heading("Correctness");
    for (int i = 0; i < shape_count; ++i) {
        bool counts = strcmp(shapes[i].name, main_shape()) == 0;
        if (before.name)
            judge_outputs(&before, shapes[i].name, counts);
        judge_outputs(&after, shapes[i].name, counts);
    }
}

// ---- Speedup ------------------------------------------------------------------------------------

static char *const *batch_command(const struct side *side, const char *shape)
{
    char **command = calloc(10, sizeof *command);
    char *words[] = {side->path,
                     "--shapes",
                     (char *)shape,
                     "--seeds",
                     "0",
                     "--iters",
                     text("%d", lab.iterations),
                     "--on-demand",
                     "--quiet"};
    memcpy(command, words, sizeof words);
    return command;
}

static void stop_child(struct child *child, const struct side *side)
{
    struct output output = child_finish(child, BATCH_SECONDS);
    if (output.status != 0) {
        note_gate("correctness", text("%s, after the timed runs", side->name),
                  json_integer(output.status), "exit status 0", false);
        printf("  %s: outputs after the timed runs: %s: %s\n", side->name, mark(false),
               last_line(output.err));
    }
    output_free(&output);
}

// Runs the two programs in turn, and again in the other order, so that a drift of the clock falls
// on both; each round gives one ratio. False if a program gave up.
static bool compare(const struct promise *promise, json_t *said)
{
    struct child children[2];
    struct side *sides[2] = {&before, &after};
    double *times[2], *ratios = calloc(lab.rounds, sizeof *ratios);
    bool good = true;
    for (int s = 0; s < 2; ++s) {
        times[s] = calloc(lab.rounds, sizeof **times);
        if (!child_start(&children[s], batch_command(sides[s], promise->shape),
                         environment(on_gpu, "/dev/null")))
            fail(EXIT_MACHINE, "cannot start %s: %s", sides[s]->name, strerror(errno));
    }
    for (int round = -1; round < lab.rounds && good; ++round) { // round -1 warms up
        doing("%s: round %d of %d", promise->shape, round + 1, lab.rounds);
        for (int turn = 0; turn < 2 && good; ++turn) {
            int s = (round & 1) ^ turn;
            double time = child_batch(&children[s], BATCH_SECONDS);
            good = time > 0;
            if (good && round >= 0)
                times[s][round] = time;
        }
        if (good && round >= 0)
            ratios[round] = times[0][round] / times[1][round];
    }
    done();
    int failed = gates_failed;
    for (int s = 0; s < 2; ++s)
        stop_child(&children[s], sides[s]);
    if (!good && failed == gates_failed)
        note_gate("speedup", promise->shape, json_null(), "times", false);
    if (!good || failed != gates_failed)
        return false;

    struct interval interval = median_interval(ratios, lab.rounds);
    const char *verdict = interval.low >= promise->ratio   ? "met"
                          : interval.high < promise->ratio ? "missed"
                                                           : "inconclusive";
    double p50[2];
    for (int s = 0; s < 2; ++s)
        p50[s] = summarise(times[s], lab.rounds).p50;
    json_object_set_new(said, promise->shape,
                        json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:s}", "median",
                                  interval.median, "low", interval.low, "high", interval.high,
                                  "rounds", lab.rounds, "before_p50_us", p50[0], "after_p50_us",
                                  p50[1], "promise", promise->ratio, "verdict", verdict));
    return true;
}

static void show_speedup(const char *shape, json_t *s, const char *indent)
{
    printf("%s%-9s %.1f -> %.1f us: %s%.2fx%s [%.2f, %.2f], promise %.2fx: %s\n", indent, shape,
           number_at(s, "before_p50_us"), number_at(s, "after_p50_us"), BOLD,
           number_at(s, "median"), PLAIN, number_at(s, "low"), number_at(s, "high"),
           number_at(s, "promise"), json_string_value(at(s, "verdict")));
}

// True if a record is of today's programs; today's hashes are in build/hashes.tsv.
static bool fresh(json_t *hashes)
{
    char *path = text("%s/build/hashes.tsv", root), line[512], name[256], hash[128];
    FILE *file = fopen(path, "r");
    size_t same = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %127s", name, hash) == 2) {
            const char *recorded = json_string_value(at(hashes, name));
            same += recorded && strcmp(recorded, hash) == 0;
        }
    if (file)
        fclose(file);
    return same > 0 && same == json_object_size(hashes);
}

static void label_recorded(json_t *old, json_t *hashes)
{
    const char *device = json_string_value(at(old, "device.name"));
    const char *date = json_string_value(at(old, "date"));
    printf("  recorded on %s, %.10s%s:\n", device ? device : "a GPU", date ? date : "no date",
           fresh(hashes) ? ""
                         : text(" (%sSTALE: of other programs than today's%s)", RED_INK, PLAIN));
}

// The book's recorded runs, labelled with their GPU, beside what cannot be measured here.
static void show_recorded(void)
{
    glob_t found = {0};
    bool any = false;
    char *pattern = before.name ? text("%s/plots/runs/*/lab%02d.json", root, lab.number)
                                : text("%s/plots/runs/*/%s.json", root, lab.after);
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        json_t *old = json_load_file(found.gl_pathv[i], 0, NULL);
        const char *runtime = json_string_value(at(old, "runtime")), *shape;
        if (!runtime || strcmp(runtime, "gpu") != 0)
            continue;
        any = true;
        json_t *one;
        if (before.name) {
            label_recorded(old, at(old, "source_hashes"));
            json_object_foreach(at(old, "speedup"), shape, one)
            {
                show_speedup(shape, one, "    ");
            }
        } else {
            label_recorded(old, json_pack("{s:O?}", lab.after, at(old, "source_hash")));
            json_object_foreach(at(old, "shapes"), shape, one)
            {
                if (at(one, "timing"))
                    printf("    %-9s p50 %.1f us, p90 %.1f us, %.2f TFLOP/s\n", shape,
                           number_at(one, "timing.p50_us"), number_at(one, "timing.p90_us"),
                           number_at(one, "tflops"));
            }
        }
    }
    if (!any)
        printf("  no record of a GPU in plots/runs yet\n");
    globfree(&found);
}

// FAST, VALID NEGATIVE or GREEN of a green lab.
static const char *speedup(void)
{
    heading(before.name ? "Speedup" : "Time");
    if (lab.why)
        printf("  promised because %s\n", lab.why);
    if (!on_gpu) {
        printf("  not measured: the simulator counts, it does not time\n");
        show_recorded();
        return "GREEN";
    }
    if (gates_failed) {
        printf("  not measured: a wrong program is not timed\n");
        return "RED";
    }
    json_t *said = json_object();
    int met = 0, missed = 0;
    if (!before.name) {
        struct child child;
        if (!child_start(&child, batch_command(&after, main_shape()),
                         environment(on_gpu, "/dev/null")))
            fail(EXIT_MACHINE, "cannot start %s: %s", after.name, strerror(errno));
        double time = child_batch(&child, BATCH_SECONDS);
        stop_child(&child, &after);
        if (time > 0)
            printf("  %-9s p50 %.1f us\n", main_shape(), time);
        json_object_set_new(record, "time", json_pack("{s:{s:f}}", main_shape(), "p50_us", time));
    }
    for (int i = 0; before.name && i < lab.promise_count; ++i) {
        const struct promise *promise = &lab.promises[i];
        if (!compare(promise, said))
            continue;
        json_t *one = json_object_get(said, promise->shape);
        show_speedup(promise->shape, one, "  ");
        met += strcmp(json_string_value(at(one, "verdict")), "met") == 0;
        missed += strcmp(json_string_value(at(one, "verdict")), "missed") == 0;
    }
    if (before.name) {
        printf("  %sp50 of each; median of %d alternated rounds, with its 95 %% interval%s\n",
               FAINT, lab.rounds, PLAIN);
        json_object_set_new(record, "speedup", said);
    }
    return missed ? "VALID NEGATIVE" : met && met == lab.promise_count ? "FAST" : "GREEN";
}

// ---- Evidence -----------------------------------------------------------------------------------

static void show_counts(const struct counter *counters)
{
    for (const struct counter *c = counters; c->key; ++c) {
        double a = before.counts ? number_at(before.counts, c->key) : NAN;
        double b = number_at(after.counts, c->key);
        if (isnan(b))
            continue;
        printf("  %-28s", c->title);
        if (before.counts)
            printf(" %15s", grouped(a));
        printf(" %15s", grouped(b));
        if (before.counts && a > 0)
            printf("  x %.2f", b / a);
        printf("\n");
    }
}

static void show_floors(const struct side *side)
{
    static const char *const units[] = {"tensor", "exp", "shared", "issue", "dram"};
    json_t *floors = at(side->counts, "l4_floors_us");
    if (!floors)
        return;
    printf("  %-20s", side->name);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; ++i)
        printf(" %8.1f", number_at(floors, units[i]));
    const char *binding = json_string_value(at(floors, "binding"));
    printf("  %s\n", binding ? binding : "?");
}

static void profile(struct side *side, char **why)
{
    char *command[] = {side->path, "--shapes", (char *)main_shape(), "--seeds", "0", "--no-timing",
                       "--quiet",  NULL};
    doing("profiling %s", side->name);
    side->counts = ncu_read(command, environment(true, "/dev/null"), why);
    done();
}

// One launch in the simulator, of a program that is known to be right.
static void count(struct side *side)
{
    char *counts = text("%s/%s-counts.json", folder, side->name);
    char *command[] = {side->path, "--shapes", (char *)main_shape(), "--seeds", "0", "--no-timing",
                       "--quiet",  NULL};
    doing("counting %s in the simulator", side->name);
    struct output output = run(command, environment(false, counts), RUN_SECONDS, false);
    done();
    json_t *report = json_load_file(counts, 0, NULL);
    side->counts = report ? simulator_read(report) : NULL;
    unlink(counts);
    output_free(&output);
}

static void evidence(void)
{
    bool profiled = false;
    heading("Evidence");
    if (on_gpu && !gates_failed) {
        char *why = NULL;
        if (before.name)
            profile(&before, &why);
        if (!why)
            profile(&after, &why);
        profiled = !why;
        if (why) { // then the simulator counts what the same executable does
            printf("  %s\n", why);
            json_decref(before.counts);
            before.counts = NULL;
            if (before.name)
                count(&before);
            count(&after);
        }
    }
    if (!after.counts) {
        printf("  none%s\n", gates_failed ? ": a wrong program is not profiled" : "");
        return;
    }
    printf("  %-28s", profiled ? "Nsight Compute" : "simulator");
    if (before.counts)
        printf(" %15.15s", before.name);
    printf(" %15.15s  %s, one launch\n", after.name, main_shape());
    show_counts(profiled ? ncu_counters : simulator_counters);
    if (!profiled && at(after.counts, "l4_floors_us")) {
        printf("  %-20s %8s %8s %8s %8s %8s  binding\n", "floors on an L4, us", "tensor", "exp",
               "shared", "issue", "DRAM");
        if (before.counts)
            show_floors(&before);
        show_floors(&after);
        printf("  %sbounds from these counts and an L4's rates, no prediction of a time%s\n", FAINT,
               PLAIN);
    }
    json_t *by_program = json_object();
    if (before.counts)
        json_object_set(by_program, before.name, before.counts);
    json_object_set(by_program, after.name, after.counts);
    json_object_set_new(record, "evidence",
                        json_pack("{s:o}", profiled ? "ncu" : "simulator", by_program));
}

// ---- The record and the chart -------------------------------------------------------------------

static void begin_record(void)
{
    char date[32];
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
    char *command[] = {"git",     "-C",          root,          "describe", "--always",
                       "--dirty", "--abbrev=12", "--exclude=*", NULL};
    struct output git = run(command, NULL, 10, false);
    gates_said = json_array();
    record =
        json_pack("{s:i, s:i, s:s, s:s, s:s, s:s*, s:s}", "record", 1, "lab", lab.number, "date",
                  date, "git_commit", git.status == 0 ? last_line(git.out) : "unknown", "runtime",
                  on_gpu ? "gpu" : "simulator", "before", before.name, "after", after.name);
    output_free(&git);
}

static void finish(const char *verdict)
{
    json_t *hashes = json_object();
    if (before.hash)
        json_object_set_new(hashes, before.name, json_string(before.hash));
    if (after.hash)
        json_object_set_new(hashes, after.name, json_string(after.hash));
    json_object_set_new(record, "source_hashes", hashes);
    json_object_set(record, "device", after.device);
    json_object_set(record, "gates", gates_said);
    json_object_set_new(record, "verdict", json_string(verdict));
    char *path = lab.record ? text("%s", lab.record) : text("%s/record.json", folder);
    write_json(record, path);

    char *render = text("%s/plots/render", root), *chart = text("%s/chart.svg", folder);
    if (before.name && access(render, X_OK) == 0) {
        char *command[] = {render, "lab", text("%d", lab.number), path, chart, NULL};
        struct output output = run(command, NULL, 60, false);
        if (output.status == 0)
            printf("  chart    %s\n", chart);
        else
            printf("  no chart: %s\n", last_line(output.err));
        output_free(&output);
    }
    printf("  record   %s\n", path);
}

// ---- Main ---------------------------------------------------------------------------------------

// A lab whose program is plain C and checks itself: chapter 1's.
static void run_plain(void)
{
    char *own = text("%s/program.json", folder);
    char *command[] = {after.path, "--record", own, NULL};
    struct output output = run(command, NULL, RUN_SECONDS, true);
    fputs(output.err, stderr);
    note_gate("correctness", text("%s checks itself", after.name), json_integer(output.status),
              "exit status 0", output.status == 0);
    json_t *said = json_load_file(own, 0, NULL);
    if (at(said, "numbers"))
        json_object_set(record, "numbers", at(said, "numbers"));
    if (at(said, "source_hash"))
        after.hash = text("%s", json_string_value(at(said, "source_hash")));
    unlink(own);
}

static const char *explain(const char *verdict)
{
    if (strcmp(verdict, "RED") == 0)
        return gates_failed == 1 ? "a gate failed" : text("%d gates failed", gates_failed);
    if (strcmp(verdict, "FAST") == 0)
        return "every gate passed, and the whole interval keeps the promise";
    if (strcmp(verdict, "VALID NEGATIVE") == 0)
        return "right, and surely slower than promised: a result to write up";
    return !before.name || !on_gpu
               ? "every gate passed"
               : "every gate passed; too noisy to tell whether the promise is kept";
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    parse_options(argc, argv);
    root = find_root();
    folder = text("%s/build/lab%02d", root, lab.number);
    if (mkdir(folder, 0777) && errno != EEXIST)
        fail(EXIT_MACHINE, "cannot make %s: %s", folder, strerror(errno));
    if (lab.record) { // known now, not after a minute's work
        char *copy = text("%s", lab.record), *slash = strrchr(copy, '/');
        if (slash)
            slash[slash == copy] = '\0';
        if (access(slash ? copy : ".", W_OK))
            fail(EXIT_MACHINE, "--record %s: %s", lab.record, strerror(errno));
    }
    on_gpu = lab.on ? strcmp(lab.on, "gpu") == 0 : !lab.plain && gpu_here();

    if (lab.student)
        compile_student(&after, lab.student);
    else
        find_program(&after, lab.after);
    if (lab.before)
        find_program(&before, lab.before);
    begin_record();
    printf("%sLab %d%s%s%s\n", BOLD, lab.number, lab.title ? ": " : "", lab.title ? lab.title : "",
           PLAIN);
    printf("%s%s%s%s\n", after.name, before.name ? " against " : "", before.name ? before.name : "",
           lab.plain ? ""
           : on_gpu  ? ", on the GPU"
           : lab.on  ? ", in the simulator"
                     : ", in the simulator: no GPU here");

    const char *verdict = "GREEN";
    if (lab.plain) {
        run_plain();
    } else {
        resources();
        correctness();
        verdict = speedup();
        evidence();
    }
    if (gates_failed)
        verdict = "RED";
    printf("\n%s%s%s%s: %s\n", BOLD, gates_failed ? RED_INK : GREEN_INK, verdict, PLAIN,
           explain(verdict));
    finish(verdict);
    return gates_failed ? EXIT_RED : EXIT_GREEN;
}
