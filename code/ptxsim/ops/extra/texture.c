// texture.c: tex, tld4, suld, sust: texels of linear memory and of arrays (CUDA C++ Programming Guide,
// "Texture Fetching").
//
// The coordinates for a linear filter are fixed-point numbers with 8 fraction bits, as on a GPU.
// Accesses are checked like all others, but for races only in memory that a kernel may write:
// linear memory, and arrays that surfaces may write.
#include "texture.h"
#include "extra.h"
#include "ptxsim/ops/address.h"
#include "ptxsim/ops/scalars.h"

#include <math.h>
#include <stdlib.h>

enum { CUBE_FACES = 6 };

// ---- Handles ------------------------------------------------------------------------------------

static const struct texture **textures;
static size_t texture_count, texture_capacity;

uint64_t texture_add(const struct texture *texture)
{
    size_t at = 0;
    while (at < texture_count && textures[at])
        ++at;
    if (at == texture_count)
        textures = array_grow(textures, texture_count++, &texture_capacity, sizeof *textures);
    textures[at] = texture;
    return at + 1;
}

// The texture with this handle, or NULL.
static const struct texture *texture_find(uint64_t handle)
{
    return handle > 0 && handle <= texture_count ? textures[handle - 1] : NULL;
}

void texture_remove(uint64_t handle)
{
    if (texture_find(handle))
        textures[handle - 1] = NULL;
}

// ---- Texels -------------------------------------------------------------------------------------

static uint32_t texel_bytes(const struct texture *t)
{
    return (uint32_t)t->channels * t->channel_bytes;
}

static uint8_t *texel_at(const struct texture *t, const int64_t at[3])
{
    return t->data + at[0] * texel_bytes(t) + (uint64_t)at[1] * t->pitch +
           (uint64_t)at[2] * t->slice;
}

// Whether a warp may access bytes of a texture now; if not, reports the fault. stored: the bytes of
// a store; NULL: a load.
static bool check_access(struct warp *w, const struct op *op, int lane, const struct texture *t,
                         const uint8_t *from, uint32_t bytes, const uint8_t *stored)
{
    uint64_t at = (uint64_t)(uintptr_t)from;
    bool store = stored != NULL;
    if (!global_span(w, at, bytes) || !global_defined(w, at, bytes, store)) {
        fault_global(w, op, lane, at, bytes, store);
        return false;
    }
    counts_of(w, op)->global_bytes += bytes;
    global_touch(w, op, at, bytes, store);
    if (!t->constant) // race_global also makes a plain store
        race_global(w, op, 1u << lane, at, bytes, store ? RACE_WRITE : RACE_READ, stored);
    return true;
}

// One channel as the kernel gets it: an integer, or the bits of a float.
static uint32_t channel_value(const struct texture *t, const uint8_t *from)
{
    uint32_t bits = 0;
    memcpy(&bits, from, t->channel_bytes);
    if (t->is_float)
        return t->channel_bytes == 2 ? bits_of(f16_to_f32(bits)) : bits;
    int unused = 32 - 8 * t->channel_bytes;
    int32_t value = (int32_t)(bits << unused) >> unused;
    if (!t->normalised_values)
        return t->is_signed ? (uint32_t)value : bits;
    if (!t->is_signed)
        return bits_of((float)bits / (float)(t->channel_bytes == 1 ? UINT8_MAX : UINT16_MAX));
    float ratio = (float)value / (float)(t->channel_bytes == 1 ? INT8_MAX : INT16_MAX);
    return bits_of(ratio < -1 ? -1 : ratio);
}

// The index of the texel for coordinate `at`, which may be past an end of the texture; -1: the
// border's colour.
static int64_t address_of(int64_t at, int64_t size, enum address_mode mode)
{
    if (at >= 0 && at < size)
        return at;
    switch (mode) {
    case ADDRESS_WRAP: return (at % size + size) % size;
    case ADDRESS_MIRROR:
        at = (at % (2 * size) + 2 * size) % (2 * size);
        return at < size ? at : 2 * size - 1 - at;
    case ADDRESS_CLAMP: return at < 0 ? 0 : size - 1;
    default: return -1;
    }
}

// Reads the four channels of a texel; false after a fault. Of the channels that the texture lacks,
// the fourth is 1, the others are 0.
static bool read_texel(struct warp *w, const struct op *op, int lane, const struct texture *t,
                       const int64_t coordinate[3], int64_t layer, uint32_t value[4])
{
    bool floats = t->is_float || t->normalised_values, outside = false;
    int64_t at[3] = {0, 0, layer};
    for (int i = 0; i < t->dimensions; ++i) {
        at[i] = address_of(coordinate[i], t->size[i],
                           t->cube ? ADDRESS_CLAMP : (enum address_mode)t->mode[i]);
        outside |= at[i] < 0;
    }
    for (int i = 0; i < 4; ++i)
        value[i] = i < 3 ? 0 : floats ? bits_of(1) : 1;
    if (outside) {
        for (int i = 0; i < 4; ++i)
            value[i] = floats ? bits_of(t->border[i]) : (uint32_t)(int32_t)t->border[i];
        return true;
    }
    const uint8_t *from = texel_at(t, at);
    if (!check_access(w, op, lane, t, from, texel_bytes(t), NULL))
        return false;
    for (int i = 0; i < t->channels; ++i)
        value[i] = channel_value(t, from + i * t->channel_bytes);
    return true;
}

// ---- tex, tld4 -----------------------------------------------------------------------------------

// Rounds towards zero. NaN becomes 0; a value far outside of the texture remains outside.
static int64_t whole(double value)
{
    const double most = 1 << 30;
    return value != value ? 0 : (int64_t)fmin(fmax(value, -most), most);
}

// The index of the lower of the two texels beside a point in one dimension; *upper: the weight of
// the other.
static int64_t texel_below(float x, float *upper)
{
    int64_t fixed = whole(floor((double)x * 256 + 0.5)) - 128;
    *upper = (float)(fixed & 255) / 256;
    return fixed >> 8;
}

// The weighted sum of the 2, 4 or 8 texels around a point.
static bool filter_texels(struct warp *w, const struct op *op, int lane, const struct texture *t,
                          const float *x, int64_t layer, uint32_t value[4])
{
    int64_t low[3] = {0};
    float upper[3] = {0}, sum[4] = {0};
    for (int i = 0; i < t->dimensions; ++i)
        low[i] = texel_below(x[i], &upper[i]);
    for (int corner = 0; corner < 1 << t->dimensions; ++corner) {
        int64_t at[3];
        float weight = 1;
        for (int i = 0; i < 3; ++i) {
            at[i] = low[i] + (corner >> i & 1);
            weight *= corner >> i & 1 ? upper[i] : 1 - upper[i];
        }
        uint32_t texel[4];
        if (weight == 0)
            continue;
        if (!read_texel(w, op, lane, t, at, layer, texel))
            return false;
        for (int i = 0; i < 4; ++i)
            sum[i] += weight * float_of(texel[i]);
    }
    for (int i = 0; i < 4; ++i)
        value[i] = bits_of(sum[i]);
    return true;
}

static const struct texture *need_texture(struct warp *w, char *r, const struct op *op, int lane,
                                          bool surface)
{
    const struct texture_operands *o = op->operands;
    const struct texture *t = texture_find(((u64 *)(r + o->handle))[lane]);
    const char *what = surface ? "surface" : "texture";
    if (!t || t->is_surface != surface)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS, "%s with something that is no %s object",
                 w->cta->program->insns[op->insn].opcode, what);
    else if (o->cube   ? !t->cube || (t->layers > CUBE_FACES && !o->layered)
             : surface ? t->dimensions != o->dimensions || (t->layers > 0) != o->layered
                       : t->cube || t->dimensions != o->dimensions || (t->layers > 0) != o->layered)
        fault_at(w, op, lane, FAULT_TRAP, "%s of a %s object that has %d dimension%s%s",
                 w->cta->program->insns[op->insn].opcode, what, t->dimensions,
                 t->dimensions == 1 ? "" : "s",
                 t->cube && t->layers > CUBE_FACES ? " and layers of cubes"
                 : t->cube                         ? " and the faces of a cube"
                 : t->layers                       ? " and layers"
                                                   : "");
    else
        return t;
    return NULL;
}

// Projects a direction onto a face of a cube, with coordinates from 0 to 1 (CUDA C++ Programming
// Guide, "Cubemap Textures"): the component of the largest magnitude determines the face.
static int64_t cube_face(float x[3])
{
    float a[3] = {fabsf(x[0]), fabsf(x[1]), fabsf(x[2])}, s, t;
    int axis = a[0] >= a[1] && a[0] >= a[2] ? 0 : a[1] >= a[2] ? 1 : 2;
    bool negative = x[axis] < 0;
    if (axis == 0) {
        s = negative ? x[2] : -x[2];
        t = -x[1];
    } else if (axis == 1) {
        s = x[0];
        t = negative ? -x[2] : x[2];
    } else {
        s = negative ? -x[0] : x[0];
        t = -x[1];
    }
    x[0] = (s / a[axis] + 1) / 2;
    x[1] = (t / a[axis] + 1) / 2;
    return 2 * axis + negative;
}

// The layer that a lane names in a texture that is not a cube, but at most the last one.
static int64_t layer_of(const char *r, const struct texture_operands *o, int lane,
                        const struct texture *t)
{
    int64_t layer = o->layered ? ((const u32 *)(r + o->layer))[lane] : 0;
    return !o->layered || layer < t->layers ? layer : t->layers - 1;
}

static bool fetch(struct warp *w, char *r, const struct op *op, int lane, const struct texture *t,
                  uint32_t value[4])
{
    const struct texture_operands *o = op->operands;
    int64_t at[3] = {0}, layer = o->cube ? 0 : layer_of(r, o, lane, t);
    float x[3] = {0};
    if (o->cube) {
        for (int i = 0; i < 3; ++i)
            x[i] = float_of(((u32 *)(r + o->coordinate[i]))[lane]);
        layer = (o->layered ? ((u32 *)(r + o->layer))[lane] : 0) * (int64_t)CUBE_FACES;
        layer = layer < t->layers ? layer : t->layers - CUBE_FACES;
        layer += cube_face(x);
    }
    for (int i = 0; i < t->dimensions; ++i) {
        uint32_t bits = o->cube ? bits_of(x[i]) : ((u32 *)(r + o->coordinate[i]))[lane];
        bool to_one = t->normalised_coordinates || o->cube;
        x[i] = float_of(bits) * (to_one ? (float)t->size[i] : 1);
        at[i] = o->integers ? (int32_t)bits : whole(floor((double)x[i]));
    }
    if (t->linear_memory && (at[0] < 0 || at[0] >= t->size[0])) {
        memset(value, 0, 4 * sizeof *value);
        return true;
    }
    if (t->filter && !o->integers)
        return filter_texels(w, op, lane, t, x, layer, value);
    return read_texel(w, op, lane, t, at, layer, value);
}

// One channel of the four texels that a linear filter would blend, counter-clockwise from the
// corner (low, high).
static bool gather(struct warp *w, char *r, const struct op *op, int lane, const struct texture *t,
                   uint32_t value[4])
{
    const struct texture_operands *o = op->operands;
    int64_t low[2], layer = layer_of(r, o, lane, t);
    for (int i = 0; i < 2; ++i) {
        float x = float_of(((u32 *)(r + o->coordinate[i]))[lane]), unused;
        low[i] = texel_below(x * (t->normalised_coordinates ? (float)t->size[i] : 1), &unused);
    }
    for (int k = 0; k < 4; ++k) {
        int64_t at[3] = {low[0] + (k == 1 || k == 2), low[1] + (k < 2), 0};
        uint32_t texel[4];
        if (!read_texel(w, op, lane, t, at, layer, texel))
            return false;
        value[k] = texel[o->component];
    }
    return true;
}

typedef bool fetch_fn(struct warp *w, char *r, const struct op *op, int lane,
                      const struct texture *t, uint32_t value[4]);

static void fetch_lanes(struct warp *w, char *r, const struct op *op, uint32_t mask, fetch_fn *how)
{
    const struct texture_operands *o = op->operands;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        const struct texture *t = need_texture(w, r, op, i, false);
        uint32_t value[4];
        if (!t || !how(w, r, op, i, t, value))
            continue;
        for (int k = 0; k < 4; ++k)
            ((u32 *)(r + o->value[k]))[i] = value[k];
    }
}

void texture_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    fetch_lanes(w, r, op, mask, fetch);
}

void gather_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    fetch_lanes(w, r, op, mask, gather);
}

// ---- suld, sust ---------------------------------------------------------------------------------

// The address that a lane accesses in a surface; NULL: a fault, if *faulted; otherwise the lane is
// outside of the surface, and the access has no effect.
static uint8_t *surface_at(struct warp *w, char *r, const struct op *op, int lane,
                           const struct texture *t, bool *faulted)
{
    const struct texture_operands *o = op->operands;
    int64_t at[3] = {0}, bytes = op->bytes * op->vector;
    bool outside = false;
    *faulted = false;
    for (int i = 0; i < o->dimensions; ++i) {
        int64_t last = i ? (int64_t)t->size[i] - 1 : (int64_t)t->size[0] * texel_bytes(t) - bytes;
        at[i] = ((int32_t *)(r + o->coordinate[i]))[lane];
        if (at[i] >= 0 && at[i] <= last)
            continue;
        if (o->outside == SURFACE_CLAMP)
            at[i] = at[i] < 0 ? 0 : last;
        else
            outside = true;
    }
    if (o->layered)
        at[2] = ((u32 *)(r + o->layer))[lane];
    outside |= o->layered && at[2] >= t->layers;
    *faulted = (outside && o->outside == SURFACE_TRAP) || (!outside && at[0] % bytes);
    if (outside && *faulted)
        fault_at(w, op, lane, FAULT_OUT_OF_BOUNDS,
                 "%s at (byte %lld, %lld, %lld), outside the surface of %u x %u x %u texels of %u "
                 "bytes",
                 o->store ? "writes" : "reads", (long long)at[0], (long long)at[1],
                 (long long)at[2], t->size[0], t->size[1], t->layers ? t->layers : t->size[2],
                 texel_bytes(t));
    else if (*faulted)
        fault_at(w, op, lane, FAULT_MISALIGNED,
                 "%s %lld bytes of a surface at byte %lld of a row, which is no multiple of %lld",
                 o->store ? "writes" : "reads", (long long)bytes, (long long)at[0],
                 (long long)bytes);
    if (outside || *faulted)
        return NULL;
    return t->data + at[0] + (uint64_t)at[1] * t->pitch + (uint64_t)at[2] * t->slice;
}

void surface_op(struct warp *w, char *r, const struct op *op, uint32_t mask)
{
    const struct texture_operands *o = op->operands;
    uint32_t bytes = (uint32_t)op->bytes * op->vector;
    for (uint32_t left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        bool faulted = false;
        const struct texture *t = need_texture(w, r, op, i, true);
        uint8_t *memory = t ? surface_at(w, r, op, i, t, &faulted) : NULL;
        uint8_t stored[16];
        for (int k = 0; k < op->vector && o->store; ++k)
            memcpy(stored + k * op->bytes, r + o->value[k] + i * op->width, op->bytes);
        if (!t || faulted ||
            (memory && !check_access(w, op, i, t, memory, bytes, o->store ? stored : NULL)))
            continue;
        if (memory && o->store)
            memcpy(memory, stored, bytes);
        for (int k = 0; k < op->vector && !o->store; ++k) {
            uint64_t value = 0;
            if (memory)
                memcpy(&value, memory + k * op->bytes, op->bytes);
            memcpy(r + o->value[k] + i * op->width, &value, op->width);
        }
    }
    if (o->store)
        note_effect(w);
}
