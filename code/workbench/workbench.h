// workbench.h: the library that every chapter's program uses. A chapter supplies a kernel and a launch function;
// workbench_main() does the rest: options, inputs, reference, gates, timing, resources and the run record. The half
// that needs no GPU (E4M3, inputs, reference, gates, statistics) can be used alone, as chapter 1 and the lab driver do.
//
// Conventions: tensors are [batch][heads][seq_len][D], row-major, where D is the shape's head dimension: HEAD_DIM,
// unless the shape says otherwise. Times are in microseconds unless a name says otherwise. Functions that can fail
// return false and, if they take `why` and its `size`, write one line there that says what was wrong.
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

struct shape {        // kernels get this struct as an argument, so fields that they read must keep
                      // their offsets
    char name[24];    // "mission", or made from the fields: "2x8x517"; "2x8x517r3": ragged;
                      // "2x8x517q4p16": a cache; "2x8x517q4p16s32": a prompt; …d128: D = 128
    uint16_t ragged;  // seed for the lengths of a ragged batch; 0: all sequences have seq_len
                      // tokens
    uint16_t page;    // tokens in a page of a cache; 0: no cache
    uint16_t newest;  // in a prompt, how many of a sequence's newest tokens are queries, at most;
                      // 0: no prompt
    uint8_t group;    // in a cache, query heads for each head of keys; 0: no cache
    uint8_t head_dim; // 128; 0: HEAD_DIM
    int batch;
    int heads; // heads of keys; of queries, too, unless `group` multiplies them
    int seq_len;
};

// Parses one shape: small (1x8x128), mission (2x8x512), long (2x8x2048), huge (4x16x8192), or
// BxHxS with each factor from 1 up; BxHxSrN is a ragged batch, with the seed N from 1 up. BxHxSqQpP,
// or BxHxSqQpPrN, is a cache of S tokens a sequence, in pages of P (16, 32, 64, 128 or 256); each sequence
// has one query token, with Q query heads (1 to 16) for each of the H heads of keys. BxHxSqQpPsN is a
// prompt: the N newest tokens of each sequence are query tokens, with Q heads each; in a ragged batch, 1
// to N of them. d128 after any of these, before r if it is there: heads have 128 elements. False when
// malformed, when a factor is 0, when a tensor would exceed 2^31 elements, or when the name would exceed
// 23 characters; `why` (size bytes) then says in one line what is wrong or what is allowed.
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
// each query head has a row for each query token. In a cache without a prompt, the rows of a head of
// keys are its group's query heads. All other shapes have [batch][heads][seq_len][D].
int shape_query_heads(const struct shape *shape);
int shape_rows(const struct shape *shape);
size_t shape_outputs(const struct shape *shape);

// The length of a sequence: seq_len; in a ragged batch a number drawn from 1 to seq_len. After its end, Q, K and V
// contain numbers that a kernel must not use, and the output is not checked. A cache's length includes the newest
// token.
int shape_length(const struct shape *shape, int batch);

// How many of a sequence's shape_rows() a launch has to compute: the sequence's length; in a cache
// all; in a ragged prompt a number drawn from 1 to `newest`, but no more than the length.
int shape_rows_asked(const struct shape *shape, int batch);

// How many of a sequence's newest tokens a launch stores in its cache: one or, in a prompt, all query tokens.
int shape_newest(const struct shape *shape, int batch);

// Which keys a query sees: all of its sequence; with a causal mask, none after its own position.
enum mask { MASK_NONE, MASK_CAUSAL };

// How many keys the query at position `row` sees in a sequence of this length.
static inline int keys_seen(enum mask mask, int length, int row)
{
    return mask == MASK_CAUSAL && row < length ? row + 1 : length;
}

// The position of row 0 in its sequence: a prompt's queries are the last tokens. 0 for other shapes.
int shape_first_place(const struct shape *shape, int batch);

// Floating-point operations of both products: 4 * D for each key that a query sees, since each product has a
// multiplication and an addition. As usual for attention, the softmax does not count. shape_flops: without a mask, 4 *
// B * H * S * S * D if all sequences have S tokens.
double shape_flops(const struct shape *shape);
double masked_flops(const struct shape *shape, enum mask mask);

// Bytes of a cache's tokens: for each token and head of keys, the codes of K and V and their two scales.
double shape_cache_bytes(const struct shape *shape);

// ---- E4M3 (OCP 8-bit floating point, OFP8 specification, 2023) ----------------------------------

#define E4M3_MAX 448.0f

// Nearest E4M3 code, ties to even mantissa; magnitudes past 448 saturate to 448 (infinities too);
// NaN of either sign gives 0x7f. This is cvt.rn.satfinite.e4m3x2.f32 of the PTX manual.
uint8_t e4m3_from_float(float value);

// Value of a code; exact. 0x7f and 0xff are NaN.
float e4m3_to_float(uint8_t code);

// E8M0 (OCP Microscaling Formats, 2023) is the exponent of a float: 2^(code - 127). Returns the
// code of the smallest power of two by which `largest` can be divided to become at most E4M3_MAX.
// The least power is 2^-32, which the smallest half needs: so all codes for `largest` from 0 to
// 65504 lie within 40 of each other.
uint8_t e8m0_for(float largest);
float e8m0_to_float(uint8_t code); // for codes 1 to 254

// ---- Inputs -------------------------------------------------------------------------------------

enum input_kind {
    INPUT_NORMAL, // N(0, 1): outputs shrink like 1/sqrt(S)
    INPUT_MEAN,   // N(0, 1) plus a mean per tensor and channel: a mistake in 1/row_sum shows
    INPUT_PEAKY,  // Q times 8: a few keys have most of each row's weight; a mistake in the running
                  // max shows. In a cache, V's tokens are also multiplied by 2^-6 to 2^6
    INPUT_KINDS,  // each program is checked on the kinds above; the others are asked for by name
    // A time may depend on where the large scores are among the keys. In these kinds a key's position adds to its
    // score, as an exponent of 2 (exp's argument divided by ln 2), before K is rounded to E4M3:
    INPUT_SINK = INPUT_KINDS, // 12 for key 0, as in language models
    INPUT_RISING,  // from 0 for key 0, linearly, to 40 for the last: each tile has a new maximum
    INPUT_FALLING, // from 40 for key 0, linearly, to 0 for the last: the first tile has the maximum
    INPUT_KINDS_DRAWN, // labs and the scoreboard take the kinds above
    // Each query is a copy of one key, drawn for it (needle_place()), and V has a mean per channel.
    INPUT_NEEDLE = INPUT_KINDS_DRAWN,
    // Q, K and V of a language model, read from a file; the seed is the number of the layer.
    INPUT_MODEL,
    INPUT_KINDS_ALL
};

const char *input_kind_name(enum input_kind kind); // "normal", "mean", "peaky", "sink" …

// Layer 7 of a model is in the file FOLDER/7.half (build/ask --tensors writes it). The first line, "tensors 9 3 2000
// 64", gives query heads, heads of K and V, tokens and columns; then come Q [heads][tokens][columns], K and V, as
// halves. Consecutive query heads share a head of K and V.
extern const char *tensors_folder; // NULL: not given
// Whether the layer exists, and has the heads and tokens of a shape without a cache; if not, `why` has one line.
bool tensors_fit(const struct shape *shape, uint64_t layer, char *why, size_t size);

enum cache_tensor { CACHE_K, CACHE_V };

// One attention problem on the host. All three tensors are kept twice: as drawn (floats), and as the kernel gets them
// (E4M3 codes with one scale for each head, the same in every batch). In a cache, K and V have a scale for each token,
// a power of two, and Q is given in half, without codes. In a prompt, Q has codes, too, with a power of two as a scale
// for each row; the halves that the kernel gets are the values of these codes.
struct problem {
    struct shape shape;
    enum input_kind kind;
    uint64_t seed;
    float softmax_scale; // 1 / sqrt(D)
    enum mask mask;      // MASK_NONE; the caller may change it
    float *q, *k, *v;    // [B][H][S][D], as drawn; q of a cache: as shape_outputs() says
    uint8_t *q_codes, *k_codes, *v_codes;  // laid out like q, k, v; value = code * scale
    float *q_scales, *k_scales, *v_scales; // [H]: the head's max |x| / 448; in a cache, one for
                                           // each row
};

// Draws and quantises a problem. The same shape, kind and seed give the same bytes on every machine (inputs.c says
// how). False, and nothing allocated: memory ran out, or a model's layer could not be read.
bool problem_create(struct problem *problem, const struct shape *shape, enum input_kind kind,
                    uint64_t seed);
void problem_destroy(struct problem *problem);

// In a problem of kind INPUT_NEEDLE, the position of the key that a query copies. It is drawn from all positions of the
// sequence; in a prompt, from those up to the first query token's. row: of Q, counted over all batches and heads.
int needle_place(const struct problem *problem, size_t row);

// ---- A cache ------------------------------------------------------------------------------------

// A problem's cache in memory. Token t of sequence b is in page table[b][t / page], in slot t % page. For each head, a
// page has 2 * page * D codes of K and V, and elsewhere 2 * page scales. The program says where among these an element,
// or a scale, is:
typedef int code_place_fn(enum cache_tensor tensor, int slot, int d);
typedef int scale_place_fn(enum cache_tensor tensor, int slot);
struct cache_image {
    int max_pages; // columns of the table
    int *table;    // [B][max_pages]: pages in a drawn order; -1 after a sequence's end
    size_t bytes;  // codes [pages][H][2 * page * D], then scales [pages][H][2 * page]
    size_t code_bytes;
    uint8_t *before; // the cache without each sequence's newest token or, in a prompt, query tokens
    uint8_t *then;   // the cache with these tokens. In both, slots without a token are NaN
};

// False, and nothing allocated: memory ran out.
bool cache_image_create(struct cache_image *image, const struct problem *problem,
                        code_place_fn *code_place, scale_place_fn *scale_place);
void cache_image_destroy(struct cache_image *image);

// ---- Reference ----------------------------------------------------------------------------------

// The query rows of each (batch, head) that a reference covers: `first`, every `stride`-th after it, and always the
// last one. {0, 1}: all rows.
struct rows {
    int first;
    int stride;
};

// The covered row after `row`, or seq_len if there is none. It is used so:
// for (int row = rows.first; row < seq_len; row = rows_next(rows, seq_len, row))
static inline int rows_next(struct rows rows, int seq_len, int row)
{
    int next = row + rows.stride;
    return next < seq_len ? next : row < seq_len - 1 ? seq_len - 1 : seq_len;
}

// The rows that the gates check for a shape: all of them if a head has at most 2048; otherwise about 64 in each head,
// an odd number of rows apart, so that every position within a tile occurs; the first and last tile are included.
struct rows reference_rows(const struct shape *shape);

// Attention in double precision on the dequantised inputs: softmax(q k^T * softmax_scale) v. Kernels are judged by it,
// since it leaves only the kernel's own error. out: floats, laid out like Q; rows that are not covered, or past a
// sequence's length, are not written. threads 0: one for each core. The bits are the same on every machine and for any
// number of threads. False: memory ran out.
bool reference_dequantised(const struct problem *problem, struct rows rows, int threads,
                           float *out);

// Attention in double precision on the tensors as drawn, rounded to half, with the result rounded to half: what a
// careful FP16 attention of the unquantised inputs computes. A comparison with it shows the error of the quantisation,
// too; the sources (the project that the book retells, chapter 1) compare with it.
bool reference_fp16(const struct problem *problem, struct rows rows, int threads, float *out);

// How a kernel rounds P, the numerators of its softmax, before its second product. Rounding to half costs too little to
// matter. E4M3 has 4 significant bits, and rounding to it makes most of the error.
enum p_format { P_NOT_TOLD, P_E4M3 };
struct p_rounding {
    enum p_format format;
    int offset;       // P is rounded as 2^offset exp(score - maximum); E4M3 ends at 448
    bool sum_rounded; // whether row_sum adds P after its rounding, not before
    // The maximum that the kernel subtracts. tile = 0: the row's own. Otherwise that of the first `tile` keys, until a
    // later tile has a maximum with exp() more than 2^lag times as large. Then it rises: that maximum replaces it.
    int tile; // a multiple of 8
    double lag;
    // Whether a tile that is not the last sets the maximum to at least 2^offset times the geometric
    // mean of the tile's weights, so that P is at most 1 where a score is the tile's mean. With
    // room: only the first tile does.
    bool mean;
    // room = 0: a rise sets the maximum to the tile's own. Otherwise a rise makes the tile's highest P 2^room times
    // smaller than the P that causes the next rise, with two exceptions. If this would put P of the first tile's mean
    // below 2^kept, and that P is still above 2^lost, the maximum rises only until it is 2^kept, but at least until
    // the tile's highest P no longer causes a rise. And while P of the first tile's mean is above 2^-7, a tile whose
    // highest P is more than 2^heavy times the geometric mean of its P (P below 2^-7 count as 2^-7) sets the maximum to
    // its own.
    double room, kept, lost, heavy;
};

// Like reference_dequantised, but with P rounded to E4M3 (to nearest even; beyond 448 to 448) as `p` says: the output
// of a kernel that rounds nothing else. P_NOT_TOLD: no rounding.
bool reference_rounded_p(const struct problem *problem, struct rows rows, int threads,
                         struct p_rounding p, float *out);

// ---- Gates --------------------------------------------------------------------------------------

struct error_metrics {
    double rel_head;    // in the worst (b, h): ||out - ref|| / ||ref|| over its covered rows
    double rel_row;     // in the worst covered row: ||out - ref|| / ||ref||
    double max_abs;     // max |out - ref|
    double mean_abs;    // mean |out - ref|
    double bad_percent; // elements with |out - ref| > 0.02 + 0.02 |ref|, in percent
    size_t not_finite;  // elements of out, covered or not, that are NaN or infinite; if there is
                        // one, each metric above is NaN. Rows past a length are not looked at
};

// Compares the covered rows of out (half bit patterns, as shape_outputs() says) with ref (float).
struct error_metrics error_measure(const struct shape *shape, struct rows rows, const uint16_t *out,
                                   const float *ref);

// The gate that decides: relative error against the dequantised reference, written so that NaN fails. `tolerance`
// limits rel_head; rel_row may be 4 times as large. gates.c derives the default.
#define GATE_TOLERANCE 2e-3
#define GATE_ROW_FACTOR 4.0
bool gate_relative(const struct error_metrics *metrics, double tolerance);

// The limits for a kernel that rounds P to E4M3: GATE_ROUNDED_FACTOR times the errors of
// reference_rounded_p with its output rounded to half, but at least the limits for the tolerance,
// and at most those for the tolerance GATE_ROUNDED_MOST. gates.c says why the factor is 2, and why
// there is an upper limit.
#define GATE_ROUNDED_FACTOR 2.0
#define GATE_ROUNDED_MOST 0.1
struct error_limits {
    double head, row; // limits of rel_head and rel_row
};
struct error_limits gate_limits(double tolerance); // as gate_relative applies them
struct error_limits gate_rounded_limits(double tolerance, const struct error_metrics *rounded);
bool gate_within(const struct error_metrics *metrics, struct error_limits limits);

// The limits for one problem; calls reference_rounded_p if `p` requires it. ref: the dequantised reference; *rounded:
// the error of rounding P alone (zeros if `p` describes none). False: memory ran out.
bool gate_limits_of(const struct problem *problem, struct rows rows, int threads,
                    struct p_rounding p, double tolerance, const float *ref,
                    struct error_metrics *rounded, struct error_limits *limits);

// The gate of the sources (the project that the book retells), against the FP16 reference: max <= 0.06, mean <= 0.02,
// bad <= 1 %. It is shown beside gate_relative() and decides nothing (chapter 1 says why).
bool gate_sources(const struct error_metrics *metrics);

// In a problem of kind INPUT_NEEDLE: whether the covered queries find the keys that they copy. A query's needle is the
// value of the key that it copies. The needle is found if, of all values of its head and sequence, it makes the smallest
// angle with the query's output, when the mean of these values is subtracted from both. `share` is an average over the
// queries: the output's projection on the needle, both less the mean, as a multiple of the needle. If no other value
// resembles the needle, `share` is the weight of its key.
struct needles {
    int of, found; // queries
    double share;
};
// out: laid out like Q. False: memory ran out.
bool needles_find(const struct problem *problem, struct rows rows, const float *out,
                  struct needles *needles);

float half_to_float(uint16_t half);
uint16_t half_from_float(float value); // nearest even; overflows to infinity

// ---- Statistics ---------------------------------------------------------------------------------

struct summary {
    int samples;
    double p50, p90, p99, mean, std, min, max;
};

// Percentiles are interpolated linearly between order statistics; std divides by n - 1. Sorts `values`.
struct summary summarise(double *values, int count);

// The median of `count` ratios, with a distribution-free 95 % interval from order statistics (binomial). For fewer than
// 6 values there is no such interval: low = -inf, high = +inf. Sorts `values`.
struct interval {
    double median, low, high;
};
struct interval median_interval(double *values, int count);

// ---- Files --------------------------------------------------------------------------------------

// Writes a file whole or not at all: under a temporary name beside it, then renamed. False: nothing is left behind, and
// `why` has one line.
bool file_write(const char *path, const void *bytes, size_t count, char *why, size_t size);

// Whether file_write() would succeed; leaves nothing behind. To be called before the long work. False: `why` has one
// line.
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
// The arguments of a launch function: device pointers; q, k, v are E4M3 codes.
struct attention_args {
    const uint8_t *q, *k, *v;                    // [B][H][S][HEAD_DIM]
    const float *q_scales, *k_scales, *v_scales; // [H]
    void *out;                                   // [B][H][S][HEAD_DIM] half
    struct shape shape;
    float softmax_scale;
};

// The arguments of the launch function of a program for attention over a cache: device pointers. Sequence b has
// lengths[b] tokens, and all but the last are in the cache (struct cache_image says how). The kernel stores the last
// one there, and attends to it, too. Slots without a token may contain anything.
struct cache_args {
    const void *q;             // [B][H][queries][HEAD_DIM] half
    const void *new_k, *new_v; // [B][H][HEAD_DIM] half, for the newest token
    uint8_t *codes;            // [pages][H][2 * page * HEAD_DIM] E4M3, placed by code_place()
    uint8_t *scales;           // [pages][H][2 * page] E8M0, placed by scale_place()
    const int *table;          // [B][max_pages]; -1 after a sequence's end
    const int *lengths;        // [B]
    void *out;                 // [B][H][queries][HEAD_DIM] half
    void *scratch;             // scratch_bytes() bytes; NULL: 0 bytes
    struct shape shape;
    int queries, page, max_pages;
    float softmax_scale;
};

// The arguments in --launch-only. Each pointer is a recognisable number and is never followed.
static inline struct attention_args launch_only_args(const struct shape *shape)
{
    struct attention_args args;
    uint64_t at[7];

    for (int i = 0; i < 7; ++i)
        at[i] = 0x5e0000000000 + ((uint64_t)i << 32);
    // This also clears padding and the rest of the name, since the bytes are compared.
    memset(&args, 0, sizeof args);
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

// The arguments of the launch function of a program for a prompt's attention over a cache. The newest asked[b] tokens
// of sequence b are its query tokens, each with `queries` heads for each of the H heads of keys; each of them sees the
// tokens before it and itself. The kernel stores these tokens in the cache, which has all the others. `cache` is as
// above, with the shape's head dimension D; but q and out are [B][H * queries][newest][D], and new_k and new_v
// [B][H][newest][D]. Rows from asked[b] on may contain anything.
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
    const char *name;  // "ch03_wmma_qk": the tangled file's name without its ending
    const char *title; // one line, for the reports
    int chapter;
    const void *kernel; // the kernel whose resources are reported
    int threads;        // threads of a CTA
    size_t dynamic_shared_bytes;
    double tolerance;          // for gate_relative; 0: GATE_TOLERANCE
    struct p_rounding p;       // how P is rounded; all zero: to half, or not at all
    double tensor_flops_share; // the share of shape_flops that tensor cores do: 0, 0.5 or 1
    enum mask mask;            // the mask that the kernel applies
    // Enqueues the kernel on the stream; returns what cudaGetLastError() or its own checks return. It must be
    // capturable into a graph: no synchronisation, no allocation. NULL: the program attends over a cache.
    cudaError_t (*launch)(const struct attention_args *args, cudaStream_t stream);
    // The launch function for a ragged batch; lengths: [B], on the device. NULL: the program takes no ragged batch.
    cudaError_t (*launch_ragged)(const struct attention_args *args, const int *lengths,
                                 cudaStream_t stream);
    // The launch function for a cache; or NULL. code_place and scale_place say where the cache's elements are.
    cudaError_t (*launch_cache)(const struct cache_args *args, cudaStream_t stream);
    // The launch function for a prompt; or NULL: then a prompt of one query token is launched by launch_cache.
    cudaError_t (*launch_prompt)(const struct prompt_args *args, cudaStream_t stream);
    bool heads_of_128; // whether the program takes heads of 128, too
    code_place_fn *code_place;
    code_place_fn *code_place_128; // for a cache with heads of 128
    scale_place_fn *scale_place;
    // How many bytes of `scratch` a launch on a cache needs (pointers in `args` are not followed); NULL: none. They
    // are zeros before the first launch, and each launch leaves them ready for the next one, of any shape with at most
    // as many bytes. Launches in one stream run one after another and can share them; launches that may run at the
    // same time need their own.
    size_t (*scratch_bytes)(const struct cache_args *args);
    const char *source_hash, *build_flags, *git_commit; // set by PROGRAM_BUILD
};

// The main function of a chapter's program; see --help. Exit status: 0 all gates passed, 1 a gate
// failed, 2 bad usage, 3 the machine failed us (no memory, a CUDA error, an unwritable file).
int workbench_main(const struct program *program, int argc, char **argv);

// Checks a CUDA call in a chapter's own host code. On an error, prints the call, its file and line (in the chapter,
// through #line), the error's name and its text, and exits with 3.
#define CUDA_CHECK(call) workbench_cuda_check((call), #call, __FILE__, __LINE__)
void workbench_cuda_check(cudaError_t error, const char *call, const char *file, int line);

// Prints one line, printf-style, that says which assumption failed, with value and limit; returns `error`, so that a
// launch function can write: return launch_refused(cudaErrorInvalidValue, "...", n).
cudaError_t launch_refused(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif

#ifdef __cplusplus
}
#endif
#endif
