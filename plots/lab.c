// lab.c: one lab: its times if it ran on a GPU, otherwise the simulator's counts.
#include "series.h"

#include <math.h>
#include <string.h>

// Prints a lab that ran on a GPU, one line for each shape: shape, both programs' names, GPU, p50
// before, p50 after, ratio with low and high end, promise (0: none), verdict.
static bool lab_times(json_t *lab, const char *path)
{
    const char *shape, *before = words(lab, path, "before", NULL);
    json_t *speedup;
    bool any = false;
    json_object_foreach (object(lab, path, "speedup"), shape, speedup) {
        double before_p50 = positive(speedup, path, "before_p50_us");
        double after_p50 = positive(speedup, path, "after_p50_us");
        double median = positive(speedup, path, "median");
        double low = positive(speedup, path, "low"), high = positive(speedup, path, "high");
        double promise = positive(speedup, path, "promise");
        if (before == NULL || isnan(before_p50) || isnan(after_p50) || isnan(median) ||
            isnan(low) || isnan(high))
            fail(BAD_RECORD, "%s: speedup.%s lacks a time, the ratio or its interval", path, shape);
        if (!any)
            printf("# times\n");
        any = true;
        printf("%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%s\n", shape, before,
               words(lab, path, "after", "after"), words(lab, path, "device.name", ""), before_p50,
               after_p50, median, low, high, isnan(promise) ? 0 : promise,
               words(speedup, path, "verdict", ""));
    }
    return any;
}

// Writes 1234567 as "1.23 M", which fits beside a point.
static void format_count(char *out, size_t size, double value)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    if (unit == 0 && value == floor(value))
        snprintf(out, size, "%.0f", value);
    else
        snprintf(out, size, "%.*f%s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
}

// The rows of simulator counts in a lab's chart. A row is one counter, or the sum of two.
static const struct {
    const char *name, *counter, *second;
} counter_rows[] = {
    {"instructions, by warp", "warp_instructions", NULL},
    {"tensor instructions", "tensor_instructions", NULL},
    {"shared-memory wavefronts", "shared_load_wavefronts", "shared_store_wavefronts"},
    {"bank conflicts", "shared_load_conflicts", "shared_store_conflicts"},
    {"global sectors", "global_load_sectors", "global_store_sectors"},
    {"special functions, by thread", "mufu_threads", NULL},
    {"barrier arrivals, by warp", "barriers", NULL},
};

static const struct {
    const char *name, *key;
} floor_rows[] = {
    {"tensor cores", "tensor"}, {"exponentials", "exp"}, {"shared memory", "shared"},
    {"issue slots", "issue"},   {"DRAM", "dram"},
};

// The simulator's counts of a program; NULL if the lab's record has none.
static json_t *counts_of(json_t *lab, const char *path, const char *program)
{
    json_t *programs = object(lab, path, "evidence.simulator");
    json_t *counts = program == NULL ? NULL : json_object_get(programs, program);
    if (counts != NULL && !json_is_object(counts))
        fail(BAD_RECORD, "%s: evidence.simulator.%s is not an object", path, program);
    return counts;
}

static double count_of(json_t *counts, const char *path, int row)
{
    double sum = number(counts, path, counter_rows[row].counter);
    if (counter_rows[row].second != NULL)
        sum += number(counts, path, counter_rows[row].second);
    if (sum < 0)
        fail(BAD_RECORD, "%s: %s is negative", path, counter_rows[row].counter);
    return sum;
}

// The change in words, for the margin beside a row; without a program before, the value itself.
static void format_change(char *out, size_t size, double was, double is)
{
    char value[32];
    format_count(value, sizeof value, is);
    if (isnan(was))
        snprintf(out, size, "%s", value);
    else if (was == is)
        snprintf(out, size, "=");
    else if (was > 0)
        snprintf(out, size, "× %.*f", is / was < 9.995 ? 2 : is / was < 99.95 ? 1 : 0, is / was);
    else
        snprintf(out, size, "0 → %s", value);
}

// Prints a lab that ran in the simulator. Block 0: the names of both programs. Block 1: where 0 is
// drawn on the logarithmic axis, left of the smallest decade; and the axis's right end. Block 2:
// counters: row, name, x before, x after, the change in words. Block 3: floors in µs: row, name,
// before, after. NaN for a lab without a program before.
static bool lab_counts(json_t *lab, const char *path)
{
    const char *before = words(lab, path, "before", NULL), *after = words(lab, path, "after", NULL);
    json_t *old = counts_of(lab, path, before), *new = counts_of(lab, path, after);
    if (new == NULL)
        return false;
    enum { ROWS = sizeof counter_rows / sizeof counter_rows[0] };
    double values[ROWS][2], least = HUGE_VAL, most = 0;
    for (int row = 0; row < ROWS; row++)
        for (int side = 0; side < 2; side++) {
            json_t *counts = side == 0 ? old : new;
            double value = counts == NULL ? NAN : count_of(counts, path, row);
            values[row][side] = value;
            least = value > 0 ? fmin(least, value) : least;
            most = fmax(most, value);
        }
    if (!(most > 0))
        return false;
    double zero = pow(10, floor(log10(least)) - 1);
    printf("# counts\n%s\t%s\n", old == NULL ? "" : before, after);
    end_block();
    printf("%.6g\t%.6g\n", zero, pow(10, ceil(log10(most) + 0.05)));
    end_block();
    for (int row = 0; row < ROWS; row++) {
        double was = values[row][0], is = values[row][1];
        char change[48];
        if (isnan(is))
            continue;
        format_change(change, sizeof change, was, is);
        printf("%d\t%s\t%.6g\t%.6g\t%s\n", row + 1, counter_rows[row].name, was == 0 ? zero : was,
               is == 0 ? zero : is, change);
    }
    json_t *old_floors = object(old, path, "l4_floors_us");
    json_t *new_floors = object(new, path, "l4_floors_us");
    if (new_floors == NULL)
        return true;
    end_block();
    for (int row = 0; row < (int)(sizeof floor_rows / sizeof floor_rows[0]); row++) {
        const char *key = floor_rows[row].key;
        bool binds = strcmp(words(new_floors, path, "binding", ""), key) == 0;
        printf("%d\t%s%s\t%.6g\t%.6g\n", row + 1, floor_rows[row].name, binds ? " (binds)" : "",
               number(old_floors, path, key), number(new_floors, path, key));
    }
    return true;
}

void lab_chart(const char *path)
{
    json_t *lab = load(path);
    if (!lab_times(lab, path) && !lab_counts(lab, path))
        fail(NOTHING_TO_DRAW, "%s: no speedup and no counts", path);
    json_decref(lab);
}
