// timing.c: times a submission against the lab's own program (the reference) on a GPU, in one run.
//
// Both run in processes of the same kind: a runner with a kernel's PTX and nothing else, and its
// own context. They are timed in turn. Every launch has new inputs. A few problems are drawn; each
// set is one of them with its query rows rotated, and its keys rotated together with their values,
// both by the set's own amounts. Rotating keys with values does not change attention, and rotating
// queries rotates the output's rows. So the right output is known without computing it again, and
// every output of every timed launch is compared with it.
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 12, SETS = 24, WARM = 8, PROBLEMS = 3, ROUND_SECONDS = 120 };

struct turned { // an input set, made from a problem
    const struct grade_case *of;
    int queries, keys; // by how many rows the queries, and the keys, are rotated
};

struct side {
    struct submission s;
    struct runner runner;
    struct known_launches known;
    bool wrong;
    double by_events, by_host; // µs for each launch, summed over the rounds
};

// Rotates the rows of each (batch, head) by `by`: the last `by` rows come to the front.
static void turn(char *to, const char *from, const struct shape *shape, size_t row_bytes, int by)
{
    size_t head = (size_t)shape->seq_len * row_bytes, moved = (size_t)by * row_bytes;

    for (int i = 0; i < shape->batch * shape->heads; ++i, to += head, from += head) {
        memcpy(to + moved, from, head - moved);
        memcpy(to, from + head - moved, moved);
    }
}

static struct turned make_turned(const struct grade_case *cases, int round, int set, char *inputs)
{
    uint64_t drawn = secret_draw("lab %d speed %d %d", sheet.number, round, set);
    const struct grade_case *c = &cases[drawn % PROBLEMS];
    size_t elements = shape_elements(&c->shape);
    struct turned t = {
        .of = c,
        .queries = (int)((drawn >> 8) % (uint64_t)c->shape.seq_len),
        .keys = (int)((drawn >> 36) % (uint64_t)c->shape.seq_len),
    };

    turn(inputs, c->inputs, &c->shape, HEAD_DIM, t.queries);
    turn(inputs + elements, c->inputs + elements, &c->shape, HEAD_DIM, t.keys);
    turn(inputs + 2 * elements, c->inputs + 2 * elements, &c->shape, HEAD_DIM, t.keys);
    memcpy(inputs + 3 * elements, c->inputs + 3 * elements, input_bytes(&c->shape) - 3 * elements);
    return t;
}

static bool turned_right(const struct turned *t, const uint16_t *out, char **why)
{
    const struct shape *shape = &t->of->shape;
    uint16_t *back = need(malloc(2 * shape_elements(shape)));
    double error;

    turn((char *)back, (const char *)out, shape, 2 * HEAD_DIM,
         (shape->seq_len - t->queries) % shape->seq_len);
    bool right = case_right(t->of, (const char *)back, &error, why);
    free(back);
    return right;
}

// Times one round; returns µs for each launch, or NaN with *why.
static double time_round(struct side *side, const struct shape *shape, const struct turned *sets,
                         const char *inputs, char **why)
{
    struct run_request r = {
        .shape = *shape,
        .softmax_scale = sets[0].of->problem.softmax_scale,
        .launch_count = side->known.count,
        .sets = SETS,
        .warm = WARM,
    };
    const struct request request = {.verb = VERB_TIME};
    const void *parts[] = {&r, inputs};
    const size_t sizes[] = {sizeof r, SETS * input_bytes(shape)};
    struct reply reply;
    char *out;

    memcpy(r.launches, side->known.launches, sizeof r.launches);
    if (!runner_ask(&side->runner, &side->s, &request, parts, sizes, 2, ROUND_SECONDS, &reply, &out,
                    why))
        return NAN;
    double us = reply.microseconds;
    side->wrong = reply.verdict != DONE;
    if (side->wrong)
        *why = cleaned(reply.text, strlen(reply.text));
    else if (!(us > 0))
        *why = text("the GPU's clock stands still");
    side->by_events += us;
    side->by_host += reply.wall_microseconds;
    for (int i = 0; i < SETS && !*why; ++i) {
        side->wrong = !turned_right(&sets[i], (uint16_t *)out + i * shape_elements(shape), why);
        if (side->wrong)
            *why = text("wrong in a timed run: %s", *why);
    }
    free(out);
    return *why ? NAN : us;
}

static bool prepare(struct side *side, const struct shape *shape, char **why)
{
    side->runner.box = (struct box){.kind = BOX_RUN, .gpu = true};
    return submission_launches(&side->s, shape, &side->known, why);
}

// Whether the host code allocates or writes memory for its kernels, or gives them parameters of its
// own, which may be addresses: only the simulator can provide the addresses that host code saw.
static bool gives_memory(const struct known_launches *k)
{
    bool gives = k->steps_bytes > 0;

    for (int i = 0; i < k->count; ++i)
        gives = gives || k->launches[i].more_bytes > 0;
    return gives;
}

static void build_reference(struct side *side)
{
    char *path = text("%s/code/%s.cu", root, sheet.program);
    size_t bytes;
    char *source = read_file(path, &bytes);

    if (!source)
        fail(EXIT_MACHINE, "the lab's program is not there: %s", path);
    submission_build(&side->s, source, bytes);
    if (side->s.problem)
        fail(EXIT_MACHINE, "the lab's own program %s", side->s.problem);
    free(source);
}

// Locks the GPU: however many submissions are graded, only the process with the lock on this file
// times.
static int take_gpu(void)
{
    mkdir(text("%s/build/grade", root), 0700);
    char *path = text("%s/build/grade/gpu.lock", root);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (lock < 0)
        fail(EXIT_MACHINE, "cannot open %s: %s", path, strerror(errno));
    while (flock(lock, LOCK_EX))
        if (errno != EINTR)
            fail(EXIT_MACHINE, "cannot lock %s: %s", path, strerror(errno));
    free(path);
    return lock;
}

void measure_speed(struct submission *s, const char *name, struct speed *speed)
{
    struct side reference = {0}, submitted = {.s = *s};
    struct grade_case cases[PROBLEMS];
    double ratios[ROUNDS], times[ROUNDS];
    char *own = NULL;

    for (int i = 0; i < PROBLEMS; ++i)
        case_make(&cases[i], name, SOFTMAX_SCALE, GRADE_NORMAL,
                  secret_draw("lab %d speed problem %d", sheet.number, i));
    const struct shape *shape = &cases[0].shape;
    char *inputs = need(malloc(SETS * input_bytes(shape)));
    build_reference(&reference);
    if (!prepare(&reference, shape, &own))
        fail(EXIT_MACHINE, "the lab's own program %s", own);
    if (prepare(&submitted, shape, &speed->why) && gives_memory(&submitted.known))
        speed->why =
            text("not timed: its host part gives its kernels memory or numbers of its own");
    s->records = submitted.s.records;
    s->recorded = submitted.s.recorded;
    s->two_ways = submitted.s.two_ways;
    double asked = now();
    int lock = take_gpu();
    s->end += now() - asked; // waiting for the GPU takes nothing of the submission's time
    submitted.s.end = reference.s.end = s->end;
    // The first round is checked but not counted, since the driver loads code at the first launch.
    for (int round = -1; round < ROUNDS && !speed->why; ++round) {
        struct turned sets[SETS];
        for (int i = 0; i < SETS; ++i)
            sets[i] = make_turned(cases, round, i, inputs + (size_t)i * input_bytes(shape));
        // The reference comes first: if it cannot be timed, the submission is not to blame.
        double ours = time_round(&reference, shape, sets, inputs, &own);
        if (own)
            fail(EXIT_MACHINE,
                 "the lab's own program cannot be timed (%s): --no-gpu leaves speed out", own);
        double theirs = time_round(&submitted, shape, sets, inputs, &speed->why);
        if (round < 0) {
            submitted.by_events = submitted.by_host = 0;
        } else {
            ratios[round] = ours / theirs;
            times[round] = theirs;
        }
    }
    // A kernel could overwrite the GPU's time stamps, but it cannot reach the host's clock.
    if (!speed->why && submitted.by_host > 3 * submitted.by_events + 200 * ROUNDS)
        speed->why = text("the GPU's clock and the host's do not agree");
    speed->wrong = submitted.wrong;
    if (!speed->why) {
        struct interval interval = median_interval(ratios, ROUNDS);
        speed->ratio = interval.median;
        speed->low = interval.low;
        speed->high = interval.high;
        speed->microseconds = summarise(times, ROUNDS).p50;
    }
    runner_end(&reference.runner);
    runner_end(&submitted.runner);
    close(lock);
    launches_free(&reference.known);
    launches_free(&submitted.known);
    submission_free(&reference.s);
    for (int i = 0; i < PROBLEMS; ++i)
        case_free(&cases[i]);
    free(inputs);
}
