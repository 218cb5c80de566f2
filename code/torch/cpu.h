// cpu.h: the functions that the operators call for tensors on the CPU.
#ifndef TORCH_CPU_H
#define TORCH_CPU_H

#include <stdbool.h>
#include <stdint.h>

// Quantises one head of all sequences to E4M3 with one scale: the head's largest magnitude / 448, or 1 if all values
// are zero. values: [rows][head_dim] for each sequence, which begins `stride` rows after the one before. codes: the
// same layout with rows of HEAD_DIM, zeros past head_dim. head_dim: from 1 to HEAD_DIM.
void quantise_head(const float *values, long sequences, long stride, long rows,
                   int head_dim, uint8_t *codes, float *scale);

// Attention in double precision (workbench.h) of codes [3][batch][heads][seq_len][HEAD_DIM] with scales
// [3][heads]; out: [batch][heads][seq_len][HEAD_DIM]. False when memory runs out.
bool attend_on_cpu(const uint8_t *codes, const float *scales, int causal,
                   int batch, int heads, int seq_len, float softmax_scale,
                   float *out);

// Attention in double precision for one sequence of a cache. q and out: [heads][queries][head_dim], 1 to 16 queries, q
// rounded to half, head_dim 64 or 128. Codes are [heads][tokens][head_dim] and scales [heads][tokens], in the tokens'
// order, not in pages.
bool decode_on_cpu(const float *q, const uint8_t *k_codes,
                   const uint8_t *v_codes, const float *k_scales,
                   const float *v_scales, int heads, int queries, int tokens,
                   int head_dim, float softmax_scale, float *out);

#endif
