// gguf.c: reads a model's file. No length and no count in it is trusted: each is checked against the bytes that are
// left.
#include "model.h"

#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 3, DIMENSIONS_MOST = 4, TENSORS_MOST = 1 << 16, VALUES_MOST = 1 << 16 };

// Types of values (docs/gguf.md).
enum type {
    TYPE_UINT8,
    TYPE_INT8,
    TYPE_UINT16,
    TYPE_INT16,
    TYPE_UINT32,
    TYPE_INT32,
    TYPE_FLOAT32,
    TYPE_BOOL,
    TYPE_STRING,
    TYPE_ARRAY,
    TYPE_UINT64,
    TYPE_INT64,
    TYPE_FLOAT64,
    TYPES
};
static const size_t type_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct value {
    struct span key;
    enum type type, of; // of: the type of an array's elements
    uint64_t count;     // how many elements an array has
    const uint8_t *at;
};

struct entry {
    struct span name;
    enum quantisation type;
    int rows, columns;
    const uint8_t *data;
    size_t row_bytes;
};

struct gguf {
    const char *path;
    const uint8_t *start;
    size_t bytes;
    struct value *values;
    size_t value_count;
    struct entry *tensors;
    size_t tensor_count;
};

// A place in the file that is being read, and what is being read there, for messages.
struct cursor {
    const struct gguf *file;
    size_t at;
    const char *what;
};

static void broken(const struct cursor *c, const char *why)
{
    fail(EXIT_USAGE, "%s: byte %zu, %s: %s", c->file->path, c->at, c->what, why);
}

static const uint8_t *take(struct cursor *c, uint64_t bytes)
{
    if (bytes > c->file->bytes - c->at)
        broken(c, text("%llu bytes are wanted, and %zu are left", (unsigned long long)bytes,
                       c->file->bytes - c->at));
    c->at += bytes;
    return c->file->start + c->at - bytes;
}

static uint64_t number(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes); // the file and this machine are both little endian
    return value;
}

static uint64_t take_number(struct cursor *c, size_t bytes)
{
    return number(take(c, bytes), bytes);
}

static struct span take_text(struct cursor *c)
{
    const uint64_t bytes = take_number(c, 8);
    return (struct span){(const char *)take(c, bytes), bytes};
}

// Reads a name, which has to be printable, so that messages can show it.
static struct span take_name(struct cursor *c)
{
    enum { MOST = 100 };
    const struct span name = take_text(c);
    if (name.bytes < 1 || name.bytes > MOST)
        broken(c, text("a name of %zu bytes; 1 to %d are read", name.bytes, MOST));
    for (size_t i = 0; i < name.bytes; ++i)
        if (name.at[i] <= ' ' || name.at[i] > '~')
            broken(c, "a name with other than visible ASCII characters");
    return name;
}

static enum type take_type(struct cursor *c)
{
    const uint64_t type = take_number(c, 4);
    if (type >= TYPES)
        broken(c, text("a value of type %llu; there are 0 to %d", (unsigned long long)type,
                       TYPES - 1));
    return (enum type)type;
}

static void skip(struct cursor *c, enum type type, uint64_t count)
{
    if (type == TYPE_STRING)
        for (uint64_t i = 0; i < count; ++i)
            take_text(c);
    else if (count > SIZE_MAX / 8)
        broken(c, "an array of so many values that no file has them");
    else
        take(c, count * type_bytes[type]);
}

static void take_value(struct cursor *c, struct value *value)
{
    value->key = take_name(c);
    value->type = take_type(c);
    value->count = 1;
    value->of = value->type;
    if (value->type == TYPE_ARRAY) {
        value->of = take_type(c);
        value->count = take_number(c, 8);
        if (value->of == TYPE_ARRAY)
            broken(c, "an array of arrays");
    }
    value->at = c->file->start + c->at;
    skip(c, value->of, value->count);
}

// The bytes of a tensor's row; 0: it is not a whole number of blocks, or the type is not one that the model may have.
static size_t bytes_of_row(uint64_t type, uint64_t columns)
{
    const uint64_t blocks = columns / QUANT_BLOCK;
    if (type == QUANT_F32)
        return columns * sizeof(float);
    if (columns % QUANT_BLOCK != 0)
        return 0;
    return type == QUANT_Q4_1 ? blocks * Q4_1_BYTES : type == QUANT_Q8_0 ? blocks * Q8_0_BYTES : 0;
}

// Reads an entry of the table of tensors. *offset receives where its data are, counted from where all data begin.
static void take_tensor(struct cursor *c, struct entry *t, uint64_t *offset)
{
    t->name = take_name(c);
    const uint64_t dimensions = take_number(c, 4);
    if (dimensions < 1 || dimensions > DIMENSIONS_MOST)
        broken(c, text("%llu dimensions; 1 to %d are read", (unsigned long long)dimensions,
                       DIMENSIONS_MOST));
    const uint64_t columns = take_number(c, 8);
    uint64_t rows = 1;
    for (uint64_t i = 1; i < dimensions; ++i) {
        const uint64_t more = take_number(c, 8);
        if (more < 1 || more > INT32_MAX / rows)
            broken(c, "a tensor with no row, or with more than 2^31");
        rows *= more;
    }
    const uint64_t type = take_number(c, 4);
    *offset = take_number(c, 8);
    if (columns < 1 || columns > INT32_MAX)
        broken(c, "a tensor with no column, or with more than 2^31");
    t->row_bytes = bytes_of_row(type, columns);
    if (!t->row_bytes)
        broken(c, text("\"%.*s\" has rows of %llu numbers of type %llu; read are F32 (0), and in "
                       "whole blocks of %d "
                       "Q4_1 (3) and Q8_0 (8)",
                       (int)t->name.bytes, t->name.at, (unsigned long long)columns,
                       (unsigned long long)type, QUANT_BLOCK));
    t->type = (enum quantisation)type;
    t->rows = (int)rows;
    t->columns = (int)columns;
}

static bool same(struct span a, struct span b)
{
    return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

static const struct value *find(const struct gguf *file, struct span key)
{
    for (size_t i = 0; i < file->value_count; ++i)
        if (same(file->values[i].key, key))
            return &file->values[i];
    return NULL;
}

static const struct entry *find_tensor(const struct gguf *file, struct span name)
{
    for (size_t i = 0; i < file->tensor_count; ++i)
        if (same(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
}

static struct span span_of(const char *words)
{
    return (struct span){words, strlen(words)};
}

// Maps the file into memory.
static void map(struct gguf *file)
{
    struct stat status;
    const int descriptor = open(file->path, O_RDONLY | O_CLOEXEC);

    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        fail(EXIT_USAGE, "%s: %s", file->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        fail(EXIT_USAGE, "%s: not a regular file", file->path);
    file->bytes = (size_t)status.st_size;
    if (file->bytes == 0)
        fail(EXIT_USAGE, "%s: empty; a model in GGUF is wanted", file->path);
    void *at = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (at == MAP_FAILED)
        fail(EXIT_MACHINE, "%s: %s", file->path, strerror(errno));
    file->start = at;
}

static uint64_t take_count(struct cursor *c, const char *of, uint64_t most)
{
    c->what = of;
    const uint64_t count = take_number(c, 8);
    if (count > most)
        broken(c, text("%llu; at most %llu are read", (unsigned long long)count,
                       (unsigned long long)most));
    return count;
}

static void take_values(struct cursor *c, struct gguf *file, size_t count)
{
    file->values = need(calloc(count + 1, sizeof *file->values));
    for (size_t i = 0; i < count; ++i) {
        c->what = text("value %zu of %zu", i + 1, count);
        take_value(c, &file->values[i]);
        if (find(file, file->values[i].key))
            broken(c, text("the key \"%.*s\" is there twice", (int)file->values[i].key.bytes,
                           file->values[i].key.at));
        file->value_count = i + 1;
    }
}

static size_t padding(size_t at, size_t aligned)
{
    return (aligned - at % aligned) % aligned;
}

static void take_tensors(struct cursor *c, struct gguf *file, size_t count)
{
    uint64_t *offsets = need(calloc(count + 1, sizeof *offsets));
    file->tensors = need(calloc(count + 1, sizeof *file->tensors));
    for (size_t i = 0; i < count; ++i) {
        c->what = text("tensor %zu of %zu", i + 1, count);
        take_tensor(c, &file->tensors[i], &offsets[i]);
        if (find_tensor(file, file->tensors[i].name))
            broken(c, "a tensor of this name is there already");
        file->tensor_count = i + 1;
    }
    const size_t aligned = (size_t)(find(file, span_of("general.alignment"))
                                        ? gguf_whole(file, "general.alignment", 8, 1 << 20)
                                        : 32);
    // The tensors' data have to follow one another, each at the next multiple of `aligned`.
    uint64_t expected = 0;
    take(c, padding(c->at, aligned));
    const size_t data = c->at;
    for (size_t i = 0; i < count; ++i) {
        struct entry *t = &file->tensors[i];
        c->what = text("the data of \"%.*s\"", (int)t->name.bytes, t->name.at);
        if (offsets[i] != expected)
            broken(c, text("they begin at %llu of all data, not at %llu, where those before end",
                           (unsigned long long)offsets[i], (unsigned long long)expected));
        t->data = take(c, t->row_bytes * (size_t)t->rows);
        take(c, padding(c->at - data, aligned));
        expected = c->at - data;
    }
    free(offsets);
}

struct gguf *gguf_open(const char *path)
{
    struct gguf *file = need(calloc(1, sizeof *file));
    struct cursor c = {.file = file, .what = "the header"};

    file->path = path;
    map(file);
    if (memcmp(take(&c, 4), "GGUF", 4) != 0)
        fail(EXIT_USAGE, "%s: no GGUF: it does not begin with these four letters", path);
    const uint64_t version = take_number(&c, 4);
    if (version != VERSION)
        broken(&c, text("GGUF of version %llu; %d is read", (unsigned long long)version, VERSION));
    const size_t tensors = take_count(&c, "the number of tensors", TENSORS_MOST);
    const size_t values = take_count(&c, "the number of values", VALUES_MOST);
    take_values(&c, file, values);
    take_tensors(&c, file, tensors);
    return file;
}

void gguf_close(struct gguf *file)
{
    munmap((void *)(uintptr_t)file->start, file->bytes);
    free(file->values);
    free(file->tensors);
    free(file);
}

const char *gguf_path(const struct gguf *file)
{
    return file->path;
}

// ---- Values and tensors by name -----------------------------------------------------------------

static const struct value *value_of(const struct gguf *file, const char *key)
{
    const struct value *value = find(file, span_of(key));
    if (!value)
        fail(EXIT_USAGE, "%s: no \"%s\" in it", file->path, key);
    return value;
}

// Converts a value to a real number; false: it is not a number.
static bool real_of(const struct value *value, double *real)
{
    const uint8_t *at = value->at;
    float single;
    switch (value->type) {
    case TYPE_UINT8:
    case TYPE_UINT16:
    case TYPE_UINT32:
    case TYPE_UINT64:
    case TYPE_BOOL: *real = (double)number(at, type_bytes[value->type]); return true;
    case TYPE_INT8: *real = (int8_t)*at; return true;
    case TYPE_INT16: *real = (int16_t)number(at, 2); return true;
    case TYPE_INT32: *real = (int32_t)number(at, 4); return true;
    case TYPE_INT64: *real = (double)(int64_t)number(at, 8); return true;
    case TYPE_FLOAT32:
        memcpy(&single, at, 4);
        *real = single;
        return true;
    case TYPE_FLOAT64: memcpy(real, at, 8); return true;
    default: return false;
    }
}

double gguf_real(const struct gguf *file, const char *key, double least, double most)
{
    double real;
    if (!real_of(value_of(file, key), &real) || !(real >= least && real <= most))
        fail(EXIT_USAGE, "%s: \"%s\" is no number from %g to %g", file->path, key, least, most);
    return real;
}

int64_t gguf_whole(const struct gguf *file, const char *key, int64_t least, int64_t most)
{
    double real;
    if (!real_of(value_of(file, key), &real) || !(real >= (double)least && real <= (double)most) ||
        real != (double)(int64_t)real)
        fail(EXIT_USAGE, "%s: \"%s\" is no whole number from %lld to %lld", file->path, key,
             (long long)least, (long long)most);
    return (int64_t)real;
}

static struct span text_at(const uint8_t *at)
{
    return (struct span){(const char *)at + 8, number(at, 8)};
}

// How many bytes of a text a message shows: at most 100, and only those before the first that is not printable.
static int printable(struct span text)
{
    enum { MOST = 100 };
    int bytes = 0;
    while (bytes < MOST && (size_t)bytes < text.bytes && (unsigned char)text.at[bytes] >= ' ')
        ++bytes;
    return bytes;
}

struct span gguf_text(const struct gguf *file, const char *key)
{
    const struct value *value = value_of(file, key);
    if (value->type != TYPE_STRING)
        fail(EXIT_USAGE, "%s: \"%s\" is no text", file->path, key);
    return text_at(value->at);
}

void gguf_expect(const struct gguf *file, const char *key, const char *wanted)
{
    const struct span got = gguf_text(file, key);
    if (!same(got, span_of(wanted)))
        fail(EXIT_USAGE, "%s: \"%s\" is \"%.*s\"; only \"%s\" is read", file->path, key,
             printable(got), got.at, wanted);
}

struct span *gguf_texts(const struct gguf *file, const char *key, size_t *count)
{
    const struct value *value = value_of(file, key);
    if (value->type != TYPE_ARRAY || value->of != TYPE_STRING)
        fail(EXIT_USAGE, "%s: \"%s\" is no array of texts", file->path, key);
    struct span *texts = need(calloc(value->count + 1, sizeof *texts));
    const uint8_t *at = value->at;
    for (size_t i = 0; i < value->count; ++i) {
        texts[i] = text_at(at);
        at += 8 + texts[i].bytes;
    }
    *count = value->count;
    return texts;
}

const uint8_t *gguf_int32s(const struct gguf *file, const char *key, size_t *count)
{
    const struct value *value = value_of(file, key);
    if (value->type != TYPE_ARRAY || value->of != TYPE_INT32)
        fail(EXIT_USAGE, "%s: \"%s\" is no array of int32", file->path, key);
    *count = value->count;
    return value->at;
}

struct tensor gguf_tensor(const struct gguf *file, const char *name, int rows, int columns)
{
    const struct entry *t = find_tensor(file, span_of(name));
    if (!t)
        fail(EXIT_USAGE, "%s: no tensor \"%s\" in it", file->path, name);
    if (t->rows != rows || t->columns != columns)
        fail(EXIT_USAGE, "%s: \"%s\" is [%d][%d], not [%d][%d]", file->path, name, t->rows,
             t->columns, rows, columns);
    return (struct tensor){t->type, rows, columns, t->data, t->row_bytes};
}

size_t gguf_tensors(const struct gguf *file)
{
    return file->tensor_count;
}

bool tensor_is_finite(const struct tensor *tensor)
{
    enum { HALF_EXPONENT = 0x7c00, FLOAT_EXPONENT = 0x7f800000 };
    const bool floats = tensor->type == QUANT_F32;
    const size_t block = floats ? 4 : tensor->type == QUANT_Q8_0 ? Q8_0_BYTES : Q4_1_BYTES;
    const uint8_t *end = tensor->data + tensor->row_bytes * (size_t)tensor->rows;
    for (const uint8_t *at = tensor->data; at < end; at += block) {
        if (floats && (number(at, 4) & FLOAT_EXPONENT) == FLOAT_EXPONENT)
            return false;
        if (!floats && (number(at, 2) & HALF_EXPONENT) == HALF_EXPONENT)
            return false;
        if (tensor->type == QUANT_Q4_1 && (number(at + 2, 2) & HALF_EXPONENT) == HALF_EXPONENT)
            return false;
    }
    return true;
}

// ---- Numbers ------------------------------------------------------------------------------------

static float half_at(const uint8_t *at)
{
    _Float16 half;
    memcpy(&half, at, sizeof half);
    return (float)half;
}

void tensor_row(const struct tensor *tensor, int row, float *to)
{
    const uint8_t *at = tensor->data + (size_t)row * tensor->row_bytes;
    if (tensor->type == QUANT_F32) {
        memcpy(to, at, tensor->row_bytes);
        return;
    }
    for (int first = 0; first < tensor->columns; first += QUANT_BLOCK) {
        const float scale = half_at(at);
        if (tensor->type == QUANT_Q8_0) {
            for (int i = 0; i < QUANT_BLOCK; ++i)
                to[first + i] = scale * (int8_t)at[2 + i];
            at += Q8_0_BYTES;
        } else {
            const float least = half_at(at + 2);
            for (int i = 0; i < QUANT_BLOCK / 2; ++i) {
                to[first + i] = scale * (float)(at[4 + i] & 15) + least;
                to[first + QUANT_BLOCK / 2 + i] = scale * (float)(at[4 + i] >> 4) + least;
            }
            at += Q4_1_BYTES;
        }
    }
}
