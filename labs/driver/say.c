// say.c: words and numbers in a report.
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH = 80, LEAST_WIDTH = 40 };

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

static int kept = -1; // a duplicate of stdout, while it is hushed; otherwise -1

void hush(void)
{
    if (kept >= 0)
        return;
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (nothing < 0 || kept < 0 || dup2(nothing, STDOUT_FILENO) < 0)
        fail(EXIT_MACHINE, "/dev/null: %s", strerror(errno));
    close(nothing);
}

void speak(void)
{
    if (kept < 0)
        return;
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    kept = -1;
}

void heading(const char *title)
{
    printf("\n%s%s%s\n", BOLD, title, PLAIN);
}

// Columns of the terminal, at most 80; 80 if there is no terminal.
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
        // Whether character i is in an escape sequence, which ends with m.
        bool ink = false;
        for (int i = 0; i < length; ++i) { // counts only the first byte of each UTF-8 character
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

const char *mark(bool pass)
{
    return pass ? text("%sok%s", GREEN_INK, PLAIN) : text("%sFAIL%s", RED_INK, PLAIN);
}

// Writes "12,345,678" for 12345678; a number below 100 that is not whole gets two decimals.
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
