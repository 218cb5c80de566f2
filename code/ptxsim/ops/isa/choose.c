// choose.c: which of the instruction sets this CPU has.
#include "ptxsim/ops/ops.h"

#include <stdlib.h>

const struct op_set *ops_choose(void)
{
    const char *wanted = getenv("PTXSIM_ISA");
#if defined __x86_64__ && defined __GNUC__
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx512 && (!wanted || !strcmp(wanted, "avx512")))
        return &ops_avx512;
    if (avx2 && (!wanted || strcmp(wanted, "base")))
        return &ops_avx2;
#endif
    (void)wanted;
    return &ops_base;
}
