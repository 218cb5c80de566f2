// series.c: turns run records (JSON) into the tables that the gnuplot scripts draw: tab-separated
// blocks, which gnuplot calls indexes, with two blank lines between them.
//
//   series CHART [--plots DIR]   CHART: ladder, roofline, time-vs-s, resources, stalls
//   series lab RECORD.json       a lab's record: times where there are any, else counts
//   series search JOURNAL.jsonl  the candidates of chapter 14's search
//   series changes ELITE.json    what each single change of the search's best candidate did: a Markdown table
//   series l4 RECORD.json        reported times of PyTorch on a real L4, beside the floors
//   series sweep RECORD.json     programs at many shapes, compared with their fastest peer; reads sweep-causal.json, too
//   series exchange|layer RECORD.json   a real model with its attention exchanged: tokens a second and where the
//                                time goes, over the context; the kernels of one layer
//   series needle RECORD.json    queries that find their own copy among the keys, by length
//   series pairs JOURNAL.jsonl   what single changes did to all candidates: a Markdown table
//   series scoreboard|accuracy RECORD.json   charts of what labs/tools/scoreboard has measured
//   series scoreboard-table|ways-table|inputs-table RECORD.json   the same as Markdown tables
//   series promises [--plots DIR]   what the sources promised and reported, what the labs measured:
//                                   a Markdown table
//
// Records: plots/runs/<gpu>/chNN_name.json; labNN.json for labs; pytorch-<backend>.json for
// PyTorch's attention; plots/runs/l4-reported/ has what the source documents report. Exit status: 0
// done, 2 bad usage, 3 a bad record (one line says which and why), 4 nothing to draw yet.
#include "series.h"

#include <errno.h>
#include <string.h>

// The charts that are drawn from all records.
static const struct {
    const char *name;
    void (*print)(void);
    bool of_labs;
} charts[] = {
    {"ladder", ladder, false},       {"roofline", roofline, false}, {"time-vs-s", time_vs_s, false},
    {"resources", resources, false}, {"promises", promises, true},  {"stalls", stalls, true},
};

// The charts and tables that are made from one record.
static const struct {
    const char *name;
    void (*print)(const char *path);
} of_record[] = {
    {"lab", lab_chart},     {"search", search_chart}, {"changes", changes_table},
    {"pairs", pairs_table}, {"l4", l4_chart},         {"exchange", exchange_chart},
    {"layer", layer_chart}, {"sweep", sweep_chart},   {"needle", needle_chart},
};

static void print_chart(const char *name, const char *plots)
{
    size_t chart = 0, count = sizeof charts / sizeof *charts;
    while (chart < count && strcmp(name, charts[chart].name) != 0)
        chart++;
    if (chart == count)
        fail(BAD_USAGE,
             "\"%s\" is no chart: ladder, roofline, time-vs-s, resources, stalls, promises, "
             "lab, search, changes, pairs, l4, sweep, exchange, layer, needle",
             name);
    load_all(plots, charts[chart].of_labs);
    charts[chart].print();
    unload_all();
}

static bool print_of_record(const char *name, const char *path)
{
    for (size_t i = 0; i < sizeof of_record / sizeof *of_record; i++)
        if (strcmp(name, of_record[i].name) == 0) {
            of_record[i].print(path);
            return true;
        }
    return print_board(name, path);
}

int main(int argc, char **argv)
{
    speaker = "series";
    if (argc == 2 || (argc == 4 && strcmp(argv[2], "--plots") == 0))
        print_chart(argv[1], argc == 4 ? argv[3] : "plots");
    else if (argc != 3 || !print_of_record(argv[1], argv[2]))
        fail(BAD_USAGE, "usage: series CHART [--plots DIR] | series lab RECORD.json");
    if (fflush(stdout) != 0 || ferror(stdout))
        fail(BAD_RECORD, "cannot write: %s", strerror(errno));
    return 0;
}
