// exec.c: runs a grid. CTAs go to the host's threads in order; the warps of a CTA take turns until
// they wait at a barrier or end; the lanes of a warp run together while they are at the same place.
//
// Divergence: a warp is a list of groups, each the lanes at one basic block. The group that is
// furthest behind (the deepest call, then the lowest block) runs, one block at a time, so groups
// meet again at the first block that both reach; nvcc lays code out so that this is where the
// paths join. So that lanes which wait for others in a loop cannot starve them, the order is
// turned round now and then. A group that stands before an instruction with a member mask
// (shfl.sync, bar.warp.sync …) waits for the lanes that the mask names.
//
// Warps that wait for a flag which nobody will set are found out, too. What a warp does next follows
// from its registers and from memory. If its registers come back to what they were, and in the
// meantime nothing has been done that another warp could see, it is in a loop and stays there until
// someone does. When this holds for all warps of all CTAs, nobody will: that is a deadlock, and no
// matter of patience. A loop that counts its rounds is not found so, but by a limit.
//
// Counting costs one addition a basic block: an instruction has run as often as its block.
#include "exec.h"

#include "ptxsim/decode/decode.h"
#include "ptxsim/ops/ops.h"
#include "ptxsim/ops/scalars.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    TURN_BLOCKS = 4096,   // basic blocks a warp runs before the next warp has its turn
    CTA_ROUNDS = 256,     // turns of a CTA before another one of the same host thread has its own
    MOST_RESIDENT = 1024, // CTAs that a host thread keeps open because they wait for others
    IDLE_BLOCKS = 64,     // a turn shorter than this that ends in a failed wait did nothing else
    MOST_STEPS = 1 << 28, // basic blocks without an effect, after which a loop is called endless
    MOST_LOOP = 1 << 16,  // of which are looked through for a load
    IDLE_ROUNDS = 1000,   // rounds of such turns, without an arrival, after which nobody will come
};

struct run {
    const struct launch *launch;
    const struct program *program;
    uint64_t ctas;
    uint32_t shared_bytes;
    atomic_uint_fast64_t next;
    atomic_uint_fast64_t faulted; // the lowest CTA with a fault: none above it need run
    pthread_mutex_t lock;         // guards fault
    struct fault fault;
    uint64_t fault_cta;
    struct worker *workers; // guarded by the lock: their stuck_at and finished
    uint64_t worker_count;
    atomic_uint_fast64_t ended; // CTAs
    atomic_bool deadlocked;     // nobody will ever go on
    bool blameless;             // because of another fault
    struct printed *printed;    // guarded by the lock too
    size_t printed_count, printed_capacity;
};

struct printed { // what one CTA has printed
    uint64_t cta;
    struct text text;
};

// ---- Groups of lanes ----------------------------------------------------------------------------

static void push_group(struct warp *w, uint32_t mask, uint32_t block, uint32_t frame)
{
    for (int i = 0; i < w->group_count; ++i) {
        struct group *g = &w->groups[i];
        if (g->block == block && g->frame == frame && !g->arrived) {
            g->mask |= mask;
            return;
        }
    }
    w->groups[w->group_count++] = (struct group){.mask = mask, .block = block, .frame = frame};
}

static void remove_group(struct warp *w, int index)
{
    w->groups[index] = w->groups[--w->group_count];
}

static const struct op *first_op(const struct program *p, uint32_t block)
{
    return &p->ops[p->blocks[block].first];
}

// The members named by the first operation of a block, as one of the group's lanes has it.
static uint32_t members_of(const struct warp *w, const struct group *g)
{
    const struct program *p = w->cta->program;
    const struct op *op = first_op(p, g->block);
    const struct insn_info *insn = &p->insns[op->insn];
    op_fn *run = op->inner ? op->inner : op->run;
    if (run == warp_sync_op || run == vote_op || run == match_op || run == redux_op ||
        run == elect_op)
        return *(const u32 *)(w->file + g->frame + op->b + 4 * __builtin_ctz(g->mask));
    if (insn->op_class == CLASS_SHUFFLE && op->regs) // shfl.sync: after its predicate
        return *(const u32 *)(w->file + g->frame + op->regs[1] + 4 * __builtin_ctz(g->mask));
    return ~0u; // .aligned: the whole warp
}

static bool group_ready(const struct warp *w, const struct group *g)
{
    if (g->arrived)
        return false;
    if (g->mask == w->alive)
        return true;
    const struct program *p = w->cta->program;
    switch (p->blocks[g->block].sync) {
    case SYNC_MEMBERS: return !(members_of(w, g) & w->alive & ~g->mask);
    case SYNC_BARRIER:
        return !((const struct barrier_operands *)first_op(p, g->block)->regs)->aligned;
    }
    return true;
}

static bool before(const struct group *a, const struct group *b)
{
    return a->frame != b->frame ? a->frame > b->frame : a->block < b->block;
}

// The group to run, -1 if none can: the one that is furthest behind, so that lanes meet again. But
// it may wait for another, so now and then each of them has a turn of some blocks.
static int pick_group(struct warp *w)
{
    int best = -1, ready = 0;
    for (int i = 0; i < w->group_count; ++i)
        if (group_ready(w, &w->groups[i])) {
            ready++;
            if (best < 0 || before(&w->groups[i], &w->groups[best]))
                best = i;
        }
    if ((w->turns & 0xfff) < 0xf00 || ready < 2)
        return best;
    int rank = (int)(((w->turns >> 5 & 7) + (w->turns >> 12) * 8) % (unsigned)ready);
    for (int i = 0; i < w->group_count; ++i) {
        int earlier = 0;
        for (int k = 0; k < w->group_count; ++k)
            earlier += group_ready(w, &w->groups[k]) && before(&w->groups[k], &w->groups[i]);
        if (earlier == rank && group_ready(w, &w->groups[i]))
            return i;
    }
    return best;
}

static void merge_groups(struct warp *w)
{
    for (int i = 0; i < w->group_count; ++i)
        for (int j = w->group_count - 1; j > i; --j) {
            struct group *a = &w->groups[i], *b = &w->groups[j];
            if (a->block == b->block && a->frame == b->frame && a->arrived == b->arrived &&
                a->barrier == b->barrier) {
                a->mask |= b->mask;
                remove_group(w, j);
            }
        }
}

// ---- Control operations -------------------------------------------------------------------------

void branch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    w->taken = mask;
    w->next = (uint32_t)op->target;
    w->next_frame = (uint32_t)(r - w->file);
}

void exit_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op;
    w->alive &= ~mask;
    w->gone = mask;
}

void trap_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    fault_at(w, op, __builtin_ctz(mask), FAULT_TRAP, "trap");
}

void switch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct switch_operands *s = (const struct switch_operands *)op->regs;
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
        if (mine + call->local_bytes + m->its + m->bytes > size)
            continue; // call_op has reported it
        memcpy(back ? here : there, back ? there : here, m->bytes);
    }
}

static void enter(struct warp *w, char *r, const struct op *op, const struct call_operands *call,
                  const struct callee *callee, uint32_t return_block, uint32_t mask)
{
    const struct program *p = w->cta->program;
    uint32_t caller = (uint32_t)(r - w->file), frame = caller + call->frame_bytes;
    int first = __builtin_ctz(mask);
    bool fits = frame + callee->frame_bytes <= p->file_bytes;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t local = ((u64 *)(r + FRAME_LOCAL))[i] + call->local_bytes;
        fits &= local + callee->local_bytes <= w->stack[i];
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
    // Other lanes may be in another function whose frame lies here too.
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
    const struct call_operands *call = (const struct call_operands *)op->regs;
    uint32_t return_block = w->next; // set by run_group for every block
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
    const struct call_operands *call = (const struct call_operands *)op->regs;
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

// Memory of a function's own, taken from the end of the lane's local memory; given back when the
// function returns, or by stackrestore. imm: its alignment; target: what the frame has besides.
void alloca_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        uint64_t bytes = ((const u64 *)(r + op->a))[i], least = ((const u64 *)(r + FRAME_LOCAL))[i];
        least += (uint64_t)op->target;
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

// ---- Barriers -----------------------------------------------------------------------------------

static uint32_t living_threads(const struct cta *cta) // in whole warps
{
    uint32_t threads = 0;
    for (int i = 0; i < cta->warps; ++i)
        threads += cta->warp[i].alive ? WARP : 0;
    return threads;
}

// Lets everyone who waits go on if all have come.
// Everyone who waits knows what those who came have done.
static void barrier_orders(struct cta *cta, unsigned id)
{
    struct clock **clock = &cta->barrier[id].clock;
    bool all = !*clock;
    for (int i = 0; i < cta->warps && cta->barrier[id].expected; ++i)
        all &= cta->warp[i].alive != 0;    // who has left was not counted
    for (int pass = 0; pass < 3; ++pass) { // is it everyone? if not: release, then acquire
        for (int i = 0; i < cta->warps; ++i) {
            struct warp *w = &cta->warp[i];
            uint32_t lanes = 0;
            for (int k = 0; k < w->group_count; ++k)
                if (w->groups[k].arrived && w->groups[k].barrier == id)
                    lanes |= w->groups[k].mask;
            if (pass == 0)
                all &= lanes == w->alive;
            else if (pass == 1 && lanes)
                race_release(w, lanes, clock);
            else if (lanes)
                race_acquire(w, lanes, *clock);
        }
        if (all) {
            race_barrier_all(cta);
            break;
        }
    }
    clock_drop(clock);
}

static void release_barrier(struct cta *cta, unsigned id)
{
    uint32_t expected = cta->barrier[id].expected ? cta->barrier[id].expected : living_threads(cta);
    if (!cta->barrier[id].arrived || cta->barrier[id].arrived < expected)
        return;
    if (cta->trace)
        trace_release(cta->trace, cta, id);
    if (cta->races)
        barrier_orders(cta, id);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        for (int k = 0; k < w->group_count; ++k) {
            struct group *g = &w->groups[k];
            if (!g->arrived || g->barrier != id)
                continue;
            const struct barrier_operands *b =
                (const struct barrier_operands *)first_op(cta->program, g->block)->regs;
            char *out = w->file + g->frame + b->output;
            bool yes = b->kind == BARRIER_AND ? cta->barrier[id].yes == cta->barrier[id].lanes
                                              : cta->barrier[id].yes != 0;
            if (b->kind == BARRIER_POPC) {
                for (int lane = 0; lane < WARP; ++lane)
                    if (g->mask >> lane & 1)
                        ((u32 *)out)[lane] = cta->barrier[id].yes;
            } else if (b->kind == BARRIER_AND || b->kind == BARRIER_OR) {
                *(u32 *)out = (*(u32 *)out & ~g->mask) | (yes ? g->mask : 0);
            }
            g->arrived = false;
            g->block++;
        }
    }
    memset(&cta->barrier[id], 0, sizeof cta->barrier[id]);
}

void barrier_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct cta *cta = w->cta;
    const struct barrier_operands *b = (const struct barrier_operands *)op->regs;
    int lane = __builtin_ctz(mask);
    uint32_t id = ((u32 *)(r + b->id))[lane];
    uint32_t count = b->has_count ? ((u32 *)(r + b->count))[lane] : 0;
    if (id >= NAMED_BARRIERS) {
        fault_at(w, op, lane, FAULT_TRAP, "barrier %u; there are %d", id, NAMED_BARRIERS);
        return;
    }
    if (b->has_count && (!count || count % WARP)) {
        fault_at(w, op, lane, FAULT_TRAP, "a barrier of %u threads, which is no multiple of %d",
                 count, WARP);
        return;
    }
    if (cta->barrier[id].arrived && cta->barrier[id].expected != count) {
        fault_at(w, op, lane, FAULT_TRAP, "barrier %u of %u threads, where others wait for %u", id,
                 count, cta->barrier[id].expected);
        return;
    }
    note_effect(w);
    cta->barrier[id].expected = count;
    cta->barrier[id].arrived += mask == w->alive ? WARP : (uint32_t)__builtin_popcount(mask);
    if (b->kind >= BARRIER_POPC) {
        uint32_t p = *(u32 *)(r + b->input) ^ (b->negated ? ~0u : 0);
        cta->barrier[id].lanes += (uint32_t)__builtin_popcount(mask);
        cta->barrier[id].yes += (uint32_t)__builtin_popcount(p & mask);
    }
    if (b->kind == BARRIER_ARRIVE)
        race_release(w, mask, &cta->barrier[id].clock);
    else {
        w->gone = mask; // they wait here: a group of their own
        w->groups[w->group_count++] = (struct group){.mask = mask,
                                                     .block = w->next - 1,
                                                     .frame = (uint32_t)(r - w->file),
                                                     .arrived = true,
                                                     .barrier = (uint8_t)id};
        if (cta->trace)
            trace_arrive(cta->trace, w, op->insn);
    }
    release_barrier(cta, id);
}

// ---- Warps --------------------------------------------------------------------------------------

static inline void run_ops(struct warp *w, char *r, const struct op *op, const struct op *end,
                           uint32_t mask)
{
    if (mask == w->alive) { // dead lanes may be written
        for (; op < end; ++op)
            op->run(w, r, op, mask);
    } else {
        for (; op < end; ++op) {
            if (op->plain && !op->inner)
                plain_masked(w, r, op, op->run, mask);
            else
                op->run(w, r, op, mask);
        }
    }
}

// Runs one basic block of a group and moves its lanes on. A block's group list changes under it:
// `index` stays the running group's place until the end.
static void run_block(struct warp *w, int index)
{
    const struct program *p = w->cta->program;
    struct group *g = &w->groups[index];
    const struct basic_block *b = &p->blocks[g->block];
    uint32_t mask = g->mask, block = g->block, frame = g->frame;
    struct block_counts *counts = &w->cta->worker->blocks[block];
    counts->warps++;
    counts->threads += mask == ~0u ? WARP : (uint64_t)__builtin_popcount(mask);
    if (w->cta->trace)
        trace_block(w->cta->trace, w, b);
    w->taken = w->gone = 0;
    w->next = block + 1;
    // Taken out while it runs, so that the operations can add groups freely.
    int others = w->group_count;
    if (others > 1)
        remove_group(w, index);
    else
        w->group_count = 0;
    const struct op *first = &p->ops[b->first];
    run_ops(w, w->file + frame, first, first + b->count, mask);
    w->turns++;
    w->steps++;
    mask &= ~w->gone;
    uint32_t taken = w->taken & mask, rest = mask & ~taken;
    if (taken)
        push_group(w, taken, w->next, w->next_frame);
    if (rest) {
        push_group(w, rest, block + 1, frame);
        if (taken)
            w->cta->worker->insns[(first + b->count - 1)->insn].divergent++;
    }
    if (w->group_count > 1)
        merge_groups(w);
}

// Runs a warp until it has to wait or its turn is over; whether it moved at all.
static bool run_warp(struct warp *w)
{
    bool moved = false;
    for (int turn = 0; turn < TURN_BLOCKS && w->group_count && !w->cta->faulted; ++turn) {
        int index = w->group_count == 1 && w->groups[0].mask == w->alive && !w->groups[0].arrived
                        ? 0
                        : pick_group(w);
        if (index < 0)
            return moved;
        run_block(w, index);
        moved = true;
        if (w->yields) {
            if (w->group_count > 1) // the other lanes may be those that it waits for
                w->turns |= 0xf00;
            return true;
        }
    }
    return moved;
}

// ---- Loops that nobody ends ---------------------------------------------------------------------

static uint64_t effects_of(const struct run *run)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < run->worker_count; ++i)
        sum += atomic_load_explicit(&run->workers[i].effects, memory_order_acquire);
    return sum;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    uint64_t word, other = hash ^ UINT64_C(0x9e3779b97f4a7c15);
    for (; size >= 16; size -= 16, at += 16) { // two chains: one waits for its multiplications
        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 29;
        memcpy(&word, at + 8, 8);
        other = (other ^ word) * UINT64_C(0xc4ceb9fe1a85ec53);
        other ^= other >> 31;
    }
    word = 0;
    memcpy(&word, at, size < 8 ? size : 8);
    return (hash ^ word) * UINT64_C(0xff51afd7ed558ccd) + other;
}

// All that decides what a warp does next, but for memory that others see.
static uint64_t state_of(const struct warp *w)
{
    const struct program *p = w->cta->program;
    uint64_t hash = hash_bytes(w->alive, w->file, p->file_bytes);
    if (w->local)
        hash = hash_bytes(hash, w->local, p->local_bytes * WARP);
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *g = &w->groups[i];
        uint64_t words[2] = {g->mask | (uint64_t)g->block << 32,
                             g->frame | (uint64_t)g->arrived << 32 | (uint64_t)g->barrier << 40};
        hash = hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

// Whether a warp stays where it is as long as the effects of all are `effects`.
static bool is_stuck(struct warp *w, uint64_t effects)
{
    uint64_t limit = w->cta->launch->spin ? w->cta->launch->spin : MOST_STEPS;
    if (!w->group_count || pick_group(w) < 0)
        return true;                   // it has ended, or waits at a barrier
    uint64_t turns = w->turns & 0xfff; // which of its groups runs, see pick_group
    if (!w->loop.watched || w->loop.effects != effects) {
        w->loop.watched = true;
        w->loop.found = w->loop.endless = false;
        w->loop.effects = effects;
        w->loop.rounds = 0;
        w->loop.until = 1;
        w->loop.first = w->steps;
    } else if (w->loop.found) {
        return true;
    } else if (w->loop.turns == turns && w->loop.state == state_of(w)) {
        w->loop.found = true;
        return true;
    } else if (w->steps - w->loop.first > limit) {
        w->loop.found = w->loop.endless = true;
        return true;
    } else if (++w->loop.rounds < w->loop.until) {
        return false;
    } else {
        w->loop.rounds = 0;
        w->loop.until *= 2;
    }
    w->loop.state = state_of(w);
    w->loop.turns = turns;
    return false;
}

static bool all_stuck(struct cta *cta, uint64_t effects)
{
    bool all = true;
    for (int i = 0; i < cta->warps; ++i)
        all &= is_stuck(&cta->warp[i], effects);
    return all;
}

// What a warp in a loop looks at: of its loads, the first in the text. Where it stopped says nothing.
static void find_polled(struct warp *w)
{
    const struct program *p = w->cta->program;
    uint64_t start = state_of(w);
    w->polls = w->waits = NULL;
    for (int step = 0; step < MOST_LOOP; ++step) {
        int index = pick_group(w);
        if (index < 0)
            return;
        const struct group g = w->groups[index];
        const struct basic_block *b = &p->blocks[g.block];
        int lane = __builtin_ctz(g.mask);
        run_block(w, index);
        for (const struct op *op = &p->ops[b->first]; op < &p->ops[b->first + b->count]; ++op) {
            uint8_t class = p->insns[op->insn].op_class;
            if (!op->bytes || (w->polls && op->insn >= w->polls->insn) ||
                (class != CLASS_SHARED_LOAD && class != CLASS_GLOBAL_LOAD && class != CLASS_ATOMIC))
                continue;
            const char *r = w->file + g.frame;
            w->polls = op;
            w->polls_at = (op->wide_address ? ((const u64 *)(r + op->a))[lane]
                                            : ((const u32 *)(r + op->a))[lane]) +
                          (uint64_t)op->imm;
            w->polls_lane = lane;
        }
        if (state_of(w) == start)
            break;
    }
}

// ---- CTAs ---------------------------------------------------------------------------------------

enum cta_state { CTA_DONE, CTA_TURN_OVER, CTA_STUCK, CTA_FAULT };

// What a group of lanes waits at.
static const struct op *place_of(const struct warp *w, const struct group *g)
{
    return g->arrived ? first_op(w->cta->program, g->block)
           : w->waits ? w->waits
           : w->polls ? w->polls
                      : first_op(w->cta->program, g->block);
}

// "file:line bar.sync 0: 96 of 128 threads", and so on: where a group of lanes stands.
static void describe_wait(const struct cta *cta, const struct warp *w, const struct group *g,
                          char *text, size_t size)
{
    const struct program *p = cta->program;
    const struct op *op = place_of(w, g);
    const struct insn_info *insn = &p->insns[op->insn];
    char what[240] = "";
    if (g->arrived) {
        uint32_t expected = cta->barrier[g->barrier].expected;
        snprintf(what, sizeof what, ", barrier %u: %u of %u threads came", g->barrier,
                 cta->barrier[g->barrier].arrived, expected ? expected : living_threads(cta));
    } else if (w->polls && !w->waits) {
        char name[80] = "";
        bool shared = w->polls->space == SPACE_SHARED ||
                      w->polls_at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT;
        uint64_t at = w->polls_at & ~SHARED_WINDOW;
        if (shared)
            shared_name(p, (uint32_t)at, name, sizeof name);
        snprintf(what, sizeof what,
                 shared ? ", shared address %llu%s" : ", global address 0x%llx%s",
                 (unsigned long long)at, name);
    } else if (w->waits) {
        mbarrier_describe(cta, w->waits_at, what + 2, sizeof what - 2);
        what[0] = ',';
        what[1] = ' ';
    }
    if (insn->at.line)
        snprintf(text, size, "%s:%d%s (%s%s)", insn->at.file, insn->at.line, insn->at.callers,
                 insn->opcode, what);
    else
        snprintf(text, size, "PTX line %d (%s%s)", insn->ptx_line, insn->opcode, what);
}

// The group that tells where a warp is: that in a loop, if there is one, else that of the lowest lane.
static const struct group *telling_group(struct warp *w)
{
    const struct group *best = NULL;
    for (int i = 0; i < w->group_count; ++i) {
        const struct group *g = &w->groups[i];
        bool loops = w->polls && group_ready(w, g),
             other = best && w->polls && group_ready(w, best);
        if (!best || loops > other ||
            (loops == other && __builtin_ctz(g->mask) < __builtin_ctz(best->mask)))
            best = g;
    }
    return best;
}

// ctas: how many have not ended and never will; 0: it is this one's own affair.
static void fault_stuck(struct cta *cta, uint64_t ctas)
{
    const struct program *p = cta->program;
    struct warp *at = NULL;
    const struct group *g = NULL;
    // Lanes of one warp at different places, one of them a barrier that takes whole warps?
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        for (int k = 0; k < w->group_count; ++k) {
            const struct group *one = &w->groups[k];
            if (!at) {
                at = w;
                g = one;
            }
            if (one->arrived || p->blocks[one->block].sync == SYNC_NONE || w->group_count < 2 ||
                w->polls)
                continue;
            const struct group *other = &w->groups[k ? 0 : 1];
            const struct op *op = first_op(p, one->block);
            const struct insn_info *insn = &p->insns[place_of(w, other)->insn];
            fault_at(w, op, __builtin_ctz(one->mask), FAULT_DIVERGENT_BARRIER,
                     "%s under divergence: %d lanes of the warp wait here (mask 0x%08x), others at "
                     "%s:%d (mask 0x%08x)",
                     p->insns[op->insn].opcode, __builtin_popcount(one->mask), one->mask,
                     insn->at.line ? insn->at.file : "PTX line",
                     insn->at.line ? insn->at.line : insn->ptx_line, other->mask);
            return;
        }
    }
    // Who waits where; warps at the same place together.
    char dump[880] = "", place[560], last[560] = "";
    int waiting = 0, from = -1;
    size_t used = 0;
    for (int i = 0; i <= cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        place[0] = 0;
        if (i < cta->warps && w->group_count) {
            describe_wait(cta, w, telling_group(w), place, sizeof place);
            waiting++;
        }
        if (from >= 0 && strcmp(place, last)) {
            used += (size_t)snprintf(dump + used, sizeof dump - used, "%s", used ? "; " : "");
            char warps[32];
            snprintf(warps, sizeof warps, from == i - 1 ? "warp %d" : "warps %d-%d", from, i - 1);
            int more = snprintf(dump + used, sizeof dump - used, "%s at %s", warps, last);
            used += (size_t)more < sizeof dump - used ? (size_t)more : 0;
            dump[used] = 0;
            from = -1;
            if (used + 8 > sizeof dump)
                break;
        }
        if (place[0] && from < 0) {
            from = i;
            memcpy(last, place, sizeof last);
        }
    }
    bool endless = false;
    for (int i = cta->warps; i-- > 0;) {
        struct warp *w = &cta->warp[i];
        if (!w->group_count)
            continue;
        endless |= w->loop.watched && w->loop.endless;
        if (w->polls || !at->polls) { // who waits at a barrier waits for who is in a loop
            at = w;
            g = telling_group(w);
        }
    }
    const struct op *op = place_of(at, g);
    int lane = op == at->polls && !g->arrived ? at->polls_lane : __builtin_ctz(g->mask);
    char others[64] = "";
    if (ctas && cta->worker->run->ctas > 1)
        snprintf(others, sizeof others, ", in %llu of %llu CTAs", (unsigned long long)ctas,
                 (unsigned long long)cta->worker->run->ctas);
    fault_at(at, op, lane, FAULT_DEADLOCK,
             "%s: %d of %d warps wait for others that never come%s: %s",
             endless ? "no progress (PTXSIM_SPIN)" : "deadlock", waiting, cta->warps, others, dump);
}

static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static enum cta_state run_cta(struct cta *cta)
{
    const struct run *run = cta->worker->run;
    if (cta->stuck_at == effects_of(run))
        return CTA_STUCK;
    for (int round = 0; round < CTA_ROUNDS; ++round) {
        bool moved = false, left = false, idle = true;
        uint64_t order = 0, progress = cta->progress, effects = effects_of(run);
        if (cta->launch->schedule)
            order = scramble(cta->launch->schedule + cta->number * 64 + ++cta->rounds);
        for (int i = 0; i < cta->warps; ++i) {
            // A seed starts the round elsewhere and may walk it backwards.
            int at = (int)((order >> 1) % (unsigned)cta->warps);
            at = (order & 1 ? at + cta->warps - i : at + i) % cta->warps;
            struct warp *w = &cta->warp[at];
            if (!w->group_count)
                continue;
            uint32_t alive = w->alive;
            uint64_t turns = w->turns;
            w->yields = false;
            moved |= run_warp(w);
            idle &= w->turns - turns < IDLE_BLOCKS && (!w->yields || w->waits) &&
                    (w->yields || w->turns == turns);
            if (cta->faulted)
                return CTA_FAULT;
            if (!w->alive && alive)
                for (unsigned id = 0; id < NAMED_BARRIERS; ++id)
                    release_barrier(cta, id);
            left |= w->group_count > 0;
        }
        if (!left) {
            bool waiting = false; // a barrier's release may have set an earlier warp free
            for (int i = 0; i < cta->warps; ++i)
                waiting |= cta->warp[i].group_count > 0;
            if (!waiting) {
                sync_finish(cta);
                return cta->faulted ? CTA_FAULT : CTA_DONE;
            }
        }
        cta->idle = idle && progress == cta->progress ? cta->idle + 1 : 0;
        if (!moved || cta->idle > IDLE_ROUNDS) {
            fault_stuck(cta, 0);
            return CTA_FAULT;
        }
        if (effects_of(run) == effects && all_stuck(cta, effects)) {
            cta->stuck_at = effects;
            return CTA_STUCK;
        }
    }
    return CTA_TURN_OVER;
}

static void *aligned_zeroed(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 64)) {
        fprintf(stderr, "ptxsim: out of memory\n");
        abort();
    }
    memset(memory, 0, bytes);
    return memory;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

// Storage of a CTA: registers, local and shared memory. Used again for the CTAs that follow.
static struct cta *new_cta(struct worker *worker)
{
    const struct run *run = worker->run;
    const struct launch *launch = run->launch;
    const struct program *p = run->program;
    unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    struct cta *cta = aligned_zeroed(sizeof *cta);
    cta->worker = worker;
    cta->launch = launch;
    cta->program = p;
    cta->warps = (int)((threads + WARP - 1) / WARP);
    cta->warp = aligned_zeroed((size_t)cta->warps * sizeof *cta->warp);
    cta->shared_bytes = run->shared_bytes;
    cta->shared = aligned_zeroed(padded(run->shared_bytes) + 64);
    if (launch->check)
        cta->written = aligned_zeroed(run->shared_bytes / 8 + 64);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        w->cta = cta;
        w->index = i;
        w->file = aligned_zeroed(padded(p->file_bytes));
        w->local = p->local_bytes ? aligned_zeroed(p->local_bytes * WARP) : NULL;
        memcpy(w->file + p->callees[0].constants_at, p->callees[0].constants,
               p->callees[0].constant_bytes);
        for (unsigned lane = 0; lane < WARP; ++lane) {
            unsigned t = (unsigned)i * WARP + lane;
            w->tid[0][lane] = t % launch->block[0];
            w->tid[1][lane] = t / launch->block[0] % launch->block[1];
            w->tid[2][lane] = t / launch->block[0] / launch->block[1];
        }
    }
    if (launch->races)
        races_create(cta);
    return cta;
}

static void free_cta(struct cta *cta)
{
    for (int i = 0; i < NAMED_BARRIERS; ++i)
        clock_drop(&cta->barrier[i].clock);
    races_destroy(cta);
    sync_destroy(cta);
    for (int i = 0; i < cta->warps; ++i) {
        free(cta->warp[i].file);
        free(cta->warp[i].local);
        free(cta->warp[i].printed.data);
    }
    free(cta->warp);
    free(cta->shared);
    free(cta->written);
    free(cta);
}

static void start_cta(struct cta *cta, uint64_t number)
{
    const struct launch *launch = cta->launch;
    unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    cta->number = number;
    cta->index[0] = (unsigned)(number % launch->grid[0]);
    cta->index[1] = (unsigned)(number / launch->grid[0] % launch->grid[1]);
    cta->index[2] = (unsigned)(number / launch->grid[0] / launch->grid[1]);
    cta->rounds = 0;
    cta->stuck_at = UINT64_MAX;
    for (int i = 0; i < NAMED_BARRIERS; ++i)
        clock_drop(&cta->barrier[i].clock);
    memset(cta->barrier, 0, sizeof cta->barrier);
    if (cta->written)
        memset(cta->written, 0, cta->shared_bytes / 8 + 64);
    for (int i = 0; i < cta->warps; ++i) {
        struct warp *w = &cta->warp[i];
        unsigned lanes = threads - (unsigned)i * WARP;
        w->alive = lanes >= WARP ? ~0u : (1u << lanes) - 1;
        w->turns = w->steps = 0;
        w->loop.watched = false;
        w->polls = NULL;
        for (int lane = 0; lane < WARP; ++lane)
            w->stack[lane] = cta->program->local_bytes;
        w->group_count = 1;
        w->groups[0] = (struct group){.mask = w->alive, .block = cta->program->callees[0].block};
    }
    cta->trace = trace_start(cta);
    cta->watched = cta->trace || cta->written || cta->races;
    races_start(cta);
    sync_start(cta);
}

static void report_fault(struct run *run, const struct cta *cta)
{
    pthread_mutex_lock(&run->lock);
    if (cta->number < run->fault_cta) {
        run->fault_cta = cta->number;
        run->fault = cta->fault;
        atomic_store(&run->faulted, cta->number);
    }
    pthread_mutex_unlock(&run->lock);
}

static void keep_printed(struct run *run, struct cta *cta)
{
    struct text all = {0};
    for (int i = 0; i < cta->warps; ++i) {
        struct text *text = &cta->warp[i].printed;
        if (text->size)
            text_add(&all, text->data, text->size);
        text->size = 0;
    }
    if (!all.size)
        return;
    pthread_mutex_lock(&run->lock);
    run->printed =
        array_grow(run->printed, run->printed_count, &run->printed_capacity, sizeof *run->printed);
    run->printed[run->printed_count++] = (struct printed){cta->number, all};
    pthread_mutex_unlock(&run->lock);
}

static int by_cta(const void *a, const void *b)
{
    uint64_t x = ((const struct printed *)a)->cta, y = ((const struct printed *)b)->cta;
    return x < y ? -1 : x > y;
}

static void write_printed(struct run *run)
{
    if (run->printed_count)
        qsort(run->printed, run->printed_count, sizeof *run->printed, by_cta);
    for (size_t i = 0; i < run->printed_count; ++i) {
        if (run->printed[i].cta <= run->fault_cta) // later ones ran or not, as it happened
            fwrite(run->printed[i].text.data, 1, run->printed[i].text.size, stdout);
        free(run->printed[i].text.data);
    }
    free(run->printed);
}

// The CTAs that this thread has open are all stuck. So are those of the other threads? Then for good.
static void all_open_stuck(struct worker *worker, uint64_t effects)
{
    struct run *run = worker->run;
    pthread_mutex_lock(&run->lock);
    worker->stuck_at = effects;
    bool all = effects_of(run) == effects;
    for (uint64_t i = 0; i < run->worker_count; ++i)
        all &= run->workers[i].finished || run->workers[i].stuck_at == effects;
    if (all && !atomic_load(&run->deadlocked)) {
        run->blameless = atomic_load(&run->faulted) != UINT64_MAX;
        atomic_store(&run->deadlocked, true);
    }
    pthread_mutex_unlock(&run->lock);
    if (!all)
        sched_yield();
}

// The lowest of them tells; report_fault takes the lowest of all threads'.
static void give_up(struct worker *worker, struct cta *open)
{
    struct run *run = worker->run;
    struct cta *lowest = open;
    for (struct cta *cta = open; cta; cta = cta->next)
        if (cta->number < lowest->number)
            lowest = cta;
    if (!run->blameless) {
        for (int i = 0; i < lowest->warps; ++i)
            if (lowest->warp[i].group_count && lowest->warp[i].loop.found)
                find_polled(&lowest->warp[i]);
        fault_stuck(lowest, run->ctas - atomic_load(&run->ended));
        report_fault(run, lowest);
    }
    while (open) {
        struct cta *next = open->next;
        keep_printed(run, open);
        free_cta(open);
        open = next;
    }
}

// A host thread: takes the next CTA; one whose warps only spin (they wait for another CTA) stays
// open while others begin.
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    struct cta *open = NULL, **last = &open, *spare = NULL;
    int count = 0;
    bool more = true;
    while (more || open) {
        struct cta *cta = NULL;
        if (more && count < MOST_RESIDENT) {
            uint64_t number = atomic_fetch_add(&run->next, 1);
            if (number < run->ctas && number < atomic_load(&run->faulted)) {
                cta = spare ? spare : new_cta(worker);
                spare = NULL;
                start_cta(cta, number);
                count++;
            } else {
                more = false;
            }
        }
        if (!cta) {
            cta = open;
            if (!cta)
                continue;
            open = cta->next;
            if (!open)
                last = &open;
        }
        if (atomic_load(&run->deadlocked)) {
            cta->next = open;
            open = cta;
            give_up(worker, open);
            break;
        }
        enum cta_state state = cta->number > atomic_load(&run->faulted) ? CTA_DONE : run_cta(cta);
        if (state == CTA_TURN_OVER || state == CTA_STUCK) {
            cta->next = NULL;
            *last = cta;
            last = &cta->next;
            bool all = state == CTA_STUCK && (!more || count == MOST_RESIDENT);
            for (const struct cta *other = open; other && all; other = other->next)
                all = other->stuck_at == cta->stuck_at;
            if (all)
                all_open_stuck(worker, cta->stuck_at);
            continue;
        }
        if (state == CTA_FAULT)
            report_fault(run, cta);
        atomic_fetch_add(&run->ended, 1);
        keep_printed(run, cta);
        count--;
        if (spare || state == CTA_FAULT)
            free_cta(cta);
        else
            spare = cta;
    }
    if (spare)
        free_cta(spare);
    pthread_mutex_lock(&run->lock);
    worker->finished = true;
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

// ---- Grids --------------------------------------------------------------------------------------

static bool refuse(struct fault *fault, enum fault_kind kind, const char *text)
{
    fault->kind = kind;
    snprintf(fault->text, sizeof fault->text, "%s", text);
    return false;
}

// The first race is the launch's fault, if it has no worse one; the others are notes.
static void tell_races(const struct launch *launch, struct race_log *races, struct fault *fault)
{
    race_log_sort(races);
    for (size_t i = 0; i < races->count; ++i) {
        const struct race_entry *e = &races->entries[i];
        struct fault told = {.kind = e->kind};
        char more[48] = "";
        if (e->count > 1)
            snprintf(more, sizeof more, " (and %llu more like it)",
                     (unsigned long long)e->count - 1);
        snprintf(told.text, sizeof told.text, "%.*s%s", (int)(sizeof told.text - sizeof more),
                 e->text, more);
        if (fault->kind == FAULT_NONE)
            *fault = told;
        else if (launch->note)
            launch->note(told.text);
    }
    free(races->entries);
}

bool launch_run(const struct launch *launch, struct counts *counts, struct line_counts **lines,
                size_t *line_count, struct fault *fault)
{
    struct kernel *kernel = (struct kernel *)launch->kernel;
    *fault = (struct fault){0};
    if (!kernel->program && !kernel->error[0])
        kernel->program = program_decode(kernel, kernel->error, sizeof kernel->error);
    if (!kernel->program)
        return refuse(fault, FAULT_UNSUPPORTED, kernel->error);
    const struct program *p = kernel->program;
    uint64_t shared = p->shared_bytes + launch->dynamic_shared_bytes;
    if (launch->dynamic_shared_bytes) {
        size_t offset = (p->shared_bytes + 15) & ~(size_t)15;
        shared = (offset > p->dynamic_offset ? offset : p->dynamic_offset) +
                 launch->dynamic_shared_bytes;
    }
    if (shared > 16 << 20)
        return refuse(fault, FAULT_INTERNAL, "more than 16 MiB of shared memory");
    struct run run = {.launch = launch,
                      .program = p,
                      .ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
                      .shared_bytes = (uint32_t)shared,
                      .fault_cta = UINT64_MAX};
    atomic_init(&run.next, 0);
    atomic_init(&run.faulted, UINT64_MAX);
    pthread_mutex_init(&run.lock, NULL);
    long cores = launch->threads > 0 ? launch->threads : sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t workers = cores < 1 ? 1 : cores > 256 ? 256 : (uint64_t)cores;
    if (workers > run.ctas)
        workers = run.ctas ? run.ctas : 1;
    struct worker *worker = calloc(workers, sizeof *worker);
    pthread_t *thread = calloc(workers, sizeof *thread);
    if (!worker || !thread)
        abort();
    run.workers = worker;
    run.worker_count = workers;
    atomic_init(&run.deadlocked, false);
    atomic_init(&run.ended, 0);
    for (uint64_t i = 0; i < workers; ++i) {
        worker[i].run = &run;
        worker[i].stuck_at = UINT64_MAX;
        worker[i].insns = aligned_zeroed(p->insn_count * sizeof *worker[i].insns);
        worker[i].blocks = aligned_zeroed(p->block_count * sizeof *worker[i].blocks);
        worker[i].patterns = aligned_zeroed(p->insn_count * sizeof *worker[i].patterns);
    }
    struct global_races *shadow = launch->races ? global_races_new(p) : NULL;
    for (uint64_t i = 0; i < workers; ++i)
        worker[i].global_races = shadow;
    uint64_t started = 1; // this thread is the first worker
    for (; started < workers; ++started)
        if (pthread_create(&thread[started], NULL, work, &worker[started]))
            break;
    pthread_mutex_lock(&run.lock);
    for (uint64_t i = started; i < workers; ++i)
        worker[i].finished = true;
    pthread_mutex_unlock(&run.lock);
    work(&worker[0]);
    for (uint64_t i = 1; i < started; ++i)
        pthread_join(thread[i], NULL);
    for (uint64_t i = 1; i < workers; ++i) {
        for (size_t k = 0; k < p->insn_count; ++k) {
            uint64_t *sum = (uint64_t *)&worker[0].insns[k],
                     *more = (uint64_t *)&worker[i].insns[k];
            for (size_t j = 0; j < sizeof *worker->insns / sizeof *sum; ++j)
                sum[j] += more[j];
        }
        for (size_t k = 0; k < p->block_count; ++k) {
            worker[0].blocks[k].warps += worker[i].blocks[k].warps;
            worker[0].blocks[k].threads += worker[i].blocks[k].threads;
        }
    }
    counts_derive(p, worker[0].insns, worker[0].blocks, counts, lines, line_count);
    global_races_free(shadow);
    struct race_log races = {0};
    for (uint64_t i = 0; i < workers; ++i) {
        race_log_merge(&races, &worker[i].races);
        free(worker[i].insns);
        free(worker[i].blocks);
        free(worker[i].patterns);
    }
    free(worker);
    free(thread);
    write_printed(&run);
    pthread_mutex_destroy(&run.lock);
    *fault = run.fault;
    tell_races(launch, &races, fault);
    return fault->kind == FAULT_NONE;
}
