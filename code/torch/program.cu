// program.cu: a chapter's program as a shared library.
//
//   nvcc -shared -DPROGRAM='"ch15_registers.cu"' program.cu
//
// The program is compiled as it stands. Its main function has another name
// here, and what it calls of the workbench is answered below:
// workbench_main() keeps the program's description, in which its launch
// function is. So a chapter need not know that it is an operator, and no
// kernel is copied.
#include <cstdarg>
#include <cstdio>

#define main describe
#include PROGRAM
#undef main

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

// Enqueues attention on the stream of that device. All tensors are there:
//   codes    [3][batch][heads][seq_len][HEAD_DIM]  E4M3 of Q, K and V
//   scales   [3][heads]
//   lengths  [batch], or NULL where all sequences are seq_len long
//   out      [batch][heads][seq_len][HEAD_DIM]     half
// Returns NULL, or one line that says what is wrong.
extern "C" __attribute__((visibility("default"))) const char *
launch_attention(const uint8_t *codes, const float *scales, const int *lengths,
                 void *out, int batch, int heads, int seq_len,
                 float softmax_scale, int device, cudaStream_t stream)
{
    struct attention_args args = {};
    size_t elements = (size_t)batch * heads * seq_len * HEAD_DIM;
    int before;

    if (!described)
        describe(0, NULL);
    args.q = codes, args.k = codes + elements, args.v = codes + 2 * elements;
    args.q_scales = scales, args.k_scales = scales + heads,
    args.v_scales = scales + 2 * heads;
    args.out = out;
    args.shape.batch = batch, args.shape.heads = heads,
    args.shape.seq_len = seq_len;
    args.softmax_scale = softmax_scale;
    refusal[0] = '\0';
    if (lengths && !described->launch_ragged)
        return "this program takes no lengths";
    cudaError_t error = cudaGetDevice(&before);
    if (!error)
        error = cudaSetDevice(device);
    if (!error)
        error = lengths ? described->launch_ragged(&args, lengths, stream)
                        : described->launch(&args, stream);
    if (!error)
        error = cudaSetDevice(before);
    return !error ? NULL : refusal[0] ? refusal : cudaGetErrorString(error);
}
