// rule.h: the rule of points, for the grader (judge/) and for what a lab says of points (driver/).
// Appendix D and every sheet (code/literate/sheets.lua) state it in three sentences.
#ifndef RULE_H
#define RULE_H

#include <stdbool.h>

enum pays_for {
    PAYS_CASES, // correct, hidden, races: paid case by case
    PAYS_AIM,   // a count that has to improve on that of the program before
    PAYS_LIMIT, // another limit, or speed
};

// What a submission has reached in a lab, from 0 to 1 each.
struct reached {
    double correct; // the share of the cases of `correct` that are right
    double aim;     // how far the aims have been reached; 1: the lab has no aims
    bool tried; // whether a gap is filled, a run has stored all outputs and, if no case is right,
                // an output or a count differs from the starter's
};

// How much of its points an item is paid, from 0 to 1, when it has reached `share` of what it asks
// for.
//
// 1. `correct`, `hidden` and `races` pay for each of their cases.
//
// 2. An aim pays by how far a kernel has come from the program before, from a fifth of the way on.
// While a case of `correct` is wrong, an aim pays half of that, and limits and speed pay nothing.
//
// 3. Any other item pays in proportion to how far the aims have been reached.
//
// So the program before gets nothing, and nobody gains by not trying. A starter gets nothing
// either, although it may meet an aim: aims count once a case is right or a gap is filled.
static inline double share_paid(enum pays_for what, double share, const struct reached *reached)
{
    bool right = reached->correct >= 1, never_right = reached->correct <= 0;

    if (never_right && !reached->tried)
        return 0;
    if (what == PAYS_AIM)
        return share * (right ? 1 : 0.5);
    if (what == PAYS_LIMIT && !right)
        return 0;
    return share * reached->aim;
}

#endif
