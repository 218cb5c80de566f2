// gpus.h: the GPUs of this book, each described once: name, limits and rates. The workbench's
// occupancy, the simulator's device and floors, the grader and the charts read this table; another
// GPU is one more row (code/test/test_gpu.bats adds one). Chapter 1 prints rates from its own
// table; test_gpus.c checks that the two tables agree, and that recorded runs agree with this one.
#ifndef IMAGE_GPUS_H
#define IMAGE_GPUS_H

#include <stdbool.h>
#include <stddef.h>

enum { GPU_L4, GPU_H200 }; // rows that the book names
enum { GPUS_MOST = 8 };    // most rows of the table

// These numbers are equal for all GPUs of the table. Rates are for each SM and cycle.
enum {
    GPU_THREADS_CTA = 1024,
    GPU_REGISTERS = 65536,      // registers of an SM; also the most that a CTA may have
    GPU_SHARED_RESERVED = 1024, // bytes that the system takes of each CTA's shared memory
    GPU_RATE_ISSUE = 4,         // warp instructions
    GPU_RATE_EXP = 16,          // results of the special-function units
    GPU_RATE_SHARED = 1,        // wavefronts of 128 bytes
};

struct gpu {
    const char *key;  // "l4", as in plots/runs/l4
    const char *name; // "NVIDIA L4", the driver's name
    int arch;         // compute capability: 89 for 8.9
    int sms;
    int clock_khz, memory_clock_khz; // boost clock of the SMs; clock of the DRAM
    int bus_bits;                    // width of the bus to the DRAM
    size_t l2_bytes;
    int threads_sm, blocks_sm; // the most threads, and the most CTAs, on an SM at once
    // Bytes of shared memory that a CTA may have, without and with opting in; and of an SM.
    size_t shared_default, shared_optin, shared_sm;
    // Dense products of halves with float sums; products of 8-bit numbers have twice that rate.
    double tensor_fp16_tflops;
    double fp32_tflops, dram_gbs;
    // The lowest and highest rate of mma.sync, measured for this book with loops of nothing else;
    // 0: unknown.
    double mma_sync_low_tflops, mma_sync_high_tflops;
};

// In order of rank: if a program has machine code for several GPUs, the first one's resources are
// reported; the simulator is the first GPU that runs the program's PTX.
extern const struct gpu gpus[];
extern const int gpu_count;

// The first GPU with this compute capability (89 for 8.9); NULL: the table has none.
const struct gpu *gpu_of_arch(int arch);

const char *gpu_model(const struct gpu *gpu); // "L4"
// The model with its article, for a sentence: "an L4", "a B200".
void gpu_in_a_sentence(const struct gpu *gpu, char *text, size_t size);

struct cubin_resources; // fatbin.h

struct gpu_occupancy {
    int ctas;               // CTAs that fit on an SM at once
    double share;           // warps of these CTAs, divided by the most possible, 0 to 1
    const char *limited_by; // "registers", "shared memory", "warps", "CTAs", ...
};

// Computes with NVIDIA's own calculator how many CTAs of a kernel fit on an SM. threads: of a CTA;
// dynamic_shared: bytes of a CTA. False: the calculator refuses these numbers.
bool gpu_occupancy(const struct gpu *gpu, const struct cubin_resources *kernel, int threads,
                   size_t dynamic_shared, struct gpu_occupancy *occupancy);

#endif
