// options.c: the command line of a chapter's program.
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char *program_name = "workbench";

const char *timing_mode_name(enum timing_mode mode)
{
    static const char *const names[TIMING_MODES] = {"graph", "plain", "cold"};
    return names[mode];
}

void complain(const char *format, ...)
{
    va_list arguments;

    fflush(stdout); // keeps this line in order with those on stdout
    fprintf(stderr, "%s: ", program_name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static void help(const struct program *program)
{
    printf("Usage: %s [OPTION]...\n\n%s.\n\n", program->name, program->title);
    puts("Runs the kernel on every shape, input and seed asked for, compares each output\n"
         "with a double-precision reference and, when all of them are right, times it.\n"
         "\n"
         "What to run\n"
         "  --shapes LIST     small (1x8x128), mission (2x8x512), long (2x8x2048),\n"
         "                    huge (4x16x8192) or BATCHxHEADSxSEQ_LEN such as 2x8x517;\n"
         "                    4x8x512r1: lengths from 1 to 512, drawn by the seed 1;\n"
         "                    2x8x512q4p16: a cache, asked by 4 query heads for each of\n"
         "                    its 8 heads, in pages of 16 tokens; 2x8x512q4p16r1, too;\n"
         "                    2x8x512q4p16s32: the 32 newest tokens of each sequence\n"
         "                    ask; 2x8x512q4p16s32r1, too: lengths and numbers of tokens\n"
         "                    drawn; 2x8x512q4p16s32d128: heads of 128 elements;\n"
         "                    default: small,mission; of a program that asks a cache\n"
         "                    1x2x512q4p16,2x2x200q4p32r1, with a prompt\n"
         "                    1x2x512q4p16s32,2x2x200q4p32s40r1\n"
         "  --seeds LIST      seeds of the inputs; default: 0,1,2\n"
         "  --inputs LIST     normal: N(0, 1); mean: each channel off zero; peaky: a few\n"
         "                    keys carry each row; default: all three, or in the\n"
         "                    simulator, which is slow, normal. Besides, sink: the first\n"
         "                    key carries each row; rising, falling: scores grow, or\n"
         "                    shrink, along the keys; needle: each query is a copy of\n"
         "                    one key, drawn for it, and V is off zero; model: a\n"
         "                    language model's, of the layers that --seeds names\n"
         "  --tensors FOLDER  where these are, as build/ask --tensors writes them\n"
         "  --no-timing       check only\n"
         "\n"
         "How to time (on a GPU; the simulator has no time to tell)\n"
         "  --iters N         samples; default: 100\n"
         "  --warmup N        samples thrown away first; default: 20\n"
         "  --rotations N     input sets that the launches take in turn; default: 4\n"
         "  --time-inputs LIST\n"
         "                    kinds of inputs that are timed, one after the other;\n"
         "                    default: normal\n"
         "  --cold-l2         overwrite the L2 cache before each launch\n"
         "  --plain           launch after launch, without a CUDA graph\n"
         "  --on-demand       check, then time --iters samples for each line of standard\n"
         "                    input and answer {\"p50_us\":..,\"mean_us\":..}; at its end,\n"
         "                    check the outputs again. One shape; default: mission. A\n"
         "                    line \"graph 5\", \"plain 5\" or \"cold 5\" wants 5 samples so\n"
         "\n"
         "What to leave behind\n"
         "  --record FILE     everything below as JSON\n"
         "  --summaries DIR   the same in brief: correctness_summary.json,\n"
         "                    perf_baseline.json, build_meta.json\n"
         "  --outputs DIR     each output as SHAPE-INPUT-seedN.half, raw\n"
         "  --against DIR     compare with outputs left there before (by another machine,\n"
         "                    say); told, not judged\n"
         "\n"
         "  --launch-only     launch once for each shape, on addresses where nothing is:\n"
         "                    for the grader, who only wants to know how; of a cache\n"
         "                    prints its scratch's bytes, and where a page has what\n"
         "  --resources       print registers, shared memory and occupancy as JSON; no run\n"
         "  --quiet           only failures and the last line\n"
         "  --help            this\n"
         "\n"
         "Exit status: 0 all gates passed, 1 a gate failed, 2 bad usage, 3 the machine\n"
         "failed (no device, no memory, a file that cannot be written).");
}

static bool parse_whole(const char *text, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool add_shape(struct options *o, const char *item, char *why, size_t size)
{
    if (o->shape_count == MAX_SHAPES) {
        snprintf(why, size, "more than %d shapes", MAX_SHAPES);
        return false;
    }
    if (!shape_parse(item, &o->shapes[o->shape_count], why, size))
        return false;
    for (int i = 0; i < o->shape_count; ++i) {
        if (strcmp(o->shapes[i].name, o->shapes[o->shape_count].name) == 0) {
            snprintf(why, size, "\"%s\" is there twice", item);
            return false;
        }
    }
    ++o->shape_count;
    return true;
}

static bool add_seed(struct options *o, const char *item, char *why, size_t size)
{
    uint64_t seed;

    if (o->seed_count == MAX_SEEDS) {
        snprintf(why, size, "more than %d seeds", MAX_SEEDS);
        return false;
    }
    if (!parse_whole(item, &seed)) {
        snprintf(why, size, "\"%s\" is no seed: write a whole number from 0 up", item);
        return false;
    }
    for (int i = 0; i < o->seed_count; ++i) {
        if (o->seeds[i] == seed) {
            snprintf(why, size, "\"%s\" is there twice", item);
            return false;
        }
    }
    o->seeds[o->seed_count++] = seed;
    return true;
}

static bool add_kind(const char *item, enum input_kind *kinds, int *count, char *why, size_t size)
{
    for (enum input_kind kind = 0; kind < INPUT_KINDS_ALL; ++kind) {
        if (strcmp(item, input_kind_name(kind)) != 0)
            continue;
        for (int i = 0; i < *count; ++i) {
            if (kinds[i] == kind) {
                snprintf(why, size, "\"%s\" is there twice", item);
                return false;
            }
        }
        kinds[(*count)++] = kind;
        return true;
    }
    snprintf(
        why, size,
        "\"%s\" is no input: write normal, mean, peaky, sink, rising, falling, needle or model",
        item);
    return false;
}

static bool add_input(struct options *o, const char *item, char *why, size_t size)
{
    return add_kind(item, o->inputs, &o->input_count, why, size);
}

static bool add_timed(struct options *o, const char *item, char *why, size_t size)
{
    return add_kind(item, o->timed, &o->timed_count, why, size);
}

// Calls `add` for each item of a list with commas. False: an item is empty, too long or refused by
// `add`; `why` has one line.
static bool parse_list(struct options *o, const char *text,
                       bool (*add)(struct options *, const char *, char *, size_t), char *why,
                       size_t size)
{
    for (const char *at = text;; ++at) {
        char item[64];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof item) {
            snprintf(why, size, "\"%s\": %s", text,
                     length == 0 ? "an item of the list is empty" : "an item is too long");
            return false;
        }
        memcpy(item, at, length);
        item[length] = '\0';
        if (!add(o, item, why, size))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

static bool parse_count(const char *text, int least, int most, int *value, char *why, size_t size)
{
    uint64_t parsed;

    if (!parse_whole(text, &parsed) || parsed < (uint64_t)least || parsed > (uint64_t)most) {
        snprintf(why, size, "\"%s\": write a whole number from %d to %d", text, least, most);
        return false;
    }
    *value = (int)parsed;
    return true;
}

static void set_defaults(const struct program *program, struct options *o)
{
    static const char *const first[] = {"small", "2x2x200q4p32r1", "2x2x200q4p32s40r1"};
    static const char *const then[] = {"mission", "1x2x512q4p16", "1x2x512q4p16s32"};
    char why[1];

    if (o->shape_count == 0) {
        int kind = program->launch ? 0 : program->launch_cache ? 1 : 2;
        if (!o->on_demand)
            add_shape(o, first[kind], why, sizeof why);
        add_shape(o, then[kind], why, sizeof why);
    }
    if (o->seed_count == 0)
        for (int i = 0; i < 3; ++i)
            o->seeds[o->seed_count++] = (uint64_t)i;
    if (o->timed_count == 0)
        o->timed[o->timed_count++] = INPUT_NORMAL;
}

static bool names_model(const enum input_kind *kinds, int count)
{
    for (int i = 0; i < count; ++i)
        if (kinds[i] == INPUT_MODEL)
            return true;
    return false;
}

// Checks, before anything runs, that the layers of a model that --seeds names exist. If they are
// timed, there are at most as many rotations as layers, since no other layers are drawn.
static bool check_tensors(struct options *o)
{
    char why[4400];
    bool timed = names_model(o->timed, o->timed_count);

    if (!timed && !names_model(o->inputs, o->input_count))
        return true;
    if (!tensors_folder) {
        complain("--inputs: model: in which folder? Add --tensors FOLDER");
        return false;
    }
    if (timed && (o->timed_count > 1 || !names_model(o->inputs, o->input_count))) {
        complain("--time-inputs: model is timed alone, and of --inputs, too");
        return false;
    }
    for (int i = 0; i < o->shape_count * o->seed_count; ++i) {
        if (!tensors_fit(&o->shapes[i / o->seed_count], o->seeds[i % o->seed_count], why,
                         sizeof why)) {
            complain("--tensors: %s", why);
            return false;
        }
    }
    if (timed && o->seed_count < o->rotations)
        o->rotations = o->seed_count;
    return true;
}

bool options_parse(const struct program *program, int argc, char **argv, struct options *o,
                   int *status)
{
    enum {
        SHAPES = 256,
        SEEDS,
        INPUTS,
        TIME_INPUTS,
        TENSORS,
        ITERS,
        WARMUP,
        ROTATIONS,
        COLD_L2,
        PLAIN,
        NO_TIMING,
        RECORD,
        SUMMARIES,
        OUTPUTS,
        AGAINST,
        ON_DEMAND,
        QUIET,
        RESOURCES,
        LAUNCH_ONLY,
        HELP
    };
    static const struct option known[] = {
        {"shapes", required_argument, NULL, SHAPES},
        {"seeds", required_argument, NULL, SEEDS},
        {"inputs", required_argument, NULL, INPUTS},
        {"time-inputs", required_argument, NULL, TIME_INPUTS},
        {"tensors", required_argument, NULL, TENSORS},
        {"iters", required_argument, NULL, ITERS},
        {"warmup", required_argument, NULL, WARMUP},
        {"rotations", required_argument, NULL, ROTATIONS},
        {"cold-l2", no_argument, NULL, COLD_L2},
        {"plain", no_argument, NULL, PLAIN},
        {"no-timing", no_argument, NULL, NO_TIMING},
        {"record", required_argument, NULL, RECORD},
        {"summaries", required_argument, NULL, SUMMARIES},
        {"outputs", required_argument, NULL, OUTPUTS},
        {"against", required_argument, NULL, AGAINST},
        {"on-demand", no_argument, NULL, ON_DEMAND},
        {"quiet", no_argument, NULL, QUIET},
        {"resources", no_argument, NULL, RESOURCES},
        {"launch-only", no_argument, NULL, LAUNCH_ONLY},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    char why[256];
    bool good = true;

    memset(o, 0, sizeof *o);
    o->iters = 100;
    o->warmup = 20;
    o->rotations = 4;
    o->timing = true;
    *status = EXIT_USAGE;
    optind = 0; // makes getopt start from the beginning
    for (int option, at = -1; good && (option = getopt_long(argc, argv, "+:", known, &at)) != -1;) {
        switch (option) {
        case SHAPES: good = parse_list(o, optarg, add_shape, why, sizeof why); break;
        case SEEDS: good = parse_list(o, optarg, add_seed, why, sizeof why); break;
        case INPUTS: good = parse_list(o, optarg, add_input, why, sizeof why); break;
        case TIME_INPUTS: good = parse_list(o, optarg, add_timed, why, sizeof why); break;
        case TENSORS: tensors_folder = optarg; break;
        case ITERS: good = parse_count(optarg, 1, 1000000, &o->iters, why, sizeof why); break;
        case WARMUP: good = parse_count(optarg, 0, 1000000, &o->warmup, why, sizeof why); break;
        case ROTATIONS:
            good = parse_count(optarg, 1, MAX_ROTATIONS, &o->rotations, why, sizeof why);
            break;
        case COLD_L2:
        case PLAIN:
            good = o->mode == TIME_GRAPH;
            o->mode = option == PLAIN ? TIME_PLAIN : TIME_COLD;
            snprintf(why, sizeof why, "--cold-l2 and --plain exclude each other");
            break;
        case NO_TIMING: o->timing = false; break;
        case RECORD: o->record = optarg; break;
        case SUMMARIES: o->summaries = optarg; break;
        case OUTPUTS: o->outputs = optarg; break;
        case AGAINST: o->against = optarg; break;
        case ON_DEMAND: o->on_demand = true; break;
        case QUIET: o->quiet = true; break;
        case RESOURCES: o->resources = true; break;
        case LAUNCH_ONLY: o->launch_only = true; break;
        case HELP:
            help(program);
            *status = EXIT_PASSED;
            return false;
        case ':': complain("%s needs a value (see --help)", argv[optind - 1]); return false;
        default:
            if (optopt >= SHAPES)
                complain("--%s takes no value (see --help)", known[optopt - SHAPES].name);
            else if (optopt != 0)
                complain("unknown option -%c (see --help)", optopt);
            else
                complain("unknown option %s (see --help)", argv[optind - 1]);
            return false;
        }
        if (!good)
            complain("--%s: %s", known[at].name, why);
    }
    if (!good)
        return false;
    if (optind < argc) {
        complain("what is \"%s\"? Every argument is an option (see --help)", argv[optind]);
        return false;
    }
    set_defaults(program, o);
    if (!check_tensors(o))
        return false;
    if (o->on_demand && !o->timing) {
        complain("--on-demand and --no-timing exclude each other");
        return false;
    }
    if (o->on_demand && o->timed_count != 1) {
        complain("--on-demand: times one kind of inputs, and --time-inputs names %d",
                 o->timed_count);
        return false;
    }
    if (o->on_demand && o->shape_count != 1) {
        complain("--on-demand: times one shape, and --shapes names %d", o->shape_count);
        return false;
    }
    return true;
}
