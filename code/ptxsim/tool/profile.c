// profile.c: prints the lines of a program with the simulator's counts, most expensive lines first;
// or writes tables for pictures of its memory banks and of its warps (plots/render picture).
//
//   ptxsim profile [OPTION...] PROGRAM [ARGUMENT...]   runs the program in the simulator
//   ptxsim profile [OPTION...] REPORT.json             reads a report of PTXSIM_REPORT
//   ptxsim profile --film FILE.html PROGRAM…           makes a page to watch one of its CTAs (film.c)
//
// Counts are averages for one launch. `hot` is a line's share of the counts of --by's unit, or of
// that unit which has the highest floor on an L4 (the appendix "A GPU in C" derives the floors).
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BANKS = 32, LABELS = 9, BINS = 440, DRAW_SECONDS = 60 };

// ---- Source text --------------------------------------------------------------------------------

struct source {
    char *name;
    char **lines; // NULL if the file cannot be read
    size_t count;
    char **labels; // for each line, the title of its chunk; or NULL
    struct source *next;
};

// The name of the chunk that a fence line begins: its title, or its id without the chapter's
// number.
static char *chunk_label(const char *fence)
{
    const char *title = strstr(fence, "title=\""), *id = strstr(fence, " #");
    if (title) {
        title += strlen("title=\"");
        return need(strndup(title, strcspn(title, "\"")));
    }
    if (!id)
        return NULL;
    id += 2;
    const char *dash = strchr(id, '-');
    return need(strndup(dash ? dash + 1 : id, strcspn(dash ? dash + 1 : id, " }")));
}

static struct source *source_read(const char *name)
{
    static struct source *sources;
    for (struct source *s = sources; s; s = s->next)
        if (strcmp(s->name, name) == 0)
            return s;
    struct source *s = need(calloc(1, sizeof *s));
    s->name = need(strdup(name));
    s->next = sources;
    sources = s;
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(name[0] == '/' || access(name, R_OK) == 0 ? name : path, "re");
    if (!file)
        return s;
    char *line = NULL, *label = NULL;
    size_t size = 0, capacity = 0;
    for (ssize_t length; (length = getline(&line, &size, file)) >= 0;) {
        if (length && line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (s->count + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : 256;
            s->lines = need(realloc(s->lines, capacity * sizeof *s->lines));
            s->labels = need(realloc(s->labels, capacity * sizeof *s->labels));
        }
        if (strncmp(line, "```", 3) == 0) {
            free(label);
            label = strchr(line, '{') ? chunk_label(line) : NULL;
        }
        s->labels[s->count] = label ? need(strdup(label)) : NULL;
        s->lines[s->count++] = need(strdup(line));
    }
    free(line);
    free(label);
    fclose(file);
    return s;
}

static const char *source_text(const char *name, int line)
{
    const struct source *s = source_read(name);
    if (line < 1 || (size_t)line > s->count)
        return "";
    const char *text = s->lines[line - 1];
    return text + strspn(text, " \t");
}

static const char *source_label(const char *name, int line)
{
    const struct source *s = source_read(name);
    if (line >= 1 && (size_t)line <= s->count && s->labels[line - 1])
        return s->labels[line - 1];
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

// Bytes of the first `most` characters of a UTF-8 text, or of all if it has fewer; *shown gets the
// number of these characters.
static int start_of(const char *text, int most, int *shown)
{
    int bytes = 0;
    for (*shown = 0; text[bytes] && *shown < most; ++*shown)
        do
            ++bytes;
        while ((text[bytes] & 0xc0) == 0x80);
    return bytes;
}

// "03" for chapters/03-wmma-scores.md; for others the file's name without its folder.
static const char *short_name(const char *name)
{
    static char text[256];
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    int digits = (int)strspn(base, "0123456789"), shown;
    snprintf(text, sizeof text, "%.*s",
             digits && base[digits] == '-' ? digits : start_of(base, 40, &shown), base);
    return text;
}

// ---- The table ----------------------------------------------------------------------------------

// Writes a number with at most four digits: "1235k" for 1234567.
static const char *short_number(double x)
{
    static char texts[8][16];
    static int turn;
    char *text = texts[turn++ % 8];
    static const char units[] = " kMGTP";
    int unit = 0;
    while (x >= 9999.5 && units[unit + 1])
        x /= 1000, ++unit;
    if (unit == 0)
        snprintf(text, 16, "%.0f", x);
    else
        snprintf(text, 16, "%.*f%c", x < 99.95 ? 1 : 0, x, units[unit]);
    return text;
}

static const struct {
    const char *unit, *what;
    const char *counters[3];
} units[] = {
    {"tensor", "tensor operations", {"tensor_flops"}},
    {"exp", "special functions", {"mufu_threads"}},
    {"shared",
     "shared-memory wavefronts",
     {"shared_load_wavefronts", "shared_store_wavefronts", "shared_atomic_wavefronts"}},
    {"issue", "instructions", {"warp_instructions"}},
    {"dram", "global sectors", {"global_load_sectors", "global_store_sectors"}},
};
enum { UNITS = sizeof units / sizeof *units };

static double unit_count(int unit, const json_t *counts)
{
    double sum = 0;
    for (int i = 0; i < 3 && units[unit].counters[i]; ++i)
        sum += number_or(counts, units[unit].counters[i], 0);
    return sum;
}

struct hot_line {
    const json_t *line;
    double heat, instructions;
};

static int by_heat(const void *left, const void *right)
{
    const struct hot_line *a = left, *b = right;
    if (a->heat != b->heat)
        return a->heat < b->heat ? 1 : -1;
    if (a->instructions != b->instructions)
        return a->instructions < b->instructions ? 1 : -1;
    int order = strcmp(string_or(a->line, "file", ""), string_or(b->line, "file", ""));
    return order ? order : (int)(number_or(a->line, "line", 0) - number_or(b->line, "line", 0));
}

// Columns of the terminal; 80 if output goes elsewhere.
static int columns_here(void)
{
    struct winsize size = {0};
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col > 0 ? size.ws_col : 80;
}

static json_t *show_kernel(const json_t *kernel, int most, const char *by)
{
    const json_t *counts = json_object_get(kernel, "counts");
    const json_t *lines = json_object_get(kernel, "lines");
    const json_t *grid = json_object_get(kernel, "grid"), *block = json_object_get(kernel, "block");
    double launches = number_or(kernel, "launches", 0);
    const char *binding = string_at(json_object_get(kernel, "l4_floors_us"), "binding");
    size_t count = json_array_size(lines);
    int unit = -1;
    for (int i = 0; i < UNITS; ++i)
        if (strcmp(units[i].unit, by ? by : binding) == 0)
            unit = i;
    if (unit < 0)
        fail(EXIT_MACHINE, "no kernel's report: its binding unit is \"%s\"", binding);
    if (!(launches > 0))
        fail(EXIT_MACHINE, "no kernel's report: no launches");

    struct hot_line *hot = need(calloc(count + 1, sizeof *hot));
    double total = unit_count(unit, counts);
    for (size_t i = 0; i < count; ++i) {
        hot[i].line = json_array_get(lines, i);
        const json_t *c = json_object_get(hot[i].line, "counts");
        hot[i].heat = total > 0 ? unit_count(unit, c) / total : 0;
        hot[i].instructions = number_or(c, "warp_instructions", 0);
    }
    qsort(hot, count, sizeof *hot, by_heat);

    printf("%s: %.0f x %.0f x %.0f CTAs of %.0f threads, %s\n", string_or(kernel, "name", ""),
           json_number_value(json_array_get(grid, 0)), json_number_value(json_array_get(grid, 1)),
           json_number_value(json_array_get(grid, 2)),
           json_number_value(json_array_get(block, 0)) *
               json_number_value(json_array_get(block, 1)) *
               json_number_value(json_array_get(block, 2)),
           launches > 1 ? "mean of all launches" : "one launch");
    printf("hot: share of %s%s\n", units[unit].what,
           by ? "" : ", the unit with the highest floor on an L4");
    printf("%6s %6s %6s %7s %6s   %s\n", "hot", "instr", "waves", "confl", "sectrs", "line");
    json_t *shown = json_array();
    double rest = 1;
    for (size_t i = 0; i < count; ++i) {
        const json_t *c = json_object_get(hot[i].line, "counts");
        const char *file = string_or(hot[i].line, "file", "");
        int line = (int)whole_at(hot[i].line, "line");
        char place[280];
        snprintf(place, sizeof place, "%s:%d", short_name(file), line);
        json_array_append_new(shown, json_pack("{s:s, s:i, s:s, s:f, s:O}", "file", file, "line",
                                               line, "text", source_text(file, line), "share",
                                               hot[i].heat, "counts", c));
        if ((int)i >= most)
            continue;
        rest -= hot[i].heat;
        int shown;
        start_of(place, sizeof place, &shown);
        printf("%5.1f%% %6s %6s %7s %6s   %s%*s ", 100 * hot[i].heat,
               short_number(hot[i].instructions / launches),
               short_number((unit_count(2, c)) / launches),
               short_number((number_or(c, "shared_load_conflicts", 0) +
                             number_or(c, "shared_store_conflicts", 0) +
                             number_or(c, "shared_atomic_conflicts", 0)) /
                            launches),
               short_number(unit_count(4, c) / launches), place, shown < 7 ? 7 - shown : 0, "");
        const char *text = source_text(file, line);
        printf("%.*s", start_of(text, columns_here() - 46 - (shown > 7 ? shown - 7 : 0), &shown),
               text);
        putchar('\n');
    }
    if ((size_t)most < count)
        printf("%5.1f%% in %zu more lines\n", rest > 0 ? 100 * rest : 0, count - (size_t)most);
    json_t *result =
        json_pack("{s:s, s:f, s:s, s:O, s:o}", "kernel", string_or(kernel, "name", ""), "launches",
                  launches, "sorted_by", units[unit].unit, "counts", counts, "lines", shown);
    free(hot);
    return result;
}

// ---- Banks --------------------------------------------------------------------------------------

// Whether an instruction is at a place "LINE" or "FILE:LINE".
static bool stands_at(const json_t *insn, const char *place)
{
    const char *colon = strrchr(place, ':');
    const char *file = json_string_value(json_array_get(insn, 0));
    if (atoi(colon ? colon + 1 : place) != (int)json_integer_value(json_array_get(insn, 1)))
        return false;
    if (!colon)
        return true;
    size_t length = (size_t)(colon - place), name = strlen(file);
    return (length <= name && strncmp(file + name - length, place, length) == 0) ||
           (strlen(short_name(file)) == length && strncmp(short_name(file), place, length) == 0);
}

// Takes, among the instructions at a place, the one by which `warp` needs most wavefronts of shared
// memory, and prints its lanes and banks, in a row for each word that a lane accesses:
//   row  bank  number of words of that bank that the part accesses  part
// A part is the lanes that are served together: 32, or 16 for 8-byte, or 8 for 16-byte accesses.
static void banks_table(const json_t *trace, const char *place, int warp)
{
    const json_t *insns = json_object_get(trace, "instructions");
    const json_t *accesses = json_object_get(trace, "accesses"), *access;
    size_t index;
    long best = -1;
    double most = -1, sum = 0, last = -1;
    json_array_foreach (accesses, index, access) {
        double insn = number_or(access, "instruction", 0);
        if ((int)whole_at(access, "warp") != warp ||
            !stands_at(json_array_get(insns, (size_t)insn), place))
            continue;
        sum = insn == last ? sum + number_or(access, "wavefronts", 0)
                           : number_or(access, "wavefronts", 0);
        last = insn;
        if (sum > most) {
            most = sum;
            best = (long)insn;
        }
    }
    if (best < 0)
        fail(EXIT_MACHINE, "warp %d makes no access to shared memory at %s", warp, place);
    const json_t *insn = json_array_get(insns, (size_t)best);
    const char *file = json_string_value(json_array_get(insn, 0));
    int line = (int)json_integer_value(json_array_get(insn, 1)), least = 0, rows = 0, part = 0;
    json_array_foreach (accesses, index, access)
        if (whole_at(access, "instruction") == best && (int)whole_at(access, "warp") == warp)
            least += (int)whole_at(access, "least");
    printf("# %s:%d\t%s\t%.0f\t%d\t%s\n", file, line, json_string_value(json_array_get(insn, 3)),
           most, least, source_text(file, line));
    json_array_foreach (accesses, index, access) {
        if (whole_at(access, "instruction") != best || (int)whole_at(access, "warp") != warp)
            continue;
        const json_t *lanes = json_object_get(access, "lanes");
        int bytes = (int)whole_at(access, "bytes"), words = bytes > 4 ? bytes / 4 : 1;
        int together = (int)json_array_size(lanes) / (bytes > 4 ? bytes / 4 : 1), active = 0;
        for (int lane = 0; lane < (int)json_array_size(lanes); ++lane)
            active += json_is_integer(json_array_get(lanes, (size_t)lane));
        for (int begin = 0; begin < (int)json_array_size(lanes); begin += together, ++part) {
            long wanted[128], distinct = 0;
            int depth[BANKS] = {0};
            for (int lane = begin; lane < begin + together; ++lane) {
                const json_t *at = json_array_get(lanes, (size_t)lane);
                for (int word = 0; json_is_integer(at) && word < words; ++word) {
                    long w = (long)json_integer_value(at) / 4 + word, i = 0;
                    while (i < distinct && wanted[i] != w)
                        ++i;
                    if (i == distinct && distinct < 128) {
                        wanted[distinct++] = w;
                        depth[w % BANKS]++;
                    }
                }
            }
            for (int lane = begin; lane < begin + together; ++lane) {
                const json_t *at = json_array_get(lanes, (size_t)lane);
                for (int word = 0; json_is_integer(at) && word < words; ++word) {
                    int bank = (int)(((long)json_integer_value(at) / 4 + word) % BANKS);
                    printf("%d\t%d\t%d\t%d\n", rows + lane, bank, depth[bank], part);
                }
            }
        }
        rows += active < 32 && active == 8 ? 8 : (int)json_array_size(lanes);
        if (rows >= 128)
            break;
    }
}

// ---- Time line ----------------------------------------------------------------------------------

struct label {
    const char *text;
    double steps;
};

static int by_steps(const void *left, const void *right)
{
    const struct label *a = left, *b = right;
    return a->steps < b->steps ? 1 : a->steps > b->steps ? -1 : strcmp(a->text, b->text);
}

static size_t find_label(struct label *labels, size_t *count, const char *text)
{
    for (size_t i = 0; i < *count; ++i)
        if (strcmp(labels[i].text, text) == 0)
            return i;
    if (*count == 255)
        return 254;
    labels[*count] = (struct label){.text = text};
    return (*count)++;
}

// Prints the chunks' numbers and names (0: waits at a barrier); then what each warp executes, with
// one instruction as a step: warp, from, to, chunk; then the steps at which barriers end. A picture
// has BINS columns, and each shows the chunk that has most of the column's instructions.
static void timeline_table(const json_t *trace, double from, double to)
{
    const json_t *insns = json_object_get(trace, "instructions");
    const json_t *runs = json_object_get(trace, "runs"), *run;
    int warps = (int)whole_at(trace, "warps");
    size_t index, count = 0;
    struct label labels[255];
    double end = 0;
    json_array_foreach (runs, index, run) {
        double stop = json_number_value(json_array_get(run, 2));
        end = stop > end ? stop : end;
    }
    if (to <= from || to > end)
        to = end;
    if (from >= to || warps < 1)
        fail(EXIT_MACHINE, "the trace has %.0f steps", end);
    double width = (to - from) / BINS < 1 ? 1 : (to - from) / BINS;
    int bins = (int)((to - from) / width + 0.5);
    float *heat = need(calloc((size_t)warps * (size_t)bins * 256, sizeof *heat));
    json_array_foreach (runs, index, run) {
        size_t warp = (size_t)json_integer_value(json_array_get(run, 0));
        double start = json_number_value(json_array_get(run, 1));
        double stop = json_number_value(json_array_get(run, 2));
        size_t first = (size_t)json_integer_value(json_array_get(run, 3));
        bool wait = json_is_true(json_array_get(run, 5));
        for (double step = start; step < stop; ++step) {
            int bin = (int)((step - from) / width);
            if (step < from || bin >= bins)
                continue;
            const json_t *insn =
                json_array_get(insns, wait ? first : first + (size_t)(step - start));
            size_t label = 0;
            if (!wait) {
                const char *file = json_string_value(json_array_get(insn, 0));
                int line = (int)json_integer_value(json_array_get(insn, 1));
                size_t i = find_label(labels, &count, source_label(file ? file : "", line));
                labels[i].steps++;
                label = i + 1;
            }
            heat[(warp * (size_t)bins + (size_t)bin) * 256 + label]++;
        }
    }
    struct label sorted[255];
    memcpy(sorted, labels, sizeof sorted);
    qsort(sorted, count, sizeof *sorted, by_steps);
    printf("# %s\t%.0f\t%.0f\t%d\n", string_or(trace, "kernel", ""), from, to, warps);
    printf("0\twaits at a barrier\n");
    for (size_t i = 0; i < count && i < LABELS; ++i)
        printf("%zu\t%s\n", i + 1, sorted[i].text);
    if (count > LABELS)
        printf("%d\tall else\n", LABELS + 1);
    printf("\n\n");
    for (int warp = 0; warp < warps; ++warp) {
        int shown = -1, began = 0;
        for (int bin = 0; bin <= bins; ++bin) {
            int now = -1;
            if (bin < bins) {
                const float *h = &heat[((size_t)warp * (size_t)bins + (size_t)bin) * 256];
                size_t best = 0;
                for (size_t i = 1; i <= count; ++i)
                    best = h[i] > h[best] ? i : best;
                if (h[best] > 0 && best == 0)
                    now = 0;
                else if (h[best] > 0)
                    for (now = 1; now <= LABELS; ++now)
                        if ((size_t)now <= count &&
                            strcmp(sorted[now - 1].text, labels[best - 1].text) == 0)
                            break;
            }
            if (now != shown) {
                if (shown >= 0)
                    printf("%d\t%.0f\t%.0f\t%d\n", warp, from + began * width, from + bin * width,
                           shown);
                shown = now;
                began = bin;
            }
        }
    }
    // The steps at which warp 0 passes a barrier (even if no warp had to wait there), or goes on
    // after a wait for an mbarrier.
    printf("\n\n");
    json_array_foreach (runs, index, run) {
        double stop = json_number_value(json_array_get(run, 2));
        if (json_is_true(json_array_get(run, 5)) &&
            json_integer_value(json_array_get(run, 0)) == 0 && stop >= from && stop <= to)
            printf("%.0f\n", stop);
    }
    free(heat);
}

// ---- Running ------------------------------------------------------------------------------------

// Runs plots/render to draw a table; returns its exit status.
static int draw(const char *picture, const char *table, const char *svg)
{
    char *command[] = {text("%s/plots/render", root),
                       "picture",
                       (char *)picture,
                       (char *)table,
                       (char *)svg,
                       NULL};
    struct output drawn = run(command, NULL, DRAW_SECONDS, true);
    fputs(drawn.err, stderr);
    return drawn.status;
}

static json_t *load(const char *name)
{
    json_error_t error;
    json_t *json = json_load_file(name, 0, &error);
    if (!json)
        fail(EXIT_MACHINE, "%s: %s (line %d)", name, error.text, error.line);
    if (!json_is_array(json_object_get(json, "kernels")))
        fail(EXIT_MACHINE, "%s: no report of the simulator", name);
    return json;
}

// The kernel whose `key` is `name`; if `name` is NULL, the first. Fails if there is none.
static const json_t *find_kernel(const json_t *file, const char *key, const char *name)
{
    const json_t *kernels = json_object_get(file, "kernels"), *kernel;
    size_t index;
    json_array_foreach (kernels, index, kernel)
        if (!name || strcmp(string_or(kernel, key, ""), name) == 0)
            return kernel;
    fail(EXIT_MACHINE, name ? "no kernel %s was launched" : "no kernel was launched", name);
}

void show_report(const json_t *file, const char *kernel, int lines, const char *by,
                 const char *json)
{
    json_t *shown = json_array();
    const json_t *kernels = json_object_get(file, "kernels"), *one;
    size_t index;
    find_kernel(file, "name", kernel);
    json_array_foreach (kernels, index, one)
        if (!kernel || strcmp(string_or(one, "name", ""), kernel) == 0) {
            if (json_array_size(shown))
                putchar('\n');
            json_array_append_new(shown, show_kernel(one, lines, by));
        }
    if (json) {
        json_t *all = json_pack("{s:o}", "kernels", shown);
        if (json_dump_file(all, json, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0)
            fail(EXIT_MACHINE, "%s: cannot be written", json);
    }
}

// Makes a film's page, from a recording (recorded) or from a program, which is run for it. page
// NULL: prints only three lines about the fault with which the page would open (film_say).
static void make_film(char **argv, bool recorded, const char *kernel, const char *cta, int chapter,
                      const char *page)
{
    struct film film =
        recorded ? film_load(argv[0], kernel) : film_record(argv, kernel, cta, false);
    film_must_show(&film, argv[0], kernel, cta, recorded);
    if (page)
        film_page(film.shown, film.other, argv[0], chapter, page, false);
    else
        film_say(film.shown, argv[0]);
}

static int lines = 20, warp, chapter = -1;
static const char *by, *only, *json, *banks, *shown_cta, *svg, *film;
static bool timeline, fault, help;
static double from, to; // the range of --steps; both 0: all steps

static void take_steps(const char *option, const char *value)
{
    int end = 0;
    if (sscanf(value, "%lf:%lf%n", &from, &to, &end) != 2 || value[end] || !(from < to))
        fail(EXIT_USAGE, "%s: \"%s\" is no FROM:TO", option, value);
}

static void take_values(const char *option, const char *value)
{
    (void)option;
    setenv("PTXSIM_FILM_VALUES", value, 1);
}

static const struct option_row rows[] = {
    {"lines", "N", "show N lines (default 20)", .number = &lines, .most = 1000000},
    {"by", "UNIT", "sort by tensor, exp, shared, issue or dram (default: what binds)", .word = &by},
    {"kernel", "NAME",
     "this kernel only; in a film also the beginning of its mangled name, _Z9attention",
     .word = &only},
    {"json", "FILE", "write the sorted lines as JSON, too", .word = &json},
    {"banks", "LINE",
     "instead of lines, of a program's first launch (a REPORT.json is then a\n"
     "PTXSIM_TRACE): which banks the lanes of the shared access at LINE or\n"
     "FILE:LINE touch",
     .word = &banks},
    {"warp", "N", "with --banks, of this warp (default 0)", .number = &warp, .most = 1000000},
    {"timeline", NULL,
     "instead of lines: what each warp executes or waits for, in instruction order",
     .flag = &timeline},
    {"steps", "FROM:TO", "with --timeline, a part of it", .call = take_steps},
    {"cta", "X,Y,Z", "with --banks, --timeline, --film: of this CTA (default 0,0,0)",
     .word = &shown_cta},
    {"film", "FILE.html",
     "instead of lines: a page to watch one CTA of its first launch in, step by step; of one "
     "in which the checks find a fault, unless --cta says another; --kernel too",
     .word = &film},
    {"values", "LINES",
     "in it, what the registers hold that these lines write: 164 or\nmy.cu:20, with commas between",
     .call = take_values},
    {"chapter", "N",
     "with the lessons of chapter N, 0: with none (default: of the program's\nname, chNN_)",
     .number = &chapter, .most = 1000000},
    {"fault", NULL,
     "no page: of the fault that it would open at the kind, the simulator's\n"
     "words and the page's sentence, a line each; nothing without a fault",
     .flag = &fault},
    {"svg", "FILE", "draw it with gnuplot instead of printing its table", .word = &svg},
    {"help", NULL, "this text", .flag = &help},
    {0},
};

static const char usage[] = "usage: ptxsim profile [OPTION...] PROGRAM [ARGUMENT...] | REPORT.json";

int profile_main(int argc, char **argv)
{
    speaker = "ptxsim profile";
    int first = options_read(argc, argv, rows, true);
    if (help) {
        printf(
            "%s\nLines of the source with what the PTX simulator counted there, hottest first.\n",
            usage);
        options_help(rows);
        return 0;
    }
    bool known = !by;
    for (int i = 0; by && i < UNITS; ++i)
        known |= strcmp(by, units[i].unit) == 0;
    if (!known)
        fail(EXIT_USAGE, "--by: \"%s\" is none of tensor, exp, shared, issue, dram", by);
    if (first == argc || (banks && timeline) || (svg && !banks && !timeline) ||
        ((film || fault) && (banks || timeline || by || json || (film && fault))))
        fail(EXIT_USAGE, "%s; --help lists what goes together", usage);
    const char *const outputs[] = {film, json, svg};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; ++i)
        if (outputs[i])
            must_be_writable(outputs[i]);
    const char *name = argv[first], *dot = strrchr(name, '.');
    bool picture = banks || timeline, recorded = dot && strcmp(dot, ".json") == 0;
    if (film || fault) {
        make_film(argv + first, recorded, only, shown_cta, chapter, film);
        return 0;
    }
    if (!recorded &&
        run_recorded(argv + first, picture ? "PTXSIM_TRACE" : NULL, shown_cta, false) != 0)
        fail(EXIT_MACHINE, "%s failed", name);
    json_t *file = load(recorded ? name : picture ? trace_file : report_file);
    char table[] = "/tmp/ptxsim-XXXXXX";
    if (svg) { // standard output, the table, goes to a file that plots/render draws
        int out = mkstemp(table);
        if (out < 0 || dup2(out, STDOUT_FILENO) < 0)
            fail(EXIT_MACHINE, "no temporary file: %s", strerror(errno));
        close(out);
    }
    if (picture) {
        const json_t *trace = find_kernel(file, "kernel", only);
        if (banks)
            banks_table(trace, banks, warp);
        else
            timeline_table(trace, from, to);
        fflush(stdout);
        if (svg) {
            int status = draw(banks ? "banks" : "timeline", table, svg);
            unlink(table);
            return status;
        }
        return 0;
    }
    show_report(file, only, lines, by, json);
    return 0;
}
