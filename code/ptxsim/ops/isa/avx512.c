// avx512.c: the operations, compiled for CPUs with AVX-512 (F, CD, DQ, BW, VL).
#if defined __x86_64__ && defined __GNUC__
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512cd,fma,f16c,bmi,bmi2,lzcnt,popcnt,prefer-vector-width=512")
#include <immintrin.h>
#define OPS_AVX512
#define FN(name) name##_avx512
#include "set.h"
#endif
