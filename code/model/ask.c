// ask.c: asks a model in double precision on the CPU, which takes a fifth of a second for each token.
//   ask FILE QUESTION [--most N]   its answer, at most N tokens: after each token the likeliest one
//   ask FILE --logits TOKENS       the logits that follow these tokens, a line each; TOKENS: their numbers, "1 42 7"
//   ask FILE --drawn PLACE         checks that tokens were drawn as their random numbers say. Standard input: the
//                                  model's logits, a line each, then the tokens drawn for PLACE, PLACE + 1, ...
//   ask FILE --perplexity          the perplexity of the text on standard input, in pieces of 512 tokens
//   ask FILE --tensors FOLDER      writes each layer's queries, keys and values for the text on standard input, in the
//                                  files that --tensors of the book's programs reads (code/workbench/workbench.h)
//   ask FILE --tokens              the numbers of the tokens of each line of standard input
//   --temperature T, --top-p P, --seed S   with QUESTION and --drawn: tokens are drawn (sample.c), not the likeliest
//   --numbers                      with QUESTION: prints the numbers of the answer's tokens, a line each, not texts
//   --cache e4m3                   except with --tokens and --drawn: rounds keys and values as chapter 21's cache does
#include "model.h"

#include "host/host.h"

#include "workbench/workbench.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void print_tokens(const struct model *m)
{
    char *line = NULL;
    size_t room = 0, number = 1;
    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0; ++number) {
        size_t count;
        if (line[length - 1] == '\n')
            --length;
        int *tokens = tokens_of(m->tokens, line, (size_t)length, &count);
        if (!tokens)
            fail(EXIT_USAGE, "line %zu of the input is no UTF-8 at byte %zu", number, count);
        for (size_t i = 0; i < count; ++i)
            printf("%s%d", i ? " " : "", tokens[i]);
        putchar('\n');
        free(tokens);
    }
    free(line);
}

static int *numbers(const struct model *m, const char *words, int *count)
{
    int *tokens = need(malloc((strlen(words) + 1) * sizeof *tokens));
    char *copy = text("%s", words), *rest;
    *count = 0;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        tokens[(*count)++] = whole("a token", word, 0, m->words - 1);
    if (*count < 1 || *count > m->context)
        fail(EXIT_USAGE, "%d tokens; the model reads 1 to %d", *count, m->context);
    return tokens;
}

static void print_logits(const struct model *m, const char *words, enum kept kept)
{
    int count;
    int *tokens = numbers(m, words, &count);
    double *logits = need(malloc((size_t)m->words * sizeof *logits));
    struct reference *r = reference_open(m, count, kept);
    reference_run(r, tokens, count, count - 1, logits);
    for (int i = 0; i < m->words; ++i)
        printf("%.9g\n", logits[i]);
    reference_close(r);
}

// Checks that each token is one that its random number may draw, where the sum of the weights before it may be wrong by
// SLACK times the sum of all, and top_p by SLACK times itself. Ends with status 1 if one is not, or if there is none.
static void check_drawn(const struct model *m, int place, const struct sampling *s)
{
    const double SLACK = 2e-6;
    enum { SETS = 3 };
    struct lottery set[SETS];
    double *logits = need(malloc((size_t)m->words * sizeof *logits));
    int drawn = 0, wrong = 0, token;
    if (s->temperature == 0)
        fail(EXIT_USAGE, "--drawn wants a --temperature");
    for (int i = 0; i < m->words; ++i)
        if (scanf("%lf", &logits[i]) != 1)
            fail(EXIT_USAGE, "%d logits on standard input; the model has %d", i, m->words);
    for (int i = 0; i < SETS; ++i)
        set[i] = lottery_of(logits, m->words, s->temperature, s->top_p * (1 + (i - 1) * SLACK));
    for (; scanf("%d", &token) == 1; ++drawn, ++place) {
        const uint64_t random = philox((uint32_t)place, s->seed);
        bool fits = false;
        for (int i = 0; i < SETS && token >= 0 && token < m->words; ++i)
            fits |= lottery_fits(&set[i], random, token, SLACK);
        if (!fits && ++wrong == 1)
            printf("place %d: token %d was drawn, not %d\n", place, token,
                   lottery_draw(&set[1], random));
    }
    printf("%d drawn from %d tokens, %d wrong\n", drawn, set[1].count, wrong);
    for (int i = 0; i < SETS; ++i)
        free(set[i].weights);
    free(logits);
    if (wrong || drawn == 0)
        exit(1);
}

static void answer(const struct model *m, const char *question, int most, bool by_numbers,
                   enum kept kept, const struct sampling *s)
{
    size_t count;
    int *tokens = chat_question(&m->chat, m->tokens, true, question, &count);
    if (!tokens)
        fail(EXIT_USAGE, "the question is no UTF-8 at byte %zu", count);
    if (count >= (size_t)m->context)
        fail(EXIT_USAGE, "the question has %zu tokens with the template; the model reads %d", count,
             m->context);
    if (most > m->context - (int)count)
        most = m->context - (int)count;
    double *logits = need(malloc((size_t)m->words * sizeof *logits));
    struct reference *r = reference_open(m, (int)count + most, kept);
    reference_run(r, tokens, (int)count, (int)count - 1, logits);
    for (int i = 0; i < most; ++i) {
        int token = sampled(logits, m->words, s, (int)count + i);
        if (token == m->chat.end)
            break;
        const struct span bytes = token_bytes(m->tokens, token);
        if (by_numbers)
            printf("%d\n", token);
        else
            fwrite(bytes.at, 1, bytes.bytes, stdout);
        fflush(stdout);
        if (i + 1 < most)
            reference_run(r, &token, 1, 0, logits);
    }
    if (!by_numbers)
        putchar('\n');
    reference_close(r);
}

// -log p, in nats, where p is the token's probability by the logits.
static double surprise(const double *logits, int words, int token)
{
    const double most = logits[likeliest(logits, words)];
    double sum = 0;
    for (int i = 0; i < words; ++i)
        sum += exp(logits[i] - most);
    return most + log(sum) - logits[token];
}

static void write_layer(const struct reference *r, const struct model *m, int layer, int count,
                        const char *folder)
{
    char *path = text("%s/%d.half", folder, layer);
    FILE *file = fopen(path, "wb");
    if (!file)
        fail(EXIT_MACHINE, "%s: %s", path, strerror(errno));
    fprintf(file, "tensors %d %d %d %d\n", m->heads, m->key_heads, count, HEAD_COLUMNS);
    for (enum of_head of = OF_QUERIES; of <= OF_VALUES; ++of)
        for (int h = 0; h < (of == OF_QUERIES ? m->heads : m->key_heads); ++h) {
            int stride;
            const double *x = reference_head(r, layer, of, h, &stride);
            for (int t = 0; t < count; ++t, x += stride)
                for (int d = 0; d < HEAD_COLUMNS; ++d) {
                    const uint16_t half = half_from_float((float)x[d]);
                    fwrite(&half, sizeof half, 1, file);
                }
        }
    if (fclose(file) != 0)
        fail(EXIT_MACHINE, "%s cannot be written: %m", path);
    free(path);
}

static void write_tensors(const struct model *m, const char *folder, enum kept kept)
{
    enum { STEP = 32 }; // tokens that are run at a time
    size_t count;
    int *tokens = tokens_of_stream(m->tokens, stdin, &count);
    if (count < 1 || count > (size_t)m->context)
        fail(EXIT_USAGE, "the text has %zu tokens; the model reads 1 to %d", count, m->context);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        fail(EXIT_MACHINE, "cannot make %s: %s", folder, strerror(errno));
    struct reference *r = reference_open(m, (int)count, kept);
    reference_keep_queries(r);
    for (int at = 0; at < (int)count; at += STEP) {
        const int step = (int)count - at < STEP ? (int)count - at : STEP;
        doing("token %d of %zu", at + 1, count);
        reference_run(r, tokens + at, step, step, NULL);
    }
    done();
    for (int layer = 0; layer < m->layers; ++layer)
        write_layer(r, m, layer, (int)count, folder);
    reference_close(r);
    free(tokens);
}

static void print_perplexity(const struct model *m, enum kept kept)
{
    enum { STEP = 32 }; // tokens whose logits are kept at a time
    size_t count, told = 0;
    int *tokens = tokens_to_foretell(m->tokens, stdin, &count);
    const int piece = m->context < PERPLEXITY_PIECE ? m->context : PERPLEXITY_PIECE;
    double *logits = need(malloc((size_t)STEP * (size_t)m->words * sizeof *logits)), sum = 0;
    struct reference *r = reference_open(m, piece, kept);
    for (size_t at = 0; at + 1 < count;) {
        const size_t here = at % (size_t)piece; // place in the piece, whose last token is never run
        const size_t left =
            (size_t)piece - 1 - here < count - 1 - at ? (size_t)piece - 1 - here : count - 1 - at;
        const int step = left < STEP ? (int)left : STEP;
        if (here == 0)
            reference_cut(r, 0);
        doing("token %zu of %zu", at + 1, count);
        reference_run(r, tokens + at, step, 0, logits);
        for (int i = 0; i < step; ++i)
            sum += surprise(logits + (size_t)i * (size_t)m->words, m->words,
                            tokens[at + (size_t)i + 1]);
        told += (size_t)step;
        at += (size_t)step + (here + (size_t)step == (size_t)piece - 1);
    }
    done();
    printf(PERPLEXITY_LINE, exp(sum / (double)told), told);
    reference_close(r);
    free(logits);
    free(tokens);
}

int main(int argc, char **argv)
{
    int most = 1 << 20, drawn = 0, seed = -1;
    bool help = false, tokens = false, perplexity = false, by_numbers = false;
    static const char usage[] =
        "usage: ask FILE QUESTION [--most N] [--numbers] | FILE --tokens | --perplexity "
        "| --logits TOKENS | --drawn PLACE | --tensors FOLDER; --cache exact|e4m3, "
        "--temperature T, --top-p P, --seed S";
    const char *of = NULL, *cache = "exact", *tensors = NULL, *temperature = NULL, *top_p = NULL;
    const struct option_row options[] = {
        {.name = "help", .flag = &help},
        {.name = "most", .argument = "N", .number = &most, .least = 1, .most = 1 << 20},
        {.name = "tokens", .flag = &tokens},
        {.name = "numbers", .flag = &by_numbers},
        {.name = "perplexity", .flag = &perplexity},
        {.name = "logits", .argument = "TOKENS", .word = &of},
        {.name = "tensors", .argument = "FOLDER", .word = &tensors},
        {.name = "drawn", .argument = "PLACE", .number = &drawn, .least = 1, .most = 1 << 20},
        {.name = "temperature", .argument = "T", .word = &temperature},
        {.name = "top-p", .argument = "P", .word = &top_p},
        {.name = "seed", .argument = "S", .number = &seed, .least = 0, .most = INT_MAX},
        {.name = "cache", .argument = "exact|e4m3", .word = &cache},
        {0}};

    speaker = "ask";
    const int first = options_read(argc, argv, options, false);
    const int modes = tokens + perplexity + (of != NULL) + (tensors != NULL) + (drawn > 0);
    if (help)
        return puts(usage) < 0;
    if (argc - first != (modes ? 1 : 2) || modes > 1)
        fail(EXIT_USAGE, "%s", usage);
    const struct sampling s = sampling_read(temperature, top_p, seed);
    const enum kept kept = strcmp(cache, "e4m3") ? KEPT_EXACT : KEPT_E4M3;
    if (kept == KEPT_EXACT && strcmp(cache, "exact"))
        fail(EXIT_USAGE, "--cache: \"%s\" is neither exact nor e4m3", cache);
    struct model *m = model_open(argv[first]);
    if (tokens)
        print_tokens(m);
    else if (perplexity)
        print_perplexity(m, kept);
    else if (tensors)
        write_tensors(m, tensors, kept);
    else if (drawn)
        check_drawn(m, drawn, &s);
    else if (of)
        print_logits(m, of, kept);
    else
        answer(m, argv[first + 1], most, by_numbers, kept, &s);
    if (fflush(stdout) != 0)
        fail(EXIT_MACHINE, "standard output cannot be written: %m");
    model_close(m);
    return 0;
}
