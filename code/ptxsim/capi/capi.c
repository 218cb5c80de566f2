// capi.c: what capi.h offers, on top of the folders up to exec/.
#include "ptxsim/capi/capi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "image/gpus.h"
#include "ptxsim/base/base.h"
#include "ptxsim/ops/tensor_map.h"

// Held during each call that works on modules, memory or launches.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void unlock(const int *locked)
{
    (void)locked;
    pthread_mutex_unlock(&lock);
}
#define LOCK() __attribute__((cleanup(unlock), unused)) int locked = pthread_mutex_lock(&lock)

// ---- Modules ------------------------------------------------------------------------------------

struct module *ptxsim_load(const char *ptx, char *why, size_t size)
{
    LOCK();
    return module_parse(ptx, why, size);
}

void ptxsim_unload(struct module *module)
{
    LOCK();
    module_free(module);
}

const struct kernel *ptxsim_kernel(struct module *module, size_t index)
{
    return module_kernel_at(module, index);
}

const char *ptxsim_kernel_name(const struct kernel *kernel)
{
    return kernel_info(kernel)->name;
}

size_t ptxsim_param_bytes(const struct kernel *kernel)
{
    return kernel_info(kernel)->param_bytes;
}

bool ptxsim_param(const struct kernel *kernel, size_t index, size_t *offset, size_t *bytes)
{
    const struct kernel_info *info = kernel_info(kernel);
    if (index >= (size_t)info->params)
        return false;
    *offset = info->param_offsets[index];
    *bytes = info->param_sizes[index];
    return true;
}

int ptxsim_max_threads(const struct kernel *kernel)
{
    return kernel_info(kernel)->max_threads;
}

void ptxsim_cluster(const struct kernel *kernel, unsigned cluster[3])
{
    memcpy(cluster, kernel_info(kernel)->cluster, sizeof kernel_info(kernel)->cluster);
}

// ---- Memory of the device -----------------------------------------------------------------------

uint64_t ptxsim_alloc(size_t bytes, const void *from)
{
    LOCK();
    void *memory = memory_alloc(bytes);
    if (!memory)
        return 0;
    memory_track(memory);
    if (from) {
        memcpy(memory, from, bytes);
        memory_mark(memory, NULL, bytes);
    }
    return (uint64_t)(uintptr_t)memory;
}

size_t ptxsim_copy(void *to, uint64_t address, size_t bytes)
{
    LOCK();
    const void *from = (const void *)(uintptr_t)address;
    memcpy(to, from, bytes);
    return memory_written(from, bytes);
}

void ptxsim_free(uint64_t address)
{
    LOCK();
    memory_free((void *)(uintptr_t)address);
}

const char *ptxsim_tensor_map(void *map, unsigned kind, unsigned rank, uint64_t address,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                              unsigned swizzle, bool fill_nan)
{
    unsigned element = tensor_element(kind);
    if (!element)
        return "a type of elements that is not known";
    if (rank < 1 || rank > TENSOR_RANK)
        return "a rank that is not 1 to 5";
    if (address % 16)
        return "the tensor is not aligned to 16 bytes";
    if (box[0] * element % 16)
        return "the box's inner dimension is no multiple of 16 bytes";
    if (swizzle && box[0] * element > swizzle)
        return "the box's inner dimension is wider than the swizzle";
    struct tensor_map m = {
        .magic = TENSOR_MAP_MAGIC,
        .rank = (uint8_t)rank,
        .element = (uint8_t)element,
        .swizzle = (uint8_t)swizzle,
        .fill_nan = fill_nan,
        .address = address,
        .kind = (uint8_t)kind,
    };
    for (unsigned i = 0; i < TENSOR_RANK; ++i) {
        bool there = i < rank;
        m.dim[i] = there ? dims[i] : 1;
        m.box[i] = (uint16_t)(there ? box[i] : 1);
        m.step[i] = 1;
        if (there && (box[i] == 0 || box[i] > 256))
            return "a box dimension that is not 1 to 256";
        if (i + 1 >= rank)
            continue;
        if (strides[i] % 16 || strides[i] >= UINT64_C(1) << 40)
            return "a stride that is no multiple of 16 bytes below 2^40";
        m.stride[i] = strides[i];
    }
    memcpy(map, &m, sizeof m);
    return NULL;
}

// ---- Launches -----------------------------------------------------------------------------------

// State of the current launch, which holds the lock.
static const struct ptxsim_launch *now;
static struct fault *reports;
static size_t report_count, report_capacity;

static void take_report(const struct fault *fault)
{
    reports = array_grow(reports, report_count, &report_capacity, sizeof *reports);
    reports[report_count++] = *fault;
}

static void hand_on(const struct fault *fault)
{
    char *record = NULL;
    size_t size = 0;
    FILE *file = checked_alloc(open_memstream(&record, &size));
    fault_write(file, fault);
    fclose(file);
    now->report(checked_alloc(record));
    free(record);
}

static bool is_stopped(uint64_t ended, uint64_t ctas)
{
    (void)ended, (void)ctas;
    return *now->stop;
}

static void count(const struct counts *counts, uint64_t *into)
{
    size_t i = 0;
#define COUNTER(name, title, what) into[i++] = counts->name;
#define CLASS_COUNTER(name, op_class, title, what) into[i++] = counts->classes[CLASS_##op_class];
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
}

const char *ptxsim_counter(size_t index)
{
    static const char *const names[] = {
#define COUNTER(name, title, what) #name,
#define CLASS_COUNTER(name, op_class, title, what) #name,
#include "ptxsim/counts.def"
#undef COUNTER
#undef CLASS_COUNTER
    };
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

size_t ptxsim_launch(const struct kernel *kernel, const struct ptxsim_launch *order,
                     uint64_t *counted)
{
    LOCK();
    struct launch launch = {
        .kernel = kernel,
        .dynamic_shared_bytes = order->dynamic_shared_bytes,
        .params = order->params,
        .gpu = &gpus[GPU_H200],
        .threads = (int)order->threads,
        .schedule = order->schedule,
        .budget = order->budget,
        .check = order->check >= 1,
        .races = order->check >= 2,
        .mine = order->check == 3,
        .strict = order->check == 4,
        .note = take_report,
        .tick = order->stop ? is_stopped : NULL,
    };
    struct counts counts = {0};
    struct line_counts *lines = NULL;
    size_t line_count = 0;
    struct fault fault;

    memcpy(launch.grid, order->grid, sizeof launch.grid);
    memcpy(launch.block, order->block, sizeof launch.block);
    memcpy(launch.cluster, order->cluster, sizeof launch.cluster);
    now = order;
    memory_touched_clear();
    bool passed = launch_run(&launch, &counts, &lines, &line_count, &fault);
    free(lines);
    count(&counts, counted);
    if (!passed)
        hand_on(&fault);
    size_t reported = report_count + !passed;
    for (size_t i = 0; i < report_count; ++i)
        hand_on(&reports[i]);
    report_count = 0;
    return reported;
}
