// evidence.c: what Nsight Compute or the simulator counted.
#include "lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counter {
    const char *key;   // in the record
    const char *title; // in the report
};

// ---- Nsight Compute -----------------------------------------------------------------------------

static const struct counter ncu_counters[] = {
    {"instructions", "instructions"},
    {"tensor_instructions", "tensor instructions"},
    {"tensor_pipe_percent", "tensor pipe active, %"},
    {"issue_active_percent", "issue slots used, %"},
    {"stall_fixed_cycles", "  stalled, fixed latency"},
    {"stall_short_cycles", "  stalled, shared, exp, shfl"},
    {"stall_long_cycles", "  stalled, global memory"},
    {"stall_barrier_cycles", "  stalled, barrier"},
    {"warps_active_percent", "warps active, % of the most"},
    {"dram_percent", "DRAM throughput, % of peak"},
    {"dram_bytes", "DRAM bytes"},
    {"global_load_sectors", "global load sectors"},
    {"shared_load_wavefronts", "shared load wavefronts"},
    {"shared_load_conflicts", "  past one an instruction"},
    {"shared_matrix_wavefronts", "matrix load wavefronts"},
    {"shared_matrix_conflicts", "  of which bank conflicts"},
    {"shared_store_wavefronts", "shared store wavefronts"},
    {"shared_store_conflicts", "  past one an instruction"},
    {"duration_us", "duration under the profiler, us"},
    {NULL, NULL},
};

// Metrics as ncu names them; where two give the same key, the first that the GPU has counts. What
// loads and stores need past one wavefront for each instruction is a difference of two: ncu's own
// conflict metric for them also counts waiting for the data pipe. Stalls are cycles that a warp
// waits for each instruction that is issued.
static const struct {
    const char *metric, *key;
} ncu_metrics[] = {
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor_pipe_percent"},
    {"sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
     "tensor_pipe_percent"},
    {"smsp__inst_executed.sum", "instructions"},
    {"sm__inst_executed_pipe_tensor.sum", "tensor_instructions"},
    {"smsp__issue_active.avg.pct_of_peak_sustained_active", "issue_active_percent"},
    {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "stall_fixed_cycles"},
    {"smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
     "stall_short_cycles"},
    {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
     "stall_long_cycles"},
    {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "stall_barrier_cycles"},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", "warps_active_percent"},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram_percent"},
    {"dram__bytes.sum", "dram_bytes"},
    {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "global_load_sectors"},
    {"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "shared_load_wavefronts"},
    {"smsp__inst_executed_op_shared_ld.sum", "shared_load_instructions"},
    {"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum", "shared_matrix_wavefronts"},
    {"sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
     "shared_matrix_conflicts"},
    {"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "shared_store_wavefronts"},
    {"smsp__inst_executed_op_shared_st.sum", "shared_store_instructions"},
    {"gpu__time_duration.sum", "duration_us"},
};
enum { NCU_METRICS = sizeof ncu_metrics / sizeof ncu_metrics[0], CSV_FIELDS = 64 };

// Splits a line of CSV with every field in double quotes, in place.
static int split_csv(char *line, char *fields[CSV_FIELDS])
{
    int count = 0;
    for (char *at = line; count < CSV_FIELDS && *at == '"';) {
        fields[count++] = ++at;
        while (*at && !(at[0] == '"' && (at[1] == ',' || at[1] == '\0' || at[1] == '\r')))
            ++at;
        if (!*at)
            break;
        *at++ = '\0';
        at += *at == ',';
    }
    return count;
}

static int column(char *const fields[], int count, const char *title)
{
    for (int i = 0; i < count; ++i)
        if (strcmp(fields[i], title) == 0)
            return i;
    return -1;
}

// "1,234.5" -> 1234.5
static double number(const char *field)
{
    char digits[64];
    size_t length = 0;
    for (; *field && length < sizeof digits - 1; ++field)
        if (*field != ',')
            digits[length++] = *field;
    digits[length] = '\0';
    return strtod(digits, NULL);
}

static void subtract(json_t *counters, const char *key, const char *from, const char *what)
{
    json_t *a = json_object_get(counters, from);
    json_t *b = json_object_get(counters, what);
    if (a && b)
        json_object_set_new(counters, key, json_real(json_number_value(a) - json_number_value(b)));
}

static json_t *ncu_parse(char *csv)
{
    json_t *counters = json_object();
    int name = -1, unit = -1, value = -1;
    for (char *rest, *line = strtok_r(csv, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *fields[CSV_FIELDS];
        int count = split_csv(line, fields);
        if (column(fields, count, "Metric Name") >= 0) {
            name = column(fields, count, "Metric Name");
            unit = column(fields, count, "Metric Unit");
            value = column(fields, count, "Metric Value");
        } else if (name >= 0 && unit >= 0 && value >= 0 && name < count && value < count) {
            for (int i = 0; i < NCU_METRICS; ++i)
                if (strcmp(fields[name], ncu_metrics[i].metric) == 0) {
                    bool ns =
                        strcmp(fields[unit], "ns") == 0 || strcmp(fields[unit], "nsecond") == 0;
                    if (!json_object_get(counters, ncu_metrics[i].key))
                        json_object_set_new(counters, ncu_metrics[i].key,
                                            json_real(number(fields[value]) * (ns ? 1e-3 : 1)));
                }
        }
    }
    subtract(counters, "shared_load_conflicts", "shared_load_wavefronts",
             "shared_load_instructions");
    subtract(counters, "shared_store_conflicts", "shared_store_wavefronts",
             "shared_store_instructions");
    return counters;
}

static const char *ncu_path(void)
{
    static char found[4096];
    FILE *pipe = popen("PATH=\"$PATH:/usr/local/cuda/bin\" command -v ncu", "r");
    if (!pipe || !fgets(found, sizeof found, pipe))
        found[0] = '\0';
    if (pipe)
        pclose(pipe);
    found[strcspn(found, "\n")] = '\0';
    return found[0] ? found : NULL;
}

// True if ncu complains that it cannot find a metric.
static bool unknown_metric(const struct output *output, const char *metric)
{
    const char *where = strstr(output->out, "Failed to find metric");
    where = where ? where : strstr(output->err, "Failed to find metric");
    return where && strstr(where, metric);
}

// What Nsight Compute reads for one launch of argv, by the keys of ncu_counters; NULL with one
// line in *why where there is no ncu or it was refused.
static json_t *ncu_read(char *const argv[], char *const env[], char **why)
{
    const char *ncu = ncu_path();
    if (!ncu) {
        *why = text("no Nsight Compute (ncu) here");
        return NULL;
    }
    bool left_out[NCU_METRICS] = {false};
    struct output output;
    for (const char *missing = "";
         missing;) { // once more without each metric that it does not know
        char metrics[4096] = "";
        for (int i = 0; i < NCU_METRICS; ++i) {
            left_out[i] = left_out[i] || strcmp(ncu_metrics[i].metric, missing) == 0;
            if (!left_out[i])
                strcat(strcat(metrics, metrics[0] ? "," : ""), ncu_metrics[i].metric);
        }
        char *command[64] = {(char *)ncu,       "--csv", "--print-units",  "base",
                             "--clock-control", "none",  "--launch-count", "1",
                             "--metrics",       metrics};
        for (int count = 10, i = 0; argv[i] && count < 63; ++i)
            command[count++] = argv[i];
        output = run(command, env, 600, false);
        missing = NULL;
        for (int i = 0; i < NCU_METRICS && output.status != 0; ++i)
            if (!left_out[i] && unknown_metric(&output, ncu_metrics[i].metric))
                missing = ncu_metrics[i].metric;
    }
    json_t *counters = ncu_parse(output.out);
    if (json_object_size(counters) == 0) {
        json_decref(counters);
        counters = NULL;
        const char *error =
            strstr(output.err, "ERR_NVGPUCTRPERM") || strstr(output.out, "ERR_NVGPUCTRPERM")
                ? "no permission to read the GPU's counters"
                : last_line(output.err[0] ? output.err : output.out);
        *why = text("Nsight Compute: %s", error);
    }
    output_free(&output);
    return counters;
}

// ---- The simulator ------------------------------------------------------------------------------

static const struct counter simulator_counters[] = {
    {"warp_instructions", "warp instructions"},
    {"tensor_instructions", "tensor instructions"},
    {"tensor_flops", "tensor flops"},
    {"mufu_threads", "exp, rcp, ... (lanes)"},
    {"shared_load_wavefronts", "shared load wavefronts"},
    {"shared_load_conflicts", "  of which bank conflicts"},
    {"shared_store_wavefronts", "shared store wavefronts"},
    {"shared_store_conflicts", "  of which bank conflicts"},
    {"global_load_sectors", "global load sectors"},
    {"global_store_sectors", "global store sectors"},
    {"barriers", "barrier arrivals (warps)"},
    {NULL, NULL},
};

static void add(json_t *sums, json_t *numbers, double share)
{
    const char *key;
    json_t *value;
    json_object_foreach (numbers, key, value) {
        if (!json_is_number(value))
            continue;
        double sum = json_number_value(json_object_get(sums, key));
        sum += json_number_value(value) * share;
        json_object_set_new(sums, key, json_real(sum));
    }
}

// Counts per launch and the L4's floors, flat, from a report of the simulator; its kernels are
// added up. NULL if it holds no launch.
json_t *simulator_read(json_t *report)
{
    json_t *kernels = json_object_get(report, "kernels");
    double launches = 0;
    for (size_t i = 0; i < json_array_size(kernels); ++i) {
        json_t *n = json_object_get(json_array_get(kernels, i), "launches");
        if (json_number_value(n) > launches)
            launches = json_number_value(n);
    }
    if (launches == 0)
        return NULL;
    json_t *sums = json_object();
    json_t *classes = json_object();
    json_t *floors = json_object();
    for (size_t i = 0; i < json_array_size(kernels); ++i) {
        json_t *kernel = json_array_get(kernels, i);
        json_t *counts = json_object_get(kernel, "counts");
        add(sums, counts, 1 / launches);
        add(classes, json_object_get(counts, "classes"), 1 / launches);
        // The report's floors are of one launch of a kernel.
        add(floors, json_object_get(kernel, "l4_floors_us"),
            number_at(kernel, "launches") / launches);
    }
    const char *key, *binding = NULL;
    json_t *value;
    double largest = -1;
    json_object_foreach (floors, key, value) {
        if (json_number_value(value) > largest) {
            largest = json_number_value(value);
            binding = key;
        }
    }
    if (binding)
        json_object_set_new(floors, "binding", json_string(binding));
    json_object_set_new(sums, "classes", classes);
    json_object_set_new(sums, "l4_floors_us", floors);
    return sums;
}

// ---- The report ---------------------------------------------------------------------------------

static void show_counts(const struct counter *counters)
{
    for (const struct counter *c = counters; c->key; ++c) {
        double a = before.counts ? number_at(before.counts, c->key) : NAN;
        double b = number_at(after.counts, c->key);
        if (isnan(b))
            continue;
        printf("  %-28s", c->title);
        if (before.counts)
            printf(" %15s", grouped(a));
        printf(" %15s", grouped(b));
        if (before.counts && a > 0)
            printf("  x %.2f", b / a);
        printf("\n");
    }
}

static void show_floors(const struct side *side)
{
    static const char *const units[] = {"tensor", "exp", "shared", "issue", "dram"};
    json_t *floors = at(side->counts, "l4_floors_us");
    if (!floors)
        return;
    printf("  %-20s", side->name);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; ++i)
        printf(" %8.1f", number_at(floors, units[i]));
    const char *binding = json_string_value(at(floors, "binding"));
    printf("  %s\n", binding ? binding : "?");
}

static void profile(struct side *side, char **why)
{
    char *command[] = {side->path, "--shapes", (char *)main_shape(), "--seeds", "0", "--no-timing",
                       "--quiet",  NULL};
    doing("profiling %s", side->name);
    side->counts = ncu_read(command, environment(true, ""), why);
    done();
}

// One launch in the simulator, of a program that is known to be right.
static void count(struct side *side)
{
    char *counts = text("%s/%s-counts.json", folder, side->name);
    char *command[] = {side->path, "--shapes", (char *)main_shape(), "--seeds", "0", "--no-timing",
                       "--quiet",  NULL};
    doing("counting %s in the simulator", side->name);
    struct output output = run(command, environment(false, counts), RUN_SECONDS, false);
    done();
    json_t *report = json_load_file(counts, 0, NULL);
    side->counts = report ? simulator_read(report) : NULL;
    unlink(counts);
    output_free(&output);
}

void show_evidence(void)
{
    bool profiled = false;
    heading("Evidence");
    if (on_gpu && !gates_failed) {
        char *why = NULL;
        if (before.name)
            profile(&before, &why);
        if (!why)
            profile(&after, &why);
        profiled = !why;
        if (why) { // then the simulator counts what the same executable does
            printf("  %s\n", why);
            json_decref(before.counts);
            before.counts = NULL;
            if (before.name)
                count(&before);
            count(&after);
        }
    }
    if (!after.counts) {
        printf("  none%s\n", gates_failed ? ": a wrong program is not profiled" : "");
        return;
    }
    printf("  %-28s", profiled ? "Nsight Compute, one launch" : "simulator, one launch");
    if (before.counts)
        printf(" %15.15s", before.name);
    printf(" %15.15s  %s\n", after.name, main_shape());
    show_counts(profiled ? ncu_counters : simulator_counters);
    if (profiled)
        printf("  %sstalled: cycles that a warp waits for each instruction it issues%s\n", FAINT,
               PLAIN);
    if (!profiled && at(after.counts, "l4_floors_us")) {
        printf("  %-20s %8s %8s %8s %8s %8s  binding\n", "floors on an L4, us", "tensor", "exp",
               "shared", "issue", "DRAM");
        if (before.counts)
            show_floors(&before);
        show_floors(&after);
        printf(
            "  %sbounds from the counts of the PTX and an L4's rates; no prediction of a time%s\n",
            FAINT, PLAIN);
    }
    json_t *by_program = json_object();
    if (before.counts)
        json_object_set(by_program, before.name, before.counts);
    json_object_set(by_program, after.name, after.counts);
    json_object_set_new(record, "evidence",
                        json_pack("{s:o}", profiled ? "ncu" : "simulator", by_program));
}
