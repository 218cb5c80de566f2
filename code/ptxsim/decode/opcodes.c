// opcodes.c: takes an opcode apart into its row of opcodes.def and its modifiers, which determine
// the decoder and the class that the instruction counts in (PTX ISA, "Instruction Statements" and
// "Instruction Set").
#include "internal.h"

#include <string.h>

// ---- Rows ---------------------------------------------------------------------------------------

static const struct opcode opcodes[] = {
#define OPCODE(text, how, class, control, result, family)                                          \
    {text, decode_##how, CLASS_##class, CONTROL_##control, RESULT_##result, FAMILY_##family},
#include "opcodes.def"
#undef OPCODE
};

#pragma weak extra_instructions
// The row of that name, NULL if there is none.
static const struct opcode *row_named(const char *text, size_t length)
{
    static struct names names = {
        .list = opcodes, .row = sizeof *opcodes, .count = sizeof opcodes / sizeof opcodes[0]};
    static struct names more = {.row = sizeof *opcodes};
    int row = find_name(&names, text, length);
    if (row >= 0 || !&extra_instructions)
        return row >= 0 ? &opcodes[row] : NULL;
    more.list = extra_instructions.opcodes;
    more.count = extra_instructions.opcode_count;
    row = find_name(&more, text, length);
    return row >= 0 ? &extra_instructions.opcodes[row] : NULL;
}

const struct opcode *opcode_find(const char *text)
{
    static const struct opcode unknown = {
        .name = "", .decode = decode_unknown, .op_class = CLASS_INT};
    const struct opcode *found = &unknown;
    for (size_t length = 1; text[length - 1]; ++length) {
        const struct opcode *row = NULL;
        if (!text[length] || text[length] == '.')
            row = row_named(text, length);
        if (row)
            found = row; // go on: a longer name may match
    }
    return found;
}

// ---- Spellings ----------------------------------------------------------------------------------

static uint32_t hash_opcode(const char *text)
{
    uint32_t hash = 0;
    for (; *text; ++text)
        hash = hash * 31 + (uint8_t)*text;
    return hash % SPELLINGS;
}

static struct spelling *new_spelling(struct decoder *d, const struct insn *insn)
{
    struct spelling *s = arena_alloc(&d->temporary, sizeof *s);
    char *at = arena_text(&d->temporary, insn->opcode, strlen(insn->opcode));
    s->text = insn->opcode;
    s->opcode = opcode_find(insn->opcode);
    s->base = at;
    while ((at = strchr(at, '.'))) {
        *at++ = 0;
        if (!*at)
            break;
        if (s->count == MOST_MODIFIERS) {
            d->insn = insn;
            unsupported(d);
        }
        s->word[s->count++] = at;
    }
    for (int i = 0; i < s->count; ++i) {
        enum modifier m = s->modifier[i] = modifier_find(s->word[i]);
        if (m)
            s->set[m / 64] |= UINT64_C(1) << m % 64;
    }
    return s;
}

const struct spelling *spell(struct decoder *d, const struct insn *insn)
{
    struct spelling **list = &d->spellings[hash_opcode(insn->opcode)];
    for (struct spelling *s = *list; s; s = s->next)
        if (!strcmp(s->text, insn->opcode))
            return s;
    struct spelling *s = new_spelling(d, insn);
    s->next = *list;
    return *list = s;
}

void spell_function(struct decoder *d)
{
    const struct function *f = d->function;
    d->spelled = arena_alloc(&d->temporary, (f->insn_count + 1) * sizeof *d->spelled);
    for (size_t i = 0; i < f->insn_count; ++i)
        d->spelled[i] = spell(d, &f->insns[i]);
}

// ---- The class of an instruction ----------------------------------------------------------------

static enum op_class class_of_access(const struct decoder *d)
{
    bool store = is_store(d);
    switch (memory_space(d)) {
    case SPACE_SHARED: return store ? CLASS_SHARED_STORE : CLASS_SHARED_LOAD;
    case SPACE_LOCAL: return CLASS_LOCAL;
    case SPACE_PARAM: return d->function->is_kernel ? CLASS_CONST : CLASS_LOCAL;
    case SPACE_CONST: return CLASS_CONST;
    default: return store ? CLASS_GLOBAL_STORE : CLASS_GLOBAL_LOAD;
    }
}

enum op_class classify(const struct decoder *d)
{
    unsigned class = d->spelling->opcode->op_class;
    if (class == CLASS_BY_TYPE)
        return modifier_types[last_modifier(d)].op_class;
    return class == CLASS_LOAD || class == CLASS_STORE ? class_of_access(d) : class;
}

void decode_unknown(struct decoder *d)
{
    unsupported(d);
}

void decode_insn(struct decoder *d)
{
    d->scratch_used = 0;
    d->spelling->opcode->decode(d);
}
