// cache.c: a cache of keys and values in memory, in pages whose order is random.
#include <stdlib.h>
#include <string.h>

#include "workbench.h"

// A slot without a token may contain anything. Here it contains NaN, as a code and as a scale.
enum { NOBODYS = 0xff };

static uint64_t next_drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005 + 1442695040888963407; // Knuth's generator
    return *state >> 33;
}

// Gives out all pages in a random order; the pages that short sequences do not need belong to no
// sequence.
static void draw_table(const struct problem *problem, int max_pages, int *table)
{
    const struct shape *shape = &problem->shape;
    size_t pages = (size_t)shape->batch * max_pages;
    uint64_t state = problem->seed;

    for (size_t i = 0; i < pages; ++i)
        table[i] = (int)i;
    for (size_t i = pages - 1; i > 0; --i) {
        size_t other = next_drawn(&state) % (i + 1);
        int page = table[i];
        table[i] = table[other];
        table[other] = page;
    }
    for (int b = 0; b < shape->batch; ++b)
        for (int i = (shape_length(shape, b) - 1) / shape->page + 1; i < max_pages; ++i)
            table[(size_t)b * max_pages + i] = -1;
}

// Where in a page a program keeps the elements of K and V, and their scales.
struct places {
    int page, dim;
    int *codes[2]; // [page][dim], of CACHE_K and CACHE_V
    scale_place_fn *scale_place;
};

// Writes token t to its slot in the cache; job: sequence * heads + head.
static void put_token(const struct cache_image *image, const struct problem *problem,
                      const struct places *places, int job, int t, uint8_t *to)
{
    int heads = problem->shape.heads, page = places->page, dim = places->dim, slot = t % page;
    int in_page = image->table[(size_t)(job / heads) * image->max_pages + t / page];
    size_t block = (size_t)in_page * heads + job % heads;
    size_t token = (size_t)job * problem->shape.seq_len + t;
    const uint8_t *from[] = {problem->k_codes, problem->v_codes};
    const float *scale[] = {problem->k_scales, problem->v_scales};
    uint8_t *codes = to + block * 2 * page * dim;
    uint8_t *scales = to + image->code_bytes + block * 2 * page;

    for (int tensor = CACHE_K; tensor <= CACHE_V; ++tensor) {
        for (int d = 0; d < dim; ++d)
            codes[places->codes[tensor][slot * dim + d]] = from[tensor][token * dim + d];
        scales[places->scale_place((enum cache_tensor)tensor, slot)] =
            e8m0_for(scale[tensor][token] * E4M3_MAX);
    }
}

static void fill(const struct cache_image *image, const struct problem *problem,
                 const struct places *places)
{
    const struct shape *shape = &problem->shape;
    int jobs = shape->batch * shape->heads;

    memset(image->before, NOBODYS, image->bytes);
    memset(image->then, NOBODYS, image->bytes);
    for (int job = 0; job < jobs; ++job) {
        int b = job / shape->heads, length = shape_length(shape, b);
        int newest = shape_newest(shape, b);
        for (int t = 0; t < length; ++t) {
            put_token(image, problem, places, job, t, image->then);
            if (t < length - newest)
                put_token(image, problem, places, job, t, image->before);
        }
    }
}

bool cache_image_create(struct cache_image *image, const struct problem *problem,
                        code_place_fn *code_place, scale_place_fn *scale_place)
{
    const struct shape *shape = &problem->shape;
    int dim = shape_head_dim(shape);
    struct places places = {.page = shape->page, .dim = dim, .scale_place = scale_place};
    size_t page_codes = (size_t)places.page * (size_t)dim;
    int *codes = malloc(2 * page_codes * sizeof *codes);

    memset(image, 0, sizeof *image);
    image->max_pages = (shape->seq_len + places.page - 1) / places.page;
    size_t pages = (size_t)shape->batch * image->max_pages;
    image->code_bytes = pages * shape->heads * 2 * page_codes;
    image->bytes = image->code_bytes + image->code_bytes / (size_t)dim;
    image->table = malloc(pages * sizeof *image->table);
    image->before = malloc(image->bytes);
    image->then = malloc(image->bytes);
    bool room = codes && image->table && image->before && image->then;
    if (room) {
        for (int tensor = CACHE_K; tensor <= CACHE_V; ++tensor) {
            places.codes[tensor] = codes + tensor * page_codes;
            for (size_t i = 0; i < page_codes; ++i)
                places.codes[tensor][i] =
                    code_place((enum cache_tensor)tensor, (int)i / dim, (int)i % dim);
        }
        draw_table(problem, image->max_pages, image->table);
        fill(image, problem, &places);
    } else {
        cache_image_destroy(image);
    }
    free(codes);
    return room;
}

void cache_image_destroy(struct cache_image *image)
{
    free(image->table);
    free(image->before);
    free(image->then);
    memset(image, 0, sizeof *image);
}
