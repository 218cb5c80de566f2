// test_spoil.c: which draws are noticed, and in how many launches, of launches that are made up here.
#include "../judge/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CTAS = 8, OF_EACH = 2, OUTPUTS = 2 * CTAS, DRAWS = 24, ENOUGH = 8 };

static struct execution executions[CTAS * OF_EACH];
static uint64_t writers[OUTPUTS];
static uint16_t out[OUTPUTS], now[OUTPUTS];

static struct made_up {
    bool used[OF_EACH]; // of a CTA's executions, each
    bool shows_in_last; // what changes is an output of the last CTA, and of no other
    bool never_ends;    // of a launch in which something is spoiled
    bool differs;       // each launch has other outputs
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

static struct noticed spoil(struct made_up as)
{
    struct experiment e = {.what = SPOIL_PRODUCTS, .draws = DRAWS, .enough = ENOUGH};
    const struct spoiling s = {.experiment = &e,
                               .log = executions,
                               .count = CTAS * OF_EACH,
                               .ctas = CTAS,
                               .writers = writers,
                               .out = out,
                               .outputs = OUTPUTS,
                               .launch = launch,
                               .of = &made_up};

    made_up = as;
    for (uint64_t i = 0; i < DRAWS; ++i)
        e.drawn[i] = 1000 * i + 7;
    for (uint64_t i = 0; i < CTAS * OF_EACH; ++i) // each CTA runs one, and then each the other
        executions[i] = (struct execution){.cta = i % CTAS};
    for (uint64_t i = 0; i < OUTPUTS; ++i)
        writers[i] = i / 2 + 1;
    return spoil_all(&s);
}

// Several in a launch, and the first draws stand for all.
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

// One CTA's executions show in another's outputs: each draw has a launch of its own, and those of before are made again.
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

static void what_differs_by_itself(void **state)
{
    (void)state;
    assert_false(spoil((struct made_up){.differs = true}).repeats);
}

// Four operations of so many CTAs, at one address or each CTA at its own; or all find the same.
static double orders(int ctas, bool apart, bool same)
{
    enum { COUNT = 4 };
    struct execution log[COUNT] = {{.cta = 0}};
    const size_t ends[] = {COUNT};
    const struct ablation a = {.log = log, .logged = COUNT};

    for (uint64_t i = 0; i < COUNT; ++i) {
        log[i].cta = i % (uint64_t)ctas;
        log[i].of[0] = apart ? log[i].cta : 0;
        log[i].of[1] = same ? 7 : 10 + i;
    }
    return worked_on_of(&a, ends, 1).orders;
}

static void queues_are_asked_by_several(void **state)
{
    (void)state;
    assert_true(orders(4, false, false) == 1);
    assert_true(orders(4, false, true) == 0.25);
    assert_true(orders(4, true, false) == 0);
    assert_true(orders(2, false, false) == 1); // all that there are
    assert_true(orders(2, true, false) == 0);
    assert_true(orders(1, false, false) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_used),
        cmocka_unit_test(none_used),
        cmocka_unit_test(some_used),
        cmocka_unit_test(used_by_others),
        cmocka_unit_test(what_does_not_end),
        cmocka_unit_test(what_differs_by_itself),
        cmocka_unit_test(queues_are_asked_by_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
