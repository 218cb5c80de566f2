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

bool falls_with_tiles(const char *name)
{
    return strcmp(name, "barriers") == 0 || strcmp(name, "ctas") == 0 ||
           strcmp(name, "mufu_threads") == 0;
}

// ---- Ablation -----------------------------------------------------------------------------------

// Which of so many executions are spoiled in a draw. Of CTAs, which are few, a draw spoils one, from a part of the
// grid of its own. Of atomics it spoils half: many requests to a queue come from CTAs that find it empty.
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

struct looked { // at one kernel
    launch_ablated *launch;
    void *of;
    enum spoils what;
    struct grade_case *c;
    const char *out;     // of the case, unspoiled
    uint64_t executions; // in it
    uint64_t most;       // warp instructions that a spoiled launch may run, which may never end
    char *why;           // a launch was not run, or NULL
};

// Whether the outputs of a launch are not those of the same inputs, unspoiled. Who does not come to an end has noticed;
// not who was not run.
static bool is_noticed(struct looked *l, const struct ablation *a)
{
    struct reply reply = {0};
    char *out = NULL, *why = NULL;
    bool ended = l->launch(l->of, l->c, 1, a, l->most, &reply, &out, &why);
    bool noticed = ended && memcmp(out, l->out, 2 * shape_outputs(&l->c->shape)) != 0;

    free(out);
    if (!ended && reply.verdict != FAULTED) {
        l->why = why;
        return false;
    }
    free(why);
    return !ended || noticed;
}

static double share_used(struct looked *l)
{
    const struct ablation none = {.what = l->what};
    int draws = 0, noticed = 0;

    // A kernel with other outputs in each run would seem to use everything.
    if (is_noticed(l, &none))
        return 0;
    for (int draw = 0; draw < DRAWS && !l->why; ++draw) {
        if (l->what == SPOIL_STORES &&
            (uint64_t)draw * l->executions / DRAWS == (uint64_t)(draw + 1) * l->executions / DRAWS)
            continue; // of fewer CTAs than draws
        const struct ablation a = draw_executions(l->what, draw, l->executions);
        ++draws;
        noticed += is_noticed(l, &a);
        if (noticed == draws && draws == ENOUGH)
            return 1;
    }
    return draws && !l->why ? (double)noticed / draws : 0;
}

// Cases of which the first is spoiled afterwards.
static void make_cases(struct grade_case c[CASES_MIXED])
{
    char *shape = drawn_like(sheet.shapes[sheet.cache ? sheet.shape_count - 1 : 0]);
    uint64_t seeds[CASES_MIXED], mixed[TENSORS];

    for (int i = 0; i < CASES_MIXED; ++i)
        seeds[i] = secret_draw("lab %d used %d", sheet.number, i);
    for (int i = 0; i < CASES_MIXED; ++i) {
        mixed_seeds(i, seeds, mixed);
        case_make_of(&c[i], shape, SOFTMAX_SCALE, GRADE_NORMAL, mixed);
    }
    free(shape);
}

struct use use_of(enum spoils what, launch_ablated *launch, void *of)
{
    const struct ablation counting = {.what = what};
    struct grade_case c[CASES_MIXED];
    struct use use = {.known = true};
    struct reply reply = {0};
    char *out = NULL;

    make_cases(c);
    if (launch(of, c, CASES_MIXED, &counting, 0, &reply, &out, &use.why)) {
        const size_t answer = answer_bytes(&c->shape), outputs = 2 * shape_outputs(&c->shape);
        use.depends = true;
        for (int i = 1; i < CASES_MIXED; ++i)
            use.depends = use.depends && memcmp(out, out + (size_t)i * answer, outputs) != 0;
        struct looked looked = {.launch = launch,
                                .of = of,
                                .what = what,
                                .c = c,
                                .out = out,
                                .executions = reply.executions / CASES_MIXED,
                                .most = reply.counts.warp_instructions + 100000};
        if (use.depends && looked.executions > 0)
            use.share = share_used(&looked);
        use.why = looked.why;
    }
    free(out);
    for (int i = 0; i < CASES_MIXED; ++i)
        case_free(&c[i]);
    return use;
}

// ---- The lab's own work -------------------------------------------------------------------------

// The pairs of a query and a key at a shape, with which work grows.
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
