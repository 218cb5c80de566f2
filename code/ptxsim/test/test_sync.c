// test_sync.c: cp.async, mbarriers, named barriers, the race checks' vector clocks, and spoiled
// executions (struct ablation), on the kernels of ptx/sync.ptx. test_races.bats tests planted bugs
// in CUDA programs.
#include "ptx.h"
#include "ptxsim/ops/ops.h"

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
static uint64_t reports, resident; // struct launch's members for the next launches
static struct ablation *ablation;
static bool hasty;
static void count_note(const struct fault *fault)
{
    (void)fault;
    notes++;
}

// Runs one of sync.ptx's kernels on `out`; the arguments after its name replace $1, $2, ... in it.
#define run(grid, block, schedule, ...)                                                            \
    run_on(grid, block, schedule, (const char *const[PTX_HOLES + 1]){__VA_ARGS__})
static struct fault run_on(unsigned grid, unsigned block, unsigned schedule,
                           const char *const *kernel)
{
    char name[64];
    snprintf(name, sizeof name, "sync.%s", *kernel);
    struct module *module = ptx_parse(ptx_text("sync.frame", name, kernel + 1));
    uint64_t param = (uint64_t)(uintptr_t)out;
    struct counts counts = {0};
    struct fault fault;
    struct launch launch = {.kernel = module_kernel(module, *kernel),
                            .grid = {grid, 1, 1},
                            .block = {block, 1, 1},
                            .params = &param,
                            .threads = 2,
                            .schedule = schedule,
                            .check = true,
                            .races = !ablation,
                            .reports = reports,
                            .resident = resident,
                            .ablation = ablation,
                            .hasty = hasty,
                            .note = count_note};
    notes = 0;
    launch_run(&launch, &counts, NULL, NULL, &fault);
    module_free(module);
    return fault;
}

// Runs a kernel under 16 schedules: `good` expects no fault, `bad` a fault of this kind with this
// text.
#define good(grid, block, ...) bad(grid, block, FAULT_NONE, "", __VA_ARGS__)
#define bad(grid, block, kind, text, ...)                                                          \
    ends(grid, block, kind, text, (const char *const[PTX_HOLES + 1]){__VA_ARGS__})
static void ends(unsigned grid, unsigned block, enum fault_kind kind, const char *text,
                 const char *const *kernel)
{
    for (unsigned schedule = 0; schedule < 16; ++schedule) {
        struct fault f = run_on(grid, block, schedule, kernel);
        if (f.kind != kind || !strstr(f.text, text))
            fail_msg("%s, schedule %u: %d \"%s\", not \"%s\"", *kernel, schedule, f.kind, f.text,
                     text);
    }
}

// ---- cp.async -----------------------------------------------------------------------------------

static void copies_fill_with_zeros(void **state)
{
    (void)state;
    good(1, 1, "copies_of_all_kinds");
}

static void copies_fill_once(void **state)
{
    (void)state;
    struct fault f = run(1, 1, 0, "copies_fill_once");
    assert_int_equal(f.kind, FAULT_NONE);
    const uint32_t wanted[] = {1000, 1001, 0, 0, 0};
    assert_memory_equal(out + 16, wanted, sizeof wanted);
}

// A copy that was not waited for has not arrived: the old value is read, and that is reported.
static void copies_come_at_the_wait(void **state)
{
    (void)state;
    struct fault f = run(1, 1, 0, "copies_come_at_the_wait");
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, "reads 4 bytes of shared memory at 0 (tile + 0) that a cp.async "
                                   "of thread (0,0,0) at PTX line"));
    assert_int_equal(out[1], 7);
    assert_int_equal(out[2], 1000);
}

// A wait that leaves 1 group waits for the first group and for the empty one.
static void groups_are_counted(void **state)
{
    (void)state;
    static const char text[] = "nothing has waited for it";
    good(1, 1, "groups", "1", "0");
    good(1, 1, "groups", "2", "0");
    bad(1, 1, FAULT_RACE, text, "groups", "3", "0");
    bad(1, 1, FAULT_RACE, text, "groups", "1", "4");
}

static void copies_are_checked(void **state)
{
    (void)state;
    bad(1, 1, FAULT_MISALIGNED, "reads 8 bytes", "few",
        "cp.async.ca.shared.global [%s], [%out+4], 8; cp.async.wait_all;");
    bad(1, 1, FAULT_OUT_OF_BOUNDS, "0 bytes past the end", "few",
        "cp.async.cg.shared.global [%s], [%out+512], 16; cp.async.wait_all;");
    bad(1, 1, FAULT_OUT_OF_BOUNDS, "past the end of the CTA's", "few",
        "cp.async.cg.shared.global [%s+1024], [%out], 16; cp.async.wait_all;");
}

// ---- mbarriers ----------------------------------------------------------------------------------

static void mbarriers_count(void **state)
{
    (void)state;
    struct fault f = run(1, 1, 0, "mbarriers");
    if (f.kind != FAULT_NONE)
        fail_msg("%s", f.text);
    const uint32_t wanted[] = {3, 0, 1, 1, 0, 1, 0, 1};
    assert_memory_equal(out, wanted, sizeof wanted);
}

// Which waits for either parity end in each of four phases; chapter 13 draws it (fig:ch13-parity).
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
    struct fault f = run(1, 1, 0, "few", body);
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
    bad(1, 1, FAULT_UNINITIALISED, "nothing has written", "few",
        "mbarrier.arrive.shared.b64 _, [%s];");
    bad(1, 1, FAULT_TRAP, "no mbarrier is initialised", "few",
        "st.shared.u64 [%s], 0; mbarrier.arrive.shared.b64 _, [%s];");
    bad(1, 1, FAULT_TRAP, "arrives 2 times", "few",
        "mbarrier.init.shared.b64 [%s], 1; mbarrier.arrive.shared.b64 _, [%s], 2;");
    bad(1, 1, FAULT_TRAP, "an mbarrier for 0 arrivals", "few", "mbarrier.init.shared.b64 [%s], 0;");
    bad(1, 1, FAULT_MISALIGNED, "no multiple of 8", "few", "mbarrier.init.shared.b64 [%s+4], 1;");
    bad(1, 64, FAULT_DEADLOCK, "63 of 64 arrivals", "an_arrival_too_few");
}

// ---- Order --------------------------------------------------------------------------------------

static const char no_barrier[] = "with no barrier in between",
                  no_release[] = "no release and acquire",
                  no_syncwarp[] = "no __syncwarp or barrier";
static const char clears[] = "st.shared.u32 [%r1], 0; bar.sync 0;";

static void barriers_order(void **state)
{
    (void)state;
    good(1, 64, "halves", "", "bar.sync 0;");
    good(1, 64, "halves", "", "barrier.sync 3, 64;");
    good(1, 64, "halves", "", "setp.eq.u32 %p1, 0, 0; bar.red.popc.u32 %r5, 0, %p1;");
    bad(1, 64, FAULT_RACE, no_barrier, "halves", clears, "bar.warp.sync -1;");
    bad(1, 64, FAULT_RACE, no_barrier, "halves", clears, "fence.acq_rel.cta;");
}

static void bytes_of_a_word_are_apart(void **state)
{
    (void)state;
    good(1, 64, "few", "add.u32 %r1, %s, %t; st.shared.u8 [%r1], %t; ld.shared.u8 %r2, [%r1];");
    bad(1, 64, FAULT_RACE, no_syncwarp, "few",
        "shr.u32 %r1, %t, 1; add.u32 %r1, %s, %r1; st.shared.u8 [%r1], %t;");
}

static void enough_races_stop_a_launch(void **state)
{
    (void)state;
    const char *body = "shr.u32 %r1, %t, 1; add.u32 %r1, %s, %r1; st.shared.u8 [%r1], %t; bar.sync "
                       "0; st.global.u32 [%o], 7;";
    struct fault f = run(1, 64, 0, "few", body);
    assert_int_equal(f.kind, FAULT_RACE);
    assert_null(strstr(f.text, "stopped"));
    assert_int_equal(out[0], 7); // the kernel has run to its end
    out[0] = 0;
    reports = 3;
    f = run(1, 64, 0, "few", body);
    reports = 0;
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, ": writes 1 bytes of shared memory at "));
    assert_non_null(strstr(f.text, "in between: stopped: 3 accesses were reported"));
    assert_int_equal(out[0], 0);
}

static void same_value_is_no_race(void **state)
{
    (void)state;
    good(4, 64, "few", "st.shared.u32 [%s], 5; st.global.u32 [%out], 5;");
    bad(4, 64, FAULT_RACE, no_release, "few", "mov.u32 %r1, %ctaid.x; st.global.u32 [%out], %r1;");
}

static void atomics_are_no_race(void **state)
{
    (void)state;
    good(4, 64, "few",
         "red.global.add.u32 [%out], 1; atom.global.exch.b32 %r1, [%out+4], %t;\n"
         "st.shared.u32 [%s], 0; bar.sync 0; red.shared.add.u32 [%s], 1;\n"
         "ld.volatile.global.u32 %r1, [%out];");
    bad(4, 64, FAULT_RACE, "in between", "few",
        "red.global.add.u32 [%out], 1; ld.global.u32 %r1, [%out];");
}

// One CTA writes data and releases a flag; the other acquires the flag and reads the data.
static void flags_order(void **state)
{
    (void)state;
    static const char fence[] = "fence.acq_rel.gpu;";
    good(2, 1, "flags", "st.release.gpu.global.u32 [flag], 1;", fence);
    good(2, 1, "flags", "membar.gl; st.volatile.global.u32 [flag], 1;", "membar.gl;");
    good(2, 1, "flags", "fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [flag], 1;", fence);
    bad(2, 1, FAULT_RACE, no_release, "flags", "st.relaxed.gpu.global.u32 [flag], 1;", fence);
    bad(2, 1, FAULT_RACE, no_release, "flags", "st.release.gpu.global.u32 [flag], 1;", "");
    bad(2, 1, FAULT_RACE, no_release, "flags", "membar.cta; st.relaxed.gpu.global.u32 [flag], 1;",
        fence);
}

static void each_pair_is_told_once(void **state)
{
    (void)state;
    struct fault f = run(1, 64, 0, "halves", clears, "", "st.shared.u32 [%r2], %t;");
    assert_int_equal(f.kind, FAULT_RACE);
    assert_non_null(strstr(f.text, "more like it)"));
    assert_in_range(notes, 1, 8);
}

// ---- Shadow cells of the race checks (races/cells.h) --------------------------------------------

// A warp reads memory again after a barrier: another warp may write that memory only after the next
// barrier.
static void a_reading_ends_with_its_time(void **state)
{
    (void)state;
#define READS "@%p1 ld.shared.u32 %r5, [%r1];\n"
#define AGAIN(order, before_write)                                                                 \
    "words_of_32", READS READS order, READS before_write, "@!%p1 st.shared.u32 [%r1], 7;"
    good(1, 64, AGAIN("bar.sync 0;", "bar.sync 0;"));
    good(1, 64, AGAIN("bar.warp.sync -1;", "bar.sync 0;"));
    good(1, 64, AGAIN("fence.acq_rel.gpu;", "barrier.sync 1, 64;"));
    bad(1, 64, FAULT_RACE, no_barrier, AGAIN("bar.sync 0;", ""));
    bad(1, 64, FAULT_RACE, no_barrier, AGAIN("bar.sync 0;", "bar.warp.sync -1;"));
    bad(1, 64, FAULT_RACE, no_barrier, AGAIN("bar.warp.sync -1;", ""));
    bad(1, 64, FAULT_RACE, no_barrier, AGAIN("fence.acq_rel.gpu;", "barrier.sync 1, 32;"));
}

// Without a __syncwarp, a lane may access its own words again, but not another lane's.
static void lanes_keep_to_their_own(void **state)
{
    (void)state;
#define OWN(first, order, second) "words_of_32", first, order, second
    static const char store[] = "st.shared.u32 [%r1], %t;", nines[] = "st.shared.u32 [%r1], 9;";
    static const char load[] = "ld.shared.u32 %r5, [%r1];", next[] = "ld.shared.u32 %r5, [%r2];",
                      one[] = "ld.shared.u32 %r5, [%s];", warp[] = "bar.warp.sync -1;";
    good(1, 32, OWN(load, "", nines));
    good(1, 32, OWN(store, "", load));
    good(1, 32, OWN("st.shared.u32 [%r1], 8;", "", nines));
    // One of the two accesses is to the next lane's words, to words in another order, or to one
    // word.
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(store, "", "ld.shared.u32 %r5, [%r1+4];"));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(store, "", next));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(store, "", one));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(load, "", "st.shared.u32 [%r1+4], 9;"));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(next, "", nines));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(one, "", nines));
    good(1, 32, OWN(next, warp, nines));
    // Each lane reads another lane's word, and then its own: the earlier reading counts, too.
    static const char mirrored[] = "ld.shared.u32 %r5, [%r4]; ld.shared.u32 %r5, [%r1];";
    good(1, 32, OWN(mirrored, warp, nines));
    bad(1, 32, FAULT_RACE, no_syncwarp, OWN(mirrored, "", nines));
    bad(1, 32, FAULT_RACE, no_syncwarp,
        OWN("ld.shared.u32 %r5, [%s]; ld.shared.u32 %r5, [%r1];", "", nines));
}

// A third warp may read a line of cells only if it has met both warps that have written parts of
// it.
static void a_line_has_several_writers(void **state)
{
    (void)state;
    good(1, 96, "thirds", "96", "64");
    bad(1, 96, FAULT_RACE, no_barrier, "thirds", "64", "32");
}

// The lanes of a warp that only arrives at a barrier (bar.arrive) are not ordered by it: none may
// then read what another has written before.
static void what_is_told_is_not_known(void **state)
{
    (void)state;
#define TOLD(order)                                                                                \
    "words_of_32", "setp.lt.u32 %p2, %t, 64;\n@%p1 bra A;\n@%p2 bra B;\nbar.sync 2, 64;\nret;",    \
        "A: bar.arrive 1, 64;\nret;\nB: bar.sync 1, 64;\nst.shared.u32 [%r1+128], %t;",            \
        "bar.arrive 2, 64;\n" order "\nld.shared.u32 %r3, [%r2+128];"
    good(1, 96, TOLD("bar.warp.sync -1;"));
    bad(1, 96, FAULT_RACE, no_syncwarp, TOLD(""));
}

// A read of a copy's bytes is reported until they have arrived; from then on their line of cells is
// checked like any other.
static void a_line_waits_for_its_copies(void **state)
{
    (void)state;
#define FETCHED(wait, order)                                                                       \
    "words_of_32", "@!%p1 bra W;\ncp.async.ca.shared.global [%r1], [%o], 4;\n" wait, "W: " order,  \
        "ld.shared.u32 %r5, [%r1];\nld.shared.u32 %r5, [%s];"
    good(1, 64, FETCHED("cp.async.wait_all;", "bar.sync 0;"));
    bad(1, 64, FAULT_RACE, "in between", FETCHED("cp.async.wait_all;", "bar.warp.sync -1;"));
    bad(1, 64, FAULT_RACE, "nothing has waited for it", FETCHED("", "bar.sync 0;"));
}

// Accesses of whole warps to global memory: within a CTA, in one page of cells or two, and across
// CTAs.
static void warps_in_global_memory(void **state)
{
    (void)state;
    static const char loads[] = "ld.global.u32 %r3, [%x1];", stores[] = "st.global.u32 [%x1], %t;";
    uint32_t *kept = out, *pages = memory_alloc(3 * 4096);
    for (int round = 0; round < 2; ++round) {
        good(1, 64, "globally", loads, "bar.sync 0;", stores);
        good(1, 64, "globally", stores, "bar.sync 0;", loads);
        good(1, 64, "globally", loads, "", loads);
        bad(1, 64, FAULT_RACE, no_barrier, "globally", loads, "", stores);
        bad(1, 64, FAULT_RACE, no_barrier, "globally", stores, "bar.warp.sync -1;", loads);
        bad(1, 64, FAULT_RACE, no_barrier, "globally", stores, "", stores);
        bad(1, 32, FAULT_RACE, "no __syncwarp", "few",
            "st.global.u32 [%o], %t; ld.global.u32 %r3, [%o+4];");
        good(1, 32, "few",
             "st.global.u32 [%o], %t; ld.global.u32 %r3, [%o]; st.global.u32 [%o], 1;");
        bad(2, 32, FAULT_RACE, no_release, "few",
            "ld.global.u32 %r3, [%o]; mov.u32 %r4, %ctaid.x; st.global.u32 [%o], %r4;");
        // Half of the warp's words lie in the next page.
        out = (uint32_t *)(((uintptr_t)pages + 4095) / 4096 * 4096 + 4096) - 16;
        for (int i = -16; i < 64; ++i)
            out[i] = 1;
        memory_mark(out - 16, NULL, 80 * 4);
    }
    out = kept;
    memory_free(pages);
}

// A flag publishes what the whole CTA did before its barrier, and nothing else.
static void a_flag_tells_of_a_warp(void **state)
{
    (void)state;
    good(2, 64, "flag_of_a_cta", "bar.sync 0;");
    bad(2, 64, FAULT_RACE, no_release, "flag_of_a_cta", "");
}

// Each of CTAS CTAs waits until all have begun. They end only if all are resident at a time.
static void all_that_wait_must_be_resident(void **state)
{
    (void)state;
    enum { CTAS = 8 };
    for (unsigned schedule = 0; schedule < 16; ++schedule)
        for (uint64_t most = 0; most <= CTAS + 1; ++most) {
            out[0] = 0;
            resident = most;
            const struct fault f = run(CTAS, 1, schedule, "few",
                                       "red.release.gpu.global.add.u32 [%out], 1;\n"
                                       "W: ld.acquire.gpu.global.u32 %r1, [%out];\n"
                                       "setp.lt.u32 %p1, %r1, 8;\n"
                                       "@%p1 bra W;");
            const bool fit = most == 0 || most >= CTAS;
            if (f.kind != (fit ? FAULT_NONE : FAULT_DEADLOCK))
                fail_msg("%d CTAs, %d resident, schedule %u: %d \"%s\"", CTAS, (int)most, schedule,
                         f.kind, f.text);
            if (!fit)
                assert_int_equal(out[0], most);
        }
    resident = 0;
}

// ---- Ablation -----------------------------------------------------------------------------------

// Runs PTX instructions and spoils execution `at` of CTA `cta`; or, with count 0, notes all
// executions and returns their number.
static uint64_t spoil_in(unsigned grid, unsigned block, enum spoils what, int count, uint64_t cta,
                         uint64_t at, const char *text)
{
    struct ablation a = {.what = what, .count = count, .chosen = {{cta, at}}, .logs = !count};
    for (uint32_t i = 0; i < WORDS; ++i)
        out[i] = 1000 + i;
    ablation = &a;
    struct fault f = run(grid, block, 0, "few", text);
    ablation = NULL;
    assert_int_equal(f.kind, FAULT_NONE);
    assert_int_equal(a.ctas, grid);
    uint64_t executions = 0;
    for (size_t i = 0; i < a.logged; ++i)
        executions += !a.log[i].more;
    free(a.log);
    free(a.signalled);
    free(a.made);
    return executions;
}

// As spoil_in(), on two CTAs of a warp each.
static uint64_t spoil(enum spoils what, int count, uint64_t cta, uint64_t at, const char *text)
{
    return spoil_in(2, 32, what, count, cta, at, text);
}

// Each of the two CTAs makes two copies, and reads the first of them only.
static void copies_are_spoiled(void **state)
{
    (void)state;
    static const char text[] =
        "mad.lo.u32 %r1, %t, 4, %s;\ncp.async.ca.shared.global [%r1], [%o], 4;\n"
        "cp.async.ca.shared.global [%r1+128], [%o], 4;\ncp.async.wait_all;\n"
        "ld.shared.u32 %r0, [%r1];\nst.global.u32 [%o+256], %r0;";
    assert_int_equal(spoil(SPOIL_COPIES, 0, 0, 0, text), 4);
    assert_int_equal(out[64 + 5], 1005);
    spoil(SPOIL_COPIES, 1, 1, 0, text);
    assert_int_equal(out[64 + 5], 1005 ^ 0x80808080);
    spoil(SPOIL_COPIES, 1, 1, 1, text);
    assert_int_equal(out[64 + 5], 1005);
    assert_int_equal(spoil(SPOIL_PRODUCTS, 0, 0, 0, text), 0);
}

// One thread of each CTA makes two bulk copies of 16 bytes, and reads the first.
static void bulk_copies_are_spoiled(void **state)
{
    (void)state;
#define BULK(to)                                                                                   \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+" to                    \
    "], [%out+16], 16, [%s];\n"
    static const char text[] =
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra E;\nmbarrier.init.shared.b64 [%s], 1;\n"
        "mbarrier.arrive.expect_tx.shared.b64 %x1, [%s], 32;\n" BULK("16")
            BULK("32") "W: mbarrier.test_wait.shared.b64 %p2, [%s], %x1;\n@!%p2 bra W;\n"
                       "ld.shared.u32 %r0, [%s+16];\nst.global.u32 [%out+256], %r0;\nE: ret;";
#undef BULK
    assert_int_equal(spoil(SPOIL_COPIES, 0, 0, 0, text), 4);
    assert_int_equal(out[64], 1004);
    spoil(SPOIL_COPIES, 1, 1, 0, text);
    assert_int_equal(out[64], 1004 ^ 0x80808080);
    spoil(SPOIL_COPIES, 1, 1, 1, text);
    assert_int_equal(out[64], 1004);
}

// Spoils products in which each sum is 16 times 1 x 1.
static void products_are_spoiled(void **state)
{
    (void)state;
    static const char text[] =
        "mov.b32 %r0, 0x3c003c00;\nmov.b32 %r5, 0;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, "
        "{%r0,%r0,%r0,%r0}, {%r0,%r0}, {%r5,%r5,%r5,%r5};\n"
        "st.global.v4.u32 [%out+256], {%r1,%r2,%r3,%r4};";
    const uint32_t minus_16 = 0xc1800000, all[] = {minus_16, minus_16, minus_16, minus_16};
    assert_int_equal(spoil(SPOIL_PRODUCTS, 0, 0, 0, text), 2);
    assert_int_equal(out[64], 0x41800000);
    spoil(SPOIL_PRODUCTS, 1, 1, 0, text);
    assert_memory_equal(out + 64, all, sizeof all);
}

// A warpgroup's product of 64 x 16 ones with 16 x 8 ones; each of its four warps is one execution.
static void products_of_warpgroups_are_spoiled(void **state)
{
    (void)state;
    static const char text[] =
        "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], 0x3c003c00;\n"
        "fence.proxy.async.shared::cta;\nbar.sync 0;\nmov.b32 %r0, 0x3c003c00;\n"
        "setp.ne.u32 %p1, 0, 0;\nshr.u32 %r2, %s, 4;\ncvt.u64.u32 %x1, %r2;\n"
        "or.b64 %x1, %x1, 0x0000001000080000;\nwgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r4,%r5,%r6,%r7}, "
        "{%r0,%r0,%r0,%r0}, %x1, %p1, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\nst.global.u32 [%o], %r7;";
    const uint32_t plus_16 = 0x41800000, minus_16 = 0xc1800000;
    int plus = 0, minus = 0;
    assert_int_equal(spoil_in(1, 128, SPOIL_PRODUCTS, 0, 0, 0, text), 4);
    for (int i = 0; i < 128; ++i)
        assert_int_equal(out[i], plus_16);
    spoil_in(1, 128, SPOIL_PRODUCTS, 1, 0, 3, text);
    for (int i = 0; i < 128; ++i) {
        assert_int_equal(out[i], out[i / 32 * 32]); // all results of a warp changed, or none
        plus += out[i] == plus_16;
        minus += out[i] == minus_16;
    }
    assert_int_equal(plus, 96);
    assert_int_equal(minus, 32);
}

// Spoils the result of an atom, and leaves out the update of a red; atomic operations on shared
// memory are not spoiled.
static void atomics_are_spoiled(void **state)
{
    (void)state;
    static const char text[] = "st.shared.u32 [%s], %t;\natom.global.add.u32 %r0, [%out], 1;\n"
                               "st.global.u32 [%o+256], %r0;\nred.global.add.u32 [%out+4], 1;\n"
                               "atom.shared.add.u32 %r1, [%s], 1;";
    assert_int_equal(spoil(SPOIL_ATOMICS, 0, 0, 0, text), 4);
    spoil(SPOIL_ATOMICS, 1, 1, 0, text);
    assert_int_equal(out[0], 1064);
    assert_int_equal(out[64], 1000 + 32 + 1);
    assert_int_equal(out[1], 1065);
    spoil(SPOIL_ATOMICS, 1, 0, 1, text);
    assert_int_equal(out[64], 1032);
    assert_int_equal(out[1], 1033);
}

static struct ablation note(unsigned grid, enum spoils what, const char *text)
{
    struct ablation a = {.what = what, .logs = true};
    for (uint32_t i = 0; i < WORDS; ++i)
        out[i] = 1000 + i;
    ablation = &a;
    struct fault f = run(grid, 32, 0, "few", text);
    ablation = NULL;
    assert_int_equal(f.kind, FAULT_NONE);
    return a;
}

// A product is noted in pieces: one for each register of A and register of B that meet. Equal
// operands of two products have equal hashes. Pieces of zeros and integer products count as no
// work.
static void products_are_noted(void **state)
{
    (void)state;
    static const char text[] =
        "mov.b32 %r0, 0x3c003c00;\nmov.b32 %r5, 0;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, "
        "{%r0,%r0,%r0,%r0}, {%r0,%r0}, {%r5,%r5,%r5,%r5};\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, "
        "{%r0,%r0,%r0,%r0}, {%r0,%t}, {%r5,%r5,%r5,%r5};\n"
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, "
        "{%r0,%r0,%r0,%r0}, {%r0,%r0}, {%r5,%r5,%r5,%r5};\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, "
        "{%r0,%r0,%r5,%r5}, {%r0,%r0}, {%r5,%r5,%r5,%r5};";
    struct ablation a = note(1, SPOIL_PRODUCTS, text);
    enum { PIECES = 4 };
    assert_int_equal(a.logged, 4 * PIECES);
    for (int i = 0; i < 4 * PIECES; ++i)
        assert_int_equal(a.log[i].more, i % PIECES > 0);
    for (int i = 0; i < PIECES; ++i) {
        const bool zeros =
            i >= 2; // pieces of the last two registers of A, zeros in the fourth product
        assert_int_equal(a.log[i].work, 2 * 8 * 8 * 8);
        assert_int_equal(a.log[2 * PIECES + i].work, 0);
        assert_int_equal(a.log[3 * PIECES + i].work, zeros ? 0 : 2 * 8 * 8 * 8);
    }
    assert_true(a.log[0].of[0] == a.log[PIECES].of[0]);
    int differ = 0;
    for (int i = 0; i < PIECES; ++i)
        differ += a.log[i].of[1] != a.log[PIECES + i].of[1];
    assert_int_equal(differ, 2); // the pieces with the second register of B
    free(a.log);
}

// In a hasty launch the first group's copies of the second CTA appear at once, and the second group's at the wait.
static void half_of_the_copies_are_early(void **state)
{
    (void)state;
    static const char text[] =
        "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], 7;\nst.shared.u32 [%r1+128], 7;\n"
        "cp.async.ca.shared.global [%r1], [%out], 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r1+128], [%out], 4;\ncp.async.commit_group;\n"
        "ld.shared.u32 %r2, [%r1];\nld.shared.u32 %r3, [%r1+128];\n"
        "cp.async.wait_all;\nld.shared.u32 %r4, [%r1];\n"
        "st.global.u32 [%o+128], %r4;\nst.global.u32 [%o+256], %r2;\nst.global.u32 [%o+384], %r3;";
    hasty = true;
    spoil(SPOIL_ATOMICS, 1, 1, 0, text);
    hasty = false;
    assert_int_equal(out[64 + 5], 1000);
    assert_int_equal(out[96 + 5], 7);
    assert_int_equal(out[32 + 5], 1000);
}

// A copy is logged with its bytes, and with its bytes times what the CTA did until the copy
// arrived: new pieces of products (an equal piece counts once), and bytes of another copy that were
// read for the first time. Other instructions do not count.
static void copies_are_noted(void **state)
{
    (void)state;
#define COPY "cp.async.ca.shared.global [%r1], [%o], 4;\ncp.async.commit_group;\n"
#define PRODUCT                                                                                    \
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r2,%r3,%r4,%r6}, {%r0,%r0,%r0,%r0}, "     \
    "{%r0,%r0}, {%r5,%r5,%r5,%r5};\n"
#define NOTED(between)                                                                             \
    "mov.b32 %r0, 0x3c003c00;\nmov.b32 %r5, 0;\nmad.lo.u32 %r1, %t, 4, %s;\n" COPY                 \
    "cp.async.wait_all;\nadd.u32 %r1, %r1, 128;\n" COPY between                                    \
    "cp.async.wait_all;\nst.global.u32 [%o+256], %r0;"
    static const struct {
        const char *text;
        float products, reads;
        uint32_t work; // bytes of both copies that are read
    } list[] = {
        {NOTED("add.u32 %r0, %r0, 1;\n"), 0, 0, 0},
        {NOTED(PRODUCT), 128 * 1, 0, 0}, // its pieces are equal: they count once
        {NOTED(PRODUCT PRODUCT), 128 * 1, 0, 0},
        {NOTED("ld.shared.u32 %r2, [%r1+-128];\n"), 0, 128 * 128, 128},
        {NOTED("ld.shared.u32 %r2, [%r1+-128];\nld.shared.u32 %r2, [%r1+-128];\n"), 0, 128 * 128,
         128},
        {NOTED("ld.shared.u8 %r2, [%r1+-128];\nld.shared.u8 %r2, [%r1+-126];\n"), 0, 128 * 64, 64},
        // The second copy is read before it arrives: that is no progress.
        {NOTED("ld.shared.u32 %r2, [%r1];\nld.shared.u32 %r2, [%r1];\n"), 0, 0, 128},
        // The first copy's bytes are replaced before they are read: by stores, a fragment, a copy.
        {NOTED("st.shared.u32 [%r1+-128], 0;\nld.shared.u32 %r2, [%r1+-128];\n"), 0, 0, 0},
        {NOTED("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%s], {%r0,%r0,%r0,%r0,%r0,%r0,"
               "%r0,%r0};\nld.shared.u32 %r2, [%r1+-128];\n"),
         0, 0, 0},
        {NOTED("cp.async.ca.shared.global [%r1+-128], [%o], 4;\ncp.async.wait_all;\n"
               "ld.shared.u32 %r2, [%r1+-128];\n"),
         0, 0, 0},
        {NOTED("atom.shared.add.u32 %r2, [%r1+-128], 1;\nld.shared.u32 %r2, [%r1+-128];\n"), 0,
         128 * 128, 128},
        {NOTED("red.shared.add.u32 [%r1+-128], 1;\nld.shared.u32 %r2, [%r1+-128];\n"), 0, 0, 0},
        // The fragment has 512 bytes, 128 of which the first copy has brought.
        {NOTED("mad.lo.u32 %r2, %t, 8, %s;\nst.shared.v2.u32 [%r2+256], {%r0,%r0};\n"
               "st.shared.u32 [%r1], 0;\n"
               "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
               "{%r6,%r7,%r8,%r9,%r10,%r11,%r12,%r13}, [%s];\n"),
         0, 128 * 128, 128},
        {NOTED("and.b32 %r2, %t, 7;\nmad.lo.u32 %r2, %r2, 16, %s;\n"
               "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];\n"),
         0, 128 * 128, 128},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        struct ablation a = note(1, SPOIL_COPIES, list[i].text);
        assert_in_range(a.logged, 2, 3);
        assert_int_equal(a.log[0].brought, 128);
        assert_int_equal(a.log[0].work + a.log[1].work, list[i].work);
        assert_true(a.log[0].under_way[PROGRESS_PRODUCTS] == 0);
        assert_true(a.log[1].under_way[PROGRESS_PRODUCTS] == list[i].products);
        assert_true(a.log[1].under_way[PROGRESS_READS] == list[i].reads);
        free(a.log);
        free(a.signalled);
        free(a.made);
    }
#undef NOTED
#undef PRODUCT
#undef COPY
}

// Two CTAs add to two words: where 1 is added, their results differ; where 0 is added, they are
// equal.
static void atomics_are_noted(void **state)
{
    (void)state;
    struct ablation a = note(2, SPOIL_ATOMICS,
                             "atom.global.add.u32 %r0, [%out], 1;\n"
                             "atom.global.add.u32 %r0, [%out+4], 0;");
    assert_int_equal(a.logged, 4);
    assert_true(a.log[0].of[0] == a.log[2].of[0] && a.log[0].of[1] != a.log[2].of[1]);
    assert_true(a.log[1].of[0] == a.log[3].of[0] && a.log[1].of[1] == a.log[3].of[1]);
    assert_true(a.log[0].of[0] != a.log[1].of[0]);
    free(a.log);
    free(a.signalled);
}

static uint64_t meets_of(unsigned block, const char *text)
{
    struct ablation a = {.what = SPOIL_PRODUCTS, .logs = true};
    ablation = &a;
    struct fault f = run(1, block, 0, "few", text);
    ablation = NULL;
    assert_int_equal(f.kind, FAULT_NONE);
    free(a.signalled);
    return a.meets;
}

// A warp that waits or reads at an address where it has signalled meets others there, as at a
// barrier (struct ablation); a warp that only passes on a value does not.
static void meetings_are_noted(void **state)
{
    (void)state;
    struct ablation a = note(1, SPOIL_PRODUCTS,
                             "st.volatile.shared.u32 [%s], 1;\n"
                             "ld.volatile.shared.u32 %r0, [%s];\n"
                             "ld.volatile.shared.u32 %r0, [%s];");
    assert_int_equal(a.meets, 1);
    free(a.signalled);
    a = note(1, SPOIL_PRODUCTS,
             "st.volatile.shared.u32 [%s], 1;\nst.volatile.shared.u32 [%s+4], 1;\n"
             "ld.shared.u32 %r0, [%s];");
    assert_int_equal(a.meets, 0);
    free(a.signalled);
    a = note(1, SPOIL_PRODUCTS,
             "setp.ne.u32 %p1, %t, 0;\n@%p1 bra E;\n"
             "mbarrier.init.shared.b64 [%s], 1;\n"
             "mbarrier.arrive.shared.b64 %x1, [%s];\n"
             "W: mbarrier.test_wait.shared.b64 %p2, [%s], %x1;\n@!%p2 bra W;\nE: ret;");
    assert_int_equal(a.meets, 1);
    free(a.signalled);
    a = note(1, SPOIL_PRODUCTS, // at many addresses
             "mov.u32 %r1, %s;\nadd.u32 %r2, %s, 256;\nL: st.volatile.shared.u32 [%r1], 1;\n"
             "ld.volatile.shared.u32 %r0, [%r1];\nadd.u32 %r1, %r1, 4;\n"
             "setp.lt.u32 %p1, %r1, %r2;\n@%p1 bra L;");
    assert_int_equal(a.meets, 64);
    free(a.signalled);
}

// Warp 0 stores a flag and polls a second one, which warp 1 stores. Warp 0 has met warp 1 only if
// warp 1 has polled the first flag before it stores the second.
static void go_betweens_are_noted(void **state)
{
    (void)state;
#define ROUND(first, second)                                                                       \
    "st.shared.u32 [%s], 0;\nst.shared.u32 [%s+4], 0;\nbar.sync 0;\n"                              \
    "setp.ge.u32 %p1, %t, 32;\n@%p1 bra B;\nst.volatile.shared.u32 [%s], 1;\n"                     \
    "W: ld.volatile.shared.u32 %r0, [%s+4];\nsetp.ne.u32 %p2, %r0, 1;\n@%p2 bra W;\n"              \
    "ret;\nB: " first second "ret;"
#define SIGNAL "st.volatile.shared.u32 [%s+4], 1;\n"
#define ASK "V: ld.volatile.shared.u32 %r0, [%s];\nsetp.ne.u32 %p2, %r0, 1;\n@%p2 bra V;\n"
    assert_int_equal(meets_of(64, ROUND(SIGNAL, ASK)), 0);
    assert_int_equal(meets_of(64, ROUND(ASK, SIGNAL)), 1);
#undef ASK
#undef SIGNAL
#undef ROUND
}

// Notes which CTA (1 + its number) was the last to store to each output, two bytes, also by a
// generic address; stores to shared memory do not count.
static void writers_are_noted(void **state)
{
    (void)state;
    uint64_t writers[4] = {0};
    struct ablation a = {.what = SPOIL_PRODUCTS,
                         .logs = true,
                         .watched = (uint64_t)(uintptr_t)&out[1],
                         .writers_count = 4,
                         .writers = writers};
    ablation = &a;
    struct fault f = run(2, 1, 0, "few",
                         "mov.u32 %r0, %ctaid.x;\nmul.wide.u32 %x0, %r0, 4;\n"
                         "add.u64 %x0, %x0, %out;\nst.shared.u32 [%s], %t;\n"
                         "st.global.u32 [%x0], %t;\nst.u16 [%x0+4], 0;");
    ablation = NULL;
    assert_int_equal(f.kind, FAULT_NONE);
    assert_int_equal(writers[0], 2); // half of out[1]: both CTAs stored to it, the second CTA later
    assert_int_equal(writers[1], 2);
    assert_int_equal(writers[2], 2); // only this half of out[2] was stored
    assert_int_equal(writers[3], 0);
    free(a.log);
}

// One CTA loads three sectors of the watched part, by a load, a copy and an atomic; the other loads only one of them.
static void the_busiest_is_known(void **state)
{
    (void)state;
    uint8_t seen[4] = {0};
    struct ablation a = {
        .what = SPOIL_STORES,
        .logs = true,
        .parts = {{.first = (uint64_t)(uintptr_t)&out[8], .bytes = 3 * 32, .seen = seen}}};
    ablation = &a;
    struct fault f = run(2, 32, 0, "few",
                         "mov.u32 %r0, %ctaid.x;\nsetp.ne.u32 %p1, %r0, 0;\n"
                         "ld.global.u32 %r1, [%out+32];\nld.global.u32 %r1, [%out];\n"
                         "st.global.u32 [%out+64], 0;\n@%p1 bra E;\n"
                         "cp.async.ca.shared.global [%s], [%out+64], 4;\n"
                         "atom.global.or.b32 %r1, [%out+96], 0;\nE: ret;");
    ablation = NULL;
    assert_int_equal(f.kind, FAULT_NONE);
    assert_int_equal(a.distinct, 3);
    assert_int_equal(a.busiest, 3);
    free(a.log);
    free(a.signalled);
}

// Notes how many bytes of a load other threads have stored. The loads: the neighbouring lane's
// word, the lane's own, one word for all lanes; and fragments, whose elements the lane itself or
// others have stored.
static void passages_are_noted(void **state)
{
    (void)state;
    static const char text[] =
        "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], %t;\nxor.b32 %r2, %r1, 4;\n"
        "ld.shared.u32 %r0, [%r2];\nld.shared.u32 %r0, [%r1];\nld.shared.u32 %r0, [%s];\n"
        "ld.shared.u16 %r0, [%r2];\n"
        "cp.async.ca.shared.global [%r1], [%o], 4;\ncp.async.wait_all;\n"
        "ld.shared.u32 %r0, [%r1];\n"
        "and.b32 %r2, %t, 7;\nmad.lo.u32 %r2, %r2, 16, %s;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];\n"
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%r2];";
    static const uint32_t passed[] = {128, 0, 0, 64, 0, 0, 112};
    struct ablation a = note(1, SPOIL_LOADS, text);
    assert_int_equal(a.logged, sizeof passed / sizeof *passed);
    for (size_t i = 0; i < a.logged; ++i)
        assert_int_equal(a.log[i].work, passed[i]);
    assert_true(a.log[1].of[0] != a.log[0].of[0]);
    free(a.log);
}

// Spoils the stores of one CTA, also those with generic addresses, but no store to shared memory.
static void stores_are_spoiled(void **state)
{
    (void)state;
    static const char text[] =
        "mov.u32 %r0, %ctaid.x;\nmul.wide.u32 %x0, %r0, 128;\nadd.u64 %x0, %x0, %o;\n"
        "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], %t;\nld.shared.u32 %r2, [%r1];\n"
        "st.global.u32 [%x0+256], %r2;\nst.u32 [%x0+128], %r2;";
    assert_int_equal(spoil(SPOIL_STORES, 0, 0, 0, text), 2);
    spoil(SPOIL_STORES, 1, 0, 0, text);
    assert_int_equal(out[32 + 7], 1039);
    assert_int_equal(out[64 + 7], 7); // stored by the other CTA
    assert_int_equal(out[96 + 7], 7);
    spoil(SPOIL_STORES, 1, 1, 0, text);
    assert_int_equal(out[32 + 7], 7);
    assert_int_equal(out[96 + 7], 1103);
}

// One of two loads is spoiled; a store before it and a load after it are not.
static void loads_are_spoiled(void **state)
{
    (void)state;
    static const char text[] =
        "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], %t;\nld.shared.u32 %r0, [%r1];\n"
        "ld.shared.u32 %r2, [%r1];\nst.global.u32 [%o+256], %r0;\nst.global.u32 [%o+384], %r2;";
    spoil(SPOIL_LOADS, 1, 1, 0, text);
    assert_int_equal(out[64 + 5], 5 ^ 0x80808080);
    assert_int_equal(out[96 + 5], 5);
    spoil(SPOIL_LOADS, 1, 1, 1, text);
    assert_int_equal(out[64 + 5], 5);
    assert_int_equal(out[96 + 5], 5 ^ 0x80808080);
}

// If a warp multiplies at any time, all sectors that it loads count as a multiplying warp's. Those
// that it loads before its first product are one group; at_once is the square of the group's size.
static void who_loads_is_noted(void **state)
{
    (void)state;
#define LOAD "ld.global.u32 %r0, [%o];\n"
#define PRODUCT                                                                                    \
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, {%r5,%r5,%r5,%r5}, "     \
    "{%r5,%r5}, {%r5,%r5,%r5,%r5};\n"
    struct ablation a = note(1, SPOIL_PRODUCTS, "mov.b32 %r5, 0;\n" LOAD PRODUCT LOAD);
    assert_int_equal(a.loaded, 2 * 4);
    assert_int_equal(a.loaded_beside, 2 * 4);
    assert_int_equal(a.ahead, 4);
    assert_true(a.at_once == 4 * 4);
    free(a.log);
    a = note(1, SPOIL_PRODUCTS, LOAD LOAD);
    assert_int_equal(a.loaded, 2 * 4);
    assert_int_equal(a.loaded_beside, 0);
    assert_int_equal(a.ahead, 2 * 4);
    assert_true(a.at_once == 8 * 8);
    free(a.log);
    a = note(1, SPOIL_PRODUCTS, "ld.global.u32 %r0, [%out];\n"); // one address for all lanes
    assert_int_equal(a.loaded, 1);
    free(a.log);
#undef LOAD
#undef PRODUCT
}

// Logs loads (the parameter's first), shuffles, atomics, copies, chosen bytes (prmt) and matrices;
// equal addresses have equal hashes.
static void lookups_are_noted(void **state)
{
    (void)state;
#define LOOKUPS(index)                                                                             \
    "mad.lo.u32 %r1, %t, 4, %s;\nst.shared.u32 [%r1], 1;\nld.shared.u32 %r0, [%r1];\n"             \
    "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;\nshfl.sync.idx.b32 %r2, %r0, " index ", 31, -1;\n"    \
    "atom.shared.or.b32 %r2, [%r1], 0;\ncp.async.ca.shared.global [%r1], [%o], 4;\n"               \
    "cp.async.wait_all;\nprmt.b32 %r2, %r0, %r1, " index ";\nprmt.b32 %r2, %r0, %r1, 0x5410;\n"    \
    "and.b32 %r2, " index ", 7;\nmad.lo.u32 %r2, %r2, 16, %s;\n"                                   \
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];"
    struct ablation a = note(1, SPOIL_LOOKUPS, LOOKUPS("%t"));
    enum { PARAMETER, LOAD, BUTTERFLY, SHUFFLE, ATOMIC, COPY, CHOICE, MATRIX, ALL };
    assert_int_equal(a.logged, ALL);
    assert_int_equal(a.log[PARAMETER].work, 4 * 32); // 32 lanes of a CTA that stands for four CTAs
    struct execution before[ALL];
    memcpy(before, a.log, sizeof before);
    free(a.log);
    free(a.signalled);
    a = note(1, SPOIL_LOOKUPS, LOOKUPS("%r1"));
    assert_int_equal(a.logged, ALL);
    for (int i = PARAMETER; i < ALL; ++i)
        assert_int_equal(a.log[i].of[0] == before[i].of[0],
                         i != SHUFFLE && i != CHOICE && i != MATRIX);
    free(a.log);
    free(a.signalled);
#undef LOOKUPS
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
        TEST(all_that_wait_must_be_resident),
        TEST(copies_are_spoiled),
        TEST(bulk_copies_are_spoiled),
        TEST(products_are_spoiled),
        TEST(products_of_warpgroups_are_spoiled),
        TEST(atomics_are_spoiled),
        TEST(products_are_noted),
        TEST(half_of_the_copies_are_early),
        TEST(copies_are_noted),
        TEST(atomics_are_noted),
        TEST(meetings_are_noted),
        TEST(go_betweens_are_noted),
        TEST(writers_are_noted),
        TEST(the_busiest_is_known),
        TEST(stores_are_spoiled),
        TEST(loads_are_spoiled),
        TEST(passages_are_noted),
        TEST(who_loads_is_noted),
        TEST(lookups_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
