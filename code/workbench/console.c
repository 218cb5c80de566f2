// console.c: output for people, in 80 columns; a note if the terminal is narrower.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

enum { COLUMNS = 80 };

static bool silent(const struct run *run)
{
    return run->options->quiet || run->options->on_demand;
}

static const char *verdict(bool pass)
{
    const char *no_color = getenv("NO_COLOR");

    if (!isatty(STDOUT_FILENO) || (no_color && *no_color))
        return pass ? "PASS" : "FAIL";
    return pass ? "\033[32mPASS\033[0m" : "\033[1;31mFAIL\033[0m";
}

static void resources_row(const char *where, int registers, size_t shared, size_t local,
                          int ctas_per_sm, double occupancy, const char *limited_by)
{
    printf("  %-11s%9d%8.1f KiB%5zu B%9d%9.0f %%  %s\n", where, registers, (double)shared / 1024,
           local, ctas_per_sm, 100 * occupancy, limited_by);
}

void console_head(const struct run *run)
{
    const struct device *d = run->device;
    const struct resources *r = run->resources;
    char arch[32];
    struct winsize size = {0};

    if (silent(run))
        return;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
        size.ws_col < COLUMNS)
        printf("(tables of %d columns: this terminal has %d)\n", COLUMNS, size.ws_col);
    printf("%s: %s\n", run->program->name, run->program->title);
    if (d->simulator)
        printf("%s, on the PTX simulator %s\n", d->name, d->simulator);
    else
        printf("%s, %d SMs, sm_%d%d; driver %d.%d, toolkit %d.%d\n", d->name, d->sms, d->major,
               d->minor, d->driver / 1000, d->driver % 1000 / 10, d->toolkit / 1000,
               d->toolkit % 1000 / 10);

    puts("\nresources    registers  shared/CTA  local  CTAs/SM  occupancy  limited by");
    if (!d->simulator) {
        snprintf(arch, sizeof arch, "sm_%d%d here", d->major, d->minor);
        resources_row(arch, r->registers, r->static_shared_bytes + r->dynamic_shared_bytes,
                      r->local_bytes, r->ctas_per_sm, r->occupancy, "-");
    }
    if (r->image.gpu) {
        snprintf(arch, sizeof arch, "sm_%d (%s)", r->image.gpu->arch, gpu_model(r->image.gpu));
        resources_row(arch, r->image.registers, r->image.shared_bytes, r->image.local_bytes,
                      r->image.ctas_per_sm, r->image.occupancy, r->image.limited_by);
    } else {
        fputs("  no code in this executable that can be read for", stdout);
        for (int i = 0; i < gpu_count; ++i)
            printf("%s sm_%d (%s)", i > 0 ? "," : "", gpus[i].arch, gpu_model(&gpus[i]));
        putchar('\n');
    }

    puts("\ncorrectness            relative error vs double   vs FP16 of unquantised inputs");
    if (run->program->p.format == P_NOT_TOLD)
        printf("  %-10s %-6s %4s head <%5.0e  row <%5.0e   max abs  mean abs    bad\n", "shape",
               "input", "seed", run->tolerance, GATE_ROW_FACTOR * run->tolerance);
    else
        printf("  %-10s %-6s %4s %11s %11s   max abs  mean abs    bad\n", "shape", "input", "seed",
               "head", "row");
}

void console_result(const struct run *run, const struct shape_run *shape, const struct result *r)
{
    const struct error_metrics *m = &r->metrics;
    char where[96];

    if (silent(run) && r->pass)
        return;
    snprintf(where, sizeof where, "%-10s %-6s %4llu", shape->shape.name, input_kind_name(r->input),
             (unsigned long long)r->seed);
    if (silent(run)) {
        if (r->fault)
            complain("%s: FAIL: %s", where, r->fault);
        else
            complain("%s: FAIL: relative error %.1e in a head, %.1e in a row, %zu not finite",
                     where, m->rel_head, m->rel_row, m->not_finite);
        return;
    }
    if (r->fault)
        printf("  %s  %-53s %s\n", where, r->fault, verdict(false));
    else if (m->not_finite > 0)
        printf("  %s  %8zu %-43s  %s\n", where, m->not_finite,
               "elements NaN, infinite or not written", verdict(false));
    else
        printf("  %s  %10.1e  %10.1e %9.4f %9.5f %4.1f %% %s\n", where, m->rel_head, m->rel_row,
               r->sources.max_abs, r->sources.mean_abs, r->sources.bad_percent, verdict(r->pass));
    if (run->program->p.format != P_NOT_TOLD && !r->fault)
        printf("    %-22s%10.1e  %10.1e  %g x what P in E4M3 alone costs\n", "at most",
               r->limits.head, r->limits.row, GATE_ROUNDED_FACTOR);
    if (r->needles.of > 0)
        printf("    needles: %d of %d found; by the reference %d\n", r->needles.found,
               r->needles.of, r->exact.found);
    if (r->how)
        printf("    %s\n", r->how);
    if (r->compared)
        printf("    against the stored output: %.3f %% identical, at most %d ulp, %.1e\n",
               r->agreement.identical_percent, r->agreement.max_ulp, r->agreement.max_abs);
    fflush(stdout);
}

static void print_timing(const struct run *run, const struct shape_run *s, enum input_kind kind)
{
    const struct timing *timing = &s->timing[kind];
    const struct summary *t = &timing->us;
    double work =
        s->shape.page ? shape_cache_bytes(&s->shape) : masked_flops(&s->shape, run->program->mask);

    if (!timing->done)
        return;
    if (kind != INPUT_NORMAL)
        printf("  %s:\n", input_kind_name(kind));
    printf("  %-10s%9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %10.2f\n", s->shape.name, t->p50, t->p90,
           t->p99, t->mean, t->std, t->min, work / t->p50 / 1e6);
    if (clock_moved(&timing->clock))
        printf("    the clock moved meanwhile: from %.0f to %.0f MHz\n", timing->clock.low_mhz,
               timing->clock.high_mhz);
}

void console_timing(const struct run *run)
{
    const struct options *o = run->options;
    bool any = false;

    if (silent(run))
        return;
    if (run->device->simulator) {
        puts("\ntime: not measured in the simulator");
        return;
    }
    for (int i = 0; i < run->shape_count * INPUT_KINDS_ALL; ++i)
        any |= run->shapes[i / INPUT_KINDS_ALL].timing[i % INPUT_KINDS_ALL].done;
    if (!any)
        return;
    bool cache = run->shapes[0].shape.page > 0;
    printf("\ntime in µs      p50       p90       p99      mean       std       min %10s\n",
           cache ? "TB/s" : "TFLOP/s");
    for (int i = 0; i < run->shape_count * INPUT_KINDS_ALL; ++i)
        print_timing(run, &run->shapes[i / INPUT_KINDS_ALL], i % INPUT_KINDS_ALL);
    printf("  %d samples after %d; %d input sets in turn%s; outputs right before and after\n",
           o->iters, o->warmup, o->rotations,
           o->mode == TIME_COLD    ? ", cold L2"
           : o->mode == TIME_PLAIN ? ", plain launches"
                                   : "");
}

void console_verdict(const struct run *run, bool pass)
{
    int passed = 0, all = 0;

    if (run->options->on_demand)
        return;
    for (int i = 0; i < run->shape_count; ++i) {
        for (int j = 0; j < run->shapes[i].count; ++j) {
            passed += run->shapes[i].results[j].pass;
            ++all;
        }
    }
    printf("%s%s: %s: %d of %d outputs right%s\n", silent(run) ? "" : "\n", run->program->name,
           verdict(pass), passed, all, passed == all && !pass ? ", but wrong when timed" : "");
}
