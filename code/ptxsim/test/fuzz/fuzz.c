// The target for libFuzzer; test_fuzz.c runs it on the corpus. Arbitrary bytes go through the
// loader of fat binaries and executables, the parser and the decoder, which may accept or refuse
// them, but without a fault.
#include "image/fatbin.h"
#include "ptxsim/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_ptx(const char *from, size_t size)
{
    char why[512];
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, from, size);
    text[size] = 0;
    struct module *m = module_parse(text, why, sizeof why);
    for (size_t i = 0; m && i < m->kernel_count; ++i)
        program_free(program_decode(&m->kernels[i], why, sizeof why));
    module_free(m);
    free(text);
}

static bool take_image(const struct image *image, void *data)
{
    struct cubin_resources resources;
    (void)data;
    if (image->kind == IMAGE_CUBIN)
        cubin_resources(image->data, image->size, "kernel", &resources);
    else if (!image->compressed)
        take_ptx(image->data, strnlen(image->data, image->size));
    return true;
}

static void take_executable(const uint8_t *data, size_t size)
{
    char path[64], why[512];
    int file = memfd_create("executable", MFD_CLOEXEC);
    if (file < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (write(file, data, size) == (ssize_t)size)
        fatbin_visit_executable(path, take_image, NULL, why, sizeof why);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t fatbin[] = {0x50, 0xed, 0x55, 0xba}, elf[] = {0x7f, 'E', 'L', 'F'};
    if (size >= 4 && !memcmp(data, fatbin, 4)) {
        const void *at = NULL;
        struct image image;
        uint64_t *copy = malloc(size + 8); // aligned, as in a section
        if (!copy)
            return 0;
        memcpy(copy, data, size);
        while (fatbin_next(copy, size, &at, &image))
            take_image(&image, NULL);
        free(copy);
    } else if (size >= 4 && !memcmp(data, elf, 4)) {
        struct cubin_resources resources;
        cubin_resources(data, size, "kernel", &resources);
        take_executable(data, size);
    } else {
        take_ptx((const char *)data, size);
    }
    return 0;
}
