// ablate.c: runs the basic blocks of a CTA in which some executions are spoiled, or all are logged
// (struct ablation), to learn whether their results are used. CTAs of a launch without an ablation
// do not run this file.
//
// Spoiled values stay finite: a NaN would show even where it is multiplied by 0, that is, not used.
// A spoiled value always differs from the original, except that a zero may get the other sign.
#include "exec.h"

#include "ptxsim/ops/address.h"
#include "ptxsim/ops/async.h"
#include "ptxsim/ops/scalars.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t HASH_START = 0xcbf29ce484222325;

// FNV-1a, over words of 4 bytes, then over the bytes that remain.
static uint64_t hash_more(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += 4) {
        uint32_t word = 0;
        memcpy(&word, (const char *)bytes + at, size - at < 4 ? size - at : 4);
        hash = (hash ^ word) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    return hash;
}

// Whether an execution, given by its number in the CTA, is spoiled.
static bool is_chosen(const struct cta *cta, uint64_t at)
{
    const struct ablation *a = cta->launch->ablation;
    bool chosen = false;
    for (int i = 0; i < a->count; ++i)
        chosen |= a->chosen[i].cta == cta->place && a->chosen[i].at == at;
    return chosen;
}

// Counts an execution; returns whether it is spoiled.
static bool is_next_chosen(struct warp *w)
{
    return is_chosen(w->cta, w->cta->executions++);
}

static bool is_product(const struct op *op)
{
    return op->family == FAMILY_PRODUCT || op->family == FAMILY_SPARSE_PRODUCT;
}

static void spoil_product(char *r, const struct op *op)
{
    const struct matrix *d = &((const struct mma *)op->operands)->d;
    const bool half = d->type == MATRIX_F16 || d->type == MATRIX_BF16;
    const bool real = half || d->type == MATRIX_F32 || d->type == MATRIX_F64;
    const uint32_t turned = half ? 0x80008000 : real ? 0x80000000 : UINT32_MAX;

    for (int i = 0; i < d->distinct; ++i) {
        if (d->regs[i] == NO_REGISTER)
            continue;
        u32 *words = (u32 *)(r + d->regs[i]);
        // In a value of 8 bytes, the upper four hold the sign.
        for (int k = 0; k < WARP; ++k)
            words[d->bytes > 4 ? 2 * k + 1 : k] ^= turned;
    }
}

// Lanes whose addresses are in global memory.
static uint32_t global_lanes(const char *r, const struct op *op, uint32_t address, int64_t offset,
                             uint32_t mask)
{
    uint32_t lanes = 0;
    if (op->space == SPACE_GLOBAL)
        return mask;
    for (uint32_t left = op->space == SPACE_GENERIC ? mask : 0; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t at = address_in(r, address, op->wide_address, offset, i);
        lanes |= (uint32_t)(at >> WINDOW_SHIFT == 0) << i;
    }
    return lanes;
}

static void run_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (op->plain && !op->inner && (mask != w->alive || w->loop.careful))
        plain_masked(w, r, op, op->run, mask);
    else if (mask)
        op->run(w, r, op, mask);
}

// Lanes of `mask` for which an operation's guard holds.
static uint32_t guarded(const char *r, const struct op *op, uint32_t mask)
{
    if (op->run != guarded_op)
        return mask;
    uint32_t guard = *(const u32 *)(r + op->guard);
    return mask & (op->guard_negated ? ~guard : guard);
}

// ---- What is logged of an execution -------------------------------------------------------------

static void note_execution(const struct cta *cta, uint64_t first, uint64_t second, uint32_t work)
{
    struct ablation *a = cta->launch->ablation;

    if (!a->logs)
        return;
    a->log = array_grow(a->log, a->logged, &a->room, sizeof *a->log);
    a->log[a->logged++] =
        (struct execution){.of = {first, second}, .cta = cta->place, .work = work};
}

// A part of a product: a register of A and one of B that holds the rows of B for A's columns.
struct piece {
    uint64_t of[2];
    uint32_t work; // flops; 0 for integers, or if one of the two registers is all zeros
};
enum { PIECES_MOST = 64 };

static struct piece piece_of(const char *r, const struct mma *o, int i, int j)
{
    static const char zeros[8 * WARP];
    const size_t bytes = WARP * (o->a.bytes > 4 ? 8u : 4u);
    const char *a = r + o->a.regs[i], *b = r + o->b.regs[j];
    const bool real = o->d.type == MATRIX_F16 || o->d.type == MATRIX_BF16 ||
                      o->d.type == MATRIX_F32 || o->d.type == MATRIX_F64;
    const bool filled = memcmp(a, zeros, bytes) != 0 && memcmp(b, zeros, bytes) != 0;

    return (struct piece){{hash_more(HASH_START, a, bytes), hash_more(HASH_START, b, bytes)},
                          real && filled ? 2u * 8 * 8 * 4 * o->a.per : 0};
}

// Fills in the pieces of a product; returns how many there are, at least one.
static int pieces_of(const char *r, const struct op *op, struct piece pieces[PIECES_MOST])
{
    const struct mma *o = op->operands;
    int count = 0;

    for (int i = 0; i < o->a.distinct; ++i)
        for (int j = 0; j < o->b.distinct; ++j)
            if (o->a.column[i] == o->b.column[j] && o->a.regs[i] != NO_REGISTER &&
                o->b.regs[j] != NO_REGISTER)
                pieces[count++] = piece_of(r, o, i, j);
    if (count == 0)
        pieces[count++] = (struct piece){.work = 0};
    return count;
}

static void note_product(const struct cta *cta, const char *r, const struct op *op)
{
    struct ablation *a = cta->launch->ablation;
    struct piece pieces[PIECES_MOST];
    const int count = a->logs ? pieces_of(r, op, pieces) : 0;

    for (int i = 0; i < count; ++i) {
        note_execution(cta, pieces[i].of[0], pieces[i].of[1], pieces[i].work);
        a->log[a->logged - 1].more = i > 0;
    }
}

// Bytes that a lane loads, stores or copies.
static uint32_t bytes_of(const struct op *op)
{
    return op->bytes * (op->vector ? op->vector : 1u);
}

// The address that a lane accesses; of a copy, its source.
static uint64_t asked_by(const char *r, const struct op *op, int lane)
{
    const struct copy_operands *copy = op->family == FAMILY_COPY ? op->operands : NULL;

    return copy ? address_in(r, copy->from, copy->from_wide, copy->from_offset, lane)
                : address_in(r, op->a, op->wide_address, op->imm, lane);
}

// Lanes that load from global memory; at: their addresses.
static uint32_t loading_lanes(const char *r, const struct op *op, const struct insn_info *insn,
                              uint32_t on, uint64_t at[WARP])
{
    const bool loads = op->family == FAMILY_ACCESS && insn->op_class == CLASS_GLOBAL_LOAD;
    const uint32_t lanes = op->family == FAMILY_COPY ? on
                           : loads                   ? global_lanes(r, op, op->a, op->imm, on)
                                                     : 0;

    for (uint32_t left = lanes; left; left &= left - 1)
        at[__builtin_ctz(left)] = asked_by(r, op, __builtin_ctz(left));
    return lanes;
}

// Counts the sectors that a warp loads before its first product. The sectors that a CTA loads with
// no product in between form a group; at_once sums the squares of the groups' sizes.
static void note_ahead(struct ablation *a, struct cta *cta, uint64_t sectors)
{
    a->ahead += sectors;
    a->at_once += (double)sectors * (double)(2 * cta->ahead + sectors);
    cta->ahead += sectors;
}

// Counts the sectors that a warp loads from global memory, and separately those loaded by warps
// that also execute products (loaded_beside), including loads before a warp's first product.
static void note_roles(struct ablation *a, struct warp *w, const char *r, const struct op *op,
                       const struct insn_info *insn, uint32_t on)
{
    uint64_t at[WARP];
    const uint32_t lanes = loading_lanes(r, op, insn, on, at);
    const uint64_t sectors = lanes ? (uint64_t)global_sectors(at, (int)bytes_of(op), lanes) : 0;

    w->multiplies = w->multiplies || (is_product(op) && on);
    w->loaded += sectors;
    a->loaded += sectors;
    if (is_product(op) && on)
        w->cta->ahead = 0;
    if (!w->multiplies)
        note_ahead(a, w->cta, sectors);
    if (w->multiplies) {
        a->loaded_beside += w->loaded;
        w->loaded = 0;
    }
}

// The lanes whose addresses an operation uses: for 8x8 tiles, the lanes that point at rows; for a
// fragment, the first lane; otherwise all lanes in `on`.
static uint32_t asking_lanes(const struct op *op, uint32_t on)
{
    if (op->family == FAMILY_FRAGMENT)
        return on & -on;
    const int rows =
        op->family == FAMILY_TILES ? 8 * ((const struct tiles *)op->operands)->count : WARP;
    return rows < WARP ? on & ((1u << rows) - 1) : on;
}

// Logs a possible lookup: a load, also of matrices, a copy, an atomic operation, a shuffle, or a
// choice of bytes, with what its lanes give: addresses, source lanes or selectors. There are many
// lookups, so only one CTA of four logs them, and counts each lookup four times.
static void note_lookup(const struct cta *cta, const char *r, const struct op *op,
                        const struct insn_info *insn, uint32_t on)
{
    enum { ONE_OF = 4 };
    const bool shuffles = op->family == FAMILY_SHUFFLE;
    const bool loads = ((op->family == FAMILY_ACCESS || op->family == FAMILY_TILES ||
                         op->family == FAMILY_FRAGMENT) &&
                        !insn->store) ||
                       op->family == FAMILY_ATOMIC || op->family == FAMILY_COPY;
    uint64_t hash = hash_more(HASH_START, &op->insn, sizeof op->insn);

    if (!(shuffles || loads || insn->selects) ||
        (cta->number + cta->launch->ablation->drawn) % ONE_OF != 0)
        return;
    for (uint32_t left = asking_lanes(op, on); left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint64_t at =
            loads ? asked_by(r, op, lane) : ((const u32 *)(r + (shuffles ? op->b : op->c)))[lane];
        hash = hash_more(hash, &at, sizeof at);
    }
    note_execution(cta, hash, hash, ONE_OF * (uint32_t)__builtin_popcount(on));
}

// Logs an atomic operation, by one of its lanes: the address and the result. An operation without a
// result adds to a sum, so it counts as different from all others.
static void note_atomic(const struct cta *cta, const char *r, const struct op *op, uint64_t address,
                        int lane)
{
    const uint64_t at = hash_more(HASH_START, &address, sizeof address);
    const size_t logged = cta->launch->ablation->logged;
    const bool returns = op->regs[0] != NO_REGISTER;

    note_execution(cta, at,
                   returns ? hash_more(at, r + op->regs[0] + (size_t)lane * op->width, op->width)
                           : hash_more(at, &logged, sizeof logged),
                   1);
}

// Notes in a->writers that the CTA stores to the watched outputs at which the lanes `lanes` store.
static void note_writer(const struct cta *cta, const char *r, const struct op *op, uint32_t lanes)
{
    struct ablation *a = cta->launch->ablation;
    const uint64_t bytes = (uint64_t)op->bytes * op->vector;

    for (; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const uint64_t at = address_in(r, op->a, op->wide_address, op->imm, lane) - a->watched;
        for (uint64_t i = at / 2; i < (at + bytes + 1) / 2 && i < a->writers_count; ++i)
            a->writers[i] = cta->place + 1;
    }
}

static struct signalled *signalled_at(struct ablation *a, const struct warp *w, uint64_t address)
{
    for (size_t i = 0; i < a->signalled_count; ++i)
        if (a->signalled[i].warp == w && a->signalled[i].address == address)
            return &a->signalled[i];
    a->signalled =
        array_grow(a->signalled, a->signalled_count, &a->signalled_room, sizeof *a->signalled);
    a->signalled[a->signalled_count] = (struct signalled){w, address, 0};
    return &a->signalled[a->signalled_count++];
}

enum { MOST_WARPS = 32 }; // the most warps of a CTA

// What is known of the warps' signals: by a warp, or at an address where warps signal.
struct known {
    uint64_t of;                  // a warp's index, with WARP_KNOWS; or an address
    uint32_t met;                 // of a warp: its last signal that was a meeting
    uint32_t signals[MOST_WARPS]; // for each warp, its last signal that is known
};
static const uint64_t WARP_KNOWS = UINT64_C(1) << 63;

static size_t known_of(struct cta *cta, uint64_t of)
{
    for (size_t i = 0; i < cta->known_count; ++i)
        if (cta->known[i].of == of)
            return i;
    cta->known = array_grow(cta->known, cta->known_count, &cta->known_capacity, sizeof *cta->known);
    cta->known[cta->known_count] = (struct known){.of = of};
    return cta->known_count++;
}

static void learn(struct known *k, const struct known *from)
{
    for (int i = 0; i < MOST_WARPS; ++i)
        k->signals[i] = from->signals[i] > k->signals[i] ? from->signals[i] : k->signals[i];
}

// Notes that a warp signals at an address or, if `asks`, waits or reads there. Returns true, at
// most once for each signal, if the warp asks and another warp that signalled there already knew of
// the asking warp's last signal.
static bool has_come_back(struct warp *w, uint64_t at, bool asks)
{
    const size_t mine = known_of(w->cta, WARP_KNOWS | (uint64_t)w->index);
    const size_t place = known_of(w->cta, at); // may move the array
    struct known *there = &w->cta->known[place], *own = &w->cta->known[mine];
    uint32_t *last = &own->signals[w->index];

    if (!asks) {
        ++*last;
        learn(there, own);
        return false;
    }
    const bool back = there->signals[w->index] == *last && *last > own->met;
    own->met = back ? *last : own->met;
    learn(own, there);
    return back;
}

// Notes a warp's signal (an arrival at an mbarrier, a strong store), or its wait or strong load. A
// wait or load counts as meetings (struct ablation) the warp's signals at this address since its
// last wait or load there. If there are none, it counts the warp's last signal elsewhere, provided
// that has_come_back returns true.
static void note_signal(struct ablation *a, struct warp *w, const char *r, const struct op *op,
                        const struct insn_info *insn, uint32_t on)
{
    const bool asks = (insn->op_class == CLASS_BARRIER && !insn->signals) ||
                      (op->family == FAMILY_ACCESS && !insn->store);

    if (!a->logs || !on || insn->barrier || !(op->order & ORDER_STRONG) || !(asks || insn->signals))
        return;
    uint64_t at = address_in(r, op->a, op->wide_address, op->imm, __builtin_ctz(on));
    if (at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT)
        at -= SHARED_WINDOW;
    const bool back = has_come_back(w, at, asks);
    struct signalled *s = signalled_at(a, w, at);
    if (!asks) {
        ++s->times;
        return;
    }
    a->meets += s->times > 0 ? s->times : back;
    s->times = 0;
}

// Counts the sectors of K and V that a CTA loads by ld, cp.async, atomic operations and wmma.load;
// for wmma.load, as many as the fragment's registers hold.
static void note_parts(struct cta *cta, const char *r, const struct op *op,
                       const struct insn_info *insn, uint32_t on)
{
    struct ablation *a = cta->launch->ablation;
    const bool asks =
        op->family == FAMILY_COPY || op->family == FAMILY_ATOMIC ||
        ((op->family == FAMILY_ACCESS || op->family == FAMILY_FRAGMENT) && !insn->store);
    uint64_t at[WARP];

    for (size_t k = 0; asks && k < sizeof a->parts / sizeof *a->parts; ++k) {
        const struct part_of_memory *p = &a->parts[k];
        uint32_t lanes = 0;
        for (uint32_t left = on; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            at[i] = asked_by(r, op, i);
            if (at[i] - p->first >= p->bytes)
                continue;
            lanes |= 1u << i;
            const uint64_t sector = (at[i] - p->first) / 32;
            a->distinct += !p->seen[sector];
            p->seen[sector] = 1;
        }
        if (op->family == FAMILY_FRAGMENT)
            cta->loaded +=
                lanes ? ((const struct matrix_memory *)op->operands)->matrix.distinct * 4u : 0;
        else if (lanes)
            cta->loaded += (uint64_t)global_sectors(at, (int)bytes_of(op), lanes);
    }
    a->busiest = cta->loaded > a->busiest ? cta->loaded : a->busiest;
}

// ---- Bytes passed on through shared memory ------------------------------------------------------
//
// For each byte of shared memory it is known which thread has stored it. A byte that a thread loads
// is passed on if another thread, or a bulk copy, has stored it.

// A thread's name, 1 to 255; threads a multiple of 255 apart share a name. 0 marks bytes that no
// thread has stored.
static uint8_t name_of(const struct warp *w, int lane)
{
    return (uint8_t)(1 + (w->index * WARP + lane) % 255);
}

static bool in_shared(uint64_t at)
{
    return at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT;
}

// Returns how many registers a matrix load or store has; *regs: the registers; *distinct: how many
// of them, from the first on, have contents of their own, which the others repeat.
static int matrix_registers(const struct op *op, const uint32_t **regs, int *distinct)
{
    if (op->family == FAMILY_TILES) {
        const struct tiles *t = op->operands;
        *regs = t->regs;
        return *distinct = t->count;
    }
    const struct matrix_memory *m = op->operands;
    *regs = m->matrix.regs;
    *distinct = m->matrix.distinct;
    return m->matrix.count;
}

// Runs a matrix load or store on the names of the storing threads instead of the data, and restores
// its registers. Returns how many bytes a load gives to threads that did not store them.
static uint32_t matrix_of_names(struct warp *w, char *r, const struct op *op, bool store,
                                uint32_t mask)
{
    enum { MOST = 8, BYTES = 8 * WARP };
    const uint32_t *regs;
    int distinct, count = matrix_registers(op, &regs, &distinct);
    const size_t bytes = op->family == FAMILY_FRAGMENT &&
                                 ((const struct matrix_memory *)op->operands)->matrix.bytes > 4
                             ? BYTES
                             : BYTES / 2;
    uint8_t before[MOST][BYTES];
    uint8_t *shared = w->cta->shared;
    uint32_t passed = 0;

    for (int i = 0; i < count; ++i) {
        memcpy(before[i], r + regs[i], bytes);
        for (size_t k = 0; k < bytes && store; ++k)
            r[regs[i] + k] = (char)name_of(w, (int)(k / (bytes / WARP)));
    }
    w->cta->shared = w->cta->notes;
    run_op(w, r, op, mask);
    w->cta->shared = shared;
    for (int i = 0; i < distinct && !store; ++i)
        for (size_t k = 0; k < bytes; k += 2) // two bytes at a time: most elements have 16 bits
            passed += (uint8_t)r[regs[i] + k] == name_of(w, (int)(k / (bytes / WARP))) ? 0 : 2;
    for (int i = 0; i < count; ++i)
        memcpy(r + regs[i], before[i], bytes);
    return passed;
}

// Records which thread stores to shared memory, at the addresses of the lanes `on`.
static void note_stored(struct warp *w, char *r, const struct op *op, const struct insn_info *insn,
                        uint32_t on)
{
    const struct copy_operands *copy = op->family == FAMILY_COPY ? op->operands : NULL;
    const bool matrix = op->family == FAMILY_FRAGMENT || op->family == FAMILY_TILES;

    if (matrix && insn->store && on &&
        (op->space == SPACE_SHARED || in_shared(asked_by(r, op, __builtin_ctz(on)))))
        matrix_of_names(w, r, op, true, on);
    if (!copy && !(op->family == FAMILY_ACCESS && insn->store) && op->family != FAMILY_ATOMIC)
        return;
    for (uint32_t left = on; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint64_t at = copy ? address_in(r, copy->to, copy->to_wide, copy->to_offset, lane)
                           : asked_by(r, op, lane);
        if (!copy && op->space != SPACE_SHARED && !in_shared(at))
            continue;
        at -= in_shared(at) ? SHARED_WINDOW : 0;
        if (at < w->cta->shared_bytes && bytes_of(op) <= w->cta->shared_bytes - at)
            memset(w->cta->notes + at, name_of(w, lane), bytes_of(op));
    }
}

// Counts the bytes that lanes load and other threads have stored, each byte once.
static uint32_t passed_to(struct warp *w, const char *r, const struct op *op, uint32_t lanes)
{
    uint64_t seen[WARP];
    uint32_t passed = 0;
    int count = 0;

    for (uint32_t left = lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        uint64_t at = asked_by(r, op, lane);
        at -= in_shared(at) ? SHARED_WINDOW : 0;
        int i = count;
        while (i > 0 && seen[i - 1] != at)
            --i;
        if (i > 0 || at >= w->cta->shared_bytes || bytes_of(op) > w->cta->shared_bytes - at)
            continue;
        seen[count++] = at;
        for (uint32_t k = 0; k < bytes_of(op); ++k)
            passed += w->cta->notes[at + k] != name_of(w, lane);
    }
    return passed;
}

// Lanes that load from shared memory.
static uint32_t shared_lanes(const char *r, const struct op *op, const struct insn_info *insn,
                             uint32_t on)
{
    if (insn->op_class == CLASS_SHARED_LOAD)
        return on;
    const bool matrix = op->family == FAMILY_FRAGMENT || op->family == FAMILY_TILES;
    const bool generic =
        (op->family == FAMILY_ACCESS || matrix) && !insn->store && op->space == SPACE_GENERIC;
    uint32_t lanes = 0;
    for (uint32_t left = generic ? on : 0; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const uint64_t at = address_in(r, op->a, op->wide_address, op->imm, i);
        lanes |= (uint32_t)in_shared(at) << i;
    }
    return matrix && lanes ? on : lanes; // the first lane's address is the fragment's
}

// Logs a load from shared memory, with its bytes that other threads have stored, and runs it.
static void note_load(struct warp *w, char *r, const struct op *op, uint32_t mask, uint32_t lanes)
{
    const bool matrix = op->family == FAMILY_FRAGMENT || op->family == FAMILY_TILES;
    const uint32_t passed =
        matrix ? matrix_of_names(w, r, op, false, mask) : passed_to(w, r, op, lanes);
    const uint32_t *regs = op->regs;
    int count = op->vector;
    uint64_t hash = HASH_START;

    run_op(w, r, op, mask);
    if (matrix)
        (void)matrix_registers(op, &regs, &count);
    for (int i = 0; i < count; ++i) {
        const char *brought = r + (!matrix && count == 1 ? op->d : regs[i]);
        for (uint32_t left = lanes; left; left &= left - 1)
            hash =
                hash_more(hash, brought + (size_t)__builtin_ctz(left) * (matrix ? 4u : op->width),
                          matrix ? 4 : op->width);
    }
    note_execution(w->cta, hash, hash, passed);
}

// ---- What a CTA does while copies are on their way ----------------------------------------------

// Counts the pieces of a product that are not all zeros, and that no product had before.
static uint64_t new_pieces(struct ablation *a, const char *r, const struct op *op)
{
    enum { BITS = 24 };
    struct piece pieces[PIECES_MOST];
    const int count = pieces_of(r, op, pieces);
    uint64_t made = 0;

    a->made = a->made ? a->made : calloc(1, (1u << BITS) / 8);
    if (!a->made)
        abort();
    for (int i = 0; i < count; ++i) {
        const uint64_t at =
            hash_more(pieces[i].of[0], &pieces[i].of[1], sizeof pieces[i].of[1]) >> (64 - BITS);
        made += pieces[i].work && !(a->made[at / 8] >> at % 8 & 1);
        a->made[at / 8] |= (uint8_t)(pieces[i].work ? 1u << at % 8 : 0);
    }
    return made;
}

// Notes that an operation reads (`reads`) or replaces bytes of shared memory. A byte that a copy
// brings is added to the copy's work when it is first read, even before it has arrived. Returns how
// many of the bytes are read for the first time since they arrived.
static uint64_t take_bytes(const struct cta *cta, uint64_t at, uint32_t bytes, bool reads)
{
    uint64_t first = 0;

    at -= in_shared(at) ? SHARED_WINDOW : 0;
    for (uint32_t i = 0; i < bytes && at + i < cta->shared_bytes; ++i) {
        const uint32_t byte = cta->brought[at + i];
        const uint32_t execution = byte & ~(BYTE_ARRIVED | BYTE_COUNTED);
        const bool early = reads && execution && !(byte & BYTE_ARRIVED);
        cta->brought[at + i] = early ? byte | BYTE_COUNTED : 0;
        if (!execution || !reads)
            continue;
        cta->launch->ablation->log[execution - 1].work += !(byte & BYTE_COUNTED);
        first += !early;
    }
    return first;
}

static uint64_t take_fragment(const struct cta *cta, const char *r, const struct op *op, bool reads)
{
    const struct matrix_memory *m = op->operands;
    const struct matrix *f = &m->matrix;
    const uint64_t base = asked_by(r, op, 0), stride = *(const u32 *)(r + m->stride);
    uint64_t first = 0;

    for (int i = 0; i < f->distinct; ++i)
        for (uint32_t k = 0; k < WARP * f->per; ++k) {
            const uint32_t lane = k / f->per;
            const uint64_t row = lane / 4 + f->row[i];
            const uint64_t column = lane % 4 * f->step + f->column[i] + k % f->per;
            const uint64_t at = m->transposed ? column * stride + row : row * stride + column;
            first += take_bytes(cta, base + f->bytes * at, f->bytes, reads);
        }
    return first;
}

// Counts the bytes brought by copies that an operation is the first to read.
static uint64_t first_read(const struct cta *cta, const char *r, const struct op *op,
                           const struct insn_info *insn, uint32_t on)
{
    const bool fragment = op->family == FAMILY_FRAGMENT, tiles = op->family == FAMILY_TILES;
    const bool atomic = op->family == FAMILY_ATOMIC;
    const bool reads = atomic ? op->regs[0] != NO_REGISTER : !insn->store;
    uint64_t first = 0;

    if (!fragment && !tiles && !atomic && op->family != FAMILY_ACCESS)
        return 0;
    for (uint32_t lanes = asking_lanes(op, on); lanes; lanes &= lanes - 1) {
        const uint64_t at = asked_by(r, op, __builtin_ctz(lanes));
        if (op->space == SPACE_SHARED || in_shared(at))
            first += fragment ? take_fragment(cta, r, op, reads)
                              : take_bytes(cta, at, tiles ? 16 : bytes_of(op), reads);
    }
    return first;
}

static void note_progress(struct cta *cta, const char *r, const struct op *op,
                          const struct insn_info *insn, uint32_t on)
{
    struct ablation *a = cta->launch->ablation;
    const uint64_t done[PROGRESSES] = {[PROGRESS_PRODUCTS] =
                                           is_product(op) ? new_pieces(a, r, op) : 0,
                                       [PROGRESS_READS] = first_read(cta, r, op, insn, on)};

    for (int i = 0; i < PROGRESSES; ++i) {
        cta->progress_of[i] += done[i];
        a->progress[i] += done[i];
    }
}

// ---- Spoiling -----------------------------------------------------------------------------------

// Spoils an atomic operation in the lanes `global`, whose addresses are in global memory: adds 1 to
// its result or, if it returns none, leaves the operation out. An operation that returns a result
// is made once, since leaving it out, or making it twice, may do no harm although the result is
// used: a queue then only gives a number twice, or wraps. A result plus 1 is a number that another
// thread may have, too, which harms only a thread that uses the number.
static void spoil_atomic(struct warp *w, char *r, const struct op *op, uint32_t mask,
                         uint32_t global)
{
    bool returns = op->regs[0] != NO_REGISTER;

    run_op(w, r, op, returns ? mask : mask & ~global);
    for (uint32_t left = returns ? global : 0; left; left &= left - 1) {
        uint8_t *result = (uint8_t *)r + op->regs[0] + (size_t)__builtin_ctz(left) * op->width;
        for (int k = 0; k < op->width && ++result[k] == 0; ++k) // adds 1, with carry
            ;
    }
}

// Runs an operation that puts copies or products on a list, from which they are executed later, and
// spoils them there.
static void spoil_issued(struct warp *w, char *r, const struct op *op, uint32_t mask, bool chosen)
{
    size_t bulk[CLUSTER_MOST], products = wgmma_open(w), copies = copies_open(w);

    bulk_open(w, bulk);
    run_op(w, r, op, mask);
    if (w->cta->launch->ablation->logs) {
        uint32_t bytes = 0;
        const uint64_t hash = op->family == FAMILY_COPY ? copies_hash(w, copies, &bytes) : 0;
        note_execution(w->cta, hash, hash, 0);
        w->cta->launch->ablation->log[w->cta->launch->ablation->logged - 1].brought =
            (uint16_t)bytes;
        copies_note(w, copies, w->cta->launch->ablation->logged - 1);
    }
    if (chosen && op->family == FAMILY_WGMMA)
        wgmma_spoil(w, products);
    else if (chosen && op->family == FAMILY_BULK)
        bulk_spoil(w, bulk);
    else if (chosen)
        copies_spoil(w, copies);
}

static void spoil_load(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    for (int turned = 0; turned < 2; ++turned) {
        for (size_t i = 0; i < w->cta->shared_bytes; ++i)
            w->cta->shared[i] ^= 0x80;
        if (turned == 0)
            run_op(w, r, op, mask);
    }
}

// Whether an operation issues products or copies, as `what` asks for, that are executed later
// (spoil_issued).
static bool is_issued(const struct op *op, enum spoils what)
{
    if (what == SPOIL_PRODUCTS)
        return op->family == FAMILY_WGMMA;
    return what == SPOIL_COPIES &&
           (op->family == FAMILY_COPY || (op->family == FAMILY_BULK && bulk_loads(op)));
}

static void ablate_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct ablation *a = w->cta->launch->ablation;
    const uint32_t on = guarded(r, op, mask);
    const struct insn_info *insn = &w->cta->program->insns[op->insn];
    const bool stores = insn->store;
    uint32_t global, shared;

    note_signal(a, w, r, op, insn, on);
    if (a->logs && a->what == SPOIL_PRODUCTS && on)
        note_roles(a, w, r, op, insn, on);
    if (a->logs && a->what == SPOIL_LOOKUPS && on)
        note_lookup(w->cta, r, op, insn, on);
    if (a->logs && a->what == SPOIL_LOADS && on)
        note_stored(w, r, op, insn, on);
    if (a->logs && a->what == SPOIL_COPIES && on)
        note_progress(w->cta, r, op, insn, on);
    if (a->logs && a->what == SPOIL_STORES && on)
        note_parts(w->cta, r, op, insn, on);
    if (a->logs && stores && a->writers)
        note_writer(w->cta, r, op, global_lanes(r, op, op->a, op->imm, on));
    if (a->what == SPOIL_PRODUCTS && is_product(op) && on) {
        note_product(w->cta, r, op);
        run_op(w, r, op, mask);
        if (is_next_chosen(w))
            spoil_product(r, op);
    } else if (is_issued(op, a->what) && on) {
        spoil_issued(w, r, op, mask, is_next_chosen(w));
    } else if (a->what == SPOIL_ATOMICS && op->family == FAMILY_ATOMIC &&
               (global = global_lanes(r, op, op->a, op->imm, on)) != 0) {
        const int lane = __builtin_ctz(global);
        const uint64_t address = address_in(r, op->a, op->wide_address, op->imm, lane);
        if (is_next_chosen(w))
            spoil_atomic(w, r, op, mask, global);
        else
            run_op(w, r, op, mask);
        note_atomic(w->cta, r, op, address, lane);
    } else if (a->what == SPOIL_LOADS && (shared = shared_lanes(r, op, insn, on)) != 0) {
        const bool chosen = is_next_chosen(w);
        if (chosen)
            spoil_load(w, r, op, mask);
        else if (a->logs)
            note_load(w, r, op, mask, shared);
        else
            run_op(w, r, op, mask);
    } else if (a->what == SPOIL_STORES && stores && is_chosen(w->cta, 0)) {
        run_op(w, r, op, mask & ~global_lanes(r, op, op->a, op->imm, on));
    } else {
        run_op(w, r, op, mask);
    }
}

// Returns `notes` with room for `bytes` bytes, all zero; aborts if the host is out of memory.
static void *noted_bytes(void *notes, size_t bytes)
{
    notes = realloc(notes, bytes + 1);
    if (!notes)
        abort();
    return memset(notes, 0, bytes);
}

bool ablation_start(struct cta *cta)
{
    const struct ablation *a = cta->launch->ablation;
    bool spoiled = false;

    cta->place = a->ctas + cta->number;
    cta->executions = cta->loaded = cta->ahead = cta->known_count = 0;
    memset(cta->progress_of, 0, sizeof cta->progress_of);
    for (int i = 0; i < cta->warps; ++i) {
        cta->warp[i].loaded = 0;
        cta->warp[i].multiplies = false;
    }
    if (a->what == SPOIL_LOADS && a->logs)
        cta->notes = noted_bytes(cta->notes, cta->shared_bytes + 64);
    if (a->what == SPOIL_COPIES && a->logs)
        cta->brought = noted_bytes(cta->brought, cta->shared_bytes * sizeof *cta->brought);
    if (a->what == SPOIL_STORES)
        note_execution(cta, 0, 0, 0);
    for (int i = 0; i < a->count; ++i)
        spoiled |= a->chosen[i].cta == cta->place;
    return spoiled || a->logs;
}

void run_ablated(struct warp *w, char *r, const struct basic_block *b, uint32_t mask)
{
    for (const struct op *op = &w->cta->program->ops[b->first], *end = op + b->count; op < end;
         ++op)
        ablate_op(w, r, op, mask);
}
