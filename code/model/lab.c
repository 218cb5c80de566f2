// lab.c: what lab 23 asks of a program that runs a model: to read a text, to read one token more as it does in an
// answer, and to draw tokens. The model is random. Logits are compared with those of the reference (reference.c) with
// a rounded cache; drawn tokens are checked in double precision.
#include "model.h"

#include "host/host.h"

#include "workbench/workbench.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 200, DRAWS = 24, SEED_MOST = 1 << 30 };
// How far logits may be from the reference's: the norm of the differences over the norm of the logits. Queries, P and
// attention's output are rounded to half, and a rounded cache makes the difference larger: 0.0033 was the largest
// difference of 156 texts and answers.
static const double MOST = 0.006;
// By how much the sum of the weights before a drawn token may be wrong, as a share of all weights (code/model/ask.c).
static const double SLACK = 2e-6;
static const double NOT_FINITE = 1e9; // stands in a record for an error that is NaN or infinite

bool lab_asks(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i)
        if (strncmp(argv[i], "--shapes", 8) == 0)
            return true;
    return false;
}

// 32 random bits made from a seed; each use of them has a `place` of its own, and so other bits.
static uint32_t drawn_by(uint64_t seed, uint32_t place)
{
    return (uint32_t)(philox(place, (uint32_t)seed ^ (uint32_t)(seed >> 32) * 0x9e3779b9) >> 32);
}

// One model with its text, and the program and the reference, each after the tokens that it has read.
struct test {
    uint64_t seed;
    int count, tokens[CONTEXT];
    struct model *model;
    void *program;
    struct reference *reference;
    float *got;
    double *expected;
    json_t *said; // an object for each question: whether the answer was right, and its error
};

static void say(struct test *t, const char *asked, bool pass, double error, const char *how)
{
    json_array_append_new(t->said, json_pack("{s:I, s:s, s:b, s:f, s:s*}", "seed",
                                             (json_int_t)t->seed, "input", asked, "pass", pass,
                                             "rel_head", isfinite(error) ? error : NOT_FINITE,
                                             "how", pass ? NULL : how));
}

static void compare_logits(struct test *t, const char *asked, int behind)
{
    double squares = 0, norm = 0;
    for (int i = 0; i < t->model->words; ++i) {
        const double apart = (double)t->got[i] - t->expected[i];
        squares += apart * apart;
        norm += t->expected[i] * t->expected[i];
    }
    const double error = sqrt(squares / norm);
    say(t, asked, error <= MOST, error, // false for a NaN
        text("logits behind %d tokens differ from the reference's by %.3g of their size; %g is "
             "allowed",
             behind, error, MOST));
}

// Has the program draw tokens by its own last logits, and checks them in double precision.
static void compare_drawn(struct test *t, const struct speaking *program)
{
    const int words = t->model->words;
    const struct sampling s = {8 + drawn_by(t->seed, CONTEXT) % 8,
                               0.5 + drawn_by(t->seed, CONTEXT + 1) % 49 / 100.0,
                               drawn_by(t->seed, CONTEXT + 2) >> 1};
    double *logits = need(malloc((size_t)words * sizeof *logits));
    int tokens[DRAWS] = {0}, wrong = 0;
    const char *how = NULL;
    program->draw(t->program, &s, tokens, DRAWS);
    for (int i = 0; i < words; ++i)
        logits[i] = t->got[i];
    for (int i = 0; i < DRAWS; ++i) {
        const uint64_t random = philox((uint32_t)(t->count + 2 + i), s.seed);
        bool fits = false;
        for (int set = -1; set <= 1; ++set) {
            struct lottery l =
                lottery_of(logits, words, s.temperature, s.top_p * (1 + set * SLACK));
            fits |=
                tokens[i] >= 0 && tokens[i] < words && lottery_fits(&l, random, tokens[i], SLACK);
            if (set == 1 && !fits && ++wrong == 1)
                how = text("token %d was drawn, not %d, one of %d that are kept (temperature %g, "
                           "top-p %g)",
                           tokens[i], lottery_draw(&l, random), l.count, s.temperature, s.top_p);
            free(l.weights);
        }
    }
    say(t, "drawn", wrong == 0, (double)wrong / DRAWS, how);
    free(logits);
}

static struct model *random_model(uint64_t seed)
{
    char path[] = "/tmp/model.XXXXXX";
    const int file = mkstemp(path);
    if (file < 0)
        fail(EXIT_MACHINE, "%s: %m", path);
    close(file);
    tiny_write(path, (int)(drawn_by(seed, 0) % SEED_MOST) + 1, CONTEXT, 1);
    struct model *model = model_open(path); // maps the file, whose name is then no longer needed
    unlink(path);
    return model;
}

static void judge(const struct speaking *program, int count, uint64_t seed, json_t *said)
{
    struct test t = {.seed = seed, .count = count, .said = said};
    t.model = random_model(seed);
    for (int i = 0; i <= count; ++i)
        t.tokens[i] = (int)(drawn_by(seed, 1 + (uint32_t)i) % (uint32_t)t.model->words);
    t.got = need(malloc((size_t)t.model->words * sizeof *t.got));
    t.expected = need(malloc((size_t)t.model->words * sizeof *t.expected));
    t.program = program->open(t.model);
    t.reference = reference_open(t.model, count + 1, KEPT_E4M3);
    reference_run(t.reference, t.tokens, count, count - 1, t.expected);
    program->next(t.program, t.tokens, count, false, t.got);
    compare_logits(&t, "prompt", count);
    reference_run(t.reference, t.tokens + count, 1, 0, t.expected);
    program->next(t.program, t.tokens + count, 1, true, t.got);
    compare_logits(&t, "answer", count + 1);
    compare_drawn(&t, program);
    reference_close(t.reference);
    free(t.got);
    free(t.expected);
}

// The number of tokens in a shape's cache.
static int tokens_of_shape(const char *word)
{
    struct shape s;
    char why[256];
    if (!shape_parse(word, &s, why, sizeof why))
        fail(EXIT_USAGE, "--shapes: %s", why);
    if (s.batch != 1 || s.heads != 2 || s.group != 3 || s.page != 64 || s.newest || s.head_dim ||
        s.ragged || s.seq_len >= CONTEXT)
        fail(EXIT_USAGE,
             "--shapes: \"%s\" is not the small model's cache: 1x2xNq3p64, with N from 1 to %d",
             word, CONTEXT - 1);
    return s.seq_len;
}

int lab_answer(int argc, char **argv, const struct speaking *program)
{
    const char *shapes = NULL, *seeds = "0", *inputs = NULL, *record = NULL;
    bool no_timing, quiet;
    const struct option_row options[] = {{.name = "shapes", .argument = "LIST", .word = &shapes},
                                         {.name = "seeds", .argument = "LIST", .word = &seeds},
                                         {.name = "inputs", .argument = "LIST", .word = &inputs},
                                         {.name = "record", .argument = "FILE", .word = &record},
                                         {.name = "no-timing", .flag = &no_timing},
                                         {.name = "quiet", .flag = &quiet},
                                         {0}};
    if (options_read(argc, argv, options, false) != argc)
        fail(EXIT_USAGE, "with --shapes there is no file: models are random");
    if (record)
        must_be_writable(record);
    json_t *said = json_object();
    int all = 0, right = 0;
    char *rest = text("%s", shapes), *word;
    while ((word = strsep(&rest, ","))) {
        const int count = tokens_of_shape(word);
        json_t *checks = json_array(), *check;
        char *left = text("%s", seeds), *seed;
        size_t i;
        while ((seed = strsep(&left, ",")))
            judge(program, count, strtoull(seed, NULL, 10), checks);
        json_array_foreach (checks, i, check) {
            const bool pass = json_is_true(json_object_get(check, "pass"));
            ++all;
            right += pass;
            if (!pass)
                fprintf(stderr, "%s: %s, seed %.0f: %s\n", program->name, word,
                        number_at(check, "seed"), string_at(check, "how"));
        }
        json_object_set_new(said, word, json_pack("{s:o}", "correctness", checks));
    }
    if (record)
        write_json(json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:o}", "record", 1, "program",
                             program->name, "chapter", 23, "source_hash", program->source_hash,
                             "git_commit", program->git_commit, "date", date_now(), "shapes", said),
                   record, JSON_INDENT(1) | JSON_REAL_PRECISION(7), "\n");
    printf("%s: %s: %d of %d outputs right\n", program->name, right == all ? "PASS" : "FAIL", right,
           all);
    return right == all ? 0 : 1;
}
