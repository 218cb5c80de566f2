// command.c: the command ptxsim.
#include "tool.h"

#include "ptxsim/ptxsim.h"

#include <string.h>

static const char help[] =
    "usage: ptxsim run [OPTION...] PROGRAM [ARGUMENT...]   run a CUDA program without a GPU, and "
    "check it\n"
    "       ptxsim cc FILE.cu... -o PROGRAM [FLAG...]      compile one so that it can be run\n"
    "       ptxsim profile [OPTION...] PROGRAM|REPORT      its lines with what was counted there\n"
    "Each has a --help; ptxsim --version says which this is.\n";

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *speaker;
        int (*main)(int argc, char **argv);
    } parts[] = {
        {"run", "ptxsim run", run_main},
        {"cc", "ptxsim cc", cc_main},
        {"profile", "ptxsim profile", profile_main},
    };
    const char *word = argc > 1 ? argv[1] : "";
    speaker = "ptxsim";
    if (strcmp(word, "--help") == 0 || strcmp(word, "help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        if (strcmp(word, parts[i].name) == 0) {
            speaker = parts[i].speaker;
            argv[1] = (char *)parts[i].speaker; // the first word of getopt's messages
            find_home();
            return parts[i].main(argc - 1, argv + 1);
        }
    if (strcmp(word, "--version") == 0) {
        puts("ptxsim " PTXSIM_VERSION);
        return 0;
    }
    if (!*word)
        fail(EXIT_USAGE, "what is to be done? ptxsim run, cc or profile (ptxsim --help)");
    fail(EXIT_USAGE, "\"%s\" is none of run, cc, profile (ptxsim --help)", word);
}
