// terminal.c: shows the progress of a launch on a terminal, and lets Ctrl-C stop it.
#include "runtime.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_SECONDS = 5 };

static volatile sig_atomic_t interrupted;
static struct sigaction before; // the handler of SIGINT that the program had
static bool ours;
static bool tells; // whether stderr is a terminal: then progress is shown
static pthread_t launcher;
static char name[96];
static int patience; // seconds before progress is shown
// Seconds of the monotonic clock: at the first launch, and when progress was last shown.
static time_t first, shown;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

void terminal_begin(const char *mangled)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, NULL, &before);
    ours = !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL;
    interrupted = 0;
    if (ours)
        sigaction(SIGINT, &action, NULL);
    launcher = pthread_self();
    kernel_base_name(mangled, name, sizeof name);
    if (!first) {
        const char *text = getenv("PTXSIM_PATIENCE");
        patience = text && *text ? atoi(text) : QUIET_SECONDS;
        tells = isatty(STDERR_FILENO);
        first = now();
    }
    shown = 0;
}

bool terminal_tick(uint64_t ended, uint64_t ctas)
{
    if (!pthread_equal(pthread_self(), launcher))
        return interrupted;
    time_t t = now();
    if (t - first >= patience && t != shown && tells) {
        fprintf(stderr, "\r\033[K%s: %llu of %llu blocks, %lld s", name, (unsigned long long)ended,
                (unsigned long long)ctas, (long long)(t - first));
        fflush(stderr);
        shown = t;
    }
    return interrupted;
}

void terminal_end(void)
{
    if (ours)
        sigaction(SIGINT, &before, NULL);
    if (shown)
        fputs("\r\033[K", stderr);
}
