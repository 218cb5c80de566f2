// alike.c: finds submissions of a folder that share text which is neither the starter's nor the
// book's; and finds which program of another chapter a submission is.
//
// Winnowing (Schleimer, Wilkerson, Aiken: "Winnowing: Local Algorithms for Document
// Fingerprinting", SIGMOD 2003). A text, once unchanged and once preprocessed, becomes tokens,
// without comments, spaces, directives and empty statements. All numbers are the same token; so are
// all texts in quotes, and all names, except for words that is_kept() lists. Each run of RUN tokens
// has a hash. From each WINDOW consecutive runs, the least hash is kept as a fingerprint, with its
// line. Two texts that share RUN + WINDOW - 1 consecutive tokens share a fingerprint. The result
// tells where to look, not who copied.
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

// ---- Tokens -------------------------------------------------------------------------------------

static bool is_name(char c) // a letter of any alphabet counts
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

// Whether the token of a word keeps its spelling: keywords of the language, names with a meaning in
// CUDA, and names that begin with two underscores say what a program does.
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

static const char *past(const char *s, const char *end, const char *what)
{
    const char *found = memmem(s, (size_t)(end - s), what, strlen(what));
    return found ? found + strlen(what) : end;
}

// Skips a comment, a space or a directive of the preprocessor; returns `s` if there is none.
static const char *past_blank(const char *s, const char *end, bool line_begins)
{
    if (isspace((unsigned char)*s))
        return s + 1;
    if (end - s >= 2 && s[0] == '/' && s[1] == '/')
        return past(s, end, "\n");
    if (end - s >= 2 && s[0] == '/' && s[1] == '*')
        return past(s + 2, end, "*/");
    if (*s == '#' && line_begins)
        while (s < end && *s != '\n') // a backslash at the end of a line joins the next one
            s += *s == '\\' && end - s >= 2 ? 2 : 1;
    return s;
}

// Returns the end of a token; *kind becomes its hash.
static const char *past_token(const char *s, const char *end, uint64_t *kind)
{
    const char *start = s;
    uint64_t hash = 14695981039346656037u; // FNV-1a

    if (*s == '"' || *s == '\'') {
        for (++s; s < end && *s != *start && *s != '\n'; ++s)
            s += *s == '\\' && end - s >= 2;
        s += s < end && *s == *start;
        return *kind = '"', s;
    }
    if (isdigit((unsigned char)*s)) {
        while (s < end && (is_name(*s) || *s == '.'))
            ++s;
        return *kind = '0', s;
    }
    if (!is_name(*s))
        return *kind = (unsigned char)*s, s + 1;
    while (s < end && is_name(*s))
        ++s;
    if (!is_kept(start, (size_t)(s - start)))
        return *kind = 'n', s;
    for (const char *at = start; at < s; ++at)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    return *kind = hash, s;
}

// The number in a line "# 12" of the preprocessor's output: the source line that follows it. 0: the
// line has another form.
static int line_said(const char *s, const char *end)
{
    int line = 0;

    if (end - s < 3 || memcmp(s, "# ", 2) != 0)
        return 0;
    for (s += 2; s < end && isdigit((unsigned char)*s) && line < 1 << 24; ++s)
        line = 10 * line + *s - '0';
    return line;
}

static int by_hash(const void *a, const void *b)
{
    const struct print *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

// Sorts the fingerprints and removes repetitions.
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

// Whether a token is an empty statement: a semicolon after another one, after a brace, or at the
// beginning.
static bool is_empty(const struct print *tokens, int count, uint64_t kind)
{
    const uint64_t before = count > 0 ? tokens[count - 1].hash : ';';
    return kind == ';' && (before == ';' || before == '{' || before == '}');
}

// The tokens of a text, each with its line, without empty statements: an array of *count, for the
// caller to free.
static struct print *tokens_of(const struct source *source, bool preprocessed, int *count)
{
    const char *s = source->text, *end = s + source->bytes;
    struct print *tokens = NULL;
    int room = 0, line = 1;
    bool line_begins = true;

    *count = 0;
    if (source->bytes >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) // skips a byte order mark
        s += 3;
    while (s < end) {
        const char *next = past_blank(s, end, line_begins);
        uint64_t kind = 0;
        bool token = next == s;
        int said = preprocessed && line_begins && !token ? line_said(s, end) : 0;
        if (token)
            next = past_token(s, end, &kind);
        if (token && !is_empty(tokens, *count, kind)) {
            if (*count == room)
                tokens = need(realloc(tokens, (size_t)(room = 2 * room + 1024) * sizeof *tokens));
            tokens[(*count)++] = (struct print){kind, line};
        }
        line_begins = !token && (line_begins || next[-1] == '\n');
        for (; s < next; ++s)
            line += *s == '\n';
        line = said ? said - 1 : line;
    }
    return tokens;
}

bool reads_the_same(const struct source *plain, const struct source *other)
{
    int counts[2];
    struct print *tokens[] = {tokens_of(plain, true, &counts[0]),
                              tokens_of(other, true, &counts[1])};
    bool same = counts[0] == counts[1];

    for (int i = 0; same && i < counts[0]; ++i)
        same = tokens[0][i].hash == tokens[1][i].hash;
    free(tokens[0]);
    free(tokens[1]);
    return same;
}

// Adds the fingerprints of a text.
static void add_prints_of(struct prints *p, const struct source *source, bool preprocessed)
{
    int count, last = -1;
    struct print *tokens = tokens_of(source, preprocessed, &count);
    int runs = count - RUN + 1;
    for (int i = 0; i < runs; ++i) { // replaces each token by the hash of the run that begins there
        uint64_t hash = 0;
        for (int j = 0; j < RUN; ++j)
            hash = (hash + tokens[i + j].hash + 1) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
        tokens[i].hash = hash;
    }
    for (int i = 0; i + WINDOW <= runs; ++i) {
        int least = i;
        for (int j = i; j < i + WINDOW; ++j)
            if (tokens[j].hash <= tokens[least].hash) // if several are least, takes the last one
                least = j;
        if (least == last)
            continue;
        last = least;
        p->at = need(realloc(p->at, ((size_t)p->count + 1) * sizeof *p->at));
        p->at[p->count++] = tokens[least];
    }
    free(tokens);
}

// Adds the fingerprints of a source twice: unchanged, since the preprocessor may drop text; and
// preprocessed, since macros may disguise it.
static void add_prints(struct prints *p, const struct source *source, const struct source *plain)
{
    add_prints_of(p, source, false);
    add_prints_of(p, plain, true);
}

// ---- Sets ---------------------------------------------------------------------------------------

// The fingerprints that any submission may have: those of the book's programs, starters and planted
// bugs.
static struct prints of_the_book(void)
{
    static const char *const folders[] = {"code", "build/starters", "build/mutants"};
    glob_t found = {.gl_pathc = 0};
    struct prints book = {0};
    int count = 0;

    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
        char *pattern = text("%s/%s/*.%s", root, folders[i], sheet.ending);
        (void)glob(pattern, GLOB_APPEND, NULL, &found); // a folder that does not exist adds nothing
        free(pattern);
    }
    struct source *sources = need(realloc(NULL, (2 * found.gl_pathc + 1) * sizeof *sources));
    struct source *plain = sources + found.gl_pathc;
    for (size_t i = 0; i < found.gl_pathc; ++i)
        if ((sources[count] = source_of(found.gl_pathv[i])).text)
            ++count;
    preprocess(sources, plain, count);
    for (int i = 0; i < count; ++i) {
        add_prints(&book, &sources[i], &plain[i]);
        free(sources[i].text);
        free(plain[i].text);
    }
    free(sources);
    globfree(&found);
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

// The fingerprints of a submission that the book does not have.
static struct prints own_prints(const struct entry *e, const struct prints *book)
{
    const struct source source = {e->source, e->bytes};
    struct source plain;
    struct prints own = {0};

    preprocess(&source, &plain, 1);
    add_prints(&own, &source, &plain);
    free(plain.text);
    in_order(&own);
    subtract(&own, book);
    return own;
}

struct pair {
    int first, second, shared, percent;
    int from[2], to[2]; // for each text, the first and last line of what they share
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
    struct prints book = of_the_book(), *own = need(calloc((size_t)count + 1, sizeof *own));
    struct pair *pairs = NULL;
    int found = 0;

    for (int i = 0; i < count; ++i) {
        if (entries[i].source)
            own[i] = own_prints(&entries[i], &book);
    }
    for (int i = 0; i < count; ++i)
        for (int j = i + 1; j < count; ++j) {
            struct pair pair = compare(own, i, j);
            if (pair.percent < PERCENT_LEAST)
                continue;
            pairs = need(realloc(pairs, ((size_t)found + 1) * sizeof *pairs));
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

// ---- Another chapter's program ------------------------------------------------------------------

static struct prints prints_of(const struct source *source, const struct source *plain)
{
    struct prints p = {0};

    add_prints(&p, source, plain);
    in_order(&p);
    return p;
}

static int shared_by(const struct prints *a, const struct prints *b)
{
    int shared = 0;

    for (int i = 0; i < a->count && b->count; ++i)
        shared += bsearch(&a->at[i], b->at, (size_t)b->count, sizeof *b->at, by_hash) ? 1 : 0;
    return shared;
}

// Looks at the fingerprints of a chapter's program that neither the starter nor the lab's own
// program has. A text that has nearly all of these is taken for the chapter's program, whatever
// else it contains. Of several such programs, the one that shares most fingerprints is taken.
char *book_program(const struct source given[2], const struct source own[2],
                   const struct source starter[2])
{
    static const int ENOUGH_PERCENT = 95;
    char *pattern = text("%s/code/ch*.%s", root, sheet.ending), *name = NULL;
    char *own_name = text("%s.%s", sheet.program, sheet.ending);
    glob_t found = {.gl_pathc = 0};
    int best = 0;

    (void)glob(pattern, 0, NULL, &found);
    struct source *sources = need(calloc(2 * found.gl_pathc + 1, sizeof *sources));
    struct source *plain = sources + found.gl_pathc;
    struct prints of_given = prints_of(&given[0], &given[1]), of_own = prints_of(&own[0], &own[1]),
                  of_starter = prints_of(&starter[0], &starter[1]);
    for (size_t i = 0; i < found.gl_pathc; ++i)
        sources[i] = source_of(found.gl_pathv[i]);
    preprocess(sources, plain, (int)found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        const char *file = strrchr(found.gl_pathv[i], '/') + 1;
        struct prints p = prints_of(&sources[i], &plain[i]);
        subtract(&p, &of_own);
        subtract(&p, &of_starter);
        int shared = shared_by(&p, &of_given);
        if (strcmp(file, own_name) != 0 && p.count >= OWN_LEAST && shared > best &&
            100 * shared >= ENOUGH_PERCENT * p.count) {
            free(name);
            name = text("%.*s", (int)(strlen(file) - strlen(sheet.ending) - 1), file);
            best = shared;
        }
        free(p.at);
        free(sources[i].text);
        free(plain[i].text);
    }
    free(of_given.at);
    free(of_own.at);
    free(of_starter.at);
    free(sources);
    globfree(&found);
    free(pattern);
    free(own_name);
    return name;
}
