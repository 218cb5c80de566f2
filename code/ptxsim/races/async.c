// async.c: bytes that a copy writes to shared memory when they come, and the asynchronous proxy, which
// sees what threads have written only after a fence.
#include "order.h"

void race_arrived(struct cta *home, const struct warp *w, int lane, uint32_t insn, uint32_t at,
                  uint32_t bytes, uint32_t stamp)
{
    struct races *s = home->races;
    if (!s || !bytes)
        return;
    uint32_t thread = (uint32_t)w->index * WARP + (uint32_t)lane;
    uint32_t first = at >> s->shift, count = ((at + bytes - 1) >> s->shift) - first + 1;
    uint32_t *restrict stamps = s->write_stamp + first, *restrict threads = s->write_thread + first;
    const uint32_t *insns = s->write_insn + first;
    for (uint32_t i = 0; i < count; ++i) {
        bool its = (stamps[i] == RACE_PENDING) & (insns[i] == insn) &
                   (threads[i] == (thread | RACE_ASYNC_THREAD));
        stamps[i] = its ? stamp : stamps[i];
        threads[i] = its ? thread : threads[i];
    }
}

void race_proxy_fence(struct warp *w, uint32_t lanes)
{
    if (!w->clock)
        return;
    race_release_lanes(w, lanes, &w->clock->proxy);
    race_step(w, lanes, race_tick(w->cta));
    race_summarise(w);
}

bool race_proxy(struct warp *w, const struct op *op, int lane, uint32_t at, uint32_t bytes,
                bool store)
{
    const struct cta *cta = w->cta;
    const struct races *s = cta->races;
    if (!s || !bytes || !within(at, bytes, cta->shared_bytes))
        return false;
    for (uint32_t cell = at >> s->shift; cell <= (at + bytes - 1) >> s->shift; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp <= s->start || stamp >= RACE_FOREIGN || is_bulk(w, s->write_insn[cell]))
            continue;
        bool fenced = shown(w, thread, stamp) || shown(&cta->warp[thread / WARP], thread, stamp);
        for (int i = 0; i < cta->warps && !fenced; ++i)
            fenced = shown(&cta->warp[i], thread, stamp);
        if (fenced)
            continue;
        report_proxy(w, op, lane, at, bytes, store, thread, s->write_insn[cell]);
        return true;
    }
    return false;
}
