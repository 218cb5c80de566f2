// table.c: the operations by name, and what each takes: from operations.def.
#include "internal.h"

#include <string.h>

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

static const char *const op_names[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = #name,
#include "ptxsim/ops/operations.def"
#undef OP
};

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    while (*text)
        hash = (hash ^ (uint8_t)*text++) * 16777619u;
    return hash;
}

int op_find(const char *name)
{
    enum { SLOTS = 4096 };
    static int16_t slots[SLOTS]; // id + 1
    static bool ready;           // decoding is under the runtime's lock
    if (!ready) {
        for (int id = 0; id < OP_COUNT; ++id) {
            uint32_t at = hash_text(op_names[id]) % SLOTS;
            while (slots[at])
                at = (at + 1) % SLOTS;
            slots[at] = (int16_t)(id + 1);
        }
        ready = true;
    }
    for (uint32_t at = hash_text(name) % SLOTS; slots[at]; at = (at + 1) % SLOTS)
        if (!strcmp(op_names[slots[at] - 1], name))
            return slots[at] - 1;
    return -1;
}
