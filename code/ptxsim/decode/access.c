// access.c: loads, stores and atomics: ld, ldu, st (PTX ISA, "Data Movement and Conversion
// Instructions"); atom, red ("Parallel Synchronization and Communication Instructions"); hints to the
// caches, createpolicy, prefetch.
#include "internal.h"

#include <string.h>

// The order bits of a memory operation (enum order): strong accesses to the same bytes never race
// with each other.
static uint8_t order_of(const struct decoder *d)
{
    bool atomic = d->spelling->opcode->op_class == CLASS_ATOMIC;
    uint8_t order = 0;
    if (atomic || has(d, MOD_volatile) || has(d, MOD_relaxed))
        order |= ORDER_STRONG;
    if (has(d, MOD_acquire) || has(d, MOD_acq_rel))
        order |= ORDER_STRONG | ORDER_ACQUIRE;
    if (has(d, MOD_release) || has(d, MOD_acq_rel))
        order |= ORDER_STRONG | ORDER_RELEASE;
    if (has(d, MOD_cta))
        order |= ORDER_CTA;
    return order & ORDER_STRONG ? order : 0;
}

static void set_order(struct decoder *d, struct op *op)
{
    op->order = order_of(d);
    d->program->narrow |= op->order & ORDER_CTA && memory_space(d) != SPACE_SHARED;
    this_insn(d)->signals |= is_store(d) && (op->order & ORDER_STRONG);
    this_insn(d)->scope = has(d, MOD_cta)       ? SCOPE_CTA
                          : has(d, MOD_cluster) ? SCOPE_CLUSTER
                                                : SCOPE_GPU;
}

void note_size(struct decoder *d, int bytes)
{
    int shift = __builtin_ctz((unsigned)bytes);
    if (shift < d->program->cell_shift)
        d->program->cell_shift = (uint8_t)shift;
}

// ---- Hints to the caches ------------------------------------------------------------------------

// The simulator has no cache, so a hint changes nothing; but a hint that ptxas refuses is refused
// here, too.

void policy_operand(struct decoder *d, int index)
{
    const char *opcode = d->insn->opcode;
    bool hint = has(d, MOD_cache_hint);
    for (int i = 0; i < d->spelling->count; ++i)
        if (!strncmp(d->spelling->word[i], "L2::evict_", strlen("L2::evict_")))
            fail(d, "%s: .%s is for 32 bytes at once, on sm_100; elsewhere a policy says it",
                 opcode, d->spelling->word[i]);
    if (d->insn->count > index + hint)
        fail(d,
             hint ? "%s takes %d operands" : "%s takes %d operands, a cache policy .L2::cache_hint",
             opcode, index + hint);
    if (!hint)
        return;
    if (d->insn->count == index)
        fail(d, "%s needs a cache policy as its last operand", opcode);
    enum space space = memory_space(d);
    if (has(d, MOD_volatile) || (space != SPACE_GLOBAL && space != SPACE_GENERIC))
        fail(d, "%s: a cache policy is for global memory, and no .volatile", opcode);
    source(d, operand(d, index), 8);
}

static bool is_priority(const struct decoder *d, int index)
{
    return is_word(d, index, "L2::evict_first") || is_word(d, index, "L2::evict_unchanged");
}

// Checks the operand for the fraction of accesses that have the first priority; it may be missing.
static void check_fraction(struct decoder *d)
{
    if (d->insn->count < 2)
        return;
    const struct operand *o = operand(d, 1);
    source(d, o, 4);
    if (o->kind != OPERAND_IMMEDIATE)
        return;
    uint32_t bits = (uint32_t)immediate(d, o, 4);
    float fraction;
    memcpy(&fraction, &bits, 4);
    if (!(fraction > 0 && fraction <= 1))
        fail(d, "%s: a fraction of %g is not in (0, 1]", d->insn->opcode, (double)fraction);
}

// Checks the operands [address], bytes of the first priority, total bytes.
static void check_range(struct decoder *d)
{
    address_operand(d, operand(d, 1), SPACE_GLOBAL);
    const struct operand *first = operand(d, 2), *all = operand(d, 3);
    source(d, first, 4);
    source(d, all, 4);
    if (first->kind == OPERAND_IMMEDIATE && all->kind == OPERAND_IMMEDIATE &&
        first->value > all->value)
        fail(d, "%s: %lld bytes of the first priority are more than the range's %lld",
             d->insn->opcode, (long long)first->value, (long long)all->value);
}

// createpolicy.fractional.first{.second}, .range{.global}.first{.second}, .cvt.L2: a policy is 0,
// and instructions that take one ignore it.
void decode_createpolicy(struct decoder *d)
{
    needs_arch(d, 80);
    bool range = is_word(d, 0, "range"), fractional = is_word(d, 0, "fractional");
    int at = range && modifier_at(d, 1) == MOD_global ? 2 : 1, most = range ? 4 : 2;
    if (range || fractional) {
        if (!is_priority(d, at) && !is_word(d, at, "L2::evict_last") &&
            !is_word(d, at, "L2::evict_normal"))
            unsupported(d);
        at += is_priority(d, at + 1) ? 2 : 1;
    } else {
        if (!is_word(d, 0, "cvt") || !is_word(d, 1, "L2"))
            unsupported(d);
        at = 2;
    }
    if (modifier_at(d, at) != MOD_b64 || at + 1 != d->spelling->count || d->insn->count > most)
        unsupported(d);
    if (range)
        check_range(d);
    else if (fractional)
        check_fraction(d);
    else
        source(d, operand(d, 1), 8);
    emit_plain(d, OP_mov_b64, destination(d, operand(d, 0), 8), constant(d, 0, 8), 0, 0);
}

// prefetch{.space}.level [address], prefetchu.L1 [address], prefetch{.space}.tensormap [address]
void decode_prefetch(struct decoder *d)
{
    static const char *const levels[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal",
                                         "tensormap"};
    int last = d->spelling->count - 1;
    bool known = false;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; ++i)
        known |= last >= 0 && is_word(d, last, levels[i]);
    enum space space = memory_space(d);
    if (!known || space == SPACE_SHARED || d->insn->count != 1)
        unsupported(d);
    address_operand(d, operand(d, 0), space);
    decode_nothing(d);
}

// ---- Loads and stores ---------------------------------------------------------------------------

// The register of one element of a vector. *width: on entry, bytes of the previous element's
// register (0: the element is the first); on return, bytes of this register.
static uint32_t element_place(struct decoder *d, const struct operand *o, int element, bool store,
                              uint8_t *width)
{
    if (element == 16 && o->kind != OPERAND_REGISTER)
        fail(d, "an operand of %s is no register", d->insn->opcode);
    if (store)
        return wide_source(d, o, element, width);
    if (o->kind == OPERAND_SINK && element < 16) {
        if (!*width)
            *width = (uint8_t)(element == 1 ? 2 : element);
        return scratch(d);
    }
    if (o->kind != OPERAND_REGISTER)
        fail(d, "the result of %s is no register", d->insn->opcode);
    *width = d->function->regs[o->reg].bytes;
    if (*width < element)
        fail(d, "the result of %s is too narrow", d->insn->opcode);
    return d->slot[o->reg];
}

// The registers of `count` elements, which must all have the same width; *width gets it, in bytes.
static uint32_t *element_places(struct decoder *d, const struct operand *value, int element,
                                int count, bool store, uint8_t *width)
{
    uint32_t *regs = arena_alloc(&d->program->arena, 4 * sizeof *regs);
    *width = 0;
    for (int i = 0; i < count; ++i) {
        const struct operand *o = value;
        if (count > 1) {
            if (value->kind != OPERAND_VECTOR || value->count != count)
                fail(d, "%s needs a vector of %d", d->insn->opcode, count);
            o = &value->elements[i];
        } else if (value->kind == OPERAND_VECTOR && value->count == 1) {
            o = &value->elements[0]; // one element in braces, as Triton writes it
        }
        uint8_t before = *width;
        regs[i] = element_place(d, o, element, store, width);
        if (before && before != *width && (!store || o->kind == OPERAND_REGISTER))
            fail(d, "a vector of registers of different widths");
    }
    // Immediates in a vector with wider registers take the registers' width.
    for (int i = 0; store && i < count && count > 1; ++i)
        if (value->elements[i].kind == OPERAND_IMMEDIATE)
            regs[i] = constant(d, immediate(d, &value->elements[i], *width), *width);
    return regs;
}

static int access_id(enum space space, bool store, int bytes)
{
    int log = __builtin_ctz((unsigned)bytes);
    switch (space) {
    case SPACE_SHARED: return (store ? OP_store_shared_1 : OP_load_shared_1) + log;
    case SPACE_GLOBAL:
    case SPACE_CONST: return (store ? OP_store_global_1 : OP_load_global_1) + log;
    default: return store ? OP_store_any : OP_load_any;
    }
}

static void decode_access(struct decoder *d, bool store)
{
    int element = need_type(d, last_modifier(d));
    int count = has(d, MOD_v2) ? 2 : has(d, MOD_v4) ? 4 : 1;
    if (has(d, MOD_v8) || (element == 8 && count == 4))
        needs_arch(d, 100);
    if (has(d, MOD_v8) || element * count > 16 || !element)
        unsupported(d);
    const struct operand *value = operand(d, store ? 1 : 0), *to = operand(d, store ? 0 : 1);
    uint8_t width;
    policy_operand(d, 2 + has(d, MOD_complete_tx_bytes)); // st.async has an mbarrier as well
    uint32_t *regs = element_places(d, value, element, count, store, &width);
    struct address address = address_operand(d, to, memory_space(d));
    struct op *op = emit_id(d, access_id(address.space, store, element * count));
    set_address(op, &address);
    op->d = regs[0];
    op->regs = regs;
    op->bytes = (uint8_t)element;
    op->vector = (uint8_t)count;
    op->width = width;
    op->is_signed = is_signed(d);
    set_order(d, op);
    op->cluster = has(d, MOD_shared_cluster);
    this_insn(d)->element = op->bytes;
    // Accesses to the thread's own memory cannot race.
    if (address.space != SPACE_LOCAL && address.space != SPACE_PARAM)
        note_size(d, element * count);
}

void decode_load(struct decoder *d)
{
    decode_access(d, false);
    this_insn(d)->polls = has(d, MOD_volatile) && asks_again(d, d->insn);
}

void decode_store(struct decoder *d)
{
    decode_access(d, true);
}

// ---- Atomics ------------------------------------------------------------------------------------

static enum atomic_number atomic_number(enum modifier type)
{
    switch (type) {
    case MOD_f32:
    case MOD_f64: return ATOMIC_FLOAT;
    case MOD_f16x2: return ATOMIC_F16X2;
    case MOD_bf16x2: return ATOMIC_BF16X2;
    case MOD_f16: return ATOMIC_F16;
    case MOD_bf16: return ATOMIC_BF16;
    default: return ATOMIC_INTEGER;
    }
}

enum atomic need_atomic(struct decoder *d)
{
    static const uint8_t names[] = {
        [ATOMIC_ADD] = MOD_add, [ATOMIC_MIN] = MOD_min, [ATOMIC_MAX] = MOD_max,
        [ATOMIC_INC] = MOD_inc, [ATOMIC_DEC] = MOD_dec, [ATOMIC_AND] = MOD_and,
        [ATOMIC_OR] = MOD_or,   [ATOMIC_XOR] = MOD_xor, [ATOMIC_EXCHANGE] = MOD_exch,
        [ATOMIC_CAS] = MOD_cas};
    int what = -1;
    for (int i = 0; i <= ATOMIC_CAS; ++i)
        if (has(d, names[i]))
            what = i;
    if (what < 0)
        unsupported(d);
    return (enum atomic)what;
}

void set_atomic(struct decoder *d, struct op *op)
{
    int bytes = need_type(d, last_modifier(d));
    if (bytes < 2 || bytes > 8)
        unsupported(d);
    op->atomic = need_atomic(d);
    op->bytes = op->width = (uint8_t)bytes;
    op->number = atomic_number(last_modifier(d));
    op->is_signed = is_signed(d);
    note_size(d, bytes);
}

static void decode_atomic(struct decoder *d, bool returns)
{
    int bytes = need_type(d, last_modifier(d)), at = returns ? 1 : 0;
    bool swaps = need_atomic(d) == ATOMIC_CAS, exchanges = need_atomic(d) == ATOMIC_EXCHANGE;
    if (has(d, MOD_v2) || has(d, MOD_v4) || has(d, MOD_v8) || bytes < 2 || bytes > 8)
        unsupported(d);
    // red.async has an mbarrier as well.
    policy_operand(d, at + 2 + swaps + has(d, MOD_complete_tx_bytes));
    uint32_t *regs = arena_alloc(&d->program->arena, 3 * sizeof *regs);
    regs[0] = NO_REGISTER;
    // An exchange whose result is unused is a store.
    if (returns && operand(d, 0)->kind != OPERAND_SINK &&
        !(exchanges && !is_used(d, operand(d, 0))))
        regs[0] = destination(d, operand(d, 0), bytes);
    regs[1] = source(d, operand(d, at + 1), bytes);
    regs[2] = swaps ? source(d, operand(d, at + 2), bytes) : NO_REGISTER;
    struct address address = address_operand(d, operand(d, at), memory_space(d));
    struct op *op = emit(d, atomic_op, 0);
    set_address(op, &address);
    set_atomic(d, op);
    op->regs = regs;
    set_order(d, op);
    op->cluster = has(d, MOD_shared_cluster);
    this_insn(d)->element = op->bytes;
}

void decode_atom(struct decoder *d)
{
    decode_atomic(d, true);
}

void decode_red(struct decoder *d)
{
    decode_atomic(d, false);
}
