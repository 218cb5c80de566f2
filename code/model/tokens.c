// tokens.c: byte-level byte-pair encoding. A pattern cuts a text into words, and a word begins as one symbol a byte.
// Then, of all pairs of neighbouring symbols, the one that stands first in the list of merges becomes one symbol, until
// no pair is in the list.
#include "model.h"

#include "host/host.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// GPT-2's pattern (Radford et al. 2019, encoder.py), for the text between digits.
static const char PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// The pattern that cuts digits out first: one digit, or a text without digits.
static const char DIGITS[] = "\\p{N}|\\P{N}+";

enum { NORMAL = 1 }; // the type of ordinary tokens; others are special

struct tokens {
    int count;
    struct span *names; // the tokens' names, as in the file
    char **bytes;       // the bytes that each token stands for
    size_t *lengths;
    struct hsearch_data numbers, ranks; // tokens' numbers by name; merges' ranks by "a b"
    char *keys;                         // the keys of both tables, each with a NUL
    char symbols[BYTES][3];             // the letter of each byte, in UTF-8
    pcre2_code *words, *digits;
    int unknown; // the token for bytes that have no token of their own
};

// GPT-2 writes bytes as visible letters: a byte that is a visible letter of Latin-1 is that letter, and all others are
// the letters from number 256 on.
void byte_letters(char symbols[BYTES][3])
{
    int more = 256;
    for (int b = 0; b < BYTES; ++b) {
        const bool seen = (b > 32 && b < 127) || (b > 160 && b != 173);
        const int letter = seen ? b : more++;
        char *to = symbols[b];
        if (letter < 128) {
            *to++ = (char)letter;
        } else {
            *to++ = (char)(0xc0 | letter >> 6);
            *to++ = (char)(0x80 | (letter & 63));
        }
        *to = '\0';
    }
}

// Converts a token's name to the bytes that it stands for; false: one of its letters stands for no byte.
static bool read_name(const struct tokens *t, struct span name, char *to, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < name.bytes;) {
        const size_t letter = (unsigned char)name.at[i] < 0x80 ? 1 : 2;
        int b = 0;
        while (b < BYTES && !(strlen(t->symbols[b]) == letter && i + letter <= name.bytes &&
                              memcmp(t->symbols[b], name.at + i, letter) == 0))
            ++b;
        if (b == BYTES)
            return false;
        to[(*length)++] = (char)b;
        i += letter;
    }
    return true;
}

static pcre2_code *compile(const char *pattern)
{
    int error;
    size_t at;
    pcre2_code *code = pcre2_compile((const uint8_t *)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
    return need(code);
}

// Fills a table with the index of each name. The keys are copied to *to, each with a NUL. what: "token" or "merge", for
// messages.
static void number_names(struct hsearch_data *table, const struct gguf *file, const char *what,
                         const struct span *names, size_t count, char **to)
{
    if (!hcreate_r(2 * count + 1, table))
        need(NULL);
    for (size_t i = 0; i < count; ++i) {
        ENTRY *found, entry = {.key = *to, .data = (void *)(i + 1)};
        if (memchr(names[i].at, '\0', names[i].bytes))
            fail(EXIT_USAGE, "%s: %s %zu has a byte 0 in it", gguf_path(file), what, i);
        memcpy(*to, names[i].at, names[i].bytes);
        (*to)[names[i].bytes] = '\0';
        *to += names[i].bytes + 1;
        if (!hsearch_r(entry, ENTER, &found, table))
            need(NULL);
        if (found->data != entry.data)
            fail(EXIT_USAGE, "%s: %s %zu is the same as %s %zu", gguf_path(file), what, i, what,
                 (size_t)(intptr_t)found->data - 1);
    }
}

static size_t total(const struct span *texts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i)
        bytes += texts[i].bytes + 1;
    return bytes;
}

static long number_of(const struct hsearch_data *table, char *name)
{
    ENTRY *found;
    return hsearch_r((ENTRY){.key = name}, FIND, &found, (struct hsearch_data *)(uintptr_t)table)
               ? (long)(intptr_t)found->data - 1
               : -1;
}

// ---- Open ---------------------------------------------------------------------------------------

static void read_tokens(struct tokens *t, const struct gguf *file)
{
    size_t count, types;
    t->names = gguf_texts(file, "tokenizer.ggml.tokens", &count);
    const uint8_t *type = gguf_int32s(file, "tokenizer.ggml.token_type", &types);
    if (count < 1 || count > INT32_MAX || types != count)
        fail(EXIT_USAGE, "%s: %zu tokens, and types of %zu", gguf_path(file), count, types);
    t->count = (int)count;
    t->bytes = need(calloc(count, sizeof *t->bytes));
    t->lengths = need(calloc(count, sizeof *t->lengths));
    for (size_t i = 0; i < count; ++i) {
        int32_t of;
        memcpy(&of, type + 4 * i, sizeof of);
        t->bytes[i] = need(malloc(t->names[i].bytes + 1));
        if (of == NORMAL && !read_name(t, t->names[i], t->bytes[i], &t->lengths[i]))
            fail(EXIT_USAGE, "%s: token %zu has a letter that stands for no byte", gguf_path(file),
                 i);
    }
}

// Checks that each merge is two names with a space between, and that the joined name is a token's.
static void check_merges(const struct tokens *t, const struct gguf *file, const struct span *merges,
                         size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const char *space = memchr(merges[i].at, ' ', merges[i].bytes);
        const size_t first = space ? (size_t)(space - merges[i].at) : 0;
        char *made = text("%.*s%.*s", (int)first, merges[i].at,
                          space ? (int)(merges[i].bytes - first - 1) : 0, space ? space + 1 : "");
        if (!space || number_of(&t->numbers, made) < 0)
            fail(EXIT_USAGE, "%s: merge %zu makes no token", gguf_path(file), i);
        free(made);
    }
}

struct tokens *tokens_open(const struct gguf *file)
{
    struct tokens *t = need(calloc(1, sizeof *t));
    size_t merge_count;

    gguf_expect(file, "tokenizer.ggml.model", "gpt2");
    gguf_expect(file, "tokenizer.ggml.pre", "smollm");
    byte_letters(t->symbols);
    read_tokens(t, file);
    struct span *merges = gguf_texts(file, "tokenizer.ggml.merges", &merge_count);
    char *to = t->keys =
        need(malloc(total(t->names, (size_t)t->count) + total(merges, merge_count)));
    number_names(&t->numbers, file, "token", t->names, (size_t)t->count, &to);
    number_names(&t->ranks, file, "merge", merges, merge_count, &to);
    check_merges(t, file, merges, merge_count);
    free(merges);
    t->unknown = (int)gguf_whole(file, "tokenizer.ggml.unknown_token_id", 0, t->count - 1);
    t->words = compile(PATTERN);
    t->digits = compile(DIGITS);
    return t;
}

void tokens_close(struct tokens *t)
{
    for (int i = 0; i < t->count; ++i)
        free(t->bytes[i]);
    free(t->bytes);
    free(t->lengths);
    free(t->names);
    free(t->keys);
    hdestroy_r(&t->numbers);
    hdestroy_r(&t->ranks);
    pcre2_code_free(t->words);
    pcre2_code_free(t->digits);
    free(t);
}

int tokens_count(const struct tokens *t)
{
    return t->count;
}

int tokens_named(const struct tokens *t, const char *name)
{
    return (int)number_of(&t->numbers, (char *)(uintptr_t)name);
}

struct span token_bytes(const struct tokens *t, int token)
{
    return (struct span){t->bytes[token], t->lengths[token]};
}

// ---- Text to tokens -----------------------------------------------------------------------------

struct list { // a list of tokens that grows
    int *at;
    size_t count, room;
};

static void append(struct list *list, int token)
{
    if (list->count == list->room) {
        list->room = 2 * list->room + 16;
        list->at = need(realloc(list->at, list->room * sizeof *list->at));
    }
    list->at[list->count++] = token;
}

// A word while its symbols are joined.
struct word {
    char *names;    // the symbols' names, one after the other
    size_t *starts; // where each symbol's name starts in `names`, and where the last ends
    size_t symbols; // how many symbols are left
    char *pair;     // room for a key of the table of merges, "a b"
};

// The rank of the merge of symbols i and i + 1; -1: there is no such merge.
static long rank_of(const struct tokens *t, const struct word *w, size_t i)
{
    const size_t first = w->starts[i + 1] - w->starts[i],
                 second = w->starts[i + 2] - w->starts[i + 1];
    memcpy(w->pair, w->names + w->starts[i], first);
    w->pair[first] = ' ';
    memcpy(w->pair + first + 1, w->names + w->starts[i + 1], second);
    w->pair[first + 1 + second] = '\0';
    return number_of(&t->ranks, w->pair);
}

static void merge(const struct tokens *t, struct word *w)
{
    long *ranks = need(malloc(w->symbols * sizeof *ranks));
    for (size_t i = 0; i + 1 < w->symbols; ++i)
        ranks[i] = rank_of(t, w, i);
    for (;;) {
        size_t best = w->symbols;
        for (size_t i = 0; i + 1 < w->symbols; ++i)
            if (ranks[i] >= 0 && (best == w->symbols || ranks[i] < ranks[best]))
                best = i;
        if (best == w->symbols)
            break;
        --w->symbols;
        memmove(w->starts + best + 1, w->starts + best + 2,
                (w->symbols - best) * sizeof *w->starts);
        memmove(ranks + best, ranks + best + 1, (w->symbols - best) * sizeof *ranks);
        if (best + 1 < w->symbols)
            ranks[best] = rank_of(t, w, best);
        if (best > 0)
            ranks[best - 1] = rank_of(t, w, best - 1);
    }
    free(ranks);
}

static void add_word(const struct tokens *t, const char *text, size_t bytes, struct list *list)
{
    struct word w = {.names = need(malloc(2 * bytes + 1)),
                     .starts = need(malloc((bytes + 2) * sizeof *w.starts)),
                     .symbols = bytes,
                     .pair = need(malloc(2 * bytes + 2))};
    size_t end = 0;

    for (size_t i = 0; i < bytes; ++i) {
        const char *symbol = t->symbols[(unsigned char)text[i]];
        w.starts[i] = end;
        memcpy(w.names + end, symbol, strlen(symbol));
        end += strlen(symbol);
    }
    w.starts[bytes] = end;
    merge(t, &w);
    for (size_t i = 0; i < w.symbols; ++i) {
        const size_t length = w.starts[i + 1] - w.starts[i];
        memcpy(w.pair, w.names + w.starts[i], length);
        w.pair[length] = '\0';
        const long token = number_of(&t->numbers, w.pair); // some control bytes have no token
        append(list, token < 0 ? t->unknown : (int)token);
    }
    free(w.names);
    free(w.starts);
    free(w.pair);
}

typedef void add_fn(const struct tokens *t, const char *text, size_t bytes, struct list *list);

// Cuts a text by a pattern, which matches at every place. False: the text is not UTF-8 at the byte *wrong.
static bool cut(const struct tokens *t, const pcre2_code *pattern, const char *text, size_t bytes,
                add_fn *add, struct list *list, size_t *wrong)
{
    pcre2_match_data *match = need(pcre2_match_data_create(1, NULL));
    size_t from = 0;

    while (from < bytes) {
        // The first match has checked that all of the text is UTF-8.
        const uint32_t known = from > 0 ? PCRE2_NO_UTF_CHECK : 0;
        if (pcre2_match(pattern, (const uint8_t *)text, bytes, from, known | PCRE2_ANCHORED, match,
                        NULL) < 0) {
            *wrong = pcre2_get_startchar(match);
            pcre2_match_data_free(match);
            return false;
        }
        const size_t to = pcre2_get_ovector_pointer(match)[1];
        add(t, text + from, to - from, list);
        from = to;
    }
    pcre2_match_data_free(match);
    return true;
}

static void add_between_digits(const struct tokens *t, const char *text, size_t bytes,
                               struct list *list)
{
    size_t wrong;
    cut(t, t->words, text, bytes, add_word, list, &wrong);
}

int *tokens_of(const struct tokens *t, const char *text, size_t bytes, size_t *count)
{
    struct list list = {.at = need(malloc(sizeof *list.at)), .room = 1};

    if (!cut(t, t->digits, text, bytes, add_between_digits, &list, count)) {
        free(list.at);
        return NULL;
    }
    *count = list.count;
    return list.at;
}

int *tokens_of_stream(const struct tokens *t, FILE *stream, size_t *count)
{
    size_t bytes;
    char *text = read_stream(stream, &bytes);
    if (!text)
        fail(EXIT_MACHINE, "the text cannot be read: %m");
    int *tokens = tokens_of(t, text, bytes, count);
    if (!tokens)
        fail(EXIT_USAGE, "the text is no UTF-8 at byte %zu", *count);
    free(text);
    return tokens;
}

int *tokens_to_foretell(const struct tokens *t, FILE *stream, size_t *count)
{
    int *tokens = tokens_of_stream(t, stream, count);
    if (*count < 2)
        fail(EXIT_USAGE, "the text has %zu tokens; a second one is the first to be foretold",
             *count);
    return tokens;
}
