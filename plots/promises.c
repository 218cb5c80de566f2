// promises.c: the table of what the sources promised and reported, and what the labs measured.
#include "series.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// Prints a number as the sources write it: 13.8, 1040, -6.1 with a minus sign.
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

// Prints the sources' promises: "+10–15 %; +20–30 % (PLAN)". The first is from the stage's own
// document, so only other documents are named.
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
        const char *by = words(promise, record->path, "promised_by", NULL);
        if (by != NULL)
            printf(" (%s)", by);
    }
    if (count == 0)
        printf("–");
}

// Prints what the sources reported for the mission shape, including contradictions.
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
        bool mission = strcmp(words(figure, record->path, "shape", ""), "mission") == 0;
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

// Prints "1.21 [1.20, 1.22]", and whether that keeps the promise.
static void print_measured(const struct record *lab)
{
    json_t *speedup = object(lab->json, lab->path, "speedup.mission");
    double median = positive(speedup, lab->path, "median");
    double low = positive(speedup, lab->path, "low"), high = positive(speedup, lab->path, "high");
    if (isnan(median) || isnan(low) || isnan(high))
        fail(BAD_RECORD, "%s: speedup.mission lacks the ratio or its interval", lab->path);
    printf(" %.2f" NBSP "[%.2f," NBSP "%.2f] |", median, low, high);
    printf(" %s |", words(speedup, lab->path, "verdict", "–"));
}

static bool is_measured(const struct record *record)
{
    return is_stage(record) && object(record->json, record->path, "speedup.mission") != NULL;
}

// Prints a Markdown table with a row for each lab that was measured on the first GPU with labs (the
// H200, if it has any; a page has no room for a second GPU). Its first line names the records from
// which it was made.
void promises(void)
{
    const char *gpu = NULL;
    for (int i = 0; i < record_count && gpu == NULL; i++)
        if (is_measured(&records[i]))
            gpu = records[i].gpu;
    if (gpu == NULL)
        fail(NOTHING_TO_DRAW, "no lab's record holds a ratio of the mission shape");
    printf("<!-- from");
    for (int i = 0; i < record_count; i++)
        if (is_measured(&records[i]) && strcmp(records[i].gpu, gpu) == 0)
            printf(" %s/lab%02d", gpu, records[i].chapter);
    printf(" -->\n| stage | against | sources promised | and reported (L4) | lab asks | ratio (");
    for (const char *c = gpu; *c; c++) // the folder's name: h200
        putchar(toupper((unsigned char)*c));
    puts(") | promise |\n|---|--:|---|---|--:|--:|---|");
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++) {
        const struct record *reported = record_of(REPORTED, chapter);
        const struct record *lab = record_of(gpu, chapter);
        if (lab == NULL || !is_measured(lab))
            continue;
        printf("| %d %s | ", chapter, stage_name(chapter));
        const char *before = words(lab->json, lab->path, "before", ""); // "ch03_wmma_qk"
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
        print_measured(lab);
        puts("");
    }
}
