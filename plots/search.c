// search.c: the search of chapter 14.
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Block 0: candidates with a time (number, p50, best so far, swizzled). Block 1: the others
// (number, verdict). The first line: shape, GPU; numbers of candidates, of those with a time, and
// of those without; the last candidate before the neighbours of the best.
void search_chart(const char *path)
{
    enum { MOST = 1000, LAST = 9999 }; // as in ch14_search.c
    static struct {
        double score;
        const char *verdict;
        bool swizzled;
    } all[MOST];
    json_t *lines = load_journal(path), *head = json_array_get(lines, 0), *line;
    int count = 0, timed = 0, evolved = 0;
    for (size_t i = 1; i < json_array_size(lines); i++, count++) {
        line = json_array_get(lines, i);
        const char *knobs = words(line, path, "knobs", "");
        if (count == MOST || knobs[0] == '\0')
            fail(BAD_RECORD, "%s: line %zu: not a candidate", path, i + 1);
        all[count].verdict = words(line, path, "verdict", "");
        all[count].swizzled = knobs[strlen(knobs) - 1] == '1';
        all[count].score = NAN;
        if (strcmp(all[count].verdict, "timed") == 0) {
            all[count].score = positive(line, path, "score");
            timed++;
        }
        evolved += number(line, path, "generation") < LAST;
    }
    if (timed == 0)
        fail(NOTHING_TO_DRAW, "no candidate has a time");
    printf("# %s\t%s\t%d\t%d\t%d\t%d\n", words(head, path, "search", ""),
           words(head, path, "on", ""), count, timed, count - timed, evolved);
    double best = INFINITY;
    for (int i = 0; i < count; i++)
        if (!isnan(all[i].score)) {
            best = fmin(best, all[i].score);
            printf("%d\t%.6g\t%.6g\t%d\n", i + 1, all[i].score, best, all[i].swizzled);
        }
    end_block();
    for (int i = 0; i < count; i++)
        if (isnan(all[i].score))
            printf("%d\t%s\n", i + 1, all[i].verdict);
    json_decref(lines);
}

// Prints, for pairs of timed candidates that differ in one knob only, how often the second of the
// pair was faster, and how the change affected the time, at best and at worst.
void pairs_table(const char *path)
{
    enum { KNOBS = 8 }; // as in ch14_search.c
    static const struct {
        const char *name;
        int knob, from, to;
    } kinds[] = {{"block_m", 0, 32, 64},  {"block_n", 1, 32, 64}, {"warps_n", 2, 2, 4},
                 {"stages", 3, 1, 2},     {"producers", 4, 0, 2}, {"producers", 4, 0, 4},
                 {"persistent", 5, 0, 1}, {"fast_exp", 6, 0, 1},  {"swizzle", 7, 0, 1}};
    json_t *lines = load_journal(path);
    size_t count = json_array_size(lines), timed = 0;
    struct timed {
        int knob[KNOBS];
        double score;
    } *all = need(calloc(count, sizeof *all));
    for (size_t i = 1; i < count; i++) {
        json_t *line = json_array_get(lines, i);
        const char *knobs = words(line, path, "knobs", "");
        int *n = all[timed].knob;
        if (sscanf(knobs, "%d-%d-%d-%d-%d-%d-%d-%d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
                   &n[6], &n[7]) != KNOBS)
            fail(BAD_RECORD, "%s: \"%s\" are not %d knobs", path, knobs, KNOBS);
        if (strcmp(words(line, path, "verdict", ""), "timed") == 0)
            all[timed++].score = positive(line, path, "score");
    }
    printf("<!-- from h200/elite -->\n| knob | from | to | pairs | faster | best | worst |\n"
           "|---|--:|--:|--:|--:|--:|--:|\n");
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        int pairs = 0, faster = 0;
        double best = INFINITY, worst = 0;
        for (size_t i = 0; i < timed; i++)
            for (size_t k = 0; k < timed; k++) {
                bool pair = true;
                for (int n = 0; n < KNOBS; n++) {
                    bool turned = n == kinds[kind].knob;
                    pair = pair && all[k].knob[n] == (turned ? kinds[kind].to : all[i].knob[n]) &&
                           (!turned || all[i].knob[n] == kinds[kind].from);
                }
                if (!pair)
                    continue;
                double ratio = all[k].score / all[i].score;
                pairs++;
                faster += ratio < 1;
                best = fmin(best, ratio);
                worst = fmax(worst, ratio);
            }
        if (pairs == 0)
            continue;
        printf("| `%s` | %d | %d | %d | %d | ", kinds[kind].name, kinds[kind].from, kinds[kind].to,
               pairs, faster);
        printf("%s%.0f %% | ", best < 1 ? "−" : "+", 100 * fabs(best - 1));
        printf("%s%.0f %% |\n", worst < 1 ? "−" : "+", 100 * fabs(worst - 1));
    }
    free(all);
    json_decref(lines);
}

void changes_table(const char *path)
{
    json_t *elite = load(path), *changes = at(elite, "changes"), *change;
    const char *best = words(elite, path, "changes_of", NULL), *previous = "";
    json_t *of_best = NULL, *one;
    size_t i;
    if (!json_is_array(changes) || best == NULL)
        fail(BAD_RECORD, "%s: not what a search leaves", path);
    if (json_array_size(changes) == 0)
        fail(NOTHING_TO_DRAW, "the search did not look at single changes");
    json_array_foreach (at(elite, "elite"), i, one)
        if (strcmp(words(one, path, "knobs", ""), best) == 0)
            of_best = one;
    double score = positive(of_best, path, "score");
    if (isnan(score))
        fail(BAD_RECORD, "%s: %s is not in the elite", path, best);
    printf("<!-- from h200/elite -->\n"
           "| knob | here | changed to | p50, µs | against the best |\n|---|--:|--:|--:|---|\n");
    json_array_foreach (changes, i, change) {
        const char *knob = words(change, path, "knob", "");
        char key[96];
        snprintf(key, sizeof key, "knob.%.64s", knob);
        double here = number(of_best, path, key);
        if (strcmp(knob, previous) == 0)
            printf("| | | ");
        else
            printf("| `%s` | %.0f | ", knob, here);
        previous = knob;
        printf("%.0f | ", number(change, path, "value"));
        const char *said = words(change, path, "said", "");
        if (strcmp(words(change, path, "verdict", ""), "timed") == 0) {
            double us = positive(change, path, "score");
            printf("%.2f | %+.0f %% |\n", us, 100 * (us / score - 1));
        } else {
            printf("– | %s%s%s |\n", words(change, path, "verdict", ""), said[0] ? ": " : "", said);
        }
    }
    json_decref(elite);
}
