// test_addresses.c: every opcode that takes an address, at invalid addresses. A form is an
// instruction with an address to be filled in. Loads, stores and atomic operations are generated
// from the simulator's tables, opcodes.def and modifiers.def; the other forms are listed below. A
// row of opcodes.def without an address test here is a failure that names it.
//
// Each form runs at 0, at -1 to -16, around 2^32 and 2^56, and at both ends of each window of
// memory that it may reach, with addresses of 32 and 64 bits, by one lane, by all lanes at one
// place, and by lanes at consecutive places. It runs under the sanitizers; an access out of bounds
// must be reported as a fault, an access in bounds must succeed.
#include "ptxsim/exec/exec.h"
#include "ptxsim/ops/extra/texture.h"
#include "ptxsim/ops/tensor_map.h"

#include <sanitizer/common_interface_defs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SHARED = 1024, LOCAL = 64, PARAMS = 48, BUFFER = 1024, BARRIER_AT = 512, TEXELS = 64 };

// ---- Rows and types, from the tables ------------------------------------------------------------

static const struct row {
    const char *name, *decoder;
} rows[] = {
#define OPCODE(name, decoder, ...) {name, #decoder},
#include "ptxsim/decode/extra/opcodes.def"
#include "ptxsim/decode/opcodes.def"
#undef OPCODE
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct type {
    const char *name;
    int bytes;
} types[] = {
#define TYPE(name, bytes, ...) {#name, bytes},
#define MODIFIER(name)
#define MODIFIER_AS(name, text)
#include "ptxsim/decode/modifiers.def"
#undef TYPE
#undef MODIFIER
#undef MODIFIER_AS
};
enum { TYPES = sizeof types / sizeof types[0] };

// Decoders of opcodes that access no memory by an address which the program gives.
// clang-format off
static const char *const without[] = {
    "activemask",     "add_carry",        "alloca",       "arithmetic",  "await_dependency", "bar",
    "bar_warp",       "multiply_24_high", "start_dependents", "vote_here",
    "barrier",        "bfi",              "branch",       "bulk_group",  "cluster_arrive", "cluster_wait",
    "copy_group",     "createpolicy",     "cvt",          "cvta",        "elect",         "exit",
    "fence",          "fence_proxy",      "getctarank",   "isspacep",    "logic",         "lop3",
    "mad",            "mapa",             "match",        "mbarrier_pending", "mma",      "mov",
    "movmatrix",      "multiply_carry",   "nanosleep",    "nothing",     "redux",         "return",
    "rounded",        "selp",             "set",          "setmaxnreg",  "setp",          "shfl",
    "shift_right",    "slct",             "sparse",       "sparse_ordered", "stackrestore", "stacksave",
    "subtract_carry", "switch",
    "trap",           "video",            "vote",         "wgmma_fence", "wgmma_group",   "wmma_mma",
};
// clang-format on

static const char *const handles[] = {"tex", "tld4", "suld", "sust"};

static bool has_name(const char *const *names, size_t count, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < count; ++i)
        found |= !strcmp(names[i], name);
    return found;
}

// ---- Forms --------------------------------------------------------------------------------------

enum need {
    EXACT,   // succeeds if in bounds and aligned; else a fault
    BOUNDS,  // out of bounds: a fault; in bounds any result is right
    NOTHING, // accesses nothing: always succeeds
    REFUSED, // never succeeds
    CLEAN,   // any result is right; only the sanitizers look
};

// Letters of `windows`: s shared, l local, p parameters, g the buffer, b the mbarrier, each by an
// address of its own space; S L P B the same by a generic address; r (by an address of its space)
// and R (generic) the shared memory of both CTAs of the cluster; m a tensor's map; x a surface's
// row.
//
// In a body, ^ is the opcode, ~ the address; a ? stands before an instruction that only some lanes
// execute. %b is the mbarrier's address, %s and %g valid addresses in shared and global memory, %m
// that of a tensor's map, %t and %u handles of a texture and a surface. %at is the tried address as
// 64 bits, %size its lower 32 bits as a number.
struct form {
    const char *decoder, *body, *windows;
    int bytes;
    enum need need;
    bool alone;   // executed by one lane only
    int threads;  // of the CTA; 0: 32
    bool whole;   // executed by whole warps: all lanes at one address, or `row_step` bytes apart
    int row_step; // if whole: bytes between the addresses of neighbouring lanes; 0: one address
};

// A table of forms; most rows are one line.
// clang-format off

#define WAIT \
    "{.reg .pred w; wait: mbarrier.try_wait.parity.shared.b64 w, [%b], 0; @!w bra wait;}"
#define EXPECT(bytes) "?mbarrier.arrive.expect_tx.shared.b64 %d5, [%b], " #bytes ";\n"
#define COMMIT "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
#define BULK ".shared::cluster.global.mbarrier::complete_tx::bytes "
#define BOX ".shared::cluster.global.tile.mbarrier::complete_tx::bytes "

static const struct form forms[] = {
    {"prefetch", "?^.global.L2 [~];", "", 1, .need = NOTHING},
    {"prefetch", "?^.L1 [~];", "", 1, .need = NOTHING},
    {"bulk_prefetch", "?^.L2.global [~], 16;", "", 1, NOTHING, .alone = true},

    {"copy", "?^.ca.shared.global [~], [%g], 4; cp.async.wait_all;", "sS", 4, EXACT, .alone = true},
    {"copy", "?^.ca.shared.global [~], [%g], 8; cp.async.wait_all;", "sS", 8, EXACT, .alone = true},
    {"copy", "?^.cg.shared.global [~], [%g], 16; cp.async.wait_all;", "sS", 16, .need = BOUNDS},
    {"copy", "?^.cg.shared.global [%s], [~], 16; cp.async.wait_all;", "g", 16, EXACT, .alone = true},
    {"copy", "{.reg .b32 u; shl.b32 u, %lane, 4; add.u32 u, u, %s; ?^.cg.shared.global [u], [~], 16; "
             "cp.async.wait_all;}", "g", 16, .need = EXACT},
    {"copy", "?^.ca.shared.global [~], [%g], 8, %r0; cp.async.wait_all;", "sS", 8, EXACT, .alone = true},
    {"copy", "?^.ca.shared.global [%s], [%g], 8, %size; cp.async.wait_all;", "", 8, .need = CLEAN},
    {"copy_mbarrier", "?^.arrive.shared.b64 [~];", "bB", 8, EXACT, .alone = true},
    {"copy_mbarrier", "?^.arrive.noinc.shared.b64 [~];", "bB", 8, EXACT, .alone = true},

    {"bulk", EXPECT(16) "?^" BULK "[~], [%g], 16, [%b];" WAIT, "sSrR", 16, BOUNDS, .alone = true},
    {"bulk", EXPECT(16) "?^" BULK "[%s], [~], 16, [%b];" WAIT, "g", 16, EXACT, .alone = true},
    {"bulk", EXPECT(16) "?^" BULK "[%s], [%g], 16, [~];" WAIT, "bB", 8, EXACT, .alone = true},
    {"bulk", "?^" BULK "[%s], [%g], %size, [%b];", "", 8, CLEAN, .alone = true},
    {"bulk", EXPECT(16) "?^.multicast::cluster" BULK "[~], [%g], 16, [%b], %h0;", "", 16, CLEAN, .alone = true},
    {"bulk", "?^.global.shared::cta.bulk_group [~], [%s], 16;" COMMIT, "g", 16, EXACT, .alone = true},
    {"bulk", "?^.global.shared::cta.bulk_group [%g], [~], 16;" COMMIT, "sS", 16, EXACT, .alone = true},
    {"bulk", "?^.global.shared::cta.bulk_group [%g], [%s], %size;" COMMIT, "", 8, CLEAN, .alone = true},
    {"bulk", EXPECT(16) "?^.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [~], [%s], 16, [%b];" WAIT,
     "sSrR", 16, BOUNDS, .alone = true},
    {"bulk", EXPECT(16) "?^.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%s], [~], 16, [%b];" WAIT,
     "sS", 16, BOUNDS, .alone = true},
    {"bulk", "?^.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%s], [%s+64], %size, [%b];", "", 16,
     CLEAN, .alone = true},
    {"bulk", "?^.global.shared::cta.bulk_group.add.u32 [~], [%s], 16;" COMMIT, "g", 16, EXACT, .alone = true},
    {"bulk", "?^.global.shared::cta.bulk_group.add.u64 [%g], [~], 16;" COMMIT, "sS", 16, EXACT, .alone = true},
    {"bulk", EXPECT(16) "?^.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [~], [%s], 16, [%b];",
     "sSrR", 16, BOUNDS, .alone = true},
    {"bulk", EXPECT(32) "?^.tensor.1d" BOX "[~], [%m, {%r0}], [%b];" WAIT, "sSrR", 32, BOUNDS, .alone = true},
    {"bulk", EXPECT(32) "?^.tensor.1d" BOX "[%s], [~, {%r0}], [%b];", "m", 128, BOUNDS, .alone = true},
    {"bulk", EXPECT(32) "?^.tensor.1d" BOX "[%s], [%m, {%r0}], [~];", "bB", 8, EXACT, .alone = true},
    {"bulk", EXPECT(32) "?^.tensor.1d" BOX "[%s], [%m, {%size}], [%b];", "", 8, CLEAN, .alone = true},
    {"bulk", "?^.tensor.1d.global.shared::cta.tile.bulk_group [~, {%r0}], [%s];" COMMIT, "m", 128, BOUNDS,
     .alone = true},
    {"bulk", "?^.tensor.1d.global.shared::cta.tile.bulk_group [%m, {%r0}], [~];" COMMIT, "sS", 32, BOUNDS,
     .alone = true},
    {"bulk", "?^.tensor.1d.global.shared::cta.add.tile.bulk_group [~, {%r0}], [%s];" COMMIT, "m", 128, BOUNDS,
     .alone = true},
    {"bulk", "?^.tensor.1d.global.shared::cta.add.tile.bulk_group [%m, {%r0}], [~];" COMMIT, "sS", 32, BOUNDS,
     .alone = true},

    {"mbarrier", "?^.init.shared.b64 [~], 1;", "sS", 8, EXACT, .alone = true},
    {"mbarrier", "?^.init.b64 [~], 1;", "S", 8, EXACT, .alone = true},
    {"mbarrier", "?^.inval.shared.b64 [~];", "sS", 8, EXACT, .alone = true},
    {"mbarrier", "?^.arrive.shared.b64 %d0, [~];", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.arrive.release.cluster.shared::cluster.b64 _, [~];", "bB", 8, BOUNDS, .alone = true},
    {"mbarrier", "?^.arrive.expect_tx.shared.b64 %d0, [~], 16;", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.arrive.expect_tx.shared.b64 %d0, [%b], %size;", "", 8, CLEAN, .alone = true},
    {"mbarrier", "?^.arrive_drop.shared.b64 %d0, [~];", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.expect_tx.relaxed.cta.shared::cta.b64 [~], 16;", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.expect_tx.relaxed.cta.shared::cta.b64 [%b], %size; ?^.expect_tx.relaxed.cta.shared::cta.b64 "
                 "[%b], %size;", "", 8, CLEAN, .alone = true},
    {"mbarrier", "?^.complete_tx.relaxed.cta.shared::cta.b64 [~], 16;", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.complete_tx.relaxed.cta.shared::cta.b64 [%b], %size;", "", 8, CLEAN, .alone = true},
    {"mbarrier", "?^.test_wait.parity.shared.b64 %p1, [~], 1;", "bB", 8, EXACT, .alone = true},
    {"mbarrier", "?^.try_wait.shared.b64 %p1, [~], %d0;", "bB", 8, EXACT, .alone = true},

    {"store_async", EXPECT(4) "?^.shared::cluster.mbarrier::complete_tx::bytes.b32 [~], %r0, [%b];", "sSrR", 4,
     BOUNDS, .alone = true},
    {"store_async", EXPECT(16) "?^.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [~], {%d0, %d1}, [%b];",
     "sSrR", 16, BOUNDS, .alone = true},
    {"store_async", EXPECT(4) "?^.shared::cluster.mbarrier::complete_tx::bytes.b32 [%s], %r0, [~];", "bB", 8, BOUNDS,
     .alone = true},
    {"red_async", EXPECT(4) "?^.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [~], %r0, [%b];",
     "sSrR", 4, BOUNDS, .alone = true},
    {"red_async", EXPECT(4) "?^.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%s], %r0, [~];",
     "bB", 8, BOUNDS, .alone = true},

    {"ldmatrix", "^.sync.aligned.m8n8.x1.shared.b16 %r0, [~];", "s", 16, BOUNDS, .whole = true},
    {"ldmatrix", "^.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3}, [~];", "s", 16, BOUNDS, .whole = true},
    {"ldmatrix", "^.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [~];", "s", 16, EXACT, .whole = true,
     .row_step = 16},
    {"ldmatrix", "^.sync.aligned.m8n8.x2.b16 {%r0, %r1}, [~];", "S", 16, BOUNDS, .whole = true},
    {"stmatrix", "^.sync.aligned.m8n8.x4.shared.b16 [~], {%r0, %r1, %r2, %r3};", "s", 16, EXACT, .whole = true,
     .row_step = 16},
    {"stmatrix", "^.sync.aligned.m8n8.x1.trans.shared.b16 [~], %r0;", "s", 16, BOUNDS, .whole = true},
    {"stmatrix", "^.sync.aligned.m8n8.x2.b16 [~], {%r0, %r1};", "S", 16, BOUNDS, .whole = true},
#define HALVES "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
#define WMMA(spaces, windows) \
    {"wmma_load", "^.a.sync.aligned.row.m16n16k16" spaces ".f16 " HALVES ", [~];", windows, 512, BOUNDS, .whole = true}, \
    {"wmma_load", "^.b.sync.aligned.row.m16n16k16" spaces ".f16 " HALVES ", [~];", windows, 512, BOUNDS, .whole = true}, \
    {"wmma_load", "^.a.sync.aligned.row.m16n16k16" spaces ".s8 {%r0, %r1}, [~];", windows, 256, BOUNDS, .whole = true}, \
    {"wmma_load", "^.b.sync.aligned.row.m16n16k16" spaces ".u8 {%r0, %r1}, [~];", windows, 256, BOUNDS, .whole = true}, \
    {"wmma_load", "^.c.sync.aligned.row.m16n16k16" spaces ".f32 " HALVES ", [~];", windows, 1024, BOUNDS, .whole = true}, \
    {"wmma_load", "^.c.sync.aligned.col.m16n16k16" spaces ".f16 {%r0, %r1, %r2, %r3}, [~];", windows, 512, BOUNDS, \
     .whole = true}, \
    {"wmma_load", "^.a.sync.aligned.row.m8n8k4" spaces ".f64 %d0, [~];", windows, 256, BOUNDS, .whole = true}, \
    {"wmma_load", "^.a.sync.aligned.row.m16n16k16" spaces ".f16 " HALVES ", [%s], %size;", "", 512, CLEAN, .whole = true}, \
    {"wmma_store", "^.d.sync.aligned.row.m16n16k16" spaces ".f32 [~], " HALVES ";", windows, 1024, BOUNDS, .whole = true}, \
    {"wmma_store", "^.d.sync.aligned.col.m16n16k16" spaces ".f32 [~], " HALVES ";", windows, 1024, BOUNDS, .whole = true}, \
    {"wmma_store", "^.d.sync.aligned.row.m16n16k16" spaces ".f16 [~], {%r0, %r1, %r2, %r3};", windows, 512, BOUNDS, \
     .whole = true},
    WMMA(".shared", "s") WMMA(".global", "g") WMMA("", "Sg")
    {"wgmma", "wgmma.fence.sync.aligned; {.reg .b64 x; .reg .pred t; setp.eq.u32 t, 0, 0; cvt.u64.u32 x, %size; "
     "shr.u64 x, x, 4; and.b64 x, x, 16383; ^.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
     "{%r0, %r1, %r2, %r3}, x, t, 1, 1, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;}", "",
     16, CLEAN, .threads = 128, .whole = true},
    {"wgmma", "wgmma.fence.sync.aligned; {.reg .b64 x; .reg .pred t; setp.eq.u32 t, 0, 0; cvt.u64.u32 x, %size; "
     "shl.b64 x, x, 32; or.b64 x, x, %at; ^.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
     "x, x, t, 1, 1, 1, 1; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;}", "", 16, CLEAN,
     .threads = 128, .whole = true},

    {"tex", "?^.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [~, {%r4}];", "", 1, REFUSED, .alone = true},
    {"tex", "?^.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%size}];", "", 1, NOTHING, .alone = true},
    {"tex", "?^.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%fsize}];", "", 1, NOTHING, .alone = true},
    {"tld4", "?^.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [~, {%f4, %f5}];", "", 1, REFUSED, .alone = true},
    {"suld", "?^.b.1d.b32.trap %r0, [~, {%r1}];", "", 1, REFUSED, .alone = true},
    {"suld", "?^.b.1d.b32.trap %r0, [%u, {%size}];", "x", 4, EXACT, .alone = true},
    {"suld", "?^.b.1d.b32.clamp %r0, [%u, {%size}];", "", 4, CLEAN, .alone = true},
    {"suld", "?^.b.1d.b32.zero %r0, [%u, {%size}];", "", 4, CLEAN, .alone = true},
    {"sust", "?^.b.1d.b32.trap [~, {%r1}], %r0;", "", 1, REFUSED, .alone = true},
    {"sust", "?^.b.1d.v4.b32.trap [%u, {%size}], {%r0, %r1, %r2, %r3};", "x", 16, EXACT, .alone = true},
    {"sust", "?^.b.1d.b8.zero [%u, {%size}], %h0;", "", 1, CLEAN, .alone = true},

    {"call", "{.reg .b64 f; mov.b64 f, %at; to: .callprototype _ (); ?call f, (), to;}", "", 1, REFUSED, .alone = true},
};
// clang-format on
enum { FORMS = sizeof forms / sizeof forms[0] };

// ---- Running a form -----------------------------------------------------------------------------

static char *buffer, *texels;
static struct tensor_map *map;
static struct texture texture, surface;
static uint64_t texture_handle, surface_handle;

struct params {
    uint64_t at;
    uint32_t step, lanes;
    uint64_t good, map, texture, surface;
};

// Makes a module with a kernel of one form; a launch shows whether the simulator has the
// instruction. wide: the address register has 64 bits, not 32; offset: bytes that the instruction
// adds to it.
static struct module *kernel_of(const struct form *form, const char *opcode, bool wide, int offset)
{
    static char text[16384];
    int threads = form->threads ? form->threads : WARP, used;
    bool cluster = strchr(form->windows, 'r') != NULL;
    used = snprintf(
        text, sizeof text,
        ".version 9.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 at, .param .u32 step, .param .u32 lanes, .param .u64 good, "
        ".param .u64 map, .param .u64 tex, .param .u64 surf)\n{\n"
        ".shared .align 128 .b8 s[%d]; .local .align 16 .b8 l[%d];\n"
        ".reg .b16 %%h<4>; .reg .b32 %%r<8>; .reg .b64 %%d<8>; .reg .f32 %%f<8>; .reg .b128 %%w;\n"
        ".reg .b32 %%lane, %%lanes, %%step, %%b, %%s, %%size, %%k; .reg .f32 %%fsize;\n"
        ".reg .b64 %%at, %%g, %%m, %%t, %%u, %%y, %%z; .reg .b%d %%a; .reg .pred %%p<2>;\n"
        "ld.param.u64 %%at, [at]; ld.param.u32 %%step, [step]; ld.param.u32 %%lanes, [lanes];\n"
        "ld.param.u64 %%g, [good]; ld.param.u64 %%m, [map]; ld.param.u64 %%t, [tex];\n"
        "ld.param.u64 %%u, [surf]; mov.u32 %%lane, %%tid.x; setp.lt.u32 %%p0, %%lane, %%lanes;\n"
        "cvt.u32.u64 %%size, %%at; cvt.rn.f32.s32 %%fsize, %%size; mov.u32 %%s, s; add.u32 %%b, "
        "%%s, %d;\n"
        "mov.b64 %%d0, 0; mov.b64 %%d1, 0; mov.b128 %%w, {%%d0, %%d1}; mov.b64 %%z, l;\n"
        "mul.wide.u32 %%y, %%lane, %%step; add.u64 %%at, %%at, %%y; cvt.u%d.u64 %%a, %%at; sub.u%d "
        "%%a, %%a, %d;\n",
        SHARED, LOCAL, wide ? 64 : 32, BARRIER_AT, wide ? 64 : 32, wide ? 64 : 32, offset);
    for (int i = 0; i < SHARED / threads / 8; ++i)
        used += snprintf(
            text + used, sizeof text - (size_t)used,
            "mad.lo.u32 %%k, %%lane, 8, %d; add.u32 %%k, %%k, %%s; st.shared.b64 [%%k], %%d0;\n",
            i * threads * 8);
    used +=
        snprintf(text + used, sizeof text - (size_t)used,
                 "bar.sync 0; setp.eq.u32 %%p1, %%lane, 0; @%%p1 mbarrier.init.shared.b64 [%%b], "
                 "1; bar.sync 0;\n"
                 "fence.proxy.async.shared::cta;\n%s",
                 cluster ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" : "");
    for (const char *c = form->body; *c && used < (int)sizeof text - 64; ++c) {
        char address[32], one[2] = {*c, 0};
        snprintf(address, sizeof address, offset ? "%%a+%d" : "%%a", offset);
        const char *more = *c == '^' ? opcode : *c == '~' ? address : *c == '?' ? "@%p0 " : one;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s", more);
    }
    snprintf(text + used, sizeof text - (size_t)used, "\n%sret;\n}\n",
             cluster ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" : "");
    char why[256];
    struct module *module = module_parse(text, why, sizeof why);
    if (!module)
        fail_msg("%s\n%s", why, text);
    return module;
}

enum { MOST_TOLD = 20 };
static size_t runs, wrong;
static bool checked; // whether with all checks, like the grader's first run; its second only counts

static struct fault run(struct module *module, const struct form *form, uint64_t at, uint32_t step,
                        uint32_t lanes)
{
    bool cluster = strchr(form->windows, 'r') != NULL;
    struct params params = {.at = at,
                            .step = step,
                            .lanes = lanes,
                            .good = (uint64_t)(uintptr_t)buffer,
                            .map = (uint64_t)(uintptr_t)map,
                            .texture = texture_handle,
                            .surface = surface_handle};
    struct launch launch = {.kernel = module_kernel(module, "k"),
                            .grid = {cluster ? 2 : 1, 1, 1},
                            .block = {form->threads ? (unsigned)form->threads : WARP, 1, 1},
                            .cluster = {cluster ? 2 : 1, 1, 1},
                            .params = &params,
                            .threads = 1,
                            .budget = 1 << 20,
                            .check = checked,
                            .races = checked && !cluster};
    struct counts counts = {0};
    struct fault fault;
    launch_run(&launch, &counts, NULL, NULL, &fault);
    runs++;
    return fault;
}

// ---- What should come of it ---------------------------------------------------------------------

struct window {
    uint64_t base, size;
};

static int windows_of(const struct form *form, struct window *w)
{
    int count = 0;
    for (const char *c = form->windows; *c; ++c) {
        const uint64_t shared = (*c == 'S' || *c == 'B' || *c == 'R') ? SHARED_WINDOW : 0;
        w[count++] = *c == 's' || *c == 'S'   ? (struct window){shared, SHARED}
                     : *c == 'b' || *c == 'B' ? (struct window){shared + BARRIER_AT, 8}
                     : *c == 'r' || *c == 'R' ? (struct window){shared + (1 << RANK_SHIFT), SHARED}
                     : *c == 'l' || *c == 'L' ? (struct window){*c == 'L' ? LOCAL_WINDOW : 0, LOCAL}
                     : *c == 'p' || *c == 'P'
                         ? (struct window){*c == 'P' ? PARAM_WINDOW : 0, PARAMS}
                     : *c == 'm' ? (struct window){(uint64_t)(uintptr_t)map, sizeof *map}
                     : *c == 'x' ? (struct window){0, TEXELS}
                                 : (struct window){(uint64_t)(uintptr_t)buffer, BUFFER};
        if (*c == 'r' || *c == 'R') // adds the window of the other CTA's memory
            w[count++] = (struct window){shared + (2 << RANK_SHIFT), SHARED};
    }
    return count;
}

static bool in_bounds(const struct window *w, int count, uint64_t at, uint64_t bytes)
{
    bool good = false;
    for (int i = 0; i < count; ++i)
        good |=
            at >= w[i].base && at - w[i].base <= w[i].size && bytes <= w[i].size - (at - w[i].base);
    return good;
}

// The form that runs now, to be printed if it ends the test (a finding of the sanitizers, a
// signal).
static struct {
    const char *opcode, *body;
    uint64_t at;
} now;

static void tell_now(void)
{
    if (now.opcode)
        fprintf(stderr, "%s: %s\nat 0x%llx\n", now.opcode, now.body, (unsigned long long)now.at);
}

static void check(const struct form *form, const char *name, struct module *module, uint64_t at,
                  bool wide, uint32_t step, uint32_t lanes)
{
    struct window w[16];
    int count = windows_of(form, w);
    bool good = true, aligned = true;
    for (uint32_t i = 0; i < lanes; ++i) {
        uint64_t lane = at + (uint64_t)i * step;
        lane = wide && !strstr(form->windows, "x") ? lane : (uint32_t)lane;
        good &= in_bounds(w, count, lane, (uint64_t)form->bytes);
        aligned &= lane % (uint64_t)form->bytes == 0;
    }
    now.opcode = name, now.body = form->body, now.at = at;
    struct fault fault = run(module, form, at, step, lanes);
    now.opcode = NULL;
    bool must = form->need == NOTHING || (form->need == EXACT && good && aligned);
    bool must_not = form->need == REFUSED || (form->need == EXACT && !aligned) ||
                    (form->need <= BOUNDS && !good);
    bool fine = fault.kind == FAULT_NONE ? !must_not : !must;
    if (fault.kind == FAULT_UNSUPPORTED || fault.kind == FAULT_INTERNAL)
        fine = false;
    if (!fine && wrong++ < MOST_TOLD)
        print_error("%s: %s\nat 0x%llx, %s, %u lanes, %u bytes apart: %s\n", name, form->body,
                    (unsigned long long)at, wide ? "64 bits" : "32 bits", lanes, step,
                    fault.kind ? fault.text : "no fault");
}

// ---- The addresses ------------------------------------------------------------------------------

// Puts the addresses of a sweep into `at`; returns their number. These are 0, 2^32, both ends of
// each window and the 16 addresses before each of them, and a few others; few: near the ends only
// those at which an access just fits, and just does not.
static size_t addresses_of(const struct form *form, bool few, uint64_t at[])
{
    static const uint64_t round[] = {0,
                                     UINT64_C(1) << 32,
                                     UINT64_C(1) << 31,
                                     UINT64_C(1) << 63,
                                     SHARED_WINDOW,
                                     LOCAL_WINDOW,
                                     PARAM_WINDOW};
    enum { ROUND = sizeof round / sizeof round[0] };
    const uint64_t bytes = (uint64_t)form->bytes;
    struct window w[16];
    int count = windows_of(form, w);
    size_t n = 0;
    for (size_t i = 0; i < ROUND; ++i)
        for (uint64_t k = 0; k <= 16; k = few || i > 1 ? (k            ? k + 16
                                                          : bytes < 16 ? bytes
                                                                       : 16)
                                                       : k + 1)
            if (!few || i < 2)
                at[n++] = round[i] - k;
    for (int i = 0; i < count; ++i) {
        uint64_t end = w[i].base + w[i].size,
                 near[] = {w[i].base, end - bytes, end - bytes + 1, end - 1, end};
        for (size_t k = 0; k < sizeof near / sizeof near[0]; ++k)
            at[n++] = near[k];
        for (uint64_t k = 1; k <= 16 && !few; ++k)
            at[n++] = w[i].base - k, at[n++] = end - k;
        // From there, a warp's consecutive accesses just fit into the window, or just do not.
        for (uint64_t k = 31; k <= 33 && !form->alone && !few; ++k)
            at[n++] = end - k * bytes;
    }
    return n;
}

static void sweep(const struct form *form, const char *name, struct module *module, bool wide,
                  bool few)
{
    uint64_t at[1024];
    size_t n = addresses_of(form, few, at);
    uint32_t step = (uint32_t)(form->row_step ? form->row_step : form->bytes);
    for (size_t i = 0; i < n; ++i) {
        if (form->whole) {
            check(form, name, module, at[i], wide, form->row_step ? step : 0, WARP);
            continue;
        }
        check(form, name, module, at[i], wide, 0, 1);
        if (form->alone || few || at[i] & (step - 1))
            continue;
        check(form, name, module, at[i], wide, step, WARP);
        if (wide && checked)
            check(form, name, module, at[i], wide, 0, WARP);
    }
}

// Tries a form; returns whether the simulator has it. Texture handles are 64-bit registers without an offset.
static bool try_form(const struct form *form, const char *opcode, bool few)
{
    bool handle = has_name(handles, sizeof handles / sizeof handles[0], form->decoder);
    int kinds = handle || few || !strchr(form->body, '~') ? 1 : 4;
    bool has = true;
    for (int kind = 0; kind < kinds && has; ++kind) {
        struct module *module = kernel_of(form, opcode, !(kind & 1), kind > 1 ? -16 : 0);
        checked = kind < 2;
        has = run(module, form, 0, 0, 0).kind != FAULT_UNSUPPORTED;
        if (has)
            sweep(form, opcode, module, !(kind & 1), few || kind > 1);
        module_free(module);
    }
    return has;
}

// ---- Loads, stores and atomic operations: spaces x types ----------------------------------------

static const struct memory {
    const char *name, *windows;
} spaces[] = {{"", "SLPg"},
              {".global", "g"},
              {".shared", "s"},
              {".shared::cta", "s"},
              {".shared::cluster", "sr"},
              {".local", "l"},
              {".param", "p"},
              {".const", "g"}};
enum { SPACES = sizeof spaces / sizeof spaces[0] };

static const char *value_of(int bytes, int count)
{
    static const char *const one[] = {"%h0", "%h0", "%r0", "%d0", "%w"};
    static const char *const two[] = {"{%h0, %h1}", "{%h0, %h1}", "{%r0, %r1}", "{%d0, %d1}",
                                      "{%w, %w}"};
    static const char *const four[] = {"{%h0, %h1, %h2, %h3}", "{%h0, %h1, %h2, %h3}",
                                       "{%r0, %r1, %r2, %r3}", "{%d0, %d1, %d2, %d3}",
                                       "{%w, %w, %w, %w}"};
    int log = __builtin_ctz((unsigned)bytes);
    return (count == 1 ? one : count == 2 ? two : four)[log];
}

// Tries loads or stores in each space and of each type; returns how many the simulator has. One
// type of each size is tested thoroughly, the others at a few addresses. other: a load by another
// opcode than ld, tested at a few addresses only.
static int accesses(const struct row *row, bool store, bool other)
{
    static const char *const vectors[] = {"", ".v2", ".v4"};
    int found = 0;
    for (int s = 0; s < SPACES; ++s)
        for (int t = 0; t < TYPES; ++t)
            for (int v = 0; v < 3 && types[t].bytes > 0; ++v) {
                char body[256];
                int bytes = types[t].bytes << v;
                const char *value = value_of(types[t].bytes, 1 << v);
                bool close = !other && types[t].name[0] == 'b' && types[t].name[1] != 'f' && !v;
                snprintf(body, sizeof body, "?^%s%s.%s %s, %s;", spaces[s].name, vectors[v],
                         types[t].name, store ? "[~]" : value, store ? value : "[~]");
                struct form form = {row->decoder, body, spaces[s].windows, bytes, .need = EXACT};
                if (bytes > 16)
                    continue;
                if (store && s >= 6) // .param and .const cannot be stored to
                    form.windows = "", form.need = REFUSED;
                if (store && !s)
                    form.windows = "SLg"; // the parameters are read only
                form.alone = s == 4;
                found += try_form(&form, row->name, !close);
            }
    return found;
}

static int atomics(const struct row *row, bool returns)
{
    static const char *const names[] = {"add", "min", "inc", "and", "exch", "cas"};
    int found = 0;
    for (int s = 0; s < 5; ++s)
        for (int t = 0; t < TYPES; ++t)
            for (int k = 0; k < 6 && types[t].bytes > 1 && types[t].bytes <= 8; ++k) {
                char body[256];
                const char *value = value_of(types[t].bytes, 1);
                snprintf(body, sizeof body, "?^%s.%s.%s %s%s[~], %s%s%s;", spaces[s].name, names[k],
                         types[t].name, returns ? value : "", returns ? ", " : "", value,
                         k == 5 ? ", " : "", k == 5 ? value : "");
                struct form form = {row->decoder, body, s ? spaces[s].windows : "SLg",
                                    types[t].bytes, .need = EXACT};
                form.alone = s == 4;
                found += try_form(&form, row->name, !returns || k || types[t].name[0] != 'u');
            }
    return found;
}

// ---- The tests ----------------------------------------------------------------------------------

static int teardown(void **state)
{
    (void)state;
    tell_now();
    return 0;
}

static int setup(void **state)
{
    (void)state;
    __sanitizer_set_death_callback(tell_now);
    buffer = memory_alloc(BUFFER);
    map = memory_alloc(sizeof *map);
    texels = memory_alloc(TEXELS);
    memset(buffer, 0, BUFFER);
    memset(texels, 0, TEXELS);
    *map = (struct tensor_map){.magic = TENSOR_MAP_MAGIC,
                               .rank = 1,
                               .element = 4,
                               .address = (uint64_t)(uintptr_t)buffer,
                               .dim = {64, 1, 1, 1, 1},
                               .box = {8, 1, 1, 1, 1},
                               .step = {1, 1, 1, 1, 1},
                               .kind = 2};
    surface = (struct texture){.data = (uint8_t *)texels,
                               .size = {TEXELS / 4, 1, 1},
                               .pitch = TEXELS,
                               .dimensions = 1,
                               .channels = 1,
                               .channel_bytes = 4,
                               .is_surface = true};
    texture = surface;
    texture.is_surface = false;
    texture.linear_memory = true;
    texture.mode[0] = ADDRESS_CLAMP;
    texture_handle = UINT32_MAX; // will be 64, the surface 65: no address of the test
    for (int i = 0; i < 64; ++i)
        texture_handle = texture_add(&texture);
    surface_handle = texture_add(&surface);
    for (uint64_t i = 1; i < texture_handle; ++i)
        texture_remove(i);
    return 0;
}

static void test_every_opcode_at_the_ends_of_its_memory(void **state)
{
    (void)state;
    bool ran[FORMS] = {0};
    for (int i = 0; i < ROWS; ++i) {
        const struct row *row = &rows[i];
        int found = !strcmp(row->decoder, "load")
                        ? accesses(row, false, strcmp(row->name, "ld") != 0)
                    : !strcmp(row->decoder, "store") ? accesses(row, true, false)
                    : !strcmp(row->decoder, "atom")  ? atomics(row, true)
                    : !strcmp(row->decoder, "red")   ? atomics(row, false)
                                                     : 0;
        for (int k = 0; k < FORMS; ++k)
            if (!strcmp(forms[k].decoder, row->decoder) && try_form(&forms[k], row->name, false)) {
                ran[k] = true;
                found++;
            }
        if (!found && !has_name(without, sizeof without / sizeof without[0], row->decoder) &&
            ++wrong)
            print_error("opcode %s has no address test\n", row->name);
    }
    for (int k = 0; k < FORMS; ++k)
        if (!ran[k] && ++wrong)
            print_error("no opcode is run as %s: %s\n", forms[k].decoder, forms[k].body);
    print_message("%zu launches\n", runs);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_opcode_at_the_ends_of_its_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
