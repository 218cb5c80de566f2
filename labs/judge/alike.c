// alike.c: which submissions of a folder have text in common that is neither the starter's nor the book's.
//
// Winnowing (Schleimer, Wilkerson, Aiken: "Winnowing: Local Algorithms for Document Fingerprinting",
// SIGMOD 2003). A text becomes tokens in which comments, spaces, names and numbers play no part; of
// each WINDOW runs of RUN tokens the one with the least hash is kept, with its line. Two texts that
// share RUN + WINDOW - 1 tokens share a fingerprint. It says where to look, and not who wrote it.
#include "judge.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 16, WINDOW = 8, OWN_LEAST = 8, PERCENT_LEAST = 50, PAIRS_MAX = 1000 };

struct print {
    uint64_t hash;
    int line;
};

struct prints {
    struct print *at;
    int count;
};

static void *grown(void *old, size_t bytes)
{
    void *new = realloc(old, bytes);
    if (!new)
        fail(EXIT_MACHINE, "out of memory");
    return new;
}

// ---- Tokens -------------------------------------------------------------------------------------

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

// Words that say what a program does: the language's, and those that CUDA has given a meaning.
static bool is_kept(const char *word, size_t length)
{
    static const char *const words[] = {
        "if",     "else",   "for",   "while",  "do",        "return",   "break",    "continue",
        "switch", "case",   "const", "static", "struct",    "float",    "int",      "void",
        "half",   "double", "bool",  "char",   "threadIdx", "blockIdx", "blockDim", "gridDim",
        "asm",    "fmaxf",  "expf",  "exp2f",  "template",  "unsigned", "volatile", "goto",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (strlen(words[i]) == length && strncmp(words[i], word, length) == 0)
            return true;
    return length > 2 && word[0] == '_' && word[1] == '_';
}

// Past a comment, a space or a directive of the preprocessor; the same place if there is none.
static const char *past_blank(const char *s, bool line_begins)
{
    if (isspace((unsigned char)*s))
        return s + 1;
    if (s[0] == '/' && s[1] == '/')
        return s + strcspn(s, "\n");
    if (s[0] == '/' && s[1] == '*') {
        const char *end = strstr(s + 2, "*/");
        return end ? end + 2 : s + strlen(s);
    }
    if (*s == '#' && line_begins)
        while (*s && *s != '\n') // a backslash at its end takes the next line along
            s += *s == '\\' && s[1] ? 2 : 1;
    return s;
}

// Past a token; its hash in *kind.
static const char *past_token(const char *s, uint64_t *kind)
{
    const char *start = s;
    uint64_t hash = 14695981039346656037u; // FNV-1a

    if (*s == '"' || *s == '\'') {
        for (++s; *s && *s != *start && *s != '\n'; ++s)
            s += *s == '\\' && s[1];
        s += *s == *start;
        return *kind = '"', s;
    }
    if (isdigit((unsigned char)*s)) {
        while (is_name(*s) || *s == '.')
            ++s;
        return *kind = '0', s;
    }
    if (!is_name(*s))
        return *kind = (unsigned char)*s, s + 1;
    while (is_name(*s))
        ++s;
    if (!is_kept(start, (size_t)(s - start)))
        return *kind = 'n', s;
    for (const char *at = start; at < s; ++at)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    return *kind = hash, s;
}

static int by_hash(const void *a, const void *b)
{
    const struct print *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

// Sorted, each once.
static void in_order(struct prints *p)
{
    int kept = 0;

    if (p->count)
        qsort(p->at, (size_t)p->count, sizeof *p->at, by_hash);
    for (int i = 0; i < p->count; ++i)
        if (kept == 0 || p->at[i].hash != p->at[kept - 1].hash)
            p->at[kept++] = p->at[i];
    p->count = kept;
}

// A text's tokens, each with its line. New array, *count long.
static struct print *tokens_of(const char *source, int *count)
{
    struct print *tokens = NULL;
    int room = 0, line = 1;
    bool line_begins = true;

    *count = 0;
    for (const char *s = source; *s;) {
        const char *next = past_blank(s, line_begins);
        uint64_t kind = 0;
        bool token = next == s;
        if (token)
            next = past_token(s, &kind);
        if (token) {
            if (*count == room)
                tokens = grown(tokens, (size_t)(room = 2 * room + 1024) * sizeof *tokens);
            tokens[(*count)++] = (struct print){kind, line};
        }
        line_begins = !token && (line_begins || next[-1] == '\n');
        for (; s < next; ++s)
            line += *s == '\n';
    }
    return tokens;
}

bool reads_the_same(const char *source, const char *other)
{
    int counts[2];
    struct print *tokens[] = {tokens_of(source, &counts[0]), tokens_of(other, &counts[1])};
    bool same = counts[0] == counts[1];

    for (int i = 0; same && i < counts[0]; ++i)
        same = tokens[0][i].hash == tokens[1][i].hash;
    free(tokens[0]);
    free(tokens[1]);
    return same;
}

// Adds the fingerprints of a text.
static void add_prints(struct prints *p, const char *source)
{
    int count, last = -1;
    struct print *tokens = tokens_of(source, &count);
    int runs = count - RUN + 1;
    for (int i = 0; i < runs; ++i) { // a token becomes the run that begins with it
        uint64_t hash = 0;
        for (int j = 0; j < RUN; ++j)
            hash = (hash + tokens[i + j].hash + 1) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
        tokens[i].hash = hash;
    }
    for (int i = 0; i + WINDOW <= runs; ++i) {
        int least = i;
        for (int j = i; j < i + WINDOW; ++j)
            if (tokens[j].hash <= tokens[least].hash) // the rightmost of equals
                least = j;
        if (least == last)
            continue;
        last = least;
        p->at = grown(p->at, ((size_t)p->count + 1) * sizeof *p->at);
        p->at[p->count++] = tokens[least];
    }
    free(tokens);
}

// ---- Sets ---------------------------------------------------------------------------------------

// What every submission may have: the book's programs, its starters and planted bugs.
static struct prints of_the_book(void)
{
    static const char *const folders[] = {"code", "build/starters", "build/mutants"};
    struct prints book = {0};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
        glob_t found;
        if (glob(text("%s/%s/*.%s", options.root, folders[i], lab.ending), 0, NULL, &found))
            continue;
        for (size_t j = 0; j < found.gl_pathc; ++j) {
            size_t bytes;
            char *source = read_file(found.gl_pathv[j], &bytes);
            if (source)
                add_prints(&book, source);
            free(source);
        }
        globfree(&found);
    }
    in_order(&book);
    return book;
}

static void subtract(struct prints *p, const struct prints *less)
{
    int kept = 0;

    for (int i = 0; i < p->count; ++i)
        if (!less->count ||
            !bsearch(&p->at[i], less->at, (size_t)less->count, sizeof *less->at, by_hash))
            p->at[kept++] = p->at[i];
    p->count = kept;
}

struct pair {
    int first, second, shared, percent;
    int from[2], to[2]; // lines of what they share
};

static struct pair compare(const struct prints *all, int first, int second)
{
    const struct prints *a = &all[first], *b = &all[second];
    struct pair pair = {.first = first, .second = second};

    for (int i = 0, j = 0; i < a->count && j < b->count;) {
        int order = by_hash(&a->at[i], &b->at[j]);
        if (order == 0) {
            const int lines[] = {a->at[i].line, b->at[j].line};
            for (int k = 0; k < 2; ++k) {
                if (pair.shared == 0 || lines[k] < pair.from[k])
                    pair.from[k] = lines[k];
                if (lines[k] > pair.to[k])
                    pair.to[k] = lines[k];
            }
            ++pair.shared;
        }
        i += order <= 0;
        j += order >= 0;
    }
    int less = a->count < b->count ? a->count : b->count;
    pair.percent = less >= OWN_LEAST ? 100 * pair.shared / less : 0;
    return pair;
}

static int by_percent(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->percent != y->percent ? y->percent - x->percent : y->shared - x->shared;
}

int find_alike(const char *path, const struct entry *entries, int count)
{
    struct prints book = of_the_book(), *own = calloc((size_t)count + 1, sizeof *own);
    struct pair *pairs = NULL;
    int found = 0;

    if (!own)
        fail(EXIT_MACHINE, "out of memory");
    for (int i = 0; i < count; ++i) {
        if (!entries[i].source)
            continue;
        add_prints(&own[i], entries[i].source);
        in_order(&own[i]);
        subtract(&own[i], &book);
    }
    for (int i = 0; i < count; ++i)
        for (int j = i + 1; j < count; ++j) {
            struct pair pair = compare(own, i, j);
            if (pair.percent < PERCENT_LEAST)
                continue;
            pairs = grown(pairs, ((size_t)found + 1) * sizeof *pairs);
            pairs[found++] = pair;
        }
    if (found)
        qsort(pairs, (size_t)found, sizeof *pairs, by_percent);
    FILE *to = fopen(path, "we");
    if (!to)
        fail(EXIT_MACHINE, "cannot write %s", path);
    fputs("first,second,percent,fingerprints,lines of the first,of the second\n", to);
    for (int i = 0; i < found && i < PAIRS_MAX; ++i) {
        write_csv(to, entries[pairs[i].first].name);
        fputc(',', to);
        write_csv(to, entries[pairs[i].second].name);
        fprintf(to, ",%d,%d,%d-%d,%d-%d\n", pairs[i].percent, pairs[i].shared, pairs[i].from[0],
                pairs[i].to[0], pairs[i].from[1], pairs[i].to[1]);
    }
    if (fclose(to))
        fail(EXIT_MACHINE, "cannot write %s", path);
    for (int i = 0; i < count; ++i)
        free(own[i].at);
    free(own);
    free(pairs);
    free(book.at);
    return found;
}
