// protocol.h: the messages between the judge and its runner over two pipes: standard input, and
// REPLY_FD. Standard output is not used: a GPU's driver writes there what kernels print.
//
// The judge sends a request and gets a reply; both are a header followed by as many bytes as it
// announces. They are two halves of one program on the same machine, so structs are sent as they
// are. The judge trusts only the size of a reply: everything in it is compared.
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include "image/fatbin.h"
#include "image/gpus.h"
#include "ptxsim/ptxsim.h"

#include <cuda_runtime_api.h>

#include "workbench/workbench.h"

enum { LAUNCHES_MAX = 8, KERNEL_NAME_MAX = 4096, REPLY_FD = 3, PRINTED_MAX = 2048 };
enum { FILM_BYTES_MAX = 32 << 20 }; // of JSON; a larger film is not made
enum { SCRATCH_MOST = 64 << 20 };   // bytes: scratch memory of a cache, allocations of host code
enum { MORE_MAX = 256 };
enum { REPORTS_MAX = 10000 }; // races and the like; then a launch is stopped

#define WRITES_INPUTS "it writes into its inputs"

// A kernel's first parameter; for a cache cache_args. Both begin with pointers to the inputs, in
// order, and then to the output.
union kernel_args {
    struct attention_args attention;
    struct cache_args cache;
};

// Fills in what the host code gets, with addresses where nothing is; returns its bytes.
static inline size_t args_for(union kernel_args *args, const struct shape *shape)
{
    memset(args, 0, sizeof *args);
    if (shape->page == 0)
        args->attention = launch_only_args(shape);
    else
        args->cache = launch_only_cache_args(shape);
    return shape->page ? sizeof args->cache : sizeof args->attention;
}

// One launch, as the submission's host code asked for it.
struct recorded {
    char kernel[KERNEL_NAME_MAX];
    unsigned grid[3], block[3];
    uint64_t shared;
    bool cooperative; // its CTAs may wait for each other, so all must be on the GPU at once
    uint32_t steps;   // bytes of the steps before it, which change memory
    uint32_t more_bytes;
    unsigned char more[MORE_MAX]; // parameters after the arguments, in the same layout
};

// The GPU that submissions are compiled for; its limits hold for their launches.
#define JUDGED_GPU (&gpus[GPU_L4])

enum verb {
    VERB_LOAD,    // PTX text, a NUL, machine code for JUDGED_GPU
    VERB_MEASURE, // struct run_request: what its launches take of JUDGED_GPU
    VERB_RUN,     // struct run_request, then inputs; each set is launched once, in turn
    VERB_TIME,    // the same on a GPU, timed
    VERB_FILM, // runs one set; instead of outputs, answers with the film of a CTA as JSON (ptxsim/machine/film.h)
};

struct request {
    uint64_t bytes;
    uint32_t verb;
};

// Spoiling (spoil.c), in launches on the same inputs: each draw spoils one execution; if the first
// `enough` draws are all noticed, they stand for the rest.
enum { DRAWS_MOST = 24 };
struct experiment {
    enum spoils what;
    int draws, enough;
    bool halves;   // each draw spoils half of the executions, SPOILED_MOST at most
    bool in_parts; // each draw takes executions of its own part of the launch
    uint64_t drawn[DRAWS_MOST];
};

struct run_request {
    struct shape shape;
    float softmax_scale;
    int launch_count;
    struct recorded launches[LAUNCHES_MAX];
    uint64_t budget; // warp instructions that a launch may run
    bool races;
    bool
        ablated; // the executions of up to four sets are noted, and then those of the first are spoiled
    struct experiment experiment;
    bool unchecked; // a kernel that reads what nothing has written goes on, as on a GPU
    unsigned schedule;
    int threads;
    uint64_t scratch; // bytes of scratch memory, zeros at first, then as each launch leaves them
    int sets, warm;   // input sets; VERB_TIME: those launched before the clock starts
    unsigned cta[3];  // the CTA that VERB_FILM shows
    uint64_t steps_bytes;
    // Then the steps of the host code, which change memory, as lines of the runtime
    // (cudart/written.c): for each launch the steps before it. Then the inputs of each set.
};

// The inputs of a set: q, k, v (E4M3 codes), q_scales, k_scales, v_scales (floats); for a cache q,
// new_k, new_v (halves), codes, scales, table, lengths. A kernel may write to codes and scales,
// which are sent back.
enum { INPUTS_MAX = 7, CACHE_CODES = 3, CACHE_SCALES, KERNEL_POINTERS = INPUTS_MAX + 1 };

// Returns how many arrays a set of inputs has; fills in the bytes of each.
static inline int input_sizes(const struct shape *shape, size_t bytes[INPUTS_MAX])
{
    size_t batch = (size_t)shape->batch, heads = (size_t)shape->heads, page = (size_t)shape->page;

    if (page == 0) {
        for (int i = 0; i < 3; ++i) {
            bytes[i] = shape_elements(shape);
            bytes[3 + i] = heads * sizeof(float);
        }
        return 6;
    }
    size_t max_pages = ((size_t)shape->seq_len + page - 1) / page;
    bytes[0] = 2 * shape_outputs(shape);
    bytes[1] = bytes[2] = 2 * batch * heads * HEAD_DIM;
    bytes[CACHE_CODES] = batch * max_pages * heads * 2 * page * HEAD_DIM;
    bytes[CACHE_SCALES] = bytes[CACHE_CODES] / HEAD_DIM;
    bytes[5] = batch * max_pages * sizeof(int);
    bytes[6] = batch * sizeof(int);
    return INPUTS_MAX;
}

static inline bool comes_back(const struct shape *shape, int input)
{
    return shape->page && (input == CACHE_CODES || input == CACHE_SCALES);
}

static inline size_t input_bytes(const struct shape *shape)
{
    size_t bytes[INPUTS_MAX], all = 0;
    int count = input_sizes(shape, bytes);

    for (int i = 0; i < count; ++i)
        all += bytes[i];
    return all;
}

// Bytes that are sent back for a set: the output, and for a cache its codes and scales.
static inline size_t answer_bytes(const struct shape *shape)
{
    size_t bytes[INPUTS_MAX], all = 2 * shape_outputs(shape);
    int count = input_sizes(shape, bytes);

    for (int i = 0; i < count; ++i)
        all += comes_back(shape, i) ? bytes[i] : 0;
    return all;
}

enum verdict { DONE, FAULTED, REFUSED };

struct footprint { // the most over all launches; for occupancy the least
    int registers, threads;
    uint64_t ctas;     // of a launch
    uint64_t all_ctas; // of all launches together
    uint64_t shared_bytes,
        local_bytes; // shared: of a CTA, static and dynamic; local: of a thread, without printf's frame
    double occupancy; // on an SM of JUDGED_GPU, 0 to 1
};

// What the noted executions work on. For the first of several sets of inputs: how much of the work
// is on operands that change with which tensor. The index has a bit for each set that changes both
// of a product's operands: bit 0 is the second set's, which has another V, bit 1 that of another K.
// Work on operands that never change, and so do not depend on inputs, is in [0].
enum { CHANGES_V = 1, CHANGES_K = 2, CHANGES = 1 << 3 };
struct worked_on {
    double work[CHANGES];
    double executions;
    // For atomic operations at addresses that many CTAs ask: the share that finds a value there
    // which no other has found.
    double orders;
    double overlap; // bytes of copies that a warp had under way, averaged over its instructions
    double meets;   // signals of a launch in places where the same warp asks (struct ablation)
    // The share of loads from global memory that is by warps without products.
    double apart;
    double spread; // sectors of K and V, relative to those of the CTA that loads most
};

struct noticed {
    int draws;
    int noticed;  // draws that changed an output, or whose launch did not end
    bool repeats; // launched again without spoiling, it gave the same outputs
};

struct reply {
    uint64_t bytes; // bytes that follow: the answers of all sets, or a film
    enum verdict verdict;
    enum fault_kind fault;
    char text[1024];           // one line: the fault, or why the launch was refused
    int races;                 // number of race reports; they do not change the verdict
    char race[1024];           // the first race
    bool raced_out;            // stopped because of too many races
    char printed[PRINTED_MAX]; // what kernels printed: the beginning, unchanged
    uint32_t printed_bytes;
    bool printed_more;
    struct counts counts;
    struct worked_on worked_on; // set if run_request.ablated
    struct noticed noticed;     // the same, for spoiled launches of the first set
    struct footprint footprint;
    double microseconds;      // time of VERB_TIME's launches, by the GPU's events
    double wall_microseconds; // the same by the host's clock, with the warm-up
};

// spoil.c: computes this from the executions of several sets of inputs; `ends` are the ends of the
// sets in the log. changes receives, for each execution of the first set, which other sets change
// its operands; for the caller to free.
struct worked_on worked_on_of(const struct ablation *noted, const size_t ends[], int sets,
                              uint8_t **changes);
struct spoiling {
    const struct experiment *experiment;
    const struct execution *log; // executions of an unspoiled launch
    size_t count;
    const size_t *drawn_of; // indices of the executions to draw from; NULL: all
    uint64_t ctas;
    const uint64_t *writers; // for each output, 1 + the CTA that has stored it
    const uint16_t *out;     // the outputs
    size_t outputs;
    // Repeats the launches, spoiled; returns the outputs, or NULL if they did not end.
    const uint16_t *(*launch)(void *of, const struct ablation *spoils);
    void *of;
};
struct noticed spoil_all(const struct spoiling *s);
// Spoils executions on what changes with K alone, and executions on what changes with V alone;
// returns the result of the kind of which fewer were noticed.
struct noticed spoil_each(const struct spoiling *s, const uint8_t *changes);

// gpu.c: the runner's functions for a GPU, by the driver's API. False with one line in `why`.
bool gpu_open(char *why, size_t size);
bool gpu_load(const char *ptx, char *why, size_t size);
void gpu_run(const struct run_request *request, const char *inputs, struct reply *reply, char *out);

#endif
