// footprint.c: values of a sheet's resources, from what the runner has measured in a submission's
// launches.
#include "judge.h"

#include <math.h>

double resource_graded(const struct footprint *f, const char *name)
{
    const double graded[] = {
#define RESOURCE(known, name, title, usual, times, image, device, graded) (double)(graded),
#include "../sheet/resources.def"
#undef RESOURCE
    };
    int found = resource_find(name, SHEETS);
    return found < 0 ? NAN : graded[found];
}
