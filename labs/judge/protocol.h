// protocol.h: what the judge and its runner say to each other over two pipes.
//
// The judge sends a request and gets a reply; both are a header and as many bytes as it announces.
// They are the same program's halves on the same machine, so structs go as they are. The judge
// believes nothing of a reply but its size: whatever is in it is compared.
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include "image/fatbin.h"
#include "ptxsim/ptxsim.h"

#include <cuda_runtime_api.h>

#include "workbench/workbench.h"

enum { LAUNCHES_MAX = 8, KERNEL_NAME_MAX = 512, SETS_MAX = 64, FAULTS_SAID = 8 };

// One launch, as the submission's host code asked for it. Its only parameter is the attention_args.
struct recorded {
    char kernel[KERNEL_NAME_MAX];
    unsigned grid[3], block[3];
    uint64_t shared;
};

enum verb {
    VERB_LOAD,  // PTX text
    VERB_IMAGE, // sm_89 machine code: resources of the kernels launched since
    VERB_RUN,   // struct run_request, then inputs
    VERB_TIME,  // on a GPU: the same with several input sets, each launched once
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
    bool races;
    bool unchecked; // what reads what nothing has written goes on, as on a GPU
    unsigned schedule;
    int threads;
    int sets, warm; // VERB_TIME: input sets, and how many of them come before the clock starts
    // Then for each set: q, k, v (E4M3 codes), q_scales, k_scales, v_scales (floats).
};

enum verdict { DONE, FAULTED, REFUSED };

struct reply {
    uint64_t bytes; // that follow: the outputs of all sets, halves
    enum verdict verdict;
    enum fault_kind fault;
    int faults;
    char text[FAULTS_SAID][512]; // one line each: the fault, or why it was refused
    struct counts counts;
    struct cubin_resources resources; // of VERB_IMAGE, the largest over the kernels
    double microseconds;              // of VERB_TIME, a launch: by the GPU's events
    double wall_microseconds;         // and by the host's clock, the warm-up included
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
