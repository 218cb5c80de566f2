// access.h: loads and stores of 32 lanes. Included by each instruction set's file.
//
// Most accesses have one of two shapes: every lane has the same address, or the lanes' addresses
// are consecutive. These take one check and one copy; others go lane by lane.

enum shape { SHAPE_ANY, SHAPE_SAME, SHAPE_RUN };

// Whether each lane's address is `step` bytes past that of the lane before. `step` is a constant
// wherever the function is inlined.
static inline bool FN(steps32)(const uint32_t at[WARP], const uint32_t step)
{
#if defined OPS_AVX512
    const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i low = _mm512_set1_epi32((int)at[0]);
    low = _mm512_add_epi32(low, _mm512_mullo_epi32(count, _mm512_set1_epi32((int)step)));
    __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32((int)(16 * step)));
    return !(_mm512_cmpneq_epi32_mask(low, _mm512_loadu_si512(at)) |
             _mm512_cmpneq_epi32_mask(high, _mm512_loadu_si512(at + 16)));
#else
    uint32_t broken = 0;
    for (int i = 0; i < WARP; ++i)
        broken |= at[i] ^ (at[0] + (uint32_t)i * step);
    return !broken;
#endif
}

static inline enum shape FN(shape32)(const uint32_t at[WARP], const uint32_t size)
{
    if (at[1] == at[0])
        return FN(steps32)(at, 0) ? SHAPE_SAME : SHAPE_ANY;
    return at[1] - at[0] == size && FN(steps32)(at, size) ? SHAPE_RUN : SHAPE_ANY;
}

static inline enum shape FN(shape64)(const uint64_t at[WARP], uint32_t size)
{
    uint64_t first = at[0], step = at[1] - at[0], broken = 0;
    if (step != 0 && step != size)
        return SHAPE_ANY;
    for (int i = 0; i < WARP; ++i)
        broken |= at[i] ^ (first + (uint64_t)i * step);
    return broken ? SHAPE_ANY : step ? SHAPE_RUN : SHAPE_SAME;
}

static inline void FN(addresses)(const char *r, const struct op *op, uint64_t at[WARP])
{
    uint64_t offset = (uint64_t)op->imm;
    if (op->wide_address) {
        const u64 *a = (const u64 *)(r + op->a);
        for (int i = 0; i < WARP; ++i)
            at[i] = a[i] + offset;
    } else {
        const u32 *a = (const u32 *)(r + op->a);
        for (int i = 0; i < WARP; ++i)
            at[i] = (uint32_t)(a[i] + offset);
    }
}

static inline void FN(offsets)(const char *r, const struct op *op, uint32_t at[WARP])
{
    if (op->wide_address) {
        const u64 *a = (const u64 *)(r + op->a);
        for (int i = 0; i < WARP; ++i) {
            uint64_t wide = a[i] + (uint64_t)op->imm;
            at[i] = wide > UINT32_MAX ? UINT32_MAX : (uint32_t)wide;
        }
    } else {
        const u32 *a = (const u32 *)(r + op->a);
        for (int i = 0; i < WARP; ++i)
            at[i] = a[i] + (uint32_t)op->imm;
    }
}

// ---- Between the lanes' bytes and the registers -------------------------------------------------

// Whether a register holds the lanes' bytes just as memory does, so that all can be copied at once.
static inline bool FN(direct)(const struct op *op, uint32_t size)
{
    return op->vector == 1 && op->width == size;
}

static void FN(unpack)(char *r, const struct op *op, uint32_t mask, const uint8_t *bytes)
{
    unsigned count = op->vector, element = op->bytes, width = op->width;
    for (unsigned e = 0; e < count; ++e) {
        char *to = r + (op->vector == 1 ? op->d : op->regs[e]);
        if (mask == ~0u && element == 4 && width == 4) {
            const u32 *from = (const u32 *)bytes + e;
            u32 *d = (u32 *)to;
            LANES d[i] = from[(unsigned)i * count];
        } else if (mask == ~0u && element == 8 && width == 8) {
            const u64 *from = (const u64 *)bytes + e;
            u64 *d = (u64 *)to;
            LANES d[i] = from[(unsigned)i * count];
        } else if (element == 16) {
            for (uint32_t left = mask; left; left &= left - 1)
                memcpy(to + 16 * __builtin_ctz(left), bytes + 16 * __builtin_ctz(left), 16);
        } else {
            for (uint32_t left = mask; left; left &= left - 1) {
                unsigned i = (unsigned)__builtin_ctz(left);
                uint64_t value = 0;
                memcpy(&value, bytes + (i * count + e) * element, element);
                if (op->is_signed && element < 8) {
                    unsigned shift = 64 - 8 * element;
                    value = (uint64_t)((int64_t)(value << shift) >> shift);
                }
                memcpy(to + i * width, &value, width);
            }
        }
    }
}

// Loads the same bytes into the registers of every lane.
static void FN(unpack_same)(char *r, const struct op *op, const uint8_t *bytes)
{
    unsigned count = op->vector, element = op->bytes, width = op->width;
    for (unsigned e = 0; e < count; ++e) {
        char *to = r + (op->vector == 1 ? op->d : op->regs[e]);
        uint64_t value = 0;
        if (element == 16) {
            for (int i = 0; i < WARP; ++i)
                memcpy(to + 16 * i, bytes, 16);
            continue;
        }
        memcpy(&value, bytes + e * element, element);
        if (op->is_signed && element < 8) {
            unsigned shift = 64 - 8 * element;
            value = (uint64_t)((int64_t)(value << shift) >> shift);
        }
        if (width == 4)
            LANES((u32 *)to)[i] = (u32)value;
        else if (width == 8)
            LANES((u64 *)to)[i] = value;
        else
            for (unsigned i = 0; i < WARP; ++i)
                memcpy(to + i * width, &value, width);
    }
}

static void FN(pack)(const char *r, const struct op *op, uint8_t *bytes)
{
    unsigned count = op->vector, element = op->bytes, width = op->width;
    for (unsigned e = 0; e < count; ++e) {
        const char *from = r + (op->vector == 1 ? op->d : op->regs[e]);
        if (element == 4 && width == 4) {
            const u32 *s = (const u32 *)from;
            u32 *d = (u32 *)bytes + e;
            LANES d[(unsigned)i * count] = s[i];
        } else {
            for (unsigned i = 0; i < WARP; ++i)
                memcpy(bytes + (i * count + e) * element, from + i * width, element);
        }
    }
}

// Copies one value to every lane.
static inline void FN(spread)(uint8_t *to, const uint8_t *from, uint32_t size)
{
    if (size == 1) {
        memset(to, *from, WARP);
    } else if (size == 2) {
        uint16_t value;
        memcpy(&value, from, 2);
        LANES((u16 *)to)[i] = value;
    } else if (size == 4) {
        uint32_t value;
        memcpy(&value, from, 4);
        LANES((u32 *)to)[i] = value;
    } else if (size == 8) {
        uint64_t value;
        memcpy(&value, from, 8);
        LANES((u64 *)to)[i] = value;
    } else {
        for (int i = 0; i < WARP; ++i)
            memcpy(to + 16 * i, from, 16);
    }
}

// ---- Shared memory ------------------------------------------------------------------------------

// Checks an access of a regular shape for unwritten bytes and for races. Returns false if there may
// be something to report, or if the CTA is traced; each lane must then be checked.
static inline __attribute__((always_inline)) bool
FN(shared_good)(struct warp *w, const struct op *op, uint32_t at, const uint32_t size,
                const enum shape shape, const bool store)
{
    struct cta *cta = w->cta;
    uint32_t extent = shape == SHAPE_SAME ? size : WARP * size;
    if (cta->trace || (store && shape == SHAPE_SAME) ||
        (!store && cta->written && !written_all(cta->written, at, extent)) ||
        (cta->races && !FN(race_regular)(w, op, at, size, shape == SHAPE_SAME, store)))
        return false;
    if (store && cta->written)
        written_mark(cta->written, at, extent);
    return true;
}

// Makes an access like most accesses of most kernels: by all lanes, of a regular shape, within
// bounds, with 32-bit addresses, one register for each lane and, if the CTA is checked or traced,
// nothing to report (shared_good). Takes the addresses directly from their register. Returns false
// for any other access, with nothing done.
static inline __attribute__((always_inline)) bool
FN(shared_quick)(struct warp *w, char *r, const struct op *op, uint32_t mask, const uint32_t size,
                 const bool store)
{
    const struct cta *cta = w->cta;
    const uint32_t *a = (const u32 *)(r + op->a);
    if (mask != ~0u || op->wide_address || !FN(direct)(op, size))
        return false;
    enum shape shape = FN(shape32)(a, size);
    uint32_t at = a[0] + (uint32_t)op->imm, extent = shape == SHAPE_SAME ? size : WARP * size;
    if (shape == SHAPE_ANY || at % size || !within(at, extent, cta->shared_bytes) ||
        (cta->watched && !FN(shared_good)(w, op, at, size, shape, store)))
        return false;
    struct insn_counts *count = counts_of(w, op);
    const uint32_t parts = size <= 4 ? 1 : size / 4; // see shared_wavefronts
    count->shared_bytes += WARP * size;
    count->wavefronts += shape == SHAPE_SAME && parts > 1 && !store ? parts / 2 : parts;
    uint8_t *shared = cta->shared + at, *lanes = (uint8_t *)r + op->d;
    if (store) {
        // If all lanes store to one address, the last lane's value stays.
        if (shape == SHAPE_SAME)
            memcpy(shared, lanes + (WARP - 1) * size, size);
        else
            memcpy(shared, lanes, WARP * size);
        note_effect(w);
    } else if (shape == SHAPE_SAME) {
        FN(spread)(lanes, shared, size);
    } else {
        memcpy(lanes, shared, WARP * size);
    }
    return true;
}

// Whether a load by all lanes from arbitrary addresses is aligned, in bounds, of written bytes and
// free of races; if so, notes it for the race checks.
static inline __attribute__((always_inline)) bool
FN(scattered_good)(struct warp *w, const struct op *op, const uint32_t at[WARP],
                   const uint32_t size)
{
    const struct cta *cta = w->cta;
    uint32_t bad = 0, low = at[0], high = at[0], unwritten = 0;
    if (op->order)
        return false;
    for (int i = 0; i < WARP; ++i) {
        bad |= at[i] % size;
        low = at[i] < low ? at[i] : low;
        high = at[i] > high ? at[i] : high;
    }
    if (bad || !within(high, size, cta->shared_bytes))
        return false;
    // An access within 256 bytes, as by lanes that share a row, is checked as a whole.
    bool all = !cta->written ||
               (high - low < 256 && written_all(cta->written, low, high - low + size));
    // Each access is aligned to its size: its bits are within 32 bits of the map.
    for (int i = 0; !all && i < WARP; ++i)
        unwritten |= ~(((const u32 *)cta->written)[at[i] >> 5] >> (at[i] & 31)) &
                     ((1u << size) - 1);
    return !unwritten && (!cta->races || FN(race_scattered)(w, op, at, size, low, high));
}

static inline __attribute__((always_inline)) void
FN(shared_access)(struct warp *w, char *r, const struct op *op, uint32_t mask,
                  const uint32_t at[WARP], const uint32_t size, const bool store)
{
    struct cta *cta = w->cta;
    struct insn_counts *count = counts_of(w, op);
    _Alignas(64) uint8_t buffer[WARP * 16];
    bool direct = FN(direct)(op, size), unpacked = direct;
    uint8_t *lanes = direct ? (uint8_t *)r + op->d : buffer;
    if (__builtin_expect(cta->trace != NULL, 0))
        trace_access(cta->trace, w, op->insn, at, (int)size, mask, store);
    if (store && !direct)
        FN(pack)(r, op, lanes);
    enum shape shape = mask == ~0u ? FN(shape32)(at, size) : SHAPE_ANY;
    uint32_t extent = shape == SHAPE_SAME ? size : WARP * size;
    if (shape != SHAPE_ANY &&
        (at[0] % size || !within(at[0], extent, cta->shared_bytes) ||
         (cta->races && (op->order || (store && shape == SHAPE_SAME))) || // checked lane by lane
         (!store && cta->written && !written_all(cta->written, at[0], extent))))
        shape = SHAPE_ANY; // there may be a fault: its lane must be found
    bool changed = !op->order; // a strong store of the value that is already there has no effect
    if (shape == SHAPE_ANY) {
        w->here = mask;
        count->shared_bytes += (uint64_t)__builtin_popcount(mask) * size;
        count_wavefronts(w, op, at, size, mask, store);
        bool done = !store && mask == ~0u && FN(scattered_good)(w, op, at, size);
        const uint8_t *shared = cta->shared;
        for (int i = 0; done && i < WARP; ++i)
            memcpy(lanes + (size_t)i * size, shared + at[i], size);
        for (uint32_t left = done ? 0 : mask; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            uint8_t *lane = lanes + (size_t)i * size;
            uint32_t from = at[i];
            struct cta *home = cluster_home(w, op, i, &from);
            bool good = !(from % size) && within(from, size, home->shared_bytes);
            if (good && home != cta)
                race_remote(w, op, i, home, from, size, store ? RACE_WRITE : RACE_READ, lane);
            else if (good && cta->races)
                FN(race_lane)(w, op, i, from, size, store, lane);
            if (good && op->order && store)
                race_publish(w, op, i, from, home);
            if (!good || (!store && home->written && !written_all(home->written, from, size)))
                fault_shared_of(w, op, i, home, from, size, store);
            if (!good) {
                if (!store)
                    memset(lane, 0, size);
            } else if (store) {
                changed = changed || memcmp(home->shared + from, lane, size) != 0;
                memcpy(home->shared + from, lane, size);
                if (home->written)
                    written_mark(home->written, from, size);
            } else {
                memcpy(lane, home->shared + from, size);
                if (op->order)
                    race_observe(w, op, i, from, home, RACE_LOAD);
            }
        }
    } else {
        changed = true;
        count->shared_bytes += WARP * size;
        uint32_t parts = size <= 4 ? 1 : size / 4; // see shared_wavefronts
        count->wavefronts += shape == SHAPE_SAME && parts > 1 && !store ? parts / 2 : parts;
        uint8_t *shared = cta->shared + at[0];
        if (cta->races && !FN(race_regular)(w, op, at[0], size, shape == SHAPE_SAME, store))
            FN(race_lanes)(w, op, at[0], size, shape == SHAPE_SAME, store, lanes);
        if (store) {
            // If all lanes store to one address, the last lane's value stays.
            if (shape == SHAPE_SAME)
                memcpy(shared, lanes + (WARP - 1) * size, size);
            else
                memcpy(shared, lanes, WARP * size);
            if (cta->written)
                written_mark(cta->written, at[0], extent);
        } else if (shape == SHAPE_SAME && !direct) {
            FN(unpack_same)(r, op, shared);
            unpacked = true;
        } else if (shape == SHAPE_SAME) {
            FN(spread)(lanes, shared, size);
        } else {
            memcpy(lanes, shared, WARP * size);
        }
    }
    if (!store && op->order)
        race_observed(w, mask);
    if (store && changed)
        note_effect(w);
    if (!store && !unpacked)
        FN(unpack)(r, op, mask, lanes);
}

// ---- Global memory ------------------------------------------------------------------------------

static inline __attribute__((always_inline)) void
FN(global_access)(struct warp *w, char *r, const struct op *op, uint32_t mask,
                  const uint64_t at[WARP], const uint32_t size, const bool store)
{
    struct insn_counts *count = counts_of(w, op);
    _Alignas(64) uint8_t buffer[WARP * 16];
    bool direct = FN(direct)(op, size);
    uint8_t *lanes = direct ? (uint8_t *)r + op->d : buffer;
    if (store && !direct)
        FN(pack)(r, op, lanes);
    enum shape shape = mask == ~0u ? FN(shape64)(at, size) : SHAPE_ANY;
    uint32_t extent = shape == SHAPE_SAME ? size : WARP * size;
    bool unpacked = direct;
    if (shape != SHAPE_ANY && (at[0] % size || !global_span(w, at[0], extent) ||
                               !global_defined(w, at[0], extent, store) ||
                               (w->clock && (op->order || (store && shape == SHAPE_SAME)))))
        shape = SHAPE_ANY;
    count->global_bytes += (uint64_t)__builtin_popcount(mask) * size;
    bool changed = !op->order;
    bool noted = !store && w->clock && mask && FN(race_series)(w, op, at, size, mask);
    if (shape == SHAPE_ANY) {
        w->here = mask;
        count->sectors += (uint64_t)global_sectors(at, (int)size, mask);
        for (uint32_t left = mask; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            uint8_t *lane = lanes + (size_t)i * size;
            if (at[i] % size || !global_span(w, at[i], size) ||
                !global_defined(w, at[i], size, store)) {
                fault_global(w, op, i, at[i], size, store);
                if (!store)
                    memset(lane, 0, size);
                continue;
            }
            global_touch(w, op, at[i], size, store);
            if (w->clock && !noted) {
                // This also makes a plain store; the code below makes all other stores.
                race_global(w, op, 1u << i, at[i], size, store ? RACE_WRITE : RACE_READ, lane);
                if (store && op->order)
                    race_publish(w, op, i, at[i], NULL);
            }
            changed = changed || (store && memcmp((void *)(uintptr_t)at[i], lane, size) != 0);
            if (store)
                memcpy((void *)(uintptr_t)at[i], lane, size);
            else
                memcpy(lane, (const void *)(uintptr_t)at[i], size);
            if (w->clock && !store && op->order)
                race_observe(w, op, i, at[i], NULL, RACE_LOAD);
        }
    } else {
        changed = true;
        uint8_t *global = (uint8_t *)(uintptr_t)at[0];
        count->sectors += (at[0] + extent - 1) / 32 - at[0] / 32 + 1;
        global_touch(w, op, at[0], extent, store);
        if (w->clock && !noted && (shape == SHAPE_SAME ||
                         !FN(race_run_global)(w, op, at[0], size, store ? lanes : NULL))) {
            uint32_t count_of_lanes = shape == SHAPE_SAME ? 1 : WARP;
            for (uint32_t i = 0; i < count_of_lanes; ++i) // race_global also makes a plain store
                race_global(w, op, shape == SHAPE_SAME ? ~0u : 1u << i, at[i], size,
                            store ? RACE_WRITE : RACE_READ, lanes + i * size);
        }
        if (store) {
            if (shape == SHAPE_SAME)
                memcpy(global, lanes + (WARP - 1) * size, size);
            else
                memcpy(global, lanes, WARP * size);
        } else if (shape == SHAPE_SAME && !direct) {
            FN(unpack_same)(r, op, global);
            unpacked = true;
        } else if (shape == SHAPE_SAME) {
            FN(spread)(lanes, global, size);
        } else {
            memcpy(lanes, global, WARP * size);
        }
    }
    if (!store && op->order)
        race_observed(w, mask);
    if (store && changed)
        note_effect(w);
    if (!store && op->order) // the warp may wait for a flag that another CTA sets
        w->yields = true;
    if (!store && !unpacked)
        FN(unpack)(r, op, mask, lanes);
}

// Loads and stores by address space. `size`, the bytes for each lane, is a constant wherever they
// are inlined.
#define INLINED static inline __attribute__((always_inline)) void
typedef void FN(shared_fn)(struct warp *w, char *r, const struct op *op, uint32_t mask,
                           const uint32_t at[WARP]);

// The accesses that shared_quick does not handle. slow: shared_access of this size.
static __attribute__((noinline)) void FN(to_shared_slow)(struct warp *w, char *r,
                                                         const struct op *op, uint32_t mask,
                                                         FN(shared_fn) *slow)
{
    uint32_t at[WARP];
    FN(offsets)(r, op, at);
    slow(w, r, op, mask, at);
}

INLINED FN(to_shared)(struct warp *w, char *r, const struct op *op, uint32_t mask,
                      const uint32_t size, const bool store, FN(shared_fn) *slow)
{
    if (!FN(shared_quick)(w, r, op, mask, size, store))
        FN(to_shared_slow)(w, r, op, mask, slow);
}

INLINED FN(to_global)(struct warp *w, char *r, const struct op *op, uint32_t mask,
                      const uint32_t size, const bool store)
{
    uint64_t at[WARP];
    FN(addresses)(r, op, at);
    FN(global_access)(w, r, op, mask, at, size, store);
}

// The functions for one size. shared_access is never inlined: its callers mostly take the quick
// way, and stay small.
#define SLOW(name, size, store) \
    static __attribute__((noinline)) void FN(name)(struct warp *w, char *r, const struct op *op, \
                                                   uint32_t mask, const uint32_t at[WARP]) \
    { \
        FN(shared_access)(w, r, op, mask, at, size, store); \
    }
#define ACCESSES(size) \
    SLOW(shared_load_##size, size, false) \
    SLOW(shared_store_##size, size, true) \
    static void FN(load_shared_##size)(ARGUMENTS) \
    { \
        FN(to_shared)(w, r, op, mask, size, false, FN(shared_load_##size)); \
    } \
    static void FN(store_shared_##size)(ARGUMENTS) \
    { \
        FN(to_shared)(w, r, op, mask, size, true, FN(shared_store_##size)); \
    } \
    static void FN(load_global_##size)(ARGUMENTS) \
    { \
        FN(to_global)(w, r, op, mask, size, false); \
    } \
    static void FN(store_global_##size)(ARGUMENTS) \
    { \
        FN(to_global)(w, r, op, mask, size, true); \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#undef ACCESSES
#undef SLOW
#undef INLINED

// ---- Generic addresses, local memory and parameters ---------------------------------------------

static void FN(access_any)(struct warp *w, char *r, const struct op *op, uint32_t mask, bool store)
{
    static op_fn *const global[2][5] = {
        {FN(load_global_1), FN(load_global_2), FN(load_global_4), FN(load_global_8),
         FN(load_global_16)},
        {FN(store_global_1), FN(store_global_2), FN(store_global_4), FN(store_global_8),
         FN(store_global_16)}};
    static void (*const shared[2][5])(struct warp *, char *, const struct op *, uint32_t,
                                      const uint32_t[WARP]) = {
        {FN(shared_load_1), FN(shared_load_2), FN(shared_load_4), FN(shared_load_8),
         FN(shared_load_16)},
        {FN(shared_store_1), FN(shared_store_2), FN(shared_store_4), FN(shared_store_8),
         FN(shared_store_16)}};
    uint32_t size = (uint32_t)op->bytes * op->vector;
    int log = __builtin_ctz(size);
    uint64_t at[WARP];
    uint32_t in_global = 0, in_shared = 0;
    FN(addresses)(r, op, at);
    if (op->space == SPACE_GENERIC)
        for (int i = 0; i < WARP; ++i) {
            in_global |= (uint32_t)(at[i] >> WINDOW_SHIFT == 0) << i;
            in_shared |= (uint32_t)(at[i] >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) << i;
        }
    in_global &= mask;
    in_shared &= mask;
    if (in_global)
        global[store][log](w, r, op, in_global);
    if (in_shared) {
        uint32_t offset[WARP];
        for (int i = 0; i < WARP; ++i) {
            uint64_t wide = at[i] - SHARED_WINDOW;
            offset[i] = wide > UINT32_MAX ? UINT32_MAX : (uint32_t)wide;
        }
        shared[store][log](w, r, op, in_shared, offset);
    }
    mask &= ~(in_global | in_shared);
    if (!mask)
        return;
    if (op->space == SPACE_PARAM && mask == ~0u && !store && FN(direct)(op, size) &&
        FN(shape64)(at, size) == SHAPE_SAME) { // a parameter's load: every kernel begins with these
        static const uint8_t none[16];
        const uint8_t *memory = private_memory(w, op, 0, at[0], size, false);
        FN(spread)((uint8_t *)r + op->d, memory ? memory : none, size);
        return;
    }
    _Alignas(64) uint8_t lanes[WARP * 16];
    if (store)
        FN(pack)(r, op, lanes);
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint8_t *memory = private_memory(w, op, i, at[i], size, store); // NULL after a fault
        if (!memory)
            memset(lanes + (size_t)i * size, 0, size);
        else if (store)
            memcpy(memory, lanes + (size_t)i * size, size);
        else
            memcpy(lanes + (size_t)i * size, memory, size);
    }
    if (!store)
        FN(unpack)(r, op, mask, lanes);
}

static void FN(load_any)(ARGUMENTS)
{
    FN(access_any)(w, r, op, mask, false);
}

static void FN(store_any)(ARGUMENTS)
{
    FN(access_any)(w, r, op, mask, true);
}
