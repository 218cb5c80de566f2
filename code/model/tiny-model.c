// tiny-model.c: writes a small random model, for tests.
//   tiny-model FILE [--seed N] [--context N] [--words N]
// --context: how many tokens it reads, 160 by default. --words: how many tokens exist, 282 by default; tokens beyond
// these 282 occur in no text.
#include "model.h"

#include "host/host.h"

int main(int argc, char **argv)
{
    static const char usage[] = "usage: tiny-model FILE [--seed N] [--context N] [--words N]";
    int seed = 1, context = 160, words = 1;
    bool help = false;
    const struct option_row options[] = {
        {.name = "help", .flag = &help},
        {.name = "seed", .argument = "N", .number = &seed, .least = 1, .most = 1 << 30},
        {.name = "context", .argument = "N", .number = &context, .least = 1, .most = 1 << 20},
        {.name = "words", .argument = "N", .number = &words, .least = 1, .most = TINY_WORDS_MOST},
        {0}};

    speaker = "tiny-model";
    const int first = options_read(argc, argv, options, false);
    if (help)
        return puts(usage) < 0;
    if (argc != first + 1)
        fail(EXIT_USAGE, "%s", usage);
    tiny_write(argv[first], seed, context, words);
    return 0;
}
