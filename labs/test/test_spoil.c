// test_spoil.c: which spoiled executions are noticed, and in how many launches, tested with launches
// that are made up here.
#include "../judge/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTAS = 8, OF_EACH = 2, OUTPUTS = 2 * CTAS, DRAWS = 24, ENOUGH = 8 };

static struct execution executions[2 * CTAS * OF_EACH];
static uint64_t writers[OUTPUTS];
static uint16_t out[OUTPUTS], now[OUTPUTS];

static struct made_up {
    bool used[OF_EACH];     // for each of a CTA's executions, whether it changes outputs
    bool shows_in_last;     // whether only the last CTA's outputs change
    bool never_ends;        // whether spoiled launches do not end
    bool differs;           // whether each launch has other outputs
    bool pieces;            // whether each execution is logged in two pieces
    bool copies;            // whether the executions are copies
    bool not_read[OF_EACH]; // for each of a CTA's copies, whether nobody reads it
    int launches, spoiled, used_alone;
} made_up;

static const uint16_t *launch(void *of, const struct ablation *a)
{
    struct made_up *m = of;
    int used = 0;

    memcpy(now, out, sizeof now);
    ++m->launches;
    m->spoiled += a->count;
    now[0] = (uint16_t)(now[0] + (m->differs ? m->launches : 0));
    for (int i = 0; i < a->count; ++i) {
        const uint64_t cta = a->chosen[i].cta;
        assert_true(cta < CTAS && a->chosen[i].at < OF_EACH);
        for (int k = 0; k < i; ++k)
            assert_true(a->chosen[k].cta != cta);
        used += m->used[a->chosen[i].at];
        if (m->used[a->chosen[i].at])
            now[m->shows_in_last ? OUTPUTS - 1 : 2 * cta] = 1;
    }
    m->used_alone += a->count == 1 && used;
    return m->never_ends && a->count ? NULL : now;
}

// of_each: the sets of inputs that change each of a CTA's executions; NULL: all may be drawn.
static struct noticed spoil_of(struct made_up as, const uint8_t of_each[OF_EACH])
{
    uint8_t changes[CTAS * OF_EACH];
    struct experiment e = {.what = SPOIL_PRODUCTS, .draws = DRAWS, .enough = ENOUGH};
    const struct spoiling s = {.experiment = &e,
                               .log = executions,
                               .count = CTAS * OF_EACH * (as.pieces ? 2 : 1),
                               .ctas = CTAS,
                               .writers = writers,
                               .out = out,
                               .outputs = OUTPUTS,
                               .launch = launch,
                               .of = &made_up};

    made_up = as;
    for (uint64_t i = 0; i < DRAWS; ++i)
        e.drawn[i] = 1000 * i + 7;
    // First each CTA's first execution, then each CTA's second.
    for (uint64_t i = 0; i < CTAS * OF_EACH; ++i)
        executions[i] = (struct execution){.cta = i % CTAS};
    for (uint64_t i = 0; i < 2 * CTAS * OF_EACH && as.pieces; ++i)
        executions[i] = (struct execution){.cta = i / 2 % CTAS, .more = i % 2};
    for (int i = 0; i < CTAS * OF_EACH && of_each; ++i) {
        changes[i] = of_each[i / CTAS];
        executions[i].work = !as.not_read[i / CTAS];
        executions[i].under_way[PROGRESS_READS] = 3;
    }
    for (uint64_t i = 0; i < OUTPUTS; ++i)
        writers[i] = i / 2 + 1;
    return as.copies ? spoil_working(&s, changes)
           : of_each ? spoil_each(&s, changes)
                     : spoil_all(&s);
}

static struct noticed spoil(struct made_up as)
{
    return spoil_of(as, NULL);
}

// Several executions are spoiled in one launch. The first ENOUGH draws are noticed: that suffices.
static void all_used(void **state)
{
    (void)state;
    const struct noticed n = spoil((struct made_up){.used = {true, true}});
    assert_int_equal(n.draws, ENOUGH);
    assert_int_equal(n.noticed, ENOUGH);
    assert_int_equal(made_up.spoiled, ENOUGH);
    assert_true(made_up.launches < ENOUGH);
    assert_true(n.repeats);
}

static void none_used(void **state)
{
    (void)state;
    const struct noticed n = spoil((struct made_up){.used = {false, false}});
    assert_int_equal(n.draws, DRAWS);
    assert_int_equal(n.noticed, 0);
    assert_true(n.repeats);
}

static void some_used(void **state)
{
    (void)state;
    const struct noticed n = spoil((struct made_up){.used = {true, false}});
    assert_int_equal(n.draws, DRAWS);
    assert_in_range(n.noticed, DRAWS / 4, 3 * DRAWS / 4);
    assert_int_equal(made_up.spoiled, DRAWS);
}

// Spoiling one CTA changes another's outputs: each draw gets its own launch, also the draws that
// shared the first launch.
static void used_by_others(void **state)
{
    (void)state;
    const struct noticed n = spoil((struct made_up){.used = {true, false}, .shows_in_last = true});
    assert_int_equal(n.draws, DRAWS);
    assert_int_equal(n.noticed, made_up.used_alone);
    assert_in_range(n.noticed, DRAWS / 4, 3 * DRAWS / 4);
    assert_true(made_up.launches > DRAWS);
}

static void what_does_not_end(void **state)
{
    (void)state;
    const struct noticed n = spoil((struct made_up){.never_ends = true});
    assert_int_equal(n.draws, ENOUGH);
    assert_int_equal(n.noticed, ENOUGH);
    assert_true(n.repeats);
}

// An execution that is logged in pieces counts as one execution.
static void pieces_are_spoiled_together(void **state)
{
    (void)state;
    struct made_up as = {.used = {true, true}, .pieces = true};
    const struct noticed n = spoil(as);
    assert_int_equal(n.draws, ENOUGH);
    assert_int_equal(n.noticed, ENOUGH);
}

static void what_differs_by_itself(void **state)
{
    (void)state;
    assert_false(spoil((struct made_up){.differs = true}).repeats);
}

static struct worked_on worked_on(enum spoils what, struct execution *log, size_t count)
{
    const size_t ends[] = {count, 2 * count};
    const struct ablation a = {
        .what = what, .log = log, .logged = 2 * count, .progress = {2 * 100, 2 * 10}};
    uint8_t *changes;
    const struct worked_on w = worked_on_of(&a, ends, 2, &changes);

    free(changes);
    return w;
}

// worked_on.orders of 16 atomic operations by `ctas` CTAs; every `together` CTAs use one address.
// same: whether all operations find the same value.
static double orders(int ctas, int together, bool same)
{
    enum { COUNT = 16 };
    struct execution log[2 * COUNT] = {{.cta = 0}};

    for (uint64_t i = 0; i < COUNT; ++i) {
        log[i].cta = i % (uint64_t)ctas;
        log[i].of[0] = log[i].cta / (uint64_t)together;
        log[i].of[1] = same ? 7 : 10 + i;
    }
    return worked_on(SPOIL_ATOMICS, log, COUNT).orders;
}

static void queues_are_asked_by_half(void **state)
{
    (void)state;
    assert_true(orders(16, 16, false) == 1);
    assert_true(orders(16, 8, false) == 1);
    assert_true(orders(16, 4, false) == 0); // four queues, each asked by a quarter of the CTAs
    assert_true(orders(4, 4, false) == 1);
    assert_true(orders(4, 4, true) == 1. / 16);
    assert_true(orders(4, 2, false) == 0);
    assert_true(orders(2, 2, false) == 1); // one queue for both CTAs
    assert_true(orders(2, 1, false) == 0);
    assert_true(orders(1, 1, false) == 0);
}

// Four products that change with V, of which two have the same operands.
static void products_count_once(void **state)
{
    (void)state;
    static const uint64_t of[8][2] = {{1, 1}, {2, 1}, {1, 1}, {1, 2},
                                      {8, 8}, {8, 8}, {8, 8}, {8, 8}};
    struct execution log[8];
    for (int i = 0; i < 8; ++i)
        log[i] = (struct execution){.of = {of[i][0], of[i][1]}, .work = 10};
    assert_true(worked_on(SPOIL_PRODUCTS, log, 4).work[CHANGES_V] == 30);
    assert_true(worked_on(SPOIL_LOADS, log, 4).work[CHANGES_V] == 40);
}

// Ten copies of 8 bytes, each under way for some progress. Left out are the bytes that were not
// read and, of the other copies, the one that was under way longest.
static void bytes_are_under_way(void **state)
{
    (void)state;
    struct execution log[20] = {{.cta = 0}};
    for (int i = 0; i < 10; ++i)
        log[i] = (struct execution){.work = 8, .brought = 8, .under_way = {8 * 5}};
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[0] == 9 * 8 * 5 / 100.);
    log[3].under_way[0] = 8 * 5000;
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[0] == 9 * 8 * 5 / 100.);
    log[4].under_way[0] = 8 * 50;
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[0] == 9 * 8 * 5 / 100. + 8 * 45 / 100.);
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[1] == 0);
    for (int i = 0; i < 10; ++i)
        log[i].under_way[1] = 8 * 5;
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[1] == 9 * 8 * 5 / 10.);
    for (int i = 0; i < 10; ++i)
        log[i].work = i == 3 ? 0 : 4; // bytes that are read: none of the copy under way longest
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[1] == 9 * 4 * 5 / 10.);
    assert_true(worked_on(SPOIL_COPIES, log, 10).overlap[0] == (8 * 5 + 50) * 4 / 100.);
}

// Of a CTA's two executions, the first is not drawn if its copies were not read, or brought what no
// input changes. Time under way is added up over all draws, and over the noticed ones.
static void only_copies_that_are_read_are_drawn(void **state)
{
    (void)state;
    const uint8_t both[] = {CHANGES_V, CHANGES_K}, one[] = {0, CHANGES_K};
    for (int changes = 0; changes < 2; ++changes)
        for (int read = 0; read < 2; ++read) {
            const struct made_up as = {
                .used = {false, true}, .copies = true, .not_read = {!read, false}};
            const struct noticed n = spoil_of(as, changes ? both : one);
            assert_int_equal(n.draws, changes && read ? DRAWS : ENOUGH);
            assert_true((n.noticed == n.draws) == !(changes && read));
            assert_true(n.under_way[PROGRESS_READS] == 3. * n.draws);
            assert_true(n.noticed_under_way[PROGRESS_READS] == 3. * n.noticed);
        }
    const struct made_up unread = {.used = {true, true}, .copies = true, .not_read = {true, true}};
    assert_int_equal(spoil_of(unread, both).draws, 0);
}

// Of a CTA's two executions, one uses data that change with V, the other data that change with K.
static void each_tensor_must_be_used(void **state)
{
    (void)state;
    const uint8_t both[] = {CHANGES_V, CHANGES_K}, one[] = {CHANGES_V, 0};
    for (int k = 0; k < 4; ++k) {
        const struct noticed n = spoil_of((struct made_up){.used = {k & 1, k & 2}}, both);
        assert_int_equal(n.noticed, k == 3 ? n.draws : 0);
        assert_true(n.draws > 0 && n.repeats);
    }
    assert_int_equal(spoil_of((struct made_up){.used = {true, true}}, one).draws, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_used),
        cmocka_unit_test(none_used),
        cmocka_unit_test(some_used),
        cmocka_unit_test(used_by_others),
        cmocka_unit_test(what_does_not_end),
        cmocka_unit_test(pieces_are_spoiled_together),
        cmocka_unit_test(what_differs_by_itself),
        cmocka_unit_test(queues_are_asked_by_half),
        cmocka_unit_test(products_count_once),
        cmocka_unit_test(bytes_are_under_way),
        cmocka_unit_test(each_tensor_must_be_used),
        cmocka_unit_test(only_copies_that_are_read_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
