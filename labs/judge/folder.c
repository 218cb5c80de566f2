// folder.c: many submissions. Each is graded in a process of its own, several at a time; its result
// is kept under the hash of what it depends on, so that an interrupted run goes on where it was and
// a file that comes twice is graded once. Names play no part in a grade.
#include "judge.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOURCE_BYTES_MAX = 1 << 20, ENTRIES_MAX = 10000 };

// ---- Sources ------------------------------------------------------------------------------------

static const char *kind_of(mode_t mode)
{
    return S_ISLNK(mode)    ? "a link"
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

// A control character's name, for somebody who looks for it; "": it has none that is known.
static const char *control_name(unsigned char byte)
{
    static const char *const names[0x20] = {[0x00] = " (NUL)",         [0x07] = " (a bell)",
                                            [0x08] = " (a backspace)", [0x0b] = " (a vertical tab)",
                                            [0x0c] = " (a form feed)", [0x1a] = " (Ctrl-Z)",
                                            [0x1b] = " (an escape)"};
    return byte == 0x7f ? " (delete)" : names[byte] ? names[byte] : "";
}

// Why these bytes are no text, or NULL. A reader of texts may stop at a NUL that the compiler steps over:
// what is looked at would not be what is compiled. Letters are in any encoding.
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

// Only a file itself is read: a link could name one of the grader's, as could one name of several.
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
    return source; // one that is too long is refused by the compilation (build.c)
}

static bool is_folder(int folder, const char *name) // itself: no link to one
{
    struct stat about;
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static bool ends_well(const char *name) // or in .CU, as on a machine that does not care
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name && strcasecmp(dot + 1, sheet.ending) == 0;
}

// What systems put beside somebody's files; NULL: nothing of that kind.
static const char *litter(const char *name)
{
    return strncmp(name, "._", 2) == 0            ? "a Mac's notes on another file"
           : strcmp(name, "__MACOSX") == 0        ? "a Mac's notes on a zip"
           : strcmp(name, ".DS_Store") == 0       ? "a Mac's notes on a folder"
           : strcasecmp(name, "Thumbs.db") == 0   ? "a PC's small pictures"
           : strcasecmp(name, "desktop.ini") == 0 ? "a PC's notes on a folder"
                                                  : NULL;
}

// A folder with programs, found below a submission's: a zip often has one more folder around it.
struct found {
    int folder, count; // of the first one; how many there are
    char *name;
};

// Files right in the folder come first: what lies deeper counts only if there is none.
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

// ---- The list -----------------------------------------------------------------------------------

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->file, ((const struct entry *)b)->file);
}

char *clean_name(const char *name)
{
    char *clean = cleaned(name, strlen(name));

    for (char *at; (at = strchr(clean, '\n'));) {
        char *longer = text("%.*s\\n%s", (int)(at - clean), clean, at + 1);
        free(clean);
        clean = longer;
    }
    return clean;
}

// Every entry of the folder but litter, which a line is printed of.
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

// Its source; or why it is not graded: in a folder of submissions a file that is none has its row.
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

const char *grader_hash(void) // taken once
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

// Under a hash of what a result depends on: the submission's text, or why there is none; the lab, and what its own
// program does; the secret, this grader.
void entry_keep(struct entry *e)
{
    SHA2_CTX s;
    char hex[SHA256_DIGEST_STRING_LENGTH];
    const char *grader = grader_hash();
    bool gpu = is_timed();
    const struct work own = work_of_the_lab(NULL);

    const bool has_source = e->source != NULL;
    const struct {
        const void *at;
        size_t bytes;
    } parts[] = {
        {&has_source, sizeof has_source},
        {e->source ? e->source : e->why, e->source ? e->bytes : strlen(e->why)},
        {sheet_hash, sizeof sheet_hash},
        {&own, sizeof own},
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

// ---- What became of one ---------------------------------------------------------------------------

static const char *const status_names[] = {
    [STATUS_GRADED] = "graded",   [STATUS_WRONG] = "wrong",
    [STATUS_STOPPED] = "stopped", [STATUS_NO_COMPILE] = "does not compile",
    [STATUS_REFUSED] = "refused", [STATUS_NOT_GRADED] = "not graded"};

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

// Why a submission has no points; "" where it has some. Of what a compiler said, the first error.
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

json_t *kept_result(const struct entry *e)
{
    json_t *result = json_load_file(e->kept, 0, NULL);
    if (result) // the same text may have been graded under another name
        json_object_set_new(result, "name", json_string(e->name));
    return result;
}

json_t *not_graded(const char *name, const char *why)
{
    json_t *result = refused(name, why);
    json_object_set_new(result, "not_graded", json_true());
    return result;
}

// Beside its result: build/grade/kept/HASH.html.
static char *film_kept(const struct entry *e)
{
    return text("%.*s.html", (int)(strlen(e->kept) - strlen(".json")), e->kept);
}

bool entry_grade(struct entry *e)
{
    json_t *result = options.pairs ? grade_pair(e)
                     : e->source   ? grade(e->name, e->source, e->bytes, e->earlier)
                                   : not_graded(e->name, e->why);
    film_take(result, film_kept(e)); // before its result, which says that all is there
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
    if (e->pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) // nobody goes on without the class
        _exit(entry_grade(e) ? EXIT_GRADED : EXIT_MACHINE);
}

static void progress(int ended, int count, const struct entry *e)
{
    char *why = why_little(e->result);
    printf("%*d of %d  %5.1f  %s%s%s\n", count > 99 ? 3 : 2, ended, count,
           json_number_value(json_object_get(e->result, "score")), e->name, *why ? ": " : "", why);
    fflush(stdout);
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

// The process that graded it was killed: by the kernel, where memory is short, or by somebody. It is
// tried once more; then it has a note instead of a result, which is not kept.
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
            for (int j = 0; j < count; ++j) // and those with the same text
                if (!entries[j].result && (j == i || strcmp(entries[j].kept, e->kept) == 0))
                    entry_finish(&entries[j], &ended, count, tell);
        }
    }
}

// ---- What is written ----------------------------------------------------------------------------

// Whether a spreadsheet may take it for a formula: by its first character after blanks, which may be as
// wide as Chinese ones.
static bool is_formula(const char *field)
{
    static const char *const signs[] = {"=", "+", "-", "@", "＝", "＋", "－", "＠"};

    if (*field == '\t' || *field == '\r')
        return true;
    field += strspn(field, " \t\r\n");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; ++i)
        if (strncmp(field, signs[i], strlen(signs[i])) == 0)
            return true;
    return false;
}

// A field of a CSV file (RFC 4180), and no formula.
void write_csv(FILE *to, const char *field)
{
    fputc('"', to);
    if (is_formula(field))
        fputc('\'', to);
    for (; *field; ++field) {
        if (*field == '"')
            fputc('"', to);
        fputc(*field, to);
    }
    fputc('"', to);
}

static char *flags_in_line(const json_t *result)
{
    char *line = text("%s", "");
    const json_t *flag;
    size_t i;

    json_array_foreach (json_object_get(result, "flags"), i, flag)
        line = text("%s%s%s", line, i ? "; " : "", json_string_value(flag));
    return line;
}

// A submission's name as a part of a file's: it could be anything, so of ASCII it keeps letters, digits and "._-",
// and no more than some 40 bytes. Without its ending.
static char *name_for_file(const char *name)
{
    enum { MOST = 40 };
    const char *dot = strrchr(name, '.');
    size_t length = dot && (!strcasecmp(dot, ".cu") || !strcasecmp(dot, ".c"))
                        ? (size_t)(dot - name)
                        : strlen(name);
    if (length > MOST)
        for (length = MOST; (name[length] & 0xc0) == 0x80;) // no half of a character
            --length;
    char *safe = text("%.*s", (int)length, name);

    for (char *c = safe; *c; ++c)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c) && !(*c & 0x80))
            *c = '_';
    return safe;
}

// A report's name: its number in the gradebook, the submission's name, a hash of its text.
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

// For each item that was graded, how many submissions earned all, some and none of its points.
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
    char *totals =
        text("%s/grades.tsv", out); // percent of the points that could be had; enum status
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

// The film of a submission beside its report, which then names it.
static void copy_film(const struct entry *e, const char *to)
{
    json_t *film = json_object_get(e->result, "film");
    size_t bytes;
    char *page = json_is_object(film) ? read_file(film_kept(e), &bytes) : NULL;

    if (page && write_text(to, page))
        json_object_set_new(film, "file", json_string(strrchr(to, '/') + 1));
    else
        unlink(to); // of an earlier run
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
    if (!timed) // of an earlier run, too
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
