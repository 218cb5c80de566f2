// replay.h: answers chapter 14's search in place of a compiler and a GPU, for the lab (driver/) and the
// grader (judge/). A search asks for candidates by their knobs; what is known of them is a landscape, the
// journal of the book's search or one that is drawn; a game counts what is asked, and holds the search to
// its rules.
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_LATE "it does not end in time"

enum {
    REPLAY_KNOBS = 8,
    REPLAY_SETTINGS = 4608, // of which 2880 fit together
    REPLAY_MOST = 300,      // candidates that a search may ask for; found never counts as this many
    REPLAY_SEEDS = 10,      // searches on the journal
    REPLAY_DRAWN = 40,      // and on landscapes that are drawn
    REPLAY_LINE = 320,      // bytes of an answer
};

// What is said of settings, by their place among all of them. The score of a timed one is in µs; in a drawn
// landscape it is a number like one.
struct landscape {
    enum { SETTING_UNKNOWN, SETTING_REFUSED, SETTING_TIMED } verdict[REPLAY_SETTINGS];
    double score[REPLAY_SETTINGS];
    double best; // score
};

// Reads a journal of `make tune`; false with one line in why. Unknown settings are not in the journal.
bool landscape_read(struct landscape *l, const char *path, char *why, size_t size);

// Draws one in which every setting is known: each value of a knob and each pair of values has a part in
// the score, and a third is refused. The same seed draws the same.
void landscape_draw(struct landscape *l, uint64_t seed);

// One search on a landscape. The elite is what is within 2 % of the landscape's best, as the book's three
// are of theirs.
struct game {
    const struct landscape *landscape;
    bool asked_for[REPLAY_SETTINGS];
    int asked, missing; // candidates; of them not in the journal
    int elite;          // the number of the first of the elite; 0: none yet
    int first_64;       // of the first with tiles of 64 x 64; 0: none yet
    double best;        // the lowest score that was asked for; INFINITY: none
    char wrong[160];    // the first rule that was broken; empty: none
    bool late;          // its time was up before it ended, whatever it had broken
};

void game_begin(struct game *g, const struct landscape *l);

// Answers a question, knobs as in 32-32-2-2-0-0-0-1, by a line of a journal without its newline. False
// where there is no answer: the text is not a question, or it is one question more than REPLAY_MOST.
bool game_answer(struct game *g, const char *question, char answer[REPLAY_LINE]);

// Answers the lines `ask KNOBS` that come from one end of a pipe into another, until there are no more, or
// for so many seconds; other lines are the search's own talk. A search that does not read its answers is
// waited for no longer than that. Then looks at what was left out: a search ends by itself, when it has
// asked for every single change of its best. Closes neither end. SIGPIPE is the caller's to ignore.
void game_play(struct game *g, int from, int to, int seconds);

// The last part of that alone.
void game_end(struct game *g);

// Candidates until the elite, REPLAY_MOST where there was none.
int game_count(const struct game *g);

// How many candidates random choice needs, among the settings that fit together and without asking
// for one twice.
int random_count(const struct landscape *l, uint64_t seed);

// What mutate makes of a parent: 500 children, each with one to three knobs set anew, of any knob and to
// any value.
struct children {
    int parent[REPLAY_KNOBS];
    int count;
    bool value[REPLAY_KNOBS][4]; // which values came up
    bool several;                // whether one had several changes
    char wrong[160];             // the first thing that they are not; empty: none
    bool late;                   // their time was up
};
extern const char *const replay_parents[]; // whose children are looked at; NULL after the last

// Reads the lines `child KNOBS` that come from a pipe, for so many seconds.
void children_read(struct children *c, const char *parent, int from, int seconds);

// The median of counts, which it sorts; of an even number the lower one of the middle two.
int median_count(int counts[], int count);

#endif
