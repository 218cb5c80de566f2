// check.c: tests a lab (labs/tools/check-labs). The book's programs for the lab are graded as if
// they had been handed in: the starter earns nothing, the solution everything, and each planted bug
// loses the items that the sheet names, and no others. The program of the chapter before is right
// and yet earns nothing, since the aims begin at its counts. A planted bug that reaches the aims
// earns at least half of their points.
//
// The points are also read from the chapter's text, without Pandoc, and compared with those of the
// sheet by which the grader pays.
#include "judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 64, ROWS_MAX = 32 };

static const double FLOOR = 0; // the points of a starter as handed out

static struct expected { // what is expected of each entry, by its index
    enum { STARTER, SOLUTION, MUTANT, BEFORE } kind;
    const json_t *loses; // for a planted bug: the items it loses, by name
    double costs;        // for a planted bug: the most points that it loses
    bool other;          // whether the bug is planted in another program than the lab's
} expected[ENTRIES_MAX];
static struct entry entries[ENTRIES_MAX];
static int count, failures;

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    va_list arguments;

    ++failures;
    printf("  FAIL  ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

// ---- The sheet ----------------------------------------------------------------------------------

struct row {
    char name[64];
    int points;
};

// Reads a row such as "barriers <= 1536 @ small 5 # words": its first word, and the number before
// the #.
static bool read_row(const char *line, struct row *row)
{
    char *cut = text("%.*s", (int)strcspn(line, "#\n"), line), *rest = NULL, *last = NULL;
    int words = 0;

    for (char *word = strtok_r(cut, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (words++ == 0)
            snprintf(row->name, sizeof row->name, "%s", word);
        last = word;
    }
    row->points = words > 1 ? atoi(last) : 0;
    free(cut);
    return words > 0;
}

// Reads the points from the chapter; returns the number of rows. If questions have points, the last
// row is for all of them together.
static int read_chapter(struct row rows[ROWS_MAX])
{
    char *path = text("%s/%s", root, string_or(sheet.json, "chapter", "")), *rest = NULL;
    size_t bytes;
    char *chapter = read_file(path, &bytes);
    int n = 0, written = 0;
    bool inside = false;

    if (!chapter)
        fail(EXIT_MACHINE, "cannot read %s", path);
    for (char *line = strtok_r(chapter, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *question = strncmp(line, ":::", 3) == 0 ? strstr(line, "{.question ") : NULL;
        const char *points = question ? strstr(question, "points=") : NULL;
        if (points)
            written += atoi(points + strlen("points=") + (points[strlen("points=")] == '"'));
        else if (strncmp(line, "``` {.points", 12) == 0)
            inside = true;
        else if (inside && strncmp(line, "```", 3) == 0)
            inside = false;
        else if (inside && n < ROWS_MAX - 1 && read_row(line, &rows[n]))
            ++n;
    }
    if (written > 0)
        rows[n++] = (struct row){.name = "written", .points = written};
    free(chapter);
    free(path);
    return n;
}

static void check_sheet(void)
{
    struct row rows[ROWS_MAX];
    int n = read_chapter(rows);
    const json_t *task, *hint;
    size_t i, j;

    if (n != sheet.count)
        wrong("the chapter has %d items, the grader %d", n, sheet.count);
    for (int row = 0; row < n && row < sheet.count; ++row)
        if (strcmp(rows[row].name, sheet.items[row].name) != 0 ||
            rows[row].points != sheet.items[row].points)
            wrong("item %d is %s, %d points in the chapter, and %s, %d points to the grader",
                  row + 1, rows[row].name, rows[row].points, sheet.items[row].name,
                  sheet.items[row].points);
    const json_t *tasks = json_object_get(sheet.json, "exercises");
    if (json_array_size(tasks) == 0)
        wrong("no task");
    json_array_foreach (tasks, i, task) {
        const json_t *hints = json_object_get(task, "hints");
        if (json_array_size(hints) == 0)
            wrong("task %zu has no hints", i + 1);
        json_array_foreach (hints, j, hint)
            if (strspn(json_string_value(hint), " .\t\n") == json_string_length(hint))
                wrong("task %zu: hint %zu is empty", i + 1, j + 1);
    }
}

// ---- What is graded -----------------------------------------------------------------------------

static void enter(struct expected x, const char *name, const char *path)
{
    struct entry *e = &entries[count];

    if (count == ENTRIES_MAX)
        fail(EXIT_MACHINE, "more than %d planted bugs", ENTRIES_MAX - 2);
    e->name = text("%s", name);
    e->source = submission_source(path, &e->bytes, &e->why);
    if (!e->source)
        fail(EXIT_MACHINE, "%s %s: type make tangle", path, e->why);
    entry_keep(e);
    expected[count++] = x;
}

static void enter_all(void)
{
    const json_t *mutant;
    size_t i;

    enter((struct expected){.kind = STARTER}, "starter",
          text("%s/build/starters/%s.%s", root, sheet.program, sheet.ending));
    enter((struct expected){.kind = SOLUTION}, "solution",
          text("%s/code/%s.%s", root, sheet.program, sheet.ending));
    json_array_foreach (json_object_get(sheet.json, "mutants"), i, mutant) {
        const char *program = string_or(mutant, "program", ""),
                   *name = string_or(mutant, "name", "");
        bool other = strcmp(program, sheet.program) != 0;
        struct expected x = {.kind = MUTANT,
                             .loses = json_object_get(mutant, "loses"),
                             .costs = number_at(mutant, "costs"),
                             .other = other};
        enter(x, other ? text("%s (%s)", name, program) : name,
              text("%s/build/mutants/%s.%s.%s", root, program, name, sheet.ending));
    }
    const char *before = string_or(sheet.json, "before", "");
    if (*before)
        enter((struct expected){.kind = BEFORE}, text("before: %s", before),
              text("%s/code/%s.cu", root, before));
}

// The quick test grades one program of each lab; the lab's number decides which one. For the lab's
// other programs it uses the kept results of a whole test with the same programs, sheets and
// grader. Removes the programs without a kept result, and returns their number.
static int leave_out(void)
{
    int chosen = sheet.number % count, left = 0;

    for (int i = 0; i < count; ++i) {
        if (i != chosen && !kept_result(&entries[i]))
            continue;
        expected[left] = expected[i];
        entries[left++] = entries[i];
    }
    int out = count - left;
    count = left;
    return out;
}

// ---- The results --------------------------------------------------------------------------------

static bool is_named(const json_t *names, const char *name)
{
    size_t i;
    const json_t *n;
    json_array_foreach (names, i, n)
        if (strcmp(json_string_value(n), name) == 0)
            return true;
    return false;
}

// *names: the judged items that were not passed. Returns whether they are exactly the items in
// `loses`. limits: whether to judge items that have a limit, too, as for a bug in the lab's own
// program; ignored if `loses` has `correct`: then no item with a limit is judged.
static bool lost_as_said(const json_t *result, const json_t *loses, bool limits, char **names)
{
    const json_t *item;
    size_t i, lost = 0;

    *names = text("%s", "");
    bool as_said = true;
    limits = limits && !is_named(loses, "correct");
    json_array_foreach (json_object_get(result, "items"), i, item) {
        const char *name = string_or(item, "name", "");
        if (json_is_true(json_object_get(item, "by_hand")) ||
            json_is_true(json_object_get(item, "left_out")))
            continue;
        if (!limits && *string_or(item, "limit", ""))
            continue;
        bool passed = json_is_true(json_object_get(item, "passed"));
        if (!passed)
            *names = text("%s%s%s", *names, lost++ ? ", " : "", name);
        as_said = as_said && passed != is_named(loses, name);
    }
    return as_said;
}

static char *joined(const json_t *names)
{
    char *all = text("%s", "");
    const json_t *n;
    size_t i;
    json_array_foreach (names, i, n)
        all = text("%s%s%s", all, i ? ", " : "", json_string_value(n));
    return *all ? all : "nothing";
}

// The points that a bug should lose by the items in `loses`: of an item with cases, the points of
// its failed cases; of any other item, all points.
static double lost_points(const json_t *result, const json_t *loses)
{
    const json_t *item, *c;
    double lost = 0;
    size_t i, j;

    json_array_foreach (json_object_get(result, "items"), i, item) {
        const char *name = string_or(item, "name", "");
        int all = 0, failed = 0;
        json_array_foreach (json_object_get(result, "cases"), j, c)
            if (strcmp(string_or(c, "item", ""), name) == 0) {
                ++all;
                failed += !json_is_true(json_object_get(c, "pass"));
            }
        if (is_named(loses, name))
            lost += number_or(item, "max", 0) * (all ? (double)failed / all : 1);
    }
    return lost;
}

static double aim_points(void)
{
    double points = 0;
    for (int i = 0; i < sheet.count; ++i)
        points += is_aim(&sheet.items[i]) ? sheet.items[i].points : 0;
    return points;
}

// Checks that the aims begin exactly at the counts of the program before; in a lab without one, at
// the starter's.
static void check_froms(const struct entry *e)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(e->result, "items"), i, item) {
        char *from = text("%.15g", sheet.items[i].from);
        if (is_aim(&sheet.items[i]) && strcmp(string_or(item, "said", ""), from) != 0)
            wrong("%s has %s %s; the sheet says from %s", e->name, string_or(item, "name", ""),
                  string_or(item, "said", ""), from);
    }
}

static void check_before(const struct entry *e, double score)
{
    check_froms(e);
    if (score != 0)
        wrong("%s earns %g: nothing is paid for not trying", e->name, score);
}

static void check_mutant(const struct entry *e, const struct expected *x, double score,
                         double total)
{
    bool right = !is_named(x->loses, "correct"), aims = number_or(e->result, "aim", 0) >= 1;
    double left = total - lost_points(e->result, x->loses);

    if (right && aims && !x->other && !(score > left - 0.2 && score < left + 0.2))
        wrong("%s earns %g points, not %.1f of %g", e->name, score, left, total);
    if (!right && score > total - aim_points() / 2)
        wrong("%s is wrong and earns %g of %g", e->name, score, total);
    if (aims && !x->other && score < total - x->costs - 0.1) // points have one decimal
        wrong("%s costs %g points; the sheet says at most %g", e->name, total - score, x->costs);
    if (aims && has_aims(&sheet) && score < aim_points() / 2)
        wrong("%s has the aim and earns %g: half of it alone is %g", e->name, score,
              aim_points() / 2);
}

static void tell(int ended, int of, const struct entry *e)
{
    const struct expected *x = &expected[e - entries];
    double score = number_or(e->result, "score", 0), total = number_or(e->result, "total", 0);
    const char *refused = json_string_value(json_object_get(e->result, "refused"));
    char *names;
    bool as_said = lost_as_said(e->result, x->loses, !x->other, &names);

    (void)ended, (void)of;
    printf("  %-38s %5g of %3g  %s%s\n", e->name, score, total, *names ? "loses " : "", names);
    fflush(stdout);
    if (refused)
        wrong("%s: %s", e->name, refused);
    else if (x->kind == STARTER && (score != FLOOR || !strstr(names, "correct")))
        wrong("the starter earns %g points and loses %s; it should be wrong, and earn %g", score,
              *names ? names : "nothing", FLOOR);
    else if (x->kind == STARTER && !*string_or(sheet.json, "before", ""))
        check_froms(e);
    else if (x->kind == SOLUTION && (score != total || !as_said))
        wrong("the solution loses %s", names);
    else if (x->kind == BEFORE)
        check_before(e, score);
    else if (x->kind == MUTANT && !as_said)
        wrong("%s loses %s; the sheet says %s", e->name, *names ? names : "nothing",
              joined(x->loses));
    else if (x->kind == MUTANT)
        check_mutant(e, x, score, total);
}

// ---- The record ---------------------------------------------------------------------------------
//
// What the book's own programs earn, for appendix D's table and for what the book says about
// planted bugs: the points of the starter, the solution, the program before and each bug planted in
// the lab's program, and the least and the most points of these bugs. Bugs in other programs are
// not recorded. A whole test without failures writes the record; the quick test compares with it.

static const char *const kinds[] = {
    [STARTER] = "starter", [SOLUTION] = "solution", [BEFORE] = "before"};

static json_t *earned(void)
{
    json_t *all = json_pack("{s:s}", "program", sheet.program), *planted = json_object();
    double least = 1e9, most = -1;

    for (int i = 0; i < count; ++i) {
        const struct expected *x = &expected[i];
        double score = number_or(entries[i].result, "score", 0);
        json_object_set_new(all, "total", json_real(number_or(entries[i].result, "total", 0)));
        if (x->kind != MUTANT) {
            json_object_set_new(all, kinds[x->kind], json_real(score));
        } else if (!x->other) {
            json_object_set_new(planted, entries[i].name, json_real(score));
            least = score < least ? score : least;
            most = score > most ? score : most;
        }
    }
    if (most >= 0) {
        json_object_set(all, "planted", planted);
        json_object_set_new(all, "wrong_least", json_real(least));
        json_object_set_new(all, "wrong_most", json_real(most));
    }
    json_decref(planted);
    return all;
}

// By how many points a planted bug may differ from the record: in which hidden cases it is right
// depends on the drawn inputs, and these change with every change of the bug's text.
static const double DRAWN = 10;

static bool earned_the_same(const struct entry *e, const struct expected *x, const json_t *kept)
{
    double score = number_or(e->result, "score", 0);

    if (x->kind == MUTANT)
        return x->other || fabs(score - number_at(at(kept, "planted"), e->name)) <= DRAWN;
    return score == number_or(kept, kinds[x->kind], 0);
}

static void compare_record(const json_t *kept)
{
    for (int i = 0; i < count; ++i)
        if (!earned_the_same(&entries[i], &expected[i], kept))
            wrong("%s earns %g, and not what %s says: make check-labs LABS=%d writes it anew",
                  entries[i].name, number_or(entries[i].result, "score", 0), options.record,
                  sheet.number);
}

static void keep_record(void)
{
    json_t *record = json_load_file(options.record, 0, NULL);
    char *key = text("lab%02d", sheet.number);

    if (!record)
        record = json_object();
    if (options.quick) {
        compare_record(json_object_get(record, key));
    } else if (!failures) {
        json_object_set_new(record, key, earned());
        char *words = json_dumps(record, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
        if (!words || !write_text(options.record, text("%s\n", words)))
            fail(EXIT_MACHINE, "cannot write %s", options.record);
        free(words);
    }
    json_decref(record);
}

int check_lab(void)
{
    double start = now();

    printf("Lab %d: %s\n", sheet.number, sheet.title);
    check_sheet();
    if (!has_aims(&sheet))
        wrong("no aim: what does the lab teach that the program before has not?");
    enter_all();
    int left_out = options.quick ? leave_out() : 0;
    grade_entries(entries, count, tell);
    if (options.record)
        keep_record();
    printf("  %d graded, %d left out, %d wrong (%.0f s)\n", count, left_out, failures,
           now() - start);
    return failures ? 1 : 0;
}
