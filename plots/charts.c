// charts.c: the charts over all stages.
#include "image/gpus.h"
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Collects every mission p50 in a reported record, in ascending order. Returns how many.
static int reported_times(const struct record *record, double *times, int most, bool *approximate)
{
    int count = 0;
    const char *key;
    json_t *figure;
    *approximate = false;
    json_object_foreach (object(record->json, record->path, "figures"), key, figure) {
        double p50 = positive(figure, record->path, "p50_us");
        if (isnan(p50) || strcmp(words(figure, record->path, "shape", ""), "mission") != 0)
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

// Whether the clock moved by more than 5 % while a shape was timed: if so, its point is marked.
static bool clock_moved_at(const struct record *record, const char *shape)
{
    char path[96];
    snprintf(path, sizeof path, "shapes.%s.timing.clock.moved", shape);
    return json_is_true(at(record->json, path));
}

// Records of programs that are no stage get rows below the stages, if they have a time for the
// mission shape: one row for each name, whoever measured it.
static const char *extra_rows[MAX_RECORDS];
static int extra_row_count;

static const char *extra_name(const struct record *record)
{
    return words(record->json, record->path, "stage", record->path);
}

static void add_extra_row(const struct record *record)
{
    for (int i = 0; i < extra_row_count; i++)
        if (strcmp(extra_rows[i], extra_name(record)) == 0)
            return;
    extra_rows[extra_row_count++] = extra_name(record);
}

// The row of a record; for one that is no stage, below the `rows` rows of the stages.
static double place_of(const struct record *record, const int *row_of, int rows)
{
    if (record->chapter > 0)
        return row_of[record->chapter];
    int i = 0;
    while (strcmp(extra_rows[i], extra_name(record)) != 0)
        i++;
    return rows + 1.4 + i;
}

// Prints the sources' kernels in the rows of the chapters' programs that correspond to them. All
// are for 1x8x512, since they were not timed with two batches on an L4.
static void print_sources(const bool *drawn, const int *row_of)
{
    static const struct {
        const char *name;
        int chapter;
    } kernels[] = {{"828e7b1_direct", 3},
                   {"828e7b1_cp", 4},
                   {"e58bde3", 6},
                   {"0e7e52b_three", 9},
                   {"67545bd", 10}};
    const char *path;
    json_t *record = load_sources(&path);
    if (record == NULL)
        return;
    end_block();
    printf("%s, the sources' kernels, measured at 1x8x512\t\t\n",
           words(record, path, "device.name", "a GPU"));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        char key[64];
        snprintf(key, sizeof key, "kernels.%s.shapes.1x8x512.p50_us", kernels[i].name);
        double p50 = positive(record, path, key);
        if (isnan(p50))
            fail(BAD_RECORD, "%s: %s is missing", path, key);
        if (drawn[kernels[i].chapter])
            printf("%d\t%.6g\t%.0f\n", row_of[kernels[i].chapter], p50, p50);
    }
    json_decref(record);
}

// Block 0: rows. Block 1: reported times (row, p50, label at the row's last point). Then a block
// for each GPU, and one for the sources' kernels, with "the sources' kernels" in its name. The
// first line of a series is its name; a line that begins with NaN ends the path. A time during
// which the clock moved has an asterisk.
void ladder(void)
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
            printf("%s, measured\t\t\n", device_name(&records[i]));
        }
        if (records[i].chapter == 0) // the path ends before this point
            puts("NaN\tNaN\t");
        gpu = records[i].gpu;
        double p50 = mission_p50(&records[i]);
        printf("%g\t%.6g\t%.*f%s\n", place_of(&records[i], row_of, rows), p50, p50 < 100, p50,
               clock_moved_at(&records[i], "mission") ? "*" : "");
    }
    print_sources(drawn, row_of);
}

struct label {
    double x, y;
    int chapter;
    bool moved; // whether the clock moved while this was timed
};

static int label_order(const void *a, const void *b)
{
    const struct label *left = a, *right = b;
    if (left->x != right->x)
        return left->x < right->x ? -1 : 1;
    return left->y < right->y ? -1 : left->y > right->y ? 1 : left->chapter - right->chapter;
}

// Prints labels of points that are in columns: for each column the chapters of its lowest and
// highest point; or one label for all ("2, 3"; "7–12"), if the points are within `factor` of each
// other.
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

// Prints labels at the right ends of curves, moved apart until neighbours differ by `factor`: x and
// y of the curve, y of the label, the label.
static void print_end_labels(struct label *ends, int count, double factor)
{
    double y[MAX_RECORDS];
    qsort(ends, (size_t)count, sizeof ends[0], label_order);
    for (int i = 0; i < count; i++)
        y[i] = ends[i].y;
    for (int round = 0; round < 200; round++)
        for (int i = 1; i < count; i++) {
            // Above 1: two labels are too close, and each moves by half of what is missing.
            double lack = sqrt(y[i - 1] * factor / y[i]);
            if (lack > 1) {
                y[i] *= lack;
                y[i - 1] /= lack;
            }
        }
    for (int i = 0; i < count; i++)
        printf("%.6g\t%.6g\t%.6g\t%d  %s\n", ends[i].x, ends[i].y, y[i], ends[i].chapter,
               stage_name(ends[i].chapter));
}

// FLOPs for each byte of DRAM traffic, if each tensor crosses once: 4 S^2 D / (5 S D), since three
// tensors have one byte for each element and one has two; the same for any batch and number of
// heads.
static double intensity(double seq_len)
{
    return 4 * seq_len / 5;
}

struct roof {
    double dram, tensor, fp32; // dram: TB/s; the others: TFLOP/s
};

static struct roof roof_of(const struct gpu *gpu)
{
    return (struct roof){gpu->dram_gbs / 1e3, gpu->tensor_fp16_tflops, gpu->fp32_tflops};
}

// Prints a horizontal ceiling, from where it meets the slope of the memory.
static void print_ceiling(double height, double dram, double right)
{
    printf("%.6g\t%.6g\n%.6g\t%.6g\n", height / dram, height, right, height);
    end_block();
}

// Blocks: 0: shapes (intensity, name; the axis's lower end, both GPUs' DRAM TB/s). 1, 2: roof and
// fp32 ceiling of the H200; 3, 4: of an L4. 5: the H200's measured tensor ceiling; 6: its ceiling
// for products of E4M3. 7, 8: the names of each GPU's ceilings (x, y, text). If there are points:
// 9: their labels; 10: the H200's, 11: an L4's (x, y).
void roofline(void)
{
    const double left = 20, right = 1e5;
    const struct gpu *h200 = &gpus[GPU_H200], *l4 = &gpus[GPU_L4], *const drawn[] = {h200, l4};
    struct label points[2][MAX_RECORDS * NAMED_SHAPES], labels[MAX_RECORDS * NAMED_SHAPES];
    int counts[2] = {0};
    double lowest = 1;
    for (int i = 0; i < record_count; i++)
        for (int g = 0; g < 2 && is_stage(&records[i]); g++)
            for (int k = 0; k < NAMED_SHAPES && strcmp(records[i].gpu, drawn[g]->key) == 0; k++) {
                char path[64];
                snprintf(path, sizeof path, "shapes.%s.tflops", named_shapes[k].name);
                double tflops = positive(records[i].json, records[i].path, path);
                if (isnan(tflops))
                    continue;
                points[g][counts[g]++] = (struct label){intensity(named_shapes[k].seq_len), tflops,
                                                        records[i].chapter, false};
                lowest = fmin(lowest, tflops / 2);
            }

    const struct roof roofs[2] = {roof_of(h200), roof_of(l4)};
    for (int k = 0; k < NAMED_SHAPES; k++)
        printf("%.6g\t%s\t%.6g\t%g\t%g\n", intensity(named_shapes[k].seq_len), named_shapes[k].name,
               lowest, roofs[0].dram, roofs[1].dram);
    end_block();
    for (int g = 0; g < 2; g++) {
        printf("%.6g\t%.6g\n", left, left * roofs[g].dram);
        print_ceiling(roofs[g].tensor, roofs[g].dram, right);
        print_ceiling(roofs[g].fp32, roofs[g].dram, right);
    }
    double sync = (h200->mma_sync_low_tflops + h200->mma_sync_high_tflops) / 2;
    print_ceiling(sync, roofs[0].dram, right);
    printf("%.6g\t%.6g\n", roofs[0].tensor / roofs[0].dram,
           roofs[0].tensor); // the memory's slope continues
    print_ceiling(2 * roofs[0].tensor, roofs[0].dram, right);
    const double above = 1.24, below = 1 / above;
    printf("%.6g\t%.6g\tH200 tensor cores, E4M3, %.0f\n", right, 2 * roofs[0].tensor * above,
           2 * roofs[0].tensor);
    printf("%.6g\t%.6g\tH200 tensor cores, half, %.0f\n", right, roofs[0].tensor * above,
           floor(roofs[0].tensor));
    printf("%.6g\t%.6g\tmma.sync, %.0f to %.0f\n", right, sync * below, h200->mma_sync_low_tflops,
           h200->mma_sync_high_tflops);
    printf("%.6g\t%.6g\tH200 fp32, %.0f\n", right, roofs[0].fp32 * below, roofs[0].fp32);
    end_block();
    printf("%.6g\t%.6g\tL4 tensor cores, %.0f\n", right, roofs[1].tensor * above, roofs[1].tensor);
    printf("%.6g\t%.6g\tL4 fp32, %.0f\n", right, roofs[1].fp32 * below, roofs[1].fp32);
    int labelled = counts[0] > 0 ? 0 : 1; // labels one GPU's points: the H200's, if any
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

// p50 against S for 2 batches of 8 heads, on the first GPU that has records, as gpu_rank() orders
// GPUs. A block for each program: the first line is the GPU; then S, p50, and 1 if the clock moved,
// otherwise 0. Then a block with the labels at the right ends.
void time_vs_s(void)
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
            points[point_count++] =
                (struct label){seq_len, p50, records[i].chapter, clock_moved_at(&records[i], name)};
        }
        if (point_count == 0 || (gpu != NULL && strcmp(gpu, records[i].gpu) != 0))
            continue;
        gpu = records[i].gpu;
        qsort(points, (size_t)point_count, sizeof points[0], label_order);
        printf("%s\t\t\n", device_name(&records[i]));
        for (int k = 0; k < point_count; k++)
            printf("%.6g\t%.6g\t%d\n", points[k].x, points[k].y, points[k].moved);
        end_block();
        ends[count++] = points[point_count - 1];
    }
    if (count == 0)
        fail(NOTHING_TO_DRAW, "no record holds a time of a shape with 2 batches of 8 heads");
    print_end_labels(ends, count, 1.5);
}

// Resources of the sm_89 image are the same on every machine, so the first record of a chapter is
// taken. Block 0: rows. Block 1: row, shared memory (KiB), registers, occupancy (%), what limits
// it. Block 2: row and occupancy of those other programs of the chapters that keep every gate.
void resources(void)
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
               occupancy * 100, words(image, record->path, "limited_by", ""));
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

// The parts of an instruction's cycles, from bottom to top; the last is the rest.
static const struct {
    const char *name, *key;
} parts[] = {
    {"issued", NULL},
    {"for the instruction before", "stall_fixed_cycles"},
    {"shared memory, exponentials, shuffles", "stall_short_cycles"},
    {"global memory", "stall_long_cycles"},
    {"barrier", "stall_barrier_cycles"},
    {"ready, another chosen", "stall_not_selected_cycles"},
    {"other", NULL},
};
enum { PARTS = sizeof parts / sizeof *parts };

// The most warps of a scheduler, on the GPU on which a lab ran, by its compute capability.
static double scheduler_warps(const struct record *lab)
{
    const char *capability = words(lab->json, lab->path, "device.compute_capability", "");
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].arch == (int)lround(10 * strtod(capability, NULL)))
            return (double)gpus[i].threads_sm / 32 / GPU_RATE_ISSUE;
    fail(NOTHING_TO_DRAW,
         "%s: how many warps an SM of compute capability \"%s\" holds is not known", lab->path,
         capability);
}

// What Nsight Compute counted for a chapter's program: in the chapter's own lab or, if that lacks
// some stall reasons, in the next lab, which compares with the program. NULL: neither has counts.
static json_t *counted(const struct record *const *labs, int chapter, const char **path)
{
    for (int lab = chapter; labs[chapter] && lab <= chapter + 1 && labs[lab]; lab++) {
        json_t *programs = at(labs[lab]->json, "evidence.ncu");
        json_t *ncu = at(programs, words(labs[chapter]->json, labs[chapter]->path, "after", ""));
        *path = labs[lab]->path;
        if (ncu != NULL && !isnan(number(ncu, *path, parts[PARTS - 2].key)))
            return ncu;
    }
    return NULL;
}

// The labs of the first GPU with a record that has stall counts, by chapter; `drawn` marks the
// chapters with stall counts. False: no GPU has such a record.
static bool labs_with_stalls(const struct record **labs, bool *drawn)
{
    for (int first = 0; first < record_count; first++) {
        const char *gpu = records[first].gpu, *path;
        bool any = false;
        if (is_reported(&records[first]) || (first > 0 && strcmp(gpu, records[first - 1].gpu) == 0))
            continue;
        memset(labs, 0, (MAX_CHAPTER + 2) * sizeof *labs);
        for (int i = first; i < record_count && strcmp(gpu, records[i].gpu) == 0; i++)
            labs[records[i].chapter] = &records[i];
        for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++)
            any |= drawn[chapter] = counted(labs, chapter, &path) != NULL;
        if (any)
            return true;
    }
    return false;
}

// Prints a row of the chart: its number, the end of each part, the whole, instructions in millions;
// then "-", or an asterisk if the launch was not at the mission shape (the lab has no ratio for
// it).
static void print_stalls(const struct record *const *labs, int chapter, int row)
{
    const char *path;
    json_t *ncu = counted(labs, chapter, &path);
    double whole = scheduler_warps(labs[chapter]) * number(ncu, path, "warps_active_percent") /
                   number(ncu, path, "issue_active_percent");
    double end = 1;
    printf("%d\t%.6g", row, end);
    for (int part = 1; part < PARTS - 1; part++)
        printf("\t%.6g", end += number(ncu, path, parts[part].key));
    if (!(end <= whole * 1.005)) // each part is rounded to two decimals
        fail(BAD_RECORD, "%s: the stalls of chapter %d add up to %.2f cycles of %.2f", path,
             chapter, end, whole);
    json_t *speedup = at(labs[chapter]->json, "speedup"); // chapter 2 has no program before it
    bool mission = speedup == NULL || at(speedup, "mission") != NULL;
    printf("\t%.6g\t%.6g\t%s\n", whole, number(ncu, path, "instructions") * 1e-6,
           mission ? "-" : "*");
}

// How the cycles between two issues of a warp split into stalls: their sum is the active warps of a
// scheduler, divided by the share of cycles in which the scheduler issues. Block 0: rows; 1: names
// of the parts; 2: the stalls of each row.
void stalls(void)
{
    bool drawn[MAX_CHAPTER + 1] = {false};
    int row_of[MAX_CHAPTER + 1] = {0};
    const struct record *labs[MAX_CHAPTER + 2];
    if (!labs_with_stalls(labs, drawn))
        fail(NOTHING_TO_DRAW, "no lab's record holds stall reasons");
    print_rows(drawn, row_of);
    end_block();
    for (int part = 0; part < PARTS; part++)
        puts(parts[part].name);
    end_block();
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++)
        if (drawn[chapter])
            print_stalls(labs, chapter, row_of[chapter]);
}
