// capi.h: the simulator for programs in other languages, which find these functions by name in
// libptxsim.so; python/ calls them. They work without a CUDA runtime: the caller manages memory,
// launches and faults, nothing is printed on stderr, and after a fault the next launch is like any
// other.
//
// The library has its own name and exports only these functions, so it can be loaded beside a real
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
// The index-th kernel; NULL: there are not that many.
const struct kernel *ptxsim_kernel(struct module *module, size_t index);
const char *ptxsim_kernel_name(const struct kernel *kernel); // the mangled name
// ptxsim_param_bytes: bytes of all parameters in their layout. ptxsim_param: offset and bytes of
// the index-th parameter; false: there are not that many.
size_t ptxsim_param_bytes(const struct kernel *kernel);
bool ptxsim_param(const struct kernel *kernel, size_t index, size_t *offset, size_t *bytes);
// ptxsim_max_threads: the most threads of a CTA (.maxntid, .reqntid, or 1024). ptxsim_cluster: the
// kernel's own cluster in CTAs along x, y and z; 0: it has none.
int ptxsim_max_threads(const struct kernel *kernel);
void ptxsim_cluster(const struct kernel *kernel, unsigned cluster[3]);

// ---- Memory of the device -----------------------------------------------------------------------

// Allocates memory, 256-byte aligned; 0: none is left. If `from` is not NULL, copies `bytes` bytes
// from there. Otherwise the memory counts as never written, and a kernel that reads it is reported.
uint64_t ptxsim_alloc(size_t bytes, const void *from);
// Copies `bytes` bytes from an allocation to the host. Returns how many of them come before the
// first that was never written.
size_t ptxsim_copy(void *to, uint64_t address, size_t bytes);
void ptxsim_free(uint64_t address);
// Fills in a CUtensorMap, 128 bytes at `map`, like cuTensorMapEncodeTiled. dims: in elements, the
// innermost dimension first; strides: in bytes, from dimension 1 on; box: in elements; kind: a
// CUtensorMapDataType; swizzle: its width in bytes, 0, 32, 64 or 128. Returns NULL, or a text that
// says what is wrong.
const char *ptxsim_tensor_map(void *map, unsigned kind, unsigned rank, uint64_t address,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                              unsigned swizzle, bool fill_nan);

// ---- Launches -----------------------------------------------------------------------------------

struct ptxsim_launch {
    unsigned grid[3], block[3], cluster[3]; // cluster 0: the kernel's own
    uint32_t dynamic_shared_bytes;
    // 0: bounds only; 1: also reads of memory never written; 2: also races; 3: like 2, without
    // races within the toolkit's headers; 4: like 2, and atomic operations order nothing without a
    // fence.
    uint32_t check;
    uint32_t schedule, threads; // the same as PTXSIM_SCHEDULE and PTXSIM_THREADS
    uint64_t budget;            // warp instructions; 0: no limit
    const void *params;         // ptxsim_param_bytes() bytes, in the layout of the parameters
    // Called for each fault, in order, when the launch is over. record: the JSON that fault_write
    // (ptxsim.h) writes.
    void (*report)(const char *record);
    // Read while the grid runs; may be NULL. When the value there is not 0, the launch is stopped,
    // and FAULT_INTERRUPTED is reported.
    const volatile uint8_t *stop;
};
// Runs a grid to its end, and returns its number of faults. `counts` receives one number for each
// ptxsim_counter.
size_t ptxsim_launch(const struct kernel *kernel, const struct ptxsim_launch *launch,
                     uint64_t *counts);
// The name of the index-th row of counts.def; NULL: past the last row.
const char *ptxsim_counter(size_t index);

#pragma GCC visibility pop

#endif
