// flags.c: flags what a teacher may want to look at in a submission. Flags cost no points: what
// they name may be honest, and the sandbox stops what could do harm.
#include "judge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

// Whether a text contains this word, not only as part of a longer one. The word may begin or end
// with a character that no name has, such as a bracket, a dot or a slash.
static bool has_word(const struct source *in, const char *word, size_t length)
{
    const char *words = in->text, *end = words + in->bytes;

    for (const char *at = words; (at = memmem(at, (size_t)(end - at), word, length)); ++at)
        if ((at == words || !is_name(word[0]) || !is_name(at[-1])) &&
            (!is_name(word[length - 1]) || at + length == end || !is_name(at[length])))
            return true;
    return false;
}

static size_t blanks(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && memchr(" \t\r\n\v\f", *at, 6))
        ++at;
    return (size_t)(at - start);
}

static size_t comment(const char *at, const char *end) // length of a comment; 0: there is none at
                                                       // `at`
{
    bool line = end - at >= 2 && memcmp(at, "//", 2) == 0;
    bool block = end - at >= 2 && memcmp(at, "/*", 2) == 0;
    const char *stop = line    ? memchr(at, '\n', (size_t)(end - at))
                       : block ? memmem(at + 2, (size_t)(end - at - 2), "*/", 2)
                               : at;
    return (size_t)((stop ? stop + (block ? 2 : 0) : end) - at);
}

// Appends a source without its comments, and without spaces before brackets.
static char *squeeze(char *to, const struct source *source)
{
    const char *end = source->text + source->bytes;

    for (const char *at = source->text; at < end;) {
        size_t skipped = comment(at, end), blank = skipped ? 0 : blanks(at, end);
        size_t length = skipped ? skipped : blank ? blank : 1;
        if (!skipped && !(blank && at + blank < end && at[blank] == '('))
            to = mempcpy(to, at, length);
        at += length;
    }
    *to++ = '\n';
    return to;
}

// A source unchanged, followed by the source preprocessed: a macro may make a word, or hide it from
// the preprocessor. For the caller to free.
static struct source squeezed(const struct source source[2])
{
    char *words = need(malloc(source[0].bytes + source[1].bytes + 3));

    char *to = squeeze(squeeze(words, &source[0]), &source[1]);
    *to = '\0';
    return (struct source){words, (size_t)(to - words)};
}

// Adds a name to a list in words, such as "a, b, c and more".
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

// Whether a variable is a library's object without state: local to its translation unit, and named
// only in its declaration.
static bool keeps_nothing(const char *ptx, const char *name, size_t length)
{
    char *word = text("%.*s", (int)length, name);
    int named = 0;
    for (const char *at = ptx; (at = strstr(at, word)) != NULL; at += length)
        ++named;
    free(word);
    return memmem(name, length, "_INTERNAL_", 10) && named == 1;
}

// The place after the next ".global" (or other memory) that declares a variable; NULL: there is
// none. Inline assembly may have a declaration anywhere. In an instruction, such as ld.global.f32,
// the word is part of a longer one.
static const char *next_variable(const char *ptx, const char *memory)
{
    for (const char *at = ptx; (at = strstr(at, memory)) != NULL;) {
        const bool begins = at == ptx || strchr(" \t\n;{}/", at[-1]);
        at += strlen(memory);
        if (begins && *at && strchr(" \t\n/", *at))
            return at;
    }
    return NULL;
}

// Whether a text defines a variable of this name in a GPU's memory: after __device__ or
// __constant__, in the same declaration, and not in the head of a function.
static bool has_variable(const struct source *in, const char *name, size_t length)
{
    const char *end = in->text + in->bytes;

    for (const char *at = in->text; (at = memmem(at, (size_t)(end - at), name, length)); ++at) {
        const char *from = at;
        while (from > in->text && !memchr(";{}", from[-1], 3))
            --from;
        const size_t before = (size_t)(at - from);
        if ((at == in->text || !is_name(at[-1])) && (at + length == end || !is_name(at[length])) &&
            !memchr(from, '(', before) &&
            (memmem(from, before, "__device__", 10) || memmem(from, before, "__constant__", 12)))
            return true;
    }
    return false;
}

// Adds the names of a PTX text's variables in a memory; leaves out variables of the lab's own
// program, strings of printf, and libraries' objects without state.
static void add_variables(char **names, int *count, const char *ptx, const char *memory,
                          const struct source *own)
{
    for (const char *from = ptx; (from = next_variable(from, memory)) != NULL;) {
        const char *end = from + strcspn(from, "[=;"), *start;
        while (end > from && !is_name(end[-1]))
            --end;
        for (start = end; start > from && is_name(start[-1]);)
            --start;
        if (start < end && *start != '$' && !has_variable(own, start, (size_t)(end - start)) &&
            !keeps_nothing(ptx, start, (size_t)(end - start)))
            add_name(names, count, start, (size_t)(end - start));
    }
}

// Flags variables that outlive a launch: those in global memory, and those in constant memory if
// the program takes their generic addresses, through which it could store.
static void flag_state(json_t *flags, const char *ptx, const struct source *own)
{
    char *names = text("%s", "");
    int count = 0;

    add_variables(&names, &count, ptx, ".global", own);
    if (strstr(ptx, "cvta.const"))
        add_variables(&names, &count, ptx, ".const", own);
    add_flag(flags, count, "state between launches", names);
}

// Flags words of a source that do not occur in the lab's own program.
static void flag_words(json_t *flags, const struct source *source, const struct source *own,
                       const char *what, const char *const words[])
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

json_t *flags_of(const struct source source[2], const struct source program[2], const char *ptx)
{
    static const char *const early[] = {"(constructor", ".init_array", ".preinit_array", NULL};
    static const char *const outside[] = {
        "open(",    "openat(", "fopen(",  "fdopen(",  "freopen(", "dup(",    "dup2(",
        "socket(",  "mmap(",   "dlopen(", "dlsym(",   "system(",  "popen(",  "fork(",
        "vfork(",   "clone(",  "execv(",  "execl(",   "execve(",  "execvp(", "ptrace(",
        "syscall(", "getenv(", "/proc/",  "ifstream", "fstream",  "environ", NULL};
    static const char *const object[] = {".incbin", ".pushsection", ".section", ".symver", NULL};
    static const char *const prints[] = {"printf(", NULL};
    struct source own = squeezed(program), words = squeezed(source);
    json_t *flags = json_array();

    if (ptx)
        flag_state(flags, ptx, &own);
    if (ptx && strstr(ptx, "vprintf"))
        flag_words(flags, &words, &own, "prints from its kernels", prints);
    flag_words(flags, &words, &own, "runs before main", early);
    flag_words(flags, &words, &own, "host code that reaches outside", outside);
    flag_words(flags, &words, &own, "writes sections of the object file", object);
    free(own.text);
    free(words.text);
    return flags;
}
