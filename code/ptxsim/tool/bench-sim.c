// bench-sim.c: measures how long the chapters' programs take in the simulator, and how much memory
// they use.
//
// code/tools/bench-sim runs build/bench-sim. It runs each program on two cores, three times with
// the checks on and three times with them off, and shows the best times. A time is that of the
// whole program: making inputs, the kernel in the simulator, and the comparison with the
// double-precision reference.
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CORES = 2, REPEATS = 3 };

static const struct {
    const char *program, *shape;
    const char *checks;
    double target; // seconds; 0: no target
} runs[] = {
    {"ch02_scalar", "mission", "on", 0},  {"ch02_scalar", "mission", "off", 0},
    {"ch03_wmma_qk", "mission", "on", 1}, {"ch03_wmma_qk", "mission", "off", 0.4},
    {"ch03_wmma_qk", "long", "on", 15},   {"ch03_wmma_qk", "long", "off", 0},
};

// Runs a program once; returns its wall and CPU time in seconds, and its peak memory in MiB.
static void run_once(const char *program, const char *shape, const char *checks, double *wall,
                     double *cpu, double *mib)
{
    char path[256];
    snprintf(path, sizeof path, "build/%s", program);
    char *argv[] = {path, "--shapes",    (char *)shape, "--seeds",
                    "0",  "--no-timing", "--quiet",     NULL};
    double began = now();
    pid_t child = fork();
    if (child == 0) {
        int sink = open("build/bench-sim.log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (sink >= 0)
            dup2(sink, STDOUT_FILENO);
        setenv("LD_LIBRARY_PATH", "build/ptxsim", 1);
        setenv("PTXSIM_CHECK", strcmp(checks, "on") ? checks : "all", 1);
        unsetenv("PTXSIM_REPORT");
        unsetenv("PTXSIM_TRACE");
        execv(path, argv);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0)
        fail(EXIT_MACHINE, "cannot run %s: %s", path, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail(EXIT_MACHINE, "%s --shapes %s failed: see build/bench-sim.log", path, shape);
    *wall = now() - began;
    *cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    *mib = (double)usage.ru_maxrss / 1024;
}

int main(void)
{
    cpu_set_t all, two;
    int cores = 0;
    speaker = "bench-sim";
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof all, &all) == 0) {
        for (int i = 0; i < CPU_SETSIZE && cores < CORES; ++i)
            if (CPU_ISSET(i, &all)) {
                CPU_SET(i, &two);
                cores++;
            }
        sched_setaffinity(0, sizeof two, &two);
    }
    printf("The best of %d runs on %d cores, the whole program, seed 0\n", REPEATS, cores);
    printf("%-14s %-8s %-6s %9s %9s %9s  %s\n", "program", "shape", "checks", "wall, s", "CPU, s",
           "peak, MiB", "target");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; ++i) {
        double best = 0, best_cpu = 0, most = 0;
        for (int k = 0; k < REPEATS; ++k) {
            double wall, cpu, mib;
            run_once(runs[i].program, runs[i].shape, runs[i].checks, &wall, &cpu, &mib);
            if (!k || wall < best)
                best = wall, best_cpu = cpu;
            most = mib > most ? mib : most;
        }
        printf("%-14s %-8s %-6s %9.2f %9.2f %9.0f ", runs[i].program, runs[i].shape, runs[i].checks,
               best, best_cpu, most);
        if (runs[i].target > 0)
            printf(" < %g s, < 1024 MiB: %s", runs[i].target,
                   best < runs[i].target && most < 1024 ? "met" : "missed");
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
