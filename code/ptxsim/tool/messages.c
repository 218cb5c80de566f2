// messages.c: faults as compilers tell errors, FILE:LINE first, so that editors and CI go there.
//
// The simulator tells a kernel's fault as "KERNEL, FILE:LINE (called at FILE:LINE, …), block (x,y,z), thread (x,y,z):
// what happened … at FILE:LINE": the last is the other access. A fault between streams, or of the host, has places in
// its words only: the first one counts.
#include "tool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PLACE = 1024 };

struct place {
    char file[MOST_PLACE];
    long line; // 0: not known
};

// The place FILE:LINE that ends before `end`: it has no bounds of its own, so it begins behind the last of `before`.
static struct place place_before(const char *begin, const char *end)
{
    struct place p = {.file = ""};
    const char *colon = end;
    while (colon > begin && isdigit((unsigned char)colon[-1]))
        --colon;
    if (colon == end || colon == begin || colon[-1] != ':')
        return p;
    p.line = strtol(colon, NULL, 10);
    snprintf(p.file, sizeof p.file, "%.*s", (int)(colon - 1 - begin), begin);
    return p;
}

// The first place in words, behind ", ", " at " or " (submitted at ".
static struct place place_in(const char *words)
{
    for (const char *at = words; (at = strchr(at, ':')); ++at) {
        const char *end = at + 1, *begin = at;
        while (isdigit((unsigned char)*end))
            ++end;
        if (end == at + 1 || isalnum((unsigned char)*end))
            continue;
        while (begin > words && strncmp(begin - 1, " at ", 4) && strncmp(begin - 1, ", ", 2))
            --begin;
        if (begin == words)
            continue;
        return place_before(begin - 1 + (begin[-1] == ',' ? 2 : 4), end);
    }
    return (struct place){.file = ""};
}

// Whether a file is a header of the system or of a toolkit, where a user has nothing to mend.
static bool is_foreign(const char *file)
{
    return strstr(file, "/include/") && (strncmp(file, "/usr/include/", 13) == 0 ||
                                         strstr(file, "/cuda") || strstr(file, "/nvidia/"));
}

// The place of an instruction, "FILE:LINE (called at FILE:LINE, FILE:LINE)": in a header of the toolkit, of the call
// of it that stands in the program.
static struct place own_place(const char *words, const char *end)
{
    char *copy = text("%.*s", (int)(end - words), words);
    const char *called = strstr(copy, " (called at ");
    struct place p = place_before(copy, called ? called : copy + strlen(copy));
    char *more = called ? text("%s", called + strlen(" (called at ")) : text("%s", "");
    for (char *rest = more, *one; is_foreign(p.file) && (one = strsep(&rest, ",)"));) {
        struct place caller = place_before(one + (*one == ' '), one + strlen(one));
        if (caller.line)
            p = caller;
    }
    free(copy);
    free(more);
    return p;
}

static json_t *three(const char *words, const char *before)
{
    const char *at = strstr(words, before);
    unsigned x, y, z;
    if (!at || sscanf(at + strlen(before), "(%u,%u,%u)", &x, &y, &z) != 3)
        return NULL;
    return json_pack("[i, i, i]", (int)x, (int)y, (int)z);
}

static void set(json_t *object, const char *key, json_t *value)
{
    if (value)
        json_object_set_new(object, key, value);
}

// A file of the checkout is named from its root, wherever the program was started: here as it can be opened.
static void set_place(json_t *object, const struct place *p)
{
    if (!p->line)
        return;
    char *file = text("%s/%s", root, p->file);
    bool elsewhere = access(p->file, R_OK) != 0 && access(file, R_OK) == 0;
    json_object_set_new(object, "file", json_string(elsewhere ? file : p->file));
    free(file);
    json_object_set_new(object, "line", json_integer(p->line));
}

// The other access that a kernel's fault tells of: its thread, and where.
static json_t *other_party(const char *what)
{
    const char *thread = strstr(what, "thread (");
    if (!thread)
        return NULL;
    struct place p = place_in(thread);
    json_t *other = json_object();
    set(other, "thread", three(thread, "thread "));
    const char *block = strstr(thread, " of block (");
    const char *at = strstr(thread, " at ");
    if (block && at && block < at)
        set(other, "block", three(block, " of block "));
    set_place(other, &p);
    return other;
}

json_t *fault_add(json_t *faults, const char *kind, const char *words)
{
    json_t *fault = json_object();
    const char *block = strstr(words, ", block ("), *comma = strstr(words, ", ");
    const char *what = block ? strstr(block, "): ") : NULL;
    struct place p;
    json_object_set_new(fault, "kind", json_string(kind));
    if (what && comma < block) {
        p = own_place(comma + 2, block);
        json_object_set_new(fault, "kernel", json_stringn(words, (size_t)(comma - words)));
    } else {
        p = place_in(words);
    }
    set_place(fault, &p);
    if (what) {
        if (comma == block)
            json_object_set_new(fault, "kernel", json_stringn(words, (size_t)(comma - words)));
        set(fault, "block", three(block, ", block "));
        set(fault, "thread", three(block, ", thread "));
        set(fault, "other", other_party(what));
    }
    json_object_set_new(fault, "what", json_string(what ? what + strlen("): ") : words));
    json_object_set_new(fault, "text", json_string(words));
    json_array_append_new(faults, fault);
    return fault;
}

// Bytes of a fault's words that name its kernel and its line.
static size_t head_of(const char *words)
{
    const char *block = strstr(words, ", block (");
    return block ? (size_t)(block - words) : strlen(words);
}

// Whether a film's fault is one of a run's: the same words, or (not exact) the same two lines of the same kernel.
static bool is_same(const json_t *filmed, const json_t *fault, bool exact)
{
    const char *a = string_or(filmed, "text", ""), *b = string_or(fault, "text", "");
    if (strcmp(string_or(filmed, "kind", ""), string_or(fault, "kind", "")) != 0)
        return false;
    if (exact) // but for how many there are like it
        return strncmp(a, b, strlen(a)) == 0;
    const char *after = strstr(a, "): ");
    json_t *other = after ? other_party(after) : NULL;
    bool same = head_of(a) == head_of(b) && strncmp(a, b, head_of(a)) == 0 &&
                whole_at(other, "line") == whole_at(fault, "other.line");
    json_decref(other);
    return same;
}

void faults_explain(json_t *faults, json_t *recording, const char *program)
{
    json_t *kernel, *filmed, *fault;
    size_t i, k, n;
    json_array_foreach (json_object_get(recording, "kernels"), i, kernel) {
        film_explain(kernel, program);
        for (int exact = 1; exact >= 0; --exact)
            json_array_foreach (json_object_get(kernel, "faults"), k, filmed)
                json_array_foreach (faults, n, fault)
                    if (!json_object_get(fault, "sentence") && is_same(filmed, fault, exact))
                        json_object_set_new(fault, "sentence",
                                            json_string(string_or(filmed, "sentence", "")));
    }
}

// Words with an indent, in lines of 100 columns at most.
static void print_wrapped(FILE *out, const char *words)
{
    enum { INDENT = 4, WIDTH = 100 };
    int column = 0;
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (column && column + 1 + length > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%*s%.*s", column ? 1 : INDENT, "", length, words);
        column += (column ? 1 : INDENT) + length;
        words += length + (words[length] == ' ');
    }
    fputc('\n', out);
}

static void print_place(FILE *out, const json_t *object)
{
    long line = whole_at(object, "line");
    if (line)
        fprintf(out, "%s:%ld: ", string_or(object, "file", ""), line);
    else
        fputs("ptxsim: ", out);
}

static const char *coordinates(const json_t *three)
{
    return text("(%d,%d,%d)", (int)json_integer_value(json_array_get(three, 0)),
                (int)json_integer_value(json_array_get(three, 1)),
                (int)json_integer_value(json_array_get(three, 2)));
}

static void print_fault(const json_t *fault, FILE *out)
{
    const json_t *block = json_object_get(fault, "block"),
                 *thread = json_object_get(fault, "thread");
    const json_t *other = json_object_get(fault, "other");
    print_place(out, fault);
    fprintf(out, "error: [%s] %s\n", string_or(fault, "kind", ""), string_or(fault, "what", ""));
    if (*string_or(fault, "sentence", ""))
        print_wrapped(out, string_or(fault, "sentence", ""));
    if (block)
        fprintf(out, "    kernel %s, block %s, thread %s\n", string_or(fault, "kernel", "?"),
                coordinates(block), coordinates(thread));
    if (whole_at(other, "line")) {
        print_place(out, other);
        fprintf(out, "note: the other access, of thread %s%s\n",
                coordinates(json_object_get(other, "thread")),
                json_object_get(other, "block")
                    ? text(" of block %s", coordinates(json_object_get(other, "block")))
                    : "");
    }
}

void faults_print(const json_t *faults, FILE *out)
{
    const json_t *fault;
    size_t i;
    json_array_foreach (faults, i, fault)
        print_fault(fault, out);
}
