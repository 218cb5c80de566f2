// record.c: runs programs in the simulator, with a report and a recording.
#include "tool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *home;
char report_file[64], trace_file[64];

void find_home(void)
{
    static const char in_checkout[] = "/build/ptxsim";
    home = own_folder();
    size_t length = strlen(home), end = strlen(in_checkout);
    if (length > end && strcmp(home + length - end, in_checkout) == 0) {
        root = text("%.*s", (int)(length - end), home);
        viewer = text("%s/code/film", root);
    } else { // an installed package has everything in one folder
        root = home;
        viewer = text("%s/film", home);
    }
}

static void forget_files(void)
{
    if (report_file[0])
        unlink(report_file);
    if (trace_file[0])
        unlink(trace_file);
    report_file[0] = trace_file[0] = 0;
}

static void temporary_file(char *name, size_t size)
{
    snprintf(name, size, "/tmp/ptxsim-XXXXXX");
    int file = mkstemp(name);
    if (file < 0)
        fail(EXIT_MACHINE, "no temporary file: %s", strerror(errno));
    close(file);
}

void make_report_file(void)
{
    static bool begun;
    if (!begun)
        atexit(forget_files);
    begun = true;
    forget_files();
    temporary_file(report_file, sizeof report_file);
}

void set_libraries(void)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    if (access(text("%s/libcudart.so.13", home), R_OK) != 0)
        fail(EXIT_MACHINE, "%s/libcudart.so.13 is missing: make build/ptxsim/libcudart.so.13",
             home);
    setenv("LD_LIBRARY_PATH", text("%s%s%s", home, old && *old ? ":" : "", old ? old : ""), 1);
}

// ---- Signals ------------------------------------------------------------------------------------

volatile sig_atomic_t ended_by;
volatile pid_t running;

// Passes a signal on to the program, except an interrupt from the terminal, which the program has
// got itself.
static void pass_on(int signal, siginfo_t *info, void *context)
{
    (void)context;
    ended_by = signal;
    if (running > 0 && !(signal == SIGINT && info->si_code == SI_KERNEL))
        kill(running, signal);
}

void outlive_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction passes = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
        struct sigaction old;
        sigaction(signals[i], NULL, &old);
        // A signal that is ignored, as SIGHUP is under nohup, stays ignored.
        if ((old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_IGN)
            sigaction(signals[i], &passes, NULL);
    }
}

// ---- Runs ---------------------------------------------------------------------------------------

// Runs a program in the simulator. Its output goes to stderr or, if silent, nowhere.
int run_recorded(char **argv, const char *variable, const char *cta, bool silent)
{
    char wanted[160];
    make_report_file();
    if (variable)
        temporary_file(trace_file, sizeof trace_file);
    snprintf(wanted, sizeof wanted, "%s%s%s", trace_file, cta ? "@" : "", cta ? cta : "");
    fflush(stdout);
    if (ended_by)
        return 128 + ended_by;
    pid_t child = fork();
    if (child < 0)
        fail(EXIT_MACHINE, "cannot run %s: %s", argv[0], strerror(errno));
    if (child == 0) {
        set_libraries();
        setenv("PTXSIM_REPORT", report_file, 1);
        unsetenv("PTXSIM_TRACE");
        unsetenv("PTXSIM_FILM");
        if (variable)
            setenv(variable, wanted, 1);
        if (variable && strcmp(variable, "PTXSIM_FILM") == 0)
            // With one thread, CTAs that share a queue take turns: every run has the same film.
            setenv("PTXSIM_THREADS", "1", 0);
        if (silent && (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stderr)))
            _exit(127);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(argv[0], argv);
        fprintf(stderr, "%s: %s: %s\n", speaker, argv[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    running = child;
    waitpid(child, &status, 0);
    running = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// ---- Films --------------------------------------------------------------------------------------

char *cta_of(const json_t *block)
{
    if (json_array_size(block) != 3)
        return NULL;
    return text("%d,%d,%d", (int)json_integer_value(json_array_get(block, 0)),
                (int)json_integer_value(json_array_get(block, 1)),
                (int)json_integer_value(json_array_get(block, 2)));
}

// The CTA of the first fault in the last run's report, as --cta takes it; NULL: there is no fault.
static char *faulty_cta(void)
{
    json_t *file = json_load_file(report_file, 0, NULL);
    char *cta = cta_of(json_array_get(json_object_get(file, "fault_blocks"), 0));
    json_decref(file);
    return cta;
}

struct film film_load(const char *file, const char *kernel)
{
    struct film film = {.recording = json_load_file(file, 0, NULL)};
    film.shown = film_kernel(film.recording, kernel);
    return film;
}

struct film film_record(char **argv, const char *kernel, const char *cta, bool silent)
{
    int status = run_recorded(argv, "PTXSIM_FILM", cta, silent);
    char *faulty = cta ? NULL : faulty_cta();
    if (faulty && strcmp(faulty, "0,0,0") != 0)
        status = run_recorded(argv, "PTXSIM_FILM", faulty, silent);
    free(faulty);
    struct film film = film_load(trace_file, kernel);
    film.status = status;
    const char *second = film.shown ? film_other_cta(film.shown) : NULL;
    if (second) { // a race between two CTAs: the other one is filmed as well
        run_recorded(argv, "PTXSIM_FILM", second, silent);
        film.other = film_load(trace_file, string_or(film.shown, "kernel", "")).shown;
    }
    return film;
}

void film_must_show(const struct film *film, const char *program, const char *kernel,
                    const char *cta, bool recorded)
{
    if (film->shown)
        return;
    if (kernel)
        fail(EXIT_MACHINE, "no kernel %s was launched", kernel);
    if (cta)
        fail(EXIT_MACHINE, "no kernel was launched with a CTA %s", cta);
    if (film->status)
        fail(EXIT_MACHINE, "%s failed (status %d) before a kernel was filmed", program,
             film->status);
    fail(EXIT_MACHINE, recorded ? "%s: no recording of PTXSIM_FILM" : "%s launched no kernel",
         program);
}
