// tensor_map.c: cuTensorMapEncodeTiled, the only function of the driver that programs with TMA
// need. It checks what cuda.h documents, and one more condition that the driver was seen to check.
#include "runtime.h"

#include "ptxsim/ops/tensor_map.h"

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <string.h>

_Static_assert(TENSOR_INT32 == (int)CU_TENSOR_MAP_DATA_TYPE_INT32 &&
                   TENSOR_INT64 == (int)CU_TENSOR_MAP_DATA_TYPE_INT64 &&
                   TENSOR_FLOAT16 == (int)CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
                   TENSOR_BFLOAT16 == (int)CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 &&
                   CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ == 12, // the last type of tensor_element
               "the names in tensor_map.h");

static CUresult refuse(const char *why)
{
    complain("cuTensorMapEncodeTiled: %s", why);
    return CUDA_ERROR_INVALID_VALUE;
}

static bool is_float(CUtensorMapDataType type)
{
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    static const uint8_t spans[] = {0, 32, 64, 128};
    unsigned element = tensor_element((unsigned)type);

    if (!map || (uintptr_t)map % 64 != 0)
        return refuse("the map is not aligned to 64 bytes");
    if (!element)
        return refuse("a type of elements that is not known");
    if (rank < 1 || rank > TENSOR_RANK)
        return refuse("a rank that is not 1 to 5");
    if (!address || (uintptr_t)address % 16 != 0)
        return refuse("the tensor is not aligned to 16 bytes");
    if (!dim || !box || !steps || (rank > 1 && !strides))
        return refuse("an array is missing");
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return refuse("interleaved layouts are not supported");
    if ((unsigned)swizzle >= sizeof spans)
        return refuse("a swizzle that is not none, 32, 64 or 128 bytes");
    if ((unsigned)promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        return refuse("an L2 promotion that is not known");
    if ((unsigned)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA ||
        (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(type)))
        return refuse("NaN around a tensor of integers");
    for (unsigned i = 0; i < rank; ++i) {
        if (dim[i] == 0 || dim[i] > UINT64_C(1) << 32)
            return refuse("a dimension that is not 1 to 2^32");
        if (box[i] == 0 || box[i] > 256)
            return refuse("a box dimension that is not 1 to 256");
        if (steps[i] == 0 || steps[i] > 8)
            return refuse("an element stride that is not 1 to 8");
        if (i + 1 < rank && (strides[i] % 16 != 0 || strides[i] >= UINT64_C(1) << 40))
            return refuse("a stride that is no multiple of 16 below 2^40");
    }
    if (box[0] * element % 16 != 0)
        return refuse("the box's inner dimension is no multiple of 16 bytes");
    uint64_t bytes = element;
    for (unsigned i = 0; i < rank; ++i)
        bytes *= box[i];
    if (bytes > device_now()->shared_sm)
        return refuse("a box that is larger than shared memory");
    if (spans[swizzle] && box[0] * element > spans[swizzle])
        return refuse("the box's inner dimension is wider than the swizzle");
    struct tensor_map m = {
        .magic = TENSOR_MAP_MAGIC,
        .rank = (uint8_t)rank,
        .element = (uint8_t)element,
        .swizzle = spans[swizzle],
        .fill_nan = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        .address = (uint64_t)(uintptr_t)address,
        .kind = (uint8_t)type,
    };
    for (unsigned i = 0; i < TENSOR_RANK; ++i) {
        m.dim[i] = i < rank ? dim[i] : 1;
        m.box[i] = (uint16_t)(i < rank ? box[i] : 1);
        // The step of the first dimension is ignored.
        m.step[i] = (uint8_t)(i > 0 && i < rank ? steps[i] : 1);
        if (i + 1 < rank)
            m.stride[i] = strides[i];
    }
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
