// replay.h: answers chapter 14's search in place of a compiler and a GPU, for the lab (driver/) and
// the grader (judge/). A search asks for candidates by their knobs; a landscape has the answers,
// from the journal of the book's search or drawn; a game counts the questions, and checks the
// rules.
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_LATE "it does not end in time"

enum {
    REPLAY_KNOBS = 8,
    REPLAY_SETTINGS = 4608, // 2880 of them fit together
    REPLAY_MOST = 300,      // questions that a search may ask; its count if it misses the elite
    REPLAY_SEEDS = 10,      // searches on the journal
    REPLAY_DRAWN = 40,      // and on drawn landscapes
    REPLAY_LINE = 320,      // bytes of an answer
};

// What is known of each setting, by its number. The score of a timed one is in µs; in a drawn
// landscape it is just a number of that size.
struct landscape {
    enum { SETTING_UNKNOWN, SETTING_REFUSED, SETTING_TIMED } verdict[REPLAY_SETTINGS];
    double score[REPLAY_SETTINGS];
    double best; // the lowest score
};

// Reads a journal of `make tune`; false with one line in why. Settings that the journal does not
// have are unknown.
bool landscape_read(struct landscape *l, const char *path, char *why, size_t size);

// Draws a landscape in which every setting is known: each value of a knob and each pair of values
// contributes to the score, and a third is refused. The same seed gives the same landscape.
void landscape_draw(struct landscape *l, uint64_t seed);

// One search on a landscape. The elite are the settings within 2 % of the landscape's best, as the
// book's three are.
struct game {
    const struct landscape *landscape;
    bool asked_for[REPLAY_SETTINGS];
    int asked, missing; // candidates; those of them that the journal does not have
    int elite;          // the number of the first candidate of the elite; 0: none yet
    int first_64;       // the number of the first with tiles of 64 x 64; 0: none yet
    double best;        // the lowest score that was asked for; INFINITY: none
    char wrong[160];    // the first rule that was broken; empty: none
    bool late;          // its time was up before it ended, whatever rules it broke
};

void game_begin(struct game *g, const struct landscape *l);

// Answers a question, knobs as in 32-32-2-2-0-0-0-1, by a line of a journal without its newline.
// False if there is no answer: the text is not a question, or the questions exceed REPLAY_MOST.
bool game_answer(struct game *g, const char *question, char answer[REPLAY_LINE]);

// Answers the lines `ask KNOBS` that come from one pipe into another, until there are no more, or
// for so many seconds; other lines are the search's own output. It waits no longer than that for a
// search that does not read its answers. Then checks the end: a search ends by itself, after asking
// for every single change of its best. Closes neither pipe. The caller must ignore SIGPIPE.
void game_play(struct game *g, int from, int to, int seconds);

// Only the last part: checks the end.
void game_end(struct game *g);

// Candidates until the elite; REPLAY_MOST if it was not found.
int game_count(const struct game *g);

// How many candidates a random choice needs, among the settings that fit together and without
// repetition.
int random_count(const struct landscape *l, uint64_t seed);

// What mutate() makes of a parent: 500 children, in each of which one to three knobs are set anew,
// any knob, to any value.
struct children {
    int parent[REPLAY_KNOBS];
    int count;
    bool value[REPLAY_KNOBS][4]; // which values occurred
    bool several;                // whether a child had several changes
    char wrong[160];             // the first rule that they break; empty: none
    bool late;                   // their time was up
};
extern const char *const replay_parents[]; // whose children are checked; NULL after the last

// Reads the lines `child KNOBS` from a pipe, for so many seconds.
void children_read(struct children *c, const char *parent, int from, int seconds);

// The median of counts, which it sorts; for an even number, the lower of the middle two.
int median_count(int counts[], int count);

#endif
