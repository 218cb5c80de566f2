// series.h: what the parts of build/series share.
//
//   records.c     reads records, checks them, sorts them
//   charts.c      the charts over all stages
//   lab.c         one lab
//   promises.c    the table of promises
//   search.c      the search of chapter 14
//   scoreboard.c  the scoreboard
//   l4.c          others' runs on an L4
//   sweep.c       programs at many shapes, compared with their fastest peer
//   exchange.c    a real model with its attention exchanged
//   needle.c      queries that find the key that they copy, over the length
//   series.c      the command line
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
#ifndef SERIES_H
#define SERIES_H

#include "host/host.h"

enum { BAD_USAGE = 2, BAD_RECORD = 3, NOTHING_TO_DRAW = 4 };
enum { MAX_RECORDS = 512, MAX_CHAPTER = 99 };

#define REPORTED "l4-reported"                      // folder of what the sources' authors measured
#define SOURCES_KERNELS "runs/sources/kernels.json" // the sources' kernels, measured by us
#define NBSP "\u00a0"                               // keeps words on one line of a table's cell

// ---- A record (records.c) -----------------------------------------------------------------------
// Values are found by dotted paths: "shapes.mission.timing.p50_us". `file` is for the message if a
// value is not what it should be; that ends the program.

json_t *load(const char *path); // a JSON object
// A record by its path relative to another record's folder; NULL: there is none. *path: its path,
// for the caller to free.
json_t *load_beside(const char *record, const char *name, char **path);
json_t *load_journal(const char *path); // the lines of a search's journal; the first is its head
double number(json_t *json, const char *file, const char *path);   // NAN: there is none
double positive(json_t *json, const char *file, const char *path); // NAN: there is none
json_t *object(json_t *json, const char *file, const char *path);  // NULL: there is none
const char *words(json_t *json, const char *file, const char *path, const char *otherwise);

// ---- All records (records.c) --------------------------------------------------------------------

struct record {
    char gpu[256]; // the name of its folder: "h200"
    char *path;    // the file's path, for messages
    int chapter;   // the chapter of its program; 0: none, as for PyTorch
    json_t *json;
};

// The stages' records, by GPU and chapter; and records of the chapters' other programs.
extern struct record records[MAX_RECORDS], sides[MAX_RECORDS];
extern int record_count, side_count;

// Reads the records of all GPUs below a folder such as plots/, which has chapters/ beside it. labs:
// whether to read the labs' records instead of the programs'.
void load_all(const char *plots, bool labs);
void unload_all(void);
// Measurements of the sources' kernels; NULL if there are none. For calls between load_all and
// unload_all, which frees *path.
json_t *load_sources(const char **path);

const char *stage_name(int chapter); // chapters/stages.tsv

// The shapes that have names (code/workbench/shapes.def), in its order.
#define SHAPE(name, batch, heads, seq_len) SHAPE_##name,
enum {
#include "workbench/shapes.def"
    NAMED_SHAPES
};
#undef SHAPE
extern const struct named_shape {
    const char *name;
    int seq_len;
} named_shapes[NAMED_SHAPES];

const char *device_name(const struct record *record);
bool is_reported(const struct record *record); // whether the sources' authors measured it
bool is_stage(const struct record *record);    // whether it is a chapter's program, measured by us

// ---- Tables that gnuplot reads (records.c) ------------------------------------------------------

void end_block(void);
// Prints the block of rows (row, label) for the chapters marked in `drawn`; sets the row of each in
// row_of. Returns the number of rows.
int print_rows(const bool *drawn, int *row_of);

// ---- The charts and tables, each to stdout ------------------------------------------------------

void ladder(void); // charts.c
void roofline(void);
void time_vs_s(void);
void resources(void);
void stalls(void);

void lab_chart(const char *path); // lab.c

void promises(void); // promises.c

void search_chart(const char *path); // search.c
void changes_table(const char *path);
void pairs_table(const char *path);

void l4_chart(const char *path); // l4.c

void sweep_chart(const char *path); // sweep.c

void exchange_chart(const char *path); // exchange.c
void layer_chart(const char *path);
void needle_chart(const char *path); // needle.c

// scoreboard.c: prints scoreboard, accuracy, scoreboard-table, ways-table or inputs-table for a
// record; false: `what` is none of these.
bool print_board(const char *what, const char *path);

#endif
