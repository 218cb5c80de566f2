// build.c: compiles a submission in a box, and asks its host code there how it wants to be launched.
//
// What is judged is the PTX as the device half of the compiler wrote it (--keep), which host code
// cannot touch: not by assembly, not by sections of its own. The executable with the host code is
// run for nothing else than its launches, against a runtime that runs no kernel.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef KERNEL_FLAGS
#error "the Makefile says how kernels are compiled"
#endif

enum { COMPILE_SECONDS = 120, RECORD_SECONDS = 20, SOURCE_BYTES_MAX = 1 << 20 };

// ---- Folders ------------------------------------------------------------------------------------

#define FOLDERS "/tmp/grade." // and six characters

// It holds what the compiler left, flat; a box has no way out of it.
static void remove_folder(char *folder)
{
    char *command[] = {"rm", "-rf", "--", folder, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0)
        ;
}

// Locked for as long as it is used; a folder without a lock was left by a judge that was killed.
static void make_folder(struct submission *s)
{
    for (;;) {
        char folder[] = FOLDERS "XXXXXX";
        if (!mkdtemp(folder))
            fail(EXIT_MACHINE, "cannot make a folder in /tmp: %s", strerror(errno));
        s->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->lock >= 0 && flock(s->lock, LOCK_EX) == 0 && access(folder, F_OK) == 0) {
            s->folder = text("%s", folder);
            return;
        }
        if (s->lock >= 0) // another judge removed it before it was locked, as a killed judge's
            close(s->lock);
    }
}

void submission_tidy(void)
{
    glob_t found;
    struct stat about;

    if (glob(FOLDERS "??????", GLOB_NOSORT, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        int lock = open(found.gl_pathv[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && fstat(lock, &about) == 0 && about.st_uid == geteuid() &&
            flock(lock, LOCK_EX | LOCK_NB) == 0)
            remove_folder(found.gl_pathv[i]);
        if (lock >= 0)
            close(lock);
    }
    globfree(&found);
}

// ---- Compiling ----------------------------------------------------------------------------------

static void problem(struct submission *s, const char *what, const struct boxed *b)
{
    s->problem = text("%s", what);
    if (b && b->err.size)
        s->details = cleaned(b->err.bytes, b->err.size < 3000 ? b->err.size : 3000);
}

static void compile(struct submission *s)
{
    struct box box = {.kind = BOX_COMPILE, .folder = s->folder};
    const char *work = box_work(&box), *book = box_book();
    char *command[] = {
        "/bin/sh", "-c",
        text("cd '%s' && exec '%s/build/cuda/bin/nvcc' %s -I'%s/code' --compress-mode=none "
             "-cudart shared --keep --keep-dir . "
             "-gencode 'arch=compute_89,code=[compute_89,sm_89]' attention.cu "
             "'%s/build/libworkbench.a' -L'%s/build' -l:libjansson.a -lm -lpthread -ldl -o program",
             work, book, KERNEL_FLAGS, book, book, book),
        NULL};
    struct boxed b = box_run(&box, command, COMPILE_SECONDS);

    if (b.late)
        problem(s, text("does not compile within %d s", COMPILE_SECONDS), NULL);
    else if (b.chatty)
        problem(s, "does not compile: the compiler's complaints have no end", NULL);
    else if (b.status != 0)
        problem(s, "does not compile", &b);
    boxed_free(&b);
    if (s->problem)
        return;
    s->ptx = read_file(text("%s/attention.ptx", s->folder), &s->ptx_bytes);
    s->cubin = read_file(text("%s/attention.sm_89.cubin", s->folder), &s->cubin_bytes);
    if (!s->ptx || !s->cubin || access(text("%s/program", s->folder), R_OK))
        problem(s, "does not compile to a kernel", NULL);
}

void submission_build(struct submission *s, const char *source, size_t bytes)
{
    make_folder(s);
    if (bytes == 0 || bytes > SOURCE_BYTES_MAX) {
        problem(s, bytes ? "is larger than 1 MB" : "is empty", NULL);
        return;
    }
    FILE *file = fopen(text("%s/attention.cu", s->folder), "wb");
    if (!file || fwrite(source, 1, bytes, file) != bytes || fclose(file))
        fail(EXIT_MACHINE, "cannot write to %s", s->folder);
    compile(s);
}

void submission_free(struct submission *s)
{
    remove_folder(s->folder);
    close(s->lock);
    free(s->folder);
    free(s->ptx);
    free(s->cubin);
    free(s->problem);
    free(s->details);
}

// ---- Launches -----------------------------------------------------------------------------------

// One line of what the runtime wrote down; the submission may have written lines of its own.
static const char *read_launch(const char *line, const struct attention_args *wanted,
                               struct recorded *l)
{
    int at = 0;
    unsigned long shared;
    struct attention_args got;

    if (strcmp(line, "other") == 0)
        return "copies or fills memory while it launches";
    if (sscanf(line, "launch %511s %u %u %u %u %u %u %lu %n", l->kernel, &l->grid[0], &l->grid[1],
               &l->grid[2], &l->block[0], &l->block[1], &l->block[2], &shared, &at) != 8 ||
        at == 0)
        return "wrote its own record of its launches, and not well";
    l->shared = shared;
    line += at;
    if (strlen(line) != 2 * sizeof got || strspn(line, "0123456789abcdef") != 2 * sizeof got)
        return "its kernel takes something else than one attention_args";
    for (size_t i = 0; i < sizeof got; ++i) {
        unsigned byte;
        sscanf(line + 2 * i, "%2x", &byte);
        ((unsigned char *)&got)[i] = (unsigned char)byte;
    }
    if (memcmp(&got, wanted, sizeof got))
        return "does not hand on the attention_args that it is given";
    return NULL;
}

bool submission_launches(struct submission *s, const struct shape *shape,
                         struct recorded launches[LAUNCHES_MAX], int *count, char **why)
{
    struct box box = {.kind = BOX_RECORD, .folder = s->folder};
    struct attention_args wanted = launch_only_args(shape);
    char *command[] = {text("%s/program", box_work(&box)), "--launch-only", "--shapes",
                       (char *)shape->name, NULL};
    struct boxed b = box_run(&box, command, RECORD_SECONDS);
    char *rest = NULL;
    const char *wrong = NULL;

    *count = 0;
    memset(launches, 0, LAUNCHES_MAX * sizeof *launches);
    for (char *line = strtok_r(b.lines.bytes, "\n", &rest); line && !wrong;
         line = strtok_r(NULL, "\n", &rest)) {
        if (*count == LAUNCHES_MAX)
            wrong = text("launches more than %d kernels", LAUNCHES_MAX);
        else
            wrong = read_launch(line, &wanted, &launches[(*count)++]);
    }
    if (b.late)
        wrong = text("its host code did not end within %d s", RECORD_SECONDS);
    else if (b.chatty)
        wrong = "its host code writes without end";
    else if (!wrong && *count == 0)
        wrong = b.status > 128 && b.status <= 128 + 64
                    ? text("its host code crashed (%s)", strsignal(b.status - 128))
                    : "its host code launches no kernel";
    boxed_free(&b);
    if (wrong)
        *why = text("%s", wrong);
    return !wrong;
}
