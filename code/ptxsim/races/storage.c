// storage.c: the storage of the race checker for one CTA: made with a struct cta, and reset for
// each CTA that runs in that struct.
#include "internal.h"

static uint32_t *plane(uint32_t cells)
{
    return need(calloc(cells + WARP, sizeof(uint32_t)));
}

void races_create(struct cta *cta)
{
    struct races *s = cta->races = need(calloc(1, sizeof *s));
    s->shift = cta->program->cell_shift;
    s->cells = (cta->shared_bytes >> s->shift) + 1;
    s->warps = cta->warps;
    for (size_t i = 0; i < cta->program->insn_count; ++i)
        s->bulk |= cta->program->insns[i].family == FAMILY_BULK;
    s->threads = (uint32_t)cta->warps * (WARP + 1) +
                 (s->bulk || cta->program->tells_mbarriers ? LOAD_SOURCES : 0);
    s->write_stamp = plane(s->cells);
    s->write_thread = plane(s->cells);
    s->write_insn = plane(s->cells);
    s->writes = need(calloc(s->cells / LINE + 1, sizeof *s->writes));
    s->reads = need(calloc(s->cells / LINE + 1, sizeof *s->reads));
    for (int i = 0; i < cta->warps; ++i) {
        s->read[i].stamp = plane(s->cells);
        s->read[i].lanes = plane(s->cells);
        s->read[i].insn = plane(s->cells);
        s->read[i].reading = need(calloc(s->cells / LINE + 1, sizeof *s->read[i].reading));
        cta->warp[i].clock = need(calloc(1, sizeof *cta->warp[i].clock));
    }
}

static void forget_fences(struct worker *worker, struct warp_clock *c, int lane)
{
    for (int scope = 0; scope < FENCE_SCOPES; ++scope) {
        clock_drop(&c->fenced[scope][lane].known);
        snapshot_drop(worker, &c->fenced[scope][lane].last);
        snapshot_drop(worker, &c->fenced[scope][lane].before);
        c->fenced[scope][lane] = (struct fenced){0};
    }
}

static void forget_proxies(struct warp_clock *c)
{
    for (int space = 0; space < PROXY_SPACES; ++space)
        clock_drop(&c->proxy.old[space]);
    for (int i = 0; i < PROXY_FENCES; ++i)
        clock_drop(&c->proxy.of[i].shown);
    c->proxy.count = 0;
    c->fenced_for.home = NULL;
}

static void forget_known(struct worker *worker, struct warp_clock *c, int lane)
{
    clock_drop(&c->known[lane]);
    world_drop(&c->world[lane]);
    world_drop(&c->seen[lane]);
    world_drop(&c->narrow[lane]);
    world_drop(&c->met[lane].gpu);
    clock_drop(&c->met[lane].cta);
    snapshot_drop(worker, &c->met[lane].last);
    snapshot_drop(worker, &c->met[lane].before);
    c->met[lane].at = 0;
    c->met[lane].by.stamp = 0;
    c->deferred = 0;
}

static void forget_places(struct races *s)
{
    for (size_t i = 0; i < s->place_count; ++i)
        clock_drop(&s->places[i].clock);
    s->place_count = 0;
}

static void forget_foreign(struct races *s)
{
    if (!s->foreign)
        return;
    for (int k = 0; k < FOREIGN_PARTIES; ++k)
        free(s->foreign->of[k]);
    crowd_free(&s->foreign->crowd);
    free(s->foreign);
    s->foreign = NULL;
}

void races_destroy(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    forget_places(s);
    free(s->places);
    free(s->inits);
    free(s->seen.of);
    free(s->completed.of);
    free(s->write_stamp);
    free(s->write_thread);
    free(s->write_insn);
    free(s->writes);
    free(s->reads);
    forget_foreign(s);
    for (int i = 0; i < cta->warps; ++i) {
        free(s->read[i].stamp);
        free(s->read[i].lanes);
        free(s->read[i].insn);
        free(s->read[i].reading);
        for (int kind = 0; kind < RACE_KINDS; ++kind)
            free(s->read[i].strong[kind]);
        for (int lane = 0; lane < WARP; ++lane) {
            forget_known(cta->worker, cta->warp[i].clock, lane);
            forget_fences(cta->worker, cta->warp[i].clock, lane);
        }
        forget_proxies(cta->warp[i].clock);
        free(cta->warp[i].clock);
    }
    free(s);
}

// Of the stamps that the previous CTA has left, clears only RACE_PENDING and RACE_FOREIGN: all
// others are earlier than the start of this CTA. If the time has become large, clears all stamps
// and starts the time again.
void races_start(struct cta *cta)
{
    struct races *s = cta->races;
    if (!s)
        return;
    forget_places(s);
    s->seen.count = s->completed.count = 0;
    s->init_count = 0;
    s->load_sources = s->of_copies = 0;
    memset(s->came, 0, sizeof s->came);
    if (s->time > UINT32_MAX / 2) {
        uint32_t lines = s->cells / LINE + 1;
        memset(s->write_stamp, 0, s->cells * sizeof *s->write_stamp);
        memset(s->writes, 0, lines * sizeof *s->writes);
        memset(s->reads, 0, lines * sizeof *s->reads);
        for (int i = 0; i < cta->warps; ++i) {
            memset(s->read[i].stamp, 0, s->cells * sizeof *s->read[i].stamp);
            memset(s->read[i].reading, 0, lines * sizeof *s->read[i].reading);
            // Clears only the stamps, which come first.
            for (int kind = 0; kind < RACE_KINDS; ++kind)
                if (s->read[i].strong[kind])
                    memset(s->read[i].strong[kind], 0, s->cells * sizeof(uint32_t));
        }
        s->time = 0;
        s->pending = false;
    }
    for (uint32_t i = 0; s->pending && i < s->cells; ++i) {
        if (s->write_stamp[i] >= RACE_FOREIGN)
            s->write_stamp[i] = 0;
        if (s->writes[i / LINE].stamp >= RACE_FOREIGN)
            s->writes[i / LINE].stamp = 0;
        if (s->reads[i / LINE].stamp >= RACE_FOREIGN)
            s->reads[i / LINE].stamp = 0;
    }
    s->pending = false;
    forget_foreign(s);
    memset(s->fenced, 0, sizeof s->fenced);
    s->narrow = s->told_narrowly = false;
    uint32_t base = s->start = s->time++;
    for (int i = 0; i < cta->warps; ++i) {
        struct warp_clock *c = cta->warp[i].clock;
        forget_proxies(c);
        memset(c->waited, 0, sizeof c->waited);
        for (int lane = 0; lane < WARP; ++lane) {
            forget_known(cta->worker, c, lane);
            c->base[lane] = c->wbase[lane] = base;
            c->now[lane] = s->time;
            forget_fences(cta->worker, c, lane);
            for (int scope = 0; scope < FENCE_SCOPES; ++scope)
                c->fenced[scope][lane].base = c->fenced[scope][lane].wbase = base;
        }
        race_summarise(&cta->warp[i]);
    }
}
