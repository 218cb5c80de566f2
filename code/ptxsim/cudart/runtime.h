// runtime.h: what the files of the replacement of libcudart.so.13 share.
//
//   error.c         the lock, errors and their names
//   registry.c      fat binaries, kernels and variables, as host code registers them
//   device.c        the simulated device, and its limits
//   count_report.c  what was counted, as JSON
//   terminal.c      shows a launch's progress, and lets Ctrl-C stop it
//   kernels.c       modules, kernels and their attributes
//   written.c       writes down the program's requests instead of carrying them out
//   order.c         the order between streams, and with the host
//   task.c          does pieces of work: launches, copies, fills, graphs of them
//   streams.c       streams, events, capture
//   properties.c    functions that ask for the device's properties
//   occupancy.c     how many CTAs an SM holds
//   launches.c      the functions that launch
//   variables.c     __device__ variables
//   transfers.c     copies and fills as tasks, checked
//   allocations.c   memory, and the pools and graphs that own it
//   copies.c        the functions that copy and fill
//   graphs.c        copies and launches captured graphs
//   tensor_map.c    cuTensorMapEncodeTiled
//   entry_points.c  functions of the driver's library by their names
//   extra/          (extra.h) what only other people's programs call, on top of all this
//
// Each uses only those above it in this list: code/tools/check-floors checks that.
//
// The work of a stream is done at once, when it is submitted (streams.c has the exceptions): this
// is one of the orders that a GPU may choose. A fault of a kernel is therefore reported by the
// launch itself, as with CUDA_LAUNCH_BLOCKING=1, and by every call after it.
//
// What the environment can set stands in ptxsim/settings.def: PTXSIM_CHECK and the others. The checks of races at most
// about double the run time. With PTXSIM_CHECK=strict, an atomic operation orders nothing without a fence, and a copy
// from pageable memory may still be under way when the call returns (order.c). PTXSIM_LAUNCHES is for the grader
// (written.c, labs/judge/), PTXSIM_FAULTS for the command (tool/run.c).
//
// A race does not stop the kernel: it is reported at the kernel's end, each pair of source lines
// once, and the launch fails. Every later call fails as well, but functions that begin with
// API_WORK() still do, and check, what they are asked. A race between streams (order.c) is
// reported, and nothing fails.
#ifndef RUNTIME_H
#define RUNTIME_H

#include "image/fatbin.h"
#include "image/gpus.h"
#include "ptxsim/base/base.h"
#include "ptxsim/ptxsim.h"

// Exported: the API, and nothing else of the library.
#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

const char *ptxsim_version(void) __attribute__((visibility("default")));

// ---- Calls --------------------------------------------------------------------------------------

// Most API functions begin with API_ENTER(): it holds the one lock until the function returns, and
// makes the function return at once, with the error, if a kernel has faulted. API_LOCK() is for the
// few functions that work on a faulted device.
void api_leave(const int *entered);
int api_enter(void);
cudaError_t sticky_error(void);
bool device_stopped(void); // whether a fault has stopped a kernel
#define API_LOCK() __attribute__((cleanup(api_leave), unused)) int entered = api_enter()
#define API_ENTER()                                                                                \
    API_LOCK();                                                                                    \
    if (sticky_error() != cudaSuccess)                                                             \
    return api_result(sticky_error())
// For functions that give the device work or memory: after a fault that has stopped no kernel, such
// as a race, they go on, so that the rest of the program is checked, too; they still return the
// fault's error (api_result).
#define API_WORK()                                                                                 \
    API_LOCK();                                                                                    \
    if (device_stopped())                                                                          \
    return api_result(sticky_error())

// Takes the lock, for functions of the driver's library. A runtime function makes a context,
// current for the calling thread, which may then call driver functions. runtime_called: some thread
// has called a runtime function; runtime_called_here: this thread has.
int driver_enter(void);
extern bool runtime_called;
extern _Thread_local bool runtime_called_here;
extern bool driver_used; // whether the program itself has used the driver's functions

// Remembers an error for cudaGetLastError and returns it; after a fault, the fault's error.
cudaError_t api_result(cudaError_t error);
// Sets an error that stays until the program ends. stops: the device does nothing any more.
cudaError_t api_result_sticky(cudaError_t error, bool stops);

// The driver function of that name, in the version to which CUDA 13's cuda.h gives this name; NULL:
// this library has none.
void *driver_function(const char *name);

// Prints one line on stderr, after "ptxsim: ".
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Reports a fault: as complain() does or, if PTXSIM_FAULTS names a socket, by sending its record
// (fault_write) to ptxsim run, which counts and prints faults itself.
void complain_of(const struct fault *fault);
// At the first launch, tells ptxsim run that a kernel is launched: a record without a fault, {}.
void tell_launched(void);
// The last line that complain or complain_of printed in this thread.
const char *complained(void);

// Makes `other` an alias of `name`: a function that does the same, or the name by which programs
// compiled with --default-stream per-thread call this one.
#define ALSO(name, other)                                                                          \
    extern __typeof__(name) other __attribute__((alias(#name), visibility("default")))

// ---- Kernels and variables ----------------------------------------------------------------------

struct binary { // a fat binary (nvcc makes one for each source file), or a PTX text
    const void *fatbin;
    const char *text;      // a PTX text that the program loads itself, instead of a fat binary
    bool separate;         // compiled separately (-rdc=true): it contains machine code only
    bool loaded, unloaded; // whether the program loads it itself, and has unloaded it
    struct module *module; // NULL until the module is first needed
    // Machine code for the highest arch that the device can run; data NULL: there is none.
    struct image cubin;
    cudaError_t error; // why there is no module
    struct binary *next;
};
// The module of a fat binary, parsed when first needed. An error is explained only once.
cudaError_t binary_module(struct binary *binary, struct module **module);

struct device_variable {
    struct binary *binary;
    const void *host; // address of its shadow in host memory
    const char *name;
    size_t size;
    void **managed; // the host's pointer to a __managed__ variable, else NULL
    struct device_variable *next;
};
struct device_variable *variables_registered(void); // the first one, in a list

struct CUkern_st { // a __global__ function; cudaKernel_t and cudaFunction_t point to this
    struct binary *binary;
    const void *host;       // address of the stub, the function's name in host code
    const char *name;       // the mangled name
    struct kernel *kernel;  // NULL until the kernel is first needed
    int max_dynamic_shared; // set by cudaFuncSetAttribute; -1: not set
    int carveout;
    bool large_clusters; // whether clusters of more than 8 CTAs are allowed
    bool refused;        // whether it needs what the simulator lacks, and that was reported
    unsigned told;       // a bit for each limit (launches.c) whose excess was reported
    // Sums over all launches, for the report.
    uint64_t launches, dram_bytes;
    unsigned grid[3], block[3]; // shape of the last launch
    size_t dynamic_shared_bytes;
    struct counts counts;
    struct line_counts *lines;
    size_t line_count;
    struct CUkern_st *next; // the next in the list of all kernels
    struct CUkern_st *next_launched;
};

// Registers a kernel under the address by which host code launches it; host NULL: it is launched
// only by its handle.
struct CUkern_st *kernel_register(struct binary *binary, const void *host, const char *name);
// kernel_launched: the list of the kernels that were launched, in the order of their first launches.
// kernel_was_launched: adds a kernel, at its first launch.
struct CUkern_st *kernel_launched(void);
void kernel_was_launched(struct CUkern_st *kernel);
// Attributes as cudaFuncGetAttributes gives them, but with numRegs 0 if there is no machine code.
cudaError_t kernel_attributes(struct CUkern_st *kernel, struct cudaFuncAttributes *attributes);
// Registers of a kernel without machine code, estimated from its PTX; the user is told once.
int estimated_registers(struct CUkern_st *kernel);
// The program's kernel of that name; NULL: there is no such kernel.
struct CUkern_st *kernel_named(const char *name);
// A kernel by the host code's name for it: the stub's address, or a handle.
cudaError_t kernel_find(const void *function, struct CUkern_st **kernel);
// A kernel of a fat binary by its mangled name; NULL: there is no such kernel. kernel_registered
// finds only registered kernels; kernel_of also looks in the binary's module, and registers what it
// finds.
struct CUkern_st *kernel_registered(const struct binary *binary, const char *name);
struct CUkern_st *kernel_of(struct binary *binary, const char *name);
// The fat binary in nvcc's wrapper; NULL: not a wrapper.
const void *wrapped(const void *wrapper);

enum {
    PORTABLE_CLUSTER = 8, // most CTAs of a cluster on every GPU with clusters
    LARGEST_CLUSTER = 16  // most on an H200, for a kernel that allows it
};
struct launch_order {
    struct CUkern_st *kernel;
    unsigned grid[3], block[3];
    unsigned cluster[3]; // CTAs of a cluster; 0: the kernel's own
    size_t dynamic_shared_bytes;
    bool cooperative;
    bool early;   // whether it may begin before the previous kernel of the stream has ended
    void *params; // laid out as the kernel's parameters; owned
};

// ---- The device ---------------------------------------------------------------------------------

// The simulated GPU: an L4, or an H200 for a program whose PTX an L4 cannot run.
const struct gpu *device_now(void);
// Replaces the simulated GPU by a newer one, which runs PTX for `arch`; false: there is no such
// GPU, or a kernel was launched already.
bool device_becomes(int arch);
// The compute capability that a device needs to run some PTX of each fat binary: 90 if one of them
// has only PTX for sm_90 and up. 0: there is no PTX.
int arch_needed(void);
const struct cudaDeviceProp *device_properties(void);
// Where the value of a limit is kept; NULL: there is no such limit.
size_t *device_limit(enum cudaLimit limit);
size_t stack_limit(void); // cudaLimitStackSize: bytes of a thread's stack
// CTAs of a kernel that are resident on one SM. estimate true: an unknown number of registers is
// estimated; false: an unknown number does not limit the CTAs.
cudaError_t device_occupancy(struct CUkern_st *kernel, bool estimate, int threads,
                             size_t dynamic_shared, int *blocks);

// ---- Streams ------------------------------------------------------------------------------------

struct task { // a piece of work in a stream, or of a graph's node
    enum {
        TASK_KERNEL,
        TASK_COPY,
        TASK_FILL,
        TASK_HOST,
        TASK_RECORD,
        TASK_NOTHING,
        TASK_GRAPH,
        TASK_CONDITIONAL,
        TASK_ALLOC, // does nothing: the memory was allocated with the node
        TASK_FREE   // does nothing: a graph keeps its memory
    } kind;
    union {
        struct launch_order launch;
        struct {
            char *to;
            const char *from;
            size_t to_pitch, from_pitch, width, height;
            size_t depth, to_slice, from_slice; // depth 0 counts as 1
        } copy;
        struct {
            char *to;
            size_t pitch, width, height; // width in elements of 1, 2 or 4 bytes
            size_t depth, slice;
            unsigned value;
            unsigned char element;
        } fill;
        struct {
            void (*function)(void *);
            void *data;
        } host;
        cudaEvent_t event;
        cudaGraph_t graph; // owned by the task
        struct {
            enum cudaGraphConditionalNodeType type;
            const struct condition *value;
            cudaGraph_t *body; // graphs, owned by the task
            unsigned count;
        } conditional;
    };
};

struct condition { // a cudaGraphConditionalHandle is the address of this; kernels set `now`
    unsigned now, first;
    bool assign; // whether each launch of the graph sets `now` to `first`
};

// Does a task, defers it (PTXSIM_SCHEDULE=late), or adds it to the graph that the stream is
// capturing. Takes over what the task owns.
cudaError_t stream_submit(cudaStream_t stream, struct task *task);
void task_free(struct task *task);
// Does a task now. If a kernel faults, reports the fault; every later call fails then.
cudaError_t task_run(const struct task *task);
cudaError_t launch_now(const struct launch_order *order);
// Launches by kernels, for a library with extra/. take: notes a launch. run: called when a grid has
// ended; runs the launches that were noted for it.
struct extra_children {
    void (*take)(const struct child *child);
    cudaError_t (*run)(const struct CUkern_st *grid);
};
extern const struct extra_children extra_children;

// For a program whose requests are only written down (written.c). only_written: whether this is such a program.
// write_down, write_refusal, write_memory: write down a task, a refused launch, an allocation.
bool only_written(void);
void write_down(const struct task *task);
void write_refusal(cudaError_t error);
void write_memory(const void *address, size_t bytes, bool managed);
bool stream_captures(cudaStream_t stream);
// Begins work that is done in a stream now, after the stream's deferred work. Returns an error if the stream is
// capturing.
cudaError_t stream_now(cudaStream_t stream);
// For functions that are not allowed while a stream is capturing, unless the capture's mode permits
// them: makes such a capture invalid, and returns an error. cudaSuccess: there is no such capture.
cudaError_t capture_forbids(void);
// Called when work for a stream was refused: if the stream is capturing, makes its capture invalid.
// Returns `error`.
cudaError_t capture_broken(cudaStream_t stream, cudaError_t error);

// Allocates memory for a graph, which keeps it until the program ends: freeing it does nothing.
// NULL: there is none left.
void *graph_memory(size_t bytes);
bool graph_keeps(const void *address);
size_t graph_memory_kept(void); // bytes of all graphs' memory
struct pool_use {               // a pool's memory in use, in bytes: now, and at most so far
    size_t bytes, most;
};
// Counts an allocation as a pool's until it is freed; false: out of memory.
bool pool_lends(struct pool_use *pool, const void *address, size_t bytes);
bool pool_owns(const void *address);
// Allocates and frees memory of a pool. Neither waits for a stream's work.
cudaError_t pool_memory(void **address, size_t bytes);
cudaError_t pool_free(void *address);

// Makes tasks from a program's requests, checked. A kernel's arguments are copied.
cudaError_t kernel_order(const void *function, dim3 grid, dim3 block, void **arguments,
                         size_t shared, struct launch_order *order);
cudaError_t copy_task(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
                      size_t height, enum cudaMemcpyKind kind, struct task *task);
cudaError_t fill_task(char *to, size_t pitch, unsigned value, unsigned element, size_t width,
                      size_t height, struct task *task);

// ---- Order (order.c) ----------------------------------------------------------------------------

struct order_clock { // for each timeline: how many of its operations are known to be done
    uint32_t *at;
    size_t count;
};
void order_join(struct order_clock *into, const struct order_clock *more);
void order_drop(struct order_clock *clock);

enum { TIMELINE_NAME = 32 };
struct timeline { // does one operation after another: a stream, or a chain of a graph's nodes
    char name[TIMELINE_NAME];
    unsigned index; // the timeline's index in clocks
    bool begun;
    bool starts_dependents;           // whether its last kernel lets the next one begin early
    struct order_clock knows, before; // before: what its last kernel knew when it began
};
void timeline_begin(struct timeline *t, const char *name);
void timeline_end(struct timeline *t);

// Whether the order between streams is checked (PTXSIM_CHECK).
bool order_kept(void);
bool order_strict(void);
// Whether the work of streams is deferred (PTXSIM_SCHEDULE=late): then order is not checked.
bool order_late(void);
// From now on kernels' accesses to device memory are noted and compared with copies and fills.
// kernels: also with accesses by other kernels, so every byte is noted, not only sectors.
void order_watch(bool kernels);
// Sets the timeline to which the following operations belong; they come after all operations that the host knows to be
// done.
void order_next(struct timeline *t);
struct timeline *order_now(void); // the current timeline; NULL: order is not checked
// Adds to a clock the operations that are done before the next operation of the current timeline.
void order_knows(struct order_clock *clock);
// order_kernel: called before a kernel runs; returns where its accesses are to be noted, or NULL.
// order_kernel_done: called after it has run.
struct touched *order_kernel(struct kernel *kernel);
void order_kernel_done(const struct CUkern_st *kernel, const struct touched *touched, bool early);
// order_copy: notes a copy or a fill. order_waits: sets whether the host waits for the next copy.
// order_allocation: notes that memory of a pool exists from now on, or no longer (frees).
// order_free: called when cudaFree frees memory of a pool, or cudaFreeHost pinned memory; reports
// work that may still use it.
void order_copy(const struct task *task);
void order_waits(bool waits);
void order_allocation(const void *address, bool frees);
void order_free(const void *address, bool pinned_memory);
// Notes that the host has waited for all operations in a clock, or (order_host_knows_all) for all
// work.
void order_host_knows(const struct order_clock *clock);
void order_host_knows_all(void);
// Notes an allocation: an operation before it and one after it never run at the same time.
void order_fence(void);

// Runs a stream's deferred work; the following operations belong to the stream. Returns false, with
// nothing done, if there is no such stream, or if it is capturing.
bool stream_next(cudaStream_t stream);
// For functions that return when their copy is done: notes that the host has waited for it; returns `error`.
cudaError_t stream_waited_after(cudaError_t error);
// streams_wait: makes the host wait for all work. streams_meet: orders an allocation after all work so far, and
// before all later work.
void streams_wait(void);
void streams_meet(void);

// ---- Events and graphs --------------------------------------------------------------------------

struct tips { // nodes of a graph, after which the next work of a stream comes
    struct CUgraphNode_st **nodes;
    size_t count;
};

struct CUevent_st {
    unsigned flags;
    bool recorded;
    unsigned long long capture_id; // the capture that it was last recorded in; 0: none
    struct CUstream_st *stream;    // the stream in that capture
    struct tips tips;              // the stream's tips at that time
    struct order_clock knows;      // operations done before it, when it was last recorded
    uint64_t instructions;         // instructions of all kernels by then
    // The node of the event's deferred record (streams.c), in the graph with the number late_round.
    size_t late_node;
    unsigned late_round;
    struct CUevent_st *next;
};
struct CUevent_st *event_find(cudaEvent_t handle); // NULL: there is no such event
void event_add(struct CUevent_st *event);
bool event_remove(const struct CUevent_st *event); // false: there was no such event

struct CUgraphNode_st {
    struct task task;
    struct CUgraph_st *graph;
    size_t index; // the node's index in its graph
    // In a graph to be launched, the node that this one was made from.
    const struct CUgraphNode_st *source;
    struct CUgraphNode_st **after; // the nodes that this one depends on
    size_t after_count;
    size_t chain; // its chain (nodes that follow each other): an index in the graph's `chains`
    // While the graph is launched: all operations that are done when this node is.
    struct order_clock done;
    struct CUgraphNode_st *copy; // this node's copy, while the graph is copied
    void **arguments; // its arguments, as cudaGraphKernelNodeGetParams gave them; or NULL
};
struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    size_t count, room;
    // Operations done at the end of the graph's last launch; the next launch waits for them.
    struct order_clock done;
    // A timeline for each chain of nodes, once a graph with branches was launched.
    struct timeline *chains;
    size_t chain_count;
};
struct CUgraph_st *graph_new(void); // an empty graph; NULL: out of memory
// Adds a node; NULL: it failed. In both cases takes over what the task owns.
struct CUgraphNode_st *graph_node(struct CUgraph_st *graph, struct task *task);
// Makes a node depend on others of its graph, at most once on each.
cudaError_t graph_depend(struct CUgraphNode_st *node, struct CUgraphNode_st *const *on,
                         size_t count);
void graph_remove_last(struct CUgraph_st *graph);
// Copies a graph, its nodes in an order for launching; cudaErrorInvalidValue: there is no such
// order.
cudaError_t graph_copy(const struct CUgraph_st *graph, struct CUgraph_st **copy);
struct CUgraphExec_st {
    struct CUgraph_st *graph; // the graph, with its nodes in launch order
};
cudaError_t graph_run(struct CUgraph_st *graph); // runs its tasks in the order of its nodes
void graph_free(cudaGraph_t graph);

// ---- The terminal (terminal.c) ------------------------------------------------------------------

// Called around a launch: Ctrl-C then stops it (launch.tick), unless the program has its own
// handler; and if stderr is a terminal, the progress of a program that runs longer than some
// seconds is shown there.
void terminal_begin(const char *mangled);
bool terminal_tick(uint64_t ended, uint64_t ctas);
void terminal_end(void);

// ---- Report -------------------------------------------------------------------------------------

void report_fault(const struct fault *fault); // puts a fault into the report
// Makes a fault of the host, and reports it. reported: it also goes into the report of
// PTXSIM_REPORT.
void complain_of_host(enum fault_kind kind, bool reported, const struct host_line *line,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
void report_endless(void); // notes that the next fault is a loop that does not end

#endif
