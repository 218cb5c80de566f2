// cpu.c: the operators without a GPU: the workbench's E4M3 and its reference in double precision.
#include <math.h>
#include <stdio.h>

#include "torch/cpu.h"
#include "workbench/workbench.h"

void quantise_head(const float *values, long sequences, long stride, long rows,
                   int head_dim, uint8_t *codes, float *scale)
{
    float largest = 0;

    for (long b = 0; b < sequences; ++b)
        for (long i = 0; i < rows * head_dim; ++i)
            largest = fmaxf(largest, fabsf(values[b * stride * head_dim + i]));
    *scale = largest > 0 ? largest / E4M3_MAX : 1.0f;
    for (long b = 0; b < sequences; ++b)
        for (long row = 0; row < rows; ++row)
            for (int d = 0; d < HEAD_DIM; ++d) {
                long at = b * stride + row;
                codes[at * HEAD_DIM + d] =
                    d < head_dim
                        ? e4m3_from_float(values[at * head_dim + d] / *scale)
                        : 0;
            }
}

bool attend_on_cpu(const uint8_t *codes, const float *scales, int causal,
                   int batch, int heads, int seq_len, float softmax_scale,
                   float *out)
{
    size_t elements = (size_t)batch * heads * seq_len * HEAD_DIM;
    struct problem problem = {
        .shape = {.batch = batch, .heads = heads, .seq_len = seq_len},
        .softmax_scale = softmax_scale,
        .mask = causal ? MASK_CAUSAL : MASK_NONE,
        // These tensors are only read, though the casts drop const, and belong to the caller.
        .q_codes = (uint8_t *)codes,
        .k_codes = (uint8_t *)codes + elements,
        .v_codes = (uint8_t *)codes + 2 * elements,
        .q_scales = (float *)scales,
        .k_scales = (float *)scales + heads,
        .v_scales = (float *)scales + 2 * heads,
    };

    return reference_dequantised(&problem, (struct rows){0, 1}, 0, out);
}

bool decode_on_cpu(const float *q, const uint8_t *k_codes,
                   const uint8_t *v_codes, const float *k_scales,
                   const float *v_scales, int heads, int queries, int tokens,
                   int head_dim, float softmax_scale, float *out)
{
    struct problem problem = {
        // `page` only marks a cache: K and V are in the tokens' order.
        .shape = {.batch = 1,
                  .heads = heads,
                  .seq_len = tokens,
                  .group = (uint8_t)queries,
                  .head_dim = (uint8_t)(head_dim == HEAD_DIM ? 0 : head_dim),
                  .page = 16},
        .softmax_scale = softmax_scale,
        .q = (float *)q,
        .k_codes = (uint8_t *)k_codes,
        .v_codes = (uint8_t *)v_codes,
        .k_scales = (float *)k_scales,
        .v_scales = (float *)v_scales,
    };

    return reference_dequantised(&problem, (struct rows){0, 1}, 0, out);
}
