// clock.c: the time. It has a file of its own because some programs that need it also link the
// simulator, whose fail() would clash with that of say.c.
#include "host.h"

#include <time.h>

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *date_now(void)
{
    static char date[32];
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
    return date;
}
