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
    bool halves;   // half of the executions are spoiled in each draw, SPOILED_MOST at the most
    bool in_parts; // each draw has the executions of its own part of the launch
    uint64_t drawn[DRAWS_MOST];
};

struct run_request {
    struct shape shape;
    float softmax_scale;
    int launch_count;
    struct recorded launches[LAUNCHES_MAX];
    uint64_t budget; // warp instructions of a launch
    bool races;
    bool
        ablated; // the executions of up to four sets are noted, and then those of the first are spoiled
    struct experiment experiment;
    bool unchecked; // a kernel that reads what nothing has written goes on, as on a GPU
    unsigned schedule;
    int threads;
    uint64_t
        scratch; // bytes of a cache's, zeros before the first set is launched and then as they are left
    int sets, warm;  // input sets; VERB_TIME: how many of them come before the clock starts
    unsigned cta[3]; // that VERB_FILM shows
    uint64_t steps_bytes;
    // Then what host code does to memory, lines as the runtime writes them down (cudart/written.c): for each
    // launch those that come before it. Then for each set its inputs.
};

// The inputs of a set: q, k, v (E4M3 codes), q_scales, k_scales, v_scales (floats); of a cache q, new_k,
// new_v (halves), codes, scales, table, lengths. A kernel may write to codes and scales, and they come back.
enum { INPUTS_MAX = 7, CACHE_CODES = 3, CACHE_SCALES, KERNEL_POINTERS = INPUTS_MAX + 1 };

// Returns how many arrays a set of inputs has; bytes: of each.
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

// What comes back of a set: the output, and of a cache its codes and scales.
static inline size_t answer_bytes(const struct shape *shape)
{
    size_t bytes[INPUTS_MAX], all = 2 * shape_outputs(shape);
    int count = input_sizes(shape, bytes);

    for (int i = 0; i < count; ++i)
        all += comes_back(shape, i) ? bytes[i] : 0;
    return all;
}

enum verdict { DONE, FAULTED, REFUSED };

struct footprint { // of all launches the most, of occupancy the least
    int registers, threads;
    uint64_t ctas;     // of a launch
    uint64_t all_ctas; // of all launches together
    uint64_t shared_bytes,
        local_bytes;  // a CTA: static and dynamic; a thread, without printf's frame
    double occupancy; // of an SM of JUDGED_GPU, 0 to 1
};

// What the executions that are counted work on. Of the first of several sets, each of which has other inputs: how much
// of their work is on what changes with what, by the bits of the sets that change both of a product's operands between
// them: bit 0 is the second set's, which has another V, bit 1 that of another K. Work on what never changes, and so
// not on inputs, is in [0].
enum { CHANGES_V = 1, CHANGES_K = 2, CHANGES = 1 << 3 };
struct worked_on {
    double work[CHANGES];
    double executions;
    // Of atomic operations, the share that finds at an address what no other has found there, of many CTAs that ask.
    double orders;
    double
        overlap; // bytes of copies that a warp had on their way, in the mean of all its instructions
    double meets; // signals of a launch at places where the same warp asks (struct ablation)
    // Of what is loaded from global memory, the share by warps that make no products.
    double apart;
    double spread; // sectors of K and V over those that the CTA loads which loads most of them
};

struct noticed {
    int draws;
    int noticed;  // draws that changed an output, or whose launch did not come to its end
    bool repeats; // unspoiled, the outputs were the same again
};

struct reply {
    uint64_t bytes; // that follow: the answers of all sets; or a film
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
    struct worked_on worked_on; // where run_request.ablated
    struct noticed noticed;     // and what was spoiled in the first set
    struct footprint footprint;
    double microseconds;      // a launch of VERB_TIME, by the GPU's events
    double wall_microseconds; // and by the host's clock, the warm-up included
};

// spoil.c: from the executions of several sets of inputs, which end at `ends` in the log of them. changes: gets for each
// of the first set which others change what it works on, new.
struct worked_on worked_on_of(const struct ablation *noted, const size_t ends[], int sets,
                              uint8_t **changes);
struct spoiling {
    const struct experiment *experiment;
    const struct execution *log; // of a launch as it is
    size_t count;
    const size_t *drawn_of; // indices of those that draws are from, so many; NULL: all
    uint64_t ctas;
    const uint64_t *writers; // 1 + the CTA that has stored an output
    const uint16_t *out;     // the outputs
    size_t outputs;
    // Launches once more what was launched, spoiled; its outputs, or NULL: it did not come to its end.
    const uint16_t *(*launch)(void *of, const struct ablation *spoils);
    void *of;
};
struct noticed spoil_all(const struct spoiling *s);
// The same for executions on what changes with K alone, and for those on what changes with V alone: what was noticed of
// those of which less was.
struct noticed spoil_each(const struct spoiling *s, const uint8_t *changes);

// gpu.c: the same on a GPU, by the driver's API. False with one line in `why`.
bool gpu_open(char *why, size_t size);
bool gpu_load(const char *ptx, char *why, size_t size);
void gpu_run(const struct run_request *request, const char *inputs, struct reply *reply, char *out);

#endif
