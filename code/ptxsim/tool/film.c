// film.c: makes a page from a recording of PTXSIM_FILM: it has the viewer of code/film/, the
// recording, the source text, and a description of what is wrong.
#include "tool.h"

#include "ptxsim/machine/film_events.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *viewer;

enum { PAGE_MOST = 8 << 20, LINES_AFTER = 6 };

// ---- Text ---------------------------------------------------------------------------------------

struct text {
    char *data;
    size_t size, capacity;
};

static void append(struct text *t, const char *data, size_t size)
{
    if (t->size + size + 1 > t->capacity) {
        t->capacity = 2 * (t->size + size) + 4096;
        t->data = need(realloc(t->data, t->capacity));
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
}

static void append_html(struct text *t, const char *words)
{
    for (; *words; ++words) {
        const char *as = *words == '<'   ? "&lt;"
                         : *words == '&' ? "&amp;"
                         : *words == '"' ? "&quot;"
                                         : NULL;
        append(t, as ? as : words, as ? strlen(as) : 1);
    }
}

// ---- Source -------------------------------------------------------------------------------------

// Whether an instruction of the kernel has a line in a file; *last becomes the last such line.
static bool has_lines(const json_t *kernel, const char *file, int *last)
{
    const json_t *insn;
    size_t i;
    *last = 0;
    json_array_foreach (json_object_get(kernel, "instructions"), i, insn) {
        int line = (int)json_integer_value(json_array_get(insn, 1));
        if (strcmp(json_string_value(json_array_get(insn, 0)), file) == 0 && line > *last)
            *last = line;
    }
    return *last > 0;
}

// The text that the compiler read, of a chapter's program or a mutant: its lines are in the
// program's order, and #line directives name their places in the chapter. NULL: the program is
// neither.
static char *compiled_text(const char *program)
{
    static const char *const folders[] = {"build/tangled", "build/mutants"};
    const char *slash = strrchr(program, '/');
    for (int i = 0; i < 2; ++i) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s/%s.cu", root, folders[i], slash ? slash + 1 : program);
        char *text = read_file(path, NULL);
        if (text && strstr(text, "#line "))
            return text;
        free(text);
    }
    return NULL;
}

static void add_line(json_t *lines, const char *file, int number, const char *text, size_t length)
{
    json_t *line = json_stringn(text, length);
    json_array_append_new(lines,
                          json_pack("[s, i, o]", file, number, line ? line : json_string("")));
}

// Adds the lines of a text that has #line directives, each with the file and line that these give.
static void lines_of_compiled(json_t *lines, const char *text)
{
    char file[4096] = "";
    int number = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (sscanf(text, "#line %d \"%4095[^\"]\"", &number, file) < 1)
            add_line(lines, file, number++, text, length);
        text += length + (text[length] == '\n');
    }
}

// Adds the lines of a file, up to the last one that has an instruction of the kernel.
static void lines_of_file(json_t *lines, const json_t *kernel, const char *file, char **all)
{
    int last, number = 1;
    char path[8192];
    if (!has_lines(kernel, file, &last))
        return;
    snprintf(path, sizeof path, "%s/%s", root, file);
    char *text = read_file(access(file, R_OK) == 0 ? file : path, NULL);
    if (!text)
        return;
    for (const char *at = text; *at && number <= last + LINES_AFTER; ++number) {
        size_t length = strcspn(at, "\n");
        add_line(lines, file, number, at, length);
        at += length + (at[length] == '\n');
    }
    if (!*all)
        *all = text;
}

// The kernel's text as [[file, line, text], ...]; *all gets the program's text, in which types are
// looked up.
static json_t *source_of(const json_t *kernel, const char *program, char **all)
{
    json_t *lines = json_array(), *seen = json_object();
    const json_t *insn;
    size_t i;
    *all = compiled_text(program);
    const bool compiled = *all != NULL; // such a text includes the chapters' lines
    if (compiled)
        lines_of_compiled(lines, *all);
    json_array_foreach (json_object_get(kernel, "instructions"), i, insn) {
        const char *file = json_string_value(json_array_get(insn, 0));
        if (!*file || json_object_get(seen, file))
            continue;
        json_object_set_new(seen, file, json_true());
        if (!compiled || strncmp(file, "chapters/", 9) != 0)
            lines_of_file(lines, kernel, file, all);
    }
    json_decref(seen);
    return lines;
}

// Removes the lines after the kernel (the host's part of the program), except the first few.
static void trim_source(json_t *lines, const json_t *kernel)
{
    json_t *used = json_object();
    const json_t *row;
    size_t i, last = 0;
    char key[4200];
    json_array_foreach (json_object_get(kernel, "instructions"), i, row) {
        snprintf(key, sizeof key, "%s:%d", json_string_value(json_array_get(row, 0)),
                 (int)json_integer_value(json_array_get(row, 1)));
        json_object_set_new(used, key, json_true());
    }
    json_array_foreach (lines, i, row) {
        snprintf(key, sizeof key, "%s:%d", json_string_value(json_array_get(row, 0)),
                 (int)json_integer_value(json_array_get(row, 1)));
        if (json_object_get(used, key))
            last = i;
    }
    while (json_array_size(lines) > last + LINES_AFTER)
        json_array_remove(lines, json_array_size(lines) - 1);
    json_decref(used);
}

// ---- What is wrong ------------------------------------------------------------------------------

enum { MOST_CALLS = 16 };

// The calls that lead to an instruction: the line in the kernel, then the line in each inlined
// function.
struct chain {
    int count;
    char place[MOST_CALLS][256]; // each as "FILE:LINE", where FILE has no folder
};

static void add_place(struct chain *c, const char *place)
{
    const char *slash = strrchr(place, '/');
    if (c->count < MOST_CALLS)
        snprintf(c->place[c->count++], sizeof c->place[0], "%s", slash ? slash + 1 : place);
}

// Makes the chain of an instruction from its callers, ["FILE:LINE", ...] with the innermost first,
// and its own line.
static struct chain chain_of(const json_t *kernel, long number)
{
    struct chain c = {0};
    char own[4200];
    const json_t *insn = json_array_get(json_object_get(kernel, "instructions"), (size_t)number);
    const char *file = json_string_value(json_array_get(insn, 0));
    const json_t *callers = json_array_get(insn, 2);
    for (size_t i = json_array_size(callers); i-- > 0;)
        add_place(&c, json_string_value(json_array_get(callers, i)));
    snprintf(own, sizeof own, "%s:%d", file && *file ? file : "?",
             (int)json_integer_value(json_array_get(insn, 1)));
    add_place(&c, own);
    return c;
}

// Writes "line FILE:LINE (there FILE:LINE)": the call at `level` of a chain, and in brackets the
// instruction's own line.
static void line_at(const struct chain *c, int level, char *text, size_t size)
{
    level = level < c->count ? level : c->count - 1;
    int used = snprintf(text, size, "line %s", c->place[level]);
    if (level < c->count - 1)
        snprintf(text + used, size - (size_t)used, " (there %s)", c->place[c->count - 1]);
}

// Whether a place is at or before another one in the same file.
static bool not_after(const char *a, const char *b)
{
    const char *colon = strrchr(a, ':'), *other = strrchr(b, ':');
    return colon && other && colon - a == other - b && strncmp(a, b, (size_t)(colon - a)) == 0 &&
           atoi(colon + 1) <= atoi(other + 1);
}

// Whether an instruction is a store: explanations say "writes" for a store, and "reads" for all
// others, also for atomic operations.
static bool stores_global(const json_t *kernel, long number)
{
    const json_t *insn = json_array_get(json_object_get(kernel, "instructions"), (size_t)number);
    return json_integer_value(json_array_get(insn, 5));
}

// Whether an instruction is a store, or an asynchronous copy, which writes to shared memory.
static bool stores(const json_t *kernel, long number)
{
    const json_t *insn = json_array_get(json_object_get(kernel, "instructions"), (size_t)number);
    return stores_global(kernel, number) ||
           strcmp(json_string_value(json_array_get(insn, 3)), "copy_async") == 0;
}

static bool has_mbarriers(const json_t *kernel)
{
    const json_t *insn;
    size_t i;
    json_array_foreach (json_object_get(kernel, "instructions"), i, insn)
        if (strncmp(json_string_value(json_array_get(insn, 4)), "mbarrier", 8) == 0)
            return true;
    return false;
}

// Element i of an event's row.
static long number_of(const json_t *row, size_t i)
{
    return (long)json_integer_value(json_array_get(row, i));
}

// Whether pattern `number`, of an access whose addresses begin at `base`, has the byte at `at`.
static bool pattern_has(const json_t *kernel, long number, long base, long at)
{
    const json_t *pattern = json_array_get(json_object_get(kernel, "patterns"), (size_t)number);
    for (size_t i = 2; i < json_array_size(pattern); ++i) {
        long from = base + number_of(pattern, i);
        if (at >= from && at < from + number_of(pattern, 0))
            return true;
    }
    return false;
}

// Whether an event is an access by instruction `insn` to the byte of a race.
static bool is_access(const json_t *kernel, const json_t *fault, const json_t *row, long insn)
{
    long type = number_of(row, 0);
    if ((type != EVENT_SHARED && type != EVENT_GLOBAL) || number_of(row, 1) != insn)
        return false;
    if (type == EVENT_SHARED)
        return json_object_get(fault, "at") &&
               pattern_has(kernel, number_of(row, 4), number_of(row, 3), whole_at(fault, "at"));
    return json_object_get(fault, "byte") && number_of(row, 3) == whole_at(fault, "allocation") &&
           pattern_has(kernel, number_of(row, 5), number_of(row, 4), whole_at(fault, "byte"));
}

struct moment {    // a lane's progress
    long rounds;   // how often it has reached the instruction
    long barriers; // how many barriers have released its warp
    bool found;
};

// A lane's progress at its last access to the byte of a race before the race was found.
static struct moment moment_of(const json_t *kernel, const json_t *fault, long insn, long thread)
{
    struct moment now = {0}, last = {0};
    const json_t *row, *block = NULL;
    long warp = -1;
    size_t i, end = (size_t)whole_at(fault, "event");
    json_array_foreach (json_object_get(kernel, "events"), i, row) {
        long type = number_of(row, 0);
        if (i >= end && type == EVENT_BLOCK)
            break;
        if (type == EVENT_RELEASE)
            now.barriers += number_of(row, 2) >> thread / 32 & 1;
        if (type == EVENT_BLOCK) {
            warp = number_of(row, 1);
            block = json_array_get(json_object_get(kernel, "blocks"), (size_t)number_of(row, 2));
            now.rounds += warp == thread / 32 && number_of(row, 3) >> thread % 32 & 1 &&
                          insn >= number_of(block, 0) &&
                          insn < number_of(block, 0) + number_of(block, 1);
        }
        if (warp == thread / 32 && is_access(kernel, fault, row, insn)) {
            last = now;
            last.found = true;
        }
    }
    return last;
}

// Whether two threads of a race are at one line, and no barrier could be between their accesses.
// For one instruction: both threads have reached it equally often. For two instructions of the
// line: the kernel has no mbarriers, and equally many barriers have released both threads.
static bool same_line(const json_t *kernel, const json_t *fault, const struct chain *a,
                      const struct chain *b)
{
    long insn = whole_at(fault, "insn"), other = whole_at(fault, "other");
    if (a->count != b->count || strncmp(a->place[a->count - 1], "?:", 2) == 0)
        return false;
    for (int i = 0; i < a->count; ++i)
        if (strcmp(a->place[i], b->place[i]) != 0)
            return false;
    struct moment first = moment_of(kernel, fault, other, whole_at(fault, "thread"));
    struct moment second =
        moment_of(kernel, fault, insn, 32 * whole_at(fault, "warp") + whole_at(fault, "lane"));
    if (!first.found || !second.found)
        return false;
    return insn == other ? first.rounds == second.rounds
                         : !has_mbarriers(kernel) && first.barriers == second.barriers;
}

// Whether the warp of a race's first access had already executed the instruction of the second
// access in the same round. Then it is the second access that is late, and the first should have
// waited for it. Compares how often each of the two warps had executed that instruction.
static bool comes_late(const json_t *kernel, const json_t *fault)
{
    const json_t *blocks = json_object_get(kernel, "blocks"), *row;
    json_int_t insn = (json_int_t)whole_at(fault, "insn");
    json_int_t other = (json_int_t)whole_at(fault, "other");
    json_int_t warp = (json_int_t)whole_at(fault, "warp");
    json_int_t first = (json_int_t)whole_at(fault, "thread") / 32;
    size_t i, end = (size_t)whole_at(fault, "event");
    long by_first = 0, before = 0, by_second = 0;
    json_array_foreach (json_object_get(kernel, "events"), i, row) {
        if (i >= end)
            break;
        if (json_integer_value(json_array_get(row, 0)) != EVENT_BLOCK)
            continue;
        const json_t *block =
            json_array_get(blocks, (size_t)json_integer_value(json_array_get(row, 2)));
        json_int_t from = json_integer_value(json_array_get(block, 0));
        json_int_t to = from + json_integer_value(json_array_get(block, 1));
        json_int_t of = json_integer_value(json_array_get(row, 1));
        bool second_here = insn >= from && insn < to, first_here = other >= from && other < to;
        by_second += of == warp && second_here;
        if (of != first)
            continue;
        if (first_here) // within one block, the order of the two instructions decides
            before = by_first + (second_here && insn < other);
        by_first += second_here;
    }
    return first != warp && before >= by_second;
}

static void cta_name(const json_t *index, char *text, size_t size)
{
    json_int_t i[3];
    for (size_t k = 0; k < 3; ++k)
        i[k] = json_integer_value(json_array_get(index, k));
    snprintf(text, size, "CTA (%d, %d, %d)", (int)i[0], (int)i[1], (int)i[2]);
}

// Whether the other access of a race is by a CTA other than the filmed one.
static bool between_ctas(const json_t *kernel, const json_t *fault)
{
    const json_t *theirs = json_object_get(fault, "cta");
    return theirs && !json_equal(theirs, json_object_get(kernel, "cta"));
}

// Explains a race between two CTAs in a sentence.
static void explain_ctas(const json_t *kernel, const json_t *fault, char *text, size_t size)
{
    char first[600], second[600], mine[64], theirs[64];
    unsigned thread = (unsigned)whole_at(fault, "thread");
    struct chain a = chain_of(kernel, whole_at(fault, "other"));
    struct chain b = chain_of(kernel, whole_at(fault, "insn"));
    line_at(&a, 0, first, sizeof first);
    line_at(&b, 0, second, sizeof second);
    cta_name(json_object_get(kernel, "cta"), mine, sizeof mine);
    cta_name(json_object_get(fault, "cta"), theirs, sizeof theirs);
    snprintf(
        text, size,
        "Nothing orders two CTAs that touch the same %.0f bytes of global memory: %s, warp %u, "
        "lane %u %s them at %s, and %s, warp %.0f, lane %.0f %s them at %s. CTAs run in any "
        "order and at the same time: let one atomic operation do it, or have the second wait "
        "for a release of the first. If they should not share that place, look at the index.",
        number_or(fault, "bytes", 0), theirs, thread / 32, thread % 32,
        json_is_true(json_object_get(fault, "wrote")) ? "writes" : "reads", first, mine,
        number_or(fault, "warp", 0), number_or(fault, "lane", 0),
        stores_global(kernel, whole_at(fault, "insn")) ? "writes" : "reads", second);
}

// ---- Wrong addresses ----------------------------------------------------------------------------

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Whether a line of the source ends a statement, or contains no part of one.
static bool ends_statement(const char *line)
{
    const char *comment = strstr(line, "//");
    size_t length = comment ? (size_t)(comment - line) : strlen(line);
    while (length && strchr(" \t", line[length - 1]))
        --length;
    return length == 0 || strchr(";{}", line[length - 1]);
}

static const char *source_line(const json_t *source, size_t i)
{
    const char *text = json_string_value(json_array_get(json_array_get(source, i), 2));
    return text ? text : "";
}

// Writes the statement at a place FILE:LINE, without comments; empty if the source has no such
// line.
static void statement_at(const json_t *source, const char *place, struct text *t)
{
    const json_t *row;
    size_t i, at = json_array_size(source), end;
    char own[4200];
    append(t, "", 0);
    json_array_foreach (source, i, row) {
        snprintf(own, sizeof own, "%s:%d", base_name(json_string_value(json_array_get(row, 0))),
                 (int)json_integer_value(json_array_get(row, 1)));
        if (strcmp(own, place) == 0)
            at = i;
    }
    if (at == json_array_size(source))
        return;
    for (end = at; end + 1 < json_array_size(source) && !ends_statement(source_line(source, end));)
        ++end;
    while (at > 0 && !ends_statement(source_line(source, at - 1)))
        --at;
    for (; at <= end; ++at) {
        const char *line = source_line(source, at), *comment = strstr(line, "//");
        append(t, line, comment ? (size_t)(comment - line) : strlen(line));
        append(t, " ", 1);
    }
}

static size_t name_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        ++length;
    return length;
}

// Reads an expression as a path in the form of tiles' names: "t.codes.k" from "t.codes[stage].k[i]"
// or "t->codes[1].k". Returns where the expression ends in `text`.
static const char *read_path(const char *text, char *path, size_t size)
{
    size_t used = 0;
    for (;;) {
        size_t length = name_length(text);
        used += (size_t)snprintf(path + used, size - used, "%.*s", (int)length, text);
        for (text += length; *text == '[';) {
            int depth = 0;
            do
                depth += (*text == '[') - (*text == ']');
            while (*++text && depth);
        }
        size_t sign = *text == '.' ? 1 : strncmp(text, "->", 2) == 0 ? 2 : 0;
        if (!sign || !name_length(text + sign) || used + 2 >= size)
            return text;
        path[used++] = '.';
        text += sign;
    }
}

// Whether a path is `other`, or names a member of it.
static bool is_within(const char *path, const char *other)
{
    size_t length = strlen(other);
    return strncmp(path, other, length) == 0 && (!path[length] || path[length] == '.');
}

// Whether a statement names a tile, or a member of it; unless `whole`, also whether it names a
// structure that contains the tile. (In dynamic shared memory, tiles' names lack the structure's
// name: the tile `codes.k` is `t->codes[1].k` in the source.)
static bool names_tile(const char *statement, const json_t *tile, bool whole)
{
    char wanted[256], path[256];
    read_path(string_or(tile, "name", ""), wanted, sizeof wanted);
    for (const char *at = statement; *at; at += name_length(at) ? name_length(at) : 1) {
        if (!name_length(at) || (at > statement && (at[-1] == '.' || at[-1] == '>')))
            continue;
        read_path(at, path, sizeof path);
        const char *member = strchr(path, '.');
        if (is_within(path, wanted) || (member && is_within(member + 1, wanted)) ||
            (!whole && (is_within(wanted, path) || (member && is_within(wanted, member + 1)))))
            return true;
    }
    return false;
}

static bool has_byte(const json_t *tile, long at)
{
    long bytes = whole_at(tile, "element");
    for (size_t i = 0; i < json_array_size(json_object_get(tile, "dims")); ++i)
        bytes *= number_of(json_object_get(tile, "dims"), i);
    return at >= whole_at(tile, "at") && at < whole_at(tile, "at") + bytes;
}

// Whether an instruction accesses a tile somewhere in this film, with its lowest or its highest
// lane.
static bool accesses_tile(const json_t *kernel, long insn, const json_t *tile)
{
    const json_t *row, *pattern;
    size_t i;
    json_array_foreach (json_object_get(kernel, "events"), i, row) {
        if (number_of(row, 0) != EVENT_SHARED || number_of(row, 1) != insn)
            continue;
        pattern = json_array_get(json_object_get(kernel, "patterns"), (size_t)number_of(row, 4));
        if (has_byte(tile, number_of(row, 3)) ||
            has_byte(tile, number_of(row, 3) + number_of(pattern, json_array_size(pattern) - 1)))
            return true;
    }
    return false;
}

// The tile that an instruction runs past the end of: the innermost statement around the instruction
// names this tile, and at other times the instruction accesses it, but the byte of the race is in
// another tile. NULL: none.
static const json_t *tile_left(const json_t *kernel, const json_t *tiles, const json_t *source,
                               const json_t *fault, long insn)
{
    struct chain c = chain_of(kernel, insn);
    long at = whole_at(fault, "at");
    const json_t *tile, *left = NULL;
    bool named = false, known = false; // known: a tile has the byte; named: the line names it
    size_t i;
    for (int level = c.count - 1; level >= 0 && !left && !named; --level) {
        struct text t = {0};
        statement_at(source, c.place[level], &t);
        json_array_foreach (tiles, i, tile) {
            known |= has_byte(tile, at);
            named |= has_byte(tile, at) && names_tile(t.data, tile, false);
            if (!left && !has_byte(tile, at) && names_tile(t.data, tile, true) &&
                accesses_tile(kernel, insn, tile))
                left = tile;
        }
        free(t.data);
    }
    return named || !known ? NULL : left;
}

// Describes a race that no barrier can prevent: two threads at one line, or an access outside of
// the tile that its line names. False: the race is neither.
static bool explain_address(const json_t *kernel, const json_t *tiles, const json_t *source,
                            const json_t *fault, const char *name, char *text, size_t size)
{
    char here[600], there[600], left[256];
    long insn = whole_at(fault, "insn"), other = whole_at(fault, "other");
    unsigned thread = (unsigned)whole_at(fault, "thread"), warp = thread / 32, lane = thread % 32;
    unsigned own_warp = (unsigned)whole_at(fault, "warp"),
             own_lane = (unsigned)whole_at(fault, "lane");
    bool wrote = json_is_true(json_object_get(fault, "wrote")), writes = stores(kernel, insn);
    struct chain a = chain_of(kernel, other), b = chain_of(kernel, insn);
    line_at(&b, b.count - 1, here, sizeof here);
    line_at(&a, a.count - 1, there, sizeof there);
    if ((warp != own_warp || lane != own_lane) && same_line(kernel, fault, &a, &b)) {
        int used = snprintf(text, size,
                            "Two threads use the same place at %s: warp %u, lane %u %s %s, and "
                            "warp %u, lane %u %s it in the same round. ",
                            here, warp, lane, wrote ? "writes" : "reads", name, own_warp, own_lane,
                            writes ? "writes" : "reads");
        snprintf(text + used, size - (size_t)used, "%s",
                 wrote && writes
                     ? "A barrier would only decide who is last: look at the address."
                     : "No barrier stands between a line and itself: look at the address. If it is "
                       "meant, use an atomic operation, or read in one statement and write in "
                       "another, with a barrier between.");
        return true;
    }
    const json_t *tile =
        json_object_get(fault, "at") ? tile_left(kernel, tiles, source, fault, insn) : NULL;
    bool second = tile != NULL;
    if (!second && json_object_get(fault, "at"))
        tile = tile_left(kernel, tiles, source, fault, other);
    if (!tile)
        return false;
    read_path(string_or(tile, "name", ""), left, sizeof left);
    snprintf(
        text, size,
        "An address is wrong at %s: the line names %s, but warp %u, lane %u %s %s there, which "
        "warp %u, lane %u %s at %s. A barrier would only decide who is first: look at the "
        "index and at the distance of two rows.",
        second ? here : there, left, second ? own_warp : warp, second ? own_lane : lane,
        (second ? writes : wrote) ? "writes" : "reads", name, second ? warp : own_warp,
        second ? lane : own_lane, (second ? wrote : writes) ? "writes" : "reads",
        second ? there : here);
    return true;
}

// Explains in a sentence what is missing between the two accesses of a race.
static void explain_race(const json_t *kernel, const json_t *tiles, const json_t *source,
                         const json_t *fault, char *text, size_t size)
{
    char first[600], second[600], name[256];
    long insn = whole_at(fault, "insn"), other = whole_at(fault, "other");
    unsigned thread = (unsigned)whole_at(fault, "thread");
    unsigned warp = (unsigned)whole_at(fault, "warp"), lane = (unsigned)whole_at(fault, "lane");
    const char *before = json_is_true(json_object_get(fault, "wrote")) ? "writes" : "reads";
    const char *now = stores(kernel, insn) ? "writes" : "reads";
    struct chain a = chain_of(kernel, other), b = chain_of(kernel, insn);
    int level = 0; // the first level where the two chains differ
    while (level < a.count - 1 && level < b.count - 1 &&
           strcmp(a.place[level], b.place[level]) == 0)
        ++level;
    line_at(&a, level, first, sizeof first);
    line_at(&b, level, second, sizeof second);
    bool again = not_after(b.place[level], a.place[level]), late = comes_late(kernel, fault);
    bool early = not_after(a.place[level], b.place[level]);
    // If each warp has its own rows, and one warp reads another's by mistake, the mistake is the
    // index, not a missing barrier.
    const char *or_index =
        thread / 32 == warp ? "" : " If they should not share that place, look at the index.";
    const char *barrier = thread / 32 == warp     ? "__syncwarp()"
                          : has_mbarriers(kernel) ? "__syncthreads(), or an mbarrier"
                                                  : "__syncthreads()";
    if (json_object_get(fault, "byte"))
        snprintf(name, sizeof name, "byte %.0f of an allocation in global memory",
                 number_or(fault, "byte", 0));
    else
        tile_name(tiles, (unsigned)whole_at(fault, "at"), name, sizeof name);
    if (explain_address(kernel, tiles, source, fault, name, text, size))
        return;
    if (json_is_true(json_object_get(fault, "pending")))
        snprintf(
            text, size,
            "A wait is missing before %s: warp %u, lane %u %s %s while the asynchronous copy that "
            "warp %u, lane %u began at %s is still on its way. Wait for the copy (its group, or "
            "its mbarrier's phase), then let all threads meet at a barrier.",
            second, warp, lane, now, name, thread / 32, thread % 32, first);
    else if (strstr(string_or(fault, "text", ""), "proxy fence"))
        snprintf(
            text, size,
            "A fence is missing (fence.proxy.async) between %s and %s: warp %u, lane %u writes %s, "
            "and without it the asynchronous access of warp %u need not see what was written.",
            first, second, thread / 32, thread % 32, name, warp);
    else if (late)
        snprintf(
            text, size,
            "A barrier is missing (%s) between %s and %s%s: warp %u, lane %u %s %s before warp %u, "
            "lane %u %s it, and nothing makes it wait.%s",
            barrier, second, first, early ? " of the next time round" : "", thread / 32,
            thread % 32, before, name, warp, lane, now, or_index);
    else
        snprintf(
            text, size,
            "A barrier is missing (%s) between %s and %s%s: warp %u, lane %u %s %s, then warp %u, "
            "lane %u %s it, and nothing makes the second wait for the first.%s",
            barrier, first, second, again ? " of the next time round" : "", thread / 32,
            thread % 32, before, name, warp, lane, now, or_index);
}

// Whether an event writes a byte of shared memory, by a store, an atomic operation, a copy or a
// bulk copy.
static bool writes_byte(const json_t *kernel, const json_t *row, long at)
{
    if (number_of(row, 0) == EVENT_BULK)
        return !number_of(row, 7) && at >= number_of(row, 3) &&
               at < number_of(row, 3) + number_of(row, 4);
    return number_of(row, 0) == EVENT_SHARED && number_of(row, 2) != 0 &&
           pattern_has(kernel, number_of(row, 4), number_of(row, 3), at);
}

// The lane that accesses a byte of shared memory in a row of a film; -1: none does.
static long lane_at(const json_t *kernel, const json_t *row, long at)
{
    if (number_of(row, 0) != EVENT_SHARED)
        return -1;
    const json_t *pattern =
        json_array_get(json_object_get(kernel, "patterns"), (size_t)number_of(row, 4));
    size_t i = 2;
    for (long lane = 0; lane < 32; ++lane) {
        if (!(number_of(pattern, 1) >> lane & 1))
            continue;
        long from = number_of(row, 3) + number_of(pattern, i++);
        if (at >= from && at < from + number_of(pattern, 0))
            return lane;
    }
    return -1;
}

// Explains a read of bytes that nothing has written: another thread writes them later, or the same
// thread does, or no thread does.
static void explain_unwritten(const json_t *kernel, const json_t *tiles, const json_t *fault,
                              char *text, size_t size)
{
    const json_t *events = json_object_get(kernel, "events");
    char name[256], place[600], later[600];
    struct chain chain = chain_of(kernel, whole_at(fault, "insn"));
    long warp = -1, at = whole_at(fault, "at");
    line_at(&chain, 0, place, sizeof place);
    tile_name(tiles, (unsigned)at, name, sizeof name);
    for (size_t i = (size_t)whole_at(fault, "event"); i < json_array_size(events); ++i) {
        const json_t *row = json_array_get(events, i);
        if (number_of(row, 0) == EVENT_BLOCK)
            warp = number_of(row, 1);
        if (warp < 0 || !writes_byte(kernel, row, at))
            continue;
        chain = chain_of(kernel, number_of(row, 1));
        line_at(&chain, 0, later, sizeof later);
        if (warp == whole_at(fault, "warp") && lane_at(kernel, row, at) == whole_at(fault, "lane"))
            snprintf(text, size,
                     "A write is missing before %s: warp %ld, lane %.0f reads %s, which no thread "
                     "has written yet. The same thread writes it later, at %s: nobody gives it "
                     "a value to begin with.",
                     place, warp, number_or(fault, "lane", 0), name, later);
        else
            snprintf(
                text, size,
                "A wait is missing before %s: warp %.0f, lane %.0f reads %s, which no thread has "
                "written yet. Warp %ld writes it only later, at %s.",
                place, number_or(fault, "warp", 0), number_or(fault, "lane", 0), name, warp, later);
        return;
    }
    snprintf(text, size,
             "A write is missing before %s: warp %.0f, lane %.0f reads %s, which no thread of this "
             "CTA has written.",
             place, number_or(fault, "warp", 0), number_or(fault, "lane", 0), name);
}

enum { MOST_WARPS = 32, MOST_MBARRIERS = 256 };

struct waiting {      // what a warp waits for when the film ends
    long insn;        // the waiting instruction; -1: the warp does not wait
    long barrier, at; // the number of a barrier; or -1, and the address of an mbarrier
    bool told;
};

// Finds what each warp waits for when the film ends. `state` gets the last state of each mbarrier;
// returns the number of mbarriers.
static size_t who_waits(const json_t *kernel, struct waiting waits[MOST_WARPS],
                        const json_t *state[MOST_MBARRIERS])
{
    const json_t *row;
    size_t i, count = 0;
    long warp = 0;
    for (int w = 0; w < MOST_WARPS; ++w)
        waits[w] = (struct waiting){.insn = -1};
    json_array_foreach (json_object_get(kernel, "events"), i, row) {
        struct waiting *own = &waits[warp];
        switch (number_of(row, 0)) {
        case EVENT_BLOCK: warp = number_of(row, 1) % MOST_WARPS; break;
        case EVENT_ARRIVE:
            *own = (struct waiting){.insn = number_of(row, 1), .barrier = number_of(row, 2)};
            break;
        case EVENT_RELEASE:
            for (int w = 0; w < MOST_WARPS; ++w)
                if (number_of(row, 2) >> w & 1)
                    waits[w].insn = -1;
            break;
        case EVENT_ASK:
            *own = (struct waiting){.insn = number_of(row, 4) ? -1 : number_of(row, 1),
                                    .barrier = -1,
                                    .at = number_of(row, 2)};
            break;
        case EVENT_MBARRIER: {
            size_t k = 0;
            while (k < count && number_of(state[k], 2) != number_of(row, 2))
                ++k;
            if (k < MOST_MBARRIERS)
                state[k] = row;
            count += k == count && k < MOST_MBARRIERS;
        }
        }
    }
    return count;
}

// Writes, for example, "; warps 0, 1 wait at LINE for the mbarrier t.filled[0], which lacks 1 of 65
// arrivals".
static void tell_waiting(const json_t *kernel, const json_t *tiles, struct waiting *waits,
                         const json_t *const *state, size_t mbarriers, int first, struct text *t)
{
    char words[2048], place[600], name[256];
    int warps = (int)whole_at(kernel, "warps"), count = 0;
    struct waiting *w = &waits[first];
    for (int i = first; i < warps && i < MOST_WARPS; ++i) {
        struct waiting *other = &waits[i];
        if (other->insn != w->insn || other->barrier != w->barrier || other->at != w->at)
            continue;
        other->told = true;
        int used = snprintf(words, sizeof words, count++ ? ", %d" : " %d", i);
        append(t, words, (size_t)used);
    }
    if (w->insn < 0) {
        append(t, count == 1 ? " has ended" : " have ended", count == 1 ? 10 : 11);
        return;
    }
    struct chain chain = chain_of(kernel, w->insn);
    // A __syncthreads() is named by its own line. Any other wait is inline assembly in a function,
    // and is named by the line that calls the function.
    int level = chain.count - (w->barrier == 0 || chain.count < 2 ? 1 : 2);
    line_at(&chain, level, place, sizeof place);
    int used =
        snprintf(words, sizeof words, count == 1 ? " waits at %s for " : " wait at %s for ", place);
    append(t, words, (size_t)used);
    used = snprintf(words, sizeof words, w->barrier >= 0 ? "barrier %ld, where not all come" : "",
                    w->barrier);
    for (size_t k = 0; w->barrier < 0 && k < mbarriers; ++k) {
        if (number_of(state[k], 2) != w->at)
            continue;
        long bytes = number_of(state[k], 7), arrivals = number_of(state[k], 5);
        tile_name(tiles, (unsigned)w->at, name, sizeof name);
        if (bytes < 0 && arrivals == 0)
            used =
                snprintf(words, sizeof words,
                         "the mbarrier %s, to which %ld bytes came that it was not told to expect",
                         name, -bytes);
        else if (bytes > 0 && arrivals == 0)
            used = snprintf(words, sizeof words,
                            "the mbarrier %s, which lacks %ld bytes that it was told to expect",
                            name, bytes);
        else
            used = snprintf(words, sizeof words, "the mbarrier %s, which lacks %ld of %ld arrivals",
                            name, arrivals, number_of(state[k], 6));
    }
    append(t, words, (size_t)used);
}

static void explain_deadlock(const json_t *kernel, const json_t *tiles, char *text, size_t size)
{
    struct waiting waits[MOST_WARPS];
    const json_t *state[MOST_MBARRIERS];
    struct text t = {0};
    size_t mbarriers = who_waits(kernel, waits, state);
    int warps = (int)whole_at(kernel, "warps");
    append(&t, "Nobody goes on", 14);
    for (int w = 0; w < warps && w < MOST_WARPS; ++w)
        if (!waits[w].told) {
            append(&t, w ? "; warps" : ": warps", 7);
            tell_waiting(kernel, tiles, waits, state, mbarriers, w, &t);
        }
    snprintf(text, size,
             "%s. Each waits for an arrival that another one would make only later, or never: look "
             "for a thread that takes another way, and for a count or a parity that is wrong.",
             t.data);
    free(t.data);
}

// The text of the source line at a place FILE:LINE; "" if there is no such line.
static const char *line_of(const json_t *source, const char *place)
{
    const json_t *row;
    char own[4200];
    size_t i;
    json_array_foreach (source, i, row) {
        snprintf(own, sizeof own, "%s:%d", base_name(json_string_value(json_array_get(row, 0))),
                 (int)json_integer_value(json_array_get(row, 1)));
        if (strcmp(own, place) == 0)
            return source_line(source, i);
    }
    return "";
}

// Describes an access outside of its allocation by its source line, since global memory has no
// names.
static void explain_outside(const json_t *kernel, const json_t *source, const json_t *fault,
                            const char *place, char *text, size_t size)
{
    struct chain chain = chain_of(kernel, whole_at(fault, "insn"));
    const char *line = "";
    // The operands of inline assembly are on a line of their own, which says little: so the line
    // that calls the assembly's function is shown.
    for (int i = chain.count; i-- > 0 && (!*line || strchr(":\"", *line));) {
        line = line_of(source, chain.place[i]);
        line += strspn(line, " \t");
    }
    snprintf(text, size, "An address is wrong at %s%s%s%s: warp %.0f, lane %.0f %s. %s", place,
             *line ? ", `" : "", line, *line ? "`" : "", number_or(fault, "warp", 0),
             number_or(fault, "lane", 0), string_or(fault, "what", ""),
             strcmp(string_or(fault, "kind", ""), "misaligned") == 0
                 ? "Look at the width of the access, and at where a row begins."
                 : "Look at the index; in a last tile that is not full, only what is inside may be "
                   "accessed.");
}

// The length of a text before some words; of the whole text if it does not contain them.
static int length_before(const char *text, const char *words)
{
    const char *found = strstr(text, words);
    return (int)(found ? (size_t)(found - text) : strlen(text));
}

static void explain(const json_t *kernel, const json_t *tiles, const json_t *source,
                    const json_t *fault, char *text, size_t size)
{
    const char *kind = string_or(fault, "kind", "");
    char place[600] = "";
    long insn = whole_at(fault, "insn");
    struct chain chain = chain_of(kernel, insn);
    line_at(&chain, 0, place, sizeof place);
    if (between_ctas(kernel, fault))
        explain_ctas(kernel, fault, text, size);
    else if (strcmp(kind, "race") == 0 && json_object_get(fault, "thread"))
        explain_race(kernel, tiles, source, fault, text, size);
    else if (strcmp(kind, "uninitialised") == 0 && json_object_get(fault, "at"))
        explain_unwritten(kernel, tiles, fault, text, size);
    else if (strcmp(kind, "deadlock") == 0)
        explain_deadlock(kernel, tiles, text, size);
    else if (strcmp(kind, "divergent barrier") == 0 &&
             strncmp(string_or(fault, "what", ""), "bar", 3) != 0)
        snprintf(
            text, size,
            "Not all lanes of warp %.0f come together to %s: %s. All 32 have to execute this at "
            "once: look at the branch or the return that some of them have taken.",
            number_or(fault, "warp", 0), place, string_or(fault, "what", ""));
    else if (strcmp(kind, "divergent barrier") == 0)
        snprintf(text, size,
                 "A barrier stands where not all threads come: at %s some lanes wait, others go "
                 "another way. Move it out of the branch.",
                 place);
    else if (strcmp(kind, "out of bounds") == 0 || strcmp(kind, "misaligned") == 0)
        explain_outside(kernel, source, fault, place, text, size);
    else if (strcmp(kind, "assert") == 0)
        snprintf(text, size,
                 "What an assertion says does not hold at %s, for warp %.0f, lane %.0f.", place,
                 number_or(fault, "warp", 0), number_or(fault, "lane", 0));
    else if (strcmp(kind, "endless") == 0)
        snprintf(text, size,
                 "A loop does not end, at %s: %s. Look at what its condition compares, and at who "
                 "was to change that.",
                 place, string_or(fault, "what", ""));
    else if (strstr(string_or(fault, "what", ""), "with no wgmma.fence"))
        snprintf(text, size,
                 "A fence is missing (wgmma.fence) before %s: warp %.0f queues a product of "
                 "registers that were written before, and without it the product need not see "
                 "what was written.",
                 place, number_or(fault, "warp", 0));
    else if (strstr(string_or(fault, "what", ""), "(wgmma.wait_group)"))
        snprintf(text, size, "A wait is missing (wgmma.wait_group) before %s: warp %.0f %.*s.",
                 place, number_or(fault, "warp", 0),
                 length_before(string_or(fault, "what", ""), ": nothing has waited"),
                 string_or(fault, "what", ""));
    else
        snprintf(text, size, "At %s, warp %.0f, lane %.0f: %s.", place, number_or(fault, "warp", 0),
                 number_or(fault, "lane", 0), string_or(fault, "what", ""));
}

// Whether two faults are one mistake: of the same kind, with the same lines and callers.
static bool same_mistake(const json_t *kernel, const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"insn", "other"};
    const json_t *insns = json_object_get(kernel, "instructions");
    bool same = strcmp(string_or(a, "kind", ""), string_or(b, "kind", "")) == 0;
    for (int i = 0; i < 2; ++i) {
        const json_t *x = json_array_get(insns, (size_t)whole_at(a, keys[i]));
        const json_t *y = json_array_get(insns, (size_t)whole_at(b, keys[i]));
        for (size_t k = 0; k < 3 && x && y; ++k)
            same &= json_equal(json_array_get(x, k), json_array_get(y, k));
    }
    return same;
}

// Whether a race is between two warps or two CTAs: a better example than a race within one warp.
static bool between_warps(const json_t *kernel, const json_t *fault)
{
    return json_object_get(fault, "thread") &&
           (between_ctas(kernel, fault) ||
            (unsigned)whole_at(fault, "thread") / 32 != (unsigned)whole_at(fault, "warp"));
}

// Of all faults that are one mistake (same_mistake), marks all except the best example as "again".
static void mark_repeats(const json_t *kernel, const json_t *faults)
{
    for (size_t i = 0; i < json_array_size(faults); ++i)
        for (size_t k = 0; k < json_array_size(faults); ++k) {
            json_t *a = json_array_get(faults, i), *b = json_array_get(faults, k);
            bool warps = between_warps(kernel, b);
            bool better = warps != between_warps(kernel, a) ? warps : k < i;
            if (i != k && better && same_mistake(kernel, a, b))
                json_object_set_new(a, "again", json_true());
        }
}

// ---- Counts by line -----------------------------------------------------------------------------

struct line {
    const char *file;
    int number;
    double instructions, wavefronts, conflicts, sectors;
};

static int by_place(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    int order = strcmp(a->file, b->file);
    return order ? order : a->number - b->number;
}

// Counts what the film shows on each line: a row for each instruction, then a sum for each line.
static struct line *lines_of(const json_t *kernel, size_t *count)
{
    const json_t *insns = json_object_get(kernel, "instructions"), *row;
    const json_t *blocks = json_object_get(kernel, "blocks");
    size_t all = json_array_size(insns), i, kept = 0;
    struct line *lines = need(calloc(all + 1, sizeof *lines));
    json_array_foreach (insns, i, row) {
        lines[i].file = json_string_value(json_array_get(row, 0));
        lines[i].number = (int)json_integer_value(json_array_get(row, 1));
    }
    json_array_foreach (json_object_get(kernel, "events"), i, row) {
        long type = (long)json_integer_value(json_array_get(row, 0));
        if (type == EVENT_BLOCK) {
            const json_t *block =
                json_array_get(blocks, (size_t)json_integer_value(json_array_get(row, 2)));
            size_t first = (size_t)json_integer_value(json_array_get(block, 0));
            size_t end = first + (size_t)json_integer_value(json_array_get(block, 1));
            for (size_t k = first; k < end && k < all; ++k)
                lines[k].instructions++;
        } else if (type == EVENT_COUNTS) {
            size_t k = (size_t)json_integer_value(json_array_get(row, 1));
            if (k >= all)
                continue;
            lines[k].wavefronts += json_number_value(json_array_get(row, 2));
            lines[k].conflicts += json_number_value(json_array_get(row, 3));
            lines[k].sectors += json_number_value(json_array_get(row, 4));
        }
    }
    qsort(lines, all, sizeof *lines, by_place);
    for (i = 0; i < all; ++i) {
        struct line *last = kept ? &lines[kept - 1] : NULL;
        if (!last || by_place(last, &lines[i])) {
            lines[kept++] = lines[i];
            continue;
        }
        last->instructions += lines[i].instructions;
        last->wavefronts += lines[i].wavefronts;
        last->conflicts += lines[i].conflicts;
        last->sectors += lines[i].sectors;
    }
    *count = kept;
    return lines;
}

static const char *text_of(const json_t *source, const char *file, int number)
{
    const json_t *row;
    size_t i;
    json_array_foreach (source, i, row)
        if (json_integer_value(json_array_get(row, 1)) == number &&
            strcmp(json_string_value(json_array_get(row, 0)), file) == 0)
            return json_string_value(json_array_get(row, 2));
    return "";
}

// The part of the page that needs no JavaScript: what is wrong, and the counts of each line.
static char *static_part(const json_t *kernel, const json_t *source, const json_t *faults)
{
    struct text t = {0};
    char row[512];
    size_t count, i;
    const json_t *fault;
    struct line *lines = lines_of(kernel, &count);
    append(&t, "", 0);
    json_array_foreach (faults, i, fault) {
        if (json_object_get(fault, "again"))
            continue;
        append(&t, "<p><strong>", 11);
        append_html(&t, string_or(fault, "sentence", ""));
        append(&t, "</strong></p>\n<p>", 17);
        append_html(&t, string_or(fault, "text", ""));
        append(&t, "</p>\n", 5);
    }
    static const char head[] =
        "<table>\n<caption>What the CTA executed, line by line</caption>\n<thead><tr><th>line</th>"
        "<th>instructions</th><th>wavefronts</th><th>conflicts</th><th>sectors</th><th>text</th></"
        "tr>"
        "</thead>\n<tbody>\n";
    append(&t, head, sizeof head - 1);
    for (i = 0; i < count; ++i) {
        const struct line *l = &lines[i];
        if (!l->number || !l->instructions)
            continue;
        append(&t, "<tr><td>", 8);
        append_html(&t, l->file);
        snprintf(row, sizeof row,
                 ":%d</td><td>%.0f</td><td>%.0f</td><td>%.0f</td><td>%.0f</td><td><code>",
                 l->number, l->instructions, l->wavefronts, l->conflicts, l->sectors);
        append(&t, row, strlen(row));
        append_html(&t, text_of(source, l->file, l->number));
        append(&t, "</code></td></tr>\n", 18);
    }
    append(&t, "</tbody></table>\n", 17);
    free(lines);
    return t.data;
}

// ---- The page -----------------------------------------------------------------------------------

// Whether a name is the kernel's or, if it begins with _Z, the beginning of the kernel's mangled name: instances of a
// template, or kernels of several namespaces, share one name.
static bool has_name(const json_t *kernel, const char *name)
{
    if (strncmp(name, "_Z", 2) == 0)
        return strncmp(string_or(kernel, "mangled", ""), name, strlen(name)) == 0;
    return strcmp(string_or(kernel, "kernel", ""), name) == 0;
}

json_t *film_kernel(json_t *recording, const char *name)
{
    json_t *kernels = json_object_get(recording, "kernels"), *kernel, *first = NULL;
    size_t i;
    json_array_foreach (kernels, i, kernel) {
        if (name && !has_name(kernel, name))
            continue;
        if (json_array_size(json_object_get(kernel, "faults")))
            return kernel;
        first = first ? first : kernel;
    }
    return first;
}

char *film_other_cta(json_t *kernel)
{
    static char text[64];
    const json_t *fault;
    size_t i;
    mark_repeats(kernel, json_object_get(kernel, "faults"));
    json_array_foreach (json_object_get(kernel, "faults"), i, fault) {
        if (json_object_get(fault, "again"))
            continue;
        if (!between_ctas(kernel, fault))
            return NULL;
        json_int_t at[3];
        for (size_t k = 0; k < 3; ++k)
            at[k] = json_integer_value(json_array_get(json_object_get(fault, "cta"), k));
        snprintf(text, sizeof text, "%d,%d,%d", (int)at[0], (int)at[1], (int)at[2]);
        return text;
    }
    return NULL;
}

// A value as JSON, compressed with gzip, in base64; the page reads it with DecompressionStream.
static char *packed(const json_t *value)
{
    char name[] = "/tmp/ptxsim-XXXXXX", command[128];
    int fd = mkstemp(name);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || json_dumpf(value, file, JSON_COMPACT) != 0 || fclose(file) != 0)
        fail(EXIT_MACHINE, "no temporary file: %s", strerror(errno));
    snprintf(command, sizeof command, "gzip -6nc %s | base64 -w0", name);
    FILE *pipe = popen(command, "re");
    char *made = pipe ? read_stream(pipe, NULL) : NULL;
    bool good = pipe && pclose(pipe) == 0 && made && *made;
    unlink(name);
    if (!good)
        fail(EXIT_MACHINE, "gzip and base64 cannot be run");
    return made;
}

// Removes the second half of a film's events, from the beginning of a block on, and the patterns
// that only they use.
static void halve(json_t *kernel)
{
    json_t *events = json_object_get(kernel, "events"), *row;
    json_t *patterns = json_object_get(kernel, "patterns");
    size_t half = json_array_size(events) / 2, last = json_array_size(events), i;
    long used = 0; // patterns are numbered in the order of their first use
    bool whole = false;
    while (last > half || (last && !whole)) {
        whole = number_of(json_array_get(events, --last), 0) == EVENT_BLOCK;
        json_array_remove(events, last);
    }
    json_array_foreach (events, i, row)
        if (number_of(row, 0) == EVENT_SHARED || number_of(row, 0) == EVENT_GLOBAL) {
            long pattern = number_of(row, json_array_size(row) - 1) + 1;
            used = pattern > used ? pattern : used;
        }
    for (i = json_array_size(patterns); i > (size_t)used;)
        json_array_remove(patterns, --i);
    json_object_set_new(kernel, "cut", json_true());
}

// Makes a page's films small enough for the page: halves the longer one until they are.
static char *packed_to_fit(json_t *film)
{
    json_t *kernel = json_object_get(film, "recording"), *other = json_object_get(film, "other");
    for (;;) {
        char *data = packed(film);
        if (strlen(data) < PAGE_MOST - (1 << 18))
            return data;
        free(data);
        size_t own = json_array_size(json_object_get(kernel, "events"));
        size_t theirs = json_array_size(json_object_get(other, "events"));
        if (own + theirs == 0)
            fail(EXIT_MACHINE, "the program's text alone is more than a page of 8 MB holds");
        halve(own >= theirs ? kernel : other);
    }
}

// Writes the template, with each {{name}} replaced by its value.
static void fill(FILE *out, const char *template, const char *const names[], char *const values[])
{
    for (const char *at = template; *at;) {
        const char *open = strstr(at, "{{"), *close = open ? strstr(open, "}}") : NULL;
        if (!close) {
            fputs(at, out);
            return;
        }
        fwrite(at, 1, (size_t)(open - at), out);
        for (int i = 0; names[i]; ++i)
            if (strncmp(open + 2, names[i], (size_t)(close - open - 2)) == 0)
                fputs(values[i], out);
        at = close + 2;
    }
}

static char *part(const char *name)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", viewer, name);
    char *text = read_file(path, NULL);
    if (!text)
        fail(EXIT_MACHINE, "%s: %s", path, strerror(errno));
    return text;
}

static void write_page(const char *file, const char *title, json_t *film, char *plain)
{
    char temporary[4200];
    static const char *const names[] = {"title", "style", "lessons", "script",
                                        "plain", "film",  NULL};
    char *values[] = {(char *)title, part("film.css"),   part("lessons.js"), part("film.js"),
                      plain,         packed_to_fit(film)};
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", file, (long)getpid());
    FILE *out = fopen(temporary, "we");
    if (!out)
        fail(EXIT_MACHINE, "%s: %s", file, strerror(errno));
    fill(out, part("film.html"), names, values);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed || rename(temporary, file) != 0) {
        int why = errno;
        remove(temporary);
        fail(EXIT_MACHINE, "%s: %s", file, strerror(why));
    }
}

// The number of the chapter whose lessons a page has, from the program's name: 4 for ch04_cp_async.
// 0: the program is no chapter's.
static int chapter_of(const char *program)
{
    int chapter = 0;
    const char *slash = strrchr(program, '/');
    sscanf(slash ? slash + 1 : program, "ch%2d_", &chapter);
    return chapter;
}

// Adds to each fault the sentence that explains it.
static void explain_all(const json_t *kernel, const json_t *tiles, const json_t *source)
{
    json_t *fault;
    size_t i;
    json_array_foreach (json_object_get(kernel, "faults"), i, fault) {
        char sentence[9000];
        explain(kernel, tiles, source, fault, sentence, sizeof sentence);
        json_object_set_new(fault, "sentence", json_string(sentence));
    }
}

// The fault at which the film opens: the best example of the mistake that happens first, since
// later mistakes may follow from it.
static json_t *first_fault(const json_t *faults)
{
    json_t *fault;
    size_t i;
    json_array_foreach (faults, i, fault)
        if (!json_object_get(fault, "again"))
            return fault;
    return NULL;
}

void film_page(json_t *kernel, json_t *other, const char *program, int chapter, const char *file,
               bool known)
{
    char *text, title[512], number[16];
    const char *slash = strrchr(program, '/');
    json_t *source = source_of(kernel, program, &text), *faults = json_object_get(kernel, "faults");
    json_t *tiles = tiles_of(text ? text : "", json_object_get(kernel, "variables"),
                             string_or(kernel, "mangled", ""));
    trim_source(source, kernel);
    explain_all(kernel, tiles, source);
    const json_t *first = first_fault(faults);
    if (first && !known)
        printf("%s\n%s\n", string_or(first, "text", ""), string_or(first, "sentence", ""));
    // The name of a program, or of a recording, NAME.json.
    const char *name = slash ? slash + 1 : program;
    const char *json = strstr(name, ".json");
    size_t stem = json && !json[5] ? (size_t)(json - name) : strlen(name);
    snprintf(title, sizeof title, "%.*s: %s", (int)stem, name, string_or(kernel, "kernel", ""));
    snprintf(number, sizeof number, "%02d", chapter < 0 ? chapter_of(program) : chapter);
    char *plain = static_part(kernel, source, faults);
    json_t *film = json_pack("{s:s, s:s, s:O, s:o, s:o}", "title", title, "chapter", number,
                             "recording", kernel, "source", source, "tiles", tiles);
    if (other)
        json_object_set(film, "other", other);
    write_page(file, title, film, plain);
    if (json_is_true(json_object_get(kernel, "cut")) || json_is_true(json_object_get(other, "cut")))
        // If the reader has seen the fault (known), standard output is used for the program's
        // output, or for JSON.
        fprintf(
            known ? stderr : stdout,
            "%s: cut: the kernel goes on after what a page of 8 MB holds; a smaller shape shows it "
            "whole\n",
            file);
    free(plain);
    free(text);
    json_decref(film);
}

void film_explain(json_t *kernel, const char *program)
{
    char *text;
    json_t *source = source_of(kernel, program, &text);
    json_t *tiles = tiles_of(text ? text : "", json_object_get(kernel, "variables"),
                             string_or(kernel, "mangled", ""));
    explain_all(kernel, tiles, source);
    free(text);
    json_decref(source);
    json_decref(tiles);
}

void film_say(json_t *kernel, const char *program)
{
    film_explain(kernel, program);
    const json_t *first = first_fault(json_object_get(kernel, "faults"));
    if (first)
        printf("%s\n%s\n%s\n", string_or(first, "kind", ""), string_or(first, "text", ""),
               string_or(first, "sentence", ""));
}
