// tiles.c: names in shared memory, from a kernel's source text: `__shared__ tiles t;` and `struct
// tiles`. PTX knows only the size of a variable. So the text is read for all that determines the
// offsets of members: constants (constexpr, enum, #define), structures and their members, and
// arguments of templates (from the kernel's mangled name). This is no compiler: if the size that it
// finds differs from the PTX's, the variable is shown as plain words.
#include "tool.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 6, MOST_ELEMENTS = 16, MOST_DEPTH = 8, WORD_BYTES = 4 };

// ---- Words --------------------------------------------------------------------------------------

struct word {
    char *text; // a name, a number or a sign
};

struct program {
    struct word *words;
    size_t count, capacity;
    struct constant {
        char *name;
        long value;
        bool unclear; // it is defined twice, with different values
    } * constants;
    size_t constant_count, constant_capacity;
};

static void add_word(struct program *p, const char *text, size_t length)
{
    if (p->count + 1 >= p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 4096;
        p->words = need(realloc(p->words, p->capacity * sizeof *p->words));
    }
    p->words[p->count++].text = need(strndup(text, length));
}

// Splits a text into words. Comments, strings and directives are left out, except for `#define NAME
// words`, which becomes "#define", its words, and "#end".
static void read_words(struct program *p, const char *at)
{
    bool defines = false;
    while (*at) {
        size_t length = 1;
        if (*at == '\n' && defines) {
            add_word(p, "#end", 4);
            defines = false;
        }
        if (isspace((unsigned char)*at)) {
            ++at;
            continue;
        }
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
            continue;
        }
        if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
            continue;
        }
        if (*at == '#') {
            if (strncmp(at, "#define", 7) == 0) {
                add_word(p, at, 7);
                at += 7;
                defines = true;
            } else {
                at += strcspn(at, "\n");
            }
            continue;
        }
        if (*at == '"') {
            for (length = 1; at[length] && at[length] != '"'; ++length)
                length += at[length] == '\\' && at[length + 1];
            at += length + (at[length] == '"');
            continue;
        }
        if (isalpha((unsigned char)*at) || *at == '_')
            while (isalnum((unsigned char)at[length]) || at[length] == '_')
                ++length;
        else if (isdigit((unsigned char)*at))
            while (isalnum((unsigned char)at[length]) || at[length] == '.' || at[length] == '\'')
                ++length;
        else if (strncmp(at, "::", 2) == 0 || strncmp(at, "==", 2) == 0 ||
                 strncmp(at, "!=", 2) == 0 || strncmp(at, "<=", 2) == 0 ||
                 strncmp(at, ">=", 2) == 0 || strncmp(at, "&&", 2) == 0 ||
                 strncmp(at, "||", 2) == 0 || strncmp(at, "->", 2) == 0)
            length = 2;
        add_word(p, at, length);
        at += length;
    }
    if (defines)
        add_word(p, "#end", 4);
}

static const char *word(const struct program *p, size_t i)
{
    return i < p->count ? p->words[i].text : "";
}

static bool is(const struct program *p, size_t i, const char *text)
{
    return strcmp(word(p, i), text) == 0;
}

static bool is_name(const char *text)
{
    return isalpha((unsigned char)*text) || *text == '_';
}

// The index after the bracket that closes the one at index i.
static size_t past(const struct program *p, size_t i)
{
    int depth = 0;
    for (; i < p->count; ++i) {
        const char c = *word(p, i);
        depth += c == '(' || c == '[' || c == '{';
        depth -= c == ')' || c == ']' || c == '}';
        if (depth == 0)
            return i + 1;
    }
    return i;
}

// ---- Constants ----------------------------------------------------------------------------------

static struct constant *find_constant(const struct program *p, const char *name)
{
    for (size_t i = 0; i < p->constant_count; ++i)
        if (strcmp(p->constants[i].name, name) == 0)
            return &p->constants[i];
    return NULL;
}

// Sets a constant's value. sure: it replaces another value; otherwise a second, different value
// makes the constant unclear.
static void set_constant(struct program *p, const char *name, long value, bool sure)
{
    struct constant *c = find_constant(p, name);
    if (c) {
        if (sure)
            *c = (struct constant){.name = c->name, .value = value};
        else if (c->value != value)
            c->unclear = true;
        return;
    }
    if (p->constant_count == p->constant_capacity) {
        p->constant_capacity = p->constant_capacity ? 2 * p->constant_capacity : 64;
        p->constants = need(realloc(p->constants, p->constant_capacity * sizeof *p->constants));
    }
    p->constants[p->constant_count++] =
        (struct constant){.name = need(strdup(name)), .value = value};
}

struct reader { // reads an expression
    const struct program *p;
    size_t at;
    bool failed;
};

static long ternary(struct reader *r);

static bool take(struct reader *r, const char *text)
{
    if (!is(r->p, r->at, text))
        return false;
    r->at++;
    return true;
}

static long primary(struct reader *r)
{
    const char *text = word(r->p, r->at);
    if (take(r, "(")) {
        long value = ternary(r);
        r->failed |= !take(r, ")");
        return value;
    }
    if (take(r, "-"))
        return -primary(r);
    if (take(r, "!"))
        return !primary(r);
    if (isdigit((unsigned char)*text)) {
        r->at++;
        return strtol(text, NULL, 0);
    }
    if (!is_name(text)) {
        r->failed = true;
        return 0;
    }
    const char *last = text; // the last name of T::STAGES or F.block_n
    for (r->at++; is(r->p, r->at, "::") || is(r->p, r->at, "."); r->at += 2)
        last = word(r->p, r->at + 1);
    if (strcmp(last, "true") == 0 || strcmp(last, "false") == 0)
        return last[0] == 't';
    const struct constant *c = find_constant(r->p, last);
    r->failed |= !c || c->unclear;
    return c ? c->value : 0;
}

static long product(struct reader *r)
{
    long value = primary(r);
    for (;;)
        if (take(r, "*")) {
            value *= primary(r);
        } else if (is(r->p, r->at, "/") || is(r->p, r->at, "%")) {
            bool divides = take(r, "/");
            r->at += !divides;
            long by = primary(r);
            r->failed |= by == 0;
            value = by == 0 ? 0 : divides ? value / by : value % by;
        } else {
            return value;
        }
}

static long sum(struct reader *r)
{
    long value = product(r);
    for (;;)
        if (take(r, "+"))
            value += product(r);
        else if (take(r, "-"))
            value -= product(r);
        else
            return value;
}

static long comparison(struct reader *r)
{
    long value = sum(r);
    return take(r, "<")    ? value < sum(r)
           : take(r, ">")  ? value > sum(r)
           : take(r, "<=") ? value <= sum(r)
           : take(r, ">=") ? value >= sum(r)
           : take(r, "==") ? value == sum(r)
           : take(r, "!=") ? value != sum(r)
                           : value;
}

static long ternary(struct reader *r)
{
    long value = comparison(r);
    if (!take(r, "?"))
        return value;
    long yes = ternary(r);
    r->failed |= !take(r, ":");
    long no = ternary(r);
    return value ? yes : no;
}

// Evaluates the expression that begins at word i; *end is the first word after it. False: the value
// is not known.
static bool evaluate(const struct program *p, size_t i, long *value, size_t *end)
{
    struct reader r = {.p = p, .at = i};
    *value = ternary(&r);
    if (end)
        *end = r.at;
    return !r.failed;
}

// The name of member `n` of a structure with simple members only, such as a struct of knobs; NULL:
// it has fewer members.
static const char *plain_member(const struct program *p, const char *type, int n)
{
    for (size_t i = 0; i + 2 < p->count; ++i) {
        if (!is(p, i, "struct") || strcmp(word(p, i + 1), type) || !is(p, i + 2, "{"))
            continue;
        bool value = false; // inside a member's default value, after its =
        for (size_t k = i + 3; k < p->count && !is(p, k, "}"); ++k) {
            bool ends = is(p, k, ",") || is(p, k, ";"), sets = is(p, k, "=");
            if ((ends || sets) && !value && n-- == 0)
                return word(p, k - 1);
            value = sets || (value && !ends);
        }
        return NULL;
    }
    return NULL;
}

// Reads NAME = expression, NAME = expression ... from word i on.
static void read_definitions(struct program *p, size_t i)
{
    while (is_name(word(p, i)) && is(p, i + 1, "=")) {
        long value;
        size_t end;
        if (!evaluate(p, i + 2, &value, &end))
            return;
        if (is(p, end, ",") || is(p, end, ";") || is(p, end, "}"))
            set_constant(p, word(p, i), value, false);
        if (!is(p, end, ","))
            return;
        i = end + 1;
    }
}

// Reads constexpr knobs KNOB = {64, 64, 2}: each value becomes the constant of its member's name.
static void read_members(struct program *p, const char *type, size_t i)
{
    if (is_name(word(p, i)) && is(p, i + 1, "}")) // the name of a macro
        for (size_t k = 0; k < p->count; ++k)
            if (is(p, k, "#define") && strcmp(word(p, k + 1), word(p, i)) == 0) {
                i = k + 2;
                break;
            }
    for (int n = 0; i < p->count; ++n) {
        const char *name = plain_member(p, type, n);
        long value;
        size_t end;
        if (!name || !evaluate(p, i, &value, &end))
            return;
        set_constant(p, name, value, false);
        if (!is(p, end, ","))
            return;
        i = end + 1;
    }
}

static void read_constants(struct program *p)
{
    for (size_t i = 0; i < p->count; ++i) {
        if (is(p, i, "#define") && !is(p, i + 2, "(")) {
            long value;
            size_t end;
            if (evaluate(p, i + 2, &value, &end) && is(p, end, "#end"))
                set_constant(p, word(p, i + 1), value, false);
        } else if (is(p, i, "enum")) {
            size_t k = i + 1;
            while (k < p->count && !is(p, k, "{") && !is(p, k, ";"))
                ++k;
            read_definitions(p, k + 1);
        } else if (is(p, i, "constexpr") || (is(p, i, "const") && !is(p, i - 1, "static"))) {
            size_t k = i + 1;
            while (is_name(word(p, k)) && is_name(word(p, k + 1)))
                ++k;
            if (is(p, k + 1, "=") && is(p, k + 2, "{"))
                read_members(p, word(p, k - 1), k + 3);
            else
                read_definitions(p, k);
        }
    }
}

// ---- Arguments of templates ---------------------------------------------------------------------

// Reads whole numbers from `at` on, as in "Li2ELi8E". Returns how many.
static int mangled_numbers(const char *at, long *numbers, int most)
{
    int count = 0;
    while (*at == 'L' && at[1] && count < most) {
        char *end;
        bool minus = at[2] == 'n';
        long value = strtol(at + 2 + minus, &end, 10);
        if (*end != 'E')
            break;
        numbers[count++] = minus ? -value : value;
        at = end + 1;
    }
    return count;
}

// Reads the arguments of a kernel's template. attention<tiling<1, 2, 2>>: sets the parameters of
// `template <int A, int B, int C> struct tiling`; attention<form{2, 8, 1, 64}>: sets the members of
// form.
static void read_arguments(struct program *p, const char *mangled)
{
    for (size_t i = 0; i < p->count; ++i) {
        char name[256];
        long numbers[16];
        if (!is(p, i, "struct") || !is_name(word(p, i + 1)) || !is(p, i + 2, "{"))
            continue;
        snprintf(name, sizeof name, "%zu%s", strlen(word(p, i + 1)), word(p, i + 1));
        const char *at = strstr(mangled, name);
        if (!at)
            continue;
        bool literal = at - mangled >= 2 && strncmp(at - 2, "tl", 2) == 0;
        at += strlen(name);
        int count = mangled_numbers(at + (*at == 'I'), numbers, 16), n = 0;
        for (; literal && n < count; ++n) {
            const char *member = plain_member(p, word(p, i + 1), n);
            if (member)
                set_constant(p, member, numbers[n], true);
        }
        if (literal || *at != 'I' || !is(p, i - 1, ">"))
            continue;
        size_t open = i - 1;
        while (open > 0 && !is(p, open, "<"))
            --open;
        for (size_t k = open + 1; k < i && n < count; ++k)
            if (is(p, k, ",") || is(p, k, ">"))
                set_constant(p, word(p, k - 1), numbers[n++], true);
    }
}

// ---- Types --------------------------------------------------------------------------------------

static const struct {
    const char *name;
    unsigned bytes;
} plain_types[] = {{"bool", 1},          {"char", 1},          {"uint8_t", 1},
                   {"int8_t", 1},        {"half", 2},          {"__half", 2},
                   {"__nv_bfloat16", 2}, {"uint16_t", 2},      {"int16_t", 2},
                   {"short", 2},         {"float", 4},         {"int", 4},
                   {"unsigned", 4},      {"uint32_t", 4},      {"int32_t", 4},
                   {"half2", 4},         {"__half2", 4},       {"double", 8},
                   {"long", 8},          {"uint64_t", 8},      {"int64_t", 8},
                   {"size_t", 8},        {"float2", 8},        {"uint2", 8},
                   {"int2", 8},          {"float4", 16},       {"uint4", 16},
                   {"int4", 16},         {"__nv_fp8_e4m3", 1}, {"__nv_fp8_storage_t", 1},
                   {"barrier", 8}};

struct layout {
    unsigned bytes, align;
};

struct field {
    char name[64];
    size_t type, body; // indices of words: the type's name; a structure's opening brace, or 0
    bool is_union;
    int dims;
    long dim[MOST_DIMS];
    unsigned at;
};

static size_t body_of(const struct program *p, const char *name, bool *is_union, long *align);
static bool lay_out(const struct program *p, size_t body, bool is_union, struct field **fields,
                    size_t *count, struct layout *layout, int depth);

static unsigned plain_bytes(const char *name)
{
    for (size_t i = 0; i < sizeof plain_types / sizeof *plain_types; ++i)
        if (strcmp(plain_types[i].name, name) == 0)
            return plain_types[i].bytes;
    return 0;
}

static unsigned round_up(unsigned value, unsigned to)
{
    return (value + to - 1) / to * to;
}

// Reads dimensions "[A][B]" from word i on; *end is the word after them.
static bool read_dims(const struct program *p, size_t i, struct field *f, size_t *end)
{
    for (f->dims = 0; is(p, i, "[") && f->dims < MOST_DIMS; ++f->dims) {
        size_t close;
        if (!evaluate(p, i + 1, &f->dim[f->dims], &close) || !is(p, close, "]") ||
            f->dim[f->dims] < 0)
            return false;
        i = close + 1;
    }
    *end = i;
    return true;
}

static bool type_layout(const struct program *p, const struct field *f, struct layout *layout,
                        int depth)
{
    bool is_union = f->is_union;
    size_t body = f->body;
    long align = 0;
    unsigned bytes = body ? 0 : plain_bytes(word(p, f->type));
    if (bytes) {
        *layout = (struct layout){bytes, bytes};
        return true;
    }
    if (!body)
        body = body_of(p, word(p, f->type), &is_union, &align);
    struct field *fields = NULL;
    size_t count = 0;
    bool good = body && lay_out(p, body, is_union, &fields, &count, layout, depth + 1);
    free(fields);
    if (good && align > (long)layout->align)
        layout->align = (unsigned)align;
    if (good)
        layout->bytes = round_up(layout->bytes, layout->align);
    return good;
}

// The opening brace of a structure that the text defines; 0: it defines none.
static size_t body_of(const struct program *p, const char *name, bool *is_union, long *align)
{
    for (size_t i = 0; i < p->count; ++i) {
        size_t k = i + 1, end;
        long wanted = 0;
        if (!is(p, i, "struct") && !is(p, i, "union"))
            continue;
        if (is(p, k, "alignas") || is(p, k, "__align__")) {
            if (!evaluate(p, k + 2, &wanted, &end))
                return 0;
            k = past(p, k + 1);
        }
        if (strcmp(word(p, k), name) != 0 || !is(p, k + 1, "{"))
            continue;
        *is_union = is(p, i, "union");
        *align = wanted;
        return k + 1;
    }
    return 0;
}

// Adds a field to a structure, and updates the structure's size.
static bool place_field(const struct program *p, struct field *f, bool is_union,
                        struct field **fields, size_t *count, struct layout *all, int depth)
{
    struct layout one;
    if (!type_layout(p, f, &one, depth))
        return false;
    unsigned elements = 1;
    for (int i = 0; i < f->dims; ++i)
        elements *= (unsigned)f->dim[i];
    f->at = is_union ? 0 : round_up(all->bytes, one.align);
    unsigned end = f->at + elements * one.bytes;
    all->bytes = end > all->bytes ? end : all->bytes;
    all->align = one.align > all->align ? one.align : all->align;
    *fields = need(realloc(*fields, (*count + 1) * sizeof **fields));
    (*fields)[(*count)++] = *f;
    return true;
}

// Reads the fields between the braces at `body`. False: one cannot be read, or its type is unknown.
static bool lay_out(const struct program *p, size_t body, bool is_union, struct field **fields,
                    size_t *count, struct layout *layout, int depth)
{
    size_t end = past(p, body) - 1;
    *layout = (struct layout){0, 1};
    if (depth > MOST_DEPTH)
        return false;
    for (size_t i = body + 1; i < end;) {
        struct field f = {0};
        if (is(p, i, "static") || is(p, i, "using")) {
            while (i < end && !is(p, i, ";"))
                ++i;
            ++i;
            continue;
        }
        while (is(p, i, "const") || is(p, i, "volatile"))
            ++i;
        if ((is(p, i, "struct") || is(p, i, "union")) && is(p, i + 1, "{")) {
            f.body = i + 1;
            f.is_union = is(p, i, "union");
            i = past(p, i + 1);
        } else {
            while (is(p, i, "unsigned") && plain_bytes(word(p, i + 1)))
                ++i;
            f.type = i++;
            if (is(p, i, "<")) // arguments of a template: skipped
                while (i < end && !is(p, i++, ">"))
                    ;
        }
        do {
            if (is(p, i, ","))
                ++i;
            f.name[0] = 0;
            if (is_name(word(p, i)))
                snprintf(f.name, sizeof f.name, "%s", word(p, i++));
            if (!read_dims(p, i, &f, &i) ||
                !place_field(p, &f, is_union, fields, count, layout, depth))
                return false;
        } while (is(p, i, ","));
        if (!is(p, i, ";"))
            return false;
        ++i;
    }
    layout->bytes = round_up(layout->bytes, layout->align);
    return true;
}

// ---- Tiles --------------------------------------------------------------------------------------

static void add_tile(json_t *tiles, const char *name, unsigned at, unsigned element,
                     const char *type, int dims, const long *dim)
{
    json_t *list = json_array();
    for (int i = 0; i < dims; ++i)
        json_array_append_new(list, json_integer(dim[i]));
    json_array_append_new(tiles, json_pack("{s:s, s:i, s:i, s:s, s:o}", "name", name, "at", (int)at,
                                           "element", (int)element, "type", type, "dims", list));
}

// Adds the tiles of a field that begins at `at`: for a structure those inside it, for an array of
// structures those of each element.
static bool add_tiles(const struct program *p, const struct field *f, const char *name, unsigned at,
                      json_t *tiles, int depth)
{
    unsigned bytes = f->body ? 0 : plain_bytes(word(p, f->type));
    if (bytes) {
        add_tile(tiles, name, at, bytes, word(p, f->type), f->dims, f->dim);
        return true;
    }
    struct field *fields = NULL;
    size_t count = 0;
    struct layout one;
    bool is_union = f->is_union;
    long align = 0, elements = 1;
    size_t body = f->body ? f->body : body_of(p, word(p, f->type), &is_union, &align);
    for (int i = 0; i < f->dims; ++i)
        elements *= f->dim[i];
    bool good = body && elements <= MOST_ELEMENTS && f->dims <= 1 &&
                lay_out(p, body, is_union, &fields, &count, &one, depth + 1);
    unsigned pitch =
        good ? round_up(one.bytes, align > (long)one.align ? (unsigned)align : one.align) : 0;
    for (long e = 0; good && e < elements; ++e)
        for (size_t i = 0; good && i < count; ++i) {
            char inner[512], index[24] = "";
            if (f->dims)
                snprintf(index, sizeof index, "[%ld]", e);
            snprintf(inner, sizeof inner, "%s%s%s%s", name, index,
                     fields[i].name[0] && (name[0] || index[0]) ? "." : "", fields[i].name);
            good = add_tiles(p, &fields[i], inner, at + (unsigned)e * pitch + fields[i].at, tiles,
                             depth + 1);
        }
    free(fields);
    return good;
}

// The index of the word for the type in the cast of `extern __shared__ ... name[]`: "(tiles<T>
// *)name". 0: there is no such cast.
static size_t cast_type(const struct program *p, const char *name)
{
    for (size_t i = 2; i < p->count; ++i) {
        size_t k = i - 1;
        bool is_union;
        long align;
        if (!is(p, i, name))
            continue;
        if (is(p, k, "("))
            --k;
        if (!(is(p, k, ")") || is(p, k, ">")) || !is(p, k - 1, "*"))
            continue;
        k -= 2;
        if (is(p, k, ">"))
            while (k > 0 && !is(p, k--, "<"))
                ;
        if (body_of(p, word(p, k), &is_union, &align))
            return k;
    }
    return 0;
}

// Finds the declaration of a __shared__ variable.
static bool find_declaration(const struct program *p, const char *name, struct field *f)
{
    for (size_t i = 0; i < p->count; ++i) {
        bool external = i > 0 && is(p, i - 1, "extern");
        size_t k = i + 1, end;
        if (!is(p, i, "__shared__"))
            continue;
        while (is(p, k, "__align__") || is(p, k, "alignas") || is(p, k, "const") ||
               is(p, k, "volatile") || is(p, k, "extern")) {
            external |= is(p, k, "extern");
            k = is(p, k + 1, "(") ? past(p, k + 1) : k + 1;
        }
        while (is(p, k, "unsigned") && plain_bytes(word(p, k + 1)))
            ++k;
        size_t type = k++;
        if (is(p, k, "<"))
            while (k < p->count && !is(p, k++, ">"))
                ;
        for (; is_name(word(p, k)); k = end + 1) {
            bool found = strcmp(word(p, k), name) == 0;
            *f = (struct field){.type = type};
            if (found && external && is(p, k + 1, "[") && is(p, k + 2, "]")) {
                f->type = cast_type(p, name);
                return f->type > 0;
            }
            if (!read_dims(p, k + 1, f, &end))
                break;
            if (found)
                return true;
            if (!is(p, end, ","))
                break;
        }
    }
    return false;
}

static void free_program(struct program *p)
{
    for (size_t i = 0; i < p->count; ++i)
        free(p->words[i].text);
    for (size_t i = 0; i < p->constant_count; ++i)
        free(p->constants[i].name);
    free(p->words);
    free(p->constants);
}

json_t *tiles_of(const char *text, const json_t *variables, const char *mangled)
{
    struct program p = {0};
    json_t *tiles = json_array();
    const json_t *variable;
    size_t i;
    set_constant(&p, "HEAD_DIM", 64, false); // defined in workbench.h, which is not read
    read_words(&p, text);
    read_arguments(&p, mangled);
    read_constants(&p);
    read_arguments(&p, mangled);
    json_array_foreach (variables, i, variable) {
        const char *name = json_string_value(json_array_get(variable, 0));
        unsigned at = (unsigned)json_integer_value(json_array_get(variable, 1));
        unsigned bytes = (unsigned)json_integer_value(json_array_get(variable, 2));
        struct field f;
        struct layout layout;
        json_t *own = json_array();
        bool external = false,
             good = find_declaration(&p, name, &f) && type_layout(&p, &f, &layout, 0);
        long elements = 1;
        for (int k = 0; good && k < f.dims; ++k)
            elements *= f.dim[k];
        external = good && f.dims == 0 && cast_type(&p, name) == f.type;
        good = good &&
               (external ? layout.bytes <= bytes : layout.bytes * (unsigned)elements == bytes) &&
               add_tiles(&p, &f, external ? "" : name, at, own, 0);
        if (good)
            json_array_extend(tiles, own);
        else if (bytes)
            add_tile(tiles, name, at, WORD_BYTES, "word", 1, (const long[]){bytes / WORD_BYTES});
        json_decref(own);
    }
    free_program(&p);
    return tiles;
}

const char *tile_name(const json_t *tiles, unsigned address, char *name, size_t size)
{
    const json_t *tile;
    size_t i;
    json_array_foreach (tiles, i, tile) {
        const json_t *dims = json_object_get(tile, "dims");
        unsigned at = (unsigned)whole_at(tile, "at"), element = (unsigned)whole_at(tile, "element");
        unsigned index = (address - at) / element, count = 1;
        for (size_t k = 0; k < json_array_size(dims); ++k)
            count *= (unsigned)json_integer_value(json_array_get(dims, k));
        if (address < at || index >= count)
            continue;
        size_t used = (size_t)snprintf(name, size, "%s", string_or(tile, "name", ""));
        for (size_t k = 0; k < json_array_size(dims) && used < size; ++k) {
            count /= (unsigned)json_integer_value(json_array_get(dims, k));
            used += (size_t)snprintf(name + used, size - used, "[%u]", index / count);
            index %= count;
        }
        return name;
    }
    snprintf(name, size, "shared address %u", address);
    return name;
}
