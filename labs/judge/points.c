// points.c: what a lab gives points for, from build/labs/labNN.json, which the chapter's sheet becomes.
#include "judge.h"

#include <math.h>
#include <string.h>

struct lab lab;

static const char *string(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && *s ? s : NULL;
}

static double number(json_t *object, const char *key, double without)
{
    json_t *n = json_object_get(object, key);
    return json_is_number(n) ? json_number_value(n) : without;
}

static void read_item(json_t *json, struct item *item, const char *path)
{
    *item = (struct item){
        .name = string(json, "name"),
        .relation = string(json, "relation"),
        .shape = string(json, "shape"),
        .words = string(json, "words"),
        .limit = number(json, "limit", NAN),
        .full = number(json, "full", NAN),
        .from = number(json, "from", NAN),
        .points = (int)number(json, "points", -1),
    };
    if (!item->name || item->points < 0)
        fail(EXIT_USAGE, "%s: an item of \"points\" has no name or no points", path);
    struct shape shape;
    char why[256];
    if (item->shape && !shape_parse(item->shape, &shape, why, sizeof why))
        fail(EXIT_USAGE, "%s: %s: %s", path, item->name, why);
    if (item->relation && (strlen(item->relation) != 2 || !strstr("<= >= ==", item->relation)))
        fail(EXIT_USAGE, "%s: %s: \"%s\" is none of <=, >=, ==", path, item->name, item->relation);
    if (item->relation && isnan(item->limit))
        fail(EXIT_USAGE, "%s: %s: no limit", path, item->name);
    if (is_aim(item) && (!item->relation || item->relation[0] == '=' ||
                         relation_holds(item->from, item->relation, item->limit)))
        fail(EXIT_USAGE, "%s: %s: an aim is <= or >= a limit, and \"from\" is beyond it", path,
             item->name);
}

// The sheet says how kernels may round P. A submission is not asked: its claim would widen its gate.
static void read_p(json_t *json, const char *path)
{
    lab.p = (struct p_rounding){0};
    if (!json)
        return;
    const char *format = string(json, "format"), *sum = string(json, "sum");
    double offset = number(json, "offset", NAN);
    if (!format || strcmp(format, "e4m3") != 0 || !(fabs(offset) <= 16) || !sum ||
        (strcmp(sum, "rounded") != 0 && strcmp(sum, "unrounded") != 0))
        fail(EXIT_USAGE,
             "%s: \"p\" is not {\"format\": \"e4m3\", \"offset\": -16 to 16, "
             "\"sum\": \"rounded\" or \"unrounded\"}",
             path);
    double tile = number(json, "tile", 0), lag = number(json, "lag", 0);
    if (!(tile >= 0) || fmod(tile, 8) != 0 || !(lag >= 0 && lag <= 16))
        fail(EXIT_USAGE, "%s: \"p\": the tile is no multiple of 8, or the lag not 0 to 16", path);
    lab.p =
        (struct p_rounding){P_E4M3,    (int)offset, strcmp(sum, "rounded") == 0,
                            (int)tile, lag,         json_is_true(json_object_get(json, "mean"))};
}

// Public shapes are small and mission, unless the sheet names its own: either all of them caches.
static void read_shapes(const json_t *json, const char *path)
{
    static const char *const usual[] = {"small", "mission"};
    size_t count = json ? json_array_size(json) : 2;

    if (count == 0 || count > LAB_SHAPES_MAX)
        fail(EXIT_USAGE, "%s: \"shapes\" are not 1 to %d", path, LAB_SHAPES_MAX);
    for (size_t i = 0; i < count; ++i) {
        const char *name = json ? json_string_value(json_array_get(json, i)) : usual[i];
        struct shape shape;
        char why[256];
        if (!name || !shape_parse(name, &shape, why, sizeof why))
            fail(EXIT_USAGE, "%s: \"shapes\": %s", path, name ? why : "not a list of texts");
        bool cache = shape.page > 0;
        if (i > 0 && cache != lab.cache)
            fail(EXIT_USAGE, "%s: \"shapes\": some are caches, and some are not", path);
        lab.cache = cache;
        lab.shapes[lab.shape_count++] = text("%s", name);
    }
}

// "longest": no case that is drawn has more keys, so that a sheet is graded in less time. Whole tiles, and
// no fewer than the ragged cases have.
static void read_longest(const json_t *json, const char *path)
{
    enum { LEAST = 512, MOST = 1 << 20, TILE = 128 };
    double longest = json ? json_number_value(json) : MOST;

    if (json && lab.cache)
        fail(EXIT_USAGE, "%s: \"longest\" is not for labs of caches", path);
    if (!(longest >= LEAST && longest <= MOST) || fmod(longest, TILE) != 0)
        fail(EXIT_USAGE, "%s: \"longest\" is no number of keys: a multiple of %d, %d at least",
             path, TILE, LEAST);
    lab.longest = (int)longest;
}

void lab_read(void)
{
    const char *path = options.lab_file
                           ? options.lab_file
                           : text("%s/build/labs/lab%02d.json", options.root, options.lab);
    size_t bytes;
    json_error_t error;
    char *words = read_file(path, &bytes);

    if (!words)
        fail(EXIT_USAGE, "there is no %s: type make tangle, or is there no lab %d?", path,
             options.lab);
    json_t *json = json_loadb(words, bytes, 0, &error);
    if (!json)
        fail(EXIT_USAGE, "%s:%d: %s", path, error.line, error.text);
    lab.json = json;
    lab.number = (int)number(json, "lab", 0);
    lab.title = string(json, "title");
    lab.program = string(json, "program");
    lab.journal = string(json, "journal");
    lab.ending = lab.journal ? "c" : "cu";
    const char *not_graded = string(json, "not_graded");
    if (not_graded)
        fail(EXIT_USAGE, "lab %d is not graded: %s (./lab%d FILE says the points that it can see)",
             lab.number, not_graded, lab.number);
    read_p(json_object_get(json, "p"), path);
    const char *mask = string(json, "mask");
    if (mask && strcmp(mask, "causal") != 0)
        fail(EXIT_USAGE, "%s: \"mask\" is \"%s\", not \"causal\"", path, mask);
    lab.mask = mask ? MASK_CAUSAL : MASK_NONE;
    read_shapes(json_object_get(json, "shapes"), path);
    read_longest(json_object_get(json, "longest"), path);
    json_t *points = json_object_get(json, "points");
    if (lab.number != options.lab || !lab.title || !lab.program || json_array_size(points) == 0)
        fail(EXIT_USAGE, "%s: is not lab %d's: lab, title, program or points are missing", path,
             options.lab);
    int sum = 0;
    for (size_t i = 0; i < json_array_size(points) && i < sizeof lab.items / sizeof *lab.items;
         ++i) {
        read_item(json_array_get(points, i), &lab.items[lab.count], path);
        sum += lab.items[lab.count++].points;
    }
    if (sum != 100)
        fail(EXIT_USAGE, "%s: the points are %d, not 100", path, sum);
    SHA256Data((const uint8_t *)words, bytes, lab.hash);
    lab.text = words;
}

bool relation_holds(double value, const char *relation, double limit)
{
    switch (relation[0]) {
    case '<': return value <= limit;
    case '>': return value >= limit;
    default: return value == limit;
    }
}

bool is_aim(const struct item *item)
{
    return !isnan(item->from);
}

bool has_aims(void)
{
    for (int i = 0; i < lab.count; ++i)
        if (is_aim(&lab.items[i]))
            return true;
    return false;
}

enum pays_for pays_for(const struct item *item)
{
    static const char *const by_cases[] = {"correct", "hidden", "races"};

    for (size_t i = 0; i < sizeof by_cases / sizeof *by_cases; ++i)
        if (strcmp(item->name, by_cases[i]) == 0)
            return PAYS_CASES;
    return is_aim(item) ? PAYS_AIM : PAYS_LIMIT;
}
