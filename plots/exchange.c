// exchange.c: a real model with its attention exchanged, from a record of labs/tools/exchange.
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const ways[] = {"flash", "cudnn", "registers", "hopper"};
static const char *const names[] = {"PyTorch, flash", "PyTorch, cuDNN", "chapter 15", "chapter 18"};
enum { WAYS = sizeof ways / sizeof *ways };

static json_t *object_of(json_t *json, const char *path, const char *key)
{
    json_t *found = object(json, path, key);
    if (found == NULL)
        fail(BAD_RECORD, "%s: no %s: it is no record of labs/tools/exchange", path, key);
    return found;
}

// A block for each way of attention, with its name first: context, tokens a second, the share of
// time for attention and quantisation.
void exchange_chart(const char *path)
{
    json_t *record = load(path), *speed = object_of(record, path, "speed");
    for (int w = 0; w < WAYS; w++) {
        if (w > 0)
            end_block();
        printf("%s\t\t\n", names[w]);
        const char *context;
        json_t *said;
        json_object_foreach (speed, context, said) {
            json_t *way = object_of(said, path, ways[w]);
            printf("%d\t%.6g\t%.4g\n", atoi(context), positive(way, path, "tokens_per_s"),
                   number(way, path, "shares.attention") + number(way, path, "shares.quantise"));
        }
    }
    json_decref(record);
}

static int kind_of(const char *kind, const char *path)
{
    static const char *const kinds[] = {"attention", "quantise", "products", "rest"};
    for (int k = 0; k < (int)(sizeof kinds / sizeof *kinds); k++)
        if (strcmp(kind, kinds[k]) == 0)
            return k;
    fail(BAD_RECORD, "%s: \"%s\" is no kind of kernel", path, kind);
}

// Block 0: the rows (row, name, end in µs). Block 1: the kernels of a layer (row, begin, end, kind: 0 attention,
// 1 quantisation, 2 products, 3 the rest).
void layer_chart(const char *path)
{
    json_t *record = load(path), *layers = object_of(record, path, "timeline.layers");
    for (int block = 0; block < 2; block++) {
        if (block == 1)
            end_block();
        for (int w = 0; w < WAYS; w++) {
            json_t *kernels = at(layers, ways[w]), *kernel;
            size_t i;
            double end = NAN;
            if (!json_is_array(kernels) || json_array_size(kernels) == 0)
                fail(BAD_RECORD, "%s: no timeline.layers.%s", path, ways[w]);
            json_array_foreach (kernels, i, kernel) {
                end = json_number_value(json_array_get(kernel, 1));
                const char *kind = json_string_value(json_array_get(kernel, 2));
                if (block == 1)
                    printf("%d\t%.6g\t%.6g\t%d\n", w + 1,
                           json_number_value(json_array_get(kernel, 0)), end,
                           kind_of(kind == NULL ? "" : kind, path));
            }
            if (block == 0)
                printf("%d\t%s\t%.6g\n", w + 1, names[w], end);
        }
    }
    json_decref(record);
}
