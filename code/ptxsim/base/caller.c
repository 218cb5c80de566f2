// caller.c: the line in the program's own source of a call, or of an access by the host: addr2line
// turns addresses of instructions into lines. Starting addr2line takes milliseconds, so lines are
// looked up only for reports. A line is found if the host's code was compiled with -g.
#include "base.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gnu/libc-version.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// Addresses at which this library, or the program that it is linked into, begins and ends; the
// linker sets them.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_own(uint64_t at)
{
    return at >= (uint64_t)(uintptr_t)__ehdr_start && at < (uint64_t)(uintptr_t)_end;
}

void note_callers(struct callers *callers)
{
    enum { FRAMES = CALLERS_KEPT + 20 };
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);

    callers->count = 0;
    for (int i = 0; i < count && callers->count < CALLERS_KEPT; ++i) {
        uint64_t at = (uint64_t)(uintptr_t)frames[i] - 1; // an address within the call itself
        if (!is_own(at))
            callers->at[callers->count++] = at;
    }
}

void drop_callers(struct callers *callers, const void *function)
{
    enum { MOST = 48 }; // bytes of a function that does nothing but call another
    uint64_t start = (uint64_t)(uintptr_t)function;

    for (int i = 0; start && i < callers->count; ++i)
        if (callers->at[i] - start < MOST) {
            callers->count -= i + 1;
            memmove(callers->at, callers->at + i + 1, (size_t)callers->count * sizeof *callers->at);
            return;
        }
}

// Reads what addr2line prints for an address in an object's file; false if it prints nothing.
static bool ask(const char *object, uint64_t offset, char *text, size_t size)
{
    char number[32];
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {"addr2line", "-e", (char *)(uintptr_t)object, number, NULL};

    snprintf(number, sizeof number, "0x%llx", (unsigned long long)offset);
    if (pipe(ends))
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    bool asked = !posix_spawnp(&child, "addr2line", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (asked && used + 1 < size && (got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    if (asked)
        waitpid(child, NULL, 0);
    return used > 0;
}

// Whether an object is the C library, which calls main(). Its lines are found if its debug symbols
// are installed, but they are not the program's.
static bool is_libc(const Dl_info *object)
{
    Dl_info libc;

    return dladdr((void *)(uintptr_t)gnu_get_libc_version, &libc) &&
           libc.dli_fbase == object->dli_fbase;
}

// Whether a place is not in the program's own source: unknown, made by nvcc, or in a header of the
// toolkit.
static bool is_foreign(const char *place)
{
    return place[0] == '?' || strstr(place, ":?") || strstr(place, ":0\n") ||
           strstr(place, ".cudafe1.stub.c") || strstr(place, "/include/crt/") ||
           strstr(place, "/cuda_runtime.h") || strstr(place, "/cuda_runtime_api.h");
}

static bool line_at(uint64_t instruction, struct host_line *line)
{
    char place[1024];
    Dl_info object;

    if (!dladdr((void *)(uintptr_t)instruction, &object) || !object.dli_fname || is_libc(&object))
        return false;
    // A program that is not position-independent lies below 16 MiB, and addr2line takes its
    // addresses as they are.
    bool fixed = (uint64_t)(uintptr_t)object.dli_fbase < 0x1000000;
    if (!ask(strchr(object.dli_fname, '/') ? object.dli_fname : "/proc/self/exe",
             instruction - (fixed ? 0 : (uint64_t)(uintptr_t)object.dli_fbase), place,
             sizeof place) ||
        is_foreign(place))
        return false;
    place[strcspn(place, "\n")] = 0;
    char *more = strstr(place, " (discriminator "); // addr2line's number of a block within a line
    if (more)
        *more = 0;
    char *colon = strrchr(place, ':');
    if (!colon)
        return false;
    *colon = 0;
    line->line = atoi(colon + 1);
    snprintf(line->file, sizeof line->file, "%s", source_path(place));
    return line->line > 0;
}

struct host_line caller_line(const struct callers *callers)
{
    struct host_line line = {.line = 0};
    for (int i = 0; i < callers->count && !line_at(callers->at[i], &line); ++i)
        ;
    return line;
}
