// ops_warp.h: shuffles and matrix products. Included by each instruction set's ops file.

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

// imm: the mode. regs: the predicate (NO_REGISTER if none). Reading a lane that is not here gives
// what its register holds; PTX leaves it undefined.
static void FN(shfl)(ARGUMENTS)
{
    const u32 *a = (const u32 *)(r + op->a), *b = (const u32 *)(r + op->b);
    const u32 *c = (const u32 *)(r + op->c);
    u32 *d = (u32 *)(r + op->d);
    int32_t from[WARP];
    uint32_t within[WARP];
    int mode = (int)op->imm;
    LANES
    {
        int32_t segment = (int32_t)(c[i] >> 8 & 31), clamp = (int32_t)(c[i] & 31);
        int32_t by = (int32_t)(b[i] & 31);
        int32_t most = (i & segment) | (clamp & ~segment);
        int32_t lane = mode == SHFL_UP     ? i - by
                       : mode == SHFL_DOWN ? i + by
                       : mode == SHFL_BFLY ? i ^ by
                                           : (i & segment) | (by & ~segment);
        bool inside = mode == SHFL_UP ? lane >= most : lane <= most;
        from[i] = inside ? lane : i;
        within[i] = inside ? ~0u : 0;
    }
    uint32_t value[WARP];
#if defined OPS_AVX512
    __m512i low = _mm512_loadu_si512(a), high = _mm512_loadu_si512(a + 16);
    for (int i = 0; i < WARP; i += 16)
        _mm512_storeu_si512(value + i,
                            _mm512_permutex2var_epi32(low, _mm512_loadu_si512(from + i), high));
#else
    for (int i = 0; i < WARP; ++i)
        value[i] = a[from[i] & 31];
#endif
    if (mask == ~0u)
        memcpy(d, value, sizeof value);
    else
        for (uint32_t left = mask; left; left &= left - 1)
            d[__builtin_ctz(left)] = value[__builtin_ctz(left)];
    if (op->regs[0] != NO_REGISTER) {
        u32 *p = (u32 *)(r + op->regs[0]);
        *p = (*p & ~mask) | (FN(mask_of)(within) & mask);
    }
}

// D = A B + C for m16n16k16 with f16 or bf16 products. The fragments lie as mma.m16n8k16's do
// (ops_tensor.c has the loads and stores). Products are exact in f32; each element starts from C
// and adds the 16 products in the order of k with fused multiply-adds, so its error is below
// 16 ulp(f32) of sum |a b| + |c|. The machine adds in another order and truncates: compare within
// that bound, not bit by bit. regs: D, A, B, C.
static void FN(wmma_mma)(ARGUMENTS)
{
    const struct wmma *t = (const struct wmma *)op->regs;
    float a[16][16], b[16][16], c[16][16]; // [m][k], [k][n], [m][n]
    for (int tile = 0; tile < 4; ++tile) {
        float value[64];
        if (t->bf16)
            FN(bf16_load)((const u16 *)(r + t->a[tile]), value, 64);
        else
            FN(f16_load)((const u16 *)(r + t->a[tile]), value, 64);
        for (int row = 0; row < 8; ++row)
            memcpy(&a[row + 8 * (tile & 1)][8 * (tile >> 1)], value + 8 * row, 32);
        if (t->bf16)
            FN(bf16_load)((const u16 *)(r + t->b[tile]), value, 64);
        else
            FN(f16_load)((const u16 *)(r + t->b[tile]), value, 64);
        for (int n = 0; n < 8; ++n)
            for (int k = 0; k < 8; ++k)
                b[k + 8 * (tile & 1)][n + 8 * (tile >> 1)] = value[8 * n + k];
    }
    if (t->c_half) {
        for (int j = 0; j < 4; ++j) {
            float value[64];
            FN(f16_load)((const u16 *)(r + t->c[j]), value, 64);
            for (int row = 0; row < 8; ++row)
                memcpy(&c[row + 8 * (j & 1)][8 * (j >> 1)], value + 8 * row, 32);
        }
    } else {
        for (int j = 0; j < 8; ++j) {
            const f32 *value = (const f32 *)(r + t->c[j]);
            for (int i = 0; i < WARP; ++i)
                c[i / 4 + 8 * (j >> 1 & 1)][2 * (i % 4) + (j & 1) + 8 * (j >> 2)] = value[i];
        }
    }
    for (int m = 0; m < 16; ++m) {
        float sum[16];
        memcpy(sum, c[m], sizeof sum);
        for (int k = 0; k < 16; ++k)
            for (int n = 0; n < 16; ++n)
                sum[n] = fused_f32(a[m][k], b[k][n], sum[n]);
        memcpy(c[m], sum, sizeof sum);
    }
    if (t->d_half) {
        for (int j = 0; j < 4; ++j) {
            u16 *d = (u16 *)(r + t->d[j]);
            for (int i = 0; i < 64; ++i)
                d[i] = (u16)f16_of(canonical(c[i / 8 + 8 * (j & 1)][i % 8 + 8 * (j >> 1)]));
        }
    } else {
        for (int j = 0; j < 8; ++j) {
            f32 *d = (f32 *)(r + t->d[j]);
            for (int i = 0; i < WARP; ++i)
                d[i] = canonical(c[i / 4 + 8 * (j >> 1 & 1)][2 * (i % 4) + (j & 1) + 8 * (j >> 2)]);
        }
    }
}
