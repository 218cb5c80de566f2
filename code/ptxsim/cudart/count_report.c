// count_report.c: writes the counts as JSON to the file that PTXSIM_REPORT names, at the end of the
// program and after a fault. Its floors (lower bounds on time) are averages for one launch.
// "faults" are the lines that the user sees; "fault_blocks" has for each of them its block, [x, y,
// z], or null.
#include "runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FAULTS_MAX = 64 };

static struct {
    char *text;
    bool has_block;
    unsigned block[3];
} faults[FAULTS_MAX];
static int fault_count;
static bool endless;

// ---- JSON ---------------------------------------------------------------------------------------

static void write_counts(FILE *file, const struct counts *counts)
{
    fprintf(file, "{");
#define COUNTER(name, title, what)                                                                 \
    fprintf(file, "\"" #name "\":%llu,", (unsigned long long)counts->name);
#define CLASS_COUNTER(name, op_class, title, what) // such a counter is in "classes" instead
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    fprintf(file, "\"classes\":{");
    const char *comma = "";
    for (int i = 0; i < CLASSES; ++i) {
        if (counts->classes[i] == 0)
            continue;
        fprintf(file, "%s\"%s\":%llu", comma, op_class_names[i],
                (unsigned long long)counts->classes[i]);
        comma = ",";
    }
    fprintf(file, "}}");
}

static void write_kernel(FILE *file, const struct CUkern_st *k)
{
    const struct floors floors = l4_floors(&k->counts, k->dram_bytes);
    const double n = (double)k->launches;
    char name[256];

    kernel_base_name(k->name, name, sizeof name);
    fprintf(file, "{\"name\":");
    write_string(file, name);
    fprintf(file, ",\"mangled\":");
    write_string(file, k->name);
    fprintf(file, ",\"launches\":%llu,\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]",
            (unsigned long long)k->launches, k->grid[0], k->grid[1], k->grid[2], k->block[0],
            k->block[1], k->block[2]);
    fprintf(file, ",\"static_shared_bytes\":%zu,\"dynamic_shared_bytes\":%zu,\"dram_bytes\":%llu",
            kernel_info(k->kernel)->static_shared_bytes, k->dynamic_shared_bytes,
            (unsigned long long)k->dram_bytes);
    fprintf(file, ",\n \"counts\":");
    write_counts(file, &k->counts);
    fprintf(file, ",\n \"lines\":[");
    for (size_t i = 0; i < k->line_count; ++i) {
        fprintf(file, "%s\n  {\"file\":", i ? "," : "");
        write_string(file, k->lines[i].file ? k->lines[i].file : "");
        fprintf(file, ",\"line\":%d,\"counts\":", k->lines[i].line);
        write_counts(file, &k->lines[i].counts);
        fprintf(file, "}");
    }
    fprintf(file,
            "],\n \"l4_floors_us\":{\"tensor\":%.6g,\"exp\":%.6g,\"shared\":%.6g,\"issue\":%.6g,"
            "\"dram\":%.6g,\"binding\":",
            floors.tensor / n, floors.exp / n, floors.shared / n, floors.issue / n,
            floors.dram / n);
    write_string(file, floors.binding ? floors.binding : "");
    fprintf(file, "}}");
}

static void write_all(FILE *file)
{
    const char *comma = "";

    fprintf(file, "{\"ptxsim\":\"%s\",\"kernels\":[", PTXSIM_VERSION);
    for (const struct CUkern_st *k = kernel_launched(); k; k = k->next_launched) {
        fprintf(file, "%s\n", comma);
        write_kernel(file, k);
        comma = ",";
    }
    // For each fault its block; null if it belongs to no block.
    fprintf(file, "],\n\"fault_blocks\":[");
    for (int i = 0; i < fault_count; ++i)
        if (faults[i].has_block)
            fprintf(file, "%s[%u,%u,%u]", i ? "," : "", faults[i].block[0], faults[i].block[1],
                    faults[i].block[2]);
        else
            fprintf(file, "%snull", i ? "," : "");
    fprintf(file, "],\n%s\"faults\":[", endless ? "\"endless\":true," : "");
    for (int i = 0; i < fault_count; ++i) {
        fprintf(file, i ? "," : "");
        write_string(file, faults[i].text);
    }
    fprintf(file, "]}\n");
}

// ---- The file -----------------------------------------------------------------------------------

static void write_report(void)
{
    const char *name = getenv("PTXSIM_REPORT");
    char path[8192], temporary[8192 + 32];

    if (!name || !*name)
        return;
    if (*name == '/' || !start_directory()[0])
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%s/%s", start_directory(), name);
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) { // renaming would replace /dev/null
        complain("PTXSIM_REPORT: %s is no regular file", name);
        return;
    }
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *file = fopen(temporary, "we");
    if (file) {
        write_all(file);
        bool failed = ferror(file) != 0;
        if (fclose(file) == 0 && !failed && rename(temporary, path) == 0)
            return;
        int error = errno;
        remove(temporary);
        errno = error;
    }
    complain("PTXSIM_REPORT: %s: %s", name, strerror(errno));
}

__attribute__((destructor)) static void report_at_exit(void)
{
    write_report();
}

void report_endless(void)
{
    endless = true;
}

void report_fault(const struct fault *fault)
{
    if (fault_count < FAULTS_MAX && (faults[fault_count].text = strdup(fault->text))) {
        faults[fault_count].has_block = fault->at.by_thread;
        memcpy(faults[fault_count].block, fault->at.block, sizeof fault->at.block);
        ++fault_count;
    }
    write_report(); // written now, in case the program aborts
}

void complain_of_host(enum fault_kind kind, bool reported, const struct host_line *line,
                      const char *format, ...)
{
    struct fault fault = {.kind = kind, .at = {.line = line->line, .callers = ""}};
    va_list arguments;

    if (line->line)
        fault.at.file = line->file;
    va_start(arguments, format);
    vsnprintf(fault.text, sizeof fault.text, format, arguments);
    va_end(arguments);
    complain_of(&fault);
    if (reported)
        report_fault(&fault);
}
