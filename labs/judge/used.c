// used.c: whether what an aim counts was used. What is counted is spoiled in launches of their own, some executions in
// each, and the outputs must notice; a limit from above counts beside the work that the lab's own program does.
#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Draws, and how many in a row must change the outputs to stand for all. A kernel of which a share s is used changes
// them in a draw of HITS executions with 1 - (1 - s)^HITS: a twentieth passes three draws once in 150 times, and a
// kernel that copies one tile in five in vain, for it looks ahead, fails one of them in 200.
enum { DRAWS = 8, ENOUGH = 3, HITS = 4 };

bool spoils_for(const char *name, enum spoils *what)
{
    static const struct {
        const char *name;
        enum spoils what;
    } known[] = {
        {"tensor_instructions", SPOIL_PRODUCTS},  {"tensor_flops", SPOIL_PRODUCTS},
        {"async_copies", SPOIL_COPIES},           {"async_bytes", SPOIL_COPIES},
        {"global_atomic_sectors", SPOIL_ATOMICS}, {"ctas", SPOIL_STORES},
        {"global_store_sectors", SPOIL_STORES},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(known[i].name, name) == 0) {
            *what = known[i].what;
            return true;
        }
    return false;
}

// ---- Ablation -----------------------------------------------------------------------------------

// Which of so many executions are spoiled in a draw. Of CTAs one, each draw's from its own part of the grid: there are
// few. Of atomics half: many of a queue's requests are those of CTAs that find it empty.
static struct ablation draw_executions(enum spoils what, int draw, uint64_t executions)
{
    struct ablation a = {.what = what, .count = HITS};
    uint64_t first = 0, of = executions;

    if (what == SPOIL_STORES) {
        a.count = 1;
        first = (uint64_t)draw * executions / DRAWS;
        of = (uint64_t)(draw + 1) * executions / DRAWS - first;
    } else if (what == SPOIL_ATOMICS) {
        a.count = executions < 2 * SPOILED_MOST ? (int)(executions + 1) / 2 : SPOILED_MOST;
    }
    for (int i = 0; i < a.count; ++i)
        a.chosen[i] =
            first + secret_draw("lab %d spoils %d, draw %d, %d", sheet.number, what, draw, i) %
                        (of ? of : 1);
    return a;
}

struct unspoiled { // a launch
    const char *out;
    uint64_t executions,
        most; // most: warp instructions that a spoiled one may run, which may never end
};

// Whether the outputs of a spoiled launch are not those of the same inputs, unspoiled. Who does not come to an end has
// noticed; not who was not run, or killed for the machine's sake.
static bool is_noticed(launch_ablated *launch, void *of, struct grade_case *c,
                       const struct ablation *a, const struct unspoiled *as_it_is)
{
    struct reply reply = {0};
    char *out = NULL;
    bool ended = launch(of, c, 1, a, as_it_is->most, &reply, &out);
    bool noticed = ended ? memcmp(out, as_it_is->out, 2 * shape_outputs(&c->shape)) != 0
                         : reply.verdict == FAULTED;

    free(out);
    return noticed;
}

static double share_used(enum spoils what, launch_ablated *launch, void *of, struct grade_case *c,
                         const struct unspoiled *as_it_is)
{
    const uint64_t executions = as_it_is->executions;
    int draws = 0, noticed = 0;

    for (int draw = 0; draw < DRAWS; ++draw) {
        if (what == SPOIL_STORES &&
            (uint64_t)draw * executions / DRAWS == (uint64_t)(draw + 1) * executions / DRAWS)
            continue; // of fewer CTAs than draws
        const struct ablation a = draw_executions(what, draw, executions);
        ++draws;
        noticed += is_noticed(launch, of, c, &a, as_it_is);
        if (noticed == draws && draws == ENOUGH)
            return 1;
    }
    return draws ? (double)noticed / draws : 0;
}

struct use use_of(enum spoils what, launch_ablated *launch, void *of)
{
    const char *shape = sheet.shapes[sheet.cache ? sheet.shape_count - 1 : 0];
    const struct ablation counting = {.what = what};
    struct grade_case c[CASES_MIXED];
    struct use use = {.known = true};
    struct reply reply = {0};
    uint64_t seeds[CASES_MIXED], mixed[TENSORS];
    char *out = NULL;

    for (int i = 0; i < CASES_MIXED; ++i)
        seeds[i] = secret_draw("lab %d used %d", sheet.number, i);
    for (int i = 0; i < CASES_MIXED; ++i) {
        mixed_seeds(i, seeds, mixed);
        case_make_of(&c[i], shape, SOFTMAX_SCALE, GRADE_NORMAL, mixed);
    }
    if (launch(of, c, CASES_MIXED, &counting, 0, &reply, &out)) {
        const size_t answer = answer_bytes(&c->shape), outputs = 2 * shape_outputs(&c->shape);
        use.depends = true;
        for (int i = 1; i < CASES_MIXED; ++i)
            use.depends = use.depends && memcmp(out, out + (size_t)i * answer, outputs) != 0;
        const struct unspoiled as_it_is = {.out = out,
                                           .executions = reply.executions / CASES_MIXED,
                                           .most = reply.counts.warp_instructions + 100000};
        if (use.depends && as_it_is.executions > 0)
            use.share = share_used(what, launch, of, c, &as_it_is);
    }
    free(out);
    for (int i = 0; i < CASES_MIXED; ++i)
        case_free(&c[i]);
    return use;
}

// ---- The lab's own work -------------------------------------------------------------------------

// As many queries see as many keys; a shape with a name, or a cache's.
static double pairs_of(const struct shape *shape)
{
    return (double)shape->batch * shape->heads * shape_rows(shape) * shape->seq_len;
}

struct work work_of_the_lab(const struct shape *shape)
{
    struct work work = {.load_sectors = INFINITY};
    struct shape recorded;
    char why[8];
    char *path = text("%s/plots/runs/simulator/lab%02d.json", root, sheet.number);
    json_t *record = json_load_file(path, 0, NULL);
    const json_t *programs = at(record, "evidence.simulator");
    const json_t *counts = json_object_get(programs, sheet.program);

    free(path);
    if (!counts) // the record may have another program of the chapter
        counts = json_object_get(programs, string_or(record, "after", ""));
    if (counts && !sheet.cache && shape_parse("mission", &recorded, why, sizeof why)) {
        double times = shape ? pairs_of(shape) / pairs_of(&recorded) : 1;
        work.tensor_flops = times * number_or(counts, "tensor_flops", 0);
        work.load_sectors = times * (number_or(counts, "global_load_sectors", INFINITY) +
                                     number_or(counts, "global_atomic_sectors", 0));
    }
    json_decref(record);
    return work;
}
