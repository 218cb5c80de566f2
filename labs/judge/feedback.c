// feedback.c: a result for people, and for Gradescope.
#include "judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 80 };

static const char *string(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static size_t columns_of(const char *s) // of UTF-8, without wide characters
{
    size_t n = 0;
    for (; *s; ++s)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

// Prints words broken at spaces, `indent` columns in; a word that is too long is cut into lines.
static void wrapped(FILE *to, int indent, const char *words)
{
    size_t column = 0, room = (size_t)(COLUMNS - indent);

    while (*words) {
        size_t length = strcspn(words, " \n");
        char *word = strndup(words, length);
        size_t width = columns_of(word);
        if (column > 0 && column + 1 + width > room) {
            fputc('\n', to);
            column = 0;
        }
        if (column == 0)
            fprintf(to, "%*s", indent, "");
        else
            fputc(' ', to), ++column;
        for (const char *at = word; *at;) {
            if (column == room)
                fprintf(to, "\n%*s", indent, ""), column = 0;
            do
                fputc(*at++, to);
            while (((unsigned char)*at & 0xc0) == 0x80);
            ++column;
        }
        free(word);
        words += length;
        if (*words == '\n')
            fputc('\n', to), column = 0;
        words += *words != '\0';
    }
    if (column > 0)
        fputc('\n', to);
}

static char *points(double value) // 7.5, 30
{
    return value == floor(value) ? text("%.0f", value) : text("%.1f", value);
}

static char *title(const json_t *item) // barriers <= 1536 @ small
{
    const char *limit = string(item, "limit");
    return text("%s%s%s", string(item, "name"), *limit ? " " : "", limit);
}

static const char *mark(const json_t *item)
{
    return truth(item, "by_hand")    ? "by hand"
           : truth(item, "left_out") ? "left out"
           : truth(item, "withheld") ? "withheld"
           : truth(item, "passed")   ? "ok"
                                     : "FAIL";
}

void feedback_human(const json_t *result, FILE *to)
{
    size_t index;
    json_t *item;
    const char *reason = string(result, "refused");
    bool withheld = false;

    wrapped(to, 0, text("Lab %.0f: %s", number(result, "lab"), string(result, "title")));
    wrapped(to, 0, string(result, "name"));
    fputc('\n', to);
    if (*reason) {
        wrapped(to, 2, text("REFUSED: %s.", reason));
        if (*string(result, "details"))
            wrapped(to, 4, string(result, "details"));
        fputc('\n', to);
    }
    json_array_foreach (json_object_get(result, "items"), index, item) {
        fprintf(to, "  %-44.44s %5s / %-3s  %s\n", title(item), points(number(item, "points")),
                points(number(item, "max")), mark(item));
        if (!*reason && *string(item, "said"))
            wrapped(to, 6, string(item, "said"));
        withheld = withheld || truth(item, "withheld");
    }
    if (withheld) {
        fputc('\n', to);
        wrapped(to, 2,
                "Withheld: a kernel whose results are wrong earns nothing for being small, "
                "free of races or fast. Make `correct` pass first.");
    }
    if (*string(result, "printed")) {
        fprintf(to, "\n  What its kernels printed at `small`, the first of it:\n");
        wrapped(to, 6, string(result, "printed"));
    }
    fprintf(to, "\n  %-44s %5s / %s\n", "points", points(number(result, "score")),
            points(number(result, "total")));
}

// The format of "Autograder Specifications" in Gradescope's documentation, results.json.
json_t *feedback_gradescope(const json_t *result)
{
    json_t *tests = json_array(), *item;
    size_t index;
    const char *reason = string(result, "refused");
    char *words = *reason ? text("Refused: %s.\n%s", reason, string(result, "details"))
                          : text("Lab %.0f: %s", number(result, "lab"), string(result, "title"));

    json_array_foreach (json_object_get(result, "items"), index, item) {
        if (truth(item, "by_hand") || truth(item, "left_out"))
            continue;
        const char *said = truth(item, "withheld")
                               ? "withheld: the results are wrong; make `correct` pass first"
                               : string(item, "said");
        json_array_append_new(
            tests, json_pack("{s:f, s:f, s:s, s:s, s:s, s:s, s:s, s:s}", "score",
                             number(item, "points"), "max_score", number(item, "max"), "status",
                             number(item, "points") > 0 ? "passed" : "failed", "name", title(item),
                             "number", text("%zu", index + 1), "output",
                             text("%s%s%s", string(item, "words"),
                                  *string(item, "words") ? ": " : "", said),
                             "output_format", "text", "visibility", "visible"));
    }
    return json_pack("{s:f, s:f, s:s, s:s, s:s, s:o}", "score", number(result, "score"),
                     "execution_time", number(result, "seconds"), "output", words, "output_format",
                     "text", "visibility", "visible", "tests", tests);
}

bool write_text(const char *path, const char *words)
{
    char why[4352];
    return file_write(path, words, strlen(words), why, sizeof why);
}
