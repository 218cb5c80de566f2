// late.c: how many of its points a late submission keeps. Grades do not change: the gradebook gets
// two more columns, the whole days late and the points that are left.
#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DAY = 24 * 60 * 60 };

static time_t deadline;
static char *times; // contents of the file of --times; NULL: the time of each file counts

// Reads a local time, "2026-11-22 23:59", optionally with T instead of the space and with seconds;
// -1: it is not a time.
static time_t read_time(const char *words)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                                        "%Y-%m-%dT%H:%M"};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        struct tm t = {.tm_isdst = -1};
        const char *end = strptime(words, forms[i], &t);
        if (end && !*end)
            return mktime(&t);
    }
    return -1;
}

void late_read(void)
{
    size_t bytes;

    if (!options.deadline) {
        if (options.times || options.late_days || options.penalty >= 0)
            fail(EXIT_USAGE, "--times, --late-days and --penalty go with --deadline");
        return;
    }
    deadline = read_time(options.deadline);
    if (deadline < 0)
        fail(EXIT_USAGE, "--deadline: \"%s\" is no time such as 2026-11-22T23:59",
             options.deadline);
    if (options.penalty < 0)
        options.penalty = 10;
    if (options.times && !(times = read_file(options.times, &bytes)))
        fail(EXIT_USAGE, "--times: cannot read %s", options.times);
}

// When a submission was handed in: by its line "NAME,TIME" in --times; without that option, when
// its file was last written.
static time_t came(const char *folder, const struct entry *e)
{
    size_t length = strlen(e->file);
    struct stat about;

    if (!times) {
        char *whole = text("%s/%s", folder, e->file);
        bool there = lstat(whole, &about) == 0;
        free(whole);
        return there ? about.st_mtime : deadline;
    }
    for (const char *line = times; *line;) {
        size_t end = strcspn(line, "\r\n");
        if (end > length && strncmp(line, e->file, length) == 0 && line[length] == ',') {
            char *words = text("%.*s", (int)(end - length - 1), line + length + 1);
            time_t time = read_time(words);
            if (time < 0)
                fail(EXIT_USAGE, "--times: %s: \"%s\" is no time such as 2026-11-22T23:59", e->name,
                     words);
            free(words);
            return time;
        }
        line += end + strspn(line + end, "\r\n");
    }
    fail(EXIT_USAGE, "--times: there is no line for %s", e->name);
}

int late_days(const char *folder, const struct entry *e)
{
    double late = difftime(came(folder, e), deadline);

    return late > 0 ? (int)ceil(late / DAY) : 0;
}

double late_points(double score, int days)
{
    int charged = days > options.late_days ? days - options.late_days : 0;
    double left = 1 - 0.01 * options.penalty * charged;

    return left > 0 ? round(10 * score * left) / 10 : 0;
}
