// checks.c: resources and correctness.
#include "lab.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "image/gpus.h"

// The image whose resources are reported, such as "sm_89"; the workbench has chosen it
// (code/workbench/resources.c).
static const char *image_of(const struct side *side)
{
    for (int i = 0; i < gpu_count; ++i)
        if (at(side->resources, text("sm_%d", gpus[i].arch)))
            return text("sm_%d", gpus[i].arch);
    return text("sm_%d", gpus[0].arch);
}

double resource(const struct side *side, const struct resource *resource, bool image)
{
    return resource_recorded(side->resources, resource, image ? image_of(side) : NULL);
}

static void judge_gate(const struct gate *gate, const struct resource *r, bool image)
{
    const int wide = narrow() ? 7 : 15;
    double value = resource(&after, r, image);
    char *limit = text("%s %s", relation_words(gate->limit.relation), grouped(gate->limit.value));
    const char *said = "shown";

    if (gate->judges)
        said = mark(note_gate(
            "resources", text("%s (%s)", r->name, image ? image_of(&after) : "device"),
            isnan(value) ? json_null() : json_real(value), limit, limit_kept(value, gate->limit)));
    else
        limit = text("(%s)", limit);
    printf("  %-*s", narrow() ? 26 : 28, r->title);
    if (before.name)
        printf(" %*s", wide, grouped(round(resource(&before, r, image))));
    printf(" %*s  %-*s %s\n", wide, grouped(round(value)), narrow() ? 9 : 10, limit, said);
}

static void judge_gates(bool image)
{
    for (int i = 0; i < resource_count; ++i)
        if (lab.gates[i].limit.relation != NO_LIMIT && (image || *resources[i].device))
            judge_gate(&lab.gates[i], &resources[i], image);
}

// Reads a program's resources. The lab ends if the program cannot run on this machine, or prints
// none.
static void read_resources(struct side *side)
{
    char *command[] = {side->path, "--resources", NULL};
    struct output output = run(command, environment(on_gpu, "", 0), RUN_SECONDS, false);
    if (output.status == EXIT_MACHINE || output.status == EXIT_USAGE || output.status == 127)
        fail(EXIT_MACHINE, "%s", last_line(output.err));
    json_t *said = json_loads(output.out, 0, NULL);
    side->resources = at(said, "resources") ? at(said, "resources") : said;
    if (side == &after && lab.student && output.status <= 128 && !json_is_object(side->resources))
        fail(EXIT_RED,
             "%s has a main() that does not call workbench_main(), as code/%s.cu does: "
             "nothing here can be judged",
             lab.student, lab.after);
    if (output.status || !side->resources)
        fail(EXIT_MACHINE, "%s --resources printed no resources: %s", side->name,
             last_line(output.err));
}

// Whether the lab shows or limits any resource; the lab of a language model does not.
static bool any_gate(void)
{
    for (int i = 0; i < resource_count; ++i)
        if (lab.gates[i].limit.relation != NO_LIMIT)
            return true;
    return false;
}

void judge_resources(void)
{
    if (!any_gate())
        return;
    if (before.name)
        read_resources(&before);
    read_resources(&after);
    heading("Resources");
    const int wide = narrow() ? 7 : 15;
    printf("  %-*s", narrow() ? 26 : 28, text("%s image", image_of(&after)));
    if (before.name)
        printf(" %*.*s", wide, wide, before.name);
    printf(" %*.*s  limit\n", wide, wide, after.name);
    judge_gates(true);
    if (on_gpu) {
        printf("  on this GPU\n");
        judge_gates(false);
    }
}

static void show_faults(json_t *faults)
{
    enum { SHOWN = 3 }; // faults shown: often the first has caused the others
    size_t count = json_array_size(faults);
    for (size_t i = 0; i < count && i < SHOWN; ++i)
        wrap(nearby(json_string_value(json_array_get(faults, i))), printf("    "), 6);
    if (count > SHOWN)
        printf("    and %zu more kinds of fault\n", count - SHOWN);
}

// The warp instructions of a launch of the chapter's own program, for a student's program that has
// no other to be compared with; 0: they cannot be counted.
static double count_chapter(const char *shape)
{
    char *path = text("%s/build/%s", root, lab.after);
    char *counts = text("%s/reference-counts.json", folder);
    char *command[] = {path, "--shapes",    (char *)shape, "--seeds",
                       "0",  "--no-timing", "--quiet",     NULL};
    if (access(path, X_OK))
        return 0;
    setenv("PTXSIM_CHECK", "off", 1);
    doing("%s, %s", lab.after, shape);
    struct output output = run(command, environment(false, counts, 0), RUN_SECONDS, false);
    done();
    unsetenv("PTXSIM_CHECK");
    json_t *report = json_load_file(counts, 0, NULL);
    double instructions = number_at(report ? simulator_read(report) : NULL, "warp_instructions");
    unlink(counts);
    return output.status == 0 && instructions > 0 ? instructions : 0;
}

double budget_of(const char *shape)
{
    double reference = number_at(at(before.counts_of, shape), "warp_instructions");
    if (on_gpu && !lab.profile) // the simulator makes a profile, even where there is a GPU
        return 0;
    if (isnan(reference))
        reference = lab.student ? count_chapter(shape) : 0;
    return reference > 0 ? fmax(BUDGET_TIMES * reference, BUDGET_LEAST) : 0;
}

// What a program printed about a launch that failed, with the reason if the simulator's library
// printed one before.
static char *launch_failed(const char *err)
{
    static const char words[] = ": the kernel failed: ";
    const char *failed = strstr(err, words), *before = strstr(err, " is not launched: ");
    if (!before)
        before = strstr(err, "launch refused: ");
    if (!failed)
        return NULL;
    if (!before || before > failed) {
        failed += strlen(words);
        return text("the launch failed: %.*s", (int)strcspn(failed, "\n"), failed);
    }
    while (before > err && before[-1] != '\n')
        --before;
    if (strncmp(before, "ptxsim: ", 8) == 0)
        before += 8;
    return text("the launch failed: %.*s", (int)strcspn(before, "\n"), before);
}

// Why a program gave no outputs, if no fault of its memory accesses or of its warps explains that:
// an endless loop (then the simulator's first fault), a launch that failed, a crash, a limit. NULL:
// it gave outputs, or has a fault that explains it.
static char *why_stopped(const struct output *output, json_t *report)
{
    json_t *faults = at(report, "faults");
    if (json_is_true(at(report, "endless")))
        return text("%s", json_string_value(json_array_get(faults, 0)));
    if (output->status == -1)
        return text("stopped: it ran for more than %d s", RUN_SECONDS);
    if (output->status > 128 && json_array_size(faults) == 0)
        return text("it crashed: %s", strsignal(output->status - 128));
    if (output->status && json_array_size(faults) == 0)
        return launch_failed(output->err);
    return NULL;
}

static void show_budget(const char *shape, double budget)
{
    double reference = number_at(at(before.counts_of, shape), "warp_instructions");
    wrap(budget > BUDGET_LEAST && !isnan(reference)
             ? text("%s takes %s of them on %s, and %d times as many are the limit here",
                    before.name, grouped(reference), shape, BUDGET_TIMES)
             : text("%s are the limit here: some 20 s of one core", grouped(budget)),
         printf("    "), 6);
}

// Keeps what a program printed on stdout, apart from the workbench's last line: what its kernel, or
// main(), has printed.
static void keep_printed(struct side *side, const char *shape, const char *said)
{
    enum { KEPT = 2048 };
    size_t length = strlen(said), line = length;
    while (line > 1 && said[line - 2] != '\n')
        --line;
    if (line > 0 && strstr(said + line - 1, " outputs right\n"))
        length = line - 1;
    if (side->printed || length == 0)
        return;
    side->printed = text("%.*s", length < KEPT ? (int)length : KEPT, said);
    side->printed_at = shape;
    side->printed_bytes = length;
}

// Runs a program for all seeds of a shape, checks every output, and keeps the counts.
static void judge_outputs(struct side *side, const char *shape, bool keep_counts)
{
    char *own = text("%s/%s-%s.json", folder, side->name, shape);
    char *counts = text("%s/%s-%s-counts.json", folder, side->name, shape);
    char *command[] = {side->path,    "--shapes", (char *)shape, "--seeds", (char *)lab.seeds,
                       "--no-timing", "--quiet",  "--record",    own,       NULL,
                       NULL,          NULL};
    // Without --inputs the program chooses: three kinds on a GPU, normal inputs in the simulator.
    if (lab.inputs) {
        command[9] = "--inputs";
        command[10] = (char *)lab.inputs;
    }
    unlink(own);
    unlink(counts);
    double budget = side == &after ? budget_of(shape) : 0;
    doing("%s, %s", side->name, shape);
    struct output output = run(command, environment(on_gpu, counts, budget), RUN_SECONDS, false);
    done();
    json_t *said = json_load_file(own, 0, NULL);
    json_t *report = json_load_file(counts, 0, NULL);
    json_t *checks = at(said, text("shapes.%s.correctness", shape));
    json_t *faults = at(report, "faults");

    if (output.status == EXIT_USAGE || output.status == 127 ||
        (output.status == EXIT_MACHINE && json_array_size(faults) == 0))
        fail(output.status == EXIT_USAGE ? EXIT_USAGE : EXIT_MACHINE, "%s", last_line(output.err));
    int passed = 0, total = json_array_size(checks);
    // closest: the largest ratio of an error to the error that rounding P to E4M3 causes, among
    // those outputs whose record has the latter.
    double worst = 0, closest = 0;
    const char *how = NULL;
    for (int i = 0; i < total; ++i) {
        json_t *check = json_array_get(checks, i);
        double error = number_at(check, "rel_head");
        passed += json_is_true(at(check, "pass"));
        if (!how)
            how = string_or(check, "how", string_or(check, "fault", NULL));
        worst = error <= worst ? worst : error; // NaN stays NaN
        double share = error / number_at(check, "rounded_p.rel_head");
        closest = share > closest ? share : closest; // a NaN is passed over
    }
    // A fault between streams leaves the outputs as they are, perhaps right.
    bool faultless = json_array_size(faults) == 0;
    bool pass =
        note_gate("correctness", text("%s, %s", side->name, shape),
                  json_sprintf("%d of %d%s", passed, total, faultless ? "" : ", with a fault"),
                  "all", output.status == 0 && faultless && total > 0 && passed == total);
    char *right = total ? text("%d of %d right", passed, total) : text("no result");
    printf(narrow() ? "  %-21s %-8s%s" : "  %-21s %-11s %-13s", side->name, shape, right);
    if (total)
        printf(narrow() ? " %7.1e" : " relative error %7.1e", worst);
    if (closest > 0 && !narrow())
        printf(", %.2f of E4M3's", closest);
    printf("  %s\n", mark(pass));
    char *stopped = why_stopped(&output, report);
    show_faults(faults);
    if (stopped && json_array_size(faults) == 0)
        wrap(stopped, printf("    "), 6);
    else if (!pass && json_array_size(faults) == 0 && (how || output.err[0]))
        wrap(how ? how : last_line(output.err), printf("    "), 6);
    if (json_is_true(at(report, "endless")) && strstr(stopped, "PTXSIM_BUDGET"))
        show_budget(shape, budget);

    note_identity(side, said);
    keep_printed(side, shape, output.out);
    side->wrong |= !pass && !stopped && json_array_size(faults) == 0;
    if (!side->how && how)
        side->how = text("%s", how);
    if (!side->stopped)
        side->stopped = stopped;
    if (!side->faulty && json_array_size(faults))
        side->faulty = shape;
    if (!side->fault && !stopped && json_array_size(faults))
        side->fault = text("%s", json_string_value(json_array_get(faults, 0)));
    json_t *counted = report && !stopped ? simulator_read(report) : NULL;
    if (counted && keep_counts)
        side->counts = json_incref(counted);
    if (!side->counts_of)
        side->counts_of = json_object();
    if (counted)
        json_object_set_new(side->counts_of, shape, counted);
    unlink(own);
    unlink(counts);
    output_free(&output);
}

void judge_correctness(void)
{
    heading("Correctness");
    for (int i = 0; i < lab.shape_count; ++i) {
        bool counts = strcmp(lab.shapes[i].name, main_shape()) == 0;
        if (after.stopped) { // at another shape it would be stopped, too, after more work
            printf("  %-21s %-11s not run\n", after.name, lab.shapes[i].name);
            continue;
        }
        if (before.name)
            judge_outputs(&before, lab.shapes[i].name, counts);
        judge_outputs(&after, lab.shapes[i].name, counts);
    }
}
