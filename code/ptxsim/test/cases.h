// cases.h: runs programs with a planted bug: `cases NAME right|wrong [SCHEDULES]`.
#ifndef CASES_H
#define CASES_H

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Launches one version of a case, once. Returns the exit status: 1 if the launch failed.
template <typename Case, typename Launch>
static int run_case(const Case &c, bool wrong, const Launch &launch)
{
    launch(c, c.kernel[wrong]);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error != cudaSuccess;
}

// `cases`: each has a name and two kernels, a right one and a wrong one; launch(c, kernel) launches
// one of the two. With SCHEDULES, the launch is repeated under SCHEDULES schedules, each in its own
// process, since after a failed launch a process can launch no more. Exit status: 0: no launch
// failed; 1: all failed; 2: some failed, or the usage is wrong, or a process could not be made or
// was ended by a signal.
template <typename Case, int COUNT, typename Launch>
static int cases_main(int argc, char **argv, const Case (&cases)[COUNT], const Launch &launch)
{
    bool wrong = argc > 2 && !strcmp(argv[2], "wrong");
    const Case *c = cases;
    while (c < cases + COUNT && (argc < 2 || strcmp(argv[1], c->name)))
        c++;
    int schedules = argc == 4 ? atoi(argv[3]) : 1, failed = 0;
    if (argc < 3 || argc > 4 || c == cases + COUNT || schedules < 1 ||
        (!wrong && strcmp(argv[2], "right"))) {
        fprintf(stderr, "usage: %s NAME right|wrong [SCHEDULES]\n", argv[0]);
        return 2;
    }
    if (argc == 3)
        return run_case(*c, wrong, launch);
    for (int i = 0; i < schedules; ++i) {
        char schedule[16];
        snprintf(schedule, sizeof schedule, "%d", i);
        printf("schedule %s:\n", schedule);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setenv("PTXSIM_SCHEDULE", schedule, 1);
            exit(run_case(*c, wrong, launch));
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
            printf("it did not run to its end\n");
            return 2;
        }
        failed += WEXITSTATUS(status) != 0;
    }
    return !failed ? 0 : failed == schedules ? 1 : 2;
}

#endif
