// atomic.c: atom and red.
#include "address.h"
#include "cluster.h"
#include "scalars.h"

static uint32_t half_atomic(uint32_t old, uint32_t b, enum atomic_number kind, enum atomic what)
{
    bool bf = kind == ATOMIC_BF16X2 || kind == ATOMIC_BF16;
    bool two = kind == ATOMIC_F16X2 || kind == ATOMIC_BF16X2;
    uint32_t result = 0;
    for (int i = 0; i < 1 + two; ++i) {
        float x, y;
        x = bf ? float_of(old >> 16 * i << 16) : f16_to_f32(old >> 16 * i & 0xffff);
        y = bf ? float_of(b >> 16 * i << 16) : f16_to_f32(b >> 16 * i & 0xffff);
        float sum = canonical(what == ATOMIC_MIN   ? min_f32(x, y)
                              : what == ATOMIC_MAX ? max_f32(x, y)
                                                   : x + y);
        result |= (bf ? bf16_of(sum) : f16_of(sum)) << 16 * i;
    }
    return result;
}

// The value that an operation stores. Sums of f32 flush subnormals in global memory, and keep them
// in shared memory.
static uint64_t atomic_result(const struct op *op, uint64_t old, uint64_t b, uint64_t c,
                              bool shared)
{
    enum atomic what = op->atomic;
    if (op->number > ATOMIC_FLOAT)
        return half_atomic((uint32_t)old, (uint32_t)b, op->number, what);
    if (op->number == ATOMIC_FLOAT && op->bytes == 4) {
        float x = float_of((uint32_t)old), y = float_of((uint32_t)b);
        if (what != ATOMIC_ADD)
            return b;
        return bits_of(canonical(shared ? x + y : flush(flush(x) + flush(y))));
    }
    if (op->number == ATOMIC_FLOAT) {
        double x, y;
        memcpy(&x, &old, 8);
        memcpy(&y, &b, 8);
        x += y;
        memcpy(&b, &x, 8);
        return b;
    }
    unsigned shift = 64 - 8u * op->bytes;
    bool less = op->is_signed ? (int64_t)(b << shift) < (int64_t)(old << shift) : b < old;
    switch (what) {
    case ATOMIC_ADD: return old + b;
    case ATOMIC_MIN: return less ? b : old;
    case ATOMIC_MAX: return less ? old : b;
    case ATOMIC_INC: return old >= b ? 0 : old + 1;
    case ATOMIC_DEC: return !old || old > b ? b : old - 1;
    case ATOMIC_AND: return old & b;
    case ATOMIC_OR: return old | b;
    case ATOMIC_XOR: return old ^ b;
    case ATOMIC_EXCHANGE: return b;
    case ATOMIC_CAS: return old == b ? c : old;
    }
    return old;
}

uint64_t atomic_apply(struct warp *w, const struct op *op, void *memory, uint64_t b, uint64_t c,
                      bool shared)
{
    if (op->bytes == 2) {
        uint16_t old = __atomic_load_n((uint16_t *)memory, __ATOMIC_RELAXED), new;
        do
            new = (uint16_t)atomic_result(op, old, b & 0xffff, c & 0xffff, shared);
        while (!__atomic_compare_exchange_n((uint16_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        if (new != old)
            note_effect(w);
        return old;
    }
    if (op->bytes == 4) {
        uint32_t old = __atomic_load_n((uint32_t *)memory, __ATOMIC_RELAXED), new;
        do
            new = (uint32_t)atomic_result(op, old, b, c, shared);
        while (!__atomic_compare_exchange_n((uint32_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED));
        if (new != old)
            note_effect(w);
        return old;
    }
    uint64_t old = __atomic_load_n((uint64_t *)memory, __ATOMIC_RELAXED), new;
    do
        new = atomic_result(op, old, b, c, shared);
    while (!__atomic_compare_exchange_n((uint64_t *)memory, &old, new, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    if (new != old)
        note_effect(w);
    return old;
}

// Whether a compare-and-swap finds a value other than the one that it compares with; *now gets the
// value found.
static bool swap_fails(const struct op *op, const void *memory, uint64_t b, uint64_t *now)
{
    if (op->atomic != ATOMIC_CAS || op->number)
        return false;
    uint64_t mask = op->bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * op->bytes) - 1;
    *now = op->bytes == 2   ? __atomic_load_n((const uint16_t *)memory, __ATOMIC_SEQ_CST)
           : op->bytes == 4 ? __atomic_load_n((const uint32_t *)memory, __ATOMIC_SEQ_CST)
                            : __atomic_load_n((const uint64_t *)memory, __ATOMIC_SEQ_CST);
    return *now != (b & mask);
}

// Whether an exchange whose result is used has stored the value that was there already: so it is
// when a thread tries to take a lock that is taken.
static bool finds_same(const struct op *op, uint64_t old, uint64_t b)
{
    return op->atomic == ATOMIC_EXCHANGE && op->regs[0] != NO_REGISTER && old == b;
}

// Notes whether an atomic operation has failed for all its lanes. at: if so, the lowest lane's
// address; else 0. After two failures in a row at one address, the lanes are taken to wait for a
// lock that other threads have, and the warp's turn ends.
static void note_failed(struct warp *w, uint64_t at)
{
    if (at && at == w->failed_at)
        w->yields = w->contends = true;
    w->failed_at = at;
}

// atom and red, for one lane after another.
void atomic_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    struct insn_counts *count = counts_of(w, op);
    uint64_t global[WARP];
    uint64_t offsets[WARP];
    uint32_t in_global = 0, in_shared = 0, failed = 0;
    uint64_t first_at = 0;
    bool loads = op->atomic != ATOMIC_EXCHANGE || op->regs[0] != NO_REGISTER;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        uint64_t at = address_in(r, op->a, op->wide_address, op->imm, i), b = 0, c = 0;
        memcpy(&b, r + op->regs[1] + (size_t)i * op->width, op->bytes);
        if (op->regs[2] != NO_REGISTER)
            memcpy(&c, r + op->regs[2] + (size_t)i * op->width, op->bytes);
        void *memory = NULL;
        struct cta *home = NULL; // the CTA in whose shared memory the address is
        int *turn = NULL;
        race_fetch(w, at);
        bool shared = op->space == SPACE_SHARED;
        // A thread's own memory: no other thread knows it. PTX does not promise that an atomic
        // operation works there; on a GPU it does.
        bool local =
            op->space == SPACE_GENERIC && at >> WINDOW_SHIFT == LOCAL_WINDOW >> WINDOW_SHIFT;
        if (op->space == SPACE_GENERIC && at >> WINDOW_SHIFT == SHARED_WINDOW >> WINDOW_SHIFT) {
            at -= SHARED_WINDOW;
            shared = true;
        }
        if (shared) {
            uint32_t offset = at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
            home = cluster_home(w, op, i, &offset);
            bool good = within(offset, op->bytes, home->shared_bytes) && !(offset % op->bytes);
            if (good && home->written && !loads)
                written_mark(home->written, offset, op->bytes);
            if (!good || (home->written && !written_all(home->written, offset, op->bytes)))
                fault_shared_of(w, op, i, home, offset, op->bytes, false);
            if (good) {
                memory = home->shared + offset;
                cluster_race(w, op, i, home, offset, op->bytes, RACE_WRITE, NULL);
            }
            at = offset;
            offsets[i] = offset;
            in_shared |= 1u << i;
        } else if (local) {
            memory = private_memory(w, op, i, at, op->bytes, true);
        } else if (at % op->bytes || !global_span(w, at, op->bytes) ||
                   !global_defined(w, at, op->bytes, !loads)) {
            fault_global(w, op, i, at, op->bytes, true);
        } else {
            memory = (void *)(uintptr_t)at;
            global_touch(w, op, at, op->bytes, false);
            global_touch(w, op, at, op->bytes, true);
            turn = race_turn(w, at);
            race_global(w, op, 1u << i, at, op->bytes, RACE_WRITE, NULL);
            global[i] = at;
            in_global |= 1u << i;
        }
        uint64_t old = 0;
        bool in_vain = memory && swap_fails(op, memory, b, &old);
        failed |= (uint32_t)in_vain << i;
        first_at = first_at ? first_at : at;
        if (memory && !in_vain) { // a swap that fails only loads, and releases nothing
            if (!local)
                race_publish(w, op, i, at, home);
            old = atomic_apply(w, op, memory, b, c, shared);
            failed |= (uint32_t)finds_same(op, old, b) << i;
        }
        if (memory && !local)
            race_observe(w, op, i, at, home, in_vain ? RACE_ATOMIC_IN_VAIN : RACE_ATOMIC);
        race_turn_ends(turn);
        if (op->regs[0] != NO_REGISTER)
            memcpy(r + op->regs[0] + (size_t)i * op->width, &old, op->width);
    }
    race_observed(w, mask);
    note_failed(w, failed == mask ? first_at : 0);
    if (in_shared) {
        int least, wavefronts = shared_atomic_wavefronts(offsets, op->bytes, in_shared,
                                                         op->atomic == ATOMIC_CAS, &least);
        count->wavefronts += (uint64_t)wavefronts;
        count->conflicts += (uint64_t)(wavefronts - least);
        count->shared_bytes += (uint64_t)__builtin_popcount(in_shared) * op->bytes;
    }
    if (in_global) {
        count->sectors += (uint64_t)global_atomic_sectors(global, op->bytes, in_global);
        count->global_bytes += (uint64_t)__builtin_popcount(in_global) * op->bytes;
    }
}
