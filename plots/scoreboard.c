// scoreboard.c: charts and tables of a record of labs/tools/scoreboard.
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONTESTANTS = 64 };

static struct board {
    json_t *json, *floors; // floors: floors.json beside the record, or NULL
    const char *path;
    const char *names[MAX_CONTESTANTS]; // names in the record's order, each once
    int count;
} board;

static json_t *board_shape(int shape)
{
    return object(object(board.json, board.path, "shapes"), board.path, named_shapes[shape].name);
}

static json_t *board_entry(int shape, const char *name)
{
    return json_object_get(object(board_shape(shape), board.path, "entries"), name);
}

static double board_time(int shape, const char *name, const char *mode)
{
    return positive(json_object_get(board_entry(shape, name), mode), board.path, "p50_us");
}

static double board_floor(int shape)
{
    json_t *said = board.floors == NULL ? NULL : at(board.floors, "shapes");
    return positive(json_object_get(said, named_shapes[shape].name), "floors.json",
                    "floor_and_launch");
}

// An asterisk if the clock moved by more than 5 % while the entry was timed in this mode; else "".
static const char *board_mark(int shape, const char *name, const char *mode)
{
    return json_is_true(at(json_object_get(board_entry(shape, name), mode), "clock.moved")) ? "\\*"
                                                                                            : "";
}

// Whether an entry is attention from another Python file: neither a stage nor PyTorch's.
static bool is_contestant(const char *name)
{
    for (int s = 0; s < NAMED_SHAPES; s++)
        if (json_is_true(at(board_entry(s, name), "contestant")))
            return true;
    return false;
}

// How an entry is named. A stage: "warp specialisation 13", "13 warp specialisation" or "13".
// PyTorch: "PyTorch, cuDNN" or "cuDNN". A contestant: its title, "Triton, E4M3", or its first word.
// A reader's own program: its name.
enum label_form { IN_CHART, IN_TABLE, SHORT };

static const char *board_label(const char *name, enum label_form form)
{
    static char label[128];
    static const char *const backends[][2] = {{"pytorch-flash", "flash"},
                                              {"pytorch-cudnn", "cuDNN"},
                                              {"pytorch-efficient", "efficient"},
                                              {"pytorch-math", "math"}};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strcmp(name, backends[i][0]) == 0) {
            snprintf(label, sizeof label, form == SHORT ? "%s" : "PyTorch, %s", backends[i][1]);
            return label;
        }
    for (int s = 0; s < NAMED_SHAPES && is_contestant(name); s++) {
        const char *title = words(board_entry(s, name), board.path, "title", "");
        if (*title == '\0')
            continue;
        snprintf(label, sizeof label, "%.*s", form == SHORT ? (int)strcspn(title, ",") : 100,
                 title);
        return label;
    }
    int chapter;
    if (sscanf(name, "ch%2d_", &chapter) != 1)
        snprintf(label, sizeof label, "%s", name);
    else if (form == SHORT)
        snprintf(label, sizeof label, "%d", chapter);
    else if (form == IN_TABLE)
        snprintf(label, sizeof label, "%d %s", chapter, stage_name(chapter));
    else
        snprintf(label, sizeof label, "%s  %d", stage_name(chapter), chapter);
    return label;
}

// Reads a record of labs/tools/scoreboard, and the contestants that have a time.
static void load_board(const char *path)
{
    board = (struct board){.json = load(path), .path = path};
    if (strcmp(words(board.json, path, "kind", ""), "scoreboard") != 0)
        fail(BAD_RECORD, "%s: not what labs/tools/scoreboard writes", path);
    char *beside;
    board.floors = load_beside(path, "floors.json", &beside);
    free(beside);
    for (int s = 0; s < NAMED_SHAPES; s++) {
        const char *name;
        json_t *entry;
        json_object_foreach (object(board_shape(s), path, "entries"), name, entry) {
            bool known = isnan(board_time(s, name, "graph"));
            for (int i = 0; i < board.count; i++)
                known = known || strcmp(board.names[i], name) == 0;
            if (known)
                continue;
            if (board.count == MAX_CONTESTANTS)
                fail(BAD_RECORD, "%s: more than %d contestants", path, MAX_CONTESTANTS);
            board.names[board.count++] = name;
        }
    }
    if (board.count == 0)
        fail(NOTHING_TO_DRAW, "%s: nobody has a time", path);
}

static void unload_board(void)
{
    json_decref(board.json);
    json_decref(board.floors);
}

static bool is_pytorch(const char *name)
{
    return strncmp(name, "pytorch-", 8) == 0;
}

// Block 0: rows (position on the axis, label). Then a block for each shape: its name, PyTorch's
// best, the floor, the least and the most that is drawn (NaN: unknown); then for each contestant
// its position, graph, cold.
static void scoreboard_chart(void)
{
    double place[MAX_CONTESTANTS];
    for (int i = 0; i < board.count; i++) {
        bool theirs = is_pytorch(board.names[i]), own = is_contestant(board.names[i]);
        place[i] = i + 1 + (own ? 0.8 : theirs ? 0.4 : 0);
        printf("%g\t%s\n", place[i], board_label(board.names[i], IN_CHART));
    }
    for (int s = 0; s < NAMED_SHAPES; s++) {
        double theirs = positive(board_shape(s), board.path, "best_pytorch.p50_us");
        double floor = board_floor(s), least = NAN, most = NAN; // fmin and fmax ignore a NaN
        for (int i = 0; i < board.count; i++) {
            double graph = board_time(s, board.names[i], "graph");
            least = fmin(least, graph);
            most = fmax(most, fmax(graph, board_time(s, board.names[i], "cold")));
        }
        end_block();
        printf("%s\t%.6g\t%.6g\t%.6g\t%.6g\n", named_shapes[s].name, theirs, floor,
               isnan(least) ? NAN : fmin(least, floor), most);
        for (int i = 0; i < board.count; i++)
            printf("%g\t%.6g\t%.6g\n", place[i], board_time(s, board.names[i], "graph"),
                   board_time(s, board.names[i], "cold"));
    }
}

// Blocks for the stages, for PyTorch, and for contestants: p50 of mission, error, the p50 at which
// the label is centred, the label. Points close together share one label, which names them all.
static void accuracy_chart(void)
{
    struct point {
        double p50, error, logs; // logs: the sum of log(p50) of all points that the label names
        int named;
        char label[160];
    } points[MAX_CONTESTANTS];
    static const char *const groups[] = {"stages, by chapter", "PyTorch, half", "others, E4M3"};
    for (int group = 0; group < 3; group++) {
        int count = 0;
        for (int i = 0; i < board.count; i++) {
            const char *name = board.names[i];
            struct point p = {.p50 = board_time(1, name, "graph"),
                              .error = positive(board_entry(1, name), board.path, "rel_head")};
            int of = is_contestant(name) ? 2 : is_pytorch(name);
            if (of != group || isnan(p.p50) || isnan(p.error))
                continue;
            struct point *leader = NULL;
            for (int k = 0; k < count && leader == NULL; k++)
                if (fabs(log(p.p50 / points[k].p50)) < (group > 0 ? 0.2 : 0.35) &&
                    fabs(log(p.error / points[k].error)) < 0.4 && points[k].label[0] != '\0')
                    leader = &points[k];
            if (leader == NULL) {
                snprintf(p.label, sizeof p.label, "%s", board_label(name, SHORT));
            } else {
                size_t length = strlen(leader->label);
                snprintf(leader->label + length, sizeof leader->label - length, ", %s",
                         board_label(name, SHORT));
            }
            points[count++] = p;
            struct point *named = leader == NULL ? &points[count - 1] : leader;
            named->logs += log(p.p50);
            named->named++;
        }
        if (group > 0)
            end_block();
        printf("%s\t\t\t\n", groups[group]);
        for (int i = 0; i < count; i++)
            printf("%.6g\t%.6g\t%.6g\t%s\n", points[i].p50, points[i].error,
                   points[i].named == 0 ? points[i].p50 : exp(points[i].logs / points[i].named),
                   points[i].label);
        if (count == 0)
            puts("NaN\tNaN\tNaN\t");
    }
}

static void print_cell(double value, const char *format)
{
    if (isnan(value))
        printf(" – |");
    else
        printf(format, value);
}

static const char *time_format(double us)
{
    return us < 99.95 ? " %.2f |" : us < 999.5 ? " %.1f |" : " %.0f |";
}

// Prints the names by which the book quotes the records: "h200/scoreboard", "h200/floors".
static void print_origin(bool with_floors)
{
    const char *name = board.path + strlen(board.path);
    for (int slashes = 0; name > board.path; name--)
        if (name[-1] == '/' && ++slashes == 2)
            break;
    printf("<!-- from %.*s", (int)(strlen(name) - strlen(".json")), name);
    if (with_floors && board.floors != NULL)
        printf(" %.*s/floors", (int)strcspn(name, "/"), name);
    puts(" -->");
}

// Prints a Markdown table with a row for each contestant: p50 by graph at each shape; error and
// ratio at mission. The fastest at a shape is in bold; an asterisk marks a time during which the
// clock moved.
static void scoreboard_table(void)
{
    double best[NAMED_SHAPES];
    print_origin(true);
    printf("| |");
    for (int s = 0; s < NAMED_SHAPES; s++) {
        printf(" %s |", named_shapes[s].name);
        best[s] = INFINITY;
        for (int i = 0; i < board.count; i++)
            best[s] = fmin(best[s], board_time(s, board.names[i], "graph"));
    }
    puts(" error, 10⁻⁴ | × flash |\n|---|--:|--:|--:|--:|--:|--:|");
    for (int i = 0; i < board.count; i++) {
        const char *name = board.names[i];
        printf("| %s |", board_label(name, IN_TABLE));
        for (int s = 0; s < NAMED_SHAPES; s++) {
            double us = board_time(s, name, "graph");
            const char *bold = us == best[s] ? "**" : "";
            if (isnan(us))
                print_cell(us, "");
            else
                printf(" %s%.*f%s%s |", bold,
                       us < 99.95   ? 2
                       : us < 999.5 ? 1
                                    : 0,
                       us, bold, board_mark(s, name, "graph"));
        }
        json_t *entry = board_entry(1, name);
        double flash = board_time(1, "pytorch-flash", "graph");
        print_cell(positive(entry, board.path, "rel_head") * 1e4, " %.1f |");
        print_cell(flash / board_time(1, name, "graph"), " %.2f |");
        puts("");
    }
    if (board.floors == NULL)
        return;
    printf("| *floor and launch* |");
    for (int s = 0; s < NAMED_SHAPES; s++)
        print_cell(board_floor(s), time_format(board_floor(s)));
    puts(" | |");
}

// A contestant's entry at a shape with a kind of inputs; entries of the first kind are in the shape
// itself.
static json_t *entry_with(int shape, const char *kind, const char *name)
{
    json_t *of = board_shape(shape);
    if (strcmp(kind, words(board.json, board.path, "first_inputs", "normal")) != 0)
        of = json_object_get(object(of, board.path, "inputs"), kind);
    return json_object_get(object(of, board.path, "entries"), name);
}

// Prints a name; titles distinguish two programs of one chapter.
static void print_title(const char *name)
{
    int chapter;
    const char *title = words(board_entry(2, name), board.path, "title", name);
    if (sscanf(name, "ch%2d_", &chapter) == 1)
        printf("| %d %s |", chapter, title);
    else
        printf("| %s |", board_label(name, IN_TABLE));
}

static double inputs_time(int shape, const char *kind, const char *name)
{
    return positive(json_object_get(entry_with(shape, kind, name), "graph"), board.path, "p50_us");
}

// Prints a time with one kind of inputs; the fastest is bold, and "wrong" replaces a time that does
// not count.
static void print_inputs_time(int shape, const char *kind, const char *name)
{
    double us = inputs_time(shape, kind, name), best = INFINITY;
    for (int i = 0; i < board.count; i++)
        best = fmin(best, inputs_time(shape, kind, board.names[i]));
    const char *bold = us == best ? "**" : "";
    if (json_object_get(entry_with(shape, kind, name), "wrong"))
        printf(" wrong |");
    else if (isnan(us))
        print_cell(us, "");
    else
        printf(" %s%.*f%s |", bold, us < 99.95 ? 1 : 0, us, bold);
}

// Whether PyTorch's flash backend is faster than a program of the book at long and at huge.
static bool is_outrun(const char *name)
{
    bool slower = strncmp(name, "ch", 2) == 0;
    for (int shape = 2; shape <= 3; shape++)
        slower = slower &&
                 inputs_time(shape, "normal", name) > inputs_time(shape, "normal", "pytorch-flash");
    return slower;
}

// Prints a Markdown table in three parts: p50 by graph at long, at huge, and the error at long.
// Each has a column for each kind of inputs and a row for each contestant, except programs that
// flash outruns.
static void inputs_table(void)
{
    static const char *const kinds[] = {"normal", "peaky", "rising", "sink"};
    static const struct part {
        const char *title;
        int shape;
        bool error;
    } parts[] = {
        {"`long`, µs", 2, false}, {"`huge`, µs", 3, false}, {"`long`, error, 10⁻⁴", 2, true}};
    enum { KINDS = sizeof kinds / sizeof *kinds };

    print_origin(false);
    puts("| | normal | peaky | rising | sink |\n|---|--:|--:|--:|--:|");
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        printf("| *%s* | | | | |\n", parts[p].title);
        for (int i = 0; i < board.count; i++) {
            const char *name = board.names[i];
            if (is_outrun(name))
                continue;
            print_title(name);
            for (int k = 0; k < KINDS; k++)
                if (parts[p].error)
                    print_cell(positive(entry_with(parts[p].shape, kinds[k], name), board.path,
                                        "rel_head") *
                                   1e4,
                               " %.1f |");
                else
                    print_inputs_time(parts[p].shape, kinds[k], name);
            puts("");
        }
    }
}

// Prints a Markdown table of graph, plain and cold at small and mission; at larger shapes they
// differ little.
static void ways_table(void)
{
    static const char *const modes[] = {"graph", "plain", "cold"};
    print_origin(true);
    puts("| | small:" NBSP "graph | plain | cold | mission:" NBSP "graph | plain | cold |\n"
         "|---|--:|--:|--:|--:|--:|--:|");
    for (int i = 0; i < board.count; i++) {
        printf("| %s |", board_label(board.names[i], IN_TABLE));
        for (int s = 0; s < 2; s++)
            for (int m = 0; m < 3; m++) {
                double us = board_time(s, board.names[i], modes[m]);
                if (isnan(us))
                    print_cell(us, "");
                else
                    printf(" %.*f%s |", us < 99.95, us, board_mark(s, board.names[i], modes[m]));
            }
        puts("");
    }
    if (board.floors == NULL)
        return;
    printf("| *an empty launch* |");
    for (int s = 0; s < 2; s++)
        for (int m = 0; m < 3; m++) {
            char key[48];
            snprintf(key, sizeof key, "rates.launch_%s_us", modes[m]);
            print_cell(positive(board.floors, "floors.json", key), " %.1f |");
        }
    puts("");
}

bool print_board(const char *what, const char *path)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } boards[] = {
        {"scoreboard", scoreboard_chart},       {"accuracy", accuracy_chart},
        {"scoreboard-table", scoreboard_table}, {"ways-table", ways_table},
        {"inputs-table", inputs_table},
    };
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++)
        if (strcmp(what, boards[i].name) == 0) {
            load_board(path);
            boards[i].print();
            unload_board();
            return true;
        }
    return false;
}
