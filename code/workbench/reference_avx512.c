// reference_avx512.c: the loops of reference_rows.h for processors with AVX-512.
#include <stddef.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDTH 8
#define TARGET __attribute__((target("avx512f")))
#include "reference_rows.h"

const struct row_loops *reference_avx512(void)
{
    return __builtin_cpu_supports("avx512f") ? &row_loops : NULL;
}
#else
const struct row_loops *reference_avx512(void);
const struct row_loops *reference_avx512(void)
{
    return NULL;
}
#endif
