// table.c: operations (operations.def) and opcodes' modifiers (modifiers.def), and the search for
// rows by name, with a hash table for each list.
#include "internal.h"

#include <string.h>

// ---- Rows ---------------------------------------------------------------------------------------

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define UNARY(D, A, e)                                                                             \
    {                                                                                              \
        .operands = 1, .plain = 1 + sizeof(D), .a = sizeof(A)                                      \
    }
#define BINARY(D, A, B, e)                                                                         \
    {                                                                                              \
        .operands = 2, .plain = 1 + sizeof(D), .a = sizeof(A), .b = sizeof(B)                      \
    }
#define TERNARY(D, A, B, C, e)                                                                     \
    {                                                                                              \
        .operands = 3, .plain = 1 + sizeof(D), .a = sizeof(A), .b = sizeof(B), .c = sizeof(C)      \
    }
#define COMPARE(A, e)                                                                              \
    {                                                                                              \
        .operands = 2, .plain = 1, .a = sizeof(A), .b = sizeof(A)                                  \
    }
#define SELECT(D)                                                                                  \
    {                                                                                              \
        .operands = 3, .plain = 1 + sizeof(D), .a = sizeof(D), .b = sizeof(D), .c = 0              \
    }
#define HALF(per, format, count, e)                                                                \
    {                                                                                              \
        .operands = count, .plain = 1 + 2 * per, .a = 2 * per, .b = 2 * per, .c = 2 * per          \
    }
#define CUSTOM(result)                                                                             \
    {                                                                                              \
        .operands = 0, .plain = result                                                             \
    }
const struct signature signatures[OP_COUNT] = {
#define OP(name, form, ...) [OP_##name] = form(__VA_ARGS__),
#include "ptxsim/ops/operations.def"
#undef OP
};
#undef UNARY
#undef BINARY
#undef TERNARY
#undef COMPARE
#undef SELECT
#undef HALF
#undef CUSTOM

const struct type modifier_types[MODIFIER_COUNT] = {
#define NO_TYPE                                                                                    \
    {                                                                                              \
        -1, CLASS_INT, NUMBER_NONE, NUMBER_NONE, MATRIX_NONE                                       \
    }
#define TYPE(name, bytes, class, number, pair, matrix)                                             \
    [MOD_##name] = {bytes, CLASS_##class, NUMBER_##number, NUMBER_##pair, MATRIX_##matrix},
#define MODIFIER(name) [MOD_##name] = NO_TYPE,
#define MODIFIER_AS(name, text) [MOD_##name] = NO_TYPE,
    [MOD_NONE] = NO_TYPE,
#include "modifiers.def"
#undef TYPE
#undef MODIFIER
#undef MODIFIER_AS
#undef NO_TYPE
};

// ---- Names --------------------------------------------------------------------------------------

static const char *const op_names[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = #name,
#include "ptxsim/ops/operations.def"
#undef OP
};

const char *const modifier_names[MODIFIER_COUNT] = {
#define TYPE(name, ...) [MOD_##name] = #name,
#define MODIFIER(name) [MOD_##name] = #name,
#define MODIFIER_AS(name, text) [MOD_##name] = text,
    [MOD_NONE] = "",
#include "modifiers.def"
#undef TYPE
#undef MODIFIER
#undef MODIFIER_AS
};

static uint32_t hash_text(const char *text, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; ++i)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static const char *name_at(const struct names *n, int i)
{
    return *(const char *const *)((const char *)n->list + (size_t)i * n->row);
}

int find_name(struct names *n, const char *text, size_t length)
{
    for (int i = 0; i < n->count && !n->ready; ++i) {
        uint32_t at = hash_text(name_at(n, i), strlen(name_at(n, i))) % NAME_SLOTS;
        while (n->slots[at])
            at = (at + 1) % NAME_SLOTS;
        n->slots[at] = (int16_t)(i + 1);
    }
    n->ready = true;
    for (uint32_t at = hash_text(text, length) % NAME_SLOTS; n->slots[at];
         at = (at + 1) % NAME_SLOTS) {
        const char *name = name_at(n, n->slots[at] - 1);
        if (!strncmp(name, text, length) && !name[length])
            return n->slots[at] - 1;
    }
    return -1;
}

int op_find(const char *name)
{
    static struct names names = {.list = op_names, .row = sizeof *op_names, .count = OP_COUNT};
    return find_name(&names, name, strlen(name));
}

enum modifier modifier_find(const char *text)
{
    static struct names names = {
        .list = modifier_names, .row = sizeof *modifier_names, .count = MODIFIER_COUNT};
    int id = find_name(&names, text, strlen(text));
    return id < 0 ? MOD_NONE : (enum modifier)id;
}
