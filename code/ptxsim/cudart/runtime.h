// runtime.h: what the files of the replacement of libcudart.so.13 share.
//
//   error.c         the lock, errors and their names
// registry.c fat binaries, kernels and variables, which host code registers
//   device.c        the simulated device, and its limits
//   count_report.c  what was counted, as JSON
//   terminal.c      how far a launch is, and Ctrl-C
//   kernels.c       modules, kernels and their attributes
// written.c writes requests down instead of carrying them out
//   order.c         the order between streams, and with the host
// task.c runs launches, copies, fills, and graphs of them
//   streams.c       streams, events, capture
// properties.c tells a program about the device
//   occupancy.c     how many CTAs an SM holds
//   launches.c      the functions that launch
//   variables.c     __device__ variables
//   transfers.c     copies and fills as tasks, checked
// allocations.c memory, and which allocations belong to a pool or a graph
//   copies.c        the functions that copy and fill
//   graphs.c        captured graphs, launched
//   tensor_map.c    cuTensorMapEncodeTiled
// entry_points.c functions of the driver's library by name
// extra/ (extra.h) what only other people's programs call; uses all of this
//
// Each uses only those above it in this list: code/tools/check-floors holds that.
//
// The work of a stream is done at once, when it is submitted: this is one of the orders that a GPU
// may choose. A fault of a kernel is therefore reported by the launch itself, as with
// CUDA_LAUNCH_BLOCKING=1, and by every call after it.
//
// The environment variables are described in ptxsim/settings.def: PTXSIM_CHECK and others. Race
// checks at most double the time of a run. Under PTXSIM_CHECK=strict an atomic operation orders
// nothing without a fence, and a copy from pageable memory is not done when it returns (order.c).
// PTXSIM_LAUNCHES is for the grader (written.c, labs/judge/), PTXSIM_FAULTS for ptxsim run
// (tool/run.c).
//
// A race does not stop the kernel: it is reported at the kernel's end, once for each pair of lines,
// and the launch fails. Every later call fails as well, but does what it is asked for, with checks.
// A race between streams (order.c) is reported, and no call fails.
#ifndef RUNTIME_H
#define RUNTIME_H

#include "image/fatbin.h"
#include "image/gpus.h"
#include "ptxsim/base/base.h"
#include "ptxsim/ptxsim.h"

// Only the functions of the API are exported.
#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

const char *ptxsim_version(void) __attribute__((visibility("default")));

// ---- Calls --------------------------------------------------------------------------------------

// Every API function begins with API_ENTER(). It takes the one lock, which is held until the
// function returns; if a kernel has faulted, the function returns that error at once. API_LOCK() is
// for the few functions that work on a faulted device.
void api_leave(const int *entered);
int api_enter(void);
cudaError_t sticky_error(void);
bool device_stopped(void); // a kernel has faulted and did not run to its end
#define API_LOCK() __attribute__((cleanup(api_leave), unused)) int entered = api_enter()
#define API_ENTER()                                                                                \
    API_LOCK();                                                                                    \
    if (sticky_error() != cudaSuccess)                                                             \
    return api_result(sticky_error())
// API_WORK() is for functions that work on memory: after a fault that has stopped no kernel, such
// as a race, they do their work, so that the rest of the program is checked, too; they still return
// the fault's error (api_result).
#define API_WORK()                                                                                 \
    API_LOCK();                                                                                    \
    if (device_stopped())                                                                          \
    return api_result(sticky_error())

// Takes the lock, for functions of the driver's library. A call of a runtime function makes a
// context current for the calling thread, which may then call driver functions. runtime_called:
// some thread has called a runtime function; runtime_called_here: this thread has.
int driver_enter(void);
extern bool runtime_called;
extern _Thread_local bool runtime_called_here;
extern bool driver_used; // the program itself has used functions of the driver

// Remembers an error for cudaGetLastError and returns it; after a fault, the fault's error.
cudaError_t api_result(cudaError_t error);
// Sets an error that stays until the program ends. stops: from now on the device does nothing.
cudaError_t api_result_sticky(cudaError_t error, bool stops);

// The driver function of that name, in the version that cuda.h of CUDA 13 means; NULL: the
// simulator lacks it.
void *driver_function(const char *name);

// Prints one line on stderr, after "ptxsim: ".
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Reports a fault. If PTXSIM_FAULTS names a socket, sends the fault's record (fault_write) to
// ptxsim run, which counts and prints faults; otherwise prints it as complain() does.
void complain_of(const struct fault *fault);
// Tells ptxsim run that a kernel is launched: a record without a fault, {}.
void tell_launched(void);
const char *complained(void); // the last line that was printed

// Makes `other` an alias of `name`, for programs that call the function by that name: those
// compiled with --default-stream per-thread, for example.
#define ALSO(name, other)                                                                          \
    extern __typeof__(name) other __attribute__((alias(#name), visibility("default")))

// ---- Kernels and variables ----------------------------------------------------------------------

struct binary { // a fat binary: usually one source file
    const void *fatbin;
    const char *text;      // a PTX text loaded by the program itself, instead of a fat binary
    bool separate;         // compiled separately (-rdc=true): linked as machine code only
    bool loaded, unloaded; // loaded at run time by the program itself (extra/libraries.c)
    struct module *module; // NULL until it is first needed
    struct image cubin;    // for the highest arch not above the device's; data NULL: there is none
    cudaError_t error;     // the reason if there is no module
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
struct device_variable *variables_registered(void); // the first one registered

struct CUkern_st { // a __global__ function; cudaKernel_t and cudaFunction_t point to this
    struct binary *binary;
    const void *host;       // address of its stub: the kernel's name in host code
    const char *name;       // mangled
    struct kernel *kernel;  // NULL until first needed
    int max_dynamic_shared; // set by cudaFuncSetAttribute; -1: not set
    int carveout;
    bool large_clusters; // more than 8 CTAs are allowed
    bool refused;        // it needs a feature that the simulator lacks, which has been reported
    unsigned told;       // refusals that have been reported, one bit each (launches.c)
    // Sums over all launches, for the report.
    uint64_t launches, dram_bytes;
    unsigned grid[3], block[3]; // of the last launch
    size_t dynamic_shared_bytes;
    struct counts counts;
    struct line_counts *lines;
    size_t line_count;
    struct CUkern_st *next; // in the list of all kernels
    struct CUkern_st *next_launched;
};

// Registers a kernel under the address by which host code launches it; host NULL: it is launched
// only by its handle.
struct CUkern_st *kernel_register(struct binary *binary, const void *host, const char *name);
struct CUkern_st *kernel_launched(void);            // the first kernel that was launched;
                                                    // next_launched: the order
void kernel_was_launched(struct CUkern_st *kernel); // at its first launch
// Attributes as cudaFuncGetAttributes returns them; registers are those of the machine code for
// sm_89.
cudaError_t kernel_attributes(struct CUkern_st *kernel, struct cudaFuncAttributes *attributes);
// Registers of a kernel without machine code, estimated from its PTX; the user is told once.
int estimated_registers(struct CUkern_st *kernel);
// The program's kernel of that name; NULL: there is no such kernel.
struct CUkern_st *kernel_named(const char *name);
// Finds a kernel by host code's name for it: the address of its stub, or a handle.
cudaError_t kernel_find(const void *function, struct CUkern_st **kernel);
// Find a kernel of a fat binary by its mangled name: kernel_registered among registered ones,
// kernel_of also in the binary's module. NULL: there is no such kernel.
struct CUkern_st *kernel_registered(const struct binary *binary, const char *name);
struct CUkern_st *kernel_of(struct binary *binary, const char *name);
// The fat binary inside nvcc's wrapper; NULL: `wrapper` is none.
const void *wrapped(const void *wrapper);

enum {
    PORTABLE_CLUSTER = 8,
    LARGEST_CLUSTER = 16
}; // CTAs of a cluster: on any GPU that has clusters; on an H200
struct launch_order {
    struct CUkern_st *kernel;
    unsigned grid[3], block[3];
    unsigned cluster[3]; // CTAs of a cluster; 0: as the kernel says
    size_t dynamic_shared_bytes;
    bool cooperative;
    bool early;   // it may begin before the stream's previous kernel has ended
    void *params; // in the layout of the kernel's parameters; owned
};

// ---- The device ---------------------------------------------------------------------------------

// The simulated GPU: an L4, or an H200 for a program whose PTX an L4 cannot run.
const struct gpu *device_now(void);
// Changes to a device that runs PTX of `arch`; false: there is none, or it is too late to change.
bool device_becomes(int arch);
// The compute capability that a device needs in order to run some PTX of every fat binary: 90 if
// one of them has PTX for sm_90 and above only; 0: there is no PTX.
int arch_needed(void);
const struct cudaDeviceProp *device_properties(void);
size_t *device_limit(enum cudaLimit limit); // where the value is kept; NULL: there is no such limit
size_t stack_limit(void);                   // cudaLimitStackSize: bytes of a thread's stack
// CTAs of a kernel that are resident on one SM. If its registers are unknown, they are estimated
// (estimate), or else do not limit the number.
cudaError_t device_occupancy(struct CUkern_st *kernel, bool estimate, int threads,
                             size_t dynamic_shared, int *blocks);

// ---- Streams ------------------------------------------------------------------------------------

struct task { // a piece of work, of a stream or of a graph's node
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
        cudaGraph_t graph; // owned
        struct {
            enum cudaGraphConditionalNodeType type;
            const struct condition *value;
            cudaGraph_t *body; // owned, like the graphs
            unsigned count;
        } conditional;
    };
};

struct condition { // its address is a cudaGraphConditionalHandle; kernels set `now`
    unsigned now, first;
    bool assign; // each launch of the graph sets `now` to `first`
};

// Runs a task, or adds it to the graph that the stream is capturing. Takes over what the task owns.
cudaError_t stream_submit(cudaStream_t stream, struct task *task);
void task_free(struct task *task);
// Runs a task now. If a kernel faults, explains the fault; every later call then fails.
cudaError_t task_run(const struct task *task);
cudaError_t launch_now(const struct launch_order *order);
// Launches made by kernels, in a library with extra/. take: keeps such a launch; the other function
// runs the launches of a grid that has ended.
struct extra_children {
    void (*take)(const struct child *child);
    cudaError_t (*run)(const struct CUkern_st *grid);
};
extern const struct extra_children extra_children;

// For a program whose requests are written down and not carried out (written.c). only_written:
// whether this program is one. The others write down a task, a refused launch, an allocation.
bool only_written(void);
void write_down(const struct task *task);
void write_refusal(cudaError_t error);
void write_memory(const void *address, size_t bytes, bool managed);
bool stream_captures(cudaStream_t stream);
// cudaSuccess if work may be done in a stream now, and not while it is capturing.
cudaError_t stream_now(cudaStream_t stream);
// For functions that are forbidden while a stream is capturing: makes the capture invalid.
cudaError_t capture_forbids(void);
// Returns an error of work that a stream refused; if the stream is capturing, makes the capture
// invalid.
cudaError_t capture_broken(cudaStream_t stream, cudaError_t error);

// Allocates memory owned by a graph, which keeps it; NULL: no memory is left. Freeing it has no
// effect.
void *graph_memory(size_t bytes);
bool graph_keeps(const void *address);
size_t graph_memory_kept(void); // bytes of all graphs' memory
struct pool_use {               // memory of a pool in use, in bytes: now, and at most so far
    size_t bytes, most;
};
// Counts an allocation as the pool's until it is freed; false: no memory is left.
bool pool_lends(struct pool_use *pool, const void *address, size_t bytes);
bool pool_owns(const void *address);
// Allocate and free memory of a pool, without waiting for any stream's work.
cudaError_t pool_memory(void **address, size_t bytes);
cudaError_t pool_free(void *address);

// These check a program's requests, and make tasks of them. A kernel's arguments are copied.
cudaError_t kernel_order(const void *function, dim3 grid, dim3 block, void **arguments,
                         size_t shared, struct launch_order *order);
cudaError_t copy_task(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
                      size_t height, enum cudaMemcpyKind kind, struct task *task);
cudaError_t fill_task(char *to, size_t pitch, unsigned value, unsigned element, size_t width,
                      size_t height, struct task *task);

// ---- Order (order.c) ----------------------------------------------------------------------------

struct order_clock { // for each timeline, how many of its operations are known to be done
    uint32_t *at;
    size_t count;
};
void order_join(struct order_clock *into, const struct order_clock *more);
void order_drop(struct order_clock *clock);

enum { TIMELINE_NAME = 32 };
struct timeline { // does one operation after another: a stream, or a chain of a graph's nodes
    char name[TIMELINE_NAME];
    unsigned index; // its index in clocks
    bool begun;
    bool starts_dependents;           // its last kernel lets the next one begin early
    struct order_clock knows, before; // before: what its last kernel knew when it began
};
void timeline_begin(struct timeline *t, const char *name);
void timeline_end(struct timeline *t);

// order_kept: whether the order between streams is checked (PTXSIM_CHECK).
bool order_kept(void);
bool order_strict(void);
// Whether the work of streams is put off (PTXSIM_SCHEDULE=late); if so, order is not checked.
bool order_late(void);
// From now on accesses of kernels to device memory are compared with copies; with `kernels`, also
// with those of other kernels.
void order_watch(bool kernels);
// The operations that follow belong to this timeline, and come after all that the host knows to be
// done.
void order_next(struct timeline *t);
struct timeline *order_now(void); // the current timeline; NULL: order is not checked
// The next operation of the current timeline comes after the operations of this clock.
void order_knows(struct order_clock *clock);
// order_kernel: a kernel is about to run; returns where to note its accesses, or NULL.
// order_kernel_done: the kernel has run.
struct touched *order_kernel(struct kernel *kernel);
void order_kernel_done(const struct CUkern_st *kernel, const struct touched *touched, bool early);
// order_copy: a copy or a fill is done. order_allocation: memory of a pool exists from now on, or
// no longer (frees). order_free: memory of a pool is freed by cudaFree, which does not wait.
void order_copy(const struct task *task);
void order_waits(bool waits); // whether the next copy returns only when it is done
void order_allocation(const void *address, bool frees);
void order_free(const void *address, bool pinned_memory);
// The host has waited: for all operations of a clock; for all work.
void order_host_knows(const struct order_clock *clock);
void order_host_knows_all(void);
// Notes an allocation: no operation before it runs at the same time as one after it.
void order_fence(void);

// The operations that follow belong to that stream; false: there is no such stream, or it is
// capturing.
bool stream_next(cudaStream_t stream);
// For functions that return when their copy is done: the host has waited for it.
cudaError_t stream_waited_after(cudaError_t error);
// streams_wait: the host waits for all work. streams_meet: an allocation comes after all work.
void streams_wait(void);
void streams_meet(void);

// ---- Events and graphs --------------------------------------------------------------------------

struct tips { // nodes of a graph, after which a captured stream's next work comes
    struct CUgraphNode_st **nodes;
    size_t count;
};

struct CUevent_st {
    unsigned flags;
    bool recorded;
    unsigned long long capture_id; // of the capture that it was last recorded in; 0: in none
    struct CUstream_st *stream;    // the stream in that capture
    struct tips tips;              // the stream's tips at that time
    struct order_clock knows;      // operations that were done before it was last recorded
    uint64_t instructions;         // instructions that all kernels had executed at that time
    size_t late_node; // in round late_round (streams.c): the node of a record that is put off
    unsigned late_round;
    struct CUevent_st *next;
};
struct CUevent_st *event_find(cudaEvent_t handle); // NULL: there is no such event
void event_add(struct CUevent_st *event);
bool event_remove(const struct CUevent_st *event); // false: there was no such event

struct CUgraphNode_st {
    struct task task;
    struct CUgraph_st *graph;
    size_t index;                        // index in its graph
    const struct CUgraphNode_st *source; // in a copied graph: the node that it was copied from
    struct CUgraphNode_st **after;       // the nodes that it depends on
    size_t after_count;
    size_t chain;                // number of its chain: nodes that follow one another
    struct order_clock done;     // during a launch: all operations that are done when this node is
    struct CUgraphNode_st *copy; // during a copy of the graph: this node's copy
    void **arguments;            // as cudaGraphKernelNodeGetParams returned them; or NULL
};
struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    size_t count, room;
    struct order_clock
        done; // operations done at the end of its last launch, which the next one waits for
    struct timeline
        *chains; // a timeline for each chain of nodes, once a graph with branches was launched
    size_t chain_count;
};
struct CUgraph_st *graph_new(void); // NULL: out of memory
// Adds a node. Takes over what the task owns, even if it fails (NULL).
struct CUgraphNode_st *graph_node(struct CUgraph_st *graph, struct task *task);
// Makes a node depend on other nodes of its graph; each dependency is added once.
cudaError_t graph_depend(struct CUgraphNode_st *node, struct CUgraphNode_st *const *on,
                         size_t count);
void graph_remove_last(struct CUgraph_st *graph);
// Copies a graph, with its nodes in an order for launching; cudaErrorInvalidValue: there is no such
// order.
cudaError_t graph_copy(const struct CUgraph_st *graph, struct CUgraph_st **copy);
struct CUgraphExec_st {
    struct CUgraph_st *graph; // a copy with its nodes in the order of launching
};
cudaError_t graph_run(struct CUgraph_st *graph); // runs the tasks of the nodes in their order
void graph_free(cudaGraph_t graph);

// ---- The terminal (terminal.c) ------------------------------------------------------------------

// Called before and after a launch. During it, Ctrl-C stops the launch (launch.tick), unless the
// program has its own handler; if stderr is a terminal, the progress is shown there once the
// program has run for some seconds.
void terminal_begin(const char *mangled);
bool terminal_tick(uint64_t ended, uint64_t ctas);
void terminal_end(void);

// ---- Report -------------------------------------------------------------------------------------

void report_fault(const struct fault *fault); // adds a fault to the report of PTXSIM_REPORT
// Reports a fault made by the host. reported: also adds it to the report of PTXSIM_REPORT.
void complain_of_host(enum fault_kind kind, bool reported, const struct host_line *line,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
void report_endless(void); // says that the next fault is an endless loop

#endif
