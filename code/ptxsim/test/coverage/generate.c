// generate.c: writes the CUDA source that coverage.cu includes: a kernel for every opcode (decode/
// opcodes.def) and type (ops/operations.def) and for every legal cvt, and random programs of the
// exact opcodes.
//
//   generate table      the table of opcodes, tab-separated: opcodes.tsv
//   generate kernels    the kernels of the table and the random programs
//
// The seed is fixed: the text is the same every time.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The list -----------------------------------------------------------------------------------

enum form { FORM_PLAIN, FORM_COMPARE, FORM_SELECT, FORM_CUSTOM };

struct listed {
    const char *name;
    enum form form;
    const char *types; // types of the result and the operands, comma-separated
};

#define UNARY(D, A, e) FORM_PLAIN, #D "," #A
#define BINARY(D, A, B, e) FORM_PLAIN, #D "," #A "," #B
#define TERNARY(D, A, B, C, e) FORM_PLAIN, #D "," #A "," #B "," #C
#define COMPARE(A, e) FORM_COMPARE, #A
#define SELECT(D) FORM_SELECT, #D
#define HALF(per, format, count, e) FORM_PLAIN, HALF_TYPES_##count(HALF_TYPE_##per)
#define HALF_TYPE_1 "u16"
#define HALF_TYPE_2 "u32"
#define HALF_TYPES_1(t) t "," t
#define HALF_TYPES_2(t) t "," t "," t
#define HALF_TYPES_3(t) t "," t "," t "," t
#define CUSTOM(result) FORM_CUSTOM, ""
static const struct listed listed[] = {
#define OP(name, form, ...) {#name, form(__VA_ARGS__)},
#include "../../ops/operations.def"
#undef OP
};
enum { LISTED = sizeof listed / sizeof listed[0] };

static const struct {
    const char *name, *decoder;
} rows[] = {
#define OPCODE(name, decoder, ...) {name, #decoder},
#include "../../decode/extra/opcodes.def"
#include "../../decode/opcodes.def"
#undef OPCODE
};

// The decoder of an opcode without its modifiers; "" if PTX, or the simulator, does not have the
// opcode.
static const char *decoder_of(const char *base)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i)
        if (!strcmp(rows[i].name, base))
            return rows[i].decoder;
    return "";
}

// ---- Opcodes as PTX spells them -----------------------------------------------------------------

enum { MOST_OPERANDS = 5 };

enum accuracy {
    EXACT,       // the same bits as on a GPU
    APPROXIMATE, // MUFU and the like: within the manual's error
};

struct opcode {
    char name[64];
    int bits[MOST_OPERANDS]; // widths of the result (1: a predicate) and the operands
    int count;               // number of operands, the result included
    bool predicate_last;     // the last operand is a predicate
    const char *last;        // an immediate after the operands
    enum accuracy accuracy;
    int needs; // least compute capability, times ten; 80: any will do
};

static struct opcode *opcodes;
static size_t opcode_count;

static struct opcode *add(const char *name)
{
    opcodes = realloc(opcodes, (opcode_count + 1) * sizeof *opcodes);
    if (!opcodes)
        abort();
    struct opcode *o = &opcodes[opcode_count++];
    *o = (struct opcode){.needs = 80};
    if (snprintf(o->name, sizeof o->name, "%s", name) >= (int)sizeof o->name)
        abort();
    return o;
}

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool in(const char *word, const char *list)
{
    size_t length = strlen(word);
    if (!length)
        return false;
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

static int type_bits(const char *type)
{
    return atoi(type + 1);
}

// The least compute capability with the opcode, times ten: 90, or 80 for all that the simulator
// has.
static int needs(const char *name)
{
    static const char *const later[] = {
        "min.relu.",   "max.relu.",           "min.u16x2",       "min.s16x2",   "max.u16x2",
        "max.s16x2",   "add.u16x2",           "add.s16x2",       "add.rn.bf16", "sub.rn.bf16",
        "mul.rn.bf16", "ex2.approx.ftz.bf16", "tanh.approx.bf16"};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; ++i)
        if (starts(name, later[i]))
            return 90;
    return starts(name, "setp.") && strstr(name, ".bf16") ? 90 : 80;
}

// Spells an operation's name as PTX does, with a rounding and .sat: "fma_ftz_f32" becomes
// "fma.rn.ftz.sat.f32".
static void spell(char *out, size_t size, const char *name, const char *rounding, bool saturate)
{
    char parts[96];
    snprintf(parts, sizeof parts, "%s", name);
    char *word[8];
    int words = 0;
    for (char *at = strtok(parts, "_"); at && words < 8; at = strtok(NULL, "_"))
        word[words++] = at;
    for (int i = 2; i < words; ++i) // .ftz stands before .NaN and .relu
        if (!strcmp(word[i], "ftz") && in(word[i - 1], "NaN relu")) {
            char *other = word[i - 1];
            word[i - 1] = word[i];
            word[i] = other;
        }
    size_t used = 0;
    for (int i = 0; i < words; ++i) {
        bool last = i == words - 1;
        used += (size_t)snprintf(out + used, size - used, "%s%s%s", i ? "." : "",
                                 last && saturate ? "sat." : "", word[i]);
        if (!i && rounding[0])
            used += (size_t)snprintf(out + used, size - used, ".%s", rounding);
    }
}

static void add_listed(const struct listed *l)
{
    char types[64], name[96];
    char base[32];
    snprintf(base, sizeof base, "%.*s", (int)strcspn(l->name, "_"), l->name);
    const char *decoder = decoder_of(base);
    // pack_2x16 and the like are parts of other instructions; add_conversions makes every cvt.
    if (!decoder[0] || !strcmp(decoder, "cvt") || l->form == FORM_CUSTOM)
        return;
    snprintf(types, sizeof types, "%s", l->types);
    const char *type = strrchr(l->name, '_');
    type = type ? type + 1 : "";
    bool single = in(type, "f32 f64"), half = strstr(type, "f16") != NULL;
    bool approximate = strstr(l->name, "approx") || strstr(l->name, "full");
    bool rounds = single && !approximate && !strcmp(decoder, "rounded");
    static const char *const modes[] = {"rn", "rz", "rm", "rp"};
    for (int mode = 0; mode < (rounds ? 4 : 1); ++mode) {
        for (int saturate = 0; saturate < 2; ++saturate) {
            const char *rounding = rounds                                ? modes[mode]
                                   : half && in(base, "add sub mul fma") ? "rn" // never fused
                                                                         : "";
            if (saturate && !((single && in(type, "f32") && in(base, "add sub mul fma")) ||
                              (half && strstr(l->name, "relu") == NULL && !strstr(type, "bf16") &&
                               in(base, "add sub mul fma"))))
                continue;
            spell(name, sizeof name, l->name, rounding, saturate);
            if (starts(name, "tanh.approx.ftz"))
                continue;
            struct opcode *o = add(name);
            o->needs = needs(name);
            o->accuracy = approximate ? APPROXIMATE : EXACT;
            if (l->form == FORM_COMPARE) {
                o->bits[0] = 1;
                o->bits[1] = o->bits[2] = type_bits(types);
                o->count = starts(name, "testp") ? 2 : 3;
            } else if (l->form == FORM_SELECT) {
                o->bits[0] = o->bits[1] = o->bits[2] = type_bits(types);
                o->count = 3;
                o->predicate_last = true;
            } else {
                char copy[64];
                snprintf(copy, sizeof copy, "%s", types);
                for (char *at = strtok(copy, ","); at; at = strtok(NULL, ","))
                    o->bits[o->count++] = type_bits(at);
            }
        }
    }
}

static struct opcode *add_plain(const char *name, int count, int d, int a, int b, int c, int e)
{
    struct opcode *o = add(name);
    int bits[MOST_OPERANDS] = {d, a, b, c, e};
    memcpy(o->bits, bits, sizeof bits);
    o->count = count;
    return o;
}

// Adds the rows whose opcodes have decoders of their own.
static void add_custom(void)
{
    add_plain("bfi.b32", 5, 32, 32, 32, 32, 32);
    add_plain("bfi.b64", 5, 64, 64, 64, 32, 32);
    static const char *const tables[] = {"0x96", "0xe8", "0x2a", "0xca", "0x1f"};
    for (int i = 0; i < 5; ++i)
        add_plain("lop3.b32", 4, 32, 32, 32, 32, 0)->last = tables[i];
    static const char *const floats[] = {"lt", "eq", "geu", "nan", "num", "neu"};
    for (int i = 0; i < 6; ++i) {
        static const char *const types[] = {"f16", "bf16", "f16x2", "f32", "f64", "s32", "u64"};
        for (int k = 0; k < 7; ++k) {
            if (k > 4 && i > 1)
                continue;
            int bits = k < 2 ? 16 : k == 4 || k == 6 ? 64 : 32;
            char name[64];
            if (k == 2) {
                snprintf(name, sizeof name, "set.%s.f16x2.f16x2", floats[i]);
                add_plain(name, 3, 32, 32, 32, 0, 0);
            }
            if (k != 1) {
                snprintf(name, sizeof name, "set.%s.u32.%s", floats[i], types[k]);
                add_plain(name, 3, 32, bits, bits, 0, 0);
            }
            if (k > 2) {
                snprintf(name, sizeof name, "set.%s.f32.%s", floats[i], types[k]);
                add_plain(name, 3, 32, bits, bits, 0, 0);
            }
            if (k < 2) {
                snprintf(name, sizeof name, "setp.%s.%s", floats[i], types[k]);
                add_plain(name, 3, 1, bits, bits, 0, 0)->needs = needs(name);
            }
        }
    }
}

static void add_conversions(void)
{
    static const char *const integers[] = {"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"};
    static const char *const floats[] = {"f16", "f32", "f64"};
    static const char *const whole[] = {"rni", "rzi", "rmi", "rpi"};
    static const char *const modes[] = {"rn", "rz", "rm", "rp"};
    char name[64];
    for (int i = 0; i < 8; ++i)
        for (int k = 0; k < 8; ++k)
            for (int saturate = 0; saturate < 2; ++saturate) {
                const char *to = integers[i], *from = integers[k];
                // .sat only where the result's type lacks values of the operand's.
                int wider = type_bits(to) - type_bits(from);
                if (saturate && (to[0] == from[0] ? wider >= 0 : to[0] == 's' && wider > 0))
                    continue;
                snprintf(name, sizeof name, "cvt%s.%s.%s", saturate ? ".sat" : "", to, from);
                int a = type_bits(from), d = type_bits(to);
                add_plain(name, 2, d < 16 ? 32 : d, a < 16 ? 16 : a, 0, 0, 0);
            }
    for (int f = 0; f < 3; ++f)
        for (int i = 0; i < 8; ++i) {
            int bits = type_bits(floats[f]), wide = type_bits(integers[i]);
            for (int mode = 0; mode < 4; ++mode) {
                for (int saturate = 0; saturate < 2; ++saturate) {
                    for (int ftz = 0; ftz < (f == 1 ? 2 : 1); ++ftz) {
                        snprintf(name, sizeof name, "cvt.%s%s%s.%s.%s", whole[mode],
                                 ftz ? ".ftz" : "", saturate ? ".sat" : "", integers[i], floats[f]);
                        add_plain(name, 2, wide < 16 ? 32 : wide, bits, 0, 0, 0);
                    }
                }
                snprintf(name, sizeof name, "cvt.%s.%s.%s", modes[mode], floats[f], integers[i]);
                add_plain(name, 2, bits, wide < 16 ? 16 : wide, 0, 0, 0);
            }
        }
    static const struct {
        const char *name;
        int d, a, b;
    } others[] = {{"cvt.f32.f16", 32, 16, 0},
                  {"cvt.f64.f16", 64, 16, 0},
                  {"cvt.f64.f32", 64, 32, 0},
                  {"cvt.ftz.f32.f16", 32, 16, 0},
                  {"cvt.ftz.f64.f32", 64, 32, 0},
                  {"cvt.sat.f32.f16", 32, 16, 0},
                  {"cvt.sat.f32.f32", 32, 32, 0},
                  {"cvt.ftz.sat.f32.f32", 32, 32, 0},
                  {"cvt.sat.f16.f16", 16, 16, 0},
                  {"cvt.sat.f64.f32", 64, 32, 0},
                  {"cvt.rn.sat.f16.f32", 16, 32, 0},
                  {"cvt.rn.sat.f32.f64", 32, 64, 0},
                  {"cvt.rn.ftz.f32.f64", 32, 64, 0},
                  {"cvt.rn.ftz.f16.f32", 16, 32, 0},
                  {"cvt.rn.f32.f64", 32, 64, 0},
                  {"cvt.rz.f32.f64", 32, 64, 0},
                  {"cvt.rm.f32.f64", 32, 64, 0},
                  {"cvt.rp.f32.f64", 32, 64, 0},
                  {"cvt.rn.f16.f64", 16, 64, 0},
                  {"cvt.rz.f16.f64", 16, 64, 0},
                  {"cvt.rn.f16.f32", 16, 32, 0},
                  {"cvt.rz.f16.f32", 16, 32, 0},
                  {"cvt.rm.f16.f32", 16, 32, 0},
                  {"cvt.rp.f16.f32", 16, 32, 0},
                  {"cvt.rn.relu.f16.f32", 16, 32, 0},
                  {"cvt.rn.bf16.f32", 16, 32, 0},
                  {"cvt.rz.bf16.f32", 16, 32, 0},
                  {"cvt.rn.relu.bf16.f32", 16, 32, 0},
                  {"cvt.rn.f16x2.f32", 32, 32, 32},
                  {"cvt.rz.f16x2.f32", 32, 32, 32},
                  {"cvt.rn.relu.f16x2.f32", 32, 32, 32},
                  {"cvt.rz.relu.f16x2.f32", 32, 32, 32},
                  {"cvt.rn.bf16x2.f32", 32, 32, 32},
                  {"cvt.rz.bf16x2.f32", 32, 32, 32},
                  {"cvt.rn.relu.bf16x2.f32", 32, 32, 32},
                  {"cvt.rz.relu.bf16x2.f32", 32, 32, 32},
                  {"cvt.rna.tf32.f32", 32, 32, 0},
                  {"cvt.f32.bf16", 32, 16, 0},
                  {"cvt.rn.satfinite.e4m3x2.f32", 16, 32, 32},
                  {"cvt.rn.satfinite.e5m2x2.f32", 16, 32, 32},
                  {"cvt.rn.satfinite.relu.e4m3x2.f32", 16, 32, 32},
                  {"cvt.rn.satfinite.relu.e5m2x2.f32", 16, 32, 32},
                  {"cvt.rn.satfinite.e4m3x2.f16x2", 16, 32, 0},
                  {"cvt.rn.satfinite.e5m2x2.f16x2", 16, 32, 0},
                  {"cvt.rn.satfinite.relu.e4m3x2.f16x2", 16, 32, 0},
                  {"cvt.rn.f16x2.e4m3x2", 32, 16, 0},
                  {"cvt.rn.f16x2.e5m2x2", 32, 16, 0},
                  {"cvt.rn.relu.f16x2.e4m3x2", 32, 16, 0},
                  {"cvt.rn.relu.f16x2.e5m2x2", 32, 16, 0},
                  {"cvt.rni.f32.f32", 32, 32, 0},
                  {"cvt.rzi.f32.f32", 32, 32, 0},
                  {"cvt.rmi.f32.f32", 32, 32, 0},
                  {"cvt.rpi.f32.f32", 32, 32, 0},
                  {"cvt.rni.ftz.f32.f32", 32, 32, 0},
                  {"cvt.rzi.ftz.f32.f32", 32, 32, 0},
                  {"cvt.rni.sat.f32.f32", 32, 32, 0},
                  {"cvt.rni.f64.f64", 64, 64, 0},
                  {"cvt.rzi.f64.f64", 64, 64, 0},
                  {"cvt.rmi.f64.f64", 64, 64, 0},
                  {"cvt.rpi.f64.f64", 64, 64, 0},
                  {"cvt.rni.f16.f16", 16, 16, 0},
                  {"cvt.rzi.f16.f16", 16, 16, 0},
                  {"cvt.rmi.f16.f16", 16, 16, 0},
                  {"cvt.rpi.f16.f16", 16, 16, 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i)
        add_plain(others[i].name, others[i].b ? 3 : 2, others[i].d, others[i].a, others[i].b, 0, 0);
}

// ---- Kernels ------------------------------------------------------------------------------------

static const char *constraint(int bits)
{
    return bits == 16 ? "h" : bits == 64 ? "l" : "r";
}

static void print_kernel(size_t number, const struct opcode *o)
{
    static const char *const names[] = {"", "a", "b", "c", "e"};
    printf("__global__ void op_%zu(const uint64_t *in, uint64_t *out)\n{\n"
           "    const uint64_t *at = in + 4 * (blockIdx.x * blockDim.x + threadIdx.x);\n",
           number);
    for (int i = 1; i < o->count; ++i)
        printf("    uint%d_t %s = (uint%d_t)at[%d];\n", o->bits[i], names[i], o->bits[i], i - 1);
    int result = o->bits[0] == 1 ? 32 : o->bits[0];
    printf("    uint%d_t d;\n    asm volatile(\"{", result);
    if (o->predicate_last)
        printf(".reg .pred p; setp.ne.u32 p, %%%d, 0; ", o->count);
    if (o->bits[0] == 1)
        printf(".reg .pred q; %s q", o->name);
    else
        printf("%s %%0", o->name);
    for (int i = 1; i < o->count; ++i)
        printf(", %%%d", i);
    if (o->predicate_last)
        printf(", p");
    if (o->last)
        printf(", %s", o->last);
    printf(";%s}\" : \"=%s\"(d) : ", o->bits[0] == 1 ? " selp.u32 %0, 1, 0, q;" : "",
           constraint(result));
    for (int i = 1; i < o->count; ++i)
        printf("%s\"%s\"(%s)", i > 1 ? ", " : "", constraint(o->bits[i]), names[i]);
    if (o->predicate_last)
        printf(", \"r\"((uint32_t)(at[2] & 1))");
    printf(");\n    out[blockIdx.x * blockDim.x + threadIdx.x] = d;\n}\n");
}

// ---- Random programs ----------------------------------------------------------------------------

enum { PROGRAMS = 48, LENGTH = 60, REGISTERS = 6 };

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static uint32_t dice(uint32_t sides)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % sides;
}

static const char *bank(int bits)
{
    return bits == 1 ? "p" : bits == 16 ? "h" : bits == 32 ? "r" : "d";
}

// Every register starts from the inputs; any operation may follow any other, also with guards and
// forward branches; at the end all registers are written out.
static void print_program(int number)
{
    printf("__global__ void program_%d(const uint64_t *in, uint64_t *out)\n{\n"
           "    const uint64_t *at = in + 4 * (blockIdx.x * blockDim.x + threadIdx.x);\n"
           "    uint64_t o[%d];\n    asm volatile(\"{.reg .b16 h<%d>; .reg .b32 r<%d>; .reg .b64 "
           "d<%d>; "
           ".reg .pred p<%d>;\\n\"\n",
           number, REGISTERS, REGISTERS, REGISTERS, REGISTERS, REGISTERS);
    for (int i = 0; i < REGISTERS; ++i) {
        printf("        \"mov.b64 d%d, %%%d; xor.b64 d%d, d%d, %d; cvt.u32.u64 r%d, d%d; "
               "cvt.u16.u64 h%d, d%d; setp.lt.s32 p%d, r%d, %d;\\n\"\n",
               i, REGISTERS + (int)(i % 4), i, i, i / 4 * 0x5a5a5a5a, i, i, i, i, i, i, i - 3);
    }
    int open = -1;
    for (int i = 0; i < LENGTH; ++i) {
        const struct opcode *o;
        do
            o = &opcodes[dice((uint32_t)opcode_count)];
        while (o->accuracy != EXACT || o->needs > 89 || starts(o->name, "div.") ||
               starts(o->name, "rem."));
        if (open < 0 && i + 8 < LENGTH && !dice(8)) {
            open = i + 2 + (int)dice(5);
            printf("        \"@%sp%u bra L%d;\\n\"\n", dice(2) ? "!" : "", dice(REGISTERS), open);
        }
        printf("        \"");
        if (!dice(6))
            printf("@%sp%u ", dice(2) ? "!" : "", dice(REGISTERS));
        printf("%s %s%u", o->name, bank(o->bits[0]), dice(REGISTERS));
        for (int k = 1; k < o->count; ++k)
            printf(", %s%u", bank(o->bits[k]), dice(REGISTERS));
        if (o->predicate_last)
            printf(", p%u", dice(REGISTERS));
        if (o->last)
            printf(", %s", o->last);
        printf(";\\n\"\n");
        // It is not documented which of two f64 NaNs is the result: all become one NaN.
        if (o->count > 2 && o->bits[0] == 64 && strstr(o->name, "f64"))
            for (int k = 0; k < REGISTERS; ++k)
                printf("        \"{.reg .pred q; setp.nan.f64 q, d%d, d%d; @q mov.b64 d%d, "
                       "0x7ff8000000000000;}\\n\"\n",
                       k, k, k);
        if (open == i) {
            printf("        \"L%d:\\n\"\n", open);
            open = -1;
        }
    }
    for (int i = 0; i < REGISTERS; ++i)
        printf("        \"{.reg .b64 t; cvt.u64.u16 t, h%d; mad.lo.u64 d%d, d%d, 1048583, t; "
               "cvt.u64.u32 t, r%d; mad.lo.u64 d%d, d%d, 1048583, t; selp.b64 t, 1, 0, p%d; "
               "add.u64 %%%d, d%d, t;}\\n\"\n",
               i, i, i, i, i, i, i, i, i);
    printf("        \"}\" : ");
    for (int i = 0; i < REGISTERS; ++i)
        printf("%s\"=l\"(o[%d])", i ? ", " : "", i);
    printf(" : \"l\"(at[0]), \"l\"(at[1]), \"l\"(at[2]), \"l\"(at[3]));\n    uint64_t sum = 0;\n"
           "    for (int i = 0; i < %d; ++i)\n        sum = sum * 31 + o[i];\n"
           "    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;\n}\n",
           REGISTERS);
}

// ---- What is written ----------------------------------------------------------------------------

int main(int argc, char **argv)
{
    bool table = argc == 2 && !strcmp(argv[1], "table");
    if (!table && !(argc == 2 && !strcmp(argv[1], "kernels"))) {
        fprintf(stderr, "usage: generate table|kernels\n");
        return 2;
    }
    for (size_t i = 0; i < LISTED; ++i)
        add_listed(&listed[i]);
    add_custom();
    add_conversions();
    if (table) {
        printf("opcode\tresult\toperands\taccuracy\n");
        for (size_t i = 0; i < opcode_count; ++i) {
            const struct opcode *o = &opcodes[i];
            printf("%s%s%s\t%d\t", o->name, o->last ? " " : "", o->last ? o->last : "", o->bits[0]);
            for (int k = 1; k < o->count; ++k)
                printf("%s%d", k > 1 ? "," : "", o->bits[k]);
            printf("%s\t%s\n", o->predicate_last ? ",1" : "",
                   o->needs > 89          ? "not on sm_89"
                   : o->accuracy == EXACT ? "exact"
                                          : "approximate");
        }
        return 0;
    }
    for (size_t i = 0; i < opcode_count; ++i)
        if (opcodes[i].needs <= 89)
            print_kernel(i, &opcodes[i]);
    for (int i = 0; i < PROGRAMS; ++i)
        print_program(i);
    printf("static const struct scalar_case scalar_cases[] = {\n");
    for (size_t i = 0; i < opcode_count; ++i)
        if (opcodes[i].needs <= 89)
            printf("    {\"%s%s%s\", op_%zu},\n", opcodes[i].name, opcodes[i].last ? " " : "",
                   opcodes[i].last ? opcodes[i].last : "", i);
    for (int i = 0; i < PROGRAMS; ++i)
        printf("    {\"program %d\", program_%d},\n", i, i);
    printf("};\n");
    return 0;
}
