// paths.c: source files as the user knows them, and where the program was started.
#include "base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[4096]; // the program's when it began: it may change it

static char root[4096]; // the repository: where build/ptxsim holds this library

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

const char *start_directory(void)
{
    return directory;
}
