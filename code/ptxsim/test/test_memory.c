// The simulated device's memory: bounds, gaps, use after free, sectors touched.
#include "ptxsim/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void test_an_allocation_is_found_by_its_bytes_and_no_others(void **state)
{
    (void)state;
    char *block = memory_alloc(1000);
    uint64_t base = address_of(block);
    const struct allocation *nearest = NULL;
    const struct allocation *a = memory_find(base, 1000, NULL);

    assert_non_null(a);
    assert_int_equal(a->base, base);
    assert_int_equal(a->size, 1000);
    assert_true(a->live);
    assert_int_equal(a->kind, MEMORY_DEVICE);
    assert_int_equal(base % 256, 0);
    assert_ptr_equal(memory_find(base + 999, 1, NULL), a);
    assert_ptr_equal(memory_find(base + 1000, 0, NULL), a); // zero bytes, just past the end
    assert_null(memory_find(base + 999, 2, &nearest));
    assert_ptr_equal(nearest, a);
    nearest = NULL;
    assert_null(memory_find(base + 500000, 4, &nearest)); // in the gap after the allocation
    assert_ptr_equal(nearest, a);
    assert_null(memory_find(base, UINT64_MAX, NULL)); // a length that wraps around
    assert_null(memory_find(base - 1, 1, &nearest));
    assert_ptr_not_equal(nearest, a);
    assert_true(memory_free(block));
}

static void test_memory_of_the_host_is_told_from_a_run_past_an_end(void **state)
{
    (void)state;
    int variable = 0;
    char *block = memory_alloc(1000);
    uint64_t base = address_of(block), page = (uint64_t)sysconf(_SC_PAGESIZE);

    assert_true(memory_of_host(address_of(&variable)));
    assert_true(memory_of_host(address_of(state)));
    assert_false(memory_of_host(base + 10));
    assert_false(memory_of_host(base + 1000));
    assert_false(memory_of_host(base + (1 << 20)));
    assert_false(memory_of_host(base - 1));
    assert_false(memory_of_host(page)); // nothing is there
    assert_true(memory_free(block));
    assert_false(memory_of_host(base + 10));
}

static void test_neighbours_have_a_gap(void **state)
{
    (void)state;
    enum { BLOCKS = 40 };
    char *blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; ++i)
        blocks[i] = memory_alloc((size_t)1 << i % 16);
    for (int i = 0; i < BLOCKS; ++i) {
        uint64_t base = address_of(blocks[i]), size = (uint64_t)1 << i % 16;
        assert_int_equal(memory_find(base, size, NULL)->base, base);
        for (uint64_t past = 0; past < 1 << 20; past += 4096)
            assert_null(memory_find(base + size + past, 1, NULL));
    }
    for (int i = 0; i < BLOCKS; i += 2)
        assert_true(memory_free(blocks[i]));
    for (int i = 1; i < BLOCKS; i += 2) {
        assert_int_equal(memory_find(address_of(blocks[i]), 1, NULL)->base, address_of(blocks[i]));
        assert_true(memory_free(blocks[i]));
    }
}

static void test_fresh_memory_is_poisoned(void **state)
{
    (void)state;
    unsigned char *block = memory_alloc(5000);
    for (int i = 0; i < 5000; ++i)
        assert_int_equal(block[i], 0xff);
    assert_true(memory_free(block));
    // Memory of these kinds is made of pages of the operating system, which are zeros.
    for (enum memory_kind kind = MEMORY_HOST; kind <= MEMORY_MANAGED; ++kind) {
        block = memory_alloc_kind(5000, kind);
        for (int i = 0; i < 5000; ++i)
            assert_int_equal(block[i], 0);
        assert_true(memory_free(block));
    }
}

static size_t resident_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// A large allocation takes memory only where it is touched, and so do the maps of its bytes.
static void test_untouched_memory_costs_nothing(void **state)
{
    (void)state;
    const size_t bytes = ((size_t)1 << 30) + 5000;
    size_t before = resident_bytes();
    unsigned char *block = memory_alloc(bytes);

    assert_non_null(block);
    memory_track(block);
    for (size_t at = 0; at < bytes; at += (size_t)37 << 20)
        assert_int_equal(block[at], 0xff);
    assert_int_equal(block[bytes - 1], 0xff);
    block[100 << 20] = 7; // no other byte may change
    for (size_t at = 4 << 20; at < bytes; at += (size_t)16 << 20)
        assert_int_equal(block[at], at == 100 << 20 ? 7 : 0xff);
    struct allocation *a = (struct allocation *)memory_find(address_of(block), bytes, NULL);
    a->sectors_read[0] = a->sectors_read[12345] = a->sectors_written[7] = 1;
    assert_int_equal(memory_touched_bytes(), 3 * 32);
    memory_touched_clear();
    assert_int_equal(memory_touched_bytes(), 0);
    assert_in_range(resident_bytes() - before, 0, 128 << 20);
    assert_true(memory_free(block));
}

static void test_freed_memory_is_remembered(void **state)
{
    (void)state;
    char *block = memory_alloc(4096);
    const struct allocation *nearest = NULL;

    assert_true(memory_free(block));
    assert_null(memory_find(address_of(block) + 8, 4, &nearest));
    assert_non_null(nearest);
    assert_int_equal(nearest->base, address_of(block));
    assert_false(nearest->live);
    assert_false(memory_free(block));
    for (int i = 0; i < 100; ++i) { // freed addresses are not given out again soon
        char *other = memory_alloc(4096);
        assert_ptr_not_equal(other, block);
        assert_true(memory_free(other));
    }
}

static void test_freed_memory_is_forgotten_in_the_end(void **state)
{
    (void)state;
    char *first = memory_alloc(4096);
    const struct allocation *nearest = NULL;

    assert_true(memory_free(first));
    for (int i = 0; i < 2000; ++i)
        assert_true(memory_free(memory_alloc(64)));
    assert_null(memory_find(address_of(first), 4, &nearest));
    assert_true(!nearest || nearest->base != address_of(first) || nearest->size != 4096);
}

static void test_only_the_start_of_an_allocation_can_be_freed(void **state)
{
    (void)state;
    char *block = memory_alloc(4096), stranger;
    assert_false(memory_free(block + 1));
    assert_false(memory_free(&stranger));
    assert_false(memory_free(NULL));
    assert_true(memory_free(block));
}

static void test_what_is_in_use_is_counted(void **state)
{
    (void)state;
    size_t before = memory_in_use();
    void *device = memory_alloc(1000), *managed = memory_alloc_kind(100, MEMORY_MANAGED);
    void *host = memory_alloc_kind(10, MEMORY_HOST);

    assert_int_equal(memory_in_use() - before, 1100);
    assert_true(memory_free(device));
    assert_true(memory_free(managed));
    assert_true(memory_free(host));
    assert_int_equal(memory_in_use(), before);
    assert_true(memory_capacity() <= (size_t)23034 << 20);
    assert_true(memory_capacity() > 1 << 20);
}

// All processes see the same device addresses, wherever the system puts the process itself.
static void test_addresses_are_the_same_in_every_process(void **state)
{
    (void)state;
    char line[2][64];
    for (int i = 0; i < 2; ++i) {
        FILE *child = popen("exec /proc/$PPID/exe address", "re");
        assert_non_null(child);
        assert_non_null(fgets(line[i], sizeof line[i], child));
        assert_int_equal(pclose(child), 0);
    }
    unsigned long device[2], own[2];
    for (int i = 0; i < 2; ++i)
        assert_int_equal(sscanf(line[i], "%lx %lx", &device[i], &own[i]), 2);
    assert_int_equal(device[0], device[1]);
    FILE *file = fopen("/proc/sys/kernel/randomize_va_space", "re");
    if (file && fgetc(file) == '2')
        assert_int_not_equal(own[0], own[1]);
    if (file)
        fclose(file);
}

static int print_addresses(void)
{
    printf("%lx %lx\n", (unsigned long)address_of(memory_alloc(1000)),
           (unsigned long)address_of(environ)); // an address on this process's stack
    return 0;
}

static void test_too_much_memory_is_refused(void **state)
{
    (void)state;
    assert_null(memory_alloc((size_t)24 << 30));
    assert_null(memory_alloc(SIZE_MAX));
    assert_null(memory_alloc(SIZE_MAX - 4096));
    assert_null(memory_alloc(0));
}

static void test_registered_memory_is_the_programs_own(void **state)
{
    (void)state;
    static char buffer[4096];
    size_t before = memory_in_use();

    assert_true(memory_register(buffer + 8, 1000));
    memset(buffer, 1, sizeof buffer);
    assert_int_equal(memory_find(address_of(buffer) + 8, 1000, NULL)->kind, MEMORY_REGISTERED);
    assert_null(memory_find(address_of(buffer), 16, NULL));
    assert_false(memory_register(buffer, 16));
    assert_false(memory_register(buffer + 1000, 16));
    assert_false(memory_register(buffer + 100, 16));
    assert_false(memory_register(buffer + 2000, 0));
    assert_false(memory_register(buffer, SIZE_MAX));
    assert_false(memory_register(NULL, 16));
    assert_true(memory_register(buffer + 1008, 16));
    assert_true(memory_free(buffer + 8));
    assert_true(memory_free(buffer + 1008));
    assert_int_equal(buffer[8], 1); // still there
    assert_int_equal(memory_in_use(), before);
}

static void test_touched_sectors_are_counted(void **state)
{
    (void)state;
    char *block = memory_alloc(1000);
    const struct allocation *a = memory_find(address_of(block), 1, NULL);

    memory_touched_clear();
    assert_int_equal(memory_touched_bytes(), 0);
    a->sectors_read[0] = a->sectors_read[31] = a->sectors_written[31] = 1;
    assert_int_equal(memory_touched_bytes(), 3 * 32);
    memory_touched_clear();
    assert_int_equal(memory_touched_bytes(), 0);
    a->sectors_written[0] = 1;
    assert_true(memory_free(block));
    assert_int_equal(memory_touched_bytes(), 0); // freed memory no longer counts
}

static struct note_run taken[8];
static size_t taken_count;

static void take(const struct note_run *run, void *data)
{
    assert_ptr_equal(data, taken);
    assert_in_range(taken_count, 0, 7);
    taken[taken_count++] = *run;
}

// notes_take passes on noted accesses once, as runs of bytes that were accessed in the same way.
// notes_take_sectors passes on the sectors that the last launch touched, of memory without notes.
static void test_notes_are_runs_of_bytes(void **state)
{
    (void)state;
    uint8_t *device = memory_alloc(100), *managed = memory_alloc_kind(200, MEMORY_MANAGED);
    struct allocation *a = (struct allocation *)memory_find(address_of(managed), 1, NULL);
    struct allocation *b = (struct allocation *)memory_find(address_of(device), 1, NULL);
    assert_null(b->notes);
    b->sectors_read[1] = b->sectors_written[3] = 1;
    memset(a->sectors_written, 1, 7);
    memset(a->notes + NOTE_WRITE * 200 + 3, 1, 150);
    a->notes[NOTE_STRONG_READ * 200 + 152] = 1;
    notes_take(take, taken);
    notes_take_sectors(take, taken);
    const struct note_run want[] = {
        {address_of(managed) + 3, address_of(managed) + 152, 1 << NOTE_WRITE},
        {address_of(managed) + 152, address_of(managed) + 153,
         1 << NOTE_WRITE | 1 << NOTE_STRONG_READ},
        {address_of(device) + 32, address_of(device) + 64, 1 << NOTE_READ},
        {address_of(device) + 96, address_of(device) + 100, 1 << NOTE_WRITE},
    };
    assert_int_equal(taken_count, 4);
    for (size_t i = 0; i < 4; ++i) {
        assert_int_equal(taken[i].start, want[i].start);
        assert_int_equal(taken[i].end, want[i].end);
        assert_int_equal(taken[i].kinds, want[i].kinds);
    }
    notes_take(take, taken);
    assert_int_equal(taken_count, 4);
    assert_true(memory_free(device));
    assert_true(memory_free(managed));
}

static struct {
    uint64_t at;
    bool writes;
} touches[4];
static int touch_count;

static void touched(uint64_t at, bool writes, uint64_t instruction)
{
    assert_int_not_equal(instruction, 0);
    assert_in_range(touch_count, 0, 3);
    touches[touch_count].at = at;
    touches[touch_count++].writes = writes;
}

// Each access to a shut page is passed on and carried out, and then the page is shut again.
static void test_shut_pages_hand_accesses_on(void **state)
{
    (void)state;
    volatile char *pinned = memory_alloc_kind(9000, MEMORY_HOST);
    memory_on_touch(touched);
    memory_shut(address_of((char *)pinned), 100, true);
    memory_shut(address_of((char *)pinned) + 5000, 1, false);
    assert_int_equal(pinned[0], 0); // open, until memory_close
    memory_close();
    assert_int_equal(pinned[200], 0);
    pinned[7] = 5;
    assert_int_equal(pinned[5000], 0); // this page is shut to writes only
    pinned[5001] = 6;
    assert_int_equal(pinned[8999], 0);
    assert_int_equal(touch_count, 3);
    static const int at[] = {200, 7, 5001};
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(touches[i].at, address_of((char *)pinned) + (uint64_t)at[i]);
        assert_int_equal(touches[i].writes, i > 0);
    }
    memory_unshut();
    assert_int_equal(pinned[7] + pinned[5001], 11);
    assert_int_equal(touch_count, 3);
    assert_true(memory_free((char *)pinned));
}

// Whether the host can read at an address. The system tells so without a page fault: write() fails
// with EFAULT.
static bool can_read(const void *address)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool can = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return can;
}

// The host cannot access guarded memory while it is closed, and can access other memory. Once
// memory has been closed about 256 times, it is not closed any more.
static void test_guarded_memory_is_closed_to_the_host(void **state)
{
    (void)state;
    char *guarded = memory_alloc(5000), *other = memory_alloc(100);
    memory_guard(guarded);
    guarded[4999] = 7;
    assert_true(can_read(guarded));
    memory_close();
    assert_false(can_read(guarded));
    assert_false(can_read(guarded + 4999));
    assert_true(can_read(other));
    char *late = memory_alloc(100);
    memory_guard(late); // while guarded memory is closed
    assert_false(can_read(late));
    assert_true(memory_free(late));
    memory_open();
    assert_int_equal(guarded[4999], 7);
    memory_close();
    assert_true(memory_free(guarded)); // while it is closed
    assert_true(memory_free(other));
    memory_open();
    guarded = memory_alloc(100);
    memory_guard(guarded);
    int times = 0;
    for (bool was_closed = true; was_closed && times < 1000; times += was_closed) {
        memory_close();
        was_closed = !can_read(guarded);
        memory_open();
    }
    assert_in_range(times, 200, 256);
    assert_true(memory_free(guarded));
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "address"))
        return print_addresses();

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_allocation_is_found_by_its_bytes_and_no_others),
        cmocka_unit_test(test_memory_of_the_host_is_told_from_a_run_past_an_end),
        cmocka_unit_test(test_neighbours_have_a_gap),
        cmocka_unit_test(test_fresh_memory_is_poisoned),
        cmocka_unit_test(test_untouched_memory_costs_nothing),
        cmocka_unit_test(test_freed_memory_is_remembered),
        cmocka_unit_test(test_freed_memory_is_forgotten_in_the_end),
        cmocka_unit_test(test_only_the_start_of_an_allocation_can_be_freed),
        cmocka_unit_test(test_what_is_in_use_is_counted),
        cmocka_unit_test(test_addresses_are_the_same_in_every_process),
        cmocka_unit_test(test_too_much_memory_is_refused),
        cmocka_unit_test(test_registered_memory_is_the_programs_own),
        cmocka_unit_test(test_touched_sectors_are_counted),
        cmocka_unit_test(test_notes_are_runs_of_bytes),
        cmocka_unit_test(test_shut_pages_hand_accesses_on),
        cmocka_unit_test(
            test_guarded_memory_is_closed_to_the_host), // last, since memory is closed 256 times at most
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
