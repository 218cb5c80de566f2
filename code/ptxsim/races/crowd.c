// crowd.c: crowds: the readers that do not fit into a cell.
#include "order.h"

static uint32_t stretch_lanes(const struct stretch *s, uint32_t cell)
{
    uint32_t per = s->run % (1 << RUN_SHIFT);
    return s->lanes ? s->lanes : 1u << ((cell + (s->run >> RUN_SHIFT)) >> per) % WARP;
}

static bool same_readers(const struct stretch *a, const struct stretch *b)
{
    return a->lanes == b->lanes && a->run == b->run;
}

// Most bytes of all crowds of the process. When they are used up, further readers are not noted.
enum { MOST_CROWD = 256 << 20 };
static _Atomic size_t crowd_bytes;

static void reader_grow(struct reader *r)
{
    if (r->count < r->capacity)
        return;
    atomic_fetch_add(&crowd_bytes, (r->capacity + 2) * sizeof *r->of);
    r->capacity = 2 * r->capacity + 2;
    r->of = need(realloc(r->of, r->capacity * sizeof *r->of));
}

static void reader_free(struct reader *r)
{
    atomic_fetch_sub(&crowd_bytes, r->capacity * sizeof *r->of);
    free(r->of);
}

static void crowd_empty(struct crowd *c)
{
    for (uint32_t i = 0; i < c->capacity; ++i)
        reader_free(&c->readers[i]);
    atomic_fetch_sub(&crowd_bytes, c->capacity * sizeof *c->readers);
    free(c->readers);
    c->readers = c->last = NULL;
    c->count = c->capacity = 0;
}

void crowd_free(struct crowd **crowd)
{
    if (*crowd)
        crowd_empty(*crowd);
    free(*crowd);
    *crowd = NULL;
}

// Appends a stretch to a list; if the list's last stretch ends where this one begins and is of the same reading,
// extends that one instead.
static void stretch_push(struct reader *r, struct stretch s)
{
    struct stretch *last = r->count ? &r->of[r->count - 1] : NULL;
    if (s.first >= s.end)
        return;
    if (last && last->end == s.first && last->stamp == s.stamp && same_readers(last, &s)) {
        last->end = s.end;
        return;
    }
    reader_grow(r);
    r->of[r->count++] = s;
}

static void stretch_push_part(struct reader *r, struct stretch s, uint32_t first, uint32_t end)
{
    s.first = first > s.first ? first : s.first;
    s.end = end < s.end ? end : s.end;
    stretch_push(r, s);
}

// Appends the cells [first, end), which two stretches with the same stamp have in common. Each cell becomes a stretch
// of its own, with the lanes of both, since no `run` describes them.
static void stretch_push_both(struct reader *r, const struct stretch *a, const struct stretch *b,
                              uint32_t first, uint32_t end)
{
    for (uint32_t cell = first; cell < end; ++cell) {
        struct stretch both = *b;
        both.lanes = stretch_lanes(a, cell) | stretch_lanes(b, cell);
        both.run = 0;
        stretch_push_part(r, both, cell, cell + 1);
    }
}

// The index of a reader's first stretch that ends after `cell`.
static uint32_t stretch_at(const struct reader *r, uint32_t cell)
{
    uint32_t low = 0;
    for (uint32_t high = r->count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (r->of[middle].end <= cell)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Puts a stretch into a list, in place of what the list has for its cells. Where the list has the
// same stamp, the cell gets the lanes of both. by->stamp 0: only removes what the list has for
// these cells. Always makes a new list; stretch_note does without one where it can.
static void stretch_put(struct reader *r, const struct stretch *by)
{
    uint32_t i = stretch_at(r, by->first), at = by->first;
    struct reader old = *r;
    *r = (struct reader){true, old.cta, old.warp, old.kind, 0, 0, 0, NULL};
    for (uint32_t k = 0; k < i; ++k)
        stretch_push(r, old.of[k]);
    for (; i < old.count && old.of[i].first < by->end; ++i) {
        const struct stretch *o = &old.of[i];
        uint32_t first = o->first > at ? o->first : at, end = o->end < by->end ? o->end : by->end;
        stretch_push_part(r, *o, 0, by->first);
        if (by->stamp)
            stretch_push_part(r, *by, at, first);
        if (by->stamp && o->stamp == by->stamp && !same_readers(o, by))
            stretch_push_both(r, o, by, first, end);
        else if (by->stamp)
            stretch_push_part(r, *by, first, end);
        at = end;
        if (o->end > by->end)
            break;
    }
    if (by->stamp)
        stretch_push_part(r, *by, at, by->end);
    for (; i < old.count; ++i)
        stretch_push_part(r, old.of[i], by->end, UINT32_MAX);
    reader_free(&old);
}

// Moves the stretches from index `from` on to index `to`, to make room for a stretch or to remove
// one.
static void stretch_move(struct reader *r, uint32_t from, uint32_t to)
{
    uint32_t count = r->count - from;
    if (to > from)
        reader_grow(r);
    memmove(r->of + to, r->of + from, count * sizeof *r->of);
    r->count += to - from;
}

// Notes a stretch of cells in the list of a warp's readings, which is sorted by cells. Mostly a warp reads the same
// cells again, or the cells after its last ones. Both are noted without making a new list, and the latter without a
// search.
static void stretch_note(struct reader *r, const struct stretch *by)
{
    bool goes_on = r->last < r->count && r->of[r->last].end == by->first;
    uint32_t i = goes_on ? r->last + 1 : stretch_at(r, by->first);
    struct stretch *o = i < r->count ? &r->of[i] : NULL, *before = i ? &r->of[i - 1] : NULL;
    bool is_free = !o || o->first >= by->end;
    bool inside = !is_free && o->first <= by->first && o->end >= by->end;
    bool whole = inside && o->first == by->first && o->end == by->end;
    bool more = before && before->end == by->first && before->stamp == by->stamp &&
                same_readers(before, by);
    r->last = i;
    if (inside && o->stamp == by->stamp &&
        (same_readers(o, by) || (by->lanes && o->lanes == (o->lanes | by->lanes))))
        return;
    if (whole && o->stamp == by->stamp && o->lanes && by->lanes) {
        o->lanes |= by->lanes;
        return;
    }
    if (!is_free && !(inside && o->first == by->first && o->stamp != by->stamp)) {
        stretch_put(r, by);
        return;
    }
    if (whole && !more) {
        *o = *by;
        return;
    }
    if (whole)
        stretch_move(r, i + 1, i);
    else if (!is_free)
        o->first = by->end;
    if (more) {
        before->end = by->end;
        r->last = i - 1;
    } else {
        stretch_move(r, i, i + 1);
        r->of[i] = *by;
    }
}

static struct reader *reader_at(const struct crowd *c, uint32_t cta, uint32_t warp, uint32_t kind)
{
    uint32_t i = (cta * WARP + warp) * RACE_KINDS + kind;
    for (i = i * 0x9e3779b1u >> 8;; ++i) {
        struct reader *r = &c->readers[i & (c->capacity - 1)];
        if (!r->used || (r->cta == cta && r->warp == warp && r->kind == kind))
            return r;
    }
}

static void crowd_grow(struct crowd *c)
{
    struct crowd old = *c;
    c->capacity = old.capacity ? 2 * old.capacity : 8;
    atomic_fetch_add(&crowd_bytes, (c->capacity - old.capacity) * sizeof *c->readers);
    c->readers = need(calloc(c->capacity, sizeof *c->readers));
    for (uint32_t i = 0; i < old.capacity; ++i)
        if (old.readers[i].used)
            *reader_at(c, old.readers[i].cta, old.readers[i].warp, old.readers[i].kind) =
                old.readers[i];
    free(old.readers);
}

static struct reader *reader_make(struct crowd *c, uint32_t cta, uint32_t warp, uint32_t kind)
{
    if (2 * c->count >= c->capacity)
        crowd_grow(c);
    struct reader *r = reader_at(c, cta, warp, kind);
    if (!r->used) {
        *r = (struct reader){true, cta, warp, kind, 0, 0, 0, NULL};
        c->count++;
    }
    return r;
}

void crowd_note(struct crowd **crowd, uint32_t cells, uint32_t cta, uint32_t warp, uint32_t kind,
                struct stretch by)
{
    struct crowd *c = *crowd;
    if (atomic_load_explicit(&crowd_bytes, memory_order_relaxed) > MOST_CROWD)
        return;
    if (!c)
        c = *crowd = need(calloc(1, sizeof *c + (cells / 32 + 1) * sizeof *c->cells));
    struct reader *r = c->last;
    if (!r || r->cta != cta || r->warp != warp || r->kind != kind)
        r = c->last = reader_make(c, cta, warp, kind);
    stretch_note(r, &by);
    for (uint32_t i = by.first / 32; i <= (by.end - 1) / 32; ++i)
        c->cells[i] |= line_cells(i, by.first, by.end - 1);
}

void crowd_forget(struct crowd *c, uint32_t first, uint32_t n)
{
    const struct stretch none = {.first = first, .end = first + n};
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->capacity; ++i) {
        struct reader *r = &c->readers[i];
        uint32_t k = stretch_at(r, first);
        if (k < r->count && r->of[k].first < none.end)
            stretch_put(r, &none);
        left |= r->count;
    }
    for (uint32_t i = first / 32; i <= (first + n - 1) / 32; ++i)
        c->cells[i] &= ~line_cells(i, first, first + n - 1);
    if (!left)
        crowd_empty(c);
}

static bool reader_find(const struct reader *r, const struct stretch *s, uint32_t cell,
                        reading_fn *asked, void *data, struct party *p)
{
    for (uint32_t left = stretch_lanes(s, cell); left; left &= left - 1) {
        uint32_t thread = r->warp * WARP + (uint32_t)__builtin_ctz(left);
        *p = party_of(r->cta, s->stamp, thread, s->insn, r->kind);
        if (asked(data, p, cell))
            return true;
    }
    return false;
}

bool crowd_find(const struct crowd *c, uint32_t first, uint32_t n, reading_fn *asked, void *data,
                struct party *p)
{
    for (uint32_t i = 0; c && i < c->capacity; ++i) {
        const struct reader *r = &c->readers[i];
        for (uint32_t k = stretch_at(r, first); k < r->count && r->of[k].first < first + n; ++k) {
            const struct stretch *s = &r->of[k];
            uint32_t cell = s->first > first ? s->first : first;
            for (; cell < s->end && cell < first + n; ++cell)
                if (reader_find(r, s, cell, asked, data, p))
                    return true;
        }
    }
    return false;
}

struct a_write {
    const struct warp *w;
    const struct op *op;
    int lane;
};

static bool races_with_write(void *data, const struct party *p, uint32_t cell)
{
    const struct a_write *write = data;
    (void)cell;
    return reader_races(write->w, write->op, write->lane, p);
}

bool crowd_races(const struct warp *w, const struct op *op, int lane, const struct crowd *c,
                 uint32_t first, uint32_t n, struct party *p)
{
    struct a_write write = {w, op, lane};
    return crowd_find(c, first, n, races_with_write, &write, p);
}
