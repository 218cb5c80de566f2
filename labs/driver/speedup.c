// speedup.c: times two programs against each other; shows recorded runs if there is no GPU.
#include "lab.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *const *batch_command(const struct side *side, const char *shape)
{
    static char *command[10], iterations[16];
    char *words[] = {side->path, "--shapes", (char *)shape, "--seeds", "0",
                     "--iters",  iterations, "--on-demand", "--quiet", NULL};
    snprintf(iterations, sizeof iterations, "%d", lab.iterations);
    memcpy(command, words, sizeof words);
    return command;
}

static void start_child(struct process *child, const struct side *side, const char *shape)
{
    if (!process_start(child, batch_command(side, shape), environment(on_gpu, "", 0)))
        fail(EXIT_MACHINE, "cannot start %s: %s", side->name, strerror(errno));
}

static void stop_child(struct process *child, const struct side *side)
{
    struct output output = process_finish(child, BATCH_SECONDS);
    if (output.status != 0) {
        note_gate("correctness", text("%s, after the timed runs", side->name),
                  json_integer(output.status), "exit status 0", false);
        printf("  %s: outputs after the timed runs: %s: %s\n", side->name, mark(false),
               last_line(output.err));
    }
    output_free(&output);
}

// The p50 of the next batch, in µs; negative: the program has ended, or hangs. Adds what the answer
// reports about the clock to *clock.
static double process_batch(struct process *child, int seconds, struct clock_span *clock)
{
    json_t *answer = process_ask(child, "batch", seconds);
    double time = number_at(answer, "p50_us");
    add_clock(clock, answer);
    json_decref(answer);
    return time > 0 ? time : -1;
}

// Runs the two programs in turn, then in reverse order, so that a drift of the clock affects both
// equally; each round gives one ratio. False: a program ended early, or its outputs were wrong
// after the timed runs.
static bool compare(const struct promise *promise, json_t *said)
{
    struct process children[2];
    struct side *sides[2] = {&before, &after};
    double *times[2], *ratios = calloc(lab.rounds, sizeof *ratios);
    struct clock_span clock = {0}; // the clock during both programs, which are timed in turns
    bool good = true;
    for (int s = 0; s < 2; ++s) {
        times[s] = calloc(lab.rounds, sizeof **times);
        start_child(&children[s], sides[s], promise->shape);
    }
    for (int round = -1; round < lab.rounds && good; ++round) { // round -1 warms up
        doing("%s: round %d of %d", promise->shape, round + 1, lab.rounds);
        for (int turn = 0; turn < 2 && good; ++turn) {
            int s = (round & 1) ^ turn;
            double time = process_batch(&children[s], BATCH_SECONDS, &clock);
            good = time > 0;
            if (good && round >= 0)
                times[s][round] = time;
        }
        if (good && round >= 0)
            ratios[round] = times[0][round] / times[1][round];
    }
    done();
    int failed = gates_failed;
    for (int s = 0; s < 2; ++s)
        stop_child(&children[s], sides[s]);
    if (!good && failed == gates_failed)
        note_gate("speedup", promise->shape, json_null(), "times", false);
    if (!good || failed != gates_failed)
        return false;

    struct interval interval = median_interval(ratios, lab.rounds);
    const char *verdict = promise->ratio == 0              ? "not judged"
                          : interval.low >= promise->ratio ? "met"
                          : interval.high < promise->ratio ? "missed"
                                                           : "inconclusive";
    double p50[2];
    for (int s = 0; s < 2; ++s)
        p50[s] = summarise(times[s], lab.rounds).p50;
    json_t *one = json_pack("{s:f, s:f, s:f, s:i, s:f, s:f, s:s}", "median", interval.median, "low",
                            interval.low, "high", interval.high, "rounds", lab.rounds,
                            "before_p50_us", p50[0], "after_p50_us", p50[1], "verdict", verdict);
    if (promise->ratio > 0)
        json_object_set_new(one, "promise", json_real(promise->ratio));
    put_clock(one, &clock);
    json_object_set_new(said, promise->shape, one);
    return true;
}

// Times a program that is compared with no other.
static void measure(void)
{
    struct process child;
    double *times = calloc(lab.rounds, sizeof *times);
    int count = 0, failed = gates_failed;
    struct clock_span clock = {0};
    start_child(&child, &after, main_shape());
    for (double time = 1; time > 0 && count < lab.rounds;) {
        doing("%s: round %d of %d", main_shape(), count + 1, lab.rounds);
        time = process_batch(&child, BATCH_SECONDS, &clock);
        times[count] = time;
        count += time > 0;
    }
    done();
    stop_child(&child, &after);
    if (count < lab.rounds && failed == gates_failed)
        note_gate("speedup", main_shape(), json_null(), "times", false);
    if (failed != gates_failed)
        return;
    struct summary s = summarise(times, count);
    printf("  %-9s p50 %.1f us, from %.1f to %.1f in %d rounds\n", main_shape(), s.p50, s.min,
           s.max, count);
    json_t *one = json_pack("{s:f, s:f, s:f, s:i}", "p50_us", s.p50, "min_us", s.min, "max_us",
                            s.max, "rounds", count);
    put_clock(one, &clock);
    json_object_set_new(record, "time", json_pack("{s:o}", main_shape(), one));
}

static void show_speedup(const char *shape, json_t *s, const char *indent)
{
    double promise = number_at(s, "promise");
    wrap(text("%.1f -> %.1f us: %s%.2fx%s [%.2f, %.2f]%s: %s", number_at(s, "before_p50_us"),
              number_at(s, "after_p50_us"), BOLD, number_at(s, "median"), PLAIN,
              number_at(s, "low"), number_at(s, "high"),
              isnan(promise) ? "" : text(" of %.2fx", promise), string_at(s, "verdict")),
         printf("%s%-9s", indent, shape), 6);
    if (json_is_true(at(s, "clock.moved")))
        wrap(text("the clock moved meanwhile: from %.0f to %.0f MHz", number_at(s, "clock.low_mhz"),
                  number_at(s, "clock.high_mhz")),
             printf("%s", indent), 6);
}

// Whether a record was made with today's programs; build/hashes.tsv has their hashes.
static bool fresh(json_t *hashes)
{
    char *path = text("%s/build/hashes.tsv", root), line[512], name[256], hash[128];
    FILE *file = fopen(path, "r");
    size_t same = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %127s", name, hash) == 2) {
            const char *recorded = json_string_value(at(hashes, name));
            same += recorded && strcmp(recorded, hash) == 0;
        }
    if (file)
        fclose(file);
    return same > 0 && same == json_object_size(hashes);
}

static void label_recorded(json_t *old, json_t *hashes)
{
    const char *verdict = json_string_value(at(old, "verdict")); // NULL: the record is not a lab's
    wrap(text("recorded on %s, %.10s%s:%s%s", string_at(old, "device.name"), string_at(old, "date"),
              fresh(hashes) ? ""
                            : text(" (%sSTALE: of other programs than today's%s)", RED_INK, PLAIN),
              verdict ? " " : "", verdict ? verdict : ""),
         printf("  "), 4);
}

// If nothing can be measured here, shows the book's recorded runs, each with its GPU.
static void show_recorded(void)
{
    glob_t found = {0};
    bool any = false;
    char *pattern = before.name ? text("%s/plots/runs/*/lab%02d.json", root, lab.number)
                                : text("%s/plots/runs/*/%s.json", root, lab.after);
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        json_t *old = json_load_file(found.gl_pathv[i], 0, NULL);
        const char *shape;
        if (strcmp(string_at(old, "runtime"), "gpu") != 0)
            continue;
        any = true;
        json_t *one;
        if (before.name) {
            label_recorded(old, at(old, "source_hashes"));
            json_object_foreach (at(old, "speedup"), shape, one) {
                show_speedup(shape, one, "    ");
            }
        } else {
            label_recorded(old, json_pack("{s:O?}", lab.after, at(old, "source_hash")));
            json_object_foreach (at(old, "shapes"), shape, one) {
                if (at(one, "timing"))
                    printf("    %-9s p50 %.1f us, p90 %.1f us, %.2f TFLOP/s\n", shape,
                           number_at(one, "timing.p50_us"), number_at(one, "timing.p90_us"),
                           number_at(one, "tflops"));
            }
        }
    }
    if (!any)
        printf("  no record of a GPU in plots/runs yet\n");
    globfree(&found);
}

// Returns FAST, VALID NEGATIVE or GREEN; on a GPU, RED if a gate has failed.
const char *judge_speed(void)
{
    heading(before.name ? "Speedup" : "Time");
    for (int i = 0; i < lab.promise_count; ++i)
        wrap(text("%s%s%s",
                  lab.promises[i].ratio > 0 ? text("promise %.2fx", lab.promises[i].ratio)
                                            : "no promise",
                  lab.why ? ": " : "", lab.why ? lab.why : ""),
             printf("  %-9s", lab.promises[i].shape), 4);
    if (!on_gpu) {
        printf("  not measured: the simulator counts, it does not time\n");
        show_recorded();
        return "GREEN";
    }
    if (gates_failed) {
        printf("  not measured: a wrong program is not timed\n");
        return "RED";
    }
    json_t *said = json_object();
    int met = 0, missed = 0;
    if (!before.name)
        measure();
    for (int i = 0; before.name && i < lab.promise_count; ++i) {
        const struct promise *promise = &lab.promises[i];
        if (!compare(promise, said))
            continue;
        json_t *one = json_object_get(said, promise->shape);
        show_speedup(promise->shape, one, "  ");
        met += strcmp(string_at(one, "verdict"), "met") == 0;
        missed += strcmp(string_at(one, "verdict"), "missed") == 0;
    }
    for (int i = 0; i < lab.goal_count; ++i) {
        double p50 = number_at(said, text("%s.after_p50_us", lab.goals[i].shape));
        bool good = p50 <= lab.goals[i].ratio; // false for a shape that was not timed
        note_gate("goal", lab.goals[i].shape, json_real(p50), text("<= %g us", lab.goals[i].ratio),
                  good);
        printf("  %-9s goal at most %g us: %s\n", lab.goals[i].shape, lab.goals[i].ratio,
               mark(good));
    }
    if (before.name) {
        wrap(text("%sp50 of each; median of %d alternated rounds, with its 95 %% interval%s", FAINT,
                  lab.rounds, PLAIN),
             printf("  "), 4);
        json_object_set_new(record, "speedup", said);
    }
    if (gates_failed)
        return "RED";
    return missed ? "VALID NEGATIVE" : met && met == lab.promise_count ? "FAST" : "GREEN";
}
