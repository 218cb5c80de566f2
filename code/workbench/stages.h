// stages.h: the book's table of stages, chapters/stages.tsv, for the lab driver and the charts.
#ifndef WORKBENCH_STAGES_H
#define WORKBENCH_STAGES_H

#include <stdbool.h>
#include <stddef.h>

struct stage {
    int number;       // the chapter's and its lab's number
    char name[64];    // "WMMA Q·Kᵀ", UTF-8
    char program[64]; // what its lab judges: "ch03_wmma_qk"; "" if there is none
    bool has_kernel;  // its programs are CUDA; chapter 1's is plain C
};

// Reads a stage's row from root/chapters/stages.tsv. False when there is none, with one line in
// `why` (size bytes): what to add, or which line of the file is no row.
bool stage_read(const char *root, int number, struct stage *stage, char *why, size_t size);

#endif
