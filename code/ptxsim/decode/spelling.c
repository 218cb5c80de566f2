// spelling.c: reads modifiers, type and space of an opcode that opcodes.c has taken apart.
#include "internal.h"

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

bool is_store(const struct decoder *d)
{
    return d->spelling->opcode->op_class == CLASS_STORE;
}

bool is_wgmma(const struct spelling *s)
{
    enum family family = s->opcode->family;
    return family == FAMILY_WGMMA || family == FAMILY_WGMMA_GROUP || family == FAMILY_WGMMA_FENCE;
}

enum space memory_space(const struct decoder *d)
{
    return has(d, MOD_global)                                                       ? SPACE_GLOBAL
           : has(d, MOD_shared) || has(d, MOD_shared_cta)                           ? SPACE_SHARED
           : has(d, MOD_shared_cluster)                                             ? SPACE_SHARED
           : has(d, MOD_local)                                                      ? SPACE_LOCAL
           : has(d, MOD_param) || has(d, MOD_param_entry) || has(d, MOD_param_func) ? SPACE_PARAM
           : has(d, MOD_const)                                                      ? SPACE_CONST
                                                                                    : SPACE_GENERIC;
}
