// internal.h: what the parts of workbench_main() share.
//
//   options.c    the command line
//   bench.c      the device, buffers with poison and guards, running, timing
//   clocks.c     clock and power while timing
//   resources.c  registers, shared memory, occupancy
//   console.c    output for people
//   record.c     output for programs
//   program.c    workbench_main(): calls the others in order
#ifndef WORKBENCH_INTERNAL_H
#define WORKBENCH_INTERNAL_H

#include <cuda_runtime_api.h>

#include "clocks.h"
#include "diagnosis.h"
#include "image/fatbin.h"
#include "image/gpus.h"
#include "workbench.h"

enum exit_status { EXIT_PASSED = 0, EXIT_GATE = 1, EXIT_USAGE = 2, EXIT_MACHINE = 3 };

// Prints one line on stderr, after the program's name.
extern const char *program_name;
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- options.c ----------------------------------------------------------------------------------

// How launches are timed.
enum timing_mode {
    TIME_GRAPH, // replays of a CUDA graph of launches: the host has no part in it
    TIME_PLAIN, // launches one after the other, as fast as the host enqueues them
    TIME_COLD,  // one launch for each sample, after the L2 cache has been overwritten
    TIMING_MODES
};
const char *timing_mode_name(enum timing_mode mode); // "graph", "plain", "cold"

enum { MAX_SHAPES = 32, MAX_SEEDS = 64, MAX_ROTATIONS = 64 };

struct options {
    struct shape shapes[MAX_SHAPES];
    uint64_t seeds[MAX_SEEDS];
    enum input_kind inputs[INPUT_KINDS_ALL], timed[INPUT_KINDS_ALL];
    int shape_count, seed_count, input_count, timed_count; // input_count 0: not given
    int iters, warmup, rotations;
    bool timing, on_demand, quiet, resources, launch_only;
    enum timing_mode mode;
    const char *record, *summaries, *outputs, *against; // record: a file; others: folders; or NULL
};

// True: go on. False: exit with *status (after --help, or after an error message).
bool options_parse(const struct program *program, int argc, char **argv, struct options *options,
                   int *status);

// ---- bench.c ------------------------------------------------------------------------------------

struct device {
    char name[256];
    int major, minor, sms, clock_mhz, memory_clock_mhz;
    size_t l2_bytes;
    int driver, toolkit;   // 13000 means 13.0
    const char *simulator; // the simulator's version; NULL on a GPU
    cudaStream_t stream;
    struct clock_meter meter; // reads nothing in the simulator
};

// Opens the device of this machine; false: `why` has one line.
bool device_open(struct device *device, char *why, size_t size);

// Where there is no GPU, runs the program again in the simulator that was built with it, and says
// so on stderr. Returns if there is no simulator, if the program already runs there, or if
// WORKBENCH_ON=gpu forbids it.
void into_simulator(char **argv);

// A problem on the device.
struct device_case {
    struct attention_args args;
    struct cache_args cache; // for attention over a cache; otherwise zeros
    void *inputs[6];         // q, k, v and their scales; or what create_cache() makes
    int *lengths;            // lengths of sequences in a ragged batch or a cache; otherwise NULL
    int *asked;              // in a prompt, each sequence's number of query tokens; otherwise NULL
    uint8_t *block;          // guard, output, guard
    size_t guard;            // bytes of a guard; 0 in the simulator, which checks bounds itself
    size_t out_bytes;
    struct cache_image image; // for attention over a cache; otherwise zeros
};

// program: tells where it keeps the elements of a cache.
void case_create(struct device_case *c, const struct device *device, const struct program *program,
                 const struct problem *problem);
void case_destroy(struct device_case *c);

// Fills the output with NaN, the guards with a pattern, and a cache with its contents before a
// launch.
void case_poison(const struct device_case *c, const struct device *device);

// Enqueues one launch.
cudaError_t case_launch(const struct device_case *c, const struct program *program,
                        cudaStream_t stream);

// Launches once and waits. Returns the launch's error or, if it has none, the kernel's, which may
// be sticky.
cudaError_t case_run(const struct device_case *c, const struct device *device,
                     const struct program *program);

// Copies the output to the host. Returns NULL, or the words that say which write to the cache is
// missing or wrong, or that a write went past the output.
const char *case_fetch(const struct device_case *c, const struct device *device, uint16_t *out);

// Times launches over `count` cases in turn.
struct stopwatch {
    enum timing_mode mode;
    const struct device *device;
    const struct program *program;
    const struct device_case *cases;
    int count;
    int launches; // launches in a sample
    int next;     // index of the case of the next cold sample
    cudaGraphExec_t graph;
    cudaEvent_t start, stop;
    void *flush; // memory that is overwritten before each cold launch, to empty the L2 cache
    size_t flush_bytes;
};

void stopwatch_create(struct stopwatch *watch, const struct device *device,
                      const struct program *program, const struct device_case *cases, int count,
                      enum timing_mode mode);
double stopwatch_sample(struct stopwatch *watch); // µs for each launch
void stopwatch_destroy(struct stopwatch *watch);

// Bytes of device memory needed to run `shape`, checked before the run.
size_t device_bytes(const struct device *device, const struct shape *shape,
                    const struct options *options);
size_t device_free_bytes(void);

void range_push(const char *name); // NVTX, on the host
void range_pop(void);

// ---- resources.c --------------------------------------------------------------------------------

struct resources {
    int registers;
    size_t static_shared_bytes, dynamic_shared_bytes, local_bytes;
    int threads;
    int ctas_per_sm;           // CTAs on an SM of this machine's device
    double occupancy;          // on that device: resident warps divided by the most possible
    struct {                   // from machine code for the first GPU of the table (image/gpus.h)
                               // that the program has code for
        const struct gpu *gpu; // NULL: there is no readable machine code
        int registers;
        size_t shared_bytes, local_bytes; // shared_bytes: static and dynamic
        int ctas_per_sm;
        double occupancy;
        const char *limited_by; // "registers", "shared memory", "warps", "CTAs", ...
    } image;
    struct machine_code { // for each row of the table of GPUs
        bool there;       // whether the code can be read
        struct cubin_code code;
    } code[GPUS_MOST];
};

bool resources_find(struct resources *resources, const struct program *program, char *why,
                    size_t size);

// ---- results ------------------------------------------------------------------------------------

struct agreement {
    double identical_percent, max_abs;
    int max_ulp;
};

struct result { // for one shape, one kind of inputs and one seed
    enum input_kind input;
    uint64_t seed;
    bool pass;
    const char *fault;            // why nothing was measured, or NULL
    char *how;                    // what is wrong with the measured output, or NULL
    struct error_metrics metrics; // relative to the dequantised reference
    struct error_metrics sources; // relative to FP16 attention of the unquantised inputs, for
                                  // gate_sources()
    struct error_metrics rounded; // errors of rounding P alone; zeros if program.p describes none
    struct error_limits limits;   // upper limits of `metrics`
    bool compared;                // whether `agreement` is set, because of --against
    struct agreement agreement;
    // Needles in inputs of kind INPUT_NEEDLE (otherwise zeros), found in the output, in the
    // reference, and, if the program tells how it rounds P, in the reference with P rounded.
    struct needles needles, exact, rounded_needles;
};

struct shape_run {
    struct shape shape;
    struct rows rows;
    struct result results[MAX_SEEDS * INPUT_KINDS_ALL];
    int count;
    struct timing { // for one kind of inputs
        bool done;
        struct summary us;
        struct clock_span clock; // clock and power in that time
        int launches_per_sample;
    } timing[INPUT_KINDS_ALL];
};

struct run {
    const struct program *program;
    const struct options *options;
    const struct device *device;
    const struct resources *resources;
    struct shape_run *shapes;
    int shape_count; // shapes so far
    double tolerance;
};

// ---- console.c ----------------------------------------------------------------------------------

void console_head(const struct run *run);
void console_result(const struct run *run, const struct shape_run *shape,
                    const struct result *result);
void console_timing(const struct run *run);
void console_verdict(const struct run *run, bool pass);

// ---- record.c -----------------------------------------------------------------------------------

// Prints the resources as one JSON object.
void record_print_resources(const struct resources *resources);

// Writes the run record; false: `why` has one line.
bool record_write(const struct run *run, const char *path, char *why, size_t size);

// Writes the record's three summaries into a folder; false: `why` has one line.
enum { SUMMARY_FILES = 3 };
extern const char *const summary_names[SUMMARY_FILES];
bool summaries_write(const struct run *run, const char *folder, char *why, size_t size);

#endif
