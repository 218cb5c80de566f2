// avx2.c: the operations, compiled for CPUs with AVX2, FMA and F16C.
#if defined __x86_64__ && defined __GNUC__
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")
#include <immintrin.h>
#define OPS_AVX2
#define FN(name) name##_avx2
#include "set.h"
#endif
