// slurm.c: grades the submissions of a folder as elements of a Slurm job array.
//
// The waiting judge writes a spool, its own folder (mode 0700) under build/grade/slurm/, with every
// submission's text, the lab's sheet, and a task that has the keys under which results are kept. An
// element of the array is `judge --element SPOOL` on some node: it grades one submission, and keeps
// the result where a local run would. All nodes see the repository under the same path.
//
// Slurm shows names and states of jobs to every user, and scripts and environments to
// administrators. All that it learns is the spool's name: neither the secret nor whose submissions
// they are.
//
// A job has its spool's name, and is found by it: if a judge is killed at any point, the next one
// finds what is left.
#include "judge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ARRAY_MAX = 1000,      // Slurm's MaxArraySize is 1001 by default
    UNSEEN_SECONDS = 60,   // after which a shared folder surely shows what another machine wrote
    STALE_SECONDS = 86400, // age at which a spool without a job on this cluster is a leftover
    SAY_SECONDS = 30,
};

// ---- Commands -----------------------------------------------------------------------------------

// Runs a command; returns its exit status. *said: what it wrote to stdout and stderr, for the
// caller to free.
static int command(char *const argv[], char **said)
{
    size_t size = 0;
    FILE *to = open_memstream(said, &size);
    char buffer[4096];
    int ends[2], status = 0;
    ssize_t n;

    if (!to || pipe2(ends, O_CLOEXEC))
        fail(EXIT_MACHINE, "cannot start %s: %s", argv[0], strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail(EXIT_MACHINE, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    while ((n = read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            fwrite(buffer, 1, (size_t)n, to);
    close(ends[0]);
    fclose(to);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The last line that begins with a prefix, without the prefix; if there is none, the last line that
// is not empty. For the caller to free.
static char *named_line(const char *words, const char *prefix)
{
    const char *found = "", *named = NULL;
    size_t length = 0, named_length = 0;

    for (const char *at = words; at && *at; at += *at == '\n') {
        size_t here = strcspn(at, "\n");
        if (here > 0) {
            found = at;
            length = here;
        }
        if (strncmp(at, prefix, strlen(prefix)) == 0) {
            named = at + strlen(prefix);
            named_length = here - strlen(prefix);
        }
        at += here;
    }
    if (named) {
        found = named;
        length = named_length;
    }
    return cleaned(found, length < 400 ? length : 400);
}

static void remove_folder(const char *folder)
{
    char *argv[] = {"rm", "-rf", "--", (char *)folder, NULL}, *said;
    command(argv, &said);
    free(said);
}

// ---- Spools -------------------------------------------------------------------------------------

struct element {
    const char *key;                   // key of the result; NULL: nobody waits for it any more
    char state[32], node[64], why[64]; // as Slurm reported last; "": not reported
    double over;                       // when it was first seen to have ended; 0: it has not
};

struct spool {
    char *folder, *name;
    struct element *elements;
    int count;
};

struct waiting {
    struct entry *entries;
    char **failed; // for each entry, one line on why it failed; or NULL
    int count, ended;
    tell_entry *tell;
    struct spool *spools;
    int spool_count;
};

static const char *key_of(const struct entry *e)
{
    return strrchr(e->kept, '/') + 1;
}

static struct spool *add_spool(struct waiting *w, const char *folder, int count)
{
    w->spools = realloc(w->spools, (size_t)(w->spool_count + 1) * sizeof *w->spools);
    struct spool s = {.folder = text("%s", folder),
                      .name = text("%s", strrchr(folder, '/') + 1),
                      .elements = calloc((size_t)count + 1, sizeof *s.elements),
                      .count = count};
    if (!w->spools || !s.elements)
        fail(EXIT_MACHINE, "out of memory");
    w->spools[w->spool_count] = s;
    return &w->spools[w->spool_count++];
}

// The element that grades an entry; NULL: there is none.
static struct element *element_of(const struct waiting *w, const struct entry *e,
                                  const struct spool **spool)
{
    for (int s = 0; s < w->spool_count; ++s)
        for (int k = 0; k < w->spools[s].count; ++k)
            if (w->spools[s].elements[k].key &&
                strcmp(w->spools[s].elements[k].key, key_of(e)) == 0) {
                *spool = &w->spools[s];
                return &w->spools[s].elements[k];
            }
    return NULL;
}

static void write_into(const char *folder, const char *name, const char *bytes, size_t count)
{
    char *path = text("%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");

    bool written = to && fwrite(bytes, 1, count, to) == count;
    if (!to || fclose(to) || !written)
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(errno));
    free(path);
}

static char *doubled(const char *path) // doubles each %, since Slurm replaces %a by a number
{
    char *name = need(malloc(2 * strlen(path) + 1)), *at = name;

    for (; *path; *at++ = *path++)
        if (*path == '%')
            *at++ = '%';
    *at = '\0';
    return name;
}

static char *quoted(const char *word) // quotes a word for the shell
{
    char *quote = need(malloc(4 * strlen(word) + 3)), *at = quote;

    *at++ = '\'';
    for (; *word; ++word) {
        if (*word == '\'')
            at = stpcpy(at, "'\\'");
        *at++ = *word;
    }
    strcpy(at, "'");
    return quote;
}

static json_t *key_in_hex(const uint8_t key[SHA256_DIGEST_LENGTH])
{
    char hex[2 * SHA256_DIGEST_LENGTH + 1];

    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; ++i)
        sprintf(hex + 2 * i, "%02x", key[i]);
    return json_string(hex);
}

// Writes a spool for the entries with these indices.
static const char *write_spool(const struct waiting *w, const int *of, int count)
{
    json_t *keys = json_array();
    char *folder = text("%s/build/grade/slurm/lab%02d-XXXXXX", root, sheet.number);
    char *judge = quoted(text("%s/build/judge", root));

    if (!mkdtemp(folder))
        fail(EXIT_MACHINE, "cannot make %s: %s", folder, strerror(errno));
    for (int i = 0; i < count; ++i) {
        const struct entry *e = &w->entries[of[i]];
        write_into(folder, text("%d.%s", i, sheet.ending), e->source, e->bytes);
        json_array_append_new(keys, json_string(key_of(e)));
    }
    write_into(folder, "lab.json", sheet.text, strlen(sheet.text));
    char *task =
        json_dumps(json_pack("{s:i, s:i, s:b, s:b, s:b, s:o, s:o, s:o}", "lab", sheet.number,
                             "wall", options.wall, "timed", is_timed(), "unsafe", options.unsafe,
                             "no_film", options.no_film, "secret", key_in_hex(options.secret),
                             "seeds", key_in_hex(options.seeds), "keys", keys),
                   JSON_INDENT(1));
    if (!task)
        fail(EXIT_MACHINE, "out of memory");
    write_into(folder, "task.json", task, strlen(task));
    const char *path = getenv("PATH");
    const char *script = text("#!/bin/sh\nPATH=%s exec %s --element %s\n",
                              quoted(path ? path : "/usr/bin:/bin"), judge, quoted(folder));
    write_into(folder, "run", script, strlen(script));
    return folder;
}

static void submit(struct waiting *w, const int *of, int count)
{
    const char *folder = write_spool(w, of, count);
    char *argv[24], *said;
    int n = 0;

    argv[n++] = "sbatch";
    argv[n++] = "--parsable";
    argv[n++] = text("--job-name=%s", strrchr(folder, '/') + 1);
    argv[n++] = options.jobs ? text("--array=0-%d%%%d", count - 1, options.jobs)
                             : text("--array=0-%d", count - 1);
    argv[n++] = "--export=NIL"; // no variable of this environment is passed on
    argv[n++] = text("--chdir=%s", root);
    argv[n++] = text("--output=%s/%%a.log", doubled(folder));
    argv[n++] = "--open-mode=truncate";
    argv[n++] = "--nodes=1";
    argv[n++] = "--ntasks=1";
    argv[n++] = "--cpus-per-task=1";
    // More than the sandbox allows in memory and time: a submission should exceed the sandbox's
    // limits first, which costs it points, and not Slurm's, which end the element.
    argv[n++] = "--mem=8G";
    argv[n++] = text("--time=%s", options.time_limit ? options.time_limit : "60");
    if (options.partition)
        argv[n++] = text("--partition=%s", options.partition);
    if (options.gres)
        argv[n++] = text("--gres=%s", options.gres);
    argv[n++] = text("%s/run", folder);
    argv[n] = NULL;
    int status = command(argv, &said);
    if (status) {
        remove_folder(folder);
        fail(EXIT_MACHINE, "sbatch: %s", named_line(said, "sbatch: error: "));
    }
    const char *id = named_line(said, "");
    printf("Slurm has %d submission%s as job %.*s, %s: the same line again collects them if this "
           "one is interrupted\n",
           count, count == 1 ? "" : "s", (int)strcspn(id, ";"), id, strrchr(folder, '/') + 1);
    fflush(stdout);
    struct spool *s = add_spool(w, folder, count);
    for (int i = 0; i < count; ++i)
        s->elements[i].key = key_of(&w->entries[of[i]]);
    free(said);
}

static void find_sbatch(void)
{
    char *argv[] = {"sbatch", "--version", NULL}, *said;

    if (command(argv, &said) == 127)
        fail(EXIT_MACHINE, "there is no sbatch here: --slurm is for a machine from which jobs "
                           "are submitted");
    free(said);
}

// ---- Slurm's answers ----------------------------------------------------------------------------

static bool is_over(const char *state)
{
    static const char *const over[] = {"BOOT_FAIL",     "CANCELLED",     "COMPLETED", "DEADLINE",
                                       "FAILED",        "NODE_FAIL",     "PREEMPTED", "REVOKED",
                                       "OUT_OF_MEMORY", "LAUNCH_FAILED", "TIMEOUT"};
    for (size_t i = 0; i < sizeof over / sizeof *over; ++i)
        if (strcmp(state, over[i]) == 0)
            return true;
    return false;
}

// Reads one line of squeue, name|element|state|node|reason. A job cancelled while it was pending
// has one line for all its elements, whose element is N/A.
static void take_line(struct waiting *w, const char *line)
{
    char name[64], element[64], state[32], node[64] = "", why[64] = "";
    const char *fields[] = {name, element, state, node, why};
    const size_t sizes[] = {sizeof name, sizeof element, sizeof state, sizeof node, sizeof why};

    for (int i = 0; i < 5; ++i) {
        size_t length = strcspn(line, "|\n");
        if (i < 4 && line[length] != '|')
            return; // the line is not about an element
        snprintf((char *)fields[i], sizes[i], "%.*s", (int)length, line);
        line += length + (line[length] == '|');
    }
    bool rest = strspn(element, "0123456789") != strlen(element);
    for (int i = 0; i < w->spool_count; ++i)
        for (int k = 0; k < w->spools[i].count; ++k) {
            struct element *e = &w->spools[i].elements[k];
            if (strcmp(w->spools[i].name, name) ||
                (rest ? *e->state || !is_over(state) : atoi(element) != k) ||
                (*e->state && !is_over(e->state))) // keeps a state that is not over: the element
                                                   // was queued again after it ended
                continue;
            strcpy(e->state, state);
            strcpy(e->node, node);
            strcpy(e->why, why);
        }
}

// Asks Slurm for the states; false: it does not answer, and *why says so in one line.
static bool ask_slurm(struct waiting *w, char **why)
{
    size_t size = 0;
    char *names = NULL, *said;
    FILE *list = open_memstream(&names, &size);

    if (w->spool_count == 0)
        return true;
    for (int s = 0; s < w->spool_count; ++s)
        fprintf(list, "%s%s", s ? "," : "", w->spools[s].name);
    fclose(list);
    char *argv[] = {"squeue",
                    "--noheader",
                    "--array",
                    "--states=all",
                    text("--user=%u", (unsigned)getuid()),
                    text("--name=%s", names),
                    "--format=%j|%K|%T|%N|%r",
                    NULL};
    int status = command(argv, &said);
    free(names);
    if (status) {
        *why = status == 127 ? text("there is no squeue here")
                             : named_line(said, "slurm_load_jobs error: ");
        free(said);
        return false;
    }
    for (int s = 0; s < w->spool_count; ++s)
        for (int k = 0; k < w->spools[s].count; ++k)
            w->spools[s].elements[k].state[0] = '\0';
    // First the lines for single elements; then lines for a whole job, which apply to its other
    // elements.
    for (int rest = 0; rest < 2; ++rest)
        for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            const char *element = strchr(line, '|');
            if (element && (strncmp(element, "|N/A|", 5) == 0) == rest)
                take_line(w, line);
        }
    free(said);
    return true;
}

// ---- Spools of an earlier run -------------------------------------------------------------------

static void read_spools(struct waiting *w)
{
    char *slurm = text("%s/build/grade/slurm", root);
    DIR *folder = opendir(slurm);

    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (e->d_name[0] == '.')
            continue;
        char *path = text("%s/%s", slurm, e->d_name);
        json_t *task = json_load_file(text("%s/task.json", path), 0, NULL);
        json_t *keys = json_object_get(task, "keys");
        struct spool *s = add_spool(w, path, (int)json_array_size(keys));
        for (int k = 0; k < s->count; ++k)
            s->elements[k].key = json_string_value(json_array_get(keys, (size_t)k));
    }
    if (folder)
        closedir(folder);
}

static bool may_end(const struct element *e)
{
    return *e->state && !is_over(e->state);
}

// Takes over an earlier judge's spools with elements that still run or are pending, and removes the
// other spools that are older than STALE_SECONDS.
static void adopt(struct waiting *w)
{
    char *why;
    int alive = 0, adopted = 0;

    read_spools(w);
    if (!ask_slurm(w, &why))
        fail(EXIT_MACHINE, "Slurm does not answer: %s", why);
    for (int i = 0; i < w->spool_count; ++i) {
        struct spool *s = &w->spools[i];
        struct stat about;
        int living = 0;
        for (int k = 0; k < s->count; ++k)
            if (may_end(&s->elements[k]))
                ++living;
            else
                s->elements[k].key = NULL;
        if (living)
            w->spools[alive++] = *s;
        else if (stat(s->folder, &about) || time(NULL) - about.st_mtime > STALE_SECONDS)
            // Old spools only: a newer one may belong to another judge, or to another cluster.
            remove_folder(s->folder);
    }
    w->spool_count = alive;
    for (int i = 0; i < w->count; ++i) {
        const struct spool *s;
        adopted += !w->entries[i].result && element_of(w, &w->entries[i], &s);
    }
    if (adopted)
        printf("Slurm has %d of them from before\n", adopted);
}

// ---- Waiting ------------------------------------------------------------------------------------

static void collect(struct waiting *w)
{
    // Reading the folder makes a network file system look for new files.
    DIR *kept = opendir(text("%s/build/grade/kept", root));
    while (kept && readdir(kept))
        ;
    if (kept)
        closedir(kept);
    for (int i = 0; i < w->count; ++i)
        if (!w->entries[i].result && !access(w->entries[i].kept, R_OK)) {
            entry_finish(&w->entries[i], &w->ended, w->count, w->tell);
            w->failed[i] = NULL;
        }
}

// Why an element ended without a result.
static char *reason(const struct spool *s, const struct element *e)
{
    static const struct {
        const char *state, *words;
    } known[] = {
        {"CANCELLED", "was cancelled"},
        {"TIMEOUT", "was stopped when its time was up (--time T gives it more)"},
        {"DEADLINE", "was stopped when its time was up (--time T gives it more)"},
        {"OUT_OF_MEMORY", "ran out of memory"},
        {"NODE_FAIL", "was lost when its node failed"},
        {"BOOT_FAIL", "was lost when its node failed"},
        {"PREEMPTED", "had to make room for another job"},
        {"", "is unknown to Slurm, and left no result"},
    };
    size_t bytes;

    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(e->state, known[i].state) == 0)
            return text("%s", known[i].words);
    char *log = read_file(text("%s/%d.log", s->folder, (int)(e - s->elements)), &bytes);
    char *line = named_line(log, "grade: ");
    free(log);
    return text("failed on node %s: %s", *e->node ? e->node : "?",
                *line ? line : "it left no result and no word");
}

// Marks the elements that have ended without a result; returns how many others may still bring one.
static int look_for_failures(struct waiting *w)
{
    int left = 0;

    for (int i = 0; i < w->count; ++i) {
        const struct spool *s;
        struct element *e = element_of(w, &w->entries[i], &s);
        if (w->entries[i].result || w->failed[i])
            continue;
        // An element that ended well has written its result, which may not be visible on this
        // machine yet.
        bool unseen = strcmp(e->state, "COMPLETED") == 0 || !*e->state;
        e->over = may_end(e) ? 0 : e->over > 0 ? e->over : now();
        if (e->over > 0 && now() - e->over >= (unseen ? UNSEEN_SECONDS : 0))
            w->failed[i] = reason(s, e);
        else
            ++left;
    }
    return left;
}

static void say_state(const struct waiting *w)
{
    int running = 0, pending = 0;
    const char *why = "";

    for (int s = 0; s < w->spool_count; ++s)
        for (int k = 0; k < w->spools[s].count; ++k) {
            const struct element *e = &w->spools[s].elements[k];
            bool waits = strcmp(e->state, "PENDING") == 0;
            running += may_end(e) && !waits;
            pending += waits;
            why = waits && *e->why && strcmp(e->why, "None") ? e->why : why;
        }
    printf("Slurm: %d running, %d pending%s%s%s\n", running, pending, *why ? " (" : "", why,
           *why ? ")" : "");
    fflush(stdout);
}

static void wait_for_all(struct waiting *w)
{
    double ask = now() + 1, between = 1, said = now();
    int ended = w->ended;
    bool silent = false;
    char *why;

    for (;;) {
        collect(w);
        if (w->ended == w->count)
            return;
        if (w->ended > ended) {
            ended = w->ended;
            said = now();
        }
        if (now() >= ask) {
            bool answers = ask_slurm(w, &why);
            if (!answers && !silent)
                fprintf(stderr, "grade: Slurm does not answer (%s): waiting\n", why);
            silent = !answers;
            if (answers) {
                collect(w); // results that arrived while Slurm was asked
                if (look_for_failures(w) == 0)
                    return;
                if (now() - said > SAY_SECONDS) {
                    say_state(w);
                    said = now();
                }
            }
            // Waits longer each time, since squeue is a load on the cluster.
            between = between < 10 ? 1.5 * between : 15;
            ask = now() + between;
        }
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
}

// Prints a line for each reason; without all results there is no gradebook.
static void report_failures(const struct waiting *w)
{
    int missing = 0;

    for (int i = 0; i < w->count; ++i) {
        int same = 0, before = 0;
        if (!w->failed[i])
            continue;
        ++missing;
        for (int j = 0; j < w->count; ++j)
            if (w->failed[j] && strcmp(w->failed[j], w->failed[i]) == 0) {
                ++same;
                before += j < i;
            }
        if (before)
            continue;
        fprintf(stderr, "grade: %s%s: %s\n", w->entries[i].name,
                same == 1 ? "" : text(" and %d more", same - 1), w->failed[i]);
    }
    if (missing)
        fail(EXIT_MACHINE, "%d of %d were not graded: the same line again goes on from here",
             missing, w->count);
}

static bool is_kept(const struct element *e)
{
    char *kept = text("%s/build/grade/kept/%s", root, e->key ? e->key : "");
    bool is = access(kept, R_OK) == 0;

    free(kept);
    return is;
}

// Cleans up. A job of an earlier judge may have elements that nobody waits for, and a killed judge
// may have left a spool whose results are all there.
static void clear_away(const struct waiting *w)
{
    struct waiting lying = {0};

    for (int i = 0; i < w->spool_count; ++i) {
        bool used = false;
        for (int k = 0; k < w->spools[i].count && !used; ++k) {
            const struct element *e = &w->spools[i].elements[k];
            used = e->key && may_end(e) && !is_kept(e);
        }
        if (!used)
            remove_folder(w->spools[i].folder);
    }
    read_spools(&lying);
    for (int i = 0; i < lying.spool_count; ++i) {
        int missing = lying.spools[i].count == 0; // an empty spool is another judge's, and new
        for (int k = 0; k < lying.spools[i].count; ++k)
            missing += !is_kept(&lying.spools[i].elements[k]);
        if (!missing)
            remove_folder(lying.spools[i].folder);
    }
}

void slurm_grade(struct entry *entries, int count, tell_entry *tell)
{
    struct waiting w = {.entries = entries, .count = count, .tell = tell};
    int *of = need(calloc((size_t)count, sizeof *of)), some = 0;
    const struct spool *s;

    w.failed = need(calloc((size_t)count, sizeof *w.failed));
    mkdir(text("%s/build/grade/slurm", root), 0700);
    for (int i = 0; i < count; ++i) {
        if (options.fresh)
            unlink(entries[i].kept); // so that a result found later is one of this job
        if (!entries[i].source && access(entries[i].kept, R_OK) && !entry_grade(&entries[i]))
            fail(EXIT_MACHINE, "cannot write %s: %s", entries[i].kept, strerror(errno));
    }
    collect(&w);
    if (w.ended < count) {
        find_sbatch();
        adopt(&w);
    }
    for (int i = 0; i < count; ++i) {
        bool again = entries[i].result || element_of(&w, &entries[i], &s);
        for (int j = 0; j < some && !again; ++j)
            again = strcmp(entries[of[j]].kept, entries[i].kept) == 0;
        if (!again)
            of[some++] = i;
    }
    for (int i = 0; i < some; i += ARRAY_MAX)
        submit(&w, of + i, some - i < ARRAY_MAX ? some - i : ARRAY_MAX);
    wait_for_all(&w);
    clear_away(&w);
    report_failures(&w);
}

// ---- On a node ----------------------------------------------------------------------------------

static const char *word_of(json_t *task, const char *key)
{
    const char *word = json_string_value(json_object_get(task, key));
    return word ? word : "";
}

static void take_key(uint8_t key[SHA256_DIGEST_LENGTH], json_t *task, const char *name,
                     const char *folder)
{
    const char *hex = word_of(task, name);

    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; ++i)
        if (strlen(hex) != 2 * SHA256_DIGEST_LENGTH || sscanf(hex + 2 * i, "%2hhx", &key[i]) != 1)
            fail(EXIT_MACHINE, "%s/task.json is damaged", folder);
}

int slurm_element(const char *folder)
{
    const char *index = getenv("SLURM_ARRAY_TASK_ID");
    json_t *task = json_load_file(text("%s/task.json", folder), 0, NULL);
    char *why;
    size_t bytes;

    if (!task || !index)
        fail(EXIT_MACHINE, "there is no task in %s: is the folder the same on every node?", folder);
    options.lab = (int)json_integer_value(json_object_get(task, "lab"));
    options.lab_file = text("%s/lab.json", folder);
    options.cpu_only = !json_is_true(json_object_get(task, "timed"));
    options.unsafe = json_is_true(json_object_get(task, "unsafe"));
    options.no_film = json_is_true(json_object_get(task, "no_film"));
    options.wall = (int)json_integer_value(json_object_get(task, "wall"));
    options.threads = 1;
    take_key(options.secret, task, "secret", folder);
    take_key(options.seeds, task, "seeds", folder);
    lab_read();
    if (!options.cpu_only && !gpu_here())
        fail(EXIT_MACHINE, "Slurm gave no GPU that can be used");
    if (!sandbox_works(&why))
        fail(EXIT_MACHINE, "%s", why);
    submission_tidy();
    json_t *keys = json_object_get(task, "keys");
    struct entry e = {.name = "",
                      .source = read_file(text("%s/%s.%s", folder, index, sheet.ending), &bytes)};
    e.bytes = bytes;
    if (e.source)
        entry_keep(&e);
    const char *key = json_string_value(json_array_get(keys, (size_t)atoi(index)));
    if (!e.source || !key || strcmp(key, key_of(&e)))
        fail(EXIT_MACHINE, "the grader or its files are others than when this was submitted");
    if (!entry_grade(&e))
        fail(EXIT_MACHINE, "cannot write %s", e.kept);
    return EXIT_GRADED;
}
