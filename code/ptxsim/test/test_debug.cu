// The programs of test_programs.cu, compiled with -G: unoptimised code, everything in local memory.
#include "test_programs.cu"
