// run.c: ptxsim run: a program in the simulator, what is wrong with it as a compiler tells errors, and at the end how
// many faults there are.
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINES = 20, TICK_MS = 100 };

// ---- Settings -----------------------------------------------------------------------------------

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

// Whether a word is one of "off|memory|mine".
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

static void apply(const struct setting *s, const char *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    const char *word = s->most ? strchr(s->argument, '|') : NULL; // beside a number: "N|late"
    if (s->most && (*value < '0' || *value > '9' || *end || errno || number > s->most) &&
        !(word && is_among(word + 1, value)))
        fail(EXIT_USAGE, "--%s: \"%s\" is no whole number up to %llu%s%s", s->option, value,
             (unsigned long long)s->most, word ? ", nor " : "", word ? word + 1 : "");
    bool words = !s->most && *s->argument >= 'a';
    if (words && !is_among(s->argument, value))
        fail(EXIT_USAGE, "--%s: \"%s\" is not %s", s->option, value, s->argument);
    setenv(s->variable, value, 1);
}

// ---- Help ---------------------------------------------------------------------------------------

static const struct own {
    const char *option, *argument, *what;
} own_options[] = {
    {"film", "FILE.html",
     "make a page to watch the first fault in, step by step; without a fault, the first CTA"},
    {"cta", "X,Y,Z", "film this CTA, not that of the first fault"},
    {"kernel", "NAME", "film, or profile, this kernel only"},
    {"profile", NULL, "at the end, list the lines with what was counted there, hottest first"},
    {"json", "FILE|-", "write the faults as JSON; with -, the program's output goes to stderr"},
    {"error-exitcode", "N", "exit with N if there is a fault (default: as the program does)"},
    {"once", NULL, "do not run a faulty program again: the messages then have no explanation"},
    {"help", NULL, "this list"},
};
enum { OWN = sizeof own_options / sizeof *own_options };
enum { FILM, CTA, KERNEL, PROFILE, JSON, ERROR_EXITCODE, ONCE, HELP };

static void print_option(const char *option, const char *argument, const char *what)
{
    char *left = text("--%s%s%s", option, argument ? " " : "", argument ? argument : "");
    int column = printf("  %-24s", left);
    for (const char *word = what; *word;) {
        int length = (int)strcspn(word, " ");
        if (column + 1 + length > 100)
            column = printf("\n%26s", "") - 1;
        column += printf(" %.*s", length, word);
        word += length + (word[length] == ' ');
    }
    putchar('\n');
    free(left);
}

static void print_help(void)
{
    puts("usage: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]\n"
         "Runs a CUDA program on the CPU, in the PTX simulator, and checks it. Its faults are told "
         "when it\n"
         "has ended. What is wrong with the first is found out by running it again, without input "
         "or output.");
    for (int i = 0; i < OWN; ++i)
        print_option(own_options[i].option, own_options[i].argument, own_options[i].what);
    puts("Each of these is a variable of the environment, too, for programs that are started "
         "otherwise:");
    for (int i = 0; i < SETTINGS; ++i)
        if (settings[i].option)
            print_option(settings[i].option, settings[i].argument,
                         text("%s (%s)", settings[i].what, settings[i].variable));
    puts(
        "Exit status: the program's, 128 + a signal, or what --error-exitcode says; 2: bad usage.");
}

// Text of a cell of a table in Markdown.
static char *cell(const char *words)
{
    char *escaped = need(calloc(2 * strlen(words) + 1, 1)), *to = escaped;
    for (; *words; *to++ = *words++)
        if (*words == '|')
            *to++ = '\\';
    return escaped;
}

// The page code/ptxsim/OPTIONS.md.
static void print_page(void)
{
    puts("# Options of `ptxsim run`\n\n"
         "Made by `ptxsim run --markdown` from code/ptxsim/tool/run.c and "
         "code/ptxsim/settings.def.\n\n"
         "| option | what it does |\n|---|---|");
    for (int i = 0; i < OWN; ++i)
        printf("| `--%s%s%s` | %s |\n", own_options[i].option, own_options[i].argument ? " " : "",
               own_options[i].argument ? cell(own_options[i].argument) : "", own_options[i].what);
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

static pid_t child;

static void pass_on(int signal)
{
    if (child > 0)
        kill(child, signal);
}

// Runs the program; its faults in `faults`. Its exit status, 128 + a signal.
static int run_program(char **argv, bool output_aside, const char *report, json_t *faults)
{
    int ends[2], status = 0;
    char message[8192];
    ssize_t size;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        fail(EXIT_MACHINE, "no socket: %s", strerror(errno));
    fflush(stdout);
    child = fork();
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
    // An interrupt of the terminal goes to both: the program ends, and is then told of.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, pass_on);
    close(ends[1]);
    // Until the program has ended, or all have closed the socket: whom it has started may keep it open.
    for (bool ended = false, closed = false; !ended;) {
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        if (!closed)
            poll(&ready, 1, TICK_MS);
        ended = waitpid(child, &status, closed ? 0 : WNOHANG) == child;
        while ((size = recv(ends[0], message, sizeof message - 1, MSG_DONTWAIT)) > 0) {
            message[size] = 0;
            size_t kind = strlen(message);
            if ((ssize_t)kind < size)
                fault_add(faults, message, message + kind + 1);
        }
        closed = size == 0;
    }
    close(ends[0]);
    signal(SIGINT, SIG_DFL);
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void write_faults(const char *path, const char *program, int status, const json_t *faults)
{
    json_t *all =
        json_pack("{s:s, s:i, s:O}", "program", program, "status", status, "faults", faults);
    if (strcmp(path, "-") == 0)
        puts((char *)need(json_dumps(all, JSON_INDENT(1))));
    else
        write_json(all, path, JSON_INDENT(1), "\n");
}

int run_main(int argc, char **argv)
{
    struct option options[OWN + SETTINGS + 2] = {0};
    const char *values[OWN] = {0};
    int exitcode = -1, count = 0;
    for (int i = 0; i < OWN; ++i)
        options[count++] =
            (struct option){own_options[i].option,
                            own_options[i].argument ? required_argument : no_argument, NULL, 1 + i};
    options[count++] = (struct option){"markdown", no_argument, NULL, 1000};
    for (int i = 0; i < SETTINGS; ++i)
        if (settings[i].option)
            options[count++] =
                (struct option){settings[i].option, required_argument, NULL, 100 + i};
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (option == '?')
            return EXIT_USAGE; // getopt has said why
        if (option == 1000) {
            print_page();
            return 0;
        }
        if (option >= 100)
            apply(&settings[option - 100], optarg);
        else
            values[option - 1] = optarg ? optarg : "";
    }
    if (values[HELP]) {
        print_help();
        return 0;
    }
    unsigned cta[3];
    int end = 0;
    if (values[CTA] && (sscanf(values[CTA], "%u,%u,%u%n", &cta[0], &cta[1], &cta[2], &end) != 3 ||
                        values[CTA][end]))
        fail(EXIT_USAGE, "--cta: \"%s\" is no X,Y,Z", values[CTA]);
    if (values[ERROR_EXITCODE])
        exitcode = whole("--error-exitcode", values[ERROR_EXITCODE], 0, 255);
    if (optind == argc)
        fail(EXIT_USAGE, "no program is named: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]");
    char **program = argv + optind, *path = find_program(program[0]);
    if (!path)
        fail(EXIT_USAGE, "%s: no such program; one in this folder is ./%s", program[0], program[0]);
    const char *unfit = program_unfit(path);
    if (unfit)
        fail(EXIT_USAGE, "%s", unfit);
    program[0] = path;

    json_t *faults = json_array();
    const char *counts = getenv("PTXSIM_REPORT");
    if (values[PROFILE] && (!counts || !*counts)) {
        make_report_file();
        counts = report_file;
    }
    int status = run_program(program, values[JSON] && !strcmp(values[JSON], "-"), counts, faults);
    size_t found = json_array_size(faults);
    json_t *report = values[PROFILE] ? json_load_file(counts, 0, NULL) : NULL;
    char block[64];
    if (values[FILM] || (found && !values[ONCE])) {
        const char *filmed = values[CTA];
        for (size_t i = 0; i < found && !filmed; ++i)
            if (block_of(string_or(json_array_get(faults, i), "text", ""), block, sizeof block))
                filmed = block;
        if (filmed || values[FILM]) {
            struct film film =
                film_record(program, values[KERNEL], filmed ? filmed : "0,0,0", true);
            faults_explain(faults, film.recording, program[0]);
            if (values[FILM]) {
                film_must_show(&film, program[0], values[KERNEL], values[CTA], false);
                film_page(film.shown, film.other, program[0], -1, values[FILM], true);
            }
        }
    }
    faults_print(faults, stderr);
    if (values[JSON])
        write_faults(values[JSON], program[0], status, faults);
    if (values[PROFILE] && !json_array_size(json_object_get(report, "kernels")))
        puts("no kernel was launched");
    else if (values[PROFILE])
        show_report(report, values[KERNEL], MOST_LINES, NULL, NULL);
    fflush(stdout);
    fprintf(stderr, "%zu fault%s\n", found, found == 1 ? "" : "s");
    return found && exitcode >= 0 ? exitcode : status;
}
