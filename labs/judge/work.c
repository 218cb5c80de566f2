// work.c: a submission's folder, in which it is compiled and run, and the time that it may take.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- Time by the clock --------------------------------------------------------------------------

// Seconds by the clock: --wall or, by default, three times the CPU time that the kernels may use,
// times the number of processes that share a core at present.
static int wall_seconds(void)
{
    double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);

    getloadavg(&load, 1);
    double share = fmax(load, options.jobs) / cores;
    return options.wall ? options.wall : (int)(3 * RUNNER_SECONDS * fmax(1, ceil(share)));
}

void wall_begin(struct submission *s)
{
    s->wall = wall_seconds();
    s->end = now() + s->wall;
}

double wall_left(const struct submission *s, double most)
{
    double left = s->end > 0 ? s->end - now() : most;
    return left < 0 ? 0 : left < most ? left : most;
}

bool wall_over(const struct submission *s)
{
    return s->end > 0 && now() >= s->end;
}

char *wall_told(const struct submission *s)
{
    return text("took longer than %d s by the clock in all", s->wall);
}

// ---- Folders ------------------------------------------------------------------------------------

#define FOLDERS "/tmp/grade." // with six characters after it

// Removes the folder, which contains no other folders; nothing in a box can reach outside of it.
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

void work_make(struct submission *s)
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
        if (s->lock >= 0) // another judge removed the folder before it was locked
            close(s->lock);
    }
}

void work_remove(struct submission *s)
{
    remove_folder(s->folder);
    close(s->lock);
    free(s->folder);
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

// ---- Files --------------------------------------------------------------------------------------

bool take_file(const struct stream *made, size_t *at, char **bytes, size_t *size)
{
    char *end;

    if (*at >= made->size)
        return false;
    *size = strtoul(made->bytes + *at, &end, 10);
    if (*end != '\n')
        return false;
    *at = (size_t)(end + 1 - made->bytes);
    if (*size == 0 || *size > made->size - *at)
        return false;
    *bytes = need(malloc(*size + 1));
    memcpy(*bytes, made->bytes + *at, *size);
    (*bytes)[*size] = '\0';
    *at += *size;
    return true;
}

void write_work(const struct submission *s, const char *name, const char *bytes, size_t size,
                mode_t mode)
{
    char *path = text("%s/%s", s->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;

    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(errno));
    free(path);
}
