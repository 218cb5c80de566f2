// needle.c: queries that find their own copy among the keys, by length, from the record ch18-needle.json.
#include "series.h"

#include <stdlib.h>

// A block for each way of summing P V, with its name first: length, share of needles found, error of the worst head
// (NaN: it has none).
void needle_chart(const char *path)
{
    static const char *const ways[] = {"exact",  "half",    "one_tile",
                                       "hopper", "one_sum", "exponential"};
    json_t *record = load(path);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        json_t *way = object(object(record, path, "ways"), path, ways[w]), *said;
        if (way == NULL)
            fail(BAD_RECORD, "%s: no ways.%s: it is no record of needles", path, ways[w]);
        if (w > 0)
            end_block();
        printf("%s\t\t\n", ways[w]);
        const char *length;
        json_object_foreach (way, length, said)
            printf("%d\t%.4g\t%.4g\n", atoi(length),
                   number(said, path, "found") / positive(said, path, "of"),
                   number(said, path, "rel_head"));
    }
    json_decref(record);
}
