// process.c: runs programs as processes, to their end or line by line.
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAST_WORDS_SECONDS = 3 };

// Opens a temporary file without a name, which the system removes when it is closed, even after a
// crash.
static int scratch(void)
{
    FILE *file = tmpfile();
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0)
        fail(EXIT_MACHINE, "no temporary file: %s", strerror(errno));
    fclose(file);
    return fd;
}

static char *contents(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *buffer = calloc(1, size + 1);
    if (!buffer || pread(fd, buffer, size, 0) != size)
        fail(EXIT_MACHINE, "cannot read a program's output back");
    close(fd);
    return buffer;
}

static pid_t start(char *const argv[], char *const env[], int in, int out, int err)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail(EXIT_MACHINE, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid)
        return pid;
    for (int i = 0; env && env[i]; ++i)
        putenv(env[i]);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    interrupted = signal;
}

// Waits for a program's exit status; -1: it was killed after `seconds`. An interrupt is passed on
// to the program, which then has LAST_WORDS_SECONDS to report where it was.
static int await(pid_t pid, int seconds)
{
    double began = now(), end = began + seconds;
    bool told = false;
    int status;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && now() < end) {
        if (interrupted && !told) {
            kill(pid, interrupted);
            end = now() + LAST_WORDS_SECONDS;
            told = true;
        }
        still_doing(now() - began);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// After an interrupt: prints what the program reported, then ends this process by the same signal.
static void end_interrupted(char *err)
{
    done();
    char *rest = err, *line;
    while ((line = strsep(&rest, "\n")))
        if (strncmp(line, "ptxsim: ", 8) == 0 && strstr(line, "interrupted here"))
            fprintf(stderr, "%s: %s\n", speaker, line + 8);
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}

struct output run(char *const argv[], char *const env[], int seconds, bool show)
{
    struct sigaction before, action = {.sa_handler = interrupt};
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = scratch();
    int err = scratch();
    struct output output = {0};
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &action, NULL);
    output.status = await(start(argv, env, in, show ? STDOUT_FILENO : out, err), seconds);
    sigaction(SIGINT, &before, NULL);
    close(in);
    output.out = contents(out);
    output.err = contents(err);
    if (interrupted)
        end_interrupted(output.err);
    return output;
}

void output_free(struct output *output)
{
    free(output->out);
    free(output->err);
    *output = (struct output){0};
}

const char *last_line(char *err)
{
    size_t length = strlen(err);
    while (length > 0 && err[length - 1] == '\n')
        err[--length] = '\0';
    char *newline = strrchr(err, '\n');
    return newline ? newline + 1 : length ? err : "no message";
}

bool process_start(struct process *child, char *const argv[], char *const env[])
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return false;
    child->err = scratch();
    child->pid = start(argv, env, in[0], out[1], child->err);
    close(in[0]);
    close(out[1]);
    child->in = fdopen(in[1], "w");
    child->out = fdopen(out[0], "r");
    // Writing to a program that has ended must not end this one, too: process_ask() reports it.
    signal(SIGPIPE, SIG_IGN);
    return child->in && child->out;
}

json_t *process_ask(struct process *child, const char *request, int seconds)
{
    char line[4096];
    if (fprintf(child->in, "%s\n", request) < 0 || fflush(child->in) == EOF)
        return NULL;
    do { // reads until a line is the answer: other lines are messages of the program
        struct pollfd ready = {.fd = fileno(child->out), .events = POLLIN};
        if (poll(&ready, 1, seconds * 1000) <= 0 || !fgets(line, sizeof line, child->out))
            return NULL;
    } while (line[0] != '{');
    return json_loads(line, 0, NULL);
}

struct output process_finish(struct process *child, int seconds)
{
    struct output output = {0};
    fclose(child->in);
    output.status = await(child->pid, seconds);
    fclose(child->out);
    output.out = strdup("");
    output.err = contents(child->err);
    return output;
}
