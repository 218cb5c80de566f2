// fault.c: a fault of a kernel: what is known about it, its text, and both as JSON.
#include "film.h"

#include <stdio.h>
#include <string.h>

struct fault fault_of(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
                      const char *format, va_list arguments)
{
    const struct cta *cta = w->cta;
    struct fault f = {.kind = kind};
    char where[544] = "";
    kernel_base_name(cta->program->kernel->info.name, f.kernel, sizeof f.kernel);
    if (op) {
        f.at = insn_place(cta->program, op->insn);
        insn_line(cta->program, op->insn, where, sizeof where);
    }
    f.at.by_thread = true;
    memcpy(f.at.block, cta->index, sizeof f.at.block);
    for (int i = 0; i < 3; ++i)
        f.at.thread[i] = w->tid[i][lane];
    if (kind != FAULT_ASSERT) // an assertion's line is worded as on a GPU
        f.what = (size_t)snprintf(f.text, sizeof f.text,
                                  "%s%s%s, block (%u,%u,%u), thread (%u,%u,%u): ", f.kernel,
                                  op ? ", " : "", where, f.at.block[0], f.at.block[1],
                                  f.at.block[2], f.at.thread[0], f.at.thread[1], f.at.thread[2]);
    vsnprintf(f.text + f.what, sizeof f.text - f.what, format, arguments);
    return f;
}

void fault_at(struct warp *w, const struct op *op, int lane, enum fault_kind kind,
              const char *format, ...)
{
    struct cta *cta = w->cta;
    if (cta->faulted)
        return;
    cta->faulted = true;
    va_list arguments;
    va_start(arguments, format);
    cta->fault = fault_of(w, op, lane, kind, format, arguments);
    va_end(arguments);
    if (cta->film)
        film_fault(cta->film, &cta->fault, w, lane, op ? op->insn : UINT32_MAX, UINT32_MAX);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void write_three(FILE *file, const char *key, const unsigned of[3])
{
    fprintf(file, "%s\":[%u,%u,%u]", key, of[0], of[1], of[2]);
}

static void write_line(FILE *file, const struct fault_place *p)
{
    if (p->file) {
        fputs(",\"file\":", file);
        write_string(file, p->file);
        fprintf(file, ",\"line\":%d,\"callers\":", p->line);
        write_callers(file, p->callers);
    } else if (p->ptx_line) {
        fprintf(file, ",\"ptx_line\":%d", p->ptx_line);
    }
}

void fault_write(FILE *file, const struct fault *f)
{
    const struct fault_place *at = &f->at, *other = &f->other;
    fprintf(file, "{\"kind\":\"%s\"", fault_kind_name(f->kind));
    if (f->kernel[0]) {
        fputs(",\"kernel\":", file);
        write_string(file, f->kernel);
    }
    write_line(file, at);
    if (at->by_thread) {
        write_three(file, ",\"block", at->block);
        write_three(file, ",\"thread", at->thread);
    }
    if (other->by_thread) {
        write_three(file, ",\"other\":{\"thread", other->thread);
        if (memcmp(other->block, at->block, sizeof at->block) != 0)
            write_three(file, ",\"block", other->block);
        write_line(file, other);
        fputc('}', file);
    }
    fputs(",\"what\":", file);
    write_string(file, f->text + f->what);
    fputs(",\"text\":", file);
    write_string(file, f->text);
    fputc('}', file);
}
