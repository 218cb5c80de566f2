// protocol.h: the messages between the judge and its runner, through two pipes: standard input, and
// REPLY_FD. Standard output is left to the GPU's driver, which writes there what kernels print.
//
// The judge sends a request and gets a reply. Each is a header, followed by as many bytes as the
// header says. Both ends run on the same machine and use this header, so structs are sent as they
// are in memory. The judge trusts only the size of a reply: it checks everything in it.
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include "image/fatbin.h"
#include "image/gpus.h"
#include "ptxsim/ptxsim.h"

#include <cuda_runtime_api.h>

#include "workbench/workbench.h"

enum { LAUNCHES_MAX = 8, KERNEL_NAME_MAX = 4096, REPLY_FD = 3, PRINTED_MAX = 2048 };
enum { FILM_BYTES_MAX = 32 << 20 }; // bytes of a film's JSON; a larger film is not sent
// The most bytes of a cache's scratch memory, or of host code's allocations.
enum { SCRATCH_MOST = 64 << 20 };
enum { MORE_MAX = 256 };
enum { REPORTS_MAX = 10000 }; // reports, such as of races, after which a launch is stopped

#define WRITES_INPUTS "it writes into its inputs"

// A kernel's first parameter: attention_args, or cache_args for a cache. Both begin with pointers
// to the inputs, in order, and then the pointer to the output.
union kernel_args {
    struct attention_args attention;
    struct cache_args cache;
};

// Fills in the arguments as the host code gets them, with addresses where there is no memory;
// returns their size in bytes.
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
    bool cooperative; // whether its CTAs may wait for one another: then all must be on the GPU at
                      // the same time
    uint32_t steps;   // where this launch's steps end, in bytes from the first launch's steps
    uint32_t more_bytes;
    unsigned char more[MORE_MAX]; // the parameters after the first one, in the kernel's layout
};

// The GPU for which submissions are compiled; their launches must keep its limits.
#define JUDGED_GPU (&gpus[GPU_L4])

enum verb {
    VERB_LOAD,    // sends PTX text, a NUL, machine code for JUDGED_GPU
    VERB_MEASURE, // sends struct run_request: measures what its launches need of JUDGED_GPU
    VERB_RUN,     // sends struct run_request, then inputs: launches each set once, in turn
    VERB_TIME,    // like VERB_RUN, on a GPU and timed
    VERB_FILM,    // runs one set; answers with the film of a CTA as JSON (ptxsim/machine/film.h)
                  // instead of outputs
};

struct request {
    uint64_t bytes;
    uint32_t verb;
};

// How executions are spoiled (spoil.c), in launches on the same inputs. Each draw chooses one
// execution, or with `halves` many. If the first `enough` draws are all noticed, the rest are not
// tried.
enum { DRAWS_MOST = 24 };
struct experiment {
    enum spoils what;
    int draws, enough;
    bool halves;   // whether a draw spoils up to half of the executions, and at most SPOILED_MOST
    bool in_parts; // whether draw i is from the i-th of `draws` equal parts of the log
    uint64_t drawn[DRAWS_MOST];
};

struct run_request {
    struct shape shape;
    float softmax_scale;
    int launch_count;
    struct recorded launches[LAUNCHES_MAX];
    uint64_t budget; // warp instructions after which a launch is stopped
    bool races;
    // Whether the executions of up to four sets are logged, and then launches of the first set are
    // spoiled.
    bool ablated;
    struct experiment experiment;
    bool unchecked; // whether reads of memory never written go unreported, as on a GPU
    unsigned schedule;
    bool hasty; // whether half of the copies arrive when they are issued, not when they are awaited
    int threads;
    uint64_t scratch; // bytes of scratch memory: zeros at first, then as the launch before leaves
                      // them
    int sets, warm;   // sets of inputs; warm: sets that VERB_TIME launches before its clock starts
    unsigned cta[3];  // the CTA to film, for VERB_FILM
    uint64_t steps_bytes;
    // After this come the steps of the host code, which change memory, as lines of the runtime
    // (cudart/written.c), launch by launch; then the inputs of each set.
};

// The inputs of a set: q, k, v (E4M3 codes), q_scales, k_scales, v_scales (floats); for a cache: q,
// new_k, new_v (halves), codes, scales, table, lengths. Codes and scales of a cache may be changed
// by a kernel, and are sent back.
enum { INPUTS_MAX = 7, CACHE_CODES = 3, CACHE_SCALES, KERNEL_POINTERS = INPUTS_MAX + 1 };

// Returns the number of arrays of a set of inputs; bytes: the size of each.
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

// Bytes sent back for a set: the output, and for a cache its codes and scales.
static inline size_t answer_bytes(const struct shape *shape)
{
    size_t bytes[INPUTS_MAX], all = 2 * shape_outputs(shape);
    int count = input_sizes(shape, bytes);

    for (int i = 0; i < count; ++i)
        all += comes_back(shape, i) ? bytes[i] : 0;
    return all;
}

enum verdict { DONE, FAULTED, REFUSED };

struct footprint { // the largest values of all launches; for occupancy the least
    int registers, threads;
    uint64_t ctas;     // CTAs of one launch
    uint64_t all_ctas; // CTAs of all launches together
    // Bytes of shared memory of a CTA, static and dynamic; bytes of local memory of a thread,
    // without the stack frame for printf.
    uint64_t shared_bytes, local_bytes;
    double occupancy; // of an SM of JUDGED_GPU, as a share, 0 to 1
    double waves;     // CTAs of a launch, divided by those that JUDGED_GPU holds at a time
};

// What the logged executions work on. Several sets of inputs tell, for the first set, how much work
// is on operands that change with which tensor. The index has a bit for each other set in which an
// operand changes: bit 0 for the second set, which has another V, bit 1 for the third, which has
// another K, bit 2 for the fourth, which has another Q. [0] is work with an operand that never
// changes, so it does not depend on inputs.
enum { CHANGES_V = 1, CHANGES_K = 2, CHANGES = 1 << 3 };
struct worked_on {
    double work[CHANGES];
    double executions;
    // How many different values atomic operations find at the addresses where many CTAs have some,
    // added up over these addresses, as a share of all atomic operations.
    double orders;
    // For each kind of progress (enum progress): bytes of copies that a CTA had under way, on average
    // over its progress. Only bytes that were read later count, without the tenth that was under
    // way longest.
    double overlap[PROGRESSES];
    double meets; // signals of a launch that are meetings (struct ablation)
    // How many of the sectors that warps load from global memory before their first product are
    // loaded at once (struct ablation), on average over these sectors.
    double at_once;
    // The share of the sectors loaded from global memory that warps without products load.
    double apart;
    double spread; // sectors of K and V that are loaded, each counted once, divided by those that
                   // the busiest CTA loads
};

struct noticed {
    int draws;
    int noticed; // draws that changed an output, or whose launch did not end
    // Of copies: under_way (struct execution), summed over all draws, and over the noticed ones.
    double under_way[PROGRESSES], noticed_under_way[PROGRESSES];
    bool repeats; // whether the launch, repeated without spoiling, gave the same outputs
};

struct reply {
    uint64_t bytes; // bytes that follow: the answers for all sets, or a film
    enum verdict verdict;
    enum fault_kind fault;
    char text[1024];           // one line about the fault, or about why the launch was refused
    int races;                 // reports of races, which do not change the verdict
    char race[1024];           // the first race
    bool raced_out;            // whether the launch was stopped after too many races
    char printed[PRINTED_MAX]; // the beginning of what kernels printed, unchanged
    uint32_t printed_bytes;
    bool printed_more;
    struct counts counts;
    struct worked_on worked_on; // with run_request.ablated
    struct noticed noticed;     // with run_request.ablated: the spoiled launches of the first set
    struct footprint footprint;
    // VERB_TIME: the mean over the sets, after the warm-up, by events of the GPU.
    double microseconds;
    double wall_microseconds; // the mean over all sets, by the host's clock
};

// spoil.c: computes struct worked_on from the log of several sets of inputs; ends: where in the log
// each set ends. *changes: for each execution of the first set, the other sets in which its first
// operand changes, as bits; for the caller to free.
struct worked_on worked_on_of(const struct ablation *noted, const size_t ends[], int sets,
                              uint8_t **changes);
struct spoiling {
    const struct experiment *experiment;
    const struct execution *log; // executions of an unspoiled launch
    size_t count;
    const size_t *drawn_of; // indices of the executions to draw from; NULL: all of them
    uint64_t ctas;
    const uint64_t *writers; // for each output, 1 + the CTA that stored it
    const uint16_t *out;     // outputs of the unspoiled launch
    size_t outputs;
    // Repeats the launches with these executions spoiled; returns the outputs, or NULL if they did
    // not end.
    const uint16_t *(*launch)(void *of, const struct ablation *spoils);
    void *of;
};
struct noticed spoil_all(const struct spoiling *s);
// Spoils executions whose operand changes with V only, and others whose operand changes with K
// only. Returns the one of both results with the smaller noticed share, or the one that had no
// executions to spoil.
struct noticed spoil_each(const struct spoiling *s, const uint8_t *changes);
// Spoils executions whose work is not 0 and whose operand changes with any input.
struct noticed spoil_working(const struct spoiling *s, const uint8_t *changes);

// gpu.c: the same requests on a GPU, through the driver's API. False: `why` has one line.
bool gpu_open(char *why, size_t size);
bool gpu_load(const char *ptx, char *why, size_t size);
void gpu_run(const struct run_request *request, const char *inputs, struct reply *reply, char *out);

#endif
