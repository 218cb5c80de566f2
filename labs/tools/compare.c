// compare.c: compares two run records in a Markdown table.
//
//   compare A.json B.json [--out COMPARE.md]
//
// A record is what a program's --record writes, or labs/tools/pytorch. Every shape that both have
// timed gets a row: p50, p90 and mean of each, A's divided by B's, and a verdict. The two runs did
// not alternate, so a difference counts only if it exceeds what each run varied by itself; a lab
// (./labN) measures the ratio properly. Times of a wrong kernel, of two different devices, or
// measured in different ways are not compared. Exit status: 0 done, 2 bad usage, 3 records that
// cannot be compared.
#include "../driver/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const char *path;
    json_t *json;
};

static struct run load(const char *path)
{
    json_error_t error;
    struct run run = {path, json_load_file(path, JSON_REJECT_DUPLICATES, &error)};
    if (!run.json && json_error_code(&error) == json_error_cannot_open_file)
        fail(EXIT_MACHINE, "%s: cannot be read", path);
    if (!run.json)
        fail(EXIT_MACHINE, "%s:%d: %s", path, error.line, error.text);
    if (!json_is_object(at(run.json, "shapes")) || !json_is_string(at(run.json, "program")))
        fail(EXIT_MACHINE, "%s: no run record: it names no program or no shapes", path);
    if (strcmp(string_at(run.json, "runtime"), "gpu") != 0)
        fail(EXIT_MACHINE, "%s: not from a GPU (runtime: %s), so it holds no times", path,
             string_at(run.json, "runtime"));
    const char *name;
    json_t *shape, *result;
    size_t i;
    json_object_foreach (at(run.json, "shapes"), name, shape) {
        if (json_array_size(at(shape, "correctness")) == 0)
            fail(EXIT_MACHINE, "%s: %s was not checked at %s", path, string_at(run.json, "program"),
                 name);
        json_array_foreach (at(shape, "correctness"), i, result) {
            if (!json_is_true(at(result, "pass")))
                fail(EXIT_MACHINE, "%s: %s is wrong at %s, and a wrong kernel's times say nothing",
                     path, string_at(run.json, "program"), name);
        }
    }
    return run;
}

// A time of a shape; NaN: the shape was not timed.
static double time_at(const struct run *run, json_t *shape, const char *name, const char *key)
{
    double value = number_at(shape, key);
    if (at(shape, "timing") && !(value > 0))
        fail(EXIT_MACHINE, "%s: shapes.%s.%s is no time", run->path, name, key);
    return value;
}

static const char *verdict(json_t *a, json_t *b)
{
    if (number_at(b, "timing.p90_us") < number_at(a, "timing.p50_us"))
        return "faster";
    if (number_at(a, "timing.p90_us") < number_at(b, "timing.p50_us"))
        return "slower";
    return "too close to tell";
}

static void write_identity(FILE *out, const struct run *run, const char *name)
{
    fprintf(out, "- %s: %s, %s", name, string_at(run->json, "program"),
            string_at(run->json, "date"));
    if (at(run->json, "source_hash"))
        fprintf(out, ", commit %s, source %.12s", string_at(run->json, "git_commit"),
                string_at(run->json, "source_hash"));
    fputc('\n', out);
}

// Writes the table; returns the number of its rows, the shapes that both records have timed.
static int write_table(FILE *out, const struct run *a, const struct run *b)
{
    static const char *const keys[] = {"timing.p50_us", "timing.p90_us", "timing.mean_us"};
    const char *name;
    json_t *shape;
    int rows = 0;

    fprintf(out, "# %s against %s\n\n", string_at(b->json, "program"),
            string_at(a->json, "program"));
    write_identity(out, a, "A");
    write_identity(out, b, "B");
    fprintf(out, "- on %s; times in µs, A → B; a speedup is A's time over B's\n\n",
            string_at(a->json, "device.name"));
    fputs("| shape | p50 | p90 | mean | speedup, p50 | p90 | mean | B is |\n"
          "|---|--:|--:|--:|--:|--:|--:|---|\n",
          out);
    json_object_foreach (at(a->json, "shapes"), name, shape) {
        json_t *other = json_object_get(at(b->json, "shapes"), name);
        double times[2][3];
        for (int i = 0; i < 3; ++i) {
            times[0][i] = time_at(a, shape, name, keys[i]);
            times[1][i] = time_at(b, other, name, keys[i]);
        }
        if (!at(shape, "timing") || !at(other, "timing"))
            continue;
        if (json_is_true(at(shape, "timing.cold_l2")) != json_is_true(at(other, "timing.cold_l2")))
            fail(EXIT_MACHINE, "%s: one of the two was timed with a cold L2, the other was not",
                 name);
        if ((strcmp(string_at(shape, "timing.mode"), "plain") == 0) !=
            (strcmp(string_at(other, "timing.mode"), "plain") == 0))
            fail(EXIT_MACHINE, "%s: one of the two was timed without a graph, the other with one",
                 name);
        fprintf(out, "| %s |", name);
        for (int i = 0; i < 3; ++i)
            fprintf(out, " %.2f → %.2f |", times[0][i], times[1][i]);
        for (int i = 0; i < 3; ++i)
            fprintf(out, " %.2f |", times[0][i] / times[1][i]);
        fprintf(out, " %s |\n", verdict(shape, other));
        ++rows;
    }
    fputs("\nThe runs were not alternated: \"faster\" and \"slower\" are said only where one run's "
          "p90 is below the other's p50.\n",
          out);
    return rows;
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: compare A.json B.json [--out COMPARE.md]";
    const char *save = NULL;
    bool help = false;
    const struct option_row known[] = {
        {"out", "COMPARE.md", "where the table goes (default: standard output)", .word = &save},
        {"help", NULL, "this text", .flag = &help},
        {0},
    };

    speaker = "compare";
    char **path = argv + options_read(argc, argv, known, false);
    if (help) {
        puts(usage);
        options_help(known);
        return 0;
    }
    if (argv + argc - path != 2)
        fail(EXIT_USAGE, "%s", usage);

    struct run a = load(path[0]), b = load(path[1]);
    const char *here = string_at(a.json, "device.name"), *there = string_at(b.json, "device.name");
    if (strcmp(here, there) != 0)
        fail(EXIT_MACHINE, "two devices: %s is from %s, %s from %s", path[0], here, path[1], there);
    char *table = NULL, why[512];
    size_t size = 0;
    FILE *out = need(open_memstream(&table, &size));
    int rows = write_table(out, &a, &b);
    if (fclose(out) != 0)
        fail(EXIT_MACHINE, "out of memory");
    if (rows == 0)
        fail(EXIT_MACHINE, "%s and %s have timed no shape in common", path[0], path[1]);
    if (save && !file_write(save, table, size, why, sizeof why))
        fail(EXIT_MACHINE, "--out: %s", why);
    if (!save)
        fputs(table, stdout);
    free(table);
    json_decref(a.json);
    json_decref(b.json);
    return 0;
}
