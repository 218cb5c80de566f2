// entry_points.c: functions of the driver's library by name. A program asks the runtime in this way
// for cuTensorMapEncodeTiled.
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *driver_function(const char *name)
{
    static const char *const versions[] = {"_v4", "_v2", ""};
    void *function = NULL;
    char full[96];
    Dl_info here;

    // Looks for the function in this library only, by its file name: RTLD_DEFAULT might find a real
    // driver's.
    void *self = dladdr(versions, &here) ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    for (size_t i = 0; self && !function && i < sizeof versions / sizeof *versions; ++i) {
        snprintf(full, sizeof full, "%s%s", name, versions[i]);
        function = dlsym(self, full);
    }
    if (self)
        dlclose(self);
    return !strncmp(name, "cu", 2) && strncmp(name, "cuda", 4) != 0 ? function : NULL;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    API_LOCK();
    (void)version, (void)flags;
    if (!name || !function)
        return api_result(cudaErrorInvalidValue);
    *function = driver_function(name);
    if (!*function)
        complain("cudaGetDriverEntryPoint: the simulator has no %s", name);
    if (found)
        *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return api_result(*function ? cudaSuccess : cudaErrorSymbolNotFound);
}
ALSO(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz);

#pragma GCC diagnostic push // older programs call this deprecated function
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *found)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, found);
}
ALSO(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz);
#pragma GCC diagnostic pop
