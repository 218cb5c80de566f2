// ops_tensor.c: loads and stores of matrix fragments.
//
// A fragment is made of 8x8 tiles of 16-bit elements, one register a tile: lane 4 g + t holds
// elements (g, 2 t) and (g, 2 t + 1), so that the 32 registers of the lanes are the tile in
// row-major order. This is mma.m16n8k16's layout, which the machine uses for wmma too:
//   A: registers 0..3 hold rows 0-7, k 0-7; rows 8-15, k 0-7; rows 0-7, k 8-15; rows 8-15, k 8-15.
//   B (a row of its tiles is a column n): n 0-7, k 0-7; n 0-7, k 8-15; n 8-15, k 0-7; n 8-15,
//   k 8-15.
//   C, D in f32: registers 0..7 hold (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1), then the
//   same for columns 8-15. In f16: a register for each pair.
// With f16 operands PTX names 8 registers for A and B: 4 to 7 repeat 0 to 3. That the machine does
// so is an assumption; PTX calls the layout unspecified. See the chapter on mma.sync.
//
// Shared wavefronts of A and B are those of the ldmatrix that ptxas makes of the load: one for each
// 8x8 tile whose eight 16-byte rows lie in distinct banks.
#include "ops_common.h"

#include "races.h"
#include "scalars.h"

// Memory behind `bytes` at an address of the operation's space; NULL after a fault.
static uint8_t *locate(struct warp *w, const struct op *op, int lane, uint64_t at, uint32_t bytes,
                       bool store, bool *shared)
{
    struct cta *cta = w->cta;
    *shared = op->space == SPACE_SHARED;
    if (op->space == SPACE_GENERIC && at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
        at -= SHARED_WINDOW;
        *shared = true;
    }
    if (*shared) {
        uint32_t offset = at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
        bool good = offset + (uint64_t)bytes <= cta->shared_bytes && !(offset % bytes);
        if (!good || (!store && cta->written && !written_all(cta->written, offset, bytes))) {
            fault_shared(w, op, lane, offset, bytes, store);
            if (!good)
                return NULL;
        }
        if (store && cta->written)
            written_mark(cta->written, offset, bytes);
        // Which lane reads what is not specified: each may read all.
        if (cta->races)
            race_shared(w, op, store ? 1u << lane : ~0u, offset, bytes,
                        store ? RACE_WRITE : RACE_READ, NULL);
        return cta->shared + offset;
    }
    if (at % bytes || !global_span(w, at, bytes) || !global_defined(w, at, bytes, store)) {
        fault_global(w, op, lane, at, bytes, store);
        return NULL;
    }
    global_touch(w, at, bytes, store);
    race_global(w, op, store ? 1u << lane : ~0u, at, bytes, store ? RACE_WRITE : RACE_READ, NULL);
    return (uint8_t *)(uintptr_t)at;
}

static void count_access(struct warp *w, const struct op *op, const uint64_t at[WARP],
                         uint32_t bytes, uint32_t mask, bool shared, bool store)
{
    struct insn_counts *count = counts_of(w, op);
    uint64_t moved = (uint64_t)__builtin_popcount(mask) * bytes;
    if (!shared) {
        count->global_bytes += moved;
        count->sectors += (uint64_t)global_sectors(at, (int)bytes, mask);
        return;
    }
    count->shared_bytes += moved;
    uint32_t offset[WARP];
    int least;
    for (int i = 0; i < WARP; ++i)
        offset[i] = (uint32_t)at[i]; // a generic shared address keeps its banks
    if (w->cta->trace)
        trace_access(w->cta->trace, w, op->insn, offset, (int)bytes, mask, store);
    int wavefronts = store ? shared_store_wavefronts(offset, (int)bytes, mask, &least)
                           : shared_wavefronts(offset, (int)bytes, mask, &least);
    count->wavefronts += (uint64_t)wavefronts;
    count->conflicts += (uint64_t)(wavefronts - least);
}

static void load_operand(struct warp *w, char *r, const struct op *op, uint64_t base,
                         uint64_t stride)
{
    const struct wmma_memory *m = (const struct wmma_memory *)op->regs;
    for (unsigned tile = 0; tile < 4; ++tile) {
        // Rows are m of A, n of B; columns are k. A's tiles run down the rows first, B's along k.
        unsigned row = 8u * (m->is_b ? tile >> 1 : tile & 1u);
        unsigned column = 8u * (m->is_b ? tile & 1u : tile >> 1);
        uint64_t at[WARP] = {0};
        uint16_t element[8][8];
        bool shared = false;
        for (unsigned i = 0; i < 8; ++i) {
            at[i] = base +
                    2 * (m->transposed ? (column + i) * stride + row : (row + i) * stride + column);
            const uint8_t *memory = locate(w, op, (int)(4 * i), at[i], 16, false, &shared);
            if (memory)
                memcpy(element[i], memory, 16);
            else
                memset(element[i], 0, 16);
        }
        count_access(w, op, at, 16, 0xff, shared, false);
        for (unsigned copy = tile; copy < m->registers; copy += 4) {
            u16 *d = (u16 *)(r + m->regs[copy]);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    d[8 * i + j] = m->transposed ? element[j][i] : element[i][j];
        }
    }
}

// One access for each pair of registers (f32) or register (f16): two columns a lane.
static void move_accumulator(struct warp *w, char *r, const struct op *op, uint64_t base,
                             uint64_t stride)
{
    const struct wmma_memory *m = (const struct wmma_memory *)op->regs;
    uint32_t element = m->half ? 2 : 4, step = m->transposed ? element : 2 * element;
    for (int pair = 0; pair < 4; ++pair) {
        for (int part = 0; part < (m->transposed ? 2 : 1); ++part) {
            uint64_t at[WARP];
            bool shared = false;
            for (int i = 0; i < WARP; ++i) {
                uint64_t row = (uint64_t)(i / 4 + 8 * (pair & 1));
                uint64_t column = (uint64_t)(2 * (i % 4) + 8 * (pair >> 1) + part);
                at[i] = base +
                        element * (m->transposed ? column * stride + row : row * stride + column);
                uint8_t *memory = locate(w, op, i, at[i], step, m->store, &shared);
                char *lane[2]; // where the elements lie in the registers
                for (int e = 0; e < 2; ++e)
                    lane[e] = m->half ? r + m->regs[pair] + 4 * i + 2 * e
                                      : r + m->regs[2 * pair + e] + 4 * i;
                for (uint32_t e = 0; e < step / element; ++e) {
                    char *value = lane[m->transposed ? (uint32_t)part : e];
                    if (!memory && !m->store)
                        memset(value, 0, element);
                    else if (memory && m->store)
                        memcpy(memory + e * element, value, element);
                    else if (memory)
                        memcpy(value, memory + e * element, element);
                }
            }
            if (!m->half || !m->transposed)
                count_access(w, op, at, step, ~0u, shared, m->store);
        }
        if (m->half && m->transposed) { // the machine transposes in registers, then moves pairs
            uint64_t at[WARP];
            bool shared = false;
            for (int i = 0; i < WARP; ++i) {
                uint64_t row = (uint64_t)(2 * (i % 4) + 8 * (pair & 1));
                at[i] = base + element * ((uint64_t)(i / 4 + 8 * (pair >> 1)) * stride + row);
            }
            shared = op->space == SPACE_SHARED ||
                     (op->space == SPACE_GENERIC &&
                      at[0] >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT);
            count_access(w, op, at, 4, ~0u, shared, m->store);
        }
    }
}

static void wmma_move(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct wmma_memory *m = (const struct wmma_memory *)op->regs;
    int lane = __builtin_ctz(mask);
    uint64_t base =
        op->wide_address ? ((const u64 *)(r + op->a))[lane] : ((const u32 *)(r + op->a))[lane];
    base += (uint64_t)op->imm;
    uint64_t stride = ((const u32 *)(r + m->stride))[lane];
    if (mask != ~0u)
        fault_at(w, op, lane, FAULT_DIVERGENT_BARRIER,
                 "a wmma instruction with %d of the warp's 32 lanes", __builtin_popcount(mask));
    else if (m->accumulator)
        move_accumulator(w, r, op, base, stride);
    else
        load_operand(w, r, op, base, stride);
}

void wmma_load(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    wmma_move(w, r, op, mask);
}

void wmma_store(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    wmma_move(w, r, op, mask);
}
