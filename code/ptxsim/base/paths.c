// paths.c: source files as the user knows them, and where the program was started.
#include "base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[4096]; // the current directory when the program began

static char root[4096]; // the repository, if build/ptxsim in it has this library; otherwise ""

__attribute__((constructor)) static void remember_directories(void)
{
    static const char place[] = "/build/ptxsim/libcudart.so.13";
    Dl_info here;

    if (!getcwd(directory, sizeof directory))
        directory[0] = 0;
    if (dladdr(directory, &here) && realpath(here.dli_fname, root)) {
        size_t length = strlen(root);
        if (length > strlen(place) && strcmp(root + length - strlen(place), place) == 0)
            root[length - strlen(place)] = 0;
        else
            root[0] = 0;
    }
}

const char *source_path(const char *path)
{
    const char *const starts[] = {root, directory};

    for (int i = 0; i < 2; ++i) {
        size_t length = strlen(starts[i]);
        if (length > 1 && strncmp(path, starts[i], length) == 0 && path[length] == '/')
            return path + length + 1;
    }
    return path;
}

const char *next_caller(const char *text, size_t *length)
{
    static const char *const before[] = {" (called at ", ", "};
    size_t skip = 0;

    for (int i = 0; i < 2; ++i)
        if (strncmp(text, before[i], strlen(before[i])) == 0)
            skip = strlen(before[i]);
    // Only a line number ends a FILE:LINE: a file may be called "my, copy (2).cu".
    for (const char *end = skip ? strchr(text + skip, ':') : NULL; end; end = strchr(end, ':')) {
        size_t digits = strspn(++end, "0123456789");
        *length = (size_t)(end + digits - text) - skip;
        if (digits && (!strncmp(end + digits, ", ", 2) || !strcmp(end + digits, ")")))
            return text + skip;
    }
    return NULL;
}

const char *start_directory(void)
{
    return directory;
}
