// tensor.c: loads and stores of matrices: wmma, ldmatrix, stmatrix.
//
// 16-bit operands consist of 8x8 tiles, each in one register of the lanes. Lane 4 g + t holds
// elements (g, 2 t) and (g, 2 t + 1), so that the 32 lanes' registers are the tile in row-major
// order. Tiles of 8-bit operands are 8x16, of tf32 8x4; accumulators have 8x8 tiles of 2- or 4-byte
// elements. place_matrix (decode/) sets the order of the tiles: for mma as PTX defines it; for
// wmma, where PTX leaves it open, as it was measured on a GPU.
//
// ptxas compiles a wmma load of 16-bit operands to ldmatrix. Its shared wavefronts are counted
// accordingly: one for each 8x8 tile whose eight 16-byte rows lie in distinct banks.
#include "address.h"
#include "ptxsim/machine/film.h"
#include "ptxsim/races/cells.h"
#include "scalars.h"

// The host pointer for `bytes` at an address of the operation's space; NULL after a fault. stored:
// the bytes that a store writes there; NULL: a load.
static uint8_t *locate_checked(struct warp *w, const struct op *op, int lane, uint64_t at,
                               uint32_t bytes, const void *stored, bool *shared)
{
    struct cta *cta = w->cta;
    bool store = stored != NULL;
    *shared = op->space == SPACE_SHARED;
    if (op->space == SPACE_GENERIC && at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
        at -= SHARED_WINDOW;
        *shared = true;
    }
    if (*shared) {
        uint32_t offset = at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
        bool good = within(offset, bytes, cta->shared_bytes) && !(offset & (bytes - 1));
        if (!good || (!store && cta->written && !written_all(cta->written, offset, bytes))) {
            fault_shared(w, op, lane, offset, bytes, store);
            if (!good)
                return NULL;
        }
        if (store && cta->written)
            written_mark(cta->written, offset, bytes);
        // PTX does not say which lane reads which element: every lane counts as a reader of all.
        if (cta->races)
            race_shared(w, op, store ? 1u << lane : ~0u, offset, bytes,
                        store ? RACE_WRITE : RACE_READ, stored);
        return cta->shared + offset;
    }
    if (at % bytes || !global_span(w, at, bytes) || !global_defined(w, at, bytes, store)) {
        fault_global(w, op, lane, at, bytes, store);
        return NULL;
    }
    global_touch(w, op, at, bytes, store);
    // race_global also makes a plain store.
    race_global(w, op, store ? 1u << lane : ~0u, at, bytes, store ? RACE_WRITE : RACE_READ, stored);
    return (uint8_t *)(uintptr_t)at;
}

// Like locate_checked, but only for the usual access to shared memory: within one line of cells,
// and ordered (race_in_line); a load's bytes must have been written. NULL for any other access.
// lanes: the lanes that make a store: they are neighbours, and each stores an equal part of
// `bytes`, a power of two. A load counts as a load by all lanes.
static inline uint8_t *locate_quick(struct warp *w, const struct op *op, uint32_t lanes,
                                    uint64_t at, uint32_t bytes, bool store)
{
    const struct cta *cta = w->cta;
    uint32_t offset = (uint32_t)at;
    if (op->space != SPACE_SHARED || !within(at, bytes, cta->shared_bytes) || (at & (bytes - 1)) ||
        (!store && cta->written && !written_all(cta->written, offset, bytes)) ||
        (cta->races && !race_in_line(w, op, store ? lanes : ~0u, offset, bytes, store)))
        return NULL;
    if (store && cta->written)
        written_mark(cta->written, offset, bytes);
    return cta->shared + at;
}

static inline uint8_t *locate(struct warp *w, const struct op *op, int lane, uint64_t at,
                              uint32_t bytes, const void *stored, bool *shared)
{
    uint8_t *memory = locate_quick(w, op, 1u << lane, at, bytes, stored != NULL);
    *shared = memory != NULL;
    return memory ? memory : locate_checked(w, op, lane, at, bytes, stored, shared);
}

static void count_access(struct warp *w, const struct op *op, const uint64_t at[WARP],
                         uint32_t bytes, uint32_t mask, bool shared, bool store)
{
    struct insn_counts *count = counts_of(w, op);
    if (store)
        note_effect(w);
    uint64_t moved = (uint64_t)__builtin_popcount(mask) * bytes;
    if (!shared) {
        count->global_bytes += moved;
        count->sectors += (uint64_t)global_sectors(at, (int)bytes, mask);
        if (w->cta->film)
            film_global(w->cta->film, op->insn, at, (int)bytes, mask,
                        store ? FILM_STORE : FILM_LOAD);
        return;
    }
    count->shared_bytes += moved;
    uint32_t offset[WARP];
    // A window begins at a multiple of 2^32, so the low half of a generic address is the shared
    // address.
    for (int i = 0; i < WARP; ++i)
        offset[i] = (uint32_t)at[i];
    if (w->cta->trace)
        trace_access(w->cta->trace, w, op->insn, offset, (int)bytes, mask, store);
    count_wavefronts(w, op, offset, bytes, mask, store);
}

// Whether a load of eight rows of 16 bytes needs no further check: it reads shared memory that has
// been written, by writes that are ordered before it (race_rows).
static bool rows_good(struct warp *w, const struct op *op, const uint64_t row[8])
{
    const struct cta *cta = w->cta;
    if (op->space != SPACE_SHARED)
        return false;
    for (int i = 0; i < 8; ++i)
        if (!within(row[i], 16, cta->shared_bytes) || row[i] % 16 ||
            (cta->written && !written_all(cta->written, (uint32_t)row[i], 16)))
            return false;
    return !cta->races || race_rows(w, op, row, 8, 16);
}

// Moves one 8x8 tile of 16-bit elements: eight rows of 16 bytes, at the addresses in `row`. Lane
// `first` + i accesses row i.
static void move_tile(struct warp *w, char *r, const struct op *op, uint32_t reg,
                      const uint64_t row[8], int first, bool store, bool transposed)
{
    uint64_t at[WARP];
    uint16_t element[8][8];
    u16 *lanes = (u16 *)(r + reg);
    bool shared = false;
    // Lanes 8 to 31 are masked off, but count_wavefronts recognises the pattern only if their
    // distances to lane 0 are equal in every call.
    for (int i = 8; i < WARP; ++i)
        at[i] = row[0];
    bool good = !store && rows_good(w, op, row);
    for (int i = 0; i < 8; ++i) {
        at[i] = row[i];
        void *row = transposed ? element[i] : (void *)(lanes + 8 * i);
        for (int j = 0; j < 8 && store && transposed; ++j)
            element[i][j] = lanes[8 * j + i];
        uint8_t *memory = good ? w->cta->shared + at[i]
                               : locate(w, op, first + i, at[i], 16, store ? row : NULL, &shared);
        shared |= good;
        if (store) {
            if (memory)
                memcpy(memory, row, 16);
        } else if (memory) {
            memcpy(row, memory, 16);
        } else {
            memset(row, 0, 16);
        }
    }
    count_access(w, op, at, 16, 0xff, shared, store);
    for (int i = 0; i < 8 && !store && transposed; ++i)
        for (int j = 0; j < 8; ++j)
            lanes[8 * i + j] = element[j][i];
}

static void load_tiles(struct warp *w, char *r, const struct op *op, uint64_t base, uint64_t stride)
{
    const struct matrix_memory *m = op->operands;
    const struct matrix *f = &m->matrix;
    for (int i = 0; i < f->distinct; ++i) {
        uint64_t at[8];
        for (unsigned k = 0; k < 8; ++k)
            at[k] = base + 2 * (m->transposed ? (f->column[i] + k) * stride + f->row[i]
                                              : (f->row[i] + k) * stride + f->column[i]);
        move_tile(w, r, op, f->regs[i], at, 0, false, m->transposed);
        for (int copy = i + f->distinct; copy < f->count; copy += f->distinct)
            memcpy(r + f->regs[copy], r + f->regs[i], 4 * WARP);
    }
}

// Element e of a lane, in a fragment's registers from `first` on. width: bytes of a register.
static char *element_at(char *r, const struct matrix *f, uint32_t first, uint32_t e, uint32_t width,
                        uint32_t lane)
{
    return r + f->regs[first + e / f->per] + width * lane + f->bytes * (e % f->per);
}

// Moves a fragment. A lane's elements in one register, or in two registers of an accumulator, are
// one access if they are adjacent in memory; otherwise each element is an access of its own.
static void move_elements(struct warp *w, char *r, const struct op *op, uint64_t base,
                          uint64_t stride)
{
    const struct matrix_memory *m = op->operands;
    const struct matrix *f = &m->matrix;
    uint32_t size = f->bytes, registers = f->step > f->per ? 2 : 1;
    uint32_t elements = registers * f->per, width = f->bytes < 4 ? 4 : f->bytes;
    uint32_t together = m->transposed ? 1 : elements;
    bool pairs = m->accumulator && f->type == MATRIX_F16 && m->transposed;
    for (uint32_t first = 0; first < f->distinct; first += registers) {
        for (uint32_t part = 0; part < elements; part += together) {
            uint64_t at[WARP];
            bool shared = false;
            // The host pointer, if the elements of four lanes are contiguous in memory; else NULL.
            uint8_t *quad = NULL;
            for (uint32_t i = 0; i < WARP; ++i) {
                uint64_t row = i / 4 + f->row[first];
                uint64_t column = i % 4 * f->step + f->column[first] + part;
                at[i] =
                    base + size * (m->transposed ? column * stride + row : row * stride + column);
                uint32_t bytes = size * together;
                if (i % 4 == 0)
                    quad = m->transposed || f->step != together
                               ? NULL
                               : locate_quick(w, op, 15u << i, at[i], 4 * bytes, m->store);
                shared |= quad != NULL;
                bool two = size == 4 && together == 2; // whether two f32 or s32, each in a register
                u32 *pair[2] = {(u32 *)(r + f->regs[first]) + i,
                                (u32 *)(r + f->regs[first + two]) + i};
                uint32_t stored[4]; // what the lane stores
                if (m->store && two)
                    stored[0] = *pair[0], stored[1] = *pair[1];
                for (uint32_t e = part; e < part + together && m->store && !two; ++e)
                    memcpy((char *)stored + (e - part) * size, element_at(r, f, first, e, width, i),
                           size);
                uint8_t *memory =
                    quad ? quad + i % 4 * bytes
                         : locate(w, op, (int)i, at[i], bytes, m->store ? stored : NULL, &shared);
                if (m->store) {
                    if (memory && two)
                        memcpy(memory, stored, 8);
                    else if (memory)
                        memcpy(memory, stored, bytes);
                    continue;
                }
                if (memory && two) {
                    *pair[0] = ((const u32 *)memory)[0], *pair[1] = ((const u32 *)memory)[1];
                    continue;
                }
                for (uint32_t e = part; e < part + together; ++e) {
                    char *value = element_at(r, f, first, e, width, i);
                    if (memory)
                        memcpy(value, memory + (e - part) * size, size);
                    else
                        memset(value, 0, size);
                }
            }
            if (!pairs)
                count_access(w, op, at, size * together, ~0u, shared, m->store);
        }
        if (pairs) { // the hardware moves pairs, and transposes in registers
            uint64_t at[WARP];
            for (uint32_t i = 0; i < WARP; ++i)
                at[i] = base +
                        size * ((i / 4 + f->column[first]) * stride + 2 * (i % 4) + f->row[first]);
            bool shared = op->space == SPACE_SHARED ||
                          (op->space == SPACE_GENERIC &&
                           at[0] >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT);
            count_access(w, op, at, 4, ~0u, shared, m->store);
        }
        for (uint32_t copy = first + f->distinct; copy < f->count; copy += f->distinct)
            memcpy(r + f->regs[copy], r + f->regs[first], width * WARP);
    }
}

void wmma_move(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct matrix_memory *m = op->operands;
    if (!whole_warp(w, op, mask))
        return;
    uint64_t base = address_in(r, op->a, op->wide_address, op->imm, 0);
    uint64_t stride = *(const u32 *)(r + m->stride);
    if (m->matrix.bytes == 2 && !m->accumulator)
        load_tiles(w, r, op, base, stride);
    else
        move_elements(w, r, op, base, stride);
}

// Lanes 8 i to 8 i + 7 hold the addresses of the rows of tile i.
void tiles_move(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct tiles *t = op->operands;
    if (!whole_warp(w, op, mask))
        return;
    uint64_t at[WARP];
    for (int i = 0; i < WARP; ++i)
        at[i] = address_in(r, op->a, op->wide_address, op->imm, i);
    for (int i = 0; i < t->count; ++i)
        move_tile(w, r, op, t->regs[i], at + 8 * i, 8 * i, t->store, t->transposed);
}

void movmatrix_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    if (!whole_warp(w, op, mask))
        return;
    u16 tile[64];
    memcpy(tile, r + op->a, sizeof tile);
    u16 *d = (u16 *)(r + op->d);
    for (int i = 0; i < 64; ++i)
        d[i] = tile[8 * (i % 8) + i / 8];
}
