// limits.c: limits, and resources (resources.def).
#include "sheet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const relations[] = {
    [NO_LIMIT] = "", [AT_MOST] = "<=", [AT_LEAST] = ">=", [EXACTLY] = "=="};

bool relation_read(const char *words, enum relation *relation)
{
    for (*relation = AT_MOST; *relation <= EXACTLY; ++*relation)
        if (strcmp(words, relations[*relation]) == 0)
            return true;
    return false;
}

const char *relation_words(enum relation relation)
{
    return relations[relation];
}

bool limit_kept(double value, struct limit limit)
{
    switch (limit.relation) {
    case AT_MOST: return value <= limit.value;
    case AT_LEAST: return value >= limit.value;
    case EXACTLY: return value == limit.value;
    default: return false;
    }
}

const struct resource resources[] = {
#define RESOURCE(known, name, title, usual, times, image, device, graded)                          \
    {known, #name, title, usual, times, image, device},
#include "resources.def"
#undef RESOURCE
};
const int resource_count = sizeof resources / sizeof *resources;

int resource_find(const char *name, int front_end)
{
    for (int i = 0; i < resource_count; ++i)
        if ((resources[i].known & front_end) && strcmp(resources[i].name, name) == 0)
            return i;
    return -1;
}

char *resource_names(int front_end)
{
    char *names = text("%s", "");
    for (int i = 0; i < resource_count; ++i)
        if (resources[i].known & front_end)
            names = text("%s%s%s", names, *names ? ", " : "", resources[i].name);
    return names;
}

int searched_find(const char *name)
{
    return strcmp(name, "candidates") == 0 ? ON_JOURNAL
           : strcmp(name, "drawn") == 0    ? ON_DRAWN
                                           : -1;
}

double resource_recorded(const json_t *recorded, const struct resource *resource, const char *image)
{
    char *paths = text("%s", image ? resource->image : resource->device), *rest = paths, *path;
    double sum = *paths ? 0 : NAN;
    while (*paths && (path = strsep(&rest, "+"))) {
        size_t before = strcspn(path, "*");
        char *found = path[before] ? text("%.*s%s%s", (int)before, path, image, path + before + 1)
                                   : text("%s", path);
        sum += number_at(recorded, found);
        free(found);
    }
    free(paths);
    return resource->times * sum;
}
