// test_decode.c: the decoder's tables (opcodes.def, modifiers.def), what they say of an instruction,
// for which lanes a block of instructions waits, and instructions that are refused by name.
#include "ptxsim/decode/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER ".version 9.0\n.target sm_90a\n.address_size 64\n"

static const char *const row_names[] = {
#define OPCODE(name, ...) name,
#include "ptxsim/decode/extra/opcodes.def"
#include "ptxsim/decode/opcodes.def"
#undef OPCODE
};
enum { ROWS = sizeof row_names / sizeof row_names[0] };

static const char *const op_names[] = {
#define OP(name, ...) #name,
#include "ptxsim/ops/operations.def"
#undef OP
};

// ---- Tables -------------------------------------------------------------------------------------

static void every_row_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; ++i) {
        char longer[64];
        snprintf(longer, sizeof longer, "%s.nothing", row_names[i]);
        const struct opcode *row = opcode_find(row_names[i]);
        assert_string_equal(row->name, row_names[i]); // not another row
        assert_ptr_equal(opcode_find(longer), row);
        assert_ptr_not_equal(row->decode, decode_unknown);
    }
    assert_true(ROWS > 100);
}

static void the_longest_row_holds(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"bar.sync", "bar"},
        {"bar.warp.sync", "bar.warp"},
        {"bar.red.popc.u32", "bar.red"},
        {"barrier.cta.red.and.aligned.pred", "barrier.cta.red"},
        {"barrier.cta.sync", "barrier"},
        {"mad.lo.s32", "mad"},
        {"mad.lo.cc.u32", "mad.lo.cc"},
        {"rcp.approx.ftz.f32", "rcp.approx"},
        {"rcp.rn.f32", "rcp"},
        {"cp.async.cg.shared.global", "cp.async"},
        {"cp.async.bulk.wait_group.read", "cp.async.bulk.wait_group"},
        {"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", "cp.async.bulk"},
        {"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile", "cp.reduce.async.bulk"},
        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", "st.async"},
        {"red.async.relaxed.cluster.shared::cluster.add.u32", "red.async"},
        {"wmma.store.d.sync.aligned.row.m16n16k16.f32", "wmma.store"},
        {"mbarrier.pending_count.b64", "mbarrier.pending_count"},
        {"red.add.f32", "red"},
        {"redux.sync.add.s32", "redux"},
        {"tex.level.2d.v4.f32.f32", "tex"},
        {"tld4.a.a2d.v4.u32.f32", "tld4"},
        {"sust.b.2d.v2.b32.trap", "sust"},
        // The simulator has no row for these.
        {"txq.width.b32", ""},
        {"ba", ""},
        {"barr.sync", ""},
        {"wmma.fill", ""},
        {"cp.reduce.async", ""},
        {"multimem.red.global.add.f32", ""},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i)
        assert_string_equal(opcode_find(list[i][0])->name, list[i][1]);
}

// Rows of arithmetic share their decoders, which find an operation by the row's name: so each such
// row needs an operation, and each operation a row.
static void rows_and_operations_belong_together(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; ++i) {
        const struct opcode *row = opcode_find(row_names[i]);
        if (row->decode != decode_arithmetic && row->decode != decode_rounded)
            continue;
        char start[32];
        size_t length = (size_t)snprintf(start, sizeof start, "%s_", row->name);
        for (char *dot = start; (dot = strchr(dot, '.'));)
            *dot = '_';
        bool any = false;
        for (int k = 0; k < OP_COUNT; ++k)
            any |= !strncmp(op_names[k], start, length);
        if (!any)
            fail_msg("no operation for the row \"%s\"", row->name);
    }
    // These operations are parts of instructions: no opcode of PTX begins with their names.
    static const char *const parts[] = {"pack_",    "part_", "window_", "sat_",  "carry_",
                                        "carried_", "relu_", "load_",   "store_"};
    for (int k = 0; k < OP_COUNT; ++k) {
        bool part = false;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i)
            part |= !strncmp(op_names[k], parts[i], strlen(parts[i]));
        char base[32];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(op_names[k], "_"), op_names[k]);
        if ((opcode_find(base)->decode == decode_unknown) != part)
            fail_msg("\"%s\": %s", op_names[k], part ? "has a row, too" : "has no row");
        assert_int_equal(op_find(op_names[k]), k);
    }
    assert_int_equal(op_find("add"), -1);
    assert_int_equal(op_find(""), -1);
}

static void modifiers_and_types(void **state)
{
    (void)state;
    for (int m = 1; m < MODIFIER_COUNT; ++m)
        assert_int_equal(modifier_find(modifier_names[m]), m);
    assert_int_equal(modifier_find("shared::cta"), MOD_shared_cta);
    assert_int_equal(modifier_find("mbarrier::complete_tx::bytes"), MOD_complete_tx_bytes);
    assert_int_equal(modifier_find("shared::"), MOD_NONE);
    assert_int_equal(modifier_find(""), MOD_NONE);
    assert_int_equal(modifier_find("f1"), MOD_NONE);
    assert_int_equal(modifier_types[MOD_bf16x2].bytes, 4);
    assert_int_equal(modifier_types[MOD_bf16x2].pair, NUMBER_BF16);
    assert_int_equal(modifier_types[MOD_bf16x2].op_class, CLASS_HALF);
    assert_int_equal(modifier_types[MOD_e5m2].matrix, MATRIX_E5M2);
    assert_int_equal(modifier_types[MOD_b8].number, NUMBER_U8);
    assert_int_equal(modifier_types[MOD_sync].bytes, -1);
    assert_int_equal(modifier_types[MOD_NONE].bytes, -1);
    assert_int_equal(modifier_types[MOD_NONE].number, NUMBER_NONE);
}

// ---- Programs -----------------------------------------------------------------------------------

static const char registers[] =
    ".reg .b16 %h<4>; .reg .b32 %r<12>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .pred %p<4>;\n"
    ".shared .align 16 .b8 tile[1024];\n";

// The program of a body, or NULL with the reason in `why`.
static struct program *decode(struct module **module, const char *body, char *why, size_t size)
{
    char text[4096];
    snprintf(text, sizeof text,
             HEADER ".func (.param .b32 y) twice(.param .b32 x)\n{ ret; }\n"
                    ".visible .entry k(.param .u64 out)\n{\n%s%s\nret;\n}\n",
             registers, body);
    *module = module_parse(text, why, size);
    if (!*module)
        fail_msg("%s: %s", body, why);
    return program_decode(module_kernel(*module, "k"), why, size);
}

// Decodes a body; `insn` gets its last instruction, `block` the basic block of that instruction.
static struct program *decode_one(struct module **module, const char *body, struct insn_info *insn,
                                  struct basic_block *block)
{
    char why[512] = "";
    struct program *p = decode(module, body, why, sizeof why);
    if (!p)
        fail_msg("%s", why);
    size_t ret = 0, at = 0; // the kernel comes before the functions that it calls
    while (strcmp(p->insns[ret].opcode, "ret"))
        ret++;
    while (at + 1 < p->block_count && p->blocks[at + 1].insn < ret)
        at++;
    *insn = p->insns[ret - 1];
    *block = p->blocks[at];
    return p;
}

static void classes_and_what_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum op_class class;
        int mufu;
        bool barrier, store;
    } list[] = {
        {"add.s32 %r1, %r2, %r3;", CLASS_INT, 0, 0, 0},
        {"add.f32 %f1, %f2, %f3;", CLASS_FP32, 0, 0, 0},
        {"setp.lt.f64 %p1, %d1, %d2;", CLASS_FP64, 0, 0, 0},
        {"fma.rn.bf16x2 %r1, %r2, %r3, %r3;", CLASS_HALF, 0, 0, 0},
        {"rcp.rn.f32 %f1, %f2;", CLASS_FP32, 0, 0, 0},
        {"rcp.approx.f32 %f1, %f2;", CLASS_MUFU, 1, 0, 0},
        {"ex2.approx.f16x2 %r1, %r2;", CLASS_MUFU, 2, 0, 0},
        {"cvt.rn.f32.s32 %f1, %r1;", CLASS_CONVERT, 0, 0, 0},
        {"selp.f32 %f1, %f2, %f3, %p1;", CLASS_MOVE, 0, 0, 0},
        {"and.pred %p1, %p2, %p3;", CLASS_INT, 0, 0, 0},
        {"ld.param.u64 %d1, [out];", CLASS_CONST, 0, 0, 0},
        {"ld.shared.u32 %r1, [tile];", CLASS_SHARED_LOAD, 0, 0, 0},
        {"st.shared.u32 [tile], %r1;", CLASS_SHARED_STORE, 0, 0, 1},
        {"ld.u32 %r1, [%d1];", CLASS_GLOBAL_LOAD, 0, 0, 0},
        {"st.global.f32 [%d1], %f1;", CLASS_GLOBAL_STORE, 0, 0, 1},
        {"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [tile], %r1, [tile];",
         CLASS_SHARED_STORE, 0, 0, 1},
        {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [tile], "
         "%r1, [tile];",
         CLASS_ATOMIC, 0, 0, 0},
        {"atom.global.add.u32 %r1, [%d1], 1;", CLASS_ATOMIC, 0, 0, 0},
        {"red.global.add.f32 [%d1], %f1;", CLASS_ATOMIC, 0, 0, 0},
        {"bar.sync 0;", CLASS_BARRIER, 0, 1, 0},
        {"barrier.red.popc.u32 %r1, 0, %p1;", CLASS_BARRIER, 0, 1, 0},
        {"bar.warp.sync -1;", CLASS_BARRIER, 0, 0, 0},
        {"mbarrier.init.shared.b64 [tile], 1;", CLASS_BARRIER, 0, 0, 0},
        {"membar.gl;", CLASS_OTHER, 0, 0, 0},
        {"cp.async.commit_group;", CLASS_COPY_ASYNC, 0, 0, 0},
        {"shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", CLASS_SHUFFLE, 0, 0, 0},
        {"activemask.b32 %r1;", CLASS_SHUFFLE, 0, 0, 0},
        {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];", CLASS_SHARED_LOAD, 0, 0, 0},
        {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%r1};", CLASS_SHARED_STORE, 0, 0, 1},
        {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2}, "
         "{%r3}, {%f0, %f1, %f2, %f3};",
         CLASS_TENSOR, 0, 0, 0},
        {"wgmma.fence.sync.aligned;", CLASS_OTHER, 0, 0, 0},
        {"prefetch.global.L2 [%d1];", CLASS_INT, 0, 0, 0},
        {"nanosleep.u32 20;", CLASS_OTHER, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        struct module *module;
        struct insn_info insn;
        struct basic_block block;
        struct program *p = decode_one(&module, list[i].body, &insn, &block);
        if (insn.op_class != list[i].class || insn.mufu != list[i].mufu ||
            insn.barrier != list[i].barrier || insn.store != list[i].store)
            fail_msg("%s: %s, mufu %d, barrier %d, store %d", list[i].body,
                     op_class_names[insn.op_class], insn.mufu, insn.barrier, insn.store);
        program_free(p);
        module_free(module);
    }
}

static void what_may_stand_in_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool substitutes, signals;
    } list[] = {
        {"add.f32 %f1, %f2, %f3;", false, false},
        {"div.rn.f32 %f1, %f2, %f3;", true, false},
        {"div.full.f32 %f1, %f2, %f3;", true, false},
        {"div.u32 %r1, %r2, %r3;", true, false},
        {"rem.s32 %r1, %r2, %r3;", true, false},
        {"rcp.rn.f32 %f1, %f2;", true, false},
        {"sqrt.rn.f32 %f1, %f2;", true, false},
        {"rcp.approx.f32 %f1, %f2;", false, false}, // a class of its own
        {"sqrt.approx.f32 %f1, %f2;", false, false},
        {"fma.rn.f64 %d1, %d2, %d3, %d3;", true, false},
        {"bar.sync 0;", false, true},
        {"barrier.cta.arrive 1, 64;", false, true},
        {"bar.warp.sync -1;", false, false},
        {"mbarrier.init.shared.b64 [tile], 1;", false, false},
        {"mbarrier.arrive.shared.b64 %d1, [tile];", false, true},
        {"mbarrier.test_wait.shared.b64 %p1, [tile], %d1;", false, false},
        {"st.shared.u32 [tile], %r1;", false, false},
        {"st.volatile.shared.u32 [tile], %r1;", false, true},
        {"ld.volatile.shared.u32 %r1, [tile];", false, false},
        {"st.release.cta.global.u32 [%d1], %r1;", false, true},
        {"atom.shared.add.u32 %r1, [tile], 1;", false, true},
        {"red.global.add.u32 [%d1], 1;", false, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        struct module *module;
        struct insn_info insn;
        struct basic_block block;
        struct program *p = decode_one(&module, list[i].body, &insn, &block);
        if (insn.substitutes != list[i].substitutes || insn.signals != list[i].signals)
            fail_msg("%s: substitutes %d, signals %d", list[i].body, insn.substitutes,
                     insn.signals);
        program_free(p);
        module_free(module);
    }
}

// `further` counts the integer products in an instruction (0 if a factor is an immediate), and
// operations on packed pairs; `selects` marks byte permutations whose selector is in a register.
static void products_and_choices_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int further;
        bool selects;
    } list[] = {
        {"mul.lo.u32 %r1, %r2, %r3;", 1, false},
        {"mad.lo.u32 %r1, %r2, %r3, %r9;", 1, false},
        {"mul.wide.s32 %d1, %r2, %r3;", 1, false},
        {"mul24.lo.u32 %r1, %r2, %r3;", 1, false},
        {"vmad.s32.s32.s32 %r1, %r2, %r3, %r9;", 1, false},
        {"vmad.s32.s32.s32 %r1, %r2.h1, %r3.b0, %r9;", 1, false},
        {"vabsdiff.s32.s32.s32.add %r1, %r2, %r3, %r9;", 0, false},
        {"dp4a.u32.u32 %r1, %r2, %r3, %r9;", 4, false},
        {"dp2a.lo.u32.u32 %r1, %r2, %r3, %r9;", 2, false},
        {"fma.rn.f16x2 %r1, %r2, %r3, %r9;", 1, false},
        {"mul.wide.s32 %d1, %r2, 4;", 0, false}, // an immediate, as for an address
        {"add.u32 %r1, %r2, %r3;", 0, false},
        {"mul.f32 %f1, %f2, %f3;", 0, false},
        {"prmt.b32 %r1, %r2, %r3, %r9;", 0, true},
        {"prmt.b32 %r1, %r2, %r3, 0x5410;", 0, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        struct module *module;
        struct insn_info insn;
        struct basic_block block;
        struct program *p = decode_one(&module, list[i].body, &insn, &block);
        if (insn.further != list[i].further || insn.selects != list[i].selects)
            fail_msg("%s: further %d, selects %d", list[i].body, insn.further, insn.selects);
        program_free(p);
        module_free(module);
    }
}

// Whether a basic block waits for lanes, and whether it knows the register of their mask, however
// many operations its instruction has.
static void blocks_know_whom_they_wait_for(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum sync_kind sync;
        bool mask;
    } list[] = {
        {"shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, %r9;", SYNC_MEMBERS, true},
        {"shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", SYNC_MEMBERS, true},
        {"vote.sync.any.pred %p1, !%p2, %r9;", SYNC_MEMBERS, true},
        {"match.any.sync.b32 %r1, %r2, %r9;", SYNC_MEMBERS, true},
        {"redux.sync.add.s32 %r1, %r2, %r9;", SYNC_MEMBERS, true},
        {"elect.sync _|%p1, %r9;", SYNC_MEMBERS, true},
        {"bar.warp.sync %r9;", SYNC_MEMBERS, true},
        // The special register is read only when the instruction executes, too late for the mask.
        {"bar.warp.sync %lanemask_eq;", SYNC_MEMBERS, false},
        {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];", SYNC_MEMBERS, false},
        {"bar.sync 0;", SYNC_BARRIER, false},
        {"activemask.b32 %r1;", SYNC_NONE, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        struct module *module;
        struct insn_info insn;
        struct basic_block block;
        struct program *p = decode_one(&module, list[i].body, &insn, &block);
        if (block.sync != list[i].sync || (block.members != NO_REGISTER) != list[i].mask ||
            (block.barrier != NULL) != (list[i].sync == SYNC_BARRIER))
            fail_msg("%s: sync %d, members %u", list[i].body, block.sync, block.members);
        program_free(p);
        module_free(module);
    }
}

// The block after a call begins with operations that fetch the call's result: a barrier that
// follows these operations is found, too.
static void a_barrier_after_a_call(void **state)
{
    (void)state;
    static const char body[] =
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), twice, (a); }\n"
        "barrier.red.popc.aligned.u32 %r1, 3, %p1;";
    struct module *module;
    struct insn_info insn;
    struct basic_block block;
    struct program *p = decode_one(&module, body, &insn, &block);
    assert_string_equal(insn.opcode, "barrier.red.popc.aligned.u32");
    assert_int_equal(block.sync, SYNC_BARRIER);
    assert_ptr_equal(p->ops[block.first].run, call_end_op);
    assert_non_null(block.barrier);
    assert_int_equal(block.barrier->kind, BARRIER_POPC);
    assert_true(block.barrier->aligned);
    program_free(p);
    module_free(module);
}

static void refused_by_name(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"tex.cube.v4.f32.s32 {%f1, %f2, %f3, %f0}, [%d1, {%r1, %r2, %r3, %r3}];",
         "tex.cube.v4.f32.s32 is not supported"},
        {"tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f0}, [%d1, {%r1, %r2, %r3, %r3}];",
         "tex.2dms.v4.f32.s32 is not supported"},
        {"tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2}];", "needs 3 coordinates"},
        {"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1}];", "needs 2 coordinates"},
        {"tex.2d.v4.f16.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2}];",
         "tex.2d.v4.f16.f32 is not supported"},
        {"tld4.r.3d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2, %f3, %f3}];",
         "tld4.r.3d.v4.f32.f32 is not supported"},
        {"tld4.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2}];",
         "tld4.2d.v4.f32.f32 is not supported"},
        {"sust.p.2d.b32.trap [%d1, {%r1, %r2}], %r3;", "sust.p.2d.b32.trap is not supported"},
        {"add.foo.f32 %f1, %f2, %f3;", "instruction add.foo.f32 is not supported"},
        {"add.rn.s32 %r1, %r2, %r3;", "instruction add.rn.s32 is not supported"},
        {"min.sat.f32 %f1, %f2;", "min.sat.f32 takes 3 operands"},
        {"mul.pred %p1, %p2, %p3;", "instruction mul.pred is not supported"},
        {"and.f32 %f1, %f2, %f3;", "instruction and.f32 is not supported"},
        {"shr.ftz.b32 %r1, %r2, %r3;", "instruction shr.ftz.b32 is not supported"},
        {"setp.lt.u16x2 %p1, %r1, %r2;", "instruction setp.lt.u16x2 is not supported"},
        {"setp.lt.nor.s32 %p1, %r1, %r2, %p2;", "instruction setp.lt.nor.s32 is not supported"},
        {"slct.rn.b32.s32 %r1, %r2, %r3, %r1;", "instruction slct.rn.b32.s32 is not supported"},
        {"prmt.b32.rc9 %r1, %r2, %r3, %r1;", "instruction prmt.b32.rc9 is not supported"},
        {"cvt.rs.f16.f32 %h1, %f1;", "instruction cvt.rs.f16.f32 is not supported"},
        {"cvt.rn.rs.e4m3x2.f32 %h1, %f1, %f2;", "cvt.rn.rs.e4m3x2.f32 is not supported"},
        {"ld.shared.e4m3 %h1, [tile];", "instruction ld.shared.e4m3 is not supported"},
        {"ld.shared %r1, [tile];", "instruction ld.shared is not supported"},
        {"atom.shared.nand.b32 %r1, [tile], 1;", "atom.shared.nand.b32 is not supported"},
        {"red.global.add.v2.f32 [%d1], %f1;", "red.global.add.v2.f32 is not supported"},
        {"shfl.up.b32 %r1, %r2, 1, 0;", "instruction shfl.up.b32 is not supported"},
        {"vote.most.b32 %r1, %p1;", "instruction vote.most.b32 is not supported"},
        {"cvt.pack.sat.u8.s32 %r1, %r2, %r1;", "cvt.pack.sat.u8.s32 is not supported"},
        {"mul24.hi.sat.s32 %r1, %r2, %r1;", "mul24.hi.sat.s32 is not supported"},
        {"redux.sync.min.f32 %f1, %f2, -1;", "redux.sync.min.f32 is not supported"},
        {"mbarrier.poke.b64 [tile];", "instruction mbarrier.poke.b64 is not supported"},
        {"mbarrier.arrive.shared.b64;", "needs more than 0 operands"},
        {"cp.async.wait_group -1;", "instruction cp.async.wait_group is not supported"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.exch.u32 [%d1], [tile], 16;",
         "instruction cp.reduce.async.bulk.global.shared::cta.bulk_group.exch.u32 is not"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f32 [%d1], [tile], 16;",
         "instruction cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f32 is not"},
        {"cp.reduce.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.add.u32 [tile], "
         "[%d1], 16, [tile];",
         "complete_tx::bytes.add.u32 is not supported"},
        {"st.async.shared::cluster.u32 [tile], %r1, [tile];",
         "instruction st.async.shared::cluster.u32 is not supported"},
        {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.exch.b32 [tile], "
         "%r1, [tile];",
         "complete_tx::bytes.exch.b32 is not supported"},
        {"multimem.red.relaxed.sys.global.add.f32 [%d1], %f1;",
         "instruction multimem.red.relaxed.sys.global.add.f32 is not supported"},
        {"multimem.ld_reduce.global.add.f32 %f1, [%d1];",
         "instruction multimem.ld_reduce.global.add.f32 is not supported"},
        {"cp.async.bulk.global.shared::cta.multicast.bulk_group [%d1], [tile], 16;",
         "instruction cp.async.bulk.global.shared::cta.multicast.bulk_group is not supported"},
        {"cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%d1, {%r1}], [tile];",
         "cp.async.bulk.tensor.6d.global.shared::cta.bulk_group is not supported"},
        {"wgmma.flush.sync.aligned;", "instruction wgmma.flush.sync.aligned is not supported"},
        {"mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2}, "
         "{%r3}, {%f0, %f1, %f2, %f3};",
         "instruction mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 is not supported"},
        // This shape once made the decoder divide by zero.
        {"wmma.store.d.sync.aligned.row.m8n8k4.s8 [tile], {%r1}, %r2;",
         "instruction wmma.store.d.sync.aligned.row.m8n8k4.s8 is not supported"},
        {"stacksave.u32 %r1;", "instruction stacksave.u32 is not supported"},
        {"add.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.f32 %f1, %f2, %f3;",
         "instruction add.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.f32 is not supported"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        struct module *module;
        char why[512] = "";
        struct program *p = decode(&module, list[i][0], why, sizeof why);
        if (p || !strstr(why, list[i][1]))
            fail_msg("%s \"%s\" where \"%s\" was expected", list[i][0], why, list[i][1]);
        module_free(module);
    }
}

// ---- Names of files -----------------------------------------------------------------------------

static void files_have_their_own_names(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"/Gr\\303\\266\\303\\237e 1/my.cu", "/Gr\303\266\303\237e 1/my.cu"},
        {"Gr\303\266\303\237e.cu", "Gr\303\266\303\237e.cu"},
        {"a\\\"b\\\\3\\0613.cu", "a\"b\\313.cu"},
        {"\\033[2J\\n\\177\\302\\233\\334.cu", "?[2J?????.cu"}, // control characters, and Latin-1
        {"\\360\\237\\231\\202\\355\\240\\200.cu", "\360\237\231\202???.cu"}, // a surrogate
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        char text[512], why[512] = "";
        snprintf(text, sizeof text, HEADER ".file 1 \"%s\"\n", list[i][0]);
        struct module *module = module_parse(text, why, sizeof why);
        if (!module)
            fail_msg("%s: %s", list[i][0], why);
        assert_string_equal(module->files[1], list[i][1]);
        module_free(module);
    }
}

static void callers_end_at_their_line(void **state)
{
    (void)state;
    static const char text[] = " (called at my, copy (2).cu:7, a: 1/b:3.cu:12)";
    size_t length;
    const char *place = next_caller(text, &length);
    assert_int_equal(length, strlen("my, copy (2).cu:7"));
    assert_memory_equal(place, "my, copy (2).cu:7", length);
    place = next_caller(place + length, &length);
    assert_int_equal(length, strlen("a: 1/b:3.cu:12"));
    assert_memory_equal(place, "a: 1/b:3.cu:12", length);
    assert_null(next_caller(place + length, &length));
    assert_null(next_caller("", &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_by_its_name),
        cmocka_unit_test(the_longest_row_holds),
        cmocka_unit_test(rows_and_operations_belong_together),
        cmocka_unit_test(modifiers_and_types),
        cmocka_unit_test(classes_and_what_is_counted),
        cmocka_unit_test(blocks_know_whom_they_wait_for),
        cmocka_unit_test(what_may_stand_in_is_known),
        cmocka_unit_test(products_and_choices_are_known),
        cmocka_unit_test(a_barrier_after_a_call),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(files_have_their_own_names),
        cmocka_unit_test(callers_end_at_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
