#include "judge.h"
#include <math.h>
double measure_speed(struct submission *s, const char *shape, char **why)
{
    (void)s, (void)shape;
    *why = text("x");
    return NAN;
}
