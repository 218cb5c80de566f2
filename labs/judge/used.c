// used.c: finds out whether what an aim counts is used. Some of the counted executions are spoiled,
// in additional launches, and the outputs must change. What is used is compared with the lab's own
// program. (For an upper limit, items.c also compares other work with that program's.)
#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How executions are spoiled. To measure a share, executions are spoiled one at a time: if half of
// them are used, spoiling four at once would be noticed in fifteen of sixteen draws. Of atomic
// operations, up to half are spoiled at once, since many requests to a queue are by CTAs that find
// it empty. Stores are spoiled for a whole CTA: there are few CTAs, so each draw takes one from its
// own part of the grid.
static const struct experiment experiments[SPOILS] = {
    {.what = SPOIL_PRODUCTS, .draws = 24, .enough = 8},
    {.what = SPOIL_COPIES, .draws = 24, .enough = 8},
    {.what = SPOIL_ATOMICS, .draws = 8, .enough = 3, .halves = true},
    {.what = SPOIL_STORES, .draws = 8, .enough = 8, .in_parts = true},
    {.what = SPOIL_LOADS, .draws = 24, .enough = 8},
    {.what = SPOIL_LOOKUPS},
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

// Makes the cases; the first one is launched again with spoiled executions.
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

// The ratio of two amounts, at most 1; 1 if `other` is 0.
static double share_of(double one, double other)
{
    return other > 0 ? fmin(1, one / other) : 1;
}

// The bytes that a CTA had under way, on average, in copies that affect outputs: the higher of the
// averages by the two kinds of progress.
static double overlap_of(const struct reply *reply)
{
    const struct noticed *n = &reply->noticed;
    double most = 0;

    for (int p = 0; p < PROGRESSES; ++p)
        most = fmax(most, reply->worked_on.overlap[p] *
                              share_of(n->noticed_under_way[p], n->under_way[p]));
    return most;
}

struct use use_of(enum spoils what, launch_ablated *launch, void *of)
{
    struct experiment experiment = experiments[what];
    struct grade_case c[CASES_MIXED];
    struct use use = {.known = true};
    struct reply reply = {0};
    char *out = NULL;

    make_cases(c);
    for (int i = 0; i < DRAWS_MOST; ++i)
        experiment.drawn[i] = secret_draw("lab %d spoils %d, draw %d", sheet.number, what, i);
    if (launch(of, c, CASES_MIXED, &experiment, &reply, &out, &use.why)) {
        const size_t answer = answer_bytes(&c->shape), outputs = 2 * shape_outputs(&c->shape);
        const struct counts *counts = &reply.counts;
        const uint64_t work =
            what == SPOIL_PRODUCTS ? counts->tensor_flops : counts->global_atomic_sectors;
        const struct noticed *n = &reply.noticed;
        use.depends = true;
        for (int i = 1; i < CASES_MIXED; ++i)
            use.depends = use.depends && memcmp(out, out + (size_t)i * answer, outputs) != 0;
        use.work = (double)work / CASES_MIXED;
        use.each = counts->tensor_instructions
                       ? (double)counts->tensor_flops / (double)counts->tensor_instructions
                       : 0;
        use.worked_on = reply.worked_on;
        use.overlap = overlap_of(&reply);
        if (what == SPOIL_COPIES) {
            use.work = 0;
            for (int i = 1; i < CHANGES; ++i)
                use.work += use.worked_on.work[i];
        }
        if (use.depends && n->repeats && n->draws > 0) {
            use.share = (double)n->noticed / n->draws;
            use.deviation = sqrt(use.share * (1 - use.share) / n->draws);
        }
    }
    free(out);
    for (int i = 0; i < CASES_MIXED; ++i)
        case_free(&c[i]);
    return use;
}

// ---- Compared with the lab's own program --------------------------------------------------------

double work_in_common(const struct use *use, double share, const struct use *own)
{
    double common = 0;

    for (int i = 1; i < CHANGES; ++i) // leaves out [0]: operands that no input changes
        common += fmin(use->worked_on.work[i], own->worked_on.work[i]);
    return fmin(common, fmax(0, fmin(1, share)) * use->work);
}

// The share of the lab's own copies that a submission has, too: read by it, affecting outputs, and
// under way for long enough. Other copies do not matter.
static double copies_in_common(const struct use *use, const struct use *own)
{
    const double common = work_in_common(use, use->share + 2 * use->deviation, own);

    return share_of(common, work_in_common(own, 1, own)) * share_of(use->overlap, own->overlap / 3);
}

double used_as_by(enum spoils what, double count, double of_book, const struct use *use,
                  const struct use *own)
{
    const double seen = fmin(1, use->share + use->deviation); // the doubt counts in favour of the
                                                              // submission
    const double common = share_of(work_in_common(use, seen, own), use->work);

    switch (what) {
    case SPOIL_PRODUCTS:
        return count * share_of(common, share_of(work_in_common(own, 1, own), own->work)) *
               share_of(use->each, own->each);
    case SPOIL_COPIES: return fmin(count, of_book * copies_in_common(use, own));
    case SPOIL_ATOMICS:
        return count * seen * use->worked_on.orders *
               share_of(use->worked_on.executions, use->work);
    default: return count * seen * share_of(use->worked_on.spread, own->worked_on.spread);
    }
}
