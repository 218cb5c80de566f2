// launches.c: <<<...>>> and the functions that launch a kernel: they check the request and pass it
// to the stream.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 16 };

// nvcc declares these functions in an internal C++ header.
#pragma GCC visibility push(default)
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
#pragma GCC visibility pop

// nvcc turns <<<...>>> into two calls: one pushes the configuration, the other pops it. This needs
// a stack because arguments that are evaluated in between may launch kernels, too.
static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} calls[CALLS_MAX];
static _Thread_local int call_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (call_count == CALLS_MAX)
        return 1;
    calls[call_count].grid = grid;
    calls[call_count].block = block;
    calls[call_count].shared = shared;
    calls[call_count++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (call_count == 0)
        return api_result(cudaErrorMissingConfiguration);
    --call_count;
    *grid = calls[call_count].grid;
    *block = calls[call_count].block;
    *shared = calls[call_count].shared;
    memcpy(stream, &calls[call_count].stream, sizeof calls[call_count].stream);
    return cudaSuccess;
}

// The limits of a launch. Exceeding one is reported once for each kernel; if several of x, y and z
// are too large, only the first is reported.
enum limit {
    LIMIT_GRID,
    LIMIT_BLOCK = 3,
    LIMIT_THREADS = 6,
    LIMIT_REGISTERS,
    LIMIT_SHARED,
    LIMIT_CLUSTER
};

// Reports a refused launch, since a program that does not ask for a launch's error would not
// notice.
static cudaError_t refuse_launch(struct CUkern_st *kernel, enum limit limit, size_t value,
                                 size_t most, cudaError_t error)
{
    static const char *const what[] = {
        [LIMIT_GRID] = "blocks in x",
        [LIMIT_GRID + 1] = "blocks in y",
        [LIMIT_GRID + 2] = "blocks in z",
        [LIMIT_BLOCK] = "threads of a block in x",
        [LIMIT_BLOCK + 1] = "threads of a block in y",
        [LIMIT_BLOCK + 2] = "threads of a block in z",
        [LIMIT_THREADS] = "threads in a block",
        [LIMIT_REGISTERS] = "threads in a block, with its registers",
        [LIMIT_SHARED] = "bytes of dynamic shared memory",
        [LIMIT_CLUSTER] = "blocks in a cluster",
    };
    char name[96];

    if (!(kernel->told >> limit & 1)) {
        kernel_base_name(kernel->name, name, sizeof name);
        complain("%s is not launched: %zu %s, %s %zu%s", name, value, what[limit],
                 value ? "at most" : "where there must be 1 to", most,
                 limit == LIMIT_SHARED || (limit == LIMIT_CLUSTER && most == PORTABLE_CLUSTER &&
                                           value <= LARGEST_CLUSTER)
                     ? " (cudaFuncSetAttribute asks for more)"
                     : "");
    }
    kernel->told |= 1u << limit;
    return error;
}

static cudaError_t check_launch(struct CUkern_st *kernel, dim3 grid, dim3 block, size_t shared)
{
    const struct cudaDeviceProp *device = device_properties();
    struct cudaFuncAttributes attributes;
    cudaError_t error = kernel_attributes(kernel, &attributes);

    if (error != cudaSuccess)
        return error;
    size_t threads = (size_t)block.x * block.y * block.z;
    size_t most = (size_t)kernel_info(kernel->kernel)->max_threads;
    const unsigned asked[] = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
    for (int i = 0; i < 6; ++i) {
        int limit = i < 3 ? device->maxGridSize[i] : device->maxThreadsDim[i - 3];
        // A block that is too large as a whole is reported as such.
        bool whole_block = i >= 3 && threads > most;
        if (asked[i] == 0 || (asked[i] > (unsigned)limit && !whole_block))
            return refuse_launch(kernel, (enum limit)i, asked[i], (size_t)limit,
                                 cudaErrorInvalidValue);
    }
    if (threads > most)
        return refuse_launch(kernel, LIMIT_THREADS, threads, most, cudaErrorInvalidValue);
    if (shared > (size_t)attributes.maxDynamicSharedSizeBytes)
        return refuse_launch(kernel, LIMIT_SHARED, shared,
                             (size_t)attributes.maxDynamicSharedSizeBytes, cudaErrorInvalidValue);
    if (threads > (size_t)attributes.maxThreadsPerBlock)
        return refuse_launch(kernel, LIMIT_REGISTERS, threads,
                             (size_t)attributes.maxThreadsPerBlock, cudaErrorLaunchOutOfResources);
    return cudaSuccess;
}

// Checks the CTAs of a cluster. If cluster[0] is 0, first sets `cluster` to what the kernel asks
// for.
static cudaError_t check_cluster(struct CUkern_st *kernel, dim3 grid, unsigned cluster[3])
{
    const unsigned *fixed = kernel_info(kernel->kernel)->cluster;
    const unsigned sides[3] = {grid.x, grid.y, grid.z};
    size_t most = kernel->large_clusters ? LARGEST_CLUSTER : PORTABLE_CLUSTER, size = 1;
    char name[96];

    kernel_base_name(kernel->name, name, sizeof name);
    if (cluster[0] && fixed[0] && memcmp(cluster, fixed, sizeof sides) != 0) {
        complain("%s is not launched: clusters of %u x %u x %u, where __cluster_dims__ says %u x "
                 "%u x %u",
                 name, cluster[0], cluster[1], cluster[2], fixed[0], fixed[1], fixed[2]);
        return cudaErrorInvalidClusterSize;
    }
    if (!cluster[0])
        memcpy(cluster, fixed, sizeof sides);
    if (!cluster[0])
        return cudaSuccess;
    for (int i = 0; i < 3; ++i)
        size *= cluster[i] > LARGEST_CLUSTER ? LARGEST_CLUSTER + 1 : cluster[i];
    if (size > 1 && device_now()->arch < 90) {
        complain("%s is not launched: clusters of several blocks are for sm_90: build with "
                 "-arch=compute_90, and with nothing older",
                 name);
        return cudaErrorNotSupported;
    }
    if (!size || size > most)
        return refuse_launch(kernel, LIMIT_CLUSTER, size, most, cudaErrorInvalidClusterSize);
    for (int i = 0; i < 3; ++i)
        if (sides[i] % cluster[i]) {
            complain("%s is not launched: a grid of %u x %u x %u blocks, of which clusters of %u x "
                     "%u x %u "
                     "leave some over",
                     name, grid.x, grid.y, grid.z, cluster[0], cluster[1], cluster[2]);
            return cudaErrorInvalidClusterSize;
        }
    return cudaSuccess;
}

// Copies the arguments of a call to the layout of the kernel's parameters.
static void *lay_out(const struct kernel_info *info, void **arguments)
{
    char *params = calloc(1, info->param_bytes + 1);

    for (int i = 0; params && i < info->params; ++i)
        memcpy(params + info->param_offsets[i], arguments[i], info->param_sizes[i]);
    return params;
}

// Makes a launch order. cluster: CTAs of a cluster; NULL: the kernel's own.
static cudaError_t prepare(const void *function, dim3 grid, dim3 block, void **arguments,
                           size_t shared, bool cooperative, const dim3 *cluster,
                           struct launch_order *order)
{
    struct CUkern_st *kernel;
    cudaError_t error = kernel_find(function, &kernel);
    unsigned shape[3] = {0};
    int resident = 0;

    if (cluster && !(cluster->x && cluster->y && cluster->z))
        return cudaErrorInvalidClusterSize;
    if (cluster)
        memcpy(shape, (const unsigned[]){cluster->x, cluster->y, cluster->z}, sizeof shape);
    if (error == cudaSuccess)
        error = check_launch(kernel, grid, block, shared);
    if (error == cudaSuccess)
        error = check_cluster(kernel, grid, shape);
    if (error == cudaSuccess && cooperative)
        error =
            device_occupancy(kernel, false, (int)(block.x * block.y * block.z), shared, &resident);
    if (error != cudaSuccess)
        return error;
    if (cooperative &&
        (uint64_t)grid.x * grid.y * grid.z > (uint64_t)resident * (unsigned)device_now()->sms)
        return cudaErrorCooperativeLaunchTooLarge;
    const struct kernel_info *info = kernel_info(kernel->kernel);
    if (info->params > 0 && !arguments)
        return cudaErrorInvalidValue;
    *order = (struct launch_order){
        .kernel = kernel,
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .cluster = {shape[0], shape[1], shape[2]},
        .dynamic_shared_bytes = shared,
        .cooperative = cooperative,
        .params = lay_out(info, arguments),
    };
    return order->params ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t kernel_order(const void *function, dim3 grid, dim3 block, void **arguments,
                         size_t shared, struct launch_order *order)
{
    return prepare(function, grid, block, arguments, shared, false, NULL, order);
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments,
                          size_t shared, cudaStream_t stream, bool cooperative, const dim3 *cluster,
                          bool early)
{
    struct task task = {.kind = TASK_KERNEL};
    cudaError_t error =
        prepare(function, grid, block, arguments, shared, cooperative, cluster, &task.launch);

    if (error != cudaSuccess) {
        write_refusal(error);
        return capture_broken(stream, error);
    }
    task.launch.early = early;
    return stream_submit(stream, &task);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    API_WORK();
    return api_result(launch(function, grid, block, arguments, shared, stream, false, NULL, false));
}
ALSO(cudaLaunchKernel, cudaLaunchKernel_ptsz);

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
ALSO(__cudaLaunchKernel, __cudaLaunchKernel_ptsz);

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream)
{
    API_WORK();
    return api_result(launch(function, grid, block, arguments, shared, stream, true, NULL, false));
}
ALSO(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz);

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments)
{
    API_WORK();
    bool cooperative = false, early = false;
    dim3 cluster, *asked = NULL;
    if (!config || (config->numAttrs > 0 && !config->attrs))
        return api_result(cudaErrorInvalidValue);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute *a = &config->attrs[i];
        if (a->id == cudaLaunchAttributeCooperative)
            cooperative = a->val.cooperative != 0;
        if (a->id == cudaLaunchAttributeProgrammaticStreamSerialization)
            early = a->val.programmaticStreamSerializationAllowed != 0;
        if (a->id != cudaLaunchAttributeClusterDimension)
            continue;
        cluster.x = a->val.clusterDim.x;
        cluster.y = a->val.clusterDim.y;
        cluster.z = a->val.clusterDim.z;
        asked = &cluster;
    }
    return api_result(launch(function, config->gridDim, config->blockDim, arguments,
                             config->dynamicSmemBytes, config->stream, cooperative, asked, early));
}
ALSO(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz);
