// Tests fat binaries, ELF executables and cubins: well-formed ones, and ones with a wrong byte or
// cut short. The test runs under AddressSanitizer, and every blob is in a block of its exact size,
// so that reading one byte past the end fails.
#include "image/fatbin.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// ---- Building blobs -----------------------------------------------------------------------------

struct blob {
    char *data;
    size_t size;
};

static void put(struct blob *blob, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    blob->data = realloc(blob->data, blob->size + size);
    assert_non_null(blob->data);
    if (bytes)
        memcpy(blob->data + blob->size, bytes, size);
    else
        memset(blob->data + blob->size, 0, size);
    blob->size += size;
}

static void put_number(struct blob *blob, uint64_t value, size_t size)
{
    put(blob, &value, size); // little-endian, as everything here
}

static void put_image(struct blob *images, int kind, int arch, uint64_t flags, const void *data,
                      size_t size)
{
    put_number(images, (uint64_t)kind, 2);
    put_number(images, 0x101, 2);
    put_number(images, 64, 4); // size of this header
    put_number(images, size, 8);
    put_number(images, 0, 4);
    put_number(images, 0, 4);
    put_number(images, 0, 4);
    put_number(images, (uint64_t)arch, 4);
    put_number(images, 0, 8);
    put_number(images, flags, 8);
    put_number(images, 0, 8);
    put_number(images, 0, 8);
    put(images, data, size);
}

static struct blob fatbin_of(const struct blob *images)
{
    struct blob fatbin = {0};
    put_number(&fatbin, 0xBA55ED50, 4);
    put_number(&fatbin, 1, 2);
    put_number(&fatbin, 16, 2);
    put_number(&fatbin, images->size, 8);
    put(&fatbin, images->data, images->size);
    return fatbin;
}

static const char PTX[16] = ".version 9.0\n";

// A cubin, PTX, compressed PTX, and an image of a kind that fatbin.h does not list.
static struct blob some_fatbin(void)
{
    struct blob images = {0};
    put_image(&images, IMAGE_CUBIN, 89, 0x11, "\177ELF....", 8);
    put_image(&images, 16, 90, 0x11, "whatever", 8);
    put_image(&images, IMAGE_PTX, 89, 0x11, PTX, sizeof PTX);
    put_image(&images, IMAGE_PTX, 90, 0x8011, "\x28\xb5\x2f\xfd....", 8);
    struct blob fatbin = fatbin_of(&images);
    free(images.data);
    return fatbin;
}

struct section {
    const char *name;
    uint32_t type, link, info;
    struct blob data;
    size_t size; // size of a section without data (SHT_NOBITS)
};

// An ELF file: header, section data, section headers. Section 0 is empty, the last one holds the
// names.
static struct blob elf_of(int machine, struct section *sections, size_t count)
{
    struct blob file = {0}, names = {0};
    Elf64_Shdr headers[16] = {0};
    Elf64_Ehdr header = {
        .e_machine = (Elf64_Half)machine,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (Elf64_Half)(count + 2),
        .e_shstrndx = (Elf64_Half)(count + 1),
    };

    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    put(&file, &header, sizeof header);
    put(&names, "", 1);
    for (size_t i = 0; i < count; ++i) {
        headers[i + 1] = (Elf64_Shdr){
            .sh_name = (Elf64_Word)names.size,
            .sh_type = sections[i].type,
            .sh_offset = file.size,
            .sh_size = sections[i].data.size + sections[i].size,
            .sh_link = sections[i].link,
            .sh_info = sections[i].info,
        };
        put(&names, sections[i].name, strlen(sections[i].name) + 1);
        put(&file, sections[i].data.data, sections[i].data.size);
        free(sections[i].data.data);
    }
    headers[count + 1] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = file.size, .sh_size = names.size};
    put(&file, names.data, names.size);
    free(names.data);
    header.e_shoff = file.size;
    memcpy(file.data, &header, sizeof header);
    put(&file, headers, (count + 2) * sizeof *headers);
    return file;
}

static void put_attribute(struct blob *info, int name, uint32_t symbol, uint32_t value)
{
    put_number(info, 4, 1);
    put_number(info, (uint64_t)name, 1);
    put_number(info, 8, 2);
    put_number(info, symbol, 4);
    put_number(info, value, 4);
}

// A cubin of two kernels: k (symbol 1) and other (symbol 2).
static struct blob some_cubin(bool hopper)
{
    struct blob strings = {0}, symbols = {0}, all = {0}, of_k = {0};
    put(&strings, "\0k\0other", 9);
    Elf64_Sym none = {0};
    put(&symbols, &none, sizeof none);
    for (uint32_t i = 0; i < 2; ++i) {
        Elf64_Sym symbol = {.st_name = i ? 3 : 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)};
        put(&symbols, &symbol, sizeof symbol);
    }
    put_attribute(&all, 0x2f, 2, 99); // registers of the other kernel
    put_attribute(&all, 0x2f, 1, 40); // registers of k
    put_attribute(&all, 0x11, 1, 16); // bytes of k's stack frame
    put_attribute(&all, 0x12, 1, 24); // bytes of k's stack, called functions included
    put_number(&of_k, 0x00001903, 4); // some attribute with a two-byte value
    put_number(&of_k, 0x00034c02, 4); // 3 barriers
    struct section sections[] = {
        {.name = ".strtab", .type = SHT_STRTAB, .data = strings},
        {.name = ".symtab", .type = SHT_SYMTAB, .link = 1, .data = symbols},
        {.name = ".nv.info", .type = SHT_LOPROC, .link = 2, .data = all},
        {.name = ".nv.info.k", .type = SHT_LOPROC, .link = 2, .data = of_k},
        {.name = ".text.k", .type = SHT_PROGBITS, .info = hopper ? 1 : 40u << 24 | 1},
        {.name = ".text.other", .type = SHT_PROGBITS, .info = 2},
        {.name = ".nv.shared.k", .type = SHT_NOBITS, .size = hopper ? 1024 + 400 : 400},
        {.name = ".nv.shared.reserved.0", .type = SHT_NOBITS},
    };
    return elf_of(190, sections, hopper ? 8 : 7);
}

// ---- Walking blobs ------------------------------------------------------------------------------

struct walk {
    int images, cubins, compressed, stop_after;
    const char *ptx;
    unsigned long sum; // the sum of all bytes: makes the test read every image completely
};

static bool look(const struct image *image, void *data)
{
    struct walk *walk = data;
    ++walk->images;
    walk->cubins += image->kind == IMAGE_CUBIN;
    walk->compressed += image->compressed;
    for (size_t i = 0; i < image->size; ++i)
        walk->sum += (unsigned char)image->data[i];
    if (image->kind == IMAGE_PTX && !image->compressed)
        walk->ptx = image->data;
    return walk->images != walk->stop_after;
}

static struct walk walk_fatbin(const struct blob *fatbin)
{
    const void *at = NULL;
    struct image image;
    struct walk walk = {0};
    while (fatbin_next(fatbin->data, fatbin->size, &at, &image))
        look(&image, &walk);
    return walk;
}

static struct blob copy_of(const struct blob *blob, size_t size)
{
    struct blob copy = {0};
    put(&copy, blob->data, size);
    return copy;
}

static void test_images_of_a_fat_binary(void **state)
{
    (void)state;
    struct blob fatbin = some_fatbin();
    const void *at = NULL;
    struct image image;

    assert_true(fatbin_next(fatbin.data, fatbin.size, &at, &image));
    assert_int_equal(image.kind, IMAGE_CUBIN);
    assert_int_equal(image.arch, 89);
    assert_int_equal(image.size, 8);
    assert_memory_equal(image.data, "\177ELF", 4);
    assert_false(image.compressed);
    assert_true(fatbin_next(fatbin.data, fatbin.size, &at, &image));
    assert_int_equal(image.kind, IMAGE_PTX);
    assert_int_equal(image.arch, 89);
    assert_string_equal(image.data, PTX);
    assert_false(image.compressed);
    assert_true(fatbin_next(fatbin.data, fatbin.size, &at, &image));
    assert_int_equal(image.arch, 90);
    assert_true(image.compressed);
    assert_false(fatbin_next(fatbin.data, fatbin.size, &at, &image));
    // After the end, each further step also returns false.
    assert_false(fatbin_next(fatbin.data, fatbin.size, &at, &image));
    free(fatbin.data);
}

// Frames made by hand, whose content is stored uncompressed: one zstd block, one LZ4 sequence.
static void test_compressed_images_are_expanded(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size, expanded;
        const char *text; // NULL: the frame is refused
    } cases[] = {
        {"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello", 14, 5, "hello"},
        {"\x50hello", 6, 5, "hello"},
        {"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hell", 13, 5, NULL},  // cut off
        {"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello", 14, 6, NULL}, // shorter than announced
        {"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello", 14, 4, NULL}, // longer than announced
        {"\xf0\xff\xff\xff\xff", 5, 5, NULL},
        {"\x28\xb5", 2, 5, NULL},
        {"\x50hello", 6, 0, NULL},
        {"\x50hello", 6, SIZE_MAX, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        // The copy has the exact size, so that the sanitizer sees a read past the end.
        char *copy = malloc(cases[i].size);
        memcpy(copy, cases[i].bytes, cases[i].size);
        struct image image = {.kind = IMAGE_PTX,
                              .compressed = true,
                              .data = copy,
                              .size = cases[i].size,
                              .expanded_size = cases[i].expanded};
        char *text = image_expand(&image);
        if (cases[i].text)
            assert_string_equal(text, cases[i].text);
        else
            assert_null(text);
        free(text);
        free(copy);
    }
}

static void test_cut_fat_binaries_hold_nothing(void **state)
{
    (void)state;
    struct blob whole = some_fatbin();
    for (size_t size = 0; size < whole.size; ++size) {
        struct blob cut = copy_of(&whole, size);
        assert_int_equal(walk_fatbin(&cut).images, 0);
        free(cut.data);
    }
    free(whole.data);
}

static void test_images_past_the_end_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t offset, size;
        uint64_t value;
    } bad[] = {
        {0, 4, 0xBA55ED51},           // magic
        {6, 2, 15},                   // header smaller than itself
        {6, 2, 0xffff},               // header past the end
        {8, 8, UINT64_MAX},           // size that overflows
        {16 + 4, 4, 63},              // image header smaller than itself
        {16 + 4, 4, UINT32_MAX},      // image header past the end
        {16 + 8, 8, UINT64_MAX - 63}, // image whose end wraps around
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        struct blob fatbin = some_fatbin();
        memcpy(fatbin.data + bad[i].offset, &bad[i].value, bad[i].size);
        assert_int_equal(walk_fatbin(&fatbin).images, 0);
        free(fatbin.data);
    }
}

static void test_ptx_without_an_end_is_refused(void **state)
{
    (void)state;
    struct blob images = {0};
    put_image(&images, IMAGE_PTX, 89, 0x11, PTX, strlen(PTX));
    struct blob fatbin = fatbin_of(&images);
    assert_int_equal(walk_fatbin(&fatbin).images, 0);
    free(images.data);
    free(fatbin.data);
}

// Whatever value any byte has, the walk must not leave the blob.
static void test_damaged_fat_binaries_are_survived(void **state)
{
    (void)state;
    struct blob fatbin = some_fatbin();
    for (size_t i = 0; i < fatbin.size; ++i) {
        char kept = fatbin.data[i];
        for (int value = 0; value < 256; value += value < 32 || value > 223 ? 1 : 31) {
            fatbin.data[i] = (char)value;
            assert_true(walk_fatbin(&fatbin).images <= 4);
        }
        fatbin.data[i] = kept;
    }
    free(fatbin.data);
}

// ---- Executables --------------------------------------------------------------------------------

static void write_file(const char *path, const struct blob *blob)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (blob->size > 0)
        assert_int_equal(fwrite(blob->data, 1, blob->size, file), blob->size);
    assert_int_equal(fclose(file), 0);
}

static int make_directory(void **state)
{
    char *path = strdup("/tmp/test_fatbin.XXXXXX");
    *state = path;
    return mkdtemp(path) ? chdir(path) : -1;
}

static int remove_directory(void **state)
{
    remove("program");
    int failed = rmdir(*state);
    free(*state);
    return failed;
}

static struct blob some_program(void)
{
    struct blob fatbin = some_fatbin(), both = {0};
    put(&both, fatbin.data, fatbin.size);
    put(&both, NULL, 16); // padding
    put(&both, fatbin.data, fatbin.size);
    free(fatbin.data);
    struct section sections[] = {
        {.name = ".text", .type = SHT_PROGBITS},
        {.name = ".nv_fatbin", .type = SHT_PROGBITS, .data = both},
    };
    return elf_of(EM_X86_64, sections, 2);
}

static void test_images_of_an_executable(void **state)
{
    (void)state;
    struct blob program = some_program();
    struct walk walk = {0}, first = {.stop_after = 1};
    char why[256] = "";

    write_file("program", &program);
    assert_true(fatbin_visit_executable("program", look, &walk, why, sizeof why));
    assert_int_equal(walk.images, 6);
    assert_int_equal(walk.cubins, 2);
    assert_int_equal(walk.compressed, 2);
    assert_string_equal(why, "");
    assert_true(fatbin_visit_executable("program", look, &first, why, sizeof why));
    assert_int_equal(first.images, 1);
    free(program.data);
}

static void expect_refused(const char *path, const char *expected)
{
    struct walk walk = {0};
    char why[256] = "";
    assert_false(fatbin_visit_executable(path, look, &walk, why, sizeof why));
    assert_string_equal(why, expected);
    assert_int_equal(walk.images, 0);
}

static void test_files_that_are_no_cuda_programs(void **state)
{
    (void)state;
    struct blob text = {0}, empty = {0};
    struct section plain[] = {{.name = ".text", .type = SHT_PROGBITS}};
    struct blob program = elf_of(EM_X86_64, plain, 1);

    expect_refused("missing", "missing: No such file or directory");
    expect_refused("/", "/: not an ELF executable");
    write_file("program", &empty);
    expect_refused("program", "program: not an ELF executable");
    put(&text, "#!/bin/sh\n", 10);
    write_file("program", &text);
    expect_refused("program", "program: not an ELF executable");
    write_file("program", &program);
    expect_refused("program", "program: holds no GPU code (no .nv_fatbin section)");
    free(text.data);
    free(program.data);
}

static void test_cut_executables_are_refused(void **state)
{
    (void)state;
    struct blob program = some_program();
    for (size_t size = 0; size < program.size; size += 1 + size / 16) {
        struct blob cut = copy_of(&program, size);
        struct walk walk = {0};
        char why[256];
        write_file("program", &cut);
        assert_false(fatbin_visit_executable("program", look, &walk, why, sizeof why));
        free(cut.data);
    }
    free(program.data);
}

// ---- Cubins -------------------------------------------------------------------------------------

static void test_resources_of_a_kernel(void **state)
{
    (void)state;
    for (int hopper = 0; hopper < 2; ++hopper) {
        struct blob cubin = some_cubin(hopper);
        struct cubin_resources r;
        assert_true(cubin_resources(cubin.data, cubin.size, "k", &r));
        assert_int_equal(r.registers, 40);
        assert_int_equal(r.local_bytes, 24);
        assert_int_equal(r.shared_bytes, 400);
        assert_int_equal(r.barriers, 3);
        assert_true(cubin_resources(cubin.data, cubin.size, "other", &r));
        assert_int_equal(r.registers, 99);
        assert_int_equal(r.local_bytes, 0);
        assert_int_equal(r.shared_bytes, 0);
        assert_false(cubin_resources(cubin.data, cubin.size, "missing", &r));
        assert_false(cubin_resources(cubin.data, cubin.size, "", &r));
        assert_int_equal(r.registers, 0);
        free(cubin.data);
    }
}

static void test_an_executable_is_no_cubin(void **state)
{
    (void)state;
    struct section sections[] = {{.name = ".text.k", .type = SHT_PROGBITS, .info = 40u << 24}};
    struct blob program = elf_of(EM_X86_64, sections, 1);
    struct cubin_resources r;
    assert_false(cubin_resources(program.data, program.size, "k", &r));
    free(program.data);
}

static void test_damaged_cubins_are_survived(void **state)
{
    (void)state;
    struct blob whole = some_cubin(true);
    struct cubin_resources r;

    for (size_t size = 0; size < whole.size; ++size) { // the section headers are at the end
        struct blob cut = copy_of(&whole, size);
        assert_false(cubin_resources(cut.data, cut.size, "k", &r));
        free(cut.data);
    }
    for (size_t i = 0; i < whole.size; ++i) {
        char kept = whole.data[i];
        for (int value = 0; value < 256; value += 15) {
            whole.data[i] = (char)value;
            cubin_resources(whole.data, whole.size, "k", &r);
        }
        whole.data[i] = kept;
    }
    free(whole.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_of_a_fat_binary),
        cmocka_unit_test(test_compressed_images_are_expanded),
        cmocka_unit_test(test_cut_fat_binaries_hold_nothing),
        cmocka_unit_test(test_images_past_the_end_are_refused),
        cmocka_unit_test(test_ptx_without_an_end_is_refused),
        cmocka_unit_test(test_damaged_fat_binaries_are_survived),
        cmocka_unit_test(test_images_of_an_executable),
        cmocka_unit_test(test_files_that_are_no_cuda_programs),
        cmocka_unit_test(test_cut_executables_are_refused),
        cmocka_unit_test(test_resources_of_a_kernel),
        cmocka_unit_test(test_an_executable_is_no_cubin),
        cmocka_unit_test(test_damaged_cubins_are_survived),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
