// jansson.h: those functions of the library jansson that the command ptxsim uses, under the
// library's names. The command in a wheel is compiled with this header, so that its users need not
// install the library; all other builds use the library. test_command.bats checks that both write
// the same.
#ifndef PTXSIM_JANSSON_H
#define PTXSIM_JANSSON_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long long json_int_t;
enum json_type {
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_INTEGER,
    JSON_REAL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};
typedef struct json_t {
    enum json_type type;
    size_t uses, count, room; // count, room: items of an array or an object; bytes of a string
    union {
        struct json_t **items; // in an object, each key (a string) is followed by its value
        char *string;
        json_int_t integer;
        double real;
    };
} json_t;
typedef struct json_error_t {
    int line;
    char text[160];
} json_error_t;

#define JSON_INDENT(n) ((n)&0x1f)
#define JSON_COMPACT 0x20
#define JSON_REAL_PRECISION(n) (((n)&0x1f) << 11)

// ---- Values -------------------------------------------------------------------------------------

static inline void *json_memory_(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static inline json_t *json_new_(enum json_type type)
{
    json_t *value = json_memory_(calloc(1, sizeof *value));
    value->type = type;
    value->uses = 1;
    return value;
}

static inline json_t *json_object(void)
{
    return json_new_(JSON_OBJECT);
}

static inline json_t *json_array(void)
{
    return json_new_(JSON_ARRAY);
}

static inline json_t *json_true(void)
{
    return json_new_(JSON_TRUE);
}

static inline json_t *json_false(void)
{
    return json_new_(JSON_FALSE);
}

static inline json_t *json_null(void)
{
    return json_new_(JSON_NULL);
}

static inline json_t *json_integer(json_int_t number)
{
    json_t *value = json_new_(JSON_INTEGER);
    value->integer = number;
    return value;
}

static inline json_t *json_real(double number)
{
    json_t *value = isfinite(number) ? json_new_(JSON_REAL) : NULL;
    if (value)
        value->real = number;
    return value;
}

// Bytes of the UTF-8 character that begins at `at`; 0: no valid character begins there.
static inline size_t json_character_(const unsigned char *at, size_t left)
{
    size_t length = *at < 0x80   ? 1
                    : *at < 0xc2 ? 0
                    : *at < 0xe0 ? 2
                    : *at < 0xf0 ? 3
                    : *at < 0xf5 ? 4
                                 : 0;
    if (length > left)
        return 0;
    for (size_t i = 1; i < length; ++i)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
        (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

static inline json_t *json_stringn(const char *text, size_t size)
{
    for (size_t at = 0, length; at < size; at += length)
        if (!(length = json_character_((const unsigned char *)text + at, size - at)))
            return NULL;
    json_t *value = json_new_(JSON_STRING);
    value->string = json_memory_(malloc(size + 1));
    memcpy(value->string, text, size);
    value->string[size] = 0;
    value->count = size;
    return value;
}

static inline json_t *json_string(const char *text)
{
    return text ? json_stringn(text, strlen(text)) : NULL;
}

static inline json_t *json_incref(json_t *value)
{
    if (value)
        ++value->uses;
    return value;
}

static inline void json_decref(json_t *value)
{
    if (!value || --value->uses)
        return;
    if (value->type == JSON_OBJECT || value->type == JSON_ARRAY) {
        for (size_t i = 0; i < value->count; ++i)
            json_decref(value->items[i]);
        free(value->items);
    } else if (value->type == JSON_STRING) {
        free(value->string);
    }
    free(value);
}

#define json_is_(value, kind) ((value) && (value)->type == (kind))
#define json_is_object(value) json_is_(value, JSON_OBJECT)
#define json_is_array(value) json_is_(value, JSON_ARRAY)
#define json_is_string(value) json_is_(value, JSON_STRING)
#define json_is_integer(value) json_is_(value, JSON_INTEGER)
#define json_is_true(value) json_is_(value, JSON_TRUE)
#define json_is_null(value) json_is_(value, JSON_NULL)
#define json_is_number(value) (json_is_(value, JSON_INTEGER) || json_is_(value, JSON_REAL))

static inline json_int_t json_integer_value(const json_t *value)
{
    return json_is_integer(value) ? value->integer : 0;
}

static inline double json_number_value(const json_t *value)
{
    return json_is_integer(value)       ? (double)value->integer
           : json_is_(value, JSON_REAL) ? value->real
                                        : 0;
}

static inline const char *json_string_value(const json_t *value)
{
    return json_is_string(value) ? value->string : NULL;
}

// ---- Arrays and objects -------------------------------------------------------------------------

static inline void json_add_(json_t *to, json_t *item)
{
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 4;
        to->items = json_memory_(realloc(to->items, to->room * sizeof *to->items));
    }
    to->items[to->count++] = item;
}

static inline size_t json_array_size(const json_t *array)
{
    return json_is_array(array) ? array->count : 0;
}

static inline json_t *json_array_get(const json_t *array, size_t index)
{
    return index < json_array_size(array) ? array->items[index] : NULL;
}

static inline int json_array_append_new(json_t *array, json_t *value)
{
    if (!json_is_array(array) || !value) {
        json_decref(value);
        return -1;
    }
    json_add_(array, value);
    return 0;
}

static inline int json_array_extend(json_t *array, json_t *other)
{
    for (size_t i = 0; i < json_array_size(other); ++i)
        json_array_append_new(array, json_incref(other->items[i]));
    return 0;
}

static inline int json_array_remove(json_t *array, size_t index)
{
    if (index >= json_array_size(array))
        return -1;
    json_decref(array->items[index]);
    --array->count;
    memmove(array->items + index, array->items + index + 1,
            (array->count - index) * sizeof *array->items);
    return 0;
}

#define json_array_foreach(array, index, value)                                                    \
    for (index = 0; index < json_array_size(array) && (value = json_array_get(array, index));      \
         ++index)

static inline json_t **json_member_(const json_t *object, const char *key)
{
    for (size_t i = 0; json_is_object(object) && key && i < object->count; i += 2)
        if (strcmp(object->items[i]->string, key) == 0)
            return &object->items[i + 1];
    return NULL;
}

static inline json_t *json_object_get(const json_t *object, const char *key)
{
    json_t **member = json_member_(object, key);
    return member ? *member : NULL;
}

static inline int json_object_set_new(json_t *object, const char *key, json_t *value)
{
    json_t **member = json_member_(object, key), *name = NULL;
    if (!json_is_object(object) || !value || (!member && !(name = json_string(key)))) {
        json_decref(value);
        return -1;
    }
    if (member) {
        json_decref(*member);
        *member = value;
    } else {
        json_add_(object, name);
        json_add_(object, value);
    }
    return 0;
}

static inline int json_object_del(json_t *object, const char *key)
{
    json_t **member = json_member_(object, key);
    if (!member)
        return -1;
    json_t **name = member - 1, **end = object->items + object->count;
    json_decref(name[0]);
    json_decref(name[1]);
    memmove(name, name + 2, (size_t)(end - (name + 2)) * sizeof *name);
    object->count -= 2;
    return 0;
}

static inline int json_object_set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, json_incref(value));
}

static inline int json_equal(const json_t *a, const json_t *b)
{
    if (!a || !b || a->type != b->type || a->count != b->count)
        return 0;
    switch (a->type) {
    case JSON_OBJECT:
        for (size_t i = 0; i < a->count; i += 2)
            if (!json_equal(a->items[i + 1], json_object_get(b, a->items[i]->string)))
                return 0;
        return 1;
    case JSON_ARRAY:
        for (size_t i = 0; i < a->count; ++i)
            if (!json_equal(a->items[i], b->items[i]))
                return 0;
        return 1;
    case JSON_STRING: return memcmp(a->string, b->string, a->count) == 0;
    case JSON_INTEGER: return a->integer == b->integer;
    case JSON_REAL: return a->real == b->real;
    default: return 1;
    }
}

// Makes a value by its format: { } [ ] s i f b n; o takes over a value, O keeps the caller's
// reference; commas, colons and blanks are skipped.
static inline json_t *json_packed_(const char **format, va_list *arguments)
{
    *format += strspn(*format, " ,:");
    char sign = *(*format)++;
    json_t *value;
    switch (sign) {
    case '{':
        for (value = json_object(); *(*format += strspn(*format, " ,:")) == 's';) {
            const char *key = va_arg(*arguments, const char *);
            ++*format;
            json_object_set_new(value, key, json_packed_(format, arguments));
        }
        ++*format;
        return value;
    case '[':
        for (value = json_array(); *(*format += strspn(*format, " ,:")) != ']';)
            json_array_append_new(value, json_packed_(format, arguments));
        ++*format;
        return value;
    case 's': return json_string(va_arg(*arguments, const char *));
    case 'i': return json_integer(va_arg(*arguments, int));
    case 'f': return json_real(va_arg(*arguments, double));
    case 'b': return va_arg(*arguments, int) ? json_true() : json_false();
    case 'o': return va_arg(*arguments, json_t *);
    case 'O': return json_incref(va_arg(*arguments, json_t *));
    case 'n': return json_null();
    default: abort();
    }
}

static inline json_t *json_pack(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *value = json_packed_(&format, &arguments);
    va_end(arguments);
    return value;
}

// ---- Writing ------------------------------------------------------------------------------------

static inline void json_write_string_(FILE *out, const json_t *value)
{
    static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    putc('"', out);
    for (const char *at = value->string; *at; ++at) {
        const char *found = strchr(named, *at);
        if (found)
            fprintf(out, "\\%c", names[found - named]);
        else if ((unsigned char)*at < ' ')
            fprintf(out, "\\u%04X", (unsigned)*at);
        else
            putc(*at, out);
    }
    putc('"', out);
}

static inline void json_write_(FILE *out, const json_t *value, size_t flags, int depth)
{
    int indent = (int)(flags & 0x1f), precision = (int)(flags >> 11 & 0x1f);
    const char *comma = indent || flags & JSON_COMPACT ? "," : ", ";
    bool object = value->type == JSON_OBJECT;
    char number[64];
    switch (value->type) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        putc(object ? '{' : '[', out);
        for (size_t i = 0; i < value->count; ++i) {
            if (i)
                fputs(comma, out);
            if (indent)
                fprintf(out, "\n%*s", indent * (depth + 1), "");
            if (object) {
                json_write_string_(out, value->items[i++]);
                fputs(flags & JSON_COMPACT ? ":" : ": ", out);
            }
            json_write_(out, value->items[i], flags, depth + 1);
        }
        if (indent && value->count)
            fprintf(out, "\n%*s", indent * depth, "");
        putc(object ? '}' : ']', out);
        return;
    case JSON_STRING: json_write_string_(out, value); return;
    case JSON_INTEGER: fprintf(out, "%lld", value->integer); return;
    case JSON_REAL:
        snprintf(number, sizeof number, "%.*g", precision ? precision : 17, value->real);
        fprintf(out, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
        return;
    case JSON_TRUE: fputs("true", out); return;
    case JSON_FALSE: fputs("false", out); return;
    case JSON_NULL: fputs("null", out); return;
    }
}

static inline int json_dumpf(const json_t *value, FILE *out, size_t flags)
{
    if (!value)
        return -1;
    json_write_(out, value, flags, 0);
    return ferror(out) ? -1 : 0;
}

static inline int json_dump_file(const json_t *value, const char *path, size_t flags)
{
    FILE *out = fopen(path, "we");
    int failed = out ? json_dumpf(value, out, flags) : -1;
    return out && fclose(out) == 0 ? failed : -1;
}

static inline char *json_dumps(const json_t *value, size_t flags)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = value ? open_memstream(&text, &size) : NULL;
    if (!out)
        return NULL;
    json_dumpf(value, out, flags);
    fclose(out);
    return text;
}

// ---- Reading ------------------------------------------------------------------------------------

struct json_text_ {
    const char *begin, *at;
    const char *wrong; // what is wrong at `at`, or NULL
};

static inline void json_skip_(struct json_text_ *t)
{
    t->at += strspn(t->at, " \t\r\n");
}

static inline json_t *json_wrong_(struct json_text_ *t, json_t *value, const char *what)
{
    json_decref(value);
    if (!t->wrong)
        t->wrong = what;
    return NULL;
}

// Writes a character as UTF-8; returns the number of bytes.
static inline size_t json_utf8_(unsigned c, char *to)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(first[length] | c);
    return length;
}

static inline json_t *json_read_string_(struct json_text_ *t)
{
    static const char names[] = "\"\\/bfnrt", named[] = "\"\\/\b\f\n\r\t";
    size_t room = 0, used = 0;
    char *text = NULL;
    for (++t->at;;) {
        unsigned c, low;
        const char *name;
        if (used + 8 > room)
            text = json_memory_(realloc(text, room = 2 * room + 32));
        if (*t->at == '"' || (unsigned char)*t->at < ' ')
            break;
        if (*t->at != '\\') {
            text[used++] = *t->at++;
        } else if (t->at[1] && (name = strchr(names, t->at[1]))) {
            text[used++] = named[name - names];
            t->at += 2;
        } else if (t->at[1] == 'u' && sscanf(t->at + 2, "%4x", &c) == 1) {
            t->at += 6;
            if (c >= 0xd800 && c < 0xdc00 && sscanf(t->at, "\\u%4x", &low) == 1) {
                c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
                t->at += 6;
            }
            used += json_utf8_(c, text + used);
        } else {
            break;
        }
    }
    json_t *value = *t->at == '"' ? json_stringn(text, used) : NULL;
    free(text);
    if (!value)
        return json_wrong_(t, NULL, "a string is wrong");
    ++t->at;
    return value;
}

static inline json_t *json_read_(struct json_text_ *t, int depth)
{
    static const struct {
        const char *name;
        enum json_type type;
    } words[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};
    json_skip_(t);
    if (depth > 200)
        return json_wrong_(t, NULL, "too deep");
    if (*t->at == '"')
        return json_read_string_(t);
    if (*t->at == '{' || *t->at == '[') {
        bool object = *t->at == '{';
        json_t *value = object ? json_object() : json_array(), *key = NULL, *item;
        ++t->at;
        json_skip_(t);
        while (*t->at != (object ? '}' : ']')) {
            if (value->count && *t->at++ != ',')
                return json_wrong_(t, value, "a comma or an end is missing");
            json_skip_(t);
            if (object) {
                key = *t->at == '"' ? json_read_string_(t) : NULL;
                json_skip_(t);
                if (!key || *t->at++ != ':') {
                    json_decref(key);
                    return json_wrong_(t, value, "a name is missing");
                }
            }
            if (!(item = json_read_(t, depth + 1))) {
                json_decref(key);
                return json_wrong_(t, value, "a value is missing");
            }
            if (object) {
                json_object_set_new(value, key->string, item);
                json_decref(key);
                key = NULL;
            } else {
                json_add_(value, item);
            }
            json_skip_(t);
        }
        ++t->at;
        return value;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (strncmp(t->at, words[i].name, strlen(words[i].name)) == 0) {
            t->at += strlen(words[i].name);
            return json_new_(words[i].type);
        }
    size_t length = strspn(t->at, "+-.0123456789eE");
    if (!length || !(isdigit((unsigned char)*t->at) || *t->at == '-'))
        return json_wrong_(t, NULL, "no value");
    char *end, *other;
    json_int_t integer = strtoll(t->at, &end, 10);
    double real = strtod(t->at, &other);
    json_t *value = end == t->at + length ? json_integer(integer) : json_real(real);
    if (!value || (end != t->at + length && other != t->at + length))
        return json_wrong_(t, value, "no number");
    t->at += length;
    return value;
}

static inline json_t *json_loads(const char *text, size_t flags, json_error_t *error)
{
    struct json_text_ t = {text, text, NULL};
    (void)flags;
    json_t *value = json_read_(&t, 0);
    json_skip_(&t);
    if (value && *t.at)
        value = json_wrong_(&t, value, "something follows the value");
    if (!value && error) {
        error->line = 1;
        for (const char *at = text; at < t.at; ++at)
            error->line += *at == '\n';
        snprintf(error->text, sizeof error->text, "%s", t.wrong);
    }
    return value;
}

static inline json_t *json_load_file(const char *path, size_t flags, json_error_t *error)
{
    char *text = NULL;
    size_t size = 0, got = 0;
    FILE *file = fopen(path, "rbe");
    if (error)
        *error = (json_error_t){.line = -1};
    if (!file) {
        if (error)
            snprintf(error->text, sizeof error->text, "%s", strerror(errno));
        return NULL;
    }
    do {
        text = json_memory_(realloc(text, size + (1 << 16) + 1));
        size += got = fread(text + size, 1, 1 << 16, file);
    } while (got);
    text[size] = 0;
    fclose(file);
    json_t *value = json_loads(text, flags, error);
    free(text);
    return value;
}

#endif
