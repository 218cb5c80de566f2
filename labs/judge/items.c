// items.c: grades one submission, item by item.
//
// Each item reaches a share, from 0 to 1: the share of its cases that are right, how far an aim is
// reached, whether a limit is kept, or how fast the kernel is. The rule of points (rule.h) turns
// shares into points. The result has both, so that one can see which items a planted bug loses.
#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// CASE_SECONDS: CPU time of a case. The largest cases take some seconds, on a slow machine half a
// minute. An endless loop ends with its budget of instructions, which is the same on every machine;
// CASE_SECONDS limits what no budget counts.
enum {
    CASE_SECONDS = 120,
    SHAPES_SEEN = 32,
    RUNS_COUNTED = 40,
    SCHEDULES = 4,
    FIRST_SCHEDULES = 1000
};
// The number of launches in a case with several launches is drawn from this range.
enum { AGAIN_LEAST = 6, AGAIN_MOST = 12 };
// MODEL_ASKED: tasks for a language model's program: to read a text, to read one token more, to
// draw tokens. MODELS_DRAWN: the models on which `hidden` tries it.
enum { MODEL_ASKED = 3, MODELS_DRAWN = 4 };

struct grading {
    struct submission s;
    struct runner runner;
    struct known_launches shapes[SHAPES_SEEN];
    int shape_count;
    struct counted { // a run that ended
        struct shape shape;
        bool right;
        struct counts counts;
        struct footprint footprint;
    } counted[RUNS_COUNTED];
    int counted_count;
    json_t *cases, *speed;   // speed: what was measured, or NULL
    const json_t *earlier;   // a regrade: the earlier result, for items not graded again; or NULL
    json_t *raced;           // races found in cases of other items, for the item `races`
    char *printed;           // what the kernels printed in the first case
    struct use used[SPOILS]; // indexed by what was spoiled
    // The experiment for the current cases; races are not looked for in it. NULL: none.
    const struct experiment *experiment;
    const char *group;                  // the current group of cases
    int failed;                         // failed cases of the group
    struct searches searches[SEARCHED]; // a search's runs; `cases` NULL: not run yet
    bool wrong_when_timed;              // whether a timed output was wrong, on a GPU
    char *first;                        // the first failure in the group
};

// ---- Running ------------------------------------------------------------------------------------

static const struct known_launches *launches_on(struct grading *g, const struct shape *shape,
                                                char **why)
{
    for (int i = 0; i < g->shape_count; ++i)
        if (strcmp(g->shapes[i].shape.name, shape->name) == 0)
            return &g->shapes[i];
    if (g->shape_count == SHAPES_SEEN)
        fail(EXIT_MACHINE, "more than %d shapes", SHAPES_SEEN);
    struct known_launches *k = &g->shapes[g->shape_count];
    if (!submission_launches(&g->s, shape, k, why))
        return NULL;
    ++g->shape_count;
    return k;
}

static void note_failure(struct grading *g, const char *why)
{
    ++g->failed;
    if (!g->first)
        g->first = text("%s", why);
}

// Whether a report may tell the inputs of an item's cases.
static bool is_public(const char *item)
{
    return strcmp(item, "correct") == 0;
}

// What a case is to show: right outputs; right outputs without a race; or only its counts, for a
// kernel that may read memory never written. Races in a case of the first kind are passed to the
// item `races`.
enum about { NUMBERS, NUMBERS_AND_RACES, COUNTS };

// The place of the other access in a race's text: FILE:LINE of " wrote at FILE:LINE with no barrier
// ..."; for the caller to free. NULL: the text has none.
static char *other_place(const char *race)
{
    const char *at = strstr(race, " wrote at "), *with = NULL;

    if (!at)
        at = strstr(race, " read at ");
    if (at)
        at = strstr(at, " at ") + strlen(" at ");
    if (at)
        with = strstr(at, " with ");
    return with ? text("%.*s", (int)(with - at), at) : NULL;
}

// The text of a fault for a report. For a drawn shape it has only what happened, and where in the
// source: address, block and thread could reveal what was drawn.
static char *fault_told(const struct shape *shape, enum fault_kind kind, const char *words)
{
    static const char *const kinds[FAULT_INTERNAL + 1] = {
        [FAULT_OUT_OF_BOUNDS] = "an access out of bounds",
        [FAULT_MISALIGNED] = "a misaligned access",
        [FAULT_UNINITIALISED] = "a read of what nothing has written",
        [FAULT_RACE] = "a race",
        [FAULT_DEADLOCK] = "threads that wait for ever",
        [FAULT_ENDLESS] = "stopped: a loop that does not end",
        [FAULT_DIVERGENT_BARRIER] = "a barrier that not all threads reach",
        [FAULT_TRAP] = "a trap",
        [FAULT_ASSERT] = "an assertion that does not hold",
    };
    char *clean = cleaned(words, strlen(words));
    const char *place = strchr(clean, ','), *end = strstr(clean, ", block (");
    bool is_public = false;

    for (int i = 0; i < sheet.shape_count; ++i)
        is_public = is_public || strcmp(shape->name, sheet.shapes[i]) == 0;
    if (is_public && kind == FAULT_ENDLESS)
        return text("stopped: %s", clean);
    if (is_public || kind < 0 || kind > FAULT_INTERNAL || !kinds[kind])
        return clean;
    bool placed = place && end && place < end && kind != FAULT_ASSERT;
    char *other = kind == FAULT_RACE ? other_place(clean) : NULL;
    char *told = text("%s%.*s%s%s", kinds[kind], placed ? (int)(end - place) : 0,
                      placed ? place : "", other ? ", with " : "", other ? other : "");
    free(other);
    free(clean);
    return told;
}

// A language model's fault at a drawn shape, without the address, which could reveal the shape.
static char *fault_told_short(const char *words)
{
    return text("%.*s", (int)strcspn(words, "("), words);
}

static json_t *describe_case(const char *item, const struct grade_case *c, unsigned schedule,
                             bool right)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:f, s:i, s:b}", "item", item, "shape", c->shape.name,
                     "input", input_name(c->input), "seed",
                     json_sprintf("%016llx", (unsigned long long)c->seed), "scale",
                     (double)c->problem.softmax_scale, "schedule", (int)schedule, "pass", right);
}

static void note_race(struct grading *g, const struct grade_case *c, unsigned schedule,
                      const struct reply *reply)
{
    json_t *race = describe_case("races", c, schedule, false);
    char *why = fault_told(&c->shape, FAULT_RACE, reply->race);

    json_object_set_new(race, "why", json_string(why));
    json_array_append_new(g->raced, race);
    free(why);
}

// What a kernel has printed, for a report: without control characters, and with single blanks.
static char *printed_text(const struct reply *reply)
{
    char *clean = cleaned(reply->printed, reply->printed_bytes), *to = clean;

    for (const char *at = clean; *at; ++at)
        if (*at != ' ' || (to > clean && to[-1] != ' '))
            *to++ = *at;
    *to = '\0';
    char *told = text("%s%s", clean, reply->printed_more ? " ..." : "");
    free(clean);
    return told;
}

// The warp instructions that a launch may run: PAIR_BUDGET for each pair of a query and a key, and
// at least LEAST_BUDGET. A kernel with one thread for each query takes some twenty for a pair; the
// rest is for warps that poll while others catch up. An endless loop spends them in seconds.
static uint64_t budget_of(const struct shape *shape)
{
    static const double PAIR_BUDGET = 600, LEAST_BUDGET = 200e6;
    double pairs = (double)shape->seq_len * shape_rows(shape) * shape->batch * shape->heads;
    return (uint64_t)fmax(PAIR_BUDGET * pairs, LEAST_BUDGET);
}

// Whether slots without a token contain what looks like a token: in half of the hidden cases, drawn
// at random. (For experiments, launch_cases() always fills them so: outputs that are NaN both with
// and without spoiling would show nothing.)
static bool is_stale(const struct grading *g, const struct grade_case *c)
{
    return strcmp(g->group, "hidden") == 0 &&
           secret_draw("is stale %016llx", (unsigned long long)c->seed) % 2;
}

// Asks the runner to launch one or more cases of a shape in turn. Returns whether they ended; if
// not, one line in *why. *out: the outputs, for the caller to free.
static bool launch_cases(struct grading *g, struct grade_case *c, int count, unsigned schedule,
                         bool unchecked, struct reply *reply, char **out, char **why)
{
    const struct known_launches *k = launches_on(g, &c->shape, why);

    if (!k)
        return false;
    struct run_request r = {
        .shape = c->shape,
        .softmax_scale = c->problem.softmax_scale,
        .launch_count = k->count,
        .races = !g->experiment,
        .ablated = g->experiment != NULL,
        .unchecked = unchecked || g->experiment,
        .schedule = schedule,
        .hasty = schedule % 2,
        .budget = budget_of(&c->shape),
        // One host thread, so that what a CTA gets from a queue does not depend on the machine.
        .threads = 1,
        .sets = count,
        .scratch = k->scratch,
        .steps_bytes = k->steps_bytes,
    };
    if (g->experiment)
        r.experiment = *g->experiment;
    memcpy(r.launches, k->launches, sizeof r.launches);
    const struct request request = {.verb = VERB_RUN};
    const void *parts[2 + AGAIN_MOST] = {&r, k->steps};
    size_t sizes[2 + AGAIN_MOST] = {sizeof r, k->steps_bytes};
    for (int i = 0; i < count; ++i) {
        if (sheet.cache)
            case_lay_out(&c[i], &k->places, g->experiment || is_stale(g, &c[i]));
        parts[2 + i] = c[i].inputs;
        sizes[2 + i] = input_bytes(&c->shape);
    }
    if (!runner_ask(&g->runner, &g->s, &request, parts, sizes, 2 + count, CASE_SECONDS, reply, out,
                    why))
        return false;
    // If too many races have stopped the launch, it is repeated without looking for races, for the
    // outputs. The item `races` judges the races.
    if (reply->raced_out) {
        struct reply raced = *reply;
        free(*out);
        r.races = false;
        if (!runner_ask(&g->runner, &g->s, &request, parts, sizes, 2 + count, CASE_SECONDS, reply,
                        out, why))
            return false;
        reply->races = raced.races;
        memcpy(reply->race, raced.race, sizeof reply->race);
    }
    if (!g->printed && strcmp(g->group, "correct") == 0)
        g->printed = printed_text(reply);
    if (reply->verdict != DONE)
        *why = fault_told(&c->shape, reply->verdict == FAULTED ? reply->fault : FAULT_NONE,
                          reply->text);
    return reply->verdict == DONE;
}

// Runs one case, and adds its result to the current group.
static void run_case(struct grading *g, const char *shape, float scale, enum input input,
                     uint64_t seed, enum about about, unsigned schedule)
{
    struct grade_case c;
    struct reply reply = {0};
    char *why = NULL, *out = NULL;
    double error = NAN;
    bool right = false, ended = false;

    case_make(&c, shape, scale, input, seed);
    ended = launch_cases(g, &c, 1, schedule, about == COUNTS, &reply, &out, &why);
    if (ended)
        right = case_right(&c, out, &error, &why);
    if (ended && schedule == 0 && g->counted_count < RUNS_COUNTED)
        g->counted[g->counted_count++] =
            (struct counted){c.shape, right, reply.counts, reply.footprint};
    if (reply.races && about == NUMBERS)
        note_race(g, &c, schedule, &reply);
    if (reply.races && about == NUMBERS_AND_RACES && right) {
        right = false;
        why = fault_told(&c.shape, FAULT_RACE, reply.race);
    }
    if (!right)
        note_failure(g, why);
    json_t *said = describe_case(g->group, &c, schedule, right);
    if (!isnan(error))
        json_object_set_new(said, "rel_head", json_real(error));
    if (why)
        json_object_set_new(said, "why", json_string(why));
    if (ended && !right && is_public(g->group))
        json_object_set_new(said, "how", json_string(case_how_wrong(&c, out)));
    json_array_append_new(g->cases, said);
    free(out);
    free(why);
    case_free(&c);
}

// Runs a case of several launches on different inputs; some of these share Q, K or V. A kernel is
// wrong in one of the launches if it keeps something from one launch to the next, does not always
// compute, or does not reset its counters.
static void run_again(struct grading *g, const char *shape, const char *of)
{
    const int count = secret_between(AGAIN_LEAST, AGAIN_MOST, public_draw("%s launches", of));
    struct grade_case c[AGAIN_MOST];
    struct reply reply = {0};
    char *why = NULL, *out = NULL;
    uint64_t seeds[AGAIN_MOST], mixed[TENSORS];
    double error;

    for (int i = 0; i < count; ++i)
        seeds[i] = public_draw("%s %d", of, i);
    for (int i = 0; i < count; ++i) {
        mixed_seeds(i, seeds, mixed);
        case_make_of(&c[i], shape, SOFTMAX_SCALE, GRADE_NORMAL, mixed);
    }
    bool right = launch_cases(g, c, count, 0, false, &reply, &out, &why);
    for (int i = 0; i < count && right; ++i) {
        char *wrong = NULL;
        right = case_right(&c[i], out + (size_t)i * answer_bytes(&c->shape), &error, &wrong);
        if (!right)
            why = text("launch %d of %d: %s", i + 1, count, wrong);
        free(wrong);
    }
    if (reply.races)
        note_race(g, c, 0, &reply);
    if (!right)
        note_failure(g, why);
    json_t *said = describe_case(g->group, c, 0, right);
    json_object_set_new(said, "launches", json_integer(count));
    if (why)
        json_object_set_new(said, "why", json_string(why));
    json_array_append_new(g->cases, said);
    free(out);
    free(why);
    for (int i = 0; i < count; ++i)
        case_free(&c[i]);
}

// Has a language model's program run a model and a text; adds a case for each task of the model, or
// with `races` only one case, which is right if all answers are right and there is no fault.
static void run_model(struct grading *g, const char *shape, uint64_t drawn, unsigned schedule,
                      bool races)
{
    static const char *const asked[MODEL_ASKED] = {"prompt", "answer", "drawn"};
    const int seed = secret_between(1, 1 << 30, drawn);
    struct model_run r = model_run(&g->s, shape, seed, schedule, races);
    const json_t *check;
    bool all = json_array_size(r.checks) > 0;
    size_t i;

    json_array_foreach (r.checks, i, check)
        all = all && json_is_true(json_object_get(check, "pass"));
    for (i = 0; i < (races ? 1 : MODEL_ASKED); ++i) {
        check = json_array_get(r.checks, i);
        bool right = !r.fault && (races ? all : json_is_true(json_object_get(check, "pass")));
        const char *how = string_or(check, "how", "outputs are wrong");
        char *why = right                         ? NULL
                    : !r.fault                    ? text("%s", how)
                    : strcmp(g->group, "correct") ? fault_told_short(r.fault)
                                                  : text("%s", r.fault);
        json_t *said = json_pack("{s:s, s:s, s:s, s:o, s:i, s:b, s:s*}", "item", g->group, "shape",
                                 shape, "asked", races ? "all" : asked[i], "seed",
                                 json_sprintf("%016x", (unsigned)seed), "schedule", (int)schedule,
                                 "pass", right, "why", why);
        if (!right)
            note_failure(g, why);
        json_array_append_new(g->cases, said);
        free(why);
    }
    struct shape parsed;
    char ignored[8];
    shape_parse(shape, &parsed, ignored, sizeof ignored);
    if (schedule == 0 && !races && json_array_size(r.checks) > 0 && g->counted_count < RUNS_COUNTED)
        g->counted[g->counted_count++] =
            (struct counted){.shape = parsed, .right = all && !r.fault, .counts = r.counts};
    model_run_free(&r);
}

static const struct item *item_named(const char *name) // NULL if the sheet has no such item
{
    for (int i = 0; i < sheet.count; ++i)
        if (strcmp(sheet.items[i].name, name) == 0)
            return &sheet.items[i];
    return NULL;
}

static void begin_group(struct grading *g, const char *name)
{
    g->group = name;
    g->failed = 0;
    g->first = NULL;
}

// ---- The groups of cases ------------------------------------------------------------------------

static unsigned draw_schedule(const char *of)
{
    return (unsigned)secret_between(1, FIRST_SCHEDULES, secret_draw("%s schedule", of));
}

// A drawn schedule with an odd number: launch_cases() then lets half of the asynchronous copies
// arrive when they are issued.
static unsigned draw_hasty(const char *of)
{
    return draw_schedule(of) | 1;
}

// The shape for repeated launches: the sheet's first; for a cache its last, at which several CTAs
// share a head's keys.
static const char *repeated_shape(void)
{
    return sheet.shapes[sheet.cache ? sheet.shape_count - 1 : 0];
}

static int at_most(int value, int most)
{
    return value < most ? value : most;
}

// Runs all public shapes, or the one that the sheet names. A report tells shape and seed of a wrong
// case, so neither is drawn from the secret; a schedule is drawn, since no report tells it. Counts
// come from the first schedule, which is the same for all submissions.
static void run_correct(struct grading *g)
{
    const struct item *item = item_named("correct");
    const char *only = item ? item->shape : NULL;

    for (int i = 0; i < (only ? 1 : sheet.shape_count); ++i)
        for (int seed = 0; seed < 3; ++seed) {
            const char *of = text("lab %d correct %d %d", sheet.number, i, seed);
            run_case(g, only ? only : sheet.shapes[i], SOFTMAX_SCALE, (enum input)seed,
                     public_draw("%s", of), NUMBERS,
                     seed == 0   ? 0
                     : seed == 1 ? draw_schedule(of)
                                 : draw_hasty(of));
        }
    // A long shape finds a kernel that leaves out work at large shapes. It consists of whole tiles,
    // since sizes that are not multiples of a tile belong to the item `hidden`. A cache is longer
    // still: its keys are divided among more CTAs than are merged at once.
    int tiles = secret_between(9, 18, public_draw("lab %d correct long", sheet.number));
    int keys = at_most(128 * (sheet.cache ? tiles + 56 : tiles), sheet.longest);
    run_case(g, text("1x1x%d%s", keys, sheet.cache ? "q4p64" : ""), SOFTMAX_SCALE, GRADE_NORMAL,
             public_draw("lab %d correct long seed", sheet.number), NUMBERS, 0);
    run_again(g, repeated_shape(), text("lab %d correct again", sheet.number));
}

// Draws a random order of the numbers 0 to count - 1.
static void draw_order(int order[], int count)
{
    for (int i = 0; i < count; ++i) {
        int at = secret_between(0, i, secret_draw("lab %d hidden order %d", sheet.number, i));
        order[i] = order[at];
        order[at] = i;
    }
}

// Hidden cases of a lab with a cache: any number of sequences, heads and queries, any page size,
// any scale of the softmax, as the sheet promises; and sequences of few_pages to most_pages pages
// whose newest token is anywhere in its page.
static void run_hidden_caches(struct grading *g)
{
    enum end { ALONE, FIRST, MIDDLE, LAST, RAGGED }; // where the newest token is in its page
    static const struct kind {
        enum end end;
        int few_pages, most_pages, page; // page 0: its size is drawn
        int few_queries, most_queries, most_batches, most_heads;
        enum input input;
    } kinds[] = {
        {ALONE, 1, 1, 0, 1, 16, 3, 3, GRADE_NORMAL},
        {FIRST, 2, 9, 0, 1, 8, 2, 3, GRADE_MEAN},
        {FIRST, 2, 6, 16, 9, 16, 2, 2, GRADE_RISING},
        {MIDDLE, 1, 1, 0, 1, 1, 3, 3, GRADE_PEAKY},
        {MIDDLE, 2, 4, 256, 9, 16, 2, 2, GRADE_PEAKY},
        {MIDDLE, 60, 140, 16, 1, 8, 1, 2, GRADE_NORMAL}, // more pages than a warp has lanes
        {LAST, 1, 5, 0, 1, 16, 2, 3, GRADE_FLAT},
        {RAGGED, 2, 8, 0, 1, 8, 8, 2, GRADE_PEAKY},
        {RAGGED, 8, 20, 32, 9, 16, 4, 1, GRADE_RISING},
        {RAGGED, 1, 3, 16, 1, 8, 16, 16, GRADE_MEAN}, // more heads in all than an L4 has SMs
        // A head's keys are divided among so many CTAs that they merge results in several rounds.
        {MIDDLE, 33, 33, 256, 1, 4, 1, 1, GRADE_PEAKY},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    int order[KINDS];

    draw_order(order, KINDS);
    for (int i = 0; i < KINDS; ++i) {
        const struct kind *k = &kinds[order[i]];
        const char *of = text("lab %d hidden %d", sheet.number, order[i]);
        int page = k->page ? k->page : 16 << secret_between(0, 4, secret_draw("%s page", of));
        int pages = secret_between(k->few_pages, k->most_pages, secret_draw("%s pages", of));
        int last = k->end == LAST ? page
                   : k->end == FIRST || k->end == ALONE
                       ? 1
                       : secret_between(2, page - 1, secret_draw("%s last", of));
        int few = k->most_batches > 4 ? k->most_batches / 2 : 1;
        int batch = secret_between(few, k->most_batches, secret_draw("%s batch", of));
        int least = k->most_heads > 4 ? k->most_heads / 2 : 1;
        int heads = secret_between(least, k->most_heads, secret_draw("%s heads", of));
        int queries =
            secret_between(k->few_queries, k->most_queries, secret_draw("%s queries", of));
        int ragged = k->end == RAGGED ? secret_between(1, 9999, secret_draw("%s lengths", of)) : 0;
        int scale =
            secret_between(40, k->input == GRADE_PEAKY ? 120 : 200, secret_draw("%s scale", of));
        run_case(g,
                 text("%dx%dx%dq%dp%d%s", batch, heads, (pages - 1) * page + last, queries, page,
                      ragged ? text("r%d", ragged) : ""),
                 0.001f * (float)scale, k->input, secret_draw("%s seed", of), NUMBERS,
                 draw_schedule(of));
    }
}

// Hidden cases, in a drawn order: any number of batches, heads and keys, any scale of the softmax,
// as the sheet promises. Together, the kinds cover all numbers of keys, heads and batches up to the
// largest: a kernel that is wrong in some range is tried in that range.
static void run_hidden(struct grading *g)
{
    static const struct kind {
        int least, most, step; // numbers of keys: from least to most, in steps
        int few_batches, most_batches, few_heads, most_heads;
        enum input input;
        enum { USUAL, LOW, HIGH } scale; // relative to the usual scales
    } kinds[] = {
        {1, 15, 1, 1, 3, 1, 3, GRADE_NORMAL, USUAL},
        {17, 63, 1, 1, 3, 1, 3, GRADE_MEAN, USUAL},
        {64, 64, 1, 1, 2, 1, 3, GRADE_NORMAL, USUAL},
        {65, 127, 1, 1, 8, 1, 8, GRADE_FLAT, USUAL},
        {129, 255, 1, 1, 5, 1, 5, GRADE_RISING, USUAL},
        {256, 256, 1, 1, 2, 1, 2, GRADE_MEAN, USUAL},
        {257, 575, 1, 1, 3, 1, 3, GRADE_PEAKY, USUAL},
        {576, 1024, 64, 2, 2, 2, 2, GRADE_NORMAL, USUAL},
        {576, 3299, 1, 1, 1, 1, 1, GRADE_MEAN, USUAL},
        {3300, 4400, 1, 1, 1, 1, 1, GRADE_NORMAL, USUAL}, // long enough for small errors to add up
        {33, 63, 1, 13, 16, 13, 16, GRADE_NORMAL, USUAL}, // more query tiles than an L4 holds CTAs
        {20, 80, 1, 4, 12, 4, 16, GRADE_PEAKY, USUAL},
        {17, 60, 1, 1, 3, 17, 256, GRADE_OFFSET, USUAL},
        {1, 40, 1, 1, 1, 257, 300, GRADE_MEAN, USUAL},
        {1, 40, 1, 17, 64, 1, 2, GRADE_NORMAL, USUAL},
        {128, 160, 1, 1, 1, 65, 80, GRADE_NORMAL, USUAL},
        {48, 128, 1, 1, 2, 1, 3, GRADE_NORMAL, LOW},
        {48, 128, 1, 1, 2, 1, 3, GRADE_NORMAL, HIGH},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    int order[KINDS];

    draw_order(order, KINDS);
    for (int i = 0; i < KINDS; ++i) {
        const struct kind *k = &kinds[order[i]];
        const char *of = text("lab %d hidden %d", sheet.number, order[i]);
        int batch = secret_between(k->few_batches, k->most_batches, secret_draw("%s batch", of));
        int heads = secret_between(k->few_heads, k->most_heads, secret_draw("%s heads", of));
        int steps = (k->most - k->least) / k->step;
        int keys =
            at_most(k->least + k->step * secret_between(0, steps, secret_draw("%s keys", of)),
                    sheet.longest);
        // The scale in 1/1000. For peaky scores it is at most the usual one, since otherwise a row
        // would depend on one key only. For scores with an offset it is so large that exp() of a
        // score overflows a float. For scores that are all 0 it is outside of the usual range, 40
        // to 200.
        const bool flat = k->input == GRADE_FLAT, small = secret_draw("%s side", of) % 2;
        const int least = k->input == GRADE_OFFSET ? 180
                          : flat                   ? (small ? 1 : 201)
                          : k->scale == LOW        ? 1
                          : k->scale == HIGH       ? 250
                                                   : 40;
        const int most = k->input == GRADE_PEAKY ? 120
                         : flat                  ? (small ? 39 : 8000)
                         : k->scale == LOW       ? 30
                         : k->scale == HIGH      ? 400
                                                 : 200;
        int scale = secret_between(least, most, secret_draw("%s scale", of));
        run_case(g, text("%dx%dx%d", batch, heads, keys), 0.001f * (float)scale, k->input,
                 secret_draw("%s seed", of), NUMBERS, draw_schedule(of));
    }
}

static void run_models(struct grading *g)
{
    for (int i = 0; i < sheet.shape_count; ++i)
        run_model(g, sheet.shapes[i], public_draw("lab %d model %d", sheet.number, i), 0, false);
}

// Hidden cases of a language model: lengths on both sides of a page's end, and drawn lengths.
static void run_hidden_models(struct grading *g)
{
    for (int i = 0; i < MODELS_DRAWN; ++i) {
        const char *of = text("lab %d hidden model %d", sheet.number, i);
        int tokens = i == 0   ? 64
                     : i == 1 ? 63
                              : secret_between(66, 190, secret_draw("%s tokens", of));
        run_model(g, text("1x2x%dq3p64", tokens), secret_draw("%s", of), 0, false);
    }
}

static void run_model_races(struct grading *g)
{
    for (unsigned schedule = 0; schedule < SCHEDULES; ++schedule)
        run_model(g, sheet.shapes[1], secret_draw("lab %d model races %u", sheet.number, schedule),
                  schedule, true);
}

// Four schedules, two at a public shape and two at a drawn one. The outputs must be right, too,
// since a kernel that computes nothing has no races. Races in the cases of `correct` and `hidden`
// count here, too.
static void run_races(struct grading *g)
{
    int keys = secret_between(270, 400, secret_draw("lab %d races keys", sheet.number));
    const char *shapes[] = {repeated_shape(),
                            text("1x2x%d%s", keys | 1, sheet.cache ? "q4p16" : "")};
    json_t *raced;
    size_t i;

    json_array_foreach (g->raced, i, raced) {
        note_failure(g, json_string_value(json_object_get(raced, "why")));
        json_array_append(g->cases, raced);
    }
    for (unsigned schedule = 0; schedule < SCHEDULES; ++schedule)
        run_case(g, shapes[schedule % 2], SOFTMAX_SCALE, GRADE_NORMAL,
                 secret_draw("lab %d races %u", sheet.number, schedule), NUMBERS_AND_RACES,
                 schedule);
}

// ---- Searches -----------------------------------------------------------------------------------

static const struct searches *searches_on(struct grading *g, enum searched on)
{
    struct searches *s = &g->searches[on];
    if (!s->cases)
        *s = on == ON_DRAWN ? search_drawn(&g->s, searches_on(g, ON_JOURNAL)->late)
                            : search_journal(&g->s);
    return s;
}

static void take_searches(struct grading *g, enum searched on)
{
    json_t *c;
    size_t i;

    json_array_foreach (searches_on(g, on)->cases, i, c) {
        if (!json_is_true(json_object_get(c, "pass")))
            note_failure(g, json_string_value(json_object_get(c, "why")));
        json_array_append(g->cases, c);
    }
}

static void run_searches(struct grading *g)
{
    take_searches(g, ON_JOURNAL);
}

static void run_hidden_searches(struct grading *g)
{
    take_searches(g, ON_DRAWN);
}

// The shape at which an item is judged.
static const char *shape_of(const struct item *item)
{
    return item->shape ? item->shape : sheet.shapes[sheet.shape_count - 1];
}

// ---- Resources ----------------------------------------------------------------------------------

// A resource in the sm_89 image: the largest value of all launches at the item's shape (for
// occupancy, the least). NaN: the resource is unknown, and *why says why.
static double resource(struct grading *g, const struct item *item, char **why)
{
    struct run_request r = {.sets = 0};
    struct reply reply;
    char ignored[8], *out = NULL;

    shape_parse(shape_of(item), &r.shape, ignored, sizeof ignored);
    const struct known_launches *k = launches_on(g, &r.shape, why);
    if (!k)
        return NAN;
    r.launch_count = k->count;
    memcpy(r.launches, k->launches, sizeof r.launches);
    const struct request request = {.verb = VERB_MEASURE};
    const void *parts[] = {&r};
    const size_t sizes[] = {sizeof r};
    if (!runner_ask(&g->runner, &g->s, &request, parts, sizes, 1, CASE_SECONDS, &reply, &out, why))
        return NAN;
    free(out);
    if (reply.verdict != DONE) {
        *why = cleaned(reply.text, strlen(reply.text));
        return NAN;
    }
    return resource_graded(&reply.footprint, item->name);
}

// ---- The book's own texts -----------------------------------------------------------------------
//
// What a program or starter of the book does at a shape is the same for all submissions: it is kept
// beside the results.

struct book_run {
    bool ended;
    struct counts counts;
    struct footprint footprint;
    char out[SHA256_DIGEST_STRING_LENGTH]; // hash of the outputs
};

// Runs a program of the book on inputs that are the same for everybody.
static struct book_run run_public(struct grading *g, const char *shape)
{
    struct book_run run = {.ended = false};
    struct grade_case c;
    struct reply reply = {0};
    char *why = NULL, *out = NULL;

    begin_group(g, "public");
    case_make(&c, shape, SOFTMAX_SCALE, GRADE_NORMAL, 1);
    if (launch_cases(g, &c, 1, 0, true, &reply, &out, &why)) {
        run =
            (struct book_run){.ended = true, .counts = reply.counts, .footprint = reply.footprint};
        SHA256Data((const uint8_t *)out, 2 * shape_outputs(&c.shape), run.out);
    }
    free(out);
    free(why);
    case_free(&c);
    return run;
}

// Begins to grade a program of the book, with inputs that do not depend on the current submission.
// Returns the submission's hash, with which end_book() makes it current again.
static const char *begin_book(struct grading *g, const struct source *source)
{
    submission_build(&g->s, source->text, source->bytes);
    return secret_draw_for(g->s.hash);
}

static void end_book(struct grading *g, const char *before)
{
    secret_draw_for(before);
    runner_end(&g->runner);
    for (int i = 0; i < g->shape_count; ++i)
        launches_free(&g->shapes[i]);
    submission_free(&g->s);
}

// The file that keeps a fact about a program of the book, for example its run at a shape.
static char *book_path(const struct source *source, const char *of)
{
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA2_CTX hash;

    SHA256Init(&hash);
    hash_bytes(&hash, source->text, source->bytes);
    hash_bytes(&hash, of, strlen(of));
    hash_bytes(&hash, options.secret, sizeof options.secret);
    hash_bytes(&hash, grader_hash(), strlen(grader_hash()));
    return text("%s/%s.counts", kept_folder(), SHA256End(&hash, hex));
}

static struct book_run run_of_the_book(const char *folder, const char *shape)
{
    struct source source = of_the_lab(&sheet, folder);
    struct book_run run = {.ended = false};
    char *path = book_path(&source, shape), why[4352];
    size_t bytes = 0;
    char *kept = options.unsafe ? NULL : read_file(path, &bytes);

    if (kept && bytes == sizeof run) {
        memcpy(&run, kept, sizeof run);
    } else if (source.bytes > 0) {
        struct grading of_book = {.s.name = sheet.program, .runner.box.kind = BOX_RUN};
        const char *before = begin_book(&of_book, &source);
        if (!of_book.s.problem)
            run = run_public(&of_book, shape);
        end_book(&of_book, before);
        if (!options.unsafe)
            // If writing fails, the next grading runs it again.
            file_write(path, &run, sizeof run, why, sizeof why);
    }
    free(kept);
    free(path);
    free(source.text);
    return run;
}

static bool launch_for_use(void *of, struct grade_case *cases, int count,
                           const struct experiment *experiment, struct reply *reply, char **out,
                           char **why)
{
    struct grading *g = of;

    begin_group(g, "used");
    g->experiment = experiment;
    bool ended = launch_cases(g, cases, count, 0, true, reply, out, why);
    g->experiment = NULL;
    return ended;
}

// How much of what the lab's own program does affects its outputs (struct use): measured as for a
// submission, and kept like the program's counts.
static struct use use_of_the_book(enum spoils what)
{
    struct source source = of_the_lab(&sheet, "code");
    char *path = book_path(&source, text("use %d", what)), why[4352];
    struct use use = {.known = false};
    size_t bytes = 0;
    char *kept = options.unsafe ? NULL : read_file(path, &bytes);

    if (kept && bytes == sizeof use) {
        memcpy(&use, kept, sizeof use);
        use.why = NULL;
    } else {
        struct grading of_book = {.s.name = sheet.program, .runner.box.kind = BOX_RUN};
        const char *before = begin_book(&of_book, &source);
        if (!of_book.s.problem)
            use = use_of(what, launch_for_use, &of_book);
        end_book(&of_book, before);
        if (use.known && !use.why && !options.unsafe)
            // If writing fails, the next grading measures it again.
            file_write(path, &use, sizeof use, why, sizeof why);
    }
    free(kept);
    free(path);
    free(source.text);
    return use;
}

// ---- Counts -------------------------------------------------------------------------------------

// Whether a run has stored as many bytes as all outputs have. If so, even a wrong kernel is taken
// to have done at least the lab's work.
static bool stores_all(const struct counted *run)
{
    return run->counts.global_store_sectors * 32 >= shape_outputs(&run->shape) * sizeof(uint16_t);
}

// A right run at a shape; otherwise, with `wrong_too`, a wrong run that stores every output, or any
// wrong run of a language model's program. NULL: there is no such run.
static const struct counted *counted_at(const struct grading *g, const char *shape, bool wrong_too)
{
    const struct counted *found = NULL;

    for (int i = 0; i < g->counted_count; ++i) {
        const struct counted *run = &g->counted[i];
        if (strcmp(run->shape.name, shape) != 0)
            continue;
        if (run->right)
            return run;
        if (wrong_too && !found && (sheet.model || stores_all(run)))
            found = run;
    }
    return found;
}

// Runs the kernel once more for its counts; with COUNTS, it may read memory never written.
static void run_for_counts(struct grading *g, const char *shape, enum about about)
{
    begin_group(g, "counts");
    run_case(g, shape, SOFTMAX_SCALE, GRADE_NORMAL,
             secret_draw("lab %d counts %s", sheet.number, shape), about, 0);
}

static bool does_its_work(struct grading *g)
{
    if (sheet.model)
        return g->counted_count > 0;
    for (int more = 0; more < 2; ++more) {
        for (int i = 0; i < g->counted_count; ++i)
            if (stores_all(&g->counted[i]))
                return true;
        if (more == 0)
            run_for_counts(g, sheet.shapes[0], COUNTS);
    }
    return false;
}

// What atomic operations add to a counter of shared-memory loads or stores, so that it does not
// help to replace these by atomic operations.
static uint64_t of_atomics(const struct counts *c, const char *name)
{
    bool loads_or_stores = strncmp(name, "shared_load_", strlen("shared_load_")) == 0 ||
                           strncmp(name, "shared_store_", strlen("shared_store_")) == 0;

    return !loads_or_stores              ? 0
           : strstr(name, "_wavefronts") ? c->shared_atomic_wavefronts
                                         : c->shared_atomic_conflicts;
}

// The value in a run of the counter or resource that an item names.
static double counted(const struct counts *counts, const struct footprint *footprint,
                      const struct item *item)
{
    return resource_find(item->name, SHEETS) >= 0
               ? resource_graded(footprint, item->name)
               : (double)(*counts_find(counts, item->name) + of_atomics(counts, item->name));
}

// Whether, for an item, a wrong run may be counted if it stores every output: for aims, except
// barriers, since the run may be wrong because a barrier is missing.
static bool counts_wrong(const struct item *item)
{
    return is_aim(item) && strcmp(item->name, "barriers") != 0;
}

// The value of an item's counter at its shape, from an earlier run or a new one. NaN: no run can be
// counted, and *why says why.
static double count_at(struct grading *g, const struct item *item, char **why)
{
    const char *shape = shape_of(item);

    for (int more = sheet.model; more < 2; ++more) {
        const struct counted *run = counted_at(g, shape, counts_wrong(item));
        if (run)
            return counted(&run->counts, &run->footprint, item);
        if (more == 0)
            run_for_counts(g, shape, counts_wrong(item) ? COUNTS : NUMBERS);
    }
    *why = text(counts_wrong(item) ? "not counted: no run there stores every output"
                                   : "not counted: the result is wrong there");
    return NAN;
}

// ---- Trying -------------------------------------------------------------------------------------

static double sectors_of(const struct counts *counts)
{
    return (double)(counts->global_load_sectors + counts->global_atomic_sectors);
}

// Whether a submission's count is nearer to the aim than the starter's, or it loads fewer sectors
// (an upper limit is not paid to a kernel that loads too many). The difference must be at least a
// hundredth, since counts may depend on inputs. True if one of the two counts is missing.
static bool has_come_further(const struct grading *g, const struct item *item)
{
    const struct counted *run = counted_at(g, shape_of(item), true);
    struct book_run starter = run_of_the_book("build/starters", shape_of(item));

    if (!run || !starter.ended)
        return true;
    double own = counted(&run->counts, &run->footprint, item),
           then = counted(&starter.counts, &starter.footprint, item);
    if (sectors_of(&run->counts) < 0.99 * sectors_of(&starter.counts))
        return true;
    return item->limit.relation == AT_MOST ? own < 0.99 * then : own > 1.01 * then;
}

// Whether a submission, however it is written, does just what the starter does: no output differs,
// and no count is nearer to its aim than the starter's.
static bool does_as_the_starter(struct grading *g)
{
    struct book_run starter = run_of_the_book("build/starters", sheet.shapes[0]);
    struct book_run own = starter.ended ? run_public(g, sheet.shapes[0]) : starter;
    bool same = own.ended && strcmp(own.out, starter.out) == 0;

    for (int i = 0; same && i < sheet.count; ++i)
        if (is_aim(&sheet.items[i]) && resource_find(sheet.items[i].name, SHEETS) < 0)
            same = !has_come_further(g, &sheet.items[i]);
    return same;
}

// ---- The items ----------------------------------------------------------------------------------

struct outcome {
    bool passed, by_hand, left_out;
    double share; // from 0 to 1
    char *said;
};

// Whether the earlier outcome of an item still holds; if so, takes it over.
static bool stands(const struct grading *g, const char *name, const char *limit, struct outcome *o)
{
    const json_t *was = g->earlier ? earlier_item(g->earlier, name, limit) : NULL;

    if (was)
        *o = (struct outcome){
            .passed = json_is_true(json_object_get(was, "passed")),
            .by_hand = json_is_true(json_object_get(was, "by_hand")),
            .left_out = json_is_true(json_object_get(was, "left_out")),
            .share = json_number_value(json_object_get(was, "share")),
            .said = text("%s", json_string_value(json_object_get(was, "said"))),
        };
    return was != NULL;
}

static struct outcome of_group(struct grading *g, const char *name, void (*group)(struct grading *))
{
    struct outcome o = {0};
    size_t before = json_array_size(g->cases);

    begin_group(g, name);
    group(g);
    int all = (int)(json_array_size(g->cases) - before);
    o.passed = g->failed == 0;
    o.share = all ? (double)(all - g->failed) / all : 0;
    o.said = o.passed          ? text("%d of %d right", all, all)
             : is_public(name) ? text("%d of %d right:", all - g->failed, all)
                               : text("%d of %d right; %s", all - g->failed, all, g->first);
    return o;
}

// Judges a group of cases, unless its earlier outcome holds: then its cases are run only to find
// races.
static struct outcome of_judged_group(struct grading *g, const char *name,
                                      void (*group)(struct grading *))
{
    struct outcome o;

    if (!stands(g, name, "", &o))
        return of_group(g, name, group);
    size_t before = json_array_size(g->cases);
    if (strcmp(options.item, "races") == 0)
        of_group(g, name, group);
    while (json_array_size(g->cases) > before)
        json_array_remove(g->cases, before);
    return o;
}

static char *plain(double value) // as text: 12345 or 66.7
{
    return value == floor(value) && fabs(value) < 1e15 ? text("%.0f", value) : text("%.3g", value);
}

// ---- Evidence -----------------------------------------------------------------------------------

static const struct use *use_in(struct grading *g, enum spoils what)
{
    if (!g->used[what].known)
        g->used[what] = use_of(what, launch_for_use, g);
    return &g->used[what];
}

#define UNSEEN "whether that was used could not be seen:"

// How much work that an aim does not count a kernel may have, and must have, as multiples of the
// same work in the lab's own program.
static const double MOST_BESIDE = 1.5, LEAST_BESIDE = 0.75;
// The most warp instructions of a kernel whose aim is paid, as a multiple of the lab program's: an
// aim that takes more is reached in a roundabout way, such as a table that is looked up in turns.
static const double MOST_INSTRUCTIONS = 2;
// How much producers may load at once, as a multiple of what the producers of the lab's own program
// load at once: tiles may be twice as large, or a ring twice as deep.
static const double MOST_AT_ONCE = 3;

enum { WAVEFRONT_BYTES = 128, SECTOR_BYTES = 32 };

// A stand-in: work that can replace the work that an aim limits, but has another counter. Returns
// its amount, in the aim's unit; with_stand_ins() adds what is too much of it to the aim's count.
static double stand_ins(const struct counts *c, const struct footprint *f, const char *name)
{
    if (strncmp(name, "shared_", strlen("shared_")) == 0) // shuffles, local accesses, global stores
        return (double)(c->classes[CLASS_SHUFFLE] + c->classes[CLASS_LOCAL]) +
               (double)c->global_store_sectors * SECTOR_BYTES / WAVEFRONT_BYTES;
    if (strcmp(name, "shared") == 0) // counts a CTA's bytes of local memory and global stores
        return (c->classes[CLASS_LOCAL] ? (double)f->local_bytes * f->threads : 0) +
               (double)c->global_store_bytes / (double)f->all_ctas;
    return strcmp(name, "mufu_threads") == 0 ? (double)c->mufu_substitutes
           : strcmp(name, "barriers") == 0   ? (double)(c->signals - c->barriers)
           : strcmp(name, "ctas") == 0       ? (double)(f->all_ctas - f->ctas)
                                             : 0;
}

// Wavefronts of all accesses to shared memory, as if there were no conflicts.
static double wavefronts_of(const struct counts *c)
{
    return (double)(c->shared_load_wavefronts - c->shared_load_conflicts +
                    c->shared_store_wavefronts - c->shared_store_conflicts +
                    c->shared_atomic_wavefronts - c->shared_atomic_conflicts);
}

// Wavefronts of loads or of stores, each times the share of the warp's lanes that took no part:
// lanes that access in turns have no conflicts, but need as many wavefronts as conflicts cost.
static double in_turns(const struct counts *c, const char *conflicts)
{
    return (double)(strstr(conflicts, "_load_") ? c->loaded_in_turns : c->stored_in_turns);
}

// Arrivals at meetings of threads other than barriers, as at mbarriers and flags, beyond those in
// the lab's own program. They are measured at the shape where use is measured, and scaled to
// another shape by the ratio of barriers in the lab's own program.
static double meetings(struct grading *g, const struct book_run *book)
{
    const struct use own = use_of_the_book(SPOIL_PRODUCTS), *use = use_in(g, SPOIL_PRODUCTS);
    const struct book_run there = run_of_the_book("code", drawn_like(sheet.shapes[0]));
    const double more = use->worked_on.meets - own.worked_on.meets;

    return there.ended && there.counts.barriers > 0 && more > 0
               ? more * (double)book->counts.barriers / (double)there.counts.barriers
               : 0;
}

// The lanes that look something up: loads, atomic operations and shuffles whose places change with
// the inputs. They are measured at the shape where use is measured, and scaled to another shape by
// the ratio of products in the lab's own program.
static double lookups(struct grading *g, const struct book_run *book)
{
    const struct worked_on *w = &use_in(g, SPOIL_LOOKUPS)->worked_on;
    const struct book_run there = run_of_the_book("code", drawn_like(sheet.shapes[0]));
    double lanes = 0;

    for (int i = 1; i < CHANGES; ++i)
        lanes += w->work[i];
    return there.ended && there.counts.tensor_flops > 0
               ? lanes * (double)book->counts.tensor_flops / (double)there.counts.tensor_flops
               : 0;
}

// A count plus its stand-ins. Of each stand-in, only the excess over MOST_BESIDE times that of the
// lab's own program is added; meetings and lookups are added whole.
static double with_stand_ins(struct grading *g, const struct item *item, double value,
                             const struct counted *run, const struct book_run *book)
{
    const double own = stand_ins(&run->counts, &run->footprint, item->name);
    struct footprint as_many = book->footprint;

    if (strcmp(item->name, "shared") == 0) // divides the book's stores by the run's number of CTAs
        as_many.all_ctas = run->footprint.all_ctas;
    const double most = MOST_BESIDE * stand_ins(&book->counts, &as_many, item->name);
    if (strncmp(item->name, "shared_", strlen("shared_")) == 0)
        value += fmax(0, wavefronts_of(&run->counts) - MOST_BESIDE * wavefronts_of(&book->counts));
    if (strstr(item->name, "_conflicts"))
        value += fmax(0, in_turns(&run->counts, item->name) -
                             MOST_BESIDE * in_turns(&book->counts, item->name));
    if (strcmp(item->name, "barriers") == 0)
        value += meetings(g, book);
    if (strcmp(item->name, "mufu_threads") == 0)
        value += lookups(g, book);
    return value + fmax(0, own - most);
}

// An earlier or new run at a shape; NULL: none there stores every output.
static const struct counted *run_at(struct grading *g, const char *shape)
{
    if (!counted_at(g, shape, true))
        run_for_counts(g, shape, COUNTS);
    return counted_at(g, shape, true);
}

// A text, for the caller to free, if a run loads too much compared with the lab's own program;
// NULL: it does not.
static char *loads_too_much(const struct counted *run, const struct book_run *book)
{
    const double sectors = sectors_of(&run->counts), of_book = sectors_of(&book->counts);

    return sectors > MOST_BESIDE * of_book
               ? text("it loads %s sectors from global memory, the book's program %s",
                      plain(sectors), plain(of_book))
               : NULL;
}

static double arithmetic_of(const struct counts *c)
{
    return (double)(c->classes[CLASS_FP32] + c->classes[CLASS_FP64] + c->classes[CLASS_HALF] +
                    c->further_arithmetic);
}

// A text, for the caller to free, if a run has much more arithmetic beside its products than the
// lab's own program, and so may compute scores or outputs without products; NULL: it has not.
static char *computes_too_much(const struct counted *run, const struct book_run *book)
{
    const double own = arithmetic_of(&run->counts), of_book = arithmetic_of(&book->counts);

    return own > MOST_BESIDE * of_book
               ? text(
                     "it has %s instructions of arithmetic beside its products, the book's program "
                     "%s",
                     plain(own), plain(of_book))
               : NULL;
}

// A text, for the caller to free, if a run executes too many warp instructions compared with the
// lab's own program; NULL: it does not.
static char *executes_too_much(const struct counted *run, const struct book_run *book)
{
    const double own = (double)run->counts.warp_instructions,
                 of_book = (double)book->counts.warp_instructions;

    return own > MOST_INSTRUCTIONS * of_book
               ? text("it executes %s warp instructions, more than twice the book's %s", plain(own),
                      plain(of_book))
               : NULL;
}

// A text, for the caller to free, if too few bytes of K or of V pass through shared memory, where
// they could cause conflicts. A byte counts if a thread loads what another has stored there, and
// the load affects outputs. Measured at the shape where use is measured. NULL: enough bytes of K
// and of V pass through it.
static char *passes_by(struct grading *g)
{
    const struct use *loads = use_in(g, SPOIL_LOADS);
    const struct book_run there = run_of_the_book("code", drawn_like(sheet.shapes[0]));
    const double needed = LEAST_BESIDE * sectors_of(&there.counts) * SECTOR_BYTES / 2;

    if (loads->why)
        return text("%s %s", UNSEEN, loads->why);
    for (int changed = CHANGES_V; changed <= CHANGES_K && there.ended; ++changed) {
        const double bytes =
            loads->worked_on.work[changed] * fmin(1, loads->share + loads->deviation);
        if (bytes < needed)
            return text(
                "at a drawn shape its outputs hang on %s bytes of %s that a thread reads "
                "in shared memory and another has stored there, fewer than three eighths of the %s "
                "that the book's program loads from global memory",
                plain(round(bytes)), changed == CHANGES_K ? "K" : "V",
                plain(sectors_of(&there.counts) * SECTOR_BYTES));
    }
    return NULL;
}

// A text, for the caller to free, if an upper limit is not paid, because the kernel leaves out
// work, and so needs less of what is limited, or does too much work of another kind instead. NULL:
// the limit is paid.
static char *work_left_out(struct grading *g, const struct item *item, const struct counted *run,
                           const struct book_run *book)
{
    const double sectors = sectors_of(&run->counts), of_book = sectors_of(&book->counts);

    char *much = loads_too_much(run, book);
    if (much)
        return much;
    if (falls_with_tiles(item->name) && sectors < LEAST_BESIDE * of_book)
        return text("it loads %s sectors from global memory, the book's program %s: its tiles are "
                    "larger, which lowers that by itself",
                    plain(sectors), plain(of_book));
    if (strstr(item->name, "_conflicts") || strstr(item->name, "_wavefronts")) {
        much = passes_by(g);
        if (much)
            return much;
    }
    if (strncmp(item->name, "tensor_", strlen("tensor_")) == 0) {
        much = computes_too_much(run, book);
        if (much)
            return much;
    }
    if (book->counts.tensor_flops == 0)
        return NULL;
    const struct use own = use_of_the_book(SPOIL_PRODUCTS), *use = use_in(g, SPOIL_PRODUCTS);
    if (own.why || use->why)
        return text("%s %s", UNSEEN, own.why ? own.why : use->why);
    if (strcmp(item->name, "barriers") == 0 &&
        use->worked_on.apart < LEAST_BESIDE * own.worked_on.apart)
        return text("%.0f %% of what it loads from global memory is loaded by warps that multiply "
                    "nothing, of the book's program %.0f %%",
                    100 * use->worked_on.apart, 100 * own.worked_on.apart);
    if (strcmp(item->name, "barriers") == 0 &&
        use->worked_on.at_once > MOST_AT_ONCE * own.worked_on.at_once)
        return text("warps that multiply nothing load %.0f sectors at once, and meanwhile no other "
                    "warp multiplies; those of the book's program %.0f",
                    use->worked_on.at_once, own.worked_on.at_once);
    const double flops = work_in_common(use, use->share + use->deviation, &own);
    const double needed = work_in_common(&own, own.share - own.deviation, &own);
    if (flops >= LEAST_BESIDE * needed)
        return NULL;
    return text("at a drawn shape its outputs hang on %s flops of tensor cores, the book's on %s",
                plain(round(flops)), plain(round(needed)));
}

// A shape at which a persistent kernel has more tiles than CTAs, drawn for a class.
static const char *many_tiles(void)
{
    return text("1x%dx64", secret_between(900, 1000, class_draw("heads of many tiles")));
}

// A text, for the caller to free, if the CTAs of a launch of many tiles are more than the GPU holds
// at a time: then not all of them stay until no tile is left. NULL: they stay.
static char *do_not_stay(struct grading *g)
{
    const char *shape = many_tiles();
    const struct counted *run = run_at(g, shape);

    if (!run)
        return text("no run at %s stores every output", shape);
    return run->footprint.waves > 1
               ? text(
                     "at a drawn shape of many tiles it launches %s CTAs, %.1f times as many as an "
                     "L4 holds: they do not stay",
                     plain((double)run->footprint.ctas), run->footprint.waves)
               : NULL;
}

// A text, for the caller to free, if an aim is not paid because of other work that a run does, or
// does not do, compared with the lab's own program. NULL: it is paid.
static char *works_otherwise(struct grading *g, const struct item *item, const struct counted *run,
                             const struct book_run *book)
{
    enum spoils what;
    const bool by_use = spoils_for(item->name, &what);

    if (!run)
        return text("no run there stores every output");
    if (!book->ended)
        return NULL;
    char *why = item->limit.relation == AT_MOST    ? work_left_out(g, item, run, book)
                : by_use && what == SPOIL_STORES   ? loads_too_much(run, book)
                : by_use && what == SPOIL_PRODUCTS ? computes_too_much(run, book)
                                                   : NULL;
    return why ? why : executes_too_much(run, book);
}

// Pays an aim only as far as what it counts is used, compared with the lab's own program; and only
// if the outputs change with Q, with K and with V. Under an upper limit, stand-ins count, too.
static void hold_to_use(struct grading *g, const struct item *item, double value, struct outcome *o)
{
    enum spoils what = SPOIL_PRODUCTS;
    const bool from_above = item->limit.relation == AT_MOST;
    const bool by_use = !from_above && spoils_for(item->name, &what);
    const struct counted *run = run_at(g, shape_of(item));
    const struct book_run book = run_of_the_book("code", shape_of(item));
    char *why = from_above && strcmp(item->name, "ctas") == 0 ? do_not_stay(g) : NULL;
    double used = value;

    if (!why)
        why = works_otherwise(g, item, run, &book);
    if (!why && book.ended && from_above)
        used = with_stand_ins(g, item, value, run, &book);
    if (by_use && !why) {
        const struct use own = use_of_the_book(what);
        const double of_book = counted(&book.counts, &book.footprint, item);
        used = round(used_as_by(what, value, of_book, use_in(g, what), &own));
    }
    if (!why && use_in(g, what)->why)
        why = text("%s %s", UNSEEN, use_in(g, what)->why);
    if (!why && strcmp(item->name, "mufu_threads") == 0 && use_in(g, SPOIL_LOOKUPS)->why)
        why = text("%s %s", UNSEEN, use_in(g, SPOIL_LOOKUPS)->why);
    if (!why && !use_in(g, what)->depends)
        why = text("its outputs do not change with Q, with K and with V");
    if (!why && used == value)
        return;
    o->share = why ? 0 : share_reached(item, used);
    o->passed = !why && limit_kept(used, item->limit);
    o->said = why ? text("%s, but %s", o->said, why)
                  : text(from_above ? "%s, and %s with what stands in for it"
                                    : "%s, of which its outputs hang on %s as in the lab's program",
                         o->said, plain(used));
}

// Scales an aim to another shape in the proportion of the lab's own program, and loosens its limit
// by a tenth. False: that program has no run to scale by, or the count from which the scaled aim
// starts keeps the limit already.
static bool item_at(const struct item *item, const char *other, const struct book_run *there,
                    struct item *scaled)
{
    static const double SLACK = 0.1;
    struct book_run published = run_of_the_book("code", shape_of(item));
    struct shape from, to;
    char why[8];

    if (!there->ended || !published.ended)
        return false;
    shape_parse(shape_of(item), &from, why, sizeof why);
    shape_parse(other, &to, why, sizeof why);
    double own = counted(&published.counts, &published.footprint, item);
    double times = own > 0 ? counted(&there->counts, &there->footprint, item) / own
                           : (double)to.batch * to.heads * to.seq_len * to.seq_len /
                                 ((double)from.batch * from.heads * from.seq_len * from.seq_len);
    *scaled = *item;
    scaled->shape = other;
    scaled->limit.value *= times * (item->limit.relation == AT_MOST ? 1 + SLACK : 1 - SLACK);
    scaled->from *= times;
    return !limit_kept(scaled->from, scaled->limit);
}

// An aim must be kept at another shape, too: it is paid at most the share that it reaches there.
static void hold_to_shape(struct grading *g, const struct item *item, const char *other,
                          const char *named, struct outcome *o)
{
    const struct book_run book = run_of_the_book("code", other);
    struct item scaled;

    if (!item_at(item, other, &book, &scaled))
        return;
    const struct counted *run = run_at(g, other);
    double count = run ? counted(&run->counts, &run->footprint, item) : 0;
    enum spoils what;
    if (run && item->limit.relation == AT_MOST)
        count = with_stand_ins(g, item, count, run, &book);
    else if (run && spoils_for(item->name, &what)) {
        const struct use own = use_of_the_book(what);
        const double of_book = counted(&book.counts, &book.footprint, item);
        count = used_as_by(what, count, of_book, use_in(g, what), &own);
    }
    double share = run ? share_reached(&scaled, count) : 0;
    if (share >= o->share)
        return;
    o->share = share;
    o->passed = false;
    o->said = text(run ? "%s; at %s it has come %.0f %% of the way"
                       : "%s; at %s no run stores every output",
                   o->said, named, 100 * share);
}

// Checks an aim at the other public shapes (except in a cache's lab, whose shapes differ in kind),
// and at drawn shapes, which nobody knew.
static void hold_to_shapes(struct grading *g, const struct item *item, struct outcome *o)
{
    for (int i = 0; i < sheet.shape_count && !sheet.cache; ++i)
        if (strcmp(sheet.shapes[i], shape_of(item)) != 0)
            hold_to_shape(g, item, sheet.shapes[i], sheet.shapes[i], o);
    hold_to_shape(g, item, drawn_like(shape_of(item)), "a drawn shape", o);
    // With more tiles than CTAs, a kernel that asks once for all tiles of a CTA makes fewer
    // requests.
    if (strcmp(item->name, "global_atomic_sectors") == 0)
        hold_to_shape(g, item, many_tiles(), "a drawn shape of many tiles", o);
}

// A resource's value as an item judges it. For an aim with an upper limit it is the largest value
// over the launches of all runs, at any shape; otherwise `value`, that at the item's shape.
// Exceptions are the number of CTAs, which grows with the shape, and caches, whose shapes differ in
// kind.
static double most_of_runs(const struct grading *g, const struct item *item, double value)
{
    const bool of_all = is_aim(item) && !sheet.cache && strcmp(item->name, "ctas") != 0;

    for (int i = 0; i < g->counted_count && of_all; ++i)
        if (item->limit.relation == AT_MOST)
            value = fmax(value, resource_graded(&g->counted[i].footprint, item->name));
    return value;
}

static struct outcome of_number(struct grading *g, const struct item *item)
{
    struct outcome o = {0};
    char *why = NULL;
    const int on = searched_find(item->name);
    const bool is_resource = resource_find(item->name, SHEETS) >= 0;
    double value = on >= 0       ? searches_on(g, on)->median
                   : is_resource ? resource(g, item, &why)
                                 : count_at(g, item, &why);

    if (is_resource && !isnan(value))
        value = most_of_runs(g, item, value);
    o.passed = limit_kept(value, item->limit);
    o.share = share_reached(item, value);
    o.said = isnan(value) ? why : text("%s", plain(value));
    if (sheet.model)
        return o;
    if (is_aim(item) && o.share > 0 && on < 0)
        hold_to_use(g, item, value, &o);
    // An upper limit on a resource already counts the largest value over all runs; and the number
    // of CTAs does not scale, since a persistent kernel launches as many at small shapes.
    if (is_aim(item) && o.share > 0 && on < 0 && !(is_resource && item->limit.relation == AT_MOST))
        hold_to_shapes(g, item, &o);
    return o;
}

static const struct item *speed_item(void)
{
    return item_named("speed");
}

// The share for a speed: nothing below the limit, everything from `full` on, linear between them,
// in tenths of a point. The ratio is the upper end of its interval, so that noise costs no points.
static double speed_share(const struct item *item, double ratio)
{
    double full = isnan(item->full) ? item->limit.value : item->full;

    if (ratio < item->limit.value || ratio >= full)
        return ratio >= full;
    double share = (ratio - item->limit.value) / (full - item->limit.value);
    return round(10 * share * item->points) / (10 * item->points);
}

// Outputs of timed runs are checked as well: a kernel that is wrong in them counts as wrong, even
// if the simulator found it right.
static struct outcome of_speed(struct grading *g, const struct item *item, struct outcome *correct)
{
    struct outcome o = {.left_out = !is_timed()};
    struct speed speed = {0};

    if (o.left_out) {
        o.said = text("not timed: there is no GPU here");
        return o;
    }
    if (!correct->passed) {
        o.said = text("a wrong kernel is not timed");
        return o;
    }
    measure_speed(&g->s, shape_of(item), &speed);
    if (speed.why) {
        o.said = speed.why;
        g->wrong_when_timed = speed.wrong;
        if (speed.wrong)
            *correct =
                (struct outcome){.said = text("right in the simulator; on the GPU %s", speed.why)};
        return o;
    }
    o.share = speed_share(item, speed.high);
    o.passed = limit_kept(speed.high, item->limit);
    g->speed = json_pack("{s:f, s:f, s:f, s:f}", "ratio", speed.ratio, "low", speed.low, "high",
                         speed.high, "us", speed.microseconds);
    o.said = text("%.2f of the reference's speed, 95 %% [%.2f, %.2f]; %.1f us on %s", speed.ratio,
                  speed.low, speed.high, speed.microseconds, gpu_name());
    return o;
}

static void check_names(void)
{
    static const struct counts none;
    static const char *const others[] = {"correct", "hidden", "races", "written", "speed"};
    static const char counters[] =
#define COUNTER(name, title, what) " " #name
#define CLASS_COUNTER(name, op_class, title, what) " " #name
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
        ;

    for (int i = 0; i < sheet.count; ++i) {
        const char *name = sheet.items[i].name;
        bool limited = sheet.items[i].limit.relation != NO_LIMIT,
             searched = searched_find(name) >= 0;
        bool both = strcmp(name, "written") == 0 || strcmp(name, "correct") == 0 ||
                    strcmp(name, "hidden") == 0;
        if (!both && searched != (sheet.journal != NULL))
            fail(EXIT_USAGE, "lab %d: \"%s\" is no item of a %s", sheet.number, name,
                 sheet.journal ? "search: correct, hidden, written, candidates, drawn" : "kernel");
        if (searched && limited)
            continue;
        if (sheet.cache && strcmp(name, "speed") == 0)
            fail(EXIT_USAGE, "lab %d: speed is no item of a cache, which is not timed",
                 sheet.number);
        if (sheet.model && (resource_find(name, SHEETS) >= 0 || strcmp(name, "speed") == 0))
            fail(EXIT_USAGE, "lab %d: \"%s\" is no item of a language model's program",
                 sheet.number, name);
        bool known = false,
             number = resource_find(name, SHEETS) >= 0 || counts_find(&none, name) != NULL;
        for (size_t j = 0; j < sizeof others / sizeof *others; ++j)
            known = known || strcmp(others[j], name) == 0;
        if (!known && !number)
            fail(EXIT_USAGE,
                 "lab %d: \"%s\" is no item: correct, hidden, races, written, speed; a resource: "
                 "%s; a counter of the simulator:%s",
                 sheet.number, name, resource_names(SHEETS), counters);
        if (number && !limited)
            fail(EXIT_USAGE, "lab %d: %s: no limit", sheet.number, name);
    }
}

static struct outcome grade_item(struct grading *g, const struct item *item)
{
    if (strcmp(item->name, "races") == 0)
        return of_group(g, "races", sheet.model ? run_model_races : run_races);
    if (strcmp(item->name, "written") == 0)
        return (struct outcome){.by_hand = true, .said = text("graded by hand")};
    return of_number(g, item);
}

static json_t *new_result(const char *name)
{
    return json_pack("{s:i, s:s, s:s, s:s, s:n, s:[], s:[]}", "lab", sheet.number, "title",
                     sheet.title, "lab_hash", sheet_hash, "name", name, "refused", "items",
                     "cases");
}

// Stores the sum of the points, rounded, since tenths are not exact in binary.
static void add_up(json_t *result, double score, double total)
{
    json_object_set_new(result, "score", json_real(in_tenths(score)));
    json_object_set_new(result, "total", json_real(total));
}

static char *limit_of(const struct item *item) // for example "<= 18688 @ small, from 72704"
{
    if (item->limit.relation == NO_LIMIT)
        return text("%s", "");
    return text("%s %s%s%s%s%s", relation_words(item->limit.relation), plain(item->limit.value),
                item->shape ? " @ " : "", item->shape ? item->shape : "",
                is_aim(item) ? ", from " : "", is_aim(item) ? plain(item->from) : "");
}

static void add_item(json_t *result, const struct item *item, const struct outcome *o,
                     const struct reached *reached, double *score, double *total)
{
    double paid = points_paid(item, o->share, reached);
    bool withheld = paid < in_tenths(item->points * o->share);

    json_array_append_new(json_object_get(result, "items"),
                          json_pack("{s:s, s:s, s:s, s:f, s:i, s:b, s:b, s:f, s:b, s:b, s:b, s:s}",
                                    "name", item->name, "limit", limit_of(item), "words",
                                    item->words ? item->words : "", "points", paid, "max",
                                    item->points, "aim", is_aim(item), "passed", o->passed, "share",
                                    o->share, "withheld", withheld, "by_hand", o->by_hand,
                                    "left_out", o->left_out, "said", o->said ? o->said : ""));
    if (!o->by_hand && !o->left_out) {
        *score += paid;
        *total += item->points;
    }
}

json_t *refused(const char *name, const char *why)
{
    json_t *result = new_result(name);
    const struct reached nothing = {0};
    double score = 0, total = 0;

    json_object_set_new(result, "refused", json_string(why));
    for (int i = 0; i < sheet.count; ++i) {
        const char *item = sheet.items[i].name;
        struct outcome o = {.said = text("not run"),
                            .by_hand = strcmp(item, "written") == 0,
                            .left_out = strcmp(item, "speed") == 0 && !is_timed()};
        add_item(result, &sheet.items[i], &o, &nothing, &score, &total);
    }
    add_up(result, 0, total);
    return result;
}

// A submission and the texts that it is compared with, each unchanged and preprocessed.
enum { HANDED_IN, HANDED_IN_PLAIN, OWN, OWN_PLAIN, STARTER, STARTER_PLAIN, TEXTS };

static void read_texts(struct source texts[TEXTS], const char *source, size_t bytes)
{
    const struct source given[] = {
        {(char *)source, bytes}, of_the_lab(&sheet, "code"), of_the_lab(&sheet, "build/starters")};
    struct source plain[TEXTS / 2];

    preprocess(given, plain, TEXTS / 2);
    for (int i = 0; i < TEXTS / 2; ++i) {
        texts[2 * i] = given[i];
        texts[2 * i + 1] = plain[i];
    }
}

static void free_texts(struct source texts[TEXTS])
{
    for (int i = 1; i < TEXTS; ++i) // the first text belongs to the caller
        free(texts[i].text);
}

// Whether a submission is the starter as handed out: all gaps of the sheet are still marked as
// open, or the submission reads the same as the starter (reads_the_same).
static bool is_untouched(const struct source texts[TEXTS])
{
    const json_t *tasks = json_object_get(sheet.json, "exercises"), *task;
    const struct source *source = &texts[HANDED_IN];
    size_t i, open = 0;
    bool same =
        texts[STARTER].bytes > 0 && reads_the_same(&texts[HANDED_IN_PLAIN], &texts[STARTER_PLAIN]);

    json_array_foreach (tasks, i, task) {
        const char *marker = json_string_value(json_object_get(task, "marker"));
        open += marker && memmem(source->text, source->bytes, marker, strlen(marker));
    }
    return same || (i > 0 && open == i);
}

// Grades the items: `correct` first, whatever the sheet's order, since the others depend on it.
static void grade_items(struct grading *g, const struct source texts[TEXTS], json_t *result)
{
    struct outcome outcomes[ITEMS_MAX];
    struct outcome correct = of_judged_group(g, "correct",
                                             sheet.journal ? run_searches
                                             : sheet.model ? run_models
                                                           : run_correct);
    struct outcome hidden = {0};
    struct outcome speed = {0};
    double score = 0, total = 0, shares[ITEMS_MAX];

    if (item_named("hidden")) // before `races`, which counts the races found here
        hidden = of_judged_group(g, "hidden",
                                 sheet.journal ? run_hidden_searches
                                 : sheet.model ? run_hidden_models
                                 : sheet.cache ? run_hidden_caches
                                               : run_hidden);
    if (speed_item() && !stands(g, "speed", limit_of(speed_item()), &speed))
        speed = of_speed(g, speed_item(), &correct);
    else
        g->speed = json_incref(json_object_get(g->earlier, "speed"));
    for (int i = 0; i < sheet.count; ++i) {
        const struct item *item = &sheet.items[i];
        if (strcmp(item->name, "correct") == 0)
            outcomes[i] = correct;
        else if (strcmp(item->name, "hidden") == 0)
            outcomes[i] = hidden;
        else if (item == speed_item())
            outcomes[i] = speed;
        else if (!stands(g, item->name, limit_of(item), &outcomes[i]))
            outcomes[i] = grade_item(g, item);
    }
    for (int i = 0; i < sheet.count; ++i)
        shares[i] = outcomes[i].share;
    struct reached reached = {
        .correct = correct.share,
        .aim = aims_reached(&sheet, shares),
        .tried = has_aims(&sheet) && !g->wrong_when_timed &&
                 (g->earlier ? json_is_true(json_object_get(g->earlier, "tried"))
                             : !is_untouched(texts) && (sheet.journal || does_its_work(g))),
    };
    if (reached.tried && !g->earlier && !sheet.journal && !sheet.model && correct.share == 0 &&
        reached.aim > 0)
        reached.tried = !does_as_the_starter(g);
    for (int i = 0; i < sheet.count; ++i)
        add_item(result, &sheet.items[i], &outcomes[i], &reached, &score, &total);
    add_up(result, score, total);
    json_object_set_new(result, "aim", has_aims(&sheet) ? json_real(reached.aim) : json_null());
    json_object_set_new(result, "correct", json_real(reached.correct));
    json_object_set_new(result, "tried", json_boolean(reached.tried));
    json_object_set_new(result, "cases",
                        g->earlier ? joined_cases(g->earlier, g->cases) : json_incref(g->cases));
    if (g->earlier)
        json_object_set_new(result, "regraded", json_string(options.item));
    if (g->printed && *g->printed)
        json_object_set_new(result, "printed", json_string(g->printed));
    if (g->speed)
        json_object_set_new(result, "speed", g->speed);
}

// Adds a remark for a kernel that computes in double; it costs no points. On an L4 an SM has two
// lanes for double, and 128 for float.
static void remark_on_doubles(struct grading *g, json_t *result)
{
    const struct counted *most = NULL;

    for (int i = 0; i < g->counted_count; ++i) {
        const struct counted *run = &g->counted[i];
        uint64_t count = run->counts.classes[CLASS_FP64];
        if (count > 0 && (!most || count > most->counts.classes[CLASS_FP64]))
            most = run;
    }
    if (most)
        json_object_set_new(result, "remark",
                            json_sprintf("It " DOUBLES_WORDS,
                                         (unsigned long long)most->counts.classes[CLASS_FP64],
                                         most->shape.name));
}

// Whether one of the items that judge a kernel's outputs and races was not passed.
static bool went_wrong(const json_t *result)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, "items"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        bool judged = strcmp(name, "correct") == 0 || strcmp(name, "hidden") == 0 ||
                      strcmp(name, "races") == 0;
        if (judged && !json_is_true(json_object_get(item, "passed")))
            return true;
    }
    return false;
}

// Adds flags and, if the submission is another program of the book, its name, for example
// "chapter 7's program, ch07_reuse_scores".
static void add_flags(json_t *result, const struct source texts[TEXTS], const char *ptx)
{
    json_t *flags = flags_of(&texts[HANDED_IN], &texts[OWN], ptx);
    char *program = book_program(&texts[HANDED_IN], &texts[OWN], &texts[STARTER]);

    if (program) {
        char *whose = text("chapter %d's program, %s", atoi(program + strlen("ch")), program);
        json_object_set_new(result, "book_program", json_string(whose));
        json_array_append_new(flags, json_sprintf("of the book: %s", whose));
        free(whose);
    }
    free(program);
    json_object_set_new(result, "flags", flags);
}

json_t *grade(const char *name, const char *source, size_t bytes, const json_t *earlier)
{
    struct grading g = {.s.name = name, .runner.box.kind = BOX_RUN, .earlier = earlier};
    struct shape shape;
    char why_not[8], *why = NULL;
    char source_hash[SHA256_DIGEST_STRING_LENGTH];
    struct source texts[TEXTS];
    double start = now();
    json_t *result;

    check_names();
    read_texts(texts, source, bytes);
    submission_build(&g.s, source, bytes);
    secret_draw_for(g.s.hash);
    g.cases = json_array();
    g.raced = json_array();
    shape_parse(sheet.shapes[0], &shape, why_not, sizeof why_not);
    if (g.s.problem || (!sheet.journal && !sheet.model && !launches_on(&g, &shape, &why))) {
        result = refused(name, g.s.problem ? g.s.problem : why);
        if (g.s.details)
            json_object_set_new(result, "details", json_string(g.s.details));
    } else {
        result = new_result(name);
        grade_items(&g, texts, result);
        remark_on_doubles(&g, result);
        bool filmed =
            !options.no_film && !sheet.journal && !sheet.model && !wall_over(&g.s) && !g.s.two_ways;
        json_t *film = filmed && went_wrong(result) ? film_of(&g.s) : NULL;
        if (film)
            json_object_set_new(result, "film", film);
    }
    if (g.s.two_ways && !json_is_string(json_object_get(result, "refused"))) {
        json_decref(result); // refused as a whole, although some shapes were graded
        result = refused(name, g.s.two_ways);
    }
    if (wall_over(&g.s))
        json_object_set_new(result, "stopped", json_string(wall_told(&g.s)));
    add_flags(result, texts, g.s.ptx);
    free_texts(texts);
    json_object_set_new(result, "drawn_from", json_string(secret_name()));
    runner_end(&g.runner);
    for (int i = 0; i < g.shape_count; ++i)
        launches_free(&g.shapes[i]);
    submission_free(&g.s);
    json_decref(g.cases);
    json_decref(g.raced);
    json_decref(g.searches[ON_JOURNAL].cases);
    json_decref(g.searches[ON_DRAWN].cases);
    json_object_set_new(result, "source",
                        json_string(SHA256Data((const uint8_t *)source, bytes, source_hash)));
    json_object_set_new(result, "gpu",
                        options.cpu_only || !gpu_here() ? json_null() : json_string(gpu_name()));
    json_object_set_new(result, "seconds", json_real(round(10 * (now() - start)) / 10));
    return result;
}

// ---- The aims of several sheets -----------------------------------------------------------------

// The outputs of a program at the shapes of the current sheet. They are kept, since another sheet
// may judge them differently.
struct aimed {
    char *out[SHEET_SHAPES_MAX];
    bool cache;
};

// *share: the share of the sheet's shapes at which a program is right by the sheet's gate. Shapes
// without a run are run now, into the element of `counted` with the same index. False: a run did
// not end, and *why says so in one line.
static bool judge_shapes(struct grading *g, struct aimed *a, double *share, char **why)
{
    *share = 0;
    begin_group(g, "pairs");
    for (int i = 0; i < sheet.shape_count; ++i) {
        struct grade_case c;
        struct reply reply = {0};
        char *wrong = NULL;
        double error;

        case_make(&c, sheet.shapes[i], SOFTMAX_SCALE, GRADE_NORMAL, secret_draw("pairs %d", i));
        bool ended = a->out[i] || launch_cases(g, &c, 1, 0, true, &reply, &a->out[i], why);
        if (ended && g->counted_count == i)
            g->counted[g->counted_count++] =
                (struct counted){c.shape, false, reply.counts, reply.footprint};
        if (ended)
            g->counted[i].right = case_right(&c, a->out[i], &error, &wrong);
        *share += ended && g->counted[i].right ? 1.0 / sheet.shape_count : 0;
        free(wrong);
        case_free(&c);
        if (!ended)
            return false;
    }
    return true;
}

// The points that a program earns for the aims of the current sheet, with a line for each aim.
static json_t *pay_aims(struct grading *g, struct aimed *a)
{
    struct reached reached = {.aim = 1};
    json_t *said = json_array();
    char *why = NULL;
    double points = 0;

    if (!judge_shapes(g, a, &reached.correct, &why)) {
        json_array_append_new(said, json_string(why));
        return json_pack("{s:f, s:o}", "points", 0.0, "said", said);
    }
    for (int i = 0; i < g->counted_count; ++i)
        reached.tried = reached.tried || stores_all(&g->counted[i]);
    if (reached.correct == 0 && reached.tried)
        reached.tried = !does_as_the_starter(g);
    for (int i = 0; i < sheet.count; ++i) {
        if (!is_aim(&sheet.items[i]))
            continue;
        struct outcome o = of_number(g, &sheet.items[i]);
        points += points_paid(&sheet.items[i], o.share, &reached);
        json_array_append_new(said, json_sprintf("%s: %s", sheet.items[i].name, o.said));
    }
    return json_pack("{s:f, s:f, s:o}", "points", in_tenths(points), "right",
                     in_tenths(reached.correct), "said", said);
}

static void forget_runs(struct grading *g, struct aimed *a)
{
    for (int i = 0; i < SHEET_SHAPES_MAX; ++i)
        free(a->out[i]);
    *a = (struct aimed){.cache = sheet.cache};
    g->counted_count = 0;
    memset(g->used, 0, sizeof g->used);
}

json_t *grade_aims(const char *name, const char *source, size_t bytes, const struct sheet sheets[],
                   int count)
{
    struct grading g = {.s.name = name, .runner.box.kind = BOX_RUN};
    struct aimed a = {.cache = false};
    json_t *aims = json_object(), *result = json_pack("{s:s, s:n}", "name", name, "refused");

    sheet = sheets[0];
    submission_build(&g.s, source, bytes);
    secret_draw_for(g.s.hash);
    g.cases = json_array();
    g.raced = json_array();
    if (g.s.problem)
        json_object_set_new(result, "refused", json_string(g.s.problem));
    for (int i = 0; i < count && !g.s.problem; ++i) {
        struct shape shape;
        char ignored[8], *why = NULL;
        sheet = sheets[i];
        if (sheet.cache != a.cache)
            forget_runs(&g, &a);
        shape_parse(sheet.shapes[0], &shape, ignored, sizeof ignored);
        if (launches_on(&g, &shape, &why))
            json_object_set_new(aims, text("lab%02d", sheet.number), pay_aims(&g, &a));
        else if (!json_is_string(json_object_get(result, "refused")))
            json_object_set_new(result, "refused", json_string(why));
    }
    if (json_object_size(aims) > 0)
        json_object_set_new(result, "refused", json_null());
    json_object_set_new(result, "aims", aims);
    runner_end(&g.runner);
    for (int i = 0; i < g.shape_count; ++i)
        launches_free(&g.shapes[i]);
    submission_free(&g.s);
    forget_runs(&g, &a);
    json_decref(g.cases);
    json_decref(g.raced);
    return result;
}
