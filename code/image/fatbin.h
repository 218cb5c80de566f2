// fatbin.h: what nvcc put into an executable: PTX texts and machine code (cubins), read from the
// `.nv_fatbin` data. Used by the simulator (PTX to run, register counts) and by the workbench
// (resources of the sm_89 image, wherever it runs).
#ifndef FATBIN_H
#define FATBIN_H

#include <stdbool.h>
#include <stddef.h>

enum image_kind { IMAGE_PTX = 1, IMAGE_CUBIN = 2 };

struct image {
    enum image_kind kind;
    int arch;         // 89 for sm_89 or compute_89
    bool compressed;  // as nvcc leaves it by default: then data is for image_expand
    const char *data; // PTX text (NUL-terminated) or ELF
    size_t size;
    size_t expanded_size; // size after expansion
};

// Walks the images of one fat binary (magic 0xBA55ED50). *at starts NULL; false at the end or when
// the data is malformed.
bool fatbin_next(const void *fatbin, size_t limit, const void **at, struct image *image);

// Expands a compressed image: expanded_size bytes and a NUL, for the caller to free. NULL if it is
// damaged, or if the library for its compression (libzstd.so.1, liblz4.so.1) is missing.
char *image_expand(const struct image *image);

// Maps an executable and walks all fat binaries in its .nv_fatbin section, calling `visit` for
// each image until it returns false. False with one line in `why` when the file cannot be read.
bool fatbin_visit_executable(const char *path, bool (*visit)(const struct image *, void *),
                             void *data, char *why, size_t size);
// As fatbin_visit_executable, for a section of another name: __nv_relfatbin has what -rdc=true
// leaves to the linker.
bool fatbin_visit_section(const char *path, const char *section,
                          bool (*visit)(const struct image *, void *), void *data, char *why,
                          size_t size);

struct cubin_resources {
    int registers;       // of a thread
    size_t shared_bytes; // static, of a CTA, without the bytes that the system reserves
    size_t local_bytes;  // stack frame of a thread: 0 means that nothing was spilled
    int barriers;        // named barriers used, 0 if not recorded
};

// Resources of a kernel in a cubin by its mangled name; false if it is not there.
bool cubin_resources(const void *elf, size_t size, const char *kernel,
                     struct cubin_resources *resources);

// Counts of instructions in a kernel's machine code that show what became of its products: each
// instruction in the code counts once, also in a loop; sm_70 to sm_90.
struct cubin_code {
    int instructions;
    int hmma, qmma; // products of half, and of 8-bit floats: HMMA, QMMA
    int f2fp;       // packs and unpacks of small floats: F2FP
    int prmt, shfl; // bytes picked from two registers, values from another lane: PRMT, SHFL
};

// False if the kernel is not there.
bool cubin_code(const void *elf, size_t size, const char *kernel, struct cubin_code *code);

#endif
