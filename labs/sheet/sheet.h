// sheet.h: a lab's sheet, for its two front ends: the driver (driver/), which tells the points that
// can be seen so far, and the grader (judge/), which gives them. `make tangle` makes
// build/labs/labNN.json from the sheet in a chapter (code/literate/sheets.lua). rule.h has the rule
// of points; resources.def has the resources that may be limited.
//
//   limits.c  limits, and resources
//   facts.c   what a sheet says apart from its items
//   sheet.c   items, and how much of them has been reached
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef SHEET_H
#define SHEET_H

#include "rule.h"

#include "host/host.h"
#include "workbench/workbench.h"

// ---- Limits (limits.c) --------------------------------------------------------------------------

enum relation { NO_LIMIT, AT_MOST, AT_LEAST, EXACTLY };

struct limit { // for example <= 128
    enum relation relation;
    double value;
};

// Reads "<=", ">=" or "=="; false: it is another word.
bool relation_read(const char *words, enum relation *relation);
const char *relation_words(enum relation relation); // "": no limit
bool limit_kept(double value, struct limit limit);  // NaN keeps no limit

struct resource { // a row of resources.def
    enum { LABS = 1, SHEETS = 2, BOTH = LABS | SHEETS } known;
    const char *name, *title, *usual;
    double times;
    const char *image, *device;
};
extern const struct resource resources[];
extern const int resource_count;

// The row of a resource by its name, if `front_end` (LABS or SHEETS) knows it; otherwise -1.
int resource_find(const char *name, int front_end);
// The names that a front end knows, with commas between them; for the caller to free.
char *resource_names(int front_end);
// A resource from "resources" in a program's record: of an image (sm_89) or, if image is NULL, of
// the kernel on this machine's GPU. NaN: the record lacks it.
double resource_recorded(const json_t *recorded, const struct resource *resource,
                         const char *image);

// The counts that judge a search: candidates that it asks for until it has reached the elite, on a
// journal or on drawn landscapes.
enum searched { ON_JOURNAL, ON_DRAWN, SEARCHED };
int searched_find(const char *name); // of "candidates" or "drawn"; -1: another name

// ---- The sheet (facts.c, sheet.c) ---------------------------------------------------------------

enum { ITEMS_MAX = 32, SHEET_SHAPES_MAX = 4 };

struct item {
    const char *name, *shape, *words; // shape, words: NULL if the sheet has none
    struct limit limit;
    // Of the item `speed`: the ratio from which on it pays all points. NaN: that is the limit's
    // ratio, or the item is another one.
    double full;
    double from; // of an aim: the count of the program of the chapter before; NaN: no aim
    int points;
};

struct sheet {
    int number; // the lab's number
    const char *title, *program;
    const char *ending;     // file ending of programs and submissions: "cu"; of searches: "c"
    const char *journal;    // the file that answers a search; NULL: a kernel's lab
    const char *not_graded; // the reason, if the lab is not graded; otherwise NULL
    const char *shapes[SHEET_SHAPES_MAX]; // public shapes: small and mission, or caches
    int shape_count;
    int longest;         // no drawn case has more keys
    bool cache;          // whether its programs compute attention over a KV cache
    bool model;          // whether its program runs a language model; the shapes are then caches
    struct p_rounding p; // how its kernels may round P
    enum mask mask;      // the mask that its kernels apply
    struct item items[ITEMS_MAX];
    int count;
    const json_t *json; // the whole sheet, parsed
    const char *text;   // the whole sheet, as the text of its file
};

// Reads a sheet. False: *why has one line, and *missing says whether there is no such file.
bool sheet_read(struct sheet *sheet, const char *path, bool *missing, char **why);
bool facts_read(struct sheet *sheet, char **why); // facts.c: reads all but the items

bool is_aim(const struct item *item);
bool has_aims(const struct sheet *sheet);
enum pays_for pays_for(const struct item *item);

// 1 if a value keeps an item's limit. Otherwise, for an aim, the part of the way from `from` to the
// limit that the value has come, or 0 if that is less than a fifth, except for the counts of a
// search; for all other items, and for NaN, 0.
double share_reached(const struct item *item, double value);
// How far the aims have been reached, weighted by their points; shares: those of all items. 1 if
// there is no aim.
double aims_reached(const struct sheet *sheet, const double shares[]);

// What lab and grader say about a kernel that computes in double: with how many warp instructions,
// at which shape.
#define DOUBLES_WORDS                                                                              \
    "computes in double: %llu warp instructions of a launch at %s, and on an L4 one takes as "     \
    "long as 64 in float. Look for a constant without its f, 0.5 for 0.5f, and for exp() or "      \
    "sqrt() for expf() or sqrtf()."

double in_tenths(double points);
// The points that an item is paid, by the rule of points, for a share of what it asks for.
double points_paid(const struct item *item, double share, const struct reached *reached);

#endif
