// test_sync.c: cp.async, mbarriers, named barriers and the clocks behind the race reports, on small
// PTX texts. Planted bugs in CUDA programs are in test_races.bats.
#include "ptxsim/exec/exec.h"
#include "ptxsim/ops/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS = 128 };
static uint32_t *out; // device memory of the test

static int start(void **state)
{
    (void)state;
    out = memory_alloc(WORDS * 4);
    for (uint32_t i = 0; i < WORDS; ++i)
        out[i] = 1000 + i;
    return 0;
}

static int end(void **state)
{
    (void)state;
    memory_free(out);
    return 0;
}

static int notes;
static uint64_t reports; // of the launches to come
static void count_note(enum fault_kind kind, const char *text)
{
    (void)kind, (void)text;
    notes++;
}

// Runs a body with %t = tid.x, %out, %o = out + 4 tid.x, and %s = the address of 1024 bytes of
// shared memory.
static struct fault run(unsigned grid, unsigned block, unsigned schedule, const char *body)
{
    static char text[16384];
    char why[256] = "";
    snprintf(text, sizeof text,
             ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 4 .b8 flag[4];\n"
             ".visible .entry k(.param .u64 out)\n{\n.shared .align 16 .b8 tile[1024];\n"
             ".reg .b16 %%h<4>; .reg .b32 %%t, %%s, %%r<20>; .reg .b64 %%out, %%o, %%x<20>; .reg "
             ".pred %%p<8>;\n"
             "ld.param.u64 %%out, [out]; mov.u32 %%t, %%tid.x; mov.u32 %%s, tile;\n"
             "mul.wide.u32 %%o, %%t, 4; add.s64 %%o, %%o, %%out;\n%s\nret;\n}\n",
             body);
    struct module *module = module_parse(text, why, sizeof why);
    if (!module)
        fail_msg("%s", why);
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct counts counts = {0};
    struct fault fault;
    struct launch launch = {.kernel = module_kernel(module, "k"),
                            .grid = {grid, 1, 1},
                            .block = {block, 1, 1},
                            .params = &param,
                            .threads = 2,
                            .schedule = schedule,
                            .check = true,
                            .races = true,
                            .reports = reports,
                            .note = count_note};
    notes = 0;
    launch_run(&launch, &counts, NULL, NULL, &fault);
    module_free(module);
    return fault;
}

static void good(unsigned grid, unsigned block, const char *body)
{
    for (unsigned schedule = 0; schedule < 16; ++schedule) {
        struct fault f = run(grid, block, schedule, body);
        if (f.kind != FAULT_NONE)
            fail_msg("schedule %u: %s", schedule, f.text);
    }
}

static void bad(unsigned grid, unsigned block, const char *body, enum fault_kind kind,
                const char *text)
{
    for (unsigned schedule = 0; schedule < 16; ++schedule) {
        struct fault f = run(grid, block, schedule, body);
        if (f.kind != kind || !strstr(f.text, text))
            fail_msg("schedule %u: %d \"%s\", not \"%s\"", schedule, f.kind, f.text, text);
    }
}

// ---- cp.async -----------------------------------------------------------------------------------

static void copies_fill_with_zeros(void **state)
{
    (void)state;
    good(1, 1,
         "cp.async.ca.shared.global [%s], [%out], 16, 8; cp.async.cg.shared.global.L2::128B "
         "[%s+16], [%out+16], 16; setp.eq.u32 %p1, 0, 0;\n"
         "cp.async.ca.shared::cta.global [%s+32], [%out+32], 4, 0; cp.async.ca.shared.global "
         "[%s+40], [%out+40], 8, 4;\n"
         "cp.async.cg.shared.global [%s+48], [%out], 16, %p1;\n"
         "cp.async.wait_all; ld.shared.v4.u32 {%r0,%r1,%r2,%r3}, [%s]; ld.shared.v4.u32 "
         "{%r4,%r5,%r6,%r7}, [%s+16]; ld.shared.u32 %r8, [%s+32];\n"
         "ld.shared.u32 %r9, [%s+48]; st.global.v4.u32 [%out], {%r0,%r1,%r2,%r3}; "
         "st.global.v4.u32 [%out+16], {%r4,%r5,%r6,%r7}; st.global.u32 [%out+32], %r8; "
         "st.global.u32 [%out+36], %r9;");
}

static void copies_fill_once(void **state)
{
    (void)state;
    struct fault f = run(1, 1, 0,
                         "setp.eq.u32 %p1, 0, 0; cp.async.ca.shared.global [%s], [%out], 16, 8; "
                         "cp.async.cg.shared.global [%s+16], [%out], 16, %p1; cp.async.wait_all;\n"
                         "ld.shared.v4.u32 {%r0,%r1,%r2,%r3}, [%s]; ld.shared.u32 %r4, [%s+16];\n"
                         "st.global.v4.u32 [%out+64], {%r0,%r1,%r2,%r3}; st.global.u32 [%out+80], "
                         "%r4;");
    assert_int_equal(f.kind, FAULT_NONE);
    const uint32_t wanted[] = {1000, 1001, 0, 0, 0};
    assert_memory_equal(out + 16, wanted, sizeof wanted);
}

// What is not waited for is not there: the old value is read, and reported.
static void copies_come_at_the_wait(void **state)
{
    (void)state;
    struct fault f = run(1, 1, 0,
                         "st.shared.u32 [%s], 7; cp.async.ca.shared.global [%s], [%out], 4; "
                         "cp.async.commit_group; ld.shared.u32 %r0, [%s]; st.global.u32 [%out+4], "
                         "%r0; cp.async.wait_group 0; ld.shared.u32 %r0, [%s]; st.global.u32 "
                         "[%out+8], %r0;");
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, "reads 4 bytes of shared memory at 0 (tile + 0) that a cp.async "
                                   "of thread (0,0,0) at PTX line"));
    assert_int_equal(out[1], 7);
    assert_int_equal(out[2], 1000);
}

static void groups_are_counted(void **state)
{
    (void)state;
    // Three groups, one of them empty: a wait that leaves 1 has the first and the empty one.
    static const char text[] =
        "cp.async.ca.shared.global [%%s], [%%out], 4; cp.async.commit_group; "
        "cp.async.commit_group; cp.async.ca.shared.global [%%s+4], [%%out+4], 4; "
        "cp.async.commit_group; cp.async.wait_group %d; ld.shared.u32 %%r0, [%%s+%d]; "
        "st.global.u32 [%%out+64], %%r0;";
    char body[512];
    snprintf(body, sizeof body, text, 1, 0);
    good(1, 1, body);
    snprintf(body, sizeof body, text, 2, 0);
    good(1, 1, body);
    snprintf(body, sizeof body, text, 3, 0);
    bad(1, 1, body, FAULT_RACE, "nothing has waited for it");
    snprintf(body, sizeof body, text, 1, 4);
    bad(1, 1, body, FAULT_RACE, "nothing has waited for it");
}

static void copies_are_checked(void **state)
{
    (void)state;
    bad(1, 1, "cp.async.ca.shared.global [%s], [%out+4], 8; cp.async.wait_all;", FAULT_MISALIGNED,
        "reads 8 bytes");
    bad(1, 1, "cp.async.cg.shared.global [%s], [%out+512], 16; cp.async.wait_all;",
        FAULT_OUT_OF_BOUNDS, "0 bytes past the end");
    bad(1, 1, "cp.async.cg.shared.global [%s+1024], [%out], 16; cp.async.wait_all;",
        FAULT_OUT_OF_BOUNDS, "past the end of the CTA's");
}

// ---- mbarriers ----------------------------------------------------------------------------------

static void mbarriers_count(void **state)
{
    (void)state;
    struct fault f = run(
        1, 1, 0,
        "mbarrier.init.shared.b64 [%s], 3; mbarrier.arrive.shared.b64 %x1, [%s]; "
        "mbarrier.pending_count.b64 %r1, %x1; st.global.u32 [%out], %r1;\n"
        "mbarrier.test_wait.shared.b64 %p1, [%s], %x1; selp.u32 %r2, 1, 0, %p1; st.global.u32 "
        "[%out+4], %r2;\n"
        "mbarrier.arrive.noComplete.release.cta.shared.b64 %x2, [%s], 1; "
        "mbarrier.arrive_drop.shared.b64 _, [%s];\n"
        "mbarrier.test_wait.shared.b64 %p1, [%s], %x1; selp.u32 %r2, 1, 0, %p1; st.global.u32 "
        "[%out+8], %r2;\n"
        "mbarrier.test_wait.parity.shared.b64 %p1, [%s], 0; selp.u32 %r2, 1, 0, %p1; st.global.u32 "
        "[%out+12], %r2; mbarrier.test_wait.parity.shared.b64 %p1, [%s], 1; selp.u32 %r2, 1, 0, "
        "%p1; st.global.u32 [%out+16], %r2;\n"
        // The next phase takes two; a transaction holds it back.
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 64; mbarrier.arrive.shared.b64 %x3, "
        "[%s]; mbarrier.pending_count.b64 %r1, %x3; st.global.u32 [%out+20], %r1;\n"
        "mbarrier.try_wait.parity.shared.b64 %p1, [%s], 1, 20; selp.u32 %r2, 1, 0, %p1; "
        "st.global.u32 [%out+24], %r2;\n"
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%s], 64; "
        "mbarrier.try_wait.parity.shared.b64 %p1, [%s], 1; selp.u32 %r2, 1, 0, %p1; st.global.u32 "
        "[%out+28], %r2; mbarrier.inval.shared.b64 [%s];");
    if (f.kind != FAULT_NONE)
        fail_msg("%s", f.text);
    const uint32_t wanted[] = {3, 0, 1, 1, 0, 1, 0, 1};
    assert_memory_equal(out, wanted, sizeof wanted);
}

// Chapter 13 draws what becomes of a wait for either parity in four phases (fig:ch13-parity).
static void waits_for_a_parity(void **state)
{
    (void)state;
    static const char ask[] =
        "mbarrier.test_wait.parity.shared.b64 %%p1, [%%s], %d; selp.u32 %%r1, 1, 0, %%p1; "
        "st.global.u32 [%%out+%d], %%r1;\n";
    char body[2048] = "mbarrier.init.shared.b64 [%s], 1;\n", drawn[128] = "", line[160];
    for (int phase = 0; phase < 4; phase++) {
        for (int parity = 0; parity < 2; parity++)
            snprintf(body + strlen(body), sizeof body - strlen(body), ask, parity,
                     4 * (4 * parity + phase));
        strcat(body, "mbarrier.arrive.shared.b64 _, [%s];\n");
    }
    struct fault f = run(1, 1, 0, body);
    if (f.kind != FAULT_NONE)
        fail_msg("%s", f.text);
    for (int i = 0; i < 8; i++)
        snprintf(drawn + strlen(drawn), sizeof drawn - strlen(drawn), "%s%s",
                 i == 0   ? "0/{"
                 : i == 4 ? "},1/{"
                          : ",",
                 out[i] ? "over" : "waits");
    snprintf(line, sizeof line, "\\foreach \\parity/\\answers in {%s}}", drawn);
    FILE *chapter = fopen("chapters/13-warp-specialisation.md", "r");
    assert_non_null(chapter);
    bool found = false;
    for (char text[256]; fgets(text, sizeof text, chapter) && !found;)
        found = strstr(text, line) != NULL;
    fclose(chapter);
    if (!found)
        fail_msg("chapter 13 does not draw %s", line);
}

static void mbarriers_fail(void **state)
{
    (void)state;
    bad(1, 1, "mbarrier.arrive.shared.b64 _, [%s];", FAULT_UNINITIALISED, "nothing has written");
    bad(1, 1, "st.shared.u64 [%s], 0; mbarrier.arrive.shared.b64 _, [%s];", FAULT_TRAP,
        "no mbarrier is initialised");
    bad(1, 1, "mbarrier.init.shared.b64 [%s], 1; mbarrier.arrive.shared.b64 _, [%s], 2;",
        FAULT_TRAP, "arrives 2 times");
    bad(1, 1, "mbarrier.init.shared.b64 [%s], 0;", FAULT_TRAP, "an mbarrier for 0 arrivals");
    bad(1, 1, "mbarrier.init.shared.b64 [%s+4], 1;", FAULT_MISALIGNED, "no multiple of 8");
    bad(1, 64,
        "setp.ne.u32 %p1, %t, 0; @%p1 bra W; mbarrier.init.shared.b64 [%s], 64;\nW: bar.sync 0;\n"
        "setp.eq.u32 %p1, %t, 5; @%p1 bra L; mbarrier.arrive.shared.b64 _, [%s];\n"
        "L: mbarrier.test_wait.parity.shared.b64 %p1, [%s], 0; @!%p1 bra L;",
        FAULT_DEADLOCK, "63 of 64 arrivals");
}

// ---- Order --------------------------------------------------------------------------------------

#define CLEARED "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.u32 [%r1], 0; bar.sync 0;\n"
#define HALVES(middle)                                                                             \
    "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; xor.b32 %r2, %t, 33; shl.b32 %r2, %r2, 2; "         \
    "add.u32 %r2, %r2, %s; st.shared.u32 [%r1], %t;\n" middle                                      \
    "\nld.shared.u32 %r3, [%r2]; st.global.u32 [%o], %r3;"

static void barriers_order(void **state)
{
    (void)state;
    good(1, 64, HALVES("bar.sync 0;"));
    good(1, 64, HALVES("barrier.sync 3, 64;"));
    good(1, 64, HALVES("setp.eq.u32 %p1, 0, 0; bar.red.popc.u32 %r5, 0, %p1;"));
    bad(1, 64, CLEARED HALVES("bar.warp.sync -1;"), FAULT_RACE, "with no barrier in between");
    bad(1, 64, CLEARED HALVES("fence.acq_rel.cta;"), FAULT_RACE, "with no barrier in between");
}

static void bytes_of_a_word_are_apart(void **state)
{
    (void)state;
    good(1, 64, "add.u32 %r1, %s, %t; st.shared.u8 [%r1], %t; ld.shared.u8 %r2, [%r1];");
    bad(1, 64, "shr.u32 %r1, %t, 1; add.u32 %r1, %s, %r1; st.shared.u8 [%r1], %t;", FAULT_RACE,
        "no __syncwarp or barrier");
}

static void enough_races_stop_a_launch(void **state)
{
    (void)state;
    const char *body = "shr.u32 %r1, %t, 1; add.u32 %r1, %s, %r1; st.shared.u8 [%r1], %t; bar.sync "
                       "0; st.global.u32 [%o], 7;";
    struct fault f = run(1, 64, 0, body);
    assert_int_equal(f.kind, FAULT_RACE);
    assert_null(strstr(f.text, "stopped"));
    assert_int_equal(out[0], 7); // it has run to its end
    out[0] = 0;
    reports = 3;
    f = run(1, 64, 0, body);
    reports = 0;
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, ": writes 1 bytes of shared memory at "));
    assert_non_null(strstr(f.text, "in between: stopped: 3 accesses were reported"));
    assert_int_equal(out[0], 0);
}

static void same_value_is_no_race(void **state)
{
    (void)state;
    good(4, 64, "st.shared.u32 [%s], 5; st.global.u32 [%out], 5;");
    bad(4, 64, "mov.u32 %r1, %ctaid.x; st.global.u32 [%out], %r1;", FAULT_RACE,
        "no release and acquire");
}

static void atomics_are_no_race(void **state)
{
    (void)state;
    good(4, 64,
         "red.global.add.u32 [%out], 1; atom.global.exch.b32 %r1, [%out+4], %t; st.shared.u32 "
         "[%s], 0; bar.sync 0; red.shared.add.u32 [%s], 1; ld.volatile.global.u32 %r1, [%out];");
    bad(4, 64, "red.global.add.u32 [%out], 1; ld.global.u32 %r1, [%out];", FAULT_RACE,
        "in between");
}

// A flag between two CTAs: data, release; acquire, data.
#define FLAG(write, before, after)                                                                 \
    "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra R; st.global.u32 [%out], "           \
    "42;\n" write "\nret;\nR: " before                                                             \
    "\nld.relaxed.gpu.global.u32 %r2, [flag]; setp.eq.u32 %p1, %r2, 0;\n"                          \
    "@%p1 bra R;\n" after "\nld.global.u32 %r3, [%out];"

static void flags_order(void **state)
{
    (void)state;
    good(2, 1, FLAG("st.release.gpu.global.u32 [flag], 1;", "", "fence.acq_rel.gpu;"));
    good(2, 1, FLAG("membar.gl; st.volatile.global.u32 [flag], 1;", "", "membar.gl;"));
    good(2, 1,
         FLAG("fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [flag], 1;", "",
              "fence.acq_rel.gpu;"));
    bad(2, 1, FLAG("st.relaxed.gpu.global.u32 [flag], 1;", "", "fence.acq_rel.gpu;"), FAULT_RACE,
        "no release and acquire");
    bad(2, 1, FLAG("st.release.gpu.global.u32 [flag], 1;", "", ""), FAULT_RACE,
        "no release and acquire");
    bad(2, 1, FLAG("membar.cta; st.relaxed.gpu.global.u32 [flag], 1;", "", "fence.acq_rel.gpu;"),
        FAULT_RACE, "no release and acquire");
}

static void each_pair_is_told_once(void **state)
{
    (void)state;
    struct fault f = run(1, 64, 0, CLEARED HALVES("") "\nst.shared.u32 [%r2], %t;");
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, "more like it)"));
    assert_in_range(notes, 1, 8);
}

// ---- What is kept of lines, and of readings under way (race_cells.h) ------------------------------

// %r1: the lane's own word of the 32 at %s; %r2: its neighbour's; %r4: that of the mirrored lane;
// %p1: in warp 0. The words are written, and everybody knows.
#define WORDS_OF_32                                                                                \
    "and.b32 %r0, %t, 31; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %s; xor.b32 %r2, %r0, 1; "        \
    "shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %s; xor.b32 %r4, %r0, 31; shl.b32 %r4, %r4, 2; "       \
    "add.u32 %r4, %r4, %s; setp.lt.u32 %p1, %t, 32;\n@%p1 st.shared.u32 [%r1], %t;\n@%p1 "         \
    "st.shared.u32 [%r1+128], %t;\nbar.sync 0;\n"
#define WARP_0_READS "@%p1 ld.shared.u32 %r5, [%r1];\n"

// A warp reads the same again, after a barrier: another one may write only after the next.
static void a_reading_ends_with_its_time(void **state)
{
    (void)state;
#define AGAIN(order, before_write)                                                                 \
    WORDS_OF_32 WARP_0_READS WARP_0_READS order "\n" WARP_0_READS before_write                     \
                                                "\n@!%p1 st.shared.u32 [%r1], 7;\n"
    good(1, 64, AGAIN("bar.sync 0;", "bar.sync 0;"));
    good(1, 64, AGAIN("bar.warp.sync -1;", "bar.sync 0;"));
    good(1, 64, AGAIN("fence.acq_rel.gpu;", "barrier.sync 1, 64;"));
    bad(1, 64, AGAIN("bar.sync 0;", ""), FAULT_RACE, "with no barrier in between");
    bad(1, 64, AGAIN("bar.sync 0;", "bar.warp.sync -1;"), FAULT_RACE, "with no barrier in between");
    bad(1, 64, AGAIN("bar.warp.sync -1;", ""), FAULT_RACE, "with no barrier in between");
    bad(1, 64, AGAIN("fence.acq_rel.gpu;", "barrier.sync 1, 32;"), FAULT_RACE,
        "with no barrier in between");
}

// The lanes of one warp: each may access again what it has accessed, and not what another has.
static void lanes_keep_to_their_own(void **state)
{
    (void)state;
#define OWN(first, order, second) WORDS_OF_32 first "\n" order "\n" second
    static const char text[] = "no __syncwarp or barrier";
    good(1, 32, OWN("ld.shared.u32 %r5, [%r1];", "", "st.shared.u32 [%r1], 9;"));
    good(1, 32, OWN("st.shared.u32 [%r1], %t;", "", "ld.shared.u32 %r5, [%r1];"));
    good(1, 32, OWN("st.shared.u32 [%r1], 8;", "", "st.shared.u32 [%r1], 9;"));
    // By runs that lie one word apart, in another order, all of them at one place, two words each.
    bad(1, 32, OWN("st.shared.u32 [%r1], %t;", "", "ld.shared.u32 %r5, [%r1+4];"), FAULT_RACE,
        text);
    bad(1, 32, OWN("st.shared.u32 [%r1], %t;", "", "ld.shared.u32 %r5, [%r2];"), FAULT_RACE, text);
    bad(1, 32, OWN("st.shared.u32 [%r1], %t;", "", "ld.shared.u32 %r5, [%s];"), FAULT_RACE, text);
    bad(1, 32, OWN("ld.shared.u32 %r5, [%r1];", "", "st.shared.u32 [%r1+4], 9;"), FAULT_RACE, text);
    bad(1, 32, OWN("ld.shared.u32 %r5, [%r2];", "", "st.shared.u32 [%r1], 9;"), FAULT_RACE, text);
    bad(1, 32, OWN("ld.shared.u32 %r5, [%s];", "", "st.shared.u32 [%r1], 9;"), FAULT_RACE, text);
    good(1, 32, OWN("ld.shared.u32 %r5, [%r2];", "bar.warp.sync -1;", "st.shared.u32 [%r1], 9;"));
    // The last of several readings is the lane's own, and an earlier one is not.
#define MIRRORED "ld.shared.u32 %r5, [%r4]; ld.shared.u32 %r5, [%r1];"
    good(1, 32, OWN(MIRRORED, "bar.warp.sync -1;", "st.shared.u32 [%r1], 9;"));
    bad(1, 32, OWN(MIRRORED, "", "st.shared.u32 [%r1], 9;"), FAULT_RACE, text);
    bad(1, 32,
        OWN("ld.shared.u32 %r5, [%s]; ld.shared.u32 %r5, [%r1];", "", "st.shared.u32 [%r1], 9;"),
        FAULT_RACE, text);
}

// Two warps write halves of a line; a third reads all of it, and has met only one of them.
static void a_line_has_several_writers(void **state)
{
    (void)state;
#define THIRDS(barrier, threads)                                                                   \
    WORDS_OF_32 "shl.b32 %r1, %t, 1; add.u32 %r1, %r1, %s; cvt.u16.u32 %h1, %t; setp.lt.u32 %p1, " \
                "%t, 64;\n"                                                                        \
                "setp.lt.u32 %p2, %t, " threads ";\n@!%p1 bra R;\nst.shared.u16 [%r1], %h1;\n"     \
                "@%p2 bar.arrive 1, " barrier ";\nret;\nR: bar.sync 1, " barrier                   \
                ";\nsub.u32 %r2, %t, 64; "                                                         \
                "shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %s; ld.shared.u32 %r3, [%r2];"
    good(1, 96, THIRDS("96", "64"));
    bad(1, 96, THIRDS("64", "32"), FAULT_RACE, "with no barrier in between");
}

// Who arrives at a barrier learns nothing there, though it knows what it tells from another one.
static void what_is_told_is_not_known(void **state)
{
    (void)state;
#define TOLD(order)                                                                                \
    WORDS_OF_32 "setp.lt.u32 %p2, %t, 64;\n@%p1 bra A;\n@%p2 bra B;\nbar.sync 2, 64;\nret;\n"      \
                "A: bar.arrive 1, 64;\nret;\nB: bar.sync 1, 64;\nst.shared.u32 [%r1+128], %t;\n"   \
                "bar.arrive 2, 64;\n" order "\nld.shared.u32 %r3, [%r2+128];\n"
    good(1, 96, TOLD("bar.warp.sync -1;"));
    bad(1, 96, TOLD(""), FAULT_RACE, "no __syncwarp or barrier");
}

// The bytes of a copy have come: its line is as any other again, and no other line is.
static void a_line_waits_for_its_copies(void **state)
{
    (void)state;
#define FETCHED(wait, order)                                                                       \
    WORDS_OF_32 "@!%p1 bra W;\ncp.async.ca.shared.global [%r1], [%o], 4;\n" wait "\nW: " order     \
                "\nld.shared.u32 %r5, [%r1];\nld.shared.u32 %r5, [%s];"
    good(1, 64, FETCHED("cp.async.wait_all;", "bar.sync 0;"));
    bad(1, 64, FETCHED("cp.async.wait_all;", "bar.warp.sync -1;"), FAULT_RACE, "in between");
    bad(1, 64, FETCHED("", "bar.sync 0;"), FAULT_RACE, "nothing has waited for it");
}

// Whole warps, in global memory: within a CTA, in several pages of cells, and across CTAs.
static void warps_in_global_memory(void **state)
{
    (void)state;
#define GLOBALLY(first, order, second)                                                             \
    "and.b32 %r0, %t, 31; mul.wide.u32 %x1, %r0, 4; add.s64 %x1, %x1, %out; setp.lt.u32 %p1, %t, " \
    "32;\n@%p1 " first "\n" order "\n@!%p1 " second "\n"
#define LOADS "ld.global.u32 %r3, [%x1];"
#define STORES "st.global.u32 [%x1], %t;"
    static const char text[] = "with no barrier in between";
    uint32_t *kept = out, *pages = memory_alloc(3 * 4096);
    for (int round = 0; round < 2; ++round) {
        good(1, 64, GLOBALLY(LOADS, "bar.sync 0;", STORES));
        good(1, 64, GLOBALLY(STORES, "bar.sync 0;", LOADS));
        good(1, 64, GLOBALLY(LOADS, "", LOADS));
        bad(1, 64, GLOBALLY(LOADS, "", STORES), FAULT_RACE, text);
        bad(1, 64, GLOBALLY(STORES, "bar.warp.sync -1;", LOADS), FAULT_RACE, text);
        bad(1, 64, GLOBALLY(STORES, "", STORES), FAULT_RACE, text);
        bad(1, 32, "st.global.u32 [%o], %t; ld.global.u32 %r3, [%o+4];", FAULT_RACE,
            "no __syncwarp");
        good(1, 32, "st.global.u32 [%o], %t; ld.global.u32 %r3, [%o]; st.global.u32 [%o], 1;");
        bad(2, 32, "ld.global.u32 %r3, [%o]; mov.u32 %r4, %ctaid.x; st.global.u32 [%o], %r4;",
            FAULT_RACE, "no release and acquire");
        // Half of the warp's words lie in the next page.
        out = (uint32_t *)(((uintptr_t)pages + 4095) / 4096 * 4096 + 4096) - 16;
        for (int i = -16; i < 64; ++i)
            out[i] = 1;
        memory_mark(out - 16, NULL, 80 * 4);
    }
    out = kept;
    memory_free(pages);
}

// A flag tells of what the whole CTA did before its barrier, and of no more.
static void a_flag_tells_of_a_warp(void **state)
{
    (void)state;
#define TELLS(order)                                                                               \
    "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra R; st.global.u32 [%o], 42;\n" order  \
    "\nsetp.ne.u32 %p1, %t, 0; @%p1 ret; st.release.gpu.global.u32 [flag], 1; ret;\n"              \
    "R: ld.acquire.gpu.global.u32 %r2, [flag]; setp.eq.u32 %p1, %r2, 0;\n@%p1 bra R;\n"            \
    "ld.global.u32 %r3, [%o]; st.global.u32 [%o], %r3;"
    good(2, 64, TELLS("bar.sync 0;"));
    bad(2, 64, TELLS(""), FAULT_RACE, "no release and acquire");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
        TEST(copies_fill_with_zeros),
        TEST(copies_fill_once),
        TEST(copies_come_at_the_wait),
        TEST(groups_are_counted),
        TEST(copies_are_checked),
        TEST(mbarriers_count),
        TEST(waits_for_a_parity),
        TEST(mbarriers_fail),
        TEST(barriers_order),
        TEST(bytes_of_a_word_are_apart),
        TEST(enough_races_stop_a_launch),
        TEST(same_value_is_no_race),
        TEST(atomics_are_no_race),
        TEST(flags_order),
        TEST(each_pair_is_told_once),
        TEST(a_reading_ends_with_its_time),
        TEST(lanes_keep_to_their_own),
        TEST(a_line_has_several_writers),
        TEST(what_is_told_is_not_known),
        TEST(a_line_waits_for_its_copies),
        TEST(warps_in_global_memory),
        TEST(a_flag_tells_of_a_warp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
