// sandbox.c: runs processes in boxes, isolated from the judge.
//
// bubblewrap gives a process its own view of the machine: no network, no other process, a new
// environment, and the system's programs and the few files of the book that it needs, read-only. A
// box for host code cannot write anywhere. A box for compilers, for a model's program or for a GPU
// has a /tmp in memory, which is limited and disappears with the box; what a compiler makes leaves
// the box through a pipe. So nothing in a box writes to the host's disk. Memory is limited (as
// address space, except in a box for a GPU). So is CPU time, rather than time by the clock, so that
// a busy machine refuses nobody; a limit by the clock stops what only sleeps. Only listed system
// calls are possible (`allowed`, below).
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

#ifndef SYS_faccessat2 // these numbers are the same on every processor
#define SYS_faccessat2 439
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { ARGUMENTS_MAX = 256, LINES_FD = 3, FILTER_FD = 4, GPUS_MAX = 16 };

const char *box_work(const struct box *box)
{
    return options.unsafe ? box->folder : "/work";
}

const char *box_book(void)
{
    return options.unsafe ? root : "/book";
}

// ---- Limits -------------------------------------------------------------------------------------

static void limit(int resource, rlim_t value)
{
    struct rlimit r = {value, value};
    setrlimit(resource, &r);
}

// Whether processes in the box may write to its /tmp and start other programs: for compilers, and
// for the book's own program with a submission's kernels.
static bool writes_files(const struct box *box)
{
    return box->kind == BOX_COMPILE || box->kind == BOX_MODEL;
}

static void set_limits(const struct box *box)
{
    // GiB: compilers, host code, the simulator, a model's program.
    static const rlim_t memory[] = {4, 1, 3, 3};
    static const rlim_t files[] = {1024, 64, 64, 64};

    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, (rlim_t)box->cpu_seconds);
    limit(RLIMIT_MEMLOCK, box->gpu ? RLIM_INFINITY : 0);
    if (box->gpu) // the GPU's driver maps far more memory than it uses, and opens many files
        return;
    limit(RLIMIT_NOFILE, files[box->kind]);
    // For a compiler: all headers of CUB and Thrust preprocess to 17 MB. A longer text, such as one
    // that includes itself, takes minutes and gigabytes.
    limit(RLIMIT_FSIZE, writes_files(box) ? 24 << 20 : 1 << 20);
    limit(RLIMIT_AS, memory[box->kind] << 30);
}

// ---- System calls -------------------------------------------------------------------------------

// clang-format off
// What an ordinary program with one thread calls. Some processors lack SYS_open and similar calls.
static const int allowed[] = {
#ifdef SYS_open
    SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_dup2, SYS_arch_prctl, SYS_unlink,
    SYS_rename, SYS_mkdir, SYS_rmdir, SYS_creat, SYS_getpgrp, SYS_alarm,
#endif
    SYS_openat, SYS_close, SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64,
    SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat,
    SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_ioctl, SYS_fcntl, SYS_dup, SYS_dup3,
    SYS_fadvise64, SYS_ftruncate, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_mkdirat,
    SYS_umask, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    SYS_tgkill, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
    SYS_execve, SYS_exit, SYS_exit_group, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
    SYS_prlimit64, SYS_getrlimit, SYS_getrusage, SYS_getrandom, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_uname,
};
// Calls that wait. Host code that is asked for its launches has nothing to wait for; it could only
// waste the grader's time, which no limit of CPU time prevents.
static const int waits[] = {
#ifdef SYS_pause
    SYS_pause, SYS_poll, SYS_select,
#endif
    SYS_ppoll, SYS_pselect6, SYS_rt_sigtimedwait, SYS_futex, SYS_nanosleep, SYS_clock_nanosleep,
};
// Calls that tell the time, or how long the machine has been running.
static const int clocks[] = {
#ifdef SYS_time
    SYS_time,
#endif
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_times, SYS_sysinfo,
};
// Calls with which compilers start one another.
static const int compilers[] = {
#ifdef SYS_fork
    SYS_fork, SYS_vfork, SYS_pipe, SYS_chmod, SYS_symlink, SYS_link,
#endif
    SYS_pipe2, SYS_wait4, SYS_waitid, SYS_kill, SYS_setpgid, SYS_getpgid, SYS_fchmod, SYS_fchmodat,
    SYS_utimensat, SYS_symlinkat, SYS_linkat, SYS_setrlimit, SYS_statfs, SYS_fstatfs,
    SYS_copy_file_range, SYS_sendfile, SYS_getgroups, SYS_prctl, SYS_truncate, SYS_fsync,
    SYS_sched_setaffinity,
};
// The simulator, in the runner or in a model's program, maps a file of NaNs
// (code/ptxsim/base/memory.c).
static const int runner[] = {SYS_memfd_create};
// Further calls that a GPU's driver needs.
static const int drivers[] = {
#ifdef SYS_pipe
    SYS_pipe, SYS_epoll_create, SYS_epoll_wait,
#endif
    SYS_pipe2, SYS_eventfd2, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_prctl,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_getcpu, SYS_get_mempolicy, SYS_set_mempolicy, SYS_mbind,
    SYS_move_pages, SYS_mlock, SYS_munlock, SYS_mincore, SYS_msync, SYS_membarrier, SYS_statfs,
    SYS_fstatfs, SYS_fsync, SYS_fallocate, SYS_flock, SYS_capget, SYS_timerfd_create,
    SYS_timerfd_settime, SYS_getpgid, SYS_wait4, SYS_setrlimit,
};
// clang-format on

enum { FILTER_MAX = 400 };
static const unsigned NEW_NAMESPACES = 0x7e020000; // all CLONE_NEW... flags
static const unsigned A_THREAD = 0x10000;          // CLONE_THREAD

struct filter {
    struct sock_filter code[FILTER_MAX];
    size_t size;
};

static void statement(struct filter *f, unsigned code, unsigned value)
{
    f->code[f->size++] = (struct sock_filter)BPF_STMT((uint16_t)code, value);
}

// Skips `yes` instructions if the comparison holds, otherwise `no`.
static void jump(struct filter *f, unsigned compares, unsigned value, uint8_t yes, uint8_t no)
{
    f->code[f->size++] =
        (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | compares | BPF_K), value, yes, no);
}

static void allow(struct filter *f, const int *calls, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *calls; ++i) {
        jump(f, BPF_JEQ, (unsigned)calls[i], 0, 1);
        statement(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
}

// Allows clone: in a box for compilers or for a model's program, processes may be started, without
// new namespaces; in the runner's box, threads. clone3, whose flags a filter cannot see, does not
// exist here, so the C library uses clone.
static void allow_clone(struct filter *f, const struct box *box)
{
    bool processes = writes_files(box);

    jump(f, BPF_JEQ, SYS_clone, 0, 3);
    statement(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    jump(f, BPF_JSET, processes ? NEW_NAMESPACES : A_THREAD, processes ? 1 : 0, processes ? 0 : 1);
    statement(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

static void make_filter(struct filter *f, const struct box *box)
{
    unsigned arch =
#if defined __x86_64__
        AUDIT_ARCH_X86_64;
#else
        AUDIT_ARCH_AARCH64;
#endif
    statement(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    jump(f, BPF_JEQ, arch, 1, 0);
    statement(f, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    statement(f, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    allow(f, allowed, sizeof allowed);
    if (!box->clock) {
        allow(f, waits, sizeof waits);
        allow(f, clocks, sizeof clocks);
    }
    if (writes_files(box))
        allow(f, compilers, sizeof compilers);
    if (box->kind == BOX_RUN || box->kind == BOX_MODEL)
        allow(f, runner, sizeof runner);
    if (box->gpu)
        allow(f, drivers, sizeof drivers);
    if (box->kind != BOX_RECORD)
        allow_clone(f, box);
    statement(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
}

static int filter_file(const struct box *box)
{
    struct filter filter = {.size = 0};
    make_filter(&filter, box);
    size_t bytes = filter.size * sizeof *filter.code;
    FILE *file = tmpfile();
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 16) : -1;
    if (fd < 0 || write(fd, filter.code, bytes) != (ssize_t)bytes || lseek(fd, 0, SEEK_SET))
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

// Adds the system's programs and libraries; on most systems /bin and the like are links.
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
    add(c, "--ro-bind", text("%s/%s", root, file), text("/book/%s", file));
}

// Adds the GPU. Slurm assigns one of several by its device file, by the environment variable, or by
// both.
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

// The path of bubblewrap in the judge's own search path; "bwrap" if it is not found.
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
    char toolkit[4096];

    // The command is process 1, so the box contains no process of bubblewrap that could be taken
    // over.
    add(c, bubblewrap(), "--unshare-all", "--die-with-parent");
    add(c, "--as-pid-1", "--new-session", "--clearenv");
    add(c, "--uid", "65534", NULL);
    add(c, "--gid", "65534", NULL);
    add(c, "--cap-drop", "ALL", NULL);
    add(c, "--hostname", "box", NULL);
    add_system(c);
    // Of /dev a compiler gets only null: an #include of /dev/zero would read until memory ends.
    if (box->kind == BOX_COMPILE) {
        add(c, "--tmpfs", "/dev", NULL);
        add(c, "--dev-bind", "/dev/null", "/dev/null");
    } else {
        add(c, "--dev", "/dev", NULL);
    }
    // A GPU's driver needs /proc; other boxes have none, since it shows the host's command line and
    // mounts.
    if (box->gpu)
        add(c, "--proc", "/proc", NULL);
    if (writes_files(box) || box->gpu) {
        add(c, "--size", "268435456", NULL);
        add(c, "--tmpfs", "/tmp", NULL);
    } else {
        add(c, "--dir", "/tmp", NULL);
    }
    if (box->kind == BOX_COMPILE) {
        if (!realpath(text("%s/build/cuda", root), toolkit))
            fail(EXIT_MACHINE, "there is no build/cuda: type make grade first");
        add(c, "--ro-bind", text("%s", toolkit), "/book/build/cuda");
        add_book(c, "code/workbench/workbench.h"); // headers only, no program of a chapter
        add_book(c, "code/workbench/debug.h");
        add_book(c, "build/libworkbench.a");
        if (!access(text("%s/build/libjansson.a", root), R_OK)) // for systems without the library
            add_book(c, "build/libjansson.a");
        add_book(c, "build/ptxsim/ptxsim"); // for films
        add_book(c, "code/film");
        if (sheet.model) {
            add_book(c, "code/model/model.h");
            add_book(c, "code/host/host.h");
            add_book(c, text("build/%s", sheet.program));
        }
        add(c, "--ro-bind", box->folder, "/work");
    } else if (box->kind == BOX_MODEL) {
        add(c, "--ro-bind", box->folder, "/work");
        add_book(c, "build/ptxsim/libcudart.so.13");
    } else if (box->kind == BOX_RECORD) {
        add(c, "--ro-bind", box->folder, "/work");
        add_book(c, "build/ptxsim/libcudart.so.13");
        if (box->clock)
            add_book(c, "build/clock.so");
    } else {
        add_book(c, "build/runner");
        if (box->gpu)
            add_gpu(c);
    }
    add(c, "--remount-ro", "/dev", NULL);
    add(c, "--remount-ro", "/", NULL);
    add(c, "--chdir", "/tmp", NULL);
    add(c, "--setenv", "PATH", "/usr/bin:/bin");
    add(c, "--setenv", "LC_ALL", "C");
    if (box->kind == BOX_RECORD) {
        add(c, "--setenv", "PTXSIM_LAUNCHES", "3");
        add(c, "--setenv", "LD_LIBRARY_PATH", "/book/build/ptxsim");
    }
    if (box->clock) {
        add(c, "--setenv", "LD_PRELOAD", "/book/build/clock.so");
        add(c, "--setenv", "BOX_CLOCK", box->clock);
    }
    add(c, "--seccomp", "4", NULL);
    add(c, "--", NULL, NULL);
}

// ---- Starting -----------------------------------------------------------------------------------

// Closes all descriptors above `last` that the grader, or the process that started it, has open,
// such as that of the secret's file.
static void close_others(int last)
{
    if (syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0) == 0)
        return;
    for (int fd = last + 1; fd < (int)sysconf(_SC_OPEN_MAX); ++fd)
        close(fd);
}

// Starts a process with the given descriptors as its 0, 1, 2 and 3.
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
        // All given descriptors are above 15, so none is overwritten before it is moved.
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        if (lines >= 0)
            dup2(lines, LINES_FD);
        if (filter >= 0)
            dup2(filter, FILTER_FD);
        close_others(filter >= 0 ? FILTER_FD : lines >= 0 ? LINES_FD : STDERR_FILENO);
        set_limits(box);
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        char *gpus = visible ? text("%s", visible) : NULL;
        clearenv(); // programs in the box could read bubblewrap's own environment
        setenv("PATH", "/usr/bin:/bin", 1);
        if (options.unsafe && box->gpu && gpus)
            setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
        if (options.unsafe && box->kind == BOX_RECORD) {
            setenv("PTXSIM_LAUNCHES", "3", 1);
            setenv("LD_LIBRARY_PATH", text("%s/build/ptxsim", root), 1);
        }
        if (options.unsafe && box->clock) {
            setenv("LD_PRELOAD", text("%s/build/clock.so", root), 1);
            setenv("BOX_CLOCK", box->clock, 1);
        }
        execvp(c.argv[0], c.argv);
        dprintf(STDERR_FILENO, "%s: %s\n", c.argv[0], strerror(errno));
        _exit(127);
    }
    if (filter >= 0)
        close(filter);
    return pid;
}

static int high(int fd) // moves a descriptor out of the way of those that start() hands out
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

static double cpu_seconds(const struct rusage *used)
{
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

static int nothing(int flags)
{
    return high(open("/dev/null", flags | O_CLOEXEC));
}

double box_stop(pid_t pid)
{
    struct rusage used = {0};
    int status;

    // A process that has closed its pipes is about to end. Its resource use is known only then, and
    // bubblewrap must not be killed before, since only it reports what its child has used.
    enum { STEPS = 5000, STEP_NS = 2000000 }; // 10 s
    for (int i = 0; i < STEPS; ++i) {
        if (wait4(pid, &status, WNOHANG, &used) == pid)
            return cpu_seconds(&used);
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    wait4(pid, &status, 0, &used);
    return cpu_seconds(&used);
}

// Reads what is available. False: the stream has ended, or exceeded the limit.
static bool drain(struct stream *s)
{
    char buffer[65536];
    ssize_t n = read(s->fd, buffer, sizeof buffer);

    if (n <= 0)
        return false;
    size_t keep = s->size + (size_t)n <= s->limit ? (size_t)n : s->limit - s->size;
    s->over = s->over || keep < (size_t)n;
    s->bytes = need(realloc(s->bytes, s->size + keep + 1));
    memcpy(s->bytes + s->size, buffer, keep);
    s->size += keep;
    s->bytes[s->size] = '\0';
    return !s->over; // a process that exceeds the limit is stopped
}

// Reads until all streams end; returns whether they did so in time and within the limits.
static bool drain_all(struct boxed *b, struct stream *const streams[3], double end)
{
    for (int open_streams = 3; open_streams > 0;) {
        struct pollfd ready[3];
        for (int i = 0; i < 3; ++i)
            ready[i] = (struct pollfd){.fd = streams[i]->fd, .events = POLLIN};
        double left = end - now();
        b->late = left <= 0;
        if (b->late)
            return false;
        if (poll(ready, 3, (int)(1000 * left) + 1) <= 0)
            continue;
        for (int i = 0; i < 3; ++i) {
            if (ready[i].revents == 0 || drain(streams[i]))
                continue;
            b->chatty = b->chatty || streams[i]->over;
            if (b->chatty)
                return false;
            close(streams[i]->fd);
            streams[i]->fd = -1;
            --open_streams;
        }
    }
    return true;
}

struct boxed box_run(const struct box *box, char *const argv[], double seconds, size_t lines_limit)
{
    struct boxed b = {.out.limit = 256 << 10, .err.limit = 64 << 10, .lines.limit = lines_limit};
    struct stream *streams[] = {&b.out, &b.err, &b.lines};
    int ends[3][2], status = 0;
    double end = now() + seconds;
    struct rusage used;
    pid_t ended = 0;

    for (int i = 0; i < 3; ++i) {
        make_pipe(ends[i]);
        streams[i]->fd = ends[i][0];
        streams[i]->bytes = need(calloc(1, 1));
    }
    int in = nothing(O_RDONLY);
    pid_t pid = start(box, argv, in, ends[0][1], ends[1][1], ends[2][1]);
    close(in);
    for (int i = 0; i < 3; ++i)
        close(ends[i][1]);
    bool good = drain_all(&b, streams, end);
    // The streams are closed; the process may still be alive.
    while (good && !b.late && (ended = wait4(pid, &status, WNOHANG, &used)) == 0) {
        b.late = now() > end;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    kill(-pid, SIGKILL); // processes that the command may have left behind, outside of a box
    if (ended != pid) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < 3; ++i)
        if (streams[i]->fd >= 0)
            close(streams[i]->fd);
    b.status = ended != pid ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    b.used = ended == pid ? cpu_seconds(&used) : box->cpu_seconds;
    b.late = b.late || (ended == pid && b.status && b.used >= box->cpu_seconds);
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
    int in[2], reply[2];
    int out = nothing(O_WRONLY);

    make_pipe(in);
    make_pipe(reply);
    pid_t pid = start(box, argv, in[0], out, out, reply[1]);
    close(in[0]);
    close(reply[1]);
    close(out);
    *to = in[1];
    *from = reply[0];
    return pid;
}

bool sandbox_works(char **why)
{
    static const struct box box = {.kind = BOX_RECORD, .folder = "/tmp", .cpu_seconds = 10};
    char *command[] = {"true", NULL};

    if (options.unsafe)
        return true;
    struct boxed b = box_run(&box, command, 60, 1);
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
