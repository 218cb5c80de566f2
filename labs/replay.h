// replay.h: stands in for a compiler and a GPU to answer chapter 14's search, for the lab (driver/)
// and the grader (judge/). A search asks for candidates by their knobs. A landscape has the
// answers: from the journal of the book's search, or drawn at random. A game counts the questions,
// and checks the rules.
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_LATE "it does not end in time"

enum {
    REPLAY_KNOBS = 8,
    REPLAY_SETTINGS = 4608, // of which 2880 are valid
    // Questions that a search may ask; also its count if it misses the elite.
    REPLAY_MOST = 300,
    REPLAY_SEEDS = 10, // searches on the journal
    REPLAY_DRAWN = 40, // searches on drawn landscapes
    REPLAY_LINE = 320, // bytes of an answer
};

// What is known of each setting, by its number. Scores are times in µs; in a drawn landscape,
// numbers of that size.
struct landscape {
    enum { SETTING_UNKNOWN, SETTING_REFUSED, SETTING_TIMED } verdict[REPLAY_SETTINGS];
    double score[REPLAY_SETTINGS];
    double best; // the lowest score
};

// Reads a journal of `make tune`. False: `why` has one line. Settings that the journal lacks are
// unknown.
bool landscape_read(struct landscape *l, const char *path, char *why, size_t size);

// Draws a landscape in which every valid setting is known. Each value of a knob, and each pair of
// values, contributes to the score; a third of the valid settings is refused. A seed always gives
// the same landscape.
void landscape_draw(struct landscape *l, uint64_t seed);

// One search on a landscape. The elite are the settings within 2 % of the landscape's best score,
// as the book's three best are.
struct game {
    const struct landscape *landscape;
    bool asked_for[REPLAY_SETTINGS];
    int asked, missing; // candidates asked for; those among them that the journal lacks
    int elite;          // how many questions it took to reach the elite; 0: not yet
    int first_64;       // how many questions it took to reach tiles of 64 x 64; 0: not yet
    double best;        // the lowest score so far; INFINITY: none
    char wrong[160];    // the first rule that was broken; "": none
    bool late;          // whether the search did not end in time; it may also have broken a rule
};

void game_begin(struct game *g, const struct landscape *l);

// Answers a question, knobs such as 32-32-2-2-0-0-0-1, with a line of a journal, without the
// newline. False: the question names no setting, or REPLAY_MOST have been answered; `wrong` is set.
bool game_answer(struct game *g, const char *question, char answer[REPLAY_LINE]);

// Answers lines `ask KNOBS` from one pipe into another until there are no more, or `seconds` have
// passed, even if the search does not read its answers; other lines are the search's own output.
// Then checks the end (game_end). Closes neither pipe. The caller must ignore SIGPIPE.
void game_play(struct game *g, int from, int to, int seconds);

// Checks the end: a search must end by itself, after asking for every single change of its best
// setting.
void game_end(struct game *g);

// How many questions it took to reach the elite; REPLAY_MOST: the elite was not reached.
int game_count(const struct game *g);

// How many candidates a random choice among the valid settings, without repetition, takes to reach
// the elite; at most REPLAY_MOST.
int random_count(const struct landscape *l, uint64_t seed);

// What mutate() makes of a parent: at least 500 children, in each of which one to three knobs are
// set anew, any knob, to any value.
struct children {
    int parent[REPLAY_KNOBS];
    int count;
    bool value[REPLAY_KNOBS][4]; // which values occurred in children
    bool several;                // whether a child had several changes
    char wrong[160];             // the first rule that the children break; empty: none
    bool late;                   // whether the time was up when reading ended
};
// Settings whose children are checked; NULL after the last.
extern const char *const replay_parents[];

// Reads the lines `child KNOBS` from a pipe, for at most `seconds`, and checks them.
void children_read(struct children *c, const char *parent, int from, int seconds);

// The median of counts, which it sorts; for an even number, the lower of the middle two.
int median_count(int counts[], int count);

#endif
