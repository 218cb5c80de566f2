// sources.c: finds a submission's source, a file itself or one in a folder, and reads it if it is a
// text.
#include "judge.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    return S_ISLNK(mode)    ? "a link"
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

// The usual name of a control character, or "".
static const char *control_name(unsigned char byte)
{
    static const char *const names[0x20] = {[0x00] = " (NUL)",         [0x07] = " (a bell)",
                                            [0x08] = " (a backspace)", [0x0b] = " (a vertical tab)",
                                            [0x0c] = " (a form feed)", [0x1a] = " (Ctrl-Z)",
                                            [0x1b] = " (an escape)"};
    return byte == 0x7f ? " (delete)" : names[byte] ? names[byte] : "";
}

// Says why bytes are not a text; NULL: they are. An editor may stop at a NUL that the compiler
// ignores: then people would see less than is compiled. Letters may be in any encoding.
static char *no_text(const char *source, size_t bytes)
{
    int line = 1;

    if (bytes >= 2 && (memcmp(source, "\xff\xfe", 2) == 0 || memcmp(source, "\xfe\xff", 2) == 0))
        return text("is a text in UTF-16: save it as UTF-8");
    for (size_t i = 0; i < bytes; ++i) {
        unsigned char byte = (unsigned char)source[i];
        if ((byte < 0x20 && !memchr("\t\n\r", byte, 3)) || byte == 0x7f)
            return text(
                "has the byte 0x%02x%s in line %d: delete it; of control characters a program "
                "has tabs and ends of lines only",
                byte, control_name(byte), line);
        line += byte == '\n';
    }
    return NULL;
}

// Reads a regular file. A link is not followed, since it could lead to a file of the grader; a file
// with several names is not read, since it could be somebody else's.
static char *read_regular(int folder, const char *name, size_t *bytes, char **why)
{
    struct stat about;
    int fd = -1;

    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW))
        *why = text("is not there");
    else if (!S_ISREG(about.st_mode))
        *why = text("is %s, not a file", kind_of(about.st_mode));
    else if ((fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) < 0 ||
             fstat(fd, &about) || !S_ISREG(about.st_mode))
        *why = text("is no file that can be read");
    else if (about.st_nlink > 1)
        *why = text(
            "has %ju names (hard links), so it could be somebody else's: make it a file of its "
            "own (cp FILE NEW, then mv NEW FILE)",
            (uintmax_t)about.st_nlink);
    if (*why) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    size_t room = SOURCE_BYTES_MAX + 1;
    char *source = need(malloc(room + 1));
    ssize_t n;
    *bytes = 0;
    while (source && *bytes < room && (n = read(fd, source + *bytes, room - *bytes)) > 0)
        *bytes += (size_t)n;
    close(fd);
    source[*bytes] = '\0';
    if (*bytes < room && (*why = no_text(source, *bytes))) {
        free(source);
        return NULL;
    }
    return source; // a source that is too long is refused when it is compiled (build.c)
}

static bool is_folder(int folder, const char *name) // a link to a folder does not count
{
    struct stat about;
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

bool ends_well(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name && strcasecmp(dot + 1, sheet.ending) == 0;
}

const char *litter(const char *name)
{
    return strncmp(name, "._", 2) == 0            ? "a Mac's notes on another file"
           : strcmp(name, "__MACOSX") == 0        ? "a Mac's notes on a zip"
           : strcmp(name, ".DS_Store") == 0       ? "a Mac's notes on a folder"
           : strcasecmp(name, "Thumbs.db") == 0   ? "a PC's small pictures"
           : strcasecmp(name, "desktop.ini") == 0 ? "a PC's notes on a folder"
                                                  : NULL;
}

// The programs in a submission's folder or below it: in a zip there is often one more folder around
// the files.
struct found {
    int folder, count; // folder: descriptor of the first program's folder; count: of programs
    char *name;        // the first program's name in that folder
};

// Looks for programs in this folder first; folders inside it count only if it has none.
static void find_sources(int folder, int depth, struct found *found)
{
    enum { DEEPEST = 6 };
    DIR *here = fdopendir(dup(folder));
    int before = found->count;

    if (here)
        rewinddir(here);
    for (struct dirent *e; here && (e = readdir(here));)
        if (!litter(e->d_name) && ends_well(e->d_name) && !is_folder(folder, e->d_name) &&
            found->count++ == 0) {
            found->folder = dup(folder);
            found->name = text("%s", e->d_name);
        }
    if (here && found->count == before && depth < DEEPEST) {
        rewinddir(here);
        for (struct dirent *e; (e = readdir(here));) {
            if (litter(e->d_name) || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                continue;
            int deeper = openat(folder, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (deeper >= 0) {
                find_sources(deeper, depth + 1, found);
                close(deeper);
            }
        }
    }
    if (here)
        closedir(here);
}

char *submission_source(const char *path, size_t *bytes, char **why)
{
    struct stat about;
    struct found found = {.folder = -1};
    char *source = NULL;

    *bytes = 0;
    if (lstat(path, &about) || !S_ISDIR(about.st_mode))
        return read_regular(AT_FDCWD, path, bytes, why);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        find_sources(folder, 0, &found);
    if (folder < 0)
        *why = text("is a folder that cannot be read");
    else if (found.count == 1)
        source = read_regular(found.folder, found.name, bytes, why);
    else
        *why = found.count ? text("has %d .%s files, not one", found.count, sheet.ending)
                           : text("has no .%s file", sheet.ending);
    for (int i = 0; i < 2; ++i)
        if ((i ? folder : found.folder) >= 0)
            close(i ? folder : found.folder);
    free(found.name);
    return source;
}
