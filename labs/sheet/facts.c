// facts.c: reads what a sheet says apart from its items: the program, how P may be rounded, the
// mask, the shapes.
#include "sheet.h"

#include <math.h>
#include <string.h>

// Reads how kernels may round P, which the sheet says: a submission's own claim could widen its
// gate.
static char *read_p(const json_t *json, struct p_rounding *p)
{
    if (!json)
        return NULL;
    const char *format = string_at(json, "format"), *sum = string_at(json, "sum");
    double offset = number_at(json, "offset"), tile = number_or(json, "tile", 0);
    double lag = number_or(json, "lag", 0);
    if (strcmp(format, "e4m3") != 0 || !(fabs(offset) <= 16) ||
        (strcmp(sum, "rounded") != 0 && strcmp(sum, "unrounded") != 0))
        return "\"p\" is not {\"format\": \"e4m3\", \"offset\": -16 to 16, "
               "\"sum\": \"rounded\" or \"unrounded\"}";
    if (!(tile >= 0) || fmod(tile, 8) != 0 || !(lag >= 0 && lag <= 16))
        return "\"p\": the tile is no multiple of 8, or the lag not 0 to 16";
    *p = (struct p_rounding){.format = P_E4M3,
                             .offset = (int)offset,
                             .sum_rounded = strcmp(sum, "rounded") == 0,
                             .tile = (int)tile,
                             .lag = lag,
                             .mean = json_is_true(at(json, "mean"))};
    return NULL;
}

// Reads the public shapes: small and mission, unless the sheet names others. Either all of them are
// caches, or none.
static char *read_shapes(const json_t *json, struct sheet *sheet)
{
    static const char *const usual[] = {"small", "mission"};
    size_t count = json ? json_array_size(json) : 2;

    if (count == 0 || count > SHEET_SHAPES_MAX)
        return text("\"shapes\" are not 1 to %d", SHEET_SHAPES_MAX);
    for (size_t i = 0; i < count; ++i) {
        const char *name = json ? json_string_value(json_array_get(json, i)) : usual[i];
        struct shape shape;
        char why[256];
        if (!name || !shape_parse(name, &shape, why, sizeof why))
            return text("\"shapes\": %s", name ? why : "not a list of texts");
        bool cache = shape.page > 0;
        if (i > 0 && cache != sheet->cache)
            return "\"shapes\": some are caches, and some are not";
        sheet->cache = cache;
        sheet->shapes[sheet->shape_count++] = name;
    }
    return NULL;
}

// Reads "longest", the most keys of a drawn case: a limit shortens grading. It is a multiple of a
// tile, and at least 512: the cases of `races`, which ignore it, have up to 401 keys.
static char *read_longest(const json_t *json, struct sheet *sheet)
{
    enum { LEAST = 512, MOST = 1 << 20, TILE = 128 };
    double longest = json ? json_number_value(json) : MOST;

    if (json && sheet->cache)
        return "\"longest\" is not for labs of caches";
    if (!(longest >= LEAST && longest <= MOST) || fmod(longest, TILE) != 0)
        return text("\"longest\" is no number of keys: a multiple of %d, %d at least", TILE, LEAST);
    sheet->longest = (int)longest;
    return NULL;
}

bool facts_read(struct sheet *sheet, char **why)
{
    const json_t *json = sheet->json;
    const char *mask = string_or(json, "mask", NULL);

    sheet->number = (int)number_or(json, "lab", 0);
    sheet->title = string_or(json, "title", NULL);
    sheet->program = string_or(json, "program", NULL);
    sheet->journal = string_or(json, "journal", NULL);
    sheet->ending = sheet->journal ? "c" : "cu";
    sheet->model = strcmp(string_or(json, "runs", ""), "model") == 0;
    sheet->not_graded = string_or(json, "not_graded", NULL);
    sheet->mask = mask ? MASK_CAUSAL : MASK_NONE;
    *why = read_p(at(json, "p"), &sheet->p);
    if (!*why && mask && strcmp(mask, "causal") != 0)
        *why = text("\"mask\" is \"%s\", not \"causal\"", mask);
    if (!*why)
        *why = read_shapes(at(json, "shapes"), sheet);
    if (!*why)
        *why = read_longest(at(json, "longest"), sheet);
    return !*why;
}
