// main.c: the grader. labs/grade --lab N FILE|FOLDER
#include "judge.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "Usage: labs/grade --lab N FILE|FOLDER\n"
    "       labs/grade --lab N --board RESULT.json...\n"
    "\n"
    "Grades a submission for lab N, or every submission in a folder (each a .cu file, of a\n"
    "search a .c file, or a folder with one): compiles and runs it in a sandbox, on inputs\n"
    "of its own.\n"
    "\n"
    "  --secret FILE     what hidden cases are drawn from; or the variable GRADE_SECRET.\n"
    "                    At least 16 bytes, in one line. Default: build/grade/secret, made\n"
    "                    at the first run. The same secret gives the same grade\n"
    "  --json FILE       the result as JSON, every case in it\n"
    "  --gradescope FILE the result as Gradescope's results.json\n"
    "  --visibility NAME=WHEN,...  which items a student sees there, and when: visible,\n"
    "                    hidden, after_due_date or after_published; default: all visible\n"
    "  --out FOLDER      of a folder's results: grades.csv, summary.svg, a report each;\n"
    "                    default: build/grade/labNN\n"
    "  --one             FOLDER is one submission, as Gradescope hands it over, and no class\n"
    "  --board           who is fastest, of results that --json wrote on a GPU; a folder that\n"
    "                    is timed gets its board.md in any case\n"
    "  --deadline TIME   such as 2026-11-22T23:59: the gradebook gets the days that each is\n"
    "                    late, and what is left of its points\n"
    "  --times FILE      lines NAME,TIME: when each came; default: when its file was written\n"
    "  --late-days N     days that each may be late for nothing; default: 0\n"
    "  --penalty P       percent of the points that a further day costs; default: 10\n"
    "  --jobs N          submissions at a time; default: one a core. Never more than there is\n"
    "                    memory for, 4.25 GiB each\n"
    "  --wall SECONDS    that a submission may take by the clock, all that is done with it\n"
    "                    together; default: 900, more on a busy machine\n"
    "  --fresh           grade again what was graded before\n"
    "  --item NAME       of a folder that was graded before: this item anew, and all others\n"
    "                    as they were\n"
    "  --no-gpu          leave speed out, also where there is a GPU\n"
    "  --film FILE.html  of one submission: a page to watch its first race or fault in, if it\n"
    "                    has one at a small shape; a folder's reports have theirs beside them\n"
    "  --no-film         make no films, which take half a second for each that is wrong\n"
    "  --slurm           a folder on a cluster: one job array, which is collected; --jobs N\n"
    "                    is then how many elements may run at a time\n"
    "  --partition P, --time T, --gres G   as sbatch takes them, with --slurm: where; for\n"
    "                    how long, default 60 minutes a submission; and gpu:1, say,\n"
    "                    so that speed is timed\n"
    "  --unsafe-no-sandbox   run submissions as you: only for your own files\n"
    "\n"
    "Exit status: 0 graded (whatever the points), 2 bad usage, 3 the machine failed.";

// ---- Options ------------------------------------------------------------------------------------

static void check_slurm(void)
{
    if (!options.slurm && (options.partition || options.time_limit || options.gres))
        fail(EXIT_USAGE, "--partition, --time and --gres go with --slurm");
    if (options.cpu_only && options.gres)
        fail(EXIT_USAGE, "--no-gpu, or --gres?");
}

static void parse(int argc, char **argv)
{
    enum {
        LAB = 256,
        SECRET,
        JSON,
        GRADESCOPE,
        VISIBILITY,
        ONE,
        BOARD,
        DEADLINE,
        TIMES,
        LATE_DAYS,
        PENALTY,
        OUT,
        JOBS,
        WALL,
        FRESH,
        ITEM,
        NO_GPU,
        FILM,
        NO_FILM,
        UNSAFE,
        LAB_FILE,
        CHECK,
        PAIRS,
        QUICK,
        RECORD,
        HELP,
        SLURM,
        PARTITION,
        TIME,
        GRES,
        ELEMENT
    };
    static const struct option known[] = {
        {"lab", required_argument, NULL, LAB},
        {"secret", required_argument, NULL, SECRET},
        {"json", required_argument, NULL, JSON},
        {"gradescope", required_argument, NULL, GRADESCOPE},
        {"visibility", required_argument, NULL, VISIBILITY},
        {"out", required_argument, NULL, OUT},
        {"one", no_argument, NULL, ONE},
        {"board", no_argument, NULL, BOARD},
        {"deadline", required_argument, NULL, DEADLINE},
        {"times", required_argument, NULL, TIMES},
        {"late-days", required_argument, NULL, LATE_DAYS},
        {"penalty", required_argument, NULL, PENALTY},
        {"jobs", required_argument, NULL, JOBS},
        {"wall", required_argument, NULL, WALL},
        {"fresh", no_argument, NULL, FRESH},
        {"item", required_argument, NULL, ITEM},
        {"no-gpu", no_argument, NULL, NO_GPU},
        {"film", required_argument, NULL, FILM},
        {"no-film", no_argument, NULL, NO_FILM},
        {"unsafe-no-sandbox", no_argument, NULL, UNSAFE},
        {"lab-file", required_argument, NULL, LAB_FILE}, // for tests
        {"check", no_argument, NULL, CHECK},             // for labs/tools/check-labs
        {"pairs", required_argument, NULL, PAIRS},       // for the same
        {"quick", no_argument, NULL, QUICK},
        {"record", required_argument, NULL, RECORD},
        {"slurm", no_argument, NULL, SLURM},
        {"partition", required_argument, NULL, PARTITION},
        {"time", required_argument, NULL, TIME},
        {"gres", required_argument, NULL, GRES},
        {"element", required_argument, NULL, ELEMENT}, // what Slurm runs on a node
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };

    opterr = 0;
    options.penalty = -1;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case LAB: options.lab = whole("--lab", optarg, 2, 99); break;
        case SECRET: options.secret_file = optarg; break;
        case JSON: options.json = optarg; break;
        case GRADESCOPE: options.gradescope = optarg; break;
        case VISIBILITY: options.visibility = optarg; break;
        case OUT: options.out = optarg; break;
        case ONE: options.one = true; break;
        case BOARD: options.board = true; break;
        case DEADLINE: options.deadline = optarg; break;
        case TIMES: options.times = optarg; break;
        case LATE_DAYS: options.late_days = whole("--late-days", optarg, 0, 365); break;
        case PENALTY: options.penalty = whole("--penalty", optarg, 0, 100); break;
        case JOBS: options.jobs = whole("--jobs", optarg, 1, 256); break;
        case WALL: options.wall = whole("--wall", optarg, 1, 86400); break;
        case FRESH: options.fresh = true; break;
        case ITEM: options.item = optarg; break;
        case NO_GPU: options.cpu_only = true; break;
        case FILM: options.film = optarg; break;
        case NO_FILM: options.no_film = true; break;
        case UNSAFE: options.unsafe = true; break;
        case LAB_FILE: options.lab_file = optarg; break;
        case CHECK: options.check = true; break;
        case PAIRS:
            options.check = true;
            options.pairs = optarg;
            break;
        case QUICK: options.quick = true; break;
        case RECORD: options.record = optarg; break;
        case SLURM: options.slurm = true; break;
        case PARTITION: options.partition = optarg; break;
        case TIME: options.time_limit = optarg; break;
        case GRES: options.gres = optarg; break;
        case ELEMENT: find_root(); exit(slurm_element(optarg));
        case HELP: puts(help); exit(EXIT_GRADED);
        default: fail(EXIT_USAGE, "what is \"%s\"? (see --help)", argv[optind - 1]);
        }
    }
    if (!options.lab && !options.pairs)
        fail(EXIT_USAGE, "which lab? labs/grade --lab N FILE|FOLDER (see --help)");
    if (options.board ? optind == argc : optind + !options.check != argc)
        fail(EXIT_USAGE, "%s: labs/grade --lab N FILE|FOLDER (see --help)",
             optind == argc ? "which submission" : "one file or one folder");
    if (options.film && options.no_film)
        fail(EXIT_USAGE, "--film, or --no-film?");
    options.no_film = options.no_film || options.check;
    check_slurm();
    late_read();
}

// A number in a file that has nothing else, or after a word at the beginning of a line; `none` where there is
// no number.
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

// Bytes that are free on this machine, and to us by the control group's limit.
static double memory_free(void)
{
    const char *meminfo = getenv("GRADE_MEMINFO"); // of a test
    double most = INFINITY, used = 0, left;

    most = number_in("/sys/fs/cgroup/memory.max", "", most);
    used = number_in("/sys/fs/cgroup/memory.current", "", used) -
           number_in("/sys/fs/cgroup/memory.stat", "file ", 0); // which it gives back
    left = 1024 * number_in(meminfo ? meminfo : "/proc/meminfo", "MemAvailable:", INFINITY);
    return fmin(left, most - used);
}

// As many submissions at a time as there are cores for, or as were asked for; and as there is memory for,
// were each of them to take what it may.
static int jobs_that_fit(int wanted)
{
    const double each = 4.25; // GiB: what a compiler may take, and the files that it makes
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
    parse(argc, argv);
    const char *path = argv[optind];
    find_root();
    if (options.pairs)
        labs_read();
    else
        lab_read();
    check_visibility();
    check_item();
    if (options.board)
        return print_board(argv + optind, argc - optind);
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
