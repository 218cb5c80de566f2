// sheet.c: shows the lab's sheet to whoever works on it: points so far, what to look at next,
// hints. The sheet is the chapter's; `make tangle` writes it to build/labs/labNN.json.
//
// This is a rehearsal. The grade comes from labs/grade, which draws inputs of its own.
#include "lab.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TASKS = 9, SCHEDULES = 4, NARROW = 23, WIDE = 43 };

static struct sheet sheet;
static char *raced; // the first complaint under a schedule other than 0, or NULL
static int clean;   // how many of the SCHEDULES showed nothing wrong

// Reads the sheet; returns whether the lab has one.
static bool load_sheet(void)
{
    bool missing;
    char *why;
    if (sheet_read(&sheet, text("%s/build/labs/lab%02d.json", root, lab.number), &missing, &why))
        return true;
    if (!missing)
        fail(EXIT_MACHINE, "%s", why);
    return false;
}

// ---- Hints --------------------------------------------------------------------------------------

static char *hints_path(void)
{
    return text("%s/labs/work/lab%02d/.hints", root, lab.number);
}

// Reads how many hints of each task have been shown, from lines "chunk count".
static void read_shown(json_t *tasks, int shown[])
{
    char chunk[128];
    int count;
    FILE *file = fopen(hints_path(), "r");
    while (file && fscanf(file, "%127s %d", chunk, &count) == 2) {
        for (size_t i = 0; i < json_array_size(tasks); ++i) {
            json_t *task = json_array_get(tasks, i);
            int hints = json_array_size(at(task, "hints"));
            if (strcmp(string_at(task, "chunk"), chunk) == 0 && count > 0)
                shown[i] = count < hints ? count : hints;
        }
    }
    if (file)
        fclose(file);
}

static bool write_shown(json_t *tasks, const int shown[], char *why, size_t size)
{
    char *said = text("%s", "");
    for (size_t i = 0; i < json_array_size(tasks); ++i)
        said = text("%s%s %d\n", said, string_at(json_array_get(tasks, i), "chunk"), shown[i]);
    const char *folders[] = {"labs/work", text("labs/work/lab%02d", lab.number)};
    for (int i = 0; i < 2; ++i)
        if (mkdir(text("%s/%s", root, folders[i]), 0777) && errno != EEXIST) {
            snprintf(why, size, "cannot make %s: %s", folders[i], strerror(errno));
            return false;
        }
    return file_write(hints_path(), said, strlen(said), why, size);
}

// The line of a source file where a task's gap is still open; 0: it is filled, or there is no file.
static int open_line(const char *source, json_t *task)
{
    const char *marker = string_at(task, "marker");
    char *line = NULL;
    size_t room = 0;
    int number = 0, found = 0;
    FILE *file = fopen(source, "r");
    while (file && !found && getline(&line, &room, file) >= 0) {
        ++number;
        const char *start = line + strspn(line, " \t");
        size_t length = strcspn(start, "\r\n");
        if (length == strlen(marker) && strncmp(start, marker, length) == 0)
            found = number;
    }
    if (file)
        fclose(file);
    free(line);
    return found;
}

static void print_hint(json_t *task, int index)
{
    json_t *hints = at(task, "hints");
    int used = printf("  hint %d of %zu:", index + 1, json_array_size(hints));
    wrap(json_string_value(json_array_get(hints, index)), used, 4);
}

// The task whose hint a bare --hint shows: one that is open in the working copy and has hints left;
// otherwise any with hints left; otherwise the last.
static int choose_task(json_t *tasks, const int shown[])
{
    char *copy = text("%s/labs/work/lab%02d/attention.%s", root, lab.number,
                      lab.search || lab.plain ? "c" : "cu");
    int count = json_array_size(tasks), choice = -1;
    for (int i = 0; i < count; ++i) {
        json_t *task = json_array_get(tasks, i);
        if (shown[i] >= (int)json_array_size(at(task, "hints")))
            continue;
        if (open_line(copy, task))
            return i;
        choice = choice < 0 ? i : choice;
    }
    return choice < 0 ? count - 1 : choice;
}

void show_hint(void)
{
    int shown[MAX_TASKS] = {0};
    bool there = load_sheet();
    json_t *tasks = at(sheet.json, "exercises");
    int count = json_array_size(tasks);
    if (!there && access(text("%s/build/labs", root), R_OK))
        fail(EXIT_MACHINE, "build/labs/lab%02d.json is not there: type make tangle", lab.number);
    if (!count || count > MAX_TASKS)
        fail(EXIT_USAGE, "lab %d has no hints", lab.number);
    if (lab.hint > count)
        fail(EXIT_USAGE, "--hint %d: the lab has %d task%s", lab.hint, count, count > 1 ? "s" : "");
    read_shown(tasks, shown);
    int i = lab.hint ? lab.hint - 1 : choose_task(tasks, shown);
    json_t *task = json_array_get(tasks, i);
    int hints = json_array_size(at(task, "hints"));
    bool more = shown[i] < hints;
    int first = more ? shown[i] : 0; // earlier hints have been shown, here or after a verdict
    char why[512];
    shown[i] += more;
    if (!write_shown(tasks, shown, why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    printf("Task %d of %d, \"%s\"\n", i + 1, count, string_at(task, "title"));
    for (int h = first; h < shown[i]; ++h)
        print_hint(task, h);
    if (!more)
        printf("  these are all hints of this task\n");
}

// ---- Points -------------------------------------------------------------------------------------

enum outcome { UNSEEN, MET, MISSED };

// Runs the program with the warps in another order; returns its first complaint, or NULL.
// *fault_seen: whether the complaint is the simulator's.
static char *complaint_under(int schedule, const char *shape, double budget, bool *fault_seen)
{
    char *report = text("%s/schedule.json", folder), *complaint = NULL;
    char *command[] = {after.path, "--shapes", (char *)shape, "--seeds", "0",
                       "--inputs", "normal",   "--no-timing", "--quiet", NULL};
    setenv("PTXSIM_SCHEDULE", text("%d", schedule), 1);
    doing("%s, schedule %d of %d", after.name, schedule + 1, SCHEDULES);
    struct output output = run(command, environment(false, report, budget), RUN_SECONDS, false);
    done();
    unsetenv("PTXSIM_SCHEDULE");
    json_t *said = json_load_file(report, 0, NULL);
    json_t *fault = json_array_get(at(said, "faults"), 0);
    *fault_seen = fault != NULL;
    if (fault)
        complaint = text("%s (schedule %d)", json_string_value(fault), schedule);
    else if (output.status)
        complaint =
            text("outputs are wrong when the warps run in another order (schedule %d)", schedule);
    unlink(report);
    output_free(&output);
    return complaint;
}

// A race may show in one order of the warps only: several are tried, as in the grader.
static void try_schedules(void)
{
    bool first = after.kind && strcmp(after.kind, "race") == 0;
    if ((after.fault && !first) || after.wrong || after.stopped || on_gpu || lab.only_search)
        return;
    const char *shape = lab.shapes[0].page ? main_shape() : "small";
    double budget = budget_of(shape);
    clean = !first;
    for (int schedule = 1; schedule < SCHEDULES; ++schedule) {
        bool fault_seen;
        char *complaint = complaint_under(schedule, shape, budget, &fault_seen);
        clean += !complaint;
        if (!complaint || raced)
            continue;
        raced = complaint;
        if (!first && fault_seen)
            explain_fault(schedule);
    }
}

static double value_of(const struct item *item)
{
    int found = resource_find(item->name, LABS), on = searched_find(item->name);
    if (found >= 0)
        return resource(&after, &resources[found], true);
    if (lab.only_search)
        return on >= 0 ? search_count(on) : NAN;
    // An item without a shape, such as `ctas`, is counted at mission.
    json_t *counts = at(after.counts_of, item->shape ? item->shape : "mission");
    return number_at(counts, item->name);
}

// Whether the program's fault is of a kind that ends a kernel in whatever order its warps run: a
// wrong address, a trap, an endless loop.
static bool fails_anyway(void)
{
    static const char *const kinds[] = {"out of bounds", "misaligned", "trap", "assert", "endless"};
    for (size_t i = 0; after.kind && i < sizeof kinds / sizeof *kinds; ++i)
        if (strcmp(after.kind, kinds[i]) == 0)
            return true;
    return false;
}

static enum outcome outcome_of(const struct item *item)
{
    const char *name = item->name;
    if (strcmp(name, "correct") == 0) // outputs withheld because of a fault may be right or wrong
        return after.stopped || fails_anyway() ? MISSED
               : after.fault                   ? UNSEEN
               : after.wrong                   ? MISSED
                                               : MET;
    if (strcmp(name, "races") == 0)
        return fails_anyway()                           ? UNSEEN
               : after.fault || raced                   ? MISSED
               : on_gpu || after.wrong || after.stopped ? UNSEEN
                                                        : MET;
    if (item->limit.relation == NO_LIMIT || strcmp(name, "speed") == 0)
        return UNSEEN;
    double value = value_of(item);
    return isnan(value) ? UNSEEN : limit_kept(value, item->limit) ? MET : MISSED;
}

static const char *limit_of(const struct item *item)
{
    if (item->limit.relation == NO_LIMIT)
        return "";
    return text(" %s %s%s%s", relation_words(item->limit.relation), grouped(item->limit.value),
                item->shape ? " at " : "", item->shape ? item->shape : "");
}

static const char *why_unseen(const char *name)
{
    if (strcmp(name, "written") == 0)
        return "by a person";
    if (strcmp(name, "hidden") == 0 || strcmp(name, "speed") == 0)
        return "by the grader";
    return on_gpu          ? "in the simulator"
           : after.stopped ? "when it ends"
           : after.wrong   ? "when outputs are right"
           : after.fault   ? "a fault was in the way"
                           : "not seen here";
}

// The share of what an item asks for that has been reached. For `correct`, the lab only sees
// whether all cases are right.
static double share_of(const struct item *item)
{
    return is_aim(item)                       ? share_reached(item, value_of(item))
           : strcmp(item->name, "races") == 0 ? (double)clean / SCHEDULES
                                              : outcome_of(item) == MET;
}

// Whether every gap of the sheet is still open.
static bool untouched(void)
{
    json_t *tasks = at(sheet.json, "exercises");
    for (size_t i = 0; i < json_array_size(tasks); ++i)
        if (!open_line(lab.student, json_array_get(tasks, i)))
            return false;
    return json_array_size(tasks) > 0;
}

static struct reached reached_here(void)
{
    double shares[ITEMS_MAX];
    for (int i = 0; i < sheet.count; ++i)
        shares[i] = share_of(&sheet.items[i]);
    bool starter = untouched();
    // Whether a kernel with a fault is right cannot be known here; but a starter as handed out is
    // not right.
    return (struct reached){.correct = !after.wrong && !after.stopped && !(starter && after.fault),
                            .aim = aims_reached(&sheet, shares),
                            .tried = has_aims(&sheet) && !starter};
}

// Whether an aim's count is unknown, for example because nothing ran at the aim's shape; then the
// points of all other items are unknown, too. False for a program that was stopped: it earns no
// points for other items.
static bool aim_unseen(void)
{
    for (int i = 0; i < sheet.count; ++i)
        if (is_aim(&sheet.items[i]) && outcome_of(&sheet.items[i]) == UNSEEN)
            return !after.stopped;
    return false;
}

static void show_rule(const struct reached *reached)
{
    if (reached->correct <= 0 && untouched()) {
        wrap("As it was handed out a starter has no points: fill a gap first.", printf("  "), 2);
        return;
    }
    if (reached->aim < 1 && !aim_unseen())
        wrap(text("The aim is reached to %.0f %%, and so much is paid of all else.",
                  floor(100 * reached->aim)),
             printf("  "), 2);
    if (reached->correct < 1)
        wrap(text("%s: limits pay nothing yet, an aim half. The grader pays for the cases that are "
                  "right.",
                  lab.only_search ? "A rule is broken" : "Outputs are wrong"),
             printf("  "), 2);
    else if (!lab.only_search)
        wrap("The grader may pay less for an aim: at shapes that it draws, too, outputs must "
             "depend on what the aim counts, and no uncounted work may replace it.",
             printf("  "), 2);
}

// The points paid for an item; *open: whether they cannot be seen here; then 0 is returned.
static double paid(const struct item *item, const struct reached *reached, bool *open)
{
    // A kernel with a fault may be right or wrong: its points are open.
    bool unsure = after.fault && !after.wrong && !after.stopped;
    // A starter as handed out has no points, whatever it counts; but answers to questions earn
    // theirs.
    bool nothing = reached->correct <= 0 && untouched() && strcmp(item->name, "written") != 0;
    enum outcome outcome = outcome_of(item);
    *open = !nothing && (outcome == UNSEEN || ((unsure || aim_unseen()) && outcome == MET));
    return *open ? 0 : points_paid(item, share_of(item), reached);
}

static struct score score_here(void)
{
    struct reached reached = reached_here();
    struct score score = {0};
    bool open;
    for (int i = 0; i < sheet.count; ++i) {
        score.got += paid(&sheet.items[i], &reached, &open);
        score.open += open ? sheet.items[i].points : 0;
        score.total += sheet.items[i].points;
    }
    return score;
}

void show_points(void)
{
    struct reached reached = reached_here();
    struct score score = score_here();
    heading("Points, as far as they can be seen here");
    for (int i = 0; i < sheet.count; ++i) {
        const struct item *item = &sheet.items[i];
        const char *name = item->name;
        double points = item->points, value = value_of(item);
        enum outcome outcome = outcome_of(item);
        bool open;
        double earned = paid(item, &reached, &open);
        const char *what = text("%s%s", name, limit_of(item));
        if (narrow() && strlen(what) > NARROW) // puts what follows on the next line
            what = text("%s\n  %*s", what, NARROW, "");
        printf("  %-*s", narrow() ? NARROW : WIDE, what);
        if (outcome == UNSEEN && !open)
            printf(" %4g of %2g  as it was handed out\n", earned, points);
        else if (outcome == UNSEEN)
            printf(" %4s of %2g  %s\n", "-", points, why_unseen(name));
        else if (open)
            printf(" %4s of %2g  %s, with %s\n", "-", points, mark(true),
                   after.fault ? "`correct`" : "the aim");
        else
            printf(" %4g of %2g  %s%s\n", earned, points, mark(outcome == MET),
                   outcome == MISSED && !isnan(value) ? text(": %s", grouped(value))
                   : outcome == MISSED && raced && strcmp(name, "races") == 0
                       ? text(": %d of %d schedules", clean, SCHEDULES)
                   : outcome == MET && after.stopped ? ", but no outputs"
                   : outcome == MET && after.wrong
                       ? lab.only_search ? ", but a rule is broken" : ", but wrong outputs"
                       : "");
    }
    printf("  %-*s %4g of %g, and %g open\n", narrow() ? NARROW : WIDE, "together", score.got,
           score.total, score.open);
    show_rule(&reached);
}

// ---- What to look at next -----------------------------------------------------------------------

static bool earns(json_t *task, const char *name)
{
    size_t i;
    json_t *word;
    json_array_foreach (at(task, "earns"), i, word)
        if (strcmp(json_string_value(word), name) == 0)
            return true;
    return false;
}

static const struct item *first_missed(void)
{
    for (int i = 0; i < sheet.count; ++i)
        if (outcome_of(&sheet.items[i]) == MISSED)
            return &sheet.items[i];
    return NULL;
}

// Prints why an item, the first that the program misses, was not reached.
static void show_cause(const struct item *item)
{
    const char *name = item->name, *cause = NULL;
    bool races = strcmp(name, "races") == 0, correct = strcmp(name, "correct") == 0;
    if ((races || correct) && (after.sentence || after.fault)) {
        show_fault();
        return;
    }
    int used = printf("  %s, %d point%s:", name, item->points, item->points == 1 ? "" : "s");
    if (races)
        cause = raced;
    else if (correct)
        cause = after.stopped     ? after.stopped
                : lab.only_search ? search_broken()
                : after.how       ? after.how
                                  : "outputs differ from the reference";
    if (!cause)
        cause = text("%s%s, and it is %s", name, limit_of(item), grouped(value_of(item)));
    wrap(nearby(cause), used, 4);
}

void show_next(void)
{
    int shown[MAX_TASKS] = {0};
    json_t *tasks = at(sheet.json, "exercises"), *task = NULL;
    int count = json_array_size(tasks), line = 0, chosen = 0;
    const struct item *item = first_missed();
    if (count > MAX_TASKS)
        return;
    read_shown(tasks, shown);
    heading("Next");
    if (!item) {
        wrap(text("what can be seen here is met; the questions are on the sheet: make handout%d",
                  lab.number),
             printf("  "), 4);
        return;
    }
    const char *name = item->name;
    show_cause(item);
    for (int i = 0; i < count && !line; ++i) { // looks for an open task that earns the item
        json_t *candidate = json_array_get(tasks, i);
        int gap = earns(candidate, name) ? open_line(lab.student, candidate) : 0;
        if (!earns(candidate, name) || (task && !gap))
            continue;
        task = candidate;
        line = gap;
        chosen = i;
    }
    // Names an open task, which may be the cause; which lines are wrong is not known here.
    if (!line) {
        if (task && is_aim(item))
            wrap(text("that is what task %d, \"%s\", is for: ./lab%d --hint %d", chosen + 1,
                      string_at(task, "title"), lab.number, chosen + 1),
                 printf("  "), 4);
        return;
    }
    wrap(text("task %d, \"%s\", is still open: %s:%d", chosen + 1, string_at(task, "title"),
              lab.student, line),
         printf("  "), 4);
    print_hint(task, shown[chosen] ? shown[chosen] - 1 : 0);
    // Notes that this hint was shown, so that --hint continues with the next one.
    if (!shown[chosen]) {
        char why[512];
        shown[chosen] = 1;
        (void)write_shown(tasks, shown, why, sizeof why);
    }
    wrap(text("more of them: ./lab%d --hint %d%s", lab.number, chosen + 1,
              after.fault || lab.only_search ? "" : "; the lines with their counts: --profile"),
         printf("  "), 4);
}

bool judge_sheet(struct score *score)
{
    if (!load_sheet())
        return false;
    try_schedules();
    *score = score_here();
    return true;
}

// Remarks on a kernel that computes in double, which costs no points, but much time.
void remark_on_doubles(void)
{
    const char *shape;
    json_t *counts;
    if (after.fault || after.stopped)
        return;
    json_object_foreach (after.counts_of, shape, counts) {
        double count = number_at(counts, "classes.fp64");
        if (count > 0) {
            wrap(text("remark: it " DOUBLES_WORDS, (unsigned long long)count, shape), printf("  "),
                 4);
            return;
        }
    }
}
