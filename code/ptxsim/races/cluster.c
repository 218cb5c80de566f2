// cluster.c: the CTAs of a cluster: accesses to one another's shared memory, and the cluster's barrier.
#include "order.h"

static void foreign_make(struct races *s)
{
    if (s->foreign)
        return;
    s->foreign = need(calloc(1, sizeof *s->foreign));
    for (int k = 0; k < FOREIGN_PARTIES; ++k)
        s->foreign->of[k] = need(calloc(s->cells, sizeof **s->foreign->of));
}

// Whether a lane's write to a cell is a race with a read that is noted in `f`; *p gets that reader.
static bool foreign_races(const struct warp *w, const struct op *op, int lane,
                          const struct foreign *f, uint32_t cell, struct party *p)
{
    for (int k = FOREIGN_READ; k <= FOREIGN_READ_2; ++k) {
        *p = f->of[k][cell];
        if (p->stamp && !are_morally_strong(w, op, p->cta, p->kind, p->insn) &&
            !party_before(w, lane, p))
            return true;
    }
    return crowd_has(f->crowd, cell, 1) && crowd_races(w, op, lane, f->crowd, cell, 1, p);
}

static void foreign_forget(struct foreign *f, uint32_t cell)
{
    f->of[FOREIGN_READ][cell] = f->of[FOREIGN_READ_2][cell] = (struct party){0};
    if (crowd_has(f->crowd, cell, 1))
        crowd_forget(f->crowd, cell, 1);
}

bool race_foreign_read(struct warp *w, const struct op *op, uint32_t lanes, uint32_t cell,
                       uint32_t at, uint32_t bytes, enum race_access access)
{
    struct foreign *f = w->cta->races->foreign;
    struct party p;
    bool told = false;
    for (uint32_t left = lanes; left && !told; left &= left - 1) {
        told = foreign_races(w, op, __builtin_ctz(left), f, cell, &p);
        if (told)
            report_cluster(w, op, __builtin_ctz(left), w->cta, at, bytes, access, &p, "read");
    }
    foreign_forget(f, cell);
    return told;
}

void race_foreign_settle(struct races *s, uint32_t first, uint32_t last)
{
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        bool read = false;
        for (uint32_t i = line * LINE; i < (line + 1) * LINE && i < s->cells; ++i)
            read |= s->foreign->of[FOREIGN_READ][i].stamp ||
                    s->foreign->of[FOREIGN_READ_2][i].stamp || crowd_has(s->foreign->crowd, i, 1);
        if (!read && s->reads[line].stamp == RACE_FOREIGN)
            s->reads[line] = (struct latest){.stamp = s->time, .warp = SEVERAL};
    }
}

static struct party own_write(const struct cta *home, uint32_t cell)
{
    const struct races *s = home->races;
    if (s->write_stamp[cell] == RACE_FOREIGN)
        return s->foreign->of[FOREIGN_WRITE][cell];
    if (s->write_stamp[cell] <= s->start)
        return (struct party){0};
    const struct cta *cta = issuing_cta(home, s->write_thread[cell]);
    return party_of((uint32_t)cta->number, s->write_stamp[cell], issuer_of(s->write_thread[cell]),
                    s->write_insn[cell], s->write_insn[cell] >> RACE_KIND_SHIFT);
}

// Whether the last write to a cell of `home` is ordered before what a lane of another CTA does now. p: what own_write
// returned for the cell.
static bool own_write_before(const struct warp *w, int lane, const struct cta *home, uint32_t cell,
                             const struct party *p)
{
    const struct races *s = home->races;
    uint32_t source = source_of(s->write_thread[cell]);
    if (s->write_stamp[cell] == RACE_FOREIGN || source < LOADS)
        return party_before(w, lane, p);
    const struct clock *known = world_clock(w->clock->world[lane], home->number);
    return (known && clock_knows(known, loads_of(s, source), p->stamp)) ||
           (issuer_has_waited(home, s->write_thread[cell], p->stamp) && party_before(w, lane, p));
}

// A thread of `home` whose read of a cell is not ordered with the lane's write to it; stamp 0: none.
static struct party own_reader(const struct warp *w, const struct op *op, int lane,
                               struct cta *home, uint32_t cell)
{
    struct races *s = home->races;
    const struct clock *known = world_clock(w->clock->world[lane], home->number);
    for (uint32_t i = 0; i < (uint32_t)s->warps * RACE_KINDS; ++i) {
        uint32_t p = i / RACE_KINDS, kind = i % RACE_KINDS;
        if (kind == RACE_PLAIN)
            reading_settle(&s->read[p], cell >> LINE_SHIFT);
        else if (!s->read[p].strong[kind])
            continue;
        struct readers r = readers_of(s, (int)p, kind, cell);
        if (r.stamp <= s->start ||
            are_morally_strong(w, op, (uint32_t)home->number, kind, r.insn) ||
            product_read(s, w, known, (int)p, r.stamp, r.insn))
            continue;
        for (uint32_t left = r.lanes; left; left &= left - 1) {
            struct party reader = party_of((uint32_t)home->number, r.stamp,
                                           p * WARP + (uint32_t)__builtin_ctz(left), r.insn, kind);
            if (!party_before(w, lane, &reader))
                return reader;
        }
    }
    return (struct party){0};
}

static void note_foreign_read(const struct warp *w, int lane, struct races *s, uint32_t cell,
                              struct party me)
{
    for (int k = FOREIGN_READ; k <= FOREIGN_READ_2; ++k)
        if (takes_place(w, lane, &me, &s->foreign->of[k][cell])) {
            s->foreign->of[k][cell] = me;
            return;
        }
    crowd_note(&s->foreign->crowd, s->cells, me.cta, (uint32_t)w->index, me.kind,
               (struct stretch){cell, cell + 1, me.stamp, me.insn, 1u << lane, 0});
}

// Checks a lane's access to one cell. Returns true if there is no race. Otherwise *p is the other party, and *did says
// what it did. same: the write leaves the cell as it is.
static bool remote_ordered(const struct warp *w, const struct op *op, int lane, struct cta *home,
                           uint32_t cell, enum race_access access, bool same, struct party *p,
                           const char **did)
{
    struct races *s = home->races;
    *did = "read";
    *p = access == RACE_READ ? (struct party){0} : own_reader(w, op, lane, home, cell);
    if (access != RACE_READ && (p->stamp || foreign_races(w, op, lane, s->foreign, cell, p)))
        return false;
    *p = own_write(home, cell);
    *did = "wrote";
    if (s->write_stamp[cell] == RACE_PENDING)
        *did = "is still copying to (nothing has waited for it)";
    else if (!p->stamp || are_morally_strong(w, op, p->cta, p->kind, p->insn) || same ||
             own_write_before(w, lane, home, cell, p) ||
             (access == RACE_READ && is_load_of_cas(w, op->insn, p->insn)))
        return true;
    return false;
}

void race_remote(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                 uint32_t bytes, enum race_access access, const void *value)
{
    struct races *s = home->races;
    if (!s || !w->clock || !bytes || !within(at, bytes, home->shared_bytes))
        return;
    race_settle(w);
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    bool told = !has_begun(w, lane, home);
    struct party me = party_by(w, lane, op);
    if (told)
        race_report(
            w, op, lane, FAULT_RACE, op->insn,
            "%s shared memory of block (%u,%u,%u), which may not have begun: a barrier of the "
            "cluster comes first",
            access == RACE_READ ? "reads" : "writes", home->index[0], home->index[1],
            home->index[2]);
    foreign_make(s);
    s->pending = true;
    for (uint32_t cell = first; cell <= last; ++cell) {
        struct latest *line =
            access == RACE_READ ? &s->reads[cell >> LINE_SHIFT] : &s->writes[cell >> LINE_SHIFT];
        struct party p;
        const char *did;
        bool same = access == RACE_WRITE && value &&
                    stores_same(home->shared + at, value,
                                part_in(at, bytes, (uint64_t)cell << s->shift, 1u << s->shift));
        if (!told && !remote_ordered(w, op, lane, home, cell, access, same, &p, &did)) {
            report_cluster(w, op, lane, home, at, bytes, access, &p, did);
            told = true;
        }
        if (line->stamp != RACE_PENDING)
            *line = (struct latest){.stamp = RACE_FOREIGN, .warp = SEVERAL};
        if (access == RACE_READ) {
            note_foreign_read(w, lane, s, cell, me);
            continue;
        }
        foreign_forget(s->foreign, cell);
        s->foreign->of[FOREIGN_WRITE][cell] = access == RACE_ASYNC ? (struct party){0} : me;
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : RACE_FOREIGN;
        s->write_thread[cell] = issuer_in(home, w, lane) | RACE_ASYNC_THREAD;
        s->write_insn[cell] = op->insn | race_kind(op) << RACE_KIND_SHIFT;
        if (access == RACE_ASYNC)
            line->stamp = RACE_PENDING;
    }
}

// Returns a world with all that lanes have done and know. As any release does, advances the lanes' time.
static struct world *release_to_world(struct warp *w, uint32_t lanes)
{
    struct clock *clock = NULL;
    race_settle(w);
    race_release_lanes(w, lanes, &clock);
    struct world *world = clock_world(w->cta, clock);
    clock_drop(&clock);
    race_step(w, lanes, race_tick(w->cta));
    race_summarise(w);
    return world;
}

static void acquire_from_world(struct warp *w, uint32_t lanes, struct world *world)
{
    struct world *others = world_without(world, w->cta->number);
    struct clock *own = world_clock(world, w->cta->number);
    if (own)
        race_acquire_lanes(w->clock, lanes, own);
    for (uint32_t left = lanes; left; left &= left - 1)
        world_join(&w->clock->world[__builtin_ctz(left)], others);
    world_drop(&others);
    race_summarise(w);
}

void race_release_to(struct warp *w, uint32_t lanes, struct cta *home, struct clock **clock)
{
    if (home == w->cta) {
        race_release(w, lanes, clock);
        return;
    }
    if (!w->clock)
        return;
    struct world *world = release_to_world(w, lanes);
    clock_tell(home, clock, world);
    world_drop(&world);
}

void race_init(struct warp *w, int lane, uint32_t at)
{
    struct races *s = w->cta->races;
    if (!s || !w->cta->cluster)
        return;
    if (s->init_count == s->init_capacity) {
        s->init_capacity = s->init_capacity ? 2 * s->init_capacity : 16;
        s->inits = need(realloc(s->inits, s->init_capacity * sizeof *s->inits));
    }
    s->inits[s->init_count++] = (struct init){
        .at = at, .thread = (uint32_t)(w->index * WARP + lane), .stamp = w->clock->now[lane]};
}

// Of the mbarriers that these lanes have initialised, moves those in state `from` to the next
// state.
static void inits_go_on(struct warp *w, uint32_t lanes, int from)
{
    struct races *s = w->cta->races;
    for (size_t i = 0; s && i < s->init_count; ++i) {
        struct init *init = &s->inits[i];
        if (init->thread / WARP == (uint32_t)w->index && lanes >> init->thread % WARP & 1 &&
            (int)init->state == from)
            init->state++;
    }
}

void race_init_fence(struct warp *w, uint32_t lanes)
{
    inits_go_on(w, lanes, INIT_DONE);
}

// Called when all threads have arrived at the cluster's barrier. From now on, an mbarrier that was initialised and
// fenced before the barrier counts as initialised before the CTA began, so that every access to the
// mbarrier is ordered after its initialisation.
static void settle_inits(struct races *s)
{
    size_t left = 0;
    for (size_t i = 0; i < s->init_count; ++i) {
        struct init init = s->inits[i];
        if (init.state != INIT_ARRIVED) {
            s->inits[left++] = init;
            continue;
        }
        for (uint32_t cell = init.at >> s->shift; cell <= (init.at + 7) >> s->shift; ++cell)
            if (s->write_stamp[cell] == init.stamp && s->write_thread[cell] == init.thread)
                s->write_stamp[cell] = s->start;
    }
    s->init_count = left;
}

void race_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed)
{
    struct cluster *cluster = w->cta->cluster;
    if (!w->clock)
        return;
    inits_go_on(w, lanes, INIT_FENCED);
    struct world *world;
    if (relaxed) {
        struct clock *begun = NULL;
        clock_own(&begun, w->cta->races->threads)->base = w->cta->races->start;
        world = world_of(w->cta->number, begun);
        clock_drop(&begun);
    } else {
        world = release_to_world(w, lanes);
    }
    world_join(&cluster->pending, world);
    world_drop(&world);
}

void race_cluster_phase(struct cluster *cluster)
{
    world_join(&cluster->complete, cluster->pending);
    world_drop(&cluster->pending);
    for (int rank = 0; rank < cluster->size; ++rank)
        if (cluster->cta[rank]->races)
            settle_inits(cluster->cta[rank]->races);
}

void race_cluster_wait(struct warp *w, uint32_t lanes)
{
    if (w->clock && lanes && w->cta->cluster->complete)
        acquire_from_world(w, lanes, w->cta->cluster->complete);
}

void race_cluster_forget(struct cluster *cluster)
{
    world_drop(&cluster->pending);
    world_drop(&cluster->complete);
}

// What the threads of a CTA know of other CTAs when they end: the join over all threads.
static struct world *known_at_end(const struct cta *cta)
{
    struct world *all = NULL;
    for (int i = 0; i < cta->warps; ++i)
        race_settle(&cta->warp[i]);
    for (int i = 0; i < cta->warps; ++i)
        for (int lane = 0; lane < WARP; ++lane)
            world_join(&all, cta->warp[i].clock->world[lane]);
    return all;
}

struct leaving {
    struct cta *cta;
    struct world *known;
    struct party last;
};

// Reports a party's access to the shared memory of a CTA if none of the CTA's threads has learnt of
// the access: the CTA may have ended before. A party that was the last one reported is not reported
// again. As a reading_fn it always returns false, so that all readings are looked at.
static bool is_left(void *data, const struct party *p, uint32_t cell)
{
    struct leaving *l = data;
    const struct clock *known = world_clock(l->known, p->cta);
    if ((p->cta == l->last.cta && p->stamp == l->last.stamp && p->thread == l->last.thread) ||
        (known && clock_knows(known, p->thread, p->stamp)))
        return false;
    l->last = *p;
    struct cta *other = cta_of(&l->cta->warp[0], p->cta);
    const struct op at = {.insn = p->insn};
    race_report(&other->warp[p->thread / WARP], &at, (int)(p->thread % WARP), FAULT_RACE, p->insn,
                "accesses shared memory of block (%u,%u,%u) at %u, which may have ended by then: "
                "nothing makes it wait (a barrier of the cluster)",
                l->cta->index[0], l->cta->index[1], l->cta->index[2], cell << l->cta->races->shift);
    return false;
}

void race_leave(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s || !s->foreign)
        return;
    struct leaving l = {.cta = cta, .known = known_at_end(cta)};
    for (uint32_t i = 0; i < s->cells * FOREIGN_PARTIES; ++i) {
        struct party p = s->foreign->of[i / s->cells][i % s->cells];
        if (p.stamp && (i / s->cells != FOREIGN_WRITE || s->write_stamp[i] == RACE_FOREIGN))
            is_left(&l, &p, i % s->cells);
    }
    struct party none;
    crowd_find(s->foreign->crowd, 0, s->cells, is_left, &l, &none);
    world_drop(&l.known);
}
