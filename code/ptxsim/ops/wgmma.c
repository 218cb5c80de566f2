// wgmma.c: products of a warpgroup (wgmma), and setmaxnreg.
//
// Four warps issue the same instruction. Each computes 16 of the 64 rows of D, from its rows of A
// and all of B. At the issue, a wgmma is only put on a list. At the wait_group that waits for it,
// its operands are read from shared memory and D is written: the hardware may be as late as this.
// So without the wait D has its old values, and an operand that is overwritten before the wait
// gives a wrong product. A in registers is always read at the issue. With PTXSIM_SCHEDULE, about
// half of the products read all operands at the issue, which the hardware may do, too.
//
// A wgmma is one operation of the warpgroup, and groups belong to the warpgroup. A wait ends when
// all four warps have committed what it waits for, and a warp that has waited knows that all four
// have read their operands. (In CUTLASS, one thread of a warpgroup then tells the producer.)
//
// The place of an operand's element in shared memory follows from the descriptor. Without a
// swizzle, operands consist of blocks of eight rows of 16 bytes; with one, of eight rows as wide as
// the swizzle, whose 16-byte pieces are exchanged according to bits of their addresses.
#include "address.h"
#include "async.h"
#include "ptxsim/machine/film.h"
#include "ptxsim/races/cells.h"
#include "scalars.h"

#include <stdlib.h>
#include <string.h>

// ROW_BYTES: bytes of one row of an operand along k, for every type. PIECE: bytes that are read at
// a time; PIECES: the most pieces of an operand.
enum { ROW_BYTES = 32, PIECE = 16, PIECES = WGMMA_N * ROW_BYTES / PIECE };

struct products { // a warp's wgmma operations
    uint32_t open, issued, resized;
    // Registers of each thread, as set by the last setmaxnreg; 0: there was none.
    uint32_t registers;
    const struct op *last, *last_resize; // the last wgmma and setmaxnreg, for messages
    uint32_t committed, waited;          // numbers of the last product committed, and waited for
    const struct op *waits; // the operation at which the warp waits for other warps, or NULL
    // For race checks: what the warp had done when it committed the products up to `number`, or
    // had waited for them.
    struct reads {
        uint32_t number;
        struct clock *clock;
    } * reads; // entries for products that some warp of the warpgroup has not waited for yet
    size_t read_count, read_capacity;
    bool fenced;     // whether there was a wgmma.fence after the last completion of products
    uint64_t *dirty; // registers written since the last wgmma.fence, as in struct watch
    int words;
    size_t count, capacity;
    struct pending {
        const struct op *op;
        uint64_t a_desc, b_desc;
        uint32_t frame, group, number;
        uint32_t issued; // for race checks: the CTA's time at the issue
        bool add, taken; // taken: whether the operands were read at another warp's wait
        bool spoiled;    // whether an ablation spoils D (enum spoils)
        uint32_t a[4][WARP];
        // Operands that were read at the issue, or at another warp's wait: 16 rows of A, then B;
        // or NULL.
        uint8_t (*early)[ROW_BYTES];
    } * list;
};

static struct products *products_of(struct warp *w)
{
    if (!w->products)
        w->products = calloc(1, sizeof *w->products);
    if (!w->products)
        abort();
    return w->products;
}

static void drop_pending(struct products *p)
{
    for (size_t i = 0; i < p->count; ++i)
        free(p->list[i].early);
    p->count = 0;
    for (size_t i = 0; i < p->read_count; ++i)
        clock_drop(&p->reads[i].clock);
    p->read_count = 0;
}

void wgmma_start(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i) {
        struct products *p = cta->warp[i].products;
        if (!p)
            continue;
        drop_pending(p);
        p->open = p->issued = p->resized = p->registers = p->committed = p->waited = 0;
        p->waits = NULL;
        p->fenced = false;
        if (p->dirty)
            memset(p->dirty, 0, (size_t)p->words * sizeof *p->dirty);
    }
}

void wgmma_destroy(struct cta *cta)
{
    for (int i = 0; i < cta->warps; ++i) {
        struct products *p = cta->warp[i].products;
        if (!p)
            continue;
        drop_pending(p);
        free(p->list);
        free(p->reads);
        free(p->dirty);
        free(p);
        cta->warp[i].products = NULL;
    }
}

// Reports a fault if a warp of the warpgroup of warp `i` is missing, or has executed fewer wgmma or
// fewer setmaxnreg than warp `i`.
static void compare_warps(struct cta *cta, int i)
{
    static const struct products none;
    int group = i / WARPGROUP_WARPS * WARPGROUP_WARPS;
    const struct products *mine = cta->warp[i].products;
    for (int k = group; k < group + WARPGROUP_WARPS; ++k) {
        bool here = k < cta->warps;
        const struct products *other =
            here && cta->warp[k].products ? cta->warp[k].products : &none;
        const struct op *op = mine->last;
        const char *what = "wgmma";
        uint32_t times = mine->issued, others = other->issued;
        if (times <= others) {
            op = mine->last_resize;
            what = "setmaxnreg";
            times = mine->resized;
            others = other->resized;
        }
        if (times > others) {
            fault_at(&cta->warp[i], op, 0, FAULT_DIVERGENT_BARRIER,
                     "warp %d has executed %u %s, %s %d %u: all four warps of a warpgroup must "
                     "execute the same",
                     i, times, what, here ? "warp" : "there is no warp", k, others);
            return;
        }
    }
}

// Registers of a thread at the launch of a CTA: those of the machine code or, if these are not
// known, .maxnreg; rounded up to a multiple of 8. 0: unknown.
static uint32_t registers_at_launch(const struct cta *cta)
{
    enum { UNIT = 8 };
    int known = cta->launch->registers;
    if (!known)
        known = kernel_info(cta->launch->kernel)->most_registers;
    return ((uint32_t)known + UNIT - 1) / UNIT * UNIT;
}

// Reports a fault if the CTA's warps end up with more registers than it was launched with: one of
// the warps would wait for ever (PTX ISA, "setmaxnreg": "blocks until enough registers are
// available in the per-CTA-register pool").
static void compare_registers(struct cta *cta)
{
    enum { SM_REGISTERS = 64 << 10 };
    struct warp *last = NULL;
    uint32_t launched = registers_at_launch(cta), sum = 0;
    for (int i = 0; i < cta->warps; ++i) {
        const struct products *p = cta->warp[i].products;
        bool resized = p && p->registers;
        sum += (resized ? p->registers : launched) * WARP;
        if (resized && p->last_resize->takes)
            last = &cta->warp[i];
    }
    uint32_t most = launched ? launched * (uint32_t)cta->warps * WARP : SM_REGISTERS;
    if (last && sum > most)
        fault_at(last, last->products->last_resize, 0, FAULT_DEADLOCK,
                 "setmaxnreg waits for ever: the CTA's warps would have %u registers, %s %u", sum,
                 launched ? "and were launched with" : "an SM has", most);
}

void wgmma_finish(struct cta *cta)
{
    for (int i = 0; i < cta->warps && !cta->faulted; ++i) {
        const struct products *p = cta->warp[i].products;
        if (!p)
            continue;
        compare_warps(cta, i);
    }
    if (!cta->faulted)
        compare_registers(cta);
}

// ---- Operands in shared memory ------------------------------------------------------------------

struct layout { // the contents of a descriptor
    uint32_t start, leading, stride, base;
    uint32_t span; // width of the swizzle in bytes: 0, 32, 64 or 128
};

static struct layout unpack_descriptor(uint64_t d)
{
    static const uint8_t spans[] = {0, 128, 64, 32};
    return (struct layout){.start = (uint32_t)(d & 0x3fff) << 4,
                           .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
                           .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                           .base = (uint32_t)(d >> 49 & 7),
                           .span = spans[d >> 62]};
}

static uint32_t swizzled(const struct layout *l, uint32_t at)
{
    uint32_t row = (at >> 7) - l->base;
    return l->span ? at ^ (row & (l->span / 16 - 1)) << 4 : at;
}

// The shared address of 16 bytes of an operand: in row `row` (for B, a column), the elements from
// `k` on; or, if transposed, at `k`, the halves of eight rows from `row` on. size: an element's
// bytes.
static uint32_t piece_at(const struct layout *l, bool transposed, int row, int k, int size)
{
    uint32_t r = (uint32_t)row, along = (uint32_t)(k * size), pitch = l->span ? l->span : 16;
    uint32_t at = l->start;
    if (!transposed) {
        at += r % 8 * pitch + r / 8 * l->stride;
        at += l->span ? along : along / 16 * l->leading;
    } else {
        uint32_t wide = pitch / 2, across = (uint32_t)k; // wide: how many halves are contiguous
        at += r % wide * 2 + across % 8 * pitch;
        at += l->span ? r / wide * l->leading + across / 8 * l->stride
                      : r / wide * l->stride + across / 8 * l->leading;
    }
    return swizzled(l, at);
}

struct pieces { // the addresses of an operand's pieces
    uint32_t n, at[PIECES];
};

static void place_pieces(struct pieces *to, const struct layout *l, bool transposed, int first,
                         int count, int size)
{
    to->n = 0;
    for (int i = 0; !transposed && i < count; ++i)
        for (int part = 0; part < 2; ++part)
            to->at[to->n++] = piece_at(l, false, first + i, 16 / size * part, size);
    for (int k = 0; transposed && k < ROW_BYTES / 2; ++k)
        for (int i = 0; i < count; i += 8)
            to->at[to->n++] = piece_at(l, true, first + i, k, 2);
}

// When an operand is read. OTHERS_WAIT: when another warp of the warpgroup waits for the product.
enum stage { ISSUE, OTHERS_WAIT, WAIT };

// Checks a piece of an operand. *proxy: whether fences are still to be checked.
static bool check_piece(struct warp *w, const struct pending *p, uint32_t at, enum stage stage,
                        bool *proxy)
{
    struct cta *cta = w->cta;
    const struct op *op = p->op;
    bool good = within(at, PIECE, cta->shared_bytes);
    if (!good || (cta->written && !written_all(cta->written, at, PIECE))) {
        fault_shared(w, op, 0, at, PIECE, false);
        if (!good)
            return false;
    }
    if (cta->races) {
        if (stage != ISSUE && written_since(cta->races, at, PIECE, p->issued))
            race_overwritten(w, op, 0, at, PIECE, p->issued);
        race_shared(w, op, ~0u, at, PIECE, stage == OTHERS_WAIT ? RACE_LOOK : RACE_READ, NULL);
        // At most one report for each operand.
        *proxy = *proxy && !race_proxy(w, op, 0, cta, at, PIECE, false);
    }
    return true;
}

// Stores in `parts` the parts of lines (races/) that the pieces cover; returns how many there are.
static uint32_t parts_of(const struct races *s, const struct pieces *pieces,
                         struct line_part *parts)
{
    uint32_t bits = UINT32_MAX >> (LINE - (PIECE >> s->shift)), count = 0;
    for (uint32_t i = 0; i < pieces->n; ++i) {
        uint32_t cell = pieces->at[i] >> s->shift, line = cell >> LINE_SHIFT;
        if (!count || parts[count - 1].line != line)
            parts[count++] = (struct line_part){.line = line};
        parts[count - 1].cells |= bits << cell % LINE;
    }
    return count;
}

// Checks all pieces of an operand at once, and notes that they are read, except at OTHERS_WAIT.
// Returns false, with nothing noted, if a piece may be wrong: check_piece then finds it.
static bool check_pieces(struct warp *w, const struct pending *p, const struct pieces *pieces,
                         enum stage stage)
{
    struct cta *cta = w->cta;
    struct line_part parts[PIECES];
    for (uint32_t i = 0; i < pieces->n; ++i)
        if (!within(pieces->at[i], PIECE, cta->shared_bytes) ||
            (cta->written && !written_all(cta->written, pieces->at[i], PIECE)))
            return false;
    if (!cta->races)
        return true;
    uint32_t count = parts_of(cta->races, pieces, parts);
    for (uint32_t i = 0; stage != ISSUE && i < count; ++i)
        if (cta->races->writes[parts[i].line].stamp > p->issued)
            return false;
    return (stage != ISSUE || race_proxy_passes(w, 0, parts, count)) &&
           race_operand(w, p->op, parts, count, stage != OTHERS_WAIT);
}

// Takes rows first … first + count - 1 of an operand, ROW_BYTES each; to NULL: checks only.
static bool take_rows(struct warp *w, const struct pending *p, uint64_t descriptor, bool transposed,
                      int first, int count, int size, enum stage stage, uint8_t *to)
{
    struct layout l = unpack_descriptor(descriptor);
    struct pieces pieces;
    place_pieces(&pieces, &l, transposed, first, count, size);
    bool good = check_pieces(w, p, &pieces, stage), proxy = stage == ISSUE;
    for (uint32_t i = 0, rows = (uint32_t)count; i < pieces.n; ++i) {
        if (!good && !check_piece(w, p, pieces.at[i], stage, &proxy))
            return false;
        const uint8_t *piece = w->cta->shared + pieces.at[i];
        if (to && !transposed)
            memcpy(to + i * PIECE, piece, PIECE);
        for (uint32_t e = 0; to && transposed && e < 8; ++e)
            memcpy(to + (i * 8 % rows + e) * ROW_BYTES + 2 * (i * 8 / rows), piece + 2 * e, 2);
    }
    return true;
}

// ---- Issue and wait -----------------------------------------------------------------------------

static int element_bytes(const struct wgmma *t)
{
    return ROW_BYTES / t->k;
}

static bool same_lanes(struct warp *w, const struct op *op, const u64 *descriptor)
{
    for (int i = 1; i < WARP; ++i)
        if (descriptor[i] != descriptor[0]) {
            fault_at(w, op, i, FAULT_TRAP, "%s with a descriptor that differs between lanes",
                     w->cta->program->insns[op->insn].opcode);
            return false;
        }
    return true;
}

// Takes, by take_rows, the 16 rows of A that belong to the CTA's warp number `rows`, unless A is in
// registers.
static bool take_a(struct warp *w, const struct pending *p, int rows, enum stage stage,
                   uint8_t (*a)[ROW_BYTES])
{
    const struct wgmma *t = p->op->operands;
    return t->a_desc == NO_REGISTER ||
           take_rows(w, p, p->a_desc, t->transposed_a, rows % WARPGROUP_WARPS * 16, 16,
                     element_bytes(t), stage, a ? a[0] : NULL);
}

// Checks the operands that are in shared memory, and copies them to a and b, unless these are NULL.
static bool take_operands(struct warp *w, const struct pending *p, enum stage stage,
                          uint8_t (*a)[ROW_BYTES], uint8_t (*b)[ROW_BYTES])
{
    const struct wgmma *t = p->op->operands;
    return take_a(w, p, w->index, stage, a) && take_rows(w, p, p->b_desc, t->transposed_b, 0, t->n,
                                                         element_bytes(t), stage, b ? b[0] : NULL);
}

// For a film: the range of shared memory that contains `rows` rows of an operand, from row `first`
// on.
static void extent(uint64_t descriptor, bool transposed, int first, int rows, int size,
                   uint32_t *from, uint32_t *to)
{
    struct layout l = unpack_descriptor(descriptor);
    *from = UINT32_MAX;
    *to = 0;
    for (int i = 0; i < rows; i += transposed ? 8 : 1)
        for (int k = 0; k < ROW_BYTES / size; k += transposed ? 1 : 16 / size) {
            uint32_t at = piece_at(&l, transposed, first + i, k, size);
            *from = at < *from ? at : *from;
            *to = at + 16 > *to ? at + 16 : *to;
        }
}

static void film_operands(struct warp *w, const struct pending *p)
{
    const struct wgmma *t = p->op->operands;
    uint32_t from[2] = {0}, to[2] = {0};
    if (t->a_desc != NO_REGISTER)
        extent(p->a_desc, t->transposed_a, w->index % WARPGROUP_WARPS * 16, 16, element_bytes(t),
               &from[0], &to[0]);
    extent(p->b_desc, t->transposed_b, 0, t->n, element_bytes(t), &from[1], &to[1]);
    film_product(w->cta->film, p->op->insn, from, to);
}

static uint8_t (*space_for(const struct wgmma *t))[ROW_BYTES]
{
    uint8_t(*space)[ROW_BYTES] = malloc((size_t)(16 + t->n) * sizeof *space);
    if (!space)
        abort();
    return space;
}

static bool reads_early(const struct warp *w, const struct products *products)
{
    uint32_t seed = w->cta->launch->schedule;
    uint32_t mixed = (seed ^ (uint32_t)w->index << 8 ^ products->issued) * 2654435761u;
    return seed && mixed >> 15 & 1;
}

static bool meet(const uint64_t *a, const uint64_t *b, int words)
{
    uint64_t both = 0;
    for (int i = 0; i < words; ++i)
        both |= a[i] & b[i];
    return both;
}

void wgmma_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct wgmma *t = op->operands;
    struct products *products = products_of(w);
    struct pending p = {
        .op = op, .frame = (uint32_t)(r - w->file), .group = products->open, .add = true};
    if (!whole_warp(w, op, mask) || !same_lanes(w, op, (const u64 *)(r + t->b_desc)) ||
        (t->a_desc != NO_REGISTER && !same_lanes(w, op, (const u64 *)(r + t->a_desc))))
        return;
    uint32_t scale = *(const u32 *)(r + t->scale_d);
    if (scale && ~scale) {
        fault_at(w, op, 0, FAULT_TRAP, "%s with a scale-d that differs between lanes",
                 w->cta->program->insns[op->insn].opcode);
        return;
    }
    bool first = !products->issued++;
    products->last = op;
    if (w->clock && !products->fenced &&
        (first || (products->dirty && (meet(products->dirty, t->d_set, t->words) ||
                                       meet(products->dirty, t->a_set, t->words)))))
        race_report(w, op, 0, FAULT_RACE, op->insn,
                    "%s uses registers that were written before, with no wgmma.fence in between",
                    w->cta->program->insns[op->insn].opcode);
    p.add = scale != 0;
    p.b_desc = *(const u64 *)(r + t->b_desc);
    if (t->a_desc != NO_REGISTER)
        p.a_desc = *(const u64 *)(r + t->a_desc);
    else
        for (int i = 0; i < 4; ++i)
            memcpy(p.a[i], r + t->a[i], sizeof p.a[i]);
    p.number = products->issued;
    p.issued = w->clock ? w->cta->races->time : 0;
    if (reads_early(w, products))
        p.early = space_for(t);
    if (!take_operands(w, &p, ISSUE, p.early, p.early ? p.early + 16 : NULL)) {
        free(p.early);
        return;
    }
    if (w->cta->film)
        film_operands(w, &p);
    products->list = array_grow(products->list, products->count, &products->capacity, sizeof p);
    products->list[products->count++] = p;
    note_effect(w);
}

// Reads the operands of a product of `w` when warp `by` of its warpgroup waits for the product: by
// then the hardware has read them. A is also noted as read by `by`; B is read by the part of the
// product that `by` itself computes.
static void take_for(struct warp *by, struct warp *w, struct pending *p)
{
    bool early = p->early;
    if (!early)
        p->early = space_for(p->op->operands);
    take_operands(w, p, OTHERS_WAIT, early ? NULL : p->early, early ? NULL : p->early + 16);
    take_a(by, p, w->index, WAIT, NULL);
    p->taken = true;
}

static void finish(struct warp *w, const struct pending *p)
{
    const struct wgmma *t = p->op->operands;
    _Alignas(64) uint8_t space[16 + WGMMA_N][ROW_BYTES];
    uint8_t(*a)[ROW_BYTES] = p->early ? p->early : space, (*b)[ROW_BYTES] = a + 16;
    if (t->a_desc == NO_REGISTER)
        for (int i = 0; i < 4; ++i) // registers first go down the rows, then along k
            for (int lane = 0; lane < WARP; ++lane)
                memcpy(&a[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16], &p->a[i][lane], 4);
    if (p->taken || take_operands(w, p, WAIT, p->early ? NULL : a, p->early ? NULL : b))
        t->product(w->file + p->frame, t, a, b, p->add);
    const uint32_t turned = t->d_type == MATRIX_F16   ? 0x80008000
                            : t->d_type == MATRIX_F32 ? 0x80000000
                                                      : UINT32_MAX;
    for (int i = 0; p->spoiled && i < t->d_count; ++i)
        for (int lane = 0; t->d[i] != NO_REGISTER && lane < WARP; ++lane)
            ((u32 *)(w->file + p->frame + t->d[i]))[lane] ^= turned;
}

size_t wgmma_open(const struct warp *w)
{
    return w->products ? w->products->count : 0;
}

void wgmma_spoil(struct warp *w, size_t first)
{
    for (size_t i = first; i < wgmma_open(w); ++i)
        w->products->list[i].spoiled = true;
}

// The first warp of the warpgroup of `w`; *count: the number of its warps.
static struct warp *warpgroup_of(const struct warp *w, int *count)
{
    int first = w->index / WARPGROUP_WARPS * WARPGROUP_WARPS, left = w->cta->warps - first;
    *count = left < WARPGROUP_WARPS ? left : WARPGROUP_WARPS;
    return &w->cta->warp[first];
}

// How many of a warp's pending products have to be complete after a wait.
static size_t awaited(const struct products *p, const struct op *wait)
{
    size_t done = 0;
    while (done < p->count && p->list[done].group + (uint64_t)wait->imm < p->open)
        done++;
    return done;
}

// A warp of the warpgroup of `w` that has neither ended nor committed product `number`; -1: there
// is none.
static int behind(const struct warp *w, uint32_t number)
{
    int count;
    const struct warp *first = warpgroup_of(w, &count);
    for (int i = 0; i < count; ++i)
        if (first[i].alive && (!first[i].products || first[i].products->committed < number))
            return first[i].index;
    return -1;
}

int wgmma_behind(const struct warp *w)
{
    const struct products *p = w->products;
    return behind(w, p->list[awaited(p, p->waits) - 1].number);
}

// Forgets the reads of products that all warps of the warpgroup have waited for.
static void forget_reads(struct warp *first, int count)
{
    uint32_t waited = UINT32_MAX;
    for (int i = 0; i < count; ++i) {
        uint32_t own = first[i].products ? first[i].products->waited : 0;
        waited = own < waited ? own : waited;
    }
    for (int i = 0; i < count; ++i) {
        struct products *p = first[i].products;
        size_t old = 0;
        while (p && old < p->read_count && p->reads[old].number <= waited)
            clock_drop(&p->reads[old++].clock);
        if (!old)
            continue;
        p->read_count -= old;
        memmove(p->reads, p->reads + old, p->read_count * sizeof *p->reads);
    }
}

static void note_reads(struct warp *w, uint32_t number)
{
    struct products *p = w->products;
    if (!w->clock)
        return;
    p->reads = array_grow(p->reads, p->read_count, &p->read_capacity, sizeof *p->reads);
    struct reads *reads = &p->reads[p->read_count++];
    *reads = (struct reads){.number = number};
    race_release_products(w, &reads->clock);
}

// Completes the first `done` products of `w`, which all four warps have committed.
static void complete(struct warp *w, size_t done)
{
    struct products *p = w->products;
    int count;
    struct warp *first = warpgroup_of(w, &count);
    bool news = false; // whether no warp has waited for some of these products before
    p->waited = p->list[done - 1].number;
    for (int i = 0; i < count; ++i) {
        struct products *other = first[i].products;
        for (size_t k = 0; other && k < other->read_count; ++k)
            if (other->reads[k].number <= p->waited)
                race_acquire(w, ~0u, other->reads[k].clock);
    }
    for (int i = 0; i < count; ++i) {
        struct products *other = first[i].products;
        for (size_t k = 0; other && &first[i] != w && k < other->count; ++k)
            if (other->list[k].number <= p->waited && !other->list[k].taken)
                take_for(w, &first[i], &other->list[k]);
    }
    for (size_t i = 0; i < done; ++i) {
        news |= !p->list[i].taken;
        finish(w, &p->list[i]);
        free(p->list[i].early);
    }
    if (news) {
        note_reads(w, p->waited);
        // All lanes acquire the reads of these products.
        race_acquire(w, ~0u, w->clock ? p->reads[p->read_count - 1].clock : NULL);
    }
    forget_reads(first, count);
    p->fenced = false;
    p->count -= done;
    memmove(p->list, p->list + done, p->count * sizeof *p->list);
    note_effect(w);
}

// Ends the wait of each warp of the warpgroup for whose products no warp is behind (wgmma_behind)
// any more.
static void settle(struct warp *w)
{
    int count;
    struct warp *first = warpgroup_of(w, &count);
    for (int i = 0; i < count; ++i) {
        struct products *p = first[i].products;
        if (!p || !p->waits || wgmma_behind(&first[i]) >= 0)
            continue;
        complete(&first[i], awaited(p, p->waits));
        p->waits = NULL;
        for (int k = 0; k < first[i].group_count; ++k) {
            struct group *g = &first[i].groups[k];
            if (!g->arrived || g->barrier != WARPGROUP_BARRIER)
                continue;
            g->arrived = false;
            g->block++;
        }
    }
}

void wgmma_left(struct warp *w)
{
    settle(w);
}

static void commit(struct warp *w)
{
    struct products *p = w->products;
    p->open++;
    if (p->committed == p->issued)
        return;
    p->committed = p->issued;
    note_reads(w, p->issued);
    settle(w);
}

void wgmma_group_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct products *products = products_of(w);
    if (!whole_warp(w, op, mask))
        return;
    if (op->imm < 0) {
        commit(w);
        return;
    }
    size_t done = awaited(products, op);
    if (!done)
        return;
    if (behind(w, products->list[done - 1].number) < 0) {
        complete(w, done);
        return;
    }
    products->waits = op;
    w->gone = mask;
    w->groups[w->group_count++] = (struct group){.mask = mask,
                                                 .block = w->next - 1,
                                                 .frame = (uint32_t)(r - w->file),
                                                 .arrived = true,
                                                 .barrier = WARPGROUP_BARRIER};
}

void wgmma_fence_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct products *products = products_of(w);
    (void)r;
    if (!whole_warp(w, op, mask))
        return;
    products->fenced = true;
    if (products->dirty)
        memset(products->dirty, 0, (size_t)products->words * sizeof *products->dirty);
}

// ---- Registers used between the issue and the wait ----------------------------------------------

static void report_uses(struct warp *w, const struct op *op, const struct watch *watch,
                        const struct pending *p)
{
    const struct wgmma *t = p->op->operands;
    for (int i = 0; i < watch->count; ++i) {
        const struct watch_use *use = &watch->uses[i];
        if (!(t->d_set[use->number / 64] >> use->number % 64 & 1))
            continue;
        struct op at = *op;
        char where[544];
        at.insn = use->insn;
        race_report(w, &at, 0, FAULT_RACE, p->op->insn,
                    "uses an accumulator of the wgmma at %s, which is still on its way: nothing "
                    "has waited for it (wgmma.wait_group)",
                    insn_line(w->cta->program, p->op->insn, where, sizeof where));
    }
}

void watch_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct watch *watch = op->operands;
    (void)r, (void)mask;
    if (!w->clock)
        return;
    struct products *products = products_of(w);
    if (!products->dirty) {
        products->words = watch->words;
        products->dirty = calloc((size_t)watch->words, sizeof *products->dirty);
        if (!products->dirty)
            abort();
    }
    for (int i = 0; i < watch->words; ++i)
        products->dirty[i] |= watch->written[i];
    for (size_t i = 0; i < products->count; ++i) {
        const struct wgmma *t = products->list[i].op->operands;
        if (meet(watch->touched, t->d_set, t->words))
            report_uses(w, op, watch, &products->list[i]);
    }
}

// ---- setmaxnreg ---------------------------------------------------------------------------------

void setmaxnreg_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct products *products = products_of(w);
    uint32_t before = products->registers;
    (void)r;
    if (!whole_warp(w, op, mask))
        return;
    products->resized++;
    products->last_resize = op;
    products->registers = (uint32_t)op->imm;
    if (before && (op->takes ? op->imm < before : op->imm > before))
        fault_at(w, op, 0, FAULT_TRAP, "%s %lld, where the warp has %u registers a thread",
                 w->cta->program->insns[op->insn].opcode, (long long)op->imm, before);
}
