// record.c: the run record, one JSON object (Jansson).
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { DUMP = JSON_INDENT(2) | JSON_REAL_PRECISION(7) };

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null(); // JSON has no NaN
}

static void put(json_t *object, const char *key, json_t *value)
{
    // This fails only for lack of memory.
    if (json_object_set_new(object, key, value) != 0) {
        complain("out of memory");
        exit(EXIT_MACHINE);
    }
}

static json_t *text(const char *string)
{
    json_t *value = json_string(string);
    return value ? value : json_string("not UTF-8");
}

static json_t *integer(size_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *code_json(const struct cubin_code *c)
{
    json_t *object = json_object();

    put(object, "instructions", json_integer(c->instructions));
    put(object, "hmma", json_integer(c->hmma));
    put(object, "qmma", json_integer(c->qmma));
    put(object, "f2fp", json_integer(c->f2fp));
    put(object, "prmt", json_integer(c->prmt));
    put(object, "shfl", json_integer(c->shfl));
    return object;
}

static json_t *resources_json(const struct resources *r)
{
    json_t *object = json_object();

    put(object, "registers", json_integer(r->registers));
    put(object, "static_shared_bytes", integer(r->static_shared_bytes));
    put(object, "dynamic_shared_bytes", integer(r->dynamic_shared_bytes));
    put(object, "local_bytes", integer(r->local_bytes));
    put(object, "threads", json_integer(r->threads));
    put(object, "ctas_per_sm", json_integer(r->ctas_per_sm));
    put(object, "occupancy", real(r->occupancy));
    char name[16];
    if (r->image.gpu) {
        json_t *image = json_object();
        put(image, "registers", json_integer(r->image.registers));
        put(image, "shared_bytes", integer(r->image.shared_bytes));
        put(image, "local_bytes", integer(r->image.local_bytes));
        put(image, "ctas_per_sm", json_integer(r->image.ctas_per_sm));
        put(image, "occupancy", real(r->image.occupancy));
        put(image, "limited_by", text(r->image.limited_by));
        snprintf(name, sizeof name, "sm_%d", r->image.gpu->arch);
        put(object, name, image);
    }
    json_t *code = json_object();
    for (int i = 0; i < gpu_count; ++i) {
        snprintf(name, sizeof name, "sm_%d", gpus[i].arch);
        if (r->code[i].there)
            put(code, name, code_json(&r->code[i].code));
    }
    if (json_object_size(code) > 0)
        put(object, "machine_code", code);
    else
        json_decref(code);
    return object;
}

void record_print_resources(const struct resources *resources)
{
    json_t *object = resources_json(resources);

    json_dumpf(object, stdout, DUMP);
    putchar('\n');
    json_decref(object);
}

static json_t *device_json(const struct device *d)
{
    json_t *object = json_object();
    char version[32];

    put(object, "name", text(d->name));
    snprintf(version, sizeof version, "%d.%d", d->major, d->minor);
    put(object, "compute_capability", text(version));
    put(object, "sms", json_integer(d->sms));
    put(object, "clock_mhz", json_integer(d->clock_mhz));
    put(object, "memory_clock_mhz", json_integer(d->memory_clock_mhz));
    put(object, "l2_bytes", integer(d->l2_bytes));
    snprintf(version, sizeof version, "%d.%d", d->driver / 1000, d->driver % 1000 / 10);
    put(object, "driver", text(version));
    snprintf(version, sizeof version, "%d.%d", d->toolkit / 1000, d->toolkit % 1000 / 10);
    put(object, "toolkit", text(version));
    return object;
}

static json_t *pair(double head, double row)
{
    json_t *object = json_object();

    put(object, "rel_head", real(head));
    put(object, "rel_row", real(row));
    return object;
}

static json_t *p_json(const struct p_rounding *p)
{
    json_t *object = json_object();

    put(object, "format", text("e4m3"));
    put(object, "offset", json_integer(p->offset));
    put(object, "sum", text(p->sum_rounded ? "rounded" : "unrounded"));
    if (p->tile > 0) {
        put(object, "tile", json_integer(p->tile));
        put(object, "lag", real(p->lag));
        if (p->mean)
            put(object, "mean", json_true());
        if (p->room > 0) {
            put(object, "room", real(p->room));
            put(object, "kept", real(p->kept));
            put(object, "lost", real(p->lost));
            put(object, "heavy", real(p->heavy));
        }
    }
    put(object, "factor", real(GATE_ROUNDED_FACTOR));
    return object;
}

static json_t *needles_json(const struct needles *n)
{
    json_t *object = json_object();

    put(object, "of", json_integer(n->of));
    put(object, "found", json_integer(n->found));
    put(object, "share", real(n->share));
    return object;
}

static void put_needles(json_t *object, const struct result *r)
{
    put(object, "needles", needles_json(&r->needles));
    put(object, "needles_exact", needles_json(&r->exact));
    if (r->rounded_needles.of > 0)
        put(object, "needles_rounded_p", needles_json(&r->rounded_needles));
}

static json_t *result_json(const struct run *run, const struct shape_run *shape,
                           const struct result *r)
{
    json_t *object = json_object();
    json_t *sources = json_object();

    put(object, "seed", integer(r->seed));
    put(object, "input", text(input_kind_name(r->input)));
    put(object, "pass", json_boolean(r->pass));
    if (r->fault) {
        put(object, "fault", text(r->fault));
        json_decref(sources);
        return object;
    }
    if (shape->rows.stride == 1) {
        put(object, "rows", text("all"));
    } else {
        char rows[64];
        snprintf(rows, sizeof rows, "every %dth and the last", shape->rows.stride);
        put(object, "rows", text(rows));
    }
    put(object, "rel_head", real(r->metrics.rel_head));
    put(object, "rel_row", real(r->metrics.rel_row));
    put(object, "max_abs", real(r->metrics.max_abs));
    put(object, "not_finite", integer(r->metrics.not_finite));
    if (r->needles.of > 0)
        put_needles(object, r);
    if (r->how)
        put(object, "how", text(r->how));
    if (run->program->p.format != P_NOT_TOLD) {
        put(object, "rounded_p", pair(r->rounded.rel_head, r->rounded.rel_row));
        put(object, "limits", pair(r->limits.head, r->limits.row));
    }
    put(sources, "pass", json_boolean(gate_sources(&r->sources)));
    put(sources, "max_abs", real(r->sources.max_abs));
    put(sources, "mean_abs", real(r->sources.mean_abs));
    put(sources, "bad_percent", real(r->sources.bad_percent));
    put(object, "sources", sources);
    return object;
}

static json_t *agreement_json(const struct result *r)
{
    json_t *object = json_object();

    put(object, "seed", integer(r->seed));
    put(object, "input", text(input_kind_name(r->input)));
    put(object, "identical_percent", real(r->agreement.identical_percent));
    put(object, "max_ulp", json_integer(r->agreement.max_ulp));
    put(object, "max_abs", real(r->agreement.max_abs));
    return object;
}

static json_t *clock_json(const struct clock_span *clock)
{
    json_t *object = json_object();

    put(object, "readings", json_integer(clock->readings));
    put(object, "low_mhz", real(clock->low_mhz));
    put(object, "high_mhz", real(clock->high_mhz));
    put(object, "watts", real(clock->watts));
    put(object, "moved", json_boolean(clock_moved(clock)));
    return object;
}

static json_t *timing_json(const struct run *run, const struct timing *timing)
{
    const struct summary *t = &timing->us;
    json_t *object = json_object();

    put(object, "p50_us", real(t->p50));
    put(object, "p90_us", real(t->p90));
    put(object, "p99_us", real(t->p99));
    put(object, "mean_us", real(t->mean));
    put(object, "std_us", real(t->std));
    put(object, "min_us", real(t->min));
    put(object, "max_us", real(t->max));
    put(object, "samples", json_integer(t->samples));
    put(object, "launches_per_sample", json_integer(timing->launches_per_sample));
    put(object, "rotations", json_integer(run->options->rotations));
    put(object, "warmup", json_integer(run->options->warmup));
    put(object, "mode", text(timing_mode_name(run->options->mode)));
    put(object, "cold_l2", json_boolean(run->options->mode == TIME_COLD));
    if (timing->clock.readings > 0)
        put(object, "clock", clock_json(&timing->clock));
    return object;
}

// Times of normal inputs go into the shape's "timing"; those of each other kind into its
// "timing_of", under the kind's name.
static void put_times(json_t *object, const struct run *run, const struct shape_run *shape)
{
    json_t *others = json_object();

    for (enum input_kind kind = 0; kind < INPUT_KINDS_ALL; ++kind)
        if (shape->timing[kind].done)
            put(kind == INPUT_NORMAL ? object : others,
                kind == INPUT_NORMAL ? "timing" : input_kind_name(kind),
                timing_json(run, &shape->timing[kind]));
    if (json_object_size(others) > 0)
        put(object, "timing_of", others);
    else
        json_decref(others);
}

static json_t *shape_json(const struct run *run, const struct shape_run *shape)
{
    json_t *object = json_object();
    json_t *correctness = json_array();
    json_t *agreement = json_array();

    put(object, "batch", json_integer(shape->shape.batch));
    put(object, "heads", json_integer(shape->shape.heads));
    put(object, "seq_len", json_integer(shape->shape.seq_len));
    if (shape->shape.ragged) {
        json_t *lengths = json_array();
        for (int i = 0; i < shape->shape.batch; ++i)
            json_array_append_new(lengths, json_integer(shape_length(&shape->shape, i)));
        put(object, "lengths", lengths);
    }
    if (shape->shape.head_dim)
        put(object, "head_dim", json_integer(shape->shape.head_dim));
    if (shape->shape.newest) {
        json_t *asked = json_array();
        for (int i = 0; i < shape->shape.batch; ++i)
            json_array_append_new(asked, json_integer(shape_rows_asked(&shape->shape, i)));
        put(object, "asked", asked);
    }
    if (shape->shape.page) {
        put(object, "queries", json_integer(shape->shape.group));
        put(object, "page", json_integer(shape->shape.page));
        put(object, "cache_bytes", real(shape_cache_bytes(&shape->shape)));
    }
    for (int i = 0; i < shape->count; ++i) {
        const struct result *r = &shape->results[i];
        json_array_append_new(correctness, result_json(run, shape, r));
        if (r->compared)
            json_array_append_new(agreement, agreement_json(r));
    }
    put(object, "correctness", correctness);
    if (json_array_size(agreement) > 0)
        put(object, "agreement", agreement);
    else
        json_decref(agreement);
    put_times(object, run, shape);
    if (shape->timing[INPUT_NORMAL].done) {
        double p50 = shape->timing[INPUT_NORMAL].us.p50;
        put(object, "tflops", real(masked_flops(&shape->shape, run->program->mask) / p50 / 1e6));
        if (shape->shape.page)
            put(object, "tb_per_s", real(shape_cache_bytes(&shape->shape) / p50 / 1e6));
    }
    return object;
}

// The fields at the beginning of the record, and of each summary.
static json_t *identity_json(const struct run *run)
{
    const struct program *p = run->program;
    json_t *object = json_object();
    time_t now = time(NULL);
    char date[32];

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    put(object, "record", json_integer(1));
    put(object, "program", text(p->name));
    put(object, "chapter", json_integer(p->chapter));
    put(object, "title", text(p->title));
    put(object, "source_hash", text(p->source_hash ? p->source_hash : "unknown"));
    put(object, "flags", text(p->build_flags ? p->build_flags : "unknown"));
    put(object, "git_commit", text(p->git_commit ? p->git_commit : "unknown"));
    put(object, "date", text(date));
    put(object, "runtime", text(run->device->simulator ? "simulator" : "gpu"));
    return object;
}

// Writes an object to a file, and releases it.
static bool write_object(json_t *object, const char *path, char *why, size_t size)
{
    char *dump = json_dumps(object, DUMP);

    json_decref(object);
    if (!dump) {
        snprintf(why, size, "cannot write %s: out of memory", path);
        return false;
    }
    size_t length = strlen(dump);
    dump[length] = '\n'; // replaces the NUL, since files end in a newline
    bool written = file_write(path, dump, length + 1, why, size);
    free(dump);
    return written;
}

bool record_write(const struct run *run, const char *path, char *why, size_t size)
{
    json_t *object = identity_json(run);
    json_t *shapes = json_object();

    put(object, "device", device_json(run->device));
    put(object, "resources", resources_json(run->resources));
    put(object, "tolerance", real(run->tolerance));
    if (run->program->p.format != P_NOT_TOLD)
        put(object, "p", p_json(&run->program->p));
    if (run->program->mask == MASK_CAUSAL)
        put(object, "mask", text("causal"));
    put(object, "tensor_flops_share", real(run->program->tensor_flops_share));
    for (int i = 0; i < run->shape_count; ++i)
        put(shapes, run->shapes[i].shape.name, shape_json(run, &run->shapes[i]));
    put(object, "shapes", shapes);
    return write_object(object, path, why, size);
}

// ---- Summaries ----------------------------------------------------------------------------------

// The larger of two numbers; NaN if one of them is NaN.
static double worse(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

// How many outputs of a shape pass each of the two gates, and the worst error of each kind.
static json_t *correctness_json(const struct shape_run *shape, int *passed)
{
    struct error_metrics ours = {0}, sources = {0};
    int by_ours = 0, by_sources = 0;
    json_t *object = json_object(), *second = json_object();

    for (int i = 0; i < shape->count; ++i) {
        const struct result *r = &shape->results[i];
        by_ours += r->pass;
        by_sources += !r->fault && gate_sources(&r->sources);
        ours.rel_head = worse(r->fault ? NAN : r->metrics.rel_head, ours.rel_head);
        ours.rel_row = worse(r->fault ? NAN : r->metrics.rel_row, ours.rel_row);
        ours.max_abs = worse(r->fault ? NAN : r->metrics.max_abs, ours.max_abs);
        sources.max_abs = worse(r->fault ? NAN : r->sources.max_abs, sources.max_abs);
        sources.mean_abs = worse(r->fault ? NAN : r->sources.mean_abs, sources.mean_abs);
        sources.bad_percent = worse(r->fault ? NAN : r->sources.bad_percent, sources.bad_percent);
    }
    *passed += by_ours;
    put(object, "passed", json_integer(by_ours));
    put(object, "of", json_integer(shape->count));
    put(object, "rel_head", real(ours.rel_head));
    put(object, "rel_row", real(ours.rel_row));
    put(object, "max_abs", real(ours.max_abs));
    put(second, "passed", json_integer(by_sources));
    put(second, "max_abs", real(sources.max_abs));
    put(second, "mean_abs", real(sources.mean_abs));
    put(second, "bad_percent", real(sources.bad_percent));
    put(object, "sources", second);
    return object;
}

const char *const summary_names[SUMMARY_FILES] = {"correctness_summary.json", "perf_baseline.json",
                                                  "build_meta.json"};

bool summaries_write(const struct run *run, const char *folder, char *why, size_t size)
{
    json_t *summaries[SUMMARY_FILES];
    json_t *correctness = json_object(), *times = json_object();
    int passed = 0, of = 0;
    bool written = true;

    for (int i = 0; i < SUMMARY_FILES; ++i)
        summaries[i] = identity_json(run);
    for (int i = 0; i < run->shape_count; ++i) {
        const struct shape_run *shape = &run->shapes[i];
        of += shape->count;
        put(correctness, shape->shape.name, correctness_json(shape, &passed));
        if (shape->timing[INPUT_NORMAL].done)
            put(times, shape->shape.name, timing_json(run, &shape->timing[INPUT_NORMAL]));
    }
    put(summaries[0], "passed", json_integer(passed));
    put(summaries[0], "of", json_integer(of));
    put(summaries[0], "tolerance", real(run->tolerance));
    if (run->program->p.format != P_NOT_TOLD)
        put(summaries[0], "p", p_json(&run->program->p));
    put(summaries[0], "shapes", correctness);
    put(summaries[1], "device", text(run->device->name));
    // `times` is empty if times were not asked for, if an output was wrong, and in the simulator.
    put(summaries[1], "shapes", times);
    put(summaries[2], "device", device_json(run->device));
    put(summaries[2], "resources", resources_json(run->resources));
    for (int i = 0; i < SUMMARY_FILES; ++i) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, summary_names[i]);
        written = write_object(summaries[i], path, why, size) && written;
    }
    return written;
}
