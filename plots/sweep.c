// sweep.c: programs at many shapes, each compared with the fastest peer at that shape.
#include "series.h"

#include <math.h>
#include <string.h>

enum { PROGRAMS = 3 }; // portable; Hopper, P in half; Hopper, P in E4M3
static const char *const everywhere[PROGRAMS] = {"ch15_short", "ch17_hopper_half", "ch18_room"},
                         *const causal[PROGRAMS] = {"ch20_causal", "ch20_half", "ch20_room"};

// The p50 of the fastest entry that is not a program of the book, in us.
static double fastest_peer(json_t *shape, const char *path, const char *name)
{
    double fastest = NAN;
    const char *key;
    json_t *entry;
    json_object_foreach (object(shape, path, "entries"), key, entry)
        if (strncmp(key, "ch", 2) != 0)
            fastest = fmin(fastest, positive(entry, path, "graph.p50_us"));
    if (isnan(fastest))
        fail(BAD_RECORD, "%s: shapes.%s has no peer that was timed", path, name);
    return fastest;
}

// Prints a line for each shape: its number and name; for each program, the fastest peer's p50
// divided by the program's.
static void print_ratios(json_t *record, const char *path, const char *const programs[PROGRAMS])
{
    json_t *shape;
    const char *name;
    int row = 0;
    json_object_foreach (object(record, path, "shapes"), name, shape) {
        double peer = fastest_peer(shape, path, name);
        printf("%d\t%s", ++row, name);
        for (int i = 0; i < PROGRAMS; i++) {
            char at[80];
            snprintf(at, sizeof at, "entries.%s.graph.p50_us", programs[i]);
            printf("\t%.6g", peer / positive(shape, path, at));
        }
        putchar('\n');
    }
    end_block();
    json_decref(record);
}

// Two blocks: chapters 15, 17 and 18 without a mask; chapter 20's three programs with one.
void sweep_chart(const char *path)
{
    char *beside;
    json_t *masked = load_beside(path, "sweep-causal.json", &beside);
    print_ratios(load(path), path, everywhere);
    // load() exits if the file is missing.
    print_ratios(masked ? masked : load(beside), beside, causal);
    free(beside);
}
