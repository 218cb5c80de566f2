// notes.c: which bytes of the device's memory were accessed, and how: a map with a byte for each
// byte and kind of access, for the checks of the order between streams (cudart/order.c).
// Allocations that the host may touch have these maps, and after notes_begin all allocations have
// them; before that, the other allocations have none, and cost nothing.
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR = 32, WORD = 8 };
static const uint64_t EVERY_BYTE = UINT64_C(0x0101010101010101);
static bool begun;
static size_t noted; // how many allocations have maps

static void make_maps(struct allocation *a)
{
    if (!a->notes && a->size <= SIZE_MAX / NOTE_KINDS)
        a->notes = calloc(a->size, NOTE_KINDS); // NULL if there is no memory: not noted
    noted += a->notes != NULL;
}

void notes_of(struct allocation *a)
{
    if (begun || a->kind != MEMORY_DEVICE)
        make_maps(a);
}

void notes_drop(struct allocation *a)
{
    noted -= a->notes != NULL;
    free(a->notes);
    a->notes = NULL;
}

void notes_begin(void)
{
    struct allocation *a;

    for (size_t i = 0; !begun && (a = memory_nth(i)); ++i)
        if (a->live && !a->notes)
            make_maps(a);
    begun = true;
}

bool notes_begun(void)
{
    return begun;
}

bool notes_taken(void)
{
    return noted > 0;
}

// ---- What was noted, as runs of bytes -----------------------------------------------------------

struct taking {
    struct note_run run; // kinds 0: no run has begun
    void (*take)(const struct note_run *run, void *data);
    void *data;
};

static void add(struct taking *t, uint64_t start, uint64_t end, unsigned kinds)
{
    if (t->run.kinds == kinds && t->run.end == start) {
        t->run.end = end;
        return;
    }
    if (t->run.kinds)
        t->take(&t->run, t->data);
    t->run = (struct note_run){start, end, kinds};
}

static unsigned kinds_at(const struct allocation *a, uint64_t at)
{
    unsigned kinds = 0;
    for (unsigned k = 0; k < NOTE_KINDS; ++k)
        kinds |= (unsigned)a->notes[k * a->size + at] << k;
    return kinds;
}

// Whether eight bytes are all accessed in the same ways.
static bool same_kinds(const struct allocation *a, uint64_t at, unsigned *kinds)
{
    *kinds = 0;
    for (unsigned k = 0; k < NOTE_KINDS; ++k) {
        uint64_t word;
        memcpy(&word, a->notes + k * a->size + at, sizeof word);
        if (word != 0 && word != EVERY_BYTE)
            return false;
        *kinds |= (word != 0) << k;
    }
    return true;
}

// Takes the bytes [from, to) of an allocation. Clears only the maps of those kinds of access that
// occur there, so that pages without notes cost nothing.
static void take_bytes(struct taking *t, const struct allocation *a, uint64_t from, uint64_t to)
{
    unsigned seen = 0;
    for (uint64_t at = from; at < to;) {
        unsigned kinds;
        uint64_t step = to - at >= WORD && same_kinds(a, at, &kinds) ? WORD : 1;
        if (step == 1)
            kinds = kinds_at(a, at);
        if (kinds)
            add(t, a->base + at, a->base + at + step, kinds);
        seen |= kinds;
        at += step;
    }
    for (unsigned k = 0; k < NOTE_KINDS; ++k)
        if (seen >> k & 1)
            memset(a->notes + k * a->size + from, 0, to - from);
}

static void take_sector(struct taking *t, const struct allocation *a, uint64_t from, uint64_t to,
                        bool read, bool written)
{
    add(t, a->base + from, a->base + to,
        (unsigned)read << NOTE_READ | (unsigned)written << NOTE_WRITE);
}

// Takes an allocation's bytes; sectors that no launch has touched are skipped.
static void take_allocation(struct taking *t, const struct allocation *a)
{
    uint64_t first = a->base / SECTOR, last = (a->base + a->size - 1) / SECTOR;

    for (uint64_t s = first; s <= last; ++s) {
        uint64_t eight[2] = {0};
        if (last - s >= WORD) { // eight sectors at once: mostly none was touched
            memcpy(&eight[0], a->sectors_read + (s - first), WORD);
            memcpy(&eight[1], a->sectors_written + (s - first), WORD);
            if (!(eight[0] | eight[1])) {
                s += WORD - 1;
                continue;
            }
        }
        if (!a->sectors_read[s - first] && !a->sectors_written[s - first])
            continue;
        uint64_t from = s * SECTOR < a->base ? 0 : s * SECTOR - a->base;
        uint64_t to = (s + 1) * SECTOR - a->base;
        to = to < a->size ? to : a->size;
        if (a->notes)
            take_bytes(t, a, from, to);
        else
            take_sector(t, a, from, to, a->sectors_read[s - first], a->sectors_written[s - first]);
    }
}

static void take_all(bool noted_ones, void (*take)(const struct note_run *run, void *data),
                     void *data)
{
    struct taking t = {.take = take, .data = data};
    const struct allocation *a;

    for (size_t i = 0; (a = memory_nth(i)); ++i)
        if (a->live && (a->notes != NULL) == noted_ones)
            take_allocation(&t, a);
    if (t.run.kinds)
        take(&t.run, data);
}

void notes_take(void (*take)(const struct note_run *run, void *data), void *data)
{
    if (noted)
        take_all(true, take, data);
}

void notes_take_sectors(void (*take)(const struct note_run *run, void *data), void *data)
{
    if (!begun)
        take_all(false, take, data);
}
