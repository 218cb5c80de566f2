// texture.c: tex, tld4, suld, sust (PTX ISA, "Texture Instructions", "Surface Instructions") with
// objects: the handle is in a register.
#include "extra.h"

// Reads .1d, .a2d, .cube and the like from the opcode; multisampled textures are not supported.
static void geometry(struct decoder *d, struct texture_operands *o)
{
    o->cube = has(d, MOD_cube) || has(d, MOD_acube);
    o->layered = has(d, MOD_a1d) || has(d, MOD_a2d) || has(d, MOD_acube);
    o->dimensions = has(d, MOD_1d) || has(d, MOD_a1d)   ? 1
                    : has(d, MOD_2d) || has(d, MOD_a2d) ? 2
                    : has(d, MOD_3d) || o->cube         ? 3
                                                        : 0;
    if (!o->dimensions)
        unsupported(d);
}

// [handle, {layer, x, y, z}]; there may be more coordinates than the texture has dimensions:
// further ones are ignored.
static void place_operand(struct decoder *d, const struct operand *place,
                          struct texture_operands *o)
{
    struct address handle = address_operand(d, place, SPACE_GENERIC);
    if (!handle.wide || handle.offset || place->reg < 0)
        unsupported(d); // the operand is a .texref, as in programs for CUDA 11
    if (place->count < o->layered + o->dimensions)
        fail(d, "%s needs %d coordinates", d->insn->opcode, o->layered + o->dimensions);
    o->handle = handle.reg;
    if (o->layered)
        o->layer = source(d, &place->elements[0], 4);
    for (int i = 0; i < o->dimensions; ++i)
        o->coordinate[i] = source(d, &place->elements[o->layered + i], 4);
}

// {four}, [handle, {coordinates}]
static void fetched(struct decoder *d, struct texture_operands *o)
{
    const struct operand *value = operand(d, 0);
    if (value->kind != OPERAND_VECTOR || value->count != 4)
        fail(d, "%s needs a vector of 4", d->insn->opcode);
    place_operand(d, operand(d, 1), o);
    for (int i = 0; i < 4; ++i)
        o->value[i] = destination(d, &value->elements[i], 4);
}

// tex{.level}.geometry.v4.type.coordinates  {four}, [handle, {coordinates}]{, level}. Textures have
// one level.
void decode_tex(struct decoder *d)
{
    int count = d->spelling->count;
    enum modifier type = modifier_at(d, count - 2), of = last_modifier(d);
    struct texture_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    bool level = has(d, MOD_level);
    geometry(d, o);
    o->integers = of == MOD_s32;
    if (o->cube && o->integers)
        unsupported(d);
    if (count != 4 + level || !has(d, MOD_v4) || (of != MOD_f32 && of != MOD_s32) ||
        (type != MOD_f32 && type != MOD_s32 && type != MOD_u32) || d->insn->count != 2 + level)
        unsupported(d);
    fetched(d, o);
    emit(d, texture_op, 0)->operands = o;
}

// tld4.component.geometry.v4.type.f32  {four}, [handle, {coordinates}]
void decode_tld4(struct decoder *d)
{
    static const enum modifier components[] = {MOD_r, MOD_g, MOD_b, MOD_a};
    enum modifier type = modifier_at(d, d->spelling->count - 2);
    struct texture_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    geometry(d, o);
    while (o->component < 4 && !has(d, components[o->component]))
        ++o->component;
    if (o->dimensions != 2 || o->component == 4 || d->spelling->count != 5 || !has(d, MOD_v4) ||
        last_modifier(d) != MOD_f32 || d->insn->count != 2 ||
        (type != MOD_f32 && type != MOD_s32 && type != MOD_u32))
        unsupported(d);
    fetched(d, o);
    emit(d, gather_op, 0)->operands = o;
}

// suld.b.geometry{.v2}.b32.outside {values}, [handle, {byte, y}], where outside is trap, clamp or
// zero; sust.b has its operands in the other order.
static void decode_surface(struct decoder *d, bool store)
{
    int vector = has(d, MOD_v2) ? 2 : has(d, MOD_v4) ? 4 : 1;
    enum modifier type = modifier_at(d, d->spelling->count - 2), last = last_modifier(d);
    struct texture_operands *o = arena_alloc(&d->program->arena, sizeof *o);
    const struct operand *value = operand(d, store);
    int bytes = need_type(d, type);
    uint8_t width = 0;
    geometry(d, o);
    if (o->cube) // PTX has no such surface; a cube's faces are layers
        unsupported(d);
    o->store = store;
    o->outside = last == MOD_trap ? SURFACE_TRAP : last == MOD_clamp ? SURFACE_CLAMP : SURFACE_ZERO;
    if (!has(d, MOD_b) || (last != MOD_trap && last != MOD_clamp && last != MOD_zero) ||
        d->insn->count != 2 || bytes < 1 || bytes * vector > 16)
        unsupported(d);
    place_operand(d, operand(d, !store), o);
    if (vector > 1 && (value->kind != OPERAND_VECTOR || value->count != vector))
        fail(d, "%s needs a vector of %d", d->insn->opcode, vector);
    width = (uint8_t)(bytes == 1 ? 2 : bytes);
    for (int i = 0; i < vector; ++i) {
        const struct operand *one = value->kind == OPERAND_VECTOR ? &value->elements[i] : value;
        o->value[i] = store ? source(d, one, width) : destination(d, one, width);
    }
    struct op *op = emit(d, surface_op, 0);
    op->operands = o;
    op->bytes = (uint8_t)bytes;
    op->vector = (uint8_t)vector;
    op->width = width;
    note_size(d, bytes * vector);
    this_insn(d)->store = store;
}

void decode_suld(struct decoder *d)
{
    decode_surface(d, false);
}

void decode_sust(struct decoder *d)
{
    decode_surface(d, true);
}
