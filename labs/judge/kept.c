// kept.c: keeps what was made from a source for the next time that it is graded, in
// build/grade/kept beside the results: HASH.built, compiled; HASH.plain, preprocessed;
// HASH.launches, how its host code asked to be launched (record.c). The launches stay: the source
// is graded with them whenever it comes again. The hash covers all that compiling depends on: the
// source; this grader, which contains the commands and their flags; the book's headers and
// libraries; the compilers. A .built or .plain file begins with a hash of the bytes after it; a
// damaged one is made again.
//
// Only the judge writes to this folder, and only what came out of a box; no box can reach the
// folder. A program that runs without a box could have written anything, so with
// --unsafe-no-sandbox nothing is taken from here, and nothing kept.
#include "judge.h"

#include "workbench/workbench.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The most bytes of all entries together. Those that were used longest ago are removed first. An
// entry takes a little less than a megabyte.
static const off_t KEPT_BYTES_MAX = 512 << 20;

const char *kept_folder(void)
{
    static char *folder;

    if (!folder) {
        mkdir(text("%s/build/grade", root), 0700);
        folder = text("%s/build/grade/kept", root);
        mkdir(folder, 0700);
    }
    return folder;
}

static void hash_file(SHA2_CTX *hash, const char *path)
{
    size_t size = 0;
    char *bytes = read_file(path, &size);

    hash_bytes(hash, bytes ? bytes : "", size);
    free(bytes);
}

static void hash_judge(SHA2_CTX *hash) // hashes the judge's executable, once
{
    static char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX own;

    if (!*hex) {
        SHA256Init(&own);
        hash_file(&own, "/proc/self/exe");
        SHA256End(&own, hex);
    }
    hash_bytes(hash, hex, sizeof hex);
}

// Identifies a compiler by its path, size and time: reading its file takes longer than a
// compilation.
static void hash_tool(SHA2_CTX *hash, const char *path)
{
    struct stat about = {0};
    char place[4096] = "";

    if (!realpath(path, place) || stat(place, &about))
        place[0] = '\0';
    const intmax_t marks[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
    hash_bytes(hash, place, strlen(place));
    hash_bytes(hash, marks, sizeof marks);
}

const char *grader_hash(void) // computed only once
{
    static char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX s;

    if (*hex)
        return hex;
    SHA256Init(&s);
    const char *programs[] = {"/proc/self/exe", text("%s/build/runner", root),
                              text("%s/build/clock.so", root)};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
        size_t bytes;
        char *program = read_file(programs[i], &bytes);
        if (!program)
            fail(EXIT_MACHINE, "there is no %s: type make grade", programs[i]);
        SHA256Update(&s, (const uint8_t *)program, bytes);
        free(program);
    }
    return SHA256End(&s, hex);
}

char *plain_path(const struct source *source)
{
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX hash;

    SHA256Init(&hash);
    hash_bytes(&hash, source->text, source->bytes);
    hash_bytes(&hash, sheet.ending, strlen(sheet.ending));
    hash_judge(&hash);
    hash_tool(&hash, "/usr/bin/gcc");
    return text("%s/%s.plain", kept_folder(), SHA256End(&hash, hex));
}

char *built_path(const char *source, size_t bytes)
{
    static const char *const files[] = {"code/workbench/workbench.h", "code/workbench/debug.h",
                                        "build/libworkbench.a", "build/libjansson.a"};
    static const char *const tools[] = {
        "bin/nvcc",      "bin/cudafe++",          "bin/ptxas", "bin/fatbinary", "bin/cicc",
        "nvvm/bin/cicc", "include/cuda_runtime.h"};
    static const char *const host[] = {"/usr/bin/gcc", "/usr/bin/g++", "/usr/bin/as",
                                       "/usr/bin/ld"};
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX hash;

    SHA256Init(&hash);
    hash_bytes(&hash, source, bytes);
    hash_bytes(&hash, sheet.ending, strlen(sheet.ending)); // decides which compiler is used
    hash_judge(&hash);
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        char *path = text("%s/%s", root, files[i]);
        hash_file(&hash, path);
        free(path);
    }
    if (sheet.model) {
        hash_file(&hash, text("%s/code/model/model.h", root));
        hash_file(&hash, text("%s/code/host/host.h", root));
        hash_file(&hash, text("%s/build/%s", root, sheet.program));
    }
    for (size_t i = 0; i < sizeof tools / sizeof *tools; ++i) {
        char *path = text("%s/build/cuda/%s", root, tools[i]);
        hash_tool(&hash, path);
        free(path);
    }
    for (size_t i = 0; i < sizeof host / sizeof *host; ++i)
        hash_tool(&hash, host[i]);
    return text("%s/%s.built", kept_folder(), SHA256End(&hash, hex));
}

char *records_path(const struct submission *s)
{
    return text("%.*s.launches", (int)(strlen(s->kept) - strlen(".built")), s->kept);
}

// ---- Entries ------------------------------------------------------------------------------------
//
// An entry is a hash of what follows; then PTX and machine code, if there are kernels; then the
// program. These parts are written as HAND_OUT prints files: size, newline, bytes.

static bool take_parts(struct submission *s, const struct stream *entry, char **program,
                       size_t *bytes)
{
    size_t at = SHA256_DIGEST_STRING_LENGTH - 1;
    char hex[SHA256_DIGEST_STRING_LENGTH];

    if (entry->size <= at ||
        memcmp(SHA256Data((uint8_t *)entry->bytes + at, entry->size - at, hex), entry->bytes, at))
        return false;
    if (!sheet.journal && (!take_file(entry, &at, &s->ptx, &s->ptx_bytes) ||
                           !take_file(entry, &at, &s->cubin, &s->cubin_bytes)))
        return false;
    return take_file(entry, &at, program, bytes) && at == entry->size;
}

bool built_take(struct submission *s, const char *path)
{
    struct stream entry = {0};
    char *program = NULL;
    size_t bytes = 0;

    if (options.unsafe || !(entry.bytes = read_file(path, &entry.size)))
        return false;
    bool good = take_parts(s, &entry, &program, &bytes);
    if (good) {
        write_work(s, "program", program, bytes, 0755);
        utimensat(AT_FDCWD, path, NULL, 0); // marks the entry as used
    } else {
        free(s->ptx);
        free(s->cubin);
        s->ptx = s->cubin = NULL;
    }
    free(program);
    free(entry.bytes);
    return good;
}

struct entry_file {
    const char *path;
    off_t bytes;
    struct timespec used;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry_file *)a)->used;
    const struct timespec *y = &((const struct entry_file *)b)->used;

    return x->tv_sec != y->tv_sec     ? (x->tv_sec < y->tv_sec ? 1 : -1)
           : x->tv_nsec != y->tv_nsec ? (x->tv_nsec < y->tv_nsec ? 1 : -1)
                                      : 0;
}

// Removes .built and .plain files beyond KEPT_BYTES_MAX, those used longest ago first. Another
// judge may do the same at the same time: it is no error if a file is gone already.
static void make_room(void)
{
    char *pattern = text("%s/*.[bp]*[tn]", kept_folder());
    struct stat about;
    glob_t found;
    off_t bytes = 0;

    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        struct entry_file *files = need(calloc(found.gl_pathc, sizeof *files));
        for (size_t i = 0; i < found.gl_pathc; ++i) {
            files[i].path = found.gl_pathv[i];
            if (stat(files[i].path, &about) == 0) {
                files[i].bytes = about.st_size;
                files[i].used = about.st_mtim;
            }
        }
        qsort(files, found.gl_pathc, sizeof *files, by_use);
        for (size_t i = 0; i < found.gl_pathc; ++i)
            if ((bytes += files[i].bytes) > KEPT_BYTES_MAX)
                unlink(files[i].path);
        free(files);
        globfree(&found);
    }
    free(pattern);
}

void built_keep(const struct submission *s, const char *path)
{
    char *own = text("%s/program", s->folder), *entry = NULL, why[4352];
    char hex[SHA256_DIGEST_STRING_LENGTH];
    size_t at = sizeof hex - 1, size = 0, bytes;
    char *program = options.unsafe ? NULL : read_file(own, &bytes);
    FILE *file = program ? open_memstream(&entry, &size) : NULL;

    if (file) {
        fprintf(file, "%*s", (int)at, ""); // room for the hash, which is written last
        if (!sheet.journal) {
            fprintf(file, "%zu\n", s->ptx_bytes);
            fwrite(s->ptx, 1, s->ptx_bytes, file);
            fprintf(file, "%zu\n", s->cubin_bytes);
            fwrite(s->cubin, 1, s->cubin_bytes, file);
        }
        fprintf(file, "%zu\n", bytes);
        fwrite(program, 1, bytes, file);
        if (fclose(file) == 0) {
            memcpy(entry, SHA256Data((uint8_t *)entry + at, size - at, hex), at);
            // If writing fails, the next grading compiles the text again.
            if (file_write(path, entry, size, why, sizeof why))
                make_room();
        }
    }
    free(entry);
    free(program);
    free(own);
}

// Reads a kept preprocessed text; its file is the SHA-256 of the text, then the text. False: the
// file is missing or damaged.
bool plain_take(struct source *plain, const char *path)
{
    const size_t at = SHA256_DIGEST_STRING_LENGTH - 1;
    char hex[SHA256_DIGEST_STRING_LENGTH];
    size_t size = 0;
    char *entry = options.unsafe ? NULL : read_file(path, &size);
    bool good = entry && size > at &&
                memcmp(SHA256Data((uint8_t *)entry + at, size - at, hex), entry, at) == 0;

    if (good) {
        *plain = (struct source){memmove(entry, entry + at, size - at + 1), size - at};
        utimensat(AT_FDCWD, path, NULL, 0); // marks the entry as used
    } else {
        free(entry);
    }
    return good;
}

// Keeps a preprocessed text. Removes no old entries: that is done when the next program is kept.
void plain_keep(const struct source *plain, const char *path)
{
    const size_t at = SHA256_DIGEST_STRING_LENGTH - 1;
    char hex[SHA256_DIGEST_STRING_LENGTH], why[4352];
    char *entry = options.unsafe ? NULL : malloc(at + plain->bytes + 1);

    if (!entry)
        return;
    SHA256Data((const uint8_t *)plain->text, plain->bytes, hex);
    memcpy(entry, hex, at);
    memcpy(entry + at, plain->text, plain->bytes);
    // If writing fails, the text is preprocessed again next time.
    file_write(path, entry, at + plain->bytes, why, sizeof why);
    free(entry);
}
