// used.c: whether what an aim counts was used. What is counted is spoiled in launches of their own, some executions in
// each, and the outputs must notice; a limit from above counts beside the work that the lab's own program does.
#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How what is counted is spoiled: in so many draws, each of so many executions (0: half of all), and so many of the first
// must change the outputs to stand for all. A share of executions is measured one by one: of four at once, half of which
// are used, fifteen in sixteen draws are noticed. Of a queue's requests many are those of CTAs that find it empty. Of CTAs
// each draw has one from its own part of the grid: there are few.
static const struct spoiling {
    int draws, enough, at_once;
} spoiling[SPOILS] = {
    [SPOIL_PRODUCTS] = {24, 8, 1},
    [SPOIL_COPIES] = {24, 8, 1},
    [SPOIL_ATOMICS] = {8, 3, 0},
    [SPOIL_STORES] = {8, 8, 1},
};

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

// The executions of a CTA's part of the grid that a draw has; of anything else, all.
static void part_of(enum spoils what, int draw, uint64_t executions, uint64_t *first, uint64_t *of)
{
    const uint64_t draws = (uint64_t)spoiling[what].draws;
    const bool parts = what == SPOIL_STORES;

    *first = parts ? (uint64_t)draw * executions / draws : 0;
    *of = parts ? (uint64_t)(draw + 1) * executions / draws - *first : executions;
}

// Which of so many executions are spoiled in a draw.
static struct ablation draw_executions(enum spoils what, int draw, uint64_t executions)
{
    struct ablation a = {.what = what, .count = spoiling[what].at_once};
    uint64_t first, of;

    part_of(what, draw, executions, &first, &of);
    if (a.count == 0)
        a.count = executions < 2 * SPOILED_MOST ? (int)(executions + 1) / 2 : SPOILED_MOST;
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

// The share of executions that is used, and its standard deviation, 0 where all draws were noticed.
static double share_used(struct looked *l, double *deviation)
{
    const struct ablation none = {.what = l->what};
    const struct spoiling *s = &spoiling[l->what];
    int draws = 0, noticed = 0;

    // A kernel with other outputs in each run would seem to use everything.
    if (is_noticed(l, &none))
        return 0;
    for (int draw = 0; draw < s->draws && !l->why; ++draw) {
        uint64_t first, of;
        part_of(l->what, draw, l->executions, &first, &of);
        if (of == 0)
            continue; // of fewer CTAs than draws
        const struct ablation a = draw_executions(l->what, draw, l->executions);
        ++draws;
        noticed += is_noticed(l, &a);
        if (noticed == draws && draws == s->enough)
            break;
    }
    double share = draws && !l->why ? (double)noticed / draws : 0;
    *deviation = draws ? sqrt(share * (1 - share) / draws) : 0;
    return share;
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
    const struct ablation noting = {.what = what, .logs = true};
    struct grade_case c[CASES_MIXED];
    struct use use = {.known = true};
    struct reply reply = {0};
    char *out = NULL;

    make_cases(c);
    if (launch(of, c, CASES_MIXED, &noting, 0, &reply, &out, &use.why)) {
        const size_t answer = answer_bytes(&c->shape), outputs = 2 * shape_outputs(&c->shape);
        const uint64_t work =
            what == SPOIL_PRODUCTS ? reply.counts.tensor_flops : reply.counts.async_bytes;
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
        use.work = (double)work / CASES_MIXED;
        use.worked_on = reply.worked_on;
        if (use.depends && looked.executions > 0)
            use.share = share_used(&looked, &use.deviation);
        use.why = looked.why;
    }
    free(out);
    for (int i = 0; i < CASES_MIXED; ++i)
        case_free(&c[i]);
    return use;
}

// ---- Beside the lab's own program ---------------------------------------------------------------

double work_in_common(const struct use *use, double share, const struct use *own)
{
    double common = 0;

    for (int i = 1; i < CHANGES; ++i) // on what changes with some input
        common += fmin(use->worked_on.work[i], own->worked_on.work[i]);
    return fmin(common, fmax(0, fmin(1, share)) * use->work);
}

// So much of one is there, as far as another has it: 0 to 1.
static double share_of(double one, double other)
{
    return other > 0 ? fmin(1, one / other) : 1;
}

double share_as_by(enum spoils what, const struct use *use, const struct use *own)
{
    const double seen = fmin(1, use->share + use->deviation); // a doubt is the submission's

    switch (what) {
    case SPOIL_PRODUCTS: return share_of(work_in_common(use, seen, own), use->work);
    case SPOIL_COPIES:
        return share_of(work_in_common(use, seen, own), use->work) *
               share_of(use->worked_on.overlap, own->worked_on.overlap);
    case SPOIL_ATOMICS: return seen * use->worked_on.orders;
    default: return seen * share_of(use->worked_on.spread, own->worked_on.spread);
    }
}
