// tensor_map.h: what cuTensorMapEncodeTiled (cudart/tensor_map.c) leaves in a CUtensorMap, and the
// copies of tensors (bulk.c) read. The driver's own encoding is not public; programs only carry the
// 128 bytes to the kernel.
#ifndef PTXSIM_TENSOR_MAP_H
#define PTXSIM_TENSOR_MAP_H

#include <stdint.h>

enum { TENSOR_MAP_MAGIC = 0x50414d54, TENSOR_RANK = 5 };
// Some of CUtensorMapDataType. Floats come last.
enum {
    TENSOR_INT32 = 3,
    TENSOR_INT64 = 5,
    TENSOR_FLOAT16,
    TENSOR_FLOAT32,
    TENSOR_FLOAT64,
    TENSOR_BFLOAT16
};

struct tensor_map {
    uint32_t magic;
    uint8_t rank, element, swizzle; // bytes of an element; of the swizzle's span: 0, 32, 64, 128
    uint8_t fill_nan;               // what lies outside of the tensor is NaN, not 0
    uint64_t spare; // CuTe clears a bit of the second word, for the drivers up to CUDA 13.1
    uint64_t address;
    uint64_t dim[TENSOR_RANK];        // elements, the innermost dimension first
    uint64_t stride[TENSOR_RANK - 1]; // bytes, of the dimensions 1 …
    uint16_t box[TENSOR_RANK];        // elements
    uint8_t step[TENSOR_RANK];        // elements between those that are copied
    uint8_t kind;                     // CUtensorMapDataType
    uint8_t unused[16];
};
_Static_assert(sizeof(struct tensor_map) == 128, "a CUtensorMap has 128 bytes");

// Bytes of an element of a CUtensorMapDataType; 0: a type that the simulator does not have.
static inline unsigned tensor_element(unsigned kind)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return kind < sizeof bytes ? bytes[kind] : 0;
}

#endif
