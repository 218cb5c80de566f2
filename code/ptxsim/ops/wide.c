// wide.c: operations on 128-bit registers.
#include "ops.h"
#include "scalars.h"

void mov_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        memmove(r + op->d + 16 * i, r + op->a + 16 * i, 16);
    }
}

void pack_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1)
        for (int half = 0, i = __builtin_ctz(mask); half < 2; ++half)
            memcpy(r + op->d + 16 * i + 8 * half, r + op->regs[half] + 8 * i, 8);
}

void unpack_b128_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (; mask; mask &= mask - 1)
        for (int half = 0, i = __builtin_ctz(mask); half < 2; ++half)
            memcpy(r + op->regs[half] + 8 * i, r + op->a + 16 * i + 8 * half, 8);
}
