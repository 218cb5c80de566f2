// ablate.c: runs the basic blocks of a CTA of which some executions are spoiled, or all are noted (struct ablation), to
// learn whether what they do is used. No other CTA runs this file.
//
// What is spoiled stays finite: of what is not used, a NaN would come through a product with 0. And a spoiled
// value always differs from what it was, unless both are zeros of different sign.
#include "exec.h"

#include "ptxsim/ops/address.h"
#include "ptxsim/ops/async.h"
#include "ptxsim/ops/scalars.h"

#include <string.h>

static const uint64_t HASH_START = 0xcbf29ce484222325;

// FNV-1a, by words of 4 bytes and what is left.
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += 4) {
        uint32_t word = 0;
        memcpy(&word, (const char *)bytes + at, size - at < 4 ? size - at : 4);
        hash = (hash ^ word) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    return hash;
}

// Whether a CTA's execution is spoiled.
static bool is_chosen(const struct cta *cta, uint64_t at)
{
    const struct ablation *a = cta->launch->ablation;
    bool chosen = false;
    for (int i = 0; i < a->count; ++i)
        chosen |= a->chosen[i].cta == cta->place && a->chosen[i].at == at;
    return chosen;
}

// Counts an execution; whether it is spoiled.
static bool is_next_chosen(struct warp *w)
{
    return is_chosen(w->cta, w->cta->executions++);
}

static bool is_product(const struct op *op)
{
    return op->family == FAMILY_PRODUCT || op->family == FAMILY_SPARSE_PRODUCT;
}

static void spoil_product(char *r, const struct op *op)
{
    const struct matrix *d = &((const struct mma *)op->operands)->d;
    const bool half = d->type == MATRIX_F16 || d->type == MATRIX_BF16;
    const bool real = half || d->type == MATRIX_F32 || d->type == MATRIX_F64;
    const uint32_t turned = half ? 0x80008000 : real ? 0x80000000 : UINT32_MAX;

    for (int i = 0; i < d->distinct; ++i) {
        if (d->regs[i] == NO_REGISTER)
            continue;
        u32 *words = (u32 *)(r + d->regs[i]);
        for (int k = 0; k < WARP; ++k)
            words[d->bytes > 4 ? 2 * k + 1 : k] ^=
                turned; // of 8 bytes the upper four have the sign
    }
}

// Lanes whose address is in global memory.
static uint32_t global_lanes(const char *r, const struct op *op, uint32_t address, int64_t offset,
                             uint32_t mask)
{
    uint32_t lanes = 0;
    if (op->space == SPACE_GLOBAL)
        return mask;
    for (uint32_t left = op->space == SPACE_GENERIC ? mask : 0; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t at = address_in(r, address, op->wide_address, offset, i);
        lanes |= (uint32_t)(at >> WINDOW_SHIFT == 0) << i;
    }
    return lanes;
}

static void run_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (op->plain && !op->inner && (mask != w->alive || w->loop.careful))
        plain_masked(w, r, op, op->run, mask);
    else if (mask)
        op->run(w, r, op, mask);
}

// Lanes of `mask` for which an operation's guard holds.
static uint32_t guarded(const char *r, const struct op *op, uint32_t mask)
{
    if (op->run != guarded_op)
        return mask;
    uint32_t guard = *(const u32 *)(r + op->guard);
    return mask & (op->guard_negated ? ~guard : guard);
}

// ---- What executions work on --------------------------------------------------------------------

static void note_execution(const struct cta *cta, uint64_t first, uint64_t second, uint32_t work)
{
    struct ablation *a = cta->launch->ablation;

    if (!a->logs)
        return;
    a->log = array_grow(a->log, a->logged, &a->room, sizeof *a->log);
    a->log[a->logged++] = (struct execution){{first, second}, cta->place, work};
}

static uint64_t hash_matrix(const char *r, const struct matrix *m)
{
    uint64_t hash = HASH_START;
    for (int i = 0; i < m->distinct; ++i)
        if (m->regs[i] != NO_REGISTER)
            hash = hash_more(hash, r + m->regs[i], WARP * (m->bytes > 4 ? 8u : 4u));
    return hash;
}

static void note_product(const struct cta *cta, const char *r, const struct op *op)
{
    const struct mma *o = op->operands;
    const bool real = o->d.type == MATRIX_F16 || o->d.type == MATRIX_BF16 ||
                      o->d.type == MATRIX_F32 || o->d.type == MATRIX_F64;

    if (cta->launch->ablation->logs)
        note_execution(cta, hash_matrix(r, &o->a), hash_matrix(r, &o->b),
                       real ? (uint32_t)(2 * o->m * o->n * o->k) : 0);
}

// Sectors of global memory that an instruction loads; 0 for others.
static uint64_t sectors_loaded(const char *r, const struct op *op, const struct insn_info *insn,
                               uint32_t on)
{
    const struct copy_operands *copy = op->family == FAMILY_COPY ? op->operands : NULL;
    const bool loads = op->family == FAMILY_ACCESS && insn->op_class == CLASS_GLOBAL_LOAD;
    const uint32_t lanes = copy ? on : loads ? global_lanes(r, op, op->a, op->imm, on) : 0;
    uint64_t at[WARP];

    for (uint32_t left = lanes; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        at[i] = copy ? address_in(r, copy->from, copy->from_wide, copy->from_offset, i)
                     : address_in(r, op->a, op->wide_address, op->imm, i);
    }
    const uint32_t size = op->bytes * (op->vector ? op->vector : 1u);
    return lanes ? (uint64_t)global_sectors(at, (int)size, lanes) : 0;
}

// Sectors that a warp loads from global memory, or a product of its. What it loads before its first product counts as
// loaded beside products, too.
static void note_roles(struct ablation *a, struct warp *w, const char *r, const struct op *op,
                       const struct insn_info *insn, uint32_t on)
{
    const uint64_t sectors = sectors_loaded(r, op, insn, on);

    w->multiplies = w->multiplies || (is_product(op) && on);
    w->loaded += sectors;
    a->loaded += sectors;
    if (w->multiplies) {
        a->loaded_beside += w->loaded;
        w->loaded = 0;
    }
}

// A load, an atomic operation or a shuffle, by the places or lanes that it asks. Of one CTA in four, which stands for the
// others: they are many.
static void note_lookup(const struct cta *cta, const char *r, const struct op *op,
                        const struct insn_info *insn, uint32_t on)
{
    enum { ONE_OF = 4 };
    const bool shuffles = op->family == FAMILY_SHUFFLE;
    const bool loads = (op->family == FAMILY_ACCESS && !insn->store) || op->family == FAMILY_ATOMIC;
    uint64_t hash = hash_more(HASH_START, &op->insn, sizeof op->insn);

    if (!(shuffles || loads) || cta->place % ONE_OF != 0)
        return;
    for (uint32_t left = on; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint64_t at = shuffles ? ((const u32 *)(r + op->b))[lane]
                                     : address_in(r, op->a, op->wide_address, op->imm, lane);
        hash = hash_more(hash, &at, sizeof at);
    }
    note_execution(cta, hash, hash, ONE_OF * (uint32_t)__builtin_popcount(on));
}

// An update without a result is one of a sum: each is another.
static void note_atomic(const struct cta *cta, const char *r, const struct op *op, uint64_t address,
                        int lane)
{
    const uint64_t at = hash_more(HASH_START, &address, sizeof address);
    const size_t logged = cta->launch->ablation->logged;
    const bool returns = op->regs[0] != NO_REGISTER;

    note_execution(cta, at,
                   returns ? hash_more(at, r + op->regs[0] + (size_t)lane * op->width, op->width)
                           : hash_more(at, &logged, sizeof logged),
                   1);
}

// Which CTA stores, to where outputs are looked at. lanes: those that store to global memory.
static void note_writer(const struct cta *cta, const char *r, const struct op *op, uint32_t lanes)
{
    struct ablation *a = cta->launch->ablation;
    const uint64_t bytes = (uint64_t)op->bytes * op->vector;

    for (; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const uint64_t at = address_in(r, op->a, op->wide_address, op->imm, lane) - a->watched;
        for (uint64_t i = at / 2; i < (at + bytes + 1) / 2 && i < a->writers_count; ++i)
            a->writers[i] = cta->place + 1;
    }
}

static struct signalled *signalled_at(struct ablation *a, const struct warp *w, uint64_t address)
{
    for (size_t i = 0; i < a->signalled_count; ++i)
        if (a->signalled[i].warp == w && a->signalled[i].address == address)
            return &a->signalled[i];
    a->signalled =
        array_grow(a->signalled, a->signalled_count, &a->signalled_room, sizeof *a->signalled);
    a->signalled[a->signalled_count] = (struct signalled){w, address, 0};
    return &a->signalled[a->signalled_count++];
}

// A signal, an arrival at an mbarrier or a strong store say, or a question, a wait or a strong load.
static void note_signal(struct ablation *a, const struct warp *w, const char *r,
                        const struct op *op, const struct insn_info *insn, uint32_t on)
{
    const bool asks = (insn->op_class == CLASS_BARRIER && !insn->signals) ||
                      (op->family == FAMILY_ACCESS && !insn->store);

    if (!a->logs || !on || insn->barrier || !(op->order & ORDER_STRONG) || !(asks || insn->signals))
        return;
    uint64_t at = address_in(r, op->a, op->wide_address, op->imm, __builtin_ctz(on));
    if (at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
        at -= SHARED_WINDOW;
    struct signalled *s = signalled_at(a, w, at);
    if (!asks) {
        ++s->times;
        return;
    }
    a->meets += s->times;
    s->times = 0;
}

// ---- Spoiling -----------------------------------------------------------------------------------

// An atomic operation that is spoiled. global: its lanes in global memory, of those that run it (`mask`). An update that
// is left out, or made twice, may do no harm where the result is asked for: a queue gives a number twice, or wraps. One
// more is what somebody else may have been given: only who takes the number for what it says notices.
static void spoil_atomic(struct warp *w, char *r, const struct op *op, uint32_t mask,
                         uint32_t global)
{
    bool returns = op->regs[0] != NO_REGISTER;

    run_op(w, r, op, returns ? mask : mask & ~global);
    for (uint32_t left = returns ? global : 0; left; left &= left - 1) {
        uint8_t *result = (uint8_t *)r + op->regs[0] + (size_t)__builtin_ctz(left) * op->width;
        for (int k = 0; k < op->width && ++result[k] == 0; ++k) // carries
            ;
    }
}

// A copy or a product that is put on a list when it is issued; spoiled there.
static void spoil_issued(struct warp *w, char *r, const struct op *op, uint32_t mask, bool chosen)
{
    size_t bulk[CLUSTER_MOST], products = wgmma_open(w), copies = copies_open(w);

    bulk_open(w, bulk);
    run_op(w, r, op, mask);
    if (w->cta->launch->ablation->logs) {
        uint32_t bytes = 0;
        const uint64_t hash = op->family == FAMILY_COPY ? copies_hash(w, copies, &bytes) : 0;
        note_execution(w->cta, hash, hash, bytes);
    }
    if (chosen && op->family == FAMILY_WGMMA)
        wgmma_spoil(w, products);
    else if (chosen && op->family == FAMILY_BULK)
        bulk_spoil(w, bulk);
    else if (chosen)
        copies_spoil(w, copies);
}

// Lanes that load from shared memory.
static uint32_t shared_lanes(const char *r, const struct op *op, const struct insn_info *insn,
                             uint32_t on)
{
    if (insn->op_class == CLASS_SHARED_LOAD)
        return on;
    const bool generic = op->family == FAMILY_ACCESS && !insn->store && op->space == SPACE_GENERIC;
    uint32_t lanes = 0;
    for (uint32_t left = generic ? on : 0; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const uint64_t at = address_in(r, op->a, op->wide_address, op->imm, i);
        lanes |= (uint32_t)(at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) << i;
    }
    return lanes;
}

static void spoil_load(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (int turned = 0; turned < 2; ++turned) {
        for (size_t i = 0; i < w->cta->shared_bytes; ++i)
            w->cta->shared[i] ^= 0x80;
        if (turned == 0)
            run_op(w, r, op, mask);
    }
}

// Whether the executions of an operation are those that are counted.
static bool is_issued(const struct op *op, enum spoils what)
{
    if (what == SPOIL_PRODUCTS)
        return op->family == FAMILY_WGMMA;
    return what == SPOIL_COPIES &&
           (op->family == FAMILY_COPY || (op->family == FAMILY_BULK && bulk_loads(op)));
}

static void ablate_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct ablation *a = w->cta->launch->ablation;
    const uint32_t on = guarded(r, op, mask);
    const struct insn_info *insn = &w->cta->program->insns[op->insn];
    const bool stores = insn->store;
    uint32_t global;

    note_signal(a, w, r, op, insn, on);
    if (a->logs && a->what == SPOIL_PRODUCTS && on)
        note_roles(a, w, r, op, insn, on);
    if (a->logs && a->what == SPOIL_LOOKUPS && on)
        note_lookup(w->cta, r, op, insn, on);
    if (a->logs && stores && a->writers)
        note_writer(w->cta, r, op, global_lanes(r, op, op->a, op->imm, on));
    if (a->what == SPOIL_PRODUCTS && is_product(op) && on) {
        note_product(w->cta, r, op);
        run_op(w, r, op, mask);
        if (is_next_chosen(w))
            spoil_product(r, op);
    } else if (is_issued(op, a->what) && on) {
        spoil_issued(w, r, op, mask, is_next_chosen(w));
    } else if (a->what == SPOIL_ATOMICS && op->family == FAMILY_ATOMIC &&
               (global = global_lanes(r, op, op->a, op->imm, on)) != 0) {
        const int lane = __builtin_ctz(global);
        const uint64_t address = address_in(r, op->a, op->wide_address, op->imm, lane);
        if (is_next_chosen(w))
            spoil_atomic(w, r, op, mask, global);
        else
            run_op(w, r, op, mask);
        note_atomic(w->cta, r, op, address, lane);
    } else if (a->what == SPOIL_LOADS && shared_lanes(r, op, insn, on)) {
        if (a->writers) // of the first launch alone: they are many
            note_execution(w->cta, 0, 0, 0);
        if (is_next_chosen(w))
            spoil_load(w, r, op, mask);
        else
            run_op(w, r, op, mask);
    } else if (a->what == SPOIL_STORES && stores && is_chosen(w->cta, 0)) {
        run_op(w, r, op, mask & ~global_lanes(r, op, op->a, op->imm, on));
    } else {
        run_op(w, r, op, mask);
    }
}

bool ablation_start(struct cta *cta)
{
    const struct ablation *a = cta->launch->ablation;
    bool spoiled = false;

    cta->place = a->ctas + cta->number;
    cta->executions = cta->work = 0;
    for (int i = 0; i < cta->warps; ++i) {
        cta->warp[i].loaded = 0;
        cta->warp[i].multiplies = false;
    }
    if (a->what == SPOIL_STORES)
        note_execution(cta, 0, 0, 0);
    for (int i = 0; i < a->count; ++i)
        spoiled |= a->chosen[i].cta == cta->place;
    return spoiled || a->logs;
}

void run_ablated(struct warp *w, char *r, const struct basic_block *b, uint32_t mask)
{
    struct ablation *a = w->cta->launch->ablation;

    a->work += b->insns;
    w->cta->work += b->insns;
    a->busiest = w->cta->work > a->busiest ? w->cta->work : a->busiest;
    uint32_t insn = UINT32_MAX;
    for (const struct op *op = &w->cta->program->ops[b->first], *end = op + b->count; op < end;
         ++op) {
        a->under_way += op->insn != insn && a->what == SPOIL_COPIES && copies_open(w) > 0;
        insn = op->insn;
        ablate_op(w, r, op, mask);
    }
}
