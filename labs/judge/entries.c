// entries.c: grades submissions in processes of their own, several at a time. A result is kept
// under a hash of all that it depends on: so an interrupted run can be continued, and a file that
// occurs twice is graded once. Names do not affect a grade.
#include "judge.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// The hash covers the submission's source, or the reason why there is none; the lab with its own
// program; the secret, and the key for published seeds; this grader; and the options that change a
// result.
void entry_keep(struct entry *e)
{
    SHA2_CTX s;
    char hex[SHA256_DIGEST_STRING_LENGTH];
    const char *grader = grader_hash();
    bool gpu = is_timed();
    const bool has_source = e->source != NULL;
    const struct {
        const void *at;
        size_t bytes;
    } parts[] = {
        {&has_source, sizeof has_source},
        {e->source ? e->source : e->why, e->source ? e->bytes : strlen(e->why)},
        {lab_hash, sizeof lab_hash},
        {options.secret, sizeof options.secret},
        {options.seeds, sizeof options.seeds},
        {grader, strlen(grader)},
        {&gpu, sizeof gpu},
        {&options.no_film, sizeof options.no_film},
        {&options.wall, sizeof options.wall},
        {options.item ? options.item : "", options.item ? strlen(options.item) : 0},
    };
    SHA256Init(&s);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        hash_bytes(&s, parts[i].at, parts[i].bytes);
    e->kept = text("%s/%s.json", kept_folder(), SHA256End(&s, hex));
}

enum status result_status(const json_t *result)
{
    const char *refused = json_string_value(json_object_get(result, "refused"));
    const json_t *first = json_array_get(json_object_get(result, "cases"), 0);
    const char *why = json_string_value(json_object_get(first, "why"));

    if (json_is_true(json_object_get(result, "not_graded")))
        return STATUS_NOT_GRADED;
    if (refused)
        return strncmp(refused, "does not compile", 16) == 0 ? STATUS_NO_COMPILE : STATUS_REFUSED;
    if (json_number_value(json_object_get(result, "score")) > 0)
        return STATUS_GRADED;
    return why && strncmp(why, "stopped", 7) == 0 ? STATUS_STOPPED : STATUS_WRONG;
}

json_t *kept_result(const struct entry *e)
{
    json_t *result = json_load_file(e->kept, 0, NULL);
    if (result) // the result may be of the same source under another name
        json_object_set_new(result, "name", json_string(e->name));
    return result;
}

json_t *not_graded(const char *name, const char *why)
{
    json_t *result = refused(name, why);
    json_object_set_new(result, "not_graded", json_true());
    return result;
}

char *film_kept(const struct entry *e)
{
    return text("%.*s.html", (int)(strlen(e->kept) - strlen(".json")), e->kept);
}

bool entry_grade(struct entry *e)
{
    json_t *result = options.pairs
                         ? grade_aims(e->name, e->source, e->bytes, all_sheets, sheet_count)
                     : e->source ? grade(e->name, e->source, e->bytes, e->earlier)
                                 : not_graded(e->name, e->why);
    // The film is written before the result: whoever finds the result finds the film, too.
    film_take(result, film_kept(e));
    char *words = json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    bool written = words && write_text(e->kept, text("%s\n", words));

    free(words);
    json_decref(result);
    return written;
}

static void start_entry(struct entry *e)
{
    fflush(NULL);
    e->pid = fork();
    if (e->pid < 0)
        fail(EXIT_MACHINE, "cannot start a process: %s", strerror(errno));
    // The process ends when its parent does.
    if (e->pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
        _exit(entry_grade(e) ? EXIT_GRADED : EXIT_MACHINE);
}

static bool being_graded(const struct entry *entries, int count, const struct entry *like)
{
    for (int i = 0; i < count; ++i)
        if (entries[i].pid > 0 && strcmp(entries[i].kept, like->kept) == 0)
            return true;
    return false;
}

void entry_finish(struct entry *e, int *ended, int count, tell_entry *tell)
{
    e->result = kept_result(e);
    if (!e->result)
        fail(EXIT_MACHINE, "%s: was not graded; run it again and it goes on from here", e->name);
    tell(++*ended, count, e);
}

// Handles a grading process that was killed, by the kernel for lack of memory or by somebody. The
// entry is graded once more. If that process is killed, too, the entry gets a note instead of a
// result, and the note is not kept.
static void lost_entry(struct entry *e, int signal, int *ended, int count, tell_entry *tell)
{
    submission_tidy();
    e->pid = 0;
    if (e->tries++ == 0) {
        printf("%s: its grading was stopped from outside (%s); once more\n", e->name,
               strsignal(signal));
        fflush(stdout);
        return;
    }
    e->pid = -1;
    e->result =
        not_graded(e->name, text("could not be graded: this was stopped from outside twice (%s)",
                                 strsignal(signal)));
    tell(++*ended, count, e);
}

void grade_entries(struct entry *entries, int count, tell_entry *tell)
{
    int ended = 0, running = 0;

    for (int i = 0; i < count; ++i)
        if (!options.fresh && !access(entries[i].kept, R_OK))
            entry_finish(&entries[i], &ended, count, tell);
    while (ended < count) {
        for (int i = 0; i < count && running < options.jobs; ++i) {
            struct entry *e = &entries[i];
            if (e->result || e->pid || being_graded(entries, count, e))
                continue;
            start_entry(e);
            ++running;
        }
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < count; ++i) {
            struct entry *e = &entries[i];
            if (pid <= 0 || e->pid != pid)
                continue;
            --running;
            if (WIFSIGNALED(status) && access(e->kept, R_OK)) {
                lost_entry(e, WTERMSIG(status), &ended, count, tell);
                continue;
            }
            e->pid = -1;
            for (int j = 0; j < count; ++j) // this entry, and others with the same source
                if (!entries[j].result && (j == i || strcmp(entries[j].kept, e->kept) == 0))
                    entry_finish(&entries[j], &ended, count, tell);
        }
    }
}
