// race_runs.h: race checks of whole-warp accesses to shared memory. Included by each instruction
// set's file, before access.h. What these loops cannot show to be in order goes to
// race_shared, lane by lane.

// Checks and notes an access by all lanes: one after the other from `at`, `size` bytes each, or
// (same) all at `at`.
static inline __attribute__((always_inline)) void
FN(race_run)(struct warp *w, const struct op *op, uint32_t at, const uint32_t size, const bool same,
             const bool store)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    const uint32_t *least = c->least, now = c->now_all;
    uint32_t warp = (uint32_t)w->index, first = warp * WARP, insn = op->insn;
    uint32_t per = (uint32_t)__builtin_ctz(size) - s->shift; // log2 of a lane's cells
    uint32_t cell = at >> s->shift, n = (same ? 1u : WARP) << per;
    uint32_t bad = !now || op->order;
    uint32_t *ws = s->write_stamp + cell, *wt = s->write_thread + cell;
    if (same) {
        for (uint32_t j = 0; j < n; ++j)
            bad |= ws[j] > least[wt[j] / WARP % WARP];
    } else {
        for (uint32_t j = 0; j < n; ++j)
            bad |= (ws[j] > least[wt[j] / WARP % WARP]) & (wt[j] != first + (j >> per));
    }
    if (store)
        for (uint32_t p = 0; p < (uint32_t)s->warps; ++p) {
            const uint32_t *rs = s->read[p].stamp + cell, *rl = s->read[p].lanes + cell;
            if (p == warp)
                for (uint32_t j = 0; j < n; ++j)
                    bad |= (rs[j] > least[p]) & (rl[j] != 1u << (j >> per));
            else
                for (uint32_t j = 0; j < n; ++j)
                    bad |= rs[j] > least[p];
        }
    if (__builtin_expect(bad != 0, 0)) {
        if (same) {
            race_shared(w, op, ~0u, at, size, RACE_READ, NULL);
            return;
        }
        for (uint32_t i = 0; i < WARP; ++i)
            race_shared(w, op, 1u << i, at + i * size, size, store ? RACE_WRITE : RACE_READ, NULL);
        return;
    }
    if (store) {
        uint32_t *wi = s->write_insn + cell;
        for (uint32_t j = 0; j < n; ++j) {
            ws[j] = now;
            wt[j] = first + (j >> per);
            wi[j] = insn;
        }
        return;
    }
    struct read_plane *r = &s->read[warp];
    uint32_t *rs = r->stamp + cell, *rl = r->lanes + cell, *ri = r->insn + cell;
    for (uint32_t j = 0; j < n; ++j) {
        uint32_t lanes = same ? ~0u : 1u << (j >> per);
        rl[j] = (rs[j] == now ? rl[j] : 0) | lanes;
        rs[j] = now;
        ri[j] = insn;
    }
}

// The same of one lane of an irregular access.
static inline __attribute__((always_inline)) void
FN(race_lane)(struct warp *w, const struct op *op, int lane, uint32_t at, const uint32_t size,
              const bool store, const void *value)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t now = c->now_all;
    uint32_t cell = at >> s->shift, n = size >> s->shift, bad = !now || op->order;
    for (uint32_t j = cell; j < cell + n; ++j)
        bad |= s->write_stamp[j] > c->least[s->write_thread[j] / WARP % WARP];
    if (store)
        for (int p = 0; p < s->warps; ++p)
            for (uint32_t j = cell; j < cell + n; ++j)
                bad |= s->read[p].stamp[j] > c->least[p];
    if (bad) {
        race_shared(w, op, 1u << lane, at, size, store ? RACE_WRITE : RACE_READ, value);
        return;
    }
    struct read_plane *r = &s->read[w->index];
    for (uint32_t j = cell; j < cell + n; ++j) {
        if (store) {
            s->write_stamp[j] = now;
            s->write_thread[j] = (uint32_t)w->index * WARP + (uint32_t)lane;
            s->write_insn[j] = op->insn;
        } else {
            r->lanes[j] = (r->stamp[j] == now ? r->lanes[j] : 0) | 1u << lane;
            r->stamp[j] = now;
            r->insn[j] = op->insn;
        }
    }
}
