// program.cu: a chapter's program as a shared library.
//
//   nvcc -shared -DPROGRAM='"ch15_registers.cu"' program.cu
//
// The program is compiled as it stands, but its main function has another
// name here, and the workbench's functions that it calls are defined below:
// workbench_main() keeps the program's description, which has its launch
// function. So a chapter need not know that it is an operator, and no
// kernel is copied.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#define main describe
#include PROGRAM
#undef main

#define EXPORTED extern "C" __attribute__((visibility("default")))

static const struct program *described;
static thread_local char refusal[256];

int workbench_main(const struct program *program, int, char **)
{
    described = program;
    return 0;
}

cudaError_t launch_refused(cudaError_t error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(refusal, sizeof refusal, format, arguments);
    va_end(arguments);
    return error;
}

// Calls a launch function with this device as the current one. Returns NULL,
// or one line that says what is wrong.
template <class Launch>
static const char *launched_on(int device, const Launch &launch)
{
    int before;

    if (!described)
        describe(0, NULL);
    refusal[0] = '\0';
    cudaError_t error = cudaGetDevice(&before);
    if (!error)
        error = cudaSetDevice(device);
    if (!error) {
        error = launch();
        cudaError_t restored = cudaSetDevice(before);
        error = error ? error : restored;
    }
    return !error ? NULL : refusal[0] ? refusal : cudaGetErrorString(error);
}

// Enqueues attention on this stream of this device, where all tensors are:
//   codes    [3][batch][heads][seq_len][HEAD_DIM]  E4M3 of Q, K and V
//   scales   [3][heads]
//   lengths  [batch], or NULL if all sequences are seq_len long
//   out      [batch][heads][seq_len][HEAD_DIM]     half
// Returns NULL, or one line that says what is wrong.
EXPORTED const char *launch_attention(const uint8_t *codes, const float *scales,
                                      const int *lengths, void *out, int batch,
                                      int heads, int seq_len,
                                      float softmax_scale, int device,
                                      cudaStream_t stream)
{
    struct attention_args args = {};
    size_t elements = (size_t)batch * heads * seq_len * HEAD_DIM;

    args.q = codes, args.k = codes + elements, args.v = codes + 2 * elements;
    args.q_scales = scales, args.k_scales = scales + heads,
    args.v_scales = scales + 2 * heads;
    args.out = out;
    args.shape.batch = batch, args.shape.heads = heads,
    args.shape.seq_len = seq_len;
    args.softmax_scale = softmax_scale;
    return launched_on(device, [&] {
        if (!described->launch)
            return launch_refused(cudaErrorInvalidValue,
                                  "this program asks a cache");
        if (lengths && !described->launch_ragged)
            return launch_refused(cudaErrorInvalidValue,
                                  "this program takes no lengths");
        return lengths ? described->launch_ragged(&args, lengths, stream)
                       : described->launch(&args, stream);
    });
}

static struct cache_args sized(int batch, int heads, int queries, int page,
                               int max_pages)
{
    struct cache_args args = {};

    args.shape.batch = batch, args.shape.heads = heads;
    args.shape.seq_len = max_pages * page;
    args.queries = queries, args.page = page, args.max_pages = max_pages;
    return args;
}

// The field head_dim of struct shape, in which 0 stands for HEAD_DIM.
static uint8_t head_dim_field(int head_dim)
{
    return (uint8_t)(head_dim == HEAD_DIM ? 0 : head_dim);
}

static size_t scratch_wanted(const struct cache_args *args)
{
    return described->scratch_bytes ? described->scratch_bytes(args) : 0;
}

// Attention of each sequence's newest token over its cache (struct
// cache_args), after the token's K and V have been added to it:
//   q, out        [batch][heads][queries][HEAD_DIM]  half
//   new_k, new_v  [batch][heads][HEAD_DIM]           half
//   codes         [pages][heads][2 * page * HEAD_DIM]
//   scales        [pages][heads][2 * page]
//   table         [batch][max_pages]
//   lengths       [batch]
//   scratch       decode_scratch() bytes or more, zeros before the first
//                 launch; each stream needs its own
EXPORTED const char *
launch_decode(const void *q, const void *new_k, const void *new_v,
              uint8_t *codes, uint8_t *scales, const int *table,
              const int *lengths, void *scratch, size_t bytes, void *out,
              int batch, int heads, int queries, int page, int max_pages,
              float softmax_scale, int device, cudaStream_t stream)
{
    struct cache_args args = sized(batch, heads, queries, page, max_pages);

    args.q = q, args.new_k = new_k, args.new_v = new_v;
    args.codes = codes, args.scales = scales;
    args.table = table, args.lengths = lengths;
    args.out = out, args.scratch = scratch;
    args.softmax_scale = softmax_scale;
    return launched_on(device, [&] {
        if (!described->launch_cache)
            return launch_refused(cudaErrorInvalidValue,
                                  "this program asks no cache");
        size_t wanted = scratch_wanted(&args);
        if (bytes < wanted)
            return launch_refused(cudaErrorInvalidValue,
                                  "scratch has %zu bytes, %zu are wanted",
                                  bytes, wanted);
        return described->launch_cache(&args, stream);
    });
}

// The bytes of scratch that launch_decode() needs on this device for a cache
// of this shape, or of fewer sequences.
EXPORTED size_t decode_scratch(int batch, int heads, int queries, int page,
                               int max_pages, int device)
{
    size_t most = 0;

    launched_on(device, [&] {
        for (int b = 1; b <= batch; ++b) {
            struct cache_args args = sized(b, heads, queries, page, max_pages);
            most = std::max(most, scratch_wanted(&args));
        }
        return cudaSuccess;
    });
    return most;
}

// Attention of several newest tokens of each sequence over its cache
// (struct prompt_args). What is not listed is as for launch_decode(); D is
// head_dim, 64 or 128, also in a page:
//   q, out        [batch][heads * queries][newest][D]  half
//   new_k, new_v  [batch][heads][newest][D]            half
//   asked         [batch]
//   scratch       prompt_scratch() bytes or more, zeros
EXPORTED const char *
launch_prompt(const void *q, const void *new_k, const void *new_v,
              uint8_t *codes, uint8_t *scales, const int *table,
              const int *lengths, const int *asked, void *scratch, size_t bytes,
              void *out, int batch, int heads, int queries, int newest,
              int page, int max_pages, int head_dim, float softmax_scale,
              int device, cudaStream_t stream)
{
    struct prompt_args args = {};

    args.cache = sized(batch, heads, queries, page, max_pages);
    args.cache.shape.newest = newest;
    args.cache.shape.head_dim = head_dim_field(head_dim);
    args.cache.q = q, args.cache.new_k = new_k, args.cache.new_v = new_v;
    args.cache.codes = codes, args.cache.scales = scales;
    args.cache.table = table, args.cache.lengths = lengths;
    args.cache.out = out, args.cache.scratch = scratch;
    args.cache.softmax_scale = softmax_scale;
    args.asked = asked, args.newest = newest;
    return launched_on(device, [&] {
        if (!described->launch_prompt)
            return launch_refused(cudaErrorInvalidValue,
                                  "this program takes no prompt");
        if (head_dim != HEAD_DIM && !described->heads_of_128)
            return launch_refused(cudaErrorInvalidValue,
                                  "this program takes heads of %d, not of %d",
                                  HEAD_DIM, head_dim);
        if (newest > UINT16_MAX)
            return launch_refused(cudaErrorInvalidValue,
                                  "%d new tokens, at most %d at once", newest,
                                  UINT16_MAX);
        size_t wanted = scratch_wanted(&args.cache);
        if (bytes < wanted)
            return launch_refused(cudaErrorInvalidValue,
                                  "scratch has %zu bytes, %zu are wanted",
                                  bytes, wanted);
        return described->launch_prompt(&args, stream);
    });
}

// The bytes of scratch that launch_prompt() needs on this device.
EXPORTED size_t prompt_scratch(int batch, int heads, int queries, int newest,
                               int page, int max_pages, int head_dim,
                               int device)
{
    struct cache_args args = sized(batch, heads, queries, page, max_pages);
    size_t wanted = 0;

    args.shape.newest = newest;
    args.shape.head_dim = head_dim_field(head_dim);
    launched_on(device, [&] {
        wanted = scratch_wanted(&args);
        return cudaSuccess;
    });
    return wanted;
}

// The index in a page's codes of element d of the token in `slot`, in a cache
// with heads of head_dim. tensor: 0 is K, 1 is V.
EXPORTED int place_of(int tensor, int slot, int d, int head_dim)
{
    if (!described)
        describe(0, NULL);
    code_place_fn *place = head_dim == HEAD_DIM ? described->code_place
                                                : described->code_place_128;
    return place((enum cache_tensor)tensor, slot, d);
}
