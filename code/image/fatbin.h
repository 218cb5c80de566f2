// fatbin.h: reads what nvcc puts into an executable, PTX texts and machine code (cubins), from the
// `.nv_fatbin` data. The simulator uses it for the PTX that it runs and for register counts, the
// workbench for what a kernel's machine code needs, also where there is no such GPU.
#ifndef FATBIN_H
#define FATBIN_H

#include <stdbool.h>
#include <stddef.h>

enum image_kind { IMAGE_PTX = 1, IMAGE_CUBIN = 2 };

struct image {
    enum image_kind kind;
    int arch;         // 89 for sm_89 or compute_89
    bool compressed;  // whether `data` is compressed, as nvcc does by default: see image_expand()
    const char *data; // PTX text (NUL-terminated) or ELF
    size_t size;
    size_t expanded_size; // size after expansion
};

// Steps through the images of a fat binary (magic 0xBA55ED50). *at is NULL at first; false: after
// the last image, or the data is malformed.
bool fatbin_next(const void *fatbin, size_t limit, const void **at, struct image *image);

// Expands a compressed image: expanded_size bytes and a NUL, for the caller to free. NULL if it is
// damaged or not compressed, if the library for its compression (libzstd.so.1, liblz4.so.1) is
// missing, or if memory ran out.
char *image_expand(const struct image *image);

// Maps an executable and steps through all fat binaries in its .nv_fatbin section; calls `visit`
// for each image, until it returns false. False: the file cannot be read or has no such section,
// and `why` has one line.
bool fatbin_visit_executable(const char *path, bool (*visit)(const struct image *, void *),
                             void *data, char *why, size_t size);
// Like fatbin_visit_executable, for a section of another name: __nv_relfatbin contains what
// -rdc=true leaves to the linker.
bool fatbin_visit_section(const char *path, const char *section,
                          bool (*visit)(const struct image *, void *), void *data, char *why,
                          size_t size);

struct cubin_resources {
    int registers;       // per thread
    size_t shared_bytes; // static shared memory per CTA, without what the system reserves
    size_t local_bytes;  // stack frame per thread; 0: nothing was spilled
    int barriers;        // named barriers in use; 0: not recorded
};

// The resources of a kernel in a cubin, by its mangled name; false: the cubin does not have it.
bool cubin_resources(const void *elf, size_t size, const char *kernel,
                     struct cubin_resources *resources);

// Counts of machine instructions that show how a kernel's matrix products are computed. Each
// instruction in the code counts once, even in a loop; for sm_70 to sm_90.
struct cubin_code {
    int instructions;
    int hmma, qmma; // matrix products of halves (HMMA), of 8-bit floats (QMMA)
    int f2fp;       // conversions that pack or unpack small floats (F2FP)
    int prmt, shfl; // choices of bytes from two registers (PRMT); shuffles between lanes (SHFL)
};

// False if the kernel is not there.
bool cubin_code(const void *elf, size_t size, const char *kernel, struct cubin_code *code);

#endif
