// clocks.h: how fast the GPU ran while something was timed. Apart from workbench.h, so that no
// kernel is compiled again for it.
#ifndef WORKBENCH_CLOCKS_H
#define WORKBENCH_CLOCKS_H

#include <stdbool.h>

// Readings of the SMs' clock, in MHz, and of the board's power: `watts` is the highest, 0 if there
// was none. All zero: nothing was read.
struct clock_span {
    int readings;
    double low_mhz, high_mhz, watts;
};

// Extends *span to cover *other as well.
void clock_span_join(struct clock_span *span, const struct clock_span *other);

// If the clock moved by more than this share of its highest reading, the times were taken at
// different clocks, and their row is marked.
#define CLOCK_MOVED 0.05
bool clock_moved(const struct clock_span *span);

// NVML's handle of a GPU, and the two functions that are asked.
struct clock_meter {
    void *device;
    int (*clock)(void *device, unsigned kind, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
};

// Finds the GPU by its PCI address, "00000000:65:00.0". False, and a meter that reads nothing, where
// there is no NVML or it does not know that GPU.
bool clock_meter_open(struct clock_meter *meter, const char *bus_id);

// Adds a reading to *span; nothing where NVML does not answer.
void clock_meter_read(const struct clock_meter *meter, struct clock_span *span);

#endif
