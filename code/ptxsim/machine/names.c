// names.c: names of instructions, variables, shared addresses and kinds of faults in messages to
// the user.
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_place insn_place(const struct program *program, uint32_t insn)
{
    const struct insn_info *info = &program->insns[insn];
    if (!info->at.line)
        return (struct fault_place){.ptx_line = info->ptx_line, .callers = ""};
    return (struct fault_place){
        .file = info->at.file, .line = info->at.line, .callers = info->at.callers};
}

const char *insn_line(const struct program *program, uint32_t insn, char *text, size_t size)
{
    const struct fault_place p = insn_place(program, insn);
    if (p.file)
        snprintf(text, size, "%s:%d%s", p.file, p.line, p.callers);
    else
        snprintf(text, size, "PTX line %d", p.ptx_line);
    return text;
}

void write_callers(FILE *file, const char *callers)
{
    const char *comma = "";
    size_t length;
    fputc('[', file);
    for (const char *at = callers; (at = next_caller(at, &length)); at += length, comma = ",") {
        char place[256];
        snprintf(place, sizeof place, "%.*s", (int)length, at);
        fputs(comma, file);
        write_string(file, place);
    }
    fputc(']', file);
}

void variable_name(const struct variable *v, char *text, size_t size)
{
    // Finds the last component of a mangled name: a component is its length in digits, then its
    // text.
    const char *name = v->name, *end = name + strlen(name);
    for (const char *p = end; p-- > name;)
        if (p[0] >= '1' && p[0] <= '9') {
            char *rest;
            unsigned long length = strtoul(p, &rest, 10);
            if (rest + length == end && rest < end)
                name = rest;
        }
    snprintf(text, size, "%.40s", name);
}

const char *shared_name(const struct program *program, uint32_t at, char *text, size_t size)
{
    const struct function *f = program->kernel->function;
    const struct module *m = f->module;
    text[0] = 0;
    for (int which = 0; which < 2; ++which) {
        size_t count = which ? m->variable_count : f->variable_count;
        for (size_t i = 0; i < count; ++i) {
            const struct variable *v = which ? m->variables[i] : f->variables[i];
            if (v->space != SPACE_SHARED || v->dynamic || at < v->offset ||
                at - v->offset >= v->size)
                continue;
            char name[48];
            variable_name(v, name, sizeof name);
            snprintf(text, size, " (%s + %u)", name, at - (uint32_t)v->offset);
            return text;
        }
    }
    return text;
}

const char *fault_kind_name(enum fault_kind kind)
{
    static const char *const names[] = {[FAULT_NONE] = "",
                                        [FAULT_UNSUPPORTED] = "unsupported",
                                        [FAULT_OUT_OF_BOUNDS] = "out of bounds",
                                        [FAULT_MISALIGNED] = "misaligned",
                                        [FAULT_UNINITIALISED] = "uninitialised",
                                        [FAULT_RACE] = "race",
                                        [FAULT_DEADLOCK] = "deadlock",
                                        [FAULT_ENDLESS] = "endless",
                                        [FAULT_INTERRUPTED] = "interrupted",
                                        [FAULT_DIVERGENT_BARRIER] = "divergent barrier",
                                        [FAULT_TRAP] = "trap",
                                        [FAULT_ASSERT] = "assert",
                                        [FAULT_INTERNAL] = "internal",
                                        [FAULT_COPY] = "copy",
                                        [FAULT_FREE] = "free",
                                        [FAULT_ORDER] = "order"};
    return names[kind];
}
