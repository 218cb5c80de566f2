// board.c: the ranking by speed, if submissions were timed on a GPU. Only right kernels take part,
// ranked by their speed relative to the book's program in the same run. Kernels whose 95 %
// intervals overlap with that of the fastest kernel of a rank share this rank, since the order
// between them is noise.
#include "judge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct place {
    const char *name;
    double ratio, low, high, us;
    int rank;
};

static int faster(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->ratio != y->ratio ? (x->ratio < y->ratio) - (x->ratio > y->ratio)
                                : strcmp(x->name, y->name);
}

// Gives ranks. A kernel whose interval does not overlap with that of the first kernel of a rank
// begins the next rank.
static void give_ranks(struct place places[], int count)
{
    int first = 0;

    for (int i = 0; i < count; ++i) {
        if (places[i].high < places[first].low)
            first = i;
        places[i].rank = first + 1;
    }
}

// Writes a name into a cell of a Markdown table, with all characters escaped that Markdown or HTML
// would interpret.
static void write_name(FILE *to, const char *name)
{
    for (; *name; ++name) {
        if (*name == '<' || *name == '>' ||
            *name == '&') { // some readers of Markdown take no backslash before these
            fprintf(to, "&#%d;", *name);
            continue;
        }
        if (ispunct((unsigned char)*name) && !strchr(".,-", *name))
            fputc('\\', to);
        fputc(*name == '\n' ? ' ' : *name, to);
    }
}

int write_board(FILE *to, const json_t *const results[], int count)
{
    struct place *places = need(calloc((size_t)count + 1, sizeof *places));
    const char *gpu = NULL;
    int timed = 0;

    for (int i = 0; i < count; ++i) {
        const json_t *speed = json_object_get(results[i], "speed");
        const char *on = json_string_value(json_object_get(results[i], "gpu"));
        if (!speed || !on || number_or(results[i], "score", 0) <= 0)
            continue;
        if (gpu && strcmp(gpu, on) != 0)
            fail(EXIT_USAGE, "a board is of one GPU, and these are of %s and %s", gpu, on);
        gpu = on;
        places[timed++] = (struct place){
            .name = json_string_value(json_object_get(results[i], "name")),
            .ratio = number_or(speed, "ratio", 0),
            .low = number_or(speed, "low", 0),
            .high = number_or(speed, "high", 0),
            .us = number_or(speed, "us", 0),
        };
    }
    if (timed) {
        qsort(places, (size_t)timed, sizeof *places, faster);
        give_ranks(places, timed);
        fprintf(to, "Lab %d: %s, on %s\n\n", sheet.number, sheet.title, gpu);
        fputs("| place | submission | of the book's speed | µs |\n|--:|:--|--:|--:|\n", to);
    }
    for (int i = 0; i < timed; ++i) {
        fprintf(to, "| %d | ", places[i].rank);
        write_name(to, places[i].name);
        fprintf(to, " | %.2f [%.2f, %.2f] | %.2f |\n", places[i].ratio, places[i].low,
                places[i].high, places[i].us);
    }
    free(places);
    return timed;
}

int print_board(char *const paths[], int count)
{
    const json_t **results = need(calloc((size_t)count + 1, sizeof *results));

    for (int i = 0; i < count; ++i) {
        json_t *result = json_load_file(paths[i], 0, NULL);
        if (!json_is_object(result) || (int)number_or(result, "lab", 0) != sheet.number)
            fail(EXIT_USAGE, "--board: %s is no result of lab %d (labs/grade --json writes one)",
                 paths[i], sheet.number);
        results[i] = result;
    }
    if (!write_board(stdout, results, count))
        fail(EXIT_USAGE, "--board: none of them was timed: that needs a GPU, and a right kernel");
    free(results);
    return EXIT_GRADED;
}
