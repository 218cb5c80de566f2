// fault.c: explains a fault that the simulator has found, with the sentence at the beginning of its
// film.
#include "lab.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *film_default; // the shape to film if the user asks for none
static int film_schedule;        // the schedule of the warps that showed the fault

// A copy of `words` with each `old` replaced by `by`; for the caller to free.
static char *exchanged(const char *words, const char *old, const char *by)
{
    char *result = text("%s", "");
    for (const char *found; *old && (found = strstr(words, old)); words = found + strlen(old))
        result = text("%s%.*s%s", result, (int)(found - words), words, by);
    return text("%s%s", result, words);
}

const char *nearby(const char *words)
{
    char here[PATH_MAX], student[PATH_MAX];
    if (lab.student && realpath(lab.student, student))
        words = exchanged(words, student, lab.student);
    if (!getcwd(here, sizeof here) || !here[1])
        return words;
    return exchanged(words, text("%s/", here), "");
}

// Three lines about the fault at a shape, as ptxsim profile --fault prints them: its kind, the
// simulator's words, a sentence. False: ptxsim finds no fault, or is not built.
static bool ask_film(const char *shape, int schedule, char *lines[3])
{
    char *ptxsim = text("%s/build/ptxsim/ptxsim", root);
    char *command[] = {ptxsim,    "profile", "--fault",     after.path, "--shapes", (char *)shape,
                       "--seeds", "0",       "--no-timing", "--quiet",  NULL};
    if (access(ptxsim, X_OK))
        return false;
    if (schedule)
        setenv("PTXSIM_SCHEDULE", text("%d", schedule), 1);
    doing("%s, what is wrong at %s", after.name, shape);
    struct output output = run(command, environment(false, "", FILM_BUDGET), RUN_SECONDS, false);
    done();
    unsetenv("PTXSIM_SCHEDULE");
    char *rest = output.out;
    for (int i = 0; i < 3; ++i)
        lines[i] = strsep(&rest, "\n");
    return output.status == 0 && lines[2] && *lines[2];
}

// Whether a kind of fault explains what the lab has seen. If the lab stopped the kernel, only an
// endless loop or a deadlock does: other faults may occur in each round of the loop. A kernel that
// ended in the lab may be stopped in a film, which has a smaller budget: that explains nothing.
static bool is_of_that(const char *kind)
{
    bool endless = strcmp(kind, "endless") == 0;
    return after.stopped ? endless || strcmp(kind, "deadlock") == 0 : !endless;
}

void explain_fault(int schedule)
{
    char *lines[3];
    const char *small = lab.shapes[0].page ? lab.shapes[0].name : "small";
    film_default = lab.film_shape;
    const char *shapes[] = {lab.film_shape, after.faulty ? after.faulty : small};
    for (int i = 0; i < 2 && !after.sentence; ++i) {
        if (!ask_film(shapes[i], schedule, lines) || !is_of_that(lines[0]))
            continue;
        after.kind = text("%s", lines[0]);
        after.words = text("%s", lines[1]);
        after.sentence = text("%s", lines[2]);
        lab.film_shape = shapes[i];
        film_schedule = schedule;
    }
}

void show_fault(void)
{
    if (!after.sentence) {
        wrap(nearby(after.fault), printf("  "), 4);
        return;
    }
    wrap(nearby(after.sentence), printf("  "), 4);
    wrap(text("(%s)", nearby(after.words)), printf("  "), 4);
    const char *student = lab.student ? text(" %s", lab.student) : "";
    const char *shape =
        strcmp(lab.film_shape, film_default) == 0 ? "" : text(" --film-shape %s", lab.film_shape);
    const char *schedule = film_schedule ? text("PTXSIM_SCHEDULE=%d ", film_schedule) : "";
    wrap(text("watch it: %s./lab%d%s --film lab%d.html%s", schedule, lab.number, student,
              lab.number, shape),
         printf("  "), 4);
}
