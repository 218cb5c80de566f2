// sync.c: operations on mbarriers, fences, and what happens to copies under way when a CTA begins
// and ends.
#include "address.h"
#include "async.h"
#include "cluster.h"
#include "mbarrier.h"
#include "ptxsim/machine/film.h"
#include "scalars.h"

// ---- mbarriers ----------------------------------------------------------------------------------

static struct cta *find_object(struct warp *w, char *r, const struct op *op, int lane, uint32_t *at)
{
    uint64_t wide = address_in(r, op->a, op->wide_address, op->imm, lane);
    if (op->space == SPACE_GENERIC && wide >> WINDOW_SHIFT != SHARED_WINDOW >> WINDOW_SHIFT) {
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s at 0x%llx, which is not in shared memory",
                 w->cta->program->insns[op->insn].opcode, (unsigned long long)wide);
        return NULL;
    }
    struct cta *home = mbarrier_home(w, op, lane, wide, op->mbarrier == MBARRIER_INIT, at);
    const struct mbarrier_operands *o = op->operands;
    bool own = op->mbarrier == MBARRIER_WAIT || op->mbarrier == MBARRIER_INIT ||
               op->mbarrier == MBARRIER_INVAL || op->mbarrier == MBARRIER_COPIES ||
               o->result != NO_REGISTER;
    char of[64];
    if (!home || home == w->cta || !own)
        return home;
    fault_at(w, op, lane, FAULT_TRAP,
             "%s at shared address %u%s: this is for the CTA's own mbarriers",
             w->cta->program->insns[op->insn].opcode, *at, cluster_name(w, home, of, sizeof of));
    return NULL;
}

// Called when a thread has seen phases of an mbarrier complete: makes the copies that are bound to
// them arrive.
static void see_phases(struct cta *cta, uint32_t meeting, uint32_t phases)
{
    copies_arrive(cta, meeting, phases);
    bulk_arrive(cta, meeting, phases);
}

static bool arrive(struct warp *w, const struct op *op, int lane, struct cta *home,
                   struct meeting *m, struct mbarrier_state *s, uint32_t count)
{
    if (!count || count > s->pending) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "arrives %u times at the mbarrier at shared address %u, where this phase lacks "
                 "%u of %u arrivals",
                 count, m->at, s->pending, s->expected);
        return false;
    }
    s->pending -= count;
    home->progress++;
    return true;
}

// Runs an operation for the lanes whose mbarrier is at one address of a CTA's shared memory.
static void at_one(struct warp *w, char *r, const struct op *op, uint32_t lanes, struct cta *cta,
                   uint32_t at)
{
    const struct mbarrier_operands *o = op->operands;
    struct meeting *m = meeting_at(cta, at);
    uint8_t *object = cta->shared + at;
    int first = __builtin_ctz(lanes);
    bool starts = op->mbarrier == MBARRIER_INIT, ends = op->mbarrier == MBARRIER_INVAL;
    // mbarrier.inval is checked only as a read: libcu++'s pipeline calls it after a match_any, with
    // no other synchronisation.
    if (cta == w->cta)
        race_shared(w, op, lanes, at, 8, starts ? RACE_WRITE : RACE_READ, NULL);
    for (uint32_t left = cta == w->cta ? 0 : lanes; left; left &= left - 1)
        race_remote(w, op, __builtin_ctz(left), cta, at, 8, RACE_READ, NULL);
    if (starts || ends) {
        uint32_t count = starts ? ((u32 *)(r + o->operand))[first] : 0;
        if (starts && (!count || count > 0xfffff)) {
            fault_at(w, op, first, FAULT_TRAP, "an mbarrier for %u arrivals", count);
            return;
        }
        uint64_t word = mbarrier_pack((struct mbarrier_state){.expected = count, .pending = count});
        memcpy(object, &word, 8);
        if (cta->written)
            written_mark(cta->written, at, 8);
        if (starts)
            race_init(w, first, at);
        clock_drop(&m->pending);
        clock_drop(&m->complete);
        m->phases++; // completes the phases of an earlier mbarrier at this address
        film_state(cta, op, op->mbarrier, lanes, m,
                   &(struct mbarrier_state){.expected = count, .pending = count});
        return;
    }
    uint64_t word;
    memcpy(&word, object, 8);
    struct mbarrier_state s = mbarrier_unpack(word);
    if (!s.expected) {
        fault_at(w, op, first, FAULT_TRAP,
                 "%s at shared address %u, where no mbarrier is initialised",
                 cta->program->insns[op->insn].opcode, at);
        return;
    }
    if (op->mbarrier == MBARRIER_WAIT) {
        uint32_t passed = 0;
        for (uint32_t left = lanes; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            uint32_t parity = o->parity ? ((u32 *)(r + o->operand))[i] & 1
                                        : mbarrier_unpack(((u64 *)(r + o->operand))[i]).parity;
            passed |= (uint32_t)(parity != s.parity) << i;
        }
        u32 *d = (u32 *)(r + op->d);
        *d = (*d & ~lanes) | passed;
        if (passed) {
            cta->progress++;
            see_phases(cta, (uint32_t)(m - cta->meetings), m->phases);
            race_acquire(w, passed, m->complete);
        }
        if (cta->film)
            film_ask(cta->film, op->insn, at, lanes, passed, m->phases);
        if (cta->trace)
            trace_ask(cta->trace, w, op->insn, at, passed == lanes);
        w->waits = passed == lanes ? NULL : op;
        w->waits_at = at;
        w->yields |= passed != lanes;
        return;
    }
    if (op->mbarrier == MBARRIER_COPIES)
        for (uint32_t left = lanes; left; left &= left - 1)
            copies_bind(w, __builtin_ctz(left), (uint32_t)(m - cta->meetings), m->phases);
    if (op->mbarrier != MBARRIER_EXPECT && op->mbarrier != MBARRIER_COMPLETE)
        race_release_to(w, lanes, cta, &m->pending);
    uint32_t phases = m->phases;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint32_t value = o->operand == NO_REGISTER ? 1 : ((u32 *)(r + o->operand))[i];
        if (o->result != NO_REGISTER)
            ((u64 *)(r + o->result))[i] = mbarrier_pack(s);
        switch (op->mbarrier) {
        case MBARRIER_EXPECT:
            if (!mbarrier_expect(w, op, i, at, &s, (int32_t)value))
                return;
            continue;
        case MBARRIER_COMPLETE:
            if (!mbarrier_expect(w, op, i, at, &s, -(int64_t)(int32_t)value))
                return;
            cta->progress++;
            break;
        case MBARRIER_ARRIVE_EXPECT:
        case MBARRIER_DROP_EXPECT:
            if (!mbarrier_expect(w, op, i, at, &s, (int32_t)value))
                return;
            value = 1;
            break;
        default: break;
        }
        if (op->mbarrier == MBARRIER_DROP || op->mbarrier == MBARRIER_DROP_EXPECT)
            s.expected -= value < s.expected ? value : s.expected - 1;
        if (op->mbarrier == MBARRIER_COPIES)
            value = o->no_increment;
        if (op->mbarrier != MBARRIER_COMPLETE && value && !arrive(w, op, i, cta, m, &s, value))
            return;
        mbarrier_settle(cta, m, &s);
    }
    film_state(cta, op, op->mbarrier, lanes, m, &s);
    if (cta->trace && op->mbarrier != MBARRIER_EXPECT)
        trace_meet(cta->trace, w, at, m->phases != phases);
    word = mbarrier_pack(s);
    memcpy(object, &word, 8);
}

void mbarrier_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    uint32_t at[WARP], good = 0;
    struct cta *home[WARP];
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        home[i] = find_object(w, r, op, i, &at[i]);
        good |= (uint32_t)(home[i] != NULL) << i;
    }
    while (good && !w->cta->faulted) {
        int first = __builtin_ctz(good);
        uint32_t same = 0;
        for (uint32_t left = good; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            same |= (uint32_t)(at[i] == at[first] && home[i] == home[first]) << i;
        }
        good &= ~same;
        at_one(w, r, op, same, home[first], at[first]);
        if (op->mbarrier != MBARRIER_WAIT)
            note_effect(w);
    }
}

// a: a state; d: how many arrivals it lacked.
void mbarrier_pending_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)w, (void)mask;
    for (int i = 0; i < WARP; ++i)
        ((u32 *)(r + op->d))[i] = mbarrier_unpack(((u64 *)(r + op->a))[i]).pending;
}

// ---- Fences -------------------------------------------------------------------------------------

// imm: nonzero for a fence that other CTAs see.
void fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    if (op->of_inits)
        race_init_fence(w, mask);
    race_fence(w, mask, op->imm);
}

void proxy_fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r;
    race_proxy_fence(w, mask, op->imm & PROXY_FENCE_SHARED, op->imm & PROXY_FENCE_GLOBAL);
}

void nanosleep_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op, (void)mask;
    w->yields = true;
}

// ---- Dependent launches -------------------------------------------------------------------------

void start_dependents_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op, (void)mask;
    w->cta->worker->starts_dependents = true;
}

// One thread's wait for the previous kernel counts for all threads of its cluster: a barrier may
// order what the thread has seen before what they do.
void await_dependency_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    (void)r, (void)op, (void)mask;
    for (int rank = 0; rank < cluster_size(w->cta); ++rank)
        cta_at(w->cta, rank)->waited = true;
}

// ---- A CTA begins and ends ----------------------------------------------------------------------

void sync_start(struct cta *cta)
{
    meetings_start(cta);
    copies_start(cta);
    bulk_start(cta);
    wgmma_start(cta);
    for (int i = 0; i < cta->warps; ++i) {
        cta->warp[i].yields = false;
        cta->warp[i].waits = NULL;
    }
}

void sync_finish(struct cta *cta)
{
    bulk_finish(cta);
    wgmma_finish(cta);
}

void sync_destroy(struct cta *cta)
{
    sync_start(cta);
    meetings_destroy(cta);
    copies_destroy(cta);
    bulk_destroy(cta);
    wgmma_destroy(cta);
}
