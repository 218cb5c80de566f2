// bulk.c: cp.async.bulk: boxes of tensors (TMA) and rows of bytes, between global and shared
// memory.
//
// A load reads its source when it is issued, and its bytes are subtracted from the mbarrier's count
// at once. They appear in shared memory when a thread sees that the phase which counted them is
// complete, as with cp.async (copy_async.c): a program that does not wait computes with what was
// there before, and the race is reported. A store reads shared memory, and writes to global memory,
// when its thread waits for it: a GPU may not do so later.
//
// A box lies in shared memory row after row. With a swizzle, each row takes the full width of the
// swizzle, and its 16-byte pieces are exchanged according to bits of their addresses.
#include "address.h"
#include "async.h"
#include "cluster.h"
#include "mbarrier.h"
#include "ptxsim/machine/film.h"
#include "scalars.h"
#include "tensor_map.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 16 };

struct piece {
    uint32_t at;
    uint8_t data[PIECE];
};

struct bulk { // a load or a store under way
    uint8_t lane;
    struct warp *warp;
    const struct op *op;
    // For a load: its mbarrier, phase and pieces. A load is in the list of the CTA that it writes
    // to.
    uint32_t meeting, phase, count, piece_bytes;
    struct piece *pieces;
    uint32_t issued; // if the operation reads shared memory: what race_issue returned
    // Whether the copy is from the shared memory of the CTA that issued it. If so, the pieces are
    // read there again when they arrive.
    bool from_shared;
    // For a store; `at` also for a copy from shared memory:
    uint32_t group; // the store's group among the stores of its thread
    uint32_t at, bytes;
    uint64_t to;
    // A copy of the tensor's map, made at the issue, since the kernel may overwrite the map; rank
    // 0: the store is of bytes, not of a tensor.
    struct tensor_map map;
    int32_t from[TENSOR_RANK];
};

void bulk_start(struct cta *cta)
{
    for (size_t i = 0; i < cta->bulk_count; ++i)
        free(cta->bulk[i].pieces);
    cta->bulk_count = 0;
    for (int i = 0; i < cta->warps; ++i)
        memset(cta->warp[i].bulk_open, 0, sizeof cta->warp[i].bulk_open);
}

void bulk_destroy(struct cta *cta)
{
    bulk_start(cta);
    free(cta->bulk);
    cta->bulk = NULL;
    cta->bulk_capacity = 0;
}

static bool read_shared(const struct bulk *b, uint32_t at, uint32_t bytes, uint8_t *to);

void bulk_arrive(struct cta *cta, uint32_t meeting, uint32_t phases)
{
    struct meeting *m = &cta->meetings[meeting];
    uint32_t stamp = 0;
    size_t kept = 0;
    for (size_t i = 0; i < cta->bulk_count; ++i) {
        struct bulk *b = &cta->bulk[i];
        if (!b->pieces || b->meeting != meeting || b->phase >= phases) {
            cta->bulk[kept++] = *b;
            continue;
        }
        stamp = stamp ? stamp : race_loads_come(cta, m->loads, &m->complete);
        for (uint32_t k = 0; k < b->count; ++k) {
            const struct piece *p = &b->pieces[k];
            if (b->from_shared)
                read_shared(b, b->at + k * PIECE, PIECE, b->pieces[k].data);
            memcpy(cta->shared + p->at, p->data, b->piece_bytes);
            race_arrived(cta, b->warp, b->lane, b->op->insn, p->at, b->piece_bytes, m->loads,
                         stamp);
        }
        note_effect(b->warp);
        free(b->pieces);
    }
    cta->bulk_count = kept;
}

// ---- Boxes --------------------------------------------------------------------------------------

struct box {
    const struct tensor_map *map;
    int32_t from[TENSOR_RANK];
    uint32_t count[TENSOR_RANK]; // elements that are copied
    // row: bytes; pitch: bytes from one row to the next in shared memory; rows: how many.
    uint32_t row, pitch, rows;
};

static struct box box_of(const struct tensor_map *map, const int32_t *from)
{
    struct box b = {.map = map, .rows = 1};
    for (int i = 0; i < TENSOR_RANK; ++i) {
        b.from[i] = i < map->rank ? from[i] : 0;
        b.count[i] = ((uint32_t)map->box[i] + map->step[i] - 1) / map->step[i];
        b.rows *= i ? b.count[i] : 1;
    }
    b.row = b.count[0] * map->element;
    b.pitch = map->swizzle ? map->swizzle : b.row;
    return b;
}

// The address of a row's first element inside the tensor. *first gets the number of this element's
// first byte in the row, *bytes how many bytes are inside; 0: none.
static uint64_t row_of(const struct box *b, uint32_t index, uint32_t *first, uint32_t *bytes)
{
    const struct tensor_map *m = b->map;
    uint64_t address = m->address;
    *bytes = 0;
    for (int i = 1; i < m->rank; ++i) {
        int64_t at = b->from[i] + (int64_t)(index % b->count[i] * m->step[i]);
        index /= b->count[i];
        if (at < 0 || at >= (int64_t)m->dim[i])
            return 0;
        address += (uint64_t)at * m->stride[i - 1];
    }
    int64_t start = b->from[0], end = start + b->count[0];
    int64_t low = start < 0 ? 0 : start, high = end > (int64_t)m->dim[0] ? (int64_t)m->dim[0] : end;
    if (low >= high)
        return 0;
    *first = (uint32_t)(low - start) * m->element;
    *bytes = (uint32_t)(high - low) * m->element;
    return address + (uint64_t)low * m->element;
}

// The offset in shared memory of byte `offset` of a row.
static uint32_t place_of(const struct box *b, uint32_t to, uint32_t row, uint32_t offset)
{
    uint32_t at = to + row * b->pitch + offset;
    return b->map->swizzle ? at ^ (at >> 7 & (b->map->swizzle / PIECE - 1u)) << 4 : at;
}

static void fill_outside(const struct tensor_map *m, uint8_t *row, uint32_t bytes)
{
    memset(row, 0, bytes);
    if (!m->fill_nan)
        return;
    for (uint32_t i = 0; i < bytes; i += 2) { // what an H200 fills with, whatever the type
        row[i] = 0xf7;
        row[i + 1] = 0x7f;
    }
}

// ---- Loads --------------------------------------------------------------------------------------

static struct piece *need_pieces(struct bulk *b, uint32_t count)
{
    // Never NULL, even for 0 pieces: `pieces` marks a load.
    b->pieces = malloc((count ? count : 1) * sizeof *b->pieces);
    if (!b->pieces)
        abort();
    return b->pieces;
}

static bool read_global(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                        uint8_t *to)
{
    if (!global_span(w, at, bytes) || !global_defined(w, at, bytes, false)) {
        fault_global(w, op, lane, at, bytes, false);
        return false;
    }
    struct insn_counts *count = counts_of(w, op);
    global_touch(w, op, at, bytes, false);
    race_proxy_global(w, op, lane, at, bytes);
    race_global(w, op, 1u << lane, at, bytes, RACE_READ, NULL);
    count->global_bytes += bytes;
    count->sectors += (at + bytes - 1) / 32 - at / 32 + 1;
    memcpy(to, (const void *)(uintptr_t)at, bytes);
    return true;
}

// Whether the bytes lie in the shared memory of `home`; if not, reports a fault.
static bool has_room(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                     uint32_t bytes, bool store)
{
    if (within(at, bytes, home->shared_bytes))
        return true;
    fault_shared_of(w, op, lane, home, at, bytes, store);
    return false;
}

// Notes that bytes will arrive in the shared memory of `home`: an access to them before that is a
// race.
static bool claim(struct warp *w, const struct op *op, int lane, struct cta *home, uint32_t at,
                  uint32_t bytes)
{
    if (!has_room(w, op, lane, home, at, bytes, true))
        return false;
    race_proxy(w, op, lane, home, at, bytes, true);
    cluster_race(w, op, lane, home, at, bytes, RACE_ASYNC, NULL);
    if (home->written) // a read before they arrive is reported as a race, not as uninitialised
        written_mark(home->written, at, bytes);
    return true;
}

static uint64_t lane_address(char *r, const struct bulk_address *a, int lane)
{
    return address_in(r, a->reg, a->wide, a->offset, lane);
}

// The CTA whose shared memory contains a lane's address; *to gets the offset there. NULL after a
// fault: the offset is no multiple of `align`, or past the end.
static struct cta *shared_address(struct warp *w, char *r, const struct op *op,
                                  const struct bulk_address *address, int lane, uint32_t align,
                                  bool store, uint32_t *to)
{
    struct cta *home = cluster_home_wide(w, op, lane, lane_address(r, address, lane), to);
    if (*to % align == 0 && *to < home->shared_bytes)
        return home;
    if (*to % align)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s with shared address %u, which is no multiple of %u",
                 w->cta->program->insns[op->insn].opcode, *to, align);
    else
        fault_shared_of(w, op, lane, home, *to, align, store);
    return NULL;
}

static bool is_own(struct warp *w, const struct op *op, int lane, const struct cta *home)
{
    if (home == w->cta)
        return true;
    fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
             "%s from the shared memory of another CTA: it must be its own",
             w->cta->program->insns[op->insn].opcode);
    return false;
}

// Whether cuTensorMapEncodeTiled can have made a map. A kernel may write anything to the memory of
// a map, and the sizes of later accesses depend on it.
static bool is_sound(const struct tensor_map *m)
{
    enum { BOX_MOST = 256, STEP_MOST = 8, BYTES_MOST = 16 << 20 };
    uint32_t row = (uint32_t)m->box[0] * m->element;
    uint64_t bytes = m->swizzle ? m->swizzle : row;
    bool good = m->magic == TENSOR_MAP_MAGIC && m->rank >= 1 && m->rank <= TENSOR_RANK &&
                m->element && m->element == tensor_element(m->kind) && m->address % PIECE == 0 &&
                row % PIECE == 0 && m->step[0] == 1 &&
                (m->swizzle ? row <= m->swizzle &&
                                  (m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128)
                            : true);
    for (int i = 0; i < TENSOR_RANK; ++i) {
        uint32_t most = i < m->rank ? BOX_MOST : 1;
        good &= m->box[i] >= 1 && m->box[i] <= most && m->step[i] >= 1 && m->step[i] <= STEP_MOST;
        good &= i + 1 >= m->rank || m->stride[i] % PIECE == 0;
        bytes *= i ? m->box[i] : 1;
    }
    return good && bytes <= BYTES_MOST;
}

// Copies the map that an instruction names to *map; false after a fault.
static bool find_map(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                     int lane, struct tensor_map *map)
{
    uint64_t at = lane_address(r, &o->global, lane);
    const void *from = (const void *)(uintptr_t)at;
    if (at >> WINDOW_SHIFT == PARAM_WINDOW >> WINDOW_SHIFT) {
        from = private_memory(w, op, lane, at, 64, false); // a map is aligned to 64 bytes
        if (from &&
            !within(at - PARAM_WINDOW, sizeof *map, w->cta->program->kernel->info.param_bytes))
            from = private_memory(w, op, lane, at, sizeof *map, false);
        if (!from)
            return false;
    } else if (at % 64 || !global_span(w, at, sizeof *map)) {
        fault_global(w, op, lane, at, at % 64 ? 64 : sizeof *map, false);
        return false;
    }
    memcpy(map, from, sizeof *map);
    const char *opcode = w->cta->program->insns[op->insn].opcode;
    if (!is_sound(map))
        fault_at(w, op, lane, FAULT_TRAP, "%s with something that is no tensor map", opcode);
    else if (map->rank != o->rank)
        fault_at(w, op, lane, FAULT_TRAP, "%s with the map of a tensor of %d dimensions", opcode,
                 map->rank);
    else
        return true;
    return false;
}

static bool find_corner(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                        const struct tensor_map *m, int lane, int32_t from[TENSOR_RANK])
{
    for (int i = 0; i < o->rank; ++i)
        from[i] = ((s32 *)(r + o->coordinate[i]))[lane];
    if ((int64_t)from[0] * m->element % PIECE == 0)
        return true;
    fault_at(w, op, lane, FAULT_MISALIGNED,
             "%s with innermost coordinate %d: its %lld bytes are no multiple of %d (on a GPU, an "
             "illegal instruction)",
             w->cta->program->insns[op->insn].opcode, from[0], (long long)from[0] * m->element,
             PIECE);
    return false;
}

static bool load_box(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                     int lane, uint32_t to, struct bulk *bulk, uint32_t *bytes)
{
    struct tensor_map map, *m = &map;
    int32_t from[TENSOR_RANK];
    if (!find_map(w, r, op, o, lane, m) || !find_corner(w, r, op, o, m, lane, from))
        return false;
    struct box box = box_of(m, from);
    struct piece *piece = need_pieces(bulk, box.rows * (box.row / PIECE));
    uint8_t row[256 * 8];
    *bytes = box.rows * box.row;
    for (uint32_t i = 0; i < box.rows; ++i) {
        uint32_t first, inside;
        uint64_t at = row_of(&box, i, &first, &inside);
        if (inside < box.row)
            fill_outside(m, row, box.row);
        if (inside && !read_global(w, op, lane, at, inside, row + first))
            return false;
        for (uint32_t k = 0; k < box.row; k += PIECE) {
            piece->at = place_of(&box, to, i, k);
            memcpy(piece->data, row + k, PIECE);
            piece++;
        }
    }
    bulk->count = (uint32_t)(piece - bulk->pieces);
    return true;
}

static bool load_bytes(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                       int lane, struct cta *home, uint32_t to, struct bulk *bulk, uint32_t *bytes)
{
    uint64_t from = lane_address(r, &o->global, lane);
    *bytes = ((u32 *)(r + o->size))[lane];
    if (*bytes % PIECE || from % PIECE) {
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s of %u bytes from 0x%llx: both must be multiples of %d",
                 w->cta->program->insns[op->insn].opcode, *bytes, (unsigned long long)from, PIECE);
        return false;
    }
    if (!has_room(w, op, lane, home, to, *bytes, true))
        return false;
    struct piece *piece = need_pieces(bulk, *bytes / PIECE);
    uint8_t *row = checked_alloc(malloc(*bytes + 1));
    bool good = !*bytes || read_global(w, op, lane, from, *bytes, row);
    for (uint32_t k = 0; k < *bytes && good; k += PIECE, ++piece) {
        piece->at = to + k;
        memcpy(piece->data, row + k, PIECE);
    }
    free(row);
    bulk->count = (uint32_t)(piece - bulk->pieces);
    return good;
}

static void keep(struct cta *cta, const struct bulk *bulk)
{
    cta->bulk = array_grow(cta->bulk, cta->bulk_count, &cta->bulk_capacity, sizeof *bulk);
    cta->bulk[cta->bulk_count++] = *bulk;
}

// Prepares a copy from the CTA's own shared memory to a CTA of its cluster. Its bytes are read when
// they arrive, the latest time that a GPU may choose; the reads are checked now as well.
static bool load_shared(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                        int lane, struct cta *home, uint32_t to, struct bulk *bulk, uint32_t *bytes)
{
    struct cta *own = shared_address(w, r, op, &o->global, lane, PIECE, false, &bulk->at);
    *bytes = ((u32 *)(r + o->size))[lane];
    if (!own || !is_own(w, op, lane, own))
        return false;
    if (*bytes % PIECE) {
        fault_at(w, op, lane, FAULT_MISALIGNED, "%s of a number of bytes that is no multiple of 16",
                 w->cta->program->insns[op->insn].opcode);
        return false;
    }
    if (!has_room(w, op, lane, home, to, *bytes, true) ||
        !has_room(w, op, lane, own, bulk->at, *bytes, false))
        return false;
    struct piece *piece = need_pieces(bulk, *bytes / PIECE);
    bulk->from_shared = true;
    for (uint32_t k = 0; k < *bytes; k += PIECE, ++piece) {
        piece->at = to + k;
        if (!read_shared(bulk, bulk->at + k, PIECE, piece->data))
            return false;
    }
    bulk->count = *bytes / PIECE;
    bulk->issued = race_issue(w);
    return true;
}

// Sends a load to the shared memory of one CTA: notes that its bytes will arrive there, and binds
// it to that CTA's mbarrier.
static bool deliver(struct warp *w, const struct op *op, int lane, struct cta *home,
                    const struct bulk *load, uint64_t barrier, uint32_t to, uint32_t bytes)
{
    struct bulk bulk = *load;
    bulk.pieces = NULL;
    for (uint32_t k = 0; k < load->count; ++k)
        if (!claim(w, op, lane, home, load->pieces[k].at, load->piece_bytes))
            return false;
    if (!mbarrier_bind(w, op, lane, home, barrier, bytes, &bulk.meeting, &bulk.phase))
        return false;
    struct meeting *m = &home->meetings[bulk.meeting];
    m->loads = m->loads ? m->loads : race_load_source(home, false);
    memcpy(need_pieces(&bulk, load->count), load->pieces, load->count * sizeof *load->pieces);
    if (w->cta->film)
        film_bulk(w->cta->film, op->insn, lane, to, bytes, m->at, bulk.phase, false);
    keep(home, &bulk);
    return true;
}

// Copies to the same offset in the shared memory of each CTA whose rank is in the mask.
static void deliver_to_many(struct warp *w, const struct op *op, int lane, uint32_t ranks,
                            const struct bulk *load, uint64_t barrier, uint32_t to, uint32_t bytes)
{
    uint32_t size = (uint32_t)cluster_size(w->cta), at;
    if (!ranks || ranks >> size) {
        fault_at(w, op, lane, FAULT_TRAP, "%s to the CTAs of mask 0x%x, in a cluster of %u",
                 w->cta->program->insns[op->insn].opcode, ranks, size);
        return;
    }
    cluster_home_wide(w, op, lane, barrier, &at);
    for (; ranks && !w->cta->faulted; ranks &= ranks - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(ranks);
        struct cta *home = cta_at(w->cta, (int)rank);
        uint32_t there = w->cta->cluster ? at | (rank + 1) << RANK_SHIFT : at;
        if (!deliver(w, op, lane, home, load, there, to, bytes))
            return;
    }
}

static void load(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                 int lane)
{
    struct bulk bulk = {.op = op, .lane = (uint8_t)lane, .warp = w, .piece_bytes = PIECE};
    uint32_t to, bytes;
    struct cta *home =
        shared_address(w, r, op, &o->shared, lane, o->tensor ? 128 : PIECE, true, &to);
    if (!home)
        return;
    bool good = o->tensor        ? load_box(w, r, op, o, lane, to, &bulk, &bytes)
                : o->from_shared ? load_shared(w, r, op, o, lane, home, to, &bulk, &bytes)
                                 : load_bytes(w, r, op, o, lane, home, to, &bulk, &bytes);
    uint64_t barrier = lane_address(r, &o->barrier, lane);
    if (good && o->multicast)
        deliver_to_many(w, op, lane, ((u16 *)(r + o->ranks))[lane], &bulk, barrier, to, bytes);
    else if (good)
        deliver(w, op, lane, home, &bulk, barrier, to, bytes);
    free(bulk.pieces);
}

// ---- Stores -------------------------------------------------------------------------------------

// Reads bytes of a store, or of a copy to another CTA, from shared memory, and checks the access.
// to: receives the bytes, unless NULL.
static bool read_shared(const struct bulk *b, uint32_t at, uint32_t bytes, uint8_t *to)
{
    struct warp *w = b->warp;
    struct cta *cta = w->cta;
    bool good = within(at, bytes, cta->shared_bytes);
    if (!good || (cta->written && !written_all(cta->written, at, bytes)))
        fault_shared(w, b->op, b->lane, at, bytes, false);
    if (!good)
        return false;
    if (b->issued)
        race_overwritten(w, b->op, b->lane, at, bytes, b->issued);
    race_shared(w, b->op, 1u << b->lane, at, bytes, RACE_READ, NULL);
    race_proxy(w, b->op, b->lane, w->cta, at, bytes, false);
    if (to)
        memcpy(to, cta->shared + at, bytes);
    return true;
}

static bool write_global(const struct bulk *b, uint64_t at, uint32_t bytes, const uint8_t *from)
{
    struct warp *w = b->warp;
    if (!global_span(w, at, bytes)) {
        fault_global(w, b->op, b->lane, at, bytes, true);
        return false;
    }
    struct insn_counts *count = counts_of(w, b->op);
    global_defined(w, at, bytes, true);
    global_touch(w, b->op, at, bytes, true);
    race_global(w, b->op, 1u << b->lane, at, bytes, RACE_WRITE, from); // makes a plain store, too
    count->global_bytes += bytes;
    count->sectors += (at + bytes - 1) / 32 - at / 32 + 1;
    memcpy((void *)(uintptr_t)at, from, bytes);
    return true;
}

// ---- Reductions ---------------------------------------------------------------------------------

// The atomic operation that is applied to each element of a reduction.
static struct op reduction_of(const struct op *op, const struct tensor_map *map)
{
    struct op one = *op;
    one.order = ORDER_STRONG;
    if (!map || !map->rank)
        return one;
    one.bytes = map->element;
    one.number = map->kind == TENSOR_FLOAT16    ? ATOMIC_F16
                 : map->kind == TENSOR_BFLOAT16 ? ATOMIC_BF16
                 : map->kind >= TENSOR_FLOAT32  ? ATOMIC_FLOAT
                                                : ATOMIC_INTEGER;
    one.is_signed = map->kind == TENSOR_INT32 || map->kind == TENSOR_INT64;
    return one;
}

// Whether the instruction's reduction works on elements of the tensor's type; if not, a fault.
static bool reduces(struct warp *w, const struct op *op, int lane, const struct tensor_map *map)
{
    struct op one = reduction_of(op, map);
    if (one.number == ATOMIC_FLOAT ? op->atomic == ATOMIC_ADD
        : one.number               ? op->atomic <= ATOMIC_MAX
                                   : one.bytes >= 4)
        return true;
    fault_at(w, op, lane, FAULT_TRAP, "%s of a tensor whose type, CUtensorMapDataType %d, has none",
             w->cta->program->insns[op->insn].opcode, map->kind);
    return false;
}

static void reduce(struct warp *w, const struct op *one, uint8_t *memory, const uint8_t *from,
                   uint32_t bytes, bool shared)
{
    for (uint32_t k = 0; k < bytes; k += one->bytes) {
        uint64_t value = 0;
        memcpy(&value, from + k, one->bytes);
        atomic_apply(w, one, memory + k, value, 0, shared);
    }
}

static bool reduce_global(const struct bulk *b, uint64_t at, uint32_t bytes, const uint8_t *from)
{
    struct warp *w = b->warp;
    struct op one = reduction_of(b->op, &b->map);
    if (!global_span(w, at, bytes) || !global_defined(w, at, bytes, false)) {
        fault_global(w, b->op, b->lane, at, bytes, true);
        return false;
    }
    struct insn_counts *count = counts_of(w, b->op);
    global_touch(w, &one, at, bytes, false);
    global_touch(w, &one, at, bytes, true);
    race_global(w, &one, 1u << b->lane, at, bytes, RACE_WRITE, NULL);
    count->global_bytes += bytes;
    count->sectors += (at + bytes - 1) / 32 - at / 32 + 1;
    reduce(w, &one, (uint8_t *)(uintptr_t)at, from, bytes, false);
    return true;
}

// Reduces bytes of the CTA's own shared memory into a CTA of its cluster. Unlike a copy, it takes
// effect when it is issued. Other CTAs may reduce into the same bytes at the same time; a thread
// that reads them without waiting for the mbarrier has a race.
static void reduce_shared(struct warp *w, char *r, const struct op *op,
                          const struct bulk_operands *o, int lane)
{
    struct bulk bulk = {.op = op, .lane = (uint8_t)lane, .warp = w, .piece_bytes = PIECE};
    struct op one = reduction_of(op, NULL);
    uint32_t to, bytes;
    struct cta *home = shared_address(w, r, op, &o->shared, lane, PIECE, true, &to);
    if (!home || !load_shared(w, r, op, o, lane, home, to, &bulk, &bytes)) {
        free(bulk.pieces);
        return;
    }
    bool good = within(to, bytes, home->shared_bytes) &&
                (!home->written || written_all(home->written, to, bytes));
    if (!good)
        fault_shared_of(w, op, lane, home, to, bytes, false);
    for (uint32_t k = 0; k < bulk.count && good; ++k) {
        cluster_race(w, &one, lane, home, to + k * PIECE, PIECE, RACE_WRITE, NULL);
        reduce(w, &one, home->shared + to + k * PIECE, bulk.pieces[k].data, PIECE, true);
    }
    if (good)
        mbarrier_bind(w, op, lane, home, lane_address(r, &o->barrier, lane), bytes, &bulk.meeting,
                      &bulk.phase);
    free(bulk.pieces);
}

// Reads what a store stores, a box or bytes, with all checks; moves: whether to write it to global
// memory as well.
static void store(const struct bulk *b, bool moves)
{
    const struct bulk_operands *o = b->op->operands;
    bool (*write)(const struct bulk *, uint64_t, uint32_t, const uint8_t *) =
        o->reduces ? reduce_global : write_global;
    uint8_t row[256 * 8];
    if (!b->map.rank) {
        for (uint32_t k = 0; k < b->bytes; k += PIECE)
            if (!read_shared(b, b->at + k, PIECE, row) ||
                (moves && !write(b, b->to + k, PIECE, row)))
                return;
        return;
    }
    struct box box = box_of(&b->map, b->from);
    for (uint32_t i = 0; i < box.rows; ++i) {
        uint32_t first, inside;
        uint64_t at = row_of(&box, i, &first, &inside);
        // Bytes outside of the tensor, such as padding of the tile, are not read.
        for (uint32_t k = first / PIECE * PIECE; inside && k < first + inside; k += PIECE)
            if (!read_shared(b, place_of(&box, b->at, i, k), PIECE, row + k))
                return;
        if (moves && inside && !write(b, at, inside, row + first))
            return;
    }
}

static void issue_store(struct warp *w, char *r, const struct op *op, const struct bulk_operands *o,
                        int lane)
{
    struct bulk b = {.op = op, .lane = (uint8_t)lane, .warp = w, .group = w->bulk_open[lane]};
    struct cta *own =
        shared_address(w, r, op, &o->shared, lane, o->tensor ? 128 : PIECE, false, &b.at);
    if (!own || !is_own(w, op, lane, own))
        return;
    if (o->tensor) {
        if (!find_map(w, r, op, o, lane, &b.map) || !find_corner(w, r, op, o, &b.map, lane, b.from))
            return;
        if (o->reduces && !reduces(w, op, lane, &b.map))
            return;
    } else {
        b.to = lane_address(r, &o->global, lane);
        b.bytes = ((u32 *)(r + o->size))[lane];
        if (b.bytes % PIECE || b.to % PIECE) {
            fault_at(w, op, lane, FAULT_MISALIGNED,
                     "%s of %u bytes to 0x%llx: both must be multiples of %d",
                     w->cta->program->insns[op->insn].opcode, b.bytes, (unsigned long long)b.to,
                     PIECE);
            return;
        }
    }
    if (!o->tensor && !has_room(w, op, lane, w->cta, b.at, b.bytes, false))
        return;
    store(&b, false);
    b.issued = race_issue(w);
    if (w->cta->film)
        film_bulk(w->cta->film, op->insn, lane, b.at,
                  o->tensor ? box_of(&b.map, b.from).rows * box_of(&b.map, b.from).row : b.bytes, 0,
                  b.group, true);
    keep(w->cta, &b);
}

void bulk_group_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct cta *cta = w->cta;
    size_t kept = 0;
    (void)r;
    note_effect(w);
    if (op->imm < 0) {
        for (uint32_t left = mask; left; left &= left - 1)
            w->bulk_open[__builtin_ctz(left)]++;
        return;
    }
    for (size_t i = 0; i < cta->bulk_count; ++i) {
        const struct bulk *b = &cta->bulk[i];
        if (b->pieces || b->warp != w || !(mask >> b->lane & 1) ||
            b->group + (uint64_t)op->imm >= w->bulk_open[b->lane])
            cta->bulk[kept++] = *b;
        else
            store(b, true);
    }
    cta->bulk_count = kept;
}

void bulk_finish(struct cta *cta)
{
    for (size_t i = 0; i < cta->bulk_count && !cta->faulted; ++i) {
        const struct bulk *b = &cta->bulk[i];
        if (b->pieces && b->warp->cta != cta && cta->races)
            race_report(b->warp, b->op, b->lane, FAULT_RACE, b->op->insn,
                        "%s to block (%u,%u,%u), which ends and has not waited for it",
                        cta->program->insns[b->op->insn].opcode, cta->index[0], cta->index[1],
                        cta->index[2]);
        if (b->pieces)
            continue;
        store(b, true);
        if (cta->races)
            race_report(b->warp, b->op, b->lane, FAULT_RACE, b->op->insn,
                        "%s has not been waited for when the CTA ends and its shared memory goes",
                        cta->program->insns[b->op->insn].opcode);
    }
}

// ---- Loads, stores and reductions ---------------------------------------------------------------

void bulk_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct bulk_operands *o = op->operands;
    for (uint32_t left = mask; left && !w->cta->faulted; left &= left - 1)
        (o->store     ? issue_store
         : o->reduces ? reduce_shared
                      : load)(w, r, op, o, __builtin_ctz(left));
    note_effect(w);
}

bool bulk_loads(const struct op *op)
{
    const struct bulk_operands *o = op->operands;
    return !o->store && !o->reduces && !o->from_shared;
}

void bulk_open(const struct warp *w, size_t open[CLUSTER_MOST])
{
    for (int i = 0; i < cluster_size(w->cta) && i < CLUSTER_MOST; ++i)
        open[i] = cta_at(w->cta, i)->bulk_count;
}

void bulk_spoil(struct warp *w, const size_t open[CLUSTER_MOST])
{
    for (int i = 0; i < cluster_size(w->cta) && i < CLUSTER_MOST; ++i) {
        struct cta *home = cta_at(w->cta, i);
        for (size_t k = open[i]; k < home->bulk_count; ++k)
            for (uint32_t piece = 0; home->bulk[k].pieces && piece < home->bulk[k].count; ++piece)
                for (int byte = 0; byte < PIECE; ++byte)
                    home->bulk[k].pieces[piece].data[byte] ^= 0x80;
    }
}

// Treats a lane's st.async, whose store has been made, like a bulk load: its bytes are under way
// until a thread sees that the mbarrier's phase is complete.
static void keep_stored(struct warp *w, const struct op *op, int lane, struct cta *home,
                        uint32_t at, struct bulk *bulk)
{
    const struct told_operands *o = op->operands;
    struct meeting *m = &home->meetings[bulk->meeting];
    m->loads = m->loads ? m->loads : race_load_source(home, false);
    race_under_way(w, lane, op->insn, home, at, o->bytes);
    bulk->piece_bytes = o->bytes < PIECE ? o->bytes : PIECE;
    bulk->count = o->bytes / bulk->piece_bytes;
    struct piece *piece = need_pieces(bulk, bulk->count);
    for (uint32_t k = 0; k < bulk->count; ++k) {
        piece[k].at = at + k * PIECE;
        memcpy(piece[k].data, home->shared + piece[k].at, bulk->piece_bytes);
    }
    keep(home, bulk);
}

// The second part of st.async and red.async, after the operation that makes the store or reduction:
// tells the mbarrier. A thread that reads what st.async stored without waiting for the mbarrier has
// a race.
void told_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct told_operands *o = op->operands;
    for (uint32_t left = mask; left && !w->cta->faulted; left &= left - 1) {
        int lane = __builtin_ctz(left);
        uint32_t at;
        struct bulk bulk = {.op = op, .lane = (uint8_t)lane, .warp = w};
        struct cta *home = cluster_home_wide(w, op, lane, lane_address(r, &o->to, lane), &at);
        if (mbarrier_bind(w, op, lane, home, lane_address(r, &o->barrier, lane), o->bytes,
                          &bulk.meeting, &bulk.phase) &&
            o->stores)
            keep_stored(w, op, lane, home, at, &bulk);
    }
}
