// model.c: a lab whose program runs a language model. A submission's kernels are in the book's
// program (build.c), so no host code of a submission runs. That program makes a random model and a
// text from a seed, and compares what the kernels compute with the reference (code/model/lab.c). It
// runs alone in a box.
#include "judge.h"

#include <stdlib.h>
#include <string.h>

// Limits of a run, in CPU time and by the clock; a run takes a few seconds. A loop without an end
// is stopped by a budget of warp instructions for each launch: some hundred times what a right
// launch takes.
enum { MODEL_CPU_SECONDS = 120, MODEL_SECONDS = 300, MODEL_ANSWER_MAX = 8 << 20 };
static const char BUDGET[] = "50000000";

// Adds up all kernels' counts.
static void add_counts(struct counts *to, const json_t *report)
{
    const json_t *kernel, *value;
    const char *name;
    size_t i;

    json_array_foreach (json_object_get(report, "kernels"), i, kernel) {
        json_object_foreach ((json_t *)json_object_get(kernel, "counts"), name, value) {
            uint64_t *sum = (uint64_t *)counts_find(to, name);
            if (sum && json_is_number(value))
                *sum += (uint64_t)json_number_value(value);
        }
    }
}

// The first line that the book's program has printed on stderr; for the caller to free.
static char *first_line(const char *said)
{
    return cleaned(said, strcspn(said, "\n"));
}

struct model_run model_run(struct submission *s, const char *shape, int seed, unsigned schedule,
                           bool races)
{
    struct model_run r = {.checks = NULL};
    struct box box = {.kind = BOX_MODEL, .folder = s->folder, .cpu_seconds = MODEL_CPU_SECONDS};
    char *line =
        text("export LD_LIBRARY_PATH=%s/build/ptxsim PTXSIM_REPORT=counts PTXSIM_THREADS=1 "
             "PTXSIM_BUDGET=%s PTXSIM_CHECK=%s PTXSIM_SCHEDULE=%u; %s "
             "\"$0\" --shapes %s --seeds %d --record record --quiet >printed 2>said 3>&-; "
             "for file in counts record said; do [ -s $file ] || echo {} >$file; "
             "done; " HAND_OUT("counts record said"),
             box_book(), BUDGET, races ? "all" : "memory", schedule,
             options.unsafe ? text("cd $(mktemp -d);") : "", shape, seed);
    char *command[] = {"/bin/sh", "-c", line, text("%s/program", box_work(&box)), NULL};
    struct boxed b = box_run(&box, command, wall_left(s, MODEL_SECONDS), MODEL_ANSWER_MAX);
    char *counts = NULL, *record = NULL, *said = NULL;
    size_t at = 0, bytes;

    if (take_file(&b.lines, &at, &counts, &bytes))
        r.report = json_loads(counts, 0, NULL);
    if (take_file(&b.lines, &at, &record, &bytes))
        r.said = json_loads(record, 0, NULL);
    if (!take_file(&b.lines, &at, &said, &bytes))
        said = text("{}");
    r.checks =
        json_object_get(json_object_get(json_object_get(r.said, "shapes"), shape), "correctness");
    const char *fault = json_string_value(json_array_get(json_object_get(r.report, "faults"), 0));
    if (fault)
        r.fault = cleaned(fault, strlen(fault));
    else if (b.late)
        r.fault = text("stopped: it did not end in %d s", MODEL_CPU_SECONDS);
    else if (json_array_size(r.checks) == 0)
        r.fault =
            text("the book's program cannot run its kernels, whose names and parameters have to "
                 "be the starter's: %s",
                 first_line(said));
    add_counts(&r.counts, r.report);
    free(counts);
    free(record);
    free(said);
    boxed_free(&b);
    free(line);
    free(command[3]);
    return r;
}

void model_run_free(struct model_run *r)
{
    json_decref(r->report);
    json_decref(r->said);
    free(r->fault);
}
