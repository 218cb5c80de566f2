// video.c: video instructions (PTX ISA, "Video Instructions"):
//
//   vadd.dtype.atype.btype{.sat}{.op2}  d{.part}, a{.part}, b{.part} {, c}       one result
//   vadd4.dtype.atype.btype{.sat}{.add} d{.mask}, a{.parts}, b{.parts}, c        two or four
//   vset….atype.btype.cmp{.op2}         vshl, vshr: .clamp or .wrap              vmad: .shr7, .shr15
#include "ptxsim/ops/extra/video.h"
#include "extra.h"

#include <string.h>

static const struct {
    const char *name;
    enum video_kind kind;
} kinds[] = {{"vadd", VIDEO_ADD},         {"vsub", VIDEO_SUB},
             {"vabsdiff", VIDEO_ABSDIFF}, {"vmin", VIDEO_MIN},
             {"vmax", VIDEO_MAX},         {"vavrg", VIDEO_AVERAGE},
             {"vshl", VIDEO_SHL},         {"vshr", VIDEO_SHR},
             {"vmad", VIDEO_MAD},         {"vset", VIDEO_EQ /* until its .cmp is read */}};

static const char *const comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};

// Reads one word of the opcode that is no type; false: the instruction does not take this word.
static bool video_word(struct video *v, const char *word, bool compares)
{
    bool adds = !strcmp(word, "add");
    if (!strcmp(word, "sat"))
        return v->saturate = true;
    if (adds ||
        (v->parts == 1 && v->kind != VIDEO_MAD && (!strcmp(word, "min") || !strcmp(word, "max"))))
        v->then = adds ? THEN_ADD : !strcmp(word, "min") ? THEN_MIN : THEN_MAX;
    else if (v->kind == VIDEO_MAD && !strncmp(word, "shr", 3))
        v->scale = !strcmp(word, "shr7") ? 7 : !strcmp(word, "shr15") ? 15 : -1;
    else if (v->kind == VIDEO_SHL || v->kind == VIDEO_SHR)
        return (v->wrap = !strcmp(word, "wrap")) || !strcmp(word, "clamp");
    else if (compares)
        for (int i = 0; i <= 6; ++i) {
            if (i == 6)
                return false;
            if (!strcmp(word, comparisons[i])) {
                v->kind = (enum video_kind)(VIDEO_EQ + i);
                break;
            }
        }
    else
        return false;
    return v->scale >= 0 && !(v->kind == VIDEO_MAD && v->then);
}

static void video_opcode(struct decoder *d, struct video *v)
{
    const struct spelling *s = d->spelling;
    size_t length = strcspn(s->base, "24");
    v->parts = s->base[length] ? s->base[length] - '0' : 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, s->base, length))
            v->kind = kinds[i].kind;
    bool compares = v->kind == VIDEO_EQ, *signs[] = {&v->signed_d, &v->signed_a, &v->signed_b};
    int first = compares ? 1 : 0;
    for (int i = 0; i < s->count; ++i) {
        enum modifier m = s->modifier[i];
        bool type = m == MOD_s32 || m == MOD_u32;
        if (i + first < 3 && type)
            *signs[i + first] = m == MOD_s32;
        else if (i + first < 3 || !video_word(v, s->word[i], compares))
            unsupported(d);
    }
}

// Reads the part of an operand, ".b2", ".h1", or none for the whole word: *at becomes the part's
// lowest bit, *bits its number of bits.
static void one_part(struct decoder *d, const struct operand *o, uint8_t *at, uint8_t *bits)
{
    *at = 0;
    *bits = 32;
    if (!o->part)
        return;
    *bits = o->part[0] == 'b' ? 8 : 16;
    int number = o->part[1] - '0';
    if (!strchr("bh", o->part[0]) || number < 0 || number >= 32 / *bits || o->part[2])
        fail(d, "%s has no part .%s of a word", d->insn->opcode, o->part);
    *at = (uint8_t)(number * *bits);
}

// Reads the parts of an operand, such as ".h10" or ".b7654": number[i] becomes the part for result
// i. In the text, the part for the highest result is first.
static void many_parts(struct decoder *d, const struct video *v, const struct operand *o, int first,
                       uint8_t *number)
{
    for (int i = 0; i < v->parts; ++i)
        number[i] = (uint8_t)(first + i);
    if (!o->part)
        return;
    if (o->part[0] != (v->parts == 2 ? 'h' : 'b') || strlen(o->part) != (size_t)v->parts + 1)
        fail(d, "%s takes %d parts of a word, not .%s", d->insn->opcode, v->parts, o->part);
    for (int i = 0; i < v->parts; ++i) {
        int which = o->part[v->parts - i] - '0';
        if (which < 0 || which >= 2 * v->parts)
            fail(d, "%s has no part .%s", d->insn->opcode, o->part);
        number[i] = (uint8_t)which;
    }
}

// Reads which results are computed, such as ".b20", as a mask; the others come from c.
static uint8_t result_mask(struct decoder *d, const struct video *v, const struct operand *o)
{
    uint8_t mask = 0;
    if (!o->part)
        return (uint8_t)((1 << v->parts) - 1);
    for (const char *at = o->part + 1; *at; ++at) {
        if (o->part[0] != (v->parts == 2 ? 'h' : 'b') || *at < '0' || *at >= '0' + v->parts)
            fail(d, "%s has no result .%s", d->insn->opcode, o->part);
        mask |= (uint8_t)(1 << (*at - '0'));
    }
    return mask;
}

static uint32_t video_register(struct decoder *d, const struct operand *o, bool to)
{
    struct operand whole = *o;
    whole.part = NULL;
    return to ? destination(d, &whole, 4) : source(d, &whole, 4);
}

void decode_video(struct decoder *d)
{
    struct video *v = arena_alloc(&d->program->arena, sizeof *v);
    video_opcode(d, v);
    const struct operand *to = operand(d, 0), *a = operand(d, 1), *b = operand(d, 2);
    if (v->parts == 1) {
        one_part(d, to, &v->d_at, &v->d_bits);
        one_part(d, a, &v->a[0], &v->a_bits);
        one_part(d, b, &v->b[0], &v->b_bits);
        if (to->part && (v->then || v->kind == VIDEO_MAD))
            unsupported(d);
        v->then = to->part ? THEN_MERGE : v->then;
    } else {
        many_parts(d, v, a, 0, v->a);
        many_parts(d, v, b, v->parts, v->b);
        v->mask = result_mask(d, v, to);
    }
    bool needs = v->parts > 1 || v->then || v->kind == VIDEO_MAD;
    if (d->insn->count != 3 + needs)
        fail(d, "%s takes %d operands", d->insn->opcode, 3 + needs);
    uint32_t place = video_register(d, to, true), left = video_register(d, a, false);
    uint32_t right = video_register(d, b, false);
    uint32_t third = needs ? source(d, operand(d, 3), 4) : constant(d, 0, 4);
    struct op *op = emit(d, video_op, 1 + 4);
    op->d = place;
    op->a = left;
    op->b = right;
    op->c = third;
    op->operands = v;
}
