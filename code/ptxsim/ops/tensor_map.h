// tensor_map.h: what cuTensorMapEncodeTiled (cudart/tensor_map.c) writes to a CUtensorMap, and
// copies of tensors (bulk.c) read. The driver's own encoding is not public; programs only pass the
// 128 bytes on to the kernel.
#ifndef PTXSIM_TENSOR_MAP_H
#define PTXSIM_TENSOR_MAP_H

#include <stdint.h>

enum { TENSOR_MAP_MAGIC = 0x50414d54, TENSOR_RANK = 5 };
// Some values of CUtensorMapDataType; floats come last.
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
    uint8_t rank, element, swizzle; // element: bytes; swizzle: its width in bytes, 0, 32, 64 or 128
    uint8_t fill_nan;               // elements outside of the tensor are NaN instead of 0
    uint64_t spare; // CuTe clears a bit of this word, for the sake of drivers up to CUDA 13.1
    uint64_t address;
    uint64_t dim[TENSOR_RANK];        // sizes in elements, the innermost dimension first
    uint64_t stride[TENSOR_RANK - 1]; // strides in bytes, of dimensions 1 and up
    uint16_t box[TENSOR_RANK];        // sizes in elements
    uint8_t step[TENSOR_RANK];        // every step-th element is copied
    uint8_t kind;                     // a CUtensorMapDataType
    uint8_t unused[16];
};
_Static_assert(sizeof(struct tensor_map) == 128, "a CUtensorMap has 128 bytes");

// Bytes of an element of a CUtensorMapDataType; 0: the simulator does not support the type.
static inline unsigned tensor_element(unsigned kind)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return kind < sizeof bytes ? bytes[kind] : 0;
}

#endif
