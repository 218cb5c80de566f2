// capi.h: the simulator for programs in other languages, which find these functions by name
// (libptxsim.so; python/ calls them). There is no CUDA runtime in between: memory, launches and
// faults are the caller's, nothing is printed on stderr, and after a fault the next launch is like
// any other.
//
// The library has a name of its own and exports nothing else, so it can be loaded beside a real
// CUDA runtime.
#ifndef PTXSIM_CAPI_H
#define PTXSIM_CAPI_H

#include "ptxsim/ptxsim.h"

#pragma GCC visibility push(default)

// ---- Modules ------------------------------------------------------------------------------------

// Like module_parse: NULL on an error, with one line in `why`.
struct module *ptxsim_load(const char *ptx, char *why, size_t size);
// Frees a module; none of its kernels may be launched any more.
void ptxsim_unload(struct module *module);
// The index-th kernel; NULL if there are not so many.
const struct kernel *ptxsim_kernel(struct module *module, size_t index);
const char *ptxsim_kernel_name(const struct kernel *kernel); // mangled
// Bytes of all parameters in their layout; the offset and the bytes of the index-th: false if there
// are not so many.
size_t ptxsim_param_bytes(const struct kernel *kernel);
bool ptxsim_param(const struct kernel *kernel, size_t index, size_t *offset, size_t *bytes);
// The most threads of a CTA (.maxntid, .reqntid, or 1024); the CTAs of a cluster in x, y, z that
// the kernel asks for, 0: none.
int ptxsim_max_threads(const struct kernel *kernel);
void ptxsim_cluster(const struct kernel *kernel, unsigned cluster[3]);

// ---- Memory of the device -----------------------------------------------------------------------

// Allocates memory, 256-byte aligned; 0: there is none left. If `from` is not NULL, so many bytes
// are copied from there; otherwise the memory counts as never written, and a kernel that reads it
// is reported.
uint64_t ptxsim_alloc(size_t bytes, const void *from);
// Copies all of an allocation to the host. Returns how many bytes come before the first that was
// never written.
size_t ptxsim_copy(void *to, uint64_t address, size_t bytes);
void ptxsim_free(uint64_t address);
// Fills in a CUtensorMap, 128 bytes at `map`, as cuTensorMapEncodeTiled would. dims: elements, the
// innermost first; strides: bytes, from dimension 1 on; box: elements; kind: CUtensorMapDataType;
// swizzle: bytes of its span, 0, 32, 64 or 128. Returns what is wrong as a text; NULL: nothing.
const char *ptxsim_tensor_map(void *map, unsigned kind, unsigned rank, uint64_t address,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                              unsigned swizzle, bool fill_nan);

// ---- Launches -----------------------------------------------------------------------------------

struct ptxsim_launch {
    unsigned grid[3], block[3], cluster[3]; // cluster 0: as the kernel asks
    uint32_t dynamic_shared_bytes;
    uint32_t
        check; // 0: bounds only; 1: also reads of memory never written; 2: also races; 3: also races within
    // the toolkit's headers; 4: atomics order nothing without a fence
    uint32_t schedule, threads; // as PTXSIM_SCHEDULE and PTXSIM_THREADS
    uint64_t budget;            // warp instructions; 0: no limit
    const void *params;         // in their layout, ptxsim_param_bytes() of them
    // Called for each fault, in order, when the launch is over; gets its record, JSON as
    // fault_write (ptxsim.h) makes it.
    void (*report)(const char *record);
    // Read while the grid runs; may be NULL. When it is not 0, the launch is stopped, and that is
    // its fault.
    const volatile uint8_t *stop;
};
// Runs a grid to its end and returns the number of faults. `counts` receives a number for each
// ptxsim_counter.
size_t ptxsim_launch(const struct kernel *kernel, const struct ptxsim_launch *launch,
                     uint64_t *counts);
const char *
ptxsim_counter(size_t index); // names of counts.def's rows, in order; NULL: there are not so many

#pragma GCC visibility pop

#endif
