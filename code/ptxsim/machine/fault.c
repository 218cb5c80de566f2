// fault.c: the text of a fault: kernel, source line, block, thread, and what happened.
#include "film.h"

#include <stdio.h>

size_t fault_text(char *text, size_t size, struct warp *w, const struct op *op, int lane,
                  const char *format, va_list arguments)
{
    const struct cta *cta = w->cta;
    char name[128];
    kernel_base_name(cta->program->kernel->info.name, name, sizeof name);
    char where[544] = "";
    if (op)
        insn_line(cta->program, op->insn, where, sizeof where);
    int used = snprintf(text, size, "%s%s%s, block (%u,%u,%u), thread (%u,%u,%u): ", name,
                        op ? ", " : "", where, cta->index[0], cta->index[1], cta->index[2],
                        w->tid[0][lane], w->tid[1][lane], w->tid[2][lane]);
    size_t prefix = used < 0 ? 0 : (size_t)used < size ? (size_t)used : size - 1;
    vsnprintf(text + prefix, size - prefix, format, arguments);
    return prefix;
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
