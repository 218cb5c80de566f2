// Planted bugs in the order between streams, and between the device and the host, with a right
// version of each:
//   cases NAME right|wrong
// The two lines that the report of a bug names are marked "// <- NAME", or by NAME in a list after
// "<-" (test_streams.bats). "After" names a public report of such a bug: OWNER/REPOSITORY#NUMBER of
// GitHub's issues.
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

static bool wrong; // whether the wrong version runs
static cudaStream_t a, b;
static cudaEvent_t event;
static int *data, *other; // in device memory
static int *pinned;
constexpr int COUNT = 64;

__global__ void fill(int *to, int value) // <- copy_back
{
    to[threadIdx.x] = value; // <- pair, early, apart, branches, freed, overlap
}

__global__ void read(const int *from, int *to)
{
    to[threadIdx.x] =
        from[threadIdx.x]; // <- pair, early, apart, branches, cleared, staged, managed
}

__global__ void count_up(int *counter, bool atomic)
{
    if (atomic)
        atomicAdd(counter, 1);
    else
        ++*counter; // <- counter
}

// A kernel whose launch may begin before the previous kernel has ended. waits: whether it waits
// for that end.
__global__ void dependent(const int *from, int *to, bool waits)
{
    if (waits)
        cudaGridDependencySynchronize();
    to[threadIdx.x] = from[threadIdx.x]; // <- dependent
}

__global__ void starts_dependent(int *to)
{
    cudaTriggerProgrammaticLaunchCompletion();
    to[threadIdx.x] = 1; // <- dependent
}

// Each thread reads what a thread of the other warp writes.
__global__ void race(int *to)
{
    __shared__ int value[COUNT];
    value[threadIdx.x] = 1;
    to[threadIdx.x] = value[COUNT - 1 - threadIdx.x]; // <- race
}

// Stores for every thread whether both of its clocks rise.
__global__ void clocks_rise(int *to)
{
    long long before = clock64(), now;
    unsigned long long first, second;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first));
    __nanosleep(100);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(second));
    now = clock64();
    to[threadIdx.x] = now > before && second > first;
}

static void order(cudaStream_t before, cudaStream_t after)
{
    cudaEventRecord(event, before);
    cudaStreamWaitEvent(after, event, 0);
}

// After spectralcode/OCTproZ#14.
static void pair()
{
    fill<<<1, COUNT, 0, a>>>(data, 1);
    if (!wrong)
        order(a, b);
    read<<<1, COUNT, 0, b>>>(data, other);
}

// The event is recorded before the work that it is to wait for. After torch/cutorch#222.
static void early()
{
    if (wrong)
        cudaEventRecord(event, a);
    fill<<<1, COUNT, 0, a>>>(data, 1);
    if (!wrong)
        cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    read<<<1, COUNT, 0, b>>>(data, other);
}

// A non-blocking stream and the default stream do not wait for each other. After
// bheisler/RustaCUDA#59.
static void apart()
{
    fill<<<1, COUNT>>>(data, 1);
    if (!wrong)
        cudaStreamSynchronize(0);
    read<<<1, COUNT, 0, a>>>(data, other);
}

// cudaMemset of device memory may return before the memory is set. After alpaka-group/alpaka#851.
static void cleared()
{
    cudaMemset(data, 0, COUNT * sizeof *data); // <- cleared
    if (!wrong)
        cudaDeviceSynchronize();
    read<<<1, COUNT, 0, a>>>(data, other);
}

// By the manual, cudaMemcpy from ordinary memory may return before the data have arrived: reported
// when PTXSIM_CHECK=strict. After Rust-GPU/rust-cuda#15.
static void staged()
{
    int values[COUNT] = {};
    cudaMemcpy(data, values, sizeof values, cudaMemcpyDefault); // <- staged
    if (!wrong)
        cudaStreamSynchronize(0);
    read<<<1, COUNT, 0, a>>>(data, other);
}

// After OpenPPL/ppl.cv#135.
static void copy_back()
{
    int got[COUNT];
    fill<<<1, COUNT, 0, a>>>(data, 1);
    if (!wrong)
        cudaStreamSynchronize(a);
    cudaMemcpy(got, data, sizeof got, cudaMemcpyDefault); // <- copy_back
}

// Two kernels write the two halves of an allocation; in the wrong version the second kernel begins
// an element earlier, in the half of the first kernel.
static void overlap()
{
    fill<<<1, COUNT / 2, 0, a>>>(data, 1);
    fill<<<1, COUNT / 2, 0, b>>>(data + COUNT / 2 - wrong, 1);
}

static void counter()
{
    count_up<<<1, 1, 0, a>>>(data, !wrong);
    count_up<<<1, 1, 0, b>>>(data, !wrong);
}

// After NVIDIA/cudf#6700.
static void result_early()
{
    cudaMemcpyAsync(pinned, data, sizeof *pinned, cudaMemcpyDefault, a); // <- result_early
    if (!wrong)
        cudaStreamSynchronize(a);
    if (*(volatile int *)pinned == 1) // <- result_early
        puts("one");
}

// After NVIDIA/cudf#22284.
static void staging()
{
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 1024; ++i)
            ((volatile int *)pinned)[i] = round;                   // <- staging
        cudaMemcpyAsync(data, pinned, 4096, cudaMemcpyDefault, a); // <- staging
        if (!wrong)
            cudaStreamSynchronize(a);
    }
}

// After eyalroz/cuda-api-wrappers#198.
static void managed()
{
    int *both;
    cudaMallocManaged(&both, COUNT * sizeof *both);
    read<<<1, COUNT / 2, 0, a>>>(both, other);
    ((volatile int *)both)[COUNT - 1] = 1; // in the half that the kernel does not read
    if (!wrong)
        cudaStreamSynchronize(a);
    ((volatile int *)both)[0] = 1; // <- managed
}

// Memory of a pool is given back while a kernel uses it. After kokkos/kokkos#9307.
static void freed()
{
    int *from_pool;
    cudaMallocAsync(&from_pool, COUNT * sizeof *from_pool, a);
    fill<<<1, COUNT, 0, a>>>(from_pool, 1);
    if (!wrong)
        cudaStreamSynchronize(a);
    cudaFree(from_pool); // <- freed
}

// A graph of two branches, whose kernels access the same memory.
static void branches()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    if (wrong)
        order(a, b);
    fill<<<1, COUNT, 0, a>>>(data, 1);
    if (!wrong)
        order(a, b);
    read<<<1, COUNT, 0, b>>>(data, other);
    order(b, a);
    cudaStreamEndCapture(a, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, a);
}

// After NVIDIA/cccl#3131.
static void dependent_launch()
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = COUNT;
    config.attrs = &attribute;
    config.numAttrs = 1;
    starts_dependent<<<1, COUNT>>>(data);
    cudaLaunchKernelEx(&config, dependent, (const int *)data, other, !wrong);
}

// After a race the program is still checked, but every call fails.
static void after_race()
{
    race<<<1, COUNT>>>(data);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    fill<<<1, COUNT>>>(data + 1024 - COUNT + wrong, 1);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}

// A graph copies from memory that was freed. After huggingface/candle#3352.
static void freed_source()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    cudaMemcpyAsync(data, pinned, 4096, cudaMemcpyDefault, a);
    cudaStreamEndCapture(a, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    if (wrong)
        cudaFreeHost(pinned);
    printf("%s\n", cudaGetErrorName(cudaGraphLaunch(exec, a)));
}

// ---- More cases, each modelled on a bug report --------------------------------------------------

__constant__ int factors[COUNT];

__global__ void put(int *to, int value)
{
    to[threadIdx.x] = value; // <- scalar, pool_reads, scratch, arena
}

__global__ void take(const int *from, int *to)
{
    int value = from[threadIdx.x]; // <- arguments, device_copy, input_reused
    to[threadIdx.x] = value;
}

__global__ void scale(int *to)
{
    to[threadIdx.x] *= factors[threadIdx.x]; // <- constants
}

// A result of one stream is copied in the default stream, which does not wait for it. NVIDIA/cudf#6580.
static void scalar()
{
    put<<<1, 1, 0, a>>>(data, 1);
    cudaMemcpyAsync(pinned, data, 4, cudaMemcpyDefault, wrong ? 0 : a); // <- scalar
    cudaDeviceSynchronize();
}

// Streams of a library's own read what the caller's stream still fills. NVIDIA/cudf#21094.
static void pool_reads()
{
    put<<<1, COUNT, 0, a>>>(data, 1);
    if (!wrong)
        order(a, b);
    cudaMemcpyAsync(pinned, data, 4, cudaMemcpyDefault, b); // <- pool_reads
}

// The host overwrites arguments that a kernel still reads with those of the next launch, in another
// stream. Genesis-Embodied-AI/quadrants#649.
static void arguments_reused()
{
    take<<<1, COUNT, 0, a>>>(data, other);
    cudaMemcpyAsync(data, pinned, 4096, cudaMemcpyDefault, wrong ? b : a); // <- arguments
}

// As arguments_reused, but the arguments lie in constant memory. kokkos/kokkos#4525.
static void constants()
{
    scale<<<1, COUNT, 0, a>>>(data);
    if (!wrong)
        order(a, b);
    const cudaMemcpyKind kind = cudaMemcpyDefault;
    cudaMemcpyToSymbolAsync(factors, pinned, sizeof factors, 0, kind, b); // <- constants
}

// Two streams share one scratch buffer. kokkos/kokkos#3246.
static void scratch()
{
    put<<<1, COUNT, 0, a>>>(data, 1);
    put<<<1, COUNT, 0, b>>>(wrong ? data : other, 2);
}

// An arena gives memory to another stream while the first still clears it.
// microsoft/onnxruntime#32342.
static void arena()
{
    cudaMemsetAsync(data, 0, 4096, a); // <- arena
    if (!wrong)
        order(a, b);
    put<<<1, COUNT, 0, b>>>(data, 1);
}

// Memory is given back to its pool in its own stream while a side stream copies it.
// pytorch/pytorch#188655.
static void side_stream()
{
    int *block;
    cudaMallocAsync(&block, 4096, a);
    cudaMemsetAsync(block, 0, 4096, a);
    order(a, b);
    cudaMemcpyAsync(pinned, block, 4096, cudaMemcpyDefault, b); // <- side_stream
    if (!wrong)
        order(b, a);
    cudaFreeAsync(block, a); // <- side_stream
}

// cudaMemcpy within the device may return before the copy is done. ROCm/MIOpen#3299.
static void device_copy()
{
    cudaMemcpy(data, other, 4096, cudaMemcpyDefault); // <- device_copy
    if (!wrong)
        cudaStreamSynchronize(0);
    take<<<1, COUNT, 0, a>>>(data, other);
}

// The input of a graph's next launch is overwritten while the last launch reads it. ggml-org/llama.cpp#27572.
static void input_reused()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    take<<<1, COUNT, 0, a>>>(data, other);
    cudaStreamEndCapture(a, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, a);
    if (!wrong)
        order(a, b);
    cudaMemcpyAsync(data, pinned, 4096, cudaMemcpyDefault, b); // <- input_reused
}

// Pinned memory is freed during a fill: reported under PTXSIM_CHECK=strict. openxla/xla#46093.
static void freed_pinned()
{
    cudaMemsetAsync(pinned, 0, 4096, a); // <- freed_pinned
    if (!wrong)
        cudaStreamSynchronize(a);
    cudaFreeHost(pinned); // <- freed_pinned
}

// Three cases that print their result: a missing event, a result that is read early, a source that is filled again.
// Under PTXSIM_SCHEDULE=late the results of the wrong versions are wrong.
static void says_other()
{
    int got[COUNT];
    pair();
    cudaDeviceSynchronize();
    cudaMemcpy(got, other, sizeof got, cudaMemcpyDefault);
    printf("%d\n", got[0]);
}

static void says_result()
{
    fill<<<1, COUNT, 0, a>>>(data, 1);
    result_early();
    if (*(volatile int *)pinned == 0)
        puts("zero");
}

static void says_staged()
{
    int got[2];
    for (int round = 0; round < 2; ++round) {
        *(volatile int *)pinned = round;
        cudaMemcpyAsync(data + round, pinned, sizeof *pinned, cudaMemcpyDefault, a);
        if (!wrong)
            cudaStreamSynchronize(a);
    }
    cudaDeviceSynchronize();
    cudaMemcpy(got, data, sizeof got, cudaMemcpyDefault);
    printf("%d %d\n", got[0], got[1]);
}

static void clocks()
{
    int rise[COUNT + 2], sum = 0;
    clocks_rise<<<1, COUNT + 2>>>(data);
    cudaMemcpy(rise, data, sizeof rise, cudaMemcpyDefault);
    for (int each : rise)
        sum += each;
    printf("%d threads\n", sum);
}

int main(int count, char **arguments)
{
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"pair", pair},
                 {"early", early},
                 {"apart", apart},
                 {"cleared", cleared},
                 {"staged", staged},
                 {"copy_back", copy_back},
                 {"overlap", overlap},
                 {"counter", counter},
                 {"result_early", result_early},
                 {"staging", staging},
                 {"managed", managed},
                 {"freed", freed},
                 {"after_race", after_race},
                 {"freed_source", freed_source},
                 {"clocks", clocks},
                 {"says_other", says_other},
                 {"says_result", says_result},
                 {"says_staged", says_staged},
                 {"scalar", scalar},
                 {"pool_reads", pool_reads},
                 {"arguments", arguments_reused},
                 {"constants", constants},
                 {"scratch", scratch},
                 {"arena", arena},
                 {"side_stream", side_stream},
                 {"device_copy", device_copy},
                 {"input_reused", input_reused},
                 {"freed_pinned", freed_pinned},
                 {"branches", branches},
                 {"dependent", dependent_launch}};
    wrong = count > 2 && !strcmp(arguments[2], "wrong");
    cudaMalloc(&data, 4096);
    cudaMalloc(&other, 4096);
    cudaMallocHost(&pinned, 4096);
    cudaMemset(data, 0, 4096);
    cudaMemset(other, 0, 4096);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    if (count > 1 &&
        strcmp(arguments[1], "copy_back")) // copy_back has one stream beside the default
        cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaDeviceSynchronize();
    for (const auto &one : cases)
        if (count > 1 && !strcmp(arguments[1], one.name))
            one.run();
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
