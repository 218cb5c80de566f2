// decode.c: makes a struct program from a kernel and the functions that it calls (PTX ISA, "PTX
// Machine Model" and "Instruction Set").
//
// For each function it finds the basic blocks, the live registers and their places in the register
// file (by a linear scan, so that a kernel's frame stays in the first-level cache), and then makes
// the operations, by the decoders that opcodes.def names.
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_block(struct decoder *d, const struct flow_block *flow)
{
    struct program *p = d->program;
    p->blocks = array_grow(p->blocks, p->block_count, &d->block_capacity, sizeof *p->blocks);
    struct basic_block *b = &p->blocks[p->block_count++];
    *b = (struct basic_block){
        .first = (uint32_t)p->op_count, .insn = (uint32_t)p->insn_count, .members = NO_REGISTER};
    if (flow) {
        b->sync = (uint8_t)flow->sync;
        b->ends_flow = flow->exits;
    }
}

// Whether an instruction is a div or rem of any type, or a form of rcp or sqrt that does not count
// for the special-function unit although the machine code gets its first guess there.
static bool divides(const struct decoder *d)
{
    static const char *const names[] = {"div", "rem", "rcp", "sqrt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(d->spelling->opcode->name, names[i]) == 0)
            return true;
    return false;
}

// How many products of two integers in registers an instruction makes for a lane. A product with an
// immediate does not count: it is mostly part of an address.
static uint8_t integer_products(const struct decoder *d)
{
    static const struct {
        const char *name;
        uint8_t products;
    } known[] = {{"mul", 1}, {"mad", 1}, {"vmad", 1}, {"dp2a", 2}, {"dp4a", 4}};
    const char *name = d->spelling->opcode->name;
    const struct operand *operands = d->insn->operands;

    if (d->insn->count < 3 || operands[1].kind != OPERAND_REGISTER ||
        operands[2].kind != OPERAND_REGISTER)
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strncmp(name, known[i].name, strlen(known[i].name)) == 0)
            return known[i].products;
    return 0;
}

static bool is_packed(const struct decoder *d)
{
    return has(d, MOD_f16x2) || has(d, MOD_bf16x2);
}

// What each execution of an instruction by a warp adds to counts.further_arithmetic.
static uint8_t further_arithmetic(const struct decoder *d, enum op_class class)
{
    if (class == CLASS_INT)
        return integer_products(d);
    return (class == CLASS_HALF || class == CLASS_FP32) && is_packed(d);
}

// Whether an instruction is a prmt with its selector in a register.
static bool selects(const struct decoder *d)
{
    const struct insn *insn = d->insn;
    return strcmp(d->spelling->opcode->name, "prmt") == 0 && insn->count == 4 &&
           insn->operands[3].kind == OPERAND_REGISTER;
}

static void add_insn(struct decoder *d, const struct insn *insn, const struct spelling *spelling)
{
    struct program *p = d->program;
    if (!(p->insn_count & (p->insn_count - 1))) {
        size_t capacity = p->insn_count ? 2 * p->insn_count : 1;
        p->insns = realloc(p->insns, capacity * sizeof *p->insns);
        if (!p->insns)
            abort();
    }
    d->insn = insn;
    d->spelling = spelling;
    enum op_class class = classify(d);
    p->insns[p->insn_count++] = (struct insn_info){
        .at = insn->at,
        .opcode = insn->opcode,
        .ptx_line = insn->ptx_line,
        .name_length = (uint8_t)strlen(spelling->opcode->name),
        .op_class = (uint8_t) class,
        .mufu = class != CLASS_MUFU ? 0
                : is_packed(d)      ? 2
                                    : 1,
        .barrier = spelling->opcode->control == CONTROL_BARRIER,
        .store = is_store(d),
        .substitutes = divides(d) || class == CLASS_FP64,
        .signals = spelling->opcode->control == CONTROL_BARRIER || class == CLASS_ATOMIC,
        .further = further_arithmetic(d, class),
        .selects = selects(d),
        .family = spelling->opcode->family,
        .is_volatile = has(d, MOD_volatile),
        .swaps = has(d, MOD_cas),
    };
}

struct watching {
    struct watch watch;
    size_t capacity;
    uint32_t insn;
};

static void note_watched(struct decoder *d, int reg, bool defines, void *data)
{
    struct watching *n = data;
    struct watch *w = &n->watch;
    int number = d->watched[reg];
    if (number < 0)
        return;
    uint64_t bit = UINT64_C(1) << number % 64;
    if (defines)
        w->written[number / 64] |= bit;
    if (!d->accumulates[reg])
        return;
    w->touched[number / 64] |= bit;
    w->uses = array_grow(w->uses, (size_t)w->count, &n->capacity, sizeof *w->uses);
    w->uses[w->count++] = (struct watch_use){number, n->insn};
}

// Handles the run of instructions from `first` up to the next wgmma, or to the end of the block.
// Emits a watch_op that knows which of the watched registers they use, to find a use of an
// accumulator before the wait. Returns the beginning of the next run. insn: the program's number of
// the instruction `first`.
static size_t watch_stretch(struct decoder *d, size_t first, size_t end, uint32_t insn)
{
    struct function *f = d->function;
    struct watching n = {.watch.words = d->watched_words, .insn = insn};
    uint64_t *sets = arena_alloc(&d->program->arena, 2 * (size_t)d->watched_words * sizeof *sets);
    n.watch.touched = sets;
    n.watch.written = sets + d->watched_words;
    size_t at = first;
    bool any = false;
    for (; at < end && !is_wgmma(d->spelled[at]); ++at, ++n.insn)
        if (f->insns[at].guard < 0) // an instruction under a guard is perhaps not executed
            visit_registers(d, &f->insns[at], note_watched, &n);
    for (int i = 0; i < d->watched_words; ++i)
        any |= n.watch.touched[i] | n.watch.written[i];
    if (any) {
        struct watch *watch = arena_alloc(&d->program->arena, sizeof *watch);
        *watch = n.watch;
        watch->uses =
            arena_alloc(&d->program->arena, (size_t)(watch->count + 1) * sizeof *watch->uses);
        if (watch->count)
            memcpy(watch->uses, n.watch.uses, (size_t)watch->count * sizeof *watch->uses);
        struct op *op = emit(d, watch_op, 0);
        op->run = watch_op; // the watch is not under this instruction's guard
        op->inner = NULL;
        op->family = FAMILY_PLAIN;
        op->operands = watch;
    }
    free(n.watch.uses);
    return at < end ? at + 1 : end;
}

static const struct insn leave = {.opcode = "ret", .guard = -1};

static void decode_block(struct decoder *d, const struct flow_block *block)
{
    struct program *p = d->program;
    add_block(d, block);
    if (d->call_end) {
        d->insn = &leave; // the end of the call is not under the call's guard
        emit(d, call_end_op, 0)->operands = d->call_end;
        d->call_end = NULL;
    }
    size_t watched = block->first;
    for (size_t i = block->first; i < block->end; ++i) {
        add_insn(d, &d->function->insns[i], d->spelled[i]);
        if (d->watched_words && i >= watched)
            watched = watch_stretch(d, i, block->end, (uint32_t)(p->insn_count - 1));
        decode_insn(d);
        this_block(d)->insns++;
    }
    this_block(d)->count = (uint32_t)(p->op_count - this_block(d)->first);
}

// Adds a return at the end of a function, where control may arrive without one, or by a jump to a
// label there.
static void decode_end(struct decoder *d)
{
    d->call_end = NULL;
    add_block(d, NULL);
    add_insn(d, &leave, spell(d, &leave));
    decode_insn(d);
    this_block(d)->count = 1;
    this_block(d)->insns = 0;
    this_block(d)->ends_flow = true;
}

// Places the function's constants together at the end of the frame.
static void place_constants(struct decoder *d)
{
    struct program *p = d->program;
    struct callee *callee = d->callee;
    callee->frame_bytes = take(d, 0, 256);
    callee->constant_bytes = callee->frame_bytes - callee->constants_at;
    callee->constants = arena_alloc(&p->arena, callee->constant_bytes + 1);
    for (size_t i = 0; i < d->constant_count; ++i) {
        const struct constant *c = &d->constants[i];
        char *to = callee->constants + (c->at - callee->constants_at);
        for (int lane = 0; lane < (c->bytes ? WARP : 1); ++lane)
            memcpy(to + lane * c->bytes, &c->value, c->bytes ? c->bytes : 4);
        p->constants =
            array_grow(p->constants, p->constant_count, &d->place_capacity, sizeof *p->constants);
        p->constants[p->constant_count++] =
            (struct constant_place){c->at, (uint16_t)(callee - p->callees), c->bytes};
    }
}

static void decode_function(struct decoder *d, struct callee *callee)
{
    size_t count;
    d->callee = callee;
    d->function = callee->function;
    d->frame = FRAME_FIXED;
    d->constant_count = 0;
    // The scratch slots, and the carry of add.cc.
    d->scratch_at = take(d, SCRATCH_SLOTS * SCRATCH_BYTES + 4 * WARP, 64);
    spell_function(d);
    struct flow_block *blocks = find_blocks(d, &count);
    number_watched(d);
    allocate_registers(d, blocks, count);
    callee->block = (uint32_t)d->program->block_count;
    callee->constants_at = take(d, 0, 64);
    for (size_t b = 0; b < count; ++b)
        decode_block(d, &blocks[b]);
    decode_end(d);
    place_constants(d);
}

// ---- The program --------------------------------------------------------------------------------

static void add_callee(struct decoder *d, struct function *f)
{
    struct program *p = d->program;
    for (size_t i = 0; i < p->callee_count; ++i)
        if (p->callees[i].function == f)
            return;
    if (!f->has_body && (!strncmp(f->name, "cuda", 4) || !strncmp(f->name, "__cudaCDP2", 10)))
        fail(d,
             "calls %s: of the runtime, kernels have launches, cudaMalloc, cudaFree and "
             "cudaMemcpyAsync, and no more",
             f->name + (f->name[0] == '_' ? strlen("__") : 0));
    if (!f->has_body)
        fail(d, "function '%s' is declared, and no file of the program defines it", f->name);
    if (p->callee_count == 1024)
        fail(d, "more than 1024 functions");
    p->callees[p->callee_count++] = (struct callee){.function = f};
}

static void find_names(struct decoder *d, const struct operand *o)
{
    if (o->kind == OPERAND_VECTOR)
        for (int i = 0; i < o->count; ++i)
            find_names(d, &o->elements[i]);
    if (o->kind != OPERAND_NAME || special_find(o->name) >= 0 ||
        function_variable(d->function, d->insn->scope, o->name))
        return;
    struct function *f = module_function(d->module, d->function->unit, o->name);
    if (f && !f->is_kernel && !system_function(f)) // a kernel is launched, not called
        add_callee(d, f);
}

// Finds the functions that can be reached, and how many bytes their variables take.
static void collect(struct decoder *d)
{
    struct program *p = d->program;
    p->callees = arena_alloc(&p->arena, 1024 * sizeof *p->callees);
    p->shared_bytes = d->kernel->info.static_shared_bytes;
    add_callee(d, d->kernel->function);
    // Functions whose addresses are in initialised tables can be called, too.
    for (size_t i = 0; i < d->module->variable_count; ++i)
        for (struct relocation *r = d->module->variables[i]->relocations; r; r = r->next) {
            struct function *f = module_function(d->module, d->module->variables[i]->unit, r->name);
            if (f && f->has_body && !f->is_kernel)
                add_callee(d, f);
        }
    for (size_t c = 0; c < p->callee_count; ++c) {
        struct function *f = d->function = p->callees[c].function;
        for (size_t i = 0; i < f->insn_count; ++i) {
            const struct insn *insn = d->insn = &f->insns[i];
            enum control control = spell(d, insn)->opcode->control;
            bool labels = control == CONTROL_JUMP || control == CONTROL_SWITCH;
            for (int k = 0; k < insn->count && !labels; ++k) // a label is no function's name
                find_names(d, &insn->operands[k]);
        }
        size_t local = 0;
        for (size_t i = 0; i < f->variable_count; ++i) {
            struct variable *v = f->variables[i];
            if (v->space == SPACE_SHARED && c && !v->dynamic) {
                v->offset = (p->shared_bytes + v->align - 1) & ~(v->align - 1);
                p->shared_bytes = v->offset + v->size;
            } else if (is_local(d, v)) {
                v->offset = local = (local + v->align - 1) & ~(v->align - 1);
                local += v->size;
            }
        }
        p->callees[c].local_bytes = (local + 15) & ~(size_t)15;
    }
}

static void decode_program(struct decoder *d)
{
    struct program *p = d->program;
    p->cell_shift = 2;
    collect(d);
    for (size_t c = 0; c < p->callee_count; ++c)
        decode_function(d, &p->callees[c]);
    for (size_t c = 0; c < p->callee_count; ++c) {
        p->frames_file_bytes += p->callees[c].frame_bytes;
        p->frames_local_bytes += p->callees[c].local_bytes;
        if (c && p->callees[c].frame_bytes > p->largest_frame)
            p->largest_frame = p->callees[c].frame_bytes;
    }
    program_stack(p, 0);
}

// A level of calls takes at least LEVEL_BYTES of a GPU's stack, for return address and saved
// registers.
void program_stack(struct program *p, size_t bytes)
{
    enum { LEVEL_BYTES = 32, LEAST_LEVELS = 64, LEAST_LOCALS = 4096, LEAST_ALLOCA = 16384 };
    size_t levels = bytes / LEVEL_BYTES > LEAST_LEVELS ? bytes / LEVEL_BYTES : LEAST_LEVELS;

    p->file_bytes = p->frames_file_bytes + levels * p->largest_frame;
    p->local_bytes = p->frames_local_bytes;
    if (p->largest_frame)
        p->local_bytes += bytes > LEAST_LOCALS ? bytes : LEAST_LOCALS;
    if (p->has_alloca)
        p->local_bytes += bytes > LEAST_ALLOCA ? bytes : LEAST_ALLOCA;
    p->local_bytes = (p->local_bytes + 15) & ~(size_t)15;
}

static bool decode_guarded(struct decoder *d)
{
    if (setjmp(d->failed))
        return false;
    decode_program(d);
    return true;
}

struct program *program_decode(struct kernel *kernel, char *why, size_t size)
{
    if (kernel->function->unsupported[0]) {
        snprintf(why, size, "%s", kernel->function->unsupported);
        return NULL;
    }
    struct program *p = calloc(1, sizeof *p);
    struct decoder *d = calloc(1, sizeof *d);
    if (!p || !d)
        abort();
    p->kernel = kernel;
    *d = (struct decoder){.program = p,
                          .module = kernel->function->module,
                          .kernel = kernel,
                          .ops = ops_choose(),
                          .why = why,
                          .why_size = size};
    bool good = decode_guarded(d);
    arena_free(&d->temporary);
    free(d->constants);
    free(d);
    if (!good) {
        program_free(p);
        return NULL;
    }
    return p;
}

void program_free(struct program *p)
{
    if (!p)
        return;
    free(p->ops);
    free(p->blocks);
    free(p->insns);
    free(p->constants);
    arena_free(&p->arena);
    free(p);
}

void module_free(struct module *module)
{
    if (!module)
        return;
    for (size_t i = 0; module->kernels && i < module->kernel_count; ++i)
        program_free(module->kernels[i].program);
    module_drop(module);
}
