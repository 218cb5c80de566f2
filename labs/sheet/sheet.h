// sheet.h: a lab's sheet, for its two front ends: the driver (driver/), which says the points that can be seen so far,
// and the grader (judge/), which gives them. `make tangle` makes build/labs/labNN.json of a chapter's sheet
// (code/literate/sheets.lua). The rule of points is in rule.h, what a kernel may be limited in is in resources.def.
//
//   limits.c  limits, and resources
//   facts.c   what a sheet says besides its items
//   sheet.c   items, and the share that is reached of them
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
#ifndef SHEET_H
#define SHEET_H

#include "rule.h"

#include "host/host.h"
#include "workbench/workbench.h"

// ---- Limits (limits.c) --------------------------------------------------------------------------

enum relation { NO_LIMIT, AT_MOST, AT_LEAST, EXACTLY };

struct limit { // <= 128
    enum relation relation;
    double value;
};

// Reads "<=", ">=" or "=="; false: it is none of them.
bool relation_read(const char *words, enum relation *relation);
const char *relation_words(enum relation relation); // "": no limit
bool limit_kept(double value, struct limit limit);  // NaN is within no limit

struct resource { // a row of resources.def
    enum { LABS = 1, SHEETS = 2, BOTH = LABS | SHEETS } known;
    const char *name, *title, *usual;
    double times;
    const char *image, *device;
};
extern const struct resource resources[];
extern const int resource_count;

// The row of a resource by its name, where `front_end` (LABS or SHEETS) knows it; -1: it does not.
int resource_find(const char *name, int front_end);
char *resource_names(int front_end); // all that it knows, with commas between them; new
// A resource from the "resources" of a program's record: of an image (sm_89), or, where image is NULL, of the kernel on
// the GPU at hand. NaN: the record does not have it.
double resource_recorded(const json_t *recorded, const struct resource *resource,
                         const char *image);

// What a search is counted by: the candidates that it asks for until the elite.
enum searched { ON_JOURNAL, ON_DRAWN, SEARCHED };
int searched_find(const char *name); // "candidates" or "drawn"; -1: neither

// ---- The sheet (facts.c, sheet.c) ---------------------------------------------------------------

enum { ITEMS_MAX = 32, SHEET_SHAPES_MAX = 4 };

struct item {
    const char *name, *shape, *words; // shape, words: NULL where there is none
    struct limit limit;
    double full; // of speed: the ratio from which on all points are paid; NaN: of something else
    double from; // of an aim: what the program before has; NaN: no aim
    int points;
};

struct sheet {
    int number; // of the lab
    const char *title, *program;
    const char *ending;     // of its programs, and so of submissions: "cu", or "c" of a search
    const char *journal;    // that answers a search; NULL: the program is a kernel
    const char *not_graded; // why the grader does not take it, or NULL: it does
    const char *shapes[SHEET_SHAPES_MAX]; // on which all are judged: small and mission, or caches
    int shape_count;
    int longest;         // no drawn case has more keys
    bool cache;          // they ask one
    struct p_rounding p; // how its kernels may round P
    enum mask mask;      // that they compute with
    struct item items[ITEMS_MAX];
    int count;
    const json_t *json; // all of the sheet
    const char *text;   // and as its file has it
};

// Reads a sheet; false with one line in *why, and `missing` where there is no such file.
bool sheet_read(struct sheet *sheet, const char *path, bool *missing, char **why);
bool facts_read(struct sheet *sheet, char **why); // facts.c: what is no item

bool is_aim(const struct item *item);
bool has_aims(const struct sheet *sheet);
enum pays_for pays_for(const struct item *item);

// Which share of an item's limit a value has reached, from 0 to 1; of an aim, how far it has come. NaN: 0.
double share_reached(const struct item *item, double value);
// How far the aims are reached, weighted with their points; shares: of the sheet's items. 1: there are none.
double aims_reached(const struct sheet *sheet, const double shares[]);

// What lab and grader tell of a kernel that computes in double: with how many warp instructions, and at which shape.
#define DOUBLES_WORDS                                                                              \
    "computes in double: %llu warp instructions of a launch at %s, and on an L4 one takes as "     \
    "long as 64 in float. Look for a constant without its f, 0.5 for 0.5f, and for exp() or "      \
    "sqrt() for expf() or sqrtf()."

double in_tenths(double points);
// What an item is paid for a share of what it asks for, by the rule of points.
double points_paid(const struct item *item, double share, const struct reached *reached);

#endif
