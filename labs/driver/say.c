// say.c: words, numbers and JSON.
#include "lab.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH = 80, LEAST_WIDTH = 40, QUIET_SECONDS = 5 };

char speaker[32] = "lab";

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

char *text(const char *format, ...)
{
    char *string;
    va_list args;
    va_start(args, format);
    if (vasprintf(&string, format, args) < 0)
        fail(EXIT_MACHINE, "out of memory");
    va_end(args);
    return string;
}

const char *RED_INK = "", *GREEN_INK = "", *BOLD = "", *FAINT = "", *PLAIN = "";

void colours(void)
{
    if (!isatty(STDOUT_FILENO) || getenv("NO_COLOR"))
        return;
    RED_INK = "\033[31m";
    GREEN_INK = "\033[32m";
    BOLD = "\033[1m";
    FAINT = "\033[2m";
    PLAIN = "\033[0m";
}

void heading(const char *title)
{
    printf("\n%s%s%s\n", BOLD, title, PLAIN);
}

// Columns of the terminal, at most 80; 80 elsewhere.
static int columns_here(void)
{
    struct winsize size = {0};
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col == 0 ||
        size.ws_col > WIDTH)
        return WIDTH;
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
}

bool narrow(void)
{
    return columns_here() < WIDTH;
}

void wrap(const char *words, int used, int indent)
{
    const int width = columns_here() - (narrow() ? 0 : 2);
    bool space = used > indent;
    for (; *words; space = true) {
        int length = strcspn(words, " "), columns = 0;
        bool ink = false;                  // an escape sequence, which ends with m
        for (int i = 0; i < length; ++i) { // of UTF-8, the first byte of each character
            ink |= words[i] == '\033';
            columns += !ink && ((unsigned char)words[i] & 0xc0) != 0x80;
            ink &= words[i] != 'm';
        }
        if (space && used + 1 + columns > width)
            used = printf("\n%*s", indent, "") - 1;
        else if (space)
            used += printf(" ");
        printf("%.*s", length, words);
        used += columns;
        words += length + strspn(words + length, " ");
    }
    putchar('\n');
}

static char under_way[128]; // what is being done; empty: nothing
static int told;            // the second that its line shows

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

const char *mark(bool pass)
{
    return pass ? text("%sok%s", GREEN_INK, PLAIN) : text("%sFAIL%s", RED_INK, PLAIN);
}

// 12345678 -> "12,345,678"; below 100, what is no whole number has two decimals.
const char *grouped(double value)
{
    char digits[64], out[96];
    if (!(fabs(value) < 1e15) || (value != floor(value) && fabs(value) < 100))
        return text("%.2f", value);
    int length = snprintf(digits, sizeof digits, "%.0f", value), at = 0;
    for (int i = 0; i < length; ++i) {
        out[at++] = digits[i];
        if (digits[i] != '-' && (length - i - 1) % 3 == 0 && i < length - 1)
            out[at++] = ',';
    }
    out[at] = '\0';
    return text("%s", out);
}

// ---- JSON ---------------------------------------------------------------------------------------

json_t *at(json_t *json, const char *path)
{
    char key[128];
    while (json && *path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        json = json_object_get(json, key);
        path += length + (path[length] == '.');
    }
    return json;
}

double number_at(json_t *json, const char *path)
{
    json_t *value = at(json, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *string_at(json_t *json, const char *path)
{
    const char *string = json_string_value(at(json, path));
    return string ? string : "?";
}

void write_json(json_t *json, const char *path)
{
    char why[PATH_MAX + 128];
    char *said = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (!said)
        fail(EXIT_MACHINE, "out of memory");
    if (!file_write(path, said, strlen(said), why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    free(said);
}
