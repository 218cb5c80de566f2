// series.c: turns run records (JSON) into the tables that the gnuplot scripts draw (tab-separated,
// blocks parted by two blank lines, which gnuplot calls indexes).
//
//   series CHART [--plots DIR]   CHART: ladder, roofline, time-vs-s, resources, error
//   series lab RECORD.json       a lab's record: times where there are any, else counts
//   series search JOURNAL.jsonl  the candidates of chapter 14's search
//   series changes ELITE.json    what each single change of its best candidate did: a Markdown table
//   series pairs JOURNAL.jsonl   what a change did to any candidate: a Markdown table
//   series scoreboard|accuracy RECORD.json   charts of what labs/tools/scoreboard has measured
//   series scoreboard-table|ways-table RECORD.json   the same as Markdown tables
//   series promises [--plots DIR]   what the sources promised and reported, what the labs measured:
//                                   a Markdown table
//
// Records are plots/runs/<gpu>/chNN_name.json, of labs labNN.json, of PyTorch's attention
// pytorch-<backend>.json; plots/runs/l4-reported/ holds what the source documents report. Exit status: 0 done, 2 bad usage, 3 a bad record (one line says which and why),
// 4 nothing to draw yet.
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workbench/stages.h"

enum { BAD_USAGE = 2, BAD_RECORD = 3, NOTHING_TO_DRAW = 4 };
enum { MAX_RECORDS = 512, MAX_CHAPTER = 99 };

static const char REPORTED[] = "l4-reported";
static const double DEFAULT_TOLERANCE = 2e-3; // of gate_relative, where a record does not say

struct record {
    char gpu[256]; // the folder's name: "h200"
    char *path;    // for messages
    int chapter;   // 0: no chapter's program (a reported PyTorch figure, say)
    json_t *json;
};

static struct record records[MAX_RECORDS], sides[MAX_RECORDS]; // stages, other programs
static int record_count, side_count;
static bool load_labs; // instead of the programs that were measured
static json_t *gpus;
static char *tree; // the folder above plots/, which has chapters/; NULL: the working directory

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int status, const char *format,
                                                                 ...)
{
    va_list args;
    va_start(args, format);
    fputs("series: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

// ---- Reading ------------------------------------------------------------------------------------

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL && json_error_code(&error) == json_error_cannot_open_file)
        fail(BAD_RECORD, "%s: %s", path, strerror(errno));
    if (json == NULL)
        fail(BAD_RECORD, "%s:%d: %s", path, error.line, error.text);
    if (!json_is_object(json))
        fail(BAD_RECORD, "%s: not a JSON object", path);
    return json;
}

// The value at a dotted path, or NULL.
static json_t *at(json_t *json, const char *path)
{
    char part[64];
    while (json != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, path);
        json = json_object_get(json, part);
        path += length + (path[length] == '.');
    }
    return json_is_null(json) ? NULL : json;
}

// The number at a dotted path; NAN when nothing is there. Anything else there is a bad record.
static double number(json_t *json, const char *file, const char *path)
{
    json_t *value = at(json, path);
    if (value == NULL)
        return NAN;
    if (!json_is_number(value))
        fail(BAD_RECORD, "%s: %s is not a number", file, path);
    return json_number_value(value);
}

// A time or a size on a logarithmic axis: present means positive.
static double positive(json_t *json, const char *file, const char *path)
{
    double value = number(json, file, path);
    if (!isnan(value) && !(value > 0))
        fail(BAD_RECORD, "%s: %s is %g, not positive", file, path, value);
    return value;
}

// The text at a dotted path, else `otherwise`.
static const char *text(json_t *json, const char *file, const char *path, const char *otherwise)
{
    json_t *value = at(json, path);
    if (value == NULL)
        return otherwise;
    if (!json_is_string(value))
        fail(BAD_RECORD, "%s: %s is not a string", file, path);
    for (const char *c = json_string_value(value); *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            fail(BAD_RECORD, "%s: %s holds a control character", file, path);
    return json_string_value(value);
}

static json_t *object(json_t *json, const char *file, const char *path)
{
    json_t *value = at(json, path);
    if (value != NULL && !json_is_object(value))
        fail(BAD_RECORD, "%s: %s is not an object", file, path);
    return value;
}

// Series come in this order, so that a GPU keeps its colour: H200, L4, others, then the reported.
static int gpu_rank(const char *gpu)
{
    return strcmp(gpu, "h200") == 0     ? 0
           : strcmp(gpu, "l4") == 0     ? 1
           : strcmp(gpu, REPORTED) == 0 ? 3
                                        : 2;
}

static int record_order(const void *a, const void *b)
{
    const struct record *left = a, *right = b;
    int order = gpu_rank(left->gpu) - gpu_rank(right->gpu);
    if (order == 0)
        order = strcmp(left->gpu, right->gpu);
    if (order == 0) // what is no stage comes last
        order = (left->chapter == 0) - (right->chapter == 0);
    if (order == 0)
        order = left->chapter - right->chapter;
    return order != 0 ? order : strcmp(left->path, right->path);
}

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

static char *join(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        fail(BAD_RECORD, "out of memory");
    return path;
}

static void load_gpu(const char *folder, const char *gpu)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return; // a stray file beside the folders
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        bool reported = strcmp(gpu, REPORTED) == 0;
        bool baseline = strncmp(name, "pytorch-", 8) == 0; // no stage of ours
        bool program = strncmp(name, "ch", 2) == 0 && strspn(name + 2, "0123456789") == 2 &&
                       name[4] == '_'; // else a trial that a chapter tells of
        bool wanted = load_labs ? strncmp(name, "lab", 3) == 0 : baseline || program;
        if (name[0] == '.' || !ends_with(name, ".json") || (!reported && !wanted))
            continue;
        if (record_count == MAX_RECORDS)
            fail(BAD_RECORD, "%s: more than %d records", folder, MAX_RECORDS);
        struct record *record = &records[record_count++];
        snprintf(record->gpu, sizeof record->gpu, "%s", gpu);
        record->path = join(folder, name);
        record->json = load(record->path);
        const char *key = load_labs && !reported ? "lab" : "chapter";
        double chapter = number(record->json, record->path, key);
        bool valid = chapter >= 1 && chapter <= MAX_CHAPTER && chapter == floor(chapter);
        if (!valid && !((reported || baseline) && isnan(chapter)))
            fail(BAD_RECORD, "%s: %s is not a number from 1 to %d", record->path, key, MAX_CHAPTER);
        record->chapter = isnan(chapter) ? 0 : (int)chapter;
        if (!reported && strcmp(text(record->json, record->path, "runtime", ""), "gpu") != 0)
            fail(BAD_RECORD, "%s: runtime is not \"gpu\": only a GPU's runs belong here",
                 record->path);
    }
    closedir(directory);
}

static const char *base_name(const struct record *record)
{
    return strrchr(record->path, '/') + 1;
}

static bool same_stage(const struct record *a, const struct record *b)
{
    return a->chapter > 0 && a->chapter == b->chapter && strcmp(a->gpu, b->gpu) == 0;
}

// The row of a chapter in chapters/stages.tsv.
static const struct stage *stage_of(int chapter)
{
    static struct stage stages[MAX_CHAPTER + 1];
    char why[512];
    if (stages[chapter].number == 0 &&
        !stage_read(tree ? tree : ".", chapter, &stages[chapter], why, sizeof why))
        fail(BAD_RECORD, "%s", why);
    return &stages[chapter];
}

// Whether the program is the one that its chapter's lab judges.
static bool shows_stage(const struct record *record)
{
    const char *program = stage_of(record->chapter)->program;
    size_t length = strlen(program);
    return length > 0 && strncmp(base_name(record), program, length) == 0 &&
           strcmp(base_name(record) + length, ".json") == 0;
}

// A chapter may have a second program, for an argument of its own. The charts show the stage's, or
// else the first. The others go to `sides`.
static void set_side_programs_apart(void)
{
    bool side[MAX_RECORDS] = {false};
    for (int i = 0; i < record_count; i++)
        for (int k = 0; k < i; k++)
            if (!side[k] && same_stage(&records[i], &records[k]))
                side[shows_stage(&records[i]) ? k : i] = true;
    int kept = 0;
    for (int i = 0; i < record_count; i++)
        if (side[i])
            sides[side_count++] = records[i];
        else
            records[kept++] = records[i];
    record_count = kept;
}

static void load_all(const char *plots)
{
    char *folder = join(plots, "runs");
    DIR *directory = opendir(folder);
    if (directory == NULL)
        fail(BAD_RECORD, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "cpu") != 0 &&
            strcmp(entry->d_name, "simulator") != 0) { // the others are GPUs
            char *gpu_folder = join(folder, entry->d_name);
            load_gpu(gpu_folder, entry->d_name);
            free(gpu_folder);
        }
    closedir(directory);
    free(folder);
    qsort(records, (size_t)record_count, sizeof records[0], record_order);
    tree = join(plots, "..");
    for (int i = 0; i < record_count; i++)
        if (records[i].chapter > 0)
            stage_of(records[i].chapter); // what is missing is said before anything is printed
    set_side_programs_apart();
    char *path = join(plots, "gpus.json");
    gpus = load(path);
    free(path);
}

// ---- Rows: one a stage, top to bottom -----------------------------------------------------------

static const char *gpu_name(const struct record *record)
{
    return text(record->json, record->path, "device.name", record->gpu);
}

static bool is_reported(const struct record *record)
{
    return strcmp(record->gpu, REPORTED) == 0;
}

// A program of a chapter, measured on a GPU.
static bool is_stage(const struct record *record)
{
    return !is_reported(record) && record->chapter > 0;
}

static void end_block(void)
{
    fputs("\n\n", stdout);
}

// Prints the block of rows (row, label) for the chapters marked in `drawn`, and numbers them.
static int print_rows(const bool *drawn, int *row_of)
{
    int rows = 0;
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++)
        if (drawn[chapter]) {
            row_of[chapter] = ++rows;
            printf("%d\t%s  %d\n", rows, stage_of(chapter)->name, chapter);
        }
    return rows;
}

// ---- The charts ---------------------------------------------------------------------------------

// Every mission p50 a reported record holds, ascending. Returns how many.
static int reported_times(const struct record *record, double *times, int most, bool *approximate)
{
    int count = 0;
    const char *key;
    json_t *figure;
    *approximate = false;
    json_object_foreach (object(record->json, record->path, "figures"), key, figure) {
        double p50 = positive(figure, record->path, "p50_us");
        if (isnan(p50) || strcmp(text(figure, record->path, "shape", ""), "mission") != 0)
            continue;
        if (count == most)
            fail(BAD_RECORD, "%s: more than %d times", record->path, most);
        int place = count++;
        for (; place > 0 && times[place - 1] > p50; place--)
            times[place] = times[place - 1];
        times[place] = p50;
        *approximate = *approximate || json_is_true(at(figure, "approximate"));
    }
    return count;
}

static double mission_p50(const struct record *record)
{
    return positive(record->json, record->path, "shapes.mission.timing.p50_us");
}

// What is no stage of ours and has a time of the mission shape stands below the stages, apart: a
// row for each name, whoever measured it.
static const char *extra_rows[MAX_RECORDS];
static int extra_row_count;

static const char *extra_name(const struct record *record)
{
    return text(record->json, record->path, "stage", record->path);
}

static void add_extra_row(const struct record *record)
{
    for (int i = 0; i < extra_row_count; i++)
        if (strcmp(extra_rows[i], extra_name(record)) == 0)
            return;
    extra_rows[extra_row_count++] = extra_name(record);
}

// Where a record stands below `rows` rows of stages.
static double place_of(const struct record *record, const int *row_of, int rows)
{
    if (record->chapter > 0)
        return row_of[record->chapter];
    int i = 0;
    while (strcmp(extra_rows[i], extra_name(record)) != 0)
        i++;
    return rows + 1.4 + i;
}

// Block 0: rows. Block 1: reported (row, p50, label on the row's last point). Then a block a GPU.
// A series' first line is its name; a line that begins with NaN ends the path.
static void ladder(void)
{
    enum { MOST = 8 };
    bool drawn[MAX_CHAPTER + 1] = {false}, approximate;
    int row_of[MAX_CHAPTER + 1] = {0};
    double times[MOST];
    for (int i = 0; i < record_count; i++) {
        const struct record *record = &records[i];
        if (is_reported(record) ? reported_times(record, times, MOST, &approximate) == 0
                                : isnan(mission_p50(record)))
            continue;
        drawn[record->chapter] = true;
        if (record->chapter == 0)
            add_extra_row(record);
    }
    int rows = print_rows(drawn, row_of);
    if (rows == 0)
        fail(NOTHING_TO_DRAW, "no record holds a time of the mission shape");
    for (int i = 0; i < extra_row_count; i++)
        printf("%g\t%s\n", rows + 1.4 + i, extra_rows[i]);
    end_block();

    puts("L4, as reported by the sources, not measured by us\t\t");
    for (int i = 0; i < record_count; i++) {
        if (!is_reported(&records[i]))
            continue;
        int count = reported_times(&records[i], times, MOST, &approximate);
        if (count == 0)
            continue;
        double row = place_of(&records[i], row_of, rows);
        char label[160] = "", value[32];
        for (int k = 0; k < count; k++) {
            snprintf(value, sizeof value, times[k] >= 100 ? "%.0f" : "%.3g", times[k]);
            strncat(label,
                    k > 0         ? ", "
                    : approximate ? "≈ "
                                  : "",
                    sizeof label - strlen(label) - 1);
            strncat(label, value, sizeof label - strlen(label) - 1);
            printf("%g\t%.6g\t%s\n", row, times[k], k == count - 1 ? label : "");
        }
    }
    const char *gpu = NULL;
    for (int i = 0; i < record_count; i++) {
        if (is_reported(&records[i]) || isnan(mission_p50(&records[i])))
            continue;
        if (gpu == NULL || strcmp(gpu, records[i].gpu) != 0) {
            end_block();
            printf("%s, measured\t\t\n", gpu_name(&records[i]));
        }
        if (records[i].chapter == 0) // no line leads there
            puts("NaN\tNaN\t");
        gpu = records[i].gpu;
        double p50 = mission_p50(&records[i]);
        printf("%g\t%.6g\t%.*f\n", place_of(&records[i], row_of, rows), p50, p50 < 100, p50);
    }
}

struct label {
    double x, y;
    int chapter;
};

static int label_order(const void *a, const void *b)
{
    const struct label *left = a, *right = b;
    if (left->x != right->x)
        return left->x < right->x ? -1 : 1;
    return left->y < right->y ? -1 : left->y > right->y ? 1 : left->chapter - right->chapter;
}

// Labels of points that stand in columns: the chapters of a column's lowest and highest point, or
// one label for all ("2, 3"; "7–12") where they lie within `factor` of each other.
static void print_column_labels(struct label *labels, int count, double factor)
{
    qsort(labels, (size_t)count, sizeof labels[0], label_order);
    for (int first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && labels[next].x == labels[first].x; next++)
            ;
        const struct label *low = &labels[first], *high = &labels[next - 1];
        if (high->y >= low->y * factor)
            printf("%.6g\t%.6g\t%d\n%.6g\t%.6g\t%d\n", low->x, low->y, low->chapter, high->x,
                   high->y, high->chapter);
        else if (low == high)
            printf("%.6g\t%.6g\t%d\n", low->x, low->y, low->chapter);
        else
            printf("%.6g\t%.6g\t%d%s%d\n", low->x, sqrt(low->y * high->y), low->chapter,
                   next - first == 2 ? ", " : "–", high->chapter);
    }
}

// Labels of curves' right ends, pushed apart until neighbours differ by `factor`: x, y of the
// curve, y of the label, label.
static void print_end_labels(struct label *ends, int count, double factor)
{
    double y[MAX_RECORDS];
    qsort(ends, (size_t)count, sizeof ends[0], label_order);
    for (int i = 0; i < count; i++)
        y[i] = ends[i].y;
    for (int round = 0; round < 200; round++)
        for (int i = 1; i < count; i++) {
            double lack = sqrt(y[i - 1] * factor / y[i]); // move both by half of what is lacking
            if (lack > 1) {
                y[i] *= lack;
                y[i - 1] /= lack;
            }
        }
    for (int i = 0; i < count; i++)
        printf("%.6g\t%.6g\t%.6g\t%d  %s\n", ends[i].x, ends[i].y, y[i], ends[i].chapter,
               stage_of(ends[i].chapter)->name);
}

// FLOPs a byte of DRAM traffic when each tensor crosses once: 4 S^2 D over 5 S D (three tensors of
// one byte, one of two), the same for every batch and number of heads.
static double intensity(double seq_len)
{
    return 4 * seq_len / 5;
}

struct roof {
    const char *name;
    double dram, tensor, fp32; // TB/s, TFLOP/s
};

static struct roof roof_of(const char *gpu)
{
    json_t *peaks = object(gpus, "gpus.json", gpu);
    struct roof roof = {text(peaks, "gpus.json", "name", gpu),
                        positive(peaks, "gpus.json", "dram_gbs") / 1e3,
                        positive(peaks, "gpus.json", "tensor_fp16_tflops"),
                        positive(peaks, "gpus.json", "fp32_tflops")};
    if (isnan(roof.dram) || isnan(roof.tensor) || isnan(roof.fp32))
        fail(BAD_RECORD, "gpus.json: %s lacks dram_gbs, tensor_fp16_tflops or fp32_tflops", gpu);
    return roof;
}

// A horizontal ceiling, from where the memory's slope meets it.
static void print_ceiling(double height, double dram, double right)
{
    printf("%.6g\t%.6g\n%.6g\t%.6g\n", height / dram, height, right, height);
    end_block();
}

// Blocks: 0 shapes (intensity, name; the axis's lower end, both GPUs' DRAM TB/s); 1, 2 roof and fp32
// ceiling of the H200, 3, 4 of an L4; 5 the H200's measured tensor ceiling; 6, 7 names of the
// ceilings of each (x, y, text). Where there are points: 8 their labels, 9 the H200's and 10 an
// L4's (x, y).
static void roofline(void)
{
    const double left = 20, right = 1e5;
    static const struct {
        const char *name;
        double seq_len;
    } shapes[] = {{"small", 128}, {"mission", 512}, {"long", 2048}, {"huge", 8192}};
    static const char *const measured[] = {"h200", "l4"};
    struct label points[2][MAX_RECORDS * 4], labels[MAX_RECORDS * 4];
    int counts[2] = {0};
    double lowest = 1;
    for (int i = 0; i < record_count; i++)
        for (int g = 0; g < 2 && is_stage(&records[i]); g++)
            for (int k = 0; k < 4 && strcmp(records[i].gpu, measured[g]) == 0; k++) {
                char path[64];
                snprintf(path, sizeof path, "shapes.%s.tflops", shapes[k].name);
                double tflops = positive(records[i].json, records[i].path, path);
                if (isnan(tflops))
                    continue;
                points[g][counts[g]++] =
                    (struct label){intensity(shapes[k].seq_len), tflops, records[i].chapter};
                lowest = fmin(lowest, tflops / 2);
            }

    struct roof roofs[2] = {roof_of("h200"), roof_of("l4")};
    for (int k = 0; k < 4; k++)
        printf("%.6g\t%s\t%.6g\t%g\t%g\n", intensity(shapes[k].seq_len), shapes[k].name, lowest,
               roofs[0].dram, roofs[1].dram);
    end_block();
    for (int g = 0; g < 2; g++) {
        printf("%.6g\t%.6g\n", left, left * roofs[g].dram);
        print_ceiling(roofs[g].tensor, roofs[g].dram, right);
        print_ceiling(roofs[g].fp32, roofs[g].dram, right);
    }
    double sync = (positive(gpus, "gpus.json", "h200.measured.mma_sync_fp16_tflops_low") +
                   positive(gpus, "gpus.json", "h200.measured.mma_sync_fp16_tflops_high")) /
                  2;
    if (isnan(sync))
        fail(BAD_RECORD, "gpus.json: h200.measured lacks mma_sync_fp16_tflops_low or _high");
    print_ceiling(sync, roofs[0].dram, right);
    const double above = 1.24, below = 1 / above;
    printf("%.6g\t%.6g\tH200 tensor cores, %.0f\n", right, roofs[0].tensor * above,
           floor(roofs[0].tensor));
    printf("%.6g\t%.6g\tmma.sync, %.0f measured\n", right, sync * below, sync);
    printf("%.6g\t%.6g\tH200 fp32, %.0f\n", right, roofs[0].fp32 * below, roofs[0].fp32);
    end_block();
    printf("%.6g\t%.6g\tL4 tensor cores, %.0f\n", right, roofs[1].tensor * above, roofs[1].tensor);
    printf("%.6g\t%.6g\tL4 fp32, %.0f\n", right, roofs[1].fp32 * below, roofs[1].fp32);
    int labelled = counts[0] > 0 ? 0 : 1; // two GPUs' chapter numbers would be too many
    if (counts[labelled] == 0)
        return;
    memcpy(labels, points[labelled], sizeof labels);
    end_block();
    print_column_labels(labels, counts[labelled], 1.5);
    for (int g = 0; g < 2; g++) {
        end_block();
        for (int i = 0; i < counts[g]; i++)
            printf("%.6g\t%.6g\n", points[g][i].x, points[g][i].y);
        if (counts[g] == 0)
            printf("NaN\tNaN\n");
    }
}

// p50 against S at 2 batches of 8 heads, of the first GPU in order that has records: a block a
// program (S, p50; first line: the GPU), last the labels at the right ends.
static void time_vs_s(void)
{
    struct label ends[MAX_RECORDS];
    int count = 0;
    const char *gpu = NULL;
    for (int i = 0; i < record_count && !is_reported(&records[i]); i++) {
        if (!is_stage(&records[i]))
            continue;
        struct label points[64];
        int point_count = 0;
        const char *name;
        json_t *shape;
        json_object_foreach (object(records[i].json, records[i].path, "shapes"), name, shape) {
            double p50 = positive(shape, records[i].path, "timing.p50_us");
            double seq_len = positive(shape, records[i].path, "seq_len");
            if (isnan(p50) || isnan(seq_len) || number(shape, records[i].path, "batch") != 2 ||
                number(shape, records[i].path, "heads") != 8 || point_count == 64)
                continue;
            points[point_count++] = (struct label){seq_len, p50, records[i].chapter};
        }
        if (point_count == 0 || (gpu != NULL && strcmp(gpu, records[i].gpu) != 0))
            continue;
        gpu = records[i].gpu;
        qsort(points, (size_t)point_count, sizeof points[0], label_order);
        printf("%s\t\n", gpu_name(&records[i]));
        for (int k = 0; k < point_count; k++)
            printf("%.6g\t%.6g\n", points[k].x, points[k].y);
        end_block();
        ends[count++] = points[point_count - 1];
    }
    if (count == 0)
        fail(NOTHING_TO_DRAW, "no record holds a time of a shape with 2 batches of 8 heads");
    print_end_labels(ends, count, 1.5);
}

// The sm_89 image's resources are the same wherever they were read, so the first record of a
// chapter serves. Block 0: rows; 1: row, shared memory (KiB), registers, occupancy (%), what
// limits it; 2: row and occupancy of a chapter's other program that keeps every gate.
static void resources(void)
{
    const struct record *of[MAX_CHAPTER + 1] = {NULL};
    bool drawn[MAX_CHAPTER + 1] = {false};
    int row_of[MAX_CHAPTER + 1] = {0};
    for (int i = 0; i < record_count; i++)
        if (is_stage(&records[i]) &&
            object(records[i].json, records[i].path, "resources.sm_89") != NULL &&
            !drawn[records[i].chapter]) {
            drawn[records[i].chapter] = true;
            of[records[i].chapter] = &records[i];
        }
    if (print_rows(drawn, row_of) == 0)
        fail(NOTHING_TO_DRAW, "no record holds the resources of an sm_89 image");
    end_block();
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++) {
        const struct record *record = of[chapter];
        if (record == NULL)
            continue;
        json_t *image = at(record->json, "resources.sm_89");
        double shared = number(image, record->path, "shared_bytes");
        double registers = number(image, record->path, "registers");
        double occupancy = number(image, record->path, "occupancy");
        if (isnan(shared) || isnan(registers) || isnan(occupancy))
            fail(BAD_RECORD, "%s: resources.sm_89 lacks shared_bytes, registers or occupancy",
                 record->path);
        printf("%d\t%.6g\t%.6g\t%.6g\t%s\n", row_of[chapter], shared / 1024, registers,
               occupancy * 100, text(image, record->path, "limited_by", ""));
    }
    end_block();
    int inside = 0;
    for (int i = 0; i < side_count; i++) {
        json_t *image = at(sides[i].json, "resources.sm_89");
        double occupancy = number(image, sides[i].path, "occupancy");
        if (drawn[sides[i].chapter] && occupancy >= 0.5 &&
            number(image, sides[i].path, "registers") <= 120 &&
            number(image, sides[i].path, "shared_bytes") <= 65536 &&
            number(image, sides[i].path, "local_bytes") <= 0) {
            printf("%d\t%.6g\n", row_of[sides[i].chapter], occupancy * 100);
            inside++;
        }
    }
    if (inside == 0)
        printf("NaN\tNaN\n");
}

// Worst rel_head of a shape over all seeds and inputs; NAN when it was not checked.
static double worst_error(const struct record *record, const char *shape)
{
    char path[80];
    snprintf(path, sizeof path, "shapes.%s.correctness", shape);
    json_t *checks = at(record->json, path), *check;
    if (checks != NULL && !json_is_array(checks))
        fail(BAD_RECORD, "%s: %s is not an array", record->path, path);
    double worst = NAN;
    size_t i;
    json_array_foreach (checks, i, check)
        worst = fmax(worst, positive(check, record->path, "rel_head"));
    return worst;
}

// What a program that rounds P to E4M3 may be off by where it is off most; NAN for others.
static double own_gate(const struct record *record)
{
    double worst = 0, gate = NAN;
    const char *shape;
    json_t *one, *check;
    size_t i;
    json_object_foreach (object(record->json, record->path, "shapes"), shape, one)
        json_array_foreach (at(one, "correctness"), i, check) {
            double error = positive(check, record->path, "rel_head");
            double limit = positive(check, record->path, "limits.rel_head");
            if (error > worst && !isnan(limit)) {
                worst = error;
                gate = limit;
            }
        }
    return gate;
}

// Block 0: rows; 1: the gate, the smallest error, the largest error or gate; 2: gates of a program's
// own (row, gate); then a block a shape (row, worst rel_head; first line: the shape, or nothing
// where no record has it).
static void error_chart(void)
{
    static const char *const shapes[] = {"small", "mission", "long", "huge"};
    bool drawn[MAX_CHAPTER + 1] = {false}, any[4] = {false};
    int row_of[MAX_CHAPTER + 1] = {0};
    const char *gpu = NULL;
    double smallest = DEFAULT_TOLERANCE, largest = DEFAULT_TOLERANCE;
    for (int i = 0; i < record_count; i++)
        for (int s = 0; s < 4 && is_stage(&records[i]); s++) {
            double worst = worst_error(&records[i], shapes[s]);
            if (isnan(worst) || (gpu != NULL && strcmp(gpu, records[i].gpu) != 0))
                continue;
            gpu = records[i].gpu;
            drawn[records[i].chapter] = any[s] = true;
            smallest = fmin(smallest, worst);
            largest = fmax(fmax(largest, worst), own_gate(&records[i]));
        }
    if (print_rows(drawn, row_of) == 0)
        fail(NOTHING_TO_DRAW, "no record holds a relative error");
    end_block();
    printf("%g\t%.6g\t%.6g\n", DEFAULT_TOLERANCE, smallest, largest);
    end_block();
    puts("NaN\tNaN"); // gnuplot wants a point in each block
    for (int i = 0; i < record_count; i++) {
        bool shown = is_stage(&records[i]) && strcmp(records[i].gpu, gpu) == 0;
        double own = shown ? own_gate(&records[i]) : NAN;
        if (!isnan(own) && row_of[records[i].chapter] > 0)
            printf("%d\t%.6g\n", row_of[records[i].chapter], own);
    }
    for (int s = 0; s < 4; s++) {
        end_block();
        printf("%s\t\n%s", any[s] ? shapes[s] : "", any[s] ? "" : "NaN\tNaN\n");
        for (int i = 0; i < record_count && any[s]; i++) {
            bool shown = is_stage(&records[i]) && strcmp(records[i].gpu, gpu) == 0;
            double worst = shown ? worst_error(&records[i], shapes[s]) : NAN;
            if (!isnan(worst))
                printf("%d\t%.6g\n", row_of[records[i].chapter], worst);
        }
    }
}

// ---- Labs ---------------------------------------------------------------------------------------

// A lab that ran on a GPU: a line a shape: shape, before's name, after's name, GPU, before p50,
// after p50, ratio, its low and high, promise (0: none), verdict.
static bool lab_times(json_t *lab, const char *path)
{
    const char *shape, *before = text(lab, path, "before", NULL);
    json_t *speedup;
    bool any = false;
    json_object_foreach (object(lab, path, "speedup"), shape, speedup) {
        double before_p50 = positive(speedup, path, "before_p50_us");
        double after_p50 = positive(speedup, path, "after_p50_us");
        double median = positive(speedup, path, "median");
        double low = positive(speedup, path, "low"), high = positive(speedup, path, "high");
        double promise = positive(speedup, path, "promise");
        if (before == NULL || isnan(before_p50) || isnan(after_p50) || isnan(median) ||
            isnan(low) || isnan(high))
            fail(BAD_RECORD, "%s: speedup.%s lacks a time, the ratio or its interval", path, shape);
        if (!any)
            printf("# times\n");
        any = true;
        printf("%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%s\n", shape, before,
               text(lab, path, "after", "after"), text(lab, path, "device.name", ""), before_p50,
               after_p50, median, low, high, isnan(promise) ? 0 : promise,
               text(speedup, path, "verdict", ""));
    }
    return any;
}

// "1234567" as "1.23 M": what fits beside a point.
static void format_count(char *out, size_t size, double value)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    if (unit == 0 && value == floor(value))
        snprintf(out, size, "%.0f", value);
    else
        snprintf(out, size, "%.*f%s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
}

// What a lab measures in the simulator. A row sums up to two counters.
static const struct {
    const char *name, *counter, *second;
} counter_rows[] = {
    {"instructions, by warp", "warp_instructions", NULL},
    {"tensor instructions", "tensor_instructions", NULL},
    {"shared-memory wavefronts", "shared_load_wavefronts", "shared_store_wavefronts"},
    {"bank conflicts", "shared_load_conflicts", "shared_store_conflicts"},
    {"global sectors", "global_load_sectors", "global_store_sectors"},
    {"special functions, by thread", "mufu_threads", NULL},
    {"barrier arrivals, by warp", "barriers", NULL},
};

static const struct {
    const char *name, *key;
} floor_rows[] = {
    {"tensor cores", "tensor"}, {"exponentials", "exp"}, {"shared memory", "shared"},
    {"issue slots", "issue"},   {"DRAM", "dram"},
};

// What the simulator counted of a program; NULL when the lab's record does not say.
static json_t *counts_of(json_t *lab, const char *path, const char *program)
{
    json_t *programs = object(lab, path, "evidence.simulator");
    json_t *counts = program == NULL ? NULL : json_object_get(programs, program);
    if (counts != NULL && !json_is_object(counts))
        fail(BAD_RECORD, "%s: evidence.simulator.%s is not an object", path, program);
    return counts;
}

static double count_of(json_t *counts, const char *path, int row)
{
    double sum = number(counts, path, counter_rows[row].counter);
    if (counter_rows[row].second != NULL)
        sum += number(counts, path, counter_rows[row].second);
    if (sum < 0)
        fail(BAD_RECORD, "%s: %s is negative", path, counter_rows[row].counter);
    return sum;
}

// What changed, for the margin beside a row; without a before-program, the value itself.
static void format_change(char *out, size_t size, double was, double is)
{
    char value[32];
    format_count(value, sizeof value, is);
    if (isnan(was))
        snprintf(out, size, "%s", value);
    else if (was == is)
        snprintf(out, size, "=");
    else if (was > 0)
        snprintf(out, size, "× %.*f", is / was < 9.995 ? 2 : is / was < 99.95 ? 1 : 0, is / was);
    else
        snprintf(out, size, "0 → %s", value);
}

// A lab that ran in the simulator. Block 0: before's and after's names. Block 1: where 0 stands on
// the logarithmic axis, left of the smallest decade, and the axis's right end. Block 2: counters:
// row, name, x of before, x of after, the change in words. Block 3: floors in µs: row, name,
// before, after. A lab without a before-program has NaN there.
static bool lab_counts(json_t *lab, const char *path)
{
    const char *before = text(lab, path, "before", NULL), *after = text(lab, path, "after", NULL);
    json_t *old = counts_of(lab, path, before), *new = counts_of(lab, path, after);
    if (new == NULL)
        return false;
    enum { ROWS = sizeof counter_rows / sizeof counter_rows[0] };
    double values[ROWS][2], least = HUGE_VAL, most = 0;
    for (int row = 0; row < ROWS; row++)
        for (int side = 0; side < 2; side++) {
            json_t *counts = side == 0 ? old : new;
            double value = counts == NULL ? NAN : count_of(counts, path, row);
            values[row][side] = value;
            least = value > 0 ? fmin(least, value) : least;
            most = fmax(most, value);
        }
    if (!(most > 0))
        return false;
    double zero = pow(10, floor(log10(least)) - 1);
    printf("# counts\n%s\t%s\n", old == NULL ? "" : before, after);
    end_block();
    printf("%.6g\t%.6g\n", zero, pow(10, ceil(log10(most) + 0.05)));
    end_block();
    for (int row = 0; row < ROWS; row++) {
        double was = values[row][0], is = values[row][1];
        char change[48];
        if (isnan(is))
            continue;
        format_change(change, sizeof change, was, is);
        printf("%d\t%s\t%.6g\t%.6g\t%s\n", row + 1, counter_rows[row].name, was == 0 ? zero : was,
               is == 0 ? zero : is, change);
    }
    json_t *old_floors = object(old, path, "l4_floors_us");
    json_t *new_floors = object(new, path, "l4_floors_us");
    if (new_floors == NULL)
        return true;
    end_block();
    for (int row = 0; row < (int)(sizeof floor_rows / sizeof floor_rows[0]); row++) {
        const char *key = floor_rows[row].key;
        bool binds = strcmp(text(new_floors, path, "binding", ""), key) == 0;
        printf("%d\t%s%s\t%.6g\t%.6g\n", row + 1, floor_rows[row].name, binds ? " (binds)" : "",
               number(old_floors, path, key), number(new_floors, path, key));
    }
    return true;
}

static void lab_chart(const char *path)
{
    json_t *lab = load(path);
    if (!lab_times(lab, path) && !lab_counts(lab, path))
        fail(NOTHING_TO_DRAW, "%s: no speedup and no counts", path);
    json_decref(lab);
}

// ---- Promises -----------------------------------------------------------------------------------

#define NBSP "\u00a0" // what belongs together stays in one line of a table's cell

// Numbers of the sources: 13.8, 1040, -6.1 with a minus sign.
static void print_figure(double value)
{
    printf("%s%.4g", value < 0 ? "−" : "", fabs(value));
}

static void print_gain(double percent)
{
    if (percent >= 0)
        putchar('+');
    print_figure(percent);
}

// What the sources promised: "+10–15 %; +20–30 % (PLAN)". The first promise is the stage's own
// document's, so that only the others need their name.
static void print_promised(const struct record *record)
{
    const char *key;
    json_t *promise;
    int count = 0;
    json_object_foreach (object(record->json, record->path, "promised"), key, promise) {
        double low = number(promise, record->path, "low_percent");
        double high = number(promise, record->path, "high_percent");
        double p50 = positive(promise, record->path, "p50_us");
        if (isnan(low) && isnan(p50))
            continue;
        printf("%s", count++ > 0 ? "; " : "");
        if (!isnan(low)) {
            printf("%s", isnan(high) ? "≥" NBSP : "");
            print_gain(low);
            if (high > low) {
                printf("–");
                print_figure(high);
            }
            printf(NBSP "%%%s", isnan(p50) ? "" : ", ");
        }
        if (!isnan(p50)) {
            printf(json_is_true(at(promise, "approximate")) ? "≈" NBSP : "≤" NBSP);
            print_figure(p50);
            printf(NBSP "µs");
        }
        const char *by = text(promise, record->path, "promised_by", NULL);
        if (by != NULL)
            printf(" (%s)", by);
    }
    if (count == 0)
        printf("–");
}

// What the sources reported of the mission shape, contradictions kept.
static void print_reported(const struct record *record)
{
    const char *key;
    json_t *figure;
    int count = 0;
    json_object_foreach (object(record->json, record->path, "figures"), key, figure) {
        double gain = number(figure, record->path, "gain_percent");
        double p50 = positive(figure, record->path, "p50_us");
        double right = number(figure, record->path, "correct");
        double of = number(figure, record->path, "of");
        double error = number(figure, record->path, "max_error_high");
        bool mission = strcmp(text(figure, record->path, "shape", ""), "mission") == 0;
        if (!isnan(right) && !isnan(of))
            printf("%s%g" NBSP "of" NBSP "%g" NBSP "right", count++ > 0 ? "; " : "", right, of);
        if (!mission || (isnan(gain) && isnan(p50)))
            continue;
        printf("%s", count++ > 0 ? "; " : "");
        if (!isnan(gain)) {
            print_gain(gain);
            printf(NBSP "%%");
        }
        if (!isnan(p50)) {
            printf("%s%s", isnan(gain) ? "" : ", ",
                   json_is_true(at(figure, "approximate")) ? "≈" NBSP : "");
            print_figure(round(p50));
            printf(NBSP "µs");
        }
        if (!isnan(error))
            printf(", and wrong");
    }
    if (count == 0)
        printf("–");
}

static const struct record *record_of(const char *gpu, int chapter)
{
    for (int i = 0; i < record_count; i++)
        if (records[i].chapter == chapter && strcmp(records[i].gpu, gpu) == 0)
            return &records[i];
    return NULL;
}

// "1.21 [1.20, 1.22]", and whether that keeps the promise.
static void print_measured(const struct record *lab)
{
    json_t *speedup = lab == NULL ? NULL : object(lab->json, lab->path, "speedup.mission");
    if (speedup == NULL) {
        printf(" – | – |");
        return;
    }
    double median = positive(speedup, lab->path, "median");
    double low = positive(speedup, lab->path, "low"), high = positive(speedup, lab->path, "high");
    if (isnan(median) || isnan(low) || isnan(high))
        fail(BAD_RECORD, "%s: speedup.mission lacks the ratio or its interval", lab->path);
    printf(" %.2f" NBSP "[%.2f," NBSP "%.2f] |", median, low, high);
    printf(" %s |", text(speedup, lab->path, "verdict", "–"));
}

// A Markdown table: a row a lab that was measured, two columns a GPU. Its first line says which
// records it is made from, for whoever quotes it.
static void promises(void)
{
    const char *gpu[8];
    int gpu_count = 0;
    bool drawn[MAX_CHAPTER + 1] = {false};
    for (int i = 0; i < record_count; i++) {
        if (!is_stage(&records[i]) ||
            object(records[i].json, records[i].path, "speedup.mission") == NULL)
            continue;
        drawn[records[i].chapter] = true;
        if (gpu_count == 0 || strcmp(gpu[gpu_count - 1], records[i].gpu) != 0) {
            if (gpu_count == 8)
                fail(BAD_RECORD, "more than 8 GPUs");
            gpu[gpu_count++] = records[i].gpu;
        }
    }
    if (gpu_count == 0)
        fail(NOTHING_TO_DRAW, "no lab's record holds a ratio of the mission shape");
    printf("<!-- from");
    for (int i = 0; i < record_count; i++)
        if (is_stage(&records[i]) && drawn[records[i].chapter])
            printf(" %s/lab%02d", records[i].gpu, records[i].chapter);
    printf(" -->\n| stage | against | sources promised | and reported (L4) | lab asks |");
    for (int g = 0; g < gpu_count; g++) {
        char key[80];
        snprintf(key, sizeof key, "%.64s.name", gpu[g]);
        const char *name = text(gpus, "gpus.json", key, gpu[g]);
        printf(" ratio (%s) | promise |", strncmp(name, "NVIDIA ", 7) == 0 ? name + 7 : name);
    }
    printf("\n|---|--:|---|---|--:|");
    for (int g = 0; g < gpu_count; g++)
        printf("--:|---|");
    puts("");
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++) {
        if (!drawn[chapter])
            continue;
        const struct record *reported = record_of(REPORTED, chapter), *lab = NULL;
        for (int g = 0; g < gpu_count && lab == NULL; g++)
            lab = record_of(gpu[g], chapter);
        printf("| %d %s | ", chapter, stage_of(chapter)->name);
        const char *before = text(lab->json, lab->path, "before", ""); // "ch03_wmma_qk"
        int base;
        if (sscanf(before, "ch%2d_", &base) == 1 && base != chapter)
            printf("%d", base);
        else // another program of the same chapter
            printf("%s", strlen(before) > 5 ? before + 5 : before);
        printf(" | ");
        if (reported == NULL) {
            printf("– | – |");
        } else {
            print_promised(reported);
            printf(" | ");
            print_reported(reported);
            printf(" |");
        }
        double promise = positive(lab->json, lab->path, "speedup.mission.promise");
        if (isnan(promise))
            printf(" – |");
        else
            printf(" %.2f |", promise);
        for (int g = 0; g < gpu_count; g++)
            print_measured(record_of(gpu[g], chapter));
        puts("");
    }
}

// ---- The search of chapter 14 -------------------------------------------------------------------

// The lines of a search's journal, the first one its head.
static json_t *load_journal(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(BAD_RECORD, "%s: %s", path, strerror(errno));
    json_t *lines = json_array(), *line;
    json_error_t error;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error)) != NULL)
        json_array_append_new(lines, line);
    if (!feof(file))
        fail(BAD_RECORD, "%s: line %zu: %s", path, json_array_size(lines) + 1, error.text);
    fclose(file);
    if (text(json_array_get(lines, 0), path, "search", NULL) == NULL)
        fail(BAD_RECORD, "%s: not the journal of a search", path);
    return lines;
}

// Block 0: candidates with a time (number, p50, best so far, swizzled). Block 1: the others (number,
// verdict). The first line: shape, GPU, how many candidates, with a time, without one, and the last
// before the best one's neighbours.
static void search_chart(const char *path)
{
    enum { MOST = 1000, LAST = 9999 }; // as in ch14_search.c
    static struct {
        double score;
        const char *verdict;
        bool swizzled;
    } all[MOST];
    json_t *lines = load_journal(path), *head = json_array_get(lines, 0), *line;
    int count = 0, timed = 0, evolved = 0;
    for (size_t i = 1; i < json_array_size(lines); i++, count++) {
        line = json_array_get(lines, i);
        const char *knobs = text(line, path, "knobs", "");
        if (count == MOST || knobs[0] == '\0')
            fail(BAD_RECORD, "%s: line %zu: not a candidate", path, i + 1);
        all[count].verdict = text(line, path, "verdict", "");
        all[count].swizzled = knobs[strlen(knobs) - 1] == '1';
        all[count].score = NAN;
        if (strcmp(all[count].verdict, "timed") == 0) {
            all[count].score = positive(line, path, "score");
            timed++;
        }
        evolved += number(line, path, "generation") < LAST;
    }
    if (timed == 0)
        fail(NOTHING_TO_DRAW, "no candidate has a time");
    printf("# %s\t%s\t%d\t%d\t%d\t%d\n", text(head, path, "search", ""), text(head, path, "on", ""),
           count, timed, count - timed, evolved);
    double best = INFINITY;
    for (int i = 0; i < count; i++)
        if (!isnan(all[i].score)) {
            best = fmin(best, all[i].score);
            printf("%d\t%.6g\t%.6g\t%d\n", i + 1, all[i].score, best, all[i].swizzled);
        }
    end_block();
    for (int i = 0; i < count; i++)
        if (isnan(all[i].score))
            printf("%d\t%s\n", i + 1, all[i].verdict);
    json_decref(lines);
}

// Of every two candidates with a time that differ in one knob alone: how often the second was the
// faster one, and what the change did to the time, at best and at worst.
static void pairs_table(const char *path)
{
    enum { KNOBS = 8 }; // as in ch14_search.c
    static const struct {
        const char *name;
        int knob, from, to;
    } kinds[] = {{"block_m", 0, 32, 64},  {"block_n", 1, 32, 64}, {"warps_n", 2, 2, 4},
                 {"stages", 3, 1, 2},     {"producers", 4, 0, 2}, {"producers", 4, 0, 4},
                 {"persistent", 5, 0, 1}, {"fast_exp", 6, 0, 1},  {"swizzle", 7, 0, 1}};
    json_t *lines = load_journal(path);
    size_t count = json_array_size(lines), timed = 0;
    struct timed {
        int knob[KNOBS];
        double score;
    } *all = calloc(count, sizeof *all);
    if (all == NULL)
        fail(BAD_RECORD, "out of memory");
    for (size_t i = 1; i < count; i++) {
        json_t *line = json_array_get(lines, i);
        const char *knobs = text(line, path, "knobs", "");
        int *n = all[timed].knob;
        if (sscanf(knobs, "%d-%d-%d-%d-%d-%d-%d-%d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
                   &n[6], &n[7]) != KNOBS)
            fail(BAD_RECORD, "%s: \"%s\" are not %d knobs", path, knobs, KNOBS);
        if (strcmp(text(line, path, "verdict", ""), "timed") == 0)
            all[timed++].score = positive(line, path, "score");
    }
    printf("<!-- from h200/elite -->\n| knob | from | to | pairs | faster | best | worst |\n"
           "|---|--:|--:|--:|--:|--:|--:|\n");
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        int pairs = 0, faster = 0;
        double best = INFINITY, worst = 0;
        for (size_t i = 0; i < timed; i++)
            for (size_t k = 0; k < timed; k++) {
                bool pair = true;
                for (int n = 0; n < KNOBS; n++) {
                    bool turned = n == kinds[kind].knob;
                    pair = pair && all[k].knob[n] == (turned ? kinds[kind].to : all[i].knob[n]) &&
                           (!turned || all[i].knob[n] == kinds[kind].from);
                }
                if (!pair)
                    continue;
                double ratio = all[k].score / all[i].score;
                pairs++;
                faster += ratio < 1;
                best = fmin(best, ratio);
                worst = fmax(worst, ratio);
            }
        if (pairs == 0)
            continue;
        printf("| `%s` | %d | %d | %d | %d | ", kinds[kind].name, kinds[kind].from, kinds[kind].to,
               pairs, faster);
        printf("%s%.0f %% | ", best < 1 ? "−" : "+", 100 * fabs(best - 1));
        printf("%s%.0f %% |\n", worst < 1 ? "−" : "+", 100 * fabs(worst - 1));
    }
    free(all);
    json_decref(lines);
}

static void changes_table(const char *path)
{
    json_t *elite = load(path), *changes = at(elite, "changes"), *change;
    const char *best = text(elite, path, "changes_of", NULL), *previous = "";
    json_t *of_best = NULL, *one;
    size_t i;
    if (!json_is_array(changes) || best == NULL)
        fail(BAD_RECORD, "%s: not what a search leaves", path);
    if (json_array_size(changes) == 0)
        fail(NOTHING_TO_DRAW, "the search did not look at single changes");
    json_array_foreach (at(elite, "elite"), i, one)
        if (strcmp(text(one, path, "knobs", ""), best) == 0)
            of_best = one;
    double score = positive(of_best, path, "score");
    if (isnan(score))
        fail(BAD_RECORD, "%s: %s is not in the elite", path, best);
    printf("<!-- from h200/elite -->\n"
           "| knob | here | changed to | p50, µs | against the best |\n|---|--:|--:|--:|---|\n");
    json_array_foreach (changes, i, change) {
        const char *knob = text(change, path, "knob", "");
        char key[96];
        snprintf(key, sizeof key, "knob.%.64s", knob);
        double here = number(of_best, path, key);
        if (strcmp(knob, previous) == 0)
            printf("| | | ");
        else
            printf("| `%s` | %.0f | ", knob, here);
        previous = knob;
        printf("%.0f | ", number(change, path, "value"));
        const char *said = text(change, path, "said", "");
        if (strcmp(text(change, path, "verdict", ""), "timed") == 0) {
            double us = positive(change, path, "score");
            printf("%.2f | %+.0f %% |\n", us, 100 * (us / score - 1));
        } else {
            printf("– | %s%s%s |\n", text(change, path, "verdict", ""), said[0] ? ": " : "", said);
        }
    }
    json_decref(elite);
}

// ---- The scoreboard -----------------------------------------------------------------------------

static const char *const board_shapes[] = {"small", "mission", "long", "huge"};
enum { BOARD_SHAPES = 4, MAX_CONTESTANTS = 64 };

static struct board {
    json_t *json, *floors; // floors.json beside it, or NULL
    const char *path;
    const char *names[MAX_CONTESTANTS]; // in the record's order: stages, then PyTorch
    int count;
} board;

static json_t *board_shape(int shape)
{
    return object(object(board.json, board.path, "shapes"), board.path, board_shapes[shape]);
}

static json_t *board_entry(int shape, const char *name)
{
    return json_object_get(object(board_shape(shape), board.path, "entries"), name);
}

static double board_time(int shape, const char *name, const char *mode)
{
    return positive(json_object_get(board_entry(shape, name), mode), board.path, "p50_us");
}

static double board_floor(int shape)
{
    json_t *said = board.floors == NULL ? NULL : at(board.floors, "shapes");
    return positive(json_object_get(said, board_shapes[shape]), "floors.json", "floor_and_launch");
}

// "warp specialisation  13", "13 warp specialisation", "13"; "PyTorch, cuDNN", "cuDNN"; or the name
// of a reader's own program.
enum label_form { IN_CHART, IN_TABLE, SHORT };

static const char *board_label(const char *name, enum label_form form)
{
    static char label[128];
    static const char *const backends[][2] = {{"pytorch-flash", "flash"},
                                              {"pytorch-cudnn", "cuDNN"},
                                              {"pytorch-efficient", "efficient"},
                                              {"pytorch-math", "math"}};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strcmp(name, backends[i][0]) == 0) {
            snprintf(label, sizeof label, form == SHORT ? "%s" : "PyTorch, %s", backends[i][1]);
            return label;
        }
    int chapter;
    if (sscanf(name, "ch%2d_", &chapter) != 1)
        snprintf(label, sizeof label, "%s", name);
    else if (form == SHORT)
        snprintf(label, sizeof label, "%d", chapter);
    else if (form == IN_TABLE)
        snprintf(label, sizeof label, "%d %s", chapter, stage_of(chapter)->name);
    else
        snprintf(label, sizeof label, "%s  %d", stage_of(chapter)->name, chapter);
    return label;
}

// Reads a record of labs/tools/scoreboard and who is in it with a time.
static void load_board(const char *path)
{
    board = (struct board){.json = load(path), .path = path};
    if (strcmp(text(board.json, path, "kind", ""), "scoreboard") != 0)
        fail(BAD_RECORD, "%s: not what labs/tools/scoreboard writes", path);
    char *folder = strdup(path);
    char *slash = strrchr(folder, '/');
    char *beside = join(slash == NULL ? "." : (*slash = '\0', folder), "floors.json");
    FILE *file = fopen(beside, "r");
    if (file != NULL) {
        fclose(file);
        board.floors = load(beside);
    }
    free(beside);
    free(folder);
    for (int s = 0; s < BOARD_SHAPES; s++) {
        const char *name;
        json_t *entry;
        json_object_foreach (object(board_shape(s), path, "entries"), name, entry) {
            bool known = isnan(board_time(s, name, "graph"));
            for (int i = 0; i < board.count; i++)
                known = known || strcmp(board.names[i], name) == 0;
            if (known)
                continue;
            if (board.count == MAX_CONTESTANTS)
                fail(BAD_RECORD, "%s: more than %d contestants", path, MAX_CONTESTANTS);
            board.names[board.count++] = name;
        }
    }
    if (board.count == 0)
        fail(NOTHING_TO_DRAW, "%s: nobody has a time", path);
}

static void unload_board(void)
{
    json_decref(board.json);
    json_decref(board.floors);
}

static bool is_pytorch(const char *name)
{
    return strncmp(name, "pytorch-", 8) == 0;
}

// Block 0: rows (place, label). Then a block a shape: its name, PyTorch's best, the floor, and the
// least and the most that is drawn (NaN where unknown); then place, graph, cold of each contestant.
static void scoreboard_chart(void)
{
    double place[MAX_CONTESTANTS];
    for (int i = 0; i < board.count; i++) {
        place[i] = i + 1 + (is_pytorch(board.names[i]) ? 0.4 : 0);
        printf("%g\t%s\n", place[i], board_label(board.names[i], IN_CHART));
    }
    for (int s = 0; s < BOARD_SHAPES; s++) {
        double theirs = positive(board_shape(s), board.path, "best_pytorch.p50_us");
        double floor = board_floor(s), least = NAN, most = NAN; // fmin and fmax pass a NaN over
        for (int i = 0; i < board.count; i++) {
            double graph = board_time(s, board.names[i], "graph");
            least = fmin(least, graph);
            most = fmax(most, fmax(graph, board_time(s, board.names[i], "cold")));
        }
        end_block();
        printf("%s\t%.6g\t%.6g\t%.6g\t%.6g\n", board_shapes[s], theirs, floor,
               isnan(least) ? NAN : fmin(least, floor), most);
        for (int i = 0; i < board.count; i++)
            printf("%g\t%.6g\t%.6g\n", place[i], board_time(s, board.names[i], "graph"),
                   board_time(s, board.names[i], "cold"));
    }
}

// A block for the stages and one for PyTorch: time of mission, error, and a label with its place. Of
// points that lie close together the first has a label that names them all, in their middle.
static void accuracy_chart(void)
{
    struct point {
        double p50, error, logs; // logs: of the times that the label is for, summed
        int named;
        char label[160];
    } points[MAX_CONTESTANTS];
    for (int of_pytorch = 0; of_pytorch < 2; of_pytorch++) {
        int count = 0;
        for (int i = 0; i < board.count; i++) {
            const char *name = board.names[i];
            struct point p = {.p50 = board_time(1, name, "graph"),
                              .error = positive(board_entry(1, name), board.path, "rel_head")};
            if (is_pytorch(name) != (of_pytorch == 1) || isnan(p.p50) || isnan(p.error))
                continue;
            struct point *leader = NULL;
            for (int k = 0; k < count && leader == NULL; k++)
                if (fabs(log(p.p50 / points[k].p50)) < (of_pytorch ? 0.2 : 0.35) &&
                    fabs(log(p.error / points[k].error)) < 0.4 && points[k].label[0] != '\0')
                    leader = &points[k];
            if (leader == NULL) {
                snprintf(p.label, sizeof p.label, "%s", board_label(name, SHORT));
            } else {
                size_t length = strlen(leader->label);
                snprintf(leader->label + length, sizeof leader->label - length, ", %s",
                         board_label(name, SHORT));
            }
            points[count++] = p;
            struct point *named = leader == NULL ? &points[count - 1] : leader;
            named->logs += log(p.p50);
            named->named++;
        }
        if (of_pytorch)
            end_block();
        printf("%s\t\t\t\n", of_pytorch ? "PyTorch, half" : "stages, by chapter");
        for (int i = 0; i < count; i++)
            printf("%.6g\t%.6g\t%.6g\t%s\n", points[i].p50, points[i].error,
                   points[i].named == 0 ? points[i].p50 : exp(points[i].logs / points[i].named),
                   points[i].label);
        if (count == 0)
            puts("NaN\tNaN\tNaN\t");
    }
}

static void print_cell(double value, const char *format)
{
    if (isnan(value))
        printf(" – |");
    else
        printf(format, value);
}

static const char *time_format(double us)
{
    return us < 99.95 ? " %.2f |" : us < 999.5 ? " %.1f |" : " %.0f |";
}

// The records by the names that the book quotes them by: "h200/scoreboard", "h200/floors".
static void print_origin(void)
{
    const char *name = board.path + strlen(board.path);
    for (int slashes = 0; name > board.path; name--)
        if (name[-1] == '/' && ++slashes == 2)
            break;
    printf("<!-- from %.*s", (int)(strlen(name) - strlen(".json")), name);
    if (board.floors != NULL)
        printf(" %.*s/floors", (int)strcspn(name, "/"), name);
    puts(" -->");
}

// A Markdown table: a row a contestant; p50 by graph at each shape, error and ratio at mission. The
// fastest of a shape is in bold.
static void scoreboard_table(void)
{
    double best[BOARD_SHAPES];
    print_origin();
    printf("| |");
    for (int s = 0; s < BOARD_SHAPES; s++) {
        printf(" %s |", board_shapes[s]);
        best[s] = INFINITY;
        for (int i = 0; i < board.count; i++)
            best[s] = fmin(best[s], board_time(s, board.names[i], "graph"));
    }
    puts(" error, 10⁻⁴ | × flash |\n|---|--:|--:|--:|--:|--:|--:|");
    for (int i = 0; i < board.count; i++) {
        const char *name = board.names[i];
        printf("| %s |", board_label(name, IN_TABLE));
        for (int s = 0; s < BOARD_SHAPES; s++) {
            double us = board_time(s, name, "graph");
            if (us == best[s])
                printf(us < 99.95 ? " **%.2f** |" : us < 999.5 ? " **%.1f** |" : " **%.0f** |", us);
            else
                print_cell(us, time_format(us));
        }
        json_t *entry = board_entry(1, name);
        double flash = board_time(1, "pytorch-flash", "graph");
        print_cell(positive(entry, board.path, "rel_head") * 1e4, " %.1f |");
        print_cell(flash / board_time(1, name, "graph"), " %.2f |");
        puts("");
    }
    if (board.floors == NULL)
        return;
    printf("| *floor and launch* |");
    for (int s = 0; s < BOARD_SHAPES; s++)
        print_cell(board_floor(s), time_format(board_floor(s)));
    puts(" | |");
}

// A Markdown table: graph, plain and cold at small and mission; what is longer does not notice.
static void ways_table(void)
{
    static const char *const modes[] = {"graph", "plain", "cold"};
    print_origin();
    puts("| | small:" NBSP "graph | plain | cold | mission:" NBSP "graph | plain | cold |\n"
         "|---|--:|--:|--:|--:|--:|--:|");
    for (int i = 0; i < board.count; i++) {
        printf("| %s |", board_label(board.names[i], IN_TABLE));
        for (int s = 0; s < 2; s++)
            for (int m = 0; m < 3; m++) {
                double us = board_time(s, board.names[i], modes[m]);
                print_cell(us, us < 99.95 ? " %.1f |" : " %.0f |");
            }
        puts("");
    }
    if (board.floors == NULL)
        return;
    printf("| *an empty launch* |");
    for (int s = 0; s < 2; s++)
        for (int m = 0; m < 3; m++) {
            char key[48];
            snprintf(key, sizeof key, "rates.launch_%s_us", modes[m]);
            print_cell(positive(board.floors, "floors.json", key), " %.1f |");
        }
    puts("");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } boards[] = {
        {"scoreboard", scoreboard_chart},
        {"accuracy", accuracy_chart},
        {"scoreboard-table", scoreboard_table},
        {"ways-table", ways_table},
    };
    for (size_t i = 0; argc == 3 && i < sizeof boards / sizeof *boards; i++)
        if (strcmp(argv[1], boards[i].name) == 0) {
            load_board(argv[2]);
            boards[i].print();
            unload_board();
            if (fflush(stdout) != 0 || ferror(stdout))
                fail(BAD_RECORD, "cannot write: %s", strerror(errno));
            return 0;
        }
    static const struct {
        const char *name;
        void (*print)(void);
    } charts[] = {
        {"ladder", ladder},       {"roofline", roofline}, {"time-vs-s", time_vs_s},
        {"resources", resources}, {"error", error_chart}, {"promises", promises},
    };
    if (argc == 3 && strcmp(argv[1], "lab") == 0) {
        lab_chart(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "search") == 0) {
        search_chart(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "changes") == 0) {
        changes_table(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "pairs") == 0) {
        pairs_table(argv[2]);
    } else if (argc == 2 || (argc == 4 && strcmp(argv[2], "--plots") == 0)) {
        size_t chart = 0, count = sizeof charts / sizeof charts[0];
        while (chart < count && strcmp(argv[1], charts[chart].name) != 0)
            chart++;
        if (chart == count)
            fail(
                BAD_USAGE,
                "\"%s\" is no chart: ladder, roofline, time-vs-s, resources, error, promises, lab, "
                "search, changes, pairs",
                argv[1]);
        load_labs = strcmp(argv[1], "promises") == 0;
        load_all(argc == 4 ? argv[3] : "plots");
        charts[chart].print();
        for (int i = 0; i < record_count; i++) {
            json_decref(records[i].json);
            free(records[i].path);
        }
        for (int i = 0; i < side_count; i++) {
            json_decref(sides[i].json);
            free(sides[i].path);
        }
        json_decref(gpus);
        free(tree);
    } else {
        fail(BAD_USAGE, "usage: series CHART [--plots DIR] | series lab RECORD.json");
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        fail(BAD_RECORD, "cannot write: %s", strerror(errno));
    return 0;
}
