// arguments.c: reads the options of the script in labs/, and those of its user.
#include "lab.h"

#include "workbench/stages.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lab lab = {
    .seeds = "0,1,2", .rounds = 30, .iterations = 20, .hint = -1, .film_shape = "1x1x96"};

static const char *shapes = "small,1x2x77,mission"; // 77 rows do not fill a tile
// Shapes that a script adds to the usual ones by --also; --shapes takes them out. NULL: none.
static const char *also;

// The gate of a resource that the driver knows; for any other, fails.
static struct gate *gate_of(const char *option, const char *name)
{
    int found = resource_find(name, LABS);
    if (found < 0)
        fail(EXIT_USAGE, "%s: \"%s\" is none of %s", option, name, resource_names(LABS));
    return &lab.gates[found];
}

// Takes --gate, a limit that judges, or --show, a limit that is only shown.
static void take_gate(const char *option, const char *word)
{
    char name[32], relation[3], end;
    struct limit limit;
    if (sscanf(word, "%31s %2[<>=] %lf %c", name, relation, &limit.value, &end) != 3)
        fail(EXIT_USAGE, "%s: write 'registers <= 128', not '%s'", option, word);
    if (!relation_read(relation, &limit.relation))
        fail(EXIT_USAGE, "%s: \"%s\" is none of <=, >=, ==", option, relation);
    *gate_of(option, name) = (struct gate){limit, strcmp(option, "--show") != 0};
}

static void drop_gate(const char *option, const char *name)
{
    gate_of(option, name)->limit.relation = NO_LIMIT;
}

static void take_usual_gates(void)
{
    lab.gates = need(calloc((size_t)resource_count, sizeof *lab.gates));
    for (int i = 0; i < resource_count; ++i) {
        char *usual = text("%s", resources[i].usual);
        bool shown = *usual == '(';
        usual[strcspn(usual, ")")] = '\0';
        if (*usual)
            take_gate(shown ? "--show" : "--gate", text("%s %s", resources[i].name, usual + shown));
    }
}

static void take_promise(const char *option, const char *word) // --promise or --goal
{
    bool goal = strcmp(option, "--goal") == 0;
    int *count = goal ? &lab.goal_count : &lab.promise_count;
    struct promise *promise = &(goal ? lab.goals : lab.promises)[*count];
    char end;
    if (*count == MAX_PROMISES ||
        sscanf(word, "%31[^:]:%lf %c", promise->shape, &promise->ratio, &end) != 2)
        fail(EXIT_USAGE, "%s: write mission:%s, not '%s'", option, goal ? "50" : "1.3", word);
    ++*count;
}

// Calls `visit` for each word of a list with commas; an empty word is an error.
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
    if (lab.shape_count == MAX_SHAPES)
        fail(EXIT_USAGE, "%s: at most %d shapes", option, MAX_SHAPES);
    if (!shape_parse(word, &lab.shapes[lab.shape_count++], why, sizeof why))
        fail(EXIT_USAGE, "%s: %s", option, why);
}

// Fails unless a word is a seed: a number of up to 64 bits, as in the grader's reports.
static void check_seed(const char *option, const char *word)
{
    char *end;
    errno = 0;
    (void)strtoull(word, &end, 10);
    if (*word < '0' || *word > '9' || *end || errno)
        fail(EXIT_USAGE, "%s: \"%s\" is no whole number from 0 to %llu", option, word, ULLONG_MAX);
}

static void check_input(const char *option, const char *word)
{
    for (enum input_kind kind = 0; kind < INPUT_KINDS_DRAWN; ++kind)
        if (strcmp(word, input_kind_name(kind)) == 0)
            return;
    fail(EXIT_USAGE, "%s: \"%s\" is no kind of input: normal, mean, peaky, sink, rising or falling",
         option, word);
}

static void check_film(void)
{
    char why[256];
    struct shape shape;
    unsigned x, y, z;
    int end = 0;
    if (!lab.film) {
        if (lab.film_cta || lab.film_values)
            fail(EXIT_USAGE, "--film-%s goes with --film FILE.html",
                 lab.film_cta ? "cta" : "values");
        return;
    }
    if (lab.plain)
        fail(EXIT_USAGE, "--film: %s has no kernel to watch", lab.after);
    if (lab.on && strcmp(lab.on, "gpu") == 0)
        fail(EXIT_USAGE, "--film records in the simulator: leave out --on gpu");
    if (lab.record || lab.profile)
        fail(EXIT_USAGE, "--film writes a page and judges nothing: leave out --%s",
             lab.record ? "record" : "profile");
    if (!shape_parse(lab.film_shape, &shape, why, sizeof why))
        fail(EXIT_USAGE, "--film-shape: %s", why);
    if (lab.film_cta &&
        (sscanf(lab.film_cta, "%u,%u,%u%n", &x, &y, &z, &end) != 3 || lab.film_cta[end]))
        fail(EXIT_USAGE, "--film-cta: \"%s\" is no CTA: X,Y,Z", lab.film_cta);
}

// Finds the title and the program of the lab's stage.
static void find_stage(void)
{
    static struct stage stage;
    char why[512];
    if (!stage_read(root, lab.number, &stage, why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    if (!*stage.program && !lab.after)
        fail(EXIT_MACHINE, "chapters/stages.tsv: stage %d has no program to judge", lab.number);
    lab.title = stage.name;
    lab.plain = !stage.has_kernel && !lab.after;
    if (!lab.after)
        lab.after = stage.program;
}

// If the lab has a search, a student's program in C is judged as a search.
static void choose_search(const char *student)
{
    const char *dot = student ? strrchr(student, '.') : NULL;
    if (!lab.search || !dot || strcmp(dot, ".c") != 0)
        return;
    lab.only_search = lab.plain = true;
    lab.after = lab.search;
    lab.before = NULL;
}

static void take_lab(const char *option, const char *value)
{
    lab.number = whole(option, value, 1, 99);
    speaker = text("lab%d", lab.number);
}

static void take_shapes(const char *option, const char *value)
{
    (void)option;
    shapes = value;
    also = NULL;
}

static void take_without(const char *option, const char *value)
{
    each(option, value, drop_gate);
}

static void take_compared(const char *option, const char *value)
{
    take_promise(option, text("%s:0", value));
}

static void take_quick(const char *option, const char *value)
{
    (void)option, (void)value;
    lab.seeds = "0";
    lab.rounds = 8;
}

static bool hint, help;
static const struct option_row rows[] = {
    // Options for the scripts labs/labNN:
    {"lab", "N", NULL, .call = take_lab},
    {"program", "PROGRAM", NULL, .word = &lab.after},
    {"model", NULL, NULL, .flag = &lab.model},
    {"before", "PROGRAM", NULL, .word = &lab.before},
    {"also", "LIST", NULL, .word = &also},
    {"gate", "RULE", NULL, .call = take_gate},
    {"show", "RULE", NULL, .call = take_gate},
    {"without", "LIST", NULL, .call = take_without},
    {"promise", "SHAPE:RATIO", NULL, .call = take_promise},
    {"goal", "SHAPE:US", NULL, .call = take_promise},
    {"compare", "SHAPE", NULL, .call = take_compared},
    {"why", "TEXT", NULL, .word = &lab.why},
    {"search", "PROGRAM", NULL, .word = &lab.search},
    {"journal", "FILE", NULL, .word = &lab.journal},
    // Options for readers, listed by --help:
    {"on", "gpu|simulator", "where to run (default: on a GPU where there is one)", .word = &lab.on},
    {"shapes", "LIST", "small, mission, long, huge or BxHxS", .call = take_shapes},
    {"seeds", "LIST", "of the random inputs", .word = &lab.seeds},
    {"inputs", "LIST",
     "normal, mean, peaky, sink, rising, falling (default: the\nfirst three; in the simulator "
     "normal)",
     .word = &lab.inputs},
    {"rounds", "N", "of the comparison on a GPU, at least 6", .number = &lab.rounds, .least = 6,
     .most = 100000},
    {"quick", NULL, "one seed and 8 rounds", .call = take_quick},
    {"profile", NULL, "no verdict: lines with what the simulator counts there",
     .flag = &lab.profile},
    {"film", "FILE.html",
     "no verdict: a page in which you watch one CTA step by\n"
     "step; it opens at a race or a fault, if there is one",
     .word = &lab.film},
    {"film-shape", "SHAPE", "of what is filmed", .word = &lab.film_shape},
    {"film-values", "LINES",
     "what the registers hold that these lines write:\n20 or my.cu:20, with commas between",
     .word = &lab.film_values},
    {"film-cta", "X,Y,Z", "the CTA (default: one with a fault, else 0,0,0)", .word = &lab.film_cta},
    {"all", NULL, "of your program every table, too: resources, outputs,\ntimes, counts",
     .flag = &lab.all},
    {"watch", NULL, "judges your program again whenever you save it", .flag = &lab.watch},
    {"hint", NULL, "one more hint; --hint N: for task N of the lab's sheet", .flag = &hint},
    {"record", "FILE",
     "where to write the record (default\n"
     "build/labNN/record.json, of your my.cu\n"
     "build/labNN/my/record.json)",
     .word = &lab.record},
    {"help", NULL, "this text", .flag = &help},
    {0},
};

static void usage(void)
{
    printf("usage: ./lab%d [options] [%s]\n\n"
           "Judges chapter %d's program%s%s, or yours instead of it.\n%s\n",
           lab.number, lab.search ? "my.c|my.cu" : "my.cu", lab.number,
           lab.before ? " against " : "", lab.before ? lab.before : "",
           lab.search ? "A my.c is a search, judged by replays.\n" : "");
    options_help(rows);
    printf("\nDefaults: --shapes %s --seeds %s --rounds %d\n"
           "--film-shape %s\n\n"
           "Exit status: 0 GREEN, RIGHT, FAST or VALID NEGATIVE; 1 RED; 2 bad usage;\n"
           "3 the machine failed.\n",
           shapes, lab.seeds, lab.rounds, lab.film_shape);
}

void parse_options(int argc, char **argv)
{
    take_usual_gates();
    int first = options_read(argc, argv, rows, false);
    if (hint)
        lab.hint = 0;
    if (!lab.number)
        fail(EXIT_USAGE, "--lab is needed; labs/lab03 shows how");
    find_stage();
    choose_search(argv[first]);
    if (help) {
        usage();
        exit(0);
    }
    if (also)
        each("--also", also, add_shape);
    each("--shapes", shapes, add_shape);
    each("--seeds", lab.seeds, check_seed);
    if (lab.inputs)
        each("--inputs", lab.inputs, check_input);
    if (lab.on && strcmp(lab.on, "gpu") != 0 && strcmp(lab.on, "simulator") != 0)
        fail(EXIT_USAGE, "--on: \"%s\" is neither gpu nor simulator", lab.on);
    if (lab.profile && lab.plain)
        fail(EXIT_USAGE, "--profile: %s has no kernel to count", lab.after);
    if (lab.profile && lab.on && strcmp(lab.on, "gpu") == 0)
        fail(EXIT_USAGE, "--profile counts in the simulator: leave out --on gpu");
    if (lab.profile && lab.record)
        fail(EXIT_USAGE, "--profile prints lines and judges nothing: leave out --record");
    check_film();
    if (argc - first > 1)
        fail(EXIT_USAGE, "one program at a time: %s or %s", argv[first], argv[first + 1]);
    if (lab.hint == 0) {
        if (argv[first])
            lab.hint = whole("--hint", argv[first], 1, 99);
        return;
    }
    lab.student = argv[first];
    if (lab.watch && !lab.student)
        fail(EXIT_USAGE, "--watch: which program? ./lab%d --watch my.cu", lab.number);
    if (lab.student && access(lab.student, R_OK))
        fail(EXIT_USAGE, "%s: %s", lab.student, strerror(errno));
}
