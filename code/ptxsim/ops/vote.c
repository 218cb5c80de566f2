// vote.c: operations on values of all lanes of a warp: vote, match, redux, elect, activemask,
// bar.warp.sync.
#include "ops.h"
#include "scalars.h"

// Reports a lane that is missing in its own mask of members. The lane takes part all the same; PTX
// leaves the result undefined.
static void report_outside(struct warp *w, const struct op *op, uint32_t mask, const u32 *named)
{
    uint32_t all = ~0u;
    for (int i = 0; i < WARP; ++i)
        all &= named[i];
    for (uint32_t left = ~all ? mask : 0; left && w->clock; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (named[i] >> i & 1)
            continue;
        race_report(w, op, i, FAULT_UNINITIALISED, op->insn,
                    "%s with a mask, 0x%08x, that leaves out the lane itself, %d: it is undefined",
                    w->cta->program->insns[op->insn].opcode, named[i], i);
        return;
    }
}

void warp_sync_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (!w->clock)
        return;
    report_outside(w, op, mask, (const u32 *)(r + op->b));
    race_warp_sync(w, mask);
}

void report_sources(struct warp *w, const struct op *op, uint32_t mask, const int32_t from[WARP],
                    const uint32_t *named)
{
    if (named)
        report_outside(w, op, mask, named);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left), lane = from[i] & 31;
        bool left_out = named && lane != i && !(named[i] >> lane & 1);
        if (w->alive >> lane & 1 && !left_out)
            continue;
        race_report(w, op, i, FAULT_UNINITIALISED, op->insn,
                    "takes the value of lane %d, which %s: it is undefined", lane,
                    w->alive >> lane & 1 ? "its mask leaves out" : "has left the kernel");
        return;
    }
}

// a: the predicate; b: the mask of members, whom the scheduler has brought together (SYNC_MEMBERS);
// d: a predicate or, for a ballot, a register.
void vote_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    report_outside(w, op, mask, (const u32 *)(r + op->b));
    uint32_t p = *(u32 *)(r + op->a) ^ (op->is_signed ? ~0u : 0);
    uint32_t d = *(u32 *)(r + op->d);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t members = ((u32 *)(r + op->b))[i] & mask, yes = p & members;
        if (op->imm == VOTE_BALLOT) {
            ((u32 *)(r + op->d))[i] = yes;
            continue;
        }
        bool result = op->imm == VOTE_ALL   ? yes == members
                      : op->imm == VOTE_ANY ? yes != 0
                                            : yes == members || !yes;
        d = (d & ~(1u << i)) | (uint32_t)result << i;
    }
    if (op->imm != VOTE_BALLOT)
        *(u32 *)(r + op->d) = d;
}

// imm: 0 for match.any, 1 for match.all. regs[0]: the predicate or NO_REGISTER.
void match_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    report_outside(w, op, mask, (const u32 *)(r + op->b));
    uint64_t value[WARP] = {0};
    uint32_t result[WARP], known = 0;
    const u32 *named = (const u32 *)(r + op->b);
    for (int i = 0; i < WARP; ++i)
        memcpy(&value[i], r + op->a + (size_t)i * op->width, op->width);
    for (int i = 0; i < WARP; ++i) {
        uint32_t members = named[i] & mask, same = 0;
        if (known >> i & 1)
            continue;
        for (int j = 0; j < WARP; ++j)
            same |= (uint32_t)(value[j] == value[i]) << j;
        same &= members;
        result[i] = op->imm ? (same == members ? members : 0) : same;
        for (uint32_t left = same; left; left &= left - 1) { // these lanes have the same value
            int j = __builtin_ctz(left);
            if (named[j] != named[i])
                continue;
            result[j] = result[i];
            known |= 1u << j;
        }
    }
    uint32_t p = 0;
    for (int i = 0; i < WARP; ++i) {
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = result[i];
        p |= (uint32_t)(result[i] != 0) << i;
    }
    if (op->regs[0] != NO_REGISTER) {
        u32 *d = (u32 *)(r + op->regs[0]);
        *d = (*d & ~mask) | (p & mask);
    }
}

// imm: enum atomic (add, min, max, and, or, xor).
void redux_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    report_outside(w, op, mask, (const u32 *)(r + op->b));
    uint32_t result[WARP];
    const u32 *a = (const u32 *)(r + op->a);
    for (int i = 0; i < WARP; ++i) {
        uint32_t members = ((u32 *)(r + op->b))[i] & mask, sum = 0;
        bool first = true;
        for (uint32_t left = members; left; left &= left - 1, first = false) {
            uint32_t x = a[__builtin_ctz(left)];
            bool less = op->is_signed ? (int32_t)x < (int32_t)sum : x < sum;
            sum = first                   ? x
                  : op->imm == ATOMIC_ADD ? sum + x
                  : op->imm == ATOMIC_MIN ? (less ? x : sum)
                  : op->imm == ATOMIC_MAX ? (less ? sum : x)
                  : op->imm == ATOMIC_AND ? (sum & x)
                  : op->imm == ATOMIC_OR  ? (sum | x)
                                          : (sum ^ x);
        }
        result[i] = sum;
    }
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = result[i];
}

// The leader is the lowest member. regs[0]: the leader's lane, or NO_REGISTER; d: whether this lane
// is the leader.
void elect_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    report_outside(w, op, mask, (const u32 *)(r + op->b));
    uint32_t p = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t members = ((u32 *)(r + op->b))[i] & mask;
        int leader = members ? __builtin_ctz(members) : i;
        if (op->regs[0] != NO_REGISTER)
            ((u32 *)(r + op->regs[0]))[i] = (uint32_t)leader;
        p |= (uint32_t)(leader == i) << i;
    }
    u32 *d = (u32 *)(r + op->d);
    *d = (*d & ~mask) | p;
}

void activemask_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w;
    for (int i = 0; i < WARP; ++i)
        if (mask >> i & 1)
            ((u32 *)(r + op->d))[i] = mask;
}
