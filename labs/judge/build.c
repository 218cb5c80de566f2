// build.c: compiles a submission, in boxes. What is judged is the PTX and the machine code as the
// compiler's device half wrote them. They leave the box for the judge's memory before anything of
// the host half is assembled or linked, which happens in another box, without plugins. So host code
// cannot change them, neither by inline assembly nor by sections of its own. The executable with
// the host code is run only to see its launches (record.c).
#include "judge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef KERNEL_FLAGS
#error "mk/labs.mk says how kernels are compiled"
#endif

// Limits of compiling: CPU time of a process, and five times as much by the clock.
enum { COMPILE_SECONDS = 120 };
enum { MADE_BYTES_MAX = 64 << 20 };
// MB of preprocessed text. A longer text that does not compile is not compiled a second time.
enum { PREPROCESSED_MAX = 20 };

// ---- Compiling ----------------------------------------------------------------------------------

static void problem(struct submission *s, const char *what, const struct boxed *b)
{
    s->problem = text("%s", what);
    if (b && b->err.size)
        s->details = cleaned(b->err.bytes, b->err.size < 3000 ? b->err.size : 3000);
}

// Runs a shell command that can write to the box's own /tmp; in it, $book is the book's folder.
static struct boxed compile_box(struct submission *s, char *line)
{
    struct box box = {.kind = BOX_COMPILE, .folder = s->folder, .cpu_seconds = COMPILE_SECONDS};
    char *command[] = {"/bin/sh",
                       "-c",
                       text("set -e; book=$1; %s; %s",
                            options.unsafe ? "cd \"$2\"" : "cd /tmp; cp \"$2\"/* .", line),
                       "sh",
                       (char *)box_book(),
                       (char *)box_work(&box),
                       NULL};
    struct boxed b = box_run(&box, command, wall_left(s, 5 * COMPILE_SECONDS), MADE_BYTES_MAX);

    if (b.late && wall_over(s))
        problem(s, text("does not compile: it %s", wall_told(s)), NULL);
    else if (b.late)
        problem(s, text("does not compile within %d s", COMPILE_SECONDS), NULL);
    else if (b.chatty)
        problem(s,
                b.lines.over ? "compiles to more than 64 MB"
                             : "does not compile: the compiler's complaints have no end",
                NULL);
    else if (b.status != 0)
        problem(s, "does not compile", &b);
    free(command[2]);
    free(line);
    return b;
}

// Whether a file named in a PTX text is really the book's or the compiler's, since a #line may name
// any file.
static bool is_of_the_book(const char *name, size_t length)
{
    static const char *const below[] = {"/code/", "/build/cuda/"};
    const size_t book = strlen(box_book());
    bool is = false;

    if (length <= book || strncmp(name, box_book(), book) != 0)
        return false;
    char *path = text("%s%.*s", root, (int)(length - book), name + book);
    for (size_t i = 0; i < sizeof below / sizeof *below; ++i)
        is = is ||
             (strncmp(name + book, below[i], strlen(below[i])) == 0 && access(path, R_OK) == 0);
    free(path);
    return is;
}

// Replaces names of files (.file NUMBER "NAME") that are neither the book's nor the compiler's by
// "attention.cu", so that places in a report do not quote a submission's words.
static void name_files(struct submission *s)
{
    static const char own[] = "attention.cu";
    size_t files = 0;
    for (const char *at = s->ptx; (at = strstr(at, ".file")); ++at)
        ++files;
    char *named = need(malloc(s->ptx_bytes + files * sizeof own + 1)), *to = named;
    const char *from = s->ptx;

    for (const char *line; (line = strstr(from, ".file"));) {
        const char *name = line + strlen(".file");
        name += strspn(name, " \t0123456789");
        const char *end = *name == '"' ? name + 1 : name;
        while (end > name && *end && *end != '"' && *end != '\n')
            end += *end == '\\' && end[1] ? 2 : 1;
        to = mempcpy(to, from, (size_t)(name - from));
        from = name;
        if (end == name || *end != '"')
            continue;
        if (is_of_the_book(name + 1, (size_t)(end - name) - 1))
            continue;
        to += sprintf(to, "\"%s\"", own);
        from = end + 1;
    }
    strcpy(to, from);
    free(s->ptx);
    s->ptx = named;
    s->ptx_bytes = strlen(named);
}

// Compiles the device half to PTX, machine code, and preprocessed C++ for the host, without
// assembling or linking the host part. The first try leaves out the special functions of <cmath>,
// which take a sixth of the time. A text that does not compile without them may need them, and is
// compiled again with them.
static bool compile_device(struct submission *s, char **host, size_t *host_bytes)
{
    const int arch = JUDGED_GPU->arch;
    struct boxed b = compile_box(
        s,
        text(
            "device() { \"$book\"/build/cuda/bin/nvcc %s -I\"$book\"/code --compress-mode=none "
            "-cudart shared --keep --keep-dir . "
            "-gencode 'arch=compute_%d,code=[compute_%d,sm_%d]' "
            "\"$@\" -cuda attention.cu -o host.ii 3>&-; }; "
            "device -D_GLIBCXX_BITS_SPECFUN_H 2>said || {"
            " for made in *.ii; do if [ -s \"$made\" ] && [ $(stat -c %%s \"$made\") -ge %d ]; then"
            " echo 'preprocesses to more than %d MB' >&2; exit 1; fi; done; device; }; " HAND_OUT(
                "attention.ptx attention.sm_%d.cubin host.ii"),
            KERNEL_FLAGS, arch, arch, arch, PREPROCESSED_MAX << 20, PREPROCESSED_MAX, arch));
    size_t at = 0;
    bool made = !s->problem && take_file(&b.lines, &at, &s->ptx, &s->ptx_bytes) &&
                take_file(&b.lines, &at, &s->cubin, &s->cubin_bytes) &&
                take_file(&b.lines, &at, host, host_bytes) && strlen(s->ptx) == s->ptx_bytes;
    if (!made && !s->problem)
        problem(s, "does not compile to a kernel", NULL);
    if (made)
        name_files(s);
    boxed_free(&b);
    return made;
}

static void take_program(struct submission *s, struct boxed *b)
{
    char *program;
    size_t at = 0, bytes;

    if (!s->problem && take_file(&b->lines, &at, &program, &bytes)) {
        write_work(s, "program", program, bytes, 0755);
        free(program);
    } else if (!s->problem) {
        problem(s, "does not compile to a program", NULL);
    }
    boxed_free(b);
}

static void compile_host(struct submission *s)
{
    int standard = (int)strcspn(strstr(KERNEL_FLAGS, "-std="), " ");
    // The linker runs without plugins, since sections of the object could make them run commands.
    struct boxed b = compile_box(
        s, text("g++ %.*s -O1 -w -fno-lto -c host.ii -o host.o 3>&-; "
                "g++ -fno-lto -fno-use-linker-plugin host.o \"$book\"/build/libworkbench.a "
                "-L\"$book\"/build -l:libjansson.a -L\"$book\"/build/cuda/lib64 -lcudart -lm "
                "-lpthread -ldl -o program "
                "3>&-; " HAND_OUT("program"),
                standard, strstr(KERNEL_FLAGS, "-std=")));
    take_program(s, &b);
}

// Compiles a search: C, and nothing for a GPU.
static void compile_search(struct submission *s)
{
    struct boxed b = compile_box(
        s, text("gcc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -fno-lto -fno-use-linker-plugin "
                "-I\"$book\"/code search.c \"$book\"/build/libworkbench.a -L\"$book\"/build "
                "-l:libjansson.a -lm -lpthread -ldl -o program 3>&-; " HAND_OUT("program")));
    take_program(s, &b);
}

// Puts a submission's PTX into the book's program in place of its own kernels, as
// code/tools/compile-variant does.
static void pack_model(struct submission *s)
{
    write_work(s, "attention.ptx", s->ptx, s->ptx_bytes, 0644);
    struct boxed b = compile_box(
        s,
        text("program=\"$book\"/build/%s; \"$book\"/build/cuda/bin/fatbinary -64 --create=packed "
             "--image3=kind=ptx,sm=%d,file=attention.ptx 3>&-; "
             "room=$(objdump -h \"$program\" | awk '$2 == \".nv_fatbin\" { print $3 }'); "
             "if [ $(stat -c %%s packed) -gt $((0x$room)) ]; then"
             " echo 'its PTX is larger than all kernels of the book' >&2; exit 1; fi; "
             "objcopy --update-section .nv_fatbin=packed \"$program\" program 3>&-; " HAND_OUT(
                 "program"),
             sheet.program, JUDGED_GPU->arch));
    take_program(s, &b);
}

static void compile(struct submission *s)
{
    char *host;
    size_t host_bytes;

    if (sheet.journal) {
        compile_search(s);
    } else if (compile_device(s, &host, &host_bytes)) {
        if (sheet.model)
            pack_model(s);
        else
            write_work(s, "host.ii", host, host_bytes, 0644);
        free(host);
        if (!sheet.model)
            compile_host(s);
    }
}

void submission_build(struct submission *s, const char *source, size_t bytes)
{
    wall_begin(s);
    work_make(s);
    SHA256Data((const uint8_t *)source, bytes, s->hash);
    if (bytes == 0 || bytes > SOURCE_BYTES_MAX) {
        problem(s, bytes ? "is larger than 1 MB" : "is empty", NULL);
        return;
    }
    char *kept = built_path(source, bytes);
    write_work(s, sheet.journal ? "search.c" : "attention.cu", source, bytes, 0644);
    if (!built_take(s, kept)) {
        compile(s);
        if (!s->problem)
            built_keep(s, kept);
    }
    s->kept = kept;
}

void submission_free(struct submission *s)
{
    records_free(s);
    free(s->kept);
    work_remove(s);
    free(s->ptx);
    free(s->cubin);
    free(s->problem);
    free(s->details);
}

// ---- Preprocessing ------------------------------------------------------------------------------

enum { PLAIN_SECONDS = 5, PLAIN_BYTES_MAX = 4 << 20 };

// Skips blanks, and line ends after a backslash.
static const char *past_gap(const char *at, const char *end)
{
    while (at < end) {
        const char *next = *at == '\\' ? at + 1 + strspn(at + 1, " \t\r") : at;
        if (*at == '\\' && *next != '\n')
            break;
        if (*at != '\\' && *at != ' ' && *at != '\t')
            break;
        at = next + 1;
    }
    return at < end ? at : end;
}

// Whether a line is an #include, even if a backslash joins its beginning to the next line.
static bool is_include(const char *line, const char *end)
{
    static const char *const words[] = {"include", "import"};
    const char *at = past_gap(line, end);
    int hash = end - at >= 2 && memcmp(at, "%:", 2) == 0 ? 2 : at < end && *at == '#';

    for (int i = 0; hash && i < 2; ++i) {
        const char *word = words[i], *letter = past_gap(at + hash, end);
        for (; *word && letter < end && *letter == *word; ++word)
            letter = past_gap(letter + 1, end);
        if (!*word)
            return true;
    }
    return false;
}

// A copy of a source with empty lines in place of its #include lines, for the caller to free.
static struct source without_includes(const struct source *source)
{
    const char *end = source->text + source->bytes;
    char *own = need(malloc(source->bytes + 1)), *to = own;
    bool dropped = false, joined = false;

    for (const char *line = source->text, *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *last = stop ? stop : end;
        next = stop ? stop + 1 : end;
        dropped = joined ? dropped : is_include(line, end);
        while (last > line && memchr(" \t\r", last[-1], 3))
            --last;
        joined = last > line && last[-1] == '\\';
        if (!dropped)
            to = mempcpy(to, line, (size_t)(next - line));
        else if (stop)
            *to++ = '\n';
    }
    *to = '\0';
    return (struct source){own, (size_t)(to - own)};
}

// The shell command that preprocesses the texts numbered 0 to count - 1, with the macros that the
// device's compiler defines. A text that expands without end gives only its beginning, or nothing.
static char *preprocess_line(const struct box *box, int count)
{
    const char *work = box_work(box);

    return text("cd '%s'; i=0; ulimit -t %d; while [ $i -lt %d ]; do "
                "{ echo; gcc -E -w %s '%s'/$i; } 2>&- 3>&- | head -c %d >plain; " HAND_OUT(
                    "plain") "; i=$((i + 1)); done",
                options.unsafe ? work : "/tmp", PLAIN_SECONDS, count,
                sheet.journal ? "-x c -std=c11 -D_GNU_SOURCE"
                              : "-x c++ -D__CUDACC__ -D__NVCC__ -D__CUDA_ARCH__=890",
                work, PLAIN_BYTES_MAX);
}

// Preprocesses these sources in one box, and keeps the results.
static void preprocess_anew(const struct source *const sources[], struct source *const plain[],
                            int count)
{
    struct submission s = {.folder = NULL};
    size_t at = 0;

    work_make(&s);
    for (int i = 0; i < count; ++i) {
        struct source own = without_includes(sources[i]);
        char *name = text("%d", i);
        write_work(&s, name, own.text, own.bytes, 0644);
        free(name);
        free(own.text);
    }
    struct box box = {.kind = BOX_COMPILE, .folder = s.folder, .cpu_seconds = PLAIN_SECONDS};
    char *command[] = {"/bin/sh", "-c", preprocess_line(&box, count), NULL};
    struct boxed b = box_run(&box, command, 5 * PLAIN_SECONDS + count, MADE_BYTES_MAX);
    for (int i = 0; i < count; ++i) {
        char *path = plain_path(sources[i]);
        if (take_file(&b.lines, &at, &plain[i]->text, &plain[i]->bytes))
            plain_keep(plain[i], path);
        else
            *plain[i] = (struct source){text("%s", sources[i]->text), strlen(sources[i]->text)};
        free(path);
    }
    boxed_free(&b);
    free(command[2]);
    submission_free(&s);
}

void preprocess(const struct source sources[], struct source plain[], int count)
{
    const struct source **from = need(calloc((size_t)count + 1, sizeof *from));
    struct source **to = need(calloc((size_t)count + 1, sizeof *to));
    int missing = 0;

    for (int i = 0; i < count; ++i) {
        char *path = plain_path(&sources[i]);
        if (!plain_take(&plain[i], path)) {
            from[missing] = &sources[i];
            to[missing++] = &plain[i];
        }
        free(path);
    }
    if (missing)
        preprocess_anew(from, to, missing);
    free(from);
    free(to);
}
