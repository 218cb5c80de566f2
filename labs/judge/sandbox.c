// sandbox.c: processes apart from the judge.
//
// bubblewrap gives a process its own view of the machine: no network, the system's programs and the
// few files of the book that it needs, read only, a /tmp of its own, an empty environment, no other
// process to be seen. Limits on CPU time, memory and the size of a file are set before; time by the
// clock and output are watched by the judge. Where submitted code runs, a filter denies the system
// calls that make processes and sockets.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 256, LINES_FD = 3, FILTER_FD = 4, GPUS_MAX = 16 };

static const size_t GIB = (size_t)1 << 30;

const char *box_work(const struct box *box)
{
    return options.unsafe ? box->folder : "/work";
}

const char *box_book(void)
{
    return options.unsafe ? options.root : "/book";
}

// ---- Limits -------------------------------------------------------------------------------------

static void limit(int resource, rlim_t value)
{
    struct rlimit r = {value, value};
    setrlimit(resource, &r);
}

static void set_limits(const struct box *box)
{
    bool compiles = box->kind == BOX_COMPILE;

    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, box->kind == BOX_RUN ? 600 : compiles ? 120 : 10);
    limit(RLIMIT_NOFILE, 1024);
    if (box->gpu) // whose driver maps far more than it uses
        return;
    limit(RLIMIT_FSIZE, compiles ? 64 << 20 : 1 << 20);
    limit(RLIMIT_AS, box->kind == BOX_RECORD ? 2 * GIB : 6 * GIB);
}

// System calls denied: new processes (threads are allowed to the runner), sockets, and what could
// look into or change other processes and the machine.
static size_t make_filter(struct sock_filter *f, const struct box *box)
{
    static const int denied[] = {
#ifdef SYS_fork
        SYS_fork,
        SYS_vfork,
#endif
        SYS_socket,
        SYS_socketpair,
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_mount,
        SYS_umount2,
        SYS_setns,
        SYS_unshare,
        SYS_bpf,
        SYS_keyctl,
        SYS_add_key,
        SYS_perf_event_open,
    };
    size_t n = 0;
    unsigned arch =
#if defined __x86_64__
        AUDIT_ARCH_X86_64;
#else
        AUDIT_ARCH_AARCH64;
#endif
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
#if defined __x86_64__ // the x32 calls have numbers of their own
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
#endif
    for (size_t i = 0; i < sizeof denied / sizeof *denied; ++i) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    // clone3's flags are out of a filter's sight: the C library then uses clone.
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                          offsetof(struct seccomp_data, args[0]));
    f[n++] = (struct sock_filter)BPF_JUMP(
        BPF_JMP | BPF_JSET | BPF_K, box->kind == BOX_RUN ? 0x10000 /* CLONE_THREAD */ : 0, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return n;
}

static int filter_file(const struct box *box)
{
    struct sock_filter filter[64];
    size_t bytes = make_filter(filter, box) * sizeof *filter;
    FILE *file = tmpfile();
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 16) : -1;
    if (fd < 0 || write(fd, filter, bytes) != (ssize_t)bytes || lseek(fd, 0, SEEK_SET))
        fail(EXIT_MACHINE, "no temporary file: %s", strerror(errno));
    fclose(file);
    return fd;
}

// ---- The command line of bubblewrap -------------------------------------------------------------

struct command {
    char *argv[ARGUMENTS_MAX];
    int count;
};

static void add(struct command *c, const char *first, const char *second, const char *third)
{
    const char *words[] = {first, second, third};
    for (int i = 0; i < 3 && words[i]; ++i)
        if (c->count < ARGUMENTS_MAX - 1)
            c->argv[c->count++] = (char *)words[i];
}

// The system's programs and libraries; /bin and the like are links on most systems.
static void add_system(struct command *c)
{
    static const char *const folders[] = {"/bin", "/sbin", "/lib", "/lib64", NULL};
    static const char *const files[] = {"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
                                        "/etc/ld.so.conf.d", NULL};

    add(c, "--ro-bind", "/usr", "/usr");
    for (int i = 0; folders[i]; ++i) {
        char target[256];
        ssize_t length = readlink(folders[i], target, sizeof target - 1);
        if (length > 0) {
            target[length] = '\0';
            add(c, "--symlink", text("%s", target), folders[i]);
        } else {
            add(c, "--ro-bind-try", folders[i], folders[i]);
        }
    }
    for (int i = 0; files[i]; ++i)
        add(c, "--ro-bind-try", files[i], files[i]);
}

static void add_book(struct command *c, const char *file)
{
    add(c, "--ro-bind", text("%s/%s", options.root, file), text("/book/%s", file));
}

// Slurm gives one GPU of several: by its device file, by the variable, or by both.
static void add_gpu(struct command *c)
{
    static const char *const names[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
                                        "nvidia-caps", NULL};
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    for (int i = 0; i < GPUS_MAX; ++i) {
        char *file = text("/dev/nvidia%d", i);
        if (!access(file, F_OK))
            add(c, "--dev-bind", file, file);
        else
            free(file);
    }
    for (int i = 0; names[i]; ++i)
        add(c, "--dev-bind-try", text("/dev/%s", names[i]), text("/dev/%s", names[i]));
    add(c, "--ro-bind-try", "/sys", "/sys");
    if (visible)
        add(c, "--setenv", "CUDA_VISIBLE_DEVICES", visible);
}

// Where bubblewrap is, by the judge's own search path; "bwrap" if it is nowhere.
static const char *bubblewrap(void)
{
    static char found[4096];
    const char *path = getenv("PATH");

    while (!*found && path && *path) {
        size_t length = strcspn(path, ":");
        char *file = text("%.*s/bwrap", (int)length, path);
        if (length > 0 && access(file, X_OK) == 0)
            snprintf(found, sizeof found, "%s", file);
        free(file);
        path += length + (path[length] == ':');
    }
    return *found ? found : "bwrap";
}

static void add_box(struct command *c, const struct box *box)
{
    static const char *const sizes[] = {"536870912", "16777216", "16777216"};
    char toolkit[4096];

    add(c, bubblewrap(), "--unshare-all", "--die-with-parent");
    add(c, "--new-session", "--clearenv", NULL);
    add(c, "--uid", "65534", NULL);
    add(c, "--gid", "65534", NULL);
    add(c, "--cap-drop", "ALL", NULL);
    add(c, "--hostname", "box", NULL);
    add_system(c);
    add(c, "--proc", "/proc", NULL);
    add(c, "--dev", "/dev", NULL);
    add(c, "--size", sizes[box->kind], NULL);
    add(c, "--tmpfs", "/tmp", NULL);
    if (box->kind == BOX_COMPILE) {
        if (!realpath(text("%s/build/cuda", options.root), toolkit))
            fail(EXIT_MACHINE, "there is no build/cuda: type make grade first");
        add(c, "--ro-bind", text("%s", toolkit), "/book/build/cuda");
        add_book(c, "code/workbench/workbench.h"); // not the chapters' programs
        add_book(c, "code/workbench/debug.h");
        add_book(c, "build/libworkbench.a");
        if (!access(text("%s/build/libjansson.a", options.root), R_OK)) // where no system has it
            add_book(c, "build/libjansson.a");
        add(c, "--bind", box->folder, "/work");
    } else if (box->kind == BOX_RECORD) {
        add(c, "--ro-bind", box->folder, "/work");
        add_book(c, "build/ptxsim/libcudart.so.13");
    } else {
        add_book(c, "build/runner");
        if (box->gpu)
            add_gpu(c);
    }
    add(c, "--chdir", "/tmp", NULL);
    add(c, "--setenv", "PATH", "/usr/bin:/bin");
    add(c, "--setenv", "LC_ALL", "C");
    if (box->kind == BOX_RECORD) {
        add(c, "--setenv", "PTXSIM_LAUNCHES", "3");
        add(c, "--setenv", "LD_LIBRARY_PATH", "/book/build/ptxsim");
    }
    if (box->kind != BOX_COMPILE)
        add(c, "--seccomp", "4", NULL);
    add(c, "--", NULL, NULL);
}

// ---- Starting -----------------------------------------------------------------------------------

// The file descriptors become 0, 1, 2 and 3 of the process.
static pid_t start(const struct box *box, char *const argv[], int in, int out, int err, int lines)
{
    struct command c = {0};
    int filter = options.unsafe ? -1 : filter_file(box);

    if (!options.unsafe)
        add_box(&c, box);
    for (int i = 0; argv[i]; ++i)
        add(&c, argv[i], NULL, NULL);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail(EXIT_MACHINE, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGPIPE, SIG_DFL);
        // All of them are above 15, so that none is overwritten before it is moved.
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        if (lines >= 0)
            dup2(lines, LINES_FD);
        if (filter >= 0)
            dup2(filter, FILTER_FD);
        set_limits(box);
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        char *gpus = visible ? text("%s", visible) : NULL;
        clearenv(); // of bubblewrap itself, too, which can be seen in its box
        setenv("PATH", "/usr/bin:/bin", 1);
        if (options.unsafe && box->gpu && gpus)
            setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
        if (options.unsafe && box->kind == BOX_RECORD) {
            setenv("PTXSIM_LAUNCHES", "3", 1);
            setenv("LD_LIBRARY_PATH", text("%s/build/ptxsim", options.root), 1);
        }
        execvp(c.argv[0], c.argv);
        dprintf(STDERR_FILENO, "%s: %s\n", c.argv[0], strerror(errno));
        _exit(127);
    }
    if (filter >= 0)
        close(filter);
    return pid;
}

static int high(int fd) // above the descriptors that start() hands out
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 16);
    if (fd < 0 || moved < 0)
        fail(EXIT_MACHINE, "no more file descriptors");
    close(fd);
    return moved;
}

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC))
        fail(EXIT_MACHINE, "no more pipes: %s", strerror(errno));
    ends[0] = high(ends[0]);
    ends[1] = high(ends[1]);
}

static int nothing(int flags)
{
    return high(open("/dev/null", flags | O_CLOEXEC));
}

void box_stop(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

// Takes what is there; false at the end.
static bool drain(struct stream *s)
{
    char buffer[65536];
    ssize_t n = read(s->fd, buffer, sizeof buffer);

    if (n <= 0)
        return false;
    size_t keep = s->size + (size_t)n <= s->limit ? (size_t)n : s->limit - s->size;
    s->over = s->over || keep < (size_t)n;
    memcpy(s->bytes + s->size, buffer, keep);
    s->size += keep;
    return !s->over; // who writes more than the limit is stopped
}

struct boxed box_run(const struct box *box, char *const argv[], int seconds)
{
    struct boxed b = {.out.limit = 64 << 10, .err.limit = 64 << 10, .lines.limit = 64 << 10};
    struct stream *streams[] = {&b.out, &b.err, &b.lines};
    int ends[3][2], status = 0, open_streams = 3;
    double end = now() + seconds;
    pid_t ended = 0;

    for (int i = 0; i < 3; ++i) {
        make_pipe(ends[i]);
        streams[i]->fd = ends[i][0];
        streams[i]->bytes = calloc(1, streams[i]->limit + 1);
        if (!streams[i]->bytes)
            fail(EXIT_MACHINE, "out of memory");
    }
    int in = nothing(O_RDONLY);
    pid_t pid = start(box, argv, in, ends[0][1], ends[1][1], ends[2][1]);
    close(in);
    for (int i = 0; i < 3; ++i)
        close(ends[i][1]);
    while (open_streams > 0 && !b.chatty && !b.late) {
        struct pollfd ready[3];
        for (int i = 0; i < 3; ++i)
            ready[i] = (struct pollfd){.fd = streams[i]->fd, .events = POLLIN};
        double left = end - now();
        b.late = left <= 0;
        if (b.late || poll(ready, 3, (int)(1000 * left) + 1) <= 0)
            continue;
        for (int i = 0; i < 3; ++i) {
            if (ready[i].revents == 0 || drain(streams[i]))
                continue;
            b.chatty = b.chatty || streams[i]->over;
            close(streams[i]->fd);
            streams[i]->fd = -1;
            --open_streams;
        }
    }
    // Its streams are closed; it may still be alive.
    while (!b.chatty && !b.late && (ended = waitpid(pid, &status, WNOHANG)) == 0) {
        b.late = now() > end;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (ended == pid)
        kill(-pid, SIGKILL); // what it may have left behind (outside of a box)
    else
        box_stop(pid);
    for (int i = 0; i < 3; ++i)
        if (streams[i]->fd >= 0)
            close(streams[i]->fd);
    b.status = ended != pid ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return b;
}

void boxed_free(struct boxed *b)
{
    free(b->out.bytes);
    free(b->err.bytes);
    free(b->lines.bytes);
}

pid_t box_start(const struct box *box, char *const argv[], int *to, int *from)
{
    int in[2], out[2];
    int err = nothing(O_WRONLY);

    make_pipe(in);
    make_pipe(out);
    pid_t pid = start(box, argv, in[0], out[1], err, -1);
    close(in[0]);
    close(out[1]);
    close(err);
    *to = in[1];
    *from = out[0];
    return pid;
}

bool sandbox_works(char **why)
{
    static const struct box box = {.kind = BOX_RUN};
    char *command[] = {"true", NULL};

    if (options.unsafe)
        return true;
    struct boxed b = box_run(&box, command, 30);
    bool works = b.status == 0;
    if (!works) {
        b.err.bytes[strcspn(b.err.bytes, "\n")] = '\0';
        char *said = cleaned(b.err.bytes, strlen(b.err.bytes));
        *why = b.status == 127 && access(bubblewrap(), X_OK)
                   ? text("bubblewrap is not installed: type sudo apt-get install bubblewrap")
                   : text("bubblewrap may not make a sandbox here (%s): allow unprivileged user "
                          "namespaces (sysctl kernel.unprivileged_userns_clone=1, "
                          "kernel.apparmor_restrict_unprivileged_userns=0), or judge your own "
                          "files with --unsafe-no-sandbox",
                          said);
        free(said);
    }
    boxed_free(&b);
    return works;
}
