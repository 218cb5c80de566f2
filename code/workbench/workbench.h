// workbench.h: what every chapter's program links.
//
// A chapter supplies a kernel and a launch function; workbench_main() does the rest: options,
// inputs, reference, gates, timing, resources and the run record. The half that needs no GPU (E4M3,
// inputs, reference, gates, statistics) is usable on its own; chapter 1 and the lab driver use it
// so.
//
// Conventions: tensors are [batch][heads][seq_len][D], row-major, where D is the shape's head
// dimension, HEAD_DIM if it names no other. Times are in microseconds unless a name says otherwise.
// Functions that can fail return false and, where they take `why` and its `size`, leave one line
// there that says what was wrong.
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HEAD_DIM = 64, HEAD_DIM_MOST = 128 };

// ---- Shapes -------------------------------------------------------------------------------------

struct shape {        // what kernels read keeps its place: they get this struct as an argument
    char name[24];    // "mission", or made from the fields: "2x8x517"; "2x8x517r3": ragged;
                      // "2x8x517q4p16": a cache; "2x8x517q4p16s32": a prompt; "2x8x517d128"
    uint16_t ragged;  // seed of the lengths of a ragged batch; 0: all sequences are seq_len long
    uint16_t page;    // a cache's tokens per page; else 0
    uint16_t newest;  // a prompt's number of newest tokens that ask; else 0
    uint8_t group;    // a cache's query heads for each head of keys; else 0
    uint8_t head_dim; // 128; 0: HEAD_DIM
    int batch;
    int heads; // of keys, and of queries unless `group` multiplies them
    int seq_len;
};

// Parses one shape: small (1x8x128), mission (2x8x512), long (2x8x2048), huge (4x16x8192), or
// BxHxS with each factor from 1 up; BxHxSrN is a ragged batch, with the seed N from 1 up. BxHxSqQpP,
// or BxHxSqQpPrN, is a cache of S tokens a sequence, in pages of P (16, 32, 64, 128 or 256), asked by
// one query of each of Q heads (1 to 16) for each of the H heads of keys. BxHxSqQpPsN is a prompt: the N
// newest tokens of each sequence ask, with Q heads each; in a ragged batch, 1 to N of them. d128 after any
// of these but before r: heads have 128 elements. False when malformed, when a factor is 0, when a tensor
// would exceed 2^31 elements, or the name 23 characters; `why` (size bytes) then holds one line saying
// what would be right.
bool shape_parse(const char *text, struct shape *shape, char *why, size_t size);

// Elements of a head's row: HEAD_DIM or 128.
int shape_head_dim(const struct shape *shape);

// 1 / sqrt(D), rounded to float.
static inline float shape_softmax_scale(const struct shape *shape)
{
    return shape->head_dim == 128 ? 0.0883883461f : 0.125f;
}

// Elements of K and of V: batch * heads * seq_len * D.
size_t shape_elements(const struct shape *shape);

// Q and O are [batch][shape_query_heads()][shape_rows()][D], shape_outputs() elements. In a prompt
// each query head has a row for each of the newest tokens. If a cache is asked by one query, the
// rows of a head of keys are its group's query heads. All other shapes have
// [batch][heads][seq_len][D].
int shape_query_heads(const struct shape *shape);
int shape_rows(const struct shape *shape);
size_t shape_outputs(const struct shape *shape);

// The length of a batch's sequence: seq_len, or in a ragged batch drawn from 1 to seq_len. Past it
// Q, K and V hold numbers that nobody asks for, and nobody looks at the output. A cache's length
// counts the newest token, too.
int shape_length(const struct shape *shape, int batch);

// How many of a sequence's shape_rows() are asked for: its length; in a cache all; in a ragged
// prompt a number drawn from 1 to `newest`, but no more than the length.
int shape_rows_asked(const struct shape *shape, int batch);

// How many of a sequence's newest tokens a launch puts into its cache: one, or those that ask.
int shape_newest(const struct shape *shape, int batch);

// Which keys a query sees: all of its sequence, or with a causal mask none after its own place.
enum mask { MASK_NONE, MASK_CAUSAL };

// How many keys the query at place `row` sees in a sequence of this length.
static inline int keys_seen(enum mask mask, int length, int row)
{
    return mask == MASK_CAUSAL && row < length ? row + 1 : length;
}

// The place of row 0 in its sequence: a prompt's queries are the last tokens. 0 for other shapes.
int shape_first_place(const struct shape *shape, int batch);

// Floating-point operations of both products, 4 * D for each key that a query sees (a multiply
// and an add each); the softmax is not counted, as is usual for attention. shape_flops without a mask:
// 4 * B * H * S * S * D where all sequences are S long.
double shape_flops(const struct shape *shape);
double masked_flops(const struct shape *shape, enum mask mask);

// Bytes that the tokens of a cache take: codes of K and V, and a scale for each.
double shape_cache_bytes(const struct shape *shape);

// ---- E4M3 (OCP 8-bit floating point, OFP8 specification, 2023) ----------------------------------

#define E4M3_MAX 448.0f

// Nearest E4M3 code, ties to even mantissa; magnitudes past 448 saturate to 448 (infinities too);
// NaN of either sign gives 0x7f. This is cvt.rn.satfinite.e4m3x2.f32 of the PTX manual.
uint8_t e4m3_from_float(float value);

// Value of a code; exact. 0x7f and 0xff are NaN.
float e4m3_to_float(uint8_t code);

// E8M0 (OCP Microscaling Formats, 2023) is the exponent of a float: 2^(code - 127). Returns the
// code of the smallest power of two with which `largest` becomes at most E4M3_MAX, but no less than
// 2^-32's, which the smallest half needs: so scales of 0 to 65504 are within 2^41 of each other.
uint8_t e8m0_for(float largest);
float e8m0_to_float(uint8_t code); // for codes 1 to 254

// ---- Inputs -------------------------------------------------------------------------------------

enum input_kind {
    INPUT_NORMAL, // N(0, 1): outputs shrink like 1/sqrt(S)
    INPUT_MEAN,   // N(0, 1) plus a mean per tensor and channel: a mistake in 1/l shows
    INPUT_PEAKY,  // Q times 8: a few keys carry each row; a mistake in the running max shows. In a
                  // cache V's tokens are of different sizes, too: times 2^-6 to 2^6
    INPUT_KINDS,  // each program is checked on those above; the others are asked for by name
    // A time may depend on where along the keys the large scores are. Here a key's place adds to its
    // score, in powers of two (of exp's argument over ln 2), before K is rounded to E4M3:
    INPUT_SINK = INPUT_KINDS, // 12 for key 0, as in language models
    INPUT_RISING,  // from 0 for key 0, linearly, to 40 for the last: each tile has a new maximum
    INPUT_FALLING, // from 40 for key 0, linearly, to 0 for the last: the first tile has the maximum
    INPUT_KINDS_DRAWN,
    INPUT_MODEL = INPUT_KINDS_DRAWN, // a language model's own, from a file; the seed is the layer
    INPUT_KINDS_ALL
};

const char *input_kind_name(enum input_kind kind); // "normal", "mean", "peaky", "sink" …

// Layer 7 of a model is FOLDER/7.half (build/ask --tensors writes it): a line "tensors 9 3 2000 64", of query heads,
// heads of K and V, tokens and columns, then halves: Q [heads][tokens][columns], and so K and V. Query heads in
// order share a head of K and V.
extern const char *tensors_folder; // NULL: none was named
// Whether the layer is there and has the heads of a shape without a cache, and its tokens; else one line in `why`.
bool tensors_fit(const struct shape *shape, uint64_t layer, char *why, size_t size);

enum cache_tensor { CACHE_K, CACHE_V };

// One attention problem on the host. All three tensors are kept twice: as drawn (float) and as the
// kernel gets them (E4M3 codes with one scale a head, the same for every batch). In a cache each
// token's K and V have a scale of their own, a power of two, and Q is given in half, without codes.
// A prompt's Q has codes, too, with a power of two for each row; the halves that are given are
// their values.
struct problem {
    struct shape shape;
    enum input_kind kind;
    uint64_t seed;
    float softmax_scale; // 1 / sqrt(D)
    enum mask mask;      // MASK_NONE, unless it is set afterwards
    float *q, *k, *v;    // [B][H][S][D], as drawn; a cache's q: as shape_outputs() says
    uint8_t *q_codes, *k_codes, *v_codes;  // as q, k, v; value = code * scale
    float *q_scales, *k_scales, *v_scales; // [H]; max |x| of the head / 448; a cache's: one a row
};

// Draws and quantises a problem; the same shape, kind and seed give the same bytes on every
// machine (inputs.c says how). False (and nothing allocated) when memory runs out.
bool problem_create(struct problem *problem, const struct shape *shape, enum input_kind kind,
                    uint64_t seed);
void problem_destroy(struct problem *problem);

// ---- A cache ------------------------------------------------------------------------------------

// A problem's cache as it lies in memory. Token t of sequence b is in page table[b][t / page], in
// slot t % page. For each head a page has 2 * page * D codes, of K and V, and apart from them 2 *
// page scales. The program says where among these an element or a scale lies:
typedef int code_place_fn(enum cache_tensor tensor, int slot, int d);
typedef int scale_place_fn(enum cache_tensor tensor, int slot);
struct cache_image {
    int max_pages; // of a sequence's row in the table
    int *table;    // [B][max_pages], in a drawn order; -1 past a sequence's end
    size_t bytes;  // codes [pages][H][2 * page * D], then scales [pages][H][2 * page]
    size_t code_bytes;
    uint8_t *before; // without the newest token of each sequence, or without those that ask
    uint8_t *then;   // with them; slots without a token are NaN in `before` and `then`
};

// False (and nothing allocated) when memory runs out.
bool cache_image_create(struct cache_image *image, const struct problem *problem,
                        code_place_fn *code_place, scale_place_fn *scale_place);
void cache_image_destroy(struct cache_image *image);

// ---- Reference ----------------------------------------------------------------------------------

// Which query rows of each (batch, head) a reference covers: `first`, every `stride`-th after it,
// and always the last one. {0, 1} is all of them.
struct rows {
    int first;
    int stride;
};

// The covered row after `row`, or seq_len when there is none:
// for (int row = rows.first; row < seq_len; row = rows_next(rows, seq_len, row))
static inline int rows_next(struct rows rows, int seq_len, int row)
{
    int next = row + rows.stride;
    return next < seq_len ? next : row < seq_len - 1 ? seq_len - 1 : seq_len;
}

// The rows that the gates check for a shape: all where S <= 2048, else about 64 a head, an odd
// stride apart so that they fall on every row of a tile; first and last tile included.
struct rows reference_rows(const struct shape *shape);

// Attention in double precision on the dequantised inputs: softmax(q k^T * softmax_scale) v. A
// kernel is judged by this, since only the kernel's own error remains. out: as Q, float; rows that
// are not covered, or past a sequence's length, are left alone. threads 0: one a core. The bits are
// the same on every machine and for any number of threads. False when memory runs out.
bool reference_dequantised(const struct problem *problem, struct rows rows, int threads,
                           float *out);

// Attention in double precision on the tensors as drawn, rounded to half, with the result rounded
// to half: what a careful FP16 attention of the unquantised inputs computes. This is the sources'
// yardstick; it shows the quantisation's error beside the kernel's.
bool reference_fp16(const struct problem *problem, struct rows rows, int threads, float *out);

// How a kernel rounds P, the numerators of its softmax, before its second product. Rounding to half
// costs too little to matter; E4M3 has 4 significant bits, and its rounding makes most of the
// error.
enum p_format { P_NOT_TOLD, P_E4M3 };
struct p_rounding {
    enum p_format format;
    int offset;       // P is 2^offset exp(score - maximum) when it is rounded; 448 is the largest
    bool sum_rounded; // row_sum adds up P after its rounding; else before
    // Which maximum the kernel subtracts: if tile is 0, the row's own. Else the maximum of the
    // first `tile` keys, replaced by a later tile's when that is more than 2^lag times higher.
    int tile; // a multiple of 8
    double lag;
    // In a tile that is not the last, the maximum is at least 2^offset times the geometric mean of
    // the tile's weights, so that P is at most 1 where a score is the tile's mean. With room: in the
    // first tile only.
    bool mean;
    // A tile that raises the maximum leaves `room` powers of two before the next rise; but P of the
    // first tile's mean stays at 2^kept or more, unless it is below 2^lost already. While that P is
    // above 2^-7, the smallest in the kernel, a score of more than 2^heavy times its tile's mean
    // raises the maximum to itself. room = 0: every rise does.
    double room, kept, lost, heavy;
};

// reference_dequantised with one change: P is rounded to E4M3 (nearest even, past 448 to 448) as
// `p` says. Such an output has a kernel in which nothing else is rounded. P_NOT_TOLD: no change.
bool reference_rounded_p(const struct problem *problem, struct rows rows, int threads,
                         struct p_rounding p, float *out);

// ---- Gates --------------------------------------------------------------------------------------

struct error_metrics {
    double rel_head;    // worst (b, h): ||out - ref|| / ||ref|| over its covered rows
    double rel_row;     // worst covered row: ||out - ref|| / ||ref||
    double max_abs;     // max |out - ref|
    double mean_abs;    // mean |out - ref|
    double bad_percent; // elements with |out - ref| > 0.02 + 0.02 |ref|, in percent
    size_t not_finite;  // elements of out, covered or not, that are NaN or infinite; if there is
                        // one, each metric above is NaN. Rows past a length are not looked at
};

// Compares the covered rows of out (half bit patterns, as shape_outputs() says) with ref (float).
struct error_metrics error_measure(const struct shape *shape, struct rows rows, const uint16_t *out,
                                   const float *ref);

// The gate that decides: relative error against the dequantised reference. Written so that NaN
// fails. tolerance bounds rel_head; rel_row may be 4 times as large. gates.c derives the default.
#define GATE_TOLERANCE 2e-3
#define GATE_ROW_FACTOR 4.0
bool gate_relative(const struct error_metrics *metrics, double tolerance);

// The gate for a kernel that rounds P to E4M3: GATE_ROUNDED_FACTOR times the error of
// reference_rounded_p with its output rounded to half, where that is more than the tolerance
// allows. gates.c says why the factor is 2, and why there is an upper limit.
#define GATE_ROUNDED_FACTOR 2.0
#define GATE_ROUNDED_MOST 0.1
struct error_limits {
    double head, row; // bound rel_head and rel_row
};
struct error_limits gate_limits(double tolerance); // the limits that gate_relative applies
struct error_limits gate_rounded_limits(double tolerance, const struct error_metrics *rounded);
bool gate_within(const struct error_metrics *metrics, struct error_limits limits);

// The limits for one problem; uses reference_rounded_p if `p` asks for it. `ref` is the dequantised
// reference; *rounded gets the error by P's rounding alone (zeros if `p` does not tell). False when
// memory runs out.
bool gate_limits_of(const struct problem *problem, struct rows rows, int threads,
                    struct p_rounding p, double tolerance, const float *ref,
                    struct error_metrics *rounded, struct error_limits *limits);

// The sources' gate against the FP16 reference: max <= 0.06, mean <= 0.02, bad <= 1 %. Shown
// beside the first, decides nothing (chapter 1 says why).
bool gate_sources(const struct error_metrics *metrics);

float half_to_float(uint16_t half);
uint16_t half_from_float(float value); // nearest even; overflows to infinity

// ---- Statistics ---------------------------------------------------------------------------------

struct summary {
    int samples;
    double p50, p90, p99, mean, std, min, max;
};

// Percentiles by linear interpolation between order statistics; std with n - 1. Sorts `values`.
struct summary summarise(double *values, int count);

// Median of count ratios with a distribution-free 95 % interval from order statistics (binomial).
// With fewer than 6 values no such interval exists: low = -inf, high = +inf. Sorts `values`.
struct interval {
    double median, low, high;
};
struct interval median_interval(double *values, int count);

// ---- Files --------------------------------------------------------------------------------------

// Writes a whole file or nothing: to a temporary name beside it, then renamed. False with one line
// in `why` when that fails, with nothing left behind.
bool file_write(const char *path, const void *bytes, size_t count, char *why, size_t size);

// Whether file_write() would work, without leaving anything: to be asked before the long work.
bool file_writable(const char *path, char *why, size_t size);

// ---- Chapter programs ---------------------------------------------------------------------------

// What this executable was built from, for its run record: strings on the compiler's command line.
#ifndef SOURCE_HASH
#define SOURCE_HASH "unknown"
#endif
#ifndef BUILD_FLAGS
#define BUILD_FLAGS "unknown"
#endif
#ifndef GIT_COMMIT
#define GIT_COMMIT "unknown"
#endif
#define PROGRAM_BUILD                                                                              \
    .source_hash = SOURCE_HASH, .build_flags = BUILD_FLAGS, .git_commit = GIT_COMMIT

#ifdef __CUDACC__
#include "debug.h" // DEBUG_PRINT
#endif

#if defined(__CUDACC__) || defined(__DRIVER_TYPES_H__)
// What a launch function gets. Device pointers; q, k, v are E4M3 codes.
struct attention_args {
    const uint8_t *q, *k, *v;                    // [B][H][S][HEAD_DIM]
    const float *q_scales, *k_scales, *v_scales; // [H]
    void *out;                                   // [B][H][S][HEAD_DIM] half
    struct shape shape;
    float softmax_scale;
};

// What the launch function of a program that asks a cache gets. Device pointers. Sequence b has
// lengths[b] tokens, and all but the last are in the cache (struct cache_image says how); the
// kernel puts that one there, and attends to it, too. Slots without a token may hold anything.
struct cache_args {
    const void *q;             // [B][H][queries][HEAD_DIM] half
    const void *new_k, *new_v; // [B][H][HEAD_DIM] half: of the newest token
    uint8_t *codes;            // [pages][H][2 * page * HEAD_DIM] E4M3, each where code_place() says
    uint8_t *scales;           // [pages][H][2 * page] E8M0, where scale_place() says
    const int *table;          // [B][max_pages]; -1 past a sequence's end
    const int *lengths;        // [B]
    void *out;                 // [B][H][queries][HEAD_DIM] half
    void *scratch;             // scratch_bytes() of the program, or NULL where that is 0
    struct shape shape;
    int queries, page, max_pages;
    float softmax_scale;
};

// The arguments of --launch-only. Each pointer is a recognisable value that is never followed.
static inline struct attention_args launch_only_args(const struct shape *shape)
{
    struct attention_args args;
    uint64_t at[7];

    for (int i = 0; i < 7; ++i)
        at[i] = 0x5e0000000000 + ((uint64_t)i << 32);
    memset(&args, 0, sizeof args); // also sets padding and the name's rest: the bytes are compared
    memcpy(&args, at, sizeof at);
    memcpy(&args.shape, shape, sizeof args.shape);
    args.softmax_scale = shape_softmax_scale(shape);
    return args;
}

static inline struct cache_args launch_only_cache_args(const struct shape *shape)
{
    struct cache_args args;
    uint64_t at[9];
    int page = shape->page;

    for (int i = 0; i < 9; ++i)
        at[i] = 0x5e0000000000 + ((uint64_t)i << 32);
    memset(&args, 0, sizeof args);
    memcpy(&args, at, sizeof at);
    memcpy(&args.shape, shape, sizeof args.shape);
    args.queries = shape->group;
    args.page = page;
    args.max_pages = (shape->seq_len + page - 1) / page;
    args.softmax_scale = shape_softmax_scale(shape);
    return args;
}

// What the launch function of a program that asks a cache with a prompt gets. The newest asked[b]
// tokens of sequence b ask, each with `queries` heads for each of the H heads of keys, and each
// sees the tokens before it and itself. The kernel puts them into the cache, which has all other
// tokens. `cache` is as above with its shape's head dimension D, but q and out are [B][H *
// queries][newest][D], and new_k and new_v [B][H][newest][D]; rows from asked[b] on may hold
// anything.
struct prompt_args {
    struct cache_args cache;
    const int *asked; // [B]: 1 to newest
    int newest;
};

static inline struct prompt_args launch_only_prompt_args(const struct shape *shape)
{
    struct prompt_args args;
    uint64_t at = 0x5e0900000000;

    memset(&args, 0, sizeof args);
    args.cache = launch_only_cache_args(shape);
    memcpy(&args.asked, &at, sizeof at);
    args.newest = shape->newest;
    return args;
}

struct program {
    const char *name;  // "ch03_wmma_qk", the tangled file's name without its ending
    const char *title; // one line, for the reports
    int chapter;
    const void *kernel; // the kernel, for its resources
    int threads;        // a CTA's threads
    size_t dynamic_shared_bytes;
    double tolerance;          // for gate_relative; 0 means GATE_TOLERANCE
    struct p_rounding p;       // how P is rounded; all zero: to half, or not at all
    double tensor_flops_share; // share of shape_flops that runs on tensor cores: 0, 0.5 or 1
    enum mask mask;            // the mask that it applies
    // Enqueues the kernel on the stream; returns what cudaGetLastError() or its own checks say.
    // Must be capturable into a graph: no synchronisation, no allocation. NULL: the program asks a
    // cache.
    cudaError_t (*launch)(const struct attention_args *args, cudaStream_t stream);
    // The launch function for a ragged batch; lengths: [B], on the device. NULL: the program takes
    // no ragged batch.
    cudaError_t (*launch_ragged)(const struct attention_args *args, const int *lengths,
                                 cudaStream_t stream);
    // The launch function for a cache, and the places of the cache's elements; or NULL.
    cudaError_t (*launch_cache)(const struct cache_args *args, cudaStream_t stream);
    // The launch function for a prompt; or NULL. A program without it takes a prompt of one token
    // as a cache asked by one query.
    cudaError_t (*launch_prompt)(const struct prompt_args *args, cudaStream_t stream);
    bool heads_of_128; // whether it takes heads of 128, too
    code_place_fn *code_place;
    code_place_fn *code_place_128; // the places in a cache with heads of 128
    scale_place_fn *scale_place;
    // How many bytes of `scratch` such a launch needs (pointers are not looked at); NULL: none.
    // They are zeros before the first launch; each launch leaves them ready for the next, of any
    // shape with as many bytes or fewer. Launches of one stream follow each other and can share
    // them; launches that may run at the same time need their own.
    size_t (*scratch_bytes)(const struct cache_args *args);
    const char *source_hash, *build_flags, *git_commit; // PROGRAM_BUILD sets these, last
};

// The main function of a chapter's program; see --help. Exit status: 0 all gates passed, 1 a gate
// failed, 2 bad usage, 3 the machine failed us (no memory, a CUDA error, an unwritable file).
int workbench_main(const struct program *program, int argc, char **argv);

// Checks a CUDA call in a chapter's own host code: prints the call, file and line (of the
// chapter, through #line), the error's name and its text, and exits with 3.
#define CUDA_CHECK(call) workbench_cuda_check((call), #call, __FILE__, __LINE__)
void workbench_cuda_check(cudaError_t error, const char *call, const char *file, int line);

// Prints one line saying which assumption failed (value and limit included, printf-style) and
// returns `error`, for launch functions: return launch_refused(cudaErrorInvalidValue, "...", n).
cudaError_t launch_refused(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif

#ifdef __cplusplus
}
#endif
#endif
