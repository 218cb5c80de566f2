// cc.c: ptxsim cc: runs nvcc with the options that the simulator needs: uncompressed PTX, the
// runtime as a shared library, and line numbers for kernel and host code. The program also runs on
// a GPU.
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: ptxsim cc FILE.cu... -o PROGRAM [FLAG...]\n"
    "Calls nvcc, of CUDA_HOME, PATH, /usr/local/cuda, or PyPI (pip install 'ptxsim[cc]'), with all "
    "that it\n"
    "is given, and adds: PTX, of compute_89, or compute_90a where a FILE has instructions of "
    "Hopper (say\n"
    "-arch or -gencode to choose); lines of kernels and host (-lineinfo, -g); the runtime as a "
    "library\n"
    "(-cudart shared), for which the simulator stands in. The program runs on a GPU, too.\n"
    "PTXSIM_CC=print shows the command instead.\n";

// ---- nvcc ---------------------------------------------------------------------------------------

static bool is_there(const char *path)
{
    return access(path, R_OK) == 0;
}

// The folder of the toolkit in use.
static const char *find_toolkit(void)
{
    const char *chosen = getenv("CUDA_HOME");
    if (chosen && *chosen) {
        if (!is_there(text("%s/bin/nvcc", chosen)))
            fail(EXIT_USAGE, "CUDA_HOME is %s, which holds no bin/nvcc", chosen);
        return chosen;
    }
    const char *on_path = find_program("nvcc");
    char *real = on_path ? realpath(on_path, NULL) : NULL; // TOOLKIT/bin/nvcc
    for (int up = 0; real && up < 2; ++up)
        *strrchr(real, '/') = 0;
    if (real && is_there(text("%s/include/cuda_runtime.h", real)))
        return real;
    // Packages of PyPI are beside this one, or in the checkout (make deps).
    const char *const others[] = {"/usr/local/cuda", text("%s/../../nvidia/cu13", home),
                                  text("%s/.toolkit/nvidia/cu13", root)};
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
        if (is_there(text("%s/bin/nvcc", others[i])))
            return others[i];
    fail(EXIT_MACHINE, "no nvcc here: pip install 'ptxsim[cc]' brings one, or set CUDA_HOME");
}

// The path of the runtime's shared library in a toolkit, whose packagers put it in various folders.
static const char *find_runtime(const char *toolkit)
{
    static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
    for (int version = 13; version >= 12; --version)
        for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
            const char *file = text("%s/%s/libcudart.so.%d", toolkit, folders[i], version);
            if (is_there(file))
                return file;
        }
    fail(EXIT_MACHINE, "%s has no libcudart.so.13 and no libcudart.so.12", toolkit);
}

// ---- Flags --------------------------------------------------------------------------------------

static bool begins(const char *word, const char *with)
{
    return strncmp(word, with, strlen(with)) == 0;
}

static bool chooses_images(const char *flag)
{
    return begins(flag, "-arch") || begins(flag, "--gpu-architecture") ||
           begins(flag, "-gencode") || begins(flag, "--generate-code") || begins(flag, "-code") ||
           begins(flag, "--gpu-code");
}

// Whether a source contains instructions that PTX has for sm_90a only, or from sm_90 on.
static bool is_for_hopper(const char *path)
{
    static const char *const signs[] = {"wgmma",
                                        "setmaxnreg",
                                        "cp.async.bulk",
                                        "cp_async_bulk",
                                        "__cluster_dims__",
                                        "barrier.cluster",
                                        "mbarrier.try_wait",
                                        "griddepcontrol",
                                        "fence.proxy",
                                        "mapa."};
    char *source = read_file(path, NULL);
    bool found = false;
    if (!source)
        fail(EXIT_USAGE, "%s: %s", path, strerror(errno));
    for (size_t i = 0; i < sizeof signs / sizeof *signs; ++i)
        found |= strstr(source, signs[i]) != NULL;
    free(source);
    return found;
}

static bool ends_in(const char *word, const char *end)
{
    size_t length = strlen(word), tail = strlen(end);
    return length > tail && strcmp(word + length - tail, end) == 0;
}

int cc_main(int argc, char **argv)
{
    const char **command = need(calloc((size_t)argc + 24, sizeof *command));
    int count = 0, sources = 0;
    bool chosen = false, hopper = false, asked = false;
    for (int i = 1; i < argc; ++i) {
        asked |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        chosen |= chooses_images(argv[i]);
        sources += ends_in(argv[i], ".cu") || ends_in(argv[i], ".o");
    }
    if (asked) {
        fputs(help, stdout);
        return 0;
    }
    if (!sources)
        fail(EXIT_USAGE, "no FILE.cu is named: ptxsim cc FILE.cu... -o PROGRAM [FLAG...]");
    for (int i = 1; i < argc; ++i)
        if (ends_in(argv[i], ".cu"))
            hopper |= is_for_hopper(argv[i]);
    const char *toolkit = find_toolkit(), *runtime = find_runtime(toolkit);
    char *folder = text("%s", runtime);
    *strrchr(folder, '/') = 0;
    command[count++] = text("%s/bin/nvcc", toolkit);
    if (!chosen) {
        command[count++] = "-gencode";
        command[count++] =
            hopper ? "arch=compute_90a,code=compute_90a" : "arch=compute_89,code=compute_89";
    }
    command[count++] = "-lineinfo";
    command[count++] = "-g";
    command[count++] = "-no-compress";
    for (int i = 1; i < argc; ++i)
        command[count++] = argv[i];
    // The runtime is linked by its file name: PyPI's packages have no libcudart.so, which -lcudart
    // needs.
    command[count++] = "-cudart";
    command[count++] = "none";
    command[count++] = text("-L%s", folder);
    command[count++] = text("-l:%s", strrchr(runtime, '/') + 1);
    const char *mode = getenv("PTXSIM_CC");
    if (mode && strcmp(mode, "print") == 0) {
        for (int i = 0; i < count; ++i)
            printf("%s%c", command[i], i + 1 < count ? ' ' : '\n');
        return 0;
    }
    execv(command[0], (char **)command);
    fail(EXIT_MACHINE, "%s: %s", command[0], strerror(errno));
}
