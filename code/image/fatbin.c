// fatbin.c: reads PTX and machine code from what nvcc put into an executable.
//
// A fat binary is a header and a sequence of images, each with its own header. NVIDIA does not
// document the layout; the fields used here are those that nvcc 12 and 13 write. A cubin is an ELF
// file of machine EM_CUDA; its `.nv.info` section lists attributes of the kernels. Every offset and
// size is checked before it is used.
#include "fatbin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FATBIN_MAGIC = (int)0xBA55ED50,
    MACHINE_CUDA = 190,
    COMPRESSED_LZ4 = 0x2000, // flags of an image
    COMPRESSED_ZSTD = 0x8000,
    ZSTD_MAGIC = (int)0xFD2FB528,
    MOST_EXPANDED = 1 << 30, // most bytes of an expanded image
    RESERVED_SHARED = 1024,  // bytes of .nv.shared.<kernel> that the system takes, from sm_90 on
    // .nv.info attributes: a byte for the format, a byte for the name, then a value
    FORMAT_BYTE = 2,
    FORMAT_SIZED = 4,
    INFO_FRAME_SIZE = 0x11,
    INFO_MIN_STACK_SIZE = 0x12,
    INFO_REGCOUNT = 0x2f,
    INFO_NUM_BARRIERS = 0x4c,
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_size;
    uint64_t size; // bytes of the images that follow
};

struct image_header {
    uint16_t kind;
    uint16_t version;
    uint32_t header_size;
    uint64_t size; // bytes of the image and its padding
    uint32_t compressed_size;
    uint32_t options_offset;
    uint16_t minor, major;
    uint32_t arch;
    uint32_t name_offset, name_size;
    uint64_t flags;
    uint64_t reserved, decompressed_size;
};

// ---- Fat binaries -------------------------------------------------------------------------------

// Bytes of the whole fat binary; 0: it is malformed, or exceeds the limit.
static size_t fatbin_bytes(const void *fatbin, size_t limit, struct fatbin_header *header)
{
    if (limit < sizeof *header)
        return 0;
    memcpy(header, fatbin, sizeof *header);
    if (header->magic != (uint32_t)FATBIN_MAGIC || header->header_size < sizeof *header ||
        header->header_size > limit || header->size > limit - header->header_size)
        return 0;
    return header->header_size + header->size;
}

bool fatbin_next(const void *fatbin, size_t limit, const void **at, struct image *image)
{
    struct fatbin_header header;
    size_t end = fatbin_bytes(fatbin, limit, &header);
    size_t offset = header.header_size;

    if (end == 0)
        return false;
    if (*at)
        offset = (size_t)((const char *)*at - (const char *)fatbin);
    while (offset < end) {
        const char *here = (const char *)fatbin + offset;
        size_t left = end - offset;
        struct image_header h;
        if (left < sizeof h)
            return false;
        memcpy(&h, here, sizeof h);
        if (h.header_size < sizeof h || h.header_size > left || h.size > left - h.header_size)
            return false;
        *at = here + h.header_size + h.size;
        offset += h.header_size + h.size;
        if (h.kind != IMAGE_PTX && h.kind != IMAGE_CUBIN)
            continue; // code for the link step, not for a device
        *image = (struct image){
            .kind = h.kind,
            .arch = (int)h.arch,
            .compressed = (h.flags & (COMPRESSED_LZ4 | COMPRESSED_ZSTD)) != 0,
            .data = here + h.header_size,
            .size = h.size,
            .expanded_size = h.decompressed_size,
        };
        if (image->compressed && h.compressed_size < image->size)
            image->size = h.compressed_size; // the bytes after that are padding
        if (image->kind == IMAGE_PTX && !image->compressed && !memchr(image->data, 0, image->size))
            return false;
        return true;
    }
    return false;
}

// A function of a library that most systems have; NULL: not found.
static void *library_function(const char *library, const char *name)
{
    void *handle =
        dlopen(library, RTLD_LAZY | RTLD_LOCAL); // the library stays open: it may be needed again
    return handle ? dlsym(handle, name) : NULL;
}

char *image_expand(const struct image *image)
{
    size_t (*zstd)(void *to, size_t room, const void *from, size_t bytes);
    int (*lz4)(const char *from, char *to, int bytes, int room);
    uint32_t magic = 0;
    size_t got = 0;

    if (!image->compressed || image->expanded_size == 0 || image->expanded_size > MOST_EXPANDED ||
        image->size < sizeof magic || image->size > MOST_EXPANDED)
        return NULL;
    memcpy(&magic, image->data, sizeof magic);
    char *data = malloc(image->expanded_size + 1);
    if (!data)
        return NULL;
    if (magic == (uint32_t)ZSTD_MAGIC) {
        *(void **)&zstd = library_function("libzstd.so.1", "ZSTD_decompress");
        got = zstd ? zstd(data, image->expanded_size, image->data, image->size) : 0;
    } else {
        *(void **)&lz4 = library_function("liblz4.so.1", "LZ4_decompress_safe");
        int bytes = lz4 ? lz4(image->data, data, (int)image->size, (int)image->expanded_size) : 0;
        got = bytes > 0 ? (size_t)bytes : 0;
    }
    data[image->expanded_size] = '\0';
    if (got == image->expanded_size)
        return data;
    free(data);
    return NULL;
}

// ---- ELF ----------------------------------------------------------------------------------------

struct elf {
    const char *base;
    size_t size;
    Elf64_Ehdr header;
};

struct section {
    const char *name; // NUL-terminated
    Elf64_Shdr header;
    const char *data; // NULL: it has no data in the file (SHT_NOBITS)
};

static bool elf_open(struct elf *elf, const void *base, size_t size)
{
    elf->base = base;
    elf->size = size;
    if (size < sizeof elf->header)
        return false;
    memcpy(&elf->header, base, sizeof elf->header);
    return memcmp(elf->header.e_ident, ELFMAG, SELFMAG) == 0 &&
           elf->header.e_ident[EI_CLASS] == ELFCLASS64 &&
           elf->header.e_shentsize == sizeof(Elf64_Shdr) && elf->header.e_shoff <= size &&
           elf->header.e_shnum <= (size - elf->header.e_shoff) / sizeof(Elf64_Shdr) &&
           elf->header.e_shstrndx < elf->header.e_shnum;
}

// A NUL-terminated string in a string table's section; NULL: there is none at the offset.
static const char *elf_string(const struct elf *elf, const Elf64_Shdr *table, uint64_t offset)
{
    if (table->sh_offset > elf->size || table->sh_size > elf->size - table->sh_offset ||
        offset >= table->sh_size)
        return NULL;
    const char *text = elf->base + table->sh_offset + offset;
    return memchr(text, 0, table->sh_size - offset) ? text : NULL;
}

static void elf_section_header(const struct elf *elf, size_t index, Elf64_Shdr *header)
{
    memcpy(header, elf->base + elf->header.e_shoff + index * sizeof *header, sizeof *header);
}

static bool elf_section(const struct elf *elf, size_t index, struct section *section)
{
    Elf64_Shdr names;

    if (index >= elf->header.e_shnum)
        return false;
    elf_section_header(elf, index, &section->header);
    elf_section_header(elf, elf->header.e_shstrndx, &names);
    section->name = elf_string(elf, &names, section->header.sh_name);
    section->data = NULL;
    if (!section->name)
        return false;
    if (section->header.sh_type != SHT_NOBITS) {
        if (section->header.sh_offset > elf->size ||
            section->header.sh_size > elf->size - section->header.sh_offset)
            return false;
        section->data = elf->base + section->header.sh_offset;
    }
    return true;
}

// Finds the section whose name is `prefix` followed by `rest`.
static bool elf_find(const struct elf *elf, const char *prefix, const char *rest,
                     struct section *section)
{
    size_t length = strlen(prefix);

    for (size_t i = 0; i < elf->header.e_shnum; ++i)
        if (elf_section(elf, i, section) && strncmp(section->name, prefix, length) == 0 &&
            strcmp(section->name + length, rest) == 0)
            return true;
    return false;
}

// ---- Executables --------------------------------------------------------------------------------

static bool visit_section(const struct section *section,
                          bool (*visit)(const struct image *, void *), void *data)
{
    size_t size = section->header.sh_size;

    for (size_t offset = 0; offset < size;) {
        const void *fatbin = section->data + offset;
        struct fatbin_header header;
        size_t bytes = fatbin_bytes(fatbin, size - offset, &header);
        const void *at = NULL;
        struct image image;
        if (bytes == 0) { // padding between two fat binaries
            offset += 8;
            continue;
        }
        while (fatbin_next(fatbin, bytes, &at, &image))
            if (!visit(&image, data))
                return true;
        offset += bytes;
    }
    return true;
}

bool fatbin_visit_executable(const char *path, bool (*visit)(const struct image *, void *),
                             void *data, char *why, size_t size)
{
    return fatbin_visit_section(path, ".nv_fatbin", visit, data, why, size);
}

bool fatbin_visit_section(const char *path, const char *name,
                          bool (*visit)(const struct image *, void *), void *data, char *why,
                          size_t size)
{
    struct stat status;
    struct elf elf;
    struct section section;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool done = false;

    if (file < 0 || fstat(file, &status) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return false;
    }
    void *map = MAP_FAILED;
    if (S_ISREG(status.st_mode) && status.st_size > 0)
        map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (map == MAP_FAILED || !elf_open(&elf, map, (size_t)status.st_size))
        snprintf(why, size, "%s: not an ELF executable", path);
    else if (!elf_find(&elf, name, "", &section) || !section.data)
        snprintf(why, size, "%s: holds no GPU code (no %s section)", path, name);
    else
        done = visit_section(&section, visit, data);
    if (map != MAP_FAILED)
        munmap(map, (size_t)status.st_size);
    return done;
}

// ---- Cubins -------------------------------------------------------------------------------------

static uint32_t read_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Index of a symbol in .symtab; 0 if it is not there.
static uint32_t symbol_index(const struct elf *elf, const char *name)
{
    struct section symbols;
    Elf64_Shdr strings;

    if (!elf_find(elf, ".symtab", "", &symbols) || !symbols.data ||
        symbols.header.sh_link >= elf->header.e_shnum)
        return 0;
    elf_section_header(elf, symbols.header.sh_link, &strings);
    for (size_t i = 1; i < symbols.header.sh_size / sizeof(Elf64_Sym); ++i) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols.data + i * sizeof symbol, sizeof symbol);
        const char *text = elf_string(elf, &strings, symbol.st_name);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && text && strcmp(text, name) == 0)
            return (uint32_t)i;
    }
    return 0;
}

// Reads a section of attributes. In `.nv.info`, each names its function by a symbol, and only those
// of `symbol` are taken; in `.nv.info.<kernel>`, read with symbol 0, all belong to that kernel.
static void read_info(const struct section *section, uint32_t symbol,
                      struct cubin_resources *resources)
{
    const char *at = section->data;
    const char *end = section->data + section->header.sh_size;

    while (at && end - at >= 4) {
        int format = (unsigned char)at[0];
        int name = (unsigned char)at[1];
        // In FORMAT_SIZED, `value` is the size of the value that follows.
        size_t value = read_u32(at) >> 16;
        at += 4;
        if (format == FORMAT_SIZED) {
            if (value > (size_t)(end - at))
                return;
            if (symbol && value >= 8 && read_u32(at) == symbol) {
                uint32_t number = read_u32(at + 4);
                if (name == INFO_REGCOUNT)
                    resources->registers = (int)number;
                if ((name == INFO_FRAME_SIZE || name == INFO_MIN_STACK_SIZE) &&
                    number > resources->local_bytes)
                    resources->local_bytes = number; // the stack includes called functions' frames
            }
            at += value;
        } else if (!symbol && format == FORMAT_BYTE && name == INFO_NUM_BARRIERS) {
            resources->barriers = (int)(value & 0xff);
        }
    }
}

bool cubin_resources(const void *data, size_t size, const char *kernel,
                     struct cubin_resources *resources)
{
    struct elf elf;
    struct section section, reserved;

    *resources = (struct cubin_resources){0};
    if (!elf_open(&elf, data, size) || elf.header.e_machine != MACHINE_CUDA ||
        !elf_find(&elf, ".text.", kernel, &section))
        return false;
    // Before sm_90, the section's header has the number of registers.
    resources->registers = (int)(section.header.sh_info >> 24);
    uint32_t symbol = symbol_index(&elf, kernel);
    if (symbol && elf_find(&elf, ".nv.info", "", &section))
        read_info(&section, symbol, resources);
    if (elf_find(&elf, ".nv.info.", kernel, &section))
        read_info(&section, 0, resources);
    if (elf_find(&elf, ".nv.shared.", kernel, &section)) {
        resources->shared_bytes = section.header.sh_size;
        if (elf_find(&elf, ".nv.shared.reserved.0", "", &reserved) &&
            resources->shared_bytes >= RESERVED_SHARED)
            resources->shared_bytes -= RESERVED_SHARED;
    }
    return true;
}

// Instructions have 16 bytes from sm_70 on. Their encoding is not documented; cuobjdump's listings
// show that bits 0 to 8 are an instruction's kind, and bits 9 to 11 where its operands come from.
bool cubin_code(const void *data, size_t size, const char *kernel, struct cubin_code *code)
{
    enum { BYTES = 16, PRMT = 0x016, HMMA = 0x03c, F2FP = 0x03e, QMMA = 0x07a, SHFL = 0x189 };
    struct elf elf;
    struct section text;

    *code = (struct cubin_code){0};
    if (!elf_open(&elf, data, size) || elf.header.e_machine != MACHINE_CUDA ||
        !elf_find(&elf, ".text.", kernel, &text) || !text.data)
        return false;
    code->instructions = (int)(text.header.sh_size / BYTES);
    for (int i = 0; i < code->instructions; ++i) {
        uint32_t kind = read_u32(text.data + (size_t)i * BYTES) & 0x1ff;
        code->hmma += kind == HMMA;
        code->qmma += kind == QMMA;
        code->f2fp += kind == F2FP;
        code->prmt += kind == PRMT;
        code->shfl += kind == SHFL;
    }
    return true;
}
