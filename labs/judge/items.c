// items.c: one submission, item by item.
//
// Each item has a share of its points, from 0 to 1: of cases that are right, of the way to an aim,
// of a limit that is kept or not, of a speed. What is paid for the shares is the rule of points
// (rule.h). The result says both, so that a planted bug can be seen to lose what it should.
#include "judge.h"

#include "image/gpus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASE_SECONDS = 120, SHAPES_SEEN = 24, RUNS_COUNTED = 32, SCHEDULES = 4 };

struct known_launches {
    struct shape shape;
    struct recorded launches[LAUNCHES_MAX];
    int count;
};

struct grading {
    struct submission s;
    struct runner runner;
    struct known_launches shapes[SHAPES_SEEN];
    int shape_count;
    char *why_not_launched; // the same for all shapes, most of the time
    struct counted {        // runs that came to their end
        struct shape shape;
        bool right;
        struct counts counts;
    } counted[RUNS_COUNTED];
    int counted_count;
    json_t *cases, *speed; // what was measured, or NULL
    const char *group;     // of the cases at hand
    int failed;            // of them
    bool wrong_when_timed; // on a GPU: whatever it was in the simulator
    char *first;           // failure of them
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
    k->shape = *shape;
    if (!submission_launches(&g->s, shape, k->launches, &k->count, why))
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

// Whether a report may say of the cases of an item what they were.
static bool is_public(const char *item)
{
    return strcmp(item, "correct") == 0;
}

// What a case is for: right numbers; these, and no report of a race; or the report alone, where
// another item judges the numbers; or counts alone, of a kernel that may read what nothing has written.
enum about { NUMBERS, NUMBERS_AND_RACES, RACES, COUNTS };

// Runs one case and notes what came of it, in the group at hand.
static void run_case(struct grading *g, const char *shape, enum input input, uint64_t seed,
                     enum about about, unsigned schedule)
{
    struct grade_case c;
    struct reply reply = {0};
    char *why = NULL, *out = NULL;
    double error = NAN;
    bool right = false, ended = false;

    case_make(&c, shape, input, seed);
    const struct known_launches *k = launches_on(g, &c.shape, &why);
    if (k) {
        struct run_request r = {
            .shape = c.shape,
            .softmax_scale = c.problem.softmax_scale,
            .launch_count = k->count,
            .races = about == RACES || about == NUMBERS_AND_RACES,
            .unchecked = about == COUNTS,
            .schedule = schedule,
            .threads = 1, // who gets what from a queue must not depend on the machine
            .sets = 1,
        };
        memcpy(r.launches, k->launches, sizeof r.launches);
        const struct request request = {.verb = VERB_RUN};
        const void *parts[] = {&r, c.inputs};
        const size_t sizes[] = {sizeof r, input_bytes(&c.shape)};
        if (runner_ask(&g->runner, &g->s, &request, parts, sizes, 2, CASE_SECONDS, &reply, &out,
                       &why)) {
            ended = reply.verdict == DONE;
            if (!ended)
                why = cleaned(reply.text[0], strlen(reply.text[0]));
            else
                right = about == RACES || case_right(&c, (uint16_t *)out, &error, &why);
        }
    }
    if (ended && g->counted_count < RUNS_COUNTED)
        g->counted[g->counted_count++] = (struct counted){c.shape, right, reply.counts};
    if (!right)
        note_failure(g, why);
    json_t *said = json_pack("{s:s, s:s, s:s, s:o, s:b}", "item", g->group, "shape", shape, "input",
                             input_name(input), "seed",
                             json_sprintf("%016llx", (unsigned long long)seed), "pass", right);
    if (about == RACES || about == NUMBERS_AND_RACES)
        json_object_set_new(said, "schedule", json_integer(schedule));
    if (!isnan(error))
        json_object_set_new(said, "rel_head", json_real(error));
    if (why)
        json_object_set_new(said, "why", json_string(why));
    if (ended && !right && is_public(g->group))
        json_object_set_new(said, "how", json_string(case_how_wrong(&c, (uint16_t *)out)));
    json_array_append_new(g->cases, said);
    free(out);
    free(why);
    case_free(&c);
}

static void begin_group(struct grading *g, const char *name)
{
    g->group = name;
    g->failed = 0;
    g->first = NULL;
}

// ---- The groups of cases ------------------------------------------------------------------------

static void run_correct(struct grading *g)
{
    static const char *const shapes[] = {"small", "mission"};

    for (int i = 0; i < 2; ++i)
        for (int seed = 0; seed < 3; ++seed)
            run_case(g, shapes[i], (enum input)seed,
                     secret_draw("lab %d correct %d %d", lab.number, i, seed), NUMBERS, 0);
    // A long one, so that a kernel which leaves out work at large shapes is found. Whole tiles:
    // ragged sizes are the item `hidden`'s.
    int keys = 128 * secret_between(9, 18, secret_draw("lab %d correct long", lab.number));
    run_case(g, text("1x1x%d", keys), GRADE_NORMAL,
             secret_draw("lab %d correct long seed", lab.number), NUMBERS, 0);
}

static void run_hidden(struct grading *g)
{
    static const struct {
        int least, most, few, many; // keys; batch and heads
        enum input input;
    } kinds[] = {
        {1, 15, 1, 3, GRADE_NORMAL},    {17, 63, 1, 3, GRADE_MEAN},
        {65, 127, 1, 2, GRADE_FLAT},    {129, 255, 1, 3, GRADE_RISING},
        {257, 420, 1, 2, GRADE_PEAKY},  {4097, 4400, 1, 1, GRADE_NORMAL},
        {33, 63, 13, 16, GRADE_NORMAL}, // more query tiles than CTAs fit on an L4
    };

    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); ++i) {
        const char *of = text("lab %d hidden %d", lab.number, i);
        int batch = secret_between(kinds[i].few, kinds[i].many, secret_draw("%s batch", of));
        int heads = secret_between(kinds[i].few, kinds[i].many, secret_draw("%s heads", of));
        int keys = secret_between(kinds[i].least, kinds[i].most, secret_draw("%s keys", of));
        run_case(g, text("%dx%dx%d", batch, heads, keys), kinds[i].input,
                 secret_draw("%s seed", of), NUMBERS, 0);
    }
}

static void run_races(struct grading *g)
{
    int keys = secret_between(270, 400, secret_draw("lab %d races keys", lab.number));
    const char *shapes[] = {"small", text("1x2x%d", keys | 1)};

    for (unsigned schedule = 0; schedule < SCHEDULES; ++schedule)
        run_case(g, shapes[schedule % 2], GRADE_NORMAL,
                 secret_draw("lab %d races %u", lab.number, schedule),
                 schedule % 2 ? RACES : NUMBERS_AND_RACES, schedule);
}

// ---- Resources ----------------------------------------------------------------------------------

static bool is_resource(const char *name)
{
    static const char *const names[] = {"registers", "shared", "spills", "occupancy", "threads"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

// Bytes of the stack frame in which a kernel hands printf its arguments. It writes them there and
// never reads them; a kernel that reads from local memory has an array in it, or more than prints.
static size_t print_frame(const char *ptx)
{
    static const char depot[] = "__local_depot";
    size_t largest = 0;

    if (!strstr(ptx, "vprintf") || strstr(ptx, "ld.local"))
        return 0;
    for (const char *at = ptx; (at = strstr(at, depot)); at += sizeof depot - 1) {
        const char *size = at + strcspn(at, "[\n");
        size_t bytes = *size == '[' ? strtoull(size + 1, NULL, 10) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

// Of the sm_89 image, over all kernels that are launched on mission the largest. NaN: *why.
static double resource(struct grading *g, const char *name, char **why)
{
    struct shape shape;
    struct reply reply;
    char ignored[8], *out = NULL, names[LAUNCHES_MAX * KERNEL_NAME_MAX + 1];
    size_t at = 0, shared = 0;
    int threads = 0;

    shape_parse("mission", &shape, ignored, sizeof ignored);
    const struct known_launches *k = launches_on(g, &shape, why);
    if (!k)
        return NAN;
    for (int i = 0; i < k->count; ++i) {
        const struct recorded *l = &k->launches[i];
        at += (size_t)sprintf(names + at, "%s", l->kernel) + 1;
        shared = l->shared > shared ? l->shared : shared;
        // A launch that no GPU would take is refused where it is run.
        double most = (double)l->block[0] * l->block[1] * l->block[2];
        if (most <= 1024 && most > threads)
            threads = (int)most;
    }
    names[at++] = '\0';
    const struct request request = {.verb = VERB_IMAGE};
    const void *parts[] = {names, g->s.cubin};
    const size_t sizes[] = {at, g->s.cubin_bytes};
    if (!runner_ask(&g->runner, &g->s, &request, parts, sizes, 2, CASE_SECONDS, &reply, &out, why))
        return NAN;
    free(out);
    if (reply.verdict != DONE) {
        *why = cleaned(reply.text[0], strlen(reply.text[0]));
        return NAN;
    }
    const struct cubin_resources *r = &reply.resources;
    if (strcmp(name, "registers") == 0)
        return r->registers;
    if (strcmp(name, "shared") == 0)
        return (double)(r->shared_bytes + shared);
    if (strcmp(name, "spills") == 0)
        return fmax(0, (double)r->local_bytes - (double)print_frame(g->s.ptx));
    if (strcmp(name, "threads") == 0)
        return threads;
    // CTAs' warps on an SM of an L4 over the most possible, in percent.
    struct gpu_occupancy found;
    return gpu_occupancy(&gpus[GPU_L4], r, threads, shared, &found) ? 100 * found.share : NAN;
}

// ---- Counts -------------------------------------------------------------------------------------

// Whether a run has stored every output: what a wrong kernel counts is then the lab's work at least.
static bool stores_all(const struct counted *run)
{
    return run->counts.global_store_sectors * 32 >= shape_elements(&run->shape) * sizeof(uint16_t);
}

// A right run at a shape; where `wrong_too`, else one that is wrong and stores every output. NULL:
// there is none.
static const struct counts *counted_at(const struct grading *g, const char *shape, bool wrong_too)
{
    const struct counts *found = NULL;

    for (int i = 0; i < g->counted_count; ++i) {
        const struct counted *run = &g->counted[i];
        if (strcmp(run->shape.name, shape) != 0)
            continue;
        if (run->right)
            return &run->counts;
        if (wrong_too && !found && stores_all(run))
            found = &run->counts;
    }
    return found;
}

// One more run, of a kernel that may read what nothing has written; what is counted of it, not what
// it says, is of interest.
static void run_for_counts(struct grading *g, const char *shape, enum about about)
{
    begin_group(g, "counts");
    run_case(g, shape, GRADE_NORMAL, secret_draw("lab %d counts %s", lab.number, shape), about, 0);
}

static bool does_its_work(struct grading *g)
{
    for (int more = 0; more < 2; ++more) {
        for (int i = 0; i < g->counted_count; ++i)
            if (stores_all(&g->counted[i]))
                return true;
        if (more == 0)
            run_for_counts(g, "small", COUNTS);
    }
    return false;
}

// A count at a shape: of a run that was already made, or of one more.
static double count_at(struct grading *g, const struct item *item, char **why)
{
    const char *shape = item->shape ? item->shape : "mission";

    for (int more = 0; more < 2; ++more) {
        const struct counts *counts = counted_at(g, shape, is_aim(item));
        if (counts)
            return (double)*counts_find(counts, item->name);
        if (more == 0)
            run_for_counts(g, shape, is_aim(item) ? COUNTS : NUMBERS);
    }
    *why = text(is_aim(item) ? "not counted: no run there stores every output"
                             : "not counted: the result is wrong there");
    return NAN;
}

// ---- The items ----------------------------------------------------------------------------------

struct outcome {
    bool passed, by_hand, left_out;
    double share; // of the points, 0 to 1
    char *said;
};

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

static char *plain(double value) // 12345, 66.7
{
    return value == floor(value) && fabs(value) < 1e15 ? text("%.0f", value) : text("%.3g", value);
}

static struct outcome of_number(struct grading *g, const struct item *item)
{
    struct outcome o = {0};
    char *why = NULL;
    double value =
        is_resource(item->name) ? resource(g, item->name, &why) : count_at(g, item, &why);

    o.passed = relation_holds(value, item->relation, item->limit);
    o.share = o.passed;
    if (is_aim(item) && !isnan(value) && !o.passed)
        o.share = fmax(0, (value - item->from) / (item->limit - item->from));
    o.said = isnan(value) ? why : text("%s", plain(value));
    return o;
}

static const struct item *speed_item(void)
{
    for (int i = 0; i < lab.count; ++i)
        if (strcmp(lab.items[i].name, "speed") == 0)
            return &lab.items[i];
    return NULL;
}

// The published curve: nothing below the limit, all from `full` on, a straight line between them,
// in tenths of a point. The ratio is the upper end of its interval, so that noise costs no points.
static double speed_share(const struct item *item, double ratio)
{
    double full = isnan(item->full) ? item->limit : item->full;

    if (ratio < item->limit || ratio >= full)
        return ratio >= full;
    double share = (ratio - item->limit) / (full - item->limit);
    return round(10 * share * item->points) / (10 * item->points);
}

// Outputs of timed runs are checked, too: a kernel that is wrong there is wrong, even if it was
// right in the simulator.
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
    measure_speed(&g->s, item->shape ? item->shape : "mission", &speed);
    if (speed.why) {
        o.said = speed.why;
        g->wrong_when_timed = speed.wrong;
        if (speed.wrong)
            *correct =
                (struct outcome){.said = text("right in the simulator; on the GPU %s", speed.why)};
        return o;
    }
    o.share = speed_share(item, speed.high);
    o.passed = speed.high >= item->limit;
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

    for (int i = 0; i < lab.count; ++i) {
        bool known = false,
             number = is_resource(lab.items[i].name) || counts_find(&none, lab.items[i].name);
        for (size_t j = 0; j < sizeof others / sizeof *others; ++j)
            known = known || strcmp(others[j], lab.items[i].name) == 0;
        if (!known && !number)
            fail(EXIT_USAGE,
                 "lab %d: \"%s\" is no item: correct, hidden, races, written, speed; a resource: "
                 "registers, shared, spills, occupancy, threads; a counter of the simulator:%s",
                 lab.number, lab.items[i].name, counters);
        if (number && !lab.items[i].relation)
            fail(EXIT_USAGE, "lab %d: %s: no limit", lab.number, lab.items[i].name);
    }
}

static struct outcome grade_item(struct grading *g, const struct item *item)
{
    if (strcmp(item->name, "hidden") == 0)
        return of_group(g, "hidden", run_hidden);
    if (strcmp(item->name, "races") == 0)
        return of_group(g, "races", run_races);
    if (strcmp(item->name, "written") == 0)
        return (struct outcome){.by_hand = true, .said = text("graded by hand")};
    return of_number(g, item);
}

static json_t *new_result(const char *name)
{
    return json_pack("{s:i, s:s, s:s, s:s, s:n, s:[], s:[]}", "lab", lab.number, "title", lab.title,
                     "lab_hash", lab.hash, "name", name, "refused", "items", "cases");
}

// A student adds up what the report says, so points are in tenths.
static double in_tenths(double points)
{
    return round(10 * points) / 10;
}

// The sum of the points, rounded again: tenths are not exact in binary.
static void add_up(json_t *result, double score, double total)
{
    json_object_set_new(result, "score", json_real(in_tenths(score)));
    json_object_set_new(result, "total", json_real(total));
}

static char *limit_of(const struct item *item) // "<= 18688 @ small, from 72704"
{
    if (!item->relation)
        return text("%s", "");
    return text("%s %s%s%s%s%s", item->relation, plain(item->limit), item->shape ? " @ " : "",
                item->shape ? item->shape : "", is_aim(item) ? ", from " : "",
                is_aim(item) ? plain(item->from) : "");
}

static void add_item(json_t *result, const struct item *item, const struct outcome *o,
                     const struct reached *reached, double *score, double *total)
{
    double paid = in_tenths(item->points * share_paid(pays_for(item), o->share, reached));
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
    for (int i = 0; i < lab.count; ++i) {
        const char *item = lab.items[i].name;
        struct outcome o = {.said = text("not run"),
                            .by_hand = strcmp(item, "written") == 0,
                            .left_out = strcmp(item, "speed") == 0 && !is_timed()};
        add_item(result, &lab.items[i], &o, &nothing, &score, &total);
    }
    add_up(result, 0, total);
    return result;
}

// Whether it is the starter as it was handed out: all gaps of the sheet are still marked as open, or
// their marks are gone and nothing else.
static bool is_untouched(const char *source)
{
    const json_t *tasks = json_object_get(lab.json, "exercises"), *task;
    size_t i, bytes, open = 0;
    char *starter = read_file(text("%s/build/starters/%s.cu", options.root, lab.program), &bytes);
    bool same = starter && reads_the_same(source, starter);

    json_array_foreach (tasks, i, task) {
        const char *marker = json_string_value(json_object_get(task, "marker"));
        open += marker && strstr(source, marker);
    }
    free(starter);
    return same || (i > 0 && open == i);
}

// How far the aims are reached, weighted with their points.
static double aim_reached(const struct outcome outcomes[])
{
    double reached = 0, points = 0;

    for (int i = 0; i < lab.count; ++i)
        if (is_aim(&lab.items[i])) {
            reached += outcomes[i].share * lab.items[i].points;
            points += lab.items[i].points;
        }
    return points > 0 ? reached / points : 1;
}

// `correct` comes first whatever the sheet's order, for the others depend on it.
static void grade_items(struct grading *g, const char *source, json_t *result)
{
    struct outcome outcomes[LAB_ITEMS_MAX];
    struct outcome correct = of_group(g, "correct", run_correct), speed = {0};
    double score = 0, total = 0;

    if (speed_item())
        speed = of_speed(g, speed_item(), &correct);
    for (int i = 0; i < lab.count; ++i) {
        const struct item *item = &lab.items[i];
        outcomes[i] = strcmp(item->name, "correct") == 0 ? correct
                      : item == speed_item()             ? speed
                                                         : grade_item(g, item);
    }
    const struct reached reached = {
        .correct = correct.share,
        .aim = aim_reached(outcomes),
        .tried = has_aims() && !g->wrong_when_timed && !is_untouched(source) && does_its_work(g),
    };
    for (int i = 0; i < lab.count; ++i)
        add_item(result, &lab.items[i], &outcomes[i], &reached, &score, &total);
    add_up(result, score, total);
    json_object_set_new(result, "aim", has_aims() ? json_real(reached.aim) : json_null());
    json_object_set_new(result, "correct", json_real(reached.correct));
    json_object_set(result, "cases", g->cases);
    if (g->speed)
        json_object_set_new(result, "speed", g->speed);
}

json_t *grade(const char *name, const char *source, size_t bytes)
{
    struct grading g = {.s.name = name, .runner.box.kind = BOX_RUN};
    struct shape shape;
    char why_not[8], *why = NULL;
    char source_hash[SHA256_DIGEST_STRING_LENGTH];
    double start = now();
    json_t *result;

    check_names();
    submission_build(&g.s, source, bytes);
    g.cases = json_array();
    shape_parse("small", &shape, why_not, sizeof why_not);
    if (g.s.problem || !launches_on(&g, &shape, &why)) {
        result = refused(name, g.s.problem ? g.s.problem : why);
        if (g.s.details)
            json_object_set_new(result, "details", json_string(g.s.details));
    } else {
        result = new_result(name);
        grade_items(&g, source, result);
    }
    json_object_set_new(result, "flags", flags_of(source, g.s.ptx));
    runner_end(&g.runner);
    submission_free(&g.s);
    json_decref(g.cases);
    json_object_set_new(result, "source",
                        json_string(SHA256Data((const uint8_t *)source, bytes, source_hash)));
    json_object_set_new(result, "gpu",
                        options.cpu_only || !gpu_here() ? json_null() : json_string(gpu_name()));
    json_object_set_new(result, "seconds", json_real(round(10 * (now() - start)) / 10));
    return result;
}
