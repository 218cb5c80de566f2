// quantise.cu: Q, K and V to E4M3, with one scale for a head in all sequences, as the workbench
// quantises them.
//
// Two kernels for all three tensors: the first finds the largest magnitude in parts of a head, the
// second takes the largest over the parts and writes codes. A head's codes are 64 wide: narrower
// rows are filled up with zeros, which change no score and no output.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

namespace quantiser
{ // a namespace, since a test includes a chapter's program, too

constexpr int THREADS = 256;
constexpr int CHUNK = 8;                 // elements that a lane loads at once
constexpr int CHUNKS = HEAD_DIM / CHUNK; // chunks of a row
constexpr int LOADS = 4;                 // a lane's loads in flight together
constexpr int BLOCK = THREADS * LOADS;   // chunks that a CTA processes together
constexpr int MOST_PARTS =
    64; // parts of a head in a sequence, one for each CTA

// A row of a tensor begins at x + batch * strides[0] + head * strides[1] + row * strides[2], in
// elements; its head_dim elements lie side by side.
struct tensor {
    const void *x;
    long long strides[3];
};

struct job {
    struct tensor tensors[3]; // Q, K, V
    int batch, heads, seq_len, head_dim;
    uint8_t *codes; // [3][batch][heads][seq_len][HEAD_DIM]
    float *scales;  // [3][heads]
    float *largest; // maxima of parts: [3][heads][batch][parts]
};

__device__ float value(float x)
{
    return x;
}
__device__ float value(__half x)
{
    return __half2float(x);
}
__device__ float value(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <class T> struct alignas(16) chunk {
    T x[CHUNK];
};

// Loads a lane's chunks of one block of a head in a sequence, with zeros past the end of a row and of
// the sequence.
template <class T>
__device__ void load(chunk<T> (&to)[LOADS], const struct job &job, int block)
{
    const struct tensor &tensor = job.tensors[blockIdx.z];
    int batch = blockIdx.y / job.heads, head = blockIdx.y % job.heads;
    const T *x = (const T *)tensor.x + batch * tensor.strides[0] +
                 head * tensor.strides[1];
    int column = threadIdx.x % CHUNKS * CHUNK;

#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        int row = (block * BLOCK + i * THREADS + threadIdx.x) / CHUNKS;
        to[i] = chunk<T>{};
        if (row < job.seq_len && column < job.head_dim)
            to[i] = *(const chunk<T> *)(x + row * tensor.strides[2] + column);
    }
}

__device__ int blocks_of(int seq_len)
{
    return (seq_len * CHUNKS + BLOCK - 1) / BLOCK;
}

// The largest of the CTA's values, in every thread.
__device__ float largest_of_cta(float x)
{
    __shared__ float of_warp[THREADS / 32];

    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lanes));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = of_warp[threadIdx.x % (THREADS / 32)];
    for (int lanes = THREADS / 64; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lanes));
    return x;
}

// grid: (parts, batch * heads, 3)
template <class T>
__global__ void __launch_bounds__(THREADS) find_largest(struct job job)
{
    int batch = blockIdx.y / job.heads, head = blockIdx.y % job.heads;
    float largest = 0;
    chunk<T> x[LOADS];

    for (int block = blockIdx.x; block < blocks_of(job.seq_len);
         block += gridDim.x) {
        load(x, job, block);
        for (int i = 0; i < LOADS; ++i)
            for (int j = 0; j < CHUNK; ++j)
                // fmaxf ignores a NaN, so that none becomes the largest.
                largest = fmaxf(largest, fabsf(value(x[i].x[j])));
    }
    largest = largest_of_cta(largest);
    if (threadIdx.x == 0)
        job.largest[((blockIdx.z * job.heads + head) * job.batch + batch) *
                        gridDim.x +
                    blockIdx.x] = largest;
}

template <class T>
__global__ void __launch_bounds__(THREADS) encode(struct job job)
{
    int head = blockIdx.y % job.heads, parts = job.batch * gridDim.x;
    const float *of_parts =
        job.largest + (size_t)(blockIdx.z * job.heads + head) * parts;
    size_t first_row =
        ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * job.seq_len;
    float largest = 0;
    chunk<T> x[LOADS];

    load(x, job, blockIdx.x); // overlaps the loads of the maxima
    for (int i = threadIdx.x; i < parts; i += THREADS)
        largest = fmaxf(largest, of_parts[i]);
    largest = largest_of_cta(largest);
    float scale = largest > 0 ? __fdiv_rn(largest, E4M3_MAX) : 1.0f;
    if (blockIdx.x == 0 && blockIdx.y < job.heads && threadIdx.x == 0)
        job.scales[blockIdx.z * job.heads + head] = scale;
    for (int block = blockIdx.x; block < blocks_of(job.seq_len);
         block += gridDim.x) {
        if (block != blockIdx.x)
            load(x, job, block);
        for (int i = 0; i < LOADS; ++i) {
            int at = block * BLOCK + i * THREADS + threadIdx.x;
            struct alignas(CHUNK) {
                __nv_fp8x2_storage_t two[CHUNK / 2];
            } codes;
            for (int j = 0; j < CHUNK; j += 2) {
                float2 two = {__fdiv_rn(value(x[i].x[j]), scale),
                              __fdiv_rn(value(x[i].x[j + 1]), scale)};
                codes.two[j / 2] =
                    __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, __NV_E4M3);
            }
            if (at < job.seq_len * CHUNKS)
                *(decltype(codes) *)(job.codes + first_row * HEAD_DIM +
                                     (size_t)at * CHUNK) = codes;
        }
    }
}

template <class T>
static cudaError_t quantise(const struct job &job, cudaStream_t stream)
{
    int parts = (job.seq_len * CHUNKS + BLOCK - 1) / BLOCK;
    dim3 grid(parts < MOST_PARTS ? parts : MOST_PARTS, job.batch * job.heads,
              3);

    find_largest<T><<<grid, THREADS, 0, stream>>>(job);
    encode<T><<<grid, THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}

// Enqueues the quantisation of q, k and v on this stream of this device; type: 0 half, 1 bfloat16,
// 2 float. strides: [3][3], elements from one batch, head and row to the next, multiples of 8;
// tensors are aligned to 16 bytes. head_dim: a multiple of 8, at most HEAD_DIM; batch * heads: at
// most 65535, and within shape_parse()'s limits. codes: [3][batch][heads][seq_len][HEAD_DIM];
// scales: [3][heads]; largest: room for [3][heads][batch][64] floats. Returns NULL, or one line
// that says what is wrong.
extern "C" __attribute__((visibility("default"))) const char *
launch_quantise(const void *q, const void *k, const void *v,
                const long long *strides, int type, int batch, int heads,
                int seq_len, int head_dim, uint8_t *codes, float *scales,
                float *largest, int device, cudaStream_t stream)
{
    const void *tensors[3] = {q, k, v};
    struct job job = {{},       batch, heads,  seq_len,
                      head_dim, codes, scales, largest};
    int before;

    for (int t = 0; t < 3; ++t) {
        job.tensors[t].x = tensors[t];
        for (int i = 0; i < 3; ++i)
            job.tensors[t].strides[i] = strides[3 * t + i];
    }
    if ((long long)batch * heads > 65535)
        return "batch x heads is more than 65535";
    cudaError_t error = cudaGetDevice(&before);
    if (!error)
        error = cudaSetDevice(device);
    if (!error)
        error = type == 0   ? quantise<__half>(job, stream)
                : type == 1 ? quantise<__nv_bfloat16>(job, stream)
                            : quantise<float>(job, stream);
    if (!error)
        error = cudaSetDevice(before);
    return error ? cudaGetErrorString(error) : NULL;
}

} // namespace quantiser
