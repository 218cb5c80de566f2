// feedback.c: writes a result as a text for people, and for Gradescope.
#include "judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 80 };
#define QUOTED "| "

static bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static size_t columns_of(const char *s) // columns of a UTF-8 text without wide characters
{
    size_t n = 0;
    for (; *s; ++s)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

struct margin {
    int left;
    const char *mark; // printed after the margin, so that no words of a submission can pass for the
                      // report's
    int indent, more; // spaces after the mark, and further ones from the second line on
};

static void begin_line(FILE *to, const struct margin *m)
{
    fprintf(to, "%*s%s%*s", m->left, "", m->mark, m->indent, "");
}

// Prints the words of one line, broken at spaces. A word that does not fit on a line continues on
// the next one.
static void wrapped_line(FILE *to, struct margin m, const char *words, size_t bytes)
{
    size_t column = 0, room = (size_t)(COLUMNS - m.left - m.indent) - strlen(m.mark);
    const char *end = words + bytes;

    if (bytes == 0)
        fputs(m.mark, to);
    while (words < end) {
        size_t length = strcspn(words, " \n");
        length = length > (size_t)(end - words) ? (size_t)(end - words) : length;
        char *word = strndup(words, length);
        size_t width = columns_of(word);
        if (column > 0 && column + 1 + width > room) {
            fputc('\n', to);
            column = 0;
            m.indent += m.more;
            room -= (size_t)m.more;
            m.more = 0;
        }
        if (column == 0)
            begin_line(to, &m);
        else
            fputc(' ', to), ++column;
        for (const char *at = word; *at;) {
            if (column == room)
                fputc('\n', to), begin_line(to, &m), column = 0;
            do
                fputc(*at++, to);
            while (((unsigned char)*at & 0xc0) == 0x80);
            ++column;
        }
        free(word);
        words += length;
        words += words < end;
    }
    fputc('\n', to);
}

static void wrapped(FILE *to, int left, const char *words)
{
    while (*words) {
        size_t length = strcspn(words, "\n");
        wrapped_line(to, (struct margin){left, "", 0, 0}, words, length);
        words += length + (words[length] == '\n');
    }
}

// Prints, with marks, what a submission printed or a compiler said about it. Lines keep their
// indentation, and a long line continues two columns further to the right, so that nested instances
// of templates can be told apart.
static void quoted_lines(FILE *to, int left, const char *lines)
{
    enum { DEEPEST = 20 };

    while (*lines) {
        size_t length = strcspn(lines, "\n"), own = strspn(lines, " ");
        int indent = (int)(own < DEEPEST ? own : DEEPEST);
        own = own < length ? own : length;
        wrapped_line(to, (struct margin){left, QUOTED, indent, 2}, lines + own, length - own);
        lines += length + (lines[length] == '\n');
    }
}

static char *points(double value) // as text: 7.5 or 30
{
    return value == floor(value) ? text("%.0f", value) : text("%.1f", value);
}

static char *title(const json_t *item) // for example "barriers <= 1536 @ small"
{
    const char *limit = string_or(item, "limit", "");
    return text("%s%s%s", string_or(item, "name", ""), *limit ? " " : "", limit);
}

static const char *mark(const json_t *item)
{
    double earned = number_or(item, "points", 0);

    return truth(item, "by_hand")                            ? "by hand"
           : truth(item, "left_out")                         ? "left out"
           : earned >= number_or(item, "max", 0)             ? "ok"
           : earned > 0                                      ? "in part"
           : !strcmp(string_or(item, "said", ""), "not run") ? "not run"
           : truth(item, "withheld")                         ? "withheld"
                                                             : "FAIL";
}

// Why items are paid less than the shares they reached: the parts of the rule of points that had an
// effect.
static char *rule_applied(const json_t *result)
{
    double correct = number_or(result, "correct", 0), aim = number_or(result, "aim", 0);
    bool has_aim = json_is_number(json_object_get(result, "aim"));
    char *words = text("%s", "");

    if (correct <= 0 && !(has_aim && number_or(result, "score", 0) > 0))
        return text("No case of `correct` is right%s: nothing else is paid yet.",
                    has_aim ? ", and the aim is not reached by work of your own" : "");
    if (has_aim && aim < 1)
        words = text("The aim is reached to %.0f %%, and so much is paid of all else. ",
                     floor(100 * aim));
    if (correct < 1)
        words = text("%s`correct` is not right in every case: %slimits and speed pay nothing yet.",
                     words, has_aim ? "an aim pays half, " : "");
    return words;
}

// Prints the failed cases of `correct`, each with the command line that repeats it. For any other
// item prints nothing, since the inputs of its cases are secret.
static void failed_cases(const json_t *result, const char *item, FILE *to)
{
    const json_t *c;
    size_t i;

    json_array_foreach (json_object_get(result, "cases"), i, c) {
        if (strcmp(string_or(c, "item", ""), item) != 0 || truth(c, "pass") ||
            strcmp(item, "correct") != 0)
            continue;
        if (*string_or(c, "what", "")) { // a search's case has its own line on how to repeat it
            wrapped(to, 6, text("%s: %s", string_or(c, "what", ""), string_or(c, "why", "")));
            if (*string_or(c, "again", ""))
                wrapped(to, 8,
                        text("again, after ./lab%.0f FILE: %s", number_or(result, "lab", 0),
                             string_or(c, "again", "")));
            continue;
        }
        const char *inputs = string_or(c, "input", ""); // a language model's case has none
        wrapped(to, 6,
                text("%s, %s%s: %s", string_or(c, "shape", ""),
                     *inputs ? inputs : string_or(c, "asked", ""), *inputs ? " inputs" : "",
                     string_or(c, "why", "")));
        if (*string_or(c, "how", ""))
            wrapped(to, 8, string_or(c, "how", ""));
        wrapped(to, 8,
                text("again: ./lab%.0f FILE --shapes %s%s%s --seeds %llu",
                     number_or(result, "lab", 0), string_or(c, "shape", ""),
                     *inputs ? " --inputs " : "", inputs,
                     strtoull(string_or(c, "seed", ""), NULL, 16)));
    }
}

// A line for a result with all points that this machine can give; it names those that need a GPU or
// a reader. NULL: the result has fewer points.
static char *full_marks(const json_t *result)
{
    const json_t *item;
    double speed = 0, written = 0;
    size_t i;

    if (number_or(result, "score", 0) < number_or(result, "total", 0))
        return NULL;
    json_array_foreach (json_object_get(result, "items"), i, item) {
        speed += truth(item, "left_out") ? number_or(item, "max", 0) : 0;
        written += truth(item, "by_hand") ? number_or(item, "max", 0) : 0;
    }
    return text("Full marks%s%s%s%s.", speed > 0 || written > 0 ? ": all that can be had here" : "",
                speed > 0 ? text(" without a GPU, which speed (%.0f points) needs", speed) : "",
                speed > 0 && written > 0 ? "," : "",
                written > 0 ? text(" before somebody reads the answers (%.0f)", written) : "");
}

// The command line with which a student films a submission's first fault.
static char *film_again(const json_t *result)
{
    const char *shape = string_or(result, "film.shape", "");
    bool usual =
        // The shape is --film-shape's default.
        strcmp(shape, "1x1x96") == 0 || strcmp(shape, "1x1x96q4p16") == 0;
    return text("./lab%.0f FILE --film film.html%s%s", number_or(result, "lab", 0),
                usual ? "" : " --film-shape ", usual ? "" : shape);
}

// Prints the first race or fault, and the place of its film.
static void tell_film(const json_t *result, FILE *to)
{
    const json_t *film = json_object_get(result, "film");
    const char *file = string_or(film, "file", "");

    if (!film)
        return;
    fputc('\n', to);
    if (json_is_string(film)) {
        wrapped(to, 2, text("Film: %s.", json_string_value(film)));
        return;
    }
    wrapped(to, 2,
            text("At %s: %s", string_or(film, "shape", ""), string_or(film, "sentence", "")));
    wrapped(to, 2, text("Watch it: %s%s%s", file, *file ? ", or " : "", film_again(result)));
}

void feedback_human(const json_t *result, FILE *to)
{
    size_t index;
    json_t *item;
    const char *reason = string_or(result, "refused", "");
    bool withheld = false;

    wrapped(to, 0,
            text("Lab %.0f: %s", number_or(result, "lab", 0), string_or(result, "title", "")));
    wrapped(to, 0, string_or(result, "name", ""));
    fputc('\n', to);
    if (*reason) {
        wrapped(to, 2,
                text("%s: %s.", truth(result, "not_graded") ? "NOT GRADED" : "REFUSED", reason));
        quoted_lines(to, 4, string_or(result, "details", ""));
        fputc('\n', to);
    }
    if (*string_or(result, "book_program", "")) {
        wrapped(to, 2, text("This is the book's: %s.", string_or(result, "book_program", "")));
        fputc('\n', to);
    }
    if (*string_or(result, "stopped", "") && !*reason) {
        wrapped(to, 2, text("STOPPED: it %s.", string_or(result, "stopped", "")));
        fputc('\n', to);
    }
    json_array_foreach (json_object_get(result, "items"), index, item) {
        fprintf(to, "  %-50.50s %5s / %-3s  %s\n", title(item),
                points(number_or(item, "points", 0)), points(number_or(item, "max", 0)),
                mark(item));
        if (!*reason && *string_or(item, "said", ""))
            wrapped(to, 6, string_or(item, "said", ""));
        if (!*reason)
            failed_cases(result, string_or(item, "name", ""), to);
        withheld = withheld || truth(item, "withheld");
    }
    if (withheld) {
        fputc('\n', to);
        wrapped(to, 2, rule_applied(result));
    }
    if (*string_or(result, "printed", "")) {
        fprintf(to, "\n  What its kernels printed at `%s`, the first of it:\n", sheet.shapes[0]);
        quoted_lines(to, 6, string_or(result, "printed", ""));
    }
    tell_film(result, to);
    if (*string_or(result, "remark", "")) {
        fputc('\n', to);
        wrapped(to, 2, text("Remark: %s", string_or(result, "remark", "")));
    }
    fprintf(to, "\n  %-50s %5s / %s\n", "points", points(number_or(result, "score", 0)),
            points(number_or(result, "total", 0)));
    if (*string_or(result, "regraded", ""))
        wrapped(to, 2,
                text("Graded anew: %s. All else is as before.", string_or(result, "regraded", "")));
    char *full = full_marks(result);
    if (full)
        wrapped(to, 2, full);
}

// ---- Gradescope ---------------------------------------------------------------------------------

static const char *const whens[] = {"visible", "hidden", "after_due_date", "after_published"};

// When students see an item in Gradescope, according to --visibility.
static const char *visibility_of(const char *name)
{
    const char *at = options.visibility;

    for (size_t length; at && *at; at += length, at += *at == ',') {
        length = strcspn(at, ",");
        size_t key = strcspn(at, "=");
        if (key == strlen(name) && strncmp(at, name, key) == 0)
            for (size_t i = 0; i < sizeof whens / sizeof *whens; ++i)
                if (length == key + 1 + strlen(whens[i]) &&
                    strncmp(at + key + 1, whens[i], strlen(whens[i])) == 0)
                    return whens[i];
    }
    return whens[0];
}

void check_visibility(void)
{
    const char *at = options.visibility;

    for (size_t length; at && *at; at += length, at += *at == ',') {
        bool item = false, when = false;
        length = strcspn(at, ",");
        size_t key = strcspn(at, "=");
        for (int i = 0; i < sheet.count; ++i)
            item = item || (strlen(sheet.items[i].name) == key &&
                            strncmp(at, sheet.items[i].name, key) == 0);
        for (size_t i = 0; i < sizeof whens / sizeof *whens; ++i)
            when = when || (length == key + 1 + strlen(whens[i]) &&
                            strncmp(at + key + 1, whens[i], strlen(whens[i])) == 0);
        if (!item || !when)
            fail(EXIT_USAGE,
                 "--visibility: \"%.*s\" is not an item of lab %d, =, and visible, hidden, "
                 "after_due_date or after_published",
                 (int)length, at, sheet.number);
    }
}

// The speed on a GPU, if it was measured, for a leaderboard that students may choose to join.
static json_t *leaderboard(const json_t *result)
{
    const json_t *us = json_object_get(json_object_get(result, "speed"), "us");

    return us ? json_pack("[{s:s, s:f, s:s}]", "name", "microseconds", "value",
                          json_number_value(us), "order", "asc")
              : json_array();
}

// Marks each line of a text; for the caller to free.
static char *quoted(const char *lines)
{
    char *marked = text("%s", "");

    while (*lines) {
        int length = (int)strcspn(lines, "\n");
        char *more = text("%s" QUOTED "%.*s\n", marked, length, lines);
        free(marked);
        marked = more;
        lines += length + (lines[length] == '\n');
    }
    return marked;
}

// The contents of results.json, described in Gradescope's documentation, "Autograder
// Specifications".
json_t *feedback_gradescope(const json_t *result)
{
    json_t *tests = json_array(), *item;
    size_t index;
    const char *reason = string_or(result, "refused", "");
    char *words =
        *reason ? text("%s: %s.\n%s", truth(result, "not_graded") ? "Not graded" : "Refused",
                       reason, quoted(string_or(result, "details", "")))
                : text("Lab %.0f: %s", number_or(result, "lab", 0), string_or(result, "title", ""));
    const json_t *film = json_object_get(result, "film");

    if (*string_or(result, "book_program", ""))
        words = text("%s\nThis is the book's: %s.", words, string_or(result, "book_program", ""));
    if (json_is_object(film))
        words = text("%s\nAt %s: %s\nWatch it: %s", words, string_or(film, "shape", ""),
                     string_or(film, "sentence", ""), film_again(result));
    else if (film)
        words = text("%s\nFilm: %s.", words, json_string_value(film));
    if (*string_or(result, "remark", ""))
        words = text("%s\nRemark: %s", words, string_or(result, "remark", ""));

    json_array_foreach (json_object_get(result, "items"), index, item) {
        if (truth(item, "by_hand") || truth(item, "left_out"))
            continue;
        const char *said = truth(item, "withheld")
                               ? text("%s; %s", string_or(item, "said", ""), rule_applied(result))
                               : string_or(item, "said", "");
        json_array_append_new(
            tests, json_pack("{s:f, s:f, s:s, s:s, s:s, s:s, s:s, s:s}", "score",
                             number_or(item, "points", 0), "max_score", number_or(item, "max", 0),
                             "status", number_or(item, "points", 0) > 0 ? "passed" : "failed",
                             "name", title(item), "number", text("%zu", index + 1), "output",
                             text("%s%s%s", string_or(item, "words", ""),
                                  *string_or(item, "words", "") ? ": " : "", said),
                             "output_format", "text", "visibility",
                             visibility_of(string_or(item, "name", ""))));
    }
    return json_pack("{s:f, s:f, s:s, s:s, s:s, s:o, s:o}", "score", number_or(result, "score", 0),
                     "execution_time", number_or(result, "seconds", 0), "output", words,
                     "output_format", "text", "visibility", "visible", "tests", tests,
                     "leaderboard", leaderboard(result));
}
