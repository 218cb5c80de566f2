// pairs.c: tests all sheets (labs/tools/check-labs --pairs). Every program in a folder, which
// includes each program of the book, is judged by every lab's sheet. A program that earns points
// for an aim must have the lab's idea, according to labs/ideas.tsv; one that has the idea must earn
// points.
//
// A program is compiled once, and run once at each shape: counts, and how much of what they count
// is used, are the same for all sheets. For `correct`, only the sheet's own shapes count here, with
// one input each.
#include "judge.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_TEXTS_MAX = 128 };

static int earned_nothing, earned_wrongly;
static struct entry entries[PAIRS_TEXTS_MAX];

static double aims_of(const struct sheet *s)
{
    double points = 0;

    for (int i = 0; i < s->count; ++i)
        points += is_aim(&s->items[i]) ? s->items[i].points : 0;
    return points;
}

// ---- Which text has which idea ------------------------------------------------------------------

// Whether the line of a program in labs/ideas.tsv, "NAME<tab>LAB LAB ...", lists this lab.
static bool has_idea(const char *ideas, const char *name, int lab)
{
    const size_t length = strlen(name);

    for (const char *line = ideas; line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        if (strncmp(line, name, length) != 0 || line[length] != '\t')
            continue;
        char *rest = text("%.*s", (int)strcspn(line, "\n"), line);
        bool found = false;
        for (char *at = rest + length; *at; at += strspn(at, "0123456789")) {
            at += strspn(at, "\t ");
            found = found || (*at && atoi(at) == lab);
            if (*at && !strchr("0123456789", *at))
                break;
        }
        free(rest);
        return found;
    }
    return false;
}

static char *read_ideas(void)
{
    char *path = text("%s/labs/ideas.tsv", root);
    size_t bytes;
    char *ideas = read_file(path, &bytes);

    if (!ideas)
        fail(EXIT_MACHINE, "cannot read %s", path);
    free(path);
    return ideas;
}

// ---- The results --------------------------------------------------------------------------------

static void tell(int ended, int count, const struct entry *e)
{
    const char *why = json_string_value(json_object_get(e->result, "refused"));
    const char *lab;
    json_t *paid;

    printf("%*d of %d  %s%s%s\n", count > 99 ? 3 : 2, ended, count, e->name, why ? ": " : "",
           why ? why : "");
    json_object_foreach (json_object_get(e->result, "aims"), lab, paid) {
        const json_t *said;
        size_t i;
        if (number_or(paid, "points", 0) == 0)
            continue;
        printf("      %s: %g", lab, number_or(paid, "points", 0));
        json_array_foreach (json_object_get(paid, "said"), i, said)
            printf("; %s", json_string_value(said));
        printf("\n");
    }
    fflush(stdout);
}

static void check_pair(const char *ideas, const struct entry *e, const struct sheet *s,
                       const json_t *paid)
{
    double points = number_or(paid, "points", 0);
    bool has = has_idea(ideas, e->name, s->number);

    if (points > 0 && !has) {
        printf(
            "  FAIL  %s earns %g of %g in lab %d, and labs/ideas.tsv does not say that it has its "
            "idea\n",
            e->name, points, aims_of(s), s->number);
        ++earned_wrongly;
    } else if (points == 0 && has) {
        printf("  FAIL  %s earns nothing in lab %d, whose idea it has by labs/ideas.tsv\n", e->name,
               s->number);
        ++earned_nothing;
    }
}

// The points of a program for the aims of each lab, for the record.
static json_t *points_of(const struct entry *e)
{
    json_t *points = json_object(), *paid;
    const char *lab;

    json_object_foreach (json_object_get(e->result, "aims"), lab, paid)
        json_object_set_new(points, lab, json_real(number_or(paid, "points", 0)));
    return points;
}

// The hashes of the book's programs, as in other records; other programs have none.
static json_t *hashes_of(const json_t *programs)
{
    char *path = text("%s/build/hashes.tsv", root), *rest = NULL;
    size_t bytes;
    char *lines = read_file(path, &bytes);
    json_t *hashes = json_object();

    if (!lines)
        fail(EXIT_MACHINE, "cannot read %s: type make all", path);
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = '\0';
        if (json_object_get(programs, line))
            json_object_set_new(hashes, line, json_string(tab + 1));
    }
    free(lines);
    free(path);
    return hashes;
}

// The aims of a sheet as its chapter has them, for the record: test_points.bats compares them with
// the aims of today's sheets.
static json_t *aims_said(const struct sheet *s)
{
    json_t *said = json_array();

    for (int i = 0; i < s->count; ++i) {
        const struct item *item = &s->items[i];
        if (is_aim(item))
            json_array_append_new(
                said, json_sprintf("%s %s %.15g from %.15g @ %s %d", item->name,
                                   relation_words(item->limit.relation), item->limit.value,
                                   item->from, item->shape ? item->shape : "-", item->points));
    }
    return said;
}

static void write_record(int count)
{
    json_t *programs = json_object(), *refused = json_object(), *of = json_object(),
           *aims = json_object();

    for (int i = 0; i < count; ++i) {
        const json_t *why = json_object_get(entries[i].result, "refused");
        if (json_is_string(why))
            json_object_set(refused, entries[i].name, (json_t *)why);
        else
            json_object_set_new(programs, entries[i].name, points_of(&entries[i]));
    }
    for (int i = 0; i < sheet_count; ++i) {
        char *lab = text("lab%02d", all_sheets[i].number);
        json_object_set_new(of, lab, json_real(aims_of(&all_sheets[i])));
        json_object_set_new(aims, lab, aims_said(&all_sheets[i]));
    }
    json_t *record = json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "record", 1, "runtime",
                               "simulator", "source_hashes", hashes_of(programs), "aims", aims,
                               "of", of, "programs", programs, "refused", refused);
    char *words = json_dumps(record, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    if (!words || !write_text(options.record, text("%s\n", words)))
        fail(EXIT_MACHINE, "cannot write %s", options.record);
    free(words);
    json_decref(record);
}

static int enter_all(void)
{
    char *pattern = text("%s/*.cu", options.pairs);
    glob_t found;
    int count = 0;

    if (glob(pattern, 0, NULL, &found))
        fail(EXIT_USAGE, "%s has no .cu files", options.pairs);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        struct entry *e = &entries[count++];
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        if (count > PAIRS_TEXTS_MAX)
            fail(EXIT_MACHINE, "more than %d texts", PAIRS_TEXTS_MAX);
        e->name = text("%.*s", (int)(strlen(name) - strlen(".cu")), name);
        e->source = submission_source(found.gl_pathv[i], &e->bytes, &e->why);
        if (!e->source)
            fail(EXIT_MACHINE, "%s %s", found.gl_pathv[i], e->why);
        entry_keep(e);
    }
    globfree(&found);
    free(pattern);
    return count;
}

int check_pairs(void)
{
    double start = now();
    char *ideas = read_ideas();
    int count = enter_all();

    grade_entries(entries, count, tell);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < sheet_count; ++j) {
            char *lab = text("lab%02d", all_sheets[j].number);
            const json_t *paid = at(entries[i].result, text("aims.%s", lab));
            if (paid)
                check_pair(ideas, &entries[i], &all_sheets[j], paid);
        }
    free(ideas);
    if (options.record && !earned_wrongly && !earned_nothing)
        write_record(count);
    printf("%d texts on %d sheets: %d aims earned by something else than their idea, %d not earned "
           "by it (%.0f s)\n",
           count, sheet_count, earned_wrongly, earned_nothing, now() - start);
    return earned_wrongly || earned_nothing ? 1 : 0;
}
