// ptx.h: the kernels of ptx/*.ptx. "control.loops" is the kernel `loops` of control.ptx, with all text between the
// previous kernel and this one (functions, variables, comments); "frame.frame" is the text around every kernel.
#ifndef PTX_H
#define PTX_H

#include "ptxsim/exec/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PTX_BYTES = 1 << 16, PTX_HOLES = 5 };

static const char *ptx_kernel(const char *name)
{
    return strchr(name, '.') + 1;
}

// Reads the text of the file in which the kernel is; the tests run at the root of the tree.
static void ptx_read(const char *name, char text[PTX_BYTES])
{
    char path[128];
    snprintf(path, sizeof path, "code/ptxsim/test/ptx/%.*s.ptx", (int)strcspn(name, "."), name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read; tests run at the root of the tree", path);
    text[fread(text, 1, PTX_BYTES - 1, file)] = 0;
    fclose(file);
}

// Reads the kernel's part of its file: a part ends at the first line after an .entry that is "}".
static void ptx_section(const char *name, char text[PTX_BYTES])
{
    char entry[64], *start = text, *next, *end;
    snprintf(entry, sizeof entry, ".entry %s(", ptx_kernel(name));
    ptx_read(name, text);
    for (; (next = strstr(start, ".entry ")) && (end = strstr(next, "\n}\n")); start = end + 3) {
        end[2] = 0;
        if (strstr(start, entry)) {
            memmove(text, start, strlen(start) + 1);
            return;
        }
    }
    fail_msg("ptx/: there is no kernel %s", name);
}

// Appends a piece of text to `to`, with `with` in place of $1, $2, ... (NULL: with nothing) and without comments.
static void ptx_fill(char to[PTX_BYTES], const char *from, const char *end,
                     const char *const with[PTX_HOLES])
{
    size_t at = strlen(to);
    for (; from < end; ++from) {
        int hole = *from == '$' ? from[1] - '1' : -1;
        if (hole >= 0 && hole < PTX_HOLES && ++from)
            at += (size_t)snprintf(to + at, PTX_BYTES - at, "%s", with[hole] ? with[hole] : "");
        else if (from[0] == '/' && from[1] == '/')
            from += strcspn(from, "\n") - 1;
        else
            to[at++] = *from;
    }
    to[at] = 0;
}

// Makes a whole text: the frame's head, then the kernel's part. If the kernel's parameter is `out`,
// the frame's body stands before the kernel's own. The text is valid until the next call.
static char *ptx_text(const char *frame, const char *name, const char *const with[PTX_HOLES])
{
    static const char framed[] = "(.param .u64 out)\n{\n";
    static char text[PTX_BYTES], head[PTX_BYTES], part[PTX_BYTES];
    *text = 0;
    ptx_section(frame, head);
    ptx_section(name, part);
    ptx_fill(text, head, strstr(head, ".visible"), with);
    const char *rest = strstr(part, framed), *body = strstr(head, framed) + strlen(framed);
    if (rest) {
        rest += strlen(framed);
        ptx_fill(text, part, rest, with);
        ptx_fill(text, body, strstr(body, "\n}") + 1, with);
    }
    rest = rest ? rest : part;
    ptx_fill(text, rest, rest + strlen(rest), with);
    return text;
}

static struct module *ptx_parse(const char *text)
{
    char why[256] = "";
    struct module *module = module_parse(text, why, sizeof why);
    if (!module)
        fail_msg("%s", why);
    return module;
}

#endif
