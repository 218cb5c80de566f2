// stages.h: the book's table of stages, chapters/stages.tsv, for the lab driver and the charts.
#ifndef WORKBENCH_STAGES_H
#define WORKBENCH_STAGES_H

#include <stdbool.h>
#include <stddef.h>

struct stage {
    int number;       // number of the chapter and its lab
    char name[64];    // "WMMA Q·Kᵀ", UTF-8
    char program[64]; // the program that the lab judges, "ch03_wmma_qk"; "": there is none
    bool has_kernel;  // whether the stage's programs are CUDA; chapter 1's are plain C
};

// Reads the row of a stage from root/chapters/stages.tsv. False: `why` (size bytes) says in one
// line what to add, which line of the file is malformed, or why the file cannot be opened.
bool stage_read(const char *root, int number, struct stage *stage, char *why, size_t size);

#endif
