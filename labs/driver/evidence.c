// evidence.c: counts of Nsight Compute (ncu.c) or of the simulator.
#include "lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- The simulator ------------------------------------------------------------------------------

// The counters of the simulator that have a title, in the order of counts.def.
static const struct counter *simulator_counters(void)
{
    static const struct counter all[] = {
#define COUNTER(name, title, what) {#name, title},
#define CLASS_COUNTER(name, op_class, title, what) {#name, title},
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    };
    enum { ALL = sizeof all / sizeof *all };
    static struct counter shown[ALL + 1];
    int count = 0;

    for (int i = 0; i < ALL; ++i)
        if (all[i].title[0])
            shown[count++] = all[i];
    return shown;
}

static void add(json_t *sums, json_t *numbers, double share)
{
    const char *key;
    json_t *value;
    json_object_foreach (numbers, key, value) {
        if (!json_is_number(value))
            continue;
        double sum = json_number_value(json_object_get(sums, key));
        sum += json_number_value(value) * share;
        json_object_set_new(sums, key, json_real(sum));
    }
}

static double largest_grid(const json_t *kernels) // CTAs of the largest grid
{
    double most = 0;
    for (size_t i = 0; i < json_array_size(kernels); ++i) {
        const json_t *grid = json_object_get(json_array_get(kernels, i), "grid");
        double ctas = 1;
        for (size_t d = 0; d < json_array_size(grid); ++d)
            ctas *= json_number_value(json_array_get(grid, d));
        most = fmax(most, ctas);
    }
    return most;
}

static int seeds_asked(void)
{
    int count = 1;
    for (const char *c = lab.seeds; *c; ++c)
        count += *c == ',';
    return count;
}

// The counts of one launch and the L4's floors, from a simulator's report; for a language model's
// program, which launches each kernel many times, the counts of all launches of one seed. Counts of
// several kernels are added up, but of their numbers of CTAs the largest is taken. NULL if the
// report has no launch.
json_t *simulator_read(json_t *report)
{
    json_t *kernels = json_object_get(report, "kernels");
    double launches = 0;
    for (size_t i = 0; i < json_array_size(kernels); ++i) {
        json_t *n = json_object_get(json_array_get(kernels, i), "launches");
        if (json_number_value(n) > launches)
            launches = json_number_value(n);
    }
    if (launches == 0)
        return NULL;
    if (lab.model)
        launches = seeds_asked();
    json_t *sums = json_object();
    json_t *classes = json_object();
    json_t *floors = json_object();
    for (size_t i = 0; i < json_array_size(kernels); ++i) {
        json_t *kernel = json_array_get(kernels, i);
        json_t *counts = json_object_get(kernel, "counts");
        add(sums, counts, 1 / launches);
        add(classes, json_object_get(counts, "classes"), 1 / launches);
        // The floors in a report are averages for one launch of a kernel.
        add(floors, json_object_get(kernel, "l4_floors_us"),
            number_at(kernel, "launches") / launches);
    }
    const char *key, *binding = NULL;
    json_t *value;
    double largest = -1;
    json_object_foreach (floors, key, value) {
        if (json_number_value(value) > largest) {
            largest = json_number_value(value);
            binding = key;
        }
    }
    if (binding)
        json_object_set_new(floors, "binding", json_string(binding));
    json_object_set_new(sums, "ctas", json_real(largest_grid(kernels)));
    json_object_set_new(sums, "classes", classes);
    double copies = number_at(classes, "copy_async"); // a report omits classes without instructions
    json_object_set_new(sums, "async_copies", json_real(isnan(copies) ? 0 : copies));
    json_object_set_new(sums, "l4_floors_us", floors);
    return sums;
}

// ---- The report ---------------------------------------------------------------------------------

static void show_counts(const struct counter *counters)
{
    for (const struct counter *c = counters; c->key; ++c) {
        double a = before.counts ? number_at(before.counts, c->key) : NAN;
        double b = number_at(after.counts, c->key);
        if (isnan(b))
            continue;
        printf("  %-28s", c->title);
        if (before.counts)
            printf(" %*s", narrow() ? 14 : 15, grouped(a));
        printf(" %*s", narrow() ? 14 : 15, grouped(b));
        if (before.counts && a > 0 && !narrow())
            printf("  x %.2f", b / a);
        printf("\n");
    }
}

static void show_floors(const struct side *side)
{
    static const char *const units[] = {"tensor", "exp", "shared", "issue", "dram"};
    json_t *floors = at(side->counts, "l4_floors_us");
    if (!floors)
        return;
    printf("  %-*.*s", narrow() ? 13 : 20, narrow() ? 13 : 21, side->name);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; ++i)
        printf(" %*.1f", narrow() ? 6 : 8, number_at(floors, units[i]));
    const char *binding = json_string_value(at(floors, "binding"));
    printf("  %s\n", binding ? binding : "?");
}

static void profile(struct side *side, char **why)
{
    char *command[] = {side->path, "--shapes", (char *)main_shape(), "--seeds", "0", "--no-timing",
                       "--quiet",  NULL};
    doing("profiling %s", side->name);
    side->counts = ncu_read(command, environment(true, "", 0), 0, why);
    done();
}

// Sets a program's counts from a run in the simulator (simulator_read); outputs are not checked.
static void count(struct side *side)
{
    char *counts = text("%s/%s-counts.json", folder, side->name);
    char *seeds = lab.model ? text("%s", lab.seeds) : text("0");
    char *command[] = {side->path, "--shapes", (char *)main_shape(),
                       "--seeds",  seeds,      "--no-timing",
                       "--quiet",  NULL};
    doing("counting %s in the simulator", side->name);
    struct output output = run(command, environment(false, counts, 0), RUN_SECONDS, false);
    done();
    json_t *report = json_load_file(counts, 0, NULL);
    side->counts = report ? simulator_read(report) : NULL;
    unlink(counts);
    output_free(&output);
}

static void note(const char *words)
{
    wrap(text("%s%s%s", FAINT, words, PLAIN), printf("  "), 4);
}

void show_evidence(void)
{
    bool profiled = false;
    heading("Evidence");
    if (on_gpu && !gates_failed) {
        char *why = lab.model ? text("a chain of kernels is counted in the simulator") : NULL;
        if (before.name)
            profile(&before, &why);
        if (!why)
            profile(&after, &why);
        profiled = !why;
        if (why) { // the simulator counts the same executable instead
            printf("  %s\n", why);
            json_decref(before.counts);
            before.counts = NULL;
            if (before.name)
                count(&before);
            count(&after);
        }
    }
    if (!after.counts) {
        printf("  none%s\n", gates_failed ? ": a wrong program is not profiled" : "");
        return;
    }
    const int wide = narrow() ? 14 : 15;
    printf("  %-28s", lab.model  ? text("all launches, %s", narrow() ? main_shape() : "a seed")
                      : narrow() ? text("one launch, %s", main_shape())
                      : profiled ? "Nsight Compute, one launch"
                                 : "simulator, one launch");
    if (before.counts)
        printf(" %*.*s", wide, wide, before.name);
    printf(" %*.*s%s%s\n", wide, wide, after.name, narrow() ? "" : "  ",
           narrow() ? "" : main_shape());
    show_counts(profiled ? ncu_counters : simulator_counters());
    if (!profiled &&
        (after.fault || after.stopped)) // the kernel may have been stopped before its end
        note("after a fault a kernel may not have been counted to its end");
    if (profiled)
        note("stalled: cycles that a warp waits for each instruction it issues");
    if (!profiled && at(after.counts, "l4_floors_us")) {
        const int wide = narrow() ? 6 : 8;
        printf("  %-*s %*s %*s %*s %*s %*s  binding\n", narrow() ? 13 : 20,
               narrow() ? "L4 floors, us" : "floors on an L4, us", wide, "tensor", wide, "exp",
               wide, "shared", wide, "issue", wide, "DRAM");
        if (before.counts)
            show_floors(&before);
        show_floors(&after);
        note("bounds from the counts of the PTX and an L4's rates; no prediction of a time");
    }
    json_t *by_program = json_object();
    if (before.counts)
        json_object_set(by_program, before.name, before.counts);
    json_object_set(by_program, after.name, after.counts);
    json_object_set_new(record, "evidence",
                        json_pack("{s:o}", profiled ? "ncu" : "simulator", by_program));
}
