// stages.c: reads chapters/stages.tsv, whose comments describe its columns.
#include "stages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char table[] = "chapters/stages.tsv";

enum { MOST_COLUMNS = 16 };
enum { NUMBER, NAME, PROGRAM, IMAGES, READ }; // the columns that are read here
static const char *const read_names[READ] = {"number", "name", "program", "images"};

struct heading {
    int count;       // columns of the table; 0: no heading yet
    int place[READ]; // the index of each column that is read
    char names[256]; // names of all columns, for messages: "number, name, program"
};

// Cuts a line at its tabs. Returns the number of columns, or 0 if there are too many.
static int cut(char *line, char *cells[MOST_COLUMNS])
{
    int count = 0;

    line[strcspn(line, "\n")] = '\0';
    for (char *cell; (cell = strsep(&line, "\t"));) {
        if (count == MOST_COLUMNS)
            return 0;
        cells[count++] = cell;
    }
    return count;
}

// Reads the line that names the columns; false: a column that is needed is missing, or the names
// are too long.
static bool take_heading(char *cells[], int count, struct heading *heading)
{
    size_t length = 0;
    int found = 0;

    for (int i = 0; i < count; ++i) {
        for (int column = 0; column < READ; ++column)
            if (strcmp(cells[i], read_names[column]) == 0) {
                heading->place[column] = i;
                ++found;
            }
        if (length + strlen(cells[i]) + 3 > sizeof heading->names)
            return false;
        length += (size_t)sprintf(heading->names + length, "%s%s", i > 0 ? ", " : "", cells[i]);
    }
    heading->count = count;
    return found == READ;
}

// Makes a stage of a row's cells; false: a cell is malformed or too long.
static bool take(char *cells[], const struct heading *heading, struct stage *stage)
{
    const char *number = cells[heading->place[NUMBER]], *name = cells[heading->place[NAME]];
    const char *program = cells[heading->place[PROGRAM]];
    char *end;
    long value = strtol(number, &end, 10);

    *stage = (struct stage){.number = (int)value};
    if (end == number || *end || value < 1 || value > 99 || !*name ||
        strlen(name) >= sizeof stage->name || strlen(program) >= sizeof stage->program)
        return false;
    strcpy(stage->name, name);
    strcpy(stage->program, strcmp(program, "-") == 0 ? "" : program);
    stage->has_kernel = strcmp(cells[heading->place[IMAGES]], "-") != 0;
    return true;
}

// Reads a line of the table, heading or row; false: it is neither, and `why` has one line.
static bool take_line(char *line, int n, struct heading *heading, struct stage *stage, char *why,
                      size_t size)
{
    char *cells[MOST_COLUMNS];
    int count = cut(line, cells);

    if (heading->count > 0 && count == heading->count && take(cells, heading, stage))
        return true;
    if (heading->count > 0)
        snprintf(why, size, "%s:%d: no row of %s", table, n, heading->names);
    else if (count > 0 && take_heading(cells, count, heading))
        return true;
    else
        snprintf(why, size, "%s:%d: no heading with the columns number, name, program and images",
                 table, n);
    return false;
}

bool stage_read(const char *root, int number, struct stage *stage, char *why, size_t size)
{
    struct heading heading = {0};
    char path[4096], line[512];
    bool found = false, good = true;

    snprintf(path, sizeof path, "%s/%s", root, table);
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, size, "%s: %s", table, strerror(errno));
        return false;
    }
    stage->number = 0;
    for (int n = 1; good && !found && fgets(line, sizeof line, file); ++n) {
        if (line[0] == '#')
            continue;
        good = take_line(line, n, &heading, stage, why, size);
        found = good && stage->number == number;
    }
    if (good && !found && heading.count == 0)
        snprintf(why, size, "%s has no heading with the columns number, name, program and images",
                 table);
    else if (good && !found)
        snprintf(why, size, "%s has no stage %d: add a row of its %s", table, number,
                 heading.names);
    fclose(file);
    return found;
}
