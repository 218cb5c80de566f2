// parse.c: makes a struct module of a PTX text, in one pass with one token of look-ahead.
//
// All is kept as written: an opcode stays a string, its operands have no types. decode/ gives them
// a meaning, and only for kernels that are launched.
#include "module.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Most bytes of a variable with initial values, which the parser keeps in memory.
static const size_t MOST_INITIALISED = (size_t)256 << 20;

// ---- Tokens -------------------------------------------------------------------------------------

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_INTEGER, TOKEN_FLOAT, TOKEN_STRING, TOKEN_MARK };

struct token {
    enum token_kind kind;
    const char *text;
    size_t length;
    uint64_t value; // an integer; or the bits of a float as an f64
    int line;
};

struct scope_register {
    const char *name;
    size_t length;
    int first, count; // count 0: the name itself; otherwise name<count>
    int vector;       // how many registers, in a row, the name stands for; 0: one
};

// A parameter, or returned value, that the body of a .func has in a register, and the .param
// variable that passes it.
struct register_parameter {
    const char *param;
    int reg;
    bool returned;
};

struct location {
    int file, line, column;
    int parent; // index of the location that it is inlined in; -1: none
};

struct parser {
    struct module *module;
    struct function *function;
    const char *at;
    int line;
    struct token token;
    jmp_buf failed;
    char *why;
    size_t why_size;
    struct register_parameter *reg_params; // of the current function
    size_t reg_param_count, reg_param_capacity;
    struct scope_register *registers;
    size_t register_count, register_capacity;
    struct location *locations;
    size_t location_count, location_capacity;
    size_t function_locations; // the first location of the current function
    int location;
    int scope;
    int unit; // the number of this text in the module
    enum linkage linkage;
};

__attribute__((noreturn, format(printf, 2, 3))) static void fail(struct parser *p,
                                                                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = snprintf(p->why, p->why_size, "PTX line %d: ", p->token.line);
    if (used > 0 && (size_t)used < p->why_size)
        vsnprintf(p->why + used, p->why_size - (size_t)used, format, arguments);
    va_end(arguments);
    longjmp(p->failed, 1);
}

static bool word_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool word_part(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.';
}

static void skip_blanks(struct parser *p)
{
    for (;;) {
        if (*p->at == '\n') {
            p->line++;
            p->at++;
        } else if (isspace((unsigned char)*p->at)) {
            p->at++;
        } else if (p->at[0] == '/' && p->at[1] == '/') {
            while (*p->at && *p->at != '\n')
                p->at++;
        } else if (p->at[0] == '/' && p->at[1] == '*') {
            p->at += 2;
            while (*p->at && !(p->at[0] == '*' && p->at[1] == '/')) {
                if (*p->at == '\n')
                    p->line++;
                p->at++;
            }
            if (*p->at)
                p->at += 2;
        } else {
            return;
        }
    }
}

static void lex_number(struct parser *p)
{
    const char *start = p->at;
    struct token *token = &p->token;
    char second = start[0] == '0' ? start[1] : 0;
    if (second == 'f' || second == 'F' || second == 'd' || second == 'D') {
        int digits = tolower(second) == 'f' ? 8 : 16;
        uint64_t bits = 0;
        for (int i = 0; i < digits; ++i) {
            char c = start[2 + i];
            if (!isxdigit((unsigned char)c))
                fail(p, "a float constant needs %d hexadecimal digits", digits);
            bits =
                bits << 4 | (uint64_t)(isdigit((unsigned char)c) ? c - '0' : tolower(c) - 'a' + 10);
        }
        p->at = start + 2 + digits;
        token->kind = TOKEN_FLOAT;
        token->value = bits;
        if (digits == 8) { // kept as f64; widening keeps the payload of a NaN
            uint32_t low = (uint32_t)bits;
            float single;
            memcpy(&single, &low, 4);
            double wide = single;
            memcpy(&token->value, &wide, 8);
            if (single != single)
                token->value = (uint64_t)(low >> 31) << 63 | UINT64_C(0x7ff) << 52 |
                               (uint64_t)(low & 0x7fffff) << 29;
        }
        return;
    }
    const char *digits = start;
    bool decimal = true;
    if (second == 'x' || second == 'X' || second == 'b' || second == 'B')
        decimal = false;
    if (decimal)
        while (isdigit((unsigned char)*digits))
            digits++;
    if (decimal && (*digits == '.' || *digits == 'e' || *digits == 'E')) {
        char *end;
        double value = strtod(start, &end);
        p->at = end;
        token->kind = TOKEN_FLOAT;
        memcpy(&token->value, &value, 8);
        return;
    }
    char *end;
    if (tolower(second) == 'b')
        token->value = strtoull(start + 2, &end, 2);
    else
        token->value = strtoull(start, &end, 0);
    if (*end == 'U')
        end++;
    p->at = end;
    token->kind = TOKEN_INTEGER;
}

static void advance(struct parser *p)
{
    skip_blanks(p);
    struct token *token = &p->token;
    *token = (struct token){.text = p->at, .line = p->line};
    char c = *p->at;
    if (!c) {
        token->kind = TOKEN_END;
    } else if (word_start(c)) {
        token->kind = TOKEN_WORD;
        do
            p->at++;
        while ((word_part(*p->at) && !(c == '.' && *p->at == '.')) || // .reg.b32 is two directives
               (p->at[0] == ':' && p->at[1] == ':' && word_part(p->at[2]) && p->at++));
    } else if (isdigit((unsigned char)c)) {
        lex_number(p);
    } else if (c == '"') {
        token->kind = TOKEN_STRING;
        token->text = ++p->at;
        while (*p->at && *p->at != '"' && *p->at != '\n')
            p->at += p->at[0] == '\\' && p->at[1] ? 2 : 1;
        token->length = (size_t)(p->at - token->text);
        if (*p->at != '"')
            fail(p, "a string without an end");
        p->at++;
        return;
    } else {
        token->kind = TOKEN_MARK;
        p->at++;
    }
    token->length = (size_t)(p->at - token->text);
}

static bool is(const struct parser *p, const char *text)
{
    return (p->token.kind == TOKEN_MARK || p->token.kind == TOKEN_WORD) &&
           p->token.length == strlen(text) && !memcmp(p->token.text, text, p->token.length);
}

static bool accept(struct parser *p, const char *text)
{
    if (!is(p, text))
        return false;
    advance(p);
    return true;
}

static void expect(struct parser *p, const char *text)
{
    if (!accept(p, text))
        fail(p, "'%.*s' where '%s' was expected", (int)p->token.length, p->token.text, text);
}

static char *word(struct parser *p, const char *what)
{
    if (p->token.kind != TOKEN_WORD)
        fail(p, "'%.*s' where %s was expected", (int)p->token.length, p->token.text, what);
    char *copy = arena_text(&p->module->arena, p->token.text, p->token.length);
    advance(p);
    return copy;
}

static int64_t integer(struct parser *p)
{
    bool negative = accept(p, "-");
    if (p->token.kind != TOKEN_INTEGER)
        fail(p, "'%.*s' where an integer was expected", (int)p->token.length, p->token.text);
    uint64_t value = p->token.value;
    advance(p);
    return (int64_t)(negative ? 0 - value : value);
}

static size_t size(struct parser *p)
{
    int64_t value = integer(p);
    if (value < 0 || value > INT64_C(1) << 40)
        fail(p, "%lld is no size", (long long)value);
    return (size_t)value;
}

// ---- Registers and operands ---------------------------------------------------------------------

// Bytes of a type by its name (".b32"); 0: .pred; -1: there is no such type.
static int type_bytes(const char *type)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {
        {".pred", 0},  {".b8", 1},     {".u8", 1},      {".s8", 1},         {".b16", 2},
        {".u16", 2},   {".s16", 2},    {".f16", 2},     {".bf16", 2},       {".b32", 4},
        {".u32", 4},   {".s32", 4},    {".f32", 4},     {".f16x2", 4},      {".bf16x2", 4},
        {".tf32", 4},  {".b64", 8},    {".u64", 8},     {".s64", 8},        {".f64", 8},
        {".b128", 16}, {".texref", 8}, {".surfref", 8}, {".samplerref", 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i)
        if (!strcmp(types[i].name, type))
            return types[i].bytes;
    return -1;
}

static int new_register(struct function *function, int bytes)
{
    function->regs = array_grow(function->regs, function->reg_count, &function->reg_capacity,
                                sizeof *function->regs);
    function->regs[function->reg_count].bytes = (uint8_t)(bytes == 1 ? 2 : bytes);
    return (int)function->reg_count++;
}

static void add_register(struct parser *p, const char *name, int first, int count, int vector)
{
    p->registers =
        array_grow(p->registers, p->register_count, &p->register_capacity, sizeof *p->registers);
    p->registers[p->register_count++] = (struct scope_register){
        .name = name, .length = strlen(name), .first = first, .count = count, .vector = vector};
}

// Adds a vector of registers under its name, and its elements under theirs, NAME.x or NAME.r.
static void add_vector(struct parser *p, const char *name, int vector, int bytes)
{
    int first = (int)p->function->reg_count;
    char element[256];

    for (int i = 0; i < vector; ++i) {
        new_register(p->function, bytes);
        for (int k = 0; k < 2; ++k) {
            int length = snprintf(element, sizeof element, "%s.%c", name, (k ? "rgba" : "xyzw")[i]);
            if (length >= (int)sizeof element)
                fail(p, "the name '%.32s...' is too long", name);
            add_register(p, arena_text(&p->module->arena, element, (size_t)length), first + i, 0,
                         0);
        }
    }
    add_register(p, name, first, 0, vector);
}

static void parse_reg(struct parser *p)
{
    int vector = accept(p, ".v2") ? 2 : accept(p, ".v4") ? 4 : 0;
    char *type = word(p, "a register type");
    int bytes = type_bytes(type);
    if (bytes < 0)
        fail(p, "unknown register type '%s'", type);
    do {
        char *name = word(p, "a register name");
        int count = 0;
        if (accept(p, "<")) {
            int64_t value = integer(p);
            if (value < 1 || value > 1 << 20)
                fail(p, "%lld registers", (long long)value);
            count = (int)value;
            expect(p, ">");
        }
        if (vector) {
            if (count)
                fail(p, "vectors of registers that are counted, %s<%d>", name, count);
            add_vector(p, name, vector, bytes);
            continue;
        }
        add_register(p, name, (int)p->function->reg_count, count, 0);
        for (int i = 0; i < (count ? count : 1); ++i)
            new_register(p->function, bytes);
    } while (accept(p, ","));
    expect(p, ";");
}

static int find_register(const struct parser *p, const char *name, size_t length)
{
    for (size_t i = p->register_count; i-- > 0;) {
        const struct scope_register *r = &p->registers[i];
        if (r->vector || length < r->length || memcmp(name, r->name, r->length))
            continue;
        if (!r->count) {
            if (length == r->length)
                return r->first;
            continue;
        }
        long number = 0;
        size_t at = r->length;
        while (at < length && isdigit((unsigned char)name[at]) && number < r->count)
            number = 10 * number + (name[at++] - '0');
        if (at == length && length > r->length && number < r->count)
            return r->first + (int)number;
    }
    return -1;
}

static void parse_operand(struct parser *p, struct operand *o, int depth);

static void parse_list(struct parser *p, struct operand *o, const char *end, int depth)
{
    enum { MOST = 128 }; // the number of accumulators of the widest wgmma
    struct operand list[MOST];
    int count = 0;
    while (!is(p, end)) {
        if (count == MOST)
            fail(p, "a list of more than %d operands", MOST);
        parse_operand(p, &list[count++], depth + 1);
        if (!accept(p, ","))
            break;
    }
    expect(p, end);
    o->kind = OPERAND_VECTOR;
    o->count = count;
    o->elements = arena_alloc(&p->module->arena, (size_t)(count ? count : 1) * sizeof *list);
    memcpy(o->elements, list, (size_t)count * sizeof *list);
}

// A register by its name "%r1", or a part of it, "%r1.b3"; -1: the name is no register's.
static int parse_register(struct parser *p, const char **part)
{
    const char *text = p->token.text, *dot = memrchr(text, '.', p->token.length);
    int reg = find_register(p, text, p->token.length);
    if (reg >= 0 || !dot)
        return reg;
    reg = find_register(p, text, (size_t)(dot - text));
    if (reg >= 0)
        *part = arena_text(&p->module->arena, dot + 1, p->token.length - (size_t)(dot + 1 - text));
    return reg;
}

// Parses the name of a vector, as a list of its registers; false: the name is no vector's.
static bool parse_vector(struct parser *p, struct operand *o)
{
    for (size_t i = p->register_count; i-- > 0;) {
        const struct scope_register *r = &p->registers[i];
        if (!r->vector || r->length != p->token.length ||
            memcmp(r->name, p->token.text, r->length) != 0)
            continue;
        o->kind = OPERAND_VECTOR;
        o->count = r->vector;
        o->elements = arena_alloc(&p->module->arena, (size_t)r->vector * sizeof *o->elements);
        for (int k = 0; k < r->vector; ++k)
            o->elements[k] =
                (struct operand){.kind = OPERAND_REGISTER, .reg = r->first + k, .pair = -1};
        advance(p);
        return true;
    }
    return false;
}

// Parses a vector, a register or another name. WARP_SZ is the name of a number.
static void parse_name(struct parser *p, struct operand *o)
{
    if (parse_vector(p, o))
        return;
    o->reg = parse_register(p, &o->part);
    if (o->reg >= 0) {
        o->kind = OPERAND_REGISTER;
        advance(p);
    } else if (is(p, "WARP_SZ")) {
        o->kind = OPERAND_IMMEDIATE;
        o->value = WARP;
        advance(p);
    } else {
        o->kind = OPERAND_NAME;
        o->name = word(p, "an operand");
    }
}

static void parse_operand(struct parser *p, struct operand *o, int depth)
{
    *o = (struct operand){.reg = -1, .pair = -1};
    if (depth > 4)
        fail(p, "operands nested too deeply");
    if (accept(p, "[")) {
        if (p->token.kind == TOKEN_WORD) {
            parse_name(p, o);
            if (accept(p, "+"))
                o->value = integer(p);
            else if (is(p, "-"))
                o->value = integer(p);
        } else {
            o->value = integer(p);
        }
        if (accept(p, ",")) { // coordinates after a tensor map
            if (!accept(p, "{"))
                fail(p, "texture and surface coordinates are not supported");
            int64_t value = o->value;
            parse_list(p, o, "}", depth);
            o->value = value;
        }
        o->kind = OPERAND_ADDRESS;
        expect(p, "]");
        return;
    }
    if (accept(p, "{")) {
        parse_list(p, o, "}", depth);
        return;
    }
    if (accept(p, "(")) {
        parse_list(p, o, ")", depth);
        return;
    }
    o->negated = accept(p, "!");
    bool minus = !o->negated && accept(p, "-");
    if (p->token.kind == TOKEN_INTEGER || p->token.kind == TOKEN_FLOAT) {
        o->kind = OPERAND_IMMEDIATE;
        o->is_float = p->token.kind == TOKEN_FLOAT;
        uint64_t value = p->token.value;
        if (minus)
            value = o->is_float ? value ^ UINT64_C(1) << 63 : 0 - value;
        o->value = (int64_t)value;
        advance(p);
        return;
    }
    if (minus && is(p, "WARP_SZ")) {
        parse_name(p, o);
        o->value = -o->value;
        return;
    }
    if (minus)
        fail(p, "'-' before '%.*s'", (int)p->token.length, p->token.text);
    if (is(p, "_")) {
        advance(p);
        o->kind = OPERAND_SINK;
    } else {
        parse_name(p, o);
    }
    if (accept(p, "|")) {
        o->pair = find_register(p, p->token.text, p->token.length);
        if (o->pair < 0 && !is(p, "_"))
            fail(p, "'%.*s' is no register", (int)p->token.length, p->token.text);
        advance(p);
    }
    if (o->kind == OPERAND_NAME && accept(p, "+"))
        o->value = integer(p);
}

// ---- Instructions -------------------------------------------------------------------------------

static void add_label(struct parser *p, const char *name, const char **targets, int count)
{
    struct function *f = p->function;
    f->labels = array_grow(f->labels, f->label_count, &f->label_capacity, sizeof *f->labels);
    f->labels[f->label_count++] = (struct label){.name = name,
                                                 .insn = f->insn_count,
                                                 .scope = p->scope,
                                                 .targets = targets,
                                                 .target_count = count};
}

static void add_instruction(struct parser *p, const struct insn *insn, const struct operand *list)
{
    struct function *f = p->function;
    struct insn added = *insn;

    added.operands = arena_alloc(&p->module->arena, (size_t)(insn->count + 1) * sizeof *list);
    memcpy(added.operands, list, (size_t)insn->count * sizeof *list);
    f->insns = array_grow(f->insns, f->insn_count, &f->insn_capacity, sizeof *f->insns);
    f->insns[f->insn_count++] = added;
}

// Adds an instruction that loads a .param variable into a register, or stores an operand in the
// variable, under the guard of `like`.
static void add_param_access(struct parser *p, const struct insn *like, const char *param,
                             const struct operand *o, size_t bytes, bool store)
{
    static const char *const opcodes[2][3] = {{"ld.param.b16", "ld.param.b32", "ld.param.b64"},
                                              {"st.param.b16", "st.param.b32", "st.param.b64"}};
    if (bytes != 2 && bytes != 4 && bytes != 8)
        fail(p, "a parameter of %zu bytes in a register", bytes);
    struct operand address = {.kind = OPERAND_ADDRESS, .reg = -1, .pair = -1, .name = param};
    struct operand list[2] = {store ? address : *o, store ? *o : address};
    struct insn insn = *like;
    insn.opcode = opcodes[store][bytes == 2 ? 0 : bytes == 4 ? 1 : 2];
    insn.count = 2;
    add_instruction(p, &insn, list);
}

static const char *add_param(struct parser *p, const char *name, size_t bytes, bool own);

// Bytes of a call's argument. A register has its own width, and a number that of the parameter in
// the called function's declaration.
static size_t argument_bytes(struct parser *p, const struct operand *o, const char *callee,
                             int index)
{
    const struct module *m = p->module;

    if (o->kind == OPERAND_REGISTER)
        return p->function->regs[o->reg].bytes;
    for (size_t i = 0; callee && i < m->function_count; ++i) {
        const struct function *f = m->functions[i];
        if (!strcmp(f->name, callee) && index < f->params)
            return f->variables[f->returns + index]->size;
    }
    fail(p, "a number as argument of a function that stands nowhere before");
}

// Adds a call. For each argument or result that is a register or a number, adds a .param variable,
// too, which is stored before the call or loaded after it.
static void add_call(struct parser *p, const struct insn *call, struct operand *list)
{
    int callee = call->count && list[0].kind == OPERAND_VECTOR;
    const char *name = callee < call->count ? list[callee].name : NULL;
    struct operand *results = callee ? &list[0] : NULL;
    struct operand *arguments = callee + 1 < call->count ? &list[callee + 1] : NULL;
    struct operand was[16];
    int count = results ? results->count : 0;

    for (int i = 0; arguments && arguments->kind == OPERAND_VECTOR && i < arguments->count; ++i) {
        struct operand *o = &arguments->elements[i];
        if (o->kind != OPERAND_REGISTER && o->kind != OPERAND_IMMEDIATE)
            continue;
        size_t bytes = argument_bytes(p, o, name, i);
        const char *param = add_param(p, NULL, bytes, false);
        add_param_access(p, call, param, o, bytes, true);
        *o = (struct operand){.kind = OPERAND_NAME, .reg = -1, .pair = -1, .name = param};
    }
    if (count > 16)
        fail(p, "more than 16 results of a call");
    for (int i = 0; i < count; ++i) {
        struct operand *o = &results->elements[i];
        was[i] = *o;
        if (o->kind == OPERAND_REGISTER)
            *o = (struct operand){.kind = OPERAND_NAME,
                                  .reg = -1,
                                  .pair = -1,
                                  .name =
                                      add_param(p, NULL, p->function->regs[o->reg].bytes, false)};
    }
    add_instruction(p, call, list);
    for (int i = 0; i < count; ++i)
        if (was[i].kind == OPERAND_REGISTER)
            add_param_access(p, call, results->elements[i].name, &was[i],
                             p->function->regs[was[i].reg].bytes, false);
}

// Before a return: stores results that the function has in registers to where its caller loads
// them.
static void store_returned(struct parser *p, const struct insn *ret)
{
    for (size_t i = 0; i < p->reg_param_count; ++i) {
        const struct register_parameter *r = &p->reg_params[i];
        struct operand o = {.kind = OPERAND_REGISTER, .reg = r->reg, .pair = -1};
        if (r->returned)
            add_param_access(p, ret, r->param, &o, p->function->regs[r->reg].bytes, true);
    }
}

// Loads the parameters that the function takes in registers.
static void load_taken(struct parser *p)
{
    struct insn like = {.guard = -1, .ptx_line = p->token.line, .at.line = p->location};
    for (size_t i = 0; i < p->reg_param_count; ++i) {
        const struct register_parameter *r = &p->reg_params[i];
        struct operand o = {.kind = OPERAND_REGISTER, .reg = r->reg, .pair = -1};
        if (!r->returned)
            add_param_access(p, &like, r->param, &o, p->function->regs[r->reg].bytes, false);
    }
}

static void parse_instruction(struct parser *p)
{
    struct function *f = p->function;
    struct insn insn = {
        .guard = -1, .ptx_line = p->token.line, .at.line = p->location, .scope = p->scope};
    if (accept(p, "@")) {
        insn.guard_negated = accept(p, "!");
        insn.guard = find_register(p, p->token.text, p->token.length);
        if (insn.guard < 0 || f->regs[insn.guard].bytes != 0)
            fail(p, "'%.*s' is no predicate", (int)p->token.length, p->token.text);
        advance(p);
    }
    insn.opcode = word(p, "an instruction");
    struct operand list[16];
    while (!is(p, ";")) {
        if (insn.count == 16)
            fail(p, "more than 16 operands of %s", insn.opcode);
        parse_operand(p, &list[insn.count++], 0);
        if (!accept(p, ","))
            break;
    }
    expect(p, ";");
    if (!strncmp(insn.opcode, "call", 4)) {
        add_call(p, &insn, list);
        return;
    }
    if (!strncmp(insn.opcode, "ret", 3))
        store_returned(p, &insn);
    add_instruction(p, &insn, list);
}

// ---- Variables ----------------------------------------------------------------------------------

static void parse_value(struct parser *p, struct variable *v, size_t element, size_t *at)
{
    if (accept(p, "{")) {
        while (!is(p, "}")) {
            parse_value(p, v, element, at);
            if (!accept(p, ","))
                break;
        }
        expect(p, "}");
        return;
    }
    if (!within(*at, element, v->size))
        fail(p, "more initial values than %s has room for", v->name);
    uint64_t bits = 0;
    if (p->token.kind == TOKEN_FLOAT) {
        bits = p->token.value;
        if (element == 4) {
            double wide;
            memcpy(&wide, &bits, 8);
            float single = (float)wide;
            uint32_t low;
            memcpy(&low, &single, 4);
            bits = low;
        }
        advance(p);
    } else if (p->token.kind == TOKEN_WORD) {
        struct relocation *relocation = arena_alloc(&p->module->arena, sizeof *relocation);
        char *name = word(p, "a name");
        if (!strcmp(name, "generic") && accept(p, "(")) {
            relocation->generic = true;
            name = word(p, "a name");
            expect(p, ")");
        }
        relocation->name = name;
        relocation->at = *at;
        if (accept(p, "+"))
            relocation->addend = integer(p);
        relocation->next = v->relocations;
        v->relocations = relocation;
    } else {
        bits = (uint64_t)integer(p);
    }
    memcpy(v->init + *at, &bits, element > 8 ? 8 : element);
    *at += element;
}

// Parses what follows the state space: [.align n] .type name [dims] [= value]; leaves a ';' or ','
// after it unread.
static struct variable *parse_variable(struct parser *p, enum space space)
{
    struct variable *v = arena_alloc(&p->module->arena, sizeof *v);
    v->space = space;
    v->scope = p->scope;
    v->unit = p->unit;
    v->linkage = p->linkage;
    size_t element = 0;
    bool vector2 = false, vector4 = false, pointer = false;
    for (;;) {
        if (accept(p, ".align")) { // after .ptr: the alignment of what the parameter points to
            size_t align = size(p);
            if (!pointer)
                v->align = align;
            continue;
        }
        if (accept(p, ".ptr")) {
            pointer = true;
            continue;
        }
        if (accept(p, ".managed") || accept(p, ".global"))
            continue;
        if (accept(p, ".attribute")) {
            expect(p, "(");
            while (!accept(p, ")")) {
                if (p->token.kind == TOKEN_END)
                    fail(p, "an attribute without an end");
                advance(p);
            }
            continue;
        }
        if (accept(p, ".v2")) {
            vector2 = true;
            continue;
        }
        if (accept(p, ".v4")) {
            vector4 = true;
            continue;
        }
        if (p->token.kind != TOKEN_WORD || p->token.text[0] != '.')
            break;
        char *type = word(p, "a type");
        int bytes = type_bytes(type);
        if (bytes < 1 && !element)
            fail(p, "unknown type '%s' of a variable", type);
        if (bytes > 0)
            element = (size_t)bytes;
    }
    if (!element)
        fail(p, "a variable without a type");
    if (p->token.kind == TOKEN_WORD)
        v->name = word(p, "a variable");
    else
        v->name = "_"; // a parameter of a prototype, without a name
    v->size = element * (vector2 ? 2 : vector4 ? 4 : 1);
    if (!v->align)
        v->align = v->size;
    if (v->align & (v->align - 1))
        fail(p, "alignment %zu is no power of two", v->align);
    bool open_ended = false;
    while (accept(p, "[")) {
        if (accept(p, "]")) {
            open_ended = true;
            continue;
        }
        size_t count = size(p);
        if (count && v->size > ((size_t)1 << 40) / count)
            fail(p, "%s is too large", v->name);
        v->size *= count;
        expect(p, "]");
    }
    if (open_ended) {
        v->dynamic = true;
        v->size = 0;
    }
    if (accept(p, "=")) {
        if (!v->size)
            fail(p, "initial values of %s, which has no size", v->name);
        if (v->size > MOST_INITIALISED)
            fail(p, "initial values of %s, which has %zu bytes: at most %zu are taken", v->name,
                 v->size, MOST_INITIALISED);
        v->init = arena_alloc(&p->module->arena, v->size);
        size_t at = 0;
        parse_value(p, v, element, &at);
    }
    return v;
}

static void add_variable(struct parser *p, struct variable *v)
{
    struct function *f = p->function;
    struct module *m = p->module;
    if (f && v->space != SPACE_GLOBAL && v->space != SPACE_CONST) {
        f->variables = array_grow(f->variables, f->variable_count, &f->variable_capacity,
                                  sizeof *f->variables);
        f->variables[f->variable_count++] = v;
    } else {
        m->variables = array_grow(m->variables, m->variable_count, &m->variable_capacity,
                                  sizeof *m->variables);
        m->variables[m->variable_count++] = v;
    }
}

// Adds a .param variable. own: whether it is the current function's; name NULL: a name is made.
static const char *add_param(struct parser *p, const char *name, size_t bytes, bool own)
{
    struct variable *v = arena_alloc(&p->module->arena, sizeof *v);
    char text[64];

    int length = snprintf(text, sizeof text, "(register %zu)", p->function->variable_count);
    v->name = name ? name : arena_text(&p->module->arena, text, (size_t)length);
    v->space = SPACE_PARAM;
    v->size = v->align = bytes;
    v->is_param = own;
    v->scope = p->scope;
    v->unit = p->unit;
    add_variable(p, v);
    return v->name;
}

static bool parse_space(struct parser *p, enum space *space)
{
    static const struct {
        const char *name;
        enum space space;
    } spaces[] = {{".global", SPACE_GLOBAL},
                  {".shared", SPACE_SHARED},
                  {".local", SPACE_LOCAL},
                  {".param", SPACE_PARAM},
                  {".const", SPACE_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; ++i)
        if (accept(p, spaces[i].name)) {
            *space = spaces[i].space;
            return true;
        }
    return false;
}

static void parse_variables(struct parser *p, enum space space)
{
    do
        add_variable(p, parse_variable(p, space));
    while (accept(p, ","));
    expect(p, ";");
}

// ---- Directives ---------------------------------------------------------------------------------

// The byte at *at, which PTX may also write as \" or \\ or, in octal, \303. A letter after the
// backslash, as in \n, is a control character.
static char unescape(const char **at)
{
    const char *s = *at;
    int value = 0, digits = 0;
    if (*s == '\\')
        while (digits < 3 && s[1 + digits] >= '0' && s[1 + digits] <= '7')
            value = 8 * value + s[1 + digits++] - '0';
    *at += *s != '\\' ? 1 : digits ? 1 + digits : 2;
    if (*s != '\\')
        return *s;
    return digits ? (char)value : isalpha((unsigned char)s[1]) ? '\n' : s[1];
}

// Bytes of the UTF-8 character at the beginning of a text; 0: there is none, or it is a control
// character.
static size_t utf8_length(const char *text)
{
    static const uint32_t least[] = {0x20, 0xa0, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t more = (s[0] >= 0xc2) + (s[0] >= 0xe0) + (s[0] >= 0xf0);
    uint32_t c = more ? s[0] & 0x3f >> more : s[0];
    for (size_t i = 1; i <= more; ++i) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    bool invalid = (!more && c >= 0x7f) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
    return c < least[more] || s[0] > 0xf4 || invalid ? 0 : more + 1;
}

// A file's real name, for messages, for JSON, and for opening it. Characters that may not be in a
// line of text, such as control characters, become '?'.
static const char *file_name(struct parser *p)
{
    char *name = arena_alloc(&p->module->arena, p->token.length + 1), *end = name;
    for (const char *at = p->token.text; at < p->token.text + p->token.length;)
        *end++ = unescape(&at);
    for (char *at = name; at < end;) {
        size_t length = utf8_length(at);
        if (!length)
            *at = '?';
        at += length ? length : 1;
    }
    return name;
}

static void parse_file(struct parser *p)
{
    size_t number = size(p);
    if (p->token.kind != TOKEN_STRING || number > 1 << 16)
        fail(p, ".file needs a number and a name");
    struct module *m = p->module;
    if (number >= m->file_count) {
        const char **files = arena_alloc(&m->arena, (number + 16) * sizeof *files);
        if (m->file_count)
            memcpy(files, m->files, m->file_count * sizeof *files);
        m->files = files;
        m->file_count = number + 16;
    }
    m->files[number] = file_name(p);
    advance(p);
    while (accept(p, ","))
        integer(p);
}

static void parse_loc(struct parser *p)
{
    struct location l = {.parent = -1};
    l.file = (int)size(p);
    l.line = (int)size(p);
    l.column = (int)size(p);
    while (accept(p, ",")) {
        if (accept(p, "function_name")) {
            word(p, "a label");
            if (accept(p, "+"))
                integer(p);
        } else if (accept(p, "inlined_at")) {
            int file = (int)size(p), line = (int)size(p), column = (int)size(p);
            for (size_t i = p->location_count, tried = 0;
                 i-- > p->function_locations && tried < 10000; ++tried) {
                const struct location *other = &p->locations[i];
                if (other->file == file && other->line == line && other->column == column) {
                    l.parent = (int)i;
                    break;
                }
            }
            if (l.parent < 0) { // none of the function's last 10000 locations: adds it
                p->locations = array_grow(p->locations, p->location_count, &p->location_capacity,
                                          sizeof *p->locations);
                l.parent = (int)p->location_count;
                p->locations[p->location_count++] = (struct location){file, line, column, -1};
            }
        } else {
            word(p, "a .loc attribute");
        }
    }
    if (!l.line)
        return; // line 0 is the compiler's: the line before remains
    p->locations =
        array_grow(p->locations, p->location_count, &p->location_capacity, sizeof *p->locations);
    p->location = (int)p->location_count;
    p->locations[p->location_count++] = l;
}

// Whether a file is one of the toolkit's headers: /usr/local/cuda/…/include/cuda_fp16.hpp,
// …/site-packages/nvidia/cu13/include/….
static bool toolkit_header(const char *path)
{
    return strstr(path, "/include/") && (strstr(path, "/cuda/") || strstr(path, "/cuda-") ||
                                         strstr(path, "/targets/") || strstr(path, "/nvidia/"));
}

static bool library_header(const char *path)
{
    return (toolkit_header(path) && (strstr(path, "/cub/") || strstr(path, "/thrust/"))) ||
           strstr(path, "/cutlass/arch/memory_sm");
}

static const char *location_file(const struct parser *p, int location)
{
    const struct location *l = &p->locations[location];
    return (size_t)l->file < p->module->file_count ? p->module->files[l->file] : NULL;
}

// The calls by which a line is inlined, as the text source_line.callers: the innermost MOST calls
// outside the toolkit's headers; "": there are none.
static const char *callers_of(struct parser *p, int location)
{
    enum { MOST = 3 };
    char text[256] = "";
    size_t used = 0;
    int calls = 0;
    while ((location = p->locations[location].parent) >= 0 && calls < MOST) {
        const char *file = location_file(p, location);
        if (!file || toolkit_header(file))
            continue;
        int more =
            snprintf(text + used, sizeof text - used, "%s%s:%d", calls ? ", " : " (called at ",
                     source_path(file), p->locations[location].line);
        if (used + (size_t)more + 2 > sizeof text) {
            text[used] = 0; // the next call has no room
            break;
        }
        used += (size_t)more;
        calls++;
    }
    if (!calls)
        return "";
    text[used++] = ')';
    return arena_text(&p->module->arena, text, used);
}

// Chooses among a source line and the lines where its function is inlined: the innermost that is
// not in a header of the toolkit; if all are in such headers, the outermost.
static struct source_line user_line(struct parser *p, int location)
{
    struct source_line found = {"", 0, "", false};
    const char *innermost = location >= 0 ? location_file(p, location) : NULL;
    bool in_library = innermost && library_header(innermost);
    while (location >= 0) {
        const struct location *l = &p->locations[location];
        const char *file = location_file(p, location);
        if (!file)
            return found;
        found = (struct source_line){source_path(file), l->line, "", in_library};
        if (!toolkit_header(file)) {
            found.callers = callers_of(p, location);
            return found;
        }
        location = l->parent;
    }
    return found;
}

static void skip_braces(struct parser *p)
{
    expect(p, "{");
    for (int depth = 1; depth;) {
        if (p->token.kind == TOKEN_END)
            fail(p, "'{' without its '}'");
        if (is(p, "{"))
            depth++;
        else if (is(p, "}"))
            depth--;
        advance(p);
    }
}

static void parse_pragma(struct parser *p)
{
    while (!is(p, ";")) {
        if (p->token.kind == TOKEN_END)
            fail(p, ".pragma without its ';'");
        advance(p);
    }
    advance(p);
}

// Parses `name: .branchtargets a, b;`, `.calltargets f, g;`, `.callprototype (…) _ (…);`
static bool parse_label_directive(struct parser *p, const char *name)
{
    if (accept(p, ".callprototype")) {
        add_label(p, name, NULL, -1);
        parse_pragma(p);
        return true;
    }
    if (!accept(p, ".branchtargets") && !accept(p, ".calltargets"))
        return false;
    const char *targets[4096];
    int count = 0;
    do {
        if (count == 4096)
            fail(p, "more than 4096 branch targets");
        targets[count++] = word(p, "a target");
    } while (accept(p, ","));
    expect(p, ";");
    const char **copy = arena_alloc(&p->module->arena, (size_t)count * sizeof *copy);
    memcpy(copy, targets, (size_t)count * sizeof *copy);
    add_label(p, name, copy, count);
    return true;
}

static void parse_body(struct parser *p, int depth)
{
    if (depth > 64)
        fail(p, "scopes nested too deeply");
    struct function *f = p->function;
    size_t registers = p->register_count;
    int outer = depth ? p->scope : -1;
    f->outer = array_grow(f->outer, f->scope_count, &f->scope_capacity, sizeof *f->outer);
    p->scope = (int)f->scope_count++;
    f->outer[p->scope] = outer;
    while (!accept(p, "}")) {
        enum space space;
        if (p->token.kind == TOKEN_END)
            fail(p, "a body without its '}'");
        if (accept(p, "{")) {
            parse_body(p, depth + 1);
        } else if (accept(p, ".reg")) {
            parse_reg(p);
        } else if (parse_space(p, &space)) {
            parse_variables(p, space);
        } else if (accept(p, ".loc")) {
            parse_loc(p);
        } else if (accept(p, ".pragma")) {
            parse_pragma(p);
        } else if (is(p, "@")) {
            parse_instruction(p);
        } else if (p->token.kind == TOKEN_WORD) {
            const char *after = p->at;
            while (*after == ' ' || *after == '\t')
                after++;
            if (*after == ':') {
                char *name = word(p, "a label");
                expect(p, ":");
                if (!parse_label_directive(p, name))
                    add_label(p, name, NULL, 0);
            } else if (p->token.text[0] == '.') {
                fail(p, "directive '%.*s' is not supported here", (int)p->token.length,
                     p->token.text);
            } else {
                parse_instruction(p);
            }
        } else if (!accept(p, ";")) {
            fail(p, "'%.*s' where an instruction was expected", (int)p->token.length,
                 p->token.text);
        }
    }
    p->register_count = registers;
    p->scope = outer;
}

// Parses a parameter in a register: adds a .param variable whose value the body has in that
// register.
static void parse_register_parameter(struct parser *p, bool returned)
{
    char *type = word(p, "a register type");
    int bytes = type_bytes(type);

    if (p->function->is_kernel || (bytes != 2 && bytes != 4 && bytes != 8))
        fail(p, "a parameter of type '%s' in a register", type);
    const char *name = p->token.kind == TOKEN_WORD ? word(p, "a register name") : "_";
    add_register(p, name, new_register(p->function, bytes), 0, 0);
    p->reg_params = array_grow(p->reg_params, p->reg_param_count, &p->reg_param_capacity,
                               sizeof *p->reg_params);
    p->reg_params[p->reg_param_count++] = (struct register_parameter){
        add_param(p, NULL, (size_t)bytes, true), (int)p->function->reg_count - 1, returned};
}

// Parses (.param .b32 a, .reg .b32 b), and appends them to the function's variables; returns how
// many.
static int parse_parameters(struct parser *p, bool returned)
{
    int count = 0;
    expect(p, "(");
    while (!is(p, ")")) {
        if (accept(p, ".reg")) {
            parse_register_parameter(p, returned);
            count++;
            if (!accept(p, ","))
                break;
            continue;
        }
        expect(p, ".param");
        struct variable *v = parse_variable(p, SPACE_PARAM);
        v->is_param = true;
        add_variable(p, v);
        count++;
        if (!accept(p, ","))
            break;
    }
    expect(p, ")");
    return count;
}

static void parse_function(struct parser *p, bool is_kernel)
{
    struct module *m = p->module;
    struct function *f = arena_alloc(&m->arena, sizeof *f);
    f->module = m;
    f->unit = p->unit;
    f->linkage = p->linkage;
    f->is_kernel = is_kernel;
    f->max_threads = 1024;
    p->function = f;
    p->register_count = p->reg_param_count = 0;
    p->function_locations = p->location_count;
    p->location = -1;
    p->scope = 0; // the scope of parameters, too
    m->functions =
        array_grow(m->functions, m->function_count, &m->function_capacity, sizeof *m->functions);
    m->functions[m->function_count++] = f;
    if (!is_kernel && is(p, "("))
        f->returns = parse_parameters(p, true);
    f->name = word(p, "a function's name");
    if (is(p, "("))
        f->params = parse_parameters(p, false);
    for (;;) {
        if (accept(p, ".maxntid") || accept(p, ".reqntid")) {
            int64_t threads = 1;
            do {
                int64_t size = integer(p);
                if (size < 1 || size > 1024 || threads * size > 1024)
                    fail(p, "%lld x %lld threads a CTA: 1 to 1024 are possible", (long long)threads,
                         (long long)size);
                threads *= size;
            } while (accept(p, ","));
            f->max_threads = (int)threads;
            f->bounded = true;
        } else if (accept(p, ".maxnreg")) {
            int64_t most = integer(p);
            f->most_registers = most > 0 && most < 256 ? (int)most : 0;
        } else if (accept(p, ".minnctapersm") || accept(p, ".maxnctapersm") ||
                   accept(p, ".maxclusterrank")) {
            integer(p);
        } else if (accept(p, ".reqnctapercluster")) {
            int sides = 0;
            f->cluster[1] = f->cluster[2] = 1;
            do {
                int64_t size = integer(p);
                if (size < 1 || size > MOST_CLUSTER || sides == 3)
                    fail(p, "a cluster of %lld CTAs", (long long)size);
                f->cluster[sides++] = (unsigned)size;
            } while (accept(p, ","));
        } else if (accept(p, ".noreturn") || accept(p, ".explicitcluster")) {
            continue;
        } else if (accept(p, ".pragma")) {
            parse_pragma(p);
        } else {
            break;
        }
    }
    if (accept(p, "{")) {
        f->has_body = true;
        load_taken(p);
        parse_body(p, 0);
    } else {
        expect(p, ";");
    }
    p->function = NULL;
}

static void parse_alias(struct parser *p)
{
    struct module *m = p->module;
    struct alias alias = {.name = word(p, "an alias"), .unit = p->unit};
    expect(p, ",");
    alias.of = word(p, "a function's name");
    expect(p, ";");
    m->aliases = array_grow(m->aliases, m->alias_count, &m->alias_capacity, sizeof *m->aliases);
    m->aliases[m->alias_count++] = alias;
}

static void parse_module(struct parser *p)
{
    advance(p);
    if (!accept(p, ".version"))
        fail(p, "'%.*s' where '.version' was expected: not a PTX text", (int)p->token.length,
             p->token.text);
    advance(p);
    while (p->token.kind != TOKEN_END) {
        enum space space;
        if (accept(p, ".target")) {
            do {
                const char *target = word(p, "a target"); // or an option, such as debug
                if (!strncmp(target, "sm_", 3))
                    p->module->arch = atoi(target + 3);
            } while (accept(p, ","));
        } else if (accept(p, ".address_size")) {
            if (integer(p) != 64)
                fail(p, "only 64-bit addresses are supported");
        } else if (accept(p, ".file")) {
            parse_file(p);
        } else if (accept(p, ".section")) {
            word(p, "a section's name");
            skip_braces(p);
        } else if (accept(p, ".loc")) {
            parse_loc(p);
        } else if (accept(p, ".pragma")) {
            parse_pragma(p);
        } else if (accept(p, ".alias")) {
            parse_alias(p);
        } else if (accept(p, ".extern")) {
            p->linkage = LINK_EXTERN;
            continue;
        } else if (accept(p, ".visible") || accept(p, ".weak") || accept(p, ".common")) {
            p->linkage = LINK_GLOBAL;
            continue;
        } else if (accept(p, ";")) {
            continue;
        } else if (accept(p, ".entry")) {
            parse_function(p, true);
        } else if (accept(p, ".func")) {
            parse_function(p, false);
        } else if (parse_space(p, &space)) {
            parse_variables(p, space);
        } else {
            fail(p, "'%.*s' where a directive was expected", (int)p->token.length, p->token.text);
        }
        p->linkage = LINK_LOCAL;
    }
}

// ---- Modules ------------------------------------------------------------------------------------

// How well a definition or declaration fits a name used in a text: 0: not at all; the highest
// number wins, and among equals the first.
static int fits(int unit, int its_unit, enum linkage linkage, bool defined)
{
    if (linkage == LINK_LOCAL && defined)
        return unit == its_unit ? 3 : 0;
    return defined ? 2 : 1;
}

struct function *module_function(struct module *module, int unit, const char *name)
{
    struct function *best = NULL;
    for (size_t i = 0, most = 0; i < module->function_count; ++i) {
        struct function *f = module->functions[i];
        bool defined = f->has_body || f->alias;
        size_t fit = strcmp(f->name, name) ? 0 : (size_t)fits(unit, f->unit, f->linkage, defined);
        if (fit > most) {
            most = fit;
            best = f;
        }
    }
    return best && best->alias ? best->alias : best;
}

// The function called `name` in text number `unit`, with a body if `defined`, otherwise without;
// NULL: there is none.
static struct function *in_text(struct module *m, int unit, const char *name, bool defined)
{
    for (size_t i = 0; i < m->function_count; ++i) {
        struct function *f = m->functions[i];
        if (f->unit == unit && f->has_body == defined && !f->is_kernel && !strcmp(f->name, name))
            return f;
    }
    return NULL;
}

// Resolves PTX's .alias: a declared name for a function that the same text defines. Returns false,
// with what is wrong in `why`, on an error.
static bool resolve_aliases(struct module *m, char *why, size_t size)
{
    for (size_t i = 0; i < m->alias_count; ++i) {
        const struct alias *a = &m->aliases[i];
        struct function *declared = in_text(m, a->unit, a->name, false);
        struct function *of = in_text(m, a->unit, a->of, true);
        bool twice = in_text(m, a->unit, a->name, true) || (declared && declared->alias);
        if (!declared || !of || twice || declared->params != of->params ||
            declared->returns != of->returns) {
            snprintf(
                why, size,
                ".alias %s, %s: it wants a function that is declared once, without a body, and "
                "one with a body and the same parameters",
                a->name, a->of);
            return false;
        }
        for (size_t k = 0; k < m->function_count; ++k) // every declaration of the name
            if (m->functions[k]->unit == a->unit && !strcmp(m->functions[k]->name, a->name))
                m->functions[k]->alias = of;
    }
    return true;
}

const char *module_missing(struct module *module, size_t index)
{
    for (size_t i = 0; i < module->function_count; ++i) {
        const struct function *f = module->functions[i];
        const struct function *found = module_function(module, f->unit, f->name);
        if (!f->has_body && !found->has_body && index-- == 0)
            return f->name;
    }
    return NULL;
}

struct variable *module_variable(struct module *module, int unit, const char *name)
{
    struct variable *best = NULL;
    for (size_t i = 0, most = 0; i < module->variable_count; ++i) {
        struct variable *v = module->variables[i];
        bool defined = v->linkage != LINK_EXTERN;
        size_t fit = strcmp(v->name, name) ? 0 : (size_t)fits(unit, v->unit, v->linkage, defined);
        if (fit > most) {
            most = fit;
            best = v;
        }
    }
    return best;
}

struct variable *function_variable(const struct function *function, int scope, const char *name)
{
    for (; scope >= 0; scope = function->outer ? function->outer[scope] : -1)
        for (size_t i = 0; i < function->variable_count; ++i)
            if (function->variables[i]->scope == scope &&
                !strcmp(function->variables[i]->name, name))
                return function->variables[i];
    return NULL;
}

const struct label *function_label(const struct function *function, int scope, const char *name)
{
    for (; scope >= 0; scope = function->outer ? function->outer[scope] : -1)
        for (size_t i = 0; i < function->label_count; ++i)
            if (function->labels[i].scope == scope && !strcmp(function->labels[i].name, name))
                return &function->labels[i];
    return NULL;
}

static size_t align_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

// Fills in a kernel's description; its parameters follow one another in the parameter buffer.
static void describe_kernel(struct module *m, struct kernel *kernel, struct function *f)
{
    kernel->function = f;
    struct kernel_info *info = &kernel->info;
    info->name = f->name;
    info->params = f->params;
    info->max_threads = f->max_threads;
    memcpy(info->cluster, f->cluster, sizeof info->cluster);
    info->bounded = f->bounded;
    info->most_registers = f->most_registers;
    size_t *offsets = arena_alloc(&m->arena, (size_t)(f->params + 1) * sizeof *offsets);
    size_t *sizes = arena_alloc(&m->arena, (size_t)(f->params + 1) * sizeof *sizes);
    for (int i = 0; i < f->params; ++i) {
        struct variable *v = f->variables[i];
        v->offset = info->param_bytes = align_up(info->param_bytes, v->align);
        offsets[i] = v->offset;
        sizes[i] = v->size;
        info->param_bytes += v->size;
    }
    info->param_offsets = offsets;
    info->param_sizes = sizes;
    // Places the kernel's own shared and local variables; decode/ places those of called functions
    // after them.
    for (size_t i = (size_t)f->params; i < f->variable_count; ++i) {
        struct variable *v = f->variables[i];
        size_t *bytes = v->space == SPACE_SHARED  ? &info->static_shared_bytes
                        : v->space == SPACE_LOCAL ? &info->local_bytes
                                                  : NULL;
        if (!bytes || v->dynamic)
            continue;
        v->offset = *bytes = align_up(*bytes, v->align);
        *bytes += v->size;
    }
}

static bool operand_is_shared(struct module *m, const struct function *f, int scope,
                              const struct operand *o)
{
    bool found = false;
    for (int i = 0; o->kind == OPERAND_VECTOR && i < o->count; ++i)
        found |= operand_is_shared(m, f, scope, &o->elements[i]);
    if (!o->name || function_variable(f, scope, o->name))
        return found;
    const struct variable *v = module_variable(m, f->unit, o->name);
    return found || (v && v->space == SPACE_SHARED && !v->dynamic);
}

// Whether a function uses a shared variable of the module or, if `calls`, calls any function.
static bool names_shared(struct module *m, const struct function *f, bool calls)
{
    for (size_t i = 0; i < f->insn_count; ++i) {
        const struct insn *insn = &f->insns[i];
        if (calls && !strncmp(insn->opcode, "call", 4))
            return true;
        for (int k = 0; k < insn->count; ++k)
            if (operand_is_shared(m, f, insn->scope, &insn->operands[k]))
                return true;
    }
    return false;
}

// Places the shared variables of the module before all others, in each kernel that may use one of
// them, itself or in a function that it calls. Other kernels do not have them.
static void place_shared(struct module *m, size_t shared)
{
    bool called = false;
    for (size_t i = 0; i < m->function_count; ++i)
        called |= !m->functions[i]->is_kernel && names_shared(m, m->functions[i], false);
    for (size_t i = 0; i < m->kernel_count; ++i) {
        struct function *f = m->kernels[i].function;
        size_t *own = &m->kernels[i].info.static_shared_bytes;
        if (!names_shared(m, f, called))
            continue;
        for (size_t j = 0; j < f->variable_count; ++j)
            if (f->variables[j]->space == SPACE_SHARED)
                f->variables[j]->offset += align_up(shared, 128);
        *own = *own ? *own + align_up(shared, 128) : shared;
    }
}

enum { CONSTANT_MOST = 64 << 10 }; // bytes of constant memory (CUDA C++ Programming Guide)

// Gives every .global and .const variable memory, writes the initial values there, and places the
// module's shared variables. Returns false, with what is wrong in `why`, on an error.
static bool place_variables(struct module *m, char *why, size_t size)
{
    size_t shared = 0, constants = 0;
    for (size_t i = 0; i < m->variable_count; ++i) {
        struct variable *v = m->variables[i];
        if (v->space == SPACE_CONST && v->linkage != LINK_EXTERN)
            constants = align_up(constants, v->align) + v->size;
        if (v->space == SPACE_SHARED && !v->dynamic) {
            v->offset = shared = align_up(shared, v->align);
            shared += v->size;
        }
        if ((v->space != SPACE_GLOBAL && v->space != SPACE_CONST) || v->linkage == LINK_EXTERN)
            continue;
        size_t bytes = v->size ? v->size : 1;
        v->address = memory_alloc_zeros(bytes);
        if (!v->address) {
            snprintf(why, size, "no memory for the %zu bytes of %s", v->size, v->name);
            return false;
        }
        if (v->init)
            memcpy(v->address, v->init, v->size);
    }
    if (constants > CONSTANT_MOST) {
        snprintf(why, size, "the program's __constant__ variables take %zu bytes, and there are %d",
                 constants, CONSTANT_MOST);
        return false;
    }
    for (size_t i = 0; i < m->variable_count; ++i) {
        struct variable *v = m->variables[i];
        for (struct relocation *r = v->address ? v->relocations : NULL; r; r = r->next) {
            const struct variable *to = module_variable(m, v->unit, r->name);
            uint64_t value = 0;
            if (to && to->address) {
                value = (uint64_t)(uintptr_t)to->address;
            } else {
                for (size_t j = 0; j < m->function_count; ++j)
                    if (m->functions[j] == module_function(m, v->unit, r->name))
                        value = CODE_WINDOW + j;
            }
            if (!value || !within(r->at, 8, v->size)) {
                snprintf(why, size, "the initial value of %s names '%s'", v->name, r->name);
                return false;
            }
            value += (uint64_t)r->addend;
            memcpy((char *)v->address + r->at, &value, 8);
        }
    }
    if (shared)
        place_shared(m, shared);
    return true;
}

void module_drop(struct module *module)
{
    for (size_t i = 0; i < module->variable_count; ++i)
        if (module->variables[i]->address)
            memory_free(module->variables[i]->address);
    for (size_t i = 0; i < module->function_count; ++i) {
        free(module->functions[i]->regs);
        free(module->functions[i]->insns);
        free(module->functions[i]->labels);
        free(module->functions[i]->outer);
        free(module->functions[i]->variables);
    }
    free(module->functions);
    free(module->aliases);
    free(module->variables);
    arena_free(&module->arena);
    free(module);
}

// Parses one text into the module; returns false, with what is wrong in `why`, on an error.
static bool parse_text(struct parser *p, const char *ptx)
{
    struct module *m = p->module;
    size_t first = m->function_count;
    p->at = ptx;
    p->line = 1;
    p->unit = m->units++;
    p->linkage = LINK_LOCAL;
    p->location_count = m->file_count = 0; // each text numbers these from the beginning
    if (setjmp(p->failed))
        return false;
    parse_module(p);
    for (size_t i = first; i < m->function_count; ++i) {
        struct function *f = m->functions[i];
        for (size_t j = 0; j < f->insn_count; ++j)
            f->insns[j].at = user_line(p, f->insns[j].at.line);
        m->kernel_count += f->is_kernel && f->has_body;
    }
    return true;
}

struct module *module_link(char *const *texts, size_t count, char *why, size_t size)
{
    struct module *m = checked_alloc(calloc(1, sizeof *m));
    struct parser *p = checked_alloc(calloc(1, sizeof *p));
    p->module = m;
    p->why = why;
    p->why_size = size;
    bool good = true;
    for (size_t i = 0; i < count && good; ++i)
        good = parse_text(p, texts[i]);
    free(p->registers);
    free(p->reg_params);
    free(p->locations);
    free(p);
    if (good && (good = resolve_aliases(m, why, size))) {
        m->kernels = arena_alloc(&m->arena, (m->kernel_count + 1) * sizeof *m->kernels);
        size_t at = 0;
        for (size_t i = 0; i < m->function_count; ++i)
            if (m->functions[i]->is_kernel && m->functions[i]->has_body)
                describe_kernel(m, &m->kernels[at++], m->functions[i]);
        good = place_variables(m, why, size);
    }
    if (!good) {
        module_drop(m);
        return NULL;
    }
    return m;
}

struct module *module_parse(const char *ptx, char *why, size_t size)
{
    char *text = (char *)(uintptr_t)ptx;
    return module_link(&text, 1, why, size);
}

struct kernel *module_kernel(struct module *module, const char *mangled_name)
{
    for (size_t i = 0; i < module->kernel_count; ++i)
        if (!strcmp(module->kernels[i].info.name, mangled_name))
            return &module->kernels[i];
    return NULL;
}

struct kernel *module_kernel_at(struct module *module, size_t i)
{
    return i < module->kernel_count ? &module->kernels[i] : NULL;
}

bool module_symbol(struct module *module, const char *name, void **address, size_t *size)
{
    const struct variable *v = NULL; // the variable in the first text that defines it
    for (int unit = 0; unit < module->units && !(v && v->address); ++unit)
        v = module_variable(module, unit, name);
    if (!v || !v->address)
        return false;
    *address = v->address;
    *size = v->size;
    return true;
}

const struct kernel_info *kernel_info(const struct kernel *kernel)
{
    return &kernel->info;
}

void kernel_base_name(const char *mangled, char *name, size_t size)
{
    // In _Z4nameI…E… or _ZN5outer4nameE…, each name follows its length: finds the last name
    // before the arguments.
    const char *at = mangled, *best = mangled;
    size_t length = strlen(mangled);
    if (!strncmp(at, "_Z", 2)) {
        at += 2;
        bool nested = *at == 'N';
        at += nested;
        while (*at == 'K' || *at == 'L')
            at++;
        while (isdigit((unsigned char)*at)) {
            char *end;
            unsigned long count = strtoul(at, &end, 10);
            if (!count || count > strlen(end))
                break;
            best = end;
            length = count;
            at = end + count;
            if (!nested)
                break;
        }
    }
    snprintf(name, size, "%.*s", (int)length, best);
}
