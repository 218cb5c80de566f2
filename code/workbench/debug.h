// debug.h: prints in a kernel that can be switched on.
//
// DEBUG_PRINT("tile %d: row_max %f\n", tile, row_max); in a kernel does nothing, unless the program
// is built with `make DEBUG_PRINT=1 chapterN`: then thread 0 of the first CTA prints, on a GPU as
// well as in the simulator. A line that contains nothing else does not count in the program's
// source_hash, so it may stay without making measurements stale. A program built with its prints
// has the source_hash "debug", so that no measurement of it is taken for the program's.
#ifndef WORKBENCH_DEBUG_H
#define WORKBENCH_DEBUG_H

#ifdef DEBUG_PRINTS
#include <stdio.h>

static __device__ inline bool debug_thread(void)
{
    return (threadIdx.x | threadIdx.y | threadIdx.z | blockIdx.x | blockIdx.y | blockIdx.z) == 0;
}
#define DEBUG_PRINT(...)                                                                           \
    do {                                                                                           \
        if (debug_thread())                                                                        \
            printf(__VA_ARGS__);                                                                   \
    } while (0)
#else
#define DEBUG_PRINT(...) ((void)0)
#endif

#endif
