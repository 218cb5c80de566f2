// gpu.c: whether there is a GPU.
#include "host.h"

#include <dlfcn.h>

// A function of the GPU's driver; NULL: there is no driver, or it lacks the function.
static void *driver_function(const char *name)
{
    static void *driver;
    static bool asked;
    if (!asked)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!asked && driver &&
        dlsym(driver, "ptxsim_version")) // it is the simulator's library, not a driver
        driver = NULL;
    asked = true;
    return driver ? dlsym(driver, name) : NULL;
}

bool gpu_here(void)
{
    static int here = -1; // -1: not looked for yet
    int devices = 0;
    if (here < 0) {
        int (*init)(unsigned) = (int (*)(unsigned))driver_function("cuInit");
        int (*count)(int *) = (int (*)(int *))driver_function("cuDeviceGetCount");
        here = init && count && init(0) == 0 && count(&devices) == 0 && devices > 0;
    }
    return here;
}

const char *gpu_name(void)
{
    static char name[256];
    int (*name_of)(char *, int, int) =
        (int (*)(char *, int, int))driver_function("cuDeviceGetName");
    if (!*name && gpu_here() && name_of)
        (void)name_of(name, sizeof name, 0);
    return *name ? name : NULL;
}
