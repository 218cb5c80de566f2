// diagnosis.h: what is wrong with an output, for labs and grader. Apart from workbench.h, so that no kernel is
// compiled again for it.
#ifndef WORKBENCH_DIAGNOSIS_H
#define WORKBENCH_DIAGNOSIS_H

#include "workbench.h"

// Says in one line what is wrong with an output that the gates refuse: what was left out or
// exchanged, if that alone explains the rows that were tried; how many elements are off; in which
// rows, columns and heads; the worst element. It names no cause that it has not found. The text is
// the caller's to free; NULL: no element is off, or memory ran out. ref: what
// reference_dequantised() made for the covered rows.
char *diagnose(const struct problem *problem, struct rows rows, struct error_limits limits,
               const uint16_t *out, const float *ref);

#endif
