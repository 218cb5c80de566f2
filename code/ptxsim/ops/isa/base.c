// base.c: the operations, compiled for any CPU.
#pragma GCC optimize("O3")
#define FN(name) name##_base
#include "set.h"
