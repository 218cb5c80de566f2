// protocol.h: what the judge and its runner say to each other over two pipes: standard input, and
// REPLY_FD. Standard output is no part of it: that is where a GPU's driver puts what kernels print.
//
// The judge sends a request and gets a reply; both are a header and as many bytes as it announces.
// They are the same program's halves on the same machine, so structs go as they are. The judge
// believes nothing of a reply but its size: whatever is in it is compared.
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include "image/fatbin.h"
#include "image/gpus.h"
#include "ptxsim/ptxsim.h"

#include <cuda_runtime_api.h>

#include "workbench/workbench.h"

enum { LAUNCHES_MAX = 8, KERNEL_NAME_MAX = 4096, REPLY_FD = 3, PRINTED_MAX = 2048 };
enum { FILM_BYTES_MAX = 32 << 20 }; // of JSON; of more there is no film
enum { REPORTS_MAX = 10000 };       // races and the like, after which a launch is stopped

#define WRITES_INPUTS "it writes into its inputs"

// One launch, as the submission's host code asked for it. Its only parameter is the attention_args.
struct recorded {
    char kernel[KERNEL_NAME_MAX];
    unsigned grid[3], block[3];
    uint64_t shared;
};

enum verb {
    VERB_LOAD,    // PTX text, a NUL, sm_89 machine code
    VERB_MEASURE, // struct run_request: what its launches take of an L4
    VERB_RUN,     // struct run_request, then inputs; each set is launched once, in turn
    VERB_TIME,    // the same on a GPU, timed
    VERB_FILM, // the same once; instead of outputs, the film of a CTA as JSON (ptxsim/machine/film.h)
};

struct request {
    uint64_t bytes;
    uint32_t verb;
};

struct run_request {
    struct shape shape;
    float softmax_scale;
    int launch_count;
    struct recorded launches[LAUNCHES_MAX];
    uint64_t budget; // warp instructions of a launch
    bool races;
    bool unchecked; // what reads what nothing has written goes on, as on a GPU
    unsigned schedule;
    int threads;
    int sets, warm;  // input sets; VERB_TIME: how many of them come before the clock starts
    unsigned cta[3]; // that VERB_FILM shows
    // Then for each set: q, k, v (E4M3 codes), q_scales, k_scales, v_scales (floats).
};

enum verdict { DONE, FAULTED, REFUSED };

struct footprint { // of all launches the most, of occupancy the least
    int registers, threads;
    uint64_t ctas; // of a launch
    uint64_t shared_bytes,
        local_bytes;  // a CTA: static and dynamic; a thread, without printf's frame
    double occupancy; // of an L4's SM, 0 to 1
};

struct reply {
    uint64_t bytes; // that follow: the outputs of all sets, halves; or a film
    enum verdict verdict;
    enum fault_kind fault;
    char text[1024];           // one line: the fault, or why it was refused
    int races;                 // reports of them; they leave the verdict as it is
    char race[1024];           // the first
    bool raced_out;            // so many that the launch was stopped for them
    char printed[PRINTED_MAX]; // by the kernels' threads: the first of it, as it came
    uint32_t printed_bytes;
    bool printed_more;
    struct counts counts;
    struct footprint footprint;
    double microseconds;      // of VERB_TIME, a launch: by the GPU's events
    double wall_microseconds; // and by the host's clock, the warm-up included
};

static inline size_t input_bytes(const struct shape *shape)
{
    return 3 * shape_elements(shape) + 3 * (size_t)shape->heads * sizeof(float);
}

// gpu.c: the same on a GPU, by the driver's API. False with one line in `why`.
bool gpu_open(char *why, size_t size);
bool gpu_load(const char *ptx, char *why, size_t size);
void gpu_run(const struct run_request *request, const char *inputs, struct reply *reply, char *out);

#endif
