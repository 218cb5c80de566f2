// rule.h: the rule of points, for the grader (judge/) and for what a lab says of points (driver/). Appendix D
// has it in three sentences, and every sheet (code/literate/sheets.lua).
#ifndef RULE_H
#define RULE_H

#include <stdbool.h>

enum pays_for {
    PAYS_CASES, // correct, hidden, races: each of their cases
    PAYS_AIM,   // a count that has to differ from that of the program before
    PAYS_LIMIT, // another limit, or speed
};

// What a submission has reached of a lab, each from 0 to 1.
struct reached {
    double correct; // cases of `correct` that are right
    double aim;     // of the way to the aims; 1 where the lab has none
    bool
        tried; // a gap of the starter is filled, and a run has stored every output, which are not the starter's
};

// Which share of its points, from 0 to 1, an item is paid that has this share of what it asks for.
//
// 1. `correct`, `hidden` and `races` pay for each of their cases.
// 2. An aim pays by how far it has come from the program before, of a kernel from a fifth of the way on; half of
//    that, and limits and speed nothing, while a case of `correct` is wrong.
// 3. Everything but the aim grows with it, from nothing to the whole.
//
// So the program before has nothing, and nobody is better off for not trying. Nor has a starter, whose
// aims may come with what is printed in it: they count when a case is right or a gap is filled.
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
