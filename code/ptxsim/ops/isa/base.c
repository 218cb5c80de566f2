// base.c: the operations, compiled for any CPU.
#define FN(name) name##_base
#include "set.h"
