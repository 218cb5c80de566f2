// quantise.cu: Q, K and V to E4M3, with a scale a head over all sequences, as the workbench draws them.
//
// Two kernels for all three tensors: the first finds the largest magnitude in parts of a head, the
// second takes the parts' largest and writes codes. A head's codes are 64 wide: what is narrower is
// filled up with zeros, which change no score and no output.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "workbench/workbench.h"

constexpr int THREADS = 256;
constexpr int CHUNK = 8;                    // elements of a lane, and its codes
constexpr int CHUNKS = HEAD_DIM / CHUNK;    // of a row
constexpr int CHUNKS_OF_LANE = 4;           // that a lane has, where there are parts enough
constexpr int MOST_PARTS = 64;              // of a head

// A row of a tensor begins at x + batch * strides[0] + head * strides[1] + row * strides[2], in
// elements; its head_dim elements lie side by side.
struct tensor {
    const void *x;
    long long strides[3];
};

struct job {
    struct tensor tensors[3]; // Q, K, V
    int batch, heads, seq_len, head_dim;
    uint8_t *codes;   // [3][batch][heads][seq_len][HEAD_DIM]
    float *scales;    // [3][heads]
    float *largest;   // [3][heads][parts]
};

__device__ float value(float x) { return x; }
__device__ float value(__half x) { return __half2float(x); }
__device__ float value(__nv_bfloat16 x) { return __bfloat162float(x); }

// Chunk i of a head, of all its sequences: 8 elements of row i / CHUNKS.
template <class T>
__device__ void load(float (&x)[CHUNK], const struct job &job, int head, long long i)
{
    const struct tensor &tensor = job.tensors[blockIdx.z];
    long long row = i / CHUNKS, batch = row / job.seq_len;
    int column = (int)(i % CHUNKS) * CHUNK;
    struct alignas(16) chunk { T x[CHUNK]; } loaded;

    if (column >= job.head_dim) {
        for (int j = 0; j < CHUNK; ++j)
            x[j] = 0;
        return;
    }
    loaded = *(const chunk *)((const T *)tensor.x + batch * tensor.strides[0] +
                              head * tensor.strides[1] +
                              row % job.seq_len * tensor.strides[2] + column);
    for (int j = 0; j < CHUNK; ++j)
        x[j] = value(loaded.x[j]);
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

// grid: (parts of a head, heads, 3)
template <class T> __global__ void __launch_bounds__(THREADS) find_largest(struct job job)
{
    long long chunks = (long long)job.batch * job.seq_len * CHUNKS;
    long long step = (long long)gridDim.x * THREADS;
    int head = blockIdx.y;
    float largest = 0, x[CHUNK];

    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < chunks; i += step) {
        load<T>(x, job, head, i);
        for (int j = 0; j < CHUNK; ++j)
            largest = fmaxf(largest, fabsf(x[j])); // a NaN is not the largest
    }
    largest = largest_of_cta(largest);
    if (threadIdx.x == 0)
        job.largest[(blockIdx.z * gridDim.y + head) * gridDim.x + blockIdx.x] = largest;
}

template <class T> __global__ void __launch_bounds__(THREADS) encode(struct job job)
{
    long long chunks = (long long)job.batch * job.seq_len * CHUNKS;
    long long step = (long long)gridDim.x * THREADS;
    int head = blockIdx.y, of_head = blockIdx.z * gridDim.y + head;
    float x[CHUNK];

    float largest = threadIdx.x < gridDim.x ? job.largest[of_head * gridDim.x + threadIdx.x] : 0;
    largest = largest_of_cta(largest);
    float scale = largest > 0 ? __fdiv_rn(largest, E4M3_MAX) : 1.0f;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        job.scales[of_head] = scale;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < chunks; i += step) {
        load<T>(x, job, head, i);
        struct alignas(CHUNK) { __nv_fp8x2_storage_t two[CHUNK / 2]; } codes;
        for (int j = 0; j < CHUNK; j += 2)
            codes.two[j / 2] = __nv_cvt_float2_to_fp8x2(
                make_float2(__fdiv_rn(x[j], scale), __fdiv_rn(x[j + 1], scale)), __NV_SATFINITE,
                __NV_E4M3);
        long long rows = (long long)job.batch * job.seq_len, row = i / CHUNKS;
        long long pair = row / job.seq_len * job.heads + head;
        long long to = blockIdx.z * rows * job.heads + pair * job.seq_len + row % job.seq_len;
        *(decltype(codes) *)(job.codes + to * HEAD_DIM + i % CHUNKS * CHUNK) = codes;
    }
}

template <class T> static cudaError_t quantise(const struct job &job, cudaStream_t stream)
{
    long long chunks = (long long)job.batch * job.seq_len * CHUNKS;
    long long parts = (chunks + THREADS * CHUNKS_OF_LANE - 1) / (THREADS * CHUNKS_OF_LANE);
    dim3 grid((unsigned)(parts < MOST_PARTS ? parts : MOST_PARTS), job.heads, 3);

    find_largest<T><<<grid, THREADS, 0, stream>>>(job);
    encode<T><<<grid, THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}

// Enqueues the quantisation of q, k and v on the stream of that device; type: 0 half, 1 bfloat16, 2 float.
// strides: [3][3], elements from one batch, head and row to the next; they and the tensors are aligned
// to 8 elements' bytes, at most 16. head_dim: a multiple of 8, at most HEAD_DIM. codes: [3][batch][heads]
// [seq_len][HEAD_DIM]; scales: [3][heads]; largest: room for [3][heads][64] floats. Returns NULL, or one line.
extern "C" __attribute__((visibility("default"))) const char *
launch_quantise(const void *q, const void *k, const void *v, const long long *strides, int type,
                int batch, int heads, int seq_len, int head_dim, uint8_t *codes, float *scales,
                float *largest, int device, cudaStream_t stream)
{
    const void *tensors[3] = {q, k, v};
    struct job job = {{}, batch, heads, seq_len, head_dim, codes, scales, largest};
    int before;

    for (int t = 0; t < 3; ++t) {
        job.tensors[t].x = tensors[t];
        for (int i = 0; i < 3; ++i)
            job.tensors[t].strides[i] = strides[3 * t + i];
    }
    if (heads > 65535)
        return "more than 65535 heads";
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
