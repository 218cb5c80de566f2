// shared.c: checks an access to a CTA's own shared memory against those that its cells remember, and notes it there.
#include "order.h"

bool race_line_arrived(struct races *s, const struct warp_clock *c, uint32_t line)
{
    struct latest *l = &s->writes[line], now = {0};
    for (uint32_t i = line * LINE; i < (line + 1) * LINE; ++i) {
        if (s->write_stamp[i] == RACE_PENDING)
            return false;
        uint32_t warp = s->write_stamp[i] == RACE_FOREIGN ? SEVERAL : source_of(s->write_thread[i]);
        if (s->write_stamp[i] > c->base_all)
            latest_note(&now, s->write_stamp[i], warp, 0, c->base_all);
    }
    *l = now;
    return latest_ordered(c, l);
}

// Whether, by what all lanes of the warp know, every earlier conflicting access to some cells of a
// line is ordered before an access that any of them makes now. The cells are looked at only if the
// line's latest accesses do not settle the question.
static bool line_ordered(const struct warp *w, uint32_t line, uint32_t cells, bool write)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    const uint32_t *stamps = s->write_stamp + line * LINE, *threads = s->write_thread + line * LINE;
    bool before = latest_ordered(c, &s->writes[line]) ||
                  (s->writes[line].stamp >= RACE_FOREIGN && race_line_arrived(s, c, line));
    for (uint32_t left = before ? 0 : cells; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        if (stamps[i] > c->least[source_of(threads[i])])
            return false;
    }
    if (!write || latest_ordered(c, &s->reads[line]))
        return true;
    if (s->reads[line].stamp == RACE_FOREIGN)
        return false;
    for (int p = 0; p < s->warps; ++p) {
        if (reading_before(&s->read[p], line, c->least[p]))
            continue;
        reading_settle(&s->read[p], line);
        if (s->read[p].reading[line].strong > c->least[p])
            return false;
        for (uint32_t left = cells; left; left &= left - 1)
            if (s->read[p].stamp[line * LINE + (uint32_t)__builtin_ctz(left)] > c->least[p])
                return false;
    }
    return true;
}

// Notes an access if every conflicting access is ordered before it by what all lanes of the warp
// know. Otherwise returns false, with nothing noted: the conflicting accesses may still be ordered
// before it by what the access's own lanes know.
static bool plainly_ordered(struct warp *w, const struct op *op, uint32_t lanes, uint32_t first,
                            uint32_t last, bool write)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, thread = warp * WARP + 31 - (uint32_t)__builtin_clz(lanes);
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (!line_ordered(w, line, line_cells(line, first, last), write))
            return false;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (write)
            latest_note(&s->writes[line], c->now_all, warp, 0, c->base_all);
        else
            reading_note(w, c->now_all, line, line_cells(line, first, last), lanes, 0);
    for (uint32_t cell = first; cell <= last; ++cell) {
        if (write) {
            s->write_stamp[cell] = c->now_all;
            s->write_thread[cell] = thread;
            s->write_insn[cell] = op->insn;
        } else {
            s->read[warp].insn[cell] = op->insn;
        }
    }
    return true;
}

// Notes the issue of a copy, whose write is then under way, if every conflicting access is ordered
// before the copy by what all lanes of the warp know. Otherwise returns false, with nothing noted:
// the conflicting accesses may still be ordered before it by what the copy's own lane knows.
static bool plainly_issued(struct warp *w, const struct op *op, int lane, uint32_t first,
                           uint32_t last)
{
    struct races *s = w->cta->races;
    const struct warp_clock *c = w->clock;
    uint32_t warp = (uint32_t)w->index, count = last - first + 1;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        if (!latest_ordered(c, &s->reads[line]))
            return false;
    if (!writes_before(s, c, first, last))
        return false;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        latest_note(&s->writes[line], RACE_PENDING, warp, 0, c->base_all);
    fill(s->write_stamp + first, count, RACE_PENDING);
    fill(s->write_thread + first, count, (warp * WARP + (uint32_t)lane) | RACE_ASYNC_THREAD);
    fill(s->write_insn + first, count, op->insn);
    s->pending = true;
    return true;
}

bool race_operand(struct warp *w, const struct op *op, const struct line_part *parts, uint32_t n,
                  bool noted)
{
    const struct warp_clock *c = w->clock;
    // As in race_shared: if the lanes' times differ, takes the last lane's time.
    uint32_t now = c->now_all ? c->now_all : c->now[WARP - 1];
    uint32_t *insns = w->cta->races->read[w->index].insn;
    race_settle(w);
    for (uint32_t i = 0; i < n; ++i)
        if (!line_ordered(w, parts[i].line, parts[i].cells, false))
            return false;
    for (uint32_t i = 0; noted && i < n; ++i) {
        reading_note(w, now, parts[i].line, parts[i].cells, ~0u, 0);
        for (uint32_t left = parts[i].cells; left; left &= left - 1)
            insns[parts[i].line * LINE + (uint32_t)__builtin_ctz(left)] = op->insn;
    }
    return true;
}

// Before an access that is checked cell by cell: settles the readings of its lines, and notes the access at the lines.
static void note_lines(struct warp *w, uint32_t first, uint32_t last, uint32_t stamp, bool write,
                       bool strong)
{
    struct races *s = w->cta->races;
    uint32_t base = w->clock->base_all, warp = (uint32_t)w->index;
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line) {
        for (uint32_t p = 0; p < (uint32_t)s->warps; ++p)
            if (write || p == warp)
                reading_settle(&s->read[p], line);
        latest_note(write ? &s->writes[line] : &s->reads[line], stamp, warp, 0, base);
        struct reading *own = &s->read[warp].reading[line];
        if (!write)
            own->older = own->older > stamp ? own->older : stamp;
        if (!write && strong)
            own->strong = stamp;
    }
    s->pending |= stamp >= RACE_FOREIGN;
}

static void note_reader(struct races *s, int warp, uint32_t kind, uint32_t cell, uint32_t lanes,
                        uint32_t now, uint32_t insn)
{
    uint32_t **strong = &s->read[warp].strong[kind];
    if (kind != RACE_PLAIN && !*strong)
        *strong = need(calloc(s->cells, 3 * sizeof **strong));
    struct cell_reads r = reads_at(s, warp, kind, cell);
    *r.lanes = (*r.stamp == now ? *r.lanes : 0) | lanes;
    *r.stamp = now;
    *r.insn = insn;
}

// Whether an access and the last write to a cell, which another CTA made, are morally strong.
static bool foreign_is_strong(const struct warp *w, const struct op *op, uint32_t cell)
{
    const struct party *p = &w->cta->races->foreign->of[FOREIGN_WRITE][cell];
    return are_morally_strong(w, op, p->cta, p->kind, p->insn);
}

static bool same_readers(struct readers a, struct readers b)
{
    return a.stamp == b.stamp && a.lanes == b.lanes && a.insn == b.insn;
}

// A bit for each warp that may have read some of the cells after `base`. plain: by plain reads,
// which have been settled; strong: by strong reads.
struct late_readers {
    uint32_t plain, strong;
};

static struct late_readers late_readers(const struct races *s, uint32_t first, uint32_t last,
                                        uint32_t base)
{
    struct late_readers late = {0};
    for (uint32_t line = first >> LINE_SHIFT; line <= last >> LINE_SHIFT; ++line)
        for (int p = 0; p < s->warps; ++p) {
            late.plain |= (uint32_t)(s->read[p].reading[line].older > base) << p;
            late.strong |= (uint32_t)(s->read[p].reading[line].strong > base) << p;
        }
    return late;
}

void race_shared(struct warp *w, const struct op *op, uint32_t lanes, uint32_t at, uint32_t bytes,
                 enum race_access access, const void *value)
{
    struct cta *cta = w->cta;
    struct races *s = cta->races;
    if (!s || !lanes || !bytes || !within(at, bytes, cta->shared_bytes))
        return;
    struct warp_clock *c = w->clock;
    race_settle(w);
    uint32_t kind = race_kind(op);
    bool strong = kind != RACE_PLAIN, write = access == RACE_WRITE || access == RACE_ASYNC;
    uint32_t first = at >> s->shift, last = (at + bytes - 1) >> s->shift;
    if (access == RACE_LOOK && writes_before(s, c, first, last))
        return;
    if (c->now_all && !strong && access <= RACE_WRITE &&
        plainly_ordered(w, op, lanes, first, last, write))
        return;
    if (access == RACE_ASYNC && !strong &&
        plainly_issued(w, op, 31 - __builtin_clz(lanes), first, last))
        return;
    uint32_t mine = (uint32_t)w->index * WARP, insn = op->insn | kind << RACE_KIND_SHIFT;
    int rep = 31 - __builtin_clz(lanes);
    bool told = false;
    uint32_t now = write || !c->now_all ? c->now[rep] : c->now_all;
    if (access != RACE_LOOK)
        note_lines(w, first, last, access == RACE_ASYNC ? RACE_PENDING : now, write, strong);
    // The last write, and each warp's last read, that were found to be ordered before this access. Mostly neighbouring
    // cells have the same ones, which are then not compared again.
    uint32_t good_stamp = 0, good_thread = 0;
    struct readers good[WARP];
    struct late_readers late = {0};
    if (write)
        late = late_readers(s, first, last, c->base_all);
    for (uint32_t left = late.plain; left; left &= left - 1)
        good[__builtin_ctz(left)] = (struct readers){0};
    for (uint32_t cell = first; cell <= last; ++cell) {
        uint32_t stamp = s->write_stamp[cell], thread = s->write_thread[cell];
        if (stamp > c->base_all && !(stamp == good_stamp && thread == good_thread) &&
            !(are_strong(kind, s->write_insn[cell] >> RACE_KIND_SHIFT) &&
              (stamp != RACE_FOREIGN || foreign_is_strong(w, op, cell)) &&
              !in_step(w, op, rep, thread, s->write_insn[cell])) &&
            !told) {
            bool all = true;
            for (uint32_t left = lanes; left && !told; left &= left - 1) {
                int lane = __builtin_ctz(left);
                if (stamp == RACE_FOREIGN
                        ? party_before(w, lane, &s->foreign->of[FOREIGN_WRITE][cell])
                        : stamp != RACE_PENDING && ordered(w, lane, thread, stamp))
                    continue;
                all = false;
                if (!write && is_load_of_cas(w, op->insn, s->write_insn[cell]))
                    continue;
                if (stamp != RACE_PENDING &&
                    both_matrices(w, op, thread / WARP, s->write_insn[cell]))
                    continue;
                if (access == RACE_WRITE && value && stamp != RACE_PENDING &&
                    stores_same(cta->shared + at, value,
                                part_in(at, bytes, (uint64_t)cell << s->shift, 1u << s->shift)))
                    continue;
                if (stamp == RACE_FOREIGN)
                    report_cluster(w, op, lane, cta, at, bytes, access,
                                   &s->foreign->of[FOREIGN_WRITE][cell], "wrote");
                else
                    report_shared(w, op, lane, at, bytes, access, thread, s->write_insn[cell], true,
                                  stamp);
                told = true;
            }
            if (all && stamp != RACE_FOREIGN)
                good_stamp = stamp, good_thread = thread;
        }
        if (access == RACE_LOOK)
            continue;
        if (!write) {
            note_reader(s, w->index, kind, cell, lanes, now, op->insn);
            continue;
        }
        for (uint32_t left = late.plain | late.strong; left && !told; left &= left - 1) {
            int p = __builtin_ctz(left), lane = -1;
            struct readers r;
            uint32_t reader;
            if (late.plain >> p & 1 && s->read[p].stamp[cell] > c->base_all &&
                !same_readers(r = readers_of(s, p, RACE_PLAIN, cell), good[p]) &&
                (lane = race_with(w, op, lanes, &r, &reader)) < 0)
                good[p] = r;
            for (uint32_t k = 1; k < RACE_KINDS && lane < 0 && late.strong >> p & 1; ++k)
                if (s->read[p].strong[k] && (r = readers_of(s, p, k, cell)).stamp > c->base_all)
                    lane = race_with(w, op, lanes, &r, &reader);
            if (lane >= 0) {
                report_shared(w, op, lane, at, bytes, access, reader, r.insn, false, 0);
                told = true;
            }
        }
        if (s->foreign && !told)
            told = race_foreign_read(w, op, lanes, cell, at, bytes, access);
        s->write_stamp[cell] = access == RACE_ASYNC ? RACE_PENDING : now;
        s->write_thread[cell] =
            (mine + (uint32_t)rep) | (access == RACE_ASYNC ? RACE_ASYNC_THREAD : 0);
        s->write_insn[cell] = insn;
    }
    if (write && s->foreign)
        race_foreign_settle(s, first, last);
}
