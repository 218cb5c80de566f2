// clocks.c: the clock of the SMs and the power that the board draws, while something is timed.
//
// NVML reports both; its library comes with the driver. It is opened at run time, not linked, so
// that programs also run without it; then nothing is recorded. WORKBENCH_NVML names another
// library, for tests. If a GPU's clock falls, a time depends on when it was measured: appendix B.
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1 };

// Finds a function of the library by its name; C has no cast from an object's pointer to a
// function's.
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool clock_meter_open(struct clock_meter *meter, const char *bus_id)
{
    const char *named = getenv("WORKBENCH_NVML");
    void *library = dlopen(named ? named : "libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*by_bus_id)(const char *, void **);

    memset(meter, 0, sizeof *meter);
    if (!library)
        return false;
    if (find(library, "nvmlInit_v2", &init) &&
        find(library, "nvmlDeviceGetHandleByPciBusId_v2", &by_bus_id) &&
        find(library, "nvmlDeviceGetClockInfo", &meter->clock) &&
        find(library, "nvmlDeviceGetPowerUsage", &meter->power) && init() == NVML_SUCCESS &&
        by_bus_id(bus_id, &meter->device) == NVML_SUCCESS)
        return true;
    memset(meter, 0, sizeof *meter);
    dlclose(library);
    return false;
}

void clock_meter_read(const struct clock_meter *meter, struct clock_span *span)
{
    unsigned mhz = 0, milliwatts = 0;

    if (!meter->clock || meter->clock(meter->device, NVML_CLOCK_SM, &mhz) != NVML_SUCCESS)
        return;
    bool told = meter->power(meter->device, &milliwatts) == NVML_SUCCESS;
    struct clock_span one = {1, mhz, mhz, told ? 1e-3 * milliwatts : 0};
    clock_span_join(span, &one);
}

void clock_span_join(struct clock_span *span, const struct clock_span *other)
{
    if (other->readings == 0)
        return;
    if (span->readings == 0) {
        *span = *other;
        return;
    }
    span->readings += other->readings;
    span->low_mhz = fmin(span->low_mhz, other->low_mhz);
    span->high_mhz = fmax(span->high_mhz, other->high_mhz);
    span->watts = fmax(span->watts, other->watts);
}

bool clock_moved(const struct clock_span *span)
{
    return span->high_mhz - span->low_mhz > CLOCK_MOVED * span->high_mhz;
}
