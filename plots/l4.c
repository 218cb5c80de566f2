// l4.c: what others measured on a real L4, beside the floors that this book computes for one.
#include "image/gpus.h"
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const MAIN_RUN = "2025-10-14"; // the run with most of the points

enum { HEADS = 8, BATCH = 32, SEQ_LEN = 512, HEAD_DIM = 64, MOST = 64 };

struct point {
    double x, p50, min, max;
};

static int point_order(const void *a, const void *b)
{
    double left = ((const struct point *)a)->x, right = ((const struct point *)b)->x;
    return (left > right) - (left < right);
}

// Whether a shape belongs to the panel over S (batch 32), or to the one over B (512 keys); x: its S
// or B.
static bool on_panel(json_t *shape, const char *path, bool over_s, double *x)
{
    double batch = number(shape, path, "batch"), seq_len = number(shape, path, "seq_len");
    *x = over_s ? seq_len : batch;
    return number(shape, path, "heads") == HEADS && (over_s ? batch == BATCH : seq_len == SEQ_LEN);
}

// The date of a figure that others reported; fails if the figure has no date or no source.
static const char *date_of(json_t *figure, const char *path, const char *key)
{
    const char *date = words(figure, path, "date", "");
    if (*date == '\0' || *words(figure, path, "source", "") == '\0')
        fail(BAD_RECORD, "%s: figures.%s lacks its date or its source", path, key);
    return date;
}

static void print_points(struct point *points, int count)
{
    qsort(points, (size_t)count, sizeof points[0], point_order);
    for (int i = 0; i < count; i++)
        printf("%g\t%.6g\t%.6g\t%.6g\n", points[i].x, points[i].p50, points[i].min, points[i].max);
    if (count == 0)
        puts("NaN\tNaN\tNaN\tNaN"); // gnuplot needs a point in each block
    end_block();
}

// Prints the reported points of a panel: those of the main run, or those of other days.
static void print_reported(json_t *record, const char *path, bool over_s, bool main_run)
{
    struct point points[MOST];
    int count = 0;
    const char *key;
    json_t *figure;
    json_object_foreach (object(record, path, "figures"), key, figure) {
        double x;
        bool of_main_run = strcmp(date_of(figure, path, key), MAIN_RUN) == 0;
        if (!on_panel(figure, path, over_s, &x) || of_main_run != main_run || count == MOST)
            continue;
        struct point p = {x, positive(figure, path, "p50_us"), positive(figure, path, "min_us"),
                          positive(figure, path, "max_us")};
        p.min = isnan(p.min) ? p.p50 : p.min;
        p.max = isnan(p.max) ? p.p50 : p.max;
        points[count++] = p;
    }
    print_points(points, count);
}

// Prints x and two floors in µs: of the tensor cores for both products, and of DRAM for moving each
// of four tensors of halves once.
static void print_floors(const struct gpu *gpu, bool over_s)
{
    double first = over_s ? 96 : 1, last = over_s ? 2700 : 86;
    for (double x = first; x < last * 1.001; x *= pow(last / first, 1.0 / 24)) {
        double batch = over_s ? BATCH : x, seq_len = over_s ? x : SEQ_LEN;
        double elements = batch * HEADS * seq_len * HEAD_DIM;
        printf("%.6g\t%.6g\t%.6g\n", x, 4 * elements * seq_len / (gpu->tensor_fp16_tflops * 1e6),
               4 * 2 * elements / (gpu->dram_gbs * 1e3));
    }
    end_block();
}

// Prints times of PyTorch's flash backend at the same shapes on our GPU, launched without a graph
// as in the reports.
static void print_measured(json_t *board, const char *path, bool over_s)
{
    struct point points[MOST];
    int count = 0;
    const char *key;
    json_t *shape;
    json_object_foreach (object(board, path, "shapes"), key, shape) {
        double x, p50 = positive(shape, path, "entries.pytorch-flash.plain.p50_us");
        if (on_panel(shape, path, over_s, &x) && !isnan(p50) && count < MOST)
            points[count++] = (struct point){x, p50, p50, p50};
    }
    print_points(points, count);
}

// For each panel, over S and over B, four blocks: the reported points of the main run, and of other
// days (x, p50, min, max); an L4's floors (x, tensor, DRAM); and the H200's points.
void l4_chart(const char *path)
{
    char *beside;
    json_t *record = load(path), *board = load_beside(path, "../h200/l4-shapes.json", &beside);
    for (int over_s = 1; over_s >= 0; over_s--) {
        print_reported(record, path, over_s, true);
        print_reported(record, path, over_s, false);
        print_floors(&gpus[GPU_L4], over_s);
        print_measured(board, beside, over_s);
    }
    json_decref(record);
    json_decref(board);
    free(beside);
}
