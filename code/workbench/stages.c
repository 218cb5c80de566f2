// stages.c: reads chapters/stages.tsv; its own comments say what the columns are.
#include "stages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 5 }; // number, name, program, images, least

// Cuts a line at its tabs. How many columns there are; the first COLUMNS are in `cells`.
static int cut(char *line, char *cells[COLUMNS])
{
    int count = 0;

    line[strcspn(line, "\n")] = '\0';
    for (char *cell; (cell = strsep(&line, "\t"));)
        if (count++ < COLUMNS)
            cells[count - 1] = cell;
    return count;
}

// A row from its cells; false if they cannot be one.
static bool take(char *cells[COLUMNS], struct stage *stage)
{
    char *end;
    long number = strtol(cells[0], &end, 10);

    *stage = (struct stage){.number = (int)number};
    if (end == cells[0] || *end || number < 1 || number > 99 || !*cells[1] ||
        strlen(cells[1]) >= sizeof stage->name || strlen(cells[2]) >= sizeof stage->program)
        return false;
    strcpy(stage->name, cells[1]);
    strcpy(stage->program, strcmp(cells[2], "-") == 0 ? "" : cells[2]);
    stage->has_kernel = strcmp(cells[3], "-") != 0;
    return true;
}

bool stage_read(const char *root, int number, struct stage *stage, char *why, size_t size)
{
    static const char table[] = "chapters/stages.tsv";
    char path[4096], line[512], *cells[COLUMNS];
    bool heading = true, found = false, good = true;

    snprintf(path, sizeof path, "%s/%s", root, table);
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, size, "%s: %s", table, strerror(errno));
        return false;
    }
    for (int n = 1; good && !found && fgets(line, sizeof line, file); ++n) {
        if (line[0] == '#')
            continue;
        int count = cut(line, cells);
        good = count == COLUMNS && (heading ? strcmp(cells[0], "number") == 0 : take(cells, stage));
        if (!good)
            snprintf(why, size, "%s:%d: no row of number, name, program, images, least", table, n);
        found = good && !heading && stage->number == number;
        heading = false;
    }
    if (good && !found)
        snprintf(why, size,
                 "%s has no stage %d: add a row of its number, name, program, images, least", table,
                 number);
    fclose(file);
    return found;
}
