// spoil.c: part of the runner: finds out which inputs the operations in a launch (ptxsim.h, struct
// execution) work on, and whether outputs change if some, drawn at random, are spoiled.
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

// ---- What executions work on --------------------------------------------------------------------

static int compare_words(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The hashes of one operand in all executions of a set, sorted. Their order in the log does not
// matter: a kernel that leaves some work out has another order.
static uint64_t *sorted_hashes(const struct execution *log, size_t count, int operand)
{
    uint64_t *hashes = malloc((count + 1) * sizeof *hashes);
    if (!hashes)
        exit(1);
    for (size_t i = 0; i < count; ++i)
        hashes[i] = log[i].of[operand];
    qsort(hashes, count, sizeof *hashes, compare_words);
    return hashes;
}

// For each execution of the first set, and one of its operands: the other sets in which the operand
// changes, as bits.
static uint8_t *changes_of(const struct execution *log, const size_t ends[], int sets, int operand)
{
    uint8_t *changes = calloc(ends[0] + 1, 1);

    for (int s = 1; s < sets && changes; ++s) {
        const size_t count = ends[s] - ends[s - 1];
        uint64_t *hashes = sorted_hashes(log + ends[s - 1], count, operand);
        for (size_t i = 0; i < ends[0]; ++i)
            if (!bsearch(&log[i].of[operand], hashes, count, sizeof *hashes, compare_words))
                changes[i] |= (uint8_t)(1 << (s - 1));
        free(hashes);
    }
    if (!changes)
        exit(1);
    return changes;
}

static int compare_places(const void *a, const void *b)
{
    const struct execution *x = a, *y = b;
    return x->of[0] != y->of[0] ? (x->of[0] > y->of[0]) - (x->of[0] < y->of[0])
                                : (x->cta > y->cta) - (x->cta < y->cta);
}

static int compare_found(const void *a, const void *b)
{
    const struct execution *x = a, *y = b;
    return compare_words(&x->of[1], &y->of[1]);
}

static int compare_ctas(const void *a, const void *b)
{
    const struct execution *x = a, *y = b;
    return (x->cta > y->cta) - (x->cta < y->cta);
}

// How many different CTAs there are among executions sorted by CTA.
static size_t count_ctas(const struct execution *sorted, size_t count)
{
    size_t ctas = 0;
    for (size_t i = 0; i < count; ++i)
        ctas += i == 0 || sorted[i].cta != sorted[i - 1].cta;
    return ctas;
}

// How many different values the first set's atomic operations find at each address that may be a
// queue's, added up, as a share of all the set's atomic operations. An address may be a queue's if
// at least half of the CTAs with atomic operations have some there, and at least four CTAs (or
// all, if there are two or three).
static double share_of_orders(const struct execution *log, size_t count)
{
    enum { SEVERAL = 4 };
    struct execution *sorted = malloc((count + 1) * sizeof *sorted);
    size_t kept = 0, orders = 0;
    if (!sorted)
        exit(1);
    memcpy(sorted, log, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_ctas);
    const size_t all = count_ctas(sorted, count), half = (all + 1) / 2;
    const size_t least = half > SEVERAL ? half : all < SEVERAL ? all : SEVERAL;
    qsort(sorted, count, sizeof *sorted, compare_places);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && sorted[to].of[0] == sorted[from].of[0];)
            ++to;
        const size_t ctas = count_ctas(sorted + from, to - from);
        if (ctas > 1 && ctas >= least) {
            memmove(sorted + kept, sorted + from, (to - from) * sizeof *sorted);
            kept += to - from;
        }
    }
    qsort(sorted, kept, sizeof *sorted, compare_found);
    for (size_t i = 0; i < kept; ++i)
        orders += i == 0 || sorted[i].of[1] != sorted[i - 1].of[1];
    free(sorted);
    return count > 0 ? (double)orders / (double)count : 0;
}

static int compare_operands(const void *a, const void *b)
{
    const struct execution *x = *(const struct execution *const *)a,
                           *y = *(const struct execution *const *)b;
    const int first = compare_words(&x->of[0], &y->of[0]);
    return first ? first : compare_words(&x->of[1], &y->of[1]);
}

// Pointers to the first set's executions, sorted by their operands; for the caller to free.
static const struct execution **sorted_by_operands(const struct execution *log, size_t count)
{
    const struct execution **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted)
        exit(1);
    for (size_t i = 0; i < count; ++i)
        sorted[i] = &log[i];
    qsort(sorted, count, sizeof *sorted, compare_operands);
    return sorted;
}

struct copied {
    double bytes, under_way; // bytes: those that were read; under_way: of these (struct execution)
};

static int compare_under_way(const void *a, const void *b)
{
    const struct copied *x = a, *y = b;
    const double first = x->under_way * y->bytes, second = y->under_way * x->bytes;
    return (first > second) - (first < second);
}

// Sums up, over copies, the bytes that were read times the progress until the copy arrived. It
// leaves out the tenth of the bytes that was under way longest: these may have been copied and read
// only for the count.
static double under_way_of(const struct execution *log, size_t count, enum progress progress)
{
    static const double COUNTED = 0.9;
    struct copied *copies = malloc((count + 1) * sizeof *copies);
    double all = 0, taken = 0, sum = 0;

    if (!copies)
        exit(1);
    for (size_t i = 0; i < count; ++i) {
        const double read = log[i].brought ? (double)log[i].work / log[i].brought : 0;
        copies[i] = (struct copied){log[i].work, read * (double)log[i].under_way[progress]};
        all += copies[i].bytes;
    }
    qsort(copies, count, sizeof *copies, compare_under_way);
    for (size_t i = 0; i < count && taken < COUNTED * all; taken += copies[i++].bytes)
        sum += copies[i].under_way;
    free(copies);
    return sum;
}

struct worked_on worked_on_of(const struct ablation *a, const size_t ends[], int sets,
                              uint8_t **changes)
{
    const bool products = a->what == SPOIL_PRODUCTS;
    uint8_t *first = changes_of(a->log, ends, sets, 0);
    uint8_t *second = products ? changes_of(a->log, ends, sets, 1) : first;
    const struct execution **sorted = sorted_by_operands(a->log, ends[0]);
    struct worked_on w = {.executions = (double)ends[0],
                          .orders = share_of_orders(a->log, ends[0])};

    // Products of the same operands count once.
    for (size_t i = 0; i < ends[0]; ++i) {
        const size_t at = (size_t)(sorted[i] - a->log);
        if (!products || i == 0 || compare_operands(&sorted[i - 1], &sorted[i]) != 0)
            w.work[first[at] && second[at] ? first[at] | second[at] : 0] += sorted[i]->work;
    }
    for (enum progress p = 0; p < PROGRESSES; ++p)
        if (a->progress[p] > 0)
            w.overlap[p] = under_way_of(a->log, ends[0], p) * sets / (double)a->progress[p];
    w.meets = (double)a->meets / sets;
    w.at_once = a->ahead ? a->at_once / (double)a->ahead : 0;
    w.apart = a->loaded ? 1 - (double)a->loaded_beside / (double)a->loaded : 0;
    w.spread = a->busiest ? (double)a->distinct / (double)a->busiest : 0;
    if (products)
        free(second);
    free(sorted);
    *changes = first;
    return w;
}

// ---- Draws --------------------------------------------------------------------------------------

// The i-th of the 64-bit numbers that follow from `drawn`.
static uint64_t drawn_with(uint64_t drawn, uint64_t i)
{
    uint64_t x = drawn + i * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

// Names an execution by its CTA and its place among the CTA's executions.
static struct chosen choose(const struct spoiling *s, size_t execution)
{
    struct chosen chosen = {.cta = s->log[execution].cta};
    while (s->log[execution].more)
        --execution;
    for (size_t i = 0; i < execution; ++i)
        chosen.at += s->log[i].cta == chosen.cta && !s->log[i].more;
    return chosen;
}

// Adds to `a` the executions that a draw spoils, and to `places` their indices in the log. False:
// there are none, or (without `halves`) `a` has an execution of the same CTA already.
static bool take_draw(const struct spoiling *s, int draw, struct ablation *a,
                      size_t places[SPOILED_MOST])
{
    const struct experiment *e = s->experiment;
    const size_t draws = (size_t)e->draws, at = (size_t)draw;
    const size_t first = e->in_parts ? at * s->count / draws : 0;
    const size_t of = e->in_parts ? (at + 1) * s->count / draws - first : s->count;
    const size_t half = (s->count + 1) / 2;
    const int many = !e->halves ? 1 : half < SPOILED_MOST ? (int)half : SPOILED_MOST;

    for (int i = 0; i < many && of > 0; ++i) {
        const size_t drawn = first + drawn_with(e->drawn[draw], (uint64_t)i) % of;
        const size_t execution = s->drawn_of ? s->drawn_of[drawn] : drawn;
        const struct chosen chosen = choose(s, execution);
        for (int k = 0; k < a->count && !e->halves; ++k)
            if (a->chosen[k].cta == chosen.cta)
                return false;
        places[a->count] = execution;
        a->chosen[a->count++] = chosen;
    }
    return of > 0;
}

// Sets, for each spoiled CTA, whether an output that it stored has changed. Returns false if an
// output that no spoiled CTA stored has changed, too.
static bool noticed_by(const struct spoiling *s, const struct ablation *a, const uint16_t *now,
                       bool noticed[SPOILED_MOST])
{
    for (size_t i = 0; i < s->outputs; ++i) {
        int k = 0;
        if (now[i] == s->out[i])
            continue;
        while (k < a->count && s->writers[i] != a->chosen[k].cta + 1)
            ++k;
        if (k == a->count)
            return false;
        noticed[k] = true;
    }
    return true;
}

static void add_draw(struct noticed *n, const struct execution *execution, bool noticed)
{
    ++n->draws;
    n->noticed += noticed;
    for (int p = 0; p < PROGRESSES; ++p) {
        const double under_way = (double)execution->under_way[p];
        n->under_way[p] += under_way;
        n->noticed_under_way[p] += noticed ? under_way : 0;
    }
}

// Several draws share a launch: up to half of the CTAs have a spoiled execution each, which counts
// as noticed if an output of the same CTA changes. If outputs of other CTAs change, too, or the
// launch does not end, these draws and all later ones get a launch each, in which any change counts
// as noticed. With stores, or with `halves`, each draw has its own launch from the beginning.
struct noticed spoil_all(const struct spoiling *s)
{
    const struct experiment *e = s->experiment;
    const uint64_t half = s->ctas / 2;
    const int most = half < 1 ? 1 : half < SPOILED_MOST ? (int)half : SPOILED_MOST;
    struct noticed n = {.draws = 0};
    bool apart = !e->halves && e->what != SPOIL_STORES;

    for (int next = 0; next < e->draws && s->count > 0;) {
        const int stage = next < e->enough ? e->enough : e->draws;
        struct ablation a = {.what = e->what};
        size_t places[SPOILED_MOST];
        bool noticed[SPOILED_MOST] = {false};
        int taken = 0;
        while (next + taken < stage && taken < (apart ? most : 1) &&
               take_draw(s, next + taken, &a, places))
            ++taken;
        if (taken == 0) { // the draw's part of the log is empty
            ++next;
            continue;
        }
        const uint16_t *now = s->launch(s->of, &a);
        const bool changed = !now || memcmp(now, s->out, s->outputs * sizeof *now) != 0;
        noticed[0] = changed;
        if (taken > 1) {
            noticed[0] = false;
            apart = now && noticed_by(s, &a, now, noticed);
            if (!apart)
                continue;
        }
        next += taken;
        for (int i = 0; i < taken; ++i)
            add_draw(&n, &s->log[places[i]], noticed[i]);
        if (n.noticed == n.draws && n.draws == e->enough)
            break;
    }
    // A kernel whose outputs vary from run to run would seem to use everything.
    const struct ablation none = {.what = e->what};
    const uint16_t *again = s->launch(s->of, &none);
    n.repeats = again && memcmp(again, s->out, s->outputs * sizeof *again) == 0;
    return n;
}

struct noticed spoil_working(const struct spoiling *s, const uint8_t *changes)
{
    size_t *drawn_of = malloc((s->count + 1) * sizeof *drawn_of);
    struct spoiling of = *s;
    if (!drawn_of)
        exit(1);
    of.count = 0;
    of.drawn_of = drawn_of;
    for (size_t i = 0; i < s->count; ++i)
        if (changes[i] && s->log[i].work)
            drawn_of[of.count++] = i;
    const struct noticed n = spoil_all(&of);
    free(drawn_of);
    return n;
}

struct noticed spoil_each(const struct spoiling *s, const uint8_t *changes)
{
    size_t *drawn_of = malloc((s->count + 1) * sizeof *drawn_of);
    struct noticed less = {.draws = 0};
    if (!drawn_of)
        exit(1);
    for (uint8_t changed = CHANGES_V; changed <= CHANGES_K; ++changed) {
        struct spoiling of = *s;
        of.count = 0;
        of.drawn_of = drawn_of;
        for (size_t i = 0; i < s->count; ++i)
            if (changes[i] == changed)
                drawn_of[of.count++] = i;
        const struct noticed n = spoil_all(&of);
        const bool repeats = n.repeats && (changed == CHANGES_V || less.repeats);
        if (changed == CHANGES_V || n.noticed * less.draws < less.noticed * n.draws)
            less = n;
        if (n.draws == 0)
            less = n;
        less.repeats = repeats;
    }
    free(drawn_of);
    return less;
}
