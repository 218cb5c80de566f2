// Kernels whose PTX test_load.py launches: code/ptxsim/python/test/record writes kernels.ptx.
struct line {
    float slope;
    int shift;
    double offset;
};

extern "C" __global__ void apply(float *out, const float *x, line line, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = line.slope * x[i + line.shift] + (float)line.offset;
}

// Stores its arguments, of several types, as they are passed.
extern "C" __global__ void keep(unsigned char *out, bool a, short b, unsigned c, long long d,
                                float e, double f)
{
    *(bool *)out = a;
    *(short *)(out + 2) = b;
    *(unsigned *)(out + 4) = c;
    *(long long *)(out + 8) = d;
    *(float *)(out + 16) = e;
    *(double *)(out + 24) = f;
}

template <typename T> __global__ void reversed(T *x, int n) // reverses in shared memory
{
    extern __shared__ T tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
template __global__ void reversed(int *x, int n);

extern "C" __global__ void count_lost(int *count)
{
    *count = *count + 1;
}

extern "C" __global__ void endless(int *odd)
{
    while (atomicAdd(odd, 2))
        ;
}
