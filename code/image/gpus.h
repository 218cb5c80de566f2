// gpus.h: the GPUs of this book, each described once: what it is, what fits on it, what it can do.
// The workbench's occupancy, the simulator's device and floors, the grader and the charts read this
// table; another GPU is one more row (code/test/test_gpu.bats adds one). Chapter 1 prints rates of
// its own; test_gpus.c checks that they are equal, and that an H200 agrees in recorded runs.
#ifndef IMAGE_GPUS_H
#define IMAGE_GPUS_H

#include <stdbool.h>
#include <stddef.h>

enum { GPU_L4, GPU_H200 }; // rows that the book speaks of by name
enum { GPUS_MOST = 8 };    // rows that the table may have

// The same on all GPUs of the table. Rates are per SM and cycle.
enum {
    GPU_THREADS_CTA = 1024,
    GPU_REGISTERS = 65536,      // of an SM, and the most that a CTA may have
    GPU_SHARED_RESERVED = 1024, // bytes of a CTA's shared memory that the system takes
    GPU_RATE_ISSUE = 4,         // warp instructions
    GPU_RATE_EXP = 16,          // results of the special-function units
    GPU_RATE_SHARED = 1,        // wavefronts of 128 bytes
};

struct gpu {
    const char *key;  // "l4", as in plots/runs/l4
    const char *name; // "NVIDIA L4", the driver's name
    int arch;         // compute capability: 89 for 8.9
    int sms;
    int clock_khz, memory_clock_khz; // boost clock of the SMs; of the DRAM
    int bus_bits;                    // width of the bus to the DRAM
    size_t l2_bytes;
    int threads_sm, blocks_sm; // the most that fit on an SM
    size_t shared_default, shared_optin,
        shared_sm; // bytes of a CTA, without opting in and with; of an SM
    // Products of halves with float sums, dense; products of 8 bits have twice that rate.
    double tensor_fp16_tflops;
    double fp32_tflops, dram_gbs;
    // The rate of mma.sync, measured for this book by loops that do nothing else; 0: unknown.
    double mma_sync_low_tflops, mma_sync_high_tflops;
};

// In order of rank: if a program has machine code for several, the first one's figures are
// reported, and the simulator is the first that runs the program's PTX.
extern const struct gpu gpus[];
extern const int gpu_count;

// The first GPU with this compute capability (89 for 8.9); NULL: the table has none.
const struct gpu *gpu_of_arch(int arch);

const char *gpu_model(const struct gpu *gpu); // "L4"
// With its article, as in a sentence: "an L4", "a B200".
void gpu_in_a_sentence(const struct gpu *gpu, char *text, size_t size);

struct cubin_resources; // fatbin.h

struct gpu_occupancy {
    int ctas;               // CTAs that fit on an SM at once
    double share;           // their warps, relative to the most possible, 0 to 1
    const char *limited_by; // "registers", "shared memory", "warps", "CTAs", ...
};

// Finds how many CTAs of a kernel fit on an SM, by NVIDIA's own calculator. threads: of a CTA;
// dynamic_shared: bytes of a CTA. False: the calculator refuses these numbers.
bool gpu_occupancy(const struct gpu *gpu, const struct cubin_resources *kernel, int threads,
                   size_t dynamic_shared, struct gpu_occupancy *occupancy);

#endif
