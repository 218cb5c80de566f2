// Runs fuzz/fuzz.c, libFuzzer's target (code/tools/fuzz), on its corpus and on damaged copies of the
// corpus, the same in each run: the loader, the parser and the decoder accept or refuse them without
// a finding of the sanitizers.
#include "fuzz/fuzz.c"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 1 << 16, COPIES = 400 };

static uint32_t random_word(void)
{
    static uint32_t state = 2463534242;
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

// Changes some bytes, copies a part over another, and in one of four cases cuts the end off;
// returns the new size.
static size_t damage(uint8_t *data, size_t size)
{
    for (unsigned left = random_word() % 6 + 1; left; --left)
        data[random_word() % size] ^=
            (uint8_t)(random_word() % 3 ? 1u << random_word() % 8 : random_word());
    size_t from = random_word() % size, to = random_word() % size;
    size_t length = random_word() % 64, room = size - (from > to ? from : to);
    memmove(data + to, data + from, length < room ? length : room);
    return random_word() % 4 ? size : random_word() % size + 1;
}

static void test_corpus_and_damaged_copies(void **state)
{
    (void)state;
    static uint8_t original[MOST], copy[MOST];
    char folder[4096], path[5000];
    // This program is in build/tests/ of the repository, and the corpus is in its code/.
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    assert_true(length > 0);
    folder[length] = 0;
    char *build = strstr(folder, "/build/tests/");
    assert_non_null(build);
    strcpy(build, "/code/ptxsim/test/fuzz/corpus");
    DIR *list = opendir(folder);
    assert_non_null(list);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t size = fread(original, 1, sizeof original, file);
        fclose(file);
        assert_true(size > 0 && size < MOST);
        LLVMFuzzerTestOneInput(original, size);
        for (int i = 0; i < COPIES; ++i) {
            memcpy(copy, original, size);
            LLVMFuzzerTestOneInput(copy, damage(copy, size));
        }
        files++;
    }
    closedir(list);
    assert_true(files >= 4);
}

// An undamaged text is parsed and decoded completely.
static void test_whole_texts_are_taken(void **state)
{
    (void)state;
    static const char text[] =
        ".version 9.0\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .b64 %rd<3>; .reg.b32 %r<2>;\nld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n"
        "st.global.u32 [%rd1], %r1;\nret;\n}\n";
    char why[256];
    struct module *m = module_parse(text, why, sizeof why);
    assert_non_null(m);
    struct program *p = program_decode(module_kernel(m, "k"), why, sizeof why);
    assert_non_null(p);
    assert_true(p->insn_count >= 4);
    program_free(p);
    module_free(m);
}

// Texts with numbers that are too large, as the fuzzer once found, and the messages about them.
struct numbers {
    const char *numbers, *why; // why: the message; NULL: the numbers are accepted
};

static void check_numbers(const char *before, const char *after, const struct numbers *cases,
                          size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        char text[256], why[256] = "";
        snprintf(text, sizeof text, ".version 9.0\n.target sm_89\n.address_size 64\n%s%s%s", before,
                 cases[i].numbers, after);
        struct module *m = module_parse(text, why, sizeof why);
        if (!cases[i].why)
            assert_non_null(m);
        else if (m || !strstr(why, cases[i].why))
            fail_msg("%s%s: \"%s\", not \"%s\"", before, cases[i].numbers, why, cases[i].why);
        if (m)
            module_free(m);
    }
}

static void test_sizes_of_a_cta(void **state)
{
    (void)state;
    static const struct numbers cases[] = {
        {"128, 8, 1", NULL},
        {"128, 8, 2", "1024 x 2 threads a CTA: 1 to 1024 are possible"},
        {"1, 78, 9032236529747558400, 53", "78 x 9032236529747558400 threads"},
        {"0", "1 x 0 threads a CTA"},
        {"-4, -4", "1 x -4 threads a CTA"},
    };
    check_numbers(".visible .entry k()\n.maxntid ", "\n{\nret;\n}\n", cases,
                  sizeof cases / sizeof cases[0]);
}

static void test_initial_values_of_a_large_variable(void **state)
{
    (void)state;
    static const struct numbers cases[] = {
        {"1048576", NULL},
        {"268435457", "values of v, which has 268435457 bytes: at most 268435456 are taken"},
        {"184325375376", "initial values of v, which has 184325375376 bytes"},
    };
    check_numbers(".global .align 1 .b8 v[", "] = {1, 2};\n", cases,
                  sizeof cases / sizeof cases[0]);
}

static size_t resident_bytes(void)
{
    size_t size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &size, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

// A large variable without initial values: its zeros take no memory until they are accessed.
static void test_large_variables_take_no_memory(void **state)
{
    (void)state;
    char why[256] = "";
    size_t before = resident_bytes();
    struct module *m = module_parse(".version 9.0\n.target sm_89\n.address_size 64\n"
                                    ".global .align 4 .b8 v[536870912];\n",
                                    why, sizeof why);
    if (!m)
        fail_msg("%s", why);
    size_t after = resident_bytes();
    if (after > before + ((size_t)64 << 20))
        fail_msg("%zu bytes of memory for zeros", after - before);
    const char *zeros = module_variable(m, 0, "v")->address;
    assert_int_equal(zeros[0] | zeros[536870911], 0);
    module_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus_and_damaged_copies),
        cmocka_unit_test(test_sizes_of_a_cta),
        cmocka_unit_test(test_initial_values_of_a_large_variable),
        cmocka_unit_test(test_large_variables_take_no_memory),
        cmocka_unit_test(test_whole_texts_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
