// test_streams.cu: launches of chapter 21's program that may run at the same time. On a GPU two
// streams overlap; in the simulator one launch follows another, and the test sees whose scratch
// memory each of them wrote.
#define main chapters_main
#include "../ch21_decode.cu"
#undef main

#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wdeprecated-enum-enum-conversion"
#include "workbench/internal.h"
}

static const struct program decode = {
    .name = "ch21_decode",
    .launch_cache = launch,
    .code_place = code_place,
    .scale_place = scale_place,
    .scratch_bytes = scratch_bytes,
};

static struct device device;

#define assert_ok(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")

struct asked {
    struct problem problem;
    struct device_case on_device;
};

static struct asked ask(const char *text, uint64_t seed)
{
    struct asked a;
    struct shape shape;
    char why[200];

    assert_true(shape_parse(text, &shape, why, sizeof why));
    assert_true(problem_create(&a.problem, &shape, INPUT_MEAN, seed));
    case_create(&a.on_device, &device, &decode, &a.problem);
    case_poison(&a.on_device, &device);
    return a;
}

static void forget(struct asked *a)
{
    case_destroy(&a->on_device);
    problem_destroy(&a->problem);
}

static void assert_right(const struct asked *a)
{
    const struct shape *shape = &a->problem.shape;
    std::vector<uint16_t> out(shape_outputs(shape));
    std::vector<float> reference(shape_outputs(shape));
    struct rows all = {0, 1};

    assert_null(case_fetch(&a->on_device, &device, out.data()));
    assert_true(reference_dequantised(&a->problem, all, 0, reference.data()));
    struct error_metrics metrics = error_measure(shape, all, out.data(), reference.data());
    assert_true(gate_relative(&metrics, GATE_TOLERANCE));
}

static std::vector<uint8_t> scratch_of(const struct asked *a)
{
    std::vector<uint8_t> bytes(scratch_bytes(&a->on_device.cache));

    assert_ok(
        cudaMemcpy(bytes.data(), a->on_device.cache.scratch, bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
}

static bool all_zeros(const std::vector<uint8_t> &bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; ++i)
        if (bytes[i] != 0)
            return false;
    return true;
}

static void a_launch_leaves_the_scratch_of_another_alone(void **state)
{
    (void)state;
    struct asked one = ask("1x2x512q4p16", 1), other = ask("1x2x512q4p16", 2);

    size_t bytes = scratch_bytes(&one.on_device.cache), counts = offsetof(part_memory, parts);
    assert_true(bytes > counts);
    assert_ptr_not_equal(one.on_device.cache.scratch, other.on_device.cache.scratch);
    assert_true(all_zeros(scratch_of(&one), 0, bytes));
    assert_ok(case_run(&one.on_device, &device, &decode));
    assert_right(&one);
    assert_false(all_zeros(scratch_of(&one), counts, bytes)); // the launch's parts went here
    // The counters are zeros again, as the next launch expects.
    assert_true(all_zeros(scratch_of(&one), 0, counts));
    assert_true(all_zeros(scratch_of(&other), 0, bytes));
    forget(&one);
    forget(&other);
}

static void launches_of_two_streams_do_not_meet(void **state)
{
    (void)state;
    enum { LAUNCHES = 20 };
    struct asked asked[2] = {ask("1x2x1024q4p16", 3), ask("1x2x1024q4p16", 4)};
    cudaStream_t streams[2];

    for (cudaStream_t &stream : streams)
        assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < LAUNCHES; ++i)
        for (int j = 0; j < 2; ++j)
            assert_ok(case_launch(&asked[j].on_device, &decode, streams[j]));
    assert_ok(cudaDeviceSynchronize());
    for (int j = 0; j < 2; ++j) {
        assert_right(&asked[j]);
        forget(&asked[j]);
        assert_ok(cudaStreamDestroy(streams[j]));
    }
}

static void scratch_serves_smaller_shapes_too(void **state)
{
    (void)state;
    struct asked large = ask("1x2x1024q12p16", 5), small = ask("2x2x600q3p32r1", 6);

    assert_true(scratch_bytes(&small.on_device.cache) > 0);
    assert_true(scratch_bytes(&small.on_device.cache) <= scratch_bytes(&large.on_device.cache));
    void *own = small.on_device.cache.scratch;
    small.on_device.cache.scratch = large.on_device.cache.scratch;
    for (int i = 0; i < 2; ++i) {
        assert_ok(case_run(&large.on_device, &device, &decode));
        assert_right(&large);
        assert_ok(case_run(&small.on_device, &device, &decode));
        assert_right(&small);
    }
    small.on_device.cache.scratch = own;
    forget(&large);
    forget(&small);
}

static void only_a_split_head_needs_scratch(void **state)
{
    (void)state;
    struct asked whole = ask("1x2x100q4p16", 7), split = ask("1x2x512q4p16", 8);

    assert_int_equal(scratch_bytes(&whole.on_device.cache), 0);
    assert_null(whole.on_device.cache.scratch);
    assert_ok(case_run(&whole.on_device, &device, &decode));
    assert_right(&whole);
    void *own = split.on_device.cache.scratch;
    split.on_device.cache.scratch = NULL; // a launch without the scratch that it needs is refused
    assert_int_equal(case_launch(&split.on_device, &decode, device.stream), cudaErrorInvalidValue);
    split.on_device.cache.scratch = own;
    forget(&whole);
    forget(&split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_leaves_the_scratch_of_another_alone),
        cmocka_unit_test(launches_of_two_streams_do_not_meet),
        cmocka_unit_test(scratch_serves_smaller_shapes_too),
        cmocka_unit_test(only_a_split_head_needs_scratch),
    };
    char why[200];

    if (!device_open(&device, why, sizeof why)) {
        print_error("%s\n", why);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
