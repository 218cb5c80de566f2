// flags.c: what a teacher may want to look at in a submission. It costs no points: each of these has
// honest uses, and what can do harm is kept in by the sandbox.
#include "judge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

// Whether a text has this word, and not only as a part of another. A word may end in a bracket or
// begin with a dot.
static bool has_word(const char *words, const char *word, size_t length)
{
    const char *end = words + strlen(words);

    for (const char *at = words; (at = memmem(at, (size_t)(end - at), word, length)); ++at)
        if ((at == words || !is_name(word[0]) || !is_name(at[-1])) &&
            (!is_name(word[length - 1]) || !is_name(at[length])))
            return true;
    return false;
}

// A source without comments, and without spaces before brackets. New string.
static char *squeezed(const char *source)
{
    char *copy = text("%s", source), *to = copy;

    for (const char *at = source; *at;) {
        size_t length = 1, blank = strspn(at, " \t\n");
        bool comment = at[0] == '/' && (at[1] == '/' || at[1] == '*');
        const char *end = comment && at[1] == '*' ? strstr(at + 2, "*/") : NULL;
        if (comment)
            length = at[1] == '/' ? strcspn(at, "\n") : end ? (size_t)(end + 2 - at) : strlen(at);
        else if (blank)
            length = blank;
        if (!comment && !(blank && at[blank] == '(')) {
            memcpy(to, at, length);
            to += length;
        }
        at += length;
    }
    *to = '\0';
    return copy;
}

// Adds to a list in words: "a, b, c and more".
static void add_name(char **names, int *count, const char *name, size_t length)
{
    enum { NAMES_MAX = 4 };

    if (*count < NAMES_MAX)
        *names = text("%s%s%.*s", *names, *count ? ", " : "", (int)length, name);
    else if (*count == NAMES_MAX)
        *names = text("%s and more", *names);
    ++*count;
}

static void add_flag(json_t *flags, int count, const char *what, const char *names)
{
    if (count)
        json_array_append_new(flags, json_sprintf("%s: %s", what, names));
}

// Names of a PTX text's variables in global memory, without those that the lab's own program has
// and the strings of printf: they outlive a launch.
static void flag_state(json_t *flags, const char *ptx, const char *own)
{
    char *names = text("%s", "");
    int count = 0;

    for (const char *line = ptx; line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        size_t length = strcspn(line, "\n[=;");
        const char *end = line + length, *start;
        if (!memmem(line, length, ".global .align", 14) || *line == '\t' || *line == ' ')
            continue;
        while (end > line && !is_name(end[-1]))
            --end;
        for (start = end; start > line && is_name(start[-1]);)
            --start;
        if (start < end && *start != '$' && !has_word(own, start, (size_t)(end - start)) &&
            !memmem(start, (size_t)(end - start), "_INTERNAL_", 10))
            add_name(&names, &count, start, (size_t)(end - start));
    }
    add_flag(flags, count, "state between launches", names);
}

// Words of a source that the lab's own program has not.
static void flag_words(json_t *flags, const char *source, const char *own, const char *what,
                       const char *const words[])
{
    char *names = text("%s", "");
    int count = 0;

    for (int i = 0; words[i]; ++i)
        if (has_word(source, words[i], strlen(words[i])) &&
            !has_word(own, words[i], strlen(words[i])))
            add_name(&names, &count, words[i] + (words[i][0] == '('),
                     strcspn(words[i] + (words[i][0] == '('), "("));
    add_flag(flags, count, what, names);
}

json_t *flags_of(const char *source, const char *ptx)
{
    static const char *const early[] = {"(constructor", ".init_array", ".preinit_array", NULL};
    static const char *const outside[] = {
        "open(",    "openat(", "fopen(",  "fdopen(",  "freopen(", "dup(",    "dup2(",
        "socket(",  "mmap(",   "dlopen(", "dlsym(",   "system(",  "popen(",  "fork(",
        "vfork(",   "clone(",  "execv(",  "execl(",   "execve(",  "execvp(", "ptrace(",
        "syscall(", "getenv(", "/proc/",  "ifstream", "fstream",  "environ", NULL};
    static const char *const object[] = {".incbin", ".pushsection", ".section", ".symver", NULL};
    static const char *const prints[] = {"printf(", NULL};
    size_t bytes;
    char *program = read_file(text("%s/code/%s.%s", options.root, lab.program, lab.ending), &bytes);
    char *own = squeezed(program ? program : ""), *words = squeezed(source);
    json_t *flags = json_array();

    if (ptx)
        flag_state(flags, ptx, own);
    if (ptx && strstr(ptx, "vprintf"))
        flag_words(flags, words, own, "prints from its kernels", prints);
    flag_words(flags, words, own, "runs before main", early);
    flag_words(flags, words, own, "host code that reaches outside", outside);
    flag_words(flags, words, own, "writes sections of the object file", object);
    free(program);
    free(own);
    free(words);
    return flags;
}
