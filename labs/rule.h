// rule.h: the rule of points, for the grader (judge/) and for what a lab says of points (driver/). Appendix D
// has it in three sentences, and every sheet (code/literate/sheets.lua).
#ifndef RULE_H
#define RULE_H

#include <stdbool.h>

enum pays_for {
    PAYS_CASES, // correct, hidden, races: each of their cases
    PAYS_AIM,   // a count that is to come away from that of the program before
    PAYS_LIMIT, // another limit, or speed
};

// What of a lab a submission has, each from 0 to 1.
struct reached {
    double correct; // cases of `correct` that are right
    double aim;     // of the way to the aims; 1 where the lab has none
    bool tried;     // a gap of the starter is filled, and a run has stored every output
};

// Which share of its points, from 0 to 1, an item is paid that has this share of what it asks for.
//
// 1. `correct`, `hidden` and `races` pay for each of their cases.
// 2. An aim pays by how far it has come from the program before; half of that, and limits and speed
//    nothing, while a case of `correct` is wrong.
// 3. Everything but the aim pays a quarter without it and grows with it to the whole; a kernel that
//    has neither the aim nor a right case has nothing.
//
// Who has the aims never earns less than who has not, if they have a third of the points, which the
// sheets see to: aim / 2 >= (all - aim) / 4.
static inline double share_paid(enum pays_for what, double share, const struct reached *reached)
{
    bool right = reached->correct >= 1, never_right = reached->correct <= 0;

    if (never_right && (!reached->tried || reached->aim <= 0))
        return 0;
    if (what == PAYS_AIM)
        return share * (right ? 1 : 0.5);
    if (what == PAYS_LIMIT && !right)
        return 0;
    return share * (0.25 + 0.75 * reached->aim);
}

#endif
