// watch.c: judges a file again whenever it is saved.
#include "lab.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_MS = 100, POLL_MS = 200 };

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = signal;
}

// Waits at most `milliseconds` for file `name` to be saved; returns whether it was.
static bool saved(int fd, const char *name, int milliseconds)
{
    char buffer[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    bool found = false;
    if (poll(&ready, 1, milliseconds) <= 0)
        return false;
    ssize_t length = read(fd, buffer, sizeof buffer);
    for (char *p = buffer; p < buffer + length;) {
        struct inotify_event *event = (struct inotify_event *)p;
        found |= event->len && strcmp(event->name, name) == 0;
        p += sizeof *event + event->len;
    }
    return found;
}

static void end_run(pid_t pid)
{
    kill(-pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

void watch(const char *source)
{
    char path[PATH_MAX];
    if (!realpath(source, path))
        fail(EXIT_USAGE, "%s: %s", source, strerror(errno));
    char *name = strrchr(path, '/') + 1;
    char *directory = text("%.*s", (int)(name - path), path);
    int fd = inotify_init1(IN_CLOEXEC); // watches the folder, since editors rename a new file to
                                        // the old name
    if (fd < 0 || inotify_add_watch(fd, directory, IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
        fail(EXIT_MACHINE, "cannot watch %s: %s", directory, strerror(errno));
    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    while (!stopped) {
        pid_t pid = fork();
        if (pid < 0)
            fail(EXIT_MACHINE, "cannot start another run: %s", strerror(errno));
        // The child returns to main() to judge; its own process group can be ended as a whole.
        if (pid == 0) {
            setpgid(0, 0);
            signal(SIGINT, SIG_DFL);
            signal(SIGTERM, SIG_DFL);
            return;
        }
        setpgid(pid, pid);
        bool running = true, again = false;
        while (!stopped && !again) {
            again = saved(fd, name, POLL_MS);
            if (running && waitpid(pid, NULL, WNOHANG) == pid) {
                running = false;
                printf("\n%s%s: watching %s; Ctrl-C ends%s\n", FAINT, speaker, source, PLAIN);
            }
        }
        while (again && saved(fd, name, SETTLE_MS)) // some editors save twice
            ;
        if (running)
            end_run(pid);
        if (again) {
            time_t t = time(NULL);
            char clock[16];
            strftime(clock, sizeof clock, "%H:%M:%S", localtime(&t));
            printf("\n%s---- %s, saved at %s ----%s\n", BOLD, source, clock, PLAIN);
        }
    }
    exit(EXIT_GREEN);
}
