// opcodes.c: an instruction's opcode taken apart into its row of opcodes.def and its modifiers, and
// what follows from them: the decoder, the class that it is counted in (PTX ISA, "Instruction
// Statements" and "Instruction Set").
#include "internal.h"

#include <string.h>

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

const struct spelling *spelling_of(const struct decoder *d, const struct insn *insn)
{
    return d->spelled[insn - d->function->insns];
}

enum modifier modifier_at(const struct decoder *d, int index)
{
    return index >= 0 && index < d->spelling->count ? d->spelling->modifier[index] : MOD_NONE;
}

enum modifier last_modifier(const struct decoder *d)
{
    return modifier_at(d, d->spelling->count - 1);
}

bool is_signed(const struct decoder *d)
{
    return modifier_names[last_modifier(d)][0] == 's';
}

// ---- What an instruction is ---------------------------------------------------------------------

bool is_store(const struct decoder *d)
{
    return d->spelling->opcode->op_class == CLASS_STORE;
}

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
