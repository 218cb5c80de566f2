// say.c: fail(), texts, and a line on stderr that shows what is being done.
#include "host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUIET_SECONDS = 5 };

const char *speaker = "?";

void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    done();
    fprintf(stderr, "%s: ", speaker);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

int whole(const char *what, const char *word, int least, int most)
{
    char *end;
    errno = 0;
    long value = strtol(word, &end, 10);
    if (*word < '0' || *word > '9' || *end || errno || value < least || value > most)
        fail(EXIT_USAGE, "%s: \"%s\" is no whole number from %d to %d", what, word, least, most);
    return (int)value;
}

void *need(void *memory)
{
    if (!memory)
        fail(EXIT_MACHINE, "out of memory");
    return memory;
}

char *text(const char *format, ...)
{
    char *string;
    va_list args;
    va_start(args, format);
    if (vasprintf(&string, format, args) < 0)
        string = need(NULL);
    va_end(args);
    return string;
}

static char under_way[128]; // what is being done; "": no line is shown
static int told;            // the seconds that the line shows; 0: none; -1: no line yet

void doing(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(under_way, sizeof under_way, format, args);
    va_end(args);
    told = -1;
    still_doing(0);
}

void still_doing(double seconds)
{
    int shown = seconds < QUIET_SECONDS ? 0 : (int)seconds;
    if (!*under_way || shown == told || !isatty(STDERR_FILENO))
        return;
    fflush(stdout);
    fprintf(stderr, "\r\033[K  %s ...", under_way);
    if (shown)
        fprintf(stderr, " %d s", shown);
    told = shown;
}

void done(void)
{
    if (*under_way && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    *under_way = '\0';
}
