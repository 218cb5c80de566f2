// record.c: finds out how a submission's host code launches its kernels.
//
// The host code runs in a box, with a runtime that runs no kernel and only writes the launches
// down. It runs twice for each shape, and both answers must be the same: a submission has one
// grade, so no launch may depend on the clock, on chance or on an address. In each run the clock
// (clock.c) begins at a random date; addresses and random numbers are real. From then on, the first
// answer for a shape is what is graded. It is kept beside the compiled files, so that the same text
// is always launched in the same way.
#include "judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Limits for one record: CPU time, time by the clock, bytes of text.
enum { RECORD_CPU_SECONDS = 5, RECORD_SECONDS = 20, RECORD_BYTES_MAX = 256 << 10 };
enum { RECORDS_CPU_SECONDS = 60 }; // for all records of a submission

// ---- Lines -----------------------------------------------------------------------------------

// Reads a number up to `most` from a line; returns most + 1 if the line has no such number.
static uint64_t read_number(char **line, uint64_t most)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(*line, &end, 10);
    bool good = **line >= '0' && **line <= '9' && *end == ' ' && !errno && value <= most;
    *line = *end ? end + 1 : end;
    return good ? value : most + 1;
}

static void read_bytes(unsigned char *to, const char *digits, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        unsigned byte;
        sscanf(digits + 2 * i, "%2x", &byte);
        to[i] = (unsigned char)byte;
    }
}

static bool is_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; ++i)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return true;
}

// The most CTAs of a launch: eight for each row of the output, plus one for each thread that an L4
// can hold.
// Each CTA costs the simulator some 40 us, whatever it does.
static uint64_t most_ctas(const struct shape *shape)
{
    enum { L4_THREADS = 58 * 1536, ROW = 8 };
    return L4_THREADS + ROW * (uint64_t)(shape_outputs(shape) / HEAD_DIM);
}

static bool has_too_many_ctas(const struct recorded *l, const struct shape *shape)
{
    uint64_t left = most_ctas(shape);

    for (int i = 0; i < 3; ++i)
        left /= l->grid[i] > 0 ? l->grid[i] : 1;
    return left == 0;
}

// Reads one line of the runtime's output; the submission may have added lines of its own. A number
// that no launch can have becomes one that no GPU accepts. Returns why the launch is refused; NULL:
// it is not.
static const char *read_launch(char *line, const struct shape *shape, struct recorded *l)
{
    static const char head[] = "launch ";
    const char *name_of_args = shape->page ? "cache_args" : "attention_args";
    union kernel_args wanted, got;
    size_t bytes = args_for(&wanted, shape);

    if (strcmp(line, "other") == 0)
        return "copies from the device, or has a host function run, while it launches: what comes "
               "of that "
               "is not there to go on with";
    char *name = line + strlen(head), *space = strchr(name, ' ');
    if (strncmp(line, head, strlen(head)) != 0 || !space || space == name ||
        !is_name(name, (size_t)(space - name)))
        return "wrote its own record of its launches, and not well";
    if (space - name >= KERNEL_NAME_MAX)
        return text(
            "the name of its kernel, as the compiler makes it of its types, has more than %d "
            "characters",
            KERNEL_NAME_MAX - 1);
    memcpy(l->kernel, name, (size_t)(space - name));
    line = space + 1;
    for (int i = 0; i < 3; ++i)
        l->grid[i] = (unsigned)read_number(&line, INT32_MAX);
    for (int i = 0; i < 3; ++i)
        l->block[i] = (unsigned)read_number(&line, INT32_MAX);
    l->shared = read_number(&line, INT32_MAX);
    l->cooperative = read_number(&line, 1) == 1;
    if (has_too_many_ctas(l, shape))
        return "has more CTAs in a launch than eight for each row, and 89088 besides";
    size_t digits = strspn(line, "0123456789abcdef");
    if (line[digits] || digits % 2 || digits < 2 * bytes)
        return text("its kernel's first parameter is not one %s", name_of_args);
    if (digits / 2 - bytes > MORE_MAX)
        return text("its kernel takes more than %d bytes beside one %s", MORE_MAX, name_of_args);
    read_bytes((unsigned char *)&got, line, bytes);
    l->more_bytes = (uint32_t)(digits / 2 - bytes);
    read_bytes(l->more, line + 2 * bytes, l->more_bytes);
    if (memcmp(&got, &wanted, bytes))
        return text("does not hand on the %s that it is given, as its first parameter",
                    name_of_args);
    return NULL;
}

// Whether a line is a step, which changes memory. The runner interprets it.
static bool is_step(const char *line)
{
    return strncmp(line, "memory ", 7) == 0 || strncmp(line, "write ", 6) == 0 ||
           strncmp(line, "fill ", 5) == 0;
}

static struct recorded *take_steps(struct recorded *l, FILE *steps)
{
    l->steps = (uint32_t)ftell(steps);
    return l;
}

static const char *read_record(char *lines, bool ended_well, struct known_launches *k)
{
    char *rest = NULL;
    const char *wrong = NULL, *refused = NULL;

    FILE *steps = need(open_memstream(&k->steps, &k->steps_bytes));

    k->count = 0;
    memset(k->launches, 0, sizeof k->launches);
    for (char *line = strtok_r(lines, "\n", &rest); line && !wrong;
         line = strtok_r(NULL, "\n", &rest)) {
        if (!refused && strncmp(line, "refused ", 8) == 0)
            refused = text("a launch of it fails: %s", cleaned(line + 8, strlen(line + 8)));
        else if (is_step(line))
            fprintf(steps, "%s\n", line);
        else if (k->count == LAUNCHES_MAX)
            wrong = text("launches more than %d kernels", LAUNCHES_MAX);
        else
            wrong = read_launch(line, &k->shape, take_steps(&k->launches[k->count++], steps));
    }
    fclose(steps);
    k->steps_bytes = k->count ? k->launches[k->count - 1].steps : 0;
    // In a program that ends well, a launch may have been refused and then repeated in another way:
    // that is no error.
    return !wrong && (k->count == 0 || !ended_well) ? refused : wrong;
}

// ---- Places of a page's elements ----------------------------------------------------------------

void launches_free(struct known_launches *k)
{
    free(k->places.codes);
    free(k->places.scales);
    free(k->steps);
    k->places = (struct places){0};
    k->steps = NULL;
    k->steps_bytes = 0;
}

static bool same_places(const struct places *a, const struct places *b)
{
    size_t scales = (size_t)2 * a->page * sizeof *a->scales, codes = scales * HEAD_DIM;

    return a->page == b->page && (a->page == 0 || (memcmp(a->codes, b->codes, codes) == 0 &&
                                                   memcmp(a->scales, b->scales, scales) == 0));
}

// Reads the places of a page's elements: `count` numbers of four hexadecimal digits, which must be
// a permutation of 0 to count - 1. Returns a new array; NULL: they are not a permutation.
static uint16_t *read_order(const char *digits, size_t count)
{
    uint16_t *order = need(malloc(count * sizeof *order));
    bool *seen = need(calloc(count, sizeof *seen)), good = strlen(digits) == 4 * count;

    for (size_t i = 0; i < count && good; ++i) {
        char number[5] = {digits[4 * i], digits[4 * i + 1], digits[4 * i + 2], digits[4 * i + 3]};
        unsigned long place = strtoul(number, NULL, 16);
        good = strspn(number, "0123456789abcdef") == 4 && place < count && !seen[place];
        if (good)
            seen[place] = true;
        order[i] = (uint16_t)place;
    }
    free(seen);
    if (good)
        return order;
    free(order);
    return NULL;
}

// Reads the line of the host code's output with the bytes of scratch memory and the order of a
// page's elements. The host code has seen no tokens, so it cannot pass on results in this line.
// Returns why the line is refused, or NULL.
static const char *read_wants(char *printed, struct known_launches *k)
{
    const int page = k->shape.page;
    struct places *places = &k->places;
    static const char head[] = "cache ";
    char *rest = NULL, *line = strtok_r(printed, "\n", &rest);

    while (line && strncmp(line, head, strlen(head)) != 0)
        line = strtok_r(NULL, "\n", &rest);
    char *codes = line ? line + strlen(head) : NULL;
    k->scratch = codes ? read_number(&codes, SCRATCH_MOST) : 0;
    char *scales = codes ? strchr(codes, ' ') : NULL;
    if (!scales)
        return "does not say where a page has its codes and scales";
    if (k->scratch > SCRATCH_MOST)
        return text("wants more than %d MB of scratch memory", SCRATCH_MOST >> 20);
    *scales++ = '\0';
    places->page = page;
    places->codes = read_order(codes, (size_t)2 * page * HEAD_DIM);
    places->scales = read_order(scales, (size_t)2 * page);
    return !places->codes    ? "its code_place() does not have each place of a page once"
           : !places->scales ? "its scale_place() does not have each place of a page once"
                             : NULL;
}

// ---- Records ------------------------------------------------------------------------------------

// Runs the host code once at a shape. Returns an object with "lines", its launches, and for a cache
// "printed", its wishes; or with "wrong", why there is no answer.
static json_t *record(struct submission *s, const struct shape *shape, int run)
{
    // Any time from the beginning of 2020 to January 2093.
    uint64_t drawn = secret_draw("clock %s %d", shape->name, run) >> 3;
    char *clock = text("%llu", 1577836800000000000ull + (unsigned long long)drawn);
    struct box box = {
        .kind = BOX_RECORD, .folder = s->folder, .cpu_seconds = RECORD_CPU_SECONDS, .clock = clock};
    char *command[] = {text("%s/program", box_work(&box)), "--launch-only", "--shapes",
                       (char *)shape->name, NULL};
    struct boxed b = box_run(&box, command, wall_left(s, RECORD_SECONDS), RECORD_BYTES_MAX);
    json_t *said = json_object();

    s->record_used += b.used;
    s->record_late = s->record_late || b.late || s->record_used > RECORDS_CPU_SECONDS;
    json_object_set_new(said, "ended_well", json_boolean(b.status == 0));
    if (s->record_used > RECORDS_CPU_SECONDS)
        json_object_set_new(said, "wrong",
                            json_sprintf("its host code took more than %d s of CPU time in all",
                                         RECORDS_CPU_SECONDS));
    else if (b.late)
        json_object_update_new(
            said, json_pack("{s:o, s:b}", "wrong",
                            json_sprintf("its host code did not end within %d s", RECORD_SECONDS),
                            "late", true));
    else if (b.chatty)
        json_object_set_new(said, "wrong", json_string("its host code writes without end"));
    else if (b.lines.size == 0)
        json_object_set_new(
            said, "wrong",
            b.status > 128 && b.status <= 128 + 64
                ? json_sprintf("its host code crashed (%s)", strsignal(b.status - 128))
                : json_string("its host code launches no kernel"));
    else if (json_object_set_new(said, "lines", json_stringn(b.lines.bytes, b.lines.size)) ||
             (shape->page &&
              json_object_set_new(said, "printed", json_stringn(b.out.bytes, b.out.size))))
        json_object_set_new(said, "wrong",
                            json_string("wrote its own record of its launches, and not well"));
    boxed_free(&b);
    free(command[0]);
    free(clock);
    return said;
}

// Reads what record() returned, and fills in *k. Returns one line that says why the submission
// cannot be launched as recorded, or NULL.
static const char *read_said(const json_t *said, struct known_launches *k)
{
    const char *wrong = json_string_value(json_object_get(said, "wrong"));
    const char *printed = json_string_value(json_object_get(said, "printed"));
    char *lines = wrong ? NULL : text("%s", json_string_value(json_object_get(said, "lines")));

    if (!wrong)
        wrong = read_record(lines, json_is_true(json_object_get(said, "ended_well")), k);
    if (!wrong && k->count == 0)
        wrong = "its host code launches no kernel";
    free(lines);
    if (wrong || !k->shape.page)
        return wrong;
    char *wants = text("%s", printed ? printed : "");
    wrong = read_wants(wants, k);
    free(wants);
    return wrong;
}

// How two answers differ, in a few words; NULL: they do not.
static char *difference(const struct known_launches *a, const struct known_launches *b)
{
    if (a->count != b->count)
        return text("%d launches and %d", a->count, b->count);
    for (int i = 0; i < a->count; ++i) {
        const struct recorded *x = &a->launches[i], *y = &b->launches[i];
        const char *what =
            strcmp(x->kernel, y->kernel) != 0                  ? "kernel"
            : memcmp(x->grid, y->grid, sizeof x->grid) != 0    ? "grid"
            : memcmp(x->block, y->block, sizeof x->block) != 0 ? "block"
            : x->shared != y->shared                           ? "size of its shared memory"
            : x->cooperative != y->cooperative                 ? "kind of launch"
            : x->more_bytes != y->more_bytes || memcmp(x->more, y->more, x->more_bytes) != 0
                ? "parameter"
                : NULL;
        if (what)
            return text("launch %d has another %s", i + 1, what);
    }
    if (a->steps_bytes != b->steps_bytes || memcmp(a->steps, b->steps, a->steps_bytes) != 0)
        return text("what it puts into memory differs");
    return a->scratch != b->scratch || !same_places(&a->places, &b->places)
               ? text("it wants a cache to be filled in another way")
               : NULL;
}

// Runs the host code twice. If its answers differ, the submission is refused as a whole, and its
// host code is run no more.
static json_t *record_twice(struct submission *s, const struct shape *shape)
{
    struct known_launches k[2] = {{.shape = *shape}, {.shape = *shape}};
    json_t *said[2] = {record(s, shape, 0)};
    const char *wrong = json_string_value(json_object_get(said[0], "wrong"));

    if (wrong) // no answer to compare
        return said[0];
    said[1] = record(s, shape, 1);
    const char *first = read_said(said[0], &k[0]), *second = read_said(said[1], &k[1]);
    char *what = first || second ? NULL : difference(&k[0], &k[1]);
    if (!first != !second)
        what = text("one of them fails (%s)", first ? first : second);
    if (what) {
        json_object_set_new(
            said[0], "two_ways",
            json_sprintf(
                "its host code, asked twice how it launches, says two things: %s. A launch "
                "must not depend on the clock, on chance or on an address",
                what));
        free(what);
    }
    launches_free(&k[0]);
    launches_free(&k[1]);
    json_decref(said[1]);
    return said[0];
}

static void take_kept(struct submission *s)
{
    char *path = options.unsafe ? NULL : records_path(s);

    s->records = path ? json_load_file(path, 0, NULL) : NULL;
    if (!json_is_object(s->records)) {
        json_decref(s->records);
        s->records = json_object();
    }
    free(path);
}

// Drops answers that did not come in time: perhaps the machine was busy, so the next grading asks
// again.
static void drop_late(json_t *records)
{
    const char *shape;
    json_t *said;
    void *next;

    json_object_foreach_safe(records, next, shape,
                             said) if (json_is_true(json_object_get(said, "late")))
        json_object_del(records, shape);
}

void records_free(struct submission *s)
{
    char *path = s->recorded && !options.unsafe ? records_path(s) : NULL;

    drop_late(s->records);
    char *words = path ? json_dumps(s->records, JSON_COMPACT) : NULL;

    if (words)
        write_text(path, words);
    free(words);
    free(path);
    free(s->two_ways);
    json_decref(s->records);
}

bool submission_launches(struct submission *s, const struct shape *shape, struct known_launches *k,
                         char **why)
{
    if (!s->records)
        take_kept(s);
    const json_t *said = json_object_get(s->records, shape->name);
    const char *wrong = s->two_ways;
    *k = (struct known_launches){.shape = *shape};

    if (!said && !wrong && s->record_late)
        wrong = "not run: its host code did not end in time at another shape";
    if (!said && !wrong && !wall_over(s)) {
        said = record_twice(s, shape);
        s->recorded = true;
        json_object_set_new(s->records, shape->name, (json_t *)said);
    }
    if (!wrong && said)
        wrong = json_string_value(json_object_get(said, "two_ways"));
    if (said && wrong && !s->two_ways)
        s->two_ways = text("%s", wrong);
    *why = NULL;
    if (!wrong)
        wrong = said ? read_said(said, k) : (*why = wall_told(s));
    if (!wrong)
        return true;
    launches_free(k);
    *why = *why ? *why : text("%s", wrong);
    return false;
}
