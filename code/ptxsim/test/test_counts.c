// test_counts.c: the simulator's counts equal Nsight Compute's on an H200. Each kernel of
// micro_kernels.cu makes one access with a pattern; plots/runs/h200/micro_kernels.json has the
// GPU's counts. Then chapters 2 and 3 are compared; their machine code differs from their PTX in
// known ways, which chapter 2 and the appendix on the simulator explain.
#include "ptxsim/ptxsim.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char program[] = "build/tests/code/ptxsim/test/micro_kernels";
static const char record[] = "plots/runs/h200/micro_kernels.json";
enum { CTAS = 264 };

// A counter of the simulator, and the GPU's counters whose sum it is.
static const struct {
    const char *counter, *measured[2];
} pairs[] = {
    {"shared_load_wavefronts", {"shared_load_wavefronts", "shared_matrix_wavefronts"}},
    {"shared_store_wavefronts", {"shared_store_wavefronts"}},
    {"shared_atomic_wavefronts", {"shared_atomic_wavefronts"}},
    {"global_load_sectors", {"global_load_sectors"}},
    {"global_store_sectors", {"global_store_sectors"}},
    {"global_atomic_sectors", {"global_atomic_sectors", "global_reduction_sectors"}},
    {"tensor_instructions", {"tensor_instructions"}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

// Kernels whose machine code is known to make accesses that differ from those of their PTX.
static const struct {
    const char *kernel;
    const char *why;
} exceptions[] = {
    {"atom_add_same", "one lane adds the sum: ptxas knows that the address is the same"},
    {"red_add_same", "one lane adds the sum"},
    {"gatom_add_same", "one lane adds the sum"},
    {"gred_add_same", "one lane adds the sum"},
    {"atom_addf", "a loop of loads and compare-and-swaps"},
    {"atom_add64", "a loop of loads and compare-and-swaps"},
};
enum { EXCEPTIONS = sizeof exceptions / sizeof *exceptions };

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (!json)
        fail_msg("%s: %s", path, error.text);
    return json;
}

// The length of a kernel's kind: "load8" of "load8_stride_3". Kernels of a kind run together.
static size_t kind_length(const char *name)
{
    return strcspn(name, "_");
}

// Runs the kernels of a kind in the simulator, without its checks, since some patterns are races
// (lanes that store to one word). NULL if the simulator lacks one of their instructions.
static json_t *simulate(json_t *kernels, const char *kind, size_t length)
{
    const char *name;
    json_t *value;
    char report[] = "/tmp/ptxsim-counts-XXXXXX";
    int file = mkstemp(report);
    assert_true(file >= 0);
    close(file);
    size_t size = 1 << 16, used = 0;
    char *command = malloc(size);
    assert_non_null(command);
    used += (size_t)snprintf(command, size,
                             "PTXSIM_CHECK=off LD_LIBRARY_PATH=build/ptxsim PTXSIM_REPORT=%s %s",
                             report, program);
    json_object_foreach (kernels, name, value)
        if (kind_length(name) == length && strncmp(name, kind, length) == 0 && used < size - 256)
            used += (size_t)snprintf(command + used, size - used, " %s", name);
    snprintf(command + used, size - used, " 2>%s.errors", report);
    int status = system(command);
    free(command);
    json_t *result = load(report);
    const char *fault = json_string_value(json_array_get(json_object_get(result, "faults"), 0));
    if (status && (!fault || !strstr(fault, "not supported")))
        fail_msg("%.*s: status %d, %s", (int)length, kind, status, fault ? fault : "no fault");
    char errors[64];
    snprintf(errors, sizeof errors, "%s.errors", report);
    unlink(errors);
    unlink(report);
    if (status) {
        json_decref(result);
        return NULL;
    }
    return result;
}

static const json_t *counts_of(const json_t *report, const char *name)
{
    const json_t *kernels = json_object_get(report, "kernels"), *kernel;
    size_t i;
    json_array_foreach (kernels, i, kernel)
        if (strcmp(json_string_value(json_object_get(kernel, "name")), name) == 0)
            return json_object_get(kernel, "counts");
    fail_msg("%s: not in the report", name);
    return NULL;
}

// Whether a kernel is an exception: its whole name is in the list; or its name begins with a name
// in the list, followed by "_", which has no "_same".
static bool is_exception(const char *name)
{
    for (int i = 0; i < EXCEPTIONS; ++i) {
        const char *known = exceptions[i].kernel;
        bool kind = !strstr(known, "_same") && !strncmp(name, known, strlen(known)) &&
                    name[strlen(known)] == '_';
        if (kind || !strcmp(name, known))
            return true;
    }
    return false;
}

// Returns how many of a kernel's counters differ from the GPU's; 0 for an exception.
static int compare(const char *name, const json_t *counts, const json_t *measured)
{
    int differ = 0;
    if (is_exception(name))
        return 0;
    for (int p = 0; p < PAIRS; ++p) {
        double expected = 0;
        bool known = false;
        for (int i = 0; i < 2 && pairs[p].measured[i]; ++i) {
            const json_t *value = json_object_get(measured, pairs[p].measured[i]);
            known |= value != NULL;
            expected += json_number_value(value);
        }
        double got = json_number_value(json_object_get(counts, pairs[p].counter)) / CTAS;
        if (known && got != expected) {
            print_message("%s: %s is %g here, %g on an H200\n", name, pairs[p].counter, got,
                          expected);
            differ++;
        }
    }
    return differ;
}

static void micro_kernels(void **state)
{
    (void)state;
    json_t *gpu = load(record), *kernels = json_object_get(gpu, "kernels"), *value;
    const char *name;
    char done[4096] = " ";
    int compared = 0, differ = 0;
    assert_true(json_object_size(kernels) > 400);
    json_object_foreach (kernels, name, value) {
        char kind[64];
        size_t length = kind_length(name);
        snprintf(kind, sizeof kind, " %.*s ", (int)length, name);
        if (strstr(done, kind))
            continue;
        assert_true(strlen(done) + length + 2 < sizeof done);
        strcat(done, kind + 1);
        json_t *report = simulate(kernels, name, length);
        assert_non_null(report); // NULL: the simulator refused an instruction
        const char *other;
        json_t *measured;
        json_object_foreach (kernels, other, measured)
            if (kind_length(other) == length && strncmp(other, name, length) == 0) {
                differ += compare(other, counts_of(report, other), measured);
                compared++;
            }
        json_decref(report);
    }
    print_message("# %d kernels compared\n", compared);
    assert_int_equal(compared, json_object_size(kernels));
    json_decref(gpu);
    assert_int_equal(differ, 0);
}

// ---- Chapters -----------------------------------------------------------------------------------

static double evidence(const json_t *lab, const char *by, const char *chapter, const char *counter)
{
    const json_t *counts =
        json_object_get(json_object_get(json_object_get(lab, "evidence"), by), chapter);
    const json_t *value = json_object_get(counts, counter);
    if (!json_is_number(value))
        fail_msg("lab03.json: no %s.%s.%s", by, chapter, counter);
    return json_number_value(value);
}

// One launch at the shape "mission": 16384 pairs of a warp and a key tile, 1024 warps.
static void chapters(void **state)
{
    (void)state;
    json_t *gpu = load("plots/runs/h200/lab03.json"),
           *sim = load("plots/runs/simulator/lab03.json");
    static const char *const names[] = {"ch02_scalar", "ch03_wmma_qk"};
    const double pairs_of_tiles = 16384;
    for (int i = 0; i < 2; ++i) {
#define GPU(counter) evidence(gpu, "ncu", names[i], counter)
#define SIM(counter) evidence(sim, "simulator", names[i], counter)
        assert_true(SIM("global_load_sectors") == GPU("global_load_sectors"));
        assert_true(SIM("shared_store_wavefronts") == GPU("shared_store_wavefronts"));
        // The accumulation loads 512 probabilities for each pair, one by one; ptxas makes 128 loads
        // of 16 bytes out of these, which take two wavefronts each.
        assert_true(SIM("shared_load_wavefronts") - 256 * pairs_of_tiles ==
                    GPU("shared_load_wavefronts") + GPU("shared_matrix_wavefronts"));
        assert_true(SIM("shared_load_conflicts") == GPU("shared_matrix_conflicts"));
    }
    // Once for each pair in chapter 2, ptxas uses HFMA2.MMA, which runs in the tensor pipe but is
    // no product of matrices.
    assert_true(evidence(sim, "simulator", "ch02_scalar", "tensor_instructions") == 0);
    assert_true(evidence(gpu, "ncu", "ch02_scalar", "tensor_instructions") == pairs_of_tiles);
    assert_true(evidence(sim, "simulator", "ch03_wmma_qk", "tensor_instructions") == 131072);
    assert_true(evidence(gpu, "ncu", "ch03_wmma_qk", "tensor_instructions") == 131072);
    json_decref(gpu);
    json_decref(sim);
}

// ---- The list of counters -----------------------------------------------------------------------

// struct counts has the rows of counts.def, the classes, five counters that are in no report, and
// nothing else.
static void counters_are_found_by_their_names(void **state)
{
    (void)state;
    static const struct counts counts;
    size_t members = CLASSES;
#define COUNTER(name, title, what)                                                                 \
    assert_ptr_equal(counts_find(&counts, #name), &counts.name);                                   \
    ++members;
#define CLASS_COUNTER(name, op_class, title, what)                                                 \
    assert_ptr_equal(counts_find(&counts, #name), &counts.classes[CLASS_##op_class]);
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    members += sizeof counts.mufu_substitutes / sizeof(uint64_t) +
               sizeof counts.signals / sizeof(uint64_t) +
               sizeof counts.further_arithmetic / sizeof(uint64_t) +
               sizeof counts.loaded_in_turns / sizeof(uint64_t) +
               sizeof counts.stored_in_turns / sizeof(uint64_t);
    assert_int_equal(sizeof counts, members * sizeof(uint64_t));
    static const char *const unknown[] = {"", "barrels", "barrier", "barriers ", "classes"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i)
        assert_null(counts_find(&counts, unknown[i]));
}

static void a_report_has_every_counter(void **state)
{
    (void)state;
    json_t *gpu = load(record);
    json_t *report = simulate(json_object_get(gpu, "kernels"), "load4", strlen("load4"));
    assert_non_null(report);
    const json_t *counts = counts_of(report, "load4_stride_1");
    size_t members = 1; // the classes
#define COUNTER(name, title, what)                                                                 \
    assert_true(json_is_integer(json_object_get(counts, #name)));                                  \
    ++members;
#define CLASS_COUNTER(name, op_class, title, what)
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    assert_true(json_is_object(json_object_get(counts, "classes")));
    assert_int_equal(json_object_size(counts), members);
    json_decref(report);
    json_decref(gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_found_by_their_names),
        cmocka_unit_test(a_report_has_every_counter),
        cmocka_unit_test(micro_kernels),
        cmocka_unit_test(chapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
