// choose.c: chooses the set of operations for this CPU.
#include "ptxsim/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>

// A library built together with a chapter has only the operations for the instruction set of the machine that built it
// (mk/simulator.mk): the pointers to the other sets are NULL.
#pragma weak ops_base
#pragma weak ops_avx2
#pragma weak ops_avx512

const struct op_set *ops_choose(void)
{
    static const struct op_set *const sets[] = {&ops_avx512, &ops_avx2, &ops_base};
    static const char *const names[] = {"avx512", "avx2", "base"};
    bool runs[] = {false, false, true};
    const char *wanted = getenv("PTXSIM_ISA");
#if defined __x86_64__ && defined __GNUC__
    runs[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    runs[0] = runs[1] && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl");
#endif
    int most = !wanted ? 0 : !strcmp(wanted, "base") ? 2 : !strcmp(wanted, "avx2");
    for (int i = most; i < 3; ++i)
        if (runs[i] && sets[i])
            return sets[i];
    fprintf(stderr, "ptxsim: built for another processor than this one%s%s: type make on this machine\n",
            wanted ? ", or without PTXSIM_ISA=" : "", wanted ? names[most] : "");
    exit(1);
}
