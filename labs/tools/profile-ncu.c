// profile-ncu.c: shows what Nsight Compute measures for one launch of a program.
//
//   profile-ncu PROGRAM [SHAPE [SEED [WARMUP]]]     in the repository's root
//
// WARMUP launches on other inputs come first. As in timed runs, the clock is not fixed. If the
// program is wrong, nothing is reported. Exit status: 0 done, 1 wrong, 2 bad usage, 3 no GPU, no
// Nsight Compute, no program.
#include "../driver/lab.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WARMUP = 60 }; // a program takes at most 64 seeds

// The seeds of the warm-up launches, then that of the measured one.
static char *seed_list(int seed, int warmup)
{
    char *list = text("%s", "");
    for (int i = warmup; i >= 0; --i)
        list = text("%s%s%d", list, *list ? "," : "", seed + i);
    return list;
}

static void save(const char *path, json_t *run, json_t *counters, const char *shape, int seed,
                 int warmup)
{
    json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:o}", "record", 1, "program",
                               string_at(run, "program"), "date", date_now(), "shape", shape,
                               "seed", seed, "warmup", warmup, "ncu", counters);
    for (const char *const *key =
             (const char *const[]){"source_hash", "git_commit", "flags", "device", NULL};
         *key; ++key)
        if (at(run, *key))
            json_object_set(record, *key, at(run, *key));
    write_json(record, path, RECORD_FORMAT, "");
    json_decref(record);
}

int main(int argc, char **argv)
{
    speaker = "profile-ncu";
    if (argc < 2 || argc > 5 || argv[1][0] == '-')
        fail(EXIT_USAGE, "usage: labs/tools/profile-ncu PROGRAM [SHAPE [SEED [WARMUP]]]");
    const char *name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
    const char *shape_name = argc > 2 ? argv[2] : "mission";
    int seed = argc > 3 ? whole("seed", argv[3], 0, 1000000) : 0;
    int warmup = argc > 4 ? whole("warm-up", argv[4], 0, MOST_WARMUP) : 3;
    struct shape shape;
    char why[256], *trouble = NULL;
    if (!shape_parse(shape_name, &shape, why, sizeof why))
        fail(EXIT_USAGE, "%s", why);
    char *program = text("build/%s", name);
    if (access(program, X_OK))
        fail(EXIT_MACHINE, "%s is not there: type make %s", program, program);
    if (!gpu_here())
        fail(EXIT_MACHINE, "no GPU here: make profileN counts a chapter's lines in the simulator");
    if ((mkdir("build/ncu", 0777) && errno != EEXIST))
        fail(EXIT_MACHINE, "cannot make build/ncu: %s", strerror(errno));

    char *own = text("build/ncu/%s-%s.run", name, shape.name);
    char *command[] = {program,    "--shapes", shape.name, "--seeds", seed_list(seed, warmup),
                       "--inputs", "normal",   "--record", own,       "--no-timing",
                       "--quiet",  NULL};
    unlink(own);
    json_t *counters = ncu_read(command, NULL, warmup, &trouble);
    if (!counters)
        fail(EXIT_MACHINE, "%s", trouble);
    json_t *run = json_load_file(own, 0, NULL), *results, *result;
    unlink(own);
    results = at(at(at(run, "shapes"), shape.name), "correctness");
    size_t right = 0, i;
    json_array_foreach (results, i, result)
        right += json_is_true(at(result, "pass"));
    if (right != (size_t)warmup + 1)
        fail(EXIT_RED, "%s is wrong at %s: %zu of %d outputs right", name, shape.name, right,
             warmup + 1);

    printf("%-32s %18s  %s, seed %d, after %d launches\n", name, string_at(run, "device.name"),
           shape.name, seed, warmup);
    for (const struct counter *c = ncu_counters; c->key; ++c)
        if (!isnan(number_at(counters, c->key)))
            printf("  %-30s %18s\n", c->title, grouped(number_at(counters, c->key)));
    puts("  stalled: cycles that a warp waits for each instruction it issues");
    char *path = text("build/ncu/%s-%s.json", name, shape.name);
    save(path, run, counters, shape.name, seed, warmup);
    printf("  record   %s\n", path);
    json_decref(run);
    return 0;
}
