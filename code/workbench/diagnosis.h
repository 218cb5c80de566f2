// diagnosis.h: explains what is wrong with an output, for labs and the grader. It is not part of
// workbench.h, so that a change here compiles no kernel again.
#ifndef WORKBENCH_DIAGNOSIS_H
#define WORKBENCH_DIAGNOSIS_H

#include "workbench.h"

// Says in one line what is wrong with an output that the gates refuse: what was left out or
// exchanged, if that alone explains a sample of the wrong rows; how many elements are off; in which
// rows, columns and heads; the worst element. A cause is named only if it was found. The text is
// for the caller to free; NULL: no element is off, or memory ran out. ref: what
// reference_dequantised() computed for the covered rows.
char *diagnose(const struct problem *problem, struct rows rows, struct error_limits limits,
               const uint16_t *out, const float *ref);

#endif
