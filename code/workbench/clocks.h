// clocks.h: how fast the GPU ran while something was timed. It is not part of workbench.h, so that
// a change here compiles no kernel again.
#ifndef WORKBENCH_CLOCKS_H
#define WORKBENCH_CLOCKS_H

#include <stdbool.h>

// Readings of the SMs' clock, in MHz. `watts`: the highest reading of the board's power; 0: it was
// not read. All zero: nothing was read.
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

// NVML's handle of a GPU, and the two functions that read its clock and its power.
struct clock_meter {
    void *device;
    int (*clock)(void *device, unsigned kind, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
};

// Finds the GPU by its PCI address, such as "00000000:65:00.0". False, and a meter that reads
// nothing, if there is no NVML or it does not know the GPU.
bool clock_meter_open(struct clock_meter *meter, const char *bus_id);

// Adds a reading to *span, if NVML answers.
void clock_meter_read(const struct clock_meter *meter, struct clock_span *span);

#endif
