// sheet.h: a lab's sheet, for its two front ends: the driver (driver/), which tells the points that
// can be seen so far, and the grader (judge/), which gives them. `make tangle` makes
// build/labs/labNN.json from a chapter's sheet (code/literate/sheets.lua). rule.h has the rule of
// points, resources.def what a kernel may be limited in.
//
//   limits.c  limits, and resources
//   facts.c   what a sheet says besides its items
//   sheet.c   items, and how much of them is reached
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
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

// Reads "<=", ">=" or "=="; false if it is another word.
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

// The row of a resource by its name, if `front_end` (LABS or SHEETS) knows it; else -1.
int resource_find(const char *name, int front_end);
char *
resource_names(int front_end); // all that it knows, separated by commas; for the caller to free
// A resource from the "resources" of a program's record: of an image (sm_89) or, if image is NULL,
// of the kernel on the GPU at hand. NaN if the record does not have it.
double resource_recorded(const json_t *recorded, const struct resource *resource,
                         const char *image);

// The counts that judge a search: how many candidates it asks for until it has reached the elite, on
// a journal or on drawn landscapes.
enum searched { ON_JOURNAL, ON_DRAWN, SEARCHED };
int searched_find(const char *name); // "candidates" or "drawn"; -1: neither

// ---- The sheet (facts.c, sheet.c) ---------------------------------------------------------------

enum { ITEMS_MAX = 32, SHEET_SHAPES_MAX = 4 };

struct item {
    const char *name, *shape, *words; // shape, words: may be NULL
    struct limit limit;
    double full; // for speed: the ratio from which on all points are paid; else NaN
    double from; // for an aim: the count of the program before; NaN: no aim
    int points;
};

struct sheet {
    int number; // the lab's number
    const char *title, *program;
    const char *ending;                   // of programs and submissions: "cu", or for a search "c"
    const char *journal;                  // which answers a search; NULL: the program is a kernel
    const char *not_graded;               // why the grader does not take it; NULL: it does
    const char *shapes[SHEET_SHAPES_MAX]; // public shapes: small and mission, or caches
    int shape_count;
    int longest;         // no drawn case has more keys
    bool cache;          // its programs ask a cache
    bool model;          // its program runs a language model; the shapes are its caches
    struct p_rounding p; // how its kernels may round P
    enum mask mask;      // which its kernels apply
    struct item items[ITEMS_MAX];
    int count;
    const json_t *json; // the whole sheet
    const char *text;   // the same as text, as in its file
};

// Reads a sheet; false with one line in *why, and `missing` is set if there is no such file.
bool sheet_read(struct sheet *sheet, const char *path, bool *missing, char **why);
bool facts_read(struct sheet *sheet, char **why); // facts.c: everything but the items

bool is_aim(const struct item *item);
bool has_aims(const struct sheet *sheet);
enum pays_for pays_for(const struct item *item);

// The share of an item's limit that a value has reached, from 0 to 1; for an aim, how far it has
// come. NaN gives 0.
double share_reached(const struct item *item, double value);
// How far the aims are reached, weighted by their points; shares: those of all items. 1 if there is
// no aim.
double aims_reached(const struct sheet *sheet, const double shares[]);

// What lab and grader say of a kernel that computes in double: in how many warp instructions, and
// at which shape.
#define DOUBLES_WORDS                                                                              \
    "computes in double: %llu warp instructions of a launch at %s, and on an L4 one takes as "     \
    "long as 64 in float. Look for a constant without its f, 0.5 for 0.5f, and for exp() or "      \
    "sqrt() for expf() or sqrtf()."

double in_tenths(double points);
// The points that an item is paid for a share of what it asks for, by the rule of points.
double points_paid(const struct item *item, double share, const struct reached *reached);

#endif
