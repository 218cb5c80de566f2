// sample.c: draws a token by chance, in double precision: the reference for chapter 23's kernel.
#include "model.h"

#include "host/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number(const char *what, const char *word, double least, double most)
{
    char *end;
    const double value = strtod(word, &end);
    if (end == word || *end || !(value >= least && value <= most))
        fail(EXIT_USAGE, "%s: \"%s\" is no number from %g to %g", what, word, least, most);
    return value;
}

struct sampling sampling_read(const char *temperature, const char *top_p, int seed)
{
    struct sampling s = {0, 1, seed < 0 ? 0 : (uint32_t)seed};
    if (!temperature && (top_p || seed >= 0))
        fail(EXIT_USAGE, "--top-p and --seed want a --temperature: without one the likeliest token "
                         "is chosen");
    if (temperature && strcmp(temperature, "0"))
        s.temperature = number("--temperature, if it is not 0", temperature, 0.01, 100);
    if (top_p)
        s.top_p = number("--top-p", top_p, 0.001, 1);
    return s;
}

uint64_t philox(uint32_t counter, uint32_t key)
{
    uint32_t low = counter, high = 0;
    for (int round = 0; round < 10; ++round) {
        const uint64_t product = UINT64_C(0xd256d193) * low;
        low = (uint32_t)(product >> 32) ^ key ^ high;
        high = (uint32_t)product;
        key += 0x9e3779b9;
    }
    return (uint64_t)high << 32 | low;
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

struct lottery lottery_of(const double *logits, int words, double temperature, double top_p)
{
    struct lottery l = {need(malloc((size_t)words * sizeof *l.weights)), words, 0, 0};
    double *order = need(malloc((size_t)words * sizeof *order)), all = 0, sum = 0, least = 0;
    const double most = logits[likeliest(logits, words)];
    for (int i = 0; i < words; ++i)
        all += order[i] = l.weights[i] = exp((logits[i] - most) / temperature);
    qsort(order, (size_t)words, sizeof *order, falling);
    for (int i = 0; i < words && sum < top_p * all; ++i)
        sum += least = order[i];
    for (int i = 0; i < words; ++i)
        if (l.weights[i] >= least) {
            l.kept += l.weights[i];
            ++l.count;
        } else {
            l.weights[i] = 0;
        }
    free(order);
    return l;
}

int lottery_draw(const struct lottery *l, uint64_t random)
{
    double left = ldexp((double)random, -64) * l->kept;
    int last = 0;
    for (int i = 0; i < l->words; ++i)
        if (l->weights[i] > 0) {
            last = i;
            if (left < l->weights[i])
                break;
            left -= l->weights[i];
        }
    return last;
}

bool lottery_fits(const struct lottery *l, uint64_t random, int token, double slack)
{
    const double drawn = ldexp((double)random, -64) * l->kept, more = slack * l->kept;
    double before = 0;
    for (int i = 0; i < token; ++i)
        before += l->weights[i];
    return l->weights[token] > 0 && drawn >= before - more &&
           drawn <= before + l->weights[token] + more;
}

int sampled(const double *logits, int words, const struct sampling *s, int place)
{
    if (s->temperature == 0)
        return likeliest(logits, words);
    struct lottery l = lottery_of(logits, words, s->temperature, s->top_p);
    const int token = lottery_draw(&l, philox((uint32_t)place, s->seed));
    free(l.weights);
    return token;
}
