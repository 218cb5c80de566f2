// capi.h: the simulator for programs in other languages, which find these functions by name (libptxsim.so; python/ calls
// them). No CUDA runtime stands in between: memory, launches and faults are the caller's, nothing is said on stderr, and
// after a fault the next launch is like any other.
//
// The library has a name of its own, exports nothing else, and can so be loaded beside a real CUDA runtime.
#ifndef PTXSIM_CAPI_H
#define PTXSIM_CAPI_H

#include "ptxsim/ptxsim.h"

#pragma GCC visibility push(default)

// ---- Modules ------------------------------------------------------------------------------------

// As module_parse: NULL on an error, which is one line in `why`.
struct module *ptxsim_load(const char *ptx, char *why, size_t size);
// Frees a module whose kernels nobody launches any more.
void ptxsim_unload(struct module *module);
// The index-th kernel; NULL: there are not as many.
const struct kernel *ptxsim_kernel(struct module *module, size_t index);
const char *ptxsim_kernel_name(const struct kernel *kernel); // mangled
// Bytes of its parameters, laid out; where the index-th stands there, and its bytes: false, there are not as many.
size_t ptxsim_param_bytes(const struct kernel *kernel);
bool ptxsim_param(const struct kernel *kernel, size_t index, size_t *offset, size_t *bytes);
// The most threads of a CTA (.maxntid, .reqntid, or 1024); CTAs of a cluster in x, y, z that the kernel asks for, 0: it does not.
int ptxsim_max_threads(const struct kernel *kernel);
void ptxsim_cluster(const struct kernel *kernel, unsigned cluster[3]);

// ---- Memory of the device -----------------------------------------------------------------------

// 256-byte aligned; 0: there is none. `from`, where it is not NULL, has as many bytes, which are copied there; else
// nothing is written yet, and a kernel that reads it is told so.
uint64_t ptxsim_alloc(size_t bytes, const void *from);
// Copies all of an allocation to the host. Gives how many bytes come before the first that nobody has written.
size_t ptxsim_copy(void *to, uint64_t address, size_t bytes);
void ptxsim_free(uint64_t address);
// Fills in a CUtensorMap, 128 bytes at `map`, as cuTensorMapEncodeTiled would. dims: elements, the innermost first;
// strides: bytes, of the dimensions 1 and on; box: elements; kind: CUtensorMapDataType; swizzle: bytes of its span, 0, 32,
// 64 or 128. What is wrong comes back as a text; NULL: nothing.
const char *ptxsim_tensor_map(void *map, unsigned kind, unsigned rank, uint64_t address,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                              unsigned swizzle, bool fill_nan);

// ---- Launches -----------------------------------------------------------------------------------

struct ptxsim_launch {
    unsigned grid[3], block[3], cluster[3]; // cluster 0: as the kernel says
    uint32_t dynamic_shared_bytes;
    uint32_t
        check; // 0: bounds only; 1: reads of what nothing has written, too; 2: races as well; 3: not those within
    // the toolkit's headers; 4: atomics order nothing without a fence
    uint32_t schedule, threads; // as PTXSIM_SCHEDULE and PTXSIM_THREADS
    uint64_t budget;            // warp instructions; 0: no end
    const void *params;         // laid out, ptxsim_param_bytes
    // Called for each fault, in order, when the launch is over: its record, JSON as fault_write (ptxsim.h) makes it.
    void (*report)(const char *record);
    // Looked at while the grid runs, may be NULL; not 0: the launch is stopped, which is its fault.
    const volatile uint8_t *stop;
};
// Runs a grid to its end: how many faults were reported. `counts` gets as many numbers as ptxsim_counter has names.
size_t ptxsim_launch(const struct kernel *kernel, const struct ptxsim_launch *launch,
                     uint64_t *counts);
const char *
ptxsim_counter(size_t index); // of counts.def, in its order; NULL: there are not as many

#pragma GCC visibility pop

#endif
