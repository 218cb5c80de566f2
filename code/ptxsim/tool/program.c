// program.c: finds a program's file, and tells by its ELF headers whether the simulator can run it.
#include "tool.h"

#include "image/fatbin.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return text("%s", name);
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = text("%.*s/%s", (int)length, path, name);
        if (is_program(file))
            return file;
        free(file);
        path += length + (path[length] == ':');
    }
    return NULL;
}

// Whether `bytes` from `offset` on are within a file.
static bool has(size_t size, uint64_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

static bool is_elf(const char *elf, size_t size)
{
    return size >= sizeof(Elf64_Ehdr) && memcmp(elf, ELFMAG, SELFMAG) == 0 &&
           elf[EI_CLASS] == ELFCLASS64;
}

static bool dynamic_needs(const char *elf, const Elf64_Shdr *dynamic, const Elf64_Shdr *names,
                          const char *library)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->sh_size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, elf + dynamic->sh_offset + at, sizeof entry);
        if (entry.d_tag != DT_NEEDED || entry.d_un.d_val >= names->sh_size)
            continue;
        const char *name = elf + names->sh_offset + entry.d_un.d_val;
        if (strncmp(name, library, names->sh_size - entry.d_un.d_val) == 0)
            return true;
    }
    return false;
}

bool needs_library(const char *path, const char *library)
{
    char *file = find_program(path);
    size_t size = 0;
    char *elf = file ? read_file(file, &size) : NULL;
    Elf64_Ehdr header;
    bool needs = false;
    free(file);
    if (elf && is_elf(elf, size)) {
        memcpy(&header, elf, sizeof header);
        bool whole = header.e_shentsize == sizeof(Elf64_Shdr) &&
                     has(size, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr));
        for (int i = 0; whole && i < header.e_shnum && !needs; ++i) {
            Elf64_Shdr section, names;
            memcpy(&section, elf + header.e_shoff + (size_t)i * sizeof section, sizeof section);
            if (section.sh_type != SHT_DYNAMIC || section.sh_link >= header.e_shnum)
                continue;
            memcpy(&names, elf + header.e_shoff + section.sh_link * sizeof names, sizeof names);
            needs = has(size, section.sh_offset, section.sh_size) &&
                    has(size, names.sh_offset, names.sh_size) &&
                    dynamic_needs(elf, &section, &names, library);
        }
    }
    free(elf);
    return needs;
}

static bool note_image(const struct image *image, void *data)
{
    (void)image;
    *(bool *)data = true;
    return false;
}

const char *program_unfit(const char *path)
{
    char why[512];
    bool has_gpu_code = false;
    struct stat status;
    if (stat(path, &status) != 0)
        return text("%s: %s", path, strerror(errno));
    if (!is_program(path))
        return text(strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".cu") == 0
                        ? "%s is no program, but a source: ptxsim cc compiles it"
                        : "%s is no program: it cannot be executed",
                    path);
    size_t size;
    char *elf = read_file(path, &size);
    bool good = elf && is_elf(elf, size);
    free(elf);
    if (!good)
        return text("%s is no executable of Linux (ELF): of a script, name its interpreter first",
                    path);
    if (!fatbin_visit_executable(path, note_image, &has_gpu_code, why, sizeof why) || !has_gpu_code)
        return NULL; // any other program, such as Python, may load libraries with GPU code
    if (needs_library(path, "libcudart.so.13") || needs_library(path, "libcudart.so.12") ||
        needs_library(path, "libcuda.so.1"))
        return NULL;
    return text("%s has a CUDA runtime of its own, whose place the simulator cannot take: link it "
                "again with nvcc "
                "-cudart shared of CUDA 12 or 13, or with ptxsim cc",
                path);
}
