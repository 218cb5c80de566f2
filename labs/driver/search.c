// search.c: judges a search by the candidates that it asks for. The journal of the book's search,
// and drawn landscapes, answer it; it needs no GPU, and no compiler for kernels. labs/replay.h says
// what is counted, and by which rules.
#include "lab.h"

#include "../replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// PRACTICE: seed of the first drawn landscape; the grader has other seeds.
enum { SEARCH_SECONDS = 20, PRACTICE = 14000 };

static struct game games[REPLAY_SEEDS];
static int until_elite[SEARCHED]; // median number of candidates until the elite
static char *broken;              // the first broken rule, or NULL
static bool late;                 // whether a run did not end in time; then no other is started

// Runs a program on a landscape, with a seed, and counts in *g.
static void play(struct game *g, const struct landscape *l, const char *path, int seed)
{
    char *command[] = {(char *)path, "--replay", "-", "--seed", text("%d", seed), NULL};
    struct process child;

    game_begin(g, l);
    if (late) {
        snprintf(g->wrong, sizeof g->wrong, "not run: another one did not end in time");
        return;
    }
    if (!process_start(&child, command, NULL))
        fail(EXIT_MACHINE, "cannot run %s", path);
    game_play(g, fileno(child.out), fileno(child.in), SEARCH_SECONDS);
    struct output output = process_finish(&child, 1);
    output_free(&output);
    free(command[4]);
    late = g->late;
}

static void show_rule(const char *what, int passed, int total, const char *note, const char *wrong)
{
    bool pass =
        note_gate("rules", what, json_sprintf("%d of %d", passed, total), "all", passed == total);
    char *said = text("%d of %d", passed, total);

    printf("  %-30s %8s  %s%s\n", what, said, mark(pass), note);
    if (!pass)
        wrap(wrong, printf("    "), 6);
    if (!pass && !broken)
        broken = text("%s: %s", what, wrong);
}

static void judge_children(const char *path)
{
    struct children children;
    int passed = 0, total = 0;
    char *wrong = NULL;

    for (; replay_parents[total]; ++total) {
        if (late)
            continue;
        char *parent = (char *)replay_parents[total];
        char *command[] = {(char *)path, "--children", parent, NULL};
        struct process child;
        if (!process_start(&child, command, NULL))
            fail(EXIT_MACHINE, "cannot run %s", path);
        children_read(&children, parent, fileno(child.out), SEARCH_SECONDS);
        struct output output = process_finish(&child, 1);
        output_free(&output);
        passed += !*children.wrong;
        late = children.late;
        if (*children.wrong && !wrong)
            wrong = text("--children %s: %s", parent, children.wrong);
    }
    show_rule("mutate: children of a parent", passed, total, "",
              wrong ? wrong : "not run: a search did not end in time");
}

// Sorts the counts of some games into counts[]; returns their median.
static int sorted_counts(const struct game list[], int count, int counts[])
{
    for (int i = 0; i < count; ++i)
        counts[i] = game_count(&list[i]);
    return median_count(counts, count);
}

static void judge_games(const char *what, const struct game list[], int count, const char *note)
{
    int passed = 0;
    char *wrong = NULL;

    for (int i = 0; i < count; ++i) {
        passed += !*list[i].wrong;
        if (*list[i].wrong && !wrong)
            wrong = text("seed %d, %s", i + 1, list[i].wrong);
    }
    show_rule(what, passed, count, note, wrong);
}

static void judge_drawn(const char *path)
{
    static struct landscape l;
    static struct game list[REPLAY_DRAWN];
    int counts[REPLAY_DRAWN], found = 0;

    for (int i = 0; i < REPLAY_DRAWN; ++i) {
        doing("landscape %d of %d", i + 1, REPLAY_DRAWN);
        landscape_draw(&l, (uint64_t)(PRACTICE + i));
        play(&list[i], &l, path, i + 1);
        found += list[i].elite > 0;
    }
    done();
    until_elite[ON_DRAWN] = sorted_counts(list, REPLAY_DRAWN, counts);
    judge_games("searches on drawn landscapes", list, REPLAY_DRAWN,
                text(": elite in %d, median %d", found, until_elite[ON_DRAWN]));
    json_object_set_new(at(record, "search"), "drawn",
                        json_pack("{s:i, s:i, s:i}", "count", REPLAY_DRAWN, "found", found,
                                  "median", until_elite[ON_DRAWN]));
}

static const char *number_or_none(int number)
{
    return number ? text("%d", number) : "none";
}

static json_t *row_of(const struct game *g, int seed)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f}", "seed", seed, "first_64", g->first_64,
                     "elite", g->elite, "asked", g->asked, "missing", g->missing, "best",
                     isfinite(g->best) ? g->best : 0.0);
}

static void show_games(void)
{
    json_t *rows = json_array();
    int counts[REPLAY_SEEDS], asked = 0, missing = 0;

    printf("\n  %4s %9s %8s %8s %11s %10s\n", "seed", "64 x 64", "elite", "in all", "not known",
           "best, us");
    for (int i = 0; i < REPLAY_SEEDS; ++i) {
        const struct game *g = &games[i];
        printf("  %4d %9s %8s %8d %11d %10s\n", i + 1, number_or_none(g->first_64),
               number_or_none(g->elite), g->asked, g->missing,
               isfinite(g->best) ? text("%.2f", g->best) : "none");
        json_array_append_new(rows, row_of(g, i + 1));
        asked += g->asked;
        missing += g->missing;
    }
    until_elite[ON_JOURNAL] = sorted_counts(games, REPLAY_SEEDS, counts);
    json_object_set_new(record, "search",
                        json_pack("{s:s, s:i, s:o, s:i, s:i, s:i, s:i}", "journal", lab.journal,
                                  "most", REPLAY_MOST, "seeds", rows, "median",
                                  until_elite[ON_JOURNAL], "worst", counts[REPLAY_SEEDS - 1],
                                  "asked", asked, "missing", missing));
}

static char *count_said(int count)
{
    return count < REPLAY_MOST ? text("%d", count) : text("none in %d", REPLAY_MOST);
}

// Shows how many candidates a search needs. counts: one for each seed, in ascending order.
static void show_yardstick(const char *name, const char *key, const int counts[])
{
    int found = 0, median = counts[(REPLAY_SEEDS - 1) / 2], most = counts[REPLAY_SEEDS - 1];

    for (int i = 0; i < REPLAY_SEEDS; ++i)
        found += counts[i] < REPLAY_MOST;
    printf("  %-32s %12s %14s\n", name, count_said(median), count_said(most));
    if (key)
        json_object_set_new(
            at(record, "search"), key,
            json_pack("{s:i, s:i, s:i}", "median", median, "worst", most, "found", found));
}

// Shows the counts of the judged search, of the book's search (unless that is the judged one), and
// of random choice.
static void show_yardsticks(const struct landscape *l, const char *own)
{
    int counts[REPLAY_SEEDS];

    printf("\n  %-32s %12s %14s\n", "until the elite", "median", "worst");
    sorted_counts(games, REPLAY_SEEDS, counts);
    show_yardstick(lab.only_search ? after.name : lab.search, NULL, counts);
    if (lab.student && access(own, X_OK) == 0) {
        struct game book[REPLAY_SEEDS];
        for (int i = 0; i < REPLAY_SEEDS; ++i)
            play(&book[i], l, own, i + 1);
        sorted_counts(book, REPLAY_SEEDS, counts);
        show_yardstick("the book's search", "book", counts);
    }
    for (int i = 0; i < REPLAY_SEEDS; ++i)
        counts[i] = random_count(l, (uint64_t)(i + 1));
    median_count(counts, REPLAY_SEEDS);
    show_yardstick("random choice", "random", counts);
}

void judge_search(void)
{
    static struct landscape l;
    char why[512], *own = text("%s/build/%s", root, lab.search);
    const char *path = lab.only_search ? after.path : own;

    if (!landscape_read(&l, text("%s/%s", root, lab.journal), why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    if (access(path, X_OK))
        fail(EXIT_MACHINE, "build/%s is not there: type make chapter%d", lab.search, lab.number);
    heading("The search, replayed");
    wrap(text("How many candidates it asked for until the first with tiles of 64 x 64, until the "
              "first of the elite (within 2 %% of the best), and in all, of at most %d; and how "
              "many of them %s does not know.",
              REPLAY_MOST, lab.journal),
         printf("  "), 2);
    for (int i = 0; i < REPLAY_SEEDS; ++i)
        play(&games[i], &l, path, i + 1);
    show_games();
    show_yardsticks(&l, own);
    heading("Its rules");
    judge_children(path);
    judge_games("searches on the journal", games, REPLAY_SEEDS, "");
    after.wrong |= lab.only_search && broken; // fails the sheet's item `correct`
    judge_drawn(path);
}

int search_count(enum searched on)
{
    return until_elite[on];
}

const char *search_broken(void)
{
    return broken;
}
