// liveness.c: finds a function's basic blocks, the registers that are live in them, and the
// registers' places in the register file, by a linear scan (Poletto and Sarkar, 1999). opcodes.def
// says how an opcode affects control and its first operand.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void visit_operand(struct decoder *d, const struct operand *o, bool defines, visit_fn *visit,
                          void *data)
{
    for (int i = 0; i < o->count; ++i) // elements of a vector, or coordinates of an address
        visit_operand(d, &o->elements[i], defines && o->kind == OPERAND_VECTOR, visit, data);
    if (o->reg >= 0)
        visit(d, o->reg, defines && o->kind != OPERAND_ADDRESS, data);
    if (o->pair >= 0)
        visit(d, o->pair, defines, data);
}

// Calls `visit` for every register that an instruction names: first for those that it reads.
void visit_registers(struct decoder *d, const struct insn *insn, visit_fn *visit, void *data)
{
    enum result result = spelling_of(d, insn)->opcode->result;
    bool defines = result != RESULT_READS;
    for (int i = defines ? 1 : 0; i < insn->count; ++i)
        visit_operand(d, &insn->operands[i], false, visit, data);
    if (insn->guard >= 0)
        visit(d, insn->guard, false, data);
    if (defines && insn->count) {
        // Where the guard is off, the register keeps its value.
        if (insn->guard >= 0 || result == RESULT_UPDATES)
            visit_operand(d, &insn->operands[0], false, visit, data);
        visit_operand(d, &insn->operands[0], true, visit, data);
    }
}

// ---- Basic blocks -------------------------------------------------------------------------------

static enum control control_of(const struct decoder *d, const struct insn *insn)
{
    return spelling_of(d, insn)->opcode->control;
}

// Marks the instructions that begin a block: those with a label, those that wait for other lanes,
// and those after an instruction that may jump or wait for other warps.
static bool *find_leaders(struct decoder *d)
{
    const struct function *f = d->function;
    bool *leader = arena_alloc(&d->temporary, (f->insn_count + 2) * sizeof *leader);
    leader[0] = true;
    for (size_t i = 0; i < f->label_count; ++i)
        leader[f->labels[i].insn] = true;
    for (size_t i = 0; i < f->insn_count; ++i) {
        enum control control = control_of(d, &f->insns[i]);
        leader[i] |= control >= CONTROL_MEMBERS && control <= CONTROL_BARRIER;
        leader[i + 1] |= control >= CONTROL_GROUP;
    }
    return leader;
}

// Finds the blocks that may follow a block's last instruction.
static void find_next(struct decoder *d, struct flow_block *list, size_t count, size_t index)
{
    const struct function *f = d->function;
    struct flow_block *b = &list[index];
    const struct insn *last = &f->insns[b->end - 1];
    enum control control = control_of(d, last);
    bool falls = last->guard >= 0 || control < CONTROL_JUMP || control == CONTROL_CALL;
    b->next[0] = falls && index + 1 < count ? (int)index + 1 : -1;
    b->next[1] = -1;
    b->exits = !falls;
    const struct operand *to = control == CONTROL_JUMP && last->count         ? &last->operands[0]
                               : control == CONTROL_SWITCH && last->count > 1 ? &last->operands[1]
                                                                              : NULL;
    if (!to || to->kind != OPERAND_NAME)
        return;
    const struct label *label = function_label(f, last->scope, to->name);
    if (control == CONTROL_SWITCH) {
        b->many = label;
        return;
    }
    d->insn = last;
    if (!label)
        fail(d, "label '%s' is not known", to->name);
    if (label->insn < f->insn_count)
        b->next[1] = d->block_of[label->insn];
}

// The blocks of the function, as a list; also fills d->block_of.
struct flow_block *find_blocks(struct decoder *d, size_t *count)
{
    const struct function *f = d->function;
    size_t n = f->insn_count, blocks = 0, at = 0;
    const bool *leader = find_leaders(d);
    for (size_t i = 0; i < n; ++i)
        blocks += leader[i];
    struct flow_block *list = arena_alloc(&d->temporary, (blocks + 1) * sizeof *list);
    d->block_of = arena_alloc(&d->temporary, (n + 1) * sizeof *d->block_of);
    for (size_t i = 0; i <= n; ++i) {
        if (i < n && leader[i]) {
            enum control control = control_of(d, &f->insns[i]);
            list[at].first = i;
            list[at].sync = control == CONTROL_BARRIER                               ? SYNC_BARRIER
                            : control == CONTROL_MEMBERS || control == CONTROL_GROUP ? SYNC_MEMBERS
                                                                                     : SYNC_NONE;
            at++;
        }
        // A label at the very end of the function stands for the block that decode_end adds there.
        d->block_of[i] = i < n ? (int)at - 1 : (int)blocks;
        if (at)
            list[at - 1].end = i < n ? i + 1 : n;
    }
    *count = blocks;
    for (size_t b = 0; b < blocks; ++b)
        find_next(d, list, blocks, b);
    return list;
}

// ---- Live registers -----------------------------------------------------------------------------

struct interval {
    int reg;
    size_t start, end;
};

struct liveness {
    struct flow_block *block;
    struct interval *intervals; // the intervals, indexed by register
    size_t at;
};

static void note_local(struct decoder *d, int reg, bool defines, void *data)
{
    (void)d;
    struct flow_block *b = ((struct liveness *)data)->block;
    uint64_t bit = UINT64_C(1) << (reg & 63);
    if (defines)
        b->def[reg >> 6] |= bit;
    else if (!(b->def[reg >> 6] & bit))
        b->use[reg >> 6] |= bit;
}

static void stretch(struct interval *i, size_t at)
{
    if (at < i->start)
        i->start = at;
    if (at > i->end || i->end == SIZE_MAX)
        i->end = at;
}

static void note_interval(struct decoder *d, int reg, bool defines, void *data)
{
    (void)d, (void)defines;
    struct liveness *l = data;
    stretch(&l->intervals[reg], l->at);
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start ? 1 : x->reg - y->reg;
}

static bool merge_in(uint64_t *out, const struct flow_block *from, size_t words)
{
    bool changed = false;
    for (size_t i = 0; i < words; ++i) {
        uint64_t more = from->in[i] & ~out[i];
        out[i] |= more;
        changed |= more != 0;
    }
    return changed;
}

static void live_out(struct decoder *d, struct flow_block *blocks, const struct flow_block *b,
                     uint64_t *out, size_t words)
{
    memset(out, 0, words * sizeof *out);
    for (int k = 0; k < 2; ++k)
        if (b->next[k] >= 0)
            merge_in(out, &blocks[b->next[k]], words);
    for (int k = 0; b->many && b->many->targets && k < b->many->target_count; ++k) {
        const struct label *label =
            function_label(d->function, b->many->scope, b->many->targets[k]);
        if (label && label->insn < d->function->insn_count)
            merge_in(out, &blocks[d->block_of[label->insn]], words);
    }
}

// Numbers the registers that the function's own wgmma instructions use. Only a kernel's are watched
// (watched_words): nvcc inlines functions with wgmma.
void number_watched(struct decoder *d)
{
    struct function *f = d->function;
    int numbers = 0;
    d->watched = NULL;
    d->watched_words = 0;
    for (size_t i = 0; i < f->insn_count; ++i) {
        const struct insn *insn = &f->insns[i];
        if (!is_wgmma(d->spelled[i]) || insn->count < 2) // wgmma's fence, commit or wait
            continue;
        if (!d->watched) {
            d->watched = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *d->watched);
            d->accumulates = arena_alloc(&d->temporary, f->reg_count + 1);
            memset(d->watched, 0xff, (f->reg_count + 1) * sizeof *d->watched);
        }
        for (int k = 0; k < 2; ++k) // operand 0 is D; operand 1 is A, if it is in registers
            for (int e = 0; e < insn->operands[k].count; ++e) {
                int reg = insn->operands[k].elements[e].reg;
                if (reg < 0)
                    continue;
                d->accumulates[reg] |= k == 0;
                if (d->watched[reg] < 0)
                    d->watched[reg] = numbers++;
            }
    }
    if (f->is_kernel)
        d->watched_words = (numbers + 63) / 64;
}

// Finds for each block the registers that it uses before it defines them, and those that it
// defines; then, iterated to a fixed point, the registers that are live at its start.
static void find_live(struct decoder *d, struct flow_block *blocks, size_t count, size_t words)
{
    const struct function *f = d->function;
    uint64_t *bits = arena_alloc(&d->temporary, ((3 * count + 1) * words + 1) * sizeof *bits);
    uint64_t *out = bits;
    for (size_t b = 0; b < count; ++b) {
        blocks[b].use = bits + (3 * b + 1) * words;
        blocks[b].def = bits + (3 * b + 2) * words;
        blocks[b].in = bits + (3 * b + 3) * words;
        struct liveness l = {.block = &blocks[b]};
        for (size_t i = blocks[b].first; i < blocks[b].end; ++i)
            visit_registers(d, &f->insns[i], note_local, &l);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t b = count; b-- > 0;) {
            live_out(d, blocks, &blocks[b], out, words);
            for (size_t i = 0; i < words; ++i) {
                uint64_t in = blocks[b].use[i] | (out[i] & ~blocks[b].def[i]);
                changed |= in != blocks[b].in[i];
                blocks[b].in[i] = in;
            }
        }
    }
}

// The interval of each register, from the first instruction where it is live to the last; start
// SIZE_MAX: no instruction uses the register.
static struct interval *find_intervals(struct decoder *d, struct flow_block *blocks, size_t count,
                                       size_t words)
{
    const struct function *f = d->function;
    struct interval *intervals = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *intervals);
    uint64_t *out = arena_alloc(&d->temporary, (words + 1) * sizeof *out);
    for (size_t i = 0; i < f->reg_count; ++i)
        intervals[i] = (struct interval){(int)i, SIZE_MAX, SIZE_MAX};
    for (size_t b = 0; b < count; ++b) {
        live_out(d, blocks, &blocks[b], out, words);
        for (size_t i = 0; i < f->reg_count; ++i) {
            if (blocks[b].in[i >> 6] >> (i & 63) & 1)
                stretch(&intervals[i], blocks[b].first);
            if (out[i >> 6] >> (i & 63) & 1)
                stretch(&intervals[i], blocks[b].end);
        }
        for (size_t i = blocks[b].first; i < blocks[b].end; ++i) {
            struct liveness l = {.intervals = intervals, .at = i};
            visit_registers(d, &f->insns[i], note_interval, &l);
        }
    }
    // wgmma may write an accumulator until a later wait: it keeps its place for the whole function.
    for (size_t i = 0; i < f->reg_count && d->watched; ++i)
        if (d->accumulates[i])
            intervals[i] = (struct interval){(int)i, 0, f->insn_count};
    return intervals;
}

struct pressure {
    uint64_t *live;
    bool defines; // whether definitions are visited; otherwise uses are
    int now;      // words of 4 bytes that are live
};

static int register_words(const struct decoder *d, int reg)
{
    return (d->function->regs[reg].bytes + 3) / 4; // 0 for predicates: they have other registers
}

static void note_pressure(struct decoder *d, int reg, bool defines, void *data)
{
    struct pressure *p = data;
    uint64_t bit = UINT64_C(1) << (reg & 63), *live = &p->live[reg >> 6];
    if (defines != p->defines || !(*live & bit) == defines)
        return;
    *live ^= bit;
    p->now += defines ? -register_words(d, reg) : register_words(d, reg);
}

// The most words that are live at one point. A compiler that neither spills nor recomputes needs as
// many registers. Walks each block backwards.
static int most_live(struct decoder *d, struct flow_block *blocks, size_t count, size_t words)
{
    const struct function *f = d->function;
    struct pressure p = {.live = arena_alloc(&d->temporary, (words + 1) * sizeof *p.live)};
    int most = 0;
    for (size_t b = 0; b < count; ++b) {
        live_out(d, blocks, &blocks[b], p.live, words);
        p.now = 0;
        for (size_t i = 0; i < f->reg_count; ++i)
            p.now += p.live[i >> 6] >> (i & 63) & 1 ? register_words(d, (int)i) : 0;
        for (size_t i = blocks[b].end; i-- > blocks[b].first;) {
            most = p.now > most ? p.now : most;
            p.defines = true;
            visit_registers(d, &f->insns[i], note_pressure, &p);
            p.defines = false;
            visit_registers(d, &f->insns[i], note_pressure, &p);
        }
    }
    return most;
}

// Registers whose intervals do not overlap share a place.
void allocate_registers(struct decoder *d, struct flow_block *blocks, size_t count)
{
    const struct function *f = d->function;
    size_t words = (f->reg_count + 63) / 64;
    find_live(d, blocks, count, words);
    d->callee->live_words = most_live(d, blocks, count, words);
    struct interval *intervals = find_intervals(d, blocks, count, words);
    d->slot = arena_alloc(&d->temporary, (f->reg_count + 1) * sizeof *d->slot);
    for (size_t i = 0; i < f->reg_count; ++i)
        d->slot[i] = d->scratch_at; // for registers that are never used
    qsort(intervals, f->reg_count, sizeof *intervals, by_start);
    // A list of places for each size: predicates, 2, 4, 8 and 16 bytes.
    struct place {
        struct place *next;
        uint32_t at;
        size_t busy_until;
    } * places[5] = {0};
    for (size_t i = 0; i < f->reg_count && intervals[i].start != SIZE_MAX; ++i) {
        const struct interval *v = &intervals[i];
        int bytes = f->regs[v->reg].bytes;
        int size = bytes ? __builtin_ctz((unsigned)bytes) : 0;
        struct place *place = places[size];
        while (place && place->busy_until >= v->start)
            place = place->next;
        if (!place) {
            place = arena_alloc(&d->temporary, sizeof *place);
            place->next = places[size];
            places[size] = place;
            place->at = bytes ? take(d, (size_t)bytes * WARP, 64) : take(d, 4, 4);
        }
        place->busy_until = v->end;
        d->slot[v->reg] = place->at;
    }
}

// ---- Flags that are polled ----------------------------------------------------------------------

struct use {
    int reg;
    bool found;
};

static void find_use(struct decoder *d, int reg, bool defines, void *data)
{
    struct use *use = data;
    (void)d;
    use->found |= !defines && reg == use->reg;
}

bool is_used(struct decoder *d, const struct operand *o)
{
    struct use use = {.reg = o->reg, .found = o->kind != OPERAND_REGISTER || o->pair >= 0};
    for (size_t i = 0; i < d->function->insn_count && !use.found; ++i)
        visit_registers(d, &d->function->insns[i], find_use, &use);
    return use.found;
}

// Whether a register's value only decides branches, directly or through at most `steps` logical
// operations.
static bool only_decides(struct decoder *d, int reg, int steps)
{
    const struct function *f = d->function;
    for (size_t i = 0; i < f->insn_count; ++i) {
        const struct insn *insn = &f->insns[i];
        struct use use = {.reg = reg};
        visit_registers(d, insn, find_use, &use);
        if (!use.found || (insn->guard == reg && control_of(d, insn) == CONTROL_JUMP))
            continue;
        if (steps == 0 || insn->guard == reg ||
            spelling_of(d, insn)->opcode->family != FAMILY_LOGIC ||
            insn->operands[0].kind != OPERAND_REGISTER || insn->operands[0].pair >= 0 ||
            !only_decides(d, insn->operands[0].reg, steps - 1))
            return false;
    }
    return true;
}

bool asks_again(struct decoder *d, const struct insn *load)
{
    const struct function *f = d->function;
    size_t at = (size_t)(load - f->insns);
    bool loop = false;

    for (size_t i = at; i < f->insn_count && !loop; ++i) {
        const struct insn *insn = &f->insns[i];
        if (control_of(d, insn) != CONTROL_JUMP || !insn->count ||
            insn->operands[0].kind != OPERAND_NAME)
            continue;
        const struct label *to = function_label(f, insn->scope, insn->operands[0].name);
        loop = to && to->insn <= at;
    }
    return loop && load->operands[0].kind == OPERAND_REGISTER &&
           only_decides(d, load->operands[0].reg, 6);
}
