// records.c: reads run records, checks them, and sorts them for the charts.
#include "series.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workbench/stages.h"

struct record records[MAX_RECORDS], sides[MAX_RECORDS];
int record_count, side_count;
const struct named_shape named_shapes[NAMED_SHAPES] = {
#define SHAPE(name, batch, heads, seq_len) {#name, seq_len},
#include "workbench/shapes.def"
#undef SHAPE
};

static bool load_labs;     // whether labs' records are loaded instead of programs'
static char *sources_path; // SOURCES_KERNELS below plots/
static char *tree; // the folder that contains plots/ and chapters/; NULL: the working directory

// ---- Values ---------------------------------------------------------------------------------------

// Notes a record that was read, in the file that SERIES_READS names, for plots/render.
static void note_read(const char *path)
{
    const char *name = getenv("SERIES_READS");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (name && (!file || fprintf(file, "%s\n", path) < 0 || fclose(file) != 0))
        fail(BAD_RECORD, "%s: %s", name, strerror(errno));
}

json_t *load(const char *path)
{
    note_read(path);
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

json_t *load_beside(const char *record, const char *name, char **path)
{
    const char *slash = strrchr(record, '/');
    *path = text("%.*s%s", slash ? (int)(slash + 1 - record) : 0, record, name);
    return access(*path, R_OK) == 0 ? load(*path) : NULL;
}

json_t *load_journal(const char *path)
{
    FILE *file = fopen(path, "r");
    note_read(path);
    if (file == NULL)
        fail(BAD_RECORD, "%s: %s", path, strerror(errno));
    json_t *lines = json_array(), *line;
    json_error_t error;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error)) != NULL)
        json_array_append_new(lines, line);
    if (!feof(file))
        fail(BAD_RECORD, "%s: line %zu: %s", path, json_array_size(lines) + 1, error.text);
    fclose(file);
    if (words(json_array_get(lines, 0), path, "search", NULL) == NULL)
        fail(BAD_RECORD, "%s: not the journal of a search", path);
    return lines;
}

// The number at a dotted path; NAN: nothing is there. Any other value makes the record bad.
double number(json_t *json, const char *file, const char *path)
{
    json_t *value = at(json, path);
    if (value == NULL)
        return NAN;
    if (!json_is_number(value))
        fail(BAD_RECORD, "%s: %s is not a number", file, path);
    return json_number_value(value);
}

// A time or a size for a logarithmic axis: if there is one, it must be positive.
double positive(json_t *json, const char *file, const char *path)
{
    double value = number(json, file, path);
    if (!isnan(value) && !(value > 0))
        fail(BAD_RECORD, "%s: %s is %g, not positive", file, path, value);
    return value;
}

// The text at a dotted path; if there is none, `otherwise`.
const char *words(json_t *json, const char *file, const char *path, const char *otherwise)
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

json_t *object(json_t *json, const char *file, const char *path)
{
    json_t *value = at(json, path);
    if (value != NULL && !json_is_object(value))
        fail(BAD_RECORD, "%s: %s is not an object", file, path);
    return value;
}

// The order of the series, so that a GPU keeps its colour: H200, L4, others, reported ones.
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
    if (order == 0) // programs that are no stage come last
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

static bool has_mask_or_cache(json_t *program)
{
    json_t *shape = json_object_iter_value(json_object_iter(at(program, "shapes")));

    return at(program, "mask") != NULL || at(shape, "queries") != NULL;
}

// Whether a record is of a program with a mask or a cache, or of a lab that judges one: these
// compute something else than the stages, and are in no chart of them.
static bool computes_else(const char *folder, const struct record *record)
{
    if (has_mask_or_cache(record->json))
        return true;
    const char *after = load_labs ? words(record->json, record->path, "after", NULL) : NULL;
    if (after == NULL)
        return false;
    char *path = text("%s/%s.json", folder, after);
    json_t *program = json_load_file(path, 0, NULL); // NULL: it is not there
    bool other = has_mask_or_cache(program);
    json_decref(program);
    free(path);
    return other;
}

static void load_gpu(const char *folder, const char *gpu)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return; // a stray file beside the folders
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        bool reported = strcmp(gpu, REPORTED) == 0;
        bool baseline = strncmp(name, "pytorch-", 8) == 0; // a record of PyTorch, not of a stage
        bool program = strncmp(name, "ch", 2) == 0 && strspn(name + 2, "0123456789") == 2 &&
                       name[4] == '_'; // other names are trials that a chapter describes
        bool wanted = load_labs ? strncmp(name, "lab", 3) == 0 : baseline || program;
        if (name[0] == '.' || !ends_with(name, ".json") || (!reported && !wanted))
            continue;
        if (record_count == MAX_RECORDS)
            fail(BAD_RECORD, "%s: more than %d records", folder, MAX_RECORDS);
        struct record *record = &records[record_count++];
        snprintf(record->gpu, sizeof record->gpu, "%s", gpu);
        record->path = text("%s/%s", folder, name);
        record->json = load(record->path);
        if (computes_else(folder, record)) {
            json_decref(record->json);
            free(record->path);
            --record_count;
            continue;
        }
        const char *key = load_labs && !reported ? "lab" : "chapter";
        double chapter = number(record->json, record->path, key);
        bool valid = chapter >= 1 && chapter <= MAX_CHAPTER && chapter == floor(chapter);
        if (!valid && !((reported || baseline) && isnan(chapter)))
            fail(BAD_RECORD, "%s: %s is not a number from 1 to %d", record->path, key, MAX_CHAPTER);
        record->chapter = isnan(chapter) ? 0 : (int)chapter;
        if (!reported && strcmp(words(record->json, record->path, "runtime", ""), "gpu") != 0)
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

// A chapter may have programs besides its stage's. The charts show the stage's program or, without
// one, the first. The others go to `sides`.
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

void load_all(const char *plots, bool labs)
{
    load_labs = labs;
    char *folder = text("%s/runs", plots);
    DIR *directory = opendir(folder);
    if (directory == NULL)
        fail(BAD_RECORD, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "cpu") != 0 &&
            strcmp(entry->d_name, "simulator") != 0) { // all other folders are GPUs
            char *gpu_folder = text("%s/%s", folder, entry->d_name);
            load_gpu(gpu_folder, entry->d_name);
            free(gpu_folder);
        }
    closedir(directory);
    free(folder);
    qsort(records, (size_t)record_count, sizeof records[0], record_order);
    tree = text("%s/..", plots);
    sources_path = text("%s/" SOURCES_KERNELS, plots);
    for (int i = 0; i < record_count; i++)
        if (records[i].chapter > 0)
            stage_of(records[i].chapter); // reports a missing row before anything is printed
    set_side_programs_apart();
}

static void unload(struct record *which, int count)
{
    for (int i = 0; i < count; i++) {
        json_decref(which[i].json);
        free(which[i].path);
    }
}

json_t *load_sources(const char **path)
{
    *path = sources_path;
    return access(sources_path, F_OK) == 0 ? load(sources_path) : NULL;
}

void unload_all(void)
{
    free(sources_path);
    unload(records, record_count);
    unload(sides, side_count);
    free(tree);
}

// ---- Rows, one for each stage, from top to bottom -----------------------------------------------

const char *stage_name(int chapter)
{
    return stage_of(chapter)->name;
}

const char *device_name(const struct record *record)
{
    return words(record->json, record->path, "device.name", record->gpu);
}

bool is_reported(const struct record *record)
{
    return strcmp(record->gpu, REPORTED) == 0;
}

bool is_stage(const struct record *record)
{
    return !is_reported(record) && record->chapter > 0;
}

void end_block(void)
{
    fputs("\n\n", stdout);
}

int print_rows(const bool *drawn, int *row_of)
{
    int rows = 0;
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++)
        if (drawn[chapter]) {
            row_of[chapter] = ++rows;
            printf("%d\t%s  %d\n", rows, stage_name(chapter), chapter);
        }
    return rows;
}
