// fault.c: the text of a fault: kernel, source line, block, thread, and what happened.
#include "film.h"

#include <stdio.h>

void fault_text(char *text, size_t size, struct warp *w, const struct op *op, int lane,
                const char *format, va_list arguments)
{
    const struct cta *cta = w->cta;
    char name[128];
    kernel_base_name(cta->program->kernel->info.name, name, sizeof name);
    const struct insn_info *insn = op ? &cta->program->insns[op->insn] : NULL;
    char where[544] = "";
    if (insn && insn->at.line)
        snprintf(where, sizeof where, ", %s:%d%s", insn->at.file, insn->at.line, insn->at.callers);
    else if (insn)
        snprintf(where, sizeof where, ", PTX line %d", insn->ptx_line);
    int used = snprintf(text, size, "%s%s, block (%u,%u,%u), thread (%u,%u,%u): ", name, where,
                        cta->index[0], cta->index[1], cta->index[2], w->tid[0][lane],
                        w->tid[1][lane], w->tid[2][lane]);
    if (used > 0 && (size_t)used < size)
        vsnprintf(text + used, size - (size_t)used, format, arguments);
}

void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...)
{
    struct cta *cta = w->cta;
    if (cta->faulted)
        return;
    cta->faulted = true;
    cta->fault.kind = kind;
    va_list arguments;
    va_start(arguments, format);
    fault_text(cta->fault.text, sizeof cta->fault.text, w, op, lane, format, arguments);
    va_end(arguments);
    if (cta->film)
        film_fault(cta->film, kind, w, lane, op ? op->insn : UINT32_MAX, UINT32_MAX,
                   cta->fault.text);
}
