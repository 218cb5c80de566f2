// mbarrier.c: the state of mbarriers: objects, phases, descriptions. The operations on them are in
// sync.c.
#include "mbarrier.h"
#include "address.h"
#include "cluster.h"
#include "ptxsim/machine/film.h"

#include <stdio.h>
#include <stdlib.h>

struct meeting *meeting_at(struct cta *cta, uint32_t at)
{
    for (size_t i = 0; i < cta->meeting_count; ++i)
        if (cta->meetings[i].at == at)
            return &cta->meetings[i];
    cta->meetings = array_grow(cta->meetings, cta->meeting_count, &cta->meeting_capacity,
                               sizeof *cta->meetings);
    cta->meetings[cta->meeting_count] = (struct meeting){.at = at};
    return &cta->meetings[cta->meeting_count++];
}

struct cta *mbarrier_home(struct warp *w, const struct op *op, int lane, uint64_t wide, bool starts,
                          uint32_t *at)
{
    struct cta *home = cluster_home_wide(w, op, lane, wide, at);
    char of[64];
    if (*at % 8 || !within(*at, 8, home->shared_bytes)) {
        fault_shared_of(w, op, lane, home, *at, 8, starts);
        return NULL;
    }
    if (!starts && home->written && !written_all(home->written, *at, 8)) {
        fault_at(
            w, op, lane, FAULT_UNINITIALISED, "%s at shared address %u%s that nothing has written",
            w->cta->program->insns[op->insn].opcode, *at, cluster_name(w, home, of, sizeof of));
        return NULL;
    }
    return home;
}

bool mbarrier_expect(struct warp *w, const struct op *op, int lane, uint32_t at,
                     struct mbarrier_state *s, int64_t more)
{
    enum { MOST = (1 << 20) - 1 };
    int64_t bytes = s->bytes + more;
    if (bytes < -MOST || bytes > MOST) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "the mbarrier at shared address %u would lack %lld bytes, where %d are the most",
                 at, (long long)bytes, MOST);
        return false;
    }
    s->bytes = (int32_t)bytes;
    return true;
}

void mbarrier_settle(struct cta *cta, struct meeting *m, struct mbarrier_state *s)
{
    if (s->pending || s->bytes)
        return;
    s->parity ^= 1;
    s->pending = s->expected;
    m->phases++;
    clock_join(&m->complete, m->pending);
    clock_drop(&m->pending);
    cta->progress++;
}

void film_state(struct cta *cta, const struct op *op, enum mbarrier_kind kind, uint32_t lanes,
                const struct meeting *m, const struct mbarrier_state *s)
{
    if (cta->film)
        film_mbarrier(cta->film, op->insn,
                      &(struct film_mbarrier){.at = m->at,
                                              .kind = kind,
                                              .lanes = lanes,
                                              .pending = s->pending,
                                              .expected = s->expected,
                                              .bytes = s->bytes,
                                              .phases = m->phases});
}

bool mbarrier_bind(struct warp *w, const struct op *op, int lane, struct cta *home,
                   uint64_t address, uint32_t bytes, uint32_t *meeting, uint32_t *phase)
{
    struct op strong = *op;
    uint32_t at;
    uint64_t word;
    strong.order = ORDER_STRONG;
    strong.bytes = 8;
    struct cta *cta = mbarrier_home(w, op, lane, address, false, &at);
    if (!cta)
        return false;
    if (cta != home) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "%s to the shared memory of one CTA of the cluster, with the mbarrier of another",
                 w->cta->program->insns[op->insn].opcode);
        return false;
    }
    cluster_race(w, &strong, lane, cta, at, 8, RACE_READ, NULL);
    memcpy(&word, cta->shared + at, 8);
    struct mbarrier_state s = mbarrier_unpack(word);
    if (!s.expected) {
        fault_at(w, op, lane, FAULT_TRAP,
                 "%s at shared address %u, where no mbarrier is initialised",
                 cta->program->insns[op->insn].opcode, at);
        return false;
    }
    struct meeting *m = meeting_at(cta, at);
    *meeting = (uint32_t)(m - cta->meetings);
    *phase = m->phases;
    race_release_to(w, 1u << lane, cta, &m->pending);
    if (!mbarrier_expect(w, op, lane, at, &s, -(int64_t)bytes))
        return false;
    cta->progress++;
    mbarrier_settle(cta, m, &s);
    film_state(cta, op, MBARRIER_COMPLETE, 1u << lane, m, &s);
    word = mbarrier_pack(s);
    memcpy(cta->shared + at, &word, 8);
    return true;
}

void mbarrier_describe(const struct cta *cta, uint32_t at, char *text, size_t size)
{
    uint64_t word;
    memcpy(&word, cta->shared + at, 8);
    struct mbarrier_state s = mbarrier_unpack(word);
    char name[80];
    shared_name(cta->program, at, name, sizeof name);
    int used = snprintf(text, size, "mbarrier at %u%s, phase of parity %u: %u of %u arrivals", at,
                        name, s.parity, s.expected - s.pending, s.expected);
    if (s.bytes && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %d bytes missing", s.bytes);
}

void meetings_start(struct cta *cta)
{
    for (size_t i = 0; i < cta->meeting_count; ++i) {
        clock_drop(&cta->meetings[i].pending);
        clock_drop(&cta->meetings[i].complete);
    }
    cta->meeting_count = 0;
    cta->progress = cta->idle = 0;
}

void meetings_destroy(struct cta *cta)
{
    free(cta->meetings);
}
