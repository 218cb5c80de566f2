// sheet.c: the items of a sheet, and how much of them has been reached.
#include "sheet.h"

#include <math.h>
#include <string.h>

static char *read_item(const json_t *json, struct item *item)
{
    struct shape shape;
    char why[256];
    const char *relation = string_or(json, "relation", "");

    *item = (struct item){
        .name = string_or(json, "name", NULL),
        .shape = string_or(json, "shape", NULL),
        .words = string_or(json, "words", NULL),
        .limit.value = number_at(json, "limit"),
        .full = number_at(json, "full"),
        .from = number_at(json, "from"),
        .points = (int)number_or(json, "points", -1),
    };
    if (!item->name || item->points < 0)
        return "an item of \"points\" has no name or no points";
    if (item->shape && !shape_parse(item->shape, &shape, why, sizeof why))
        return text("%s: %s", item->name, why);
    if (*relation && !relation_read(relation, &item->limit.relation))
        return text("%s: \"%s\" is none of <=, >=, ==", item->name, relation);
    if (*relation && isnan(item->limit.value))
        return text("%s: no limit", item->name);
    if (is_aim(item) && (item->limit.relation == NO_LIMIT || item->limit.relation == EXACTLY ||
                         limit_kept(item->from, item->limit)))
        return text("%s: an aim is <= or >= a limit, and \"from\" is beyond it", item->name);
    return NULL;
}

static bool read_sheet(struct sheet *sheet, char **why)
{
    const json_t *points = at(sheet->json, "points"), *item;
    size_t i;

    if (!facts_read(sheet, why))
        return false;
    *why = json_array_size(points) > ITEMS_MAX ? text("more than %d items", ITEMS_MAX) : NULL;
    json_array_foreach (points, i, item)
        if (!*why)
            *why = read_item(item, &sheet->items[sheet->count++]);
    return !*why;
}

bool sheet_read(struct sheet *sheet, const char *path, bool *missing, char **why)
{
    size_t bytes;
    json_error_t error;

    *sheet = (struct sheet){.text = read_file(path, &bytes)};
    *missing = !sheet->text;
    if (*missing) {
        *why = text("there is no %s", path);
        return false;
    }
    sheet->json = json_loadb(sheet->text, bytes, 0, &error);
    if (!sheet->json)
        *why = text("%s:%d: %s", path, error.line, error.text);
    else if (!read_sheet(sheet, why))
        *why = text("%s: %s", path, *why);
    else
        return true;
    return false;
}

bool is_aim(const struct item *item)
{
    return !isnan(item->from);
}

bool has_aims(const struct sheet *sheet)
{
    for (int i = 0; i < sheet->count; ++i)
        if (is_aim(&sheet->items[i]))
            return true;
    return false;
}

enum pays_for pays_for(const struct item *item)
{
    return is_aim(item) ? PAYS_AIM : item->limit.relation != NO_LIMIT ? PAYS_LIMIT : PAYS_CASES;
}

// Larger tiles, or padding, change many counts by a tenth or two: so a kernel that has come less
// than a fifth of the way to its aim has not begun. (A search's counts have no such threshold.)
static const double BEGUN = 0.2;

double share_reached(const struct item *item, double value)
{
    if (limit_kept(value, item->limit))
        return 1;
    if (!is_aim(item) || isnan(value))
        return 0;
    double share = fmax(0, (value - item->from) / (item->limit.value - item->from));
    return share < BEGUN && searched_find(item->name) < 0 ? 0 : share;
}

double aims_reached(const struct sheet *sheet, const double shares[])
{
    double reached = 0, points = 0;

    for (int i = 0; i < sheet->count; ++i)
        if (is_aim(&sheet->items[i])) {
            reached += shares[i] * sheet->items[i].points;
            points += sheet->items[i].points;
        }
    return points > 0 ? reached / points : 1;
}

// Rounds points to tenths, so that the numbers in a report add up.
double in_tenths(double points)
{
    return round(10 * points) / 10;
}

double points_paid(const struct item *item, double share, const struct reached *reached)
{
    return in_tenths(item->points * share_paid(pays_for(item), share, reached));
}
