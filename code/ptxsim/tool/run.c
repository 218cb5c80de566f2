// run.c: ptxsim run: runs a program in the simulator, and prints its faults in the way of a
// compiler's errors, and at the end how many there were.
#include "tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINES = 20, TICK_MS = 100 };

// ---- Options ------------------------------------------------------------------------------------

static const struct setting {
    const char *option, *variable, *argument;
    uint64_t most;
    const char *what;
} settings[] = {
#define SETTING(option, variable, argument, most, what) {option, variable, argument, most, what},
#define HIDDEN(variable, what) {NULL, variable, NULL, 0, what},
#include "ptxsim/settings.def"
#undef SETTING
#undef HIDDEN
};
enum { SETTINGS = sizeof settings / sizeof *settings };

// Whether `word` is one of those in `words`, such as "off|memory|mine".
static bool is_among(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words;; ++at) {
        if (strncmp(at, word, length) == 0 && (at[length] == '|' || !at[length]))
            return length > 0;
        if (!(at = strchr(at, '|')))
            return false;
    }
}

// Sets the environment variable of a setting, for the program; fails if the value is not allowed.
static void set(const char *option, const char *value)
{
    const struct setting *s = settings;
    while (!s->option || strcmp(s->option, option + strlen("--")) != 0)
        ++s;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    // A word that is allowed besides numbers, as in "N|late".
    const char *word = s->most ? strchr(s->argument, '|') : NULL;
    if (s->most && (*value < '0' || *value > '9' || *end || errno || number > s->most) &&
        !(word && is_among(word + 1, value)))
        fail(EXIT_USAGE, "%s: \"%s\" is no whole number up to %llu%s%s", option, value,
             (unsigned long long)s->most, word ? ", nor " : "", word ? word + 1 : "");
    bool words = !s->most && *s->argument >= 'a';
    if (words && !is_among(s->argument, value))
        fail(EXIT_USAGE, "%s: \"%s\" is not %s", option, value, s->argument);
    setenv(s->variable, value, 1);
}

static const char *film_file, *cta, *kernel, *json_file;
static int exitcode = -1;
static bool profile, once, help, markdown;
static const struct option_row rows[] = {
    {"film", "FILE.html",
     "make a page to watch the first fault in, step by step; without a fault, the first CTA",
     .word = &film_file},
    {"cta", "X,Y,Z", "film this CTA, not that of the first fault", .word = &cta},
    {"kernel", "NAME", "film, or profile, this kernel only", .word = &kernel},
    {"profile", NULL, "at the end, list the lines with what was counted there, hottest first",
     .flag = &profile},
    {"json", "FILE|-", "write the faults as JSON; with -, the program's output goes to stderr",
     .word = &json_file},
    {"error-exitcode", "N", "exit with N if there is a fault (default: as the program does)",
     .number = &exitcode, .most = 255},
    {"once", NULL, "do not run a faulty program again: the messages then have no explanation",
     .flag = &once},
    {"help", NULL, "this list", .flag = &help},
    {"markdown", NULL, NULL, .flag = &markdown},
#define SETTING(option, variable, argument, most, what)                                            \
    {option, argument, what " (" variable ")", .call = set},
#define HIDDEN(variable, what)
#include "ptxsim/settings.def"
#undef SETTING
#undef HIDDEN
    {0},
};

static void print_help(void)
{
    puts("usage: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]\n"
         "Runs a CUDA program on the CPU, in the PTX simulator, and checks it. Its faults are told "
         "when it\n"
         "has ended. What is wrong with the first is found out by running it again, without input "
         "or output.\n"
         "An option with a variable's name behind it can be set by that as well, for programs that "
         "are started\n"
         "otherwise.");
    options_help(rows);
    puts(
        "Exit status: the program's, 128 + a signal, or what --error-exitcode says; 2: bad usage.");
}

// The text for a cell of a Markdown table.
static char *cell(const char *words)
{
    char *escaped = need(calloc(2 * strlen(words) + 1, 1)), *to = escaped;
    for (; *words; *to++ = *words++)
        if (*words == '|')
            *to++ = '\\';
    return escaped;
}

// Prints the page code/ptxsim/OPTIONS.md.
static void print_page(void)
{
    puts("# Options of `ptxsim run`\n\n"
         "Made by `ptxsim run --markdown` from code/ptxsim/tool/run.c and "
         "code/ptxsim/settings.def.\n\n"
         "| option | what it does |\n|---|---|");
    for (const struct option_row *row = rows; row->name; ++row)
        if (row->help && !row->call)
            printf("| `--%s%s%s` | %s |\n", row->name, row->argument ? " " : "",
                   row->argument ? cell(row->argument) : "", row->help);
    puts("\nSettings of the simulator are options, and variables of the environment for programs "
         "that are "
         "started otherwise:\n\n| option | variable | what it does |\n|---|---|---|");
    for (int i = 0; i < SETTINGS; ++i)
        if (settings[i].option)
            printf("| `--%s %s` | `%s` | %s |\n", settings[i].option, cell(settings[i].argument),
                   settings[i].variable, settings[i].what);
    puts("\nFor programs that start others:\n\n| variable | what it does |\n|---|---|");
    for (int i = 0; i < SETTINGS; ++i)
        if (!settings[i].option)
            printf("| `%s` | %s |\n", settings[i].variable, settings[i].what);
}

// ---- The run ------------------------------------------------------------------------------------

struct outcome {
    int status; // the program's exit status; 128 + the signal that ended it
    bool launched;
    json_t *faults;
};

static void take_records(int socket, struct outcome *o, bool *closed)
{
    static char record[1 << 16]; // holds two texts of 2 KiB, where a byte may become six
    ssize_t size;
    while ((size = recv(socket, record, sizeof record - 1, MSG_DONTWAIT)) > 0) {
        record[size] = 0;
        fault_add(o->faults, record);
        o->launched = true;
    }
    *closed = size == 0;
}

static struct outcome run_program(char **argv, bool output_aside, const char *report)
{
    struct outcome o = {.faults = json_array()};
    int ends[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        fail(EXIT_MACHINE, "no socket: %s", strerror(errno));
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        fail(EXIT_MACHINE, "cannot run %s: %s", argv[0], strerror(errno));
    if (child == 0) {
        close(ends[0]);
        set_libraries();
        setenv("PTXSIM_FAULTS", text("%d", ends[1]), 1);
        if (report)
            setenv("PTXSIM_REPORT", report, 1);
        if (output_aside)
            dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(argv[0], argv);
        fprintf(stderr, "%s: %s: %s\n", speaker, argv[0], strerror(errno));
        _exit(127);
    }
    running = child;
    outlive_signals();
    close(ends[1]);
    // Takes records until the program has ended. The socket does not tell this: processes that the
    // program started may keep it open. Once the socket is closed, waitpid() waits.
    for (bool ended = false, closed = false; !ended;) {
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        if (!closed)
            poll(&ready, 1, TICK_MS);
        ended = waitpid(child, &status, closed ? 0 : WNOHANG) == child;
        take_records(ends[0], &o, &closed);
    }
    running = 0;
    close(ends[0]);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return o;
}

static void write_faults(const char *path, const char *program, const struct outcome *o)
{
    json_t *all =
        json_pack("{s:s, s:i, s:O}", "program", program, "status", o->status, "faults", o->faults);
    if (strcmp(path, "-") == 0)
        puts((char *)need(json_dumps(all, JSON_INDENT(1))));
    else
        write_json(all, path, JSON_INDENT(1), "\n");
}

int run_main(int argc, char **argv)
{
    int first = options_read(argc, argv, rows, true), end = 0;
    if (markdown || help) {
        (help ? print_help : print_page)();
        return 0;
    }
    unsigned at[3];
    if (cta && (sscanf(cta, "%u,%u,%u%n", &at[0], &at[1], &at[2], &end) != 3 || cta[end]))
        fail(EXIT_USAGE, "--cta: \"%s\" is no X,Y,Z", cta);
    if (first == argc)
        fail(EXIT_USAGE, "no program is named: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]");
    char **program = argv + first, *path = find_program(program[0]);
    if (!path)
        fail(EXIT_USAGE, "%s: no such program; one in this folder is ./%s", program[0], program[0]);
    const char *unfit = program_unfit(path);
    if (unfit)
        fail(EXIT_USAGE, "%s", unfit);
    program[0] = path;

    if (json_file && strcmp(json_file, "-") != 0)
        must_be_writable(json_file);
    if (film_file)
        must_be_writable(film_file);
    if (profile && json_file && strcmp(json_file, "-") == 0)
        fail(EXIT_USAGE, "--profile and --json - would both write on stdout");

    const char *counts = getenv("PTXSIM_REPORT");
    if (profile && (!counts || !*counts)) {
        make_report_file();
        counts = report_file;
    }
    struct outcome o = run_program(program, json_file && !strcmp(json_file, "-"), counts);
    size_t found = json_array_size(o.faults);
    json_t *report = profile ? json_load_file(counts, 0, NULL) : NULL;
    const char *filmed = cta;
    for (size_t i = 0; i < found && !filmed; ++i)
        filmed = cta_of(json_object_get(json_array_get(o.faults, i), "block"));
    struct film film = {0};
    if (film_file || (found && !once && filmed)) {
        film = film_record(program, kernel, filmed ? filmed : "0,0,0", true);
        faults_explain(o.faults, film.recording, program[0]);
    }
    faults_settle(o.faults);
    faults_print(o.faults, stderr);
    if (json_file)
        write_faults(json_file, program[0], &o);
    if (profile && !json_array_size(json_object_get(report, "kernels")))
        puts("no kernel was launched");
    else if (profile)
        show_report(report, kernel, MOST_LINES, NULL, NULL);
    fflush(stdout);
    if (film_file && ended_by) {
        fprintf(stderr, "%s: %s is not made: interrupted\n", speaker, film_file);
    } else if (film_file) {
        film_must_show(&film, program[0], kernel, cta, false);
        film_page(film.shown, film.other, program[0], -1, film_file, true);
    }
    fprintf(stderr, "%zu fault%s%s\n", found, found == 1 ? "" : "s",
            o.launched ? "" : ": no kernel was launched");
    return found && exitcode >= 0 ? exitcode : o.status;
}
