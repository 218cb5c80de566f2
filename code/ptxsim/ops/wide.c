// wide.c: 128-bit registers, and sums that carry from one instruction to the next (add.cc).
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

// imm: enum carry. regs[0]: the carry, one bit a lane. A difference is a + ~b + 1, and its carry is set where
// nothing was borrowed, as on a GPU. PTX says that it holds the borrow, which is the same as long as nothing
// but subc asks for it; but nvcc's division of 128 bits has an addc after a subc.cc.
void carry_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    u32 *carry = (u32 *)(r + op->regs[0]);
    bool subtract = op->imm & CARRY_SUBTRACT;
    uint32_t in = op->imm & CARRY_IN ? *carry : subtract ? UINT32_MAX : 0, out = 0;
    for (int i = 0; i < WARP; ++i) {
        if (!(mask >> i & 1))
            continue;
        uint64_t a = 0, b = 0;
        memcpy(&a, r + op->a + (size_t)i * op->width, op->width);
        memcpy(&b, r + op->b + (size_t)i * op->width, op->width);
        if (subtract)
            b = ~b & UINT64_MAX >> (64 - 8 * op->width);
        unsigned __int128 wide = (unsigned __int128)a + b + (in >> i & 1);
        uint64_t d = (uint64_t)wide;
        memcpy(r + op->d + (size_t)i * op->width, &d, op->width);
        out |= (uint32_t)(wide >> 8 * op->width & 1) << i;
    }
    if (op->imm & CARRY_OUT)
        *carry = (*carry & ~mask) | out;
}
