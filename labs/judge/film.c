// film.c: makes a page to watch (code/film/) of the first race or fault of a wrong submission.
//
// The fault is looked for and filmed at public shapes and on the inputs of seed 0, as by ./labN
// FILE --film: nothing is drawn from the secret, and everybody can repeat it. A film affects no
// points. The kernels run in the runner's box, as for every case. The page is made in a box of the
// compiler's kind, since it shows the source: a #line of the submission may name any file, but in
// this box there are only the submission and files that are no secret. If anything fails, the
// report says so in a few words.
#include "judge.h"

#include <stdlib.h>
#include <string.h>

// Limits: CPU seconds of each run, and of making the page; warp instructions of a launch (the
// longest kernel, chapter 2's, takes 1.3 million at the largest of these shapes); bytes of a page.
enum { FILM_SECONDS = 20, FILM_BUDGET = 4000000, PAGE_BYTES_MAX = 2 << 20 };

enum { SHAPES = 4 };
static const char *const usual_shapes[SHAPES] = {"1x1x96", "1x1x97", "1x1x128", "1x3x129"};
static const char *const cache_shapes[SHAPES] = {"1x1x96q4p16", "1x2x97q4p32", "1x1x300q12p64",
                                                 "1x2x512q4p16"};

// Finds the number of the block that the words of a fault name; false: they name none.
static bool block_of(const char *words, unsigned cta[3])
{
    const char *block = strstr(words, ", block (");
    return block && sscanf(block, ", block (%u,%u,%u)", &cta[0], &cta[1], &cta[2]) == 3;
}

static bool ask(struct submission *s, enum verb verb, struct run_request *r, const char *steps,
                const struct grade_case *c, struct reply *reply, char **out)
{
    struct runner runner = {.box.kind = BOX_RUN};
    const struct request request = {.verb = verb};
    const void *parts[] = {r, steps, c->inputs};
    const size_t sizes[] = {sizeof *r, r->steps_bytes, input_bytes(&c->shape)};
    char *why = NULL;
    bool answered =
        runner_ask(&runner, s, &request, parts, sizes, 3, FILM_SECONDS, reply, out, &why);

    free(why);
    return answered;
}

struct found {
    char *words; // what the simulator says of the fault in a run without a film; NULL: no fault
    char *film;  // the film as JSON; NULL: it could not be made
    size_t bytes;
};

static struct found look(struct submission *s, const char *shape)
{
    struct grade_case c;
    struct run_request r = {.softmax_scale = SOFTMAX_SCALE,
                            .races = true,
                            .budget = FILM_BUDGET,
                            .threads = 1,
                            .sets = 1};
    struct reply reply = {0};
    struct found found = {0};
    struct known_launches known;
    char *out = NULL, *why = NULL;

    case_make(&c, shape, SOFTMAX_SCALE, GRADE_NORMAL, 0);
    r.shape = c.shape;
    bool known_how = submission_launches(s, &c.shape, &known, &why);
    if (known_how) {
        r.launch_count = known.count;
        r.scratch = known.scratch;
        r.steps_bytes = known.steps_bytes;
        memcpy(r.launches, known.launches, sizeof r.launches);
        if (sheet.cache)
            case_lay_out(&c, &known.places, false);
    }
    if (known_how && ask(s, VERB_RUN, &r, known.steps, &c, &reply, &out)) {
        const char *words = reply.races                                             ? reply.race
                            : reply.verdict == FAULTED && reply.fault != FAULT_NONE ? reply.text
                                                                                    : NULL;
        const char *ours = words ? strstr(words, " (PTXSIM_") : NULL; // hints about settings are of
                                                                      // no use to the reader
        if (words)
            found.words = cleaned(words, ours ? (size_t)(ours - words) : strlen(words));
    }
    free(out);
    if (found.words) {
        block_of(found.words, r.cta); // if the words name no block, films block (0,0,0)
        if (ask(s, VERB_FILM, &r, known.steps, &c, &reply, &out) && reply.bytes > 0) {
            found.film = out;
            found.bytes = reply.bytes;
        } else {
            free(out);
        }
    }
    free(why);
    launches_free(&known);
    case_free(&c);
    return found;
}

// Makes the page of a film. *sentence is about the fault at which the film opens: the second line
// that making the page prints or, if that is missing, as for a stopped loop, the simulator's words.
static bool make_page(struct submission *s, const struct found *found, char **sentence, char **page)
{
    struct box box = {.kind = BOX_COMPILE, .folder = s->folder, .cpu_seconds = FILM_SECONDS};
    char *name = text("lab%d.json", sheet.number);
    write_work(s, name, found->film, found->bytes, 0644);
    char *work = (char *)box_work(&box);
    char *command[] = {"/bin/sh",
                       "-c",
                       text("cd \"$1\" && cp -u \"$2\"/attention.cu . 2>&-; set -e; "
                            "\"$3\"/build/ptxsim/ptxsim profile --film page \"$2/$4\" >said 3>&-; "
                            "echo >>said; " HAND_OUT("said page")),
                       "sh",
                       options.unsafe ? work : "/tmp",
                       work,
                       (char *)box_book(),
                       name,
                       NULL};
    struct boxed b = box_run(&box, command, wall_left(s, 5 * FILM_SECONDS), PAGE_BYTES_MAX);
    char *said = NULL;
    size_t at = 0, size;
    bool made = b.status == 0 && !b.late && !b.chatty && take_file(&b.lines, &at, &said, &size) &&
                take_file(&b.lines, &at, page, &size) && strlen(*page) == size;

    if (made) {
        const char *second = strchr(said, '\n') + 1;
        second = *second && *second != '\n' ? second : found->words;
        *sentence = cleaned(second, strcspn(second, "\n"));
    }
    free(said);
    free(name);
    free(command[2]);
    boxed_free(&b);
    return made;
}

json_t *film_of(struct submission *s)
{
    struct found found = {0};
    char *sentence = NULL, *page = NULL;
    json_t *made = NULL;
    const char *const *shapes = sheet.cache ? cache_shapes : usual_shapes;
    size_t i = 0;

    while (i < SHAPES && !(found = look(s, shapes[i])).words)
        ++i;
    if (!found.words)
        return NULL;
    if (found.film && make_page(s, &found, &sentence, &page))
        made = json_pack("{s:s, s:s, s:s}", "shape", shapes[i], "sentence", sentence, "page", page);
    free(found.film);
    free(found.words);
    free(sentence);
    free(page);
    return made ? made : json_string("failed");
}

void film_take(json_t *result, const char *path)
{
    json_t *film = json_object_get(result, "film");
    const char *page = json_string_value(json_object_get(film, "page"));
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (page && path && write_text(path, page))
        json_object_set_new(film, "file", json_string(slash ? slash + 1 : path));
    json_object_del(film, "page");
}
