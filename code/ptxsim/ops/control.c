// control.c: branches, calls, returns, and the stack.
#include "ops.h"
#include "scalars.h"

#include "ptxsim/machine/groups.h"

void branch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    w->taken = mask;
    w->next = (uint32_t)op->block;
    w->next_frame = (uint32_t)(r - w->file);
}

void exit_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    if (w->passed & mask)
        barrier_report_passed(w, op, mask);
    w->alive &= ~mask;
    w->gone = mask;
    barrier_left(w);
}

void trap_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    fault_at(w, op, __builtin_ctz(mask), FAULT_TRAP, "trap");
}

void switch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct switch_operands *s = op->operands;
    const u32 *index = (const u32 *)(r + s->index);
    w->gone = mask;
    while (mask) {
        int lane = __builtin_ctz(mask);
        uint32_t same = 0;
        for (int i = lane; i < WARP; ++i)
            same |= (uint32_t)(index[i] == index[lane]) << i;
        same &= mask;
        if (index[lane] >= (uint32_t)s->count) {
            fault_at(w, op, lane, FAULT_TRAP, "brx.idx with index %u of %d targets", index[lane],
                     s->count);
            return;
        }
        push_group(w, same, (uint32_t)s->targets[index[lane]], (uint32_t)(r - w->file));
        mask &= ~same;
    }
}

static void move_locals(struct warp *w, const struct call_operands *call, uint64_t mine, int lane,
                        bool back)
{
    size_t size = w->cta->program->local_bytes;
    char *local = w->local + (size_t)lane * size;
    for (int i = 0; i < call->moves; ++i) {
        const struct call_move *m = &call->move[i];
        char *here = local + mine + m->mine, *there = local + mine + call->local_bytes + m->its;
        if (!within(mine + call->local_bytes + m->its, m->bytes, size))
            continue; // outside of local memory: call_op has reported it
        memcpy(back ? here : there, back ? there : here, m->bytes);
    }
}

static const struct callee *callee_of(const struct program *p, uint32_t block)
{
    size_t c = p->callee_count - 1;
    while (c && p->callees[c].block > block)
        --c;
    return &p->callees[c];
}

// If a callee's frame at `frame` would overlap the frame of a lane outside the mask, returns the
// end of that lane's frame; otherwise 0. Frames of one function at one place may overlap: each lane
// has its own part of every register.
static uint32_t overlapped(const struct warp *w, const struct callee *callee, uint32_t frame,
                           uint32_t mask)
{
    const struct program *p = w->cta->program;
    for (int g = 0; g < w->group_count; ++g)
        for (uint32_t left = w->groups[g].mask & ~mask; left; left &= left - 1) {
            uint32_t at = w->groups[g].frame, block = w->groups[g].block;
            while (at) {
                const struct callee *other = callee_of(p, block);
                uint32_t end = at + (uint32_t)other->frame_bytes;
                if (frame < end && at < frame + callee->frame_bytes &&
                    (other != callee || at != frame))
                    return end;
                const char *r = w->file + at;
                block = ((const u32 *)(r + FRAME_RETURN))[__builtin_ctz(left)];
                at = ((const u32 *)(r + FRAME_CALLER))[__builtin_ctz(left)];
            }
        }
    return 0;
}

static void enter(struct warp *w, char *r, const struct op *op, const struct call_operands *call,
                  const struct callee *callee, uint32_t return_block, uint32_t mask)
{
    const struct program *p = w->cta->program;
    uint32_t caller = (uint32_t)(r - w->file), frame = caller + (uint32_t)call->caller->frame_bytes;
    int first = __builtin_ctz(mask);
    if (mask != w->alive)
        for (uint32_t end; (end = overlapped(w, callee, frame, mask));)
            frame = end;
    bool fits = within(frame, callee->frame_bytes, p->file_bytes);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t local = ((u64 *)(r + FRAME_LOCAL))[i] + call->local_bytes;
        fits &= within(local, callee->local_bytes, w->stack[i]);
    }
    if (!fits) {
        fault_at(w, op, first, FAULT_OUT_OF_BOUNDS, "calls nested too deeply: the stack is full");
        return;
    }
    char *to = w->file + frame;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t mine = ((u64 *)(r + FRAME_LOCAL))[i];
        ((u64 *)(to + FRAME_LOCAL))[i] = mine + call->local_bytes;
        ((u32 *)(to + FRAME_RETURN))[i] = return_block;
        ((u32 *)(to + FRAME_CALLER))[i] = caller;
        ((u64 *)(to + FRAME_STACK))[i] = w->stack[i];
        move_locals(w, call, mine, i, false);
    }
    // If other lanes are alive, writes the constants for the calling lanes only.
    char *constants = to + callee->constants_at;
    if (mask == w->alive) {
        memcpy(constants, callee->constants, callee->constant_bytes);
    } else {
        for (size_t c = 0; c < p->constant_count; ++c) {
            const struct constant_place *place = &p->constants[c];
            if (place->callee != callee - p->callees)
                continue;
            const char *value = callee->constants + (place->at - callee->constants_at);
            if (!place->bytes)
                *(u32 *)(to + place->at) =
                    (*(u32 *)(to + place->at) & ~mask) | (*(const u32 *)value & mask);
            for (uint32_t left = place->bytes ? mask : 0; left; left &= left - 1)
                memcpy(to + place->at + (size_t)__builtin_ctz(left) * place->bytes, value,
                       place->bytes);
        }
    }
    push_group(w, mask, callee->block, frame);
}

void call_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct program *p = w->cta->program;
    const struct call_operands *call = op->operands;
    uint32_t return_block = w->next; // run_block has set it to the block after the call
    w->gone = mask;
    if (call->callee >= 0) {
        enter(w, r, op, call, &p->callees[call->callee], return_block, mask);
        return;
    }
    const u64 *address = (const u64 *)(r + call->address);
    while (mask) {
        int lane = __builtin_ctz(mask);
        uint32_t same = 0;
        for (int i = lane; i < WARP; ++i)
            same |= (uint32_t)(address[i] == address[lane]) << i;
        same &= mask;
        mask &= ~same;
        const struct module *m = p->kernel->function->module;
        uint64_t number = address[lane] - CODE_WINDOW;
        const struct callee *callee = NULL;
        for (size_t i = 1; i < p->callee_count && number < m->function_count; ++i)
            if (p->callees[i].function == m->functions[number])
                callee = &p->callees[i];
        if (!callee) {
            fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "calls 0x%llx, which is no function",
                     (unsigned long long)address[lane]);
            return;
        }
        enter(w, r, op, call, callee, return_block, same);
    }
}

void call_end_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct call_operands *call = op->operands;
    for (uint32_t left = mask; left; left &= left - 1)
        move_locals(w, call, ((u64 *)(r + FRAME_LOCAL))[__builtin_ctz(left)], __builtin_ctz(left),
                    true);
}

void return_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)op;
    const u32 *block = (const u32 *)(r + FRAME_RETURN), *caller = (const u32 *)(r + FRAME_CALLER);
    for (uint32_t left = mask; left; left &= left - 1)
        w->stack[__builtin_ctz(left)] = ((const u64 *)(r + FRAME_STACK))[__builtin_ctz(left)];
    w->gone = mask;
    while (mask) {
        int lane = __builtin_ctz(mask);
        uint32_t same = 0;
        for (int i = lane; i < WARP; ++i)
            same |= (uint32_t)(block[i] == block[lane] && caller[i] == caller[lane]) << i;
        same &= mask;
        push_group(w, same, block[lane], caller[lane]);
        mask &= ~same;
    }
}

// Allocates memory of a function at the end of the lane's local memory, until the function returns
// or stackrestore frees it. imm: its alignment; locals: bytes of the function's other local memory.
void alloca_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        uint64_t bytes = ((const u64 *)(r + op->a))[i], least = ((const u64 *)(r + FRAME_LOCAL))[i];
        least += op->locals;
        uint64_t at = bytes <= w->stack[i] ? (w->stack[i] - bytes) & ~((uint64_t)op->imm - 1) : 0;
        if (at < least) {
            fault_at(w, op, i, FAULT_OUT_OF_BOUNDS,
                     "alloca of %llu bytes: the stack has %llu bytes left",
                     (unsigned long long)bytes, (unsigned long long)(w->stack[i] - least));
            return;
        }
        ((u64 *)(r + op->d))[i] = w->stack[i] = at;
    }
}

void stacksave_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1)
        ((u64 *)(r + op->d))[__builtin_ctz(mask)] = w->stack[__builtin_ctz(mask)];
}

void stackrestore_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        uint64_t at = ((const u64 *)(r + op->a))[i];
        if (at < w->stack[i] || at > w->cta->program->local_bytes) {
            fault_at(w, op, i, FAULT_OUT_OF_BOUNDS, "stackrestore of 0x%llx, which was not saved",
                     (unsigned long long)at);
            return;
        }
        w->stack[i] = at;
    }
}
