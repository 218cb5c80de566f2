// ncu.c: Nsight Compute: which metrics are read, how it is called, how its output is read.
#include "lab.h"

#include <stdlib.h>
#include <string.h>

const struct counter ncu_counters[] = {
    {"instructions", "instructions"},
    {"tensor_instructions", "tensor instructions"},
    {"tensor_pipe_percent", "tensor pipe active, %"},
    {"xu_instructions", "exp, rcp, ... (MUFU, XU pipe)"},
    {"xu_pipe_percent", "XU pipe used, % of peak"},
    {"issue_active_percent", "issue slots used, %"},
    {"stall_fixed_cycles", "  stalled, fixed latency"},
    {"stall_short_cycles", "  stalled, shared, exp, shfl"},
    {"stall_long_cycles", "  stalled, global memory"},
    {"stall_barrier_cycles", "  stalled, barrier"},
    {"stall_math_cycles", "  stalled, math pipe busy"},
    {"stall_mio_cycles", "  stalled, MIO queue full"},
    {"stall_lg_cycles", "  stalled, load/store queue"},
    {"stall_membar_cycles", "  stalled, fence"},
    {"stall_sleep_cycles", "  stalled, asleep"},
    {"stall_not_selected_cycles", "  ready, another was chosen"},
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

// Metrics under ncu's names. If two have the same key, the first one that ncu prints is taken. The
// wavefronts of loads and stores beyond one for each instruction are a difference of two metrics,
// since ncu's own metric of conflicts also counts waiting for the data pipe. Stalls are cycles that
// warps wait, for each issued instruction.
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
    {"smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
     "stall_math_cycles"},
    {"smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio", "stall_mio_cycles"},
    {"smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio", "stall_lg_cycles"},
    {"smsp__average_warps_issue_stalled_membar_per_issue_active.ratio", "stall_membar_cycles"},
    {"smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio", "stall_sleep_cycles"},
    {"smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
     "stall_not_selected_cycles"},
    {"sm__inst_executed_pipe_xu.sum", "xu_instructions"},
    {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "xu_pipe_percent"},
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

// Splits a CSV line in place; every field is in double quotes.
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

// The number of a field such as "1,234.5".
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

// Whether ncu complains that it cannot find this metric.
static bool unknown_metric(const struct output *output, const char *metric)
{
    const char *where = strstr(output->out, "Failed to find metric");
    where = where ? where : strstr(output->err, "Failed to find metric");
    return where && strstr(where, metric);
}

json_t *ncu_read(char *const argv[], char *const env[], int skip, char **why)
{
    const char *ncu = ncu_path();
    if (!ncu) {
        *why = text("no Nsight Compute (ncu) here");
        return NULL;
    }
    bool left_out[NCU_METRICS] = {false};
    struct output output;
    for (const char *missing = "";
         missing;) { // calls ncu again without the metrics that it does not know
        char metrics[4096] = "";
        for (int i = 0; i < NCU_METRICS; ++i) {
            left_out[i] = left_out[i] || strcmp(ncu_metrics[i].metric, missing) == 0;
            if (!left_out[i])
                strcat(strcat(metrics, metrics[0] ? "," : ""), ncu_metrics[i].metric);
        }
        char *command[64] = {(char *)ncu,       "--csv", "--print-units", "base",
                             "--clock-control", "none",  "--launch-skip", text("%d", skip),
                             "--launch-count",  "1",     "--metrics",     metrics};
        for (int count = 12, i = 0; argv[i] && count < 63; ++i)
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
