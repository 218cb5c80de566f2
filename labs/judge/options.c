// options.c: the options, and what follows from them alone: whether submissions are timed, and the
// keys from which inputs are drawn.
#include "judge.h"

#include <crypt.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct options options;

enum { SECRET_LEAST = 16 }; // bytes

bool is_timed(void)
{
    return !options.cpu_only && (options.slurm ? options.gres != NULL : gpu_here());
}

// Reads a line of random hex digits from a file in build/grade; *made: set if the file is new. If
// two judges make the file at the same time, it still appears whole, and the first judge's stays.
static char *random_line(const char *name, bool *made)
{
    char *path = text("%s/build/grade/%s", root, name);
    char *fresh = text("%s.XXXXXX", path);
    uint8_t random[32];
    char hex[SHA256_DIGEST_STRING_LENGTH];
    size_t bytes;

    mkdir(text("%s/build/grade", root), 0700);
    if (access(path, F_OK)) {
        int fd = mkostemp(fresh, O_CLOEXEC); // only its owner can read it
        if (getrandom(random, sizeof random, 0) != sizeof random)
            fail(EXIT_MACHINE, "no random bytes");
        dprintf(fd, "%s\n", SHA256Data(random, sizeof random, hex));
        close(fd);
        *made = link(fresh, path) == 0;
        unlink(fresh);
    }
    char *line = read_file(path, &bytes);
    if (!line || bytes < 64)
        fail(EXIT_MACHINE, "cannot make %s", path);
    free(fresh);
    free(path);
    return line;
}

static char *make_secret(void)
{
    bool made = false;
    char *secret = random_line("secret", &made);

    if (made)
        fprintf(
            stderr,
            "grade: a secret was made: %s/build/grade/secret (keep it, and keep it to yourself)\n",
            root);
    return secret;
}

// Derives the key from a secret by yescrypt, which the C library's crypt(3) offers for passwords:
// each guess at the secret costs about 50 ms and 32 MB. The salt is the same everywhere, so that a
// secret gives the same grades everywhere.
static void stretch_secret(const char *secret)
{
    static const char yescrypt[] = "$y$jAT$AttentionInStages.....";
    struct crypt_data *data = calloc(1, sizeof *data);
    char hex[SHA256_DIGEST_STRING_LENGTH]; // SHA-256 of the secret: equally long for every secret
    SHA2_CTX hash;

    SHA256Data((const uint8_t *)secret, strlen(secret), hex);
    const char *stretched = data ? crypt_r(hex, yescrypt, data) : NULL;
    if (!stretched || strncmp(stretched, yescrypt, sizeof yescrypt - 1) != 0)
        fail(EXIT_MACHINE, "crypt(3) has no yescrypt here, or no memory for it (32 MB)");
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)stretched, strlen(stretched));
    SHA256Final(options.secret, &hash);
    explicit_bzero(data, sizeof *data);
    free(data);
}

static void read_secret(void)
{
    const char *given = getenv("GRADE_SECRET");
    const char *from = options.secret_file ? options.secret_file : "GRADE_SECRET";
    size_t bytes;
    char *secret;

    if (options.secret_file) {
        secret = read_file(options.secret_file, &bytes);
        if (!secret)
            fail(EXIT_USAGE, "--secret: %s is not there", options.secret_file);
    } else {
        secret = given && *given ? text("%s", given) : make_secret();
    }
    secret[strcspn(secret, "\r\n")] = '\0'; // one line, with or without a newline
    if (strlen(secret) < SECRET_LEAST)
        fail(EXIT_USAGE,
             "the secret of %s has %zu bytes, and %d are the least: head -c 24 /dev/urandom | "
             "base64 "
             "makes one",
             from, strlen(secret), SECRET_LEAST);
    stretch_secret(secret);
    explicit_bzero(secret, strlen(secret));
    unsetenv("GRADE_SECRET");
}

// Reads the key for published seeds. Students see these seeds, so they must reveal nothing about
// the secret, and nobody may know them in advance. With --check, which runs only the book's own
// programs, the key is made from the secret's key, so that one secret gives the same seeds
// anywhere.
static void read_seeds(void)
{
    bool made;
    char *line = options.check ? NULL : random_line("seeds", &made);
    SHA2_CTX hash;

    SHA256Init(&hash);
    SHA256Update(&hash, line ? (const uint8_t *)line : options.secret,
                 line ? 64 : sizeof options.secret);
    SHA256Final(options.seeds, &hash);
    free(line);
}

void secrets_read(void)
{
    read_secret();
    read_seeds();
}
