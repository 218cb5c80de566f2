// clock.c: the clock for host code that is recorded: a library that is loaded before all others
// (LD_PRELOAD). The clock begins at BOX_CLOCK, in nanoseconds since 1970, and advances with every
// look at it and with every sleep, which returns at once. Each record's clock begins at another
// random date (record.c), so a launch that depends on the clock differs between two records. Host
// code that reads the machine's clock in another way is not stopped.
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LOOK = 1000 }; // ns by which a look advances the clock

static uint64_t pass(uint64_t ns) // advances the clock; returns its new time
{
    static uint64_t clock_now;

    if (!clock_now) {
        const char *begin = getenv("BOX_CLOCK");
        clock_now = begin ? strtoull(begin, NULL, 10) : 1;
    }
    return clock_now += ns;
}

static struct timespec looked(void)
{
    uint64_t ns = pass(LOOK);
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    (void)clock;
    *to = looked();
    return 0;
}

int timespec_get(struct timespec *to, int base)
{
    *to = looked();
    return base;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec t = looked();

    (void)zone;
    *to = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *to)
{
    struct timespec t = looked();

    if (to)
        *to = t.tv_sec;
    return t.tv_sec;
}

clock_t clock(void)
{
    return (clock_t)(pass(LOOK) / 1000);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    pass((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
    if (left)
        *left = (struct timespec){0};
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct timespec t = looked();
    int64_t ns = 1000000000 * (int64_t)(time->tv_sec - t.tv_sec) + time->tv_nsec - t.tv_nsec;

    (void)clock;
    if (!(flags & TIMER_ABSTIME))
        return nanosleep(time, left);
    pass(ns > 0 ? (uint64_t)ns : 0);
    return 0;
}

int usleep(useconds_t us)
{
    pass((uint64_t)us * 1000);
    return 0;
}

unsigned sleep(unsigned seconds)
{
    pass((uint64_t)seconds * 1000000000);
    return 0;
}
