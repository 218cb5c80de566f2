// ask.c: asks a model in double precision on the CPU, a third of a second a token.
//   ask FILE QUESTION [--most N]   its answer: after each token the likeliest one; at most N
//   ask FILE --logits TOKENS       numbers of tokens, "1 42 7": the logits behind the last of them, a line each
//   ask FILE --tokens              the numbers of the tokens of each line of standard input
#include "model.h"

#include "host/host.h"

#include <stdlib.h>
#include <string.h>

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

static void print_logits(const struct model *m, const char *words)
{
    int count;
    int *tokens = numbers(m, words, &count);
    double *logits = need(malloc((size_t)m->words * sizeof *logits));
    struct reference *r = reference_open(m, count);
    reference_run(r, tokens, count, count - 1, logits);
    for (int i = 0; i < m->words; ++i)
        printf("%.9g\n", logits[i]);
    reference_close(r);
}

static void answer(const struct model *m, const char *question, int most)
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
    struct reference *r = reference_open(m, (int)count + most);
    reference_run(r, tokens, (int)count, (int)count - 1, logits);
    for (int i = 0; i < most; ++i) {
        int token = likeliest(logits, m->words);
        if (token == m->chat.end)
            break;
        const struct span bytes = token_bytes(m->tokens, token);
        fwrite(bytes.at, 1, bytes.bytes, stdout);
        fflush(stdout);
        if (i + 1 < most)
            reference_run(r, &token, 1, 0, logits);
    }
    putchar('\n');
    reference_close(r);
}

int main(int argc, char **argv)
{
    int most = 1 << 20;
    bool tokens = false;
    const char *of = NULL;
    const struct option_row options[] = {
        {.name = "most", .argument = "N", .number = &most, .least = 1, .most = 1 << 20},
        {.name = "tokens", .flag = &tokens},
        {.name = "logits", .argument = "TOKENS", .word = &of},
        {0}};

    speaker = "ask";
    const int first = options_read(argc, argv, options, false);
    if (argc - first != (tokens || of ? 1 : 2) || (tokens && of))
        fail(EXIT_USAGE,
             "usage: ask FILE QUESTION [--most N] | FILE --tokens | FILE --logits TOKENS");
    struct model *m = model_open(argv[first]);
    if (tokens)
        print_tokens(m);
    else if (of)
        print_logits(m, of);
    else
        answer(m, argv[first + 1], most);
    if (fflush(stdout) != 0)
        fail(EXIT_MACHINE, "standard output cannot be written: %m");
    model_close(m);
    return 0;
}
