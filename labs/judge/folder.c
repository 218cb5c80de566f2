// folder.c: finds the submissions of a class, and writes their results.
#include "judge.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES_MAX = 10000 };

// ---- The list -----------------------------------------------------------------------------------

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->file, ((const struct entry *)b)->file);
}

// Lists every entry of the folder, except for litter; prints a line for each file that is litter.
static struct entry *list(const char *path, int *count)
{
    struct entry *entries = NULL;
    DIR *folder = opendir(path);

    *count = 0;
    if (!folder)
        fail(EXIT_USAGE, "cannot read %s: %s", path, strerror(errno));
    for (struct dirent *e; (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (litter(e->d_name)) {
            printf("skipped: %s, %s\n", clean_name(e->d_name), litter(e->d_name));
            continue;
        }
        if (*count == ENTRIES_MAX)
            fail(EXIT_USAGE, "more than %d submissions", ENTRIES_MAX);
        entries = need(realloc(entries, ((size_t)*count + 1) * sizeof *entries));
        entries[(*count)++] = (struct entry){.file = text("%s", e->d_name)};
    }
    closedir(folder);
    if (*count)
        qsort(entries, (size_t)*count, sizeof *entries, by_file);
    return entries;
}

// Reads an entry's source, or notes why the entry is not graded: even a file that is not a
// submission gets a row in the gradebook.
static void read_entry(const char *path, struct entry *e)
{
    struct stat about;
    char *whole = text("%s/%s", path, e->file);
    const char *ending = strrchr(e->file, '.');

    e->name = clean_name(e->file);
    if (lstat(whole, &about) == 0 && S_ISREG(about.st_mode) && !ends_well(e->file))
        e->why =
            ending && ending > e->file
                ? text("is a %s file: a submission ends in .%s", clean_name(ending), sheet.ending)
                : text("has no ending: a submission ends in .%s", sheet.ending);
    else
        e->source = submission_source(whole, &e->bytes, &e->why);
    entry_keep(e);
    free(whole);
}

// ---- The outcome of an entry --------------------------------------------------------------------

static const char *const status_names[] = {
    [STATUS_GRADED] = "graded",   [STATUS_WRONG] = "wrong",
    [STATUS_STOPPED] = "stopped", [STATUS_NO_COMPILE] = "does not compile",
    [STATUS_REFUSED] = "refused", [STATUS_NOT_GRADED] = "not graded"};

// Why a submission has no points; "" if it has some. For one that does not compile, the compiler's
// first error.
static char *why_little(const json_t *result)
{
    const char *refused = json_string_value(json_object_get(result, "refused"));
    const char *details = json_string_value(json_object_get(result, "details"));
    const json_t *first = json_array_get(json_object_get(result, "cases"), 0);
    const char *why = json_string_value(json_object_get(first, "why"));
    const char *error = details ? strstr(details, "error") : NULL;

    if (error) {
        while (error > details && error[-1] != '\n')
            --error;
        return text("%s: %.*s", refused ? refused : "", (int)strcspn(error, "\n"), error);
    }
    if (refused)
        return text("%s", refused);
    return text("%s", result_status(result) == STATUS_GRADED || !why ? "" : why);
}

// ---- Grading ------------------------------------------------------------------------------------

static void progress(int ended, int count, const struct entry *e)
{
    char *why = why_little(e->result);
    printf("%*d of %d  %5.1f  %s%s%s\n", count > 99 ? 3 : 2, ended, count,
           json_number_value(json_object_get(e->result, "score")), e->name, *why ? ": " : "", why);
    fflush(stdout);
}

// ---- Output files -------------------------------------------------------------------------------

static char *flags_in_line(const json_t *result)
{
    char *line = text("%s", "");
    const json_t *flag;
    size_t i;

    json_array_foreach (json_object_get(result, "flags"), i, flag)
        line = text("%s%s%s", line, i ? "; " : "", json_string_value(flag));
    return line;
}

// A submission's name without its ending, made fit for a file's name: ASCII characters other than
// letters, digits and "._-" become "_", and at most 40 bytes are kept.
static char *name_for_file(const char *name)
{
    enum { MOST = 40 };
    const char *dot = strrchr(name, '.');
    size_t length = dot && (!strcasecmp(dot, ".cu") || !strcasecmp(dot, ".c"))
                        ? (size_t)(dot - name)
                        : strlen(name);
    if (length > MOST)
        for (length = MOST; (name[length] & 0xc0) == 0x80;) // does not cut within a UTF-8 character
            --length;
    char *safe = text("%.*s", (int)length, name);

    for (char *c = safe; *c; ++c)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c) && !(*c & 0x80))
            *c = '_';
    return safe;
}

// The name of a report: the number of its row in the gradebook, the submission's name, and the
// beginning of the hash under which its result is kept.
static char *report_of(const struct entry *e, int index)
{
    return text("reports/%03d-%s-%.12s", index + 1, name_for_file(e->name),
                strrchr(e->kept, '/') + 1);
}

static void write_gradebook(const char *path, const char *folder, const struct entry *entries,
                            int count)
{
    FILE *to = fopen(path, "we");
    json_t *item;
    size_t index;

    if (!to)
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(errno));
    fputs("submission,score,total", to);
    for (int i = 0; i < sheet.count; ++i)
        fprintf(to, ",%s", sheet.items[i].name);
    fprintf(to, ",status,why,flags,report%s\n", options.deadline ? ",late_days,final" : "");
    for (int i = 0; i < count; ++i) {
        const json_t *r = entries[i].result;
        write_csv(to, entries[i].name);
        fprintf(to, ",%g,%g", json_number_value(json_object_get(r, "score")),
                json_number_value(json_object_get(r, "total")));
        json_array_foreach (json_object_get(r, "items"), index, item) {
            if (json_is_true(json_object_get(item, "by_hand")) ||
                json_is_true(json_object_get(item, "left_out")))
                fputc(',', to);
            else
                fprintf(to, ",%g", json_number_value(json_object_get(item, "points")));
        }
        fprintf(to, ",%s,", status_names[result_status(r)]);
        write_csv(to, why_little(r));
        fputc(',', to);
        write_csv(to, flags_in_line(r));
        fprintf(to, ",%s.txt", report_of(&entries[i], i));
        if (options.deadline) {
            int days = late_days(folder, &entries[i]);
            fprintf(to, ",%d,%g", days,
                    late_points(json_number_value(json_object_get(r, "score")), days));
        }
        fputc('\n', to);
    }
    if (fclose(to))
        fail(EXIT_MACHINE, "cannot write %s", path);
}

// Writes for each graded item how many submissions earned all, some, and none of its points, and
// for each submission what it earned; and draws both as summary.svg.
static void write_summary(const char *out, const struct entry *entries, int count)
{
    char *path = text("%s/summary.tsv", out);
    FILE *to = fopen(path, "we");

    if (!to)
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(errno));
    fputs("item\tall\tsome\tnone\n", to);
    for (int i = 0; i < sheet.count; ++i) {
        int all = 0, some = 0, none = 0;
        for (int j = 0; j < count; ++j) {
            json_t *item = json_array_get(json_object_get(entries[j].result, "items"), (size_t)i);
            if (json_is_true(json_object_get(item, "by_hand")) ||
                json_is_true(json_object_get(item, "left_out")))
                continue;
            double earned = json_number_value(json_object_get(item, "points"));
            all += earned >= sheet.items[i].points;
            some += earned > 0 && earned < sheet.items[i].points;
            none += earned <= 0;
        }
        if (all + some + none)
            fprintf(to, "%s (%d)\t%d\t%d\t%d\n", sheet.items[i].name, sheet.items[i].points, all,
                    some, none);
    }
    fclose(to);
    // Each row: percent of the reachable points, enum status.
    char *totals = text("%s/grades.tsv", out);
    if (!(to = fopen(totals, "we")))
        fail(EXIT_MACHINE, "cannot write %s: %s", totals, strerror(errno));
    for (int j = 0; j < count; ++j)
        fprintf(to, "%g\t%d\n",
                100 * json_number_value(json_object_get(entries[j].result, "score")) /
                    json_number_value(json_object_get(entries[j].result, "total")),
                result_status(entries[j].result));
    fclose(to);
    char *command[] = {"gnuplot",
                       "-c",
                       text("%s/plots/grades.gp", root),
                       path,
                       totals,
                       text("%s/summary.svg", out),
                       text("Lab %d: %s", sheet.number, sheet.title),
                       NULL};
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        if (chdir(root) == 0)
            execvp(command[0], command);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status)
        printf("no chart: gnuplot %s\n", WEXITSTATUS(status) == 127 ? "is not there" : "failed");
}

// Copies a submission's film to a file beside its report, which names it.
static void copy_film(const struct entry *e, const char *to)
{
    json_t *film = json_object_get(e->result, "film");
    size_t bytes;
    char *page = json_is_object(film) ? read_file(film_kept(e), &bytes) : NULL;

    if (page && write_text(to, page))
        json_object_set_new(film, "file", json_string(strrchr(to, '/') + 1));
    else
        unlink(to); // removes the film of an earlier run
    free(page);
}

static void write_reports(const char *out, const struct entry *entries, int count)
{
    char *folder = text("%s/reports", out);

    mkdir(folder, 0777);
    for (int i = 0; i < count; ++i) {
        char *stem = text("%s/%s", out, report_of(&entries[i], i));
        copy_film(&entries[i], text("%s.html", stem));
        FILE *to = fopen(text("%s.txt", stem), "we");
        if (!to)
            fail(EXIT_MACHINE, "cannot write into %s: %s", folder, strerror(errno));
        feedback_human(entries[i].result, to);
        fclose(to);
        char *words = json_dumps(feedback_gradescope(entries[i].result), JSON_INDENT(2));
        if (!words || !write_text(text("%s.results.json", stem), words))
            fail(EXIT_MACHINE, "cannot write into %s", folder);
        free(words);
    }
}

static void write_class_board(const char *out, const struct entry *entries, int count)
{
    const json_t **results = need(calloc((size_t)count + 1, sizeof *results));
    char *path = text("%s/board.md", out);

    for (int i = 0; i < count; ++i)
        results[i] = entries[i].result;
    FILE *to = fopen(path, "we");
    if (!to)
        fail(EXIT_MACHINE, "cannot write %s: %s", path, strerror(errno));
    int timed = write_board(to, results, count);
    fclose(to);
    if (!timed) // removes the ranking of an earlier run, too
        unlink(path);
    free(results);
}

int grade_folder(const char *path)
{
    const char *out =
        options.out ? options.out : text("%s/build/grade/lab%02d", root, sheet.number);
    char absolute[4096];
    int count;
    struct entry *entries = list(path, &count);
    double start = now();

    if (count == 0)
        fail(EXIT_USAGE, "%s has no submissions: .cu files, or folders with one",
             cleaned(path, strlen(path)));
    mkdir(text("%s/build/grade", root), 0700);
    if (mkdir(out, 0777) && errno != EEXIST)
        fail(EXIT_MACHINE, "cannot make %s: %s", out, strerror(errno));
    if (!realpath(out, absolute))
        fail(EXIT_MACHINE, "cannot find %s: %s", out, strerror(errno));
    for (int i = 0; i < count; ++i)
        read_entry(path, &entries[i]);
    int whole = options.item ? find_earlier(entries, count) : 0;
    if (whole)
        printf("%d of %d have no result under this secret in which one item could change: they are "
               "graded whole\n",
               whole, count);
    if (options.slurm)
        slurm_grade(entries, count, progress);
    else
        grade_entries(entries, count, progress);
    write_gradebook(text("%s/grades.csv", absolute), path, entries, count);
    write_reports(absolute, entries, count);
    write_summary(absolute, entries, count);
    write_class_board(absolute, entries, count);
    int alike = find_alike(text("%s/alike.csv", absolute), entries, count);
    if (alike)
        printf("%d pair%s text of their own in common: %s/alike.csv\n", alike,
               alike > 1 ? "s have" : " has", out);
    printf("%d submissions in %.0f s: %s/grades.csv\n", count, now() - start, out);
    return EXIT_GRADED;
}
