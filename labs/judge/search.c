// search.c: runs a lab's program that is a search. It runs in a box and asks for candidates through
// a pipe; answers are given and counted on this side of the pipe (labs/replay.h).
#include "judge.h"

#include "../replay.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Limits of one search: CPU time, and time by the clock; of all searches together: CPU time.
enum { SEARCH_CPU_SECONDS = 5, SEARCH_SECONDS = 20, SEARCHES_CPU_SECONDS = 120 };

static const char LATE[] = "not run: another one did not end in time";

struct searching {
    pid_t pid;
    int to, from;
};

// Starts the program with an option and a seed; `from` receives its output.
static struct searching begin(const struct submission *s, const char *option, const char *value,
                              int seed)
{
    struct box box = {.kind = BOX_RECORD, .folder = s->folder, .cpu_seconds = SEARCH_CPU_SECONDS};
    struct searching run;
    char *command[] = {"/bin/sh",
                       "-c",
                       "exec \"$0\" \"$@\" >&3",
                       text("%s/program", box_work(&box)),
                       (char *)option,
                       (char *)value,
                       "--seed",
                       text("%d", seed),
                       NULL};

    signal(SIGPIPE, SIG_IGN); // a program may have ended before it reads an answer
    run.pid = box_start(&box, command, &run.to, &run.from);
    free(command[3]);
    free(command[7]);
    return run;
}

// Ends a run, even if it has closed its pipes and goes on. Returns whether it, or all runs
// together, used up their CPU time.
static bool end(struct submission *s, struct searching *run)
{
    close(run->to);
    close(run->from);
    kill(-run->pid, SIGKILL);
    kill(run->pid, SIGKILL);
    double used = box_stop(run->pid);
    s->record_used += used;
    return used >= SEARCH_CPU_SECONDS || s->record_used > SEARCHES_CPU_SECONDS;
}

static void add_case(struct searches *all, const char *item, const char *what, int seed,
                     const char *wrong, const char *again)
{
    json_t *said = json_pack("{s:s, s:s, s:i, s:b}", "item", item, "what", what, "seed", seed,
                             "pass", !*wrong);
    char *clean = cleaned(wrong, strlen(wrong));

    if (*wrong)
        json_object_set_new(said, "why", json_string(clean));
    if (*wrong && again && strcmp(wrong, LATE) != 0)
        json_object_set_new(said, "again",
                            json_sprintf("build/student/NAME %s --seed %d", again, seed));
    json_array_append_new(all->cases, said);
    free(clean);
}

static int seed_of(uint64_t drawn)
{
    return secret_between(1, 1 << 30, drawn);
}

static int published_seed(const char *what, int i) // a seed that reports tell
{
    return seed_of(public_draw("lab %d %s seed %d", sheet.number, what, i));
}

static void look_at_children(struct submission *s, struct searches *all, bool *late)
{
    for (int i = 0; replay_parents[i]; ++i) {
        const char *parent = replay_parents[i];
        struct children c = {.count = 0};
        int seed = published_seed("children", i);
        bool spent = false;
        if (!*late) {
            struct searching run = begin(s, "--children", parent, seed);
            children_read(&c, parent, run.from, (int)ceil(wall_left(s, SEARCH_SECONDS)));
            spent = end(s, &run);
        }
        const char *wrong = *late ? LATE : c.wrong;
        *late = *late || c.late || spent;
        add_case(all, "correct", text("children of %s", parent), seed, wrong,
                 text("--children %s", parent));
    }
}

// Runs one search; returns how many candidates it asked for until it reached the elite, or
// REPLAY_MOST if it did not reach the elite or was not run.
static int search(struct submission *s, const struct landscape *l, int seed, bool *late,
                  struct game *g)
{
    game_begin(g, l);
    if (*late) {
        snprintf(g->wrong, sizeof g->wrong, "%s", LATE);
        return REPLAY_MOST;
    }
    struct searching run = begin(s, "--replay", "-", seed);
    game_play(g, run.from, run.to, (int)ceil(wall_left(s, SEARCH_SECONDS)));
    *late = end(s, &run) || g->late;
    return game_count(g);
}

struct searches search_journal(struct submission *s)
{
    struct landscape *l = need(calloc(1, sizeof *l));
    struct searches all = {.cases = json_array()};
    int counts[REPLAY_SEEDS];
    bool late = false;
    char why[512];

    if (!landscape_read(l, text("%s/%s", root, sheet.journal), why, sizeof why))
        fail(EXIT_MACHINE, "%s", why);
    look_at_children(s, &all, &late);
    for (int i = 0; i < REPLAY_SEEDS; ++i) {
        struct game g;
        int seed = published_seed("journal", i);
        counts[i] = search(s, l, seed, &late, &g);
        add_case(&all, "correct", text("a search on the journal, seed %d", seed), seed, g.wrong,
                 text("--replay %s", sheet.journal));
    }
    all.median = median_count(counts, REPLAY_SEEDS);
    all.late = late;
    free(l);
    return all;
}

struct searches search_drawn(struct submission *s, bool late)
{
    struct landscape *l = need(calloc(1, sizeof *l));
    struct searches all = {.cases = json_array()};
    int counts[REPLAY_DRAWN];

    for (int i = 0; i < REPLAY_DRAWN; ++i) {
        struct game g;
        landscape_draw(l, secret_draw("lab %d landscape %d", sheet.number, i));
        counts[i] =
            search(s, l, seed_of(secret_draw("lab %d drawn seed %d", sheet.number, i)), &late, &g);
        add_case(&all, "hidden", "a search on a drawn landscape", 0, g.wrong, NULL);
    }
    all.median = median_count(counts, REPLAY_DRAWN);
    free(l);
    return all;
}
