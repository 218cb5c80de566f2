// files.c: writes files so that they appear whole or not at all.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workbench.h"

// Opens a new file beside `path`; *name: its name, for the caller to free. Returns -1 if it cannot;
// `why` then has one line, and there is no name to free.
static int open_beside(const char *path, char **name, char *why, size_t size)
{
    struct stat status;
    int file = -1;

    *name = NULL;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        // `path` is, for example, /dev/null or a folder.
        snprintf(why, size, "cannot write %s: it is no regular file", path);
        return -1;
    }
    if (*path == '\0') {
        errno = ENOENT;
    } else if (asprintf(name, "%s.XXXXXX", path) < 0) {
        *name = NULL;
        errno = ENOMEM;
    } else {
        file = mkstemp(*name);
    }
    if (file < 0) {
        snprintf(why, size, "cannot write %s: %s", path, strerror(errno));
        free(*name);
    }
    return file;
}

bool file_writable(const char *path, char *why, size_t size)
{
    char *name;
    int file = open_beside(path, &name, why, size);

    if (file < 0)
        return false;
    close(file);
    unlink(name);
    free(name);
    return true;
}

bool file_write(const char *path, const void *bytes, size_t count, char *why, size_t size)
{
    char *name;
    int file = open_beside(path, &name, why, size);
    bool written;

    if (file < 0)
        return false;
    for (const char *at = bytes; count > 0;) {
        ssize_t done = write(file, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        at += done;
        count -= (size_t)done;
    }
    mode_t mask = umask(0); // to give the file fopen's permissions: mkstemp made it private
    umask(mask);
    written = count == 0 && fchmod(file, 0666 & ~mask) == 0;
    written = close(file) == 0 && written;
    written = written && rename(name, path) == 0;
    if (!written) {
        snprintf(why, size, "cannot write %s: %s", path, strerror(errno));
        unlink(name);
    }
    free(name);
    return written;
}
