// probes.cu: one planted mistake a kernel, to see which checker sees it: labs/probe runs them.
//
//   probes NAME     runs one launch of the kernel of that name; without a name: prints the names
//
// Each kernel is as small as its mistake. `right` has none. The results are not looked at: what
// counts is what a checker says.
#include <cuda_pipeline_primitives.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

enum { THREADS = 64, CTAS = 2, WORDS = THREADS * CTAS };

struct words {
    int *in;      // [WORDS], written by the host
    int *raw;     // [WORDS], written by nobody
    int *out;     // [WORDS]
    int *counter; // [1], zero
};

__global__ void right(words w)
{
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = w.in[i];
    __syncthreads();
    w.out[i] = tile[THREADS - 1 - threadIdx.x];
}

__global__ void past_the_end(words w)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    w.out[i + 1] = w.in[i]; // the last thread: one word past the allocation
}

__global__ void past_the_row(words w)
{
    __shared__ int tile[2][THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    tile[0][threadIdx.x] = tile[1][threadIdx.x] = w.in[i];
    __syncthreads();
    int *row = tile[0];
    w.out[i] = row[threadIdx.x + 1]; // the last thread: the next row, which is there
}

__global__ void global_unwritten(words w)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    w.out[i] = w.raw[i] + 1;
}

__global__ void shared_unwritten(words w)
{
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (threadIdx.x % 2)
        tile[threadIdx.x] = w.in[i];
    __syncthreads();
    w.out[i] = tile[THREADS - 1 - threadIdx.x];
}

__global__ void no_barrier(words w)
{
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = w.in[i];
    w.out[i] = tile[THREADS - 1 - threadIdx.x]; // the other warp's
}

__global__ void no_wait(words w)
{
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    __pipeline_memcpy_async(&tile[threadIdx.x], &w.in[i], sizeof(int));
    __pipeline_commit();
    __syncthreads(); // orders the threads, and not the copies
    w.out[i] = tile[THREADS - 1 - threadIdx.x];
}

// One lane arrives for its warp, whose other lanes have been seen to by __syncwarp(): right.
__global__ void one_lane_arrives(words w)
{
    __shared__ int tile[THREADS];
    __shared__ uint64_t filled;
    int i = blockIdx.x * THREADS + threadIdx.x;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&filled);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    __syncthreads();
    if (threadIdx.x < 32) {
        tile[threadIdx.x] = w.in[i];
        __syncwarp();
        if (threadIdx.x == 0)
            asm volatile("{ .reg .b64 state;\n"
                         "mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
                         : "memory");
        w.out[i] = 0;
    } else {
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p;\n"
                         "mbarrier.test_wait.parity.shared.b64 p, [%1], 0;\n"
                         "selp.b32 %0, 1, 0, p; }"
                         : "=r"(done)
                         : "r"(barrier)
                         : "memory");
        w.out[i] = tile[threadIdx.x - 32];
    }
}

__global__ void plain_counter(words w)
{
    if (threadIdx.x == 0)
        ++*w.counter; // both CTAs
    w.out[blockIdx.x * THREADS + threadIdx.x] = 0;
}

__global__ void parted_barrier(words w)
{
    __shared__ int tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = w.in[i];
    if (threadIdx.x % 2) {
        __syncthreads(); // half of each warp
        tile[threadIdx.x - 1] = 0;
    }
    __syncthreads();
    w.out[i] = tile[threadIdx.x];
}

static const struct {
    const char *name;
    void (*kernel)(words);
} probes[] = {
    {"right", right},
    {"past_the_end", past_the_end},
    {"past_the_row", past_the_row},
    {"global_unwritten", global_unwritten},
    {"shared_unwritten", shared_unwritten},
    {"no_barrier", no_barrier},
    {"no_wait", no_wait},
    {"plain_counter", plain_counter},
    {"one_lane_arrives", one_lane_arrives},
    {"parted_barrier", parted_barrier},
};

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "probes: %s: %s\n", what, cudaGetErrorString(error));
    exit(3);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: probes [NAME]\n");
        return 2;
    }
    for (const auto &probe : probes) {
        if (argc == 1) {
            puts(probe.name);
        } else if (strcmp(probe.name, argv[1]) == 0) {
            words w;
            int host[WORDS] = {0};
            check(cudaMalloc(&w.in, sizeof host), "cudaMalloc");
            check(cudaMalloc(&w.raw, sizeof host), "cudaMalloc");
            check(cudaMalloc(&w.out, sizeof host), "cudaMalloc");
            check(cudaMalloc(&w.counter, sizeof(int)), "cudaMalloc");
            check(cudaMemcpy(w.in, host, sizeof host, cudaMemcpyHostToDevice), "cudaMemcpy");
            check(cudaMemset(w.counter, 0, sizeof(int)), "cudaMemset");
            probe.kernel<<<CTAS, THREADS>>>(w);
            check(cudaGetLastError(), probe.name);
            check(cudaDeviceSynchronize(), probe.name);
            return 0;
        }
    }
    if (argc == 1)
        return 0;
    fprintf(stderr, "probes: no probe \"%s\": probes without a name prints the names\n", argv[1]);
    return 2;
}
