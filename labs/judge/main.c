// main.c: the grader. labs/grade --lab N FILE|FOLDER
#include "judge.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void take_pairs(const char *option, const char *value)
{
    (void)option;
    options.check = true;
    options.pairs = value;
}

// The option with which Slurm starts the judge on a node.
static void take_element(const char *option, const char *value)
{
    (void)option;
    find_root();
    exit(slurm_element(value));
}

static bool help;
static const struct option_row rows[] = {
    {"lab", "N", "which lab's sheet", .number = &options.lab, .least = 2, .most = 99},
    {"secret", "FILE",
     "what hidden cases are drawn from; or the variable GRADE_SECRET.\n"
     "At least 16 bytes, in one line. Default: build/grade/secret, made\n"
     "at the first run. The same secret gives the same grade",
     .word = &options.secret_file},
    {"json", "FILE", "the result as JSON, every case in it", .word = &options.json},
    {"gradescope", "FILE", "the result as Gradescope's results.json", .word = &options.gradescope},
    {"visibility", "NAME=WHEN,...",
     "which items a student sees there, and when: visible,\n"
     "hidden, after_due_date or after_published; default: all visible",
     .word = &options.visibility},
    {"out", "FOLDER",
     "of a folder's results: grades.csv, summary.svg, a report each;\n"
     "default: build/grade/labNN",
     .word = &options.out},
    {"one", NULL, "FOLDER is one submission, as Gradescope hands it over, and no class",
     .flag = &options.one},
    {"board", NULL,
     "who is fastest, of results that --json wrote on a GPU; a folder that\n"
     "is timed gets its board.md in any case",
     .flag = &options.board},
    {"deadline", "TIME",
     "such as 2026-11-22T23:59: the gradebook gets the days that each is\n"
     "late, and what is left of its points",
     .word = &options.deadline},
    {"times", "FILE", "lines NAME,TIME: when each came; default: when its file was written",
     .word = &options.times},
    {"late-days", "N", "days that each may be late for nothing; default: 0",
     .number = &options.late_days, .most = 365},
    {"penalty", "P", "percent of the points that a further day costs; default: 10",
     .number = &options.penalty, .most = 100},
    {"jobs", "N",
     "submissions at a time; default: one a core. Never more than there is\n"
     "memory for, 4.25 GiB each",
     .number = &options.jobs, .least = 1, .most = 256},
    {"wall", "SECONDS",
     "that a submission may take by the clock, all that is done with it\n"
     "together; default: 900, more on a busy machine",
     .number = &options.wall, .least = 1, .most = 86400},
    {"fresh", NULL, "grade again what was graded before", .flag = &options.fresh},
    {"item", "NAME",
     "of a folder that was graded before: this item anew, and all others\n"
     "as they were",
     .word = &options.item},
    {"no-gpu", NULL, "leave speed out, also where there is a GPU", .flag = &options.cpu_only},
    {"film", "FILE.html",
     "of one submission: a page to watch its first race or fault in, if it\n"
     "has one at a small shape; a folder's reports have theirs beside them",
     .word = &options.film},
    {"no-film", NULL, "make no films, which take half a second for each that is wrong",
     .flag = &options.no_film},
    {"slurm", NULL,
     "a folder on a cluster: one job array, which is collected; --jobs N\n"
     "is then how many elements may run at a time",
     .flag = &options.slurm},
    {"partition", "P", "as sbatch takes it, with --slurm: where", .word = &options.partition},
    {"time", "T", "as sbatch takes it: for how long, default 60 minutes a submission",
     .word = &options.time_limit},
    {"gres", "G", "as sbatch takes it: gpu:1, say, so that speed is timed", .word = &options.gres},
    {"unsafe-no-sandbox", NULL, "run submissions as you: only for your own files",
     .flag = &options.unsafe},
    {"lab-file", "FILE", NULL, .word = &options.lab_file}, // for tests
    {"check", NULL, NULL, .flag = &options.check},         // this and the next three are for
                                                           // labs/tools/check-labs
    {"pairs", "FOLDER", NULL, .call = take_pairs},
    {"quick", NULL, NULL, .flag = &options.quick},
    {"record", "FILE", NULL, .word = &options.record},
    {"element", "FOLDER", NULL, .call = take_element},
    {"help", NULL, "this text", .flag = &help},
    {0},
};

static void usage(void)
{
    puts("Usage: labs/grade --lab N FILE|FOLDER\n"
         "       labs/grade --lab N --board RESULT.json...\n"
         "\n"
         "Grades a submission for lab N, or every submission in a folder (each a .cu file, of a\n"
         "search a .c file, or a folder with one): compiles and runs it in a sandbox, on inputs\n"
         "of its own.\n");
    options_help(rows);
    puts("\nExit status: 0 graded (whatever the points), 2 bad usage, 3 the machine failed.");
}

static void check_slurm(void)
{
    if (!options.slurm && (options.partition || options.time_limit || options.gres))
        fail(EXIT_USAGE, "--partition, --time and --gres go with --slurm");
    if (options.cpu_only && options.gres)
        fail(EXIT_USAGE, "--no-gpu, or --gres?");
}

// Returns the index in argv at which the submissions begin.
static int parse(int argc, char **argv)
{
    options.penalty = -1;
    int first = options_read(argc, argv, rows, false);
    if (help) {
        usage();
        exit(EXIT_GRADED);
    }
    if (!options.lab && !options.pairs)
        fail(EXIT_USAGE, "which lab? labs/grade --lab N FILE|FOLDER (see --help)");
    if (options.board ? first == argc : first + !options.check != argc)
        fail(EXIT_USAGE, "%s: labs/grade --lab N FILE|FOLDER (see --help)",
             first == argc ? "which submission" : "one file or one folder");
    if (options.film && options.no_film)
        fail(EXIT_USAGE, "--film, or --no-film?");
    options.no_film = options.no_film || options.check;
    check_slurm();
    late_read();
    return first;
}

// Reads a number from a file: the only word in it, or what follows `word` at the beginning of a
// line; `none` if there is no number.
static double number_in(const char *path, const char *word, double none)
{
    FILE *file = fopen(path, "re");
    char line[256];
    double number = none;
    size_t length = strlen(word);

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, word, length) == 0 && sscanf(line + length, "%lf", &number) == 1)
            break;
    if (file)
        fclose(file);
    return number;
}

// The bytes of memory that are free on this machine or, if that is less, within the limit of this
// process's control group.
static double memory_free(void)
{
    const char *meminfo = getenv("GRADE_MEMINFO"); // set by a test
    double most = INFINITY, used = 0, left;

    most = number_in("/sys/fs/cgroup/memory.max", "", most);
    used = number_in("/sys/fs/cgroup/memory.current", "", used) -
           // Less the cache of files, which can be freed.
           number_in("/sys/fs/cgroup/memory.stat", "file ", 0);
    left = 1024 * number_in(meminfo ? meminfo : "/proc/meminfo", "MemAvailable:", INFINITY);
    return fmin(left, most - used);
}

// How many submissions are graded at a time: one for each core, or as many as were asked for; fewer
// if they might together need more memory than is free.
static int jobs_that_fit(int wanted)
{
    const double each = 4.25; // GiB, for a compiler and the files that it makes
    double fit = floor(memory_free() / (each * (1 << 30)));
    int jobs = fit < 1 ? 1 : fit < wanted ? (int)fit : wanted;

    if (jobs < wanted)
        printf("%d at a time, not %d: each may take %.4g GiB, and %.1f are free\n", jobs, wanted,
               each, memory_free() / (1 << 30));
    return jobs;
}

int main(int argc, char **argv)
{
    struct stat about;
    char *why = NULL;
    size_t bytes;

    signal(SIGPIPE, SIG_IGN);
    speaker = "grade";
    int first = parse(argc, argv);
    const char *path = argv[first];
    find_root();
    if (options.pairs)
        labs_read();
    else
        lab_read();
    check_visibility();
    check_item();
    if (options.board)
        return print_board(argv + first, argc - first);
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!options.check && stat(path, &about))
        fail(EXIT_USAGE, "there is no %s", cleaned(path, strlen(path)));
    if (options.one && (options.check || options.slurm || options.item || !S_ISDIR(about.st_mode)))
        fail(EXIT_USAGE,
             "--one is for a folder that is one submission, without --slurm and --item");
    if (options.slurm && (options.check || !S_ISDIR(about.st_mode)))
        fail(EXIT_USAGE, "--slurm is for a folder of submissions");
    if (options.item && (options.slurm || options.check || !S_ISDIR(about.st_mode)))
        fail(EXIT_USAGE, "--item is for a folder of submissions, without --slurm");
    if (options.unsafe && strpbrk(root, "',"))
        fail(EXIT_USAGE, "--unsafe: %s has a ' or a comma, which nvcc drops: move it", root);
    if (!options.slurm && !sandbox_works(&why))
        fail(EXIT_MACHINE, "%s", why);
    secrets_read();
    submission_tidy();
    bool class = options.check || (S_ISDIR(about.st_mode) && !options.one);
    if (class) {
        if (options.json || options.gradescope || options.film)
            fail(EXIT_USAGE, "--json, --gradescope and --film are for one submission; a folder's "
                             "results are in --out");
        if (options.slurm)
            return grade_folder(path);
        options.jobs = jobs_that_fit(options.jobs ? options.jobs : cores);
        options.threads = options.jobs < cores ? cores / options.jobs : 1;
        return options.pairs ? check_pairs() : options.check ? check_lab() : grade_folder(path);
    }
    options.threads = cores;
    const char *slash = strrchr(path, '/');
    char *name = clean_name(slash ? slash + 1 : path);
    char *source = submission_source(path, &bytes, &why);
    json_t *result = source ? grade(name, source, bytes, NULL) : not_graded(name, why);
    film_take(result, options.film);
    feedback_human(result, stdout);
    if (options.json)
        write_json(result, options.json, RESULT_FORMAT, "\n");
    if (options.gradescope)
        write_json(feedback_gradescope(result), options.gradescope, RESULT_FORMAT, "\n");
    return EXIT_GRADED;
}
