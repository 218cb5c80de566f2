// async.c: asynchronous copies, mbarriers and fences: cp.async, cp.async.bulk (PTX ISA, "Data Movement
// and Conversion Instructions: Asynchronous copy"); mbarrier, fence, membar ("Parallel
// Synchronization and Communication Instructions").
#include "internal.h"

// ---- mbarriers ----------------------------------------------------------------------------------

static int mbarrier_kind(const struct decoder *d) // -1: the opcode names no kind
{
    bool expects = has(d, MOD_expect_tx);
    switch (modifier_at(d, 0)) {
    case MOD_init: return MBARRIER_INIT;
    case MOD_inval: return MBARRIER_INVAL;
    case MOD_arrive: return expects ? MBARRIER_ARRIVE_EXPECT : MBARRIER_ARRIVE;
    case MOD_arrive_drop: return expects ? MBARRIER_DROP_EXPECT : MBARRIER_DROP;
    case MOD_expect_tx: return MBARRIER_EXPECT;
    case MOD_complete_tx: return MBARRIER_COMPLETE;
    case MOD_test_wait:
    case MOD_try_wait: return MBARRIER_WAIT;
    default: return -1;
    }
}

// {result,} [mbarrier]{, count, bytes, parity or state}
static void emit_mbarrier(struct decoder *d, enum mbarrier_kind kind)
{
    struct mbarrier_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    *o = (struct mbarrier_operands){.operand = NO_REGISTER, .result = NO_REGISTER};
    bool returns = operand(d, 0)->kind != OPERAND_ADDRESS, waits = kind == MBARRIER_WAIT;
    o->parity = has(d, MOD_parity);
    o->no_increment = has(d, MOD_noinc);
    uint32_t place = 0;
    if (waits)
        place = destination(d, operand(d, 0), 0);
    else if (returns && operand(d, 0)->kind != OPERAND_SINK)
        o->result = destination(d, operand(d, 0), 8);
    if (d->insn->count > returns + 1)
        o->operand = source(d, operand(d, returns + 1), waits && !o->parity ? 8 : 4);
    else if (kind == MBARRIER_INIT || waits || has(d, MOD_expect_tx) || kind == MBARRIER_COMPLETE)
        operand(d, returns + 1); // the operand is missing: operand() fails
    struct address address = address_operand(d, operand(d, returns), memory_space(d));
    if (address.space != SPACE_SHARED && address.space != SPACE_GENERIC)
        unsupported(d);
    struct op *op = emit(d, mbarrier_op, 0);
    set_address(op, &address);
    op->d = place;
    op->operands = o;
    op->mbarrier = kind;
    this_insn(d)->signals = kind != MBARRIER_INIT && kind != MBARRIER_INVAL && !waits;
    op->order = kind == MBARRIER_INIT ? 0 : ORDER_STRONG;
    op->bytes = 8;
    op->cluster = has(d, MOD_shared_cluster);
}

void decode_mbarrier(struct decoder *d)
{
    int kind = mbarrier_kind(d);
    if (kind < 0)
        unsupported(d);
    emit_mbarrier(d, (enum mbarrier_kind)kind);
}

void decode_mbarrier_pending(struct decoder *d)
{
    uint32_t place = destination(d, operand(d, 0), 4), state = source(d, operand(d, 1), 8);
    struct op *op = emit(d, mbarrier_pending_op, 1 + 4);
    op->d = place;
    op->a = state;
}

void decode_copy_mbarrier(struct decoder *d)
{
    d->program->tells_mbarriers = true;
    emit_mbarrier(d, MBARRIER_COPIES);
}

// ---- Dependent launches -------------------------------------------------------------------------

void decode_start_dependents(struct decoder *d)
{
    d->program->starts_dependents = true;
    emit(d, start_dependents_op, 0);
}

void decode_await_dependency(struct decoder *d)
{
    emit(d, await_dependency_op, 0);
}

// ---- cp.async.bulk ------------------------------------------------------------------------------

void decode_bulk_group(struct decoder *d)
{
    needs_arch(d, 90);
    int64_t left = has(d, MOD_wait_group) ? count_operand(d, 0) : -1;
    emit(d, bulk_group_op, 0)->imm = left;
}

void decode_bulk_prefetch(struct decoder *d)
{
    needs_arch(d, 90);
    policy_operand(d, has(d, MOD_tensor) ? 1 : 2);
    decode_nothing(d);
}

static struct bulk_address bulk_address(struct decoder *d, int index)
{
    struct address a = address_operand(d, operand(d, index), SPACE_GENERIC);
    return (struct bulk_address){a.reg, a.offset, a.wide};
}

// Reads from the opcode what a copy is: load or store, whether from shared memory to shared memory,
// and how many dimensions its tensor has (0: a copy of bytes). Fails on unknown modifiers.
static void bulk_kind(struct decoder *d, struct bulk_operands *o)
{
    int shared = -1, global = -1, ends = 0;
    for (int i = 0; i < d->spelling->count; ++i) {
        enum modifier m = d->spelling->modifier[i];
        switch (m) {
        case MOD_global: global = i; break;
        case MOD_shared_cluster:
        case MOD_shared_cta:
            shared = i;
            ends++;
            break;
        case MOD_1d:
        case MOD_2d:
        case MOD_3d:
        case MOD_4d:
        case MOD_5d: o->rank = 1 + (int)(m - MOD_1d); break;
        case MOD_multicast: o->multicast = true; break;
        case MOD_async:
        case MOD_bulk:
        case MOD_tensor:
        case MOD_tile:
        case MOD_complete_tx_bytes:
        case MOD_bulk_group:
        case MOD_cache_hint: break;
        case MOD_reduce: o->reduces = true; break;
        default:
            if (!o->reduces) // cp.reduce also has an operation and a type
                unsupported(d);
        }
    }
    o->tensor = o->rank > 0;
    o->from_shared = ends == 2 && global < 0 && !o->tensor &&
                     modifier_at(d, 2 + o->reduces) == MOD_shared_cluster;
    if ((!o->from_shared && (ends != 1 || global < 0)) || has(d, MOD_tensor) != o->tensor)
        unsupported(d);
    o->store = !o->from_shared && global < shared;
    if ((o->multicast && (o->store || o->from_shared)) ||
        (o->reduces && !o->store && !o->from_shared))
        unsupported(d);
}

// Sets what cp.reduce.async.bulk does to each element, and the elements' type, except for a tensor,
// whose map has the type.
static void set_reduction(struct decoder *d, struct op *op, const struct bulk_operands *o)
{
    if (o->tensor) {
        op->atomic = need_atomic(d);
        op->bytes = 0;
    } else {
        set_atomic(d, op);
    }
    bool exchanges = op->atomic == ATOMIC_EXCHANGE || op->atomic == ATOMIC_CAS;
    if (exchanges || (op->number == ATOMIC_FLOAT && op->atomic != ATOMIC_ADD) ||
        (op->number > ATOMIC_FLOAT && op->atomic > ATOMIC_MAX) || (op->number && o->from_shared))
        unsupported(d);
}

// cp.async.bulk{.tensor.Nd}.to.from …  [to], [from]{, size}{, [mbarrier]}{, CTAs}{, policy}
// An operand that is a tensor has the form [map, {coordinates}].
void decode_bulk(struct decoder *d)
{
    needs_arch(d, 90);
    struct bulk_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    bulk_kind(d, o);
    bool store = o->store;
    int rank = o->rank;
    *(store ? &o->global : &o->shared) = bulk_address(d, 0);
    *(store ? &o->shared : &o->global) = bulk_address(d, 1);
    const struct operand *map = operand(d, store ? 0 : 1);
    if (map->count != rank)
        fail(d, "%s needs %d coordinates", d->insn->opcode, rank);
    for (int i = 0; i < rank; ++i)
        o->coordinate[i] = source(d, &map->elements[i], 4);
    if (!o->tensor)
        o->size = source(d, operand(d, 2), 4);
    if (!store)
        o->barrier = bulk_address(d, o->tensor ? 2 : 3);
    int at = 2 + !o->tensor + !store;
    if (o->multicast)
        o->ranks = source(d, operand(d, at++), 2);
    policy_operand(d, at);
    struct op *op = emit(d, bulk_op, 0);
    op->operands = o;
    note_size(d, 16);
    if (o->reduces)
        set_reduction(d, op, o);
    this_insn(d)->store = store;
}

// ---- st.async, red.async ------------------------------------------------------------------------

// Makes the bytes of a st.async or red.async complete on its mbarrier. The instruction's operands
// are [to], value, [mbarrier].
static void tell_mbarrier(struct decoder *d, int bytes, bool stores)
{
    struct told_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    o->to = bulk_address(d, 0);
    o->barrier = bulk_address(d, 2);
    o->bytes = (uint32_t)bytes;
    o->stores = stores;
    d->program->tells_mbarriers = true;
    emit(d, told_op, 0)->operands = o;
}

static int async_bytes(struct decoder *d) // bytes of an element
{
    int bytes = need_type(d, last_modifier(d));
    needs_arch(d, 90);
    if (!has(d, MOD_complete_tx_bytes) || has(d, MOD_global) || (bytes != 4 && bytes != 8))
        unsupported(d);
    return bytes;
}

// st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.vec}.type
void decode_store_async(struct decoder *d)
{
    int bytes = async_bytes(d) * (has(d, MOD_v2) ? 2 : has(d, MOD_v4) ? 4 : 1);
    decode_store(d);
    tell_mbarrier(d, bytes, true);
}

// red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type
void decode_red_async(struct decoder *d)
{
    int bytes = async_bytes(d);
    if (need_atomic(d) >= ATOMIC_EXCHANGE)
        unsupported(d);
    decode_red(d);
    tell_mbarrier(d, bytes, false);
}

// ---- cp.async -----------------------------------------------------------------------------------

void decode_copy_group(struct decoder *d)
{
    bool all = has(d, MOD_wait_all);
    int64_t left = has(d, MOD_wait_group) ? count_operand(d, 0) : all ? 0 : -1;
    struct op *op = emit(d, copy_group_op, 0);
    op->imm = left;
    op->open_group = all;
}

// [to], [from], bytes{, bytes to read or a predicate to read none}{, cache policy}
void decode_copy(struct decoder *d)
{
    const struct operand *size = operand(d, 2);
    int64_t bytes = size->kind == OPERAND_IMMEDIATE ? size->value : 0;
    bool ca = has(d, MOD_ca) && (bytes == 4 || bytes == 8);
    if (!has(d, MOD_global) || (!ca && bytes != 16))
        unsupported(d);
    struct copy_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    o->size = o->ignore = NO_REGISTER;
    int extras = d->insn->count - has(d, MOD_cache_hint) > 3;
    policy_operand(d, 3 + extras);
    if (extras) {
        const struct operand *extra = operand(d, 3);
        if (extra->kind == OPERAND_REGISTER && !d->function->regs[extra->reg].bytes)
            o->ignore = source(d, extra, 0);
        else
            o->size = source(d, extra, 4);
    }
    struct address to = address_operand(d, operand(d, 0), SPACE_SHARED);
    o->to = to.reg;
    o->to_offset = to.offset;
    o->to_wide = to.wide;
    struct address from = address_operand(d, operand(d, 1), SPACE_GLOBAL);
    o->from = from.reg;
    o->from_offset = from.offset;
    o->from_wide = from.wide;
    o->read_run = d->ops->race_run_global;
    struct op *op = emit(d, copy_async_op, 0);
    op->operands = o;
    op->bytes = (uint8_t)bytes;
}

// ---- Fences -------------------------------------------------------------------------------------

void decode_fence(struct decoder *d)
{
    struct op *op = emit(d, fence_op, 0);
    op->imm = !has(d, MOD_cta); // true for membar.gl, fence…gpu, …sys
    d->program->narrow |= !op->imm;
    op->of_inits = has(d, MOD_mbarrier_init);
}

void decode_fence_proxy(struct decoder *d)
{
    bool async = has(d, MOD_async) || has(d, MOD_async_generic);
    bool shared = has(d, MOD_shared_cta) || has(d, MOD_shared_cluster), global = has(d, MOD_global);
    struct op *op = emit(d, async ? proxy_fence_op : nothing_op, 0);
    op->imm =
        (shared || !global ? PROXY_FENCE_SHARED : 0) | (global || !shared ? PROXY_FENCE_GLOBAL : 0);
}
