// gpus.h: the GPUs of this book, each described once: what it is, what fits on it, what it can do.
// The workbench's occupancy, the simulator's device and floors, the grader and the charts read this
// table; another GPU is one more row of it (code/test/test_gpu.bats adds one). Chapter 1 prints its own rates; test_gpus.c holds them, and what an H200 has said of itself
// in the recorded runs, equal to it.
#ifndef IMAGE_GPUS_H
#define IMAGE_GPUS_H

#include <stdbool.h>
#include <stddef.h>

enum { GPU_L4, GPU_H200 }; // rows that the book speaks of by name
enum { GPUS_MOST = 8 };    // rows that the table may have

// These are the same on all GPUs of the table. Rates are per SM and cycle.
enum {
    GPU_THREADS_CTA = 1024,
    GPU_REGISTERS = 65536,      // of an SM, and the most of a CTA
    GPU_SHARED_RESERVED = 1024, // bytes of a CTA's shared memory that the system takes
    GPU_RATE_ISSUE = 4,         // warp instructions
    GPU_RATE_EXP = 16,          // results of the special-function units
    GPU_RATE_SHARED = 1,        // wavefronts of 128 bytes
};

struct gpu {
    const char *key;  // "l4", as in plots/runs/l4
    const char *name; // "NVIDIA L4", as the driver has it
    int arch;         // compute capability: 89 for 8.9
    int sms;
    int clock_khz, memory_clock_khz; // boost clock of the SMs; of the DRAM
    int bus_bits;                    // to the DRAM
    size_t l2_bytes;
    int threads_sm, blocks_sm; // the most on an SM
    size_t shared_default, shared_optin,
        shared_sm; // bytes a CTA, without opting in and with; an SM
    // Products of half with float sums, dense; products of 8 bits go at twice that.
    double tensor_fp16_tflops;
    double fp32_tflops, dram_gbs;
    // What mma.sync reaches there, measured for this book by loops that do nothing else; 0: unknown.
    double mma_sync_low_tflops, mma_sync_high_tflops;
};

// In order of rank: where a program has machine code for several, the first speaks for it, and the
// simulator is the first that runs its PTX.
extern const struct gpu gpus[];
extern const int gpu_count;

// The first GPU that machine code for this compute capability (89) was made for; NULL: the table has none.
const struct gpu *gpu_of_arch(int arch);

const char *gpu_model(const struct gpu *gpu); // "L4"
// With its article, as a sentence has it: "an L4", "a B200".
void gpu_in_a_sentence(const struct gpu *gpu, char *text, size_t size);

struct cubin_resources; // fatbin.h

struct gpu_occupancy {
    int ctas;               // that fit on an SM at once
    double share;           // their warps over the most possible, 0 to 1
    const char *limited_by; // "registers", "shared memory", "warps", "CTAs", ...
};

// How many CTAs of a kernel fit on an SM, by NVIDIA's own calculator. threads: a CTA's;
// dynamic_shared: bytes a CTA. False: the calculator refuses these numbers.
bool gpu_occupancy(const struct gpu *gpu, const struct cubin_resources *kernel, int threads,
                   size_t dynamic_shared, struct gpu_occupancy *occupancy);

#endif
