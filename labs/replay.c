// replay.c: landscapes, and games: searches on them whose questions are answered and counted.
#include "replay.h"

#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- Settings -----------------------------------------------------------------------------------

enum { BLOCK_M, BLOCK_N, WARPS_N, STAGES, PRODUCERS, PERSISTENT, FAST_EXP, SWIZZLE };

// The knobs as in ch14_search.c; fits() below is valid() there.
static const struct {
    const char *name;
    int count, values[4];
} space[REPLAY_KNOBS] = {
    {"block_m", 3, {32, 64, 128}},  {"block_n", 4, {16, 32, 64, 128}},
    {"warps_n", 3, {1, 2, 4}},      {"stages", 4, {1, 2, 3, 4}},
    {"producers", 4, {0, 1, 2, 4}}, {"persistent", 2, {0, 1}},
    {"fast_exp", 2, {0, 1}},        {"swizzle", 2, {0, 1}},
};

static bool fits(const int knob[REPLAY_KNOBS])
{
    int warps = knob[BLOCK_M] / 16 * knob[WARPS_N];
    int loading = knob[PRODUCERS] > 0 ? knob[PRODUCERS] : warps;
    return knob[BLOCK_N] % (16 * knob[WARPS_N]) == 0 && knob[BLOCK_N] % (8 * loading) == 0 &&
           warps + knob[PRODUCERS] <= 32;
}

static int place_of_value(int k, int value) // the index of a value among the knob's values; -1: it
                                            // is none of them
{
    for (int v = 0; v < space[k].count; ++v)
        if (space[k].values[v] == value)
            return v;
    return -1;
}

// The number of a setting: its values' places as digits, the last knob's as the lowest.
static int setting_of(const int place[REPLAY_KNOBS])
{
    int setting = 0;
    for (int k = 0; k < REPLAY_KNOBS; ++k)
        setting = setting * space[k].count + place[k];
    return setting;
}

static void places_of(int setting, int place[REPLAY_KNOBS], int knob[REPLAY_KNOBS])
{
    for (int k = REPLAY_KNOBS - 1; k >= 0; --k) {
        place[k] = setting % space[k].count;
        knob[k] = space[k].values[place[k]];
        setting /= space[k].count;
    }
}

static bool setting_fits(int setting)
{
    int place[REPLAY_KNOBS], knob[REPLAY_KNOBS];
    places_of(setting, place, knob);
    return fits(knob);
}

static bool read_knobs(const char *text, int knob[REPLAY_KNOBS])
{
    int end = 0;
    return strlen(text) < 80 &&
           sscanf(text, "%4d-%4d-%4d-%4d-%4d-%4d-%4d-%4d%n", &knob[0], &knob[1], &knob[2], &knob[3],
                  &knob[4], &knob[5], &knob[6], &knob[7], &end) == REPLAY_KNOBS &&
           !text[end];
}

// The setting with these knobs; -1: there is none, since knob *odd has a value that it cannot have.
static int find_setting(const int knob[REPLAY_KNOBS], int *odd)
{
    int place[REPLAY_KNOBS];
    for (int k = 0; k < REPLAY_KNOBS; ++k)
        if ((place[k] = place_of_value(k, knob[k])) < 0) {
            *odd = k;
            return -1;
        }
    return setting_of(place);
}

// ---- Landscapes ---------------------------------------------------------------------------------

static void find_best(struct landscape *l)
{
    l->best = INFINITY;
    for (int s = 0; s < REPLAY_SETTINGS; ++s)
        if (l->verdict[s] == SETTING_TIMED)
            l->best = fmin(l->best, l->score[s]);
}

static bool read_line(struct landscape *l, json_t *line)
{
    const char *knobs = json_string_value(json_object_get(line, "knobs"));
    const char *verdict = json_string_value(json_object_get(line, "verdict"));
    json_t *score = json_object_get(line, "score");
    int knob[REPLAY_KNOBS], odd;

    if (!knobs || !verdict || !json_is_number(score) || !read_knobs(knobs, knob))
        return false;
    int setting = find_setting(knob, &odd);
    if (setting < 0)
        return false;
    l->verdict[setting] = strcmp(verdict, "timed") == 0 ? SETTING_TIMED : SETTING_REFUSED;
    l->score[setting] = json_number_value(score);
    return true;
}

bool landscape_read(struct landscape *l, const char *path, char *why, size_t size)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    bool good = true;

    *l = (struct landscape){.best = INFINITY};
    if (!file) {
        snprintf(why, size, "cannot read the journal %s", path);
        return false;
    }
    for (int n = 1; good && getline(&text, &room, file) > 0; ++n) {
        json_t *line = json_loads(text, 0, NULL);
        good = n == 1 ? json_object_get(line, "search") != NULL : read_line(l, line);
        if (!good)
            snprintf(why, size, "%s:%d: not a line of a journal", path, n);
        json_decref(line);
    }
    free(text);
    fclose(file);
    find_best(l);
    if (good && !isfinite(l->best))
        snprintf(why, size, "%s: no candidate has a time", path);
    return good && isfinite(l->best);
}

static uint64_t draw(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// A number from -1 to 1, more often near 0.
static double draw_part(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 3; ++i)
        sum += (double)(draw(state) >> 11) / (double)(1ull << 53);
    return sum / 1.5 - 1;
}

// By how much, at most, one knob's value, and two knobs' values together, change the logarithm of a
// score; and the share of valid settings that is refused, as among the book's candidates.
static const double ALONE = 0.45, TOGETHER = 0.04, REFUSED = 1.0 / 3;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void draw_once(struct landscape *l, uint64_t *state)
{
    static double need[REPLAY_SETTINGS], sorted[REPLAY_SETTINGS];
    double alone[REPLAY_KNOBS][4], costs[REPLAY_KNOBS][4];
    double together[REPLAY_KNOBS][REPLAY_KNOBS][4][4];
    int fitting = 0;

    for (int k = 0; k < REPLAY_KNOBS; ++k)
        for (int v = 0; v < 4; ++v) {
            alone[k][v] = ALONE * draw_part(state);
            costs[k][v] = draw_part(state);
            for (int other = 0; other < k; ++other)
                for (int w = 0; w < 4; ++w)
                    together[k][other][v][w] = TOGETHER * draw_part(state);
        }
    for (int s = 0; s < REPLAY_SETTINGS; ++s) {
        int place[REPLAY_KNOBS], knob[REPLAY_KNOBS];
        double part = 0;
        places_of(s, place, knob);
        need[s] = 0;
        for (int k = 0; k < REPLAY_KNOBS; ++k) {
            part += alone[k][place[k]];
            need[s] += costs[k][place[k]];
            for (int other = 0; other < k; ++other)
                part += together[k][other][place[k]][place[other]];
        }
        l->score[s] = 10 * exp(part);
        l->verdict[s] = fits(knob) ? SETTING_TIMED : SETTING_UNKNOWN;
        if (fits(knob))
            sorted[fitting++] = need[s];
    }
    qsort(sorted, (size_t)fitting, sizeof *sorted, by_value);
    double most = sorted[(int)((1 - REFUSED) * fitting) - 1];
    for (int s = 0; s < REPLAY_SETTINGS; ++s)
        if (l->verdict[s] == SETTING_TIMED && need[s] > most)
            l->verdict[s] = SETTING_REFUSED;
    find_best(l);
}

// Whether a landscape makes a task: not if it refuses more than half of generation 0 of the book's
// search (`first`), or if a setting of generation 0 has a score within 10 % of the best.
static bool is_task(const struct landscape *l)
{
    static const char *const first[] = {
        "32-32-2-2-0-0-0-0", "32-32-2-2-0-0-0-1", "32-32-2-3-0-0-0-1", "32-32-2-2-0-0-1-1",
        "32-32-2-2-0-1-0-1", "32-32-2-2-1-0-0-1", "32-32-2-2-2-0-0-1", "32-32-2-3-2-0-0-1"};
    int knob[REPLAY_KNOBS], odd, timed = 0;

    for (size_t i = 0; i < sizeof first / sizeof *first; ++i) {
        read_knobs(first[i], knob);
        int setting = find_setting(knob, &odd);
        if (l->verdict[setting] != SETTING_TIMED)
            continue;
        ++timed;
        if (l->score[setting] < 1.1 * l->best)
            return false;
    }
    return timed >= 4;
}

void landscape_draw(struct landscape *l, uint64_t seed)
{
    uint64_t state = seed;

    do
        draw_once(l, &state);
    while (!is_task(l));
}

// ---- Lines of a program -------------------------------------------------------------------------

enum { TALK_MOST = 1 << 20 }; // bytes that a program may write

struct talk {
    int from;
    double end; // time at which the program has to have ended
    size_t heard, held;
    char bytes[4096];
};

static struct talk talk_begin(int from, int seconds)
{
    return (struct talk){.from = from, .end = now() + seconds};
}

// Takes the first complete line of what was read; a line that is too long is cut.
static bool take_line(struct talk *t, char line[128])
{
    char *newline = memchr(t->bytes, '\n', t->held);

    if (!newline && t->held < sizeof t->bytes)
        return false;
    size_t length = newline ? (size_t)(newline - t->bytes) : t->held;
    snprintf(line, 128, "%.*s", (int)length, t->bytes);
    t->held -= length + (newline != NULL);
    memmove(t->bytes, t->bytes + length + (newline != NULL), t->held);
    return true;
}

// Waits for the next line. False: the output has ended; or the time is up, or the output exceeds
// TALK_MOST, and `wrong` says so in one line.
static bool next_line(struct talk *t, char line[128], char *wrong, size_t size)
{
    while (!take_line(t, line)) {
        double left = t->end - now();
        struct pollfd ready = {.fd = t->from, .events = POLLIN};
        if (left <= 0 || t->heard > TALK_MOST) {
            snprintf(wrong, size, left <= 0 ? REPLAY_LATE : "it writes without end");
            return false;
        }
        if (poll(&ready, 1, (int)(1000 * left) + 1) <= 0)
            continue;
        ssize_t n = read(t->from, t->bytes + t->held, sizeof t->bytes - t->held);
        if (n <= 0)
            return false;
        t->held += (size_t)n;
        t->heard += (size_t)n;
    }
    return true;
}

// Writes an answer to a search, which perhaps does not read it. False: the search's time is up, or
// it has ended.
static bool give_answer(const struct talk *t, int to, const char *answer, size_t bytes)
{
    fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK);
    while (bytes > 0) {
        double left = t->end - now();
        struct pollfd ready = {.fd = to, .events = POLLOUT};
        if (left <= 0)
            return false;
        if (poll(&ready, 1, (int)(1000 * left) + 1) <= 0)
            continue;
        ssize_t n = write(to, answer, bytes);
        if (n <= 0 && errno != EAGAIN && errno != EINTR)
            return false;
        answer += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

// The text after a word at the beginning of a line; NULL: the line begins with another word.
static const char *after_word(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

// ---- Games --------------------------------------------------------------------------------------

void game_begin(struct game *g, const struct landscape *l)
{
    *g = (struct game){.landscape = l, .best = INFINITY};
}

static void break_rule(struct game *g, const char *what, const char *question)
{
    if (!*g->wrong)
        snprintf(g->wrong, sizeof g->wrong, "question %d, %.40s: %s", g->asked, question, what);
}

static bool in_elite(const struct landscape *l, int setting)
{
    return l->verdict[setting] == SETTING_TIMED && l->score[setting] <= 1.02 * l->best;
}

static void say(const struct landscape *l, int setting, const char *question, char *answer)
{
    static const char *const verdicts[] = {"untried", "refused", "timed"};
    static const char *const said[] = {"not in the journal", "over a limit", ""};
    int verdict = l->verdict[setting];

    snprintf(answer, REPLAY_LINE,
             "{\"knobs\": \"%s\", \"generation\": 0, \"verdict\": \"%s\", \"score\": %.17g, "
             "\"code\": \"\", \"said\": \"%s\"}",
             question, verdicts[verdict], verdict == SETTING_TIMED ? l->score[setting] : 0.0,
             said[verdict]);
}

bool game_answer(struct game *g, const char *question, char answer[REPLAY_LINE])
{
    int knob[REPLAY_KNOBS], odd = 0;

    if (g->asked == REPLAY_MOST) {
        if (!*g->wrong)
            snprintf(g->wrong, sizeof g->wrong, "it does not end: more than %d candidates",
                     REPLAY_MOST);
        return false;
    }
    ++g->asked;
    if (!read_knobs(question, knob)) {
        break_rule(g, "no setting", question);
        return false;
    }
    int setting = find_setting(knob, &odd);
    if (setting < 0) {
        char what[64];
        snprintf(what, sizeof what, "%s has no value %d", space[odd].name, knob[odd]);
        break_rule(g, what, question);
        return false;
    }
    if (!fits(knob))
        break_rule(g, "these do not fit together", question);
    if (g->asked_for[setting])
        break_rule(g, "asked for before", question);
    g->asked_for[setting] = true;
    g->missing += g->landscape->verdict[setting] == SETTING_UNKNOWN;
    if (!g->elite && in_elite(g->landscape, setting))
        g->elite = g->asked;
    if (!g->first_64 && knob[BLOCK_M] == 64 && knob[BLOCK_N] == 64)
        g->first_64 = g->asked;
    if (g->landscape->verdict[setting] == SETTING_TIMED)
        g->best = fmin(g->best, g->landscape->score[setting]);
    say(g->landscape, setting, question, answer);
    return true;
}

// A valid setting that differs in one knob, and that the search has not asked for; -1: it asked for
// all of them.
static int left_out(const struct game *g, int setting)
{
    int place[REPLAY_KNOBS], knob[REPLAY_KNOBS];

    places_of(setting, place, knob);
    for (int k = 0; k < REPLAY_KNOBS; ++k) {
        int own = place[k];
        for (int v = 0; v < space[k].count; ++v) {
            place[k] = v;
            int other = setting_of(place);
            if (v != own && setting_fits(other) && !g->asked_for[other])
                return other;
        }
        place[k] = own;
    }
    return -1;
}

void game_end(struct game *g)
{
    int out = 0;

    if (*g->wrong)
        return;
    if (isinf(g->best)) {
        snprintf(g->wrong, sizeof g->wrong, "it ended after %d candidates, none with a time",
                 g->asked);
        return;
    }
    for (int s = 0; s < REPLAY_SETTINGS; ++s) { // of several equally good settings, one is enough
        if (!g->asked_for[s] || g->landscape->verdict[s] != SETTING_TIMED ||
            g->landscape->score[s] > g->best)
            continue;
        out = left_out(g, s);
        if (out < 0)
            return;
    }
    int place[REPLAY_KNOBS], k[REPLAY_KNOBS];
    places_of(out, place, k);
    snprintf(g->wrong, sizeof g->wrong,
             "it ended after %d candidates without %d-%d-%d-%d-%d-%d-%d-%d, one change of its best",
             g->asked, k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7]);
}

void game_play(struct game *g, int from, int to, int seconds)
{
    struct talk t = talk_begin(from, seconds);
    char line[128], answer[REPLAY_LINE + 1], flood[64] = "";
    const char *question;

    while (next_line(&t, line, flood, sizeof flood)) {
        if (!(question = after_word(line, "ask ")))
            continue;
        if (!game_answer(g, question, answer))
            break;
        size_t length = strlen(answer);
        answer[length++] = '\n';
        if (!give_answer(&t, to, answer, length)) // the search has ended without reading the answer
            break;
    }
    g->late = now() >= t.end;
    if (g->late && !*g->wrong)
        snprintf(g->wrong, sizeof g->wrong, "%s", REPLAY_LATE);
    else if (*flood && !*g->wrong)
        snprintf(g->wrong, sizeof g->wrong, "%s", flood);
    game_end(g);
}

int game_count(const struct game *g)
{
    return g->elite ? g->elite : REPLAY_MOST;
}

int random_count(const struct landscape *l, uint64_t seed)
{
    int order[REPLAY_SETTINGS], fitting = 0;

    for (int s = 0; s < REPLAY_SETTINGS; ++s)
        if (setting_fits(s))
            order[fitting++] = s;
    for (int i = 0; i < fitting && i < REPLAY_MOST; ++i) {
        int at = i + (int)(draw(&seed) % (uint64_t)(fitting - i)), chosen = order[at];
        order[at] = order[i];
        order[i] = chosen;
        if (in_elite(l, chosen))
            return i + 1;
    }
    return REPLAY_MOST;
}

int median_count(int counts[], int count)
{
    for (int i = 1; i < count; ++i)
        for (int at = i; at > 0 && counts[at] < counts[at - 1]; --at) {
            int swap = counts[at];
            counts[at] = counts[at - 1];
            counts[at - 1] = swap;
        }
    return counts[(count - 1) / 2];
}

// ---- Children -----------------------------------------------------------------------------------

// Settings whose children are asked for: the first of the book's candidates, its best, a corner of
// the space, and a setting far from all of the book's candidates.
const char *const replay_parents[] = {"32-32-2-2-0-0-0-0", "64-64-2-2-0-0-0-1",
                                      "128-128-4-4-4-1-1-1", "128-16-1-3-1-1-0-0", NULL};

static void add_child(struct children *c, const char *child)
{
    int knob[REPLAY_KNOBS], changes = 0;

    ++c->count;
    if (!read_knobs(child, knob)) {
        snprintf(c->wrong, sizeof c->wrong, "child %d, %.40s, is no setting", c->count, child);
        return;
    }
    for (int k = 0; k < REPLAY_KNOBS; ++k) {
        int place = place_of_value(k, knob[k]);
        if (place < 0) {
            snprintf(c->wrong, sizeof c->wrong, "child %d, %.40s: %s has no value %d", c->count,
                     child, space[k].name, knob[k]);
            return;
        }
        c->value[k][place] = true;
        changes += knob[k] != c->parent[k];
    }
    c->several = c->several || changes > 1;
    if (changes > 3)
        snprintf(c->wrong, sizeof c->wrong, "child %d, %.40s: %d knobs are changed", c->count,
                 child, changes);
}

static void look_for_missing(struct children *c)
{
    enum { LEAST = 500 };

    if (c->count < LEAST) {
        snprintf(c->wrong, sizeof c->wrong, "%d children, not %d", c->count, LEAST);
        return;
    }
    for (int k = 0; k < REPLAY_KNOBS; ++k)
        for (int v = 0; v < space[k].count; ++v)
            if (!c->value[k][v] && !*c->wrong)
                snprintf(c->wrong, sizeof c->wrong, "none of %d children has %s = %d", c->count,
                         space[k].name, space[k].values[v]);
    if (!*c->wrong && !c->several)
        snprintf(c->wrong, sizeof c->wrong, "none of %d children has more than one change",
                 c->count);
}

void children_read(struct children *c, const char *parent, int from, int seconds)
{
    struct talk t = talk_begin(from, seconds);
    char line[128];
    const char *child;

    *c = (struct children){.count = 0};
    read_knobs(parent, c->parent);
    while (!*c->wrong && next_line(&t, line, c->wrong, sizeof c->wrong))
        if ((child = after_word(line, "child ")))
            add_child(c, child);
    c->late = now() >= t.end;
    if (!*c->wrong)
        look_for_missing(c);
}
